/* SPDX-License-Identifier: Apache-2.0 */
/* rota metrics: what is in the lines of an engine, in Prometheus' format. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/lines.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/prometheus.h"

#include <getopt.h>
#include <string.h>

#define LABEL_ROOM 1024 /* a name of 255 bytes, each escaped, and the rest of the labels */

const char rt_help_metrics[] =
    "Usage: rota metrics [--lines]\n"
    "Prints metrics in Prometheus' text format: what stands in the engine's lines\n"
    "now, and what this one look at them cost.\n"
    "\n"
    "      --lines  also for each line: rota_line_...{line=\"NAME\"}. Each name\n"
    "               becomes series of its own: not where names are made up as you go\n" RT_HELP_ENGINE
    "\n"
    "  rota_up                           1: the engine answered\n"
    "  rota_lines                        lines somebody stands in\n"
    "  rota_tickets{state}               tickets: holding, waiting, durable\n"
    "  rota_oldest_wait_seconds          how long the oldest waiter has waited\n"
    "  rota_oldest_hold_seconds          how long the oldest holder has held\n"
    "  rota_op_seconds{op} ...           of this process: see rota(1)\n"
    "\n"
    "Programs tell of their own waits, holds, hand-overs, heartbeats and losses by\n"
    "rota_metrics() in C; 'rota run --metrics FILE' writes them at the command's end.\n"
    "\n"
    "  rota metrics >/var/lib/node_exporter/rota.prom.new &&\n"
    "      mv /var/lib/node_exporter/rota.prom.new /var/lib/node_exporter/rota.prom\n";

/* ---- Sums over tickets -------------------------------------------------- */

struct tally {
    double holding, waiting, durable;
    double oldest_wait, oldest_hold; /* seconds */
};

static void add_place(struct tally *t, const struct rota_place *place)
{
    bool granted = (place->flags & ROTA_PLACE_GRANTED) != 0;
    double seconds = (double)place->since_ms / 1000;
    double *oldest = granted ? &t->oldest_hold : &t->oldest_wait;

    if ((place->flags & ROTA_PLACE_DURABLE) != 0) {
        t->durable++;
        return; /* nobody's hold: a once-key, a latch's count */
    }
    *(granted ? &t->holding : &t->waiting) += 1;
    if (seconds > *oldest)
        *oldest = seconds;
}

static void add_line(struct tally *t, const struct rota_line *line)
{
    for (size_t i = 0; i < line->count; i++)
        add_place(t, &line->places[i]);
}

/* ---- Printing ----------------------------------------------------------- */

static void gauge(struct rt_prometheus *p, const char *name, const char *labels, const char *help,
                  double value)
{
    const struct rota_metric metric = {
        .name = name, .help = help, .labels = labels, .type = ROTA_GAUGE, .value = value};

    rt_prometheus_print(p, &metric);
}

static void print_all(struct rt_prometheus *p, const struct rt_lines *lines)
{
    static const char tickets[] = "Tickets in all lines, by what they do.";
    struct tally t = {0};

    for (size_t i = 0; i < lines->count; i++)
        add_line(&t, lines->lines[i]);
    gauge(p, "rota_up", "", "Whether the engine answered.", 1);
    gauge(p, "rota_lines", "", "Lines somebody stands in.", (double)lines->count);
    gauge(p, "rota_tickets", "state=\"holding\"", tickets, t.holding);
    gauge(p, "rota_tickets", "state=\"waiting\"", tickets, t.waiting);
    gauge(p, "rota_tickets", "state=\"durable\"", tickets, t.durable);
    gauge(p, "rota_oldest_wait_seconds", "", "How long the oldest waiter has waited.",
          t.oldest_wait);
    gauge(p, "rota_oldest_hold_seconds", "", "How long the oldest holder has held.", t.oldest_hold);
}

enum family { TICKETS, OLDEST_WAIT, OLDEST_HOLD, FAMILIES };

static void print_line(struct rt_prometheus *p, const struct rota_line *line, enum family family)
{
    struct tally t = {0};
    char name[LABEL_ROOM - 100], labels[LABEL_ROOM];

    add_line(&t, line);
    rt_prometheus_label(line->name, name, sizeof(name));
    if (family != TICKETS) {
        bool hold = family == OLDEST_HOLD;
        snprintf(labels, sizeof(labels), "line=\"%s\"", name);
        gauge(p, hold ? "rota_line_oldest_hold_seconds" : "rota_line_oldest_wait_seconds", labels,
              hold ? "How long the line's oldest holder has held."
                   : "How long the line's oldest waiter has waited.",
              hold ? t.oldest_hold : t.oldest_wait);
        return;
    }
    const char *const states[] = {"holding", "waiting", "durable"};
    const double values[] = {t.holding, t.waiting, t.durable};
    for (size_t i = 0; i < 3; i++) {
        snprintf(labels, sizeof(labels), "line=\"%s\",state=\"%s\"", name, states[i]);
        gauge(p, "rota_line_tickets", labels, "Tickets in the line, by what they do.", values[i]);
    }
}

static int print(struct rota *r, bool each)
{
    struct rt_prometheus p = {.out = stdout};
    struct rt_lines lines;

    int err = rt_lines_read(&lines, r, NULL);
    if (err == 0) {
        print_all(&p, &lines);
        for (int family = 0; each && family < FAMILIES; family++)
            for (size_t i = 0; i < lines.count; i++)
                print_line(&p, lines.lines[i], (enum family)family);
        err = rota_metrics(r, rt_prometheus_print, &p);
    }
    rt_lines_free(&lines);
    return err != 0 ? rt_connect_report(r, err, "") : rt_out_flush();
}

int rt_metrics_main(const struct rt_cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"lines", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool each = false;
    struct rota *r;
    int c;

    optind = 0; /* glibc: begin anew, with another argv */
    while ((c = rt_options_next(argc, argv, ":h", options)) != -1) {
        if (c == 'h')
            return rt_help_print(rt_command_find("metrics"));
        if (c != 'l')
            return rt_options_complain("metrics", argv, c);
        each = true;
    }
    if (optind < argc)
        return rt_out_usage("metrics", "metrics takes no operand: '%s'", argv[optind]);
    const struct rota_options opts = {.flags = ROTA_NO_KEEPER | ROTA_METRICS};
    int code = rt_connect_open(&r, cli, &opts);
    if (code != RT_EXIT_OK)
        return code;
    code = print(r, each);
    rota_close(r);
    return code;
}
