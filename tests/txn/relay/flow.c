/* SPDX-License-Identifier: Apache-2.0 */
/* The whole way with real parts: writers, two relays (the command), a broker, two consumers with their inbox, in one
 * database; relays, consumers, the broker and the database are killed while it runs. In the end each event has had its
 * effect once, in the order of its key, and every row is processed.
 *
 *   flow [EVENTS [TROUBLES [forgets | torture]]]     a program for each database and broker
 *
 * forgets: each time the broker is killed it forgets what it took: its folder is as it was before the first event.
 * torture: only in make torture, with FACTOR / 17 times the events and troubles. */
#include "../event/office.h"
#include "lib/patience.h"
#include "lib/proc.h"
#include "lib/random.h"
#include "post.h"
#include "txn/relay/taker.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEYS 8 /* of each writer */
#define TOPICS 2
#define RELAYS 2
#define WRITERS_MOST 4
#define PATIENCE_MS 180000 /* without anything new */
#define PAGE 500           /* effects that are something new */
#define WATCHDOG_S 900
#define SKIPPED 77
#define TORTURE 17 /* what make torture says unless told otherwise */

enum { RELAY, CONSUMER };

static struct {
    unsigned events, troubles, writers;
    char *from;
    char to[300];
    pid_t relay[RELAYS], consumer[TOPICS];
    struct rt_server *broker;
    char memory[400];  /* forgets: what the broker's folder is after each kill; "": it keeps all */
    long long effects; /* seen last */
    int64_t began;
} flow = {.events = 600, .troubles = 6};

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "flow: %s: %s\n", what, why);
    exit(1);
}

static void topic_of(unsigned key, char *out, size_t size)
{
    snprintf(out, size, "flow%u", key % TOPICS);
}

/* ---- Writers ------------------------------------------------------------------------------------- */

static int writer(int index, void *unused)
{
    struct rt_random random = {.state = rt_seed() ^ (uint64_t)getpid()};
    unsigned numbers[KEYS] = {0};
    void *conn = office_conn();

    (void)unused;
    for (unsigned i = 0; i < flow.events / flow.writers; i++) {
        unsigned local = rt_random_below(&random, KEYS), key = (unsigned)index * KEYS + local;
        char payload[64], name[16], topic[16];
        bool commits = rt_random_below(&random, 10) != 0;

        topic_of(key, topic, sizeof(topic));
        snprintf(name, sizeof(name), "%u", key);
        snprintf(payload, sizeof(payload), "%u %u", key, numbers[local]);
        const struct rota_event e = {.topic = topic,
                                     .key = name,
                                     .type = "made",
                                     .payload = payload,
                                     .size = strlen(payload)};
        office_sql(conn, "%s", HERE->begin);
        if (HERE->put(conn, &e) != 0)
            die("put", rota_txn_errmsg(NULL));
        office_sql(conn, "%s", commits ? "COMMIT" : "ROLLBACK");
        numbers[local] += commits;
    }
    office_close(conn);
    return 0;
}

/* ---- Consumers: of one topic each, so that they keep its order ----------------------------------- */

/* The inbox, the effect and `processed`, in one transaction. True: the message may be acknowledged. */
static bool work(void *conn, const struct rt_message *m)
{
    unsigned key = 0, number = 0;
    char body[64];

    snprintf(body, sizeof(body), "%.*s", (int)m->size, (const char *)m->body);
    char *blank = strchr(body, ' ');
    if (blank == NULL)
        die("a payload", body);
    key = (unsigned)strtoul(body, NULL, 10);
    number = (unsigned)strtoul(blank + 1, NULL, 10);
    if (!HERE->site->sql(conn, HERE->begin))
        return false;
    int err = HERE->take(conn, "flow", m->id);
    if (err == 0)
        office_sql(conn, "INSERT INTO effect (k, n) VALUES (%u, %u)", key, number);
    if ((err == 0 || err == ROTA_BUSY) && HERE->processed(conn, NULL, m->id) == 0 &&
        HERE->site->sql(conn, "COMMIT"))
        return true;
    (void)HERE->site->sql(conn, "ROLLBACK");
    return false;
}

/* Any failure ends it; it is started again. */
static enum rt_taken on_event(void *conn, struct rt_taker *t, const struct rt_message *m,
                              uint32_t attempt)
{
    (void)t;
    (void)attempt;
    return work(conn, m) ? RT_TAKEN_DONE : RT_TAKEN_STOP;
}

static void on_over(void *conn, const char *id, enum rt_taker_over how)
{
    (void)conn;
    (void)id;
    (void)how;
}

