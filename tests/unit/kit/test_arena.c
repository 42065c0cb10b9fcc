/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in blocks: aligned, bounded, kept small between messages, wiped at the end. */
#include "engine/kit/arena.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MOST (256u << 10)

static void test_pieces(void **state)
{
    struct rt_arena a = {.most = MOST};
    (void)state;
    char *last = NULL;
    for (size_t size = 0; size < 100; size++) {
        char *p = rt_arena_get(&a, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        assert_true(last == NULL || p >= last);
        memset(p, 'x', size);
        last = p + size;
    }
    rt_arena_fini(&a);
}

/* Large blocks are freed with their message, one small block stays. */
static void test_reset(void **state)
{
    struct rt_arena a = {.most = MOST};
    (void)state;
    scarce_begin();
    const void *first = rt_arena_get(&a, 100);
    assert_non_null(rt_arena_get(&a, 100000));
    assert_int_equal(scarce.live, 2);
    rt_arena_reset(&a);
    assert_int_equal(scarce.live, 1);
    assert_ptr_equal(rt_arena_get(&a, 200), first);
    rt_arena_fini(&a);
    assert_non_null(rt_arena_get(&a, 100000)); /* of a large one alone nothing is kept */
    rt_arena_reset(&a);
    assert_int_equal(scarce.live, 0);
    rt_arena_fini(&a);
    scarce_end();
}

/* Where little is expected only the first block is small. */
static void test_first(void **state)
{
    struct rt_arena a = {.most = MOST, .first = 1000};
    (void)state;
    scarce_begin();
    assert_non_null(rt_arena_get(&a, 900));
    assert_in_range(scarce.bytes, 1000, 2000);
    assert_non_null(rt_arena_get(&a, 900));
    assert_in_range(scarce.bytes, 17000, 20000);
    rt_arena_reset(&a); /* one is kept */
    assert_int_equal(scarce.live, 1);
    rt_arena_fini(&a);
    assert_non_null(rt_arena_get(&a, 5000)); /* what is needed, whatever was expected */
    rt_arena_fini(&a);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

static void test_limit(void **state)
{
    struct rt_arena a = {.most = MOST};
    size_t got = 0;
    (void)state;
    assert_null(rt_arena_get(&a, MOST + 1));
    assert_null(rt_arena_get(&a, SIZE_MAX));
    while (rt_arena_get(&a, 1000) != NULL)
        got += 1000;
    assert_true(got <= MOST && got > MOST / 2);
    assert_false(a.no_memory);
    rt_arena_reset(&a);
    assert_non_null(rt_arena_get(&a, MOST / 2));
    rt_arena_fini(&a);
}

/* One message may be as large as the next: what is kept between them does not count against the limit. */
static void test_limit_after_reset(void **state)
{
    struct rt_arena a = {.most = MOST};
    (void)state;
    assert_non_null(rt_arena_get(&a, MOST));
    rt_arena_reset(&a);
    assert_non_null(rt_arena_get(&a, 1)); /* a small block, which is kept */
    rt_arena_reset(&a);
    assert_non_null(rt_arena_get(&a, MOST));
    assert_int_equal(a.total, MOST);
    rt_arena_fini(&a);
    a.most = 128; /* less than a block */
    assert_non_null(rt_arena_get(&a, 128));
    assert_null(rt_arena_get(&a, 1));
    rt_arena_fini(&a);
}

/* An exhausted heap is not the limit, and is remembered until the next message. */
static void test_no_memory(void **state)
{
    struct rt_arena a = {.most = MOST};
    (void)state;
    scarce_begin();
    scarce_leave(0);
    assert_null(rt_arena_get(&a, 10));
    scarce_leave(-1);
    assert_non_null(rt_arena_get(&a, 10));
    assert_true(a.no_memory);
    rt_arena_reset(&a);
    assert_false(a.no_memory);
    rt_arena_fini(&a);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_limit_after_reset),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
