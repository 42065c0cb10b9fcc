/* SPDX-License-Identifier: Apache-2.0 */
/* The journal in etcd: keys, and one Txn per operation.
 *
 *   PREFIX rota-txn/meta                 "1.0 NUMBER": layout, and 8 hexadecimal digits
 *   PREFIX rota-txn/floor                12 hexadecimal digits, so that etcd can compare them as bytes
 *   PREFIX rota-txn/t/ID                 a record (entry.h)
 *   PREFIX rota-txn/o/DEADLINE/ID        the same without its registered branches, until it is done: what SCAN reads
 *   PREFIX rota-txn/r/NAME               when, and the URL of a resource
 *
 * A record is changed by one Txn, "if nothing has changed since we looked": for a record that is not there yet, that
 * compares its create revision, 0, and the floor; else its mod revision. If the compare fails, the Txn answers what is
 * there, and that is judged anew:
 *
 *   DECIDE, REGISTER ───────────────▶ PUT if absent ── succeeded ──▶ told
 *   CLAIM, DONE ──▶ LOOK ──▶ judged ──▶ PUT if as seen ─┘ │ no: here is what is there
 *                              │  ▲───────────────────────┘
 *                              └──▶ told: nothing is to be changed
 *
 * Each PUT also compares `meta`: an etcd that was emptied and refilled is another journal, and we stop.
 *
 * What if a reply is lost, late or doubled: a PUT that was done cannot be done again (its compare fails); the repeated
 * one finds what the first has made, and judges that to be what stands. One that arrives late fails if anybody was
 * there before it, or if the floor has risen above it. Looks are harmless. FORGET's puts and deletes may be done twice:
 * the floor only rises (compared as bytes), and what is done and below it never changes again.
 *
 * etcd has no clock that we could ask: `now` is ours. Only claims and what people read depend on it. */
#include "txn/journal/etcd/etcd.h"

#include "base/alloc.h"
#include "engine/kit/dial.h"
#include "txn/journal/points.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct rt_jetcd *of(struct rt_journal *j)
{
    return (struct rt_jetcd *)(void *)j;
}

struct rt_jetcd *rt_jetcd_of_conn(struct rt_etcd_conn *c)
{
    return (struct rt_jetcd *)(void *)((char *)c - offsetof(struct rt_jetcd, conn));
}

static struct rt_jetcd *of_ledger(struct rt_ledger *l)
{
    return (struct rt_jetcd *)(void *)((char *)l - offsetof(struct rt_jetcd, desk) -
                                       offsetof(struct rt_journal_desk, ledger));
}

int64_t rt_jetcd_wall_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- Ends */

/* An ask is over. Those on the same id that waited for it may go. */
void rt_jetcd_end(struct rt_jetcd *j, struct rt_journal_ask *a, int err)
{
    rt_ledger_out(&a->entry);
    if (err == 0)
        rt_journal_point_written(&a->in);
    rt_journal_ask_tell(&j->desk, a, err);
    rt_journal_ask_free(a);
    rt_ledger_flush(&j->desk.ledger);
}

int rt_jetcd_stop(struct rt_jetcd *j, const char *why)
{
    if (!j->stopped) {
        j->stopped = true;
        snprintf(j->why, sizeof(j->why), "etcd: %s", why);
        rt_words_log(&j->base.base, ROTA_LOG_ERROR, "%s", j->why);
    }
    return rt_words_fail(&j->base.base, ROTA_PROTOCOL, "%s", j->why);
}

int rt_jetcd_damaged(struct rt_jetcd *j)
{
    return rt_jetcd_stop(j, "a key of the journal is damaged, or not Rota's: restore it");
}

/* Whether META is the one we know: else it is another journal. */
int rt_jetcd_check_meta(struct rt_jetcd *j, const RtEtcd__KeyValue *meta)
{
    if (meta != NULL && meta->value.len == strlen(j->meta) &&
        memcmp(meta->value.data, j->meta, meta->value.len) == 0)
        return 0;
    return rt_jetcd_stop(j,
                         "the journal there is another one now: decisions may be lost; restore it");
}

