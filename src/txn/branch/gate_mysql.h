/* SPDX-License-Identifier: Apache-2.0 */
/* What a keeper does at MariaDB: the takeover, GATE, ASK, LIST, FORGET. Part of xa_mysql.c: nothing else calls it. */
#ifndef RT_GATE_MYSQL_H
#define RT_GATE_MYSQL_H

#include "txn/branch/party.h"

#define RT_GATE_MYSQL 100 /* party->step from here on, below RT_PARTY_IDENTITY */

/* The first step of a keeper's op; COMMIT, ROLLBACK: of a branch that another connection has prepared. */
bool rt_gate_mysql_first(struct rt_party *p);
/* The steps that follow. */
bool rt_gate_mysql_step(struct rt_party *p);
/* A keeper's question failed. */
bool rt_gate_mysql_refuse(struct rt_party *p);

#endif
