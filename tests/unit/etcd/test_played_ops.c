/* SPDX-License-Identifier: Apache-2.0 */
/* Ops played in virtual time: their order, LEAVE, CHANGE and BREAK, and the beginning. */
#include "lib/scarce.h"
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- One after the other ---------------------------------------------------------------------------- */

/* The nonce in the key that transaction I would delete. */
static void assert_leaves(int i, const char *key)
{
    assert_true(seen[i]->n_success > 1);
    assert_bytes(seen[i]->success[1]->range->key, key);
}

/* etcd serves calls side by side. So for one name the next op is sent when the one before has its answer, even when
 * one between them is canceled; other names do not wait, even in the same lane; a set waits for all of its names. */
static void ops_of_a_name_go_one_after_the_other(void **state)
{
    struct reply none;
    struct rt_op first = leave_op("a", 0, 1), second = leave_op("a", 0, 2);
    struct rt_op third = leave_op("a", 0, 3), other = leave_op("ke", 0, 4);
    struct rt_join joins[] = {{.name = "a", .nonce = 5}, {.name = "ke", .nonce = 6}};
    struct rt_op set = {.kind = RT_OP_JOIN_ALL, .err = RUNNING};
    struct rt_op *const all[] = {&first, &second, &third, &other, &set};
    (void)state;
    reply_init(&none, false, 1);
    set.join.joins = joins;
    set.join.n = 2;
    open_town(play);
    for (size_t i = 0; i < 5; i++)
        town_submit(&t, all[i]);
    town_until(&t, &txns, 2);
    assert_leaves(0, "a/7-1");
    assert_leaves(1, "ke/7-4");
    rt_engine_etcd.cancel(rt_etcd_base(t.conn), &second);
    assert_int_equal(second.err, ROTA_CANCELED);
    answer(0, &none);
    town_until(&t, &txns, 3);
    assert_leaves(2, "a/7-3");
    assert_int_equal(first.err, ROTA_LOST);
    answer(2, &none);
    town_until(&t, &t.done, 3);
    assert_int_equal(set.err, RUNNING); /* the other name is not free yet */
    answer(1, &none);
    town_until(&t, &t.done, 5);
    assert_int_equal(set.err, ROTA_LOST); /* begun: it has no session */
    assert_int_equal(txns, 3);
    close_town();
}

/* It would stand behind itself for ever. */
static void a_set_that_names_a_line_twice_is_told(void **state)
{
    struct rt_join joins[] = {{.name = "a", .nonce = 5, .flags = RT_JOIN_DURABLE},
                              {.name = "a", .nonce = 6, .flags = RT_JOIN_DURABLE}};
    struct rt_op set = {.kind = RT_OP_JOIN_ALL};
    (void)state;
    for (int i = 0; i < 2; i++)
        joins[i].mode = RT_EXCLUSIVE;
    set.join.joins = joins;
    set.join.n = 2;
    open_town(play);
    assert_int_equal(town_do(&t, &set), ROTA_INVALID);
    assert_non_null(strstr(t.why, "twice"));
    assert_int_equal(txns, 0);
    close_town();
}

/* engine.h: `close` tells nothing, not even of what is under way. */
static void who_closes_hears_nothing_more(void **state)
{
    struct rt_op op = leave_op("a", 0, 1);
    (void)state;
    open_town(play);
    town_submit(&t, &op);
    town_until(&t, &txns, 1);
    close_town();
    assert_int_equal(t.done, 0);
}

/* ---- Leaving by nonce -------------------------------------------------------------------------------- */

/* KEY, on LEASE, is found and deleted by its nonce: what is revoked then? */
static int leave_by_nonce(const char *key, int64_t lease, bool second_key)
{
    struct reply r;
    struct rt_op op = leave_op("a", 0, 9);
    reply_init(&r, true, 20);
    add_range(&r);
    add_kv(&r, key, "", 5, lease);
    for (int i = 0; i < 2; i++) {
        add_range(&r);
        if (second_key == (i == 1))
            add_kv(&r, key, "", 5, lease);
    }
    open_town(play);
    script[0] = &r;
    assert_int_equal(town_do(&t, &op), 0);
    assert_true(op.leave.granted); /* it was the first of the line */
    assert_int_equal(seen[0]->n_success, 5);
    struct rt_op empty = leave_op("", 0, 9); /* a turn for what nobody waits for */
    assert_int_equal(town_do(&t, &empty), ROTA_INVALID);
    for (int i = 0; i < 4; i++)
        town_step(&t);
    int count = revokes;
    close_town();
    return count;
}

/* A lease of the ticket's own ends with it, or etcd would keep it for the years it was given. The session's lease does
 * not: all other tickets of this process are on it. */
