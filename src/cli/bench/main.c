/* SPDX-License-Identifier: Apache-2.0 */
/* rota bench: what an engine does on this machine, measured. */
#include "cli/bench/figures.h"
#include "cli/bench/measure.h"
#include "cli/bench/scale.h"
#include "cli/connect.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/save.h"
#include "cli/scratch.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 9
#define THREADS 32
#define BINS 10
#define TAKEOVERS_MOST 200
#define MOST 10000000 /* of --most */

const char rt_help_bench[] =
    "Usage: rota bench [--quick] [--json] [--svg FILE] [WHAT]...\n"
    "Measures an engine from this machine: what is named, or pair to held.\n"
    "\n"
    "  pair      lock and unlock with nobody else there, plain and with linger_ms\n"
    "  threads   32 threads on one lock, with passing on inside the process, without\n"
    "  handover  from the release by one process to the grant to another\n"
    "  takeover  from the kill -9 of a holder to the grant of the one who waits\n"
    "  waiters   100 processes in line; how many of 1,000 clients a release wakes\n"
    "  held      100,000 locks held by one client: the time of the next, and memory\n"
    "  scale     how cost grows, in half an hour; or one part of it:\n"
    "  locks     up to 100,000 locks of one client, asked for at once\n"
    "  clients   up to 1,000 clients, at rest and when all want the same lock\n"
    "  line      up to 5,000 waiters in one line, if the engine has lines\n"
    "  names     up to 1,000,000 names used once, and what a pair takes then\n"
    "\n"
    "      --quick     a tenth of the work: rough\n"
    "      --json      one JSON object instead of the table\n"
    "      --svg FILE  also draws the figures there\n"
    "      --most N    scale and its parts: up to this size\n"
    "      --server-pid PID  ... with the processor time of this process\n" RT_HELP_ENGINE "\n"
    "Without --on and $ROTA_URL: an embedded engine in a temporary folder.\n"
    "Exit: 0; 64 wrong usage; 69 engine not reachable; 74 FILE cannot be written.\n";

struct bench {
    struct rt_bench measure; /* first */
    struct rt_scratch scratch;
    struct rt_figures figures;
    double scale;
    uint64_t most; /* the largest size of what grows; 0: as each has it */
    uint32_t caps;
    const char *svg;
    bool json, shown;
    const char *now; /* what is measured, for the progress */
    unsigned chosen; /* a bit for each of table[] */
};

static int scaled(const struct bench *b, int n)
{
    int less = (int)(n * b->scale);

    return less > 0 ? less : 1;
}

/* Adds a figure to those of the present bench. */
#define ADD(b, value, unit, ...) rt_figures_add(&(b)->figures, (b)->now, value, unit, __VA_ARGS__)

/* ---- Each of them ------------------------------------------------------- */

static int rounds_of_pairs(struct bench *b, struct rota *r, const struct rota_ask *ask, int n,
                           double *us)
{
    double rounds[ROUNDS];
    char name[128];
    int code = RT_EXIT_OK;

    snprintf(name, sizeof(name), "%spair", b->measure.prefix);
    for (int i = 0; i < ROUNDS && code == RT_EXIT_OK; i++) {
        code = rt_bench_pairs(r, name, ask, n, &rounds[i]);
        rt_bench_progress(&b->measure, (double)(i + 1) / ROUNDS);
    }
    if (code == RT_EXIT_OK)
        *us = rt_bench_median(rounds, ROUNDS);
    return code;
}

static int measure_pair(struct bench *b)
{
    const struct rota_ask linger = {.linger_ms = 10000};
    struct rota *r;
    double plain = 0, lingering = 0;

    int code = rt_bench_open(&b->measure, &r, NULL);
    if (code != RT_EXIT_OK)
        return code;
    b->caps = rota_caps(r);
    code = rounds_of_pairs(b, r, NULL, scaled(b, 2000), &plain);
    bool can_linger = (b->caps & ROTA_CAP_WANTED) != 0;
    if (code == RT_EXIT_OK && can_linger)
        code = rounds_of_pairs(b, r, &linger, scaled(b, 100000), &lingering);
    rota_close(r);
    if (code != RT_EXIT_OK)
        return code;
    ADD(b, plain, "us", "lock and unlock");
    if (can_linger)
        ADD(b, lingering, "us", "again, with linger_ms");
    return code;
}

