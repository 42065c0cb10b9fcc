/* SPDX-License-Identifier: Apache-2.0 */
/* What ops say to their scripts, word for word, and what they read in the answers: to a script, a word in the wrong
 * place is not an error but another lock. */
#include "ops_played.h"

#include "core/grant.h"
#include "engine/redis/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The next call is of SCRIPT with WORDS, in which @ is our session and $ our connection: its tag. */
static uint64_t expect_words(enum rt_redis_script script, const char *words)
{
    char expected[1024];
    size_t n = 0;
    const char *args;
    uint64_t tag = expect_call(script, &args);
    for (; *words != '\0'; words++)
        n += (size_t)snprintf(expected + n, sizeof(expected) - n, "%.*s",
                              *words == '@' || *words == '$' ? 64 : 1,
                              *words == '@'   ? p.conn->sid
                              : *words == '$' ? p.conn->cid
                                              : words);
    assert_string_equal(args, expected);
    return tag;
}

/* ---- Sessions --------------------------------------------------------------------------- */

/* An op may have been used before: what it is told is all of this beat. */
static void test_beat_words(void **state)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .user = beat_name};
    (void)state;
    op.beat.session = p.conn->session;
    op.beat.ttl_ms = op.beat.allowance_ms = 77;
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_BEAT, "@ 10000 64 0"), 0, "i1000000000 i0 i0 i0 i0 s5");
    expect_told("beat ok");
    assert_int_equal(op.beat.ttl_ms, 10000);
    assert_int_equal(op.beat.allowance_ms, 0);
    submit(
        &op); /* the server looks for dead ones from where it stopped; it has more: swept at once */
    answer(expect_words(RT_REDIS_SCRIPT_BEAT, "@ 10000 64 5"), 0, "i1000000000 i0 i0 i0 i1 s6");
    expect_told("beat ok");
    answer(expect_words(RT_REDIS_SCRIPT_SWEEP, "256 @ "), 0, "i1000000000 i0 i0");
    op.beat.open = true;
    op.beat.ttl_ms = op.beat.allowance_ms = 77;
    submit(&op);
    const char *args;
    uint64_t tag = expect_call(RT_REDIS_SCRIPT_OPEN, &args);
    assert_true(strncmp(args, p.conn->cid, strlen(p.conn->cid)) == 0 &&
                strncmp(args, p.conn->sid, 16) != 0);
    assert_string_equal(args + 16, " 10000 played");
    answer(tag, 0, "i1000000000");
    expect_told("beat ok");
    assert_int_equal(op.beat.ttl_ms, 10000);
    assert_int_equal(op.beat.allowance_ms, 0);
    (void)expect_call(RT_REDIS_SCRIPT_END, NULL);
}

/* Of several rooms' answers the gravest is told, in its own words: a session that is gone is gone, whatever another
 * room did not say. */
