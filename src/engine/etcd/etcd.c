/* SPDX-License-Identifier: Apache-2.0 */
/* The etcd engine: its table of functions, a connection and the ops on it, what it can promise. */
#include "engine/etcd/link.h"
#include "engine/etcd/ops.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

struct rt_etcd_engine {
    struct rt_conn base; /* first */
    struct rt_etcd_conn conn;
    struct rt_etcd_side *side;
    atomic_bool strict; /* base.unsafe is "": caps are read by any thread */
};

static struct rt_etcd_engine *of_conn(struct rt_etcd_conn *c)
{
    return (struct rt_etcd_engine *)(void *)((char *)c - offsetof(struct rt_etcd_engine, conn));
}

struct rt_etcd_conn *rt_etcd_of(struct rt_conn *conn)
{
    return &((struct rt_etcd_engine *)(void *)conn)->conn;
}

struct rt_etcd_side **rt_etcd_side(struct rt_etcd_conn *c)
{
    return &of_conn(c)->side;
}

/* ---- On its connection ---------------------------------------------------------------------------------- */

/* What is acknowledged is on the disks of a majority; but a lease that ends early lets two hold. */
static void judge_strict(struct rt_etcd_conn *c)
{
    const struct rt_etcd_facts *f = rt_etcd_facts(c);
    struct rt_conn *base = rt_etcd_base(c);
    bool strict = f->known && rt_etcd_lease_bugs(f)[0] == '\0';
    base->unsafe[0] = '\0';
    if (!f->known)
        snprintf(base->unsafe, sizeof(base->unsafe),
                 "the version of etcd may not be asked by this user, and some end leases early");
    else if (!strict)
        snprintf(
            base->unsafe, sizeof(base->unsafe),
            "etcd %.30s has known bugs of leases (rota doctor names them): upgrade to " RT_ETCD_UPGRADE,
            f->version);
    atomic_store_explicit(&of_conn(c)->strict, strict, memory_order_relaxed);
}

static void on_linked(struct rt_etcd_conn *c)
{
    judge_strict(c);
    rt_conn_event(rt_etcd_base(c), &(struct rt_event){.kind = RT_LINK, .up = true});
    rt_etcd_linked(c);
}

static void on_lost(struct rt_etcd_conn *c)
{
    rt_conn_event(rt_etcd_base(c), &(struct rt_event){.kind = RT_LINK, .up = false});
}

static const struct rt_etcd_user user = {
    .linked = on_linked,
    .lost = on_lost,
    .close = rt_etcd_side_close,
    .prefix = rt_etcd_prefix,
};

/* ---- The engine ------------------------------------------------------------------------------------------ */

static int etcd_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct rt_etcd_conn *c = rt_etcd_of(conn);
    int rv = rt_etcd_conn_open(c, conn, url, &user);
    if (rv != 0)
        return rv;
    rv = rt_etcd_side_open(c, url);
    if (rv == 0)
        rt_etcd_want(c);
    else
        rt_etcd_conn_close(c);
    return rv;
}

static void etcd_close(struct rt_conn *conn)
{
    rt_etcd_conn_close(rt_etcd_of(conn));
}

static void etcd_forked(struct rt_conn *conn)
{
    rt_etcd_conn_forked(rt_etcd_of(conn));
}

static const char *etcd_trouble(const struct rt_conn *conn)
{
    return rt_etcd_trouble(&((const struct rt_etcd_engine *)(const void *)conn)->conn);
}

static uint32_t etcd_caps(const struct rt_conn *conn)
{
    const struct rt_etcd_engine *e = (const struct rt_etcd_engine *)(const void *)conn;
    const uint32_t caps = ROTA_CAP_FENCE | ROTA_CAP_ORDER | ROTA_CAP_SHARED | ROTA_CAP_PERMITS |
                          ROTA_CAP_WANTED | ROTA_CAP_DURABLE | ROTA_CAP_TTL | ROTA_CAP_SHARED_HOSTS;
    bool strict = atomic_load_explicit(&e->strict, memory_order_relaxed);
    return strict ? caps | ROTA_CAP_STRICT : caps;
}

static const char *const schemes[] = {"etcd", "etcds", NULL};
static const char *const params[] = {NULL};

const struct rt_engine rt_engine_etcd = {
    .schemes = schemes,
    .params = params,
    .conn_size = sizeof(struct rt_etcd_engine),
    .open = etcd_open,
    .parting = rt_etcd_parting,
    .trouble = etcd_trouble,
    .close = etcd_close,
    .submit = rt_etcd_submit,
    .cancel = rt_etcd_cancel,
    .caps = etcd_caps,
    .forked = etcd_forked,
};
