/* SPDX-License-Identifier: Apache-2.0 */
/* READ, IDENTIFY, SCAN, and the resources. */
#include "txn/journal/etcd/etcd.h"

#include "txn/journal/etcd/entry.h"
#include "txn/journal/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_MOST 10000 /* resources */

#define SHOW_MOST (16u << 20)

static int show(struct rt_jetcd *j, const struct rt_txn_id *id, const struct rt_entry_record *r,
                void (*each)(void *arg, const struct rt_journal_record *record), void *arg)
{
    struct rt_arena arena = {.most = SHOW_MOST};
    struct rt_journal_record out = {.id = *id,
                                    .stands = r->stands,
                                    .done = r->done,
                                    .deadline_ms = r->deadline_ms,
                                    .decided_ms = r->decided_ms,
                                    .registered = r->registered,
                                    .claimer = r->claimer,
                                    .claimed_ms = r->claimed_ms};
    char label[RT_JOURNAL_LABEL_MAX + 1];
    snprintf(label, sizeof(label), "%.*s", (int)r->label_size, r->label);
    out.label = label;
    int rv = rt_record_gather(&arena, r->branches, r->branches_size, false, &out.branches,
                              &out.branch_count);
    if (rv == 0)
        rv = rt_record_gather(&arena, r->registered_bytes, r->registered_size, true, &out.branches,
                              &out.branch_count);
    if (rv == 0 && each != NULL)
        each(arg, &out);
    rt_arena_fini(&arena);
    return rv == ROTA_PROTOCOL ? rt_jetcd_damaged(j)
           : rv == ROTA_NOMEM  ? rt_words_nomem(&j->base.base)
                               : rv;
}

static void on_read(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    const RtEtcd__TxnResponse *r = reply;
    struct rt_entry_record record = {.label = ""};
    int64_t floor = 0;
    if (err == 0)
        err = rt_jetcd_check_meta(j, rt_jetcd_only(r, 0));
    if (err == 0)
        err = rt_jetcd_floor_of(j, rt_jetcd_only(r, 1), &floor);
    if (err == 0 && a->in.kind == RT_JOURNAL_IDENTIFY) {
        a->in.identify.number = j->desk.number;
        a->in.identify.floor_ms = floor;
        a->in.identify.now_ms = rt_jetcd_wall_ms();
        snprintf(a->in.identify.layout, sizeof(a->in.identify.layout), "%.*s",
                 (int)strcspn(j->meta, " "), j->meta);
    } else if (err == 0) {
        const RtEtcd__KeyValue *row = rt_jetcd_only(r, 2);
        if (row != NULL && !rt_entry_read(row->value.data, row->value.len, &record))
            err = rt_jetcd_damaged(j);
        if (row == NULL && rt_txn_id_birth(&a->in.read.id) < floor)
            record.stands = RT_JOURNAL_EXPIRED;
        if (err == 0)
            err = show(j, &a->in.read.id, &record, a->in.read.each, a->in.read.arg);
    }
    rt_jetcd_end(j, a, err);
}

int rt_jetcd_read(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    struct rt_jetcd_message m;
    struct rt_jetcd_key meta, floor, row;
    rt_jetcd_key(&meta, j, "meta");
    rt_jetcd_key(&floor, j, "floor");
    rt_jetcd_message(&m);
    if (a->in.kind == RT_JOURNAL_READ) {
        rt_jetcd_key_of(&row, j, &a->in.read.id);
        rt_jetcd_say_look(&m, rt_jetcd_then, &meta, &floor, &row);
    } else {
        (void)rt_jetcd_get(&m, rt_jetcd_then(&m), rt_jetcd_data(&meta));
        (void)rt_jetcd_get(&m, rt_jetcd_then(&m), rt_jetcd_data(&floor));
    }
    return rt_jetcd_send_message(j, &m, a->in.deadline, on_read, a);
}

/* "PREFIX rota-txn/o/DEADLINE/ID", or with ALL "PREFIX rota-txn/t/ID" */
static bool read_key(const struct rt_jetcd *j, const RtEtcd__KeyValue *kv, bool all,
                     struct rt_txn_id *id)
{
    struct rt_jetcd_key head;
    char digits[RT_TXN_ID_TEXT];
    rt_jetcd_key(&head, j, all ? "t/" : "o/");
    size_t at = head.size + (all ? 0 : 12 + 1);
    if (kv->key.len != at + 32)
        return false;
    memcpy(digits, kv->key.data + at, 32);
    digits[32] = '\0';
    return rt_txn_id_read(digits, id);
}

