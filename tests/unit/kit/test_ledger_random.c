/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger against a naive model: a thousand lives of a few entries, whatever comes in whatever order, even from
 * inside `ended`. The model remembers what each entry was, and says what it must be told, and until when.
 *
 *   test_kit_ledger_random [SEED]     only that one */
#include "engine/kit/dial.h"
#include "engine/kit/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALL_MS 100
#define ENTRIES 12
#define STEPS 120
#define LIVES 1000

struct asked {
    struct rt_entry entry; /* first */
    enum { OUT, WAITS, FLIES } is;
    uint64_t rank;  /* among those that wait: first ones, then by their adding */
    bool left;      /* bytes of it, and nothing said since that it was not done */
    int given_up;   /* with what; 0: it was not */
    int64_t end_by; /* ended in this instant at the latest */
    bool missed;    /* it was not found: it must be about to end */
    struct rt_op op;
};

static struct rt_loop loop;
static struct rt_conn base;
static struct rt_ledger ledger;
static struct asked all[ENTRIES];
static uint32_t pending;
static uint64_t adds, seed, random_state, last_rank;
static const int ways[2];
static int refusing; /* `send` says so */
static bool inside, flushing;
static int depth;

#define CHECK(x)                                                     \
    do {                                                             \
        if (!(x))                                                    \
            fail_msg("seed %llu: %s", (unsigned long long)seed, #x); \
    } while (0)

static struct asked *of(struct rt_entry *e)
{
    return (struct asked *)(void *)e;
}

static int64_t now(void)
{
    return rt_loop_now(&loop);
}

static int64_t draw(int64_t n)
{
    return rt_dial_jitter(&random_state, n - 1);
}

static int on_send(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct asked *a = of(e);
    (void)l;
    CHECK(a->is == WAITS && a->given_up == 0);
    CHECK(e->deadline > now()); /* not begun by its deadline: it never is */
    CHECK(!flushing || a->rank > last_rank);
    if (flushing)
        last_rank = a->rank;
    if (refusing != 0) {
        if (refusing != ROTA_UNREACHABLE) {
            a->given_up = refusing;
            a->end_by = now();
        }
        return refusing;
    }
    *via = &ways[draw(2)];
    a->is = FLIES;
    return 0;
}

static void act(void);

static void on_ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct asked *a = of(e);
    bool maybe = a->left || a->is == FLIES;
    (void)l;
    CHECK(!inside && a->is != OUT && e->next == NULL);
    CHECK(e->flying == (a->is == FLIES));
    if (maybe && !e->reads)
        CHECK(err == ROTA_UNKNOWN);
    else if (a->given_up != 0)
        CHECK(err == a->given_up || why != NULL);
    else if (why == NULL)
        CHECK(err == ROTA_UNREACHABLE && e->deadline <= now());
    else
        CHECK(err == ROTA_AUTH);
    a->is = OUT;
    if (depth++ == 0 && draw(2) == 0) {
        bool was = flushing;
        flushing = false;
        act();
        flushing = was;
    }
    depth--;
}

static struct asked *one(int is)
{
    size_t from = (size_t)draw(ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++)
        if ((int)all[(from + i) % ENTRIES].is == is)
            return &all[(from + i) % ENTRIES];
    return NULL;
}

static void add(struct asked *a)
{
    *a = (struct asked){.is = WAITS, .op = a->op};
    a->entry.first = draw(4) == 0;
    a->entry.reads = draw(3) == 0;
    a->entry.again = draw(3) == 0;
    a->entry.pending = &pending;
    a->entry.op = &a->op;
    a->entry.deadline = now() + draw(5) * 20 * RT_MS;
    a->rank = ++adds + (a->entry.first ? 0 : UINT64_C(1) << 40);
    a->end_by = a->entry.deadline != 0 ? a->entry.deadline : now() + CALL_MS * RT_MS;
    inside = true;
    (void)rt_ledger_add(&ledger, &a->entry);
    inside = false;
}

static void give_up(struct asked *a)
{
    bool early = a->given_up == 0;
    inside = true;
    a->missed = !rt_ledger_cancel(&ledger, &a->op);
    inside = false;
    CHECK(!a->missed || depth > 0);
    if (early && a->entry.given_up) {
        a->given_up = ROTA_CANCELED;
        a->end_by = now();
    }
}

