/* SPDX-License-Identifier: Apache-2.0 */
/* A turn: marks, COMMIT, and the next claim, in one round trip.
 *
 *   [BEGIN] UPDATE ... published; DELETE, INSERT ... trouble; COMMIT;
 *   BEGIN; SELECT new ... FOR UPDATE SKIP LOCKED [; SELECT stale ... FOR UPDATE SKIP LOCKED] [; SELECT keys UNION ALL prevs]
 *
 * A scalar subquery finds which row of a key goes before another (`prev`). In PostgreSQL a claimed row and the row
 * before it are from one snapshot. MariaDB locks the latest rows, but its subqueries use a view of the table that is
 * made at the first row: a row that was passed over, because it was not committed or was somebody else's, may be
 * committed before a later one of its key is reached, and the view does not have it. So there one statement after the
 * locks asks for `prev`: READ COMMITTED gives it a view of its own, which has everything that was committed before any
 * claimed row, and each row that dies, or becomes new again, in one state. Nor does MariaDB use the last column of an
 * index for "id < the outer row's" in a subquery: it would read all rows of a key for each row claimed. So it returns
 * the ids and keys of all new rows up to the last one claimed, and this file works out which row is before which. */
#include "txn/event/store_inside.h"

#include "base/alloc.h"
#include "base/utf8.h"
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

/* " IN (1, 2)" with the marks that are WHAT; there is at least one. PostgreSQL reads one array a good deal faster than
 * as many numbers. */
static void add_ids(struct rt_store *s, const struct marks *m, unsigned what)
{
    bool array = s->kind->dialect == RT_STMT_POSTGRES;
    const char *before = array ? " = ANY ('{" : " IN (";

    for (size_t i = 0; i < m->n; i++)
        if ((what & (1U << m->all[i].what)) != 0) {
            rt_stmt_add(&s->q, "%s%" PRId64, before, m->all[i].id);
            before = ",";
        }
    rt_stmt_add(&s->q, array ? "}'::bigint[])" : ")");
}

static bool has_any(const struct marks *m, unsigned what)
{
    for (size_t i = 0; i < m->n; i++)
        if ((what & (1U << m->all[i].what)) != 0)
            return true;
    return false;
}

/* A processed row stays so. */
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

    rt_utf8_clean(mark->reason != NULL ? mark->reason : "", reason, sizeof(reason));
    rt_stmt_add(q, "(");
    rt_stmt_text(q, s->map.table);
    rt_stmt_add(q, ", %" PRId64 ", %d, %s + %" PRId64 ", %d, ", mark->id,
                mark->what != RT_MARK_ASIDE, rt_stmt_now_ms(q->dialect),
                mark->what == RT_MARK_DEAD ? 0 : mark->next_in_ms, mark->what == RT_MARK_DEAD);
    rt_stmt_text(q, reason);
    rt_stmt_add(q, ")");
}

static void mark_troubles(struct rt_store *s, const struct marks *m)
{
    unsigned what = 1U << RT_MARK_TROUBLE | 1U << RT_MARK_ASIDE | 1U << RT_MARK_DEAD;
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
        rt_stmt_add(q,
                    " ON DUPLICATE KEY UPDATE attempts = attempts + VALUES(attempts), next_at_ms = "
                    "VALUES(next_at_ms), dead = VALUES(dead), reason = VALUES(reason); ");
    else
        rt_stmt_add(
            q,
            " ON CONFLICT (source, event) DO UPDATE SET attempts = " RT_EVENT_TROUBLE
            ".attempts + excluded.attempts, next_at_ms = excluded.next_at_ms, dead = excluded.dead, "
            "reason = excluded.reason; ");
}

/* For rows whose trouble is over. Rows of another claim may have trouble, too. */
static void forget_troubles(struct rt_store *s, const struct marks *m)
{
    bool known = true, some = false;

    for (size_t i = 0; i < s->row_count; i++)
        some = some || s->rows[i].troubled;
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

/* The row of e's key in STATE that is closest before it; MariaDB: the first of them all. 0 (MariaDB: the largest):
 * none. */
static void add_term(struct rt_store *s, enum rt_event_state state)
{
    bool first = s->kind->dialect == RT_STMT_MYSQL;
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "COALESCE((SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
    rt_stmt_add(q, " FROM ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " p");
    if (rt_store_has(s, RT_COLUMN_KEY)) /* left to itself it may read all rows of the state */
        rt_store_add_index(s, 2);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "p");
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    if (rt_store_has(s, RT_COLUMN_KEY)) {
        rt_stmt_add(q, " AND ");
        rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "p");
        rt_stmt_add(q, " = ");
        rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "e");
        if (first) { /* the collation finds the index, the bytes decide: as lanes tell keys apart */
            rt_stmt_add(q, " AND BINARY ");
            rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "p");
            rt_stmt_add(q, " = BINARY ");
            rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "e");
        } else if (s->loose) {
            rt_stmt_add(q, " AND ");
            rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "p");
            rt_stmt_add(q, " COLLATE \"C\" = ");
            rt_stmt_column(q, &s->map, RT_COLUMN_KEY, "e");
            rt_stmt_add(q, " COLLATE \"C\"");
        }
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

