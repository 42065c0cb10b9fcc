/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds according to five stores, against what clients think. */
#include "sim/redlock/redlock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rt_redlock_conn *conn_of(const struct sim_client *c)
{
    return (const struct rt_redlock_conn *)(const void *)c->top->wrap.inner;
}

/* ---- Keys ------------------------------------------------------------------ */

static const struct rs_key *find(const struct rs_store *store, const char *name, const char *token)
{
    const struct rs_key *key = rs_store_find(store, (struct rs_text){name, strlen(name)});
    if (key == NULL || key->type != RS_STRING || key->entries[0].value.n < RT_REDLOCK_TOKEN)
        return NULL;
    return memcmp(key->entries[0].value.at, token, RT_REDLOCK_TOKEN) == 0 ? key : NULL;
}

/* The key of a ghost; made if it is missing. */
static struct rs_key *ghost_of(struct rs_store *store, struct rs_text name, const char *token,
                               bool make)
{
    char text[RT_REDLOCK_TOKEN + 1 + 64];
    int n = snprintf(text, sizeof(text), "%.*s %.*s", RT_REDLOCK_TOKEN, token, (int)name.n,
                     name.at);
    assert(n > 0 && (size_t)n < sizeof(text));
    struct rs_text key = {text, (size_t)n};
    return make ? rs_store_get(store, key, RS_STRING) : rs_store_find(store, key);
}

void sr_haunt(const struct sim *sim, uint32_t node)
{
    struct rs_machine *m = &sr_world.nodes[node].machine;
    struct sr_ghost *g = &sr_world.ghosts[node];
    if (g->until <= sim->now)
        rs_store_clear(&g->store);
    rs_machine_expire(m);
    for (size_t i = 0; i < m->store.count; i++) {
        const struct rs_key *key = &m->store.keys[i];
        if (key->type != RS_STRING || key->entries[0].value.n < RT_REDLOCK_TOKEN)
            continue;
        struct rs_key *ghost = ghost_of(&g->store, key->name, key->entries[0].value.at, true);
        ghost->ends_us = key->ends_us > ghost->ends_us ? key->ends_us : ghost->ends_us;
    }
    g->until = sim->now + sim->plan.ttl_ms * RT_MS;
}

/* When the key of NAME with TOKEN ends on a node, in virtual time; 0: it is not there. */
static int64_t ends_on(const struct sim *sim, uint32_t node, const char *name, const char *token)
{
    const struct rs_server *s = &sr_world.nodes[node];
    struct sr_ghost *g = &sr_world.ghosts[node];
    const struct rs_key *key = find(&s->machine.store, name, token);
    if (key == NULL && g->until > sim->now)
        key = ghost_of(&g->store, (struct rs_text){name, strlen(name)}, token, false);
    int64_t ends = key != NULL ? rs_server_when(s, key->ends_us) : 0;
    return ends > sim->now ? ends : 0;
}

/* From when on no majority has it; 0: none has it now. */
static int64_t ends_of(const struct sim *sim, const char *name, const char *token)
{
    int64_t all[SR_NODES];
    for (uint32_t i = 0; i < SR_NODES; i++) {
        int64_t ends = ends_on(sim, i, name, token);
        uint32_t k = i;
        for (; k > 0 && all[k - 1] < ends; k--)
            all[k] = all[k - 1];
        all[k] = ends;
    }
    return all[SR_MAJORITY - 1];
}

/* ---- Tickets ---------------------------------------------------------------- */

/* The held ticket of NAME after T, which is one, or the first; NULL: none. A client may think that it has two: one was
 * broken, and it will hear that with its next beat; meanwhile it took the other. */
static const struct rt_redlock_ticket *next_held(const struct rt_redlock_conn *c, const char *name,
                                                 const struct rt_redlock_ticket *t)
{
    bool past = t == NULL;
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        for (const struct rt_redlock_ticket *k = c->tickets[i]; k != NULL; k = k->next) {
            if (past && k->held && strcmp(k->name, name) == 0)
                return k;
            past = past || k == t;
        }
    return NULL;
}

/* Those that a client thinks it has: if no majority has one, it is not granted. */
size_t sr_look(const struct sim *sim, const char *name, struct sim_place *out, size_t most)
{
    size_t n = 0;
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        const struct rt_redlock_ticket *t = c->open ? next_held(conn_of(c), name, NULL) : NULL;
        for (; t != NULL && n < most; t = next_held(conn_of(c), name, t))
            if (ends_of(sim, name, t->token) != 0)
                out[n++] = (struct sim_place){.number = t->number,
                                              .nonce = t->nonce,
                                              .session = t->session,
                                              .mode = RT_EXCLUSIVE,
                                              .granted = true};
    }
    return n;
}

bool sr_session(const struct sim *sim, uint64_t session, const char *name, int64_t *ends)
{
    *ends = name == NULL ? RT_NEVER : 0; /* it is the client's own */
    for (uint32_t i = 0; name != NULL && i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        const struct rt_redlock_ticket *t = c->open ? next_held(conn_of(c), name, NULL) : NULL;
        for (; t != NULL; t = next_held(conn_of(c), name, t)) {
            int64_t end = t->session == session ? ends_of(sim, name, t->token) : 0;
            *ends = end > *ends ? end : *ends;
        }
    }
    return *ends != 0;
}

/* ---- What nobody knows --------------------------------------------------------- */

