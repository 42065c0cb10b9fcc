/* SPDX-License-Identifier: Apache-2.0 */
/* Watching other sessions: by a pidfd where that can be had, else by probing now and then. */
#include "base/alloc.h"
#include "engine/file/file.h"

#include <unistd.h>

#define PEERS_IDLE 8 /* one descriptor each */

static void on_closed(struct rt_watch *w)
{
    rt_free(w); /* the peer's first member */
}

static void unwatch(struct rt_file_peer *p, void (*closed)(struct rt_watch *w))
{
    int fd = p->pidfd;
    p->pidfd = -1;
    rt_watch_stop(&p->watch, closed);
    (void)close(fd);
}

static void drop(struct rt_file_conn *c, struct rt_file_peer *p)
{
    struct rt_file_peer **at = &c->peers;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (p->pidfd >= 0)
        unwatch(p, on_closed);
    else
        rt_free(p);
}

/* The process has ended; its session may live on in a child that was given the descriptor. */
static void on_exit_seen(struct rt_watch *w, bool readable, bool writable)
{
    struct rt_file_peer *p = (struct rt_file_peer *)(void *)w;
    struct rt_file_conn *c = p->conn;
    uint64_t session = p->session;
    (void)readable;
    (void)writable;
    rt_watch_want(w, false, false);
    p->ended = true;
    if (p->refs == 0) {
        drop(c, p);
        return;
    }
    rt_file_wait_poll_soon(c);
    rt_file_enter(c);
    if (rt_file_session_dead(c, session))
        rt_file_wait_peer_dead(c, session);
    rt_file_exit(c);
}

static void watch(struct rt_file_conn *c, struct rt_file_peer *p)
{
    p->pidfd = rt_file_session_pidfd(c, p->session);
    if (p->pidfd >= 0 && rt_watch_start(c->base.loop, &p->watch, p->pidfd, on_exit_seen) != 0) {
        (void)close(p->pidfd);
        p->pidfd = -1;
    }
    if (p->pidfd >= 0)
        rt_watch_want(&p->watch, true, false);
    else
        rt_file_wait_poll_soon(c);
}

struct rt_file_peer *rt_file_peer_get(struct rt_file_conn *c, uint64_t session)
{
    struct rt_file_peer **at = &c->peers, *p;
    while (*at != NULL && (*at)->session != session)
        at = &(*at)->next;
    p = *at;
    if (p != NULL) {
        *at = p->next;
    } else {
        p = rt_alloc(sizeof(*p));
        if (p == NULL)
            return NULL;
        p->conn = c;
        p->session = session;
        watch(c, p);
    }
    p->next = c->peers;
    c->peers = p;
    p->refs++;
    return p;
}

/* Neighbours in a busy line meet again: some are kept, the ones not met for longest go. */
static void trim(struct rt_file_conn *c, uint32_t keep)
{
    struct rt_file_peer *last = NULL;
    uint32_t idle = 0;
    for (struct rt_file_peer *p = c->peers; p != NULL; p = p->next) {
        if (p->refs == 0) {
            idle++;
            last = p;
        }
    }
    if (idle > keep)
        drop(c, last);
}

void rt_file_peer_put(struct rt_file_conn *c, struct rt_file_peer *p)
{
    if (p == NULL || --p->refs > 0)
        return;
    if (p->pidfd < 0 || p->ended)
        drop(c, p);
    else
        trim(c, PEERS_IDLE);
}

void rt_file_peer_close(struct rt_file_conn *c)
{
    while (c->peers != NULL)
        drop(c, c->peers);
}

void rt_file_peer_poll(struct rt_file_conn *c)
{
    struct rt_file_peer *p = c->peers;
    while (p != NULL) {
        uint64_t session = p->session;
        bool probed = p->pidfd < 0 || p->ended;
        p = p->next;
        if (!probed)
            continue;
        rt_file_wait_poll_soon(c);
        if (!rt_file_session_dead(c, session))
            continue;
        rt_file_wait_peer_dead(c, session);
        break; /* the list may have changed; the next round goes on */
    }
}
