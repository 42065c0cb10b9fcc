/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's messages in an arena: there and back, bytes as etcd has them, bombs, memory that fails. */
#include "engine/etcd/proto.h"
#include "lib/scarce.h"
#include "pack.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

/* A transaction as a join sends it. */
static int pack_join(struct rt_arena *a, const uint8_t **bytes, size_t *n)
{
    RtEtcd__Compare absent = RT_ETCD__COMPARE__INIT;
    absent.target = RT_ETCD__COMPARE__TARGET__CREATE;
    absent.key = text("k/1");
    absent.with_case = RT_ETCD__COMPARE__WITH_CREATE_REVISION;
    RtEtcd__PutRequest put = RT_ETCD__PUT_REQUEST__INIT;
    put.key = text("k/1");
    put.value = text("v");
    put.lease = -2;
    RtEtcd__RangeRequest range = RT_ETCD__RANGE_REQUEST__INIT;
    range.key = text("k/");
    range.range_end = text("k0");
    range.order = RT_ETCD__ORDER__ORDER_ASCEND;
    range.by = RT_ETCD__BY__BY_CREATE;
    RtEtcd__RequestOp ops[2] = {RT_ETCD__REQUEST_OP__INIT, RT_ETCD__REQUEST_OP__INIT};
    ops[0].request_case = RT_ETCD__REQUEST_OP__REQUEST_PUT;
    ops[0].put = &put;
    ops[1].request_case = RT_ETCD__REQUEST_OP__REQUEST_RANGE;
    ops[1].range = &range;
    RtEtcd__Compare *compares[] = {&absent};
    RtEtcd__RequestOp *success[] = {&ops[0], &ops[1]}, *failure[] = {&ops[1]};
    RtEtcd__TxnRequest txn = RT_ETCD__TXN_REQUEST__INIT;
    txn.n_compare = 1;
    txn.compare = compares;
    txn.n_success = 2;
    txn.success = success;
    txn.n_failure = 1;
    txn.failure = failure;
    return pack_message(a, &txn, bytes, n);
}

static void bytes_as_etcd_has_them(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        0x0a, 0x09, 0x10, 0x01, 0x1a, 0x03, 'k',  '/',  '1',  0x28, 0x00, /* compare create == 0 */
        0x12, 0x15, 0x12, 0x13, 0x0a, 0x03, 'k',  '/',  '1',  0x12, 0x01, 'v',
        0x18, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, /* put, lease -2 */
        0x12, 0x0e, 0x0a, 0x0c, 0x0a, 0x02, 'k',  '/',  0x12, 0x02, 'k',  '0',
        0x28, 0x01, 0x30, 0x02, 0x1a, 0x0e, 0x0a, 0x0c, 0x0a, 0x02, 'k',  '/',
        0x12, 0x02, 'k',  '0',  0x28, 0x01, 0x30, 0x02,
    };
    struct rt_arena a;
    const uint8_t *bytes;
    size_t n;
    RtEtcd__TxnRequest *back;
    a = RT_ETCD_ARENA;
    assert_int_equal(pack_join(&a, &bytes, &n), 0);
    assert_int_equal(n, sizeof(expected));
    assert_memory_equal(bytes, expected, n);
    assert_int_equal(rt_etcd_unpack(&a, &rt_etcd__txn_request__descriptor, bytes, n, &back), 0);
    assert_int_equal(back->n_success, 2);
    assert_int_equal(back->success[0]->put->lease, -2);
    assert_int_equal(back->failure[0]->range->by, RT_ETCD__BY__BY_CREATE);
    assert_int_equal(back->compare[0]->with_case, RT_ETCD__COMPARE__WITH_CREATE_REVISION);
    rt_arena_fini(&a);
}

/* One block serves any number of messages. */
static void few_allocations(void **state)
{
    (void)state;
    struct rt_arena a;
    const uint8_t *bytes;
    size_t n;
    RtEtcd__TxnRequest *back;
    scarce_begin();
    a = RT_ETCD_ARENA;
    for (int i = 0; i < 1000; i++) {
        rt_arena_reset(&a);
        assert_int_equal(pack_join(&a, &bytes, &n), 0);
        assert_int_equal(rt_etcd_unpack(&a, &rt_etcd__txn_request__descriptor, bytes, n, &back), 0);
        assert_int_equal(scarce.live, 1);
    }
    assert_non_null(rt_arena_get(&a, 1 << 20));
    assert_int_equal(scarce.live, 2);
    rt_arena_reset(&a);
    assert_int_equal(scarce.live, 1);
    rt_arena_fini(&a);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

/* Cut short anywhere it is an error or a shorter message, never a crash. */
static void cut_short(void **state)
{
    (void)state;
    struct rt_arena a;
    const uint8_t *bytes;
    size_t n, bad = 0;
    RtEtcd__TxnRequest *back;
    a = RT_ETCD_ARENA;
    assert_int_equal(pack_join(&a, &bytes, &n), 0);
    for (size_t i = 0; i < n; i++) {
        uint8_t *copy = malloc(i > 0 ? i : 1);
        memcpy(copy, bytes, i);
        int rv = rt_etcd_unpack(&a, &rt_etcd__txn_request__descriptor, copy, i, &back);
        assert_true(rv == 0 || rv == ROTA_PROTOCOL);
        bad += rv != 0;
        free(copy);
    }
    assert_true(bad > n / 2);
    rt_arena_fini(&a);
}

/* Two bytes that become a struct, two million times. */
static void bombs(void **state)
{
    (void)state;
    struct rt_arena a;
    RtEtcd__RangeResponse *back = NULL;
    size_t n = 4u << 20;
    uint8_t *bomb = malloc(n);
    for (size_t i = 0; i < n; i += 2) {
        bomb[i] = 0x12;
        bomb[i + 1] = 0;
    }
    scarce_begin();
    a = RT_ETCD_ARENA;
    assert_int_equal(rt_etcd_unpack(&a, &rt_etcd__range_response__descriptor, bomb, n, &back),
                     ROTA_PROTOCOL);
    assert_null(back);
    assert_true(scarce.bytes <= RT_ETCD_ARENA_MAX + (64u << 10));
    rt_arena_fini(&a);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    free(bomb);
}

static void memory_fails(void **state)
{
    (void)state;
    struct rt_arena a;
    const uint8_t *bytes;
    size_t n;
    RtEtcd__RangeResponse *back;
    scarce_begin();
    scarce_leave(0);
    a = RT_ETCD_ARENA;
    assert_int_equal(pack_join(&a, &bytes, &n), ROTA_NOMEM);
    assert_int_equal(rt_etcd_unpack(&a, &rt_etcd__range_response__descriptor, "\x12\x00", 2, &back),
                     ROTA_NOMEM);
    scarce_leave(-1);
    rt_arena_reset(&a);
    assert_int_equal(rt_etcd_unpack(&a, &rt_etcd__range_response__descriptor, "\x12\x00", 2, &back),
                     0);
    assert_int_equal(back->n_kvs, 1);
    rt_arena_fini(&a);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_as_etcd_has_them),
        cmocka_unit_test(few_allocations),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(bombs),
        cmocka_unit_test(memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
