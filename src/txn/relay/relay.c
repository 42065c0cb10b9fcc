/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/relay/relay.h"

#include "engine/url.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <rota.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define LINE 512
#define ONCE_STALLS 12 /* claims in a row of which nothing could go: 1.5 seconds */
#define ONCE_UNMARKED \
    6 /* turns in a row that failed: 3 seconds. A row whose mark is refused moves aside after two */
#define ONCE_AWAY 8           /* times in a row that something was away: 17 seconds */
#define REASONS 16            /* different ones that the marks of a claim can have */
#define TOLD_NS (600000 * MS) /* a reason that was not seen for this long is told again */

struct road { /* a lane and what it runs on */
    struct rt_relay *relay;
    pthread_t thread;
    struct rt_lane lane;
    struct rt_store *store;
    struct rt_broker *broker;
    struct rt_lane_item *items;
    struct rt_store_mark *marks;
    struct rt_lane_past *past;
    struct rt_message *messages;
    enum rt_sent *sent;
    const char **why;
    char reasons[REASONS]
                [RT_BROKER_LINE]; /* what marks point to: a broker keeps its own for one call */
    size_t reason_count;
    int64_t claimed_at;
    char said[LINE]; /* its last trouble; "": all is well; the relay's mu is for both */
    bool failing;    /* nothing has gone since */
};

struct told { /* a reason that was told */
    char reason[RT_BROKER_LINE];
    enum rt_store_what what;
    int64_t at; /* when it was last seen; 0: never */
};

struct rt_relay {
    struct rt_relay_options opts;
    struct rt_url url; /* of the broker */
    const struct rt_broker_kind *kind;
    struct road roads[RT_RELAY_LANES];
    uint32_t count;
    int wake; /* readable for good once it must end */
    atomic_bool ending;
    atomic_bool gave_up; /* once: a lane ended before its work did */
    pthread_mutex_t mu;  /* for what follows, and the log */
    struct told told[REASONS];
    struct rt_lane_counts counts[RT_RELAY_LANES];
    uint32_t running;
};

/* ---- What is said ------------------------------------------------------------------- */

static void say(struct rt_relay *r, bool trouble, const char *line)
{
    if (r->opts.log != NULL)
        r->opts.log(r->opts.arg, trouble, line);
}

/* Reports the same trouble once, and its end once. */
static void trouble(struct road *road, const char *line)
{
    struct rt_relay *r = road->relay;
    bool known = false;

    pthread_mutex_lock(&r->mu);
    for (uint32_t i = 0; i < RT_RELAY_LANES; i++)
        known = known || strcmp(r->roads[i].said, line) == 0;
    snprintf(road->said, sizeof(road->said), "%s", line);
    road->failing = true;
    if (!known)
        say(r, true, line);
    pthread_mutex_unlock(&r->mu);
}

/* Something went, or nothing is there: that may be because another lane has it, and if that one fails nothing is well. */
static void well(struct road *road)
{
    struct rt_relay *r = road->relay;
    bool failing = false, said = false;

    pthread_mutex_lock(&r->mu);
    road->failing = false;
    for (uint32_t i = 0; i < RT_RELAY_LANES; i++) {
        failing = failing || r->roads[i].failing;
        said = said || r->roads[i].said[0] != '\0';
    }
    for (uint32_t i = 0; i < RT_RELAY_LANES && !failing; i++)
        r->roads[i].said[0] = '\0';
    if (said && !failing)
        say(r, false, "it goes on");
    pthread_mutex_unlock(&r->mu);
}

/* Whether REASON is new, or has not been seen for long. The one not seen for longest makes room. */
static bool is_news(struct rt_relay *r, enum rt_store_what what, const char *reason)
{
    int64_t now = rt_relay_now();
    struct told *place = &r->told[0];

    for (size_t i = 0; i < REASONS; i++) {
        struct told *t = &r->told[i];
        if (t->at != 0 && t->what == what && strncmp(t->reason, reason, RT_BROKER_LINE - 1) == 0) {
            bool old = now - t->at > TOLD_NS;
            t->at = now;
            return old;
        }
        place = t->at < place->at ? t : place;
    }
    *place = (struct told){.what = what, .at = now};
    snprintf(place->reason, sizeof(place->reason), "%s", reason);
    return true;
}

/* The topic of the row ID of the last claim; NULL: it is no longer known. */
static const char *topic_of(const struct rt_lane *l, int64_t id)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->rows[i].id == id)
            return l->rows[i].topic;
    return NULL;
}