static void test_gravest_answer(void **state)
{
    static const struct {
        int errs[3];
        const char *told, *says;
    } all[] = {
        {{0, 0, 0}, "op ok", NULL},
        {{ROTA_BUSY, 0, ROTA_INVALID}, "op BUSY", "0"},
        {{ROTA_BUSY, ROTA_UNKNOWN, ROTA_BUSY}, "op UNKNOWN", "1"},
        {{ROTA_UNKNOWN, ROTA_LOST, ROTA_UNKNOWN}, "op LOST", "1"},
        {{0, ROTA_LOST, ROTA_BUSY}, "op LOST", "1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_op op = {.kind = RT_OP_BEAT, .user = other_name};
        struct rt_work *w = rt_work_new(&p.conn->side.works, &p.conn->base, sizeof(*w), &op);
        assert_non_null(w);
        for (int k = 0; k < 3; k++) {
            (void)rt_redis_fail(p.conn, all[i].errs[k], "%d", k);
            rt_work_note(&p.conn->base, w, all[i].errs[k]);
        }
        rt_work_end(&p.conn->base, w, 0);
        expect_told(all[i].told);
        if (all[i].says != NULL)
            assert_string_equal(p.conn->base.errmsg, all[i].says);
    }
}

/* ---- JOIN ------------------------------------------------------------------------------- */

static void test_join_words(void **state)
{
    static const struct {
        struct rt_join join;
        const char *words;
    } all[] = {
        {{.flags = 0}, "- @ a 7 a @ 7 0 0 0 - 0 0"},
        {{.flags = RT_JOIN_TRY}, "t @ a 7 a @ 7 0 0 0 - 0 0"},
        {{.flags = RT_JOIN_ARM, .owner = 12}, "- @ a 7 a @ 7 0 0 0 a 12 0"},
        {{.flags = RT_JOIN_DETECT}, "- @ a 7 a @ 7 0 0 0 d 0 0"},
        {{.flags = RT_JOIN_ARM | RT_JOIN_DETECT}, "- @ a 7 a @ 7 0 0 0 ad 0 0"},
        {{.mode = RT_PERMITS, .take = 2, .of = 5}, "- @ a 7 a @ 7 2 2 5 - 0 0"},
        {{.mode = RT_GATHER, .of = 3}, "- @ 10000 played a 7 a @ 7 4 0 3 - 0 0 4 0 3 0 0 "},
        {{.value = "v"}, "- @ 10000 played a 7 a @ 7 0 0 0 x 0 0 0 0 0 0 0 v"},
        {{.value = ""}, "- @ a 7 a @ 7 0 0 0 - 0 0"},
        {{.at_least_ms = 1}, "- @ 10000 played a 7 a @ 7 0 0 0 x 0 0 0 0 0 1 0 "},
        {{.until_ms = 1}, "- @ 10000 played a 7 a @ 7 0 0 0 - 0 0 0 0 0 0 1 "},
        {{.flags = RT_JOIN_DURABLE | RT_JOIN_TRY, .session = 9, .until_ms = 30},
         "tD d9 10000 played a 7 a d9 7 0 0 0 Dx 0 0 $ 0 0 0 0 30 "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_join j = all[i].join;
        struct rt_op op = {.kind = RT_OP_JOIN, .user = join_name, .join = {&j, 1}};
        j.name = "a";
        j.nonce = 7;
        j.session = j.session != 0 ? j.session : p.conn->session;
        submit(&op);
        answer(expect_words(RT_REDIS_SCRIPT_JOIN, all[i].words), 0, "i1000000000 i0 i11 i1");
        expect_told("join ok");
        assert_int_equal(j.number, 11);
        assert_true(j.granted && !j.wanted);
    }
}

/* Each ticket is told by itself whether it holds, and whether somebody waits for it. */
static void test_set_words(void **state)
{
    struct rt_join j[3] = {
        {.name = "a", .nonce = 7}, {.name = "b", .nonce = 8}, {.name = "c", .nonce = 9}};
    struct rt_op op = {.kind = RT_OP_JOIN_ALL, .user = join_name, .join = {j, 3}};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        j[i].session = p.conn->session;
    submit(&op);
    uint64_t tag = expect_words(
        RT_REDIS_SCRIPT_JOIN,
        "- @ 10000 played a 7 a @ 7 0 0 0 - 0 0 0 0 0 0 0  b 8 b @ 8 0 0 0 - 0 0 0 0 0 0 0  "
        "c 9 c @ 9 0 0 0 - 0 0 0 0 0 0 0 ");
    answer(tag, 0, "i1000000000 i0 i11 i1 i12 i2 i13 i0");
    expect_told("join ok");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(j[i].number, 11 + i);
        assert_int_equal(j[i].granted, i < 2);
        assert_int_equal(j[i].wanted, i == 1);
    }
    submit(&op);
    tag = expect_call(RT_REDIS_SCRIPT_JOIN, NULL);
    answer(tag, 0, "i1000000000 i0 i11 i1 i12 i1 i0 i1"); /* a ticket without a number is none */
    expect_told("join UNKNOWN");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 2, "sme i2");
    expect_told("join BUSY");
    assert_string_equal(p.conn->base.errmsg, "c is held by me");
}

