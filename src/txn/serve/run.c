/* SPDX-License-Identifier: Apache-2.0 */
/* Entries, and the workers that move them on. */
#include "txn/serve/serve.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/http/payload.h"
#include "txn/point.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUEST_S 3     /* how long a service may take: DTM's */
#define JOURNAL_MS 1000 /* until we ask the journal again */
#define URL_MAX 4096

struct flight { /* one HTTP call of an entry */
    struct rt_service_call call;
    struct rt_served *e;
    size_t step;
    bool back, query;
    void *bytes; /* its payload */
};

int64_t rt_serve_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct rt_txn_id rt_serve_id(const struct rt_serve *s, const char *gid)
{
    struct rt_txn_id id;

    if (rt_txn_id_read(gid, &id) && rt_txn_id_journal(&id) == s->number)
        return id;
    return rt_txn_id_named(s->number, gid, strlen(gid));
}

void rt_serve_log(struct rt_serve *s, int level, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (s->log != NULL)
        s->log(level, line);
}

/* ---- The table and the heap of times ----------------------------------------------------- */

static struct rt_served **chain_of(struct rt_serve *s, const struct rt_txn_id *id)
{
    return &s->chains[rt_txn_id_part(id, 10, 6) % RT_SERVE_CHAINS];
}

static struct rt_served *find(struct rt_serve *s, const struct rt_txn_id *id)
{
    struct rt_served *e = *chain_of(s, id);

    while (e != NULL && !rt_txn_id_same(&e->id, id))
        e = e->next;
    return e;
}

static void put_at(struct rt_serve *s, size_t slot, struct rt_served *e)
{
    s->heap[slot - 1] = e;
    e->slot = (uint32_t)slot;
}

static void sift(struct rt_serve *s, size_t slot)
{
    struct rt_served *e = s->heap[slot - 1];

    for (; slot > 1 && s->heap[slot / 2 - 1]->at_ms > e->at_ms; slot /= 2)
        put_at(s, slot, s->heap[slot / 2 - 1]);
    for (size_t child = 2 * slot; child <= s->heap_count; child = 2 * slot) {
        if (child < s->heap_count && s->heap[child]->at_ms < s->heap[child - 1]->at_ms)
            child++;
        if (s->heap[child - 1]->at_ms >= e->at_ms)
            break;
        put_at(s, slot, s->heap[child - 1]);
        slot = child;
    }
    put_at(s, slot, e);
}

static void unset_time(struct rt_serve *s, struct rt_served *e)
{
    size_t slot = e->slot;

    if (slot == 0)
        return;
    struct rt_served *last = s->heap[--s->heap_count];
    e->slot = 0;
    if (last != e) {
        put_at(s, slot, last);
        sift(s, slot);
    }
}

/* The heap has room for all entries. */
static void set_time(struct rt_serve *s, struct rt_served *e, int64_t at_ms)
{
    unset_time(s, e);
    if (at_ms == INT64_MAX)
        return;
    e->at_ms = at_ms;
    put_at(s, ++s->heap_count, e);
    sift(s, s->heap_count);
    pthread_cond_signal(&s->wake);
}

static void make_due(struct rt_serve *s, struct rt_served *e)
{
    if (e->busy) {
        e->again = true;
    } else if (!e->due && !e->gone) {
        e->due = true;
        e->next_due = NULL;
        *s->due_tail = e;
        s->due_tail = &e->next_due;
        pthread_cond_signal(&s->wake);
    }
}

static void free_entry(struct rt_served *e)
{
    rt_plan_free(&e->plan);
    free(e->course.steps);
    free(e);
}

static void tell_all(struct rt_served *e, const struct rt_course *c)
{
    while (e->waiters != NULL) {
        struct rt_serve_waiter *w = e->waiters;
        e->waiters = w->next;
        rt_serve_tell(w, c);
        free(w);
    }
}

/* The table no longer owns it: freed when nothing is under way. With the mutex. */
static void leave(struct rt_serve *s, struct rt_served *e)
{
    struct rt_served **at = chain_of(s, &e->id);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    s->count--;
    unset_time(s, e);
    e->gone = true;
    tell_all(e, &e->course);
}

