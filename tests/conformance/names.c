/* SPDX-License-Identifier: Apache-2.0 */
/* Names: any UTF-8 without control characters; no two are alike, and none is special. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 255
#define NAME_ROOM 1100 /* prefix, escapes and all */
#define RANDOM_NAMES 60

static const char *const hostile[] = {
    "a",
    "A",
    "a ",
    " a",
    "a/b",
    "a%2Fb",
    "a%2fb",
    "a%",
    "a%%",
    "%",
    "%25",
    "%00",
    "..",
    "../..",
    "/",
    "//",
    "/etc",
    ".",
    "...",
    "a.b",
    "a:b",
    "a*",
    "a?",
    "[a]",
    "{a}",
    "a_b",
    "a__b",
    "a'b",
    "a''b",
    "a\"b",
    "a\\b",
    "a\\\\b",
    "a;b",
    "a--b",
    "-a",
    "--help",
    "'; DROP TABLE tickets; --",
    "\" OR 1=1",
    "$(reboot)",
    "`x`",
    "a|b",
    "a&b",
    "a=b",
    "a,b",
    "a+b",
    "a b",
    "~",
    "#",
    "NULL",
    "\xc3\xa9",
    "e\xcc\x81",
    "\xf0\x9f\x94\x92",
    "\xe2\x80\xae",
    "\xef\xbb\xbf",
    "\xe2\x80\x8b",
    "\xf4\x8f\xbf\xbf",
    "%s%n",
    "\xce\xb1\xce\xb2",
    "a\xc2\xa0",
    "@",
    "^",
    "<a>",
};

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ShedLock's column has room for 64 characters: a longer name is refused, and not cut. */
static bool too_long(const struct rota *r, int err)
{
    return err == ROTA_INVALID && strstr(conf.url, "=shedlock") != NULL &&
           strstr(rota_errmsg(r), "has room for 64 characters") != NULL;
}

/* Holds all NAMES, each different and with the case's prefix, and finds them in the list. */
static void hold_all(const char **names, size_t n)
{
    struct rota *a = conf_open(), *b = conf_open();
    struct rota_lock **locks = conf_alloc(n * sizeof *locks);
    struct rota_line *lines = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        int rv = conf_try(a, names[i], &(struct rota_ask){.owner = ROTA_OWNER_NONE}, &locks[i]);
        if (too_long(a, rv)) {
            names[i--] = names[--n];
            continue;
        }
        if (rv != 0)
            fail_msg("\"%s\": %s: %s", names[i], rota_strerror(rv), rota_errmsg(a));
        assert_string_equal(rota_name(locks[i]), names[i]);
    }
    assert_int_equal(rota_list(b, conf.prefix, &lines, &count), 0);
    assert_int_equal(count, n);
    qsort(names, n, sizeof *names, by_bytes);
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (size_t k = 0; k < count; k++)
            found |= strcmp(lines[k].name, names[i]) == 0;
        if (!found)
            fail_msg("\"%s\" is not in the list", names[i]);
        assert_int_equal(conf_try(b, names[i], NULL, NULL), ROTA_BUSY);
    }
    for (size_t i = 0; i < n; i++)
        assert_string_equal(lines[i].name, names[i]); /* by name */
    rota_list_free(lines, count);
    for (size_t i = 0; i < n; i++)
        conf_give(locks[i]);
}

