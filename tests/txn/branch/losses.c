/* SPDX-License-Identifier: Apache-2.0 */
/* Every request of every op: it does not arrive, or its answer does not; connections that are killed; answers that
 * are late. Whatever was lost is reported as LOST and nothing else, and whoever asks finds out what became of it. */
#include "cases.h"

#include <poll.h>
#include <time.h>

static struct rt_proxy *proxy;

struct scene {
    const char *name;
    enum rt_party_what what;
    uint32_t flags;
    bool by_keeper;
    bool prepared;       /* before */
    enum rt_reply usual; /* if nothing is lost */
    bool commits;        /* what it is to come to */
    bool last;           /* something is left to the vote */
};

static const struct scene scenes[] = {
    {.name = "begin", .what = RT_PARTY_BEGIN, .usual = RT_REPLY_DONE},
    {.name = "prepare", .what = RT_PARTY_PREPARE, .usual = RT_REPLY_YES},
    {.name = "one phase", .what = RT_PARTY_ONE_PHASE, .usual = RT_REPLY_DONE, .commits = true},
    {.name = "prepare with a last statement",
     .what = RT_PARTY_PREPARE,
     .usual = RT_REPLY_YES,
     .last = true},
    {.name = "one phase with a last statement",
     .what = RT_PARTY_ONE_PHASE,
     .usual = RT_REPLY_DONE,
     .commits = true,
     .last = true},
    {.name = "commit",
     .what = RT_PARTY_COMMIT,
     .prepared = true,
     .usual = RT_REPLY_DONE,
     .commits = true},
    {.name = "rollback", .what = RT_PARTY_ROLLBACK, .prepared = true, .usual = RT_REPLY_DONE},
    {.name = "rollback of active", .what = RT_PARTY_ROLLBACK, .usual = RT_REPLY_DONE},
    {.name = "takeover",
     .what = RT_PARTY_COMMIT,
     .by_keeper = true,
     .prepared = true,
     .usual = RT_REPLY_DONE,
     .commits = true},
    {.name = "takeover to roll back",
     .what = RT_PARTY_ROLLBACK,
     .by_keeper = true,
     .prepared = true,
     .usual = RT_REPLY_DONE},
    {.name = "ask",
     .what = RT_PARTY_ASK,
     .by_keeper = true,
     .prepared = true,
     .usual = RT_REPLY_PREPARED},
    {.name = "ask with a fence",
     .what = RT_PARTY_ASK,
     .flags = RT_PARTY_FENCE,
     .by_keeper = true,
     .usual = RT_REPLY_ABSENT},
    {.name = "gate",
     .what = RT_PARTY_GATE,
     .by_keeper = true,
     .prepared = true,
     .usual = RT_REPLY_CLEAR},
};

static void await_clear(struct rt_part *part)
{
    for (int i = 0; !part->clear; i++) {
        assert_true(i < 2000);
        seat_do(&keeper, RT_PARTY_GATE, part);
        poll(NULL, 0, part->clear ? 0 : 120);
    }
}

/* The seat that acts, and the branch as the scene wants it before. */
static void set_up(const struct scene *scene, struct seat *actor, struct rt_part *part)
{
    struct seat own;

    seat_open(actor, HERE, rt_proxy_port(proxy), scene->by_keeper);
    row++;
    if (!scene->by_keeper) {
        if (scene->what != RT_PARTY_BEGIN)
            seat_work(actor, part, row);
        part->last = scene->last ? "UPDATE work SET id = id WHERE id = -1" : NULL;
        if (scene->prepared)
            assert_int_equal(seat_do(actor, RT_PARTY_PREPARE, part), RT_REPLY_YES);
        return;
    }
    if (!scene->prepared)
        return;
    seat_open(&own, HERE, 0, false);
    seat_work(&own, part, row);
    assert_int_equal(seat_do(&own, RT_PARTY_PREPARE, part), RT_REPLY_YES);
    seat_close(&own);
    part->by = NULL;
    await_clear(part); /* so that the scene tests what it is meant to */
    if (IS_MYSQL && scene->what == RT_PARTY_GATE)
        poll(NULL, 0, 150); /* InnoDB refreshes no sooner */
}

/* What became of it, however it was left. DONE: a commit in one phase came through. */
static void judge(const struct scene *scene, struct rt_part *part, bool done)
{
    bool may_be_either = scene->what == RT_PARTY_ONE_PHASE;
    bool commit = scene->commits && scene->prepared;
    enum rt_reply came = settle(&keeper, part, commit);

    if (may_be_either)
        assert_int_equal(came, done ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT);
    else
        assert_int_equal(came, commit ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT);
    assert_int_equal(has_row(HERE, row), came == RT_REPLY_COMMITTED);
    assert_int_equal(has_mark(HERE, part), came == RT_REPLY_COMMITTED);
    assert_int_equal(HERE->prepared(), 0);
}