static void let_go(struct rt_served *e)
{
    if (e->gone && e->refs == 0 && !e->busy && !e->due)
        free_entry(e);
}

bool rt_serve_has(struct rt_serve *s, const struct rt_txn_id *id, enum rt_plan_kind kind)
{
    pthread_mutex_lock(&s->mu);
    const struct rt_served *e = find(s, id);
    bool has = e != NULL && (kind == 0 || e->plan.kind == kind);
    pthread_mutex_unlock(&s->mu);
    return has;
}

bool rt_serve_drop(struct rt_serve *s, const struct rt_txn_id *id)
{
    pthread_mutex_lock(&s->mu);
    struct rt_served *e = find(s, id);
    bool open = e != NULL && e->course.stands == RT_JOURNAL_OPEN && !e->stale;
    bool waits = open && e->plan.kind != RT_PLAN_SAGA;
    bool idle = waits && !e->busy && !e->due && e->refs == 0;
    if (idle) {
        leave(s, e);
        let_go(e);
    } else if (open && !waits) {
        e->stale = true;
        make_due(s, e);
    }
    pthread_mutex_unlock(&s->mu);
    return idle;
}

bool rt_serve_progress(struct rt_serve *s, const struct rt_txn_id *id, struct rt_course_step *steps,
                       size_t count)
{
    pthread_mutex_lock(&s->mu);
    const struct rt_served *e = find(s, id);
    bool has = e != NULL && e->plan.count == count;
    if (has && count > 0)
        memcpy(steps, e->course.steps, count * sizeof(*steps));
    pthread_mutex_unlock(&s->mu);
    return has;
}

/* ---- Taking one ---------------------------------------------------------------------------- */

static struct rt_served *new_entry(struct rt_serve *s, const struct rt_txn_id *id,
                                   struct rt_plan *plan, enum rt_journal_stand stands)
{
    struct rt_served *e = calloc(1, sizeof(*e));
    struct rt_course_step *steps = calloc(plan->count + 1, sizeof(*steps));

    if (e != NULL && steps != NULL && s->heap_room < s->count + 1) {
        size_t room = s->heap_room == 0 ? 256 : 2 * s->heap_room;
        struct rt_served **heap = realloc((void *)s->heap, room * sizeof(struct rt_served *));
        s->heap = heap != NULL ? heap : s->heap;
        s->heap_room = heap != NULL ? room : s->heap_room;
    }
    if (e == NULL || steps == NULL || s->heap_room < s->count + 1) {
        free(e);
        free(steps);
        return NULL;
    }
    e->s = s;
    e->id = *id;
    e->plan = *plan;
    *plan = (struct rt_plan){.gid = ""};
    e->claim_ms = e->plan.created_ms + s->takeover_ms / 2;
    rt_course_init(&e->course, &e->plan, steps, stands);
    e->next = *chain_of(s, id);
    *chain_of(s, id) = e;
    s->count++;
    s->counts.begun++;
    return e;
}

/* For one that waited here for its decision (a tcc, whose branches others may have registered; a message), what was
 * read counts. */
static bool renew(struct rt_served *e, struct rt_plan *plan, enum rt_journal_stand stands)
{
    struct rt_course_step *steps;

    e->stale = true;
    if (e->course.stands != RT_JOURNAL_OPEN || e->plan.kind == RT_PLAN_SAGA || e->busy ||
        e->refs > 0)
        return true; /* it rereads what stands once nothing is under way */
    e->stale = false;
    steps = calloc(plan->count + 1, sizeof(*steps));
    if (steps == NULL)
        return false;
    rt_plan_free(&e->plan);
    free(e->course.steps);
    e->plan = *plan;
    *plan = (struct rt_plan){.gid = ""};
    rt_course_init(&e->course, &e->plan, steps, stands);
    return true;
}

