/* SPDX-License-Identifier: Apache-2.0 */
/* A line as etcd has it: which of its tickets hold, and which key a waiting one watches. Pure.
 *
 * Tickets join only at the end (create_revision) and leave anywhere, so a grant once given stays: any
 * state of the line, however old, that has me in it and room for me, is a grant as long as my ticket is
 * there. Only barriers need a mark: their tickets hold together until the last one has left. */
#ifndef RT_ETCD_LINE_H
#define RT_ETCD_LINE_H

#include "engine/etcd/key.h"
#include "engine/etcd/proto.h"

struct rt_etcd_place {
    const RtEtcd__KeyValue *kv;
    struct rt_etcd_card card;
    struct rt_etcd_id id;
    uint64_t number; /* create_revision */
    bool granted;
};

struct rt_etcd_line { /* zeroed before the first use, used again and again; points into the reply */
    struct rt_etcd_place *places;
    size_t count, room;
    size_t waiting;
    uint64_t opens; /* a barrier is full: all up to this number are to be marked; else 0 */
};

/* All tickets of a line, in any order. 0 or ROTA_NOMEM. */
int rt_etcd_line_read(struct rt_etcd_line *line, RtEtcd__KeyValue *const *kvs, size_t n);
void rt_etcd_line_fini(struct rt_etcd_line *line);
const struct rt_etcd_place *rt_etcd_line_find(const struct rt_etcd_line *line, uint64_t number);

/* Keys (ProtobufCBinaryData) in the order etcd has them, for qsort and bsearch. */
int rt_etcd_by_bytes(const void *a, const void *b);

enum rt_etcd_aim_kind {
    RT_ETCD_AIM_NONE, /* it holds */
    RT_ETCD_AIM_KEY,  /* one key ahead */
    RT_ETCD_AIM_LINE, /* the whole line */
    RT_ETCD_AIM_OPEN, /* the whole line, and it is for me to open the barrier */
};

struct rt_etcd_aim {
    enum rt_etcd_aim_kind kind;
    const RtEtcd__KeyValue *kv; /* AIM_KEY */
    bool puts;                  /* changes matter, not only ends */
};

/* What PLACE of LINE has to watch so that it misses nothing that grants it and hears little else. */
struct rt_etcd_aim rt_etcd_line_aim(const struct rt_etcd_line *line,
                                    const struct rt_etcd_place *place);

#endif
