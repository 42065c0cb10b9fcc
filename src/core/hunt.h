/* SPDX-License-Identifier: Apache-2.0 */
/* The hunt for deadlocks: from a waiting ticket along the chain of who waits for whom, back to itself.
 *
 * Pure: it says which line or session to INSPECT next, is given the places, and ends with a
 * verdict. Who waits: a ticket that is not granted. For whom: the tickets ahead that exclude it,
 * and all ahead that wait themselves. An owner that holds one ticket and waits with another, both
 * asked for with ROTA_DETECT, links the two.
 *
 * Each look at a line is from a different moment, so a cycle may be pieced together from edges that never
 * existed at once. It counts only if a second round finds the very same tickets: between the
 * two rounds all of them stood in their lines. In a cycle the ticket with the largest (number, name) is
 * the victim; everybody in it comes to the same conclusion, and only the victim acts. */
#ifndef RT_HUNT_H
#define RT_HUNT_H

#include <rota.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for every cycle that people have built; a larger web is left alone. */
#define RT_HUNT_NODES 64
#define RT_HUNT_TEXT 16384 /* bytes of names */

struct rt_hunt_node { /* a waiting ticket */
    size_t name;      /* where it begins in the text */
    uint64_t number, session, owner;
    uint64_t behind; /* the number of the ticket through which its owner blocks the parent */
    int parent;      /* the node that waits for its owner; -1: none */
};

struct rt_hunt_agent { /* an owner somebody waits for */
    uint64_t session, owner;
    uint64_t behind;
    int parent;
};

struct rt_hunt_seen { /* a ticket ahead of the node asked about */
    uint64_t number, session, owner;
    uint32_t mode, take;
    bool granted;
};

enum rt_hunt_step { RT_HUNT_LINE, RT_HUNT_SESSION, RT_HUNT_OVER };
enum rt_hunt_verdict { RT_HUNT_NOTHING, RT_HUNT_SOMEBODY_ELSE, RT_HUNT_VICTIM };

struct rt_hunt {
    struct rt_hunt_node nodes[RT_HUNT_NODES]; /* the first is ours */
    struct rt_hunt_agent agents[RT_HUNT_NODES];
    struct rt_hunt_seen seen[RT_HUNT_NODES];
    int node_count, node_asked;
    int agent_count, agent_asked;
    int seen_count;
    bool found_self; /* the node asked about was in the answer, and waits */
    bool passed_self;
    uint32_t self_mode, self_take, self_of;
    enum rt_hunt_step step;
    enum rt_hunt_verdict verdict;
    uint64_t first;       /* signature of the cycle in the first round; 0: none yet */
    int last;             /* the node that waits for us: closes the cycle ... */
    uint64_t last_behind; /* ... by this ticket of ours */
    size_t text_used;
    char text[RT_HUNT_TEXT];
};

/* Begins with our own waiting ticket. NAME is as spelled on the engine. */
void rt_hunt_begin(struct rt_hunt *h, const char *name, uint64_t number, uint64_t session,
                   uint64_t owner);

/* What to inspect: *NAME (RT_HUNT_LINE) or *SESSION (RT_HUNT_SESSION). RT_HUNT_OVER: see
 * h->verdict. */
enum rt_hunt_step rt_hunt_next(struct rt_hunt *h, const char **name, uint64_t *session);

/* One place of the answer, in the line's order, and its end. */
void rt_hunt_place(struct rt_hunt *h, const char *name, const struct rota_place *place);
void rt_hunt_answered(struct rt_hunt *h);

/* The question came to nothing: so does the hunt. */
void rt_hunt_fail(struct rt_hunt *h);

#endif
