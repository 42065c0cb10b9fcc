/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of rota-txn serve's transactions, in virtual time: what is done next, and never too early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "txn/serve/course.h"

#define BEGUN 100000 /* ms */

static struct rt_plan plan;
static struct rt_course course;
static struct rt_course_step steps[8];
static int64_t now;

static void begin(const char *kind, const char *more, enum rt_journal_stand stands)
{
    char text[1024], why[RT_PLAN_LINE];
    snprintf(
        text, sizeof(text),
        "{\"gid\":\"g\",\"trans_type\":\"%s\",\"created_ms\":%d,\"query_prepared\":\"http://q/\","
        "\"steps\":[{\"action\":\"http://a/\",\"compensate\":\"http://a/\"},{\"action\":\"http://b/\","
        "\"compensate\":\"http://b/\"},{\"action\":\"http://c/\",\"compensate\":\"http://c/\"}]%s}",
        kind, BEGUN, more);
    if (!rt_plan_read(&plan, text, strlen(text), 1, why))
        fail_msg("%s", why);
    if (strcmp(kind, "tcc") == 0)
        for (int i = 1; i <= 3; i++) {
            const char *gid;
            snprintf(text, sizeof(text), "{\"gid\":\"g\",\"branch_id\":\"0%d\",\"at\":%d}", i, i);
            assert_true(rt_plan_add(&plan, text, strlen(text), 1, &gid, why));
        }
    memset(steps, 0, sizeof(steps));
    now = BEGUN;
    rt_course_init(&course, &plan, steps, stands);
}

static int finish(void **state)
{
    (void)state;
    rt_plan_free(&plan);
    return 0;
}

/* "register 0", "call 0", "back 1", "query", "commit", "abort", "done", "over", "wait", "until 35000" (since it began), "look".
 * Where a call is expected, a look may come first, and the journal says that nothing has changed. */
static void expect(const char *what)
{
    struct rt_course_todo t = rt_course_next(&course, now);
    char text[40];
    if (t.what == RT_COURSE_LOOK && strcmp(what, "look") != 0) {
        rt_course_looked(&course);
        t = rt_course_next(&course, now);
    }
    switch (t.what) {
    case RT_COURSE_REGISTER:
        snprintf(text, sizeof(text), "register %zu", t.step);
        break;
    case RT_COURSE_CALL:
        snprintf(text, sizeof(text), "%s %zu", t.back ? "back" : "call", t.step);
        break;
    case RT_COURSE_WAIT:
        if (t.until_ms == INT64_MAX)
            snprintf(text, sizeof(text), "wait");
        else
            snprintf(text, sizeof(text), "until %lld", (long long)(t.until_ms - BEGUN));
        break;
    case RT_COURSE_DECIDE:
        snprintf(text, sizeof(text), "%s", t.commit ? "commit" : "abort");
        break;
    default:
        snprintf(text, sizeof(text), "%s",
                 t.what == RT_COURSE_QUERY    ? "query"
                 : t.what == RT_COURSE_LOOK   ? "look"
                 : t.what == RT_COURSE_FINISH ? "done"
                                              : "over");
    }
    assert_string_equal(text, what);
}

static void told(size_t step, bool back, enum rt_course_reply reply)
{
    (void)rt_course_answered(&course, step, back, reply, "said so", now);
}

static void a_saga_in_order(void **state)
{
    char text[32];
    (void)state;
    begin("saga", "", RT_JOURNAL_OPEN);
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "register %zu", i);
        expect(text);
        rt_course_registered(&course, i);
        snprintf(text, sizeof(text), "call %zu", i);
        expect(text);
        expect("wait");
        told(i, false, RT_COURSE_YES);
    }
    expect("commit");
    rt_course_decided(&course, RT_JOURNAL_COMMIT);
    expect("done");
    rt_course_finished(&course);
    expect("over");
}

/* The refused step is compensated too, as in DTM; one that was never asked is not. */
static void a_saga_goes_back(void **state)
{
    (void)state;
    begin("saga", "", RT_JOURNAL_OPEN);
    rt_course_registered(&course, 0);
    rt_course_registered(&course, 1);
    expect("call 0");
    told(0, false, RT_COURSE_YES);
    expect("call 1");
    told(1, false, RT_COURSE_NO);
    expect("abort"); /* nothing goes back before it stands */
    expect("abort");
    assert_string_equal(course.reason, "said so");
    rt_course_decided(&course, RT_JOURNAL_ABORT);
    expect("back 1");
    expect("wait");
    told(1, true, RT_COURSE_NO); /* a compensation cannot be refused: asked again */
    expect("until 1000");
    now += 1000;
    expect("back 1");
    told(1, true, RT_COURSE_YES);
    expect("back 0");
    told(0, true, RT_COURSE_YES);
    expect("done");
}

