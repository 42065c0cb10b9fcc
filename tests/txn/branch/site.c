/* SPDX-License-Identifier: Apache-2.0 */
#include "site.h"

#include <rota.h>

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int last_err;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

int seat_err(void)
{
    return last_err;
}

struct rt_part part_new(uint32_t branch)
{
    static uint64_t count;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    uint64_t random = (uint64_t)now.tv_nsec << 16 ^ ++count ^ (uint64_t)rand() << 20;
    return (struct rt_part){.name = {.id = rt_txn_id_make(SITE_JOURNAL, ms, random),
                                     .branch = branch,
                                     .deadline_ms = ms + 60000}};
}

/* ---- Seats ------------------------------------------------------------------ */

void seat_bare(struct seat *s, const struct site *site, uint16_t port, bool keeper)
{
    char errmsg[256] = "";

    *s = (struct seat){.site = site, .conn = site->connect(port)};
    if (rt_party_open(&s->party, site->kind, s->conn, keeper, NULL, errmsg, sizeof(errmsg)) != 0)
        fail("rt_party_open", errmsg);
}

void seat_open(struct seat *s, const struct site *site, uint16_t port, bool keeper)
{
    struct rt_party_op op = {.what = RT_PARTY_ATTACH};

    seat_bare(s, site, port, keeper);
    if (rt_party_do(s->party, &op) != RT_REPLY_DONE)
        fail("attach", s->party->errmsg);
}

void seat_close(struct seat *s)
{
    rt_party_close(s->party);
    if (s->conn != NULL)
        s->site->close(s->conn);
    *s = (struct seat){0};
}

/* As somebody with a loop of its own would. */
static void go_async(struct rt_party *p, struct rt_party_op *op)
{
    struct timespec now;
    bool over = rt_party_start(p, op);

    while (!over) {
        struct rt_party_wait w = rt_party_wait(p);
        struct pollfd fd = {.fd = w.fd, .events = w.events};
        clock_gettime(CLOCK_BOOTTIME, &now);
        int64_t left = (w.until - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec)) / 1000000 + 1;
        int n = poll(&fd, 1, w.until == INT64_MAX ? SITE_LIMIT_MS : left > 0 ? (int)left : 0);
        if (n == 0 && w.until == INT64_MAX)
            fail("rt_party_go", "hangs");
        over = rt_party_go(p, n > 0 ? fd.revents : 0);
    }
}

enum rt_reply seat_op(struct seat *s, struct rt_party_op *op)
{
    static unsigned turn;

    op->reply = (enum rt_reply) - 1;
    if (++turn % 2 == 0)
        go_async(s->party, op);
    else
        rt_party_do(s->party, op);
    last_err = op->err;
    return op->reply;
}

enum rt_reply seat_do_with(struct seat *s, enum rt_party_what what, struct rt_part *part,
                           uint32_t flags)
{
    struct rt_party_op op = {.what = what, .part = part, .flags = flags};
    return seat_op(s, &op);
}

enum rt_reply seat_do(struct seat *s, enum rt_party_what what, struct rt_part *part)
{
    return seat_do_with(s, what, part, 0);
}

void seat_work(struct seat *s, struct rt_part *part, long long row)
{
    char sql[80];

    if (seat_do(s, RT_PARTY_BEGIN, part) != RT_REPLY_DONE)
        fail("begin", s->party->errmsg);
    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", row);
    if (!s->site->sql(s->conn, sql))
        fail(sql, "the application could not");
}

/* ---- Recovery ----------------------------------------------------------------- */

static enum rt_reply ordered(struct seat *k, struct rt_part *part, bool commit)
{
    enum rt_reply reply = seat_do(k, RT_PARTY_GATE, part);

    if (reply == RT_REPLY_CLEAR)
        reply = seat_do(k, commit ? RT_PARTY_COMMIT : RT_PARTY_ROLLBACK, part);
    return reply;
}

enum rt_reply settle(struct seat *k, struct rt_part *part, bool commit)
{
    for (int tries = 0; tries < SITE_LIMIT_MS / 120; tries++) {
        enum rt_reply reply = ordered(k, part, commit);
        if (reply == RT_REPLY_DONE)
            return commit ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT;
        if (reply == RT_REPLY_ABSENT) {
            reply = seat_do_with(k, RT_PARTY_ASK, part, RT_PARTY_FENCE);
            if (reply == RT_REPLY_COMMITTED || reply == RT_REPLY_ABSENT)
                return reply;
        }
        if (reply != RT_REPLY_HELD && reply != RT_REPLY_PREPARED)
            fail("settle", k->party->errmsg);
        poll(NULL, 0, 120); /* asked more often, InnoDB does not refresh its view */
    }
    fail("settle", "held for ever");
    return RT_REPLY_HELD;
}

bool has_row(const struct site *site, long long row)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM work WHERE id = %lld", row);
    return site->number(sql) == 1;
}

bool has_mark(const struct site *site, const struct rt_part *part)
{
    char sql[160], id[RT_TXN_ID_TEXT];

    rt_txn_id_text(&part->name.id, id);
    snprintf(sql, sizeof(sql),
             "SELECT COUNT(*) FROM rota_mark WHERE id = %s%s%s AND branch = %u AND kind = 1",
             site->hex, id, site->hex_end, part->name.branch);
    return site->number(sql) == 1;
}
