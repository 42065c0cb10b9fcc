/* SPDX-License-Identifier: Apache-2.0 */
/* Journals behind the fault proxy: every reply lost, cut in the middle, late; a heap that runs out.
 * journal_faults URL, of a server at 127.0.0.1. */
#include "clerk.h"
#include "lib/proxy.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOST "127.0.0.1:"
#define SHORT_MS 3000 /* the deadline of an op that is to be lost: it must have left by then */

static const char *url;
static char proxied[1024];
static struct rt_proxy *proxy;
static struct clerk direct; /* not through the proxy */

static int start(void **state)
{
    const char *at = strstr(url, HOST);
    char *end;
    (void)state;
    assert_non_null(at);
    unsigned long port = strtoul(at + strlen(HOST), &end, 10);
    proxy = rt_proxy_start(&(struct rt_proxy_options){.port = (uint16_t)port, .seed = 1});
    snprintf(proxied, sizeof(proxied), "%.*s" HOST "%u%s", (int)(at - url), url,
             (unsigned)rt_proxy_port(proxy), end);
    clerk_start(&direct, url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    clerk_close(&direct);
    rt_proxy_stop(proxy);
    return 0;
}

/* ---- Cut ------------------------------------------------------------------------------------------ */

/* Everything ends as it should, because each op is retried. */
static void use(struct clerk *c)
{
    struct rt_txn_id one = clerk_id(c), two = clerk_id(c);
    assert_int_equal(clerk_decide(c, one, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_register(c, two, 1), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_decide(c, two, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_finish(c, one);
    assert_int_equal(clerk_read(&direct, one).stands, RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_read(&direct, one).branch_count, 2);
    assert_true(clerk_read(&direct, one).done);
    assert_int_equal(clerk_read(&direct, two).stands, RT_JOURNAL_ABORT);
    assert_int_equal(clerk_read(&direct, two).registered, 1);
}

/* After the Nth byte that comes (or goes), for many N: in the middle of each reply, and between them. */
static void cut(enum rt_proxy_dir dir)
{
    struct clerk c;
    clerk_start(&c, proxied);
    for (uint64_t n = 1; n <= 420; n += n < 60 ? 6 : 31) {
        rt_proxy_end_after(proxy, dir, n, n % 2 == 0 ? RT_PROXY_CUT : RT_PROXY_RESET);
        use(&c);
    }
    clerk_close(&c);
}

static void test_replies_cut(void **state)
{
    (void)state;
    cut(RT_PROXY_DOWN);
}

static void test_requests_cut(void **state)
{
    (void)state;
    cut(RT_PROXY_UP);
}

/* ---- Lost and late ----------------------------------------------------------------------------------- */

/* On each of its connections: what is to be lost must have been sent. */
static void warm_up(struct clerk *c)
{
    for (int i = 0; i < 16; i++)
        assert_int_equal(clerk_decide(c, clerk_id(c), RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
}

static void commit_shortly(struct clerk *c, struct rt_txn_id id, struct rt_journal_op *op)
{
    *op = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
    op->deadline = rt_loop_tick(&c->loop) + SHORT_MS * RT_MS;
    op->decide.id = id;
    op->decide.decision = RT_JOURNAL_COMMIT;
    op->decide.deadline_ms = c->now_ms;
}

/* It was done, but nobody heard: UNKNOWN, and whoever asks finds out. */
static void test_reply_lost(void **state)
{
    struct clerk c;
    struct rt_journal_op op;
    (void)state;
    clerk_start(&c, proxied);
    struct rt_txn_id id = clerk_id(&c);
    warm_up(&c);
    rt_proxy_lose(proxy, RT_PROXY_DOWN);
    commit_shortly(&c, id, &op);
    assert_int_equal(clerk_do(&c, &op), ROTA_UNKNOWN);
    assert_true(c.errmsg[0] != '\0');
    while (clerk_read(&direct, id).stands != RT_JOURNAL_COMMIT)
        clerk_turn(&direct, 1);
    assert_int_equal(clerk_decide(&direct, id, RT_JOURNAL_ABORT), RT_JOURNAL_COMMIT);
    rt_proxy_heal(proxy);
    assert_int_equal(clerk_decide(&c, id, RT_JOURNAL_ABORT), RT_JOURNAL_COMMIT);
    clerk_close(&c);
}

/* A COMMIT that was given up arrives when somebody else has aborted. */
static void test_request_late(void **state)
{
    struct clerk c;
    struct rt_journal_op op;
    (void)state;
    clerk_start(&c, proxied);
    struct rt_txn_id id = clerk_id(&c);
    warm_up(&c);
    rt_proxy_hold(proxy, RT_PROXY_UP);
    commit_shortly(&c, id, &op);
    assert_int_equal(clerk_do(&c, &op), ROTA_UNKNOWN);
    assert_int_equal(clerk_decide(&direct, id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    rt_proxy_release(proxy, RT_PROXY_UP);
    assert_int_equal(clerk_decide(&c, id, RT_JOURNAL_COMMIT),
                     RT_JOURNAL_ABORT); /* behind the late one */
    assert_int_equal(clerk_read(&direct, id).stands, RT_JOURNAL_ABORT);
    clerk_close(&c);
}

/* ... and is forgotten: it must not be decided anew. */
static void test_request_later_still(void **state)
{
    struct clerk c;
    struct rt_journal_op op;
    (void)state;
    clerk_start(&c, proxied);
    int64_t floor = c.floor_ms + 1000;
    struct rt_txn_id id = clerk_born(&c, floor - 1);
    warm_up(&c);
    rt_proxy_hold(proxy, RT_PROXY_UP);
    commit_shortly(&c, id, &op);
    assert_int_equal(clerk_do(&c, &op), ROTA_UNKNOWN);
    assert_int_equal(clerk_decide(&direct, id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_finish(&direct, id);
    assert_int_equal(clerk_forget(&direct, floor), 1);
    rt_proxy_release(proxy, RT_PROXY_UP);
    assert_int_equal(clerk_decide(&c, id, RT_JOURNAL_COMMIT), RT_JOURNAL_EXPIRED);
    assert_int_equal(clerk_read(&direct, id).stands, RT_JOURNAL_EXPIRED);
    clerk_close(&c);
}

/* Nobody is there: what never left had no effect. */
static void test_nobody_there(void **state)
{
    struct clerk c;
    struct rt_journal_op op;
    (void)state;
    rt_proxy_door(proxy, RT_PROXY_REFUSE);
    assert_int_equal(clerk_open(&c, proxied), 0);
    c.number = direct.number;
    c.now_ms = direct.now_ms;
    struct rt_txn_id id = clerk_id(&c);
    commit_shortly(&c, id, &op);
    op.deadline = rt_loop_tick(&c.loop) + 400 * RT_MS; /* it never leaves, however short that is */
    assert_int_equal(clerk_do(&c, &op), ROTA_UNREACHABLE);
    assert_true(c.errmsg[0] != '\0');
    assert_int_equal(clerk_read(&direct, id).stands, RT_JOURNAL_ABSENT);
    rt_proxy_door(proxy, RT_PROXY_OPEN);
    assert_int_equal(clerk_decide(&c, id, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    clerk_close(&c);
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

static int decide_once(struct clerk *c, struct rt_txn_id id, enum rt_journal_stand what)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    op.decide.id = id;
    op.decide.decision = what;
    op.decide.deadline_ms = direct.now_ms;
    return clerk_do(c, &op);
}

/* Each allocation fails once: the error is true, and what comes after it works. */
static void test_no_memory(void **state)
{
    struct clerk c;
    long n = 0, asked;
    (void)state;
    do {
        struct rt_txn_id id = clerk_id(&direct);
        scarce_begin();
        scarce.fail_at = ++n;
        int rv = clerk_open(&c, url);
        if (rv == 0) {
            rv = decide_once(&c, id, RT_JOURNAL_COMMIT);
            asked = scarce.asked;
            scarce.fail_at = 0;
            assert_int_equal(decide_once(&c, id, RT_JOURNAL_COMMIT), 0);
            clerk_close(&c);
        } else {
            asked = n;
        }
        if (rv != 0 && rv != ROTA_NOMEM && rv != ROTA_UNREACHABLE && rv != ROTA_UNKNOWN)
            fail_msg("at %ld: %d, %s", n, rv, c.errmsg);
        assert_int_equal(scarce.live, 0);
        scarce_end();
        if (rv == 0)
            assert_int_equal(clerk_read(&direct, id).stands, RT_JOURNAL_COMMIT);
    } while (asked >= n && n < 1000);
    print_message("%ld allocations\n", n);
    assert_true(n > 10 && n < 1000);
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(test_replies_cut),  CASE(test_requests_cut),        CASE(test_reply_lost),
        CASE(test_request_late), CASE(test_request_later_still), CASE(test_nobody_there),
        CASE(test_no_memory),
    };
    if (argc != 2) {
        fputs("usage: journal_faults URL\n", stderr);
        return 64;
    }
    url = argv[1];
    return cmocka_run_group_tests_name("journal faults", tests, NULL, NULL);
}
