/* SPDX-License-Identifier: Apache-2.0 */
/* What locks are called on the server: keys as the incumbents make them, names that fit. */
#include "engine/sql/hold/hold.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

static void assert_key(enum rt_sqlhold_keys keys, const char *name, int64_t expected)
{
    int64_t key = -1;
    assert_true(rt_sqlhold_key(keys, name, &key));
    assert_true(key == expected);
}

static void keys_of_others(void **state)
{
    (void)state;
    /* By zlib, sha1sum and with_advisory_lock's own rule. */
    assert_key(RT_HOLD_CRC32, "123456789", 0xcbf43926);
    assert_key(RT_HOLD_RAILS, "123456789", (int64_t)((uint64_t)0x4bf43926 << 32));
    assert_key(RT_HOLD_SHA1LE, "abc", (int64_t)UINT64_C(0x6a810647363e99a9));
    assert_key(RT_HOLD_HASHTEXT, "the server reckons it", 0);
    assert_key(RT_HOLD_RAW64, "-5", -5);
    assert_key(RT_HOLD_RAW64, "9223372036854775807", INT64_MAX);
    assert_key(RT_HOLD_RAWPAIR, "7,-8", (int64_t)(UINT64_C(7) << 32 | 0xfffffff8));
    assert_key(RT_HOLD_RAWPAIR, "-1,0", (int64_t)((uint64_t)-1 << 32));
}

static void keys_that_are_none(void **state)
{
    int64_t key;
    (void)state;
    static const char *const bad64[] = {"", "x", "1x", " 1", "+1", "9223372036854775808", "1,2"};
    static const char *const bad_pairs[] = {"1",     "1,",           ",1",
                                            "1,2,3", "2147483648,0", "0,-2147483649"};
    for (size_t i = 0; i < sizeof(bad64) / sizeof(bad64[0]); i++)
        assert_false(rt_sqlhold_key(RT_HOLD_RAW64, bad64[i], &key));
    for (size_t i = 0; i < sizeof(bad_pairs) / sizeof(bad_pairs[0]); i++)
        assert_false(rt_sqlhold_key(RT_HOLD_RAWPAIR, bad_pairs[i], &key));
}

static void mappings_by_name(void **state)
{
    enum rt_sqlhold_keys keys = RT_HOLD_RAW64;
    (void)state;
    assert_true(rt_sqlhold_keys_find("hashtext", &keys));
    assert_int_equal(keys, RT_HOLD_HASHTEXT);
    assert_false(rt_sqlhold_keys_find("hash", &keys));
    assert_true(rt_sqlhold_keys_pair(RT_HOLD_RAILS) && !rt_sqlhold_keys_pair(RT_HOLD_CRC32));
}

static void names_that_fit(void **state)
{
    char a[RT_HOLD_SPELLED], b[RT_HOLD_SPELLED], name[200];
    (void)state;
    rt_sqlhold_lock_name("Backup of A", a);
    assert_string_equal(a, "Backup of A"); /* as others type it */
    memset(name, 'x', sizeof(name) - 1);
    name[199] = '\0';
    rt_sqlhold_lock_name(name, a);
    name[198] = 'y';
    rt_sqlhold_lock_name(name, b);
    assert_int_equal(strlen(a), 64);
    assert_string_not_equal(a, b);
}

static void tables_of_names(void **state)
{
    char a[RT_HOLD_SPELLED], b[RT_HOLD_SPELLED];
    (void)state;
    rt_sqlhold_table_name("", "orders", a);
    assert_string_equal(a, "orders");
    rt_sqlhold_table_name("", "My-Orders", a); /* a user's own, as it is */
    assert_string_equal(a, "My-Orders");
    rt_sqlhold_table_name("rota_t_", "night_job", a);
    assert_string_equal(a, "rota_t_night_job");
    rt_sqlhold_table_name("rota_t_", "Night-job", a); /* no two names share a table */
    rt_sqlhold_table_name("rota_t_", "night-Job", b);
    assert_string_not_equal(a, b);
    assert_true(strlen(a) <= 60 && strchr(a, '$') != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_others),   cmocka_unit_test(keys_that_are_none),
        cmocka_unit_test(mappings_by_name), cmocka_unit_test(names_that_fit),
        cmocka_unit_test(tables_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
