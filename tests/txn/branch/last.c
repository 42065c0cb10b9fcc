/* SPDX-License-Identifier: Apache-2.0 */
/* A statement that the application leaves to the vote. */
#include "cases.h"

static const enum rt_party_what votes[] = {RT_PARTY_PREPARE, RT_PARTY_ONE_PHASE};

/* Begins the branch with a row of its own, and leaves LAST to the vote. */
static void begin(struct seat *s, struct rt_part *part, const char *last)
{
    seat_work(s, part, ++row);
    assert_int_equal(rt_party_room(s->party, strlen(last) + 1), 0);
    part->last = last;
}

static const char *insert_of(long long number)
{
    static char sql[80];

    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", number);
    return sql;
}

/* After a yes. */
static void finish(struct seat *s, struct rt_part *part, enum rt_party_what vote)
{
    if (vote == RT_PARTY_PREPARE)
        assert_int_equal(seat_do(s, RT_PARTY_COMMIT, part), RT_REPLY_DONE);
    assert_true(has_mark(HERE, part));
    assert_int_equal(HERE->prepared(), 0);
}

static void votes_yes(const char *last, uint64_t changed, bool reads)
{
    struct seat s;

    seat_open(&s, HERE, 0, false);
    for (int i = 0; i < 2; i++) {
        struct rt_part part = part_new(1);
        begin(&s, &part, last);
        part.watched = reads; /* MariaDB: taken for one that only reads */
        enum rt_reply said = seat_do(&s, votes[i], &part);
        if (said != (i == 0 ? RT_REPLY_YES : RT_REPLY_DONE))
            fail_msg("%s: %d, %s", last, (int)said, s.party->errmsg);
        assert_int_equal(part.changed, changed);
        finish(&s, &part, votes[i]);
        assert_true(has_row(HERE, row));
        assert_true(HERE->sql(s.conn, "DELETE FROM work WHERE id < 0"));
    }
    seat_close(&s);
}

static void votes_no(const char *last, int err, const char *words)
{
    struct seat s;

    seat_open(&s, HERE, 0, false);
    for (int i = 0; i < 2; i++) {
        struct rt_part part = part_new(1), next = part_new(1);
        begin(&s, &part, last);
        enum rt_reply said = seat_do(&s, votes[i], &part);
        if (said != RT_REPLY_NO || seat_err() != err)
            fail_msg("%s: %d, %d, %s", last, (int)said, seat_err(), s.party->errmsg);
        ASSERT_SAYS(&s, words);
        assert_false(has_row(HERE, row));
        assert_false(has_mark(HERE, &part));
        assert_int_equal(HERE->prepared(), 0);
        seat_work(&s, &next, row); /* the connection is free */
        assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, &next), RT_REPLY_DONE);
    }
    seat_close(&s);
}

#define PACKET 4096 /* what the server takes, for one case */

/* MariaDB ends a connection that sends more than it accepts. */
static void a_last_statement_that_is_too_long(void **state)
{
    static char sql[PACKET];
    struct seat s;

    (void)state;
    if (!IS_MYSQL)
        return;
    HERE->admin("SET GLOBAL max_allowed_packet = 4096");
    seat_open(&s, HERE, 0, false);
    for (int size = PACKET - 2; size > PACKET - 1200; size -= 300)
        for (int i = 0; i < 2; i++) {
            struct rt_part part = part_new(1);
            snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (-1)%*s", size - 28, " ");
            begin(&s, &part, sql);
            if (seat_do(&s, votes[i], &part) != (i == 0 ? RT_REPLY_YES : RT_REPLY_DONE))
                fail_msg("%d bytes: %s", size, s.party->errmsg);
            finish(&s, &part, votes[i]);
            assert_true(HERE->sql(s.conn, "DELETE FROM work WHERE id < 0"));
        }
    assert_int_equal(rt_party_room(s.party, PACKET), ROTA_INVALID);
    ASSERT_SAYS(&s, "max_allowed_packet");
    seat_close(&s);
    HERE->admin("SET GLOBAL max_allowed_packet = 16777216");
}

static void a_last_statement_is_of_the_branch(void **state)
{
    (void)state;
    votes_yes("INSERT INTO work VALUES (-1), (-2), (-3)", 3, false);
    votes_yes("INSERT INTO work VALUES (-1), (-2), (-3);", 3, true);
    votes_yes("INSERT INTO work VALUES (-1) -- and that is all", 1, false);
    votes_yes("DELETE FROM work WHERE id = -99", 0, false);
}

