/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: durable tickets that are only counted. */
#include "client/client.h"

#include "client/observe.h"

/* All counts of all latches belong to one durable session, so that a party's nonce is found again
 * whoever sends it. */
#define LATCH_SESSION UINT64_C(0x6c61746368)

/* A number for a party, the same in every process and version: FNV-1a. */
static uint64_t party_nonce(const char *party)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const unsigned char *p = (const unsigned char *)party; *p != '\0'; p++)
        hash = (hash ^ *p) * UINT64_C(0x100000001b3);
    hash &= INT64_MAX;
    return hash != 0 ? hash : 1;
}

static int check_latch(const struct rota *r, const char *name, uint32_t of)
{
    int rv = rt_client_check(r, true);

    if (rv == 0)
        rv = rt_name_check(r, name);
    if (rv == 0 && of == 0)
        rv = rt_fail(r, ROTA_INVALID, "a latch has at least one count");
    return rv;
}

int rota_latch_down(struct rota *r, const char *name, uint32_t of, const char *party)
{
    int rv = check_latch(r, name, of);

    if (rv != 0)
        return rv;
    struct rt_join join = {
        .session = LATCH_SESSION,
        .nonce = party != NULL ? party_nonce(party) : rt_random_id(),
        .mode = RT_COUNT,
        .of = of,
    };
    return rt_join_durable(r, name, &join);
}

int rota_latch_wait(struct rota *r, const char *name, uint32_t of, uint64_t limit_ms)
{
    int rv = check_latch(r, name, of);

    if (rv == 0 && (rota_caps(r) & ROTA_CAP_DURABLE) == 0)
        rv = rt_fail(r, ROTA_UNSUPPORTED, "latches are not possible on %s", r->shown_url);
    return rv != 0 ? rv : rt_observe_count(r, name, of, limit_ms);
}

int rota_latch_reset(struct rota *r, const char *name)
{
    int rv = check_latch(r, name, 1);

    if (rv == 0 && (rota_caps(r) & ROTA_CAP_DURABLE) == 0)
        rv = rt_fail(r, ROTA_UNSUPPORTED, "latches are not possible on %s", r->shown_url);
    if (rv != 0)
        return rv;
    rv = rt_break(r, name, 0, RT_COUNT);
    return rv == ROTA_LOST ? 0 : rv; /* nothing was counted yet */
}
