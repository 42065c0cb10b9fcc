/* SPDX-License-Identifier: Apache-2.0 */
/* Everything asked besides claims: what is processed, clean-up, and the rows that the command shows and resets. */
#include "txn/event/store_inside.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 100
#define REPLAY_PAGE 1000
#define TROUBLE_PAGE 1000

/* ---- Processed and clean-up --------------------------------------------------------------- */

static int process(struct rt_store *s, const char *const *event_ids, size_t n, uint64_t *changed)
{
    int err = rt_store_settle(s);
    bool some = err == 0 && n > 0 && rt_event_process(&s->q, &s->map, event_ids, n, s->form);

    if (some)
        err = rt_store_say(s);
    *changed = some && err == 0 ? s->said.affected : 0;
    return err;
}

/* A column of numbers refuses any other text. Then the ids go one by one: an id that the column refuses is not in
 * it. */
int rt_store_processed(struct rt_store *s, const char *const *event_ids, size_t n,
                       uint64_t *changed)
{
    uint64_t one, all = 0;
    int err = process(s, event_ids, n, &all);

    if (err != 0 && s->no_value)
        err = 0;
    else
        n = 0;
    for (size_t i = 0; i < n && err == 0; i++) {
        err = process(s, event_ids + i, 1, &one);
        all += one;
        if (err != 0 && s->no_value)
            err = 0;
    }
    if (err == 0 && changed != NULL)
        *changed = all;
    return err;
}

static void add_old(struct rt_store *s, enum rt_event_state state, int64_t ms, uint32_t page)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, state);
    rt_stmt_add(q, " AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, NULL);
    rt_stmt_add(q, " < ");
    rt_stmt_before(q, ms);
    rt_stmt_add(q, " ORDER BY ");
    rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, NULL);
    rt_stmt_add(q, " LIMIT %" PRIu32, page);
}

/* " IN (1, 2)" with the ids of the first result. False: it has none. */
static bool add_result_ids(struct rt_store *s)
{
    size_t n = s->result_count > 0 ? s->results[0].rows : 0;

    for (size_t i = 0; i < n; i++)
        rt_stmt_add(&s->q, "%s%" PRId64, i == 0 ? " IN (" : ", ",
                    rt_store_number(rt_store_cell(s, 0, i, 0), 0));
    rt_stmt_add(&s->q, n > 0 ? ")" : "");
    return n > 0;
}

/* Rows of trouble whose events are over: few, or none. They are looked up first: MariaDB locks what a DELETE reads,
 * even the events of a subquery, and would wait for all that are claimed. */
static int clean_troubles(struct rt_store *s)
{
    struct rt_stmt *q = &s->q;

    int err = rt_store_begin(s);
    if (err != 0)
        return err;
    rt_stmt_add(q, "SELECT event FROM " RT_EVENT_TROUBLE " WHERE ");
    rt_store_add_source(s);
    rt_stmt_add(q, " IS NOT NULL AND NOT EXISTS (SELECT 1");
    rt_store_add_table(s);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, " = " RT_EVENT_TROUBLE ".event AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, " <> ");
    rt_stmt_state(q, &s->map, RT_EVENT_PROCESSED);
    rt_stmt_add(q, ") LIMIT %d", TROUBLE_PAGE);
    err = rt_store_say(s);
    if (err != 0)
        return err;
    rt_stmt_clear(q);
    rt_stmt_add(q, "DELETE FROM " RT_EVENT_TROUBLE " WHERE ");
    rt_store_add_source(s);
    return add_result_ids(s) ? rt_store_say(s) : 0;
}

/* MariaDB. A DELETE waits for locks that it meets on its way, including those of claims: the search for stale rows
 * locks the entry behind the last published one, which is the first that is over. So rows are locked first, without
 * waiting, and then deleted by id. Two round trips. */
