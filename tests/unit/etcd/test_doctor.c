/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor says of servers of every kind, played: versions, members, users, space; and how they are greeted. */
#include "lib/findings.h"

#include "lib/scarce.h"
#include "town.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define THREE "etcd://a,b,c"
#define WITH_USER "etcd://ada:x@a,b,c"

static struct town t;
static struct rt_findings f;

static void examine(const char *url)
{
    struct rt_op op = {.kind = RT_OP_CHECK};
    op.check.each = rt_findings_take;
    op.check.arg = &f;
    f.count = 0;
    town_open(&t, url);
    if (town_do(&t, &op) != 0)
        fail_msg("%s", t.why);
    town_close(&t);
}

static void expect(const char *promise, const char *verdict, const char *setting)
{
    if (strcmp(rt_findings_verdict(&f, promise), verdict) != 0 ||
        strstr(rt_findings_setting(&f, promise), setting) == NULL)
        fail_msg("%s: %s, %s; not %s, %s", promise, rt_findings_verdict(&f, promise),
                 rt_findings_setting(&f, promise), verdict, setting);
}

static void all_is_well(void **state)
{
    (void)state;
    town_init(&t, 3);
    examine(THREE);
    expect("one holder", "kept", "");
    expect("fences", "kept", "unless a snapshot is restored");
    expect("order", "kept", "");
    expect("version", "kept", "etcd 3.6.16");
    expect("outages", "kept", "3 of 3 members vote; 1 may fail; 3 of 3 endpoints answer");
    expect("space", "kept", "0 of 2147 MB");
    expect("takeover", "kept", "2 s at least; ours 10 s");
    expect("clocks", "kept", "");
    expect("rights", "kept", "");
    expect("nothing stays", "kept", "0 sessions");
    expect("users", "limited", "anybody");
    expect("privacy", "limited", "no TLS");
}

static void versions(void **state)
{
    static const struct {
        const char *version, *leases, *bug, *rights, *cve;
    } known[] = {
        {"3.3.27", "limited", "15247", "limited", "33413"},
        {"3.4.23", "limited", "15247", "limited", "33413"},
        {"3.4.30", "limited", "15247", "limited", "33413"},
        {"3.4.31", "limited", "20590", "limited", "33413"},
        {"3.4.37", "limited", "20590", "limited", "33413"},
        {"3.4.38", "kept", "", "limited", "33413"},
        {"3.4.41", "kept", "", "limited", "33413"},
        {"3.4.42", "kept", "", "limited", "44283"},
        {"3.4.43", "kept", "", "limited", "44283"},
        {"3.4.44", "kept", "", "limited", "73499"},
        {"3.5.12", "limited", "15247", "limited", "33413"},
        {"3.5.13", "limited", "20590", "limited", "33413"},
        {"3.5.22", "limited", "20590", "limited", "33413"},
        {"3.5.23", "kept", "", "limited", "33413"},
        {"3.5.27", "kept", "", "limited", "33413"},
        {"3.5.28", "kept", "", "limited", "44283"},
        {"3.5.29", "kept", "", "limited", "44283"},
        {"3.5.30", "kept", "", "limited", "73499"},
        {"3.5.32", "kept", "", "limited", "73499"},
        {"3.5.33", "kept", "", "kept", ""},
        {"3.6.0", "limited", "20590", "limited", "33413"},
        {"3.6.4", "limited", "20590", "limited", "33413"},
        {"3.6.5", "kept", "", "limited", "33413"},
        {"3.6.8", "kept", "", "limited", "33413"},
        {"3.6.9", "kept", "", "limited", "44283"},
        {"3.6.10", "kept", "", "limited", "44283"},
        {"3.6.11", "kept", "", "limited", "73499"},
        {"3.6.13", "kept", "", "limited", "73499"},
        {"3.6.14", "kept", "", "kept", ""},
        {"3.7.0", "kept", "", "limited", "73499"},
        {"3.7.1", "kept", "", "kept", ""},
        {"3.8.0-alpha.0", "kept", "", "kept", ""},
        {"4.0.0", "kept", "", "kept", ""},
        {"99999999999999999999.1.1", "kept", "", "kept", ""},
        {"", "limited", "15247", "limited", "33413"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        town_init(&t, 3);
        for (size_t k = 0; k < 3; k++)
            t.servers[k].version = known[i].version;
        examine(WITH_USER);
        expect("version", known[i].leases, known[i].bug);
        expect("one holder", known[i].leases, known[i].leases[0] == 'k' ? "majority" : "leases");
        expect("users", known[i].rights, known[i].cve);
    }
}

/* The worst of all, whoever is asked first. */
static void members_of_different_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        town_init(&t, 3);
        t.servers[i].version = "3.4.23";
        examine(THREE);
        expect("one holder", "limited", "3.4.23");
        expect("version", "limited", "members differ");
        town_init(&t, 3);
        t.servers[i].version = "3.5.35"; /* has no bug, but is another */
        examine(THREE);
        expect("one holder", "kept", "");
        expect("version", "limited", "3.5.35");
    }
}

