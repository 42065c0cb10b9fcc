/* SPDX-License-Identifier: Apache-2.0 */
/* A manager that a command opens, and turning errors into exit codes. */
#include "txn/cli/visit.h"

#include "cli/out.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int rt_visit_exit(int err)
{
    switch (err) {
    case 0:
        return RT_EXIT_OK;
    case ROTA_INVALID:
    case ROTA_UNSUPPORTED:
        return RT_EXIT_USAGE;
    case ROTA_BUSY:
    case ROTA_TIMEOUT:
        return RT_EXIT_BUSY;
    case ROTA_UNREACHABLE:
    case ROTA_UNKNOWN:
    case ROTA_PROTOCOL:
    case ROTA_AUTH:
    case ROTA_UNSAFE:
    case ROTA_LOST:
        return RT_EXIT_UNREACHABLE;
    default:
        return RT_EXIT_INTERNAL;
    }
}

int rt_visit_report(const struct rt_visit *v, int err)
{
    const char *message = rota_txn_errmsg(v != NULL ? v->m : NULL);

    if (message == NULL || message[0] == '\0')
        message = rota_strerror(err);
    rt_out_error("%s", message);
    return rt_visit_exit(err);
}

int rt_visit_open(struct rt_visit *v, const struct rt_args *args,
                  const struct rota_txns_options *opts)
{
    struct rota_txns_options own = *opts;
    struct rt_journal_op who = {.kind = RT_JOURNAL_IDENTIFY};

    *v = (struct rt_visit){0};
    own.resources = args->resources;
    int err = rota_txns_open(&v->m, args->journal, &own);
    if (err != 0)
        return rt_visit_report(NULL, err);
    err = rt_txns_ask(v->m, &who);
    if (err != 0) {
        int code = rt_visit_report(v, err);
        rt_visit_close(v);
        return code;
    }
    v->number = who.identify.number;
    v->floor_ms = who.identify.floor_ms;
    v->now_ms = who.identify.now_ms;
    return RT_EXIT_OK;
}

void rt_visit_close(struct rt_visit *v)
{
    rota_txns_close(v->m);
    v->m = NULL;
}

int rt_visit_ours(const struct rt_visit *v, const struct rt_txn_id *id)
{
    uint32_t journal = rt_txn_id_journal(id);

    if (journal == v->number)
        return RT_EXIT_OK;
    rt_out_error(
        "that transaction belongs to journal %08x, but this one is %08x: choose its own with --journal",
        (unsigned)journal, (unsigned)v->number);
    return RT_EXIT_USAGE;
}

int64_t rt_visit_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const char *rt_visit_date(int64_t ms, char *out, size_t size)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;

    if (ms <= 0 || localtime_r(&s, &tm) == NULL ||
        strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(out, size, "-");
    return out;
}
