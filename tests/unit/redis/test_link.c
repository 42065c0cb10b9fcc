/* SPDX-License-Identifier: Apache-2.0 */
/* Links: replies lost, doubled, late; errors believed or not; deadlines, silence, scripts forgotten. */
#include "lib/scarce.h"
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define URL "redis://redis.example"

static struct played p;

static int setup(void **state)
{
    (void)state;
    played_open(&p, URL, NULL, 0);
    played_turn(&p);
    played_accept(&p, 0);
    played_greet(&p, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    played_close(&p);
    return 0;
}

static void assert_answer(int i, int err, int order)
{
    assert_int_equal(p.asked[i].answers, 1);
    assert_int_equal(p.asked[i].err, err);
    assert_int_equal(p.asked[i].order, order);
}

static void answer_echo(size_t stream)
{
    const char *command = played_next(&p, stream);
    char tag[24], text[64];
    assert_true(strncmp(command, "ECHO ", 5) == 0);
    snprintf(tag, sizeof(tag), "%s", command + 5);
    snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(tag), tag);
    played_say(&p, stream, text);
}

/* The link is redialed and greeted; returns its stream. */
static size_t link_again(void)
{
    size_t next = p.opened;
    while (p.opened == next)
        played_pass(&p, 5);
    played_accept(&p, next);
    played_greet(&p, next);
    return next;
}

/* ---- Places ------------------------------------------------------------------------------------- */

static void test_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        (void)played_ask(&p, i == 0 ? "a" : i == 1 ? "b" : "c", 1000);
    played_answer(&p, 0, "a", 0);
    played_answer(&p, 0, "b", 1);
    played_answer(&p, 0, "c", 0);
    for (int i = 0; i < 3; i++)
        assert_answer(i, 0, i + 1);
    assert_int_equal(p.asked[1].status, 1);
    assert_string_equal(p.asked[1].text, "b");
}

static void test_byte_by_byte(void **state)
{
    char tag[24], text[64];
    (void)state;
    (void)played_ask(&p, "a", 1000);
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(played_next(&p, 0)));
    snprintf(text, sizeof(text), "*3\r\n$%zu\r\n%s\r\n:0\r\n$1\r\na\r\n", strlen(tag), tag);
    for (size_t i = 0; text[i] != '\0'; i++) {
        assert_int_equal(p.asked[0].answers, 0);
        played_say_bytes(&p, 0, text + i, 1);
    }
    assert_answer(0, 0, 1);
}

static void test_reply_dropped(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 1000);
    (void)played_ask(&p, "b", 1000);
    (void)played_next(&p, 0); /* the reply to a never comes */
    played_answer(&p, 0, "b", 0);
    assert_answer(0, ROTA_UNKNOWN, 1);
    assert_answer(1, ROTA_UNKNOWN, 2); /* I5: whatever it said */
    assert_null(p.streams[0].stream);
    assert_int_equal(p.downs, 1);
    size_t s = link_again();
    (void)played_ask(&p, "c", 1000);
    played_answer(&p, s, "c", 0);
    assert_answer(2, 0, 3);
}

static void test_reply_doubled(void **state)
{
    char text[128];
    (void)state;
    (void)played_ask(&p, "a", 1000);
    (void)played_ask(&p, "b", 1000);
    unsigned long long tag = played_tag(played_next(&p, 0));
    snprintf(text, sizeof(text), "*2\r\n$%d\r\n%llu\r\n:0\r\n", snprintf(NULL, 0, "%llu", tag),
             tag);
    played_say(&p, 0, text);
    assert_answer(0, 0, 1);
    played_say(&p, 0, text);
    assert_answer(1, ROTA_UNKNOWN, 2);
    assert_null(p.streams[0].stream);
}

static void test_reply_to_nothing(void **state)
{
    (void)state;
    played_say(&p, 0, ":1\r\n");
    assert_null(p.streams[0].stream);
    (void)link_again();
}

static void test_not_ours(void **state)
{
    static const char *const strange[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*1\r\n$1\r\n1\r\n",
        "*2\r\n:1\r\n:0\r\n",
        "*2\r\n$-1\r\n:0\r\n",
    };
    size_t s = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        int a = played_ask(&p, "a", 1000);
        played_say(&p, s, strange[i]);
        assert_answer(a, ROTA_UNKNOWN, (int)i + 1);
        s = link_again();
    }
    /* Tag and status right, but a nil among the rest. */
    int a = played_ask(&p, "a", 1000);
    char text[128];
    unsigned long long tag = played_tag(played_next(&p, s));
    snprintf(text, sizeof(text), "*3\r\n$%d\r\n%llu\r\n:0\r\n$-1\r\n",
             snprintf(NULL, 0, "%llu", tag), tag);
    played_say(&p, s, text);
    assert_int_equal(p.asked[a].err, ROTA_UNKNOWN);
}

/* ---- Errors -------------------------------------------------------------------------------------- */

