/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to one of several servers, whatever it speaks: dialed when something is wanted, greeted, watched, cut,
 * and then the next one; with the user and the certificates of its URL, and the ledger of what is asked over it.
 *
 *   DOWN ── rt_link_want ──▶ DIALING ── `up` ──▶ GREETING ── rt_link_greeted ──▶ READY
 *    ▲                          │                   │                             │
 *    ├── rt_link_cut: `lost`; the next server, after a pause once all were tried ─┤
 *    └── rt_link_fail: the same, and `failed`: dialed when something is wanted ◀──┘
 *
 * A server's trouble is told once (the log), not each time it fails in the same way. Serialised by its user; whatever
 * ends a connection is for turns of the loop only. */
#ifndef RT_LINK_H
#define RT_LINK_H

#include "engine/kit/dial.h"
#include "engine/kit/ledger.h"
#include "engine/kit/words.h"

#define RT_LINK_SAYS(n) __attribute__((format(printf, n, (n) + 1)))

struct rt_link;
struct rt_wire { /* one stream to one server: first in the engine's struct, zeroed. Its memory */
    /* lasts until the stream has closed, which may be later than the link */
    struct rt_stream stream;
    const struct rt_link_user *on;
    struct rt_link *link; /* NULL: it was let go */
    int64_t ready_at, heard_at;
    bool heard;   /* it has said anything at all */
    bool leaving; /* it says so itself: the next needs no pause */
};

struct rt_link_user {
    const char *who;    /* "etcd", for the log */
    const char *secure; /* the scheme with TLS: "etcds" */
    const char *alpn;   /* as of streams */
    const char *silent; /* why a server may close without a word; or NULL */
    uint16_t port, secure_port;
    size_t wire_size;
    void (*up)(struct rt_wire *w); /* connected: it is to be greeted */
    void (*data)(struct rt_wire *w, const char *bytes, size_t n);
    /* The timer (rt_link_timer) fired while there is a wire. False: there was nothing to do: a greeting took too
     * long. */
    bool (*tick)(struct rt_link *k, int64_t now);
    /* The wire is gone, and the next server is chosen: the ledger and all others are to be told. */
    void (*lost)(struct rt_link *k, bool was_ready, const char *why);
    void (*failed)(struct rt_link *k, int err,
                   const char *why);    /* ... and all that waits is refused */
    void (*dropped)(struct rt_wire *w); /* before its stream closes; or NULL */
    void (*freed)(struct rt_wire *w);   /* before its memory goes; or NULL */
};

struct rt_link { /* embedded in its user's struct; zeroed before it is opened */
    const struct rt_link_user *on;
    struct rt_conn *base;
    char *user, *password; /* NULL: none */
    struct rt_tls *tls;
    struct rt_dial_ring ring;
    bool secure, closing;
    bool outage; /* it is away, and that was told */
    enum rt_dial_state state;
    struct rt_wire *wire; /* NULL: DOWN */
    struct rt_timer_call timer;
    uint32_t failures; /* in a row, since something was answered */
    uint32_t refusals; /* of these, certificates, and peers that speak something else */
    uint32_t unheard;  /* servers that could not even be dialed since `trouble` */
    struct rt_dial_pause pause;
    uint64_t jitter;
    char trouble[256]; /* the last reason why something did not go well */
    struct rt_ledger ledger;
};

/* As URL says: hosts, user, TLS. BASE: loop, times (0: as usual), errmsg. Reserves its timers. Does not dial. 0; or
 * else nothing stays and errmsg says why. */
int rt_link_open(struct rt_link *k, struct rt_conn *base, const struct rt_url *url,
                 const struct rt_link_user *on, const struct rt_ledger_user *asks);
/* Gives everything back, and nobody is told; FREE gets what is in the ledger. */
void rt_link_close(struct rt_link *k, void (*free)(struct rt_ledger *l, struct rt_entry *e));
void rt_link_forked(struct rt_link *k); /* in a child: closes what is the parent's */

void rt_link_want(struct rt_link *k);    /* dials unless it is up, or on its way */
void rt_link_greeted(struct rt_link *k); /* it is READY; the timer is stopped */
void rt_link_well(struct rt_link *k);    /* something was answered: it works */
void rt_link_timer(struct rt_link *k, int64_t at);

/* Each for the reason that FORMAT gives. This one lets the server go, and wants the next. */
RT_LINK_SAYS(2) void rt_link_cut(struct rt_link *k, const char *format, ...);
/* For good: all that waits is refused. */
RT_LINK_SAYS(3) void rt_link_fail(struct rt_link *k, int err, const char *format, ...);
/* For good if every server refuses, else on to the next. */
RT_LINK_SAYS(3) void rt_link_refuse(struct rt_link *k, int err, const char *format, ...);
/* Notes trouble with the server in use, no more. DIALED: it can be reached, so WHY tells more than that others
 * cannot. */
void rt_link_note(struct rt_link *k, const char *why, bool dialed);

const char *rt_link_at(const struct rt_link *k); /* the server in use */
const char *rt_link_trouble(
    const struct rt_link *k); /* why it is not READY; NULL: it is, or nothing is known */
/* How long a server that lives may owe an answer. Where there is nobody else to ask (any more), a cut only makes us
 * begin anew, and leaves open what became of a release. */
int64_t rt_link_patience(const struct rt_link *k);

#endif
