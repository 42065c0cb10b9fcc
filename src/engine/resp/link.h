/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a Redis connection share: commands, replies, links, nodes. Its users know resp.h only. */
#ifndef RT_RESP_LINK_H
#define RT_RESP_LINK_H

#include "engine/resp/resp.h"

#define RT_RESP_VERSION_MAJOR 6
#define RT_RESP_VERSION_MINOR 2
#define RT_RESP_CLUSTER_MAJOR 7 /* sharded pub/sub */

/* ---- Commands (request.c) ---------------------------------------------------------------- */

/* What stands in a link's FIFO. */
enum rt_resp_what {
    RT_RESP_CALL,     /* a script of the user: its reply begins with its tag */
    RT_RESP_META,     /* a script of the greeting: tagged too */
    RT_RESP_ECHO,     /* its reply is its tag: confirms that all before it were in their place */
    RT_RESP_GREET,    /* a command of the greeting; `which`: enum rt_resp_greet */
    RT_RESP_ASIDE,    /* whose reply nobody needs: SCRIPT LOAD, ASKING, PING */
    RT_RESP_REPLICAS, /* WAIT: how many have it */
};

/* A command is put together in c->out: begin with the number of its words, add each. False: no
 * memory. */
bool rt_resp_command(struct rt_resp_conn *c, size_t words);
bool rt_resp_word(struct rt_resp_conn *c, const char *word, size_t size);
bool rt_resp_words(struct rt_resp_conn *c, const char *const *words, size_t n);
bool rt_resp_number(struct rt_resp_conn *c, uint64_t number);

/* An empty request for the FIFO. */
struct rt_resp_request *rt_resp_request_bare(uint8_t what, uint32_t which);
void rt_resp_request_free(struct rt_resp_request *rq);

/* c->ledger, whose entries are requests; one timer is to be reserved. */
void rt_resp_ledger_open(struct rt_resp_conn *c);
void rt_resp_ledger_close(struct rt_resp_conn *c); /* all go without a word */
/* RQ is a call whose owner waits. */
static inline bool rt_resp_is_open(const struct rt_resp_request *rq)
{
    return rq->entry.next != NULL;
}
/* Hands up the answer to RQ, if it is open; errmsg is set already. RQ is not freed. */
void rt_resp_answer(struct rt_resp_conn *c, struct rt_resp_request *rq, int err, int status,
                    const redisReply *reply);

/* ---- Replies (reply.c) -------------------------------------------------------------------- */

#define RT_RESP_REPLY_MAX (16u << 20) /* bytes of one reply that wait to be read */
#define RT_RESP_LINE_MAX (64u << 10)  /* bytes without an end of line */
#define RT_RESP_ARRAY_MAX 1000000
#define RT_RESP_ARENA_MAX (64u << 20)

/* A reader whose replies live in an arena, until the next reply is read. */
int rt_resp_reader_open(struct rt_resp_link *l);
void rt_resp_reader_close(struct rt_resp_link *l);
/* The next whole reply of what was fed, or NULL: there is none. ROTA_PROTOCOL: it is not RESP, or too
 * large, as *WHY says; ROTA_NOMEM. */
int rt_resp_reader_next(struct rt_resp_link *l, redisReply **reply, const char **why);

/* What an error reply means for the request. */
enum rt_resp_class {
    RT_RESP_FINAL,    /* no effect (but see rt_resp_half_done); no use asking again */
    RT_RESP_SICK,     /* no effect, this server will not do it now */
    RT_RESP_NOSCRIPT, /* no effect: send the whole text */
    RT_RESP_MOVED,
};
enum rt_resp_class rt_resp_classify(const char *error);

/* The ROTA_* of a FINAL error, with one line in OUT about it that names the server. */
int rt_resp_explain(const struct rt_resp_link *l, const char *error, char *out, size_t size);

/* Whether the script that ended with ERROR may have written before. */
bool rt_resp_half_done(const struct rt_resp_conn *c, const char *error);

/* TEXT made fit for a line: printable, and without our password. */
void rt_resp_clean(const struct rt_resp_conn *c, const char *text, char *out, size_t size);

/* ---- What is on its way (fifo.c) ------------------------------------------------------------------ */

