/* SPDX-License-Identifier: Apache-2.0 */
/* The op FORGET with RT_PARTY_FENCES or RT_PARTY_PROMISES, the same at all participants. */
#ifndef RT_FORGET_H
#define RT_FORGET_H

#include "txn/branch/party.h"

/* A step, as a kind's. */
bool rt_forget_step(struct rt_party *p);

#endif
