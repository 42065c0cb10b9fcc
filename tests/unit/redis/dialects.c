/* SPDX-License-Identifier: Apache-2.0 */
/* Users of dialects on a real Redis. */
#include "dialects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const char *url_of(const char *dialect)
{
    static char url[600];
    snprintf(url, sizeof(url), "%s?dialect=%s", one_redis_url, dialect);
    return url;
}

void start(struct user *u, const char *dialect, uint32_t ttl_ms)
{
    user_start(u, url_of(dialect), ttl_ms);
}

const char *ask(const char *format, const char *a, const char *b)
{
    static char text[2048];
    redisReply *r = rt_redis_do(&one_redis, format, a, b);
    assert_non_null(r);
    snprintf(text, sizeof(text), "%s", r->str != NULL ? r->str : "");
    freeReplyObject(r);
    return text;
}

struct rota_place seen;
char seen_label[256];
static size_t seen_count;

static void see(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    seen = *place;
    snprintf(seen_label, sizeof(seen_label), "%s", place->label);
    seen_count++;
}

size_t look(struct user *u, const char *name)
{
    struct rt_op op = {.kind = RT_OP_INSPECT};
    op.inspect.name = name;
    op.inspect.each = see;
    seen_count = 0;
    assert_int_equal(user_do(u, &op), 0);
    return seen_count;
}

int try_join(struct user *u, const char *name, uint32_t mode)
{
    struct rt_join join = {.flags = RT_JOIN_TRY, .mode = mode};
    int rv = user_join(u, name, &join);
    if (rv == 0)
        assert_int_equal(user_leave(u, name, join.number), 0);
    return rv;
}