#define ORPHANS_MAX 256

static struct orphan {
    uint32_t node;
    char token[RT_REDLOCK_TOKEN + 1];
    int64_t since, seen;
} orphans[ORPHANS_MAX];

void sr_forget_orphans(void)
{
    memset(orphans, 0, sizeof(orphans));
}

static bool knows(const struct rt_redlock_conn *c, const char *token)
{
    for (size_t i = 0; i < RT_REDLOCK_BUCKETS; i++)
        for (const struct rt_redlock_ticket *t = c->tickets[i]; t != NULL; t = t->next)
            if (t->held && strcmp(t->token, token) == 0)
                return true;
    for (const struct rt_redlock_ask *a = c->asks; a != NULL; a = a->next)
        if (strcmp(a->token, token) == 0)
            return true;
    return false;
}

/* The client that TOKEN belongs to, if it runs and has been well. */
static const struct sim_client *owner_of(const struct sim *sim, const char *token)
{
    char half[17];
    snprintf(half, sizeof(half), "%.16s", token);
    uint64_t session = strtoull(half, NULL, 16);
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        const struct sim_client *c = &sim->clients[i];
        if (c->open && c->close_by == 0 && sim_client_runs(c) && c->cut_until == 0 &&
            conn_of(c)->session == session)
            return c;
    }
    return NULL;
}

static struct orphan *orphan_of(uint32_t node, const char *token, int64_t now)
{
    struct orphan *free_one = NULL;
    for (size_t i = 0; i < ORPHANS_MAX; i++) {
        struct orphan *o = &orphans[i];
        if (o->since != 0 && o->node == node && strcmp(o->token, token) == 0)
            return o;
        if (o->since == 0 || o->seen < now - 60 * 1000 * RT_MS)
            free_one = o;
    }
    if (free_one == NULL)
        return NULL;
    *free_one = (struct orphan){.node = node, .since = now};
    snprintf(free_one->token, sizeof(free_one->token), "%s", token);
    return free_one;
}

static void check_key(const struct sim *sim, uint32_t node, const struct rs_key *key)
{
    char token[RT_REDLOCK_TOKEN + 1];
    struct rs_text value = key->entries[0].value;
    if (key->type != RS_STRING || value.n < RT_REDLOCK_TOKEN ||
        rs_server_when(&sr_world.nodes[node], key->ends_us) <= sim->now)
        return;
    snprintf(token, sizeof(token), "%.*s", RT_REDLOCK_TOKEN, value.at);
    const struct sim_client *c = owner_of(sim, token);
    if (c == NULL || knows(conn_of(c), token))
        return;
    struct orphan *o = orphan_of(node, token, sim->now);
    if (o == NULL)
        return;
    o->seen = sim->now;
    if (sim->now - o->since > sim->plan.ttl_ms * RT_MS / 2)
        sim_violated(sim, "I6", "c%u has given %.*s back, and node %u still has it after %lld ms",
                     c->index, (int)key->name.n, key->name.at, node + 1,
                     (long long)((sim->now - o->since) / RT_MS));
}

/* Bytes that are on their way for long may put a key back after it was taken away: such worlds prove nothing. */
void sr_check_orphans(const struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    bool late = plan->wire.late > 0 && plan->wire.late_us > 5000;
    if (plan->ttl_ms < 3000 || plan->starve > 0 || late || plan->wire.reset > 0 ||
        plan->trouble[SIM_TROUBLE_CUT] > 0 || plan->trouble[SIM_TROUBLE_RESET] > 0 ||
        plan->trouble[SIM_TROUBLE_PAUSE] > 0 || plan->outage_ms != 0)
        return;
    for (uint32_t i = 0; i < SR_NODES; i++) {
        const struct rs_store *s = &sr_world.nodes[i].machine.store;
        for (size_t k = 0; k < s->count; k++)
            if (!rs_text_equals(s->keys[k].name, RS_TEXT("rota:f")))
                check_key(sim, i, &s->keys[k]);
    }
}

size_t sr_left(void)
{
    size_t n = 0;
    for (uint32_t i = 0; i < SR_NODES; i++) {
        const struct rs_store *s = &sr_world.nodes[i].machine.store;
        for (size_t k = 0; k < s->count; k++)
            n += !rs_text_equals(s->keys[k].name, RS_TEXT("rota:f"));
    }
    return n;
}

uint32_t sr_counted(uint64_t number)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SR_NODES; i++) {
        const struct rs_key *key = rs_store_find(&sr_world.nodes[i].machine.store,
                                                 RS_TEXT("rota:f"));
        n += key != NULL && strtoull(key->entries[0].value.at, NULL, 10) >= number;
    }
    return n;
}

void sr_dump(const struct sim *sim)
{
    for (uint32_t i = 0; i < SR_NODES; i++) {
        const struct rs_server *s = &sr_world.nodes[i];
        sim_trace(sim, NULL, "node %u: clock %" PRId64 ", up since %" PRId64, i + 1,
                  rs_server_clock(s), s->started_us);
        for (size_t k = 0; k < s->machine.store.count; k++) {
            const struct rs_key *key = &s->machine.store.keys[k];
            sim_trace(sim, NULL, "node %u: %.*s '%.*s' until %" PRId64, i + 1, (int)key->name.n,
                      key->name.at, (int)key->entries[0].value.n, key->entries[0].value.at,
                      key->ends_us);
        }
    }
}
