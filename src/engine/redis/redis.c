/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis engine: its table of functions, what it is to its connection, what it can promise. */
#include "engine/redis/redis.h"

#include "base/alloc.h"
#include "engine/kit/hash.h"
#include "engine/redis/dialect/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT_MAJOR 1
#define LAYOUT "1.0"

/* ---- Rooms --------------------------------------------------------------------------------------- */

uint32_t rt_redis_room_of(const struct rt_redis_conn *c, const char *name)
{
    if (c->room_count <= 1)
        return 0;
    return (uint32_t)(rt_hash(name, strlen(name)) & UINT32_MAX) % c->room_count;
}

void rt_redis_room_key(const struct rt_redis_conn *c, uint32_t room, char *out, size_t size)
{
    if (c->link.db == 0)
        snprintf(out, size, "rota:{%u}", room);
    else
        snprintf(out, size, "rota:{%u}@%u", room, c->link.db);
}

/* ---- Requests ------------------------------------------------------------------------------------- */

struct rt_redis_request *rt_redis_request_new(enum rt_redis_script script, uint32_t room,
                                              size_t argc, const char *const *args,
                                              const size_t *lengths)
{
    struct rt_redis_request *rq = (struct rt_redis_request *)(void *)rt_resp_request_new(
        sizeof(*rq), (int)script, room, argc, args, lengths);
    if (rq == NULL)
        return NULL;
    /* What the server knows of our tickets first: a beat's success must not be told before what it has lost. */
    rq->call.entry.first = rq->call.eval = script == RT_REDIS_SCRIPT_HELD;
    /* Asking again finds out what these did; of the others nothing is left that does not end by itself. */
    rq->call.traced = script == RT_REDIS_SCRIPT_JOIN || script == RT_REDIS_SCRIPT_LEAVE ||
                      script == RT_REDIS_SCRIPT_CHANGE || script == RT_REDIS_SCRIPT_BREAK;
    return rq;
}

void rt_redis_send(struct rt_redis_conn *c, struct rt_redis_request *rq)
{
    if (rq->call.script == RT_REDIS_SCRIPT_LEAVE && c->side.handed > 0) {
        c->side.handed--; /* whoever waits behind it is woken first */
        rq->call.speaks_last = true;
    }
    rt_resp_send(&c->link, &rq->call);
}

/* ---- What it can promise ------------------------------------------------------------------------------------ */

/* Why a crash could forget a grant or a fence; "": nothing that is known. */
static const char *danger(const struct rt_redis_conn *c)
{
    const struct rt_resp_facts *f = c->link.nodes != NULL ? &c->link.nodes->facts : NULL;
    if (c->rooms != NULL && (c->link.sentinel != NULL || c->room_count > 1))
        return "a replica that is promoted may lack the last grants: use a single server";
    if (c->rooms == NULL || f == NULL || !f->known)
        return "the server has not been reached yet";
    if (c->link.ring.count > 1)
        return "the URL names several servers, and two of them may be primaries, which know nothing "
               "of each other: name one";
    if (f->replicas > 0)
        return "the server has replicas, and one that is promoted may lack the last grants: use a "
               "server without";
    if (strncmp(f->policy, "volatile-", 9) == 0)
        return "maxmemory-policy is volatile: it spares locks, which have no ttl, but strict takes "
               "no other than noeviction: set maxmemory-policy noeviction";
    if (strcmp(f->policy, "noeviction") != 0)
        return "the server may evict locks when memory is short: set maxmemory-policy noeviction";
    if (!f->aof)
        return "appendonly is no: a crash forgets what was not saved; set appendonly yes and "
               "appendfsync always";
    if (f->replay == RT_RESP_REPLAY_DROPPED)
        return "a restart drops what scripts wrote, as the user default may not write: "
               "ACL SETUSER default ~* &* +@all, on or off, and save it";
    if (f->replay == RT_RESP_REPLAY_UNKNOWN)
        return "the user may not ask whether a restart keeps what scripts wrote: allow it "
               "+acl|getuser";
    if (f->config_refused || f->appendfsync[0] == '\0')
        return "the user may not ask for appendfsync: allow it +config|get";
    if (strcmp(f->rewrite, "no") != 0)
        return "no-appendfsync-on-rewrite is yes: a crash while the server saves may forget the "
               "last writes; set no-appendfsync-on-rewrite no";
    if (strcmp(f->appendfsync, "no") == 0)
        return "appendfsync is no: a crash may forget the last writes; set appendfsync always";
    if (strcmp(f->appendfsync, "always") != 0)
        return "appendfsync is everysec: a crash may forget the last second; set appendfsync "
               "always";
    return "";
}

