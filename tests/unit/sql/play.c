/* SPDX-License-Identifier: Apache-2.0 */
/* The lock engine on SQL with a driver that the test plays. */
#include "play.h"

#include "engine/sql/dialect/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[RT_SQL_STEPS] = {
    [RT_SQL_FACTS] = "facts",
    [RT_SQL_LAYOUT] = "layout",
    [RT_SQL_HERE] = "here",
    [RT_SQL_MAKE] = "make",
    [RT_SQL_OPEN] = "open",
    [RT_SQL_RENEW] = "renew",
    [RT_SQL_END] = "end",
    [RT_SQL_MINE] = "mine",
    [RT_SQL_FOLDED] = "folded",
    [RT_SQL_DEAD] = "dead",
    [RT_SQL_BURY] = "bury",
    [RT_SQL_IDLE] = "idle",
    [RT_SQL_STRAYS] = "strays",
    [RT_SQL_SWEEPER] = "sweeper",
    [RT_SQL_SWEEP] = "sweep",
    [RT_SQL_SWEPT] = "swept",
    [RT_SQL_TAKE] = "take",
    [RT_SQL_GIVE] = "give",
    [RT_SQL_VERIFY] = "verify",
    [RT_SQL_LOCK] = "lock",
    [RT_SQL_UNFOLD] = "unfold",
    [RT_SQL_PURGE] = "purge",
    [RT_SQL_SETTLE] = "settle",
    [RT_SQL_TELL] = "tell",
    [RT_SQL_GATE] = "gate",
    [RT_SQL_JOIN] = "join",
    [RT_SQL_WANT] = "want",
    [RT_SQL_ANSWER] = "answer",
    [RT_SQL_LEAVE] = "leave",
    [RT_SQL_PASS] = "pass",
    [RT_SQL_CHANGE] = "change",
    [RT_SQL_STATE] = "state",
    [RT_SQL_BREAK] = "break",
    [RT_SQL_WATCH] = "watch",
    [RT_SQL_LOOK] = "look",
    [RT_SQL_LOOK_AHEAD] = "look_ahead",
    [RT_SQL_FRONT] = "front",
    [RT_SQL_INSPECT] = "inspect",
    [RT_SQL_LIST] = "list",
    [RT_SQL_DOCTOR] = "doctor",
    [RT_SQL_LISTEN] = "listen",
    [RT_SQL_UNLISTEN] = "unlisten",
    [RT_SQL_LISTEN_LINE] = "listen_line",
    [RT_SQL_UNLISTEN_LINE] = "unlisten_line",
    [RT_SQL_BELL_TAKE] = "bell_take",
    [RT_SQL_BELL_RING] = "bell_ring",
    [RT_SQL_BELL_WAIT] = "bell_wait",
};

/* ---- The driver ---------------------------------------------------------------------------------------- */

static struct play *playing; /* the driver has no other way to it */

static struct play_link *of(struct rt_sql_link *l)
{
    return (struct play_link *)(void *)l;
}

static int on_open(struct rt_conn *conn, const struct rt_url *url, struct rt_dial_ring *ring,
                   void **self)
{
    (void)conn, (void)url, (void)ring;
    playing->opens++;
    *self = playing;
    return 0;
}

static void on_close(void *self)
{
    assert_ptr_equal(self, playing);
    playing->opens--;
}

static int on_dial(struct rt_sql_link *l, const struct rt_dial_end *end, uint32_t connect_ms)
{
    struct play *p = playing;
    (void)end, (void)connect_ms;
    p->dials++;
    if (p->dial_rv != 0)
        return p->dial_rv;
    assert_true(p->link_count < PLAY_LINKS);
    p->links[p->link_count++] = of(l);
    of(l)->play = p;
    return 0;
}

static int on_send(struct rt_sql_link *base, const struct rt_sql_flight *f)
{
    struct play_link *l = of(base);
    assert_false(l->dropped);
    assert_int_equal(l->count, 0);
    assert_true(f->count <= sizeof(l->steps) / sizeof(l->steps[0]));
    if (playing->send_rv != 0)
        return playing->send_rv;
    memcpy(l->steps, f->steps, f->count * sizeof(l->steps[0]));
    l->count = f->count;
    return 0;
}

