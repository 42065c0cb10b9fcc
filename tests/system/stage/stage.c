/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of the stage: starts, kills, stops contenders; keeps the books of the faults. */
#include "lib/patience.h"
#include "stage_int.h"

#include <errno.h>
#include <rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define DEFAULT_TTL_MS 1000
#define DEFAULT_CALL_MS 2000
#define SOME_GRANTS 3  /* one may have been on its way */
#define TOLD_PLACES 4  /* of each line, when somebody is stuck */
#define STUCK_MS 30000 /* without a turn for so long after all healed: stuck */

static void die(const char *what)
{
    fprintf(stderr, "stage: %s: %s\n", what, strerror(errno));
    abort();
}

void stage_sleep_us(uint64_t us)
{
    struct timespec ts = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};

    nanosleep(&ts, NULL);
}

uint32_t stage_factor(void)
{
    return (uint32_t)rt_told_number("ROTA_TORTURE", 1);
}

uint64_t stage_seed(void)
{
    static uint64_t seed;

    if (seed == 0) {
        seed = rt_seed();
        fprintf(stderr, "ROTA_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint32_t stage_below(struct stage *st, uint32_t n)
{
    return rt_random_below(&st->random, n);
}

void stage_lock_name(uint32_t lock, char *out, size_t size)
{
    snprintf(out, size, "lock %u", lock);
}

void stage_resource_path(const struct stage_shared *shared, uint32_t lock, char *out, size_t size)
{
    if ((size_t)snprintf(out, size, "%s/resource%u", shared->folder, lock) >= size)
        abort();
}

/* ---- Life ---------------------------------------------------------------- */

static void folder_make(struct stage_shared *sh)
{
    static int count;

    count++;
    if ((size_t)snprintf(sh->folder, sizeof(sh->folder), "%s/stage%d", rt_tmpdir(), count) >=
        sizeof(sh->folder))
        abort();
    if (mkdir(sh->folder, 0700) != 0)
        die(sh->folder);
}

struct stage *stage_new(const struct stage_plan *plan)
{
    struct stage *st = calloc(1, sizeof(*st));
    char path[PATH_MAX];

    if (st == NULL || plan->processes > STAGE_PROCESSES_MAX || plan->threads > STAGE_THREADS_MAX ||
        plan->locks > STAGE_LOCKS_MAX)
        abort();
    st->shared = rt_shared_new(sizeof(*st->shared));
    st->shared->plan = *plan;
    if (plan->ttl_ms == 0)
        st->shared->plan.ttl_ms = DEFAULT_TTL_MS;
    if (plan->call_ms == 0)
        st->shared->plan.call_ms = DEFAULT_CALL_MS;
    if (plan->spice_permille == 0)
        st->shared->plan.spice_permille = 20;
    st->shared->seed = stage_seed();
    st->random.state = st->shared->seed;
    folder_make(st->shared);
    for (uint32_t i = 0; i < plan->locks; i++) {
        stage_resource_path(st->shared, i, path, sizeof(path));
        if (rt_resource_open(&st->resources[i], path, STAGE_RECORDS) != 0)
            die(path);
    }
    st->forks = rt_forkserver_start(stage_contend, st->shared);
    return st;
}

void stage_free(struct stage *st)
{
    for (uint32_t i = 0; i < st->shared->plan.locks; i++)
        rt_resource_close(st->resources[i]);
    rt_forkserver_stop(st->forks);
    rt_shared_free(st->shared, sizeof(*st->shared));
    free(st->ends);
    free(st);
}

void stage_url_of(struct stage *st, uint32_t process, const char *url)
{
    if ((size_t)snprintf(st->shared->url[process], STAGE_URL_MAX, "%s", url) >= STAGE_URL_MAX)
        abort();
}

void stage_url(struct stage *st, const char *url)
{
    for (uint32_t i = 0; i < STAGE_PROCESSES_MAX; i++)
        stage_url_of(st, i, url);
}

/* ---- Contenders ---------------------------------------------------------- */

void stage_spawn(struct stage *st, uint32_t process)
{
    st->shared->incarnation[process]++;
    st->pids[process] = rt_forkserver_spawn(st->forks, (int)process);
}

void stage_start(struct stage *st)
{
    const struct stage_plan *plan = &st->shared->plan;

    rt_watchdog(120, plan->title);
    st->begun_at = rt_history_now();
    for (uint32_t i = 0; i < plan->processes; i++)
        stage_spawn(st, i);
    rt_shared_wait(&st->shared->had_turn, plan->processes * plan->threads);
}

/* The book of ends is for liveness alone: the locks of a killed process end by their deadline, and
 * the check of locks must not be told otherwise. */
static void note_end(struct stage *st, pid_t pid, int64_t from)
{
    if (st->end_count == st->end_cap) {
        st->end_cap = st->end_cap * 2 + 64;
        st->ends = realloc(st->ends, st->end_cap * sizeof(*st->ends));
        if (st->ends == NULL)
            abort();
    }
    st->ends[st->end_count++] = (struct rt_record){.kind = RT_END,
                                                   .process = (uint32_t)pid,
                                                   .t_inv = from,
                                                   .t_ret = rt_history_now(),
                                                   .result = RT_OK};
}

void stage_kill(struct stage *st, uint32_t process)
{
    pid_t pid = st->pids[process];
    int64_t from = rt_history_now();

    kill(pid, SIGKILL);
    rt_forkserver_wait(st->forks, pid);
    note_end(st, pid, from);
    st->pids[process] = 0;
    memset(st->shared->threads[process], 0, sizeof(st->shared->threads[process]));
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    const char *end;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (f == NULL)
        return '?';
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    end = strrchr(text, ')');
    return end != NULL && end[1] != '\0' ? end[2] : '?';
}

void stage_stop(struct stage *st, uint32_t process)
{
    kill(st->pids[process], SIGSTOP);
    while (state_of(st->pids[process]) != 'T')
        stage_sleep_us(500);
}

void stage_cont(struct stage *st, uint32_t process)
{
    kill(st->pids[process], SIGCONT);
}

bool stage_holds(const struct stage *st, uint32_t process)
{
    for (uint32_t t = 0; t < st->shared->plan.threads; t++) {
        if (__atomic_load_n(&st->shared->threads[process][t].doing, __ATOMIC_RELAXED) ==
            STAGE_HOLDS)
            return true;
    }
    return false;
}

/* ---- Faults and time ----------------------------------------------------- */

void stage_mark(struct stage *st)
{
    if (st->mark_count < STAGE_MARKS_MAX)
        st->marks[st->mark_count++] = rt_history_now();
    st->granted_at_mark = stage_granted(st);
}

/* Nobody gets over it: what everybody is about, for whoever looks into that. */
static void say_where(const struct stage *st)
{
    const struct stage_shared *shared = st->shared;

    fprintf(stderr, "%s: %llu grants since the fault, errors:", shared->plan.title,
            (unsigned long long)(stage_granted(st) - st->granted_at_mark));
    for (size_t i = 0; i < STAGE_ERRORS; i++)
        if (shared->errors[i] != 0)
            fprintf(stderr, " %llu x %zu", (unsigned long long)shared->errors[i], i);
    for (uint32_t p = 0; p < shared->plan.processes; p++) {
        fprintf(stderr, "\n  process %d (%c):", (int)st->pids[p], state_of(st->pids[p]));
        for (uint32_t t = 0; t < shared->plan.threads; t++)
            fprintf(stderr, " turn %llu, doing %u", (unsigned long long)shared->threads[p][t].turns,
                    (unsigned)shared->threads[p][t].doing);
    }
    fprintf(stderr, "\n%s\n", shared->odd_text);
}

void stage_await_grants(struct stage *st)
{
    int64_t late = rt_history_now() + 110 * INT64_C(1000000000);

    rt_watchdog(120, st->shared->plan.title);
    while (stage_granted(st) < st->granted_at_mark + SOME_GRANTS) {
        stage_sleep_us(2000);
        if (rt_history_now() > late) {
            say_where(st);
            late = INT64_MAX;
        }
    }
}

void stage_pause(struct stage *st, uint32_t ms)
{
    rt_watchdog(120 + ms / 1000, st->shared->plan.title);
    stage_sleep_us(ms * UINT64_C(1000));
}

void stage_forgot(struct stage *st, int64_t from, int64_t to)
{
    if (st->gap_count < STAGE_GAPS_MAX)
        st->gaps[st->gap_count++] = (struct stage_gap){from, to};
}

uint64_t stage_turns(const struct stage *st)
{
    uint64_t sum = 0;

    for (uint32_t p = 0; p < st->shared->plan.processes; p++)
        for (uint32_t t = 0; t < st->shared->plan.threads; t++)
            sum += __atomic_load_n(&st->shared->threads[p][t].turns, __ATOMIC_ACQUIRE);
    return sum;
}

uint64_t stage_granted(const struct stage *st)
{
    return __atomic_load_n(&st->shared->granted, __ATOMIC_ACQUIRE);
}

uint64_t stage_lost(const struct stage *st)
{
    return __atomic_load_n(&st->shared->told_before, __ATOMIC_ACQUIRE) +
           __atomic_load_n(&st->shared->told_after, __ATOMIC_ACQUIRE) +
           __atomic_load_n(&st->shared->told_starved, __ATOMIC_ACQUIRE);
}

int64_t stage_longest(const struct stage *st)
{
    return st->longest;
}

uint64_t stage_errors(const struct stage *st, int err)
{
    return __atomic_load_n(&st->shared->errors[-err], __ATOMIC_ACQUIRE);
}

/* ---- The end ------------------------------------------------------------- */

static const char *const doing_names[] = {"idle", "asks", "holds", "releases", "looks around"};

/* Every thread goes on: two more turns each, as the fault may have ended the first. */
static size_t all_go_on(struct stage *st)
{
    const struct stage_plan *plan = &st->shared->plan;
    int64_t until = rt_history_now() + STUCK_MS * INT64_C(1000000);
    uint64_t before[STAGE_PROCESSES_MAX][STAGE_THREADS_MAX];
    size_t stuck = 0;

    for (uint32_t p = 0; p < plan->processes; p++)
        for (uint32_t t = 0; t < plan->threads; t++)
            before[p][t] = __atomic_load_n(&st->shared->threads[p][t].turns, __ATOMIC_ACQUIRE);
    for (uint32_t p = 0; p < plan->processes; p++) {
        for (uint32_t t = 0; t < plan->threads; t++) {
            const struct stage_thread *th = &st->shared->threads[p][t];

            while (__atomic_load_n(&th->turns, __ATOMIC_ACQUIRE) < before[p][t] + 2 &&
                   rt_history_now() < until)
                stage_sleep_us(2000);
            if (__atomic_load_n(&th->turns, __ATOMIC_ACQUIRE) >= before[p][t] + 2)
                continue;
            stuck++;
            fprintf(stderr, "  stuck: thread %u of process %u %s, lock %u\n", t, p,
                    doing_names[th->doing], th->lock);
        }
    }
    return stuck;
}

/* Who stands in their way. */
static void tell_lines(struct stage *st)
{
    struct rota_options opts = {.ttl_ms = st->shared->plan.ttl_ms};
    struct rota *r = NULL;
    char name[32];

    if (rota_open(&r, st->shared->url[0], &opts) != 0)
        return;
    for (uint32_t i = 0; i < st->shared->plan.locks; i++) {
        struct rota_line *line = NULL;

        stage_lock_name(i, name, sizeof(name));
        if (rota_inspect(r, name, &line) != 0)
            continue;
        for (size_t k = 0; k < line->count && k < TOLD_PLACES; k++) {
            const struct rota_place *p = &line->places[k];

            fprintf(stderr,
                    "  %s: %llu of session %llu, %s, mode %u, flags %u, %lld ms, left %lld\n", name,
                    (unsigned long long)p->number, (unsigned long long)p->session, p->label,
                    p->mode, p->flags, (long long)p->since_ms, (long long)p->left_ms);
        }
        rota_line_free(line);
    }
    rota_close(r);
}

static size_t all_leave(struct stage *st)
{
    size_t failed = 0;

    __atomic_store_n(&st->shared->phase, STAGE_DRAIN, __ATOMIC_RELEASE);
    for (uint32_t p = 0; p < st->shared->plan.processes; p++) {
        int code;

        if (st->pids[p] == 0)
            continue;
        code = rt_forkserver_wait(st->forks, st->pids[p]);
        if (code != 0)
            fprintf(stderr, "  process %u ended with %d\n", p, code);
        failed += code != 0;
        st->pids[p] = 0;
    }
    return failed;
}

size_t stage_finish(struct stage *st, stage_left_fn *left, void *arg)
{
    size_t found;

    rt_watchdog(120, st->shared->plan.title);
    st->healed_at = rt_history_now();
    found = all_go_on(st);
    if (found > 0)
        tell_lines(st);
    found += all_leave(st);
    found += stage_judge(st, left, arg);
    rt_watchdog(0, "");
    return found;
}
