/* SPDX-License-Identifier: Apache-2.0 */
/* What a branch does when nothing is lost. */
#include "cases.h"

static void commits_on_its_own_connection(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(HERE->prepared(), 1);
    assert_false(has_row(HERE, row));
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &part), RT_REPLY_PREPARED);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_DONE);
    assert_true(has_row(HERE, row));
    assert_true(has_mark(HERE, &part));
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &part), RT_REPLY_COMMITTED);
    assert_int_equal(HERE->prepared(), 0);
    seat_close(&s);
}

static void rolls_back_prepared(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    assert_false(has_row(HERE, row));
    assert_false(has_mark(HERE, &part));
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &part), RT_REPLY_ABSENT);
    seat_close(&s);
}

static void rolls_back_what_did_not_prepare(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1), next = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &part), RT_REPLY_REFUSED); /* not prepared */
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    assert_false(has_row(HERE, row));
    seat_work(&s, &next, row); /* the connection is free */
    assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, &next), RT_REPLY_DONE);
    assert_true(has_row(HERE, row));
    seat_close(&s);
}

static void one_phase_leaves_its_marker(void **state)
{
    struct seat s;
    struct rt_part part = part_new(7);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, &part), RT_REPLY_DONE);
    assert_true(has_row(HERE, row));
    assert_true(has_mark(HERE, &part));
    assert_int_equal(seat_do_with(&keeper, RT_PARTY_ASK, &part, RT_PARTY_FENCE),
                     RT_REPLY_COMMITTED);
    seat_close(&s);
}

static void a_failed_branch_votes_no(void **state)
{
    static const enum rt_party_what votes[] = {RT_PARTY_PREPARE, RT_PARTY_ONE_PHASE};
    struct seat s;

    (void)state;
    seat_open(&s, HERE, 0, false);
    for (int i = 0; i < 2; i++) {
        struct rt_part part = part_new(1);
        seat_work(&s, &part, ++row);
        assert_int_equal(seat_do(&s, RT_PARTY_FAIL, &part), RT_REPLY_DONE);
        assert_int_equal(seat_do(&s, votes[i], &part), RT_REPLY_NO);
        assert_int_not_equal(seat_err(), 0);
        assert_false(has_row(HERE, row));
        assert_int_equal(HERE->prepared(), 0);
    }
    seat_close(&s);
}

/* T0.3: PostgreSQL answers ROLLBACK to PREPARE TRANSACTION, without an error; MariaDB prepares what is left. */
static void a_statement_that_failed_unheeded_votes_no(void **state)
{
    static const enum rt_party_what votes[] = {RT_PARTY_PREPARE, RT_PARTY_ONE_PHASE};
    struct seat s;

    (void)state;
    seat_open(&s, HERE, 0, false);
    for (int i = 0; i < 2; i++) {
        struct rt_part part = part_new(1);
        seat_work(&s, &part, ++row);
        assert_false(HERE->sql(s.conn, "INSERT INTO work VALUES (NULL)"));
        assert_int_equal(seat_do_with(&s, votes[i], &part, RT_PARTY_WRITES), RT_REPLY_NO);
        assert_false(has_row(HERE, row));
        assert_int_equal(HERE->prepared(), 0);
    }
    seat_close(&s);
}

static void who_only_read_drops_out(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1), wrote = part_new(2);

    (void)state;
    seat_open(&s, HERE, 0, false);
    assert_int_equal(seat_do_with(&s, RT_PARTY_BEGIN, &part, RT_PARTY_READS), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SELECT COUNT(*) FROM work"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_READONLY);
    assert_int_equal(HERE->prepared(), 0);
    assert_false(has_mark(HERE, &part));
    assert_int_equal(seat_do_with(&s, RT_PARTY_BEGIN, &wrote, RT_PARTY_READS), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "INSERT INTO work VALUES (-1)"));
    assert_true(HERE->sql(s.conn, "DELETE FROM work WHERE id = -1"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &wrote), RT_REPLY_YES); /* the hint was wrong */
    assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &wrote), RT_REPLY_DONE);
    seat_close(&s);
}

