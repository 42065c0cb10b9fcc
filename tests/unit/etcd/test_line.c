/* SPDX-License-Identifier: Apache-2.0 */
/* The layout in etcd without etcd: keys and values, who in a line holds, and that a waiting ticket which
 * watches what it is told to watch misses nothing that grants it. */
#include "engine/etcd/etcd.h"
#include "engine/etcd/line.h"

#include "core/grant.h"
#include "lib/random.h"
#include "lib/scarce.h"

#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PLACES 12

/* ---- Keys ------------------------------------------------------------------------------------- */

static void test_keys_are_read_as_written(void **state)
{
    char key[RT_ETCD_KEY_MAX];
    size_t name_size;
    struct rt_etcd_id id;
    (void)state;
    size_t n = rt_etcd_key(key, "orders", 0x7293a1ddfccc9f05, false, 0xab);
    assert_int_equal(n, strlen("orders/7293a1ddfccc9f05-ab"));
    assert_memory_equal(key, "orders/7293a1ddfccc9f05-ab", n);
    assert_true(rt_etcd_key_read((uint8_t *)key, n, &name_size, &id));
    assert_true(id.ours && !id.durable && id.session == 0x7293a1ddfccc9f05 && id.nonce == 0xab);
    assert_int_equal(name_size, 6);
    n = rt_etcd_key_spot(key, "orders", 0x7293a1ddfccc9f05, 0x1c);
    assert_int_equal(n, strlen("orders/7293a1ddfccc9f05-s1c"));
    assert_memory_equal(key, "orders/7293a1ddfccc9f05-s1c", n);
    assert_true(rt_etcd_key_read((uint8_t *)key, n, &name_size, &id));
    assert_true(id.ours && !id.durable && id.session == 0x7293a1ddfccc9f05);
    assert_true(id.spot == 0x1c && id.nonce == 0);
    n = rt_etcd_key(key, "a/b", UINT64_MAX, true, UINT64_MAX);
    assert_true(rt_etcd_key_read((uint8_t *)key, n, &name_size, &id));
    assert_true(id.ours && id.durable && id.session == UINT64_MAX && id.nonce == UINT64_MAX);
    assert_int_equal(name_size, 3);
    assert_int_equal(rt_etcd_line_begin(key, "x"), 2);
    assert_memory_equal(key, "x/", 2);
    assert_int_equal(rt_etcd_line_end(key, "x"), 2);
    assert_memory_equal(key, "x0", 2); /* the first behind all that begin with "x/" */
}

/* What others write beside us is never taken for ours. */
static void test_foreign_keys(void **state)
{
    static const struct {
        const char *key;
        bool read, ours;
        uint64_t session;
    } cases[] = {
        {"job/7293a1ddfccc9f05", true, false, 0x7293a1ddfccc9f05},
        {"job/0", true, false, 0},
        {"job/", true, false, 0},
        {"job", false, false, 0},
        {"", false, false, 0},
        {"/", true, false, 0},
        {"job/read/1700000000", true, false, 0x1700000000},
        {"job/1-0", true, false, 0},                 /* no nonce is 0 */
        {"job/01-2", true, false, 0},                /* not as we write */
        {"job/1-02", true, false, 0},                /* neither */
        {"job/1A-2", true, false, 0},                /* neither */
        {"job/12345678901234567-2", true, false, 0}, /* too long */
        {"job/1-2-3", true, false, 0},               /* too much */
        {"job/d1", true, false, 0xd1},               /* a lease that begins with d */
        {"job/d1-2", true, true, 0xd1},              /* the same */
        {"job/d1-s2", true, true, 0xd1},             /* the same */
        {"job/p1-2", true, true, 1},                 /* durable */
        {"job/p1", true, false, 0},
        {"job/p-2", true, false, 0}, /* of nobody */
        {"job/-2", true, false, 0},
        {"job/1-", true, false, 0},
        {"job/1-s2", true, true, 1},
        {"job/1-s", true, false, 0},
        {"job/1-s0", true, false, 0},
        {"job/1-s02", true, false, 0},
        {"job/p1-s2", true, false, 0}, /* durable ones have no spots */
        {"job/pd-2", true, true, 0xd},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t name_size;
        struct rt_etcd_id id = {0};
        bool read = rt_etcd_key_read((const uint8_t *)cases[i].key, strlen(cases[i].key),
                                     &name_size, &id);
        if (read != cases[i].read || id.ours != cases[i].ours || id.session != cases[i].session)
            fail_msg("%s: read %d, ours %d, session %llx", cases[i].key, read, id.ours,
                     (unsigned long long)id.session);
    }
}

