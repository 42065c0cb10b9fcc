/* SPDX-License-Identifier: Apache-2.0 */
/* DTM's HTTP interface: what is asked, what the journal says about it, what is answered. */
#include "txn/serve/serve.h"

#include "base/bug.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define BASE "/api/dtmsvr/"
#define DECIDE_AGAIN 5 /* times that branches may be registered meanwhile */

/* ---- Answers ------------------------------------------------------------------------------ */

static void send_json(struct rt_http_request *r, int status, json_t *body)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text == NULL)
        rt_http_request_answer(r, 500, NULL, "", 0);
    else
        rt_http_request_answer(r, status, "application/json", text, strlen(text));
    free(text);
}

/* NULL: no memory. */
static json_t *text_json(const char *text)
{
    json_t *out = json_string(text);

    return out != NULL ? out : json_string("it has bytes that are not UTF-8");
}

static void succeed(struct rt_http_request *r)
{
    static const char text[] = "{\"dtm_result\":\"SUCCESS\"}";

    rt_http_request_answer(r, 200, "application/json", text, sizeof(text) - 1);
}

__attribute__((format(printf, 3, 4))) static void refuse(struct rt_http_request *r, int status,
                                                         const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    json_t *text = text_json(line);
    if (status == 409)
        send_json(r, status, json_pack("{s:s, s:o}", "dtm_result", "FAILURE", "message", text));
    else if (status == 425)
        send_json(r, status, json_pack("{s:s, s:o}", "dtm_result", "ONGOING", "message", text));
    else
        send_json(r, status, json_pack("{s:o}", "message", text));
}

/* The journal did not answer, or said no. */
static void refuse_journal(struct rt_serve *s, struct rt_http_request *r, int err)
{
    if (err == ROTA_INVALID) /* the rest was checked before */
        refuse(
            r, 400,
            "too large: the journal keeps at most %d bytes of steps and data at once; send less, "
            "or where it is (%s)",
            RT_JOURNAL_BYTES_MAX, rota_txn_errmsg(s->m));
    else
        refuse(r, 500, "the journal: %s",
               err == ROTA_NOMEM ? "out of memory" : rota_txn_errmsg(s->m));
}

void rt_serve_tell(struct rt_serve_waiter *w, const struct rt_course *c)
{
    struct rt_http_request *r = w->request;

    if (c == NULL) {
        refuse(r, 500, "this server is ending; ask another one what became of it");
        return;
    }
    bool good = c->done && (c->stands == RT_JOURNAL_COMMIT) == w->submits;
    if (good)
        succeed(r);
    else if (!c->done && c->plan->kind == RT_PLAN_TCC && c->stalled_by == RT_COURSE_ONGOING)
        refuse(r, 425, "%s ONGOING", c->reason);
    else if (!c->done && c->plan->kind != RT_PLAN_SAGA && c->stalled_by != RT_COURSE_ONGOING)
        refuse(r, 500, "it will be asked again: %s", c->reason);
    else
        refuse(r, 409, "%s FAILURE",
               c->reason[0] != '\0' ? c->reason : "wait result not return success:");
}

/* As DTM names them. */
static const char *status_of(const struct rt_serve_row *row)
{
    switch (row->stands) {
    case RT_JOURNAL_COMMIT:
        return row->done ? "succeed" : "submitted";
    case RT_JOURNAL_ABORT:
        return row->done ? "failed" : "aborting";
    case RT_JOURNAL_OPEN:
        return row->planned && row->plan.kind == RT_PLAN_SAGA ? "submitted" : "prepared";
    default:
        return "";
    }
}

/* ---- Reading requests ----------------------------------------------------------------------- */

/* Whether GID is not the id of a transaction that a program began through the library, whose row may be there, or may
 * yet come. False: R was answered. */
static bool may_be_ours(struct rt_serve *s, struct rt_http_request *r, const char *gid)
{
    struct rt_txn_id id = rt_serve_id(s, gid);

    if (!rt_txn_id_by_library(&id))
        return true;
    refuse(
        r, 400,
        "gid %.40s is an id of this journal that newGid has not given: it is for a transaction of the "
        "library; take a gid from newGid, or a text of your own",
        gid);
    return false;
}

