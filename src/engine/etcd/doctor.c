/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: which promises hold on these servers, and what to change.
 *
 *   members ──▶ every endpoint's Status ──▶ a lease ──▶ a key on it, read ──▶ revoked ──▶ leftovers ──▶ verdicts
 *
 * Rights and the smallest ttl are found by trying: a lease is taken, a key that no line has is put on it
 * and read, and both are removed again. Not where there is no space: that would be refused until the
 * time is over. */
#include "engine/etcd/ops.h"

#include <stdio.h>

#define FULL_PERCENT 80

struct check {
    struct rt_work work; /* first */
    struct rt_etcd_probe *probe;
    int64_t lease, least_s;
    size_t members, learners;
    size_t ends, answer;        /* endpoints, and those that answer */
    const char *silent;         /* why one of the others does not; NULL */
    struct rt_etcd_facts worst; /* of those that told: the version with the gravest bugs ... */
    char versions[80];          /* ... and all there are */
    int64_t db_size, db_quota;  /* of the fullest */
    bool mixed, split;          /* several versions; several clusters */
    bool refused, no_members, full;
    char alarms[160], refusal[200];
    struct rt_etcd_leftovers left;
};

#define say(k, ...) rt_words_verdict((k)->work.op, __VA_ARGS__)

/* ---- Facts ------------------------------------------------------------------------------------ */

static int gravity(const struct rt_etcd_facts *f)
{
    return (rt_etcd_lease_bugs(f)[0] != '\0') * 2 + (rt_etcd_rights_bugs(f)[0] != '\0');
}

static void take_version(struct check *k, const struct rt_etcd_facts *f)
{
    size_t used = strlen(k->versions);
    if (!k->worst.known || gravity(f) > gravity(&k->worst))
        k->worst = *f;
    if (strstr(k->versions, f->version) != NULL)
        return;
    k->mixed = used > 0;
    (void)snprintf(k->versions + used, sizeof(k->versions) - used, "%s%s", used > 0 ? ", " : "",
                   f->version);
}

static void take_facts(struct check *k, const struct rt_etcd_facts *f)
{
    k->split = k->split || (k->worst.known && f->cluster != k->worst.cluster);
    take_version(k, f);
    if (k->alarms[0] == '\0')
        memcpy(k->alarms, f->alarms, sizeof(k->alarms));
    if (f->db_size > k->db_size) {
        k->db_size = f->db_size;
        k->db_quota = f->db_quota;
    }
}

/* The facts of those just asked; if none of them said any, those of the greeting. */
static void take_all(struct rt_etcd_conn *c, struct check *k)
{
    k->ends = rt_etcd_end_count(c);
    for (size_t i = 0; i < k->ends; i++) {
        const struct rt_etcd_probed *found = rt_etcd_probed(k->probe, i);
        k->answer += found->answers;
        if (found->facts.known)
            take_facts(k, &found->facts);
        if (!found->answers)
            k->silent = found->why;
    }
    if (!k->worst.known && rt_etcd_facts(c)->known)
        take_facts(k, rt_etcd_facts(c));
    k->worst.auth = rt_etcd_facts(c)->auth;
    k->full = strstr(k->alarms, "NOSPACE") != NULL;
}

/* ---- Verdicts --------------------------------------------------------------------------------- */

static void check_holders(const struct check *k)
{
    const char *promise = "one holder at a time (I1)";
    char text[128];
    if (k->split)
        say(k, promise, "broken", "the endpoints are not of one cluster",
            "name the members of one cluster in the URL");
    else if (strstr(k->alarms, "CORRUPT") != NULL)
        say(k, promise, "broken", k->alarms, "replace the members whose data differ");
    else if (!k->worst.known)
        say(k, promise, "limited", "the version is not known, and some end leases early",
            "let this user ask for the status, or guard the resource by the fence");
    else if (rt_etcd_lease_bugs(&k->worst)[0] != '\0') {
        (void)snprintf(text, sizeof(text), "etcd %s has known bugs of leases: see version",
                       k->worst.version);
        say(k, promise, "limited", text,
            "upgrade to " RT_ETCD_UPGRADE ", or guard the resource by the fence");
    } else
        say(k, promise, "kept", "a majority has every grant on its disks", "");
}

