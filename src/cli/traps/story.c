/* SPDX-License-Identifier: Apache-2.0 */
/* One trap, told line by line: who sent what, and what came back. */
#include "cli/traps/story.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_SIZE 1024
#define SENT_WIDTH 60 /* columns for what is sent; the reply follows */
#define UNTIL_LOOKS 250
#define UNTIL_NS \
    120000000 /* InnoDB shows waiters as of up to 100 ms ago; looked at more often, it shows nothing new */

/* ---- Telling ------------------------------------------------------------ */

static void tell(struct rt_story *story, const char *line)
{
    char clean[2 * LINE_SIZE];
    size_t size = strlen(rt_out_clean(line, clean, sizeof(clean)));

    while (size > 0 && clean[size - 1] == ' ')
        clean[--size] = '\0';
    if (story->lines != NULL)
        json_array_append_new(story->lines, json_string(clean));
    if (!story->quiet)
        printf("    %s\n", clean);
    fflush(stdout);
}

void rt_story_act(struct rt_story *story, const char *act, const char *text)
{
    bool broken = strcmp(act, "broken") == 0;
    char line[LINE_SIZE];

    snprintf(line, sizeof(line), "%s: %s", act, text);
    if (story->lines != NULL)
        json_array_append_new(story->lines, json_string(line));
    if (!story->quiet)
        printf("  %s%s%s: %s\n", rt_out_color(stdout, broken ? RT_OUT_RED : RT_OUT_GREEN), act,
               rt_out_color(stdout, RT_OUT_PLAIN), text);
}

void rt_story_say(struct rt_story *story, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;

    if (story->over)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    tell(story, line);
}

/* A reply that does not fit beside what was sent stands below it. For an error, SQL clients print more than the
 * error. */
static void tell_sent(struct rt_story *story, const char *who, const char *sent, const char *reply)
{
    const char *error = strstr(reply, "ERROR ");
    char line[2 * LINE_SIZE];

    reply = error != NULL ? error : reply;
    if (strlen(sent) > SENT_WIDTH) {
        rt_story_say(story, "%s> %s", who, sent);
        if (reply[0] != '\0')
            rt_story_say(story, "   %-*s %s", SENT_WIDTH, "", reply);
        return;
    }
    snprintf(line, sizeof(line), "%s> %-*s %.900s", who, SENT_WIDTH, sent, reply);
    tell(story, line);
}

/* ---- Seats -------------------------------------------------------------- */

static void fail(struct rt_story *story, const char *what)
{
    if (!story->over)
        rt_out_error("%s", what);
    story->over = true;
}

void rt_story_at_redis(struct rt_story *story, unsigned i)
{
    struct rt_seat *seats[] = {&story->a, &story->b, &story->c};

    for (size_t k = 0; k < 3 && !story->over; k++) {
        rt_seat_close(seats[k]);
        if (rt_house_at_redis(story->house, i, seats[k]) != 0)
            fail(story, "redis-cli cannot be run");
    }
    (void)rt_story_peek(story, &story->a, "FLUSHALL");
}

void rt_story_at_mariadb(struct rt_story *story)
{
    struct rt_seat *seats[] = {&story->a, &story->b, &story->c};

    for (size_t k = 0; k < 3 && !story->over; k++) {
        rt_seat_close(seats[k]);
        if (rt_house_at_mariadb(story->house, seats[k]) != 0)
            fail(story, "mariadb cannot be run");
    }
    (void)rt_story_peek(story, &story->a, "create database if not exists trap;");
    for (size_t k = 0; k < 3; k++)
        (void)rt_story_peek(story, seats[k], "use trap;");
}

const char *rt_story_peek(struct rt_story *story, struct rt_seat *seat, const char *line)
{
    if (story->over)
        return "";
    const char *reply = rt_seat_send(seat, line) ? rt_seat_reply(seat) : NULL;
    if (reply != NULL)
        return reply;
    fail(story, "a server's client has gone, or does not answer");
    return "";
}

const char *rt_story_ask(struct rt_story *story, const char *who, struct rt_seat *seat,
                         const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    const char *reply = rt_story_peek(story, seat, line);
    if (!story->over)
        tell_sent(story, who, line, reply);
    return reply;
}

void rt_story_send(struct rt_story *story, const char *who, struct rt_seat *seat,
                   const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (story->over)
        return;
    if (rt_seat_send(seat, line))
        tell_sent(story, who, line, "...");
    else
        fail(story, "a server's client has gone");
}

const char *rt_story_reply(struct rt_story *story, const char *who, struct rt_seat *seat)
{
    const char *reply = story->over ? NULL : rt_seat_reply(seat);

    if (reply == NULL) {
        fail(story, "a server's client has gone, or does not answer");
        return "";
    }
    tell_sent(story, who, "... is told", reply);
    return reply;
}

bool rt_story_is(const char *reply, const char *want)
{
    return strcmp(reply, want) == 0;
}

void rt_story_until(struct rt_story *story, struct rt_seat *seat, const char *line,
                    const char *reply)
{
    for (int i = 0; i < UNTIL_LOOKS && !story->over; i++) {
        if (rt_story_is(rt_story_peek(story, seat, line), reply))
            return;
        nanosleep(&(struct timespec){0, UNTIL_NS}, NULL);
    }
    fail(story, "a server does not come to what was waited for");
}

/* ---- rota itself -------------------------------------------------------- */

void rt_story_on(struct rt_story *story, const char *url)
{
    setenv("ROTA_URL", url, 1);
    rt_story_say(story, "$ export ROTA_URL=%s", url);
}

/* Starts "rota WORDS" in a shell, which finds this very program in $ROTA_SELF. */
static bool start(struct rt_story *story, const char *who, struct rt_seat *seat, const char *words,
                  bool wait)
{
    char line[LINE_SIZE];
    char *argv[] = {"sh", "-c", line, NULL};

    if (story->over)
        return false;
    rt_story_say(story, "%s$ rota %s%s", who, words, wait ? "" : " &");
    snprintf(line, sizeof(line), "exec \"$ROTA_SELF\" %s", words);
    if (rt_seat_open(seat, argv, NULL, NULL) == 0)
        return true;
    fail(story, "no shell");
    return false;
}

int rt_story_rota(struct rt_story *story, const char *who, const char *words)
{
    struct rt_seat seat = {0};

    if (!start(story, who, &seat, words, true))
        return -1;
    const char *line;
    while ((line = rt_seat_line(&seat)) != NULL) {
        snprintf(story->said, sizeof(story->said), "%.255s", line);
        rt_story_say(story, "%s  %s", who, line);
    }
    int code = rt_seat_wait(&seat);
    rt_story_say(story, "%s  exit code %d", who, code);
    return code;
}

bool rt_story_rota_start(struct rt_story *story, const char *who, struct rt_seat *seat,
                         const char *words)
{
    rt_seat_close(seat);
    if (!start(story, who, seat, words, false))
        return false;
    const char *line = rt_seat_line(seat);
    if (line == NULL) {
        fail(story, "rota did not get the lock");
        return false;
    }
    snprintf(story->said, sizeof(story->said), "%.255s", line);
    rt_story_say(story, "%s  %s", who, line);
    return true;
}

void rt_story_end(struct rt_story *story)
{
    rt_seat_close(&story->a);
    rt_seat_close(&story->b);
    rt_seat_close(&story->c);
}
