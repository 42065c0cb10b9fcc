/* SPDX-License-Identifier: Apache-2.0 */
/* The bank over services: accounts on MariaDB, PostgreSQL and SQLite, moved by try, confirm and cancel behind the fence.
 *
 * Every call goes through a transport that loses it, loses its answer, doubles it, or holds it back and delivers it
 * after others: even a try after its cancel. Tellers and their services, and recoveries, die at every named point. Then
 * a recovery heals: the sums are right, each effect happened once, nothing is reserved, and the fences can be
 * removed. */
#include "ledger.h"

#include "lib/patience.h"
#include "lib/proc.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct calls { /* what became of them, in all processes */
    _Atomic long lost, unanswered, doubled, late, late_tries;
} * calls;

/* ---- A service: one place ---------------------------------------------------------------- */

static void *conns[PLACES];
static pthread_mutex_t busy[PLACES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER};

static int serve_place(int place, const struct rota_call *call, const struct order *o)
{
    pthread_mutex_lock(&busy[place]);
    int rv = place_serve(place, conns[place], call, o, NULL, NULL);
    pthread_mutex_unlock(&busy[place]);
    return rv;
}

/* ---- The transport -------------------------------------------------------------------------- */

#define LATE_MOST 64

static struct late {  /* a copy that comes after others */
    int place, after; /* that many calls */
    struct rota_call call;
    struct order order;
} kept[LATE_MOST];
static int kept_count;
static pthread_mutex_t transport = PTHREAD_MUTEX_INITIALIZER;
static unsigned seed;
static bool faulty;

static int draw(int below)
{
    pthread_mutex_lock(&transport);
    int n = rand_r(&seed) % below;
    pthread_mutex_unlock(&transport);
    return n;
}

static void keep(int place, const struct rota_call *call, const struct order *o)
{
    int after = 1 + draw(8);

    pthread_mutex_lock(&transport);
    if (kept_count < LATE_MOST)
        kept[kept_count++] = (struct late){place, after, *call, *o};
    pthread_mutex_unlock(&transport);
}

/* Delivers those whose time has come; ALL: whatever is left. */
static void deliver_late(bool whole)
{
    pthread_mutex_lock(&transport);
    for (int i = 0; i < kept_count;) {
        if (!whole && --kept[i].after > 0) {
            i++;
            continue;
        }
        struct late one = kept[i];
        kept[i] = kept[--kept_count];
        pthread_mutex_unlock(&transport);
        calls->late++;
        calls->late_tries += one.call.op == ROTA_OP_TRY;
        (void)serve_place(one.place, &one.call, &one.order); /* nobody hears the answer */
        pthread_mutex_lock(&transport);
    }
    pthread_mutex_unlock(&transport);
}

static int carry(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    int place = (int)(intptr_t)arg, fate = faulty ? draw(100) : 99;
    struct order o;

    if (size != sizeof(o))
        abort();
    memcpy(&o, payload, size);
    deliver_late(false);
    if (fate < 8) {
        calls->lost++;
        return ROTA_UNREACHABLE;
    }
    if (fate < 16) { /* no answer, and it comes later: after its cancel */
        calls->lost++;
        keep(place, call, &o);
        return ROTA_UNREACHABLE;
    }
    if (fate < 30)
        keep(place, call, &o);
    int rv = serve_place(place, call, &o);
    if (fate >= 30 && fate < 45) {
        calls->doubled++;
        rv = serve_place(place, call, &o);
    }
    if (fate >= 45 && fate < 53) {
        calls->unanswered++;
        return ROTA_UNREACHABLE;
    }
    return rv;
}

/* ---- Tellers and recoveries: processes of their own -------------------------------------------- */

struct role {
    const char *journal, *point;
    int count;           /* transfers */
    uint32_t timeout_ms; /* 0: SOON_MS */
    bool poor;           /* the second service refuses */
    bool faults;
};

static struct rota_txns *m;

