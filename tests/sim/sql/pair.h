/* SPDX-License-Identifier: Apache-2.0 */
/* The model's steps and a real server's, side by side: random flights to both, the same rows from both. */
#ifndef SIM_SQL_PAIR_H
#define SIM_SQL_PAIR_H

#include "engine/sql/driver.h"

struct pair_real {
    const struct rt_sql_driver *driver;
    const char *url;
    void (*run)(const char *sql); /* as somebody who may do everything */
};

/* FLIGHTS drawn from SEED; fails the test where the two differ. */
void pair_fly(const struct pair_real *with, uint64_t seed, uint32_t flights);

#endif
