/* SPDX-License-Identifier: Apache-2.0 */
/* A broker: where a relay publishes, and where a consumer takes messages from. One connection, for one thread; calls
 * wait, at most until a deadline of CLOCK_MONOTONIC in ns.
 *
 *   open ─▶ publish, publish, ... ─▶ close
 *        └▶ subscribe ─▶ next ─▶ keep, keep, ... ─▶ ack | back | leave ─▶ next ... ─▶ close
 *
 * What is lost: publish without a confirm is published again, by anybody, with the same id: a consumer may see a message
 * twice, and knows it by its id. An ack without an answer may not have been one: the message comes again. */
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
    RT_SENT_REFUSED,   /* it has not, and says why: no route, too long, no such stream */
};

struct rt_broker_options {
    const char *app; /* how the connection calls itself; NULL: rota-relay */
    uint32_t
        ack_ms; /* taken, and not answered for so long: it comes again; 0: RT_BROKER_ACK_MS. RabbitMQ needs no time */
};

struct rt_broker_kind {
    const char *const *schemes; /* "amqp", "amqps", NULL */
    const char *const *params;  /* of the URL, NULL at the end */
    /* Connects, and checks what can be checked: an exchange or a stream that the URL names. ROTA_UNREACHABLE: again
     * later; ROTA_AUTH, ROTA_INVALID, ROTA_UNSUPPORTED (no client library): a person is needed. ERRMSG has the line, never
     * with a secret in it. */
    int (*open)(struct rt_broker **out, const struct rt_url *url,
                const struct rt_broker_options *opts, int64_t deadline, char *errmsg, size_t size);
    void (*close)(struct rt_broker *b);
    /* Publishes all in their order and waits for what becomes of each. SENT has N, and so has WHY: of the REFUSED ones,
     * valid until the next call. 0; ROTA_BUSY: the broker takes nothing for now; ROTA_UNREACHABLE: the connection is of
     * no more use: close. With each of them some may be CONFIRMED or REFUSED. */
    int (*publish)(struct rt_broker *b, const struct rt_message *messages, size_t n,
                   int64_t deadline, enum rt_sent *sent, const char **why);
    /* What SOURCE has (queue; STREAM or STREAM/SUBJECT; stream) is delivered to somebody of GROUP, which has at most AHEAD
     * unanswered: with 1 it is in order, whoever dies. (RabbitMQ: each of the group has.) ROTA_INVALID, ROTA_AUTH: there is
     * no such source, or it is not for us. Redis makes a stream that is missing; then errmsg says so, with 0. */
    int (*subscribe)(struct rt_broker *b, const char *source, const char *group, uint32_t ahead);
    /* The next message, valid until it is answered; ROTA_BUSY: none until the deadline. */
    int (*next)(struct rt_broker *b, int64_t deadline, struct rt_message *out, uint64_t *token);
    int (*ack)(struct rt_broker *b,
               uint64_t token); /* never again, as far as the broker can tell */
    int (*back)(struct rt_broker *b, uint64_t token); /* to anybody, later */
    /* It is given up: this group is not given it again. RabbitMQ: the queue's dead-letter exchange has it, and without one
     * it is gone; NATS, Redis: the stream has it still. */
    int (*leave)(struct rt_broker *b, uint64_t token);
    /* It is worked at still, and so is the connection: called at least each third of ack_ms. In vain where somebody else has
     * it by now, which shows when it is answered. */
    int (*keep)(struct rt_broker *b, uint64_t token);
    const char *(*errmsg)(
        const struct rt_broker *b);                /* what the last call that failed had to say */
    size_t (*body_max)(const struct rt_broker *b); /* 0: not known */
};

extern const struct rt_broker_kind rt_broker_rabbitmq, rt_broker_nats, rt_broker_redis;

int64_t rt_relay_now(void); /* ns, of CLOCK_MONOTONIC: what deadlines are counted by */

/* The kind for a URL's scheme; NULL: none has it, or it was not built in. */
const struct rt_broker_kind *rt_broker_find(const char *scheme);
/* Reads TEXT, and finds its kind. 0, or an error and its line; then there is nothing to be let go. */
int rt_broker_read(const char *text, struct rt_url *url, const struct rt_broker_kind **kind,
                   char *errmsg, size_t size);

#endif