/* The error says what a name already is, so that the user finds another. */
static void test_kind_in_words(void **state)
{
    static const char *const all[][2] = {
        {"i0 i0 i0", "a is a lock now, not permits of 5"},
        {"i1 i0 i0", "a is a lock now, not permits of 5"},
        {"i2 i3 i0", "a is permits of 3 now, not permits of 5"},
        {"i3 i4 i0", "a is a latch of 4 now, not permits of 5"},
        {"i4 i2 i0", "a is a barrier of 2 now, not permits of 5"},
        {"i5 i2 i0", "a is of an unknown kind now, not permits of 5"},
        {"i-1 i2 i0", "a is of an unknown kind now, not permits of 5"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_join j = {.name = "a",
                            .nonce = 7,
                            .session = p.conn->session,
                            .mode = RT_PERMITS,
                            .take = 1,
                            .of = 5};
        struct rt_op op = {.kind = RT_OP_JOIN, .user = join_name, .join = {&j, 1}};
        submit(&op);
        answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 3, all[i][0]);
        expect_told("join INVALID");
        assert_non_null(strstr(p.conn->base.errmsg, all[i][1]));
    }
}

/* What no script would understand is refused before it is sent. */
static void test_joins_without_sense(void **state)
{
    static char large[ROTA_VALUE_MAX + 2];
    memset(large, 'v', sizeof(large) - 1);
    const struct {
        struct rt_join join;
        const char *says;
    } all[] = {
        {{.name = NULL, .nonce = 7}, "a line needs a name"},
        {{.name = "", .nonce = 7}, "a line needs a name"},
        {{.name = "a"}, "a join of a without a nonce"},
        {{.name = "a", .nonce = 7, .mode = RT_PERMITS, .take = 6, .of = 5},
         "mode 2 cannot take 6 of 5"},
        {{.name = "a", .nonce = 7, .value = large}, "a value has at most"},
        {{.name = "a", .nonce = 7, .at_least_ms = -1}, "a time cannot be negative"},
        {{.name = "a", .nonce = 7, .until_ms = -1}, "a time cannot be negative"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_join j = all[i].join;
        struct rt_op op = {.kind = RT_OP_JOIN, .user = join_name, .join = {&j, 1}};
        j.session = p.conn->session;
        submit(&op);
        expect_told("join INVALID");
        assert_non_null(strstr(p.conn->base.errmsg, all[i].says));
        expect_no_call();
    }
    struct rt_join j = {
        .name = "a", .nonce = 7, .session = p.conn->session, .value = large + 1}; /* just fits */
    struct rt_op op = {.kind = RT_OP_JOIN, .user = join_name, .join = {&j, 1}};
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_JOIN, NULL), 0, "i1000000000 i0 i11 i1");
    expect_told("join ok");
    j.session++; /* another one than ours: it has ended */
    submit(&op);
    expect_told("join LOST");
    expect_no_call();
}

/* ---- LEAVE, CHANGE, BREAK --------------------------------------------------------------- */

static void test_leave_words(void **state)
{
    struct rt_op op = {.kind = RT_OP_LEAVE, .user = leave_name};
    (void)state;
    op.leave.name = "a";
    op.leave.session = p.conn->session;
    op.leave.number = 11;
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_LEAVE, "a @ 11"), 0, "i1");
    expect_told("leave ok");
    assert_true(op.leave.granted);
    op.leave.nonce = 7; /* whose number it was, should that have been given again */
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_LEAVE, "a @ 11 7"), 1, "");
    expect_told("leave LOST");
    op.leave.session = 9; /* a durable one: its ids are not ours */
    op.leave.untold = true;
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_LEAVE, "a d9 11 7 u"), 0, "i0");
    expect_told("leave ok");
    assert_false(op.leave.granted);
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_LEAVE, NULL), 1, "");
    expect_told("leave LOST");
}

