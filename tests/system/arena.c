/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: folders, clients, and the verdict. */
#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LEFT_MAX 64 /* enough to see what it is */

static void must(int rv, const char *what)
{
    if (rv == 0)
        return;
    fprintf(stderr, "arena: %s: %d %s\n", what, rv, rota_errmsg(NULL));
    abort();
}

void sys_arena_init(struct sys_arena *arena, size_t writes)
{
    static int count;
    const char *url = getenv("ROTA_TEST_URL");
    char path[4300];

    count++;
    snprintf(arena->folder, sizeof(arena->folder), "%s/history%d", rt_tmpdir(), count);
    must(mkdir(arena->folder, 0700), "mkdir");
    snprintf(path, sizeof(path), "%s/engine%d", rt_tmpdir(), count);
    must(mkdir(path, 0700), "mkdir");
    if (url != NULL && url[0] != '\0')
        snprintf(arena->url, sizeof(arena->url), "%s", url);
    else
        snprintf(arena->url, sizeof(arena->url), "file:%s", path);
    snprintf(path, sizeof(path), "%s/resource", arena->folder);
    must(rt_resource_open(&arena->resource, path, writes), "resource");
}

void sys_arena_fini(struct sys_arena *arena)
{
    rt_resource_close(arena->resource);
}

void sys_arena_enter(const struct sys_arena *arena, struct rt_actor *actor, size_t records,
                     const struct rota_options *opts)
{
    *actor = (struct rt_actor){0};
    must(rt_history_open(&actor->history, arena->folder, records), "history");
    must(rota_open(&actor->rota, arena->url, opts), "rota_open");
    actor->client = rt_history_client(actor->history);
}

void sys_arena_leave(struct rt_actor *actor)
{
    rota_close(actor->rota);
    rt_history_close(actor->history);
}

/* What is left in the line of NAME now that everybody has gone. */
static void check_left(const struct sys_arena *arena, const char *name,
                       const struct rt_record *records, size_t n, struct rt_report *report)
{
    struct rt_shown shown[LEFT_MAX];
    struct rota_line *line = NULL;
    struct rota *rota = NULL;
    size_t count = 0;

    must(rota_open(&rota, arena->url, NULL), "rota_open");
    must(rota_inspect(rota, name, &line), "rota_inspect");
    for (; count < line->count && count < LEFT_MAX; count++)
        shown[count] = (struct rt_shown){.name = name, .number = line->places[count].number};
    rt_check_left_behind(records, n, shown, count, report);
    rota_line_free(line);
    rota_close(rota);
}

size_t sys_arena_check(const struct sys_arena *arena, const char *name, struct rt_record **out,
                       size_t *count)
{
    struct rt_report report = {0};
    struct rt_record *records = NULL;
    const struct rt_resource_entry *log;
    size_t n = 0, entries;

    must(rt_history_load(arena->folder, &records, &n), "rt_history_load");
    log = rt_resource_log(arena->resource, &entries);
    rt_check_locks(records, n, NULL, &report);
    rt_check_order(records, n, &report);
    rt_check_beliefs(records, n, &report);
    rt_check_clients(records, n, &report);
    rt_check_resource(records, n, rt_history_name(name), log, entries, &report);
    check_left(arena, name, records, n, &report);
    fprintf(stderr, "%zu records, %zu holds, %zu writes: %zu findings\n%s", n, report.holds,
            entries, report.total, report.text);
    if (out != NULL) {
        *out = records;
        *count = n;
    } else {
        free(records);
    }
    return report.total;
}
