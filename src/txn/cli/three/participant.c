/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn participant: a participant of three-phase commit at one database.
 *
 *   HTTP: a request ──▶ take (one per transaction) ──▶ its machine ──▶ rows, work, questions ──▶ answer, when it is quiet
 *   the clock: T1, T2, asking again ──▶ the same, on the main thread
 *
 * One mutex for all takes. Whoever has something for a take drives it (`drives`): what is done at the database is done by
 * that thread, without the mutex; others wait for it to be quiet. */
#include "cli/options.h"
#include "cli/out.h"
#include "net/loop.h"
#include "txn/cli/args.h"
#include "txn/cli/three/calls.h"
#include "txn/cli/three/vault.h"
#include "txn/http/server.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define ANSWER_NS (5000 * MS)     /* a request is answered by then */
#define KEEP_MS INT64_C(86400000) /* after its deadline a promise is not given any more */

const char rt_job_help_participant[] =
    "Usage: rota txn participant [--listen ADDRESS:PORT] [--token-file FILE] URL\n"
    "Takes part in three-phase commit at the database URL: promises in its table\n"
    "rota_promise, work that is prepared there, timers. A coordinator (rota txn three)\n"
    "and the other participants ask at http://ADDRESS:PORT" RT_THREE_PATH ". What is\n"
    "done when nobody answers is the coordinator's to say: block, or commit as in the\n"
    "textbook. Ends at SIGTERM; what is open goes on when it is started again.\n"
    "\n"
    "      --listen ADDRESS:PORT  127.0.0.1:0 (any port, which is printed)\n"
    "      --token-file FILE      its first line must be sent by who asks\n"
    "      --cert FILE, --key FILE  https\n"
    "      --insecure             without them also where others reach it\n"
    "\n"
    "GET /metrics: open, blocked and mixed ones, for Prometheus. GET /rota/three: all\n"
    "that it has, as JSON. A mixed outcome is printed, counted, kept in its row, and\n"
    "never forgotten by itself.\n";

struct take {
    struct take *next;
    struct rt_word word;
    struct rt_participant p;
    struct rt_deed work;
    bool drives; /* a thread does what it has to do */
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed; /* a take is quiet, or is due */
    struct rt_vault vault;
    pthread_mutex_t vault_mu;
    const char *url;
    struct rt_three_calls *calls;
    struct take *first;
    uint64_t mixed, alone, blocked, attention;
} house = {.mu = PTHREAD_MUTEX_INITIALIZER, .vault_mu = PTHREAD_MUTEX_INITIALIZER};

static int64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void tell(const struct take *t, const char *what)
{
    char id[RT_TXN_ID_TEXT];
    rt_txn_id_text(&t->word.name.id, id);
    fprintf(stderr, "rota-txn participant: %s: %s\n", id, what);
}

/* ---- Takes ------------------------------------------------------------------------- */

static struct take *find(const struct rt_txn_id *id)
{
    struct take *t = house.first;
    while (t != NULL && !rt_txn_id_same(&t->word.name.id, id))
        t = t->next;
    return t;
}

/* W is the take's from now on. NULL: no memory. */
static struct take *make(const struct rt_word *w)
{
    struct take *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->word = *w;
    json_incref(w->doc);
    rt_participant_init(&t->p, (uint32_t)json_array_size(w->parts) - 1, w->textbook, w->t1_ms * MS,
                        w->t2_ms * MS);
    t->p.refuses = w->name.deadline_ms + KEEP_MS < wall_ms();
    t->next = house.first;
    house.first = t;
    return t;
}

/* The number of a part as the machine of T calls it: 0: the coordinator; peers without itself. */
static uint32_t part_of(const struct take *t, uint32_t whom)
{
    assert(whom > 0);
    return whom < t->word.name.branch ? whom - 1 : whom;
}

/* ---- What a take does ---------------------------------------------------------------- */

