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
    if (HERE->rows_lock)
        refused("table=tbl_order_event,id=id,topic='t',state=process,payload=content,updated="
                "order_type",
                "date");
}

static void bad_urls_are_one_clear_line(void **state)
{
    static const char *const urls[][2] = {{"redis://127.0.0.1:1", "no database for events"},
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

/* A receipt that is none of this table's must not hold up all others. */
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

const struct CMUnitTest cases_shapes[] = {
    cmocka_unit_test(bytes_stay_what_they_are),
    cmocka_unit_test(an_old_table_is_used_as_it_is),
    cmocka_unit_test(bad_maps_are_one_clear_line),
    cmocka_unit_test(bad_urls_are_one_clear_line),
    cmocka_unit_test(a_long_id_is_never_cut_in_silence),
    cmocka_unit_test(an_id_of_another_type_is_passed_over),
    cmocka_unit_test(a_consumer_takes_once),
    cmocka_unit_test(what_is_rolled_back_was_never_said),
};
const size_t cases_shapes_count = sizeof(cases_shapes) / sizeof(cases_shapes[0]);
