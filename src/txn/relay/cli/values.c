/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of rota-relay share: values of options, complaints, signals, metrics. */
#include "cli/options.h"
#include "cli/out.h"
#include "txn/relay/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <rota.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *rt_relay_command = "relay";

int rt_relay_usage(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    rt_out_error("%s: %s; see 'rota %s --help'", rt_relay_command, line, rt_relay_command);
    return RT_EXIT_USAGE;
}

int rt_relay_exit(int err)
{
    switch (err) {
    case 0:
        return RT_EXIT_OK;
    case ROTA_INVALID:
    case ROTA_UNSUPPORTED: /* a table or column that is not there, a broker that is not built in */
        return RT_EXIT_USAGE;
    case ROTA_AUTH:
    case ROTA_UNREACHABLE:
    case ROTA_BUSY:
        return RT_EXIT_UNREACHABLE;
    default:
        return RT_EXIT_FAILED;
    }
}

/* ---- Values -------------------------------------------------------------------------- */

int rt_relay_number(const char *option, uint64_t most, uint32_t *out)
{
    uint64_t number;

    if (!rt_options_number(optarg, 1, most, &number))
        return rt_relay_usage("--%s must be a number from 1 to %llu, not '%s'", option,
                              (unsigned long long)most, optarg);
    *out = (uint32_t)number;
    return RT_EXIT_OK;
}

int rt_relay_time(const char *option, uint64_t least_ms, uint64_t *out)
{
    if (rt_options_duration_ms(optarg, out) && *out >= least_ms)
        return RT_EXIT_OK;
    return rt_relay_usage("--%s must be a time of %llu ms or more, such as 30s or 5m, not '%s'",
                          option, (unsigned long long)least_ms, optarg);
}

int rt_relay_time32(const char *option, uint32_t *out)
{
    uint64_t ms = 0;
    int code = rt_relay_time(option, 1000, &ms);

    if (code == RT_EXIT_OK && ms > UINT32_MAX)
        return rt_relay_usage("--%s can be at most 49 days", option);
    if (code == RT_EXIT_OK)
        *out = (uint32_t)ms;
    return code;
}

/* One of two words. */
int rt_relay_word(const char *option, const char *yes, const char *no, bool *out)
{
    *out = strcmp(optarg, yes) == 0;
    if (*out || strcmp(optarg, no) == 0)
        return RT_EXIT_OK;
    return rt_relay_usage("--%s must be %s or %s, not '%s'", option, yes, no, optarg);
}

/* ---- For whoever watches ---------------------------------------------------------------- */

void rt_relay_block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

bool rt_relay_signalled(const sigset_t *set, int64_t ms)
{
    const struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int signo;

    do
        signo = sigtimedwait(set, NULL, &limit);
    while (signo < 0 && errno == EINTR);
    return signo > 0;
}

void rt_relay_metric(struct rt_prometheus *p, const char *name, const char *labels,
                     const char *help, unsigned type, double value)
{
    const struct rota_metric metric = {
        .name = name, .help = help, .labels = labels, .type = type, .value = value};

    rt_prometheus_print(p, &metric);
}
