/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: which server, dialed, cut, and the next one. */
#include "engine/kit/link.h"

#include "base/alloc.h"
#include "base/secret.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SECRET_MAX 1024     /* of a user or a password */
#define STEADY_MS 5000      /* a connection that lasted this long was a good one */
#define STUCK_LEAST_MS 1000 /* an election takes about that, and what was proposed before is lost */
#define TIMERS 2            /* its own, and the ledger's */

static int64_t now_of(const struct rt_link *k)
{
    return rt_loop_now(k->base->loop);
}

const char *rt_link_at(const struct rt_link *k)
{
    return k->ring.ends[k->ring.now].at;
}

const char *rt_link_trouble(const struct rt_link *k)
{
    return k->state != RT_DIAL_READY && k->trouble[0] != '\0' ? k->trouble : NULL;
}

void rt_link_timer(struct rt_link *k, int64_t at)
{
    rt_timers_start(&k->base->loop->timers, &k->timer.timer, at);
}

void rt_link_well(struct rt_link *k)
{
    k->failures = k->pause.ms = 0;
}

int64_t rt_link_patience(const struct rt_link *k)
{
    int64_t stuck = rt_dial_patience(k->base), most = k->base->call_ms * RT_MS / 2;
    if (stuck < STUCK_LEAST_MS * RT_MS)
        stuck = STUCK_LEAST_MS * RT_MS;
    if ((k->ring.count == 1 || k->failures >= k->ring.count) && stuck < most)
        stuck = most;
    return stuck;
}

/* ---- The end of a connection ------------------------------------------------------------------ */

static struct rt_wire *of_stream(struct rt_stream *s)
{
    return (struct rt_wire *)(void *)s;
}

static void on_closed(struct rt_stream *s)
{
    struct rt_wire *w = of_stream(s);
    if (w->on->freed != NULL)
        w->on->freed(w);
    rt_free(w);
}

/* What a server said is the better reason: that others cannot be dialed replaces it only when none can. */
void rt_link_note(struct rt_link *k, const char *why, bool dialed)
{
    char *said = k->ring.ends[k->ring.now].said;
    if (strcmp(why, said) != 0)
        rt_words_log(k->base, rt_dial_level(&k->outage), "%s: %s", k->on->who, why);
    (void)snprintf(said, sizeof(k->ring.ends->said), "%s", why);
    k->unheard = dialed ? 0 : k->unheard + 1;
    if (dialed || k->unheard >= k->ring.count || k->trouble[0] == '\0')
        (void)snprintf(k->trouble, sizeof(k->trouble), "%s", why);
}

static void drop(struct rt_link *k)
{
    struct rt_wire *w = k->wire;
    bool was_ready = k->state == RT_DIAL_READY;
    k->state = RT_DIAL_DOWN;
    k->wire = NULL;
    rt_timers_stop(&k->base->loop->timers, &k->timer.timer);
    if (w == NULL)
        return;
    if (was_ready && now_of(k) - w->ready_at > STEADY_MS * RT_MS)
        rt_link_well(k);
    w->link = NULL;
    if (k->on->dropped != NULL)
        k->on->dropped(w);
    rt_stream_close(&w->stream, on_closed);
}

static void let_go(struct rt_link *k, const char *why)
{
    bool leaving = k->wire != NULL && k->wire->leaving;
    bool dialed = k->state != RT_DIAL_DIALING, was_ready = k->state == RT_DIAL_READY;
    drop(k);
    rt_link_note(k, why, dialed);
    (void)rt_dial_next(&k->ring);
    k->pause.until = now_of(k);
    if (++k->failures % k->ring.count == 0 && !leaving) /* else the others may be well */
        rt_dial_later(&k->pause, k->base, &k->jitter);
    k->on->lost(k, was_ready, why);
}

/* What FORMAT and what follows it say, in TEXT, an array. */
#define PRINT(text, format)                                \
    do {                                                   \
        va_list args;                                      \
        va_start(args, format);                            \
        (void)vsnprintf(text, sizeof(text), format, args); \
        va_end(args);                                      \
    } while (0)

