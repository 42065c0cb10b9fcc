/* SPDX-License-Identifier: Apache-2.0 */
/* A link of a SQL driver without the lock engine. */
#include "rider.h"
#include "lib/patience.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS (int)rt_patient_ms(30000)

struct rt_loop rider_loop;
static bool inside; /* a function of the driver: nothing may be told */

/* ---- What the driver says ------------------------------------------------------------------------ */

static struct rider *of(struct rt_sql_link *l)
{
    assert_false(inside);
    return l->owner;
}

static void on_up(struct rt_sql_link *l)
{
    of(l)->ups++;
}

static void on_down(struct rt_sql_link *l, int err, const char *why)
{
    struct rider *r = of(l);
    r->downs++;
    r->err = err;
    assert_null(strchr(why, '\n'));
    snprintf(r->why, sizeof(r->why), "%s", why);
}

static void on_row(struct rt_sql_link *l, size_t step, const struct rt_sql_cell *cells,
                   size_t count)
{
    struct rider *r = of(l);
    size_t used = 0;
    assert_true(r->row_count < RIDER_ROWS);
    char *text = r->rows[r->row_count].text;
    r->rows[r->row_count++].step = step;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < RIDER_TEXT; i++) {
        const char *bar = i > 0 ? "|" : "";
        if (cells[i].null)
            used += (size_t)snprintf(text + used, RIDER_TEXT - used, "%s-", bar);
        else if (cells[i].text != NULL)
            used += (size_t)snprintf(text + used, RIDER_TEXT - used, "%s%.*s", bar,
                                     (int)cells[i].size, cells[i].text);
        else
            used += (size_t)snprintf(text + used, RIDER_TEXT - used, "%s%lld", bar,
                                     (long long)cells[i].number);
    }
}

static void on_changed(struct rt_sql_link *l, size_t step, uint64_t count)
{
    assert_true(step < RIDER_STEPS);
    of(l)->changed[step] = (int64_t)count;
}

static void on_landed(struct rt_sql_link *l, enum rt_sql_end end, size_t step, const char *why)
{
    struct rider *r = of(l);
    r->lands++;
    r->end = end;
    r->failed = step;
    assert_null(strchr(why, '\n'));
    snprintf(r->why, sizeof(r->why), "%s", why);
}

static void on_notice(struct rt_sql_link *l, const char *channel, const char *text)
{
    struct rider *r = of(l);
    r->notices++;
    snprintf(r->channel, sizeof(r->channel), "%s", channel);
    snprintf(r->notice, sizeof(r->notice), "%s", text);
}

static const struct rt_sql_user user = {on_up, on_down, on_row, on_changed, on_landed, on_notice};

/* ---- The loop -------------------------------------------------------------------------------------- */

int rider_setup(void **state)
{
    (void)state;
    return rt_loop_init(&rider_loop);
}

int rider_teardown(void **state)
{
    (void)state;
    rt_loop_fini(&rider_loop);
    return 0;
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
    fail();
}

void rider_turn(void)
{
    rt_loop_arm(&rider_loop);
    struct pollfd p = {.fd = rt_loop_fd(&rider_loop), .events = POLLIN};
    if (!rider_loop.dirty && poll(&p, 1, PATIENCE_MS) == 0)
        fail_msg("nothing comes any more");
    rt_loop_turn(&rider_loop, no_other, NULL);
}

void rider_until(const int *count, int n)
{
    while (*count < n)
        rider_turn();
}

/* ---- The link -------------------------------------------------------------------------------------- */

int rider_open(struct rider *r, const struct rt_sql_driver *driver, const char *url,
               const char *password, uint32_t ttl_ms)
{
    static char secret[100];
    memset(r, 0, sizeof(*r));
    assert_int_equal(rt_url_parse(&r->url, url, r->why, sizeof(r->why)), 0);
    if (password != NULL) {
        snprintf(secret, sizeof(secret), "%s", password);
        r->url.password = secret;
    }
    r->driver = driver;
    r->base = (struct rt_conn){
        .up = &r->up, .loop = &rider_loop, .label = "rider", .ttl_ms = ttl_ms};
    rt_dial_times(&r->base);
    rt_loop_tick(&rider_loop);
    int rv = driver->open(&r->base, &r->url, &r->ring, &r->self);
    if (rv == 0 && r->ring.count == 0)
        rv = rt_dial_hosts(&r->ring, &r->base, &r->url, driver->port);
    if (rv == 0)
        return 0;
    snprintf(r->why, sizeof(r->why), "%s", r->base.errmsg);
    if (r->self != NULL)
        driver->close(r->self);
    rt_dial_ring_fini(&r->ring);
    rt_url_fini(&r->url);
    return rv;
}

