/* SPDX-License-Identifier: Apache-2.0 */
/* How the command writes others' words, times and labels. */
#include "cli/json.h"
#include "cli/out.h"
#include "cli/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

static void terminals_are_not_commanded(void **state)
{
    char out[16];

    (void)state;
    assert_string_equal(rt_out_clean("a\033[31m\n\x7f", out, sizeof(out)), "a?[31m??");
    assert_string_equal(rt_out_clean("\xc2\x9b"
                                     "1m",
                                     out, sizeof(out)),
                        "?1m");
    assert_string_equal(rt_out_clean("gr\xc3\xbc\xc3\x9f\x65", out, sizeof(out)),
                        "gr\xc3\xbc\xc3\x9f\x65");
    assert_string_equal(rt_out_clean("0123456789abcdefg", out, sizeof(out)), "0123456789abcde");
    assert_string_equal(rt_out_clean("x\xc2", out, sizeof(out)), "x\xc2");
}

static void widths(void **state)
{
    (void)state;
    assert_int_equal(rt_out_width(""), 0);
    assert_int_equal(rt_out_width("gr\xc3\xbc\xc3\x9f\x65"), 5);
}

static void times(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {59999, "59 s"},
        {192000, "3 min 12 s"},
        {7500000, "2 h 5 min"},
        {86400000, "1 d 0 h"},
        {31622400000, "366 d 0 h"},
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(rt_out_time(cases[i].ms, out, sizeof(out)), cases[i].text);
}

static void labels(void **state)
{
    static const char *const other[] = {
        "",     "me",   "/1/x",   "h/x/y",  "h/1",
        "h/1/", "h//x", "h/-1/x", "h/1x/y", "h/99999999999999999999/x",
    };
    struct rt_ticket_who who;

    (void)state;
    assert_true(rt_ticket_who("host/42/a/b", &who));
    assert_int_equal(who.host_bytes, 4);
    assert_int_equal(who.process, 42);
    assert_string_equal(who.program, "a/b");
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        assert_false(rt_ticket_who(other[i], &who));
}

static void owners(void **state)
{
    struct rota_place place = {.owner = 0};
    char out[48];

    (void)state;
    assert_string_equal(rt_ticket_owner(&place, out, sizeof(out)), "");
    place.owner = 7;
    assert_string_equal(rt_ticket_owner(&place, out, sizeof(out)), "owner 7");
    place.owner = UINT64_C(1) << 63 | 2;
    assert_string_equal(rt_ticket_owner(&place, out, sizeof(out)), "thread 2");
}

static void json_is_always_utf8(void **state)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", ""},
        {"gr\xc3\xbc", "gr\xc3\xbc"},
        {"a\xff\xc3\xbc\xf0\x9f", "a\xef\xbf\xbd\xc3\xbc\xef\xbf\xbd\xef\xbf\xbd"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *text = rt_json_text(cases[i].text);
        assert_string_equal(json_string_value(text), cases[i].wanted);
        json_decref(text);
    }
    json_t *id = rt_json_id(UINT64_MAX);
    assert_string_equal(json_string_value(id), "18446744073709551615");
    json_decref(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminals_are_not_commanded),
        cmocka_unit_test(widths),
        cmocka_unit_test(times),
        cmocka_unit_test(labels),
        cmocka_unit_test(owners),
        cmocka_unit_test(json_is_always_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
