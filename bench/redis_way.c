/* SPDX-License-Identifier: Apache-2.0 */
/* Taking turns on Redis: with Rota, with BLPOP, and as a herd that pub/sub wakes. */
#include "redis_way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "turn"

struct party {
    struct rota *r;
    struct rota_lock *lock;
    redisContext *c, *told; /* told: subscribed */
    struct simple simple;
    struct bare bare;
    uint64_t number;
    char token[32];
    char join[48], leave[48]; /* hashes of scripts */
};

static struct party *new_party(void)
{
    struct party *me = calloc(1, sizeof(*me));
    if (me == NULL)
        bench_done(1);
    return me;
}

static void part(struct party *me)
{
    if (me->c != NULL)
        redisFree(me->c);
    if (me->told != NULL)
        redisFree(me->told);
    rota_close(me->r);
    free(me);
}

static void prepare(const struct redis *s)
{
    freeReplyObject(redis_do(s->control, "DEL token lock line"));
    freeReplyObject(redis_do(s->control, "RPUSH token t"));
}

static int number_of(redisReply *reply)
{
    int n = (int)reply->integer;
    freeReplyObject(reply);
    return n;
}

/* ---- Rota --------------------------------------------------------------- */

static struct party *rota_join(const struct redis *s)
{
    const struct rota_options never = {.pass_limit = ROTA_NEVER};
    const struct rt_bench place = {.url = s->url, .prefix = ""};
    struct party *me = new_party();
    bench_done(rt_bench_open(&place, &me->r, &never));
    return me;
}

static void complain(const struct party *me, int err)
{
    fprintf(stderr, "rota-bench: %s: %s\n", rota_strerror(err), rota_errmsg(me->r));
    _exit(1);
}

static void turn_acquire(struct party *me)
{
    int err = rota_acquire(me->r, NAME, NULL, &me->lock);
    if (err != 0)
        complain(me, err);
}

static void turn_release(struct party *me)
{
    int err = rota_release(me->lock);
    if (err != 0)
        complain(me, err);
}

static int rota_waiting(const struct redis *s, redisContext *watch)
{
    (void)s;
    redisReply *line = redis_do(watch, "HGET rota:{0} " NAME);
    bool one = line->type == REDIS_REPLY_STRING && line->str[0] == '+'; /* besides the holder */
    freeReplyObject(line);
    return one ? 1 : number_of(redis_do(watch, "ZCARD rota:{0}:w:" NAME));
}

const struct way way_rota = {
    "rota", prepare, rota_join, turn_acquire, turn_release, part, rota_waiting,
};

/* ---- Rota's scripts by hand ---------------------------------------------- */

static struct party *bare_party(const struct redis *s)
{
    struct party *me = new_party();
    me->c = redis_dial(s, false);
    me->told = redis_dial(s, false);
    bare_open(&me->bare, me->c);
    bare_listen(&me->bare, me->told);
    return me;
}

static void bare_acquire(struct party *me)
{
    bare_append_join(&me->bare, NAME);
    me->number = bare_wait(&me->bare, me->told);
}

static void bare_release(struct party *me)
{
    bare_append_ping(&me->bare);
    bare_append_leave(&me->bare, NAME, me->number);
    bare_ponged(&me->bare);
    bare_left(&me->bare);
}

const struct way way_bare = {
    "bare", prepare, bare_party, bare_acquire, bare_release, part, rota_waiting,
};

/* ---- The least that a script can do --------------------------------------- */

/* No number, no session, no expiry, nobody who left is forgotten: what remains of a hand-over by a script and a push if
 * everything that a lock promises is left out. */
static const char least_join[] = "if redis.call('SETNX', KEYS[1], 1) == 1 then return 1 end "
                                 "redis.call('RPUSH', KEYS[2], ARGV[1]) return 0";
static const char least_leave[] = "local heir = redis.call('LPOP', KEYS[2]) "
                                  "if heir then redis.call('PUBLISH', heir, 'yours') "
                                  "else redis.call('DEL', KEYS[1]) end return 1";

