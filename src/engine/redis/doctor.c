/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: which promises hold on these servers as they are set, and what to change.
 *
 * What servers say of themselves is known from the greeting. Rights are found by doing: a ticket is
 * put, changed, looked at and taken out again in a line that no name can be; the clock by asking. */
#include "engine/redis/ops.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SCRATCH \
    "\x7f"      \
    "doctor"             /* no name has a control character, and no mark of ours this one */
#define SCRATCH_MS 10000 /* it ends by itself, too */
#define CLOCK_OFF_US 1000000
#define TURNS 200 /* looks at the server while the push connection comes up */

enum step {
    STEP_RIGHTS, /* first: scripts that lack one are not tried, they would fail halfway */
    STEP_JOIN,
    STEP_CHANGE,
    STEP_LEAVE,
    STEP_LIST,
    STEP_CLOCK,
    STEP_PUSH,
    STEPS
};

struct check {
    struct rt_work work; /* first */
    enum step step;
    uint32_t room, turns;
    uint64_t session, number;
    int64_t asked_us,
        off_us;        /* our clock when the last was sent; the server's is ahead by this much */
    uint64_t apart_us; /* of servers from each other, at most */
    bool refused, full;
    char refusal[256];
};

#define say(k, ...) rt_words_verdict((k)->work.op, __VA_ARGS__)

/* ---- What servers say ------------------------------------------------------------------- */

static bool evicts(const struct rt_resp_facts *f)
{
    return strncmp(f->policy, "allkeys-", 8) == 0;
}

/* How much a crash forgets, for comparing. */
static int how_sure(const struct rt_resp_facts *f)
{
    if (f->aof && f->replay == RT_RESP_REPLAY_DROPPED)
        return 0;
    if (!f->aof)
        return 1;
    if (f->replay == RT_RESP_REPLAY_UNKNOWN)
        return 2;
    if (f->config_refused || f->appendfsync[0] == '\0')
        return 3;
    if (strcmp(f->appendfsync, "no") == 0)
        return 4;
    return strcmp(f->appendfsync, "always") != 0 ? 5 : strcmp(f->rewrite, "no") != 0 ? 6 : 7;
}

/* Of all servers the worst setting of each kind, as if one had them all; false: none is known. */
static bool facts_of(const struct rt_redis_conn *c, struct rt_resp_facts *f)
{
    f->known = false;
    for (const struct rt_resp_node *node = c->link.nodes; node != NULL; node = node->next) {
        const struct rt_resp_facts *g = &node->facts;
        if (!g->known)
            continue;
        if (!f->known) {
            *f = *g;
            continue;
        }
        if (evicts(g) && (!evicts(f) || g->maxmemory > 0)) {
            memcpy(f->policy, g->policy, sizeof(f->policy));
            f->maxmemory = g->maxmemory;
        }
        if (how_sure(g) < how_sure(f)) {
            f->aof = g->aof;
            f->replay = g->replay;
            f->config_refused = g->config_refused;
            memcpy(f->appendfsync, g->appendfsync, sizeof(f->appendfsync));
            memcpy(f->rewrite, g->rewrite, sizeof(f->rewrite));
        }
    }
    return f->known;
}

static bool has_replicas(const struct rt_redis_conn *c, const struct rt_resp_facts *f)
{
    return f->replicas > 0 || f->cluster || c->link.sentinel != NULL;
}

/* Candidates, of which the first primary that answers is used. */
static bool is_one_of_several(const struct rt_redis_conn *c, const struct rt_resp_facts *f)
{
    return c->link.ring.count > 1 && !f->cluster && c->link.sentinel == NULL;
}

/* Whether even an orderly restart forgets: acl.c. */
static bool drops(const struct rt_resp_facts *f)
{
    return f->aof && f->replay == RT_RESP_REPLAY_DROPPED;
}

/* What a crash of the server forgets; NULL: nothing. */
static const char *forgets(const struct rt_resp_facts *f)
{
    if (!f->aof)
        return "appendonly no: a crash of the server forgets what it did since the last snapshot";
    if (drops(f))
        return "the user default may not write: on loading its file the server asks that, and drops "
               "what scripts wrote: any restart loses locks";
    if (f->replay == RT_RESP_REPLAY_UNKNOWN)
        return "whether a restart keeps what scripts wrote cannot be told: ACL GETUSER is refused to "
               "this user";
    if (f->config_refused || f->appendfsync[0] == '\0')
        return "appendfsync is not known: CONFIG GET is refused to this user";
    if (strcmp(f->appendfsync, "no") == 0)
        return "appendfsync no: a crash of its machine forgets what the kernel had not written "
               "yet, often 30 s";
    if (strcmp(f->appendfsync, "always") != 0)
        return "appendfsync is not always: a crash of its machine forgets the last second";
    if (strcmp(f->rewrite, "no") != 0)
        return "no-appendfsync-on-rewrite yes: a crash while the server saves forgets what it did "
               "meanwhile";
    return NULL;
}

