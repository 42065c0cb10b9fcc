/* SPDX-License-Identifier: Apache-2.0 */
/* Asks: written, sent in order, answered in order. */
#include "engine/zookeeper/zk.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "base/list.h"

#include <stddef.h>
#include <string.h>

#define HEAD 12 /* bytes before the body: size, xid, call */
#define FLAG_CONTAINER 4
#define PERMS_ALL 31

static struct rt_zk_ask *of(struct rt_entry *e)
{
    return (struct rt_zk_ask *)(void *)e;
}

static struct rt_zk_conn *of_ledger(struct rt_ledger *l)
{
    return (struct rt_zk_conn *)(void *)((char *)l - offsetof(struct rt_zk_conn, link.ledger));
}

void rt_zk_forgo(struct rt_zk_conn *c, struct rt_zk_ask *a)
{
    if (a == &c->nothing)
        return;
    rt_jute_free(&a->out);
    rt_free(a);
}

int rt_zk_odd(struct rt_zk_conn *c)
{
    return rt_zk_fail(c, ROTA_UNKNOWN, "%.180s: that is no answer to what was asked", rt_zk_at(c));
}

/* ---- Writing ---------------------------------------------------------------------------------- */

void rt_zk_begin(struct rt_jute_out *o, int32_t xid, enum rt_zk_call call)
{
    rt_jute_int(o, 0);
    rt_jute_int(o, xid);
    rt_jute_int(o, call);
}

static int write_whole(struct rt_zk_conn *c, struct rt_jute_out *o)
{
    rt_jute_set_int(o, 0, (int32_t)o->size - 4);
    return o->failed ? ROTA_NOMEM : rt_stream_write(&c->link.wire->stream, o->at, o->size);
}

int rt_zk_say(struct rt_zk_conn *c, struct rt_jute_out *o)
{
    int rv = write_whole(c, o);
    rt_jute_free(o);
    return rv;
}

struct rt_zk_ask *rt_zk_ask_new(struct rt_zk_conn *c, enum rt_zk_call call, rt_zk_answer_fn *answer)
{
    struct rt_zk_ask *a = rt_alloc(sizeof(*a));
    if (a == NULL)
        a = &c->nothing;
    a->out.failed = a == &c->nothing;
    a->call = call;
    a->answer = answer;
    a->entry.reads = call == RT_ZK_EXISTS || call == RT_ZK_GET || call == RT_ZK_GET_ACL ||
                     call == RT_ZK_SYNC || call == RT_ZK_EPHEMERALS || call == RT_ZK_CHILDREN;
    rt_zk_begin(&a->out, 0, call);
    return a;
}

struct rt_zk_ask *rt_zk_path(struct rt_zk_conn *c, enum rt_zk_call call, const char *path,
                             rt_zk_answer_fn *answer)
{
    struct rt_zk_ask *a = rt_zk_ask_new(c, call, answer);
    rt_jute_text(&a->out, path);
    return a;
}

struct rt_zk_ask *rt_zk_read(struct rt_zk_conn *c, enum rt_zk_call call, const char *path,
                             bool watch, rt_zk_answer_fn *answer)
{
    struct rt_zk_ask *a = rt_zk_path(c, call, path, answer);
    rt_jute_bool(&a->out, watch);
    return a;
}

/* Without a user, our nodes are open to all; with one, they are its own, with all rights, and nobody else's. */
void rt_zk_put_create(const struct rt_zk_conn *c, struct rt_jute_out *o, const char *path,
                      struct rt_text data, uint32_t flags)
{
    bool own = c->link.user != NULL;
    rt_jute_text(o, path);
    rt_jute_bytes(o, data.at, data.size);
    rt_jute_int(o, 1);
    rt_jute_int(o, PERMS_ALL);
    rt_jute_text(o, own ? "auth" : "world");
    rt_jute_text(o, own ? "" : "anyone");
    rt_jute_int(o, (int32_t)flags);
}

