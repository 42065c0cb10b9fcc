/* SPDX-License-Identifier: Apache-2.0 */
/* Claims, marks, and the order of a key. */
#include "office.h"

#include <stdio.h>
#include <string.h>

static const struct rt_store_options often = {.republish_ms = 4}; /* and stale ones each time */

static void an_event_goes_its_way(void **state)
{
    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    const struct rt_store_row *r = &c.rows[0];
    assert_string_equal(r->topic, "orders");
    assert_string_equal(r->key, "k");
    assert_string_equal(r->type, "made");
    assert_int_equal(r->size, 3);
    assert_memory_equal(r->payload, "one", 3);
    assert_int_equal(strlen(r->event_id), 32);
    assert_int_equal(r->prev, 0);
    assert_int_equal(r->attempts, 0);
    assert_false(r->again);
    char id[RT_EVENT_ID];
    snprintf(id, sizeof(id), "%s", r->event_id);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(office_count("published"), 1);
    assert_int_equal(claim(s, 10).count, 0);
    let_go(s);
    uint64_t changed = 0;
    const char *ids[] = {id, "0123456789abcdef0123456789abcdef", "no id of ours", "rota_event:1"};
    assert_int_equal(rt_store_processed(s, ids, 4, &changed), 0);
    assert_int_equal(changed, 1);
    assert_int_equal(office_count("processed"), 1);
    assert_int_equal(rt_store_processed(s, ids, 4, &changed), 0);
    assert_int_equal(changed, 0);
    rt_store_close(s);
}

static void two_share_the_work(void **state)
{
    (void)state;
    office_empty();
    struct rt_store *a = office_store(NULL, NULL), *b = office_store(NULL, NULL);
    for (int i = 0; i < 6; i++)
        office_put(NULL, "x");
    struct claim first = claim(a, 4), second = claim(b, 4);
    assert_int_equal(first.count, 4);
    assert_int_equal(second.count, HERE->rows_lock ? 2 : 0); /* SQLite: one has the lease */
    for (size_t i = 0; i < second.count; i++)
        for (size_t j = 0; j < first.count; j++)
            assert_true(second.rows[i].id != first.rows[j].id);
    mark_all(a, &first, RT_MARK_PUBLISHED, NULL);
    if (!HERE->rows_lock)
        second = claim(b, 4); /* the lease was let go */
    assert_int_equal(second.count, 2);
    mark_all(b, &second, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(office_count("published"), 6);
    rt_store_close(a);
    rt_store_close(b);
}

static void marks_and_the_next_claim_are_one_turn(void **state)
{
    const struct rt_store_row *rows = NULL;
    struct rt_store_mark marks[2] = {{0}};
    size_t count = 0;

    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    for (int i = 0; i < 4; i++)
        office_put("k", "x");
    struct claim c = claim(s, 3);
    assert_int_equal(c.count, 3);
    assert_int_equal(c.rows[0].prev, 0);
    assert_int_equal(c.rows[1].prev, c.rows[0].id);
    assert_int_equal(c.rows[2].prev, c.rows[1].id);
    int64_t third = c.rows[2].id;
    for (int i = 0; i < 2; i++)
        marks[i] = (struct rt_store_mark){.id = c.rows[i].id, .what = RT_MARK_PUBLISHED};
    assert_int_equal(rt_store_turn(s, marks, 2, 10, &rows, &count), 0);
    assert_int_equal(count, 2); /* the third was let go, and comes again with the fourth */
    assert_int_equal(rows[0].id, third);
    assert_int_equal(rows[0].prev, 0);
    assert_int_equal(rows[1].prev, third);
    assert_int_equal(office_count("published"), 2);
    rt_store_close(s);
}

/* A has rows 1 and 3 of a key, B has 2. */
static void a_hole_in_the_middle_is_seen(void **state)
{
    (void)state;
    if (!HERE->rows_lock)
        return; /* SQLite: one claims at a time */
    office_empty();
    struct rt_store *a = office_store(NULL, NULL), *b = office_store(NULL, NULL);
    office_put("k", "one");
    office_put("k", "two");
    struct claim c = claim(a, 1); /* A: one */
    assert_non_null(find_row(&c, "one"));
    struct claim d = claim(b, 1); /* B: two */
    const struct rt_store_row *two = find_row(&d, "two");
    assert_non_null(two);
    assert_int_equal(two->prev, office_row("one"));
    office_put("k", "three");
    office_put("other", "four");
    c = claim(a, 10); /* let go and taken again: A has 1, 3, 4 */
    assert_int_equal(c.count, 3);
    assert_int_equal(find_row(&c, "one")->prev, 0);
    assert_int_equal(find_row(&c, "three")->prev, office_row("two"));
    assert_int_equal(find_row(&c, "four")->prev, 0);
    rt_store_close(b); /* its row is free as soon as the server knows */
    c = claim_until(a, 4);
    assert_int_equal(find_row(&c, "two")->prev, office_row("one"));
    assert_int_equal(find_row(&c, "three")->prev, office_row("two"));
    rt_store_close(a);
}

/* Transactions commit out of the order of their ids: polling by "id > the last one" skips rows, claiming by state does
 * not. */
static void what_commits_late_is_not_skipped(void **state)
{
    const struct rota_event late = {.topic = "orders", .payload = "late", .size = 4};
    long long polled = 0;

    (void)state;
    if (!HERE->rows_lock)
        return; /* one writer: ids are committed in their order */
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    void *writer = office_conn();
    office_sql(writer, "BEGIN");
    assert_int_equal(HERE->put(writer, &late), 0); /* has the smaller id, and is not committed */
    office_put(NULL, "early");
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_non_null(find_row(&c, "early"));
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    polled = office_number("SELECT MAX(id) FROM rota_event"); /* the high-water mark */
    office_sql(writer, "COMMIT");
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_event WHERE id > %lld", polled),
                     0); /* what such a poller would never see */
    c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_non_null(find_row(&c, "late"));
    office_close(writer);
    rt_store_close(s);
}

