/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the links share: commands, replies, links, nodes. Ops know redis.h only. */
#ifndef RT_REDIS_LINK_H
#define RT_REDIS_LINK_H

#include "engine/redis/redis.h"

#define RT_REDIS_VERSION_MAJOR 6
#define RT_REDIS_VERSION_MINOR 2
#define RT_REDIS_CLUSTER_MAJOR 7 /* sharded pub/sub */

/* ---- Commands (request.c) ---------------------------------------------------------------- */

/* What stands in a link's FIFO. */
enum rt_redis_what {
    RT_REDIS_CALL,     /* a script of the ops side: its reply begins with its tag */
    RT_REDIS_META,     /* a script of the greeting: tagged too */
    RT_REDIS_ECHO,     /* its reply is its tag: confirms that all before it were in their place */
    RT_REDIS_GREET,    /* a command of the greeting; `extra`: enum rt_redis_greet */
    RT_REDIS_ASIDE,    /* whose reply nobody needs: SCRIPT LOAD, ASKING, PING */
    RT_REDIS_REPLICAS, /* WAIT: how many have it */
};

/* A command is put together in c->out: begin with the number of its words, add each. False: no
 * memory. */
bool rt_redis_command(struct rt_redis_conn *c, size_t words);
bool rt_redis_word(struct rt_redis_conn *c, const char *word, size_t size);
bool rt_redis_words(struct rt_redis_conn *c, const char *const *words, size_t n);
bool rt_redis_number(struct rt_redis_conn *c, uint64_t number);

/* An empty request for the FIFO. */
struct rt_redis_request *rt_redis_request_bare(uint8_t what, uint32_t extra);
void rt_redis_request_free(struct rt_redis_request *rq);

/* Into the queue, by its order. */
void rt_redis_enqueue(struct rt_redis_conn *c, struct rt_redis_request *rq);
/* To where its room is now, or into the queue. */
void rt_redis_resend(struct rt_redis_conn *c, struct rt_redis_request *rq);
/* Sends what waits and can go now. */
void rt_redis_flush(struct rt_redis_conn *c);
/* Ends all that waits, with ERR and TEXT. */
void rt_redis_refuse(struct rt_redis_conn *c, int err, const char *text);
void rt_redis_deadline_fire(struct rt_timer_call *call, int64_t now);
/* Hands RQ's end up, with errmsg set before; RQ is not freed. */
void rt_redis_answer(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                     const redisReply *reply);

/* ---- Replies (reply.c) -------------------------------------------------------------------- */

#define RT_REDIS_REPLY_MAX (16u << 20) /* bytes of one reply that wait to be read */
#define RT_REDIS_LINE_MAX (64u << 10)  /* bytes without an end of line */
#define RT_REDIS_ARRAY_MAX 1000000
#define RT_REDIS_ARENA_MAX (64u << 20)

/* A reader whose replies live in an arena, until the next reply is read. */
int rt_redis_reader_open(struct rt_redis_link *l);
void rt_redis_reader_close(struct rt_redis_link *l);
/* The next whole reply of what was fed, or NULL: there is none. ROTA_PROTOCOL: it is not RESP, or too
 * large, as *WHY says; ROTA_NOMEM. */
int rt_redis_reader_next(struct rt_redis_link *l, redisReply **reply, const char **why);

/* What an error reply means for the request. */
enum rt_redis_class {
    RT_REDIS_FINAL,    /* no effect (but see rt_redis_half_done), and asked again no better */
    RT_REDIS_SICK,     /* no effect, this server will not do it now */
    RT_REDIS_NOSCRIPT, /* no effect: with the whole text */
    RT_REDIS_MOVED,
};
enum rt_redis_class rt_redis_classify(const char *error);

/* The ROTA_* of a FINAL error, with one line in OUT about it that names the server. */
int rt_redis_explain(const struct rt_redis_link *l, const char *error, char *out, size_t size);

/* Whether the script that ended with ERROR may have written before. */
bool rt_redis_half_done(const char *error);

/* TEXT for a line: printable, and without our password. */
void rt_redis_clean(const struct rt_redis_conn *c, const char *text, char *out, size_t size);

/* ---- What is on its way (fifo.c) ------------------------------------------------------------------ */