static int delete_locked(struct rt_store *s, enum rt_event_state state, int64_t ms, uint32_t page,
                         uint64_t *went)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "START TRANSACTION; SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, NULL);
    rt_stmt_add(q, " FROM ");
    rt_stmt_table(q, s->map.table);
    rt_store_add_index(s, 1);
    add_old(s, state, ms, page);
    rt_stmt_add(q, " FOR UPDATE SKIP LOCKED");
    s->open = true;
    int err = rt_store_say(s);
    if (err != 0)
        return err;
    size_t n = s->result_count > 0 ? s->results[0].rows : 0;
    rt_stmt_clear(q);
    for (size_t i = 0; i < n; i++)
        rt_stmt_add(q, "%s(%" PRId64 ")", i == 0 ? "DELETE e FROM (VALUES " : ", ",
                    rt_store_number(rt_store_cell(s, 0, i, 0), 0));
    if (n > 0) { /* row by row: for IN (...) it would read, and lock, all of a short table */
        rt_stmt_add(q, ") AS o STRAIGHT_JOIN ");
        rt_stmt_table(q, s->map.table);
        rt_stmt_add(q, " AS e");
        rt_store_add_index(s, 3);
        rt_stmt_add(q, " ON ");
        rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
        rt_stmt_add(q, " = o.`%" PRId64 "`; ", rt_store_number(rt_store_cell(s, 0, 0, 0), 0));
    }
    rt_stmt_add(q, "COMMIT");
    err = rt_store_say(s);
    s->open = false;
    *went = n;
    return err;
}

static void add_delete(struct rt_store *s, enum rt_event_state state, int64_t ms, uint32_t page)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "DELETE FROM ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, NULL);
    rt_stmt_add(q, " IN (SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, NULL);
    rt_stmt_add(q, " FROM ");
    rt_stmt_table(q, s->map.table);
    add_old(s, state, ms, page);
    rt_stmt_add(q, q->dialect == RT_STMT_POSTGRES ? " FOR UPDATE SKIP LOCKED)" : ")");
}

int rt_store_clean(struct rt_store *s, int64_t older_than_ms, uint32_t page, uint64_t *gone)
{
    enum rt_event_state state = s->o.until_published ? RT_EVENT_PUBLISHED : RT_EVENT_PROCESSED;
    int err = rt_store_settle(s);

    if (err == 0 && !rt_store_has(s, RT_COLUMN_UPDATED))
        return rt_store_fail(s, ROTA_UNSUPPORTED,
                             "the map of %s has no `updated`: it is not known what is old",
                             s->map.table);
    if (err != 0)
        return err;
    uint64_t went = 0;
    if (s->kind->dialect == RT_STMT_MYSQL) {
        err = delete_locked(s, state, older_than_ms, page, &went);
    } else {
        add_delete(s, state, older_than_ms, page);
        err = rt_store_say(s);
        went = s->said.affected;
    }
    if (err == 0 && went < page)
        err = clean_troubles(s);
    if (err == 0)
        *gone = went;
    return err;
}

/* ---- Items -------------------------------------------------------------------------------- */

enum {
    ITEM_ID,
    ITEM_STATE,
    ITEM_EVENT_ID,
    ITEM_TOPIC,
    ITEM_KEY,
    ITEM_TYPE,
    ITEM_SIZE,
    ITEM_AGE,
    ITEM_CHANGED,
    ITEM_ATTEMPTS,
    ITEM_NEXT,
    ITEM_REASON,
    ITEM_DEAD,
    ITEM_PAYLOAD
};

/* INDEX: MariaDB's, as for rt_store_add_index; -1: it chooses. */
static void add_item_columns(struct rt_store *s, bool payload, int index)
{
    static const enum rt_event_column plain[] = {RT_COLUMN_TOPIC, RT_COLUMN_KEY, RT_COLUMN_TYPE};
    static const char *const sizes[] = {[RT_STMT_MYSQL] = "OCTET_LENGTH(",
                                        [RT_STMT_POSTGRES] = "octet_length(",
                                        [RT_STMT_SQLITE] = "length(CAST("};
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "SELECT ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, ", ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
    rt_stmt_add(q, ", ");
    rt_store_add_event_id(s);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        rt_stmt_add(q, ", ");
        rt_stmt_column(q, &s->map, plain[i], "e");
    }
    rt_stmt_add(q, ", %s", sizes[q->dialect]);
    rt_stmt_column(q, &s->map, RT_COLUMN_PAYLOAD, "e");
    if (q->dialect == RT_STMT_POSTGRES && !s->bytea)
        rt_stmt_add(q, "::text"); /* as it is in a message, whatever its type */
    rt_stmt_add(q, q->dialect == RT_STMT_SQLITE ? " AS BLOB)), " : "), ");
    rt_store_add_age(s, RT_COLUMN_CREATED);
    rt_stmt_add(q, ", ");
    rt_store_add_age(s, RT_COLUMN_UPDATED);
    rt_stmt_add(q, ", t.attempts, t.next_at_ms - %s, t.reason, t.dead, ",
                rt_stmt_now_ms(q->dialect));
    if (payload)
        rt_stmt_column(q, &s->map, RT_COLUMN_PAYLOAD, "e");
    else
        rt_stmt_add(q, "NULL");
    rt_store_add_table(s);
    if (index >= 0)
        rt_store_add_index(s, index);
    rt_stmt_add(q, " LEFT JOIN " RT_EVENT_TROUBLE " t ON t.");
    rt_store_add_source(s);
    rt_stmt_add(q, " = ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
}