static bool read_plan(struct rt_serve *s, struct rt_http_request *r, struct rt_plan *plan)
{
    char why[RT_PLAN_LINE];

    pthread_mutex_lock(&s->mu);
    s->counts.requests++;
    pthread_mutex_unlock(&s->mu);
    if (!rt_plan_read(plan, r->body, r->size, rt_serve_now_ms(), why)) {
        refuse(r, 400, "%s", why);
        return false;
    }
    if (may_be_ours(s, r, plan->gid))
        return true;
    rt_plan_free(plan);
    return false;
}

/* created_ms is ours to say. */
static void own_time(struct rt_plan *plan)
{
    plan->created_ms = rt_serve_now_ms();
    (void)json_object_set_new(plan->json, "created_ms", json_integer(plan->created_ms));
}

/* True: it is there. Else it was answered, and ROW is freed. */
static bool read_row(struct rt_serve *s, struct rt_http_request *r, const struct rt_txn_id *id,
                     struct rt_serve_row *row)
{
    int err = rt_serve_read(s, id, row);

    if (err == 0 && !row->damaged && row->stands != RT_JOURNAL_EXPIRED)
        return true;
    if (err != 0)
        refuse_journal(s, r, err);
    else if (row->damaged)
        refuse(r, 409,
               "this gid is that of another transaction in this journal, not of rota-txn serve");
    else
        refuse(r, 409, "this gid is older than what the journal keeps FAILURE");
    rt_serve_row_free(row);
    return false;
}

static struct rt_serve_waiter *waiter(struct rt_http_request *r, bool submits)
{
    struct rt_serve_waiter *w = calloc(1, sizeof(*w));

    if (w != NULL)
        *w = (struct rt_serve_waiter){.request = r, .submits = submits};
    return w;
}

/* Moves the transaction on, and answers R: at once, or when the transaction is over. */
static void go_on(struct rt_serve *s, struct rt_http_request *r, const struct rt_txn_id *id,
                  struct rt_plan *plan, enum rt_journal_stand stands, const bool *steps, bool wait,
                  bool submits)
{
    struct rt_serve_waiter *w = wait ? waiter(r, submits) : NULL;

    if ((wait && w == NULL) || !rt_serve_take(s, id, plan, stands, steps, w)) {
        free(w);
        refuse(r, 500, "out of memory: another server, or this one later, goes on with it");
    } else if (!wait) {
        succeed(r);
    }
}

/* ---- prepare, registerBranch ------------------------------------------------------------------- */

static void prepare(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    struct rt_plan plan;
    struct rt_serve_row row;
    enum rt_journal_stand stands;

    if (!read_plan(s, r, &plan))
        return;
    struct rt_txn_id id = rt_serve_id(s, plan.gid);
    own_time(&plan);
    if (plan.kind == RT_PLAN_SAGA) {
        refuse(r, 400, "a saga is submitted, not prepared");
    } else if (plan.kind == RT_PLAN_MSG && plan.query[0] == '\0') {
        refuse(r, 400,
               "query_prepared is missing: who is asked whether the message is to be sent?");
    } else {
        int err = rt_serve_register_plan(s, &id, &plan, NULL, &stands);
        if (err != 0)
            refuse_journal(s, r, err);
        else if (stands == RT_JOURNAL_OPEN)
            go_on(s, r, &id, &plan, stands, NULL, false, true);
        else if (read_row(s, r, &id, &row)) {
            refuse(r, 409, "current status '%s', cannot prepare. FAILURE", status_of(&row));
            rt_serve_row_free(&row);
        }
    }
    rt_plan_free(&plan);
}

/* Only prepare makes a row: a branch must not. */
static bool is_prepared(struct rt_serve *s, struct rt_http_request *r, const struct rt_txn_id *id,
                        const char *gid)
{
    struct rt_serve_row row;

    if (rt_serve_has(s, id, RT_PLAN_TCC))
        return true;
    if (!read_row(s, r, id, &row))
        return false;
    bool is = row.stands == RT_JOURNAL_OPEN && row.planned && row.plan.kind == RT_PLAN_TCC;
    if (!is)
        refuse(r, 409, "no trans with gid: %s status: prepared found FAILURE", gid);
    rt_serve_row_free(&row);
    return is;
}

