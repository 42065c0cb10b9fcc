/* SPDX-License-Identifier: Apache-2.0 */
/* The lane, story by story: what it does with rows, with verdicts, and with a database or broker that is away. */
#include "txn/relay/lane.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define BATCH 8

static struct rt_lane lane;
static struct rt_lane_item items[BATCH];
static struct rt_store_mark marks[BATCH];
static struct rt_lane_past past[RT_LANE_PAST(BATCH)];
static struct rt_store_row rows[BATCH];
static enum rt_sent sent[BATCH];
static const char *why[BATCH];

static void begin(bool strict)
{
    const struct rt_lane_options opts = {
        .batch = BATCH, .attempts = 3, .body_max = 100, .strict = strict};

    memset(past, 0, sizeof(past));
    rt_lane_begin(&lane, &opts, items, marks, past);
    memset(sent, 0, sizeof(sent));
    memset(why, 0, sizeof(why));
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_REACH);
    rt_lane_reached(&lane, 0);
}

static struct rt_store_row row(int64_t id, int64_t prev)
{
    return (struct rt_store_row){
        .id = id, .prev = prev, .event_id = "e", .topic = "t", .payload = "p", .size = 1};
}

static void turn(size_t count)
{
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_TURN);
    rt_lane_turned(&lane, 0, rows, count);
}

static void wants(enum rt_lane_op op, uint32_t limit)
{
    struct rt_lane_todo todo = rt_lane_todo(&lane);

    assert_int_equal(todo.op, op);
    assert_int_equal(todo.limit, limit);
}

/* Publishes wave after wave: VERDICTS are for the rows of the claim. */
static void publish(const enum rt_sent *verdicts)
{
    while (rt_lane_todo(&lane).op == RT_LANE_PUBLISH) {
        size_t n = 0;
        for (size_t i = 0; i < lane.count; i++)
            if (items[i].goes && items[i].wave == lane.wave) {
                why[n] = verdicts[i] == RT_SENT_REFUSED ? "no route" : NULL;
                sent[n++] = verdicts[i];
            }
        assert_int_equal(n, lane.going);
        rt_lane_published(&lane, 0, sent, why);
    }
}

static void marked(size_t i, int64_t id, enum rt_store_what what)
{
    assert_true(i < lane.mark_count);
    assert_int_equal(lane.marks[i].id, id);
    assert_int_equal(lane.marks[i].what, what);
}

static void what_is_confirmed_is_marked_with_the_next_claim(void **state)
{
    struct rt_message batch[BATCH];

    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 1), rows[2] = row(5, 0);
    turn(3);
    assert_int_equal(rt_lane_batch(&lane, batch),
                     2); /* 2 is behind 1: it goes when that is confirmed */
    sent[0] = sent[1] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_PUBLISH);
    assert_int_equal(rt_lane_batch(&lane, batch), 1);
    rt_lane_published(&lane, 0, sent, why);
    wants(RT_LANE_TURN, BATCH);
    assert_int_equal(lane.mark_count, 3);
    marked(0, 1, RT_MARK_PUBLISHED), marked(1, 5, RT_MARK_PUBLISHED),
        marked(2, 2, RT_MARK_PUBLISHED);
}

static void what_is_behind_anothers_row_is_let_go(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(3, 2), rows[1] = row(4, 3), rows[2] = row(7, 0); /* 2 is another's */
    turn(3);
    assert_int_equal(lane.going, 1);
    assert_false(items[0].goes || items[1].goes);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    assert_int_equal(lane.mark_count, 1);
    marked(0, 7, RT_MARK_PUBLISHED);
    /* Only such rows: they are let go before it waits, so that nobody is kept from them. */
    turn(2);
    wants(RT_LANE_TURN, 0);
    turn(0);
    wants(RT_LANE_WAIT, 0);
}

static void with_strict_order_one_of_a_key_at_a_time(void **state)
{
    (void)state;
    begin(true);
    rows[0] = row(1, 0), rows[1] = row(2, 1);
    turn(2);
    assert_int_equal(lane.going, 1);
}