static void members_that_do_not_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        town_init(&t, 3);
        t.servers[i].down = true;
        examine(THREE);
        expect("outages", "limited", "2 of 3 endpoints answer: nobody listens");
        town_init(&t, 3);
        t.servers[i].mute = true;
        examine(THREE);
        expect("outages", "limited", "2 of 3 endpoints answer: ");
        assert_non_null(
            strstr(rt_findings_setting(&f, "outages"), (const char *[]){"a:", "b:", "c:"}[i]));
        expect("one holder", "kept", "");
    }
}

static size_t silent;
static int revokes;

static bool play_silent(struct town *town, struct town_wire *w, size_t i)
{
    (void)town;
    revokes += town_is_call(w, i, "/etcdserverpb.Lease/LeaseRevoke");
    return w->server == silent; /* takes it, and says nothing */
}

/* It lets us in and then answers nothing, as a stopped process does: it is named, whichever it is. */
static void a_member_that_is_silent(void **state)
{
    static const char *const names[] = {"a:2379 does not answer", "b:2379 does not answer",
                                        "c:2379 does not answer"};
    (void)state;
    for (silent = 0; silent < 3; silent++) {
        town_init(&t, 3);
        t.play = play_silent;
        examine(THREE);
        expect("outages", "limited", "2 of 3 endpoints answer: ");
        expect("outages", "limited", names[silent]);
    }
}

/* The lease of its trial is given back, once, before it has ended: nothing is left, and nothing foreign is affected. */
static void the_trial_leaves_nothing(void **state)
{
    (void)state;
    town_init(&t, 3);
    t.play = play_silent;
    silent = 3; /* none */
    revokes = 0;
    town_open(&t, THREE);
    struct rt_op op = {.kind = RT_OP_CHECK};
    op.check.each = rt_findings_take;
    op.check.arg = &f;
    f.count = 0;
    assert_int_equal(town_do(&t, &op), 0);
    assert_int_equal(revokes, 1);
    for (int i = 0; i < 8; i++)
        town_step(&t);
    assert_int_equal(revokes, 1);
    town_close(&t);
}

static void fewer_endpoints_than_members(void **state)
{
    (void)state;
    town_init(&t, 3);
    examine("etcd://a");
    expect("outages", "limited", "3 of 3 members vote; 1 may fail; 1 of 1 endpoints");
    town_init(&t, 1);
    examine("etcd://a");
    expect("outages", "limited", "0 may fail");
}

static void endpoints_of_two_clusters(void **state)
{
    (void)state;
    town_init(&t, 3);
    t.servers[2].cluster = 6;
    examine(THREE);
    expect("one holder", "broken", "not of one cluster");
}

static void alarms(void **state)
{
    (void)state;
    town_init(&t, 3);
    t.servers[1].alarm = "memberID:1 alarm:NOSPACE ";
    t.servers[0].refuses = "/etcdserverpb.Lease/LeaseGrant"; /* and is not even asked */
    examine(THREE);
    expect("space", "broken", "NOSPACE");
    expect("rights", "limited", "not tried");
    town_init(&t, 3); /* since a moment */
    t.servers[0].refuses = "/etcdserverpb.KV/Txn";
    t.servers[0].why = "etcdserver: mvcc: database space exceeded";
    examine(THREE);
    expect("rights", "limited", "no space");
    town_init(&t, 3);
    t.servers[1].alarm = "memberID:1 alarm:CORRUPT ";
    examine(THREE);
    expect("one holder", "broken", "CORRUPT");
    town_init(&t, 3);
    t.servers[2].db_size = 1800000000;
    examine(THREE);
    expect("space", "limited", "1800 of 2147 MB");
    t.servers[2].db_quota = t.servers[1].db_quota = t.servers[0].db_quota = 0; /* before 3.6 */
    town_init(&t, 1);
    t.servers[0].db_quota = 0;
    examine("etcd://a");
    expect("space", "kept", "20 kB");
}

static void rights(void **state)
{
    static const char *const paths[] = {"/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.KV/Txn"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        town_init(&t, 3);
        t.servers[0].refuses = paths[i];
        examine(WITH_USER);
        expect("rights", "broken", "permission denied");
    }
    town_init(&t, 3);
    t.servers[0].refuses = "/etcdserverpb.Cluster/MemberList";
    examine(WITH_USER);
    expect("outages", "limited", "may not be listed");
    expect("rights", "kept", "");
    town_init(&t, 3);
    for (size_t i = 0; i < 3; i++)
        t.servers[i].refuses = "/etcdserverpb.Maintenance/Status";
    examine(WITH_USER);
    expect("version", "limited", "may not be asked");
    expect("one holder", "limited", "not known");
    expect("outages", "kept", "3 of 3 endpoints answer");
}

