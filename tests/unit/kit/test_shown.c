/* SPDX-License-Identifier: Apache-2.0 */
/* Places collected and told at once; the hash by which Redis' rooms are found. */
#include "engine/kit/hash.h"
#include "engine/kit/shown.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MANY 20

static char told[1024];

static void each(void *arg, const char *name, const struct rota_place *place)
{
    char one[64];
    assert_ptr_equal(arg, told);
    (void)snprintf(one, sizeof(one), "%s %llu [%s] [%s]; ", name, (unsigned long long)place->number,
                   place->label, place->value);
    (void)strncat(told, one, sizeof(told) - strlen(told) - 1);
}

static struct rt_text text(const char *bytes, size_t size)
{
    return (struct rt_text){bytes, size};
}

static void test_in_order(void **state)
{
    struct rt_shown_list l = {0};
    struct rt_op op = {.kind = RT_OP_INSPECT, .inspect = {.each = each, .arg = told}};
    (void)state;
    scarce_begin();
    told[0] = '\0';
    rt_shown_tell(&l, &op); /* nobody: nothing is told */
    assert_string_equal(told, "");
    for (uint64_t i = 0; i < MANY; i++) {
        struct rt_shown *s = rt_shown_add(&l, text("name of", 4), text("label", i % 6),
                                          text(NULL, 0));
        assert_true(s->place.flags == 0 && s->place.session == 0 && s->tag == 0 && s->marks == 0);
        s->place.number = i;
    }
    l.places[1].place.label = "completed";
    rt_shown_tell(&l, &op);
    assert_memory_equal(told, "name 0 [] []; name 1 [completed] []; name 2 [la] []; ", 53);
    assert_non_null(strstr(told, "name 17 [label] []; name 18 [] []; name 19 [l] []; "));
    rt_shown_fini(&l);
    assert_true(scarce.live == 0 && l.count == 0);
    scarce_end();
}

static void test_without_memory(void **state)
{
    (void)state;
    for (long at = 1; at <= 2; at++) {
        struct rt_shown_list l = {0};
        scarce_begin();
        scarce.fail_at = at;
        assert_null(rt_shown_add(&l, text("n", 1), text("l", 1), text("v", 1)));
        assert_int_equal(l.count, 0);
        assert_non_null(rt_shown_add(&l, text("n", 1), text("l", 1), text("v", 1)));
        rt_shown_fini(&l);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
}

/* Clients of different versions must find the same room for a name. */
static void test_hash(void **state)
{
    (void)state;
    assert_true(rt_hash("", 0) == UINT64_C(0xcbf29ce44fd0bfc1));
    assert_true(rt_hash("a", 1) == (UINT64_C(0xaf63dc4c8601ec8c) ^ UINT64_C(0xaf63dc4c)));
    assert_true(rt_hash("foobar", 6) == (UINT64_C(0x85944171f73967e8) ^ UINT64_C(0x85944171)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
