/* SPDX-License-Identifier: Apache-2.0 */
/* Observations: what is told is what differs; a look that comes while one is under way follows it. */
#include "core/timers.h"
#include "engine/kit/view.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct mine {
    struct rt_view view;
    int more;
};

static char heard[256];
static int events;

static void hear(struct rt_up *up, const struct rt_event *e)
{
    (void)up;
    assert_int_equal(e->kind, RT_CHANGED);
    events++;
    (void)snprintf(heard, sizeof(heard), "%s %llu [%s] [%s] %zu %u %u", e->name,
                   (unsigned long long)e->front.fence, e->front.value, e->front.label, e->count,
                   e->mode, e->of);
}

static struct rt_up up = {.event = hear};
static struct rt_conn conn = {.up = &up};

static int begin(void **state)
{
    (void)state;
    events = 0;
    heard[0] = '\0';
    scarce_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(scarce.live, 0);
    scarce_end();
    return 0;
}

static void test_only_differences(void **state)
{
    struct rt_view *list = NULL;
    struct mine *m = rt_view_new(&list, sizeof(*m), "n", &list);
    struct rt_view_state s = {0};
    (void)state;
    rt_view_tell(&conn, &m->view, &s); /* nobody is there: news as well, the first time */
    assert_string_equal(heard, "n 0 [] [] 0 0 0");
    rt_view_tell(&conn, &m->view, &s);
    assert_int_equal(events, 1);
    for (int part = 0; part < 6; part++) {
        s.fence += part == 0;
        s.count += part == 1;
        s.mode += part == 2;
        s.of += part == 3;
        if (part == 4)
            rt_view_value(&s, "value", 5);
        if (part == 5)
            rt_view_label(&s, "label of", 5);
        rt_view_tell(&conn, &m->view, &s);
        rt_view_tell(&conn, &m->view, &s);
        assert_int_equal(events, 2 + part);
    }
    assert_string_equal(heard, "n 1 [value] [label] 1 1 1");
    m->view.told = false; /* asked again */
    rt_view_tell(&conn, &m->view, &s);
    assert_int_equal(events, 8);
    rt_view_stop(&m->view);
    assert_null(list);
}

static void test_texts_are_cut(void **state)
{
    static char large[2 * ROTA_VALUE_MAX];
    struct rt_view_state s = {0};
    (void)state;
    memset(large, 'x', sizeof(large));
    rt_view_value(&s, large, sizeof(large));
    rt_view_label(&s, large, sizeof(large));
    assert_true(strlen(s.value) == ROTA_VALUE_MAX && strlen(s.label) == RT_LABEL_MAX);
    rt_view_value(&s, large, ROTA_VALUE_MAX);
    assert_int_equal(strlen(s.value), ROTA_VALUE_MAX);
    rt_view_value(&s, NULL, 0);
    assert_string_equal(s.value, "");
}

static void test_looks_follow_each_other(void **state)
{
    struct rt_view *list = NULL;
    struct mine *m = rt_view_new(&list, sizeof(*m), "n", &list);
    (void)state;
    assert_true(rt_view_begin(&m->view));
    assert_false(m->view.again);
    assert_false(rt_view_begin(&m->view)); /* one is under way ... */
    assert_true(rt_view_end(&m->view) && m->view.again);
    assert_true(rt_view_begin(&m->view)); /* ... and this is the one after it */
    assert_false(m->view.again);
    rt_view_stop(&m->view);
    assert_ptr_equal(list, m); /* its answer is to come */
    assert_null(rt_view_find(list, &list));
    assert_null(rt_view_of(list, "n"));
    assert_false(rt_view_end(&m->view));
    assert_null(list);
}

/* What is being looked at, or is over, is not due. */
static void test_which_is_next(void **state)
{
    struct rt_view *list = NULL;
    (void)state;
    assert_int_equal(rt_view_next(list), RT_NEVER);
    struct mine *a = rt_view_new(&list, sizeof(*a), "a", &list);
    struct mine *b = rt_view_new(&list, sizeof(*b), "b", &list);
    a->view.look_at = 5;
    b->view.look_at = 7;
    assert_int_equal(rt_view_next(list), 5);
    assert_true(rt_view_begin(&a->view));
    assert_int_equal(rt_view_next(list), 7);
    assert_true(rt_view_end(&a->view));
    assert_int_equal(rt_view_next(list), 5);
    assert_true(rt_view_begin(&a->view));
    assert_true(rt_view_begin(&b->view));
    rt_view_stop(&b->view);
    assert_int_equal(rt_view_next(list), RT_NEVER);
    rt_view_close(&list);
}

static void test_by_cookie_and_by_name(void **state)
{
    struct rt_view *list = NULL;
    int cookies[3];
    struct mine *a = rt_view_new(&list, sizeof(*a), "n", &cookies[0]);
    struct mine *b = rt_view_new(&list, sizeof(*b), "m", &cookies[1]);
    struct mine *c = rt_view_new(&list, sizeof(*c), "n", &cookies[2]);
    (void)state;
    assert_ptr_equal(rt_view_find(list, &cookies[0]), a);
    assert_ptr_equal(rt_view_find(list, &cookies[1]), b);
    assert_null(rt_view_find(list, &list));
    assert_ptr_equal(rt_view_of(list, "n"), c);
    assert_ptr_equal(rt_view_of(c->view.next, "n"), a);
    assert_null(rt_view_of(a->view.next, "n"));
    rt_view_stop(&b->view); /* of the middle */
    assert_true(list == &c->view && c->view.next == &a->view && a->view.next == NULL);
    scarce.fail_at = scarce.asked + 1;
    assert_null(rt_view_new(&list, sizeof(*a), "n", &list));
    assert_ptr_equal(list, c);
    rt_view_close(&list);
    assert_null(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_differences, begin, end),
        cmocka_unit_test_setup_teardown(test_texts_are_cut, begin, end),
        cmocka_unit_test_setup_teardown(test_looks_follow_each_other, begin, end),
        cmocka_unit_test_setup_teardown(test_which_is_next, begin, end),
        cmocka_unit_test_setup_teardown(test_by_cookie_and_by_name, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