static const char *keep_remedy(const struct rt_resp_facts *f)
{
    if (!f->aof)
        return "set appendonly yes and appendfsync always, or guard the resource by the fence";
    if (drops(f))
        return "ACL SETUSER default ~* &* +@all (it may stay off), and keep that in its ACL file";
    if (f->replay == RT_RESP_REPLAY_UNKNOWN)
        return "grant +acl|getuser, or look at the user default: docs/engines/redis.md, Traps";
    if (f->config_refused)
        return "grant +config|get, or guard the resource by the fence";
    if (strcmp(f->appendfsync, "always") == 0)
        return "set no-appendfsync-on-rewrite no, or guard the resource by the fence";
    return "set appendfsync always, or guard the resource by the fence";
}

static void check_holders(struct rt_redis_conn *c, struct check *k, const struct rt_resp_facts *f)
{
    char text[200];
    const char *promise = "one holder at a time (I1)";
    if (evicts(f) && f->maxmemory > 0) {
        (void)snprintf(text, sizeof(text), "maxmemory-policy %s: a held lock may be thrown away",
                       f->policy);
        say(k, promise, "broken", text, "set maxmemory-policy noeviction");
    } else if (is_one_of_several(c, f) && !drops(f)) {
        say(k, promise, "limited",
            "the URL names several servers: if two of them are primaries, each grants for itself",
            "name one, or let Sentinel say which it is");
    } else if (has_replicas(c, f) && !drops(f)) {
        (void)snprintf(
            text, sizeof(text),
            "replicas follow asynchronously: one that is promoted may lack the last grants"
            "%s",
            c->link.replicas > 0 ? "; replicas= makes it rarer" : "");
        say(k, promise, "limited", text,
            c->link.replicas > 0 ? "guard the resource by the fence"
                                 : "guard the resource by the fence; replicas=1 makes it rarer");
    } else if (forgets(f) != NULL) {
        say(k, promise, drops(f) ? "broken" : "limited", forgets(f), keep_remedy(f));
    } else {
        say(k, promise, "kept", "one server, appendfsync always", "");
    }
}

static void check_data(struct rt_redis_conn *c, struct check *k, const struct rt_resp_facts *f)
{
    bool sure = forgets(f) == NULL && !has_replicas(c, f) && !is_one_of_several(c, f) && !evicts(f);
    say(k, "fences only grow (I2)", sure ? "kept" : "limited",
        sure ? "the counter is on the disk"
             : "a counter that was lost goes on from the server's clock: larger, unless that "
               "went back",
        sure ? "" : "keep the clocks slewed, not stepped");
    say(k, "order of arrival (I7)", "kept", "one script at a time numbers all tickets", "");
    if (evicts(f))
        say(k, "durable tickets", f->maxmemory > 0 ? "broken" : "limited", f->policy,
            "set maxmemory-policy noeviction");
    else if (forgets(f) != NULL)
        say(k, "durable tickets", drops(f) ? "broken" : "limited", forgets(f), keep_remedy(f));
    else
        say(k, "durable tickets", sure ? "kept" : "limited",
            sure ? "appendfsync always" : "a promoted replica may lack the last ones",
            sure ? "" : "replicas=1 makes it rarer");
}

static void check_memory(struct check *k, const struct rt_resp_facts *f)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "%s, maxmemory %llu", f->policy,
                   (unsigned long long)f->maxmemory);
    if (evicts(f))
        say(k, "eviction", f->maxmemory > 0 ? "broken" : "limited", text,
            "set maxmemory-policy noeviction: our keys have no ttl");
    else
        say(k, "eviction", "kept", text, "");
    if (k->full)
        say(k, "memory", "broken", "it is used up: no new ask is granted, those that hold go on",
            "raise maxmemory, or make room");
}

static void check_server(struct rt_redis_conn *c, struct check *k, const struct rt_resp_facts *f)
{
    char text[200];
    size_t nodes = 0;
    for (const struct rt_resp_node *node = c->link.nodes; node != NULL; node = node->next)
        nodes++;
    if (f->cluster)
        (void)snprintf(text, sizeof(text), "Redis %s, cluster of %zu primaries, %u rooms",
                       f->version, nodes, c->room_count);
    else
        (void)snprintf(text, sizeof(text), "Redis %s, %s%s, %u replicas", f->version,
                       f->master ? "primary" : "replica",
                       c->link.sentinel != NULL ? " told by Sentinel" : "", f->replicas);
    say(k, "server", f->cluster || f->master ? "kept" : "broken", text,
        f->cluster || f->master ? "" : "name the primary, or its sentinels");
    if (!f->cluster && c->link.replicas > f->replicas) {
        (void)snprintf(text, sizeof(text), "replicas=%u, but %u are connected", c->link.replicas,
                       f->replicas);
        say(k, "replicas", "broken", text, "start them, or ask for fewer: nothing is granted");
    }
}

