/* SPDX-License-Identifier: Apache-2.0 */
/* Many of everything: what an engine promises for one lock holds for a thousand. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

#define MANY 1000
#define MANY_PLAIN 100 /* without a line, a lock may need a connection of its own */
#define RENEWALS 3
#define TTL_MS 15000 /* renewed every third of it: a busy machine may be late by the other two */

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

/* A client that holds many, and that nobody disturbs, keeps them all. */
static void many_held_stay(void)
{
    const struct rota_options opts = {.ttl_ms = TTL_MS, .flags = ROTA_METRICS};
    struct rota *r = conf_open_with(&opts);
    size_t n = as_many(MANY, MANY_PLAIN);
    struct rota_lock **locks = conf_alloc(n * sizeof(*locks));
    char tail[16];

    for (size_t i = 0; i < n; i++) {
        snprintf(tail, sizeof(tail), "n%zu", i);
        locks[i] = conf_take(r, conf_name(tail), NULL);
    }
    double before = renewals(r);
    if ((conf.caps & ROTA_CAP_TTL) != 0)
        CONF_UNTIL(renewals(r) >= before + RENEWALS);
    size_t lost = lost_of(locks, n);
    if (lost != 0)
        fail_msg("%zu of %zu are lost after %d renewals", lost, n, RENEWALS);
    for (size_t i = 0; i < n; i++)
        conf_give(locks[i]);
}

#define WISHES 4
#define ROUNDS 100

/* The wish of the four that was granted, once there is one. */
static size_t granted_of(struct conf_wish **wishes)
{
    size_t i = 0;

    CONF_UNTIL(atomic_load(&wishes[i = (i + 1) % WISHES]->calls) > 0);
    return i;
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
        size_t holds = granted_of(wishes);
        assert_int_equal(conf_wish_wait(wishes[holds]), 0);
        for (size_t i = (holds + 1) % WISHES; i != holds; i = (i + 1) % WISHES) {
            assert_int_equal(rota_cancel(r, wishes[i]->id), 0);
            assert_int_equal(conf_wish_wait(wishes[i]), ROTA_CANCELED);
            wishes[i] = conf_wish_start(r, name, NULL);
        }
        conf_give(atomic_load(&wishes[holds]->lock));
        wishes[holds] = conf_wish_start(r, name, NULL);
    }
    for (size_t i = 0; i < WISHES; i++) {
        size_t holds = granted_of(wishes);
        conf_give(atomic_load(&wishes[holds]->lock));
        wishes[holds] = conf_alloc(sizeof(struct conf_wish));
    }
}

#define CROWD 300
#define CROWD_PLAIN 30

/* Ends all of them, and asks again. */
static void ask_again(struct rota *r, const char *name, struct conf_wish **wishes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rota_cancel(r, wishes[i]->id), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(conf_wish_wait(wishes[i]), ROTA_CANCELED);
    for (size_t i = 0; i < n; i++)
        wishes[i] = conf_wish_start(r, name, NULL);
}

/* A renewal goes next, whatever else waits: a lock that nobody contends for stays, beside asks that come and go by the
 * hundred in the same client. */
static void quiet_one_stays_beside_many_asks(void)
{
    const struct rota_options opts = {.ttl_ms = TTL_MS, .flags = ROTA_METRICS};
    struct rota *r = conf_open_with(&opts);
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
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rota_cancel(r, wishes[i]->id), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(conf_wish_wait(wishes[i]), ROTA_CANCELED);
    conf_give(front);
    conf_give(quiet);
}

const struct conf_case conf_scale[] = {
    CONF_CASE(many_held_stay, 0, 0),
    CONF_CASE(cancels_let_others_through, 0, 0),
    CONF_CASE(quiet_one_stays_beside_many_asks, 0, 0),
    CONF_END,
};