/* Another branch may have the same number, but only if branch_id is not a few digits. */
static bool is_there(struct rt_serve *s, const struct rt_txn_id *id,
                     const struct rt_plan_step *step)
{
    struct rt_serve_row row;
    bool is = false;

    if (step->number < 0x80000000u)
        return true;
    if (rt_serve_read(s, id, &row) == 0)
        for (size_t i = 0; i < row.plan.count; i++)
            is = is || strcmp(row.plan.steps[i].id, step->id) == 0;
    rt_serve_row_free(&row);
    return is;
}

static void register_step(struct rt_serve *s, struct rt_http_request *r, const char *gid,
                          const struct rt_plan_step *step)
{
    struct rt_txn_id id = rt_serve_id(s, gid);
    enum rt_journal_stand stands;

    if (!is_prepared(s, r, &id, gid))
        return;
    int err = rt_serve_register_branch(s, &id, step, rt_serve_now_ms(), &stands);
    if (err != 0)
        refuse_journal(s, r, err);
    else if (stands != RT_JOURNAL_OPEN)
        refuse(r, 409, "no trans with gid: %s status: prepared found FAILURE", gid);
    else if (!is_there(s, &id, step))
        refuse(r, 409, "branch_id '%s' cannot be told from another one: use digits FAILURE",
               step->id);
    else
        succeed(r);
}

static void register_branch(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    struct rt_plan one = {.kind = RT_PLAN_TCC, .gid = ""};
    struct timespec now;
    const char *gid;
    char why[RT_PLAN_LINE];

    clock_gettime(CLOCK_REALTIME, &now);
    int64_t us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    if (!rt_plan_add(&one, r->body, r->size, us, &gid, why)) {
        refuse(r, 400, "%s", why);
    } else {
        const char *kind = json_string_value(json_object_get(one.steps[0].json, "trans_type"));
        one.steps[0].at = us;
        (void)json_object_set_new(one.steps[0].json, "at", json_integer(us));
        if (kind == NULL || strcmp(kind, "tcc") != 0)
            refuse(r, 400, "trans_type '%.40s' has no branches to be registered here: only tcc",
                   kind != NULL ? kind : "");
        else if (may_be_ours(s, r, gid))
            register_step(s, r, gid, &one.steps[0]);
    }
    rt_plan_free(&one);
}

/* ---- submit, abort ------------------------------------------------------------------------------- */

static void submit_saga(struct rt_serve *s, struct rt_http_request *r, const struct rt_txn_id *id,
                        struct rt_plan *plan)
{
    enum rt_journal_stand stands;
    struct rt_course_step *steps = calloc(plan->count + 1, sizeof(*steps));
    bool *first = calloc(plan->count + 1, sizeof(*first));
    struct rt_course course;
    int err = ROTA_NOMEM;

    if (steps != NULL && first != NULL) {
        rt_course_init(&course, plan, steps, RT_JOURNAL_OPEN);
        for (size_t i = 0; i < plan->count; i++)
            first[i] = rt_course_may_run(&course, i);
        err = rt_serve_register_plan(s, id, plan, first, &stands);
    }
    if (err != 0)
        refuse_journal(s, r, err);
    else if (stands != RT_JOURNAL_OPEN)
        refuse(r, 409, "it was decided meanwhile, cannot sumbmit. FAILURE");
    else
        go_on(s, r, id, plan, stands, first, plan->wait, true);
    free(steps);
    free(first);
}

/* A message keeps the steps that it was prepared with; submit says how to deliver it. */
static bool merge(struct rt_serve_row *row, const struct rt_plan *asked)
{
    static const char *const keys[] = {"custom_data", "concurrent", "branch_headers",
                                       "request_timeout", "retry_interval"};
    char why[RT_PLAN_LINE];
    struct rt_plan merged;
    size_t size;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *v = json_object_get(asked->json, keys[i]);
        if (v != NULL && json_object_set(row->plan.json, keys[i], v) != 0)
            return false;
    }
    char *text = rt_plan_write(&row->plan, &size);
    bool good = text != NULL && rt_plan_read(&merged, text, size, row->plan.created_ms, why);
    free(text);
    if (good) {
        rt_plan_free(&row->plan);
        row->plan = merged;
    }
    return good;
}