static enum rt_event_state state_of(const struct rt_store *s, const struct rt_cell *cell)
{
    for (int i = 0; i < RT_EVENT_STATES; i++)
        if (cell->text != NULL && s->map.states[i][0] != '\0' &&
            strcmp(cell->text, s->map.states[i]) == 0)
            return (enum rt_event_state)i;
    return RT_EVENT_STATES; /* a value that the map does not know */
}

static void read_item(struct rt_store *s, size_t i)
{
    const struct rt_cell *cells = rt_store_cell(s, 0, i, 0);
    struct rt_store_item *item = &s->items[i];
    int64_t next = rt_store_number(&cells[ITEM_NEXT], 0);
    bool dead = rt_store_number(&cells[ITEM_DEAD], 0) != 0;

    *item = (struct rt_store_item){.id = rt_store_number(&cells[ITEM_ID], 0),
                                   .state = state_of(s, &cells[ITEM_STATE]),
                                   .topic = cells[ITEM_TOPIC].text != NULL ? cells[ITEM_TOPIC].text
                                                                           : "",
                                   .key = cells[ITEM_KEY].text,
                                   .type = cells[ITEM_TYPE].text,
                                   .size = (size_t)rt_store_number(&cells[ITEM_SIZE], 0),
                                   .payload = cells[ITEM_PAYLOAD].text,
                                   .age_ms = rt_store_number(&cells[ITEM_AGE], -1),
                                   .changed_ms = rt_store_number(&cells[ITEM_CHANGED], -1),
                                   .attempts = (uint32_t)rt_store_number(&cells[ITEM_ATTEMPTS], 0),
                                   .next_in_ms = next > 0 && !dead ? next : 0,
                                   .reason = cells[ITEM_REASON].text};
    if (dead && item->state == RT_EVENT_NEW)
        item->state = RT_EVENT_DEAD;
    if (item->payload != NULL)
        item->size = cells[ITEM_PAYLOAD].size;
    item->event_id = rt_store_event_id(s, i, &cells[ITEM_EVENT_ID], item->id);
}

static int read_items(struct rt_store *s, size_t *count)
{
    int err = rt_store_say(s);
    size_t n = err == 0 && s->result_count > 0 ? s->results[0].rows : 0;

    if (err == 0 && !rt_store_make_room(s, 0, n))
        err = rt_store_fail(s, ROTA_NOMEM, "out of memory");
    for (size_t i = 0; err == 0 && i < n; i++)
        read_item(s, i);
    if (err == 0)
        *count = n;
    return err;
}

static void add_value_filter(struct rt_store *s, enum rt_event_column column, const char *value)
{
    if (value == NULL)
        return;
    rt_stmt_add(&s->q, " AND ");
    rt_stmt_column(&s->q, &s->map, column, "e"); /* NULL, if there is no such column: none has it */
    rt_stmt_add(&s->q, " = ");
    rt_stmt_sought(&s->q, value);
    if (column == RT_COLUMN_KEY && s->loose) {
        rt_stmt_add(&s->q, " AND ");
        rt_stmt_column(&s->q, &s->map, column, "e");
        rt_stmt_add(&s->q, " COLLATE \"C\" = ");
        rt_stmt_text(&s->q, value);
    }
}

/* One state at a time, so that the index gives the order; for all states, by the id itself. */
static void add_state_filter(struct rt_store *s, const struct rt_store_filter *f, unsigned state)
{
    struct rt_stmt *q = &s->q;
    bool hidden = state == RT_EVENT_DEAD && s->map.states[RT_EVENT_DEAD][0] == '\0';

    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(q, " > %" PRId64, f->after);
    if (state < RT_EVENT_STATES) {
        rt_stmt_add(q, " AND ");
        rt_stmt_column(q, &s->map, RT_COLUMN_STATE, "e");
        rt_stmt_add(q, " = ");
        rt_stmt_state(q, &s->map, hidden ? RT_EVENT_NEW : (enum rt_event_state)state);
    }
    if (hidden)
        rt_stmt_add(q, " AND t.dead = 1");
    else if (state == RT_EVENT_NEW && s->map.states[RT_EVENT_DEAD][0] == '\0')
        rt_stmt_add(q, " AND COALESCE(t.dead, 0) = 0");
    add_value_filter(s, RT_COLUMN_TOPIC, f->topic);
    add_value_filter(s, RT_COLUMN_KEY, f->key);
}

