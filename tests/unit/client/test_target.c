/* SPDX-License-Identifier: Apache-2.0 */
/* An engine with tables says which, before it contacts anybody; one without has nothing to say. */
#include "client/target.h"

#include "base/alloc.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- An engine with a table --------------------------------------------- */

struct tables {
    struct rt_conn conn;
    char ddl[128];
};

static int opened, closed, refusal;

static int tables_open(struct rt_conn *conn, const struct rt_url *url)
{
    struct tables *t = (struct tables *)(void *)conn;

    assert_true(conn->loop->virtual_time); /* without descriptors: nothing can leave */
    assert_int_equal(conn->ttl_ms, 10000);
    assert_true(conn->call_ms > 0);
    if (refusal != 0) {
        snprintf(conn->errmsg, sizeof(conn->errmsg), "as planned");
        return refusal;
    }
    snprintf(t->ddl, sizeof(t->ddl), "create table %s_line ();\n",
             rt_url_param(url, "prefix", "rota"));
    opened++;
    return 0;
}

static void tables_close(struct rt_conn *conn)
{
    (void)conn;
    closed++;
}

static const char *tables_ddl(const struct rt_conn *conn)
{
    return ((const struct tables *)(const void *)conn)->ddl;
}

static const struct rt_engine with_tables = {
    .conn_size = sizeof(struct tables),
    .open = tables_open,
    .close = tables_close,
    .ddl = tables_ddl,
};

/* ---- Asking it ---------------------------------------------------------- */

static char told[128];
static int times;

static void on_ddl(void *arg, const char *text)
{
    assert_ptr_equal(arg, told);
    assert_int_equal(opened - closed, 1); /* the text is the connection's */
    snprintf(told, sizeof(told), "%s", text);
    times++;
}

static int ask(const char *url, rota_ddl_fn *fn)
{
    struct rt_target t;

    opened = closed = times = 0;
    assert_int_equal(rt_target_find(&t, url, 0), 0);
    t.engine = &with_tables;
    int rv = rt_target_ddl(&t, fn, told);
    if (rv != 0)
        snprintf(told, sizeof(told), "%.100s", t.errmsg);
    rt_target_fini(&t);
    assert_int_equal(closed, opened);
    return rv;
}

static void the_tables_are_told_once(void **state)
{
    (void)state;
    assert_int_equal(ask("mem:x?prefix=ours", on_ddl), 0);
    assert_int_equal(times, 1);
    assert_string_equal(told, "create table ours_line ();\n");
    assert_int_equal(ask("mem:x", NULL), 0); /* only whether it could be told */
    assert_int_equal(opened, 1);
}

static void what_open_refuses_is_told_so(void **state)
{
    (void)state;
    refusal = ROTA_INVALID;
    assert_int_equal(ask("mem:x", on_ddl), ROTA_INVALID);
    assert_int_equal(times, 0);
    assert_string_equal(told, "as planned");
    refusal = 0;
}

static void without_tables_nothing_is_told(void **state)
{
    (void)state;
    times = 0;
    assert_int_equal(rota_ddl("mem:x", on_ddl, told), 0);
    assert_int_equal(rota_ddl("file:/nonexistent/folder", on_ddl, told), 0); /* not even opened */
    assert_int_equal(times, 0);
}

static void a_wrong_url_says_why(void **state)
{
    (void)state;
    assert_int_equal(rota_ddl("gopher://x", on_ddl, told), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "gopher"));
    assert_int_equal(rota_ddl("mem:x?ttl=1d", on_ddl, told), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "1s to 1h"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_are_told_once),
        cmocka_unit_test(what_open_refuses_is_told_so),
        cmocka_unit_test(without_tables_nothing_is_told),
        cmocka_unit_test(a_wrong_url_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
