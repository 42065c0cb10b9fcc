/* SPDX-License-Identifier: Apache-2.0 */
/* The fault proxy: a relay in user space, between clients and a real server, that tests command.
 *
 * It runs on a thread of its own. All calls may come from any thread and have taken effect when they
 * return; if something is unavailable (memory, a port), the test aborts. Times are in microseconds.
 *
 * With a framing it knows messages: a chunk that ends within one waits for the rest. Messages are
 * counted and matched when they reach the proxy; a reply is "delivered" when it leaves it. */
#ifndef RT_PROXY_H
#define RT_PROXY_H

#include "proxy_framing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_proxy;

/* ---- Life --------------------------------------------------------------- */

struct rt_proxy_options {
    const char *listen;                     /* NULL: 127.0.0.1, a free port; "/path": unix */
    const char *host;                       /* of the server; NULL: 127.0.0.1; "/path": unix */
    uint16_t port;                          /* of the server */
    const struct rt_proxy_framing *framing; /* NULL: rt_proxy_raw */
    uint64_t seed;                          /* of all that is random here */
};

struct rt_proxy *rt_proxy_start(const struct rt_proxy_options *opts);
void rt_proxy_stop(struct rt_proxy *p);           /* resets what is open; NULL is legal */
uint16_t rt_proxy_port(const struct rt_proxy *p); /* 0: listens on a path */

/* Where connections made from now on lead. If the server is down, they are reset after being accepted:
 * when the proxy finds out, it can no longer refuse a connection. */
void rt_proxy_target(struct rt_proxy *p, const char *host, uint16_t port);

/* ---- All that passes ---------------------------------------------------- */

/* Each chunk waits DELAY_US + U(0, JITTER_US), in order within its connection. */
void rt_proxy_delay(struct rt_proxy *p, enum rt_proxy_dir dir, uint32_t delay_us,
                    uint32_t jitter_us);
/* Both directions: each chunk waits U(0, MAX_US). */
void rt_proxy_chaos(struct rt_proxy *p, uint32_t max_us);
/* Writes go out in pieces of U(1, MAX_BYTES); 0: whole. */
void rt_proxy_split(struct rt_proxy *p, enum rt_proxy_dir dir, uint32_t max_bytes);

/* Keeps everything that comes, even the end of the connection, until released: what a partition
 * that heals does to TCP. release also lets go of what a fault (RT_FAULT_DELAY with no time)
 * keeps in DIR. */
void rt_proxy_hold(struct rt_proxy *p, enum rt_proxy_dir dir);
void rt_proxy_release(struct rt_proxy *p, enum rt_proxy_dir dir);

/* Swallows everything that comes, even an end, until healed: what a partition that outlives TCP does.
 * As a stream cannot have gaps, heal resets the connections that lost something. */
void rt_proxy_lose(struct rt_proxy *p, enum rt_proxy_dir dir);
void rt_proxy_heal(struct rt_proxy *p);

enum rt_proxy_end { RT_PROXY_CUT, RT_PROXY_RESET }; /* FIN, RST; to both sides */

/* Ends all connections (what was on its way is lost); NUMBER: only that one, 0: all. */
void rt_proxy_end(struct rt_proxy *p, enum rt_proxy_end how, uint64_t number);
/* Ends the connection over which the Nth byte from now in DIR is delivered, right after that byte. */
void rt_proxy_end_after(struct rt_proxy *p, enum rt_proxy_dir dir, uint64_t bytes,
                        enum rt_proxy_end how);

enum rt_proxy_door {
    RT_PROXY_OPEN,
    RT_PROXY_REFUSE, /* "connection refused"; a unix path: "no such file" */
    RT_PROXY_MUTE,   /* accepts and never answers; such a connection stays mute */
};
void rt_proxy_door(struct rt_proxy *p, enum rt_proxy_door door);

/* ---- Single messages (need a framing) ----------------------------------- */

