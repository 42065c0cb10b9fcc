/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine: lines, deaths, the counter across boots, and hostile folders. */
#include "place.h"

#include "base/alloc.h"
#include "engine/file/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Lines ------------------------------------------------------------------------ */

static void test_pair(void **state)
{
    (void)state;
    struct user u;
    user_start(&u, place_url, 0);
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        struct rt_join j = {0};
        assert_int_equal(user_join(&u, "a", &j), 0);
        assert_true(j.granted);
        assert_true(j.number > last);
        last = j.number;
        assert_int_equal(user_leave(&u, "a", j.number), 0);
        assert_int_equal(user_leave(&u, "a", j.number), ROTA_LOST);
    }
    user_close(&u);
    assert_int_equal(place_sessions(), 0);
}

static void test_handover_is_in_order_and_rings_once(void **state)
{
    (void)state;
    struct user u[3];
    struct rt_join j[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        user_start(&u[i], place_url, 0);
        assert_int_equal(user_join(&u[i], "a", &j[i]), 0);
        assert_int_equal(j[i].granted, i == 0);
    }
    struct rt_file_conn *c = rt_file_conn(u[0].conn);
    assert_int_equal(user_leave(&u[0], "a", j[0].number), 0);
    assert_int_equal(c->counted.rings, 1); /* I8 */
    user_hear(&u[1], RT_GRANTED, j[1].number, 0);
    user_turn(&u[2], 0);
    assert_int_equal(u[2].told_count, 0);
    assert_int_equal(user_leave(&u[1], "a", j[1].number), 0);
    user_hear(&u[2], RT_GRANTED, j[2].number, 0);
    for (int i = 0; i < 3; i++)
        user_close(&u[i]);
    assert_int_equal(place_sessions(), 0);
}

static void test_leaving_from_the_middle_rings_the_one_behind(void **state)
{
    (void)state;
    struct user u[3];
    struct rt_join j[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        user_start(&u[i], place_url, 0);
        assert_int_equal(user_join(&u[i], "a", &j[i]), 0);
    }
    struct rt_file_conn *behind = rt_file_conn(u[2].conn);
    assert_int_equal(rt_file_wait_find(behind, j[2].number)->peer->session, u[1].session);
    assert_int_equal(user_leave(&u[1], "a", j[1].number), 0);
    while (rt_file_wait_find(behind, j[2].number)->peer->session != u[0].session)
        user_turn(&u[2], 100);
    assert_int_equal(user_leave(&u[0], "a", j[0].number), 0);
    user_hear(&u[2], RT_GRANTED, j[2].number, 0);
    for (int i = 0; i < 3; i++)
        user_close(&u[i]);
}

static void test_shared_and_downgrade(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join w = {.flags = RT_JOIN_ARM}, r = {.mode = RT_SHARED};
    assert_int_equal(user_join(&a, "a", &w), 0);
    assert_int_equal(user_join(&b, "a", &r), 0);
    assert_false(r.granted);
    user_hear(&a, RT_WANTED, w.number, 0);
    struct rt_op op = {.kind = RT_OP_CHANGE, .deadline = RT_NEVER};
    op.change.name = "a";
    op.change.session = a.session;
    op.change.number = w.number;
    op.change.what = RT_CHANGE_DOWNGRADE;
    assert_int_equal(user_do(&a, &op), 0);
    assert_false(op.change.wanted);
    user_hear(&b, RT_GRANTED, r.number, 0);
    struct rt_join again = {.flags = RT_JOIN_TRY},
                   permits = {.mode = RT_PERMITS, .take = 1, .of = 2};
    assert_int_equal(user_join(&b, "a", &again), ROTA_BUSY);
    assert_int_equal(user_join(&b, "a", &permits), ROTA_INVALID);
    assert_string_equal(b.errmsg, "a is a lock now, not permits of 2: use another name");
    user_close(&a);
    user_close(&b);
}