static void do_news(struct take *t)
{
    uint32_t news = rt_participant_news(&t->p);
    if ((news & RT_PARTICIPANT_MIXED) != 0) {
        house.mixed++;
        tell(t,
             t->p.next.stand.stance == RT_STANCE_COMMITTED
                 ? "MIXED: it is committed here, and aborted elsewhere; a person has to mend it"
                 : "MIXED: it is aborted here, and committed elsewhere; a person has to mend it");
    }
    if ((news & RT_PARTICIPANT_ALONE) != 0) {
        house.alone++;
        tell(t, "nobody answers: committed of itself (on_timeout = commit)");
    }
    if ((news & RT_PARTICIPANT_BLOCKED) != 0) {
        house.blocked++;
        tell(t, "blocked: nobody who knows the decision answers; its rows stay locked until then");
    }
    if ((news & RT_PARTICIPANT_ATTENTION) != 0) {
        house.attention++;
        tell(t, "ten times in vain");
    }
}

static void heard(void *arg, uint32_t whom, uint32_t seq, const struct rt_stand *stand)
{
    struct take *t = arg;
    pthread_mutex_lock(&house.mu);
    rt_participant_heard(&t->p, whom, seq, stand != NULL ? stand->stance : RT_STANCE_NONE,
                         rt_loop_clock());
    pthread_cond_broadcast(&house.changed);
    pthread_mutex_unlock(&house.mu);
}

static void ask(struct take *t, const struct rt_participant_todo *todo)
{
    const char *url = todo->whom == 0 ? t->word.coordinator
                                      : rt_word_part(&t->word, part_of(t, todo->whom));
    uint8_t stance = rt_participant_stand(&t->p).stance;
    char *text = rt_word_text(&t->word, "ask", t->word.name.branch, stance);
    if (text == NULL ||
        !rt_three_calls_ask(house.calls, url, &t->word.name, text, heard, t, todo->whom, todo->seq))
        rt_participant_heard(&t->p, todo->whom, todo->seq, RT_STANCE_NONE, rt_loop_clock());
    free(text);
}

/* Without the mutex: at the database. */
static enum rt_reply act(struct take *t, const struct rt_participant_todo *todo)
{
    char why[256] = "";
    enum rt_reply reply = RT_REPLY_LOST;
    switch (todo->op) {
    case RT_PARTICIPANT_WRITE:
        pthread_mutex_lock(&house.vault_mu);
        if (rt_vault_write(&house.vault, &t->word, &todo->row))
            reply = RT_REPLY_DONE;
        else
            snprintf(why, sizeof(why), "%s", house.vault.errmsg);
        if (house.vault.deposed)
            _exit(RT_EXIT_FAILED); /* whatever else is under way here must not go on */
        pthread_mutex_unlock(&house.vault_mu);
        break;
    case RT_PARTICIPANT_WORK:
        reply = rt_deed_do(&t->work, house.url, &t->word, why);
        break;
    case RT_PARTICIPANT_LOOK:
        reply = rt_deed_look(&t->work, house.url, &t->word, why);
        break;
    default:
        reply = rt_deed_end(&t->work, house.url, &t->word,
                            todo->op == RT_PARTICIPANT_COMMIT ? RT_PARTY_COMMIT : RT_PARTY_ROLLBACK,
                            why);
    }
    if (why[0] != '\0' && (reply == RT_REPLY_LOST || reply == RT_REPLY_NO))
        tell(t, why);
    return reply;
}

/* With the mutex: all that is due of T, unless another thread is at it. */
static void drive(struct take *t)
{
    struct rt_participant_todo todo;
    if (t->drives)
        return;
    t->drives = true;
    while (rt_participant_todo(&t->p, &todo, wall_ms(), rt_loop_clock())) {
        do_news(t);
        if (todo.op == RT_PARTICIPANT_ASK) {
            ask(t, &todo);
            continue;
        }
        pthread_mutex_unlock(&house.mu);
        enum rt_reply reply = act(t, &todo);
        pthread_mutex_lock(&house.mu);
        rt_participant_did(&t->p, todo.seq, reply, rt_loop_clock());
    }
    do_news(t);
    t->drives = false;
    pthread_cond_broadcast(&house.changed);
}

