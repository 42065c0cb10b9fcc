/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine: ends that are hard to see. Crowds, deleted files, clocks set back, sets. */
#include "place.h"

#include "engine/file/file.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define CROWD 65 /* sessions older than the one that dies: one more than are probed in a step */

/* ---- Crowds ------------------------------------------------------------------------ */

static const struct rt_join permit = {.mode = RT_PERMITS, .take = 1, .of = CROWD + 2};

/* One process with CROWD sessions, each with a permit. */
static pid_t crowd(void)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        place_child();
        static struct user users[CROWD];
        struct rlimit files;
        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        for (int i = 0; i < CROWD; i++) {
            struct rt_join j = permit;
            user_start(&users[i], place_url, 0);
            assert_int_equal(user_join(&users[i], "p", &j), 0);
            assert_true(j.granted);
        }
        (void)!write(ready[1], "y", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_a_death_behind_a_crowd_lets_the_waiter_in(void **state)
{
    (void)state;
    pid_t many = crowd(), victim = place_holder("p", permit), last = place_holder("p", permit);
    struct user u;
    struct rt_join j = permit;
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "p", &j), 0);
    assert_false(j.granted);
    place_end(victim);
    user_hear(&u, RT_GRANTED, j.number, 0);
    place_end(last);
    place_end(many);
    user_close(&u);
}

static void test_a_death_behind_a_crowd_makes_nobody_busy(void **state)
{
    (void)state;
    pid_t many = crowd(), victim = place_holder("p", permit), last = place_holder("p", permit);
    struct user u;
    struct rt_join j = permit;
    user_start(&u, place_url, 0);
    place_end(victim);
    j.flags = RT_JOIN_TRY;
    assert_int_equal(user_join(&u, "p", &j), 0);
    j = permit;
    j.flags = RT_JOIN_TRY;
    assert_int_equal(user_join(&u, "p", &j), ROTA_BUSY);
    place_end(last);
    place_end(many);
    user_close(&u);
}

/* ---- Deleted files ------------------------------------------------------------------ */

static void delete_session(const struct user *u)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/s/%016" PRIx64, place_folder, u->session);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/s/%016" PRIx64 ".sock", place_folder, u->session);
    assert_int_equal(unlink(path), 0);
}

/* I1: while its process lives, a session without a file holds on; it learns of it and gives up. */
static void test_a_deleted_session_file_makes_no_second_holder(void **state)
{
    (void)state;
    struct user a, b;
    struct rt_join x = {0}, t = {.flags = RT_JOIN_TRY}, y = {0};
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&a, "a", &x), 0);
    delete_session(&a);
    assert_int_equal(user_join(&b, "a", &t), ROTA_BUSY);
    assert_int_equal(user_join(&b, "a", &y), 0);
    assert_false(y.granted);
    user_hear(&a, RT_SESSION_LOST, 0, 0);
    while (rt_file_conn(a.conn)->unfinished != 0) /* then it lets the others in */
        user_turn(&a, 100);
    user_hear(&b, RT_GRANTED, y.number, 0);
    assert_int_equal(user_leave(&a, "a", x.number), ROTA_LOST);
    user_close(&a);
    user_close(&b);
    assert_int_equal(place_sessions(), 0);
}