/* Rows that do not go: each reason is told once, with the first row that has it. */
static void tell_marks(struct road *road)
{
    static const char *const words[] = {
        [RT_MARK_TROUBLE] = "refused", [RT_MARK_ASIDE] = "waits", [RT_MARK_DEAD] = "dead"};
    struct rt_relay *r = road->relay;
    char line[LINE];

    pthread_mutex_lock(&r->mu);
    for (size_t i = 0; i < road->lane.mark_count; i++) {
        const struct rt_store_mark *m = &road->lane.marks[i];
        if (m->what == RT_MARK_PUBLISHED || m->reason == NULL || !is_news(r, m->what, m->reason))
            continue;
        const char *topic = topic_of(&road->lane, m->id);
        snprintf(line, sizeof(line), "%s%.64s%srow %lld: %s: %.300s; `rota txn events %s` shows it",
                 topic != NULL ? "topic " : "", topic != NULL ? topic : "",
                 topic != NULL ? ", " : "", (long long)m->id, words[m->what], m->reason,
                 m->what == RT_MARK_DEAD ? "dead" : "ls");
        say(r, true, line);
    }
    pthread_mutex_unlock(&r->mu);
}

/* Whether something that was published is among the marks. */
static bool something_went(const struct rt_lane *l)
{
    for (size_t i = 0; i < l->mark_count; i++)
        if (l->marks[i].what == RT_MARK_PUBLISHED)
            return true;
    return false;
}

/* ---- One thing after the other --------------------------------------------------------- */

static int64_t lease_ns(const struct rt_relay *r)
{
    return (r->opts.store.lease_ms != 0 ? r->opts.store.lease_ms : 10000) * MS;
}

static int open_store(struct rt_relay *r, struct rt_store **out, char *line, size_t size)
{
    return rt_store_open(out, r->opts.from, r->opts.map, &r->opts.store, line, size);
}

static int open_broker(struct rt_relay *r, struct rt_broker **out, char *line, size_t size)
{
    const struct rt_broker_options opts = {.app = "rota-relay"};

    return r->kind->open(out, &r->url, &opts, rt_relay_now() + lease_ns(r) / 2, line, size);
}

static int reach(struct road *road)
{
    char line[LINE] = "";
    struct rt_relay *r = road->relay;
    int err = road->store != NULL ? 0 : open_store(r, &road->store, line, sizeof(line));

    if (err == 0 && road->broker == NULL)
        err = open_broker(r, &road->broker, line, sizeof(line));
    if (err != 0) {
        trouble(road, line);
        return err;
    }
    road->lane.opts.body_max = r->kind->body_max(road->broker);
    road->lane.opts.notified = rt_store_notifies(road->store);
    return 0;
}

/* Once: a lane does not wait for what may never come. */
static void give_up(struct road *road)
{
    if (!road->relay->opts.once)
        return;
    atomic_store(&road->relay->gave_up, true);
    rt_lane_stop(&road->lane);
}

/* Asking again does not help: a person must do something. */
static bool is_persons(int err)
{
    return err == ROTA_AUTH || err == ROTA_UNSUPPORTED || err == ROTA_INVALID;
}

static void reached(struct road *road, int err)
{
    rt_lane_reached(&road->lane, err);
    if (is_persons(err) || (err != 0 && road->lane.failures >= ONCE_AWAY))
        give_up(road);
}

static void turn(struct road *road, const struct rt_lane_todo *todo)
{
    const struct rt_store_row *rows = NULL;
    size_t count = 0, marks = road->lane.mark_count;

    bool went = something_went(&road->lane);

    tell_marks(road);
    rt_store_skip(road->store, todo->after);
    int err = rt_store_turn(road->store, road->lane.marks, marks, todo->limit, &rows, &count);

    if (err != 0)
        trouble(road, rt_store_errmsg(road->store));
    else if (todo->limit > 0 && (went || count == 0)) /* it got through, or found nothing */
        well(road);
    road->claimed_at = rt_relay_now();
    rt_lane_turned(&road->lane, err, rows, count);
    road->reason_count = 0;
    /* Once: until all is published, or the rest waits for something that nobody here can bring about. */
    if (road->relay->opts.once && (road->lane.idle || road->lane.stalls >= ONCE_STALLS))
        rt_lane_stop(&road->lane);
    if ((is_persons(err) && marks == 0) || (err != 0 && road->lane.unmarked >= ONCE_UNMARKED))
        give_up(road); /* a mark that is refused may be its row's fault: that moves aside */
}

