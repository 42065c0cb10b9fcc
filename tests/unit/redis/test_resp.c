/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis connection without the lock engine: whoever needs one rides on it. */
#include "engine/resp/resp.h"
#include "engine/url.h"
#include "lib/redis_server.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 20000
#define NODES 3

enum { ADD, TELL, SCRIPTS };

static const char *const texts[SCRIPTS] = {
    [ADD] = "return {ARGV[1], 0, tostring(redis.call('INCRBY', KEYS[1], ARGV[2]))}",
    [TELL] = "redis.call('PUBLISH', 'news', ARGV[2]) return {ARGV[1], 0}",
};

struct rider {
    struct rt_resp_conn conn; /* first */
    int answers, ups, failed, subscribed;
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

static const struct rt_resp_user least = {
    .scripts = SCRIPTS, .places = 1, .text = on_text, .key = on_key, .answer = on_answer};
static const struct rt_resp_user user = {.scripts = SCRIPTS,
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

/* As Redlock has them: several, in one name, on one loop. */
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

/* What is no longer waited for is not answered, and a server that is none is told of, once. */
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
        cmocka_unit_test(ends),
        cmocka_unit_test(slots),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
