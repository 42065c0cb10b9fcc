/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: datagrams that make another session look at its rows. They decide nothing. */
#include "base/alloc.h"
#include "engine/file/file.h"
#include "net/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x52744231) /* "RtB1": changes with the datagram's form */
#define HEAR_MAX 64                /* datagrams per turn of the loop: others want their turn */
#define LATE_MS 2
#define LATE_TRIES 500 /* a second; the receiver looks by itself as often */

struct datagram {
    uint32_t magic, kind;
    uint64_t session, number;
    char name[RT_FILE_NAME_MAX + 1];
};
#define DATAGRAM_HEAD offsetof(struct datagram, name)

/* ---- Lists ----------------------------------------------------------------- */

int rt_file_rings_add(struct rt_file_rings *rings, struct rt_file_ring ring, const char *name)
{
    size_t size = strlen(name) + 1;
    if (!rt_grow(&rings->list, &rings->room, rings->count + 1, sizeof(*rings->list)) ||
        !rt_grow(&rings->text, &rings->text_room, rings->text_size + size, 1))
        return ROTA_NOMEM;
    ring.name = (uint32_t)rings->text_size;
    memcpy(rings->text + rings->text_size, name, size);
    rings->text_size += size;
    rings->list[rings->count++] = ring;
    return 0;
}

void rt_file_rings_clear(struct rt_file_rings *rings)
{
    rings->count = 0;
    rings->text_size = 0;
}

void rt_file_rings_free(struct rt_file_rings *rings)
{
    rt_free(rings->list);
    rt_free(rings->text);
    *rings = (struct rt_file_rings){0};
}

int rt_file_ring_add(struct rt_file_conn *c, enum rt_file_ring_kind kind,
                     const struct rt_file_row *row, const char *name)
{
    uint64_t to = (row->flags & RT_FILE_DURABLE) != 0 ? row->bell : row->session;
    if (to == 0)
        return 0;
    struct rt_file_ring ring = {
        .to = to, .session = row->session, .number = row->number, .kind = kind};
    return rt_file_rings_add(&c->rings, ring, name);
}

/* ---- Hearing ---------------------------------------------------------------- */

static void hear_wanted(struct rt_file_conn *c, const struct rt_file_ring *ring, const char *name)
{
    struct rt_file_row row, last;
    bool found = false, waits = false;
    int64_t number = (int64_t)ring->number;
    if (rt_file_row_get(c, RT_FILE_TICKET_GET, name, 1, &number, &row, &found) != 0 || !found ||
        row.session != ring->session || (row.flags & RT_FILE_GRANTED) == 0 ||
        (row.flags & RT_FILE_ARMED) == 0)
        return;
    if (rt_file_row_get(c, RT_FILE_LINE_LAST, name, 0, NULL, &last, &waits) != 0 || !waits ||
        (last.flags & RT_FILE_GRANTED) != 0)
        return;
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_WANTED,
                                               .session = row.session,
                                               .number = row.number,
                                               .name = name});
}

static void hear_lost(struct rt_file_conn *c, const struct rt_file_ring *ring, const char *name)
{
    struct rt_file_row row;
    bool found = false;
    int64_t number = (int64_t)ring->number;
    if (rt_file_wait_find(c, ring->number) != NULL) {
        rt_file_wait_look(c, ring->number);
        return;
    }
    if (rt_file_row_get(c, RT_FILE_TICKET_GET, name, 1, &number, &row, &found) != 0 || found)
        return;
    if (ring->session == c->session)
        rt_file_wait_held(c, -1);
    rt_conn_event(&c->base, &(struct rt_event){.kind = RT_TICKET_LOST,
                                               .session = ring->session,
                                               .number = ring->number,
                                               .name = name});
}

