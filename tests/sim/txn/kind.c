/* SPDX-License-Identifier: Apache-2.0 */
/* `sim --txn`: the core of transactions. No locks: a world of its own. */
#include "sim/txn/txn.h"
#include "sim/world.h"

const struct sim_kind sim_txn = {.name = "txn", .play = ts_play, .report = ts_report};