void rt_link_cut(struct rt_link *k, const char *format, ...)
{
    char why[sizeof(k->trouble)];
    PRINT(why, format);
    let_go(k, why);
    rt_link_want(k);
}

void rt_link_fail(struct rt_link *k, int err, const char *format, ...)
{
    char why[sizeof(k->trouble)];
    PRINT(why, format);
    k->outage = false; /* a refusal is another matter than the outage, and logged as such */
    let_go(k, why);
    k->refusals = 0;
    k->pause.ms = RT_DIAL_REFUSED_MS;
    k->pause.until = now_of(k) + RT_DIAL_REFUSED_MS * RT_MS;
    k->on->failed(k, err, why);
}

void rt_link_refuse(struct rt_link *k, int err, const char *format, ...)
{
    char why[sizeof(k->trouble)];
    PRINT(why, format);
    if (++k->refusals >= k->ring.count)
        rt_link_fail(k, err, "%s", why);
    else
        rt_link_cut(k, "%s", why);
}

/* ---- Up and down ------------------------------------------------------------------------------ */

static void on_up(struct rt_stream *s)
{
    struct rt_wire *w = of_stream(s);
    struct rt_link *k = w->link;
    k->state = RT_DIAL_GREETING;
    w->heard_at = now_of(k);
    rt_link_timer(k, now_of(k) + rt_dial_connect_ms(k->base, k->ring.count) * RT_MS);
    w->on->up(w);
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct rt_wire *w = of_stream(s);
    w->heard_at = now_of(w->link);
    w->heard = true;
    w->on->data(w, bytes, n);
}

static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct rt_link *k = of_stream(s)->link;
    bool hint = k->state == RT_DIAL_GREETING && !k->wire->heard, tls = hint && !k->secure;
    const char *silent = hint ? k->on->silent : NULL;
    char text[sizeof(k->trouble)];
    (void)snprintf(text, sizeof(text), "%.150s%s%s%s%s%s", why, silent != NULL ? ": " : "",
                   silent != NULL ? silent : "", tls ? ": if it speaks TLS, write " : "",
                   tls ? k->on->secure : "", tls ? "://" : "");
    if (k->state != RT_DIAL_READY && (err == ROTA_AUTH || err == ROTA_PROTOCOL))
        rt_link_refuse(k, err, "%s", text);
    else
        rt_link_cut(k, "%s", text);
}

void rt_link_greeted(struct rt_link *k)
{
    assert(k->state == RT_DIAL_GREETING);
    k->state = RT_DIAL_READY;
    k->refusals = 0;
    k->outage = false;
    k->ring.ends[k->ring.now].said[0] = '\0';
    k->wire->ready_at = now_of(k);
    rt_timers_stop(&k->base->loop->timers, &k->timer.timer);
}

/* ---- Dialing ---------------------------------------------------------------------------------- */

static void dial(struct rt_link *k)
{
    static const struct rt_stream_user stream_user = {on_up, on_data, on_down};
    const struct rt_dial_end *end = &k->ring.ends[k->ring.now];
    struct rt_stream_target target = {
        .host = end->host, .port = end->port, .tls = k->tls, .alpn = k->on->alpn};
    struct rt_wire *w = rt_alloc(k->on->wire_size);
    int rv = ROTA_NOMEM;
    if (w != NULL) {
        w->link = k;
        w->on = k->on;
        rv = rt_stream_open(&w->stream, k->base->loop, &target, &stream_user,
                            rt_dial_connect_ms(k->base, k->ring.count));
    }
    if (rv == 0) {
        k->wire = w;
        k->state = RT_DIAL_DIALING;
        return;
    }
    rt_free(w);
    (void)snprintf(k->trouble, sizeof(k->trouble), "%.180s cannot be dialed: %s", end->at,
                   rota_strerror(rv));
    (void)rt_dial_next(&k->ring);
    rt_dial_later(&k->pause, k->base, &k->jitter);
    rt_link_timer(k, k->pause.until);
}

