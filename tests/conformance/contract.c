/* SPDX-License-Identifier: Apache-2.0 */
/* What engine.h says and rota.h does not show: contract URL. How often OBSERVE tells, and with which error and words
 * OBSERVE, INSPECT, LIST and CHECK end, the same on every engine. */
#include "engine/name.h"
#include "lib/user.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BEATS 8

static const char *url;
static char text[600];
static char prefix[64];
static struct user a, b;

static const char *named(const char *tail)
{
    static char name[96];
    (void)snprintf(name, sizeof(name), "%s%s", prefix, tail);
    return name;
}

static int begin(void **state)
{
    (void)state;
    user_start(&a, url, 0);
    user_start(&b, url, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    user_close(&b);
    user_close(&a);
    return 0;
}

static int observe(struct user *u, const char *name, void *cookie, bool stop)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .deadline = RT_NEVER};
    op.observe.name = name;
    op.observe.cookie = cookie;
    op.observe.stop = stop;
    return user_do(u, &op);
}

static size_t changes(const struct user *u)
{
    size_t n = 0;
    for (size_t i = 0; i < u->told_count; i++)
        n += u->told[i].kind == RT_CHANGED;
    return n;
}

/* Whether elections work: a ticket has a value, and whoever waits is in the line for all to see. Elsewhere it is
 * refused before anything is sent. */
static bool has_values(void)
{
    struct rt_join join = {.value = "v"};
    if ((a.conn->engine->caps(a.conn) & ROTA_CAP_ORDER) != 0)
        return true;
    assert_int_equal(user_join(&a, named("value"), &join), ROTA_UNSUPPORTED);
    assert_int_equal(user_lines(&b, named("value")), 0);
    return false;
}

/* What others see of it: nothing where numbers are not fences. */
static uint64_t shown(uint64_t number)
{
    return (a.conn->engine->caps(a.conn) & ROTA_CAP_FENCE) != 0 ? number : 0;
}

/* ---- How often OBSERVE tells -------------------------------------------------------------------- */

/* However often it is looked at: a heartbeat looks, and what happens in another line or client may cause a look. */
static void test_unchanged_is_told_once(void **state)
{
    struct rt_join held = {0}, beside = {0};
    char name[96];
    int cookie;
    (void)state;
    held.value = has_values() ? "v" : NULL;
    (void)snprintf(name, sizeof(name), "%s", named("x"));
    assert_int_equal(user_join(&a, name, &held), 0);
    assert_int_equal(observe(&b, name, &cookie, false), 0);
    size_t first = user_hear(&b, RT_CHANGED, 0, 0);
    assert_true(b.told[first].fence == shown(held.number) && b.told[first].count == 1);
    assert_string_equal(b.told[first].value, held.value != NULL ? "v" : "");
    for (int i = 0; i < BEATS; i++) {
        assert_int_equal(user_beat(&a), 0);
        assert_int_equal(user_beat(&b), 0);
        char other[96];
        (void)snprintf(other, sizeof(other), "%s", named("y"));
        beside = (struct rt_join){0};
        assert_int_equal(user_join(&b, other, &beside), 0);
        assert_int_equal(user_leave(&b, other, beside.number), 0);
    }
    assert_int_equal(changes(&b), 1);
    assert_int_equal(user_leave(&a, name, held.number),
                     0); /* what is told next is that it changed */
    size_t second = user_hear(&b, RT_CHANGED, 0, first + 1);
    assert_true(b.told[second].fence == 0 && b.told[second].count == 0);
    for (int i = 0; i < BEATS; i++)
        assert_int_equal(user_beat(&b), 0);
    assert_int_equal(changes(&b), 2);
    assert_int_equal(observe(&b, NULL, &cookie, true), 0);
}

/* Whoever asks again has forgotten what it was told. */
static void test_asked_again_is_told_again(void **state)
{
    char name[96];
    int cookie, other;
    (void)state;
    (void)snprintf(name, sizeof(name), "%s", named("x"));
    assert_int_equal(observe(&b, name, &cookie, false), 0);
    size_t at = user_hear(&b, RT_CHANGED, 0, 0);
    assert_int_equal(observe(&b, name, &cookie, false), 0);
    at = user_hear(&b, RT_CHANGED, 0, at + 1);
    assert_int_equal(observe(&b, name, &other, false),
                     0); /* another of the same line is told for itself */
    (void)user_hear(&b, RT_CHANGED, 0, at + 1);
    assert_int_equal(user_beat(&b), 0);
    assert_int_equal(changes(&b), 3);
    assert_int_equal(observe(&b, name, &cookie, true), 0);
    assert_int_equal(observe(&b, name, &other, true), 0);
    assert_int_equal(observe(&b, name, &other, true), 0); /* there is none any more: again */
}