static void on_drop(struct rt_sql_link *base, void (*closed)(struct rt_sql_link *l))
{
    struct play_link *l = of(base);
    assert_false(l->dropped);
    l->dropped = true;
    l->count = 0;
    l->closed = closed;
}

static void on_forked(struct rt_sql_link *l)
{
    (void)l;
}

static const char *const schemes[] = {"played", NULL}, *const none[] = {NULL};
#define DRIVER(tells)                                                                              \
    {                                                                                              \
        .name = "a play", .schemes = schemes, .params = none, .port = 1,                           \
        .link_size = sizeof(struct play_link), .bells = !(tells), .notifies = (tells), .lanes = 1, \
        .ddl = "", .open = on_open, .close = on_close, .dial = on_dial, .send = on_send,           \
        .drop = on_drop, .forked = on_forked,                                                      \
    }
static const struct rt_sql_driver notifying = DRIVER(true), ringing = DRIVER(false);

static int open_notifying(struct rt_conn *conn, const struct rt_url *url)
{
    return rt_sql_open(conn, url, &notifying);
}

static int open_ringing(struct rt_conn *conn, const struct rt_url *url)
{
    return rt_sql_open(conn, url, &ringing);
}

static const struct rt_engine engines[2] = {RT_SQL_ENGINE(open_ringing, schemes, none),
                                            RT_SQL_ENGINE(open_notifying, schemes, none)};

/* ---- The user ------------------------------------------------------------------------------------------ */

static void on_done(struct rt_up *up, struct rt_op *op)
{
    struct play *p = (struct play *)(void *)up;
    p->dones++;
    p->err = op->err;
    snprintf(p->errmsg, sizeof(p->errmsg), "%s", op->err != 0 ? p->conn->errmsg : "");
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    struct play *p = (struct play *)(void *)up;
    if (e->kind == RT_LINK)
        return;
    assert_true(p->told_count < sizeof(p->told) / sizeof(p->told[0]));
    p->told[p->told_count].kind = e->kind;
    p->told[p->told_count].number = e->number;
    p->told[p->told_count++].count = e->count;
}

static void on_log(struct rt_up *up, int level, const char *line)
{
    (void)level, (void)line;
    ((struct play *)(void *)up)->logs++;
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg, (void)t, (void)now;
}

static void close_dropped(struct play *p)
{
    for (size_t i = 0; i < p->link_count; i++) {
        struct play_link *l = p->links[i];
        if (l == NULL || !l->dropped)
            continue;
        p->links[i] = NULL;
        if (l->closed != NULL)
            l->closed(&l->base);
    }
}

void play_turn(struct play *p)
{
    rt_loop_arm(&p->loop);
    rt_loop_turn(&p->loop, no_other, NULL);
    close_dropped(p);
    rt_loop_arm(&p->loop);
    const char *trouble = p->conn->engine->trouble(p->conn);
    snprintf(p->trouble, sizeof(p->trouble), "%s", trouble != NULL ? trouble : "");
}

void play_pass(struct play *p, int64_t us)
{
    rt_loop_arm(&p->loop);
    rt_loop_advance(&p->loop, rt_loop_now(&p->loop) + us * 1000);
    play_turn(p);
}

int play_open_url(struct play *p, bool notifies, const char *text)
{
    struct rt_url url;
    memset(p, 0, sizeof(*p));
    playing = p;
    p->up = (struct rt_up){.done = on_done, .event = on_event, .log = on_log};
    rt_loop_init_virtual(&p->loop);
    rt_loop_advance(&p->loop, 1000 * RT_MS);
    assert_int_equal(rt_url_parse(&url, text, p->errmsg, sizeof(p->errmsg)), 0);
    const struct rt_engine *engine = &engines[notifies];
    p->conn = calloc(1, engine->conn_size);
    assert_non_null(p->conn);
    *p->conn = (struct rt_conn){.engine = engine,
                                .up = &p->up,
                                .loop = &p->loop,
                                .label = "me",
                                .ttl_ms = PLAY_TTL_MS,
                                .call_ms = PLAY_CALL_MS};
    int rv = engine->open(p->conn, &url);
    snprintf(p->errmsg, sizeof(p->errmsg), "%s", p->conn->errmsg);
    rt_url_fini(&url);
    if (rv == 0)
        return 0;
    free(p->conn);
    rt_loop_fini(&p->loop);
    return rv;
}

