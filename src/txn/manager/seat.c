/* SPDX-License-Identifier: Apache-2.0 */
/* The application's attached connections: a server is checked once per connection, not once per branch.
 *
 * A connection is known by its address and by its socket's cookie, which the kernel gives to no other: a reused
 * address, or a library that reconnected on its own, is another connection. */
#include "txn/manager/inside.h"

#include "base/alloc.h"
#include "txn/branch/talk.h"

#include <assert.h>
#include <stdio.h>
#include <sys/socket.h>

#define SEATS_MOST 4096 /* beyond that each new one evicts a free one */

static uint64_t cookie_of(const struct rt_party *party)
{
    int fd = party->talk->kind->fd(party->talk);
    uint64_t cookie = 0;
    socklen_t size = sizeof(cookie);

    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0)
        return 0;
    return cookie;
}

static void free_seat(struct rt_seat *s)
{
    rt_party_close(s->party);
    rt_free(s);
}

static void take_out(struct rota_txns *m, struct rt_seat **at)
{
    struct rt_seat *s = *at;

    *at = s->next;
    m->seat_count--;
    s->gone = true;
    if (!s->busy)
        free_seat(s);
}

static struct rt_seat **place_of(struct rota_txns *m, const void *conn)
{
    struct rt_seat **at = &m->seats[((uintptr_t)conn >> 4) % RT_SEATS];
    while (*at != NULL && (*at)->party->conn != conn)
        at = &(*at)->next;
    return at;
}

static void make_room(struct rota_txns *m)
{
    for (uint32_t i = 0; i < RT_SEATS; i++)
        for (struct rt_seat **at = &m->seats[i]; *at != NULL; at = &(*at)->next)
            if (!(*at)->busy) {
                take_out(m, at);
                return;
            }
}

static struct rt_seat *new_seat(struct rota_txns *m, const struct rt_party_kind *kind, void *conn,
                                int *err, char *line)
{
    struct rt_seat *s = rt_alloc(sizeof(*s));

    if (s == NULL) {
        *err = ROTA_NOMEM;
        snprintf(line, RT_TXN_LINE, "out of memory");
        return NULL;
    }
    *err = rt_party_open(&s->party, kind, conn, false, NULL, line, RT_TXN_LINE);
    if (*err != 0) {
        rt_free(s);
        return NULL;
    }
    s->cookie = cookie_of(s->party);
    s->polled = -1;
    if (m->seat_count >= SEATS_MOST)
        make_room(m);
    struct rt_seat **at = place_of(m, conn);
    s->next = *at;
    *at = s;
    m->seat_count++;
    return s;
}

static struct rt_seat *take(struct rota_txns *m, const struct rt_party_kind *kind, void *conn,
                            int *err, char *line)
{
    struct rt_seat **at = place_of(m, conn);
    struct rt_seat *s = *at;

    if (s != NULL && s->party->kind == kind && s->busy) {
        *err = ROTA_INVALID;
        snprintf(line, RT_TXN_LINE,
                 "the connection has a branch already: one connection, one branch at a time");
        return NULL;
    }
    if (s != NULL && (s->party->kind != kind || s->party->dead || s->cookie == 0 ||
                      s->cookie != cookie_of(s->party))) {
        take_out(m, at);
        s = NULL;
    }
    if (s == NULL)
        s = new_seat(m, kind, conn, err, line);
    if (s != NULL)
        s->busy = true;
    return s;
}

struct rt_seat *rt_seat_take(struct rota_txns *m, const struct rt_party_kind *kind, void *conn,
                             int *err, char *line)
{
    pthread_mutex_lock(&m->front);
    struct rt_seat *s = take(m, kind, conn, err, line);
    pthread_mutex_unlock(&m->front);
    return s;
}

void rt_seat_leave(struct rota_txns *m, struct rt_seat *s)
{
    pthread_mutex_lock(&m->front);
    assert(s->busy);
    s->busy = false;
    if (s->gone)
        free_seat(s);
    else if (s->party->dead || !s->party->attached)
        take_out(m, place_of(m, s->party->conn));
    pthread_mutex_unlock(&m->front);
}

void rt_seat_cut(struct rt_seat *s)
{
    int fd = s->party->talk->kind->fd(s->party->talk);

    if (fd >= 0 && s->cookie == cookie_of(s->party))
        shutdown(fd, SHUT_RDWR);
}

void rt_seat_fini(struct rota_txns *m)
{
    for (uint32_t i = 0; i < RT_SEATS; i++)
        while (m->seats[i] != NULL)
            take_out(m, &m->seats[i]);
}