static void check_version(const struct check *k)
{
    const char *bugs = rt_etcd_lease_bugs(&k->worst);
    char text[320];
    if (!k->worst.known) {
        say(k, "version", "limited", "it may not be asked for by this user",
            "let this user ask for the status");
        return;
    }
    (void)snprintf(text, sizeof(text), "etcd %s%s%s%s", k->versions, bugs[0] != '\0' ? ": " : "",
                   bugs, k->mixed ? "; members differ" : "");
    say(k, "version", bugs[0] != '\0' || k->mixed ? "limited" : "kept", text,
        bugs[0] != '\0' ? "upgrade to " RT_ETCD_UPGRADE "; holders are told either way"
        : k->mixed      ? "bring all members to one version"
                        : "");
}

static void check_members(const struct check *k)
{
    const char *promise = "outages survived";
    size_t voters = k->members - k->learners;
    char text[400];
    if (k->no_members)
        (void)snprintf(text, sizeof(text),
                       "the members may not be listed by this user; %zu of %zu "
                       "endpoints answer%s%s",
                       k->answer, k->ends, k->silent != NULL ? ": " : "",
                       k->silent != NULL ? k->silent : "");
    else
        (void)snprintf(text, sizeof(text),
                       "%zu of %zu members vote; %zu may fail; %zu of %zu endpoints answer%s%s",
                       voters, k->members, voters > 0 ? (voters - 1) / 2 : 0, k->answer, k->ends,
                       k->silent != NULL ? ": " : "", k->silent != NULL ? k->silent : "");
    if (k->answer < k->ends)
        say(k, promise, "limited", text, "bring back who does not answer");
    else if (k->no_members)
        say(k, promise, "limited", text, "let this user list the members");
    else if (voters < 3)
        say(k, promise, "limited", text, "run three or five members");
    else if (k->ends < voters)
        say(k, promise, "limited", text, "name all members in the URL");
    else
        say(k, promise, "kept", text, "");
}

static void check_space(const struct check *k)
{
    const char *remedy = "compact, defragment, disarm the alarm, or raise --quota-backend-bytes";
    char text[160];
    if (k->alarms[0] != '\0') {
        say(k, "space", k->full ? "broken" : "limited", k->alarms,
            k->full ? remedy : "see etcdctl alarm list");
        return;
    }
    if (k->db_quota <= 0)
        (void)snprintf(text, sizeof(text), "no alarm; the database has %lld kB",
                       (long long)k->db_size / 1000);
    else
        (void)snprintf(text, sizeof(text), "no alarm; the database has %lld of %lld MB",
                       (long long)k->db_size / 1000000, (long long)k->db_quota / 1000000);
    bool tight = k->db_quota > 0 && k->db_size > k->db_quota / 100 * FULL_PERCENT;
    say(k, "space", tight ? "limited" : "kept", text, tight ? remedy : "");
}

static void check_users(const struct check *k, bool secure)
{
    const char *bugs = rt_etcd_rights_bugs(&k->worst);
    char text[256];
    say(k, "privacy", secure ? "kept" : "limited",
        secure ? "TLS" : "no TLS: keys, labels and tokens pass in the clear",
        secure ? "" : "use etcds://");
    if (!k->worst.auth) {
        say(k, "users", "limited",
            secure ? "no user: who has a certificate that it takes may take, break and revoke"
                   : "no user: anybody who reaches it may take, break and revoke",
            "turn on auth, with a user limited to ?prefix=");
        return;
    }
    (void)snprintf(text, sizeof(text), "etcd %s: %s", k->worst.version, bugs);
    if (k->worst.known && bugs[0] != '\0')
        say(k, "users", "limited", text, "upgrade to " RT_ETCD_UPGRADE);
    else
        say(k, "users", "kept", "the server knows us by a user", "");
}

