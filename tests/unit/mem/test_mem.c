/* SPDX-License-Identifier: Apache-2.0 */
/* The reference engine, op by op, in virtual time. */
#include "lib/scarce.h"
#include "player.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct stage stage;
static struct player alice, bob, carol;

static int setup(void **state)
{
    (void)state;
    stage_init(&stage);
    assert_int_equal(player_open(&stage, &alice, "alice", 10000), 0);
    assert_int_equal(player_open(&stage, &bob, "bob", 10000), 0);
    assert_int_equal(player_open(&stage, &carol, "carol", 10000), 0);
    assert_int_equal(player_beat_open(&alice), 0);
    assert_int_equal(player_beat_open(&bob), 0);
    assert_int_equal(player_beat_open(&carol), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_fini(&stage);
    return 0;
}

static uint64_t join_as(struct player *p, const char *name, uint32_t mode, uint32_t flags)
{
    struct rt_join join = {.name = name, .mode = mode, .flags = flags};
    assert_int_equal(player_join(p, &join), 0);
    return join.number;
}

static int try_as(struct player *p, const char *name, uint32_t mode)
{
    struct rt_join join = {.name = name, .mode = mode, .flags = RT_JOIN_TRY};
    return player_join(p, &join);
}

/* ---- Lines -------------------------------------------------------------- */

static void test_order(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "stock", RT_EXCLUSIVE, 0);
    uint64_t b = join_as(&bob, "stock", RT_EXCLUSIVE, 0);
    uint64_t c = join_as(&carol, "stock", RT_EXCLUSIVE, 0);
    assert_true(a < b && b < c);
    assert_string_equal(player_show(&alice, "stock"), "1X*alice 2X bob 3X carol ");
    assert_int_equal(player_leave(&alice, "stock", a), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "GRANTED stock 2; ");
    assert_string_equal(player_told(&carol), ""); /* I8 */
    assert_int_equal(player_leave(&bob, "stock", b), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "GRANTED stock 3; ");
    assert_int_equal(player_leave(&carol, "stock", c), 0);
    assert_string_equal(player_show(&alice, "stock"), "");
    assert_true(join_as(&alice, "stock", RT_EXCLUSIVE, 0) > c); /* I2 across the line's end */
}

static void test_waiter_leaves(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_SHARED, 0);
    uint64_t b = join_as(&bob, "l", RT_EXCLUSIVE, 0);
    join_as(&carol, "l", RT_SHARED, 0);
    assert_string_equal(player_show(&alice, "l"), "1S*alice 2X bob 3S carol ");
    assert_int_equal(player_leave(&bob, "l", b), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "GRANTED l 3; ");
    assert_string_equal(player_told(&alice), "");
    assert_int_equal(player_leave(&bob, "l", b), ROTA_LOST);
    assert_int_equal(player_leave(&bob, "l", a), ROTA_LOST); /* not his */
    assert_string_equal(player_show(&alice, "l"), "1S*alice 3S*carol ");
}

static void test_try(void **state)
{
    (void)state;
    join_as(&alice, "l", RT_EXCLUSIVE, RT_JOIN_ARM);
    assert_int_equal(try_as(&bob, "l", RT_EXCLUSIVE), ROTA_BUSY);
    assert_string_equal(bob.conn->errmsg, "l is held by alice");
    assert_string_equal(player_show(&alice, "l"), "1X*alice ");
    stage_settle(&stage);
    assert_string_equal(player_told(&alice), ""); /* a try wants nothing */
    assert_int_equal(try_as(&bob, "m", RT_EXCLUSIVE), 0);
}

