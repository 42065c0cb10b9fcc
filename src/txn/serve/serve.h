/* SPDX-License-Identifier: Apache-2.0 */
/* rota-txn serve: DTM's HTTP interface on a Rota journal.
 *
 *   request ──▶ api.c: plan, journal ──▶ an entry ──▶ due ──▶ a worker: course.h says what ─┬─▶ journal (it waits)
 *                                          ▲    ▲                                          ├─▶ HTTP call ──▶ answered ─┐
 *                                          │    └─ its timer                               └─▶ until then: a timer      │
 *                                          │       watch.c: what other servers left                                     │
 *                                          └────────────────────────────────────────────────────────────────────────────┘
 *
 * One mutex guards entries; it is not held while the journal or a service is asked. What stands is in the journal:
 * entries are only what this server is doing about it, so several servers may run on one journal, and others take over
 * from one that dies. Two servers working on the same transaction do no harm: decisions are the journal's, and every
 * call may be made twice.
 *
 * A server's rows have deadlines from RT_JOURNAL_SERVED on, so that no recovery takes them for its own. */
#ifndef RT_SERVE_H
#define RT_SERVE_H

#include "txn/http/client.h"
#include "txn/http/server.h"
#include "txn/manager/manager.h"
#include "txn/serve/course.h"

#include <pthread.h>
#include <stdatomic.h>

#define RT_SERVE_MODE 7         /* of its branches: number 0 is the plan, the others steps */
#define RT_SERVE_RESOURCE "dtm" /* of its branches */
#define RT_SERVE_CHAINS 4096

struct rt_serve;

struct rt_serve_waiter { /* wait_result: a request to be answered when it is over */
    struct rt_serve_waiter *next;
    struct rt_http_request *request;
    bool submits;
};

struct rt_served { /* one transaction that this server works on */
    struct rt_served *next, *next_due;
    struct rt_serve *s;
    struct rt_txn_id id;
    struct rt_plan plan;
    struct rt_course course;
    bool stale;              /* somebody else wrote: what stands must be read */
    bool due, busy, again;   /* queued; a worker has it; it must look again */
    bool gone;               /* not in the table: freed when nothing is under way */
    uint32_t refs;           /* calls under way, and whoever looks at it */
    int64_t at_ms, claim_ms; /* when to look at it again; when to claim it again */
    uint32_t slot;           /* in the heap, from 1 */
    struct rt_serve_waiter *waiters;
};

struct rt_serve {
    struct rota_txns *m;
    uint32_t number;
    uint64_t who;
    int64_t takeover_ms;
    struct rt_http_calls *calls;
    void (*log)(int level, const char *line);
    /* Calls a person about BRANCH of ID, on any thread; must not wait. NULL: nobody is called. */
    void (*attention)(const char *id, const char *branch, const char *line);
    pthread_mutex_t mu; /* guards all below */
    pthread_cond_t wake, stopping;
    struct rt_served *chains[RT_SERVE_CHAINS], *due, **due_tail;
    struct rt_served **heap;
    size_t heap_count, heap_room, count;
    atomic_bool stop;
    pthread_t workers[16], watcher;
    size_t worker_count;
    bool watches;
    struct {
        uint64_t requests, refused, calls, lost, begun, committed, aborted, attention, taken_over;
    } counts;
};

/* ---- run.c: entries and workers ------------------------------------------------------------ */

int64_t rt_serve_now_ms(void);
/* The id under which DTM's gid is kept: an id of this journal as it is, else its named id. */
struct rt_txn_id rt_serve_id(const struct rt_serve *s, const char *gid);
/* Takes over PLAN (it is empty then); STANDS is what the journal has of it; REGISTERED: by step, saga. WAITER, or NULL.
 * An entry that is already there gets what stands, and the waiter. False: no memory. */
bool rt_serve_take(struct rt_serve *s, const struct rt_txn_id *id, struct rt_plan *plan,
                   enum rt_journal_stand stands, const bool *registered,
                   struct rt_serve_waiter *waiter);
bool rt_serve_has(struct rt_serve *s, const struct rt_txn_id *id,
                  enum rt_plan_kind kind); /* 0: any */
int rt_serve_start(struct rt_serve *s);    /* 0 or ROTA_NOMEM */
/* ID is decided; if this server only waited for that, somebody else has decided it, and it is out of the table: true. A
 * saga, at which it is at work, is read again. What is busy stays: the next look finds it. */
bool rt_serve_drop(struct rt_serve *s, const struct rt_txn_id *id);
/* How far this server has come with ID: fills STEPS, COUNT of them. False: it does not work on ID, or ID has another
 * count. */
bool rt_serve_progress(struct rt_serve *s, const struct rt_txn_id *id, struct rt_course_step *steps,
                       size_t count);
/* Stops all work, and tells whoever waits. Then requests may end; then free gives everything back: calls that are under
 * way are cut. */
void rt_serve_stop(struct rt_serve *s);
void rt_serve_free(struct rt_serve *s);
__attribute__((format(printf, 3, 4))) void rt_serve_log(struct rt_serve *s, int level,
                                                        const char *format, ...);

/* ---- rows.c: what the journal has -------------------------------------------------------------- */

struct rt_serve_row {
    enum rt_journal_stand stands;
    bool done, planned;  /* planned: there is a plan */
    bool damaged;        /* what is there is not ours, or there was no memory */
    uint32_t registered; /* how many */
    struct rt_plan plan;
    bool *steps; /* saga: registered */
    char line[RT_PLAN_LINE];
};

/* 0, or ROTA_*; rt_serve_row_free always. */
int rt_serve_read(struct rt_serve *s, const struct rt_txn_id *id, struct rt_serve_row *row);
void rt_serve_row_free(struct rt_serve_row *row);
/* REGISTERs the plan, and with it those of its steps that may run at once; the others register only the STEPS (a
 * saga's), or one branch (a tcc's). */
int rt_serve_register_plan(struct rt_serve *s, const struct rt_txn_id *id,
                           const struct rt_plan *plan, const bool *steps,
                           enum rt_journal_stand *stands);
int rt_serve_register_steps(struct rt_serve *s, const struct rt_txn_id *id,
                            const struct rt_plan *plan, const bool *steps,
                            enum rt_journal_stand *stands);
int rt_serve_register_branch(struct rt_serve *s, const struct rt_txn_id *id,
                             const struct rt_plan_step *step, int64_t created_ms,
                             enum rt_journal_stand *stands);
/* DECIDEs; PLAN: listed with it, or NULL. *REGISTERED: how many are known; set to the journal's answer. */
int rt_serve_decide(struct rt_serve *s, const struct rt_txn_id *id, const char *gid, bool commit,
                    const struct rt_plan *plan, int64_t created_ms, uint32_t *registered,
                    enum rt_journal_stand *stands);
int rt_serve_finish(struct rt_serve *s, const struct rt_txn_id *id);
int rt_serve_claim(struct rt_serve *s, const struct rt_txn_id *id, uint32_t for_ms);

/* ---- api.c: requests ------------------------------------------------------------------------- */

/* All routes; *COUNT of them. */
const struct rt_http_route *rt_serve_routes(struct rt_serve *s, size_t *count);
/* Answers W with what became of its transaction (course C; NULL: the server ends). */
void rt_serve_tell(struct rt_serve_waiter *w, const struct rt_course *c);

/* ---- watch.c: what others left ------------------------------------------------------------------ */

void *rt_serve_watch(void *serve);

#endif
