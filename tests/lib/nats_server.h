/* SPDX-License-Identifier: Apache-2.0 */
/* Real NATS with JetStream for tests: one node. As servers.h. */
#ifndef RT_NATS_SERVER_H
#define RT_NATS_SERVER_H

#include "certs.h"
#include "servers.h"

struct rt_nats_options { /* all zero: plain, everybody may do everything */
    bool tls;            /* with certificates of n->certs */
    const char *user, *password;
};

struct rt_nats_server {
    struct rt_server server; /* its port: server.port */
    struct rt_certs certs;
};

void rt_nats_start(struct rt_nats_server *n,
                   const struct rt_nats_options *opts); /* and waits until it serves */
/* Starts it again after rt_server_kill, and waits: same port, same data. */
void rt_nats_run(struct rt_nats_server *n);
void rt_nats_fini(struct rt_nats_server *n); /* a zeroed struct is legal */

#endif
