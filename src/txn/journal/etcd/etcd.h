/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the journal in etcd: etcd.c has the picture.
 *
 *   message.c  keys, Txns built on the stack
 *   records.c  DECIDE, REGISTER, CLAIM, DONE: what changes a record
 *   look.c     READ, IDENTIFY, SCAN, resources
 *   forget.c   FORGET
 *   etcd.c     who we are, ops, life */
#ifndef RT_JOURNAL_ETCD_H
#define RT_JOURNAL_ETCD_H

#include "engine/etcd/link.h"
#include "txn/journal/ask.h"

#define RT_JETCD_PREFIX_MAX 512
#define RT_JETCD_KEY_MAX (RT_JETCD_PREFIX_MAX + 320)

struct rt_jetcd {
    struct rt_journal base; /* first */
    struct rt_journal_desk desk;
    struct rt_etcd_conn conn;
    char prefix[RT_JETCD_PREFIX_MAX];
    char meta[32];  /* as stored there, once the number is known */
    uint32_t drawn; /* the number we offer */
    bool asking;    /* for the meta key */
    bool stopped;
    char why[256]; /* stopped */
};

struct rt_jetcd_key {
    char at[RT_JETCD_KEY_MAX];
    size_t size;
};

/* ---- message.c */

#define RT_JETCD_STEPS (100 + 4)

struct rt_jetcd_message { /* a Txn built on the stack */
    RtEtcd__TxnRequest txn;
    RtEtcd__Compare compares[4], *compare_at[4];
    RtEtcd__RequestOp then[RT_JETCD_STEPS], *then_at[RT_JETCD_STEPS], other[4], *other_at[4];
    RtEtcd__RangeRequest ranges[8];
    RtEtcd__PutRequest puts[4];
    RtEtcd__DeleteRangeRequest deletes[RT_JETCD_STEPS];
    size_t range_count, put_count, delete_count;
};

/* Keys: PREFIX rota-txn/ and what FORMAT says; of a record; of the same record among those not done. */
__attribute__((format(printf, 3, 4))) void rt_jetcd_key(struct rt_jetcd_key *k,
                                                        const struct rt_jetcd *j,
                                                        const char *format, ...);
void rt_jetcd_key_of(struct rt_jetcd_key *k, const struct rt_jetcd *j, const struct rt_txn_id *id);
void rt_jetcd_key_open(struct rt_jetcd_key *k, const struct rt_jetcd *j, const struct rt_txn_id *id,
                       int64_t deadline_ms);
ProtobufCBinaryData rt_jetcd_data(const struct rt_jetcd_key *k);
ProtobufCBinaryData rt_jetcd_text(const char *s);

/* What a message points to must live until it is sent. */
void rt_jetcd_message(struct rt_jetcd_message *m); /* empty */
void rt_jetcd_if_value(struct rt_jetcd_message *m, ProtobufCBinaryData k,
                       RtEtcd__Compare__Result how, const char *value);
void rt_jetcd_if_created(struct rt_jetcd_message *m, ProtobufCBinaryData k, int64_t revision);
void rt_jetcd_if_changed_at(struct rt_jetcd_message *m, ProtobufCBinaryData k, int64_t revision);
RtEtcd__RequestOp *rt_jetcd_then(struct rt_jetcd_message *m);
RtEtcd__RequestOp *rt_jetcd_otherwise(struct rt_jetcd_message *m);
RtEtcd__RangeRequest *rt_jetcd_get(struct rt_jetcd_message *m, RtEtcd__RequestOp *op,
                                   ProtobufCBinaryData k);
void rt_jetcd_put(struct rt_jetcd_message *m, RtEtcd__RequestOp *op, ProtobufCBinaryData k,
                  ProtobufCBinaryData value);
void rt_jetcd_delete(struct rt_jetcd_message *m, RtEtcd__RequestOp *op, ProtobufCBinaryData k);
/* Three gets: meta, floor, a record. */
void rt_jetcd_say_look(struct rt_jetcd_message *m,
                       RtEtcd__RequestOp *(*where)(struct rt_jetcd_message *m),
                       const struct rt_jetcd_key *meta, const struct rt_jetcd_key *floor,
                       const struct rt_jetcd_key *row);
/* 0, or ROTA_NOMEM with errmsg: no answer will come. */
int rt_jetcd_send_message(struct rt_jetcd *j, struct rt_jetcd_message *m, int64_t deadline,
                          rt_etcd_answer_fn *answer, void *owner);
int rt_jetcd_send_range(struct rt_jetcd *j, const RtEtcd__RangeRequest *r, int64_t deadline,
                        rt_etcd_answer_fn *answer, void *owner);
/* The only key of the Ith answer; NULL: there is none. */
const RtEtcd__KeyValue *rt_jetcd_only(const RtEtcd__TxnResponse *r, size_t i);

/* ---- Ops: each begins A. 0: rt_jetcd_end will follow; else it will not. */

int rt_jetcd_records(struct rt_jetcd *j, struct rt_journal_ask *a);
int rt_jetcd_read(struct rt_jetcd *j, struct rt_journal_ask *a);
int rt_jetcd_scan(struct rt_jetcd *j, struct rt_journal_ask *a);
int rt_jetcd_resource(struct rt_jetcd *j, struct rt_journal_ask *a);
int rt_jetcd_resources(struct rt_jetcd *j, struct rt_journal_ask *a);
int rt_jetcd_forget(struct rt_jetcd *j, struct rt_journal_ask *a);
void rt_jetcd_records_close(
    struct rt_jetcd *j); /* before the connection is closed: frees what its requests own */

/* ---- etcd.c */

void rt_jetcd_end(struct rt_jetcd *j, struct rt_journal_ask *a, int err); /* A is over */
/* Each sets errmsg and returns ROTA_PROTOCOL; nothing more is asked. */
int rt_jetcd_stop(struct rt_jetcd *j, const char *why);
int rt_jetcd_damaged(struct rt_jetcd *j);
int rt_jetcd_check_meta(struct rt_jetcd *j, const RtEtcd__KeyValue *meta);
int rt_jetcd_floor_of(struct rt_jetcd *j, const RtEtcd__KeyValue *kv, int64_t *floor);
int64_t rt_jetcd_wall_ms(void);
struct rt_jetcd *rt_jetcd_of_conn(struct rt_etcd_conn *c);

#endif
