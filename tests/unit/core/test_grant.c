/* SPDX-License-Identifier: Apache-2.0 */
/* The grant rule, over lines written as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/grant.h"

#include <string.h>

/* LINE: X exclusive, S shared, 1..9 that many permits of OF, C counted, G gathering of OF; small letters
 * and "!" before a digit: granted before. Returns who holds as a string of + and -. */
static const char *walk(const char *line, uint32_t of)
{
    static char verdicts[64];
    struct rt_grant g;
    uint32_t waiting = 0;
    size_t n = 0;
    for (const char *p = line; *p != '\0'; p++)
        waiting += *p == 'G';
    rt_grant_init(&g, waiting);
    bool stopped = false;
    for (const char *p = line; *p != '\0'; p++) {
        bool granted = *p == 'x' || *p == 's' || *p == 'g' || *p == '!';
        if (*p == '!')
            p++;
        uint32_t mode = RT_PERMITS, take = (uint32_t)(*p - '0');
        if (strchr("XxSsCGg", *p) != NULL) {
            take = 0;
            mode = strchr("Xx", *p)   ? RT_EXCLUSIVE
                   : strchr("Ss", *p) ? RT_SHARED
                   : *p == 'C'        ? RT_COUNT
                                      : RT_GATHER;
        }
        uint32_t n_of = mode == RT_EXCLUSIVE || mode == RT_SHARED ? 0 : of;
        if (!stopped && rt_grant_next(&g, mode, take, n_of, granted) == RT_GRANT_WAITS)
            stopped = true;
        verdicts[n++] = stopped ? '-' : '+';
    }
    verdicts[n] = '\0';
    return verdicts;
}

static void locks(void **state)
{
    (void)state;
    assert_string_equal(walk("X", 0), "+");
    assert_string_equal(walk("XX", 0), "+-");
    assert_string_equal(walk("xS", 0), "+-");
    assert_string_equal(walk("SSXS", 0), "++--");
    assert_string_equal(walk("ssX", 0), "++-");
    assert_string_equal(walk("sSSX", 0), "+++-");
    /* More than can hold at once, after a fault: their weights must not add up to nothing. */
    assert_string_equal(walk("xxxxX", 0), "++++-");
    assert_string_equal(walk("xxxxS", 0), "++++-");
}

static void permits_in_order(void **state)
{
    (void)state;
    assert_string_equal(walk("123", 5), "++-");
    assert_string_equal(walk("!3!2", 5), "++");
    assert_string_equal(walk("!331", 5), "+--"); /* the small one does not overtake */
    assert_string_equal(walk("5", 5), "+");
    assert_string_equal(walk("51", 5), "+-");
}

static void counted(void **state)
{
    (void)state;
    assert_string_equal(walk("CCCC", 2), "++++");
}

static void gathering(void **state)
{
    (void)state;
    assert_string_equal(walk("GG", 3), "--");
    assert_string_equal(walk("GGG", 3), "+++");
    assert_string_equal(walk("GGGG", 3), "+++-");
    assert_string_equal(walk("ggGG", 3), "++--"); /* those of the last round are through */
    assert_string_equal(walk("gGGG", 3), "++++");
}

static void kinds(void **state)
{
    (void)state;
    assert_true(rt_grant_same_kind(RT_EXCLUSIVE, 0, RT_SHARED, 0));
    assert_true(rt_grant_same_kind(RT_PERMITS, 3, RT_PERMITS, 3));
    assert_false(rt_grant_same_kind(RT_PERMITS, 3, RT_PERMITS, 4));
    assert_false(rt_grant_same_kind(RT_EXCLUSIVE, 0, RT_PERMITS, 1));
    assert_false(rt_grant_same_kind(RT_COUNT, 2, RT_GATHER, 2));
}

static void what_fits_a_mode(void **state)
{
    (void)state;
    assert_true(rt_grant_valid(RT_EXCLUSIVE, 0, 0));
    assert_false(rt_grant_valid(RT_EXCLUSIVE, 1, 1));
    assert_false(rt_grant_valid(RT_EXCLUSIVE, 1, 0));
    assert_false(rt_grant_valid(RT_SHARED, 0, 1));
    assert_true(rt_grant_valid(RT_PERMITS, 1, 1));
    assert_true(rt_grant_valid(RT_PERMITS, 3, 3));
    assert_false(rt_grant_valid(RT_PERMITS, 4, 3));
    assert_false(rt_grant_valid(RT_PERMITS, 0, 3));
    assert_true(rt_grant_valid(RT_COUNT, 0, 1));
    assert_true(rt_grant_valid(RT_GATHER, 0, 1));
    assert_false(rt_grant_valid(RT_COUNT, 1, 1));
    assert_false(rt_grant_valid(RT_GATHER, 0, 0));
    assert_false(rt_grant_valid(99, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks),   cmocka_unit_test(permits_in_order),
        cmocka_unit_test(counted), cmocka_unit_test(gathering),
        cmocka_unit_test(kinds),   cmocka_unit_test(what_fits_a_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
