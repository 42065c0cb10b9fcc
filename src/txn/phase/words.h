/* SPDX-License-Identifier: Apache-2.0 */
/* Three-phase commit over HTTP: POST /rota/three, JSON in both directions.
 *
 *   {"op": "can" | "pre" | "do" | "no" | "ask", "txn": ID, "branch": N, "deadline_ms": N, "stance": "WAIT",
 *    "coordinator": URL, "parts": [URL, ...], "names": [RESOURCE, ...], "statements": ["UPDATE ...", ...],
 *    "on_timeout": "block" | "commit", "t1_ms": N, "t2_ms": N}
 *   {"stance": "WAIT", "how": "TOLD", "mixed": false, "ended": false, "kind": "xa-mysql", "resource": NAME, "place": HEX,
 *    "why": "what its database said, where its statements failed"}
 *
 * Each request has all of it, so that whoever gets one first knows what it needs: who takes part, and whom to ask.
 * parts[branch - 1] is the receiver, except in an ask: there `branch` is the asker's, and `stance` is how it stands
 * there. */
#ifndef RT_THREE_WORDS_H
#define RT_THREE_WORDS_H

#include "txn/core/name.h"
#include "txn/three/participant.h"

#include <jansson.h>

#define RT_THREE_PATH "/rota/three"
#define RT_THREE_TYPE "application/json"

struct rt_word { /* a request that was read; the texts are DOC's */
    json_t *doc; /* held by the owner */
    struct rt_name name;
    uint8_t ask;    /* enum rt_three_ask; 0: ask */
    uint8_t stance; /* of an ask */
    const char *coordinator;
    json_t *parts, *statements; /* arrays of texts */
    bool textbook;
    uint32_t t1_ms, t2_ms;
};

/* Reads TEXT. False: it is not such a request, and WHY says what is wrong. Free OUT->doc with json_decref. */
bool rt_word_read(const char *text, size_t size, struct rt_word *out, char *why, size_t room);
/* W->doc with another op, branch and stance, as text; NULL: no memory. free() it. */
char *rt_word_text(const struct rt_word *w, const char *op, uint32_t branch, uint8_t stance);
const char *rt_word_part(const struct rt_word *w, uint32_t i); /* the Ith address, from 0 */
const char *rt_word_op(enum rt_three_ask ask);

extern const char *const rt_stance_words[RT_STANCES], *const rt_how_words[RT_HOWS];

#define RT_THREE_WHY 256

struct rt_answer { /* to a request */
    struct rt_stand stand;
    char why
        [RT_THREE_WHY]; /* for people: why its statements failed; "": they did not, or nobody knows any more */
};

json_t *rt_word_answer(const struct rt_stand *stand, const char *why); /* NULL: no memory */
/* The name of BRANCH's resource, from 1 on; "": it was not given. */
const char *rt_word_resource(const struct rt_word *w, uint32_t branch);
/* Reads an answer. False: TEXT is none, and OUT is as before. */
bool rt_word_heard(const char *text, size_t size, struct rt_answer *out);

#endif
