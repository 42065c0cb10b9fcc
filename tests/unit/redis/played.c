/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of links: an engine in virtual time whose server the test plays, word by word. */
#include "played.h"
#include "lib/scarce.h"

#include "engine/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct rt_engine rt_engine_redis;

/* ---- The network ------------------------------------------------------------------------------ */

static int on_open(struct rt_dialer *d, struct rt_stream *s, const struct rt_stream_target *t)
{
    struct played *p = (struct played *)(void *)d;
    if (p->refuse != 0)
        return p->refuse;
    assert_true(p->opened < PLAYED_STREAMS);
    p->streams[p->opened++] = (struct played_stream){.stream = s, .port = t->port};
    return 0;
}

static struct played_stream *stream_of(struct played *p, const struct rt_stream *s)
{
    for (size_t i = 0; i < p->opened; i++)
        if (p->streams[i].stream == s)
            return &p->streams[i];
    fail_msg("a stream that was never opened");
    return NULL;
}

static void on_write(struct rt_dialer *d, struct rt_stream *s, const char *bytes, size_t n)
{
    struct played_stream *ps = stream_of((struct played *)(void *)d, s);
    ps->got = realloc(ps->got, ps->size + n + 1);
    assert_non_null(ps->got);
    memcpy(ps->got + ps->size, bytes, n);
    ps->size += n;
    ps->got[ps->size] = '\0';
}

static void on_close(struct rt_dialer *d, struct rt_stream *s)
{
    stream_of((struct played *)(void *)d, s)->stream = NULL;
}

/* ---- The user --------------------------------------------------------------------------------------- */

static struct played *of_up(struct rt_up *up)
{
    return (struct played *)((char *)up - offsetof(struct played, up));
}

static void up_done(struct rt_up *up, struct rt_op *op)
{
    struct played *p = of_up(up);
    assert_ptr_equal(op, &p->op);
    p->op_done++;
    snprintf(p->op_errmsg, sizeof(p->op_errmsg), "%s", p->conn->base.errmsg);
}

static void up_event(struct rt_up *up, const struct rt_event *event)
{
    struct played *p = of_up(up);
    if (event->kind == RT_LINK && event->up)
        p->ups++;
    else if (event->kind == RT_LINK)
        p->downs++;
}

static void up_log(struct rt_up *up, int level, const char *line)
{
    struct played *p = of_up(up);
    size_t used = strlen(p->log);
    (void)level;
    snprintf(p->log + used, sizeof(p->log) - used, "%s\n", line);
}

static void inspect_nobody(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
}

void played_submit(struct played *p)
{
    p->op = (struct rt_op){.kind = RT_OP_INSPECT,
                           .deadline = rt_loop_now(&p->loop) + 5000 * RT_MS,
                           .inspect = {.name = "n", .each = inspect_nobody}};
    p->op_done = 0;
    rt_engine_redis.submit(&p->conn->base, &p->op);
}

/* ---- Life --------------------------------------------------------------------------------------------- */

static int open_url(struct played *p, const struct rt_url *url)
{
    memset(p, 0, sizeof(*p));
    p->dialer = (struct rt_dialer){on_open, on_write, on_close};
    rt_loop_init_virtual(&p->loop);
    p->loop.dialer = &p->dialer;
    p->up = (struct rt_up){.done = up_done, .event = up_event, .log = up_log};
    p->conn = calloc(1, sizeof(*p->conn));
    assert_non_null(p->conn);
    p->conn->base = (struct rt_conn){.engine = &rt_engine_redis,
                                     .up = &p->up,
                                     .loop = &p->loop,
                                     .label = "played",
                                     .ttl_ms = 10000,
                                     .call_ms = 5000};
    int rv = rt_engine_redis.open(&p->conn->base, url);
    if (rv != 0) {
        snprintf(p->log, sizeof(p->log), "%s", p->conn->base.errmsg);
        free(p->conn);
        p->conn = NULL;
        played_turn(p);
        rt_loop_fini(&p->loop);
    }
    return rv;
}

