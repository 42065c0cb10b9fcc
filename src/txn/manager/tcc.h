/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a manager's transactions: who serves them here, and what they are asked. The caller holds the mutex
 * unless stated otherwise; rt_tcc_* run on the keeper's thread, except rt_tcc_close.
 *
 *   rota_tcc_call ─▶ added, JOINING ─▶ REGISTER ─▶ rt_tcc_go: its try leaves ─▶ carrier ─▶ rt_tcc_back ─▶ told
 *   the core orders ─▶ rt_tcc_ask: confirm, cancel ─▶ carrier ─▶ rt_tcc_back ─▶ rt_txn_answered
 */
#ifndef RT_TCC_H
#define RT_TCC_H

#include "txn/manager/inside.h"

#define RT_MODE_ORDERED 0x8000u /* in rt_journal_branch: services one after the other */
#define RT_SERVICE_BYTES 32768  /* of a payload at most */

/* MODE is a service's. */
bool rt_tcc_is(unsigned mode);
/* Copies what the journal has of B to B: 0 or NOMEM. */
int rt_tcc_keep(struct rota_branch *b, const void *bytes, size_t size);

/* Checks what every service branch must satisfy, without the mutex: 0, or ROTA_*, with its message set. */
int rt_tcc_check(struct rota_txn *t, const char *name, const void *payload, size_t size);
/* Adds it, for the keeper to register. CALL is answered once it is registered (BY_CALLER), or once its try is answered.
 * Else ROTA_*: rt_tcc_why_not has a line. */
int rt_tcc_add(struct rota_txn *t, enum rt_branch_mode mode, const char *name, const void *bytes,
               size_t size, struct rt_caller *call, bool by_caller, struct rota_branch **out);
const char *rt_tcc_why_not(int rv);

/* tcc_http.c: sends C over HTTP; like a carrier's ask. */
int rt_tcc_http_send(struct rota_txns *m, struct rt_service_call *c);
/* What the keeper polls for reading (-1: nothing), until the time that the turn returned; the mutex is released
 * meanwhile. */
int rt_tcc_http_fd(const struct rota_txns *m);
int64_t rt_tcc_http_turn(struct rota_txns *m, bool ready);
void rt_tcc_http_close(struct rota_txns *m); /* without the mutex, by the leaving keeper */

/* The core wants OP (COMMIT: confirm, ROLLBACK: cancel) from B, with SEQ. */
void rt_tcc_ask(struct rota_branch *b, enum rt_branch_op op, uint32_t seq);
/* Passes answered calls on to whoever asked. */
void rt_tcc_take(struct rota_txns *m);
/* Tries the branches of T that are registered; callers of those that never will be are told. */
void rt_tcc_go(struct rota_txn *t);
/* When rt_tcc_go must be called next. */
int64_t rt_tcc_next(const struct rota_txn *t);
/* The keeper leaves: whoever waits for a try is told. */
void rt_tcc_leave(struct rota_txn *t);
/* Without the mutex, when the keeper no longer runs: nothing is called after this. */
void rt_tcc_close(struct rota_txns *m);

#endif