static void a_concurrent_saga_has_an_order(void **state)
{
    (void)state;
    begin("saga", ",\"concurrent\":true,\"custom_data\":\"{\\\"orders\\\":{\\\"2\\\":[0]}}\"",
          RT_JOURNAL_OPEN);
    expect("register 0");
    assert_true(rt_course_may_run(&course, 1));
    assert_false(rt_course_may_run(&course, 2));
    rt_course_registered(&course, 0);
    rt_course_registered(&course, 1);
    expect("call 0");
    expect("call 1");
    told(0, false, RT_COURSE_YES);
    expect("register 2");
    rt_course_registered(&course, 2);
    expect("call 2");
    told(2, false, RT_COURSE_NO);
    expect("abort");
    rt_course_decided(&course, RT_JOURNAL_ABORT);
    expect("back 2"); /* 0 waits for 2, 1 for the answer to its action */
    expect("wait");
    told(1, false, RT_COURSE_LOST);
    expect("back 1");
    told(2, true, RT_COURSE_YES);
    expect("back 0");
    told(0, true, RT_COURSE_YES);
    told(1, true, RT_COURSE_YES);
    expect("done");
}

static void what_is_lost_is_asked_again(void **state)
{
    (void)state;
    begin("saga", "", RT_JOURNAL_OPEN);
    rt_course_registered(&course, 0);
    expect("call 0");
    for (int64_t ms = 1000; ms < 100000; ms *= 2) {
        told(0, false, RT_COURSE_LOST);
        now += ms < 30000 ? ms : 30000;
        expect("call 0");
    }
    told(0, false, RT_COURSE_ONGOING);
    now += RT_COURSE_ONGOING_S * 1000 - 1;
    struct rt_course_todo t = rt_course_next(&course, now);
    assert_true(t.what == RT_COURSE_WAIT && t.until_ms == now + 1);
    now++;
    expect("call 0");
    course.steps[0].forward.tries = RT_COURSE_ATTENTION - 1;
    assert_true(rt_course_answered(&course, 0, false, RT_COURSE_LOST, "no", now)); /* a person */
}

static void limits_of_a_saga(void **state)
{
    (void)state;
    begin("saga", ",\"retry_limit\":2,\"retry_interval\":5", RT_JOURNAL_OPEN);
    rt_course_registered(&course, 0);
    for (int i = 0; i < 3; i++) {
        expect("call 0");
        told(0, false, RT_COURSE_ONGOING);
        now += 5000;
    }
    expect("abort");
    finish(NULL);
    begin("saga", ",\"timeout_to_fail\":4", RT_JOURNAL_OPEN);
    rt_course_registered(&course, 0);
    expect("call 0");
    expect("until 4000");
    now += 4000;
    expect("abort");
    assert_non_null(strstr(course.reason, "Timeout after 4 seconds"));
}

static void a_tcc(void **state)
{
    (void)state;
    begin("tcc", "", RT_JOURNAL_OPEN);
    expect("until 35000");
    now += 35000;
    expect("abort");
    rt_course_decided(&course, RT_JOURNAL_ABORT);
    for (int i = 2; i >= 0; i--) {
        char text[32];
        snprintf(text, sizeof(text), "back %d", i);
        expect(text);
        expect("wait"); /* one after the other, from the last */
        told((size_t)i, true, RT_COURSE_YES);
    }
    expect("done");
    finish(NULL);
    begin("tcc", "", RT_JOURNAL_COMMIT);
    expect("call 2");
    told(2, false, RT_COURSE_LOST);
    expect("until 1000"); /* the others wait for it */
    assert_true(course.stalled);
}

static void a_message(void **state)
{
    (void)state;
    begin("msg", ",\"custom_data\":\"{\\\"delay\\\":3}\"", RT_JOURNAL_COMMIT);
    expect("until 3000");
    now += 3000;
    expect("call 0");
    told(0, false, RT_COURSE_YES);
    expect("call 1");
    told(1, false, RT_COURSE_NO); /* delivered it must be */
    expect("until 4000");
    now += 1000;
    expect("call 1");
    told(1, false, RT_COURSE_YES);
    expect("call 2");
    told(2, false, RT_COURSE_YES);
    expect("done");
}

static void the_back_check(void **state)
{
    (void)state;
    begin("msg", "", RT_JOURNAL_OPEN);
    expect("until 35000");
    now += 35000;
    expect("query");
    expect("wait");
    rt_course_queried(&course, RT_COURSE_LOST, "dead", now);
    expect("until 36000");
    now += 1000;
    expect("query");
    rt_course_queried(&course, RT_COURSE_ONGOING, "not yet", now);
    expect("until 46000");
    now += 10000;
    expect("query");
    rt_course_queried(&course, RT_COURSE_YES, "", now);
    expect("commit");
    rt_course_decided(&course, RT_JOURNAL_COMMIT);
    expect("call 0");
    finish(NULL);
    begin("msg", ",\"timeout_to_fail\":2", RT_JOURNAL_OPEN);
    now += 2000;
    expect("query");
    rt_course_queried(&course, RT_COURSE_NO, "", now);
    expect("abort");
    rt_course_decided(&course, RT_JOURNAL_ABORT);
    expect("done"); /* nothing was sent, nothing goes back */
}

