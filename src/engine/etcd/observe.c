/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: a watch of the line, and a look at its front and its count whenever something came. */
#include "engine/etcd/ops.h"

#include "core/grant.h"

struct view {
    struct rt_view base; /* first */
    struct rt_etcd_watch watch;
    struct rt_work *work; /* OBSERVE, until the first look */
    int64_t lease;        /* of the front whose label is known */
    bool granted;
    struct rt_view_state seen; /* by the look under way: of the front also if it is not granted */
};

static struct view *view_of(struct rt_view *v)
{
    return (struct view *)(void *)v;
}

static void look(struct rt_etcd_conn *c, struct view *v);

static void stop(struct rt_etcd_conn *c, struct view *v)
{
    rt_etcd_unwatch(c, &v->watch);
    rt_view_stop(&v->base);
}

/* ---- Looking ---------------------------------------------------------------------------------- */

/* The look is over: told, and begun again if something came meanwhile. */
static void tell(struct rt_etcd_conn *c, struct view *v, int err)
{
    struct rt_work *w = v->work;
    struct rt_view_state nobody = {.count = v->seen.count, .mode = v->seen.mode, .of = v->seen.of};
    if (!rt_view_end(&v->base))
        return;
    v->work = NULL;
    if (w != NULL && err != 0)
        stop(c, v);
    if (w != NULL) {
        w->pending--;
        rt_etcd_work_end(c, w, err);
    }
    if (w != NULL && err != 0)
        return;
    if (err == 0)
        rt_view_tell(rt_etcd_base(c), &v->base, v->granted ? &v->seen : &nobody);
    if (v->base.again || (err == ROTA_UNREACHABLE && v->watch.created))
        look(c, v);
}

static void label_bare(struct view *v, int64_t lease, bool newer)
{
    char label[RT_ETCD_BARE_LABEL];
    (void)rt_etcd_bare_label(label, lease, newer);
    rt_view_label(&v->seen, label, strlen(label));
    v->lease = 0;
}

static void label_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct view *v = a->owner;
    const RtEtcd__RangeResponse *got = reply;
    if (err == 0 && got->n_kvs > 0) {
        rt_view_label(&v->seen, got->kvs[0]->value.data, got->kvs[0]->value.len);
        v->lease = (int64_t)a->extra;
    } else {
        label_bare(v, (int64_t)a->extra, false);
    }
    tell(c, v, 0);
}

/* True: its label is being asked for. */
static bool read_front(struct rt_etcd_conn *c, struct view *v, const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_card card;
    rt_etcd_card_read(&card, kv->value.data, kv->value.len);
    v->seen.fence = (uint64_t)kv->create_revision;
    v->seen.mode = card.mode;
    v->seen.of = card.of;
    v->granted = card.mode != RT_GATHER || card.bound != 0;
    rt_view_value(&v->seen, card.value, card.newer ? 0 : card.value_size);
    if (card.plain && (card.newer || kv->lease == 0)) {
        label_bare(v, kv->lease, card.newer);
        return false;
    }
    if (card.plain) /* a leader without words of ours: its label is with its session */
        return v->lease != kv->lease &&
               rt_etcd_ask_session(c, NULL, (uint64_t)kv->lease, label_seen, v,
                                   (uint64_t)kv->lease) == 0;
    v->lease = 0;
    rt_view_label(&v->seen, card.label, card.label_size);
    return false;
}

static void looked(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct view *v = a->owner;
    const RtEtcd__RangeResponse *seen = rt_etcd_seen(c, reply, 0, &err);
    if (err == 0) {
        v->granted = false;
        v->seen.mode = v->seen.of = 0;
        v->seen.count = (size_t)seen->count;
        if (seen->n_kvs > 0 && read_front(c, v, seen->kvs[0]))
            return;
    }
    tell(c, v, err);
}

static void look(struct rt_etcd_conn *c, struct view *v)
{
    struct rt_etcd_txn t;
    if (!rt_view_begin(&v->base))
        return;
    rt_etcd_txn_open(c, &t, 0, 1, 0);
    rt_etcd_get_line(&t, RT_ETCD_THEN, v->base.name)->limit = 1;
    struct rt_op *op = v->work != NULL ? v->work->op : NULL;
    int err = rt_etcd_txn_send(c, &t, looked, op, v, NULL);
    if (err != 0)
        tell(c, v, err);
}

void rt_etcd_views_look(struct rt_etcd_conn *c)
{
    for (struct rt_view *v = rt_etcd_s(c)->views, *next; v != NULL; v = next) {
        next = v->next;
        if (!v->over)
            look(c, view_of(v));
    }
}

/* ---- Watching ------------------------------------------------------------------------------------ */

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision)
{
    (void)revision;
    look(c, w->owner);
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    (void)revision;
    (void)events;
    (void)n;
    look(c, w->owner);
}

static const struct rt_etcd_watch_user view_user = {on_created, on_events, NULL};

static struct view *view_new(struct rt_etcd_conn *c, const struct rt_op *op)
{
    char begin[RT_ETCD_KEY_MAX], end[RT_ETCD_KEY_MAX];
    struct view *v = rt_view_new(&rt_etcd_s(c)->views, sizeof(*v), op->observe.name,
                                 op->observe.cookie);
    if (v == NULL)
        return NULL;
    v->watch.owner = v;
    size_t begin_size = rt_etcd_line_begin(begin, v->base.name),
           end_size = rt_etcd_line_end(end, v->base.name);
    if (rt_etcd_watch(c, &v->watch, begin, begin_size, end, end_size, 0, &view_user) == 0)
        return v;
    rt_view_free(&v->base);
    return NULL;
}

static int begin_observe(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    const struct rt_op *op = w->op;
    struct view *v = view_of(rt_view_find(rt_etcd_s(c)->views, op->observe.cookie));
    if (op->observe.stop) {
        if (v != NULL && v->work != NULL) { /* the first look has not been answered */
            struct rt_work *first = v->work;
            v->work = NULL;
            first->pending--;
            rt_etcd_work_end(c, first, rt_etcd_fail(c, ROTA_CANCELED, "canceled"));
        }
        if (v != NULL)
            stop(c, v);
        rt_etcd_work_end(c, w, 0);
        return 0;
    }
    int rv = rt_etcd_check_name(c, op->observe.name);
    if (rv == 0 && v == NULL && (v = view_new(c, op)) == NULL)
        rv = rt_words_nomem(rt_etcd_base(c));
    if (rv == 0)
        v->base.told = false; /* asked again: told again */
    if (rv == 0 && v->work != NULL)
        rt_etcd_work_end(c, w, 0); /* the one under way tells */
    if (rv != 0 || v->work != NULL)
        return rv;
    v->work = w;
    w->pending++;
    look(c, v);
    return 0;
}

const struct rt_turn_kind rt_etcd_observe = {.size = sizeof(struct rt_work),
                                             .begin = begin_observe};
