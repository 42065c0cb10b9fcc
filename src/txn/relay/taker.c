/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer, one message after the other. */
#include "txn/relay/taker.h"

#include "engine/url.h"

#include <assert.h>
#include <rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define BEAT_MS 200
#define IDLE_MS 1000
#define LINE 512
#define OPEN_MS 5000
#define REACH_FIRST_MS 100
#define REACH_MOST_MS 5000
#define PAUSE_FIRST_MS 1000
#define PAUSE_MOST_MS 60000

struct rt_taker {
    struct rt_taker_options opts;
    struct rt_url url;
    const struct rt_broker_kind *kind;
    struct rt_broker *broker; /* subscribed; NULL: not now */
    struct rt_outlet outlet;  /* for the dead */
    uint64_t token;           /* of the message under way */
    int64_t keep_at, came_at;
    uint32_t failures; /* of reaching, in a row */
    bool lost;         /* the connection is of no more use */
    bool ending;
    char said[LINE]; /* its last trouble; "": all is well */
};

/* ---- What is said ----------------------------------------------------------------------- */

/* Reports the same trouble once, and its end once. */
static void trouble(struct rt_taker *t, const char *line)
{
    if (strcmp(t->said, line) == 0)
        return;
    snprintf(t->said, sizeof(t->said), "%s", line);
    t->opts.log(t->opts.arg, true, line);
}

static void well(struct rt_taker *t)
{
    if (t->said[0] != '\0')
        t->opts.log(t->opts.arg, false, "it goes on");
    t->said[0] = '\0';
}

const char *rt_taker_place(const struct rt_taker *t)
{
    return t->url.redacted;
}

/* ---- The connection ------------------------------------------------------------------------ */

static void shut(struct rt_taker *t)
{
    if (t->broker != NULL)
        t->kind->close(t->broker);
    t->broker = NULL;
    t->lost = false;
}

static int reach(struct rt_taker *t, char *line, size_t size)
{
    const struct rt_broker_options opts = {.app = "rota-relay consume", .ack_ms = t->opts.ack_ms};
    int err = t->kind->open(&t->broker, &t->url, &opts, rt_relay_now() + OPEN_MS * MS, line, size);

    if (err != 0)
        return err;
    err = t->kind->subscribe(t->broker, t->opts.source, t->opts.group, 1);
    const char *note = t->kind->errmsg(t->broker);
    if (err == 0 && note[0] != '\0')
        t->opts.log(t->opts.arg, true, note);
    if (err == 0)
        return 0;
    snprintf(line, size, "%s", note);
    shut(t);
    return err;
}

static int64_t doubled(int64_t first, int64_t most, uint32_t times)
{
    while (times-- > 0 && first < most)
        first *= 2;
    return first < most ? first : most;
}

/* Tries until it connects, whatever was wrong: a queue may come back, and so may a permission. */
static void reach_again(struct rt_taker *t)
{
    char line[LINE] = "";

    if (reach(t, line, sizeof(line)) == 0) {
        t->failures = 0;
        t->came_at = rt_relay_now();
        well(t);
        return;
    }
    trouble(t, line);
    t->ending = !t->opts.goes_on(t->opts.arg,
                                 doubled(REACH_FIRST_MS, REACH_MOST_MS, t->failures++));
}

/* A call on the connection returned ERR. False: the connection is lost. It is closed when nobody uses the message any
 * more. */
static bool held(struct rt_taker *t, int err)
{
    if (err == 0)
        return true;
    trouble(t, t->kind->errmsg(t->broker));
    t->lost = true;
    return false;
}

/* ---- One message ----------------------------------------------------------------------------- */

void rt_taker_keep(struct rt_taker *t)
{
    int64_t now = rt_relay_now();

    if (t->lost || now < t->keep_at)
        return;
    t->keep_at = now + t->opts.ack_ms * MS / 3;
    (void)held(t, t->kind->keep(t->broker, t->token));
}

/* Waits before the next attempt. False: the taker must end, or the message is no longer ours. */
static bool pause_for(struct rt_taker *t, int64_t ms)
{
    int64_t until = rt_relay_now() + ms * MS;

    for (int64_t now; (now = rt_relay_now()) < until && !t->lost && !t->ending;) {
        int64_t left = (until - now + MS - 1) / MS;
        t->ending = !t->opts.goes_on(t->opts.arg, left < BEAT_MS ? left : BEAT_MS);
        rt_taker_keep(t);
    }
    return !t->lost && !t->ending;
}

