/* SPDX-License-Identifier: Apache-2.0 */
/* rota txn participant: rota_participant_run until a signal; runs on_attention when a person is needed. */
#include "cli/options.h"
#include "cli/out.h"
#include "txn/cli/hook.h"
#include "txn/cli/three/wire.h"
#include "txn/manager/resource.h"

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

const char rt_job_help_participant[] =
    "Usage: rota txn participant [--listen ADDRESS:PORT] [--name NAME]\n"
    "                            [--token-file FILE] URL\n"
    "Takes part in three-phase commit for the database URL: keeps promises in its\n"
    "table rota_promise, prepares work there, and runs timers. A coordinator (rota\n"
    "txn three) and the other participants ask at http://ADDRESS:PORT/rota/three. The\n"
    "coordinator sets what to do when nobody answers: block, or commit as in the\n"
    "textbook. Ends on SIGTERM; what is open goes on when it is started again.\n"
    "\n"
    "      --listen ADDRESS:PORT  (127.0.0.1:0: any port, which is printed)\n" RT_WIRE_HELP
    "      --name NAME            the name coordinators use for the database; it\n"
    "                             refuses requests under any other name\n"
    "      --resources FILE       its line on_attention = COMMAND is run when a\n"
    "                             person is called; default: ~/.config/rota/txn and\n"
    "                             /etc/rota/txn\n"
    "\n"
    "GET /metrics: counts of open, blocked and mixed ones, for Prometheus. GET\n"
    "/rota/three: what is open or mixed, as JSON. A mixed outcome is printed, counted\n"
    "and kept in its row, never forgotten by itself; a person is called.\n"
    "Exit: 0; 1 another participant has taken over this database; 69 not reachable.\n";

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    if (level <= ROTA_LOG_WARN)
        rt_out_error("%s", line);
}

static void on_attention(void *arg, const char *id, const char *resource, const char *line)
{
    (void)arg;
    rt_hook_call(id, resource, line);
}

static void on_listens(void *arg, uint16_t port)
{
    (void)arg;
    printf("port %u\n", port);
    (void)rt_out_flush();
}

/* SIGTERM and SIGINT, as a descriptor. */
static int signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int run(const char *url, struct rota_participant_options *opts)
{
    int err = rota_participant_run(url, opts);
    if (err != 0)
        rt_out_error("%s", rota_txn_errmsg(NULL));
    return err == ROTA_LOST ? RT_EXIT_FAILED : rt_visit_exit(err);
}

static int run_with_hook(const char *url, const char *resources,
                         struct rota_participant_options *opts)
{
    struct rt_resources *r = NULL;
    char why[256] = "out of memory";
    int code = RT_EXIT_USAGE;
    if (rt_resources_open(&r, NULL) != 0 ||
        rt_resources_load(r, resources, why, sizeof(why)) != 0) {
        rt_out_error("%s", why);
    } else {
        if (!rt_hook_start(NULL, rt_resources_on_attention(r)))
            rt_out_error("no thread for on_attention: nobody will be called");
        code = run(url, opts);
        rt_hook_stop();
    }
    rt_resources_close(r);
    return code;
}

int rt_job_participant(struct rt_args *args, int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"name", required_argument, NULL, 'n'},
                                            RT_WIRE_OPTIONS};
    struct rt_wire wire = {0};
    const char *listen = NULL, *name = NULL, *wrong = NULL;
    int c;
    while ((c = rt_args_next(args, argc, argv, ":h", options)) != -1) {
        if (c == 'l')
            listen = optarg;
        else if (c == 'n')
            name = optarg;
        else if (c == RT_WIRE_ALLOW)
            wrong = rt_wire_allow(&wire);
        else if (!rt_wire_set(&wire, c))
            return rt_args_other("participant", argv, c);
        if (wrong != NULL)
            return rt_args_usage("participant", "%s", wrong);
    }
    if (optind + 1 != argc)
        return rt_args_usage("participant", "the URL of its database is missing");
    struct rota_participant_options opts = {
        .listen = listen,
        .token_file = wire.token_file,
        .cert_file = wire.cert_file,
        .key_file = wire.key_file,
        .ca_file = wire.ca_file,
        .allow_hosts = wire.allow_hosts[0] != 0 ? wire.allow_hosts : NULL,
        .flags = wire.insecure ? ROTA_PARTICIPANT_INSECURE : 0,
        .stop_fd = signals(),
        .log = on_log,
        .attention = on_attention,
        .listens = on_listens,
        .resource = name};
    int code = run_with_hook(argv[optind], args->resources, &opts);
    close(opts.stop_fd);
    return code;
}