static void on_judge(struct rt_resp_conn *link)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    snprintf(c->base.unsafe, sizeof(c->base.unsafe), "%s", danger(c));
    atomic_store_explicit(&c->strict, c->base.unsafe[0] == '\0', memory_order_relaxed);
}

/* ---- On its connection ------------------------------------------------------------------------------ */

static struct rt_resp_text on_text(const struct rt_resp_conn *link, int script)
{
    const struct rt_redis_text *t = rt_redis_script_text((enum rt_redis_script)script,
                                                         link->cluster);
    return (struct rt_resp_text){t->text, t->length, t->sha1};
}

/* Written once for all calls in the same room: that is most of them. */
static const char *on_key(struct rt_resp_conn *link, const struct rt_resp_request *rq)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    if (rq->script == RT_REDIS_SCRIPT_META)
        return "rota:{0}:meta";
    if (c->key[0] == '\0' || c->key_room != rq->place)
        rt_redis_room_key(c, rq->place, c->key, sizeof(c->key));
    c->key_room = rq->place;
    return c->key;
}

static uint32_t on_slot(uint32_t room)
{
    char text[16];
    snprintf(text, sizeof(text), "{%u}", room);
    return rt_resp_slot(text);
}

static void on_answer(struct rt_resp_conn *link, struct rt_resp_request *call, int err, int status,
                      const redisReply *reply)
{
    struct rt_redis_request *rq = (struct rt_redis_request *)(void *)call;
    if (rq->answer != NULL)
        rq->answer(rt_redis_of_link(link), rq, err, status, reply);
}

static bool on_laid(struct rt_resp_conn *link)
{
    struct rt_redis_conn *c = rt_redis_of_link(link);
    c->rooms = rt_alloc(link->place_count * sizeof(*c->rooms));
    if (c->rooms == NULL)
        return false;
    for (uint32_t i = 0; i < link->place_count; i++)
        c->rooms[i].ends_at = RT_NEVER;
    c->room_count = link->place_count;
    return true;
}

/* Pushes are published by scripts and heard on another link: whether the user may do that is found out
 * here, and not when the first grant does not come. Nobody listens to this one. */
static void on_mark(struct rt_resp_link *l)
{
    struct rt_redis_conn *c = rt_redis_of_link(l->conn);
    char rooms[16], room[64], channel[96];
    const char *args[] = {LAYOUT, rooms};
    const char *publish[] = {l->conn->cluster ? "SPUBLISH" : "PUBLISH", channel, ""};
    snprintf(rooms, sizeof(rooms), "%u", c->room_count);
    rt_redis_room_key(c, 0, room, sizeof(room));
    snprintf(channel, sizeof(channel), "%s:p:", room);
    size_t lengths[] = {strlen(LAYOUT), strlen(rooms)};
    struct rt_redis_request *rq = rt_redis_request_new(RT_REDIS_SCRIPT_META, 0, 2, args, lengths);
    rt_resp_mark(l, rq != NULL ? &rq->call : NULL, publish, 3);
}

static bool on_marked(struct rt_resp_link *l, const redisReply *reply)
{
    uint32_t room_count = rt_redis_of_link(l->conn)->room_count;
    if (reply->elements < 4 || reply->element[2]->type != REDIS_REPLY_STRING ||
        reply->element[3]->type != REDIS_REPLY_STRING) {
        rt_resp_fatal(l, ROTA_PROTOCOL, "redis %s: rota:{0}:meta is not as Rota writes it",
                      rt_resp_at(l));
        return false;
    }
    const char *layout = reply->element[2]->str, *rooms = reply->element[3]->str;
    if (strtol(layout, NULL, 10) != LAYOUT_MAJOR)
        rt_resp_fatal(l, ROTA_UNSUPPORTED,
                      "redis %s has Rota's layout %.20s, and this library knows %d: use a "
                      "library that fits",
                      rt_resp_at(l), layout, LAYOUT_MAJOR);
    else if (strtoul(rooms, NULL, 10) != room_count)
        rt_resp_fatal(l, ROTA_UNSUPPORTED,
                      "redis %s was laid out for %.20s rooms, and as it is now it would have %u: "
                      "it was another kind of server (single, cluster) then",
                      rt_resp_at(l), rooms, room_count);
    else
        return true;
    return false;
}

