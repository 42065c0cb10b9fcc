/* SPDX-License-Identifier: Apache-2.0 */
/* Real Redis for tests: one node, a primary with replicas and sentinels, a cluster, five for Redlock.
 *
 * As servers.h: for the main thread, gone with the test, aborts when something is unavailable. Every node
 * also has a unix socket in its folder, over which rt_redis_do commands it, whatever its port speaks. */
#ifndef RT_REDIS_SERVER_H
#define RT_REDIS_SERVER_H

#include "certs.h"
#include "proxy.h"
#include "servers.h"

#include <hiredis/hiredis.h>

/* ---- One node ----------------------------------------------------------- */

enum rt_redis_keep { RT_REDIS_FORGETS, RT_REDIS_ALWAYS, RT_REDIS_EVERYSEC }; /* appendfsync */

/* What Rota needs, in the words of ACL SETUSER; docs/engines/redis.md says the same. */
#define RT_REDIS_RULES                                                                                    \
    "~rota:* &rota:* -@all +ping +echo +select +info +time +wait +eval +evalsha +script|load "            \
    "+config|get +acl|getuser +del +exists +hdel +hexists +hget +hgetall +hincrby +hkeys +hlen +hmget "   \
    "+hrandfield +hscan +hset +hsetnx +hvals +zadd +zcard +zcount +zpopmin +zrange +zrangebyscore +zrem " \
    "+zscore +publish +subscribe +unsubscribe +cluster|slots +asking +spublish +ssubscribe "              \
    "+sunsubscribe"

/* ... what Redlock needs: docs/engines/redlock.md. */
#define RT_REDLOCK_RULES                                                                             \
    "~* -@all +ping +echo +select +info +time +eval +evalsha +script|load +config|get +acl|getuser " \
    "+set +get +del +type +pttl +pexpire +scan"

struct rt_redis_options { /* all zero: keeps nothing, no password */
    enum rt_redis_keep keep;
    const char *password; /* of the default user */
    const char *user;     /* one more user, who may only do what user_rules say */
    const char *user_password;
    const char *user_rules; /* NULL: RT_REDIS_RULES. The default user then has a password too ... */
    const char *default_rules; /* ... or has these and none, and rt_redis_do is the user admin */
    bool tls;                  /* the port speaks TLS only, with certificates of node->certs */
    bool tls_clients;          /* and asks the client for one */
    const char *cert, *key;    /* other than certs.server_*; see rt_redis_recertify */
    const char *maxmemory, *policy;
    bool cluster;
    bool patient;           /* a cluster, Sentinels: nobody is dead within 15 s */
    uint16_t announce_port; /* what others are told: a proxy in front; 0: its own */
    const char *extra;      /* more lines of redis.conf */
};

struct rt_redis {
    struct rt_server server; /* its port: server.port */
    char socket[300];        /* the unix socket */
    char password[64];       /* of the default user, or of the user admin; "" none */
    bool has_admin;          /* the default user may do nothing */
    char user[32];           /* for URLs; "" the default one */
    char password_file[300]; /* holds the password of that user, for ?password_file=; "" none */
    struct rt_certs certs;   /* with tls */
    bool tls;
    int bus_anchor; /* of the cluster's bus */
    uint16_t bus_port, announce_port;
    redisContext *admin;
};

/* Does not start it: for callers that need the port first. OPTS may be NULL; copied. */
void rt_redis_init(struct rt_redis *node, const struct rt_redis_options *opts);
void rt_redis_run(struct rt_redis *node); /* starts it, waits until it answers and has loaded */
void rt_redis_start(struct rt_redis *node, const struct rt_redis_options *opts); /* both */
void rt_redis_fini(struct rt_redis *node);
/* kill -9; rt_redis_run starts it again: same port, same folder, same (rewritten) configuration. */
void rt_redis_kill(struct rt_redis *node);
/* Serves with another certificate from now on, e.g. certs.expired_*. */
void rt_redis_recertify(struct rt_redis *node, const char *cert, const char *key);

/* Runs one command (hiredis' formats) over the node's unix socket. The reply is the caller's; NULL: the
 * connection failed. */
redisReply *rt_redis_do(struct rt_redis *node, const char *format, ...);
/* The same for its effect: ends the test if the reply is an error. */
void rt_redis_must(struct rt_redis *node, const char *format, ...);
/* The same, if the reply is an integer or a string of digits; else ends the test. */
long long rt_redis_integer(struct rt_redis *node, const char *format, ...);
/* A field of INFO ("used_cpu_user"); "" if there is none. In a static buffer. */
const char *rt_redis_info(struct rt_redis *node, const char *section, const char *field);
/* One command on a new TCP connection without password; as rt_redis_do. */
redisReply *rt_redis_say(uint16_t port, const char *format, ...);

