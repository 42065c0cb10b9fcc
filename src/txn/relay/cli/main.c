/* SPDX-License-Identifier: Apache-2.0 */
/* The command rota-relay, which is also 'rota relay': from a table of events to a broker. */
#include "cli/options.h"
#include "cli/out.h"
#include "cli/save.h"
#include "txn/relay/cli/cli.h"

#include <fcntl.h>
#include <getopt.h>
#include <rota.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CLEAN_MS (UINT64_C(86400) * 1000)

static const char help[] =
    "Usage: rota relay --from DATABASE --to BROKER [OPTION]...\n"
    "Publishes the events of a table, each when its transaction has committed; any\n"
    "number may run at once and share the work. Ends at SIGTERM; speaks to systemd.\n"
    "\n"
    "      --from URL        postgres://, mysql://, sqlite:PATH\n"
    "      --to URL          amqp://host/vhost?exchange=X, nats://host, redis://host;\n"
    "                        amqps, natss, rediss with TLS\n"
    "      --map MAP         columns of a table of yours: 'table=t,id=id,...', or a file\n"
    "      --once            until nothing is to be published\n"
    "      --dry-run         what would be published; nothing is\n"
    "      --lanes N         connections that work at once (2)\n"
    "      --batch N         events at once (500)\n"
    "      --attempts N      refused so often, an event is dead (20)\n"
    "      --lease TIME      a relay that stands still loses its events (10s)\n"
    "      --republish-after TIME  published, and not processed for so long (60s)\n"
    "      --until published nobody reports what was processed\n"
    "      --strict-order    of a key the next goes when the last was processed\n"
    "      --on-dead WHAT    block: a dead event keeps those of its key; skip\n"
    "      --clean-after TIME  rows that are over for so long go (24h; 0: never)\n"
    "      --metrics FILE    writes metrics there, for Prometheus, every 10 s\n"
    "      --json            with --once, --dry-run: JSON instead of text\n"
    "  -h, --help            -V, --version\n"
    "Exit: 0; with --once 1 if events are left in trouble; 64 wrong usage, 69 the\n"
    "database or the broker cannot be reached, or refuses.\n";

int rt_relay_usage(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    rt_out_error("relay: %s; see 'rota relay --help'", line);
    return RT_EXIT_USAGE;
}

int rt_relay_exit(int err)
{
    switch (err) {
    case 0:
        return RT_EXIT_OK;
    case ROTA_INVALID:
    case ROTA_UNSUPPORTED: /* a table or a column that is not there, a broker that is not built in */
        return RT_EXIT_USAGE;
    case ROTA_AUTH:
    case ROTA_UNREACHABLE:
    case ROTA_BUSY:
        return RT_EXIT_UNREACHABLE;
    default:
        return RT_EXIT_FAILED;
    }
}

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
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int take_number(const char *option, uint64_t most, uint32_t *out)
{
    uint64_t number;

    if (!rt_options_number(optarg, 1, most, &number))
        return rt_relay_usage("--%s is a number from 1 to %llu, not '%s'", option,
                              (unsigned long long)most, optarg);
    *out = (uint32_t)number;
    return RT_EXIT_OK;
}

static int take_time(const char *option, uint64_t least_ms, uint64_t *out)
{
    if (rt_options_duration_ms(optarg, out) && *out >= least_ms)
        return RT_EXIT_OK;
    return rt_relay_usage("--%s is a time from %llu ms on, as 30s or 5m, not '%s'", option,
                          (unsigned long long)least_ms, optarg);
}

static int take_time32(const char *option, uint32_t *out)
{
    uint64_t ms = 0;
    int code = take_time(option, 1000, &ms);

    if (code == RT_EXIT_OK && ms > UINT32_MAX)
        return rt_relay_usage("--%s is at most 49 days", option);
    if (code == RT_EXIT_OK)
        *out = (uint32_t)ms;
    return code;
}

/* One of two words. */
static int take_word(const char *option, const char *yes, const char *no, bool *out)
{
    *out = strcmp(optarg, yes) == 0;
    if (*out || strcmp(optarg, no) == 0)
        return RT_EXIT_OK;
    return rt_relay_usage("--%s is %s or %s, not '%s'", option, yes, no, optarg);
}

static int take_map(struct rt_relay_wish *w)
{
    char line[512];

    if (rt_event_map_load(&w->map, optarg, line, sizeof(line)) == 0)
        return RT_EXIT_OK;
    return rt_relay_usage("--map: %s", line);
}

static int take(struct rt_relay_wish *w, int c, const char *word)
{
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
    case MAP:
        return take_map(w);
    case LANES:
        return take_number("lanes", RT_RELAY_LANES, &w->lanes);
    case BATCH:
        return take_number("batch", 10000, &w->batch);
    case ATTEMPTS:
        return take_number("attempts", 1000000, &w->attempts);
    case LEASE:
        return take_time32("lease", &w->store.lease_ms);
    case REPUBLISH:
        return take_time32("republish-after", &w->store.republish_ms);
    case UNTIL:
        return take_word("until", "published", "processed", &w->store.until_published);
    case ON_DEAD:
        return take_word("on-dead", "block", "skip", &w->store.dead_blocks);
    case CLEAN:
        return take_time("clean-after", 0, &w->clean_ms);
    default:
        return c == ':' ? rt_relay_usage("%s has no value", word)
                        : rt_relay_usage("unknown option '%s'", word);
    }
}

static int check(const struct rt_relay_wish *w, int argc, char **argv)
{
    if (optind < argc)
        return rt_relay_usage("'%s' is too much", argv[optind]);
    if (w->from == NULL)
        return rt_relay_usage("--from is missing: the database of the events");
    if (w->to == NULL && !w->dry_run)
        return rt_relay_usage("--to is missing: the broker");
    if (w->json && !w->once && !w->dry_run)
        return rt_relay_usage("--json is for --once and --dry-run");
    return w->metrics != NULL ? rt_save_check(w->metrics) : RT_EXIT_OK;
}

/* ---- The command ------------------------------------------------------------------------ */

/* What is opened must not land on a standard descriptor that was closed when we began. */
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
    rt_event_map_default(&wish.map);
    opterr = 0;
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
