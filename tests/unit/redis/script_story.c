/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of the Redis scripts: how they are asked and written down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "script_story.h"

#include "one_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH INT64_C(1700000000000000)
#define ARGS_MAX 64

extern const struct rt_redis_text rt_redis_texts_test[RT_REDIS_SCRIPTS][2];

redisContext *story_work;
static redisContext *push;
static char trace[16384];
static size_t length;

/* ---- What is written down ----------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(trace + length, sizeof(trace) - length, format, ap);
    va_end(ap);
    length += (size_t)n;
    assert_true(length < sizeof(trace));
}

static void say_time(int64_t us)
{
    int64_t ms = (us - EPOCH) / 1000, rest = (us - EPOCH) % 1000;
    say("@%" PRId64, ms);
    if (rest != 0)
        say("+%" PRId64, rest);
}

/* Words of 16 digits are times, numbers or sessions; of 12, clients. */
static void say_text(const char *text)
{
    while (*text != '\0') {
        size_t n = strspn(text, "0123456789abcdef");
        if (n == 16 && strncmp(text, "0000000000a", 11) == 0)
            say("%c", 'A' + text[11] - '0');
        else if (n == 12 && strncmp(text, "0000000000a", 11) == 0)
            say("%c", 'a' + text[11] - '0');
        else if (n == 16 && strncmp(text, "17000000", 8) == 0)
            say_time(strtoll(text, NULL, 10));
        else if (n > 0)
            say("%.*s", (int)n, text);
        else
            say("%c", *text);
        text += n > 0 ? n : 1;
    }
}

static void say_element(const redisReply *r)
{
    if (r->type == REDIS_REPLY_INTEGER && r->integer >= EPOCH)
        say_time(r->integer);
    else if (r->type == REDIS_REPLY_INTEGER)
        say("%lld", r->integer);
    else if (r->type == REDIS_REPLY_STRING && r->len == 0)
        say("''");
    else if (r->type == REDIS_REPLY_STRING)
        say_text(r->str);
    else
        fail_msg("no element of a reply: type %d", r->type);
}

/* What was published since the last call, by the part of its channel after the room. */
static void say_pushes(void)
{
    freeReplyObject(redisCommand(story_work, "PUBLISH %s:sync now", STORY_ROOM));
    for (;;) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(push, (void **)&r), REDIS_OK);
        if (strcmp(r->element[0]->str, "pmessage") != 0) {
            freeReplyObject(r);
            continue;
        }
        const char *channel = r->element[2]->str + strlen(STORY_ROOM) + 1;
        bool over = strcmp(channel, "sync") == 0;
        if (!over) {
            say(" | ");
            for (const char *c = strchr(channel, ':'); c != NULL && channel < c; channel++)
                say("%c", *channel);
            say(" ");
            say_text(channel + 1);
            say(": ");
            say_text(r->element[3]->str);
        }
        freeReplyObject(r);
        if (over)
            return;
    }
}

void story_forget(void)
{
    length = 0;
    trace[0] = '\0';
}

void story_expect(const char *text, const char *file, int line)
{
    if (strcmp(trace, text) != 0) {
        print_error("%s:%d: it went otherwise:\n%s--- expected:\n%s", file, line, trace, text);
        fail();
    }
    story_forget();
}

/* ---- Asking ------------------------------------------------------------- */

void clock_at(int64_t ms)
{
    freeReplyObject(
        redisCommand(story_work, "SET %s:clock %lld", STORY_ROOM, (long long)(EPOCH + ms * 1000)));
}

static int by_name(const void *a, const void *b)
{
    redisReply *const *x = a, *const *y = b;
    return strcmp(x[0]->str, y[0]->str);
}

void story_run(enum rt_redis_script script, size_t n, const char *const *args)
{
    const struct rt_redis_text *text = &rt_redis_texts_test[script][0];
    const char *argv[ARGS_MAX + 5] = {"EVALSHA", text->sha1, "1", STORY_ROOM, "TAG"};
    assert_true(n <= ARGS_MAX);
    memcpy(&argv[5], args, n * sizeof(*args));
    redisReply *r = redisCommandArgv(story_work, (int)n + 5, argv, NULL);
    assert_non_null(r);
    if (script == RT_REDIS_SCRIPT_LIST) /* Redis has them in any order */
        qsort(&r->element[3], (r->elements - 3) / 3, 3 * sizeof(redisReply *), by_name);
    say("%s:", text->name);
    if (r->type == REDIS_REPLY_ERROR)
        say(" %.*s", (int)strcspn(r->str, " "), r->str);
    if (r->type == REDIS_REPLY_STRING) {
        say(" ");
        say_text(r->str);
    }
    for (size_t i = 1; r->type == REDIS_REPLY_ARRAY && i < r->elements; i++) {
        say(" ");
        say_element(r->element[i]);
    }
    if (r->type == REDIS_REPLY_ARRAY)
        assert_string_equal(r->element[0]->str, "TAG");
    freeReplyObject(r);
    say_pushes();
    say("\n");
}

