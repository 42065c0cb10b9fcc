/* SPDX-License-Identifier: Apache-2.0 */
/* Where links lead: sentinels that are asked and heard, rooms of a cluster that move, pushes that
 * follow. test_link_beside.c has the links beside the one for work. */
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

/* The stream that leads to PORT and is open, the latest. */
static size_t to_port(uint16_t port)
{
    for (size_t i = p.opened; i-- > 0;)
        if (p.streams[i].stream != NULL && p.streams[i].port == port)
            return i;
    fail_msg("nothing leads to port %u", port);
    return 0;
}

static int open_to(uint16_t port)
{
    int n = 0;
    for (size_t i = 0; i < p.opened; i++)
        n += p.streams[i].stream != NULL && p.streams[i].port == port;
    return n;
}

/* ---- Sentinel ------------------------------------------------------------------------------------ */

static size_t sentinel_says(uint16_t sentinel, uint16_t primary)
{
    size_t s = to_port(sentinel);
    played_accept(&p, s);
    assert_string_equal(played_next(&p, s), "SENTINEL get-master-addr-by-name m");
    assert_string_equal(played_next(&p, s), "SUBSCRIBE +switch-master");
    if (primary == 0)
        played_sayf(&p, s, "*-1\r\n");
    else
        played_sayf(
            &p, s,
            "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n%u\r\n*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master"
            "\r\n:1\r\n",
            primary);
    return s;
}

static void open_sentinel(void)
{
    played_open(&p, "redis://a:1001,b:1002?sentinel=m", "secret", 0);
    played_turn(&p);
}

static void test_primary_is_found(void **state)
{
    (void)state;
    open_sentinel();
    assert_int_equal(p.opened, 1);
    sentinel_says(1001, 7001);
    size_t s = to_port(7001);
    played_accept(&p, s);
    played_greet(&p, s);
    (void)played_ask(&p, "a", 1000);
    played_answer(&p, s, "a", 0);
    assert_int_equal(p.asked[0].err, 0);
    assert_int_equal(p.conn->base.engine->caps(&p.conn->base) & ROTA_CAP_STRICT, 0);
    played_close(&p);
}

static void test_primary_switches(void **state)
{
    (void)state;
    open_sentinel();
    size_t sentinel = sentinel_says(1001, 7001);
    size_t s = to_port(7001);
    played_accept(&p, s);
    played_greet(&p, s);
    (void)played_ask(&p, "a", 4000);
    played_sayf(&p, sentinel,
                "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$40\r\n"
                "other 127.0.0.1 7001 127.0.0.1 7003 aaaa\r\n"); /* of another primary */
    assert_int_equal(p.asked[0].answers, 0);
    played_sayf(&p, sentinel,
                "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$31\r\n"
                "m 127.0.0.1 7001 127.0.0.1 7002\r\n");
    assert_int_equal(p.asked[0].err, ROTA_UNKNOWN); /* it was on its way to the old one */
    played_pass(&p, 20);
    assert_int_equal(open_to(7001), 0);
    s = to_port(7002);
    played_accept(&p, s);
    played_greet(&p, s);
    played_close(&p);
}

static void test_primary_is_lost(void **state)
{
    (void)state;
    open_sentinel();
    sentinel_says(1001, 7001);
    played_accept(&p, to_port(7001));
    played_greet(&p, to_port(7001));
    played_end(&p, to_port(7001));
    played_pass(&p, 30);
    sentinel_says(1002, 7002); /* the next is asked */
    played_pass(&p, 30);
    played_accept(&p, to_port(7002));
    played_greet(&p, to_port(7002));
    played_close(&p);
}

static void test_replica_is_not_taken(void **state)
{
    (void)state;
    open_sentinel();
    sentinel_says(1001, 7001);
    size_t s = to_port(7001);
    played_accept(&p, s);
    played_greet_first(&p, s, "role:slave\r\n"); /* the first one counts: role:master */
    played_end(&p, s);
    played_pass(&p, 30);
    sentinel_says(1002, 7002);
    played_close(&p);
}

