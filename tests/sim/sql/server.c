/* SPDX-License-Identifier: Apache-2.0 */
/* A model SQL server in virtual time: its clock, connections, transactions and outages. */
#include "sim/sql/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_BEGIN_US INT64_C(1700000000000000)
#define THINK_US 20
#define PAUSE_US 2000 /* mean, between two statements of a flight that others interleave */
#define STEPS_MAX 4096
#define SS_BELLS_MAX 300

struct ss_conn {
    struct sim_conn base; /* first */
    struct ss_server *server;
    uint32_t node;
    int64_t backend;
    bool mute; /* what it says gets lost, and it does not know */
    char channels[SS_CHANNELS_MAX][SS_CHANNEL];
    size_t channel_count;
    int64_t bells[SS_BELLS_MAX];
    size_t bell_count;
};

struct ss_task { /* a flight that has come */
    struct ss_task *next;
    int64_t came, at;     /* at: when it is done */
    struct ss_conn *conn; /* NULL: gone */
    uint32_t node;
    int64_t backend;
    int64_t bell;  /* it waits for that bell until `at`; 0: for none */
    int64_t ahead; /* it stood behind that ticket when it began to, in ... */
    char name[16];
    bool waited;
    size_t done;         /* how many of its steps were */
    struct ss_bytes out; /* and said this */
    size_t n;
    char bytes[];
};

static struct ss_conn *conn_of(struct sim_conn *c)
{
    return (struct ss_conn *)(void *)c;
}

/* ---- The clock ---------------------------------------------------------------------------------------------------- */

static int64_t clock_at(const struct ss_server *s, int64_t ns)
{
    int64_t us = (ns - s->clock_at) / 1000;
    return s->clock_us + us + us * s->clock_ppm / 1000000;
}

int64_t ss_server_clock(const struct ss_server *s)
{
    return clock_at(s, s->net.now);
}

int64_t ss_server_when(const struct ss_server *s, int64_t us)
{
    int64_t left = us - ss_server_clock(s);
    return s->net.now + (left - left * s->clock_ppm / 1000000) * 1000;
}

void ss_server_jump(struct ss_server *s, int64_t us)
{
    s->clock_us = ss_server_clock(s) + us;
    s->clock_at = s->net.now;
}

/* ---- Running a flight --------------------------------------------------------------------------------------------- */

struct notice {
    struct notice *next;
    char channel[SS_CHANNEL], text[SS_TEXT_MAX + 32];
};

struct run {
    struct ss_flight f; /* first */
    struct ss_server *server;
    struct ss_conn *conn; /* NULL: nobody waits for it */
    int64_t clock, until; /* ns: when its next statement begins; when it is done */
    struct ss_bytes out;
    struct notice *notices, **last; /* told when it is committed */
};

static struct run *run_of(struct ss_flight *f)
{
    return (struct run *)(void *)f;
}

/* Statements begin one after the other; some wait. */
static int64_t run_now(struct ss_flight *f)
{
    struct run *r = run_of(f);
    struct ss_server *s = r->server;
    if (r->until > r->clock && sim_chance(&s->net.random, 250))
        r->clock += (int64_t)(sim_next(&s->net.random) % (uint64_t)(r->until - r->clock + 1));
    int64_t us = clock_at(s, r->clock);
    s->clock_most = us > s->clock_most ? us : s->clock_most;
    return us;
}

static void run_row(struct ss_flight *f, size_t step, const struct rt_sql_cell *cells, size_t count)
{
    struct ss_bytes *out = &run_of(f)->out;
    ss_put_number(out, SS_ROW);
    ss_put_number(out, (int64_t)step);
    ss_put_cells(out, cells, count);
}

static void run_changed(struct ss_flight *f, size_t step, uint64_t count)
{
    struct ss_bytes *out = &run_of(f)->out;
    ss_put_number(out, SS_CHANGED);
    ss_put_number(out, (int64_t)step);
    ss_put_number(out, (int64_t)count);
}

