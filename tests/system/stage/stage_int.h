/* SPDX-License-Identifier: Apache-2.0 */
/* What the stage's own files share: memory of all its processes, and the books of the driver. */
#ifndef RT_STAGE_INT_H
#define RT_STAGE_INT_H

#include "lib/checker.h"
#include "lib/proc.h"
#include "lib/random.h"
#include "lib/recorded.h"
#include "lib/starved.h"
#include "stage.h"

#include <limits.h>
#include <sys/types.h>

#define STAGE_RECORDS 1500000 /* per process: files are sparse */
#define STAGE_MARKS_MAX 4096
#define STAGE_ERRORS 17 /* by -err */
#define STAGE_GAPS_MAX 256

enum stage_phase { STAGE_RUN, STAGE_DRAIN };
enum stage_doing { STAGE_IDLE, STAGE_ASKS, STAGE_HOLDS, STAGE_RELEASES, STAGE_SPICES };

struct stage_thread { /* as the driver sees it */
    uint64_t turns;
    uint32_t doing; /* enum stage_doing */
    uint32_t lock;
};

/* Shared by all processes. Counters are raised with atomics. */
struct stage_shared {
    uint32_t phase;
    uint32_t had_turn; /* threads */
    uint64_t seed;
    struct stage_plan plan;
    char folder[PATH_MAX];
    char url[STAGE_PROCESSES_MAX][STAGE_URL_MAX];
    uint32_t incarnation[STAGE_PROCESSES_MAX];
    struct stage_thread threads[STAGE_PROCESSES_MAX][STAGE_THREADS_MAX];
    uint64_t errors[STAGE_ERRORS];
    uint64_t told_before, told_after, told_starved; /* losses, against the deadline of the hold */
    uint64_t granted;
    uint64_t refused; /* writes, by the resource */
    uint64_t odd;     /* errors that no fault explains; the first one said */
    char odd_text[512];
};

struct stage_gap {
    int64_t from, to;
};

struct stage {
    struct stage_shared *shared;
    struct rt_forkserver *forks;
    struct rt_resource *resources[STAGE_LOCKS_MAX];
    struct rt_random random;
    pid_t pids[STAGE_PROCESSES_MAX]; /* 0: not running */
    struct rt_record *ends;          /* who was killed, for the check of liveness */
    size_t end_count, end_cap;
    int64_t marks[STAGE_MARKS_MAX];
    size_t mark_count;
    uint64_t granted_at_mark;
    int64_t longest; /* ns from a fault to the next grant; once judged */
    struct stage_gap gaps[STAGE_GAPS_MAX];
    size_t gap_count;
    int64_t begun_at, healed_at;
};

void stage_lock_name(uint32_t lock, char *out, size_t size);
void stage_resource_path(const struct stage_shared *shared, uint32_t lock, char *out, size_t size);
void stage_sleep_us(uint64_t us);

/* contender.c: what runs in a forked process; ARG is the shared memory. */
int stage_contend(int index, void *arg);

/* verdict.c */
size_t stage_judge(struct stage *st, stage_left_fn *left, void *arg);

#endif
