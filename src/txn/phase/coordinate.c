/* SPDX-License-Identifier: Apache-2.0 */
/* rota_three_*: coordinators of three-phase commit, on a manager's journal; they also answer the participants of
 * transactions that dead ones left.
 *
 * A lead is one transaction. Whoever commits drives it in its own thread; the bureau's thread drives those that were
 * adopted, and those whose caller no longer waits. */
#include "base/alloc.h"
#include "net/loop.h"
#include "txn/http/address.h"
#include "txn/http/door.h"
#include "txn/manager/inside.h"
#include "txn/manager/service.h"
#include "txn/phase/bureau.h"
#include "txn/three/coordinator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MS RT_BUREAU_MS
#define PARTS_MAX (RT_PARTICIPANT_PEERS + 1)
#define LABEL "three-phase commit"
#define T1_MS 5000
#define T2_MS 15000
#define WAIT_MS 30000
#define GRACE_MS \
    600000 /* `commit`: whoever can still find out if all are ready comes before recovery, which aborts */
#define NOTICE_MS 1000 /* by then people want to know for whom it waits */
#define TIME_LEAST 10  /* ms: of T1 and T2 */
#define ADDRESS_MAX 300
#define NAMES_MAX 4096

struct lead {
    struct rt_case base; /* first */
    struct rt_coordinator c;
    struct rt_coordinator_part parts[PARTS_MAX];
    bool is_told;    /* what stands is known */
    uint32_t failed; /* whose statements failed, if why is not "" */
    char why[RT_THREE_WHY];
    uint32_t silent_one;
    char
        silent[RT_SERVICE_LINE]; /* why this one has not answered its last question; "": all have */
};

struct rota_three {
    struct rt_bureau bureau; /* first */
    struct rota_txns *m;
    struct rt_http_route routes[1];
    pthread_t thread;
    char address[ADDRESS_MAX];
};

static struct lead *lead_of(struct rt_case *c)
{
    return (struct lead *)(void *)c;
}

static struct rota_txns *manager_of(struct rt_bureau *d)
{
    return ((struct rota_three *)(void *)d)->m;
}

/* ---- The journal ------------------------------------------------------------------------ */

static enum rt_decision decision_of(enum rt_journal_stand stand)
{
    return stand == RT_JOURNAL_COMMIT  ? RT_DECISION_COMMIT
           : stand == RT_JOURNAL_ABORT ? RT_DECISION_ABORT
                                       : RT_DECISION_NONE;
}

/* Tells recovery how to end it. */
static uint16_t mode_of(struct rota_txns *m, const char *name)
{
    struct rt_resource *r = rt_resources_find(rt_txns_resources(m), name);
    return r == NULL || rt_resource_kind(r)->gated ? RT_THREE_MYSQL : RT_THREE_POSTGRES;
}

static uint32_t name_branches(struct rota_txns *m, const struct lead *l,
                              struct rt_journal_branch branches[PARTS_MAX])
{
    const struct rt_word *w = &l->base.word;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->c.count; i++) {
        const char *name = rt_word_resource(w, i + 1);
        name = name[0] != '\0' ? name : "unknown";
        branches[n++] = (struct rt_journal_branch){
            .number = i + 1, .mode = mode_of(m, name), .resource = name};
    }
    return n;
}

/* Called and returns with the mutex, and asks without it. */
static int ask_journal(struct rt_bureau *d, struct rt_journal_op *op)
{
    pthread_mutex_unlock(&d->mu);
    int err = rt_txns_ask(manager_of(d), op);
    if (err != 0)
        rt_txns_log(manager_of(d), ROTA_LOG_WARN, "%s", rota_txn_errmsg(manager_of(d)));
    pthread_mutex_lock(&d->mu);
    return err;
}

/* The journal has answered ERR, or STAND. */
static void told(struct lead *l, const struct rt_coordinator_todo *todo, int err,
                 enum rt_journal_stand stand)
{
    enum rt_decision stands = err == 0 ? decision_of(stand) : RT_DECISION_NONE;
    bool open = err == 0 && stand == RT_JOURNAL_OPEN && todo->op == RT_COORDINATOR_REGISTER;
    enum rt_reply reply = stands != RT_DECISION_NONE                ? RT_REPLY_STANDS
                          : open                                    ? RT_REPLY_OPEN
                          : err == 0 && stand == RT_JOURNAL_EXPIRED ? RT_REPLY_BELOW
                                                                    : RT_REPLY_LOST;
    rt_coordinator_wrote(&l->c, todo->seq, reply, stands, rt_loop_clock());
}