/* PostgreSQL has no index of published rows by id, and would rather read all rows by id until it has enough, although
 * the published ones come last. `+ 0` makes it sort the published ones, which are few. */
static void add_page(struct rt_store *s, unsigned state, uint32_t limit)
{
    bool sorted = s->q.dialect == RT_STMT_POSTGRES && state == RT_EVENT_PUBLISHED;

    rt_stmt_add(&s->q, " ORDER BY ");
    rt_stmt_column(&s->q, &s->map, RT_COLUMN_ID, "e");
    rt_stmt_add(&s->q, "%s LIMIT %" PRIu32, sorted ? " + 0" : "", limit);
}

static int by_id(const void *left, const void *right)
{
    const struct rt_store_item *l = left, *r = right;

    return (l->id > r->id) - (l->id < r->id);
}

/* Several states: a page of each in one round trip; the first rows of all these are the page. */
static int list_states(struct rt_store *s, const struct rt_store_filter *f, uint32_t limit,
                       size_t *count)
{
    size_t n = 0;

    for (unsigned i = 0; i < RT_EVENT_STATES; i++) {
        if ((f->states & (1U << i)) == 0)
            continue;
        add_item_columns(s, false, f->key != NULL && s->index[2][0] != '\0' ? 2 : 0);
        add_state_filter(s, f, i);
        add_page(s, i, limit);
        rt_stmt_add(&s->q, "; ");
    }
    int err = rt_store_say(s);
    for (size_t i = 0; err == 0 && i < s->result_count; i++)
        n += s->results[i].rows;
    if (err == 0 && !rt_store_make_room(s, 0, n))
        err = rt_store_fail(s, ROTA_NOMEM, "out of memory");
    if (err != 0)
        return err;
    struct rt_result all[RT_STORE_RESULTS];
    struct rt_store_item *items = s->items;
    char(*ids)[RT_EVENT_ID] = s->ids;
    memcpy(all, s->results, sizeof(all));
    for (size_t i = 0; i < s->result_count; i++) { /* each is read as if it were the only one */
        s->results[0] = all[i];
        for (size_t row = 0; row < all[i].rows; row++)
            read_item(s, row);
        s->items += all[i].rows;
        s->ids += all[i].rows;
    }
    memcpy(s->results, all, sizeof(all));
    s->items = items;
    s->ids = ids;
    if (n > 0)
        qsort(s->items, n, sizeof(*s->items), by_id);
    *count = n < limit ? n : limit;
    return 0;
}

int rt_store_list(struct rt_store *s, const struct rt_store_filter *filter,
                  const struct rt_store_item **items, size_t *count)
{
    uint32_t limit = filter->limit != 0 ? filter->limit : PAGE;
    uint32_t all = (1U << RT_EVENT_STATES) - 1;
    int err = rt_store_settle(s);

    if (err != 0)
        return err;
    if ((filter->states & all) != 0 && (filter->states & all) != all) {
        err = list_states(s, filter, limit, count);
    } else {
        add_item_columns(s, false, -1);
        add_state_filter(s, filter, RT_EVENT_STATES);
        add_page(s, RT_EVENT_STATES, limit);
        err = read_items(s, count);
    }
    if (err == 0)
        *items = s->items;
    return err;
}

/* EVENT_ID as a condition on the table without an alias. False: it cannot be this table's. */
static bool add_which(struct rt_store *s, const char *event_id)
{
    char *end = NULL;
    int64_t row = strtoll(event_id, &end, 10);
    bool number = event_id[0] >= '0' && event_id[0] <= '9' && *end == '\0' && strlen(event_id) < 20;

    if (!number || (rt_event_id_is_uuid(event_id, NULL) && s->form == RT_FORM_UUID))
        return rt_event_which(&s->q, &s->map, &event_id, 1, s->form);
    rt_stmt_column(&s->q, &s->map, RT_COLUMN_ID, NULL);
    rt_stmt_add(&s->q, " = %" PRId64, row);
    return true;
}