/* ---- Requests ------------------------------------------------------------------------ */

static json_t *stand_json(const struct rt_stand *s)
{
    return json_pack("{s:s, s:s, s:b, s:b}", "stance", rt_stance_words[s->stance], "how",
                     rt_how_words[s->how], "mixed", (int)s->mixed, "ended", (int)s->ended);
}

static void answer(struct rt_http_request *r, int status, json_t *doc)
{
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    if (text != NULL)
        rt_http_request_answer(r, status, RT_THREE_TYPE, text, strlen(text));
    else
        rt_http_request_answer(r, 503, NULL, "", 0);
    free(text);
    json_decref(doc);
}

static void wait_for_quiet(struct take *t)
{
    int64_t until = rt_loop_clock() + ANSWER_NS;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += ANSWER_NS / (1000 * MS);
    drive(t);
    while (t->drives && rt_loop_clock() < until) {
        pthread_cond_timedwait(&house.changed, &house.mu, &ts);
        drive(t); /* something may have come meanwhile */
    }
}

static void on_request(struct rt_http_request *r, void *arg)
{
    struct rt_word w;
    char why[200];
    (void)arg;
    if (!rt_word_read(r->body, r->size, &w, why, sizeof(why))) {
        rt_http_request_answer(r, 400, "text/plain", why, strlen(why));
        return;
    }
    pthread_mutex_lock(&house.mu);
    struct take *t = find(&w.name.id);
    struct rt_stand stand = {0};
    if (t == NULL && w.ask != 0)
        t = make(&w);
    if (t != NULL && w.ask != 0)
        rt_participant_asked(&t->p, (enum rt_three_ask)w.ask, rt_loop_clock());
    else if (t != NULL)
        rt_participant_met(&t->p, (enum rt_stance)w.stance);
    if (t != NULL) {
        wait_for_quiet(t);
        stand = rt_participant_stand(&t->p);
    }
    pthread_mutex_unlock(&house.mu);
    json_decref(w.doc);
    answer(r, 200, stand_json(&stand));
}

static void on_list(struct rt_http_request *r, void *arg)
{
    json_t *list = json_array();
    char id[RT_TXN_ID_TEXT];
    (void)arg;
    pthread_mutex_lock(&house.mu);
    for (const struct take *t = house.first; t != NULL; t = t->next) {
        json_t *one = stand_json(&t->p.kept.stand);
        rt_txn_id_text(&t->word.name.id, id);
        json_object_set_new(one, "txn", json_string(id));
        json_object_set_new(
            one, "blocked",
            json_boolean(t->p.blocked && t->p.kept.stand.stance == RT_STANCE_PRECOMMITTED));
        json_array_append_new(list, one);
    }
    pthread_mutex_unlock(&house.mu);
    answer(r, 200, list);
}

static void on_metrics(struct rt_http_request *r, void *arg)
{
    char text[1024];
    uint64_t open = 0, blocked = 0, mixed = 0;
    (void)arg;
    pthread_mutex_lock(&house.mu);
    for (const struct take *t = house.first; t != NULL; t = t->next) {
        bool pre = t->p.kept.stand.stance == RT_STANCE_PRECOMMITTED;
        open += !t->p.over;
        blocked += pre && t->p.blocked;
        mixed += t->p.kept.stand.mixed;
    }
    int n = snprintf(text, sizeof(text),
                     "# TYPE rota_three_open gauge\nrota_three_open %llu\n"
                     "# TYPE rota_three_blocked gauge\nrota_three_blocked %llu\n"
                     "# TYPE rota_three_mixed gauge\nrota_three_mixed %llu\n"
                     "# TYPE rota_three_alone_total counter\nrota_three_alone_total %llu\n"
                     "# TYPE rota_three_attention_total counter\nrota_three_attention_total %llu\n",
                     (unsigned long long)open, (unsigned long long)blocked,
                     (unsigned long long)mixed, (unsigned long long)house.alone,
                     (unsigned long long)house.attention);
    pthread_mutex_unlock(&house.mu);
    rt_http_request_answer(r, 200, "text/plain; version=0.0.4", text, (size_t)n);
}

