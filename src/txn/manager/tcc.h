/* SPDX-License-Identifier: Apache-2.0 */
/* Services of a manager's transactions: who serves them here, and what is asked of them. The caller has the mutex, but
 * where it says otherwise; rt_tcc_* run on the keeper's thread, but rt_tcc_open and rt_tcc_close.
 *
 *   rota_tcc_call ─▶ added, JOINING ─▶ REGISTER ─▶ rt_tcc_go: its try leaves ─▶ carrier ─▶ rt_tcc_back ─▶ told
 *   the core orders ─▶ rt_tcc_ask: confirm, cancel ─▶ carrier ─▶ rt_tcc_back ─▶ rt_txn_answered
 */
#ifndef RT_TCC_H
#define RT_TCC_H

#include "txn/manager/inside.h"

#define RT_MODE_ORDERED 0x8000u /* of rt_journal_branch: services one after the other */
#define RT_SERVICE_BYTES 32768  /* of a payload, at most */

/* MODE is a service's. */
bool rt_tcc_is(unsigned mode);
/* What the journal has of B is copied to it: 0 or NOMEM. */
int rt_tcc_keep(struct rota_branch *b, const void *bytes, size_t size);

/* What is asked of every branch that is a service, without the mutex: 0, or a ROTA_* that is told. */
int rt_tcc_check(struct rota_txn *t, const char *name, const void *payload, size_t size);
/* Added, and to be registered by the keeper. CALL is answered when that is so (BY_CALLER), or when its try was. Else
 * ROTA_*: rt_tcc_why_not has a line. */
int rt_tcc_add(struct rota_txn *t, enum rt_branch_mode mode, const char *name, const void *bytes,
               size_t size, struct rt_caller *call, bool by_caller, struct rota_branch **out);
const char *rt_tcc_why_not(int rv);

/* tcc_http.c: C goes over HTTP; as a carrier's ask. */
int rt_tcc_http_send(struct rota_txns *m, struct rt_service_call *c);
void rt_tcc_http_close(struct rota_txns *m); /* without the mutex */

/* The core wants OP (COMMIT: confirm, ROLLBACK: cancel) of B, by SEQ. */
void rt_tcc_ask(struct rota_branch *b, enum rt_branch_op op, uint32_t seq);
/* Calls that were answered are told to who asked. */
void rt_tcc_take(struct rota_txns *m);
/* Branches of T that are registered are tried; those that never will be are told. */
void rt_tcc_go(struct rota_txn *t);
/* When rt_tcc_go has to be called the next time. */
int64_t rt_tcc_next(const struct rota_txn *t);
/* The keeper goes: whoever waits for a try is told. */
void rt_tcc_leave(struct rota_txn *t);
/* Without the mutex, when the keeper runs no more: nothing is called after this. */
void rt_tcc_close(struct rota_txns *m);

#endif