static void test_idempotent(void **state)
{
    (void)state;
    struct rt_join join = {.name = "l", .nonce = 7};
    assert_int_equal(player_join(&alice, &join), 0);
    uint64_t number = join.number;
    struct rt_join wait = {.name = "l", .nonce = 7};
    assert_int_equal(player_join(&bob, &wait), 0); /* another session's 7 is another ticket */
    assert_int_not_equal(wait.number, number);
    join = (struct rt_join){.name = "l", .nonce = 7};
    assert_int_equal(player_join(&alice, &join), 0);
    assert_true(join.number == number && join.granted);
    struct rt_op other = {
        .kind = RT_OP_LEAVE,
        .leave = {.name = "l", .session = alice.session, .number = number, .nonce = 8}};
    player_submit(&alice, &other); /* of one that had its number before */
    assert_int_equal(other.err, ROTA_LOST);
    assert_int_equal(player_leave(&alice, "l", number), 0);
    assert_int_equal(player_leave(&alice, "l", number), ROTA_LOST);
    wait = (struct rt_join){.name = "l", .nonce = 7, .flags = RT_JOIN_TRY};
    assert_int_equal(player_join(&bob, &wait), 0);
    assert_true(wait.granted); /* as it stands now */
    struct rt_op op = {.kind = RT_OP_LEAVE,
                       .leave = {.name = "l", .session = bob.session, .nonce = 7}};
    player_submit(&bob, &op);
    assert_int_equal(op.err, 0);
    player_submit(&bob, &op);
    assert_int_equal(op.err, ROTA_LOST);
}

static void test_kinds(void **state)
{
    (void)state;
    struct rt_join join = {.name = "p", .mode = RT_PERMITS, .take = 1, .of = 3};
    assert_int_equal(player_join(&alice, &join), 0);
    join = (struct rt_join){.name = "p", .mode = RT_PERMITS, .take = 1, .of = 4};
    assert_int_equal(player_join(&bob, &join), ROTA_INVALID);
    assert_string_equal(bob.conn->errmsg,
                        "p is permits of 3 now, not permits of 4: use another name");
    assert_int_equal(try_as(&bob, "p", RT_SHARED), ROTA_INVALID);
    assert_string_equal(bob.conn->errmsg, "p is permits of 3 now, not a lock: use another name");
    join = (struct rt_join){.name = "q", .mode = RT_PERMITS, .take = 4, .of = 3};
    assert_int_equal(player_join(&bob, &join), ROTA_INVALID);
    join = (struct rt_join){.name = ""};
    assert_int_equal(player_join(&bob, &join), ROTA_INVALID);
    assert_string_equal(player_show(&alice, "q"), "");
}

static uint64_t permits(struct player *p, uint32_t take)
{
    struct rt_join join = {.name = "p", .mode = RT_PERMITS, .take = take, .of = 3};
    assert_int_equal(player_join(p, &join), 0);
    return join.number;
}

static void test_permits(void **state)
{
    (void)state;
    uint64_t two = permits(&alice, 2);
    permits(&bob, 2);
    permits(&carol, 1); /* would fit, but does not overtake */
    assert_string_equal(player_show(&alice, "p"), "1P*alice 2P bob 3P carol ");
    assert_int_equal(player_leave(&alice, "p", two), 0);
    assert_string_equal(player_show(&alice, "p"), "2P*bob 3P*carol ");
}

static void test_gather(void **state)
{
    (void)state;
    struct player *all[] = {&alice, &bob, &carol};
    struct rt_join join[3];
    for (int i = 0; i < 3; i++) {
        join[i] = (struct rt_join){.name = "b", .mode = RT_GATHER, .of = 2};
        assert_int_equal(player_join(all[i], &join[i]), 0);
    }
    stage_settle(&stage);
    assert_false(join[0].granted);
    assert_true(join[1].granted);
    assert_string_equal(player_told(&alice), "GRANTED b 1; ");
    assert_string_equal(player_show(&alice, "b"), "1G*alice 2G*bob 3G carol ");
    assert_int_equal(player_leave(&alice, "b", 1), 0); /* those who went through do not undo it */
    assert_string_equal(player_show(&alice, "b"), "2G*bob 3G carol ");
    join[0] = (struct rt_join){.name = "b", .mode = RT_GATHER, .of = 2};
    assert_int_equal(player_join(&alice, &join[0]), 0);
    assert_true(join[0].granted); /* the next round */
}