void play_open(struct play *p, bool notifies)
{
    assert_int_equal(play_open_url(p, notifies, "played://server/x"), 0);
}

void play_begin(struct play *p, bool notifies)
{
    play_open(p, notifies);
    play_turn(p);
    play_greet(p, 0);
    play_session(p);
}

void play_close(struct play *p)
{
    p->conn->engine->close(p->conn);
    close_dropped(p);
    for (size_t i = 0; i < p->link_count; i++)
        assert_null(p->links[i]);
    assert_int_equal(p->opens, 0);
    free(p->conn);
    rt_loop_fini(&p->loop);
}

/* ---- The server ---------------------------------------------------------------------------------------- */

/* Of JOIN and TAKE, and of a bell taken. */
static bool is_random(const struct rt_sql_step *s, size_t i)
{
    return (s->kind == RT_SQL_BELL_TAKE && i == 0) || (s->kind == RT_SQL_TAKE && i == 5) ||
           (s->kind == RT_SQL_JOIN && i == 15) || (s->kind == RT_SQL_LISTEN && i == 0) ||
           (s->kind == RT_SQL_UNLISTEN && i == 0) || (s->kind == RT_SQL_OPEN && i == 0) ||
           (s->kind == RT_SQL_BELL_RING && i == 0);
}

static size_t add_step(const struct play *p, char *out, size_t size, const struct rt_sql_step *s)
{
    size_t used = (size_t)snprintf(out, size, "%s", names[s->kind]);
    for (size_t i = 0; i < s->count; i++) {
        const struct rt_sql_cell *c = &s->args[i];
        char mark = i == 0 ? '(' : ',';
        if (is_random(s, i) && c->number != 0)
            used += (size_t)snprintf(out + used, size - used, "%c*", mark);
        else if (c->text == NULL && !c->null && (uint64_t)c->number == p->session)
            used += (size_t)snprintf(out + used, size - used, "%cS", mark);
        else if (c->null)
            used += (size_t)snprintf(out + used, size - used, "%c-", mark);
        else if (c->text != NULL)
            used += (size_t)snprintf(out + used, size - used, "%c%.*s", mark, (int)c->size,
                                     c->text);
        else
            used += (size_t)snprintf(out + used, size - used, "%c%lld", mark, (long long)c->number);
    }
    return used + (size_t)snprintf(out + used, size - used, "%s", s->count > 0 ? ")" : "");
}

static struct play_link *link_of(struct play *p, size_t n)
{
    assert_true(n < p->link_count);
    struct play_link *l = p->links[n];
    assert_non_null(l);
    return l;
}

const char *play_said(struct play *p, size_t n)
{
    static char text[4096];
    const struct play_link *l = n < p->link_count ? p->links[n] : NULL;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; l != NULL && i < l->count; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", i > 0 ? " " : "");
        used += add_step(p, text + used, sizeof(text) - used, &l->steps[i]);
        assert_true(used < sizeof(text));
    }
    return text;
}

void play_row(struct play *p, size_t n, size_t step, const int64_t *cells, size_t count)
{
    struct play_link *l = link_of(p, n);
    struct rt_sql_cell row[RT_SQL_ARGS];
    assert_true(step < l->count && count <= RT_SQL_ARGS);
    for (size_t i = 0; i < count; i++)
        row[i] = cells[i] == PLAY_NULL ? (struct rt_sql_cell){.null = true}
                                       : (struct rt_sql_cell){.number = cells[i]};
    l->base.user->row(&l->base, step, row, count);
}

void play_land(struct play *p, size_t n, enum rt_sql_end end)
{
    struct play_link *l = link_of(p, n);
    assert_true(l->count > 0);
    l->count = 0;
    l->base.user->landed(&l->base, end, 0, end == RT_SQL_LANDED ? "" : "it was not to be");
    play_turn(p);
}