static void decide(struct rt_bureau *d, struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_journal_branch branches[PARTS_MAX] = {{0}};
    bool commit = todo->decision == RT_DECISION_COMMIT;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    op.decide.id = l->base.word.name.id;
    op.decide.deadline_ms = l->base.word.name.deadline_ms;
    op.decide.decision = commit ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
    op.decide.label = LABEL;
    op.decide.branches = branches;
    op.decide.count = commit ? name_branches(manager_of(d), l, branches) : 0;
    op.decide.registered = l->c.textbook ? l->c.count : 0;
    int err = ask_journal(d, &op);
    told(l, todo, err, op.decide.stands);
}

/* For when participants may commit on their own: recovery asks each of them, and closes nothing that is mixed. */
static void enter(struct rt_bureau *d, struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_journal_branch branches[PARTS_MAX] = {{0}};
    struct rt_journal_op op = {.kind = RT_JOURNAL_REGISTER};
    op.reg.id = l->base.word.name.id;
    op.reg.deadline_ms = l->base.word.name.deadline_ms;
    op.reg.label = LABEL;
    op.reg.branches = branches;
    op.reg.count = name_branches(manager_of(d), l, branches);
    int err = ask_journal(d, &op);
    told(l, todo, err, op.reg.stands);
}

static void finish(struct rt_bureau *d, struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
    op.finish.ids = &l->base.word.name.id;
    op.finish.count = 1;
    enum rt_reply reply = ask_journal(d, &op) == 0 ? RT_REPLY_DONE : RT_REPLY_LOST;
    rt_coordinator_wrote(&l->c, todo->seq, reply, RT_DECISION_NONE, rt_loop_clock());
}

/* ---- What is asked and told -------------------------------------------------------------- */

static void heard(struct rt_case *c, uint32_t whom, uint32_t seq, const struct rt_answer *answer,
                  const char *trouble)
{
    static const struct rt_stand none;
    struct lead *l = lead_of(c);
    if (answer == NULL) {
        snprintf(l->silent, sizeof(l->silent), "%s", trouble);
        l->silent_one = whom;
    } else if (l->silent_one == whom) {
        l->silent[0] = '\0';
    }
    if (answer != NULL && answer->why[0] != '\0' && l->why[0] == '\0') {
        memcpy(l->why, answer->why, sizeof(l->why));
        l->failed = whom;
    }
    rt_coordinator_answered(&l->c, whom, seq, answer == NULL,
                            answer != NULL ? &answer->stand : &none, rt_loop_clock());
}

/* What a participant is sent has only its own statements. Free its doc; NULL: no memory. */
static struct rt_word word_for(const struct rt_word *all, uint32_t whom)
{
    struct rt_word w = *all;
    json_t *work = json_array_get(json_object_get(w.doc, "work"), whom);
    w.doc = json_copy(w.doc);
    if (w.doc != NULL &&
        json_object_set(w.doc, "statements", work != NULL ? work : w.statements) != 0) {
        json_decref(w.doc);
        w.doc = NULL;
    }
    if (w.doc != NULL)
        (void)json_object_del(w.doc, "work"); /* which is that of all, and may not be there */
    return w;
}

static void say_to(struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_word w = word_for(&l->base.word, todo->whom);
    if (w.doc == NULL ||
        !rt_bureau_ask(&l->base, &w, rt_word_part(&w, todo->whom), rt_word_op(todo->ask),
                       todo->whom + 1, RT_STANCE_NONE, todo->whom, todo->seq))
        heard(&l->base, todo->whom, todo->seq, NULL, "no memory, or its address is none");
    json_decref(w.doc);
}

static void call_person(struct rota_txns *m, const struct lead *l, uint32_t whom, const char *line)
{
    pthread_mutex_lock(&m->mu);
    rt_txns_notice(m, &l->base.word.name.id, rt_word_resource(&l->base.word, whom + 1), line);
    rt_txns_wake(m);
    pthread_mutex_unlock(&m->mu);
}

