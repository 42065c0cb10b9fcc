/* SPDX-License-Identifier: Apache-2.0 */
/* What rota doctor says of Redlock's five as they are set, and as they fail. */
#include "five.h"
#include "lib/findings.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 1000
#define COUNTS_S 3 /* a node counts once up this long, it says, with ?max_ttl=1s */
#define CALL_MS 20000

static struct rt_redis_redlock *five;

static void examine(const char *url, struct rt_findings *f)
{
    struct rota_options opts = {.ttl_ms = TTL_MS, .call_ms = CALL_MS};
    struct rota *r = NULL;

    f->count = 0;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    assert_int_equal(rota_doctor(r, rt_findings_take, f), 0);
    rota_close(r);
}

static void examine_five(const char *params, struct rt_findings *f)
{
    char *url = rt_redis_redlock_url(five, params);

    examine(url, f);
    free(url);
}

static void says(const struct rt_findings *f, const char *promise, const char *verdict,
                 const char *setting)
{
    assert_string_equal(rt_findings_verdict(f, promise), verdict);
    if (strstr(rt_findings_setting(f, promise), setting) == NULL)
        fail_msg("%s: '%s' does not say '%s'", promise, rt_findings_setting(f, promise), setting);
}

static void as_they_are_started(void **state)
{
    struct rt_findings f;

    (void)state;
    examine_five("", &f); /* ?max_ttl= is 30 s: nobody counts yet */
    says(&f, "goes on", "broken", "5 of 5 nodes answer, 0 of them count: 0 of 5");
    says(&f, "a restart", "kept", "30 s");
    examine_five("max_ttl=0", &f);
    says(&f, "one holder", "broken", "?max_ttl=0");
    says(&f, "fences", "limited", "forgets its counters");
    says(&f, "order", "broken", "nobody stands in line");
    says(&f, "goes on", "kept", "5 of 5 nodes answer, 5 of them count");
    says(&f, "a restart", "limited", "from its start");
    says(&f, "clocks", "kept", "ms apart");
    five_up_for(five, COUNTS_S);
    examine_five("max_ttl=1s", &f);
    says(&f, "one holder", "limited", "a crash forgets locks");
    says(&f, "goes on", "kept", "5 of them count");
}

static void settings_of_one(void **state)
{
    struct rt_findings f;

    (void)state;
    rt_redis_must(&five->node[3], "CONFIG SET maxmemory-policy allkeys-lru");
    examine_five("max_ttl=0", &f);
    says(&f, "one holder", "limited", "evict");
    rt_redis_must(&five->node[3], "CONFIG SET maxmemory-policy noeviction");
    for (int i = 0; i < RT_REDLOCK_FIVE; i++) {
        rt_redis_must(&five->node[i], "CONFIG SET appendonly yes");
        rt_redis_must(&five->node[i], "CONFIG SET appendfsync always");
    }
    examine_five("max_ttl=0", &f);
    says(&f, "one holder", "limited", "clock that jumps");
    says(&f, "fences", "kept", "keeps its counter");
    rt_redis_must(&five->node[4], "CONFIG SET appendfsync everysec");
    examine_five("max_ttl=0", &f);
    says(&f, "one holder", "broken", "a crash forgets locks");
    says(&f, "fences", "limited", "");
}

static void one_server_by_two_names(void **state)
{
    struct rt_findings f;
    char url[200];

    (void)state;
    snprintf(url, sizeof(url), "redlock://127.0.0.1:%u,localhost:%u,127.0.0.1:%u/?max_ttl=0",
             (unsigned)five->node[0].server.port, (unsigned)five->node[0].server.port,
             (unsigned)five->node[1].server.port);
    examine(url, &f);
    says(&f, "one holder", "limited", "only one of them counts");
    says(&f, "goes on", "limited", "2 of 3 nodes answer");
}

static void count_twins(void *arg, int level, const char *line)
{
    int *lines = arg;

    *lines += level <= ROTA_LOG_WARN && strstr(line, "is the same server as") != NULL;
}

