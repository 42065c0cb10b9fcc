/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of an engine in virtual time, for unit tests. */
#include "player.h"

#include "base/alloc.h"
#include "engine/mem/mem.h"
#include "engine/url.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void stage_init(struct stage *stage)
{
    memset(stage, 0, sizeof(*stage));
    rt_loop_init_virtual(&stage->loop);
}

void stage_fini(struct stage *stage)
{
    while (stage->count > 0)
        player_close(stage, stage->players[stage->count - 1]);
    rt_loop_fini(&stage->loop);
}

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct player *p = (struct player *)(void *)up;
    (void)op;
    p->ended++;
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...)
{
    size_t length = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + length, size - length, format, args);
    va_end(args);
}

static void on_event(struct rt_up *up, const struct rt_event *event)
{
    static const char *const names[] = {"GRANTED",     "WANTED",       "CHANGED",
                                        "TICKET_LOST", "SESSION_LOST", "LINK"};
    struct player *p = (struct player *)(void *)up;
    append(p->told, sizeof(p->told), "%s", names[event->kind]);
    if (event->name != NULL)
        append(p->told, sizeof(p->told), " %s", event->name);
    if (event->number != 0)
        append(p->told, sizeof(p->told), " %" PRIu64, event->number);
    if (event->fence != 0)
        append(p->told, sizeof(p->told), "=#%" PRIu64, event->fence - STAGE_LATE);
    if (event->kind == RT_CHANGED)
        append(p->told, sizeof(p->told), " %" PRIu64 "=%s of %zu", event->front.fence,
               event->front.value, event->count);
    append(p->told, sizeof(p->told), "; ");
}

static void on_log(struct rt_up *up, int level, const char *line)
{
    struct player *p = (struct player *)(void *)up;
    (void)level;
    append(p->log, sizeof(p->log), "%s\n", line);
}

int player_open(struct stage *stage, struct player *p, const char *label, uint32_t ttl_ms)
{
    memset(p, 0, sizeof(*p));
    p->up = (struct rt_up){.done = on_done, .event = on_event, .log = on_log};
    p->conn = rt_alloc(rt_engine_mem.conn_size);
    if (p->conn == NULL)
        return ROTA_NOMEM;
    *p->conn = (struct rt_conn){
        .engine = &rt_engine_mem,
        .up = &p->up,
        .loop = &stage->loop,
        .label = label,
        .ttl_ms = ttl_ms,
        .call_ms = 5000,
    };
    struct rt_url url = {.scheme = "mem", .path = "test"};
    url.params[0] = (struct rt_url_param){"fence", "grant"};
    url.param_count = stage->late ? 1 : 0;
    int rv = rt_engine_mem.open(p->conn, &url);
    if (rv != 0) {
        rt_free(p->conn);
        return rv;
    }
    p->mem = p->conn;
    stage->players[stage->count++] = p;
    return 0;
}

void player_close(struct stage *stage, struct player *p)
{
    p->conn->engine->close(p->conn);
    rt_free(p->conn);
    size_t i = 0;
    while (stage->players[i] != p)
        i++;
    stage->players[i] = stage->players[--stage->count];
}

void stage_settle(struct stage *stage)
{
    bool any = true;
    while (any) {
        any = false;
        for (size_t i = 0; i < stage->count; i++)
            if (rt_mem_pending(stage->players[i]->mem))
                any = rt_mem_deliver(stage->players[i]->mem) || any;
    }
}

void stage_advance(struct stage *stage, int64_t ms)
{
    int64_t until = rt_loop_now(&stage->loop) + ms * RT_MS;
    stage_settle(stage);
    while (rt_timers_next(&stage->loop.timers) <= until) {
        int64_t next = rt_timers_next(&stage->loop.timers);
        if (next > rt_loop_now(&stage->loop))
            rt_loop_advance(&stage->loop, next);
        rt_loop_turn(&stage->loop, NULL, NULL);
        stage_settle(stage);
    }
    rt_loop_advance(&stage->loop, until);
}

void player_submit(struct player *p, struct rt_op *op)
{
    if (op->deadline == 0)
        op->deadline = INT64_MAX;
    p->conn->engine->submit(p->conn, op);
}

static int run(struct player *p, struct rt_op *op)
{
    int before = p->ended;
    player_submit(p, op);
    return p->ended == before + 1 ? op->err : ROTA_INTERNAL;
}

int player_beat_open(struct player *p)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .beat = {.open = true}};
    int rv = run(p, &op);
    if (rv == 0)
        p->session = op.beat.session;
    return rv;
}

int player_beat(struct player *p, const uint64_t *tickets, size_t count)
{
    struct rt_op op = {
        .kind = RT_OP_BEAT,
        .beat = {.session = p->session, .tickets = tickets, .ticket_count = count},
    };
    return run(p, &op);
}

int player_join(struct player *p, struct rt_join *join)
{
    static uint64_t nonce = 1000;
    if (join->session == 0)
        join->session = p->session;
    if (join->nonce == 0)
        join->nonce = ++nonce;
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = join, .n = 1}};
    return run(p, &op);
}

int player_leave(struct player *p, const char *name, uint64_t number)
{
    struct rt_op op = {
        .kind = RT_OP_LEAVE,
        .leave = {.name = name, .session = p->session, .number = number},
    };
    return run(p, &op);
}

int player_change(struct player *p, const char *name, uint64_t number, uint32_t what,
                  const char *value, bool *wanted)
{
    struct rt_op op = {
        .kind = RT_OP_CHANGE,
        .change =
            {.name = name, .session = p->session, .number = number, .what = what, .value = value},
    };
    int rv = run(p, &op);
    if (wanted != NULL)
        *wanted = op.change.wanted;
    return rv;
}

int player_break(struct player *p, const char *name, uint64_t number, uint32_t mode)
{
    struct rt_op op = {
        .kind = RT_OP_BREAK,
        .brk = {.name = name, .number = number, .mode = mode},
    };
    return run(p, &op);
}

int player_observe(struct player *p, const char *name, void *cookie, bool stop)
{
    struct rt_op op = {
        .kind = RT_OP_OBSERVE,
        .observe = {.name = name, .cookie = cookie, .stop = stop},
    };
    return run(p, &op);
}

static void show_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)name;
    append(arg, 1024, "%" PRIu64 "%c%c%s ", place->number, "XSPCG"[place->mode],
           place -> flags &ROTA_PLACE_GRANTED ? '*' : ' ', place->label);
}

const char *player_show(struct player *p, const char *name)
{
    static char text[1024];
    text[0] = '\0';
    struct rt_op op = {
        .kind = RT_OP_INSPECT,
        .inspect = {.name = name, .session = p->session, .each = show_place, .arg = text},
    };
    return run(p, &op) == 0 ? text : "failed";
}

const char *player_told(struct player *p)
{
    static char text[sizeof(p->told)];
    memcpy(text, p->told, sizeof(text));
    p->told[0] = '\0';
    return text;
}
