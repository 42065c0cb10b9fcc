/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes word by word: what each kind tells; whatever does not have our form is nobody's, and does not count. */
#include "ops_played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void push_raw(const char *text)
{
    char channel[64];
    snprintf(channel, sizeof(channel), "rota:{0}:p:%s", p.conn->cid);
    push_text(channel, text);
}

static void test_kinds(void **state)
{
    (void)state;
    push(1, "G 11 a");
    expect_told("granted a 11");
    push(2, "W 11 a");
    expect_told("wanted a 11");
    push(3, "L 11 a b"); /* names have blanks */
    expect_told("lost a b 11");
    push(4, "H 12 a"); /* granted, and somebody waits already */
    expect_told("granted a 12");
    expect_told("wanted a 12");
    push(5, "X 12 a"); /* of a later version, maybe */
    expect_told("");
    push(6, "G 13 a");
    expect_told("granted a 13");
    expect_no_call(); /* there was no gap */
}

static void test_texts_that_are_no_pushes(void **state)
{
    static const char
        *const
            all[] =
                {
                    "",           " ",
                    " 1",         " 1 ",
                    " 1 G",       " 1 G ",
                    " 1 G 11",    " 1 G 11 ",
                    " 1 G 0 a",   " 1 GG 11 a",
                    " 1 G11 a",   "x 1 G 11 a",
                    " 1x G 11 a", " 1 G 11x a",
                    "  G 11 a",   "d9f 1 G 11 a", /* a durable one has decimal digits */
                };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char text[96];
        snprintf(text, sizeof(text), "%s%s", all[i][0] == 'd' ? "" : p.conn->sid, all[i]);
        push_raw(text);
        if (user.read != user.count)
            fail_msg("\"%s\" was told: %s", text, user.text[user.read]);
    }
    push(1, "G 11 a");
    expect_told("granted a 11");
    expect_no_call();
}

static void test_channels_that_are_not_ours(void **state)
{
    static const char *const all[] = {"rota:{0}",      "rota:{0}:",    "rota:{0}:p",
                                      "rota:{0}:pp:x", "rota:{0}p:x",  "rota:{0:p:x",
                                      "rota:{1}:p:x",  "rota:{}:p:x",  "rota:{00}:p:x",
                                      "rota:0:p:x",    "rotb:{0}:p:x", "rota:{0}:q:x"};
    char text[96];
    (void)state;
    snprintf(text, sizeof(text), "%s 1 G 11 a", p.conn->sid);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        push_text(all[i], text);
        if (user.read != user.count)
            fail_msg("on \"%s\" was told: %s", all[i], user.text[user.read]);
    }
    push_raw(text);
    expect_told("granted a 11");
}

/* A durable ticket needs no session, and its pushes have no count; while it waits, the ends in its room are watched. */
static void test_durable(void **state)
{
    static const char *const ends[] = {"d9 0 G 11 a", "d9 0 H 11 a", "d9 0 L 11 a"};
    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct rt_join j = {.name = "a", .session = 9, .nonce = 7, .flags = RT_JOIN_DURABLE};
        struct rt_op op = {.kind = RT_OP_JOIN, .user = join_name, .join = {&j, 1}};
        submit(&op);
        answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i1001000000 i11 i0");
        expect_told("join ok");
        played_pass(&p, 1100);
        answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i1001000000 i1002000000 i0");
        push_raw("d9 0 W 11 a"); /* that ends no waiting */
        expect_told("wanted a 11");
        played_pass(&p, 1100);
        answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i1002000000 i1003000000 i0");
        push_raw(ends[i]);
        expect_told(i == 2 ? "lost a 11" : "granted a 11");
        if (i == 1)
            expect_told("wanted a 11");
        played_pass(&p, 1100);
        expect_no_call(); /* nobody waits any more */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kinds, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_texts_that_are_no_pushes, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_channels_that_are_not_ours, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_durable, setup_session, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
