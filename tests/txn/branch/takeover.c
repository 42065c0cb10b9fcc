/* SPDX-License-Identifier: Apache-2.0 */
/* MariaDB's lost commits (T0.1): it answers OK to XA COMMIT and commits nothing if the connection that prepared is
 * just ending, or was reset. Processes that prepared are killed, connections are reset; a keeper takes over through
 * the gate, at once: none is lost, none is reported done without its marker. Then the same without the gate: how many
 * are lost, and that they are there again after a restart of the server.
 *
 *   takeover KILLS RESETS CONTROL [log]     CONTROL: connections closed without the gate; log: with a binary log
 *                                           (MDEV-742 and what followed: 33921, 32830, 31949, 31038, 26652, 25616) */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site.h"

#include "lib/proc.h"

#include <mysql.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HERE (&site_mysql)
#define BATCH 25

static long kills, resets, control;
static struct seat keeper;
static long long row;

struct shared { /* with the children of a batch */
    uint32_t ready;
    struct rt_part part[BATCH];
    long long row[BATCH];
};

/* ---- Through the gate ------------------------------------------------------------ */

/* Commits all, each as soon as the gate lets it through. */
static void take_over(struct rt_part *parts, size_t n)
{
    bool done[BATCH] = {false};
    size_t left = n;

    for (int tries = 0; left > 0; tries++) {
        struct rt_party_op gate = {.what = RT_PARTY_GATE, .part = parts, .count = n};
        assert_true(tries < SITE_LIMIT_MS / 120);
        enum rt_reply said = seat_op(&keeper, &gate);
        assert_true(said == RT_REPLY_CLEAR || said == RT_REPLY_HELD);
        for (size_t i = 0; i < n; i++) {
            if (done[i] || !parts[i].clear)
                continue;
            said = seat_do(&keeper, RT_PARTY_COMMIT, &parts[i]);
            if (said != RT_REPLY_DONE)
                print_error("%d: %s\n", (int)said, keeper.party->errmsg);
            assert_int_equal(said, RT_REPLY_DONE);
            assert_true(has_mark(HERE, &parts[i]));
            done[i] = true;
            left--;
        }
        if (left > 0)
            poll(NULL, 0, 120);
    }
}

static int prepare_and_stay(int index, void *arg)
{
    struct shared *all = arg;
    struct seat s;

    seat_open(&s, HERE, 0, false);
    seat_work(&s, &all->part[index], all->row[index]);
    if (seat_do(&s, RT_PARTY_PREPARE, &all->part[index]) != RT_REPLY_YES)
        return 1;
    rt_shared_add(&all->ready, 1);
    for (;;)
        pause();
}

static void killed_processes_lose_nothing(void **state)
{
    struct shared *all = rt_shared_new(sizeof(*all));
    long done = 0;

    (void)state;
    while (done < kills) {
        size_t n = kills - done < BATCH ? (size_t)(kills - done) : BATCH;
        pid_t pids[BATCH];
        *all = (struct shared){0};
        for (size_t i = 0; i < n; i++) {
            all->part[i] = part_new((uint32_t)i);
            all->row[i] = ++row;
            pids[i] = rt_proc_start(prepare_and_stay, (int)i, all);
        }
        rt_shared_wait(&all->ready, (uint32_t)n);
        for (size_t i = 0; i < n; i++)
            kill(pids[i], SIGKILL);
        for (size_t i = 0; i < n; i++)
            all->part[i].by = NULL;
        take_over(all->part, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(rt_proc_wait(pids[i]), RT_PROC_SIGNALED + SIGKILL);
            assert_true(has_row(HERE, all->row[i]));
        }
        done += (long)n;
    }
    print_message("takeover after kill -9: %ld, none lost\n", done);
    rt_shared_free(all, sizeof(*all));
}

static void reset_connections_lose_nothing(void **state)
{
    long done = 0;

    (void)state;
    while (done < resets) {
        size_t n = resets - done < BATCH ? (size_t)(resets - done) : BATCH;
        struct seat seats[BATCH];
        struct rt_part parts[BATCH];
        long long first = row + 1;
        for (size_t i = 0; i < n; i++) {
            parts[i] = part_new((uint32_t)i);
            seat_open(&seats[i], HERE, 0, false);
            seat_work(&seats[i], &parts[i], ++row);
            assert_int_equal(seat_do(&seats[i], RT_PARTY_PREPARE, &parts[i]), RT_REPLY_YES);
        }
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(mysql_reset_connection(seats[i].conn), 0);
            parts[i].by = NULL;
        }
        poll(NULL, 0, 120);
        struct rt_party_op gate = {.what = RT_PARTY_GATE, .part = parts, .count = n};
        assert_int_equal(seat_op(&keeper, &gate), RT_REPLY_HELD); /* they live */
        for (size_t i = 0; i < n; i++) {
            assert_false(parts[i].clear);
            assert_int_equal(seat_do(&keeper, RT_PARTY_COMMIT, &parts[i]), RT_REPLY_HELD);
        }
        for (size_t i = 0; i < n; i++)
            seat_close(&seats[i]);
        take_over(parts, n);
        for (long long r = first; r <= row; r++)
            assert_true(has_row(HERE, r));
        done += (long)n;
    }
    print_message("takeover after a reset: %ld, none lost\n", done);
}

