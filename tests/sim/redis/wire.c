/* SPDX-License-Identifier: Apache-2.0 */
/* What reaches a model Redis, and what it does to the lines, held against the invariants. */
#include "engine/redis/script.h"
#include "sim/invariants.h"
#include "sim/redis/kind.h"
#include "sim/redis/server.h"
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS 5 /* where ARGV[2] is: EVALSHA, hash, "1", room, tag come before */

/* For a LEAVE: its line before; whether the ticket stood there, and was the session's. */
static struct sim_place before[SIM_PLACES_MAX];
static size_t before_count;
static bool ours;

static const struct rt_redis_text *text_of(const struct rs_server *s, enum rt_redis_script script)
{
    return rt_redis_script_text(script, s->cluster);
}

static const struct rt_redis_text *script_of(const struct rs_server *s, const struct rs_text *argv)
{
    bool by_text = rs_word_is(argv[0], "EVAL");
    if (!by_text && !rs_word_is(argv[0], "EVALSHA"))
        return NULL;
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++) {
        const struct rt_redis_text *t = text_of(s, (enum rt_redis_script)i);
        struct rs_text text = {t->text, t->length}, sha = {t->sha1, strlen(t->sha1)};
        if (rs_text_equals(argv[1], by_text ? text : sha))
            return t;
    }
    return NULL;
}

static bool is_leave(const struct rs_server *s, const struct rt_redis_text *script, size_t argc)
{
    return script == text_of(s, RT_REDIS_SCRIPT_LEAVE) && argc >= ARGS + 3;
}

static int line_of(const struct sim *sim, struct rs_text name)
{
    for (uint32_t i = 0; i < sim->plan.names; i++)
        if (rs_text_equals(name, (struct rs_text){sim->lines[i].name, strlen(sim->lines[i].name)}))
            return (int)i;
    return -1;
}

static bool is_ours(const struct rs_text *args, size_t n)
{
    uint64_t session = strtoull(args[1].at, NULL, 16), number = strtoull(args[2].at, NULL, 10);
    uint64_t nonce = n > 3 ? strtoull(args[3].at, NULL, 10) : 0;
    for (size_t i = 0; i < before_count; i++) {
        const struct sim_place *p = &before[i];
        if (p->session == session && rt_names_ticket(number, nonce, p->number, p->nonce))
            return true;
    }
    return false;
}

static void on_before(struct rs_server *s, size_t argc, const struct rs_text *argv)
{
    const struct sim *sim = s->user;
    int line = is_leave(s, script_of(s, argv), argc) ? line_of(sim, argv[ARGS]) : -1;
    if (line < 0)
        return;
    before_count = sim->kind->look(sim, sim->lines[line].name, before, SIM_PLACES_MAX);
    ours = is_ours(argv + ARGS, argc - ARGS);
}

/* I8: a release wakes the tickets it grants and at most one more. */
static void check_woken(const struct sim *sim, int line, uint32_t pushed)
{
    struct sim_place after[SIM_PLACES_MAX];
    const char *name = sim->lines[line].name;
    size_t n = sim->kind->look(sim, name, after, SIM_PLACES_MAX);
    uint32_t granted = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < before_count; k++)
            granted += after[i].granted && before[k].number == after[i].number &&
                       !before[k].granted;
    if (pushed > granted + 1)
        sim_violated(sim, "I8", "a release of %s granted %u and woke %u", name, granted, pushed);
}

/* The second element of the reply, where a tag alone is success; -1: it is an error. */
static int status_of(const struct rs_buffer *reply)
{
    if (reply->at[0] == '$')
        return RT_REDIS_OK;
    if (reply->at[0] != '*')
        return -1;
    const char *at = memchr(reply->at, '$', reply->n); /* the tag */
    return at != NULL ? atoi(strchr(strchr(at, '\n') + 1, '\n') + 2) : -1;
}

static void check_leave(const struct sim *sim, const struct rs_server *s,
                        const struct rs_text *args, int status)
{
    int line = line_of(sim, args[0]);
    if (line < 0)
        return;
    if (status == RT_REDIS_OK && !ours)
        sim_violated(sim, "I4", "a LEAVE of %s that was nobody's succeeded", sim->lines[line].name);
    if (status == RT_REDIS_LOST && ours)
        sim_violated(sim, "I5", "a LEAVE of %s found nothing where something was",
                     sim->lines[line].name);
    check_woken(sim, line, s->pushed);
}

/* Holders go on, and give back, even on a server without memory. */
static void check_full(const struct sim *sim, const struct rt_redis_text *script,
                       const struct rs_buffer *reply)
{
    static const enum rt_redis_script lasting[] = {RT_REDIS_SCRIPT_BEAT, RT_REDIS_SCRIPT_LEAVE,
                                                   RT_REDIS_SCRIPT_SWEEP, RT_REDIS_SCRIPT_HELD,
                                                   RT_REDIS_SCRIPT_END};
    if (reply->n < 4 || memcmp(reply->at, "-OOM", 4) != 0)
        return;
    for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++)
        if (script == text_of(sim->redis, lasting[i]))
            sim_violated(sim, "I6", "a server without memory refused %s", script->name);
}

static void trace(const struct sim *sim, const struct rt_redis_text *script, size_t argc,
                  const struct rs_text *argv, const struct rs_buffer *reply)
{
    char text[400], answer[160];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = ARGS; i < argc && n < sizeof(text) - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %.*s", (int)argv[i].n, argv[i].at);
    size_t m = reply->n < sizeof(answer) ? reply->n : sizeof(answer) - 1;
    for (size_t i = 0; i < m; i++)
        answer[i] = reply->at[i] < ' ' ? ' ' : reply->at[i];
    answer[m] = '\0';
    sim_trace(sim, NULL, "  redis: %s%s -> %s", script->name, text, answer);
}

static void on_after(struct rs_server *s, size_t argc, const struct rs_text *argv,
                     const struct rs_buffer *reply)
{
    struct sim *sim = s->user;
    const struct rt_redis_text *script = script_of(s, argv);
    if (script == NULL)
        return;
    sim_counts.scripts++;
    if (sim->tracing)
        trace(sim, script, argc, argv, reply);
    check_full(sim, script, reply);
    if (is_leave(s, script, argc))
        check_leave(sim, s, argv + ARGS, status_of(reply));
    bool leaves = is_leave(s, script, argc);
    sim_check_lines(sim, leaves ? strtoull(argv[ARGS + 1].at, NULL, 16) : 0);
}

void sim_redis_watch(struct sim *sim)
{
    sim->redis->before = on_before;
    sim->redis->after = on_after;
    sim->redis->user = sim;
}
