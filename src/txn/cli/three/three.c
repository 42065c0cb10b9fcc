/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn three: one transaction by three-phase commit; and the server that answers the participants of what dead
 * coordinators left. */
#include "base/utf8.h"
#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/hook.h"
#include "txn/cli/three/wire.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTS_MAX 16
#define TIME_MAX_MS 86400000
#define WAIT_MS 30000 /* --wait */

const char rt_job_help_three[] =
    "Usage: rota txn three --part NAME=ADDRESS --sql NAME=STATEMENT... [OPTION]...\n"
    "       rota txn three --serve --listen ADDRESS:PORT\n"
    "Three-phase commit: each participant (rota txn participant) promises, prepares\n"
    "its statements, and commits once the decision is in the journal. NAME is the\n"
    "resource of its database, so that recovery finds it; ADDRESS: http://HOST:PORT.\n"
    "With --serve it keeps answering participants, also about transactions whose\n"
    "coordinator died, and ends on SIGTERM.\n"
    "\n"
    "      --part NAME=ADDRESS    a participant; 1 to 16 of them\n"
    "      --sql NAME=STATEMENT   its work; any number, run in this order\n"
    "      --on-timeout block|commit  what a ready participant does when nobody\n"
    "                             answers: waits (block), or commits as in the\n"
    "                             textbook; then the outcome may be mixed, and a\n"
    "                             person is called\n"
    "      --promise TIME         T1: how long promises are kept (5s)\n"
    "      --ready TIME           T2: how long a ready one waits before it asks (15s)\n"
    "      --patience TIME        how long to wait for those that prepare (less than\n"
    "                             half of --ready); with commit, nothing is aborted\n"
    "                             for that after --ready\n"
    "      --wait TIME            how long to go on telling all once decided (30s);\n"
    "                             then --serve or recovery tells the others\n"
    "      --for TIME             end after this time; what is not decided by then is\n"
    "                             aborted (and the journal has 5s to answer)\n"
    "      --listen ADDRESS:PORT  where participants ask (127.0.0.1:0)\n"
    "      --address URL          ... and how they reach it, if that differs\n" RT_WIRE_HELP
        RT_JOB_HELP "\n"
    "Exit: 0 committed, 75 aborted, 1 mixed: a person must repair it, 69 no journal,\n"
    "76 a signal ended it before it was decided: see 'rota txn outcome ID'.\n";

struct work { /* for one part */
    const char *name;
    size_t name_size;
    char *resource;
    const char **statements;
    size_t count;
};

struct wish {
    struct rota_three_part parts[PARTS_MAX];
    struct work work[PARTS_MAX];
    size_t count;
    const char *listen, *address;
    struct rt_wire wire;
    struct rota_three_work how;
    bool serve;
};

static char begun_id[64];
static atomic_bool mixed; /* whether one is */

/* ROTA_LOG_INFO: for whom it waits. */
static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    if (level <= ROTA_LOG_WARN || (level == ROTA_LOG_INFO && isatty(STDERR_FILENO) == 1))
        rt_out_error("%s", line);
}

static void on_attention(void *arg, const char *id, const char *resource, const char *line)
{
    (void)arg;
    if (strncmp(line, "MIXED", 5) == 0 && strcmp(id, begun_id) == 0)
        atomic_store(&mixed, true);
    rt_hook_call(id, resource, line);
}

/* ---- One transaction --------------------------------------------------------------------- */

static void on_begun(void *arg, const char *id)
{
    (void)arg;
    snprintf(begun_id, sizeof(begun_id), "%s", id);
    printf("%s begun\n", id);
    (void)fflush(stdout);
}

/* It may take long until everybody has heard of it. */
static void on_decided(void *arg, const char *id, int outcome)
{
    (void)arg;
    printf("%s %s\n", id, outcome == 0 ? "COMMITTED" : "ABORTED");
    (void)fflush(stdout);
}

static void tell_unheard(const struct rt_visit *v, const struct wish *wish)
{
    struct rota_outcome o;
    if (!wish->serve && rota_txn_outcome(v->m, begun_id, &o) == 0 && o.unfinished > 0)
        rt_out_error("not all know of it yet: 'rota txn three --serve' at the same address tells "
                     "them, or recovery ends it at their databases");
}

