/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the server, asks it as its administrator, and looks at what is left in it. */
#include "house.h"

#include "lib/players.h"
#include "lib/proc.h"
#include "lib/servers.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SWEEP_TTL_MS 3000 /* it must not lose its own session, and beats often */
#define LEFT                                                                                     \
    "select (select count(*) from rota_session) + (select count(*) from rota_ticket) + (select " \
    "count(*) from rota_line where session is not null)"

const struct house_kind *house;

bool house_choose(int argc, char **argv)
{
    static const struct house_kind *const kinds[] = {
#ifdef HOUSE_POSTGRES
        &house_postgres,
#endif
#ifdef HOUSE_MYSQL
        &house_mysql,
#endif
    };
    for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(argv[1], kinds[i]->name) == 0)
            house = kinds[i];
    if (house == NULL)
        fprintf(stderr, "usage: %s postgres|mysql\n", argv[0]);
    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return house != NULL;
}

/* The first client also makes the tables. */
int house_setup(void **state)
{
    (void)state;
    house->start();
    char *url = house->url(0);
    struct rota *r = player(url, 0, HOUSE_LIMIT_MS);
    assert_int_equal(rota_release(player_take(r, "first", NULL)), 0);
    rota_close(r);
    free(url);
    return 0;
}

int house_teardown(void **state)
{
    (void)state;
    house->fini();
    return 0;
}

__attribute__((format(printf, 1, 0))) static const char *ask(const char *format, va_list args)
{
    char sql[2000];
    vsnprintf(sql, sizeof(sql), format, args);
    return house->ask(sql);
}

const char *house_ask(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *said = ask(format, args);
    va_end(args);
    return said;
}

long long house_number(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *said = ask(format, args);
    va_end(args);
    return strtoll(said, NULL, 10);
}

struct rt_proxy *house_proxy(uint64_t seed)
{
    struct rt_proxy_options opts = {.framing = house->framing, .port = house->port(), .seed = seed};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    if (getenv("ROTA_PROXY_TRACE") != NULL)
        rt_proxy_trace(proxy, rt_proxy_show, NULL);
    return proxy;
}

/* ---- Knobs ----------------------------------------------------------------------------------------- */

/* A copy of SO in COPY that every user may load: PostgreSQL runs as another user, who may not see the build folder. */
static void copy_library(const char *so, char *copy)
{
    static char block[65536];
    int in = open(so, O_RDONLY | O_CLOEXEC), out = mkstemp(copy);
    ssize_t size;

    assert_true(in >= 0 && out >= 0);
    while ((size = read(in, block, sizeof(block))) > 0)
        assert_int_equal(write(out, block, (size_t)size), size);
    assert_int_equal(size, 0);
    assert_int_equal(fchmod(out, 0755), 0);
    close(in);
    close(out);
}

void house_knob_begin(struct house_knob *k, const char *name)
{
    static int count;
    char so[64], copy[] = "/tmp/rota-knob-XXXXXX";
    snprintf(so, sizeof(so), "%s_SO", name);
    assert_non_null(getenv(so));
    snprintf(k->path, sizeof(k->path), "%s/knob%d", rt_tmpdir(), ++count);
    k->file = open(k->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(k->file >= 0);
    assert_int_equal(fchmod(k->file, 0644), 0);
    assert_int_equal(chmod(rt_tmpdir(), 0711), 0); /* they may run as another user */
    house_knob_set(k, 0);
    copy_library(getenv(so), copy);
    setenv("LD_PRELOAD", copy, 1);
    setenv(name, k->path, 1);
}

void house_knob_end(const char *name)
{
    unlink(getenv("LD_PRELOAD")); /* whoever has it keeps it */
    unsetenv("LD_PRELOAD");
    unsetenv(name);
}

void house_knob_set(const struct house_knob *k, int64_t value)
{
    assert_int_equal(pwrite(k->file, &value, sizeof(value), 0), sizeof(value));
}

/* ---- What is left ---------------------------------------------------------------------------------- */

/* Its own session, and its hold. */
static bool only_the_sweeper(void *unused)
{
    (void)unused;
    return house_number(LEFT) <= 2;
}

static size_t left(void *unused, char *text, size_t size)
{
    char *url = house->url(0);
    struct rota *r = player(url, SWEEP_TTL_MS, HOUSE_LIMIT_MS);
    struct rota_lock *lock = player_take(r, "sweeper", NULL);
    bool swept = rt_await(only_the_sweeper, unused, HOUSE_LIMIT_MS / 2);
    if (!swept)
        snprintf(text, size, " after the sweep: %s sessions",
                 house_ask("select count(*) from rota_session"));
    rota_release(lock);
    rota_close(r);
    free(url);
    long long rows = house_number(LEFT);
    if (swept && rows > 0)
        snprintf(text, size, " %lld rows", rows);
    return (size_t)rows;
}

void house_swept(void)
{
    char text[200] = "";
    assert_int_equal(left(NULL, text, sizeof(text)), 0);
}

struct stage *house_stage(const char *title, uint32_t threads, uint32_t ttl_ms, uint32_t more)
{
    static char titles[8][64];
    static size_t count;
    char *mine = titles[count++ % 8];
    snprintf(mine, sizeof(titles[0]), "%s: %s", house->name, title);
    struct stage_plan plan = {.title = mine,
                              .processes = 6,
                              .threads = threads,
                              .locks = 3,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE | more,
                              .ttl_ms = ttl_ms,
                              .call_ms = 5000,
                              .long_permille = 20,
                              .long_ms = 1500,
                              .pause_us = 2000};
    return stage_new(&plan);
}

void house_finish(struct stage *st, bool may_lose)
{
    size_t found = stage_finish(st, left, NULL);
    if (!may_lose) {
        assert_int_equal(stage_lost(st), 0);
        assert_int_equal(stage_errors(st, ROTA_LOST), 0);
    }
    assert_int_equal(found, 0);
    stage_free(st);
}