static int rate_of_threads(struct bench *b, uint32_t pass_limit, double from, double *rate)
{
    const struct rota_options opts = {.pass_limit = pass_limit};
    enum { TIMES = 3 };
    double rates[TIMES];
    char name[128];
    struct rota *r;

    snprintf(name, sizeof(name), "%sthreads", b->measure.prefix);
    int code = rt_bench_open(&b->measure, &r, &opts);
    if (code != RT_EXIT_OK)
        return code;
    for (int i = 0; i < TIMES && code == RT_EXIT_OK; i++) {
        code = rt_bench_threads(r, name, THREADS, 0.5 * b->scale, &rates[i]);
        rt_bench_progress(&b->measure, from + 0.5 * (i + 1) / TIMES);
    }
    rota_close(r);
    if (code == RT_EXIT_OK)
        *rate = rt_bench_median(rates, TIMES);
    return code;
}

static int measure_threads(struct bench *b)
{
    double with = 0, without = 0;
    int code = rate_of_threads(b, 0, 0, &with);

    if (code == RT_EXIT_OK)
        code = rate_of_threads(b, ROTA_NEVER, 0.5, &without);
    if (code != RT_EXIT_OK)
        return code;
    ADD(b, with, "/s", "%d threads, passing on", THREADS)->more = true;
    ADD(b, without, "/s", "%d threads, strict order", THREADS)->more = true;
    return code;
}

static int measure_handover(struct bench *b)
{
    static double us[RT_BENCH_TURNS_MOST];
    size_t n = (size_t)scaled(b, 1000) | 1;
    double rate = 0;

    int code = rt_bench_handover(&b->measure, n, us);
    if (code == RT_EXIT_OK)
        code = rt_bench_rivals(&b->measure, scaled(b, 4000), &rate);
    if (code == RT_EXIT_OK) {
        ADD(b, rt_bench_median(us, n), "us", "release here to grant there, median");
        ADD(b, rt_bench_quantile(us, n, 0.99), "us", "release here to grant there, 99 of 100");
        ADD(b, rate, "/s", "two processes, as fast as they can")->more = true;
    }
    return code;
}

static int measure_takeover(struct bench *b)
{
    double ms[TAKEOVERS_MOST];
    struct rota *r;

    int code = rt_bench_open(&b->measure, &r, NULL);
    if (code != RT_EXIT_OK)
        return code;
    /* Where sessions end by a ttl, that is how long it takes: so the shortest ttl, and only a few times. */
    bool by_ttl = (rota_caps(r) & ROTA_CAP_TTL) != 0;
    rota_close(r);
    size_t n = (size_t)scaled(b, by_ttl ? 10 : TAKEOVERS_MOST);
    code = rt_bench_takeover(&b->measure, by_ttl ? 1000 : 0, n, ms);
    if (code == RT_EXIT_OK) {
        ADD(b, rt_bench_median(ms, n), "ms", "after kill -9, median%s", by_ttl ? ", ttl 1 s" : "");
        ADD(b, rt_bench_quantile(ms, n, 0.99), "ms", "after kill -9, 99 of 100");
    }
    return code;
}

/* Clients with a connection each. */
static int measure_herd(struct bench *b)
{
    struct rota *r;
    double woken = 0;
    int n = scaled(b, 1000);

    int code = rt_bench_open(&b->measure, &r, NULL);
    if (code != RT_EXIT_OK)
        return code;
    bool remote = (rota_caps(r) & ROTA_CAP_SHARED_HOSTS) != 0;
    rota_close(r);
    if (!remote)
        return RT_EXIT_OK;
    code = rt_bench_herd(&b->measure, &n, &woken);
    if (code == RT_EXIT_OK)
        ADD(b, woken, "clients", "%d wait: those a release wakes", n);
    return code;
}

