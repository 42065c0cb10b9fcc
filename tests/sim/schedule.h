/* SPDX-License-Identifier: Apache-2.0 */
/* What one seed decides: chance itself, and the plan of a schedule drawn from it.
 *
 * Swarm testing: every schedule draws its own rates, most of them often zero, so that some run for long
 * without trouble and others drown in one kind of it. */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include "engine/fault/fault.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_PROCESSES_MAX 6
#define SIM_CLIENTS_MAX 8
#define SIM_NAMES_MAX 200
#define SIM_JOBS_MAX 200 /* asks of one client at once */
#define SIM_NAMES_FEW 4  /* ... and without --crowd */
#define SIM_JOBS_FEW 6
#define SIM_SET_MAX 3

struct sim_random {
    uint64_t state;
};

uint64_t sim_next(struct sim_random *r);
uint32_t sim_below(struct sim_random *r, uint32_t n); /* 0 to n - 1 */
bool sim_chance(struct sim_random *r, uint32_t per_mille);
int64_t sim_spread_ns(struct sim_random *r, uint32_t mean_us); /* 0 to twice the mean */

enum sim_act { /* what a client's threads do */
               SIM_ACT_ASK,
               SIM_ACT_ASK_ALL,
               SIM_ACT_RELEASE,
               SIM_ACT_CANCEL,
               SIM_ACT_DOWNGRADE,
               SIM_ACT_KINDS,
};

enum sim_trouble { /* what befalls processes */
                   SIM_TROUBLE_PAUSE,
                   SIM_TROUBLE_CRASH,
                   SIM_TROUBLE_CLOSE,
                   SIM_TROUBLE_CUT,
                   SIM_TROUBLE_RESET,
                   SIM_TROUBLE_KILL_SESSION, /* the engine forgets it before its time */
                   SIM_TROUBLE_BREAK,
                   SIM_TROUBLE_KINDS,
};

enum sim_outage_kind { /* what befalls a Redis server */
                       SIM_OUTAGE_RESTART,
                       SIM_OUTAGE_EMPTY,  /* ... that has lost everything */
                       SIM_OUTAGE_BEHIND, /* ... or all after some moment, as a replica has */
                       SIM_OUTAGE_FORWARD,
                       SIM_OUTAGE_BACK,
                       SIM_OUTAGE_SCRIPTS,
                       SIM_OUTAGE_LISTENERS,
                       SIM_OUTAGE_REFUSES,
                       SIM_OUTAGE_KINDS,
};

enum sim_cluster_outage {                   /* what befalls a Redis cluster */
                          SIM_CLUSTER_MUTE, /* a node: what it says is swallowed */
                          SIM_CLUSTER_SLOW, /* a node: what it says is late */
                          SIM_CLUSTER_RESTART,
                          SIM_CLUSTER_SCRIPTS,
                          SIM_CLUSTER_LISTENERS,
                          SIM_CLUSTER_REFUSES,
                          SIM_CLUSTER_OUTAGE_KINDS,
};

enum sim_redlock_outage { /* what befalls one of Redlock's nodes */
                          SIM_REDLOCK_RESTART,
                          SIM_REDLOCK_EMPTY, /* ... that has lost everything */
                          SIM_REDLOCK_MUTE,
                          SIM_REDLOCK_SLOW,
                          SIM_REDLOCK_FORWARD,
                          SIM_REDLOCK_BACK,
                          SIM_REDLOCK_SCRIPTS,
                          SIM_REDLOCK_REFUSES,
                          SIM_REDLOCK_OUTAGE_KINDS,
};

enum sim_etcd_outage { /* what befalls an etcd cluster */
                       SIM_ETCD_LEADER,
                       SIM_ETCD_DOWN,   /* a member */
                       SIM_ETCD_BEHIND, /* a member */
                       SIM_ETCD_COMPACTS,
                       SIM_ETCD_WATCHES, /* all streams end */
                       SIM_ETCD_REFUSES,
                       SIM_ETCD_OUTAGE_KINDS,
};

enum sim_sql_outage { /* what befalls an SQL server */
                      SIM_SQL_RESTART,
                      SIM_SQL_BEHIND, /* its replica, which is then promoted */
                      SIM_SQL_SWITCH, /* the replica is promoted, and knows all */
                      SIM_SQL_FORWARD,
                      SIM_SQL_BACK,
                      SIM_SQL_LINKS, /* connections are killed one by one */
                      SIM_SQL_REFUSES,
                      SIM_SQL_OUTAGE_KINDS,
};

enum sim_zookeeper_outage {                       /* what befalls an ensemble of ZooKeeper */
                            SIM_ZOOKEEPER_LEADER, /* gone, or stopped until there is another */
                            SIM_ZOOKEEPER_DOWN,
                            SIM_ZOOKEEPER_STOPPED,
                            SIM_ZOOKEEPER_BEHIND, /* what goes between a server and its leader is late */
                            SIM_ZOOKEEPER_REAPS, /* containers that are empty go */
                            SIM_ZOOKEEPER_OUTAGE_KINDS,
};