static void enter(const struct role *r, uint32_t flags)
{
    static const struct rota_tcc carried = {carry, carry, carry};
    const struct rota_txns_options opts = {.flags = flags,
                                           .timeout_ms = r->timeout_ms != 0 ? r->timeout_ms
                                                                            : SOON_MS,
                                           .recover_ms = 100};

    rt_watchdog(300, "a role of the bank hangs");
    seed = (unsigned)getpid() ^ (unsigned)rt_seed();
    faulty = r->faults;
    for (int i = 0; i < PLACES; i++)
        conns[i] = places[i]->site->connect(0);
    if (rota_txns_open(&m, r->journal, &opts) != 0) {
        fprintf(stderr, "%s: %s\n", r->journal, rota_txn_errmsg(NULL));
        abort();
    }
    for (int i = 0; i < PLACES; i++)
        if (rota_tcc_serve(m, place_names[i], &carried, (void *)(intptr_t)i) != 0)
            abort();
}

static void leave(void)
{
    rota_txns_close(m);
    deliver_late(true);
    for (int i = 0; i < PLACES; i++)
        places[i]->site->close(conns[i]);
}

static void transfer(const struct role *r, unsigned *own)
{
    struct transfer of = transfer_new(-1, r->poor, own);
    struct rota_txn *t;

    if (rota_txn_begin(m, NULL, &t) != 0)
        abort();
    int err = rota_tcc_call(t, place_names[of.from], &of.goes, sizeof(of.goes));
    if (err == 0)
        err = rota_tcc_call(t, place_names[of.to], &of.comes, sizeof(of.comes));
    transfer_end(&of, t, err);
}

static int teller(int index, void *arg)
{
    const struct role *r = arg;
    unsigned own = (unsigned)rt_seed() + (unsigned)index;

    enter(r, 0);
    for (int i = 0; i < r->count; i++)
        transfer(r, &own);
    leave();
    return 0;
}

static int recovery(int index, void *arg)
{
    (void)index;
    enter(arg, ROTA_TXN_RECOVER);
    ledger_heal(m);
    leave();
    return 0;
}

static int cleaner(int index, void *arg)
{
    (void)index;
    enter(arg, 0);
    ledger_clean_fences(m, conns);
    leave();
    return 0;
}

/* ---- The driver ----------------------------------------------------------------------------------- */

static char journal[400];

static pid_t start(rt_proc_fn *fn, struct role *r)
{
    r->journal = journal;
    if (r->point != NULL)
        setenv("ROTA_POINT", r->point, 1);
    pid_t pid = rt_proc_start(fn, 0, r);
    unsetenv("ROTA_POINT");
    return pid;
}

static void heal_and_check(bool faults)
{
    struct role r = {.faults = faults};

    assert_int_equal(rt_proc_wait(start(recovery, &r)), 0);
    ledger_check();
}

static int up(void **state)
{
    (void)state;
    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    calls = rt_shared_new(sizeof(*calls));
    ledger_open();
    return 0;
}

static int down(void **state)
{
    (void)state;
    ledger_close();
    return 0;
}

/* ---- Scenes ------------------------------------------------------------------------------------------ */

static void nobody_dies(void **state)
{
    struct role r = {.count = 10, .timeout_ms = LIMIT_MS};
    struct role poor = {.count = 2, .poor = true, .timeout_ms = LIMIT_MS};
    int first = ledger->transfers;

    (void)state;
    assert_int_equal(rt_proc_wait(start(teller, &r)), 0);
    assert_int_equal(rt_proc_wait(start(teller, &poor)), 0);
    for (int i = 0; i < 12; i++)
        assert_int_equal(ledger->told[first + i], i < 10 ? COMMITTED : ABORTED);
    heal_and_check(false);
}

/* Which points a teller and its services reach: in a transfer that commits, and in one that does not. */
static const char *const of_commit[] = {
    "register-asked:1", "register-begun:1", "register-written:1", "register-answered:1",
    "register-asked:2", "register-begun:2", "register-written:2", "register-answered:2",
    "tcc-registered:1", "tcc-registered:2", "tcc-tried:1",        "tcc-tried:2",
    "decide-asked",     "decide-begun",     "decide-written",     "decide-answered",
    "tcc-confirmed:1",  "tcc-confirmed:2",  "done-asked",         "done-begun",
    "done-written",     "done-answered"};
