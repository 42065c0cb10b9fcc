/* SPDX-License-Identifier: Apache-2.0 */
/* rota top: lines, holders, waiters and rates, live on a terminal. */
#include "cli/top.h"
#include "cli/breakoff.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/options.h"
#include "cli/out.h"
#include "cli/term.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DELAY_MS 1000
#define DELAY_LEAST_MS 100 /* faster only loads the engine: nobody can read it */
#define ROW_ROOM 2048
#define NAME_WIDTH 28

const char rt_help_top[] =
    "Usage: rota top [-1] [-d SECONDS] [--json]\n"
    "Shows the lines of the engine, live: those with the most waiters first.\n"
    "\n"
    "  -d, --delay SECONDS  between two looks, 0.1 or more (1)\n"
    "  -1, --once           print one look and end; the default without a terminal\n"
    "      --json           one JSON object per look, a line each: see docs/json.md\n" RT_HELP_ENGINE
    "\n"
    "  NAME       of the lock\n"
    "  HOLD WAIT  tickets that hold, that wait\n"
    "  GRANTS/S   grants since the last look, at least: of 64 lines, as observed\n"
    "  HELD       how long the first holder has held it\n"
    "  WAITED     how long the oldest waiter has waited\n"
    "  HOLDER     who holds it: host/process/program, or its label\n"
    "\n"
    "Keys: q ends it, the space bar looks at once.\n";

/* ---- Looking ------------------------------------------------------------ */

static int by_weight(const void *a, const void *b)
{
    const struct rt_top_row *x = a, *y = b;

    if (x->waiters != y->waiters)
        return x->waiters < y->waiters ? 1 : -1;
    if (x->rate != y->rate)
        return x->rate < y->rate ? 1 : -1;
    return strcmp(x->line->name, y->line->name);
}

static void fill_row(struct rt_top *top, struct rt_top_row *row, const struct rota_line *line)
{
    *row = (struct rt_top_row){.line = line, .held = -1, .waited = -1};
    for (size_t i = 0; i < line->count; i++) {
        const struct rota_place *place = &line->places[i];
        if ((place->flags & ROTA_PLACE_GRANTED) != 0) {
            row->holders++;
            if (row->held < 0)
                row->held = place->since_ms;
        } else {
            row->waiters++;
            if (place->since_ms > row->waited)
                row->waited = place->since_ms;
        }
    }
    row->rate = top->live ? rt_rates_look(&top->rates, line) : -1;
    top->holders += row->holders;
    top->waiters += row->waiters;
    if (row->rate > 0)
        top->rate += row->rate;
}

static void forget(struct rt_top *top)
{
    free(top->rows);
    top->rows = NULL;
    rt_lines_free(&top->lines);
    top->holders = top->waiters = 0;
    top->rate = 0;
}