struct rt_zk_ask *rt_zk_create(struct rt_zk_conn *c, enum rt_zk_call call, const char *path,
                               struct rt_text data, uint32_t flags, rt_zk_answer_fn *answer)
{
    struct rt_zk_ask *a = rt_zk_ask_new(c, call, answer);
    rt_zk_put_create(c, &a->out, path, data, call == RT_ZK_CONTAINER ? FLAG_CONTAINER : flags);
    a->session = flags & RT_ZK_EPHEMERAL ? c->session.id : 0;
    return a;
}

struct rt_zk_ask *rt_zk_delete(struct rt_zk_conn *c, const char *path, rt_zk_answer_fn *answer)
{
    struct rt_zk_ask *a = rt_zk_path(c, RT_ZK_DELETE, path, answer);
    rt_jute_int(&a->out, -1);
    a->entry.again = !RT_BUG(RT_BUG_LOST_DELETE_IS_DONE);
    return a;
}

struct rt_zk_ask *rt_zk_set(struct rt_zk_conn *c, const char *path, struct rt_text data,
                            rt_zk_answer_fn *answer)
{
    struct rt_zk_ask *a = rt_zk_path(c, RT_ZK_SET, path, answer);
    rt_jute_bytes(&a->out, data.at, data.size);
    rt_jute_int(&a->out, -1);
    a->entry.again = true;
    return a;
}

/* ---- Several as one --------------------------------------------------------------------------- */

static void multi_head(struct rt_zk_ask *a, int32_t call, bool last)
{
    rt_jute_int(&a->out, call);
    rt_jute_bool(&a->out, last);
    rt_jute_int(&a->out, -1);
}

void rt_zk_multi_create(struct rt_zk_conn *c, struct rt_zk_ask *a, const char *path,
                        struct rt_text data, uint32_t flags)
{
    multi_head(a, RT_ZK_CREATE, false);
    rt_zk_put_create(c, &a->out, path, data, flags);
    if (flags & RT_ZK_EPHEMERAL)
        a->session = c->session.id;
}

void rt_zk_multi_delete(struct rt_zk_ask *a, const char *path)
{
    multi_head(a, RT_ZK_DELETE, false);
    rt_jute_text(&a->out, path);
    rt_jute_int(&a->out, -1);
}

void rt_zk_multi_set(struct rt_zk_ask *a, const char *path, struct rt_text data, int32_t version)
{
    multi_head(a, RT_ZK_SET, false);
    rt_jute_text(&a->out, path);
    rt_jute_bytes(&a->out, data.at, data.size);
    rt_jute_int(&a->out, version);
}

void rt_zk_multi_check(struct rt_zk_ask *a, const char *path, int32_t version)
{
    multi_head(a, RT_ZK_CHECK, false);
    rt_jute_text(&a->out, path);
    rt_jute_int(&a->out, version);
}

int32_t rt_zk_multi_read(struct rt_zk_reply *reply,
                         void (*each)(void *arg, size_t part, struct rt_text path), void *arg)
{
    struct rt_jute_in *in = &reply->body;
    struct rt_zk_stat stat;
    int32_t failed = reply->said;
    for (size_t part = 0; !in->bad; part++) {
        int32_t call = rt_jute_get_int(in);
        bool last = rt_jute_get_bool(in);
        (void)rt_jute_get_int(in);
        if (last)
            return failed;
        if (call == -1) {
            int32_t said = rt_jute_get_int(in);
            failed = failed == 0 ? said : failed;
        } else if (call == RT_ZK_CREATE) {
            struct rt_text path = rt_jute_get_bytes(in);
            if (each != NULL && !in->bad)
                each(arg, part, path);
        } else if (call == RT_ZK_SET) {
            rt_jute_get_stat(in, &stat);
        }
    }
    return failed != 0 ? failed : -1;
}

struct rt_text rt_zk_answered_node(int err, struct rt_zk_reply *reply, struct rt_zk_stat *stat)
{
    struct rt_text text = {0};
    struct rt_zk_stat none;
    stat = stat != NULL ? stat : &none;
    *stat = (struct rt_zk_stat){0};
    if (err == 0 && reply->said == RT_ZK_OK) {
        text = rt_jute_get_bytes(&reply->body);
        rt_jute_get_stat(&reply->body, stat);
    }
    return text;
}