static void test_nobody_knows_the_name(void **state)
{
    (void)state;
    open_sentinel();
    played_submit(&p);
    sentinel_says(1001, 0);
    assert_int_equal(p.op_done, 0);
    played_pass(&p, 30);
    sentinel_says(1002, 0);
    assert_int_equal(p.op_done, 1);
    assert_int_equal(p.op.err, ROTA_INVALID);
    assert_non_null(strstr(p.op_errmsg, "no sentinel knows a primary named m"));
    played_close(&p);
}

static void test_sentinel_asks_for_a_password(void **state)
{
    (void)state;
    open_sentinel();
    size_t s = to_port(1001);
    played_accept(&p, s);
    played_sayf(&p, s, "-NOAUTH Authentication required.\r\n");
    played_pass(&p, 30);
    s = to_port(1002);
    played_accept(&p, s);
    assert_string_equal(played_next(&p, s), "AUTH secret");
    played_sayf(&p, s, "+OK\r\n*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7001\r\n");
    assert_int_equal(open_to(7001), 1);
    assert_null(strstr(p.log, "secret"));
    played_close(&p);
}

/* ---- Cluster ------------------------------------------------------------------------------------- */

/* Slots below are the first node's: rooms 0 (13907) and 1 (9842) are the second's. */
#define SPLIT 8192

static int split = SPLIT;

static void say_slots(size_t s, uint16_t low, uint16_t high)
{
    played_sayf(&p, s,
                "*2\r\n*3\r\n:0\r\n:%d\r\n*3\r\n$1\r\nh\r\n:%u\r\n$2\r\nid\r\n"
                "*3\r\n:%d\r\n:16383\r\n*3\r\n$1\r\nh\r\n:%u\r\n$2\r\nid\r\n",
                split - 1, low, split, high);
}

static void greet_cluster(size_t s, uint16_t low, uint16_t high)
{
    const char *command;
    const char *info = "redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:master\r\nrun_id:1\r\n";
    while (strncmp(command = played_next(&p, s), "ECHO ", 5) != 0)
        if (strcmp(command, "INFO") == 0)
            played_sayf(&p, s, "$%zu\r\n%s\r\n", strlen(info), info);
        else
            played_sayf(&p, s, "-ERR no\r\n");
    played_say_tag(&p, s, command);
    assert_string_equal(played_next(&p, s), "CLUSTER SLOTS");
    say_slots(s, low, high);
    played_say_tag(&p, s, played_next(&p, s));
}

static void answer_meta(size_t s)
{
    assert_begins(played_next(&p, s), "SPUBLISH rota:{0}:p:");
    played_sayf(&p, s, ":0\r\n");
    unsigned long long tag = played_tag(played_next(&p, s));
    played_sayf(&p, s, "*4\r\n$%d\r\n%llu\r\n:0\r\n$3\r\n1.0\r\n$3\r\n256\r\n",
                snprintf(NULL, 0, "%llu", tag), tag);
}

/* A cluster of two, both linked: the first of room 2 and 6, the second of 0 and 1. */
static void open_cluster(size_t *low, size_t *high)
{
    played_open(&p, "redis://h:7001", NULL, 0);
    played_turn(&p);
    *low = to_port(7001);
    played_accept(&p, *low);
    greet_cluster(*low, 7001, 7002);
    assert_int_equal(p.conn->room_count, 256);
    *high = to_port(7002); /* room 0 is there: the layout's mark */
    played_accept(&p, *high);
    greet_cluster(*high, 7001, 7002);
    assert_false(p.conn->link.checked);
    answer_meta(*high);
    assert_true(p.conn->link.checked);
}

/* As Redis computes it: CLUSTER KEYSLOT "{0}" is 13907, of "{2}" 5649. */
static void test_rooms_are_found(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    assert_int_equal(p.conn->link.places[0]->port, 7002);
    assert_int_equal(p.conn->link.places[1]->port, 7002);
    assert_int_equal(p.conn->link.places[2]->port, 7001);
    assert_int_equal(p.conn->link.places[100]->port, 7001); /* 339 */
    (void)played_ask(&p, "a", 1000);
    played_answer(&p, high, "a", 0);
    assert_int_equal(p.asked[0].err, 0);
    played_close(&p);
}