static void test_join_all(void **state)
{
    (void)state;
    uint64_t held = join_as(&bob, "y", RT_EXCLUSIVE, 0);
    struct rt_join joins[] = {
        {.name = "x", .session = alice.session, .nonce = 1, .flags = RT_JOIN_TRY},
        {.name = "y", .session = alice.session, .nonce = 2},
    };
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .join = {.joins = joins, .n = 2}};
    player_submit(&alice, &op);
    assert_int_equal(op.err, ROTA_BUSY);
    assert_string_equal(player_show(&bob, "x"), ""); /* none of them */
    joins[0].flags = 0;
    player_submit(&alice, &op);
    assert_int_equal(op.err, 0);
    assert_true(joins[0].granted && !joins[1].granted);
    uint64_t numbers[] = {joins[0].number, joins[1].number};
    player_submit(&alice, &op);
    assert_true(op.err == 0 && joins[0].number == numbers[0] && joins[1].number == numbers[1]);
    assert_int_equal(player_leave(&bob, "y", held), 0);
    stage_settle(&stage);
    assert_string_equal(strstr(player_told(&alice), "GRANTED y"), "GRANTED y 5; ");
    assert_int_equal(player_leave(&alice, "x", numbers[0]), 0);
    player_submit(&alice, &op); /* asked again, of what is there in part */
    assert_int_equal(op.err, ROTA_LOST);
    assert_string_equal(player_show(&bob, "x"), "");
}

static void test_downgrade(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, 0);
    join_as(&bob, "l", RT_SHARED, 0);
    join_as(&carol, "l", RT_EXCLUSIVE, 0);
    assert_int_equal(player_change(&bob, "l", 2, 0, NULL, NULL), ROTA_LOST); /* not granted */
    assert_int_equal(player_change(&alice, "l", a, RT_CHANGE_DOWNGRADE, NULL, NULL), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "GRANTED l 2; ");
    assert_string_equal(player_told(&carol), "");
    assert_int_equal(player_change(&alice, "l", a, RT_CHANGE_DOWNGRADE, NULL, NULL), 0);
    assert_string_equal(player_show(&alice, "l"), "1S*alice 2S*bob 3X carol ");
}

static void test_wanted(void **state)
{
    (void)state;
    bool wanted;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, RT_JOIN_ARM);
    uint64_t b = join_as(&bob, "l", RT_EXCLUSIVE, RT_JOIN_ARM);
    stage_settle(&stage);
    assert_string_equal(player_told(&alice), "WANTED l 1; ");
    join_as(&carol, "l", RT_EXCLUSIVE, 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&alice), ""); /* told once */
    assert_int_equal(player_leave(&alice, "l", a), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "GRANTED l 2; WANTED l 2; ");
    assert_int_equal(player_leave(&bob, "l", b), 0);
    join_as(&alice, "l", RT_EXCLUSIVE, 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "GRANTED l 3; "); /* not armed */
    assert_int_equal(player_change(&carol, "l", 3, 0, NULL, &wanted), 0);
    assert_false(wanted);
    assert_int_equal(player_change(&carol, "l", 3, RT_CHANGE_ARM, NULL, &wanted), 0);
    assert_true(wanted);
}

static void test_break(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, 0);
    join_as(&bob, "l", RT_EXCLUSIVE, 0);
    assert_int_equal(player_break(&carol, "l", 99, 0), ROTA_LOST);
    assert_int_equal(player_break(&carol, "l", a, 0), 0);
    assert_int_equal(player_break(&carol, "l", a, 0), ROTA_LOST);
    stage_settle(&stage);
    assert_string_equal(player_told(&alice), "TICKET_LOST l 1; ");
    assert_string_equal(player_told(&bob), "GRANTED l 2; ");
    assert_int_equal(player_change(&alice, "l", a, 0, NULL, NULL), ROTA_LOST);
    assert_int_equal(player_beat(&alice, &a, 1), 0); /* it still believes: told again */
    assert_string_equal(player_told(&alice), "TICKET_LOST l 1; ");
    assert_int_equal(player_leave(&alice, "l", a), ROTA_LOST);
    assert_int_equal(player_beat(&alice, &a, 1), 0);
    assert_string_equal(player_told(&alice), "");
}

/* ---- Time --------------------------------------------------------------- */

