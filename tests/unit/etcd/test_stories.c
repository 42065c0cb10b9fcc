/* SPDX-License-Identifier: Apache-2.0 */
/* Every op of the etcd engine as etcd sees it: which keys, on which lease, under which conditions, what is watched, and
 * what users are told. stories.txt is the test: a missing condition is a lost update (I1), a lease that is not ended
 * stays for years (I6), one more flight is twice the time.
 *
 *   test_etcd_stories [NAME]...     with ROTA_STORIES=1 each story is printed as it went */
#include "transcript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STORIES_MAX 64
#define WORDS_MAX 64

struct story {
    const char *name;
    char *text; /* its lines; steps are cut into words as they are done */
};

static int cookie; /* of observers */

/* ---- Words -------------------------------------------------------------------------------- */

static char *words[WORDS_MAX];
static size_t word_count, next_word;

static void cut_into_words(char *line)
{
    char *save = NULL;
    word_count = next_word = 0;
    for (char *w = strtok_r(line, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        assert_true(word_count < WORDS_MAX);
        words[word_count++] = w;
    }
}

static char *word(void) /* NULL: there are no more */
{
    return next_word < word_count ? words[next_word++] : NULL;
}

static bool take(const char *wanted) /* the next, if it is that */
{
    bool is = next_word < word_count && strcmp(words[next_word], wanted) == 0;
    next_word += is;
    return is;
}

/* What follows KEY in the next word, if it begins with it; else NULL. */
static char *take_after(const char *key)
{
    size_t n = strlen(key);
    if (next_word == word_count || strncmp(words[next_word], key, n) != 0)
        return NULL;
    return words[next_word++] + n;
}

static bool take_number(const char *key, int base, uint64_t *number)
{
    const char *text = take_after(key);
    if (text != NULL)
        *number = strtoull(text, NULL, base);
    return text != NULL;
}

static const char *take_name(void)
{
    const char *name = word();
    assert_non_null(name);
    return strcmp(name, "''") == 0 ? "" : name;
}

static void no_more_words(void)
{
    if (next_word < word_count)
        fail_msg("'%s' is not understood", words[next_word]);
}

/* ---- Steps -------------------------------------------------------------------------------- */

static bool take_flag(struct rt_join *j)
{
    static const struct {
        const char *word;
        uint32_t mode, flags;
    } known[] = {{"shared", RT_SHARED, 0},      {"permits", RT_PERMITS, 0},
                 {"count", RT_COUNT, 0},        {"gather", RT_GATHER, 0},
                 {"try", 0, RT_JOIN_TRY},       {"arm", 0, RT_JOIN_ARM},
                 {"detect", 0, RT_JOIN_DETECT}, {"durable", 0, RT_JOIN_DURABLE}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!take(known[i].word))
            continue;
        j->mode |= known[i].mode;
        j->flags |= known[i].flags;
        return true;
    }
    return false;
}

static bool take_term(struct rt_join *j)
{
    const char *value;
    uint64_t n;
    if (take_number("nonce=", 10, &j->nonce) || take_number("owner=", 10, &j->owner) ||
        take_number("session=", 10, &j->session) || take_flag(j))
        return true;
    if (take_number("take=", 10, &n))
        j->take = (uint32_t)n;
    else if (take_number("of=", 10, &n))
        j->of = (uint32_t)n;
    else if (take_number("until=", 10, &n))
        j->until_ms = (int64_t)n;
    else if (take_number("at_least=", 10, &n))
        j->at_least_ms = (int64_t)n;
    else if ((value = take_after("value=")) != NULL)
        j->value = value;
    else
        return false;
    return true;
}

static void do_joins(char who)
{
    struct rt_join joins[4] = {{0}};
    size_t n = 0;
    uint64_t at;
    do {
        assert_true(n < 4);
        joins[n].name = take_name();
        while (take_term(&joins[n]))
            ;
        n++;
    } while (take("+"));
    transcript_swallows = take_number("swallowed=", 10, &at);
    if (transcript_swallows || take_number("canceled=", 10, &at))
        transcript_cancel_at = (int)at;
    transcript_hasty = take("hastily");
    join_all(who, joins, n);
    transcript_swallows = false;
}

static void do_leaves(char who)
{
    const char *name = take_name();
    uint64_t number = 0, nonce = 0, session = 0;
    take_number("#", 10, &number);
    take_number("nonce=", 10, &nonce);
    bool untold = take("untold"), durable = take_number("session=", 10, &session);
    transcript_hasty = take("hastily");
    if (durable)
        leave_durable(who, name, session, nonce);
    else if (untold)
        leave_untold(who, name, number);
    else
        leave(who, name, number, nonce);
}

static void do_changes(char who)
{
    const char *name = take_name(), *value;
    uint64_t number = 0;
    uint32_t what = 0;
    take_number("#", 10, &number);
    what |= take("downgrade") ? RT_CHANGE_DOWNGRADE : 0;
    what |= take("arm") ? RT_CHANGE_ARM : 0;
    what |= (value = take_after("value=")) != NULL ? RT_CHANGE_VALUE : 0;
    transcript_hasty = take("hastily");
    change(who, name, number, what, value);
}

static void do_breaks(char who)
{
    const char *name = take_name();
    uint64_t number = 0;
    take_number("#", 10, &number);
    break_it(who, name, number, take("count") ? RT_COUNT : 0);
}

static void do_beats(char who)
{
    uint64_t ticket;
    if (take_number("#", 10, &ticket))
        beat_with(who, ticket);
    else
        beat(who, false);
}

