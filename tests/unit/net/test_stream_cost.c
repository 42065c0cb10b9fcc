/* SPDX-License-Identifier: Apache-2.0 */
/* What a round trip costs in system calls: one send, one poll, one epoll look, one recv. */
#include "lib/certs.h"
#include "lib/proc.h"
#include "peer.h"
#include "tls_server.h"

#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Ours before libc's, for the library and for libuv -------------------------- */

static int sends, recvs, controls, alarms;

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    sends++;
    assert_true((flags & MSG_NOSIGNAL) != 0);
    return syscall(SYS_sendto, fd, bytes, n, flags, NULL, 0);
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    recvs++;
    return syscall(SYS_recvfrom, fd, bytes, n, flags, NULL, NULL);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    controls++;
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
    alarms++;
    return (int)syscall(SYS_timerfd_settime, fd, flags, to, old);
}

#define ROUNDS 100

/* With TLS too: whatever OpenSSL writes leaves in one send. */
static void one_send_and_one_recv_with_tls(void **state)
{
    (void)state;
    struct rt_certs certs;
    struct rt_tls *tls = NULL;
    struct end e = {0};
    char errmsg[256];
    uint16_t port;
    rt_certs_make(&certs, rt_tmpdir());
    struct tls_server how = {
        .cert = certs.server_cert, .key = certs.server_key, .version = TLS1_3_VERSION};
    pid_t server = tls_serve(&how, &port);
    assert_int_equal(rt_tls_new(&tls, certs.ca, NULL, NULL, errmsg, sizeof(errmsg)), 0);
    struct rt_stream_target to = {.host = "127.0.0.1", .port = port, .tls = tls};
    peer_open_to(&e, &to, PEER_PATIENCE_MS);
    for (size_t i = 1; i <= ROUNDS; i++) {
        rt_loop_tick(&peer_loop);
        assert_int_equal(rt_stream_write(&e.s, "one ", 4), 0);
        assert_int_equal(rt_stream_write(&e.s, "request", 7), 0);
        rt_stream_expect(&e.s, PEER_PATIENCE_MS);
        peer_until_got(&e, 11 * i);
        if (i == 1) /* after the first the tickets have come too */
            sends = recvs = controls = alarms = 0;
    }
    assert_int_equal(sends, ROUNDS - 1);
    assert_int_equal(recvs, ROUNDS - 1);
    assert_int_equal(controls + alarms, 0);
    peer_close(&e);
    rt_tls_free(tls);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

static void one_send_and_one_recv(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct end e = {0};
    char got[64];
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    rt_stream_expect(&e.s, 5000); /* arms the alarm, once for all */
    peer_turns(2);
    assert_true(controls > 0 && alarms > 0); /* they are counted */
    sends = recvs = controls = alarms = 0;
    for (size_t i = 1; i <= ROUNDS; i++) {
        rt_loop_tick(&peer_loop);
        assert_int_equal(rt_stream_write(&e.s, "one ", 4), 0);
        assert_int_equal(rt_stream_write(&e.s, "request", 7), 0);
        rt_stream_expect(&e.s, 5000);
        assert_int_equal(sends, i - 1); /* nothing leaves before the loop polls */
        rt_loop_arm(&peer_loop);
        assert_int_equal(read(peer, got, sizeof(got)), 11);
        assert_int_equal(write(peer, "answer", 6), 6);
        peer_until_got(&e, 6 * i);
    }
    assert_int_equal(sends, ROUNDS);
    assert_int_equal(recvs, ROUNDS);
    assert_int_equal(controls, 0);
    assert_int_equal(alarms, 0);
    peer_close(&e);
    close(peer);
    close(listener);
}

static void many_answers_in_one_recv(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct end e = {0};
    static char bytes[48 * 1024];
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    peer_turns(2);
    recvs = 0;
    assert_int_equal(write(peer, bytes, sizeof(bytes)), sizeof(bytes));
    peer_until_got(&e, sizeof(bytes));
    assert_true(recvs <= 2); /* loopback may hand it over in two */
    peer_close(&e);
    close(peer);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_send_and_one_recv, peer_setup, peer_teardown),
        cmocka_unit_test_setup_teardown(one_send_and_one_recv_with_tls, peer_setup, peer_teardown),
        cmocka_unit_test_setup_teardown(many_answers_in_one_recv, peer_setup, peer_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