static void test_expiry(void **state)
{
    (void)state;
    join_as(&alice, "l", RT_EXCLUSIVE, 0);
    stage_advance(&stage, 6000);
    assert_int_equal(player_beat(&bob, NULL, 0), 0);
    join_as(&bob, "l", RT_EXCLUSIVE, 0);
    stage_advance(&stage, 3999);
    assert_string_equal(player_told(&bob), "");
    stage_advance(&stage, 1); /* alice was not heard of for her ttl (I6) */
    assert_string_equal(player_told(&bob), "GRANTED l 2; ");
    assert_string_equal(player_told(&alice), "SESSION_LOST; ");
    assert_int_equal(player_beat(&alice, NULL, 0), ROTA_LOST);
    struct rt_join join = {.name = "l"};
    assert_int_equal(player_join(&alice, &join), ROTA_LOST);
}

static void test_closed_session_expires(void **state)
{
    (void)state;
    join_as(&alice, "l", RT_EXCLUSIVE, 0);
    player_close(&stage, &alice);
    join_as(&bob, "l", RT_EXCLUSIVE, 0);
    assert_string_equal(player_show(&bob, "l"), "1X*alice 2X bob ");
    assert_int_equal(player_beat(&bob, NULL, 0), 0);
    stage_advance(&stage, 9000);
    assert_int_equal(player_beat(&bob, NULL, 0), 0);
    stage_advance(&stage, 1000);
    assert_string_equal(player_told(&bob), "GRANTED l 2; ");
}

static void test_beat_catches_up(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, 0);
    uint64_t b = join_as(&bob, "l", RT_EXCLUSIVE, RT_JOIN_ARM);
    join_as(&carol, "l", RT_EXCLUSIVE, 0);
    assert_int_equal(player_leave(&alice, "l", a), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "GRANTED l 2; WANTED l 2; ");
    assert_int_equal(player_beat(&bob, &b, 1), 0);
    assert_string_equal(player_told(&bob), "GRANTED l 2; WANTED l 2; ");
    assert_int_equal(player_change(&bob, "l", b, 0, NULL, NULL), 0); /* so it knows */
    assert_int_equal(player_beat(&bob, &b, 1), 0);
    assert_string_equal(player_told(&bob), "WANTED l 2; ");
}

static void test_durable(void **state)
{
    (void)state;
    struct rt_join join = {
        .name = "once", .session = 4711, .flags = RT_JOIN_DURABLE | RT_JOIN_TRY, .until_ms = 60000};
    assert_int_equal(player_join(&alice, &join), 0);
    player_close(&stage, &alice);
    stage_advance(&stage, 59999);
    assert_int_equal(player_beat_open(&bob), 0);
    assert_int_equal(try_as(&bob, "once", RT_EXCLUSIVE), ROTA_BUSY);
    join_as(&bob, "once", RT_EXCLUSIVE, 0);
    stage_advance(&stage, 1);
    assert_string_equal(strstr(player_told(&bob), "GRANTED"), "GRANTED once 3; ");
}

static void test_durable_waits(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "row", RT_EXCLUSIVE, 0);
    struct rt_join join = {
        .name = "row", .session = 4711, .flags = RT_JOIN_DURABLE | RT_JOIN_ARM, .until_ms = 60000};
    assert_int_equal(player_join(&bob, &join), 0);
    join_as(&carol, "row", RT_EXCLUSIVE, 0);
    assert_int_equal(player_leave(&alice, "row", a), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "GRANTED row 2; WANTED row 2; ");
    assert_int_equal(player_beat(&bob, NULL, 0), 0);
    assert_string_equal(player_told(&bob), "GRANTED row 2; WANTED row 2; ");
    player_close(&stage, &bob); /* the ticket stays */
    assert_string_equal(player_show(&carol, "row"), "2X*bob 3X carol ");
    struct rt_op op = {.kind = RT_OP_LEAVE,
                       .leave = {.name = "row", .session = 4711, .number = join.number}};
    player_submit(&alice, &op); /* whoever knows its id ends it */
    assert_int_equal(op.err, 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "GRANTED row 3; ");
}

