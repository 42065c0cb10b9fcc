/* SPDX-License-Identifier: Apache-2.0 */
/* What is lost: connections, replies, time. And how many round trips it takes. */
#include "office.h"

#include "lib/servers.h"

#include <stdio.h>
#include <string.h>

/* For calls whose answer is lost: long enough for those that are answered. */
static const struct rt_store_options quick = {.call_ms = 4000};

static struct rt_proxy *proxy_to(void)
{
    const struct rt_proxy_options opts = {.port = HERE->site->port(),
                                          .framing = HERE->site->framing};

    return rt_proxy_start(&opts);
}

/* Its process was killed: nothing is left to wait for. */
static void a_cut_connection_frees_its_rows(void **state)
{
    (void)state;
    if (!HERE->rows_lock)
        return;
    office_empty();
    struct rt_proxy *proxy = proxy_to();
    struct rt_store *a = office_store_at(rt_proxy_port(proxy), NULL, NULL);
    struct rt_store *b = office_store(NULL, NULL);
    office_put("k", "one");
    struct claim c = claim(a, 10);
    int64_t id = c.rows[0].id;
    assert_int_equal(c.count, 1);
    assert_int_equal(claim(b, 10).count, 0);
    rt_proxy_end(proxy, RT_PROXY_RESET, 0);
    c = claim_until(b, 1);
    assert_int_equal(c.rows[0].id, id);
    let_go(b);
    /* It cannot mark what it had to; then it reconnects by itself, and the mark stands. */
    const struct rt_store_mark mark = {.id = id, .what = RT_MARK_PUBLISHED};
    assert_int_equal(rt_store_turn(a, &mark, 1, 0, NULL, NULL), ROTA_UNREACHABLE);
    assert_true(rt_store_errmsg(a)[0] != '\0');
    assert_int_equal(rt_store_turn(a, &mark, 1, 0, NULL, NULL), 0);
    assert_int_equal(office_count("published"), 1);
    rt_store_close(a);
    rt_store_close(b);
    rt_proxy_stop(proxy);
}

/* The server itself throws out a stopped relay. */
static void who_stands_still_is_thrown_out(void **state)
{
    const struct rt_store_options short_lease = {.lease_ms = 1000};
    const struct rt_store_row *rows = NULL;
    size_t count = 0;

    (void)state;
    office_empty();
    struct rt_store *a = office_store(NULL, &short_lease);
    struct rt_store *b = office_store(NULL, NULL); /* keeps what it has until the end */
    office_put("k", "one");
    assert_int_equal(claim(a, 10).count, 1);
    struct claim c = claim_until(b, 1); /* A does nothing */
    assert_non_null(find_row(&c, "one"));
    if (HERE->rows_lock)
        assert_int_equal(rt_store_turn(a, NULL, 0, 10, &rows, &count), ROTA_UNREACHABLE);
    assert_int_equal(rt_store_turn(a, NULL, 0, 10, &rows, &count), 0);
    assert_int_equal(count, 0); /* B has it */
    mark_all(b, &c, RT_MARK_PUBLISHED, NULL);
    rt_store_close(a);
    rt_store_close(b);
}

/* The marks were committed, but nobody was told: what was claimed after them is free again. */
static void the_reply_to_a_mark_is_lost(void **state)
{
    (void)state;
    if (!HERE->rows_lock)
        return;
    office_empty();
    struct rt_proxy *proxy = proxy_to();
    struct rt_store *a = office_store_at(rt_proxy_port(proxy), NULL, &quick);
    struct rt_store *b = office_store(NULL, NULL);
    office_put("k", "one");
    office_put("k", "two");
    struct claim c = claim(a, 1);
    const struct rt_store_mark mark = {.id = c.rows[0].id, .what = RT_MARK_PUBLISHED};
    rt_proxy_lose(proxy, RT_PROXY_DOWN);
    assert_int_equal(rt_store_turn(a, &mark, 1, 10, &c.rows, &c.count), ROTA_UNREACHABLE);
    rt_proxy_heal(proxy);
    rt_proxy_end(proxy, RT_PROXY_RESET, 0);
    c = claim_until(b, 1);
    assert_non_null(find_row(&c, "two"));
    assert_int_equal(c.rows[0].prev, 0);
    assert_int_equal(office_count("published"), 1);
    rt_store_close(a);
    rt_store_close(b);
    rt_proxy_stop(proxy);
}

