/* SPDX-License-Identifier: Apache-2.0 */
/* rota_participant_run: a participant of three-phase commit at one database.
 *
 *   HTTP: a request ──▶ its take (one per transaction) ──▶ the machine ──▶ rows, work, questions ──▶ answer, when it is quiet
 *   the clock: T1, T2, asking again ──▶ the same, on the thread of the call
 *
 * A take that is over and not mixed is forgotten here at once, and its row read again if somebody asks for it. */
#include "net/loop.h"
#include "txn/manager/inside.h"
#include "txn/phase/bureau.h"
#include "txn/phase/deed.h"
#include "txn/phase/vault.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MS RT_BUREAU_MS
#define ANSWER_NS (5000 * MS)     /* a request is answered by then */
#define KEEP_MS INT64_C(86400000) /* after its deadline no promise is given any more */
#define LINE 256

struct take {
    struct rt_case base; /* first */
    struct rt_participant p;
    struct rt_deed work;
    char why[RT_THREE_WHY]; /* it said no: for people; "": it has not */
};

struct house {
    struct rt_bureau bureau; /* first */
    struct rota_participant_options opts;
    const char *url;
    pthread_mutex_t vault_mu;
    struct rt_vault vault;
    bool is_open; /* its rows are read: it can answer */
    bool lost;    /* another participant has taken over */
    uint64_t alone, attention;
};

static struct take *take_of(struct rt_case *c)
{
    return (struct take *)(void *)c;
}

static struct house *house_of(struct rt_bureau *d)
{
    return (struct house *)(void *)d;
}

/* ---- Telling --------------------------------------------------------------------------- */

static void tell(const struct house *h, const struct take *t, int level, const char *what)
{
    char id[RT_TXN_ID_TEXT], line[LINE + RT_TXN_ID_TEXT];
    rt_txn_id_text(&t->base.word.name.id, id);
    snprintf(line, sizeof(line), "%s: %s", id, what);
    if (h->opts.log != NULL)
        h->opts.log(h->opts.log_arg, level, line);
}

static void call_person(const struct house *h, const struct take *t, const char *what)
{
    char id[RT_TXN_ID_TEXT];
    const struct rt_word *w = &t->base.word;
    rt_txn_id_text(&w->name.id, id);
    tell(h, t, ROTA_LOG_WARN, what);
    if (h->opts.attention != NULL)
        h->opts.attention(h->opts.attention_arg, id, rt_word_resource(w, w->name.branch), what);
}

static void do_news(struct house *h, struct take *t)
{
    uint32_t news = rt_participant_news(&t->p);
    if ((news & RT_PARTICIPANT_MIXED) != 0)
        call_person(
            h, t,
            t->p.next.stand.stance == RT_STANCE_COMMITTED
                ? "MIXED: it is committed here, but aborted elsewhere; a person must fix it"
                : "MIXED: it is aborted here, but committed elsewhere; a person must fix it");
    if ((news & RT_PARTICIPANT_ALONE) != 0) {
        h->alone++;
        tell(h, t, ROTA_LOG_WARN, "nobody answers: committed on its own (on_timeout = commit)");
    }
    if ((news & RT_PARTICIPANT_BLOCKED) != 0)
        tell(h, t, ROTA_LOG_WARN,
             "blocked: nobody who knows the decision answers; its rows stay locked until then");
    if ((news & RT_PARTICIPANT_ATTENTION) != 0) {
        h->attention++;
        call_person(
            h, t, "ten tries failed: its database, or whoever knows the decision, does not answer");
    }
}

/* ---- What a take does ------------------------------------------------------------------ */

/* The number of a part, as T's machine numbers them: 0 is the coordinator; the peers leave out T itself. */
static uint32_t part_of(const struct take *t, uint32_t whom)
{
    assert(whom > 0);
    return whom < t->base.word.name.branch ? whom - 1 : whom;
}

static void heard(struct rt_case *c, uint32_t whom, uint32_t seq, const struct rt_answer *answer,
                  const char *trouble)
{
    (void)trouble;
    rt_participant_heard(&take_of(c)->p, whom, seq,
                         answer != NULL ? answer->stand.stance : RT_STANCE_NONE, rt_loop_clock());
}

