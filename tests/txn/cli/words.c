/* SPDX-License-Identifier: Apache-2.0 */
/* What the command says of wrong words, of journals that cannot be opened, and where there is nothing. */
#include "cases.h"

#include <sys/wait.h>

#define ELSEWHERE "00000001019a8c0d2f3a0123456789ab" /* an id of journal 00000001 */

/* On a screen of 24 lines and 80 columns. */
static void fits(const char *text)
{
    size_t lines = 0;

    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1, lines++)
        if (strcspn(line, "\n") > 80)
            fail_msg("too long: %.*s", (int)strcspn(line, "\n"), line);
    assert_in_range(lines, 5, 24);
}

static void helps(void **state)
{
    static const char *const commands[] = {"ls",      "show",    "outcome", "settle", "indoubt",
                                           "resolve", "recover", "gc",      "doctor"};
    (void)state;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const struct said *said = run(commands[i], "--help", NULL);
        assert_int_equal(said->code, 0);
        assert_non_null(strstr(said->out, commands[i]));
        assert_non_null(strstr(said->out, "Exit: "));
        assert_string_equal(said->err, "");
        fits(said->out);
    }
    assert_int_equal(run("--help", NULL)->code, 0);
    assert_int_equal(run("help", "gc", NULL)->code, 0);
    assert_int_equal(run("--version", NULL)->code, 0);
}

static void refuses_words(void **state)
{
    (void)state;
    refuses(64, "no command given", NULL);
    refuses(64, "unknown command 'list'", "list", NULL);
    refuses(64, "unknown command 'list'", "help", "list", NULL);
    refuses(64, "'--attn' is not known", "ls", "--attn", NULL);
    refuses(64, "exclude each other", "ls", "--all", "--attention", NULL);
    refuses(64, "needs a value", "gc", "--keep", NULL);
    refuses(64, "--keep '1d'", "gc", "--keep", "1d", NULL);
    refuses(64, "unexpected argument 'a'", "ls", "a", NULL);
    refuses(64, "unexpected argument 'b'", "doctor", "b", NULL);
    refuses(64, "the transaction id is missing", "outcome", NULL);
    refuses(64, "'12' is not an id", "outcome", "12", NULL);
    refuses(64, "is not an id", "show", "zz000001019a8c0d2f3a0123456789ab", NULL);
    refuses(64, "is not an id", "show", ELSEWHERE "-0", NULL);
    refuses(64, "is not an id", "show", ELSEWHERE "-00000000000g", NULL);
    refuses(64, "--commit and --abort", "resolve", "--commit", "--abort", ELSEWHERE, NULL);
    refuses(64, "is not a number", "resolve", "--abort", "--branch", "x", ELSEWHERE, NULL);
    refuses(64, "not for a branch", "resolve", "--done", "--branch", "1", ELSEWHERE, NULL);
    refuses(64, "not a time from 1s to 1h", "recover", "--every", "0", NULL);
    refuses(64, "--for needs --once", "recover", "--for", "5s", NULL);
    refuses(64, "not for --once", "recover", "--once", "--metrics", "x", NULL);
    refuses(74, "cannot write", "recover", "--metrics", "/nowhere/at/all", NULL);
    refuses(64, "at most 24h", "three", "--part", "a=http://h", "--promise", "25h", NULL);
    refuses(64, "more than 0", "three", "--part", "a=http://h", "--ready", "0", NULL);
    refuses(64, "not UTF-8", "three", "--part", "a=http://h", "--sql", "a=SELECT '\xe9'", NULL);
    refuses(64, "not UTF-8", "three", "--part", "\xe9=http://h", NULL);
}

static void ids_of_other_journals(void **state)
{
    (void)state;
    refuses(64, "belongs to journal 00000001", "outcome", ELSEWHERE, NULL);
    refuses(64, "belongs to journal 00000001", "settle", ELSEWHERE, NULL);
    refuses(64, "belongs to journal 00000001", "show", ELSEWHERE "-0123456789ab", NULL);
    refuses(64, "belongs to journal 00000001", "resolve", "--abort", "--yes", ELSEWHERE, NULL);
}

static void journals_that_cannot_be_opened(void **state)
{
    (void)state;
    refuses(64, "no journal for 'redis'", "--journal", "redis://127.0.0.1", "ls", NULL);
    refuses(69, "", "--journal", "postgres://nobody@127.0.0.1:1/none?connect_timeout=1", "ls",
            NULL);
    refuses(69, "", "--journal", "file:/proc/nowhere", "ls", NULL);
    refuses(64, "", "--journal", "no-such-name", "ls", NULL);
    refuses(64, "nowhere", "--resources", "/nowhere/at/all", "ls", NULL);
}

/* $ROTA_JOURNAL names it where --journal does not. */
static void journal_of_the_environment(void **state)
{
    char line[1200];

    (void)state;
    setenv("ROTA_JOURNAL", "redis://127.0.0.1", 1);
    snprintf(line, sizeof(line), "'%s' ls 2>/dev/null", program);
    assert_int_equal(WEXITSTATUS(system(line)), 64);
    assert_int_equal(run("ls", NULL)->code, 0);
    unsetenv("ROTA_JOURNAL");
}

static void nothing_there(void **state)
{
    struct left l = left_new(1794000000000, 60000);
    json_t *all = run_json(0, "ls", NULL);

    (void)state;
    assert_int_equal(json_array_size(json_object_get(all, "transactions")), 0);
    json_decref(all);
    all = run_json(75, "outcome", l.text, NULL);
    assert_string_equal(text_of(all, "stand"), "open");
    json_decref(all);
    all = run_json(1, "show", l.text, NULL);
    assert_string_equal(text_of(all, "state"), "unknown");
    json_decref(all);
    all = run_json(0, "indoubt", NULL);
    assert_int_equal(json_array_size(json_object_get(all, "prepared")), 0);
    assert_int_equal(json_array_size(json_object_get(all, "resources")), 2);
    json_decref(all);
    json_decref(run_json(0, "recover", "--once", "--for", "4m", NULL));
    json_decref(run_json(0, "gc", "--keep", "30d", NULL)); /* another case has what is younger */
    const struct said *said = run("ls", NULL);
    assert_int_equal(said->code, 0);
    assert_string_equal(said->out, "");
}

const struct CMUnitTest cases_words[] = {
    cmocka_unit_test(helps),
    cmocka_unit_test(refuses_words),
    cmocka_unit_test(ids_of_other_journals),
    cmocka_unit_test(journals_that_cannot_be_opened),
    cmocka_unit_test(journal_of_the_environment),
    cmocka_unit_test(nothing_there),
};
const size_t cases_words_count = sizeof(cases_words) / sizeof(cases_words[0]);
