/* SPDX-License-Identifier: Apache-2.0 */
/* ZooKeeper by hand: the engine's codec over a socket, and nothing in between. */
#include "zookeeper.h"

#include "engine/zookeeper/zk.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM (1u << 20)
#define PATH_ROOM 256
#define PAIRS_MOST 1024
#define NOTICE (-1)

struct zk_bare {
    int fd;
    int32_t xid;
    struct rt_jute_out out; /* not sent yet */
    uint8_t in[ROOM];
    size_t have, used;
};

struct answer {
    int32_t xid;
    struct rt_jute_in body;
};

static void give_up(const char *what)
{
    fprintf(stderr, "rota-bench: bare ZooKeeper: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Messages -------- */

static void flush(struct zk_bare *b)
{
    if (b->out.size > 0 &&
        send(b->fd, b->out.at, b->out.size, MSG_NOSIGNAL) != (ssize_t)b->out.size)
        give_up("send");
    b->out.size = 0;
}

static struct rt_jute_in hear(struct zk_bare *b)
{
    flush(b);
    for (;;) {
        struct rt_jute_in head = {b->in + b->used, b->have - b->used, false};
        size_t size = (size_t)rt_jute_get_int(&head);
        if (!head.bad && head.left >= size) {
            b->used += 4 + size;
            return (struct rt_jute_in){head.at, size, false};
        }
        memmove(b->in, b->in + b->used, b->have - b->used);
        b->have -= b->used;
        b->used = 0;
        ssize_t n = recv(b->fd, b->in + b->have, ROOM - b->have, 0);
        if (n <= 0)
            give_up("recv");
        b->have += (size_t)n;
    }
}

static struct answer answer(struct zk_bare *b)
{
    struct answer a = {.body = hear(b)};
    a.xid = rt_jute_get_int(&a.body);
    (void)rt_jute_get_long(&a.body);
    int32_t said = rt_jute_get_int(&a.body);
    if (a.body.bad || (said != 0 && a.xid != NOTICE && said != RT_ZK_EXISTS_ALREADY))
        give_up("refused");
    return a;
}

/* Begins a message; its size is written when it ends. */
static size_t begin(struct zk_bare *b, enum rt_zk_call call)
{
    size_t at = b->out.size;
    rt_jute_int(&b->out, 0);
    rt_jute_int(&b->out, ++b->xid);
    rt_jute_int(&b->out, call);
    return at;
}

static void end(struct zk_bare *b, size_t at)
{
    rt_jute_set_int(&b->out, at, (int32_t)(b->out.size - at - 4));
}

static void send_create(struct zk_bare *b, const char *path, uint32_t flags)
{
    size_t at = begin(b, RT_ZK_CREATE2);
    rt_jute_text(&b->out, path);
    rt_jute_bytes(&b->out, "", 0);
    rt_jute_int(&b->out, 1);
    rt_jute_int(&b->out, 31);
    rt_jute_text(&b->out, "world");
    rt_jute_text(&b->out, "anyone");
    rt_jute_int(&b->out, (int32_t)flags);
    end(b, at);
}

static void send_read(struct zk_bare *b, enum rt_zk_call call, const char *path, bool watch)
{
    size_t at = begin(b, call);
    rt_jute_text(&b->out, path);
    rt_jute_bool(&b->out, watch);
    end(b, at);
}

static void send_delete(struct zk_bare *b, const char *path)
{
    size_t at = begin(b, RT_ZK_DELETE);
    rt_jute_text(&b->out, path);
    rt_jute_int(&b->out, -1);
    end(b, at);
}

static void take_path(struct answer *a, char out[PATH_ROOM])
{
    struct rt_text path = rt_jute_get_bytes(&a->body);
    if (a->body.bad || path.size >= PATH_ROOM)
        give_up("a path");
    memcpy(out, path.at, path.size);
    out[path.size] = '\0';
}

/* ---- A connection -------- */

struct zk_bare *zk_bare_open(uint16_t port)
{
    struct zk_bare *b = calloc(1, sizeof *b);
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    b->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (b->fd < 0 || connect(b->fd, (struct sockaddr *)&in, sizeof in) != 0)
        give_up("connect");
    (void)setsockopt(b->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    rt_jute_int(&b->out, 0);
    rt_jute_int(&b->out, 0);
    rt_jute_long(&b->out, 0);
    rt_jute_int(&b->out, 600000);
    rt_jute_long(&b->out, 0);
    rt_jute_bytes(&b->out, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    rt_jute_bool(&b->out, false);
    end(b, 0);
    (void)hear(b);
    send_create(b, "/bare", RT_ZK_PERSISTENT);
    (void)answer(b);
    return b;
}

void zk_bare_close(struct zk_bare *b)
{
    close(b->fd);
    rt_jute_free(&b->out);
    free(b);
}

/* ---- What is measured -------- */

static void make_line(struct zk_bare *b, int i, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "/bare/n%d", i);
    send_create(b, path, RT_ZK_PERSISTENT);
    (void)answer(b);
}

double zk_bare_pairs_us(struct zk_bare *b, int n)
{
    static double us[PAIRS_MOST];
    char line[PATH_ROOM], path[PATH_ROOM], ticket[PATH_ROOM];
    make_line(b, 0, line);
    snprintf(path, sizeof path, "%.100s/_c_0123456789abcdef0123456789abcdef-lock-", line);
    for (int i = 0; i < n; i++) {
        int64_t from = rt_bench_ns();
        send_create(b, path, RT_ZK_EPHEMERAL | RT_ZK_SEQUENTIAL);
        struct answer a = answer(b);
        take_path(&a, ticket);
        send_read(b, RT_ZK_CHILDREN, line, false);
        (void)answer(b);
        send_delete(b, ticket);
        (void)answer(b);
        us[i] = (double)(rt_bench_ns() - from) / 1000;
    }
    return rt_bench_median(us, (size_t)n);
}

double zk_bare_flight(struct zk_bare *b, int at_once, int pairs)
{
    static struct seat {
        char line[PATH_ROOM], path[PATH_ROOM], ticket[PATH_ROOM];
    } seats[BENCH_FLIGHT];
    struct {
        int seat, step;
    } flying[4 * BENCH_FLIGHT];
    size_t first = 0, next = 0, room = sizeof flying / sizeof flying[0];
    int begun = 0, over = 0;
    for (int i = 0; i < at_once; i++) {
        make_line(b, i, seats[i].line);
        snprintf(seats[i].path, PATH_ROOM, "%.100s/_c_0123456789abcdef0123456789abcdef-lock-",
                 seats[i].line);
    }
    int64_t from = rt_bench_ns();
    for (int ready = 0; over < pairs;) {
        /* A seat without a ticket asks for one; answers say what comes next. */
        int seat = -1, step = 3;
        if (ready < at_once) {
            seat = ready++;
        } else {
            seat = flying[first % room].seat;
            step = flying[first++ % room].step;
            struct answer a = answer(b);
            if (step == 0)
                take_path(&a, seats[seat].ticket);
        }
        if (step == 1) {
            send_delete(b, seats[seat].ticket);
            flying[next % room].seat = seat;
            flying[next++ % room].step = 2;
        }
        over += step == 2;
        if (step >= 2 && begun < pairs) {
            begun++;
            send_create(b, seats[seat].path, RT_ZK_EPHEMERAL | RT_ZK_SEQUENTIAL);
            send_read(b, RT_ZK_CHILDREN, seats[seat].line, false);
            for (int k = 0; k < 2; k++) {
                flying[next % room].seat = seat;
                flying[next++ % room].step = k;
            }
        }
        if (b->used < b->have)
            continue; /* more has already come: everything that follows from it goes in one send */
        flush(b);
    }
    return pairs / ((double)(rt_bench_ns() - from) / 1e9);
}

double zk_bare_handover_us(struct zk_bare *a, struct zk_bare *b, int n)
{
    static double us[PAIRS_MOST];
    char line[PATH_ROOM], path[PATH_ROOM], ticket[PATH_ROOM];
    make_line(a, 0, line);
    snprintf(path, sizeof path, "%.100s/_c_0123456789abcdef0123456789abcdef-lock-", line);
    for (int i = 0; i < n; i++) {
        send_create(a, path, RT_ZK_EPHEMERAL | RT_ZK_SEQUENTIAL);
        struct answer made = answer(a);
        take_path(&made, ticket);
        send_read(b, RT_ZK_GET, ticket, true);
        (void)answer(b);
        int64_t from = rt_bench_ns();
        send_delete(a, ticket);
        flush(a);
        if (answer(b).xid != NOTICE)
            give_up("no event");
        send_read(b, RT_ZK_CHILDREN, line, false);
        (void)answer(b);
        us[i] = (double)(rt_bench_ns() - from) / 1000;
        (void)answer(a);
    }
    return rt_bench_median(us, (size_t)n);
}