/* A replica, or a node without slots: it told us the map, and is not kept. */
static void test_node_without_a_room_is_left(void **state)
{
    (void)state;
    played_open(&p, "redis://h:7001", NULL, 0);
    played_turn(&p);
    played_accept(&p, 0);
    greet_cluster(0, 7002, 7003);
    played_turn(&p);
    assert_int_equal(open_to(7001), 0);
    assert_int_equal(open_to(7003), 1); /* room 0 is there: the layout's mark */
    for (const struct rt_resp_node *n = p.conn->link.nodes; n != NULL; n = n->next)
        assert_int_not_equal(n->port, 7001);
    played_close(&p);
}

/* "{0}" exactly: the slots before and after are not it. */
static void test_slots_are_redis_own(void **state)
{
    (void)state;
    for (split = 13907; split <= 13908; split++) {
        played_open(&p, "redis://h:7001", NULL, 0);
        played_turn(&p);
        played_accept(&p, 0);
        greet_cluster(0, 7001, 7002);
        assert_int_equal(p.conn->link.places[0]->port, split == 13907 ? 7002 : 7001);
        played_close(&p);
    }
    split = SPLIT;
}

static void refuse_next(size_t s, const char *error)
{
    assert_begins(played_next(&p, s), "EVALSHA");
    played_sayf(&p, s, "-%s\r\n", error);
    played_say_tag(&p, s, played_next(&p, s));
}

static void test_room_has_moved(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    (void)played_ask(&p, "a", 1000);
    refuse_next(high, "MOVED 13907 h:7001");
    assert_int_equal(p.conn->link.places[0]->port, 7001);
    assert_int_equal(p.conn->link.places[1]->port, 7002);
    played_answer(&p, low, "a", 0); /* sent on at once */
    assert_int_equal(p.asked[0].err, 0);
    /* The whole map is requested, from whichever node. */
    size_t s = p.streams[low].size > 0 ? low : high;
    assert_string_equal(played_next(&p, s), "CLUSTER SLOTS");
    say_slots(s, 7001, 7001);
    played_say_tag(&p, s, played_next(&p, s));
    assert_int_equal(p.conn->link.places[1]->port, 7001);
    played_turn(&p);
    assert_int_equal(open_to(7002), 0); /* has no room any more */
    played_close(&p);
}

/* Nothing but the map. */
static void assert_only_the_map(size_t s)
{
    assert_string_equal(played_next(&p, s), "CLUSTER SLOTS");
    say_slots(s, 7001, 7002);
    played_say_tag(&p, s, played_next(&p, s));
    assert_string_equal(played_next(&p, s), "");
}

/* The new owner does not have all of its keys yet, and would take a line for empty: nobody is asked
 * until one of them has the whole room. */
static void test_room_is_being_moved(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    (void)played_ask(&p, "a", 1000);
    refuse_next(high, "ASK 13907 h:7001");
    assert_only_the_map(low);
    assert_int_equal(p.answered, 0);
    played_pass(&p, 100);
    high = to_port(7002); /* tried again, after a while */
    played_accept(&p, high);
    greet_cluster(high, 7001, 7002);
    answer_meta(high);
    refuse_next(high, "ERR Script attempted to access a non local key in a cluster node");
    assert_only_the_map(low);
    played_pass(&p, 100);
    high = to_port(7002);
    played_accept(&p, high);
    greet_cluster(high, 7001, 7002);
    answer_meta(high);
    refuse_next(high, "MOVED 13907 h:7001");
    played_answer(&p, low, "a", 0);
    assert_int_equal(p.asked[0].err, 0);
    played_close(&p);
}

/* A node that greets for the first time is no other server than before: its push link, on its way already, stays. */
static void test_first_greeting_cuts_nothing(void **state)
{
    (void)state;
    played_open(&p, "redis://h:7001", NULL, 0);
    played_turn(&p);
    size_t low = to_port(7001);
    played_accept(&p, low);
    greet_cluster(low, 7001, 7002);
    size_t high = to_port(7002);
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "rota:{0}:p:test"), 0);
    played_turn(&p);
    size_t push = to_port(7002);
    assert_true(push != high);
    played_accept(&p, high);
    greet_cluster(high, 7001, 7002);
    assert_non_null(p.streams[push].stream);
    assert_null(strstr(p.log, "another server"));
    played_close(&p);
}

