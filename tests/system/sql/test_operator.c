/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does to a SQL server: rows are removed by hand, and a replica takes the primary's place while
 * clients have both in their URL. */
#include "house.h"
#include "lib/players.h"
#include "lib/servers.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TTL_MS 2000
#define LONG_TTL_MS 6000 /* nothing ends by itself before it is told */
#define REMOVALS 10

struct pair {
    struct rota *a, *b;
};

static void pair_begin(struct pair *p)
{
    char *url = house->url(0);
    p->a = player(url, LONG_TTL_MS, HOUSE_LIMIT_MS);
    p->b = player(url, LONG_TTL_MS, HOUSE_LIMIT_MS);
    free(url);
}

/* Also what it left folded in its line for whoever comes next. */
static void pass_by(struct rota *r, const char *name)
{
    assert_int_equal(rota_release(player_take(r, name, NULL)), 0);
}

static void pair_end(struct pair *p)
{
    rota_close(p->a);
    rota_close(p->b);
    house_swept();
}

static void remove_session(struct rota *r, const char *name, size_t place)
{
    house_ask("delete from rota_session where id = %lld",
              (long long)player_session(r, name, place));
}

/* It was told once, and long before the deadline: not time ended it. */
static void assert_told(struct rota_lock *lock, struct player_lost *lost)
{
    UNTIL(atomic_load(&lost->calls) == 1);
    assert_int_equal(atomic_load(&lost->reason), ROTA_LOST);
    assert_true(rota_remaining_ms(lock) <= 0);
    assert_int_equal(rota_check(lock), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
}

/* ---- Rows removed by hand ------------------------------------------------------------------------------ */

/* The next heartbeat tells it of all that it held, and of what it takes before that; whoever waits is granted; and it
 * goes on with a new session. */
static void a_holders_session_is_removed(void **state)
{
    struct pair p;
    struct player_lost lost[3];
    struct player_wish wish;
    (void)state;
    pair_begin(&p);
    struct rota_lock *held = player_take(p.a, "removed", &lost[0]),
                     *plain = player_take(p.a, "folded", &lost[1]), *late = NULL;
    uint64_t fence = rota_fence(held);
    player_wish(p.b, "removed", ROTA_EXCLUSIVE, &wish);
    player_counts(p.b, "removed", 2);
    remove_session(p.b, "removed", 0);
    struct rota_lock *next = NULL;
    int err = rota_acquire(p.a, "late", NULL, &late);
    assert_true(err == 0 || err == ROTA_LOST);
    assert_told(held, &lost[0]);
    assert_told(plain, &lost[1]);
    if (err == 0)
        assert_int_equal(rota_release(late), ROTA_LOST);
    pass_by(p.b, "folded");
    pass_by(p.b, "late");
    next = player_wished(&wish, 0);
    assert_true(rota_fence(next) > fence);
    assert_int_equal(rota_release(next), 0);
    held = player_take(p.a, "removed", &lost[2]);
    assert_true(rota_fence(held) > fence);
    assert_int_equal(rota_release(held), 0);
    pair_end(&p);
}

static void a_waiters_session_is_removed(void **state)
{
    struct pair p;
    struct player_lost lost;
    struct player_wish wish;
    (void)state;
    pair_begin(&p);
    struct rota_lock *held = player_take(p.a, "awaited", &lost);
    player_wish(p.b, "awaited", ROTA_EXCLUSIVE, &wish);
    player_counts(p.a, "awaited", 2);
    remove_session(p.a, "awaited", 1);
    assert_null(player_wished(&wish, ROTA_LOST));
    assert_int_equal(atomic_load(&lost.calls), 0);
    assert_int_equal(rota_check(held), 0);
    assert_int_equal(rota_release(held), 0);
    pair_end(&p);
}

/* Folded into its line; with the line; as a row, with somebody behind it and the line (which counts its rows: they go
 * together). Each time the next fence is above the one that is gone. */
static void tickets_and_lines_are_removed(void **state)
{
    static const char *const by[] = {
        "update rota_line set session = null where name = 'prize'",
        "delete from rota_line where name = 'prize'",
        "delete from rota_ticket where name = 'prize'; delete from rota_line where name = 'prize'",
    };
    struct pair p;
    (void)state;
    pair_begin(&p);
    for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
        struct player_lost lost;
        struct player_wish wish;
        struct rota_lock *held = player_take(p.a, "prize", &lost);
        uint64_t fence = rota_fence(held);
        bool waits = i == 2;
        if (waits) {
            player_wish(p.b, "prize", ROTA_EXCLUSIVE, &wish);
            player_counts(p.b, "prize", 2);
        }
        house_ask("%s", by[i]);
        assert_told(held, &lost);
        if (waits)
            assert_null(player_wished(&wish, ROTA_LOST));
        held = player_take(p.b, "prize", NULL);
        assert_true(rota_fence(held) > fence);
        assert_int_equal(rota_release(held), 0);
    }
    pair_end(&p);
}

