/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting tickets of ours: each watches the one ahead, and looks at its row when something
 * may have changed.
 *
 *            ring, timer, end of the session ahead
 *   waiting ───────────────────────────────────────▶ look ──▶ row granted: GRANTED, forget
 *      ▲                                              │  └──▶ row gone: TICKET_LOST, forget
 *      │        session ahead lives: watch it         │
 *      └──────────────────────────────────────────────┤ dead: sweep it, look again
 *                                                     └──────────────────────────────▲
 */
#include "base/alloc.h"
#include "base/bug.h"
#include "engine/file/file.h"

#include <string.h>

#define BUCKETS_FIRST 16
#define LOOK_ROUNDS 32 /* dead tickets directly ahead that one look clears away */
#define STALE_MS 10    /* the database was taken: again this soon, like ops */
#define PROBE_PAGES 4  /* 256 tickets of a line, 3 us each, every RT_FILE_POLL_MS */
#define BATCH 32       /* tickets of one bucket looked at per round of a timer */

/* ---- The table ---------------------------------------------------------------- */

static struct rt_file_wait **bucket(struct rt_file_conn *c, uint64_t number)
{
    return &c->buckets[number % c->bucket_count];
}

static int grow(struct rt_file_conn *c)
{
    if (c->bucket_count > 0 && c->wait_count < 2 * c->bucket_count)
        return 0;
    size_t count = c->bucket_count > 0 ? 2 * c->bucket_count : BUCKETS_FIRST;
    struct rt_file_wait **old = c->buckets, **buckets = rt_alloc(count * sizeof(*buckets));
    if (buckets == NULL)
        return c->bucket_count > 0 ? 0 : ROTA_NOMEM; /* longer chains will do */
    size_t old_count = c->bucket_count;
    c->buckets = buckets;
    c->bucket_count = count;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct rt_file_wait *w = old[i];
            old[i] = w->next;
            w->next = *bucket(c, w->number);
            *bucket(c, w->number) = w;
        }
    }
    rt_free(old);
    return 0;
}

struct rt_file_wait *rt_file_wait_find(struct rt_file_conn *c, uint64_t number)
{
    if (c->bucket_count == 0)
        return NULL;
    struct rt_file_wait *w = *bucket(c, number);
    while (w != NULL && w->number != number)
        w = w->next;
    return w;
}

/* Whether AHEAD's session is all that has to be watched: it waits itself, or it alone excludes. */
static bool is_plain(const struct rt_file_row *ahead)
{
    return ahead != NULL && (ahead->flags & RT_FILE_DURABLE) == 0 &&
           ((ahead->flags & RT_FILE_GRANTED) == 0 || ahead->mode == RT_EXCLUSIVE);
}

int rt_file_wait_new(struct rt_file_conn *c, const struct rt_join *j, uint64_t number,
                     const struct rt_file_row *ahead)
{
    size_t size = strlen(j->name) + 1;
    if (grow(c) != 0)
        return ROTA_NOMEM;
    struct rt_file_wait *w = rt_alloc(sizeof(*w) + size);
    if (w == NULL)
        return ROTA_NOMEM;
    w->number = number;
    w->session = j->session;
    if (is_plain(ahead)) {
        w->ahead = ahead->session;
        w->first = (ahead->flags & RT_FILE_GRANTED) != 0;
    }
    memcpy(w->name, j->name, size);
    w->next = c->born;
    c->born = w;
    return 0;
}

void rt_file_wait_drop_born(struct rt_file_conn *c)
{
    while (c->born != NULL) {
        struct rt_file_wait *w = c->born;
        c->born = w->next;
        rt_free(w);
    }
}

static void free_wait(struct rt_file_conn *c, struct rt_file_wait *w)
{
    rt_file_peer_put(c, w->peer);
    c->wait_count--;
    rt_free(w);
}

void rt_file_wait_end(struct rt_file_conn *c, uint64_t number)
{
    struct rt_file_wait **at = c->bucket_count > 0 ? bucket(c, number) : NULL;
    while (at != NULL && *at != NULL) {
        struct rt_file_wait *w = *at;
        if (w->number == number) {
            *at = w->next;
            free_wait(c, w);
            return;
        }
        at = &w->next;
    }
}

void rt_file_wait_forget(struct rt_file_conn *c, uint64_t session)
{
    rt_file_wait_drop_born(c);
    for (size_t i = 0; i < c->bucket_count; i++) {
        struct rt_file_wait **at = &c->buckets[i];
        while (*at != NULL) {
            struct rt_file_wait *w = *at;
            if (session != 0 && w->session != session) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            free_wait(c, w);
        }
    }
}