static bool goes_on(void *conn, int64_t ms)
{
    (void)conn;
    return poll(NULL, 0, (int)ms) == 0;
}

static bool on_idle(void *conn)
{
    (void)conn;
    return true;
}

static void on_log(void *conn, bool trouble, const char *line)
{
    (void)conn;
    (void)trouble;
    (void)line;
}

static int consumer(int index, void *unused)
{
    char topic[16], source[64], line[512];
    struct rt_taker *t = NULL;
    const struct rt_taker_options opts = {.from = flow.to,
                                          .source = source,
                                          .group = "flow",
                                          .ack_ms = 1000,
                                          .arg = office_conn(),
                                          .work = on_event,
                                          .over = on_over,
                                          .goes_on = goes_on,
                                          .idle = on_idle,
                                          .log = on_log};

    (void)unused;
    topic_of((unsigned)index, topic, sizeof(topic));
    POST.source(source, sizeof(source), topic);
    if (rt_taker_open(&t, &opts, true, line, sizeof(line)) != 0)
        return 2;
    rt_taker_run(t);
    return 3;
}

/* ---- Relays ------------------------------------------------------------------------------------------ */

static int relay(int index, void *unused)
{
    (void)index;
    (void)unused;
    execl(ROTA_RELAY, "rota-relay", "--from", flow.from, "--to", flow.to, "--lease", "2s",
          "--republish-after", "3s", "--batch", "50", (char *)NULL);
    return 127;
}

/* ---- Whoever has ended is started again ------------------------------------------------------------- */

static bool has_ended(pid_t pid)
{
    return pid == 0 || waitpid(pid, NULL, WNOHANG) == pid;
}

static void tend(void)
{
    for (int i = 0; i < RELAYS; i++)
        if (has_ended(flow.relay[i]))
            flow.relay[i] = rt_proc_start(relay, i, NULL);
    for (int i = 0; i < TOPICS; i++)
        if (has_ended(flow.consumer[i]))
            flow.consumer[i] = rt_proc_start(consumer, i, NULL);
}

/* Some more, or N. */
static bool moves(void *arg)
{
    long long n = *(long long *)arg, is;

    tend();
    is = office_number(
        "SELECT COALESCE(MAX(id), 0) FROM effect"); /* some may have been rolled back */
    if (is >= n)
        is = office_number("SELECT count(*) FROM effect");
    bool more = is >= n || is >= flow.effects + PAGE;
    flow.effects = more ? is : flow.effects;
    return more;
}

static void await_effects(long long n)
{
    do {
        if (!rt_await(moves, &n, PATIENCE_MS))
            die("it stands still", "effects are missing");
        rt_watchdog(WATCHDOG_S, "flow hangs");
    } while (flow.effects < n);
}

static bool all_processed(void *unused)
{
    (void)unused;
    tend();
    return office_number("SELECT count(*) FROM (SELECT 1 FROM rota_event WHERE state IN ('new', "
                         "'published', 'dead') LIMIT 1) AS t") == 0;
}

/* ---- Trouble ------------------------------------------------------------------------------------------- */

static void kill_one(pid_t *pid)
{
    if (*pid != 0 && !has_ended(*pid))
        rt_proc_kill(*pid);
    *pid = 0;
}

static int copy(int index, void *arg)
{
    const char *const *folders = arg;

    if (index == 0)
        execlp("rm", "rm", "-rf", folders[1], (char *)NULL);
    else
        execlp("cp", "cp", "-a", folders[0], folders[1], (char *)NULL);
    return 127;
}

/* Makes folder TO a copy of FROM. */
static void copy_folder(const char *from, const char *to)
{
    const char *folders[] = {from, to};

    for (int i = 0; i < 2; i++)
        if (rt_proc_wait(rt_proc_start(copy, i, folders)) != 0)
            die("cp", to);
}

/* What it has before the first event, the routes, is all it will ever remember. */
static void make_forgetful(void)
{
    rt_server_kill(flow.broker);
    snprintf(flow.memory, sizeof(flow.memory), "%s/memory", rt_tmpdir());
    copy_folder(flow.broker->dir, flow.memory);
    POST.run();
}

static void kill_broker(void)
{
    rt_server_kill(flow.broker);
    if (flow.memory[0] != '\0')
        copy_folder(flow.memory, flow.broker->dir);
    POST.run();
}

static const char *strike(struct rt_random *random)
{
    switch (rt_random_below(random, 5)) {
    case 0:
        kill_broker();
        return "the broker";
    case 1:
        if (HERE->site->kill == NULL)
            break;
        HERE->site->kill();
        HERE->site->run();
        return "the database";
    case 2:
        kill_one(&flow.consumer[rt_random_below(random, TOPICS)]);
        return "a consumer";
    default:
        break;
    }
    kill_one(&flow.relay[rt_random_below(random, RELAYS)]);
    return "a relay";
}

