/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite: what every engine must do, written against rota.h alone.
 *
 * A case is a function and what it needs. It runs on one engine URL; names come from
 * conf_name, clients from conf_open, threads from conf_spawn, processes from conf_agent_new,
 * and all of them are given back after the case, even after a failed one. When a case has ended, a
 * fresh client must find no line with one of its names (I6).
 *
 * Nothing here sleeps to let something happen: cases wait for what they can see, in lines
 * (conf_wait_line), flags (CONF_UNTIL) or replies, each with a limit that fails the case. */
#ifndef CONF_SUITE_H
#define CONF_SUITE_H

#include "lib/patience.h"
#include "lib/recorded.h"

#include <rota.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#define CONF_PATIENCE_MS \
    rt_patient_ms(15000)   /* what a case waits for takes milliseconds; then it has failed */
#define CONF_CALL_MS 20000 /* a busy machine answers late, which is no UNKNOWN of the engine's */
#define CONF_CLIENTS_MAX 256

/* ---- Cases -------------------------------------------------------------- */

#define CONF_PROCESSES 0x1u /* needs an engine whose truth is outside the process */
#define CONF_ONLY_FILE 0x2u /* looks into the folder of a file: engine */

struct conf_case {
    const char *name;
    void (*run)(void);
    uint32_t needs; /* ROTA_CAP_*; without them the refusal is asserted instead */
    uint32_t flags; /* CONF_* */
};
#define CONF_CASE(fn, caps, how) \
    {                            \
#fn, fn, caps, how       \
    }
#define CONF_END         \
    {                    \
        NULL, NULL, 0, 0 \
    }

/* One table per topic, in the file of that name, ended by CONF_END. */
extern const struct conf_case conf_exclusion[], conf_waiting[], conf_racing[], conf_order[],
    conf_reentry[], conf_modes[], conf_sets[], conf_deadlock[], conf_looking[], conf_death[],
    conf_durable[], conf_timed[], conf_election[], conf_counting[], conf_names[], conf_fork[],
    conf_leftover[], conf_async[], conf_input[], conf_caps[], conf_scale[];

/* The engine under test and the running case. */
struct conf {
    const char *url;
    const char *folder;  /* of a file: engine, else NULL */
    const char *scratch; /* a folder of ours for histories */
    char prefix[128];    /* of all names of the case */
    uint32_t caps;
    uint32_t flags; /* of every client: 0 or ROTA_STRICT */
    bool alone;     /* --alone: another way to the same truth */
};
extern struct conf conf;

/* Whether the truth of the engine is outside the process. */
bool conf_shared_truth(void);

/* How often to try something random that the whole run tries N times: not every way to the truth looks for races. */
int conf_rounds(int n);

/* Asserts that what CAP stands for is refused. */
void conf_assert_refused(uint32_t cap);

/* cmocka's setup and teardown for each case. */
int conf_case_begin(void **state);
int conf_case_end(void **state);

/* ---- Parts of a case ---------------------------------------------------- */

void *conf_alloc(size_t size);           /* zeroed; freed after the case */
const char *conf_name(const char *tail); /* a name of this case */
int64_t conf_now_ms(void);
/* Pauses between two looks at a condition, the first of which was at BEGAN: longer if it takes long. */
void conf_pause(int64_t began);

