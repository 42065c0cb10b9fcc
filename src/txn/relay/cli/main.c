/* SPDX-License-Identifier: Apache-2.0 */
/* The command rota-relay, also 'rota relay': from a table of events to a broker; and `consume`, from there on. */
#include "cli/out.h"
#include "cli/save.h"
#include "txn/relay/cli/cli.h"
#include "txn/relay/cli/outbox/outbox.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CLEAN_MS (UINT64_C(86400) * 1000)

static const char help[] =
    "Usage: rota relay --from DATABASE --to BROKER [OPTION]...\n"
    "       rota relay consume --from BROKER --source NAME --exec COMMAND ...\n"
    "Publishes the events in a table, each once its transaction has committed; any\n"
    "number may run at once and share the work. Ends on SIGTERM; works with systemd.\n"
    "\n"
    "      --from URL        postgres://, mysql://, sqlite:PATH\n"
    "      --to URL          amqp://host/vhost?exchange=X, nats://host, redis://host;\n"
    "                        amqps, natss, rediss with TLS\n"
    "      --map MAP         columns of your table: 'table=t,id=id,...', or a file\n"
    "      --once            run until nothing is left to publish\n"
    "      --dry-run         show what would be published; publish nothing\n"
    "      --lanes N         connections that work in parallel (2)\n"
    "      --batch N         events per batch (500)\n"
    "      --attempts N      an event refused this often is dead (20)\n"
    "      --lease TIME      a relay stalled this long loses its events (10s)\n"
    "      --republish-after TIME  publish again if not processed by then (60s)\n"
    "      --until published consumers do not report what they processed\n"
    "      --strict-order    publish the next of a key once the last is processed\n"
    "      --receipts SOURCE  where consumers report what they processed: a queue, a\n"
    "                        stream (NATS: or STREAM/SUBJECT)\n"
    "      --listen ADDRESS:PORT  ... or by POST /processed, a JSON list of ids;\n"
    "                        outside this machine only with --token-file, --tls-cert\n"
    "      --tls-cert FILE   PEM, for https; --tls-key FILE if the key is not in it\n"
    "      --token-file FILE  require its first line as 'Authorization: Bearer ...'\n"
    "      --insecure        allow other machines without token and certificate\n"
    "      --allow-host NAME  a host name it is asked by, if it is not localhost or\n"
    "                        the address; may be given several times\n"
    "      --on-dead WHAT    block: a dead event holds up its key; skip (default)\n"
    "      --clean-after TIME  delete rows finished this long ago (24h; 0: never)\n"
    "      --metrics FILE    write Prometheus metrics to FILE every 10 s\n"
    "      --json            with --once, --dry-run: JSON instead of text\n"
    "  -h, --help            -V, --version\n"
    "Exit: 0; with --once 1 if events are left, or found dead; 64 wrong usage, 69 the\n"
    "database or the broker cannot be reached, or refuses.\n";

/* ---- Options ------------------------------------------------------------------------ */

enum letter {
    FROM = 256,
    TO,
    MAP,
    ONCE,
    DRY_RUN,
    LANES,
    BATCH,
    ATTEMPTS,
    LEASE,
    REPUBLISH,
    UNTIL,
    STRICT,
    ON_DEAD,
    CLEAN,
    METRICS,
    RECEIPTS,
    LISTEN,
    TLS_CERT,
    TLS_KEY,
    TOKEN_FILE,
    INSECURE,
    ALLOW_HOST,
    JSON,
};