/* Runs turns until B was told of NAME with this value, this count and this fence. A look already under way may tell
 * the previous state once more. */
static size_t hear_state(size_t at, const char *value, size_t count, uint64_t fence)
{
    do
        at = user_hear(&b, RT_CHANGED, 0, at + 1);
    while (strcmp(b.told[at].value, value) != 0 || b.told[at].count != count ||
           b.told[at].fence != fence);
    return at;
}

static void change_value(const char *name, uint64_t number, const char *value)
{
    struct rt_op change = {.kind = RT_OP_CHANGE, .deadline = RT_NEVER};
    change.change.name = name;
    change.change.session = a.session;
    change.change.number = number;
    change.change.what = RT_CHANGE_VALUE;
    change.change.value = value;
    assert_int_equal(user_do(&a, &change), 0);
}

/* A change of the value, of the count, and of the holder: each is another state. */
static void test_each_difference_is_told(void **state)
{
    struct rt_join held = {.value = "one"}, waits = {0};
    char name[96];
    int cookie;
    (void)state;
    if (!has_values())
        skip();
    (void)snprintf(name, sizeof(name), "%s", named("x"));
    assert_int_equal(user_join(&a, name, &held), 0);
    assert_int_equal(observe(&b, name, &cookie, false), 0);
    size_t at = user_hear(&b, RT_CHANGED, 0, 0);
    change_value(name, held.number, "two");
    at = hear_state(at, "two", 1, held.number);
    assert_int_equal(user_join(&b, name, &waits), 0);
    at = hear_state(at, "two", 2, held.number);
    assert_int_equal(user_leave(&a, name, held.number), 0);
    at = hear_state(at, "", 1, waits.number);
    assert_int_equal(user_leave(&b, name, waits.number), 0);
    assert_int_equal(observe(&b, NULL, &cookie, true), 0);
}

static void both_beat(void)
{
    assert_int_equal(user_beat(&a), 0);
    assert_int_equal(user_beat(&b), 0);
}

/* Where nobody sees who waits, only the holder changes. */
static void test_each_holder_is_told(void **state)
{
    char name[96];
    int cookie;
    (void)state;
    (void)snprintf(name, sizeof(name), "%s", named("x"));
    assert_int_equal(observe(&b, name, &cookie, false), 0);
    size_t at = user_hear(&b, RT_CHANGED, 0, 0);
    for (int i = 0; i < 2; i++) {
        struct rt_join join = {0};
        both_beat(); /* looking only now and then takes time */
        assert_int_equal(user_join(&a, name, &join), 0);
        at = hear_state(at, "", 1, shown(join.number));
        both_beat();
        assert_int_equal(user_leave(&a, name, join.number), 0);
        at = hear_state(at, "", 0, 0);
    }
    assert_int_equal(observe(&b, NULL, &cookie, true), 0);
}

/* ---- Errors and their words ---------------------------------------------------------------------- */

static void each_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)name;
    (void)place;
    ++*(int *)arg;
}

static void each_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)name;
    (void)count;
    (void)granted;
    ++*(int *)arg;
}

static void each_verdict(void *arg, const struct rota_verdict *verdict)
{
    (void)verdict;
    ++*(int *)arg;
}

/* One of the four that only look, at NAME where a name makes sense. */
static struct rt_op look(enum rt_op_kind kind, const char *name, int *calls)
{
    struct rt_op op = {.kind = kind, .deadline = RT_NEVER};
    if (kind == RT_OP_OBSERVE) {
        op.observe.name = name;
        op.observe.cookie = calls;
    } else if (kind == RT_OP_INSPECT) {
        op.inspect.name = name;
        op.inspect.each = each_place;
        op.inspect.arg = calls;
    } else if (kind == RT_OP_LIST) {
        op.list.prefix = name;
        op.list.each = each_line;
        op.list.arg = calls;
    } else {
        op.check.each = each_verdict;
        op.check.arg = calls;
    }
    return op;
}

