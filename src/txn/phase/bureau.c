/* SPDX-License-Identifier: Apache-2.0 */
/* What a participant and a coordinator of three-phase commit have in common. */
#include "txn/phase/bureau.h"

#include "base/alloc.h"
#include "net/loop.h"

#include <rota.h>

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define GRACE_MS 1000          /* for requests under way when it stops */
#define LOOK_MS INT64_C(60000) /* a poll waits this long at most */

/* ---- Its life ------------------------------------------------------------------------- */

int rt_bureau_init(struct rt_bureau *d, const struct rt_bureau_kind *kind,
                   const struct rt_bureau_options *options, char *why, size_t room)
{
    pthread_condattr_t attr;
    memset(d, 0, sizeof(*d));
    d->kind = kind;
    pthread_mutex_init(&d->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
    d->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->bell >= 0 && rt_three_calls_open(&d->calls, options->token_file, options->ca_file) == 0)
        return 0;
    snprintf(why, room, "out of memory or of descriptors");
    return ROTA_NOMEM;
}

int rt_bureau_listen(struct rt_bureau *d, const struct rt_bureau_options *options, char *why,
                     size_t room)
{
    const struct rt_http_server_options http = {.listen = options->listen,
                                                .cert_file = options->cert_file,
                                                .key_file = options->key_file,
                                                .token_file = options->token_file,
                                                .insecure = options->insecure,
                                                .allow_hosts = options->allow_hosts,
                                                .routes = options->routes,
                                                .route_count = options->route_count};
    return rt_http_server_start(&d->server, &http, why, room);
}

/* The thread of rt_bureau_run looks again. */
static void ring(struct rt_bureau *d)
{
    uint64_t one = 1;
    ssize_t n = write(d->bell, &one, sizeof(one));
    (void)n; /* a full counter rings, too */
}

/* Something has changed: all look again. */
static void ring_for_all(struct rt_bureau *d)
{
    ring(d);
    pthread_cond_broadcast(&d->changed);
}

void rt_bureau_stop(struct rt_bureau *d)
{
    pthread_mutex_lock(&d->mu);
    d->stop = true;
    ring_for_all(d);
    pthread_mutex_unlock(&d->mu);
}

static void let_go(struct rt_bureau *d, struct rt_case *c)
{
    d->kind->drop(c);
    json_decref(c->word.doc);
    rt_free(c);
}

void rt_bureau_fini(struct rt_bureau *d)
{
    rt_http_server_stop(d->server, GRACE_MS);
    rt_three_calls_close(d->calls);
    while (d->first != NULL) {
        struct rt_case *c = d->first;
        assert(c->holds == 0 && c->questions == 0 && !c->drives);
        d->first = c->next;
        let_go(d, c);
    }
    if (d->bell >= 0)
        close(d->bell);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mu);
}

/* ---- Cases ------------------------------------------------------------------------------ */

struct rt_case *rt_bureau_find(const struct rt_bureau *d, const struct rt_txn_id *id)
{
    struct rt_case *c = d->first;
    while (c != NULL && !rt_txn_id_same(&c->word.name.id, id))
        c = c->next;
    return c;
}

struct rt_case *rt_bureau_add(struct rt_bureau *d, const struct rt_word *w)
{
    struct rt_case *c = rt_alloc(d->kind->case_size);
    if (c == NULL)
        return NULL;
    c->bureau = d;
    c->word = *w;
    json_incref(w->doc);
    c->next = d->first;
    d->first = c;
    ring(d); /* it has a time of its own */
    return c;
}

/* Wakes whoever waits only if it did something: they drive it in turn, and would wake each other for ever. If it did
 * nothing, the mutex was never released, and nobody waits for C to be quiet. */
static void drive(struct rt_bureau *d, struct rt_case *c)
{
    if (c->drives || d->stop)
        return;
    c->drives = true;
    c->holds++;
    bool did = d->kind->work(d, c);
    c->holds--;
    c->drives = false;
    if (did)
        pthread_cond_broadcast(&d->changed);
}

void rt_bureau_drive(struct rt_bureau *d, struct rt_case *c)
{
    drive(d, c);
    ring(d); /* its next time may have changed */
}

/* Frees what is over. Only on the thread of rt_bureau_run: others that find a case hold it before they release the
 * mutex. */
