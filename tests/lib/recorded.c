/* SPDX-License-Identifier: Apache-2.0 */
/* Lock calls with a record before and after. */
#include "recorded.h"

enum rt_record_result rt_recorded_result(int err)
{
    if (err == 0)
        return RT_OK;
    return err == ROTA_UNKNOWN ? RT_INFO : RT_FAIL;
}

/* Counted from before the look, because what it said was true then. */
static int64_t promised(const struct rota_lock *lock)
{
    int64_t now = rt_history_now();
    int64_t ms = rota_remaining_ms(lock);

    return ms > INT64_MAX / 4000000 ? 0 : now + ms * 1000000;
}

struct rt_record *rt_recorded_begin(const struct rt_actor *actor, const char *name,
                                    const struct rota_ask *ask)
{
    struct rt_record what = {.kind = RT_ACQUIRE,
                             .client = actor->client,
                             .owner = actor->owner,
                             .lock = rt_history_name(name)};

    if (ask != NULL) {
        what.mode = (uint8_t)ask->mode;
        what.take = ask->take;
        what.of = ask->of;
    }
    return rt_history_begin(actor->history, &what);
}

void rt_recorded_granted(struct rt_record *record, int err, struct rota_lock *lock,
                         struct rt_held *out)
{
    if (err == 0) {
        record->fence = record->ticket = rota_fence(lock);
        record->deadline = promised(lock);
        *out = (struct rt_held){.lock = lock, .like = *record};
        out->like.deadline = 0;
    }
    rt_history_end(record, rt_recorded_result(err));
}

int rt_recorded_acquire(const struct rt_actor *actor, const char *name, const struct rota_ask *ask,
                        struct rt_held *out)
{
    struct rota_lock *lock = NULL;
    struct rt_record *record = rt_recorded_begin(actor, name, ask);
    int err = rota_acquire(actor->rota, name, ask, &lock);

    rt_recorded_granted(record, err, lock, out);
    return err;
}

static struct rt_record *begin_of(const struct rt_actor *actor, const struct rt_held *held,
                                  enum rt_record_kind kind)
{
    struct rt_record what = held->like;

    what.kind = (uint8_t)kind;
    return rt_history_begin(actor->history, &what);
}

int rt_recorded_release(const struct rt_actor *actor, struct rt_held *held)
{
    struct rt_record *record = begin_of(actor, held, RT_RELEASE);
    int err = rota_release(held->lock);

    held->lock = NULL;
    rt_history_end(record, rt_recorded_result(err));
    return err;
}

bool rt_recorded_believe(const struct rt_actor *actor, const struct rt_held *held)
{
    struct rt_record *record = begin_of(actor, held, RT_BELIEF);
    bool ours = rota_remaining_ms(held->lock) > 0;

    rt_history_end(record, ours ? RT_OK : RT_FAIL);
    return ours;
}

bool rt_recorded_increment(const struct rt_actor *actor, const struct rt_held *held,
                           struct rt_resource *res)
{
    struct rt_record *record = begin_of(actor, held, RT_WRITE);
    uint64_t value = rt_resource_read(res);
    bool accepted = rt_resource_write(res, held->like.fence, held->like.client, value + 1,
                                      &record->resource_seq);

    rt_history_end(record, accepted ? RT_OK : RT_FAIL);
    return accepted;
}
