/* SPDX-License-Identifier: Apache-2.0 */
/* The name that a participant keeps of a branch: an orphan tells by itself whose it is, and when it may be touched, so
 * that no begin record is needed. Its text is ID-BRANCH-DEADLINE in hexadecimal digits; xids and gids have room for
 * it. */
#ifndef RT_TXN_NAME_H
#define RT_TXN_NAME_H

#include "txn/id.h"

#define RT_NAME_TEXT 55   /* 32 + 1 + 8 + 1 + 12, and its end */
#define RT_NAME_TICKET 46 /* 32 + 1 + 12, and its end */

struct rt_name {
    struct rt_txn_id id;
    uint32_t branch;
    int64_t deadline_ms; /* since 1970, by the clock of who began it; 0 to RT_TXN_BIRTH_MAX */
};

void rt_name_text(const struct rt_name *name, char out[RT_NAME_TEXT]);
/* Exactly what that writes; else false: it is not ours, and OUT is as before. */
bool rt_name_parse(const char *text, struct rt_name *out);

/* What another process is given so that it can join: ID-DEADLINE. */
void rt_name_ticket(const struct rt_name *name, char out[RT_NAME_TICKET]);
/* The same for that; `branch` is 0. */
bool rt_name_ticket_parse(const char *text, struct rt_name *out);

#endif