static void on_scanned(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    const RtEtcd__RangeResponse *r = reply;
    struct rt_entry_record record = {.label = ""};
    for (size_t i = 0; err == 0 && i < r->n_kvs; i++) {
        bool good = read_key(j, r->kvs[i], a->in.scan.all, &a->in.scan.after) &&
                    rt_entry_read(r->kvs[i]->value.data, r->kvs[i]->value.len, &record);
        record.registered_size = 0; /* READ it to get them */
        if (!good)
            err = rt_jetcd_damaged(j);
        else
            err = show(j, &a->in.scan.after, &record, a->in.scan.each, a->in.scan.arg);
        a->in.scan.after_deadline_ms = record.deadline_ms;
    }
    if (err == 0)
        a->in.scan.more = r->n_kvs >= a->in.scan.limit;
    rt_jetcd_end(j, a, err);
}

int rt_jetcd_scan(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    RtEtcd__RangeRequest r = RT_ETCD__RANGE_REQUEST__INIT;
    struct rt_jetcd_key from, to;
    int64_t before = a->in.scan.before_ms;
    before = before < 0 ? -1 : before > RT_TXN_BIRTH_MAX ? RT_TXN_BIRTH_MAX : before;
    if (a->in.scan.all) {
        rt_jetcd_key_of(&from, j, &a->in.scan.after);
        rt_jetcd_key(&to, j, "t0"); /* after all that begin with t/ */
    } else {
        rt_jetcd_key_open(&from, j, &a->in.scan.after, a->in.scan.after_deadline_ms);
        rt_jetcd_key(&to, j, "o/%012" PRIx64 "~", (uint64_t)(before < 0 ? 0 : before));
    }
    from.at[from.size++] = '\0'; /* after it */
    r.key = rt_jetcd_data(&from);
    r.range_end = rt_jetcd_data(&to);
    r.limit = before < 0 && !a->in.scan.all ? 1 : a->in.scan.limit;
    return rt_jetcd_send_range(j, &r, a->in.deadline, on_scanned, a);
}

static void on_resources(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err,
                         const void *reply)
{
    struct rt_jetcd *j = rt_jetcd_of_conn(c);
    struct rt_journal_ask *a = ask->owner;
    const RtEtcd__RangeResponse *r = reply;
    char name[RT_JOURNAL_NAME_MAX + 1], url[RT_JOURNAL_URL_MAX + 1];
    struct rt_jetcd_key head;
    rt_jetcd_key(&head, j, "r/");
    for (size_t i = 0; err == 0 && i < r->n_kvs; i++) {
        const RtEtcd__KeyValue *kv = r->kvs[i];
        if (kv->value.len < 13 || kv->value.data[12] != ' ') {
            err = rt_jetcd_damaged(j);
            break;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(kv->key.len - head.size),
                 (const char *)kv->key.data + head.size);
        snprintf(url, sizeof(url), "%.*s", (int)(kv->value.len - 13),
                 (const char *)kv->value.data + 13);
        char digits[13];
        memcpy(digits, kv->value.data, 12);
        digits[12] = '\0';
        if (a->in.resources.each != NULL)
            a->in.resources.each(a->in.resources.arg, name, url,
                                 (int64_t)strtoull(digits, NULL, 16));
    }
    rt_jetcd_end(j, a, err);
}

int rt_jetcd_resources(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    RtEtcd__RangeRequest r = RT_ETCD__RANGE_REQUEST__INIT;
    struct rt_jetcd_key from, to;
    rt_jetcd_key(&from, j, "r/");
    rt_jetcd_key(&to, j, "r0"); /* the character after the slash */
    r.key = rt_jetcd_data(&from);
    r.range_end = rt_jetcd_data(&to);
    r.limit = ALL_MOST;
    return rt_jetcd_send_range(j, &r, a->in.deadline, on_resources, a);
}

static void on_told(struct rt_etcd_conn *c, struct rt_etcd_ask *ask, int err, const void *reply)
{
    (void)reply;
    rt_jetcd_end(rt_jetcd_of_conn(c), ask->owner, err);
}

int rt_jetcd_resource(struct rt_jetcd *j, struct rt_journal_ask *a)
{
    struct rt_jetcd_message m;
    struct rt_jetcd_key k;
    char value[RT_JOURNAL_URL_MAX + 16];
    rt_jetcd_key(&k, j, "r/%s", a->in.resource.name);
    snprintf(value, sizeof(value), "%012" PRIx64 " %s", (uint64_t)rt_jetcd_wall_ms(),
             a->in.resource.url);
    rt_jetcd_message(&m);
    rt_jetcd_put(&m, rt_jetcd_then(&m), rt_jetcd_data(&k), rt_jetcd_text(value));
    return rt_jetcd_send_message(j, &m, a->in.deadline, on_told, a);
}