void played_open(struct played *p, const char *text, const char *password, int expect)
{
    struct rt_url url;
    char errmsg[256];
    assert_int_equal(rt_url_parse(&url, text, errmsg, sizeof(errmsg)), 0);
    if (password != NULL)
        url.password = password;
    int rv = open_url(p, &url);
    url.password = "";
    rt_url_fini(&url);
    assert_int_equal(rv, expect);
}

bool played_try(struct played *p, const struct rt_url *url)
{
    int rv = open_url(p, url);
    assert_true(rv == 0 || rv == ROTA_NOMEM);
    return rv == 0;
}

void played_close(struct played *p)
{
    rt_engine_redis.close(&p->conn->base);
    free(p->conn);
    p->conn = NULL;
    for (int i = 0; i < 4; i++)
        played_turn(p);
    for (size_t i = 0; i < p->opened; i++) {
        assert_null(p->streams[i].stream);
        free(p->streams[i].got);
    }
    rt_loop_fini(&p->loop);
    assert_int_equal(scarce.live,
                     0); /* all is given back, if somebody counts: without a sanitizer, too */
}

void played_turn(struct played *p)
{
    rt_loop_arm(&p->loop);
    rt_loop_turn(&p->loop, NULL, NULL);
    rt_loop_arm(&p->loop);
}

void played_pass(struct played *p, int64_t ms)
{
    int64_t until = rt_loop_now(&p->loop) + ms * RT_MS;
    played_turn(p);
    for (int i = 0; i < 10000 && rt_loop_now(&p->loop) < until; i++) {
        int64_t next = rt_timers_next(&p->loop.timers);
        rt_loop_advance(&p->loop, next > until ? until : next < p->loop.now ? p->loop.now : next);
        played_turn(p);
    }
    assert_true(rt_loop_now(&p->loop) == until); /* no timer that is due again and again */
}

/* ---- The server ------------------------------------------------------------------------------------------ */

void played_accept(struct played *p, size_t stream)
{
    assert_true(stream < p->opened);
    assert_non_null(p->streams[stream].stream);
    rt_stream_feed_up(p->streams[stream].stream);
    played_turn(p);
}

void played_say_bytes(struct played *p, size_t stream, const char *bytes, size_t n)
{
    assert_non_null(p->streams[stream].stream);
    rt_stream_feed_data(p->streams[stream].stream, bytes, n);
    played_turn(p);
}

void played_say(struct played *p, size_t stream, const char *text)
{
    played_say_bytes(p, stream, text, strlen(text));
}

void played_sayf(struct played *p, size_t stream, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    assert_true(vsnprintf(text, sizeof(text), format, args) < (int)sizeof(text));
    va_end(args);
    played_say(p, stream, text);
}

void played_say_tag(struct played *p, size_t stream, const char *command)
{
    unsigned long long tag = played_tag(command);
    played_sayf(p, stream, "$%d\r\n%llu\r\n", snprintf(NULL, 0, "%llu", tag), tag);
}

void played_end(struct played *p, size_t stream)
{
    struct rt_stream *s = p->streams[stream].stream;
    assert_non_null(s);
    p->streams[stream].stream = NULL;
    rt_stream_feed_down(s, ROTA_UNREACHABLE, "the server closed the connection");
    played_turn(p);
}

const char *played_next(struct played *p, size_t stream)
{
    static char text[32768];
    struct played_stream *ps = &p->streams[stream];
    char *at = ps->got;
    size_t used = 0;
    text[0] = '\0';
    if (ps->size == 0)
        return text;
    assert_int_equal(*at, '*');
    long words = strtol(at + 1, &at, 10);
    at += 2;
    for (long i = 0; i < words; i++) {
        assert_int_equal(*at, '$');
        size_t size = (size_t)strtol(at + 1, &at, 10);
        at += 2;
        assert_true(at + size + 2 <= ps->got + ps->size);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s", i > 0 ? " " : "",
                                 (int)size, at);
        assert_true(used < sizeof(text));
        at += size + 2;
    }
    ps->size -= (size_t)(at - ps->got);
    memmove(ps->got, at, ps->size + 1);
    return text;
}