static void test_permits_and_barrier(void **state)
{
    (void)state;
    struct user a;
    user_start(&a, place_url, 0);
    struct rt_join p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = (struct rt_join){.mode = RT_PERMITS, .take = i == 3 ? 1 : 2, .of = 5};
        assert_int_equal(user_join(&a, "p", &p[i]), 0);
        assert_int_equal(p[i].granted, i < 2); /* the small ask does not overtake */
    }
    assert_int_equal(user_leave(&a, "p", p[0].number), 0);
    user_hear(&a, RT_GRANTED, p[2].number, 0);
    user_hear(&a, RT_GRANTED, p[3].number, 0);
    struct rt_join g[3];
    for (int i = 0; i < 3; i++) {
        g[i] = (struct rt_join){.mode = RT_GATHER, .of = 3};
        assert_int_equal(user_join(&a, "g", &g[i]), 0);
        assert_int_equal(g[i].granted, i == 2);
    }
    user_hear(&a, RT_GRANTED, g[0].number, 0);
    user_hear(&a, RT_GRANTED, g[1].number, 0);
    user_close(&a);
}

static void test_nonce_makes_a_join_idempotent(void **state)
{
    (void)state;
    struct user a;
    user_start(&a, place_url, 0);
    struct rt_join first = {.nonce = 777}, again = {.nonce = 777};
    assert_int_equal(user_join(&a, "a", &first), 0);
    assert_int_equal(user_join(&a, "a", &again), 0);
    assert_int_equal(first.number, again.number);
    assert_true(again.granted);
    struct rt_op op = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
    op.leave.name = "a";
    op.leave.session = a.session;
    op.leave.nonce = 777;
    assert_int_equal(user_do(&a, &op), 0);
    assert_int_equal(user_do(&a, &op), ROTA_LOST);
    user_close(&a);
}

static void test_all_or_none(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join held = {0};
    assert_int_equal(user_join(&a, "y", &held), 0);
    struct rt_join set[2] = {{.name = "x", .session = b.session, .nonce = 1, .flags = RT_JOIN_TRY},
                             {.name = "y", .session = b.session, .nonce = 2}};
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .deadline = RT_NEVER};
    op.join.joins = set;
    op.join.n = 2;
    assert_int_equal(user_do(&b, &op), ROTA_BUSY);
    struct rt_join x = {.flags = RT_JOIN_TRY};
    assert_int_equal(user_join(&a, "x", &x), 0);
    user_close(&a);
    user_close(&b);
}

#define READERS 70 /* more than two chunks of what is granted at once */

/* A writer goes, and all readers behind it hold: nobody would ring those that were left out. */
static void test_all_that_fit_are_let_in(void **state)
{
    (void)state;
    struct user a, b;
    struct rt_join w = {0}, r[READERS], last = {0};
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&a, "a", &w), 0);
    for (int i = 0; i < READERS; i++) {
        r[i] = (struct rt_join){.mode = RT_SHARED};
        assert_int_equal(user_join(&b, "a", &r[i]), 0);
        assert_false(r[i].granted);
    }
    assert_int_equal(user_join(&a, "a", &last), 0);
    assert_int_equal(user_leave(&a, "a", w.number), 0);
    for (int i = 0; i < READERS; i++)
        user_hear(&b, RT_GRANTED, r[i].number, 0);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(user_leave(&b, "a", r[i].number), 0);
    user_hear(&a, RT_GRANTED, last.number, 0);
    user_close(&a);
    user_close(&b);
}

/* ---- Deaths ------------------------------------------------------------------------ */

static void test_killed_holder_is_taken_over(void **state)
{
    (void)state;
    pid_t pid = place_holder("a", (struct rt_join){0});
    struct user u;
    struct rt_join j = {0}, t = {.flags = RT_JOIN_TRY};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &t), ROTA_BUSY);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_false(j.granted);
    place_end(pid);
    user_hear(&u, RT_GRANTED, j.number, 0);
    assert_int_equal(place_sessions(), 2); /* our file and socket: the dead one's are gone */
    user_close(&u);
}

