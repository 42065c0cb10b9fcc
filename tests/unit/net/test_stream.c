/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on real sockets: connecting, failing to, transfers, and every way to end. */
#include "lib/scarce.h"
#include "net/dial.h"
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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
#include <sys/wait.h>
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

/* ---- Connecting --------------------------------------------------------------- */

static void unix_sockets(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char folder[] = "/tmp/rota-stream-XXXXXX", longer[200];
    assert_non_null(mkdtemp(folder));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", folder);
    struct rt_stream_target t = {.unix_path = at.sun_path};
    struct end e = {0};
    peer_open_to(&e, &t, PEER_PATIENCE_MS); /* nobody there yet */
    peer_until(&e.downs, 1);
    assert_non_null(strstr(e.why, at.sun_path));
    peer_close(&e);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    e = (struct end){0};
    peer_open_to(&e, &t, PEER_PATIENCE_MS);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    assert_int_equal(write(peer, "unix", 4), 4);
    peer_until_got(&e, 4);
    peer_close(&e);
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    t.unix_path = longer;
    e = (struct end){0};
    assert_int_equal(rt_stream_open(&e.s, &peer_loop, &t, &peer_user, 1), ROTA_INVALID);
    close(peer);
    close(listener);
    unlink(at.sun_path);
    rmdir(folder);
}

static void the_other_protocol(void **state)
{
    (void)state;
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) != 0)
        skip(); /* a machine without IPv6 */
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    struct end e = {0};
    peer_open(&e, "::1", ntohs(at.sin6_port));
    peer_until(&e.ups, 1);
    close(peer_accept(listener));
    close(listener);
    peer_until(&e.downs, 1);
    assert_non_null(strstr(e.why, "[::1]:"));
    peer_close(&e);
}

/* A full queue lets the next one hang: neither refused nor accepted. */
static void nobody_takes_the_call(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 0);
    struct end first[2] = {0}, e = {0};
    peer_open(&first[0], "127.0.0.1", port);
    peer_until(&first[0].ups, 1);
    struct rt_stream_target t = {.host = "127.0.0.1", .port = port};
    peer_open_to(&first[1], &t, 30); /* may be the one that finds room */
    peer_open_to(&e, &t, 30);
    peer_until(&e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "did not answer within 30 ms"));
    peer_close(&e);
    peer_close(&first[0]);
    peer_close(&first[1]);
    close(listener);
}

static void names_are_looked_up(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8); /* of IPv4 only: ::1, if it comes first, is refused */
    struct end e = {0};
    peer_open(&e, "localhost", port);
    peer_until(&e.ups, 1);
    close(peer_accept(listener));
    peer_until(&e.downs, 1);
    peer_close(&e);
    close(listener);
}

static void names_that_do_not_exist(void **state)
{
    (void)state;
    char name[80]; /* no label is that long: known without asking anybody */
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    struct end e = {0};
    peer_open(&e, name, 1);
    peer_until(&e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "cannot be looked up"));
    peer_close(&e);
}

static void closed_while_a_name_is_looked_up(void **state)
{
    (void)state;
    for (int turns = 0; turns < 4; turns++) {
        struct end e = {0};
        peer_open(&e, "localhost", 1);
        peer_turns(turns);
        peer_close(&e);
        assert_int_equal(e.ups, 0);
    }
}

static void a_socket_connected_to_itself_is_refused(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, size), 0); /* so it is */
    assert_int_equal(rt_dial_outcome(fd), ECONNREFUSED);
    close(fd);
}

static void standard_descriptors_are_left_alone(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    int saved = fcntl(0, F_DUPFD_CLOEXEC, 10);
    struct end e = {0};
    close(0);
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int fd = e.s.fd;
    peer_close(&e);
    if (saved >= 0) {
        dup2(saved, 0);
        close(saved);
    }
    assert_true(fd > 2);
    close(listener);
}

/* ---- Answers that do not come -------------------------------------------------- */

static void silence_ends_it(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct end e = {0};
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    assert_int_equal(write(peer, "1", 1), 1);
    rt_stream_expect(&e.s, 3600000);
    peer_until_got(&e, 1); /* cleared by it */
    assert_true(e.s.deadline == RT_NEVER);
    rt_stream_expect(&e.s, 1);
    rt_stream_expect(&e.s, 0);
    peer_turns(3);
    assert_int_equal(e.downs, 0);
    rt_stream_expect(&e.s, 3600000);
    rt_stream_expect(&e.s, 10); /* the latest counts, even when it is sooner */
    peer_until(&e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "did not answer within 10 ms"));
    peer_close(&e);
    close(peer);
    close(listener);
}

