/* SPDX-License-Identifier: Apache-2.0 */
/* The relay, beside a bare publisher with the same client, confirms and batch; its round trips; how long events wait. */
#include "outbox.h"

#include "lib/proxy.h"
#include "lib/proxy_framing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 3
#define EVENTS 20000
#define BATCH 500
#define COUNTED 10000 /* events whose round trips are counted */
#define LANES 2
#define HOT_KEYS 16
#define WRITERS 2
#define LOAD_S 2.0
#define PUBLISHES 300
#define CALM_EVENTS 60
#define CALM_US 30000

static const char *text(const char *database, const char *broker, const char *what)
{
    static char texts[8][128];
    static unsigned next;
    char *out = texts[next++ % 8];
    snprintf(out, sizeof texts[0], "%s, %s: %s", database, broker, what);
    return out;
}

/* ---- Events per second ---------------------------------------------------------------------- */

double outbox_drain(const struct outbox_broker *broker, const char *from,
                    struct rt_lane_counts *counts)
{
    struct rt_relay *r = outbox_relay(broker, from, true);
    uint64_t opened = 0;
    int64_t began = 0;
    while (rt_relay_look(r, counts)) {
        if (opened == 0 && counts->confirmed > 0)
            opened = counts->confirmed, began = rt_bench_ns();
        usleep(opened == 0 ? 200 : 2000);
    }
    double seconds = (double)(rt_bench_ns() - began) / 1e9;
    rt_relay_end(r);
    return (double)(counts->confirmed - opened) / seconds;
}

struct bare {
    const struct outbox_broker *broker;
    struct rt_broker *conn;
    pthread_t thread;
    int events;
};

static void *bare_main(void *arg)
{
    struct bare *one = arg;
    for (int done = 0; done < one->events; done += BATCH)
        outbox_publish(one->broker, one->conn, BATCH);
    return NULL;
}

double outbox_bare(const struct outbox_broker *broker, int events)
{
    struct bare all[LANES];
    for (int i = 0; i < LANES; i++)
        all[i] = (struct bare){broker, outbox_open(broker), 0, events / LANES};
    int64_t began = rt_bench_ns();
    for (int i = 0; i < LANES; i++)
        if (pthread_create(&all[i].thread, NULL, bare_main, &all[i]) != 0)
            outbox_die("a thread", "cannot be started");
    for (int i = 0; i < LANES; i++)
        pthread_join(all[i].thread, NULL);
    double seconds = (double)(rt_bench_ns() - began) / 1e9;
    for (int i = 0; i < LANES; i++)
        broker->post->kind->close(all[i].conn);
    int each = (events / LANES + BATCH - 1) / BATCH * BATCH; /* whole batches */
    return (double)(each * LANES) / seconds;
}

struct alone {
    struct rt_store *store;
    pthread_t thread;
    atomic_int *done;
};

static void *alone_main(void *arg)
{
    struct alone *one = arg;
    const struct rt_store_row *rows = NULL;
    struct rt_store_mark marks[BATCH];
    size_t n = 0, marked = 0;
    do {
        if (rt_store_turn(one->store, marks, marked, BATCH, &rows, &n) != 0)
            outbox_die("a turn", rt_store_errmsg(one->store));
        for (size_t i = 0; i < n; i++)
            marks[i] = (struct rt_store_mark){.id = rows[i].id, .what = RT_MARK_PUBLISHED};
        marked = n;
        rt_store_skip(one->store, n == BATCH ? rows[n - 1].id : 0); /* as a lane does */
        atomic_fetch_add(one->done, (int)n);
    } while (n > 0);
    return NULL;
}

double outbox_alone(bool mysql)
{
    const struct rt_store_options quiet = {.republish_ms = 3600000};
    struct alone all[LANES];
    atomic_int done = 0;
    for (int i = 0; i < LANES; i++)
        all[i] = (struct alone){outbox_store(mysql, &quiet), 0, &done};
    int64_t began = rt_bench_ns();
    for (int i = 0; i < LANES; i++)
        if (pthread_create(&all[i].thread, NULL, alone_main, &all[i]) != 0)
            outbox_die("a thread", "cannot be started");
    for (int i = 0; i < LANES; i++)
        pthread_join(all[i].thread, NULL);
    double seconds = (double)(rt_bench_ns() - began) / 1e9;
    for (int i = 0; i < LANES; i++)
        rt_store_close(all[i].store);
    return atomic_load(&done) / seconds;
}

