/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of Redis, through the client that the lock engine uses (engine/resp): redis://[user@]host[:port], rediss:,
 * redis+unix:, Sentinel with ?sentinel=; ?dedup=TIME: an id that was added is not added again for that long.
 *
 * A topic is a stream. publish: a script adds up to CHUNK messages and answers for each; the next chunk leaves when the
 * last was answered, so only the end of a batch is ever lost, and order is kept when it is sent again. take: a script
 * gives what nobody has answered for a while, else what is new; it is called again and again, because a script cannot
 * wait.
 *
 * Losses: a chunk without an answer is LOST, all of it. How much Redis forgets when it dies depends on its appendfsync:
 * the relay keeps the row until it is processed.
 *
 * A cluster is refused: its streams are on different servers, and a connection here is to one server. */
#include "base/alloc.h"
#include "engine/redis/script.h"
#include "engine/resp/resp.h"
#include "engine/url.h"
#include "txn/relay/broker.h"

#include <assert.h>
#include <poll.h>
#include <rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)
#define CHUNK 256              /* messages of one script call ... */
#define CHUNK_BYTES (1u << 20) /* ... or this many bytes */
#define BODY_MAX (64u << 20)   /* Redis takes 512 MB; nobody wants that in a script */
#define FIVE 5                 /* arguments of a message */
#define SIX 6                  /* elements of a taken message */
#define BACK_MS 1000           /* given back: this much later */
#define ASK_FIRST_MS 5
#define ASK_MOST_MS 200
#define CLOSING_TURNS 8
#define LINES 8

enum script { PUT, JOIN, TAKE, DONE, SCRIPTS };

extern const struct rt_redis_text rt_relay_texts[SCRIPTS][2];

struct letter { /* taken from the stream */
    bool used;  /* ... and not answered yet */
    bool given; /* handed out by next */
    char
        *text[6]; /* in the script's order, each with its end; a key and a type without their "+" */
    size_t size;  /* of the body */
};
enum { PLACE, ID, KEY, TYPE, BODY, TOPIC };

struct rt_broker {
    struct rt_conn base; /* the connection that the client belongs to */
    struct rt_up up;
    struct rt_loop loop;
    struct rt_resp_conn link;
    uint64_t dedup_ms;
    /* the call under way */
    bool waiting;
    int err;
    enum rt_sent *sent;
    const char **why;
    size_t count;
    char whys[LINES][RT_BROKER_LINE];
    size_t why_count;
    /* a subscription */
    char source[256], group[128], consumer[64];
    uint32_t ack_ms;
    struct letter *letters; /* `ahead` of them; a token is a place in it, from 1 on */
    uint32_t ahead;
    char line[RT_BROKER_LINE];
};

struct call {
    struct rt_resp_request rq; /* first */
    char key[];                /* KEYS[1] */
};

/* ---- What the client asks for -------------------------------------------------------------- */

static struct rt_broker *of_link(struct rt_resp_conn *c)
{
    return (struct rt_broker *)(void *)((char *)c - offsetof(struct rt_broker, link));
}

static struct rt_resp_text on_text(const struct rt_resp_conn *c, int script)
{
    (void)c;
    assert(script >= 0 && script < SCRIPTS);
    const struct rt_redis_text *t = &rt_relay_texts[script][0];
    return (struct rt_resp_text){t->text, t->length, t->sha1};
}

static const char *on_key(struct rt_resp_conn *c, const struct rt_resp_request *rq)
{
    (void)c;
    return ((const struct call *)(const void *)rq)->key;
}

static void say(struct rt_broker *b, const char *text)
{
    snprintf(b->line, sizeof(b->line), "%s", text);
}

static const char *reason(struct rt_broker *b, const char *text)
{
    for (size_t i = 0; i < b->why_count; i++)
        if (strncmp(b->whys[i], text, RT_BROKER_LINE - 1) == 0)
            return b->whys[i];
    if (b->why_count == LINES)
        return b->whys[LINES - 1];
    snprintf(b->whys[b->why_count], RT_BROKER_LINE, "%s", text);
    return b->whys[b->why_count++];
}

