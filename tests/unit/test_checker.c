/* SPDX-License-Identifier: Apache-2.0 */
/* The checker agrees with brute force on random histories and finds every planted contradiction. */
#include "lib/checker.h"

#include "lib/brute.h"
#include "lib/random.h"
#include "lib/starved.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rota.h>

/* ---- Against all orders ------------------------------------------------- */

#define PER_MODEL 60000 /* five models: 300,000 in all, 4 s with the sanitizers */
#define OPS 8

static void print_history(const struct rt_record *h, size_t n, const struct rt_report *said,
                          bool legal)
{
    struct rt_report list = {0};

    for (size_t i = 0; i < n; i++) {
        list.text_len = 0;
        rt_report_add(&list, RT_FOUND_MALFORMED, &h[i], NULL, "");
        print_error("%s    deadline=%lld owner=%llu take=%u\n", list.text, (long long)h[i].deadline,
                    (unsigned long long)h[i].owner, h[i].take);
    }
    print_error("all orders: %s; the checker: %s\n", legal ? "legal" : "illegal",
                said->total > 0 ? said->text : "nothing found");
}

static void agree_on(enum rt_random_model model)
{
    struct rt_check_options opts = {.passing = model == RT_RANDOM_PASSING};
    size_t legal = 0, illegal = 0, loose = 0;

    for (uint64_t seed = 0; seed < PER_MODEL; seed++) {
        struct rt_random rnd = {.state = seed * RT_RANDOM_MODELS + model};
        struct rt_record h[OPS];
        size_t n = rt_random_history(&rnd, model, h, OPS);
        bool is_legal = rt_brute_legal(h, n, &opts);
        struct rt_report report = {0};

        rt_check_locks(h, n, &opts, &report);
        *(is_legal ? &legal : &illegal) += 1;
        loose += report.loose > 0;
        /* With loose holds it may miss something, but never cry wolf. */
        if (is_legal ? report.total > 0 : report.total == 0 && report.loose == 0) {
            print_history(h, n, &report, is_legal);
            fail_msg("model %d, seed %llu", (int)model, (unsigned long long)seed);
        }
    }
    print_message("model %d: %zu legal, %zu illegal, %zu with loose holds\n", (int)model, legal,
                  illegal, loose);
    assert_true(legal > PER_MODEL / 20 && illegal > PER_MODEL / 20);
    assert_true(loose < PER_MODEL / 10);
}

static void exclusive_holds_as_all_orders_say(void **state)
{
    (void)state;
    agree_on(RT_RANDOM_EXCLUSIVE);
}

static void re_entry_as_all_orders_say(void **state)
{
    (void)state;
    agree_on(RT_RANDOM_REENTRY);
}

static void passing_on_as_all_orders_say(void **state)
{
    (void)state;
    agree_on(RT_RANDOM_PASSING);
}

static void readers_and_writers_as_all_orders_say(void **state)
{
    (void)state;
    agree_on(RT_RANDOM_RW);
}

static void permits_as_all_orders_say(void **state)
{
    (void)state;
    agree_on(RT_RANDOM_PERMITS);
}

/* ---- Mutants ------------------------------------------------------------ */

#define HOLDS 50
#define MUTANTS 300 /* of each kind */

/* Hold I of a legal history: enqueue, acquire, renewal, release. */
enum { ENQUEUE, ACQUIRE, RENEW, RELEASE };

static struct rt_record *op(struct rt_record *h, uint32_t i, int which)
{
    return &h[4 * i + (uint32_t)which];
}

static void set_fence(struct rt_record *h, uint32_t i, uint64_t fence)
{
    for (int k = ENQUEUE; k <= RELEASE; k++)
        op(h, i, k)->fence = fence;
}

static void move(struct rt_record *r, int64_t to)
{
    r->t_ret += to - r->t_inv;
    r->t_inv = to;
}

/* Each makes hold I, which is neither the first nor the last, contradict a neighbour. */
typedef void mutate_fn(struct rt_record *h, uint32_t i);

static void dup_fence(struct rt_record *h, uint32_t i)
{
    set_fence(h, i, op(h, i - 1, ACQUIRE)->fence);
}

static void swap_fences(struct rt_record *h, uint32_t i)
{
    uint64_t fence = op(h, i, ACQUIRE)->fence;

    set_fence(h, i, op(h, i + 1, ACQUIRE)->fence);
    set_fence(h, i + 1, fence);
}