enum sim_file_outage { /* what befalls the folder and the machine of file: */
                       SIM_FILE_FORWARD,
                       SIM_FILE_BACK,
                       SIM_FILE_TAKEN,   /* another program has the database */
                       SIM_FILE_TIDIED,  /* somebody deletes what is in s/ ... */
                       SIM_FILE_DELETED, /* ... or the database */
                       SIM_FILE_OUTAGE_KINDS,
};

struct sim_wire {     /* all zero: a perfect network to Redis or etcd */
    uint32_t late;    /* per mille of what is sent ... */
    uint32_t late_us; /* ... so long on its way, on average */
    uint32_t request_lost, request_doubled, reply_lost, reply_doubled; /* per mille */
    uint32_t push_lost, push_doubled;
    uint32_t reset;         /* per mille of the requests: the connection breaks */
    uint32_t slow, slow_us; /* as late, for calls and notifications inside etcd: they overtake */
};

struct sim_plan {
    uint32_t processes, clients; /* clients are dealt out to the processes in turn */
    uint32_t names, owners, jobs;
    uint32_t of[SIM_NAMES_FEW]; /* see sim_plan_of */
    uint32_t ttl_ms, call_ms, pass_limit, pass_ms;
    uint32_t acts;               /* how many in the safety phase */
    uint32_t pace_us;            /* mean time between them */
    uint32_t act[SIM_ACT_KINDS]; /* weights */
    uint32_t trouble[SIM_TROUBLE_KINDS];
    uint32_t trouble_ms; /* mean time between troubles; 0: none */
    uint32_t shared, try, limit, hold, at_least, linger, owned; /* per mille of the asks */
    uint32_t time_ms; /* mean of limits, hold_ms and lingering */
    uint32_t stray;   /* per mille of the requests overtaken by what was sent after them */
    bool forever;     /* sessions live as long as their clients, as on file: no beats, no ttl */
    uint32_t starve;  /* per mille of the allocations that fail */
    struct rt_fault_config network;
    /* For worlds of Redis. */
    struct sim_wire wire;
    uint32_t outage[SIM_OUTAGE_KINDS], outage_ms; /* as trouble */
    int32_t clock_ppm;
    bool replicated;   /* ?replicas=1: a grant is told when the replica has it */
    uint32_t apart_ms; /* how far apart the clocks of Redlock's nodes are, at most */
    /* For worlds of etcd: with wire, outages (of its own kinds) and clock_ppm like those of Redis. */
    uint32_t stale;          /* per mille of the reads of a member that is behind */
    uint32_t expiry_late_ms; /* the end of a lease is noticed up to this much too late */
    bool lies;               /* keep-alives of revoked leases are answered as if all were well */
    /* For worlds of SQL: with wire, outages (of its own kinds) and clock_ppm like those of Redis. */
    uint32_t deadlocks; /* per mille of the flights */
    /* For worlds of ZooKeeper: with wire, outages (of its own kinds) and clock_ppm like those of Redis. */
    uint32_t servers, tick_ms;
    uint32_t dialect; /* 0: the first */
    bool tick_told;   /* ?tick_ms= */
    bool wraps;       /* the sequences of its lines are near their end */
    /* For worlds of file: with outages of its own kinds; of wire, only the rings that are late and lost. */
    uint32_t dies; /* per mille of the commits and of the rings: the process dies just before */
    uint32_t full; /* per mille of the rings: the receiver has no room for them */
    uint32_t preempted; /* per mille of the statements: another process runs first */
};

void sim_plan_draw(struct sim_plan *plan, struct sim_random *r);
/* After that: 200 locks of two clients, or a line of a hundred. */
void sim_plan_crowd(struct sim_plan *plan, struct sim_random *r);
uint32_t sim_plan_of(const struct sim_plan *plan,
                     uint32_t name); /* 0: a lock; else permits of so many */
void sim_plan_draw_redis(struct sim_plan *plan, struct sim_random *r);   /* after that */
void sim_plan_draw_cluster(struct sim_plan *plan, struct sim_random *r); /* after that, a cluster */
void sim_plan_draw_redlock(struct sim_plan *plan, struct sim_random *r); /* after that, of nodes */
void sim_plan_draw_etcd(struct sim_plan *plan, struct sim_random *r);
void sim_plan_draw_sql(struct sim_plan *plan, struct sim_random *r);
void sim_plan_draw_zookeeper(struct sim_plan *plan, struct sim_random *r);
void sim_plan_draw_file(struct sim_plan *plan, struct sim_random *r);

#endif