/* Canceled, and closed, while endpoints are asked. */
static void given_up(void **state)
{
    struct rt_op op = {.kind = RT_OP_CHECK};
    (void)state;
    op.check.each = rt_findings_take;
    op.check.arg = &f;
    for (int steps = 0; steps < 12; steps++)
        for (int cancel = 0; cancel < 2; cancel++) {
            town_init(&t, 3);
            t.servers[2].mute = true;
            town_open(&t, THREE);
            town_until_ready(&t);
            f.count = 0;
            op.deadline = rt_loop_now(&t.loop) + 5000 * RT_MS;
            t.op = &op;
            t.base->engine->submit(rt_etcd_base(t.conn), &op);
            for (int i = 0; i < steps && t.op != NULL; i++)
                town_step(&t);
            if (cancel != 0 && t.op != NULL) {
                t.base->engine->cancel(rt_etcd_base(t.conn), &op);
                for (int i = 0; i < 100 && t.op != NULL; i++)
                    town_step(&t);
                assert_null(t.op);
            }
            town_close(&t);
        }
}

/* Each allocation of a visit fails once: the visit ends, and nothing is left of it. */
static void no_memory(void **state)
{
    bool failed = true;
    (void)state;
    for (long n = 1; failed; n++) {
        struct rt_op op = {.kind = RT_OP_CHECK};
        op.check.each = rt_findings_take;
        op.check.arg = &f;
        f.count = 0;
        town_init(&t, 3);
        scarce_begin();
        town_open(&t, WITH_USER);
        town_until_ready(&t);
        scarce.asked = 0;
        scarce.fail_at = n;
        int err = town_do(&t, &op);
        failed = scarce.asked >= n;
        scarce.fail_at = 0;
        assert_true(err == 0 || (failed && f.count == 0));
        town_close(&t);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
}

/* ---- The greeting --------------------------------------------------------------------------------- */

/* Late versions tell their state only to users: it is asked for once more with the token. */
static void status_for_users_only(void **state)
{
    (void)state;
    town_init(&t, 3);
    for (size_t i = 0; i < 3; i++)
        t.servers[i].wants_token = true;
    town_open(&t, WITH_USER);
    town_until_ready(&t);
    assert_true(rt_etcd_facts(t.conn)->known);
    assert_int_equal(t.authenticated, 1);
    assert_true((t.base->engine->caps(rt_etcd_base(t.conn)) & ROTA_CAP_STRICT) != 0);
    snprintf(t.token, sizeof(t.token), "another"); /* it forgets ours, and we are cut */
    town_cut(&t);
    assert_false(rt_etcd_ready(t.conn));
    town_until_ready(&t);
    assert_int_equal(t.authenticated, 2);
    assert_true(rt_etcd_facts(t.conn)->known && rt_etcd_facts(t.conn)->auth);
    assert_true((t.base->engine->caps(rt_etcd_base(t.conn)) & ROTA_CAP_STRICT) != 0);
    town_close(&t);
    examine(WITH_USER);
    expect("version", "kept", "3.6.16");
    expect("users", "kept", "");
}

/* A user who may not see it even with a token is served, but the server is not asked again and again. */
static void status_for_others_only(void **state)
{
    (void)state;
    town_init(&t, 1);
    t.servers[0].refuses = "/etcdserverpb.Maintenance/Status";
    t.servers[0].why = "etcdserver: invalid auth token";
    town_open(&t, "etcd://ada:x@a");
    town_until_ready(&t);
    assert_false(rt_etcd_facts(t.conn)->known);
    assert_true((t.base->engine->caps(rt_etcd_base(t.conn)) & ROTA_CAP_STRICT) == 0);
    town_close(&t);
}

/* ---- A slow server ---------------------------------------------------------------------------------- */

static void ignore(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg;
    (void)name;
    (void)count;
    (void)granted;
}

/* With that many servers that need 1.5 s. */
static size_t connections_of(const char *url, size_t slow)
{
    struct rt_op op = {.kind = RT_OP_LIST, .list = {.prefix = "", .each = ignore}};
    town_init(&t, 3);
    t.ttl_ms = 2000;
    for (size_t i = 0; i < slow; i++)
        t.servers[i].slow_ms = 1500;
    town_open(&t, url);
    if (town_do(&t, &op) != 0)
        fail_msg("%s", t.why);
    size_t count = t.wire_count;
    town_close(&t);
    return count;
}

/* Another member may be quicker. Where none is, the client waits for it. */
static void slow_and_alive(void **state)
{
    (void)state;
    assert_int_equal(connections_of("etcd://a,b", 1), 2);
    assert_int_equal(connections_of("etcd://a", 1), 1);
    assert_int_equal(connections_of("etcd://a,b,c", 3), 4); /* once around */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(versions),
        cmocka_unit_test(members_of_different_versions),
        cmocka_unit_test(members_that_do_not_answer),
        cmocka_unit_test(a_member_that_is_silent),
        cmocka_unit_test(the_trial_leaves_nothing),
        cmocka_unit_test(fewer_endpoints_than_members),
        cmocka_unit_test(endpoints_of_two_clusters),
        cmocka_unit_test(alarms),
        cmocka_unit_test(rights),
        cmocka_unit_test(given_up),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(status_for_users_only),
        cmocka_unit_test(status_for_others_only),
        cmocka_unit_test(slow_and_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
