/* SPDX-License-Identifier: Apache-2.0 */
/* A ledger of what clients of the etcd engine ask of a server, and are told: all of it, in its order, as text.
 *
 * The server is the model of the simulator (sim/etcd/store.h), without its faults; each client has a connection of its own.
 * A line that begins with ">" is a request, with what became of it behind "=>"; others are what a client was told. */
#ifndef ETCD_LEDGER_H
#define ETCD_LEDGER_H

#include "sim/etcd/store.h"
#include "town.h"

#define PEOPLE 3 /* a, b, c */

extern const struct rt_engine rt_engine_etcd;
extern struct es_store ledger_store;

int ledger_begin(void **state); /* of a test: an empty server, nobody */
int ledger_end(void **state);

/* WHO ('a' to 'c') connects; nothing is written down. */
void person_open(char who);
struct town *person(char who);

/* What happened since the last look is exactly TEXT. */
void ledger_expect(const char *text, const char *file, int line);
#define expect(text) ledger_expect(text, __FILE__, __LINE__)
void ledger_forget(void);
void ledger_run(void); /* until nobody has anything to say, whatever time that takes */
const char *ledger_text(void);
extern bool ledger_hasty;    /* ops are run to their end only: no time goes by */
extern bool ledger_refuses;  /* everything is, for want of a right */
extern bool ledger_swallows; /* the request at which an op is canceled never arrives */
extern int ledger_cancel_at; /* the so many-th request of it, an op is canceled; 0: it is not */
void ledger_give_up(char who,
                    struct rt_op *op); /* ... the next one, for who submits it otherwise */

/* Ops; each is run to where it ends, or waits. WHO's session is its own, if it has opened one. */
struct rt_op *beat(char who, bool open);
struct rt_op *join(char who, struct rt_join join); /* of its session, unless durable */
struct rt_op *join_all(char who, const struct rt_join *joins, size_t n); /* ... */
struct rt_op *leave(char who, const char *name, uint64_t number, uint64_t nonce);
struct rt_op *leave_untold(char who, const char *name, uint64_t number);
struct rt_op *change(char who, const char *name, uint64_t number, uint32_t what, const char *value);
struct rt_op *break_it(char who, const char *name, uint64_t number, uint32_t mode);
struct rt_op *observe(char who, const char *name, void *cookie, bool stop);
void end_session(char who);

/* What others do: a key is put (LEASE 0: none) or deleted, a lease ends. */
void others_put(const char *key, const char *value, int64_t lease);
void others_delete(const char *key);
void lease_ends(int64_t lease);

#endif