/* After a branch that wrote, the next one is asked with its vote, not before it: so one that only reads is prepared,
 * once. */
static void who_wrote_is_asked_with_its_vote(void **state)
{
    static const enum rt_reply votes[] = {RT_REPLY_YES, RT_REPLY_YES, RT_REPLY_READONLY};
    struct seat s;

    (void)state;
    if (HERE->kind->gated)
        return; /* MariaDB is asked only where a hint says it is likely */
    seat_open(&s, HERE, 0, false);
    for (uint32_t i = 0; i < 3; i++) {
        struct rt_part part = part_new(i + 1);
        assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part), RT_REPLY_DONE);
        assert_true(HERE->sql(s.conn, i == 0 ? "INSERT INTO work VALUES (-2)" : "TABLE work"));
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), votes[i]);
        if (votes[i] == RT_REPLY_YES)
            assert_int_equal(seat_do(&s, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    }
    seat_close(&s);
}

/* The same in a read-only transaction, which cannot even leave its marker. */
static void who_wrote_and_may_only_read_drops_out(void **state)
{
    struct rt_part wrote = part_new(1), reads = part_new(2), both = part_new(3);
    struct seat s;

    (void)state;
    if (HERE->kind->gated)
        return;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &wrote, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &wrote), RT_REPLY_YES);
    assert_int_equal(seat_do(&s, RT_PARTY_COMMIT, &wrote), RT_REPLY_DONE);
    assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &reads), RT_REPLY_DONE);
    assert_true(HERE->sql(s.conn, "SET TRANSACTION READ ONLY"));
    assert_true(HERE->sql(s.conn, "TABLE work"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &reads), RT_REPLY_READONLY);
    assert_int_equal(HERE->prepared(), 0);
    seat_work(&s, &both, ++row);
    assert_true(HERE->sql(s.conn, "SET TRANSACTION READ ONLY"));
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &both), RT_REPLY_NO); /* no marker, no yes */
    assert_false(has_row(HERE, row));
    seat_close(&s);
}

static void a_keeper_takes_over(void **state)
{
    struct seat s;
    struct rt_part done = part_new(1), undone = part_new(2);

    (void)state;
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &done, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &done), RT_REPLY_YES);
    seat_close(&s);
    seat_open(&s, HERE, 0, false);
    seat_work(&s, &undone, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &undone), RT_REPLY_YES);
    seat_close(&s);
    done = (struct rt_part){
        .name = {.id = done.name.id, .branch = 1}}; /* all that a journal knows */
    undone = (struct rt_part){.name = {.id = undone.name.id, .branch = 2}};
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &done), RT_REPLY_PREPARED);
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &undone), RT_REPLY_PREPARED);
    assert_int_equal(settle(&keeper, &done, true), RT_REPLY_COMMITTED);
    assert_int_equal(settle(&keeper, &undone, false), RT_REPLY_ABSENT);
    assert_true(has_row(HERE, row - 1));
    assert_false(has_row(HERE, row));
    assert_int_equal(HERE->prepared(), 0);
}

static void a_fence_keeps_it_out(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1), one = part_new(1);

    (void)state;
    seat_open(&s, HERE, 0, false);
    assert_int_equal(seat_do_with(&keeper, RT_PARTY_ASK, &part, RT_PARTY_FENCE), RT_REPLY_ABSENT);
    assert_int_equal(seat_do_with(&keeper, RT_PARTY_ASK, &part, RT_PARTY_FENCE), RT_REPLY_ABSENT);
    assert_int_equal(seat_do(&keeper, RT_PARTY_ASK, &part), RT_REPLY_ABSENT);
    seat_work(&s, &part, ++row);
    assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_NO);
    assert_int_equal(seat_do_with(&keeper, RT_PARTY_ASK, &one, RT_PARTY_FENCE), RT_REPLY_ABSENT);
    seat_work(&s, &one, row);
    assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, &one), RT_REPLY_NO);
    assert_false(has_row(HERE, row));
    seat_close(&s);
}

