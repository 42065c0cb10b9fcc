/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the library as small tests play them: asks under way, losses told, waiting for what is on its
 * way. Anything that should not happen fails the test, through cmocka. */
#ifndef RT_PLAYERS_H
#define RT_PLAYERS_H

#include "lib/patience.h"

#include <rota.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define PLAYERS_PATIENCE_MS rt_patient_ms(15000)

int64_t players_now_ms(void);
/* Ends the test with WHAT once END_MS is over; else sleeps for a moment. */
void players_pause(int64_t end_ms, const char *what);

#define UNTIL(condition)                                                 \
    do {                                                                 \
        int64_t until_end_ = players_now_ms() + PLAYERS_PATIENCE_MS;     \
        while (!(condition))                                             \
            players_pause(until_end_, "waited in vain for " #condition); \
    } while (0)

struct rota *player(const char *url, uint32_t ttl_ms, uint32_t call_ms); /* 0: the default */

struct player_lost { /* what a holder was told */
    atomic_int calls, reason;
};
struct rota_lock *player_take(struct rota *r, const char *name, struct player_lost *lost);

struct player_wish { /* an ask under way */
    atomic_int calls, err;
    struct rota_lock *_Atomic lock;
};
void player_wish(struct rota *r, const char *name, enum rota_mode mode, struct player_wish *wish);
void player_wish_as(struct rota *r, const char *name, const struct rota_ask *ask,
                    struct player_wish *wish);
bool player_granted(struct player_wish *wish);
/* Waits for its end, which must be ERR; returns the lock if that is 0. */
struct rota_lock *player_wished(struct player_wish *wish, int err);

size_t player_count(struct rota *r, const char *name); /* of tickets in the line */
/* Waits until there are so many. */
void player_counts(struct rota *r, const char *name, size_t count);
/* The session of the Ith ticket of a line; for etcd its lease, as a number. */
uint64_t player_session(struct rota *r, const char *name, size_t i);

#endif