static void hostile_names(void)
{
    enum { COUNT = sizeof hostile / sizeof hostile[0] };
    const char *names[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        names[i] = conf_name(hostile[i]);
    hold_all(names, COUNT);
}

/* One code point of 1 to 4 bytes, not a control character, not a surrogate. */
static size_t put_random(char *at, unsigned *seed)
{
    static const uint32_t top[] = {0x7e, 0x7ff, 0xffff, 0x10ffff};
    static const uint32_t bottom[] = {0x20, 0xa0, 0x800, 0x10000};
    *seed = *seed * 1103515245u + 12345u;
    unsigned size = (*seed >> 20) % 4;
    *seed = *seed * 1103515245u + 12345u;
    uint32_t point = bottom[size] + (*seed >> 4) % (top[size] - bottom[size] + 1);
    if (point >= 0xd800 && point <= 0xdfff)
        point = 0x2028;
    if (size == 0) {
        at[0] = (char)point;
        return 1;
    }
    for (unsigned i = size; i > 0; i--, point >>= 6)
        at[i] = (char)(0x80u | (point & 0x3fu));
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    at[0] = (char)(lead[size] | point);
    return size + 1;
}

static void random_names(void)
{
    const char *names[RANDOM_NAMES];
    unsigned seed = 42;
    for (size_t i = 0; i < RANDOM_NAMES; i++) {
        char tail[64];
        size_t n = (size_t)snprintf(tail, sizeof tail, "%zu", i); /* so that all differ */
        while (n < 40)
            n += put_random(tail + n, &seed);
        tail[n] = '\0';
        names[i] = conf_name(tail);
    }
    hold_all(names, RANDOM_NAMES);
}

/* Bytes that need an escape make the longest spelling on the engine. */
static void longest_names(void)
{
    static const char fill[] = {'x', '%', '/'};
    const char *names[3];
    char tail[NAME_ROOM];
    struct rota *a = conf_open();
    struct rota_lock *lock = NULL;
    size_t room = NAME_MAX_BYTES - strlen(conf.prefix);
    for (size_t i = 0; i < 3; i++) {
        memset(tail, fill[i], room + 1);
        tail[room + 1] = '\0';
        assert_int_equal(rota_acquire(a, conf_name(tail), NULL, &lock), ROTA_INVALID);
        assert_true(rota_errmsg(a)[0] != '\0');
        tail[room] = '\0';
        names[i] = conf_name(tail);
        assert_int_equal(strlen(names[i]), NAME_MAX_BYTES);
    }
    hold_all(names, 3);
}

static void never_granted(void *arg, int err, struct rota_lock *lock)
{
    (void)arg;
    (void)err;
    (void)lock;
    abort();
}

static void never_front(void *arg, const struct rota_front *front)
{
    (void)arg;
    (void)front;
    abort();
}

static void assert_bad_name(struct rota *a, const char *name)
{
    struct rota_lock *lock = NULL;
    struct rota_line *line = NULL;
    uint64_t id = 0;
    assert_int_equal(conf_try(a, name, NULL, NULL), ROTA_INVALID);
    assert_true(rota_errmsg(a)[0] != '\0');
    assert_int_equal(rota_acquire_async(a, name, NULL, never_granted, NULL, &id), ROTA_INVALID);
    assert_int_equal(rota_elect(a, name, "v", NULL, &lock), ROTA_INVALID);
    assert_int_equal(rota_inspect(a, name, &line), ROTA_INVALID);
    assert_int_equal(rota_break(a, name, 1), ROTA_INVALID);
    assert_int_equal(rota_observe(a, name, never_front, NULL, &id), ROTA_INVALID);
    if ((conf.caps & ROTA_CAP_DURABLE) != 0) {
        assert_int_equal(rota_once(a, name, 1, NULL), ROTA_INVALID);
        assert_int_equal(rota_latch_down(a, name, 1, NULL), ROTA_INVALID);
        assert_int_equal(rota_barrier(a, name, 1, 1), ROTA_INVALID);
    }
    assert_null(lock);
    assert_null(line);
}

static void bad_names(void)
{
    static const char *const bad[] = {
        "\x01",
        "\x1f",
        "\n",
        "\t",
        "\x7f",
        "\xc2\x80",
        "\xc2\x9f", /* control characters, of C1 too */
        "\x80",
        "\xff",
        "\xfe",
        "\xc3",
        "\xc3(",
        "\xe2\x82",
        "\xe2(\xa1",
        "\xf0\x9f\x94",
        "\xc0\xaf",
        "\xc1\xbf",
        "\xe0\x80\xaf",
        "\xf0\x80\x80\xaf", /* overlong */
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80",
    };
    struct rota *a = conf_open();
    assert_bad_name(a, "");
    assert_bad_name(a, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char tail[32];
        assert_bad_name(a, conf_name(bad[i]));
        snprintf(tail, sizeof tail, "%s after", bad[i]);
        assert_bad_name(a, conf_name(tail));
    }
    assert_int_equal(conf_count_lines(a, conf.prefix), 0);
}

/* A prefix of names is any bytes that a name could begin with. */
static void hostile_prefixes(void)
{
    struct rota *a = conf_open();
    struct rota_lock *locks[4];
    static const char *const tails[] = {"50%x", "50_x", "50/x", "50%2Fx"};
    for (size_t i = 0; i < 4; i++)
        locks[i] = conf_take(a, conf_name(tails[i]), NULL);
    assert_int_equal(conf_count_lines(a, conf_name("50%")), 2);
    assert_int_equal(conf_count_lines(a, conf_name("50_")), 1);
    assert_int_equal(conf_count_lines(a, conf_name("50/")), 1);
    assert_int_equal(conf_count_lines(a, conf_name("50%2F")), 1);
    assert_int_equal(conf_count_lines(a, conf_name("50*")), 0);
    assert_int_equal(conf_count_lines(a, conf_name("5")), 4);
    for (size_t i = 0; i < 4; i++)
        conf_give(locks[i]);
}

const struct conf_case conf_names[] = {
    CONF_CASE(hostile_names, 0, 0),    CONF_CASE(random_names, 0, 0),
    CONF_CASE(longest_names, 0, 0),    CONF_CASE(bad_names, 0, 0),
    CONF_CASE(hostile_prefixes, 0, 0), CONF_END,
};
