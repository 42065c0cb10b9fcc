/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of an engine in virtual time, for unit tests: they submit ops and record, in one
 * line of text, what they are told. */
#ifndef PLAYER_H
#define PLAYER_H

#include "engine/engine.h"
#include "net/loop.h"

#define PLAYERS_MAX 8

struct player {
    struct rt_up up;
    struct rt_conn *conn; /* as the client sees it, wrappers and all */
    struct rt_conn *mem;  /* the mem connection inside */
    uint64_t session;
    int ended;       /* ops returned */
    char told[4096]; /* events, e.g. "GRANTED a 3; " */
    char log[16384]; /* up->log, a line each */
};

#define STAGE_LATE (UINT64_C(1) << 32) /* before the first number of a late world */

struct stage {
    struct rt_loop loop;
    struct player *players[PLAYERS_MAX];
    size_t count;
    bool late; /* of a world that numbers tickets when it grants them */
};

void stage_init(struct stage *stage);
void stage_fini(struct stage *stage);

/* Opens a client of the world "test", with a session unless SESSION is false. */
int player_open(struct stage *stage, struct player *p, const char *label, uint32_t ttl_ms);
void player_close(struct stage *stage, struct player *p);

/* Delivers to everybody until nobody has anything left to hear. */
void stage_settle(struct stage *stage);
/* Moves the clock, timer by timer. */
void stage_advance(struct stage *stage, int64_t ms);

/* Submit OP without waiting. */
void player_submit(struct player *p, struct rt_op *op);

/* Ops that end inside submit: return its err. */
int player_beat_open(struct player *p);
int player_beat(struct player *p, const uint64_t *tickets, size_t count);
int player_join(struct player *p, struct rt_join *join); /* session and nonce filled in if 0 */
int player_leave(struct player *p, const char *name, uint64_t number);
int player_change(struct player *p, const char *name, uint64_t number, uint32_t what,
                  const char *value, bool *wanted);
int player_break(struct player *p, const char *name, uint64_t number, uint32_t mode);
int player_observe(struct player *p, const char *name, void *cookie, bool stop);

/* The line as INSPECT shows it, e.g. "3X*alice 4S bob ": number, mode (X S P C G), * if granted,
 * else a blank, label. */
const char *player_show(struct player *p, const char *name);
/* What was told since the last call. */
const char *player_told(struct player *p);

#endif