static void run_notify(struct ss_flight *f, const char *channel, const char *text)
{
    struct run *r = run_of(f);
    struct notice *n = calloc(1, sizeof(*n));
    assert(n != NULL && strlen(channel) < sizeof(n->channel) && strlen(text) < sizeof(n->text));
    memcpy(n->channel, channel, strlen(channel) + 1);
    memcpy(n->text, text, strlen(text) + 1);
    *r->last = n;
    r->last = &n->next;
}

static size_t find_channel(const struct ss_conn *c, const char *channel)
{
    size_t i = 0;
    while (i < c->channel_count && strcmp(c->channels[i], channel) != 0)
        i++;
    return i;
}

static void run_listen(struct ss_flight *f, const char *channel, bool on)
{
    struct ss_conn *c = run_of(f)->conn;
    size_t at = c != NULL ? find_channel(c, channel) : 0;
    if (c == NULL || on == (at < c->channel_count))
        return;
    if (!on) {
        memcpy(c->channels[at], c->channels[--c->channel_count], SS_CHANNEL);
        return;
    }
    assert(c->channel_count < SS_CHANNELS_MAX);
    memcpy(c->channels[c->channel_count++], channel, strlen(channel) + 1);
}

/* A deadlock, where others of its flight go on without it. */
static bool run_fails(struct ss_flight *f)
{
    struct ss_server *s = run_of(f)->server;
    return sim_net_strikes(&s->net, s->again);
}

/* ---- Bells -------------------------------------------------------------------------------------------------------- */

static void insert(struct ss_server *s, struct ss_task *t, int64_t when)
{
    struct ss_task **at = &s->tasks;
    t->at = when;
    while (*at != NULL && (*at)->at <= t->at)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

static int64_t think(struct ss_server *s)
{
    const struct sim_wire *w = &s->net.faults;
    uint32_t mean = sim_chance(&s->net.random, w->slow) ? w->slow_us : THINK_US;
    return 1000 + sim_spread_ns(&s->net.random, mean);
}

static size_t read_flight(const struct ss_task *t, struct rt_sql_step *steps,
                          struct rt_sql_cell *cells);

/* The ticket that T, which waits for a bell, will then look for; NULL: it is gone. */
static const struct ss_ticket *ticket_of(const struct ss_server *s, const struct ss_task *t,
                                         const struct ss_line **line)
{
    struct rt_sql_step steps[2];
    struct rt_sql_cell cells[2 * RT_SQL_ARGS];
    size_t count = read_flight(t, steps, cells);
    assert(count <= 2);
    if (count < 2 || (steps[1].kind != RT_SQL_LOOK && steps[1].kind != RT_SQL_LOOK_AHEAD))
        return NULL; /* it held meanwhile */
    const struct rt_sql_cell *args = steps[1].args;
    const struct ss_line *l = *line = ss_line(&s->store, args[0].text, args[0].size);
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].session == args[1].number && l->tickets[i].number == args[2].number)
            return &l->tickets[i];
    return NULL;
}

/* Notes whom it waits behind. */
static void note_ahead(const struct ss_server *s, struct ss_task *t)
{
    const struct ss_line *line = NULL;
    const struct ss_ticket *its = ticket_of(s, t, &line);
    if (its == NULL || its == line->tickets)
        return;
    assert(strlen(line->name) < sizeof(t->name)); /* of the simulator's own lines */
    t->ahead = its[-1].number;
    memcpy(t->name, line->name, strlen(line->name) + 1);
}

/* A client that has left cannot be called back, nor one that waits for a ticket that went long ago, or on a
 * connection that was given up. */
static bool is_woken(struct ss_server *s, const struct ss_task *t)
{
    const struct ss_line *line = NULL;
    return t->conn != NULL && t->conn->base.stream != NULL && s->stood != NULL && t->ahead != 0 &&
           ticket_of(s, t, &line) != NULL && s->stood(s, t->name, t->ahead);
}

