/* SPDX-License-Identifier: Apache-2.0 */
/* Real ZooKeeper for tests: one server or several, plain or with TLS, with short ticks and a small heap.
 *
 * As servers.h: for the main thread, gone with the test, aborts when something is unavailable. Servers are killed,
 * stopped and started again by rt_server_* on node[i].server; rt_zks_run starts one again and waits for it. */
#ifndef RT_ZOOKEEPER_SERVER_H
#define RT_ZOOKEEPER_SERVER_H

#include "certs.h"
#include "servers.h"

#define RT_ZKS_MAX 5
#define RT_ZKS_TICK_MS 200
#define RT_ZKS_ROOT "/rota"

struct rt_zks_options {   /* all zero: plain, everybody may do everything */
    bool tls;             /* clients' ports speak TLS only, with certificates of z->certs */
    bool tls_clients;     /* and ask the client for one */
    bool user;            /* URLs have a user, who makes all nodes */
    const char *extra[8]; /* more lines of the configuration */
    const char *java[4];  /* more arguments of Java */
};

struct rt_zks {
    struct {
        struct rt_server server; /* its clients' port: server.port */
        int anchors[3];
        uint16_t ports[3]; /* two of the ensemble; for words, where clients speak TLS */
    } node[RT_ZKS_MAX];
    size_t n;
    struct rt_certs certs;
    bool tls, tls_clients, user;
    char password_file[320];
};

/* N servers (1 to RT_ZKS_MAX), started and serving. OPTS may be NULL. */
void rt_zks_start(struct rt_zks *z, size_t n, const struct rt_zks_options *opts);
void rt_zks_fini(struct rt_zks *z); /* a zeroed struct is legal */
/* Starts server I again and waits until it serves. Legal if it runs. */
void rt_zks_run(struct rt_zks *z, size_t i);
/* What server I says to one of the four letter words, cut to SIZE; "" if it does not answer. */
void rt_zks_say(const struct rt_zks *z, size_t i, const char *word, char *out, size_t size);
/* What server I counts under NAME in `mntr`; 0 if it does not say. */
long rt_zks_count(const struct rt_zks *z, size_t i, const char *name);
/* Which server leads (or is alone); -1: none within LIMIT_MS. Servers that do not run are not asked. */
int rt_zks_leader(struct rt_zks *z, unsigned limit_ms);
/* The same without asking server BUT: it is stopped. */
int rt_zks_leader_but(struct rt_zks *z, int but, unsigned limit_ms);

/* What Rota opens: zk://127.0.0.1:port,...RT_ZKS_ROOT or zks://localhost:port,... PORTS: ports other than the servers'
 * own (proxies); NULL: their own. The caller's to free. */
char *rt_zks_url(const struct rt_zks *z, const uint16_t *ports);

#endif
