/* SPDX-License-Identifier: Apache-2.0 */
/* A model ensemble of ZooKeeper, of one server or three, in virtual time.
 *
 *   engine -> net -> a server -> reads: what that server has done so far
 *                       ├─ writes, sync, sessions ──▶ the leader ── steps, in order ──▶ every server, in its own time
 *                       └─ its touch table ──▶ the leader, in answer to its pings (twice a tick)
 *
 * What goes from a server to the leader keeps its order, and so does what comes back. Sessions are the leader's: it
 * counts from the touches that have reached it, rounds up to its tick, and ends those it has not heard of. A server
 * that is lost takes its touch table with it, and what is on its way may get lost; a new leader counts anew for all.
 * Watches belong to a connection, at its server. A session that was resumed on another server is at home there: what
 * the old one still says is refused. A leader that was stopped handles what had already come before it looks at its
 * clock, or after. */
#ifndef SIM_ZOOKEEPER_SERVER_H
#define SIM_ZOOKEEPER_SERVER_H

#include "sim/net.h"
#include "sim/zookeeper/tree.h"

#define ZS_MEMBERS 3
#define ZS_TOUCHES 64
#define ZS_NOBODY UINT32_MAX

struct zs_conn;
struct zs_server;
struct zs_task;

struct zs_session { /* as all have agreed on; `expires`, `owner` are the leader's */
    uint64_t id;
    uint32_t timeout_ms;
    uint32_t owner; /* where it is at home; ZS_NOBODY: not known */
    int64_t expires;
    uint8_t password[16];
};

struct zs_member {
    struct zs_tree tree;
    size_t done;          /* steps of the log */
    int64_t down_until;   /* 0: it is up */
    int64_t frozen_until; /* is stopped; 0: it runs */
    bool deposed; /* stopped while it led; another leads by now, which it does not know ... */
    int64_t stale_until; /* ... until then; 0: it is still stopped */
    uint64_t touches[ZS_TOUCHES];
    size_t touch_count;
    int64_t up_at, back_at; /* when the last thing sent to the leader, and back, arrives */
};

struct zs_request { /* from its coming to its reply */
    struct zs_request *next;
    struct zs_conn *conn; /* NULL: gone */
    uint32_t refs, member;
    uint64_t session;
    int32_t xid, call;
    bool done;
    int32_t said;
    int64_t zxid;
    struct rt_jute_out reply;
    size_t n;
    uint8_t bytes[];
};

struct zs_server {
    struct sim_net net;  /* first */
    struct zs_tree head; /* what all have agreed on */
    struct zs_step *log;
    size_t log_count, log_room;
    struct zs_session *sessions;
    size_t session_count, session_room;
    struct zs_member members[ZS_MEMBERS];
    uint32_t member_count, leader;
    uint32_t epoch, counter;
    int64_t leaderless_until; /* 0: there is a leader */
    int64_t ping_at, phase;
    int64_t ping_due;     /* by the clock of the leader, which goes on while it is stopped */
    int64_t behind_until; /* something between servers is on its way until then */
    uint32_t tick_ms;
    int32_t clock_ppm; /* of leaders, for sessions */
    struct zs_task *tasks;
    uint64_t version; /* counts the changes */
    bool flooded;     /* a client asks, and asks, and asks */
    /* Whether somebody waits at C, since before ZXID, in the line of the ticket PATH. */
    bool (*waits)(struct zs_server *s, const struct sim_conn *c, const char *path, int64_t zxid);
    /* One more than allowed was told of the deletion of PATH. */
    void (*herd)(struct zs_server *s, const struct zs_step *step, const char *path);
    /* A request has come, with this CALL and PATH; may be NULL. */
    void (*asked)(struct zs_server *s, const struct sim_conn *c, int32_t call, struct rt_text path);
    /* After every step; BY: the call, or 0 if a session has ended by time. May be NULL. */
    void (*after)(struct zs_server *s, struct zs_step *step, int32_t by);
    void *user;
};

struct zs_conn {
    struct sim_conn base; /* first */
    struct zs_server *server;
    uint32_t member;
    uint64_t session; /* 0: it was not greeted */
    bool asked_session;
    struct zs_request *first, **last;
    uint8_t *in;
    size_t in_size, in_room;
    struct {
        bool children;
        char *path;
        int64_t zxid; /* when it was set */
    } * watches;
    size_t watch_count, watch_room;
    int64_t woken_by; /* the step that it was last told of as a waiter */
    uint32_t asked;   /* so many requests ... */
    int64_t asked_at; /* ... since then */
};

/* MEMBERS: 1 or 3. */
void zs_server_open(struct zs_server *s, uint64_t seed, uint32_t members, uint32_t tick_ms);
void zs_server_close(struct zs_server *s);
/* Does what is due by NOW; when the next thing will be. */
void zs_server_run(struct zs_server *s, int64_t now);
int64_t zs_server_next(const struct zs_server *s);
struct zs_session *zs_session_find(const struct zs_server *s, uint64_t id);
int64_t zs_ms(const struct zs_server *s); /* their wall clocks */

/* ---- What befalls it ---------------------------------------------------- */

void zs_server_end(struct zs_server *s, uint64_t session); /* by hand, or by time */
/* There is no leader until UNTIL; the last one is stopped until FROZEN_UNTIL, or, if that is 0, gone for as long. */
void zs_server_lose_leader(struct zs_server *s, int64_t until, int64_t frozen_until);
void zs_server_take_down(struct zs_server *s, uint32_t member, int64_t until);
void zs_server_freeze(struct zs_server *s, uint32_t member, int64_t until);
/* What the leader tells MEMBER, or hears from it, is on its way until UNTIL. */
void zs_server_fall_behind(struct zs_server *s, uint32_t member, bool up, int64_t until);
void zs_server_reap(struct zs_server *s); /* containers without children */
void zs_server_heal(struct zs_server *s);

/* ---- Between the files of the server ------------------------------------ */

extern const struct sim_host zs_host;

struct zs_conn *zs_conn_of(struct sim_conn *c);
void zs_request_drop(struct zs_request *r);
/* R goes to the leader. */
void zs_forward(struct zs_server *s, struct zs_request *r);
/* R, which was forwarded, is done, and MEMBER has done all steps before it. */
void zs_answered(struct zs_request *r);
/* Says what has come meanwhile, when a server goes on. */
void zs_conn_resume(struct zs_conn *c);
/* The node at PATH in MEMBER's tree has changed like this, by CHANGE of STEP. */
void zs_fire(struct zs_server *s, uint32_t member, struct zs_step *step,
             const struct zs_change *change, enum rt_zk_event event, const char *path);
void zs_put_stat(struct rt_jute_out *o, const struct zs_node *node);
void zs_touch(struct zs_server *s, uint32_t member, uint64_t session);

struct zs_step *zs_step_new(struct zs_server *s); /* in the log, with the next zxid */
void zs_step_drop(struct zs_server *s);           /* the last: it came to nothing */
void zs_step_done(struct zs_server *s, int32_t by);
/* Lets the leader do what R asks. */
void zs_lead(struct zs_server *s, struct zs_request *r);
int64_t zs_last_zxid(const struct zs_server *s, size_t done);
void zs_touch_leader(struct zs_server *s, struct zs_session *session);

#endif
