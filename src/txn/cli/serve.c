/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn serve: DTM's HTTP interface on the journal, until a signal ends it. */
#include "txn/serve/serve.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/hook.h"
#include "txn/cli/notify.h"
#include "txn/cli/vigil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define LISTEN "127.0.0.1:36789" /* DTM's port */
#define BODY_MAX (4u << 20)      /* bytes of a request */
#define THREADS 32               /* that wait for the journal */
#define TAKEOVER_MS 15000
#define GRACE_MS 3000
#define BEAT_MS 10000

const char rt_job_help_serve[] =
    "Usage: rota txn serve [--listen ADDRESS:PORT] [OPTION]...\n"
    "Serves DTM's HTTP interface: programs with DTM's clients use it as their server,\n"
    "for tcc, saga and msg. Any number may run on one journal: if one dies, another\n"
    "takes over. Ends on SIGTERM; reads its resources again once the file has\n"
    "changed, and on SIGHUP; works with systemd (Type=notify, watchdog).\n"
    "When a call has failed ten times, 'rota txn show' reports it, and the COMMAND\n"
    "in the resources file (on_attention = COMMAND) is run.\n"
    "\n"
    "      --listen ADDRESS:PORT  (127.0.0.1:36789); beyond this machine only with\n"
    "                        --token-file and --tls-cert\n"
    "      --tls-cert FILE   PEM, for https; --tls-key FILE if the key is not in it\n"
    "      --token-file FILE  require its first line as 'Authorization: Bearer ...'\n"
    "      --insecure        allow other machines without token and certificate\n"
    "      --allow-host NAME  a host name it is asked by, if it is not localhost or\n"
    "                        the address; may be given several times\n"
    "      --takeover TIME   take over what another server left after this time:\n"
    "                        1s to 1h (15s)\n"
    "      --json            log lines as JSON\n" RT_JOB_HELP "\n"
    "Metrics for Prometheus are at /api/metrics. Exit: 0; 69 if it cannot listen.\n";

static bool json_lines;

static void log_line(int level, const char *line)
{
    static const char *const words[] = {"error", "error", "warn", "info"};

    if (level > ROTA_LOG_INFO)
        return;
    if (!json_lines) {
        rt_out_error("%s", line);
        return;
    }
    json_t *o = json_pack("{s:I, s:s, s:o}", "time_ms", (json_int_t)rt_serve_now_ms(), "level",
                          words[level >= 0 && level < 4 ? level : 3], "line", rt_json_text(line));
    char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    if (text != NULL)
        fprintf(stderr, "%s\n", text);
    json_decref(o);
    free(text);
}

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    if (level <= ROTA_LOG_WARN)
        log_line(level, line);
}

struct wish {
    struct rt_http_server_options server;
    uint64_t takeover_ms;
    char allow_hosts[4000];
};

static int parse(struct wish *wish, struct rt_args *args, int argc, char **argv, bool *over)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},     {"tls-cert", required_argument, NULL, 'c'},
        {"tls-key", required_argument, NULL, 'k'},    {"token-file", required_argument, NULL, 't'},
        {"takeover", required_argument, NULL, 'o'},   {"insecure", no_argument, NULL, 'i'},
        {"allow-host", required_argument, NULL, 'a'}, {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c == 'l') {
            wish->server.listen = optarg;
        } else if (c == 'c') {
            wish->server.cert_file = optarg;
        } else if (c == 'k') {
            wish->server.key_file = optarg;
        } else if (c == 't') {
            wish->server.token_file = optarg;
        } else if (c == 'i') {
            wish->server.insecure = true;
        } else if (c == 'a') {
            const char *wrong = rt_http_door_add(wish->allow_hosts, sizeof(wish->allow_hosts),
                                                 optarg);
            if (wrong != NULL)
                return rt_args_usage("serve", "%s", wrong);
            wish->server.allow_hosts = wish->allow_hosts;
        } else if (c == 'o') {
            if (!rt_options_duration_ms(optarg, &wish->takeover_ms) || wish->takeover_ms < 1000 ||
                wish->takeover_ms > 3600000)
                return rt_args_usage("serve", "'%s' is not a time from 1s to 1h", optarg);
        } else {
            *over = true;
            return rt_args_other("serve", argv, c);
        }
    }
    if (optind < argc)
        return rt_args_usage("serve", "unexpected argument '%s'", argv[optind]);
    if (wish->server.key_file != NULL && wish->server.cert_file == NULL)
        return rt_args_usage("serve", "--tls-key needs --tls-cert");
    return RT_EXIT_OK;
}

