/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the demo's to one database. */
#include "txn/cli/bank/till.h"

#include "base/alloc.h"
#include "engines.h"
#include "net/loop.h"
#include "txn/manager/resource_inside.h"

#include <rota.h>

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_NS INT64_C(10000000000)
#define PASSWORD_ROOM 1024

static const struct rt_reach *find_reach(const char *scheme)
{
    static const struct rt_reach *const all[] = {
#if ROTA_ENGINE_MYSQL
        &rt_reach_mysql,
#endif
#if ROTA_ENGINE_POSTGRES
        &rt_reach_postgres,
#endif
        NULL
    };
    for (const struct rt_reach *const *r = all; *r != NULL; r++)
        for (const char *const *s = (*r)->schemes; *s != NULL; s++)
            if (strcmp(*s, scheme) == 0)
                return *r;
    return NULL;
}

/* Connecting is a worker's, who can be called off: here nobody does. */
static int dial(struct rt_till *till, const struct rt_url *url)
{
    struct rt_resource nobody = {.wake = -1,
                                 .nearest = INT64_MAX,
                                 .mu = PTHREAD_MUTEX_INITIALIZER,
                                 .seen = PTHREAD_COND_INITIALIZER};
    struct rt_effort effort = {.r = &nobody, .until = rt_loop_clock() + CONNECT_NS};
    char marks[RT_PARTY_MARKS_MAX];
    size_t count = 0;

    return till->reach->connect(url, 0, &count, &effort, &till->conn, marks, till->errmsg,
                                sizeof(till->errmsg));
}

static int dial_with_password(struct rt_till *till, struct rt_url *url)
{
    char password[PASSWORD_ROOM];
    const char *in_url = url->password;

    int rv = rt_url_password(url, password, sizeof(password), till->errmsg, sizeof(till->errmsg));
    if (password[0] != '\0')
        url->password = password;
    if (rv == 0)
        rv = dial(till, url);
    url->password = in_url;
    explicit_bzero(password, sizeof(password));
    return rv;
}

int rt_till_open(struct rt_till *till, const char *url)
{
    struct rt_url parsed;

    memset(till, 0, sizeof(*till));
    int rv = rt_url_parse(&parsed, url, till->errmsg, sizeof(till->errmsg));
    if (rv != 0)
        return rv;
    till->reach = find_reach(parsed.scheme);
    if (till->reach != NULL) {
        rv = till->reach->kind->talk->load(till->errmsg, sizeof(till->errmsg));
        if (rv == 0)
            rv = dial_with_password(till, &parsed);
    } else {
        rv = ROTA_INVALID;
        snprintf(till->errmsg, sizeof(till->errmsg),
                 "'%.20s:' is neither mysql: nor postgres:", parsed.scheme);
    }
    rt_url_fini(&parsed);
    if (rv != 0)
        return rv;
    till->mysql = till->reach->kind->gated;
    till->talk = (struct rt_talk){
        .kind = till->reach->kind->talk, .conn = till->conn, .until = INT64_MAX};
    return 0;
}

void rt_till_close(struct rt_till *till)
{
    if (till->conn != NULL)
        till->reach->hang_up(till->conn);
    rt_free(till->talk.sql);
    memset(till, 0, sizeof(*till));
}

bool rt_till_say(struct rt_till *till, const char *format, ...)
{
    struct rt_talk *t = &till->talk;
    char sql[512];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    assert(size > 0 && (size_t)size < sizeof(sql));
    t->size = 0;
    memset(&t->said, 0, sizeof(t->said));
    if (!rt_talk_add(t, "%s", sql)) {
        snprintf(till->errmsg, sizeof(till->errmsg), "out of memory");
        return false;
    }
    for (bool over = t->kind->send(t); !over;) {
        struct pollfd p = {.fd = t->kind->fd(t), .events = t->events};
        over = poll(&p, 1, -1) > 0 && t->kind->advance(t, p.revents);
    }
    if (t->said.failed || t->said.lost)
        snprintf(till->errmsg, sizeof(till->errmsg), "%s", t->said.text);
    return !t->said.failed && !t->said.lost;
}

long long rt_till_number(struct rt_till *till, const char *sql)
{
    if (!rt_till_say(till, "%s", sql) || till->talk.said.rows != 1)
        return -1;
    return strtoll(till->talk.said.cell[0], NULL, 10);
}
