/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of links: an engine in virtual time whose server the test plays, word by word. */
#ifndef PLAYED_H
#define PLAYED_H

#include "engine/redis/redis.h"

#define PLAYED_STREAMS 1024
#define PLAYED_ASKED 80

/* A connection as the server sees it. */
struct played_stream {
    struct rt_stream *stream; /* NULL: closed */
    char *got;                /* what came and was not read */
    size_t size;
    uint16_t port;
};

/* A request of the test, and what came of it. */
struct played_asked {
    struct rt_redis_request *rq;
    int answers, err, status;
    int order; /* of the answers, from 1 */
    char errmsg[256];
    char text[128]; /* the first element after tag and status */
};

struct played {
    struct rt_dialer dialer; /* first */
    struct rt_loop loop;
    struct rt_up up;
    struct rt_redis_conn *conn;
    struct played_stream streams[PLAYED_STREAMS];
    size_t opened;
    struct played_asked asked[PLAYED_ASKED];
    int asked_count, answered, ups, downs, refuse;
    char log[4096]; /* all lines */
    struct rt_op op;
    int op_done; /* how often `op` ended ... */
    char op_errmsg[256];
};

/* Opens URL; fails the test unless that gives EXPECT. */
void played_open(struct played *p, const char *url, const char *password, int expect);
/* The same, where open may fail; false: it did, with ROTA_NOMEM. */
struct rt_url;
bool played_try(struct played *p, const struct rt_url *url);
void played_close(struct played *p);
void played_turn(struct played *p);                  /* what was written is sent, timers due run */
void played_pass(struct played *p, int64_t ms);      /* time passes, timer by timer */
void played_accept(struct played *p, size_t stream); /* its connection is made */
/* The next command on STREAM as one text, its words with a space between; "" none. */
const char *played_next(struct played *p, size_t stream);
void played_say(struct played *p, size_t stream, const char *text); /* bytes, as they are */
void played_sayf(struct played *p, size_t stream, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The tag of COMMAND, as a whole reply. */
void played_say_tag(struct played *p, size_t stream, const char *command);
void played_say_bytes(struct played *p, size_t stream, const char *bytes, size_t n);
void played_end(struct played *p, size_t stream); /* the server closes it */
/* Answers the greeting as a good single server, until the link is ready. */
void played_greet(struct played *p, size_t stream);
void played_greet_as(struct played *p, size_t stream, const char *more); /* INFO with MORE */
/* Answers only the first flight, INFO with MORE after a master's. Reads it to its ECHO. */
void played_greet_first(struct played *p, size_t stream, const char *more);
/* Reads the second flight: answers PUBLISH, returns the call of `meta`. */
const char *played_meta(struct played *p, size_t stream);
/* Sends a script call (BEAT with the argument WORD); returns its index. */
int played_ask(struct played *p, const char *word, int64_t deadline_ms);
int played_ask_in(struct played *p, uint32_t room, const char *word, int64_t deadline_ms);
/* Reads the next command, which must be a call with WORD; answers {tag, STATUS, WORD}. */
void played_answer(struct played *p, size_t stream, const char *word, int status);
/* The tag of a call or ECHO in COMMAND. */
uint64_t played_tag(const char *command);
/* An op that needs the server: INSPECT. */
void played_submit(struct played *p);

#endif
