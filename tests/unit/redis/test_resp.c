/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis connection without the lock engine, for whoever needs one. */
#include "engine/resp/resp.h"
#include "engine/url.h"
#include "lib/patience.h"
#include "lib/redis_server.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS (int)rt_patient_ms(20000)
#define NODES 3

enum { ADD, TELL, SCRIPTS };

static const char *const texts[SCRIPTS] = {
    [ADD] = "return {ARGV[1], 0, tostring(redis.call('INCRBY', KEYS[1], ARGV[2]))}",
    [TELL] = "redis.call('PUBLISH', 'news', ARGV[2]) return {ARGV[1], 0}",
};

struct rider {
    struct rt_resp_conn conn; /* first */
    int answers, ups, downs, failed, subscribed;
    int sent, busy; /* from inside */
    int err;
    char said[64], pushed[64];
};

static struct rt_loop loop;
static struct rt_redis servers[NODES];

static struct rider *of(struct rt_resp_conn *c)
{
    return (struct rider *)(void *)c;
}

static struct rt_resp_text on_text(const struct rt_resp_conn *c, int script)
{
    (void)c; /* a hash that no server knows: it gets the whole text then */
    return (struct rt_resp_text){texts[script], strlen(texts[script]),
                                 "0123456789012345678901234567890123456789"};
}

static const char *on_key(struct rt_resp_conn *c, const struct rt_resp_request *rq)
{
    (void)c;
    return rq->script == ADD ? "sum" : "news";
}

static void on_answer(struct rt_resp_conn *c, struct rt_resp_request *rq, int err, int status,
                      const redisReply *reply)
{
    struct rider *r = of(c);
    (void)rq;
    r->answers++;
    r->err = err;
    assert_int_equal(status, 0);
    if (err == 0 && reply->elements > 2)
        snprintf(r->said, sizeof(r->said), "%s", reply->element[2]->str);
}

static void on_link(struct rt_resp_conn *c, bool up)
{
    of(c)->ups += up;
    of(c)->downs += !up;
}

static void on_failed(struct rt_resp_conn *c)
{
    of(c)->failed++;
}

static void on_pushed(struct rt_resp_conn *c, struct rt_resp_node *node, const char *channel,
                      const char *message, size_t size)
{
    struct rider *r = of(c);
    (void)node;
    assert_string_equal(channel, "news");
    if (message == NULL)
        r->subscribed++;
    else
        snprintf(r->pushed, sizeof(r->pushed), "%.*s", (int)size, message);
}

static void on_replicated(struct rt_resp_conn *c, void *arg, int err)
{
    (void)c;
    (void)arg;
    assert_int_not_equal(err, 0); /* there is none */
}

static bool any(const struct rt_entry *e, const void *arg)
{
    (void)e;
    (void)arg;
    return true;
}

static const struct rt_resp_user least = {.name = "redis",
                                          .scripts = SCRIPTS,
                                          .places = 1,
                                          .text = on_text,
                                          .key = on_key,
                                          .answer = on_answer};
static const struct rt_resp_user user = {.name = "redis",
                                         .scripts = SCRIPTS,
                                         .places = 1,
                                         .text = on_text,
                                         .key = on_key,
                                         .answer = on_answer,
                                         .link = on_link,
                                         .failed = on_failed,
                                         .pushed = on_pushed};

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    fail();
}

static void turn(void)
{
    struct pollfd pfd = {.fd = rt_loop_fd(&loop), .events = POLLIN};
    rt_loop_tick(&loop);
    rt_loop_arm(&loop);
    if (!loop.dirty)
        assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
    rt_loop_turn(&loop, no_other, NULL);
}

static void ride(struct rider *r, struct rt_conn *base, const char *url,
                 const struct rt_resp_user *on)
{
    struct rt_url u;
    char errmsg[256];
    memset(r, 0, sizeof(*r));
    assert_int_equal(rt_url_parse(&u, url, errmsg, sizeof(errmsg)), 0);
    if (rt_resp_conn_open(&r->conn, base, &u, on) != 0)
        fail_msg("%s", base->errmsg);
    rt_url_fini(&u);
    rt_resp_want(&r->conn);
}

