/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of three-phase commit to an address, by the HTTP client of services: a POST, and how it stands there. */
#ifndef RT_THREE_CALLS_H
#define RT_THREE_CALLS_H

#include "txn/cli/three/words.h"

struct rt_three_calls;

int rt_three_calls_open(struct rt_three_calls **out); /* 0, or ROTA_NOMEM */
void rt_three_calls_close(struct rt_three_calls *c);  /* every answer has been told then */

/* Sends TEXT (copied) to URL. Told once, from another thread, without a lock: STAND; NULL: no answer, or none that is
 * one. False: no memory; nothing is told. */
bool rt_three_calls_ask(struct rt_three_calls *c, const char *url, const struct rt_name *name,
                        const char *text,
                        void (*told)(void *arg, uint32_t whom, uint32_t seq,
                                     const struct rt_stand *stand),
                        void *arg, uint32_t whom, uint32_t seq);

#endif