static void test_try_does_not_wait_for_the_dead(void **state)
{
    (void)state;
    place_end(place_holder("a", (struct rt_join){0}));
    struct user u;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &t), 0);
    user_close(&u);
}

static void test_killed_permit_holder_lets_in(void **state)
{
    (void)state;
    pid_t first = place_holder("p", (struct rt_join){.mode = RT_PERMITS, .take = 2, .of = 4});
    pid_t second = place_holder("p", (struct rt_join){.mode = RT_PERMITS, .take = 2, .of = 4});
    struct user u;
    struct rt_join j = {.mode = RT_PERMITS, .take = 1, .of = 4};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "p", &j), 0);
    assert_false(j.granted);
    place_end(first); /* not the one directly ahead */
    user_hear(&u, RT_GRANTED, j.number, 0);
    place_end(second);
    user_close(&u);
}

static void test_closing_with_tickets_frees_them(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join x = {0}, y = {0};
    assert_int_equal(user_join(&a, "a", &x), 0);
    assert_int_equal(user_join(&b, "a", &y), 0);
    user_close(&a);
    user_hear(&b, RT_GRANTED, y.number, 0);
    user_close(&b);
}

static void test_a_swept_session_is_told(void **state)
{
    (void)state;
    struct user a;
    user_start(&a, place_url, 0);
    struct rt_join x = {0};
    place_sql("DELETE FROM session");
    assert_int_equal(user_join(&a, "a", &x), ROTA_LOST);
    user_hear(&a, RT_SESSION_LOST, 0, 0);
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    op.beat.session = a.session;
    assert_int_equal(user_do(&a, &op), ROTA_LOST);
    user_close(&a);
}

/* SQLite's locks belong to the process: a child that went on with those it inherited would have
 * none, and the parent's close would remove the WAL under it. */
static void test_a_child_may_open_its_own(void **state)
{
    (void)state;
    struct user parent, third;
    int go[2];
    user_start(&parent, place_url, 0);
    assert_int_equal(pipe(go), 0);
    struct rt_join held = {0};
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        place_child();
        struct user u;
        user_start(&u, place_url, 0);
        byte = user_join(&u, "a", &held) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        (void)!read(go[0], &byte, 1);
        byte = user_leave(&u, "a", held.number) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    user_close(&parent);
    user_start(&third, place_url, 0);
    struct rt_join t = {.flags = RT_JOIN_TRY}, j = {0};
    assert_int_equal(user_join(&third, "a", &t), ROTA_BUSY);
    assert_int_equal(user_join(&third, "a", &j), 0);
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    user_hear(&third, RT_GRANTED, j.number, 0);
    place_end(pid);
    user_close(&third);
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(ready[i]);
    }
}

/* ---- Durable ------------------------------------------------------------------------ */

static void test_durable_outlives_its_process_and_ends_by_time(void **state)
{
    (void)state;
    pid_t pid = place_holder(
        "d",
        (struct rt_join){.session = 42, .flags = RT_JOIN_DURABLE | RT_JOIN_TRY, .until_ms = 150});
    place_end(pid);
    struct user u;
    struct rt_join t = {.flags = RT_JOIN_TRY}, j = {0};
    user_start(&u, place_url, 0);
    int rv = user_join(&u, "d", &t);
    assert_true(rv == ROTA_BUSY || rv == 0); /* a slow machine may be past the end */
    if (rv == ROTA_BUSY) {
        assert_int_equal(user_join(&u, "d", &j), 0);
        if (!j.granted)
            user_hear(&u, RT_GRANTED, j.number, 0);
    }
    user_close(&u);
}