/* The marker is written and not committed: what the fence finds is "at work". */
static void a_fence_waits_for_who_is_at_work(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);
    char sql[160], id[RT_TXN_ID_TEXT];

    (void)state;
    rt_txn_id_text(&part.name.id, id);
    snprintf(sql, sizeof(sql), "INSERT INTO rota_mark VALUES (%s%s%s, 1, 1)", HERE->hex, id,
             HERE->hex_end);
    seat_open(&s, HERE, 0, false);
    assert_true(HERE->sql(s.conn, "BEGIN"));
    assert_true(HERE->sql(s.conn, sql));
    assert_int_equal(seat_do_with(&keeper, RT_PARTY_ASK, &part, RT_PARTY_FENCE), RT_REPLY_HELD);
    assert_true(HERE->sql(s.conn, "COMMIT"));
    assert_int_equal(seat_do_with(&keeper, RT_PARTY_ASK, &part, RT_PARTY_FENCE),
                     RT_REPLY_COMMITTED);
    seat_close(&s);
}

/* ---- LIST, FORGET ------------------------------------------------------------- */

struct told {
    size_t ours, others;
    struct rt_name name;
    char text[200];
};

static void note(void *arg, const struct rt_party_seen *seen)
{
    struct told *t = arg;

    t->ours += seen->ours;
    t->others += !seen->ours;
    if (seen->ours)
        t->name = seen->name;
    else
        snprintf(t->text, sizeof(t->text), "%s; %s", seen->text, seen->finish);
}

static struct told list(void)
{
    struct told t = {0};
    struct rt_party_op op = {.what = RT_PARTY_LIST,
                             .list = {.journal = SITE_JOURNAL, .each = note, .arg = &t}};

    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE);
    return t;
}

static void lists_orphans_by_our_number(void **state)
{
    struct seat mine, other, foreign;
    struct rt_part part = part_new(3), theirs = part_new(1);

    (void)state;
    theirs.name.id = rt_txn_id_make(SITE_JOURNAL + 1, rt_txn_id_birth(&theirs.name.id), 5);
    seat_open(&mine, HERE, 0, false);
    seat_open(&other, HERE, 0, false);
    seat_open(&foreign, HERE, 0, false);
    seat_work(&mine, &part, ++row);
    seat_work(&other, &theirs, ++row);
    assert_int_equal(seat_do(&mine, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
    assert_int_equal(seat_do(&other, RT_PARTY_PREPARE, &theirs), RT_REPLY_YES);
    assert_true(HERE->sql(foreign.conn, IS_MYSQL ? "XA START 'somebody','else',7" : "BEGIN"));
    assert_true(HERE->sql(foreign.conn, "INSERT INTO work VALUES (-5)"));
    if (IS_MYSQL)
        assert_true(HERE->sql(foreign.conn, "XA END 'somebody','else',7"));
    assert_true(HERE->sql(foreign.conn, IS_MYSQL ? "XA PREPARE 'somebody','else',7"
                                                 : "PREPARE TRANSACTION 'somebody'"));
    struct told t = list();
    assert_int_equal(t.ours, 1);
    assert_int_equal(t.others, 2);
    assert_memory_equal(&t.name.id, &part.name.id, sizeof(part.name.id));
    assert_int_equal(t.name.branch, 3);
    assert_int_equal(t.name.deadline_ms, part.name.deadline_ms);
    assert_non_null(strstr(t.text, "ROLLBACK"));
    assert_int_equal(seat_do(&mine, RT_PARTY_ROLLBACK, &part), RT_REPLY_DONE);
    assert_int_equal(seat_do(&other, RT_PARTY_ROLLBACK, &theirs), RT_REPLY_DONE);
    t = list();
    assert_int_equal(t.ours + t.others, 1); /* the foreign one, untouched */
    assert_true(HERE->sql(foreign.conn, IS_MYSQL ? "XA ROLLBACK 'somebody','else',7"
                                                 : "ROLLBACK PREPARED 'somebody'"));
    seat_close(&mine);
    seat_close(&other);
    seat_close(&foreign);
}

static void forgets_markers_below_a_floor(void **state)
{
    struct seat s;
    struct rt_part old = part_new(1), kept = part_new(1), young = part_new(1);

    (void)state;
    old.name.id = rt_txn_id_make(SITE_JOURNAL, 1000, 1);
    kept.name.id = rt_txn_id_make(SITE_JOURNAL, 1001, 2);
    seat_open(&s, HERE, 0, false);
    for (struct rt_part *const *part = (struct rt_part *const[]){&old, &kept, &young, NULL};
         *part != NULL; part++) {
        seat_work(&s, *part, ++row);
        assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, *part), RT_REPLY_DONE);
    }
    struct rt_party_op op = {
        .what = RT_PARTY_FORGET,
        .forget = {
            .journal = SITE_JOURNAL, .before_ms = 2000, .keep = &kept.name.id, .keep_count = 1}};
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE);
    assert_int_equal(op.forget.count, 1);
    assert_false(op.forget.more);
    assert_false(has_mark(HERE, &old));
    assert_true(has_mark(HERE, &kept));
    assert_true(has_mark(HERE, &young));
    op.forget.keep_count = 0;
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE);
    assert_int_equal(op.forget.count, 1);
    seat_close(&s);
}

