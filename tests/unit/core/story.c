/* SPDX-License-Identifier: Apache-2.0 */
/* Stories: golden traces of the desk in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

#include <rota.h>
#include <stdio.h>
#include <string.h>

static void say(struct story *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct story *s, const char *format, ...)
{
    size_t room = sizeof s->trace - s->length;
    int n = snprintf(s->trace + s->length, room, "[%5lld] ", (long long)(s->now / RT_MS));
    s->length += (size_t)n;
    va_list ap;
    va_start(ap, format);
    n = vsnprintf(s->trace + s->length, sizeof s->trace - s->length, format, ap);
    va_end(ap);
    s->length += (size_t)n;
    assert_true(s->length + 2 < sizeof s->trace);
    s->trace[s->length++] = '\n';
    s->trace[s->length] = '\0';
}

static const char *error_name(int err)
{
    switch (err) {
    case 0:
        return "ok";
#define NAME(name, value, text) \
    case value:                 \
        return #name;
        ROTA_ERRORS(NAME)
    default:
        return "?";
    }
}

static const char *mode_name(uint32_t mode)
{
    static const char *const names[] = {"exclusive", "shared", "permits", "count", "gather"};
    return names[mode];
}

static char letter(struct story *s, const struct rt_ask *a)
{
    for (int i = 0; i < 26; i++)
        if (&s->asks[i].ask == a)
            return (char)('A' + i);
    return '?';
}

/* ---- What follows from an action ---------------------------------------- */

/* For those with at_least_ms, where it matters. */
static const char *untold(const struct story *s, const struct rt_todo *todo)
{
    for (int i = 0; i < 26; i++)
        if (&s->asks[i].ticket == todo->ticket && s->asks[i].terms.at_least_ms > 0)
            return todo->untold ? " untold" : " told";
    return "";
}

static void show_todo(struct story *s, const struct rt_todo *todo)
{
    const struct rt_ticket *t = todo->ticket;
    const char *again = todo->again ? " again" : "";
    switch (todo->kind) {
    case RT_TODO_BEAT:
        say(s, "> BEAT%s", todo->open ? " open" : "");
        break;
    case RT_TODO_JOIN:
        say(s, "> JOIN %s %s%s%s%s", t->line->name, mode_name(t->mode),
            rt_ticket_has(t, RT_TICKET_TRY) ? " try" : "",
            rt_ticket_has(t, RT_TICKET_ARMED) ? " arm" : "", again);
        break;
    case RT_TODO_JOIN_ALL:
        say(s, "> JOIN_ALL %zu", todo->set->n);
        break;
    case RT_TODO_LEAVE:
        if (rt_ticket_has(t, RT_TICKET_NUMBERED))
            say(s, "> LEAVE %s #%llu%s%s", t->line->name, (unsigned long long)todo->id, again,
                untold(s, todo));
        else
            say(s, "> LEAVE %s by nonce%s%s", t->line->name, again, untold(s, todo));
        break;
    case RT_TODO_ARM:
        say(s, "> ARM %s #%llu", t->line->name, (unsigned long long)todo->id);
        break;
    }
}

static void show_news(struct story *s, struct rt_ask *a)
{
    char who = letter(s, a);
    unsigned news = a->news;
    a->news = 0;
    if ((news & RT_NEWS_AWAY) != 0)
        say(s, "%c has no place and waits on", who);
    if ((news & RT_NEWS_BACK) != 0)
        say(s, "%c is in line again", who);
    if ((news & RT_NEWS_ANSWERED) != 0 && a->err == 0)
        say(s, "%c holds %s #%llu", who, a->line->name, (unsigned long long)a->fence);
    if ((news & RT_NEWS_ANSWERED) != 0 && a->err != 0)
        say(s, "%c refused: %s", who, error_name(a->err));
    if ((news & RT_NEWS_LOST) != 0)
        say(s, "%c lost: %s", who, error_name(a->lost));
    if ((news & RT_NEWS_RELEASED) != 0)
        say(s, "%c released: %s", who, error_name(a->err));
}

static void drain(struct story *s)
{
    struct rt_todo todo;
    struct rt_ask *a;
    struct rt_line *line;
    while ((a = rt_outbox_news(&s->desk)) != NULL)
        show_news(s, a);
    while (rt_outbox_todo(&s->desk, &todo, s->now)) {
        show_todo(s, &todo);
        assert_true(s->op_count < STORY_OPS);
        s->ops[s->op_count++] = todo;
    }
    while (rt_outbox_dead(&s->desk) != NULL || rt_outbox_dead_set(&s->desk) != NULL)
        ;
    while ((line = rt_outbox_idle(&s->desk)) != NULL)
        if (rt_line_idle(line))
            ((struct story_line *)(void *)line)->used = false;
}

