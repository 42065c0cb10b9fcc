/* SPDX-License-Identifier: Apache-2.0 */
/* ?also=: stories over two worlds of mem. `a` and `b` stand in the line and take the lock beside it, `line` sees only
 * the line, `other` is a stranger who knows only the lock beside it. */
#include "engine/also/also.h"
#include "lib/scarce.h"
#include "lib/user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct user a, b, line, other;

static int begin(void **state)
{
    (void)state;
    user_start(&a, "mem:unit?also=late", 0);
    user_start(&b, "mem:unit?also=late", 0);
    user_start(&line, "mem:unit", 0);
    user_start(&other, "mem:unit+also?fence=grant", 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    user_close(&other);
    user_close(&line);
    user_close(&b);
    user_close(&a);
    return 0;
}

/* ---- What is seen ----------------------------------------------------------- */

struct places {
    struct rota_place at[8];
    size_t count;
};

static void each_place(void *arg, const char *name, const struct rota_place *place)
{
    struct places *p = arg;
    (void)name;
    assert_true(p->count < 8);
    p->at[p->count++] = *place;
}

static struct places inspect(struct user *u, const char *name)
{
    struct places p = {0};
    struct rt_op op = {.kind = RT_OP_INSPECT,
                       .inspect = {.name = name, .each = each_place, .arg = &p}};
    assert_int_equal(user_do(u, &op), 0);
    return p;
}

static bool holds(const struct rota_place *p)
{
    return p->flags & ROTA_PLACE_GRANTED;
}

/* Nothing of ours is in the line, and the lock beside it can be had. */
static void until_free(const char *name)
{
    struct rt_join join = {.flags = RT_JOIN_TRY};
    for (uint32_t i = 0; i < USER_LIMIT_MS && inspect(&line, name).count > 0; i++)
        user_turn(&a, 1);
    assert_int_equal(inspect(&line, name).count, 0);
    assert_int_equal(user_join(&other, name, &join), 0);
    assert_int_equal(user_leave(&other, name, join.number), 0);
}

static int try(struct user *u, const char *name)
{
    struct rt_join join = {.flags = RT_JOIN_TRY};
    return user_join(u, name, &join);
}

static int verify(struct user *u, const char *name, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_CHANGE,
                       .change = {.name = name, .session = u->session, .number = number}};
    return user_do(u, &op);
}

static int break_by(struct user *u, const char *name, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_BREAK, .brk = {.name = name, .number = number}};
    return user_do(u, &op);
}

/* ---- Stories ---------------------------------------------------------------- */

static void test_both_are_held(void **state)
{
    struct rt_join join = {0};
    (void)state;
    assert_int_equal(user_join(&a, "x", &join), 0);
    assert_true(join.granted && join.number != 0);
    assert_int_equal(try(&other, "x"), ROTA_BUSY);
    assert_int_equal(inspect(&line, "x").count, 1);
    struct places p = inspect(&b, "x");
    assert_true(p.count == 1 && holds(&p.at[0]) && p.at[0].number == join.number);
    assert_int_equal(verify(&a, "x", join.number), 0);
    assert_int_equal(user_leave(&a, "x", join.number), 0);
    until_free("x");
}

static void test_the_front_waits_for_who_holds_beside_it(void **state)
{
    struct rt_join theirs = {.owner = 5}, first = {0}, second = {0};
    (void)state;
    assert_int_equal(user_join(&other, "x", &theirs), 0);
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_int_equal(user_join(&b, "x", &second), 0);
    assert_true(!first.granted && !second.granted && first.number < second.number);
    struct places p = inspect(&b, "x");
    assert_true(p.count == 3 && holds(&p.at[0]) && !holds(&p.at[1]) && !holds(&p.at[2]));
    assert_true(p.at[1].number == first.number && p.at[2].number == second.number);
    assert_int_equal(verify(&a, "x", first.number), ROTA_LOST); /* it holds nothing yet */
    assert_int_equal(user_leave(&other, "x", theirs.number), 0);
    user_hear(&a, RT_GRANTED, first.number, 0);
    assert_int_equal(b.told_count, 0);
    assert_int_equal(user_leave(&a, "x", first.number), 0);
    user_hear(&b, RT_GRANTED, second.number, 0);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    until_free("x");
}