/* Whoever waits for BELL goes on. */
static void wake(struct ss_server *s, int64_t bell)
{
    struct ss_task *woken = NULL, *t;
    for (struct ss_task **at = &s->tasks; (t = *at) != NULL;) {
        if (t->bell != bell) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = woken;
        woken = t;
    }
    while ((t = woken) != NULL) {
        s->woken += is_woken(s, t);
        woken = t->next;
        t->bell = 0;
        insert(s, t, s->net.now + think(s));
    }
}

static bool holds(const struct ss_conn *c, int64_t bell)
{
    for (size_t i = 0; i < c->bell_count; i++)
        if (c->bells[i] == bell)
            return true;
    return false;
}

static bool is_held(const struct ss_server *s, int64_t bell)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next)
        if (c->served && holds(conn_of(c), bell))
            return true;
    return false;
}

static void let_go(struct ss_conn *c, int64_t bell)
{
    for (size_t i = c->bell_count; i-- > 0;)
        if (c->bells[i] == bell)
            c->bells[i] = c->bells[--c->bell_count];
    wake(c->server, bell);
}

static void run_bell(struct ss_flight *f, int64_t bell, bool on)
{
    struct ss_conn *c = run_of(f)->conn;
    if (c == NULL || on == holds(c, bell))
        return;
    if (!on) {
        let_go(c, bell);
        return;
    }
    assert(!is_held(c->server, bell) && c->bell_count < SS_BELLS_MAX);
    c->bells[c->bell_count++] = bell;
}

/* ---- Beginning and end -------------------------------------------------------------------------------------------- */

static void begin(struct run *r, struct ss_server *s, int64_t from)
{
    *r = (struct run){
        .f = {.store = &s->store,
              .writable = true,
              .now = run_now,
              .row = run_row,
              .changed = run_changed,
              .notify = run_notify,
              .listen = run_listen,
              .bell = run_bell,
              .fails = run_fails},
        .server = s,
        .clock = from,
        .until = s->net.now,
        .last = &r->notices,
    };
}

static void put_notice(struct ss_bytes *out, const struct notice *n)
{
    ss_put_number(out, SS_NOTICE);
    ss_put_text(out, n->channel, strlen(n->channel));
    ss_put_text(out, n->text, strlen(n->text));
}

/* Tells all that listen at this moment except OWN, which hears it with its answer. */
static void publish(struct ss_server *s, const struct notice *n, const struct ss_conn *own)
{
    for (struct sim_conn *base = s->net.conns; base != NULL; base = base->next) {
        struct ss_conn *c = conn_of(base);
        struct ss_bytes b = {0};
        if (!base->served || c == own || c->mute || find_channel(c, n->channel) == c->channel_count)
            continue;
        put_notice(&b, n);
        sim_conn_send(base, b.at, b.n);
        free(b.at);
    }
}

static void put_end(struct ss_bytes *out, enum rt_sql_end end, size_t step)
{
    static const char why[] = "the model says so";
    ss_put_number(out, SS_END);
    ss_put_number(out, end);
    ss_put_number(out, (int64_t)step);
    ss_put_text(out, why, sizeof(why) - 1);
}

/* NUMBER KIND NAME, on a bell's channel. */
static bool is_grant(const struct notice *n)
{
    const char *kind = strchr(n->text, ' ');
    return strncmp(n->channel, "rota_o", 6) != 0 && kind != NULL && kind[1] == 'G';
}

static bool is_heard(const struct ss_server *s, const char *channel)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next)
        if (c->served && find_channel(conn_of(c), channel) < conn_of(c)->channel_count)
            return true;
    return false;
}