/* What Rota opens: redis://127.0.0.1:port/, or with tls rediss://localhost:port/?ca=...; with
 * password_file if there is one. PORT: one other than the node's own (a proxy); 0: its own. The caller's to
 * free. */
char *rt_redis_url(const struct rt_redis *node, uint16_t port);
char *rt_redis_unix_url(const struct rt_redis *node, const char *path); /* NULL: its own */

/* ---- One primary, two replicas, three sentinels ------------------------- */

#define RT_SENTINEL_NAME "mymaster"

struct rt_redis_sentinels {
    struct rt_redis node[3]; /* [0] is the primary at first */
    struct rt_redis sentinel[3];
    /* in front of node[i], or NULL; all go through it: clients, replicas, sentinels */
    struct rt_proxy *proxy[3];
};

/* PROXIED: with a proxy in front of every node. Ready: replicas in step, sentinels know each other. */
struct rt_redis_sentinels *rt_redis_sentinels_new(const struct rt_redis_options *opts, bool proxied,
                                                  uint64_t seed);
void rt_redis_sentinels_free(struct rt_redis_sentinels *s);
/* Waits until all sentinels name the same node and it says it is master; returns which one; -1: not in time. */
int rt_redis_sentinels_primary(struct rt_redis_sentinels *s, unsigned limit_ms);
/* Also waits until all other running nodes are its replicas, in step: ready for the next failover. */
int rt_redis_sentinels_settle(struct rt_redis_sentinels *s, unsigned limit_ms);
/* SENTINEL FAILOVER, and waits for the new primary. */
int rt_redis_sentinels_failover(struct rt_redis_sentinels *s, unsigned limit_ms);
/* kill -9 of the primary, and waits for the new one. Start the old one again with rt_redis_run. */
int rt_redis_sentinels_kill_primary(struct rt_redis_sentinels *s, unsigned limit_ms);
char *rt_redis_sentinels_url(
    const struct rt_redis_sentinels *s); /* redis://a,b,c/?sentinel=mymaster */

/* ---- The nodes of Redlock ----------------------------------------------- */

#define RT_REDLOCK_FIVE 5

struct rt_redis_redlock {
    struct rt_redis node[RT_REDLOCK_FIVE];
    struct rt_proxy *proxy[RT_REDLOCK_FIVE]; /* before node[i], or NULL */
};

struct rt_redis_redlock *rt_redis_redlock_new(const struct rt_redis_options *opts, bool proxied,
                                              uint64_t seed);
void rt_redis_redlock_free(struct rt_redis_redlock *r);
/* redlock://a,b,c,d,e/?PARAMS ("": none). With max_ttl=0 they count from their start. The caller's to free. */
char *rt_redis_redlock_url(const struct rt_redis_redlock *r, const char *params);

/* ---- A cluster of six --------------------------------------------------- */

#define RT_CLUSTER_SLOTS 16384

struct rt_redis_cluster {
    struct rt_redis node[6];   /* 0 to 2 have the slots at first, i + 3 is the replica of i */
    struct rt_proxy *proxy[6]; /* in front of node[i], or NULL; clients are told its port */
    char id[6][41];
};

struct rt_redis_cluster *rt_redis_cluster_new(const struct rt_redis_options *opts, bool proxied,
                                              uint64_t seed);
void rt_redis_cluster_free(struct rt_redis_cluster *c);
unsigned rt_redis_cluster_slot(struct rt_redis_cluster *c, const char *key);
/* Which node serves the slot, as node BY sees it; -1: none. */
int rt_redis_cluster_owner(struct rt_redis_cluster *c, int by, unsigned slot);
/* Moves the slot with its keys to node TO, a primary, while clients work. In three steps, for tests
 * that look in between: announced, keys moved (how many), decided. */
void rt_redis_cluster_move(struct rt_redis_cluster *c, unsigned slot, int to);
void rt_redis_cluster_move_begin(struct rt_redis_cluster *c, unsigned slot, int from, int to);
size_t rt_redis_cluster_move_keys(struct rt_redis_cluster *c, unsigned slot, int from, int to);
void rt_redis_cluster_move_end(struct rt_redis_cluster *c, unsigned slot, int from, int to);
/* Makes the replica take over its primary's slots (CLUSTER FAILOVER) and waits for it. */
bool rt_redis_cluster_failover(struct rt_redis_cluster *c, int replica, unsigned limit_ms);
/* Waits until every running node says cluster_state:ok. */
bool rt_redis_cluster_ok(struct rt_redis_cluster *c, unsigned limit_ms);
char *rt_redis_cluster_url(const struct rt_redis_cluster *c); /* two seeds */

#endif
