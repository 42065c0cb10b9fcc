/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: how they are taken apart, what is refused with helpful words, and what is never shown. */
#include "engine/url.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char message[256];

static struct rt_url parse(const char *text)
{
    struct rt_url url;
    message[0] = '\0';
    int rv = rt_url_parse(&url, text, message, sizeof(message));
    if (rv != 0)
        fail_msg("%s: %s", text, message);
    return url;
}

static void refuse(const char *text, const char *word)
{
    struct rt_url url;
    message[0] = '\0';
    assert_int_equal(rt_url_parse(&url, text, message, sizeof(message)), ROTA_INVALID);
    if (strstr(message, word) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, message, word);
    assert_null(strchr(message, '\n'));
    assert_null(url.text);
    assert_null(url.redacted);
}

static void paths_without_a_host(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"file:", "file", ""},
        {"file:/some/folder", "file", "/some/folder"},
        {"file:///some/folder", "file", "/some/folder"},
        {"file:relative", "file", "relative"},
        {"mem:name", "mem", "name"},
        {"redis+unix:/run/redis.sock", "redis+unix", "/run/redis.sock"},
        {"file:/with%20space%2Fslash", "file", "/with space/slash"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rt_url url = parse(cases[i][0]);
        assert_string_equal(url.scheme, cases[i][1]);
        assert_string_equal(url.path, cases[i][2]);
        assert_int_equal(url.host_count, 0);
        assert_string_equal(url.user, "");
        assert_string_equal(url.password, "");
        rt_url_fini(&url);
    }
}

static void hosts_ports_and_users(void **state)
{
    (void)state;
    struct rt_url url = parse("etcd://me@one:2379,[::1]:2380,three/base/path?ttl=5s");
    assert_string_equal(url.user, "me");
    assert_int_equal(url.host_count, 3);
    assert_string_equal(url.hosts[0].host, "one");
    assert_int_equal(url.hosts[0].port, 2379);
    assert_string_equal(url.hosts[1].host, "::1");
    assert_int_equal(url.hosts[1].port, 2380);
    assert_string_equal(url.hosts[2].host, "three");
    assert_int_equal(url.hosts[2].port, 0);
    assert_string_equal(url.path, "/base/path");
    assert_string_equal(rt_url_param(&url, "ttl", ""), "5s");
    assert_null(rt_url_param(&url, "prefix", NULL));
    rt_url_fini(&url);

    url = parse("redis://host");
    assert_string_equal(url.hosts[0].host, "host");
    assert_string_equal(url.path, "");
    rt_url_fini(&url);
}

static void parameters_are_decoded(void **state)
{
    (void)state;
    struct rt_url url = parse("file:?prefix=a%26b%3D&names=raw&ttl=");
    assert_int_equal(url.param_count, 3);
    assert_string_equal(rt_url_param(&url, "prefix", ""), "a&b=");
    assert_string_equal(rt_url_param(&url, "ttl", "x"), "");
    rt_url_fini(&url);
}

static void passwords_are_never_shown(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"redis://me:hunter2@host/0", "hunter2", "redis://me:***@host/0"},
        {"redis://:hunter2@host", "hunter2", "redis://:***@host"},
        {"redis://me:a%40hunter2@h1,h2", "a@hunter2", "redis://me:***@h1,h2"},
        {"redis://me:x@host", "x", "redis://me:*@host"},
        {"redis://me@host", "", "redis://me@host"},
        {"redis://host:6379/", "", "redis://host:6379/"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rt_url url = parse(cases[i][0]);
        assert_string_equal(url.password, cases[i][1]);
        assert_string_equal(url.redacted, cases[i][2]);
        rt_url_fini(&url);
    }
    struct rt_url url;
    assert_int_not_equal(
        rt_url_parse(&url, "redis://me:hunter2@host:99999", message, sizeof(message)), 0);
    assert_null(strstr(message, "hunter2"));
}

/* What rota_open says of URL, whichever part of it fails. */
static const char *open_and_fail(const char *url)
{
    struct rota_options opts = {.call_ms = 1, .flags = ROTA_NO_KEEPER};
    struct rota *r = NULL;
    assert_int_not_equal(rota_open(&r, url, &opts), 0);
    return rota_errmsg(NULL);
}

static void assert_no_part(const char *url, const char *text)
{
    static const char *const parts[] = {"hunter", "secret", "4711"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(url, parts[i]) != NULL && strstr(text, parts[i]) != NULL)
            fail_msg("%s: '%s' shows %s", url, text, parts[i]);
}

