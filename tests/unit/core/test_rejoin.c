/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters that outlast an outage: RT_ASK_REJOIN, told as stories in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "story.h"

#include <rota.h>

static struct story story;
static struct story *const s = &story;

/* B waits in L by ticket 8; session 1 has a ttl of a second and ends at 940 - 2 ms. */
static void waits(const struct wish *wish)
{
    story_open(s, 1000);
    story_ask(s, 'B', "L", wish);
    joined(s, 0, 8, false, false);
    s->length = 0;
}

/* The session ends, a heartbeat under way. */
static void lose_session(void)
{
    until(s, 500);
    until(s, 1000);
    beat(s, ROTA_UNKNOWN, 0, 0);
}

static void a_waiter_goes_back_into_the_line(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN});
    lose_session();
    expect(s, "[  250] > BEAT\n"
              "[  938] B has no place and waits on\n"
              "[ 1000] > BEAT open\n");
    beat(s, ROTA_UNREACHABLE, 0, 0); /* and it says so once */
    until(s, 1020);
    beat(s, ROTA_UNKNOWN, 0, 0);
    until(s, 1060);
    expect(s, "[ 1020] > BEAT open\n"
              "[ 1060] > BEAT open\n");
    beat(s, 0, 2, 1000);
    joined(s, 0, 12, false, false);
    granted(s, "L", 12);
    expect(s, "[ 1060] > JOIN L exclusive\n"
              "[ 1060] B is in line again\n"
              "[ 1060] B holds L #12\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

/* With a ticket of its own, which must not be freed in between. */
static void so_does_one_that_stands_alone(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN | RT_ASK_DETECT, .linger_ms = 10});
    lose_session();
    beat(s, 0, 2, 1000);
    joined(s, 0, 12, true, false);
    expect(s, "[  250] > BEAT\n"
              "[  938] B has no place and waits on\n"
              "[ 1000] > BEAT open\n"
              "[ 1000] > JOIN L exclusive arm\n"
              "[ 1000] B is in line again\n"
              "[ 1000] B holds L #12\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

/* One of them had its JOIN under way: the late answer is about an earlier life. */
static void all_lines_of_a_client_and_only_who_wants_to(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN});
    ask(s, 'C', "L", 0);
    ask(s, 'D', "L", .mode = RT_SHARED, .flags = RT_ASK_REJOIN);
    ask(s, 'E', "M", .mode = RT_SHARED, .flags = RT_ASK_REJOIN);
    ask(s, 'F', "M", .mode = RT_SHARED, .flags = RT_ASK_REJOIN | RT_ASK_DETECT);
    ask(s, 'G', "M", .flags = RT_ASK_DETECT);
    s->length = 0;
    session_lost(s, 1);
    expect(s, "[    0] B has no place and waits on\n"
              "[    0] C refused: LOST\n"
              "[    0] D has no place and waits on\n"
              "[    0] E has no place and waits on\n"
              "[    0] F has no place and waits on\n"
              "[    0] G refused: LOST\n"
              "[    0] > BEAT open\n");
    joined(s, 0, 9, true, false);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    joined(s, ROTA_LOST, 0, false, false);
    expect(s, "");
    beat(s, 0, 2, 1000);
    joined(s, 0, 20, true, false);
    joined(s, 0, 21, true, false);
    joined(s, 0, 22, false, false);
    granted(s, "M", 22);
    expect(s, "[    0] > JOIN L exclusive arm\n"
              "[    0] > JOIN M shared\n"
              "[    0] > JOIN M shared\n"
              "[    0] B is in line again\n"
              "[    0] B holds L #20\n"
              "[    0] D is in line again\n"
              "[    0] E is in line again\n"
              "[    0] E holds M #21\n"
              "[    0] F is in line again\n"
              "[    0] F holds M #22\n");
    let_go(s, 'B');
    let_go(s, 'D');
    let_go(s, 'E');
    let_go(s, 'F');
    for (int i = 0; i < 3; i++)
        left(s, 0);
    story_end(s);
}