static struct rt_todo take(struct story *s, enum rt_todo_kind kind)
{
    for (size_t i = 0; i < s->op_count; i++) {
        struct rt_todo todo = s->ops[i];
        if (todo.kind != kind)
            continue;
        memmove(&s->ops[i], &s->ops[i + 1], (s->op_count - i - 1) * sizeof todo);
        s->op_count--;
        return todo;
    }
    fail_msg("no such request was sent");
    return (struct rt_todo){0};
}

/* ---- Actions ------------------------------------------------------------ */

void story_begin(struct story *s, uint32_t pass_limit, uint32_t pass_ms)
{
    memset(s, 0, sizeof *s);
    s->timers = (struct rt_timers){.heap = s->heap, .room = 128, .reserved = 128};
    rt_desk_init(&s->desk, &s->timers,
                 &(struct rt_desk_options){
                     .pass_limit = pass_limit, .pass_ms = pass_ms, .call_ms = 5000, .nonce = 100});
}

static struct rt_line *line_of(struct story *s, const char *name)
{
    struct story_line *fresh = NULL;
    for (int i = 0; i < STORY_LINES; i++) {
        struct story_line *l = &s->lines[i];
        if (l->used && strcmp(l->line.name, name) == 0)
            return &l->line;
        if (!l->used && fresh == NULL)
            fresh = l;
    }
    assert_non_null(fresh);
    memset(fresh, 0, sizeof *fresh);
    fresh->used = true;
    memcpy(fresh->room + offsetof(struct rt_line, name), name, strlen(name) + 1);
    rt_line_init(&fresh->line);
    fresh->line.s = &fresh->s;
    rt_ticket_init(&fresh->s, &fresh->line, RT_SHARED, 0, 0, 0);
    return &fresh->line;
}

static struct story_ask *prepare(struct story *s, char who, const char *name, const struct wish *w)
{
    struct story_ask *a = &s->asks[who - 'A'];
    memset(a, 0, sizeof *a);
    a->ask.line = line_of(s, name);
    a->ask.mode = (uint8_t)w->mode;
    a->ask.flags = (uint8_t)w->flags;
    a->ask.owner = w->owner != 0 ? w->owner : (uint64_t)who;
    if (w->nobody)
        a->ask.owner = 0;
    a->ask.terms = &a->terms;
    a->terms.limit_at = w->limit_ms > 0 ? s->now + w->limit_ms * RT_MS : RT_NEVER;
    a->terms.hold = w->hold_ms * RT_MS;
    a->terms.linger = w->linger_ms * RT_MS;
    a->terms.at_least_ms = w->at_least_ms;
    rt_ticket_init(&a->ticket, a->ask.line, w->mode, w->take, w->of, RT_TICKET_SOLO);
    return a;
}

void story_ask(struct story *s, char who, const char *name, const struct wish *wish)
{
    struct story_ask *a = prepare(s, who, name, wish);
    if (rt_desk_solo(&s->desk, &a->ask))
        a->ask.ticket = &a->ticket;
    rt_desk_ask(&s->desk, &a->ask, s->now);
    drain(s);
}

void ask_all(struct story *s, const char *who, const char *const *names, bool try)
{
    story_ask_all(s, who, names, try, &(struct wish){0});
}

void story_ask_all(struct story *s, const char *who, const char *const *names, bool try,
                   const struct wish *wish)
{
    struct wish own = *wish;
    own.owner = 1;
    s->set = (struct rt_set){
        .asks = s->members, .tickets = s->tickets, .n = strlen(who), .try = try};
    for (size_t i = 0; i < s->set.n; i++) {
        struct story_ask *a = prepare(s, who[i], names[i], &own);
        a->terms.set = &s->set;
        a->ask.ticket = &a->ticket;
        s->members[i] = &a->ask;
    }
    rt_desk_ask_all(&s->desk, &s->set, s->now);
    drain(s);
}

void let_go(struct story *s, char who)
{
    rt_desk_release(&s->desk, &s->asks[who - 'A'].ask, s->now);
    drain(s);
}

void cancel(struct story *s, char who, int err)
{
    assert_true(rt_desk_cancel(&s->desk, &s->asks[who - 'A'].ask, err, s->now));
    drain(s);
}

