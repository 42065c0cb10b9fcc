/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for what does not return at once: the application's functions for its own services (a carrier, service.h). A
 * function that hangs blocks one of them; the others go on. */
#ifndef RT_POOL_H
#define RT_POOL_H

#include "txn/manager/service.h"

#define RT_POOL_THREADS 8

struct rt_pool;

/* RUN is called on a thread of the pool for each call: it sets the reply. NULL: no memory. Starts no thread yet. */
struct rt_pool *rt_pool_open(void (*run)(struct rt_service_call *c));
/* Takes C, and returns at once. ROTA_NOMEM: it was not taken, there is no thread and none can be made. */
int rt_pool_ask(struct rt_pool *p, struct rt_service_call *c);
/* Calls that have not begun are answered LOST; it waits for those that run. NULL is legal. */
void rt_pool_close(struct rt_pool *p);

#endif