static void test_at_least_keeps_the_line(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join x = {.at_least_ms = 60000}, t = {.flags = RT_JOIN_TRY}, y = {0};
    assert_int_equal(user_join(&a, "a", &x), 0);
    assert_int_equal(user_leave(&a, "a", x.number), 0);
    assert_int_equal(user_leave(&a, "a", x.number), ROTA_LOST);
    assert_int_equal(user_join(&b, "a", &t), ROTA_BUSY);
    assert_int_equal(user_join(&b, "a", &y), 0);
    struct rt_op op = {.kind = RT_OP_BREAK, .deadline = RT_NEVER};
    op.brk.name = "a";
    op.brk.number = x.number;
    assert_int_equal(user_do(&a, &op), 0);
    user_hear(&b, RT_GRANTED, y.number, 0);
    user_close(&a);
    user_close(&b);
}

/* It counts from the grant, not from the ask: one that has waited for an hour still keeps its minute. */
static void test_at_least_begins_with_the_grant(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join x = {0}, y = {.at_least_ms = 60000}, t = {.flags = RT_JOIN_TRY};
    assert_int_equal(user_join(&a, "a", &x), 0);
    assert_int_equal(user_join(&b, "a", &y), 0);
    place_sql("UPDATE ticket SET since=since-3600000");
    assert_int_equal(user_leave(&a, "a", x.number), 0);
    user_hear(&b, RT_GRANTED, y.number, 0);
    assert_int_equal(user_leave(&b, "a", y.number), 0);
    assert_int_equal(user_join(&a, "a", &t), ROTA_BUSY);
    user_close(&a);
    user_close(&b);
}

static void test_at_least_of_who_was_not_told_keeps_nothing(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    for (int by_nonce = 0; by_nonce < 2; by_nonce++) {
        struct rt_join x = {.nonce = 70, .at_least_ms = 60000}, t = {.flags = RT_JOIN_TRY};
        assert_int_equal(user_join(&a, "a", &x), 0);
        struct rt_op op = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
        op.leave.name = "a";
        op.leave.session = a.session;
        op.leave.number = by_nonce ? 0 : x.number;
        op.leave.nonce = by_nonce ? 70 : 0;
        op.leave.untold = !by_nonce;
        assert_int_equal(user_do(&a, &op), 0);
        assert_true(op.leave.granted);
        assert_int_equal(user_do(&a, &op), ROTA_LOST); /* asked again */
        assert_int_equal(user_join(&b, "a", &t), 0);
        assert_int_equal(user_leave(&b, "a", t.number), 0);
    }
    user_close(&a);
    user_close(&b);
}

static void test_break_tells_the_holder(void **state)
{
    (void)state;
    struct user a, b;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join x = {0}, y = {0};
    assert_int_equal(user_join(&a, "a", &x), 0);
    assert_int_equal(user_join(&b, "a", &y), 0);
    struct rt_op op = {.kind = RT_OP_BREAK, .deadline = RT_NEVER};
    op.brk.name = "a";
    op.brk.number = x.number;
    assert_int_equal(user_do(&b, &op), 0);
    assert_int_equal(user_do(&b, &op), ROTA_LOST);
    user_hear(&a, RT_TICKET_LOST, x.number, 0);
    user_hear(&b, RT_GRANTED, y.number, 0);
    user_close(&a);
    user_close(&b);
}

/* ---- Observing ----------------------------------------------------------------------- */

