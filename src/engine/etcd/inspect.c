/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT of a line or of a session: collected, completed by what the leases say, told in one go. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

#define LEASES_MAX 128 /* asked about; beyond that in one line, the rest is not known */
#define LINES_EACH 32  /* per transaction, of a session */

#define PLAIN \
    0x1u /* a mark: its label is with its session, if that has one; the tag is its lease */

struct lease {
    int64_t id, left_ms;
    char label[RT_LABEL_MAX + 1];
};

struct inspection {
    struct rt_work work; /* first */
    struct rt_shown_list shown;
    struct lease *leases;
    size_t lease_count;
    struct rt_etcd_gather keys; /* of a line with much data in it */
};

static void free_inspection(struct rt_conn *conn, struct rt_work *w)
{
    struct inspection *in = (struct inspection *)(void *)w;
    (void)conn;
    rt_shown_fini(&in->shown);
    rt_free(in->leases);
    rt_etcd_gather_fini(&in->keys);
}

/* ---- Telling ---------------------------------------------------------------------------------- */

static const struct lease *lease_of(const struct inspection *in, int64_t id)
{
    for (size_t i = 0; i < in->lease_count; i++)
        if (in->leases[i].id == id)
            return &in->leases[i];
    return NULL;
}

const char *rt_etcd_bare_label(char out[RT_ETCD_BARE_LABEL], int64_t lease, bool newer)
{
    if (newer)
        (void)snprintf(out, RT_ETCD_BARE_LABEL, "of a later layout: upgrade");
    else if (lease == 0)
        (void)snprintf(out, RT_ETCD_BARE_LABEL, "no lease");
    else
        (void)snprintf(out, RT_ETCD_BARE_LABEL, "lease %llx", (unsigned long long)lease);
    return out;
}

static void tell(struct rt_etcd_conn *c, struct inspection *in)
{
    for (size_t i = 0; i < in->shown.count; i++) {
        struct rt_shown *s = &in->shown.places[i];
        const struct lease *lease = lease_of(in, s->tag);
        if (lease != NULL)
            s->place.left_ms = lease->left_ms;
        if (s->marks & PLAIN && lease != NULL && lease->label[0] != '\0')
            s->place.label = lease->label;
    }
    if (in->work.err == 0)
        rt_shown_tell(&in->shown, in->work.op);
    rt_etcd_work_end(c, &in->work, 0);
}

/* ---- What the leases say ------------------------------------------------------------------------ */

static void one_over(struct rt_etcd_conn *c, struct inspection *in)
{
    if (in->work.pending == 0)
        tell(c, in);
}

static void left_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct inspection *in = a->owner;
    const RtEtcd__LeaseTimeToLiveResponse *got = reply;
    if (err == 0 && got->ttl > 0)
        in->leases[a->extra].left_ms = got->ttl * 1000;
    one_over(c, in); /* else not known: it is about to end, or not for us to know */
}

static void label_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct inspection *in = a->owner;
    const RtEtcd__RangeResponse *got = reply;
    if (err == 0 && got->n_kvs > 0) {
        struct lease *lease = &in->leases[a->extra];
        size_t n = got->kvs[0]->value.len;
        n = n < sizeof(lease->label) ? n : sizeof(lease->label) - 1;
        if (n > 0)
            memcpy(lease->label, got->kvs[0]->value.data, n);
    }
    one_over(c, in);
}

/* PLAIN: one of its tickets has no label of its own. */
static void add_lease(struct inspection *in, const struct rt_shown *s, bool *plain)
{
    const struct lease *known = lease_of(in, s->tag);
    if (s->tag == 0 || (known == NULL && in->lease_count == LEASES_MAX))
        return;
    size_t i = known != NULL ? (size_t)(known - in->leases) : in->lease_count++;
    if (known == NULL)
        in->leases[i] = (struct lease){.id = s->tag};
    plain[i] = s->marks & PLAIN || (known != NULL && plain[i]);
}

static void complete(struct rt_etcd_conn *c, struct inspection *in)
{
    bool plain[LEASES_MAX];
    in->leases = rt_alloc(LEASES_MAX * sizeof(*in->leases));
    for (size_t i = 0; in->leases != NULL && i < in->shown.count; i++)
        add_lease(in, &in->shown.places[i], plain);
    in->work.pending++; /* the last is not over before all are begun */
    for (size_t i = 0; i < in->lease_count; i++) {
        RtEtcd__LeaseTimeToLiveRequest left = RT_ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
        left.id = in->leases[i].id; /* without memory it stays unknown, and so does its label */
        (void)rt_etcd_work_ask(c, &in->work, RT_ETCD_LEASE_LEFT, &left, left_seen, in, i);
        if (plain[i])
            (void)rt_etcd_ask_session(c, &in->work, (uint64_t)left.id, label_seen, in, i);
    }
    in->work.pending--;
    one_over(c, in);
}

