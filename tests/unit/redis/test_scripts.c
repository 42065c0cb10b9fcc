/* SPDX-License-Identifier: Apache-2.0 */
/* The Redis scripts against the reference engine: after random steps, what must be the same is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "engine/mem/mem.h"
#include "lib/patience.h"
#include "one_redis.h"
#include "twin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t below(struct twin *t, uint32_t n)
{
    return rt_random_below(&t->random, n);
}

static bool chance(struct twin *t, uint32_t percent)
{
    return below(t, 100) < percent;
}

static int mem_do(struct twin_actor *a, struct rt_op *op)
{
    op->deadline = INT64_MAX;
    a->conn->engine->submit(a->conn, op);
    return op->err;
}

/* The status that corresponds to mem's error. */
static void same_outcome(struct twin *t, const char *what, int err, const redisReply *r)
{
    long long status = r->element[1]->integer;
    static const int errors[] = {0, ROTA_LOST, ROTA_BUSY, ROTA_INVALID, ROTA_LOST, ROTA_INVALID, 0};
    assert_true(status < 6);
    if (errors[status] != err)
        fail_msg("step %d, %s: mem says %d, Redis %lld", t->step, what, err, status);
}

/* ---- Sessions ----------------------------------------------------------- */

static void open_session(struct twin *t, struct twin_actor *a)
{
    struct rt_op op = {.kind = RT_OP_BEAT, .beat = {.open = true}};
    assert_int_equal(mem_do(a, &op), 0);
    a->session = op.beat.session;
    a->pushes = 0;
    snprintf(a->sid, sizeof(a->sid), "%s%04x", a->cid, (unsigned)++a->sessions);
    const char *args[] = {a->sid, "1005", a->label};
    for (int again = 0; again < 2; again++) {
        redisReply *r = twin_script(t, RT_REDIS_SCRIPT_OPEN, 3, args);
        assert_int_equal(r->element[1]->integer, RT_REDIS_OK);
        freeReplyObject(r);
    }
    args[2] = "somebody else";
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_OPEN, 3, args);
    assert_int_equal(r->element[1]->integer, RT_REDIS_TAKEN);
    freeReplyObject(r);
}

struct count {
    long long tickets;
};

static void count_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)name;
    (void)place;
    ((struct count *)arg)->tickets++;
}

static long long mem_tickets(struct twin_actor *a)
{
    struct count c = {0};
    struct rt_op op = {.kind = RT_OP_INSPECT,
                       .inspect = {.session = a->session, .each = count_place, .arg = &c}};
    assert_int_equal(mem_do(a, &op), 0);
    return c.tickets;
}

static void beat(struct twin *t, struct twin_actor *a)
{
    twin_compare(t, true); /* a BEAT of mem tells again */
    struct rt_op op = {.kind = RT_OP_BEAT, .beat = {.session = a->session}};
    int err = mem_do(a, &op);
    const char *args[] = {a->sid, "1005", "1000", "0"};
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_BEAT, 4, args);
    same_outcome(t, "beat", err, r);
    if (err == 0 && !t->lazy) {
        assert_int_equal(r->element[3]->integer, a->pushes);
        assert_int_equal(r->element[4]->integer, mem_tickets(a));
    }
    freeReplyObject(r);
    twin_compare(t, false);
    if (err != 0)
        open_session(t, a);
}

/* ---- Joining ------------------------------------------------------------ */

struct kind {
    uint32_t mode, take, of;
};

static struct kind random_kind(struct twin *t, int name)
{
    if (t->plain)
        return (struct kind){RT_EXCLUSIVE, 0, 0};
    if (chance(t, 4))
        name = (int)below(t, TWIN_NAMES);
    switch (name) {
    case 3:
        return (struct kind){RT_PERMITS, 1 + below(t, 3), 3};
    case 4:
        return (struct kind){RT_COUNT, 0, 4};
    case 5:
        return (struct kind){RT_GATHER, 0, chance(t, 3) ? 1 : 3};
    default:
        return (struct kind){chance(t, 60) ? RT_EXCLUSIVE : RT_SHARED, 0, 0};
    }
}