static void speed(const struct bench *b, bool mysql, const struct outbox_broker *broker, int events)
{
    const char *database = outbox_databases[mysql];
    struct beside all = {.n = 0}, hot = {.n = 0}, turns = {.n = 0};
    struct rt_lane_counts counts;
    char from[BENCH_URL];
    double base[ROUNDS];

    outbox_url(mysql, 0, from, sizeof from);
    (void)outbox_bare(broker, BATCH); /* warms up */
    for (int i = 0; i < ROUNDS; i++) {
        double ours[2];
        for (int k = 0; k < 2; k++) {
            outbox_fill(mysql, events, k == 0 ? events : HOT_KEYS);
            ours[k] = outbox_drain(broker, from, &counts);
        }
        double theirs = outbox_bare(broker, events);
        beside_add(&all, ours[0], theirs);
        beside_add(&hot, ours[1], theirs);
        /* one event needs both: 1 / (1 / publishing + 1 / the database), if one processor did it all */
        outbox_fill(mysql, events, events);
        double database_s = outbox_alone(mysql);
        beside_add(&turns, ours[0], 1 / (1 / theirs + 1 / database_s));
        base[i] = database_s;
    }
    beside_say(b, &all,
               &(struct beside_text){text(database, broker->name, "relay, a key for each event"),
                                     text(database, broker->name, "bare publisher"),
                                     text(database, broker->name, "relay / bare"), "/s", 0.7,
                                     true});
    bench_say(b, text(database, broker->name, "the database alone"), rt_bench_median(base, ROUNDS),
              "/s");
    beside_say(b, &turns,
               &(struct beside_text){NULL, text(database, broker->name, "publisher and database"),
                                     text(database, broker->name, "relay / publisher and database"),
                                     "/s", 0, true});
    beside_say(b, &hot,
               &(struct beside_text){text(database, broker->name, "relay, 16 keys in all"),
                                     text(database, broker->name, "bare publisher"),
                                     text(database, broker->name, "relay, 16 keys / bare"), "/s", 0,
                                     true});
}

/* Counted on the wire, by a proxy that knows requests and replies; opening and checking the table are included. */
static void round_trips(const struct bench *b, bool mysql, const struct outbox_broker *broker)
{
    const int events = COUNTED;
    const struct rt_proxy_options opts = {.port = outbox_port(mysql),
                                          .framing = mysql ? &rt_proxy_mysql : &rt_proxy_postgres};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    struct rt_proxy_counts seen;
    struct rt_lane_counts counts;
    char from[BENCH_URL];

    outbox_fill(mysql, events, events);
    outbox_url(mysql, rt_proxy_port(proxy), from, sizeof from);
    (void)outbox_drain(broker, from, &counts);
    rt_proxy_counts(proxy, &seen);
    bench_goal(b, text(outbox_databases[mysql], broker->name, "round trips for 100 events"),
               100 * (double)seen.flights / (double)counts.confirmed, "", false, 1);
    bench_say(b, text(outbox_databases[mysql], broker->name, "turns for 100 events"),
              100 * (double)counts.turns / (double)counts.confirmed, "");
    rt_proxy_stop(proxy);
}

void bench_outbox_speed(const struct bench *b)
{
    outbox_start();
    int events = (int)(EVENTS * (b->scale < 1 ? 0.3 : 1));
    for (int mysql = 0; mysql < 2; mysql++)
        for (const struct outbox_broker *k = outbox_brokers; k->name != NULL; k++) {
            speed(b, mysql == 1, k, events);
            round_trips(b, mysql == 1, k);
        }
}

/* ---- How long events wait --------------------------------------------------------------------- */

#define WRITES_MOST 20000

struct writers {
    bool mysql;
    pthread_t threads[WRITERS];
    atomic_bool stop;
    atomic_int written;
    double ms[WRITES_MOST];        /* that each took, with its COMMIT */
    double committed[WRITES_MOST]; /* when that was answered, in ms since 1970 */
};

static double wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void write_one(struct txn_branch *c, int number)
{
    txn_say(c,
            "INSERT INTO rota_event (topic, msg_key, type, payload) VALUES ('" OUTBOX_TOPIC
            "', 'order-%d', 'made', '0123456789012345678901234567890123456789')",
            number);
}