static void test_observers_see_the_last_state(void **state)
{
    (void)state;
    struct user a, o;
    int cookie;
    user_start(&a, place_url, 0);
    user_start(&o, place_url, 0);
    struct rt_op op = {.kind = RT_OP_OBSERVE, .deadline = RT_NEVER};
    op.observe.name = "a";
    op.observe.cookie = &cookie;
    assert_int_equal(user_do(&o, &op), 0);
    size_t i = user_hear(&o, RT_CHANGED, 0, 0);
    assert_int_equal(o.told[i].fence, 0);
    struct rt_join x = {.value = "me"};
    assert_int_equal(user_join(&a, "a", &x), 0);
    i = user_hear(&o, RT_CHANGED, 0, i + 1);
    assert_int_equal(o.told[i].fence, x.number);
    assert_int_equal(o.told[i].count, 1);
    assert_string_equal(o.told[i].value, "me");
    op.observe.stop = true;
    assert_int_equal(user_do(&o, &op), 0);
    struct rt_file_conn *c = rt_file_conn(a.conn);
    uint64_t rings = c->counted.rings;
    assert_int_equal(user_leave(&a, "a", x.number), 0);
    assert_int_equal(c->counted.rings, rings);
    user_close(&a);
    user_close(&o);
}

struct seen {
    size_t lines, places;
    struct rota_place place;
    char names[256];
};

static void see_place(void *arg, const char *name, const struct rota_place *place)
{
    struct seen *s = arg;
    assert_non_null(name);
    s->place = *place;
    s->places++;
}

static void see_line(void *arg, const char *name, size_t count, size_t granted)
{
    struct seen *s = arg;
    s->lines++;
    snprintf(s->names + strlen(s->names), sizeof(s->names) - strlen(s->names), "%s %zu/%zu;", name,
             granted, count);
}

static void test_inspect_and_list(void **state)
{
    (void)state;
    struct user a, b;
    struct seen seen = {0};
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    struct rt_join x = {.owner = 5}, y = {.flags = RT_JOIN_DETECT}, z = {0};
    assert_int_equal(user_join(&a, "job:1", &x), 0);
    assert_int_equal(user_join(&b, "job:1", &y), 0);
    assert_int_equal(user_join(&b, "job:10", &z), 0);
    struct rt_op op = {.kind = RT_OP_INSPECT, .deadline = RT_NEVER};
    op.inspect.name = "job:1";
    op.inspect.each = see_place;
    op.inspect.arg = &seen;
    assert_int_equal(user_do(&b, &op), 0);
    assert_int_equal(seen.places, 2);
    assert_int_equal(seen.place.number, y.number);
    assert_int_equal(seen.place.flags, ROTA_PLACE_MINE | ROTA_PLACE_DETECT);
    struct rt_op list = {.kind = RT_OP_LIST, .deadline = RT_NEVER};
    list.list.prefix = "job:";
    list.list.each = see_line;
    list.list.arg = &seen;
    assert_int_equal(user_do(&a, &list), 0);
    assert_string_equal(seen.names, "job:1 1/2;job:10 1/1;");
    user_close(&a);
    user_close(&b);
}

/* ---- The counter ---------------------------------------------------------------------- */

static uint64_t number_once(void)
{
    struct user u;
    struct rt_join j = {0};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    user_close(&u);
    return j.number;
}

static void test_a_new_boot_never_repeats_a_number(void **state)
{
    (void)state;
    place_shift_s = PLACE_NO_CLOCK_S;
    rt_file_fake_boot("first");
    uint64_t before = number_once();
    assert_int_equal(number_once(), before + 1);
    place_sql("UPDATE meta SET next=1"); /* a power loss: the WAL's last part is gone */
    rt_file_fake_boot("second");
    uint64_t after = number_once();
    assert_true(after > before + 1);
    assert_int_equal(number_once(), after + 1);
    place_sql("UPDATE meta SET next=reserved-1");
    uint64_t end_of_range = number_once();
    assert_int_equal(number_once(), end_of_range + 1);
    rt_file_fake_boot(NULL);
}

/* A descriptor keeps a session alive: before there is one there is nothing to keep. */
static void test_only_a_session_can_be_kept(void **state)
{
    (void)state;
    struct user u;
    int fd = -7;
    assert_int_equal(user_open(&u, place_url), 0);
    assert_int_equal(rt_engine_file.keep(u.conn, &fd), ROTA_LOST);
    assert_int_equal(fd, -7);
    user_close(&u);
    user_start(&u, place_url, 0);
    assert_int_equal(rt_engine_file.keep(u.conn, &fd), 0);
    assert_true(fd >= 0);
    close(fd);
    user_close(&u);
}