static void test_names_that_no_line_has(void **state)
{
    static char large[RT_NAME_ROOM + 1];
    int calls = 0;
    (void)state;
    memset(large, 'n', sizeof(large) - 1);
    static const struct {
        enum rt_op_kind kind;
        const char *name, *text;
    } bad[] = {
        {RT_OP_OBSERVE, NULL, "a line needs a name"}, {RT_OP_OBSERVE, "", "a line needs a name"},
        {RT_OP_OBSERVE, large, "a name is too long"}, {RT_OP_INSPECT, "", "a line needs a name"},
        {RT_OP_INSPECT, large, "a name is too long"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rt_op op = look(bad[i].kind, bad[i].name, &calls);
        assert_int_equal(user_do(&a, &op), ROTA_INVALID);
        assert_string_equal(a.errmsg, bad[i].text);
    }
    assert_int_equal(user_beat(&a), 0);
    assert_true(calls == 0 && changes(&a) == 0);
}

/* That something is not there is no error: nothing is told, and that is the answer. */
static void test_nothing_is_an_answer(void **state)
{
    int calls = 0;
    (void)state;
    struct rt_op op = look(RT_OP_INSPECT, named("nobody"), &calls);
    assert_int_equal(user_do(&a, &op), 0);
    op = look(RT_OP_INSPECT, NULL, &calls); /* of a session without tickets */
    op.inspect.session = a.session;
    assert_int_equal(user_do(&a, &op), 0);
    op = look(RT_OP_LIST, named("nobody"), &calls);
    assert_int_equal(user_do(&a, &op), 0);
    assert_int_equal(calls, 0);
    op = look(RT_OP_CHECK, NULL, &calls);
    assert_int_equal(user_do(&a, &op), 0);
    assert_true(calls > 0);
}

/* Nobody answers there: definite, and the words name what was dialed. */
static void test_no_server(void **state)
{
    static const enum rt_op_kind kinds[] = {RT_OP_OBSERVE, RT_OP_INSPECT, RT_OP_LIST, RT_OP_CHECK};
    char away[128];
    struct user u;
    int calls = 0;
    (void)state;
    const char *colon = strstr(url, "://");
    if (colon == NULL)
        skip();                                 /* no server */
    bool named = strncmp(url, "mysql", 5) == 0; /* it wants a user and a database */
    bool several = strncmp(url, "redlock", 7) == 0;
    const char *query = strstr(url, "dialect=");
    (void)snprintf(away, sizeof(away), "%.*s://%s127.0.0.1:1%s%s%s%s", (int)(colon - url), url,
                   named ? "nobody@" : "", several ? ",127.0.0.1:2,127.0.0.1:3" : "",
                   named ? "/locks" : "", query != NULL ? "/?" : "", query != NULL ? query : "");
    assert_int_equal(user_open(&u, away), 0);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct rt_op op = look(kinds[i], "x", &calls);
        op.deadline = rt_loop_tick(&u.loop) + 300 * RT_MS;
        int err = user_do(&u, &op);
        if (kinds[i] == RT_OP_CHECK && err == 0) {
            assert_true(calls > 0); /* the doctor says it itself */
            continue;
        }
        assert_int_equal(err, ROTA_UNREACHABLE);
        assert_non_null(strstr(u.errmsg, "127.0.0.1:1"));
        assert_int_equal(calls, 0);
    }
    user_close(&u);
}

/* An op not begun by its deadline is not done, and that is certain. One begun at once and done is done. It is never
 * sent only to end as ROTA_UNKNOWN. */
static void test_deadline_is_over(void **state)
{
    static const int64_t late[] = {0, 1, 60000};
    int calls = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        struct rt_join join = {.name = named("late"), .session = a.session, .nonce = i + 100};
        struct rt_op op = {.kind = RT_OP_JOIN, .join = {&join, 1}};
        op.deadline = rt_loop_tick(&a.loop) - late[i] * RT_MS;
        int err = user_do(&a, &op);
        if (err == 0)
            assert_int_equal(user_leave(&a, named("late"), join.number), 0);
        else
            assert_int_equal(err, ROTA_UNREACHABLE);
        assert_true(err == 0 || strlen(a.errmsg) > 5);
        op = look(RT_OP_INSPECT, named("late"), &calls);
        assert_int_equal(user_do(&b, &op), 0);
        assert_int_equal(calls, 0);
    }
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unchanged_is_told_once, begin, end),
        cmocka_unit_test_setup_teardown(test_asked_again_is_told_again, begin, end),
        cmocka_unit_test_setup_teardown(test_each_difference_is_told, begin, end),
        cmocka_unit_test_setup_teardown(test_each_holder_is_told, begin, end),
        cmocka_unit_test_setup_teardown(test_names_that_no_line_has, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_deadline_is_over, begin, end),
        cmocka_unit_test(test_no_server),
    };
    static char folder[256];
    const char *mark = argc == 2 ? strstr(argv[1], "@TMP@") : NULL, *base = getenv("TMPDIR");
    if (argc != 2)
        return 2;
    (void)snprintf(folder, sizeof(folder), "%s/rota-contract.XXXXXX", base != NULL ? base : "/tmp");
    if (mark != NULL && mkdtemp(folder) == NULL)
        return 2;
    if (mark != NULL)
        (void)snprintf(text, sizeof(text), "%.*s%s", (int)(mark - argv[1]), argv[1], folder);
    url = mark != NULL ? text : argv[1];
    (void)snprintf(prefix, sizeof(prefix), "contract%ld", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (mark != NULL)
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return failed;
}