/* ROW is OPEN or ABSENT; it is COMMIT after this, or R was answered. */
static bool commit(struct rt_serve *s, struct rt_http_request *r, const struct rt_txn_id *id,
                   struct rt_serve_row *row, const struct rt_plan *asked)
{
    for (int i = 0; i < DECIDE_AGAIN; i++) {
        bool msg = row->plan.kind == RT_PLAN_MSG;
        uint32_t registered = row->registered;
        if (msg && !merge(row, asked)) {
            refuse(r, 500, "out of memory");
            return false;
        }
        int err = rt_serve_decide(s, id, row->plan.gid, true, msg || i < 0 ? &row->plan : NULL,
                                  row->plan.created_ms, &registered, &row->stands);
        if (err != 0) {
            refuse_journal(s, r, err);
            return false;
        }
        if (row->stands == RT_JOURNAL_COMMIT)
            return true;
        rt_serve_row_free(row);
        if (!read_row(s, r, id, row))
            return false;
        if (row->stands != RT_JOURNAL_OPEN)
            break;
    }
    refuse(r, 409, "current status '%s', cannot sumbmit. FAILURE", status_of(row));
    return false;
}

static void submit(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    struct rt_plan plan;
    struct rt_serve_row row;

    if (!read_plan(s, r, &plan))
        return;
    struct rt_txn_id id = rt_serve_id(s, plan.gid);
    bool wait = plan.wait;
    own_time(&plan);
    if (!read_row(s, r, &id, &row)) {
        rt_plan_free(&plan);
        return;
    }
    bool there = row.planned;
    if (there && row.plan.kind != plan.kind) {
        refuse(r, 409, "this gid is that of a %s FAILURE", rt_plan_word(row.plan.kind));
    } else if (row.done || row.stands == RT_JOURNAL_ABORT) {
        refuse(r, 409, "current status '%s', cannot sumbmit. FAILURE", status_of(&row));
    } else if (plan.kind == RT_PLAN_SAGA && !there) {
        submit_saga(s, r, &id, &plan);
    } else if (plan.kind == RT_PLAN_SAGA || row.stands == RT_JOURNAL_COMMIT) {
        go_on(s, r, &id, &row.plan, row.stands, row.steps, wait, true);
    } else if (!there) { /* a message at once; a tcc without branches */
        enum rt_journal_stand stands;
        int err = rt_serve_register_plan(s, &id, &plan, NULL, &stands);
        rt_serve_row_free(&row);
        if (err != 0)
            refuse_journal(s, r, err);
        else if (read_row(s, r, &id, &row) && commit(s, r, &id, &row, &plan))
            go_on(s, r, &id, &row.plan, RT_JOURNAL_COMMIT, NULL, wait, true);
    } else if (RT_BUG(RT_BUG_SERVE_TOLD_FIRST) && !wait) {
        uint32_t registered = row.registered;
        succeed(r);
        (void)poll(NULL, 0,
                   300); /* the bug, at its worst: the answer is there, and COMMIT is not */
        if (rt_serve_decide(s, &id, row.plan.gid, true, NULL, row.plan.created_ms, &registered,
                            &row.stands) == 0)
            (void)rt_serve_take(s, &id, &row.plan, row.stands, NULL, NULL);
    } else if (commit(s, r, &id, &row, &plan)) {
        go_on(s, r, &id, &row.plan, RT_JOURNAL_COMMIT, NULL, wait, true);
    }
    rt_serve_row_free(&row);
    rt_plan_free(&plan);
}

static void abort_row(struct rt_serve *s, struct rt_http_request *r, const struct rt_txn_id *id,
                      struct rt_serve_row *row, bool wait)
{
    uint32_t registered = 0;
    enum rt_journal_stand stands;
    int err = rt_serve_decide(s, id, row->plan.gid, false, NULL, row->plan.created_ms, &registered,
                              &stands);