static void test_names_that_are_too_long(void **state)
{
    char name[RT_ETCD_KEY_MAX + 1], key[RT_ETCD_KEY_MAX];
    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(rt_etcd_key(key, name, 1, false, 1), 0);
    assert_int_equal(rt_etcd_line_begin(key, name), 0);
    name[RT_NAME_ROOM - 1] = '\0';
    assert_true(rt_etcd_key(key, name, UINT64_MAX, true, UINT64_MAX) > 0);
}

/* ---- Values ------------------------------------------------------------------------------------ */

static void test_values_are_read_as_written(void **state)
{
    char text[RT_ETCD_CARD_MAX];
    struct rt_etcd_card got, card = {.mode = RT_PERMITS,
                                     .take = 2,
                                     .of = 7,
                                     .flags = RT_ETCD_CARD_DETECT,
                                     .owner = UINT64_MAX,
                                     .since_ms = 1700000000000,
                                     .nonce = 5,
                                     .label = (const uint8_t *)"who it is",
                                     .label_size = 9,
                                     .value = (const uint8_t *)"any thing",
                                     .value_size = 9};
    (void)state;
    size_t n = rt_etcd_card_write(&card, text);
    const char *want = "rota1 2 2 7 d 18446744073709551615 0 1700000000000 5 9 who it is any thing";
    assert_int_equal(n, strlen(want));
    assert_memory_equal(text, want, n);
    rt_etcd_card_read(&got, (uint8_t *)text, n);
    assert_true(!got.plain && got.mode == RT_PERMITS && got.take == 2 && got.of == 7);
    assert_true(got.flags == RT_ETCD_CARD_DETECT && got.owner == UINT64_MAX);
    assert_true(got.since_ms == 1700000000000 && got.nonce == 5);
    assert_int_equal(got.label_size, 9);
    assert_memory_equal(got.label, "who it is", 9);
    assert_int_equal(got.value_size, 9);
    assert_memory_equal(got.value, "any thing", 9);
}

static void test_the_largest_value_fits(void **state)
{
    char text[RT_ETCD_CARD_MAX];
    static uint8_t label[RT_LABEL_MAX + 50], value[ROTA_VALUE_MAX];
    struct rt_etcd_card got, card = {.mode = RT_GATHER,
                                     .of = UINT32_MAX,
                                     .flags = RT_ETCD_CARD_DETECT | RT_ETCD_CARD_LEFT,
                                     .owner = UINT64_MAX,
                                     .bound = UINT64_MAX,
                                     .since_ms = INT64_MAX,
                                     .nonce = UINT64_MAX,
                                     .label = label,
                                     .label_size = sizeof(label),
                                     .value = value,
                                     .value_size = sizeof(value)};
    (void)state;
    memset(label, 'l', sizeof(label));
    memset(value, 'v', sizeof(value));
    size_t n = rt_etcd_card_write(&card, text);
    assert_true(n <= sizeof(text));
    rt_etcd_card_read(&got, (uint8_t *)text, n);
    assert_false(got.plain);
    assert_true(got.label_size == RT_LABEL_MAX && got.value_size == sizeof(value));
    assert_true(got.bound == UINT64_MAX);
}