bool rt_serve_take(struct rt_serve *s, const struct rt_txn_id *id, struct rt_plan *plan,
                   enum rt_journal_stand stands, const bool *registered,
                   struct rt_serve_waiter *waiter)
{
    pthread_mutex_lock(&s->mu);
    struct rt_served *e = find(s, id);
    bool is_new = e == NULL;
    bool good = is_new || stands == RT_JOURNAL_OPEN || renew(e, plan, stands);

    if (is_new) {
        e = new_entry(s, id, plan, stands);
        good = e != NULL;
        bool saga = good && registered != NULL && e->plan.kind == RT_PLAN_SAGA;
        for (size_t i = 0; saga && i < e->plan.count; i++)
            if (registered[i])
                rt_course_registered(&e->course, i);
    }
    if (good && s->stop && waiter != NULL) {
        rt_serve_tell(waiter, NULL);
        free(waiter);
    } else if (good) {
        if (waiter != NULL) {
            waiter->next = e->waiters;
            e->waiters = waiter;
        }
        make_due(s, e);
    }
    pthread_mutex_unlock(&s->mu);
    return good;
}

/* ---- Calling services ------------------------------------------------------------------------ */

static void encode(char *out, size_t size, const char *text)
{
    size_t n = strlen(out);

    for (; *text != '\0' && n + 4 < size; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                     strchr("-_.~", c) != NULL;
        n += (size_t)snprintf(out + n, size - n, plain ? "%c" : "%%%02X", c);
    }
}

/* URL?gid=&trans_type=&branch_id=&op= */
static void spell(char *out, const struct rt_served *e, const char *url, const char *branch,
                  const char *op)
{
    snprintf(out, URL_MAX, "%s%cgid=", url, strchr(url, '?') != NULL ? '&' : '?');
    encode(out, URL_MAX, e->plan.gid);
    size_t n = strlen(out);
    snprintf(out + n, URL_MAX - n, "&trans_type=%s&branch_id=", rt_plan_word(e->plan.kind));
    encode(out, URL_MAX, branch);
    n = strlen(out);
    snprintf(out + n, URL_MAX - n, "&op=%s", op);
}

static enum rt_course_reply meaning(const struct rt_service_call *c, char *why, size_t size)
{
    snprintf(why, size, "%s", c->errmsg);
    if (c->reply == RT_REPLY_LOST)
        return RT_COURSE_LOST;
    bool ongoing = c->reply == RT_REPLY_HELD ||
                   (c->body != NULL && strstr(c->body, "ONGOING") != NULL);
    bool failure = c->reply == RT_REPLY_NO ||
                   (c->body != NULL && strstr(c->body, "FAILURE") != NULL);
    if ((ongoing || failure) && why[0] == '\0')
        snprintf(why, size, "it answered %s: %.150s", ongoing ? "ONGOING" : "FAILURE", c->body);
    return ongoing ? RT_COURSE_ONGOING : failure ? RT_COURSE_NO : RT_COURSE_YES;
}

static const char *op_word(enum rt_plan_kind kind, bool back)
{
    if (kind == RT_PLAN_TCC)
        return back ? "cancel" : "confirm";
    return back ? "compensate" : "action";
}

/* What a person is told: which transaction, which call. */
struct cry {
    char gid[RT_TXN_NAME_MAX + 1], id[RT_TXN_ID_TEXT], branch[RT_PLAN_BRANCH_MAX + 16];
};

/* With the mutex. */
static void note_cry(struct cry *cry, const struct flight *f)
{
    const struct rt_served *e = f->e;

    snprintf(cry->gid, sizeof(cry->gid), "%s", e->plan.gid);
    rt_txn_id_text(&e->id, cry->id);
    if (f->query)
        snprintf(cry->branch, sizeof(cry->branch), "query_prepared");
    else
        snprintf(cry->branch, sizeof(cry->branch), "%s %s", e->plan.steps[f->step].id,
                 op_word(e->plan.kind, f->back));
}

