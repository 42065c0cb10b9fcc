/* SPDX-License-Identifier: Apache-2.0 */
/* What a model etcd has: keys with revisions, leases, and every change since the last compaction.
 *
 * The state machine of etcd 3.4 behind its log: requests in, answers out, no clock and no network.
 * test_model.c holds it against a real one. */
#ifndef SIM_ETCD_STORE_H
#define SIM_ETCD_STORE_H

#include "engine/etcd/etcd.h"
#include "engine/etcd/proto.h"

#define ES_LEASE_LEAST_S 2 /* 1.5 election time-outs, rounded up */
#define ES_OPS_MAX 128

struct es_text { /* bytes; not terminated */
    const uint8_t *at;
    size_t n;
};

struct es_kv { /* never changed, counted */
    uint32_t refs;
    int64_t create, mod, version, lease;
    struct es_text key, value; /* into `bytes` */
    uint8_t bytes[];
};

struct es_change { /* BEFORE NULL: created; AFTER NULL: deleted */
    int64_t revision;
    struct es_kv *before, *after;
    uint32_t told, most; /* how many waiters in a line were told of it; may be (0: not judged) */
};

struct es_lease {
    int64_t id, ttl_s;
    int64_t ends,
        revoke_at; /* the server's: by the leader's clock, and when it will have noticed */
};

struct es_store {
    struct es_kv **kvs; /* by key */
    size_t count, room;
    struct es_change *log;
    size_t log_count, log_room;
    struct es_lease *leases;
    size_t lease_count, lease_room;
    int64_t revision;  /* of the last change; 1: none was */
    int64_t compacted; /* changes up to this one are forgotten */
    int64_t last_lease;
    bool full; /* no space: puts and grants are refused */
};

void es_store_open(struct es_store *s);
void es_store_close(struct es_store *s);
void es_store_compact(struct es_store *s, int64_t revision);

struct es_lease *es_store_lease(const struct es_store *s, int64_t id); /* or NULL */
const struct es_kv *es_store_find(const struct es_store *s, struct es_text key);
/* Whether KEY is from BEGIN on and before END; END empty: that key alone, "\0": all after it. */
bool es_text_within(struct es_text key, struct es_text begin, struct es_text end);
int es_text_order(struct es_text a, struct es_text b);

static inline struct es_text es_text_of(ProtobufCBinaryData data)
{
    return (struct es_text){data.data, data.len};
}

struct es_answer {
    uint32_t status;   /* enum rt_grpc_status */
    const char *text;  /* of the status */
    const void *reply; /* a message, of the arena; NULL unless OK */
};

/* Does REQUEST, an RtEtcd__...Request of CALL (those of KV, and of Lease except for the time that is
 * left). VIEW not 0, for what only reads: as it was at that revision. Headers have only the revision. */
struct es_answer es_store_do(struct es_store *s, struct rt_arena *arena, enum rt_etcd_call call,
                             const void *request, int64_t view);
/* Whether it changes nothing, whatever the state: then etcd does not put it into its log. */
bool es_only_reads(enum rt_etcd_call call, const void *request);
/* As the server does when a lease is over; false: there is none. */
bool es_store_revoke(struct es_store *s, int64_t id);

/* range.c */
struct es_answer es_range(const struct es_store *s, struct rt_arena *arena,
                          const RtEtcd__RangeRequest *rq, int64_t view);
void *es_new(struct rt_arena *arena, size_t size); /* zeroed; never NULL */
RtEtcd__KeyValue *es_kv_message(struct rt_arena *arena, const struct es_kv *kv, bool key_only);
/* The keys of a range as they were at VIEW (0: now), in order; *N of them, of the arena. */
const struct es_kv **es_scan(const struct es_store *s, struct rt_arena *arena, struct es_text begin,
                             struct es_text end, int64_t view, size_t *n);
/* As a watch tells it. */
RtEtcd__Event *es_event(struct rt_arena *arena, const struct es_change *change);
RtEtcd__Header *es_header(struct rt_arena *arena, int64_t revision);

#endif
