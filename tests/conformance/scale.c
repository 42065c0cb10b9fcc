/* SPDX-License-Identifier: Apache-2.0 */
/* Many of everything: what an engine promises for one lock holds for a thousand. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

#define MANY 1000
#define MANY_PLAIN 100 /* without a line, a lock may need a connection of its own */
#define CROWD_PLAIN 30 /* ... and so may an ask */
#define RENEWALS 3
#define TTL_MS \
    15000 /* renewed every quarter of it: a busy machine may be late by the other three */

static void count_answered(void *arg, const struct rota_metric *m)
{
    if (strcmp(m->name, "rota_heartbeats_total") == 0 &&
        strcmp(m->labels, "state=\"answered\"") == 0)
        *(double *)arg = m->value;
}

static double renewals(struct rota *r)
{
    double n = 0;

    assert_int_equal(rota_metrics(r, count_answered, &n), 0);
    return n;
}

/* MANY of a line; FEW where a lock may need a connection of its own. */
static size_t as_many(size_t many, size_t few)
{
    return (conf.caps & ROTA_CAP_ORDER) != 0 && strstr(conf.url, "waits=") == NULL ? many : few;
}

static size_t lost_of(struct rota_lock **locks, size_t n)
{
    size_t lost = 0;

    for (size_t i = 0; i < n; i++)
        lost += rota_remaining_ms(locks[i]) <= 0;
    return lost;
}

static const struct rota_options patient = {.ttl_ms = TTL_MS, .flags = ROTA_METRICS};

/* Waits until R was told N more times that its session lives, where sessions end by themselves. */
static void wait_renewed(struct rota *r, double before, int n)
{
    if ((conf.caps & ROTA_CAP_TTL) != 0)
        CONF_UNTIL(renewals(r) >= before + n);
}

/* A client that holds many, and that nobody disturbs, keeps them all. */
static void many_held_stay(void)
{
    struct rota *r = conf_open_with(&patient);
    size_t n = as_many(MANY, MANY_PLAIN);
    struct rota_lock **locks = conf_alloc(n * sizeof(*locks));
    char tail[16];

    for (size_t i = 0; i < n; i++) {
        snprintf(tail, sizeof(tail), "n%zu", i);
        locks[i] = conf_take(r, conf_name(tail), NULL);
    }
    wait_renewed(r, renewals(r), RENEWALS);
    size_t lost = lost_of(locks, n);
    if (lost != 0)
        fail_msg("%zu of %zu are lost after %d renewals", lost, n, RENEWALS);
    for (size_t i = 0; i < n; i++)
        conf_give(locks[i]);
}

/* A client that asks for many at once is granted each in the end, and what it held before stays. Every name is asked for
 * twice: half of the asks wait behind the other half, over a renewal. */
static void many_asks_are_all_granted(void)
{
    struct rota *r = conf_open_with(&patient);
    struct rota_lock *quiet = conf_take(r, conf_name("quiet"), NULL);
    size_t n = as_many(MANY, CROWD_PLAIN);
    struct conf_wish **wishes = conf_alloc(n * sizeof(struct conf_wish *));
    double before = renewals(r);
    char tail[16];

    for (size_t i = 0; i < n; i++) {
        snprintf(tail, sizeof(tail), "n%zu", i % (n / 2));
        wishes[i] = conf_wish_start(r, conf_name(tail), NULL);
    }
    wait_renewed(r, before, 1);
    for (size_t i = 0; i < n; i++) {
        int err = conf_wish_wait(wishes[i]);
        if (err != 0)
            fail_msg("ask %zu of %zu: %s", i + 1, n, rota_strerror(err));
        conf_give(atomic_load(&wishes[i]->lock));
    }
    assert_true(rota_remaining_ms(quiet) > 0);
    conf_give(quiet);
}

#define WISHES 4
#define ROUNDS 100