void play_cells(struct play *p, size_t n, size_t step, const struct rt_sql_cell *cells,
                size_t count)
{
    struct play_link *l = link_of(p, n);
    assert_true(step < l->count);
    l->base.user->row(&l->base, step, cells, count);
}

void play_changed(struct play *p, size_t n, size_t step, uint64_t count)
{
    struct play_link *l = link_of(p, n);
    assert_true(step < l->count);
    l->base.user->changed(&l->base, step, count);
}

void play_down(struct play *p, size_t n, int err)
{
    play_down_as(p, n, err, "it went down");
}

void play_down_as(struct play *p, size_t n, int err, const char *why)
{
    struct play_link *l = link_of(p, n);
    bool flies = l->count > 0;
    l->count = 0;
    if (flies)
        l->base.user->landed(&l->base, RT_SQL_CUT, 0, why);
    l->base.user->down(&l->base, err, why);
    play_turn(p);
}

void play_notice(struct play *p, size_t n, const char *channel, const char *text)
{
    struct play_link *l = link_of(p, n);
    l->base.user->notice(&l->base, channel, text);
    play_turn(p);
}

void play_up(struct play *p, size_t n)
{
    struct play_link *l = link_of(p, n);
    l->base.user->up(&l->base);
    rt_loop_arm(&p->loop);
}

void play_facts(struct play *p, size_t n)
{
    const char *unsafe = p->unsafe != NULL ? p->unsafe : "",
               *unfit = p->unfit != NULL ? p->unfit : "";
    const struct rt_sql_cell facts[] = {
        rt_sql_number(150000), PLAY_TEXT("15"),   rt_sql_number(1),
        rt_sql_number(1),      PLAY_TEXT(unsafe), PLAY_TEXT(unfit),
        PLAY_TEXT("s"),        rt_sql_number(1),  rt_sql_number((uint64_t)p->ahead)};
    play_cells(p, n, 0, facts, 9);
}

void play_greet(struct play *p, size_t n)
{
    play_up(p, n);
    assert_string_equal(play_said(p, n), "facts");
    play_facts(p, n);
    play_land(p, n, RT_SQL_LANDED);
    assert_string_equal(play_said(p, n), "facts layout");
    play_facts(p, n);
    play_cells(p, n, 1, (const struct rt_sql_cell[]){PLAY_TEXT("1.0"), PLAY_TEXT("s 0")}, 2);
    play_land(p, n, RT_SQL_LANDED);
}

/* ---- Ops ----------------------------------------------------------------------------------------------- */

void play_do(struct play *p, struct rt_op *op)
{
    if (op->deadline == 0)
        op->deadline = rt_loop_now(&p->loop) + PLAY_CALL_MS * RT_MS;
    p->conn->engine->submit(p->conn, op);
    play_turn(p);
}

void play_session(struct play *p)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .beat = {.open = true}};
    play_do(p, &op);
    assert_string_equal(play_said(p, 0), "open(*,9000000,me)");
    PLAY_ROW(p, 0, 0, 900);
    play_land(p, 0, RT_SQL_LANDED);
    assert_int_equal(p->err, 0);
    p->session = op.beat.session;
}

void play_wait(struct play *p, struct rt_join *j, const char *name, int64_t number, int64_t bell,
               int64_t left_us)
{
    static uint64_t nonces;
    struct rt_op op = {.kind = RT_OP_JOIN, .join = {.joins = j, .n = 1}};
    *j = (struct rt_join){.name = name, .session = p->session, .nonce = ++nonces};
    int dones = p->dones;
    play_do(p, &op);
    play_land(p, 0, RT_SQL_LANDED); /* TAKE: not so */
    struct play_link *l = link_of(p, 0);
    assert_int_equal(l->steps[l->count - 1].kind, RT_SQL_ANSWER);
    PLAY_ROW(p, 0, l->count - 1, 1, number, 0, 0, 0, 0, PLAY_NULL, left_us, bell);
    play_land(p, 0, RT_SQL_LANDED);
    assert_int_equal(p->dones, dones + 1);
    assert_int_equal(p->err, 0);
    assert_int_equal(j->number, number);
}
