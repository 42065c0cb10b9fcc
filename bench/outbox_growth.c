/* SPDX-License-Identifier: Apache-2.0 */
/* A table of events that grows: claims and queries from no rows to a million, and clean-up while somebody writes. */
#include "outbox.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZES 4
#define TIMES 40
#define CLAIM 100
#define PAGE 500 /* of the clean-up, as in rota relay */
#define WRITES 200000

enum { CLAIMING, LISTING, NEWEST, OVER, STATISTICS, LOOKS };

static const char *const looks[LOOKS] = {"claim of 100 and its marks", "ls", "ls --state new",
                                         "ls --state processed", "stats"};

/* Adds TO - FROM processed rows, done an hour ago. */
static void grow(bool mysql, int from, int to)
{
    struct txn_branch c = txn_dial(mysql, 0);
    if (from == 0)
        outbox_fill(mysql, 1, 1);
    if (to > from && mysql)
        txn_say(&c,
                "INSERT INTO rota_event (topic, msg_key, payload, state, created, updated) SELECT "
                "'" OUTBOX_TOPIC
                "', CONCAT('order-', seq), 'x', 'processed', NOW(3) - INTERVAL 1 HOUR, NOW(3) - "
                "INTERVAL 1 HOUR FROM seq_1_to_%d",
                to - from);
    else if (to > from)
        txn_say(&c,
                "INSERT INTO rota_event (topic, msg_key, payload, state, created, updated) SELECT "
                "'" OUTBOX_TOPIC
                "', 'order-' || i, 'x', 'processed', now() - interval '1 hour', now() - interval "
                "'1 hour' FROM generate_series(1, %d) i",
                to - from);
    txn_say(&c, mysql ? "ANALYZE TABLE rota_event" : "ANALYZE rota_event");
    txn_hang_up(&c);
}

static void must(struct rt_store *s, int err)
{
    if (err != 0)
        outbox_die("the store", rt_store_errmsg(s));
}

static void claim(struct rt_store *s)
{
    const struct rt_store_row *rows = NULL;
    struct rt_store_mark marks[CLAIM];
    size_t n = 0;

    must(s, rt_store_turn(s, NULL, 0, CLAIM, &rows, &n));
    if (n != CLAIM)
        outbox_die("a claim", "has not what it should have");
    for (size_t i = 0; i < n; i++)
        marks[i] = (struct rt_store_mark){.id = rows[i].id, .what = RT_MARK_PUBLISHED};
    must(s, rt_store_turn(s, marks, n, 0, NULL, NULL));
}

static void look(struct rt_store *s, int what)
{
    const struct rt_store_item *items = NULL;
    struct rt_store_stats stats;
    size_t n = 0;
    struct rt_store_filter filter = {.states = what == NEWEST ? 1u << RT_EVENT_NEW
                                               : what == OVER ? 1u << RT_EVENT_PROCESSED
                                                              : 0};

    if (what == CLAIMING)
        claim(s);
    else if (what == STATISTICS)
        must(s, rt_store_stats(s, &stats));
    else
        must(s, rt_store_list(s, &filter, &items, &n));
}

/* The median, in ms. */
static double timed(bool mysql, struct rt_store *s, int what)
{
    double ms[TIMES];
    for (int i = 0; i < TIMES; i++) {
        struct txn_branch c = txn_dial(mysql, 0);
        if (what == CLAIMING && mysql)
            txn_say(&c,
                    "INSERT INTO rota_event (topic, msg_key, payload) SELECT '" OUTBOX_TOPIC
                    "', CONCAT('c-', seq), 'x' FROM seq_1_to_%d",
                    CLAIM);
        else if (what == CLAIMING)
            txn_say(&c,
                    "INSERT INTO rota_event (topic, msg_key, payload) SELECT '" OUTBOX_TOPIC
                    "', 'c-' || i, 'x' FROM generate_series(1, %d) i",
                    CLAIM);
        txn_hang_up(&c);
        int64_t began = rt_bench_ns();
        look(s, what);
        ms[i] = (double)(rt_bench_ns() - began) / 1e6;
    }
    return rt_bench_median(ms, TIMES);
}

static const char *text(bool mysql, int size, const char *what)
{
    static char texts[4][128];
    static unsigned next;
    char *out = texts[next++ % 4];
    snprintf(out, sizeof texts[0], "%s, %d processed: %s", outbox_databases[mysql], size, what);
    return out;
}

