/* SPDX-License-Identifier: Apache-2.0 */
/* The benches on Redis: a server of their own, and what bare hiredis does on it. */
#ifndef BENCH_REDIS_H
#define BENCH_REDIS_H

#include "bench.h"

#include <hiredis/hiredis.h>
#include <limits.h>
#include <sys/types.h>

/* ---- The server (redis_server.c) ---------------------------------------- */

struct redis {
    pid_t pid;
    int port;
    char socket[PATH_MAX]; /* it listens there too */
    char url[64], unix_url[PATH_MAX + 16];
    redisContext *control; /* for INFO and CONFIG */
};

/* Starts redis-server on loopback in B's folder, without persistence; ends the program if that fails. It dies with
 * us. */
void redis_start(struct redis *s, const struct bench *b);
void redis_stop(struct redis *s);

/* A connection by TCP, or by the unix socket; ends the program if there is none. */
redisContext *redis_dial(const struct redis *s, bool by_unix);

/* The reply to a command, never NULL nor an error: those end the program. */
redisReply *redis_must(redisContext *c, redisReply *reply);
redisReply *redis_do(redisContext *c, const char *format, ...);

/* The number FIELD of INFO SECTION; 0 if it is not there. */
double redis_info(const struct redis *s, const char *section, const char *field);
/* From INFO commandstats since redis_forget: how often, and microseconds in total. */
void redis_forget(const struct redis *s);
double redis_calls(const struct redis *s, const char *command);
double redis_usec(const struct redis *s, const char *command);

/* ---- Bare hiredis with our scripts (redis_bare.c) ----------------------- */

struct bare {
    redisContext *c;
    char sid[17];
    uint64_t tag, nonce;
};

/* Opens a session as the engine does. */
void bare_open(struct bare *bare, redisContext *c);
void bare_append_join(struct bare *bare, const char *name);
/* Reads the answer of a join (its number) and of a leave. */
uint64_t bare_joined(struct bare *bare);
/* Subscribes TOLD to grants; reads the answer of a join, and waits for its grant. */
void bare_listen(const struct bare *bare, redisContext *told);
uint64_t bare_wait(struct bare *bare, redisContext *told);
void bare_append_leave(struct bare *bare, const char *name, uint64_t number);
void bare_left(struct bare *bare);
/* What the engine sends before a leave when others may wait, so that the next one is woken first. */
void bare_append_ping(struct bare *bare);
void bare_ponged(struct bare *bare);
void bare_pair(struct bare *bare, const char *name);
void bare_close(struct bare *bare);

/* ---- What everybody writes by hand: SET NX PX, compare and delete -------- */

struct simple {
    redisContext *c;
    char hash[64]; /* of compare and delete */
};

void simple_open(struct simple *simple, redisContext *c);
bool simple_try(struct simple *simple, const char *name, const char *token);
void simple_leave(struct simple *simple, const char *name, const char *token);

/* ---- The benches -------------------------------------------------------- */

void redis_bench_pairs(const struct bench *b, const struct redis *s); /* redis_pair.c */
void redis_bench_flight(const struct bench *b, const struct redis *s);
void redis_bench_cost(const struct bench *b, const struct redis *s);
void redis_bench_fsync(const struct bench *b, const struct redis *s);
void redis_bench_dialects(const struct bench *b, const struct redis *s); /* redis_dialect.c */
void redis_bench_peers(const struct bench *b, const struct redis *s);    /* redis_peers.c */
void redis_bench_handover(const struct bench *b, const struct redis *s); /* redis_line.c */
void redis_bench_waiters(const struct bench *b, const struct redis *s);
void redis_bench_linger(const struct bench *b, const struct redis *s); /* redis_hold.c */
void redis_bench_threads(const struct bench *b, const struct redis *s);
void redis_bench_held(const struct bench *b, const struct redis *s);
void redis_bench_takeover(const struct bench *b, const struct redis *s);

#endif
