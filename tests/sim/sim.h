/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: processes with clients and threads over one world of the engine mem, or over the
 * engine redis, etcd, sql or zookeeper and a model of its server, in virtual time, through bad networks;
 * everything is decided by one seed.
 *
 *   job (an ask) -> desk -> dispatch -> [tap: what is sent] -> fault -> [tap: what arrives] -> mem
 *   job (an ask) -> desk -> dispatch -> [tap: what is sent] -> engine redis, etcd, sql, zookeeper -> net -> model
 *
 * One run is a safety phase, full of trouble, then a liveness phase: all is healed, nobody asks any more, and
 * whatever is open must be answered in bounded time; then everybody goes, and nothing may stay behind. After each
 * step the invariants are checked (invariants.h). */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "engine/mem/world.h"
#include "sim/process.h"
#include "sim/schedule.h"
#include "sim/witness.h"

struct es_server;
struct rs_server;
struct sf_world;
struct ss_server;
struct zs_server;
struct sim_kind;

#define SIM_TAINTS_MAX 256
#define SIM_TOLD_MAX 1024 /* more grants than any run has asks */

struct sim_line { /* a name, as everybody has seen it so far */
    char name[16];
    uint64_t last_exclusive; /* the engine's last exclusive grant */
    uint64_t highest_told;   /* the highest fence anybody was told */
    struct sim_witness witness;
};

struct sim_counts { /* of all runs: what they were made of */
    uint64_t steps;
    uint64_t granted, passed, reentered, failed, rejoined;
    uint64_t lost, timed_out; /* holds, by the session or a break, and by hold_ms */
    uint64_t released, released_lost, released_unknown;
    uint64_t crashes, pauses, closes, strays;
    uint64_t scripts, losses,
        jumps; /* of a model: requests served, restarts that lost data, of the clock */
};
extern struct sim_counts sim_counts;

struct sim {
    uint64_t seed;
    struct sim_random random;
    struct sim_random aside; /* so that seeds mean what they did before some asks outlast outages */
    struct sim_plan plan;
    int64_t now;
    int64_t act_at, trouble_at;
    bool healing;         /* the liveness phase */
    int64_t harmed_until; /* calm.h */
    /* the session whose LEAVE the engine has just done; 0: it was something else */
    uint64_t leaver;
    const struct sim_kind *kind;
    struct rt_mem_world *world; /* one of these */
    struct rs_server *redis;
    struct es_server *etcd;
    struct ss_server *sql;
    struct zs_server *zookeeper;
    struct sf_world *file;
    struct sim_net *net;           /* of the model server; NULL: over mem, file */
    struct sim_client *current;    /* who is acting just now, or acted last */
    int64_t outage_at, promote_at; /* promote_at 0: no replica is behind */
    uint64_t highest_number;       /* of the stores that were lost */
    uint32_t back_ms;              /* how far the clock of Redis went back in all */
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_line *lines; /* of the plan's names */
    /* What the engine was made to forget before its time: believing in it is not held against us. */
    uint64_t lost_sessions[SIM_TAINTS_MAX], broken[SIM_TAINTS_MAX];
    size_t lost_session_count, broken_count;
    /* Grants with at_least_ms that somebody was told of: only those may keep their line. */
    struct {
        uint64_t number;
        uint32_t name;
    } told[SIM_TOLD_MAX];
    size_t told_count;
    uint32_t last_job;
    bool tracing;
};

/* While it is not 0, so many per mille of the library's allocations fail. main.c does it. */
extern uint32_t sim_starving;
extern struct sim_random sim_hunger; /* which of them */
extern uint32_t sim_rejoin;          /* per mille of the asks that outlast outages */
/* per mille of the acts after which somebody begins or stops looking on */
extern uint32_t sim_observe;
extern bool sim_crowd; /* sim_plan_crowd */

/* Runs one schedule. Does not return from a violation. */
void sim_run(uint64_t seed, const struct sim_kind *kind, bool tracing);

/* All clients of a process die. */
void sim_process_crash(struct sim *sim, uint32_t process);
/* C, which runs, does something: what it has to do, or what one of its threads thinks of. */
void sim_client_step(struct sim *sim, struct sim_client *c);

/* One of N, drawn by weight; N if there is none. */
uint32_t sim_pick_weighted(struct sim *sim, const uint32_t *weights, uint32_t n);

/* A line of the trace: who did what. */
void sim_trace(const struct sim *sim, const struct sim_client *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define SIM_TRACE(sim, ...)              \
    do {                                 \
        if ((sim)->tracing)              \
            sim_trace(sim, __VA_ARGS__); \
    } while (0)

/* An invariant does not hold: says so and how to see it again, and ends the program. */
_Noreturn void sim_violated(const struct sim *sim, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* main.c: what the seed decided. With --digest it is all that is asked for: prints its hash, and ends the program. */
void sim_drawn(const void *plan, size_t size);

/* main.c: where trace lines go, and how the program ends. */
void sim_out(const char *line);
void sim_out_tail(void); /* the last lines, if they were kept back; others follow at once */
_Noreturn void sim_end(const char *why);

bool sim_is_broken(const struct sim *sim, uint64_t number);
bool sim_is_lost(const struct sim *sim, uint64_t session);
void sim_taint(uint64_t *list, size_t *count, uint64_t what);

#endif