static void *writer_main(void *arg)
{
    struct writers *w = arg;
    struct txn_branch c = txn_dial(w->mysql, 0);
    while (!atomic_load(&w->stop)) {
        int number = atomic_fetch_add(&w->written, 1) + 1; /* order-0 is there already */
        int64_t began = rt_bench_ns();
        write_one(&c, number);
        w->ms[(number - 1) % WRITES_MOST] = (double)(rt_bench_ns() - began) / 1e6;
        w->committed[number % WRITES_MOST] = wall_ms();
    }
    txn_hang_up(&c);
    return NULL;
}

static void writers_start(struct writers *w, bool mysql)
{
    w->mysql = mysql;
    atomic_store(&w->stop, false);
    atomic_store(&w->written, 0);
    for (int i = 0; i < WRITERS; i++)
        if (pthread_create(&w->threads[i], NULL, writer_main, w) != 0)
            outbox_die("a thread", "cannot be started");
}

static void writers_stop(struct writers *w)
{
    atomic_store(&w->stop, true);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(w->threads[i], NULL);
}

static void await_published(bool mysql)
{
    const char *sql = mysql ? "SELECT COUNT(*) FROM `left`.rota_event WHERE state = 'new'" : NULL;
    struct txn_branch c = txn_dial(mysql, 0);
    for (double left = 1; left > 0; usleep(1000)) {
        if (mysql) {
            left = txn_number(true, sql);
            continue;
        }
        PGresult *r = PQexec(c.pg, "SELECT count(*) FROM rota_event WHERE state = 'new'");
        left = strtod(PQgetvalue(r, 0, 0), NULL);
        PQclear(r);
    }
    txn_hang_up(&c);
}

/* One publish and its confirm, while the same writers write: the quantile Q in ms. */
static double one_publish(const struct outbox_broker *broker, double q)
{
    static double ms[PUBLISHES];
    struct rt_broker *conn = outbox_open(broker);
    for (int i = 0; i < PUBLISHES; i++) {
        int64_t began = rt_bench_ns();
        outbox_publish(broker, conn, 1);
        ms[i] = (double)(rt_bench_ns() - began) / 1e6;
    }
    broker->post->kind->close(conn);
    return rt_bench_quantile(ms, PUBLISHES, q);
}

/* The same by LANES publishers at once, each with batches of N, as lanes do: what no relay can be quicker than. */
struct batches {
    const struct outbox_broker *broker;
    struct rt_broker *conn;
    pthread_t thread;
    size_t n;
    double ms[PUBLISHES];
};

static void *batches_main(void *arg)
{
    struct batches *one = arg;
    for (int i = 0; i < PUBLISHES; i++) {
        int64_t began = rt_bench_ns();
        outbox_publish(one->broker, one->conn, one->n);
        one->ms[i] = (double)(rt_bench_ns() - began) / 1e6;
    }
    return NULL;
}

static double one_batch(const struct outbox_broker *broker, size_t n, double q)
{
    static struct batches all[LANES];
    static double ms[LANES * PUBLISHES];
    for (int i = 0; i < LANES; i++) {
        all[i].broker = broker;
        all[i].conn = outbox_open(broker);
        all[i].n = n;
        if (pthread_create(&all[i].thread, NULL, batches_main, &all[i]) != 0)
            outbox_die("a thread", "cannot be started");
    }
    for (int i = 0; i < LANES; i++) {
        pthread_join(all[i].thread, NULL);
        broker->post->kind->close(all[i].conn);
        memcpy(ms + i * PUBLISHES, all[i].ms, sizeof all[i].ms);
    }
    return rt_bench_quantile(ms, LANES * PUBLISHES, q);
}

static double writers_ms(struct writers *w, double q)
{
    int n = atomic_load(&w->written);
    return rt_bench_quantile(w->ms, (size_t)(n < WRITES_MOST ? n : WRITES_MOST), q);
}

/* From the answer to a row's COMMIT, when others could see it, until it is marked as published: the quantile Q in
 * ms. */
static double lag_ms(const struct writers *w, double q)
{
    static double ms[WRITES_MOST];
    int written = atomic_load(&w->written);
    if (written >= WRITES_MOST)
        outbox_die("lag", "more was written than is noted");
    size_t n = outbox_lags_ms(w->mysql, w->committed, (size_t)written + 1, ms);
    return rt_bench_quantile(ms, n, q);
}

