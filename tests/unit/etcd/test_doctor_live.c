/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor says of a real etcd: three members, two and one of them, a full one. */
#include "lib/etcd_server.h"
#include "lib/findings.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rt_etcds etcds;
static char *url;
static struct rt_findings f;

static void start(size_t n, const char *extra)
{
    struct rt_etcds_options opts = {.extra = {extra}};
    rt_etcds_start(&etcds, n, &opts);
    url = rt_etcds_url(&etcds, NULL);
}

static void stop(void)
{
    free(url);
    rt_etcds_fini(&etcds);
}

static void examine(void)
{
    struct rota_options opts = {.flags = ROTA_NO_KEEPER, .call_ms = 15000};
    struct rota *r = NULL;
    if (rota_open(&r, url, &opts) != 0)
        fail_msg("%s", rota_errmsg(NULL));
    f.count = 0;
    if (rota_doctor(r, rt_findings_take, &f) != 0)
        fail_msg("%s", rota_errmsg(r));
    rota_close(r);
}

static void expect(const char *promise, const char *verdict, const char *setting)
{
    assert_string_equal(rt_findings_verdict(&f, promise), verdict);
    if (strstr(rt_findings_setting(&f, promise), setting) == NULL)
        fail_msg("%s: %s, not %s", promise, rt_findings_setting(&f, promise), setting);
}

/* One of three: one clear error. The remaining one needs some time to notice. */
static void until_no_majority(void)
{
    struct rota_options opts = {.call_ms = 1000};
    struct rota *r = NULL;
    do
        assert_int_equal(rota_open(&r, url, &opts), ROTA_UNREACHABLE);
    while (strstr(rota_errmsg(NULL), "has no leader: a majority") == NULL);
}

static void two_of_three(void **state)
{
    char port[16];
    (void)state;
    start(3, NULL);
    examine();
    expect("outages", "kept", "3 of 3 endpoints answer");
    expect("rights", "kept", "");
    assert_int_equal(rt_etcds_keys(&etcds, ""), 0); /* nothing is left of it */
    rt_server_kill(&etcds.node[0].server);          /* the first that is dialed */
    assert_true(rt_etcds_leader(&etcds, 20000) > 0);
    examine();
    snprintf(port, sizeof(port), "%u", (unsigned)etcds.node[0].server.port);
    expect("outages", "limited", "2 of 3 endpoints answer");
    expect("outages", "limited", port);
    expect("rights", "kept", "");
    rt_server_kill(&etcds.node[1].server);
    until_no_majority();
    stop();
}

static void no_space(void **state)
{
    static char large[100 << 10];
    const char *const put[] = {"put", "x", large, NULL};
    int code = 0;
    (void)state;
    start(1, "--quota-backend-bytes=1000000");
    memset(large, 'x', sizeof(large) - 1);
    for (int i = 0; i < 200 && code == 0; i++)
        code = rt_etcds_ctl(&etcds, 0, NULL, 0, put);
    assert_int_not_equal(code, 0);
    examine();
    expect("space", "broken", "NOSPACE");
    expect("rights", "limited", "not tried");
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_of_three),
        cmocka_unit_test(no_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