static struct twin_ticket *new_ticket(struct twin *t, int actor, int name, uint32_t flags)
{
    static const char *const values[] = {"v1", "a value with spaces", "\xc3\xa4"};
    assert_true(t->tickets < TWIN_TICKETS);
    struct twin_ticket *k = &t->ticket[t->tickets];
    struct kind kind = random_kind(t, name);
    bool durable = flags & RT_JOIN_DURABLE;
    *k = (struct twin_ticket){.actor = actor, .name = name};
    k->join = (struct rt_join){.name = twin_names[name],
                               .session = t->actor[actor].session,
                               .nonce = 1000000 + t->tickets,
                               .owner = below(t, 3),
                               .value = !t->plain && chance(t, 20) ? values[below(t, 3)] : NULL,
                               .mode = kind.mode,
                               .take = kind.take,
                               .of = kind.of,
                               .flags = flags};
    memcpy(k->sid, t->actor[actor].sid, sizeof(t->actor[actor].sid));
    if (durable) {
        k->join.session = UINT64_C(5000000000) + (uint64_t)actor;
        snprintf(k->sid, sizeof(k->sid), "d%" PRIu64, k->join.session);
        k->join.until_ms = chance(t, 60) ? 105 + below(t, 5) * 100 : 0;
    }
    if (!t->lazy && !t->plain && chance(t, 15))
        k->join.at_least_ms = 205 + below(t, 10) * 100;
    if (chance(t, 30))
        k->join.flags |= RT_JOIN_ARM;
    if (chance(t, 10))
        k->join.flags |= RT_JOIN_DETECT;
    return k;
}

#define PER_TICKET 9

struct texts { /* of one ticket's arguments */
    char field[64], member[192], number[6][24];
};

static void ticket_args(struct twin *t, const struct twin_ticket *k, struct texts *x,
                        const char **args)
{
    const struct rt_join *j = &k->join;
    bool durable = j->flags & RT_JOIN_DURABLE;
    char flags[8] = "-";
    snprintf(flags, sizeof(flags), "%s%s%s%s", j->flags & RT_JOIN_ARM ? "a" : "",
             j->flags & RT_JOIN_DETECT ? "d" : "", durable ? "D" : "",
             durable || j->value != NULL || j->at_least_ms > 0 ? "x" : "");
    if (flags[0] == '\0')
        flags[0] = '-';
    snprintf(x->field, sizeof(x->field), "%" PRIu64 " %s", j->nonce, j->name);
    snprintf(x->member, sizeof(x->member), "%s %" PRIu64 " %u %u %u %s %" PRIu64 " 0%s%s", k->sid,
             j->nonce, j->mode, j->take, j->of, flags, j->owner, durable ? " " : "",
             durable ? t->actor[k->actor].cid : "");
    int64_t numbers[] = {j->mode, j->take, j->of, j->at_least_ms, j->until_ms};
    args[0] = j->name;
    args[1] = x->field;
    args[2] = x->member;
    for (int i = 0; i < 5; i++) {
        snprintf(x->number[i], sizeof(x->number[i]), "%" PRId64, numbers[i]);
        args[3 + i] = x->number[i];
    }
    args[8] = j->value != NULL ? j->value : "";
}

