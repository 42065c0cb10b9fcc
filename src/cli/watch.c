/* SPDX-License-Identifier: Apache-2.0 */
/* rota watch: one row per change at the front of a line.
 *
 * The front comes from the library's observation, whose fences never go back; the number of waiters is asked for when
 * something has changed. */
#include "cli/breakoff.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/look.h"
#include "cli/out.h"
#include "cli/ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct state {
    uint64_t fence;
    size_t waiters;
    char label[RT_TICKET_TEXT], value[RT_TICKET_TEXT];
};

struct watch {
    struct rt_look look;
    struct rota *client;
    int signal_fd;
    bool changed; /* the front did, or somebody came or went, or the engine may be away: ask it */
    bool seen;    /* the front */
    bool printed; /* anything yet */
    bool away;    /* the engine is away, and that was said */
    struct state now, last;
};

/* Nothing changes while the engine is away: says so once, or it would look like a quiet line. */
static void tell_away(struct watch *watch, const char *why)
{
    if (!watch->away)
        rt_out_error("%s; nothing is seen until that is over", why);
    watch->away = true;
}

static void tell_back(struct watch *watch)
{
    if (watch->away)
        rt_out_error("the engine is back; changes are seen again");
    watch->away = false;
}

static void on_front(void *arg, const struct rota_front *front)
{
    struct watch *watch = arg;

    tell_back(watch);
    watch->changed = watch->seen = true;
    watch->now.fence = front->fence;
    snprintf(watch->now.label, sizeof(watch->now.label), "%s", front->label);
    snprintf(watch->now.value, sizeof(watch->now.value), "%s", front->value);
}

static void on_log(void *arg, int level, const char *line)
{
    struct watch *watch = arg;

    if (level > ROTA_LOG_WARN)
        return;
    tell_away(watch, line);
    watch->changed = true; /* an engine that now refuses us, or is back, says so only if asked */
}

static bool is_news(const struct watch *watch)
{
    const struct state *a = &watch->now, *b = &watch->last;

    return !watch->printed || a->fence != b->fence || a->waiters != b->waiters ||
           strcmp(a->label, b->label) != 0 || strcmp(a->value, b->value) != 0;
}

static int print_json(const struct watch *watch)
{
    const struct state *s = &watch->now;
    bool held = s->fence != 0;

    return rt_json_print(
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:I}", "name", rt_json_text(watch->look.name), "state",
                  held ? "held" : "free", "fence", held ? rt_json_id(s->fence) : json_null(),
                  "label", held ? rt_json_text(s->label) : json_null(), "value",
                  held ? rt_json_text(s->value) : json_null(), "waiters", (json_int_t)s->waiters),
        true);
}

static void print_text(const struct watch *watch)
{
    const struct state *s = &watch->now;
    char text[RT_TICKET_TEXT];

    if (s->fence == 0) {
        printf("free, %zu waiting\n", s->waiters);
        return;
    }
    printf("fence %" PRIu64 "  %s%s%s", s->fence, rt_out_color(stdout, RT_OUT_BOLD),
           rt_out_clean(s->label, text, sizeof(text)), rt_out_color(stdout, RT_OUT_PLAIN));
    if (s->value[0] != '\0' && strcmp(s->value, s->label) != 0)
        printf("  %s", rt_out_clean(s->value, text, sizeof(text)));
    printf("  %zu waiting\n", s->waiters);
}

/* If our reader has gone, there is nothing to complain about. */
static int flush(bool *closed)
{
    if (fflush(stdout) != 0 && errno == EPIPE) {
        *closed = true;
        return RT_EXIT_OK;
    }
    return rt_out_flush();
}

/* Waits until the engine answers, for call_ms at most, or a signal comes. */
static int count_waiters(struct watch *watch)
{
    struct rt_breakoff breakoff;
    struct rota_line *line;

    rt_breakoff_begin(&breakoff, watch->client, watch->signal_fd, -1);
    int err = rota_inspect(watch->client, watch->look.name, &line);
    rt_breakoff_end(&breakoff);
    if (err != 0)
        return err;
    watch->now.waiters = line->count - line->granted;
    rota_line_free(line);
    return 0;
}

static int tell(struct watch *watch, bool *closed)
{
    int code = RT_EXIT_OK;

    watch->changed = false;
    int err = count_waiters(watch);
    bool away = (err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN) && watch->printed;
    if (away)
        tell_away(watch, rota_errmsg(watch->client));
    if (away || err == ROTA_CANCELED) {
        watch->changed = true; /* look again, after the signals */
        return RT_EXIT_OK;
    }
    if (err != 0)
        return rt_connect_report(watch->client, err, "");
    tell_back(watch);
    if (!watch->seen || !is_news(watch))
        return RT_EXIT_OK;
    if (watch->look.json)
        code = print_json(watch);
    else
        print_text(watch);
    watch->last = watch->now;
    watch->printed = true;
    int flushed = flush(closed);
    return code != RT_EXIT_OK ? code : flushed;
}

static int catch_signals(struct watch *watch)
{
    sigset_t caught;

    sigemptyset(&caught);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGTERM);
    sigaddset(&caught, SIGHUP);
    sigprocmask(SIG_BLOCK, &caught, NULL);
    signal(SIGPIPE, SIG_IGN);
    watch->signal_fd = signalfd(-1, &caught, SFD_CLOEXEC);
    if (watch->signal_fd >= 0)
        return RT_EXIT_OK;
    rt_out_error("cannot watch for signals: %s", strerror(errno));
    return RT_EXIT_INTERNAL;
}

/* Runs until a signal comes, stdout is closed or -1 has its row. Returns the exit code. */
static int follow(struct watch *watch)
{
    bool closed = false;

    while (!closed && !(watch->look.one && watch->printed)) {
        struct pollfd fds[] = {
            {.fd = rota_fd(watch->client), .events = POLLIN},
            {.fd = watch->signal_fd, .events = POLLIN},
            {.fd = STDOUT_FILENO}, /* for POLLERR: a pipe without a reader */
        };
        struct signalfd_siginfo info;
        int ready = poll(fds, 3, watch->changed ? 0 : rota_timeout_ms(watch->client));
        if (ready > 0 && fds[1].revents != 0 &&
            read(watch->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
            return RT_EXIT_SIGNAL + (int)info.ssi_signo;
        if (ready > 0 && (fds[2].revents & POLLERR) != 0)
            return RT_EXIT_OK;
        rota_process(watch->client);
        int code = watch->changed ? tell(watch, &closed) : RT_EXIT_OK;
        if (code != RT_EXIT_OK)
            return code;
    }
    return RT_EXIT_OK;
}

int rt_watch_main(const struct rt_cli *cli, int argc, char **argv)
{
    static struct watch watch = {
        .look = {.command = "watch", .operand = RT_LOOK_NAME, .takes = RT_LOOK_TAKES_ONE},
        .signal_fd = -1}; /* static: its texts are large */
    uint64_t id;

    int code = rt_look_parse(&watch.look, argc, argv);
    if (code != RT_EXIT_OK || watch.look.done)
        return code;
    const struct rota_options options = {.flags = ROTA_NO_KEEPER, .log = on_log, .log_arg = &watch};
    code = rt_connect_open(&watch.client, cli, &options);
    if (code != RT_EXIT_OK)
        return code;
    code = catch_signals(&watch);
    if (code == RT_EXIT_OK) {
        int err = rota_observe(watch.client, watch.look.name, on_front, &watch, &id);
        code = err != 0 ? rt_connect_report(watch.client, err, "") : follow(&watch);
        close(watch.signal_fd);
    }
    rota_close(watch.client);
    return code;
}