static void test_latch(void **state)
{
    (void)state;
    for (uint64_t party = 1; party <= 3; party++) {
        struct rt_join join = {.name = "latch",
                               .session = 1,
                               .nonce = party,
                               .mode = RT_COUNT,
                               .of = 3,
                               .flags = RT_JOIN_DURABLE};
        assert_int_equal(player_join(&alice, &join), 0);
        assert_true(join.granted);
    }
    assert_int_equal(player_break(&bob, "latch", 0, RT_COUNT), 0);
    assert_string_equal(player_show(&bob, "latch"), "");
    assert_int_equal(player_break(&bob, "latch", 0, RT_COUNT), ROTA_LOST);
}

static void test_at_least(void **state)
{
    (void)state;
    struct rt_join join = {.name = "l", .at_least_ms = 2000};
    assert_int_equal(player_join(&alice, &join), 0);
    join_as(&bob, "l", RT_EXCLUSIVE, 0);
    stage_advance(&stage, 500);
    assert_int_equal(player_leave(&alice, "l", join.number), 0);
    assert_int_equal(player_leave(&alice, "l", join.number), ROTA_LOST);
    assert_string_equal(player_show(&bob, "l"), "1X*alice 2X bob ");
    stage_advance(&stage, 1499);
    assert_string_equal(player_told(&bob), "");
    stage_advance(&stage, 1); /* not only when alice's session would have ended */
    assert_string_equal(player_told(&bob), "GRANTED l 2; ");
}

/* From the grant on, however long it had waited. */
static void test_at_least_counts_from_the_grant(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, 0);
    struct rt_join join = {.name = "l", .at_least_ms = 2000};
    assert_int_equal(player_join(&bob, &join), 0);
    stage_advance(&stage, 1500);
    assert_int_equal(player_leave(&alice, "l", a), 0);
    stage_settle(&stage);
    stage_advance(&stage, 1000);
    assert_int_equal(player_leave(&bob, "l", join.number), 0);
    assert_int_equal(try_as(&carol, "l", RT_EXCLUSIVE), ROTA_BUSY);
    stage_advance(&stage, 999);
    assert_int_equal(try_as(&carol, "l", RT_EXCLUSIVE), ROTA_BUSY);
    stage_advance(&stage, 1);
    assert_int_equal(try_as(&carol, "l", RT_EXCLUSIVE), 0);
}

static void test_a_beat_answers_its_times(void **state)
{
    (void)state;
    for (int open = 0; open < 2; open++) {
        struct rt_op op = {.kind = RT_OP_BEAT,
                           .beat = {.open = open, .session = alice.session, .allowance_ms = 7}};
        player_submit(&alice, &op);
        assert_int_equal(op.err, 0);
        assert_int_equal(op.beat.ttl_ms, alice.mem->ttl_ms);
        assert_int_equal(op.beat.allowance_ms, 0); /* one clock for all */
    }
}

/* By number as well as by nonce; and for one that waits there was never anything to keep. */
static void test_at_least_untold(void **state)
{
    (void)state;
    for (int by_nonce = 0; by_nonce < 2; by_nonce++) {
        struct rt_join join = {.name = "l", .nonce = 70, .at_least_ms = 2000};
        assert_int_equal(player_join(&alice, &join), 0);
        struct rt_op leave = {.kind = RT_OP_LEAVE,
                              .leave = {.name = "l",
                                        .session = alice.session,
                                        .number = by_nonce ? 0 : join.number,
                                        .nonce = by_nonce ? 70 : 0,
                                        .untold = !by_nonce}};
        player_submit(&alice, &leave);
        assert_int_equal(leave.err, 0);
        assert_true(leave.leave.granted);
        assert_string_equal(player_show(&bob, "l"), "");
        player_submit(&alice, &leave); /* asked again */
        assert_int_equal(leave.err, ROTA_LOST);
    }
}

static void test_at_least_broken(void **state)
{
    (void)state;
    struct rt_join join = {.name = "l", .at_least_ms = 2000};
    assert_int_equal(player_join(&alice, &join), 0);
    assert_int_equal(player_leave(&alice, "l", join.number), 0);
    assert_int_equal(player_break(&bob, "l", join.number, 0), 0);
    assert_int_equal(try_as(&bob, "l", RT_EXCLUSIVE), 0);
}

/* ---- Looking ------------------------------------------------------------ */