/* ---- Collecting ------------------------------------------------------------------------------------ */

/* Not Rota's: a leader's bare value belongs where its session is. */
static bool is_foreign(const struct rt_etcd_place *p)
{
    bool leader = p->id.ours && p->id.nonce != 0 && (uint64_t)p->kv->lease == p->id.session;
    return p->card.plain && !p->card.newer && !leader;
}

static void fill(struct rt_etcd_conn *c, struct rota_place *place, const struct rt_etcd_place *p)
{
    bool left = p->card.flags & RT_ETCD_CARD_LEFT;
    bool durable = (p->id.durable && !is_foreign(p)) || left;
    bool foreign = is_foreign(p);
    uint64_t session = foreign ? (uint64_t)p->kv->lease : p->id.session;
    int64_t now = rt_etcd_wall_ms();
    *place = (struct rota_place){.number = p->number,
                                 .session = durable ? 0 : session,
                                 .owner = left ? 0 : p->card.owner,
                                 .left_ms = p->kv->lease != 0 ? 0 : -1,
                                 .mode = p->card.mode,
                                 .take = p->card.take,
                                 .of = p->card.of,
                                 .label = place->label,
                                 .value = place->value};
    if (p->card.since_ms <= 0)
        place->since_ms = -1;
    else if (now > p->card.since_ms)
        place->since_ms = now - p->card.since_ms;
    if (foreign)
        place->flags |= ROTA_PLACE_FOREIGN;
    if (p->granted)
        place->flags |= ROTA_PLACE_GRANTED;
    if (durable)
        place->flags |= ROTA_PLACE_DURABLE;
    if (!left && rt_etcd_ticket_of_key(c, p->kv->key.data, p->kv->key.len) != NULL)
        place->flags |= ROTA_PLACE_MINE;
    if (p->card.flags & RT_ETCD_CARD_DETECT)
        place->flags |= ROTA_PLACE_DETECT;
}

static int collect(struct rt_etcd_conn *c, struct inspection *in, const struct rt_etcd_place *p)
{
    size_t name_size = 0, value = p->card.newer ? 0 : p->card.value_size;
    struct rt_etcd_id id;
    char bare[RT_ETCD_BARE_LABEL];
    struct rt_text label = {p->card.label, p->card.label_size};
    (void)rt_etcd_key_read(p->kv->key.data, p->kv->key.len, &name_size, &id);
    if (in->work.op->inspect.name != NULL)
        name_size = strlen(in->work.op->inspect.name); /* foreign keys may be deeper */
    if (p->card.plain)
        label.size = strlen(label.at = rt_etcd_bare_label(bare, p->kv->lease, p->card.newer));
    struct rt_shown *s = NULL;
    if (name_size <= p->kv->key.len)
        s = rt_shown_add(
            &in->shown, (struct rt_text){p->kv->key.data, name_size}, label,
            (struct rt_text){p->card.value, value < ROTA_VALUE_MAX ? value : ROTA_VALUE_MAX});
    if (s == NULL)
        return rt_words_nomem(rt_etcd_base(c));
    s->tag = p->kv->lease;
    s->marks = p->card.plain && !p->card.newer ? PLAIN : 0;
    fill(c, &s->place, p);
    return 0;
}

static int collect_line(struct rt_etcd_conn *c, struct inspection *in, RtEtcd__KeyValue *const *kvs,
                        size_t n)
{
    const struct rt_op *op = in->work.op;
    struct rt_etcd_line *line = &rt_etcd_s(c)->line;
    int rv = rt_etcd_line_read(line, kvs, n);
    if (rv != 0)
        return rt_etcd_fail(c, rv, "out of memory");
    for (size_t i = 0; rv == 0 && i < line->count; i++) {
        const struct rt_etcd_place *p = &line->places[i];
        bool wanted = op->inspect.name != NULL ||
                      (p->id.session == op->inspect.session && !p->id.durable &&
                       !(p->card.flags & RT_ETCD_CARD_LEFT));
        if (wanted)
            rv = collect(c, in, p);
    }
    return rv;
}

