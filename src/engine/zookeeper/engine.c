/* SPDX-License-Identifier: Apache-2.0 */
/* The ZooKeeper engine: its table of functions, tickets of ours, paths, cards. */
#include "engine/zookeeper/ops.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS_FIRST 64
#define SIDE_TIMERS 1
#define CARD "rota1 "

/* ---- Paths ------------------------------------------------------------------------------------ */

/* "." and "..", which are names but cannot be parts of a path, are spelled as no other name is. */
static const char *const dots[][2] = {{".", "%2E"}, {"..", "%2E%2E"}};

/* NAME in the other spelling if it is one of dots[][FROM]; else as it is. */
static const char *respelled(const char *name, int from)
{
    for (size_t i = 0; i < 2; i++)
        if (strcmp(name, dots[i][from]) == 0)
            return dots[i][1 - from];
    return name;
}

static char *next_path(struct rt_zk *z)
{
    return z->paths[z->path_count++ % RT_ZK_PATHS];
}

const char *rt_zk_line_path(struct rt_zk *z, const char *name)
{
    char *path = next_path(z);
    (void)snprintf(path, RT_ZK_PATH_ROOM, "%s/%s", z->root, respelled(name, 0));
    return path;
}

const char *rt_zk_node_path(struct rt_zk *z, const char *name, const char *node)
{
    char *path = next_path(z);
    (void)snprintf(path, RT_ZK_PATH_ROOM, "%s/%s/%s", z->root, respelled(name, 0), node);
    return path;
}

const char *rt_zk_session_path(struct rt_zk *z, uint64_t id)
{
    char *path = next_path(z);
    (void)snprintf(path, RT_ZK_PATH_ROOM, "%s/" RT_ZK_SESSIONS "/%016" PRIx64, z->root, id);
    return path;
}

const char *rt_zk_root(const struct rt_zk *z)
{
    return z->root[0] != '\0' ? z->root : "/";
}

static bool is_below(const char *name, const char *top)
{
    size_t n = strlen(top);
    return strncmp(name, top, n) == 0 && (name[n] == '\0' || name[n] == '/');
}

/* It is ours, or the servers'. */
static bool is_taken(const struct rt_zk *z, const char *name)
{
    return is_below(name, RT_ZK_SESSIONS) ||
           respelled(name, 1) != name || /* raw: else % is escaped */
           (z->root[0] == '\0' && is_below(name, "zookeeper"));
}

static bool is_path(const char *name)
{
    const char *at = respelled(name, 0);
    for (;; at++) {
        size_t n = strcspn(at, "/");
        if (n == 0 || (n <= 2 && strncmp(at, "..", n) == 0))
            return false;
        at += n;
        if (*at == '\0')
            return true;
    }
}

/* ?names=raw: whether it can stand in a path as it is. */
int rt_zk_check_name(struct rt_zk *z, const char *name)
{
    int rv = rt_check_name(&z->base, name);
    if (rv == 0 && is_taken(z, name))
        return rt_words_fail(&z->base, ROTA_INVALID, "the name %.100s is taken on ZooKeeper", name);
    if (rv == 0 && !is_path(name))
        return rt_words_fail(&z->base, ROTA_INVALID, "the name %.100s is no path on ZooKeeper",
                             name);
    return rv;
}

bool rt_zk_name_read(const struct rt_zk *z, struct rt_text part, char out[RT_NAME_ROOM])
{
    if (part.size == 0 || part.size >= RT_NAME_ROOM)
        return false;
    memcpy(out, part.at, part.size);
    out[part.size] = '\0';
    const char *name = respelled(out, 1);
    if (name != out)
        memcpy(out, name, strlen(name) + 1);
    return !is_taken(z, out);
}

static void way_made(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    (void)a;
    (void)reply;
    if (err == 0 || z->way.err != 0) /* the first that is refused says why */
        return;
    z->way.err = err;
    (void)snprintf(z->way.said, sizeof(z->way.said), "%s", z->base.errmsg);
}

int rt_zk_no_way(struct rt_zk *z, const char *path)
{
    const char *why = z->way.err != 0 ? z->way.said : "its root needs a right to create in it";
    return rt_words_fail(&z->base, z->way.err != 0 ? z->way.err : ROTA_AUTH,
                         "%.100s cannot be made: %.120s", path, why);
}