static void check_rights(const struct check *k)
{
    if (k->refused)
        say(k, "rights", "broken", k->refusal, "grant the user readwrite on the prefix");
    else if (k->full)
        say(k, "rights", "limited", "not tried: there is no space", "make space first");
    else
        say(k, "rights", "kept", "leases, reading and writing under the prefix", "");
}

static void check_leftovers(const struct check *k)
{
    const struct rt_etcd_leftovers *left = &k->left;
    char text[400], bare[200] = "", remedy[RT_NAME_ROOM + 80];
    if (!left->known)
        return;
    if (left->bare > 0)
        (void)snprintf(bare, sizeof(bare),
                       "; %zu keys without a lease that stand in a line as if they were tickets "
                       "(%.80s)",
                       left->bare, left->bare_key);
    (void)snprintf(text, sizeof(text),
                   "%zu sessions, %zu of them over and still there; %zu tickets that "
                   "nothing ends%s%s",
                   left->sessions, left->dead_sessions, left->endless, bare,
                   left->more ? "; there are more keys than were looked at" : "");
    remedy[0] = '\0';
    if (left->endless > 0)
        (void)snprintf(remedy, sizeof(remedy), "rota break %s --fence %llu", left->name,
                       (unsigned long long)left->number);
    else if (left->dead_sessions > 0)
        (void)snprintf(remedy, sizeof(remedy), "etcdctl lease revoke %llx",
                       (unsigned long long)left->dead_session);
    else if (left->bare > 0)
        (void)snprintf(remedy, sizeof(remedy), "%s",
                       "if they are data: names, or a ?prefix=, that no data begins with");
    say(k, "nothing stays (I6)", remedy[0] != '\0' ? "limited" : "kept", text, remedy);
}

static void conclude(struct rt_etcd_conn *c, struct check *k)
{
    char text[160];
    check_holders(k);
    say(k, "fences only grow (I2)", "kept",
        "the create_revision of the ticket's key, unless a snapshot is restored", "");
    say(k, "order of arrival (I7)", "kept", "by create_revision", "");
    say(k, "durable tickets", "kept", "keys without a lease", "");
    say(k, "clocks", "kept", "not compared: the leader alone counts how long a lease lives", "");
    if (k->least_s > 0) {
        (void)snprintf(text, sizeof(text), "a lease lives %lld s at least; ours %u s",
                       (long long)k->least_s, rt_etcd_base(c)->ttl_ms / 1000);
        say(k, "takeover", "kept", text, "");
    }
    check_space(k);
    check_users(k, rt_etcd_secure(c));
    check_version(k);
    check_members(k);
    check_rights(k);
    check_leftovers(k);
    rt_etcd_work_end(c, &k->work, 0);
}

static void looked(struct rt_etcd_conn *c, struct rt_work *w)
{
    conclude(c, (struct check *)(void *)w);
}

/* ---- Steps -------------------------------------------------------------------------------------- */

static void give_back(struct rt_etcd_conn *c, struct check *k)
{
    if (k->lease != 0)
        rt_etcd_chore(c, RT_ETCD_REVOKE, NULL, 0, (uint64_t)k->lease);
    k->lease = 0;
}

/* Takes the outcome of a trial; returns whether there is nothing more to try. */
static bool tried(struct rt_etcd_conn *c, struct check *k, const struct rt_etcd_ask *a, int err)
{
    if (err == 0)
        return false;
    give_back(c, k);
    if (err == ROTA_AUTH) {
        k->refused = true;
        (void)snprintf(k->refusal, sizeof(k->refusal), "%.190s", rt_etcd_base(c)->errmsg);
    } else if (a->reason == RT_ETCD_NO_SPACE) {
        k->full = true;
    } else {
        rt_etcd_work_end(c, &k->work, err);
        return true;
    }
    conclude(c, k);
    return true;
}

