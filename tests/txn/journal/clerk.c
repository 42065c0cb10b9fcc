/* SPDX-License-Identifier: Apache-2.0 */
/* A test's user of a journal. */
#include "clerk.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <cmocka.h>

#define CLOSING_TURNS 4 /* watches end in the turn after they were stopped */

static int told; /* what op->user points to once it was */

static void on_done(struct rt_journal_up *up, struct rt_journal_op *op)
{
    struct clerk *c = (struct clerk *)(void *)up;
    assert_ptr_not_equal(op->user, &told); /* once */
    op->user = &told;
    c->done++;
    if (op->err != 0)
        snprintf(c->errmsg, sizeof(c->errmsg), "%s", c->j->base.errmsg);
}

static void on_log(struct rt_journal_up *up, int level, const char *line)
{
    (void)level;
    snprintf(((struct clerk *)(void *)up)->log, sizeof(((struct clerk *)0)->log), "%s", line);
}

static void no_other(void *arg, struct rt_timer *t, int64_t now)
{
    (void)arg;
    (void)t;
    (void)now;
}

int clerk_open(struct clerk *c, const char *url)
{
    memset(c, 0, sizeof(*c));
    c->up = (struct rt_journal_up){.done = on_done, .log = on_log};
    int rv = rt_loop_init(&c->loop);
    if (rv != 0)
        return rv;
    rv = rt_journal_open(&c->j, &c->loop, &c->up, url, CLERK_CALL_MS, c->errmsg, sizeof(c->errmsg));
    if (rv != 0) {
        for (int i = 0; i < CLOSING_TURNS; i++)
            rt_loop_turn(&c->loop, no_other, NULL);
        rt_loop_fini(&c->loop);
    }
    return rv;
}

void clerk_identify(struct clerk *c)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_IDENTIFY};
    int rv = clerk_do(c, &op);
    if (rv != 0)
        fail_msg("identify: %d, %s", rv, c->errmsg);
    c->number = op.identify.number;
    c->floor_ms = op.identify.floor_ms;
    c->now_ms = op.identify.now_ms;
    assert_string_equal(op.identify.layout, "1.0");
}

void clerk_start(struct clerk *c, const char *url)
{
    int rv = clerk_open(c, url);
    if (rv != 0)
        fail_msg("%s: %d, %s", url, rv, c->errmsg);
    clerk_identify(c);
    assert_true(c->number != 0);
}

void clerk_close(struct clerk *c)
{
    rt_journal_close(c->j);
    for (int i = 0; i < CLOSING_TURNS; i++) {
        rt_loop_arm(&c->loop);
        rt_loop_turn(&c->loop, no_other, NULL);
    }
    rt_loop_fini(&c->loop);
}

void clerk_turn(struct clerk *c, int limit_ms)
{
    rt_loop_arm(&c->loop);
    if (c->loop.dirty)
        rt_loop_turn(&c->loop, no_other, NULL);
    rt_loop_arm(&c->loop);
    struct pollfd p = {.fd = rt_loop_fd(&c->loop), .events = POLLIN};
    (void)poll(&p, 1, limit_ms);
    rt_loop_tick(&c->loop);
    rt_loop_turn(&c->loop, no_other, NULL);
}

void clerk_submit(struct clerk *c, struct rt_journal_op *op)
{
    (void)rt_loop_tick(&c->loop);
    op->user = NULL;
    rt_journal_submit(c->j, op);
    assert_null(op->user); /* told from a turn only */
}

bool clerk_told(const struct rt_journal_op *op)
{
    return op->user == &told;
}

int clerk_wait(struct clerk *c, struct rt_journal_op *op)
{
    int64_t limit = rt_loop_tick(&c->loop) + CLERK_LIMIT_MS * RT_MS;
    while (!clerk_told(op) && rt_loop_tick(&c->loop) < limit)
        clerk_turn(c, 100);
    assert_true(clerk_told(op));
    return op->err;
}

int clerk_do(struct clerk *c, struct rt_journal_op *op)
{
    clerk_submit(c, op);
    return clerk_wait(c, op);
}

struct rt_txn_id clerk_born(struct clerk *c, int64_t ms)
{
    uint64_t chance;
    assert_int_equal(getrandom(&chance, sizeof(chance), 0), sizeof(chance));
    return rt_txn_id_make(c->number, ms, chance);
}

struct rt_txn_id clerk_id(struct clerk *c)
{
    return clerk_born(c, c->now_ms);
}

static void must(struct clerk *c, struct rt_journal_op *op)
{
    int rv = clerk_do(c, op);
    if (rv != 0)
        fail_msg("op %d: %d, %s", (int)op->kind, rv, c->errmsg);
}

