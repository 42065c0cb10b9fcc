/* SPDX-License-Identifier: Apache-2.0 */
/* The bureau of three-phase commit: whoever waits for a case sleeps until something is done for it, and is woken then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "net/loop.h"
#include "txn/phase/bureau.h"

#define WAITERS 2
#define WHILE_MS 300 /* they wait for nothing */
#define LOOKS_MOST 100

struct errand {
    struct rt_case base; /* first */
    int64_t at;          /* it is due */
    bool done;
    unsigned looks; /* how often somebody drove it */
};

static struct errand *errand_of(struct rt_case *c)
{
    return (struct errand *)(void *)c;
}

static bool work(struct rt_bureau *d, struct rt_case *c)
{
    struct errand *e = errand_of(c);
    bool due = !e->done && rt_loop_clock() >= e->at;
    (void)d;
    e->looks++;
    e->done = e->done || due;
    return due;
}

static void heard(struct rt_case *c, uint32_t whom, uint32_t seq, const struct rt_answer *answer,
                  const char *trouble)
{
    (void)c, (void)whom, (void)seq, (void)answer, (void)trouble;
}

static int64_t next_of(const struct rt_case *c)
{
    const struct errand *e = (const struct errand *)(const void *)c;
    return e->done ? INT64_MAX : e->at;
}

static bool is_over(const struct rt_case *c)
{
    (void)c;
    return false;
}

static void drop(struct rt_case *c)
{
    (void)c;
}

static const struct rt_bureau_kind kind = {.case_size = sizeof(struct errand),
                                           .work = work,
                                           .heard = heard,
                                           .next = next_of,
                                           .is_over = is_over,
                                           .drop = drop};

struct office {
    struct rt_bureau bureau;
    struct errand *errand;
    int64_t until; /* they wait no longer */
};

static void *run(void *arg)
{
    rt_bureau_run(arg, -1);
    return NULL;
}

/* As a coordinator's caller does. */
static void *wait_for(void *arg)
{
    struct office *o = arg;
    pthread_mutex_lock(&o->bureau.mu);
    for (;;) {
        rt_bureau_drive(&o->bureau, &o->errand->base);
        if (o->errand->done || rt_loop_clock() >= o->until)
            break;
        rt_bureau_wait(&o->bureau, o->until);
    }
    pthread_mutex_unlock(&o->bureau.mu);
    return NULL;
}

/* Opens a bureau with an errand due AT; returns how often somebody looked at it by the time nobody waits any more. */
static unsigned play(int64_t at, int64_t until)
{
    static const struct rt_bureau_options options;
    struct office o = {.until = until};
    const struct rt_word word = {.doc = json_object()};
    pthread_t runner, waiters[WAITERS];
    char why[200];
    assert_int_equal(rt_bureau_init(&o.bureau, &kind, &options, why, sizeof(why)), 0);
    o.errand = errand_of(rt_bureau_add(&o.bureau, &word));
    o.errand->at = at;
    json_decref(word.doc);
    assert_int_equal(pthread_create(&runner, NULL, run, &o.bureau), 0);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&waiters[i], NULL, wait_for, &o), 0);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(waiters[i], NULL);
    rt_bureau_stop(&o.bureau);
    pthread_join(runner, NULL);
    unsigned looks = o.errand->looks;
    assert_int_equal(o.errand->done, at != INT64_MAX);
    rt_bureau_fini(&o.bureau);
    return looks;
}

/* Each looks once, rings for the thread of rt_bureau_run, and sleeps. */
static void whoever_waits_sleeps(void **state)
{
    (void)state;
    assert_in_range(play(INT64_MAX, rt_loop_clock() + WHILE_MS * RT_BUREAU_MS), WAITERS,
                    LOOKS_MOST);
}

/* They would wait for an hour, but the thread of rt_bureau_run does it when it is due. */
static void whoever_waits_is_woken(void **state)
{
    (void)state;
    int64_t now = rt_loop_clock();
    assert_in_range(play(now + WHILE_MS * RT_BUREAU_MS, now + 3600000 * RT_BUREAU_MS), WAITERS,
                    LOOKS_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_sleeps),
        cmocka_unit_test(whoever_waits_is_woken),
    };
    rt_watchdog(30, "somebody is not woken");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