static void say(struct rider *r, int script, const char *word)
{
    size_t size = strlen(word);
    struct rt_resp_request *rq = rt_resp_request_new(sizeof(*rq), script, 0, 1, &word, &size);
    assert_non_null(rq);
    rt_resp_send(&r->conn, rq);
}

static void leave(struct rider *r)
{
    rt_resp_conn_close(&r->conn);
    for (int i = 0; i < 4; i++) {
        rt_loop_arm(&loop);
        rt_loop_turn(&loop, no_other, NULL);
    }
}

/* As Redlock has them: several, under one name, on one loop. */
static void several_in_one_name(void **state)
{
    struct rt_conn base = {.loop = &loop};
    struct rider all[NODES];
    char url[64];
    (void)state;
    for (int i = 0; i < NODES; i++) {
        snprintf(url, sizeof(url), "redis://127.0.0.1:%u", servers[i].server.port);
        ride(&all[i], &base, url, i == 0 ? &least : &user);
    }
    for (int round = 1; round <= 2; round++)
        for (int i = 0; i < NODES; i++) {
            while (all[i].conn.places == NULL)
                turn();
            say(&all[i], ADD, "5");
            while (all[i].answers < round)
                turn();
            assert_int_equal(all[i].err, 0);
            assert_string_equal(all[i].said, round == 1 ? "5" : "10");
        }
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(all[i].answers, 2);
        assert_int_equal(all[i].ups, i > 0);
        leave(&all[i]);
    }
}

static void pushes(void **state)
{
    struct rt_conn base = {.loop = &loop};
    struct rider r;
    char url[64];
    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u", servers[0].server.port);
    ride(&r, &base, url, &user);
    while (r.conn.places == NULL)
        turn();
    assert_int_equal(rt_resp_subscribe(&r.conn, 0, "news"), 0);
    while (r.subscribed == 0)
        turn();
    say(&r, TELL, "rain");
    while (r.answers == 0 || r.pushed[0] == '\0')
        turn();
    assert_string_equal(r.pushed, "rain");
    leave(&r);
}

/* Before any server was heard of: it is dialed, and the channel subscribed there; one given up by then is not. */
static void subscribed_before_there_is_a_link(void **state)
{
    struct rt_conn base = {.loop = &loop};
    struct rider r;
    struct rt_url u;
    char url[64];
    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u", servers[0].server.port);
    memset(&r, 0, sizeof(r));
    assert_int_equal(rt_url_parse(&u, url, base.errmsg, sizeof(base.errmsg)), 0);
    assert_int_equal(rt_resp_conn_open(&r.conn, &base, &u, &user), 0);
    rt_url_fini(&u);
    assert_int_equal(rt_resp_subscribe(&r.conn, 0, "olds"), 0);
    assert_int_equal(rt_resp_subscribe(&r.conn, 0, "news"), 0);
    rt_resp_unsubscribe(&r.conn, 0, "olds");
    while (r.subscribed == 0)
        turn();
    say(&r, TELL, "sun");
    while (r.pushed[0] == '\0')
        turn();
    assert_string_equal(r.pushed, "sun");
    leave(&r);
}

/* ---- From inside ---------------------------------------------------------------------------------- */

/* Every function but close, from inside everything that the user is told. */
static void all_but_close(struct rider *r)
{
    if (r->busy++ > 60) /* it would never end */
        return;
    rt_resp_want(&r->conn);
    if (r->conn.places == NULL)
        return;
    say(r, ADD, "1");
    r->sent++;
    rt_resp_unsubscribe(&r->conn, 0, "news");
    assert_int_equal(rt_resp_subscribe(&r->conn, 0, "news"), 0);
    if (r->busy % 2 == 0)
        rt_resp_unsubscribe(&r->conn, 0, "news");
    rt_resp_when_replicated(&r->conn, 0, rt_loop_now(&loop) + 50 * RT_MS, on_replicated, NULL);
    struct rt_entry *e = rt_ledger_find(&r->conn.ledger, any, NULL);
    if (r->busy % 3 == 0 && e != NULL)
        rt_ledger_abandon(&r->conn.ledger, e, ROTA_CANCELED);
}