uint64_t played_tag(const char *command)
{
    char name[16];
    unsigned long long tag = 0;
    if (sscanf(command, "ECHO %llu", &tag) == 1)
        return tag;
    /* EVALSHA sha 1 key tag; the text of EVAL has spaces: the tag comes after the key */
    assert_int_equal(sscanf(command, "%15s", name), 1);
    const char *key = strstr(command, " 1 rota:{");
    assert_non_null(key);
    assert_int_equal(sscanf(key, " 1 %*s %llu", &tag), 1);
    return tag;
}

void played_greet_first(struct played *p, size_t stream, const char *more)
{
    char text[512];
    const char *command;
    while (strncmp(command = played_next(p, stream), "ECHO", 4) != 0) {
        assert_true(command[0] != '\0');
        if (strcmp(command, "INFO") == 0) {
            char info[256];
            snprintf(info, sizeof(info),
                     "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n"
                     "maxmemory_policy:noeviction\r\naof_enabled:1\r\n%s",
                     more);
            snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(info), info);
            played_say(p, stream, text);
        } else if (strncmp(command, "CONFIG", 6) == 0) {
            played_say(p, stream,
                       "*4\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
                       "$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n");
        } else if (strncmp(command, "WAIT", 4) == 0) {
            played_say(p, stream, ":0\r\n");
        } else {
            played_say(p, stream, "+OK\r\n");
        }
    }
    played_say_tag(p, stream, command);
}

const char *played_meta(struct played *p, size_t stream)
{
    assert_true(strncmp(played_next(p, stream), "PUBLISH rota:{0}", 16) == 0);
    played_say(p, stream, ":0\r\n");
    const char *meta = played_next(p, stream);
    assert_non_null(strstr(meta, "rota:{0}:meta"));
    return meta;
}

void played_greet(struct played *p, size_t stream)
{
    played_greet_as(p, stream, "");
}

void played_greet_as(struct played *p, size_t stream, const char *more)
{
    char text[256];
    played_greet_first(p, stream, more);
    const char *meta = played_meta(p, stream);
    char tag[24];
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(meta));
    snprintf(text, sizeof(text), "*4\r\n$%zu\r\n%s\r\n:0\r\n$3\r\n1.0\r\n$1\r\n1\r\n", strlen(tag),
             tag);
    int ups = p->ups;
    played_say(p, stream, text);
    assert_int_equal(p->ups, ups + 1);
}

/* ---- Requests ------------------------------------------------------------------------------------------------ */

static void on_answer(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                      const redisReply *reply)
{
    struct played_asked *a = rq->owner;
    struct played *p = of_up(c->base.up);
    a->answers++;
    a->err = err;
    a->status = status;
    a->order = ++p->answered;
    a->rq = NULL;
    snprintf(a->errmsg, sizeof(a->errmsg), "%s", c->base.errmsg);
    if (err == 0 && reply->elements > 2 && reply->element[2]->type == REDIS_REPLY_STRING)
        snprintf(a->text, sizeof(a->text), "%s", reply->element[2]->str);
}

int played_ask(struct played *p, const char *word, int64_t deadline_ms)
{
    return played_ask_in(p, 0, word, deadline_ms);
}

int played_ask_in(struct played *p, uint32_t room, const char *word, int64_t deadline_ms)
{
    assert_true(p->asked_count < PLAYED_ASKED);
    struct played_asked *a = &p->asked[p->asked_count];
    size_t size = strlen(word);
    a->rq = rt_redis_request_new(RT_REDIS_SCRIPT_BEAT, room, 1, &word, &size);
    assert_non_null(a->rq);
    a->rq->answer = on_answer;
    a->rq->owner = a;
    a->rq->call.entry.deadline = rt_loop_now(&p->loop) + deadline_ms * RT_MS;
    rt_redis_send(p->conn, a->rq);
    assert_int_equal(a->answers, 0);
    played_turn(p);
    return p->asked_count++;
}

void played_answer(struct played *p, size_t stream, const char *word, int status)
{
    const char *command = played_next(p, stream);
    char tag[24], text[256];
    const char *last = strrchr(command, ' ');
    assert_non_null(last);
    assert_string_equal(last + 1, word);
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(command));
    snprintf(text, sizeof(text), "*3\r\n$%zu\r\n%s\r\n:%d\r\n$%zu\r\n%s\r\n", strlen(tag), tag,
             status, strlen(word), word);
    played_say(p, stream, text);
}