/* The curve. */
static void levels(const struct bench *b, bool mysql, const int *sizes)
{
    const struct rt_store_options quiet = {.republish_ms = 3600000};
    double ms[SIZES][LOOKS];

    for (int i = 0; i < SIZES; i++) {
        grow(mysql, i == 0 ? 0 : sizes[i - 1], sizes[i]);
        struct txn_branch c = txn_dial(mysql, 0);
        txn_say(&c, "DELETE FROM rota_event WHERE state <> 'processed'");
        txn_hang_up(&c);
        struct rt_store *s = outbox_store(mysql, &quiet);
        for (int k = 0; k < LOOKS; k++) {
            ms[i][k] = timed(mysql, s, k);
            bench_say(b, text(mysql, sizes[i], looks[k]), ms[i][k], "ms");
        }
        rt_store_close(s);
    }
    for (int k = 0; k < STATISTICS;
         k++) /* a page of 100 is longer than none: compared from the second size on */
        bench_goal(b, text(mysql, sizes[SIZES - 1], looks[k]),
                   ms[SIZES - 1][k] / ms[k == CLAIMING ? 0 : 1][k], "x", false, 2);
}

/* ---- Clean-up --------------------------------------------------------------------------------- */

struct writer {
    bool mysql;
    pthread_t thread;
    atomic_bool stop;
    double *ms;
    size_t n;
};

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    struct txn_branch c = txn_dial(w->mysql, 0);
    while (!atomic_load(&w->stop) && w->n < WRITES) {
        int64_t began = rt_bench_ns();
        txn_say(&c, "INSERT INTO rota_event (topic, msg_key, payload) VALUES ('" OUTBOX_TOPIC
                    "', 'w', 'x')");
        w->ms[w->n++] = (double)(rt_bench_ns() - began) / 1e6;
    }
    txn_hang_up(&c);
    return NULL;
}

/* Cleans for SECONDS (0: until nothing is old) or, if S is NULL, does nothing; returns how long the longest statement
 * took. */
static double clean(struct rt_store *s, double seconds, uint64_t *gone)
{
    int64_t until = rt_bench_ns() + (int64_t)(seconds * 1e9);
    double longest = 0;
    uint64_t page = PAGE;

    *gone = 0;
    while (seconds > 0 ? rt_bench_ns() < until : page == PAGE) {
        int64_t began = rt_bench_ns();
        if (s == NULL) {
            const struct timespec nap = {.tv_nsec = 10000000};
            nanosleep(&nap, NULL);
            continue;
        }
        must(s, rt_store_clean(s, 60000, PAGE, &page));
        double ms = (double)(rt_bench_ns() - began) / 1e6;
        longest = ms > longest ? ms : longest;
        *gone += page;
    }
    return longest;
}

static double write_beside(struct rt_store *s, bool mysql, struct writer *w, uint64_t *gone,
                           double *seconds)
{
    *w = (struct writer){.mysql = mysql, .ms = calloc(WRITES, sizeof(double))};
    if (w->ms == NULL || pthread_create(&w->thread, NULL, writer_main, w) != 0)
        outbox_die("a thread", "cannot be started");
    int64_t began = rt_bench_ns();
    double longest = clean(s, s == NULL ? 2 : 0, gone);
    *seconds = (double)(rt_bench_ns() - began) / 1e9;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    return longest;
}

static void clean_up(const struct bench *b, bool mysql, int size)
{
    struct rt_store *s = outbox_store(mysql, NULL);
    struct writer alone, beside;
    uint64_t gone = 0;
    double seconds = 0;

    (void)write_beside(NULL, mysql, &alone, &gone, &seconds);
    double longest = write_beside(s, mysql, &beside, &gone, &seconds);
    rt_store_close(s);
    double quiet = rt_bench_quantile(alone.ms, alone.n, 0.99);
    double busy = rt_bench_quantile(beside.ms, beside.n, 0.99);
    bench_say(b, text(mysql, size, "rows cleaned"), (double)gone, "");
    bench_say(b, text(mysql, size, "rows cleaned"), (double)gone / seconds, "/s");
    bench_say(b, text(mysql, size, "longest DELETE of 500"), longest, "ms");
    bench_say(b, text(mysql, size, "a write, p99, before"), quiet, "ms");
    bench_say(b, text(mysql, size, "a write, p99, meanwhile"), busy, "ms");
    bench_say(b, text(mysql, size, "a write, longest, before"), alone.ms[alone.n - 1], "ms");
    bench_say(b, text(mysql, size, "a write, longest, meanwhile"), beside.ms[beside.n - 1], "ms");
    bench_goal(b, text(mysql, size, "a write, p99, meanwhile / before"), busy / quiet, "x", false,
               3);
    free(alone.ms);
    free(beside.ms);
}

void bench_outbox_growth(const struct bench *b)
{
    const int whole[SIZES] = {0, 10000, 100000, 1000000}, quick[SIZES] = {0, 1000, 10000, 100000};
    const int *sizes = b->scale < 1 ? quick : whole;

    outbox_start();
    for (int mysql = 0; mysql < 2; mysql++) {
        levels(b, mysql == 1, sizes);
        clean_up(b, mysql == 1, sizes[SIZES - 1]);
    }
}
