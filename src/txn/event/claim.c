/* SPDX-License-Identifier: Apache-2.0 */
/* A turn: marks, COMMIT, and the next claim, in one round trip.
 *
 *   [BEGIN] UPDATE ... published; DELETE, INSERT ... trouble; COMMIT;
 *   BEGIN; SELECT new ... FOR UPDATE SKIP LOCKED [; SELECT stale ... FOR UPDATE SKIP LOCKED] [; SELECT keys]
 *
 * Which row of its key went before (`prev`) is asked by a scalar subquery. MariaDB does not use the last column of an index
 * for "id < the outer row's" in a subquery, and would read all rows of a key for each row claimed. So it answers the ids and
 * keys of all new rows up to the last one claimed, and who went before whom is found here. */
#include "txn/event/store_inside.h"

#include "base/alloc.h"
#include "net/loop.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define STALE_APART INT64_C(1000) /* ms between two looks for stale ones, at most */

/* ---- Marks ------------------------------------------------------------------------------ */

struct marks {
    const struct rt_store_mark *all;
    size_t n;
};

/* " IN (1, 2)" of those that are WHAT. False: none is. */
static bool add_ids(struct rt_store *s, const struct marks *m, unsigned what)
{
    bool some = false;

    for (size_t i = 0; i < m->n; i++)
        if ((what & (1U << m->all[i].what)) != 0) {
            rt_stmt_add(&s->q, "%s%" PRId64, some ? ", " : " IN (", m->all[i].id);
            some = true;
        }
    rt_stmt_add(&s->q, some ? ")" : "");
    return some;
}

static bool has_any(const struct marks *m, unsigned what)
{
    for (size_t i = 0; i < m->n; i++)
        if ((what & (1U << m->all[i].what)) != 0)
            return true;
    return false;
}

/* What is processed stays so. */
static void mark_state(struct rt_store *s, const struct marks *m, enum rt_store_what what,
                       enum rt_event_state state)
{
    struct rt_stmt *q = &s->q;