/* ---- Timers --------------------------------------------------------------------- */

static void start(struct rt_file_conn *c, struct rt_timer_call *t, int64_t at)
{
    if (t->timer.slot == 0 || t->timer.at > at)
        rt_timers_start(&c->base.loop->timers, &t->timer, at);
}

void rt_file_wait_poll_soon(struct rt_file_conn *c)
{
    start(c, &c->poll, rt_loop_now(c->base.loop) + RT_FILE_POLL_MS * RT_MS);
}

void rt_file_wait_look_soon(struct rt_file_conn *c)
{
    start(c, &c->look, rt_loop_now(c->base.loop) + RT_FILE_LOOK_MS * RT_MS);
}

void rt_file_wait_held(struct rt_file_conn *c, int more)
{
    if (more > 0) {
        c->held++;
        rt_file_wait_look_soon(c); /* nothing, where it runs already: once a second, not per pair */
    } else if (c->held > 0) {
        c->held--;
    }
}

static void expire_soon(struct rt_file_conn *c, int64_t until_ms)
{
    int64_t left = until_ms - rt_file_wall_ms();
    start(c, &c->expire, rt_loop_now(c->base.loop) + (left > 0 ? left : 0) * RT_MS);
}

/* ---- Looking --------------------------------------------------------------------- */

static void later(struct rt_file_conn *c, struct rt_file_wait *w)
{
    w->stale = true;
    start(c, &c->poll, rt_loop_now(c->base.loop) + STALE_MS * RT_MS);
}

static void tell(struct rt_file_conn *c, const struct rt_file_wait *w, enum rt_event_kind kind)
{
    rt_conn_event(&c->base,
                  &(struct rt_event){
                      .kind = kind, .session = w->session, .number = w->number, .name = w->name});
}

static void on_granted(struct rt_file_conn *c, struct rt_file_wait *w, uint32_t flags)
{
    struct rt_file_row last;
    bool found = false;
    tell(c, w, RT_GRANTED);
    if (w->session == c->session)
        rt_file_wait_held(c, 1);
    if ((flags & RT_FILE_ARMED) != 0 && rt_file_line_last(c, w->name, &last, &found) == 0 &&
        found && (last.flags & RT_FILE_GRANTED) == 0)
        tell(c, w, RT_WANTED);
    rt_file_wait_end(c, w->number);
}

static void on_gone(struct rt_file_conn *c, struct rt_file_wait *w)
{
    bool there = true;
    if (w->session == c->session && rt_file_session_check(c, &there) == 0 && !there) {
        rt_file_session_lost(c);
        return;
    }
    tell(c, w, RT_TICKET_LOST);
    rt_file_wait_end(c, w->number);
}

/* Nobody is ahead and it waits (not at a barrier), or an end has passed: settle the line. */
static bool nudge(struct rt_file_conn *c, const struct rt_file_wait *w)
{
    bool some = false;
    char name[RT_FILE_NAME_MAX + 1];
    (void)strcpy(name, w->name); /* it may be granted and forgotten below */
    int rv = rt_file_begin(c);
    if (rv != 0)
        return false;
    rv = rt_file_line_expire(c, name, &some);
    if (rv == 0 && !some)
        rv = rt_file_line_settle(c, name, 0);
    if (rv != 0 || rt_file_commit(c) != 0) {
        rt_file_rollback(c);
        return false;
    }
    rt_file_rings_send(c);
    return true;
}

static bool sweep_ahead(struct rt_file_conn *c, const struct rt_file_wait *w, uint64_t session)
{
    bool more = false;
    char name[RT_FILE_NAME_MAX + 1];
    (void)strcpy(name, w->name);
    if (rt_file_sweep_session(c, session, name, &more) != 0)
        return false;
    if (more) {
        c->unfinished = session;
        rt_file_wait_poll_soon(c);
    }
    return true;
}