void beat(struct story *s, int err, uint64_t session, uint32_t ttl_ms)
{
    (void)take(s, RT_TODO_BEAT);
    rt_desk_beaten(&s->desk, err, session, ttl_ms, 0, s->now);
    drain(s);
}

void joined(struct story *s, int err, uint64_t number, bool is_granted, bool is_wanted)
{
    struct rt_todo todo = take(s, RT_TODO_JOIN);
    struct rt_joined j = {.number = number, .granted = is_granted, .wanted = is_wanted};
    rt_desk_joined(&s->desk, todo.ticket, todo.id, err, &j, s->now);
    drain(s);
}

void joined_all(struct story *s, int err, uint64_t first_number, unsigned granted_bits)
{
    struct rt_todo todo = take(s, RT_TODO_JOIN_ALL);
    struct rt_joined j[26] = {{0}};
    for (unsigned i = 0; i < 26; i++)
        j[i] = (struct rt_joined){.number = first_number + i, .granted = (granted_bits >> i) & 1};
    rt_desk_joined_all(&s->desk, todo.set, err, j, s->now);
    drain(s);
}

void left(struct story *s, int err)
{
    struct rt_todo todo = take(s, RT_TODO_LEAVE);
    rt_desk_left(&s->desk, todo.ticket, todo.id, err, s->now);
    drain(s);
}

void armed(struct story *s, int err, bool is_wanted)
{
    struct rt_todo todo = take(s, RT_TODO_ARM);
    rt_desk_armed(&s->desk, todo.ticket, todo.id, err, is_wanted, s->now);
    drain(s);
}

typedef void event_fn(struct rt_desk *desk, struct rt_ticket *t, int64_t now);

static void event(struct story *s, const char *name, uint64_t number, event_fn *fn)
{
    struct rt_ticket *t = rt_line_ticket(line_of(s, name), number);
    if (t != NULL)
        fn(&s->desk, t, s->now);
    drain(s);
}

void granted_as(struct story *s, const char *name, uint64_t number, uint64_t fence)
{
    struct rt_ticket *t = rt_line_ticket(line_of(s, name), number);
    if (t != NULL)
        rt_desk_granted(&s->desk, t, fence, s->now);
    drain(s);
}

void granted(struct story *s, const char *name, uint64_t number)
{
    granted_as(s, name, number, 0);
}

void wanted(struct story *s, const char *name, uint64_t number)
{
    event(s, name, number, rt_desk_wanted);
}

void ticket_lost(struct story *s, const char *name, uint64_t number)
{
    event(s, name, number, rt_desk_ticket_lost);
}

void session_lost(struct story *s, uint64_t session)
{
    rt_desk_session_lost(&s->desk, session, s->now);
    drain(s);
}

void until(struct story *s, int64_t ms)
{
    int64_t end = ms * RT_MS;
    struct rt_timer *t;
    while (rt_timers_next(&s->timers) <= end) {
        if (rt_timers_next(&s->timers) > s->now)
            s->now = rt_timers_next(&s->timers);
        while ((t = rt_timers_due(&s->timers, s->now)) != NULL)
            rt_desk_timer(&s->desk, t, s->now);
        drain(s);
    }
    s->now = end;
    drain(s);
}

void story_expect(struct story *s, const char *text, const char *file, int line)
{
    if (strcmp(s->trace, text) != 0) {
        print_error("%s:%d: the story went otherwise:\n%s--- expected:\n%s", file, line, s->trace,
                    text);
        fail();
    }
    s->length = 0;
    s->trace[0] = '\0';
}

void story_end(struct story *s)
{
    assert_true(rt_desk_quiet(&s->desk));
    assert_int_equal(s->op_count, 0);
    for (int i = 0; i < STORY_LINES; i++)
        assert_false(s->lines[i].used);
    for (uint32_t i = 0; i < s->timers.count; i++)
        assert_int_equal(s->heap[i]->kind, RT_TIMER_DESK);
}

/* ---- Beginnings --------------------------------------------------------- */

void story_open(struct story *s, uint32_t ttl_ms)
{
    story_begin(s, 2, 10);
    ask(s, 'Z', "open", .flags = RT_ASK_TRY);
    beat(s, 0, 1, ttl_ms);
    joined(s, ROTA_BUSY, 0, false, false);
    expect(s, "[    0] > BEAT open\n"
              "[    0] > JOIN open exclusive try\n"
              "[    0] Z refused: BUSY\n");
}

void story_held(struct story *s, uint32_t ttl_ms)
{
    story_open(s, ttl_ms);
    ask(s, 'A', "L", 0);
    joined(s, 0, 7, true, false);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[    0] A holds L #7\n");
}