enum rt_fault_on {
    RT_FAULT_REPLY,   /* the reply to the matching request */
    RT_FAULT_REQUEST, /* the matching request itself */
    RT_FAULT_PUSH,    /* the matching push */
};

enum rt_fault_do {
    RT_FAULT_LOOK,    /* nothing: count it. Other faults still see the message */
    RT_FAULT_DROP,    /* that message alone: a gap, which TCP itself never makes */
    RT_FAULT_SILENCE, /* that message and all after it in its direction, on this connection */
    RT_FAULT_CUT,     /* the connection ends instead of it */
    RT_FAULT_RESET,
    RT_FAULT_DOUBLE, /* twice; a doubled request is executed twice, its second reply swallowed (what
                      * that is over HTTP/2: see rt_proxy_h2) */
    RT_FAULT_DELAY,  /* by delay_us, or 0: until released; all after it waits too */
};

#define RT_FAULT_ALWAYS UINT64_MAX

struct rt_fault {
    enum rt_fault_on on;
    enum rt_fault_do what;
    const char *match; /* a part of the message's words; NULL: any. See struct rt_proxy_message */
    uint64_t nth;      /* from the nth match (from now) on, on any connection; 0 is 1 */
    uint64_t times;    /* for so many matches; 0 is 1 */
    uint32_t chance;   /* so many of 100 messages match, drawn with the proxy's seed; 0: all */
    uint32_t delay_us;
};

/* Returns the fault's number, for the calls below. Every fault counts every match; a message that
 * several want goes to the oldest. */
uint32_t rt_proxy_fault(struct rt_proxy *p, const struct rt_fault *fault);
uint64_t rt_proxy_fault_hits(struct rt_proxy *p, uint32_t number);
void rt_proxy_fault_release(struct rt_proxy *p, uint32_t number); /* what it delays */
void rt_proxy_fault_end(struct rt_proxy *p, uint32_t number);     /* no more matches; 0: all */

/* ---- Watching ----------------------------------------------------------- */

struct rt_proxy_counts {
    uint64_t connections; /* accepted; of one connection: 1 while it is open */
    uint64_t requests, replies, pushes;
    uint64_t flights;      /* requests that came while none was unanswered (as delivered) */
    uint64_t chunks[2];    /* reads, by direction */
    uint64_t bytes[2];     /* that came in */
    uint64_t delivered[2]; /* bytes that went out */
};

void rt_proxy_counts(struct rt_proxy *p, struct rt_proxy_counts *out);
/* The counts of connection NUMBER (1 is the first accepted), even after its end. False: there is
 * no such connection. */
bool rt_proxy_conn_counts(struct rt_proxy *p, uint64_t number, struct rt_proxy_counts *out);
uint64_t rt_proxy_open_connections(struct rt_proxy *p);

/* After every turn calls UNTIL with the counts, until it says true. False: not within LIMIT_MS. */
typedef bool rt_proxy_until_fn(void *arg, const struct rt_proxy_counts *counts);
bool rt_proxy_await(struct rt_proxy *p, rt_proxy_until_fn *until, void *arg, unsigned limit_ms);
/* Waits until the fault has hit that often. */
bool rt_proxy_await_hits(struct rt_proxy *p, uint32_t fault, uint64_t hits, unsigned limit_ms);

struct rt_proxy_event {
    uint64_t connection;
    enum rt_proxy_dir dir;
    enum rt_message_kind kind;
    uint64_t number; /* of its kind on its connection, from 1 */
    size_t bytes;
    const char *words;     /* "" without framing */
    enum rt_fault_do fate; /* RT_FAULT_LOOK: passed */
};
/* Runs on the proxy's thread for every message, in order of arrival; must not call the proxy. */
typedef void rt_proxy_trace_fn(void *arg, const struct rt_proxy_event *event);
void rt_proxy_trace(struct rt_proxy *p, rt_proxy_trace_fn *fn, void *arg); /* NULL: off */
void rt_proxy_show(void *unused, const struct rt_proxy_event *event);      /* one: to stderr */

#endif