/* Given back before the line is left: whoever waits beside it is next, and none of ours is told meanwhile. */
static void test_others_have_their_turn(void **state)
{
    struct rt_join first = {0}, second = {0}, theirs = {.owner = 5};
    (void)state;
    assert_int_equal(user_join(&a, "x", &first), 0);
    assert_int_equal(user_join(&other, "x", &theirs), 0);
    assert_int_equal(user_join(&b, "x", &second), 0);
    assert_int_equal(user_leave(&a, "x", first.number), 0);
    size_t at = user_hear(&other, RT_GRANTED, theirs.number, 0);
    struct places p = inspect(&b, "x"); /* at the front by now, and it has heard of it */
    assert_true(p.count == 2 && holds(&p.at[0]) && p.at[1].number == second.number);
    assert_int_equal(b.told_count, 0);
    assert_int_equal(user_leave(&other, "x", other.told[at].fence), 0);
    user_hear(&b, RT_GRANTED, second.number, 0);
    assert_int_equal(user_leave(&b, "x", second.number), 0);
    until_free("x");
}

static void test_a_try_leaves_nothing(void **state)
{
    struct rt_join theirs = {.owner = 5};
    (void)state;
    assert_int_equal(user_join(&other, "x", &theirs), 0);
    assert_int_equal(try(&a, "x"), ROTA_BUSY);
    assert_non_null(strstr(a.errmsg, "also=late"));
    assert_int_equal(inspect(&line, "x").count, 0);
    assert_int_equal(user_leave(&other, "x", theirs.number), 0);
    until_free("x");
}

static void test_a_set_is_all_or_nothing(void **state)
{
    struct rt_join theirs = {.owner = 5};
    (void)state;
    assert_int_equal(user_join(&other, "y", &theirs), 0);
    struct rt_join set[] = {
        {.name = "x", .session = a.session, .nonce = 901, .flags = RT_JOIN_TRY},
        {.name = "y", .session = a.session, .nonce = 902, .flags = RT_JOIN_TRY},
        {.name = "z", .session = a.session, .nonce = 903, .flags = RT_JOIN_TRY},
    };
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .join = {set, 3}};
    assert_int_equal(user_do(&a, &op), ROTA_BUSY);
    until_free("x");
    until_free("z");
    assert_int_equal(user_leave(&other, "y", theirs.number), 0);
    until_free("y");
    op = (struct rt_op){.kind = RT_OP_JOIN_ALL, .join = {set, 3}};
    assert_int_equal(user_do(&a, &op), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(set[i].granted);
        assert_int_equal(try(&other, set[i].name), ROTA_BUSY);
        assert_int_equal(user_leave(&a, set[i].name, set[i].number), 0);
    }
}

static int scant(int err)
{
    if (err != 0 && err != ROTA_NOMEM && err != ROTA_UNKNOWN && err != ROTA_LOST)
        fail_msg("said %s: %s", rota_strerror(err), a.errmsg);
    return err;
}

static void leave_by_nonce(const char *name, uint64_t nonce)
{
    struct rt_op op = {.kind = RT_OP_LEAVE,
                       .leave = {.name = name, .session = a.session, .nonce = nonce}};
    for (int i = 0; i < 3 && scant(user_do(&a, &op)) != 0; i++)
        op = (struct rt_op){.kind = RT_OP_LEAVE, .leave = op.leave};
}

/* ---- Losses ----------------------------------------------------------------- */

static void test_the_lock_beside_it_is_lost(void **state)
{
    struct rt_join mine = {0}, next = {0};
    (void)state;
    assert_int_equal(user_join(&a, "x", &mine), 0);
    assert_int_equal(user_join(&b, "x", &next), 0);
    struct places p = inspect(&other, "x");
    assert_int_equal(p.count, 1);
    assert_int_equal(break_by(&other, "x", p.at[0].number), 0);
    user_hear(&a, RT_TICKET_LOST, mine.number, 0);
    user_hear(&b, RT_GRANTED, next.number, 0); /* it has left the line */
    assert_int_equal(verify(&a, "x", mine.number), ROTA_LOST);
    assert_int_equal(user_leave(&a, "x", mine.number), ROTA_LOST);
    assert_int_equal(user_leave(&b, "x", next.number), 0);
    until_free("x");
}

