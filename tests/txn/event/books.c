/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, counts, clean-up; and none of it grows with what is processed. */
#include "office.h"

#include "lib/patience.h"
#include "txn/event/store_inside.h"

#include <stdio.h>
#include <string.h>

#define MANY \
    (int)rt_told_number("ROTA_ROWS", 20000) /* in the table; a planner sees few rows as a whole */

static void pages_are_by_id(void **state)
{
    const struct rt_store_item *items = NULL;
    struct rt_store_filter f = {.limit = 3};
    size_t n = 0, all = 0;
    int64_t last = 0;

    (void)state;
    office_empty();
    for (int i = 0; i < 7; i++)
        office_put("k", "some payload");
    office_admin("UPDATE rota_event SET state = 'processed' WHERE id %% 2 = 0");
    struct rt_store *s = office_store(NULL, NULL);
    do {
        f.after = last;
        assert_int_equal(rt_store_list(s, &f, &items, &n), 0);
        for (size_t i = 0; i < n; i++, all++) {
            assert_true(items[i].id > last);
            last = items[i].id;
            assert_int_equal(items[i].size, 12);
            assert_null(items[i].payload);
            assert_int_equal(items[i].state, last % 2 == 0 ? RT_EVENT_PROCESSED : RT_EVENT_NEW);
            assert_int_equal(strlen(items[i].event_id), 32);
        }
    } while (n == 3);
    assert_int_equal(all, 7);
    f = (struct rt_store_filter){.states = 1U << RT_EVENT_PROCESSED | 1U << RT_EVENT_DEAD};
    assert_int_equal(rt_store_list(s, &f, &items, &n), 0);
    assert_int_equal(n, office_count("processed"));
    struct rt_store_stats stats;
    assert_int_equal(rt_store_stats(s, &stats), 0);
    assert_int_equal(stats.counts[RT_EVENT_NEW] + stats.counts[RT_EVENT_PROCESSED], 7);
    assert_int_equal(stats.troubled, 0);
    assert_true(stats.oldest_new_ms >= 0);
    rt_store_close(s);
}

/* It was new when it was looked at, and then a relay gave it up: that stays, with its reason. */
static void a_replay_is_too_late_for_one_that_died(void **state)
{
    uint64_t changed = 1;

    (void)state;
    office_empty();
    office_put("k", "one");
    struct rt_store *s = office_store(NULL, NULL);
    struct claim c = claim(s, 1);
    int64_t row = c.rows[0].id;
    mark_all(s, &c, RT_MARK_DEAD, "refused");
    assert_int_equal(rt_store_replay_rows(s, &row, 1, RT_EVENT_NEW, &changed), 0);
    assert_int_equal(changed, 0);
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_event_trouble"), 1);
    assert_int_equal(office_count("dead"), 1);
    rt_store_close(s);
}

static void a_replay_goes_with_the_same_id(void **state)
{
    const struct rt_store_item *item = NULL;
    char id[RT_EVENT_ID];
    uint64_t changed = 0;

    (void)state;
    office_empty();
    office_put("k", "one");
    struct rt_store *s = office_store(NULL, NULL);
    struct claim c = claim(s, 1);
    snprintf(id, sizeof(id), "%s", c.rows[0].event_id);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(rt_store_replay(s, id, &changed), 0);
    assert_int_equal(changed, 1);
    assert_int_equal(rt_store_replay(s, id, &changed), 0);
    assert_int_equal(changed, 0); /* it is new */
    assert_int_equal(rt_store_replay(s, "ffffffffffffffffffffffffffffffff", &changed), 0);
    assert_int_equal(changed, 0);
    c = claim(s, 1);
    assert_string_equal(c.rows[0].event_id, id);
    let_go(s);
    assert_int_equal(rt_store_show(s, id, &item), 0);
    assert_int_equal(item->size, 3);
    assert_memory_equal(item->payload, "one", 3);
    rt_store_close(s);
}