/* Rows alone, while their line still counts them: nobody waits for the missing, and the next one corrects the
 * counts. */
static void tickets_are_removed_from_their_line(void **state)
{
    static const char *const by[] = {
        "delete from rota_ticket where name = 'counted' and granted",
        "delete from rota_ticket where name = 'counted' and not granted",
    };
    struct pair p;
    (void)state;
    pair_begin(&p);
    for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
        struct player_lost lost;
        struct player_wish wish;
        struct rota_lock *held = player_take(p.a, "counted", &lost), *next;
        uint64_t fence = rota_fence(held);
        player_wish(p.b, "counted", ROTA_EXCLUSIVE, &wish);
        player_counts(p.b, "counted", 2);
        house_ask("%s", by[i]);
        next = player_wished(&wish, i == 0 ? 0 : ROTA_LOST);
        if (i == 0)
            assert_told(held, &lost);
        else
            assert_int_equal(rota_release(held), 0);
        if (next == NULL)
            next = player_take(p.b, "counted", NULL);
        assert_true(rota_fence(next) > fence);
        assert_int_equal(rota_release(next), 0);
        pass_by(p.a, "counted");
        assert_int_equal(
            house_number("select count + waiting from rota_line where name = 'counted'"), 0);
    }
    pair_end(&p);
}

/* A client that loses its session this way cannot know before it is told, and others need not wait for that: two may
 * hold for a moment, which is what fences are for. */
static void sessions_are_removed(void **state)
{
    struct stage *st = house_stage("sessions removed", 1, TTL_MS, STAGE_LOSSY);
    char *url = house->url(0);
    (void)state;
    stage_url(st, url);
    stage_start(st);
    for (uint32_t i = 0; i < REMOVALS * stage_factor(); i++) {
        stage_pause(st, 50 + stage_below(st, 100));
        stage_mark(st);
        house_ask("%s", house->driver->notifies
                            ? "delete from rota_session where id ="
                              " (select id from rota_session order by random() limit 1)"
                            : "DELETE FROM rota_session ORDER BY RAND() LIMIT 1");
    }
    UNTIL(stage_errors(st, ROTA_LOST) > 0); /* they learn it with their next request */
    house_finish(st, true);
    free(url);
}

/* ---- Two servers in the URL ---------------------------------------------------------------------------- */

static unsigned port_of(const char *url)
{
    return (unsigned)strtoul(strstr(url, "127.0.0.1:") + strlen("127.0.0.1:"), NULL, 10);
}

/* The replica first: whoever asks for a lock reaches it before the primary. */
static char *both_of(const char *primary, const char *replica)
{
    char *both = NULL;
    const char *at = strstr(primary, "127.0.0.1:");
    assert_true(asprintf(&both, "%.*s127.0.0.1:%u,%s", (int)(at - primary), primary,
                         port_of(replica), at) > 0);
    return both;
}

/* Only the server that takes writes is used; when it is gone and the other takes writes, all go there by themselves.
 * What the replica did not know yet is lost with the primary: two may hold for a moment, and fences grow. */
static void a_switch_over(void **state)
{
    struct stage *st = house_stage("switch-over", 1, TTL_MS, STAGE_LOSSY);
    (void)state;
    house->start_logged();
    house->follow();
    char *url = house->url(0), *other = house->replica_url(), *both = both_of(url, other);
    stage_url(st, both);
    stage_start(st);
    stage_pause(st, 500);
    assert_true(house_number("select count(*) from rota_session") > 0);
    stage_mark(st);
    house->kill();
    stage_pause(st, 200); /* nobody takes writes */
    house->promote();
    stage_await_grants(st);
    stage_pause(st, 500);
    assert_true(house_number("select count(*) from rota_session") > 0); /* of the new one */
    house_finish(st, true);
    free(url);
    free(other);
    free(both);
    house->fini();
}

static void switch_overs(void **state)
{
    for (uint32_t i = 0; i < 1 + stage_factor() / 4; i++)
        a_switch_over(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest rows[] = {
        cmocka_unit_test(sessions_are_removed),
        cmocka_unit_test(a_holders_session_is_removed),
        cmocka_unit_test(a_waiters_session_is_removed),
        cmocka_unit_test(tickets_and_lines_are_removed),
        cmocka_unit_test(tickets_are_removed_from_their_line),
    };
    const struct CMUnitTest servers[] = {
        cmocka_unit_test(switch_overs),
    };
    if (!house_choose(argc, argv))
        return 64;
    int failed = cmocka_run_group_tests_name("rows", rows, house_setup, house_teardown);
    return failed + cmocka_run_group_tests_name("servers", servers, NULL, NULL);
}
