/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads and tables of all shapes; what is refused; the consumer's side. */
#include "office.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bytes_stay_what_they_are(void **state)
{
    static const char emoji[] = "\xF0\x9F\x98\x80 \\ ' \" \n `";
    char bytes[512];

    (void)state;
    office_empty();
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    void *conn = office_conn();
    office_sql(conn, "%s", HERE->begin);
    struct rota_event e = {
        .topic = emoji, .key = emoji, .type = emoji, .payload = bytes, .size = sizeof(bytes)};
    if (HERE->put(conn, &e) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    e = (struct rota_event){.topic = "t", .event_id = "0123456789ABCDEF-0123"};
    assert_int_equal(HERE->put(conn, &e), ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(NULL), "UUID"));
    e.event_id = "01234567-89AB-4def-8123-456789abcdef"; /* no payload at all */
    if (HERE->put(conn, &e) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    office_sql(conn, "COMMIT");
    office_close(conn);
    struct rt_store *s = office_store(NULL, NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.rows[0].topic, emoji);
    assert_string_equal(c.rows[0].key, emoji);
    assert_string_equal(c.rows[0].type, emoji);
    assert_int_equal(c.rows[0].size, sizeof(bytes));
    assert_memory_equal(c.rows[0].payload, bytes, sizeof(bytes));
    assert_string_equal(c.rows[1].event_id, "0123456789ab4def8123456789abcdef");
    assert_int_equal(c.rows[1].size, 0);
    assert_null(c.rows[1].key);
    assert_null(c.rows[1].type);
    rt_store_close(s);
}

/* tbl_order_event, without any column of ours. */
static void an_old_table_is_used_as_it_is(void **state)
{
    const struct rt_store_options often = {.republish_ms = 4};
    const struct rt_store_item *item = NULL;
    char id[RT_EVENT_ID];
    uint64_t n = 0;

    (void)state;
    office_admin("DELETE FROM tbl_order_event");
    void *conn = office_conn();
    const struct rota_event e = {
        .topic = "orders", .type = "made", .payload = "{\"a\": 1}", .size = 8, .map = ORDERS};
    office_sql(conn, "%s", HERE->begin);
    if (HERE->put(conn, &e) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    office_sql(conn, "INSERT INTO tbl_order_event (order_type, process, content) VALUES ('paid', "
                     "'new', '{\"b\": 2}')");
    office_sql(conn, "COMMIT");
    struct rt_store *s = office_store(ORDERS, NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.rows[0].topic, "orders");
    assert_string_equal(c.rows[0].type, "made");
    assert_string_equal(c.rows[1].type, "paid");
    assert_null(c.rows[0].key);
    assert_int_equal(c.rows[0].size, 8);
    assert_memory_equal(c.rows[0].payload, "{\"a\": 1}", 8);
    snprintf(id, sizeof(id), "tbl_order_event:%lld", (long long)c.rows[0].id);
    assert_string_equal(c.rows[0].event_id, id);
    struct rt_store_mark marks[] = {
        {.id = c.rows[0].id, .what = RT_MARK_PUBLISHED},
        {.id = c.rows[1].id, .what = RT_MARK_DEAD, .reason = "no"},
    };
    assert_int_equal(rt_store_turn(s, marks, 2, 0, NULL, NULL), 0);
    assert_int_equal(office_number("SELECT COUNT(*) FROM tbl_order_event WHERE process = "
                                   "'published'"),
                     1);
    assert_int_equal(claim(s, 10).count, 0); /* the other is dead, and nothing in the row says so */
    let_go(s);
    struct rt_store_stats stats;
    assert_int_equal(rt_store_stats(s, &stats), 0);
    assert_int_equal(stats.counts[RT_EVENT_NEW], 0);
    assert_int_equal(stats.counts[RT_EVENT_PUBLISHED], 1);
    assert_int_equal(stats.counts[RT_EVENT_DEAD], 1);
    office_admin("UPDATE tbl_order_event SET update_time = %s", HERE->aged);
    rt_store_close(s);
    s = office_store(ORDERS, &often);
    if (!HERE->rows_lock)
        office_admin("DELETE FROM rota_relay");
    c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_true(c.rows[0].again);
    let_go(s);
    assert_int_equal(HERE->processed(conn, ORDERS, id), 0);
    assert_int_equal(HERE->processed(conn, ORDERS, id), 0);
    assert_int_equal(HERE->processed(conn, ORDERS, "other:1"), ROTA_INVALID);
    assert_int_equal(rt_store_show(s, id, &item), 0);
    assert_int_equal(item->state, RT_EVENT_PROCESSED);
    office_admin("UPDATE tbl_order_event SET update_time = %s", HERE->aged);
    assert_int_equal(rt_store_clean(s, 1000, 100, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(rt_store_replay(s, NULL, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(claim(s, 10).count, 1);
    rt_store_close(s);
    office_close(conn);
}

static void refused(const char *map, const char *word)
{
    char *url = HERE->site->url(0), errmsg[500] = "";
    struct rt_event_map read;
    struct rt_store *s = NULL;

    int err = rt_event_map_read(&read, map, errmsg, sizeof(errmsg));
    if (err == 0)
        err = rt_store_open(&s, url, &read, NULL, errmsg, sizeof(errmsg));
    free(url);
    assert_null(s);
    if (err == 0 || strstr(errmsg, word) == NULL)
        fail_msg("%s: %d '%s' says nothing of '%s'", map, err, errmsg, word);
}

static void bad_maps_are_one_clear_line(void **state)
{
    (void)state;
    refused("table=tbl_order_event,id=id,topic='t',state=process,payload=body", "body");
    refused("table=nowhere,id=id,topic='t',state=process,payload=body", "nowhere");
    refused("table=tbl_order_event,id=order_type,topic='t',state=process,payload=content",
            "number");
    refused("table=tbl_order_event,topic='t',state=process,payload=content", "id=COLUMN");
    refused("table=tbl_order_event,id=id,topic='t,state=process", "quote");
    refused("table=tbl_order_event,id=id,topic='t',state=process,payload=content,colour=red",
            "colour");
    refused("table=tbl_order_event,id=id,topic='t',state='x',payload=content", "quotes");
    refused("table=tbl_order_event,id=id,topic='t',state=process,payload=content,new=published",
            "both");
    refused("table=tbl_order_event,id=id,topic='t',state=process,payload=content,new=n,published=N",
            "case");
    if (HERE->rows_lock)
        refused("table=tbl_order_event,id=id,topic='t',state=process,payload=content,updated="
                "order_type",
                "date");
}

static void bad_urls_are_one_clear_line(void **state)
{
    static const char *const urls[][2] = {{"redis://127.0.0.1:1", "not a database for events"},
                                          {"sqlite:/nowhere/at/all.db", "/nowhere"},
                                          {"nonsense", ""}};
    char errmsg[500];
    struct rt_store *s = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        errmsg[0] = '\0';
        assert_true(rt_store_open(&s, urls[i][0], NULL, NULL, errmsg, sizeof(errmsg)) < 0);
        assert_non_null(strstr(errmsg, urls[i][1]));
        assert_true(errmsg[0] != '\0');
    }
}

#define BY_TEXT "table=ids_event,id=id,event_id=eid,topic=topic,state=st,payload=body"
#define BY_NUMBER "table=ids_event,id=id,event_id=num,topic=topic,state=st,payload=body"

/* Two ids that begin alike would be one, and the second event of a consumer that knows the first would be lost. */
static void a_long_id_is_never_cut_in_silence(void **state)
{
    char id[RT_EVENT_ID + 1];
    const struct rota_event e = {
        .event_id = id, .topic = "t", .payload = "x", .size = 1, .map = BY_TEXT};

    (void)state;
    memset(id, 'i', RT_EVENT_ID);
    id[RT_EVENT_ID] = '\0';
    office_admin("CREATE TABLE ids_event (id INTEGER PRIMARY KEY, eid VARCHAR(300), num BIGINT, "
                 "topic VARCHAR(20), st VARCHAR(20), body VARCHAR(20))");
    void *conn = office_conn();
    office_sql(conn, "%s", HERE->begin);
    assert_int_equal(HERE->put(conn, &e), ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(NULL), "191 bytes"));
    office_sql(conn, "ROLLBACK");
    office_admin("INSERT INTO ids_event VALUES (1, '%s', 10, 't', 'new', 'a')", id);
    office_admin("INSERT INTO ids_event VALUES (2, '%.191s', 11, 't', 'new', 'b')", id);
    struct rt_store *s = office_store(BY_TEXT, NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 2);
    assert_true(c.rows[0].cut);
    assert_false(c.rows[1].cut);
    assert_int_equal(strlen(c.rows[1].event_id), RT_EVENT_ID - 1);
    rt_store_close(s);
    office_close(conn);
}

/* A receipt that does not belong to this table must not hold up all others. */
static void an_id_of_another_type_is_passed_over(void **state)
{
    const char *const ids[] = {"garbage", "11", "no number"}, *const nameless[] = {"ids_event:1"};
    uint64_t n = 0;

    (void)state;
    struct rt_store *s = office_store(BY_NUMBER, NULL);
    assert_int_equal(rt_store_processed(s, ids, 3, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(rt_store_processed(s, ids, 1, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(office_number("SELECT COUNT(*) FROM ids_event WHERE st = 'processed'"), 1);
    rt_store_close(s);
    office_admin("UPDATE ids_event SET eid = NULL");
    s = office_store(BY_TEXT, NULL); /* a null is named by its row, and known by that name */
    if (!HERE->rows_lock)
        office_admin("DELETE FROM rota_relay");
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.rows[0].event_id, nameless[0]);
    let_go(s);
    assert_int_equal(rt_store_processed(s, nameless, 1, &n), 0);
    assert_int_equal(n, 1);
    rt_store_close(s);
    office_admin("DROP TABLE ids_event");
}

#define DIGITS "6b8d5b0281cf44a395608b2c8063d968"
#define UPPER "6B8D5B02-81CF-44A3-9560-8B2C8063D968"

static const struct kept { /* how tables that others made keep a UUID */
    const char *at, *type, *value;
} kept[] = {
    {"mysql", "CHAR(36)", "LOWER('" UPPER "')"},
    {"mysql", "VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "'" UPPER "'"},
    {"mysql", "CHAR(32)", "'" DIGITS "'"},
    {"mysql", "BINARY(16)", "X'" DIGITS "'"},
    {"mysql", "UUID", "'" UPPER "'"},
    {"postgres", "text", "lower('" UPPER "')"},
    {"postgres", "varchar(40)", "'" UPPER "'"},
    {"postgres", "bytea", "decode('" DIGITS "', 'hex')"},
    {"postgres", "uuid", "'" UPPER "'"},
    {"sqlite", "TEXT", "lower('" UPPER "')"},
    {"sqlite", "TEXT", "'" UPPER "'"},
    {"sqlite", "BLOB", "X'" DIGITS "'"},
};

static void check_kept(const struct kept *k)
{
    const char *const ids[] = {DIGITS};
    const struct rt_store_item *item = NULL;
    uint64_t n = 0;

    office_admin("CREATE TABLE ids_event (id INTEGER PRIMARY KEY, eid %s, topic VARCHAR(20), st "
                 "VARCHAR(20), body VARCHAR(20))",
                 k->type);
    office_admin("INSERT INTO ids_event VALUES (1, %s, 't', 'new', 'a')", k->value);
    struct rt_store *s = office_store(BY_TEXT, NULL);
    if (!HERE->rows_lock)
        office_admin("DELETE FROM rota_relay");
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.rows[0].event_id, DIGITS);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(rt_store_processed(s, ids, 1, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(rt_store_show(s, DIGITS, &item), 0);
    assert_non_null(item);
    assert_int_equal(item->state, RT_EVENT_PROCESSED);
    rt_store_close(s);
    office_admin("UPDATE ids_event SET st = 'published'");
    void *conn = office_conn();
    if (HERE->processed(conn, BY_TEXT, DIGITS) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    assert_int_equal(office_number("SELECT COUNT(*) FROM ids_event WHERE st = 'processed'"), 1);
    office_close(conn);
    office_admin("DROP TABLE ids_event");
}

/* Else it would be published again for ever, and with strict order keep all of its key. */
static void a_uuid_is_found_however_it_is_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (strcmp(kept[i].at, OFFICE_WORD) == 0)
            check_kept(&kept[i]);
}

static const struct alike { /* columns that take two ids for one */
    const char *at, *type;
} alike[] = {
    {"mysql", "VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"},
    {"mysql", "CHAR(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci"},
    {"postgres", "text COLLATE ids_alike"},
    {"sqlite", "TEXT COLLATE NOCASE"},
};

/* Reports ID both ways: so many rows are processed then. */
static void reported(struct rt_store *s, const char *map, const char *id, long long want)
{
    void *conn = office_conn();
    uint64_t n = 0;

    office_admin("UPDATE ids_event SET st = 'published'");
    if (rt_store_processed(s, &id, 1, &n) != 0)
        fail_msg("'%s': %s", id, rt_store_errmsg(s));
    if ((long long)n != want)
        fail_msg("'%s' made %llu rows processed", id, (unsigned long long)n);
    office_admin("UPDATE ids_event SET st = 'published'");
    (void)HERE->processed(conn, map, id); /* some databases refuse what is no number */
    long long rows = office_number("SELECT COUNT(*) FROM ids_event WHERE st = 'processed'");
    if (rows != want)
        fail_msg("'%s' made %lld rows processed, from C", id, rows);
    office_close(conn);
}

/* The other event is lost if the broker forgets it: nobody ran it, and it is not published again. */
static void a_report_is_for_the_same_bytes_only(void **state)
{
    (void)state;
    if (strcmp(OFFICE_WORD, "postgres") == 0)
        office_admin("CREATE COLLATION ids_alike (provider = icu, locale = 'und-u-ks-level2', "
                     "deterministic = false)");
    for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
        if (strcmp(alike[i].at, OFFICE_WORD) != 0)
            continue;
        office_admin("CREATE TABLE ids_event (id INTEGER PRIMARY KEY, eid %s, topic VARCHAR(20), "
                     "st VARCHAR(20), body VARCHAR(20))",
                     alike[i].type);
        office_admin("INSERT INTO ids_event VALUES (1, 'abC', 't', 'new', 'a'), "
                     "(2, 'ABc', 't', 'new', 'b'), (3, '6B8d5b02-81cf-44a3-9560-8b2c8063d968', "
                     "'t', 'new', 'c')");
        struct rt_store *s = office_store(BY_TEXT, NULL);
        reported(s, BY_TEXT, "abC", 1);
        assert_int_equal(office_number("SELECT id FROM ids_event WHERE st = 'processed'"), 1);
        reported(s, BY_TEXT, "ABC", 0);
        reported(s, BY_TEXT,
                 "\xc3\xa4"
                 "bC",
                 0);
        reported(s, BY_TEXT, DIGITS, 1); /* its letters are what the relay made them */
        rt_store_close(s);
        office_admin("DROP TABLE ids_event");
    }
}

static const struct kept numbers[] = {
    {"mysql", "BIGINT", ""},         {"mysql", "INT(8) UNSIGNED ZEROFILL", ""},
    {"mysql", "DECIMAL(20)", ""},    {"postgres", "bigint", ""},
    {"postgres", "numeric(20)", ""}, {"sqlite", "INTEGER", ""},
};

/* 1e1 is a number to some, and 10 as well; the message had 10. */
static void a_number_is_reported_as_its_message_had_it(void **state)
{
    static const char *const others[] = {"1e1", "12.0", "+12", "0012",
                                         "12x", "0xc",  "-12", "\xc3\xa4"};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char id[RT_EVENT_ID];
        if (strcmp(numbers[i].at, OFFICE_WORD) != 0)
            continue;
        office_admin("CREATE TABLE ids_event (id INTEGER PRIMARY KEY, num %s, topic VARCHAR(20), "
                     "st VARCHAR(20), body VARCHAR(20))",
                     numbers[i].type);
        office_admin("INSERT INTO ids_event VALUES (1, 10, 't', 'new', 'a'), (2, 12, 't', 'new', "
                     "'b')");
        struct rt_store *s = office_store(BY_NUMBER, NULL);
        if (!HERE->rows_lock)
            office_admin("DELETE FROM rota_relay");
        struct claim c = claim(s, 10);
        assert_int_equal(c.count, 2);
        snprintf(id, sizeof(id), "%s", c.rows[1].event_id);
        let_go(s);
        reported(s, BY_NUMBER, id, 1);
        assert_int_equal(office_number("SELECT id FROM ids_event WHERE st = 'processed'"), 2);
        for (size_t j = 0; j < sizeof(others) / sizeof(others[0]); j++)
            reported(s, BY_NUMBER, others[j], 0);
        rt_store_close(s);
        office_admin("DROP TABLE ids_event");
    }
}

/* MariaDB cuts what is too long if sql_mode lets it: two keys, or two ids, would be one. */
static void a_value_that_does_not_fit_is_refused(void **state)
{
    const struct rota_event e = {
        .event_id = "customer-17", .topic = "t", .payload = "x", .size = 1, .map = BY_TEXT};

    (void)state;
    if (strcmp(OFFICE_WORD, "sqlite") == 0) /* its columns have no lengths */
        return;
    office_admin("CREATE TABLE ids_event (id INTEGER PRIMARY KEY, eid VARCHAR(10), topic "
                 "VARCHAR(20), st VARCHAR(20), body VARCHAR(20))");
    void *conn = office_conn();
    if (strcmp(OFFICE_WORD, "mysql") == 0)
        office_sql(conn, "SET sql_mode = ''");
    office_sql(conn, "%s", HERE->begin);
    assert_int_not_equal(HERE->put(conn, &e), 0);
    office_sql(conn, "ROLLBACK");
    office_close(conn);
    office_admin("DROP TABLE ids_event");
}

static void a_consumer_takes_once(void **state)
{
    static const char id[] = "0123456789abcdef0123456789abcdef";
    void *conn = office_conn(), *other = office_conn();

    (void)state;
    office_empty();
    if (HERE->rows_lock) /* SQLite: BEGIN IMMEDIATE is asked for by the same line */
        assert_int_equal(HERE->take(conn, "mail", id), ROTA_INVALID);
    office_sql(conn, "%s", HERE->begin);
    assert_int_equal(HERE->take(conn, "mail", id), 0);
    office_sql(conn, "ROLLBACK"); /* as if it had not been */
    office_sql(conn, "%s", HERE->begin);
    assert_int_equal(HERE->take(conn, "mail", id), 0);
    if (HERE->rows_lock) { /* another has it, and may yet roll back: that is not "taken before" */
        office_sql(other, "%s", HERE->short_wait);
        office_sql(other, "%s", HERE->begin);
        assert_int_equal(HERE->take(other, "mail", id), ROTA_ABORTED);
        office_sql(other, "ROLLBACK");
    }
    office_sql(conn, "COMMIT");
    office_sql(other, "%s", HERE->begin);
    assert_int_equal(HERE->take(other, "mail", id), ROTA_BUSY);
    assert_int_equal(HERE->take(other, "bills", id), 0); /* the transaction goes on */
    assert_int_equal(HERE->take(other, "", id), ROTA_INVALID);
    assert_int_equal(HERE->take(other, "bills", "x "), ROTA_INVALID); /* MariaDB: the same as "x" */
    assert_int_equal(HERE->take(other, " bills", id), ROTA_INVALID);
    office_sql(other, "COMMIT");
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_inbox"), 2);
    office_close(conn);
    office_close(other);
}

static void what_is_rolled_back_was_never_said(void **state)
{
    const struct rota_event e = {.topic = "t", .payload = "x", .size = 1};
    void *conn = office_conn();

    (void)state;
    office_empty();
    assert_int_equal(HERE->put(conn, &e), ROTA_INVALID); /* no transaction */
    assert_non_null(strstr(rota_txn_errmsg(NULL), "BEGIN"));
    office_sql(conn, "%s", HERE->begin);
    assert_int_equal(HERE->make(conn), ROTA_INVALID);
    assert_int_equal(HERE->put(conn, &e), 0);
    office_sql(conn, "ROLLBACK");
    assert_int_equal(office_count("new"), 0);
    assert_int_equal(HERE->put(conn, NULL), ROTA_INVALID);
    assert_int_equal(HERE->put(NULL, &e), ROTA_INVALID);
    office_close(conn);
}

#define ODD "table=odd_event,id=id,topic='t',state=st,payload=body"

static const struct unfit { /* columns that cannot be what the map says */
    const char *at, *before, *id, *key, *state, *map, *word;
} unfit[] = {
    {"mysql", NULL, "BIGINT", "INT", "ENUM('new', 'done')", ODD, "'published'"},
    {"mysql", NULL, "BIGINT", "INT", "VARCHAR(5)", ODD, "'published'"},
    {"mysql", NULL, "BIGINT", "INT", "TINYINT", ODD, "'new'"},
    {"mysql", NULL, "POINT", "INT", "VARCHAR(9)", ODD, "number that grows"},
    {"mysql", NULL, "BIGINT", "BINARY(16)", "VARCHAR(9)", ODD ",key=k", "bytes"},
    {"mysql", NULL, "BIGINT", "BLOB", "VARCHAR(9)", ODD ",key=k", "bytes"},
    {"postgres", "CREATE TYPE odd_state AS ENUM ('new', 'done', 'PUBLISHED')", "bigint", "int",
     "odd_state", ODD, "'published'"},
    {"postgres", NULL, "bigint", "int", "varchar(5)", ODD, "'published'"},
    {"postgres", NULL, "point", "int", "text", ODD, "number that grows"},
    {"postgres", NULL, "interval", "int", "text", ODD, "number that grows"},
    {"postgres", NULL, "bigint", "bytea", "text", ODD ",key=k", "bytes"},
};

/* Else events would be published, and could never be marked; and keys that begin with a zero byte would be one. */
static void columns_that_cannot_hold_it_are_one_clear_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
        const struct unfit *u = &unfit[i];
        if (strcmp(u->at, OFFICE_WORD) != 0)
            continue;
        if (u->before != NULL)
            office_admin("%s", u->before);
        office_admin("CREATE TABLE odd_event (id %s, k %s, st %s, body VARCHAR(20))", u->id, u->key,
                     u->state);
        refused(u->map, u->word);
        office_admin("DROP TABLE odd_event");
    }
}

static void words_of_numbers_and_exact_ones_are_fine(void **state)
{
    (void)state;
    office_admin(
        "CREATE TABLE odd_event (id SMALLINT, st VARCHAR(9), n INTEGER, body VARCHAR(20))");
    rt_store_close(office_store(ODD, NULL));
    rt_store_close(office_store("table=odd_event,id=id,topic='t',state=n,payload=body,new=0,"
                                "published=1,processed=-2,dead=3",
                                NULL));
    office_admin("DROP TABLE odd_event");
    if (strcmp(OFFICE_WORD, "postgres") != 0)
        return;
    office_admin("CREATE DOMAIN odd_number AS bigint CHECK (VALUE > 0)");
    office_admin("CREATE TABLE odd_event (id odd_number, st text, body text)");
    rt_store_close(office_store(ODD, NULL));
    office_admin("DROP TABLE odd_event");
    office_admin("DROP DOMAIN odd_number");
}

/* A key with a zero byte would be cut there, and two keys would be one. */
static void a_key_with_a_zero_byte_is_never_cut_in_silence(void **state)
{
    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") != 0)
        return; /* PostgreSQL's texts have none */
    office_admin(
        "CREATE TABLE odd_event (id BIGINT, k VARCHAR(20), st VARCHAR(9), body VARCHAR(20))");
    office_admin("INSERT INTO odd_event VALUES (1, X'610062', 'new', 'x'), (2, 'a', 'new', 'x')");
    struct rt_store *s = office_store(ODD ",key=k", NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 2);
    assert_true(c.rows[0].cut && !c.rows[1].cut);
    rt_store_close(s);
    office_admin("DROP TABLE odd_event");
}

#define LONG_TEXT 2000

/* What a message has, not what the server keeps of it, which may be compressed. */
static void sizes_are_those_of_the_payload(void **state)
{
    static const char *const types[][2] = {{"mysql", "TEXT"},     {"postgres", "text"},
                                           {"postgres", "bytea"}, {"postgres", "jsonb"},
                                           {"postgres", "json"},  {"sqlite", "TEXT"}};
    const struct rt_store_filter all = {0};
    const struct rt_store_item *items = NULL;
    size_t count = 0;

    (void)state;
    char *text = malloc(LONG_TEXT + 1);
    assert_non_null(text);
    memset(text, '7', LONG_TEXT); /* a number: good for all types */
    text[LONG_TEXT] = '\0';
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i][0], OFFICE_WORD) != 0)
            continue;
        office_admin("CREATE TABLE odd_event (id INTEGER, st VARCHAR(9), body %s)", types[i][1]);
        office_admin("INSERT INTO odd_event VALUES (1, 'new', '%s')", text);
        struct rt_store *s = office_store(ODD, NULL);
        assert_int_equal(rt_store_list(s, &all, &items, &count), 0);
        assert_int_equal(count, 1);
        assert_int_equal(items[0].size, LONG_TEXT);
        rt_store_close(s);
        office_admin("DROP TABLE odd_event");
    }
    free(text);
}

#define DATED ODD ",updated=up"

/* PostgreSQL: a date without a zone is UTC, whatever the role's zone; relays agree on what is stale. */
static void relays_of_other_zones_agree(void **state)
{
    (void)state;
    if (strcmp(OFFICE_WORD, "postgres") != 0)
        return;
    office_admin("CREATE TABLE odd_event (id bigint, st varchar(9), body text, up timestamp)");
    office_admin("INSERT INTO odd_event VALUES (1, 'new', 'x')");
    struct rt_store *s = office_store(DATED, NULL);
    struct claim c = claim(s, 10);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    rt_store_close(s);
    office_admin("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Tokyo'");
    s = office_store(DATED, NULL);
    assert_int_equal(claim(s, 10).count, 0);
    rt_store_close(s);
    office_admin("ALTER ROLE CURRENT_USER RESET TimeZone");
    office_admin("DROP TABLE odd_event");
}

/* The zone of the session that marks a row of a table whose `updated` is TYPE: +05:00 is the server's. */
static void marks_in_zone(const char *type, bool utc)
{
    office_admin("CREATE TABLE odd_event (id BIGINT, st VARCHAR(9), body VARCHAR(20), zone "
                 "VARCHAR(20), up %s)",
                 type);
    office_admin("CREATE TRIGGER odd_zone BEFORE UPDATE ON odd_event FOR EACH ROW SET NEW.zone = "
                 "@@session.time_zone");
    office_admin("INSERT INTO odd_event VALUES (1, 'new', 'x', '', NOW(3))");
    struct rt_store *s = office_store(DATED, NULL);
    struct claim c = claim(s, 10);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    rt_store_close(s);
    assert_int_equal(office_number("SELECT COUNT(*) FROM odd_event WHERE zone = '%s'",
                                   utc ? "+00:00" : "+05:00"),
                     1);
    office_admin("DROP TABLE odd_event");
}

/* MariaDB: no hour comes twice in UTC. A DATETIME has no zone: others write it in the server's, and so does a relay. */
static void zones_are_those_of_the_columns(void **state)
{
    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") != 0)
        return;
    office_admin("SET GLOBAL time_zone = '+05:00'");
    marks_in_zone("TIMESTAMP(3)", true);
    marks_in_zone("DATETIME(3)", false);
    office_admin("SET GLOBAL time_zone = 'SYSTEM'");
}

/* MariaDB stores what fits, and says nothing, if sql_mode lets it. */
static void a_state_that_does_not_fit_is_an_error(void **state)
{
    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") != 0)
        return;
    office_admin("CREATE TABLE odd_event (id BIGINT, st TINYINT, body VARCHAR(20))");
    office_admin("INSERT INTO odd_event VALUES (1, 0, 'x')");
    office_admin("SET @@GLOBAL.sql_mode = ''");
    struct rt_store *s = office_store(ODD ",new=0,published=300,processed=2", NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    const struct rt_store_mark mark = {.id = 1, .what = RT_MARK_PUBLISHED};
    int err = rt_store_turn(s, &mark, 1, 0, NULL, NULL);
    rt_store_close(s);
    office_admin("SET @@GLOBAL.sql_mode = DEFAULT");
    assert_true(err < 0);
    assert_int_equal(office_number("SELECT st FROM odd_event"), 0);
    office_admin("DROP TABLE odd_event");
}

/* The page says that keys are compared by their bytes. */
static void keys_that_only_sort_alike_are_two(void **state)
{
    const struct rt_store_filter only = {.key = "a"};
    const struct rt_store_item *items = NULL;
    size_t count = 0;

    (void)state;
    if (strcmp(OFFICE_WORD, "postgres") != 0)
        return;
    office_admin("CREATE COLLATION odd_case (provider = icu, locale = 'und-u-ks-level2', "
                 "deterministic = false)");
    office_admin(
        "CREATE TABLE odd_event (id bigint, k text COLLATE odd_case, st varchar(9), body text)");
    office_admin("INSERT INTO odd_event VALUES (1, 'A', 'new', 'x'), (2, 'a', 'new', 'x'), "
                 "(3, 'a', 'new', 'x')");
    struct rt_store *s = office_store(ODD ",key=k", NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.rows[1].prev, 0);
    assert_int_equal(c.rows[2].prev, 2);
    let_go(s);
    assert_int_equal(rt_store_list(s, &only, &items, &count), 0);
    assert_int_equal(count, 2);
    rt_store_close(s);
    office_admin("DROP TABLE odd_event");
    office_admin("DROP COLLATION odd_case");
}

const struct CMUnitTest cases_shapes[] = {
    cmocka_unit_test(bytes_stay_what_they_are),
    cmocka_unit_test(an_old_table_is_used_as_it_is),
    cmocka_unit_test(bad_maps_are_one_clear_line),
    cmocka_unit_test(columns_that_cannot_hold_it_are_one_clear_line),
    cmocka_unit_test(words_of_numbers_and_exact_ones_are_fine),
    cmocka_unit_test(a_key_with_a_zero_byte_is_never_cut_in_silence),
    cmocka_unit_test(sizes_are_those_of_the_payload),
    cmocka_unit_test(relays_of_other_zones_agree),
    cmocka_unit_test(zones_are_those_of_the_columns),
    cmocka_unit_test(a_state_that_does_not_fit_is_an_error),
    cmocka_unit_test(keys_that_only_sort_alike_are_two),
    cmocka_unit_test(bad_urls_are_one_clear_line),
    cmocka_unit_test(a_long_id_is_never_cut_in_silence),
    cmocka_unit_test(an_id_of_another_type_is_passed_over),
    cmocka_unit_test(a_uuid_is_found_however_it_is_kept),
    cmocka_unit_test(a_report_is_for_the_same_bytes_only),
    cmocka_unit_test(a_number_is_reported_as_its_message_had_it),
    cmocka_unit_test(a_value_that_does_not_fit_is_refused),
    cmocka_unit_test(a_consumer_takes_once),
    cmocka_unit_test(what_is_rolled_back_was_never_said),
};
const size_t cases_shapes_count = sizeof(cases_shapes) / sizeof(cases_shapes[0]);
