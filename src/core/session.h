/* SPDX-License-Identifier: Apache-2.0 */
/* The session: when to beat, until when its holds are certainly ours (I3). */
#ifndef RT_SESSION_H
#define RT_SESSION_H

#include "core/timers.h"

#include <stdbool.h>

/*            ask            BEAT(open) answered
 *   NONE ──────────▶ OPENING ─────────────────▶ ALIVE ──┐ beat every ttl/3
 *    ▲                  │ failed                  │  ▲───┘
 *    └──────────────────┴──────── lost ◀──────────┘
 */
enum rt_session_state { RT_SESSION_NONE, RT_SESSION_OPENING, RT_SESSION_ALIVE };

struct rt_session {
    enum rt_session_state state;
    bool in_flight;       /* a BEAT is under way */
    uint64_t id;          /* the engine's name for it */
    int64_t ttl;          /* ns, as the engine really gave it; 0: as long as the process */
    int64_t sent_at;      /* of the BEAT under way */
    int64_t deadline;     /* I3; RT_NEVER without a ttl */
    int64_t usable_until; /* when holders are told: a little before the deadline */
    int64_t beat_at;      /* when the next BEAT is due */
};

void rt_session_init(struct rt_session *s);

/* Begins to open a session, or does nothing if one is there or coming. Returns whether a
 * BEAT(open) has to be sent. */
bool rt_session_want(struct rt_session *s, int64_t now);

/* Whether a BEAT is due; if so it counts as sent at NOW. */
bool rt_session_beat(struct rt_session *s, int64_t now);

/* The answer to the BEAT sent at s->sent_at. ID matters for an opened session only. Returns
 * whether the session was opened just now. */
bool rt_session_answered(struct rt_session *s, uint64_t id, uint32_t ttl_ms, uint32_t allowance_ms,
                         int64_t now);

/* The BEAT came to nothing: it will be sent again soon, or opening failed. */
void rt_session_failed(struct rt_session *s, int64_t now);

/* Gone; the next rt_session_want opens a new one. */
void rt_session_end(struct rt_session *s);

/* Whether a hold may be reported or kept at NOW. */
bool rt_session_alive(const struct rt_session *s, int64_t now);

/* When the owner has to look again: the next BEAT, or the end. */
int64_t rt_session_next(const struct rt_session *s);

#endif
