/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that nobody waits for but that must be done: sent again until etcd has answered. */
#include "engine/etcd/ops.h"

#include "base/alloc.h"
#include "base/list.h"

#define TRIES 16 /* of call_ms each: long before, what it concerns has ended by its lease */

struct rt_etcd_chore {
    struct rt_etcd_chore *next, **link;
    enum rt_etcd_chore_kind kind;
    uint64_t number;
    uint32_t tries;
    size_t size;
    char key[];
};

static void chore_free(struct rt_etcd_chore *chore)
{
    RT_LIST_OUT(chore);
    rt_free(chore);
}

static rt_etcd_answer_fn answered;

static int send_chore(struct rt_etcd_conn *c, struct rt_etcd_chore *chore)
{
    struct rt_etcd_txn t;
    if (chore->kind == RT_ETCD_REVOKE) {
        RtEtcd__LeaseRevokeRequest revoke = RT_ETCD__LEASE_REVOKE_REQUEST__INIT;
        revoke.id = (int64_t)chore->number;
        return rt_etcd_ask(c, RT_ETCD_LEASE_REVOKE, &revoke, answered, NULL, chore, 0);
    }
    rt_etcd_txn_open(c, &t, 2, 1, 0);
    if (chore->kind == RT_ETCD_SWEEP) {
        rt_etcd_if_changed_at(&t, chore->key, chore->size, (int64_t)chore->number);
        rt_etcd_if_leaseless(&t, chore->key, chore->size); /* whatever was read */
        rt_etcd_delete(&t, RT_ETCD_THEN, chore->key, chore->size);
    } else {
        rt_etcd_if_created(&t, chore->key, chore->size, chore->number);
        RtEtcd__PutRequest *put = rt_etcd_put(&t, RT_ETCD_THEN, chore->key, chore->size);
        put->ignore_value = put->ignore_lease = true;
    }
    return rt_etcd_txn_send(c, &t, answered, NULL, chore, NULL);
}

static void answered(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct rt_etcd_chore *chore = a->owner;
    (void)reply;
    bool again = err == ROTA_UNREACHABLE || err == ROTA_UNKNOWN;
    if (!again || ++chore->tries == TRIES || send_chore(c, chore) != 0)
        chore_free(chore);
}

void rt_etcd_chore(struct rt_etcd_conn *c, enum rt_etcd_chore_kind kind, const void *key,
                   size_t size, uint64_t number)
{
    struct rt_etcd_side *s = rt_etcd_s(c);
    struct rt_etcd_chore *chore = rt_alloc(sizeof(*chore) + size);
    if (chore == NULL)
        return; /* a lease ends by itself; waiters behind look when the key goes */
    chore->kind = kind;
    chore->number = number;
    chore->size = size;
    if (size > 0)
        memcpy(chore->key, key, size);
    RT_LIST_ADD(&s->chores, chore);
    if (send_chore(c, chore) != 0)
        chore_free(chore);
}

void rt_etcd_chores_close(struct rt_etcd_side *s)
{
    while (s->chores != NULL)
        chore_free(s->chores);
}
