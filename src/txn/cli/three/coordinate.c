/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn three: the coordinator of three-phase commit. One transaction over participants; and whoever answers the
 * participants of what dead coordinators left.
 *
 * One mutex; the main thread asks the journal and sends requests; the HTTP server and client tell it what came. */
#include "cli/options.h"
#include "cli/out.h"
#include "net/loop.h"
#include "txn/cli/three/calls.h"
#include "txn/cli/visit.h"
#include "txn/http/server.h"
#include "txn/manager/inside.h"
#include "txn/three/coordinator.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define MS INT64_C(1000000)
#define PARTS_MAX (RT_PARTICIPANT_PEERS + 1)

const char rt_job_help_three[] =
    "Usage: rota txn three --part NAME=ADDRESS --sql NAME=STATEMENT... [OPTION]...\n"
    "       rota txn three --serve --listen ADDRESS:PORT\n"
    "Three-phase commit: each participant (rota txn participant) promises, prepares its\n"
    "statements, and commits when the decision stands in the journal. NAME is the\n"
    "resource of its database, so that recovery finds it; ADDRESS http://HOST:PORT.\n"
    "With --serve it goes on answering participants, also of transactions whose\n"
    "coordinator died, and ends at SIGTERM.\n"
    "\n"
    "      --part NAME=ADDRESS    who takes part, 1 to 16\n"
    "      --sql NAME=STATEMENT   its work; any number, in their order\n"
    "      --on-timeout block|commit  what a participant does that is ready and hears\n"
    "                             nobody: waits (block), or commits as in the textbook:\n"
    "                             then the outcome may be mixed, and is told\n"
    "      --promise TIME         T1: promises are kept so long (5s)\n"
    "      --ready TIME           T2: who is ready waits so long before it asks (15s)\n"
    "      --patience TIME        who prepares is waited for so long (less than half of --ready); with\n"
    "                             commit nothing is aborted for that after --ready\n"
    "      --listen ADDRESS:PORT  where participants ask (127.0.0.1:0)\n"
    "      --address URL          ... and how they reach it, if that is another\n" RT_JOB_HELP "\n"
    "Exit: 0 committed, 75 aborted, 1 mixed: a person has to mend it, 69 no journal.\n";

struct lead {
    struct lead *next;
    struct rt_word word;
    struct rt_coordinator c;
    struct rt_coordinator_part parts[PARTS_MAX];
    bool own; /* of the command line */
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct rt_visit visit;
    struct rt_three_calls *calls;
    struct lead *first;
} office = {.mu = PTHREAD_MUTEX_INITIALIZER};

struct wish {
    json_t *names, *parts, *work; /* work: an array of statements per part */
    const char *listen, *address;
    uint64_t t1_ms, t2_ms, patience_ms;
    bool textbook, serve;
};

/* ---- Transactions ---------------------------------------------------------------------- */

static struct lead *find(const struct rt_txn_id *id)
{
    struct lead *l = office.first;
    while (l != NULL && !rt_txn_id_same(&l->word.name.id, id))
        l = l->next;
    return l;
}

static struct lead *make(const struct rt_word *w)
{
    struct lead *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->word = *w;
    json_incref(w->doc);
    l->next = office.first;
    office.first = l;
    return l;
}

/* ---- The journal ----------------------------------------------------------------------- */

static enum rt_decision decision_of(enum rt_journal_stand stand)
{
    return stand == RT_JOURNAL_COMMIT  ? RT_DECISION_COMMIT
           : stand == RT_JOURNAL_ABORT ? RT_DECISION_ABORT
                                       : RT_DECISION_NONE;
}

/* By which recovery knows how to end it. */
static uint16_t mode_of(const char *name)
{
    struct rt_resource *r = name != NULL
                                ? rt_resources_find(rt_txns_resources(office.visit.m), name)
                                : NULL;
    bool gated = r == NULL || rt_resource_kind(r)->gated;
    return gated ? RT_THREE_MYSQL : RT_THREE_POSTGRES;
}

