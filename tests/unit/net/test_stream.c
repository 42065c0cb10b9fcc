/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on real sockets: connecting, failing to, transfers, and every way to end. */
#include "base/alloc.h"
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <rota.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_text(int fd, const char *text)
{
    char got[256] = "";
    size_t size = strlen(text), have = 0;
    while (have < size) {
        ssize_t n = read(fd, got + have, size - have);
        assert_true(n > 0);
        have += (size_t)n;
    }
    assert_memory_equal(got, text, size);
}

static void words_both_ways(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct end e = {0};
    peer_open(&e, "127.0.0.1", port);
    assert_int_equal(rt_stream_write(&e.s, "early ", 6), 0); /* waits for up */
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    assert_int_equal(rt_stream_write(&e.s, "hello ", 6), 0);
    assert_int_equal(rt_stream_write(&e.s, "world", 5), 0);
    peer_turns(1);
    expect_text(peer, "early hello world");
    assert_int_equal(write(peer, "yes", 3), 3);
    peer_until_got(&e, 3);
    assert_memory_equal(e.got, "yes", 3);
    assert_true(e.s.fd > 2);
    assert_true((fcntl(e.s.fd, F_GETFD) & FD_CLOEXEC) != 0);
    close(peer);
    peer_until(&e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "closed the connection"));
    assert_int_equal(rt_stream_write(&e.s, "x", 1), ROTA_UNREACHABLE);
    peer_turns(3);
    assert_int_equal(e.downs, 1);
    peer_close(&e);
    close(listener);
}

static void nobody_listens(void **state)
{
    (void)state;
    uint16_t port;
    close(peer_listen(&port, 8));
    struct end e = {0};
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.downs, 1);
    assert_int_equal(e.ups, 0);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "refused"));
    peer_close(&e);
    e = (struct end){0};
    peer_open(&e, "127.0.0.1", port); /* and again with the same struct */
    peer_until(&e.downs, 1);
    peer_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, peer_setup, peer_teardown)
        TEST(words_both_ways),
        TEST(nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
