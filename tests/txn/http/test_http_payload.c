/* SPDX-License-Identifier: Apache-2.0 */
/* Branches over HTTP as bytes, addresses, services by name: what needs no server. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "lib/random.h"
#include "txn/http/address.h"
#include "txn/http/payload.h"
#include "txn/http/site.h"

#include <rota.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "hunter2-of-the-test"

static void addresses(void **state)
{
    static const char *const good[] = {
        "http://h",
        "https://h/",
        "http://h:1/a?b=c&d=%20",
        "http://[::1]:65535/x",
        "https://a-b.c_d.example/~x",
        "/",
        "/try?x=1",
        "http://127.0.0.1:80?x",
        "https://h/@x",
    };
    static const char *const bad[] = {
        "",
        "h",
        "ftp://h/",
        "HTTP://h/",
        "http:///x",
        "http://:80/",
        "http://h:0/",
        "http://h:65536/",
        "http://h:/",
        "http://h:8a/",
        "http://u@h/",
        "http://u:" SECRET "@h/",
        "http://h/ x",
        "http://h/\r\nX: y",
        "http://h/#x",
        "http://[::1/",
        "http://[]/",
        "http://[::1]x/",
        "http://h,i/",
        "//h/",
        "http://h/\x80",
        "http://h\\x",
    };
    struct rt_http_address a;
    char errmsg[256], text[RT_HTTP_URL_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (rt_http_address_read(&a, good[i], errmsg, sizeof(errmsg)) != 0)
            fail_msg("%s: %s", good[i], errmsg);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (rt_http_address_read(&a, bad[i], errmsg, sizeof(errmsg)) != ROTA_INVALID)
            fail_msg("%s is taken", bad[i]);
        assert_null(strstr(errmsg, SECRET));
    }
    memset(text, 'x', sizeof(text));
    text[0] = '/';
    text[RT_HTTP_URL_MAX + 1] = '\0';
    assert_int_equal(rt_http_address_read(&a, text, errmsg, sizeof(errmsg)), ROTA_INVALID);
    text[RT_HTTP_URL_MAX] = '\0';
    assert_int_equal(rt_http_address_read(&a, text, errmsg, sizeof(errmsg)), 0);

    assert_int_equal(rt_http_address_read(&a, "https://[::1]:44/x", errmsg, sizeof(errmsg)), 0);
    assert_true(a.secure && a.is_local && !a.is_path && a.port == 44 &&
                a.origin == strlen("https://[::1]:44"));
    assert_int_equal(rt_http_address_read(&a, "http://127.0.0.1.example/x", errmsg, sizeof(errmsg)),
                     0);
    assert_true(!a.is_local && a.port == 80);
    assert_int_equal(rt_http_address_read(&a, "http://127.8.0.1/x", errmsg, sizeof(errmsg)), 0);
    assert_true(a.is_local);
}

static void bytes_and_back(void **state)
{
    const struct rt_http_payload in = {.urls = {"http://h/try", "/confirm?a=b", ""},
                                       .type = "application/json; charset=utf-8",
                                       .body = "{\"a\0b\":1}",
                                       .size = 9};
    struct rt_http_payload out;
    char errmsg[256];
    size_t n = 0;

    (void)state;
    assert_int_equal(rt_http_payload_check(&in, &n, errmsg, sizeof(errmsg)), 0);
    uint8_t *bytes = malloc(n + 1);
    assert_non_null(bytes);
    rt_http_payload_write(&in, bytes);
    assert_true(rt_http_payload_read(bytes, n, &out));
    for (int i = 0; i < 3; i++)
        assert_string_equal(out.urls[i], in.urls[i]);
    assert_string_equal(out.type, in.type);
    assert_int_equal(out.size, in.size);
    assert_memory_equal(out.body, in.body, in.size);

    assert_false(rt_http_payload_read(bytes, n + 1, &out));
    for (size_t size = 0; size < n;
         size++) { /* exactly so large, so that a sanitizer sees who reads on */
        uint8_t *part = malloc(size > 0 ? size : 1);
        memcpy(part, bytes, size);
        assert_false(rt_http_payload_read(part, size, &out));
        free(part);
    }
    bytes[0] = 2;
    assert_false(rt_http_payload_read(bytes, n, &out));
    assert_string_equal(out.urls[0], in.urls[0]); /* as before */
    free(bytes);
}