static const struct option options[] = {
    {"from", required_argument, NULL, FROM},
    {"to", required_argument, NULL, TO},
    {"map", required_argument, NULL, MAP},
    {"once", no_argument, NULL, ONCE},
    {"dry-run", no_argument, NULL, DRY_RUN},
    {"lanes", required_argument, NULL, LANES},
    {"batch", required_argument, NULL, BATCH},
    {"attempts", required_argument, NULL, ATTEMPTS},
    {"lease", required_argument, NULL, LEASE},
    {"republish-after", required_argument, NULL, REPUBLISH},
    {"until", required_argument, NULL, UNTIL},
    {"strict-order", no_argument, NULL, STRICT},
    {"on-dead", required_argument, NULL, ON_DEAD},
    {"clean-after", required_argument, NULL, CLEAN},
    {"metrics", required_argument, NULL, METRICS},
    {"receipts", required_argument, NULL, RECEIPTS},
    {"listen", required_argument, NULL, LISTEN},
    {"tls-cert", required_argument, NULL, TLS_CERT},
    {"tls-key", required_argument, NULL, TLS_KEY},
    {"token-file", required_argument, NULL, TOKEN_FILE},
    {"insecure", no_argument, NULL, INSECURE},
    {"allow-host", required_argument, NULL, ALLOW_HOST},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int take_map(struct rt_relay_wish *w)
{
    char line[512];

    if (rt_event_map_load(&w->map, optarg, line, sizeof(line)) == 0)
        return RT_EXIT_OK;
    return rt_relay_usage("--map: %s", line);
}

static int take_host(struct rt_relay_wish *w)
{
    const char *wrong = rt_http_door_add(w->allow_hosts, sizeof(w->allow_hosts), optarg);

    w->http.allow_hosts = w->allow_hosts;
    return wrong == NULL ? RT_EXIT_OK : rt_relay_usage("%s", wrong);
}

/* The options for how consumers reach it. False: C is none of these. */
static bool take_receipts(struct rt_relay_wish *w, int c)
{
    const char **texts[] = {[0] = &w->receipts,
                            [LISTEN - RECEIPTS] = &w->http.listen,
                            [TLS_CERT - RECEIPTS] = &w->http.cert_file,
                            [TLS_KEY - RECEIPTS] = &w->http.key_file,
                            [TOKEN_FILE - RECEIPTS] = &w->http.token_file};

    if (c == INSECURE)
        w->http.insecure = true;
    else if (c >= RECEIPTS && c <= TOKEN_FILE)
        *texts[c - RECEIPTS] = optarg;
    else
        return false;
    return true;
}

static int take(struct rt_relay_wish *w, int c, const char *word)
{
    if (take_receipts(w, c))
        return RT_EXIT_OK;
    switch (c) {
    case FROM:
        w->from = optarg;
        return RT_EXIT_OK;
    case TO:
        w->to = optarg;
        return RT_EXIT_OK;
    case METRICS:
        w->metrics = optarg;
        return RT_EXIT_OK;
    case ONCE:
        w->once = true;
        return RT_EXIT_OK;
    case DRY_RUN:
        w->dry_run = true;
        return RT_EXIT_OK;
    case STRICT:
        w->store.strict_order = true;
        return RT_EXIT_OK;
    case JSON:
        w->json = true;
        return RT_EXIT_OK;
    case ALLOW_HOST:
        return take_host(w);
    case MAP:
        return take_map(w);
    case LANES:
        return rt_relay_number("lanes", RT_RELAY_LANES, &w->lanes);
    case BATCH:
        return rt_relay_number("batch", 10000, &w->batch);
    case ATTEMPTS:
        return rt_relay_number("attempts", 1000000, &w->attempts);
    case LEASE:
        return rt_relay_time32("lease", &w->store.lease_ms);
    case REPUBLISH:
        return rt_relay_time32("republish-after", &w->store.republish_ms);
    case UNTIL:
        return rt_relay_word("until", "published", "processed", &w->store.until_published);
    case ON_DEAD:
        return rt_relay_word("on-dead", "block", "skip", &w->store.dead_blocks);
    case CLEAN:
        return rt_relay_time("clean-after", 0, &w->clean_ms);
    default:
        return c == ':' ? rt_relay_usage("%s needs a value", word)
                        : rt_relay_usage("unknown option '%s'", word);
    }
}

static int check(const struct rt_relay_wish *w, int argc, char **argv)
{
    if (optind < argc)
        return rt_relay_usage("unexpected argument '%s'", argv[optind]);
    if (w->from == NULL)
        return rt_relay_usage("--from is missing: the database of the events");
    if (w->to == NULL && !w->dry_run)
        return rt_relay_usage("--to is missing: the broker");
    if (w->json && !w->once && !w->dry_run)
        return rt_relay_usage("--json is for --once and --dry-run");
    if (w->http.listen == NULL &&
        (w->http.token_file != NULL || w->http.cert_file != NULL || w->http.key_file != NULL ||
         w->http.insecure || w->http.allow_hosts != NULL))
        return rt_relay_usage("--tls-cert, --tls-key, --token-file, --insecure and --allow-host "
                              "are for --listen");
    if (w->store.until_published && (w->receipts != NULL || w->http.listen != NULL))
        return rt_relay_usage("with --until published nobody reports: without --receipts and "
                              "--listen");
    if (w->store.until_published && w->store.strict_order)
        return rt_relay_usage("--strict-order waits until an event is processed, and with --until "
                              "published none ever is");
    return w->metrics != NULL ? rt_save_check(w->metrics) : RT_EXIT_OK;
}

/* ---- The command ------------------------------------------------------------------------ */

/* Nothing we open may land on a standard descriptor that was closed when we began. */
static void occupy_standard(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    struct rt_relay_wish wish = {.clean_ms = CLEAN_MS};
    int c;

    occupy_standard();
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* client libraries keep passwords */
    signal(SIGPIPE, SIG_IGN);
    if (argc > 2 && strcmp(argv[1], "demo") == 0 && strcmp(argv[2], "outbox") == 0)
        return rt_outbox_demo(argc - 2, argv + 2); /* rota demo outbox */
    rt_event_map_default(&wish.map);
    opterr = 0;
    if (argc > 1 && strcmp(argv[1], "consume") == 0)
        return rt_consume(argc - 1, argv + 1);
    while ((c = getopt_long(argc, argv, ":hV", options, NULL)) != -1) {
        if (c == 'h' || c == 'V') {
            fputs(c == 'h' ? help : "rota-relay " ROTA_VERSION "\n", stdout);
            return rt_out_flush();
        }
        int code = take(&wish, c, argv[optind - 1]);
        if (code != RT_EXIT_OK)
            return code;
    }
    int code = check(&wish, argc, argv);
    if (code != RT_EXIT_OK)
        return code;
    return wish.dry_run ? rt_relay_dry_run(&wish) : rt_relay_run(&wish);
}