static void decide(struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_journal_branch branches[PARTS_MAX] = {{0}};
    bool commit = todo->decision == RT_DECISION_COMMIT;
    const json_t *names = json_object_get(l->word.doc, "names");
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    op.decide.id = l->word.name.id;
    op.decide.deadline_ms = l->word.name.deadline_ms;
    op.decide.decision = commit ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
    op.decide.branches = branches;
    for (uint32_t i = 0; commit && i < l->c.count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        branches[op.decide.count++] = (struct rt_journal_branch){
            .number = i + 1, .mode = mode_of(name), .resource = name != NULL ? name : "unknown"};
    }
    pthread_mutex_unlock(&office.mu);
    int err = rt_txns_ask(office.visit.m, &op);
    pthread_mutex_lock(&office.mu);
    enum rt_decision stands = decision_of(op.decide.stands);
    enum rt_reply reply = err != 0                                 ? RT_REPLY_LOST
                          : stands != RT_DECISION_NONE             ? RT_REPLY_STANDS
                          : op.decide.stands == RT_JOURNAL_EXPIRED ? RT_REPLY_BELOW
                                                                   : RT_REPLY_LOST;
    if (err != 0)
        rt_out_error("%s", rota_txn_errmsg(office.visit.m));
    rt_coordinator_wrote(&l->c, todo->seq, reply, stands, rt_loop_clock());
}

static void finish(struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
    op.finish.ids = &l->word.name.id;
    op.finish.count = 1;
    pthread_mutex_unlock(&office.mu);
    int err = rt_txns_ask(office.visit.m, &op);
    pthread_mutex_lock(&office.mu);
    rt_coordinator_wrote(&l->c, todo->seq, err == 0 ? RT_REPLY_DONE : RT_REPLY_LOST,
                         RT_DECISION_NONE, rt_loop_clock());
}

/* ---- What is asked and told -------------------------------------------------------------- */

static void told(void *arg, uint32_t whom, uint32_t seq, const struct rt_stand *stand)
{
    static const struct rt_stand none;
    struct lead *l = arg;
    pthread_mutex_lock(&office.mu);
    rt_coordinator_answered(&l->c, whom, seq, stand == NULL, stand != NULL ? stand : &none,
                            rt_loop_clock());
    pthread_cond_broadcast(&office.changed);
    pthread_mutex_unlock(&office.mu);
}

/* What a participant is sent has its own statements only. */
static void say_to(struct lead *l, const struct rt_coordinator_todo *todo)
{
    struct rt_word w = l->word;
    json_t *work = json_array_get(json_object_get(w.doc, "work"), todo->whom);
    char *text = NULL;
    w.doc = json_copy(w.doc);
    if (w.doc != NULL) {
        json_object_set(w.doc, "statements", work != NULL ? work : w.statements);
        json_object_del(w.doc, "work");
        text = rt_word_text(&w, rt_word_op(todo->ask), todo->whom + 1, RT_STANCE_NONE);
    }
    json_decref(w.doc);
    struct rt_name name = l->word.name;
    name.branch = todo->whom + 1;
    if (text == NULL || !rt_three_calls_ask(office.calls, rt_word_part(&l->word, todo->whom), &name,
                                            text, told, l, todo->whom, todo->seq))
        rt_coordinator_answered(&l->c, todo->whom, todo->seq, true, NULL, rt_loop_clock());
    free(text);
}

static void do_news(const struct lead *l, uint32_t news)
{
    char id[RT_TXN_ID_TEXT];
    rt_txn_id_text(&l->word.name.id, id);
    if ((news & RT_COORDINATOR_TOLD) != 0)
        printf("%s %s\n", id, rt_stance_words[rt_coordinator_stance(&l->c)]);
    if ((news & RT_COORDINATOR_MIX) != 0)
        rt_out_error("%s: MIXED: decided %s, and a participant has ended otherwise; a person has "
                     "to mend it",
                     id, rt_stance_words[rt_coordinator_stance(&l->c)]);
    (void)fflush(stdout);
}

static void drive(struct lead *l)
{
    struct rt_coordinator_todo todo;
    while (rt_coordinator_todo(&l->c, &todo, rt_loop_clock())) {
        if (todo.op == RT_COORDINATOR_TELL)
            say_to(l, &todo);
        else if (todo.op == RT_COORDINATOR_DECIDE)
            decide(l, &todo);
        else
            finish(l, &todo);
    }
    do_news(l, rt_coordinator_news(&l->c));
}

/* A participant asks. What is not known here was left by somebody who died: it is adopted. */
static void on_ask(struct rt_http_request *r, void *arg)
{
    struct rt_word w;
    char text[160], why[200];
    (void)arg;
    if (!rt_word_read(r->body, r->size, &w, why, sizeof(why))) {
        rt_http_request_answer(r, 400, "text/plain", why, strlen(why));
        return;
    }
    pthread_mutex_lock(&office.mu);
    struct lead *l = find(&w.name.id);
    if (l == NULL && rt_visit_ours(&office.visit, &w.name.id) == RT_EXIT_OK &&
        (l = make(&w)) != NULL)
        rt_coordinator_adopt(&l->c, l->parts, (uint32_t)json_array_size(w.parts), w.textbook,
                             rt_loop_clock());
    enum rt_stance stance = l != NULL ? rt_coordinator_stance(&l->c) : RT_STANCE_WAIT;
    pthread_cond_broadcast(&office.changed);
    pthread_mutex_unlock(&office.mu);
    json_decref(w.doc);
    int n = snprintf(text, sizeof(text),
                     "{\"stance\":\"%s\",\"how\":\"\",\"mixed\":false,\"ended\":false}",
                     rt_stance_words[stance]);
    rt_http_request_answer(r, 200, RT_THREE_TYPE, text, (size_t)n);
}