static void behind_one_that_failed_nothing_of_its_key_goes(void **state)
{
    static const enum rt_sent verdicts[] = {RT_SENT_CONFIRMED, RT_SENT_REFUSED, RT_SENT_CONFIRMED,
                                            RT_SENT_CONFIRMED};

    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 1), rows[2] = row(3, 2), rows[3] = row(4, 0);
    turn(4);
    publish(verdicts);
    assert_int_equal(lane.counts.sent, 3); /* 3 was never sent */
    assert_int_equal(lane.mark_count, 3);
    marked(0, 1, RT_MARK_PUBLISHED), marked(1, 4, RT_MARK_PUBLISHED), marked(2, 2, RT_MARK_TROUBLE);
    assert_string_equal(marks[2].reason, "no route");
    assert_int_equal(marks[2].next_in_ms, 1000);
}

static void when_much_of_the_lease_is_over_the_next_waves_wait(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 1);
    turn(2);
    rt_lane_hurry(&lane);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    wants(RT_LANE_TURN, BATCH);
    assert_int_equal(lane.mark_count, 1);
}

static void after_the_last_attempt_it_is_dead_and_others_pass_when_that_is_written(void **state)
{
    static const enum rt_sent verdicts[] = {RT_SENT_REFUSED, RT_SENT_CONFIRMED};

    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 1);
    rows[0].attempts = 2;
    turn(2);
    publish(verdicts);
    assert_int_equal(lane.mark_count, 1);
    marked(0, 1, RT_MARK_DEAD);
}

static void what_is_too_long_is_dead_and_never_sent(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0);
    rows[0].size = 101;
    turn(1);
    wants(RT_LANE_TURN, BATCH);
    marked(0, 1, RT_MARK_DEAD);
    assert_non_null(strstr(marks[0].reason, "longer"));
}

static void a_broker_that_is_away_is_nobodys_fault(void **state)
{
    int64_t waited = 0;

    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 0);
    turn(2);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, ROTA_UNREACHABLE, sent, why);
    wants(RT_LANE_TURN, 0); /* what was confirmed stands; the rest is free while it waits */
    assert_int_equal(lane.mark_count, 1);
    marked(0, 1, RT_MARK_PUBLISHED);
    turn(0);
    for (int i = 0; i < 40; i++) { /* an hour would be the same */
        struct rt_lane_todo todo = rt_lane_todo(&lane);
        assert_int_equal(todo.op, RT_LANE_WAIT);
        assert_true(todo.ns >= 100 * MS && todo.ns <= 5000 * MS);
        assert_true(todo.deaf); /* whoever writes meanwhile does not make it try more often */
        waited += todo.ns;
        rt_lane_woken(&lane);
        assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_REACH);
        rt_lane_reached(&lane, ROTA_UNREACHABLE);
    }
    assert_true(waited > 60000 * MS);
    rt_lane_woken(&lane);
    rt_lane_reached(&lane, 0);
    wants(RT_LANE_TURN, 1); /* it begins with one */
    rows[0] = row(2, 0);
    turn(1);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    wants(RT_LANE_TURN, 2);
}

static void one_that_costs_the_connection_twice_moves_aside(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 0);
    turn(2);
    rt_lane_published(&lane, ROTA_UNREACHABLE, sent, why);
    turn(0);
    rt_lane_woken(&lane);
    rt_lane_reached(&lane, 0);
    turn(1);
    why[0] = "its last words";
    rt_lane_published(&lane, ROTA_UNREACHABLE, sent, why);
    wants(RT_LANE_TURN, 0);
    assert_int_equal(lane.mark_count, 1);
    marked(0, 1, RT_MARK_ASIDE);
    assert_string_equal(marks[0].reason, "its last words");
}

static void a_broker_that_takes_nothing_now_is_waited_for(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0);
    turn(1);
    rt_lane_published(&lane, ROTA_BUSY, sent, why);
    wants(RT_LANE_TURN, 0);
    assert_int_equal(lane.mark_count, 0);
}

static void a_row_whose_id_is_cut_is_dead_and_those_behind_it_wait(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0), rows[1] = row(2, 1), rows[2] = row(3, 0);
    rows[0].cut = true;
    turn(3);
    assert_int_equal(lane.going, 1);
    assert_true(items[2].goes);
    marked(0, 1, RT_MARK_DEAD);
    assert_non_null(strstr(lane.marks[0].reason, "event_id"));
}

