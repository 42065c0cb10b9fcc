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

/* One step of gc: asked and answered. */
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
    rt_gc_raised(&g, 30000); /* the journal's time is another */
    rt_gc_raised(&g, 35000);
    assert_true(g.floor_ms == 30000);
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

/* By SHA-256, whatever its size: around the ends of its blocks, too. */
static void a_name_has_one_id(void **state)
{
    static const struct {
        size_t size;
        const char *id;
    } known[] = {
        {55, "00000007d5e285683cd4efc02d021a5c"},  {56, "0000000784c26261370ee7541549d16d"},
        {63, "00000007f5220b47218278e656f2013b"},  {64, "00000007fce100971f64e7001e8fe5a5"},
        {119, "00000007800b48d4edf0fa7bee3c6236"}, {120, "0000000793f05a0b594787f5ecd315ed"},
        {128, "00000007a4da1b81d0b16df6428eee73"},
    };
    char text[RT_TXN_ID_TEXT], name[128];
    struct rt_txn_id id = rt_txn_id_named(7, "a", 1), first = rt_txn_id_first_named(7), read;
    (void)state;
    rt_txn_id_text(&id, text);
    assert_string_equal(text, "00000007ca978112ca1bbdcafac231b3");
    assert_true(rt_txn_id_read(text, &read) && rt_txn_id_same(&read, &id));
    memset(name, 'x', sizeof(name));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        id = rt_txn_id_named(7, name, known[i].size);
        rt_txn_id_text(&id, text);
        assert_string_equal(text, known[i].id);
        assert_true(rt_txn_id_is_named(&id) && rt_txn_id_journal(&id) == 7);
        assert_true(memcmp(id.at, first.at, sizeof(id.at)) >= 0);
    }
    struct rt_txn_id last = rt_txn_id_make(7, INT64_MAX, UINT64_MAX);
    assert_false(rt_txn_id_is_named(&last));
    assert_true(memcmp(last.at, first.at, sizeof(last.at)) < 0);
    assert_true(rt_txn_id_birth(&id) == RT_TXN_BIRTH_MAX); /* never below a floor */
}

/* What participants and processes that join are given names the same id. */
static void a_named_one_goes_through_texts(void **state)
{
    struct rt_name name = {rt_txn_id_named(7, "order 4711", 10), 3, 5000}, read;
    char text[RT_NAME_TEXT], ticket[RT_NAME_TICKET];
    (void)state;
    rt_name_text(&name, text);
    assert_true(rt_name_parse(text, &read) && rt_txn_id_same(&read.id, &name.id));
    rt_name_ticket(&name, ticket);
    assert_true(rt_name_ticket_parse(ticket, &read) && rt_txn_id_same(&read.id, &name.id));
    assert_false(rt_name_parse("0000000701a2b3c4d5e6f0f1f2f3f4f5-0000002a-ffffffffffff", &read));
    assert_false(rt_name_ticket_parse("0000000701a2b3c4d5e6f0f1f2f3f4f5-ffffffffffff", &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_one_text),
        cmocka_unit_test(what_is_not_ours_is_not_read),
        cmocka_unit_test(a_ticket_has_one_text),
        cmocka_unit_test(a_name_has_one_id),
        cmocka_unit_test(a_named_one_goes_through_texts),
        cmocka_unit_test(gc_goes_step_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
