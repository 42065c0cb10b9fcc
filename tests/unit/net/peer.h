/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of streams: a stream that records what it is told, and the other end by hand. */
#ifndef PEER_H
#define PEER_H

#include "net/stream.h"

#define PEER_PATIENCE_MS 20000 /* nothing here takes this long unless it hangs */

struct end {            /* our end of a stream */
    struct rt_stream s; /* first */
    int ups, downs, closed;
    int err;
    char why[RT_STREAM_WHY_MAX];
    char *got; /* all that came, if kept */
    size_t got_size, got_room;
    bool discard;                         /* only count */
    void (*on)(struct end *e, char what); /* 'u', 'd'ata, 'e'nd; may be NULL */
};

extern struct rt_loop peer_loop;
extern const struct rt_stream_user peer_user;

int peer_setup(void **state);    /* of a test: makes peer_loop */
int peer_teardown(void **state); /* ends it */

/* A listening socket on 127.0.0.1 and its port. */
int peer_listen(uint16_t *port, int backlog);
int peer_accept(int listener); /* blocking; a blocking socket */

void peer_open(struct end *e, const char *host, uint16_t port);
void peer_open_to(struct end *e, const struct rt_stream_target *t, uint32_t connect_ms);
void peer_close(struct end *e); /* and waits until closed */

/* One poll and one turn, as the client does; false: nothing came for PEER_PATIENCE_MS. */
bool peer_turn(void);
void peer_turns(int n); /* without waiting */
/* Turns until *FLAG >= N; fails the test if that never happens. */
void peer_until(const int *flag, int n);
void peer_until_got(const struct end *e, size_t n);

#endif
