/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at lines: INSPECT of a line or of a session, and LIST, collected, then told in one go. */
#include "engine/redis/ops.h"

#include "base/alloc.h"
#include "engine/kit/check.h"
#include "engine/kit/shown.h"

#include <stdlib.h>
#include <string.h>

#define PLACE_FIELDS 7
#define LIST_FIELDS 3
#define LIST_SWEEPS 64 /* rounds of sweeping before a room is listed as it is */
#define LIST_BUDGET 256

/* ---- INSPECT ---------------------------------------------------------------------------- */

struct inspection {
    struct rt_work work; /* first */
    struct rt_shown_list shown;
};

static void free_inspection(struct rt_conn *conn, struct rt_work *w)
{
    (void)conn;
    rt_shown_fini(&((struct inspection *)(void *)w)->shown);
}

enum { SID, NONCE, MODE, TAKE, OF, FLAGS, OWNER, GRANTED, CHAN, WORDS };

/* "SID NONCE MODE TAKE OF FLAGS OWNER GRANTED [CHAN]": each word's beginning; how many there are. */
static size_t split_member(const char *text, const char *words[WORDS])
{
    size_t n = 0;
    while (n < WORDS && *text != '\0') {
        words[n++] = text;
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return n;
}

static bool has_flag(const char *flags, char flag)
{
    return memchr(flags, flag, strcspn(flags, " ")) != NULL;
}

static bool read_member(const struct rt_redis_conn *c, const char *text, int64_t now,
                        struct rota_place *p)
{
    const char *words[WORDS];
    size_t n = split_member(text, words);
    if (n < CHAN)
        return false;
    bool durable = has_flag(words[FLAGS], 'D') || words[SID][0] == '-';
    const char *whose = !durable ? words[SID] : n > CHAN ? words[CHAN] : "";
    p->session = durable ? 0 : strtoull(words[SID], NULL, 16);
    p->owner = strtoull(words[OWNER], NULL, 10);
    p->mode = (uint32_t)strtoul(words[MODE], NULL, 10);
    p->take = (uint32_t)strtoul(words[TAKE], NULL, 10);
    p->of = (uint32_t)strtoul(words[OF], NULL, 10);
    if (durable)
        p->flags |= ROTA_PLACE_DURABLE;
    if (has_flag(words[FLAGS], 'd'))
        p->flags |= ROTA_PLACE_DETECT;
    if (strncmp(whose, c->cid, strlen(c->cid)) == 0)
        p->flags |= ROTA_PLACE_MINE;
    /* Numbers are taken from the clock, and only run ahead of it when it was set back. */
    uint64_t granted = strtoull(words[GRANTED], NULL, 10);
    int64_t since = (int64_t)(granted != 0 ? granted : p->number);
    p->since_ms = now > since ? (now - since) / 1000 : 0;
    return true;
}

static struct rt_text text_of(const redisReply *reply, size_t i)
{
    return (struct rt_text){rt_redis_str(reply, i), strlen(rt_redis_str(reply, i))};
}

static int collect_place(struct rt_redis_conn *c, struct inspection *in, const redisReply *reply,
                         size_t at, int64_t now)
{
    struct rt_shown *s = rt_shown_add(&in->shown, text_of(reply, at), text_of(reply, at + 4),
                                      text_of(reply, at + 5));
    if (s == NULL)
        return rt_words_nomem(&c->base);
    int64_t end = rt_redis_int(reply, at + 3);
    s->place.number = (uint64_t)rt_redis_int(reply, at + 1);
    s->place.left_ms = end == 0 ? -1 : end > now ? (end - now) / 1000 : 0;
    if (rt_redis_int(reply, at + 6) != 0)
        s->place.flags |= ROTA_PLACE_GRANTED;
    if (!read_member(c, rt_redis_str(reply, at + 2), now, &s->place))
        return rt_redis_fail(c, ROTA_PROTOCOL, "a ticket of %.100s cannot be read", s->name);
    return 0;
}

static void inspect_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err,
                             int status, const redisReply *reply)
{
    struct inspection *in = rq->owner;
    struct rt_op *op = in->work.op;
    if (err == 0 && status != RT_REDIS_LOST && /* a session without a place: no tickets */
        (status != RT_REDIS_OK || rt_redis_count(reply) < 1 ||
         !rt_redis_shaped(reply, 1, "sisissi")))
        err = rt_redis_odd(c, rq);
    for (size_t i = 1; err == 0 && status == RT_REDIS_OK && op != NULL && i < rt_redis_count(reply);
         i += PLACE_FIELDS)
        err = collect_place(c, in, reply, i, rt_redis_int(reply, 0));
    rt_work_note(&c->base, &in->work, err);
    if (in->work.pending > 0)
        return;
    if (in->work.err == 0 && op != NULL)
        rt_shown_tell(&in->shown, op);
    rt_work_end(&c->base, &in->work, 0);
}

static int send_inspect(struct rt_redis_conn *c, struct inspection *in, uint32_t room)
{
    const struct rt_op *op = in->work.op;
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    if (op->inspect.name != NULL)
        rt_redis_arg(&a, op->inspect.name);
    else
        rt_redis_arg_sid(&a, op->inspect.session, false);
    return rt_redis_work_ask(c, &in->work, &a,
                             op->inspect.name != NULL ? RT_REDIS_SCRIPT_INSPECT
                                                      : RT_REDIS_SCRIPT_INSPECT_SESSION,
                             room, op->deadline, inspect_answered);
}

