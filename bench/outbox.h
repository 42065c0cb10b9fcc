/* SPDX-License-Identifier: Apache-2.0 */
/* The benches of the outbox: the databases of the transfers (txn.h), the brokers of the tests, one of each. */
#ifndef BENCH_OUTBOX_H
#define BENCH_OUTBOX_H

#include "txn.h"

#include "txn/event/store.h"
#include "txn/relay/post.h"
#include "txn/relay/relay.h"

#define OUTBOX_PAYLOAD 200 /* bytes */
#define OUTBOX_TOPIC "bench"

struct outbox_broker {
    const char *name;
    const struct post *post;
};
extern const struct outbox_broker
    outbox_brokers[]; /* those that this build has; a name of NULL at the end */
extern const char *const outbox_databases[2]; /* names; 1: MariaDB */

/* Functions end the program on any error. */
void outbox_start(void); /* databases, brokers and tables; also if they run already */
__attribute__((noreturn)) void outbox_die(const char *what, const char *why);
void outbox_url(bool mysql, uint16_t port, char *out, size_t size); /* PORT 0: its own */
uint16_t outbox_port(bool mysql);
struct rt_store *outbox_store(bool mysql, const struct rt_store_options *o);

/* N new rows in an empty table; KEYS different keys. */
void outbox_fill(bool mysql, int n, int keys);
/* The quantile Q of the ms from `created` to `updated` of all rows. */
double outbox_lag_ms(bool mysql, double q);
/* For each row "order-I", 0 < I < COUNT, the ms from COMMITTED[I] (since 1970) to `updated`, into OUT of COUNT; returns
 * how many. */
size_t outbox_lags_ms(bool mysql, const double *committed, size_t count, double *out);

struct rt_relay *outbox_relay(const struct outbox_broker *broker, const char *from, bool once);
struct rt_broker *outbox_open(const struct outbox_broker *broker);
/* N messages that nobody has seen yet; valid until the next call of this thread. */
const struct rt_message *outbox_messages(size_t n);
void outbox_publish(const struct outbox_broker *broker, struct rt_broker *b, size_t n);
double outbox_broker_cpu_us(const struct outbox_broker *broker); /* so far */

/* Events per second (outbox.c). */

/* A relay's, from its first confirms on (its connections are open then, as the bare publishers' are) until nothing is
 * left; *COUNTS: what it did. */
double outbox_drain(const struct outbox_broker *broker, const char *from,
                    struct rt_lane_counts *counts);
/* Bare publishers': as many connections as a relay has lanes, opened before. */
double outbox_bare(const struct outbox_broker *broker, int events);
/* The database's alone, for the rows there are: the same turns, and nothing is published. No relay is faster. */
double outbox_alone(bool mysql);

#endif
