/* SPDX-License-Identifier: Apache-2.0 */
/* A line as ZooKeeper has it: children of one node, by their names alone. How they are named (dialects), who holds, and
 * what the waiting ones watch. Pure.
 *
 *   _c_SSSSSSSS-SSSS-SSSS-NNNN-NNNNNNNNNNNN[-marks]-lock-QQQQQQQQQQ      S session, N nonce, Q the parent's sequence
 *
 *   marks   r shared          p2of5 permits    c3 latch of 3    g3 barrier of 3    w looks for deadlocks
 *           d durable         t5000 ends so many ms after its ctime                k5000 keeps the line that long
 *           n1a2b its number, if that is not its czxid: it is another node's heir
 *
 * A child that does not parse is an exclusive ticket, at the place given by the digits at its end, or in front of all.
 * A durable `k` beside a ticket of the same sequence is one place with it; alone, it keeps the line.
 *
 * `simple`: the holder has made the one node, and beside it, in the same step, a ticket without a sequence that says
 * whose it is: they are one place. Nobody else has a node.
 *
 * Tickets join only at the end (the sequence) and leave anywhere, so a grant once given stays: any state of the line,
 * however old, that has me in it and room for me, is a grant as long as my ticket is there. Only barriers need a mark,
 * as data of the line itself: all up to that sequence have gone through. */
#ifndef RT_ZK_LINE_H
#define RT_ZK_LINE_H

#include "core/grant.h"
#include "engine/zookeeper/jute.h"

#define RT_ZK_NODE_ROOM 192 /* for the name of a ticket */
/* Nobody stands beyond it. 2^31 - 1 is given again and again, or wraps around, depending on what else is under way
 * there (3.8). */
#define RT_ZK_SEQ_LAST 2147400000

struct rt_zk_dialect {
    const char *name;
    const char *begin, *word, *shared; /* shared NULL: the mark r */
    bool dashes;                       /* session and nonce are written as a UUID */
    bool bare;                         /* a leader's data is its value alone */
    bool believes; /* nobody replaces a node without first changing the old one (D3) */
    uint32_t caps;
    /* the one node that the holder has made, and all others watch; NULL: they stand in line */
    const char *lone;
};
/* By name; NULL: there is no such dialect. */
const struct rt_zk_dialect *rt_zk_dialect(const char *name);

struct rt_zk_id { /* what the name of a ticket says */
    uint64_t session, nonce, number;
    int64_t until_ms, keep_ms;
    uint32_t mode, take, of;
    bool durable, detect;
    bool ours;  /* it is named as Rota names them, or by a UUID */
    bool other; /* its word belongs to a recipe that this dialect does not exclude */
    bool placed;
    int32_t seq;
};

/* Writes a node's name as it is requested: the server appends the sequence. With SEQ, the whole name of one that
 * takes the place of another. */
void rt_zk_node(char out[RT_ZK_NODE_ROOM], const struct rt_zk_dialect *d, const struct rt_zk_id *id,
                const int32_t *seq);
void rt_zk_node_read(const struct rt_zk_dialect *d, const char *node, struct rt_zk_id *id);

struct rt_zk_place {
    const char *node;
    const char *keeper; /* beside it, or the one node; NULL: none */
    struct rt_zk_id id;
    struct rt_zk_stat stat; /* if it was asked for; czxid 0: it was not */
    struct rt_text data;
    bool granted;
};

struct rt_zk_line { /* zeroed before the first use */
    struct rt_zk_place *places;
    size_t count, room, waiting;
    char *text;
    const char *other; /* the node of one of another recipe; or NULL */
    bool gathers, bounded;
    /* whoever has a ticket has made the one node with it: all hold, should there be several */
    bool lone;
    int32_t bound;                    /* bounded: all up to it went through the barrier */
    const struct rt_zk_place *opener; /* the barrier is full with this one */
};

/* All children, in any order, as the answer to getChildren has them. 0, ROTA_NOMEM, ROTA_PROTOCOL. */
int rt_zk_line_read(struct rt_zk_line *line, const struct rt_zk_dialect *d, struct rt_jute_in *in);
/* Takes out those whose time is over at NOW_MS, by the servers' clock, as far as it is known when they began: they are
 * moved behind the others, and their number is returned. Then determines who holds. */
size_t rt_zk_line_judge(struct rt_zk_line *line, int64_t now_ms);
void rt_zk_line_fini(struct rt_zk_line *line);
const struct rt_zk_place *rt_zk_line_node(const struct rt_zk_line *line, const char *node);
/* The first with that session and nonce; NONCE 0: with that session and number. NULL: none. */
const struct rt_zk_place *rt_zk_line_find(const struct rt_zk_line *line, uint64_t session,
                                          uint64_t nonce, uint64_t number);
/* When it ends by time, by the servers' clock; 0: it does not, or that is not known. */
int64_t rt_zk_ends_ms(const struct rt_zk_place *p);
/* Its number: the fence. 0: it is not known. */
static inline uint64_t rt_zk_number(const struct rt_zk_place *p)
{
    return p->id.number != 0 ? p->id.number : (uint64_t)p->stat.czxid;
}

/* What PLACE, which waits, has to watch: a node; NULL: the whole line (permits: its children; a barrier: its data). */
const struct rt_zk_place *rt_zk_line_aim(const struct rt_zk_line *line,
                                         const struct rt_zk_place *place);

#endif