static void trouble_waits_and_counts(void **state)
{
    const struct rt_store_item *item = NULL;

    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    office_put("k", "two");
    office_put(NULL, "free");
    struct claim c = claim(s, 10);
    int64_t one = find_row(&c, "one")->id;
    struct rt_store_mark mark = {.id = one,
                                 .what = RT_MARK_TROUBLE,
                                 .next_in_ms = 3600000,
                                 .reason = "no queue takes 'orders' \xF0\x9F\x98\x80\xFF"};
    assert_int_equal(rt_store_turn(s, &mark, 1, 10, &c.rows, &c.count), 0);
    assert_int_equal(c.count, 2); /* not the one in trouble; its follower waits for it */
    assert_int_equal(find_row(&c, "two")->prev, one);
    assert_int_equal(find_row(&c, "free")->prev, 0);
    let_go(s);
    assert_int_equal(rt_store_show(s, "no such id", &item), 0);
    assert_null(item);
    char id[32];
    snprintf(id, sizeof(id), "%lld", (long long)one);
    assert_int_equal(rt_store_show(s, id, &item), 0);
    assert_non_null(item);
    assert_int_equal(item->attempts, 1);
    assert_true(item->next_in_ms > 3500000);
    assert_string_equal(item->reason, "no queue takes 'orders' \xF0\x9F\x98\x80?");
    assert_int_equal(item->state, RT_EVENT_NEW);
    mark.next_in_ms = -1; /* it may go at once */
    assert_int_equal(rt_store_turn(s, &mark, 1, 10, &c.rows, &c.count), 0);
    assert_int_equal(c.count, 3);
    assert_int_equal(find_row(&c, "one")->attempts, 2);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_event_trouble"), 0);
    rt_store_close(s);
}