static redisReply *redis_join(struct twin *t, struct twin_ticket *tickets, size_t n)
{
    struct texts texts[3];
    const char *args[4 + 3 * PER_TICKET];
    uint32_t flags = tickets[0].join.flags;
    char how[4];
    snprintf(how, sizeof(how), "%s%s", flags & RT_JOIN_TRY ? "t" : "",
             flags & RT_JOIN_DURABLE ? "D" : "");
    args[0] = how[0] != '\0' ? how : "-";
    args[1] = tickets[0].sid;
    args[2] = "1005";
    args[3] = t->actor[tickets[0].actor].label;
    for (size_t i = 0; i < n; i++)
        ticket_args(t, &tickets[i], &texts[i], &args[4 + PER_TICKET * i]);
    const struct rt_join *j = &tickets[0].join;
    bool plain = n == 1 && !(flags & RT_JOIN_DURABLE) && j->mode != RT_GATHER &&
                 j->at_least_ms == 0 && j->until_ms == 0 && j->value == NULL;
    if (!plain || chance(t, 30))
        return twin_script(t, RT_REDIS_SCRIPT_JOIN, 4 + PER_TICKET * n, args);
    memmove(&args[2], &args[4], 3 * sizeof(args[0]));
    return twin_script(t, RT_REDIS_SCRIPT_JOIN, 5, args);
}

static void same_ticket(struct twin *t, struct twin_ticket *k, const struct rt_join *mem,
                        redisReply *const *e, bool anew)
{
    uint64_t number = (uint64_t)e[0]->integer;
    long long state = e[1]->integer;
    if (anew) {
        assert_true(number > t->highest); /* one counter for all lines of a room */
        assert_true((int64_t)number >= twin_now_us(t) || number >= TWIN_ONLY_COUNTS);
        t->highest = number;
        k->number = number;
        k->join.number = mem->number;
    }
    assert_int_equal(k->number, number);
    assert_int_equal(k->join.number, mem->number);
    bool granted = state == 1 || state == 2;
    if (granted != mem->granted || (!t->lazy && (state == 2) != mem->wanted))
        fail_msg("step %d: %s, mem: granted %d wanted %d, Redis: state %lld", t->step,
                 twin_names[k->name], mem->granted, mem->wanted, state);
}

static struct twin_ticket *known(struct twin *t, uint64_t number)
{
    for (size_t i = 0; i < t->tickets; i++)
        if (t->ticket[i].join.number == number)
            return &t->ticket[i];
    return NULL;
}

/* TICKETS are the latest, or with ANEW false any that were there before. */
static void join(struct twin *t, struct twin_ticket *tickets, size_t n, bool anew)
{
    struct rt_join joins[3];
    for (size_t i = 0; i < n; i++) {
        joins[i] = tickets[i].join;
        joins[i].number = 0;
    }
    struct rt_op op = {.kind = n > 1 ? RT_OP_JOIN_ALL : RT_OP_JOIN, .join = {joins, n}};
    int err = mem_do(&t->actor[tickets[0].actor], &op);
    redisReply *r = redis_join(t, tickets, n);
    same_outcome(t, "join", err, r);
    if (anew)
        t->tickets += n;
    if (err == 0) {
        assert_int_equal(r->elements, 4 + 2 * n);
        for (size_t i = 0; i < n; i++) {
            struct twin_ticket *k = anew ? &tickets[i] : known(t, joins[i].number);
            bool ended = k == NULL; /* and was put anew, under the same nonce */
            if (ended) {
                k = &t->ticket[t->tickets++];
                *k = tickets[i];
            }
            same_ticket(t, k, &joins[i], &r->element[4 + 2 * i], anew || ended);
        }
    }
    freeReplyObject(r);
}

static void join_plain(struct twin *t, int actor)
{
    join(t, new_ticket(t, actor, (int)below(t, 2), chance(t, 20) ? RT_JOIN_TRY : 0), 1, true);
}

static void join_one(struct twin *t, int actor)
{
    uint32_t flags = (chance(t, 30) ? RT_JOIN_TRY : 0) | (chance(t, 15) ? RT_JOIN_DURABLE : 0);
    join(t, new_ticket(t, actor, (int)below(t, TWIN_NAMES), flags), 1, true);
}