/* Answers the message, which is gone after that. */
static bool answer(struct rt_taker *t, int (*how)(struct rt_broker *, uint64_t))
{
    return !t->lost && held(t, how(t->broker, t->token));
}

/* Gives M up. False: the topic for the dead does not take it; it will be tried again. */
static bool give_up(struct rt_taker *t, const struct rt_message *m, const char *id)
{
    struct rt_message dead = *m;
    char line[LINE];

    if (t->opts.dead == NULL) {
        if (answer(t, t->kind->leave))
            t->opts.over(t->opts.arg, id, RT_TAKER_LEFT);
        return true;
    }
    dead.topic = t->opts.dead;
    int err = rt_outlet_send(&t->outlet, &dead, line, sizeof(line));
    if (err != 0) {
        trouble(t, line);
        return false;
    }
    (void)answer(t, t->kind->ack);
    t->opts.over(t->opts.arg, id, RT_TAKER_MOVED);
    return true;
}

/* Serves M until it is answered, or lost; ID is a separate copy. */
static void serve(struct rt_taker *t, const struct rt_message *m, const char *id)
{
    uint32_t attempt = 1, pauses = 0;

    for (enum rt_taken how;; attempt += how == RT_TAKEN_FAILED) {
        how = t->opts.work(t->opts.arg, t, m, attempt);
        if (how == RT_TAKEN_DONE) {
            (void)answer(t, t->kind->ack);
            t->opts.over(t->opts.arg, id, RT_TAKER_DONE);
            return;
        }
        t->ending = t->ending || how == RT_TAKEN_STOP;
        bool last = how == RT_TAKEN_FAILED && t->opts.attempts != 0 && attempt >= t->opts.attempts;
        if (!t->ending && !t->lost && last && give_up(t, m, id))
            return;
        if (t->ending || !pause_for(t, doubled(t->opts.pause_ms, PAUSE_MOST_MS, pauses++)))
            break;
    }
    (void)answer(t, t->kind->back);
}

/* ---- The loop -------------------------------------------------------------------------------------- */

static void take(struct rt_taker *t)
{
    struct rt_message m;
    int err = t->kind->next(t->broker, rt_relay_now() + BEAT_MS * MS, &m, &t->token);

    if (err == ROTA_BUSY) {
        if (rt_relay_now() >= t->came_at + IDLE_MS * MS) {
            t->ending = t->ending || !t->opts.idle(t->opts.arg);
            t->came_at = rt_relay_now();
        }
        return;
    }
    if (!held(t, err))
        return;
    char *id = strdup(m.id);
    if (id == NULL) {
        trouble(t, "no memory");
        (void)answer(t, t->kind->back);
        return;
    }
    t->keep_at = rt_relay_now() + t->opts.ack_ms * MS / 3;
    serve(t, &m, id);
    free(id);
    t->came_at = rt_relay_now();
}

void rt_taker_run(struct rt_taker *t)
{
    while (!t->ending) {
        if (t->broker == NULL)
            reach_again(t);
        else
            take(t);
        if (t->lost)
            shut(t);
        t->ending = t->ending || !t->opts.goes_on(t->opts.arg, 0);
    }
}

int rt_taker_open(struct rt_taker **out, const struct rt_taker_options *opts, bool waits,
                  char *errmsg, size_t size)
{
    struct rt_taker *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        snprintf(errmsg, size, "no memory");
        return ROTA_NOMEM;
    }
    assert(opts->work != NULL && opts->over != NULL && opts->goes_on != NULL);
    t->opts = *opts;
    t->opts.ack_ms = opts->ack_ms != 0 ? opts->ack_ms : RT_BROKER_ACK_MS;
    t->opts.pause_ms = opts->pause_ms != 0 ? opts->pause_ms : PAUSE_FIRST_MS;
    int err = rt_broker_read(opts->from, &t->url, &t->kind, errmsg, size);
    t->outlet = (struct rt_outlet){.kind = t->kind, .url = &t->url};
    if (err == 0)
        err = reach(t, errmsg, size);
    t->came_at = rt_relay_now();
    if (err != 0 && (err != ROTA_UNREACHABLE || !waits)) {
        rt_taker_close(t);
        return err;
    }
    if (err != 0)
        trouble(t, errmsg);
    *out = t;
    return 0;
}

void rt_taker_close(struct rt_taker *t)
{
    if (t == NULL)
        return;
    shut(t);
    rt_outlet_close(&t->outlet);
    rt_url_fini(&t->url);
    free(t);
}