/* Passwords that somebody forgot to escape: no part of them in any message, whatever it is taken for. */
static void unescaped_passwords_are_never_shown(void **state)
{
    static const char *const schemes[] = {"redis", "rediss", "etcd",
                                          "etcds", "nosuch", "redis+unix"};
    static const char *const slashes[] = {"", "/", "//", "///"};
    static const char *const hosts[] = {"127.0.0.1:1", "[::1]:1",
                                        "nowhere.invalid,127.0.0.1:1/0?ttl=5s"};
    static const char marks[] = "/?#@:&=,[]%+; '\"\\";
    static const char *const more[] = {"4711/secret",
                                       "4711?secret",
                                       "4711?secret=hunter",
                                       "4711/?names=secret",
                                       "4711?db=secret",
                                       "4711/hunter@secret",
                                       "hunter@4711/secret",
                                       "4711?dialect=secret",
                                       "4711?replicas=secret",
                                       "4711?password_file=secret",
                                       "4711?ca=secret",
                                       "4711?a=1&a=secret",
                                       "4711?secret=1&secret=1",
                                       "4711?ttl=secret",
                                       "4711/%zzsecret",
                                       "4711?prefix=%00secret",
                                       "/secret",
                                       "?secret",
                                       "4711/"};
    const size_t singles = sizeof(marks) - 1, count = singles + sizeof(more) / sizeof(more[0]);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        char password[64];
        snprintf(password, sizeof(password), "hunter%csecret", marks[i < singles ? i : 0]);
        if (i >= singles)
            snprintf(password, sizeof(password), "%s", more[i - singles]);
        for (size_t k = 0; k < 6 * 4 * 3 * 2; k++) {
            struct rt_url url;
            char text[256];
            snprintf(text, sizeof(text), "%s:%s%s:%s@%s", schemes[k % 6], slashes[k / 6 % 4],
                     k / 72 == 0 ? "me" : "", password, hosts[k / 24 % 3]);
            message[0] = '\0';
            bool good = rt_url_parse(&url, text, message, sizeof(message)) == 0;
            assert_no_part(text, good ? url.redacted : message);
            if (good)
                rt_url_fini(&url);
            bool path = k % 6 == 5;                 /* of a socket, which is shown */
            if (!good || (k / 6 % 4 != 2 && !path)) /* a good one may wait for its server */
                assert_no_part(text, open_and_fail(text));
        }
    }
    assert_no_part("hunter@secret", open_and_fail("hunter@secret"));
}

/* An @ elsewhere does not belong to a password, where none can be. */
static void other_ats_are_fine(void **state)
{
    static const char *const cases[][2] = {
        {"redis://ada@db/?password_file=/run/credentials/worker@1.service/pw", "/"},
        {"file:/home/me@corp/locks", "/home/me@corp/locks"},
        {"file:///home/me@corp:x/locks@y", "/home/me@corp:x/locks@y"},
        {"redis+unix:/run/user@1000/redis.sock", "/run/user@1000/redis.sock"},
        {"redis://ada:pw@db:6379/0?prefix=a%40b", "/0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rt_url url = parse(cases[i][0]);
        assert_string_equal(url.path, cases[i][1]);
        if (i < 4)
            assert_string_equal(url.redacted, cases[i][0]);
        rt_url_fini(&url);
    }
    refuse("redis://db:6379/?password_file=/run/credentials/worker@1.service/pw", "%40");
    refuse("redis://u:123/tail@host", "%2F");
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    refuse("", "engine");
    refuse("nocolon", "colon");
    refuse("Upper://x", "engine");
    refuse(":x", "engine");
    refuse("redis://host:0", "port");
    refuse("redis://host:65536", "port");
    refuse("redis://host:12x", "port");
    refuse("redis://host:", "port");
    refuse("redis://[::1", "]");
    refuse("redis://[::1]x", "]");
    refuse("redis://::1", "IPv6");
    refuse("redis://a,,b", "empty host");
    refuse("redis://me@,b", "empty host");
    refuse("file:/x?novalue", "name=value");
    refuse("file:/x?=v", "name=value");
    refuse("file:/x?ttl=1&ttl=2", "twice");
    refuse("file:/bad%escape", "escape");
    refuse("file:/zero%00byte", "%00");
    refuse("file:?a=%2", "escape");
    refuse("redis://u%zz@h", "escape");

    char text[RT_URL_MAX + 2] = "file:";
    memset(text + 5, 'x', sizeof(text) - 6);
    text[sizeof(text) - 1] = '\0';
    refuse(text, "longer");

    char many[512] = "x://h0";
    for (int i = 1; i <= RT_URL_HOSTS_MAX; i++)
        snprintf(many + strlen(many), sizeof(many) - strlen(many), ",h%d", i);
    refuse(many, "hosts");
}

static void unknown_parameters_are_named(void **state)
{
    (void)state;
    static const char *const own[] = {"sync", NULL};
    struct rt_url url = parse("file:?ttl=1s&sync=full&tpyo=1");
    assert_int_equal(rt_url_check_params(&url, own, message, sizeof(message)), ROTA_INVALID);
    assert_non_null(strstr(message, "'tpyo'"));
    assert_non_null(strstr(message, "sync"));
    assert_non_null(strstr(message, "prefix"));
    rt_url_fini(&url);

    url = parse("file:?ttl=1s&sync=full&prefix=p&names=raw&dialect=line");
    assert_int_equal(rt_url_check_params(&url, own, message, sizeof(message)), 0);
    rt_url_fini(&url);
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"500ms", 500},  {"30s", 30000}, {"5m", 300000},
                {"1h", 3600000}, {"17", 17},     {"0", 0}};
    static const char *const bad[] = {"",     "s",   "-1s", "1d",
                                      "1.5s", " 1s", "1s ", "99999999999999999999s"};
    uint64_t ms;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(rt_url_duration_ms(good[i].text, &ms), 0);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(rt_url_duration_ms(bad[i], &ms), ROTA_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_without_a_host),
        cmocka_unit_test(hosts_ports_and_users),
        cmocka_unit_test(parameters_are_decoded),
        cmocka_unit_test(passwords_are_never_shown),
        cmocka_unit_test(unescaped_passwords_are_never_shown),
        cmocka_unit_test(other_ats_are_fine),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(unknown_parameters_are_named),
        cmocka_unit_test(durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