static void a_leave_by_nonce_ends_the_lease_of_the_ticket_alone(void **state)
{
    (void)state;
    assert_int_equal(leave_by_nonce("a/p7-9", 99, true), 1);
    assert_int_equal(revoked[0], 99);
    assert_int_equal(leave_by_nonce("a/p7-9", 0, true), 0);
    assert_int_equal(leave_by_nonce("a/7-9", 7, false), 0);
}

/* At a spot only the value has the nonce: it is found in the line, then deleted if it is that very ticket. */
static void a_leave_by_nonce_finds_its_spot(void **state)
{
    struct reply look, gone;
    struct rt_op op = leave_op("a", 0, 9);
    (void)state;
    reply_init(&look, true, 20);
    add_range(&look);
    add_kv(&look, "a/7-s1", "rota1 0 0 0 - 0 0 0 8 0  ", 4, 7); /* of another nonce */
    add_kv(&look, "a/8-s2", "rota1 0 0 0 - 0 0 0 9 0  ", 5, 8); /* of another session */
    add_kv(&look, "a/7-s3", "rota1 0 0 0 - 0 0 0 9 0  ", 6, 7);
    add_range(&look);
    add_range(&look);
    reply_init(&gone, true, 21);
    add_range(&gone);
    add_kv(&gone, "a/7-s1", "rota1 0 0 0 - 0 0 0 8 0  ", 4, 7);
    add_kv(&gone, "a/7-s3", "rota1 0 0 0 - 0 0 0 9 0  ", 6, 7);
    open_town(play);
    script[0] = &look;
    script[1] = &gone;
    assert_int_equal(town_do(&t, &op), 0);
    assert_false(op.leave.granted);
    assert_int_equal(txns, 2);
    assert_bytes(seen[1]->compare[0]->key, "a/7-s3");
    assert_int_equal(seen[1]->compare[0]->create_revision, 6);
    assert_int_equal(revokes, 0);
    close_town();
}

/* One that we know goes in one flight, and out of our table; the answer says that it held, and a lease of its own goes
 * along. */
static void a_leave_of_what_we_know(void **state)
{
    struct reply gone;
    (void)state;
    reply_init(&gone, true, 20);
    for (int own = 0; own < 2; own++) {
        struct rt_op op = leave_op("a", 5, 0);
        open_town(play);
        add_ticket("a/7-s1", 5)->lease = own != 0 ? 99 : 0;
        script[0] = &gone;
        assert_int_equal(town_do(&t, &op), 0);
        assert_true(op.leave.granted);
        assert_null(rt_etcd_ticket_of_key(t.conn, "a/7-s1", 6));
        for (int i = 0; i < 4; i++)
            town_step(&t);
        assert_int_equal(txns, 1);
        assert_int_equal(revokes, own);
        close_town();
    }
}

/* A reply that does not fit the request: it may have been done. Nobody is told that it was, or that it was not. */
static void odd_replies(void **state)
{
    struct reply odd;
    (void)state;
    reply_init(&odd, true, 20);
    for (int i = 0; i < 5; i++) {
        struct rt_op op = leave_op("a", 5, 0);
        open_town(play);
        script[0] = &odd;
        if (i < 3) {
            op = (struct rt_op){.kind = RT_OP_CHANGE};
            op.change.name = "a";
            op.change.session = 7;
            op.change.number = 5;
            op.change.what = i > 0 ? RT_CHANGE_VALUE : RT_CHANGE_ARM;
            op.change.value = "new";
        } else if (i == 3) {
            op = (struct rt_op){.kind = RT_OP_BREAK};
            op.brk.name = "a";
        }
        if (i < 2)
            (void)add_ticket("a/7-s1", 5);
        int err = town_do(&t, &op);
        assert_true(err != 0 && err != ROTA_LOST);
        assert_int_equal(txns, 1);
        close_town();
    }
}

/* ---- Changing -------------------------------------------------------------------------------------- */

/* A value is written over what was read, and only if nobody wrote meanwhile; else it is read again. The same step sees
 * who waits behind. */