static void a_last_statement_answers_rows(void **state)
{
    (void)state;
    votes_yes("SELECT 't' AS x UNION ALL SELECT 'u' UNION ALL SELECT 'v'", 3, false);
    votes_yes("SELECT id FROM work WHERE id = -99", 0, false);
}

/* A branch that has only read until then does not count as one that only reads. */
static void a_last_statement_is_the_first_that_writes(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    assert_int_equal(seat_do_with(&s, RT_PARTY_BEGIN, &part, RT_PARTY_READS), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SELECT COUNT(*) FROM work"));
    assert_int_equal(rt_party_room(s.party, 100), 0);
    part.last = insert_of(++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    finish(&s, &part, RT_PARTY_PREPARE);
    assert_true(has_row(HERE, row));
    seat_close(&s);
}

static void a_last_statement_fails(void **state)
{
    (void)state;
    votes_no("INSERT INTO work VALUES (NULL)", ROTA_INVALID, "null");
    votes_no("INSERT INTO nowhere VALUES (1)", ROTA_INVALID, "nowhere");
    votes_no("UPDATE work SET (", ROTA_INVALID, "syntax");
}

/* It is never run, and the branch is gone. */
static void a_last_statement_of_what_is_rolled_back(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1), failed = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    begin(&s, &part, "INSERT INTO work VALUES (-1)");
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    begin(&s, &failed, "INSERT INTO work VALUES (-1)");
    assert_int_equal(seat_do(&s, RT_PARTY_FAIL, &failed), RT_REPLY_DONE);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &failed), RT_REPLY_NO);
    assert_false(has_row(HERE, -1));
    assert_false(has_row(HERE, row));
    seat_close(&s);
}

/* What MariaDB refuses by itself, PostgreSQL does; its tag reveals it. What was committed that way stays, as if the
 * application had committed it before; nothing is left prepared, and no marker. */
static void a_last_statement_that_ends_the_transaction(void **state)
{
    static const char *const ends[] = {"ROLLBACK", "COMMIT", "COMMIT AND CHAIN",
                                       "PREPARE TRANSACTION 'other'"};
    struct seat s;

    (void)state;
    if (IS_MYSQL) {
        votes_no("COMMIT", ROTA_INVALID, "XAER_RMFAIL");
        votes_no("CREATE TABLE other (id INT)", ROTA_INVALID, "XAER_RMFAIL");
        return;
    }
    seat_open(&s, HERE, 0, false);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct rt_part part = part_new(1);
        begin(&s, &part, ends[i]);
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
        ASSERT_SAYS(&s, "ended the transaction");
        assert_int_equal(seat_err(), ROTA_INVALID);
        assert_null(part.by);
        assert_false(has_mark(HERE, &part));
        if (i == 3)
            assert_true(HERE->sql(s.conn, "ROLLBACK PREPARED 'other'"));
        assert_int_equal(HERE->prepared(), 0);
        assert_int_equal(has_row(HERE, row), i == 1 || i == 2);
    }
    seat_close(&s);
}

/* Nobody commits what goes on after such an end, not even in one phase; a ROLLBACK TO has the same tag. */
static void a_last_statement_that_is_refused_commits_nothing(void **state)
{
    static const char *const lasts[] = {"ROLLBACK; BEGIN; INSERT INTO work VALUES (-1)",
                                        "ROLLBACK AND CHAIN; INSERT INTO work VALUES (-1)",
                                        "ROLLBACK TO s", "ROLLBACK"};
    struct seat s;

    (void)state;
    if (IS_MYSQL)
        return;
    seat_open(&s, HERE, 0, false);
    for (size_t i = 0; i < 2 * sizeof(lasts) / sizeof(lasts[0]); i++) {
        struct rt_part part = part_new(1);
        begin(&s, &part, lasts[i / 2]);
        assert_true(HERE->sql(s.conn, "SAVEPOINT s"));
        assert_int_equal(seat_do(&s, votes[i % 2], &part), RT_REPLY_NO);
        ASSERT_SAYS(&s, "ended the transaction");
        assert_false(has_row(HERE, -1));
        assert_false(has_row(HERE, row));
        assert_false(has_mark(HERE, &part));
        assert_int_equal(HERE->prepared(), 0);
    }
    seat_close(&s);
}

