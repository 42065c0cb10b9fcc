/* SPDX-License-Identifier: Apache-2.0 */
/* How the stories of steps.h begin and end, and what they do most often. */
#ifndef SQL_SCENE_H
#define SQL_SCENE_H

#include "steps.h"

#define LONG INT64_C(600000000) /* ten minutes, in µs */
#define ALL (INT64_C(1) << 62)

/* A link to empty tables; sessions 1 to 4 live. At the end the counts of lines agree with their rows. */
void scene_begin(struct rider *r);
void scene_check(void);
void scene_end(struct rider *r);
void scene_kill(int id); /* the session's time is over */

struct scene_ask { /* zero: a plain exclusive ticket */
    const char *name;
    int64_t session, nonce, mode, take, of, flags, at_least, until, bell, gate;
    bool durable, try;
    const char *value, *label;
};

int64_t scene_weight(const struct scene_ask *a);

#define TEXT_OR_NULL(x) ((x) != NULL ? T(x) : NOTHING)
#define JOIN(a)                                                                            \
    STEP(JOIN, T((a).name), N((a).session), N((a).nonce), N(77), N((a).mode), N((a).take), \
         N((a).of), N(scene_weight(&(a))), N((a).flags), N((a).at_least), N((a).until),    \
         N((a).durable), N((a).try), TEXT_OR_NULL((a).value), TEXT_OR_NULL((a).label),     \
         N((a).bell), N((a).gate))
#define GATE(a)                                                                   \
    STEP(GATE, T((a).name), N((a).session), N((a).nonce), N((a).mode), N((a).of), \
         N(scene_weight(&(a))), N((a).try), N((a).durable))

/* The steps of scene_join. */
enum { LOCKED, UNFOLDED, PURGED, SETTLED, JOINED, OPENED, WANTED, ANSWERED };

/* The whole slow path of one ask; then the row of ANSWER, and its COLUMN as a number. */
const char *scene_join(struct rider *r, struct scene_ask a);
#define ASK(r, ...) scene_join(r, (struct scene_ask){__VA_ARGS__})
int64_t scene_answered(const struct rider *r, size_t column);
/* Leaves by number; what LEAVE answered. */
const char *scene_leave(struct rider *r, const char *name, int64_t session, int64_t number);
/* The COLUMN of STATE. */
int64_t scene_state(struct rider *r, const char *name, int64_t session, int64_t number,
                    size_t column);

#endif
