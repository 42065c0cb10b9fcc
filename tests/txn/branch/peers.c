/* SPDX-License-Identifier: Apache-2.0 */
/* Bugs of others' XA, by their numbers (reference/transactions.md 5.2, 25 to 30): what happened there does not happen
 * here. */
#include "cases.h"

#include <poll.h>

/* seata#5494, #4073, #4138, #2663, #2971: "unknown xid" was taken for finished, or retried for ever. Here it is HELD
 * while the connection that prepared lives, and then it is done. PostgreSQL needs no waiting. */
static void seata_5494_unknown_is_asked_about(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1), copy;

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    copy = part;
    copy.by = NULL;
    if (HERE->kind->gated) {
        poll(NULL, 0, 150);
        assert_int_equal(seat_do(&keeper, RT_PARTY_GATE, &copy), RT_REPLY_HELD);
        assert_int_equal(seat_do(&keeper, RT_PARTY_COMMIT, &copy), RT_REPLY_HELD);
        assert_int_equal(seat_do_with(&keeper, RT_PARTY_COMMIT, &copy, RT_PARTY_UNGATED),
                         RT_REPLY_HELD); /* NOTA */
        assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &copy), RT_REPLY_PREPARED);
        assert_false(has_row(HERE, row));
        assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part),
                         RT_REPLY_DONE); /* its own can, all the time */
    }
    assert_int_equal(settle(&keeper, &copy, true), RT_REPLY_COMMITTED);
    assert_true(has_row(HERE, row));
    seat_close(&s);
}

/* seata#5832: a rollback that was done was ordered again and again. */
static void seata_5832_rolled_back_already(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    assert_int_equal(seat_do(&keeper, RT_PARTY_GATE, &part),
                     HERE->kind->gated ? RT_REPLY_ABSENT : RT_REPLY_CLEAR);
    assert_int_equal(settle(&keeper, &part, false), RT_REPLY_ABSENT);
    assert_int_equal(settle(&keeper, &part, false), RT_REPLY_ABSENT);
    seat_close(&s);
}

/* seata#3085, #7267: two branches of one transaction want one row: the second cannot wait for the first, which waits
 * for it. Its statement fails, so it votes no, and nothing hangs. */
static void seata_3085_same_row_in_two_branches(void **state)
{
    struct seat a, b;
    struct rt_part one = part_new(1), two = one;

    (void)state;
    two.name.branch = 2;
    seat_open(&a, HERE, 0, false);
    seat_open(&b, HERE, 0, false);
    assert_true(HERE->sql(b.conn, IS_MYSQL ? "SET innodb_lock_wait_timeout = 1"
                                           : "SET lock_timeout = '1s'"));
    seat_work(&a, &one, ++row);
    assert_int_equal(seat_do(&a, RT_PARTY_PREPARE, &one), RT_REPLY_YES);
    seat_work(&b, &two, ++row);
    char sql[80];
    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", row - 1);
    assert_false(HERE->sql(b.conn, sql));
    assert_int_equal(seat_do(&b, RT_PARTY_PREPARE, &two), RT_REPLY_NO);
    assert_int_equal(seat_do(&a, RT_PARTY_ROLLBACK, &one), RT_REPLY_DONE);
    assert_false(has_row(HERE, row));
    assert_false(has_row(HERE, row - 1));
    seat_close(&a);
    seat_close(&b);
}

/* dtm#54: commit by another session; dtm#277: a new connection for each branch. Here branches follow each other on
 * one. */
static void dtm_277_one_connection_many_branches(void **state)
{
    struct seat s;

    (void)state;
    seat_open(&s, HERE, 0, false);
    for (int i = 0; i < 20; i++) {
        struct rt_part part = part_new((uint32_t)i), next = part_new(77);
        seat_work(&s, &part, ++row);
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
        if (IS_MYSQL) { /* it pins its connection, and says so */
            assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &next), RT_REPLY_NO);
            ASSERT_SAYS(&s, "COMMIT or ROLLBACK comes first");
        }
        assert_int_equal(seat_do(&s, i % 2 == 0 ? RT_PARTY_COMMIT : RT_PARTY_ROLLBACK, &part),
                         RT_REPLY_DONE);
        assert_int_equal(has_row(HERE, row), i % 2 == 0);
    }
    seat_close(&s);
}

/* quarkus#35806: everything was committed, the log entry stayed: warnings for ever. Here the marker ends it. */
static void quarkus_35806_committed_already(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_DONE);
    assert_int_equal(settle(&keeper, &part, true), RT_REPLY_COMMITTED);
    seat_close(&s);
}

/* The other half of it: absent, decided COMMIT, and no marker: nobody assumes that it was committed. */
static void absent_is_never_assumed_committed(void **state)
{
    struct rt_part part = part_new(1);

    (void)state;
    part.clear = true; /* whatever the gate said */
    assert_int_equal(seat_do(&keeper, RT_PARTY_COMMIT, &part), RT_REPLY_ABSENT);
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &part), RT_REPLY_ABSENT);
}

/* quarkus#35238: recovery found nothing before the application had used its data source. */
static void first_count(void *arg, const struct rt_party_seen *seen)
{
    *(size_t *)arg += seen->ours;
}

static void quarkus_35238_recovery_needs_no_first_use(void **state)
{
    struct seat s, fresh;
    struct rt_part part = part_new(1);
    size_t ours = 0;

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    seat_close(&s);
    seat_open(&fresh, HERE, 0, true);
    struct rt_party_op op = {.what = RT_PARTY_LIST,
                             .list = {.journal = SITE_JOURNAL, .each = first_count, .arg = &ours}};
    assert_int_equal(seat_op(&fresh, &op), RT_REPLY_DONE);
    assert_int_equal(ours, 1);
    assert_int_equal(settle(&fresh, &part, false), RT_REPLY_ABSENT);
    seat_close(&fresh);
}

/* quarkus#4765: a node took others' branches for its own, and rolled them back. See also lists_orphans_by_our_number.
 * */
static void quarkus_4765_others_are_not_ours(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);
    size_t ours = 0;

    (void)state;
    part.name.id = rt_txn_id_make(SITE_JOURNAL ^ 1u << 31, 5, 5);
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    struct rt_party_op op = {.what = RT_PARTY_LIST,
                             .list = {.journal = SITE_JOURNAL, .each = first_count, .arg = &ours}};
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE);
    assert_int_equal(ours, 0);
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    seat_close(&s);
}

const struct CMUnitTest cases_peers[] = {
    cmocka_unit_test(seata_5494_unknown_is_asked_about),
    cmocka_unit_test(seata_5832_rolled_back_already),
    cmocka_unit_test(seata_3085_same_row_in_two_branches),
    cmocka_unit_test(dtm_277_one_connection_many_branches),
    cmocka_unit_test(quarkus_35806_committed_already),
    cmocka_unit_test(absent_is_never_assumed_committed),
    cmocka_unit_test(quarkus_35238_recovery_needs_no_first_use),
    cmocka_unit_test(quarkus_4765_others_are_not_ours),
};
const size_t cases_peers_count = sizeof(cases_peers) / sizeof(cases_peers[0]);