static void test_change_words(void **state)
{
    static const struct {
        uint32_t what;
        const char *value, *words;
    } all[] = {
        {0, NULL, "a @ 11 - "},
        {RT_CHANGE_DOWNGRADE, NULL, "a @ 11 D "},
        {RT_CHANGE_ARM, NULL, "a @ 11 A "},
        {RT_CHANGE_VALUE | RT_CHANGE_ARM | RT_CHANGE_DOWNGRADE, "v", "a @ 11 DVA v"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(all) / sizeof(all[0]); i++) {
        struct rt_op op = {.kind = RT_OP_CHANGE, .user = other_name};
        op.change.name = "a";
        op.change.session = p.conn->session;
        op.change.number = 11;
        op.change.what = all[i / 2].what;
        op.change.value = all[i / 2].value;
        submit(&op);
        answer(expect_words(RT_REDIS_SCRIPT_CHANGE, all[i / 2].words), 0, i % 2 ? "i1" : "i0");
        expect_told("op ok");
        assert_int_equal(op.change.wanted, i % 2);
    }
}

static void test_break_words(void **state)
{
    struct rt_op op = {.kind = RT_OP_BREAK, .user = other_name, .brk = {"a", 11, RT_SHARED}};
    (void)state;
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_BREAK, "a 11 1"), 0, "i0");
    expect_told("op ok");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_BREAK, NULL), 1, "");
    expect_told("op LOST");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_BREAK, NULL), 0, "sx");
    expect_told("op UNKNOWN");
}

/* ---- Looking ---------------------------------------------------------------------------- */

static char seen[1024];

static void see_place(void *arg, const char *name, const struct rota_place *at)
{
    size_t n = strlen(seen);
    (void)arg;
    snprintf(seen + n, sizeof(seen) - n,
             "%s %llu session %llx owner %llu since %lld left %lld %u/%u/%u flags %x [%s] [%s]\n",
             name, (unsigned long long)at->number, (unsigned long long)at->session,
             (unsigned long long)at->owner, (long long)at->since_ms, (long long)at->left_ms,
             at->mode, at->take, at->of, at->flags, at->label, at->value);
}

/* As {tag, 0, now, name, number, member, end, label, value, granted, ...}: members have blanks. */
static void answer_places(uint64_t tag, const char *const places[][7], size_t n)
{
    char text[4096], number[24];
    int digits = snprintf(number, sizeof(number), "%llu", (unsigned long long)tag);
    size_t at = (size_t)snprintf(text, sizeof(text), "*%zu\r\n$%d\r\n%s\r\n:0\r\n:5000000\r\n",
                                 3 + 7 * n, digits, number);
    for (size_t i = 0; i < 7 * n; i++) {
        const char *word = places[i / 7][i % 7];
        if (i % 7 == 1 || i % 7 == 3 || i % 7 == 6)
            at += (size_t)snprintf(text + at, sizeof(text) - at, ":%s\r\n", word);
        else
            at += (size_t)snprintf(text + at, sizeof(text) - at, "$%zu\r\n%s\r\n", strlen(word),
                                   word);
    }
    played_say(&p, WORK, text);
}

static void test_inspect(void **state)
{
    struct rt_op op = {
        .kind = RT_OP_INSPECT, .user = other_name, .inspect = {.name = "a", .each = see_place}};
    char mine[64], durable[64];
    (void)state;
    snprintf(mine, sizeof(mine), "%s 7 0 1 2 d 12 4000000", p.conn->sid);
    snprintf(durable, sizeof(durable), "d9 7 2 3 5 Dx 0 0 %s", p.conn->cid);
    const char *const places[][7] = {
        {"a", "3000000", mine, "7500000", "me", "value", "1"},
        {"a", "3000001", "00000000000000ff 8 1 1 0 - 0 0", "4000000", "you", "",
         "0"},                                       /* over, and not swept */
        {"a", "6000000", durable, "0", "", "", "0"}, /* the clock was set back */
        {"a", "6000001", "- 8 0 1 0 - 0 4999000", "0", "", "", "1"},
    };
    submit(&op);
    answer_places(expect_words(RT_REDIS_SCRIPT_INSPECT, "a"), places, 4);
    expect_told("op ok");
    char expected[1024];
    snprintf(expected, sizeof(expected),
             "a 3000000 session %llx owner 12 since 1000 left 2500 0/1/2 flags d [me] [value]\n"
             "a 3000001 session ff owner 0 since 1999 left 0 1/1/0 flags 0 [you] []\n"
             "a 6000000 session 0 owner 0 since 0 left -1 2/3/5 flags 6 [] []\n"
             "a 6000001 session 0 owner 0 since 1 left -1 0/1/0 flags 3 [] []\n",
             (unsigned long long)p.conn->session);
    assert_string_equal(seen, expected);
}