/* The marks never came: the row comes again, with the same id. */
static void a_lost_mark_brings_the_row_again(void **state)
{
    char id[RT_EVENT_ID];

    (void)state;
    if (!HERE->rows_lock)
        return;
    office_empty();
    struct rt_proxy *proxy = proxy_to();
    struct rt_store *a = office_store_at(rt_proxy_port(proxy), NULL, &quick);
    struct rt_store *b = office_store(NULL, NULL);
    office_put("k", "one");
    struct claim c = claim(a, 1);
    snprintf(id, sizeof(id), "%s", c.rows[0].event_id);
    const struct rt_store_mark mark = {.id = c.rows[0].id, .what = RT_MARK_PUBLISHED};
    rt_proxy_lose(proxy, RT_PROXY_UP);
    assert_int_equal(rt_store_turn(a, &mark, 1, 10, &c.rows, &c.count), ROTA_UNREACHABLE);
    rt_proxy_heal(proxy);
    rt_proxy_end(proxy, RT_PROXY_RESET, 0);
    c = claim_until(b, 1);
    assert_string_equal(c.rows[0].event_id, id);
    assert_int_equal(office_count("new"), 1);
    rt_store_close(a);
    rt_store_close(b);
    rt_proxy_stop(proxy);
}

static void count_round_trips(const struct rt_store_options *o)
{
    struct rt_proxy_counts before, after;
    struct rt_store_mark marks[100];

    office_empty();
    void *conn = office_conn();
    office_sql(conn, "BEGIN");
    for (int i = 0; i < 300; i++)
        office_sql(conn,
                   "INSERT INTO rota_event (topic, msg_key, payload) VALUES ('t', 'k%d', 'x')",
                   i % 7);
    office_sql(conn, "COMMIT");
    office_close(conn);
    struct rt_proxy *proxy = proxy_to();
    struct rt_store *s = office_store_at(rt_proxy_port(proxy), NULL, o);
    struct claim c = claim(s, 100);
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(c.count, 100);
        for (size_t i = 0; i < 100; i++)
            marks[i] = (struct rt_store_mark){.id = c.rows[i].id,
                                              .what = i < 90 || turn == 2 ? RT_MARK_PUBLISHED
                                                                          : RT_MARK_TROUBLE,
                                              .next_in_ms = -1,
                                              .reason = "x"};
        rt_proxy_counts(proxy, &before);
        assert_int_equal(rt_store_turn(s, marks, 100, 100, &c.rows, &c.count), 0);
        rt_proxy_counts(proxy, &after);
        assert_int_equal(after.flights - before.flights, 1);
    }
    rt_store_close(s);
    rt_proxy_stop(proxy);
}

static void a_turn_is_one_round_trip(void **state)
{
    const struct rt_store_options strict = {.strict_order = true, .dead_blocks = true};

    (void)state;
    if (!HERE->rows_lock)
        return;
    count_round_trips(NULL);
    count_round_trips(&strict);
}

struct woken {
    struct rt_store *s;
};

static bool is_woken(void *arg)
{
    return rt_store_wait(((struct woken *)arg)->s, 100, -1) == 1;
}

static void a_commit_wakes_where_it_can(void **state)
{
    (void)state;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    assert_int_equal(claim(s, 10).count, 0);
    assert_int_equal(rt_store_notifies(s), strcmp(OFFICE_WORD, "postgres") == 0);
    office_put("k", "one");
    if (rt_store_notifies(s)) {
        struct woken w = {.s = s};
        assert_true(rt_await(is_woken, &w, SITE_LIMIT_MS));
    } else {
        assert_int_equal(rt_store_wait(s, 1, -1), 0);
    }
    assert_int_equal(claim(s, 10).count, 1);
    rt_store_close(s);
}

static void a_server_that_dies_comes_back(void **state)
{
    const struct rt_store_row *rows = NULL;
    size_t count = 0;

    (void)state;
    if (!HERE->rows_lock)
        return;
    office_empty();
    struct rt_store *s = office_store(NULL, NULL);
    office_put("k", "one");
    assert_int_equal(claim(s, 10).count, 1);
    HERE->site->kill();
    assert_int_equal(rt_store_turn(s, NULL, 0, 10, &rows, &count), ROTA_UNREACHABLE);
    assert_int_equal(rt_store_turn(s, NULL, 0, 10, &rows, &count), ROTA_UNREACHABLE);
    HERE->site->run();
    struct claim c = claim(s, 10);
    assert_non_null(find_row(&c, "one"));
    rt_store_close(s);
}

const struct CMUnitTest cases_faults[] = {
    cmocka_unit_test(a_cut_connection_frees_its_rows),
    cmocka_unit_test(who_stands_still_is_thrown_out),
    cmocka_unit_test(the_reply_to_a_mark_is_lost),
    cmocka_unit_test(a_lost_mark_brings_the_row_again),
    cmocka_unit_test(a_turn_is_one_round_trip),
    cmocka_unit_test(a_commit_wakes_where_it_can),
    cmocka_unit_test(a_server_that_dies_comes_back),
};
const size_t cases_faults_count = sizeof(cases_faults) / sizeof(cases_faults[0]);