static void do_person(char who)
{
    if (take("connects"))
        person_open(who);
    else if (take("opens"))
        beat(who, true);
    else if (take("beats"))
        do_beats(who);
    else if (take("parts"))
        end_session(who);
    else if (take("joins"))
        do_joins(who);
    else if (take("leaves"))
        do_leaves(who);
    else if (take("changes"))
        do_changes(who);
    else if (take("breaks"))
        do_breaks(who);
    else if (take("observes"))
        observe(who, take_name(), &cookie, false);
    else if (take("unobserves"))
        observe(who, take_name(), &cookie, true);
    else if (take("is-cut")) {
        town_cut(person(who));
        transcript_run();
    }
}

static void do_people(void)
{
    size_t first = next_word;
    for (size_t i = first; i < word_count; i++)
        person_open(words[i][0]);
    for (const char *who; (who = word()) != NULL;)
        beat(who[0], true);
    transcript_forget();
}

static void do_others(void)
{
    uint64_t lease = 0;
    if (take("delete")) {
        others_delete(take_name());
        return;
    }
    assert_true(take("put"));
    const char *key = take_name();
    char value[64];
    snprintf(value, sizeof(value), "%s", take_name());
    for (char *p = value; *p != '\0'; p++)
        *p = *p == '_' ? ' ' : *p;
    take_number("on=", 16, &lease);
    others_put(key, value, (int64_t)lease);
}

/* One step; what follows from it is in the transcript. */
static void do_step(char *line)
{
    uint64_t n = 0;
    transcript_hasty = false;
    cut_into_words(line);
    if (words[0][1] == '\0') {
        next_word = 1;
        do_person(words[0][0]);
    } else if (take("people")) {
        do_people();
    } else if (take("others")) {
        do_others();
    } else if (take_number("lease=", 16, &n)) {
        assert_true(take("ends"));
        lease_ends((int64_t)n);
    } else if (take("rights")) {
        transcript_refuses = !take("are-back");
        assert_true(!transcript_refuses || take("are-taken"));
    } else if (take_number("keys=", 10, &n)) {
        assert_int_equal(transcript_store.count, n);
    } else if (take("time-passes")) {
        transcript_run();
    }
    no_more_words();
}

/* ---- Stories ------------------------------------------------------------------------------ */

/* Appends the lines at *AT that are indented, each as the transcript has it; *AT is the next step. */
static void take_expected(char **at, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    while (**at == ' ' || **at == '\n') {
        size_t n = strcspn(*at, "\n"), skip = strspn(*at, " ");
        if (n > 0 && skip == 8 && used > 0)
            out[used - 1] = ' '; /* goes on from the line above */
        if (n > 0)
            used += (size_t)snprintf(out + used, size - used, "%.*s\n", (int)(n - skip),
                                     *at + skip);
        assert_true(used < size);
        *at += n + ((*at)[n] == '\n');
    }
}

static char *next_line(char **at)
{
    char *line = *at;
    size_t n = strcspn(line, "\n");
    *at += n + (line[n] == '\n');
    line[n] = '\0';
    return line;
}

static void play(void **state)
{
    const struct story *story = *state;
    static char expected[32768];
    bool shown = getenv("ROTA_STORIES") != NULL, same = true;
    (void)transcript_begin(NULL);
    if (shown)
        print_message("## %s\n", story->name);
    for (char *at = story->text; *at != '\0';) {
        char step[512];
        char *line = next_line(&at);
        snprintf(step, sizeof(step), "%s", line);
        do_step(line);
        take_expected(&at, expected, sizeof(expected));
        bool right = strcmp(expected, transcript_text()) == 0;
        if (shown || !right)
            print_message("%s\n%s", step, transcript_text());
        same = same && right;
        transcript_forget();
    }
    (void)transcript_end(NULL);
    if (!same)
        fail_msg("%s: what is above is not what stories.txt says", story->name);
}

/* ---- The file ----------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t room = 1 << 20;
    char *text = calloc(1, room);
    assert_non_null(text);
    assert_true(fread(text, 1, room - 1, file) > 0);
    fclose(file);
    return text;
}

/* Comments are blanked to empty lines; a heading begins a story, and ends the one before. */
static size_t find_stories(char *text, struct story *stories)
{
    size_t count = 0;
    for (char *line = text, *next; *line != '\0'; line = next) {
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] == '\n');
        if (strncmp(line, "## ", 3) == 0) {
            assert_true(count < STORIES_MAX && *next != '\0');
            line[0] = line[n] = '\0';
            stories[count++] = (struct story){line + 3, next};
        } else if (line[0] == '#') {
            memset(line, '\n', n);
        }
    }
    return count;
}

int main(int argc, char **argv)
{
    static struct story stories[STORIES_MAX];
    static struct CMUnitTest tests[STORIES_MAX];
    char *text = read_file(STORIES);
    size_t count = find_stories(text, stories), chosen = 0;
    for (size_t i = 0; i < count; i++) {
        bool wanted = argc < 2;
        for (int k = 1; k < argc; k++)
            wanted = wanted || strcmp(argv[k], stories[i].name) == 0;
        stories[i].text += strspn(stories[i].text, "\n");
        if (wanted)
            tests[chosen++] = (struct CMUnitTest){
                .name = stories[i].name, .test_func = play, .initial_state = &stories[i]};
    }
    int failed = _cmocka_run_group_tests("stories", tests, chosen, NULL, NULL);
    free(text);
    return failed;
}
