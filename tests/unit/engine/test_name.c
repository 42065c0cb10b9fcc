/* SPDX-License-Identifier: Apache-2.0 */
/* Names: what is accepted, what is refused, and that spellings never collide. */
#include "engine/name.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char message[256];

static struct rt_spelling spelling(const char *prefix, bool raw)
{
    struct rt_spelling sp;
    assert_int_equal(rt_spelling_init(&sp, prefix, raw, message, sizeof(message)), 0);
    return sp;
}

static void good_and_bad_names(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a",   "stock/42", "Müller", "日本", "\xf0\x9f\x94\x92", "a b",
        "%41", "..",       "../x",   "a:b",  "'; drop table",    "\"",
        "*",   "\\"};
    static const char *const bad[] = {"",
                                      "tab\there",
                                      "new\nline",
                                      "\x01",
                                      "\x7f",
                                      "\xc2\x85",         /* U+0085, a control character */
                                      "\xff",             /* no UTF-8 */
                                      "\xc0\xaf",         /* too long for what it says */
                                      "\xe0\x80\xaf",     /* the same in three */
                                      "\xed\xa0\x80",     /* a surrogate */
                                      "\xf4\x90\x80\x80", /* beyond the last character */
                                      "\xc3",             /* cut off */
                                      "\xe2\x82",         /* cut off later */
                                      "\x80"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (rt_name_fault(good[i]) != NULL)
            fail_msg("'%s' %s", good[i], rt_name_fault(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (rt_name_fault(bad[i]) == NULL)
            fail_msg("bad name %zu was taken", i);
    assert_non_null(rt_name_fault(NULL));

    char long_name[257];
    memset(long_name, 'x', 256);
    long_name[256] = '\0';
    assert_non_null(strstr(rt_name_fault(long_name), "255"));
    long_name[255] = '\0';
    assert_null(rt_name_fault(long_name));
}

static void spellings_to_the_byte(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"stock", "stock"},       {"a/b", "a%2Fb"}, {"100%", "100%25"}, {"a b", "a%20b"},
        {"A-z.0_9:", "A-z.0_9:"}, {"é", "%C3%A9"},  {"~", "%7E"},       {"..", ".."},
    };
    struct rt_spelling sp = spelling("", false);
    char out[RT_NAME_ROOM], back[RT_NAME_ROOM];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(rt_name_spell(&sp, cases[i][0], out), strlen(cases[i][1]));
        assert_string_equal(out, cases[i][1]);
        assert_true(rt_name_read(&sp, out, back));
        assert_string_equal(back, cases[i][0]);
    }
}

static void prefix_and_raw(void **state)
{
    (void)state;
    char out[RT_NAME_ROOM], back[RT_NAME_ROOM];
    struct rt_spelling sp = spelling("app/", false);
    rt_name_spell(&sp, "x/y", out);
    assert_string_equal(out, "app%2Fx%2Fy");
    assert_true(rt_name_read(&sp, out, back));
    assert_string_equal(back, "x/y");
    assert_false(rt_name_read(&sp, "other%2Fx", back));

    sp = spelling("app/", true);
    rt_name_spell(&sp, "x/y%", out);
    assert_string_equal(out, "app/x/y%");
    assert_true(rt_name_read(&sp, out, back));
    assert_string_equal(back, "x/y%");

    struct rt_spelling bad;
    assert_int_equal(rt_spelling_init(&bad, "a\nb", false, message, sizeof(message)), ROTA_INVALID);
    assert_non_null(strstr(message, "prefix"));
}

static void only_own_spellings_are_read(void **state)
{
    (void)state;
    static const char *const foreign[] = {"a/b",  "a%2fb", "a%2", "a%",  "a%41",
                                          "a%00", "a b",   "",    "a%GG"};
    struct rt_spelling sp = spelling("", false);
    char back[RT_NAME_ROOM];
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (rt_name_read(&sp, foreign[i], back))
            fail_msg("'%s' was read as '%s'", foreign[i], back);
}

static void nothing_is_copied_without_need(void **state)
{
    (void)state;
    char room[RT_NAME_ROOM];
    const char *extra;
    struct rt_spelling sp = spelling("", false);
    const char *plain = "plain:name", *special = "a/b";
    assert_ptr_equal(rt_name_spelled(&sp, plain, room, &extra), plain);
    assert_null(extra);
    assert_ptr_equal(rt_name_spelled(&sp, special, room, &extra), room);
    assert_ptr_equal(extra, special);
    assert_true(rt_name_escaped(&sp, room));
    assert_false(rt_name_escaped(&sp, plain));
    sp = spelling("p:", false);
    assert_string_equal(rt_name_spelled(&sp, plain, room, &extra), "p:plain:name");
    assert_null(extra);
}

/* A random name of bytes that make trouble: escapes, separators, wild cards, quotes, UTF-8. */
static void random_name(char *out, unsigned *seed)
{
    static const char *const bits[] = {"%", "2F", "/",  "a", "Z", "\"", "'",
                                       "*", "é",  "日", ":", ".", " ",  "_"};
    int n = 1 + (int)(rand_r(seed) % 6);
    out[0] = '\0';
    for (int i = 0; i < n; i++)
        strcat(out, bits[(size_t)rand_r(seed) % (sizeof(bits) / sizeof(bits[0]))]);
}

static void random_names_come_back_and_never_meet(void **state)
{
    (void)state;
    unsigned seed = 42;
    struct rt_spelling sp = spelling("p/%", false);
    for (int i = 0; i < 20000; i++) {
        char a[64], b[64], sa[RT_NAME_ROOM], sb[RT_NAME_ROOM], back[RT_NAME_ROOM];
        random_name(a, &seed);
        random_name(b, &seed);
        rt_name_spell(&sp, a, sa);
        rt_name_spell(&sp, b, sb);
        assert_int_equal(strcmp(a, b) == 0, strcmp(sa, sb) == 0);
        assert_true(rt_name_read(&sp, sa, back));
        assert_string_equal(back, a);
        if (strncmp(a, b, strlen(a)) == 0) /* a beginning is spelled as the beginning */
            assert_int_equal(strncmp(sa, sb, strlen(sa)), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_and_bad_names),
        cmocka_unit_test(spellings_to_the_byte),
        cmocka_unit_test(prefix_and_raw),
        cmocka_unit_test(only_own_spellings_are_read),
        cmocka_unit_test(nothing_is_copied_without_need),
        cmocka_unit_test(random_names_come_back_and_never_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