/* A session that stands nowhere has no tickets; one by its number is asked for by its digits. Half a ticket, or a
 * member with too few words, is told as an error: it is not left out. */
static void test_inspect_of_little(void **state)
{
    struct rt_op op = {
        .kind = RT_OP_INSPECT, .user = other_name, .inspect = {.session = 255, .each = see_place}};
    const char *const few[][7] = {{"a", "3", "ff 7 0 1 2 d 12", "0", "", "", "1"}};
    (void)state;
    seen[0] = '\0';
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_INSPECT_SESSION, "00000000000000ff"), 1, "");
    expect_told("op ok");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_INSPECT_SESSION, NULL), 0, "i5 sa i3");
    expect_told("op UNKNOWN");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_INSPECT_SESSION, NULL), 0, "");
    expect_told("op UNKNOWN");
    submit(&op);
    answer_places(expect_call(RT_REDIS_SCRIPT_INSPECT_SESSION, NULL), few, 1);
    expect_told("op PROTOCOL");
    assert_string_equal(seen, "");
}

static void see_line(void *arg, const char *name, size_t count, size_t granted)
{
    size_t n = strlen(seen);
    (void)arg;
    snprintf(seen + n, sizeof(seen) - n, "%s %zu %zu\n", name, count, granted);
}

/* What is over is swept first; then page by page, told in order, each line once, empty ones and others' not. */
static void test_list(void **state)
{
    struct rt_op op = {
        .kind = RT_OP_LIST, .user = other_name, .list = {.prefix = "a", .each = see_line}};
    (void)state;
    seen[0] = '\0';
    submit(&op);
    answer(expect_words(RT_REDIS_SCRIPT_SWEEP, "256  "), 0, "i5 i0 i1");
    answer(expect_words(RT_REDIS_SCRIPT_SWEEP, "256  "), 0, "i5 i0 i0");
    answer(expect_words(RT_REDIS_SCRIPT_LIST, "0"), 0, "s9 sab i1 i2 sb i1 i0 sa i0 i1");
    answer(expect_words(RT_REDIS_SCRIPT_LIST, "9"), 0, "s0 sab i1 i2 saa i0 i0 sac i1 i0");
    expect_told("op ok");
    assert_string_equal(seen, "a 1 0\nab 3 1\nac 1 1\n");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i5 i0");
    expect_told("op UNKNOWN");
    submit(&op);
    answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i5 i0 i0");
    answer(expect_call(RT_REDIS_SCRIPT_LIST, NULL), 0, "s0 sab i1");
    expect_told("op UNKNOWN");
}

/* There is more to sweep than we have time for: after some rounds the lines are listed as they are. */
static void test_list_does_not_sweep_for_ever(void **state)
{
    struct rt_op op = {.kind = RT_OP_LIST, .user = other_name, .list = {.each = see_line}};
    (void)state;
    submit(&op);
    for (int i = 0; i < 64; i++)
        answer(expect_call(RT_REDIS_SCRIPT_SWEEP, NULL), 0, "i5 i0 i1");
    answer(expect_call(RT_REDIS_SCRIPT_LIST, NULL), 0, "s0");
    expect_told("op ok");
}

/* ---- Observing -------------------------------------------------------------------------- */

static void see_change(struct rt_up *up, const struct rt_event *e)
{
    (void)up;
    size_t n = strlen(seen);
    if (e->kind == RT_CHANGED)
        snprintf(seen + n, sizeof(seen) - n, "%s %s: %zu %u %u %llu [%s] [%s]\n",
                 (const char *)e->cookie, e->name, e->count, e->mode, e->of,
                 (unsigned long long)e->front.fence, e->front.label, e->front.value);
}