int rt_zk_make_way(struct rt_zk *z, const char *path)
{
    char part[RT_ZK_PATH_ROOM];
    size_t root = strlen(z->root);
    int rv = 0;
    z->way.err = 0;
    for (const char *at = path + 1; rv == 0 && (at = strchr(at, '/')) != NULL; at++) {
        size_t n = (size_t)(at - path);
        (void)snprintf(part, sizeof(part), "%.*s", (int)n, path);
        enum rt_zk_call call = n <= root ? RT_ZK_CREATE : RT_ZK_CONTAINER;
        struct rt_zk_ask *a = rt_zk_create(&z->c, call, part, (struct rt_text){"", 0},
                                           RT_ZK_PERSISTENT, way_made);
        a->entry.again = true;
        rv = rt_zk_post(&z->c, a);
    }
    return rv;
}

int rt_zk_chore_delete(struct rt_zk *z, const char *name, const char *node)
{
    int rv = rt_zk_post(&z->c, rt_zk_delete(&z->c, rt_zk_node_path(z, name, node), NULL));
    z->session.doubtful = z->session.doubtful || rv != 0;
    return rv;
}

void rt_zk_multi_heir(struct rt_zk *z, struct rt_zk_ask *a, const char *name, const char *node,
                      const char *heir, struct rt_text data, uint32_t flags)
{
    const char *path = rt_zk_node_path(z, name, node);
    rt_zk_multi_set(a, path, data, -1);
    rt_zk_multi_delete(a, path);
    rt_zk_multi_create(&z->c, a, rt_zk_node_path(z, name, heir), data, flags);
}

struct rt_zk_ask *rt_zk_take_out(struct rt_zk *z, const char *name, const char *node,
                                 rt_zk_answer_fn *answer)
{
    const char *path = rt_zk_node_path(z, name, node);
    if (z->dialect->lone == NULL)
        return rt_zk_delete(&z->c, path, answer);
    struct rt_zk_ask *a = rt_zk_ask_new(&z->c, RT_ZK_MULTI, answer);
    rt_zk_multi_delete(a, path); /* nobody else's: if it is not there, the other one stays too */
    rt_zk_multi_delete(a, rt_zk_node_path(z, name, z->dialect->lone));
    if (a != NULL)
        a->entry.again = true;
    return a;
}

/* ---- Cards, clocks ---------------------------------------------------------------------------- */

struct rt_text rt_zk_label(const struct rt_zk *z)
{
    const char *label = z->base.label != NULL ? z->base.label : "";
    return (struct rt_text){label, strnlen(label, RT_LABEL_MAX)};
}

struct rt_text rt_zk_card_write(struct rt_zk *z, uint64_t owner, const char *value)
{
    struct rt_text label = rt_zk_label(z);
    int n = z->dialect->bare && value != NULL
                ? snprintf(z->card, RT_ZK_CARD_ROOM, "%s", value)
                : snprintf(z->card, RT_ZK_CARD_ROOM, CARD "%" PRIx64 " %zu %.*s%s", owner,
                           label.size, (int)label.size, (const char *)label.at,
                           value != NULL ? value : "");
    assert(n >= 0 && n < RT_ZK_CARD_ROOM);
    return (struct rt_text){z->card, (size_t)n};
}

void rt_zk_card_read(const struct rt_zk *z, struct rt_text data, struct rt_zk_card *card)
{
    char head[48], *at; /* all that stands before the label */
    size_t n = sizeof(CARD) - 1;
    *card = (struct rt_zk_card){.value = data, .foreign = !z->dialect->bare};
    if (data.size < n || memcmp(data.at, CARD, n) != 0)
        return;
    (void)snprintf(head, sizeof(head), "%.*s", (int)data.size, (const char *)data.at);
    uint64_t owner = strtoull(head + n, &at, 16), size = *at == ' ' ? strtoull(at + 1, &at, 10) : 0;
    n = (size_t)(at - head) + 1;
    if (*at != ' ' || n > data.size || size > data.size - n)
        return;
    const char *label = (const char *)data.at + n;
    *card = (struct rt_zk_card){
        .owner = owner, .label = {label, size}, .value = {label + size, data.size - n - size}};
}

