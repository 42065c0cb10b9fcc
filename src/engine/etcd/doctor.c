/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: which promises hold on these servers, and what to change.
 *
 * Facts are from the greeting; rights and the smallest ttl are found by doing: a lease is taken, a key that no
 * line has is put on it and read, and both go again. */
#include "engine/etcd/ops.h"

#include <stdio.h>

#define MEMBERS_MAX 16

struct check {
    struct rt_etcd_work work; /* first */
    int64_t lease, least_s;
    size_t members, learners;
    bool refused, no_members;
    char refusal[200];
};

size_t rt_etcd_check_size(const struct rt_op *op)
{
    (void)op;
    return sizeof(struct check);
}

static void say(const struct check *k, const char *promise, const char *verdict,
                const char *setting, const char *remedy)
{
    const struct rt_op *op = k->work.op;
    struct rota_verdict v = {promise, verdict, setting, remedy};
    op->check.each(op->check.arg, &v);
}

/* ---- Verdicts --------------------------------------------------------------------------------- */

static void check_version(const struct check *k, const struct rt_etcd_facts *f)
{
    char text[256];
    const char *bugs = rt_etcd_lease_bugs(f);
    if (!f->known) {
        say(k, "version", "limited", "not known", "");
        return;
    }
    (void)snprintf(text, sizeof(text), "etcd %s%s%s", f->version, bugs[0] != '\0' ? ": " : "",
                   bugs);
    say(k, "version", bugs[0] != '\0' ? "limited" : "kept", text,
        bugs[0] != '\0' ? "upgrade to 3.5.23, 3.6 or later; holders are told either way" : "");
}

static void check_quorum(const struct check *k, const struct rt_etcd_facts *f)
{
    char text[200];
    if (k->no_members) {
        say(k, "outages survived", "limited", "the members may not be listed by this user", "");
        return;
    }
    size_t voters = k->members - k->learners;
    (void)snprintf(text, sizeof(text), "%zu of %zu members vote; %zu may fail%s", voters,
                   k->members, voters > 0 ? (voters - 1) / 2 : 0,
                   f->known && f->leader == 0 ? "; there is no leader now" : "");
    if (f->known && f->leader == 0)
        say(k, "outages survived", "broken", text, "bring back a majority of the members");
    else if (voters < 3)
        say(k, "outages survived", "limited", text, "run three or five members");
    else
        say(k, "outages survived", "kept", text, "");
}

static void check_safety(struct rt_etcd_conn *c, const struct check *k,
                         const struct rt_etcd_facts *f)
{
    char text[200];
    say(k, "one holder at a time (I1)", "kept", "a majority has every grant on its disks", "");
    say(k, "fences only grow (I2)", "kept", "the create_revision of the ticket's key", "");
    say(k, "order of arrival (I7)", "kept", "by create_revision", "");
    say(k, "durable tickets", "kept", "keys without a lease", "");
    if (f->alarms[0] != '\0')
        say(k, "space", "broken", f->alarms,
            "compact, defragment, disarm the alarm, or raise --quota-backend-bytes");
    else
        say(k, "space", "kept", "no alarm", "");
    if (k->least_s > 0) {
        (void)snprintf(text, sizeof(text), "a lease lives %lld s at least; ours %u s",
                       (long long)k->least_s, rt_etcd_base(c)->ttl_ms / 1000);
        say(k, "takeover", "kept", text, "");
    }
    say(k, "privacy", rt_etcd_secure(c) ? "kept" : "limited",
        rt_etcd_secure(c) ? "TLS" : "no TLS: keys, labels and tokens pass in the clear",
        rt_etcd_secure(c) ? "" : "use etcds://");
    say(k, "users", f->auth ? "kept" : "limited",
        f->auth ? "the server knows us by a user" : "anybody who reaches it may take and break",
        f->auth ? "" : "turn on auth, with a user limited to ?prefix=");
}

static void conclude(struct rt_etcd_conn *c, struct check *k)
{
    const struct rt_etcd_facts *f = rt_etcd_facts(c);
    check_safety(c, k, f);
    check_version(k, f);
    check_quorum(k, f);
    say(k, "rights", k->refused ? "broken" : "kept",
        k->refused ? k->refusal : "leases, reading and writing under the prefix",
        k->refused ? "grant the user readwrite on the prefix" : "");
    rt_etcd_work_end(c, &k->work, 0);
}

/* ---- Steps -------------------------------------------------------------------------------------- */

static bool is_over(struct rt_etcd_conn *c, struct check *k, int err)
{
    k->work.pending--;
    if (err == 0)
        return false;
    if (err == ROTA_AUTH) {
        k->refused = true;
        (void)snprintf(k->refusal, sizeof(k->refusal), "%.190s", rt_etcd_base(c)->errmsg);
        return false;
    }
    if (k->lease != 0)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)k->lease);
    rt_etcd_work_end(c, &k->work, err);
    return true;
}

static void members_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    const RtEtcd__MemberListResponse *got = reply;
    k->work.pending--;
    k->no_members = err != 0;
    for (size_t i = 0; err == 0 && i < got->n_members; i++) {
        k->members++;
        k->learners += got->members[i]->is_learner != 0;
    }
    conclude(c, k);
}

static void ask_members(struct rt_etcd_conn *c, struct check *k)
{
    RtEtcd__MemberListRequest members = RT_ETCD__MEMBER_LIST_REQUEST__INIT;
    if (k->lease != 0)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)k->lease);
    k->lease = 0;
    int rv = rt_etcd_work_ask(c, &k->work, RT_ETCD_MEMBERS, &members, members_seen);
    if (rv != 0)
        rt_etcd_work_end(c, &k->work, rv);
}

static void key_put(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    (void)reply;
    if (!is_over(c, k, err))
        ask_members(c, k);
}

static void lease_granted(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    const RtEtcd__LeaseGrantResponse *got = reply;
    struct rt_etcd_txn t;
    char key[RT_ETCD_KEY_MAX];
    if (is_over(c, k, err))
        return;
    if (err != 0) {
        ask_members(c, k);
        return;
    }
    k->lease = got->id;
    k->least_s = got->ttl;
    size_t size = rt_etcd_session_key(c, (uint64_t)got->id, key);
    rt_etcd_txn_open(c, &t, 0, 2, 0);
    rt_etcd_put(&t, RT_ETCD_THEN, key, size)->lease = got->id;
    (void)rt_etcd_get(&t, RT_ETCD_THEN, key, size);
    int rv = rt_etcd_work_txn(c, &k->work, &t, true, key_put);
    if (rv != 0)
        rt_etcd_work_end(c, &k->work, rv);
}

void rt_etcd_begin_check(struct rt_etcd_conn *c, struct rt_etcd_work *w)
{
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    grant.ttl = 1;
    int rv = rt_etcd_work_ask(c, w, RT_ETCD_LEASE_GRANT, &grant, lease_granted);
    if (rv != 0)
        rt_etcd_work_end(c, w, rv);
}