static int commit(const struct rt_visit *v, struct rota_three *c, struct wish *wish)
{
    wish->how.begun = on_begun;
    wish->how.decided = on_decided;
    if (wish->serve)
        wish->how.wait_ms = 1; /* it is asked on while it serves */
    else if (wish->how.wait_ms == 0)
        wish->how.wait_ms = WAIT_MS;
    int err = rota_three_commit(c, wish->parts, wish->count, &wish->how);
    if (err != 0)
        rt_out_error("%s", rota_txn_errmsg(v->m));
    if (err == 0 || err == ROTA_ABORTED)
        tell_unheard(v, wish);
    return err == ROTA_ABORTED ? RT_EXIT_BUSY
           : err == ROTA_MIXED ? RT_EXIT_FAILED
                               : rt_visit_exit(err);
}

/* Others finish what it leaves. */
static void *on_signal(void *arg)
{
    static const char line[] = "rota: it was ended before it was decided, or before all had heard "
                               "of it: 'rota txn outcome ID' tells what became of it\n";
    int signo;
    (void)sigwait(arg, &signo);
    (void)!write(STDERR_FILENO, line, sizeof(line) - 1);
    _exit(RT_EXIT_LOST);
}

static void leave_at(const sigset_t *set)
{
    static sigset_t own;
    pthread_t thread;
    own = *set;
    if (pthread_create(&thread, NULL, on_signal, &own) == 0)
        pthread_detach(thread);
}

static int run(const struct rt_visit *v, struct wish *wish, const sigset_t *waits)
{
    const struct rota_three_options opts = {
        .listen = wish->listen,
        .address = wish->address,
        .token_file = wish->wire.token_file,
        .cert_file = wish->wire.cert_file,
        .key_file = wish->wire.key_file,
        .ca_file = wish->wire.ca_file,
        .allow_hosts = wish->wire.allow_hosts[0] != 0 ? wish->wire.allow_hosts : NULL,
        .flags = wish->wire.insecure ? ROTA_THREE_INSECURE : 0};
    struct rota_three *c = NULL;
    int code = RT_EXIT_OK, signo;
    int err = rota_three_open(v->m, &opts, &c);
    if (err != 0)
        return rt_visit_report(v, err);
    printf("port %u\n", rota_three_port(c));
    (void)fflush(stdout);
    if (wish->count > 0)
        code = commit(v, c, wish);
    if (wish->serve)
        (void)sigwait(waits, &signo);
    rota_three_close(c);
    return code;
}

/* ---- Its words --------------------------------------------------------------------------- */

static struct work *work_of(struct wish *w, const char *text, size_t size)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->work[i].name_size == size && strncmp(w->work[i].name, text, size) == 0)
            return &w->work[i];
    return NULL;
}

/* NULL: good; else what is wrong. */
static const char *add_part(struct wish *w, const char *text)
{
    const char *is = strchr(text, '=');
    if (is == NULL || is == text || work_of(w, text, (size_t)(is - text)) != NULL ||
        w->count == PARTS_MAX)
        return "--part is NAME=ADDRESS, each name once, 16 at most";
    if (!rt_utf8_is(text))
        return "--part is not UTF-8";
    char *resource = strndup(text, (size_t)(is - text));
    if (resource == NULL)
        return "out of memory";
    w->work[w->count] = (struct work){
        .name = text, .name_size = (size_t)(is - text), .resource = resource};
    w->parts[w->count++] = (struct rota_three_part){.resource = resource, .address = is + 1};
    return NULL;
}

static const char *add_sql(struct wish *w, const char *text)
{
    const char *is = strchr(text, '=');
    struct work *of = is != NULL ? work_of(w, text, (size_t)(is - text)) : NULL;
    if (of == NULL)
        return "--sql is NAME=STATEMENT, with a NAME that --part has named before";
    if (!rt_utf8_is(is + 1))
        return "--sql has bytes that are not UTF-8: write them as the database's own escapes";
    const char **all = (const char **)realloc((void *)of->statements,
                                              (of->count + 1) * sizeof(*all));
    if (all == NULL)
        return "out of memory";
    all[of->count++] = is + 1;
    of->statements = all;
    struct rota_three_part *part = &w->parts[of - w->work];
    part->statements = all;
    part->count = of->count;
    return NULL;
}

