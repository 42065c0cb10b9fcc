/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds over Redlock and five model Redis servers: what their files tell each other. */
#ifndef SIM_REDLOCK_H
#define SIM_REDLOCK_H

#include "engine/redlock/redlock.h"
#include "sim/redis/server.h"
#include "sim/sim.h"
#include "sim/world.h"

#define SR_NODES 5
#define SR_MAJORITY 3

/* What a node had when it was restarted without its data: until it counts again, nobody can use it to take what it had,
 * so what stood there is as good as held, to its end. It may be restarted again before that: then so is what it had
 * each time. */
struct sr_ghost {
    struct rs_store store; /* keys "TOKEN NAME", without values */
    int64_t until;         /* virtual; 0: there is none */
};

struct sr_world {
    struct rs_server *nodes; /* SR_NODES */
    struct sr_ghost ghosts[SR_NODES];
    int64_t odd_until; /* a clock has jumped forward less than a ttl ago */
};
extern struct sr_world sr_world;

/* outage.c: as in struct sim_kind. */
void sr_outage(struct sim *sim);
void sr_heal(struct sim *sim);
/* Locks that ended early where clocks jumped may be put there again, after later ones: such times say
 * nothing about fences. */
void sr_forget_fences(struct sim *sim);

/* truth.c */
/* NODE is about to lose all that it has. */
void sr_haunt(const struct sim *sim, uint32_t node);
size_t sr_look(const struct sim *sim, const char *name, struct sim_place *out, size_t most);
bool sr_session(const struct sim *sim, uint64_t session, const char *name, int64_t *ends);
size_t sr_left(void);
/* Keys of a client that lives but no longer knows them go soon, if nothing bad happens (I6). */
void sr_check_orphans(const struct sim *sim);
void sr_forget_orphans(void);
/* How many nodes have counted up to NUMBER. */
uint32_t sr_counted(uint64_t number);
void sr_dump(const struct sim *sim);

#endif
