/* SPDX-License-Identifier: Apache-2.0 */
/* Databases with a table of events, and brokers, for the benches of the outbox. */
#include "outbox.h"

#include "engine/url.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define BATCH_MOST 1000

#ifdef BENCH_RABBITMQ
extern const struct post post_rabbitmq;
#endif
#ifdef BENCH_NATS
extern const struct post post_nats;
#endif
extern const struct post post_redis;

const struct outbox_broker outbox_brokers[] = {
#ifdef BENCH_RABBITMQ
    {"RabbitMQ", &post_rabbitmq},
#endif
#ifdef BENCH_NATS
    {"NATS", &post_nats},
#endif
    {"Redis", &post_redis},
    {NULL, NULL},
};
const char *const outbox_databases[2] = {"PostgreSQL", "MariaDB"};

static bool running;
static struct rt_server *servers[4]; /* of the brokers */

void outbox_die(const char *what, const char *why)
{
    fprintf(stderr, "rota-bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- Databases -------------------------------------------------------------------------- */

/* The database "left" of the transfers' server. */
void outbox_url(bool mysql, uint16_t port, char *out, size_t size)
{
    const char *url = mysql ? txn_mysql_url() : txn_postgres_url();
    const char *host = strchr(url, '@'), *colon = strchr(host, ':');
    char *end = NULL;
    unsigned long own = strtoul(colon + 1, &end, 10);

    snprintf(out, size, "%.*s:%lu/left%s", (int)(colon - url), url,
             port != 0 ? (unsigned long)port : own,
             strchr(end, '?') != NULL ? strchr(end, '?') : "");
}

uint16_t outbox_port(bool mysql)
{
    const char *url = mysql ? txn_mysql_url() : txn_postgres_url();

    return (uint16_t)strtoul(strchr(strchr(url, '@'), ':') + 1, NULL, 10);
}

struct rt_store *outbox_store(bool mysql, const struct rt_store_options *o)
{
    char url[BENCH_URL], line[512] = "";
    struct rt_store *s = NULL;

    outbox_url(mysql, 0, url, sizeof url);
    if (rt_store_open(&s, url, NULL, o, line, sizeof line) != 0)
        outbox_die(url, line);
    return s;
}

void outbox_fill(bool mysql, int n, int keys)
{
    struct txn_branch c = txn_dial(mysql, 0);

    txn_say(&c, "TRUNCATE TABLE rota_event");
    txn_say(&c, "DELETE FROM rota_event_trouble");
    if (mysql)
        txn_say(&c,
                "INSERT INTO rota_event (topic, msg_key, type, payload) SELECT '" OUTBOX_TOPIC
                "', CONCAT('order-', seq %% %d), 'made', REPEAT('x', %d) FROM seq_1_to_%d",
                keys, OUTBOX_PAYLOAD, n);
    else
        txn_say(&c,
                "INSERT INTO rota_event (topic, msg_key, type, payload) SELECT '" OUTBOX_TOPIC
                "', 'order-' || i %% %d, 'made', repeat('x', %d)::bytea FROM generate_series(1, "
                "%d) i",
                keys, OUTBOX_PAYLOAD, n);
    txn_say(&c, mysql ? "ANALYZE TABLE rota_event" : "ANALYZE rota_event");
    txn_hang_up(&c);
}

double outbox_lag_ms(bool mysql, double q)
{
    char sql[400];
    if (mysql) {
        double n = txn_number(true, "SELECT COUNT(*) FROM `left`.rota_event");
        snprintf(sql, sizeof sql,
                 "SELECT TIMESTAMPDIFF(MICROSECOND, created, updated) / 1000 FROM "
                 "`left`.rota_event ORDER BY 1 LIMIT 1 OFFSET %d",
                 (int)(q * (n - 1)));
        return txn_number(true, sql);
    }
    struct txn_branch c = txn_dial(false, 0);
    snprintf(sql, sizeof sql,
             "SELECT percentile_cont(%f) WITHIN GROUP (ORDER BY extract(epoch FROM updated - "
             "created) * 1000) FROM rota_event",
             q);
    PGresult *r = PQexec(c.pg, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        outbox_die(sql, PQerrorMessage(c.pg));
    double ms = strtod(PQgetvalue(r, 0, 0), NULL);
    PQclear(r);
    txn_hang_up(&c);
    return ms;
}

/* A row's number and when it was published, in ms since 1970. */
static void note_lag(const char *number, const char *updated, const double *committed, size_t count,
                     double *out, size_t *n)
{
    size_t i = strtoul(number, NULL, 10);
    if (i > 0 && i < count)
        out[(*n)++] = strtod(updated, NULL) - committed[i];
}

size_t outbox_lags_ms(bool mysql, const double *committed, size_t count, double *out)
{
    struct txn_branch c = txn_dial(mysql, 0);
    size_t n = 0;
    if (mysql) {
        static const char sql[] =
            "SELECT SUBSTR(msg_key, 7), UNIX_TIMESTAMP(updated) * 1000 FROM rota_event";
        MYSQL_ROW row;
        MYSQL_RES *r = mysql_query(c.my, sql) == 0 ? mysql_store_result(c.my) : NULL;
        if (r == NULL)
            outbox_die(sql, mysql_error(c.my));
        while ((row = mysql_fetch_row(r)) != NULL)
            note_lag(row[0], row[1], committed, count, out, &n);
        mysql_free_result(r);
    } else {
        static const char sql[] =
            "SELECT substr(msg_key, 7), extract(epoch FROM updated) * 1000 FROM rota_event";
        PGresult *r = PQexec(c.pg, sql);
        if (PQresultStatus(r) != PGRES_TUPLES_OK)
            outbox_die(sql, PQerrorMessage(c.pg));
        for (int i = 0; i < PQntuples(r); i++)
            note_lag(PQgetvalue(r, i, 0), PQgetvalue(r, i, 1), committed, count, out, &n);
        PQclear(r);
    }
    txn_hang_up(&c);
    return n;
}

/* ---- Brokers ------------------------------------------------------------------------------ */

static void on_log(void *arg, bool trouble, const char *line)
{
    (void)arg;
    fprintf(stderr, "rota-bench: relay: %s%s\n", trouble ? "" : "well again: ", line);
}

struct rt_relay *outbox_relay(const struct outbox_broker *broker, const char *from, bool once)
{
    char to[300], line[512] = "";
    struct rt_relay *r = NULL;

    broker->post->url(to, sizeof to, "", "");
    const struct rt_relay_options opts = {.from = from, .to = to, .once = once, .log = on_log};
    if (rt_relay_start(&r, &opts, false, line, sizeof line) != 0)
        outbox_die("relay", line);
    return r;
}

struct rt_broker *outbox_open(const struct outbox_broker *broker)
{
    char to[300], line[512] = "";
    struct rt_broker *b = NULL;
    struct rt_url url;
    const struct rt_broker_options opts = {.app = "rota-bench"};

    broker->post->url(to, sizeof to, "", "");
    if (rt_url_parse(&url, to, line, sizeof line) != 0 ||
        broker->post->kind->open(&b, &url, &opts, rt_relay_now() + 30 * SECOND, line,
                                 sizeof line) != 0)
        outbox_die(broker->name, line);
    rt_url_fini(&url);
    return b;
}

const struct rt_message *outbox_messages(size_t n)
{
    static _Thread_local struct rt_message messages[BATCH_MOST];
    static _Thread_local char ids[BATCH_MOST][33], keys[BATCH_MOST][32];
    static char body[OUTBOX_PAYLOAD];
    static _Atomic uint64_t next;

    assert(n <= BATCH_MOST);
    memset(body, 'x', sizeof body);
    for (size_t i = 0; i < n; i++) {
        unsigned long long number = atomic_fetch_add(&next, 1);
        snprintf(ids[i], sizeof ids[i], "%032llx", number);
        snprintf(keys[i], sizeof keys[i], "order-%llu", number);
        messages[i] = (struct rt_message){.id = ids[i],
                                          .topic = OUTBOX_TOPIC,
                                          .key = keys[i],
                                          .type = "made",
                                          .body = body,
                                          .size = sizeof body};
    }
    return messages;
}

void outbox_publish(const struct outbox_broker *broker, struct rt_broker *b, size_t n)
{
    static _Thread_local enum rt_sent sent[BATCH_MOST];
    static _Thread_local const char *why[BATCH_MOST];

    const struct rt_message *m = outbox_messages(n);
    if (broker->post->kind->publish(b, m, n, rt_relay_now() + 30 * SECOND, sent, why) != 0)
        outbox_die(broker->name, broker->post->kind->errmsg(b));
    for (size_t i = 0; i < n; i++)
        if (sent[i] != RT_SENT_CONFIRMED)
            outbox_die(broker->name, why[i] != NULL ? why[i] : "a message was not confirmed");
}

double outbox_broker_cpu_us(const struct outbox_broker *broker)
{
    return rt_bench_tree_cpu_us(servers[broker - outbox_brokers]->pid);
}

/* ---- All of them ----------------------------------------------------------------------------- */

void outbox_start(void)
{
    if (running)
        return;
    txn_start();
    for (int i = 0; i < 2; i++)
        rt_store_close(outbox_store(i == 1, NULL)); /* makes the tables */
    running = true;
    for (size_t i = 0; outbox_brokers[i].name != NULL; i++) {
        servers[i] = outbox_brokers[i].post->start();
        outbox_brokers[i].post->route(OUTBOX_TOPIC);
    }
}

void bench_outbox_stop(void)
{
    if (!running)
        return;
    running = false;
    for (size_t i = 0; outbox_brokers[i].name != NULL; i++)
        outbox_brokers[i].post->fini();
}