static void ask(struct take *t, const struct rt_participant_todo *todo)
{
    const struct rt_word *w = &t->base.word;
    const char *url = todo->whom == 0 ? w->coordinator : rt_word_part(w, part_of(t, todo->whom));
    uint8_t stance = rt_participant_stand(&t->p).stance;
    if (!rt_bureau_ask(&t->base, w, url, "ask", w->name.branch, stance, todo->whom, todo->seq))
        rt_participant_heard(&t->p, todo->whom, todo->seq, RT_STANCE_NONE, rt_loop_clock());
}

static enum rt_reply write_row(struct house *h, const struct take *t, const struct rt_promise *row,
                               char *why)
{
    pthread_mutex_lock(&h->vault_mu);
    bool good = rt_vault_write(&h->vault, &t->base.word, row);
    bool lost = h->vault.deposed;
    if (!good)
        snprintf(why, LINE, "%s", h->vault.errmsg);
    pthread_mutex_unlock(&h->vault_mu);
    if (lost) { /* whatever else is under way here comes to nothing: the rows are another's */
        pthread_mutex_lock(&h->bureau.mu);
        h->lost = true;
        pthread_mutex_unlock(&h->bureau.mu);
        rt_bureau_stop(&h->bureau);
    }
    return good ? RT_REPLY_DONE : RT_REPLY_LOST;
}

/* Without the mutex: at the database. */
static enum rt_reply act(struct house *h, struct take *t, const struct rt_participant_todo *todo,
                         char why[LINE])
{
    const struct rt_word *w = &t->base.word;
    enum rt_party_what end = todo->op == RT_PARTICIPANT_COMMIT ? RT_PARTY_COMMIT
                                                               : RT_PARTY_ROLLBACK;
    enum rt_reply reply;
    why[0] = '\0';
    if (todo->op == RT_PARTICIPANT_WRITE)
        reply = write_row(h, t, &todo->row, why);
    else if (todo->op == RT_PARTICIPANT_WORK)
        reply = rt_deed_do(&t->work, h->url, w, why);
    else if (todo->op == RT_PARTICIPANT_LOOK)
        reply = rt_deed_look(&t->work, h->url, w, why);
    else
        reply = rt_deed_end(&t->work, h->url, w, end, why);
    if (why[0] != '\0' && (reply == RT_REPLY_LOST || reply == RT_REPLY_NO))
        tell(h, t, ROTA_LOG_WARN, why);
    return reply;
}

static bool work(struct rt_bureau *d, struct rt_case *c)
{
    struct take *t = take_of(c);
    struct house *h = house_of(d);
    struct rt_participant_todo todo;
    bool did = false;
    while (!d->stop && rt_participant_todo(&t->p, &todo, rt_txns_wall_ms(), rt_loop_clock())) {
        did = true;
        do_news(h, t);
        if (todo.op == RT_PARTICIPANT_ASK) {
            ask(t, &todo);
            continue;
        }
        pthread_mutex_unlock(&d->mu);
        char why[LINE];
        enum rt_reply reply = act(h, t, &todo, why);
        pthread_mutex_lock(&d->mu);
        if (todo.op == RT_PARTICIPANT_WORK)
            snprintf(t->why, sizeof(t->why), "%s", reply == RT_REPLY_NO ? why : "");
        rt_participant_did(&t->p, todo.seq, reply, rt_loop_clock());
    }
    do_news(h, t);
    return did;
}

static int64_t next_of(const struct rt_case *c)
{
    return rt_participant_next(&((const struct take *)(const void *)c)->p);
}

static bool is_over(const struct rt_case *c)
{
    const struct take *t = (const struct take *)(const void *)c;
    return t->p.over && !t->p.kept.stand.mixed && !t->p.writes;
}

/* Its connection ends; what is prepared, and its row, stay. */
static void drop(struct rt_case *c)
{
    rt_deed_drop(&take_of(c)->work);
}

static const struct rt_bureau_kind kind = {.case_size = sizeof(struct take),
                                           .work = work,
                                           .heard = heard,
                                           .next = next_of,
                                           .is_over = is_over,
                                           .drop = drop};

/* ---- Takes ------------------------------------------------------------------------------- */

