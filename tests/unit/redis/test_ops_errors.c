/* SPDX-License-Identifier: Apache-2.0 */
/* Every error that a server may answer with: what the user is told, in which words, and whether the op is retried. An
 * error that ends a script after it wrote is told as UNKNOWN (I5); one from before it wrote is not: nothing was
 * done. */
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AT "redis redis.example:6379 "

/* The call that was read ends with ERROR; its ECHO is answered as ever. */
static void refuse(const char *error)
{
    char text[512], tag[24];
    snprintf(text, sizeof(text), "-%s\r\n", error);
    played_say(&p, WORK, text);
    const char *echo = played_next(&p, WORK);
    if (strncmp(echo, "ECHO ", 5) != 0)
        return;
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(echo));
    snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(tag), tag);
    played_say(&p, WORK, text);
}

/* ... inside the script, at the line of WHERE. */
static void refuse_inside(enum rt_redis_script script, const char *error, const char *where)
{
    const struct rt_redis_text *t = rt_redis_script_text(script, false);
    const char *at = strstr(t->text, where);
    char text[400];
    int line = 1;
    assert_non_null(at);
    for (const char *c = t->text; c < at; c++)
        line += *c == '\n';
    snprintf(text, sizeof(text), "%s script: %s, on @user_script:%d.", error, t->sha1, line);
    refuse(text);
}