/* ---- Much at once --------------------------------------------------------------- */

#define LARGE ((size_t)8 << 20)

static void *echo_main(void *arg)
{
    int fd = *(int *)arg;
    static char bytes[100000];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        for (ssize_t sent = 0, n; sent < got; sent += n) {
            n = send(fd, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);
            if (n <= 0)
                return NULL;
        }
    return NULL;
}

static void large_transfers_both_ways(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct end e = {0};
    pthread_t thread;
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    int small = 16384, waits = 0; /* else loopback takes it all at once */
    assert_int_equal(setsockopt(e.s.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    assert_int_equal(pthread_create(&thread, NULL, echo_main, &peer), 0);
    char *sent = malloc(LARGE);
    assert_non_null(sent);
    for (size_t i = 0; i < LARGE; i++)
        sent[i] = (char)(i * 31 + i / 1021);
    for (size_t at = 0; at < LARGE; at += LARGE / 16) {
        assert_int_equal(rt_stream_write(&e.s, sent + at, LARGE / 16), 0);
        peer_turns(1);
        waits += e.s.wants_write;
    }
    assert_true(waits > 0);
    peer_until_got(&e, LARGE);
    assert_int_equal(e.got_size, LARGE);
    assert_memory_equal(e.got, sent, LARGE);
    assert_false(e.s.wants_write);
    free(sent);
    peer_close(&e);
    pthread_join(thread, NULL);
    close(peer);
    close(listener);
}

static void who_does_not_read_is_left(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8), rv = 0;
    static char bytes[1 << 20];
    struct end e = {0};
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    for (int i = 0; i < 100 && rv == 0; i++) {
        rv = rt_stream_write(&e.s, bytes, sizeof(bytes));
        peer_turns(1);
    }
    assert_int_equal(rv, ROTA_UNREACHABLE);
    peer_until(&e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "does not read"));
    peer_close(&e);
    close(peer);
    close(listener);
}

/* ---- Ends ----------------------------------------------------------------------- */

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(fd);
}

static void resets_raise_no_signal(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct end e = {0};
    signal(SIGPIPE, SIG_DFL); /* would end this test */
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    reset(peer_accept(listener));
    for (int i = 0; i < 3; i++) { /* told from a turn, not from here */
        (void)rt_stream_write(&e.s, "x", 1);
        rt_loop_arm(&peer_loop);
        assert_int_equal(e.downs, 0);
    }
    peer_until(&e.downs, 1);
    assert_int_equal(e.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(e.why, "broke"));
    peer_turns(3);
    assert_int_equal(e.downs, 1);
    peer_close(&e);
    close(listener);
}

/* More than one recv takes, while sending fails: on a unix socket it fails at once. */
static void last_words_are_heard(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    static char words[150000];
    char folder[] = "/tmp/rota-stream-XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", folder);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    struct rt_stream_target t = {.unix_path = at.sun_path};
    struct end e = {.discard = true};
    peer_open_to(&e, &t, PEER_PATIENCE_MS);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener);
    assert_int_equal(send(peer, words, sizeof(words), MSG_DONTWAIT), sizeof(words));
    close(peer);
    assert_int_equal(rt_stream_write(&e.s, "x", 1), 0);
    rt_loop_arm(&peer_loop);
    assert_int_equal(e.s.err, ROTA_UNREACHABLE); /* known, not yet told */
    assert_int_equal(e.downs, 0);
    peer_until(&e.downs, 1);
    assert_int_equal(e.got_size, sizeof(words));
    peer_close(&e);
    close(listener);
    unlink(at.sun_path);
    rmdir(folder);
}

static char close_on;

static void note_closed(struct rt_stream *s)
{
    ((struct end *)(void *)s)->closed++;
}

static void close_inside(struct end *e, char what)
{
    if (what == close_on)
        rt_stream_close(&e->s, note_closed);
    assert_int_equal(e->closed, 0);
}

