/* SPDX-License-Identifier: Apache-2.0 */
/* A transcript of what clients of the etcd engine ask of a server, and are told: all of it, in order, as text.
 *
 * The server is the model of the simulator (sim/etcd/store.h), without its faults; each client has a connection of its own.
 * A line that begins with ">" is a request, with its result after "=>"; others are what a client was told. */
#ifndef ETCD_TRANSCRIPT_H
#define ETCD_TRANSCRIPT_H

#include "sim/etcd/store.h"
#include "town.h"

#define PEOPLE 3 /* a, b, c */

extern const struct rt_engine rt_engine_etcd;
extern struct es_store transcript_store;

int transcript_begin(void **state); /* of a test: an empty server, nobody */
int transcript_end(void **state);

/* WHO ('a' to 'c') connects; nothing is written down. */
void person_open(char who);
struct town *person(char who);

void transcript_forget(void);
void transcript_run(void);         /* until nobody has anything to say, whatever time that takes */
const char *transcript_text(void); /* since it was forgotten */
extern bool transcript_hasty;      /* ops are run to their end only: no time goes by */
extern bool transcript_refuses;    /* everything, for lack of a right */
extern bool transcript_swallows;   /* the request at which an op is canceled never arrives */
extern int transcript_cancel_at; /* at the request of that number an op is canceled; 0: it is not */
void transcript_give_up(char who,
                        struct rt_op *op); /* ... the next one, if it is submitted otherwise */

/* Ops; each is run until it ends or waits. WHO's session is its own, if it has opened one. */
struct rt_op *beat(char who, bool open);
struct rt_op *beat_with(char who, uint64_t ticket); /* believing in that one */
struct rt_op *join(char who, struct rt_join join);  /* of its session, unless durable */
struct rt_op *join_all(char who, const struct rt_join *joins, size_t n); /* ... */
struct rt_op *leave(char who, const char *name, uint64_t number, uint64_t nonce);
struct rt_op *leave_untold(char who, const char *name, uint64_t number);
struct rt_op *leave_durable(char who, const char *name, uint64_t session, uint64_t nonce);
struct rt_op *change(char who, const char *name, uint64_t number, uint32_t what, const char *value);
struct rt_op *break_it(char who, const char *name, uint64_t number, uint32_t mode);
struct rt_op *observe(char who, const char *name, void *cookie, bool stop);
void end_session(char who);

/* What others do: a key is put (LEASE 0: none) or deleted, a lease ends. */
void others_put(const char *key, const char *value, int64_t lease);
void others_delete(const char *key);
void lease_ends(int64_t lease);

#endif
