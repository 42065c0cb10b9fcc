/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded journal: a file, a thread that writes it, and those who wait for it.
 *
 *   submit ──▶ the queue ──▶ the thread takes all there is: one transaction, one fsync ──▶ the answers ──▶ a turn tells
 *
 * Group commit without a delay: ops that come while an fsync is under way share the next one. Only a DONE, for which
 * nobody waits, lingers a moment for others to come: alone it would cost as much as they do together. Once the database
 * is open, only the thread touches it. An op whose deadline passes while the thread has it is told ROTA_UNKNOWN, and
 * its ask is freed when the thread gives it back.
 *
 *   RUNNING ── an fsync failed, the file is damaged ──▶ STOPPED: all that is asked ends with ROTA_PROTOCOL */
#include "engine/file/file.h"
#include "base/alloc.h"
#include "engine/kit/words.h"
#include "txn/journal/file/db.h"
#include "txn/journal/points.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH_MOST 512     /* asks: a few ms of work */
#define ALONE (10 * RT_MS) /* how long a DONE waits for company */
#define BOOK_FIRST 2048    /* bytes: enough to say and hear most asks */

struct work { /* for an ask: what the thread needs, and answers */
    struct rt_journal_ask *ask;
    struct work *next;
    struct rt_sql_book book;
    int err;
    bool urgent;
    bool stops; /* ... and the journal takes no more */
    bool shows; /* its rows are to be shown */
    char why[256];
};

struct bell { /* on the heap: libuv wants it until closed */
    struct rt_watch watch;
    struct journal *j;
    int fd;
};

struct journal {
    struct rt_journal base; /* first */
    struct rt_journal_desk desk;
    struct rt_jfile_db db;
    struct rt_conn thread_says; /* errmsg of the thread */
    struct bell *bell;
    pthread_t thread;
    bool running;
    bool stopped;
    char stopped_why[256];
    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t asked;
    struct work *queue, **queue_tail;
    uint32_t urgent; /* how many of them must not wait */
    int64_t since;   /* ... if none: since when the first waits */
    struct work *answers, **answers_tail;
    atomic_bool leaving;
};

static struct journal *of(struct rt_journal *j)
{
    return (struct journal *)(void *)j;
}

static struct journal *of_ledger(struct rt_ledger *l)
{
    return (struct journal *)(void *)((char *)l - offsetof(struct journal, desk) -
                                      offsetof(struct rt_journal_desk, ledger));
}

static void work_free(struct work *w)
{
    rt_sql_book_free(&w->book);
    rt_journal_ask_free(w->ask);
    rt_free(w);
}

/* ---- The thread ----------------------------------------------------------------------------------------- */

static int64_t monotonic(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 * RT_MS + ts.tv_nsec;
}

/* Nobody waits for its end, and it has time. */
static bool is_patient(const struct work *w, int64_t now)
{
    return w->ask->in.kind == RT_JOURNAL_DONE && w->ask->entry.deadline - now > 10 * ALONE;
}

/* With the mutex: waits until there is something to do. */
static void await_work(struct journal *j)
{
    while (!atomic_load(&j->leaving) && j->urgent == 0) {
        int64_t until = j->since + ALONE;
        struct timespec at = {.tv_sec = until / (1000 * RT_MS), .tv_nsec = until % (1000 * RT_MS)};
        if (j->queue == NULL)
            (void)pthread_cond_wait(&j->asked, &j->mutex);
        else if (pthread_cond_clockwait(&j->asked, &j->mutex, CLOCK_MONOTONIC, &at) == ETIMEDOUT)
            return;
    }
}

static struct work *take_batch(struct journal *j)
{
    struct work *batch = NULL, **tail = &batch;
    (void)pthread_mutex_lock(&j->mutex);
    await_work(j);
    for (size_t n = 0; j->queue != NULL && n < BATCH_MOST && !atomic_load(&j->leaving); n++) {
        *tail = j->queue;
        j->urgent -= (*tail)->urgent;
        j->queue = j->queue->next;
        tail = &(*tail)->next;
    }
    *tail = NULL;
    if (j->queue == NULL)
        j->queue_tail = &j->queue;
    (void)pthread_mutex_unlock(&j->mutex);
    return batch;
}

static void give_back(struct journal *j, struct work *batch)
{
    struct work **last = &batch;
    uint64_t one = 1;
    while (*last != NULL)
        last = &(*last)->next;
    (void)pthread_mutex_lock(&j->mutex);
    *j->answers_tail = batch;
    j->answers_tail = last;
    (void)pthread_mutex_unlock(&j->mutex);
    if (write(j->bell->fd, &one, sizeof(one)) < 0) {
        /* it is full: it is already ringing */
    }
}