static void test_error_is_made_sure(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 1000);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-OOM command not allowed\r\n");
    assert_int_equal(p.asked[0].answers, 0);
    answer_echo(0);
    assert_answer(0, ROTA_UNREACHABLE, 1);
    assert_non_null(strstr(p.asked[0].errmsg, "maxmemory"));
}

static void test_error_and_reply(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 1000);
    (void)played_ask(&p, "b", 1000);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-WRONGTYPE Operation against a key\r\n");
    assert_int_equal(p.asked[0].answers, 0);
    played_answer(&p, 0, "b", 0);
    assert_answer(0, ROTA_PROTOCOL, 1);
    assert_answer(1, 0, 2);
    assert_string_equal(played_next(&p, 0), ""); /* no ECHO was needed */
}

static void test_error_doubled(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 1000);
    (void)played_ask(&p, "b", 1000);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-OOM no\r\n-OOM no\r\n");
    assert_int_equal(p.asked[0].answers, 0);
    assert_int_equal(p.asked[1].answers, 0);
    played_answer(&p, 0, "b", 0); /* in the ECHO's place */
    assert_answer(0, ROTA_UNKNOWN, 1);
    assert_answer(1, ROTA_UNKNOWN, 2);
}

static void test_error_dropped(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 1000); /* "-OOM" to it is lost */
    (void)played_ask(&p, "b", 1000);
    (void)played_next(&p, 0);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-OOM no\r\n"); /* of b, taken for a's */
    assert_string_equal(played_next(&p, 0), "");
    played_pass(&p, 2600); /* nothing more comes: it is never believed */
    assert_answer(0, ROTA_UNKNOWN, 1);
    assert_answer(1, ROTA_UNKNOWN, 2);
}

static void test_sick_server(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 4000);
    (void)played_ask(&p, "b", 4000);
    (void)played_next(&p, 0);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-READONLY You can't write against a read only replica.\r\n");
    played_say(&p, 0, "-READONLY You can't write against a read only replica.\r\n");
    answer_echo(0);
    assert_int_equal(p.asked[0].answers, 0);
    assert_null(p.streams[0].stream); /* left once all its answers were there */
    size_t s = link_again();
    played_answer(&p, s, "a", 0);
    played_answer(&p, s, "b", 0);
    assert_answer(0, 0, 1);
    assert_answer(1, 0, 2);
}

static void test_sick_until_the_deadline(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 300);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-LOADING Redis is loading the dataset in memory\r\n");
    (void)played_next(&p, 0);
    played_say(&p, 0, "-LOADING Redis is loading the dataset in memory\r\n"); /* ECHO's */
    played_pass(&p, 400);
    assert_answer(0, ROTA_UNREACHABLE, 1); /* definite: it had no effect */
    assert_non_null(strstr(p.asked[0].errmsg, "loading its data"));
}

/* ---- Scripts -------------------------------------------------------------------------------------- */

static void test_scripts_forgotten(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 1000);
    (void)played_ask(&p, "b", 1000);
    (void)played_next(&p, 0);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n");
    answer_echo(0);
    const char *command = played_next(&p, 0);
    assert_true(strncmp(command, "EVAL ", 5) == 0);
    unsigned long long tag_a = played_tag(command);
    assert_string_equal(command + strlen(command) - 2, " a");
    unsigned long long tag_b = 0;
    int loads = 0;
    while ((command = played_next(&p, 0))[0] != '\0')
        if (strncmp(command, "SCRIPT LOAD ", 12) == 0)
            loads++;
        else
            tag_b = played_tag(command);
    assert_int_equal(loads, RT_REDIS_SCRIPTS);
    assert_true(tag_b > tag_a);
    char text[128];
    snprintf(text, sizeof(text), "*2\r\n$%d\r\n%llu\r\n:0\r\n", snprintf(NULL, 0, "%llu", tag_a),
             tag_a);
    played_say(&p, 0, text);
    for (int i = 0; i < loads; i++)
        played_say(&p, 0, "$40\r\n0123456789012345678901234567890123456789\r\n");
    snprintf(text, sizeof(text), "*2\r\n$%d\r\n%llu\r\n:0\r\n", snprintf(NULL, 0, "%llu", tag_b),
             tag_b);
    played_say(&p, 0, text);
    assert_answer(0, 0, 1);
    assert_answer(1, 0, 2);
}

static void test_error_before_loads_is_made_sure(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 4000);
    (void)played_next(&p, 0);
    played_say(&p, 0, "-NOSCRIPT No matching script.\r\n");
    answer_echo(0);
    played_say(&p, 0, "-WRONGTYPE no\r\n");
    assert_true(strncmp(played_next(&p, 0), "EVAL ", 5) == 0);
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++) {
        assert_true(strncmp(played_next(&p, 0), "SCRIPT LOAD ", 12) == 0);
        played_say(&p, 0, "$40\r\n0123456789012345678901234567890123456789\r\n");
    }
    answer_echo(0);
    assert_answer(0, ROTA_PROTOCOL, 1);
}

