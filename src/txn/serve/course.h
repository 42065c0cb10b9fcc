/* SPDX-License-Identifier: Apache-2.0 */
/* One transaction of rota-txn serve: what to do next. Pure: answers and the time in, what to do out.
 *
 *            submit (saga), prepare (tcc, msg)        all actions are done (saga), submit (tcc, msg), the back-check says so
 *   ABSENT ────────────────────────────────▶ OPEN ─────────────────────────────────────────▶ COMMIT ── each confirm, each
 *                                              │                                                        delivery done ──▶ DONE
 *                                              └─ an action is refused, abort, too late, ──▶ ABORT ──── each cancel, each
 *                                                 the back-check says no                                compensation done ──▶ DONE
 *
 * - A saga's step is registered in the journal before its action is called, so whoever continues after a crash
 *   compensates exactly the steps that may have run.
 * - Nothing is confirmed or delivered before COMMIT stands, nothing cancelled or compensated before ABORT stands.
 * - DONE is written only when every one of these calls has succeeded.
 * - Every call may be repeated: after a crash all of them are.
 * - A call leaves only if the journal has said what stands since anything was last waited for: another server or a
 *   person (settle, resolve --done) may have ended the transaction meanwhile. */
#ifndef RT_COURSE_H
#define RT_COURSE_H

#include "txn/journal/journal.h"
#include "txn/serve/plan.h"

#define RT_COURSE_TIMEOUT_S 35 /* tcc, msg: DTM's */
#define RT_COURSE_ONGOING_S 10 /* between two calls while it is in progress: DTM's */
#define RT_COURSE_SAID 80      /* bytes of an answer that is kept for people */
#define RT_COURSE_ATTENTION \
    10 /* failures of one call, or answers that it is in progress, until a person is told */

enum rt_course_reply { RT_COURSE_YES, RT_COURSE_NO, RT_COURSE_ONGOING, RT_COURSE_LOST };

enum rt_course_state {
    RT_COURSE_IDLE,   /* not yet asked; saga: perhaps not registered */
    RT_COURSE_OUT,    /* asked */
    RT_COURSE_PAUSED, /* asked again later */
    RT_COURSE_DONE,
    RT_COURSE_FAILED, /* an action that was refused */
};

struct rt_course_call {
    enum rt_course_state state;
    uint32_t asked;   /* how often */
    uint32_t tries;   /* how many were lost */
    uint32_t ongoing; /* how many said that it is in progress */
    int64_t again_ms;
    char said[RT_COURSE_SAID]; /* the last answer that was not good; "": none yet */
};

struct rt_course_step {
    bool registered; /* saga: its action may have been asked */
    struct rt_course_call forward, back;
};

struct rt_course {
    const struct rt_plan *plan;
    enum rt_journal_stand stands; /* OPEN, COMMIT, ABORT */
    bool done;
    struct rt_course_step *steps; /* as in the plan; owned by the caller */
    struct rt_course_call query;
    enum rt_course_reply queried; /* query DONE: the answer */
    int64_t retries;
    bool failed;
    bool looked;  /* what stands is known, and nothing was waited for since */
    bool stalled; /* since it was decided, or begun, some call did not succeed */
    enum rt_course_reply stalled_by;
    char reason[RT_PLAN_LINE]; /* why it is aborted, or stalled */
};

enum rt_course_what {
    RT_COURSE_WAIT,     /* until until_ms, or until an answer comes */
    RT_COURSE_LOOK,     /* read what stands: then rt_course_looked */
    RT_COURSE_REGISTER, /* step, and those behind it that may run as well: rt_course_may_run */
    RT_COURSE_CALL,     /* step, back: it is OUT then */
    RT_COURSE_QUERY,    /* the back-check: it is OUT then */
    RT_COURSE_DECIDE,   /* commit or not */
    RT_COURSE_FINISH,   /* write DONE */
    RT_COURSE_OVER,
};

struct rt_course_todo {
    enum rt_course_what what;
    size_t step;
    bool back, commit;
    int64_t until_ms;
};

/* STEPS: plan->count of them, zeroed. The journal has just said STANDS. */
void rt_course_init(struct rt_course *c, const struct rt_plan *plan, struct rt_course_step *steps,
                    enum rt_journal_stand stands);
struct rt_course_todo rt_course_next(struct rt_course *c, int64_t now_ms);
/* Whether the action of STEP may be asked now. */
bool rt_course_may_run(const struct rt_course *c, size_t step);
/* The journal says so. */
void rt_course_registered(struct rt_course *c, size_t step);
/* WHY: one line, for any reply but YES. True: a person should be told. What is in progress counts only for confirms,
 * cancels and compensations: actions and deliveries may take long. */
bool rt_course_answered(struct rt_course *c, size_t step, bool back, enum rt_course_reply reply,
                        const char *why, int64_t now_ms);
bool rt_course_queried(struct rt_course *c, enum rt_course_reply reply, const char *why,
                       int64_t now_ms);
/* The journal was read, and says that it is not finished. */
void rt_course_looked(struct rt_course *c);
/* What stands in the journal, whoever wrote it. */
void rt_course_decided(struct rt_course *c, enum rt_journal_stand stands);
void rt_course_finished(struct rt_course *c);

#endif