/* A value that is not in our words is a foreign exclusive ticket, whatever it looks like. */
static void test_foreign_values(void **state)
{
    static const char *const values[] = {
        "",
        "leader-1",
        "rota1",
        "rota1 ",
        "rota1 0 0 0 - 0 0 0 1 0",                      /* the space behind the label is missing */
        "rota1 0 0 0 - 0 0 0 1 5 abc d",                /* the label is shorter than it says */
        "rota1 9 0 0 - 0 0 0 1 0  ",                    /* no such mode */
        "rota1 2 0 3 - 0 0 0 1 0  ",                    /* takes none of three */
        "rota1 2 4 3 - 0 0 0 1 0  ",                    /* four of three */
        "rota1 -1 0 0 - 0 0 0 1 0  ",                   /* a sign */
        "rota1 0 0 0 - 18446744073709551616 0 0 1 0  ", /* too large */
        "rota1 4294967296 0 0 - 0 0 0 1 0  ",           /* would be 0 */
        "rota1 0 0 0 - 0 0 9999999999999999999 1 0  ",
        "rota1 0 0 0 - 0 0 0 18446744073709551616 0  ",
        "rota1 0 0 0 - 0 0 0 1 18446744073709551615  ",
        "rota10 0 0 0 - 0 0 0 1 0  ",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct rt_etcd_card card;
        rt_etcd_card_read(&card, (const uint8_t *)values[i], strlen(values[i]));
        if (!card.plain || card.mode != RT_EXCLUSIVE || card.newer ||
            card.value_size != strlen(values[i]))
            fail_msg("'%s' was read as ours", values[i]);
    }
}

static void test_a_later_layout_is_known_for_one(void **state)
{
    struct rt_etcd_card card;
    (void)state;
    rt_etcd_card_read(&card, (const uint8_t *)"rota2 x y", 9);
    assert_true(card.newer && card.plain && card.mode == RT_EXCLUSIVE);
    rt_etcd_card_read(&card, (const uint8_t *)"rota1 0 0 0 dz 0 0 0 0 0  v",
                      27); /* a later minor's flag */
    assert_true(!card.plain && card.flags == RT_ETCD_CARD_DETECT && card.value_size == 1);
    assert_false(rt_etcd_plain_fits("rota1 0"));
    assert_true(rt_etcd_plain_fits("") && rt_etcd_plain_fits("ro"));
    assert_false(rt_etcd_plain_fits("rota12 0"));
    assert_true(rt_etcd_plain_fits("rota") && rt_etcd_plain_fits("rota: 1"));
    assert_true(rt_etcd_plain_fits("rota1") && rt_etcd_plain_fits("rota2-host 1"));
}

/* Any bytes are read without touching a byte outside them, and read the same once written again. */
static void test_random_values_and_keys(void **state)
{
    struct rt_random r = {11};
    static const char base[] = "rota1 2 1 3 d 77 0 1700000000000 9 3 abc value";
    (void)state;
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[64];
        size_t n = sizeof(base) - 1, name_size;
        struct rt_etcd_card card, again;
        struct rt_etcd_id id;
        char text[RT_ETCD_CARD_MAX];
        memcpy(bytes, base, n);
        for (uint32_t flips = rt_random_below(&r, 4); flips > 0; flips--)
            bytes[rt_random_below(&r, (uint32_t)n)] = (uint8_t)rt_random_below(&r, 256);
        n = rt_random_below(&r, 3) == 0 ? rt_random_below(&r, (uint32_t)n + 1) : n;
        uint8_t *exact = n > 0 ? test_malloc(n) : NULL; /* so that ASan sees a step beside */
        if (n > 0)
            memcpy(exact, bytes, n);
        rt_etcd_card_read(&card, exact, n);
        size_t size = rt_etcd_card_write(&card, text);
        rt_etcd_card_read(&again, (uint8_t *)text, size);
        assert_true(again.plain == card.plain && again.mode == card.mode);
        assert_true(again.value_size == card.value_size && again.label_size == card.label_size);
        (void)rt_etcd_key_read(exact, n, &name_size, &id);
        if (n > 0)
            test_free(exact);
    }
}

/* ---- Lines -------------------------------------------------------------------------------------- */

static struct rt_etcd_line line;

struct ticket {
    uint32_t mode, take, of;
    uint64_t number, bound;
};

struct fixture {
    RtEtcd__KeyValue kvs[PLACES], *at[PLACES];
    char keys[PLACES][32], values[PLACES][RT_ETCD_CARD_MAX];
};

