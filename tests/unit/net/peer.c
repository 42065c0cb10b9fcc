/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of streams: a stream that records what it is told, and the other end by hand. */
#include "peer.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct rt_loop peer_loop;

static void on_up(struct rt_stream *s)
{
    struct end *e = (struct end *)(void *)s;
    e->ups++;
    if (e->on != NULL)
        e->on(e, 'u');
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct end *e = (struct end *)(void *)s;
    assert_true(n > 0);
    if (!e->discard) {
        if (e->got_size + n > e->got_room) {
            e->got_room = 2 * (e->got_size + n);
            e->got = realloc(e->got, e->got_room);
            assert_non_null(e->got);
        }
        memcpy(e->got + e->got_size, bytes, n);
    }
    e->got_size += n;
    if (e->on != NULL)
        e->on(e, 'd');
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct end *e = (struct end *)(void *)s;
    e->downs++;
    e->err = err;
    strncpy(e->why, why, sizeof(e->why) - 1);
    assert_null(strchr(why, '\n'));
    assert_true(strlen(why) > 5);
    if (e->on != NULL)
        e->on(e, 'e');
}

const struct rt_stream_user peer_user = {.up = on_up, .data = on_data, .down = on_down};

int peer_setup(void **state)
{
    (void)state;
    return rt_loop_init(&peer_loop);
}

int peer_teardown(void **state)
{
    (void)state;
    peer_turns(4);
    rt_loop_fini(&peer_loop);
    return 0;
}

int peer_listen(uint16_t *port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

int peer_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

void peer_open_to(struct end *e, const struct rt_stream_target *t, uint32_t connect_ms)
{
    rt_loop_tick(&peer_loop);
    assert_int_equal(rt_stream_open(&e->s, &peer_loop, t, &peer_user, connect_ms), 0);
    assert_int_equal(e->ups + e->downs, 0);
}

void peer_open(struct end *e, const char *host, uint16_t port)
{
    struct rt_stream_target t = {.host = host, .port = port};
    peer_open_to(e, &t, PEER_PATIENCE_MS);
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    fail();
}

bool peer_turn(void)
{
    struct pollfd pfd = {.fd = rt_loop_fd(&peer_loop), .events = POLLIN};
    int n = 1;
    rt_loop_tick(&peer_loop);
    rt_loop_arm(&peer_loop);
    if (!peer_loop.dirty)
        n = poll(&pfd, 1, PEER_PATIENCE_MS);
    rt_loop_turn(&peer_loop, no_other, NULL);
    return n == 1;
}

void peer_turns(int n)
{
    for (int i = 0; i < n; i++) {
        rt_loop_arm(&peer_loop);
        rt_loop_turn(&peer_loop, no_other, NULL);
    }
}

void peer_until(const int *flag, int n)
{
    while (*flag < n)
        assert_true(peer_turn());
}

void peer_until_got(const struct end *e, size_t n)
{
    while (e->got_size < n)
        assert_true(peer_turn());
}

static void on_closed(struct rt_stream *s)
{
    ((struct end *)(void *)s)->closed++;
}

void peer_close(struct end *e)
{
    int downs = e->downs;
    rt_loop_tick(&peer_loop);
    rt_stream_close(&e->s, on_closed);
    assert_int_equal(e->closed, 0);
    peer_until(&e->closed, 1);
    assert_int_equal(e->downs, downs);
    assert_int_equal(e->s.state, RT_STREAM_IDLE);
    free(e->got);
    e->got = NULL;
}