static void call_for_mix(struct rota_txns *m, const struct lead *l)
{
    uint8_t decided = (uint8_t)rt_coordinator_stance(&l->c);
    char line[RT_TXN_LINE];
    for (uint32_t i = 0; i < l->c.count; i++) {
        const struct rt_stand *stand = &l->c.parts[i].stand;
        if (!stand->mixed && !rt_stance_contradicts(stand->stance, decided))
            continue;
        snprintf(line, sizeof(line),
                 "MIXED: decided %s, but %s there; fix it by hand, then rota txn resolve --done",
                 rt_stance_words[decided],
                 stand->stance == decided ? "it has heard of another outcome"
                                          : rt_stance_words[stand->stance]);
        call_person(m, l, i, line);
    }
}

static void do_news(struct rota_txns *m, struct lead *l)
{
    uint32_t news = rt_coordinator_news(&l->c);
    l->is_told = l->is_told || (news & RT_COORDINATOR_TOLD) != 0;
    if ((news & RT_COORDINATOR_MIX) != 0)
        call_for_mix(m, l);
    for (uint32_t i = 0; (news & RT_COORDINATOR_ATTENTION) != 0 && i < l->c.count; i++)
        if (!l->c.parts[i].fresh)
            call_person(m, l, i, "its participant has been asked many times and does not answer");
}

static bool work(struct rt_bureau *d, struct rt_case *c)
{
    struct lead *l = lead_of(c);
    struct rt_coordinator_todo todo;
    bool did = false;
    while (!d->stop && rt_coordinator_todo(&l->c, &todo, rt_loop_clock())) {
        did = true;
        if (todo.op == RT_COORDINATOR_TELL)
            say_to(l, &todo);
        else if (todo.op == RT_COORDINATOR_DECIDE)
            decide(d, l, &todo);
        else if (todo.op == RT_COORDINATOR_REGISTER)
            enter(d, l, &todo);
        else
            finish(d, l, &todo);
    }
    do_news(manager_of(d), l);
    return did;
}

static int64_t next_of(const struct rt_case *c)
{
    return rt_coordinator_next(&((const struct lead *)(const void *)c)->c);
}

/* A mixed one stays: whoever asks about it is told, and no person is called twice. */
static bool is_over(const struct rt_case *c)
{
    return ((const struct lead *)(const void *)c)->c.state == RT_COORDINATOR_ENDED;
}

static void drop(struct rt_case *c)
{
    (void)c;
}

static const struct rt_bureau_kind kind = {.case_size = sizeof(struct lead),
                                           .work = work,
                                           .heard = heard,
                                           .next = next_of,
                                           .is_over = is_over,
                                           .drop = drop};

/* A participant asks. A transaction not known here was left by a coordinator that died: it is adopted. */
static void on_ask(struct rt_http_request *r, void *arg)
{
    struct rota_three *o = arg;
    struct rt_word w;
    struct rt_stand stand = {.stance = RT_STANCE_WAIT};
    if (!rt_bureau_read(r, &w))
        return;
    bool ours = rt_txn_id_journal(&w.name.id) == rt_txns_number(o->m);
    pthread_mutex_lock(&o->bureau.mu);
    struct rt_case *c = rt_bureau_find(&o->bureau, &w.name.id);
    if (c == NULL && ours && !o->bureau.stop && (c = rt_bureau_add(&o->bureau, &w)) != NULL)
        rt_coordinator_adopt(&lead_of(c)->c, lead_of(c)->parts, (uint32_t)json_array_size(w.parts),
                             w.textbook, rt_loop_clock());
    if (c != NULL)
        stand.stance = (uint8_t)rt_coordinator_stance(&lead_of(c)->c);
    json_decref(w.doc);
    pthread_mutex_unlock(&o->bureau.mu);
    rt_bureau_answer(r, &stand);
}

/* ---- Its life ---------------------------------------------------------------------------- */

static void *main_of(void *arg)
{
    struct rota_three *o = arg;
    rt_bureau_run(&o->bureau, -1);
    return NULL;
}