/* PUT: an empty text for each message that was added. An error about the server's own state is not the message's
 * fault. */
static void judge(struct rt_broker *b, const redisReply *reply)
{
    static const char *const states[] = {"OOM", "MISCONF", "READONLY", "NOREPLICAS", "LOADING"};

    for (size_t i = 0; i < b->count && i + 2 < reply->elements; i++) {
        const char *text = reply->element[i + 2]->str;
        b->sent[i] = text[0] == '\0' ? RT_SENT_CONFIRMED : RT_SENT_REFUSED;
        for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++)
            if (strncmp(text, states[k], strlen(states[k])) == 0) {
                b->sent[i] = RT_SENT_LOST;
                b->err = ROTA_BUSY;
                say(b, text);
            }
        if (b->sent[i] == RT_SENT_REFUSED)
            b->why[i] = reason(b, text);
    }
}

/* JOIN: an error, or a note that there was no such stream. */
static void joined(struct rt_broker *b, const redisReply *reply)
{
    if (reply->elements < 4)
        return;
    if (reply->element[2]->str[0] != '\0') {
        say(b, reply->element[2]->str);
        b->err = ROTA_INVALID;
    } else if (reply->element[3]->str[0] != '\0') {
        snprintf(b->line, sizeof(b->line),
                 "redis: there was no stream %.128s: created, waiting for its first message",
                 b->source);
    }
}

static void forget(struct letter *letter)
{
    for (int i = 0; i < SIX; i++)
        free(letter->text[i]);
    *letter = (struct letter){0};
}

static bool copy(struct letter *letter, int i, const redisReply *from)
{
    bool plus = (i == KEY || i == TYPE);

    if (plus && from->len == 0)
        return true;
    size_t skip = plus ? 1 : 0;
    letter->text[i] = malloc(from->len - skip + 1);
    if (letter->text[i] == NULL)
        return false;
    memcpy(letter->text[i], from->str + skip, from->len - skip + 1);
    if (i == BODY)
        letter->size = from->len;
    if (i == ID)
        rt_broker_see_id(letter->text[i], from->len);
    return true;
}

/* A message without a place or memory here is anybody's again after a while. */
static void taken(struct rt_broker *b, const redisReply *reply)
{
    uint32_t at = 0;

    for (size_t i = 2; i + SIX <= reply->elements; i += SIX) {
        while (at < b->ahead && b->letters[at].used)
            at++;
        if (at == b->ahead)
            return;
        struct letter *letter = &b->letters[at];
        letter->used = true;
        for (int k = 0; k < SIX; k++)
            if (!copy(letter, k, reply->element[i + (size_t)k])) {
                forget(letter);
                b->err = ROTA_NOMEM;
                return;
            }
    }
}

static void on_answer(struct rt_resp_conn *c, struct rt_resp_request *rq, int err, int status,
                      const redisReply *reply)
{
    struct rt_broker *b = of_link(c);

    (void)status;
    b->waiting = false;
    b->err = err;
    if (err != 0)
        say(b, b->base.errmsg);
    else if (rq->script == PUT)
        judge(b, reply);
    else if (rq->script == JOIN)
        joined(b, reply);
    else if (rq->script == TAKE)
        taken(b, reply);
}

static const struct rt_resp_user user = {
    .name = "redis",
    .keys = "~rota:e:* and the streams (~TOPIC)",
    .scripts = SCRIPTS,
    .places = 1,
    .no_cluster = "a relay writes to streams of one server",
    .text = on_text,
    .key = on_key,
    .answer = on_answer,
};

/* ---- One call at a time ---------------------------------------------------------------------- */

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
}

/* Handles what is there now; else waits, for at most MS. */
static void turn(struct rt_broker *b, int ms)
{
    rt_loop_arm(&b->loop);
    if (!b->loop.dirty) /* else epoll has not seen all watches: what we wait for may be there */
        (void)poll(&(struct pollfd){.fd = rt_loop_fd(&b->loop), .events = POLLIN}, 1, ms);
    rt_loop_tick(&b->loop);
    rt_loop_turn(&b->loop, no_other, NULL);
}

