/* SPDX-License-Identifier: Apache-2.0 */
/* OBSERVE: a watch of the line, and a look at its front and its count whenever something came. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "core/grant.h"

struct rt_etcd_view {
    struct rt_etcd_view *next, **link;
    struct rt_etcd_watch watch;
    void *cookie;
    struct rt_etcd_work *work; /* OBSERVE, until the first look */
    bool looking, again, over;
    int64_t lease; /* of the front whose label is known */
    uint64_t number;
    uint32_t mode, of;
    size_t count;
    bool granted;
    char value[ROTA_VALUE_MAX + 1], label[RT_LABEL_MAX + 1];
    char name[];
};

size_t rt_etcd_observe_size(const struct rt_op *op)
{
    (void)op;
    return sizeof(struct rt_etcd_work);
}

static void look(struct rt_etcd_conn *c, struct rt_etcd_view *v);

static void view_free(struct rt_etcd_view *v)
{
    *v->link = v->next;
    if (v->next != NULL)
        v->next->link = v->link;
    rt_free(v);
}

static void stop(struct rt_etcd_conn *c, struct rt_etcd_view *v)
{
    rt_etcd_unwatch(c, &v->watch);
    v->over = true;
    if (!v->looking)
        view_free(v);
}

void rt_etcd_views_close(struct rt_etcd_side *s)
{
    while (s->views != NULL)
        view_free(s->views);
}

/* ---- Looking ---------------------------------------------------------------------------------- */

static void copy_text(char *out, size_t room, const uint8_t *bytes, size_t n)
{
    n = n < room ? n : room - 1;
    if (n > 0)
        memcpy(out, bytes, n);
    out[n] = '\0';
}

/* The look is over: told, and begun again if something came meanwhile. */
static void tell(struct rt_etcd_conn *c, struct rt_etcd_view *v, int err)
{
    struct rt_etcd_work *w = v->work;
    v->looking = false;
    if (v->over) {
        view_free(v);
        return;
    }
    v->work = NULL;
    if (w != NULL && err != 0) {
        stop(c, v);
        w->pending--;
        rt_etcd_work_end(c, w, err);
        return;
    }
    if (w != NULL) {
        w->pending--;
        rt_etcd_work_end(c, w, 0);
    }
    struct rt_event event = {.kind = RT_CHANGED,
                             .name = v->name,
                             .cookie = v->cookie,
                             .front = {v->granted ? v->number : 0, v->granted ? v->value : "",
                                       v->granted ? v->label : ""},
                             .count = v->count,
                             .mode = v->mode,
                             .of = v->of};
    if (err == 0)
        rt_conn_event(rt_etcd_base(c), &event);
    if (v->again || (err == ROTA_UNREACHABLE && v->watch.created))
        look(c, v);
}

static void label_bare(struct rt_etcd_view *v, int64_t lease, bool newer)
{
    char label[RT_ETCD_BARE_LABEL];
    (void)rt_etcd_bare_label(label, lease, newer);
    memcpy(v->label, label, sizeof(label));
    v->lease = 0;
}

static void label_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_view *v = a->owner;
    const RtEtcd__RangeResponse *got = reply;
    v->label[0] = '\0';
    if (err == 0 && got->n_kvs > 0) {
        copy_text(v->label, sizeof(v->label), got->kvs[0]->value.data, got->kvs[0]->value.len);
        v->lease = (int64_t)a->extra;
    } else {
        label_bare(v, (int64_t)a->extra, false);
    }
    tell(c, v, 0);
}

/* The label of a leader without words of ours is with its session. */
static bool ask_label(struct rt_etcd_conn *c, struct rt_etcd_view *v, int64_t lease)
{
    RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
    char key[RT_ETCD_KEY_MAX];
    if (lease == 0 || v->lease == lease)
        return false;
    range.key.len = rt_etcd_session_key(c, (uint64_t)lease, key);
    range.key.data = (uint8_t *)key;
    struct rt_etcd_ask *a = rt_etcd_ask_new(c, RT_ETCD_RANGE, &range, label_seen);
    if (a == NULL)
        return false;
    a->owner = v;
    a->extra = (uint64_t)lease;
    rt_etcd_ask_send(c, a);
    return true;
}