static void busy_answer(struct rt_resp_conn *c, struct rt_resp_request *rq, int err, int status,
                        const redisReply *reply)
{
    on_answer(c, rq, err, status, reply);
    all_but_close(of(c));
}

static void busy_link(struct rt_resp_conn *c, bool up)
{
    on_link(c, up);
    all_but_close(of(c));
}

static bool busy_laid(struct rt_resp_conn *c)
{
    rt_resp_want(c);
    return true;
}

static void busy_linked(struct rt_resp_conn *c, struct rt_resp_node *node)
{
    (void)node;
    all_but_close(of(c));
}

static void busy_failed(struct rt_resp_conn *c)
{
    on_failed(c);
    all_but_close(of(c));
}

static void busy_pushed(struct rt_resp_conn *c, struct rt_resp_node *node, const char *channel,
                        const char *message, size_t size)
{
    on_pushed(c, node, channel, message, size);
    all_but_close(of(c));
}

static const struct rt_resp_user busy = {.name = "redis",
                                         .scripts = SCRIPTS,
                                         .places = 1,
                                         .text = on_text,
                                         .key = on_key,
                                         .answer = busy_answer,
                                         .laid = busy_laid,
                                         .link = busy_link,
                                         .linked = busy_linked,
                                         .failed = busy_failed,
                                         .pushed = busy_pushed};

/* On a server that is killed, then refuses us, then works: each request is answered once. */
static void from_inside(void **state)
{
    struct rt_conn base = {.loop = &loop, .call_ms = 1000, .ttl_ms = 2000};
    struct rider r;
    char url[64];
    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u?replicas=1", servers[1].server.port);
    ride(&r, &base, url, &busy);
    while (r.answers < 20)
        turn();
    say(&r, TELL, "hail");
    r.sent++;
    r.busy = 0;
    rt_redis_kill(&servers[1]);
    while (r.downs == 0)
        turn();
    rt_redis_run(&servers[1]);
    rt_redis_must(&servers[1], "CONFIG SET requirepass secret");
    while (r.failed == 0)
        turn();
    rt_redis_must(&servers[1], "CONFIG SET requirepass %s", "");
    r.busy = 0;
    while (r.busy <= 60 || r.answers < r.sent)
        turn();
    assert_int_equal(r.answers, r.sent);
    leave(&r);
}

/* What nobody waits for any more is not answered, and a server that is no Redis is reported once. */
static void ends(void **state)
{
    struct rt_conn base = {.loop = &loop};
    struct rider r;
    char url[64];
    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u", servers[0].server.port);
    ride(&r, &base, url, &user);
    while (r.conn.places == NULL)
        turn();
    say(&r, ADD, "1");
    leave(&r);
    assert_int_equal(r.answers, 0);
    snprintf(url, sizeof(url), "redis://nobody:wrong@127.0.0.1:%u", servers[0].server.port);
    ride(&r, &base, url, &user);
    while (r.failed == 0)
        turn();
    assert_int_equal(r.conn.fatal, ROTA_AUTH);
    assert_non_null(strstr(r.conn.fatal_text, "nobody"));
    leave(&r);
}

static void slots(void **state)
{
    (void)state;
    assert_int_equal(rt_resp_slot("123456789"), 0x31c3);
    assert_int_equal(rt_resp_slot("{123456789}:more"), 0x31c3);
    assert_int_equal(rt_resp_slot("x{123456789}{2}"), 0x31c3);
    assert_int_equal(rt_resp_slot("{}123456789"), rt_resp_slot("{}123456789"));
    assert_int_not_equal(rt_resp_slot("{}1"), rt_resp_slot("{}2"));
}

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        rt_redis_start(&servers[i], NULL);
    return rt_loop_init(&loop);
}

static int end(void **state)
{
    (void)state;
    rt_loop_fini(&loop);
    for (int i = 0; i < NODES; i++)
        rt_redis_fini(&servers[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_in_one_name),
        cmocka_unit_test(pushes),
        cmocka_unit_test(subscribed_before_there_is_a_link),
        cmocka_unit_test(from_inside),
        cmocka_unit_test(ends),
        cmocka_unit_test(slots),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