int rt_jetcd_floor_of(struct rt_jetcd *j, const RtEtcd__KeyValue *kv, int64_t *floor)
{
    char digits[13] = "", *at;
    if (kv == NULL || kv->value.len != 12)
        return rt_jetcd_damaged(j);
    memcpy(digits, kv->value.data, 12);
    *floor = (int64_t)strtoull(digits, &at, 16);
    return *at == '\0' ? 0 : rt_jetcd_damaged(j);
}

/* ---- Who we are */

static void ask_meta(struct rt_jetcd *j);

/* "1.0 0badcafe" */
static int take_meta(struct rt_jetcd *j, const RtEtcd__KeyValue *meta)
{
    char value[sizeof(j->meta)] = "", *at;
    if (meta == NULL || meta->value.len >= sizeof(value))
        return rt_jetcd_damaged(j);
    if (meta->value.len > 0)
        memcpy(value, meta->value.data, meta->value.len);
    if (strtol(value, &at, 10) != 1 || *at != '.')
        return rt_words_fail(&j->base.base, ROTA_UNSUPPORTED,
                             "etcd has a journal of layout '%.20s', but this library knows only 1",
                             value);
    at = strchr(value, ' ');
    uint32_t number = at != NULL ? (uint32_t)strtoul(at + 1, NULL, 16) : 0;
    if (number == 0)
        return rt_jetcd_damaged(j);
    memcpy(j->meta, value, sizeof(value));
    j->desk.number = number;
    return 0;
}

static void on_meta(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    char why[256];
    (void)ask;
    j->asking = false;
    if (err == 0) {
        const RtEtcd__TxnResponse *r = reply;
        err = take_meta(j, rt_jetcd_only(r, r->succeeded ? 2 : 0));
    }
    if (err == 0) {
        rt_ledger_flush(&j->desk.ledger);
    } else if (err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN) {
        if (!RT_RING_EMPTY(&j->desk.ledger.waiting))
            ask_meta(j);
    } else {
        snprintf(why, sizeof(why), "%s", j->base.base.errmsg);
        rt_ledger_refuse(&j->desk.ledger, err, why);
    }
}

/* Makes the journal if there is none, under a random number; else reads its number. */
static void ask_meta(struct rt_jetcd *j)
{
    struct rt_jetcd_message m;
    struct rt_jetcd_key meta, floor;
    char value[sizeof(j->meta)];
    if (j->asking)
        return;
    rt_jetcd_key(&meta, j, "meta");
    rt_jetcd_key(&floor, j, "floor");
    snprintf(value, sizeof(value), "1.0 %08" PRIx32, j->drawn);
    rt_jetcd_message(&m);
    rt_jetcd_if_created(&m, rt_jetcd_data(&meta), 0);
    rt_jetcd_put(&m, rt_jetcd_then(&m), rt_jetcd_data(&meta), rt_jetcd_text(value));
    rt_jetcd_put(&m, rt_jetcd_then(&m), rt_jetcd_data(&floor), rt_jetcd_text("000000000000"));
    (void)rt_jetcd_get(&m, rt_jetcd_then(&m), rt_jetcd_data(&meta));
    (void)rt_jetcd_get(&m, rt_jetcd_otherwise(&m), rt_jetcd_data(&meta));
    j->asking = rt_jetcd_send_message(j, &m, 0, on_meta, NULL) == 0;
    if (!j->asking)
        rt_ledger_refuse(&j->desk.ledger, ROTA_NOMEM, "out of memory");
}

/* ---- Ops */

static int begin(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    switch (a->in.kind) {
    case RT_JOURNAL_IDENTIFY:
    case RT_JOURNAL_READ:
        return rt_jetcd_read(j, a);
    case RT_JOURNAL_SCAN:
        return rt_jetcd_scan(j, a);
    case RT_JOURNAL_FORGET:
        return rt_jetcd_forget(j, a);
    case RT_JOURNAL_RESOURCE:
        return rt_jetcd_resource(j, a);
    case RT_JOURNAL_RESOURCES:
        return rt_jetcd_resources(j, a);
    default:
        return rt_jetcd_records(j, a);
    }
}

/* Whether an ask submitted before it is on the same id. */
static bool is_behind(const struct rt_jetcd *j, const struct rt_journal_ask *a)
{
    const struct rt_txn_id *id = rt_journal_ask_id(a);
    const struct rt_entry *head = &j->desk.ledger.flying;
    for (struct rt_entry *e = head->next; id != NULL && e != head; e = e->next) {
        const struct rt_txn_id *other = rt_journal_ask_id(rt_journal_ask_of(e));
        if (other != NULL && rt_txn_id_same(id, other))
            return true;
    }
    return false;
}

