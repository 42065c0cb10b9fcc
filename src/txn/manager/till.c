/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of our own to one database. */
#include "txn/manager/till.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/manager/resource_inside.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_NS INT64_C(10000000000)
#define LOOK_MS 60000 /* a poll waits this long at most */

int rt_till_open(struct rt_till *till, const char *url)
{
    struct rt_url parsed;

    memset(till, 0, sizeof(*till));
    int rv = rt_url_parse(&parsed, url, till->errmsg, sizeof(till->errmsg));
    if (rv != 0)
        return rv;
    till->reach = rt_reach_of(parsed.scheme);
    if (till->reach != NULL) {
        rv = rt_reach_dial(till->reach, &parsed, CONNECT_NS, false, &till->conn, till->errmsg,
                           sizeof(till->errmsg));
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

static bool fault(struct rt_till *till, const char *line)
{
    snprintf(till->errmsg, sizeof(till->errmsg), "%s", line);
    return false;
}

/* True: it moves on. */
static bool wait_for(struct rt_talk *t, int64_t until, short *revents)
{
    struct pollfd p = {.fd = t->kind->fd(t), .events = t->events};
    int64_t left = (until - rt_loop_clock()) / 1000000;
    int got = left > 0 ? poll(&p, 1, left < LOOK_MS ? (int)left : LOOK_MS) : -1;

    *revents = got > 0 ? p.revents : 0;
    return left > 0 && (got >= 0 || errno == EINTR);
}

bool rt_till_tell(struct rt_till *till, const char *sql, int64_t within)
{
    struct rt_talk *t = &till->talk;
    int64_t now = rt_loop_clock(), until = within > INT64_MAX - now ? INT64_MAX : now + within;
    short revents = 0;

    t->size = 0;
    memset(&t->said, 0, sizeof(t->said));
    if (!rt_talk_add(t, "%s", sql))
        return fault(till, "out of memory");
    for (bool over = t->kind->send(t); !over;) {
        if (!wait_for(t, until, &revents)) {
            t->said.lost = true;
            return fault(till, "the database did not answer in time");
        }
        over = revents != 0 && t->kind->advance(t, revents);
    }
    return (!t->said.failed && !t->said.lost) || fault(till, t->said.text);
}

bool rt_till_say(struct rt_till *till, const char *format, ...)
{
    char sql[512];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    assert(size > 0 && (size_t)size < sizeof(sql));
    return rt_till_tell(till, sql, INT64_MAX);
}

long long rt_till_number(struct rt_till *till, const char *sql)
{
    if (!rt_till_say(till, "%s", sql) || till->talk.said.rows != 1)
        return -1;
    return strtoll(till->talk.said.cell[0], NULL, 10);
}
