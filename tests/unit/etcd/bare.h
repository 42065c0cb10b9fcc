/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd connection without the lock engine: the test itself asks, watches and keeps. */
#ifndef ETCD_BARE_H
#define ETCD_BARE_H

#include "engine/etcd/etcd.h"
#include "engine/etcd/link.h"
#include "engine/url.h"
#include "lib/etcd_server.h"

#define BARE_TEXT 256

struct bare {
    struct rt_up up; /* first */
    struct rt_conn base;
    struct rt_etcd_conn *conn;
    struct rt_url url;
    char password[64]; /* wiped with the URL */
    int linked, failed, up_events, down_events;
    int err;             /* of `failed` */
    char why[BARE_TEXT]; /* of it, or of open */
};

extern struct rt_loop bare_loop;
extern uint64_t bare_allocations;
extern uint64_t bare_fail_at; /* this allocation fails, once; 0: none */

int bare_setup(void **state);    /* of a test: makes the loop */
int bare_teardown(void **state); /* ends it */

/* PASSWORD NULL: the URL's. CALL_MS and TTL_MS 0: as usual. Returns what open said. */
int bare_open(struct bare *b, const char *url, const char *password, uint32_t call_ms,
              uint32_t ttl_ms);
void bare_close(struct bare *b);
void bare_turn(void); /* one; fails the test if nothing comes for long */
void bare_until(const int *flag, int n);

/* ---- Asks --------------------------------------------------------------------------------------- */

struct asked {
    struct rt_etcd_ask *ask; /* NULL once it was answered */
    int answers, err;
    uint8_t reason;
    bool was_again;
    char why[BARE_TEXT];
    int64_t revision;
    int64_t number; /* of a range or a delete: how many; of a transaction: succeeded */
    int64_t lease, ttl;
    char value[64]; /* of the first of a range */
};

void ask_put(struct bare *b, struct asked *a, const char *key, const char *value, int64_t lease);
void ask_delete(struct bare *b, struct asked *a, const char *key);
void ask_range(struct bare *b, struct asked *a, const char *key, const char *end);
void ask_create(struct bare *b, struct asked *a, const char *key); /* a transaction: if absent */
void ask_grant(struct bare *b, struct asked *a, int64_t ttl);
void ask_revoke(struct bare *b, struct asked *a, int64_t lease);
bool try_put(struct bare *b, struct asked *a, const char *key); /* false: no memory */
void ask_end(struct bare *b, struct asked *a);                  /* waits for it */
/* Puts, and waits until it is 0. */
void must_put(struct bare *b, const char *key, const char *value);

/* ---- Watches and keeps ---------------------------------------------------------------------------- */

struct watched {
    struct rt_etcd_watch w; /* first */
    int created, events, lost, err;
    int64_t revision;
    char last[64]; /* the last key; "-" before one that was deleted */
};

void watch(struct bare *b, struct watched *w, const char *key, const char *end);
bool try_watch(struct bare *b, struct watched *w, const char *key); /* false: no memory */

struct kept {
    struct rt_etcd_keep k; /* first */
    int answers, err;
    int64_t ttl;
};

void keep(struct bare *b, struct kept *k, int64_t lease, uint32_t ms);

#endif