static sqlite3 *take_database(void)
{
    sqlite3 *db = NULL;
    char path[128];
    snprintf(path, sizeof(path), "%s/rota.db", place_folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void give_database(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* It gives up while somebody has the database, and goes on with another session, or leaves: others may sweep
 * what it could not, though its process lives (sim --file --seed 18). */
static void test_a_session_given_up_while_the_database_is_taken_is_dead(void **state)
{
    (void)state;
    for (int closes = 0; closes <= 1; closes++) {
        struct user a, b;
        struct rt_join x = {0}, y = {0}, t = {.flags = RT_JOIN_TRY};
        user_start(&a, place_url, 0);
        user_start(&b, place_url, 0);
        assert_int_equal(user_join(&a, "a", &x), 0);
        assert_int_equal(user_join(&b, "a", &y), 0);
        delete_session(&a);
        sqlite3 *db = take_database();
        if (!closes) {
            struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER, .beat = {.open = true}};
            user_hear(&a, RT_SESSION_LOST, 0, 0);
            a.conn->engine->submit(a.conn, &op); /* gives up the last one, and waits */
            a.conn->engine->cancel(a.conn, &op);
        }
        user_close(&a);
        give_database(db);
        user_hear(&b, RT_GRANTED, y.number, 0);
        assert_int_equal(user_leave(&b, "a", y.number), 0);
        assert_int_equal(user_join(&b, "a", &t), 0);
        user_close(&b);
    }
}

static void test_a_session_without_file_or_process_is_dead(void **state)
{
    (void)state;
    pid_t pid = place_holder("a", (struct rt_join){0});
    struct user u;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    char command[128];
    snprintf(command, sizeof(command), "rm %s/s/*", place_folder);
    assert_int_equal(system(command), 0);
    place_end(pid);
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &t), 0);
    user_close(&u);
}

/* Pids are reused: the process that has one now is not the one that held, and may live for years. */
static void test_a_pid_used_again_is_another_process(void **state)
{
    (void)state;
    pid_t pid = place_holder("a", (struct rt_join){0});
    struct user u;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    char command[128];
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &t), ROTA_BUSY);
    snprintf(command, sizeof(command), "cd %s/s && ls | grep -v %016" PRIx64 " | xargs rm",
             place_folder, u.session);
    assert_int_equal(system(command), 0);
    assert_int_equal(user_join(&u, "a", &t), ROTA_BUSY); /* its process lives */
    place_sql("UPDATE session SET start=start-1");
    assert_int_equal(user_join(&u, "a", &t), 0);
    place_end(pid);
    user_close(&u);
}

/* Nor is it watched in place of the old one: its end would never come. */
static void test_a_pid_used_again_is_not_watched(void **state)
{
    (void)state;
    pid_t pid = place_holder("a", (struct rt_join){0});
    struct user u, v;
    struct rt_join j = {0}, k = {0};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_true(rt_file_wait_find(rt_file_conn(u.conn), j.number)->peer->pidfd >= 0);
    assert_int_equal(user_leave(&u, "a", j.number), 0);
    place_sql("UPDATE session SET start=start-1");
    user_start(&v, place_url, 0);
    assert_int_equal(user_join(&v, "a", &k), 0);
    assert_int_equal(rt_file_wait_find(rt_file_conn(v.conn), k.number)->peer->pidfd, -1);
    place_end(pid);
    user_hear(&v, RT_GRANTED, k.number, 0);
    user_close(&u);
    user_close(&v);
}

/* After it was told, a client goes on in the folder that all others see. */
static void goes_on_in_the_new_folder(struct user *a)
{
    struct user b;
    struct rt_join x = {0}, t = {.flags = RT_JOIN_TRY};
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    user_hear(a, RT_SESSION_LOST, 0, 0);
    op.beat.open = true;
    assert_int_equal(user_do(a, &op), 0);
    a->session = op.beat.session;
    assert_int_equal(user_join(a, "a", &x), 0);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&b, "a", &t), ROTA_BUSY);
    user_close(&b);
    user_close(a);
}

static void test_a_deleted_database_is_told(void **state)
{
    (void)state;
    struct user a;
    struct rt_join x = {0};
    char command[256];
    user_start(&a, place_url, 0);
    assert_int_equal(user_join(&a, "a", &x), 0);
    snprintf(command, sizeof(command), "rm %s/rota.db*", place_folder);
    assert_int_equal(system(command), 0);
    goes_on_in_the_new_folder(&a);
}

