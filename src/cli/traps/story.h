/* SPDX-License-Identifier: Apache-2.0 */
/* One trap, told line by line: who sent what, and what came back. */
#ifndef RT_STORY_H
#define RT_STORY_H

#include "cli/traps/house.h"

#include <jansson.h>

struct rt_story {
    struct rt_house *house;
    bool quiet;          /* nothing is printed: the lines go into JSON */
    json_t *lines;       /* all that was told; may be NULL */
    bool broken, mended; /* what the trap has seen */
    bool over;           /* a server or client has gone: nothing more is told */
    struct rt_seat a, b,
        c;          /* those who take part; the trap takes and leaves seats, rt_story_end closes */
    char said[256]; /* the last line that rota, or what it ran, printed */
};

/* Begins an act: "broken" or "mended", and what happens in it. */
void rt_story_act(struct rt_story *story, const char *act, const char *text);

/* A line of the story. */
void rt_story_say(struct rt_story *story, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Each of A, B, C takes a seat at Redis I; at MariaDB. */
void rt_story_at_redis(struct rt_story *story, unsigned i);
void rt_story_at_mariadb(struct rt_story *story);

/* WHO ("A") sends the command at SEAT; it is told with its reply, which is returned and is never NULL. Valid until the
 * next call at this seat. */
const char *rt_story_ask(struct rt_story *story, const char *who, struct rt_seat *seat,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* As above, in two steps: the reply is told when it comes. */
void rt_story_send(struct rt_story *story, const char *who, struct rt_seat *seat,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
const char *rt_story_reply(struct rt_story *story, const char *who, struct rt_seat *seat);

/* Whether REPLY is just WANT. */
bool rt_story_is(const char *reply, const char *want);

/* Like rt_story_ask, but not told: for commands that only look. */
const char *rt_story_peek(struct rt_story *story, struct rt_seat *seat, const char *line);

/* Where rota works from here on: URL, in $ROTA_URL. */
void rt_story_on(struct rt_story *story, const char *url);

/* Runs "rota WORDS", as a shell would, until its end. Tells what it prints, and its exit code, which is returned. */
int rt_story_rota(struct rt_story *story, const char *who, const char *words);

/* Starts it and leaves it running once it has printed its first line; false: it did not print one. */
bool rt_story_rota_start(struct rt_story *story, const char *who, struct rt_seat *seat,
                         const char *words);

/* Sends LINE again and again until REPLY comes, without telling. If it has not come after half a minute the story is
 * over. */
void rt_story_until(struct rt_story *story, struct rt_seat *seat, const char *line,
                    const char *reply);

/* Everybody leaves. */
void rt_story_end(struct rt_story *story);

#endif