/* Constant reading of the view keeps it from being refreshed: what it then shows is no answer. */
static int read_all_the_time(int index, void *arg)
{
    uint32_t *reads = arg;
    MYSQL *my = HERE->connect(0);

    for (;; poll(NULL, 0, 10 + index)) {
        if (!HERE->sql(my, "SELECT COUNT(*) FROM information_schema.innodb_trx"))
            return 1;
        rt_shared_add(reads, 1);
    }
}

/* Several times, by several readers: on a busy machine the view may be refreshed once. */
static void a_stale_view_opens_no_gate(void **state)
{
    enum { READERS = 3, ROUNDS = 10 };
    uint32_t *reads = rt_shared_new(sizeof(*reads));
    struct rt_part parts[ROUNDS];
    pid_t pids[READERS];

    (void)state;
    for (int i = 0; i < READERS; i++)
        pids[i] = rt_proc_start(read_all_the_time, i, reads);
    rt_shared_wait(reads, 9);
    for (int i = 0; i < ROUNDS; i++) {
        struct seat s;
        parts[i] = part_new((uint32_t)i);
        seat_open(&s, HERE, 0, false);
        seat_work(&s, &parts[i], ++row); /* the view is from before */
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &parts[i]), RT_REPLY_YES);
        assert_int_equal(seat_do(&keeper, RT_PARTY_GATE, &parts[i]), RT_REPLY_HELD);
        assert_false(parts[i].clear);
        seat_close(&s);
        parts[i].by = NULL;
    }
    for (int i = 0; i < READERS; i++)
        rt_proc_kill(pids[i]);
    rt_shared_free(reads, sizeof(*reads));
    take_over(parts, ROUNDS);
    assert_true(has_row(HERE, row));
}

/* ---- Without ------------------------------------------------------------------------ */

static struct rt_part *lost;
static long lost_count, tried;
static long long first_tried;

/* As others do: believes the OK. */
static void commit_ungated(struct rt_part *part)
{
    enum rt_reply said = RT_REPLY_HELD;

    part->by = NULL;
    while (said == RT_REPLY_HELD)
        said = seat_do_with(&keeper, RT_PARTY_COMMIT, part, RT_PARTY_UNGATED);
    assert_true(said == RT_REPLY_DONE || said == RT_REPLY_ABSENT);
    tried++;
    if (!has_mark(HERE, part))
        lost[lost_count++] = *part;
}

static void without_the_gate_some_are_lost(void **state)
{
    long n = 20, by_close = 0;

    (void)state;
    lost = calloc((size_t)(n + control), sizeof(*lost));
    assert_non_null(lost);
    first_tried = row + 1;
    for (long i = 0; i < n + control; i++) {
        struct seat s;
        struct rt_part part = part_new(1);
        seat_open(&s, HERE, 0, false);
        seat_work(&s, &part, ++row);
        assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
        if (i < n)
            assert_int_equal(mysql_reset_connection(s.conn), 0);
        else
            seat_close(&s);
        commit_ungated(&part);
        if (i < n)
            seat_close(&s);
        if (i + 1 == n)
            by_close = lost_count;
    }
    print_message(
        "control, without the gate: %ld of %ld lost after a reset, %ld of %ld after a close\n",
        by_close, n, lost_count - by_close, control);
    assert_true(lost_count > 0);
}

static void lost_ones_are_there_after_a_restart(void **state)
{
    (void)state;
    HERE->kill();
    HERE->run();
    seat_close(&keeper);
    seat_open(&keeper, HERE, 0, true);
    assert_int_equal(HERE->prepared(), lost_count);
    for (long i = 0; i < lost_count; i++) {
        lost[i].connection = 0; /* numbers begin anew */
        assert_int_equal(settle(&keeper, &lost[i], true), RT_REPLY_COMMITTED);
    }
    for (long long r = first_tried; r <= row; r++)
        assert_true(has_row(HERE, r));
    assert_int_equal(HERE->prepared(), 0);
    free(lost);
}

static int up(void **state)
{
    (void)state;
    HERE->start();
    seat_open(&keeper, HERE, 0, true);
    return 0;
}

static int down(void **state)
{
    (void)state;
    seat_close(&keeper);
    HERE->fini();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(killed_processes_lose_nothing),
        cmocka_unit_test(reset_connections_lose_nothing),
        cmocka_unit_test(a_stale_view_opens_no_gate),
        cmocka_unit_test(without_the_gate_some_are_lost),
        cmocka_unit_test(lost_ones_are_there_after_a_restart),
    };

    if (argc < 4)
        return 2;
    kills = strtol(argv[1], NULL, 10);
    resets = strtol(argv[2], NULL, 10);
    control = strtol(argv[3], NULL, 10);
    site_mysql_log = argc > 4 && strcmp(argv[4], "log") == 0;
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(1500, "the takeovers hang");
    return cmocka_run_group_tests_name("takeover", all, up, down);
}