static void revoked(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    (void)reply;
    if (err == 0)
        k->lease = 0;
    give_back(c, k);
    if (rt_etcd_leftovers(c, &k->work, &k->left, looked) != 0)
        conclude(c, k);
}

/* The revoke is waited for: nothing must be left over once the verdicts are in. */
static void key_put(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    RtEtcd__LeaseRevokeRequest revoke = RT_ETCD__LEASE_REVOKE_REQUEST__INIT;
    (void)reply;
    if (tried(c, k, a, err))
        return;
    revoke.id = k->lease;
    int rv = rt_etcd_work_ask(c, &k->work, RT_ETCD_LEASE_REVOKE, &revoke, revoked, k, 0);
    if (rv != 0)
        rt_etcd_work_end(c, &k->work, rv);
}

static void lease_granted(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    const RtEtcd__LeaseGrantResponse *got = reply;
    struct rt_etcd_txn t;
    char key[RT_ETCD_KEY_MAX];
    if (tried(c, k, a, err))
        return;
    k->lease = got->id;
    k->least_s = got->ttl;
    size_t size = rt_etcd_session_key(c, (uint64_t)got->id, key);
    rt_etcd_txn_open(c, &t, 0, 2, 0);
    rt_etcd_put(&t, RT_ETCD_THEN, key, size)->lease = got->id;
    (void)rt_etcd_get(&t, RT_ETCD_THEN, key, size);
    int rv = rt_etcd_work_txn(c, &k->work, &t, key_put, k);
    if (rv != 0)
        rt_etcd_work_end(c, &k->work, rv);
}

static void probed(struct rt_etcd_conn *c, void *arg)
{
    struct check *k = arg;
    RtEtcd__LeaseGrantRequest grant = RT_ETCD__LEASE_GRANT_REQUEST__INIT;
    take_all(c, k);
    if (k->full) {
        conclude(c, k);
        return;
    }
    grant.ttl = 1;
    int rv = rt_etcd_work_ask(c, &k->work, RT_ETCD_LEASE_GRANT, &grant, lease_granted, k, 0);
    if (rv != 0)
        rt_etcd_work_end(c, &k->work, rv);
}

static void members_seen(struct rt_etcd_conn *c, struct rt_etcd_ask *a, int err, const void *reply)
{
    struct check *k = a->owner;
    const RtEtcd__MemberListResponse *got = reply;
    k->no_members = err == ROTA_AUTH;
    if (err != 0 && !k->no_members) {
        rt_etcd_work_end(c, &k->work, err);
        return;
    }
    for (size_t i = 0; err == 0 && i < got->n_members; i++) {
        k->members++;
        k->learners += got->members[i]->is_learner != 0;
    }
    k->probe = rt_etcd_probe_new(c, rt_etcd_base(c)->call_ms / 2, probed, k);
    if (k->probe == NULL)
        rt_etcd_work_end(c, &k->work, rt_words_nomem(rt_etcd_base(c)));
}

static void check_cancel(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    if (!rt_etcd_ask_cancel(c, w->op))
        rt_etcd_work_end(c, w, rt_etcd_fail(c, ROTA_CANCELED, "canceled"));
}

static void check_free(struct rt_conn *conn, struct rt_work *w)
{
    struct check *k = (struct check *)(void *)w;
    (void)conn;
    rt_etcd_probe_free(k->probe);
    rt_etcd_leftovers_fini(&k->left);
}

static int begin_check(void *engine, struct rt_work *w)
{
    struct rt_etcd_conn *c = engine;
    RtEtcd__MemberListRequest members = RT_ETCD__MEMBER_LIST_REQUEST__INIT;
    return rt_etcd_work_ask(c, w, RT_ETCD_MEMBERS, &members, members_seen, w, 0);
}

const struct rt_turn_kind rt_etcd_check = {
    .size = sizeof(struct check), .begin = begin_check, .cancel = check_cancel, .free = check_free};
