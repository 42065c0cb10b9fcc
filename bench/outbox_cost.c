/* SPDX-License-Identifier: Apache-2.0 */
/* What an event costs: processor time of the relay, of the database and of the broker, beside that of a bare publisher and
 * of the database's turns alone. On a machine that is busy with other work, elapsed times say little; these say where
 * the time goes. */
#include "outbox.h"

#include <stdio.h>

#define EVENTS 20000

struct cost { /* us of processor time */
    double ours, database, broker;
};

static struct cost so_far(const struct outbox_broker *broker)
{
    txn_settle();
    return (struct cost){rt_bench_cpu_us(), txn_servers_cpu_us(), outbox_broker_cpu_us(broker)};
}

static void say(const struct bench *b, const char *what, bool mysql,
                const struct outbox_broker *broker, const struct cost *from, double rate,
                double events)
{
    struct cost to = so_far(broker);
    const double us[3] = {to.ours - from->ours, to.database - from->database,
                          to.broker - from->broker};
    const char *const whose[3] = {"this process", "the database", "the broker"};
    char line[160];

    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "%s, %s: %s, %s", outbox_databases[mysql], broker->name, what,
                 whose[i]);
        bench_say(b, line, us[i] / events, "us/event");
    }
    snprintf(line, sizeof line, "%s, %s: %s", outbox_databases[mysql], broker->name, what);
    bench_say(b, line, rate, "/s");
}

static void cost(const struct bench *b, bool mysql, const struct outbox_broker *broker, int events)
{
    struct rt_lane_counts counts;
    char from[BENCH_URL];

    outbox_url(mysql, 0, from, sizeof from);
    struct cost before = so_far(broker);
    double rate = outbox_bare(broker, events);
    say(b, "bare publisher", mysql, broker, &before, rate, events);
    outbox_fill(mysql, events, events);
    before = so_far(broker);
    rate = outbox_alone(mysql);
    say(b, "turns alone", mysql, broker, &before, rate, events);
    outbox_fill(mysql, events, events);
    before = so_far(broker);
    rate = outbox_drain(broker, from, &counts);
    say(b, "relay", mysql, broker, &before, rate, events);
}

void bench_outbox_cost(const struct bench *b)
{
    outbox_start();
    int events = (int)(EVENTS * (b->scale < 1 ? 0.3 : 1));
    for (int mysql = 0; mysql < 2; mysql++)
        for (const struct outbox_broker *k = outbox_brokers; k->name != NULL; k++)
            cost(b, mysql == 1, k, events);
}