/* True: its label is being asked for. */
static bool read_front(struct rt_etcd_conn *c, struct rt_etcd_view *v, const RtEtcd__KeyValue *kv)
{
    struct rt_etcd_card card;
    rt_etcd_card_read(&card, kv->value.data, kv->value.len);
    v->number = (uint64_t)kv->create_revision;
    v->mode = card.mode;
    v->of = card.of;
    v->granted = card.mode != RT_GATHER || card.bound != 0;
    copy_text(v->value, sizeof(v->value), card.value, card.value_size);
    if (card.newer)
        v->value[0] = '\0';
    if (card.plain && (card.newer || kv->lease == 0)) {
        label_bare(v, kv->lease, card.newer);
        return false;
    }
    if (card.plain)
        return ask_label(c, v, kv->lease);
    v->lease = 0;
    copy_text(v->label, sizeof(v->label), card.label, card.label_size);
    return false;
}

static void looked(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_view *v = a->owner;
    const RtEtcd__TxnResponse *got = reply;
    const RtEtcd__RangeResponse *seen = err == 0 ? rt_etcd_got(got, 0) : NULL;
    if (err == 0 && seen == NULL)
        err = rt_etcd_odd(c);
    if (err == 0) {
        v->granted = false;
        v->mode = v->of = 0;
        v->count = (size_t)seen->count;
        if (seen->n_kvs > 0 && read_front(c, v, seen->kvs[0]))
            return;
    }
    tell(c, v, err);
}

static void look(struct rt_etcd_conn *c, struct rt_etcd_view *v)
{
    struct rt_etcd_txn t;
    if (v->looking) {
        v->again = true;
        return;
    }
    v->again = false;
    rt_etcd_txn_open(c, &t, 0, 1, 0);
    rt_etcd_get_line(&t, RT_ETCD_THEN, v->name)->limit = 1;
    v->looking = true;
    struct rt_op *op = v->work != NULL ? v->work->op : NULL;
    int err = rt_etcd_txn_send(c, &t, op != NULL ? op->deadline : 0, true, looked, op, v);
    if (err != 0)
        tell(c, v, err);
}

void rt_etcd_views_look(struct rt_etcd_conn *c)
{
    for (struct rt_etcd_view *v = rt_etcd_s(c)->views, *next; v != NULL; v = next) {
        next = v->next;
        if (!v->over)
            look(c, v);
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

static struct rt_etcd_view *view_new(struct rt_etcd_conn *c, const struct rt_op *op)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    char begin[RT_ETCD_KEY_MAX], end[RT_ETCD_KEY_MAX];
    size_t name_size = strlen(op->observe.name) + 1;
    struct rt_etcd_view *v = rt_alloc(sizeof(*v) + name_size);
    if (v == NULL)
        return NULL;
    memcpy(v->name, op->observe.name, name_size);
    v->cookie = op->observe.cookie;
    v->watch.owner = v;
    size_t begin_size = rt_etcd_line_begin(begin, v->name),
           end_size = rt_etcd_line_end(end, v->name);
    if (rt_etcd_watch(c, &v->watch, begin, begin_size, end, end_size, 0, &view_user) != 0) {
        rt_free(v);
        return NULL;
    }
    v->next = s->views;
    v->link = &s->views;
    if (v->next != NULL)
        v->next->link = &v->next;
    s->views = v;
    return v;
}

void rt_etcd_begin_observe(struct rt_etcd_conn *c, struct rt_etcd_work *w)
{
    const struct rt_op *op = w->op;
    struct rt_etcd_view *v = rt_etcd_s(c)->views;
    while (v != NULL && (v->over || v->cookie != op->observe.cookie))
        v = v->next;
    if (op->observe.stop) {
        if (v != NULL && v->work != NULL) { /* the first look has not been answered */
            struct rt_etcd_work *first = v->work;
            v->work = NULL;
            first->pending--;
            rt_etcd_work_end(c, first, rt_etcd_fail(c, ROTA_CANCELED, "canceled"));
        }
        if (v != NULL)
            stop(c, v);
        rt_etcd_work_end(c, w, 0);
        return;
    }
    int rv = rt_etcd_check_name(c, op->observe.name);
    bool fresh = v == NULL;
    if (rv == 0 && fresh && (v = view_new(c, op)) == NULL)
        rv = rt_etcd_fail(c, ROTA_NOMEM, "out of memory");
    if (rv != 0 || v->work != NULL) {
        rt_etcd_work_end(c, w, rv); /* the one under way tells */
        return;
    }
    v->work = w;
    w->pending++;
    look(c, v);
}