static int send_ask(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct rt_jetcd *j = of_ledger(l);
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    if (j->stopped)
        return ROTA_PROTOCOL;
    if (j->desk.number == 0) {
        ask_meta(j);
        return ROTA_UNREACHABLE;
    }
    if (rt_journal_ask_foreign(&j->desk, a) != 0)
        return ROTA_INVALID;
    if (is_behind(j, a))
        return ROTA_UNREACHABLE;
    a->in.deadline = e->deadline;
    rt_journal_point_begun(&a->in);
    int rv = begin(j, a);
    if (rv != 0)
        return rv;
    e->deadline = RT_NEVER; /* its requests keep it: they know whether they left */
    *via = j;
    return 0;
}

static void ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct rt_jetcd *j = of_ledger(l);
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    const char *trouble = rt_etcd_trouble(&j->conn);
    if (err == ROTA_INVALID)
        (void)rt_journal_ask_foreign(&j->desk, a);
    else if (err == ROTA_PROTOCOL && j->stopped)
        (void)rt_words_fail(&j->base.base, err, "%s", j->why);
    else
        (void)rt_ledger_say(l, e, err, why, "etcd", "etcd", trouble != NULL ? trouble : "");
    rt_journal_ask_tell(&j->desk, a, err);
    rt_journal_ask_free(a);
}

static const struct rt_ledger_user ledger_user = {.send = send_ask, .ended = ended};

static void submit(struct rt_journal *base, struct rt_journal_op *op)
{
    rt_journal_desk_submit(&of(base)->desk, op);
}

/* ---- Life */

static void on_linked(struct rt_etcd_conn *c)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    if (j->desk.number == 0 && !RT_RING_EMPTY(&j->desk.ledger.waiting))
        ask_meta(j);
}

static void on_failed(struct rt_etcd_conn *c, int err, const char *why)
{
    rt_ledger_refuse(&rt_jetcd_of_conn(c)->desk.ledger, err, why);
}

static const char *prefix_of(struct rt_etcd_conn *c)
{
    return rt_jetcd_of_conn(c)->prefix;
}

static const struct rt_etcd_user user = {
    .linked = on_linked, .failed = on_failed, .prefix = prefix_of};

static int open_journal(struct rt_journal *base, const struct rt_url *url)
{
    struct rt_jetcd *j = of(base);
    const char *prefix = rt_url_param(url, "prefix", "");
    if (strlen(prefix) >= sizeof(j->prefix))
        return rt_words_fail(&base->base, ROTA_INVALID, "?prefix= is too long");
    snprintf(j->prefix, sizeof(j->prefix), "%s", prefix);
    int rv = rt_dial_random(&base->base, &j->drawn, sizeof(j->drawn));
    if (rv != 0)
        return rv;
    j->drawn += j->drawn == 0;
    rv = rt_journal_desk_init(&j->desk, base, &ledger_user);
    if (rv != 0)
        return rv;
    rv = rt_etcd_conn_open(&j->conn, &base->base, url, &user);
    if (rv != 0)
        rt_journal_desk_fini(&j->desk, NULL);
    else
        rt_etcd_want(&j->conn);
    return rv;
}

static void free_entry(struct rt_ledger *l, struct rt_entry *e)
{
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    (void)l;
    rt_free(a->extra);
    rt_journal_ask_free(a);
}

static void close_journal(struct rt_journal *base)
{
    struct rt_jetcd *j = of(base);
    rt_jetcd_records_close(j);
    rt_etcd_conn_close(&j->conn);
    rt_journal_desk_fini(&j->desk, free_entry);
}

static void forked(struct rt_journal *base)
{
    rt_etcd_conn_forked(&of(base)->conn);
}

static const char *const schemes[] = {"etcd", "etcds", NULL};
static const char *const params[] = {NULL};

const struct rt_journal_kind rt_journal_etcd = {
    .name = "etcd",
    .schemes = schemes,
    .params = params,
    .size = sizeof(struct rt_jetcd),
    .open = open_journal,
    .close = close_journal,
    .submit = submit,
    .forked = forked,
};