/* Its own notices come before the end of the answer, or after. */
static void finish(struct run *r, enum rt_sql_end end, size_t step)
{
    bool first = sim_chance(&r->server->net.random, 500);
    if (!first)
        put_end(&r->out, end, step);
    for (struct notice *n; (n = r->notices) != NULL; free(n)) {
        r->notices = n->next;
        r->server->woken += is_grant(n) && is_heard(r->server, n->channel);
        publish(r->server, n, r->conn);
        if (r->conn != NULL && find_channel(r->conn, n->channel) < r->conn->channel_count)
            put_notice(&r->out, n);
    }
    if (first)
        put_end(&r->out, end, step);
}

/* ---- Flights that have come --------------------------------------------------------------------------------------- */

static size_t read_flight(const struct ss_task *t, struct rt_sql_step *steps,
                          struct rt_sql_cell *cells)
{
    struct ss_reader r = {t->bytes, t->bytes + t->n};
    size_t count = (size_t)ss_get_number(&r);
    assert(count > 0 && count <= STEPS_MAX);
    for (size_t i = 0; i < count; i++) {
        steps[i].kind = (enum rt_sql_step_kind)ss_get_number(&r);
        steps[i].args = cells;
        steps[i].count = (uint32_t)ss_get_cells(&r, cells, RT_SQL_ARGS);
        cells += steps[i].count;
    }
    assert(r.at == r.end); /* one flight at a time is in the air */
    return count;
}

static bool greets(const struct rt_sql_step *steps)
{
    return steps[0].kind == RT_SQL_FACTS;
}

static bool may_be_done(const struct ss_server *s, const struct rt_sql_step *step)
{
    int64_t now = ss_server_clock(s);
    return step->kind == RT_SQL_PASS   ? ss_may_pass(&s->store, step, now)
           : step->kind == RT_SQL_TAKE ? step->args[6].number > now
                                       : true;
}

/* A PASS that does not apply, and a TAKE of a session that is over, may say so by refusing the flight. */
static bool is_refused(struct ss_server *s, const struct rt_sql_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!may_be_done(s, &steps[i]) && sim_chance(&s->net.random, 500))
            return true;
    return false;
}

/* LANDED: nothing is against it. */
static enum rt_sql_end refusal_of(struct ss_server *s, const struct ss_task *t,
                                  const struct rt_sql_step *steps, size_t count)
{
    if (greets(steps))
        return RT_SQL_LANDED;
    if (t->node != s->primary)
        return RT_SQL_REPLICA;
    if (s->refuses_until > s->net.now)
        return s->refusal;
    if (is_refused(s, steps, count))
        return RT_SQL_REFUSED;
    if (!sim_net_strikes(&s->net, s->again))
        return RT_SQL_LANDED;
    bool odd = steps[0].kind > RT_SQL_MAKE && sim_chance(&s->net.random, 100);
    return odd ? RT_SQL_REFUSED : RT_SQL_AGAIN;
}

static void answer(struct ss_server *s, struct ss_conn *c, const struct ss_bytes *out)
{
    const struct sim_wire *w = &s->net.faults;
    if (c == NULL)
        return;
    if (sim_net_strikes(&s->net, w->reset)) {
        sim_conn_break(&c->base); /* after COMMIT */
        return;
    }
    c->mute = c->mute || sim_net_strikes(&s->net, w->reply_lost);
    if (!c->mute)
        sim_conn_send(&c->base, out->at, out->n);
}

/* Bells are not part of the transaction: what was done before it failed stays. */
static void take_bells(struct run *r, const struct rt_sql_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (steps[i].kind == RT_SQL_BELL_TAKE)
            run_bell(&r->f, steps[i].args[0].number, true);
}