    if (!has_any(m, 1U << what) || s->map.states[state][0] == '\0')
        return;
    rt_stmt_add(q, "UPDATE ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " SET ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    if (rt_store_has(s, RT_COLUMN_UPDATED)) {
        rt_stmt_add(q, ", ");
        rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, NULL);
        rt_stmt_add(q, " = %s", rt_stmt_now(q->dialect));
    }
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, NULL);
    add_ids(s, m, 1U << what);
    rt_stmt_add(q, " AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " IN (");
    rt_stmt_state(q, &s->map, RT_EVENT_NEW);
    rt_stmt_add(q, ", ");
    rt_stmt_state(q, &s->map, RT_EVENT_PUBLISHED);
    rt_stmt_add(q, "); ");
}

static void add_trouble(struct rt_store *s, const struct rt_store_mark *mark)
{
    struct rt_stmt *q = &s->q;
    char reason[RT_STORE_REASON + 1];

    snprintf(reason, sizeof(reason), "%s", mark->reason != NULL ? mark->reason : "");
    for (size_t n = strlen(reason); n == RT_STORE_REASON && n > 0 && (reason[n - 1] & 0x80) != 0;)
        reason[--n] = '\0'; /* no character is cut in two */
    rt_stmt_add(q, "(");
    rt_stmt_text(q, s->map.table);
    rt_stmt_add(q, ", %" PRId64 ", 1, %s + %" PRId64 ", %d, ", mark->id, rt_stmt_now_ms(q->dialect),
                mark->what == RT_MARK_TROUBLE ? mark->next_in_ms : 0, mark->what == RT_MARK_DEAD);
    rt_stmt_text(q, reason);
    rt_stmt_add(q, ")");
}

static void mark_troubles(struct rt_store *s, const struct marks *m)
{
    unsigned what = 1U << RT_MARK_TROUBLE | 1U << RT_MARK_DEAD;
    struct rt_stmt *q = &s->q;
    bool some = false;

    if (!has_any(m, what))
        return;
    rt_stmt_add(q, "INSERT INTO " RT_EVENT_TROUBLE
                   " (source, event, attempts, next_at_ms, dead, reason) VALUES ");
    for (size_t i = 0; i < m->n; i++)
        if ((what & (1U << m->all[i].what)) != 0) {
            rt_stmt_add(q, some ? ", " : "");
            add_trouble(s, &m->all[i]);
            some = true;
        }
    if (q->dialect == RT_STMT_MYSQL)
        rt_stmt_add(q, " ON DUPLICATE KEY UPDATE attempts = attempts + 1, next_at_ms = "
                       "VALUES(next_at_ms), dead = VALUES(dead), reason = VALUES(reason); ");
    else
        rt_stmt_add(q, " ON CONFLICT (source, event) DO UPDATE SET attempts = " RT_EVENT_TROUBLE
                       ".attempts + 1, next_at_ms = excluded.next_at_ms, dead = excluded.dead, "
                       "reason = excluded.reason; ");
}

/* Of those whose trouble is over. Rows of another claim may have some, too. */
static void forget_troubles(struct rt_store *s, const struct marks *m)
{
    bool known = true, some = false;

    for (size_t i = 0; i < s->row_count; i++)
        some = some || s->rows[i].attempts > 0;
    for (size_t i = 0; i < m->n && known; i++) {
        known = false;
        for (size_t j = i < s->row_count ? i : 0; j < s->row_count && !known; j++)
            known = s->rows[j].id == m->all[i].id;
    }
    if ((known && !some) || !has_any(m, 1U << RT_MARK_PUBLISHED))
        return;
    rt_stmt_add(&s->q, "DELETE FROM " RT_EVENT_TROUBLE " WHERE ");
    rt_store_add_source(s);
    add_ids(s, m, 1U << RT_MARK_PUBLISHED);
    rt_stmt_add(&s->q, "; ");
}

static void write_marks(struct rt_store *s, const struct marks *m)
{
    mark_state(s, m, RT_MARK_PUBLISHED, RT_EVENT_PUBLISHED);
    mark_state(s, m, RT_MARK_DEAD, RT_EVENT_DEAD);
    forget_troubles(s, m);
    mark_troubles(s, m);
}

/* ---- The claim -------------------------------------------------------------------------- */

/* Dead rows of a map without `dead` look new. */
static bool hides_dead(const struct rt_store *s)
{
    return s->map.states[RT_EVENT_DEAD][0] == '\0';
}

static void add_not_dead(struct rt_store *s, const char *alias)
{
    rt_stmt_add(&s->q, " AND NOT EXISTS (SELECT 1 FROM " RT_EVENT_TROUBLE " d WHERE d.");
    rt_store_add_source(s);
    rt_stmt_add(&s->q, " = %s.", alias);
    rt_stmt_name(&s->q, s->map.columns[RT_COLUMN_ID].text);
    rt_stmt_add(&s->q, " AND d.dead = 1)");
}

/* The row of e's key in STATE that is next before it; MariaDB: the first of all of them. 0 (MariaDB: the largest): none. */
static void add_term(struct rt_store *s, enum rt_event_state state)
{
    bool first = s->kind->dialect == RT_STMT_MYSQL;
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "COALESCE((SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
    rt_stmt_add(q, " FROM ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " p WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "p");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    if (rt_store_has(s, RT_COLUMN_KEY)) {
        rt_stmt_add(q, " AND ");
        rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "p");
        rt_stmt_add(q, " = ");
        rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "e");
    }
    if (state == RT_EVENT_NEW && hides_dead(s) && !s->o.dead_blocks)
        add_not_dead(s, "p");
    if (!first) {
        rt_stmt_add(q, " AND ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
        rt_stmt_add(q, " < ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    }
    rt_stmt_add(q, " ORDER BY ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
    rt_stmt_add(q, first ? " LIMIT 1), 9223372036854775807)" : " DESC LIMIT 1), 0)");
}

static bool is_ordered(const struct rt_store *s)
{
    return s->map.columns[RT_COLUMN_KEY].text[0] != '\0';
}

/* MariaDB lists the new rows; those that cannot be in the same claim it asks for. */
static bool lists_keys(const struct rt_store *s)
{
    return s->kind->dialect == RT_STMT_MYSQL && is_ordered(s) && !s->o.strict_order;
}

static void add_prev(struct rt_store *s)
{
    bool mysql = s->kind->dialect == RT_STMT_MYSQL;
    enum rt_event_state states[3];
    size_t n = 0;

    if (is_ordered(s) && !lists_keys(s))
        states[n++] = RT_EVENT_NEW;
    if (is_ordered(s) && s->o.strict_order)
        states[n++] = RT_EVENT_PUBLISHED;
    if (is_ordered(s) && s->o.dead_blocks && !hides_dead(s))
        states[n++] = RT_EVENT_DEAD;
    if (n == 0)
        rt_stmt_add(&s->q, mysql ? "9223372036854775807" : "0");
    if (n > 1)
        rt_stmt_add(&s->q, mysql                                  ? "LEAST("
                           : s->kind->dialect == RT_STMT_POSTGRES ? "GREATEST("
                                                                  : "max(");
    for (size_t i = 0; i < n; i++) {
        rt_stmt_add(&s->q, i > 0 ? ", " : "");
        add_term(s, states[i]);
    }
    rt_stmt_add(&s->q, n > 1 ? ")" : "");
}

enum {
    COL_ID,
    COL_PREV,
    COL_ATTEMPTS,
    COL_EVENT_ID,
    COL_TOPIC,
    COL_KEY,
    COL_TYPE,
    COL_PAYLOAD,
    COL_AGE
};

static void add_columns(struct rt_store *s)
{
    static const enum rt_event_column plain[] = {RT_COLUMN_TOPIC, RT_COLUMN_KEY, RT_COLUMN_TYPE,
                                                 RT_COLUMN_PAYLOAD};
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, ", ");
    add_prev(s);
    rt_stmt_add(q, ", COALESCE((SELECT t.attempts FROM " RT_EVENT_TROUBLE " t WHERE t.");
    rt_store_add_source(s);
    rt_stmt_add(q, " = ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, "), 0), ");
    rt_store_add_event_id(s);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        rt_stmt_add(q, ", ");
        rt_stmt_column(q, &s->map, plain[i], "e");
    }
    rt_stmt_add(q, ", ");
    rt_store_add_age(s, RT_COLUMN_CREATED);
    if (lists_keys(s)) {
        rt_stmt_add(q, ", @rota_last := GREATEST(@rota_last, ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
        rt_stmt_add(q, ")");
    }
    rt_store_add_table(s);
}

static void add_not_troubled(struct rt_store *s)
{
    rt_stmt_add(&s->q, " AND NOT EXISTS (SELECT 1 FROM " RT_EVENT_TROUBLE " d WHERE d.");
    rt_store_add_source(s);
    rt_stmt_add(&s->q, " = ");
    rt_stmt_column(&s->q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(&s->q, " AND (d.dead = 1 OR d.next_at_ms > %s))", rt_stmt_now_ms(s->kind->dialect));
}

static void add_select(struct rt_store *s, enum rt_event_state state, uint32_t limit)
{
    static const char *const locks[] = {[RT_STMT_MYSQL] = " FOR UPDATE SKIP LOCKED; ",
                                        [RT_STMT_POSTGRES] = " FOR UPDATE OF e SKIP LOCKED; ",
                                        [RT_STMT_SQLITE] = "; "};
    bool stale = state == RT_EVENT_PUBLISHED;
    struct rt_stmt *q = &s->q;

    add_columns(s);
    rt_store_add_index(s, stale);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    if (stale) {
        rt_stmt_add(q, " AND ");
        rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, "e");
        rt_stmt_add(q, " < ");
        rt_stmt_before(q, s->o.republish_ms);
    }
    if (!stale && s->after > 0) {
        rt_stmt_add(q, " AND ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
        rt_stmt_add(q, " > %" PRId64, s->after);
    }
    if (q->dialect == RT_STMT_SQLITE)
        rt_stmt_add(q, " AND EXISTS (SELECT 1 FROM " RT_EVENT_RELAY " r WHERE r.owner = '%s')",
                    s->owner);
    add_not_troubled(s);
    rt_stmt_add(q, " ORDER BY ");
    rt_stmt_column(q, &s->map, stale ? RT_COLUMN_UPDATED : RT_COLUMN_ID, "e");
    rt_stmt_add(q, " LIMIT %" PRIu32 "%s", limit, locks[q->dialect]);
}

/* All new rows up to the last that was claimed, ours and others': who has which key. */
static void add_keys(struct rt_store *s)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
    rt_stmt_add(q, ", ");
    rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "p");
    rt_stmt_add(q, " FROM ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " p");
    rt_store_add_index(s, 0);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "p");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, RT_EVENT_NEW);
    rt_stmt_add(q, " AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
    rt_stmt_add(q, " <= @rota_last AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "p");
    rt_stmt_add(q, " IS NOT NULL");
    if (hides_dead(s) && !s->o.dead_blocks)
        add_not_dead(s, "p");
    rt_stmt_add(q, "; ");
}

/* ---- What was claimed ------------------------------------------------------------------- */

struct keyed {
    const char *key;
    int64_t id;
};

static int by_key(const void *left, const void *right)
{
    const struct keyed *l = left, *r = right;
    int order = strcmp(l->key, r->key);

    return order != 0 ? order : (l->id > r->id) - (l->id < r->id);
}

/* The last of LIST with KEY before ID; 0: none. */
static int64_t before(const struct keyed *list, size_t n, const char *key, int64_t id)
{
    const struct keyed want = {.key = key, .id = id};
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_key(&list[middle], &want) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && strcmp(list[low - 1].key, key) == 0 ? list[low - 1].id : 0;
}

static int find_prevs(struct rt_store *s, size_t result)
{
    size_t n = result < s->result_count ? s->results[result].rows : 0;
    struct keyed *list = rt_alloc((n + 1) * sizeof(*list));

    if (list == NULL)
        return rt_store_fail(s, ROTA_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        list[i] = (struct keyed){.key = rt_store_cell(s, result, i, 1)->text,
                                 .id = rt_store_number(rt_store_cell(s, result, i, 0), 0)};
    qsort(list, n, sizeof(*list), by_key);
    for (size_t i = 0; i < s->row_count; i++)
        if (s->rows[i].key != NULL && s->rows[i].prev == 0)
            s->rows[i].prev = before(list, n, s->rows[i].key, s->rows[i].id);
    rt_free(list);
    return 0;
}

static void read_row(struct rt_store *s, size_t result, size_t row, bool again)
{
    const struct rt_cell *cells = rt_store_cell(s, result, row, 0);
    struct rt_store_row *r = &s->rows[s->row_count];
    int64_t prev = rt_store_number(&cells[COL_PREV], 0);

    *r = (struct rt_store_row){.id = rt_store_number(&cells[COL_ID], 0),
                               .attempts = (uint32_t)rt_store_number(&cells[COL_ATTEMPTS], 0),
                               .again = again,
                               .topic = cells[COL_TOPIC].text != NULL ? cells[COL_TOPIC].text : "",
                               .key = cells[COL_KEY].text,
                               .type = cells[COL_TYPE].text,
                               .payload = cells[COL_PAYLOAD].text != NULL ? cells[COL_PAYLOAD].text
                                                                          : "",
                               .size = cells[COL_PAYLOAD].size,
                               .age_ms = rt_store_number(&cells[COL_AGE], -1)};
    r->prev = r->key != NULL && prev < r->id ? prev : 0;
    r->event_id = rt_store_event_id(s, s->row_count, &cells[COL_EVENT_ID], r->id);
    r->cut = cells[COL_EVENT_ID].size >= RT_EVENT_ID ||
             (cells[COL_EVENT_ID].text != NULL &&
              strlen(cells[COL_EVENT_ID].text) != cells[COL_EVENT_ID].size);
    s->row_count++;
}

static int by_id(const void *left, const void *right)
{
    const struct rt_store_row *l = left, *r = right;

    return (l->id > r->id) - (l->id < r->id);
}

/* FRESH, STALE, KEYS: which result has them; RT_STORE_RESULTS: none. */
static int read_claim(struct rt_store *s, size_t fresh, size_t stale, size_t keys)
{
    size_t n = 0, which[2] = {fresh, stale};

    for (int i = 0; i < 2; i++)
        n += which[i] < s->result_count ? s->results[which[i]].rows : 0;
    if (!rt_store_make_room(s, n, 0))
        return rt_store_fail(s, ROTA_NOMEM, "out of memory");
    for (int i = 0; i < 2; i++)
        for (size_t row = 0; which[i] < s->result_count && row < s->results[which[i]].rows; row++)
            read_row(s, which[i], row, i == 1);
    if (s->row_count == 0)
        return 0;
    qsort(s->rows, s->row_count, sizeof(*s->rows), by_id);
    return keys < RT_STORE_RESULTS ? find_prevs(s, keys) : 0;
}

/* ---- The turn --------------------------------------------------------------------------- */

static bool stale_is_due(struct rt_store *s)
{
    int64_t now = rt_loop_clock();
    int64_t apart = s->o.republish_ms / 4 < STALE_APART ? s->o.republish_ms / 4 : STALE_APART;

    if (s->o.until_published || !rt_store_has(s, RT_COLUMN_UPDATED) || now < s->stale_at)
        return false;
    s->stale_at = now + apart * MS;
    return true;
}

static void write_lease(struct rt_store *s)
{
    const char *now = rt_stmt_now_ms(RT_STMT_SQLITE);

    rt_stmt_add(&s->q, "INSERT INTO " RT_EVENT_RELAY " (name, owner, until_ms) VALUES (");
    rt_stmt_text(&s->q, s->map.table);
    rt_stmt_add(&s->q,
                ", '%s', %s + %" PRIu32
                ") ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, "
                "until_ms = excluded.until_ms WHERE " RT_EVENT_RELAY
                ".owner = excluded.owner OR " RT_EVENT_RELAY ".until_ms < %s; ",
                s->owner, now, s->o.lease_ms, now);
}

/* The lease of another table with the same owner does not exist: an owner is a store. Without rows wanted, it is let go. */
static void release_lease(struct rt_store *s)
{
    rt_stmt_add(&s->q, "DELETE FROM " RT_EVENT_RELAY " WHERE owner = '%s'; ", s->owner);
}

static void begin_claim(struct rt_store *s)
{
    if (s->kind->dialect == RT_STMT_SQLITE)
        write_lease(s);
    else
        rt_stmt_add(&s->q, "%s",
                    lists_keys(s) ? "SET @rota_last = 0; START TRANSACTION; "
                                  : "START TRANSACTION; ");
}

void rt_store_skip(struct rt_store *s, int64_t after)
{
    assert(after >= 0);
    s->after = after;
}

int rt_store_turn(struct rt_store *s, const struct rt_store_mark *marks, size_t n, uint32_t limit,
                  const struct rt_store_row **rows, size_t *count)
{
    const struct marks m = {.all = marks, .n = n};
    bool lite = s->kind->dialect == RT_STMT_SQLITE, was_open = s->open;
    size_t fresh = RT_STORE_RESULTS, stale = RT_STORE_RESULTS, keys = RT_STORE_RESULTS, next = 0;

    int err = rt_store_begin(s);
    if (err != 0)
        return err;
    was_open = was_open && s->open;
    if (lite)
        rt_stmt_add(&s->q, "BEGIN IMMEDIATE; ");
    else if (!was_open && n > 0)
        rt_stmt_add(&s->q, "START TRANSACTION; ");
    write_marks(s, &m);
    if (!lite && (was_open || n > 0))
        rt_stmt_add(&s->q, "COMMIT; ");
    if (limit > 0) {
        uint32_t share = stale_is_due(s) ? (limit + 1) / 2 : 0;
        begin_claim(s);
        fresh = next++;
        add_select(s, RT_EVENT_NEW, limit);
        if (share > 0) {
            stale = next++;
            add_select(s, RT_EVENT_PUBLISHED, share);
        }
        if (lists_keys(s)) {
            keys = next++;
            add_keys(s);
        }
    } else if (lite) {
        release_lease(s);
    }
    if (lite)
        rt_stmt_add(&s->q, "COMMIT; ");
    s->row_count = 0;
    if (s->q.size == 0) {
        if (count != NULL)
            *count = 0;
        return 0;
    }
    s->open = !lite;
    err = rt_store_say(s);
    if (err != 0)
        return err;
    s->open = !lite && limit > 0;
    err = read_claim(s, fresh, stale, keys);
    s->row_count = s->row_count < limit ? s->row_count : limit; /* the last are let go */
    if (err == 0 && rows != NULL)
        *rows = s->rows;
    if (err == 0 && count != NULL)
        *count = s->row_count;
    return err;
}
