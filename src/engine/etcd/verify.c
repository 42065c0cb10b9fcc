/* SPDX-License-Identifier: Apache-2.0 */
/* What etcd knows of our session and its tickets, compared with what we believe.
 *
 * LeaseTimeToLive names all keys of the lease at once, but answers from the leader's memory, which may be
 * behind or ahead: what is missing there is looked for by a transaction before it is called lost, and what we do
 * not know is adopted: it waits, and when it holds, the user is told and gives it back.
 *
 * If there are too many keys for one answer, our tickets are compared page by page, one transaction each, and
 * strays are not found until there are fewer. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "net/grpc.h"

#include <stdlib.h>

#define ADOPT_MAX 16                         /* strays per look: the next one finds the others */
#define WHOLE_MAX (RT_GRPC_MESSAGE_MAX / 2u) /* bytes of keys for one answer: strays come on top */

struct verifying {
    uint64_t session, serial;
};

/* A look that came to nothing is repeated by the next BEAT, even of a client without tickets: a keep-alive alone may
 * keep what is gone. Logged once; that a server cannot be reached, the connection reports itself. */
static void look_failed(struct rt_etcd_conn *c, int err)
{
    struct rt_etcd_session *session = &rt_etcd_s(c)->session;
    session->doubtful = true;
    if (err == ROTA_UNREACHABLE || session->complained)
        return;
    session->complained = true;
    rt_etcd_log(c, ROTA_LOG_WARN, "etcd: what session %llx holds could not be looked at: %s",
                (unsigned long long)session->id, rt_etcd_base(c)->errmsg);
}

/* A look is over, however it went: begins the one that was asked for meanwhile. */
static void look_over(struct rt_etcd_conn *c)
{
    struct rt_etcd_session *session = &rt_etcd_s(c)->session;
    session->looks--;
    if (session->look_again && session->id != 0)
        rt_etcd_verify(c);
}

/* ---- The session ------------------------------------------------------------------------------ */

static void key_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    const RtEtcd__RangeResponse *got = reply;
    if (err != 0)
        look_failed(c, err);
    else if (got->n_kvs == 0)
        rt_etcd_session_lost(c, a->extra);
}

/* ---- Strays ------------------------------------------------------------------------------------- */

static void stray_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    const RtEtcd__RangeResponse *got = reply;
    struct rt_etcd_id id;
    size_t name_size;
    char name[RT_NAME_ROOM];
    if (err != 0 || got->n_kvs == 0 || a->extra != rt_etcd_s(c)->session.id)
        return;
    const RtEtcd__KeyValue *kv = got->kvs[0];
    if (!rt_etcd_key_read(kv->key.data, kv->key.len, &name_size, &id) || !id.ours || id.durable ||
        id.session != a->extra || name_size >= sizeof(name))
        return;
    memcpy(name, kv->key.data, name_size);
    name[name_size] = '\0';
    struct rt_etcd_card card;
    rt_etcd_card_read(&card, kv->value.data, kv->value.len);
    uint64_t nonce = id.spot != 0 ? card.nonce : id.nonce;
    if (rt_etcd_ticket_of_key(c, kv->key.data, kv->key.len) != NULL ||
        rt_etcd_joining(c, name, nonce))
        return;
    if (!rt_etcd_is_ours(&id, &card) && (id.spot != 0 || !card.plain || card.newer))
        return; /* what we adopt is given back: a leader's bare value is ours, for only we know that key */
    /* Left since we listed the keys: it keeps its line for at_least_ms, and must not be given back. An answer
     * from before the last such LEAVE cannot tell. */
    if ((card.flags & RT_ETCD_CARD_LEFT) != 0 ||
        rt_etcd_revision(got->header) < rt_etcd_s(c)->marked_at)
        return;
    struct rt_join join = {.name = name,
                           .session = id.session,
                           .nonce = nonce,
                           .mode = card.mode,
                           .take = card.take,
                           .of = card.of};
    struct rt_etcd_ticket *t = rt_etcd_ticket_with_key(&join, kv->key.data, kv->key.len);
    if (t == NULL)
        return;
    t->number = (uint64_t)kv->create_revision;
    rt_etcd_ticket_add(c, t);
    rt_etcd_wait_begin(c, t, NULL);
}

/* Only its value says whose a ticket at a spot is. */
static bool may_be_stray(struct rt_etcd_conn *c, const ProtobufCBinaryData *key)
{
    const struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_etcd_id id;
    size_t name_size;
    char name[RT_NAME_ROOM];
    if (key->len >= s->sessions_size && memcmp(key->data, s->sessions, s->sessions_size) == 0)
        return false;
    if (!rt_etcd_key_read(key->data, key->len, &name_size, &id) || !id.ours ||
        name_size >= sizeof(name))
        return false;
    memcpy(name, key->data, name_size);
    name[name_size] = '\0';
    return rt_etcd_ticket_of_key(c, key->data, key->len) == NULL &&
           (id.spot != 0 || !rt_etcd_joining(c, name, id.nonce));
}

/* ---- Comparing ------------------------------------------------------------------------------------ */

static bool is_among(const ProtobufCBinaryData *keys, size_t n, const struct rt_etcd_ticket *t)
{
    ProtobufCBinaryData key = {t->key_size, NULL};
    memcpy(&key.data, &(const char *){t->key}, sizeof(key.data));
    return n > 0 && bsearch(&key, keys, n, sizeof(*keys), rt_etcd_by_bytes) != NULL;
}

