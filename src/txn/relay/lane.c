/* SPDX-License-Identifier: Apache-2.0 */
#include "txn/relay/lane.h"

#include "base/bug.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <rota.h>
#include <string.h>

#define MS INT64_C(1000000)
#define IDLE_FIRST (10 * MS)
#define IDLE_MOST (1000 * MS)
#define STALLED_MOST (160 * MS)   /* whoever has the row before does not notify */
#define IDLE_NOTIFIED (5000 * MS) /* what failed once is due again without a notice */
#define AWAY_FIRST (100 * MS)
#define AWAY_MOST (5000 * MS)
#define BEYOND_MOST 16 /* claims, then back to the first row */
#define TROUBLE_FIRST_MS 1000
#define TROUBLE_MOST_MS 300000
#define FULL_FIRST_MS 500
#define FULL_MOST_MS 5000

enum state {
    REACHING,   /* one of the two is not open */
    TURNING,    /* marks, and a claim of `limit` */
    LETTING_GO, /* marks, and no claim: a pause comes */
    PUBLISHING,
    PAUSING, /* nothing is claimed */
    CUT_OFF, /* the same; then something is opened again */
    STOPPED,
};

static int64_t doubled(int64_t first, uint32_t times, int64_t most)
{
    return times >= 16 || first << times > most ? most : first << times;
}

void rt_lane_begin(struct rt_lane *l, const struct rt_lane_options *opts,
                   struct rt_lane_item *items, struct rt_store_mark *marks,
                   struct rt_lane_past *past)
{
    *l = (struct rt_lane){
        .opts = *opts, .items = items, .marks = marks, .past = past, .state = REACHING};
    assert(opts->batch > 0 && opts->attempts > 0);
    l->limit = opts->batch < RT_LANE_FIRST ? opts->batch : RT_LANE_FIRST;
}

struct rt_lane_todo rt_lane_todo(const struct rt_lane *l)
{
    struct rt_lane_todo todo = {.op = RT_LANE_STOP};

    switch ((enum state)l->state) {
    case REACHING:
        todo.op = RT_LANE_REACH;
        break;
    case TURNING:
        todo.op = RT_LANE_TURN;
        todo.limit = l->stopping ? 0 : l->limit;
        todo.after = l->head ? 0 : l->after;
        break;
    case LETTING_GO:
        todo.op = RT_LANE_TURN;
        break;
    case PUBLISHING:
        todo.op = RT_LANE_PUBLISH;
        break;
    case PAUSING:
    case CUT_OFF:
        todo.op = RT_LANE_WAIT;
        todo.ns = l->pause_ns;
        todo.deaf = l->state == CUT_OFF;
        break;
    case STOPPED:
        break;
    }
    return todo;
}

void rt_lane_stop(struct rt_lane *l)
{
    l->stopping = true;
    if (l->state == REACHING || l->state == PAUSING || l->state == CUT_OFF)
        l->state = STOPPED;
}

/* Nothing is claimed, or a TURN that comes first lets it go. */
static void pause_for(struct rt_lane *l, enum state state, int64_t ns)
{
    l->state = l->stopping ? STOPPED : (uint8_t)state;
    l->pause_ns = ns;
}

/* The broker, or the database, cannot be reached. */
static int64_t away_ns(struct rt_lane *l)
{
    l->counts.away++;
    return doubled(AWAY_FIRST, l->failures++, AWAY_MOST);
}

/* ---- A claim ------------------------------------------------------------------- */

/* The row with ID, among those before row END; NULL: it was not claimed. */
static const struct rt_lane_item *find(const struct rt_lane *l, int64_t id, size_t end)
{
    size_t low = 0;

    while (low < end) {
        size_t mid = low + (end - low) / 2;
        if (l->rows[mid].id == id)
            return &l->items[mid];
        if (l->rows[mid].id < id)
            low = mid + 1;
        else
            end = mid;
    }
    return NULL;
}