    if (err != 0) {
        refuse_journal(s, r, err);
        return;
    }
    if (stands != RT_JOURNAL_ABORT) {
        refuse(r, 409, "trans type: '%s' current status 'submitted', cannot abort. FAILURE",
               rt_plan_word(row->plan.kind));
        return;
    }
    rt_serve_row_free(row); /* with what was registered meanwhile */
    if (read_row(s, r, id, row))
        go_on(s, r, id, &row->plan, stands, NULL, wait, false);
}

static void abort_it(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    struct rt_plan plan;
    struct rt_serve_row row;

    if (!read_plan(s, r, &plan))
        return;
    struct rt_txn_id id = rt_serve_id(s, plan.gid);
    if (read_row(s, r, &id, &row)) {
        bool tcc = row.planned && row.plan.kind == RT_PLAN_TCC && plan.kind == RT_PLAN_TCC;
        bool msg = row.planned && row.plan.kind == RT_PLAN_MSG;
        if (row.stands == RT_JOURNAL_ABSENT)
            refuse(r, 500, "no TransGlobal with gid: %s found", plan.gid);
        else if (!row.done && ((tcc && row.stands != RT_JOURNAL_COMMIT) ||
                               (msg && row.stands == RT_JOURNAL_OPEN)))
            abort_row(s, r, &id, &row, plan.wait);
        else
            refuse(r, 409, "trans type: '%s' current status '%s', cannot abort. FAILURE",
                   row.planned ? rt_plan_word(row.plan.kind) : "", status_of(&row));
        rt_serve_row_free(&row);
    }
    rt_plan_free(&plan);
}

/* ---- newGid, query, metrics, the rest ----------------------------------------------------------- */

static void new_gid(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    uint64_t random = 0;
    char text[RT_TXN_ID_TEXT];

    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        refuse(r, 500, "no random numbers");
        return;
    }
    struct rt_txn_id id = rt_txn_id_make(s->number, rt_serve_now_ms(), random | RT_TXN_ID_SERVE);
    rt_txn_id_text(&id, text);
    send_json(r, 200, json_pack("{s:s, s:s}", "gid", text, "dtm_result", "SUCCESS"));
}

static void version(struct rt_http_request *r, void *arg)
{
    (void)arg;
    send_json(r, 200, json_pack("{s:s}", "version", "rota-txn " ROTA_VERSION));
}

/* CALL: how far this server has come with it; NULL: another server has it. OVER: the transaction is over, and this was
 * done. */
static json_t *branch_json(const struct rt_serve_row *row, const struct rt_plan_step *s, bool back,
                           bool over, const struct rt_course_call *call)
{
    bool tcc = row->plan.kind == RT_PLAN_TCC;
    bool done = over || (call != NULL && call->state == RT_COURSE_DONE);
    const char *status = done                                              ? "succeed"
                         : call != NULL && call->state == RT_COURSE_FAILED ? "failed"
                                                                           : "prepared";
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:s}", "gid", row->plan.gid, "branch_id", s->id,
                            "op",
                            tcc ? (back ? "cancel" : "confirm") : (back ? "compensate" : "action"),
                            "url", back ? s->back : s->forward, "status", status);

    if (out != NULL && call != NULL && call->asked > 0) {
        json_object_set_new(out, "asked", json_integer(call->asked));
        if (call->said[0] != '\0')
            json_object_set_new(out, "said", text_json(call->said));
    }
    return out;
}

static json_t *branches_json(struct rt_serve *serve, const struct rt_txn_id *id,
                             const struct rt_serve_row *row)
{
    json_t *all = json_array();
    struct rt_course_step *steps = calloc(row->plan.count + 1, sizeof(*steps));
    bool ours = steps != NULL && rt_serve_progress(serve, id, steps, row->plan.count);

    for (size_t i = 0; i < row->plan.count; i++) {
        const struct rt_plan_step *s = &row->plan.steps[i];
        bool saga = row->plan.kind == RT_PLAN_SAGA, msg = row->plan.kind == RT_PLAN_MSG;
        bool ran = !saga || (row->steps != NULL && row->steps[i]);
        bool commit = row->stands == RT_JOURNAL_COMMIT, over = row->done && ran;
        if (!msg)
            json_array_append_new(
                all, branch_json(row, s, true, over && !commit, ours ? &steps[i].back : NULL));
        json_array_append_new(
            all, branch_json(row, s, false, over && commit, ours ? &steps[i].forward : NULL));
    }
    free(steps);
    return all;
}

