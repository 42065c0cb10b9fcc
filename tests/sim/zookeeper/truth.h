/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a model ensemble, in the layout of the engine (docs/engines/zookeeper.md), as all servers have agreed on it. */
#ifndef SIM_ZOOKEEPER_TRUTH_H
#define SIM_ZOOKEEPER_TRUTH_H

#include "engine/zookeeper/line.h"
#include "sim/world.h"
#include "sim/zookeeper/server.h"

#define ZS_ROOT "/r"

/* The line that PATH, a ticket's, belongs to: its name goes to NAME. Returns the node; NULL: PATH is
 * not a ticket's. */
const char *zs_truth_name(const char *path, char *name, size_t room);
size_t zs_truth_look(const struct zs_server *s, const struct rt_zk_dialect *d, const char *name,
                     struct sim_place *out, size_t most);
/* Until when SESSION certainly lives, whatever befalls any one server but the leader: by what the
 * leader has heard. */
bool zs_truth_session(const struct zs_server *s, uint64_t session, int64_t *ends);
/* Whether something that keeps its line ended after SINCE and by NOW; both in ms. */
bool zs_truth_over(const struct zs_server *s, const struct rt_zk_dialect *d, int64_t since,
                   int64_t now);
/* Ends all sessions, and what ends by time within MS. */
void zs_truth_expire(struct zs_server *s, const struct rt_zk_dialect *d, int64_t ms);
size_t zs_truth_left(const struct zs_server *s); /* nodes except containers, and sessions */

#endif