/* Whether what STEPS change can safely be done twice: then some of it may be done although they fail. */
static bool are_loose(const struct rt_sql_step *steps, size_t count)
{
    static const bool loose[RT_SQL_STEPS] = {
        [RT_SQL_RENEW] = true, [RT_SQL_MINE] = true,  [RT_SQL_FOLDED] = true,
        [RT_SQL_DEAD] = true,  [RT_SQL_BURY] = true,  [RT_SQL_IDLE] = true,
        [RT_SQL_SWEEP] = true, [RT_SQL_SWEPT] = true, [RT_SQL_STRAYS] = true,
        [RT_SQL_WATCH] = true, [RT_SQL_FRONT] = true, [RT_SQL_INSPECT] = true};
    for (size_t i = 0; i < count; i++)
        if (!loose[steps[i].kind])
            return false;
    return true;
}

/* STEPS fail at the step that this returns; what was done before it stays. */
static size_t fail_some(struct run *r, const struct rt_sql_step *steps, size_t count,
                        enum rt_sql_end end)
{
    size_t at = sim_below(&r->server->net.random, (uint32_t)count), last;
    take_bells(r, steps, at);
    if (at > 0 && end != RT_SQL_REPLICA && are_loose(steps, count))
        (void)ss_run(&r->f, steps, at, &last);
    return at;
}

/* Whether T has to wait for a bell first: then it is back among the tasks. */
static bool must_wait(struct ss_server *s, struct ss_task *t, const struct rt_sql_step *steps)
{
    int64_t bell = steps[0].kind == RT_SQL_BELL_WAIT ? steps[0].args[0].number : 0;
    if (bell == 0 || t->waited || t->conn == NULL || !is_held(s, bell))
        return false;
    t->waited = true;
    t->bell = bell;
    note_ahead(s, t);
    insert(s, t, s->net.now + steps[0].args[1].number * RT_MS);
    return true;
}

/* Each statement sees what was committed when it began. If a flight locks no line, others may come in between. */
static bool may_split(const struct rt_sql_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (steps[i].kind == RT_SQL_LOCK || steps[i].kind == RT_SQL_PASS ||
            steps[i].kind <= RT_SQL_MAKE)
            return false;
    return true;
}

/* Runs T's next steps; true: there are more, and it is back among the tasks. */
static bool run_some(struct ss_server *s, struct ss_task *t, struct run *r,
                     const struct rt_sql_step *steps, size_t count, enum rt_sql_end *end,
                     size_t *at)
{
    size_t left = count - t->done, n = left;
    if (left > 1 && may_split(steps, count) && sim_chance(&s->net.random, 300))
        n = 1 + sim_below(&s->net.random, (uint32_t)left - 1);
    r->f.first = t->done;
    *end = ss_run(&r->f, steps + t->done, n, at);
    if (*end != RT_SQL_LANDED || n == left)
        return false;
    s->version++;
    if (s->after != NULL)
        s->after(s, steps + t->done, n, *end);
    t->done += n;
    t->out = r->out;
    t->came = s->net.now;
    assert(r->notices == NULL);
    insert(s, t, s->net.now + think(s) + sim_spread_ns(&s->net.random, PAUSE_US));
    return true;
}

static void task_free(struct ss_task *t)
{
    free(t->out.at);
    free(t);
}

/* True: it is back among the tasks. */
static bool run_task(struct ss_server *s, struct ss_task *t)
{
    static struct rt_sql_step steps[STEPS_MAX];
    static struct rt_sql_cell cells[STEPS_MAX * RT_SQL_ARGS];
    size_t count = read_flight(t, steps, cells), at = 0;
    struct run r;
    char who[16];
    if (must_wait(s, t, steps))
        return true;
    if (t->conn != NULL && t->done == 0 && sim_net_strikes(&s->net, s->net.faults.reset)) {
        sim_conn_break(&t->conn->base); /* before COMMIT */
        return false;
    }
    s->woken = 0;
    begin(&r, s, t->waited ? s->net.now : t->came);
    r.conn = t->conn;
    r.f.backend = t->backend;
    snprintf(who, sizeof(who), "%u", s->timeline);
    r.f.who = who;
    r.f.most = s->clock_most;
    r.f.writable = t->node == s->primary;
    r.out = t->out;
    t->out = (struct ss_bytes){0};
    enum rt_sql_end end = t->done == 0 ? refusal_of(s, t, steps, count) : RT_SQL_LANDED;
    if (end != RT_SQL_LANDED)
        at = fail_some(&r, steps, count, end);
    else if (run_some(s, t, &r, steps, count, &end, &at))
        return true;
    s->version++;
    finish(&r, end, at);
    if (s->after != NULL)
        s->after(s, steps + t->done, count - t->done, end);
    answer(s, t->conn, &r.out);
    free(r.out.at);
    return false;
}

