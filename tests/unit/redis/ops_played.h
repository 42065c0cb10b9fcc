/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of ops: a played server with a user, and what the user was told. */
#ifndef OPS_PLAYED_H
#define OPS_PLAYED_H

#include "played.h"

#include "engine/redis/script.h"

#define WORK work_stream /* streams: the first that is dialed, and the one for pushes */
#define PUSH push_stream
#define MOST 32

extern const struct rt_engine rt_engine_redis;
extern struct played p;
extern size_t work_stream; /* 0, until a test has it redialed */
extern size_t push_stream; /* 1, unless a link for WAIT came before it */

/* What the user was told, in order: ops by what their `user` says, events by their kind. */
struct ops_user {
    char text[MOST][96];
    size_t count, read;
    /* What it believes: rt_up.held. */
    struct {
        const char *name;
        uint64_t number;
        bool granted;
    } held[MOST];
    size_t held_count;
};
extern struct ops_user user;
extern char beat_name[], join_name[], leave_name[], other_name[];

void believe(const char *name, uint64_t number, bool granted);
/* The next thing that was told must be TEXT; "" nothing. */
void expect_told(const char *text);

/* Whether COMMAND calls SCRIPT, by its hash or with its text. */
bool calls(const char *command, enum rt_redis_script script);
/* The next command must be a call of SCRIPT. Returns its tag; *ARGS has the arguments after it. */
uint64_t expect_call(enum rt_redis_script script, const char **args);
uint64_t expect_call_in(uint32_t room, enum rt_redis_script script, const char **args);
void expect_no_call(void);
/* Answers {TAG, STATUS, ...}; the rest is given in words: "i5" an integer, "sabc" a string. */
void answer(uint64_t tag, int status, const char *words);
void push_text(const char *channel, const char *text);
void push(uint64_t count, const char *what);
void push_in(uint32_t room, uint64_t count, const char *what);
void confirm(const char *channel);
/* The push connection is established and our own channel is confirmed. */
void subscribe(void);

struct joining {
    struct rt_op op;
    struct rt_join join;
};

struct rt_op *submit(struct rt_op *op);
struct rt_op *beat(struct rt_op *op, bool open);
void open_session(void);
void join(struct joining *j, const char *name, uint64_t nonce);
void leave(struct rt_op *op, const char *name, uint64_t number);

int setup(void **state);
int setup_session(void **state);
int setup_replicated(void **state); /* with ?replicas=1: the link for WAIT is stream 1 */
int setup_cluster(void **state);    /* one node, with all 256 rooms */
int teardown(void **state);

#endif
