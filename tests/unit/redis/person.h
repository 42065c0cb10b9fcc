/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the Redis engine for tests: one connection on a real loop, and what it was told. */
#ifndef TEST_REDIS_PERSON_H
#define TEST_REDIS_PERSON_H

#include "engine/redis/redis.h"

#define PERSON_TOLD_MAX 256
#define PERSON_HELD_MAX 512
#define PERSON_LIMIT_MS 20000

struct person_told {
    enum rt_event_kind kind;
    uint64_t session, number;
    size_t count;
    char name[64], value[64];
};

struct person {
    struct rt_up up; /* first */
    struct rt_loop loop;
    struct rt_redis_conn *conn;
    uint64_t session;
    struct person_told told[PERSON_TOLD_MAX];
    size_t told_count;
    struct { /* believed, kept by person_join, person_leave and events */
        char name[64];
        uint64_t number;
        bool granted;
    } held[PERSON_HELD_MAX];
    size_t held_count;
    char errmsg[256];
    int done;
};

/* Opens URL and a session; both must succeed. */
void person_open(struct person *u, const char *url, uint32_t ttl_ms);
void person_close(struct person *u);
void person_turn(struct person *u, int limit_ms);
int person_do(struct person *u, struct rt_op *op); /* submits and waits; the op's error */
int person_beat(struct person *u);
int person_join(struct person *u, const char *name, struct rt_join *j); /* sets session, nonce */
int person_leave(struct person *u, const char *name, uint64_t number);
/* How many lines begin with PREFIX. */
size_t person_lines(struct person *u, const char *prefix);
/* Turns the loop until an event of KIND for NUMBER (0: any) was told, from the FROM-th on: its index. */
size_t person_hear(struct person *u, enum rt_event_kind kind, uint64_t number, size_t from);

#endif