static void expect_seen(const char *text)
{
    assert_string_equal(seen, text);
    seen[0] = '\0';
}

static void observe(struct rt_op *op, char *cookie, bool stop)
{
    *op = (struct rt_op){.kind = RT_OP_OBSERVE, .user = other_name, .observe = {"o", cookie, stop}};
    submit(op);
}

#define AT_FIRST "i1000000000 i0 i1 i2 i3 i11 sme sv"

/* Whatever changes in a line is told, by a push or a look, and nothing twice. */
static void test_observe_each_change(void **state)
{
    static const struct {
        const char *push, *look, *seen;
    } all[] = {
        {"2 2 3 11 2 mev", "i2 i2 i3 i11 sme sv", "x o: 2 2 3 11 [me] [v]\n"},
        {"2 4 3 11 2 mev", "i2 i4 i3 i11 sme sv", "x o: 2 4 3 11 [me] [v]\n"},
        {"2 4 5 11 2 mev", "i2 i4 i5 i11 sme sv", "x o: 2 4 5 11 [me] [v]\n"},
        {"2 4 5 12 2 mev", "i2 i4 i5 i12 sme sv", "x o: 2 4 5 12 [me] [v]\n"},
        {"2 4 5 12 3 youv", "i2 i4 i5 i12 syou sv", "x o: 2 4 5 12 [you] [v]\n"},
        {"2 4 5 12 3 you", "i2 i4 i5 i12 syou s", "x o: 2 4 5 12 [you] []\n"},
        {"2 4 5 12 0 you", "i2 i4 i5 i12 s syou", "x o: 2 4 5 12 [] [you]\n"},
    };
    struct rt_op op;
    char x[] = "x";
    (void)state;
    seen[0] = '\0';
    p.up.event = see_change;
    observe(&op, x, false);
    answer(expect_words(RT_REDIS_SCRIPT_LOOK, "o 10000"), 0, AT_FIRST);
    expect_told("op ok");
    expect_seen("x o: 1 2 3 11 [me] [v]\n");
    confirm("rota:{0}:o:o");
    answer(expect_words(RT_REDIS_SCRIPT_LOOK, "o 10000"), 0,
           AT_FIRST); /* what was pushed before was missed */
    expect_seen("");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char words[128];
        snprintf(words, sizeof(words), "i1000000000 i0 %s", all[i].look);
        if (i % 2 == 0) {
            push_text("rota:{0}:o:o", all[i].push);
            expect_seen(all[i].seen);
            played_pass(&p, 19);
            expect_no_call();
            played_pass(&p, 1); /* near a look, it may be the older of the two: soon looked again */
        } else {
            push_text("rota:{0}:o:o", all[i - 1].push);
            played_pass(&p, 20);
        }
        answer(expect_words(RT_REDIS_SCRIPT_LOOK, "o 10000"), 0, words);
        expect_seen(i % 2 == 0 ? "" : all[i].seen);
    }
    played_pass(&p, 3300); /* a third of the ttl: so long the room keeps telling us, twice over */
    expect_no_call();
    played_pass(&p, 34);
    answer(expect_words(RT_REDIS_SCRIPT_LOOK, "o 10000"), 0, "i1000000000 i0 i2 i4 i5 i12 s syou");
    played_pass(&p, 1500);
    push_text("rota:{0}:o:o", "0 0 0 0 0 "); /* long after a look: it is the newer one */
    expect_seen("x o: 0 0 0 0 [] []\n");
    played_pass(&p, 1800);
    expect_no_call();
}

