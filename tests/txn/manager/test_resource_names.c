/* SPDX-License-Identifier: Apache-2.0 */
/* Names of resources in files, and places as bytes: what needs no server. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "txn/http/site.h"
#include "txn/manager/resource.h"

#include <rota.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECRET "hunter2-of-the-test"

struct told {
    struct rt_resources *table;
    int warnings;
    char line[256];
};

static void on_warn(void *arg, const char *line)
{
    struct told *b = arg;

    b->warnings++;
    snprintf(b->line, sizeof(b->line), "%s", line);
}

static void told_open(struct told *b)
{
    *b = (struct told){0};
    const struct rt_resources_hooks hooks = {.arg = b, .warn = on_warn};
    assert_int_equal(rt_resources_open(&b->table, &hooks), 0);
}

static int loaded(struct told *b, const char *path, const char *text, char *errmsg)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    errmsg[0] = '\0';
    return rt_resources_load(b->table, path, errmsg, 256);
}

static void count(void *arg, struct rt_resource *r)
{
    int *n = arg;

    assert_int_equal(rt_resource_index(r), *n);
    (*n)++;
}

static void files_of_names(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"# ok\n\nshop\n", "txn:3: this is not NAME = URL"},
        {"mysql://u:" SECRET "@h/d\n", "txn:1: this is not NAME = URL"},
        {"a = mysql://u:" SECRET "/x@h/d\n", "txn:1: the URL has an @"},
        {"a = redis://h\n", "txn:1: 'redis' is not a database"},
        {"b = mysql://h/d?what=1\n", "has no parameter 'what'"},
        {"rota:note = mysql://h/d\n", "txn:1: the name of a resource"},
        {" = mysql://h/d\n", "txn:1: the name of a resource"},
        {"on_attention =  \n", "txn:1: on_attention has no command"},
        {"on_attention = x\n on_attention=y\n", "txn:2: on_attention is named twice"},
        {"two = mysql://h/d\ntwo = mysql://i/d\n", "txn:2: 'two' is named twice"},
        {"a\xe4 = mysql://h/d\n", "txn:1: the name of a resource is not UTF-8"},
        {"a = mysql://u:" SECRET "\xe4@h/d\n", "txn:1: the URL of a resource is not UTF-8"},
        {"a = http://h/\xe4\n",
         "txn:1: the URL of a resource is not UTF-8: write other bytes as %XX"},
    };
    char path[300], errmsg[256], url[300];
    struct told b;
    int n = 0;

    (void)state;
    told_open(&b);
    snprintf(path, sizeof(path), "%s/txn", rt_tmpdir());
    umask(022);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(loaded(&b, path, bad[i].text, errmsg) != 0);
        if (strstr(errmsg, bad[i].says) == NULL || strstr(errmsg, SECRET) != NULL)
            fail_msg("'%s' is not in: %s", bad[i].says, errmsg);
    }
    assert_int_equal(b.warnings, 0);
    assert_string_equal(rt_resources_on_attention(b.table), "x");
    assert_int_equal(loaded(&b, path, "on_attention = z a=b  \n", errmsg), 0);
    assert_string_equal(rt_resources_on_attention(b.table), "x"); /* the first file's */
    assert_null(rt_resources_find(b.table, "on_attention"));
    assert_int_equal(loaded(&b, path,
                            "shop = mysql://u:" SECRET "@h/d\n"
                            "  ledger=postgres://u@h/d?sslmode=disable  \n",
                            errmsg),
                     0);
    assert_int_equal(b.warnings, 1);
    assert_non_null(strstr(b.line, "chmod 600"));
    assert_null(strstr(b.line, SECRET));
    assert_int_equal(loaded(&b, path, "shop = mysql://other@h/d\n", errmsg),
                     0); /* the first stays */
    rt_resource_url(rt_resources_find(b.table, "shop"), url, sizeof(url));
    assert_string_equal(url, "mysql://u:***@h/d");
    assert_null(rt_resources_find(b.table, "a"));
    rt_resources_each(b.table, count, &n);
    assert_int_equal(n, 3); /* and the first of two */
    assert_int_equal(rt_resources_load(b.table, "/nowhere/txn", errmsg, sizeof(errmsg)),
                     ROTA_INVALID);
    assert_non_null(strstr(errmsg, "/nowhere/txn"));
    rt_resources_close(b.table);

    told_open(&b); /* without a path: what is there */
    setenv("XDG_CONFIG_HOME", rt_tmpdir(), 1);
    rt_resources_system = path;
    assert_int_equal(rt_resources_load(b.table, NULL, errmsg, sizeof(errmsg)), 0);
    assert_non_null(rt_resources_find(b.table, "shop"));
    rt_resources_close(b.table);
    rt_resources_close(NULL);
}

