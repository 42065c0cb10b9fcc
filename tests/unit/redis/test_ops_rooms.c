/* SPDX-License-Identifier: Apache-2.0 */
/* Ops over several rooms of a played cluster: a set is joined room by room, and a definite error leaves nothing of it
 * behind in any of them. */
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char names[4][16]; /* two in one room, then one each in two higher ones */
static uint32_t rooms[4];

/* The first names n0, n1, ... for which that is true. */
static void find_names(void)
{
    static uint32_t first[256];
    memset(first, 0xff, sizeof(first));
    size_t found = 0;
    for (uint32_t i = 0; found < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", i);
        uint32_t room = rt_redis_room_of(p.conn, name);
        if (found == 0 && room > 0 && room < 200 && first[room] != UINT32_MAX) {
            snprintf(names[0], sizeof(names[0]), "n%u", first[room]);
            rooms[found++] = room;
        } else if (found == 0 || (found > 1 && room <= rooms[found - 1])) {
            first[room] = i;
            continue;
        }
        memcpy(names[found], name, sizeof(name));
        rooms[found++] = room;
    }
    assert_true(rooms[0] == rooms[1] && rooms[1] < rooms[2] && rooms[2] < rooms[3]);
}

static struct rt_join j[4];
static struct rt_op op;

/* A set of all four, the highest room first. */
static void join_all(uint32_t flags, int64_t ms)
{
    op = (struct rt_op){.kind = RT_OP_JOIN_ALL, .user = join_name, .join = {j, 4}};
    op.deadline = rt_loop_now(&p.loop) + ms * RT_MS;
    for (size_t i = 0; i < 4; i++)
        j[i] = (struct rt_join){
            .name = names[3 - i], .session = p.conn->session, .nonce = 70 + i, .flags = flags};
    submit(&op);
}

static void answer_join(uint32_t room, const char *words)
{
    answer(expect_call_in(room, RT_REDIS_SCRIPT_JOIN, NULL), 0, words);
}

/* That ticket is left, whatever became of it; nobody was told of it. */
static void answer_leave(size_t i, uint64_t number, int status)
{
    const char *args;
    char words[128];
    uint64_t tag = expect_call_in(rooms[3 - i], RT_REDIS_SCRIPT_LEAVE, &args);
    snprintf(words, sizeof(words), "%s %s %llu %zu u", j[i].name, p.conn->sid,
             (unsigned long long)number, 70 + i);
    assert_string_equal(args, words);
    answer(tag, status, status == 0 ? "i1" : "");
}

static int setup_rooms(void **state)
{
    (void)setup_cluster(state);
    find_names();
    return 0;
}

/* Lower rooms first, whatever the user's order: so sets that overlap cannot wait for each other. */
static void test_rooms_in_order(void **state)
{
    const char *args;
    (void)state;
    join_all(0, 5000);
    uint64_t tag = expect_call_in(rooms[0], RT_REDIS_SCRIPT_JOIN, &args);
    char words[256];
    snprintf(
        words, sizeof(words),
        "c %s 10000 played %s 72 %s %s 72 0 0 0 - 0 0 0 0 0 0 0  %s 73 %s %s 73 0 0 0 - 0 0 0 0 0 0 0 ",
        p.conn->sid, names[1], names[1], p.conn->sid, names[0], names[0], p.conn->sid);
    assert_string_equal(args, words);
    expect_no_call(); /* not before these are granted */
    answer(tag, 0, "i1000000000 i0 i11 i1 i12 i2");
    answer_join(rooms[2], "i1000000000 i0 i13 i1");
    expect_told("");
    answer_join(rooms[3], "i1000000000 i0 i14 i0"); /* in the last one it may wait */
    expect_told("join ok");
    static const uint64_t numbers[] = {14, 13, 11, 12};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(j[i].number, numbers[i]);
        assert_int_equal(j[i].granted, i != 0);
        assert_int_equal(j[i].wanted, i == 3);
    }
    push_in(rooms[3], 1, "G 14 x");
    char text[64];
    snprintf(text, sizeof(text), "granted x 14"); /* the set has ended: pushes are the user's */
    expect_told(text);
}