/* Watches what stands ahead of W. Returns whether something ahead was cleared away: look again. */
static bool watch_ahead(struct rt_file_conn *c, struct rt_file_wait *w, uint32_t mode)
{
    struct rt_file_row ahead;
    bool found = false;
    int64_t number = (int64_t)w->number;
    if (rt_file_row_get(c, RT_FILE_LINE_BEFORE, w->name, 1, &number, &ahead, &found) != 0) {
        later(c, w);
        return false;
    }
    w->until_ms = 0;
    w->probe_line = false;
    w->first = found && (ahead.flags & RT_FILE_GRANTED) != 0;
    if (!found) {
        rt_file_peer_put(c, w->peer);
        w->peer = NULL;
        return mode != RT_GATHER && nudge(c, w);
    }
    if (w->first) {
        w->probe_line = mode == RT_PERMITS;
        int64_t now = rt_file_wall_ms();
        if (rt_file_line_int(c, RT_FILE_LINE_UNTIL, w->name, 1, &now, &w->until_ms) == 0 &&
            w->until_ms != 0)
            expire_soon(c, w->until_ms);
        if (w->probe_line)
            rt_file_wait_poll_soon(c);
    }
    bool other = (ahead.flags & RT_FILE_DURABLE) == 0 && ahead.session != c->session;
    struct rt_file_peer *peer = NULL;
    if (other) {
        peer = rt_file_peer_get(c, ahead.session); /* before the probe: no end is missed */
        if (!RT_BUG(RT_BUG_DEAD_NOT_SWEPT) && rt_file_session_dead(c, ahead.session)) {
            rt_file_peer_put(c, peer);
            if (sweep_ahead(c, w, ahead.session))
                return true;
            w = rt_file_wait_find(c, (uint64_t)number);
            if (w != NULL)
                later(c, w);
            return false;
        }
        if (peer == NULL)
            later(c, w);
    }
    rt_file_peer_put(c, w->peer);
    w->peer = peer;
    return false;
}

/* Returns whether to look again. */
static bool look_once(struct rt_file_conn *c, struct rt_file_wait *w)
{
    struct rt_file_row row;
    bool found = false;
    int64_t number = (int64_t)w->number;
    c->counted.looks++;
    w->stale = false;
    if (rt_file_row_get(c, RT_FILE_TICKET_GET, w->name, 1, &number, &row, &found) != 0) {
        later(c, w);
        return false;
    }
    if (!found || row.session != w->session) {
        on_gone(c, w);
        return false;
    }
    if ((row.flags & RT_FILE_GRANTED) != 0) {
        on_granted(c, w, row.flags);
        return false;
    }
    return watch_ahead(c, w, row.mode);
}

void rt_file_wait_look(struct rt_file_conn *c, uint64_t number)
{
    for (int i = 0; i < LOOK_ROUNDS; i++) {
        struct rt_file_wait *w = rt_file_wait_find(c, number);
        if (w == NULL || !look_once(c, w))
            return;
    }
    struct rt_file_wait *w = rt_file_wait_find(c, number);
    if (w != NULL)
        later(c, w);
}

/* What the join itself saw is enough to go by: whatever changed since has rung. */
static bool watch_plain(struct rt_file_conn *c, struct rt_file_wait *w)
{
    uint64_t session = w->ahead;
    w->ahead = 0;
    if (session == 0 || session == c->session)
        return session != 0;
    w->peer = rt_file_peer_get(c, session);
    return w->peer != NULL && !rt_file_session_dead(c, session);
}

void rt_file_wait_adopt(struct rt_file_conn *c)
{
    while (c->born != NULL) {
        struct rt_file_wait *w = c->born;
        c->born = w->next;
        w->next = *bucket(c, w->number);
        *bucket(c, w->number) = w;
        c->wait_count++;
        rt_file_wait_look_soon(c);
        if (!watch_plain(c, w))
            rt_file_wait_look(c, w->number);
    }
}

/* ---- All of them ------------------------------------------------------------------ */

typedef bool wait_test(const struct rt_file_wait *w, uint64_t arg);

/* Looks at those that pass TEST. A look may end any of them, so numbers are noted first. */
static void look_at(struct rt_file_conn *c, wait_test *test, uint64_t arg)
{
    for (size_t i = 0; i < c->bucket_count; i++) {
        uint64_t numbers[BATCH];
        size_t n = 0;
        for (struct rt_file_wait *w = c->buckets[i]; w != NULL && n < BATCH; w = w->next)
            if (test(w, arg))
                numbers[n++] = w->number;
        for (size_t k = 0; k < n; k++)
            rt_file_wait_look(c, numbers[k]);
    }
}

static bool is_any(const struct rt_file_wait *w, uint64_t arg)
{
    (void)w;
    (void)arg;
    return true;
}

static bool is_stale(const struct rt_file_wait *w, uint64_t arg)
{
    (void)arg;
    return w->stale;
}

