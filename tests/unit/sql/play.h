/* SPDX-License-Identifier: Apache-2.0 */
/* The lock engine on SQL in virtual time, with a driver and a server that the test plays: it sees each flight as text,
 * and answers it row by row. */
#ifndef SQL_PLAY_H
#define SQL_PLAY_H

#include "engine/sql/sql.h"

#define PLAY_LINKS 16
#define PLAY_TTL_MS 9000
#define PLAY_CALL_MS 4000

struct play_link {
    struct rt_sql_link base; /* first */
    struct play *play;
    struct rt_sql_step steps[64];
    size_t count; /* 0: nothing flies */
    bool dropped;
    void (*closed)(struct rt_sql_link *l);
};

struct play {
    struct rt_up up; /* first */
    struct rt_loop loop;
    struct rt_conn *conn;
    struct play_link *links[PLAY_LINKS]; /* in the order they were dialed */
    size_t link_count;
    int dial_rv, send_rv; /* what the driver says to that */
    int dials, opens;     /* opens: not closed yet */
    uint64_t session;
    int dones, err; /* the last op's */
    char errmsg[256], trouble[256];
    int logs;
    int64_t ahead;              /* us by which our clock is, as FACTS say */
    const char *unsafe, *unfit; /* what else they say; NULL: nothing */
    struct {
        enum rt_event_kind kind;
        uint64_t number;
        size_t count;
    } told[64];
    size_t told_count; /* of all but RT_LINK */
};

/* NOTIFIES: like PostgreSQL; else with bells, like MariaDB, but on one link. It dials with the first turn. */
void play_open(struct play *p, bool notifies);
int play_open_url(struct play *p, bool notifies,
                  const char *url); /* 0, or why not; then it is closed */
void play_begin(struct play *p,
                bool notifies); /* the same; the first link is ready, and there is a session */
void play_close(struct play *p);
void play_turn(struct play *p);             /* what is due now */
void play_pass(struct play *p, int64_t us); /* the time; then what is due */

/* What flies on the Nth link, step by step with its arguments: "look(a,S,7)"; "": nothing, or no such link. S is
 * our session, "*" anything random. */
const char *play_said(struct play *p, size_t n);
/* It comes up and is greeted like a server that knows us; then it is ready. */
void play_greet(struct play *p, size_t n);
void play_row(struct play *p, size_t n, size_t step, const int64_t *cells, size_t count);
#define PLAY_NULL INT64_MIN
#define PLAY_ROW(p, n, step, ...)                        \
    play_row(p, n, step, (const int64_t[]){__VA_ARGS__}, \
             sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
void play_cells(struct play *p, size_t n, size_t step, const struct rt_sql_cell *cells,
                size_t count);
void play_changed(struct play *p, size_t n, size_t step, uint64_t count);
void play_land(struct play *p, size_t n, enum rt_sql_end end); /* and turns */
void play_up(struct play *p, size_t n);                        /* it asks for the facts */
void play_facts(struct play *p, size_t n); /* its row, of a server "s" whose clock says 1 us */
void play_down(struct play *p, size_t n, int err); /* its connection is lost, or refused */
void play_down_as(struct play *p, size_t n, int err, const char *why); /* the same in these words */
void play_notice(struct play *p, size_t n, const char *channel, const char *text);
#define PLAY_TEXT(words) ((struct rt_sql_cell){.text = (words), .size = strlen(words)})

/* Ops: submitted and turned. The session is opened. */
void play_session(struct play *p);
void play_do(struct play *p, struct rt_op *op);
/* A plain JOIN of NAME that finds it taken, by the long way: its ticket NUMBER waits behind BELL, for LEFT_US
 * (PLAY_NULL: no end). The caller must keep J as long as events refer to it. */
void play_wait(struct play *p, struct rt_join *j, const char *name, int64_t number, int64_t bell,
               int64_t left_us);

#endif
