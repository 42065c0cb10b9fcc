/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as a ZooKeeper has them, and steps that change them: first judged against what all have agreed on, then done by
 * each server in its own time. */
#ifndef SIM_ZOOKEEPER_TREE_H
#define SIM_ZOOKEEPER_TREE_H

#include "engine/zookeeper/zk.h"

struct zs_node {
    char *path, *data;
    size_t size;
    uint64_t hash;
    int64_t czxid, mzxid, pzxid;
    int64_t ctime, mtime; /* ms */
    uint64_t owner;       /* the session of an ephemeral one; or 0 */
    int32_t version;
    int32_t creates; /* how many children it was given: the next sequence number */
    uint32_t children;
    bool container;
};

struct zs_tree { /* zeroed: not even a root */
    struct zs_node *nodes;
    size_t count, room;
};

void zs_tree_open(struct zs_tree *t);
void zs_tree_close(struct zs_tree *t);
void zs_tree_copy(struct zs_tree *to, const struct zs_tree *from); /* TO is closed, or zeroed */
struct zs_node *zs_tree_find(const struct zs_tree *t, const char *path);
/* Where the last part of PATH begins; PARENT has what is before it. */
const char *zs_parent(const char *path, char *parent, size_t room);

struct zs_change {        /* one of a step; its path is whole */
    enum rt_zk_call call; /* CREATE, DELETE, SET; CHECK: nothing */
    char *path, *data;
    size_t size;
    uint64_t owner;
    int64_t czxid; /* of what is deleted */
    bool container;
};

struct zs_step {
    int64_t zxid, ms;
    uint64_t closes; /* a session; 0: none */
    uint32_t most; /* how many waiters may be told of what this step deletes; 0: it is not judged */
    uint32_t told;
    struct zs_change *changes;
    size_t count, room;
};

struct zs_ask { /* a change as it is asked for */
    enum rt_zk_call call;
    const char *path;
    struct rt_text data;
    int32_t flags, version;
};

/* Judges ASK of SESSION against T, and does it there; it becomes a change of STEP. Returns what a
 * server would say. */
int32_t zs_step_add(struct zs_step *step, struct zs_tree *t, uint64_t session,
                    const struct zs_ask *ask);
void zs_step_close(struct zs_step *step);
/* Does the change to T. */
void zs_tree_do(struct zs_tree *t, const struct zs_step *step, const struct zs_change *change);

#endif
