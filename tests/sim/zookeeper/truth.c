/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a model ensemble: sessions and lines. */
#include "sim/zookeeper/truth.h"

#include "core/grant.h"
#include "sim/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lines ------------------------------------------------------------------------------------ */

const char *zs_truth_name(const char *path, char *name, size_t room)
{
    size_t root = sizeof(ZS_ROOT) - 1;
    if (strncmp(path, ZS_ROOT "/", root + 1) != 0)
        return NULL;
    const char *begin = path + root + 1, *slash = strchr(begin, '/');
    if (slash == NULL || *begin == '+')
        return NULL;
    snprintf(name, room, "%.*s", (int)(slash - begin), begin);
    return slash + 1;
}

static bool is_keeper(const struct rt_zk_id *id)
{
    return id->durable && id->keep_ms > 0;
}

static int by_number(const void *a, const void *b)
{
    const struct sim_place *p = a, *o = b;
    if (p->number != o->number)
        return p->number < o->number ? -1 : 1;
    return (p->session == 0) - (o->session == 0); /* a keeper after what it keeps */
}

/* A ticket and what keeps its line become one. */
static size_t merge(struct sim_place *places, size_t n)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (m == 0 || places[i].session != 0 || places[m - 1].number != places[i].number)
            places[m++] = places[i];
    return m;
}

static void grant(struct sim_place *places, size_t n)
{
    struct rt_grant g;
    bool waits = false;
    rt_grant_init(&g, 0);
    for (size_t i = 0; i < n; i++) {
        struct sim_place *p = &places[i];
        waits = waits || rt_grant_next(&g, p->mode, p->take, p->of, false) == RT_GRANT_WAITS;
        p->granted = !waits;
    }
}

/* Orders by numbers, which are given with the places, and not by sequences: both give the same order. KEPT: time
 * alone may change it. */
static size_t read_line(const struct zs_server *s, const struct rt_zk_dialect *d, const char *name,
                        struct sim_place *places, bool *kept)
{
    size_t n = 0;
    *kept = false;
    for (size_t i = 0; i < s->head.count && n < SIM_PLACES_MAX; i++) {
        const struct zs_node *node = &s->head.nodes[i];
        char line[64];
        struct rt_zk_id id;
        const char *at = zs_truth_name(node->path, line, sizeof(line));
        if (at == NULL || strcmp(line, name) != 0)
            continue;
        rt_zk_node_read(d, at, &id);
        *kept = *kept || is_keeper(&id);
        if (is_keeper(&id) && node->ctime + id.keep_ms <= zs_ms(s))
            continue; /* the next to come takes it out */
        places[n] = (struct sim_place){
            .number = id.number != 0 ? id.number : (uint64_t)node->czxid,
            .nonce = id.nonce,
            .session = node->owner,
            .mode = id.mode,
            .take = id.take,
            .of = id.of,
        };
        n++;
    }
    qsort(places, n, sizeof(*places), by_number);
    n = merge(places, n);
    grant(places, n);
    return n;
}

/* Cached while nothing changes: everybody looks after every step. */
static struct line {
    uint64_t version; /* 0: not remembered */
    char name[16];
    struct sim_place places[SIM_PLACES_MAX];
    size_t count;
} lines[SIM_NAMES_MAX];

size_t zs_truth_look(const struct zs_server *s, const struct rt_zk_dialect *d, const char *name,
                     struct sim_place *out, size_t most)
{
    struct line *line = lines;
    while (line < &lines[SIM_NAMES_MAX - 1] && line->name[0] != '\0' &&
           strcmp(line->name, name) != 0)
        line++;
    if (line->version != s->version || strcmp(line->name, name) != 0) {
        bool kept;
        snprintf(line->name, sizeof(line->name), "%s", name);
        line->count = read_line(s, d, name, line->places, &kept);
        line->version = kept ? 0 : s->version;
    }
    size_t n = line->count < most ? line->count : most;
    memcpy(out, line->places, n * sizeof(*out));
    return n;
}

/* ---- Sessions, and the end -------------------------------------------------------------------- */

bool zs_truth_session(const struct zs_server *s, uint64_t id, int64_t *ends)
{
    const struct zs_session *session = zs_session_find(s, id);
    if (session == NULL)
        return false;
    int64_t frozen = s->members[s->leader].frozen_until;
    *ends = session->expires > frozen ? session->expires : frozen;
    if (s->leaderless_until != 0) /* the next leader counts anew */
        *ends = s->leaderless_until + session->timeout_ms * RT_MS;
    return true;
}

bool zs_truth_over(const struct zs_server *s, const struct rt_zk_dialect *d, int64_t since,
                   int64_t now)
{
    for (size_t i = 0; i < s->head.count; i++) {
        const struct zs_node *node = &s->head.nodes[i];
        char line[64];
        struct rt_zk_id id = {0};
        const char *at = zs_truth_name(node->path, line, sizeof(line));
        if (at != NULL)
            rt_zk_node_read(d, at, &id);
        if (at != NULL && is_keeper(&id) && node->ctime + id.keep_ms > since &&
            node->ctime + id.keep_ms <= now)
            return true;
    }
    return false;
}

void zs_truth_expire(struct zs_server *s, const struct rt_zk_dialect *d, int64_t ms)
{
    while (s->session_count > 0)
        zs_server_end(s, s->sessions[0].id);
    for (size_t i = 0; i < s->head.count;) {
        const struct zs_node *node = &s->head.nodes[i];
        char line[64];
        struct rt_zk_id id = {0};
        const char *at = zs_truth_name(node->path, line, sizeof(line));
        if (at != NULL)
            rt_zk_node_read(d, at, &id);
        if (at == NULL || !is_keeper(&id) || node->ctime + id.keep_ms > zs_ms(s) + ms) {
            i++;
            continue;
        }
        struct zs_ask ask = {.call = RT_ZK_DELETE, .path = node->path, .version = -1};
        (void)zs_step_add(zs_step_new(s), &s->head, 0, &ask);
    }
}

size_t zs_truth_left(const struct zs_server *s)
{
    size_t left = s->session_count;
    for (size_t i = 0; i < s->head.count; i++) {
        const struct zs_node *node = &s->head.nodes[i];
        left += !node->container && strcmp(node->path, "/") != 0 &&
                strcmp(node->path, ZS_ROOT) != 0;
    }
    return left;
}