/* Whether W asks for a database of another name. */
static bool is_misled(const struct house *h, const struct rt_word *w, char why[RT_THREE_WHY])
{
    const char *name = rt_word_resource(w, w->name.branch);
    if (h->opts.resource == NULL || name[0] == '\0' || strcmp(name, h->opts.resource) == 0)
        return false;
    snprintf(why, RT_THREE_WHY, "'%.80s' answers there, not '%.80s': correct who is where",
             h->opts.resource, name);
    return true;
}

/* ROW NULL: nothing is known of it yet. Returns NULL: no memory. */
static struct take *make(struct house *h, const struct rt_word *w, const struct rt_promise *row)
{
    struct take *t = take_of(rt_bureau_add(&h->bureau, w));
    if (t == NULL)
        return NULL;
    rt_participant_init(&t->p, (uint32_t)json_array_size(w->parts) - 1, w->textbook, w->t1_ms * MS,
                        w->t2_ms * MS);
    t->p.refuses = (row == NULL && is_misled(h, w, t->why)) ||
                   w->name.deadline_ms + KEEP_MS < rt_txns_wall_ms();
    if (row != NULL)
        rt_participant_restore(&t->p, row, rt_txns_wall_ms(), rt_loop_clock());
    return t;
}

static void restore(void *arg, const char *body, size_t size, const struct rt_promise *row)
{
    struct house *h = arg;
    struct rt_word w;
    char why[200];
    if (row->stand.stance == RT_STANCE_NONE || !rt_word_read(body, size, &w, why, sizeof(why)))
        return;
    pthread_mutex_lock(&h->bureau.mu);
    (void)make(h, &w, row);
    pthread_mutex_unlock(&h->bureau.mu);
    json_decref(w.doc);
}

struct found {
    bool is;
    struct rt_promise row;
    struct rt_word word;
};

static void find(void *arg, const char *body, size_t size, const struct rt_promise *row)
{
    struct found *f = arg;
    char why[200];
    f->is = row->stand.stance != RT_STANCE_NONE &&
            rt_word_read(body, size, &f->word, why, sizeof(why));
    f->row = *row;
}

/* The take of W; if only a row knows of it, reads that. Called and returns with the mutex. NULL: there is none (W is an
 * ask), or *BROKEN: nobody knows. */
