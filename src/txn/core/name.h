/* SPDX-License-Identifier: Apache-2.0 */
/* The name by which a participant keeps a branch. An orphan itself tells whose it is and when it may be touched, so no
 * begin record is needed. Its text is ID-BRANCH-DEADLINE in hexadecimal digits; xids and gids have room for it. */
#ifndef RT_TXN_NAME_H
#define RT_TXN_NAME_H

#include "txn/id.h"

#define RT_NAME_TEXT 55   /* 32 + 1 + 8 + 1 + 12, and NUL */
#define RT_NAME_TICKET 46 /* 32 + 1 + 12, and NUL */

struct rt_name {
    struct rt_txn_id id;
    uint32_t branch;
    int64_t deadline_ms; /* since 1970, by its beginner's clock; 0 to RT_TXN_BIRTH_MAX */
};

void rt_name_text(const struct rt_name *name, char out[RT_NAME_TEXT]);
/* Reads exactly what rt_name_text writes. False: it is not ours, and OUT is unchanged. */
bool rt_name_parse(const char *text, struct rt_name *out);

/* What another process needs to join: ID-DEADLINE. */
void rt_name_ticket(const struct rt_name *name, char out[RT_NAME_TICKET]);
/* Reads a ticket; `branch` is 0. */
bool rt_name_ticket_parse(const char *text, struct rt_name *out);

#endif