/* ---- What was found by asking ----------------------------------------------------------- */

static void check_clock(struct check *k)
{
    char text[128];
    uint64_t off = (uint64_t)(k->off_us < 0 ? -k->off_us : k->off_us);
    bool apart = k->apart_us > CLOCK_OFF_US;
    if (apart)
        (void)snprintf(text, sizeof(text), "servers are %.1f s apart from each other",
                       (double)k->apart_us / 1e6);
    else
        (void)snprintf(text, sizeof(text), "the server's is %.3f s %s ours", (double)off / 1e6,
                       k->off_us < 0 ? "behind" : "ahead of");
    say(k, "clock", apart || off > CLOCK_OFF_US ? "limited" : "kept", text,
        apart || off > CLOCK_OFF_US
            ? "run NTP on the servers, slewing: fences after a crash follow their clocks"
            : "");
}

static void check_rights(struct rt_redis_conn *c, struct check *k)
{
    char user[100];
    (void)snprintf(user, sizeof(user), "the user %.60s may do all that is needed",
                   c->link.user != NULL ? c->link.user : "default");
    if (k->refused)
        say(k, "rights", "broken", k->refusal, "grant what docs/engines/redis.md lists");
    else
        say(k, "rights", "kept", user, "");
    bool heard = c->rooms[k->room].subscribed;
    say(k, "pushes", heard ? "kept" : "broken",
        heard ? "subscribed" : "the channel of this client could not be subscribed to",
        heard ? "" : "grant +subscribe +ssubscribe and &rota:*; who waits learns it only by beats");
    say(k, "scripts", "kept", "by their hash, sent anew when the server forgot them", "");
}

static void report(struct rt_redis_conn *c, struct check *k)
{
    struct rt_resp_facts f;
    bool asked = k->work.op != NULL && k->work.err == 0;
    if (asked && facts_of(c, &f)) {
        check_holders(c, k, &f);
        check_data(c, k, &f);
        check_memory(k, &f);
        check_server(c, k, &f);
        check_clock(k);
        check_rights(c, k);
    } else if (asked) {
        rt_work_note(&c->base, &k->work,
                     rt_redis_fail(c, ROTA_UNREACHABLE, "no server has told of itself yet"));
    }
    rt_work_end(&c->base, &k->work, 0);
}

/* ---- Asking ----------------------------------------------------------------------------- */

static int64_t wall_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static rt_redis_answer_fn step_answered;

static void put_join(struct rt_redis_args *a, const struct rt_redis_conn *c, const struct check *k)
{
    rt_redis_arg(a, "tD");
    rt_redis_arg_sid(a, k->session, true);
    rt_redis_arg_number(a, c->base.ttl_ms);
    rt_redis_arg(a, "rota doctor");
    rt_redis_arg(a, SCRATCH);
    rt_redis_arg(a, "1 " SCRATCH);
    rt_redis_arg_text(a, "d%llu 1 %u 1 0 Dx 0 0 %s", (unsigned long long)k->session, RT_SHARED,
                      c->cid);
    rt_redis_arg_number(a, RT_SHARED);
    rt_redis_arg_number(a, 1);
    rt_redis_arg_number(a, 0);
    rt_redis_arg_number(a, 0);
    rt_redis_arg_number(a, SCRATCH_MS);
    rt_redis_arg(a, "tried");
}

static enum rt_redis_script put_step(struct rt_redis_args *a, const struct rt_redis_conn *c,
                                     const struct check *k)
{
    if (k->step == STEP_JOIN) {
        put_join(a, c, k);
        return RT_REDIS_SCRIPT_JOIN;
    }
    if (k->step == STEP_LIST) {
        rt_redis_arg(a, "0");
        return RT_REDIS_SCRIPT_LIST;
    }
    if (k->step == STEP_RIGHTS)
        return RT_REDIS_SCRIPT_RIGHTS;
    rt_redis_arg(a, SCRATCH);
    if (k->step == STEP_CLOCK || k->step == STEP_PUSH)
        return RT_REDIS_SCRIPT_INSPECT;
    rt_redis_arg_sid(a, k->session, true);
    rt_redis_arg_number(a, k->number);
    rt_redis_arg(a, k->step == STEP_CHANGE ? "V" : "1"); /* LEAVE: the nonce */
    if (k->step == STEP_CHANGE)
        rt_redis_arg(a, "changed");
    return k->step == STEP_CHANGE ? RT_REDIS_SCRIPT_CHANGE : RT_REDIS_SCRIPT_LEAVE;
}