/* Whether one of the N wishes is granted, and which; none may have ended otherwise. */
static bool is_granted(struct conf_wish **wishes, size_t n, size_t *which)
{
    for (size_t i = 0; i < n; i++) {
        int err = atomic_load(&wishes[i]->calls) > 0 ? atomic_load(&wishes[i]->err) : 0;
        if (err != 0)
            fail_msg("ask %zu of %zu: %s", i + 1, n, rota_strerror(err));
        *which = i;
        if (atomic_load(&wishes[i]->lock) != NULL)
            return true;
    }
    return false;
}

/* The one of the N wishes that is granted, once there is one. */
static size_t granted_of(struct conf_wish **wishes, size_t n)
{
    size_t which = 0;

    CONF_UNTIL(is_granted(wishes, n, &which));
    return which;
}

/* Gives back what WISH was granted. */
static void give_back(struct conf_wish *wish)
{
    conf_give(atomic_exchange(&wish->lock, NULL));
}

/* Asks that are cancelled and made again keep nobody from its turn, and cost the client nothing. */
static void cancels_let_others_through(void)
{
    const struct rota_options opts = {.pass_limit = ROTA_NEVER}; /* the engine grants, each time */
    struct rota *r = conf_open_with(&opts);
    const char *name = conf_name("busy");
    struct conf_wish *wishes[WISHES];

    for (size_t i = 0; i < WISHES; i++)
        wishes[i] = conf_wish_start(r, name, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        size_t holds = granted_of(wishes, WISHES);
        for (size_t i = (holds + 1) % WISHES; i != holds; i = (i + 1) % WISHES) {
            assert_int_equal(rota_cancel(r, wishes[i]->id), 0);
            assert_int_equal(conf_wish_wait(wishes[i]), ROTA_CANCELED);
            wishes[i] = conf_wish_start(r, name, NULL);
        }
        give_back(wishes[holds]);
        wishes[holds] = conf_wish_start(r, name, NULL);
    }
    for (size_t i = 0; i < WISHES; i++)
        give_back(wishes[granted_of(wishes, WISHES)]);
}

#define CROWD 300

static void cancel_all(struct rota *r, struct conf_wish **wishes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rota_cancel(r, wishes[i]->id), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(conf_wish_wait(wishes[i]), ROTA_CANCELED);
}

/* Ends all of them, and asks again. */
static void ask_again(struct rota *r, const char *name, struct conf_wish **wishes, size_t n)
{
    cancel_all(r, wishes, n);
    for (size_t i = 0; i < n; i++)
        wishes[i] = conf_wish_start(r, name, NULL);
}

/* A renewal goes next, whatever else waits: a lock that nobody contends for stays, beside asks that come and go by the
 * hundred in the same client. */
static void quiet_one_stays_beside_many_asks(void)
{
    struct rota *r = conf_open_with(&patient);
    struct rota_lock *quiet = conf_take(r, conf_name("quiet"), NULL);
    const char *busy = conf_name("busy");
    struct rota_lock *front = conf_take(conf_open(), busy, NULL);
    size_t n = as_many(CROWD, CROWD_PLAIN);
    struct conf_wish **wishes = conf_alloc(n * sizeof(struct conf_wish *));
    double before = renewals(r);

    for (size_t i = 0; i < n; i++)
        wishes[i] = conf_wish_start(r, busy, NULL);
    do
        ask_again(r, busy, wishes, n);
    while ((conf.caps & ROTA_CAP_TTL) != 0 && renewals(r) < before + 1);
    assert_true(rota_remaining_ms(quiet) > 0);
    cancel_all(r, wishes, n);
    conf_give(front);
    conf_give(quiet);
}

/* ---- Many clients ------------------------------------------------------- */

#define CLIENTS 200
#define CLIENTS_PLAIN 20
#define LINE 2000 /* waiters of one lock, from LINE_CLIENTS clients */
#define LINE_CLIENTS 50
#define TURNS 48 /* of them that come to their turn */

