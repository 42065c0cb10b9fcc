/* SPDX-License-Identifier: Apache-2.0 */
/* Branches as bytes: as many as a transaction can have are read back, however they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "txn/journal/record.h"

#define MANY 5000

static void each_by_itself(void **state)
{
    struct rt_arena arena = {.most = 1u << 20};
    const struct rt_journal_branch *list = NULL;
    uint8_t bytes[64];
    size_t count = 0;

    (void)state;
    for (uint32_t i = 1; i <= MANY; i++) {
        struct rt_journal_branch one = {
            .number = i, .mode = 4, .resource = "stock", .payload = "x", .size = 1};
        rt_record_write(&one, bytes);
        assert_int_equal(rt_record_gather(&arena, bytes, rt_record_size(&one), true, &list, &count),
                         0);
        assert_int_equal(count, i);
    }
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(list[i].number, i + 1);
    assert_true(list[0].registered);
    rt_arena_fini(&arena);
}

static void several_at_once(void **state)
{
    struct rt_arena arena = {.most = 1u << 20};
    const struct rt_journal_branch *list = NULL;
    uint8_t bytes[3 * 64];
    size_t count = 0, size = 0;

    (void)state;
    for (uint32_t i = 1; i <= 3; i++) {
        struct rt_journal_branch one = {.number = i, .mode = 1, .resource = "shop"};
        rt_record_write(&one, bytes + size);
        size += rt_record_size(&one);
    }
    assert_int_equal(rt_record_gather(&arena, bytes, 0, false, &list, &count), 0);
    assert_null(list);
    assert_int_equal(rt_record_gather(&arena, bytes, size, false, &list, &count), 0);
    assert_int_equal(rt_record_gather(&arena, bytes, size, true, &list, &count), 0);
    assert_int_equal(count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(list[i].number, i % 3 + 1);
        assert_int_equal(list[i].registered, i >= 3);
    }
    assert_int_equal(rt_record_gather(&arena, bytes, size - 1, true, &list, &count), ROTA_PROTOCOL);
    assert_int_equal(count, 6);
    rt_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_by_itself),
        cmocka_unit_test(several_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