static int ms_until(int64_t deadline)
{
    int64_t ms = (deadline - rt_relay_now() + MS - 1) / MS;

    return ms < 0 ? 0 : ms > 1000 ? 1000 : (int)ms;
}

/* Calls SCRIPT on KEY and waits for the result. */
static int ask(struct rt_broker *b, enum script script, const char *key, size_t argc,
               const char *const *args, const size_t *lengths, int64_t deadline)
{
    struct call *call = (struct call *)(void *)rt_resp_request_new(
        sizeof(*call) + strlen(key) + 1, (int)script, 0, argc, args, lengths);

    if (call == NULL) {
        say(b, "no memory");
        return ROTA_NOMEM;
    }
    memcpy(call->key, key, strlen(key) + 1);
    call->rq.entry.deadline = rt_loop_tick(&b->loop) + (deadline - rt_relay_now());
    b->waiting = true;
    b->err = 0;
    rt_resp_send(&b->link, &call->rq);
    while (b->waiting)
        turn(b, ms_until(deadline) + 1);
    return b->err;
}

static int ask_texts(struct rt_broker *b, enum script script, const char *key, size_t argc,
                     const char *const *args, int64_t deadline)
{
    size_t lengths[8];

    assert(argc <= 8);
    for (size_t i = 0; i < argc; i++)
        lengths[i] = strlen(args[i]);
    return ask(b, script, key, argc, args, lengths, deadline);
}

/* ---- Opening ------------------------------------------------------------------------------------ */

static void end(struct rt_broker *b)
{
    for (int i = 0; i < CLOSING_TURNS; i++) {
        rt_loop_arm(&b->loop);
        rt_loop_turn(&b->loop, no_other, NULL);
    }
    rt_loop_fini(&b->loop);
    for (uint32_t i = 0; i < b->ahead; i++)
        forget(&b->letters[i]);
    free(b->letters);
    free(b);
}

static void close_broker(struct rt_broker *b)
{
    rt_resp_conn_close(&b->link);
    end(b);
}

/* Greets the server. An unreachable one is tried for a second: there may be others (Sentinel). */
static int meet(struct rt_broker *b, int64_t deadline)
{
    int64_t second = rt_relay_now() + 1000 * MS;

    rt_resp_want(&b->link);
    while (b->link.places == NULL && b->link.fatal == 0 && rt_relay_now() < deadline) {
        bool troubled = b->link.last_trouble[0] != '\0';
        if (troubled && rt_relay_now() >= second)
            break;
        turn(b, ms_until(troubled && second < deadline ? second : deadline));
    }
    if (b->link.places != NULL)
        return 0;
    say(b, b->link.fatal != 0                ? b->link.fatal_text
           : b->link.last_trouble[0] != '\0' ? b->link.last_trouble
                                             : "redis: no answer in time");
    return b->link.fatal != 0 ? b->link.fatal : ROTA_UNREACHABLE;
}

static int read_dedup(struct rt_broker *b, const struct rt_url *url, char *errmsg, size_t size)
{
    const char *text = rt_url_param(url, "dedup", "0");

    if (rt_url_duration_ms(text, &b->dedup_ms) == 0)
        return 0;
    snprintf(errmsg, size, "?dedup= must be a time, such as 2m or 120s");
    return ROTA_INVALID;
}

static int open_broker(struct rt_broker **out, const struct rt_url *url,
                       const struct rt_broker_options *opts, int64_t deadline, char *errmsg,
                       size_t size)
{
    struct rt_broker *b = calloc(1, sizeof(*b));

    if (b == NULL || rt_loop_init(&b->loop) != 0) {
        snprintf(errmsg, size, "no memory, or no descriptors left");
        free(b);
        return ROTA_NOMEM;
    }
    b->base = (struct rt_conn){.up = &b->up, .loop = &b->loop, .label = "rota-relay"};
    snprintf(b->consumer, sizeof(b->consumer), "rota-%llx",
             (unsigned long long)rt_relay_now() ^ (uintptr_t)b);
    b->ack_ms = opts->ack_ms != 0 ? opts->ack_ms : RT_BROKER_ACK_MS;
    int err = read_dedup(b, url, errmsg, size);
    if (err == 0 && (err = rt_resp_conn_open(&b->link, &b->base, url, &user)) != 0)
        snprintf(errmsg, size, "%s", b->base.errmsg);
    if (err != 0) {
        end(b);
        return err;
    }
    err = meet(b, deadline);
    if (err != 0) {
        snprintf(errmsg, size, "%s", b->line);
        close_broker(b);
        return err;
    }
    *out = b;
    return 0;
}