/* Without it. */
static void call_person(struct rt_serve *s, const struct cry *cry, enum rt_course_reply reply,
                        const char *why)
{
    char line[RT_SERVICE_LINE + 64];

    snprintf(line, sizeof(line), "%s %d times, will be tried again: %s",
             reply == RT_COURSE_ONGOING ? "was in progress" : "failed", RT_COURSE_ATTENTION, why);
    rt_serve_log(s, ROTA_LOG_WARN, "gid %s: %s: %s", cry->gid, cry->branch, line);
    if (s->attention != NULL)
        s->attention(cry->id, cry->branch, line);
}

/* F's answer, on the calls' thread or, where no call was needed, on our own. */
static void landed(struct flight *f, enum rt_course_reply reply, const char *why)
{
    struct rt_served *e = f->e;
    struct rt_serve *s = e->s;
    int64_t now = rt_serve_now_ms();
    struct cry cry;
    bool attention = false;

    pthread_mutex_lock(&s->mu);
    s->counts.calls++;
    s->counts.lost += reply == RT_COURSE_LOST;
    if (f->query)
        attention = rt_course_queried(&e->course, reply, why, now);
    else
        attention = rt_course_answered(&e->course, f->step, f->back, reply, why, now);
    s->counts.attention += attention;
    attention = attention && !e->gone; /* a person has finished it */
    if (attention)
        note_cry(&cry, f);
    e->refs--;
    make_due(s, e);
    let_go(e);
    pthread_mutex_unlock(&s->mu);
    if (attention)
        call_person(s, &cry, reply, why);
    rt_free(f->call.body);
    free(f->bytes);
    free(f);
}

static void on_done(struct rt_service_call *call)
{
    struct flight *f = call->user;
    char why[RT_SERVICE_LINE];
    enum rt_course_reply reply = meaning(call, why, sizeof(why));

    rt_point("dtm-answered");
    landed(f, reply, why);
}

/* The bytes that the HTTP client reads. NULL: no memory, or WHY. */
static void *payload_of(const char *url, const char *data, size_t *size, char *why, size_t why_size)
{
    struct rt_http_payload p = {.urls = {url, "", ""},
                                .type = data[0] != '\0' ? "application/json" : "",
                                .body = data,
                                .size = strlen(data)};

    snprintf(why, why_size, "out of memory");
    if (rt_http_payload_check(&p, size, why, why_size) != 0)
        return NULL;
    void *out = malloc(*size);
    if (out != NULL)
        rt_http_payload_write(&p, out);
    return out;
}

static void lose(struct rt_served *e, const struct rt_course_todo *todo)
{
    int64_t now = rt_serve_now_ms();

    pthread_mutex_lock(&e->s->mu);
    e->refs--;
    if (todo->what == RT_COURSE_QUERY)
        (void)rt_course_queried(&e->course, RT_COURSE_LOST, "out of memory", now);
    else
        (void)rt_course_answered(&e->course, todo->step, todo->back, RT_COURSE_LOST,
                                 "out of memory", now);
    pthread_mutex_unlock(&e->s->mu);
}

/* Without the mutex; e->refs holds it. */
static void call(struct rt_served *e, const struct rt_course_todo *todo)
{
    bool query = todo->what == RT_COURSE_QUERY;
    const struct rt_plan_step *step = query ? NULL : &e->plan.steps[todo->step];
    const char *url = query ? e->plan.query : todo->back ? step->back : step->forward;
    char where[URL_MAX], why[RT_SERVICE_LINE] = "out of memory";
    struct flight *f = calloc(1, sizeof(*f));

    if (f == NULL) {
        lose(e, todo);
        return;
    }
    f->e = e;
    f->step = todo->step;
    f->back = todo->back;
    f->query = query;
    if (url[0] == '\0') {
        landed(f, RT_COURSE_YES, "");
        return;
    }
    spell(where, e, url, query ? "00" : step->id,
          query ? "msg" : op_word(e->plan.kind, todo->back));
    f->call = (struct rt_service_call){.op = RT_SERVICE_TRY, .done = on_done, .user = f};
    f->call.name.id = e->id;
    f->call.resource = RT_SERVE_RESOURCE;
    f->call.headers = e->plan.headers;
    f->call.bare = true;
    f->call.deadline = rt_loop_clock() +
                       (e->plan.request_s != 0 ? e->plan.request_s : REQUEST_S) * 1000 * RT_MS;
    f->bytes = payload_of(where, query ? "" : step->data, &f->call.size, why, sizeof(why));
    f->call.payload = f->bytes;
    rt_point("dtm-calls");
    if (f->call.payload == NULL || rt_http_calls_ask(e->s->calls, &f->call) != 0)
        landed(f, RT_COURSE_LOST, why);
}

