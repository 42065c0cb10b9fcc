/* SPDX-License-Identifier: Apache-2.0 */
/* Contention: every call recorded in the history, then judged by the exact checker. */
#include "suite.h"

#include "lib/checker.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int64_t conf_history_now(void)
{
    return rt_history_now();
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

static enum rt_record_result result_of(int rv)
{
    return rv == 0 ? RT_OK : rv == ROTA_UNKNOWN ? RT_INFO : RT_FAIL;
}

static struct rt_record *begin(struct conf_load *load, enum rt_record_kind kind)
{
    if (load->actor == 0)
        load->actor = rt_history_client(run.history);
    struct rt_record what = {.client = load->actor,
                             .lock = rt_history_name(load->name),
                             .owner = load->owner != 0 ? load->owner : load->actor,
                             .fence = load->fence,
                             .ticket = load->ticket,
                             .process = (uint32_t)getpid(),
                             .take = load->ask.take,
                             .of = load->ask.of,
                             .mode = (uint8_t)load->ask.mode,
                             .kind = (uint8_t)kind};
    return rt_history_begin(run.history, &what);
}

/* An id is not used again after a call whose outcome is open. */
static void end(struct conf_load *load, struct rt_record *record, int rv)
{
    if (result_of(rv) == RT_INFO)
        load->actor = 0;
    else
        rt_history_end(record, result_of(rv));
}

static int64_t deadline_of(const struct rota_lock *lock)
{
    int64_t now = rt_history_now(), left = rota_remaining_ms(lock);
    return left == INT64_MAX ? 0 : now + left * 1000000;
}

static void taken(struct conf_load *load, struct rt_record *record, int rv,
                  const struct rota_lock *lock)
{
    if (rv == 0) {
        load->fence = record->fence = rota_fence(lock);
        record->ticket = record->fence;
        record->deadline = deadline_of(lock);
    }
    end(load, record, rv);
}

int conf_load_take(struct conf_load *load, struct rota_lock **out)
{
    load->fence = 0;
    struct rt_record *record = begin(load, RT_ACQUIRE);
    int rv = rota_acquire(load->r, load->name, &load->ask, out);
    taken(load, record, rv, *out);
    return rv;
}

int conf_loads_take_all(struct rota *r, struct conf_load *loads, size_t n, struct rota_lock **out)
{
    const char *names[SET_MAX];
    struct rt_record *records[SET_MAX];
    for (size_t i = 0; i < n; i++) {
        loads[i].fence = 0;
        names[i] = loads[i].name;
        records[i] = begin(&loads[i], RT_ACQUIRE);
    }
    int rv = rota_acquire_all(r, names, n, NULL, out);
    for (size_t i = 0; i < n; i++)
        taken(&loads[i], records[i], rv, out[i]);
    return rv;
}

void conf_load_write(struct conf_load *load, const struct rota_lock *lock)
{
    struct rt_record *belief = begin(load, RT_BELIEF);
    end(load, belief, rota_remaining_ms(lock) > 0 ? 0 : ROTA_LOST);
    struct rt_record *record = begin(load, RT_WRITE);
    uint64_t value = rt_resource_read(run.resource);
    sched_yield(); /* the gap in which updates get lost without a lock */
    bool accepted = rt_resource_write(run.resource, load->fence, load->actor, value + 1,
                                      &record->resource_seq);
    end(load, record, accepted ? 0 : ROTA_LOST);
}

int conf_load_give(struct conf_load *load, struct rota_lock *lock)
{
    struct rt_record *record = begin(load, RT_RELEASE);
    int rv = rota_release(lock);
    end(load, record, rv);
    return rv;
}

void conf_load_queued(struct conf_load *load, int64_t began, uint64_t ticket)
{
    load->ticket = ticket;
    struct rt_record *record = begin(load, RT_ENQUEUE);
    record->t_inv = began;
    end(load, record, 0);
}

void *conf_load_run(void *arg)
{
    struct conf_load *load = arg;
    for (unsigned i = 0; i < load->rounds && load->rv == 0; i++) {
        struct rota_lock *lock = NULL;
        load->rv = conf_load_take(load, &lock);
        if (load->rv != 0)
            break;
        if (load->ask.mode == ROTA_EXCLUSIVE)
            conf_load_write(load, lock);
        load->rv = conf_load_give(load, lock);
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
