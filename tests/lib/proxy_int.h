/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the fault proxy: its connections and what they carry. All under the proxy's mutex. */
#ifndef RT_PROXY_INT_H
#define RT_PROXY_INT_H

#include "proxy.h"
#include "random.h"

#include <pthread.h>
#include <sys/socket.h>

struct rt_segment { /* goes out whole and in order, when its time has come */
    struct rt_segment *next;
    int64_t due_ns;
    uint32_t held_by; /* a fault; 0: none */
    uint32_t answers; /* requests that are answered when it has gone out */
    size_t len, sent;
    char data[];
};

struct rt_unanswered { /* a request that the server has not answered yet, the oldest first */
    struct rt_unanswered *next;
    uint32_t confirmations; /* still to come; 0: an ordinary reply */
    uint32_t fault;         /* for its reply; 0: none */
    uint64_t channel;       /* see struct rt_proxy_message */
    bool swallow;           /* the client does not know of it */
    char *twin;             /* to be sent once more when answered; NULL: not */
    size_t twin_size;
};

struct rt_conn;

struct rt_pipe { /* one direction of a connection */
    struct rt_conn *conn;
    enum rt_proxy_dir dir;
    struct rt_segment *head, *tail;
    size_t queued;
    int64_t last_due_ns;
    char *part; /* of a message that is not complete */
    size_t part_len, part_cap;
    bool more;           /* the framing has another message without new bytes */
    bool bytes_only;     /* this direction is not the framing's protocol */
    bool silent;         /* by RT_FAULT_SILENCE */
    bool eof, eof_reset; /* its source has ended, by RST */
    bool shut;           /* its end was passed on */
    bool blocked;        /* its sink is full */
    bool broken;         /* its sink takes no more */
};

struct rt_end { /* one socket; side UP faces the client, whose bytes go up */
    struct rt_conn *conn;
    enum rt_proxy_dir side;
    int fd;
    uint32_t events; /* what epoll was told; 0: it does not watch */
};

struct rt_conn {
    struct rt_conn *next;
    struct rt_proxy *proxy;
    uint64_t number;
    struct rt_end end[2]; /* [UP] is read by pipe[UP] and written by pipe[DOWN] */
    struct rt_pipe pipe[2];
    struct rt_unanswered *oldest, **newest;
    uint64_t outstanding; /* requests of the client whose reply has not gone out */
    void *framing;
    bool connecting, mute, torn, dead;
};

struct rt_fault_state {
    struct rt_fault fault;
    char *match;
    uint64_t seen, hits;
    bool active;
};

struct rt_proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t turned; /* after every turn */
    int epoll, wake, timer, listener, anchor;
    bool stop;
    char listen_path[108];
    uint16_t port;
    struct sockaddr_storage target;
    socklen_t target_len;
    const struct rt_proxy_framing *framing;
    struct rt_random random;

    enum rt_proxy_door door;
    uint32_t delay_us[2], jitter_us[2], split[2];
    bool hold[2], lose[2];
    bool ending[2]; /* ends after end_left more bytes */
    uint64_t end_left[2];
    enum rt_proxy_end end_how[2];
    struct rt_fault_state *faults; /* [number - 1] */
    uint32_t fault_count;

    struct rt_conn *conns;
    struct rt_proxy_counts *counts; /* [number]; [0]: all */
    size_t counts_cap;
    rt_proxy_trace_fn *trace;
    void *trace_arg;
};

#define RT_PROXY_NEVER INT64_MAX

int64_t rt_proxy_now_ns(void);
void rt_proxy_die(const char *what); /* with errno */

/* proxy_conn.c: sockets */
void rt_conn_accept(struct rt_proxy *p);
void rt_conn_ready(struct rt_end *end, uint32_t events); /* by epoll */
void rt_conn_end(struct rt_conn *c, enum rt_proxy_end how);
/* Writes what is due; returns when there is more to write, or RT_PROXY_NEVER. */
int64_t rt_conn_pump(struct rt_conn *c, int64_t now_ns);
void rt_conn_free(struct rt_conn *c); /* ended before */

/* proxy_message.c: messages and faults */
void rt_pipe_take(struct rt_pipe *pipe, const char *data, size_t len, int64_t now_ns);
void rt_pipe_flush_part(struct rt_pipe *pipe, int64_t now_ns); /* at the end: what is incomplete */
void rt_pipe_drop_all(struct rt_pipe *pipe);
void rt_conn_forget_unanswered(struct rt_conn *c);

#endif
