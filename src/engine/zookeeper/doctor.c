/* SPDX-License-Identifier: Apache-2.0 */
/* CHECK: what the servers can promise, and what stands in the way.
 *
 * Each server is asked `srvr`, `conf` and `mntr` over separate connections, and answers those that it allows (by
 * default only the first); over ours we ask who may touch the root. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define say(k, ...) rt_words_verdict((k)->work.op, __VA_ARGS__)

static const char *const words[] = {"srvr", "conf", "mntr"};
#define WORDS (sizeof(words) / sizeof(words[0]))
#define SAID_ROOM 8192

struct probe {               /* a word sent to a server */
    struct rt_stream stream; /* first */
    struct check *of;        /* NULL: nobody waits for it */
    size_t which, size;
    char said[SAID_ROOM];
};

struct check {
    struct rt_work work; /* first */
    struct rt_zk *z;
    struct probe *probes[RT_URL_HOSTS_MAX * WORDS];
    size_t count, open; /* of probes; how many the root is open to */
    int refusal;
    bool rootless;
};

static void judge(struct rt_zk *z, struct check *k);

/* ---- Asking ----------------------------------------------------------------------------------- */

static void on_closed(struct rt_stream *s)
{
    rt_free(s);
}

static void free_check(struct rt_conn *conn, struct rt_work *w)
{
    struct check *k = (struct check *)(void *)w;
    (void)conn;
    for (size_t i = 0; i < k->count; i++) {
        k->probes[i]->of = NULL;
        rt_stream_close(&k->probes[i]->stream, on_closed);
    }
}

static void one_over(struct check *k)
{
    if (k->work.pending == 0)
        judge(k->z, k);
}

static void on_up(struct rt_stream *s)
{
    const struct probe *p = (const struct probe *)(void *)s;
    (void)rt_stream_write(s, words[p->which % WORDS], 4);
    if (p->of != NULL)
        rt_stream_expect(s, p->of->z->base.call_ms / 2);
}

static void on_data(struct rt_stream *s, const char *bytes, size_t n)
{
    struct probe *p = (struct probe *)(void *)s;
    size_t room = SAID_ROOM - 1 - p->size;
    n = n < room ? n : room;
    memcpy(p->said + p->size, bytes, n);
    p->size += n;
}

/* They hang up after their answer. */
static void on_down(struct rt_stream *s, int err, const char *why)
{
    struct probe *p = (struct probe *)(void *)s;
    (void)err;
    (void)why;
    if (p->of == NULL)
        return;
    p->of->work.pending--;
    one_over(p->of);
}

static const struct rt_stream_user probe_user = {on_up, on_data, on_down};

static int ask_word(struct rt_zk *z, struct check *k, size_t which)
{
    const struct rt_dial_end *end = &z->c.link.ring.ends[which / WORDS];
    struct rt_stream_target target = {.host = end->host, .port = end->port, .tls = z->c.link.tls};
    struct probe *p = rt_alloc(sizeof(*p));
    int rv = p == NULL ? ROTA_NOMEM
                       : rt_stream_open(&p->stream, z->base.loop, &target, &probe_user,
                                        rt_dial_connect_ms(&z->base, z->c.link.ring.count));
    if (rv != 0) {
        rt_free(p);
        return rt_words_nomem(&z->base);
    }
    p->of = k;
    p->which = which;
    k->probes[k->count++] = p;
    k->work.pending++;
    return 0;
}

/* How many, and whether everybody is among them. */
static void rights_seen(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    struct check *k = a->owner;
    k->refusal = err;
    k->rootless = err == 0 && reply->said == RT_ZK_NO_NODE;
    for (size_t n = err == 0 && !k->rootless ? rt_jute_get_count(&reply->body, 12) : 0; n > 0;
         n--) {
        int32_t perms = rt_jute_get_int(&reply->body);
        struct rt_text scheme = rt_jute_get_bytes(&reply->body);
        (void)rt_jute_get_bytes(&reply->body);
        k->open += perms != 0 && scheme.size == 5 && memcmp(scheme.at, "world", 5) == 0;
    }
    rt_work_note(&z->base, &k->work, err == ROTA_AUTH ? 0 : err);
    one_over(k);
}

/* ---- Verdicts --------------------------------------------------------------------------------- */

/* The promise is kept; or limited, and REMEDY helps. */
static void promise(const struct check *k, const char *what, bool kept, const char *setting,
                    const char *remedy)
{
    say(k, what, kept ? "kept" : "limited", setting, kept ? "" : remedy);
}

