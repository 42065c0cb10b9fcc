/* SPDX-License-Identifier: Apache-2.0 */
/* Contention: every call recorded in the history, then judged by the exact checker. */
#include "suite.h"

#include "lib/checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX 20000 /* of one process in one case */
#define SET_MAX 8         /* names of one recorded set */
#define WRITES_MAX 20000  /* of one case */

static struct {
    char folder[512];
    struct rt_history *history;
    struct rt_resource *resource;
} run;

int conf_history_attach(const char *folder)
{
    char path[600];
    if (run.history != NULL)
        return 0;
    snprintf(run.folder, sizeof run.folder, "%s", folder);
    snprintf(path, sizeof path, "%s/../%s.resource", folder, strrchr(folder, '/') + 1);
    if (rt_history_open(&run.history, folder, RECORDS_MAX) != 0)
        return ROTA_INTERNAL;
    return rt_resource_open(&run.resource, path, WRITES_MAX) == 0 ? 0 : ROTA_INTERNAL;
}

void conf_history_begin(void)
{
    char folder[400];
    snprintf(folder, sizeof folder, "%s/history.XXXXXX", conf.scratch);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(conf_history_attach(folder), 0);
}

const char *conf_history_folder(void)
{
    return run.folder;
}

void conf_history_end(void)
{
    if (run.history != NULL)
        rt_history_close(run.history);
    if (run.resource != NULL)
        rt_resource_close(run.resource);
    run.history = NULL;
    run.resource = NULL;
}

/* ---- Recording ---------------------------------------------------------- */

/* An id is not used again after a call whose outcome is open. */
static void actor_ready(struct conf_load *load)
{
    if (load->actor.client == 0) {
        load->actor.history = run.history;
        load->actor.rota = load->r;
        load->actor.client = rt_history_client(run.history);
        load->actor.owner = load->actor.client;
    }
}

static int actor_after(struct conf_load *load, int rv)
{
    if (rt_recorded_result(rv) == RT_INFO) {
        fprintf(stderr, "%s: %s: %s\n", load->name, rota_strerror(rv), rota_errmsg(load->r));
        load->actor.client = 0;
    }
    return rv;
}

int conf_load_take(struct conf_load *load)
{
    actor_ready(load);
    return actor_after(load,
                       rt_recorded_acquire(&load->actor, load->name, &load->ask, &load->held));
}

int conf_loads_take_all(struct rota *r, struct conf_load *loads, size_t n)
{
    const char *names[SET_MAX] = {NULL};
    struct rt_record *records[SET_MAX];
    struct rota_lock *locks[SET_MAX] = {NULL};
    for (size_t i = 0; i < n; i++) {
        loads[i].r = r;
        actor_ready(&loads[i]);
        names[i] = loads[i].name;
        records[i] = rt_recorded_begin(&loads[i].actor, names[i], NULL);
    }
    int rv = rota_acquire_all(r, names, n, NULL, locks);
    for (size_t i = 0; i < n; i++) {
        rt_recorded_granted(records[i], rv, locks[i], &loads[i].held);
        actor_after(&loads[i], rv);
    }
    return rv;
}

void conf_load_write(struct conf_load *load)
{
    rt_recorded_believe(&load->actor, &load->held);
    rt_recorded_increment(&load->actor, &load->held, run.resource);
}

int conf_load_give(struct conf_load *load)
{
    return actor_after(load, rt_recorded_release(&load->actor, &load->held));
}

void conf_history_queued(const char *name, int64_t began, uint64_t ticket)
{
    struct rt_record what = {.client = rt_history_client(run.history),
                             .lock = rt_history_name(name),
                             .ticket = ticket,
                             .kind = RT_ENQUEUE};
    struct rt_record *record = rt_history_begin(run.history, &what);
    record->t_inv = began;
    rt_history_end(record, RT_OK);
}

void *conf_load_run(void *arg)
{
    struct conf_load *load = arg;
    for (unsigned i = 0; i < load->rounds && load->rv == 0; i++) {
        load->rv = conf_load_take(load);
        if (load->rv != 0)
            break;
        if (load->ask.mode == ROTA_EXCLUSIVE)
            conf_load_write(load);
        load->rv = conf_load_give(load);
    }
    return NULL;
}

void conf_history_kill(struct conf_agent *agent)
{
    struct rt_record what = {.process = (uint32_t)conf_agent_pid(agent), .kind = RT_END};
    struct rt_record *record = rt_history_begin(run.history, &what);
    conf_agent_kill(agent);
    rt_history_end(record, RT_OK);
}

/* ---- The verdict -------------------------------------------------------- */

static uint64_t written(const struct rt_record *records, size_t n)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += records[i].kind == RT_WRITE && records[i].result == RT_OK;
    return count;
}

void conf_history_check(const char *name, uint64_t writes)
{
    static struct rt_report report;
    struct rt_record *records = NULL;
    size_t n = 0, entries = 0;
    struct rt_check_options opts = {.passing = true};
    memset(&report, 0, sizeof report);
    assert_int_equal(rt_history_load(run.folder, &records, &n), 0);
    assert_true(n > 0);
    const struct rt_resource_entry *log = rt_resource_log(run.resource, &entries);
    rt_check_locks(records, n, &opts, &report);
    rt_check_beliefs(records, n, &report);
    rt_check_clients(records, n, &report);
    if ((conf.caps & ROTA_CAP_ORDER) != 0)
        rt_check_order(records, n, &report);
    rt_check_resource(records, n, rt_history_name(name), log, entries, &report);
    uint64_t count = written(records, n);
    free(records);
    if (report.total != 0)
        fail_msg("%zu findings in %zu records:\n%s", report.total, n, report.text);
    if (writes != 0)
        assert_int_equal(count, writes);
}