/* The broker had no room, say: that is no attempt, before the first refusal and after it. */
static void one_that_is_moved_aside_has_no_attempt_more(void **state)
{
    struct rt_store_mark mark = {.what = RT_MARK_ASIDE, .next_in_ms = 3600000, .reason = "no room"};
    struct rt_store_stats stats;

    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    struct claim c = claim(s, 10);
    assert_false(c.rows[0].troubled);
    mark.id = c.rows[0].id;
    assert_int_equal(rt_store_turn(s, &mark, 1, 10, &c.rows, &c.count), 0);
    assert_int_equal(c.count, 0);
    let_go(s);
    assert_int_equal(rt_store_stats(s, &stats), 0);
    assert_int_equal(stats.troubled, 1);
    const enum rt_store_what then[] = {RT_MARK_ASIDE, RT_MARK_TROUBLE, RT_MARK_ASIDE};
    for (uint32_t i = 0; i < 3; i++) {
        mark.what = then[i], mark.next_in_ms = -1; /* it may go at once */
        assert_int_equal(rt_store_turn(s, &mark, 1, 10, &c.rows, &c.count), 0);
        assert_int_equal(c.count, 1);
        assert_true(c.rows[0].troubled);
        assert_int_equal(c.rows[0].attempts, i > 0);
    }
    office_admin("UPDATE rota_event_trouble SET attempts = 0");
    c = claim(s, 10);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_event_trouble"), 0);
    rt_store_close(s);
}

static void the_dead_let_others_pass(void **state)
{
    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    office_put("k", "two");
    struct claim c = claim(s, 1);
    mark_all(s, &c, RT_MARK_DEAD, "too large");
    assert_int_equal(office_count("dead"), 1);
    c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_int_equal(find_row(&c, "two")->prev, 0);
    rt_store_close(s);
    const struct rt_store_options block = {.dead_blocks = true};
    s = office_store(NULL, &block);
    if (!HERE->rows_lock)
        office_admin("DELETE FROM rota_relay");
    c = claim_until(s, 1); /* the server may not have seen yet that the last store is closed */
    assert_int_equal(find_row(&c, "two")->prev, office_row("one"));
    let_go(s);
    uint64_t changed = 0;
    assert_int_equal(rt_store_replay(s, NULL, &changed), 0);
    assert_int_equal(changed, 1);
    assert_int_equal(rt_store_replay(s, NULL, &changed), 0);
    assert_int_equal(changed, 0);
    c = claim(s, 10);
    assert_int_equal(c.count, 2);
    assert_int_equal(find_row(&c, "one")->attempts, 0);
    rt_store_close(s);
}

static void strict_order_waits_for_processed(void **state)
{
    const struct rt_store_options strict = {.strict_order = true};

    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, &strict);
    office_put("k", "one");
    office_put("k", "two");
    struct claim c = claim(s, 1);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.rows[0].prev, office_row("one"));
    let_go(s);
    office_admin("UPDATE rota_event SET state = 'processed' WHERE %s = 'one'", HERE->text);
    c = claim(s, 10);
    assert_int_equal(c.rows[0].prev, 0);
    rt_store_close(s);
}

/* All its rows have one key, and a dead one looks new: only the table of troubles knows. */
static void strict_order_of_a_table_that_was_there(void **state)
{
    const struct rt_store_options strict = {.strict_order = true};

    (void)state;
    office_empty();
    office_admin("DELETE FROM tbl_order_event");
    for (int i = 0; i < 2; i++)
        office_admin("INSERT INTO tbl_order_event (order_type, process, content) VALUES ('t', "
                     "'new', '{}')");
    struct rt_store *s = office_store(ORDERS ",key='all'", &strict);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 2);
    assert_int_equal(c.rows[0].prev, 0);
    assert_int_equal(c.rows[1].prev, c.rows[0].id);
    c.count = 1;
    mark_all(s, &c, RT_MARK_DEAD, "too large");
    c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.rows[0].prev, 0);
    rt_store_close(s);
    office_admin("DELETE FROM tbl_order_event");
}