bool rt_top_look(struct rt_top *top)
{
    struct rt_lines lines;
    struct timespec now;

    int err = rt_lines_read(&lines, top->r, NULL);
    if (err != 0)
        rt_lines_free(&lines);
    if (err == ROTA_CANCELED)
        return false;
    forget(top);
    top->lines = lines;
    top->err = err;
    clock_gettime(CLOCK_MONOTONIC, &now);
    rt_rates_begin(&top->rates, now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
    if (err != 0)
        return true;
    top->rows = calloc(top->lines.count + 1, sizeof(*top->rows));
    if (top->rows == NULL) {
        rt_lines_free(&top->lines);
        top->err = ROTA_NOMEM;
        return true;
    }
    for (size_t i = 0; i < top->lines.count; i++)
        fill_row(top, &top->rows[i], top->lines.lines[i]);
    top->rate += rt_rates_end(&top->rates);
    qsort(top->rows, top->lines.count, sizeof(*top->rows), by_weight);
    return true;
}

/* ---- Rows of text ------------------------------------------------------- */

/* As much of TEXT as fits into WIDTH columns, and blanks where it has less. */
static void put_cell(FILE *out, const char *text, size_t width)
{
    size_t used;
    size_t bytes = rt_out_fit(text, width, &used);

    fwrite(text, 1, bytes, out);
    fprintf(out, "%*s", (int)(width - used), "");
}

static void put_row(FILE *out, const struct rt_top_row *row)
{
    char text[ROW_ROOM];

    put_cell(out, rt_out_clean(row->line->name, text, sizeof(text)), NAME_WIDTH);
    fprintf(out, " %5zu %5zu ", row->holders, row->waiters);
    if (row->rate < 0)
        fprintf(out, "%8s  ", "-");
    else
        fprintf(out, "%8.1f  ", row->rate);
    put_cell(out, rt_out_time(row->held, text, sizeof(text)), 13);
    put_cell(out, rt_out_time(row->waited, text, sizeof(text)), 13);
    if (row->holders > 0)
        fputs(rt_out_clean(row->line->places[0].label, text, sizeof(text)), out);
}

static const char head[] = "NAME                          HOLD  WAIT GRANTS/S  HELD         "
                           "WAITED       HOLDER";

/* ---- One look ----------------------------------------------------------- */

static int print_once(struct rt_top *top)
{
    rt_top_look(top);
    if (top->err != 0)
        return rt_connect_report(top->r, top->err, "");
    printf("%s\n", head);
    for (size_t i = 0; i < top->lines.count; i++) {
        put_row(stdout, &top->rows[i]);
        putchar('\n');
    }
    return rt_out_flush();
}

/* ---- Live --------------------------------------------------------------- */

/* A line of the screen, as much of TEXT as fits into it, with ATTRIBUTE. */
static void put_line(FILE *out, const char *text, int columns, const char *attribute)
{
    size_t used;
    size_t bytes = rt_out_fit(text, (size_t)columns, &used);

    fputs(attribute, out);
    fwrite(text, 1, bytes, out);
    fputs("\033[m", out);
    if (used < (size_t)columns) /* after a full line it would erase the last character */
        fputs("\033[K", out);
}

static void put_state(const struct rt_top *top, FILE *out, int columns)
{
    char text[ROW_ROOM], clock[16] = "";
    time_t now = time(NULL);
    struct tm tm;

    if (localtime_r(&now, &tm) != NULL)
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    if (top->err != 0) {
        char what[512];
        const char *message = rota_errmsg(top->r);
        snprintf(text, sizeof(text), "%s  %s: %s", clock, top->engine,
                 rt_out_clean(message[0] != '\0' ? message : rota_strerror(top->err), what,
                              sizeof(what)));
        put_line(out, text, columns, rt_out_color(stdout, RT_OUT_RED));
        return;
    }
    snprintf(text, sizeof(text), "%s  lines %zu  hold %zu  wait %zu  grants/s %.1f  %s", clock,
             top->lines.count, top->holders, top->waiters, top->rate, top->engine);
    put_line(out, text, columns, rt_out_color(stdout, RT_OUT_BOLD));
}

static void put_rows(const struct rt_top *top, FILE *out, struct rt_term_size size)
{
    size_t room = size.rows > 3 ? (size_t)size.rows - 3 : 0; /* under state, blank, head */
    size_t shown = top->lines.count <= room ? top->lines.count : room > 0 ? room - 1 : 0;

    for (size_t i = 0; i < shown; i++) {
        char *text = NULL;
        size_t length;
        FILE *row = open_memstream(&text, &length);
        if (row == NULL)
            return;
        put_row(row, &top->rows[i]);
        fclose(row);
        fputs("\r\n", out);
        put_line(out, text, size.columns,
                 top->rows[i].waiters > 0 ? rt_out_color(stdout, RT_OUT_YELLOW) : "");
        free(text);
    }
    if (shown < top->lines.count && room > 0) {
        char text[64];
        snprintf(text, sizeof(text), "... and %zu more", top->lines.count - shown);
        fputs("\r\n", out);
        put_line(out, text, size.columns, "");
    }
}

/* Erases what an earlier look left below. */
static void put_end(const struct rt_top *top, FILE *out, struct rt_term_size size)
{
    size_t lines = size.rows > 2 ? 3 + top->lines.count : 1;

    if (lines < (size_t)size.rows)
        fputs("\r\n\033[J", out);
}

/* The whole screen in one write, so that it does not flicker. False: nobody sees it any more.
 * Line wrapping is off meanwhile: a terminal may think a character wider than we do. */
static bool draw(const struct rt_top *top)
{
    struct rt_term_size size = rt_term_size();
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return false;
    fputs("\033[?7l\033[H", out);
    put_state(top, out, size.columns);
    if (size.rows > 2) {
        fputs("\r\n\033[K\r\n", out);
        put_line(out, head, size.columns, "\033[7m");
    }
    put_rows(top, out, size);
    put_end(top, out, size);
    fputs("\033[?7h", out);
    bool done = fclose(out) == 0 && rt_term_write(text, length);
    free(text);
    return done;
}

int64_t rt_top_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

/* Waits for a key, a signal or the time UNTIL; keeps the client going meanwhile. What has already come is reported even
 * when the time is up. */
static enum rt_term_event wait_until(struct rt_top *top, int64_t until, int *key)
{
    int64_t left;

    do {
        left = until - rt_top_now_ms();
        if (left < 0)
            left = 0;
        int own = rota_timeout_ms(top->r);
        int timeout = own >= 0 && own < left ? own : (int)left;
        enum rt_term_event event = rt_term_wait(timeout, rota_fd(top->r), key);
        if (event != RT_TERM_READY && event != RT_TERM_TIME)
            return event;
        (void)rota_process(top->r);
    } while (left > 0);
    return RT_TERM_TIME;
}

/* A look that takes long, as with an engine that does not answer, ends as soon as somebody types. */
static bool look_or_break_off(struct rt_top *top)
{
    struct rt_breakoff breakoff;

    rt_breakoff_begin(&breakoff, top->r, STDIN_FILENO, rt_term_signal_fd());
    bool done = rt_top_look(top);
    rt_breakoff_end(&breakoff);
    return done;
}

static int watch(struct rt_top *top)
{
    int64_t next = 0; /* when to look again */
    int key = 0;

    for (;;) {
        if (rt_top_now_ms() >= next && look_or_break_off(top))
            next = rt_top_now_ms() + (int64_t)top->delay_ms;
        if (!draw(top))
            return RT_EXIT_FAILED;
        enum rt_term_event event = wait_until(top, next, &key);
        if (event == RT_TERM_END)
            return key != 0 ? RT_EXIT_SIGNAL + key : RT_EXIT_OK;
        if (event == RT_TERM_KEY && (key == 'q' || key == 'Q'))
            return RT_EXIT_OK;
        if (event == RT_TERM_KEY && key == ' ')
            next = 0;
    }
}

/* ---- Asking for it ------------------------------------------------------ */

enum { OPT_JSON = 256 };

static int parse(struct rt_top *top, int argc, char **argv)
{
    static const struct option options[] = {
        {"delay", required_argument, NULL, 'd'},
        {"once", no_argument, NULL, '1'},
        {"json", no_argument, NULL, OPT_JSON},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    optind = 0; /* glibc: begin anew, with another argv */
    while ((c = rt_options_next(argc, argv, ":d:1h", options)) != -1) {
        switch (c) {
        case 'd':
            if (!rt_options_duration_ms(optarg, &top->delay_ms) || top->delay_ms < DELAY_LEAST_MS ||
                top->delay_ms > 3600 * 1000)
                return rt_out_usage("top", "-d '%s' is not a time from 0.1 to 3600 seconds",
                                    optarg);
            break;
        case '1':
            top->once = true;
            break;
        case OPT_JSON:
            top->json = true;
            break;
        case 'h':
            top->shown = true;
            return rt_help_print(rt_command_find("top"));
        default:
            return rt_options_complain("top", argv, c);
        }
    }
    if (optind < argc)
        return rt_out_usage("top", "top takes no operand: '%s'", argv[optind]);
    return RT_EXIT_OK;
}

int rt_top_main(const struct rt_cli *cli, int argc, char **argv)
{
    static struct rt_top top = {.delay_ms = DELAY_MS};
    char shown[4200];

    int code = parse(&top, argc, argv);
    if (code != RT_EXIT_OK || top.shown)
        return code;
    const char *url = rt_connect_url(cli);
    rt_connect_redact(url != NULL ? url : "file:", shown, sizeof(shown));
    rt_out_clean(shown, top.engine, sizeof(top.engine));
    code = rt_connect_open(&top.r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
    if (code != RT_EXIT_OK)
        return code;
    top.rates.r = top.r;
    if (top.json) {
        code = rt_top_json(&top);
    } else if (top.once || isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        code = print_once(&top);
    } else {
        top.live = true;
        code = rt_term_open();
        if (code == RT_EXIT_OK)
            code = watch(&top);
        rt_term_close();
    }
    forget(&top);
    rota_close(top.r);
    rt_rates_free(&top.rates);
    return code;
}