static void hostile_bytes(void **state)
{
    const struct rt_http_payload in = {
        .urls = {"http://h/t", "http://h/c", "/x"}, .type = "t/p", .body = "b", .size = 1};
    struct rt_random random = {15};
    char errmsg[256];
    size_t n;

    (void)state;
    assert_int_equal(rt_http_payload_check(&in, &n, errmsg, sizeof(errmsg)), 0);
    for (int i = 0; i < 20000; i++) {
        struct rt_http_payload out;
        size_t size = rt_random_below(&random, 4) == 0 ? rt_random_below(&random, 64) : n, whole;
        uint8_t *bytes = malloc(size + n);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)rt_random_below(&random, 256);
        if (size == n)
            rt_http_payload_write(&in, bytes);
        for (uint32_t k = rt_random_below(&random, 4); k > 0; k--)
            bytes[rt_random_below(&random, (uint32_t)size + 1) % (size + n)] = (uint8_t)
                rt_random_below(&random, 256);
        uint8_t *exact = malloc(size > 0 ? size : 1);
        memcpy(exact, bytes, size);
        if (rt_http_payload_read(exact, size, &out)) { /* then it is a good one, whatever it says */
            assert_int_equal(rt_http_payload_check(&out, &whole, errmsg, sizeof(errmsg)), 0);
            assert_int_equal(whole, size);
        }
        free(exact);
        free(bytes);
    }
}

static void what_is_refused(void **state)
{
    char errmsg[256], type[200];
    static char body[RT_HTTP_PAYLOAD_MAX];
    struct rt_http_payload p = {
        .urls = {"/t", "/c", "/x"}, .type = "", .body = body, .size = sizeof(body)};
    size_t n;

    (void)state;
    assert_int_equal(rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)), ROTA_INVALID);
    assert_non_null(strstr(errmsg, "32768"));
    p.size = RT_HTTP_PAYLOAD_MAX - (13 + 3 * 3 + 1);
    assert_int_equal(rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)), 0);
    assert_int_equal(n, RT_HTTP_PAYLOAD_MAX);
    p.size++;
    assert_int_equal(rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)), ROTA_INVALID);
    p.size = 0;
    p.type = "a\r\nX-Evil: 1";
    assert_int_equal(rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)), ROTA_INVALID);
    memset(type, 't', sizeof(type));
    type[RT_HTTP_TYPE_MAX + 1] = '\0';
    p.type = type;
    assert_int_equal(rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)), ROTA_INVALID);
    p.type = "";
    p.urls[2] = "http://u:" SECRET "@h/";
    assert_int_equal(rt_http_payload_check(&p, &n, errmsg, sizeof(errmsg)), ROTA_INVALID);
    assert_null(strstr(errmsg, SECRET));
    assert_non_null(strstr(errmsg, "token_file"));
}

static void services(void **state)
{
    static const struct {
        const char *url, *says;
    } bad[] = {
        {"https://u:" SECRET "@h/", "not have a user or a password"},
        {"https://h/?ttl=3s", "has no parameter 'ttl'"},
        {"https://h/?ca=", "is empty"},
        {"http://h/?ca=x", "https:// only"},
        {"https://h/?key=x", "needs its certificate"},
        {"http://h/?token_file=x", "https:// only"},
        {"https://h,i/", "no host"},
        {"https:///x", "no host"},
    };
    struct rt_http_site *site;
    char errmsg[256], path[300], token[RT_HTTP_TOKEN_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(rt_http_site_new(&site, bad[i].url, errmsg, sizeof(errmsg)), ROTA_INVALID);
        if (strstr(errmsg, bad[i].says) == NULL || strstr(errmsg, SECRET) != NULL)
            fail_msg("'%s' is not in: %s", bad[i].says, errmsg);
    }
    assert_int_equal(
        rt_http_site_new(&site, "http://[::1]:8080/a%20b/?token_file=%2Ft", errmsg, sizeof(errmsg)),
        0);
    assert_string_equal(site->base, "http://[::1]:8080/a%20b");
    assert_string_equal(site->token_file, "/t");
    assert_null(site->ca);
    rt_http_site_let_go(rt_http_site_hold(site));
    rt_http_site_let_go(site);
    rt_http_site_let_go(NULL);

    static const char *const tokens[] = {"", "\n", "a b\n", "a\tb\n"};
    snprintf(path, sizeof(path), "%s/token", rt_tmpdir());
    for (size_t i = 0; i <= sizeof(tokens) / sizeof(tokens[0]); i++) {
        bool good = i == sizeof(tokens) / sizeof(tokens[0]);
        FILE *file = fopen(path, "we");
        fputs(good ? "right\nmore\n" : tokens[i], file);
        fclose(file);
        assert_int_equal(rt_http_token_read(path, token, errmsg, sizeof(errmsg)),
                         good ? 0 : ROTA_INVALID);
    }
    assert_string_equal(token, "right");
    assert_int_equal(rt_http_token_read("/nowhere/token", token, errmsg, sizeof(errmsg)),
                     ROTA_INVALID);
    assert_non_null(strstr(errmsg, "/nowhere/token"));
}

int main(void)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(addresses),     cmocka_unit_test(bytes_and_back),
        cmocka_unit_test(hostile_bytes), cmocka_unit_test(what_is_refused),
        cmocka_unit_test(services),
    };

    return cmocka_run_group_tests_name("http payload", all, NULL, NULL);
}