static struct take *find_take(struct house *h, const struct rt_word *w, bool *broken)
{
    struct found f = {0};
    struct rt_case *c = rt_bureau_find(&h->bureau, &w->name.id);
    if (c != NULL)
        return take_of(c);
    h->bureau.lookups++; /* a take made meanwhile must not go: the row would be older */
    pthread_mutex_unlock(&h->bureau.mu);
    pthread_mutex_lock(&h->vault_mu);
    bool read = rt_vault_find(&h->vault, &w->name.id, find, &f);
    pthread_mutex_unlock(&h->vault_mu);
    pthread_mutex_lock(&h->bureau.mu);
    h->bureau.lookups--;
    struct take *t = take_of(rt_bureau_find(&h->bureau, &w->name.id));
    if (t == NULL && read && f.is)
        t = make(h, &f.word, &f.row);
    else if (t == NULL && read && w->ask != 0)
        t = make(h, w, NULL);
    *broken = t == NULL && (!read || f.is || w->ask != 0);
    if (f.is)
        json_decref(f.word.doc);
    return t;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void wait_for_quiet(struct house *h, struct take *t)
{
    int64_t until = rt_loop_clock() + ANSWER_NS;
    rt_bureau_drive(&h->bureau, &t->base);
    while (t->base.drives && !h->bureau.stop && rt_loop_clock() < until) {
        rt_bureau_wait(&h->bureau, until);
        rt_bureau_drive(&h->bureau, &t->base); /* something may have come meanwhile */
    }
}

/* False: it listens, but has not read its rows yet. R was answered: whoever asks will ask again. */
static bool is_open(struct house *h, struct rt_http_request *r)
{
    pthread_mutex_lock(&h->bureau.mu);
    bool open = h->is_open;
    pthread_mutex_unlock(&h->bureau.mu);
    if (!open)
        rt_bureau_answer_json(r, NULL);
    return open;
}

/* Whether everybody whom it would have to ask can be asked. */
static bool can_ask(struct house *h, const struct rt_word *w, struct rt_http_request *r)
{
    char why[LINE];
    int rv = rt_three_calls_check(h->bureau.calls, w->coordinator, why, sizeof(why));
    for (uint32_t i = 0; rv == 0 && i < json_array_size(w->parts); i++)
        rv = rt_three_calls_check(h->bureau.calls, rt_word_part(w, i), why, sizeof(why));
    if (rv != 0)
        rt_http_request_answer(r, 400, "text/plain", why, strlen(why));
    return rv == 0;
}

/* W is for another branch of T's transaction: somebody has given this participant two names. It has one row for each
 * transaction, so it takes part in it once, and nothing is ever done for the other branch. To DO that answer is a mix. */
static void refuse(const struct house *h, const struct take *t, const struct rt_word *w,
                   struct rt_answer *answer)
{
    const struct rt_word *own = &t->base.word;
    answer->stand = (struct rt_stand){.stance = RT_STANCE_ABORTED, .ended = true};
    answer->stand.how = w->ask == RT_THREE_NO ? RT_HOW_TOLD : RT_HOW_FAILED;
    if (w->ask == RT_THREE_NO || is_misled(h, w, answer->why) || is_misled(h, own, answer->why))
        return;
    snprintf(answer->why, sizeof(answer->why),
             "it takes part in this transaction already, as '%.80s': correct who is where",
             rt_word_resource(own, own->name.branch));
}

/* Takes W to T, and waits for what comes of it. */
static void pass_on(struct house *h, struct take *t, const struct rt_word *w,
                    struct rt_answer *answer)
{
    t->base.holds++;
    if (w->ask != 0)
        rt_participant_asked(&t->p, (enum rt_three_ask)w->ask, rt_loop_clock());
    else
        rt_participant_met(&t->p, (enum rt_stance)w->stance);
    wait_for_quiet(h, t);
    answer->stand = rt_participant_stand(&t->p);
    memcpy(answer->why, t->why, sizeof(answer->why));
    t->base.holds--;
}

static void on_request(struct rt_http_request *r, void *arg)
{
    struct house *h = arg;
    struct rt_answer answer = {.why = ""};
    struct rt_word w;
    bool broken = false;
    if (!is_open(h, r) || !rt_bureau_read(r, &w))
        return;
    if (w.ask == RT_THREE_CAN && !can_ask(h, &w, r)) {
        json_decref(w.doc);
        return;
    }
    pthread_mutex_lock(&h->bureau.mu);
    struct take *t = find_take(h, &w, &broken);
    if (t != NULL && w.ask != 0 && w.name.branch != t->base.word.name.branch)
        refuse(h, t, &w, &answer);
    else if (t != NULL)
        pass_on(h, t, &w, &answer);
    json_decref(w.doc);
    pthread_mutex_unlock(&h->bureau.mu);
    rt_bureau_answer_json(r, broken ? NULL : rt_word_answer(&answer.stand, answer.why));
}

static bool is_blocked(const struct take *t)
{
    return t->p.blocked && t->p.kept.stand.stance == RT_STANCE_PRECOMMITTED;
}

static void on_list(struct rt_http_request *r, void *arg)
{
    struct house *h = arg;
    char id[RT_TXN_ID_TEXT];
    if (!is_open(h, r))
        return;
    json_t *list = json_array();
    pthread_mutex_lock(&h->bureau.mu);
    for (struct rt_case *c = h->bureau.first; c != NULL; c = c->next) {
        const struct take *t = take_of(c);
        json_t *one = rt_word_answer(&t->p.kept.stand, t->why);
        rt_txn_id_text(&c->word.name.id, id);
        json_object_set_new(one, "txn", json_string(id));
        json_object_set_new(one, "blocked", json_boolean(is_blocked(t)));
        json_array_append_new(list, one);
    }
    pthread_mutex_unlock(&h->bureau.mu);
    rt_bureau_answer_json(r, list);
}

static void on_metrics(struct rt_http_request *r, void *arg)
{
    struct house *h = arg;
    char text[1024];
    unsigned long long open = 0, blocked = 0, mixed = 0;
    if (!is_open(h, r))
        return;
    pthread_mutex_lock(&h->bureau.mu);
    for (struct rt_case *c = h->bureau.first; c != NULL; c = c->next) {
        const struct take *t = take_of(c);
        open += !t->p.over;
        blocked += is_blocked(t);
        mixed += t->p.kept.stand.mixed;
    }
    int n = snprintf(text, sizeof(text),
                     "# TYPE rota_three_open gauge\nrota_three_open %llu\n"
                     "# TYPE rota_three_blocked gauge\nrota_three_blocked %llu\n"
                     "# TYPE rota_three_mixed gauge\nrota_three_mixed %llu\n"
                     "# TYPE rota_three_alone_total counter\nrota_three_alone_total %llu\n"
                     "# TYPE rota_three_attention_total counter\nrota_three_attention_total %llu\n",
                     open, blocked, mixed, (unsigned long long)h->alone,
                     (unsigned long long)h->attention);
    pthread_mutex_unlock(&h->bureau.mu);
    rt_http_request_answer(r, 200, "text/plain; version=0.0.4", text, (size_t)n);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* Listens first: to open the vault is to take over, and whoever cannot start must leave alone whoever works there. */
static int open_house(struct house *h, const struct rt_bureau_options *options, char *why)
{
    int rv = rt_bureau_listen(&h->bureau, options, why, LINE);
    if (rv != 0)
        return rv;
    rv = rt_vault_open(&h->vault, h->url);
    if (rv != 0 || !rt_vault_read(&h->vault, restore, h)) {
        snprintf(why, LINE, "%s", h->vault.errmsg);
        return rv != 0 ? rv : ROTA_UNREACHABLE;
    }
    pthread_mutex_lock(&h->bureau.mu);
    h->is_open = true;
    pthread_mutex_unlock(&h->bureau.mu);
    if (h->opts.listens != NULL)
        h->opts.listens(h->opts.listens_arg, rt_http_server_port(h->bureau.server));
    return 0;
}

static int run(struct house *h)
{
    const struct rt_http_route routes[] = {
        {.method = "POST", .path = RT_THREE_PATH, .handle = on_request, .arg = h},
        {.method = "GET", .path = RT_THREE_PATH, .handle = on_list, .arg = h},
        {.method = "GET", .path = "/metrics", .handle = on_metrics, .arg = h},
    };
    const struct rt_bureau_options options = {
        .listen = h->opts.listen,
        .token_file = h->opts.token_file,
        .cert_file = h->opts.cert_file,
        .key_file = h->opts.key_file,
        .ca_file = h->opts.ca_file,
        .insecure = (h->opts.flags & ROTA_PARTICIPANT_INSECURE) != 0,
        .allow_hosts = h->opts.allow_hosts,
        .routes = routes,
        .route_count = sizeof(routes) / sizeof(routes[0])};
    char why[LINE] = "";
    pthread_mutex_init(&h->vault_mu, NULL);
    int rv = rt_bureau_init(&h->bureau, &kind, &options, why, sizeof(why));
    if (rv == 0)
        rv = open_house(h, &options, why);
    if (rv == 0)
        rt_bureau_run(&h->bureau, h->opts.stop_fd > 0 ? h->opts.stop_fd : -1);
    rt_bureau_fini(&h->bureau);
    rt_vault_close(&h->vault);
    pthread_mutex_destroy(&h->vault_mu);
    if (rv == 0 && h->lost)
        return rt_txns_fail(NULL, ROTA_LOST,
                            "another participant has taken over this database: one is enough");
    return rv != 0 ? rt_txns_fail(NULL, rv, "%s", why) : 0;
}

int rota_participant_run_sized(const char *url, const struct rota_participant_options *opts,
                               size_t size)
{
    struct house h = {.url = url};
    if (url == NULL || url[0] == '\0')
        return rt_txns_fail(NULL, ROTA_INVALID, "a participant needs the URL of its database");
    int rv = rt_txns_options(NULL, &h.opts, sizeof(h.opts), opts, size);
    if (rv == 0 && (h.opts.flags & ~ROTA_PARTICIPANT_INSECURE) != 0)
        rv = rt_txns_fail(NULL, ROTA_INVALID,
                          "the options have a flag that this library does not know");
    return rv == 0 ? run(&h) : rv;
}
