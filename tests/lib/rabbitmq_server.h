/* SPDX-License-Identifier: Apache-2.0 */
/* Real RabbitMQ for tests: one node with an epmd of its own, so that nothing of Erlang outlives the test. As servers.h.
 * User guest, password guest. */
#ifndef RT_RABBITMQ_SERVER_H
#define RT_RABBITMQ_SERVER_H

#include "certs.h"
#include "servers.h"

struct rt_rabbitmq_options { /* all zero: plain */
    bool tls;                /* its port speaks TLS only, with certificates of r->certs */
    unsigned message_max;    /* bytes of a message; 0: the default */
};

struct rt_rabbitmq {
    struct rt_server server; /* its port: server.port */
    struct rt_server epmd;
    int dist_anchor;
    uint16_t dist_port;
    struct rt_certs certs;
    bool tls;
    unsigned message_max;
};

void rt_rabbitmq_start(struct rt_rabbitmq *r,
                       const struct rt_rabbitmq_options *opts); /* and waits until it serves */
/* Starts it again after rt_server_kill, and waits: same port, same data. */
void rt_rabbitmq_run(struct rt_rabbitmq *r);
void rt_rabbitmq_fini(struct rt_rabbitmq *r); /* a zeroed struct is legal */
/* Runs rabbitmqctl with ARGS (NULL-terminated): ends the test unless it succeeds. */
void rt_rabbitmq_ctl(struct rt_rabbitmq *r, const char *const *args);

#endif