/* A line's channel is given up with its last observer, not before. */
static void test_observers_of_one_line(void **state)
{
    struct rt_op a, b, stop;
    char x[] = "x", y[] = "y";
    (void)state;
    seen[0] = '\0';
    p.up.event = see_change;
    observe(&a, x, false);
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, AT_FIRST);
    observe(&b, y, false);
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, AT_FIRST);
    expect_told("op ok");
    expect_told("op ok");
    expect_seen("x o: 1 2 3 11 [me] [v]\ny o: 1 2 3 11 [me] [v]\n");
    assert_string_equal(played_next(&p, PUSH), "SUBSCRIBE rota:{0}:o:o");
    observe(&stop, x, true);
    expect_told("op ok");
    assert_string_equal(played_next(&p, PUSH), "");
    push_text("rota:{0}:o:o", "2 2 3 11 2 mev");
    expect_seen("y o: 2 2 3 11 [me] [v]\n");
    observe(&stop, y, true);
    expect_told("op ok");
    assert_string_equal(played_next(&p, PUSH), "UNSUBSCRIBE rota:{0}:o:o");
    played_pass(&p, 9000);
    expect_no_call();
}

/* One that ends, or fails, before its first look is answered. */
static void test_observer_that_ends_early(void **state)
{
    struct rt_op op, stop;
    char x[] = "x";
    (void)state;
    seen[0] = '\0';
    p.up.event = see_change;
    observe(&op, x, false);
    observe(&stop, x, true);
    expect_told("op CANCELED");
    expect_told("op ok");
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, AT_FIRST);
    observe(&op, x, false);
    answer(expect_call(RT_REDIS_SCRIPT_LOOK, NULL), 0, "i1000000000 i0 i1");
    expect_told("op UNKNOWN");
    played_pass(&p, 9000); /* nobody counts on it */
    expect_no_call();
    expect_seen("");
}

/* ---- The doctor ------------------------------------------------------------------------- */

static void see_verdict(void *arg, const struct rota_verdict *v)
{
    size_t n = strlen(seen);
    (void)arg;
    snprintf(seen + n, sizeof(seen) - n, "%s: %s\n", v->promise, v->verdict);
}

/* Its ticket, in a line that no name can denote, ends by itself if the doctor does not come back; it changes and
 * removes only that one, and two doctors are two sessions. */
static void test_doctor_words(void **state)
{
    struct rt_op op = {.kind = RT_OP_CHECK, .user = other_name, .check = {.each = see_verdict}};
    unsigned long long sessions[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        char words[256];
        const char *args;
        seen[0] = '\0';
        submit(&op);
        const char *rights = played_next(&p, WORK);
        assert_true(strncmp(rights, "EVAL ", 5) == 0); /* whether it may, too */
        answer(played_tag(rights), 0, "s");
        uint64_t tag = expect_call(RT_REDIS_SCRIPT_JOIN, &args);
        assert_int_equal(sscanf(args, "tD d%llu ", &sessions[i]), 1);
        snprintf(words, sizeof(words),
                 "tD d%llu 10000 rota doctor \x7f"
                 "doctor 1 \x7f"
                 "doctor d%llu 1 1 1 0 Dx 0 0 %s 1 1 0 0 10000 tried",
                 sessions[i], sessions[i], p.conn->cid);
        assert_string_equal(args, words);
        answer(tag, 0, "i1000000000 i0 i11 i1");
        snprintf(words, sizeof(words),
                 "\x7f"
                 "doctor d%llu 11 V changed",
                 sessions[i]);
        answer(expect_words(RT_REDIS_SCRIPT_CHANGE, words), 0, "i0");
        snprintf(words, sizeof(words),
                 "\x7f"
                 "doctor d%llu 11 1",
                 sessions[i]);
        answer(expect_words(RT_REDIS_SCRIPT_LEAVE, words), 0, "i1");
        answer(expect_words(RT_REDIS_SCRIPT_LIST, "0"), 0, "s0");
        answer(expect_words(RT_REDIS_SCRIPT_INSPECT, "\x7f"
                                                     "doctor"),
               0, "i1000000000"); /* 1970 */
        expect_told("op ok");
        assert_string_equal(
            seen,
            "one holder at a time (I1): kept\nfences only grow (I2): kept\n"
            "order of arrival (I7): kept\ndurable tickets: kept\neviction: kept\nserver: kept\n"
            "clock: limited\nrights: kept\npushes: kept\nscripts: kept\n");
    }
    assert_true(sessions[0] != sessions[1]);
}

static const char *echo_of(const char *command)
{
    static char text[64];
    snprintf(text, sizeof(text), "$%zu\r\n%.32s\r\n", strlen(command + 5), command + 5);
    return text;
}