static void test_a_replaced_folder_is_told(void **state)
{
    (void)state;
    struct user a;
    struct rt_join x = {0};
    char command[256];
    user_start(&a, place_url, 0);
    assert_int_equal(user_join(&a, "a", &x), 0);
    snprintf(command, sizeof(command), "mv %s %s-away && mkdir -m 700 %s", place_folder,
             place_folder, place_folder);
    assert_int_equal(system(command), 0);
    goes_on_in_the_new_folder(&a);
    snprintf(command, sizeof(command), "rm -r %s-away", place_folder);
    assert_int_equal(system(command), 0);
}

/* ---- A clock that is set back: all stamps lie in the future then ----------------------- */

#define SET_BACK "UPDATE ticket SET since=since+3600000, until=iif(until>0,until+3600000,0)"

static void test_a_clock_set_back_keeps_lengths(void **state)
{
    (void)state;
    struct user a, b;
    struct rt_join x = {.at_least_ms = 100}, y = {0};
    struct rt_join d = {.session = 42, .flags = RT_JOIN_DURABLE, .until_ms = 100}, z = {0};
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&a, "a", &x), 0);
    assert_int_equal(user_leave(&a, "a", x.number), 0);
    assert_int_equal(user_join(&a, "d", &d), 0);
    place_sql(SET_BACK);
    assert_int_equal(user_join(&b, "a", &y), 0);
    if (!y.granted)
        user_hear(&b, RT_GRANTED, y.number, 0);
    assert_int_equal(user_join(&b, "d", &z), 0);
    if (!z.granted)
        user_hear(&b, RT_GRANTED, z.number, 0);
    user_close(&a);
    user_close(&b);
}

static void test_a_clock_set_back_ends_nothing_early(void **state)
{
    (void)state;
    struct user a;
    struct rt_join x = {.at_least_ms = 60000};
    user_start(&a, place_url, 0);
    assert_int_equal(user_join(&a, "a", &x), 0);
    place_sql(SET_BACK);
    assert_int_equal(user_leave(&a, "a", x.number), 0);
    for (int i = 0; i < 3; i++) {
        struct rt_join t = {.flags = RT_JOIN_TRY};
        assert_int_equal(user_join(&a, "a", &t), ROTA_BUSY);
        place_sql(SET_BACK);
    }
    user_close(&a);
}

static void test_a_clock_set_back_while_one_waits(void **state)
{
    (void)state;
    struct user a, b;
    struct rt_join x = {.at_least_ms = 500}, y = {0};
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    assert_int_equal(user_join(&a, "a", &x), 0);
    place_sql(SET_BACK); /* while it is held, and again when it is kept */
    assert_int_equal(user_leave(&a, "a", x.number), 0);
    assert_int_equal(user_join(&b, "a", &y), 0);
    place_sql(SET_BACK);
    if (!y.granted)
        user_hear(&b, RT_GRANTED, y.number, 0);
    user_close(&a);
    user_close(&b);
}

#define ENDED 600 /* more than one transaction takes out of a line, twice */

/* A line full of expired counts is an empty line: it takes any kind. */
static void test_many_that_ended_make_no_kind(void **state)
{
    (void)state;
    struct user u;
    struct rt_join t = {.flags = RT_JOIN_TRY};
    user_start(&u, place_url, 0);
    for (int i = 0; i < ENDED; i++) {
        struct rt_join d = {.session = 42,
                            .flags = RT_JOIN_DURABLE,
                            .until_ms = 3600000,
                            .mode = RT_COUNT,
                            .of = 2};
        assert_int_equal(user_join(&u, "a", &d), 0);
    }
    assert_int_equal(user_join(&u, "a", &t), ROTA_INVALID);
    place_sql("UPDATE ticket SET since=since-7200000, until=until-7200000");
    assert_int_equal(user_join(&u, "a", &t), 0);
    user_close(&u);
}

/* ---- Sets and queues -------------------------------------------------------------------- */

