/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the store of a model etcd, in the layout of the engine (docs/engines/etcd.md). */
#ifndef SIM_ETCD_TRUTH_H
#define SIM_ETCD_TRUTH_H

#include "sim/etcd/server.h"
#include "sim/world.h"

size_t es_truth_look(const struct es_server *s, const char *name, struct sim_place *out,
                     size_t most);
bool es_truth_session(const struct es_server *s, uint64_t session, int64_t *ends);
/* When ticket NUMBER of NAME ends, if it is on a lease of its own; RT_NEVER: it is on none; 0: it was put again and is
 * on its session's, and its client, which may not have heard that, may count on one that ends. */
int64_t es_truth_own_end(const struct es_server *s, const char *name, uint64_t number);
/* Leases that end within MS from now end now, with what is on them. */
void es_truth_expire(struct es_server *s, int64_t ms);
size_t es_truth_left(const struct es_server *s); /* keys and leases */

#endif