/* The keeper's URL may lead to another database of the server than the branch was in, and its markers must not stay
 * there for ever. */
static void forgets_markers_in_other_databases(void **state)
{
    struct rt_part old = part_new(1), young = part_new(1);
    struct seat s;
    char sql[300], id[RT_TXN_ID_TEXT];

    (void)state;
    if (!IS_MYSQL)
        return;
    HERE->admin("CREATE DATABASE `else``where`");
    HERE->admin("CREATE DATABASE mine_alone");
    HERE->admin("GRANT ALL ON `else``where`.* TO rota@'%'");
    HERE->admin("CREATE TABLE mine_alone.rota_mark LIKE rota_mark"); /* not for this user */
    seat_bare(&s, HERE, 0, false);
    assert_true(HERE->sql(s.conn, "USE `else``where`"));
    struct rt_party_op op = {.what = RT_PARTY_ATTACH};
    assert_int_equal(seat_op(&s, &op), RT_REPLY_DONE);
    old.name.id = rt_txn_id_make(SITE_JOURNAL, 1000, 1);
    for (struct rt_part *const *part = (struct rt_part *const[]){&old, &young, NULL}; *part != NULL;
         part++) {
        assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, *part), RT_REPLY_DONE);
        assert_int_equal(seat_do(&s, RT_PARTY_ONE_PHASE, *part), RT_REPLY_DONE);
    }
    rt_txn_id_text(&old.name.id, id);
    snprintf(sql, sizeof(sql), "INSERT INTO mine_alone.rota_mark VALUES (x'%s', 1, 1)", id);
    HERE->admin(sql);
    op = (struct rt_party_op){.what = RT_PARTY_FORGET,
                              .forget = {.journal = SITE_JOURNAL, .before_ms = 2000}};
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE);
    assert_int_equal(op.forget.count, 1);
    assert_int_equal(
        HERE->number("SELECT COUNT(*) FROM `else``where`.rota_mark WHERE branch = 1 AND "
                     "id > x'00000000000000000000000000000001'"),
        1);
    assert_int_equal(HERE->number("SELECT COUNT(*) FROM mine_alone.rota_mark"), 1);
    seat_close(&s);
    HERE->admin("DROP DATABASE `else``where`");
    HERE->admin("DROP DATABASE mine_alone");
}

/* ---- The server dies -------------------------------------------------------------- */