/* Rows, all processed an hour ago. */
static void fill(int rows)
{
    static const char *const ways[][2] = {
        {"mysql", "INSERT INTO rota_event (topic, msg_key, payload, state, updated) SELECT 't', "
                  "CONCAT('k', seq %% 50), 'x', 'processed', %s FROM seq_1_to_%d"},
        {"postgres", "INSERT INTO rota_event (topic, msg_key, payload, state, updated) SELECT 't', "
                     "'k' || i %% 50, 'x', 'processed', %s FROM generate_series(1, %d) i"},
        {"sqlite",
         "INSERT INTO rota_event (topic, msg_key, payload, state, updated) WITH RECURSIVE "
         "n(i, at) AS (SELECT 1, %s UNION ALL SELECT i + 1, at FROM n WHERE i < %d) "
         "SELECT 't', 'k' || i %% 50, 'x', 'processed', at FROM n"},
    };
    char sql[500];

    for (size_t i = 0; i < 3; i++)
        if (strcmp(ways[i][0], OFFICE_WORD) == 0) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(sql, sizeof(sql), ways[i][1], HERE->aged, rows);
#pragma GCC diagnostic pop
            HERE->site->admin(sql);
        }
}

/* The plan of the WHICHth SELECT ... of what the store said last. */
static void look(void *conn, const struct rt_store *s, int which)
{
    char sql[8000], plan[8000];
    const char *at = s->q.text;

    for (int i = 0; i <= which; i++) {
        assert_non_null(at = strstr(at, "; SELECT e."));
        at += 2;
    }
    snprintf(sql, sizeof(sql), "EXPLAIN %s%.*s", HERE->rows_lock ? "" : "QUERY PLAN ",
             (int)strcspn(at, ";"), at);
    HERE->explain(conn, sql, plan, sizeof(plan));
    if (strstr(plan, HERE->by_index[which]) == NULL || strstr(plan, HERE->not_so[0]) != NULL ||
        strstr(plan, HERE->not_so[1]) != NULL)
        fail_msg("%s\n%s", sql, plan);
}

static void claims_use_their_indexes(void **state)
{
    const struct rt_store_options patient = {.call_ms = SITE_LIMIT_MS};

    (void)state;
    office_empty();
    for (int rows = 0; rows <= MANY; rows += MANY) { /* with none, and with many */
        if (rows > 0)
            fill(rows);
        for (int i = 0; i < 10; i++)
            office_put("k1", "x");
        if (strcmp(OFFICE_WORD, "postgres") == 0) /* with few rows any plan is good */
            HERE->site->admin(rows == 0 ? "SET enable_seqscan = on" : "ANALYZE rota_event");
        struct rt_store *s = office_store(NULL, &patient);
        void *conn = office_conn();
        if (strcmp(OFFICE_WORD, "postgres") == 0 && rows == 0)
            office_sql(conn,
                       "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan "
                       "= off");
        struct claim c = claim(s, 5);
        assert_int_equal(c.count, 5);
        look(conn, s, 0);
        look(conn, s, 1);
        mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
        rt_store_close(s);
        office_close(conn);
    }
}

/* The plan of what the store said last has all of WORDS (each ends with '|'), and none of NOT_SO. */
static void plan_has(void *conn, const struct rt_store *s, const char *words, const char *not_so)
{
    static char sql[16000], plans[16000], plan[8000];
    const char *at = s->q.text;
    char word[200];

    plans[0] = '\0';
    for (const char *end; *at != '\0';
         at = end + (*end == ';') + strspn(end + (*end == ';'), " ")) {
        end = at + strcspn(at, ";");
        snprintf(sql, sizeof(sql), "EXPLAIN %s%.*s", HERE->rows_lock ? "" : "QUERY PLAN ",
                 (int)(end - at), at);
        HERE->explain(conn, sql, plan, sizeof(plan));
        strncat(plans, plan, sizeof(plans) - strlen(plans) - 1);
    }
    for (int want = 1; want >= 0; want--)
        for (const char *w = want ? words : not_so; *w != '\0'; w += strcspn(w, "|") + 1) {
            snprintf(word, sizeof(word), "%.*s", (int)strcspn(w, "|"), w);
            if ((strstr(plans, word) != NULL) != want)
                fail_msg("%s '%s':\n%s\n%s", want ? "no" : "has", word, s->q.text, plans);
        }
}