/* As the connection accepts it: MariaDB's only where it was told to. */
static void two_last_statements(void **state)
{
    struct seat s;

    (void)state;
    seat_open(&s, HERE, 0, false);
    bool takes = !IS_MYSQL || s.party->several;
    seat_close(&s);
    if (takes)
        votes_yes("INSERT INTO work VALUES (-1); INSERT INTO work VALUES (-2), (-3)", 2, false);
    else
        votes_no("INSERT INTO work VALUES (-1); INSERT INTO work VALUES (-2)", ROTA_INVALID,
                 "syntax");
    votes_no("INSERT INTO work VALUES (-1); INSERT INTO work VALUES (NULL)", ROTA_INVALID,
             takes ? "null" : "syntax");
}

/* PostgreSQL treats it as nothing, MariaDB not always: whatever the server says, nothing is left over. */
static void an_empty_last_statement(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    begin(&s, &part, "/* nothing */");
    enum rt_reply said = seat_do(&s, RT_PARTY_PREPARE, &part);
    if (said == RT_REPLY_YES)
        assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_DONE);
    else
        assert_true(IS_MYSQL && said == RT_REPLY_NO);
    assert_int_equal(has_row(HERE, row), said == RT_REPLY_YES);
    assert_int_equal(HERE->prepared(), 0);
    seat_close(&s);
}

/* What follows it would become part of its comment or its text: then nothing is prepared. */
static void a_last_statement_without_an_end(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    votes_no("INSERT INTO work VALUES ('-1", ROTA_INVALID, "");
    seat_open(&s, HERE, 0, false);
    begin(&s, &part, "INSERT INTO work VALUES (-1) /* ");
    enum rt_reply said = seat_do(&s, RT_PARTY_PREPARE, &part);
    assert_true(said == RT_REPLY_NO || (IS_MYSQL && !s.party->several && said == RT_REPLY_YES));
    if (said == RT_REPLY_YES)
        assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    assert_int_equal(HERE->prepared(), 0);
    seat_close(&s);
}

/* Nobody has the data: the connection is given up, and nothing is left of the branch. */
static void a_last_statement_that_wants_data(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    if (IS_MYSQL)
        return;
    seat_open(&s, HERE, 0, false);
    begin(&s, &part, "COPY work FROM STDIN");
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_LOST);
    ASSERT_SAYS(&s, "COPY");
    seat_close(&s);
    assert_int_equal(settle(&keeper, &part, false), RT_REPLY_ABSENT);
    assert_false(has_row(HERE, row));
}

/* T0.1's neighbour: a warning reveals a table without transactions; warnings of the application's own do not count. */
static void a_last_statement_with_warnings(void **state)
{
    (void)state;
    if (!IS_MYSQL)
        return;
    votes_yes("INSERT IGNORE INTO work VALUES (-1), (-1)", 1, false);
    HERE->admin("CREATE TABLE IF NOT EXISTS isam (id INT) ENGINE = MyISAM");
    votes_no("INSERT INTO isam VALUES (1)", ROTA_INVALID, "no InnoDB");
    HERE->admin("DROP TABLE isam");
}

/* Many bytes: room for them was made before. */
static void a_long_last_statement(void **state)
{
    static char sql[100000];
    size_t used = (size_t)snprintf(sql, sizeof(sql), "%s", insert_of(-1));

    (void)state;
    for (int i = 2; used < sizeof(sql) - 100; i++)
        used += (size_t)snprintf(sql + used, sizeof(sql) - used, ", (%d)", -i);
    struct seat s;
    struct rt_part part = part_new(1);
    seat_open(&s, HERE, 0, false);
    begin(&s, &part, sql);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_true(part.changed > 9000);
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    assert_false(has_row(HERE, -1));
    seat_close(&s);
}

const struct CMUnitTest cases_last[] = {
    cmocka_unit_test(a_last_statement_is_of_the_branch),
    cmocka_unit_test(a_last_statement_answers_rows),
    cmocka_unit_test(a_last_statement_is_the_first_that_writes),
    cmocka_unit_test(a_last_statement_fails),
    cmocka_unit_test(a_last_statement_of_what_is_rolled_back),
    cmocka_unit_test(a_last_statement_that_ends_the_transaction),
    cmocka_unit_test(a_last_statement_that_is_refused_commits_nothing),
    cmocka_unit_test(two_last_statements),
    cmocka_unit_test(an_empty_last_statement),
    cmocka_unit_test(a_last_statement_without_an_end),
    cmocka_unit_test(a_last_statement_that_wants_data),
    cmocka_unit_test(a_last_statement_with_warnings),
    cmocka_unit_test(a_long_last_statement),
    cmocka_unit_test(a_last_statement_that_is_too_long),
};
const size_t cases_last_count = sizeof(cases_last) / sizeof(cases_last[0]);