/* The value after NAME at the beginning of a line in what server I said to WORD; false: it said none. */
static bool read_value(const struct check *k, size_t i, size_t word, const char *name, char out[64])
{
    const char *at = "";
    for (size_t n = 0; n < k->count; n++)
        if (k->probes[n]->which == i * WORDS + word)
            at = k->probes[n]->said;
    while (at != NULL && strncmp(at, name, strlen(name)) != 0) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    if (at == NULL || *at == '\0')
        return false;
    at += strlen(name);
    (void)snprintf(out, 64, "%.*s", (int)strcspn(at, "\n,-"), at);
    return true;
}

static void judge_servers(const struct check *k)
{
    const struct rt_dial_ring *ring = &k->z->c.link.ring;
    char text[400] = "", version[64], mode[64];
    size_t used = 0, serve = 0;
    for (size_t i = 0; i < ring->count; i++) {
        bool well = read_value(k, i, 0, "Mode: ", mode);
        serve += well;
        if (!read_value(k, i, 0, "Zookeeper version: ", version))
            (void)snprintf(version, sizeof(version), "?");
        if (used < sizeof(text))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.60s %s %.20s",
                                     i > 0 ? "; " : "", ring->ends[i].at,
                                     well ? mode : "does not say that it serves", version);
    }
    promise(k, "outages survived", serve == ring->count, text,
            "bring back who does not serve, or put srvr on 4lw.commands.whitelist");
}

static void judge_tick(const struct check *k)
{
    const struct rt_zk_conn *c = &k->z->c;
    char value[64], text[200];
    long most = 0;
    for (size_t i = 0; i < c->link.ring.count; i++)
        if (read_value(k, i, 1, "tickTime=", value) && strtol(value, NULL, 10) > most)
            most = strtol(value, NULL, 10);
    (void)snprintf(text, sizeof(text),
                   "ttl %u ms by a session of %u ms; tickTime %s%ld, counted with %u", c->ttl_ms,
                   c->session.timeout_ms, most == 0 ? "not told: " : "", most, c->tick_ms);
    if (!c->lone && most > (long)c->tick_ms)
        say(k, "told in time (I3)", "broken", text, "say it by ?tick_ms=");
    else
        promise(k, "told in time (I3)", c->lone || most > 0, text,
                "put conf on 4lw.commands.whitelist, or see that ?tick_ms= is no less");
}

static void judge_rest(const struct check *k)
{
    char value[64], text[160];
    if (k->refusal != 0)
        promise(k, "users", false, "who may touch the root may not be asked", "");
    else if (k->rootless)
        promise(k, "users", true, "there is no root yet: it will be made", "");
    else
        promise(k, "users", k->open == 0,
                k->open > 0 ? "everybody may touch the root" : "the root has an owner",
                "write a user into the URL, and setAcl the root");
    if (read_value(k, 0, 1, "maxClientCnxns=", value)) {
        (void)snprintf(text, sizeof(text), "maxClientCnxns=%.20s for each host", value);
        promise(k, "clients", true, text, "");
    }
    if (read_value(k, 0, 2, "zk_fsync_threshold_exceed_count\t", value) &&
        strcmp(value, "0") != 0) {
        (void)snprintf(text, sizeof(text), "%.20s writes to disk took more than a second", value);
        promise(k, "speed", false, text, "give the log a disk of its own (dataLogDir)");
    }
}

static void judge(struct rt_zk *z, struct check *k)
{
    if (k->work.err == 0) {
        bool line = z->dialect->lone == NULL;
        promise(k, "one holder at a time (I1)", true, "a majority has every grant on its disks",
                "");
        promise(k, "order of arrival (I7)", line,
                line ? "sequential nodes" : "all who wait watch one node, and run for it",
                "leave ?dialect=simple out");
        promise(k, "fence (I2)", true, "the czxid of a ticket's node", "");
        judge_servers(k);
        judge_tick(k);
        judge_rest(k);
    }
    rt_zk_end(z, &k->work, 0);
}

static int begin_check(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    struct check *k = (struct check *)(void *)w;
    k->z = z;
    int rv = rt_zk_work_send(z, w, rt_zk_path(&z->c, RT_ZK_GET_ACL, rt_zk_root(z), rights_seen), 0);
    for (size_t i = 0; rv == 0 && i < z->c.link.ring.count * WORDS; i++)
        rv = ask_word(z, k, i);
    rt_work_note(&z->base, w, rv);
    return w->pending == 0 ? rv : 0;
}

const struct rt_turn_kind rt_zk_doctor = {
    .size = sizeof(struct check), .begin = begin_check, .free = free_check};