/* False: the op has fewer than that many requests. */
static bool lose_nth(const struct scene *scene, uint64_t nth, bool reply)
{
    struct seat actor;
    struct rt_part part = part_new(1);
    struct rt_fault fault = {
        .on = reply ? RT_FAULT_REPLY : RT_FAULT_REQUEST, .what = RT_FAULT_CUT, .nth = nth};

    set_up(scene, &actor, &part);
    uint32_t number = rt_proxy_fault(proxy, &fault);
    enum rt_reply said = seat_do_with(&actor, scene->what, &part, scene->flags);
    bool hit = rt_proxy_fault_hits(proxy, number) > 0;
    rt_proxy_fault_end(proxy, number);
    if (hit) {
        assert_int_equal(said, RT_REPLY_LOST);
        assert_int_not_equal(seat_err(), 0);
        assert_null(part.by);
        assert_string_not_equal(actor.party->errmsg, "");
    } else if (said != scene->usual && !(scene->what == RT_PARTY_GATE && said == RT_REPLY_HELD)) {
        print_error("%s: %d, %s\n", scene->name, (int)said, actor.party->errmsg);
        fail();
    }
    seat_close(&actor);
    bool done = reply && !(scene->last && nth == 1); /* in one phase that is said alone, before */
    if (!hit && scene->what == RT_PARTY_ONE_PHASE)
        done = true;
    judge(scene, &part, done);
    return hit;
}

static void each_lost(bool reply)
{
    proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing, .seed = 1});
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        uint64_t nth = 1;
        if (HERE->kind->gated || scenes[i].what != RT_PARTY_GATE)
            while (lose_nth(&scenes[i], nth, reply))
                nth++;
        assert_true(nth > 1 || !HERE->kind->gated);
    }
    rt_proxy_stop(proxy);
}

static void every_reply_lost(void **state)
{
    (void)state;
    each_lost(true);
}

static void every_request_lost(void **state)
{
    (void)state;
    each_lost(false);
}

static void a_late_answer_is_lost(void **state)
{
    struct seat s;
    struct rt_part part = part_new(1);
    struct rt_fault fault = {.on = RT_FAULT_REPLY, .what = RT_FAULT_SILENCE};
    struct timespec now;

    (void)state;
    proxy = rt_proxy_start(
        &(struct rt_proxy_options){.port = HERE->port(), .framing = HERE->framing, .seed = 1});
    for (int i = 0; i < 2; i++) { /* by either twin */
        part = part_new(1);
        seat_open(&s, HERE, rt_proxy_port(proxy), false);
        seat_work(&s, &part, ++row);
        rt_proxy_fault(proxy, &fault);
        clock_gettime(CLOCK_BOOTTIME, &now);
        struct rt_party_op op = {.what = RT_PARTY_PREPARE,
                                 .part = &part,
                                 .flags = RT_PARTY_WRITES,
                                 .deadline = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec +
                                             200000000};
        assert_int_equal(seat_op(&s, &op), RT_REPLY_LOST);
        ASSERT_SAYS(&s, "no answer in time");
        assert_int_equal(seat_do(&s, RT_PARTY_BEGIN, &part),
                         RT_REPLY_LOST); /* of no use any more */
        seat_close(&s);
        assert_int_equal(settle(&keeper, &part, false), RT_REPLY_ABSENT);
        assert_false(has_row(HERE, row));
    }
    rt_proxy_stop(proxy);
}

/* By the server, at each step of a branch. */
static void a_connection_is_killed(void **state)
{
    (void)state;
    for (int step = 0; step < 3; step++) {
        static const enum rt_party_what next[] = {RT_PARTY_PREPARE, RT_PARTY_ONE_PHASE,
                                                  RT_PARTY_COMMIT};
        struct seat s;
        struct rt_part part = part_new(1);
        seat_open(&s, HERE, 0, false);
        seat_work(&s, &part, ++row);
        if (step == 2)
            assert_int_equal(seat_do(&s, RT_PARTY_PREPARE, &part), RT_REPLY_YES);
        HERE->kill_connection(s.conn);
        assert_int_equal(seat_do(&s, next[step], &part), RT_REPLY_LOST);
        seat_close(&s);
        assert_int_equal(settle(&keeper, &part, step == 2),
                         step == 2 ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT);
        assert_int_equal(has_row(HERE, row), step == 2);
    }
}

const struct CMUnitTest cases_losses[] = {
    cmocka_unit_test(every_reply_lost),
    cmocka_unit_test(every_request_lost),
    cmocka_unit_test(a_late_answer_is_lost),
    cmocka_unit_test(a_connection_is_killed),
};
const size_t cases_losses_count = sizeof(cases_losses) / sizeof(cases_losses[0]);