static void a_value_is_written_over_what_was_read(void **state)
{
    struct reply read, raced, written;
    struct rt_op op = {.kind = RT_OP_CHANGE};
    static const char old[] = "rota1 0 0 0 - 0 0 1700000000000 9 2 me old";
    (void)state;
    reply_init(&read, true, 20);
    add_range(&read);
    add_kv(&read, "a/7-s1", old, 5, 7);
    reply_init(&raced, false, 20);
    reply_init(&written, true, 21);
    add_put(&written);
    add_range(&written);
    add_kv(&written, "a/7-s1", old, 5, 7);
    add_kv(&written, "a/8-s1", "rota1 0 0 0 - 0 0 0 3 0  ", 6, 8);
    open_town(play);
    struct rt_etcd_ticket *ticket = add_ticket("a/7-s1", 5);
    ticket->armed = true;
    script[0] = script[2] = &read;
    script[1] = &raced;
    script[3] = &written;
    op.change.name = "a";
    op.change.session = 7;
    op.change.number = 5;
    op.change.what = RT_CHANGE_VALUE;
    op.change.value = "new";
    assert_int_equal(town_do(&t, &op), 0);
    assert_true(op.change.wanted);
    assert_int_equal(txns, 4);
    assert_int_equal(seen[3]->compare[0]->mod_revision, 105);
    const RtEtcd__PutRequest *put = seen[3]->success[0]->put;
    assert_bytes(put->key, "a/7-s1");
    assert_bytes(put->value, "rota1 0 0 0 - 0 0 1700000000000 9 2 me new");
    assert_true(put->ignore_lease);
    close_town();
}

/* ROTA_LOST: not in the line, or waiting there, or another's. */
static void a_change_of_what_is_not_held_is_lost(void **state)
{
    static const struct {
        const char *key;
        int64_t ahead;
    } lines[] = {{"a/7-s1", 4}, {"a/8-s1", 0}, {"a/7", 0}, {NULL, 0}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct reply read;
        struct rt_op op = {.kind = RT_OP_CHANGE};
        reply_init(&read, true, 20);
        add_range(&read);
        if (lines[i].ahead != 0)
            add_kv(&read, "a/9-s1", "rota1 0 0 0 - 0 0 0 3 0  ", lines[i].ahead, 9);
        if (lines[i].key != NULL)
            add_kv(&read, lines[i].key, "rota1 0 0 0 - 0 0 0 9 0  ", 5, 7);
        open_town(play);
        script[0] = &read;
        op.change.name = "a";
        op.change.session = 7;
        op.change.number = 5;
        op.change.what = RT_CHANGE_VALUE;
        op.change.value = "new";
        assert_int_equal(town_do(&t, &op), ROTA_LOST);
        assert_int_equal(txns, 1);
        close_town();
    }
}

/* ---- Breaking -------------------------------------------------------------------------------------- */

/* The ticket 5 stands under KEY, on LEASE; ALIVE: its session has its key. */
static int break_one(const char *key, const char *value, int64_t lease, bool alive)
{
    struct reply look, yes, no;
    struct rt_op op = {.kind = RT_OP_BREAK};
    reply_init(&look, true, 20);
    add_range(&look);
    if (key != NULL)
        add_kv(&look, key, value, 5, lease);
    reply_init(&yes, true, 21);
    reply_init(&no, false, 21);
    open_town(play);
    script[0] = &look;
    script[1] = alive ? &yes : &no;
    script[2] = &yes;
    op.brk.name = "a";
    op.brk.number = 5;
    int err = town_do(&t, &op);
    for (int i = 0; i < 4; i++)
        town_step(&t);
    return err;
}

static const char card[] = "rota1 0 0 0 - 0 0 0 9 0  ";

/* Taken out only if it is that very ticket. Its session hears of it through its key, if it has one. */
static void a_broken_ticket_is_taken_out_and_told(void **state)
{
    (void)state;
    assert_int_equal(break_one("a/7-s1", card, 7, true), 0);
    assert_int_equal(txns, 2);
    assert_int_equal(seen[1]->n_compare, 2);
    assert_bytes(seen[1]->compare[0]->key, "a/7-s1");
    assert_int_equal(seen[1]->compare[0]->create_revision, 5);
    assert_bytes(seen[1]->success[0]->delete_range->key, "a/7-s1");
    assert_bytes(seen[1]->success[1]->put->key, "+rota/7");
    assert_true(seen[1]->success[1]->put->ignore_value && seen[1]->success[1]->put->ignore_lease);
    assert_int_equal(revokes, 0); /* all that the session has is on its lease */
    close_town();
    assert_int_equal(break_one("a/7-s1", card, 7, false), 0);
    assert_int_equal(txns, 3);
    assert_int_equal(seen[2]->n_compare, 1);
    assert_int_equal(seen[2]->n_success, 1);
    close_town();
    assert_int_equal(break_one(NULL, NULL, 0, true), ROTA_LOST);
    assert_int_equal(txns, 1);
    close_town();
}

/* A lease of its own ends with it; that of somebody's data, which may have more keys, does not. */
static void a_broken_ticket_takes_its_own_lease_along(void **state)
{
    static const struct {
        const char *key, *value;
        int64_t lease;
        int revokes;
    } tickets[] = {{"a/p7-9", card, 99, 1}, {"a/p7-9", card, 7, 1},    {"a/p7-9", card, 0, 0},
                   {"a/7-9", card, 91, 1},  {"a/data", "text", 99, 0}, {"a/63", "", 99, 0}};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(break_one(tickets[i].key, tickets[i].value, tickets[i].lease, true), 0);
        assert_int_equal(revokes, tickets[i].revokes);
        if (revokes > 0)
            assert_int_equal(revoked[0], tickets[i].lease);
        close_town();
    }
}