/* ---- Its life ------------------------------------------------------------------------ */

static void restore(void *arg, const char *body, size_t size, const struct rt_promise *row)
{
    struct rt_word w;
    char why[200];
    (void)arg;
    if (row->stand.stance == RT_STANCE_NONE || !rt_word_read(body, size, &w, why, sizeof(why)))
        return;
    struct take *t = make(&w);
    if (t != NULL)
        rt_participant_restore(&t->p, row, wall_ms(), rt_loop_clock());
    json_decref(w.doc);
}

/* Until a signal: timers, and what was heard. */
static void keep(sigset_t *waits)
{
    struct timespec zero = {0};
    pthread_mutex_lock(&house.mu);
    while (sigtimedwait(waits, NULL, &zero) < 0) {
        int64_t next = rt_loop_clock() + 200 * MS; /* signals are looked for */
        for (struct take *t = house.first; t != NULL; t = t->next) {
            drive(t);
            int64_t at = rt_participant_next(&t->p);
            next = at < next ? at : next;
        }
        int64_t left = next - rt_loop_clock();
        left = left < 1 * MS ? 1 * MS : left;
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        ts.tv_nsec += left;
        ts.tv_sec += ts.tv_nsec / 1000000000;
        ts.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&house.changed, &house.mu, &ts);
    }
    pthread_mutex_unlock(&house.mu);
}

/* Connections end; what is prepared, and the rows, stay. */
static void leave(void)
{
    while (house.first != NULL) {
        struct take *t = house.first;
        house.first = t->next;
        rt_deed_drop(&t->work);
        json_decref(t->word.doc);
        free(t);
    }
    rt_vault_close(&house.vault);
}

static int run(const char *url, struct rt_http_server_options *options)
{
    static const struct rt_http_route routes[] = {
        {"POST", RT_THREE_PATH, on_request, NULL, false},
        {"GET", RT_THREE_PATH, on_list, NULL, false},
        {"GET", "/metrics", on_metrics, NULL, false},
    };
    struct rt_http_server *server = NULL;
    char why[256];
    sigset_t waits;
    sigemptyset(&waits);
    sigaddset(&waits, SIGTERM);
    sigaddset(&waits, SIGINT);
    pthread_sigmask(SIG_BLOCK, &waits, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&house.changed, &attr);
    house.url = url;
    if (rt_vault_open(&house.vault, url) != 0 || !rt_vault_read(&house.vault, restore, NULL)) {
        fprintf(stderr, "rota-txn participant: %s\n", house.vault.errmsg);
        return RT_EXIT_UNREACHABLE;
    }
    options->routes = routes;
    options->route_count = sizeof(routes) / sizeof(routes[0]);
    if (rt_three_calls_open(&house.calls) != 0 ||
        rt_http_server_start(&server, options, why, sizeof(why)) != 0) {
        fprintf(stderr, "rota-txn participant: %s\n", why);
        return RT_EXIT_UNREACHABLE;
    }
    printf("port %u\n", rt_http_server_port(server));
    (void)rt_out_flush();
    keep(&waits);
    rt_http_server_stop(server, 1000);
    rt_three_calls_close(house.calls);
    leave();
    return RT_EXIT_OK;
}

int rt_job_participant(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'}, {"token-file", required_argument, NULL, 't'},
        {"cert", required_argument, NULL, 'c'},   {"key", required_argument, NULL, 'k'},
        {"insecure", no_argument, NULL, 'i'},     {NULL, 0, NULL, 0}};
    struct rt_http_server_options http = {0};
    int c;
    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c == 'l')
            http.listen = optarg;
        else if (c == 't')
            http.token_file = optarg;
        else if (c == 'c')
            http.cert_file = optarg;
        else if (c == 'k')
            http.key_file = optarg;
        else if (c == 'i')
            http.insecure = true;
        else
            return rt_args_other("participant", argv, c);
    }
    if (optind + 1 != argc)
        return rt_args_usage("participant", "it needs the URL of its database");
    return run(argv[optind], &http);
}