/* ---- Publishing ------------------------------------------------------------------------------------ */

struct chunk { /* arguments of one call */
    const char *args[1 + CHUNK * FIVE];
    size_t lengths[1 + CHUNK * FIVE];
    char *plus; /* keys and types behind their "+" */
    size_t used, count, bytes;
};

static void put_arg(struct chunk *c, const void *from, size_t size)
{
    c->args[c->count] = from;
    c->lengths[c->count++] = size;
}

static void put_plus(struct chunk *c, const char *text)
{
    if (text == NULL) {
        put_arg(c, "", 0);
        return;
    }
    size_t n = strlen(text);
    c->plus[c->used] = '+';
    memcpy(c->plus + c->used + 1, text, n);
    put_arg(c, c->plus + c->used, n + 1);
    c->used += n + 1;
}

/* How many of the N messages go in one call, and what their keys and types need. */
static size_t fit(const struct rt_message *m, size_t n, size_t *room)
{
    size_t i = 0, bytes = 0;

    *room = 1;
    for (; i < n && i < CHUNK && (i == 0 || bytes < CHUNK_BYTES); i++) {
        bytes += m[i].size;
        *room += (m[i].key != NULL ? strlen(m[i].key) + 1 : 0) +
                 (m[i].type != NULL ? strlen(m[i].type) + 1 : 0);
    }
    return i;
}

static int put(struct rt_broker *b, const struct rt_message *m, size_t n, size_t room,
               int64_t deadline)
{
    struct chunk *c = malloc(sizeof(*c) + room);
    char dedup[24];

    if (c == NULL) {
        say(b, "no memory");
        return ROTA_NOMEM;
    }
    c->plus = (char *)(c + 1);
    c->used = c->count = 0;
    put_arg(c, dedup,
            (size_t)snprintf(dedup, sizeof(dedup), "%llu", (unsigned long long)b->dedup_ms));
    for (size_t i = 0; i < n; i++) {
        put_arg(c, m[i].topic, strlen(m[i].topic));
        put_arg(c, m[i].id, strlen(m[i].id));
        put_plus(c, m[i].key);
        put_plus(c, m[i].type);
        put_arg(c, m[i].body, m[i].size);
    }
    int err = ask(b, PUT, m[0].topic, c->count, c->args, c->lengths, deadline);
    free(c);
    return err;
}

static int publish(struct rt_broker *b, const struct rt_message *messages, size_t n,
                   int64_t deadline, enum rt_sent *sent, const char **why)
{
    int err = 0;

    b->why_count = 0;
    for (size_t i = 0; i < n; i++)
        sent[i] = RT_SENT_LOST, why[i] = NULL;
    for (size_t at = 0, room; err == 0 && at < n; at += b->count) {
        b->count = fit(messages + at, n - at, &room);
        b->sent = sent + at;
        b->why = why + at;
        err = put(b, messages + at, b->count, room, deadline);
    }
    return err == 0 || err == ROTA_BUSY || err == ROTA_NOMEM ? err : ROTA_UNREACHABLE;
}

/* ---- Taking ------------------------------------------------------------------------------------------ */

#define CALL_NS (5000 * MS) /* joining, answering */

static int subscribe(struct rt_broker *b, const char *source, const char *group, uint32_t ahead)
{
    const char *const args[] = {group};

    assert(b->letters == NULL && ahead > 0);
    b->letters = calloc(ahead, sizeof(*b->letters));
    if (b->letters == NULL)
        return ROTA_NOMEM;
    b->ahead = ahead;
    snprintf(b->source, sizeof(b->source), "%s", source);
    snprintf(b->group, sizeof(b->group), "%s", group);
    return ask_texts(b, JOIN, source, 1, args, rt_relay_now() + CALL_NS);
}

