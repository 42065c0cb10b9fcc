/* SPDX-License-Identifier: Apache-2.0 */
/* A user of an engine for tests: one connection, its loop, and what it was told. */
#ifndef TEST_USER_H
#define TEST_USER_H

#include "engine/engine.h"
#include "net/loop.h"

#define USER_TOLD_MAX 256

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
    char errmsg[256]; /* of the last op that failed */
    char log[512];
    int done;
};

/* Opens URL; returns the engine's error, with errmsg. */
int user_open(struct user *u, const char *url);
void user_close(struct user *u);

/* Opens URL and a session; both must succeed. */
void user_start(struct user *u, const char *url);

/* Submits OP and turns the loop until it is done; returns its error. */
int user_do(struct user *u, struct rt_op *op);

int user_join(struct user *u, const char *name, struct rt_join *j); /* sets session and nonce */
int user_leave(struct user *u, const char *name, uint64_t number);

/* Turns the loop until an event of KIND for NUMBER (0: any) was told, from the FROM-th on;
 * fails the test after some seconds. Returns its index. */
size_t user_hear(struct user *u, enum rt_event_kind kind, uint64_t number, size_t from);
void user_turn(struct user *u, int limit_ms);

#endif