/* Before its holder hears of it: the release says so (I4). */
static void test_the_release_tells_of_the_loss(void **state)
{
    struct rt_join mine = {0};
    (void)state;
    assert_int_equal(user_join(&a, "x", &mine), 0);
    struct places p = inspect(&other, "x");
    assert_int_equal(break_by(&other, "x", p.at[0].number), 0);
    assert_int_equal(user_leave(&a, "x", mine.number), ROTA_LOST);
    until_free("x");
}

static void test_the_place_in_the_line_is_lost(void **state)
{
    struct rt_join mine = {0}, waits = {0}, theirs = {.owner = 5};
    (void)state;
    assert_int_equal(user_join(&a, "x", &mine), 0);
    assert_int_equal(break_by(&line, "x", mine.number), 0);
    user_hear(&a, RT_TICKET_LOST, mine.number, 0);
    until_free("x");
    assert_int_equal(user_join(&other, "y", &theirs), 0);
    assert_int_equal(user_join(&b, "y", &waits), 0);
    assert_int_equal(break_by(&a, "y", waits.number), 0); /* at the front, asking */
    user_hear(&b, RT_TICKET_LOST, waits.number, 0);
    assert_int_equal(user_leave(&other, "y", theirs.number), 0);
    until_free("y");
}

/* One that gives up at the front takes back what it asked for. */
static void test_who_waits_gives_up(void **state)
{
    struct rt_join theirs = {.owner = 5}, mine = {0}, next = {0};
    (void)state;
    assert_int_equal(user_join(&other, "x", &theirs), 0);
    assert_int_equal(user_join(&a, "x", &mine), 0);
    assert_int_equal(user_join(&b, "x", &next), 0);
    assert_int_equal(user_leave(&a, "x", mine.number), 0);
    assert_int_equal(user_leave(&other, "x", theirs.number), 0);
    user_hear(&b, RT_GRANTED, next.number, 0);
    assert_int_equal(user_leave(&b, "x", next.number), 0);
    until_free("x");
}

static void test_asked_again_finds_the_same(void **state)
{
    struct rt_join join = {.name = "x", .session = a.session, .nonce = 77};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {&join, 1}};
    (void)state;
    assert_int_equal(user_do(&a, &op), 0);
    uint64_t number = join.number;
    op = (struct rt_op){.kind = RT_OP_JOIN, .join = {&join, 1}};
    assert_int_equal(user_do(&a, &op), 0);
    assert_true(join.granted && join.number == number);
    struct rt_op late = {
        .kind = RT_OP_LEAVE, /* of one that had its number before */
        .leave = {.name = "x", .session = a.session, .number = number, .nonce = 78}};
    assert_int_equal(user_do(&a, &late), ROTA_LOST);
    struct rt_op by_nonce = {.kind = RT_OP_LEAVE,
                             .leave = {.name = "x", .session = a.session, .nonce = 77}};
    assert_int_equal(user_do(&a, &by_nonce), 0);
    until_free("x");
}

static struct rt_op ask(struct rt_join *join)
{
    return (struct rt_op){
        .kind = RT_OP_JOIN, .join = {join, 1}, .deadline = rt_loop_tick(&a.loop) + 5000 * RT_MS};
}

/* Until c->line.depth is counted down again, the line does not answer. */
static void resume(struct rt_also_conn *c)
{
    c->line.depth--;
    rt_also_wake(c, 1);
    for (int i = 0; i < 20; i++)
        user_turn(&a, 1);
}