static void fail(struct work *w, int err, bool stops, const char *why)
{
    w->err = err;
    w->stops = stops;
    w->shows = false;
    snprintf(w->why, sizeof(w->why), "%s", why);
}

/* It is not known which of the batch is done, or none of it is. */
static void fail_all(struct journal *j, struct work *batch, enum rt_jfile_end end, int err)
{
    for (struct work *w = batch; w != NULL; w = w->next) {
        bool reads = rt_journal_ask_reads(w->ask);
        if (end == RT_JFILE_STOPS)
            fail(w, reads ? ROTA_PROTOCOL : ROTA_UNKNOWN, true, j->thread_says.errmsg);
        else
            fail(w, err, false, j->thread_says.errmsg);
    }
}

/* One ask, all its rounds. */
static enum rt_jfile_end do_ask(struct journal *j, struct work *w, int *err)
{
    for (;;) {
        rt_sql_book_clear(&w->book);
        rt_rows_say(w->ask, &w->book, rt_jfile_words, j->db.number);
        enum rt_jfile_end end = rt_jfile_db_run(&j->db, &w->book, err);
        if (end != RT_JFILE_GOOD)
            return end;
        if (rt_rows_hear(w->ask, &w->book, &j->thread_says, &w->err)) {
            w->shows = w->err == 0;
            if (w->err != 0)
                fail(w, w->err, false, j->thread_says.errmsg);
            return RT_JFILE_GOOD;
        }
    }
}

/* Whether it is too late to start it. */
static bool is_late(struct work *w, int64_t now)
{
    if (w->ask->entry.deadline > now)
        return false;
    fail(w, ROTA_UNREACHABLE, false, "its time ran out before the file was free");
    return true;
}

static enum rt_jfile_end do_batch(struct journal *j, struct work *batch, int *err)
{
    bool writes = false, durable = false;
    int64_t now = rt_loop_clock(), until = INT64_MAX;
    for (struct work *w = batch; w != NULL; w = w->next) {
        writes = writes || !rt_journal_ask_reads(w->ask);
        durable = durable || rt_journal_ask_durable(w->ask);
        until = w->ask->entry.deadline < until ? w->ask->entry.deadline : until;
    }
    j->db.until = until > now ? until : now;
    enum rt_jfile_end end = rt_jfile_db_begin(&j->db, writes, durable, err);
    now = rt_loop_clock();
    for (struct work *w = batch; end == RT_JFILE_GOOD && w != NULL; w = w->next)
        if (!is_late(w, now))
            end = do_ask(j, w, err);
    if (end != RT_JFILE_GOOD) {
        rt_jfile_db_rollback(&j->db);
        return end;
    }
    for (struct work *w = batch; w != NULL; w = w->next)
        rt_journal_point_begun(&w->ask->in);
    end = rt_jfile_db_commit(&j->db, err);
    for (struct work *w = batch; end == RT_JFILE_GOOD && w != NULL; w = w->next)
        rt_journal_point_written(&w->ask->in);
    return end;
}

/* Those whose time is over end; the others are retried. */
static struct work *drop_late(struct journal *j, struct work *batch)
{
    struct work *rest = NULL, **rest_tail = &rest, *late = NULL, **late_tail = &late;
    int64_t now = rt_loop_clock();
    for (struct work *w = batch, *next; w != NULL; w = next) {
        next = w->next;
        w->next = NULL;
        struct work ***tail = w->ask->entry.deadline <= now || atomic_load(&j->leaving)
                                  ? &late_tail
                                  : &rest_tail;
        **tail = w;
        *tail = &w->next;
    }
    if (late != NULL) {
        fail_all(j, late, RT_JFILE_FAILED, ROTA_UNREACHABLE);
        give_back(j, late);
    }
    return rest;
}

/* One of several spoiled it for all: run each by itself. */
static void do_each(struct journal *j, struct work *batch)
{
    for (struct work *w = batch, *next; w != NULL; w = next) {
        int err = 0;
        next = w->next;
        w->next = NULL;
        enum rt_jfile_end end = do_batch(j, w, &err);
        if (end != RT_JFILE_GOOD)
            fail_all(j, w, end, end == RT_JFILE_AGAIN ? ROTA_UNREACHABLE : err);
        bool stops = w->stops;
        give_back(j, w);
        if (stops && next != NULL) { /* the rest was not started */
            for (struct work *r = next; r != NULL; r = r->next)
                fail(r, ROTA_PROTOCOL, true, j->thread_says.errmsg);
            give_back(j, next);
            return;
        }
    }
}