static void sweep(struct rt_bureau *d)
{
    for (struct rt_case **at = &d->first; d->lookups == 0 && *at != NULL;) {
        struct rt_case *c = *at;
        if (c->holds > 0 || c->questions > 0 || !d->kind->is_over(c)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        let_go(d, c);
    }
}

/* Drives all cases, because what was heard may have made anything due; returns when the next one is due. */
static int64_t turn(struct rt_bureau *d)
{
    int64_t next = INT64_MAX;
    for (struct rt_case *c = d->first; c != NULL; c = c->next) {
        drive(d, c);
        int64_t at = c->drives ? INT64_MAX : d->kind->next(c);
        next = at < next ? at : next;
    }
    sweep(d);
    return next;
}

/* False: it must end. */
static bool rest(struct rt_bureau *d, int stop_fd, int64_t until)
{
    struct pollfd p[] = {{.fd = d->bell, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
    int64_t left = until == INT64_MAX ? LOOK_MS : (until - rt_loop_clock()) / RT_BUREAU_MS + 1;
    uint64_t rung;
    left = left < 0 ? 0 : left > LOOK_MS ? LOOK_MS : left;
    (void)poll(p, 2, (int)left);
    (void)!read(d->bell, &rung, sizeof(rung));
    return p[1].revents == 0;
}

void rt_bureau_run(struct rt_bureau *d, int stop_fd)
{
    bool goes = true;
    pthread_mutex_lock(&d->mu);
    while (goes && !d->stop) {
        int64_t next = turn(d);
        pthread_mutex_unlock(&d->mu);
        goes = rest(d, stop_fd, next);
        pthread_mutex_lock(&d->mu);
    }
    d->stop = true;
    ring_for_all(d);
    pthread_mutex_unlock(&d->mu);
}

void rt_bureau_wait(struct rt_bureau *d, int64_t until)
{
    struct timespec ts;
    int64_t left = until - rt_loop_clock();
    left = left < RT_BUREAU_MS             ? RT_BUREAU_MS
           : left > LOOK_MS * RT_BUREAU_MS ? LOOK_MS * RT_BUREAU_MS
                                           : left;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += (time_t)((ts.tv_nsec + left) / 1000000000);
    ts.tv_nsec = (long)((ts.tv_nsec + left) % 1000000000);
    pthread_cond_timedwait(&d->changed, &d->mu, &ts);
}

/* ---- Questions -------------------------------------------------------------------------- */

static void told(void *arg, uint32_t whom, uint32_t seq, const struct rt_answer *answer,
                 const char *trouble)
{
    struct rt_case *c = arg;
    struct rt_bureau *d = c->bureau;
    pthread_mutex_lock(&d->mu);
    c->questions--;
    d->kind->heard(c, whom, seq, answer, trouble);
    ring_for_all(d);
    pthread_mutex_unlock(&d->mu);
}

bool rt_bureau_ask(struct rt_case *c, const struct rt_word *word, const char *url, const char *op,
                   uint32_t branch, uint8_t stance, uint32_t whom, uint32_t seq)
{
    struct rt_name name = word->name;
    char *text = rt_word_text(word, op, branch, stance);
    name.branch = branch;
    c->questions++;
    bool left = text != NULL &&
                rt_three_calls_ask(c->bureau->calls, url, &name, text, told, c, whom, seq);
    c->questions -= !left;
    free(text);
    return left;
}

/* ---- Requests ----------------------------------------------------------------------------- */

bool rt_bureau_read(struct rt_http_request *r, struct rt_word *w)
{
    char why[200];
    bool good = rt_word_read(r->body, r->size, w, why, sizeof(why));
    if (!good)
        rt_http_request_answer(r, 400, "text/plain", why, strlen(why));
    return good;
}

void rt_bureau_answer_json(struct rt_http_request *r, json_t *doc)
{
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    if (text != NULL)
        rt_http_request_answer(r, 200, RT_THREE_TYPE, text, strlen(text));
    else
        rt_http_request_answer(r, 503, NULL, "", 0);
    free(text);
    json_decref(doc);
}

void rt_bureau_answer(struct rt_http_request *r, const struct rt_stand *stand)
{
    rt_bureau_answer_json(r, rt_word_answer(stand, ""));
}