static void hear(struct rt_file_conn *c, const struct rt_file_ring *ring, const char *name)
{
    c->counted.rings_heard++;
    switch (ring->kind) {
    case RT_FILE_RING_GRANTED:
    case RT_FILE_RING_LOOK:
        rt_file_wait_look(c, ring->number);
        break;
    case RT_FILE_RING_WANTED:
        hear_wanted(c, ring, name);
        break;
    case RT_FILE_RING_CHANGED:
        rt_file_observe_dirty(c, name);
        break;
    case RT_FILE_RING_LOST:
        hear_lost(c, ring, name);
        break;
    case RT_FILE_RING_FILES:
        rt_file_session_verify(c);
        break;
    default: /* of a newer minor: not for us */
        break;
    }
}

static void on_readable(struct rt_watch *w, bool readable, bool writable)
{
    struct rt_file_conn *c = w->user;
    struct datagram d;
    (void)readable;
    (void)writable;
    rt_file_enter(c);
    for (int i = 0; i < HEAR_MAX && c->bell != NULL; i++) {
        ssize_t n = recv(c->bell->fd, &d, sizeof(d), MSG_DONTWAIT);
        if (n < 0)
            break;
        if ((size_t)n <= DATAGRAM_HEAD || d.magic != MAGIC || ((char *)&d)[n - 1] != '\0')
            continue;
        struct rt_file_ring ring = {.session = d.session, .number = d.number, .kind = d.kind};
        hear(c, &ring, d.name);
    }
    rt_file_observe_tell(c, false);
    rt_file_exit(c);
}

/* ---- Ringing ---------------------------------------------------------------- */

static void address(const struct rt_file_conn *c, uint64_t session, struct sockaddr_un *a)
{
    /* A folder's path may be longer than sun_path: go through its descriptor. */
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(a->sun_path, sizeof(a->sun_path), "/proc/self/fd/%d/%016" PRIx64 ".sock",
                   c->sdir, session);
}

/* Whether the receiver's queue was full. */
static bool ring_out(struct rt_file_conn *c, const struct rt_file_ring *ring, const char *name)
{
    struct sockaddr_un a;
    struct datagram d = {
        .magic = MAGIC, .kind = ring->kind, .session = ring->session, .number = ring->number};
    size_t size = strlen(name) + 1;
    if (size > sizeof(d.name))
        return false;
    if (c->send_fd < 0)
        c->send_fd = rt_fd_lift(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    memcpy(d.name, name, size);
    address(c, ring->to, &a);
    ssize_t n = sendto(c->send_fd, &d, DATAGRAM_HEAD + size, MSG_DONTWAIT | MSG_NOSIGNAL,
                       (struct sockaddr *)&a, sizeof(a));
    if (n >= 0) {
        c->counted.rings++;
        return false;
    }
    return errno == EAGAIN || errno == ENOBUFS;
}

void rt_file_bell_alarm(struct rt_file_conn *c, uint64_t session)
{
    (void)ring_out(c, &(struct rt_file_ring){.to = session, .kind = RT_FILE_RING_FILES}, "");
}

void rt_file_rings_send(struct rt_file_conn *c)
{
    if (c->rings.count == 0)
        return;
    /* What is heard below may end in transactions that ring in turn: a list of their own. */
    struct rt_file_rings rings = c->rings;
    c->rings = (struct rt_file_rings){0};
    for (size_t i = 0; i < rings.count; i++) {
        const struct rt_file_ring *ring = &rings.list[i];
        const char *name = rings.text + ring->name;
        if (ring->to == c->session || !ring_out(c, ring, name))
            continue;
        c->counted.rings_late++;
        if (rt_file_rings_add(&c->late, *ring, name) != 0)
            continue; /* it looks by itself, a little later */
        c->late_tries = 0;
        rt_timers_start(&c->base.loop->timers, &c->late_timer.timer,
                        rt_loop_now(c->base.loop) + LATE_MS * RT_MS);
    }
    for (size_t i = 0; i < rings.count; i++)
        if (rings.list[i].to == c->session)
            hear(c, &rings.list[i], rings.text + rings.list[i].name);
    rt_file_observe_tell(c, false);
    if (c->rings.list != NULL) {
        rt_file_rings_free(&rings);
        return;
    }
    rt_file_rings_clear(&rings);
    c->rings = rings; /* keep the room */
}

void rt_file_rings_late(struct rt_timer_call *t, int64_t now)
{
    struct rt_file_conn *c = RT_FILE_CONTAINER(t, struct rt_file_conn, late_timer);
    size_t kept = 0;
    for (size_t i = 0; i < c->late.count; i++)
        if (ring_out(c, &c->late.list[i], c->late.text + c->late.list[i].name))
            c->late.list[kept++] = c->late.list[i];
    c->late.count = kept;
    if (kept == 0 || ++c->late_tries >= LATE_TRIES)
        rt_file_rings_clear(&c->late);
    else
        rt_timers_start(&c->base.loop->timers, &t->timer, now + LATE_MS * RT_MS);
}

/* ---- The socket -------------------------------------------------------------- */

static void on_closed(struct rt_watch *w)
{
    rt_free(w);
}

/* Whether FD is of our socket: then we hear what is sent there. */
static bool is_ours(const struct rt_file_bell *b, int fd, uint64_t session)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    uint64_t heard = 0;
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d", fd);
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == geteuid() &&
           sendto(b->fd, &session, sizeof(session), MSG_DONTWAIT | MSG_NOSIGNAL,
                  (struct sockaddr *)&a, sizeof(a)) == (ssize_t)sizeof(session) &&
           recv(b->fd, &heard, sizeof(heard), MSG_DONTWAIT) == (ssize_t)sizeof(heard) &&
           heard == session;
}