static void add_task(struct ss_server *s, struct ss_conn *c, const char *bytes, size_t n)
{
    struct ss_task *t = malloc(sizeof(*t) + n);
    assert(t != NULL);
    *t = (struct ss_task){
        .came = s->net.now, .conn = c, .node = c->node, .backend = c->backend, .n = n};
    memcpy(t->bytes, bytes, n);
    insert(s, t, s->net.now + think(s));
}

static void drop_tasks(struct ss_server *s, const struct ss_conn *of)
{
    for (struct ss_task **at = &s->tasks; *at != NULL;) {
        struct ss_task *t = *at;
        if (of != NULL && t->conn != of) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        task_free(t);
    }
}

/* ---- Connections -------------------------------------------------------------------------------------------------- */

static bool on_accept(struct sim_conn *base, const char *host)
{
    struct ss_conn *c = conn_of(base);
    struct ss_server *s = (struct ss_server *)(void *)base->net; /* its first member */
    uint32_t node = (uint32_t)(host[strlen(host) - 1] - '1');
    c->server = s;
    c->node = node < SS_NODES ? node : s->primary;
    c->backend = ++s->backends;
    return true;
}

static void on_data(struct sim_conn *base, const char *bytes, size_t n)
{
    struct ss_conn *c = conn_of(base);
    struct ss_server *s = c->server;
    c->mute = c->mute || sim_net_strikes(&s->net, s->net.faults.request_lost);
    if (!c->mute)
        add_task(s, c, bytes, n);
}

static void on_forget(struct sim_conn *base)
{
    struct ss_conn *c = conn_of(base);
    for (struct ss_task *t = c->server->tasks; t != NULL; t = t->next)
        if (t->conn == c)
            t->conn = NULL;
    while (c->bell_count > 0)
        let_go(c, c->bells[c->bell_count - 1]);
}

static const struct sim_host host = {sizeof(struct ss_conn), on_accept, on_data, on_forget};

/* ---- Time --------------------------------------------------------------------------------------------------------- */

static int64_t next_task(const struct ss_server *s)
{
    return s->tasks != NULL ? s->tasks->at : RT_NEVER;
}

int64_t ss_server_next(const struct ss_server *s)
{
    int64_t task = next_task(s), net = sim_net_next(&s->net);
    return net < task ? net : task;
}

void ss_server_run(struct ss_server *s, int64_t now)
{
    while (ss_server_next(s) <= now) {
        if (sim_net_next(&s->net) < next_task(s)) {
            sim_net_step(&s->net);
            continue;
        }
        struct ss_task *t = s->tasks;
        sim_net_advance(&s->net, t->at);
        s->tasks = t->next;
        if (!run_task(s, t))
            task_free(t);
    }
    sim_net_advance(&s->net, now);
}

/* ---- What befalls it ---------------------------------------------------------------------------------------------- */

static void break_all(struct ss_server *s, uint32_t node)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next)
        if (c->served && (node == SS_NODES || conn_of(c)->node == node))
            sim_conn_break(c);
}

void ss_server_restart(struct ss_server *s, int64_t until)
{
    drop_tasks(s, NULL);
    break_all(s, SS_NODES);
    s->net.down_until = until > s->net.now ? until : 0;
}

