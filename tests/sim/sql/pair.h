/* SPDX-License-Identifier: Apache-2.0 */
/* The model's steps and a real server's, side by side: random flights to both, the same rows from both. */
#ifndef SIM_SQL_PAIR_H
#define SIM_SQL_PAIR_H

#include "engine/sql/driver.h"

struct pair_real {
    const struct rt_sql_driver *driver;
    const char *url;
    void (*run)(const char *sql); /* as a user who may do everything */
};

/* The whole test: flights from one fixed seed, and from a freshly drawn one. 0: the two never differed. */
int pair_run(const struct pair_real *with);

#endif