static const struct {
    const char *error;
    /* of a LEAVE that was refused so: its error, "" it is asked again until its time is over */
    const char *told;
    const char *inside; /* ... behind the first write */
    const char *text;   /* of the first */
} cases[] = {
    {"READONLY You can't write against a read only replica.", "", "",
     AT "is a replica: it cannot be written to"},
    {"LOADING Redis is loading the dataset in memory", "", "", AT "is loading its data"},
    {"MASTERDOWN Link with MASTER is down", "", "", AT "is a replica that lost its primary"},
    {"CLUSTERDOWN The cluster is down", "", "", AT "says that the cluster is down"},
    {"BUSY Redis is busy running a script.", "", "", AT "is busy with somebody's script"},
    {"NOREPLICAS Not enough good replicas to write.", "", "",
     AT "has fewer replicas than its min-replicas-to-write asks for"},
    {"MISCONF Redis is configured to save RDB snapshots", "", "",
     AT "refuses writes because it cannot save: look into its log"},
    {"TRYAGAIN Multiple keys request during rehashing of slot", "", "leave UNKNOWN",
     AT "is moving that room"},
    {"ASK 3999 127.0.0.1:6381", "", "leave UNKNOWN", AT "is giving that room away"},
    {"ERR Script attempted to access a non local key in a cluster node", "", "leave UNKNOWN",
     AT "is moving that room"},
    {"MOVED 3999 127.0.0.1:6381", "leave UNREACHABLE", "leave UNKNOWN",
     AT "does not have that room any more"},
    {"OOM command not allowed when used memory > 'maxmemory'.", "leave UNREACHABLE",
     "leave UNREACHABLE", AT "is out of memory: raise its maxmemory, or make room on it"},
    {"NOAUTH Authentication required.", "leave AUTH", "leave AUTH",
     AT "asks for a password: give it by ?password_file= or ROTA_PASSWORD"},
    {"WRONGPASS invalid username-password pair", "leave AUTH", "leave UNKNOWN",
     AT "refused the user or the password"},
    {"NOPERM this user has no permissions", "leave AUTH", "leave UNKNOWN",
     "redis redis.example:6379: the user lacks a right: NOPERM this user has no permissions (see the ACL line in "
     "docs/engines/redis.md)"},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", "leave PROTOCOL",
     "leave UNKNOWN",
     AT
     "has a key of another type where Rota keeps its own (rota:...): delete it, or use another database"},
    {"ERR something else", "leave PROTOCOL", "leave UNKNOWN", AT "answered: ERR something else"},
    {"OOMPH is no such code", "leave PROTOCOL", "leave UNKNOWN",
     AT "answered: OOMPH is no such code"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static void expect_end(const char *told)
{
    expect_told(told);
    if (told[0] != '\0')
        return;
    played_pass(&p, 6000); /* nothing of it was done: it is asked again until its time is over */
    expect_told("leave UNREACHABLE");
}

/* Each on a connection of its own. */
static void test_refused(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        struct rt_op op;
        setup_session(state);
        leave(&op, "a", 5);
        (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
        refuse(cases[i].error);
        const char *trouble = rt_engine_redis.trouble(&p.conn->base);
        const char *why = cases[i].told[0] != '\0' ? p.conn->base.errmsg : trouble;
        if (why == NULL || strcmp(why, cases[i].text) != 0)
            fail_msg("%s: %s", cases[i].error, why);
        expect_end(cases[i].told);
        teardown(state);
    }
}

static void test_refused_inside_a_script(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        struct rt_op op;
        setup_session(state);
        leave(&op, "a", 5);
        (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
        refuse_inside(RT_REDIS_SCRIPT_LEAVE, cases[i].error, "call('PUBLISH'");
        if (user.count > user.read && strcmp(user.text[user.read], cases[i].inside) != 0)
            fail_msg("%s: %s", cases[i].error, user.text[user.read]);
        expect_end(cases[i].inside);
        teardown(state);
    }
}

/* Before the first write nothing was done, whatever went wrong. */
static void test_refused_before_it_wrote(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        struct rt_op op;
        setup_session(state);
        leave(&op, "a", 5);
        (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
        refuse_inside(RT_REDIS_SCRIPT_LEAVE, cases[i].error, "call('HMGET'");
        expect_end(cases[i].told);
        teardown(state);
    }
}

/* An op that changes only what ends by itself is never UNKNOWN: it is retried, or its error is told. */
static void test_a_look_is_told(void **state)
{
    struct rt_op op = {.kind = RT_OP_OBSERVE, .user = other_name};
    (void)state;
    setup_session(state);
    op.observe.name = "a";
    op.observe.cookie = &op;
    submit(&op);
    for (int i = 0; i < 3 && user.read == user.count; i++) {
        const char *command = played_next(&p, WORK);
        if (command[0] == '\0' && p.opened > PUSH) {
            const char *word = played_next(&p, PUSH);
            if (strncmp(word, "SUBSCRIBE ", 10) == 0)
                confirm(word + 10);
            continue;
        }
        assert_true(calls(command, RT_REDIS_SCRIPT_LOOK));
        refuse_inside(RT_REDIS_SCRIPT_LOOK, "WRONGTYPE Operation against a key", "return {tag");
    }
    expect_told("op PROTOCOL");
    teardown(state);
}

/* A right that a script lacks is named by the line that needs it. */
static void test_a_right_is_named(void **state)
{
    struct rt_op op;
    setup_session(state);
    leave(&op, "a", 5);
    (void)expect_call(RT_REDIS_SCRIPT_LEAVE, NULL);
    refuse_inside(RT_REDIS_SCRIPT_LEAVE, "ERR ACL failure in script: something", "call('HMGET'");
    expect_told("leave AUTH");
    assert_string_equal(
        p.conn->base.errmsg,
        "redis redis.example:6379: the user lacks the right to run 'HMGET' (see the ACL "
        "line in docs/engines/redis.md)");
    teardown(state);
}

/* A function may run later than its place in the text: after something was written. */
static void test_refused_inside_a_function(void **state)
{
    struct rt_op op = {.kind = RT_OP_BREAK, .user = other_name};
    setup_session(state);
    op.brk.name = "a";
    op.brk.number = 5;
    submit(&op);
    (void)expect_call(RT_REDIS_SCRIPT_BREAK, NULL);
    refuse_inside(RT_REDIS_SCRIPT_BREAK, "NOPERM this user has no permissions", "call('ZSCORE'");
    expect_told("op UNKNOWN");
    teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_inside_a_script),
        cmocka_unit_test(test_refused_before_it_wrote),
        cmocka_unit_test(test_a_look_is_told),
        cmocka_unit_test(test_a_right_is_named),
        cmocka_unit_test(test_refused_inside_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
