/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of the core: names of branches, gc step by step (X9). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "txn/core/gc.h"
#include "txn/core/name.h"

static void a_name_has_one_text(void **state)
{
    static const char text[] = "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002a-01a2b3c4ffff";
    struct rt_name name, same;
    char out[RT_NAME_TEXT];
    (void)state;
    assert_true(rt_name_parse(text, &name));
    assert_int_equal(rt_txn_id_journal(&name.id), 7);
    assert_true(rt_txn_id_birth(&name.id) == INT64_C(0x01a2b3c4d5e6));
    assert_int_equal(name.branch, 42);
    assert_true(name.deadline_ms == INT64_C(0x01a2b3c4ffff));
    rt_name_text(&name, out);
    assert_string_equal(out, text);
    assert_true(rt_name_parse(out, &same) && rt_txn_id_same(&same.id, &name.id));
}

static void what_is_not_ours_is_not_read(void **state)
{
    static const char *const others[] = {
        "",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002a-01a2b3c4fff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002a-01a2b3c4fffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5_0000002a-01a2b3c4ffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002a_01a2b3c4ffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002A-01a2b3c4ffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4g5-0000002a-01a2b3c4ffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002 -01a2b3c4ffff",
    };
    struct rt_name name;
    (void)state;
    memset(&name, 0x5a, sizeof(name));
    struct rt_name before = name;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(rt_name_parse(others[i], &name));
    assert_memory_equal(&name, &before, sizeof(name));
}

static void a_ticket_has_one_text(void **state)
{
    static const char text[] = "0000000701a2b3c4d5e6f0f1f2f3f4f5-01a2b3c4ffff";
    static const char *const others[] = {
        "",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-01a2b3c4fff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-01a2b3c4fffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-01a2b3c4fffF",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5_01a2b3c4ffff",
        "0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002a-01a2b3c4ffff",
    };
    struct rt_name name;
    char out[RT_NAME_TICKET];
    (void)state;
    assert_true(rt_name_ticket_parse(text, &name));
    assert_int_equal(rt_txn_id_journal(&name.id), 7);
    assert_int_equal(name.branch, 0);
    assert_true(name.deadline_ms == INT64_C(0x01a2b3c4ffff));
    rt_name_ticket(&name, out);
    assert_string_equal(out, text);
    struct rt_name before = name;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(rt_name_ticket_parse(others[i], &name));
    assert_memory_equal(&name, &before, sizeof(name));
}

/* One step of gc: asked, and answered. */
static void step(struct rt_gc *g, enum rt_gc_op wanted, enum rt_gc_reply reply, int64_t now)
{
    uint32_t seq = 0, none = 0;
    assert_int_equal(rt_gc_todo(g, &seq, now), wanted);
    assert_int_equal(rt_gc_todo(g, &none, now), RT_GC_REST); /* one at a time */
    rt_gc_answered(g, seq + 1, RT_GC_OK, now);               /* not that one */
    rt_gc_answered(g, seq, reply, now);
    rt_gc_answered(g, seq, RT_GC_OK, now); /* doubled */
}

static void gc_goes_step_by_step(void **state)
{
    struct rt_gc g = {.step = RT_GC_REST};
    uint32_t seq;
    (void)state;
    assert_int_equal(rt_gc_todo(&g, &seq, 0), RT_GC_REST);
    rt_gc_start(&g, 2, 100000, 60000, 5);
    assert_true(g.floor_ms == 40000);
    step(&g, RT_GC_FORGET, RT_GC_MORE, 5);
    step(&g, RT_GC_FORGET, RT_GC_LOST, 5);
    assert_int_equal(rt_gc_todo(&g, &seq, 4 + RT_RETRY_FIRST), RT_GC_REST);
    int64_t now = 5 + RT_RETRY_FIRST;
    step(&g, RT_GC_FORGET, RT_GC_OK, now);
    step(&g, RT_GC_SCAN, RT_GC_OK, now); /* what is not done keeps its markers */
    assert_int_equal(g.resource, 0);
    step(&g, RT_GC_MARKS, RT_GC_OK, now);
    assert_int_equal(g.resource, 1);
    step(&g, RT_GC_MARKS, RT_GC_OK, now);
    assert_int_equal(rt_gc_todo(&g, &seq, now), RT_GC_REST);
    rt_gc_start(&g, 0, 100, 60000, now);
    assert_true(g.floor_ms == 0);
    step(&g, RT_GC_FORGET, RT_GC_OK, now);
    step(&g, RT_GC_SCAN, RT_GC_OK, now);
    assert_int_equal(rt_gc_todo(&g, &seq, now), RT_GC_REST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_one_text),
        cmocka_unit_test(what_is_not_ours_is_not_read),
        cmocka_unit_test(a_ticket_has_one_text),
        cmocka_unit_test(gc_goes_step_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