/* Answers whatever the doctor asks; with MEMORY it is refused for lack of memory, each time. */
static void play_doctor(bool memory)
{
    const char *command;
    seen[0] = '\0';
    while ((command = played_next(&p, WORK))[0] != '\0') {
        if (memory && calls(command, RT_REDIS_SCRIPT_JOIN))
            played_say(&p, WORK, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
        else if (strncmp(command, "ECHO ", 5) == 0)
            played_say(&p, WORK, echo_of(command));
        else
            answer(played_tag(command), 0,
                   calls(command, RT_REDIS_SCRIPT_RIGHTS) ? "s" : "i1000000000 i0 i11 i1");
    }
    expect_told("op ok");
}

/* The worse finding is the one that is told. */
static void test_doctor_findings(void **state)
{
    static const struct {
        struct rt_resp_facts facts;
        bool memory;
        const char *says[3];
    } all[] = {
        {{.aof = true, .appendfsync = "always", .rewrite = "no"},
         false,
         {"(I1): kept", "durable tickets: kept"}},
        {{.aof = true, .appendfsync = "always", .rewrite = "yes"},
         false,
         {"(I1): limited", "durable tickets: limited"}},
        {{.aof = true, .appendfsync = "everysec", .rewrite = "no"},
         false,
         {"(I1): limited", "(I2): limited"}},
        {{.aof = true, .appendfsync = "no", .rewrite = "no"},
         false,
         {"(I1): limited", "(I2): limited"}},
        {{.aof = true, .rewrite = "no"}, false, {"(I1): limited", "(I2): limited"}}, /* not known */
        {{.appendfsync = "always", .rewrite = "no"}, false, {"(I1): limited", "(I2): limited"}},
        {{.aof = true, .appendfsync = "always", .rewrite = "no", .replay = RT_RESP_REPLAY_DROPPED},
         false,
         {"(I1): broken", "(I2): limited", "durable tickets: broken"}},
        {{.aof = true, .appendfsync = "always", .rewrite = "no", .policy = "allkeys-lru"},
         false,
         {"(I2): limited", "durable tickets: limited",
          "eviction: limited"}}, /* without a limit nothing is thrown out */
        {{.aof = true,
          .appendfsync = "always",
          .rewrite = "no",
          .policy = "allkeys-lru",
          .maxmemory = 1},
         false,
         {"(I1): broken", "durable tickets: broken", "eviction: broken"}},
        {{.aof = true, .appendfsync = "always", .rewrite = "no", .replicas = 1},
         false,
         {"(I1): limited", "(I2): limited", "durable tickets: limited"}},
        {{.aof = true, .appendfsync = "always", .rewrite = "no"},
         true,
         {"(I1): kept", "memory: broken", "rights: kept"}},
    };
    struct rt_op op = {.kind = RT_OP_CHECK, .user = other_name, .check = {.each = see_verdict}};
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        p.conn->link.nodes->facts = all[i].facts;
        p.conn->link.nodes->facts.known = p.conn->link.nodes->facts.master = true;
        if (all[i].facts.replay != RT_RESP_REPLAY_DROPPED)
            p.conn->link.nodes->facts.replay = RT_RESP_REPLAY_KEPT;
        submit(&op);
        play_doctor(all[i].memory);
        for (size_t k = 0; k < 3; k++)
            if (all[i].says[k] != NULL && strstr(seen, all[i].says[k]) == NULL)
                fail_msg("%zu: no \"%s\" in\n%s", i, all[i].says[k], seen);
        assert_int_equal(strstr(seen, "memory: broken") != NULL, all[i].memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_beat_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_gravest_answer, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_join_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_set_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_kind_in_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_joins_without_sense, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_leave_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_change_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_break_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_inspect, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_inspect_of_little, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_list, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_list_does_not_sweep_for_ever, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_observe_each_change, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_observers_of_one_line, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_observer_that_ends_early, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_doctor_words, setup_session, teardown),
        cmocka_unit_test_setup_teardown(test_doctor_findings, setup_session, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