/* The index finds the row, whatever its bytes are compared with after that. */
static void reports_use_the_index_on_the_id(void **state)
{
    static const char *const plans[][4] = {
        {"mysql", " range ids_eid ids_eid |", " ALL |",
         "INSERT INTO ids_event SELECT seq, CONCAT('e', seq), 't', 'new', 'x' FROM seq_1_to_5000"},
        {"postgres", "ids_eid|", "Seq Scan|",
         "INSERT INTO ids_event SELECT i, 'e' || i, 't', 'new', 'x' FROM generate_series(1, 5000) "
         "i"},
        {"sqlite", "USING INDEX ids_eid|", "SCAN|",
         "INSERT INTO ids_event WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
         "WHERE i < 5000) SELECT i, 'e' || i, 't', 'new', 'x' FROM n"}};
    const char *const ids[] = {"e17", "e170", "6b8d5b0281cf44a395608b2c8063d968", "\xc3\xa4"};
    uint64_t n = 0;

    (void)state;
    office_admin("CREATE TABLE ids_event (id INTEGER PRIMARY KEY, eid VARCHAR(40), topic "
                 "VARCHAR(20), st VARCHAR(20), body VARCHAR(20))");
    office_admin("CREATE UNIQUE INDEX ids_eid ON ids_event (eid)");
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(plans[i][0], OFFICE_WORD) != 0)
            continue;
        HERE->site->admin(plans[i][3]);
        office_admin("ANALYZE %s ids_event", i == 0 ? "TABLE" : "");
        struct rt_store *s = office_store(
            "table=ids_event,id=id,event_id=eid,topic=topic,state=st,payload=body", NULL);
        void *conn = office_conn();
        assert_int_equal(rt_store_processed(s, ids, 4, &n), 0);
        assert_int_equal(n, 2);
        plan_has(conn, s, plans[i][1], plans[i][2]);
        rt_store_close(s);
        office_close(conn);
    }
    office_admin("DROP TABLE ids_event");
}

/* MariaDB asks which rows come before by a statement after the claim: by id, then by key and state. */
static void prevs_are_asked_by_indexes(void **state)
{
    const struct rt_store_options all = {
        .call_ms = SITE_LIMIT_MS, .strict_order = true, .dead_blocks = true};
    char sql[8000], plan[8000];

    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") != 0)
        return;
    office_empty();
    for (int rows = 0; rows <= MANY; rows += MANY) { /* with none, and with many */
        if (rows > 0)
            fill(rows);
        for (int i = 0; i < 10; i++)
            office_put("k1", "x");
        struct rt_store *s = office_store(NULL, &all);
        void *conn = office_conn();
        assert_int_equal(claim(s, 5).count, 5);
        const char *at = strstr(s->q.text, "SELECT STRAIGHT_JOIN");
        assert_non_null(at);
        assert_true(at > strstr(s->q.text, "SKIP LOCKED"));
        assert_null(strstr(at, "SKIP LOCKED"));
        snprintf(sql, sizeof(sql), "EXPLAIN %.*s", (int)strcspn(at, ";"), at);
        HERE->explain(conn, sql, plan, sizeof(plan));
        size_t by_key = 0;
        for (const char *p = plan; (p = strstr(p, " rota_event_key 10")) != NULL; p++)
            by_key++;
        if (strstr(plan, " e eq_ref PRIMARY PRIMARY ") == NULL || by_key != 3 ||
            strstr(plan, "filesort") != NULL)
            fail_msg("%s\n%s", sql, plan);
        rt_store_close(s);
        office_close(conn);
    }
}

/* The command's queries read what it shows, and not the table. */
static void the_command_asks_by_indexes(void **state)
{
    const struct rt_store_options patient = {.call_ms = SITE_LIMIT_MS};
    const struct rt_store_filter open = {.states = 1U << RT_EVENT_NEW | 1U << RT_EVENT_PUBLISHED |
                                                   1U << RT_EVENT_DEAD};
    const struct rt_store_filter of_key = {.states = 1U << RT_EVENT_NEW, .key = "k1"};
    const struct rt_store_item *items = NULL;
    struct rt_store_stats stats;
    struct rt_store_rates rates;
    bool pg = strcmp(OFFICE_WORD, "postgres") == 0;
    size_t n = 0;

    (void)state;
    office_empty();
    for (int rows = 0; rows <= MANY; rows += MANY) { /* with none, and with many */
        if (rows > 0)
            fill(rows);
        for (int i = 0; i < 20; i++)
            office_put("k1", "x");
        office_admin(
            "UPDATE rota_event SET state = 'published' WHERE state = 'new' AND id %% 4 = 0");
        office_admin("UPDATE rota_event SET state = 'dead' WHERE state = 'new' AND id %% 4 = 1");
        struct rt_store *s = office_store(NULL, &patient);
        void *conn = office_conn();
        if (pg)
            HERE->site->admin("VACUUM ANALYZE rota_event");
        if (pg && rows == 0) /* with few rows any plan is good */
            office_sql(conn, "SET enable_seqscan = off; SET enable_bitmapscan = off");
        assert_int_equal(rt_store_list(s, &open, &items, &n), 0);
        assert_true(n >= 15);
        plan_has(conn, s, HERE->plans[0], HERE->plans[1]);
        assert_int_equal(rt_store_list(s, &of_key, &items, &n), 0);
        assert_int_equal(n, office_number("SELECT COUNT(*) FROM rota_event WHERE state = 'new'"));
        plan_has(conn, s, HERE->plans[2], HERE->plans[3]);
        assert_int_equal(rt_store_stats(s, &stats), 0);
        assert_int_equal(stats.counts[RT_EVENT_PROCESSED],
                         rows < RT_STORE_COUNTED ? rows : RT_STORE_COUNTED);
        plan_has(conn, s, HERE->plans[4], HERE->plans[5]);
        assert_int_equal(rt_store_rates(s, 60000, &rates), 0);
        assert_in_range(rates.published, 1, 10);
        assert_int_equal(rates.processed, 0);
        plan_has(conn, s, HERE->plans[6], HERE->plans[7]);
        rt_store_close(s);
        office_close(conn);
    }
}