static void test_given_up_is_not_sent_again(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 100);
    (void)played_next(&p, 0);
    played_pass(&p, 150);
    assert_answer(0, ROTA_UNKNOWN, 1);
    played_say(&p, 0, "-NOSCRIPT No matching script.\r\n");
    answer_echo(0);
    assert_string_equal(played_next(&p, 0), "");
}

/* ---- Time -------------------------------------------------------------------------------------------- */

static void test_late_reply_is_swallowed(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 100);
    (void)played_ask(&p, "b", 1000);
    played_pass(&p, 200);
    assert_answer(0, ROTA_UNKNOWN, 1);
    assert_int_equal(p.asked[1].answers, 0);
    played_answer(&p, 0, "a", 0);
    assert_int_equal(p.asked[0].answers, 1);
    played_answer(&p, 0, "b", 0);
    assert_answer(1, 0, 2);
    assert_non_null(p.streams[0].stream);
}

static void test_silence_cuts(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 60000);
    played_pass(&p, 2400); /* ttl/4 */
    assert_int_equal(p.asked[0].answers, 0);
    played_pass(&p, 200);
    assert_answer(0, ROTA_UNKNOWN, 1);
    assert_null(p.streams[0].stream);
    assert_non_null(strstr(p.asked[0].errmsg, "did not answer within 2500 ms"));
}

static void test_not_sent_is_definite(void **state)
{
    (void)state;
    played_end(&p, 0);
    (void)played_ask(&p, "a", 100);
    played_pass(&p, 200);
    assert_answer(0, ROTA_UNREACHABLE, 1);
    assert_non_null(strstr(p.asked[0].errmsg, "the server closed the connection"));
}

static void test_queue_goes_in_order(void **state)
{
    (void)state;
    (void)played_ask(&p, "x", 4000);
    played_end(&p, 0);
    assert_answer(0, ROTA_UNKNOWN, 1);
    (void)played_ask(&p, "a", 4000);
    (void)played_ask(&p, "b", 4000);
    size_t s = link_again();
    played_answer(&p, s, "a", 0);
    played_answer(&p, s, "b", 0);
    assert_answer(1, 0, 2);
    assert_answer(2, 0, 3);
}

static void test_abandoned(void **state)
{
    (void)state;
    int flying = played_ask(&p, "a", 4000);
    rt_ledger_abandon(&p.conn->link.ledger, &p.asked[flying].rq->call.entry, ROTA_CANCELED);
    assert_int_equal(p.asked[flying].answers, 0);
    played_turn(&p);
    assert_answer(flying, ROTA_UNKNOWN, 1);
    played_answer(&p, 0, "a", 0);
    played_end(&p, 0);
    int waiting = played_ask(&p, "b", 4000);
    rt_ledger_abandon(&p.conn->link.ledger, &p.asked[waiting].rq->call.entry, ROTA_CANCELED);
    played_turn(&p);
    assert_answer(waiting, ROTA_CANCELED, 2);
    size_t s = link_again();
    assert_string_equal(played_next(&p, s), "");
}

static void test_back_off_grows_and_ends(void **state)
{
    (void)state;
    p.refuse = 0;
    size_t before = p.opened;
    played_end(&p, 0);
    for (int i = 0; i < 100; i++) { /* 10 s of a server that lets nobody in */
        played_pass(&p, 100);
        for (size_t s = before; s < p.opened; s++)
            if (p.streams[s].stream != NULL)
                played_end(&p, s);
        assert_true(p.opened < before + 50);
        if (p.opened > before + 30)
            break;
    }
    assert_true(p.opened > before + 10);
}

static void test_closed_with_all_under_way(void **state)
{
    (void)state;
    (void)played_ask(&p, "a", 4000);
    played_end(&p, 0);
    (void)played_ask(&p, "b", 4000);
    int answered = p.answered;
    assert_int_equal(answered, 1);
    played_submit(&p);
    /* teardown: nothing is told, nothing leaks */
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ONE(test_in_order),
        ONE(test_byte_by_byte),
        ONE(test_reply_dropped),
        ONE(test_reply_doubled),
        ONE(test_reply_to_nothing),
        ONE(test_not_ours),
        ONE(test_error_is_made_sure),
        ONE(test_error_and_reply),
        ONE(test_error_doubled),
        ONE(test_error_dropped),
        ONE(test_sick_server),
        ONE(test_sick_until_the_deadline),
        ONE(test_scripts_forgotten),
        ONE(test_error_before_loads_is_made_sure),
        ONE(test_given_up_is_not_sent_again),
        ONE(test_late_reply_is_swallowed),
        ONE(test_silence_cuts),
        ONE(test_not_sent_is_definite),
        ONE(test_queue_goes_in_order),
        ONE(test_abandoned),
        ONE(test_back_off_grows_and_ends),
        ONE(test_closed_with_all_under_way),
    };
    scarce_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