/* It waits beside the line, is asked for again, and is granted before the line has answered: the answer says so. */
static void test_granted_while_asked_again(void **state)
{
    struct rt_also_conn *c = rt_also_of(a.conn);
    struct rt_join theirs = {.owner = 5}, join = {.name = "x", .session = a.session, .nonce = 77};
    struct rt_op op = ask(&join);
    (void)state;
    assert_int_equal(user_join(&other, "x", &theirs), 0);
    assert_int_equal(user_do(&a, &op), 0);
    assert_false(join.granted);
    uint64_t number = join.number;
    op = ask(&join);
    int done = a.done;
    c->line.depth++;
    a.conn->engine->submit(a.conn, &op);
    assert_int_equal(user_leave(&other, "x", theirs.number), 0);
    const struct rt_also_ticket *t = rt_also_by_nonce(c, "x", a.session, 77);
    for (uint32_t i = 0; i < USER_LIMIT_MS && t->foreign != RT_ALSO_HELD; i++)
        user_turn(&a, 1);
    assert_int_equal(t->foreign, RT_ALSO_HELD);
    assert_int_equal(a.done, done);
    resume(c);
    assert_int_equal(a.done, done + 1);
    assert_true(op.err == 0 && join.granted && join.number == number);
    assert_int_equal(a.told_count, 0);
    assert_int_equal(user_leave(&a, "x", number), 0);
    until_free("x");
}

static void fail_opening(struct rt_also_conn *c)
{
    assert_true(c->opening.busy);
    c->foreign.queue = NULL; /* as if it had been sent, and failed */
    c->foreign.tail = &c->foreign.queue;
    c->opening.busy = false;
    c->opening.op.err = ROTA_UNREACHABLE;
    c->opening.answer(c, &c->opening);
}

/* A try is asked for again, and a session beside the line cannot be opened before the line has answered. */
static void test_no_session_while_asked_again(void **state)
{
    struct rt_also_conn *c = rt_also_of(a.conn);
    struct rt_join x = {.name = "x", .session = a.session, .nonce = 77, .flags = RT_JOIN_TRY};
    struct rt_join y = {.name = "y", .session = a.session, .nonce = 78};
    struct rt_op op = ask(&x), wait = ask(&y);
    (void)state;
    c->foreign.depth++;
    rt_also_foreign_over(c);
    a.conn->engine->submit(a.conn, &op);
    fail_opening(c);
    assert_int_equal(op.err, ROTA_UNKNOWN); /* so its user asks again */
    c->open_at = 0;
    a.conn->engine->submit(a.conn, &wait); /* somebody else needs a session there */
    op = ask(&x);
    int done = a.done;
    c->line.depth++;
    a.conn->engine->submit(a.conn, &op);
    fail_opening(c);
    assert_int_equal(a.done, done + 1); /* of the other one, which waits on */
    c->foreign.depth--;
    resume(c);
    for (uint32_t i = 0; i < USER_LIMIT_MS && a.done == done + 1; i++)
        user_turn(&a, 1); /* until a session is open */
    assert_int_equal(a.done, done + 2);
    leave_by_nonce("x", 77);
    leave_by_nonce("y", 78);
    until_free("x");
    until_free("y");
}

/* A new session: what the old one had is given back on both sides. */
static void test_a_new_session_gives_back(void **state)
{
    struct rt_join mine = {0};
    struct rt_op op = {.kind = RT_OP_BEAT, .beat = {.open = true}};
    (void)state;
    assert_int_equal(user_join(&a, "x", &mine), 0);
    assert_int_equal(user_do(&a, &op), 0);
    assert_true(op.beat.session != a.session && op.beat.ttl_ms == a.conn->ttl_ms);
    for (uint32_t i = 0; i < USER_LIMIT_MS && inspect(&other, "x").count > 0; i++)
        user_turn(&a, 1);
    assert_int_equal(inspect(&other, "x").count, 0);
    a.session = op.beat.session;
    assert_int_equal(user_beat(&a), 0);
}

/* A client whose time was over left nothing, and closes: what it had is given back, and nobody waits in vain. */
static void test_parting_gives_back(void **state)
{
    struct rt_join mine = {0};
    uint32_t turns = 0;
    (void)state;
    assert_int_equal(user_join(&a, "x", &mine), 0);
    while (a.conn->engine->parting(a.conn) && turns++ < USER_LIMIT_MS)
        user_turn(&a, 1);
    assert_in_range(turns, 0, USER_LIMIT_MS - 1);
    until_free("x");
}