static void test_observe(void **state)
{
    (void)state;
    int cookie;
    assert_int_equal(player_observe(&carol, "e", &cookie, false), 0);
    assert_string_equal(player_told(&carol), "CHANGED e 0= of 0; ");
    struct rt_join join = {.name = "e", .value = "one"};
    assert_int_equal(player_join(&alice, &join), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "CHANGED e 1=one of 1; ");
    assert_int_equal(player_change(&alice, "e", 1, RT_CHANGE_VALUE, "two", NULL), 0);
    join_as(&bob, "e", RT_EXCLUSIVE, 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "CHANGED e 1=two of 2; "); /* the last state */
    assert_int_equal(player_beat(&bob, NULL, 0), 0);
    stage_advance(&stage, 5000);
    assert_int_equal(player_beat(&bob, NULL, 0), 0);
    assert_int_equal(player_beat(&carol, NULL, 0), 0);
    player_told(&carol);
    stage_advance(&stage, 5000); /* alice dies: nobody but the observer's timer notices */
    assert_string_equal(player_told(&carol), "CHANGED e 2= of 1; ");
    assert_int_equal(player_observe(&carol, NULL, &cookie, true), 0);
    assert_int_equal(player_leave(&bob, "e", 2), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&carol), "");
}

static void add_line(void *arg, const char *name, size_t count, size_t granted)
{
    char *text = arg;
    size_t length = strlen(text);
    snprintf(text + length, 256 - length, "%s:%zu/%zu ", name, granted, count);
}

static void test_list(void **state)
{
    (void)state;
    char text[256] = "";
    join_as(&alice, "ab", RT_EXCLUSIVE, 0);
    join_as(&alice, "a", RT_EXCLUSIVE, 0);
    join_as(&bob, "a", RT_EXCLUSIVE, 0);
    join_as(&bob, "b", RT_SHARED, 0);
    struct rt_op op = {.kind = RT_OP_LIST, .list = {.each = add_line, .arg = text}};
    player_submit(&alice, &op);
    assert_string_equal(text, "a:1/2 ab:1/1 b:1/1 ");
    text[0] = '\0';
    op.list.prefix = "a";
    player_submit(&alice, &op);
    assert_string_equal(text, "a:1/2 ab:1/1 ");
}

static void copy_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)name;
    *(struct rota_place *)arg = *place;
}

static void test_inspect(void **state)
{
    (void)state;
    struct rt_join join = {.name = "l", .owner = 5, .value = "v", .flags = RT_JOIN_DETECT};
    assert_int_equal(player_join(&alice, &join), 0);
    stage_advance(&stage, 1500);
    struct rota_place place;
    struct rt_op op = {.kind = RT_OP_INSPECT,
                       .inspect = {.name = "l", .each = copy_place, .arg = &place}};
    player_submit(&alice, &op);
    assert_int_equal(place.owner, 5);
    assert_int_equal(place.session, alice.session);
    assert_int_equal(place.since_ms, 1500);
    assert_int_equal(place.left_ms, 8500);
    assert_int_equal(place.flags, ROTA_PLACE_GRANTED | ROTA_PLACE_MINE | ROTA_PLACE_DETECT);
    join_as(&bob, "l", RT_EXCLUSIVE, 0);
    assert_string_equal(player_show(&bob, NULL), "2X bob "); /* by session */
}

static void count_verdict(void *arg, const struct rota_verdict *verdict)
{
    assert_non_null(verdict->promise);
    ++*(int *)arg;
}

static void test_check_and_deadline(void **state)
{
    (void)state;
    int n = 0;
    struct rt_op op = {.kind = RT_OP_CHECK, .check = {.each = count_verdict, .arg = &n}};
    player_submit(&alice, &op);
    assert_true(op.err == 0 && n >= 2);
    stage_advance(&stage, 10);
    op.deadline = 5 * RT_MS;
    player_submit(&alice, &op);
    assert_int_equal(op.err, ROTA_UNREACHABLE);
}

/* ---- Memory ------------------------------------------------------------- */

static int setup_counting(void **state)
{
    scarce_begin();
    return setup(state);
}

static int teardown_counting(void **state)
{
    scarce_leave(-1);
    teardown(state);
    scarce_end();
    assert_int_equal(scarce.live, 0);
    assert_int_equal(scarce.bytes, 0);
    return 0;
}

