/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: does a history contradict what Rota promises?
 *
 * Each check adds what it found to a report. A report without findings is the verdict
 * "nothing contradicts"; a finding names two records that cannot both be true.
 *
 * The model of rt_check_locks, per lock: an exclusive grant is legal iff the lock is free and its
 * fence is larger than every earlier one; a shared grant iff nobody holds exclusively; a
 * permit iff the weights fit. release(ok) and renew(ok) are legal iff that hold is the current one. A
 * hold ends unasked only at or after its promised deadline (the latest of its ok renewals), or
 * after the beginning of a release that ended `info`, or after a matching RT_END. An acquire
 * that ended `info` may never have happened and is dropped. A call takes effect at a point in
 * [t_inv, t_ret). The check is exact: it finds something iff no such points exist, in O(n log n).
 *
 *  - Exclusive: fences force the order, and on a chain the earliest point is the best one.
 *  - Shared, permits: a hold's operations begin after its acquire has returned, so the latest
 *    grant and the earliest end make an interval that every placement contains; writers are put between
 *    those of the readers, permits are summed up over them. A hold that may have been over before its
 *    acquire returned (which I3 forbids) could be anywhere: it is counted as loose and left out.
 *  - Exclusive without fences (fence 0): as permits, 1 of 1. */
#ifndef RT_CHECKER_H
#define RT_CHECKER_H

#include "history.h"
#include "resource.h"

#include <stdbool.h>

#define RT_FINDINGS(X)                                                                       \
    X(MALFORMED, "malformed")         /* the recorder's fault: the history makes no sense */ \
    X(ORPHAN_OP, "orphan-op")         /* ok renewal or release of a hold never granted */    \
    X(DUP_FENCE, "dup-fence")         /* two exclusive grants with one fence */              \
    X(EARLY_GRANT, "early-grant")     /* granted while an earlier one certainly held */      \
    X(READER_WRITER, "reader-writer") /* shared and exclusive at once */                     \
    X(OVERDRAFT, "overdraft")         /* more permits than there are */                      \
    X(STALE_RENEW, "stale-renew")     /* renewed after its end */                            \
    X(STALE_RELEASE, "stale-release") /* released after its end, or once too often */        \
    X(BAD_PASS, "bad-pass")           /* tenure passed on without a release */               \
    X(ORDER, "order")                 /* a later ticket granted before an earlier one */     \
    X(STALE_WRITE, "stale-write")     /* the resource accepted a smaller fence */            \
    X(BAD_REJECT, "bad-reject")       /* the resource refused the highest fence */           \
    X(LOST_UPDATE, "lost-update")     /* an increment is not in the counter */               \
    X(OLD_VALUE, "old-value")         /* ... by a late write of the tenure before */         \
    X(STALE_BELIEF, "stale-belief")   /* thought it held after a higher fence was granted */ \
    X(CLIENT_REUSED, "client-reused") /* an id went on after info */                         \
    X(LEFT_BEHIND, "left-behind")     /* the engine shows what nobody holds */               \
    X(HANG, "hang")                   /* a waiter not granted within the bound */

enum rt_finding {
#define RT_FINDING_ENUM(name, text) RT_FOUND_##name,
    RT_FINDINGS(RT_FINDING_ENUM)
#undef RT_FINDING_ENUM
        RT_FOUND_COUNT
};

struct rt_report {
    size_t total;
    size_t found[RT_FOUND_COUNT];
    size_t records, holds; /* looked at by rt_check_locks */
    size_t loose;          /* holds that could not be checked: see above */
    size_t text_len;
    char text[4096]; /* the first findings, a line each */
};

const char *rt_finding_name(enum rt_finding finding);

/* Adds a finding about records A and B (each may be NULL) with a sentence why. */
void rt_report_add(struct rt_report *report, enum rt_finding finding, const struct rt_record *a,
                   const struct rt_record *b, const char *why);

struct rt_check_options {
    /* A tenure may be passed on inside its process, or lingered on, with the same fence: after an
     * ok release an acquire of the same process may carry that fence again. Without it
     * only re-entry by the same owner may. With it, an owner does one thing at a time. */
    bool passing;
};

/* Exclusion, fences, stale operations: I1, I2, I4. OPTS may be NULL. */
void rt_check_locks(const struct rt_record *records, size_t n, const struct rt_check_options *opts,
                    struct rt_report *report);

/* Order of arrival (I7): a grant's number must not be smaller than that of one whose ticket was
 * certainly taken before. Only grants with ENQUEUE records of the same lock and ticket; those that gave
 * up are left out. */
void rt_check_order(const struct rt_record *records, size_t n, struct rt_report *report);

/* Beliefs that began after a higher fence had been granted. Zero findings are expected only if no process
 * was paused inside its look; otherwise read found[] and require rt_check_resource. */
void rt_check_beliefs(const struct rt_record *records, size_t n, struct rt_report *report);

/* The resource's own log against the recorded writes: accepted fences never go back, refused iff
 * smaller than the highest seen, each recorded increment is there exactly once, the counter is their
 * number (those cut short may be in it or not).
 *
 * The resource guards writes, not the read before them. So where two may hold at once (one was stopped,
 * or the engine has forgotten it), the new one's first write may build on what it read before the old
 * one's last write came in. That is OLD_VALUE and not LOST_UPDATE: at most the first write of each
 * fence, and only while the write that it misses was under way. */
void rt_check_resource(const struct rt_record *records, size_t n, uint64_t lock,
                       const struct rt_resource_entry *log, size_t entries,
                       struct rt_report *report);

/* No client id acquires, releases or writes again on a lock where it has already had an `info`. */
void rt_check_clients(const struct rt_record *records, size_t n, struct rt_report *report);

/* Calls that the checks above were about: acquires, releases, renewals; not looks and not writes. */
size_t rt_check_ops(const struct rt_record *records, size_t n);

/* What the engine still shows after all clients have stopped: nothing may (I6). */
struct rt_shown {
    const char *name;
    uint64_t number;
};
void rt_check_left_behind(const struct rt_record *records, size_t n, const struct rt_shown *shown,
                          size_t shown_count, struct rt_report *report);

/* After the faults ended at HEALED_AT every waiter is answered within BOUND_NS, except those of
 * processes that ended (RT_END). NOW: when the history was read. */
void rt_check_liveness(const struct rt_record *records, size_t n, int64_t healed_at,
                       int64_t bound_ns, int64_t now, struct rt_report *report);

#endif
