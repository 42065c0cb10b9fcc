/* SPDX-License-Identifier: Apache-2.0 */
/* Two worlds side by side: the reference engine in virtual time, and the Redis scripts on a real
 * server whose clock is a key. Every step is done to both, and what they answer, tell and show
 * must be the same. */
#ifndef TWIN_H
#define TWIN_H

#include "engine/engine.h"
#include "engine/redis/script.h"
#include "lib/random.h"
#include "lib/redis_server.h"
#include "net/loop.h"

#define TWIN_ACTORS 4
#define TWIN_NAMES 6
#define TWIN_TICKETS 512
#define TWIN_TOLD 256
#define TWIN_ROOM "rota:{0}"
#define TWIN_TTL_MS 1005 /* ends fall between the steps of the clock */

extern const struct rt_redis_text rt_redis_texts_test[RT_REDIS_SCRIPTS][2];
extern const char *const twin_names[TWIN_NAMES];

struct twin_told { /* of an event or a push, which must agree */
    int actor, name;
    char kind; /* G W L */
    uint64_t number;
};

struct twin_actor {
    struct rt_up up;
    struct twin *twin;
    struct rt_conn *conn;
    uint64_t session;  /* in mem; 0: none */
    uint64_t sessions; /* opened so far */
    char label[24], cid[13], sid[17];
    long long pushes; /* v of the last one to this session */
};

struct twin_ticket {
    int actor, name;
    struct rt_join join; /* as it was asked; number: that of mem, 0 if it was refused */
    char sid[24];
    uint64_t number; /* on Redis */
};

struct twin {
    struct rt_random random;
    struct rt_loop loop;
    int64_t epoch_us; /* what the server's clock shows when the loop's shows 0 */
    struct rt_redis *node;
    redisContext *work, *push;
    struct twin_actor actor[TWIN_ACTORS];
    struct twin_ticket ticket[TWIN_TICKETS]; /* all that ever were */
    size_t tickets;
    struct twin_told told[TWIN_TOLD], pushed[TWIN_TOLD];
    size_t told_count, pushed_count;
    bool lazy;  /* nothing is swept before the end of a round */
    bool late;  /* ... in this test: grants are later than those of mem */
    bool swept; /* since the last comparison */
    bool watched;
    bool plain; /* only exclusive locks without extras, seldom looked at: they stay folded */
    char observed[TWIN_NAMES][1400]; /* the last state told on ROOM:o:NAME */
    uint64_t highest;                /* number so far */
    long long tag;
    int step;
    unsigned world;
};

#define TWIN_EPOCH_US INT64_C(1700000000000000)
#define TWIN_ONLY_COUNTS \
    UINT64_C(9000000000000000) /* numbers from here on, whatever the clock says */

void twin_init(struct twin *t, struct rt_redis *node, uint64_t seed, bool lazy, bool watched,
               int64_t epoch_us);
/* Ends everything by time and BREAK; asserts that nothing is left but the counter. */
void twin_fini(struct twin *t);

/* Runs SCRIPT with N arguments after the tag, asserts {tag, status, ...}; the caller frees the reply. */
redisReply *twin_script(struct twin *t, enum rt_redis_script script, size_t n,
                        const char *const *args);
int64_t twin_now_us(const struct twin *t); /* of the server */

/* Moves both clocks and, unless lazy, sweeps both. */
void twin_advance(struct twin *t, int64_t ms);
void twin_sweep(struct twin *t);

/* Compares what was told since the last call (lazy: forgets it), and all lines (not if lazy). */
void twin_compare(struct twin *t, bool told);

#endif