/* MariaDB lists the new rows; it asks for those that cannot be in the same claim. */
static bool lists_keys(const struct rt_store *s)
{
    return s->kind->dialect == RT_STMT_MYSQL && is_ordered(s) && !s->o.strict_order;
}

static bool dead_state_blocks(const struct rt_store *s)
{
    return s->o.dead_blocks && !hides_dead(s);
}

static bool asks_prevs(const struct rt_store *s)
{
    return s->kind->dialect == RT_STMT_MYSQL && is_ordered(s) &&
           (s->o.strict_order || dead_state_blocks(s));
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
    if (is_ordered(s) && dead_state_blocks(s))
        states[n++] = RT_EVENT_DEAD;
    if (n == 0)
        rt_stmt_add(&s->q, "0");
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

enum { COL_ID, COL_PREV, COL_ATTEMPTS, COL_EVENT_ID, COL_TOPIC, COL_KEY, COL_TYPE, COL_PAYLOAD };

static void add_columns(struct rt_store *s)
{
    static const enum rt_event_column plain[] = {RT_COLUMN_TOPIC, RT_COLUMN_KEY, RT_COLUMN_TYPE,
                                                 RT_COLUMN_PAYLOAD};
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, ", ");
    if (q->dialect == RT_STMT_MYSQL)
        rt_stmt_add(q, "0");
    else
        add_prev(s);
    rt_stmt_add(q, ", (SELECT t.attempts FROM " RT_EVENT_TROUBLE " t WHERE t.");
    rt_store_add_source(s);
    rt_stmt_add(q, " = ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, "), ");
    rt_store_add_event_id(s);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        rt_stmt_add(q, ", ");
        rt_stmt_column(q, &s->map, plain[i], "e");
    }
    if (lists_keys(s)) {
        rt_stmt_add(q, ", @rota_last := GREATEST(@rota_last, ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
        rt_stmt_add(q, ")");
    }
    if (asks_prevs(s)) { /* the length: all of the list would come with each row */
        rt_stmt_add(q, ", LENGTH(@rota_ids := CONCAT(@rota_ids, ',', ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
        rt_stmt_add(q, "))");
    }
}

/* FROM the rows. PostgreSQL computes a column even for a row that it then finds locked, and passes over. So there an
 * inner SELECT locks the rows, with the columns that the outer one asks for, each once. */
static void add_from(struct rt_store *s)
{
    const char *between = " FROM (SELECT ";

    for (int i = 0; s->kind->dialect == RT_STMT_POSTGRES && i < RT_COLUMN_STATE; i++) {
        bool wanted = rt_store_has(s, (enum rt_event_column)i);
        for (int k = 0; k < i && wanted; k++)
            wanted = !rt_store_has(s, (enum rt_event_column)k) ||
                     strcmp(s->map.columns[i].text, s->map.columns[k].text) != 0;
        if (!wanted)
            continue;
        rt_stmt_add(&s->q, "%s", between);
        rt_stmt_column(&s->q, &s->map, (enum rt_event_column)i, "e");
        between = ", ";
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
                                        [RT_STMT_POSTGRES] = " FOR UPDATE OF e SKIP LOCKED) e; ",
                                        [RT_STMT_SQLITE] = "; "};
    bool stale = state == RT_EVENT_PUBLISHED;
    struct rt_stmt *q = &s->q;

    add_columns(s);
    add_from(s);
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

/* For each claimed row, the one before it, in a view that is made now, after the locks. */
static void add_prevs(struct rt_store *s)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "SELECT STRAIGHT_JOIN ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, ", ");
    add_prev(s);
    rt_stmt_add(
        q, ", NULL FROM JSON_TABLE(CONCAT('[', @rota_ids, ']'), '$[*]' COLUMNS (id BIGINT PATH "
           "'$')) c JOIN ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " e ON ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, " = c.id");
}

/* All new rows up to the last one claimed, ours and others': which row has which key. */
static void add_keys(struct rt_store *s)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "p");
    rt_stmt_add(q, ", NULL, ");
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
}