/* Under load. The writer's own COMMIT is not included, and is reported beside it. */
static void lag_under_load(const struct bench *b, bool mysql, const struct outbox_broker *broker)
{
    const char *database = outbox_databases[mysql];
    struct beside p99 = {.n = 0};
    static struct writers w;
    char from[BENCH_URL];
    double half = 0, per_second = 0, own = 0, claim = 0;
    struct beside batch = {.n = 0};
    struct rt_lane_counts before, counts;

    outbox_url(mysql, 0, from, sizeof from);
    for (int i = 0; i < ROUNDS; i++) {
        outbox_fill(mysql, 1, 1);
        struct rt_relay *r = outbox_relay(broker, from, false);
        await_published(mysql);
        outbox_fill(mysql, 1, 1);
        (void)rt_relay_look(r, &before);
        writers_start(&w, mysql);
        usleep((useconds_t)(LOAD_S * 1e6 * (b->scale < 1 ? 0.5 : 1)));
        writers_stop(&w);
        per_second = atomic_load(&w.written) / (LOAD_S * (b->scale < 1 ? 0.5 : 1));
        await_published(mysql);
        (void)rt_relay_look(r, &counts);
        rt_relay_end(r);
        double turns = (double)(counts.turns - before.turns) -
                       (double)(counts.empty - before.empty);
        claim = (double)(counts.confirmed - before.confirmed) / turns;
        own = writers_ms(&w, 0.99);
        double ours = lag_ms(&w, 0.99);
        half = lag_ms(&w, 0.5);
        writers_start(&w, mysql);
        double theirs = one_publish(broker, 0.99);
        double together = one_batch(broker, claim < 1 ? 1 : (size_t)claim, 0.99);
        writers_stop(&w);
        beside_add(&p99, ours, theirs);
        beside_add(&batch, ours, together);
    }
    bench_say(b, text(database, broker->name, "written"), per_second, "/s");
    bench_say(b, text(database, broker->name, "lag p50 under load"), half, "ms");
    bench_say(b, text(database, broker->name, "the writer's own COMMIT before that, p99"), own,
              "ms");
    beside_say(b, &p99,
               &(struct beside_text){text(database, broker->name, "lag p99 under load"),
                                     text(database, broker->name, "one publish, p99"),
                                     text(database, broker->name, "lag / one publish"), "ms",
                                     mysql ? 0 : 3, false});
    bench_say(b, text(database, broker->name, "events of a turn"), claim, "");
    beside_say(b, &batch,
               &(struct beside_text){
                   NULL, text(database, broker->name, "as many at once, by two, p99"),
                   text(database, broker->name, "lag / as many at once, by two"), "ms", 0, false});
}

static void lag_when_calm(const struct bench *b, bool mysql, const struct outbox_broker *broker)
{
    const char *database = outbox_databases[mysql];
    char from[BENCH_URL];

    outbox_url(mysql, 0, from, sizeof from);
    outbox_fill(mysql, 1, 1);
    struct rt_relay *r = outbox_relay(broker, from, false);
    await_published(mysql);
    outbox_fill(mysql, 1, 1);
    struct txn_branch c = txn_dial(mysql, 0);
    for (int i = 0; i < CALM_EVENTS; i++) {
        usleep(CALM_US);
        write_one(&c, i);
    }
    await_published(mysql);
    rt_relay_end(r);
    txn_hang_up(&c);
    double half = outbox_lag_ms(mysql, 0.5);
    if (mysql)
        bench_say(b, text(database, broker->name, "new to published, one at a time, p50"), half,
                  "ms");
    else
        bench_goal(b, text(database, broker->name, "new to published, one at a time, p50"), half,
                   "ms", false, 10);
    bench_say(b, text(database, broker->name, "new to published, one at a time, p99"),
              outbox_lag_ms(mysql, 0.99), "ms");
    bench_say(b, text(database, broker->name, "of it one publish, p50"), one_publish(broker, 0.5),
              "ms");
}

void bench_outbox_lag(const struct bench *b)
{
    outbox_start();
    for (int mysql = 0; mysql < 2; mysql++)
        for (const struct outbox_broker *k = outbox_brokers; k->name != NULL; k++) {
            lag_when_calm(b, mysql == 1, k);
            lag_under_load(b, mysql == 1, k);
        }
}
