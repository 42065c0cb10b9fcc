/* SPDX-License-Identifier: Apache-2.0 */
/* The links beside the one for work: for listening to pushes, and for waiting for replicas. */
#include "lib/scarce.h"
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct played p;

static void assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", text, with);
}

/* ---- Pushes -------------------------------------------------------------------------------------------- */

static size_t open_single(const char *url)
{
    played_open(&p, url, NULL, 0);
    played_turn(&p);
    played_accept(&p, 0);
    played_greet(&p, 0);
    return 0;
}

static void test_push_link_is_kept(void **state)
{
    (void)state;
    open_single("redis://h");
    assert_int_equal(p.opened, 1); /* not before somebody listens */
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
    played_turn(&p);
    assert_int_equal(p.opened, 2);
    played_accept(&p, 1);
    assert_string_equal(played_next(&p, 1), "SUBSCRIBE one");
    played_sayf(&p, 1, "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n");
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "two"), 0);
    played_turn(&p);
    assert_string_equal(played_next(&p, 1), "SUBSCRIBE two");
    played_sayf(&p, 1, "*3\r\n$9\r\nsubscribe\r\n$3\r\ntwo\r\n:2\r\n");
    rt_resp_unsubscribe(&p.conn->link, 0, "one");
    played_turn(&p);
    assert_string_equal(played_next(&p, 1), "UNSUBSCRIBE one");
    played_sayf(&p, 1, "*3\r\n$11\r\nunsubscribe\r\n$3\r\none\r\n:1\r\n");
    played_pass(&p, 60000);
    assert_string_equal(played_next(&p, 1), ""); /* nobody waits: no word */
    played_end(&p, 1);
    played_pass(&p, 30);
    played_accept(&p, 2);
    assert_string_equal(played_next(&p, 2), "SUBSCRIBE two");
    assert_int_equal(p.downs, 0); /* work goes on */
    played_close(&p);
}

/* Given up and wanted again at once: the confirmations are our own, nothing has moved. */
static void test_channel_is_wanted_again(void **state)
{
    (void)state;
    open_single("redis://h");
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
    played_turn(&p);
    played_accept(&p, 1);
    assert_string_equal(played_next(&p, 1), "SUBSCRIBE one");
    for (int i = 0; i < 3; i++) {
        rt_resp_unsubscribe(&p.conn->link, 0, "one");
        assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
    }
    played_turn(&p);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(played_next(&p, 1), "UNSUBSCRIBE one");
        assert_string_equal(played_next(&p, 1), "SUBSCRIBE one");
    }
    played_sayf(&p, 1, "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n");
    for (int i = 0; i < 3; i++) {
        played_sayf(&p, 1, "*3\r\n$11\r\nunsubscribe\r\n$3\r\none\r\n:0\r\n");
        played_sayf(&p, 1, "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n");
    }
    played_pass(&p, 5000);
    assert_non_null(p.streams[1].stream); /* it owes nothing */
    rt_resp_unsubscribe(&p.conn->link, 0, "one");
    played_turn(&p);
    assert_string_equal(played_next(&p, 1), "UNSUBSCRIBE one"); /* it knows what it has */
    played_end(&p, 1);                                          /* and that goes with the link */
    played_pass(&p, 5000);
    assert_int_equal(p.opened, 2);
    played_close(&p);
}

static void test_push_link_that_hangs(void **state)
{
    (void)state;
    open_single("redis://h");
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
    played_turn(&p);
    played_accept(&p, 1);
    played_pass(&p, 2600); /* never confirmed */
    assert_null(p.streams[1].stream);
    played_pass(&p, 30);
    played_accept(&p, 2);
    (void)played_next(&p, 2);
    played_sayf(&p, 2, "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n");
    p.conn->rooms[0].waiting = 1; /* from here on a grant may come over it */
    played_pass(&p, 10000);
    assert_string_equal(played_next(&p, 2), "PING");
    assert_null(p.streams[2].stream); /* not answered */
    p.conn->rooms[0].waiting = 0;
    played_close(&p);
}

/* ---- Replicas ----------------------------------------------------------------------------------------- */

static int told, told_err;
static char told_why[256];