static void join_set(struct twin *t, int actor)
{
    uint32_t flags = (chance(t, 30) ? RT_JOIN_TRY : 0) | (chance(t, 15) ? RT_JOIN_DURABLE : 0);
    int first = (int)below(t, TWIN_NAMES - 2);
    size_t n = 2 + below(t, 2);
    struct twin_ticket *tickets = &t->ticket[t->tickets];
    for (size_t i = 0; i < n; i++) {
        new_ticket(t, actor, first + (int)i, flags);
        t->tickets++;
    }
    t->tickets -= n;
    join(t, tickets, n, true);
    if (chance(t, 30))
        join(t, tickets, n, false);
}

/* ---- The rest ----------------------------------------------------------- */

static struct twin_ticket *any_ticket(struct twin *t)
{
    size_t recent = t->tickets < 40 ? t->tickets : 40;
    return recent > 0 ? &t->ticket[t->tickets - 1 - below(t, (uint32_t)recent)] : NULL;
}

static void leave(struct twin *t, struct twin_ticket *k)
{
    bool by_nonce = k->number == 0 || chance(t, 30), untold = chance(t, 30);
    bool any = !by_nonce &&
               chance(t, 50); /* else of that nonce, or of another that had the number */
    uint64_t whose = any ? 0 : k->join.nonce + (!by_nonce && chance(t, 10));
    struct rt_op op = {.kind = RT_OP_LEAVE,
                       .leave = {.name = k->join.name,
                                 .session = k->join.session,
                                 .number = by_nonce ? 0 : k->join.number,
                                 .nonce = whose,
                                 .untold = untold}};
    int err = mem_do(&t->actor[k->actor], &op);
    char number[24], nonce[24];
    snprintf(number, sizeof(number), "%" PRIu64, by_nonce ? 0 : k->number);
    snprintf(nonce, sizeof(nonce), "%" PRIu64, whose);
    const char *args[] = {k->join.name, k->sid, number, nonce, "u"};
    size_t count = untold ? 5 : !any || chance(t, 30) ? 4 : 3;
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_LEAVE, count, args);
    /* Nobody took it from the dead one: lazily, it is as if it had left in time. */
    if (!t->lazy || err == 0)
        same_outcome(t, "leave", err, r);
    if (!t->lazy && err == 0)
        assert_int_equal(r->element[2]->integer, op.leave.granted);
    freeReplyObject(r);
}

static void change(struct twin *t, struct twin_ticket *k)
{
    uint32_t what = below(t, 8);
    struct rt_op op = {.kind = RT_OP_CHANGE,
                       .change = {.name = k->join.name,
                                  .session = k->join.session,
                                  .number = k->join.number,
                                  .what = what,
                                  .value = "changed"}};
    int err = mem_do(&t->actor[k->actor], &op);
    char number[24], letters[8];
    snprintf(number, sizeof(number), "%" PRIu64, k->number);
    snprintf(letters, sizeof(letters), "%s%s%s%s", what & RT_CHANGE_DOWNGRADE ? "D" : "",
             what & RT_CHANGE_VALUE ? "V" : "", what & RT_CHANGE_ARM ? "A" : "",
             what == 0 ? "-" : "");
    const char *args[] = {k->join.name, k->sid, number, letters, "changed"};
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_CHANGE, 5, args);
    same_outcome(t, "change", err, r);
    if (err == 0 && !t->lazy)
        assert_int_equal(r->element[2]->integer, op.change.wanted);
    freeReplyObject(r);
}

static void break_it(struct twin *t, struct twin_ticket *k)
{
    bool all = chance(t, 40);
    struct rt_op op = {
        .kind = RT_OP_BREAK,
        .brk = {.name = k->join.name, .number = all ? 0 : k->join.number, .mode = k->join.mode}};
    if (!all && k->join.number == 0)
        return;
    int err = mem_do(&t->actor[below(t, TWIN_ACTORS)], &op);
    char number[24], mode[4];
    snprintf(number, sizeof(number), "%" PRIu64, all ? 0 : k->number);
    snprintf(mode, sizeof(mode), "%u", k->join.mode);
    const char *args[] = {k->join.name, number, mode};
    redisReply *r = twin_script(t, RT_REDIS_SCRIPT_BREAK, 3, args);
    same_outcome(t, "break", err, r);
    freeReplyObject(r);
}