/* A mistyped host, or a server that takes nobody in, is no outage. */
static void who_never_had_a_place_is_told(void **state)
{
    (void)state;
    story_begin(s, 2, 10);
    ask(s, 'B', "L", .flags = RT_ASK_REJOIN);
    beat(s, ROTA_UNREACHABLE, 0, 0);
    ask(s, 'C', "L", .flags = RT_ASK_REJOIN);
    beat(s, 0, 1, 0);
    joined(s, ROTA_UNREACHABLE, 0, false, false);
    expect(s, "[    0] > BEAT open\n"
              "[    0] B refused: UNREACHABLE\n"
              "[    0] > BEAT open\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] C refused: UNREACHABLE\n");
    story_end(s);
}

static void a_refusal_is_no_outage(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN});
    session_lost(s, 1);
    beat(s, ROTA_AUTH, 0, 0);
    expect(s, "[    0] B has no place and waits on\n"
              "[    0] > BEAT open\n"
              "[    0] B refused: AUTH\n");
    story_end(s);
}

static void its_own_limit_ends_it(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN, .limit_ms = 30});
    session_lost(s, 1);
    beat(s, ROTA_UNREACHABLE, 0, 0);
    until(s, 1000);
    expect(s, "[    0] B has no place and waits on\n"
              "[    0] > BEAT open\n"
              "[   20] > BEAT open\n"
              "[   30] B refused: UNREACHABLE\n");
    beat(s, 0, 2, 1000); /* too late, and nothing is asked for any more */
    expect(s, "");
    story_end(s);
}

static void it_can_be_canceled_meanwhile(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN | RT_ASK_DETECT});
    session_lost(s, 1);
    beat(s, ROTA_UNREACHABLE, 0, 0);
    cancel(s, 'B', ROTA_CANCELED);
    until(s, 1000);
    expect(s, "[    0] B has no place and waits on\n"
              "[    0] > BEAT open\n"
              "[    0] B refused: CANCELED\n");
    story_end(s);
}

static void closing_ends_it(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN});
    rt_desk_close(&s->desk);
    session_lost(s, 1);
    s->now++;
    until(s, 0);
    expect(s, "[    0] B refused: LOST\n");
    story_end(s);
}

/* Broken by somebody, or forgotten by the server: its session lives on. */
static void a_place_that_was_taken_away_is_taken_anew(void **state)
{
    (void)state;
    waits(&(struct wish){.flags = RT_ASK_REJOIN});
    ticket_lost(s, "L", 8);
    joined(s, 0, 12, true, false);
    expect(s, "[    0] B has no place and waits on\n"
              "[    0] > JOIN L exclusive\n"
              "[    0] B is in line again\n"
              "[    0] B holds L #12\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

/* The earlier try may stand in the line: the JOIN stays the same, so that it is found. */
static void a_join_that_cannot_be_sent_is_sent_later(void **state)
{
    (void)state;
    story_open(s, 0);
    ask(s, 'B', "L", .flags = RT_ASK_REJOIN);
    joined(s, ROTA_UNKNOWN, 0, false, false);
    until(s, 20);
    joined(s, ROTA_UNREACHABLE, 0, false, false);
    ask(s, 'C', "L", 0); /* joins those who wait for it */
    until(s, 60);
    joined(s, ROTA_UNREACHABLE, 0, false, false);
    until(s, 140);
    joined(s, 0, 9, true, false);
    expect(s, "[    0] > JOIN L exclusive\n"
              "[   20] > JOIN L exclusive again\n"
              "[   20] B has no place and waits on\n"
              "[   60] > JOIN L exclusive again\n"
              "[   60] C refused: UNREACHABLE\n"
              "[  140] > JOIN L exclusive again\n"
              "[  140] B is in line again\n"
              "[  140] B holds L #9\n");
    let_go(s, 'B');
    left(s, 0);
    story_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_goes_back_into_the_line),
        cmocka_unit_test(so_does_one_that_stands_alone),
        cmocka_unit_test(all_lines_of_a_client_and_only_who_wants_to),
        cmocka_unit_test(who_never_had_a_place_is_told),
        cmocka_unit_test(a_refusal_is_no_outage),
        cmocka_unit_test(its_own_limit_ends_it),
        cmocka_unit_test(it_can_be_canceled_meanwhile),
        cmocka_unit_test(closing_ends_it),
        cmocka_unit_test(a_place_that_was_taken_away_is_taken_anew),
        cmocka_unit_test(a_join_that_cannot_be_sent_is_sent_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