/* ---- A worker's turn ---------------------------------------------------------------------------- */

/* A saga that another server has worked on, too: every step that any server registered may have run. Once it is decided
 * no more are registered. */
static void take_steps(struct rt_served *e, const struct rt_serve_row *row)
{
    for (size_t i = 0; row->steps != NULL && i < e->plan.count && i < row->plan.count; i++)
        if (row->steps[i])
            rt_course_registered(&e->course, i);
    if (row->stands == RT_JOURNAL_COMMIT || row->stands == RT_JOURNAL_ABORT)
        rt_course_decided(&e->course, row->stands);
}

/* One that waited here for its decision, which stands now: what was read counts. With the mutex. */
static int begin_again(struct rt_served *e, struct rt_serve_row *row)
{
    struct rt_course_step *steps = calloc(row->plan.count + 1, sizeof(*steps));
    char reason[RT_PLAN_LINE];

    if (steps == NULL)
        return ROTA_NOMEM;
    memcpy(reason, e->course.reason, sizeof(reason));
    rt_plan_free(&e->plan);
    free(e->course.steps);
    e->plan = row->plan;
    row->plan = (struct rt_plan){.gid = ""};
    rt_course_init(&e->course, &e->plan, steps, row->stands);
    memcpy(e->course.reason, reason, sizeof(reason));
    return 0;
}

/* A tcc and a message get another plan with their decision: not while a call (a back-check) is under way. */
static bool may_reread(const struct rt_served *e)
{
    return e->refs == 0 || e->plan.kind == RT_PLAN_SAGA || e->course.stands != RT_JOURNAL_OPEN;
}

/* Reads what others have registered since, decided or finished. */
static int reread(struct rt_served *e)
{
    struct rt_serve_row row;
    int err = rt_serve_read(e->s, &e->id, &row);

    if (err == 0 && row.damaged) {
        rt_serve_log(e->s, ROTA_LOG_WARN, "gid %s: what the journal has is not ours: %s",
                     e->plan.gid, row.line);
        err = ROTA_PROTOCOL;
    }
    pthread_mutex_lock(&e->s->mu);
    bool over = row.done || row.stands == RT_JOURNAL_ABSENT || row.stands == RT_JOURNAL_EXPIRED;
    bool waited = e->plan.kind != RT_PLAN_SAGA && e->course.stands == RT_JOURNAL_OPEN;
    bool decided = row.stands == RT_JOURNAL_COMMIT || row.stands == RT_JOURNAL_ABORT;
    if (err == 0 && decided && row.planned && waited && e->refs == 0)
        err = begin_again(e, &row);
    if (err == 0) {
        e->stale = e->stale && !may_reread(e); /* a call left meanwhile */
        if (e->plan.kind == RT_PLAN_SAGA)
            take_steps(e, &row);
        rt_course_looked(&e->course);
        if (over)
            rt_course_finished(&e->course);
    }
    pthread_mutex_unlock(&e->s->mu);
    rt_serve_row_free(&row);
    return err;
}

static int do_register(struct rt_served *e, enum rt_journal_stand *stands, bool *steps)
{
    pthread_mutex_lock(&e->s->mu);
    for (size_t i = 0; i < e->plan.count; i++)
        steps[i] = !e->course.steps[i].registered && rt_course_may_run(&e->course, i);
    pthread_mutex_unlock(&e->s->mu);
    return rt_serve_register_steps(e->s, &e->id, &e->plan, steps, stands);
}