static void collected(struct rt_etcd_conn *c, struct inspection *in, int err)
{
    rt_work_note(rt_etcd_base(c), &in->work, err);
    if (in->work.pending > 0)
        return;
    if (in->work.err != 0)
        rt_etcd_work_end(c, &in->work, 0);
    else
        complete(c, in);
}

static bool is_wanted(struct rt_etcd_conn *c, const RtEtcd__KeyValue *kv)
{
    (void)c;
    (void)kv;
    return true;
}

static void gathered(struct rt_etcd_conn *c, struct rt_etcd_gather *g, int err)
{
    struct inspection *in = (struct inspection *)(void *)g->work;
    if (err == 0)
        err = collect_line(c, in, g->kvs, g->count);
    collected(c, in, err);
}

static void lines_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct inspection *in = a->owner;
    const struct rt_op *op = in->work.op;
    const RtEtcd__TxnResponse *got = reply;
    if (err != 0 && a->reason == RT_ETCD_TOO_LARGE && op->inspect.name != NULL) {
        rt_etcd_gather_line(&in->keys, op->inspect.name);
        err = rt_etcd_gather(c, &in->keys, &in->work, is_wanted, gathered);
        if (err == 0)
            return;
    }
    for (size_t i = 0; err == 0 && i < got->n_responses; i++) {
        const RtEtcd__RangeResponse *all = rt_etcd_got(got, i);
        err = all != NULL ? collect_line(c, in, all->kvs, all->n_kvs) : rt_etcd_odd(c);
    }
    collected(c, in, err);
}

/* ---- Of a session: its lease knows its keys ------------------------------------------------------------ */

/* The name of the line KEY is in, unless it is that of the key before. */
static bool next_name(const ProtobufCBinaryData *keys, size_t i, char name[RT_NAME_ROOM])
{
    size_t size, before;
    struct rt_etcd_id id;
    if (!rt_etcd_key_read(keys[i].data, keys[i].len, &size, &id) || !id.ours ||
        size >= RT_NAME_ROOM)
        return false;
    if (i > 0 && rt_etcd_key_read(keys[i - 1].data, keys[i - 1].len, &before, &id) && id.ours &&
        before == size && memcmp(keys[i].data, keys[i - 1].data, size) == 0)
        return false;
    memcpy(name, keys[i].data, size);
    name[size] = '\0';
    return true;
}

static int ask_lines(struct rt_etcd_conn *c, struct inspection *in, const ProtobufCBinaryData *keys,
                     size_t n)
{
    struct rt_etcd_txn t;
    size_t lines = 0;
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < n; i++) {
        char name[RT_NAME_ROOM];
        if (!next_name(keys, i, name))
            continue;
        if (lines == 0)
            rt_etcd_txn_open(c, &t, 0, LINES_EACH, 0);
        (void)rt_etcd_get_line(&t, RT_ETCD_THEN, name);
        if (++lines < LINES_EACH)
            continue;
        rv = rt_etcd_work_txn(c, &in->work, &t, lines_seen, in);
        lines = 0;
    }
    if (rv == 0 && lines > 0)
        rv = rt_etcd_work_txn(c, &in->work, &t, lines_seen, in);
    return rv;
}

static void keys_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct inspection *in = a->owner;
    const RtEtcd__LeaseTimeToLiveResponse *got = reply;
    if (err != 0 && a->reason == RT_ETCD_NO_LEASE) { /* no session: no tickets */
        rt_etcd_work_end(c, &in->work, 0);
        return;
    }
    if (err == 0 && got->n_keys > 0) {
        qsort(got->keys, got->n_keys, sizeof(*got->keys), rt_etcd_by_bytes);
        err = ask_lines(c, in, got->keys, got->n_keys);
    }
    rt_work_note(rt_etcd_base(c), &in->work, err);
    if (in->work.pending == 0)
        rt_etcd_work_end(c, &in->work, 0);
}

static int begin_inspect(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    const struct rt_op *op = w->op;
    if (op->inspect.name == NULL) {
        RtEtcd__LeaseTimeToLiveRequest left = RT_ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
        left.id = (int64_t)op->inspect.session;
        left.keys = true;
        return rt_etcd_work_ask(c, w, RT_ETCD_LEASE_LEFT, &left, keys_seen, w, 0);
    }
    int rv = rt_check_name(rt_etcd_base(c), op->inspect.name);
    return rv != 0 ? rv : rt_etcd_work_look(c, w, op->inspect.name, 0, lines_seen, w);
}

const struct rt_turn_kind rt_etcd_inspect = {
    .size = sizeof(struct inspection), .begin = begin_inspect, .free = free_inspection};
