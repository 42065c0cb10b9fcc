/* SPDX-License-Identifier: Apache-2.0 */
/* Depth-first over all orders of effects and of silent ends. */
#include "brute.h"

#include <assert.h>
#include <rota.h>
#include <string.h>

/* One hold, as the lock sees it. Holds are found by fence, those that are not exclusive also by client;
 * one that holds again after it was over is a new one in the same place. */
struct hold {
    uint64_t fence, client, owner;
    uint32_t process, mode, take, of;
    unsigned depth; /* 0: over, or not begun */
    int64_t deadline;
    bool released; /* its last end was a release */
};

struct state {
    int64_t now; /* the earliest time of the last effect: earlier is never worse */
    uint64_t last_fence;
    struct hold holds[RT_BRUTE_MAX];
    size_t hold_count;
    uint32_t done; /* records that have taken effect */
};

struct search {
    const struct rt_record *records;
    size_t n;
    const struct rt_check_options *opts;
    uint32_t must; /* records that have to take effect */
};

static struct hold *find(struct state *s, const struct rt_record *r)
{
    for (size_t i = 0; i < s->hold_count; i++) {
        struct hold *h = &s->holds[i];

        if (h->mode == r->mode && h->fence == r->fence &&
            (r->mode == ROTA_EXCLUSIVE || h->client == r->client))
            return h;
    }
    return NULL;
}

static bool same_owner(const struct hold *h, const struct rt_record *r)
{
    return r->owner != 0 && h->owner == r->owner;
}

static bool has_room(const struct state *s, const struct rt_record *r)
{
    uint64_t taken = 0;

    for (size_t i = 0; i < s->hold_count; i++) {
        const struct hold *h = &s->holds[i];

        if (h->depth == 0)
            continue;
        if (r->mode == ROTA_EXCLUSIVE || h->mode == ROTA_EXCLUSIVE)
            return false;
        if (r->mode == ROTA_PERMITS)
            taken += h->take;
    }
    return r->mode != ROTA_PERMITS || taken + r->take <= r->of;
}

static int64_t deadline_of(const struct rt_record *r)
{
    return r->deadline == 0 ? INT64_MAX : r->deadline;
}

static bool acquire(const struct search *q, struct state *s, const struct rt_record *r)
{
    struct hold *h = find(s, r);

    if (h != NULL && h->depth > 0) {
        if (r->mode == ROTA_EXCLUSIVE && !same_owner(h, r))
            return false;
        h->depth++;
        if (deadline_of(r) > h->deadline)
            h->deadline = deadline_of(r);
        return true;
    }
    if (!has_room(s, r))
        return false;
    if (r->mode == ROTA_EXCLUSIVE && r->fence <= s->last_fence) {
        if (!q->opts->passing || h == NULL || r->fence != s->last_fence || !h->released ||
            h->process != r->process)
            return false;
    }
    if (r->mode == ROTA_EXCLUSIVE)
        s->last_fence = r->fence;
    if (h == NULL)
        h = &s->holds[s->hold_count++];
    *h = (struct hold){.fence = r->fence,
                       .client = r->client,
                       .owner = r->owner,
                       .process = r->process,
                       .mode = r->mode,
                       .take = r->take,
                       .of = r->of,
                       .depth = 1,
                       .deadline = deadline_of(r)};
    return true;
}

static bool apply(const struct search *q, struct state *s, const struct rt_record *r)
{
    struct hold *h = find(s, r);

    if (r->kind == RT_ACQUIRE)
        return acquire(q, s, r);
    if (h == NULL || h->depth == 0)
        return false;
    if (q->opts->passing && r->mode == ROTA_EXCLUSIVE &&
        (h->owner != r->owner || (r->owner == 0 && h->client != r->client)))
        return false; /* with passing on, the fence alone does not name the hold */
    if (r->kind == RT_RENEW) {
        if (deadline_of(r) > h->deadline)
            h->deadline = deadline_of(r);
        return true;
    }
    h->depth--;
    h->released = h->depth == 0;
    return true;
}

/* From when on H may end unasked. */
static int64_t silent_from(const struct search *q, const struct hold *h)
{
    int64_t from = h->deadline;

    for (size_t i = 0; i < q->n; i++) {
        const struct rt_record *r = &q->records[i];

        if (r->kind == RT_END && r->t_inv < from &&
            (r->fence != 0 ? r->fence == h->fence : r->process == h->process))
            from = r->t_inv;
    }
    return from;
}

static bool search(const struct search *q, const struct state *s);

static bool try_ends(const struct search *q, const struct state *s)
{
    for (size_t i = 0; i < s->hold_count; i++) {
        struct state next;
        int64_t from;

        if (s->holds[i].depth == 0)
            continue;
        from = silent_from(q, &s->holds[i]);
        if (from == INT64_MAX)
            continue;
        next = *s;
        next.holds[i].depth = 0;
        next.holds[i].released = false;
        if (from > next.now)
            next.now = from;
        if (search(q, &next))
            return true;
    }
    return false;
}

static bool search(const struct search *q, const struct state *s)
{
    if ((s->done & q->must) == q->must)
        return true;
    for (size_t i = 0; i < q->n; i++) {
        const struct rt_record *r = &q->records[i];
        struct state next;

        if (s->done & (1u << i))
            continue;
        if ((q->must & (1u << i)) && s->now >= r->t_ret)
            return false; /* it is too late for this one, whatever comes next */
        if (!(q->must & (1u << i)) && (r->kind != RT_RELEASE || r->result != RT_INFO))
            continue;
        next = *s;
        next.done |= 1u << i;
        if (r->t_inv > next.now)
            next.now = r->t_inv;
        if (next.now < r->t_ret && apply(q, &next, r) && search(q, &next))
            return true;
    }
    return try_ends(q, s);
}

bool rt_brute_legal(const struct rt_record *records, size_t n, const struct rt_check_options *opts)
{
    const struct rt_check_options none = {0};
    struct search q = {.records = records, .n = n, .opts = opts != NULL ? opts : &none};
    struct state s;

    assert(n <= RT_BRUTE_MAX);
    memset(&s, 0, sizeof(s));
    for (size_t i = 0; i < n; i++) {
        if (records[i].kind <= RT_RENEW && records[i].result == RT_OK)
            q.must |= 1u << i;
    }
    return search(&q, &s);
}
