/* SPDX-License-Identifier: Apache-2.0 */
/* What the user believes against what a server says: the table of belief.h, row by row. */
#include "engine/kit/belief.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char told[256];

static void on_tell(void *arg, enum rt_event_kind kind, const struct rt_known *k)
{
    size_t used = strlen(told);
    const char *word = kind == RT_GRANTED ? "granted" : kind == RT_WANTED ? "wanted" : "lost";
    assert_ptr_equal(arg, told);
    snprintf(told + used, sizeof(told) - used, "%s%s %s %d", used > 0 ? ", " : "", word, k->name,
             (int)k->number);
}

/* "w 5 a; g 6 b": w waits, g granted, W wanted, u granted and not asked for. */
static void fill(struct rt_belief *l, const char *text)
{
    char state, name[8];
    int number, used;
    *l = (struct rt_belief){0};
    for (; sscanf(text, " %c %d %7[a-z]%n", &state, &number, name, &used) == 3;
         text += used + (text[used] == ';')) {
        struct rt_known k = {.number = (uint64_t)number,
                             .granted = state != 'w',
                             .wanted = state == 'W',
                             .unasked = state == 'u'};
        rt_belief_add(l, k, name);
    }
    assert_int_equal(*text, '\0');
    assert_false(l->failed);
}

static void test_compare(void **state)
{
    static const struct {
        const char *there, *then, *now, *told;
    } all[] = {
        {"", "", "", ""},
        {"g 5 a", "g 5 a", "g 5 a", ""},
        {"w 5 a", "w 5 a", "w 5 a", ""},
        {"g 5 a", "w 5 a", "w 5 a", "granted a 5"},
        {"g 5 a", "", "", "granted a 5"}, /* nobody knows it: it is given back */
        {"w 5 a", "", "", ""},            /* until it is granted */
        {"W 5 a", "g 5 a", "g 5 a", "wanted a 5"},
        {"W 5 a", "w 5 a", "w 5 a", "granted a 5, wanted a 5"},
        {"", "g 5 a", "g 5 a", "lost a 5"},
        {"", "w 5 a", "w 5 a", "lost a 5"},
        {"", "g 5 a", "", ""},                             /* left meanwhile */
        {"", "", "g 5 a", ""},                             /* came since */
        {"w 5 a", "g 5 a", "g 5 a", "lost a 5"},           /* a server that knows less */
        {"w 5 a", "w 5 a", "g 5 a", ""},                   /* pushed since */
        {"", "u 5 a", "g 5 a", ""},                        /* it was not asked about that one */
        {"w 5 a", "u 5 a", "g 5 a", "lost a 5"},           /* and said it all the same */
        {"g 5 b; g 5 a", "g 5 a", "g 5 a", "granted b 5"}, /* one number, two lines */
        {"g 9 a; g 1 b; g 4 c", "g 4 c; g 2 d", "g 2 d; g 4 c",
         "granted b 1, granted a 9, lost d 2"},
    };
    (void)state;
    scarce_begin();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_belief there, then, now;
        fill(&there, all[i].there);
        fill(&then, all[i].then);
        fill(&now, all[i].now);
        told[0] = '\0';
        assert_true(rt_belief_compare(&there, &then, &now, on_tell, told));
        assert_string_equal(told, all[i].told);
        rt_belief_fini(&there);
        rt_belief_fini(&then);
        rt_belief_fini(&now);
    }
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

static void held(struct rt_up *up,
                 void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                 void *arg)
{
    (void)up;
    each(arg, "here", 3, true);
    each(arg, "there", 4, true);
    each(arg, "here", 5, false);
}

static bool is_here(void *arg, const char *name, uint64_t number)
{
    (*(int *)arg)++;
    assert_in_range(number, 3, 5);
    return strcmp(name, "here") == 0;
}

static void test_ask(void **state)
{
    struct rt_up up = {.held = held};
    struct rt_conn conn = {.up = &up};
    struct rt_belief l = {0};
    int asked = 0;
    (void)state;
    rt_belief_ask(&l, &conn, is_here, &asked);
    assert_int_equal(asked, 3);
    assert_int_equal(l.count, 2);
    assert_true(l.at[0].number == 3 && l.at[0].granted);
    assert_true(l.at[1].number == 5 && !l.at[1].granted);
    assert_true(rt_belief_has(&l, 2, "here", 5) && !rt_belief_has(&l, 1, "here", 5));
    assert_false(rt_belief_has(&l, 2, "there", 5));
    rt_belief_fini(&l);
    rt_belief_ask(&l, &conn, NULL, NULL);
    assert_int_equal(l.count, 3);
    rt_belief_add(&l, (struct rt_known){.number = 1}, "here");
    rt_belief_sort(&l);
    assert_true(rt_belief_has(&l, 4, "here", 1) && rt_belief_has(&l, 4, "here", 5));
    rt_belief_fini(&l);
    up.held = NULL; /* it cannot say */
    rt_belief_ask(&l, &conn, is_here, &asked);
    assert_int_equal(l.count, 0);
}

/* An incomplete answer says nothing: otherwise all would be lost. */
static void test_no_memory(void **state)
{
    (void)state;
    scarce_begin();
    for (long left = 0; left < 2; left++) {
        struct rt_belief there = {0}, then = {0}, now = {0};
        scarce_leave(left);
        rt_belief_add(&there, (struct rt_known){.number = 1}, "a");
        scarce_leave(-1);
        assert_true(there.failed);
        told[0] = '\0';
        assert_false(rt_belief_compare(&there, &then, &now, on_tell, told));
        assert_false(rt_belief_compare(&then, &there, &now, on_tell, told));
        assert_false(rt_belief_compare(&now, &then, &there, on_tell, told));
        assert_string_equal(told, "");
        rt_belief_fini(&there);
    }
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_ask),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
