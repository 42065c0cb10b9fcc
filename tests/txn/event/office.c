/* SPDX-License-Identifier: Apache-2.0 */
#include "office.h"

#include "lib/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *office_conn(void)
{
    return HERE->site->connect(0);
}

void office_close(void *conn)
{
    HERE->site->close(conn);
}

void office_sql(void *conn, const char *format, ...)
{
    char sql[4000];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    if (!HERE->site->sql(conn, sql))
        fail_msg("failed: %s", sql);
}

void office_admin(const char *format, ...)
{
    char sql[4000];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    HERE->site->admin(sql);
}

long long office_number(const char *format, ...)
{
    char sql[1000];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    return HERE->site->number(sql);
}

void office_empty(void)
{
    HERE->site->admin("DELETE FROM rota_event");
    HERE->site->admin("DELETE FROM rota_event_trouble");
    HERE->site->admin("DELETE FROM rota_inbox");
}

void office_put(const char *key, const char *payload)
{
    const struct rota_event e = {
        .topic = "orders", .key = key, .type = "made", .payload = payload, .size = strlen(payload)};
    void *conn = office_conn();

    office_sql(conn, "%s", HERE->begin);
    if (HERE->put(conn, &e) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    office_sql(conn, "COMMIT");
    office_close(conn);
}

int64_t office_row(const char *payload)
{
    return office_number("SELECT id FROM rota_event WHERE %s = '%s'", HERE->text, payload);
}

long long office_count(const char *state)
{
    return office_number("SELECT COUNT(*) FROM rota_event WHERE state = '%s'", state);
}

struct rt_store *office_store_at(uint16_t port, const char *map, const struct rt_store_options *o)
{
    char *url = HERE->site->url(port), errmsg[500] = "";
    struct rt_event_map read;
    struct rt_store *s = NULL;

    if (map != NULL)
        assert_int_equal(rt_event_map_read(&read, map, errmsg, sizeof(errmsg)), 0);
    if (rt_store_open(&s, url, map != NULL ? &read : NULL, o, errmsg, sizeof(errmsg)) != 0)
        fail_msg("%s: %s", url, errmsg);
    free(url);
    return s;
}

struct rt_store *office_store(const char *map, const struct rt_store_options *o)
{
    return office_store_at(0, map, o);
}

struct claim claim(struct rt_store *s, uint32_t limit)
{
    struct claim c = {0};

    if (rt_store_turn(s, NULL, 0, limit, &c.rows, &c.count) != 0)
        fail_msg("%s", rt_store_errmsg(s));
    return c;
}

struct awaited {
    struct rt_store *s;
    size_t n;
    struct claim c;
};

static bool has_come(void *arg)
{
    struct awaited *a = arg;

    a->c = claim(a->s, 1000);
    return a->c.count == a->n;
}

struct claim claim_until(struct rt_store *s, size_t n)
{
    struct awaited a = {.s = s, .n = n};

    assert_true(rt_await(has_come, &a, SITE_LIMIT_MS));
    return a.c;
}

void mark_all(struct rt_store *s, const struct claim *c, enum rt_store_what what,
              const char *reason)
{
    struct rt_store_mark *marks = calloc(c->count + 1, sizeof(*marks));

    for (size_t i = 0; i < c->count; i++)
        marks[i] = (struct rt_store_mark){.id = c->rows[i].id, .what = what, .reason = reason};
    if (rt_store_turn(s, marks, c->count, 0, NULL, NULL) != 0)
        fail_msg("%s", rt_store_errmsg(s));
    free(marks);
}

void let_go(struct rt_store *s)
{
    if (rt_store_turn(s, NULL, 0, 0, NULL, NULL) != 0)
        fail_msg("%s", rt_store_errmsg(s));
}

const struct rt_store_row *find_row(const struct claim *c, const char *payload)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->rows[i].size == strlen(payload) &&
            memcmp(c->rows[i].payload, payload, c->rows[i].size) == 0)
            return &c->rows[i];
    return NULL;
}
