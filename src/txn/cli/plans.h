/* SPDX-License-Identifier: Apache-2.0 */
/* What 'rota txn serve' keeps of a transaction, for people. */
#ifndef RT_PLANS_H
#define RT_PLANS_H

#include "txn/cli/records.h"

#include <jansson.h>

/* Whether ITEM is such a transaction, and when it was begun. */
bool rt_plans_has(const struct rt_item *item);
int64_t rt_plans_begun_ms(const struct rt_item *item);

/* Reads ITEM's plan: what kind it is, and for each branch what was asked, or will be. OUT NULL: it is printed; else
 * *OUT becomes a JSON object, null without a plan. 0 or a ROTA_* of the journal. */
int rt_plans_show(const struct rt_visit *v, const struct rt_item *item, json_t **out);

#endif
