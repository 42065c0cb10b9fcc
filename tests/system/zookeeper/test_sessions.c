/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that end while somebody counts on them: closed by another, over while their client was cut off, left for a
 * new one. Whoever held is told; nothing of an old session is taken for a new one's; nothing is left. */
#include "engine/zookeeper/ops.h"
#include "lib/proxy.h"
#include "lib/user.h"
#include "lib/zookeeper_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 3000
#define LONG_TTL_MS 15000
#define LIMIT_MS 30000

static struct rt_zks zks;
static struct rt_proxy *proxy;
static char *url, *proxied;
static struct user u, other;

static struct rt_zk *zk_of(struct user *user)
{
    return (struct rt_zk *)(void *)user->conn;
}

static bool none_left(void *unused)
{
    (void)unused;
    return rt_zks_count(&zks, 0, "zk_ephemerals_count") == 0;
}

/* The server has ended all sessions that had a node. */
static void await_none(void)
{
    assert_true(rt_await(none_left, NULL, LIMIT_MS));
}

static uint64_t open_session(struct user *user)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};

    op.beat.open = true;
    assert_int_equal(user_do(user, &op), 0);
    user->session = op.beat.session;
    return op.beat.session;
}

static void part(struct user *user)
{
    while (user->conn->engine->parting(user->conn))
        user_turn(user, 100);
    user_close(user);
}

/* In its session everything goes as in any. */
static void takes_and_gives(struct user *user)
{
    struct rt_join join = {0};

    assert_int_equal(user_join(user, "prize", &join), 0);
    assert_true(join.granted);
    assert_int_equal(user_leave(user, "prize", join.number), 0);
}

/* ---- Closed by another ------------------------------------------------------------------------ */

/* Somebody who knows its id and password, as an operator may, takes over the session and ends it. */
static void close_by_another(struct user *victim)
{
    struct rt_zk_conn *from = &zk_of(victim)->c, *to;

    assert_int_equal(user_open(&other, url), 0);
    to = &zk_of(&other)->c; /* it has not said anything yet */
    to->session.id = from->session.id;
    to->session.timeout_ms = from->session.timeout_ms;
    memcpy(to->session.password, from->session.password, sizeof(to->session.password));
    for (int i = 0; i < 1000 && to->link.state != RT_DIAL_READY; i++)
        user_turn(&other, 10);
    assert_true(to->session.id == from->session.id);
    part(&other);
}

static void closed_by_another(void **state)
{
    struct rt_join held = {0};

    (void)state;
    user_start(&u, url, LONG_TTL_MS);
    assert_int_equal(user_join(&u, "prize", &held), 0);
    uint64_t session = u.session;
    close_by_another(&u);
    await_none();
    (void)user_hear(&u, RT_SESSION_LOST, 0, 0);
    assert_int_not_equal(user_beat(&u), 0);
    assert_int_equal(user_leave(&u, "prize", held.number), ROTA_LOST);
    assert_true(open_session(&u) != session);
    takes_and_gives(&u);
    part(&u);
    await_none();
}

/* ---- Over while its client was cut off -------------------------------------------------------- */

/* Nothing passes until the servers have ended its session. */
static void cut_until_it_is_over(struct user *user)
{
    rt_proxy_lose(proxy, RT_PROXY_BOTH);
    await_none();
    rt_proxy_heal(proxy);
    (void)user_hear(user, RT_SESSION_LOST, 0, 0);
}

static void over_while_it_was_cut_off(void **state)
{
    struct rt_join held = {0}, next = {0};

    (void)state;
    user_start(&u, proxied, TTL_MS);
    assert_int_equal(user_join(&u, "prize", &held), 0);
    cut_until_it_is_over(&u);
    assert_int_equal(user_leave(&u, "prize", held.number), ROTA_LOST);
    uint64_t session = u.session;
    next.session = session;
    assert_int_equal(user_join(&u, "prize", &next), ROTA_LOST); /* in the one that is over */
    assert_true(open_session(&u) != session);
    takes_and_gives(&u);
    part(&u);
    await_none();
}

/* The server has made the ticket, but its answer is lost, and then the session ends: it was never held. */
static void a_create_whose_answer_is_lost_with_its_session(void **state)
{
    struct rt_fault mute = {
        .on = RT_FAULT_REPLY, .what = RT_FAULT_SILENCE, .match = "create2 /rota/prize"};
    struct rt_join join = {.name = "prize", .nonce = 4711};
    struct rt_op op = {.kind = RT_OP_JOIN, .deadline = RT_NEVER};
    int done;

    (void)state;
    user_start(&u, proxied, TTL_MS);
    takes_and_gives(&u); /* there is a line */
    join.session = u.session;
    op.join.joins = &join;
    op.join.n = 1;
    uint32_t fault = rt_proxy_fault(proxy, &mute);
    rt_loop_tick(&u.loop);
    done = u.done;
    u.conn->engine->submit(u.conn, &op);
    while (rt_proxy_fault_hits(proxy, fault) == 0)
        user_turn(&u, 10);
    rt_proxy_lose(proxy, RT_PROXY_BOTH);
    await_none();
    rt_proxy_fault_end(proxy, fault);
    rt_proxy_heal(proxy);
    for (int i = 0; i < 1000 && u.done == done; i++)
        user_turn(&u, 30);
    assert_int_equal(u.done, done + 1);
    assert_int_equal(op.err, ROTA_LOST);
    (void)open_session(&u);
    takes_and_gives(&u);
    part(&u);
    await_none();
}

/* ---- Left for a new one ------------------------------------------------------------------------ */

/* What stands there is the old session's, though the client is the same: a newcomer waits until it has gone. */
static void an_old_session_is_nobodys(void **state)
{
    struct rt_join before = {.nonce = 77}, after = {.nonce = 77};

    (void)state;
    user_start(&u, url, TTL_MS);
    assert_int_equal(user_join(&u, "prize", &before), 0);
    assert_true(before.granted);
    uint64_t session = u.session;
    u.conn->ttl_ms = LONG_TTL_MS; /* a stalled machine must not end this one, too */
    assert_true(open_session(&u) != session);
    assert_int_equal(user_join(&u, "prize", &after), 0); /* the same nonce, too */
    assert_true(after.number != before.number);
    if (!after.granted) /* else the old one had gone already, on a slow machine */
        (void)user_hear(&u, RT_GRANTED, after.number, 0);
    assert_int_equal(user_leave(&u, "prize", after.number), 0);
    part(&u);
    await_none();
}

static int setup(void **state)
{
    (void)state;
    rt_zks_start(&zks, 1, NULL);
    struct rt_proxy_options opts = {.framing = &rt_proxy_zookeeper,
                                    .port = zks.node[0].server.port};
    proxy = rt_proxy_start(&opts);
    url = rt_zks_url(&zks, NULL);
    proxied = rt_zks_url(&zks, (uint16_t[]){rt_proxy_port(proxy)});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_proxy_stop(proxy);
    free(url);
    free(proxied);
    rt_zks_fini(&zks);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_by_another),
        cmocka_unit_test(over_while_it_was_cut_off),
        cmocka_unit_test(a_create_whose_answer_is_lost_with_its_session),
        cmocka_unit_test(an_old_session_is_nobodys),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, setup, teardown);
}
