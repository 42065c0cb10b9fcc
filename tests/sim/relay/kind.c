/* SPDX-License-Identifier: Apache-2.0 */
/* `sim --relay`: the outbox. */
#include "sim/relay/relay.h"
#include "sim/world.h"

const struct sim_kind sim_relay = {.name = "relay", .play = ry_play, .report = ry_report};