/* Many rows of one key, behind one that was refused: later rows of other keys go all the same. */
static void rows_that_wait_keep_nobody_else(void **state)
{
    (void)state;
    begin(false);
    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = row(10 + i, 9 + i); /* 9 is refused, and not due */
    turn(BATCH);
    wants(RT_LANE_TURN, 0); /* they are let go */
    rt_lane_turned(&lane, 0, NULL, 0);
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_WAIT);
    rt_lane_woken(&lane);
    wants(RT_LANE_TURN, BATCH);
    assert_int_equal(rt_lane_todo(&lane).after, 10 + BATCH - 1);
    rows[0] = row(100, 0);
    turn(1);
    assert_int_equal(lane.going, 1);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    assert_int_equal(rt_lane_todo(&lane).after, 0); /* that was the end of the table */
}

/* One row is asked for after trouble: the one that comes may be one that waits. */
static void one_row_that_waits_keeps_nobody_else(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0);
    turn(1);
    rt_lane_published(&lane, ROTA_BUSY, sent, why);
    wants(RT_LANE_TURN, 0);
    rt_lane_turned(&lane, 0, NULL, 0);
    rt_lane_woken(&lane);
    rt_lane_reached(&lane, 0);
    wants(RT_LANE_TURN, 1);
    rows[0] = row(5, 4);
    turn(1);
    rt_lane_turned(&lane, 0, NULL, 0);
    rt_lane_woken(&lane);
    if (rt_lane_todo(&lane).op == RT_LANE_REACH)
        rt_lane_reached(&lane, 0);
    assert_true(rt_lane_todo(&lane).after == 5 && rt_lane_todo(&lane).limit > 1);
    rt_lane_turned(&lane, 0, NULL, 0); /* nothing after it: not the end of the work */
    assert_false(lane.idle);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
}

/* One queue is full: its rows wait a few seconds, without an attempt, and the rows of others go. */
static void one_for_which_there_is_no_room_waits_a_little(void **state)
{
    static const enum rt_sent verdicts[] = {RT_SENT_FULL, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED};
    int64_t ms = 0;

    (void)state;
    begin(false);
    for (int64_t i = 0; i < 20; i++) {
        rows[0] = row(1, 0), rows[1] = row(2, 1), rows[2] = row(10 + i, 0);
        turn(3);
        publish(verdicts);
        assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_TURN);
        assert_int_equal(lane.mark_count, 2);
        marked(0, 1, RT_MARK_ASIDE), marked(1, 10 + i, RT_MARK_PUBLISHED);
        assert_true(lane.marks[0].next_in_ms >= ms && lane.marks[0].next_in_ms <= 5000);
        ms = lane.marks[0].next_in_ms;
    }
    assert_int_equal(ms, 5000);
    assert_int_equal(lane.counts.refused + lane.counts.dead, 0);
}

static void a_broker_that_is_full_is_not_asked_at_full_speed(void **state)
{
    static const enum rt_sent verdicts[] = {RT_SENT_FULL, RT_SENT_FULL};
    int64_t last = 0;

    (void)state;
    begin(false);
    for (int64_t i = 0; i < 10; i++) {
        rows[0] = row(1 + 2 * i, 0), rows[1] = row(2 + 2 * i, 0);
        turn(2);
        publish(verdicts);
        wants(RT_LANE_TURN, 0); /* nothing is kept from others meanwhile */
        assert_int_equal(lane.mark_count, 2);
        turn(0);
        struct rt_lane_todo todo = rt_lane_todo(&lane);
        assert_int_equal(todo.op, RT_LANE_WAIT);
        assert_true(todo.ns >= last && todo.ns > 0);
        last = todo.ns;
        rt_lane_woken(&lane);
    }
    assert_true(last >= 100 * MS);
}

/* A full claim of rows from FIRST on, all behind others' rows, is let go, and the next claim is asked for. */
static void nothing_goes(int64_t first)
{
    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = row(first + i, first + i - 1);
    turn(BATCH);
    wants(RT_LANE_TURN, 0);
    rt_lane_turned(&lane, 0, NULL, 0);
    rt_lane_woken(&lane);
    wants(RT_LANE_TURN, BATCH);
}

/* All keys wait for another lane, which is done the next moment: a lane that only went on past them would come back
 * only at the end of a long table. */
