/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: a watch on the line, and a look at its front and its count whenever an event comes. */
#include "engine/etcd/ops.h"

#include "core/grant.h"

struct view {
    struct rt_observer base; /* first */
    struct rt_etcd_watch watch;
    int64_t lease; /* of the front whose label is known */
    bool granted;
    struct rt_view_state seen; /* by the current look: of the front even if it is not granted */
};

static struct view *of(struct rt_observer *o)
{
    return (struct view *)(void *)o;
}

/* ---- Looking ---------------------------------------------------------------------------------- */

static void tell(struct rt_etcd_conn *c, struct view *v, int err)
{
    struct rt_view_state nobody = {.count = v->seen.count, .mode = v->seen.mode, .of = v->seen.of};
    rt_observed(&rt_etcd_s(c)->observers, &v->base, err, v->granted ? &v->seen : &nobody,
                v->watch.created);
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

static void look(void *engine, struct rt_observer *o)
{
    struct rt_etcd_conn *c = engine;
    struct rt_etcd_txn t;
    rt_etcd_txn_open(c, &t, 0, 1, 0);
    rt_etcd_get_line(&t, RT_ETCD_THEN, o->view.name)->limit = 1;
    int err = rt_etcd_txn_send(c, &t, looked, o->work != NULL ? o->work->op : NULL, of(o), NULL);
    if (err != 0)
        tell(c, of(o), err);
}

/* ---- Watching ------------------------------------------------------------------------------------ */

static void on_created(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision)
{
    (void)revision;
    rt_observe_look(&rt_etcd_s(c)->observers, w->owner);
}

static void on_events(struct rt_etcd_conn *c, struct rt_etcd_watch *w, int64_t revision,
                      RtEtcd__Event *const *events, size_t n)
{
    (void)revision;
    (void)events;
    (void)n;
    rt_observe_look(&rt_etcd_s(c)->observers, w->owner);
}

static const struct rt_etcd_watch_user view_user = {on_created, on_events, NULL};

static int made(void *engine, struct rt_observer *o)
{
    char begin[RT_ETCD_KEY_MAX], end[RT_ETCD_KEY_MAX];
    size_t begin_size = rt_etcd_line_begin(begin, o->view.name);
    size_t end_size = rt_etcd_line_end(end, o->view.name);
    of(o)->watch.owner = o;
    return rt_etcd_watch(engine, &of(o)->watch, begin, begin_size, end, end_size, 0, &view_user);
}

static void unwatch(void *engine, struct rt_observer *o)
{
    rt_etcd_unwatch(engine, &of(o)->watch);
}

static int check(void *engine, const char *name)
{
    return rt_etcd_check_name(engine, name);
}

const struct rt_observer_user rt_etcd_observer_user = {
    .size = sizeof(struct view), .check = check, .made = made, .look = look, .unwatch = unwatch};

static int begin_observe(void *engine, struct rt_work *w)
{
    return rt_observe(&rt_etcd_s(engine)->observers, w);
}

const struct rt_turn_kind rt_etcd_observe = {.size = sizeof(struct rt_work),
                                             .begin = begin_observe};