/* ---- Refused ---------------------------------------------------------------- */

static void test_what_is_refused(void **state)
{
    struct rt_join permits = {.mode = RT_PERMITS, .take = 1, .of = 2}, least = {.at_least_ms = 1},
                   durable = {.flags = RT_JOIN_DURABLE}, own = {0};
    (void)state;
    assert_int_equal(user_join(&a, "x", &permits), ROTA_UNSUPPORTED);
    assert_non_null(strstr(a.errmsg, "excludes everybody"));
    assert_int_equal(user_join(&a, "x", &least), ROTA_UNSUPPORTED);
    assert_int_equal(user_join(&a, "x", &durable), ROTA_UNSUPPORTED);
    assert_int_equal(user_join(&a, "rota:{0}", &own), ROTA_INVALID);
    until_free("x");
    static const struct {
        const char *url, *words;
    } bad[] = {
        {"mem:unit?also=token", "knows no also=token, but late"},
        {"mem:unit?also=late&dialect=token", "leave out dialect="},
        {"file:/nowhere?also=token", "leave out also="},
        {"mem://host/unit?also=late", "has no hosts"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct user u;
        assert_int_equal(user_open(&u, bad[i].url), ROTA_INVALID);
        assert_non_null(strstr(u.errmsg, bad[i].words));
    }
}

/* ---- Too little memory ------------------------------------------------------ */

/* A hold, a wait for the holder beside it, a set, a look, a beat; whatever fails is given back by its nonce. */
static void scanty_story(uint64_t nonce)
{
    struct rt_join one = {.name = "x", .session = a.session, .nonce = nonce};
    struct rt_join set[] = {{.name = "y", .session = a.session, .nonce = nonce + 1},
                            {.name = "z", .session = a.session, .nonce = nonce + 2}};
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {&one, 1}};
    struct places p = {0};
    (void)scant(user_do(&a, &op));
    op = (struct rt_op){.kind = RT_OP_JOIN_ALL, .join = {set, 2}};
    (void)scant(user_do(&a, &op));
    op = (struct rt_op){.kind = RT_OP_INSPECT,
                        .inspect = {.name = "x", .each = each_place, .arg = &p}};
    (void)scant(user_do(&a, &op));
    (void)scant(user_beat(&a));
    leave_by_nonce("x", nonce);
    leave_by_nonce("y", nonce + 1);
    leave_by_nonce("z", nonce + 2);
}

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    struct rt_join theirs = {.owner = 5};
    assert_int_equal(user_join(&other, "z", &theirs),
                     0); /* so one of the set waits beside the line */
    bool failed = true;
    for (long n = 1; failed; n++) {
        scarce.asked = 0;
        scarce.fail_at = n;
        scanty_story(1000 + 10 * (uint64_t)n);
        failed = scarce.asked >= n;
        scarce.fail_at = 0;
        until_free("x");
        until_free("y");
        assert_int_equal(inspect(&line, "z").count, 0);
        assert_true(n < 1000);
    }
    assert_int_equal(user_leave(&other, "z", theirs.number), 0);
    until_free("z");
}

static int begin_scant(void **state)
{
    scarce_begin();
    return begin(state);
}

static int end_scant(void **state)
{
    (void)end(state);
    long live = scarce.live;
    scarce_end();
    return live == 0 ? 0 : -1;
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        STORY(test_both_are_held),
        STORY(test_the_front_waits_for_who_holds_beside_it),
        STORY(test_others_have_their_turn),
        STORY(test_a_try_leaves_nothing),
        STORY(test_a_set_is_all_or_nothing),
        STORY(test_the_lock_beside_it_is_lost),
        STORY(test_the_release_tells_of_the_loss),
        STORY(test_the_place_in_the_line_is_lost),
        STORY(test_who_waits_gives_up),
        STORY(test_asked_again_finds_the_same),
        STORY(test_granted_while_asked_again),
        STORY(test_no_session_while_asked_again),
        STORY(test_a_new_session_gives_back),
        STORY(test_parting_gives_back),
        STORY(test_what_is_refused),
        cmocka_unit_test_setup_teardown(test_each_allocation_fails_once, begin_scant, end_scant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