/* ---- Its life ---------------------------------------------------------------------------- */

static bool is_over(const struct lead *l)
{
    return l == NULL || l->c.state >= RT_COORDINATOR_ENDED;
}

static void keep(const struct lead *own, bool serve, const sigset_t *waits)
{
    struct timespec ts = {0};
    pthread_mutex_lock(&office.mu);
    for (;;) {
        struct timespec zero = {0};
        int64_t next = rt_loop_clock() + 200 * MS; /* signals are looked for */
        for (struct lead *l = office.first; l != NULL; l = l->next)
            drive(l);
        for (struct lead *l = office.first; l != NULL; l = l->next) {
            int64_t at = rt_coordinator_next(&l->c);
            next = at < next ? at : next;
        }
        if ((!serve && is_over(own)) || sigtimedwait(waits, NULL, &zero) >= 0)
            break;
        int64_t left = next - rt_loop_clock();
        left = left < MS ? MS : left;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        ts.tv_nsec += left;
        ts.tv_sec += ts.tv_nsec / 1000000000;
        ts.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&office.changed, &office.mu, &ts);
    }
    pthread_mutex_unlock(&office.mu);
}

static struct lead *begin(const struct wish *wish, const char *address)
{
    uint64_t random;
    char id_text[RT_TXN_ID_TEXT], why[200];
    int64_t now_ms = rt_visit_wall_ms();
    struct rt_word w;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return NULL;
    struct rt_txn_id id = rt_txn_id_make(office.visit.number, now_ms, random);
    rt_txn_id_text(&id, id_text);
    int64_t deadline_ms = now_ms + (int64_t)(wish->t1_ms + 2 * wish->t2_ms);
    json_t *doc = json_pack("{s:s, s:s, s:i, s:I, s:s, s:s, s:O, s:O, s:[], s:O, s:s, s:I, s:I}",
                            "op", "can", "txn", id_text, "branch", 1, "deadline_ms",
                            (json_int_t)deadline_ms, "stance", "NONE", "coordinator", address,
                            "parts", wish->parts, "names", wish->names, "statements", "work",
                            wish->work, "on_timeout", wish->textbook ? "commit" : "block", "t1_ms",
                            (json_int_t)wish->t1_ms, "t2_ms", (json_int_t)wish->t2_ms);
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    if (text == NULL || !rt_word_read(text, strlen(text), &w, why, sizeof(why))) {
        free(text);
        return NULL;
    }
    free(text);
    struct lead *l = make(&w);
    json_decref(w.doc);
    if (l == NULL)
        return NULL;
    l->own = true;
    int64_t shorter = (int64_t)(wish->t1_ms < wish->t2_ms ? wish->t1_ms : wish->t2_ms);
    rt_coordinator_begin(&l->c, l->parts, (uint32_t)json_array_size(wish->parts), wish->textbook,
                         (int64_t)wish->t1_ms * MS, (int64_t)wish->t2_ms * MS, shorter * MS / 5,
                         rt_loop_clock());
    if (wish->patience_ms > 0)
        l->c.patience = (int64_t)wish->patience_ms * MS;
    printf("%s begun\n", id_text);
    (void)fflush(stdout);
    return l;
}

static int exit_of(const struct lead *l)
{
    if (l == NULL)
        return RT_EXIT_OK;
    if (l->c.mixed)
        return RT_EXIT_FAILED;
    return rt_coordinator_stance(&l->c) == RT_STANCE_COMMITTED ? RT_EXIT_OK : RT_EXIT_BUSY;
}

static void leave(void)
{
    while (office.first != NULL) {
        struct lead *l = office.first;
        office.first = l->next;
        json_decref(l->word.doc);
        free(l);
    }
}