/* A refusal says who holds it; for a set it names nobody in particular. */
static void test_busy_names_who_holds(void **state)
{
    (void)state;
    struct user a, b;
    struct rt_join held = {0}, t = {.flags = RT_JOIN_TRY};
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&a, "y", &held), 0);
    assert_int_equal(user_join(&b, "y", &t), ROTA_BUSY);
    assert_string_equal(b.errmsg, "y is held by test/label");
    struct rt_join set[2] = {{.name = "x", .session = b.session, .nonce = 1, .flags = RT_JOIN_TRY},
                             {.name = "y", .session = b.session, .nonce = 2}};
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .deadline = RT_NEVER};
    op.join.joins = set;
    op.join.n = 2;
    assert_int_equal(user_do(&b, &op), ROTA_BUSY);
    assert_null(strstr(b.errmsg, "test/label"));
    user_close(&a);
    user_close(&b);
}

/* ---- Others' locks ------------------------------------------------------------------- */

static void test_a_stopped_writer_is_named(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    struct user u;
    user_start(&u, place_url, 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        place_child();
        char path[128];
        sqlite3 *db;
        snprintf(path, sizeof(path), "%s/rota.db", place_folder);
        sqlite3_open(path, &db);
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        (void)!write(ready[1], "y", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    char text[64];
    struct rt_join j = {.name = "a", .session = u.session, .nonce = 9};
    struct rt_op op = {.kind = RT_OP_JOIN, .deadline = rt_loop_tick(&u.loop) + 200 * RT_MS};
    op.join.joins = &j;
    op.join.n = 1;
    assert_int_equal(user_do(&u, &op), ROTA_UNREACHABLE);
    snprintf(text, sizeof(text), "locked by process %d", (int)pid);
    assert_non_null(strstr(u.errmsg, text));
    /* Two ops wait; the writer dies; they are done in order. */
    struct rt_op leave = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
    leave.leave.name = "a";
    leave.leave.session = u.session;
    leave.leave.nonce = 9;
    op.deadline = RT_NEVER;
    int before = u.done;
    rt_engine_file.submit(u.conn, &op);
    rt_engine_file.submit(u.conn, &leave);
    assert_int_equal(u.done, before);
    place_end(pid);
    while (u.done < before + 2)
        user_turn(&u, 100);
    assert_int_equal(op.err, 0);
    assert_int_equal(leave.err, 0);
    close(ready[0]);
    close(ready[1]);
    user_close(&u);
}

/* ---- Hostile folders ------------------------------------------------------------------ */

static void test_hostile_folders(void **state)
{
    (void)state;
    char text[256], path[160];
    place_write("plain", "x");
    snprintf(text, sizeof(text), "%s/plain", place_url);
    place_refused(text, ROTA_INVALID, "is not a folder");
    snprintf(text, sizeof(text), "%s/none/there", place_url);
    place_refused(text, ROTA_UNREACHABLE, "cannot make folder");
    snprintf(text, sizeof(text), "%s?mode=0666", place_url);
    place_refused(text, ROTA_INVALID, "mode=0666");
    snprintf(path, sizeof(path), "%s/link", place_folder);
    assert_int_equal(symlink("/tmp", path), 0);
    snprintf(text, sizeof(text), "%s/link", place_url);
    place_refused(text, ROTA_INVALID, "symbolic link");
    snprintf(path, sizeof(path), "%s/open", place_folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0);
    snprintf(text, sizeof(text), "%s/open", place_url);
    place_refused(text, ROTA_AUTH, "chmod o-w");
}

static void test_foreign_databases(void **state)
{
    (void)state;
    place_write("rota.db", "This is no database, but it is longer than the header of one would be; "
                           "so it must be left alone, byte for byte, whatever it is.");
    place_refused(place_url, ROTA_PROTOCOL, "move it away or name another folder");
    char path[128];
    struct stat st;
    snprintf(path, sizeof(path), "%s/rota.db", place_folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 127);
    assert_int_equal(unlink(path), 0);
    place_sql("CREATE TABLE t(x)");
    place_refused(place_url, ROTA_PROTOCOL, "another program");
    assert_int_equal(unlink(path), 0);
    struct user u;
    user_start(&u, place_url, 0);
    user_close(&u);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    place_sql("PRAGMA user_version=1007"); /* a newer minor is worked with */
    user_start(&u, place_url, 0);
    user_close(&u);
    place_sql("PRAGMA user_version=2000");
    place_refused(place_url, ROTA_UNSUPPORTED, "layout 2");
    snprintf(path, sizeof(path), "%s/rota.db", place_folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    place_refused(place_url, ROTA_AUTH, "no plain file");
}

/* ---- Memory ---------------------------------------------------------------------------- */

static long alloc_left;

static void *failing_calloc(size_t n, size_t size)
{
    return alloc_left-- <= 0 ? NULL : calloc(n, size);
}

static void *failing_realloc(void *p, size_t size)
{
    return alloc_left-- <= 0 ? NULL : realloc(p, size);
}

/* Every allocation of a contended join and leave fails once: no effect, and it works again. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    static const struct rt_allocator failing = {failing_calloc, failing_realloc, free};
    struct user a, b;
    for (long n = 0; n < 12; n++) {
        user_start(&a, place_url, 0);
        user_start(&b, place_url, 0);
        struct rt_join x = {0}, y = {0};
        int rv;
        alloc_left = n;
        rt_alloc_set(&failing);
        while ((rv = user_join(&a, "a", &x)) != 0)
            assert_int_equal(rv, ROTA_NOMEM), alloc_left = LONG_MAX;
        alloc_left = alloc_left > 1000 ? n : alloc_left;
        while ((rv = user_join(&b, "a", &y)) != 0)
            assert_int_equal(rv, ROTA_NOMEM), alloc_left = LONG_MAX;
        alloc_left = alloc_left > 1000 ? n : alloc_left;
        while ((rv = user_leave(&a, "a", x.number)) != 0)
            assert_int_equal(rv, ROTA_NOMEM), alloc_left = LONG_MAX;
        rt_alloc_set(NULL);
        user_hear(&b, RT_GRANTED, y.number, 0);
        user_close(&a);
        user_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_pair),
        CASE(test_handover_is_in_order_and_rings_once),
        CASE(test_leaving_from_the_middle_rings_the_one_behind),
        CASE(test_shared_and_downgrade),
        CASE(test_permits_and_barrier),
        CASE(test_nonce_makes_a_join_idempotent),
        CASE(test_all_or_none),
        CASE(test_all_that_fit_are_let_in),
        CASE(test_killed_holder_is_taken_over),
        CASE(test_try_does_not_wait_for_the_dead),
        CASE(test_killed_permit_holder_lets_in),
        CASE(test_closing_with_tickets_frees_them),
        CASE(test_a_swept_session_is_told),
        CASE(test_a_child_may_open_its_own),
        CASE(test_durable_outlives_its_process_and_ends_by_time),
        CASE(test_at_least_keeps_the_line),
        CASE(test_at_least_begins_with_the_grant),
        CASE(test_at_least_of_who_was_not_told_keeps_nothing),
        CASE(test_break_tells_the_holder),
        CASE(test_observers_see_the_last_state),
        CASE(test_inspect_and_list),
        CASE(test_a_new_boot_never_repeats_a_number),
        CASE(test_only_a_session_can_be_kept),
        CASE(test_busy_names_who_holds),
        CASE(test_a_stopped_writer_is_named),
        CASE(test_hostile_folders),
        CASE(test_foreign_databases),
        CASE(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