struct crowd {
    struct rota **clients;
    struct rota_lock **own; /* of each client, and nobody else wants it */
    double *renewals;       /* of each, when it was there */
    size_t n;
};

static void gather(struct crowd *c, size_t n)
{
    const struct rota_options opts = {
        .ttl_ms = TTL_MS, .flags = ROTA_METRICS, .pass_limit = ROTA_NEVER};
    char tail[16];

    *c = (struct crowd){conf_alloc(n * sizeof(*c->clients)), conf_alloc(n * sizeof(*c->own)),
                        conf_alloc(n * sizeof(*c->renewals)), n};
    for (size_t i = 0; i < n; i++) {
        snprintf(tail, sizeof(tail), "own%zu", i);
        c->clients[i] = conf_open_with(&opts);
        c->own[i] = conf_take(c->clients[i], conf_name(tail), NULL);
        c->renewals[i] = renewals(c->clients[i]);
    }
}

/* Everybody still has its own lock, and gives it back. */
static void part(const struct crowd *c)
{
    size_t lost = lost_of(c->own, c->n);

    if (lost != 0)
        fail_msg("%zu of %zu clients lost a lock that nobody else wants", lost, c->n);
    for (size_t i = 0; i < c->n; i++)
        conf_give(c->own[i]);
}

/* Everybody comes to its turn with what all want, and over a renewal nobody loses what is its own. */
static void many_clients_take_turns(void)
{
    struct crowd c;
    const char *name = conf_name("wanted");

    gather(&c, as_many(CLIENTS, CLIENTS_PLAIN));
    struct conf_wish **wishes = conf_alloc(c.n * sizeof(struct conf_wish *));
    for (size_t i = 0; i < c.n; i++)
        wishes[i] = conf_wish_start(c.clients[i], name, NULL);
    for (size_t i = 0; i < c.n; i++)
        give_back(wishes[granted_of(wishes, c.n)]);
    for (size_t i = 0; i < c.n; i++)
        wait_renewed(c.clients[i], c.renewals[i], 1);
    part(&c);
}

/* All of a long line stand in it, are served in it, and leave it; meanwhile nobody loses what is its own. */
static void long_line_moves(void)
{
    struct crowd c;
    size_t n = as_many(LINE, CROWD_PLAIN), turns = n < TURNS ? n - 1 : TURNS;
    struct conf_wish **wishes = conf_alloc(n * sizeof(struct conf_wish *));
    const char *name = conf_name("wanted");
    struct rota *r = conf_open();
    struct rota_lock *front = conf_take(r, name, NULL);

    gather(&c, as_many(LINE_CLIENTS, CLIENTS_PLAIN));
    for (size_t i = 0; i < n; i++)
        wishes[i] = conf_wish_start(c.clients[i % c.n], name, NULL);
    conf_wait_line(r, name, n + 1, 1);
    conf_give(front);
    for (size_t i = 0; i < turns; i++)
        give_back(wishes[granted_of(wishes, n)]);
    struct conf_wish *last = wishes[granted_of(wishes, n)];
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        if (atomic_load(&wishes[i]->calls) > 0)
            continue;
        assert_int_equal(rota_cancel(c.clients[i % c.n], wishes[i]->id), 0);
        wishes[left++] = wishes[i];
    }
    assert_int_equal(left, n - turns - 1);
    for (size_t i = 0; i < left; i++)
        assert_int_equal(conf_wish_wait(wishes[i]), ROTA_CANCELED);
    give_back(last);
    part(&c);
}

const struct conf_case conf_scale[] = {
    CONF_CASE(many_held_stay, 0, 0),
    CONF_CASE(many_asks_are_all_granted, 0, 0),
    CONF_CASE(cancels_let_others_through, 0, 0),
    CONF_CASE(quiet_one_stays_beside_many_asks, 0, 0),
    CONF_CASE(many_clients_take_turns, 0, 0),
    CONF_CASE(long_line_moves, 0, 0),
    CONF_END,
};