int64_t rt_zk_now_ms(const struct rt_zk *z)
{
    return z->server_ms == 0 ? 0
                             : z->server_ms + (rt_loop_now(z->base.loop) - z->server_at) / RT_MS;
}

void rt_zk_clock(struct rt_zk *z, int64_t ms)
{
    z->server_ms = ms;
    z->server_at = rt_loop_now(z->base.loop);
}

int64_t rt_zk_shown_ms(const struct rt_zk *z)
{
    int64_t now = rt_zk_now_ms(z);
    struct timespec ts;
    if (now != 0)
        return now;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- Tickets ---------------------------------------------------------------------------------- */

static struct rt_zk_ticket **bucket(const struct rt_zk *z, struct rt_zk_ticket **table, uint64_t id)
{
    return &table[id & (z->bucket_count - 1)];
}

static void link_nonce(struct rt_zk *z, struct rt_zk_ticket *t)
{
    struct rt_zk_ticket **at = bucket(z, z->by_nonce, t->id.nonce);
    t->same_nonce = *at;
    *at = t;
}

static void link_number(struct rt_zk *z, struct rt_zk_ticket *t)
{
    struct rt_zk_ticket **at = bucket(z, z->by_number, t->number);
    t->same_number = *at;
    *at = t;
}

/* False: there is no table at all. Without memory for a larger one it stays as it is, and is slower. */
static bool room_for_one(struct rt_zk *z)
{
    size_t count = z->bucket_count > 0 ? 2 * z->bucket_count : BUCKETS_FIRST;
    if (z->ticket_count < z->bucket_count)
        return true;
    struct rt_zk_ticket **tables = rt_alloc(2 * count * sizeof(struct rt_zk_ticket *));
    if (tables == NULL)
        return z->bucket_count > 0;
    rt_free(z->by_nonce);
    z->by_nonce = tables;
    z->by_number = tables + count;
    z->bucket_count = count;
    for (struct rt_zk_ticket *t = z->tickets; t != NULL; t = t->next) {
        link_nonce(z, t);
        link_number(z, t);
    }
    return true;
}

struct rt_zk_ticket *rt_zk_ticket_new(struct rt_zk *z, const struct rt_join *join, const char *node,
                                      uint64_t number)
{
    struct rt_zk_ticket *t = rt_alloc(sizeof(*t));
    char *name = rt_strdup(join->name), *value = NULL;
    if (join->value != NULL)
        value = rt_strdup(join->value);
    bool room = room_for_one(z);
    if (!room || t == NULL || name == NULL || (value == NULL && join->value != NULL)) {
        rt_free(t);
        rt_free(name);
        rt_free(value);
        (void)rt_words_nomem(&z->base);
        return NULL;
    }
    struct rt_zk_id id;
    rt_zk_node_read(z->dialect, node, &id);
    rt_zk_ticket_renamed(t, node, &id);
    t->name = name;
    t->value = value;
    t->owner = join->owner;
    t->number = number;
    t->serial = ++z->serial;
    t->at_least_ms = t->id.durable ? 0 : join->at_least_ms;
    t->armed = join->flags & RT_JOIN_ARM;
    t->ends_at = RT_NEVER;
    RT_LIST_ADD(&z->tickets, t);
    z->ticket_count++;
    link_nonce(z, t);
    link_number(z, t);
    return t;
}

static void unlink_number(struct rt_zk *z, struct rt_zk_ticket *t)
{
    struct rt_zk_ticket **at = bucket(z, z->by_number, t->number);
    while (*at != t)
        at = &(*at)->same_number;
    *at = t->same_number;
}

void rt_zk_ticket_renumber(struct rt_zk *z, struct rt_zk_ticket *t, uint64_t number)
{
    unlink_number(z, t);
    t->number = number;
    link_number(z, t);
}

void rt_zk_ticket_drop(struct rt_zk *z, struct rt_zk_ticket *t)
{
    struct rt_zk_ticket **nonce = bucket(z, z->by_nonce, t->id.nonce);
    while (*nonce != t)
        nonce = &(*nonce)->same_nonce;
    *nonce = t->same_nonce;
    unlink_number(z, t);
    RT_LIST_OUT(t);
    z->ticket_count--;
    rt_zk_wait_end(t);
    rt_free(t->name);
    rt_free(t->value);
    rt_free(t);
}

void rt_zk_ticket_renamed(struct rt_zk_ticket *t, const char *node, const struct rt_zk_id *id)
{
    if (node != t->node)
        (void)snprintf(t->node, sizeof(t->node), "%s", node);
    t->id = *id;
}

void rt_zk_tell(struct rt_zk *z, enum rt_event_kind kind, const struct rt_zk_ticket *t)
{
    struct rt_event event = {.kind = kind,
                             .session = t->id.session,
                             .number = t->number,
                             .nonce = t->id.nonce,
                             .name = t->name};
    if (kind == RT_GRANTED && t->called != 0) {
        event.number = t->called;
        event.fence = t->number;
    }
    rt_conn_event(&z->base, &event);
}

void rt_zk_ticket_lost(struct rt_zk *z, struct rt_zk_ticket *t)
{
    if (t->leaving)
        return;         /* its LEAVE says what became of it */
    if (t->called != 0) /* its number is known only once its grant was heard */
        rt_zk_tell(z, RT_GRANTED, t);
    rt_zk_tell(z, RT_TICKET_LOST, t);
    rt_zk_ticket_drop(z, t);
}

struct rt_zk_ticket *rt_zk_ticket_find(struct rt_zk *z, const char *name, uint64_t session,
                                       uint64_t number, uint64_t nonce)
{
    if (z->bucket_count == 0)
        return NULL;
    struct rt_zk_ticket *t = number != 0 ? *bucket(z, z->by_number, number)
                                         : *bucket(z, z->by_nonce, nonce);
    while (t != NULL &&
           (t->id.session != session || !rt_names_ticket(number, nonce, t->number, t->id.nonce) ||
            strcmp(t->name, name) != 0))
        t = number != 0 ? t->same_number : t->same_nonce;
    return t;
}

struct rt_zk_ticket *rt_zk_ticket_of(struct rt_zk *z, const struct rt_zk_ask *a)
{
    struct rt_zk_ticket *t = z->bucket_count > 0 ? *bucket(z, z->by_nonce, a->extra) : NULL;
    while (t != NULL && (t != a->owner || t->id.nonce != a->extra))
        t = t->same_nonce;
    return t;
}

/* ---- The engine ------------------------------------------------------------------------------- */

static struct rt_zk *of(struct rt_conn *conn)
{
    return (struct rt_zk *)(void *)conn;
}

static void on_linked(struct rt_zk *z)
{
    rt_conn_event(&z->base, &(struct rt_event){.kind = RT_LINK, .up = true});
    if (z->session.id != 0)
        rt_zk_verify(z);
}

static void on_lost(struct rt_zk *z)
{
    rt_conn_event(&z->base, &(struct rt_event){.kind = RT_LINK, .up = false});
}

static const struct rt_zk_user conn_user = {
    .linked = on_linked, .lost = on_lost, .expired = rt_zk_expired};

static void on_cancel(void *engine, struct rt_op *op)
{
    (void)rt_zk_cancel(&((struct rt_zk *)engine)->c, op);
}

static void on_end(void *engine, struct rt_work *w)
{
    struct rt_zk *z = engine;
    z->session.doubtful = z->session.doubtful ||
                          (w->err == ROTA_UNKNOWN && w->op->kind != RT_OP_BEAT);
}

static const struct rt_turn_kind *const kinds[] = {
    [RT_OP_BEAT] = &rt_zk_beat,       [RT_OP_JOIN] = &rt_zk_join,
    [RT_OP_JOIN_ALL] = &rt_zk_join,   [RT_OP_CHANGE] = &rt_zk_change,
    [RT_OP_LEAVE] = &rt_zk_leave,     [RT_OP_OBSERVE] = &rt_zk_observe,
    [RT_OP_INSPECT] = &rt_zk_inspect, [RT_OP_LIST] = &rt_zk_list,
    [RT_OP_BREAK] = &rt_zk_break,     [RT_OP_CHECK] = &rt_zk_doctor,
};
static const struct rt_turn_user turn_user = {kinds, on_cancel, on_end, "zookeeper"};

static int take_root(struct rt_zk *z, const struct rt_url *url)
{
    size_t n = strlen(url->path);
    while (n > 0 && url->path[n - 1] == '/')
        n--;
    if (n > RT_ZK_ROOT_MAX)
        return rt_words_fail(&z->base, ROTA_INVALID, "the path of the URL is longer than %d bytes",
                             RT_ZK_ROOT_MAX);
    char root[RT_ZK_ROOT_MAX + 1] = "";
    memcpy(root, url->path, n);
    if (n > 0 && rt_zk_check_name(z, root + 1) != 0) /* as a name below the root of all */
        return rt_words_fail(&z->base, ROTA_INVALID, "%.100s, of the URL, is no path on ZooKeeper",
                             root);
    memcpy(z->root, root, n);
    return 0;
}

static int take_dialect(struct rt_zk *z, const struct rt_url *url)
{
    const char *name = rt_url_param(url, "dialect", "curator");
    z->dialect = rt_zk_dialect(strcmp(name, "line") == 0 ? "curator" : name);
    if (z->dialect != NULL && z->dialect->lone != NULL)
        (void)snprintf(z->base.unsafe, sizeof(z->base.unsafe),
                       "?dialect=simple is there to be seen and measured: leave it out, and "
                       "there is order, and no herd");
    if (z->dialect != NULL)
        return 0;
    return rt_words_fail(
        &z->base, ROTA_INVALID,
        "zk: has no dialect '%.40s', but curator, curator-rw, curator-latch, kazoo, simple", name);
}

static int zk_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_zk *z = of(conn);
    rt_turns_init(&z->turns, conn, z, &turn_user);
    z->observers = (struct rt_observers){.user = &rt_zk_observer_user, .turns = &z->turns};
    z->timer = (struct rt_timer_call){.timer = {.kind = RT_TIMER_CALL}, .fire = rt_zk_wait_fire};
    int rv = take_root(z, url);
    if (rv == 0)
        rv = take_dialect(z, url);
    if (rv == 0)
        rv = rt_zk_conn_open(&z->c, conn, url, &conn_user, z);
    if (rv != 0)
        return rv;
    if (rt_loop_reserve(conn->loop, SIDE_TIMERS) != 0) {
        rt_zk_conn_close(&z->c);
        return rt_words_nomem(conn);
    }
    rt_link_want(&z->c.link);
    return 0;
}