/* ---- Sending ---------------------------------------------------------------------------------- */

static int32_t after(int32_t xid)
{
    return xid < INT32_MAX ? xid + 1 : 1;
}

static int on_send(struct rt_ledger *ledger, struct rt_entry *e, const void **via)
{
    struct rt_zk_conn *c = of_ledger(ledger);
    struct rt_zk_ask *a = of(e);
    struct rt_zk_wire *l = rt_zk_wire(c);
    (void)via; /* there is only one */
    if (a->session != 0 && a->session != c->session.id && !RT_BUG(RT_BUG_SENT_IN_ANY_SESSION))
        return ROTA_LOST;
    if (c->link.state != RT_DIAL_READY || c->anew)
        return ROTA_UNREACHABLE;
    if (a->prepare != NULL) {
        a->out.size = HEAD;
        a->prepare(c->rider, a);
    }
    if (a->out.failed)
        return ROTA_NOMEM;
    rt_jute_set_int(&a->out, 4, after(l->sent));
    int rv = write_whole(c, &a->out);
    if (rv == 0)
        a->xid = l->sent = after(l->sent);
    return rv;
}

int rt_zk_send(struct rt_zk_conn *c, struct rt_zk_ask *a, struct rt_op *op, void *owner,
               uint64_t extra, uint32_t *pending)
{
    if (a->out.failed) {
        rt_zk_forgo(c, a);
        return rt_words_nomem(c->base);
    }
    if (a->call == RT_ZK_MULTI)
        multi_head(a, -1, true);
    rt_ledger_for(&c->link.ledger, &a->entry, op);
    a->entry.pending = pending;
    a->owner = owner;
    a->extra = extra;
    if (!rt_ledger_add(&c->link.ledger, &a->entry))
        rt_link_want(&c->link);
    return 0;
}

int rt_zk_post(struct rt_zk_conn *c, struct rt_zk_ask *a)
{
    return rt_zk_send(c, a, NULL, NULL, 0, NULL);
}

bool rt_zk_cancel(struct rt_zk_conn *c, const struct rt_op *op)
{
    struct rt_entry *rings[] = {&c->link.ledger.waiting, &c->link.ledger.flying};
    bool any = false;
    for (size_t i = 0; i < 2; i++)
        for (struct rt_entry *e = rings[i]->next; e != rings[i]; e = e->next)
            if (e->op == op) {
                rt_ledger_abandon(&c->link.ledger, e, ROTA_CANCELED);
                any = true;
            }
    return any;
}

/* ---- Answers ---------------------------------------------------------------------------------- */

static void answer(struct rt_zk_conn *c, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    if (a->answer != NULL)
        a->answer(c->rider, a, err, reply);
    rt_zk_forgo(c, a);
}

#define CUT 0   /* the connection is no longer of use */
#define AGAIN 1 /* to be asked again */
static const struct {
    int32_t said;
    int err;
    const char *text; /* follows the server */
} sentences[] = {
    {-115, ROTA_AUTH, " does not take that user"},
    {-114, ROTA_AUTH, " does not take the rights of a node"},
    {-8, ROTA_INVALID, ": the name is no path on ZooKeeper"},
    {-108, ROTA_INVALID, ": an ephemeral node has none below it"},
    {-6, ROTA_UNSUPPORTED, " does not know that request: 3.6 or later does"},
    {-125, ROTA_UNREACHABLE, ": the quota is used up"},
    {-127, AGAIN, NULL},
    {-112, CUT, NULL}, /* the session is over, moved, or its connection lost: another will tell */
    {-118, CUT, NULL},
    {-4, CUT, NULL},
};

static int refused(struct rt_zk_conn *c)
{
    const struct rt_link *k = &c->link;
    if (k->user != NULL)
        return rt_zk_fail(c, ROTA_AUTH, "%.100s: the user '%.60s' may not do that there",
                          rt_zk_at(c), k->user);
    return rt_zk_fail(c, ROTA_AUTH,
                      "%.100s wants a user: write %s://USER@HOST, and give the password by "
                      "$ROTA_PASSWORD or ?password_file=",
                      rt_zk_at(c), k->secure ? "zks" : "zk");
}

