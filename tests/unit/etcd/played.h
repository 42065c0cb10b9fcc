/* SPDX-License-Identifier: Apache-2.0 */
/* A town of one etcd (town.h) whose transactions get the answers that the test wrote down beforehand. */
#ifndef ETCD_PLAYED_H
#define ETCD_PLAYED_H

#include "engine/etcd/ops.h"
#include "town.h"

#define RUNNING 1000 /* as an op's error */
#define TXNS 16
#define LEASES 8

extern const struct rt_engine rt_engine_etcd;

extern struct town t;

/* ---- Answers -------------------------------------------------------------------------------------- */

struct reply { /* to a transaction */
    RtEtcd__TxnResponse txn;
    RtEtcd__Header header;
    RtEtcd__ResponseOp ops[4], *op_list[4];
    RtEtcd__RangeResponse ranges[4];
    RtEtcd__KeyValue kvs[8], *kv_list[8];
    size_t kv_count;
};

ProtobufCBinaryData text(const char *s);
void reply_init(struct reply *r, bool succeeded, int64_t revision);
void add_put(struct reply *r);
void add_range(struct reply *r);
/* Into the range that was added last; its mod_revision is 100 more than NUMBER. */
void add_kv(struct reply *r, const char *key, const char *value, int64_t number, int64_t lease);

/* ---- The server ----------------------------------------------------------------------------------- */

extern const struct reply *script[TXNS]; /* the answer to each transaction; NULL: none, for now */
extern RtEtcd__TxnRequest *seen[TXNS];   /* as they came */
extern int txns, revokes, grants;        /* that came */
extern int64_t revoked[LEASES], granted_ttl[LEASES];

void answer(int txn, const struct reply *r); /* of those that had none */
/* Transactions by the script, leases 91, 92 ... with the requested ttl, and their ends. */
bool play(struct town *town, struct town_wire *w, size_t i);
void open_town(town_play_fn *fn); /* and all of the above begins anew */
void close_town(void);

void assert_bytes(ProtobufCBinaryData got, const char *want);
/* A ticket of the session 7 that holds "a", in our table. */
struct rt_etcd_ticket *add_ticket(const char *key, uint64_t number);
struct rt_op leave_op(const char *name, uint64_t number, uint64_t nonce); /* of the session 7 */

#endif