int rt_store_show(struct rt_store *s, const char *event_id, const struct rt_store_item **item)
{
    size_t n = 0;
    int err = rt_store_settle(s);

    if (err != 0)
        return err;
    add_item_columns(s, true, -1);
    rt_stmt_add(&s->q, " WHERE ");
    if (!add_which(s, event_id)) {
        *item = NULL;
        return 0;
    }
    err = read_items(s, &n);
    if (err == 0)
        *item = n > 0 ? s->items : NULL;
    return err;
}

/* ---- Replay ------------------------------------------------------------------------------- */

static void add_rows(struct rt_store *s, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rt_stmt_add(&s->q, "%s%" PRId64, i > 0 ? ", " : " IN (", ids[i]);
    rt_stmt_add(&s->q, ")");
}

/* UPDATE ... SET state = new, updated = now WHERE id IN (...) AND state = FROM */
static void add_renew(struct rt_store *s, const int64_t *ids, size_t n, enum rt_event_state from)
{
    struct rt_stmt *q = &s->q;

    rt_stmt_add(q, "UPDATE ");
    rt_stmt_table(q, s->map.table);
    rt_stmt_add(q, " SET ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, RT_EVENT_NEW);
    if (rt_store_has(s, RT_COLUMN_UPDATED)) {
        rt_stmt_add(q, ", ");
        rt_stmt_column(q, &s->map, RT_COLUMN_UPDATED, NULL);
        rt_stmt_add(q, " = %s", rt_stmt_now(q->dialect));
    }
    rt_stmt_add(q, " WHERE ");
    rt_stmt_column(q, &s->map, RT_COLUMN_ID, NULL);
    add_rows(s, ids, n);
    rt_stmt_add(q, " AND ");
    rt_stmt_column(q, &s->map, RT_COLUMN_STATE, NULL);
    rt_stmt_add(q, " = ");
    rt_stmt_state(q, &s->map, from);
}

/* One transaction removes the trouble and sets the state: a relay sees both, or neither. An UPDATE wakes nobody by
 * itself. */
int rt_store_replay_rows(struct rt_store *s, const int64_t *ids, size_t n, enum rt_event_state from,
                         uint64_t *changed)
{
    struct rt_stmt *q = &s->q;
    int err = rt_store_settle(s);

    assert(from < RT_EVENT_STATES);
    if (err == 0 && n == 0)
        *changed = 0;
    if (err != 0 || n == 0)
        return err;
    rt_stmt_add(q, q->dialect == RT_STMT_SQLITE ? "BEGIN IMMEDIATE; " : "START TRANSACTION; ");
    rt_stmt_add(q, q->dialect == RT_STMT_POSTGRES ? "NOTIFY " RT_EVENT_CHANNEL "; " : "");
    rt_stmt_add(q, "DELETE FROM " RT_EVENT_TROUBLE " WHERE ");
    rt_store_add_source(s);
    add_rows(s, ids, n);
    if (from == RT_EVENT_NEW) /* a relay may have given it up meanwhile: then its reason stays */
        rt_stmt_add(q, " AND dead = 0");
    if (from != RT_EVENT_NEW && s->map.states[from][0] != '\0') {
        rt_stmt_add(q, "; ");
        add_renew(s, ids, n, from);
    }
    s->open = true;
    err = rt_store_say(s);
    uint64_t rows = s->said.affected;
    if (err == 0)
        err = rt_store_settle(s);
    if (err == 0)
        *changed = rows;
    return err;
}

int rt_store_replay(struct rt_store *s, const char *event_id, uint64_t *changed)
{
    const struct rt_store_filter dead = {.states = 1U << RT_EVENT_DEAD, .limit = REPLAY_PAGE};
    const struct rt_store_item *items = NULL;
    enum rt_event_state from = RT_EVENT_DEAD;
    int64_t ids[REPLAY_PAGE];
    size_t n = 0;
    int err;

    if (event_id != NULL) {
        err = rt_store_show(s, event_id, &items);
        n = err == 0 && items != NULL && items->state < RT_EVENT_STATES;
        from = n > 0 ? items->state
                     : from; /* a row that is new may be in trouble: it need not wait */
    } else {
        err = rt_store_list(s, &dead, &items, &n);
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = items[i].id;
    return err == 0 ? rt_store_replay_rows(s, ids, n, from, changed) : err;
}