/* Not an answer: which error it is, with the words in errmsg. */
static int judge(struct rt_zk_conn *c, int32_t said)
{
    if (said == -102)
        return refused(c);
    for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
        if (sentences[i].said == said && sentences[i].text == NULL)
            return sentences[i].err;
        else if (sentences[i].said == said)
            return rt_zk_fail(c, sentences[i].err, "%.180s%s", rt_zk_at(c), sentences[i].text);
    return rt_zk_fail(c, ROTA_PROTOCOL, "%.120s: ZooKeeper says %d", rt_zk_at(c), (int)said);
}

static bool is_answer(const struct rt_zk_ask *a, int32_t said)
{
    return said == RT_ZK_OK || said == RT_ZK_NO_NODE || said == RT_ZK_EXISTS_ALREADY ||
           said == RT_ZK_NOT_EMPTY || said == RT_ZK_BAD_VERSION ||
           (a->call == RT_ZK_MULTI && said > -2);
}

static void answered(struct rt_zk_conn *c, struct rt_zk_ask *a, struct rt_zk_reply *reply)
{
    int err = is_answer(a, reply->said) ? 0 : judge(c, reply->said);
    rt_ledger_heard(&c->link.ledger, &a->entry);
    if (err == AGAIN) {
        rt_ledger_again(&c->link.ledger, &a->entry, true);
        return;
    }
    rt_ledger_out(&a->entry);
    rt_link_well(&c->link);
    if (err != 0 && a->entry.maybe && !a->entry.reads)
        err = ROTA_UNKNOWN; /* an earlier try may have been done */
    answer(c, a, err, err == 0 ? reply : NULL);
}

static struct rt_zk_ask *oldest(struct rt_zk_conn *c)
{
    struct rt_entry *flying = &c->link.ledger.flying;
    return RT_RING_EMPTY(flying) ? NULL : of(flying->next);
}

void rt_zk_heard(struct rt_zk_conn *c, struct rt_jute_in *in)
{
    struct rt_zk_wire *l = rt_zk_wire(c);
    int32_t xid = rt_jute_get_int(in);
    struct rt_zk_reply reply = {.zxid = rt_jute_get_long(in)};
    reply.said = rt_jute_get_int(in);
    reply.body = *in;
    if (!in->bad && reply.zxid > c->zxid)
        c->zxid = reply.zxid;
    if (!in->bad && xid == -1) {
        rt_zk_notice(c, in);
        return;
    }
    if (!in->bad && xid == -8) /* watches were set */
        return;
    if (in->bad || l->answered == l->sent || xid != after(l->answered)) {
        rt_zk_cut(c, "%.180s: that is no answer to what was asked", rt_zk_at(c));
        return;
    }
    struct rt_zk_ask *a = oldest(c);
    if (a != NULL && a->xid != xid) /* it was for an ask that has ended meanwhile */
        a = NULL;
    if (a != NULL && !is_answer(a, reply.said) && judge(c, reply.said) == CUT) {
        rt_zk_cut(c, "%.180s: the session is not at home there any more", rt_zk_at(c));
        return;
    }
    l->answered = xid;
    if (a != NULL)
        answered(c, a, &reply);
}

/* ---- Ends without an answer ------------------------------------------------------------------- */

static void on_ended(struct rt_ledger *ledger, struct rt_entry *e, int err, const char *why)
{
    struct rt_zk_conn *c = of_ledger(ledger);
    if (err == ROTA_LOST)
        (void)rt_zk_fail(c, err, "the session is over");
    else
        (void)rt_ledger_say(ledger, e, err, why, "zookeeper", rt_zk_at(c), c->link.trouble);
    answer(c, of(e), err, NULL);
}

const struct rt_ledger_user rt_zk_asks = {.send = on_send, .ended = on_ended};

void rt_zk_ask_free(struct rt_ledger *l, struct rt_entry *e)
{
    rt_zk_forgo(of_ledger(l), of(e));
}