static void test_pushes_follow_the_room(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "rota:{0}:p:test"), 0);
    played_turn(&p);
    size_t push = to_port(7002);
    assert_true(push != high);
    played_accept(&p, push);
    assert_string_equal(played_next(&p, push), "SSUBSCRIBE rota:{0}:p:test");
    played_sayf(&p, push, "*3\r\n$10\r\nssubscribe\r\n$15\r\nrota:{0}:p:test\r\n:1\r\n");
    /* The slot goes away: Redis ends the subscription. */
    played_sayf(&p, push, "*3\r\n$12\r\nsunsubscribe\r\n$15\r\nrota:{0}:p:test\r\n:0\r\n");
    size_t s = p.streams[low].size > 0 ? low : high;
    assert_string_equal(played_next(&p, s), "CLUSTER SLOTS");
    say_slots(s, 7001, 7001);
    played_say_tag(&p, s, played_next(&p, s));
    played_turn(&p);
    size_t follows = to_port(7001);
    assert_true(follows != low);
    played_accept(&p, follows);
    assert_string_equal(played_next(&p, follows), "SSUBSCRIBE rota:{0}:p:test");
    played_close(&p);
}

static void test_node_is_lost(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    played_end(&p, high);
    (void)played_ask(&p, "a", 4000);
    assert_string_equal(played_next(&p, low), "CLUSTER SLOTS"); /* who has it now? */
    say_slots(low, 7001, 7003);                                 /* its replica was promoted */
    played_say_tag(&p, low, played_next(&p, low));
    played_turn(&p);
    size_t s = to_port(7003);
    played_accept(&p, s);
    greet_cluster(s, 7001, 7003);
    answer_meta(s);
    played_answer(&p, s, "a", 0);
    assert_int_equal(p.asked[0].err, 0);
    played_close(&p);
}

/* Whoever waits in vain is told what went wrong, and not that we closed another link ourselves. */
static void test_node_is_not_needed(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    played_end(&p, low); /* the trouble; the room asked for below is not there */
    assert_string_equal(played_next(&p, high), "CLUSTER SLOTS");
    say_slots(high, 7003, 7003);
    played_say_tag(&p, high, played_next(&p, high));
    played_turn(&p);
    assert_int_equal(open_to(7002), 0); /* has no room any more */
    (void)played_ask(&p, "a", 300);
    played_pass(&p, 400);
    assert_int_equal(open_to(7003), 1); /* which never answers */
    assert_int_equal(p.asked[0].err, ROTA_UNREACHABLE);
    assert_non_null(strstr(p.asked[0].errmsg, "the server closed the connection"));
    assert_null(strstr(p.log, "not needed"));
    played_close(&p);
}

/* A node whose rooms have gone is kept for the answers it owes, and forgotten with its link: a cluster whose nodes are
 * replaced one by one does not make us remember them all. */
static void test_node_that_owed_an_answer(void **state)
{
    size_t low, high, nodes = 0;
    (void)state;
    open_cluster(&low, &high);
    (void)played_ask(&p, "a", 1000);
    refuse_next(high, "MOVED 13907 h:7001");
    played_answer(&p, low, "a", 0);
    (void)played_ask_in(&p, 1, "b", 1000); /* of the room that it has still */
    size_t s = p.streams[low].size > 0 ? low : high;
    assert_string_equal(played_next(&p, s), "CLUSTER SLOTS");
    say_slots(s, 7001, 7001);
    played_say_tag(&p, s, played_next(&p, s));
    played_turn(&p);
    assert_int_equal(open_to(7002), 1);
    played_end(&p, high);
    played_pass(&p, 100);
    assert_int_equal(p.asked[1].err, ROTA_UNKNOWN);
    assert_int_equal(open_to(7002), 0);
    for (const struct rt_resp_node *n = p.conn->link.nodes; n != NULL; n = n->next)
        nodes++;
    assert_int_equal(nodes, 1);
    played_close(&p);
}

