/* SPDX-License-Identifier: Apache-2.0 */
/* A link whose server the test plays, packet by packet, in virtual time. */
#ifndef MYSQL_PLAYED_H
#define MYSQL_PLAYED_H

#include "engine/mysql/mysql.h"
#include "engine/url.h"

#define PLAYED_PASSWORD "of-the-test"
#define PLAYED_SALT "abcdefghijklmnopqrst"
#define PLAYED_CAPS 0x80bff7ffu /* all that MariaDB can, except TLS and no EOF */
#define PLAYED_NO_EOF (1u << 24)

struct played {
    struct rt_dialer dialer; /* first */
    struct rt_loop loop;
    struct rt_up up;
    struct rt_conn base;
    void *self;
    struct rt_dial_ring ring;
    struct rt_sql_link *link;
    struct rt_stream *stream; /* NULL: closed */
    char got[1 << 16];        /* what the link sent last */
    size_t size;
    int ups, downs, lands, rows, closed;
    int err;
    enum rt_sql_end end;
    size_t failed;
    int64_t changed; /* of the last step that said */
    char why[512], row[512];
    bool drops; /* the link in every up-call */
};

/* Opens, dials, and is connected to. False: no memory, only where the heap is scarce. */
bool played_open(struct played *p, const char *url, const char *password);
void played_close(struct played *p);
void played_turn(struct played *p);
void played_pass(struct played *p, uint32_t ms);
/* The server says N bytes. */
void played_bytes(struct played *p, const void *bytes, size_t n);
void played_hang_up(struct played *p);

/* ---- What a server says --------------------------------------------------------------------------------------------- */

struct said {
    uint8_t at[1 << 16];
    size_t size;
    uint8_t seq;
};
void said_begin(struct said *s, uint8_t seq);
void said_packet(struct said *s, const void *body, size_t n); /* one more */
void said_greeting(struct said *s, uint32_t caps, const char *plugin);
void said_ok(struct said *s, uint64_t affected, uint64_t id, bool more);
void said_error(struct said *s, unsigned code, const char *text);
void said_end(struct said *s, bool no_eof, bool more); /* of rows, or columns */
/* COUNT columns of TYPE, then the cells of one row; TEXT: each cell's, "" for null. */
void said_columns(struct said *s, size_t count, uint8_t type, bool no_eof);
void said_row(struct said *s, size_t count, const char *text);
/* A good answer to what the link has sent, whatever it was; false: it waits for nothing. */
bool said_answer(struct said *s, const struct played *p);

/* Greets until it is up, or down. */
void played_greet(struct played *p, uint32_t caps);
/* Sends STEPS as a flight: 0 or ROTA_NOMEM. */
int played_send(struct played *p, const struct rt_sql_step *steps, size_t count);

#endif
