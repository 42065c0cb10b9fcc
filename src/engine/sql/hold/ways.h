/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects, each in the words of its database. */
#ifndef RT_HOLD_WAYS_H
#define RT_HOLD_WAYS_H

#include "engine/sql/hold/hold.h"

#define RT_HOLD_CAPS (ROTA_CAP_FENCE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS)

extern const struct rt_sqlhold_way rt_sqlhold_getlock, rt_sqlhold_forupdate_mysql,
    rt_sqlhold_table_mysql;
extern const struct rt_sqlhold_way rt_sqlhold_advisory, rt_sqlhold_forupdate_postgres,
    rt_sqlhold_table_postgres;

#endif