static int measure_waiters(struct bench *b)
{
    double ms = 0;
    int n = scaled(b, 100);
    int code = rt_bench_waiters(&b->measure, n, &ms);

    if (code != RT_EXIT_OK)
        return code;
    ADD(b, ms, "ms", "%d processes in line, all served", n);
    ADD(b, ms / n, "ms", "each");
    return measure_herd(b);
}

static int measure_held(struct bench *b)
{
    double us[BINS], bytes = 0;
    int n = scaled(b, 100000);
    int code = rt_bench_held(&b->measure, n, BINS, us, &bytes);

    if (code != RT_EXIT_OK)
        return code;
    for (int i = 0; i < BINS; i++)
        ADD(b, us[i], "us", "lock, %d held already", n / BINS * i)->at = n / BINS * i;
    ADD(b, bytes, "bytes", "our memory for each");
    return code;
}

/* ---- What grows ---------------------------------------------------------- */

#define PART_S 5

static int measure_scale(struct bench *b, rt_scale_fn *fn, int most)
{
    const struct rt_scale scale = {.measure = &b->measure,
                                   .figures = &b->figures,
                                   .most = b->most != 0 ? (int)b->most : scaled(b, most),
                                   .part_s = b->scale < 1 ? 1 : PART_S};

    return fn(&scale);
}

static int measure_locks(struct bench *b)
{
    return measure_scale(b, rt_scale_locks, 100000);
}

static int measure_clients(struct bench *b)
{
    return measure_scale(b, rt_scale_clients, 1000);
}

static int measure_line(struct bench *b)
{
    return measure_scale(b, rt_scale_line, 5000);
}

static int measure_names(struct bench *b)
{
    return measure_scale(b, rt_scale_names, 1000000);
}

static const struct {
    const char *name;
    int (*run)(struct bench *b);
    bool scale; /* only when asked for */
} table[] = {
    {"pair", measure_pair, false},         {"threads", measure_threads, false},
    {"handover", measure_handover, false}, {"takeover", measure_takeover, false},
    {"waiters", measure_waiters, false},   {"held", measure_held, false},
    {"locks", measure_locks, true},        {"clients", measure_clients, true},
    {"line", measure_line, true},          {"names", measure_names, true},
};
#define TABLE (sizeof(table) / sizeof(table[0]))

/* ---- Asking for it ------------------------------------------------------ */

/* The bits of what is for scale, or not. */
static unsigned bits_of(bool scale)
{
    unsigned bits = 0;

    for (size_t i = 0; i < TABLE; i++)
        bits |= table[i].scale == scale ? 1u << i : 0;
    return bits;
}

static int choose(struct bench *b, const char *name)
{
    unsigned bits = strcmp(name, "scale") == 0 ? bits_of(true) : 0;

    for (size_t i = 0; i < TABLE; i++)
        bits |= strcmp(table[i].name, name) == 0 ? 1u << i : 0;
    b->chosen |= bits;
    return bits != 0 ? RT_EXIT_OK : rt_out_usage("bench", "there is no bench '%s'", name);
}

static int parse_most(struct bench *b, const char *text)
{
    if (!rt_options_number(text, 1, MOST, &b->most))
        return rt_out_usage("bench", "--most '%s' is no number from 1 to %d", text, MOST);
    return RT_EXIT_OK;
}

static int parse_server(struct bench *b, const char *text)
{
    uint64_t pid;

    if (!rt_options_number(text, 1, INT32_MAX, &pid))
        return rt_out_usage("bench", "--server-pid '%s' is no process id", text);
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return rt_out_usage("bench", "--server-pid: there is no process %s on this machine", text);
    b->measure.server = (pid_t)pid;
    return RT_EXIT_OK;
}

