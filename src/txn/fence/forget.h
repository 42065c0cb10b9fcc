/* SPDX-License-Identifier: Apache-2.0 */
/* The op FORGET with RT_PARTY_FENCES or RT_PARTY_PROMISES: the same for all participants. */
#ifndef RT_FORGET_H
#define RT_FORGET_H

#include "txn/branch/party.h"

/* A step, like a kind's own. */
bool rt_forget_step(struct rt_party *p);

#endif