/* ---- The way -------------------------------------------------------------------------------------------- */

static int routes(int index, void *unused)
{
    char topic[16];

    (void)unused;
    topic_of((unsigned)index, topic, sizeof(topic));
    POST.route(topic);
    return 0;
}

static void set_up(void)
{
    HERE->site->start();
    flow.broker = POST.start();
    POST.url(flow.to, sizeof(flow.to), "", "");
    flow.from = HERE->site->url(HERE->site->port != NULL ? HERE->site->port() : 0);
    flow.writers = HERE->rows_lock ? WRITERS_MOST : 1;
    if (rt_proc_run_all(TOPICS, routes, NULL) != 0) /* client libraries have threads: not here */
        die("routes", "failed");
    void *conn = office_conn();
    if (HERE->make(conn) != 0)
        die("make", rota_txn_errmsg(NULL));
    office_close(conn);
    HERE->site->admin(EFFECT);
}

static void check(void)
{
    long long events = office_number("SELECT count(*) FROM rota_event");
    long long effects = office_number("SELECT count(*) FROM effect");
    long long twice = office_number(
        "SELECT count(*) FROM (SELECT k, n FROM effect GROUP BY k, n HAVING count(*) > 1) AS t");
    long long crossed = office_number(
        "SELECT COALESCE(SUM(c), 0) FROM (SELECT CASE WHEN id < LAG(id) OVER (PARTITION BY k ORDER "
        "BY n) THEN 1 ELSE 0 END AS c FROM effect) AS t");
    long long troubled = office_number("SELECT count(*) FROM rota_event_trouble");

    printf("%lld events, %lld effects, %lld twice, %lld out of order, %lld in trouble\n", events,
           effects, twice, crossed, troubled);
    if (flow.memory[0] !=
        '\0') /* what follows goes before what was forgotten: --strict-order is against that */
        crossed = 0;
    if (events == 0 || effects != events || twice != 0 || crossed != 0 || troubled != 0)
        die("the end", "is not as it must be");
    office_admin("UPDATE rota_event SET topic = topic"); /* nobody has a row still */
    printf("%u events in %.0f s\n", flow.events, (double)(rt_relay_now() - flow.began) / 1e9);
}

/* False: it is for make torture only. */
static bool read_words(int argc, char **argv)
{
    const char *torture = getenv("ROTA_TORTURE");
    bool only = argc > 3 && strcmp(argv[3], "torture") == 0;

    if (argc > 1)
        flow.events = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        flow.troubles = (unsigned)strtoul(argv[2], NULL, 10);
    if (!only)
        return true;
    unsigned factor = torture != NULL ? (unsigned)strtoul(torture, NULL, 10) : 0;
    flow.events = flow.events * factor / TORTURE;
    flow.troubles = flow.troubles * factor / TORTURE;
    return factor > 0;
}

static void strike_on(long long events)
{
    struct rt_random random = {.state = rt_seed() ^ (uint64_t)getpid()};

    for (unsigned i = 0; i < flow.troubles; i++) {
        long long at = events * (i + 1) / (flow.troubles + 1);
        await_effects(at);
        printf("at %lld of %lld: %s is killed\n", at, events, strike(&random));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    pid_t writers[WRITERS_MOST];

    if (!read_words(argc, argv))
        return SKIPPED;
    rt_watchdog(WATCHDOG_S, "flow hangs");
    set_up();
    if (argc > 3 && strcmp(argv[3], "forgets") == 0)
        make_forgetful();
    flow.began = rt_relay_now();
    tend();
    for (unsigned i = 0; i < flow.writers; i++)
        writers[i] = rt_proc_start(writer, (int)i, NULL);
    await_effects(1);
    kill_one(&flow.relay[0]);
    for (unsigned i = 0; i < flow.writers; i++)
        if (rt_proc_wait(writers[i]) != 0)
            die("a writer", "failed");
    long long events = office_number("SELECT count(*) FROM rota_event");
    strike_on(events);
    await_effects(events);
    if (!rt_await(all_processed, NULL, PATIENCE_MS))
        die("rows", "are not processed");
    for (int i = 0; i < RELAYS; i++)
        kill_one(&flow.relay[i]);
    for (int i = 0; i < TOPICS; i++)
        kill_one(&flow.consumer[i]);
    check();
    POST.fini();
    HERE->site->fini();
    free(flow.from);
    return 0;
}
