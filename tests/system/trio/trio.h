/* SPDX-License-Identifier: Apache-2.0 */
/* Three servers of one engine. This folder has the cases of the fault programme that are the same on all such engines,
 * and each engine says in `trio` what its servers are. A program is one file of cases and one engine's trio. */
#ifndef RT_TRIO_H
#define RT_TRIO_H

#include "lib/proxy.h"
#include "lib/servers.h"
#include "stage.h"
#include "treat.h"

#define TRIO_SERVERS 3
#define TRIO_LIMIT_MS 60000 /* for what must happen, on a slow machine too */

struct trio {
    const char *engine; /* in titles */
    const struct rt_proxy_framing *framing;
    void (*start)(void);
    void (*fini)(void);
    struct rt_server *(*server)(size_t i);
    void (*run)(size_t i); /* starts it again and waits until it serves; legal if it runs */
    /* Which one leads; -1: none within LIMIT_MS. BUT is stopped, and not asked (-1: all are asked). */
    int (*leader)(int but, unsigned limit_ms);
    char *(*url)(const uint16_t *ports); /* NULL: their own; the caller's to free */
    /* How much is left that nobody should need once all have gone; also in words. */
    size_t (*left)(char *text, size_t size);
    void (*show_left)(void); /* what it is, on stderr; or NULL */
    uint32_t election_ms;    /* nobody leads for about so long */
    uint32_t ttl_ms;         /* well above that */
    uint32_t kills, pauses;  /* of leaders, in make test */
    bool forgets;      /* a leader that was paused past the ttl ends sessions that others kept */
    const char *beat;  /* words of a heartbeat, to the proxy */
    const char *event; /* ... of what tells a waiter */
    uint32_t replies_processes, replies_ttl_ms;
    const struct treat_kind *kinds;
    size_t kind_count;
    bool in_order; /* see struct treat_plan */
};
extern const struct trio trio;

/* cmocka's setup and teardown of the group; trio_url: how all of them are reached. */
extern char *trio_url;
int trio_setup(void **state);
int trio_teardown(void **state);

/* A way to them with a proxy in front of each. Only after all stages were made: proxies have threads. */
struct trio_way {
    struct rt_proxy *proxy[TRIO_SERVERS];
    char *url;
};
void trio_way(struct trio_way *way, uint64_t seed);
void trio_way_fini(struct trio_way *way);

size_t trio_leader(int but);            /* as above; ends the test if none does */
const char *trio_title(const char *of); /* "ENGINE: OF"; a few at a time */

/* Finishes and frees the stage: no findings, nothing left once its time is over, and, unless MAY_LOSE, all that was
 * held is still held and whoever waited still waits. A fault that a starved machine made longer than half the ttl may
 * lose them. */
void trio_finish(struct stage *st, bool may_lose);

#endif