static void test_budget(void **state)
{
    (void)state;
    enum { LOCKS = 70000 }; /* just after the table has doubled: its worst */
    size_t before = scarce.bytes;
    char name[32];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "order:%06d", i);
        join_as(&alice, name, RT_EXCLUSIVE, 0);
    }
    size_t each = (scarce.bytes - before) / LOCKS;
    assert_in_range(each, 1, 170); /* 20 of them are what the heap rounds */
    for (uint64_t i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "order:%06d", (int)i);
        assert_int_equal(player_leave(&alice, name, i + 1), 0);
    }
    assert_in_range(scarce.bytes - before, 0, 8 * LOCKS); /* only the table stays */
}

/* One round of every op that allocates. Returns the first error. */
static int every_op(void)
{
    struct rt_join joins[] = {
        {.name = "x", .session = alice.session, .nonce = 1, .value = "v", .at_least_ms = 1},
        {.name = "y", .session = alice.session, .nonce = 2},
    };
    struct rt_op all = {.kind = RT_OP_JOIN_ALL, .join = {.joins = joins, .n = 2}};
    player_submit(&alice, &all);
    if (all.err != 0)
        return all.err;
    int rv = player_change(&alice, "y", joins[1].number, RT_CHANGE_VALUE, "w", NULL);
    if (rv != 0)
        return rv;
    rv = player_observe(&alice, "x", &all, false);
    if (rv != 0)
        return rv;
    char text[256] = "";
    struct rt_op list = {.kind = RT_OP_LIST, .list = {.each = add_line, .arg = text}};
    player_submit(&alice, &list);
    if (list.err != 0)
        return list.err;
    rv = player_beat_open(&bob);
    return rv;
}

static void test_no_memory(void **state)
{
    (void)state;
    int rv = ROTA_NOMEM;
    long n;
    for (n = 0; rv != 0; n++) {
        assert_in_range(n, 0, 100);
        scarce_leave(n);
        rv = every_op();
        scarce_leave(-1);
        assert_true(rv == 0 || rv == ROTA_NOMEM);
        if (n < 6) /* the joins did not get through: nothing may be left of them */
            assert_string_equal(player_show(&alice, NULL), "");
        stage_advance(&stage, 2);
        player_observe(&alice, "x", NULL, true);
        player_leave(&alice, "x", 0);
        struct rt_op leave = {.kind = RT_OP_LEAVE,
                              .leave = {.name = "x", .session = alice.session, .nonce = 1}};
        player_submit(&alice, &leave);
        leave.leave.name = "y";
        leave.leave.nonce = 2;
        player_submit(&alice, &leave);
        assert_string_equal(player_show(&alice, NULL), "");
    }
    assert_true(n > 8);
}

static void test_open_no_memory(void **state)
{
    (void)state;
    int rv = ROTA_NOMEM;
    scarce_begin();
    for (long n = 0; rv != 0; n++) {
        assert_in_range(n, 0, 10);
        stage_init(&stage);
        scarce_leave(n);
        rv = player_open(&stage, &alice, "alice", 0);
        scarce_leave(-1);
        assert_true(rv == 0 || rv == ROTA_NOMEM);
        stage_fini(&stage);
        assert_int_equal(scarce.live, 0);
    }
    scarce_end();
}

static void test_refused(void **state)
{
    (void)state;
    static char value[1025];
    memset(value, 'v', sizeof(value) - 1);
    struct rt_join join = {.name = "l", .value = value};
    assert_int_equal(player_join(&alice, &join), ROTA_INVALID);
    join = (struct rt_join){.name = "l", .at_least_ms = -1};
    assert_int_equal(player_join(&alice, &join), ROTA_INVALID);
    assert_string_equal(player_show(&alice, "l"), "");
    join = (struct rt_join){.name = "l", .mode = RT_PERMITS, .take = 1, .of = 2};
    assert_int_equal(player_join(&alice, &join), 0);
    assert_int_equal(player_change(&alice, "l", join.number, RT_CHANGE_DOWNGRADE, NULL, NULL),
                     ROTA_INVALID);
    assert_int_equal(player_change(&alice, "l", join.number, RT_CHANGE_VALUE, value, NULL),
                     ROTA_INVALID);
}