/* Sends what c->out has as RQ, which is freed if that cannot be. */
int rt_redis_link_put(struct rt_redis_link *l, struct rt_redis_request *rq);
/* Sends a script call; false: RQ waits in the queue. */
bool rt_redis_link_send(struct rt_redis_link *l, struct rt_redis_request *rq);
/* The head of the FIFO. */
struct rt_redis_request *rt_redis_link_pop(struct rt_redis_link *l);
/* Sends an ECHO that confirms what was sent before it; GREETING: that ends the first flight. */
int rt_redis_link_echo(struct rt_redis_link *l, bool greeting);
/* A reply has come. False: it cannot be the answer to what was asked. */
bool rt_redis_link_reply(struct rt_redis_link *l, const redisReply *reply);

/* ---- Links (link.c) ------------------------------------------------------------------------ */

void rt_redis_link_init(struct rt_redis_link *l, struct rt_redis_conn *c,
                        struct rt_redis_node *node, enum rt_redis_link_kind kind);
/* Dials if it is down, as soon as the back-off allows. */
void rt_redis_link_want(struct rt_redis_link *l);
/* Ends the connection: what is in flight ends with ROTA_UNKNOWN, and it is dialed again. From the
 * loop only. */
__attribute__((format(printf, 2, 3))) void rt_redis_link_cut(struct rt_redis_link *l,
                                                             const char *format, ...);
/* For good, without a word; l->node is freed when its last stream is closed. */
void rt_redis_link_close(struct rt_redis_link *l);
/* Greeted: from now on requests go over it. */
void rt_redis_link_ready(struct rt_redis_link *l);
bool rt_redis_link_usable(const struct rt_redis_link *l);
/* How long a reply may be owed. */
int64_t rt_redis_patience(const struct rt_redis_conn *c);
/* "host:port", or the socket's path. */
const char *rt_redis_at(const struct rt_redis_link *l);
#define rt_redis_log(c, ...) rt_words_log(&(c)->base, __VA_ARGS__)

/* ---- Greeting (greet.c) --------------------------------------------------------------------- */

enum rt_redis_greet {
    RT_REDIS_GREET_AUTH,
    RT_REDIS_GREET_SELECT,
    RT_REDIS_GREET_INFO,
    RT_REDIS_GREET_CONFIG,
    RT_REDIS_GREET_ACL,
    RT_REDIS_GREET_SLOTS,
    RT_REDIS_GREET_SENTINEL,
    RT_REDIS_GREET_PUBLISH,
    RT_REDIS_GREET_WAIT,
    RT_REDIS_GREET_ECHO,
    RT_REDIS_GREETS,
};

void rt_redis_greet_begin(struct rt_redis_link *l);
/* A reply to a GREET command: looked at, but not believed before the ECHO behind it. */
bool rt_redis_greet_reply(struct rt_redis_link *l, uint32_t which, const redisReply *reply);
void rt_redis_greet_confirmed(struct rt_redis_link *l);
/* The reply to META, or (REPLY NULL) the error that it got. */
void rt_redis_greet_meta(struct rt_redis_link *l, const redisReply *reply, const char *error);
void rt_redis_greet_end(struct rt_redis_link *l); /* forgets a greeting under way */
/* Asks for the cluster's map again, over a link that is ready. */
void rt_redis_greet_refresh(struct rt_redis_link *l);
/* Appends AUTH to what L is sent, if there is a user or a password. */
int rt_redis_greet_auth(struct rt_redis_link *l);

/* No link can be had, for a reason that trying again will not mend: whoever waits is told; of a link
 * for WAIT, whoever waits for replicas. Cuts L. */
__attribute__((format(printf, 3, 4))) void rt_redis_fatal(struct rt_redis_link *l, int err,
                                                          const char *format, ...);

/* The reply to ACL GETUSER default. (acl.c) */
enum rt_redis_replay rt_redis_acl_replay(const redisReply *reply);

struct rt_redis_map; /* cluster.c */

/* ---- Nodes (node.c) --------------------------------------------------------------------------- */

struct rt_redis_node *rt_redis_node_new(struct rt_redis_conn *c, const char *host, uint16_t port);
/* Before it is dialed again: it is somewhere else now. */
void rt_redis_node_move(const struct rt_redis_conn *c, struct rt_redis_node *node, const char *host,
                        uint16_t port);
