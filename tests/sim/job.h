/* SPDX-License-Identifier: Apache-2.0 */
/* A job: one ask of a simulated thread, from asking to release, as the thread sees it. */
#ifndef SIM_JOB_H
#define SIM_JOB_H

#include "client/dispatch.h"
#include "sim/schedule.h"

struct sim;
struct sim_client;

enum sim_job_state { SIM_ASKED, SIM_HELD, SIM_LOST, SIM_RELEASING };

struct sim_set {
    struct rt_set *set; /* the dispatcher's: until it is answered */
    bool try;
    size_t n;
    struct sim_job *jobs[SIM_SET_MAX];
};

struct sim_job {
    struct rt_ask ask;
    struct rt_terms terms;
    struct rt_request change; /* a downgrade under way */
    struct sim_job *next;
    struct sim_client *client;
    struct sim_set *set; /* until that is answered */
    uint32_t id;         /* for the trace */
    uint32_t name;
    uint32_t take;
    enum sim_job_state state;
    int64_t asked_at, released_at;
    bool solo;        /* has a ticket of its own */
    bool canceled;    /* by its thread */
    bool away;        /* was told that it has no place, and waits on */
    bool downgrading; /* may be shared on the engine by now */
    bool over;        /* to be freed when its downgrade comes back */
};

/* Something that a thread of C may do; false: there is nothing to do it with. */
bool sim_job_act(struct sim_client *c, enum sim_act act);
/* Releases something that is held or lost; false: nothing is. */
bool sim_job_release_any(struct sim_client *c);
/* Gives up a set that holds by re-entry what others may wait for; false: there is none. */
bool sim_job_untie(struct sim_client *c);

/* For the dispatcher. */
void sim_job_news(struct rt_dispatch *d, struct rt_ask *ask, unsigned news);
void sim_job_gone(struct rt_dispatch *d, struct rt_ask *ask);
void sim_job_free_all(struct sim_client *c); /* after a crash */

#endif
