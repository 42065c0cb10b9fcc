/* SPDX-License-Identifier: Apache-2.0 */
/* The SQL engine on a model server: one that tells those who wait, over one connection, and one that must be asked,
 * over two. */
#ifndef SIM_SQL_DRIVER_H
#define SIM_SQL_DRIVER_H

#include "engine/engine.h"

extern const struct rt_engine ss_engine_postgres, ss_engine_mysql;

#endif