/* The wave in which row I goes; UINT32_MAX: the row before it is somebody else's. */
static uint32_t wave_of(const struct rt_lane *l, size_t i)
{
    int64_t prev = l->rows[i].prev;

    if (prev == 0 || RT_BUG(RT_BUG_RELAY_ANY_ORDER))
        return 0;
    const struct rt_lane_item *before = l->opts.strict ? NULL : find(l, prev, i);
    if (before == NULL || !before->goes)
        return UINT32_MAX;
    return before->wave + 1;
}

static void mark(struct rt_lane *l, int64_t id, enum rt_store_what what, int64_t next_in_ms,
                 const char *reason)
{
    assert(l->mark_count < l->opts.batch);
    l->marks[l->mark_count++] = (struct rt_store_mark){
        .id = id, .what = what, .next_in_ms = next_in_ms, .reason = reason};
}

static struct rt_lane_past *past_of(const struct rt_lane *l, int64_t id)
{
    return &l->past[(uint64_t)id % RT_LANE_PAST(l->opts.batch)];
}

/* It waits, later and later, and that is no attempt. */
static void move_aside(struct rt_lane *l, int64_t id, int64_t first_ms, int64_t most_ms,
                       const char *why)
{
    struct rt_lane_past *past = past_of(l, id);

    past->times = past->aside == id ? past->times + 1 : 0;
    past->aside = id;
    mark(l, id, RT_MARK_ASIDE, doubled(first_ms, past->times, most_ms), why);
}

/* Nothing is sent of it. */
static void bury(struct rt_lane *l, int64_t id, const char *why)
{
    mark(l, id, RT_MARK_DEAD, 0, why);
    l->counts.dead++;
}

/* Why it can never go; NULL: it can. A consumer that saw half of an id would take two events for one. */
static const char *fault(const struct rt_lane *l, const struct rt_store_row *row)
{
    if (row->cut)
        return "its event_id has more than 191 bytes, or the id or the key a zero byte";
    return l->opts.body_max > 0 && row->size > l->opts.body_max
               ? "its payload is longer than the broker takes"
               : NULL;
}

static uint64_t event_of(const struct rt_store_row *row)
{
    return row->event_id != NULL ? rt_hash(row->event_id, strlen(row->event_id)) : 0;
}

/* Whether its mark was taken, and it is new as if there had been none. It is said once: the next time it goes again. A
 * table that was emptied may begin with the same numbers anew: those are other events. */
static bool is_unchanged(struct rt_lane *l, const struct rt_store_row *row)
{
    struct rt_lane_past *past = past_of(l, row->id);

    if (row->again || past->marked != row->id || past->event != event_of(row))
        return false;
    past->marked = 0;
    return true;
}

static void judge(struct rt_lane *l)
{
    l->waves = l->wave = l->full = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct rt_lane_item *item = &l->items[i];
        const struct rt_store_row *row = &l->rows[i];
        uint32_t wave = wave_of(l, i);
        const char *why = fault(l, row);

        assert(i == 0 || l->rows[i - 1].id < row->id);
        *item = (struct rt_lane_item){.wave = wave};
        if (wave == UINT32_MAX) {
            l->counts.deferred++;
        } else if (why != NULL) {
            bury(l, row->id, why);
        } else if (is_unchanged(l, row)) {
            move_aside(l, row->id, TROUBLE_FIRST_MS, TROUBLE_MOST_MS, RT_LANE_UNCHANGED);
        } else {
            item->goes = true;
            l->waves = wave >= l->waves ? wave + 1 : l->waves;
            l->counts.again += row->again;
        }
    }
}

/* Whether everything of its key before it in this claim stands. */
static bool is_next(const struct rt_lane *l, size_t i)
{
    int64_t prev = l->rows[i].prev;
    const struct rt_lane_item *before = prev == 0 ? NULL : find(l, prev, i);

    return before == NULL || before->stands || RT_BUG(RT_BUG_RELAY_ANY_ORDER);
}

