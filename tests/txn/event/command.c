/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn events, on the database of the test. */
#include "office.h"

#include "engines.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define KEYS                                                                                    \
    "id event_id state topic key type bytes age_ms changed_ms attempts next_ms reason payload " \
    "payload_hex"

struct said {
    int code;
    size_t size;
    char text[70000];
};

/* WORDS is for a shell. FULL: --from is among them. */
static struct said *say(const char *words, bool full)
{
    static struct said said;
    char *url = HERE->site->url(0), line[2000];

    snprintf(line, sizeof(line), "%s events %s%s%s%s 2>&1 </dev/null", ROTA_TXN, words,
             full ? "" : " --from '", full ? "" : url, full ? "" : "'");
    FILE *pipe = popen(line, "re");
    assert_non_null(pipe);
    said.size = fread(said.text, 1, sizeof(said.text) - 1, pipe);
    said.text[said.size] = '\0';
    int status = pclose(pipe);
    said.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    free(url);
    return &said;
}

static const char *says(int code, const char *words)
{
    const struct said *said = say(words, false);

    if (said->code != code)
        fail_msg("events %s: %d\n%s", words, said->code, said->text);
    return said->text;
}

static void refuses(int code, const char *line, const char *words)
{
    const struct said *said = say(words, strstr(words, "--from") != NULL);

    if (said->code != code || strstr(said->text, line) == NULL ||
        strchr(said->text, '\n') != said->text + said->size - 1)
        fail_msg("events %s: %d\n%s", words, said->code, said->text);
}

static json_t *read_json(int code, const char *words)
{
    char line[500];
    json_error_t error;

    snprintf(line, sizeof(line), "%s --json", words);
    json_t *all = json_loads(says(code, line), 0, &error);
    if (all == NULL)
        fail_msg("events %s: %s", line, error.text);
    return all;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static long long number_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);

    assert_true(json_is_integer(number));
    return json_integer_value(number);
}

/* One new and in trouble, one published, one processed, two dead (key k2; one of them of the topic other), one of
 * bytes. */
enum { TROUBLED, SENT, OVER, DEAD, BYTES, OTHER, EVENTS };
static long long row[EVENTS];

static void furnish(void)
{
    void *conn = office_conn();
    const struct rota_event bytes = {.topic = "t", .payload = "\x00\xff\x1b[2J", .size = 6};
    const struct rota_event other = {.topic = "other", .key = "k2", .payload = "six", .size = 3};

    office_empty();
    for (int i = 0; i < 4; i++) {
        static const char *const payloads[] = {"one\nline", "two", "three", "four"};
        office_put(i == 3 ? "k2" : "k1", payloads[i]);
    }
    office_sql(conn, "%s", HERE->begin);
    assert_int_equal(HERE->put(conn, &bytes), 0);
    assert_int_equal(HERE->put(conn, &other), 0);
    office_sql(conn, "COMMIT");
    office_close(conn);
    struct rt_store *s = office_store(NULL, NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, EVENTS);
    for (size_t i = 0; i < EVENTS; i++)
        row[i] = c.rows[i].id;
    const struct rt_store_mark marks[] = {
        {.id = row[TROUBLED], .what = RT_MARK_TROUBLE, .next_in_ms = 3600000, .reason = "full"},
        {.id = row[SENT], .what = RT_MARK_PUBLISHED},
        {.id = row[OVER], .what = RT_MARK_PUBLISHED},
        {.id = row[DEAD], .what = RT_MARK_DEAD, .reason = "no \x1b[31msuch stream"},
        {.id = row[OTHER], .what = RT_MARK_DEAD, .reason = "too large"},
    };
    assert_int_equal(rt_store_turn(s, marks, 5, 0, NULL, NULL), 0);
    rt_store_close(s);
    office_admin("UPDATE rota_event SET state = 'processed' WHERE id = %lld", row[OVER]);
}

static void lists(void **state)
{
    char words[200];

    (void)state;
    furnish();
    json_t *all = read_json(0, "ls");
    const json_t *events = json_object_get(all, "events");
    assert_int_equal(json_array_size(events), 5);
    assert_true(json_is_null(json_object_get(all, "next")));
    const json_t *first = json_array_get(events, 0);
    assert_int_equal(json_object_size(first), 12);
    for (const char *key = KEYS; strncmp(key, "payload", 7) != 0; key += strcspn(key, " ") + 1) {
        snprintf(words, sizeof(words), "%.*s", (int)strcspn(key, " "), key);
        assert_non_null(json_object_get(first, words));
    }
    assert_string_equal(text_of(first, "state"), "new");
    assert_string_equal(text_of(first, "reason"), "full");
    assert_int_equal(number_of(first, "attempts"), 1);
    assert_true(number_of(first, "next_ms") > 3000000);
    snprintf(words, sizeof(words), "ls --all --limit 2 --after %s", text_of(first, "id"));
    json_decref(all);
    all = read_json(0, words);
    assert_int_equal(json_array_size(json_object_get(all, "events")), 2);
    snprintf(words, sizeof(words), "%lld", row[OVER]);
    assert_string_equal(text_of(all, "next"), words);
    json_decref(all);
    const char *const filters[][2] = {{"--state processed", "1"}, {"--state new,dead", "4"},
                                      {"--topic other", "1"},     {"--key k1", "2"},
                                      {"--all --key k1", "3"},    {"--key k2 --topic orders", "1"},
                                      {"--topic nowhere", "0"}};
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
        snprintf(words, sizeof(words), "ls %s", filters[i][0]);
        all = read_json(0, words);
        assert_int_equal(json_array_size(json_object_get(all, "events")), atoi(filters[i][1]));
        json_decref(all);
    }
    const char *text = says(0, "ls");
    assert_non_null(strstr(text, "refused 1 time, next in 59 min"));
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(says(0, "ls --limit 1"), "there are more: --after "));
    text = says(1, "dead");
    assert_non_null(strstr(text, "no ?[31msuch stream\n"));
    assert_non_null(strstr(text, "too large"));
    all = read_json(1, "dead --topic other");
    assert_int_equal(json_array_size(json_object_get(all, "events")), 1);
    json_decref(all);
}