static void what_is_stale_comes_again(void **state)
{
    char id[RT_EVENT_ID];

    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    struct claim c = claim(s, 10);
    snprintf(id, sizeof(id), "%s", c.rows[0].event_id);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    rt_store_close(s);
    office_admin("UPDATE rota_event SET updated = %s", HERE->aged);
    s = office_store(NULL, &often);
    c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_true(c.rows[0].again);
    assert_string_equal(c.rows[0].event_id, id); /* the same */
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    assert_int_equal(office_count("published"), 1);
    rt_store_close(s);
    const struct rt_store_options until = {.until_published = true, .republish_ms = 4};
    office_admin("UPDATE rota_event SET updated = %s", HERE->aged);
    s = office_store(NULL, &until);
    assert_int_equal(claim(s, 10).count, 0);
    rt_store_close(s);
}

/* The consumer was faster than the mark, or the mark was lost. */
static void processed_stays_processed(void **state)
{
    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put(NULL, "one");
    struct claim c = claim(s, 10);
    struct rt_store_mark mark = {.id = c.rows[0].id, .what = RT_MARK_PUBLISHED};
    let_go(s);
    office_admin("UPDATE rota_event SET state = 'processed'");
    assert_int_equal(rt_store_turn(s, &mark, 1, 0, NULL, NULL), 0);
    assert_int_equal(office_count("processed"), 1);
    mark.what = RT_MARK_DEAD;
    assert_int_equal(rt_store_turn(s, &mark, 1, 0, NULL, NULL), 0);
    assert_int_equal(office_count("processed"), 1);
    rt_store_close(s);
}

static void a_writer_never_waits(void **state)
{
    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    void *writer = office_conn();
    office_sql(writer, "%s", HERE->short_wait);
    office_sql(writer, "%s", HERE->begin);
    const struct rota_event e = {.topic = "t", .key = "k", .payload = "two", .size = 3};
    assert_int_equal(HERE->put(writer, &e), 0);
    office_sql(writer, "COMMIT");
    office_close(writer);
    rt_store_close(s);
}

/* A MariaDB that truncates what it is asked: order is kept, or nothing is claimed. */
static void what_a_server_cuts_is_no_order(void **state)
{
    const struct rt_store_options strict = {.strict_order = true};
    const struct rt_store_row *rows;
    size_t count = 0;

    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") != 0)
        return;
    office_empty();
    office_put("a", "a1");
    office_put("b", "b1");
    office_put("k", "k1");
    office_put("k", "k2");
    office_admin("SET GLOBAL sql_select_limit = 2");
    struct rt_store *s = office_store(NULL, NULL);
    struct claim c = claim(s, 10);
    office_admin("SET GLOBAL sql_select_limit = DEFAULT");
    assert_int_equal(c.count, 4);
    assert_int_equal(find_row(&c, "k2")->prev, office_row("k1"));
    let_go(s);
    rt_store_close(s);

    office_empty();
    office_admin("INSERT INTO rota_event (id, topic, msg_key, type, payload) SELECT "
                 "9000000000000000000 + seq, 't', 'k', 'made', 'x' FROM seq_1_to_400");
    office_admin("SET GLOBAL max_allowed_packet = 4096");
    s = office_store(NULL, &strict);
    int err = rt_store_turn(s, NULL, 0, 400, &rows, &count);
    office_admin("SET GLOBAL max_allowed_packet = 16777216");
    assert_int_equal(err, ROTA_INVALID);
    assert_non_null(strstr(rt_store_errmsg(s), "a smaller --batch"));
    let_go(s);
    rt_store_close(s);
    office_admin("TRUNCATE TABLE rota_event"); /* or ids go on from there */
}

