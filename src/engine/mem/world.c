/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of the process by name, and the lines of a world by name. */
#include "engine/mem/world.h"

#include "base/alloc.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <string.h>

#define TABLE_FIRST 16 /* chains of a new world: a few lines cost a few hundred bytes */
#define CHAIN_MAX 2    /* lines per chain before the table doubles: 4 to 8 bytes per line */

static pthread_mutex_t worlds_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rt_mem_world *worlds;
static uint64_t number_floor; /* the last number of any real-time world that has ended */

/* Where the numbers of a late world begin: what names a waiting ticket is never one of them. */
#define LATE_FIRST (UINT64_C(1) << 32)

static struct rt_mem_world *world_new(const char *name, bool virtual_time, bool late)
{
    size_t size = strlen(name) + 1;
    struct rt_mem_world *world = rt_alloc(sizeof(*world) + size);
    if (world == NULL)
        return NULL;
    world->table = rt_alloc(TABLE_FIRST * sizeof(*world->table));
    if (world->table == NULL)
        goto free_world;
    if (pthread_mutex_init(&world->mutex, NULL) != 0)
        goto free_table;
    world->table_size = TABLE_FIRST;
    world->number = virtual_time ? 0 : number_floor;
    world->late = late;
    if (late && world->number < LATE_FIRST)
        world->number = LATE_FIRST;
    rt_mem_ring_init(&world->sessions);
    rt_mem_ring_init(&world->fading);
    memcpy(world->name, name, size);
    return world;

free_table:
    rt_free(world->table);
free_world:
    rt_free(world);
    return NULL;
}

struct rt_mem_world *rt_mem_world_get(const char *name, bool virtual_time, bool late)
{
    pthread_mutex_lock(&worlds_mutex);
    struct rt_mem_world *world = worlds;
    while (world != NULL && (world->late != late || strcmp(world->name, name) != 0))
        world = world->next;
    if (world == NULL) {
        world = world_new(name, virtual_time, late);
        if (world != NULL) {
            world->next = worlds;
            worlds = world;
        }
    }
    if (world != NULL)
        world->users++;
    pthread_mutex_unlock(&worlds_mutex);
    return world;
}

static void line_free_all(struct rt_mem_world *world, struct rt_mem_line *line)
{
    line->pins++; /* so that it stays until its last ticket has gone */
    while (line->last != NULL)
        rt_mem_ticket_drop(line->last);
    line->pins--;
    rt_mem_line_tidy(world, line);
}

static void world_free(struct rt_mem_world *world)
{
    while (world->sessions.next != &world->sessions)
        rt_mem_session_free(world, rt_mem_session_of(world->sessions.next));
    for (size_t i = 0; i < world->table_size; i++)
        while (world->table[i] != NULL)
            line_free_all(world, world->table[i]);
    assert(world->line_count == 0 && world->watches == NULL);
    pthread_mutex_destroy(&world->mutex);
    rt_free(world->table);
    rt_free(world);
}

void rt_mem_world_put(struct rt_mem_world *world)
{
    pthread_mutex_lock(&worlds_mutex);
    assert(world->users > 0);
    if (--world->users == 0) {
        struct rt_mem_world **at = &worlds;
        while (*at != world)
            at = &(*at)->next;
        *at = world->next;
        if (world->number > number_floor)
            number_floor = world->number;
        world_free(world);
    }
    pthread_mutex_unlock(&worlds_mutex);
}

/* ---- Lines -------------------------------------------------------------- */

static size_t chain_of(const char *name, size_t table_size)
{
    return (size_t)rt_hash(name, strlen(name)) & (table_size - 1);
}

struct rt_mem_line *rt_mem_line_find(struct rt_mem_world *world, const char *name)
{
    struct rt_mem_line *line = world->table[chain_of(name, world->table_size)];
    while (line != NULL && strcmp(line->name, name) != 0)
        line = line->next;
    return line;
}

/* Without memory the chains just get longer. */
static void table_grow(struct rt_mem_world *world)
{
    size_t size = world->table_size * 2;
    struct rt_mem_line **table = rt_alloc(size * sizeof(*table));
    if (table == NULL)
        return;
    for (size_t i = 0; i < world->table_size; i++) {
        struct rt_mem_line *line;
        while ((line = world->table[i]) != NULL) {
            world->table[i] = line->next;
            struct rt_mem_line **chain = &table[chain_of(line->name, size)];
            line->next = *chain;
            *chain = line;
        }
    }
    rt_free(world->table);
    world->table = table;
    world->table_size = size;
}

struct rt_mem_line *rt_mem_line_get(struct rt_mem_world *world, const char *name)
{
    struct rt_mem_line *line = rt_mem_line_find(world, name);
    if (line != NULL)
        return line;
    size_t size = strlen(name) + 1;
    line = rt_alloc(offsetof(struct rt_mem_line, name) + size);
    if (line == NULL)
        return NULL;
    memcpy(line->name, name, size);
    if (world->line_count >= world->table_size * CHAIN_MAX)
        table_grow(world);
    struct rt_mem_line **chain = &world->table[chain_of(name, world->table_size)];
    line->next = *chain;
    *chain = line;
    world->line_count++;
    return line;
}

void rt_mem_line_tidy(struct rt_mem_world *world, struct rt_mem_line *line)
{
    if (line->count > 0 || line->pins > 0)
        return;
    struct rt_mem_line **at = &world->table[chain_of(line->name, world->table_size)];
    while (*at != line)
        at = &(*at)->next;
    *at = line->next;
    world->line_count--;
    rt_free(line);
}
