/* SPDX-License-Identifier: Apache-2.0 */
/* A broker: where a relay publishes, and where a consumer takes messages from. One connection, for one thread; calls
 * wait, at most until a deadline of CLOCK_MONOTONIC in ns.
 *
 *   open ─▶ publish, publish, ... ─▶ close
 *        └▶ subscribe ─▶ next ─▶ keep, keep, ... ─▶ ack | back | leave ─▶ next ... ─▶ close
 *
 * Losses: a message without a confirm is published again, by anybody, with the same id: a consumer may see it twice,
 * and recognises the id. An ack without an answer may not have arrived: then the message comes again. */
#ifndef RT_BROKER_H
#define RT_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_url;
struct rt_broker;

#define RT_BROKER_ACK_MS 30000
#define RT_BROKER_LINE 300 /* bytes of a line that says why */

struct rt_message {
    const char *id;    /* of the event: the same however often it is published */
    const char *topic; /* routing key, subject, stream */
    const char *key;   /* NULL: none. For consumers: brokers have no order per key */
    const char *type;  /* NULL: none */
    const void *body;
    size_t size;
};

enum rt_sent {
    RT_SENT_LOST = 0,  /* nobody knows */
    RT_SENT_CONFIRMED, /* the broker has it, as far as its settings go */
    RT_SENT_REFUSED,   /* it does not, and says why: no route, too long, no such stream */
    RT_SENT_FULL,      /* it does not, and would take it later: this queue or stream has no room */
};

struct rt_broker_options {
    const char *app; /* the connection's name; NULL: rota-relay */
    uint32_t
        ack_ms; /* taken, and not answered for this long: it comes again; 0: RT_BROKER_ACK_MS. RabbitMQ needs no time */
};

struct rt_broker_kind {
    const char *const *schemes; /* "amqp", "amqps", NULL */
    const char *const *params;  /* of the URL, NULL at the end */
    /* Connects, and checks what can be checked: an exchange or a stream that the URL names. ROTA_UNREACHABLE: try again
     * later; ROTA_AUTH, ROTA_INVALID, ROTA_UNSUPPORTED (no client library): a person is needed. ERRMSG has the line,
     * never with a secret in it. */
    int (*open)(struct rt_broker **out, const struct rt_url *url,
                const struct rt_broker_options *opts, int64_t deadline, char *errmsg, size_t size);
    void (*close)(struct rt_broker *b);
    /* Publishes all in their order and waits to learn what becomes of each. SENT has N elements, and so has WHY: set
     * for the REFUSED and the FULL ones, valid until the next call. 0; ROTA_BUSY: the broker takes nothing for now;
     * ROTA_UNREACHABLE: the connection is of no more use: close it. With any of these some may be CONFIRMED or
     * REFUSED. */
    int (*publish)(struct rt_broker *b, const struct rt_message *messages, size_t n,
                   int64_t deadline, enum rt_sent *sent, const char **why);
    /* Each message of SOURCE (queue; STREAM or STREAM/SUBJECT; stream) is delivered to one member of GROUP, which has
     * at most AHEAD unanswered: with 1 they come in order, whoever dies. (RabbitMQ: AHEAD for each member.)
     * ROTA_INVALID, ROTA_AUTH: there is no such source, or it is not for us. Redis makes a stream that is missing; then
     * errmsg says so, with 0. */
    int (*subscribe)(struct rt_broker *b, const char *source, const char *group, uint32_t ahead);
    /* The next message, valid until it is answered; ROTA_BUSY: none came by the deadline. */
    int (*next)(struct rt_broker *b, int64_t deadline, struct rt_message *out, uint64_t *token);
    int (*ack)(struct rt_broker *b,
               uint64_t token); /* never again, as far as the broker can tell */
    int (*back)(struct rt_broker *b, uint64_t token); /* to anybody, later */
    /* Gives it up: this group does not get it again. RabbitMQ: the queue's dead-letter exchange has it, and without one
     * it is gone; NATS, Redis: the stream still has it. */
    int (*leave)(struct rt_broker *b, uint64_t token);
    /* Says that work on it goes on, and keeps the connection alive: called at least every third of ack_ms. In vain if
     * somebody else has it by now, which shows when it is answered. */
    int (*keep)(struct rt_broker *b, uint64_t token);
    const char *(*errmsg)(
        const struct rt_broker *b);                /* what the last call that failed had to say */
    size_t (*body_max)(const struct rt_broker *b); /* 0: not known */
};

extern const struct rt_broker_kind rt_broker_rabbitmq, rt_broker_nats, rt_broker_redis;

int64_t rt_relay_now(void); /* CLOCK_MONOTONIC in ns: the clock of deadlines */

/* Others may publish ids that contain zero bytes, and two of them would look alike: such a byte becomes 1, which no
 * inbox takes. */
void rt_broker_see_id(char *id, size_t size);

/* The kind for a URL's scheme; NULL: none has it, or it was not built in. */
const struct rt_broker_kind *rt_broker_find(const char *scheme);
/* Reads TEXT, and finds its kind. 0, or an error and its line; then there is nothing to free. */
int rt_broker_read(const char *text, struct rt_url *url, const struct rt_broker_kind **kind,
                   char *errmsg, size_t size);

#endif