static void test_a_set_asked_again_in_part_is_lost(void **state)
{
    (void)state;
    struct user a;
    user_start(&a, place_url, 0);
    struct rt_join set[2] = {{.name = "x", .session = a.session, .nonce = 1},
                             {.name = "y", .session = a.session, .nonce = 2}};
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .deadline = RT_NEVER};
    op.join.joins = set;
    op.join.n = 2;
    assert_int_equal(user_do(&a, &op), 0);
    uint64_t x = set[0].number, y = set[1].number;
    assert_int_equal(user_do(&a, &op), 0); /* all are there */
    assert_int_equal(set[0].number, x);
    assert_int_equal(set[1].number, y);
    assert_int_equal(user_leave(&a, "x", x), 0);
    assert_int_equal(user_do(&a, &op), ROTA_LOST);
    assert_string_equal(a.errmsg, "one ticket of the set has ended");
    assert_int_equal(user_leave(&a, "y", y), 0); /* no effect: it stands still, */
    struct rt_join t = {.flags = RT_JOIN_TRY};
    assert_int_equal(user_join(&a, "x", &t), 0); /* and nothing was put anew */
    user_close(&a);
}

static void (*user_done)(struct rt_up *up, struct rt_op *op);
static int done_in_queue;

static void look_into_queue(struct rt_up *up, struct rt_op *op)
{
    struct user *u = (struct user *)(void *)up;
    for (struct rt_op *o = rt_file_conn(u->conn)->queue; o != NULL; o = o->next)
        done_in_queue += o == op;
    op->next = op; /* ours again: the engine must not look at it any more */
    user_done(up, op);
}

static void test_an_op_that_is_done_is_not_in_the_queue(void **state)
{
    (void)state;
    struct user u;
    sqlite3 *db;
    char path[128];
    user_start(&u, place_url, 0);
    user_done = u.up.done;
    u.up.done = look_into_queue;
    done_in_queue = 0;
    snprintf(path, sizeof(path), "%s/rota.db", place_folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct rt_join j = {.name = "a", .session = u.session, .nonce = 9};
    struct rt_op op = {.kind = RT_OP_JOIN, .deadline = RT_NEVER};
    struct rt_op leave = {.kind = RT_OP_LEAVE, .deadline = RT_NEVER};
    op.join.joins = &j;
    op.join.n = 1;
    leave.leave.name = "a";
    leave.leave.session = u.session;
    leave.leave.nonce = 9;
    int before = u.done;
    rt_engine_file.submit(u.conn, &op);
    rt_engine_file.submit(u.conn, &leave);
    assert_int_equal(u.done, before);
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    while (u.done < before + 2)
        user_turn(&u, 100);
    assert_int_equal(op.err, 0);
    assert_int_equal(leave.err, 0); /* in order */
    assert_int_equal(done_in_queue, 0);
    sqlite3_close(db);
    user_close(&u);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_death_behind_a_crowd_lets_the_waiter_in),
        CASE(test_a_death_behind_a_crowd_makes_nobody_busy),
        CASE(test_a_deleted_session_file_makes_no_second_holder),
        CASE(test_a_session_given_up_while_the_database_is_taken_is_dead),
        CASE(test_a_session_without_file_or_process_is_dead),
        CASE(test_a_pid_used_again_is_another_process),
        CASE(test_a_pid_used_again_is_not_watched),
        CASE(test_a_deleted_database_is_told),
        CASE(test_a_replaced_folder_is_told),
        CASE(test_a_clock_set_back_keeps_lengths),
        CASE(test_a_clock_set_back_ends_nothing_early),
        CASE(test_a_clock_set_back_while_one_waits),
        CASE(test_many_that_ended_make_no_kind),
        CASE(test_a_set_asked_again_in_part_is_lost),
        CASE(test_an_op_that_is_done_is_not_in_the_queue),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
