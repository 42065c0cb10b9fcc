/* SPDX-License-Identifier: Apache-2.0 */
/* Stories: golden traces of the desk in virtual time. The expected text is the test.
 *
 * A story has one desk, asks named by letters, and lines with short names. Each action writes what
 * followed from it: requests sent (">"), and what the askers were told. */
#ifndef STORY_H
#define STORY_H

#include "core/desk.h"
#include "core/grant.h"

#define STORY_LINES 8
#define STORY_OPS 64

struct story_ask {
    struct rt_ask ask;
    struct rt_terms terms;
    struct rt_ticket ticket;
};

__extension__ struct story_line { /* gcc: a flexible member in the middle */
    union {                       /* rt_line ends with its name */
        struct rt_line line;
        char room[sizeof(struct rt_line) + 8];
    };
    struct rt_ticket s;
    bool used;
};

struct story {
    struct rt_desk desk;
    struct rt_timers timers;
    struct rt_timer *heap[128];
    int64_t now;
    struct story_ask asks[26];
    struct story_line lines[STORY_LINES];
    struct rt_set set;
    struct rt_ask *members[26];
    struct rt_ticket *tickets[26];
    struct rt_todo ops[STORY_OPS]; /* sent, not answered */
    size_t op_count;
    char trace[8192];
    size_t length;
};

struct wish {
    uint32_t mode, take, of, flags;
    int64_t limit_ms, hold_ms, linger_ms, at_least_ms;
    uint64_t owner; /* 0: the letter, so that each asker is a thread of its own */
    bool nobody;    /* owner 0 for the desk */
};

void story_begin(struct story *s, uint32_t pass_limit, uint32_t pass_ms);

void story_ask(struct story *s, char who, const char *name, const struct wish *wish);
#define ask(s, who, name, ...) story_ask(s, who, name, &(const struct wish){__VA_ARGS__})
void ask_all(struct story *s, const char *who, const char *const *names, bool try);
void story_ask_all(struct story *s, const char *who, const char *const *names, bool try,
                   const struct wish *wish);
void let_go(struct story *s, char who);
void cancel(struct story *s, char who, int err);

/* Answers to the oldest request of the kind. */
void beat(struct story *s, int err, uint64_t session, uint32_t ttl_ms);
void joined(struct story *s, int err, uint64_t number, bool granted, bool wanted);
void joined_all(struct story *s, int err, uint64_t first_number, unsigned granted_bits);
void left(struct story *s, int err);
void armed(struct story *s, int err, bool wanted);

/* Events. */
void granted(struct story *s, const char *name, uint64_t number);
void granted_as(struct story *s, const char *name, uint64_t number, uint64_t fence);
void wanted(struct story *s, const char *name, uint64_t number);
void ticket_lost(struct story *s, const char *name, uint64_t number);
void session_lost(struct story *s, uint64_t session);

/* Lets time pass until MS after the beginning; timers fire at their times. */
void until(struct story *s, int64_t ms);

/* What happened since the last look is exactly TEXT. */
void story_expect(struct story *s, const char *text, const char *file, int line);
#define expect(s, text) story_expect(s, text, __FILE__, __LINE__)

/* Starting points: a client whose session is open, on an engine without (TTL_MS 0) or with a time to
 * live; and one where A holds L with ticket 7. */
void story_open(struct story *s, uint32_t ttl_ms);
void story_held(struct story *s, uint32_t ttl_ms);

/* Nothing is left: no ticket, no line, no timer, no request. */
void story_end(struct story *s);

#endif