/* Sends what c->out has as RQ, which is freed if that fails. */
int rt_resp_link_put(struct rt_resp_link *l, struct rt_resp_request *rq);
/* Sends the command of N WORDS, which stands as WHAT and WHICH in the FIFO: 0, or as above. */
int rt_resp_link_say(struct rt_resp_link *l, enum rt_resp_what what, uint32_t which,
                     const char *const *words, size_t n);
/* Sends a script call: 0, ROTA_NOMEM, or ROTA_UNREACHABLE. Unless 0, RQ stays the caller's. */
int rt_resp_link_send(struct rt_resp_link *l, struct rt_resp_request *rq);
/* The head of the FIFO. */
struct rt_resp_request *rt_resp_link_pop(struct rt_resp_link *l);
/* Sends an ECHO that confirms what was sent before it; GREETING: that ends the first flight. */
int rt_resp_link_echo(struct rt_resp_link *l, bool greeting);
/* A reply has come. False: it cannot be the answer to what was asked. */
bool rt_resp_link_reply(struct rt_resp_link *l, const redisReply *reply);

/* ---- Links (link.c) ------------------------------------------------------------------------ */

void rt_resp_link_init(struct rt_resp_link *l, struct rt_resp_conn *c, struct rt_resp_node *node,
                       enum rt_resp_link_kind kind);
/* Dials if it is down, as soon as the back-off allows. */
void rt_resp_link_want(struct rt_resp_link *l);
/* Ends the connection: what is in flight ends with ROTA_UNKNOWN, and it is dialed again. From the
 * loop only. */
__attribute__((format(printf, 2, 3))) void rt_resp_link_cut(struct rt_resp_link *l,
                                                            const char *format, ...);
/* For good, and nobody is told; l->node is freed when its last stream is closed. */
void rt_resp_link_close(struct rt_resp_link *l);
/* Greeted: from now on requests go over it. */
void rt_resp_link_ready(struct rt_resp_link *l);
bool rt_resp_link_usable(const struct rt_resp_link *l);
/* How long it may owe an answer, in ns: while several may be the right one, each gets its share until one is found. */
int64_t rt_resp_link_patience(const struct rt_resp_link *l);
#define rt_resp_log(c, ...) rt_words_log((c)->base, __VA_ARGS__)

/* ---- Greeting (greet.c) --------------------------------------------------------------------- */

enum rt_resp_greet {
    RT_RESP_GREET_AUTH,
    RT_RESP_GREET_SELECT,
    RT_RESP_GREET_INFO,
    RT_RESP_GREET_CONFIG,
    RT_RESP_GREET_ACL,
    RT_RESP_GREET_SLOTS,
    RT_RESP_GREET_SENTINEL,
    RT_RESP_GREET_AHEAD, /* of the mark */
    RT_RESP_GREET_WAIT,
    RT_RESP_GREET_ECHO,
    RT_RESP_GREETS,
};

void rt_resp_greet_begin(struct rt_resp_link *l);
/* A reply to a GREET command: looked at, but not believed before the ECHO behind it. */
bool rt_resp_greet_reply(struct rt_resp_link *l, uint32_t which, const redisReply *reply);
void rt_resp_greet_confirmed(struct rt_resp_link *l);
/* The reply to META, or (REPLY NULL) the error that it got. */
void rt_resp_greet_meta(struct rt_resp_link *l, const redisReply *reply, const char *error);
void rt_resp_greet_end(struct rt_resp_link *l); /* forgets a greeting under way */
/* Asks for the cluster's map again, over a link that is ready. */
void rt_resp_greet_refresh(struct rt_resp_link *l);
/* Sends AUTH, if there is a user or a password. */
int rt_resp_greet_auth(struct rt_resp_link *l);
/* Puts that command into c->out, which is to be wiped once it is sent. False: no memory. */
bool rt_resp_auth_words(struct rt_resp_conn *c);

/* The reply to ACL GETUSER default. (acl.c) */
enum rt_resp_replay rt_resp_acl_replay(const redisReply *reply);

struct rt_resp_map; /* cluster.c */

/* ---- Nodes (node.c) --------------------------------------------------------------------------- */

struct rt_resp_node *rt_resp_node_new(struct rt_resp_conn *c, const char *host, uint16_t port);
/* Before it is dialed again: it is somewhere else now. */
void rt_resp_node_move(const struct rt_resp_conn *c, struct rt_resp_node *node, const char *host,
                       uint16_t port);
