/* SPDX-License-Identifier: Apache-2.0 */
/* Taps: wrappers that see what a client sends (top) and what reaches the engine (bottom), and hold
 * both against the truth. The bottom one also lets requests go astray: they are answered as unknown and
 * take effect later, after what was sent after them, as on a connection that was given up. */
#ifndef SIM_TAP_H
#define SIM_TAP_H

#include "engine/wrap.h"

struct sim_client;

struct sim_tap {
    struct rt_wrap wrap;
    struct sim_client *client;
    struct sim_stray *strays;
    const struct rt_op *arriving; /* of a stray: nobody waits for its end */
    bool is_bottom;
};

/* Puts a tap around *CONN. */
struct sim_tap *sim_tap_put(struct rt_conn **conn, struct sim_client *client, bool is_bottom);

#endif