/* Keeps WHY for as long as the marks need it; the last one kept has to do for all that come after it. */
static const char *keep_reason(struct road *road, const char *why)
{
    size_t i = 0;

    while (i < road->reason_count && strcmp(road->reasons[i], why) != 0)
        i++;
    if (i == REASONS)
        return road->reasons[REASONS - 1];
    if (i == road->reason_count)
        snprintf(road->reasons[road->reason_count++], RT_BROKER_LINE, "%s", why);
    return road->reasons[i];
}

/* ERR is the batch's result. A row that was alone when the connection was lost gets the broker's last words. */
static void keep_reasons(struct road *road, size_t n, int err)
{
    const char *last = err != 0 ? road->relay->kind->errmsg(road->broker) : NULL;

    if (last != NULL && n == 1 && road->sent[0] == RT_SENT_LOST && road->why[0] == NULL)
        road->why[0] = last;
    for (size_t i = 0; i < n; i++)
        if (road->why[i] != NULL)
            road->why[i] = keep_reason(road, road->why[i]);
}

static void publish(struct road *road)
{
    const struct rt_broker_kind *kind = road->relay->kind;
    int64_t lease = lease_ns(road->relay), now = rt_relay_now();
    size_t n = rt_lane_batch(&road->lane, road->messages);

    if (now > road->claimed_at + lease / 4) /* after the lease the rows are somebody else's */
        rt_lane_hurry(&road->lane);
    int err = kind->publish(road->broker, road->messages, n, now + lease / 2, road->sent,
                            road->why);

    if (err != 0)
        trouble(road, kind->errmsg(road->broker));
    keep_reasons(road, n, err);
    rt_lane_published(&road->lane, err, road->sent, road->why);
    if (err != 0 && err != ROTA_BUSY) {
        kind->close(road->broker);
        road->broker = NULL;
    }
    if (err != 0 && road->lane.failures >= ONCE_AWAY)
        give_up(road);
}

static void wait_for(struct road *road, const struct rt_lane_todo *todo)
{
    int64_t ms = (todo->ns + MS - 1) / MS;
    int wake = road->relay->wake;

    if (todo->deaf || road->store == NULL || rt_store_wait(road->store, ms, wake) < 0)
        poll(&(struct pollfd){.fd = wake, .events = POLLIN}, 1, (int)ms);
    if (todo->deaf && road->store != NULL)
        (void)rt_store_wait(road->store, 0, wake); /* reads what the database notified meanwhile */
    rt_lane_woken(&road->lane);
}

static void shut(struct road *road)
{
    rt_store_close(road->store);
    if (road->broker != NULL)
        road->relay->kind->close(road->broker);
    road->store = NULL;
    road->broker = NULL;
}