static void who_has_passed_others_looks_at_the_first_row_again(void **state)
{
    static const enum rt_sent verdicts[BATCH] = {
        RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED,
        RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED};

    (void)state;
    begin(false);
    nothing_goes(100);
    assert_int_equal(rt_lane_todo(&lane).after, 100 + BATCH - 1);
    nothing_goes(200);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
    nothing_goes(100);
    assert_int_equal(rt_lane_todo(&lane).after, 200 + BATCH - 1);
    nothing_goes(300);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
    rows[0] = row(100, 0); /* the other is done */
    for (int64_t i = 1; i < BATCH; i++)
        rows[i] = row(100 + i, 99 + i);
    turn(BATCH);
    publish(verdicts);
    assert_int_equal(rt_lane_todo(&lane).after, 100 + BATCH - 1);
}

/* A trigger, say, refuses the mark of row BAD. The result of a turn with the marks of COUNT rows from FIRST on, all
 * confirmed. */
static void marks_but_for(int64_t bad, int64_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rows[i] = row(first + (int64_t)i, 0);
    turn(count);
    for (size_t i = 0; i < count; i++)
        sent[i] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    assert_int_equal(lane.mark_count, count);
    if (bad >= first && bad < first + (int64_t)count)
        rt_lane_turned(&lane, ROTA_INVALID, NULL, 0);
}

static void reach_again(int64_t least_ms)
{
    struct rt_lane_todo todo = rt_lane_todo(&lane);

    assert_int_equal(todo.op, RT_LANE_WAIT);
    assert_true(todo.deaf && todo.ns >= least_ms * MS);
    rt_lane_woken(&lane);
    rt_lane_reached(&lane, 0);
}

/* Otherwise its whole claim is published again and again, several times a second. */
static void one_whose_mark_is_refused_moves_aside(void **state)
{
    (void)state;
    begin(false);
    marks_but_for(3, 1, BATCH);
    reach_again(100);
    wants(RT_LANE_TURN, 1); /* to find out which */
    marks_but_for(3, 1, 1);
    wants(RT_LANE_TURN, 2);
    marks_but_for(3, 2, 2);
    reach_again(100);
    marks_but_for(3, 2, 1);
    wants(RT_LANE_TURN, 2);
    marks_but_for(3, 3, 1);
    reach_again(100);
    assert_int_equal(lane.mark_count, 0);
    marks_but_for(3, 3, 1);
    reach_again(200); /* later and later */
    marked(0, 3, RT_MARK_ASIDE);
    assert_int_equal(lane.mark_count, 1);
    rows[0] = row(4, 0);
    turn(1);
    assert_int_equal(lane.going, 1);
}

/* A full claim from row FIRST on, all of which goes. */
static void a_full_claim_goes(int64_t first)
{
    static const enum rt_sent verdicts[BATCH] = {
        RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED,
        RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED};

    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = row(first + i, 0);
    turn(BATCH);
    publish(verdicts);
}

/* Row ID is claimed, goes, and its mark is taken with the next claim, which MORE rows come with. */
static void goes_and_comes_again(int64_t id, size_t more)
{
    assert_int_equal(lane.going, 1);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    marked(0, id, RT_MARK_PUBLISHED);
    rows[0] = row(id, 0);
    turn(1 + more);
}

/* A trigger, say, drops the mark without a word: the database takes it, and the row is new as before. Otherwise it is
 * published as fast as the database turns. */
static void one_whose_mark_changes_nothing_moves_aside(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(7, 0);
    turn(1);
    for (int64_t ms = 1000; ms <= 4000; ms *= 2) { /* later and later */
        rows[1] = row(8, 7), rows[2] = row(ms, 0);
        goes_and_comes_again(7, 2);
        assert_false(items[0].goes || items[1].goes); /* nor what is behind it */
        marked(0, 7, RT_MARK_ASIDE);
        assert_int_equal(lane.marks[0].next_in_ms, ms);
        assert_non_null(strstr(lane.marks[0].reason, "still"));
        assert_int_equal(lane.going, 1); /* others go on */
        rt_lane_published(&lane, 0, sent, why);
        turn(0);
        rt_lane_woken(&lane);
        rows[0] = row(7, 0); /* it is due: once more, since somebody may have mended it */
        turn(1);
    }
}