static void services_by_name(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"stock = http://u:" SECRET "@h/\n", "txn:1: the URL of a service must not have a user"},
        {"stock = http://h/\nstock = http://i/\n", "txn:2: 'stock' is named twice"},
        {"both = mysql://h/d\nboth = http://i/\n", "txn:2: 'both' is named twice"},
        {"also = https://i/\nalso = mysql://h/d\n", "txn:2: 'also' is named twice"},
        {"x = ftp://h/\n", "for a service https://"},
    };
    char path[300], errmsg[256];
    struct told b;
    int n = 0;

    (void)state;
    told_open(&b);
    snprintf(path, sizeof(path), "%s/txn", rt_tmpdir());
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(path, sizeof(path), "%s/txn", rt_tmpdir());
        assert_true(loaded(&b, path, bad[i].text, errmsg) != 0);
        if (strstr(errmsg, bad[i].says) == NULL || strstr(errmsg, SECRET) != NULL)
            fail_msg("'%s' is not in: %s", bad[i].says, errmsg);
    }
    assert_int_equal(
        loaded(&b, path,
               "pay = https://pay.example/api/?ca=/ca.pem&token_file=/token\n"
               "stock = http://other/\nboth = http://h/\nalso = mysql://h/d\n", /* the first stay */
               errmsg),
        0);
    struct rt_http_site *site = rt_resources_site(b.table, "pay");
    assert_non_null(site);
    assert_string_equal(site->base, "https://pay.example/api");
    assert_string_equal(site->ca, "/ca.pem");
    assert_int_equal(rt_resources_add(b.table, "pay", "https://elsewhere/", errmsg, sizeof(errmsg)),
                     0);
    assert_string_equal(site->base, "https://pay.example/api"); /* whoever holds it has it */
    rt_http_site_let_go(site);
    site = rt_resources_site(b.table, "pay");
    assert_string_equal(site->base, "https://elsewhere");
    rt_http_site_let_go(site);
    site = rt_resources_site(b.table, "stock");
    assert_string_equal(site->base, "http://h");
    rt_http_site_let_go(site);
    assert_null(rt_resources_site(b.table, "both"));
    assert_null(rt_resources_find(b.table, "also"));
    assert_null(rt_resources_find(b.table, "pay"));
    assert_true(rt_resources_knows(b.table, "pay") && rt_resources_knows(b.table, "both"));
    assert_false(rt_resources_knows(b.table, "nobody"));
    rt_resources_each(b.table, count, &n);
    assert_int_equal(n, 1);
    assert_int_equal(rt_resources_add(b.table, "pay", "mysql://h/d", errmsg, sizeof(errmsg)),
                     ROTA_INVALID);
    assert_non_null(strstr(errmsg, "is a service already"));
    assert_int_equal(rt_resources_add(b.table, "both", "http://h/", errmsg, sizeof(errmsg)),
                     ROTA_INVALID);
    assert_non_null(strstr(errmsg, "is a database already"));
    rt_resources_close(b.table);
}

static void places_as_bytes(void **state)
{
    struct rt_place place = {.identity = 0x0123456789abcdef, .marks = "`my db`.rota_mark"}, back;
    uint8_t bytes[RT_PLACE_BYTES + 1];

    (void)state;
    size_t n = rt_place_write(&place, bytes);
    assert_int_equal(n, 8 + strlen(place.marks));
    assert_true(rt_place_read(bytes, n, &back));
    assert_memory_equal(&back, &place, sizeof(place));
    assert_false(rt_place_read(bytes, 7, &back));
    assert_true(back.identity == 0 && back.marks[0] == '\0');
    assert_false(rt_place_read(bytes, sizeof(bytes), &back));
    assert_true(rt_place_read(NULL, 0, &back));
    assert_int_equal(rt_place_write(&back, bytes), 0);
    memset(place.marks, 'x', sizeof(place.marks) - 1);
    assert_int_equal(rt_place_write(&place, bytes), RT_PLACE_BYTES - 1);
    assert_true(rt_place_read(bytes, RT_PLACE_BYTES - 1, &back));
    assert_memory_equal(&back, &place, sizeof(place));
}

int main(void)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(places_as_bytes),
        cmocka_unit_test(files_of_names),
        cmocka_unit_test(services_by_name),
    };

    return cmocka_run_group_tests_name("resource names", all, NULL, NULL);
}