/* The next that was taken and not given out; UINT32_MAX: none. They are given out in the order in which they came. */
static uint32_t waiting_letter(struct rt_broker *b)
{
    for (uint32_t i = 0; i < b->ahead; i++)
        if (b->letters[i].used && !b->letters[i].given)
            return i;
    return UINT32_MAX;
}

static int fetch(struct rt_broker *b, int64_t deadline)
{
    char count[16], idle[16];
    uint32_t free_places = 0;

    for (uint32_t i = 0; i < b->ahead; i++)
        free_places += !b->letters[i].used;
    snprintf(count, sizeof(count), "%u", free_places);
    snprintf(idle, sizeof(idle), "%u", b->ack_ms);
    const char *const args[] = {b->group, b->consumer, count, idle};
    return ask_texts(b, TAKE, b->source, 4, args, deadline);
}

static int next(struct rt_broker *b, int64_t deadline, struct rt_message *out, uint64_t *token)
{
    uint32_t at = waiting_letter(b);

    for (int pause = ASK_FIRST_MS; at == UINT32_MAX;
         pause = pause * 2 < ASK_MOST_MS ? pause * 2 : ASK_MOST_MS) {
        int err = fetch(b, rt_relay_now() + CALL_NS);
        if (err != 0)
            return err == ROTA_NOMEM ? err : ROTA_UNREACHABLE;
        at = waiting_letter(b);
        if (at == UINT32_MAX && rt_relay_now() >= deadline)
            return ROTA_BUSY;
        if (at == UINT32_MAX)
            turn(b, pause < ms_until(deadline) ? pause : ms_until(deadline));
    }
    struct letter *letter = &b->letters[at];
    letter->given = true;
    *token = at + 1;
    *out = (struct rt_message){.id = letter->text[ID],
                               .topic = letter->text[TOPIC],
                               .key = letter->text[KEY],
                               .type = letter->text[TYPE],
                               .body = letter->text[BODY],
                               .size = letter->size};
    return 0;
}

/* WORD: what done.lua is to do. */
static int tell(struct rt_broker *b, uint64_t token, const char *word, uint32_t idle_ms)
{
    char idle[16];
    const struct letter *letter = &b->letters[token - 1];

    assert(letter->used && letter->given);
    snprintf(idle, sizeof(idle), "%u", idle_ms);
    const char *const args[] = {b->group, word, letter->text[PLACE], b->consumer, idle};
    int err = ask_texts(b, DONE, b->source, 5, args, rt_relay_now() + CALL_NS);
    return err == 0 ? 0 : ROTA_UNREACHABLE;
}

/* Also for what is given up: the stream still has it. */
static int ack(struct rt_broker *b, uint64_t token)
{
    int err = tell(b, token, "ack", 0);

    forget(&b->letters[token - 1]);
    return err;
}

static int give_back(struct rt_broker *b, uint64_t token)
{
    int err = tell(b, token, "idle", b->ack_ms > BACK_MS ? b->ack_ms - BACK_MS : 0);

    forget(&b->letters[token - 1]);
    return err;
}

static int keep(struct rt_broker *b, uint64_t token)
{
    return tell(b, token, "idle", 0);
}

static const char *errmsg_of(const struct rt_broker *b)
{
    return b->line;
}

static size_t body_max(const struct rt_broker *b)
{
    (void)b;
    return BODY_MAX;
}

const struct rt_broker_kind rt_broker_redis = {
    .schemes = (const char *const[]){"redis", "rediss", "redis+unix", NULL},
    .params = (const char *const[]){"sentinel", "replicas", "db", "dedup", "password_file", NULL},
    .open = open_broker,
    .close = close_broker,
    .publish = publish,
    .subscribe = subscribe,
    .next = next,
    .ack = ack,
    .back = give_back,
    .leave = ack,
    .keep = keep,
    .errmsg = errmsg_of,
    .body_max = body_max,
};
