/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of rota-relay share. */
#ifndef RT_RELAY_CLI_H
#define RT_RELAY_CLI_H

#include "cli/cli.h"
#include "cli/prometheus.h"
#include "txn/relay/receipts.h"
#include "txn/relay/relay.h"

#include <signal.h>

struct rt_relay_wish { /* what the options say */
    const char *from, *to, *metrics;
    const char *receipts;               /* where they come in; NULL: nowhere */
    struct rt_http_server_options http; /* listen NULL: nobody listens */
    char allow_hosts[4000];
    struct rt_event_map map;
    struct rt_store_options store;
    uint32_t lanes, batch, attempts;
    uint64_t clean_ms; /* age at which finished rows go; 0: never */
    bool once, dry_run, json;
};

extern const char *rt_relay_command; /* "relay", "relay consume": for complaints */

/* "rota: relay: ...", and where to read on. Returns RT_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int rt_relay_usage(const char *format, ...);
/* The exit code for the library's error ERR. */
int rt_relay_exit(int err);

/* The value of OPTION, in optarg: RT_EXIT_OK, or RT_EXIT_USAGE and a line. */
int rt_relay_number(const char *option, uint64_t most, uint32_t *out);
int rt_relay_time(const char *option, uint64_t least_ms, uint64_t *out);
int rt_relay_time32(const char *option, uint32_t *out);
/* One of two words. */
int rt_relay_word(const char *option, const char *yes, const char *no, bool *out);

/* The signals that end it; they stay blocked in all threads. */
void rt_relay_block_signals(sigset_t *set);
/* Waits for one of them, for MS at most. */
bool rt_relay_signalled(const sigset_t *set, int64_t ms);
void rt_relay_metric(struct rt_prometheus *p, const char *name, const char *labels,
                     const char *help, unsigned type, double value);

int rt_relay_run(const struct rt_relay_wish *wish);     /* daemon.c: until a signal, or --once */
int rt_relay_dry_run(const struct rt_relay_wish *wish); /* preview.c */
int rt_consume(int argc, char **argv);                  /* consume.c: rota relay consume ... */

#endif