static int turn_register(struct rt_served *e)
{
    enum rt_journal_stand stands;
    bool *steps = calloc(e->plan.count + 1, sizeof(*steps));
    int err = steps != NULL ? do_register(e, &stands, steps) : ROTA_NOMEM;

    pthread_mutex_lock(&e->s->mu);
    for (size_t i = 0; err == 0 && stands == RT_JOURNAL_OPEN && i < e->plan.count; i++)
        if (steps[i])
            rt_course_registered(&e->course, i);
    if (err == 0 && stands == RT_JOURNAL_EXPIRED)
        rt_course_finished(&e->course);
    pthread_mutex_unlock(&e->s->mu);
    free(steps);
    bool decided = err == 0 && (stands == RT_JOURNAL_COMMIT || stands == RT_JOURNAL_ABORT);
    return decided ? reread(e) : err;
}

static int turn_decide(struct rt_served *e, bool commit)
{
    enum rt_journal_stand stands;
    uint32_t registered = RT_PLAN_STEPS_MAX + 1; /* a saga's own steps, a message's plan */
    int err = rt_serve_decide(e->s, &e->id, e->plan.gid, commit, NULL, e->plan.created_ms,
                              &registered, &stands);

    if (err != 0)
        return err;
    /* A tcc's branches, a saga's steps that another server registered, and what that server did meanwhile. */
    if (e->plan.kind != RT_PLAN_SAGA || stands == RT_JOURNAL_ABORT)
        return reread(e);
    pthread_mutex_lock(&e->s->mu);
    if (stands == RT_JOURNAL_EXPIRED || stands == RT_JOURNAL_ABSENT)
        rt_course_finished(&e->course);
    else
        rt_course_decided(&e->course, stands);
    pthread_mutex_unlock(&e->s->mu);
    return 0;
}

static int turn_finish(struct rt_served *e)
{
    int err = rt_serve_finish(e->s, &e->id);

    if (err != 0)
        return err;
    pthread_mutex_lock(&e->s->mu);
    rt_course_finished(&e->course);
    e->s->counts.committed += e->course.stands == RT_JOURNAL_COMMIT;
    e->s->counts.aborted += e->course.stands == RT_JOURNAL_ABORT;
    pthread_mutex_unlock(&e->s->mu);
    return 0;
}

/* Claims E once it takes so long that others would think it abandoned. Nobody may claim what is over: another server, or
 * a person (resolve --done), has finished it. With the mutex, which is released meanwhile. */
static void claim(struct rt_serve *s, struct rt_served *e, int64_t now)
{
    if (now < e->claim_ms)
        return;
    e->claim_ms = now + s->takeover_ms / 2;
    pthread_mutex_unlock(&s->mu);
    int err = rt_serve_claim(s, &e->id, (uint32_t)(2 * s->takeover_ms));
    pthread_mutex_lock(&s->mu);
    e->stale = e->stale || err == ROTA_LOST;
}

/* True: there is more. With the mutex, and e->busy. */
static bool turn(struct rt_serve *s, struct rt_served *e)
{
    int64_t now = rt_serve_now_ms();
    int err = 0;

    claim(s, e, now);
    struct rt_course_todo todo = {.what = RT_COURSE_LOOK};
    if (!e->stale || !may_reread(e))
        todo = rt_course_next(&e->course, now);
    if (todo.what == RT_COURSE_OVER) {
        leave(s, e);
        return false;
    }
    if (e->course.stalled)
        tell_all(e, &e->course);
    if (todo.what == RT_COURSE_WAIT) {
        set_time(s, e, todo.until_ms < e->claim_ms ? todo.until_ms : e->claim_ms);
        return false;
    }
    e->refs += todo.what == RT_COURSE_CALL || todo.what == RT_COURSE_QUERY;
    pthread_mutex_unlock(&s->mu);
    if (todo.what == RT_COURSE_CALL || todo.what == RT_COURSE_QUERY)
        call(e, &todo);
    else if (todo.what == RT_COURSE_LOOK)
        err = reread(e);
    else if (todo.what == RT_COURSE_REGISTER)
        err = turn_register(e);
    else if (todo.what == RT_COURSE_DECIDE)
        err = turn_decide(e, todo.commit);
    else
        err = turn_finish(e);
    if (err != 0)
        rt_serve_log(s, ROTA_LOG_WARN, "gid %s: the journal: %s", e->plan.gid,
                     rota_txn_errmsg(s->m));
    pthread_mutex_lock(&s->mu);
    if (err != 0)
        set_time(s, e, now + JOURNAL_MS);
    return err == 0;
}