/* It has one voice: with two others that makes a majority, alone it never does. One line says so. */
static void one_server_has_one_voice(void **state)
{
    char url[200];
    int lines = 0;
    struct rota_options options = {.log = count_twins, .log_arg = &lines, .call_ms = 2000};
    struct rota *r = NULL;
    struct rota_lock *lock;
    unsigned port = five->node[0].server.port;

    (void)state;
    snprintf(url, sizeof(url), "redlock://127.0.0.1:%u,localhost:%u,127.0.0.1:%u/?max_ttl=0", port,
             port, (unsigned)five->node[1].server.port);
    assert_int_equal(rota_open(&r, url, &options), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(rota_acquire(r, "x", NULL, &lock), 0);
        assert_int_equal(rota_release(lock), 0);
    }
    rt_server_stop(&five->node[1].server); /* the only other one */
    assert_int_not_equal(rota_acquire(r, "x", &(struct rota_ask){.flags = ROTA_TRY}, &lock), 0);
    assert_non_null(strstr(rota_errmsg(r), "is the same server as"));
    rt_server_cont(&five->node[1].server);
    rota_close(r);
    assert_in_range(lines, 0, 1); /* none if it was not dialed yet: a majority was enough */
    snprintf(url, sizeof(url), "redlock://127.0.0.1:%u,localhost:%u,127.1:%u/?max_ttl=0", port,
             port, port);
    r = NULL;
    lines = 0;
    assert_int_not_equal(rota_open(&r, url, &options), 0);
    assert_non_null(strstr(rota_errmsg(NULL), "is the same server as"));
    assert_in_range(lines, 1, 2); /* of two nodes */
}

/* What the user may not do, on two nodes and on three. (A user who may not run scripts, or reach rota:f, is not
 * greeted: "goes on" says so.) */
static void rights_that_are_missing(void **state)
{
    static const struct {
        const char *without, *lacks;
    } all[] = {{"-set", "+set"}, {"-del -pexpire", "+pexpire +del"}, {"-scan", "+scan"}};
    struct rt_redis_options opts = {
        .user = "limited", .user_password = "right", .user_rules = RT_REDLOCK_RULES};
    struct rt_redis_redlock *r = rt_redis_redlock_new(&opts, false, 0);
    char *url = rt_redis_redlock_url(r, "max_ttl=0"), command[300];
    struct rt_findings f;

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        examine(url, &f);
        says(&f, "rights", "kept", "all that is needed");
        for (int n = 0; n < 3; n++) {
            snprintf(command, sizeof(command), "ACL SETUSER limited %s", all[i].without);
            rt_redis_must(&r->node[n], command);
            if (n > 0) {
                examine(url, &f);
                says(&f, "rights", n < 2 ? "limited" : "broken", all[i].lacks);
            }
        }
        snprintf(command, sizeof(command), "ACL SETUSER limited resetkeys %s", RT_REDLOCK_RULES);
        for (int n = 0; n < 3; n++)
            rt_redis_must(&r->node[n], command);
    }
    free(url);
    rt_redis_redlock_free(r);
}

static void nodes_that_are_away(void **state)
{
    struct rt_findings f;

    (void)state;
    rt_redis_kill(&five->node[0]);
    examine_five("max_ttl=0", &f);
    says(&f, "goes on", "kept", "4 of 5 nodes answer");
    rt_redis_kill(&five->node[1]);
    examine_five("max_ttl=0", &f);
    says(&f, "goes on", "limited", "3 of 5 nodes answer, 3 of them count");
}

static int start(void **state)
{
    (void)state;
    five = rt_redis_redlock_new(NULL, false, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_redis_redlock_free(five);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_they_are_started),     cmocka_unit_test(settings_of_one),
        cmocka_unit_test(one_server_by_two_names), cmocka_unit_test(one_server_has_one_voice),
        cmocka_unit_test(rights_that_are_missing), cmocka_unit_test(nodes_that_are_away),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY"));
    return cmocka_run_group_tests(tests, start, stop);
}
