/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: which server, dialed, watched for silence, cut, and the next one. */
#include "engine/zookeeper/zk.h"

#include "base/alloc.h"
#include "base/list.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define STEADY_MS 5000 /* a connection that lasted so long was a good one */
#define STUCK_LEAST_MS 1000
#define MESSAGE_MAX (64u << 20) /* of a server: a line of a million tickets */

const char *rt_zk_at(const struct rt_zk_conn *c)
{
    return c->ring.ends[c->ring.now].at;
}

static int64_t now_of(const struct rt_zk_conn *c)
{
    return rt_loop_now(c->base->loop);
}

static void timer_at(struct rt_zk_conn *c, int64_t at)
{
    rt_timers_start(&c->base->loop->timers, &c->link_timer.timer, at);
}

/* ---- The end of a connection ------------------------------------------------------------------ */

static void on_closed(struct rt_stream *s)
{
    struct rt_zk_link *l = (struct rt_zk_link *)(void *)s;
    rt_free(l->flying);
    rt_free_wiped(l->in, l->in_room);
    rt_free(l);
}

/* Told once per server, not each time that it fails in the same way. What a server said is the better reason: that others
 * cannot be dialed replaces it only when none can. */
static void note_trouble(struct rt_zk_conn *c, const char *why, bool dialed)
{
    char *said = c->ring.ends[c->ring.now].said;
    if (strcmp(why, said) != 0)
        rt_words_log(c->base, ROTA_LOG_WARN, "zookeeper: %s", why);
    (void)snprintf(said, sizeof(c->ring.ends->said), "%s", why);
    c->unheard = dialed ? 0 : c->unheard + 1;
    if (dialed || c->unheard >= c->ring.count || c->trouble[0] == '\0')
        (void)snprintf(c->trouble, sizeof(c->trouble), "%s", why);
}

static bool drop_link(struct rt_zk_conn *c)
{
    struct rt_zk_link *l = c->link;
    bool was_ready = c->state == RT_DIAL_READY;
    c->state = RT_DIAL_DOWN;
    c->link = NULL;
    c->touch_count = 0;
    c->touching = false;
    rt_timers_stop(&c->base->loop->timers, &c->link_timer.timer);
    if (l == NULL)
        return was_ready;
    if (was_ready && now_of(c) - l->ready_at > STEADY_MS * RT_MS)
        c->failures = c->pause.ms = 0;
    l->conn = NULL;
    rt_stream_close(&l->stream, on_closed);
    return was_ready;
}

static void let_go(struct rt_zk_conn *c, const char *text)
{
    bool dialed = c->state != RT_DIAL_DIALING, was_ready = drop_link(c);
    note_trouble(c, text, dialed);
    (void)rt_dial_next(&c->ring);
    c->pause.until = now_of(c);
    if (++c->failures % c->ring.count == 0) /* else the others may be well */
        rt_dial_later(&c->pause, c->base, &c->jitter);
    if (was_ready && c->on->lost != NULL)
        c->on->lost(c);
    rt_ledger_lost(&c->ledger, NULL, text);
}

#define PRINT(text, format)                                \
    do {                                                   \
        va_list args;                                      \
        va_start(args, format);                            \
        (void)vsnprintf(text, sizeof(text), format, args); \
        va_end(args);                                      \
    } while (0)

void rt_zk_cut(struct rt_zk_conn *c, const char *format, ...)
{
    char text[sizeof(c->trouble)];
    PRINT(text, format);
    let_go(c, text);
    rt_zk_want(c);
}

void rt_zk_fatal(struct rt_zk_conn *c, int err, const char *format, ...)
{
    char text[sizeof(c->trouble)];
    PRINT(text, format);
    let_go(c, text);
    c->refusals = 0;
    c->pause.ms = RT_DIAL_PAUSE_LAST_MS;
    c->pause.until = now_of(c) + RT_DIAL_PAUSE_LAST_MS * RT_MS;
    rt_ledger_refuse(&c->ledger, err, text);
}

void rt_zk_refused(struct rt_zk_conn *c, int err, const char *why)
{
    if (++c->refusals >= c->ring.count)
        rt_zk_fatal(c, err, "%s", why);
    else
        rt_zk_cut(c, "%s", why);
}

void rt_zk_anew(struct rt_zk_conn *c)
{
    c->session.id = 0;
    c->anew = c->state != RT_DIAL_DOWN;
    if (c->anew)
        timer_at(c, now_of(c)); /* from a turn of its own */
}

/* ---- Hearing ---------------------------------------------------------------------------------- */

static struct rt_zk_link *of_stream(struct rt_stream *s)
{
    return (struct rt_zk_link *)(void *)s;
}

