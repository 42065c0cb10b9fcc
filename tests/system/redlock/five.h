/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock's five nodes as the fault programme needs them. */
#ifndef RT_FIVE_H
#define RT_FIVE_H

#include "lib/redis_server.h"

/* Waits until all that run have been up for SECONDS, as they report it. */
void five_up_for(struct rt_redis_redlock *r, int seconds);

/* A stage_left_fn over struct rt_redis_redlock: keys beyond the counters, on all that run. */
size_t five_keys_left(void *redlock, char *text, size_t size);

/* How many nodes have the key NAME. */
int five_have(struct rt_redis_redlock *r, const char *name);

/* One client's own proxies in front of all nodes. */
struct five_door {
    struct rt_proxy *proxy[RT_REDLOCK_FIVE];
    char url[300];
};
void five_door_open(struct five_door *d, struct rt_redis_redlock *r, const char *params);
void five_door_close(struct five_door *d);
/* Only the nodes in MASK can be reached through it. */
void five_door_only(struct five_door *d, unsigned mask);

#endif