int rider_begin(struct rider *r, size_t end)
{
    if (r->link != NULL)
        rider_drop(r);
    r->link = calloc(1, r->driver->link_size);
    assert_non_null(r->link);
    *r->link = (struct rt_sql_link){.base = &r->base, .user = &user, .driver = r->self, .owner = r};
    rt_loop_tick(&rider_loop);
    inside = true;
    int rv = r->driver->dial(r->link, &r->ring.ends[end], 5000);
    inside = false;
    if (rv != 0) {
        free(r->link);
        r->link = NULL;
    }
    return rv;
}

bool rider_dial(struct rider *r)
{
    int ups = r->ups;
    for (size_t i = 0; r->ups == ups && i < r->ring.count; i++) {
        int downs = r->downs;
        assert_int_equal(rider_begin(r, i), 0);
        while (r->ups == ups && r->downs == downs)
            rider_turn();
    }
    return r->ups > ups;
}

void rider_start(struct rider *r, const struct rt_sql_driver *driver, const char *url)
{
    if (rider_open(r, driver, url, NULL, 0) != 0 || !rider_dial(r))
        fail_msg("%s", r->why);
}

static void on_closed(struct rt_sql_link *l)
{
    of(l)->closed++;
}

void rider_drop(struct rider *r)
{
    int closed = r->closed;
    inside = true;
    r->driver->drop(r->link, on_closed);
    inside = false;
    rider_until(&r->closed, closed + 1);
    free(r->link);
    r->link = NULL;
}

void rider_close(struct rider *r)
{
    if (r->link != NULL)
        rider_drop(r);
    r->driver->close(r->self);
    rt_dial_ring_fini(&r->ring);
    rt_url_fini(&r->url);
}

/* ---- Flights --------------------------------------------------------------------------------------- */

struct rt_sql_cell rider_text(const char *text)
{
    return (struct rt_sql_cell){.text = text, .size = strlen(text)};
}

void rider_send(struct rider *r, const struct rt_sql_step *steps, size_t count)
{
    struct rt_sql_flight f = {steps, count};
    assert_true(count <= RIDER_STEPS);
    r->row_count = 0;
    r->lands = 0;
    for (size_t i = 0; i < RIDER_STEPS; i++)
        r->changed[i] = -1;
    rt_loop_tick(&rider_loop);
    inside = true;
    assert_int_equal(r->driver->send(r->link, &f), 0);
    inside = false;
}

enum rt_sql_end rider_land(struct rider *r)
{
    rider_until(&r->lands, 1);
    return r->end;
}

void rider_must(const struct rider *r, enum rt_sql_end end)
{
    if (end != RT_SQL_LANDED)
        fail_msg("step %zu ended with %d: %s", r->failed, (int)end, r->why);
}

size_t rider_rows(const struct rider *r, size_t step)
{
    size_t n = 0;
    for (size_t i = 0; i < r->row_count; i++)
        n += r->rows[i].step == step;
    return n;
}

const char *rider_row(const struct rider *r, size_t step, size_t at)
{
    for (size_t i = 0; i < r->row_count; i++)
        if (r->rows[i].step == step && at-- == 0)
            return r->rows[i].text;
    return "";
}

int64_t rider_cell(const struct rider *r, size_t step, size_t i, size_t column)
{
    const char *at = rider_row(r, step, i);
    for (; column > 0 && at != NULL; column--) {
        at = strchr(at, '|');
        at = at != NULL ? at + 1 : NULL;
    }
    return at == NULL || *at == '\0' || (*at == '-' && (at[1] == '|' || at[1] == '\0'))
               ? -1
               : strtoll(at, NULL, 10);
}