static bool keep(struct rt_zk_link *l, const char *bytes, size_t n)
{
    if (l->in_size + n > l->in_room) {
        size_t room = l->in_room > 0 ? l->in_room : 4096;
        while (room < l->in_size + n)
            room *= 2;
        uint8_t *in = rt_realloc_wiped(l->in, l->in_room, room);
        if (in == NULL)
            return false;
        l->in = in;
        l->in_room = room;
    }
    memcpy(l->in + l->in_size, bytes, n);
    l->in_size += n;
    return true;
}

/* The size of the message at AT, or 0: there is none yet. ODD: there never will be. */
static size_t message_at(const struct rt_zk_link *l, size_t at, bool *odd)
{
    struct rt_jute_in in = {l->in + at, l->in_size - at, false};
    if (in.left < 4)
        return 0;
    int32_t n = rt_jute_get_int(&in);
    *odd = n <= 0 || (uint32_t)n > MESSAGE_MAX;
    return *odd || in.left < (size_t)n ? 0 : (size_t)n;
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct rt_zk_link *l = of_stream(s);
    size_t at = 0, size;
    bool odd = false;
    l->heard_at = now_of(l->conn);
    l->heard = true;
    if (!keep(l, bytes, n)) {
        rt_zk_cut(l->conn, "out of memory");
        return;
    }
    while (l->conn != NULL && (size = message_at(l, at, &odd)) > 0) {
        struct rt_jute_in in = {l->in + at + 4, size, false};
        at += 4 + size;
        if (l->conn->state == RT_DIAL_READY)
            rt_zk_heard(l->conn, &in);
        else
            rt_zk_greeting(l->conn, &in);
    }
    if (l->conn == NULL)
        return;
    if (odd && l->connected)
        rt_zk_cut(l->conn, "%.180s: that is no message of ZooKeeper", rt_zk_at(l->conn));
    else if (odd)
        rt_zk_refused(l->conn, ROTA_PROTOCOL, "that is no ZooKeeper: is it the client port?");
    l->in_size -= at;
    memmove(l->in, l->in + at, l->in_size);
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct rt_zk_conn *c = of_stream(s)->conn;
    bool hint = c->state == RT_DIAL_GREETING && !c->secure && !of_stream(s)->heard;
    char text[sizeof(c->trouble)];
    (void)snprintf(text, sizeof(text), "%.200s%s", why,
                   hint ? ": if it speaks TLS, write zks://" : "");
    if (c->state != RT_DIAL_READY && (err == ROTA_AUTH || err == ROTA_PROTOCOL))
        rt_zk_refused(c, err, text);
    else
        rt_zk_cut(c, "%s", text);
}

/* ---- Up --------------------------------------------------------------------------------------- */

static void on_up(struct rt_stream *s)
{
    struct rt_zk_conn *c = of_stream(s)->conn;
    c->state = RT_DIAL_GREETING;
    c->link->dialed_at = now_of(c);
    timer_at(c, now_of(c) + rt_dial_connect_ms(c->base, c->ring.count) * RT_MS);
    rt_zk_greet(c);
}

void rt_zk_greeted(struct rt_zk_conn *c)
{
    struct rt_zk_link *l = c->link;
    c->state = RT_DIAL_READY;
    c->refusals = 0;
    c->link_count++;
    c->ring.ends[c->ring.now].said[0] = '\0';
    l->ready_at = l->touched_at = now_of(c);
    timer_at(c, now_of(c) + rt_dial_patience(c->base) / 2);
    rt_words_log(c->base, ROTA_LOG_INFO, "zookeeper: connected to %s, session %llx", rt_zk_at(c),
                 (unsigned long long)c->session.id);
    rt_zk_watches_say(c);
    if (c->on->linked != NULL)
        c->on->linked(c);
    rt_ledger_flush(&c->ledger);
}

static const struct rt_stream_user stream_user = {on_up, on_data, on_down};

static void dial(struct rt_zk_conn *c)
{
    const struct rt_dial_end *end = &c->ring.ends[c->ring.now];
    struct rt_stream_target target = {.host = end->host, .port = end->port, .tls = c->tls};
    struct rt_zk_link *l = rt_alloc(sizeof(*l));
    int rv = ROTA_NOMEM;
    c->anew = false;
    if (l != NULL) {
        l->conn = c;
        rv = rt_stream_open(&l->stream, c->base->loop, &target, &stream_user,
                            rt_dial_connect_ms(c->base, c->ring.count));
    }
    if (rv == 0) {
        c->link = l;
        c->state = RT_DIAL_DIALING;
        return;
    }
    rt_free(l);
    (void)snprintf(c->trouble, sizeof(c->trouble), "%.180s cannot be dialed: %s", end->at,
                   rota_strerror(rv));
    (void)rt_dial_next(&c->ring);
    rt_dial_later(&c->pause, c->base, &c->jitter);
    timer_at(c, c->pause.until);
}