static void prepared_outlives_the_server(void **state)
{
    struct seat a, b;
    struct rt_part commit = part_new(1), abort = part_new(2);

    (void)state;
    seat_open(&a, HERE, 0, false);
    seat_open(&b, HERE, 0, false);
    seat_work(&a, &commit, ++row);
    seat_work(&b, &abort, ++row);
    assert_int_equal(seat_do(&a, RT_PARTY_PREPARE, &commit), RT_REPLY_YES);
    assert_int_equal(seat_do(&b, RT_PARTY_PREPARE, &abort), RT_REPLY_YES);
    HERE->kill();
    assert_int_equal(seat_do(&a, RT_PARTY_COMMIT, &commit), RT_REPLY_LOST);
    assert_null(commit.by);
    assert_int_equal(seat_do(&a, RT_PARTY_BEGIN, &commit), RT_REPLY_LOST); /* of no use any more */
    HERE->run();
    seat_close(&a);
    seat_close(&b);
    seat_close(&keeper);
    seat_open(&keeper, HERE, 0, true);
    assert_int_equal(list().ours, 2);
    assert_int_equal(settle(&keeper, &commit, true), RT_REPLY_COMMITTED);
    assert_int_equal(settle(&keeper, &abort, false), RT_REPLY_ABSENT);
    assert_true(has_row(HERE, row - 1));
    assert_true(has_mark(HERE, &commit));
    assert_false(has_row(HERE, row));
    assert_int_equal(HERE->prepared(), 0);
}

/* ---- LOOK --------------------------------------------------------------------- */

struct looked {
    int rows, cells;
    char last[64];
};

static void take_look(void *arg, int cells, char *const *values)
{
    struct looked *l = arg;

    l->rows++;
    l->cells = cells;
    snprintf(l->last, sizeof(l->last), "%s", values[0] != NULL ? values[0] : "null");
}

static void looks_for_people(void **state)
{
    struct looked l = {0};
    struct seat s;
    struct rt_party_op op = {
        .what = RT_PARTY_LOOK,
        .look = {.sql = "SELECT 7, NULL UNION ALL SELECT NULL, 1", .row = take_look, .arg = &l}};

    (void)state;
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE);
    assert_int_equal(l.rows, 2);
    assert_int_equal(l.cells, 2);
    assert_string_equal(l.last, "null");
    op.look.sql = "SELECT nothing FROM nowhere";
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_REFUSED);
    assert_int_equal(seat_err(), ROTA_INVALID);
    op.look.sql = "SELECT 1";
    assert_int_equal(seat_op(&keeper, &op), RT_REPLY_DONE); /* the connection is as before */
    assert_string_equal(l.last, "1");
    seat_open(&s, HERE, 0, false); /* an application asks by itself */
    assert_int_equal(seat_op(&s, &op), RT_REPLY_REFUSED);
    seat_close(&s);
}

const struct CMUnitTest cases_plain[] = {
    cmocka_unit_test(commits_on_its_own_connection),
    cmocka_unit_test(rolls_back_prepared),
    cmocka_unit_test(rolls_back_what_did_not_prepare),
    cmocka_unit_test(one_phase_leaves_its_marker),
    cmocka_unit_test(a_failed_branch_votes_no),
    cmocka_unit_test(a_statement_that_failed_unheeded_votes_no),
    cmocka_unit_test(who_only_read_drops_out),
    cmocka_unit_test(who_wrote_is_asked_with_its_vote),
    cmocka_unit_test(who_wrote_and_may_only_read_drops_out),
    cmocka_unit_test(a_keeper_takes_over),
    cmocka_unit_test(a_fence_keeps_it_out),
    cmocka_unit_test(a_fence_waits_for_who_is_at_work),
    cmocka_unit_test(lists_orphans_by_our_number),
    cmocka_unit_test(forgets_markers_below_a_floor),
    cmocka_unit_test(forgets_markers_in_other_databases),
    cmocka_unit_test(looks_for_people),
    cmocka_unit_test(prepared_outlives_the_server),
};
const size_t cases_plain_count = sizeof(cases_plain) / sizeof(cases_plain[0]);
