/* SPDX-License-Identifier: Apache-2.0 */
/* How the command reads times, numbers and URLs. */
#include "cli/connect.h"
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <string.h>

static void durations(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {
        {"0", 0},       {"30", 30000},  {"0.5", 500},      {".25", 250},  {"500ms", 500},
        {"1.5s", 1500}, {"5m", 300000}, {"24h", 86400000}, {"0.0001", 1}, {"366d", 31622400000},
    };
    static const char *const bad[] = {
        "", " 1", "-1", "+1", "1 s", "1e3", "0x10", "inf", "nan", "1.2.3", ".", "1w", "367d", "s",
    };
    uint64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(rt_options_duration_ms(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    ms = 42;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(rt_options_duration_ms(bad[i], &ms));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(rt_options_too_long(bad[i]), strcmp(bad[i], "367d") == 0);
    assert_false(rt_options_too_long("366d"));
    assert_int_equal(ms, 42);
}

static void numbers(void **state)
{
    static const char *const bad[] = {"", "-1", "1x", " 1", "4", "99999999999999999999999"};
    uint64_t number;

    (void)state;
    assert_true(rt_options_number("3", 1, 3, &number));
    assert_int_equal(number, 3);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(rt_options_number(bad[i], 1, 3, &number));
    assert_false(rt_options_number("0", 1, 3, &number));
    assert_int_equal(number, 3);
}

static void passwords_are_not_shown(void **state)
{
    char out[64];

    (void)state;
    rt_connect_redact("redis://me:secret@host:6379/0", out, sizeof(out));
    assert_string_equal(out, "redis://me:***@host:6379/0");
    rt_connect_redact("redis://me:sec@ret/0?x@host:6379/0", out, sizeof(out));
    assert_string_equal(out, "redis://me:***@host:6379/0");
    rt_connect_redact("redis://me@host:6379", out, sizeof(out));
    assert_string_equal(out, "redis://me@host:6379");
    rt_connect_redact("file:/a:b@c", out, sizeof(out));
    assert_string_equal(out, "file:/a:b@c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),
        cmocka_unit_test(numbers),
        cmocka_unit_test(passwords_are_not_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
