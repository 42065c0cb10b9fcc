/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes, and what changes them. */
#include "sim/zookeeper/tree.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_CONTAINER 4
#define PATH_ROOM 1024

/* ---- Nodes ------------------------------------------------------------------------------------ */

static uint64_t hash_of(const char *path)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *path != '\0'; path++)
        h = (h ^ (uint8_t)*path) * UINT64_C(0x100000001b3);
    return h;
}

static void *copy_of(const void *bytes, size_t n)
{
    char *copy = malloc(n + 1);
    assert(copy != NULL);
    if (n > 0)
        memcpy(copy, bytes, n);
    copy[n] = '\0';
    return copy;
}

struct zs_node *zs_tree_find(const struct zs_tree *t, const char *path)
{
    uint64_t hash = hash_of(path);
    for (size_t i = 0; i < t->count; i++)
        if (t->nodes[i].hash == hash && strcmp(t->nodes[i].path, path) == 0)
            return &t->nodes[i];
    return NULL;
}

const char *zs_parent(const char *path, char *parent, size_t room)
{
    const char *last = strrchr(path, '/');
    assert(last != NULL && (size_t)(last - path) < room);
    snprintf(parent, room, "%.*s", last == path ? 1 : (int)(last - path), path);
    return last + 1;
}

static struct zs_node *node_add(struct zs_tree *t, const char *path)
{
    if (t->count == t->room) {
        t->room = t->room > 0 ? 2 * t->room : 16;
        t->nodes = realloc(t->nodes, t->room * sizeof(*t->nodes));
        assert(t->nodes != NULL);
    }
    struct zs_node *node = &t->nodes[t->count++];
    *node = (struct zs_node){.path = copy_of(path, strlen(path)), .hash = hash_of(path)};
    return node;
}

void zs_tree_open(struct zs_tree *t)
{
    *t = (struct zs_tree){0};
    node_add(t, "/")->data = copy_of("", 0);
}

void zs_tree_close(struct zs_tree *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->nodes[i].path);
        free(t->nodes[i].data);
    }
    free(t->nodes);
    *t = (struct zs_tree){0};
}

void zs_tree_copy(struct zs_tree *to, const struct zs_tree *from)
{
    zs_tree_close(to);
    for (size_t i = 0; i < from->count; i++) {
        struct zs_node *node = node_add(to, from->nodes[i].path);
        char *path = node->path;
        *node = from->nodes[i];
        node->path = path;
        node->data = copy_of(node->data, node->size);
    }
}

/* ---- Changes ---------------------------------------------------------------------------------- */

static void do_create(struct zs_tree *t, const struct zs_step *step, const struct zs_change *change)
{
    char path[PATH_ROOM];
    zs_parent(change->path, path, sizeof(path));
    struct zs_node *parent = zs_tree_find(t, path);
    assert(parent != NULL);
    parent->creates += parent->creates < INT32_MAX; /* as 3.8 does: the last is given again */
    parent->children++;
    parent->pzxid = step->zxid;
    struct zs_node *node = node_add(t, change->path);
    node->data = copy_of(change->data, change->size);
    node->size = change->size;
    node->czxid = node->mzxid = node->pzxid = step->zxid;
    node->ctime = node->mtime = step->ms;
    node->owner = change->owner;
    node->container = change->container;
}

static void do_delete(struct zs_tree *t, const struct zs_step *step, struct zs_node *node)
{
    char path[PATH_ROOM];
    zs_parent(node->path, path, sizeof(path));
    free(node->path);
    free(node->data);
    *node = t->nodes[--t->count];
    struct zs_node *parent = zs_tree_find(t, path);
    assert(parent != NULL && parent->children > 0);
    parent->children--;
    parent->pzxid = step->zxid;
}

void zs_tree_do(struct zs_tree *t, const struct zs_step *step, const struct zs_change *change)
{
    struct zs_node *node = zs_tree_find(t, change->path);
    if (change->call == RT_ZK_CREATE) {
        assert(node == NULL);
        do_create(t, step, change);
        return;
    }
    assert(node != NULL);
    if (change->call == RT_ZK_DELETE) {
        do_delete(t, step, node);
    } else if (change->call == RT_ZK_SET) {
        free(node->data);
        node->data = copy_of(change->data, change->size);
        node->size = change->size;
        node->mzxid = step->zxid;
        node->mtime = step->ms;
        node->version++;
    }
}

/* ---- Judged ----------------------------------------------------------------------------------- */

static int32_t judge(const struct zs_tree *t, const struct zs_ask *ask, char *path, size_t room)
{
    char above[PATH_ROOM];
    snprintf(path, room, "%s", ask->path);
    if (ask->call != RT_ZK_CREATE) {
        const struct zs_node *node = zs_tree_find(t, path);
        if (node == NULL)
            return RT_ZK_NO_NODE;
        if (ask->version != -1 && ask->version != node->version)
            return RT_ZK_BAD_VERSION;
        return ask->call == RT_ZK_DELETE && node->children > 0 ? RT_ZK_NOT_EMPTY : 0;
    }
    zs_parent(path, above, sizeof(above));
    const struct zs_node *parent = zs_tree_find(t, above);
    if (parent == NULL)
        return RT_ZK_NO_NODE;
    if (parent->owner != 0)
        return -108; /* no children for ephemerals */
    if (ask->flags != FLAG_CONTAINER && ask->flags & RT_ZK_SEQUENTIAL)
        snprintf(path, room, "%s%010" PRId32, ask->path, parent->creates);
    return zs_tree_find(t, path) != NULL ? RT_ZK_EXISTS_ALREADY : 0;
}

int32_t zs_step_add(struct zs_step *step, struct zs_tree *t, uint64_t session,
                    const struct zs_ask *ask)
{
    char path[PATH_ROOM];
    int32_t said = judge(t, ask, path, sizeof(path));
    if (said != 0)
        return said;
    if (step->count == step->room) {
        step->room = step->room > 0 ? 2 * step->room : 4;
        step->changes = realloc(step->changes, step->room * sizeof(*step->changes));
        assert(step->changes != NULL);
    }
    struct zs_change *change = &step->changes[step->count++];
    bool container = ask->call == RT_ZK_CREATE && ask->flags == FLAG_CONTAINER;
    *change = (struct zs_change){
        .call = ask->call,
        .path = copy_of(path, strlen(path)),
        .data = copy_of(ask->data.at, ask->data.size),
        .size = ask->data.size,
        .container = container,
    };
    if (ask->call == RT_ZK_DELETE)
        change->czxid = zs_tree_find(t, path)->czxid;
    if (ask->call == RT_ZK_CREATE && !container && ask->flags & RT_ZK_EPHEMERAL)
        change->owner = session;
    if (ask->call != RT_ZK_CHECK)
        zs_tree_do(t, step, change);
    return 0;
}

void zs_step_close(struct zs_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        free(step->changes[i].path);
        free(step->changes[i].data);
    }
    free(step->changes);
}