static void on_replicated(struct rt_resp_conn *c, void *arg, int err)
{
    (void)arg;
    snprintf(told_why, sizeof(told_why), "%s", c->base->errmsg);
    told++;
    told_err = err;
}

static void wait_until(int64_t ms)
{
    told = 0;
    rt_resp_when_replicated(&p.conn->link, 0, rt_loop_now(&p.loop) + ms * RT_MS, on_replicated,
                            NULL);
    played_turn(&p);
}

/* The link for WAIT comes up, on a server that says MORE of itself. */
static void greet_wait(size_t stream, const char *more)
{
    played_accept(&p, stream);
    played_greet_first(&p, stream, more);
}

static void test_replicas(void **state)
{
    (void)state;
    open_single("redis://h?replicas=2");
    assert_int_equal(p.opened, 2);
    greet_wait(1, "");
    wait_until(1000);
    assert_string_equal(played_next(&p, 1), "PING");
    assert_string_equal(played_next(&p, 1), "WAIT 2 1000");
    played_sayf(&p, 1, "+PONG\r\n");
    assert_int_equal(told, 0);
    played_sayf(&p, 1, ":2\r\n");
    assert_int_equal(told, 1);
    assert_int_equal(told_err, 0);
    wait_until(1000);
    (void)played_next(&p, 1);
    (void)played_next(&p, 1);
    played_sayf(&p, 1, "+PONG\r\n");
    played_pass(&p, 1000);
    played_sayf(&p, 1, ":1\r\n");
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_UNREACHABLE);
    assert_non_null(strstr(p.log, "only 1 replicas of h:6379 keep up"));
    wait_until(1000);
    played_end(&p, 0); /* the server may have forgotten what it had */
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_UNKNOWN);
    played_close(&p);
}

/* The link for WAIT was down when its server was lost: what comes up instead is another server's, and what it
 * confirms is not the grant (sim --redis --seed 2016805). */
static void test_replicas_of_another_server(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    greet_wait(1, "");
    played_end(&p, 1);
    wait_until(1000);
    assert_int_equal(told, 0);
    played_end(&p, 0);
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_UNKNOWN);
    played_close(&p);
}

/* The address leads to another server already, and the link for work has not heard of it yet. */
static void test_replicas_of_another_run(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    wait_until(1000);
    greet_wait(1, "run_id:2\r\n");
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_UNKNOWN);
    assert_non_null(strstr(told_why, "another server"));
    assert_null(p.streams[1].stream);
    played_close(&p);
}

/* Whoever waits gets the server's words, and the next one may ask again. */
static void test_replicas_refused(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    greet_wait(1, "");
    for (int i = 0; i < 2; i++) {
        wait_until(1000);
        assert_string_equal(played_next(&p, 1), "PING");
        assert_string_equal(played_next(&p, 1), "WAIT 1 1000");
        played_sayf(
            &p, 1,
            i == 0 ? "+PONG\r\n-NOPERM this user has no permissions to run the 'wait' command\r\n"
                   : "+PONG\r\n-ERR WAIT cannot be used with replica instances\r\n");
        assert_int_equal(told, 0);
        played_say_tag(&p, 1, played_next(&p, 1)); /* made sure */
        assert_int_equal(told, 1);
        assert_int_equal(told_err, i == 0 ? ROTA_AUTH : ROTA_PROTOCOL);
        assert_non_null(strstr(told_why, i == 0 ? "'wait'" : "replica instances"));
        assert_string_equal(played_next(&p, 1), "");
    }
    played_close(&p);
}

/* A missing right is known before anybody holds anything. */
static void test_replicas_not_allowed(void **state)
{
    (void)state;
    played_open(&p, "redis://h?replicas=1", NULL, 0);
    played_submit(&p);
    played_accept(&p, 0);
    const char *command;
    while (strncmp(command = played_next(&p, 0), "ECHO", 4) != 0)
        if (strcmp(command, "INFO") == 0)
            played_sayf(
                &p, 0,
                "$58\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n\r\n");
        else if (strcmp(command, "WAIT 0 0") == 0)
            played_sayf(&p, 0,
                        "-NOPERM this user has no permissions to run the 'wait' command\r\n");
        else
            played_sayf(&p, 0, "*0\r\n");
    played_say_tag(&p, 0, command);
    played_turn(&p);
    assert_int_equal(p.op_done, 1);
    assert_int_equal(p.op.err, ROTA_AUTH);
    assert_non_null(strstr(p.op_errmsg, "'wait'"));
    played_close(&p);
}