static void serve(struct journal *j, struct work *batch)
{
    while (batch != NULL) {
        int err = 0;
        enum rt_jfile_end end = do_batch(j, batch, &err);
        if (end == RT_JFILE_AGAIN) {
            batch = drop_late(j, batch);
            continue;
        }
        if (end == RT_JFILE_FAILED && batch->next != NULL) {
            do_each(j, batch);
            return;
        }
        if (end != RT_JFILE_GOOD)
            fail_all(j, batch, end, err);
        give_back(j, batch);
        return;
    }
}

static void *run(void *arg)
{
    struct journal *j = arg;
    struct work *batch;
    while ((batch = take_batch(j)) != NULL) {
        (void)pthread_mutex_lock(&j->db.at_work);
        serve(j, batch);
        (void)pthread_mutex_unlock(&j->db.at_work);
    }
    return NULL;
}

/* ---- The loop's side -------------------------------------------------------------------------------------- */

static int send_ask(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct journal *j = of_ledger(l);
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    if (j->stopped)
        return ROTA_PROTOCOL;
    if (rt_journal_ask_foreign(&j->desk, a) != 0)
        return ROTA_INVALID;
    struct work *w = rt_alloc(sizeof(*w));
    if (w == NULL)
        return ROTA_NOMEM;
    w->ask = a;
    w->book.arena.first = BOOK_FIRST;
    a->extra = w;
    *via = j;
    w->urgent = !is_patient(w, rt_loop_clock());
    (void)pthread_mutex_lock(&j->mutex);
    bool first = j->queue == NULL;
    if (first)
        j->since = monotonic();
    *j->queue_tail = w;
    j->queue_tail = &w->next;
    j->urgent += w->urgent;
    (void)pthread_mutex_unlock(&j->mutex);
    if (first || w->urgent) /* without the mutex, which the thread wants first */
        (void)pthread_cond_signal(&j->asked);
    return 0;
}

/* It ends without an answer. If the thread has it, it is freed when it comes back. */
static void ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct journal *j = of_ledger(l);
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    if (err == ROTA_INVALID)
        (void)rt_journal_ask_foreign(&j->desk, a);
    else if (err == ROTA_PROTOCOL)
        (void)rt_words_fail(&j->base.base, err, "%s", j->stopped_why);
    else
        (void)rt_ledger_say(l, e, err, why, "the journal's file", j->db.shown, "");
    rt_journal_ask_tell(&j->desk, a, err);
    if (a->extra == NULL)
        rt_journal_ask_free(a);
}

static const struct rt_ledger_user ledger_user = {.send = send_ask, .ended = ended};

static void stop(struct journal *j, const char *why)
{
    if (j->stopped)
        return;
    j->stopped = true;
    snprintf(j->stopped_why, sizeof(j->stopped_why), "%s", why);
    rt_words_log(&j->base.base, ROTA_LOG_ERROR, "%s", why);
}

static void tell(struct journal *j, struct work *w)
{
    int err = w->err;
    snprintf(j->base.base.errmsg, sizeof(j->base.base.errmsg), "%s", w->why);
    if (w->stops)
        stop(j, w->why);
    if (w->ask->op != NULL) {
        rt_ledger_out(&w->ask->entry);
        if (w->shows)
            err = rt_rows_show(w->ask, &w->book, &j->base.base);
        rt_journal_ask_tell(&j->desk, w->ask, err);
    }
    work_free(w);
}

static void on_bell(struct rt_watch *watch, bool readable, bool writable)
{
    struct journal *j = ((struct bell *)(void *)watch)->j;
    uint64_t count;
    (void)readable;
    (void)writable;
    if (read(j->bell->fd, &count, sizeof(count)) < 0) {
        /* nothing rang: look anyway */
    }
    (void)pthread_mutex_lock(&j->mutex);
    struct work *w = j->answers;
    j->answers = NULL;
    j->answers_tail = &j->answers;
    (void)pthread_mutex_unlock(&j->mutex);
    for (struct work *next; w != NULL; w = next) {
        next = w->next;
        tell(j, w);
    }
}

static void submit(struct rt_journal *base, struct rt_journal_op *op)
{
    rt_journal_desk_submit(&of(base)->desk, op);
}

/* ---- Life --------------------------------------------------------------------------------------------------- */

static void bell_closed(struct rt_watch *watch)
{
    rt_free((struct bell *)(void *)watch);
}

static void close_bell(struct journal *j)
{
    int fd = j->bell->fd;
    rt_watch_stop(&j->bell->watch, bell_closed);
    (void)close(fd);
    j->bell = NULL;
}