static void read_tickets(struct fixture *f, const struct ticket *tickets, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct rt_etcd_card card = {.mode = tickets[i].mode,
                                    .take = tickets[i].take,
                                    .of = tickets[i].of,
                                    .bound = tickets[i].bound,
                                    .label = (const uint8_t *)"",
                                    .value = (const uint8_t *)""};
        rt_etcd__key_value__init(&f->kvs[i]);
        snprintf(f->keys[i], sizeof(f->keys[i]), "x/1-%llx", (unsigned long long)tickets[i].number);
        f->kvs[i].key.data = (uint8_t *)f->keys[i];
        f->kvs[i].key.len = strlen(f->keys[i]);
        f->kvs[i].value.data = (uint8_t *)f->values[i];
        f->kvs[i].value.len = rt_etcd_card_write(&card, f->values[i]);
        f->kvs[i].create_revision = (int64_t)tickets[i].number;
        f->at[i] = &f->kvs[i];
    }
    assert_int_equal(rt_etcd_line_read(&line, f->at, n), 0);
}

/* "ges": which of the line hold; and what the last one watches. */
static void assert_line(const struct ticket *tickets, size_t n, const char *granted,
                        enum rt_etcd_aim_kind kind, uint64_t key, bool puts)
{
    struct fixture f;
    read_tickets(&f, tickets, n);
    for (size_t i = 0; i < n; i++)
        if (line.places[i].granted != (granted[i] == 'g'))
            fail_msg("the %zuth of %s is %d", i, granted, line.places[i].granted);
    struct rt_etcd_aim aim = rt_etcd_line_aim(&line, &line.places[n - 1]);
    assert_int_equal(aim.kind, kind);
    if (kind == RT_ETCD_AIM_KEY)
        assert_int_equal(aim.kv->create_revision, key);
    if (kind != RT_ETCD_AIM_NONE)
        assert_int_equal(aim.puts, puts);
}

#define X(n)                     \
    {                            \
        RT_EXCLUSIVE, 0, 0, n, 0 \
    }
#define S(n)                  \
    {                         \
        RT_SHARED, 0, 0, n, 0 \
    }
#define P(k, of, n)             \
    {                           \
        RT_PERMITS, k, of, n, 0 \
    }
#define G(of, n, bound)            \
    {                              \
        RT_GATHER, 0, of, n, bound \
    }
#define LINE(...)                         \
    (const struct ticket[]){__VA_ARGS__}, \
        sizeof((const struct ticket[]){__VA_ARGS__}) / sizeof(struct ticket)

static void test_who_holds_and_what_is_watched(void **state)
{
    (void)state;
    assert_line(LINE(X(5)), "g", RT_ETCD_AIM_NONE, 0, false);
    assert_line(LINE(X(5), X(9)), "gw", RT_ETCD_AIM_KEY, 5, false);
    assert_line(LINE(X(5), X(7), X(9)), "gww", RT_ETCD_AIM_KEY, 7, false);
    assert_line(LINE(S(5), S(7)), "gg", RT_ETCD_AIM_NONE, 0, false);
    assert_line(LINE(S(5), S(7), X(9)), "ggw", RT_ETCD_AIM_KEY, 7, false);
    /* A reader waits for the last writer ahead, not for readers (R7: and not for it alone). */
    assert_line(LINE(X(3), S(5), S(7)), "gww", RT_ETCD_AIM_KEY, 3, true);
    assert_line(LINE(S(3), X(5), S(7), S(9)), "gwww", RT_ETCD_AIM_KEY, 5, true);
    /* Permits: the first that waits watches the line, others the one ahead. */
    assert_line(LINE(P(1, 2, 3), P(1, 2, 5)), "gg", RT_ETCD_AIM_NONE, 0, false);
    assert_line(LINE(P(2, 2, 3), P(1, 2, 5)), "gw", RT_ETCD_AIM_LINE, 0, false);
    assert_line(LINE(P(2, 2, 3), P(1, 2, 5), P(1, 2, 7)), "gww", RT_ETCD_AIM_KEY, 5, true);
    assert_line(LINE(P(1, 3, 3), P(3, 3, 5), P(1, 3, 7)), "gww", RT_ETCD_AIM_KEY, 5, true);
    /* A latch holds nobody up. */
    assert_line(LINE({RT_COUNT, 0, 3, 3, 0}, {RT_COUNT, 0, 3, 5, 0}), "gg", RT_ETCD_AIM_NONE, 0,
                false);
}