/* Both in one statement, and so in one view: a row that is new in one and dead in the next would be in neither. */
static void add_befores(struct rt_store *s)
{
    if (lists_keys(s))
        add_keys(s);
    if (lists_keys(s) && asks_prevs(s))
        rt_stmt_add(&s->q, " UNION ALL ");
    if (asks_prevs(s))
        add_prevs(s);
    rt_stmt_add(&s->q, "; ");
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

enum { BEFORE_ID, BEFORE_PREV, BEFORE_KEY }; /* a row has a key, or the answer for its id */

static int keyed_by_id(const void *left, const void *right)
{
    const struct keyed *l = left, *r = right;

    return (l->id > r->id) - (l->id < r->id);
}

/* The keys of the claimed rows as LIST has them: a UNION may write a number in another way than the claim (ZEROFILL). */
static void find_keys(const struct rt_store *s, struct keyed *list, size_t n, const char **keys)
{
    qsort(list, n, sizeof(*list), keyed_by_id);
    for (size_t i = 0; i < s->row_count; i++) {
        const struct keyed want = {.id = s->rows[i].id};
        const struct keyed *own = bsearch(&want, list, n, sizeof(*list), keyed_by_id);
        keys[i] = own != NULL ? own->key : s->rows[i].key;
    }
}

static int find_prevs(struct rt_store *s, size_t result)
{
    size_t n = 0, rows = s->results[result].rows;
    struct keyed *list = rt_alloc((rows + 1) * sizeof(*list));
    const char **keys = rt_alloc((s->row_count + 1) * sizeof(*keys));
    int err = list != NULL && keys != NULL ? 0 : rt_store_fail(s, ROTA_NOMEM, "out of memory");

    for (size_t i = 0; err == 0 && i < rows; i++) {
        const struct rt_cell *cells = rt_store_cell(s, result, i, 0);
        if (cells[BEFORE_KEY].text != NULL)
            list[n++] = (struct keyed){.key = cells[BEFORE_KEY].text,
                                       .id = rt_store_number(&cells[BEFORE_ID], 0)};
    }
    if (err == 0) {
        find_keys(s, list, n, keys);
        qsort(list, n, sizeof(*list), by_key);
    }
    for (size_t i = 0; err == 0 && i < s->row_count; i++)
        if (s->rows[i].key != NULL && s->rows[i].prev == 0)
            s->rows[i].prev = before(list, n, keys[i], s->rows[i].id);
    rt_free(list);
    rt_free(keys);
    return err;
}

static bool has_zero(const struct rt_cell *cell)
{
    return cell->text != NULL && strlen(cell->text) != cell->size;
}

static void read_row(struct rt_store *s, size_t result, size_t row, bool again)
{
    const struct rt_cell *cells = rt_store_cell(s, result, row, 0);
    struct rt_store_row *r = &s->rows[s->row_count];
    int64_t prev = rt_store_number(&cells[COL_PREV], 0);

    *r = (struct rt_store_row){.id = rt_store_number(&cells[COL_ID], 0),
                               .attempts = (uint32_t)rt_store_number(&cells[COL_ATTEMPTS], 0),
                               .troubled = cells[COL_ATTEMPTS].text != NULL,
                               .again = again,
                               .topic = cells[COL_TOPIC].text != NULL ? cells[COL_TOPIC].text : "",
                               .key = cells[COL_KEY].text,
                               .type = cells[COL_TYPE].text,
                               .payload = cells[COL_PAYLOAD].text != NULL ? cells[COL_PAYLOAD].text
                                                                          : "",
                               .size = cells[COL_PAYLOAD].size};
    r->prev = r->key != NULL && prev < r->id ? prev : 0;
    r->event_id = rt_store_event_id(s, s->row_count, &cells[COL_EVENT_ID], r->id);
    r->cut = cells[COL_EVENT_ID].size >= RT_EVENT_ID || has_zero(&cells[COL_EVENT_ID]) ||
             has_zero(&cells[COL_KEY]);
    s->row_count++;
}

static int by_id(const void *left, const void *right)
{
    const struct rt_store_row *l = left, *r = right;

    return (l->id > r->id) - (l->id < r->id);
}

/* Each claimed row must have an answer; else the server has cut the list of ids, and no order is known. */
static int take_prevs(struct rt_store *s, size_t result)
{
    size_t answers = 0;

    for (size_t i = 0; i < s->results[result].rows; i++) {
        const struct rt_cell *cells = rt_store_cell(s, result, i, 0);
        const struct rt_store_row want = {.id = rt_store_number(&cells[BEFORE_ID], 0)};
        if (cells[BEFORE_KEY].text != NULL)
            continue;
        struct rt_store_row *r = bsearch(&want, s->rows, s->row_count, sizeof(want), by_id);
        int64_t prev = rt_store_number(&cells[BEFORE_PREV], 0);

        answers += r != NULL;
        if (r != NULL && r->key != NULL && prev < r->id)
            r->prev = prev;
    }
    if (answers == s->row_count)
        return 0;
    return rt_store_fail(
        s, ROTA_INVALID,
        "%s: the server told what is before %zu of %zu rows: use a smaller --batch, or "
        "a larger max_allowed_packet",
        s->map.table, answers, s->row_count);
}

struct places { /* which result has them; RT_STORE_RESULTS: none */
    size_t fresh, stale, befores;
};
static const struct places nowhere = {RT_STORE_RESULTS, RT_STORE_RESULTS, RT_STORE_RESULTS};

/* 0 means no row: in a table with that id, or a smaller one, the rows behind it would go first. */
static int check_ids(struct rt_store *s)
{
    if (s->rows[0].id > 0)
        return 0;
    return rt_store_fail(s, ROTA_INVALID, "%s has a row with the id %" PRId64 ": ids begin at 1",
                         s->map.table, s->rows[0].id);
}

static int read_claim(struct rt_store *s, const struct places *p)
{
    size_t n = 0, which[2] = {p->fresh, p->stale};

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
    int err = check_ids(s);
    if (err == 0 && p->befores != RT_STORE_RESULTS && p->befores >= s->result_count)
        err = rt_store_fail(s, ROTA_PROTOCOL, "%s: the server did not say what is before its rows",
                            s->map.table);
    if (err == 0 && asks_prevs(s))
        err = take_prevs(s, p->befores);
    return err == 0 && lists_keys(s) ? find_prevs(s, p->befores) : err;
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

/* Lets go of the lease, when no rows are wanted. No other table has a lease with the same owner: an owner is a
 * store. */
static void release_lease(struct rt_store *s)
{
    rt_stmt_add(&s->q, "DELETE FROM " RT_EVENT_RELAY " WHERE owner = '%s'; ", s->owner);
}

/* PostgreSQL need not have the marks on disk when it goes on: if it dies it forgets only the very last ones, and what
 * is not marked is published again, as after any crash. Whatever rests on them (processed, say) is committed later and
 * written with them. So the next claim does not wait for the disk. */
static void begin_transaction(struct rt_store *s)
{
    rt_stmt_add(&s->q, "%s",
                s->kind->dialect == RT_STMT_POSTGRES
                    ? "START TRANSACTION; SET LOCAL synchronous_commit = off; "
                    : "START TRANSACTION; ");
}

static void begin_claim(struct rt_store *s)
{
    if (s->kind->dialect == RT_STMT_SQLITE) {
        write_lease(s);
        return;
    }
    rt_stmt_add(&s->q, "%s", lists_keys(s) ? "SET @rota_last = 0; " : "");
    rt_stmt_add(&s->q, "%s", asks_prevs(s) ? "SET @rota_ids = '0'; " : "");
    begin_transaction(s);
}

static struct places write_claim(struct rt_store *s, uint32_t limit)
{
    struct places p = nowhere;
    uint32_t share = stale_is_due(s) ? (limit + 1) / 2 : 0;
    size_t next = 0;

    begin_claim(s);
    p.fresh = next++;
    add_select(s, RT_EVENT_NEW, limit);
    if (share > 0) {
        p.stale = next++;
        add_select(s, RT_EVENT_PUBLISHED, share);
    }
    if (lists_keys(s) || asks_prevs(s)) {
        p.befores = next;
        add_befores(s);
    }
    return p;
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
    struct places places = nowhere;

    int err = rt_store_begin(s);
    if (err != 0)
        return err;
    was_open = was_open && s->open;
    if (lite)
        rt_stmt_add(&s->q, "BEGIN IMMEDIATE; ");
    else if (!was_open && n > 0)
        begin_transaction(s);
    write_marks(s, &m);
    if (!lite && (was_open || n > 0))
        rt_stmt_add(&s->q, "COMMIT; ");
    if (limit > 0)
        places = write_claim(s, limit);
    else if (lite)
        release_lease(s);
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
    err = read_claim(s, &places);
    s->row_count = s->row_count < limit ? s->row_count : limit; /* the last are let go */
    if (err == 0 && rows != NULL)
        *rows = s->rows;
    if (err == 0 && count != NULL)
        *count = s->row_count;
    return err;
}