/* A password that only this link is refused: nobody waits for ever. */
static void test_replicas_behind_a_closed_door(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    wait_until(1000);
    played_accept(&p, 1);
    assert_string_equal(played_next(&p, 1), "INFO");
    assert_begins(played_next(&p, 1), "ECHO");
    played_sayf(&p, 1, "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n");
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_AUTH);
    assert_int_equal(p.conn->link.fatal, 0);
    played_pass(&p, 60000);
    assert_int_equal(p.opened, 2); /* nobody waits: the door is left alone */
    wait_until(1000);
    greet_wait(2, ""); /* it may have been opened meanwhile */
    assert_string_equal(played_next(&p, 2), "PING");
    assert_string_equal(played_next(&p, 2), "WAIT 1 1000");
    played_close(&p);
}

static void test_replicas_asked_together(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    greet_wait(1, "");
    wait_until(1000);
    (void)played_next(&p, 1);
    (void)played_next(&p, 1);
    rt_resp_when_replicated(&p.conn->link, 0, rt_loop_now(&p.loop) + 500 * RT_MS, on_replicated,
                            NULL);
    rt_resp_when_replicated(&p.conn->link, 0, rt_loop_now(&p.loop) + 900 * RT_MS, on_replicated,
                            NULL);
    played_turn(&p);
    assert_string_equal(played_next(&p, 1), ""); /* theirs came after the WAIT under way */
    played_sayf(&p, 1, "+PONG\r\n:1\r\n");
    assert_int_equal(told, 1);
    assert_string_equal(played_next(&p, 1), "PING");
    assert_string_equal(played_next(&p, 1), "WAIT 1 500");
    played_sayf(&p, 1, "+PONG\r\n:1\r\n");
    assert_int_equal(told, 3);
    played_close(&p);
}

static void test_replicas_without_a_link(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    wait_until(300);
    played_pass(&p, 400);
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_UNREACHABLE);
    played_close(&p);
}

/* While there is no link, everybody has the time it was given, and hears that there is no link, not of replicas. */
static void test_replicas_each_at_its_deadline(void **state)
{
    (void)state;
    open_single("redis://h?replicas=1");
    wait_until(300);
    rt_resp_when_replicated(&p.conn->link, 0, rt_loop_now(&p.loop) + 900 * RT_MS, on_replicated,
                            NULL);
    played_pass(&p, 400);
    assert_int_equal(told, 1);
    assert_int_equal(told_err, ROTA_UNREACHABLE);
    assert_string_equal(told_why, "the link for WAIT to h:6379 is not up");
    greet_wait(1, "");
    assert_string_equal(played_next(&p, 1), "PING");
    assert_string_equal(played_next(&p, 1), "WAIT 1 500");
    played_sayf(&p, 1, "+PONG\r\n:1\r\n");
    assert_int_equal(told, 2);
    assert_int_equal(told_err, 0);
    wait_until(300);
    played_end(&p, 1);
    assert_int_equal(told_err, ROTA_UNKNOWN);
    wait_until(300);
    rt_resp_when_replicated(&p.conn->link, 0, rt_loop_now(&p.loop) + 200 * RT_MS, on_replicated,
                            NULL);
    played_pass(&p, 250);
    assert_int_equal(told, 1); /* the later one came first */
    played_pass(&p, 100);
    assert_int_equal(told, 2);
    assert_int_equal(told_err, ROTA_UNREACHABLE);
    played_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_link_is_kept),
        cmocka_unit_test(test_channel_is_wanted_again),
        cmocka_unit_test(test_push_link_that_hangs),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_replicas_of_another_server),
        cmocka_unit_test(test_replicas_of_another_run),
        cmocka_unit_test(test_replicas_refused),
        cmocka_unit_test(test_replicas_not_allowed),
        cmocka_unit_test(test_replicas_behind_a_closed_door),
        cmocka_unit_test(test_replicas_asked_together),
        cmocka_unit_test(test_replicas_without_a_link),
        cmocka_unit_test(test_replicas_each_at_its_deadline),
    };
    scarce_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