static void shows(void **state)
{
    char words[200];

    (void)state;
    furnish();
    snprintf(words, sizeof(words), "show %lld", row[TROUBLED]);
    const char *text = says(0, words);
    assert_non_null(strstr(text, "payload   8 bytes, text:\none\nline\n"));
    assert_non_null(strstr(text, "why       full\n"));
    json_t *all = read_json(0, words);
    assert_string_equal(text_of(all, "payload"), "one\nline");
    assert_true(json_is_null(json_object_get(all, "payload_hex")));
    assert_int_equal(json_object_size(all), 14);
    snprintf(words, sizeof(words), "show --raw %s", text_of(all, "event_id"));
    json_decref(all);
    assert_string_equal(says(0, words), "one\nline");
    snprintf(words, sizeof(words), "show %lld", row[BYTES]);
    assert_non_null(strstr(says(0, words), "00000000  00 ff 1b 5b 32 4a"));
    all = read_json(0, words);
    assert_string_equal(text_of(all, "payload_hex"), "00ff1b5b324a");
    json_decref(all);
    snprintf(words, sizeof(words), "show --raw %lld", row[BYTES]);
    const struct said *said = say(words, false);
    assert_int_equal(said->size, 6);
    assert_memory_equal(said->text, "\x00\xff\x1b[2J", 6);
    refuses(1, "there is no event '999999999'", "show 999999999");
    refuses(1, "there is no event 'nothing'", "show nothing");
    char *large = malloc(10001);
    assert_non_null(large);
    memset(large, 'x', 10000);
    large[10000] = '\0';
    office_put("k9", large);
    free(large);
    snprintf(words, sizeof(words), "show %lld", office_number("SELECT MAX(id) FROM rota_event"));
    assert_non_null(strstr(says(0, words), "... and 5904 more bytes: --raw prints all of it\n"));
}

static void replays(void **state)
{
    char words[200], published[100];

    (void)state;
    furnish();
    snprintf(published, sizeof(published), "%lld", row[SENT]);
    snprintf(words, sizeof(words), "replay %s", published);
    refuses(75, "is published, not dead: --again", words);
    snprintf(words, sizeof(words), "replay %s nothing %lld --json", published, row[DEAD]);
    const char *text = says(75, words);
    assert_non_null(strstr(text, "\"replayed\": 1"));
    assert_non_null(strstr(text, "\"left\": 2"));
    assert_int_equal(office_count("new"), 3);
    assert_int_equal(
        office_number("SELECT COUNT(*) FROM rota_event_trouble WHERE event = %lld", row[DEAD]), 0);
    snprintf(words, sizeof(words), "replay %lld", row[DEAD]);
    refuses(75, "is new: there is nothing to replay", words);
    snprintf(words, sizeof(words), "replay --again %s", published);
    assert_non_null(strstr(says(0, words), "1 event is new again"));
    assert_int_equal(office_count("published"), 0);
    snprintf(words, sizeof(words), "replay %lld", row[TROUBLED]);
    assert_non_null(strstr(says(0, words), "1 event is new again")); /* it need not wait */
    refuses(64, "there is nobody to ask: use --yes", "replay --all");
    assert_int_equal(office_count("dead"), 1);
    assert_non_null(strstr(says(0, "replay --all --yes --topic t"), "none is dead"));
    assert_non_null(strstr(says(0, "replay --all --yes"), "1 event is new again"));
    assert_int_equal(office_count("dead"), 0);
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_event_trouble"), 0);
    assert_string_equal(says(0, "dead"), "");
}

/* Somebody works on the row, or has forgotten to end that: the server's own words help nobody. */
static void replays_what_another_has_locked(void **state)
{
    char words[100], line[100];
    void *other = office_conn();

    (void)state;
    furnish();
    office_sql(other, "%s", HERE->begin);
    office_sql(other, "UPDATE rota_event SET type = 'held' WHERE id = %lld", row[DEAD]);
    snprintf(words, sizeof(words), "replay %lld", row[DEAD]);
    snprintf(line, sizeof(line), "'%lld' is locked by another transaction", row[DEAD]);
    refuses(75, line, words);
    refuses(75, "are locked by another transaction", "replay --all --yes");
    office_sql(other, "ROLLBACK");
    assert_non_null(strstr(says(0, words), "1 event is new again"));
    office_close(other);
}