/* Cuts its links: it is about to be somewhere else. */
void rt_resp_node_leave(struct rt_resp_node *node, const char *why);
/* Out of the list, links closed; requests in flight end with ROTA_UNKNOWN unless the conn is closing. */
void rt_resp_node_drop(struct rt_resp_conn *c, struct rt_resp_node *node);
void rt_resp_node_freed_stream(struct rt_resp_node *node); /* the last frees a gone node */
/* Dials the links that PLACE needs. */
void rt_resp_want_place(struct rt_resp_conn *c, uint32_t place);
/* Where to look after a work link was lost: the next seed, or the sentinels. */
void rt_resp_node_lost(struct rt_resp_link *l);
/* Makes COUNT places, all of NODE, unless they are there. False: no memory. */
bool rt_resp_lay(struct rt_resp_conn *c, uint32_t count, struct rt_resp_node *node);
/* The greeting has told what the server is, and its MAP if it is a cluster. False: told why not, and L is cut. */
bool rt_resp_topology(struct rt_resp_link *l, const struct rt_resp_map *map);

/* The greeting is over: whoever waited is served. */
void rt_resp_node_ready(struct rt_resp_link *l);

/* ---- Cluster (cluster.c) -------------------------------------------------------------------------- */

/* CLUSTER SLOTS as a map in *OUT, whose former content is freed; NULL: no memory. False: it is no map. */
bool rt_resp_map_read(struct rt_resp_link *l, const redisReply *reply, struct rt_resp_map **out);
void rt_resp_map_free(struct rt_resp_map *map);
/* Places go to their nodes; nodes without any are dropped, but not that of L. False: no memory. */
bool rt_resp_map_apply(struct rt_resp_link *l, const struct rt_resp_map *map);
void rt_resp_cluster_lost(struct rt_resp_link *l);
/* Whether NODE has a place, or requests of ours. */
bool rt_resp_node_needed(const struct rt_resp_conn *c, const struct rt_resp_node *node);
/* RQ got MOVED or ASK from L: takes over where its place is. (cluster.c) */
void rt_resp_cluster_moved(struct rt_resp_link *l, struct rt_resp_request *rq);

/* The map may have changed: asks for it soon. */
void rt_resp_cluster_refresh(struct rt_resp_conn *c);

/* ---- Sentinel (sentinel.c) -------------------------------------------------------------------- */

int rt_resp_sentinel_open(struct rt_resp_conn *c);
/* Asks where the primary is, at the earliest at NOT_BEFORE. */
void rt_resp_sentinel_ask(struct rt_resp_conn *c, int64_t not_before);
void rt_resp_sentinel_up(struct rt_resp_link *l);
bool rt_resp_sentinel_reply(struct rt_resp_link *l, const redisReply *reply);
void rt_resp_sentinel_lost(struct rt_resp_link *l);

/* ---- Replicas (wait.c) -------------------------------------------------------------------------- */

void rt_resp_wait_ready(struct rt_resp_link *l);
void rt_resp_wait_reply(struct rt_resp_link *l, long long replicas);
/* The server will not do it: whoever waits is told ERR, which is for good, and WHY. */
void rt_resp_wait_refused(struct rt_resp_link *l, int err, const char *why);
void rt_resp_wait_lost(struct rt_resp_link *l);
/* The work link is lost, and with its server perhaps what was granted over it: nobody who waits is told yes
 * any more, over this connection or the next. */
void rt_resp_wait_drop(struct rt_resp_link *l);
void rt_resp_wait_tick(struct rt_resp_link *l, int64_t now);

/* ---- Pushes (push.c) --------------------------------------------------------------------------- */

int rt_resp_push_open(struct rt_resp_conn *c);
void rt_resp_push_close(struct rt_resp_conn *c);
void rt_resp_push_up(struct rt_resp_link *l);
void rt_resp_push_catch_up(struct rt_resp_link *l); /* subscribes what its node should have */
bool rt_resp_push_reply(struct rt_resp_link *l, const redisReply *reply);
void rt_resp_push_lost(struct rt_resp_link *l);
/* Whether NODE's push link has anything to listen to. */
bool rt_resp_push_wanted(const struct rt_resp_conn *c, const struct rt_resp_node *node);
/* Now and then: whether the other end is still there. */
void rt_resp_push_tick(struct rt_resp_link *l, int64_t now);

#endif