/* Wholly between the grant and the release of the one before. */
static void grant_early(struct rt_record *h, uint32_t i)
{
    struct rt_record *r = op(h, i, ACQUIRE);

    move(r, op(h, i - 1, RENEW)->t_inv);
}

static void release_stale(struct rt_record *h, uint32_t i)
{
    move(op(h, i, RELEASE), op(h, i + 1, ACQUIRE)->t_ret + 1);
}

static void renew_stale(struct rt_record *h, uint32_t i)
{
    move(op(h, i, RENEW), op(h, i + 1, ACQUIRE)->t_ret + 1);
}

static void release_twice(struct rt_record *h, uint32_t i)
{
    *op(h, i, RENEW) = *op(h, i, RELEASE);
}

static void release_nobodys(struct rt_record *h, uint32_t i)
{
    op(h, i, RELEASE)->fence++; /* odd ones are nobody's */
}

/* The later one came long before, and was granted later. */
static void invert_order(struct rt_record *h, uint32_t i)
{
    move(op(h, i + 1, ENQUEUE), 1);
    move(op(h, i, ENQUEUE), 50);
}

static void believe_stale(struct rt_record *h, uint32_t i)
{
    struct rt_record *r = op(h, i, RENEW);

    r->kind = RT_BELIEF;
    move(r, op(h, i + 1, ACQUIRE)->t_ret);
}

static void be_a_reader(struct rt_record *h, uint32_t i)
{
    for (int k = ENQUEUE; k <= RELEASE; k++)
        op(h, i, k)->mode = ROTA_SHARED;
    grant_early(h, i);
}

static void check_all(const struct rt_record *h, size_t n, struct rt_report *report)
{
    rt_check_locks(h, n, NULL, report);
    rt_check_order(h, n, report);
    rt_check_beliefs(h, n, report);
    rt_check_clients(h, n, report);
    rt_check_liveness(h, n, 0, 20, INT64_MAX, report);
}

static void find_mutants(uint8_t mode, mutate_fn *mutate, enum rt_finding due)
{
    for (uint64_t seed = 0; seed < MUTANTS; seed++) {
        struct rt_random rnd = {.state = seed};
        struct rt_record h[4 * HOLDS];
        struct rt_report before = {0}, after = {0};

        rt_random_legal(&rnd, mode, h, HOLDS);
        check_all(h, 4 * HOLDS, &before);
        if (before.total != 0)
            fail_msg("seed %llu: %s", (unsigned long long)seed, before.text);
        assert_int_equal(before.holds, HOLDS);
        mutate(h, 1 + rt_random_below(&rnd, HOLDS - 2));
        check_all(h, 4 * HOLDS, &after);
        if (after.found[due] == 0)
            fail_msg("seed %llu: no %s but %s", (unsigned long long)seed, rt_finding_name(due),
                     after.text);
    }
}

static void every_mutant_of_an_exclusive_lock_is_found(void **state)
{
    (void)state;
    find_mutants(ROTA_EXCLUSIVE, dup_fence, RT_FOUND_DUP_FENCE);
    find_mutants(ROTA_EXCLUSIVE, swap_fences, RT_FOUND_EARLY_GRANT);
    find_mutants(ROTA_EXCLUSIVE, grant_early, RT_FOUND_EARLY_GRANT);
    find_mutants(ROTA_EXCLUSIVE, release_stale, RT_FOUND_EARLY_GRANT);
    find_mutants(ROTA_EXCLUSIVE, renew_stale, RT_FOUND_STALE_RELEASE);
    find_mutants(ROTA_EXCLUSIVE, release_twice, RT_FOUND_STALE_RELEASE);
    find_mutants(ROTA_EXCLUSIVE, release_nobodys, RT_FOUND_ORPHAN_OP);
    find_mutants(ROTA_EXCLUSIVE, invert_order, RT_FOUND_ORDER);
    find_mutants(ROTA_EXCLUSIVE, believe_stale, RT_FOUND_STALE_BELIEF);
}

static void every_reader_inside_a_writer_is_found(void **state)
{
    (void)state;
    find_mutants(ROTA_EXCLUSIVE, be_a_reader, RT_FOUND_READER_WRITER);
}

static void every_permit_too_many_is_found(void **state)
{
    (void)state;
    find_mutants(ROTA_PERMITS, grant_early, RT_FOUND_OVERDRAFT);
    find_mutants(ROTA_PERMITS, release_stale, RT_FOUND_OVERDRAFT);
    find_mutants(ROTA_PERMITS, release_twice, RT_FOUND_STALE_RELEASE);
    find_mutants(ROTA_PERMITS, release_nobodys, RT_FOUND_ORPHAN_OP);
}