const char *sid(char who)
{
    static char text[8][20];
    static int at;
    at = (at + 1) % 8;
    snprintf(text[at], sizeof(text[at]), "0000000000a%c0001", '0' + who - 'A');
    return text[at];
}

const char *at(int64_t ms, int us)
{
    static char text[8][24];
    static int i;
    i = (i + 1) % 8;
    snprintf(text[i], sizeof(text[i]), "%lld", (long long)(EPOCH + ms * 1000 + us));
    return text[i];
}

struct texts {
    char field[64], member[128], number[5][16];
};

static void write_texts(struct texts *x, const char *who, const char *cid, const struct wish *w)
{
    snprintf(x->field, sizeof(x->field), "%d %s", w->nonce, w->name);
    snprintf(x->member, sizeof(x->member), "%s %d %u %u %u %s 0 0%s%s", who, w->nonce, w->mode,
             w->take, w->of, w->flags != NULL ? w->flags : "-", cid != NULL ? " " : "",
             cid != NULL ? cid : "");
    const int numbers[] = {(int)w->mode, (int)w->take, (int)w->of, w->at_least_ms, w->until_ms};
    for (int i = 0; i < 5; i++)
        snprintf(x->number[i], sizeof(x->number[i]), "%d", numbers[i]);
}

void ask(char who, const char *how, struct wish w)
{
    struct texts x;
    write_texts(&x, sid(who), NULL, &w);
    RUN(JOIN, how, sid(who), w.name, x.field, x.member);
}

void ask_long(const char *who, const char *how, const char *cid, const struct wish *w, size_t n)
{
    struct texts x[3];
    const char *args[4 + 27] = {how, who, "1000", "its label"};
    for (size_t i = 0; i < n; i++) {
        const char **a = &args[4 + 9 * i];
        write_texts(&x[i], who, cid, &w[i]);
        a[0] = w[i].name;
        a[1] = x[i].field;
        a[2] = x[i].member;
        for (int k = 0; k < 5; k++)
            a[3 + k] = x[i].number[k];
        a[8] = w[i].value != NULL ? w[i].value : "";
    }
    story_run(RT_REDIS_SCRIPT_JOIN, 4 + 9 * n, args);
}

void open_sessions(char last)
{
    for (char who = 'A'; who <= last; who++) {
        char ttl[8], label[4] = {'l', who, '\0'};
        snprintf(ttl, sizeof(ttl), "%d", (who - 'A' + 1) * 1000);
        RUN(OPEN, sid(who), ttl, label);
    }
    story_forget();
}

int story_begin(void **state)
{
    (void)state;
    rt_redis_must(&one_redis, "FLUSHALL");
    story_forget();
    clock_at(0);
    return 0;
}

/* What the room's own hash still has: its counter alone. */
static bool is_index_empty(void)
{
    redisReply *r = redisCommand(story_work, "HKEYS %s", STORY_ROOM);
    bool empty = true;
    for (size_t i = 0; i < r->elements; i++)
        if (strcmp(r->element[i]->str, "\1") != 0) {
            print_error("left in the index: %s\n", r->element[i]->str);
            empty = false;
        }
    freeReplyObject(r);
    return empty;
}

/* Nothing stays once all is over: no key but the room's counter and the clock. */
int story_end(void **state)
{
    (void)state;
    clock_at(100000000);
    RUN(SWEEP, "1000", "", "");
    redisReply *r = redisCommand(story_work, "KEYS *");
    int rv = 0;
    for (size_t i = 0; i < r->elements; i++)
        if (strcmp(r->element[i]->str, STORY_ROOM) != 0 &&
            strcmp(r->element[i]->str, STORY_ROOM ":clock") != 0) {
            print_error("left behind: %s\n", r->element[i]->str);
            rv = -1;
        }
    freeReplyObject(r);
    return is_index_empty() ? rv : -1;
}

static redisContext *connect_to(void)
{
    redisContext *c = redisConnectUnix(one_redis.socket);
    assert_non_null(c);
    return c;
}

int story_start(void **state)
{
    one_redis_start(state);
    story_work = connect_to();
    push = connect_to();
    freeReplyObject(redisCommand(push, "PSUBSCRIBE %s:*", STORY_ROOM));
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++)
        freeReplyObject(redisCommand(story_work, "SCRIPT LOAD %s", rt_redis_texts_test[i][0].text));
    return 0;
}

int story_stop(void **state)
{
    redisFree(story_work);
    redisFree(push);
    return one_redis_stop(state);
}

long long count_of(char who)
{
    redisReply *r = redisCommand(story_work, "HLEN %s:s:%s", STORY_ROOM, sid(who));
    long long n = r->integer - 2; /* v and its label */
    freeReplyObject(r);
    return n;
}