/* Gathers the rows of this wave that may still go. False: none. */
static bool gather(struct rt_lane *l)
{
    l->going = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct rt_lane_item *item = &l->items[i];
        if (item->goes && item->wave == l->wave) {
            item->goes = is_next(l, i);
            l->going += item->goes;
        }
    }
    l->counts.sent += l->going;
    return l->going > 0;
}

/* How many rows like those of this claim may be in memory at once. */
static uint32_t fitting(const struct rt_lane *l)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < l->count; i++)
        bytes += l->rows[i].size;
    uint64_t fit = RT_LANE_BYTES / (bytes / l->count + 1);
    return fit == 0 ? 1 : fit < l->opts.batch ? (uint32_t)fit : l->opts.batch;
}

static void from_the_first(struct rt_lane *l)
{
    l->after = 0;
    l->beyond = 0;
    l->passed = l->head = false;
}

/* Rows of a key that waits (for one that was refused, is dead, or is not processed) must not fill every claim and keep
 * all other keys from going: if a FULL claim begins with many of them, the next ones begin behind these. At the end of
 * the table, and now and then, claims start from the first row again: the wait may be over, and what commits late has a
 * small id. */
static void pass_over(struct rt_lane *l, bool full)
{
    size_t run = 0;

    while (run < l->count && l->items[run].wave == UINT32_MAX)
        run++;
    if (full && run * 2 >= l->count && l->rows[run - 1].id > l->after)
        l->after = l->rows[run - 1].id, l->passed = true;
    l->onward = full && !(l->waves > 0 && l->after > 0 && ++l->beyond > BEYOND_MOST);
    if (!l->onward)
        from_the_first(l);
    if (full && l->waves == 0)
        l->limit = l->limit * 2 < l->most ? l->limit * 2 : l->most;
}

/* No row of the claim can go: somebody else has the rows before them, and may let them go the next moment. Lanes that
 * only moved on to later rows would never come back, so every other look starts from the first row. */
static void stall(struct rt_lane *l, bool was_first)
{
    l->head = !was_first && l->after > 0;
    l->state = LETTING_GO;
    l->pause_ns = doubled(IDLE_FIRST, l->stalls++, STALLED_MOST);
}

static void claimed(struct rt_lane *l)
{
    bool full = l->count == l->limit, was_first = l->head || l->after == 0;

    l->counts.claimed += l->count;
    l->most = fitting(l);
    l->limit = l->limit < l->most ? l->limit : l->most;
    judge(l);
    if (l->head && l->waves > 0)
        from_the_first(l);
    pass_over(l, full);
    if (l->waves > 0 && gather(l))
        l->state = PUBLISHING, l->stalls = 0;
    else if (l->mark_count > 0)
        l->state = TURNING;
    else
        stall(l, was_first);
}

static void nothing_to_do(struct rt_lane *l)
{
    int64_t first = l->opts.notified ? IDLE_NOTIFIED : IDLE_FIRST;
    int64_t most = l->opts.notified ? IDLE_NOTIFIED : IDLE_MOST;
    int64_t ns = l->idle ? l->pause_ns * 2 : first;

    l->counts.empty++;
    l->idle = true;
    pause_for(l, PAUSING, ns > most ? most : ns);
}

/* The database took them. */
static void remember_marks(struct rt_lane *l)
{
    for (size_t i = 0; i < l->mark_count; i++)
        if (l->marks[i].what == RT_MARK_PUBLISHED)
            past_of(l, l->marks[i].id)->marked = l->marks[i].id;
}

/* Nobody knows what became of the last ones; a server that died may have lost more. */
static void forget_marks(struct rt_lane *l)
{
    for (size_t i = 0; i < RT_LANE_PAST(l->opts.batch); i++)
        l->past[i].marked = 0;
}

/* Rows that are passed over may not have gone. A database that refuses is asked for one row at a time, which shows the
 * row whose mark it does not take, and that row moves aside; until then each attempt waits longer than the last,
 * because everything is published again. */