void ss_server_keep(struct ss_server *s)
{
    ss_store_copy(&s->earlier, &s->store);
    s->has_earlier = true;
}

void ss_server_promote(struct ss_server *s, bool cut, int64_t until)
{
    s->lost_us = s->has_earlier && s->clock_most > s->lost_us ? s->clock_most : s->lost_us;
    if (cut) {
        drop_tasks(s, NULL);
        break_all(s, s->primary);
        s->net.down_until = until > s->net.now ? until : 0;
    }
    s->primary = (s->primary + 1) % SS_NODES;
    break_all(
        s,
        s->primary); /* a server that follows another was started as such: nobody is there from before */
    s->timeline++;
    if (s->has_earlier) {
        ss_store_clear(&s->store);
        s->store = s->earlier;
        s->earlier = (struct ss_store){0};
    }
    s->has_earlier = false;
    s->version++;
}

void ss_server_kill_links(struct ss_server *s, uint32_t per_mille)
{
    for (struct sim_conn *c = s->net.conns; c != NULL; c = c->next) {
        if (!c->served || !sim_chance(&s->net.random, per_mille))
            continue;
        if (sim_chance(&s->net.random, 500)) /* before COMMIT; else it is done all the same */
            drop_tasks(s, conn_of(c));
        sim_conn_break(c);
    }
}

void ss_server_heal(struct ss_server *s)
{
    s->net.faults = (struct sim_wire){0};
    s->net.down_until = s->refuses_until = 0;
    s->again = 0;
    s->has_earlier = false;
}

/* ---- By hand ------------------------------------------------------------------------------------------------------ */

void ss_server_do(struct ss_server *s, const struct rt_sql_step *steps, size_t count)
{
    struct run r;
    size_t at;
    begin(&r, s, s->net.now);
    (void)ss_run(&r.f, steps, count, &at);
    s->version++;
    finish(&r, RT_SQL_LANDED, 0);
    free(r.out.at);
}

static bool has_dead(const struct ss_server *s, const struct ss_line *l)
{
    int64_t now = ss_server_clock(s);
    if (l->folded && !ss_alive(&s->store, l->session, now))
        return true;
    for (size_t i = 0; i < l->count; i++)
        if (ss_over(&s->store, &l->tickets[i], now))
            return true;
    return false;
}

void ss_server_sweep(struct ss_server *s)
{
    for (size_t i = 0; i < s->store.line_count; i++) {
        struct ss_line *l = &s->store.lines[i];
        struct rt_sql_cell args[] = {{.text = l->name, .size = strlen(l->name)}};
        const struct rt_sql_step steps[] = {{RT_SQL_LOCK, 1, args, NULL},
                                            {RT_SQL_UNFOLD, 1, args, NULL},
                                            {RT_SQL_PURGE, 1, args, NULL},
                                            {RT_SQL_SETTLE, 1, args, NULL},
                                            {RT_SQL_TELL, 1, args, NULL}};
        if (has_dead(s, l))
            ss_server_do(s, steps, sizeof(steps) / sizeof(steps[0]));
    }
    const struct rt_sql_cell most = {.number = 1000};
    const struct rt_sql_step bury = {RT_SQL_BURY, 1, &most, NULL};
    if (s->store.made)
        ss_server_do(s, &bury, 1);
}

/* ---- Life --------------------------------------------------------------------------------------------------------- */

void ss_server_open(struct ss_server *s, uint64_t seed, int32_t clock_ppm)
{
    static uint64_t versions; /* of no other world's */
    memset(s, 0, sizeof(*s));
    sim_net_open(&s->net, &host, seed);
    s->clock_us = CLOCK_BEGIN_US;
    s->clock_ppm = clock_ppm;
    s->version = versions += 1u << 20;
}

void ss_server_close(struct ss_server *s)
{
    sim_net_close(&s->net);
    drop_tasks(s, NULL);
    ss_store_clear(&s->store);
    ss_store_clear(&s->earlier);
}
