/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis, a proxy in front of it, and clients that say what they expect. */
#include "proxied.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define SILENCE_MS 30

struct rt_redis redis;
struct rt_proxy *proxy;

int start_redis(void **state)
{
    (void)state;
    rt_watchdog(120, "the tests of the proxy hang");
    rt_redis_start(&redis, NULL);
    return 0;
}

int stop_redis(void **state)
{
    (void)state;
    rt_redis_fini(&redis);
    return 0;
}

int start_proxy(void **state)
{
    struct rt_proxy_options opts = {
        .port = redis.server.port, .framing = &rt_proxy_resp, .seed = 7};

    (void)state;
    rt_redis_must(&redis, "FLUSHALL");
    proxy = rt_proxy_start(&opts);
    return 0;
}

int stop_proxy(void **state)
{
    (void)state;
    rt_proxy_stop(proxy);
    return 0;
}

redisContext *connect_through(void)
{
    struct timeval limit = {.tv_sec = SOON_MS / 1000};
    redisContext *c = redisConnectWithTimeout("127.0.0.1", rt_proxy_port(proxy), limit);

    assert_non_null(c);
    assert_int_equal(c->err, 0);
    redisSetTimeout(c, limit);
    return c;
}

void write_out(redisContext *c, const char *command)
{
    int done = 0;

    assert_int_equal(redisAppendCommand(c, command), REDIS_OK);
    while (!done)
        assert_int_equal(redisBufferWrite(c, &done), REDIS_OK);
}

void expect(redisContext *c, const char *text)
{
    redisReply *r = NULL;

    if (redisGetReply(c, (void **)&r) != REDIS_OK)
        fail_msg("no reply but: %s", c->errstr);
    if (text != NULL) {
        assert_non_null(r->str);
        assert_string_equal(r->str, text);
    }
    freeReplyObject(r);
}

void ask(redisContext *c, const char *text, const char *command)
{
    write_out(c, command);
    expect(c, text);
}

void expect_silence(redisContext *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, SILENCE_MS), 0);
}

void expect_end(redisContext *c, int err)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    char byte;
    ssize_t n;

    assert_int_equal(poll(&p, 1, SOON_MS), 1);
    n = recv(c->fd, &byte, 1, 0);
    assert_int_equal(n, err == 0 ? 0 : -1);
    if (err != 0)
        assert_int_equal(errno, err);
}

struct rt_proxy_counts counts(void)
{
    struct rt_proxy_counts c;

    rt_proxy_counts(proxy, &c);
    return c;
}