/* The address at which participants reach it: as given, or where it listens. */
static int set_address(struct rota_three *o, const struct rota_three_options *opts, char *why,
                       size_t room)
{
    const char *listen = opts->listen != NULL ? opts->listen : "127.0.0.1:0";
    const char *colon = strrchr(listen, ':');
    int host = colon != NULL ? (int)(colon - listen) : 0, n;
    bool any = strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0;
    if (opts->address != NULL &&
        strlen(opts->address) >= sizeof(o->address) - sizeof(RT_THREE_PATH))
        snprintf(why, room, "the address is too long");
    else if (opts->address == NULL && any)
        snprintf(why, room,
                 "it listens on all addresses: say which one participants use to reach it");
    else
        why[0] = '\0';
    if (why[0] != '\0')
        return ROTA_INVALID;
    if (opts->address != NULL)
        n = snprintf(o->address, sizeof(o->address), "%s", opts->address);
    else
        n = snprintf(o->address, sizeof(o->address), "%s://%.*s:%u",
                     opts->cert_file != NULL ? "https" : "http", host, listen,
                     rt_http_server_port(o->bureau.server));
    if (strstr(o->address, RT_THREE_PATH) == NULL)
        snprintf(o->address + n, sizeof(o->address) - (size_t)n, RT_THREE_PATH);
    return rt_three_calls_check(o->bureau.calls, o->address, why, room);
}

/* NAMES and the host of ADDRESS, by which participants ask. */
static void join_names(char *out, size_t size, const char *names, const char *address)
{
    struct rt_http_address at;
    char why[256], host[256];

    snprintf(out, size, "%s", names != NULL ? names : "");
    if (address == NULL || rt_http_address_read(&at, address, why, sizeof(why)) != 0 || at.is_path)
        return; /* set_address complains */
    snprintf(host, sizeof(host), "%.*s", (int)at.host_size, at.host);
    (void)rt_http_door_add(out, size, host);
}

static int start(struct rota_three *o, const struct rota_three_options *opts, char *why,
                 size_t room)
{
    o->routes[0] = (struct rt_http_route){
        .method = "POST", .path = RT_THREE_PATH, .handle = on_ask, .arg = o};
    char names[NAMES_MAX];
    join_names(names, sizeof(names), opts->allow_hosts, opts->address);
    const struct rt_bureau_options options = {.listen = opts->listen,
                                              .token_file = opts->token_file,
                                              .cert_file = opts->cert_file,
                                              .key_file = opts->key_file,
                                              .ca_file = opts->ca_file,
                                              .insecure = (opts->flags & ROTA_THREE_INSECURE) != 0,
                                              .allow_hosts = names[0] != '\0' ? names : NULL,
                                              .routes = o->routes,
                                              .route_count = 1};
    int rv = rt_bureau_init(&o->bureau, &kind, &options, why, room);
    if (rv == 0)
        rv = rt_bureau_listen(&o->bureau, &options, why, room);
    if (rv == 0)
        rv = set_address(o, opts, why, room);
    if (rv == 0 && pthread_create(&o->thread, NULL, main_of, o) != 0) {
        snprintf(why, room, "no thread");
        rv = ROTA_NOMEM;
    }
    if (rv != 0)
        rt_bureau_fini(&o->bureau);
    return rv;
}

int rota_three_open_sized(struct rota_txns *m, const struct rota_three_options *opts, size_t size,
                          struct rota_three **out)
{
    struct rota_three_options own;
    char why[RT_TXN_LINE] = "";
    if (m == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID,
                            "a manager is needed: decisions are kept in its journal");
    int rv = rt_txns_enter(m, "rota_three_open");
    if (rv == 0)
        rv = rt_txns_options(m, &own, sizeof(own), opts, size);
    if (rv == 0 && (own.flags & ~ROTA_THREE_INSECURE) != 0)
        rv = rt_txns_fail(m, ROTA_INVALID, "unknown flags %#x in the options", own.flags);
    if (rv != 0)
        return rv;
    struct rota_three *o = rt_alloc(sizeof(*o));
    if (o == NULL)
        return rt_txns_fail(m, ROTA_NOMEM, "out of memory");
    o->m = m;
    rv = start(o, &own, why, sizeof(why));
    if (rv != 0) {
        rt_free(o);
        return rt_txns_fail(m, rv, "%s", why);
    }
    *out = o;
    return 0;
}