static void turn_failed(struct rt_lane *l, int err)
{
    bool alone = err != ROTA_UNREACHABLE && l->unmarked > 0 && l->mark_count == 1 &&
                 l->marks[0].what == RT_MARK_PUBLISHED;

    l->count = l->mark_count = 0;
    from_the_first(l);
    if (alone)
        move_aside(l, l->marks[0].id, TROUBLE_FIRST_MS, TROUBLE_MOST_MS,
                   "the database does not allow it to be marked");
    if (err != ROTA_UNREACHABLE)
        l->limit = 1;
    else
        forget_marks(l);
    int64_t ns = doubled(AWAY_FIRST, l->unmarked++, AWAY_MOST), away = away_ns(l);
    pause_for(l, CUT_OFF, ns > away ? ns : away);
}

void rt_lane_turned(struct rt_lane *l, int err, const struct rt_store_row *rows, size_t count)
{
    bool letting_go = l->state == LETTING_GO, was_first = l->head || l->after == 0;

    assert(l->state == TURNING || letting_go);
    assert(count <= l->limit);
    l->counts.turns++;
    l->rows = rows;
    if (err != 0) {
        turn_failed(l, err);
        return;
    }
    if (l->mark_count > 0 || (count == 0 && !letting_go))
        l->unmarked = 0;
    remember_marks(l);
    l->mark_count = 0;
    l->count = count;
    if (letting_go)
        pause_for(l, l->failures > 0 ? CUT_OFF : PAUSING, l->pause_ns);
    else if (l->stopping)
        l->state = STOPPED;
    else if (count == 0 && was_first)
        from_the_first(l), nothing_to_do(l);
    else if (count == 0 && !l->passed)
        from_the_first(l); /* and at once: late ones have small ids */
    else if (count == 0)   /* but some rows wait */
        from_the_first(l), pause_for(l, PAUSING, doubled(IDLE_FIRST, l->stalls++, STALLED_MOST));
    else
        l->idle = false, claimed(l);
}

/* ---- A batch -------------------------------------------------------------------- */

size_t rt_lane_batch(const struct rt_lane *l, struct rt_message *out)
{
    size_t n = 0;

    assert(l->state == PUBLISHING);
    for (size_t i = 0; i < l->count; i++) {
        const struct rt_store_row *row = &l->rows[i];
        if (l->items[i].goes && l->items[i].wave == l->wave)
            out[n++] = (struct rt_message){.id = row->event_id,
                                           .topic = row->topic,
                                           .key = row->key,
                                           .type = row->type,
                                           .body = row->payload,
                                           .size = row->size};
    }
    assert(n == l->going);
    return n;
}

/* The broker refused it: it goes later or, if that was too often, never again. */
static void blame(struct rt_lane *l, const struct rt_store_row *row, const char *why)
{
    if (row->attempts + 1 < l->opts.attempts) {
        mark(l, row->id, RT_MARK_TROUBLE, doubled(TROUBLE_FIRST_MS, row->attempts, TROUBLE_MOST_MS),
             why);
        return;
    }
    l->counts.dead++;
    mark(l, row->id, RT_MARK_DEAD, 0, why);
}

/* Whether it is confirmed, and every row of its key before it in this batch too. */
static bool stands(const struct rt_lane *l, size_t i, enum rt_sent sent)
{
    int64_t prev = l->rows[i].prev;
    const struct rt_lane_item *before = prev == 0 ? NULL : find(l, prev, i);

    if (sent != RT_SENT_CONFIRMED)
        return RT_BUG(RT_BUG_RELAY_LOST_IS_SENT) && sent == RT_SENT_LOST;
    return before == NULL || before->stands;
}

/* Finds the next wave that has something. */
static bool another(struct rt_lane *l)
{
    while (++l->wave < l->waves)
        if (gather(l))
            return true;
    return false;
}