void rt_zk_want(struct rt_zk_conn *c)
{
    if (c->state != RT_DIAL_DOWN || c->closing || c->link_timer.timer.slot != 0)
        return;
    if (c->pause.until <= now_of(c))
        dial(c);
    else
        timer_at(c, c->pause.until);
}

/* ---- Touches, and silence --------------------------------------------------------------------- */

int64_t rt_zk_secured(const struct rt_zk_conn *c)
{
    return c->secured_at + c->session.timeout_ms * RT_MS;
}

void rt_zk_touched(struct rt_zk_conn *c, const struct rt_zk_ask *a)
{
    int64_t sent = a->entry.sent_at;
    size_t n = 0;
    for (size_t i = 0; i < c->touch_count; i++) {
        if (c->touches[i].heard_at + c->tick_ms * RT_MS > sent)
            c->touches[n++] = c->touches[i];
        else if (c->touches[i].sent_at > c->secured_at)
            c->secured_at = c->touches[i].sent_at;
    }
    c->touch_count = n;
    if (c->lone && sent > c->secured_at)
        c->secured_at = sent;
    if (!c->lone && n < RT_ZK_TOUCHES) {
        c->touches[n].sent_at = sent;
        c->touches[n].heard_at = now_of(c);
        c->touch_count++;
    }
}

static void touch_answered(struct rt_zk_conn *c, struct rt_zk_ask *a, int err,
                           struct rt_zk_reply *reply)
{
    (void)reply;
    c->touching = false;
    if (err == 0)
        rt_zk_touched(c, a);
}

/* A sixth of the ttl apart; a server that is alone needs them only where nobody beats. */
static int64_t touch_every(const struct rt_zk_conn *c)
{
    return c->ttl_ms * RT_MS / (c->lone ? 2 : 6);
}

static void touch(struct rt_zk_conn *c, int64_t now)
{
    if (c->touching || now - c->link->touched_at < touch_every(c))
        return;
    c->link->touched_at = now;
    struct rt_zk_ask *a = rt_zk_path(c, RT_ZK_SYNC, "/", touch_answered);
    c->touching = rt_zk_send(c, a, NULL, NULL, 0, NULL) == 0;
}

/* How long a server may owe an answer. Where nobody else is to be asked, a cut only makes it begin anew. */
static int64_t stuck_after(const struct rt_zk_conn *c)
{
    int64_t stuck = rt_dial_patience(c->base), most = c->base->call_ms * RT_MS / 2;
    if (stuck < STUCK_LEAST_MS * RT_MS)
        stuck = STUCK_LEAST_MS * RT_MS;
    if ((c->ring.count == 1 || c->failures >= c->ring.count) && stuck < most)
        stuck = most;
    return stuck;
}

static void look_after(struct rt_zk_conn *c, int64_t now)
{
    const struct rt_entry *oldest = c->ledger.flying.next;
    int64_t stuck = stuck_after(c), next = touch_every(c) / 2, half = rt_dial_patience(c->base) / 2;
    if (oldest != &c->ledger.flying && now - oldest->sent_at >= stuck &&
        now - c->link->heard_at >= stuck) {
        rt_zk_cut(c, "%.180s did not answer within %lld ms", rt_zk_at(c),
                  (long long)(stuck / RT_MS));
        return;
    }
    timer_at(c, now + (next < half ? next : half));
    touch(c, now);
}

/* ---- Life ------------------------------------------------------------------------------------- */

static void link_fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_zk_conn *c = (struct rt_zk_conn *)(void *)((char *)call -
                                                         offsetof(struct rt_zk_conn, link_timer));
    if (c->state == RT_DIAL_DOWN) {
        rt_zk_want(c);
    } else if (c->anew) {
        c->anew = false;
        rt_zk_cut(c, "%.180s: another session is wanted", rt_zk_at(c));
    } else if (c->state == RT_DIAL_READY) {
        look_after(c, now);
    } else {
        rt_zk_cut(c, "%.180s is connected, but does not answer", rt_zk_at(c));
    }
}

void rt_zk_link_init(struct rt_zk_conn *c)
{
    c->link_timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = link_fire};
}

void rt_zk_link_close(struct rt_zk_conn *c)
{
    if (c->state == RT_DIAL_READY)
        rt_stream_flush_now(&c->link->stream); /* there may be no other turn */
    (void)drop_link(c);
}
