/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of txn/journal/journal.h, on any journal: journal_conformance URL. "@TMP@" in it is a new folder. */
#include "lib/proc.h"
#include "together.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char url[1024];

static int open_one(void **state)
{
    struct clerk *c = calloc(1, sizeof(*c));
    clerk_start(c, url);
    *state = c;
    return 0;
}

static int close_one(void **state)
{
    clerk_close(*state);
    free(*state);
    return 0;
}

/* ---- One decision -------------------------------------------------------------------------------- */

static void test_first_wins(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id a = clerk_id(c), b = clerk_id(c);
    assert_int_equal(clerk_decide(c, a, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_decide(c, a, RT_JOURNAL_ABORT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_decide(c, a, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_decide(c, b, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_decide(c, b, RT_JOURNAL_COMMIT), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_read(c, a).stands, RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_read(c, b).stands, RT_JOURNAL_ABORT);
    assert_int_equal(clerk_read(c, b).branch_count, 0);
}

static void test_another_client_sees_it(void **state)
{
    struct clerk *c = *state, other;
    struct rt_txn_id id = clerk_id(c);
    assert_int_equal(clerk_decide(c, id, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    clerk_start(&other, url);
    assert_int_equal(other.number, c->number);
    assert_int_equal(clerk_decide(&other, id, RT_JOURNAL_ABORT), RT_JOURNAL_COMMIT);
    clerk_close(&other);
}

/* ---- What is kept --------------------------------------------------------------------------------- */

static void test_read(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c);
    assert_int_equal(clerk_read(c, id).stands, RT_JOURNAL_ABSENT);
    assert_int_equal(clerk_decide(c, id, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    struct seen s = clerk_read(c, id);
    assert_int_equal(s.stands, RT_JOURNAL_COMMIT);
    assert_string_equal(s.label, "a test");
    assert_int_equal(s.deadline_ms, c->now_ms + 60000);
    assert_true(s.decided_ms >= c->now_ms - 1000 && !s.done);
    assert_int_equal(s.registered, 0);
    assert_int_equal(s.branch_count, 2);
    assert_int_equal(s.numbers[0], 1);
    assert_string_equal(s.resources[0], "bank");
    assert_int_equal(s.numbers[1], 2);
    assert_string_equal(s.resources[1], "stock");
    const struct rt_journal_branch two[] = {
        {.number = 1, .mode = 1, .resource = "bank", .payload = "one", .size = 3},
        {.number = 2, .mode = 1, .resource = "stock"}};
    assert_true(s.sum == clerk_sum(two, 2));
}

/* A thousand branches, and payloads of any bytes up to the limit. */
static void test_large(void **state)
{
    static struct rt_journal_branch all[RT_JOURNAL_BRANCHES_MAX];
    static uint8_t bytes[RT_JOURNAL_BYTES_MAX - 12 - 2];
    struct clerk *c = *state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (uint32_t i = 0; i < RT_JOURNAL_BRANCHES_MAX; i++)
        all[i] = (struct rt_journal_branch){.number = UINT32_MAX - i,
                                            .mode = UINT16_MAX,
                                            .resource = "r",
                                            .payload = bytes + i,
                                            .size = 50};
    for (int big = 0; big < 2; big++) {
        struct rt_journal_branch one = {
            .number = 0, .resource = "x", .payload = bytes, .size = sizeof(bytes)};
        struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
        op.decide.id = clerk_id(c);
        op.decide.decision = RT_JOURNAL_COMMIT;
        op.decide.branches = big ? &one : all;
        op.decide.count = big ? 1 : RT_JOURNAL_BRANCHES_MAX;
        assert_int_equal(clerk_do(c, &op), 0);
        struct seen s = clerk_read(c, op.decide.id);
        assert_int_equal(s.branch_count, op.decide.count);
        assert_true(s.sum == clerk_sum(op.decide.branches, op.decide.count));
    }
}

/* ---- Scanning, finishing ------------------------------------------------------------------------------ */

/* With deadlines that no other case has, so that no other rows are in the way. */
#define FROM 900
static void test_scan(void **state)
{
    static struct page page;
    struct clerk *c = *state;
    struct rt_txn_id ids[20];
    for (int i = 0; i < 20; i++) {
        struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
        ids[i] = clerk_id(c);
        op.decide.id = ids[i];
        op.decide.decision = i % 2 == 0 ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
        op.decide.deadline_ms = 1000 + 10 * (i % 4); /* several of one deadline */
        op.decide.label = "scanned";
        if (i == 7) {
            op = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
            op.reg.id = ids[i];
            op.reg.deadline_ms = 1030;
        }
        assert_int_equal(clerk_do(c, &op), 0);
    }
    clerk_scan(c, FROM, 999, 10, &page);
    assert_int_equal(page.count, 0);
    for (uint32_t limit = 1; limit <= 21; limit += limit < 5 ? 1 : 4) {
        clerk_scan(c, FROM, 1030, limit, &page);
        assert_int_equal(page.count, 20);
        for (size_t i = 1; i < page.count; i++) {
            const struct seen *x = &page.seen[i - 1], *y = &page.seen[i];
            assert_true(x->deadline_ms < y->deadline_ms ||
                        (x->deadline_ms == y->deadline_ms &&
                         memcmp(x->id.at, y->id.at, RT_TXN_ID_SIZE) < 0));
        }
    }
    clerk_scan(c, FROM, 1029, 10, &page);
    assert_int_equal(page.count, 15);
    assert_string_equal(page.seen[0].label, "scanned");
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
    op.finish.ids = ids;
    op.finish.count = 20;
    assert_int_equal(clerk_do(c, &op), 0);
    assert_int_equal(clerk_do(c, &op), 0); /* asked again */
    clerk_scan(c, FROM, 1030, 10, &page);
    assert_int_equal(page.count, 1); /* what is not decided cannot be done */
    assert_int_equal(page.seen[0].stands, RT_JOURNAL_OPEN);
    assert_true(rt_txn_id_same(&page.seen[0].id, &ids[7]));
    assert_true(clerk_read(c, ids[0]).done);
    assert_false(clerk_read(c, ids[7]).done);
    assert_int_equal(clerk_decide(c, ids[7], RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_finish(c, ids[7]);
    clerk_scan(c, FROM, 1030, 10, &page);
    assert_int_equal(page.count, 0);
    assert_int_equal(clerk_decide(c, ids[0], RT_JOURNAL_ABORT), RT_JOURNAL_COMMIT); /* for ever */
}

/* Births that no other case has: what is reported first is ours. */
#define LAST_BIRTHS (RT_TXN_BIRTH_MAX - 86400000) /* a deadline fits after them */
#define LISTED 5

/* What is over is reported too, by id, whatever the deadlines; and how each one stands. */
static void test_scan_all(void **state)
{
    static const enum rt_journal_stand stands[LISTED] = {
        RT_JOURNAL_COMMIT, RT_JOURNAL_ABORT, RT_JOURNAL_OPEN, RT_JOURNAL_ABORT, RT_JOURNAL_COMMIT};
    static const bool done[LISTED] = {true, false, false, true, true};
    static struct page page;
    struct clerk *c = *state;
    struct rt_txn_id ids[LISTED];
    for (int i = 0; i < LISTED; i++) {
        ids[i] = clerk_born(c, LAST_BIRTHS + i);
        assert_int_equal(clerk_register(c, ids[i], 1), RT_JOURNAL_OPEN);
        struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
        op.decide.id = ids[i];
        op.decide.decision = stands[i];
        op.decide.registered = 1;
        if (stands[i] != RT_JOURNAL_OPEN)
            assert_int_equal(clerk_do(c, &op), 0);
        if (done[i])
            clerk_finish(c, ids[i]);
    }
    for (uint32_t limit = 1; limit <= LISTED + 1; limit++) {
        struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN};
        op.scan.all = true;
        op.scan.limit = limit;
        op.scan.after = clerk_born(c, LAST_BIRTHS - 1);
        op.scan.each = clerk_see;
        op.scan.arg = &page;
        page.count = 0;
        do
            assert_int_equal(clerk_do(c, &op), 0);
        while (op.scan.more && page.count < LISTED);
        assert_true(page.count >= LISTED);
        for (int i = 0; i < LISTED; i++) {
            assert_true(rt_txn_id_same(&page.seen[i].id, &ids[i]));
            assert_int_equal(page.seen[i].stands, stands[i]);
            assert_int_equal(page.seen[i].done, done[i]);
            assert_int_equal(page.seen[i].registered, 1);
            assert_int_equal(page.seen[i].of_register, 0);
        }
    }
    assert_int_equal(clerk_decide(c, ids[2], RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    for (int i = 0; i < LISTED; i++)
        clerk_finish(c, ids[i]);
}

static void test_done_of_nothing(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c);
    clerk_finish(c, id);
    assert_int_equal(clerk_read(c, id).stands, RT_JOURNAL_ABSENT);
}

/* ---- Forgetting ------------------------------------------------------------------------------------------ */

/* Until the journal's clock has passed MS. */
static void await_later(struct clerk *c, int64_t ms)
{
    do
        clerk_identify(c);
    while (c->now_ms <= ms);
}

/* Births long ago: the floor of the journal rises from case to case, but stays below now. A journal without a clock
 * believes that it is now when it sees something that was just born. */
static int64_t next_floor(struct clerk *c)
{
    struct rt_txn_id newest = clerk_id(c);
    assert_int_equal(clerk_decide(c, newest, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_finish(c, newest);
    clerk_identify(c);
    return c->floor_ms + 1000;
}

static void test_forget(void **state)
{
    struct clerk *c = *state;
    int64_t floor = next_floor(c);
    struct rt_txn_id done = clerk_born(c, floor - 1), undone = clerk_born(c, floor - 1),
                     open = clerk_born(c, floor - 1), absent = clerk_born(c, floor - 1),
                     above = clerk_born(c, floor);
    assert_int_equal(clerk_decide(c, done, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_decide(c, undone, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_decide(c, above, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_register(c, open, 1), RT_JOURNAL_OPEN);
    clerk_finish(c, done);
    clerk_finish(c, above);
    assert_int_equal(clerk_forget(c, floor), 1);
    assert_int_equal(c->floor_ms, floor);
    assert_int_equal(clerk_read(c, done).stands, RT_JOURNAL_EXPIRED);
    assert_int_equal(clerk_read(c, absent).stands, RT_JOURNAL_EXPIRED);
    assert_int_equal(clerk_read(c, undone).stands, RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_read(c, open).stands, RT_JOURNAL_OPEN);
    assert_int_equal(clerk_read(c, above).stands, RT_JOURNAL_COMMIT);
    /* A request that comes late, after its decision was forgotten: */
    assert_int_equal(clerk_decide(c, done, RT_JOURNAL_ABORT), RT_JOURNAL_EXPIRED);
    assert_int_equal(clerk_decide(c, absent, RT_JOURNAL_COMMIT), RT_JOURNAL_EXPIRED);
    assert_int_equal(clerk_register(c, absent, 1), RT_JOURNAL_EXPIRED);
    struct rt_journal_op late = {.kind = RT_JOURNAL_DECIDE};
    late.decide.id = absent;
    late.decide.decision = RT_JOURNAL_COMMIT;
    assert_int_equal(clerk_do(c, &late), 0);
    assert_int_equal(late.decide.floor_ms, floor);
    late = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
    late.reg.id = absent;
    assert_int_equal(clerk_do(c, &late), 0);
    assert_int_equal(late.reg.floor_ms, floor);
    assert_int_equal(clerk_read(c, absent).stands, RT_JOURNAL_EXPIRED);
    /* What was never forgotten may be decided, and is forgotten once it is done. */
    assert_int_equal(clerk_register(c, open, 2), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_decide(c, open, RT_JOURNAL_COMMIT), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_decide(c, open, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_finish(c, open);
    clerk_finish(c, undone);
    assert_int_equal(clerk_forget(c, floor), 2);
    assert_int_equal(clerk_read(c, open).stands, RT_JOURNAL_EXPIRED);
    assert_int_equal(clerk_read(c, open).branch_count, 0);
}

static void test_floor_never_sinks(void **state)
{
    struct clerk *c = *state;
    int64_t floor = next_floor(c);
    (void)clerk_forget(c, floor);
    assert_int_equal(clerk_forget(c, floor - 500), 0);
    assert_int_equal(c->floor_ms, floor);
    clerk_identify(c);
    assert_int_equal(c->floor_ms, floor);
}

/* Whoever says how long to keep, and not what time it is: the journal knows that, by its own clock, or by the newest it
 * has. The first case, for it wants a journal in which nothing was born yet. */
static void test_forget_keeps(void **state)
{
    struct clerk *c = *state;
    bool clock = strncmp(url, "file:", 5) != 0 && strncmp(url, "etcd", 4) != 0;
    int64_t now = c->now_ms, old = c->floor_ms;
    struct rt_journal_op op = {.kind = RT_JOURNAL_FORGET};
    struct rt_txn_id newest = clerk_born(c, now - 3600000);
    op.forget.before_ms = RT_TXN_BIRTH_MAX;
    op.forget.keep_ms = now - 10000000;
    if (!clock) {
        assert_int_equal(clerk_do(c, &op), 0);
        assert_int_equal(op.forget.floor_ms, old);
    }
    assert_int_equal(clerk_decide(c, newest, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    op.forget.before_ms = RT_TXN_BIRTH_MAX;
    assert_int_equal(clerk_do(c, &op), 0);
    clerk_identify(c);
    assert_int_equal(op.forget.floor_ms, c->floor_ms);
    assert_true(c->floor_ms >= (clock ? 10000000 : 6400000));
    assert_true(c->floor_ms <= (clock ? c->now_ms - op.forget.keep_ms : 6400000));
}

/* More than a page of them: aborted at once, then finished. */
static void abort_and_finish(struct clerk *c, const struct rt_txn_id *ids, size_t n)
{
    static struct rt_journal_op ops[RT_JOURNAL_PAGE_MAX + 40];
    assert_true(n <= sizeof(ops) / sizeof(ops[0]));
    for (size_t i = 0; i < n; i++) {
        ops[i] = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
        ops[i].decide.id = ids[i];
        ops[i].decide.decision = RT_JOURNAL_ABORT;
        clerk_submit(c, &ops[i]);
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(clerk_wait(c, &ops[i]), 0);
    for (size_t from = 0; from < n; from += RT_JOURNAL_PAGE_MAX) {
        struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
        op.finish.ids = ids + from;
        op.finish.count = n - from < RT_JOURNAL_PAGE_MAX ? n - from : RT_JOURNAL_PAGE_MAX;
        assert_int_equal(clerk_do(c, &op), 0);
    }
}

/* More than a page: as many turns as it takes. */
static void test_forget_pages(void **state)
{
    static struct rt_txn_id ids[RT_JOURNAL_PAGE_MAX + 40];
    struct clerk *c = *state;
    int64_t floor = next_floor(c);
    size_t n = RT_JOURNAL_PAGE_MAX + 40;
    for (size_t i = 0; i < n; i++)
        ids[i] = clerk_born(c, floor - 1);
    abort_and_finish(c, ids, n);
    assert_int_equal(clerk_forget(c, floor), n);
    assert_int_equal(clerk_read(c, ids[n - 1]).stands, RT_JOURNAL_EXPIRED);
}

/* Two clients at once decide and forget, again and again: never a second decision. */
static void test_forget_races_decide(void **state)
{
    struct clerk *a = *state, b;
    clerk_start(&b, url);
    for (int i = 0; i < 20; i++) {
        int64_t floor = next_floor(a);
        struct rt_journal_op decide = {.kind = RT_JOURNAL_DECIDE},
                             forget = {.kind = RT_JOURNAL_FORGET};
        decide.decide.id = clerk_born(a, floor - 1);
        decide.decide.decision = RT_JOURNAL_COMMIT;
        forget.forget.before_ms = floor;
        if (i % 2 == 0) { /* it was decided otherwise, and is forgotten with this */
            assert_int_equal(clerk_decide(&b, decide.decide.id, RT_JOURNAL_ABORT),
                             RT_JOURNAL_ABORT);
            clerk_finish(&b, decide.decide.id);
        }
        clerk_submit(&b, &forget);
        clerk_submit(a, &decide);
        while (!clerk_told(&decide) || !clerk_told(&forget)) {
            clerk_turn(&b, 1);
            clerk_turn(a, 1);
        }
        assert_int_equal(decide.err, 0);
        assert_int_equal(forget.err, 0);
        assert_true(decide.decide.stands == RT_JOURNAL_EXPIRED ||
                    decide.decide.stands == (i % 2 == 0 ? RT_JOURNAL_ABORT : RT_JOURNAL_COMMIT));
        if (i % 2 != 0 && decide.decide.stands == RT_JOURNAL_COMMIT)
            clerk_finish(a, decide.decide.id);
    }
    clerk_close(&b);
}

/* ---- Recovery's helpers ------------------------------------------------------------------------------------ */

static int claim(struct clerk *c, struct rt_txn_id id, uint64_t who, uint32_t ms,
                 struct rt_journal_op *op)
{
    *op = (struct rt_journal_op){.kind = RT_JOURNAL_CLAIM};
    op->claim.id = id;
    op->claim.who = who;
    op->claim.for_ms = ms;
    return clerk_do(c, op);
}

static void test_claim(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = clerk_id(c);
    struct rt_journal_op op;
    const uint64_t a = UINT64_C(0xfedcba9876543210), b = 2;
    assert_int_equal(claim(c, id, a, 60000, &op), ROTA_LOST);
    assert_int_equal(clerk_decide(c, id, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    assert_int_equal(claim(c, id, a, 60000, &op), 0);
    assert_true(op.claim.until_ms >= c->now_ms + 59000);
    assert_int_equal(claim(c, id, a, 70000, &op), 0); /* asked again, for longer */
    assert_int_equal(claim(c, id, b, 1, &op), ROTA_BUSY);
    assert_true(op.claim.who == a && op.claim.until_ms > c->now_ms);
    assert_true(clerk_read(c, id).claimer == a);
    assert_int_equal(claim(c, id, b, 0, &op), 0); /* not its own: nothing to give back */
    assert_true(clerk_read(c, id).claimer == a);
    assert_int_equal(claim(c, id, a, 0, &op), 0);
    assert_int_equal(clerk_read(c, id).claimer, 0);
    assert_int_equal(claim(c, id, b, 1, &op), 0);
    while (claim(c, id, a, 60000, &op) == ROTA_BUSY) /* it ends by itself */
        clerk_turn(c, 1);
    assert_int_equal(op.err, 0);
    clerk_finish(c, id);
    assert_int_equal(claim(c, id, a, 60000, &op), ROTA_LOST);
}

struct told_resources {
    size_t count;
    char last[64], found[128];
    bool sorted;
};

static void on_resource(void *arg, const char *name, const char *at, int64_t seen_ms)
{
    struct told_resources *t = arg;
    t->sorted = t->sorted && (t->count == 0 || strcmp(t->last, name) < 0);
    t->count++;
    snprintf(t->last, sizeof(t->last), "%s", name);
    if (strcmp(name, "bank/\xc3\xa4 x") == 0)
        snprintf(t->found, sizeof(t->found), "%s", at);
    assert_true(seen_ms > 0);
}

static void test_resources(void **state)
{
    struct clerk *c = *state;
    static const char *const put[][2] = {{"stock", "mysql://host/stock"},
                                         {"bank/\xc3\xa4 x", "postgres://old/bank"},
                                         {"bank/\xc3\xa4 x", "postgres://new/bank"},
                                         {"Z", ""}};
    struct told_resources t = {.sorted = true};
    struct rt_journal_op op;
    for (size_t i = 0; i < sizeof(put) / sizeof(put[0]); i++) {
        op = (struct rt_journal_op){.kind = RT_JOURNAL_RESOURCE};
        op.resource.name = put[i][0];
        op.resource.url = put[i][1];
        assert_int_equal(clerk_do(c, &op), 0);
    }
    op = (struct rt_journal_op){.kind = RT_JOURNAL_RESOURCES};
    op.resources.each = on_resource;
    op.resources.arg = &t;
    assert_int_equal(clerk_do(c, &op), 0);
    assert_int_equal(t.count, 3);
    assert_true(t.sorted);
    assert_string_equal(t.found, "postgres://new/bank");
}

/* ---- Bad input ------------------------------------------------------------------------------------------------ */

static void refused(struct clerk *c, struct rt_journal_op *op, const char *why)
{
    c->errmsg[0] = '\0';
    assert_int_equal(clerk_do(c, op), ROTA_INVALID);
    if (strstr(c->errmsg, why) == NULL)
        fail_msg("'%s' does not say '%s'", c->errmsg, why);
}

static void test_bad_branches(void **state)
{
    static struct rt_journal_branch many[RT_JOURNAL_BRANCHES_MAX + 1];
    static char bytes[RT_JOURNAL_BYTES_MAX + 1], name[RT_JOURNAL_NAME_MAX + 2];
    struct clerk *c = *state;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    struct rt_journal_branch b = {.number = 3};
    memset(name, 'n', sizeof(name) - 1);
    op.decide.id = clerk_id(c);
    refused(c, &op, "COMMIT or ABORT");
    op.decide.decision = RT_JOURNAL_OPEN;
    refused(c, &op, "COMMIT or ABORT");
    op.decide.decision = RT_JOURNAL_COMMIT;
    op.decide.branches = &b;
    op.decide.count = 1;
    refused(c, &op, "no bytes");
    b.resource = "";
    refused(c, &op, "no bytes");
    b.resource = name;
    refused(c, &op, "more than 255");
    b.resource = "ok";
    b.size = 1;
    refused(c, &op, "payload");
    b.payload = bytes;
    b.size = sizeof(bytes);
    refused(c, &op, "payload");
    b.size = RT_JOURNAL_BYTES_MAX - 12; /* with its head and name it is more */
    refused(c, &op, "more than 65536");
    op.decide.branches = many;
    op.decide.count = RT_JOURNAL_BRANCHES_MAX + 1;
    refused(c, &op, "branches at once");
    op.decide.count = 0;
    op.decide.deadline_ms = -1;
    refused(c, &op, "deadline");
    op.decide.deadline_ms = c->now_ms;
    op.decide.label = "caf\xe9";
    refused(c, &op, "the label is not UTF-8");
    struct rt_journal_op reg = {.kind = RT_JOURNAL_REGISTER};
    reg.reg.id = op.decide.id;
    reg.reg.label = op.decide.label;
    refused(c, &reg, "the label is not UTF-8");
    assert_int_equal(clerk_read(c, op.decide.id).stands, RT_JOURNAL_ABSENT);
}

static void test_bad_others(void **state)
{
    struct clerk *c = *state;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
    static struct rt_txn_id ids[RT_JOURNAL_PAGE_MAX + 1];
    refused(c, &op, "page");
    op.finish.ids = ids;
    op.finish.count = RT_JOURNAL_PAGE_MAX + 1;
    refused(c, &op, "page");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_SCAN};
    refused(c, &op, "page");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_FORGET};
    op.forget.before_ms = -1;
    refused(c, &op, "floor");
    op.forget.before_ms = 0;
    op.forget.keep_ms = -1;
    refused(c, &op, "what is kept");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_CLAIM};
    refused(c, &op, "whose it is");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_RESOURCE};
    refused(c, &op, "name");
    op.resource.name = "x";
    refused(c, &op, "URL");
    op.resource.url = "mysql://h/\xe4";
    refused(c, &op, "the URL of a resource is not UTF-8");
    op.resource.name = "\xe4";
    refused(c, &op, "the name of a resource is not UTF-8");
    op = (struct rt_journal_op){.kind = (enum rt_journal_op_kind)77};
    refused(c, &op, "no such operation");
}

/* Ids of another journal are never touched. */
static void test_foreign(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id id = rt_txn_id_make(c->number + 1, c->now_ms, 1), two[2] = {clerk_id(c), id};
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    op.decide.id = id;
    op.decide.decision = RT_JOURNAL_ABORT;
    refused(c, &op, "another journal");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_READ};
    op.read.id = id;
    refused(c, &op, "another journal");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
    op.reg.id = id;
    refused(c, &op, "another journal");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_CLAIM};
    op.claim.id = id;
    op.claim.who = 1;
    refused(c, &op, "another journal");
    op = (struct rt_journal_op){.kind = RT_JOURNAL_DONE};
    op.finish.ids = two;
    op.finish.count = 2;
    refused(c, &op, "another journal");
}

/* Closed with everything under way: nobody is told, nothing leaks; what was acknowledged is there. */
static void test_close_under_way(void **state)
{
    static struct rt_journal_op ops[MANY];
    struct clerk *c = *state, other;
    clerk_start(&other, url);
    for (int i = 0; i < MANY; i++) {
        ops[i] = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
        ops[i].decide.id = clerk_id(c);
        ops[i].decide.decision = RT_JOURNAL_COMMIT;
        clerk_submit(&other, &ops[i]);
    }
    clerk_turn(&other, 1);
    clerk_close(&other);
    for (int i = 0; i < MANY; i++)
        if (clerk_told(&ops[i]))
            assert_int_equal(clerk_read(c, ops[i].decide.id).stands, RT_JOURNAL_COMMIT);
        else
            assert_int_not_equal(clerk_decide(c, ops[i].decide.id, RT_JOURNAL_ABORT),
                                 RT_JOURNAL_OPEN);
}

/* An op whose time is over before it has begun has no effect. */
static void test_deadline(void **state)
{
    struct clerk *c = *state;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE, .deadline = 1};
    op.decide.id = clerk_id(c);
    op.decide.decision = RT_JOURNAL_COMMIT;
    assert_int_equal(clerk_do(c, &op), ROTA_UNREACHABLE);
    assert_true(c->errmsg[0] != '\0');
    assert_int_equal(clerk_read(c, op.decide.id).stands, RT_JOURNAL_ABSENT);
    op.deadline = INT64_MAX;
    assert_int_equal(clerk_do(c, &op), 0);
}

/* ---- Named ids: the last cases, for the floor rises to now ------------------------------------------------- */

static struct rt_txn_id named(struct clerk *c, const char *what, size_t i)
{
    char gid[64];
    int size = snprintf(gid, sizeof(gid), "%s %zu of %lld", what, i, (long long)c->now_ms);
    return rt_txn_id_named(c->number, gid, (size_t)size);
}

/* A named one is never below the floor: it goes once it is done and was decided long ago, and is then as good as
 * new. */
static void test_forget_named(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id done = named(c, "done", 0), undone = named(c, "undone", 0),
                     open = named(c, "open", 0), twin = named(c, "done", 0);
    assert_int_equal(clerk_register(c, done, 1), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_register(c, twin, 2), RT_JOURNAL_OPEN); /* the same row */
    assert_int_equal(clerk_register(c, open, 1), RT_JOURNAL_OPEN);
    assert_int_equal(clerk_decide(c, done, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    assert_int_equal(clerk_decide(c, undone, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    clerk_finish(c, done);
    struct seen s = clerk_read(c, done);
    assert_true(s.done);
    assert_int_equal(s.registered, 2);
    (void)clerk_forget(c, s.decided_ms); /* decided then, not before */
    assert_int_equal(clerk_read(c, done).stands, RT_JOURNAL_ABORT);
    assert_int_equal(clerk_read(c, done).of_register, 2);
    await_later(c, s.decided_ms); /* nothing later than that is ever forgotten */
    (void)clerk_forget(c, s.decided_ms + 1000);
    assert_int_equal(clerk_read(c, done).stands, RT_JOURNAL_ABSENT);
    assert_int_equal(clerk_read(c, undone).stands, RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_read(c, open).stands, RT_JOURNAL_OPEN);
    assert_int_equal(clerk_register(c, done, 3), RT_JOURNAL_OPEN);
    s = clerk_read(c, done);
    assert_int_equal(s.registered, 1); /* nothing of the old one is left */
    assert_int_equal(s.numbers[0], 3);
    assert_int_equal(clerk_decide(c, named(c, "new", 0), RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
}

/* More than a page of them. */
static void test_forget_named_pages(void **state)
{
    static struct rt_txn_id ids[RT_JOURNAL_PAGE_MAX + 40];
    struct clerk *c = *state;
    size_t n = RT_JOURNAL_PAGE_MAX + 40;
    int64_t last = 0;
    for (size_t i = 0; i < n; i++)
        ids[i] = named(c, "page", i);
    abort_and_finish(c, ids, n);
    for (size_t i = 0; i < n; i += n - 1) {
        int64_t at = clerk_read(c, ids[i]).decided_ms;
        last = at > last ? at : last;
    }
    await_later(c, last);
    assert_true(clerk_forget(c, last + 1000) >= n);
    for (size_t i = 0; i < n; i += 37)
        assert_int_equal(clerk_read(c, ids[i]).stands, RT_JOURNAL_ABSENT);
}

/* Somebody whose clock is a year ahead forgets: the floor rises no higher than what the journal itself knows of the
 * time, and whoever begins after that is not stopped by it. The last case: without that, none could follow. */
static void test_forget_by_a_wrong_clock(void **state)
{
    struct clerk *c = *state;
    struct rt_txn_id before = clerk_id(c);
    assert_int_equal(clerk_decide(c, before, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    clerk_identify(c);
    (void)clerk_forget(c, c->now_ms + INT64_C(365) * 24 * 3600 * 1000);
    int64_t floor = c->floor_ms;
    clerk_identify(c);
    assert_int_equal(c->floor_ms, floor);
    assert_true(floor <= c->now_ms);
    await_later(c, floor); /* by the server's clock, which need not be ours */
    assert_int_equal(clerk_decide(c, clerk_born(c, c->now_ms), RT_JOURNAL_COMMIT),
                     RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_register(c, clerk_born(c, c->now_ms), 1), RT_JOURNAL_OPEN);
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_one, close_one)
    const struct CMUnitTest tests[] = {
        CASE(test_forget_keeps),
        CASE(test_first_wins),
        CASE(test_raced),
        CASE(test_another_client_sees_it),
        CASE(test_many_at_once),
        CASE(test_decided_together),
        CASE(test_read),
        CASE(test_large),
        CASE(test_long_label_is_cut),
        CASE(test_register),
        CASE(test_commit_counts),
        CASE(test_too_late_to_register),
        CASE(test_register_races_commit),
        CASE(test_begin_record),
        CASE(test_scan),
        CASE(test_scan_all),
        CASE(test_done_of_nothing),
        CASE(test_forget),
        CASE(test_floor_never_sinks),
        CASE(test_forget_pages),
        CASE(test_forget_races_decide),
        CASE(test_claim),
        CASE(test_resources),
        CASE(test_bad_branches),
        CASE(test_bad_others),
        CASE(test_foreign),
        CASE(test_close_under_way),
        CASE(test_deadline),
        CASE(test_forget_named),
        CASE(test_forget_named_pages),
        CASE(test_forget_by_a_wrong_clock),
    };
    if (argc != 2 && argc != 3) {
        fputs("usage: journal_conformance URL [CASE]\n", stderr);
        return 64;
    }
    if (argc == 3)
        cmocka_set_test_filter(argv[2]);
    const char *mark = strstr(argv[1], "@TMP@");
    if (mark != NULL)
        snprintf(url, sizeof(url), "%.*s%s%s", (int)(mark - argv[1]), argv[1], rt_tmpdir(),
                 mark + 5);
    else
        snprintf(url, sizeof(url), "%s", argv[1]);
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
