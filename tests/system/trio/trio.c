/* SPDX-License-Identifier: Apache-2.0 */
/* Three servers of one engine: started, reached, and what is left in them. */
#include "trio.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define LEFT_EVERY_US 100000
#define LEFT_ROUNDS 200 /* 20 s: longer than any ttl here, which a new leader begins anew */
#define TITLES 4

char *trio_url;

int trio_setup(void **state)
{
    (void)state;
    trio.start();
    trio_url = trio.url(NULL);
    return 0;
}

int trio_teardown(void **state)
{
    (void)state;
    free(trio_url);
    trio.fini();
    return 0;
}

void trio_way(struct trio_way *way, uint64_t seed)
{
    uint16_t ports[TRIO_SERVERS];

    for (size_t i = 0; i < TRIO_SERVERS; i++) {
        struct rt_proxy_options opts = {
            .framing = trio.framing, .port = trio.server(i)->port, .seed = seed + i};

        way->proxy[i] = rt_proxy_start(&opts);
        ports[i] = rt_proxy_port(way->proxy[i]);
    }
    way->url = trio.url(ports);
}

void trio_way_fini(struct trio_way *way)
{
    for (size_t i = 0; i < TRIO_SERVERS; i++)
        rt_proxy_stop(way->proxy[i]);
    free(way->url);
}

size_t trio_leader(int but)
{
    int leader = trio.leader(but, TRIO_LIMIT_MS);

    assert_true(leader >= 0);
    return (size_t)leader;
}

const char *trio_title(const char *of)
{
    static char titles[TITLES][120];
    static size_t next;
    char *title = titles[next++ % TITLES];

    (void)snprintf(title, sizeof(titles[0]), "%s: %s", trio.engine, of);
    return title;
}

static size_t all_left(void *unused, char *text, size_t size)
{
    size_t left = trio.left(text, size);

    (void)unused;
    for (int i = 0; i < LEFT_ROUNDS && left > 0; i++) {
        struct timespec pause = {.tv_nsec = LEFT_EVERY_US * 1000L};

        nanosleep(&pause, NULL);
        left = trio.left(text, size);
    }
    if (left > 0 && trio.show_left != NULL)
        trio.show_left();
    return left;
}

void trio_finish(struct stage *st, bool may_lose)
{
    size_t found = stage_finish(st, all_left, NULL);
    bool too_long = stage_longest(st) > (int64_t)trio.ttl_ms * 1000000 / 2;

    if (!may_lose && too_long)
        fprintf(stderr, "  a fault lasted longer than holders must outlast: they may be lost\n");
    if (!may_lose && !too_long) {
        assert_int_equal(stage_lost(st), 0);
        assert_int_equal(stage_errors(st, ROTA_LOST), 0);
    }
    assert_int_equal(found, 0);
    stage_free(st);
}