static void test_a_barrier_opens_once_for_all(void **state)
{
    (void)state;
    assert_line(LINE(G(3, 3, 0), G(3, 5, 0)), "ww", RT_ETCD_AIM_LINE, 0, true);
    assert_line(LINE(G(2, 3, 0), G(2, 5, 0)), "ww", RT_ETCD_AIM_OPEN, 0, true); /* the last opens */
    assert_int_equal(line.opens, 5);
    assert_int_equal(rt_etcd_line_aim(&line, &line.places[0]).kind, RT_ETCD_AIM_OPEN);
    /* Neither the first nor the one that filled it: they wait for the one that opens it. */
    assert_line(LINE(G(3, 3, 0), G(3, 5, 0), G(3, 7, 0)), "www", RT_ETCD_AIM_OPEN, 0, true);
    assert_int_equal(rt_etcd_line_aim(&line, &line.places[1]).kind, RT_ETCD_AIM_LINE);
    /* One mark stands for all up to its bound, even when others have left. */
    assert_line(LINE(G(3, 5, 0), G(3, 7, 7)), "gg", RT_ETCD_AIM_NONE, 0, false);
    assert_line(LINE(G(2, 5, 7), G(2, 7, 7), G(2, 9, 0)), "ggw", RT_ETCD_AIM_LINE, 0, true);
    assert_line(LINE(G(2, 5, 7), G(2, 9, 0), G(2, 11, 0)), "gww", RT_ETCD_AIM_OPEN, 0, true);
    assert_int_equal(line.opens, 11);
}

static void test_order_is_that_of_creation(void **state)
{
    struct fixture f;
    RtEtcd__KeyValue *swap;
    (void)state;
    read_tickets(&f, LINE(X(5), X(7), X(9)));
    swap = f.at[0];
    f.at[0] = f.at[2];
    f.at[2] = swap;
    assert_int_equal(rt_etcd_line_read(&line, f.at, 3), 0);
    assert_true(line.places[0].number == 5 && line.places[2].number == 9 && line.waiting == 2);
    assert_true(rt_etcd_line_find(&line, 7) == &line.places[1]);
    assert_null(rt_etcd_line_find(&line, 8));
}

/* ---- Nothing that grants is missed ------------------------------------------------------------------ */

struct world {
    struct ticket tickets[PLACES];
    struct rt_etcd_aim_kind_of {
        enum rt_etcd_aim_kind kind;
        uint64_t key;
        bool puts, granted, told;
    } seen[PLACES]; /* what each found at its last look */
    size_t n;
    uint64_t next;
};

static void look_at(struct world *w, size_t i)
{
    struct fixture f;
    read_tickets(&f, w->tickets, w->n);
    struct rt_etcd_aim aim = rt_etcd_line_aim(&line, &line.places[i]);
    w->seen[i].granted = line.places[i].granted;
    w->seen[i].kind = aim.kind;
    w->seen[i].key = aim.kind == RT_ETCD_AIM_KEY ? (uint64_t)aim.kv->create_revision : 0;
    w->seen[i].puts = aim.puts;
}

static void look_all_who(struct world *w, uint64_t key, bool put);

/* What a client does after a look: a permit's holder touches its key for the one behind it. */
static void look_and_go_on(struct world *w, size_t i)
{
    bool before = w->seen[i].granted;
    look_at(w, i);
    assert_true(w->seen[i].granted || !before); /* once granted stays so */
    if (w->seen[i].granted && !before && w->tickets[i].mode == RT_PERMITS && i + 1 < w->n)
        look_all_who(w, w->tickets[i].number, true);
}

/* KEY has changed, or is gone: whoever watches it looks. */
static void look_all_who(struct world *w, uint64_t key, bool put)
{
    for (size_t i = 0; i < w->n; i++) {
        bool hears = !w->seen[i].granted && (!put || w->seen[i].puts) &&
                     (w->seen[i].kind != RT_ETCD_AIM_KEY || w->seen[i].key == key);
        if (hears)
            look_and_go_on(w, i);
    }
}

static void join_one(struct world *w, struct rt_random *r, bool permits)
{
    struct ticket *t = &w->tickets[w->n];
    *t = (struct ticket){.number = w->next += 1 + rt_random_below(r, 3)};
    t->mode = permits ? RT_PERMITS : rt_random_below(r, 2) == 0 ? RT_EXCLUSIVE : RT_SHARED;
    t->of = permits ? 3 : 0;
    t->take = permits ? 1 + rt_random_below(r, 3) : 0;
    memset(&w->seen[w->n], 0, sizeof(w->seen[0]));
    w->n++;
    look_and_go_on(w, w->n - 1);
}