/* ---- Numbers that come with the grant ----------------------------------- */

static int setup_late(void **state)
{
    (void)state;
    stage_init(&stage);
    stage.late = true;
    assert_int_equal(player_open(&stage, &alice, "alice", 10000), 0);
    assert_int_equal(player_open(&stage, &bob, "bob", 10000), 0);
    assert_int_equal(player_beat_open(&alice), 0);
    assert_int_equal(player_beat_open(&bob), 0);
    return 0;
}

static void test_late_number(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, 0);
    assert_true(a == STAGE_LATE + 1); /* granted at once: numbered by its answer */
    uint64_t b = join_as(&bob, "l", RT_EXCLUSIVE, 0);
    assert_true(b < STAGE_LATE);
    assert_string_equal(player_show(&alice, "l"), "4294967297X*alice "); /* nobody sees who waits */
    assert_true((alice.conn->engine->caps(alice.conn) & ROTA_CAP_ORDER) == 0);
    assert_int_equal(player_leave(&alice, "l", a), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "GRANTED l 2=#2; ");
    assert_int_equal(player_leave(&bob, "l", b), ROTA_LOST); /* its name is forgotten */
    assert_int_equal(player_beat(&bob, &b, 1), 0);           /* and he has not heard of it */
    assert_string_equal(player_told(&bob), "GRANTED l 2=#2; ");
    uint64_t fence = STAGE_LATE + 2;
    assert_int_equal(player_beat(&bob, &fence, 1), 0);
    assert_string_equal(player_told(&bob), "");
    assert_int_equal(player_leave(&bob, "l", fence), 0);
    assert_string_equal(player_show(&alice, "l"), "");
}

static void test_late_lost(void **state)
{
    (void)state;
    uint64_t a = join_as(&alice, "l", RT_EXCLUSIVE, 0);
    uint64_t b = join_as(&bob, "l", RT_EXCLUSIVE, 0), fence = STAGE_LATE + 2;
    assert_int_equal(player_leave(&alice, "l", a), 0);
    assert_int_equal(player_break(&alice, "l", fence, 0), 0);
    stage_settle(&stage);
    assert_string_equal(player_told(&bob), "TICKET_LOST l 2; "); /* he knows it by nothing else */
    assert_int_equal(player_beat(&bob, &fence, 1), 0);
    assert_string_equal(player_told(&bob), "TICKET_LOST l 4294967298; ");
    assert_int_equal(player_beat(&bob, &b, 1), 0);
    assert_string_equal(player_told(&bob), "TICKET_LOST l 2; ");
    assert_int_equal(player_leave(&bob, "l", fence), ROTA_LOST);
    assert_int_equal(player_beat(&bob, &b, 1), 0);
    assert_string_equal(player_told(&bob), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_COUNTING(name) cmocka_unit_test_setup_teardown(name, setup_counting, teardown_counting)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_order),
        cmocka_unit_test_setup_teardown(test_late_number, setup_late, teardown),
        cmocka_unit_test_setup_teardown(test_late_lost, setup_late, teardown),
        TEST(test_waiter_leaves),
        TEST(test_try),
        TEST(test_idempotent),
        TEST(test_kinds),
        TEST(test_permits),
        TEST(test_gather),
        TEST(test_join_all),
        TEST(test_downgrade),
        TEST(test_wanted),
        TEST(test_break),
        TEST(test_expiry),
        TEST(test_closed_session_expires),
        TEST(test_beat_catches_up),
        TEST(test_durable),
        TEST(test_durable_waits),
        TEST(test_latch),
        TEST(test_at_least),
        TEST(test_at_least_counts_from_the_grant),
        TEST(test_a_beat_answers_its_times),
        TEST(test_at_least_untold),
        TEST(test_at_least_broken),
        TEST(test_observe),
        TEST(test_list),
        TEST(test_inspect),
        TEST(test_check_and_deadline),
        TEST(test_refused),
        TEST_COUNTING(test_budget),
        TEST_COUNTING(test_no_memory),
        cmocka_unit_test(test_open_no_memory),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