/* Cuts its links: it is about to be somewhere else. */
void rt_redis_node_leave(struct rt_redis_node *node, const char *why);
/* Out of the list, links closed; requests in flight end with ROTA_UNKNOWN unless the conn is closing. */
void rt_redis_node_drop(struct rt_redis_conn *c, struct rt_redis_node *node);
void rt_redis_node_freed_stream(struct rt_redis_node *node); /* the last frees a gone node */
/* Has the links dialed that ROOM needs. */
void rt_redis_want_room(struct rt_redis_conn *c, uint32_t room);
/* Where to look after a work link was lost: the next seed, or the sentinels. */
void rt_redis_node_lost(struct rt_redis_link *l);
/* The greeting has told what the server is, and of a cluster its MAP. False: told, and L is cut. */
bool rt_redis_topology(struct rt_redis_link *l, const struct rt_redis_map *map);

/* The greeting is over: whoever waited is served. */
void rt_redis_node_ready(struct rt_redis_link *l);
/* Finds whether strict can be promised, with what is known of the nodes. (redis.c) */
void rt_redis_judge(struct rt_redis_conn *c);
/* ---- Cluster (cluster.c) -------------------------------------------------------------------------- */

/* CLUSTER SLOTS as a map in *OUT, whose former content is freed; NULL: no memory. False: it is none. */
bool rt_redis_map_read(struct rt_redis_link *l, const redisReply *reply, struct rt_redis_map **out);
void rt_redis_map_free(struct rt_redis_map *map);
/* Rooms go to their nodes; nodes without any are dropped, but not that of L. False: no memory. */
bool rt_redis_map_apply(struct rt_redis_link *l, const struct rt_redis_map *map);
void rt_redis_cluster_lost(struct rt_redis_link *l);
/* Whether NODE has a room, or requests of ours. */
bool rt_redis_node_needed(const struct rt_redis_conn *c, const struct rt_redis_node *node);
/* RQ got MOVED or ASK from L: takes over where its room is. (cluster.c) */
void rt_redis_cluster_moved(struct rt_redis_link *l, struct rt_redis_request *rq);

/* The map may have changed: asks for it soon. */
void rt_redis_cluster_refresh(struct rt_redis_conn *c);

/* ---- Sentinel (sentinel.c) -------------------------------------------------------------------- */

int rt_redis_sentinel_open(struct rt_redis_conn *c);
/* Asks where the primary is, at the earliest at NOT_BEFORE. */
void rt_redis_sentinel_ask(struct rt_redis_conn *c, int64_t not_before);
void rt_redis_sentinel_up(struct rt_redis_link *l);
bool rt_redis_sentinel_reply(struct rt_redis_link *l, const redisReply *reply);
void rt_redis_sentinel_lost(struct rt_redis_link *l);

/* ---- Replicas (wait.c) -------------------------------------------------------------------------- */

void rt_redis_wait_ready(struct rt_redis_link *l);
void rt_redis_wait_reply(struct rt_redis_link *l, long long replicas);
/* The server will not do it: whoever waits is told ERR, which is for good, and WHY. */
void rt_redis_wait_refused(struct rt_redis_link *l, int err, const char *why);
void rt_redis_wait_lost(struct rt_redis_link *l);
/* The link for work is lost, and what was granted over it may be, with its server: nobody who waits is told yes
 * any more, over this connection or the next. */
void rt_redis_wait_drop(struct rt_redis_link *l);
void rt_redis_wait_tick(struct rt_redis_link *l, int64_t now);

/* ---- Pushes (push.c) --------------------------------------------------------------------------- */

int rt_redis_push_open(struct rt_redis_conn *c);
void rt_redis_push_close(struct rt_redis_conn *c);
void rt_redis_push_up(struct rt_redis_link *l);
void rt_redis_push_catch_up(struct rt_redis_link *l); /* subscribes what its node should have */
bool rt_redis_push_reply(struct rt_redis_link *l, const redisReply *reply);
void rt_redis_push_lost(struct rt_redis_link *l);
/* Whether NODE's push link has anything to listen to. */
bool rt_redis_push_wanted(const struct rt_redis_conn *c, const struct rt_redis_node *node);
/* Now and then: whether the other end is still there. */
void rt_redis_push_tick(struct rt_redis_link *l, int64_t now);

#endif
