/* SPDX-License-Identifier: Apache-2.0 */
/* `sim --three`: three-phase commit with on_timeout = block; `--three-commit`: with the textbook's rule, where mixed
 * outcomes are counted, and must be told; `--three-strict`: the same, where the first of them is a violation. */
#include "sim/three/three.h"
#include "sim/world.h"

static void play_block(uint64_t seed, bool tracing)
{
    th_play(TH_BLOCK, seed, tracing);
}

static void play_commit(uint64_t seed, bool tracing)
{
    th_play(TH_COMMIT, seed, tracing);
}

static void play_strict(uint64_t seed, bool tracing)
{
    th_play(TH_STRICT, seed, tracing);
}

const struct sim_kind sim_three = {.name = "three", .play = play_block, .report = th_report};
const struct sim_kind sim_three_commit = {
    .name = "three-commit", .play = play_commit, .report = th_report};
const struct sim_kind sim_three_strict = {
    .name = "three-strict", .play = play_strict, .report = th_report};