static const char *const of_abort[] = {"abort-asked",        "abort-begun",     "abort-written",
                                       "abort-answered",     "tcc-cancelled:1", "tcc-cancelled:2",
                                       "register-answered:2"};
static const char *const of_service[] = {"service-fenced", "service-worked", "service-committed"};

static int play(void *arg, uint32_t timeout_ms)
{
    struct role *r = arg;

    r->timeout_ms = timeout_ms;
    return rt_proc_wait(start(teller, r));
}

static void dies(struct role *r)
{
    must_die(play, r, r->point);
}

static void tellers_die_at_every_point(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(of_commit) / sizeof(of_commit[0]); i++)
        dies(&(struct role){.count = 1, .point = of_commit[i]});
    for (size_t i = 0; i < sizeof(of_abort) / sizeof(of_abort[0]); i++)
        dies(&(struct role){.count = 1, .point = of_abort[i], .poor = true});
    for (size_t i = 0; i < sizeof(of_service) / sizeof(of_service[0]); i++)
        dies(&(struct role){.count = 1, .point = of_service[i]});
    heal_and_check(false);
}

/* Whoever heals dies too, and the next one finishes. */
static void recoveries_die(void **state)
{
    static const char *const points[] = {"abort-written", "tcc-cancelled:1", "tcc-confirmed:1",
                                         "done-written"};

    (void)state;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        bool confirms = strcmp(points[i], "tcc-confirmed:1") == 0;
        dies(&(struct role){.count = 1, .point = confirms ? "decide-written" : "tcc-tried:2"});
        struct role r = {.point = points[i]};
        assert_int_equal(rt_proc_wait(start(recovery, &r)), RT_PROC_SIGNALED + SIGKILL);
    }
    dies(&(struct role){.count = 1, .point = "tcc-tried:2"});
    struct role r = {.point = "service-worked"};
    assert_int_equal(rt_proc_wait(start(recovery, &r)), RT_PROC_SIGNALED + SIGKILL);
    heal_and_check(false);
}

static void calls_are_lost_doubled_late_and_out_of_order(void **state)
{
    struct role r[3];
    pid_t pids[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        r[i] = (struct role){.count = (int)rounds(20), .faults = true};
        pids[i] = start(teller, &r[i]);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(rt_proc_wait(pids[i]), 0);
    heal_and_check(true);
    printf("%d transfers; calls lost %ld, not answered %ld, doubled %ld, late %ld (tries: %ld)\n",
           ledger->transfers, calls->lost, calls->unanswered, calls->doubled, calls->late,
           calls->late_tries);
    assert_true(calls->lost > 0 && calls->unanswered > 0 && calls->doubled > 0 &&
                calls->late_tries > 0);
}

static void all_of_it_together(void **state)
{
    (void)state;
    for (long i = 0; i < rounds(6); i++) {
        struct role r = {.count = 100, .faults = true}, other = r;
        pid_t a = start(teller, &r), b = start(teller, &other), c = start(recovery, &other);
        int until = ledger->transfers + 6;
        for (int n = 0; ledger->transfers < until; n++) {
            assert_true(n < LIMIT_MS / 5);
            poll(NULL, 0, 5);
        }
        rt_proc_kill(a);
        rt_proc_kill(b);
        rt_proc_kill(c);
    }
    heal_and_check(true);
}

static void the_fences_are_clean_after_gc(void **state)
{
    struct role r = {0};

    (void)state;
    assert_int_equal(rt_proc_wait(start(cleaner, &r)), 0);
    for (int i = 0; i < PLACES; i++)
        assert_int_equal(places[i]->site->number("SELECT COUNT(*) FROM rota_fence"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_dies),
        cmocka_unit_test(tellers_die_at_every_point),
        cmocka_unit_test(recoveries_die),
        cmocka_unit_test(calls_are_lost_doubled_late_and_out_of_order),
        cmocka_unit_test(all_of_it_together),
        cmocka_unit_test(the_fences_are_clean_after_gc),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(1700, "the bank of services hangs");
    return cmocka_run_group_tests(tests, up, down);
}