static void closing_inside_callbacks(void **state)
{
    (void)state;
    for (const char *what = "ude"; *what != '\0'; what++) {
        uint16_t port;
        int listener = peer_listen(&port, 8);
        struct end e = {.on = close_inside};
        close_on = *what;
        peer_open(&e, "127.0.0.1", port);
        assert_int_equal(rt_stream_write(&e.s, "early", 5), 0);
        int peer = -1;
        if (*what != 'u') {
            peer_until(&e.ups, 1);
            peer = peer_accept(listener);
            assert_int_equal(write(peer, "words", 5), 5);
        }
        if (*what == 'e')
            close(peer);
        peer_until(&e.closed, 1);
        peer_turns(2);
        assert_int_equal(e.ups, 1);
        assert_int_equal(e.downs, *what == 'e');
        assert_int_equal(e.closed, 1);
        if (*what == 'd')
            close(peer);
        close(listener);
        free(e.got);
    }
}

static void closing_at_any_moment(void **state)
{
    (void)state;
    for (int turns = 0; turns < 8; turns++) {
        uint16_t port;
        int listener = peer_listen(&port, 8);
        struct end e = {0};
        peer_open(&e, "127.0.0.1", port);
        for (int i = 0; i < turns; i++) {
            (void)rt_stream_write(&e.s, "x", 1);
            peer_turns(1);
        }
        peer_close(&e);
        close(listener);
    }
    struct rt_stream idle = {0};
    rt_stream_close(&idle, NULL); /* never opened */
}

static void children_let_go_quietly(void **state)
{
    (void)state;
    uint16_t port;
    int listener = peer_listen(&port, 8), status = -1;
    struct end e = {0};
    peer_open(&e, "127.0.0.1", port);
    peer_until(&e.ups, 1);
    int peer = peer_accept(listener), fd = e.s.fd;
    assert_int_equal(rt_stream_write(&e.s, "once", 4), 0); /* and by the parent only */
    pid_t pid = fork();
    if (pid == 0) {
        rt_stream_forked(&e.s);
        _exit(fcntl(fd, F_GETFD) >= 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    peer_turns(1);
    expect_text(peer, "once");
    assert_int_equal(write(peer, "fine", 4), 4);
    peer_until_got(&e, 4);
    peer_close(&e);
    close(peer);
    close(listener);
}

/* ---- Memory runs out ------------------------------------------------------------- */

/* As much of a stream's life as memory allows; returns whether it was whole. */
static bool life(const char *host)
{
    uint16_t port;
    int listener = peer_listen(&port, 8), peer = -1;
    struct rt_stream_target t = {.host = host, .port = port};
    struct end e = {0};
    bool whole = false;
    assert_int_equal(rt_loop_init(&peer_loop), 0);
    int rv = rt_stream_open(&e.s, &peer_loop, &t, &peer_user, PEER_PATIENCE_MS);
    if (rv == 0) {
        while (e.ups + e.downs == 0)
            assert_true(peer_turn());
        if (e.ups == 1) {
            peer = peer_accept(listener);
            rv = rt_stream_write(&e.s, "word", 4);
            peer_turns(1);
        }
        whole = rv == 0 && e.ups == 1;
        peer_close(&e);
    }
    assert_true(rv == 0 || rv == ROTA_NOMEM);
    assert_true(e.err == 0 || e.err == ROTA_NOMEM);
    rt_loop_fini(&peer_loop);
    if (peer >= 0)
        close(peer);
    close(listener);
    return whole;
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    scarce_begin();
    for (size_t i = 0; i < 2; i++) {
        bool whole = false;
        for (scarce.fail_at = 1; !whole; scarce.fail_at++) {
            scarce.asked = scarce.live = 0;
            whole = life(hosts[i]);
            assert_int_equal(scarce.live, 0);
            assert_true(scarce.fail_at < 20);
        }
        assert_true(scarce.fail_at > 4); /* the dial, the timers, the scratch, the bytes */
    }
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, peer_setup, peer_teardown)
        /* first: look-ups that were dropped give their memory back when they end */
        cmocka_unit_test(memory_runs_out),
        TEST(words_both_ways),
        TEST(nobody_listens),
        TEST(unix_sockets),
        TEST(the_other_protocol),
        TEST(nobody_takes_the_call),
        TEST(names_are_looked_up),
        TEST(names_that_do_not_exist),
        TEST(closed_while_a_name_is_looked_up),
        TEST(a_socket_connected_to_itself_is_refused),
        TEST(standard_descriptors_are_left_alone),
        TEST(silence_ends_it),
        TEST(large_transfers_both_ways),
        TEST(who_does_not_read_is_left),
        TEST(resets_raise_no_signal),
        TEST(last_words_are_heard),
        TEST(closing_inside_callbacks),
        TEST(closing_at_any_moment),
        TEST(children_let_go_quietly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