/* While it waits in a room the pushes are for the set: the user has no ticket yet. */
static void test_set_waits_in_a_room(void **state)
{
    char text[64];
    (void)state;
    join_all(0, 5000);
    answer_join(rooms[0], "i1000000000 i0 i11 i0 i12 i0");
    snprintf(text, sizeof(text), "G 11 %s", names[1]);
    push_in(rooms[0], 1, text);
    expect_no_call(); /* the other one waits still */
    snprintf(text, sizeof(text), "G 12 %s", names[1]);
    push_in(rooms[0], 2, text);
    expect_no_call(); /* that is nobody's: the name is another one */
    snprintf(text, sizeof(text), "granted %s 12", names[1]);
    expect_told(text);
    snprintf(text, sizeof(text), "W 12 %s", names[0]); /* granted, and somebody waits already */
    push_in(rooms[0], 3, text);
    uint64_t tag = expect_call_in(rooms[2], RT_REDIS_SCRIPT_JOIN, NULL);
    snprintf(text, sizeof(text), "W 11 %s", names[1]);
    push_in(rooms[0], 4, text); /* meanwhile */
    expect_told("");
    answer(tag, 0, "i1000000000 i0 i13 i1");
    answer_join(rooms[3], "i1000000000 i0 i14 i1");
    expect_told("join ok");
    assert_true(j[2].wanted && j[3].wanted && !j[1].wanted);
    for (size_t i = 0; i < 4; i++)
        assert_true(j[i].granted);
}

/* It does not wait for long in a room: the user could not end that. Asked again, it finds its tickets. */
static void test_set_waits_not_for_long(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t most = i == 0 ? 250 : 100;
        join_all(0, i == 0 ? 5000 : most);
        answer_join(rooms[0], "i1000000000 i0 i11 i1 i12 i0");
        played_pass(&p, most - 1);
        expect_told("");
        played_pass(&p, 1);
        expect_told("join UNKNOWN");
        expect_no_call();
    }
}

/* A try that a later room refuses: it leaves the earlier rooms first, then it is told. */
static void test_later_room_refuses(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        join_all(RT_JOIN_TRY, 5000);
        answer_join(rooms[0], "i1000000000 i0 i11 i1 i12 i1");
        answer_join(rooms[2], "i1000000000 i0 i13 i1");
        answer(expect_call_in(rooms[3], RT_REDIS_SCRIPT_JOIN, NULL), 2, "sme i0");
        answer_leave(2, 11, 0);
        answer_leave(3, 12, lost);
        expect_told("");
        answer_leave(1, 13, 0);
        expect_told("join BUSY");
        expect_no_call();
    }
    join_all(RT_JOIN_TRY, 5000);
    answer_join(rooms[0], "i1000000000 i0 i11 i1 i12 i1");
    answer(expect_call_in(rooms[2], RT_REDIS_SCRIPT_JOIN, NULL), 2, "sme i0");
    answer_leave(2, 11, 0);
    answer_leave(3, 12, 7); /* an answer that makes no sense: it may stand there */
    expect_told("join UNKNOWN");
}

/* One of its tickets was taken out while it waited: the set can no longer be complete. */
static void test_ticket_of_a_set_is_lost(void **state)
{
    char text[64];
    (void)state;
    join_all(0, 5000);
    answer_join(rooms[0], "i1000000000 i0 i11 i1 i12 i1");
    answer_join(rooms[2], "i1000000000 i0 i13 i0");
    snprintf(text, sizeof(text), "L 13 %s", names[2]);
    push_in(rooms[2], 1, text);
    answer_leave(2, 11, 0);
    answer_leave(3, 12, 0);
    expect_told("join LOST");
    played_pass(&p, 300); /* its time to wait is over with it */
    expect_told("");
}

/* Asked again, it goes by the nonces: what the earlier try had in later rooms is not the set's yet, and the JOIN there
 * says what became of it. */
static void test_ticket_of_the_try_before(void **state)
{
    char text[64];
    (void)state;
    join_all(0, 5000);
    answer_join(rooms[0], "i1000000000 i0 i11 i1 i12 i1");
    answer_join(rooms[2], "i1000000000 i0 i13 i0");
    played_pass(&p, 250);
    expect_told("join UNKNOWN");
    submit(&op);
    answer_join(rooms[0], "i1000000000 i0 i11 i1 i12 i0"); /* another server: it knows less */
    snprintf(text, sizeof(text), "L 13 %s", names[2]);
    push_in(rooms[2], 1, text);
    snprintf(text, sizeof(text), "lost %s 13", names[2]);
    expect_told(text);
    snprintf(text, sizeof(text), "G 12 %s", names[0]);
    push_in(rooms[0], 1, text);
    answer_join(rooms[2], "i1000000000 i0 i15 i1");
    answer_join(rooms[3], "i1000000000 i0 i14 i1");
    expect_told("join ok");
    assert_int_equal(j[1].number, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rooms_in_order, setup_rooms, teardown),
        cmocka_unit_test_setup_teardown(test_set_waits_in_a_room, setup_rooms, teardown),
        cmocka_unit_test_setup_teardown(test_set_waits_not_for_long, setup_rooms, teardown),
        cmocka_unit_test_setup_teardown(test_later_room_refuses, setup_rooms, teardown),
        cmocka_unit_test_setup_teardown(test_ticket_of_a_set_is_lost, setup_rooms, teardown),
        cmocka_unit_test_setup_teardown(test_ticket_of_the_try_before, setup_rooms, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