static const char *set_time(uint32_t *ms)
{
    uint64_t value;
    if (!rt_options_duration_ms(optarg, &value) || value == 0 || value > TIME_MAX_MS)
        return "--promise, --ready, --patience, --wait and --for must be more than 0, and at most 24h";
    *ms = (uint32_t)value;
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
        w->how.flags = strcmp(optarg, "commit") == 0 ? ROTA_THREE_COMMIT : 0;
        return w->how.flags != 0 || strcmp(optarg, "block") == 0
                   ? NULL
                   : "--on-timeout must be block or commit";
    case '1':
        return set_time(&w->how.promise_ms);
    case '2':
        return set_time(&w->how.ready_ms);
    case '3':
        return set_time(&w->how.patience_ms);
    case '4':
        return set_time(&w->how.wait_ms);
    case '5':
        return set_time(&w->how.for_ms);
    case 'l':
        w->listen = optarg;
        return NULL;
    case 'a':
        w->address = optarg;
        return NULL;
    case RT_WIRE_ALLOW:
        return rt_wire_allow(&w->wire);
    default:
        w->serve = w->serve || c == 's';
        return c == 's' || rt_wire_set(&w->wire, c) ? NULL : "";
    }
}

static void forget(struct wish *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free((void *)w->work[i].statements);
        free(w->work[i].resource);
    }
}

static int visit(struct rt_args *args, struct wish *wish)
{
    struct rt_visit v;
    sigset_t waits;
    sigemptyset(&waits);
    sigaddset(&waits, SIGTERM);
    sigaddset(&waits, SIGINT);
    pthread_sigmask(SIG_BLOCK, &waits, NULL); /* in all threads */
    if (!wish->serve)
        leave_at(&waits);
    int code = rt_visit_open(&v, args,
                             &(struct rota_txns_options){.log = on_log, .attention = on_attention});
    if (code != RT_EXIT_OK)
        return code;
    if (!rt_hook_start(&v, rt_resources_on_attention(rt_txns_resources(v.m))))
        rt_out_error("no thread for on_attention: nobody will be called");
    code = run(&v, wish, &waits);
    (void)rt_txns_ask(v.m,
                      &(struct rt_journal_op){
                          .kind = RT_JOURNAL_IDENTIFY}); /* what was told before has been told */
    rt_hook_stop();
    rt_visit_close(&v);
    return code == RT_EXIT_OK && atomic_load(&mixed) ? RT_EXIT_FAILED : code;
}

int rt_job_three(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{"part", required_argument, NULL, 'p'},
                                            {"sql", required_argument, NULL, 'q'},
                                            {"on-timeout", required_argument, NULL, 'o'},
                                            {"promise", required_argument, NULL, '1'},
                                            {"ready", required_argument, NULL, '2'},
                                            {"patience", required_argument, NULL, '3'},
                                            {"wait", required_argument, NULL, '4'},
                                            {"for", required_argument, NULL, '5'},
                                            {"listen", required_argument, NULL, 'l'},
                                            {"address", required_argument, NULL, 'a'},
                                            {"serve", no_argument, NULL, 's'},
                                            RT_WIRE_OPTIONS};
    struct wish wish = {.serve = false};
    const char *wrong = NULL;
    int c, code;
    while (wrong == NULL && (c = rt_args_next(args, argc, argv, ":h", options)) != -1)
        wrong = set(&wish, c);
    if (wrong != NULL)
        code = wrong[0] != '\0' ? rt_args_usage("three", "%s", wrong)
                                : rt_args_other("three", argv, c);
    else if (optind < argc)
        code = rt_args_usage("three", "unexpected '%s'", argv[optind]);
    else if (wish.count == 0 && !wish.serve)
        code = rt_args_usage("three", "--part or --serve is missing");
    else
        code = visit(args, &wish);
    forget(&wish);
    return code;
}