/* What is in progress is not yet done: neither a compensation nor a confirm. */
static void phase_two_is_asked_until_it_is_done(void **state)
{
    (void)state;
    begin("saga", "", RT_JOURNAL_ABORT);
    rt_course_registered(&course, 0);
    expect("back 0");
    told(0, true, RT_COURSE_ONGOING);
    expect("until 10000");
    now += 10000;
    expect("back 0");
    told(0, true, RT_COURSE_NO);
    expect("until 11000");
    now += 1000;
    expect("back 0");
    told(0, true, RT_COURSE_YES);
    expect("done");
    finish(NULL);
    begin("tcc", "", RT_JOURNAL_COMMIT);
    for (size_t i = 3; i-- > 0;) {
        char text[32];
        snprintf(text, sizeof(text), "call %zu", i);
        expect(text);
        told(i, false, RT_COURSE_ONGOING);
        now += 10000;
        expect(text);
        told(i, false, RT_COURSE_YES);
    }
    expect("done");
}

/* Confirms, cancels and compensations that are in progress for ever: a person is told, once. An action or a delivery may
 * take as long as it needs. */
static void in_progress_for_ever(void **state)
{
    static const struct {
        const char *kind;
        enum rt_journal_stand stands;
        bool back, tells;
    } all[] = {{"tcc", RT_JOURNAL_COMMIT, false, true},
               {"tcc", RT_JOURNAL_ABORT, true, true},
               {"saga", RT_JOURNAL_ABORT, true, true},
               {"saga", RT_JOURNAL_OPEN, false, false},
               {"msg", RT_JOURNAL_COMMIT, false, false}};

    (void)state;
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        size_t step = strcmp(all[k].kind, "tcc") == 0 ? 2 : 0;
        char text[32];
        begin(all[k].kind, "", all[k].stands);
        rt_course_registered(&course, 0);
        snprintf(text, sizeof(text), "%s %zu", all[k].back ? "back" : "call", step);
        for (int i = 1; i <= 2 * RT_COURSE_ATTENTION; i++) {
            expect(text);
            assert_int_equal(
                rt_course_answered(&course, step, all[k].back, RT_COURSE_ONGOING, "425", now),
                all[k].tells && i == RT_COURSE_ATTENTION);
            now += 10000;
        }
        if (k + 1 < sizeof(all) / sizeof(all[0]))
            finish(NULL);
    }
}

/* Nothing leaves after a pause or an answer before the journal has said what stands: a person may have ended it. */
static void a_look_before_each_call(void **state)
{
    (void)state;
    begin("saga", "", RT_JOURNAL_OPEN);
    expect("register 0");
    rt_course_registered(&course, 0);
    expect("call 0"); /* what stands was just said */
    told(0, false, RT_COURSE_LOST);
    expect("until 1000");
    now += 1000;
    expect("look");
    expect("look");
    rt_course_looked(&course);
    expect("call 0");
    told(0, false, RT_COURSE_LOST);
    now += 2000;
    expect("look");
    rt_course_decided(&course, RT_JOURNAL_ABORT); /* settled meanwhile */
    expect("back 0");
    told(0, true, RT_COURSE_LOST);
    now += 1000;
    expect("look");
    rt_course_finished(&course); /* resolve --done */
    expect("over");
    finish(NULL);
    begin("tcc", "", RT_JOURNAL_COMMIT);
    expect("call 2");
    told(2, false, RT_COURSE_YES);
    expect("look"); /* that may have taken long */
    finish(NULL);
    begin("msg", "", RT_JOURNAL_OPEN);
    expect("until 35000");
    now += 35000;
    expect("look");
    rt_course_decided(&course, RT_JOURNAL_ABORT);
    expect("done");
}

int main(void)
{
#define STORY(name) cmocka_unit_test_teardown(name, finish)
    const struct CMUnitTest tests[] = {
        STORY(a_saga_in_order),
        STORY(a_saga_goes_back),
        STORY(a_concurrent_saga_has_an_order),
        STORY(what_is_lost_is_asked_again),
        STORY(limits_of_a_saga),
        STORY(a_tcc),
        STORY(a_message),
        STORY(the_back_check),
        STORY(phase_two_is_asked_until_it_is_done),
        STORY(in_progress_for_ever),
        STORY(a_look_before_each_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