/* Somebody emptied the table, and its numbers begin anew. */
static void another_event_of_the_same_number_goes(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(7, 0);
    turn(1);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    rows[0] = row(7, 0);
    rows[0].event_id = "f";
    turn(1);
    assert_true(items[0].goes);
    assert_int_equal(lane.mark_count, 0);
}

/* Claims begin behind a full one that went, and come back to it at the end of the table. */
static void marks_that_change_nothing_are_found_behind_others_too(void **state)
{
    (void)state;
    begin(false);
    a_full_claim_goes(1);
    a_full_claim_goes(1 + BATCH);
    turn(0);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = row(1 + i, 0);
    turn(BATCH);
    wants(RT_LANE_TURN, BATCH);
    assert_int_equal(lane.mark_count, BATCH);
    marked(BATCH - 1, BATCH, RT_MARK_ASIDE);
    assert_int_equal(lane.counts.sent, 2 * BATCH);
}

/* Stale ones come again as what they are; and after the connection was lost nobody knows what was written. */
static void one_that_may_come_again_goes_again(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(7, 0);
    turn(1);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    rows[0].again = true;
    turn(1);
    assert_int_equal(lane.going, 1);
    rt_lane_published(&lane, 0, sent, why);
    turn(0);
    rt_lane_woken(&lane);
    rt_lane_turned(&lane, ROTA_UNREACHABLE, NULL, 0);
    reach_again(100);
    rows[0] = row(7, 0);
    turn(1);
    assert_int_equal(lane.going, 1);
}

/* What went need not be read again; what commits late, or failed somewhere else, is found all the same. */
static void a_claim_begins_behind_one_that_went_whole(void **state)
{
    int64_t first = 1;
    int from_first = 0;

    (void)state;
    begin(false);
    for (int i = 0; i < 40; i++, first += BATCH) {
        int64_t after = rt_lane_todo(&lane).after;
        assert_true(after == 0 || after == first - 1);
        from_first += after == 0;
        a_full_claim_goes(first);
    }
    assert_int_equal(from_first, 3); /* now and then */
    assert_int_equal(rt_lane_todo(&lane).after, first - 1);
    turn(0); /* nothing after it: from the first row, and at once */
    assert_false(lane.idle);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
    turn(0);
    assert_true(lane.idle);
}

static void what_did_not_go_is_not_passed_over(void **state)
{
    static const enum rt_sent verdicts[BATCH] = {
        RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_REFUSED,   RT_SENT_CONFIRMED,
        RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED, RT_SENT_CONFIRMED};

    (void)state;
    begin(false);
    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = row(1 + i, 0);
    turn(BATCH);
    publish(verdicts);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
    a_full_claim_goes(20);
    assert_int_equal(rt_lane_todo(&lane).after, 19 + BATCH);
    rt_lane_turned(&lane, ROTA_UNREACHABLE, NULL, 0); /* the marks may be lost */
    rt_lane_woken(&lane);
    rt_lane_reached(&lane, 0);
    assert_int_equal(rt_lane_todo(&lane).after, 0);
    a_full_claim_goes(20);
    for (int64_t i = 0; i < BATCH; i++)
        rows[i] = row(40 + i, 0);
    turn(BATCH);
    rt_lane_published(&lane, ROTA_BUSY, sent, why); /* they are let go, and claimed again */
    assert_int_equal(rt_lane_todo(&lane).after, 0);
}

/* A whole claim is in memory: long rows come a few at a time. */
static void long_rows_are_claimed_few_at_a_time(void **state)
{
    static const enum rt_sent verdicts[BATCH] = {RT_SENT_CONFIRMED, RT_SENT_CONFIRMED};

    (void)state;
    begin(false);
    lane.opts.body_max = 0;
    wants(RT_LANE_TURN, BATCH);
    rows[0] = row(1, 0), rows[1] = row(2, 0);
    rows[0].size = rows[1].size = RT_LANE_BYTES / 3;
    turn(2);
    publish(verdicts);
    wants(RT_LANE_TURN, 2);
    rows[0] = row(3, 0);
    rows[0].size = 2 * (size_t)RT_LANE_BYTES;
    turn(1);
    publish(verdicts);
    wants(RT_LANE_TURN, 1);
    for (uint32_t i = 2; i <= BATCH; i *= 2) { /* short again: more and more */
        rows[0] = row(10 + i, 0);
        turn(1);
        publish(verdicts);
        wants(RT_LANE_TURN, i);
    }
}