static void query(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    const char *gid = rt_http_request_query(r, "gid");
    struct rt_serve_row row;
    char why[RT_PLAN_LINE];

    if (gid == NULL || gid[0] == '\0') {
        refuse(r, 500, "no gid specified");
        return;
    }
    if (!rt_plan_gid(gid, why)) {
        refuse(r, 400, "%s", why);
        return;
    }
    struct rt_txn_id id = rt_serve_id(s, gid);
    int err = rt_serve_read(s, &id, &row);
    if (err != 0)
        refuse_journal(s, r, err);
    else if (!row.planned)
        send_json(r, 200, json_pack("{s:n, s:[]}", "transaction", "branches"));
    else
        send_json(r, 200,
                  json_pack("{s:{s:s, s:s, s:s, s:s}, s:o}", "transaction", "gid", row.plan.gid,
                            "trans_type", rt_plan_word(row.plan.kind), "status", status_of(&row),
                            "protocol", "http", "branches", branches_json(s, &id, &row)));
    rt_serve_row_free(&row);
}

static void metrics(struct rt_http_request *r, void *arg)
{
    struct rt_serve *s = arg;
    char text[2048];

    pthread_mutex_lock(&s->mu);
    int n = snprintf(
        text, sizeof(text),
        "# TYPE rota_txn_serve_open gauge\nrota_txn_serve_open %zu\n"
        "# TYPE rota_txn_serve_requests_total counter\nrota_txn_serve_requests_total %" PRIu64 "\n"
        "# TYPE rota_txn_serve_calls_total counter\nrota_txn_serve_calls_total %" PRIu64 "\n"
        "# TYPE rota_txn_serve_calls_lost_total counter\nrota_txn_serve_calls_lost_total %" PRIu64
        "\n"
        "# TYPE rota_txn_serve_succeed_total counter\nrota_txn_serve_succeed_total %" PRIu64 "\n"
        "# TYPE rota_txn_serve_failed_total counter\nrota_txn_serve_failed_total %" PRIu64 "\n"
        "# TYPE rota_txn_serve_taken_over_total counter\nrota_txn_serve_taken_over_total %" PRIu64
        "\n"
        "# TYPE rota_txn_attention_total counter\nrota_txn_attention_total %" PRIu64 "\n",
        s->count, s->counts.requests, s->counts.calls, s->counts.lost, s->counts.committed,
        s->counts.aborted, s->counts.taken_over, s->counts.attention);
    pthread_mutex_unlock(&s->mu);
    rt_http_request_answer(r, 200, "text/plain; version=0.0.4", text, (size_t)n);
}

static void not_here(struct rt_http_request *r, void *arg)
{
    (void)arg;
    refuse(r, 501,
           "not here: newGid, prepare, registerBranch, submit, abort and query are, for tcc, saga "
           "and msg over HTTP");
}

const struct rt_http_route *rt_serve_routes(struct rt_serve *s, size_t *count)
{
    static struct rt_http_route routes[] = {
        {.method = "GET", .path = BASE "newGid", .handle = new_gid, .quick = true},
        {.method = "POST", .path = BASE "prepare", .handle = prepare},
        {.method = "POST", .path = BASE "registerBranch", .handle = register_branch},
        {.method = "POST", .path = BASE "registerTccBranch", .handle = register_branch},
        {.method = "POST", .path = BASE "submit", .handle = submit},
        {.method = "POST", .path = BASE "abort", .handle = abort_it},
        {.method = "GET", .path = BASE "query", .handle = query},
        {.method = "GET", .path = BASE "version", .handle = version, .quick = true},
        {.method = "GET", .path = "/api/metrics", .handle = metrics, .quick = true},
        {.method = "GET", .path = BASE "*", .handle = not_here, .quick = true},
        {.method = "POST", .path = BASE "*", .handle = not_here, .quick = true},
    };

    *count = sizeof(routes) / sizeof(routes[0]);
    for (size_t i = 0; i < *count; i++)
        routes[i].arg = s;
    return routes;
}