void rt_link_want(struct rt_link *k)
{
    if (k->state != RT_DIAL_DOWN || k->closing || k->timer.timer.slot != 0)
        return;
    if (k->pause.until <= now_of(k))
        dial(k);
    else
        rt_link_timer(k, k->pause.until);
}

static void fire(struct rt_timer_call *call, int64_t now)
{
    struct rt_link *k = (struct rt_link *)(void *)((char *)call - offsetof(struct rt_link, timer));
    if (k->state == RT_DIAL_DOWN)
        rt_link_want(k);
    else if (!k->on->tick(k, now) && k->state != RT_DIAL_READY)
        rt_link_cut(k, "%.180s is connected, but does not answer", rt_link_at(k));
}

/* ---- Life ------------------------------------------------------------------------------------- */

static int take_user(struct rt_link *k, const struct rt_url *url)
{
    if (url->user[0] == '\0')
        return 0; /* a certificate may say who we are */
    if (url->password[0] == '\0')
        return rt_words_fail(k->base, ROTA_INVALID,
                             "the URL names a user without a password: give it by ?password_file= "
                             "or ROTA_PASSWORD");
    if (strlen(url->user) > SECRET_MAX || strlen(url->password) > SECRET_MAX)
        return rt_words_fail(k->base, ROTA_INVALID,
                             "the user or the password is longer than %d bytes", SECRET_MAX);
    k->user = rt_strdup(url->user);
    k->password = rt_secret_dup(url->password);
    return k->user != NULL && k->password != NULL ? 0 : ROTA_NOMEM;
}

static int take_url(struct rt_link *k, const struct rt_url *url)
{
    k->secure = strcmp(url->scheme, k->on->secure) == 0;
    int rv = rt_dial_hosts(&k->ring, k->base, url, k->secure ? k->on->secure_port : k->on->port);
    if (rv == 0)
        rv = take_user(k, url);
    if (rv == 0)
        rv = rt_dial_tls(&k->tls, k->base, url, k->secure, k->on->secure);
    if (rv == 0)
        rv = rt_dial_random(k->base, &k->jitter, sizeof(k->jitter));
    return rv;
}

static void free_all(struct rt_link *k, void (*free)(struct rt_ledger *l, struct rt_entry *e))
{
    rt_ledger_fini(&k->ledger, free);
    rt_dial_ring_fini(&k->ring);
    rt_free(k->user);
    rt_secret_free(k->password);
    k->user = k->password = NULL;
    rt_tls_free(k->tls); /* streams that are closing have let go of it */
}

int rt_link_open(struct rt_link *k, struct rt_conn *base, const struct rt_url *url,
                 const struct rt_link_user *on, const struct rt_ledger_user *asks)
{
    assert(on->wire_size >= sizeof(struct rt_wire));
    k->on = on;
    k->base = base;
    k->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = fire};
    rt_dial_times(base);
    rt_ledger_init(&k->ledger, base, asks);
    int rv = take_url(k, url);
    if (rv == 0)
        rv = rt_loop_reserve(base->loop, TIMERS);
    if (rv == 0)
        return 0;
    free_all(k, NULL);
    return rv == ROTA_NOMEM ? rt_words_nomem(base) : rv;
}

void rt_link_close(struct rt_link *k, void (*free)(struct rt_ledger *l, struct rt_entry *e))
{
    k->closing = true;
    if (k->state == RT_DIAL_READY)
        rt_stream_flush_now(&k->wire->stream); /* there may be no other turn */
    drop(k);
    free_all(k, free);
    rt_loop_unreserve(k->base->loop, TIMERS);
}

void rt_link_forked(struct rt_link *k)
{
    if (k->wire != NULL)
        rt_stream_forked(&k->wire->stream);
}
