/* SPDX-License-Identifier: Apache-2.0 */
/* A user of an engine for tests: one connection on a real loop, what it was told, and what it believes. */
#ifndef TEST_USER_H
#define TEST_USER_H

#include "engine/engine.h"
#include "lib/patience.h"
#include "net/loop.h"

#define USER_TOLD_MAX 256
#define USER_HELD_MAX 512
#define USER_LIMIT_MS rt_patient_ms(20000) /* nothing takes this long unless it hangs */

struct told {
    enum rt_event_kind kind;
    uint64_t session, number, fence;
    size_t count;
    char name[64], value[64];
};

struct user {
    struct rt_up up; /* first */
    struct rt_loop loop;
    struct rt_conn *conn;
    uint64_t session;
    struct told told[USER_TOLD_MAX];
    size_t told_count;
    struct { /* believed: what joins, leaves and events said */
        char name[64];
        uint64_t number;
        bool granted;
    } held[USER_HELD_MAX];
    size_t held_count;
    char errmsg[256]; /* of the last op that failed */
    char log[512];
    int done;
};

/* Opens URL; returns the engine's error, with errmsg. */
int user_open(struct user *u, const char *url);
void user_close(struct user *u);

/* Opens URL and a session; both must succeed. TTL_MS 0: the engine's. */
void user_start(struct user *u, const char *url, uint32_t ttl_ms);

/* Submits OP and turns the loop until it is done; returns its error. A deadline of 0 is some seconds. */
int user_do(struct user *u, struct rt_op *op);

int user_beat(struct user *u);
int user_join(struct user *u, const char *name, struct rt_join *j); /* sets session and nonce */
int user_leave(struct user *u, const char *name, uint64_t number);
size_t user_lines(struct user *u, const char *prefix); /* how many begin with it */

/* Turns the loop until an event of KIND for NUMBER (0: any) was told, from the FROM-th on;
 * fails the test after USER_LIMIT_MS. Returns its index. */
size_t user_hear(struct user *u, enum rt_event_kind kind, uint64_t number, size_t from);
void user_turn(struct user *u, int limit_ms);

#endif