/* A hold that ends by its deadline makes a renewal after the next grant stale. */
static void a_renewal_after_a_takeover_is_found(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_ACQUIRE, .result = RT_OK, .fence = 1, .t_inv = 1, .t_ret = 3, .deadline = 10},
        {.kind = RT_ACQUIRE, .result = RT_OK, .fence = 2, .t_inv = 4, .t_ret = 12, .client = 2},
        {.kind = RT_RENEW, .result = RT_OK, .fence = 1, .t_inv = 13, .t_ret = 15, .deadline = 20},
    };
    struct rt_report report = {0};

    (void)state;
    rt_check_locks(h, 2, NULL, &report);
    assert_int_equal(report.total, 0);
    rt_check_locks(h, 3, NULL, &report);
    assert_int_equal(report.found[RT_FOUND_EARLY_GRANT], 1);
    assert_non_null(strstr(report.text, "fence=2"));
}

static void exclusion_without_fences_is_checked_by_time(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_ACQUIRE, .result = RT_OK, .client = 1, .t_inv = 1, .t_ret = 3},
        {.kind = RT_RELEASE, .result = RT_OK, .client = 1, .t_inv = 6, .t_ret = 9},
        {.kind = RT_ACQUIRE, .result = RT_OK, .client = 2, .t_inv = 4, .t_ret = 8},
    };
    struct rt_report fine = {0}, bad = {0};

    (void)state;
    rt_check_locks(h, 3, NULL, &fine);
    assert_int_equal(fine.total, 0);
    h[2].t_ret = 6;
    rt_check_locks(h, 3, NULL, &bad);
    assert_int_equal(bad.found[RT_FOUND_EARLY_GRANT], 1);
}

static void passing_on_without_a_release_is_found(void **state)
{
    struct rt_check_options opts = {.passing = true};
    struct rt_record h[] = {
        {.kind = RT_ACQUIRE, .result = RT_OK, .fence = 1, .owner = 1, .t_inv = 1, .t_ret = 3},
        {.kind = RT_RELEASE, .result = RT_OK, .fence = 1, .owner = 1, .t_inv = 4, .t_ret = 6},
        {.kind = RT_ACQUIRE, .result = RT_OK, .fence = 1, .owner = 2, .t_inv = 5, .t_ret = 9},
    };
    struct rt_report fine = {0}, bad = {0};

    (void)state;
    rt_check_locks(h, 3, &opts, &fine);
    assert_int_equal(fine.total, 0);
    h[1].kind = RT_RENEW;
    h[0].deadline = h[1].deadline = 5;
    rt_check_locks(h, 3, &opts, &bad);
    assert_int_equal(bad.found[RT_FOUND_BAD_PASS], 1);
}

/* ---- The other checks --------------------------------------------------- */

#define WRITES 5

static void resource_of(struct rt_resource_entry *log, struct rt_record *told)
{
    for (uint64_t i = 0; i < WRITES; i++) {
        log[i] = (struct rt_resource_entry){
            .fence = i + 1, .client = i, .accepted = 1, .value = i + 1, .highest = i + 1};
        told[i] = (struct rt_record){
            .kind = RT_WRITE, .result = RT_OK, .client = i, .fence = i + 1, .resource_seq = i + 1};
    }
}

static size_t check_writes(const struct rt_resource_entry *log, const struct rt_record *told,
                           enum rt_finding due)
{
    struct rt_report report = {0};

    rt_check_resource(told, WRITES, 0, log, WRITES, &report);
    return due == RT_FOUND_COUNT ? report.total : report.found[due];
}

static void what_a_resource_must_not_do_is_found(void **state)
{
    struct rt_resource_entry log[WRITES];
    struct rt_record told[WRITES];

    (void)state;
    resource_of(log, told);
    assert_int_equal(check_writes(log, told, RT_FOUND_COUNT), 0);
    log[3].fence = told[3].fence = 2;
    assert_int_equal(check_writes(log, told, RT_FOUND_STALE_WRITE), 1);
    resource_of(log, told);
    log[3].accepted = 0;
    told[3].result = RT_FAIL;
    assert_int_equal(check_writes(log, told, RT_FOUND_BAD_REJECT), 1);
    resource_of(log, told);
    log[4].value = 4; /* read before the write of 4 */
    assert_true(check_writes(log, told, RT_FOUND_LOST_UPDATE) > 0);
    resource_of(log, told);
    told[4].resource_seq = 4; /* two were told the same place */
    assert_true(check_writes(log, told, RT_FOUND_LOST_UPDATE) > 0);
    resource_of(log, told);
    told[2].result = RT_FAIL; /* applied, but told otherwise */
    assert_true(check_writes(log, told, RT_FOUND_LOST_UPDATE) > 0);
    resource_of(log, told);
    told[2].result = RT_INFO; /* cut short after it was applied: legal */
    assert_int_equal(check_writes(log, told, RT_FOUND_COUNT), 0);
}