/* T stood there before the look was asked for; nobody misses a key that we are deleting. */
static bool is_looked_at(const struct rt_etcd_ticket *t, const struct verifying *v)
{
    return !t->durable && t->session == v->session && t->serial <= v->serial && !t->leaving;
}

static void compare(struct rt_etcd_conn *c, const struct verifying *v,
                    const RtEtcd__LeaseTimeToLiveResponse *got)
{
    size_t strays = 0;
    if (got->n_keys > 1)
        qsort(got->keys, got->n_keys, sizeof(*got->keys), rt_etcd_by_bytes);
    for (struct rt_etcd_ticket *t = rt_etcd_s(c)->tickets, *next; t != NULL; t = next) {
        next = t->next;
        if (!is_looked_at(t, v))
            continue;
        if (t->lease != 0 || !is_among(got->keys, got->n_keys, t))
            rt_etcd_wait_verify(c, t);
    }
    for (size_t i = 0; i < got->n_keys && strays < ADOPT_MAX; i++)
        if (may_be_stray(c, &got->keys[i])) {
            RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
            range.key = got->keys[i];
            (void)rt_etcd_ask(c, RT_ETCD_RANGE, &range, stray_seen, NULL, NULL, v->session);
            strays++;
        }
}

/* ---- By pages ------------------------------------------------------------------------------------- */

static rt_etcd_answer_fn page_seen;

/* Whether a page was sent; if not, all have been looked at, or it could not be sent. */
static bool send_page(struct rt_etcd_conn *c, const struct verifying *v)
{
    struct rt_etcd_session *session = &rt_etcd_s(c)->session;
    struct rt_etcd_ticket *t = session->page = session->page_end;
    struct rt_etcd_txn txn;
    char key[RT_ETCD_KEY_MAX];
    size_t n = 0, size = rt_etcd_session_key(c, v->session, key);
    rt_etcd_txn_open(c, &txn, RT_ETCD_OPS_MAX, 1, 0);
    rt_etcd_get(&txn, RT_ETCD_THEN, key, size)->keys_only = true; /* else no linearizable read */
    for (; t != NULL && n < RT_ETCD_OPS_MAX; t = t->next) {
        if (!is_looked_at(t, v))
            continue;
        rt_etcd_if_created(&txn, t->key, t->key_size, t->number);
        n++;
    }
    session->page_end = t;
    if (n == 0)
        return false;
    int err = rt_etcd_txn_send(c, &txn, page_seen, NULL, NULL, NULL);
    if (err != 0)
        look_failed(c, err);
    return err == 0;
}

static void end_pages(struct rt_etcd_conn *c)
{
    struct rt_etcd_session *session = &rt_etcd_s(c)->session;
    session->page = session->page_end = NULL;
    look_over(c);
}

static void page_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_session *session = &rt_etcd_s(c)->session;
    const RtEtcd__TxnResponse *got = reply;
    struct verifying v = {session->looked, session->page_serial};
    bool goes_on = err == 0 && session->id != 0 && session->id == v.session;
    (void)a;
    if (err != 0)
        look_failed(c, err);
    else
        session->complained = false;
    for (struct rt_etcd_ticket *t = session->page; goes_on && !got->succeeded; t = t->next) {
        if (t == session->page_end)
            break;
        if (is_looked_at(t, &v))
            rt_etcd_wait_verify(c, t); /* one of them is gone */
    }
    if (!goes_on || !send_page(c, &v))
        end_pages(c);
}

static void begin_pages(struct rt_etcd_conn *c, const struct verifying *v)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    s->session.page_serial = v->serial;
    s->session.page_end = s->tickets;
    if (!send_page(c, v))
        end_pages(c);
}

/* ---- The look ------------------------------------------------------------------------------------- */

static void left_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_session *session = &rt_etcd_s(c)->session;
    const RtEtcd__LeaseTimeToLiveResponse *got = reply;
    struct verifying v = {session->looked, a->extra};
    bool by_pages = session->by_pages || a->reason == RT_ETCD_TOO_LARGE;
    if (session->id == 0 || session->id != v.session) {
        look_over(c);
        return;
    }
    /* 0: less than a second is left; the shortest lease never shows more. */
    if ((err == 0 && got->ttl < 0) || a->reason == RT_ETCD_NO_LEASE) {
        err = rt_etcd_ask_session(c, NULL, v.session, key_seen, NULL, v.session);
    } else if (by_pages && (err == 0 || a->reason == RT_ETCD_TOO_LARGE)) {
        begin_pages(c, &v);
        return;
    } else if (err == 0) {
        session->complained = false;
        compare(c, &v, got);
    }
    if (err != 0)
        look_failed(c, err);
    look_over(c);
}

void rt_etcd_verify(struct rt_etcd_conn *c)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    RtEtcd__LeaseTimeToLiveRequest left = RT_ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    if (RT_BUG(RT_BUG_KEEP_ALIVE_TRUSTED))
        return;
    if (s->session.looks > 0) {
        s->session.look_again = true;
        return;
    }
    s->session.look_again = false;
    s->session.by_pages = s->key_bytes > WHOLE_MAX;
    left.id = (int64_t)s->session.id;
    left.keys = !s->session.by_pages;
    if (rt_etcd_ask(c, RT_ETCD_LEASE_LEFT, &left, left_seen, NULL, NULL, s->serial) != 0) {
        look_failed(c, ROTA_NOMEM);
        return;
    }
    s->session.looked = s->session.id;
    s->session.looks++;
}