/* More than a page of them. */
static void replays_all(void **state)
{
    (void)state;
    office_empty();
    office_put("k", "x");
    for (int n = 1; n < 2500; n *= 2)
        office_admin(
            "INSERT INTO rota_event (topic, msg_key, payload, state) SELECT topic, msg_key, "
            "payload, 'dead' FROM rota_event");
    long long dead = office_count("dead");
    assert_true(dead > 2000);
    char line[100];
    snprintf(line, sizeof(line), "%lld events are new again: a relay will publish them\n", dead);
    assert_string_equal(says(0, "replay --all --yes"), line);
    assert_int_equal(office_count("dead"), 0);
}

static void counts(void **state)
{
    (void)state;
    furnish();
    json_t *all = read_json(0, "stats");
    const json_t *each = json_object_get(all, "counts"),
                 *lately = json_object_get(all, "last_minute");
    assert_int_equal(number_of(each, "new"), 2);
    assert_int_equal(number_of(each, "published"), 1);
    assert_int_equal(number_of(each, "processed"), 1);
    assert_int_equal(number_of(each, "dead"), 2);
    assert_int_equal(number_of(all, "troubled"), 1);
    assert_int_equal(json_array_size(json_object_get(all, "more")), 0);
    assert_true(number_of(all, "oldest_new_ms") >= 0);
    assert_true(number_of(all, "oldest_published_ms") >= 0);
    assert_int_equal(number_of(lately, "written"), 6);
    assert_int_equal(number_of(lately, "processed"), 1);
    assert_int_equal(number_of(lately, "published"), 1);
    assert_int_equal(json_object_size(all), 6);
    json_decref(all);
    assert_non_null(strstr(says(0, "stats"), "the oldest has waited for its relay for"));
}

static void an_old_table_by_its_map(void **state)
{
    static const char map[] = " --map \"" ORDERS "\"";
    char words[600];

    (void)state;
    office_admin("DELETE FROM tbl_order_event");
    office_admin("DELETE FROM rota_event_trouble");
    office_admin(
        "INSERT INTO tbl_order_event (order_type, process, content) VALUES ('paid', 'new', "
        "'{}')");
    struct rt_store *s = office_store(ORDERS, NULL);
    struct claim c = claim(s, 1);
    mark_all(s, &c, RT_MARK_DEAD, "no");
    rt_store_close(s);
    snprintf(words, sizeof(words), "dead%s", map);
    json_t *all = read_json(1, words);
    const json_t *event = json_array_get(json_object_get(all, "events"), 0);
    assert_string_equal(text_of(event, "state"), "dead");
    snprintf(words, sizeof(words), "replay %s%s", text_of(event, "event_id"), map);
    json_decref(all);
    assert_non_null(strstr(says(0, words), "1 event is new again"));
    snprintf(words, sizeof(words), "stats%s", map);
    all = read_json(0, words);
    assert_int_equal(number_of(json_object_get(all, "counts"), "new"), 1);
    assert_int_equal(number_of(json_object_get(all, "counts"), "dead"), 0);
    json_decref(all);
    refuses(64, "there is no table elsewhere",
            "ls --map table=elsewhere,id=id,topic=t,payload=p,state=s");
}

static void wrong_words(void **state)
{
    (void)state;
    refuses(64, "--from is missing", "ls --from ''");
    refuses(64, "is not a database for events", "ls --from redis://127.0.0.1");
#if ROTA_ENGINE_POSTGRES
    refuses(69, "", "ls --from postgres://nobody@127.0.0.1:1/none?connect_timeout=1");
#endif
    refuses(64, "no command given: ls, show, replay, dead or stats", "");
    refuses(64, "'list': ls, show", "list");
    refuses(64, "--raw is not for ls", "ls --raw");
    refuses(64, "--limit '0' is not a number", "ls --limit 0");
    refuses(64, "--state 'old'", "ls --state old");
    refuses(64, "exclude each other", "ls --all --state new");
    refuses(64, "exclude each other", "show --raw --json 1");
    refuses(64, "which one?", "show");
    refuses(64, "unexpected argument '2'", "show 1 2");
    refuses(64, "which ones?", "replay");
    refuses(64, "not with an id", "replay --all 1");
    refuses(64, "are for --all", "replay --topic t 1");
    refuses(64, "--map: ", "ls --map table=t");
}

const struct CMUnitTest cases_command[] = {
    cmocka_unit_test(lists),
    cmocka_unit_test(shows),
    cmocka_unit_test(replays),
    cmocka_unit_test(replays_all),
    cmocka_unit_test(replays_what_another_has_locked),
    cmocka_unit_test(counts),
    cmocka_unit_test(an_old_table_by_its_map),
    cmocka_unit_test(wrong_words),
};
const size_t cases_command_count = sizeof(cases_command) / sizeof(cases_command[0]);