/* What is excused where two may hold at once: one write of each tenure, its first, and only if the
 * write that it misses was under way. */
static void a_late_write_of_the_tenure_before_is_told_apart(void **state)
{
    struct rt_resource_entry log[WRITES];
    struct rt_record told[WRITES];

    (void)state;
    resource_of(log, told);
    log[4].value = 4; /* read before the write of 4 came in ... */
    told[4].t_inv = 10;
    told[3].t_ret = 11;
    assert_int_equal(check_writes(log, told, RT_FOUND_OLD_VALUE), 1);
    assert_int_equal(check_writes(log, told, RT_FOUND_LOST_UPDATE), 0);
    log[4].value = 3; /* ... and before that of 3, which had been answered */
    told[2].t_ret = 9;
    assert_int_equal(check_writes(log, told, RT_FOUND_OLD_VALUE), 0);
    assert_int_equal(check_writes(log, told, RT_FOUND_LOST_UPDATE), 1);
    log[4].value = 4;
    log[4].fence = told[4].fence = 4; /* the second of its tenure */
    assert_int_equal(check_writes(log, told, RT_FOUND_OLD_VALUE), 0);
    assert_int_equal(check_writes(log, told, RT_FOUND_LOST_UPDATE), 1);
    log[4].fence = told[4].fence = 5;
    told[3].t_ret = 10; /* answered before */
    assert_int_equal(check_writes(log, told, RT_FOUND_OLD_VALUE), 0);
    assert_int_equal(check_writes(log, told, RT_FOUND_LOST_UPDATE), 1);
    log[4].value = 9; /* what nobody wrote */
    told[3].t_ret = 11;
    assert_int_equal(check_writes(log, told, RT_FOUND_LOST_UPDATE), 1);
}

static void looks_are_no_operations(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_ACQUIRE}, {.kind = RT_RENEW, .look = 1},  {.kind = RT_RENEW},
        {.kind = RT_WRITE},   {.kind = RT_BELIEF, .look = 1}, {.kind = RT_RELEASE},
        {.kind = RT_END},
    };

    (void)state;
    assert_int_equal(rt_check_ops(h, sizeof(h) / sizeof(h[0])), 3);
}

#define MS INT64_C(1000000)

/* An excuse is bounded: by what was measured, by when that was, and in number. */
static void being_late_is_excused_by_what_was_missed_and_no_more(void **state)
{
    struct rt_starved s;

    (void)state;
    rt_starved_init(&s, 5 * MS, 15 * MS, 2, 0);
    for (int64_t at = 5; at <= 100; at += 5)
        rt_starved_pulse(&s, at * MS);
    assert_false(rt_starved_excuses(&s, 100 * MS, MS, 1000 * MS)); /* it ran all the time */
    rt_starved_pulse(&s, 145 * MS);                                /* 40 ms too late */
    assert_false(rt_starved_excuses(&s, 150 * MS, 56 * MS, 1000 * MS));
    assert_true(rt_starved_excuses(&s, 150 * MS, 55 * MS, 1000 * MS));
    assert_false(rt_starved_excuses(&s, 150 * MS, MS, 4 * MS)); /* that was too long ago */
    assert_true(rt_starved_excuses(&s, 150 * MS, MS, 1000 * MS));
    assert_false(rt_starved_excuses(&s, 150 * MS, MS, 1000 * MS)); /* the third */
    assert_true(rt_starved_excuses(&s, 200 * MS, MS, 20 * MS));    /* it still does not run */
    rt_starved_pulse(&s, 201 * MS);
    assert_true(rt_starved_excuses(&s, 201 * MS, MS, 20 * MS)); /* the same gap: its second */
    assert_false(rt_starved_excuses(&s, 201 * MS, MS, 20 * MS));
}