static void add_latch(struct reply *r, bool all)
{
    static const char one[] = "rota1 3 0 3 - 0 0 0 9 0  ";
    reply_init(r, true, 20);
    add_range(r);
    if (all)
        add_kv(r, "a/p7-9", one, 5, 0);
    add_kv(r, "a/7-s1", one, 6, 7);                         /* a session's */
    add_kv(r, "a/p8-9", "rota1 0 0 0 - 0 0 0 9 0  ", 7, 0); /* of another mode */
    add_kv(r, "a/p7-data", one, 8, 0);                      /* somebody's */
    if (all)
        add_kv(r, "a/8-9", "rota1 3 0 3 l 0 0 0 9 0  ", 9, 92); /* left: nobody's any more */
}

/* A latch is reset: everything of ours that stays by itself goes, if still as it was read, until none is left. */
static void a_latch_is_set_back(void **state)
{
    struct reply full, rest, no, yes;
    struct rt_op op = {.kind = RT_OP_BREAK};
    (void)state;
    add_latch(&full, true);
    add_latch(&rest, false);
    reply_init(&no, false, 20);
    reply_init(&yes, true, 21);
    op.brk.name = "a";
    op.brk.mode = RT_COUNT;
    open_town(play);
    script[0] = script[2] = &full;
    script[1] = &no; /* one was changed meanwhile */
    script[3] = &yes;
    script[4] = &rest;
    assert_int_equal(town_do(&t, &op), 0);
    assert_int_equal(txns, 5);
    for (int i = 1; i < 4; i += 2) {
        assert_int_equal(seen[i]->n_compare, 2);
        assert_int_equal(seen[i]->n_success, 2);
        assert_bytes(seen[i]->success[0]->delete_range->key, "a/p7-9");
        assert_int_equal(seen[i]->compare[0]->mod_revision, 105);
        assert_bytes(seen[i]->success[1]->delete_range->key, "a/8-9");
    }
    close_town();
    open_town(play);
    script[0] = &rest;
    assert_int_equal(town_do(&t, &op), ROTA_LOST);
    close_town();
}

/* ---- Small things -------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec ts;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &ts), 0);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* "held since" is for people, on other machines too. */
static void the_wall_clock_is_that_of_the_system(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t before = now_ms(), got = rt_etcd_wall_ms(), after = now_ms();
        assert_true(before <= got && got <= after);
    }
}

/* An open that fails for lack of memory says so, and leaves nothing behind. */
static void an_open_without_memory(void **state)
{
    int failed = 0;
    (void)state;
    scarce_begin();
    for (;; failed++) {
        town_init(&t, 1);
        scarce.asked = 0;
        scarce.fail_at = failed + 1;
        int rv = town_try_open(&t, "etcd://a,b?prefix=x");
        bool reached = scarce.asked >= scarce.fail_at;
        scarce.fail_at = 0;
        if (!reached) {
            assert_int_equal(rv, 0);
            break;
        }
        if (rv == 0) { /* its first connection is tried again */
            struct rt_op op = leave_op("a", 0, 1);
            town_until_ready(&t);
            assert_int_equal(town_do(&t, &op), ROTA_LOST);
            town_close(&t);
        } else {
            assert_int_equal(rv, ROTA_NOMEM);
        }
        assert_int_equal(scarce.live, 0);
    }
    assert_true(failed > 3);
    town_until_ready(&t);
    town_close(&t);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_of_a_name_go_one_after_the_other),
        cmocka_unit_test(a_set_that_names_a_line_twice_is_told),
        cmocka_unit_test(who_closes_hears_nothing_more),
        cmocka_unit_test(a_leave_by_nonce_ends_the_lease_of_the_ticket_alone),
        cmocka_unit_test(a_leave_by_nonce_finds_its_spot),
        cmocka_unit_test(a_leave_of_what_we_know),
        cmocka_unit_test(odd_replies),
        cmocka_unit_test(a_value_is_written_over_what_was_read),
        cmocka_unit_test(a_change_of_what_is_not_held_is_lost),
        cmocka_unit_test(a_broken_ticket_is_taken_out_and_told),
        cmocka_unit_test(a_broken_ticket_takes_its_own_lease_along),
        cmocka_unit_test(a_latch_is_set_back),
        cmocka_unit_test(the_wall_clock_is_that_of_the_system),
        cmocka_unit_test(an_open_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