static void what_is_over_goes_in_pages(void **state)
{
    const struct rt_store_options patient = {.call_ms = SITE_LIMIT_MS};
    uint64_t gone = 0, all = 0;
    int pages = 0;

    (void)state;
    office_empty();
    fill(2500);
    office_put("k", "x");
    struct rt_store *s = office_store(NULL, &patient);
    do {
        assert_int_equal(rt_store_clean(s, 1000, 1000, &gone), 0);
        all += gone;
        pages++;
    } while (gone == 1000);
    assert_int_equal(all, 2500);
    assert_int_equal(pages, 3);
    assert_int_equal(office_count("new"), 1);
    rt_store_close(s);
}

static void the_inbox_alone_is_made_and_knows_what_was_taken(void **state)
{
    const struct rt_store_options opts = {.inbox = true};
    bool taken = true;

    (void)state;
    office_admin("DROP TABLE rota_inbox");
    struct rt_store *s = office_store(NULL, &opts), *other = office_store(NULL, &opts);
    assert_int_equal(rt_store_taken(s, "c", "e'1", &taken), 0);
    assert_false(taken);
    assert_int_equal(rt_store_take(s, "c", "e'1"), 0);
    assert_int_equal(rt_store_take(other, "c", "e'1"), 0); /* twice is legal */
    assert_int_equal(rt_store_taken(other, "c", "e'1", &taken), 0);
    assert_true(taken);
    assert_int_equal(rt_store_taken(other, "d", "e'1", &taken), 0);
    assert_false(taken);
    rt_store_close(s);
    rt_store_close(other);
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_inbox"), 1);
    office_empty();
}

/* It waits neither for what is claimed, nor for what the look for stale ones has locked beside it. */
static void clean_up_does_not_wait_for_claims(void **state)
{
    const struct rt_store_options quick = {.call_ms = SITE_LIMIT_MS, .lock_ms = 1000};
    uint64_t n = 0;

    (void)state;
    if (!HERE->rows_lock)
        return;
    office_empty();
    for (int i = 0; i < 10; i++)
        office_put("k", "claimed");
    fill(2500);
    struct rt_store *a = office_store(NULL, NULL), *b = office_store(NULL, &quick);
    assert_int_equal(claim(a, 10).count, 10);
    if (rt_store_clean(b, 1000, 20, &n) != 0)
        fail_msg("%s", rt_store_errmsg(b));
    assert_int_equal(n, 20);
    if (rt_store_clean(b, 1000, 10000, &n) != 0) /* and what is left, with the troubles */
        fail_msg("%s", rt_store_errmsg(b));
    assert_int_equal(office_count("new"), 10);
    let_go(a);
    rt_store_close(a);
    rt_store_close(b);
}

const struct CMUnitTest cases_books[] = {
    cmocka_unit_test(the_inbox_alone_is_made_and_knows_what_was_taken),
    cmocka_unit_test(clean_up_does_not_wait_for_claims),
    cmocka_unit_test(pages_are_by_id),
    cmocka_unit_test(a_replay_goes_with_the_same_id),
    cmocka_unit_test(a_replay_is_too_late_for_one_that_died),
    cmocka_unit_test(what_is_over_goes_in_pages),
    cmocka_unit_test(claims_use_their_indexes),
    cmocka_unit_test(prevs_are_asked_by_indexes),
    cmocka_unit_test(reports_use_the_index_on_the_id),
    cmocka_unit_test(the_command_asks_by_indexes),
};
const size_t cases_books_count = sizeof(cases_books) / sizeof(cases_books[0]);