static void it_begins_with_few_rows(void **state)
{
    static struct rt_lane_item many_items[500];
    static struct rt_store_mark many_marks[500];
    static struct rt_lane_past many_past[RT_LANE_PAST(500)];
    const struct rt_lane_options opts = {.batch = 500, .attempts = 3};

    (void)state;
    rt_lane_begin(&lane, &opts, many_items, many_marks, many_past);
    rt_lane_reached(&lane, 0);
    wants(RT_LANE_TURN, RT_LANE_FIRST);
}

static void a_database_that_is_away_is_reached_again(void **state)
{
    (void)state;
    begin(false);
    rt_lane_turned(&lane, ROTA_UNREACHABLE, NULL, 0);
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_WAIT);
    rt_lane_woken(&lane);
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_REACH);
}

static void with_nothing_to_do_it_asks_less_and_less(void **state)
{
    int64_t last = 0;

    (void)state;
    begin(false);
    for (int i = 0; i < 10; i++) {
        turn(0);
        struct rt_lane_todo todo = rt_lane_todo(&lane);
        assert_int_equal(todo.op, RT_LANE_WAIT);
        assert_true(todo.ns >= last && todo.ns <= 1000 * MS);
        assert_false(todo.deaf);
        last = todo.ns;
        rt_lane_woken(&lane);
    }
    assert_int_equal(last, 1000 * MS);
    assert_true(lane.idle);
}

static void when_it_is_to_stop_it_marks_and_claims_nothing(void **state)
{
    (void)state;
    begin(false);
    rows[0] = row(1, 0);
    turn(1);
    rt_lane_stop(&lane);
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_PUBLISH);
    sent[0] = RT_SENT_CONFIRMED;
    rt_lane_published(&lane, 0, sent, why);
    wants(RT_LANE_TURN, 0);
    assert_int_equal(lane.mark_count, 1);
    turn(0);
    assert_int_equal(rt_lane_todo(&lane).op, RT_LANE_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_confirmed_is_marked_with_the_next_claim),
        cmocka_unit_test(what_is_behind_anothers_row_is_let_go),
        cmocka_unit_test(with_strict_order_one_of_a_key_at_a_time),
        cmocka_unit_test(behind_one_that_failed_nothing_of_its_key_goes),
        cmocka_unit_test(when_much_of_the_lease_is_over_the_next_waves_wait),
        cmocka_unit_test(after_the_last_attempt_it_is_dead_and_others_pass_when_that_is_written),
        cmocka_unit_test(what_is_too_long_is_dead_and_never_sent),
        cmocka_unit_test(a_broker_that_is_away_is_nobodys_fault),
        cmocka_unit_test(one_that_costs_the_connection_twice_moves_aside),
        cmocka_unit_test(a_broker_that_takes_nothing_now_is_waited_for),
        cmocka_unit_test(a_row_whose_id_is_cut_is_dead_and_those_behind_it_wait),
        cmocka_unit_test(rows_that_wait_keep_nobody_else),
        cmocka_unit_test(one_for_which_there_is_no_room_waits_a_little),
        cmocka_unit_test(a_broker_that_is_full_is_not_asked_at_full_speed),
        cmocka_unit_test(who_has_passed_others_looks_at_the_first_row_again),
        cmocka_unit_test(one_whose_mark_is_refused_moves_aside),
        cmocka_unit_test(one_whose_mark_changes_nothing_moves_aside),
        cmocka_unit_test(another_event_of_the_same_number_goes),
        cmocka_unit_test(marks_that_change_nothing_are_found_behind_others_too),
        cmocka_unit_test(one_that_may_come_again_goes_again),
        cmocka_unit_test(one_row_that_waits_keeps_nobody_else),
        cmocka_unit_test(a_claim_begins_behind_one_that_went_whole),
        cmocka_unit_test(what_did_not_go_is_not_passed_over),
        cmocka_unit_test(long_rows_are_claimed_few_at_a_time),
        cmocka_unit_test(it_begins_with_few_rows),
        cmocka_unit_test(a_database_that_is_away_is_reached_again),
        cmocka_unit_test(with_nothing_to_do_it_asks_less_and_less),
        cmocka_unit_test(when_it_is_to_stop_it_marks_and_claims_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
