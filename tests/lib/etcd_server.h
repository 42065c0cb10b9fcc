/* SPDX-License-Identifier: Apache-2.0 */
/* Real etcd for tests: one node or several, plain or with TLS, with users.
 *
 * As servers.h: for the main thread, gone with the test, aborts when something is unavailable. Nodes
 * are killed, stopped and started again by rt_server_* on node[i].server; rt_etcds_run starts one again
 * and waits for it. Commanded by etcdctl, as its root user if there are users. */
#ifndef RT_ETCD_SERVER_H
#define RT_ETCD_SERVER_H

#include "certs.h"
#include "servers.h"

#define RT_ETCDS_MAX 5
#define RT_ETCDS_PREFIX "rota-" /* the user may touch nothing else */

struct rt_etcds_options {   /* all zero: plain, everybody may do everything */
    bool tls;               /* clients' ports speak TLS only, with certificates of e->certs */
    bool tls_clients;       /* and ask the client for one */
    bool user;              /* authentication is on: a user "rota" limited to RT_ETCDS_PREFIX */
    const char *cert, *key; /* other than certs.server_* */
    const char *extra[8];   /* more arguments of every node */
};

struct rt_etcds {
    struct {
        struct rt_server server; /* its clients' port: server.port */
        int peer_anchor;
        uint16_t peer_port;
    } node[RT_ETCDS_MAX];
    size_t n;
    struct rt_certs certs; /* with tls */
    bool tls, tls_clients, user;
    long compacted;          /* up to this revision */
    char password[40];       /* of "rota" */
    char password_file[300]; /* holds it, for ?password_file= */
    char root_password[40];
};

/* N nodes (1 to RT_ETCDS_MAX), started, with a leader. OPTS may be NULL; copied. */
void rt_etcds_start(struct rt_etcds *e, size_t n, const struct rt_etcds_options *opts);
void rt_etcds_fini(struct rt_etcds *e); /* a zeroed struct is legal */

/* Starts node I again and waits until it serves: same ports, same folder. Legal if it runs. */
void rt_etcds_run(struct rt_etcds *e, size_t i);

/* Runs etcdctl with ARGS (NULL-terminated) against node I, or with -1 against all. Its exit code; what it
 * printed, cut to SIZE, in OUT (may be NULL). */
int rt_etcds_ctl(struct rt_etcds *e, int i, char *out, size_t size, const char *const *args);
/* The same for its effect, against all: ends the test unless it succeeds. */
#define rt_etcds_must(e, ...) rt_etcds_must_do(e, (const char *const[]){__VA_ARGS__, NULL})
void rt_etcds_must_do(struct rt_etcds *e, const char *const *args);

/* Which node says that it leads; -1: none within LIMIT_MS. Nodes that do not run are not asked; do not
 * call this while one is stopped. */
int rt_etcds_leader(struct rt_etcds *e, unsigned limit_ms);
/* The same without asking node BUT: it is stopped. */
int rt_etcds_leader_but(struct rt_etcds *e, int but, unsigned limit_ms);
/* Throws away all history up to now. */
void rt_etcds_compact(struct rt_etcds *e);
/* How many keys begin with PREFIX, how many leases there are. */
long rt_etcds_keys(struct rt_etcds *e, const char *prefix);
long rt_etcds_leases(struct rt_etcds *e);

/* What node I counts under NAME in its metrics, whatever the labels, -1 if nothing; not with tls. */
double rt_etcds_metric(struct rt_etcds *e, size_t i, const char *name);
#define RT_ETCDS_WATCHERS "etcd_debugging_mvcc_watcher_total"

/* What Rota opens: etcd://127.0.0.1:port,127.0.0.1:port,... or etcds://localhost:port,...?ca=... with
 * user, password_file and prefix if there are users. PORTS: ports other than the nodes' own (proxies);
 * NULL: their own. The caller's to free. */
char *rt_etcds_url(const struct rt_etcds *e, const uint16_t *ports);

#endif
