/* SPDX-License-Identifier: Apache-2.0 */
/* Redlock's arithmetic: majorities, numbers, times; every combination of answers of five nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/quorum.h"
#include "core/timers.h"

#define SECOND (1000 * RT_MS)

/* VOTES: y(es), i(dle yes), n(o), m(aybe), s(ilent), - (open); yes with the number of their place in NUMBERS. */
static struct rt_quorum told(const char *votes, const uint64_t *numbers)
{
    struct rt_quorum q;
    uint32_t n = 0;
    while (votes[n] != '\0')
        n++;
    rt_quorum_begin(&q, n);
    for (uint32_t i = 0; i < n; i++)
        switch (votes[i]) {
        case 'y':
        case 'i':
            rt_quorum_yes(&q, i, numbers != NULL ? numbers[i] : 7, votes[i] == 'y');
            break;
        case 'n':
            rt_quorum_vote(&q, i, RT_VOTE_NO);
            break;
        case 'm':
            rt_quorum_vote(&q, i, RT_VOTE_MAYBE);
            break;
        case 's':
            rt_quorum_vote(&q, i, RT_VOTE_SILENT);
            break;
        default:
            assert_false(rt_quorum_has(&q, i));
        }
    return q;
}

static void taken_is(const char *votes, enum rt_verdict verdict)
{
    uint64_t fence;
    struct rt_quorum q = told(votes, NULL);
    assert_int_equal(rt_quorum_taken(&q, &fence), verdict);
}

static void kept_is(const char *votes, enum rt_verdict verdict)
{
    struct rt_quorum q = told(votes, NULL);
    assert_int_equal(rt_quorum_kept(&q), verdict);
}

static void majorities(void **state)
{
    static const uint32_t of[] = {0, 1, 2, 2, 3, 3, 4, 4, 5};
    (void)state;
    for (uint32_t n = 1; n < 9; n++)
        assert_int_equal(rt_quorum_majority(n), of[n]);
}

static void taken_by_a_majority(void **state)
{
    (void)state;
    taken_is("-----", RT_QUORUM_OPEN);
    taken_is("yyy--", RT_QUORUM_AGREED); /* the slowest are not waited for */
    taken_is("yynn-", RT_QUORUM_OPEN);
    taken_is("yynny", RT_QUORUM_AGREED);
    taken_is("ynnn-", RT_QUORUM_NONE); /* nor where they cannot change it any more */
    taken_is("yynns", RT_QUORUM_NONE); /* four answered: somebody is in the way */
    taken_is("yyss-", RT_QUORUM_OPEN);
    taken_is("yysss", RT_QUORUM_SILENT);
    taken_is("nysss", RT_QUORUM_SILENT); /* too few to know */
    taken_is("nnss-", RT_QUORUM_OPEN);
    taken_is("nnssn", RT_QUORUM_NONE);
    taken_is("yn-", RT_QUORUM_OPEN);
    taken_is("yny", RT_QUORUM_AGREED);
}

static void restarted_nodes_do_not_count(void **state)
{
    (void)state;
    taken_is("yyiii", RT_QUORUM_SILENT);
    taken_is("yyi--", RT_QUORUM_OPEN);
    taken_is("yyiiy", RT_QUORUM_AGREED);
}

static void numbers(void **state)
{
    static const uint64_t same[] = {5, 5, 5, 9, 9}, other[] = {5, 6, 5, 6, 6},
                          idle[] = {5, 5, 9, 5, 0};
    uint64_t fence = 0;
    (void)state;
    struct rt_quorum q = told("yyy--", same);
    assert_int_equal(rt_quorum_taken(&q, &fence), RT_QUORUM_AGREED);
    assert_int_equal(fence, 5);
    q = told("yyyy-", same); /* one is ahead: it is the largest that a majority must have */
    assert_int_equal(rt_quorum_taken(&q, &fence), RT_QUORUM_MEND);
    assert_int_equal(fence, 9);
    q = told("yyy--", other);
    assert_int_equal(rt_quorum_taken(&q, &fence), RT_QUORUM_MEND);
    assert_int_equal(fence, 6);
    q = told("yyyyy", other);
    assert_int_equal(rt_quorum_taken(&q, &fence), RT_QUORUM_AGREED);
    q = told("yyiy-", idle); /* what a node that does not count numbers is worth nothing either */
    assert_int_equal(rt_quorum_taken(&q, &fence), RT_QUORUM_AGREED);
    assert_int_equal(fence, 5);
}