/* The group's rights, which the umask took away. By a descriptor: whoever may write s/ may put another thing under our
 * name. Nobody but us may send there before, so we hear only ourselves. */
static int share(struct rt_file_conn *c, const struct rt_file_bell *b, uint64_t session)
{
    char name[32];
    struct stat st;
    (void)snprintf(name, sizeof(name), "%016" PRIx64 ".sock", session);
    int fd = openat(c->sdir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), rv = 0;
    if (fd < 0 && rt_file_say_files(c, errno))
        return ROTA_UNREACHABLE;
    bool done = fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
                (st.st_mode & 0777) == c->mode;
    if (!done && (fd < 0 || !is_ours(b, fd, session))) {
        rt_file_say(c, "a socket in %s/s was replaced while it was made: see who may write there",
                    c->shown);
        rv = ROTA_AUTH;
    } else if (!done) {
        (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        (void)chmod(name, c->mode);
    }
    if (fd >= 0)
        (void)close(fd);
    return rv;
}

int rt_file_bell_open(struct rt_file_conn *c, uint64_t session)
{
    struct sockaddr_un a;
    struct rt_file_bell *b = rt_alloc(sizeof(*b));
    if (b == NULL)
        return ROTA_NOMEM;
    b->fd = rt_fd_lift(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (b->fd < 0) {
        if (!rt_file_say_files(c, errno))
            rt_file_say(c, "cannot make a socket: %s", strerror(errno));
        goto no_socket;
    }
    (void)fchmod(b->fd, c->mode); /* what bind makes has no more rights than that */
    address(c, session, &a);
    if (bind(b->fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        rt_file_say(c, "cannot bind a socket in %s/s: %s (is /proc mounted?)", c->shown,
                    strerror(errno));
        goto no_bind;
    }
    b->watch.user = c;
    int rv = (c->mode & 0060) != 0 ? share(c, b, session) : 0;
    if (rv == 0)
        rv = rt_watch_start(c->base.loop, &b->watch, b->fd, on_readable);
    if (rv != 0) {
        (void)unlink(a.sun_path);
        (void)close(b->fd);
        rt_free(b);
        return rv;
    }
    rt_watch_want(&b->watch, true, false);
    c->bell = b;
    return 0;
no_bind:
    (void)close(b->fd);
no_socket:
    rt_free(b);
    return ROTA_UNREACHABLE;
}

void rt_file_bell_close(struct rt_file_conn *c)
{
    if (c->bell == NULL)
        return;
    int fd = c->bell->fd;
    rt_watch_stop(&c->bell->watch, on_closed);
    (void)close(fd);
    c->bell = NULL;
}