static void settle(struct rt_lane *l, size_t i, enum rt_sent sent, const char *why, bool its_fault)
{
    struct rt_lane_item *item = &l->items[i];
    const struct rt_store_row *row = &l->rows[i];

    item->stands = stands(l, i, sent);
    if (item->stands) {
        l->counts.confirmed++;
        past_of(l, row->id)->event = event_of(row);
        mark(l, row->id, RT_MARK_PUBLISHED, 0, NULL);
    } else if (sent == RT_SENT_REFUSED) {
        l->counts.refused++;
        blame(l, row, why);
    } else if (sent == RT_SENT_FULL) {
        l->counts.lost++;
        l->full++;
        move_aside(l, row->id, FULL_FIRST_MS, FULL_MOST_MS, why);
    } else {
        l->counts.lost++;
        if (its_fault && sent == RT_SENT_LOST)
            move_aside(l, row->id, TROUBLE_FIRST_MS, TROUBLE_MOST_MS,
                       why != NULL ? why : "the broker did not confirm it");
    }
}

/* If all of a full claim went, the next begins behind it. An index keeps the entries of rows that went until they are
 * cleaned up, and a claim from the first row would read them all: in MariaDB half the cost of a claim. Rows that become
 * new below that are found when claims start from the first row again (pass_over). */
static void move_on(struct rt_lane *l)
{
    int64_t last = l->rows[l->count - 1].id;

    for (size_t i = 0; i < l->count; i++)
        if (!l->items[i].stands)
            return;
    if (l->onward && last > l->after)
        l->after = last;
}

/* There was no room for any row of the claim: neither the database nor the broker is asked at full speed. Whoever waits
 * for other queues is not kept long. */
static bool is_full(struct rt_lane *l)
{
    bool some = false;

    for (size_t i = 0; i < l->count; i++)
        some = some || l->items[i].stands;
    l->fulls = l->full > 0 && !some ? l->fulls + 1 : 0;
    return l->fulls > 0;
}

/* What comes after a wave: the next, or the next claim; or a pause, with nothing claimed, and then one row, doubling. */
static void go_on(struct rt_lane *l, int err)
{
    if (err == 0) {
        l->failures = 0;
        if (another(l))
            return;
        move_on(l);
        l->limit = l->limit * 2 < l->most ? l->limit * 2 : l->most;
        l->state = TURNING;
        if (is_full(l)) {
            l->state = LETTING_GO;
            l->pause_ns = doubled(IDLE_FIRST, l->fulls, STALLED_MOST);
        }
        return;
    }
    from_the_first(l);
    l->limit = 1;
    l->state = LETTING_GO;
    l->pause_ns = away_ns(l);
}

void rt_lane_published(struct rt_lane *l, int err, const enum rt_sent *sent, const char *const *why)
{
    /* The broker was there; or the row was alone, and the connection was lost again. */
    bool its_fault = err == 0 || (err == ROTA_UNREACHABLE && l->limit == 1 && l->failures > 0);
    size_t n = 0;

    assert(l->state == PUBLISHING);
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].goes && l->items[i].wave == l->wave) {
            settle(l, i, sent[n], why[n], its_fault);
            n++;
        }
    assert(n == l->going);
    go_on(l, err);
}

/* ---- The rest -------------------------------------------------------------------- */

void rt_lane_hurry(struct rt_lane *l)
{
    l->waves = l->wave;
}

void rt_lane_reached(struct rt_lane *l, int err)
{
    assert(l->state == REACHING);
    if (err != 0)
        pause_for(l, CUT_OFF, away_ns(l));
    else
        l->state = TURNING;
}

void rt_lane_woken(struct rt_lane *l)
{
    assert(l->state == PAUSING || l->state == CUT_OFF || l->state == STOPPED);
    if (l->state == PAUSING)
        l->state = TURNING;
    else if (l->state == CUT_OFF)
        l->state = REACHING;
}