static int open_bell(struct journal *j)
{
    struct bell *b = rt_alloc(sizeof(*b));
    if (b == NULL)
        return rt_words_nomem(&j->base.base);
    b->j = j;
    b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->fd < 0 || rt_watch_start(j->base.base.loop, &b->watch, b->fd, on_bell) != 0) {
        if (b->fd >= 0)
            (void)close(b->fd);
        rt_free(b);
        return rt_words_fail(&j->base.base, ROTA_UNREACHABLE,
                             "no descriptor left for the journal: raise the limit (ulimit -n)");
    }
    rt_watch_want(&b->watch, true, false);
    j->bell = b;
    return 0;
}

/* No thread of ours handles the program's signals. */
static int start_thread(struct journal *j)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rv = pthread_create(&j->thread, NULL, run, j);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    j->running = rv == 0;
    if (j->running)
        (void)pthread_setname_np(j->thread, "rota-journal");
    return rv == 0 ? 0
                   : rt_words_fail(&j->base.base, ROTA_UNREACHABLE,
                                   "cannot start a thread for the journal: %s", strerror(rv));
}

/* The folder is found, made and refused just like the lock engine's. */
static int open_file(struct journal *j, const struct rt_url *url)
{
    struct rt_file_conn *place = rt_alloc(sizeof(*place));
    if (place == NULL)
        return rt_words_nomem(&j->base.base);
    place->dir = place->sdir = -1;
    int rv = rt_file_path_folder(place, url->path, rt_url_param(url, "mode", NULL));
    if (rv != 0) {
        if (rv == ROTA_NOMEM)
            (void)rt_words_nomem(&place->base);
        snprintf(j->base.base.errmsg, sizeof(j->base.base.errmsg), "%s", place->base.errmsg);
    } else {
        j->db.say = &j->base.base;
        j->db.until = rt_loop_clock() + (int64_t)j->base.base.call_ms * RT_MS;
        snprintf(j->db.shown, sizeof(j->db.shown), "%s", place->shown);
        snprintf(j->base.base.unsafe, sizeof(j->base.base.unsafe), "%s", place->base.unsafe);
        rv = rt_jfile_db_open(&j->db, place->dir, place->folder, place->mode);
    }
    rt_file_path_close(place);
    rt_free(place);
    return rv;
}

static void free_entry(struct rt_ledger *l, struct rt_entry *e)
{
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    (void)l;
    if (a->extra == NULL)
        rt_journal_ask_free(a);
    else
        a->op = NULL; /* its work is freed below */
}

static void free_list(struct work *w)
{
    for (struct work *next; w != NULL; w = next) {
        next = w->next;
        work_free(w);
    }
}

static void close_journal(struct rt_journal *base)
{
    struct journal *j = of(base);
    (void)pthread_mutex_lock(&j->mutex);
    atomic_store(&j->leaving, true);
    (void)pthread_cond_signal(&j->asked);
    (void)pthread_mutex_unlock(&j->mutex);
    if (j->running)
        (void)pthread_join(j->thread, NULL);
    rt_journal_desk_fini(&j->desk, free_entry);
    free_list(j->queue);
    free_list(j->answers);
    if (j->bell != NULL)
        close_bell(j);
    rt_jfile_db_close(&j->db);
    (void)pthread_cond_destroy(&j->asked);
    (void)pthread_mutex_destroy(&j->mutex);
}

static int open_journal(struct rt_journal *base, const struct rt_url *url)
{
    struct journal *j = of(base);
    int rv = rt_journal_desk_init(&j->desk, base, &ledger_user);
    if (rv != 0)
        return rv;
    (void)pthread_mutex_init(&j->mutex, NULL);
    (void)pthread_cond_init(&j->asked, NULL);
    j->queue_tail = &j->queue;
    j->answers_tail = &j->answers;
    rv = open_file(j, url);
    j->desk.number = j->db.number;
    j->db.leaving = &j->leaving;
    if (rv == 0)
        rv = open_bell(j);
    j->db.say = &j->thread_says;
    if (rv == 0)
        rv = start_thread(j);
    if (rv != 0)
        close_journal(base);
    return rv;
}

/* The thread and the database are the parent's: neither is touched here (fork.c closes what was inherited), and nothing
 * more can be asked. */
static void forked(struct rt_journal *base)
{
    struct journal *j = of(base);
    (void)pthread_mutex_init(&j->mutex, NULL); /* the thread may have held it */
    (void)pthread_cond_init(&j->asked, NULL);
    j->stopped = true;
    j->running = false;
    snprintf(j->stopped_why, sizeof(j->stopped_why),
             "this process is a fork: open a journal of its own");
}

static const char *const schemes[] = {"file", NULL};
static const char *const params[] = {"mode", NULL};

const struct rt_journal_kind rt_journal_file = {
    .name = "file",
    .schemes = schemes,
    .params = params,
    .size = sizeof(struct journal),
    .open = open_journal,
    .close = close_journal,
    .submit = submit,
    .forked = forked,
};