static void lost(void)
{
    const void *via = &ways[draw(2)];
    for (size_t i = 0; i < ENTRIES; i++) {
        struct asked *a = &all[i];
        if (a->is != FLIES || a->entry.via != via)
            continue;
        a->left = true;
        if ((a->entry.reads || a->entry.again) && a->given_up == 0)
            a->is = WAITS;
    }
    rt_ledger_lost(&ledger, via, "cut");
}

static void come_back(struct asked *a)
{
    int how = (int)draw(3);
    a->is = WAITS;
    if (how == 2)
        (void)rt_ledger_resend(&ledger, &a->entry);
    else
        rt_ledger_again(&ledger, &a->entry, how == 1);
}

/* One random step. What is drawn but cannot be done is skipped. */
static void act(void)
{
    int64_t what = draw(12) % 8; /* adds are as many as all that ends them */
    what = what < 4 && draw(2) == 0 ? 0 : what;
    struct asked *a = one(what == 0                ? OUT
                          : what == 1 || what == 2 ? FLIES
                          : draw(2) == 0           ? WAITS
                                                   : FLIES);
    if (what == 0 && a != NULL) {
        add(a);
    } else if (what == 1 && a != NULL) { /* answered */
        rt_ledger_out(&a->entry);
        a->is = OUT;
    } else if (what == 2 && a != NULL && depth == 0) {
        come_back(a);
    } else if (what == 3 && a != NULL) {
        give_up(a);
    } else if (what == 4 && depth == 0) {
        lost();
    } else if (what == 5 && depth == 0) {
        refusing = draw(2) == 0 ? 0 : draw(4) == 0 ? ROTA_NOMEM : ROTA_UNREACHABLE;
    } else if (what == 6 && depth == 0 && draw(4) == 0) {
        rt_ledger_refuse(&ledger, ROTA_AUTH, "no");
    } else if (what == 7 && depth == 0) {
        flushing = true;
        last_rank = 0;
        rt_ledger_flush(&ledger);
        flushing = false;
    }
}

static void other(void *arg, struct rt_timer *t, int64_t at)
{
    (void)arg;
    (void)t;
    (void)at;
    fail();
}

/* The timer fires whenever it is due; afterwards nobody whose time is over is left. */
static void pass(int64_t ms)
{
    int64_t until = now() + ms * RT_MS;
    const struct rt_timer *t = &ledger.timer.timer;
    for (int turns = 0; t->slot != 0 && t->at <= until; turns++) {
        CHECK(turns < 1000);
        if (t->at > now())
            rt_loop_advance(&loop, t->at);
        rt_loop_turn(&loop, other, NULL);
    }
    for (size_t i = 0; i < ENTRIES; i++)
        CHECK(all[i].is == OUT || all[i].end_by > now());
    rt_loop_advance(&loop, until);
}

static uint32_t count(void)
{
    uint32_t n = 0;
    for (size_t i = 0; i < ENTRIES; i++)
        n += all[i].is != OUT;
    return n;
}

static void live(void)
{
    static const struct rt_ledger_user user = {.send = on_send, .ended = on_ended};
    random_state = seed;
    rt_loop_init_virtual(&loop);
    rt_loop_advance(&loop, RT_MS);
    assert_int_equal(rt_loop_reserve(&loop, 1), 0);
    base = (struct rt_conn){.loop = &loop, .call_ms = CALL_MS};
    memset(&ledger, 0, sizeof(ledger));
    memset(all, 0, sizeof(all));
    pending = 0;
    adds = 0;
    refusing = depth = 0;
    rt_ledger_init(&ledger, &base, &user);
    for (int i = 0; i < STEPS; i++) {
        act();
        CHECK(pending == count());
        for (size_t k = 0; k < ENTRIES; k++)
            CHECK(all[k].is == OUT || !all[k].missed);
        if (draw(3) == 0)
            pass(draw(4) == 0 ? draw(60) : 0);
    }
    depth = 1; /* nothing is begun any more */
    pass(2 * CALL_MS);
    CHECK(pending == 0 && count() == 0);
    rt_ledger_fini(&ledger, NULL);
    rt_loop_unreserve(&loop, 1);
    rt_loop_fini(&loop);
}

static void lives(void **state)
{
    const uint64_t *only = *state;
    for (seed = only != NULL ? *only : 1; seed <= (only != NULL ? *only : LIVES); seed++)
        live();
}

int main(int argc, char **argv)
{
    uint64_t only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(lives, argc > 1 ? &only : NULL)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
