/* SPDX-License-Identifier: Apache-2.0 */
/* What consumer.c needs from a broker: consumer_rabbitmq.c, consumer_nats.c, consumer_redis.c. */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <stddef.h>

#define GROUP "mailer" /* the consumers: they share the events */

struct event {      /* valid until the next */
    const char *id; /* the same however often it comes */
    const void *body;
    size_t size;
};

/* Each returns 0, or -1 and a line was printed. User and password: $BROKER_USER, $BROKER_PASSWORD. */
int broker_open(const char *host, int port, const char *source);
int broker_next(struct event *e); /* waits */
int broker_ack(void);             /* what was taken last: never again */
int broker_back(void);            /* again, later */
void broker_close(void);

#endif
