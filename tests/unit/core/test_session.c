/* SPDX-License-Identifier: Apache-2.0 */
/* The session alone: when it beats, and until when its holds are ours, to the nanosecond (I3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/session.h"

#define MS RT_MS

static void is_none(const struct rt_session *s)
{
    assert_int_equal(s->state, RT_SESSION_NONE);
    assert_int_equal(s->id, 0); /* no op is sent in the name of one that has ended */
    assert_true(s->deadline == 0 && s->usable_until == 0);
    assert_true(s->beat_at == RT_NEVER && rt_session_next(s) == RT_NEVER);
    assert_false(rt_session_alive(s, -1));
}

/* Opened by a BEAT sent at 1000 ms and answered at 1500 ms: ttl 12 s. */
static void open_one(struct rt_session *s, uint32_t allowance_ms)
{
    rt_session_init(s);
    is_none(s);
    assert_true(rt_session_want(s, 1000 * MS));
    assert_false(rt_session_want(s, 1001 * MS)); /* one is coming */
    assert_false(rt_session_beat(s, 1001 * MS));
    assert_true(rt_session_next(s) == RT_NEVER);
    assert_true(rt_session_answered(s, 77, 12000, allowance_ms, 1500 * MS));
    assert_false(rt_session_want(s, 1500 * MS));
    assert_int_equal(s->id, 77);
}

static void its_times_count_from_the_sending(void **state)
{
    struct rt_session s;
    (void)state;
    open_one(&s, 0);
    assert_true(s.deadline == (1000 + 12000 - 120 - 2) * MS);
    assert_true(s.usable_until == s.deadline - 600 * MS);
    assert_true(s.beat_at == 4000 * MS && rt_session_next(&s) == 4000 * MS);
    assert_true(rt_session_alive(&s, s.usable_until - 1));
    assert_false(rt_session_alive(&s, s.usable_until));
    int64_t deadline = s.deadline;
    open_one(&s, 300);
    assert_true(s.deadline == deadline - 300 * MS);
}

/* A large allowance leaves a short time: four beats fall into that, not into the ttl (or the session would
 * end before its next beat). Each answer has an allowance of its own. */
static void it_beats_within_its_usable_time(void **state)
{
    struct rt_session s;
    (void)state;
    open_one(&s, 9000);
    int64_t usable = s.usable_until - 1000 * MS;
    assert_true(usable > 0 && usable < 4000 * MS);
    assert_true(s.beat_at == 1000 * MS + usable / 4 && rt_session_next(&s) == s.beat_at);
    assert_true(rt_session_beat(&s, s.beat_at));
    rt_session_failed(&s, s.beat_at + MS); /* and again so soon that it is not too late */
    assert_true(rt_session_next(&s) == s.beat_at && s.beat_at < s.usable_until);
    int64_t sent = s.beat_at;
    assert_true(rt_session_beat(&s, sent));
    assert_false(rt_session_answered(&s, 0, 12000, 0, sent + MS));
    assert_true(s.usable_until == sent + (12000 - 120 - 2 - 600) * MS);
    assert_true(s.beat_at == sent + 3000 * MS);
}

static void it_beats_when_it_is_time(void **state)
{
    struct rt_session s;
    (void)state;
    open_one(&s, 0);
    assert_false(rt_session_beat(&s, 4000 * MS - 1));
    assert_true(rt_session_beat(&s, 4000 * MS));
    assert_false(rt_session_beat(&s, 9000 * MS)); /* one is under way */
    assert_true(rt_session_next(&s) == s.usable_until);
    assert_false(rt_session_answered(&s, 5, 24000, 0, 4100 * MS));
    assert_int_equal(s.id, 77); /* only an opening names it */
    assert_true(s.deadline == (4000 + 24000 - 240 - 2) * MS);
    assert_true(s.beat_at == (4000 + 6000) * MS);
}

static void a_failed_beat_is_sent_again_soon(void **state)
{
    struct rt_session s;
    (void)state;
    open_one(&s, 0);
    int64_t until = s.usable_until;
    assert_true(rt_session_beat(&s, 5000 * MS));
    rt_session_failed(&s, 6000 * MS);
    assert_true(s.beat_at == 6300 * MS && rt_session_next(&s) == 6300 * MS);
    assert_true(s.usable_until == until && rt_session_alive(&s, 6000 * MS));
    assert_true(rt_session_beat(&s, 11700 * MS));
    rt_session_failed(&s, 12100 * MS);
    assert_true(s.beat_at > until && rt_session_next(&s) == until); /* its end is looked at first */
}

/* Whenever an engine goes away for half of the ttl, a beat that is sent within 200 ms of its return comes in time: also
 * for `rota run`, which ends its command a sixth of the ttl before the deadline. */
static void it_outlasts_half_of_its_ttl(void **state)
{
    (void)state;
    for (int64_t left = 1000 * MS; left <= 4000 * MS; left += 100 * MS) {
        struct rt_session s;
        open_one(&s, 0);
        int64_t back = left + 6000 * MS, now = s.beat_at;
        for (; now < back; now = rt_session_next(&s)) {
            assert_true(rt_session_beat(&s, now));
            rt_session_failed(&s, now + 10 * MS);
        }
        assert_true(now < back + 400 * MS && now < s.deadline - 2000 * MS);
        assert_true(rt_session_beat(&s, now));
    }
}

static void it_ends(void **state)
{
    struct rt_session s;
    (void)state;
    open_one(&s, 0);
    rt_session_end(&s);
    is_none(&s);
    assert_true(rt_session_want(&s, 1));
    rt_session_failed(&s, 2);
    is_none(&s);
    assert_true(rt_session_want(&s, 3)); /* and once more */
}

/* While its last BEAT is not answered, no other is opened: the engine would be told of two. */
static void an_answer_that_is_still_to_come_is_waited_for(void **state)
{
    struct rt_session s;
    (void)state;
    open_one(&s, 0);
    assert_true(rt_session_beat(&s, 5000 * MS));
    rt_session_end(&s);
    assert_false(rt_session_want(&s, 6000 * MS));
}

static void without_a_ttl_it_never_ends(void **state)
{
    struct rt_session s;
    (void)state;
    rt_session_init(&s);
    assert_true(rt_session_want(&s, 0));
    assert_true(rt_session_answered(&s, 3, 0, 0, 5));
    assert_true(s.deadline == RT_NEVER && s.usable_until == RT_NEVER && s.beat_at == RT_NEVER);
    assert_true(rt_session_alive(&s, INT64_MAX - 1));
    assert_true(rt_session_next(&s) == RT_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_times_count_from_the_sending),
        cmocka_unit_test(it_beats_within_its_usable_time),
        cmocka_unit_test(it_beats_when_it_is_time),
        cmocka_unit_test(a_failed_beat_is_sent_again_soon),
        cmocka_unit_test(it_outlasts_half_of_its_ttl),
        cmocka_unit_test(it_ends),
        cmocka_unit_test(an_answer_that_is_still_to_come_is_waited_for),
        cmocka_unit_test(without_a_ttl_it_never_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