int rt_redis_begin_inspect(struct rt_redis_conn *c, struct rt_op *op)
{
    int rv = op->inspect.name != NULL ? rt_check_name(&c->base, op->inspect.name) : 0;
    if (rv != 0)
        return rv;
    struct inspection *in = rt_work_new(&c->side.works, &c->base, sizeof(*in), op);
    if (in == NULL)
        return ROTA_NOMEM;
    in->work.free = free_inspection;
    if (op->inspect.name != NULL)
        rv = send_inspect(c, in, rt_redis_room_of(c, op->inspect.name));
    else
        for (uint32_t i = 0; i < c->room_count && rv == 0; i++)
            rv = send_inspect(c, in, i);
    rt_redis_begun(c, &in->work, rv);
    return 0;
}

/* ---- LIST ------------------------------------------------------------------------------- */

struct entry {
    char *name;
    size_t count, granted;
};

struct listing {
    struct rt_work work; /* first */
    int64_t deadline;
    struct entry *entries;
    size_t count, room;
};

static void free_listing(struct rt_conn *conn, struct rt_work *w)
{
    struct listing *l = (struct listing *)(void *)w;
    (void)conn;
    for (size_t i = 0; i < l->count; i++)
        rt_free(l->entries[i].name);
    rt_free(l->entries);
}

static int collect_line(struct rt_redis_conn *c, struct listing *l, const char *name,
                        size_t granted, size_t waiting)
{
    const char *prefix = l->work.op->list.prefix != NULL ? l->work.op->list.prefix : "";
    if (granted + waiting == 0 || strncmp(name, prefix, strlen(prefix)) != 0)
        return 0;
    bool room = rt_grow(&l->entries, &l->room, l->count + 1, sizeof(*l->entries));
    char *copy = room ? rt_strdup(name) : NULL;
    if (copy == NULL)
        return rt_words_nomem(&c->base);
    l->entries[l->count++] = (struct entry){copy, granted + waiting, granted};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void tell_list(struct listing *l)
{
    const struct rt_op *op = l->work.op;
    if (l->count > 1)
        qsort(l->entries, l->count, sizeof(*l->entries), by_name);
    for (size_t i = 0; i < l->count; i++) { /* a scan may tell of a line twice */
        const struct entry *e = &l->entries[i];
        if (i == 0 || strcmp(e->name, l->entries[i - 1].name) != 0)
            op->list.each(op->list.arg, e->name, e->count, e->granted);
    }
}

static void list_over(struct rt_redis_conn *c, struct listing *l, int err)
{
    rt_work_note(&c->base, &l->work, err);
    if (l->work.pending > 0)
        return;
    if (l->work.err == 0 && l->work.op != NULL)
        tell_list(l);
    rt_work_end(&c->base, &l->work, 0);
}

static rt_redis_answer_fn list_answered, list_swept;

static int send_list(struct rt_redis_conn *c, struct listing *l, uint32_t room, const char *cursor)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    rt_redis_arg(&a, cursor);
    return rt_redis_work_ask(c, &l->work, &a, RT_REDIS_SCRIPT_LIST, room, l->deadline,
                             list_answered);
}

static void list_answered(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                          const redisReply *reply)
{
    struct listing *l = rq->owner;
    if (err == 0 &&
        (status != RT_REDIS_OK || rt_redis_count(reply) < 1 || !rt_redis_shaped(reply, 1, "sii")))
        err = rt_redis_odd(c, rq);
    if (l->work.op == NULL || err != 0) {
        list_over(c, l, err);
        return;
    }
    for (size_t i = 1; err == 0 && i < rt_redis_count(reply); i += LIST_FIELDS)
        err = collect_line(c, l, rt_redis_str(reply, i), (size_t)rt_redis_int(reply, i + 1),
                           (size_t)rt_redis_int(reply, i + 2));
    const char *cursor = rt_redis_str(reply, 0);
    if (err == 0 && strcmp(cursor, "0") != 0)
        err = send_list(c, l, rq->call.place, cursor);
    list_over(c, l, err);
}

/* A dead holder is no holder: what is over by time is swept first. */
static int send_sweep(struct rt_redis_conn *c, struct listing *l, uint32_t room, uint32_t rounds)
{
    struct rt_redis_args a;
    rt_redis_args_few(&a);
    rt_redis_arg_number(&a, LIST_BUDGET);
    rt_redis_arg(&a, "");
    rt_redis_arg(&a, "");
    struct rt_redis_request *rq = rt_redis_ask(c, &l->work, &a, RT_REDIS_SCRIPT_SWEEP, room,
                                               l->deadline, list_swept);
    if (rq == NULL)
        return ROTA_NOMEM;
    rq->extra = rounds;
    return 0;
}

static void list_swept(struct rt_redis_conn *c, struct rt_redis_request *rq, int err, int status,
                       const redisReply *reply)
{
    struct listing *l = rq->owner;
    if (err == 0 && (status != RT_REDIS_OK || rt_redis_count(reply) != 3))
        err = rt_redis_odd(c, rq);
    if (err == 0 && l->work.op != NULL) {
        bool more = rt_redis_int(reply, 2) != 0 && rq->extra < LIST_SWEEPS;
        err = more ? send_sweep(c, l, rq->call.place, rq->extra + 1)
                   : send_list(c, l, rq->call.place, "0");
    }
    list_over(c, l, err);
}

int rt_redis_begin_list(struct rt_redis_conn *c, struct rt_op *op)
{
    struct listing *l = rt_work_new(&c->side.works, &c->base, sizeof(*l), op);
    if (l == NULL)
        return ROTA_NOMEM;
    l->work.free = free_listing;
    l->deadline = op->deadline;
    int rv = 0;
    for (uint32_t i = 0; i < c->room_count && rv == 0; i++)
        rv = send_sweep(c, l, i, 1);
    rt_redis_begun(c, &l->work, rv);
    return 0;
}