static void kept_by_a_majority(void **state)
{
    (void)state;
    kept_is("yyy--", RT_QUORUM_AGREED);
    kept_is("yynn-", RT_QUORUM_OPEN);
    kept_is("yynns", RT_QUORUM_SILENT); /* it may be there, or not */
    kept_is("yynnn", RT_QUORUM_NONE);
    kept_is("nnn--", RT_QUORUM_NONE);
    kept_is("nnmms", RT_QUORUM_SILENT);
    kept_is("yymss", RT_QUORUM_SILENT); /* given: that it is gone there does not say by whom */
    kept_is("yysss", RT_QUORUM_SILENT);
    kept_is("yy-ss", RT_QUORUM_OPEN);
}

static void the_first_word_counts(void **state)
{
    struct rt_quorum q = told("n----", NULL);
    (void)state;
    rt_quorum_yes(&q, 0, 7, true); /* doubled, or late */
    assert_int_equal(q.votes[0], RT_VOTE_NO);
    rt_quorum_yes(&q, 1, 7, true);
    rt_quorum_vote(&q, 1, RT_VOTE_SILENT);
    assert_int_equal(q.votes[1], RT_VOTE_YES);
}

/* Whatever five nodes say: two that exclude each other never both have a majority, and nothing is told that later
 * answers could reverse. */
static void no_answer_turns_a_verdict(void **state)
{
    static const char words[] = "-yns";
    (void)state;
    for (unsigned code = 0; code < 1024; code++) {
        char votes[6] = "";
        uint32_t yes = 0, open = 0, answered = 0;
        for (unsigned i = 0, rest = code; i < 5; i++, rest /= 4) {
            votes[i] = words[rest % 4];
            yes += votes[i] == 'y';
            open += votes[i] == '-';
            answered += votes[i] == 'y' || votes[i] == 'n';
        }
        uint64_t fence;
        struct rt_quorum q = told(votes, NULL);
        enum rt_verdict v = rt_quorum_taken(&q, &fence);
        assert_int_equal(v == RT_QUORUM_AGREED, yes >= 3);
        if (v == RT_QUORUM_NONE)
            assert_true(yes + open < 3 && answered >= 3);
        if (v == RT_QUORUM_SILENT)
            assert_true(answered + open < 3);
        if (open == 0)
            assert_int_not_equal(v, RT_QUORUM_OPEN);
    }
}

static void times(void **state)
{
    (void)state;
    assert_int_equal(rt_quorum_until(5 * SECOND, 10 * SECOND), 15 * SECOND - 102 * RT_MS);
    /* Up for 12 s as it reports, so for 11 s at least. */
    assert_int_equal(rt_quorum_counts_at(100 * SECOND, 12 * SECOND, 10 * SECOND), 100 * SECOND);
    assert_int_equal(rt_quorum_counts_at(100 * SECOND, 11 * SECOND, 10 * SECOND), 100 * SECOND);
    assert_int_equal(rt_quorum_counts_at(100 * SECOND, 10 * SECOND, 10 * SECOND), 101 * SECOND);
    assert_int_equal(rt_quorum_counts_at(100 * SECOND, 0, 10 * SECOND), 110 * SECOND);
    assert_int_equal(rt_quorum_counts_at(100 * SECOND, 0, 0), 100 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(majorities),
        cmocka_unit_test(taken_by_a_majority),
        cmocka_unit_test(restarted_nodes_do_not_count),
        cmocka_unit_test(numbers),
        cmocka_unit_test(kept_by_a_majority),
        cmocka_unit_test(the_first_word_counts),
        cmocka_unit_test(no_answer_turns_a_verdict),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
