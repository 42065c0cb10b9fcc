/* SPDX-License-Identifier: Apache-2.0 */
/* rota top --json: one object per look, a line each. */
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/json.h"
#include "cli/out.h"
#include "cli/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static json_t *rate_or_null(double rate)
{
    return rate >= 0 ? json_real(rate) : json_null();
}

static json_t *row_json(const struct rt_top_row *row)
{
    json_t *holder = row->holders > 0 ? rt_json_text(row->line->places[0].label) : json_null();

    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "name", rt_json_text(row->line->name),
                     "holders", (json_int_t)row->holders, "waiters", (json_int_t)row->waiters,
                     "grants_per_second", rate_or_null(row->rate), "held_ms", rt_json_ms(row->held),
                     "waited_ms", rt_json_ms(row->waited), "holder", holder);
}

static json_t *look_json(const struct rt_top *top)
{
    json_t *lines = json_array();
    const char *message = rota_errmsg(top->r);

    for (size_t i = 0; top->err == 0 && i < top->lines.count; i++) {
        if (json_array_append_new(lines, row_json(&top->rows[i])) != 0) {
            json_decref(lines);
            lines = NULL;
        }
    }
    if (message[0] == '\0')
        message = rota_strerror(top->err);
    return json_pack("{s:s, s:o, s:I, s:I, s:o, s:o}", "engine", top->engine, "error",
                     top->err != 0 ? rt_json_text(message) : json_null(), "holders",
                     (json_int_t)top->holders, "waiters", (json_int_t)top->waiters,
                     "grants_per_second", rate_or_null(top->rates.since > 0 ? top->rate : -1),
                     "lines", lines);
}

/* Waits until UNTIL, keeping the client going. False: nobody reads us any more. */
static bool wait_until(struct rt_top *top, int64_t until)
{
    for (;;) {
        struct pollfd fds[] = {
            {.fd = rota_fd(top->r), .events = POLLIN},
            {.fd = STDOUT_FILENO}, /* for POLLERR: a pipe without a reader */
        };
        int64_t left = until - rt_top_now_ms();
        if (left <= 0)
            return true;
        int own = rota_timeout_ms(top->r);
        int ready = poll(fds, 2, own >= 0 && own < left ? own : (int)left);
        if (ready > 0 && (fds[1].revents & POLLERR) != 0)
            return false;
        (void)rota_process(top->r);
    }
}

int rt_top_json(struct rt_top *top)
{
    int64_t next = rt_top_now_ms();

    top->live = !top->once;
    signal(SIGPIPE, SIG_IGN);
    do {
        rt_top_look(top);
        if (top->err != 0 && top->once)
            return rt_connect_report(top->r, top->err, "");
        int code = rt_json_print(look_json(top), true);
        if (code != RT_EXIT_OK)
            return code;
        if (fflush(stdout) != 0)
            return errno == EPIPE ? RT_EXIT_OK : rt_out_flush();
        next += (int64_t)top->delay_ms;
    } while (!top->once && wait_until(top, next));
    return RT_EXIT_OK;
}
