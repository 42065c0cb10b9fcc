/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked of a line, and the sentences of all engines. */
#include "engine/kit/check.h"
#include "engine/kit/words.h"
#include "engine/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct rt_conn conn;

static void test_names(void **state)
{
    static char name[RT_NAME_ROOM + 1];
    (void)state;
    assert_int_equal(rt_check_name(&conn, NULL), ROTA_INVALID);
    assert_int_equal(rt_check_name(&conn, ""), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "a line needs a name");
    memset(name, 'n', RT_NAME_ROOM - 1);
    assert_int_equal(rt_check_name(&conn, name), 0);
    name[RT_NAME_ROOM - 1] = 'n';
    assert_int_equal(rt_check_name(&conn, name), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "a name is too long");
}

static void test_values(void **state)
{
    static char value[ROTA_VALUE_MAX + 2];
    (void)state;
    memset(value, 'v', ROTA_VALUE_MAX);
    assert_int_equal(rt_check_value(&conn, "a", NULL), 0);
    assert_int_equal(rt_check_value(&conn, "a", value), 0);
    value[ROTA_VALUE_MAX] = 'v';
    assert_int_equal(rt_check_value(&conn, "a", value), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "a: a value has at most 1023 bytes");
}

static int check(struct rt_join *joins, size_t n)
{
    struct rt_op op = {.kind = n > 1 ? RT_OP_JOIN_ALL : RT_OP_JOIN, .join = {joins, n}};
    return rt_check_joins(&conn, &op);
}

static void test_joins(void **state)
{
    static char value[ROTA_VALUE_MAX + 2];
    memset(value, 'v', ROTA_VALUE_MAX + 1);
    static const struct {
        struct rt_join join;
        const char *text;
    } bad[] = {
        {{.nonce = 1}, "a line needs a name"},
        {{.name = "a"}, "a join of a without a nonce"},
        {{.name = "a", .nonce = 1, .mode = 9}, "a: mode 9 cannot take 0 of 0"},
        {{.name = "a", .nonce = 1, .mode = RT_PERMITS, .take = 3, .of = 2},
         "a: mode 2 cannot take 3 of 2"},
        {{.name = "a", .nonce = 1, .at_least_ms = -1}, "a: a time cannot be negative"},
        {{.name = "a", .nonce = 1, .until_ms = -1}, "a: a time cannot be negative"},
        {{.name = "a", .nonce = 1, .value = value}, "a: a value has at most 1023 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rt_join two[] = {{.name = "b", .nonce = 2}, bad[i].join};
        assert_int_equal(check(&two[1], 1), ROTA_INVALID);
        assert_string_equal(conn.errmsg, bad[i].text);
        assert_int_equal(check(two, 2), ROTA_INVALID); /* any of a set */
    }
    struct rt_join set[] = {{.name = "a", .nonce = 1, .session = 7},
                            {.name = "b", .nonce = 1, .session = 7}};
    assert_int_equal(check(set, 2), 0);
    set[1].session = 8;
    assert_int_equal(check(set, 2), ROTA_INVALID);
    set[1].session = 7;
    set[1].flags = RT_JOIN_DURABLE;
    assert_int_equal(check(set, 2), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "a set is of one session");
    set[1].flags = RT_JOIN_ARM; /* else they may differ */
    assert_int_equal(check(set, 2), 0);
}

static void test_sessions(void **state)
{
    struct rt_join join = {.name = "a", .nonce = 1, .session = 0x1f};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {&join, 1}};
    (void)state;
    assert_int_equal(rt_check_session(&conn, &op, 0x1f), 0);
    assert_int_equal(rt_check_session(&conn, &op, 0x2f), ROTA_LOST);
    assert_string_equal(conn.errmsg, "session 1f has ended");
    join.session = 0;
    assert_int_equal(rt_check_session(&conn, &op, 0), ROTA_LOST); /* there is none */
    join.flags = RT_JOIN_DURABLE;
    assert_int_equal(rt_check_session(&conn, &op, 0), 0);
}

static void test_kinds(void **state)
{
    static const struct {
        int64_t mode, of;
        const char *text;
    } kinds[] = {
        {RT_EXCLUSIVE, 0, "a lock"},
        {RT_SHARED, 0, "a lock"},
        {RT_PERMITS, 3, "permits of 3"},
        {RT_COUNT, 2, "a latch of 2"},
        {RT_GATHER, 4, "a barrier of 4"},
        {-1, 1, "of an unknown kind"},
        {RT_GATHER + 1, 1, "of an unknown kind"},
    };
    char text[48];
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        rt_words_kind(text, sizeof(text), kinds[i].mode, kinds[i].of);
        assert_string_equal(text, kinds[i].text);
    }
    struct rt_join join = {.name = "a", .mode = RT_PERMITS, .take = 1, .of = 2};
    assert_int_equal(rt_words_other_kind(&conn, &join, RT_SHARED, 0), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "a is a lock now, not permits of 2: use another name");
}

/* However long names and labels are, the sentence around them stays whole. */
static void test_sentences(void **state)
{
    static char name[400], label[400];
    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    memset(label, 'l', sizeof(label) - 1);
    assert_int_equal(rt_words_busy(&conn, "a", NULL, 0), ROTA_BUSY);
    assert_string_equal(conn.errmsg, "a is held");
    assert_int_equal(rt_words_busy(&conn, "a", "me and more", 2), ROTA_BUSY);
    assert_string_equal(conn.errmsg, "a is held by me");
    assert_int_equal(rt_words_busy(&conn, name, label, strlen(label)), ROTA_BUSY);
    assert_int_equal(strlen(conn.errmsg), 100 + strlen(" is held by ") + 100);
    assert_int_equal(rt_words_no_ticket(&conn, name), ROTA_LOST);
    assert_non_null(strstr(conn.errmsg, " any more"));
    assert_int_equal(rt_words_no_such(&conn, "a"), ROTA_LOST);
    assert_string_equal(conn.errmsg, "no such ticket in the line of a");
    assert_int_equal(rt_words_not_exclusive(&conn, "a"), ROTA_INVALID);
    assert_string_equal(conn.errmsg, "a: only a lock can be downgraded");
    assert_int_equal(rt_words_set_ended(&conn), ROTA_LOST);
    assert_int_equal(rt_words_nomem(&conn), ROTA_NOMEM);
    assert_string_equal(conn.errmsg, "out of memory");
}

static char logged[600];
static int logged_level;

static void take_line(struct rt_up *up, int level, const char *line)
{
    (void)up;
    logged_level = level;
    (void)strncpy(logged, line, sizeof(logged) - 1);
}

static void test_log(void **state)
{
    static char large[800];
    struct rt_up up = {0};
    struct rt_conn some = {0};
    (void)state;
    rt_words_log(&some, ROTA_LOG_WARN, "nobody %s", "hears it");
    some.up = &up;
    rt_words_log(&some, ROTA_LOG_WARN, "nor here");
    up.log = take_line;
    rt_words_log(&some, ROTA_LOG_WARN, "%d times", 3);
    assert_string_equal(logged, "3 times");
    assert_int_equal(logged_level, ROTA_LOG_WARN);
    memset(large, 'x', sizeof(large) - 1);
    rt_words_log(&some, ROTA_LOG_INFO, "%s", large);
    assert_int_equal(strlen(logged), 511);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_values),
        cmocka_unit_test(test_joins), cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