struct holding {
    struct twin *twin;
    redisReply *held, *inspected;
    size_t count;
};

static void held_place(void *arg, const char *name, const struct rota_place *place)
{
    struct holding *h = arg;
    h->count++;
    bool found = false, shown = false;
    for (size_t i = 4; i < h->held->elements; i += 4) {
        redisReply **e = &h->held->element[i];
        if (strcmp(e[1]->str, name) == 0)
            for (size_t k = 0; k < h->twin->tickets; k++)
                if (h->twin->ticket[k].number == (uint64_t)e[0]->integer &&
                    h->twin->ticket[k].join.number == place->number) {
                    found = true;
                    assert_int_equal(e[2]->integer != 0, (place->flags & ROTA_PLACE_GRANTED) != 0);
                }
    }
    for (size_t i = 3; i < h->inspected->elements; i += 7)
        shown = shown || strcmp(h->inspected->element[i]->str, name) == 0;
    assert_true(found && shown);
}

static void held(struct twin *t, struct twin_actor *a)
{
    const char *args[] = {a->sid, "0"};
    struct holding h = {.twin = t, .held = twin_script(t, RT_REDIS_SCRIPT_HELD, 2, args)};
    if (h.held->element[1]->integer == 0) {
        h.inspected = twin_script(t, RT_REDIS_SCRIPT_INSPECT_SESSION, 1, args);
        struct rt_op op = {.kind = RT_OP_INSPECT,
                           .inspect = {.session = a->session, .each = held_place, .arg = &h}};
        assert_int_equal(mem_do(a, &op), 0);
        assert_int_equal(h.held->elements, 4 + 4 * h.count);
        assert_int_equal(h.inspected->elements, 3 + 7 * h.count);
        freeReplyObject(h.inspected);
    } else {
        assert_int_equal(mem_tickets(a), 0);
    }
    freeReplyObject(h.held);
}

static void step(struct twin *t)
{
    int actor = (int)below(t, TWIN_ACTORS);
    struct twin_ticket *k = any_ticket(t);
    uint32_t dice = below(t, 100);
    if (t->plain && dice < 37)
        join_plain(t, actor);
    else if (dice < 30)
        join_one(t, actor);
    else if (dice < 37)
        join_set(t, actor);
    else if (dice < 40 && k != NULL)
        join(t, k, 1, false);
    else if (dice < 67 && k != NULL)
        leave(t, k);
    else if (dice < 73 && k != NULL && k->number != 0 && !t->late) /* late, it may not hold yet */
        change(t, k);
    else if (dice < 77 && k != NULL)
        break_it(t, k);
    else if (dice < 88)
        beat(t, &t->actor[actor]);
    else if (dice < 91 && !t->lazy)
        held(t, &t->actor[actor]);
    else
        twin_advance(t, (int64_t)(1 + below(t, 30)) * 10);
    twin_compare(t, true);
}

static void play_in(int64_t epoch_us, uint64_t seed, bool lazy, bool watched, bool plain)
{
    struct twin *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    twin_init(t, &one_redis, seed, lazy, watched, epoch_us);
    t->plain = plain;
    for (int i = 0; i < TWIN_ACTORS; i++)
        open_session(t, &t->actor[i]);
    for (t->step = 0; t->step < 400 && t->tickets < TWIN_TICKETS - 8; t->step++) {
        step(t);
        if (lazy && t->step % 16 == 15) {
            twin_sweep(t);
            t->lazy = false;
            twin_compare(t, false);
            t->lazy = true;
        }
    }
    twin_fini(t);
    free(t);
}

static void play(uint64_t seed, bool lazy, bool watched, bool plain)
{
    play_in(TWIN_EPOCH_US, seed, lazy, watched, plain);
}

