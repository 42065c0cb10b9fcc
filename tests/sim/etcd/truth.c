/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the store of a model etcd: sessions and lines. */
#include "sim/etcd/truth.h"

#include "core/grant.h"
#include "engine/etcd/key.h"
#include "sim/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lines -------------------------------------------------------------- */

/* A ticket on a lease of its own outlives its session, and is then nobody's. */
static uint64_t session_of(const struct es_server *s, const struct es_kv *kv,
                           const struct rt_etcd_id *id, const struct rt_etcd_card *card)
{
    bool left = (card->flags & RT_ETCD_CARD_LEFT) != 0;
    return !left && es_store_lease(&s->store, (int64_t)id->session) != NULL && kv->lease != 0
               ? id->session
               : 0;
}

static int by_number(const void *a, const void *b)
{
    const struct sim_place *p = a, *o = b;
    return (p->number > o->number) - (p->number < o->number);
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

static size_t read_line(const struct es_server *s, const char *name, struct sim_place *out)
{
    char text[64];
    size_t n = 0, size = (size_t)snprintf(text, sizeof(text), "%s/", name);
    for (size_t i = 0; i < s->store.count && n < SIM_PLACES_MAX; i++) {
        const struct es_kv *kv = s->store.kvs[i];
        struct rt_etcd_card card;
        struct rt_etcd_id id;
        size_t name_size;
        if (kv->key.n < size || memcmp(kv->key.at, text, size) != 0 ||
            !rt_etcd_key_read(kv->key.at, kv->key.n, &name_size, &id))
            continue;
        rt_etcd_card_read(&card, kv->value.at, kv->value.n);
        out[n++] = (struct sim_place){
            .number = (uint64_t)kv->create,
            .nonce = id.spot != 0 ? card.nonce : id.nonce,
            .session = session_of(s, kv, &id, &card),
            .mode = card.mode,
            .take = card.take,
            .of = card.of,
        };
    }
    qsort(out, n, sizeof(*out), by_number);
    grant(out, n);
    return n;
}

int64_t es_truth_own_end(const struct es_server *s, const char *name, uint64_t number)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < s->store.count; i++) {
        const struct es_kv *kv = s->store.kvs[i];
        struct rt_etcd_id id;
        size_t name_size;
        if ((uint64_t)kv->create != number ||
            !rt_etcd_key_read(kv->key.at, kv->key.n, &name_size, &id) || name_size != size ||
            memcmp(kv->key.at, name, size) != 0)
            continue;
        const struct es_lease *lease = es_store_lease(&s->store, kv->lease);
        if ((uint64_t)kv->lease == id.session && kv->mod != kv->create)
            return 0;
        return lease != NULL && (uint64_t)kv->lease != id.session ? lease->ends : RT_NEVER;
    }
    return RT_NEVER;
}

/* Cached while nothing changes: everybody looks after every step. */
static struct line {
    uint64_t version;
    char name[16];
    struct sim_place places[SIM_PLACES_MAX];
    size_t count;
} lines[SIM_NAMES_MAX];

size_t es_truth_look(const struct es_server *s, const char *name, struct sim_place *out,
                     size_t most)
{
    struct line *line = lines;
    while (line < &lines[SIM_NAMES_MAX - 1] && line->name[0] != '\0' &&
           strcmp(line->name, name) != 0)
        line++;
    if (line->version != s->version || strcmp(line->name, name) != 0) {
        snprintf(line->name, sizeof(line->name), "%s", name);
        line->version = s->version;
        line->count = read_line(s, name, line->places);
    }
    size_t n = line->count < most ? line->count : most;
    memcpy(out, line->places, n * sizeof(*out));
    return n;
}

/* ---- Sessions, and the end ---------------------------------------------- */

bool es_truth_session(const struct es_server *s, uint64_t session, int64_t *ends)
{
    const struct es_lease *lease = es_store_lease(&s->store, (int64_t)session);
    if (lease != NULL)
        *ends = lease->ends;
    return lease != NULL;
}

void es_truth_expire(struct es_server *s, int64_t ms)
{
    for (size_t i = 0; i < s->store.lease_count;) {
        if (s->store.leases[i].ends <= s->net.now + ms * RT_MS)
            es_server_revoke(s, s->store.leases[i].id);
        else
            i++;
    }
}

size_t es_truth_left(const struct es_server *s)
{
    return s->store.count + s->store.lease_count;
}