static void send_step(struct rt_redis_conn *c, struct check *k)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    enum rt_redis_script script = put_step(&a, c, k);
    k->asked_us = wall_us();
    struct rt_redis_request *rq = rt_redis_request_new(script, k->room, a.count, a.at, a.lengths);
    rt_redis_args_close(&a);
    if (rq == NULL) {
        rt_work_note(&c->base, &k->work, ROTA_NOMEM);
        report(c, k);
        return;
    }
    rq->owner = k;
    rq->answer = step_answered;
    rq->call.entry.deadline = k->work.op->deadline;
    rq->call.entry.pending = &k->work.pending;
    rq->call.eval = k->step == STEP_RIGHTS; /* may it? All others go by their hash */
    rt_redis_send(c, rq);
}

/* A server's clock against ours, as of the middle of the flight; the greatest difference counts. */
static void note_clock(struct check *k, const redisReply *reply)
{
    int64_t off = rt_redis_int(reply, 0) - (k->asked_us + wall_us()) / 2;
    if (k->turns > 1) { /* not the first server */
        uint64_t apart = (uint64_t)(off > k->off_us ? off - k->off_us : k->off_us - off);
        k->apart_us = apart > k->apart_us ? apart : k->apart_us;
    } else {
        k->off_us = off;
    }
}

/* The first room of the next node; false: that was the last. */
static bool next_node(const struct rt_redis_conn *c, struct check *k)
{
    for (uint32_t room = k->room + 1; room < c->room_count; room++) {
        bool seen = c->link.places[room] == NULL;
        for (uint32_t i = 0; i < room && !seen; i++)
            seen = c->link.places[i] == c->link.places[room];
        if (!seen) {
            k->room = room;
            return true;
        }
    }
    return false;
}

/* What comes after the step that was answered; false: nothing. */
static bool advance(const struct rt_redis_conn *c, struct check *k)
{
    if (k->step == STEP_CLOCK && next_node(c, k))
        return true;
    if (k->step == STEP_PUSH)
        return !c->rooms[k->room].subscribed && ++k->turns < TURNS;
    if (k->step == STEP_CLOCK) {
        k->turns = 0;
        k->room = 0;
    }
    k->step = k->refused && k->step < STEP_CLOCK ? STEP_CLOCK : k->step + 1;
    return k->step != STEP_PUSH || !c->rooms[k->room].subscribed;
}

/* A right that is missing, and memory that is used up, are findings: the doctor goes on. */
static bool note_finding(struct rt_redis_conn *c, struct check *k, int err)
{
    if (err == ROTA_AUTH && !k->refused) {
        k->refused = true;
        (void)snprintf(k->refusal, sizeof(k->refusal), "%s", c->base.errmsg);
    }
    bool full = err == ROTA_UNREACHABLE && strstr(c->base.errmsg, "raise its maxmemory") != NULL;
    k->full = k->full || full;
    return err == ROTA_AUTH || full;
}

static void step_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct check *k = rq->owner;
    if (!note_finding(c, k, err))
        rt_work_note(&c->base, &k->work, err);
    if (err == 0 && k->step == STEP_RIGHTS && rt_redis_str(reply, 0)[0] != '\0' && !k->refused) {
        k->refused = true;
        (void)snprintf(k->refusal, sizeof(k->refusal), "the user lacks%s", rt_redis_str(reply, 0));
    }
    if (err == 0 && status == RT_REDIS_OK && k->step == STEP_JOIN)
        k->number = (uint64_t)rt_redis_int(reply, 2);
    if (err == 0 && k->step == STEP_CLOCK) {
        k->turns++;
        note_clock(k, reply);
    }
    if (k->work.op != NULL && k->work.err == 0 && advance(c, k))
        send_step(c, k);
    else
        report(c, k);
}

int rt_redis_begin_check(struct rt_redis_conn *c, struct rt_op *op)
{
    if (rt_redis_listen(c, 0) != 0)
        return rt_words_nomem(&c->base);
    struct check *k = rt_work_new(&c->side.works, &c->base, sizeof(*k), op);
    if (k == NULL)
        return ROTA_NOMEM;
    /* A durable session of its own, so that two doctors do not meet. */
    k->session = ++c->side.join_seq;
    for (size_t i = 0; i < 12; i++)
        k->session = k->session * 31 + (unsigned char)c->cid[i];
    k->session >>= 2;
    send_step(c, k);
    return 0;
}