static void load(redisContext *c, const char *text, char hash[48])
{
    redisReply *reply = redis_do(c, "SCRIPT LOAD %s", text);
    snprintf(hash, 48, "%s", reply->str);
    freeReplyObject(reply);
}

static struct party *least_party(const struct redis *s)
{
    struct party *me = new_party();
    me->c = redis_dial(s, false);
    me->told = redis_dial(s, false);
    load(me->c, least_join, me->join);
    load(me->c, least_leave, me->leave);
    snprintf(me->token, sizeof me->token, "least:%ld", (long)getpid());
    freeReplyObject(redis_do(me->told, "SUBSCRIBE %s", me->token));
    return me;
}

static void least_acquire(struct party *me)
{
    void *message = NULL;
    if (number_of(redis_do(me->c, "EVALSHA %s 2 lock line %s", me->join, me->token)) == 1)
        return;
    bench_done(redisGetReply(me->told, &message) != REDIS_OK);
    freeReplyObject(message);
}

/* With a PING before it, as Rota does, so that the next one is woken first. */
static void least_release(struct party *me)
{
    redisAppendCommand(me->c, "PING");
    redisAppendCommand(me->c, "EVALSHA %s 2 lock line", me->leave);
    for (int i = 0; i < 2; i++) {
        void *reply = NULL;
        redisGetReply(me->c, &reply);
        freeReplyObject(redis_must(me->c, reply));
    }
}

static int least_waiting(const struct redis *s, redisContext *watch)
{
    (void)s;
    return number_of(redis_do(watch, "LLEN line"));
}

const struct way way_least = {
    "least", prepare, least_party, least_acquire, least_release, part, least_waiting,
};

/* ---- BLPOP -------------------------------------------------------------- */

static struct party *blpop_join(const struct redis *s)
{
    struct party *me = new_party();
    me->c = redis_dial(s, false);
    return me;
}

static void blpop_acquire(struct party *me)
{
    freeReplyObject(redis_do(me->c, "BLPOP token 0"));
}

static void blpop_release(struct party *me)
{
    freeReplyObject(redis_do(me->c, "RPUSH token t"));
}

static int blpop_waiting(const struct redis *s, redisContext *watch)
{
    struct redis by = *s;
    by.control = watch;
    return (int)redis_info(&by, "clients", "blocked_clients");
}

const struct way way_blpop = {
    "blpop", prepare, blpop_join, blpop_acquire, blpop_release, part, blpop_waiting,
};

/* ---- The herd ----------------------------------------------------------- */

static struct party *herd_join(const struct redis *s)
{
    struct party *me = new_party();
    me->c = redis_dial(s, false);
    me->told = redis_dial(s, false);
    simple_open(&me->simple, me->c);
    snprintf(me->token, sizeof me->token, "%ld", (long)getpid());
    freeReplyObject(redis_do(me->told, "SUBSCRIBE freed"));
    return me;
}

static void herd_acquire(struct party *me)
{
    void *message;
    while (!simple_try(&me->simple, "lock", me->token)) {
        message = NULL;
        if (redisGetReply(me->told, &message) != REDIS_OK)
            bench_done(1);
        freeReplyObject(message);
    }
}

static void herd_release(struct party *me)
{
    simple_leave(&me->simple, "lock", me->token);
    freeReplyObject(redis_do(me->c, "PUBLISH freed x"));
}

/* Counts subscribers, which is not quite the same as waiters: the first try may be in flight. */
static int herd_waiting(const struct redis *s, redisContext *watch)
{
    (void)s;
    redisReply *reply = redis_do(watch, "PUBSUB NUMSUB freed");
    int n = (int)reply->element[1]->integer - 1; /* the holder is subscribed too */
    freeReplyObject(reply);
    return n;
}

const struct way way_herd = {
    "herd", prepare, herd_join, herd_acquire, herd_release, part, herd_waiting,
};