static void serve_one(struct rt_serve *s, struct rt_served *e)
{
    e->busy = true;
    do {
        e->again = false;
        while (!s->stop && turn(s, e)) {
        }
    } while (e->again && !e->gone && !s->stop);
    e->busy = false;
    let_go(e);
}

static struct rt_served *take_due(struct rt_serve *s)
{
    struct rt_served *e = s->due;

    if (e == NULL)
        return NULL;
    s->due = e->next_due;
    if (s->due == NULL)
        s->due_tail = &s->due;
    e->due = false;
    return e;
}

static void wait_for_work(struct rt_serve *s)
{
    struct timespec until;

    if (s->heap_count == 0) {
        (void)pthread_cond_wait(&s->wake, &s->mu);
        return;
    }
    int64_t at = s->heap[0]->at_ms;
    until.tv_sec = (time_t)(at / 1000);
    until.tv_nsec = (long)(at % 1000) * 1000000;
    (void)pthread_cond_timedwait(&s->wake, &s->mu, &until);
}

static void *work(void *serve)
{
    struct rt_serve *s = serve;

    pthread_mutex_lock(&s->mu);
    while (!s->stop) {
        int64_t now = rt_serve_now_ms();
        while (s->heap_count > 0 && s->heap[0]->at_ms <= now) {
            struct rt_served *e = s->heap[0];
            unset_time(s, e);
            make_due(s, e);
        }
        struct rt_served *e = take_due(s);
        if (e == NULL)
            wait_for_work(s);
        else if (e->gone)
            let_go(e);
        else
            serve_one(s, e);
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------------ */

int rt_serve_start(struct rt_serve *s)
{
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->stopping, NULL);
    s->due_tail = &s->due;
    for (; s->worker_count < sizeof(s->workers) / sizeof(s->workers[0]); s->worker_count++)
        if (pthread_create(&s->workers[s->worker_count], NULL, work, s) != 0)
            return s->worker_count > 0 ? 0 : ROTA_NOMEM;
    s->watches = pthread_create(&s->watcher, NULL, rt_serve_watch, s) == 0;
    return s->watches ? 0 : ROTA_NOMEM;
}

void rt_serve_stop(struct rt_serve *s)
{
    pthread_mutex_lock(&s->mu);
    s->stop = true;
    pthread_cond_broadcast(&s->wake);
    pthread_cond_broadcast(&s->stopping);
    pthread_mutex_unlock(&s->mu);
    for (size_t i = 0; i < s->worker_count; i++)
        pthread_join(s->workers[i], NULL);
    if (s->watches)
        pthread_join(s->watcher, NULL);
    pthread_mutex_lock(&s->mu);
    for (size_t i = 0; i < RT_SERVE_CHAINS; i++)
        for (struct rt_served *e = s->chains[i]; e != NULL; e = e->next)
            tell_all(e, NULL);
    pthread_mutex_unlock(&s->mu);
}

void rt_serve_free(struct rt_serve *s)
{
    rt_http_calls_close(s->calls);
    for (size_t i = 0; i < RT_SERVE_CHAINS; i++)
        while (s->chains[i] != NULL) {
            struct rt_served *e = s->chains[i];
            s->chains[i] = e->next;
            tell_all(e, NULL);
            free_entry(e);
        }
    free((void *)s->heap);
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->wake);
    pthread_cond_destroy(&s->stopping);
}
