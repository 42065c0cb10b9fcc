/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of the bank, whoever died. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bank.h"

#include "txn/journal/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* world.c */
long long world_sum(void);
void world_moved(unsigned char *at, size_t count);
bool world_prepared_nothing(void);

long tid_new(void)
{
    static long last;

    assert_true(last + 1 < TIDS_MOST);
    return ++last;
}

/* ---- Healing -------------------------------------------------------------------------- */

static bool is_clean(void *arg)
{
    return house_clean(*(int *)arg, NULL, 0);
}

static void await_clean(int house)
{
    char why[200];
    struct timespec nap = {.tv_nsec = 20000000};

    for (int tries = 0; !is_clean(&house); tries++) {
        if (tries > LIMIT_MS / 20) {
            (void)house_clean(house, why, sizeof(why));
            fail_msg("not healed: %s", why);
        }
        nanosleep(&nap, NULL);
    }
}

static long ms_since(const struct timespec *from)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)(now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000;
}

long house_heal(int house)
{
    struct timespec from;

    if (house_clean(house, NULL, 0))
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct hand r = recoverer_start(house, NULL);
    await_clean(house);
    long took = ms_since(&from);
    hand_leave(&r);
    return took;
}

/* Some at a time: InnoDB refreshes its view of who is connected only for those that do not ask all the time. */
static int heal_some(int from, long *most)
{
    struct hand hands[RECOVERIES_AT_ONCE] = {{.pid = 0}};
    int house = from, first = from;
    struct timespec began;

    clock_gettime(CLOCK_MONOTONIC, &began);
    for (; house < houses() && house - first < RECOVERIES_AT_ONCE; house++)
        if (!house_clean(house, NULL, 0))
            hands[house - first] = recoverer_start(house, NULL);
    for (int i = first; i < house; i++)
        if (hands[i - first].pid != 0) {
            await_clean(i);
            long took = ms_since(&began);
            *most = took > *most ? took : *most;
        }
    for (int i = first; i < house; i++)
        if (hands[i - first].pid != 0)
            hand_leave(&hands[i - first]);
    return house;
}

void houses_heal(int from)
{
    long most = 0;

    while (from < houses())
        from = heal_some(from, &most);
    print_message("healed: the longest took %ld ms\n", most);
}

/* ---- Checking --------------------------------------------------------------------------- */

static unsigned findings;

static void finding(long tid, const struct entry *e, unsigned at, const char *what)
{
    print_error("transfer %ld (%s, house %d, id %s), rows at %x: %s\n", tid,
                e->shape != NULL ? e->shape->name : "?", e->house, e->id, at, what);
    findings++;
}

/* One outcome everywhere, and whoever was told an outcome was told that one. */
static void check_transfer(long tid, const struct entry *e, unsigned at)
{
    if (e->shape == NULL) {
        finding(tid, e, at, "nobody planned it");
        return;
    }
    if (at != 0 && at != e->shape->writes)
        finding(tid, e, at, "at some of its databases and not at others");
    if (e->told == TOLD_ERROR)
        finding(tid, e, at, "told an error that commit does not know");
    if (e->told == TOLD_COMMITTED && at != e->shape->writes)
        finding(tid, e, at, "told COMMITTED, and it is not");
    if (e->told == TOLD_ABORTED && at != 0)
        finding(tid, e, at, "told ABORTED, and it is not");
    if (e->joiner == TOLD_COMMITTED && at != e->shape->writes)
        finding(tid, e, at, "who joined was told COMMITTED, and it is not");
    if (e->joiner == TOLD_ABORTED && at != 0)
        finding(tid, e, at, "who joined was told ABORTED, and it is not");
    if (e->shape->fails && at != 0)
        finding(tid, e, at, "it cannot be committed");
}

/* The journal says the same. Forgotten rows say nothing. */
static void check_decision(long tid, const struct entry *e, unsigned at)
{
    if (e->shape == NULL || e->id[0] == '\0' || e->shape->writes == 0)
        return;
    int stands = house_stands(e->house, e->id);
    bool committed = stands == RT_JOURNAL_COMMIT;
    if (stands != RT_JOURNAL_EXPIRED && committed != (at != 0))
        finding(tid, e, at,
                committed ? "the journal says COMMIT" : "the journal does not say COMMIT");
}

void bank_check(bool all)
{
    static unsigned char at[TIDS_MOST];
    static long checked; /* before: they do not change any more */
    size_t count = 0;
    unsigned told[TOLD_ERROR + 1] = {0};
    long last = checked;

    findings = 0;
    const struct entry *book = book_read(&count);
    world_moved(at, TIDS_MOST);
    for (long tid = 0; tid < TIDS_MOST; tid++)
        if (at[tid] != 0 || ((size_t)tid < count && book[tid].shape != NULL)) {
            check_transfer(tid, &book[tid], at[tid]);
            told[book[tid].told]++;
            if (tid > checked)
                check_decision(tid, &book[tid], at[tid]);
            last = tid > last ? tid : last;
        }
    checked = last;
    long long sum = world_sum(), must = 3LL * ACCOUNTS * BALANCE;
    if (sum != must)
        print_error("the sum of all balances is %lld, and was %lld\n", sum, must);
    print_message("transfers: %u told committed, %u aborted, %u unknown, %u nothing\n",
                  told[TOLD_COMMITTED], told[TOLD_ABORTED], told[TOLD_UNKNOWN], told[TOLD_NOTHING]);
    assert_int_equal(findings, 0);
    assert_true(sum == must);
    assert_true(!all || world_prepared_nothing());
}

int rounds(int least)
{
    const char *factor = getenv("ROTA_TORTURE");
    int times = factor != NULL ? atoi(factor) : 0;

    return times > 3 ? least * times / 3 : least;
}