uint16_t rota_three_port(const struct rota_three *c)
{
    return rt_http_server_port(c->bureau.server);
}

void rota_three_close(struct rota_three *c)
{
    if (c == NULL)
        return;
    rt_bureau_stop(&c->bureau);
    pthread_join(c->thread, NULL);
    rt_bureau_fini(&c->bureau);
    rt_free(c);
}

/* ---- One transaction ----------------------------------------------------------------------- */

/* Whether two addresses are one; different names of one host cannot be told apart here. Both are valid. */
static bool is_same(const char *a, const char *b)
{
    struct rt_http_address x, y;
    char why[RT_TXN_LINE];
    if (rt_http_address_read(&x, a, why, sizeof(why)) != 0 ||
        rt_http_address_read(&y, b, why, sizeof(why)) != 0)
        return false;
    const char *at_a = a + x.origin, *at_b = b + y.origin;
    at_a = at_a[0] == '\0' || strcmp(at_a, "/") == 0 ? RT_THREE_PATH : at_a;
    at_b = at_b[0] == '\0' || strcmp(at_b, "/") == 0 ? RT_THREE_PATH : at_b;
    return x.secure == y.secure && x.port == y.port && x.host_size == y.host_size &&
           strncasecmp(x.host, y.host, x.host_size) == 0 && strcmp(at_a, at_b) == 0;
}

static int check_part(struct rota_three *o, const struct rota_three_part *parts, size_t i)
{
    const struct rota_three_part *p = &parts[i];
    char why[RT_TXN_LINE];
    const char *fault = rt_resource_name_fault(p->resource != NULL ? p->resource : "");
    bool twice = false;
    if (fault != NULL)
        return rt_txns_fail(o->m, ROTA_INVALID, "a participant needs the name of its database: %s",
                            fault);
    for (size_t k = 0; k < i; k++)
        twice = twice || strcmp(parts[k].resource, p->resource) == 0;
    if (twice)
        return rt_txns_fail(o->m, ROTA_INVALID, "'%.60s' takes part twice", p->resource);
    if (p->address == NULL ||
        rt_three_calls_check(o->bureau.calls, p->address, why, sizeof(why)) != 0)
        return rt_txns_fail(o->m, ROTA_INVALID, "%.60s: %s", p->resource,
                            p->address == NULL ? "it has no address" : why);
    for (size_t k = 0; k < i; k++)
        if (is_same(parts[k].address, p->address))
            return rt_txns_fail(o->m, ROTA_INVALID,
                                "'%.60s' and '%.60s' have the same address: a participant takes "
                                "part once, for one database",
                                parts[k].resource, p->resource);
    for (size_t k = 0; k < p->count; k++)
        if (p->statements == NULL || p->statements[k] == NULL)
            return rt_txns_fail(o->m, ROTA_INVALID, "%.60s: a statement is NULL", p->resource);
    return 0;
}

static int check_work(struct rota_txns *m, struct rota_three_work *w)
{
    w->promise_ms = w->promise_ms != 0 ? w->promise_ms : T1_MS;
    w->ready_ms = w->ready_ms != 0 ? w->ready_ms : T2_MS;
    w->wait_ms = w->wait_ms != 0 ? w->wait_ms : WAIT_MS;
    if ((w->flags & ~ROTA_THREE_COMMIT) != 0)
        return rt_txns_fail(m, ROTA_INVALID, "unknown flags %#x of the transaction", w->flags);
    if (w->for_ms != 0 && w->for_ms < TIME_LEAST)
        return rt_txns_fail(m, ROTA_INVALID, "for_ms must be 0, or at least 10 ms");
    if (w->promise_ms < TIME_LEAST || w->ready_ms < TIME_LEAST ||
        (uint64_t)w->promise_ms + 2 * (uint64_t)w->ready_ms > RT_TIMEOUT_MOST)
        return rt_txns_fail(m, ROTA_INVALID,
                            "promise_ms and ready_ms must be at least 10 ms; the first, and twice "
                            "the second, at most 24 h");
    return 0;
}

