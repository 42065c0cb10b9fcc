/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of the Redis scripts, on a real server whose clock is a key.
 *
 * How it is written down: "@5" is a time or a number, 5 ms after the beginning, "@5+1" a us more; A to D are sessions
 * of clients a to d. A reply is everything after its tag; "|" begins what was pushed, "p a" says to whom. */
#ifndef SCRIPT_STORY_H
#define SCRIPT_STORY_H

#include "engine/redis/script.h"
#include "lib/redis_server.h"

#define STORY_ROOM "rota:{0}"

extern redisContext *story_work;

int story_start(void **state); /* of the group: the server */
int story_stop(void **state);
int story_begin(void **state); /* of each: an empty server, the clock at 0 */
int story_end(void **state);   /* ... and when all is over nothing is left in it */

/* What happened since the last look is exactly TEXT. */
void story_expect(const char *text, const char *file, int line);
#define expect(text) story_expect(text, __FILE__, __LINE__)
void story_forget(void);

void clock_at(int64_t ms);
const char *sid(char who);          /* of A to D; several are valid at once */
const char *at(int64_t ms, int us); /* a time or a number, as text */

/* The arguments after the tag. */
void story_run(enum rt_redis_script script, size_t n, const char *const *args);
#define RUN(script, ...)                                                              \
    do {                                                                              \
        const char *const args_[] = {__VA_ARGS__};                                    \
        story_run(RT_REDIS_SCRIPT_##script, sizeof(args_) / sizeof(args_[0]), args_); \
    } while (0)

struct wish {
    const char *name;
    int nonce;
    uint32_t mode, take, of;
    const char *flags; /* of the member; NULL: "-" */
    int at_least_ms, until_ms;
    const char *value;
};

void ask(char who, const char *how, struct wish w); /* in the short form */
/* One to three in the long one; a durable WHO is "d5" and the like, and has a CID. */
void ask_long(const char *who, const char *how, const char *cid, const struct wish *w, size_t n);
#define ASK_LONG(who, how, cid, ...)                                            \
    do {                                                                        \
        const struct wish wishes_[] = {__VA_ARGS__};                            \
        ask_long(who, how, cid, wishes_, sizeof(wishes_) / sizeof(wishes_[0])); \
    } while (0)

/* Sessions A to LAST, opened for 1 s, 2 s, ... with labels lA, lB, ...; nothing is written down. */
void open_sessions(char last);

long long count_of(char who); /* tickets of a session */

#endif