#define CONF_UNTIL(condition)                                   \
    do {                                                        \
        int64_t conf_began_ = conf_now_ms();                    \
        while (!(condition)) {                                  \
            if (conf_now_ms() > conf_began_ + CONF_PATIENCE_MS) \
                fail_msg("waited in vain for: %s", #condition); \
            conf_pause(conf_began_);                            \
        }                                                       \
    } while (0)

struct rota *conf_open(void);
struct rota *conf_open_with(const struct rota_options *opts);
void conf_close(struct rota *r);

/* Waits until NAME has COUNT tickets, GRANTED of them holding. On engines without ROTA_CAP_ORDER only its
 * own client sees who waits: there it waits until GRANTED hold and as many asks of the case's clients wait
 * as are missing. */
void conf_wait_line(struct rota *r, const char *name, size_t count, size_t granted);
/* On engines without ROTA_CAP_ORDER: waits until COUNT asks of the case's clients wait, for whatever names; where those
 * of other processes may count too, only for a while, since nobody can tell. With ROTA_CAP_ORDER the lines say so. */
void conf_wait_asks(size_t count);
void conf_assert_line(struct rota *r, const char *name, size_t count, size_t granted);
/* The same after a client gave up waiting: that call does not wait until a server has heard of it, so it may take a
 * moment until the line is as it must be. R is best the client that gave up: its look comes after its JOIN, while
 * another's may come before it and see a line that is about to change. */
void conf_left_line(struct rota *r, const char *name, size_t count, size_t granted);
size_t conf_count_lines(struct rota *r, const char *prefix);
size_t conf_count_files(void); /* in conf.folder, at any depth */

/* Short forms that assert. */
struct rota_lock *conf_take(struct rota *r, const char *name, const struct rota_ask *ask);
void conf_give(struct rota_lock *lock);
int conf_try(struct rota *r, const char *name, const struct rota_ask *ask,
             struct rota_lock **out); /* with ROTA_TRY; 0 leaves *OUT, NULL: released at once */
void conf_break_all(struct rota *r, const char *name); /* takes every ticket out of the line */

/* ---- Threads ------------------------------------------------------------ */

struct conf_thread;
struct conf_thread *conf_spawn(void *(*fn)(void *), void *arg);
void conf_join(struct conf_thread *thread); /* fails the case if it does not end */

/* A thread inside rota_acquire. */
struct conf_task {
    struct rota *r;
    const char *name;
    struct rota_ask ask;
    struct conf_thread *thread;
    struct rota_lock *lock;
    uint64_t fence;
    int rv;
    atomic_bool done;
};
struct conf_task *conf_task_start(struct rota *r, const char *name, const struct rota_ask *ask);
int conf_task_join(struct conf_task *task);               /* what rota_acquire returned */
struct rota_lock *conf_task_lock(struct conf_task *task); /* joins; must have been granted */

/* ---- Asynchronous asks -------------------------------------------------- */

struct conf_wish {
    atomic_int calls; /* of the callback */
    atomic_int err;
    atomic_bool inside; /* the callback ran inside the call that started it */
    struct rota_lock *_Atomic lock;
    atomic_uint_fast64_t order; /* 1 for the first callback of the case, and so on */
    uint64_t id;
};
struct conf_wish *conf_wish_start(struct rota *r, const char *name, const struct rota_ask *ask);
int conf_wish_wait(struct conf_wish *wish); /* the callback's err */

/* ---- Processes ---------------------------------------------------------- */

/* A process with one client that does as told, line by line: see agent.c. */
struct conf_agent;
struct conf_agent *conf_agent_new(void);
/* ... one that the case kills, or stops: its session ends after three seconds, so that the case need not wait for
 * long. A busy machine may lose it sooner, so an agent that must live through the case is not one. */
struct conf_agent *conf_agent_mortal(void);
pid_t conf_agent_pid(const struct conf_agent *agent);
void conf_agent_send(struct conf_agent *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int conf_agent_reply(struct conf_agent *agent, uint64_t *number); /* rv; NUMBER may be NULL */
int conf_agent_ask(struct conf_agent *agent, uint64_t *number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void conf_agent_end(struct conf_agent *agent);  /* in peace; its exit code must be 0 */
void conf_agent_kill(struct conf_agent *agent); /* kill -9, and waits for its end */
void conf_agents_end(void);                     /* after a case */
int conf_agent_main(int argc, char **argv);     /* the other side */

/* ---- Contention, recorded and checked ----------------------------------- */

/* Begins a history and a guarded resource for the case; everything that follows is recorded there. */
void conf_history_begin(void);
const char *conf_history_folder(void);
int conf_history_attach(const char *folder); /* in an agent: goes on with that of the case */
void conf_history_end(void);                 /* after a case */

/* An actor that acquires, adds one to the resource (exclusive only) and releases. */
struct conf_load {
    struct rota *r;
    const char *name;
    struct rota_ask ask;
    unsigned rounds;
    int rv; /* the first error */
    struct rt_actor actor;
    struct rt_held held;
};
void *conf_load_run(void *arg); /* all rounds of the load */

/* The steps of a round. */
int conf_load_take(struct conf_load *load);
int conf_loads_take_all(struct rota *r, struct conf_load *loads, size_t n); /* as one set */
void conf_load_write(struct conf_load *load);
int conf_load_give(struct conf_load *load);

/* TICKET was taken in the line NAME between BEGAN and now. */
void conf_history_queued(const char *name, int64_t began, uint64_t ticket);

/* Kills AGENT -9 and says so in the history. */
void conf_history_kill(struct conf_agent *agent);

/* The exact check of everything recorded, and that NAME was written WRITES times (0: any). */
void conf_history_check(const char *name, uint64_t writes);

#endif
