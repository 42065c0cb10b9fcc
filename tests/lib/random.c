/* SPDX-License-Identifier: Apache-2.0 */
/* Generators of histories. */
#include "random.h"

#include <assert.h>
#include <rota.h>

/* splitmix64 */
uint64_t rt_random_next(struct rt_random *rnd)
{
    uint64_t z = rnd->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rt_random_below(struct rt_random *rnd, uint32_t n)
{
    assert(n > 0);
    return (uint32_t)(rt_random_next(rnd) % n);
}

struct making {
    struct rt_random *rnd;
    struct rt_record *out;
    size_t n, max;
    enum rt_random_model model;
    uint32_t spread; /* how long calls take, at most */
};

static bool chance(struct making *m, uint32_t percent)
{
    return rt_random_below(m->rnd, 100) < percent;
}

/* One call that begins about AT; returns its end. */
static int64_t add(struct making *m, const struct rt_record *like, uint8_t kind, int64_t at)
{
    struct rt_record *r = &m->out[m->n];

    if (m->n == m->max)
        return at;
    m->n++;
    *r = *like;
    r->kind = kind;
    r->result = RT_OK;
    r->t_inv = at;
    r->t_ret = at + 1 + rt_random_below(m->rnd, m->spread);
    r->deadline = 0;
    if (kind != RT_RELEASE && chance(m, 50))
        r->deadline = r->t_ret + rt_random_below(m->rnd, 8);
    if (r->deadline > 3 && like->mode == ROTA_EXCLUSIVE)
        r->deadline -= 2; /* late answers; shared ones are then checked less exactly */
    if (kind == RT_RELEASE && chance(m, 15)) {
        r->result = RT_INFO;
        r->t_ret = INT64_MAX;
        return at + 2;
    }
    return r->t_ret;
}

static int64_t gap(struct making *m)
{
    return (int64_t)rt_random_below(m->rnd, 3);
}

/* Where the next call of the hold begins: with plain exclusive locks the calls need not know of each
 * other, elsewhere a hold is used only after its acquire has returned. */
static int64_t next_at(struct making *m, int64_t after)
{
    if (m->model == RT_RANDOM_EXCLUSIVE && chance(m, 30)) {
        int64_t at = after - (int64_t)rt_random_below(m->rnd, 5);

        return at > 0 ? at : 1;
    }
    return after + gap(m);
}

static int64_t add_hold(struct making *m, struct rt_record *like, int64_t at)
{
    unsigned depth = 1;
    int64_t t = add(m, like, RT_ACQUIRE, at);

    while (m->model == RT_RANDOM_REENTRY && chance(m, 40)) {
        int64_t again = chance(m, 50) ? t + gap(m) : at + gap(m);
        int64_t ret = add(m, like, RT_ACQUIRE, again);

        t = ret > t ? ret : t;
        depth++;
    }
    if (chance(m, 25))
        t = add(m, like, RT_RENEW, next_at(m, t));
    for (; depth > 0 && chance(m, 80); depth--)
        t = add(m, like, RT_RELEASE, next_at(m, t));
    if (chance(m, 3))
        t = add(m, like, RT_RELEASE, next_at(m, t));
    return t;
}

static void choose_mode(struct making *m, struct rt_record *like)
{
    if (m->model == RT_RANDOM_RW && chance(m, 50))
        like->mode = ROTA_SHARED;
    if (m->model == RT_RANDOM_PERMITS) {
        like->mode = ROTA_PERMITS;
        like->of = 3;
        like->take = 1 + rt_random_below(m->rnd, 3);
    }
}

/* An acquire that was cut short: legal whatever it says. */
static void forget_some(struct making *m)
{
    for (size_t i = 0; i < m->n; i++) {
        if (m->out[i].kind == RT_ACQUIRE && chance(m, 3)) {
            m->out[i].result = RT_INFO;
            m->out[i].t_ret = INT64_MAX;
        }
    }
}

static uint64_t infos(const struct making *m)
{
    uint64_t count = 0;

    for (size_t i = 0; i < m->n; i++)
        count += m->out[i].result == RT_INFO;
    return count;
}

size_t rt_random_history(struct rt_random *rnd, enum rt_random_model model, struct rt_record *out,
                         size_t max)
{
    struct making m = {.rnd = rnd, .out = out, .max = max, .model = model};
    int64_t at = 1, end;
    uint64_t fence = 0;

    m.spread = 1 + rt_random_below(rnd, 6);
    for (uint64_t client = 1; m.n < max && client < 6; client++) {
        struct rt_record like = {.client = client, .owner = client, .lock = 1};

        like.process = (uint32_t)(1 + client % 2);
        if (model == RT_RANDOM_PASSING) {
            like.process = chance(&m, 85) ? 1 : 2;
            like.owner = 1 + rt_random_below(rnd, 2) + 2 * like.process;
            like.owner += 10 * infos(&m); /* a new one after info */
            like.client = like.owner;
        }
        choose_mode(&m, &like);
        if (model != RT_RANDOM_PASSING || fence == 0 || chance(&m, 40))
            fence += fence == 0 || !chance(&m, 6); /* sometimes twice */
        like.fence = fence;
        end = add_hold(&m, &like, at);
        /* Passing: an owner does one thing at a time, so its holds do not overlap. */
        if (model == RT_RANDOM_PASSING || chance(&m, 60))
            at = end + gap(&m) - (model == RT_RANDOM_PASSING ? 0 : 1);
        if (at < 1)
            at = 1;
    }
    if (m.n > 1 && model != RT_RANDOM_PASSING && chance(&m, 10)) {
        uint32_t i = rt_random_below(rnd, (uint32_t)m.n), j = rt_random_below(rnd, (uint32_t)m.n);
        uint64_t f = out[i].fence;

        out[i].fence = out[j].fence;
        out[j].fence = f;
    }
    forget_some(&m);
    if (m.n < max && chance(&m, 15)) {
        out[m.n++] = (struct rt_record){.kind = RT_END,
                                        .lock = 1,
                                        .result = RT_OK,
                                        .fence = chance(&m, 50) ? 1 + rt_random_below(rnd, 4) : 0,
                                        .process = 1 + rt_random_below(rnd, 2),
                                        .t_inv = 1 + rt_random_below(rnd, 20),
                                        .t_ret = INT64_MAX};
    }
    return m.n;
}

void rt_random_legal(struct rt_random *rnd, uint8_t mode, struct rt_record *out, size_t holds)
{
    static const uint8_t kinds[] = {RT_ENQUEUE, RT_ACQUIRE, RT_RENEW, RT_RELEASE};

    for (size_t i = 0; i < holds; i++) {
        struct rt_record like = {.lock = 7, .mode = mode, .result = RT_OK, .take = 1, .of = 1};

        like.client = like.owner = i + 1;
        like.process = 1 + rt_random_below(rnd, 8);
        like.fence = like.ticket = 2 * (i + 1);
        for (size_t k = 0; k < 4; k++) {
            struct rt_record *r = &out[4 * i + k];

            *r = like;
            r->kind = kinds[k];
            r->t_inv = (int64_t)(100 * (i + 1) + 20 * k) + rt_random_below(rnd, 5);
            r->t_ret = r->t_inv + 5 + rt_random_below(rnd, 5);
        }
    }
}