static json_t *list_of(const struct rota_three_part *parts, size_t count,
                       json_t *(*each)(const struct rota_three_part *p))
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < count; i++)
        if (json_array_append_new(list, each(&parts[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static json_t *name_json(const struct rota_three_part *p)
{
    return json_string(p->resource);
}

static json_t *address_json(const struct rota_three_part *p)
{
    bool whole = strstr(p->address, RT_THREE_PATH) != NULL;
    size_t size = strlen(p->address);
    while (!whole && size > 0 && p->address[size - 1] == '/')
        size--;
    return json_sprintf("%.*s%s", (int)size, p->address, whole ? "" : RT_THREE_PATH);
}

static json_t *statements_json(const struct rota_three_part *p)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < p->count; i++)
        if (json_array_append_new(list, json_string(p->statements[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* What is said to all of them, except the statements: those are in "work". */
static bool make_word(const struct rota_three *o, const struct rota_three_part *parts, size_t count,
                      const struct rota_three_work *how, struct rt_word *out)
{
    uint64_t random = 0;
    char id_text[RT_TXN_ID_TEXT], why[200];
    int64_t now_ms = rt_txns_wall_ms();
    rt_txns_random(&random, 6);
    struct rt_txn_id id = rt_txn_id_make(rt_txns_number(o->m), now_ms, random & ~RT_TXN_ID_SERVE);
    rt_txn_id_text(&id, id_text);
    int64_t deadline_ms = now_ms + (int64_t)how->promise_ms + 2 * (int64_t)how->ready_ms;
    deadline_ms += (how->flags & ROTA_THREE_COMMIT) != 0 ? GRACE_MS : 0;
    json_t *doc = json_pack("{s:s, s:s, s:i, s:I, s:s, s:s, s:o, s:o, s:[], s:o, s:s, s:I, s:I}",
                            "op", "can", "txn", id_text, "branch", 1, "deadline_ms",
                            (json_int_t)deadline_ms, "stance", "NONE", "coordinator", o->address,
                            "parts", list_of(parts, count, address_json), "names",
                            list_of(parts, count, name_json), "statements", "work",
                            list_of(parts, count, statements_json), "on_timeout",
                            (how->flags & ROTA_THREE_COMMIT) != 0 ? "commit" : "block", "t1_ms",
                            (json_int_t)how->promise_ms, "t2_ms", (json_int_t)how->ready_ms);
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    bool good = text != NULL && rt_word_read(text, strlen(text), out, why, sizeof(why));
    free(text);
    return good;
}

/* Whether each participant's share can be sent. */
static bool all_fit(const struct rt_word *all, size_t count)
{
    bool fits = true;
    for (uint32_t i = 0; fits && i < count; i++) {
        struct rt_word w = word_for(all, i);
        char *text = w.doc != NULL ? rt_word_text(&w, "pre", i + 1, RT_STANCE_PRECOMMITTED) : NULL;
        fits = text != NULL && rt_three_calls_fits(rt_word_part(all, i), text);
        free(text);
        json_decref(w.doc);
    }
    return fits;
}

static struct lead *begin(struct rota_three *o, const struct rt_word *w, size_t count,
                          const struct rota_three_work *how)
{
    struct rt_case *c = rt_bureau_add(&o->bureau, w);
    struct lead *l = lead_of(c);
    int64_t shorter = how->promise_ms < how->ready_ms ? how->promise_ms : how->ready_ms;
    if (l == NULL)
        return NULL;
    c->holds++;
    rt_coordinator_begin(&l->c, l->parts, (uint32_t)count, (how->flags & ROTA_THREE_COMMIT) != 0,
                         how->promise_ms * MS, how->ready_ms * MS, shorter * MS / 5,
                         rt_loop_clock());
    if (how->patience_ms > 0)
        l->c.patience = how->patience_ms * MS;
    return l;
}

/* Who has not answered what it was asked last; "": it asks nobody, or all have. */
static void name_silent(const struct lead *l, char *names, size_t room)
{
    bool writes = l->c.state == RT_COORDINATOR_ENTERING || l->c.state == RT_COORDINATOR_DECIDING ||
                  l->c.state == RT_COORDINATOR_CLOSING;
    size_t n = (size_t)snprintf(names, room, "%s", writes ? "the journal" : "");
    for (uint32_t i = 0; !writes && i < l->c.count && n < room; i++)
        if (!l->c.parts[i].fresh)
            n += (size_t)snprintf(names + n, room - n, "%s%.60s", n > 0 ? ", " : "",
                                  rt_word_resource(&l->base.word, i + 1));
}

/* Tells somebody who wonders why nothing happens. Called and returns with the mutex, and tells without it. */
static void tell_silent(struct rota_three *o, const struct lead *l)
{
    char names[RT_TXN_LINE], id[RT_TXN_ID_TEXT];
    uint8_t stance = (uint8_t)rt_coordinator_stance(&l->c);
    name_silent(l, names, sizeof(names));
    if (names[0] == '\0')
        return;
    rt_txn_id_text(&l->base.word.name.id, id);
    pthread_mutex_unlock(&o->bureau.mu);
    rt_txns_log(o->m, ROTA_LOG_INFO, "%s: %s%swaiting for an answer from %s", id,
                rt_stance_is_end(stance) ? rt_stance_words[stance] : "",
                rt_stance_is_end(stance) ? "; " : "", names);
    pthread_mutex_lock(&o->bureau.mu);
}

/* Called and returns with the mutex, and tells without it. */
static void tell_decided(struct rota_three *o, const struct lead *l,
                         const struct rota_three_work *how)
{
    char id[RT_TXN_ID_TEXT];
    int outcome = rt_coordinator_stance(&l->c) == RT_STANCE_COMMITTED ? 0 : ROTA_ABORTED;
    if (how->decided == NULL)
        return;
    rt_txn_id_text(&l->base.word.name.id, id);
    pthread_mutex_unlock(&o->bureau.mu);
    how->decided(how->begun_arg, id, outcome);
    pthread_mutex_lock(&o->bureau.mu);
}

/* How long somebody waits for L. */
struct patience {
    int64_t limit, tell_at;
    int64_t end_at; /* for_ms is over */
    bool was_told;  /* `decided` */
};

/* What its caller is to hear, and what changes with time. */
static void look(struct rota_three *o, struct lead *l, const struct rota_three_work *how,
                 struct patience *p, int64_t now)
{
    if (l->is_told && !p->was_told) {
        p->was_told = true;
        p->limit = now + how->wait_ms * MS < p->limit ? now + how->wait_ms * MS : p->limit;
        p->tell_at = now + NOTICE_MS * MS;
        tell_decided(o, l, how);
    }
    /* Later a participant may have committed: rt_coordinator's own rule */
    if (now >= p->end_at && !(l->c.textbook && now > l->c.late_at))
        rt_coordinator_abort(&l->c, now);
    if (now >= p->tell_at) {
        p->tell_at = INT64_MAX;
        tell_silent(o, l);
    }
}

static bool is_enough(const struct rota_three *o, const struct lead *l, const struct patience *p,
                      int64_t now)
{
    int64_t journal = p->end_at == INT64_MAX ? INT64_MAX : p->end_at + o->m->opts.call_ms * MS;
    return l->c.state >= RT_COORDINATOR_ENDED || o->bureau.stop || now >= p->limit ||
           now >= journal || (now >= p->end_at && l->is_told);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Waits until it is over, or nobody wants to wait any more. Tells for whom, once before it is decided and once after. */
static void wait_for(struct rota_three *o, struct lead *l, const struct rota_three_work *how)
{
    int64_t begun = rt_loop_clock();
    int64_t most = ((int64_t)how->promise_ms + 2 * (int64_t)how->ready_ms + how->wait_ms) * MS;
    struct patience p = {.limit = how->wait_ms == UINT32_MAX ? INT64_MAX : begun + most,
                         .tell_at = begun + NOTICE_MS * MS,
                         .end_at = how->for_ms != 0 ? begun + how->for_ms * MS : INT64_MAX};
    for (;;) {
        rt_bureau_drive(&o->bureau, &l->base);
        int64_t now = rt_loop_clock();
        look(o, l, how, &p, now);
        if (is_enough(o, l, &p, now))
            return;
        int64_t next = sooner(rt_coordinator_next(&l->c), sooner(p.limit, p.tell_at));
        if (p.end_at > now)
            next = sooner(next, p.end_at);
        else if (p.end_at != INT64_MAX)
            next = sooner(next, p.end_at + o->m->opts.call_ms * MS);
        rt_bureau_wait(&o->bureau, next);
    }
}

static int outcome_of(struct rota_three *o, const struct lead *l)
{
    if (l->c.mixed)
        return rt_txns_fail(o->m, ROTA_MIXED,
                            "a participant has not ended as was decided: "
                            "a person must fix it; see rota txn show");
    if (!l->is_told)
        return rt_txns_fail(o->m, ROTA_UNKNOWN,
                            "it is not decided yet: the journal or a participant does not answer");
    if (rt_coordinator_stance(&l->c) == RT_STANCE_COMMITTED)
        return 0;
    if (l->why[0] != '\0')
        return rt_txns_fail(o->m, ROTA_ABORTED, "%.60s said no: %.200s",
                            rt_word_resource(&l->base.word, l->failed + 1), l->why);
    for (uint32_t i = 0; i < l->c.count; i++)
        if (l->c.parts[i].stand.how == RT_HOW_FAILED)
            return rt_txns_fail(o->m, ROTA_ABORTED, "%.60s: its statements failed: see its log",
                                rt_word_resource(&l->base.word, i + 1));
    if (l->silent[0] != '\0')
        return rt_txns_fail(o->m, ROTA_ABORTED, "no answer in time: %s", l->silent);
    return rt_txns_fail(o->m, ROTA_ABORTED, "a participant said no, or did not answer in time");
}

static int run(struct rota_three *o, const struct rt_word *w, size_t count,
               const struct rota_three_work *how)
{
    char id[RT_TXN_ID_TEXT];
    rt_txn_id_text(&w->name.id, id);
    if (how->begun != NULL)
        how->begun(how->begun_arg, id);
    pthread_mutex_lock(&o->bureau.mu);
    struct lead *l = begin(o, w, count, how);
    int rv = ROTA_NOMEM;
    if (l != NULL) {
        wait_for(o, l, how);
        l->base.holds--;
        rv = outcome_of(o, l);
    }
    pthread_mutex_unlock(&o->bureau.mu);
    return rv;
}

/* Lets recovery and gc elsewhere know that the resources are used. */
static void make_known(struct rota_txns *m, const struct rota_three_part *parts, size_t count)
{
    pthread_mutex_lock(&m->mu);
    for (size_t i = 0; i < count; i++) {
        struct rt_resource *r = rt_resources_find(m->resources, parts[i].resource);
        rt_known_use(m, parts[i].resource, r, (enum rt_branch_mode)mode_of(m, parts[i].resource));
    }
    pthread_mutex_unlock(&m->mu);
}

int rota_three_commit_sized(struct rota_three *c, const struct rota_three_part *parts, size_t count,
                            const struct rota_three_work *how, size_t size)
{
    struct rota_three_work own;
    struct rt_word w;
    if (c == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "a coordinator is needed: rota_three_open");
    int rv = rt_txns_enter(c->m, "rota_three_commit");
    if (rv == 0)
        rv = rt_txns_options(c->m, &own, sizeof(own), how, size);
    if (rv == 0)
        rv = check_work(c->m, &own);
    if (rv == 0 && (parts == NULL || count == 0 || count > PARTS_MAX))
        rv = rt_txns_fail(c->m, ROTA_INVALID, "1 to %d participants can take part", PARTS_MAX);
    for (size_t i = 0; rv == 0 && i < count; i++)
        rv = check_part(c, parts, i);
    if (rv != 0)
        return rv;
    if (!make_word(c, parts, count, &own, &w))
        return rt_txns_fail(c->m, ROTA_INVALID,
                            "a name or a statement is not UTF-8, or there is no memory");
    if (all_fit(&w, count)) {
        make_known(c->m, parts, count);
        rv = run(c, &w, count, &own);
    } else
        rv = rt_txns_fail(
            c->m, ROTA_INVALID,
            "the statements of a participant, with all addresses, can be 32 KB at most");
    pthread_mutex_lock(&c->bureau.mu);
    json_decref(w.doc);
    pthread_mutex_unlock(&c->bureau.mu);
    return rv;
}