static void *drive(void *arg)
{
    struct road *road = arg;
    struct rt_relay *r = road->relay;

    for (;;) {
        if (atomic_load(&r->ending))
            rt_lane_stop(&road->lane);
        struct rt_lane_todo todo = rt_lane_todo(&road->lane);
        if (todo.op == RT_LANE_STOP)
            break;
        if (todo.op == RT_LANE_REACH)
            reached(road, reach(road));
        else if (todo.op == RT_LANE_TURN)
            turn(road, &todo);
        else if (todo.op == RT_LANE_PUBLISH)
            publish(road);
        else
            wait_for(road, &todo);
        pthread_mutex_lock(&r->mu);
        r->counts[road - r->roads] = road->lane.counts;
        pthread_mutex_unlock(&r->mu);
    }
    shut(road);
    pthread_mutex_lock(&r->mu);
    r->running--;
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

/* ---- Beginning and end --------------------------------------------------------------------- */

static void free_road(struct road *road)
{
    free(road->items);
    free(road->marks);
    free(road->past);
    free(road->messages);
    free(road->sent);
    free(road->why);
}

static bool lay(struct rt_relay *r, struct road *road)
{
    size_t n = r->opts.batch;
    const struct rt_lane_options opts = {
        .batch = r->opts.batch, .attempts = r->opts.attempts, .strict = r->opts.store.strict_order};

    road->items = calloc(n, sizeof(*road->items));
    road->marks = calloc(n, sizeof(*road->marks));
    road->past = calloc(RT_LANE_PAST(n), sizeof(*road->past));
    road->messages = calloc(n, sizeof(*road->messages));
    road->sent = calloc(n, sizeof(*road->sent));
    road->why = calloc(n, sizeof(*road->why));
    if (road->items == NULL || road->marks == NULL || road->past == NULL ||
        road->messages == NULL || road->sent == NULL || road->why == NULL)
        return false;
    rt_lane_begin(&road->lane, &opts, road->items, road->marks, road->past);
    return true;
}

static void free_relay(struct rt_relay *r)
{
    for (uint32_t i = 0; i < RT_RELAY_LANES; i++) {
        shut(&r->roads[i]);
        free_road(&r->roads[i]);
    }
    if (r->wake >= 0)
        close(r->wake);
    rt_url_fini(&r->url);
    pthread_mutex_destroy(&r->mu);
    free(r);
}

/* Whoever starts the relay opens the first lane's connections: one that can never work is reported at once. */
static int try_both(struct rt_relay *r, bool waits, char *errmsg, size_t size)
{
    int err = open_store(r, &r->roads[0].store, errmsg, size);

    if (err == 0)
        err = open_broker(r, &r->roads[0].broker, errmsg, size);
    return err == ROTA_UNREACHABLE && waits ? 0 : err;
}

static int set_off(struct rt_relay *r, char *errmsg, size_t size)
{
    for (uint32_t i = 0; i < r->opts.lanes; i++)
        if (!lay(r, &r->roads[i])) {
            snprintf(errmsg, size, "no memory");
            return ROTA_NOMEM;
        }
    for (; r->count < r->opts.lanes; r->count++) {
        pthread_mutex_lock(&r->mu);
        r->running++;
        pthread_mutex_unlock(&r->mu);
        if (pthread_create(&r->roads[r->count].thread, NULL, drive, &r->roads[r->count]) != 0) {
            pthread_mutex_lock(&r->mu);
            r->running--;
            pthread_mutex_unlock(&r->mu);
            snprintf(errmsg, size, "cannot start a thread");
            return ROTA_NOMEM;
        }
    }
    return 0;
}

int rt_relay_start(struct rt_relay **out, const struct rt_relay_options *opts, bool waits,
                   char *errmsg, size_t size)
{
    struct rt_relay *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        snprintf(errmsg, size, "no memory");
        return ROTA_NOMEM;
    }
    r->opts = *opts;
    r->opts.lanes = opts->lanes != 0 ? opts->lanes : 2;
    r->opts.batch = opts->batch != 0 ? opts->batch : 500;
    r->opts.attempts = opts->attempts != 0 ? opts->attempts : 20;
    assert(r->opts.lanes <= RT_RELAY_LANES);
    for (uint32_t i = 0; i < RT_RELAY_LANES; i++)
        r->roads[i].relay = r;
    pthread_mutex_init(&r->mu, NULL);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err = r->wake < 0 ? (snprintf(errmsg, size, "no descriptor left"), ROTA_NOMEM) : 0;
    if (err == 0)
        err = rt_broker_read(r->opts.to, &r->url, &r->kind, errmsg, size);
    if (err == 0)
        err = try_both(r, waits, errmsg, size);
    if (err == 0 && (err = set_off(r, errmsg, size)) != 0) {
        rt_relay_end(r);
        return err;
    }
    if (err != 0) {
        free_relay(r);
        return err;
    }
    *out = r;
    return 0;
}

bool rt_relay_look(struct rt_relay *r, struct rt_lane_counts *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&r->mu);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct rt_lane_counts *c = &r->counts[i];
        out->turns += c->turns;
        out->empty += c->empty;
        out->claimed += c->claimed;
        out->deferred += c->deferred;
        out->sent += c->sent;
        out->confirmed += c->confirmed;
        out->again += c->again;
        out->refused += c->refused;
        out->lost += c->lost;
        out->dead += c->dead;
        out->away += c->away;
    }
    bool runs = r->running > 0;
    pthread_mutex_unlock(&r->mu);
    return runs;
}

bool rt_relay_gave_up(struct rt_relay *r)
{
    return atomic_load(&r->gave_up);
}

void rt_relay_end(struct rt_relay *r)
{
    atomic_store(&r->ending, true);
    if (eventfd_write(r->wake, 1) != 0)
        abort();
    for (uint32_t i = 0; i < r->count; i++)
        pthread_join(r->roads[i].thread, NULL);
    free_relay(r);
}
