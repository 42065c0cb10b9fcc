/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of worlds, and their truth: what the engine has at this moment, read from behind its back. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;
struct sim_client;
struct rt_engine;

#define SIM_PLACES_MAX 512

struct sim_place { /* a ticket, as it stands in its line */
    uint64_t number, nonce;
    uint64_t session; /* 0: nobody's any more, it keeps the line taken */
    uint32_t mode, take, of;
    bool granted;
    bool rung; /* something about it is on its way to its client; mem only */
};

struct sim_kind {
    const char *name; /* --NAME chooses it */
    bool late;  /* mem only: tickets are numbered when they are granted, and have names before */
    bool exact; /* what is told as lost is lost: no answer is older than it seems */
    /* ... except for ticket NUMBER of NAME at this moment. May be NULL: for none. */
    bool (*inexact)(const struct sim *sim, const char *name, uint64_t number);
    /* the next beat may be what tells that somebody waits: it came while we began to listen */
    bool wanted_by_beat;
    /* When the last call that told a holder so was lost: it is repeated within wakes_within. May be NULL:
     * none is lost. */
    int64_t (*wanted_lost_at)(const struct sim *sim);
    /* promises are held against the deadline itself, not against what is told before it */
    bool to_deadline;
    /* For a world without locks, where nothing else here counts: runs a schedule, and does not return from a violation;
     * prints what all of them were made of, and how many steps. NULL: a world with locks. */
    void (*play)(uint64_t seed, bool tracing);
    void (*report)(void);
    const struct rt_engine *engine; /* NULL: the one the URL names */
    /* Draws what the plan has for this kind alone, and makes the world. */
    void (*open)(struct sim *sim);
    void (*close)(struct sim *sim);

    /* The tickets of NAME, front first. */
    size_t (*look)(const struct sim *sim, const char *name, struct sim_place *out, size_t most);
    /* When SESSION ends if nobody renews it, in virtual time; false: it is not there. NAME: for its
     * tickets in that line, where that may make a difference; NULL: for itself. */
    bool (*session)(const struct sim *sim, uint64_t session, const char *name, int64_t *ends);
    /* Engines may sweep when they like; this makes them sweep. */
    void (*sweep)(struct sim *sim);
    /* Everything ends that ends within MS from now. */
    void (*expire)(struct sim *sim, int64_t ms);
    /* How many lines, sessions and other things are there that an empty world does not have. */
    size_t (*left)(const struct sim *sim);
    void (*dump)(const struct sim *sim); /* for a person; may be NULL */
    /* The engine forgets a session before its time. May be NULL. */
    void (*kill_session)(struct sim *sim);

    /* A client that holds, or is waited for, is told within this long, in ns, while nothing bad happens; 0: in this
     * world nothing can be said. May be NULL. */
    int64_t (*wakes_within)(const struct sim *sim);
    /* Until when the server's own outages last; 0: there was none, RT_NEVER: until it is healed. May be NULL. */
    int64_t (*harmed_until)(const struct sim *sim);
    /* A grant of ticket NUMBER is told although it was taken out so long ago that whoever looked since must
     * have seen that. May be NULL: never. */
    bool (*gone_long)(const struct sim_client *c, uint64_t number);

    /* For an engine that is opened by its URL; NULL for mem. */
    const char *(*url)(const struct sim_client *c);
    /* For one on the same machine as its clients, without sim->net: C was opened; it dies, and is closed
     * next; when something comes to it (RT_NEVER: nothing); that is told. */
    void (*opened)(struct sim_client *c);
    bool (*refuses)(const struct sim *sim); /* clients cannot always be opened now; may be NULL */
    void (*dies)(struct sim_client *c);
    int64_t (*coming)(const struct sim_client *c);
    void (*deliver)(struct sim_client *c);
    /* What goes on beside the clients: a model server behind sim->net, or the machine. NULL for mem. */
    void (*run)(struct sim *sim);           /* what has arrived, or is due, by now */
    int64_t (*next)(const struct sim *sim); /* when that will be */
    void (*outage)(struct sim *sim);        /* draws one and lets it happen */
    void (*heal)(struct sim *sim);          /* all is well from now on */
    /* No loss can make the next fence smaller than one that was given before. May be NULL: that is so. */
    bool (*fences_grow)(const struct sim *sim);
};

extern const struct sim_kind sim_mem, sim_late, sim_redis, sim_cluster, sim_redlock, sim_token,
    sim_also;
extern const struct sim_kind sim_postgres, sim_mysql, sim_txn;
extern const struct sim_kind sim_three, sim_three_commit, sim_three_strict;
extern const struct sim_kind sim_relay;
extern const struct sim_kind sim_etcd, sim_zookeeper, sim_file; /* if those engines were built */

/* By its name, or NULL. */
const struct sim_kind *sim_kind_find(const char *name);

bool sim_world_find(const struct sim *sim, const char *name, uint64_t number,
                    struct sim_place *out);

#endif
