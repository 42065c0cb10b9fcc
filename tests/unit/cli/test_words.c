/* SPDX-License-Identifier: Apache-2.0 */
/* How the command writes others' words, times and labels. */
#include "cli/json.h"
#include "cli/out.h"
#include "cli/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

static void terminals_are_not_commanded(void **state)
{
    char out[16];

    (void)state;
    assert_string_equal(rt_out_clean("a\033[31m\n\x7f", out, sizeof(out)), "a?[31m??");
    assert_string_equal(rt_out_clean("\xc2\x9b"
                                     "1m",
                                     out, sizeof(out)),
                        "?1m");
    assert_string_equal(rt_out_clean("gr\xc3\xbc\xc3\x9f\x65", out, sizeof(out)),
                        "gr\xc3\xbc\xc3\x9f\x65");
    assert_string_equal(rt_out_clean("0123456789abcdefg", out, sizeof(out)), "0123456789abcde");
    assert_string_equal(rt_out_clean("0123456789abcd\xc3\xbc", out, sizeof(out)), "0123456789abcd");
}

static void only_whole_harmless_characters_are_shown(void **state)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"a\x01\x1f\x7f"
         "b",
         "a???b"}, /* C0, DEL */
        {"a\xc2\x80"
         "b\xc2\x9f"
         "c\xc2\xa0"
         "d",
         "a?b?c\xc2\xa0"
         "d"}, /* C1, and the one after */
        {"a\x80\x9b"
         "31m\xff",
         "a??31m?"}, /* C1 as single bytes */
        {"\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf",
         "\xe2\x80\xa9??\xe2\x80\xaf"}, /* U+202A..202E, and those around */
        {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
         "\xe2\x81\xa5??\xe2\x81\xaa"}, /* U+2066..2069, and those around */
        {"x\xc2", "x?"},                /* ends too early */
        {"\xe4\xb8"
         "x\xf0\x9f\x98",
         "??x???"},                                            /* likewise */
        {"\xc0\x9b\xe0\x82\x9b\xf0\x80\x82\x9b", "?????????"}, /* longer than they need be */
        {"\xed\xa0\x80\xf4\x90\x80\x80\xf8", "????????"},      /* surrogate, beyond the last */
        {"\xe4\xb8\xad\xf0\x9f\x98\x80", "\xe4\xb8\xad\xf0\x9f\x98\x80"},
    };
    char out[32], same[32];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(rt_out_clean(cases[i].text, out, sizeof(out)), cases[i].wanted);
        strcpy(same, cases[i].text);
        assert_string_equal(rt_out_clean(same, same, sizeof(same)), cases[i].wanted);
    }
}

/* What rt_out_error writes for a name, without the terminal. */
static void errors_are_clean_too(void **state)
{
    char line[64] = "";
    int fds[2], before = dup(STDERR_FILENO);

    (void)state;
    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    rt_out_error("'%s'", "a\033\xc2\x9b\x9b\xe2\x80\xae\xc3\xbc");
    dup2(before, STDERR_FILENO);
    assert_true(read(fds[0], line, sizeof(line) - 1) > 0);
    assert_string_equal(line, "rota: 'a????\xc3\xbc'\n");
    close(before);
    close(fds[0]);
    close(fds[1]);
}

static void widths(void **state)
{
    (void)state;
    assert_int_equal(rt_out_width(""), 0);
    assert_int_equal(rt_out_width("gr\xc3\xbc\xc3\x9f\x65"), 5);
    assert_int_equal(rt_out_width("\xe5\xa4\x87\xe4\xbb\xbd"), 4); /* CJK */
    assert_int_equal(rt_out_width("\xea\xb0\x80\xed\x9e\xa3"), 4); /* Hangul */
    assert_int_equal(rt_out_width("\xef\xbc\xa1\xef\xbd\xb1"), 3); /* fullwidth A, halfwidth a */
    assert_int_equal(rt_out_width("\xf0\x9f\x98\x80"), 2);         /* emoji */
    assert_int_equal(rt_out_width("e\xcc\x81x"), 2);               /* combining */
    assert_int_equal(rt_out_width("\xe5\xa4"), 2); /* no character: a column for each byte */
}

static void what_fits(void **state)
{
    const char *text = "a\xe5\xa4\x87\xe4\xbb\xbd"
                       "e\xcc\x81";
    static const struct {
        size_t columns, bytes, used;
    } cases[] = {{0, 0, 0}, {1, 1, 1}, {2, 1, 1},  {3, 4, 3},
                 {4, 4, 3}, {5, 7, 5}, {6, 10, 6}, {9, 10, 6}};
    size_t used;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(rt_out_fit(text, cases[i].columns, &used), cases[i].bytes);
        assert_int_equal(used, cases[i].used);
    }
}

static void times(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {59999, "59 s"},
        {192000, "3 min 12 s"},
        {7500000, "2 h 5 min"},
        {86400000, "1 d 0 h"},
        {31622400000, "366 d 0 h"},
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(rt_out_time(cases[i].ms, out, sizeof(out)), cases[i].text);
}

static void labels(void **state)
{
    static const char *const other[] = {
        "",     "me",   "/1/x",   "h/x/y",  "h/1",
        "h/1/", "h//x", "h/-1/x", "h/1x/y", "h/99999999999999999999/x",
    };
    struct rt_ticket_who who;

    (void)state;
    assert_true(rt_ticket_who("host/42/a/b", &who));
    assert_int_equal(who.host_bytes, 4);
    assert_int_equal(who.process, 42);
    assert_string_equal(who.program, "a/b");
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        assert_false(rt_ticket_who(other[i], &who));
}

static void owners(void **state)
{
    struct rota_place place = {.owner = 0};
    char out[48];

    (void)state;
    assert_string_equal(rt_ticket_owner(&place, out, sizeof(out)), "");
    place.owner = 7;
    assert_string_equal(rt_ticket_owner(&place, out, sizeof(out)), "owner 7");
    place.owner = UINT64_C(1) << 63 | 2;
    assert_string_equal(rt_ticket_owner(&place, out, sizeof(out)), "thread 2");
}

static void json_is_always_utf8(void **state)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", ""},
        {"gr\xc3\xbc", "gr\xc3\xbc"},
        {"a\xff\xc3\xbc\xf0\x9f", "a\xef\xbf\xbd\xc3\xbc\xef\xbf\xbd\xef\xbf\xbd"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *text = rt_json_text(cases[i].text);
        assert_string_equal(json_string_value(text), cases[i].wanted);
        json_decref(text);
    }
    json_t *id = rt_json_id(UINT64_MAX);
    assert_string_equal(json_string_value(id), "18446744073709551615");
    json_decref(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminals_are_not_commanded),
        cmocka_unit_test(only_whole_harmless_characters_are_shown),
        cmocka_unit_test(errors_are_clean_too),
        cmocka_unit_test(widths),
        cmocka_unit_test(what_fits),
        cmocka_unit_test(times),
        cmocka_unit_test(labels),
        cmocka_unit_test(owners),
        cmocka_unit_test(json_is_always_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