static int run(const struct wish *wish)
{
    static const struct rt_http_route routes[] = {{"POST", RT_THREE_PATH, on_ask, NULL, false}};
    struct rt_http_server_options http = {
        .listen = wish->listen, .routes = routes, .route_count = 1};
    struct rt_http_server *server = NULL;
    char why[256] = "out of memory", address[300];
    sigset_t waits;
    struct lead *own = NULL;
    sigemptyset(&waits);
    sigaddset(&waits, SIGTERM);
    sigaddset(&waits, SIGINT);
    pthread_sigmask(SIG_BLOCK, &waits, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&office.changed, &attr);
    if (rt_three_calls_open(&office.calls) != 0 ||
        rt_http_server_start(&server, &http, why, sizeof(why)) != 0) {
        rt_out_error("%s", why);
        return RT_EXIT_UNREACHABLE;
    }
    snprintf(address, sizeof(address), "http://127.0.0.1:%u" RT_THREE_PATH,
             rt_http_server_port(server));
    printf("port %u\n", rt_http_server_port(server));
    (void)fflush(stdout);
    if (json_array_size(wish->parts) > 0)
        own = begin(wish, wish->address != NULL ? wish->address : address);
    keep(own, wish->serve, &waits);
    rt_http_server_stop(server, 1000);
    rt_three_calls_close(office.calls);
    int code = exit_of(own);
    leave();
    return code;
}

/* ---- Its words --------------------------------------------------------------------------- */

static int number_of(const json_t *names, const char *text, size_t size)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (strlen(name) == size && strncmp(name, text, size) == 0)
            return (int)i;
    }
    return -1;
}

/* NULL: good; else what is wrong. */
static const char *add_part(struct wish *w, const char *text)
{
    const char *is = strchr(text, '=');
    if (is == NULL || is == text || number_of(w->names, text, (size_t)(is - text)) >= 0 ||
        json_array_size(w->names) == PARTS_MAX)
        return "--part is NAME=ADDRESS, each name once, 16 at most";
    char *url = NULL;
    if (asprintf(&url, "%s%s", is + 1, RT_THREE_PATH) < 0)
        return "out of memory";
    json_array_append_new(w->names, json_stringn(text, (size_t)(is - text)));
    json_array_append_new(w->parts, json_string(url));
    json_array_append_new(w->work, json_array());
    free(url);
    return NULL;
}

static const char *add_sql(struct wish *w, const char *text)
{
    const char *is = strchr(text, '=');
    int i = is != NULL ? number_of(w->names, text, (size_t)(is - text)) : -1;
    if (i < 0)
        return "--sql is NAME=STATEMENT, with a NAME that --part has named before";
    json_array_append_new(json_array_get(w->work, (size_t)i), json_string(is + 1));
    return NULL;
}

static const char *set(struct wish *w, int c)
{
    switch (c) {
    case 'p':
        return add_part(w, optarg);
    case 'q':
        return add_sql(w, optarg);
    case 'o':
        w->textbook = strcmp(optarg, "commit") == 0;
        return w->textbook || strcmp(optarg, "block") == 0 ? NULL
                                                           : "--on-timeout is block or commit";
    case '1':
    case '2':
    case '3':
        return rt_options_duration_ms(optarg, c == '1'   ? &w->t1_ms
                                              : c == '2' ? &w->t2_ms
                                                         : &w->patience_ms)
                   ? NULL
                   : "that is no time";
    case 'l':
        w->listen = optarg;
        return NULL;
    case 'a':
        w->address = optarg;
        return NULL;
    default:
        w->serve = true;
        return NULL;
    }
}

int rt_job_three(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{"part", required_argument, NULL, 'p'},
                                            {"sql", required_argument, NULL, 'q'},
                                            {"on-timeout", required_argument, NULL, 'o'},
                                            {"promise", required_argument, NULL, '1'},
                                            {"ready", required_argument, NULL, '2'},
                                            {"patience", required_argument, NULL, '3'},
                                            {"listen", required_argument, NULL, 'l'},
                                            {"address", required_argument, NULL, 'a'},
                                            {"serve", no_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    struct wish wish = {.names = json_array(),
                        .parts = json_array(),
                        .work = json_array(),
                        .t1_ms = 5000,
                        .t2_ms = 15000};
    int c, code = RT_EXIT_OK;
    while (code == RT_EXIT_OK && (c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (strchr("pqo123las", c) == NULL)
            return rt_args_other("three", argv, c);
        const char *wrong = set(&wish, c);
        if (wrong != NULL)
            return rt_args_usage("three", "%s", wrong);
    }
    if (optind < argc)
        return rt_args_usage("three", "unexpected '%s'", argv[optind]);
    if (json_array_size(wish.parts) == 0 && !wish.serve)
        return rt_args_usage("three", "it needs --part, or --serve");
    code = rt_visit_open(&office.visit, args, &(struct rota_txns_options){0});
    if (code != RT_EXIT_OK)
        return code;
    code = run(&wish);
    rt_visit_close(&office.visit);
    json_decref(wish.names);
    json_decref(wish.parts);
    json_decref(wish.work);
    return code;
}