static void on_link(struct rt_resp_conn *link, bool up)
{
    rt_conn_event(link->base, &(struct rt_event){.kind = RT_LINK, .up = up});
}

/* Grants come over it. */
static bool on_listens(struct rt_resp_conn *link, const struct rt_resp_node *node)
{
    const struct rt_redis_conn *c = rt_redis_of_link(link);
    if (c->side.views != NULL)
        return true;
    for (uint32_t i = 0; i < c->room_count; i++)
        if (link->places[i] == node && c->rooms[i].waiting > 0)
            return true;
    return false;
}

static const struct rt_resp_user user = {
    .name = "redis",
    .scripts = RT_REDIS_SCRIPTS,
    .places = RT_REDIS_ROOMS_CLUSTER,
    .text = on_text,
    .key = on_key,
    .slot = on_slot,
    .answer = on_answer,
    .laid = on_laid,
    .mark = on_mark,
    .marked = on_marked,
    .judge = on_judge,
    .link = on_link,
    .linked = rt_redis_linked,
    .failed = rt_redis_failed,
    .pushed = rt_redis_pushed,
    .listens = on_listens,
};

/* ---- The engine --------------------------------------------------------------------------------------- */

static int draw_id(struct rt_redis_conn *c)
{
    uint8_t bytes[6] = {0};
    int rv = rt_dial_random(&c->base, bytes, sizeof(bytes));
    bytes[0] &= 0x7f; /* a session id is below 2^63, and never begins like a durable one, with d */
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(c->cid + 2 * i, 3, "%02x", bytes[i]);
    return rv;
}

static int redis_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_redis_conn *c = (struct rt_redis_conn *)conn;
    if (strcmp(rt_url_param(url, "dialect", "line"), "line") != 0) {
        conn->engine = &rt_engine_dialect; /* from here on it is another engine, in the same room */
        return conn->engine->open(conn, url);
    }
    snprintf(conn->unsafe, sizeof(conn->unsafe), "the server has not been reached yet");
    int rv = rt_resp_conn_open(&c->link, conn, url, &user);
    if (rv != 0)
        return rv;
    rv = draw_id(c);
    if (rv == 0)
        rv = rt_redis_side_open(c);
    if (rv == 0) {
        rt_resp_want(&c->link);
        return 0;
    }
    rt_resp_conn_close(&c->link);
    if (rv == ROTA_NOMEM)
        (void)rt_redis_fail(c, rv, "out of memory");
    return rv;
}

static void redis_close(struct rt_conn *conn)
{
    struct rt_redis_conn *c = (struct rt_redis_conn *)conn;
    rt_redis_side_close(c);
    rt_resp_conn_close(&c->link);
    rt_work_close(&c->side.works, conn); /* requests of theirs have ended only now */
    rt_free(c->rooms);
}

static void redis_forked(struct rt_conn *conn)
{
    rt_resp_conn_forked(&((struct rt_redis_conn *)conn)->link);
}

static uint32_t redis_caps(const struct rt_conn *conn)
{
    uint32_t caps = ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS |
                    ROTA_CAP_WANTED | ROTA_CAP_DURABLE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS;
    const struct rt_redis_conn *c = (const struct rt_redis_conn *)(const void *)conn;
    bool strict = atomic_load_explicit(&c->strict, memory_order_relaxed);
    return strict ? caps | ROTA_CAP_STRICT : caps;
}

static const char *const schemes[] = {"redis", "rediss", "redis+unix", NULL};
static const char *const params[] = {"sentinel", "replicas", "db", "dialect", NULL};

union conn { /* a line's, or a dialect's */
    struct rt_redis_conn line;
    struct rt_dia_conn dialect;
};

const struct rt_engine rt_engine_redis = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(union conn),
    .open = redis_open,
    .close = redis_close,
    .submit = rt_redis_submit,
    .cancel = rt_redis_cancel,
    .caps = redis_caps,
    .forked = redis_forked,
    .trouble = rt_redis_trouble,
};
