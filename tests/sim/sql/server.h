/* SPDX-License-Identifier: Apache-2.0 */
/* A model SQL server in virtual time, behind a network that is slow and cuts connections: a primary and a replica that follows it.
 *
 * A flight is a transaction, done at one moment, some time after it came; its statements began earlier (row locks held
 * them up), and their clocks say so. What has come runs even if its connection is gone meanwhile, as on a real server:
 * a client that has asked again on another connection may come first. */
#ifndef SIM_SQL_SERVER_H
#define SIM_SQL_SERVER_H

#include "sim/net.h"
#include "sim/sql/store.h"
#include "sim/sql/wire.h"

#define SS_NODES 2 /* 10.0.0.1 and 10.0.0.2; 10.0.0.9 is whichever is the primary */
#define SS_CHANNELS_MAX 16

struct ss_task;

struct ss_server {
    struct sim_net net; /* first */
    struct ss_store store, earlier;
    bool has_earlier;
    uint32_t primary, timeline; /* timeline: counts promotions */
    int64_t clock_us, clock_at; /* us since 1970 at clock_at, ns */
    int32_t clock_ppm;
    int64_t clock_most; /* the latest it has said */
    int64_t lost_us;    /* ... when grants were lost with a primary; 0: none were */
    struct ss_task *tasks;
    uint32_t again;          /* per mille of the flights: deadlock, or nobody knows why */
    enum rt_sql_end refusal; /* all others, until ... */
    int64_t refuses_until;
    int64_t backends; /* counts connections */
    uint64_t version; /* another after every flight, and for every server */
    uint32_t woken;   /* how many waiters were told, or their bells rung, by the current flight */
    void *user;
    /* Whether the ticket NUMBER stood in that line before the current flight. May be NULL. */
    bool (*stood)(struct ss_server *s, const char *name, int64_t number);
    /* A flight has run, or a part of it that others may follow, or it was refused. May be NULL. */
    void (*after)(struct ss_server *s, const struct rt_sql_step *steps, size_t count,
                  enum rt_sql_end end);
};

void ss_server_open(struct ss_server *s, uint64_t seed, int32_t clock_ppm);
void ss_server_close(struct ss_server *s);
/* Does what is due by NOW; when the next thing will be. */
void ss_server_run(struct ss_server *s, int64_t now);
int64_t ss_server_next(const struct ss_server *s);

int64_t ss_server_clock(const struct ss_server *s);
int64_t ss_server_when(const struct ss_server *s,
                       int64_t us); /* in virtual time, if nobody sets it */
void ss_server_jump(struct ss_server *s, int64_t us);

/* ---- What befalls it ---------------------------------------------------------------------------------------------- */

void ss_server_restart(struct ss_server *s, int64_t until); /* what was not committed is lost */
void ss_server_keep(struct ss_server *s); /* the replica falls behind from now on */
/* From now on the replica is the primary: as it was kept, if it was. CUT: the last primary is dead; else it lives on
 * and takes no writes. */
void ss_server_promote(struct ss_server *s, bool cut, int64_t until);
void ss_server_kill_links(struct ss_server *s, uint32_t per_mille);
void ss_server_heal(struct ss_server *s);

/* Does STEPS by hand, at this moment. */
void ss_server_do(struct ss_server *s, const struct rt_sql_step *steps, size_t count);
/* Sweeps as engines do, until nothing is left that is dead. */
void ss_server_sweep(struct ss_server *s);

#endif