static void leave_one(struct world *w, size_t i)
{
    uint64_t number = w->tickets[i].number;
    w->n--;
    memmove(&w->tickets[i], &w->tickets[i + 1], (w->n - i) * sizeof(w->tickets[0]));
    memmove(&w->seen[i], &w->seen[i + 1], (w->n - i) * sizeof(w->seen[0]));
    look_all_who(w, number, false);
}

static void assert_all_know(struct world *w)
{
    struct fixture f;
    read_tickets(&f, w->tickets, w->n);
    for (size_t i = 0; i < w->n; i++)
        if (line.places[i].granted != w->seen[i].granted)
            fail_msg("the %zuth of %zu holds and was not told", i, w->n);
}

static void run_world(uint64_t seed, bool permits)
{
    struct rt_random r = {seed};
    struct world w = {.next = 2};
    for (int step = 0; step < 200; step++) {
        uint32_t dice = rt_random_below(&r, 10);
        size_t i = w.n > 0 ? rt_random_below(&r, (uint32_t)w.n) : 0;
        if (w.n == 0 || (dice < 5 && w.n < PLACES)) {
            join_one(&w, &r, permits);
        } else if (dice == 5 && w.tickets[i].mode == RT_EXCLUSIVE && w.seen[i].granted) {
            w.tickets[i].mode = RT_SHARED; /* downgraded */
            look_all_who(&w, w.tickets[i].number, true);
        } else {
            leave_one(&w, i);
        }
        assert_all_know(&w);
    }
}

static void test_nothing_that_grants_is_missed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        run_world(seed, false);
        run_world(seed, true);
    }
}

static void test_no_memory(void **state)
{
    struct fixture f;
    struct rt_etcd_line fresh = {0};
    (void)state;
    read_tickets(&f, LINE(X(5), X(7)));
    rt_etcd_line_fini(&line);
    scarce_begin();
    scarce_leave(0);
    assert_int_equal(rt_etcd_line_read(&fresh, f.at, 2), ROTA_NOMEM);
    assert_int_equal(fresh.count, 0);
    scarce_leave(-1);
    assert_int_equal(rt_etcd_line_read(&fresh, f.at, 2), 0);
    rt_etcd_line_fini(&fresh);
    assert_int_equal(scarce.live, 0);
    scarce_end();
}

/* ---- Versions ------------------------------------------------------------------------------ */

static void test_versions_with_bugs_of_leases(void **state)
{
    (void)state;
    static const struct {
        int major, minor, patch;
        bool bugs;
    } known[] = {
        {3, 3, 27, true}, {3, 4, 23, true},  {3, 4, 30, true}, {3, 4, 31, true},
        {3, 4, 37, true}, {3, 4, 38, false}, {3, 5, 0, true},  {3, 5, 12, true},
        {3, 5, 22, true}, {3, 5, 23, false}, {3, 6, 0, true},  {3, 6, 4, true},
        {3, 6, 5, false}, {3, 7, 0, false},  {3, 8, 0, false}, {4, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct rt_etcd_facts f = {
            .major = known[i].major, .minor = known[i].minor, .patch = known[i].patch};
        assert_int_equal(rt_etcd_lease_bugs(&f)[0] != '\0', known[i].bugs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_read_as_written),
        cmocka_unit_test(test_foreign_keys),
        cmocka_unit_test(test_names_that_are_too_long),
        cmocka_unit_test(test_values_are_read_as_written),
        cmocka_unit_test(test_the_largest_value_fits),
        cmocka_unit_test(test_foreign_values),
        cmocka_unit_test(test_a_later_layout_is_known_for_one),
        cmocka_unit_test(test_random_values_and_keys),
        cmocka_unit_test(test_who_holds_and_what_is_watched),
        cmocka_unit_test(test_a_barrier_opens_once_for_all),
        cmocka_unit_test(test_order_is_that_of_creation),
        cmocka_unit_test(test_nothing_that_grants_is_missed),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_versions_with_bugs_of_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