static bool is_behind(const struct rt_file_wait *w, uint64_t session)
{
    return w->peer != NULL && w->peer->session == session;
}

void rt_file_wait_peer_dead(struct rt_file_conn *c, uint64_t session)
{
    look_at(c, is_behind, session);
}

/* One step for the first waiter of a line of permits. Returns whether something was swept. */
static bool probe_line(struct rt_file_conn *c, struct rt_file_wait *w)
{
    struct rt_file_cursor at = {.from = w->probed};
    uint64_t number = w->number;
    char name[RT_FILE_NAME_MAX + 1];
    (void)strcpy(name, w->name);
    (void)rt_file_sweep_line(c, name, PROBE_PAGES, &at);
    w = rt_file_wait_find(c, number); /* it may be granted and forgotten by now */
    if (w != NULL)
        w->probed = at.from;
    return at.swept;
}

static void probe_lines(struct rt_file_conn *c)
{
    for (size_t i = 0; i < c->bucket_count; i++) {
        for (struct rt_file_wait *w = c->buckets[i]; w != NULL; w = w->next) {
            if (!w->probe_line)
                continue;
            rt_file_wait_poll_soon(c);
            if (probe_line(c, w))
                break; /* the chain may have changed; the next round goes on */
        }
    }
}

/* Enters, unless the database is no longer the one of the folder: a client with a session is told of that, without one
 * the next op opens it anew, and there is nothing more to do in this one. */
static bool enter_right(struct rt_file_conn *c)
{
    rt_file_enter(c);
    if (c->db != NULL && (c->session != 0 || rt_file_db_linked(c)))
        return true;
    rt_file_exit(c);
    return false;
}

static void on_poll(struct rt_timer_call *t, int64_t now)
{
    struct rt_file_conn *c = RT_FILE_CONTAINER(t, struct rt_file_conn, poll);
    (void)now;
    if (!enter_right(c))
        return;
    if (c->unfinished != 0) {
        uint64_t session = c->unfinished;
        bool more = false;
        if (rt_file_sweep_session(c, session, NULL, &more) == 0 && !more)
            c->unfinished = 0;
        else
            rt_file_wait_poll_soon(c);
    }
    rt_file_peer_poll(c);
    probe_lines(c);
    look_at(c, is_stale, 0);
    rt_file_exit(c);
}

static void on_look(struct rt_timer_call *t, int64_t now)
{
    struct rt_file_conn *c = RT_FILE_CONTAINER(t, struct rt_file_conn, look);
    bool there = true;
    (void)now;
    if (!enter_right(c))
        return;
    rt_file_session_verify(c);
    if (c->session != 0 && rt_file_session_check(c, &there) == 0 && !there)
        rt_file_session_lost(c);
    rt_file_wait_remind(c);
    if (!RT_BUG(RT_BUG_LOST_WAKE_UP))
        look_at(c, is_any, 0);
    rt_file_observe_tell(c, true);
    if (c->wait_count > 0 || c->observations != NULL || c->held > 0)
        rt_file_wait_look_soon(c);
    rt_file_exit(c);
}

/* The ring that told a holder of us may have been lost with a full queue: say it again. */
void rt_file_wait_remind(struct rt_file_conn *c)
{
    for (size_t i = 0; i < c->bucket_count; i++)
        for (struct rt_file_wait *w = c->buckets[i]; w != NULL; w = w->next)
            if (w->first && rt_file_line_want(c, w->name) != 0)
                break;
    rt_file_rings_send(c);
}

static void on_expire(struct rt_timer_call *t, int64_t now)
{
    struct rt_file_conn *c = RT_FILE_CONTAINER(t, struct rt_file_conn, expire);
    int64_t wall = rt_file_wall_ms();
    (void)now;
    if (!enter_right(c))
        return;
    for (size_t i = 0; i < c->bucket_count; i++) {
        for (struct rt_file_wait *w = c->buckets[i]; w != NULL; w = w->next) {
            if (w->until_ms == 0)
                continue;
            if (w->until_ms > wall) {
                expire_soon(c, w->until_ms);
                continue;
            }
            uint64_t number = w->number;
            w->until_ms = 0;
            if (!nudge(c, w))
                later(c, w);
            else
                rt_file_wait_look(c, number);
            i--; /* the chain may have changed: this bucket again */
            break;
        }
    }
    rt_file_exit(c);
}

void rt_file_wait_init(struct rt_file_conn *c)
{
    c->poll.fire = on_poll;
    c->look.fire = on_look;
    c->expire.fire = on_expire;
}