/* ---- Nodes that let us in and are silent ---------------------------------------------------------------- */

/* The node of room 0, where the layout's mark is, is silent from the beginning: another node that knows the map is
 * asked where that room is now, and TO has it. */
static void find_the_mark_at(uint16_t to)
{
    played_open(&p, "redis://h:7001", NULL, 0);
    played_turn(&p);
    size_t low = to_port(7001);
    played_accept(&p, low);
    greet_cluster(low, 7001, 7002);
    played_accept(&p, to_port(7002));
    (void)played_ask(&p, "a", 20000);
    for (int i = 0; i < 2; i++) { /* it is not known yet that it is dead */
        played_pass(&p, 4000);
        assert_string_equal(played_next(&p, low), "CLUSTER SLOTS");
        say_slots(low, 7001, i == 0 ? 7002 : to);
        played_say_tag(&p, low, played_next(&p, low));
        if (i == 0) {
            played_pass(&p, 600);
            played_accept(&p, to_port(7002));
        }
    }
    played_pass(&p, 600);
    assert_int_equal(open_to(7002), 0);
    size_t s = to_port(to);
    played_accept(&p, s);
    greet_cluster(s, 7001, to);
    answer_meta(s);
    played_answer(&p, s, "a", 0);
    assert_int_equal(p.asked[0].err, 0);
    played_close(&p);
}

static void test_node_of_the_mark_is_silent(void **state)
{
    (void)state;
    find_the_mark_at(7003); /* its replica */
    find_the_mark_at(7001); /* the one that told us: it is greeted anew */
}

/* A node that owes answers is the last to be asked for the map. */
static void test_silent_node_is_not_asked_for_the_map(void **state)
{
    size_t low, high;
    (void)state;
    open_cluster(&low, &high);
    (void)played_ask(&p, "a", 4000);
    assert_begins(played_next(&p, high), "EVALSHA");
    played_pass(&p, 10);
    (void)played_ask_in(&p, 2, "b", 4000);
    refuse_next(low, "MOVED 5649 h:7003");
    assert_string_equal(played_next(&p, high), "");
    assert_string_equal(played_next(&p, low), "CLUSTER SLOTS");
    played_close(&p);
}

/* Of several addresses, a silent one does not use up the others' time. */
static void test_silent_seeds(void **state)
{
    static const char *const urls[] = {"redis://h:7001,h:7002,h:7003",
                                       "redis://h:7001,h:7002,h:7003?sentinel=m"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        played_open(&p, urls[i], NULL, 0);
        p.conn->base.ttl_ms = 60000; /* a quarter of it is more than a call may take */
        played_submit(&p);
        played_turn(&p);
        played_accept(&p, to_port(7001));
        played_pass(&p, 1500);
        played_accept(&p, to_port(7002));
        played_pass(&p, 1500);
        assert_int_equal(open_to(7003), 1);
        assert_int_equal(p.op_done, 0);
        played_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_primary_is_found),
        cmocka_unit_test(test_primary_switches),
        cmocka_unit_test(test_primary_is_lost),
        cmocka_unit_test(test_replica_is_not_taken),
        cmocka_unit_test(test_nobody_knows_the_name),
        cmocka_unit_test(test_sentinel_asks_for_a_password),
        cmocka_unit_test(test_rooms_are_found),
        cmocka_unit_test(test_node_without_a_room_is_left),
        cmocka_unit_test(test_slots_are_redis_own),
        cmocka_unit_test(test_room_has_moved),
        cmocka_unit_test(test_room_is_being_moved),
        cmocka_unit_test(test_first_greeting_cuts_nothing),
        cmocka_unit_test(test_pushes_follow_the_room),
        cmocka_unit_test(test_node_is_lost),
        cmocka_unit_test(test_node_is_not_needed),
        cmocka_unit_test(test_node_that_owed_an_answer),
        cmocka_unit_test(test_node_of_the_mark_is_silent),
        cmocka_unit_test(test_silent_node_is_not_asked_for_the_map),
        cmocka_unit_test(test_silent_seeds),
    };
    scarce_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