static int run(struct rt_serve *s, const struct wish *wish, struct rt_vigil *vigil)
{
    struct rt_http_server_options options = wish->server;
    struct rt_http_server *server = NULL;
    char why[256];
    int64_t watchdog = rt_notify_watchdog_ms();
    int64_t beat = watchdog > 0 && watchdog / 3 < BEAT_MS ? watchdog / 3 + 1 : BEAT_MS;

    options.routes = rt_serve_routes(s, &options.route_count);
    int err = rt_http_server_start(&server, &options, why, sizeof(why));
    if (err != 0) {
        rt_out_error("%s", why);
        rt_serve_stop(s);
        rt_serve_free(s);
        return rt_visit_exit(err);
    }
    rt_serve_log(s, ROTA_LOG_INFO, "listening at port %u", rt_http_server_port(server));
    rt_notify("READY=1");
    do {
        struct rt_journal_op op = {.kind = RT_JOURNAL_IDENTIFY}; /* the keeper lives */
        (void)rt_txns_ask(s->m, &op);
        rt_notify("WATCHDOG=1");
    } while (!rt_vigil_wait(vigil, beat));
    rt_notify("STOPPING=1");
    rt_serve_stop(s); /* whoever waits is told */
    rt_http_server_stop(server, GRACE_MS);
    rt_serve_free(s);
    return RT_EXIT_OK;
}

int rt_job_serve(struct rt_args *args, int argc, char **argv)
{
    static struct rt_serve s;
    struct wish wish = {.server = {.listen = LISTEN, .body_max = BODY_MAX, .threads = THREADS},
                        .takeover_ms = TAKEOVER_MS};
    struct rt_visit visit;
    struct rt_vigil vigil;
    bool over = false;
    char why[256];
    int code = parse(&wish, args, argc, argv, &over);

    if (code != RT_EXIT_OK || over)
        return code;
    json_lines = args->json;
    rt_vigil_begin(&vigil, &visit, args, log_line);
    int err = rt_http_calls_ready(why, sizeof(why));
    if (err != 0) {
        rt_out_error("%s", why);
        return rt_visit_exit(err);
    }
    struct rota_txns_options opts = {.flags = ROTA_TXN_RECOVER, .log = on_log};
    code = rt_visit_open(&visit, args, &opts);
    if (code != RT_EXIT_OK)
        return code;
    s = (struct rt_serve){
        .m = visit.m, .number = visit.number, .log = log_line, .attention = rt_hook_call};
    if (!rt_hook_start(&visit, rt_resources_on_attention(rt_txns_resources(visit.m))))
        rt_out_error("no thread for on_attention: nobody will be called");
    s.takeover_ms = (int64_t)wish.takeover_ms;
    while (s.who == 0)
        if (getrandom(&s.who, sizeof(s.who), 0) != sizeof(s.who))
            s.who = 0;
    s.who &= INT64_MAX;
    err = rt_http_calls_open(&s.calls, &(struct rt_http_calls_options){0});
    if (err == 0)
        err = rt_serve_start(&s);
    code = err == 0 ? run(&s, &wish, &vigil) : rt_visit_report(&visit, err);
    rt_hook_stop();
    rt_visit_close(&visit);
    int flushed = rt_out_flush();
    return code != RT_EXIT_OK ? code : flushed;
}