static unsigned rounds(void)
{
    const char *text = getenv("ROTA_ROUNDS");
    return text != NULL ? (unsigned)atoi(text) : 6;
}

static uint64_t first_seed(void)
{
    return rt_told_number("ROTA_SEED", 1);
}

static void test_same_as_mem(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(); i++) {
        print_message("seed %" PRIu64 "\n", first_seed() + i);
        play(first_seed() + i, false, false, false);
    }
}

static void test_same_when_observed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds() / 2; i++)
        play(first_seed() + 1000 + i, false, true, false);
}

static void test_same_when_swept_late(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds() / 2; i++)
        play(first_seed() + 2000 + i, true, false, i % 2 == 1);
}

static void test_same_when_folded(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(); i++)
        play(first_seed() + 3000 + i, false, false, true);
}

/* Clocks that are far off; most gain a digit, or reach 2^53 us, while it is played. */
static void test_same_in_any_year(void **state)
{
    static const int64_t epochs[] = {0,
                                     946684800000000,
                                     1000000000000000 - 12000000,
                                     9000000000000000 - 12000000,
                                     9007199254740992 - 12000000,
                                     10000000000000000 - 12000000};
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(epochs) / sizeof(epochs[0]); i++)
        play_in(epochs[i / 2], first_seed() + 4000 + i, false, false, i % 2 == 1);
}

/* ---- By hand ------------------------------------------------------------ */

static long long status_of(struct twin *t, enum rt_redis_script script, size_t n,
                           const char *const *args)
{
    redisReply *r = twin_script(t, script, n, args);
    long long status = r->element[1]->integer;
    freeReplyObject(r);
    return status;
}

static void clock_at(struct twin *t, int64_t ms)
{
    long long us = twin_now_us(t) + ms * 1000;
    freeReplyObject(redisCommand(t->work, "SET %s:clock %lld", TWIN_ROOM, us));
}

/* A session that is being ended, step by step, stays ended when the server's clock is set back between two
 * steps: revived, it would believe in a ticket that another has been given. */
static void test_a_clock_set_back_revives_nobody(void **state)
{
    (void)state;
    struct twin *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    twin_init(t, &one_redis, 1, false, false, TWIN_EPOCH_US);
    static const char *const sids[] = {"0000000000a00001", "0000000000a10001"};
    for (int i = 0; i < 2; i++) {
        const char *open[] = {sids[i], i == 0 ? "1000" : "600000", "label"};
        assert_int_equal(status_of(t, RT_REDIS_SCRIPT_OPEN, 3, open), RT_REDIS_OK);
        for (int k = 0; k < 3; k++) {
            char name[8], field[16], member[64];
            snprintf(name, sizeof(name), "n%d", k);
            snprintf(field, sizeof(field), "%d n%d", k + 1, k);
            snprintf(member, sizeof(member), "%s %d 0 0 0 - 0 0", sids[i], k + 1);
            const char *join[] = {"-", sids[i], name, field, member};
            assert_int_equal(status_of(t, RT_REDIS_SCRIPT_JOIN, 5, join), RT_REDIS_OK);
        }
    }
    clock_at(t, 2000);
    const char *one[] = {"1", "", ""};
    assert_int_equal(status_of(t, RT_REDIS_SCRIPT_SWEEP, 3, one), RT_REDIS_OK);
    clock_at(t, 0);
    const char *beat[] = {sids[0], "1000", "0", "0"};
    assert_int_equal(status_of(t, RT_REDIS_SCRIPT_BEAT, 4, beat), RT_REDIS_LOST);
    twin_fini(t);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_mem),
        cmocka_unit_test(test_same_when_observed),
        cmocka_unit_test(test_same_when_swept_late),
        cmocka_unit_test(test_same_when_folded),
        cmocka_unit_test(test_a_clock_set_back_revives_nobody),
        cmocka_unit_test(test_same_in_any_year),
    };
    return cmocka_run_group_tests(tests, one_redis_start, one_redis_stop);
}
