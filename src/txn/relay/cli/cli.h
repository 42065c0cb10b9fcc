/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of rota-relay share. */
#ifndef RT_RELAY_CLI_H
#define RT_RELAY_CLI_H

#include "cli/cli.h"
#include "txn/relay/relay.h"

#include <signal.h>

struct rt_relay_wish { /* what the options say */
    const char *from, *to, *metrics;
    struct rt_event_map map;
    struct rt_store_options store;
    uint32_t lanes, batch, attempts;
    uint64_t clean_ms; /* rows that are over for so long go; 0: none does */
    bool once, dry_run, json;
};

/* "rota relay: ...", and where to read on. Returns RT_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int rt_relay_usage(const char *format, ...);
/* The exit code for ERR of the library. */
int rt_relay_exit(int err);

int rt_relay_run(const struct rt_relay_wish *wish);     /* daemon.c: until a signal, or --once */
int rt_relay_dry_run(const struct rt_relay_wish *wish); /* preview.c */

#endif
