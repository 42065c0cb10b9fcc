/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a service that takes part by try, confirm and cancel, whoever carries it (an HTTP client, a pool of
 * threads that run C functions).
 *
 *   asker ── ask() ──▶ carrier ── the service is called ──▶ done(), once ──▶ asker
 *                         └── deadline, cut, close: LOST ──▶ done(), once
 *
 * A carrier never waits in ask(), and one call that hangs delays no other. A call is LOST if and only if it may have
 * reached the service and was not answered: the service may have done it, or may do it yet. Every operation may be
 * asked any number of times, and in any order: the participant's fence (T3.5) makes that harmless. */
#ifndef RT_SERVICE_H
#define RT_SERVICE_H

#include "txn/core/branch.h"
#include "txn/core/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_SERVICE_BODY_MAX 65536 /* bytes of a try's answer; the rest is not read */
#define RT_SERVICE_LINE 256       /* bytes of a message */

/* For each: what it means, and its answers. */
enum rt_service_op {
    /* Reserve. YES: it is reserved, until confirm or cancel; NO (409): it is not, and never will be by this branch.
     * HELD (425), LOST: the asker does not ask again; it counts as a no, and is cancelled. */
    RT_SERVICE_TRY = 1,
    /* The reservation becomes real. DONE, also if it already was; REFUSED (409): it will not: a person is called; HELD
     * (425): it is under way. HELD, LOST: asked again, ever more rarely; after ten of them a person is called. */
    RT_SERVICE_CONFIRM = 2,
    /* The reservation is released; a try that comes after this is refused. DONE, also if there was no try; REFUSED,
     * HELD, LOST as above. */
    RT_SERVICE_CANCEL = 3,
};

struct rt_service_call {          /* the asker's; lent until done() is called */
    struct rt_service_call *next; /* the carrier's while it has the call */
    enum rt_service_op op;
    struct rt_name name; /* id, branch, deadline: what the service is told */
    /* As registered: the carrier's own bytes (HTTP: URLs, body; C functions: what the application gave). The asker's,
     * and unchanged, until done(). */
    const void *payload;
    size_t size;
    const char *resource; /* its name; owned likewise */
    /* HTTP as other coordinators' participants expect it: no headers of ours, and a GET if there is no body. */
    bool bare;
    const char *headers; /* HTTP: more of them, "Name: value\n" each; NULL: none. As payload */
    int64_t deadline;    /* CLOCK_BOOTTIME, ns: LOST then, or a little later */

    /* Set by the carrier before done(). */
    enum rt_reply reply; /* YES, NO (try); DONE, REFUSED (confirm, cancel); HELD; LOST */
    int status;          /* HTTP's; 0: none came */
    char errmsg
        [RT_SERVICE_LINE]; /* "" with YES and DONE; else one line with the way out, without secrets */
    char
        *body; /* of a try's answer, at most RT_SERVICE_BODY_MAX and a NUL behind it; NULL: none; */
    size_t body_size; /* the asker gives it back with rt_free */

    /* Once, on a thread of the carrier's or of its host's, never inside ask or cut. The carrier holds no lock
     * meanwhile: the asker takes its own there, and may hold it around ask and cut. After done() the carrier never
     * touches the call again. */
    void (*done)(struct rt_service_call *c);
    void *user;
};

/* A carrier has four calls:
 *   ask    takes the call, and returns at once. ROTA_*: it was not taken, and done() is not called.
 *   cut    the call is answered LOST soon, if it is not answered before.
 *   open   no I/O.
 *   close  cuts all, and returns after the last done() has; without the asker's lock. */

#endif