static void who_gave_up_is_not_in_the_order(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_ENQUEUE, .result = RT_OK, .ticket = 1, .t_inv = 5, .t_ret = 6},
        {.kind = RT_ENQUEUE, .result = RT_OK, .ticket = 2, .t_inv = 1, .t_ret = 2},
        {.kind = RT_ACQUIRE, .result = RT_OK, .ticket = 1, .fence = 1, .t_inv = 5, .t_ret = 8},
        {.kind = RT_ACQUIRE, .result = RT_FAIL, .ticket = 2, .fence = 2, .t_inv = 1, .t_ret = 9},
        {.kind = RT_CANCEL, .result = RT_OK, .ticket = 2, .t_inv = 3, .t_ret = 4},
    };
    struct rt_report fine = {0}, bad = {0};

    (void)state;
    rt_check_order(h, 5, &fine);
    assert_int_equal(fine.total, 0);
    h[3].result = RT_OK;
    rt_check_order(h, 4, &bad);
    assert_int_equal(bad.found[RT_FOUND_ORDER], 1);
}

static void a_client_must_not_go_on_after_info(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_RELEASE, .result = RT_INFO, .client = 1, .t_inv = 1, .t_ret = INT64_MAX},
        {.kind = RT_ACQUIRE, .result = RT_OK, .client = 1, .t_inv = 2, .t_ret = 3},
    };
    struct rt_report report = {0};

    (void)state;
    rt_check_clients(h, 2, &report);
    assert_int_equal(report.found[RT_FOUND_CLIENT_REUSED], 1);
}

static void a_waiter_that_is_never_answered_is_found(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_ACQUIRE, .result = RT_OK, .process = 1, .t_inv = 1, .t_ret = 109},
        {.kind = RT_ACQUIRE, .process = 2, .t_inv = 1, .t_ret = INT64_MAX},
        {.kind = RT_END, .result = RT_OK, .process = 2, .t_inv = 50, .t_ret = 51},
        {.kind = RT_ACQUIRE, .process = 2, .t_inv = 52, .t_ret = INT64_MAX},
    };
    struct rt_report early = {0}, late = {0};

    (void)state;
    rt_check_liveness(h, 4, 100, 10, 105, &early);
    assert_int_equal(early.total, 0);
    rt_check_liveness(h, 4, 100, 10, 120, &late); /* the last one: its pid had come again */
    assert_int_equal(late.found[RT_FOUND_HANG], 1);
    assert_non_null(strstr(late.text, "0.000000052"));
}

static void what_the_engine_still_shows_is_traced_back(void **state)
{
    struct rt_record h[] = {
        {.kind = RT_ENQUEUE, .result = RT_OK, .client = 12, .ticket = 4},
    };
    struct rt_shown shown[] = {{"door", 4}};
    struct rt_report report = {0};

    (void)state;
    h[0].lock = rt_history_name("door");
    rt_check_left_behind(h, 1, shown, 0, &report);
    assert_int_equal(report.total, 0);
    rt_check_left_behind(h, 1, shown, 1, &report);
    assert_int_equal(report.found[RT_FOUND_LEFT_BEHIND], 1);
    assert_non_null(strstr(report.text, "client=12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exclusive_holds_as_all_orders_say),
        cmocka_unit_test(re_entry_as_all_orders_say),
        cmocka_unit_test(passing_on_as_all_orders_say),
        cmocka_unit_test(readers_and_writers_as_all_orders_say),
        cmocka_unit_test(permits_as_all_orders_say),
        cmocka_unit_test(every_mutant_of_an_exclusive_lock_is_found),
        cmocka_unit_test(every_reader_inside_a_writer_is_found),
        cmocka_unit_test(every_permit_too_many_is_found),
        cmocka_unit_test(a_renewal_after_a_takeover_is_found),
        cmocka_unit_test(exclusion_without_fences_is_checked_by_time),
        cmocka_unit_test(passing_on_without_a_release_is_found),
        cmocka_unit_test(what_a_resource_must_not_do_is_found),
        cmocka_unit_test(a_late_write_of_the_tenure_before_is_told_apart),
        cmocka_unit_test(looks_are_no_operations),
        cmocka_unit_test(being_late_is_excused_by_what_was_missed_and_no_more),
        cmocka_unit_test(who_gave_up_is_not_in_the_order),
        cmocka_unit_test(a_client_must_not_go_on_after_info),
        cmocka_unit_test(a_waiter_that_is_never_answered_is_found),
        cmocka_unit_test(what_the_engine_still_shows_is_traced_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