static void zk_close(struct rt_conn *conn)
{
    struct rt_zk *z = of(conn);
    (void)rt_zk_parting(conn); /* if nobody has waited for it */
    rt_turns_close(&z->turns);
    while (z->tickets != NULL)
        rt_zk_ticket_drop(z, z->tickets);
    rt_free(z->by_nonce);
    rt_zk_unwatch(&z->session.watch);
    rt_observe_close(&z->observers);
    rt_zk_waits_close(z);
    rt_timers_stop(&conn->loop->timers, &z->timer.timer);
    rt_loop_unreserve(conn->loop, SIDE_TIMERS);
    rt_zk_conn_close(&z->c);
}

static void zk_submit(struct rt_conn *conn, struct rt_op *op)
{
    rt_turns_submit(&of(conn)->turns, op);
}

static void zk_cancel(struct rt_conn *conn, struct rt_op *op)
{
    rt_turns_cancel(&of(conn)->turns, op);
}

static void zk_forked(struct rt_conn *conn)
{
    rt_link_forked(&of(conn)->c.link);
}

static const char *zk_trouble(const struct rt_conn *conn)
{
    return rt_link_trouble(&((const struct rt_zk *)(const void *)conn)->c.link);
}

/* What is acknowledged is on the disks of a majority. */
static uint32_t zk_caps(const struct rt_conn *conn)
{
    const struct rt_zk_dialect *d = ((const struct rt_zk *)(const void *)conn)->dialect;
    return d->caps | (d->lone == NULL ? ROTA_CAP_STRICT : 0);
}

static const char *const schemes[] = {"zk", "zks", NULL};
static const char *const params[] = {"dialect", "tick_ms", NULL};

const struct rt_engine rt_engine_zookeeper = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(struct rt_zk),
    .open = zk_open,
    .parting = rt_zk_parting,
    .close = zk_close,
    .submit = zk_submit,
    .cancel = zk_cancel,
    .caps = zk_caps,
    .trouble = zk_trouble,
    .forked = zk_forked,
};