static int parse(struct bench *b, int argc, char **argv)
{
    static const struct option options[] = {
        {"quick", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"svg", required_argument, NULL, 's'},
        {"most", required_argument, NULL, 'm'},
        {"server-pid", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c, code = RT_EXIT_OK;

    optind = 0; /* glibc: begin anew, with another argv */
    while (code == RT_EXIT_OK && (c = rt_options_next(argc, argv, ":h", options)) != -1) {
        if (c == 'h') {
            b->shown = true;
            return rt_help_print(rt_command_find("bench"));
        }
        if (c == 'q')
            b->scale = 0.1;
        else if (c == 'j')
            b->json = true;
        else if (c == 's')
            b->svg = optarg;
        else if (c == 'm' || c == 'p')
            code = c == 'm' ? parse_most(b, optarg) : parse_server(b, optarg);
        else
            return rt_options_complain("bench", argv, c);
    }
    if (code != RT_EXIT_OK)
        return code;
    if (b->svg != NULL && b->svg[0] == '\0')
        return rt_out_usage("bench", "--svg needs the name of a file");
    for (int i = optind; i < argc && code == RT_EXIT_OK; i++)
        code = choose(b, argv[i]);
    if (b->chosen == 0)
        b->chosen = bits_of(false);
    if (code == RT_EXIT_OK && (b->chosen & bits_of(true)) == 0 &&
        (b->most != 0 || b->measure.server != 0))
        return rt_out_usage("bench", "--most and --server-pid are for 'scale' and its parts");
    return code;
}

/* ---- Doing it ----------------------------------------------------------- */

static void show_progress(const struct rt_bench *measure, double part)
{
    const struct bench *b = measure->user;

    fprintf(stderr, "\r%s %3.0f%% ", b->now, part * 100);
    fflush(stderr);
}

static int run_one(struct bench *b, size_t i)
{
    size_t before = b->figures.count;

    b->now = table[i].name;
    rt_bench_progress(&b->measure, 0);
    int code = table[i].run(b);
    if (b->measure.progress != NULL)
        fputs("\r\033[K", stderr);
    if (code != RT_EXIT_OK || b->json)
        return code;
    printf("%s%s%s\n", rt_out_color(stdout, RT_OUT_BOLD), b->now,
           rt_out_color(stdout, RT_OUT_PLAIN));
    for (size_t k = before; k < b->figures.count; k++)
        rt_figures_print(&b->figures.all[k]);
    return rt_out_flush();
}

static int draw(const struct bench *b)
{
    struct rt_save save;
    int code = rt_save_begin(&save, b->svg);

    if (code != RT_EXIT_OK)
        return code;
    rt_figures_svg(&b->figures, save.file);
    return rt_save_end(&save);
}

static int run_all(struct bench *b)
{
    int code = RT_EXIT_OK;

    for (size_t i = 0; i < TABLE && code == RT_EXIT_OK; i++)
        if ((b->chosen & (1u << i)) != 0)
            code = run_one(b, i);
    if (rt_bench_stopped())
        code = rt_bench_stop_code();
    if (code != RT_EXIT_OK)
        return code;
    if (b->json)
        code = rt_figures_json(&b->figures);
    int flushed = rt_out_flush();
    if (b->svg != NULL && code == RT_EXIT_OK)
        code = draw(b);
    return code != RT_EXIT_OK ? code : flushed;
}

int rt_bench_main(const struct rt_cli *cli, int argc, char **argv)
{
    static struct bench b = {.scale = 1}; /* static: its paths are large */
    char prefix[64];

    int code = parse(&b, argc, argv);
    if (code != RT_EXIT_OK || b.shown)
        return code;
    if (b.svg != NULL) /* better said now than after a minute's work */
        code = rt_save_check(b.svg);
    if (code != RT_EXIT_OK)
        return code;
    rt_bench_catch_signals();
    code = rt_scratch_make(&b.scratch, "bench");
    if (code == RT_EXIT_OK)
        code = rt_scratch_engine(&b.scratch, cli);
    snprintf(prefix, sizeof(prefix), "rota-bench-%ld-", (long)getpid());
    b.measure.url = b.scratch.url;
    b.measure.prefix = prefix;
    b.measure.user = &b;
    if (isatty(STDERR_FILENO) == 1)
        b.measure.progress = show_progress;
    b.figures.engine = b.scratch.shown;
    b.figures.quick = b.scale < 1;
    if (code == RT_EXIT_OK)
        code = run_all(&b);
    rt_scratch_remove(&b.scratch);
    return code;
}
