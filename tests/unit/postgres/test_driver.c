/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's links: how they come up, what ends them. */
#include "../sql/rider.h"
#include "lib/postgres_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rt_pg server;
static char *url;

static int start(void **state)
{
    (void)state;
    rt_pg_start(&server, NULL);
    url = rt_pg_url(&server, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_pg_fini(&server);
    free(url);
    return 0;
}

static void comes_up(void **state)
{
    struct rider r;
    (void)state;
    rider_start(&r, &rt_postgres_driver, url);
    DO(&r, STEP0(FACTS));
    print_message("%s\n", rider_row(&r, 0, 0));
    assert_int_equal(FLY(&r, STEP0(LAYOUT)), RT_SQL_ABSENT);
    print_message("%s\n", r.why);
    DO(&r, STEP0(MAKE));
    DO(&r, STEP0(MAKE));
    DO(&r, STEP0(LAYOUT));
    assert_string_equal(rider_row(&r, 0, 0), "1.0");
    DO(&r, STEP(OPEN, N(7), N(10000000), T("me")));
    assert_int_equal(r.changed[0], 1);
    DO(&r, STEP(TAKE, T("a"), N(7), N(1), N(2), N(0), N(3)));
    print_message("%s\n", rider_row(&r, 0, 0));
    DO(&r, STEP(GIVE, T("a"), N(7), N(rider_cell(&r, 0, 0, 0))));
    assert_int_equal(r.changed[0], 1);
    rider_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_up, rider_setup, rider_teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
