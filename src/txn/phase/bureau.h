/* SPDX-License-Identifier: Apache-2.0 */
/* What a participant and a coordinator of three-phase commit have in common: an address at which they are asked,
 * questions of their own, and cases (one per transaction), each with a machine that says what to do and when.
 *
 *   HTTP: a request ──▶ its case ──▶ kind->work: rows, statements, the journal, questions ──▶ answer
 *   the clock, what was heard ──▶ the same, on the thread of rt_bureau_run
 *
 * One mutex for all cases. Whoever has something for a case drives it: one thread at a time, which releases the mutex
 * while it waits for a database or a journal. A case whose machine is over goes once nobody holds it any more. */
#ifndef RT_BUREAU_H
#define RT_BUREAU_H

#include "txn/http/server.h"
#include "txn/phase/calls.h"

#include <pthread.h>

#define RT_BUREAU_MS INT64_C(1000000) /* ns */

struct rt_bureau;

struct rt_case { /* a kind's own begins with it */
    struct rt_case *next;
    struct rt_bureau *bureau;
    struct rt_word word;
    bool drives;        /* a thread drives it */
    uint32_t holds;     /* holders beside the list */
    uint32_t questions; /* under way */
};

struct rt_bureau_kind { /* all with the mutex */
    size_t case_size;
    /* Does all that is due for C. May release the mutex while it waits. False: nothing was due, and it did not. */
    bool (*work)(struct rt_bureau *d, struct rt_case *c);
    /* A question was answered; ANSWER NULL: it was not, and TROUBLE says why. */
    void (*heard)(struct rt_case *c, uint32_t whom, uint32_t seq, const struct rt_answer *answer,
                  const char *trouble);
    int64_t (*next)(const struct rt_case *c); /* when something is due; INT64_MAX: never */
    bool (*is_over)(const struct rt_case *c); /* it may go */
    void (*drop)(struct rt_case *c);          /* frees what the kind has in it */
};

struct rt_bureau_options {
    const char *listen, *token_file, *cert_file, *key_file, *ca_file,
        *allow_hosts; /* all as in the public header */
    bool insecure;
    const struct rt_http_route *routes; /* not copied */
    size_t route_count;
};

struct rt_bureau {
    const struct rt_bureau_kind *kind;
    pthread_mutex_t mu;
    pthread_cond_t changed; /* a case is quiet, or something was heard */
    struct rt_case *first;
    struct rt_three_calls *calls;
    struct rt_http_server *server;
    int bell;         /* an eventfd: the thread of rt_bureau_run looks again */
    uint32_t lookups; /* somebody reads a row: no case may go meanwhile */
    bool stop;        /* no case is driven any more */
};

/* Makes a bureau that can ask, and does not listen yet. 0; or ROTA_* and WHY. Free it with rt_bureau_fini. */
int rt_bureau_init(struct rt_bureau *d, const struct rt_bureau_kind *kind,
                   const struct rt_bureau_options *options, char *why, size_t room);
/* Starts to listen. Returns the same. */
int rt_bureau_listen(struct rt_bureau *d, const struct rt_bureau_options *options, char *why,
                     size_t room);
/* Runs until D->stop, or until STOP_FD can be read or was closed at its other end (-1: there is none). */
void rt_bureau_run(struct rt_bureau *d, int stop_fd);
void rt_bureau_stop(struct rt_bureau *d); /* from any thread, without the mutex */
/* Answers nobody any more, and frees all cases. No other thread may be using it. */
void rt_bureau_fini(struct rt_bureau *d);

/* All of these with the mutex. */
struct rt_case *rt_bureau_find(const struct rt_bureau *d, const struct rt_txn_id *id);
/* Holds W->doc, too: from now on give it back with the mutex, for jansson reads its count without an atomic operation.
 * NULL: no memory. */
struct rt_case *rt_bureau_add(struct rt_bureau *d, const struct rt_word *w);
/* Does all that is due for C now, unless another thread drives it. */
void rt_bureau_drive(struct rt_bureau *d, struct rt_case *c);
/* Sends OP to URL: WORD with another BRANCH and STANCE; kind->heard gets the answer. False: it was not sent. */
bool rt_bureau_ask(struct rt_case *c, const struct rt_word *word, const char *url, const char *op,
                   uint32_t branch, uint8_t stance, uint32_t whom, uint32_t seq);
/* Waits until something has changed, or UNTIL (CLOCK_BOOTTIME, ns). */
void rt_bureau_wait(struct rt_bureau *d, int64_t until);

/* False: the request is not valid, and was answered. Free W->doc with json_decref. */
bool rt_bureau_read(struct rt_http_request *r, struct rt_word *w);
void rt_bureau_answer(struct rt_http_request *r, const struct rt_stand *stand);
void rt_bureau_answer_json(struct rt_http_request *r, json_t *doc); /* takes DOC; NULL: 503 */

#endif
