/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated client: dispatcher, loop and connection, in a process that may stop, die or go. */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include "client/dispatch.h"
#include "sim/net.h"
#include "sim/schedule.h"
#include "sim/tap.h"
#include "sim/watcher.h"

struct sim;
struct sim_job;

#define SIM_GONE_MAX 64
#define SIM_TURNS_MAX 16
#define SIM_LEAVES_MAX 32

struct sim_tenure {    /* of the exclusive ticket that all plain asks share (I7) */
    uint64_t fence;    /* last told to a holder */
    uint64_t retired;  /* ended by hold_ms: must not be seen again */
    uint64_t wanted;   /* the ticket that somebody waits behind ... */
    int64_t wanted_at; /* ... since */
    bool told;         /* WANTED came after we last asked whether somebody does */
    int64_t passed_at;
    uint32_t passes;
    /* As the engine has it: somebody has waited since WAITS_SINCE, and we may have asked since ASKS_SINCE. */
    int64_t granted_at, waits_since, asks_since;
    uint32_t late_passes; /* after we must have been told */
    uint64_t lingers;     /* the ticket that lingers ... */
    int64_t lingers_since;
    bool passed_to_reader;
};

struct sim_turn { /* a ticket that holds, and its client was not told yet (I8) */
    const struct rt_ticket *ticket;
    uint64_t number;
    int64_t since;
};

struct sim_client {
    struct rt_dispatch d;
    struct rt_loop loop;
    struct rt_conn *conn;  /* as the dispatcher sees it */
    struct rt_conn *fault; /* the network in between */
    struct rt_conn *mem;
    struct sim_port port; /* over a model instead of fault and mem */
    struct sim_tap *top, *bottom;
    struct sim *sim;
    uint32_t index, process;
    int64_t paused_until;  /* 0: it runs ... */
    int64_t resumed_at;    /* ... since */
    int64_t cut_until;     /* 0: the network is whole */
    int64_t close_by;      /* 0: it is not being closed */
    int64_t excused_until; /* excuse.h */
    int64_t excused_at;    /* ... for lost data; 0: for more than that */
    int64_t beat_at;       /* the last BEAT was sent */
    bool open, dead;
    bool dying; /* in the middle of something: when that is done, its process has died before it */
    bool parting; /* quiet, but its engine still has to end the session */
    struct sim_job *jobs;
    uint32_t job_count;
    struct rt_line *lines[SIM_NAMES_MAX]; /* its dispatcher's; NULL: not there */
    struct sim_tenure tenures[SIM_NAMES_MAX];
    struct {
        uint64_t number;
        uint32_t name;    /* those of a set may share the number */
    } gone[SIM_GONE_MAX]; /* tickets whose release was told as done (I4) */
    uint32_t gone_count;
    struct sim_turn turns[SIM_TURNS_MAX];
    uint32_t turn_count;
    struct {
        const struct rt_op *op;
        int64_t sent_at;
    } leaves[SIM_LEAVES_MAX]; /* under way (I4) */
    struct sim_watcher watchers[SIM_NAMES_MAX];
    char label[16];
};

void sim_client_open(struct sim *sim, struct sim_client *c);
void sim_client_crash(struct sim_client *c);
void sim_client_close(struct sim_client *c);  /* begins; sim_client_run goes on with it */
void sim_client_finish(struct sim_client *c); /* ends it now, confirmed or not */

/* The network: RT_FAULT_UP, RT_FAULT_DOWN, 0 heals; and a reset of all its connections. */
void sim_client_cut(struct sim_client *c, uint32_t ways);
void sim_client_reset(struct sim_client *c);

bool sim_client_runs(const struct sim_client *c);
int64_t sim_client_next(const struct sim_client *c); /* when it has to run; RT_NEVER */
bool sim_client_due(const struct sim_client *c);

/* Brings its clock to the present: before anything is asked of it. */
void sim_client_wake(struct sim_client *c);
/* Sends, tells and frees; even with little memory. */
void sim_client_drain(struct sim_client *c);
/* Timers that are due, events that came, then everything that follows. */
void sim_client_run(struct sim_client *c);

#endif