static int64_t due(const struct clerk *c, const struct rt_txn_id *id)
{
    return (rt_txn_id_is_named(id) ? c->now_ms : rt_txn_id_birth(id)) + 60000;
}

enum rt_journal_stand clerk_decide(struct clerk *c, struct rt_txn_id id, enum rt_journal_stand what)
{
    static const struct rt_journal_branch two[] = {
        {.number = 1, .mode = 1, .resource = "bank", .payload = "one", .size = 3},
        {.number = 2, .mode = 1, .resource = "stock"}};
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    op.decide.id = id;
    op.decide.decision = what;
    op.decide.deadline_ms = due(c, &id);
    op.decide.label = "a test";
    op.decide.branches = two;
    op.decide.count = what == RT_JOURNAL_COMMIT ? 2 : 0;
    must(c, &op);
    return op.decide.stands;
}

enum rt_journal_stand clerk_register(struct clerk *c, struct rt_txn_id id, uint32_t number)
{
    struct rt_journal_branch one = {
        .number = number, .mode = 7, .resource = "shop", .payload = "try", .size = 3};
    struct rt_journal_op op = {.kind = RT_JOURNAL_REGISTER};
    op.reg.id = id;
    op.reg.deadline_ms = due(c, &id);
    op.reg.label = "joined";
    op.reg.branches = &one;
    op.reg.count = 1;
    must(c, &op);
    return op.reg.stands;
}

uint64_t clerk_sum(const struct rt_journal_branch *branches, size_t count)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < count; i++) {
        const struct rt_journal_branch *b = &branches[i];
        sum = (sum ^ b->number) * 1099511628211u;
        sum = (sum ^ b->mode) * 1099511628211u;
        for (const char *p = b->resource; *p != '\0'; p++)
            sum = (sum ^ (uint8_t)*p) * 1099511628211u;
        for (size_t k = 0; k < b->size; k++)
            sum = (sum ^ ((const uint8_t *)b->payload)[k]) * 1099511628211u;
    }
    return sum;
}

void clerk_see(void *arg, const struct rt_journal_record *r)
{
    struct page *p = arg;
    assert_true(p->count < RT_JOURNAL_PAGE_MAX);
    struct seen *s = &p->seen[p->count++];
    *s = (struct seen){.id = r->id,
                       .stands = r->stands,
                       .done = r->done,
                       .deadline_ms = r->deadline_ms,
                       .decided_ms = r->decided_ms,
                       .claimed_ms = r->claimed_ms,
                       .claimer = r->claimer,
                       .registered = r->registered,
                       .branch_count = r->branch_count,
                       .sum = clerk_sum(r->branches, r->branch_count)};
    snprintf(s->label, sizeof(s->label), "%s", r->label);
    for (size_t i = 0; i < r->branch_count; i++)
        s->of_register += r->branches[i].registered;
    for (size_t i = 0; i < r->branch_count && i < 8; i++) {
        s->numbers[i] = r->branches[i].number;
        snprintf(s->resources[i], sizeof(s->resources[i]), "%s", r->branches[i].resource);
    }
}

struct seen clerk_read(struct clerk *c, struct rt_txn_id id)
{
    static struct page page;
    struct rt_journal_op op = {.kind = RT_JOURNAL_READ};
    page.count = 0;
    op.read.id = id;
    op.read.each = clerk_see;
    op.read.arg = &page;
    must(c, &op);
    assert_int_equal(page.count, 1);
    assert_true(rt_txn_id_same(&page.seen[0].id, &id));
    return page.seen[0];
}

void clerk_finish(struct clerk *c, struct rt_txn_id id)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
    op.finish.ids = &id;
    op.finish.count = 1;
    must(c, &op);
}

uint32_t clerk_forget(struct clerk *c, int64_t before_ms)
{
    uint32_t all = 0;
    struct rt_journal_op op = {.kind = RT_JOURNAL_FORGET};
    do {
        op.forget.before_ms = before_ms;
        must(c, &op);
        all += op.forget.count;
    } while (op.forget.more);
    c->floor_ms = op.forget.floor_ms;
    return all;
}

void clerk_scan(struct clerk *c, int64_t from_ms, int64_t before_ms, uint32_t limit,
                struct page *all)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN};
    all->count = 0;
    op.scan.after_deadline_ms = from_ms;
    op.scan.before_ms = before_ms;
    op.scan.limit = limit;
    op.scan.each = clerk_see;
    op.scan.arg = all;
    do {
        size_t before = all->count;
        must(c, &op);
        assert_true(all->count - before <= limit);
        assert_true(!op.scan.more || all->count - before == limit);
    } while (op.scan.more);
}