static void ids_begin_at_one(void **state)
{
    const struct rt_store_row *rows;
    size_t count = 0;

    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") == 0) /* they have no sign there */
        return;
    office_empty();
    office_admin("INSERT INTO rota_event (id, topic, type, payload) VALUES (-5, 't', 'made', 'x')");
    struct rt_store *s = office_store(NULL, NULL);
    assert_int_equal(rt_store_turn(s, NULL, 0, 10, &rows, &count), ROTA_INVALID);
    assert_non_null(strstr(rt_store_errmsg(s), "the id -5: ids begin at 1"));
    let_go(s);
    rt_store_close(s);
    office_empty();
}

/* By their bytes, in every mode: a collation, or blanks that MariaDB pads, make no two keys one. */
static void keys_that_look_alike_are_two(void **state)
{
    static const struct rt_store_options modes[] = {
        {.lease_ms = 10000}, {.dead_blocks = true}, {.strict_order = true}};

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        office_empty();
        office_put("k", "dies");
        struct rt_store *s = office_store(NULL, &modes[i]);
        struct claim c = claim(s, 10);
        assert_int_equal(c.count, 1);
        mark_all(s, &c, i == 2 ? RT_MARK_PUBLISHED : RT_MARK_DEAD, "no");
        office_put("k ", "goes");
        office_put("K", "goes, too");
        office_put("k", "waits");
        c = claim_until(s, 3);
        assert_int_equal(find_row(&c, "goes")->prev, 0);
        assert_int_equal(find_row(&c, "goes, too")->prev, 0);
        assert_int_equal(find_row(&c, "waits")->prev, i == 0 ? 0 : office_row("dies"));
        let_go(s);
        rt_store_close(s);
    }
}

/* A number that MariaDB shows with zeros in one statement, and without in another. */
static void a_key_of_zeros_keeps_its_order(void **state)
{
    static const struct rt_store_options blocks = {.dead_blocks = true};

    (void)state;
    if (strcmp(OFFICE_WORD, "mysql") != 0)
        return;
    office_admin(
        "CREATE TABLE zeros (id INT PRIMARY KEY, k INT(6) ZEROFILL, st VARCHAR(20), KEY (st, id))");
    office_admin("INSERT INTO zeros VALUES (1, 42, 'new'), (2, 42, 'new'), (3, 43, 'new')");
    struct rt_store *s = office_store(
        "table=zeros,id=id,topic='t',key=k,payload=k,state=st,dead=dead", &blocks);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 3);
    assert_string_equal(c.rows[0].key, "000042");
    assert_int_equal(c.rows[0].prev, 0);
    assert_int_equal(c.rows[1].prev, 1);
    assert_int_equal(c.rows[2].prev, 0);
    rt_store_close(s);
    office_admin("DROP TABLE zeros");
}

const struct CMUnitTest cases_turns[] = {
    cmocka_unit_test(an_event_goes_its_way),
    cmocka_unit_test(two_share_the_work),
    cmocka_unit_test(marks_and_the_next_claim_are_one_turn),
    cmocka_unit_test(a_hole_in_the_middle_is_seen),
    cmocka_unit_test(what_commits_late_is_not_skipped),
    cmocka_unit_test(trouble_waits_and_counts),
    cmocka_unit_test(one_that_is_moved_aside_has_no_attempt_more),
    cmocka_unit_test(the_dead_let_others_pass),
    cmocka_unit_test(strict_order_waits_for_processed),
    cmocka_unit_test(strict_order_of_a_table_that_was_there),
    cmocka_unit_test(what_is_stale_comes_again),
    cmocka_unit_test(processed_stays_processed),
    cmocka_unit_test(a_writer_never_waits),
    cmocka_unit_test(what_a_server_cuts_is_no_order),
    cmocka_unit_test(ids_begin_at_one),
    cmocka_unit_test(keys_that_look_alike_are_two),
    cmocka_unit_test(a_key_of_zeros_keeps_its_order),
};
const size_t cases_turns_count = sizeof(cases_turns) / sizeof(cases_turns[0]);
