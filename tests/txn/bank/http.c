/* SPDX-License-Identifier: Apache-2.0 */
/* The bank over HTTP: the driver. Each call is dropped, doubled, delayed and put out of order on its way; tellers,
 * recoveries and services die by kill -9 at every named point. Then a recovery heals: the sums are right, each effect
 * happened once, nothing is reserved, and the fences can be removed. */
#include "http.h"

#include "hits.h"
#include "lib/patience.h"
#include "lib/proc.h"
#include "lib/proxy.h"
#include "txn/point.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct rt_forkserver *forks;
static struct rt_proxy *proxies[PLACES];
static pid_t services[PLACES];
static int journals = 1; /* in use: the first is everybody's */
#define KILLED (RT_PROC_SIGNALED + SIGKILL)

/* ---- Roles ---------------------------------------------------------------------------------- */

static pid_t start(const struct role *r)
{
    static int last;
    int index = last++ % ROLES;

    town->role[index] = *r;
    return rt_forkserver_spawn(forks, index);
}

static int ends(pid_t pid)
{
    return rt_forkserver_wait(forks, pid);
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)ends(pid);
}

static int run(const struct role *r)
{
    return ends(start(r));
}

static void wait_for(bool (*until)(void *arg), void *arg, const char *what)
{
    for (int i = 0; !until(arg); i++) {
        if (i > LIMIT_MS / 5)
            fail_msg("it does not become so: %s", what);
        poll(NULL, 0, 5);
    }
}

static bool listens(void *arg)
{
    return town->port[*(int *)arg] != 0;
}

/* Behind the same address, whoever was there before. */
static void service_start(int place, const char *point)
{
    struct role r = {.work = SERVICE, .place = place};

    snprintf(r.point, sizeof(r.point), "%s", point);
    town->port[place] = 0;
    town->served[place] = 0;
    services[place] = start(&r);
    wait_for(listens, &place, "a service listens");
    rt_proxy_target(proxies[place], NULL, (uint16_t)town->port[place]);
}

static void service_again(int place, const char *point)
{
    end(services[place]);
    service_start(place, point);
}

static bool nobody_is_connected(void *arg)
{
    return rt_proxy_open_connections(arg) == 0;
}

/* Everything late has come. All callers are gone. */
static void drain(void)
{
    for (int i = 0; i < PLACES; i++)
        wait_for(nobody_is_connected, proxies[i], "no call is on its way");
}

#define HEAL_AT_ONCE 4

static void heal_and_check(uint32_t call_ms)
{
    pid_t pids[JOURNALS];

    for (int done = 0, begun = 0; done < journals; done++) {
        for (; begun < journals && begun < done + HEAL_AT_ONCE; begun++)
            pids[begun] = start(
                &(struct role){.work = RECOVERY, .journal = begun, .call_ms = call_ms});
        assert_int_equal(ends(pids[done]), 0);
    }
    drain();
    ledger_check();
}

static int play(void *arg, uint32_t timeout_ms)
{
    struct role *r = arg;

    r->timeout_ms = timeout_ms;
    return run(r);
}

static void teller_dies(int journal, bool poor, const char *point)
{
    struct role r = {.work = TELLER, .journal = journal, .place = -1, .count = 1, .poor = poor};

    snprintf(r.point, sizeof(r.point), "%s", point);
    must_die(play, &r, point);
}

/* ---- The network ---------------------------------------------------------------------------------- */

enum { CUT_ASKED, DROP_ASKED, CUT_SAID, DROP_SAID, DOUBLED, LATE, FAULTS };
static const struct rt_fault faults[FAULTS] = {
    [CUT_ASKED] = {.on = RT_FAULT_REQUEST, .what = RT_FAULT_CUT, .chance = 4},
    [DROP_ASKED] = {.on = RT_FAULT_REQUEST, .what = RT_FAULT_DROP, .chance = 4},
    [CUT_SAID] = {.on = RT_FAULT_REPLY, .what = RT_FAULT_CUT, .chance = 6},
    [DROP_SAID] = {.on = RT_FAULT_REPLY, .what = RT_FAULT_DROP, .chance = 3},
    [DOUBLED] = {.on = RT_FAULT_REQUEST, .what = RT_FAULT_DOUBLE, .chance = 20},
    [LATE] = {.on = RT_FAULT_REQUEST, .what = RT_FAULT_DELAY, .chance = 7},
};
#define SHORT_MS 1000 /* a call, where many are lost */
#define LATE_US 1500000u
#define JITTER_US 4000u /* so several connections' calls overtake each other */

static uint32_t hits_at[PLACES][FAULTS]; /* numbers of faults */

static void network_faulty(void)
{
    for (int i = 0; i < PLACES; i++) {
        for (int f = 0; f < FAULTS; f++) {
            struct rt_fault fault = faults[f];
            fault.times = RT_FAULT_ALWAYS;
            fault.delay_us = LATE_US;
            hits_at[i][f] = rt_proxy_fault(proxies[i], &fault);
        }
        rt_proxy_chaos(proxies[i], JITTER_US);
    }
}

static void network_calm(void)
{
    for (int i = 0; i < PLACES; i++) {
        rt_proxy_fault_end(proxies[i], 0);
        rt_proxy_chaos(proxies[i], 0);
    }
}

static uint64_t hits_of(int f)
{
    uint64_t hits = 0;

    for (int i = 0; i < PLACES; i++)
        hits += rt_proxy_fault_hits(proxies[i], hits_at[i][f]);
    return hits;
}

static void show_network(void)
{
    printf("%d transfers; calls: %llu cut, %llu dropped, %llu done and not heard, %llu doubled, "
           "%llu late; %ld tries came after their cancel, %ld cancels before their try\n",
           ledger->transfers, (unsigned long long)hits_of(CUT_ASKED),
           (unsigned long long)hits_of(DROP_ASKED),
           (unsigned long long)(hits_of(CUT_SAID) + hits_of(DROP_SAID)),
           (unsigned long long)hits_of(DOUBLED), (unsigned long long)hits_of(LATE),
           ledger->late_tries, ledger->empty_cancels);
}

/* ---- Which points are whose ------------------------------------------------------------------------- */

static const struct way {
    const char *begins; /* prefixes of points; the first match counts */
    int commits;        /* times a teller reaches it in a committing transfer */
    int aborts;         /* ... in one that is refused */
    bool recovers;      /* a recovery reaches it, with one decided and one not */
    bool forgets;       /* ... when it forgets */
    bool serves;        /* a service does */
} ways[] = {
    {.begins = "register-", .commits = 2},
    {.begins = "tcc-registered", .commits = 2},
    {.begins = "tcc-tried", .commits = 2},
    {.begins = "tcc-confirmed", .commits = 2, .recovers = true},
    {.begins = "tcc-cancelled", .aborts = 2, .recovers = true},
    {.begins = "decide-", .commits = 1},
    {.begins = "abort-", .aborts = 1, .recovers = true},
    {.begins = "done-", .commits = 1, .aborts = 1, .recovers = true},
    {.begins = "told", .commits = 1, .aborts = 1},
    {.begins = "recover-", .recovers = true},
    {.begins = "forget-", .forgets = true},
    {.begins = "service-", .serves = true},
    /* Points of databases that take part themselves: nobody reaches them. */
    {.begins = "branch-begun"},
    {.begins = "prepare-"},
    {.begins = "one-phase-"},
    {.begins = "commit-"},
    {.begins = "rollback-"},
    {.begins = "gate-"},
    {.begins = "takeover-"},
    {.begins = "fence-"},
    {.begins = "marks-"},
};

/* The next point after *I, and its way; NULL: none. */
static const struct way *next_way(unsigned *i, const char **name)
{
    const struct rt_point_name *p;

    while ((p = rt_point_name((*i)++)) != NULL) {
        if (p->journal != NULL && strcmp(p->journal, "tcc") != 0)
            continue; /* another journal's */
        *name = p->name;
        for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
            if (strncmp(p->name, ways[k].begins, strlen(ways[k].begins)) == 0)
                return &ways[k];
        fail_msg("no way leads to the crash point %s: a line in tests/txn/bank/http.c", p->name);
    }
    return NULL;
}

static const char *at(char out[64], const char *name, int k)
{
    snprintf(out, 64, "%s:%d", name, k);
    return out;
}

/* ---- Scenes ------------------------------------------------------------------------------------------ */

static void nobody_dies(void **state)
{
    struct role r = {.work = TELLER, .place = -1, .count = 8, .timeout_ms = LIMIT_MS};
    struct role poor = r;
    int first = ledger->transfers;

    (void)state;
    poor.poor = true;
    poor.count = 2;
    assert_int_equal(run(&r), 0);
    assert_int_equal(run(&poor), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ledger->told[first + i], i < 8 ? COMMITTED : ABORTED);
    heal_and_check(0);
}

/* Each fault once for each operation: transfer I has fault I % FAULTS, at its first place. */
#define CASES (3 * FAULTS)
_Static_assert(POOR_FROM == 2 * FAULTS, "cancels are met by those that are refused");

static void plan_faults(uint32_t numbers[CASES])
{
    static const char *const ops[] = {"try", "confirm", "cancel"};

    for (int i = 0; i < CASES; i++) {
        struct rt_fault fault = faults[i % FAULTS];
        char match[64];
        snprintf(match, sizeof(match), "POST /%s %d ", ops[i / FAULTS], town->first + i);
        fault.chance = 0;
        fault.match = match;
        /* libcurl asks once more when a connection it kept has ended: a try whose second call came through was not
         * lost. */
        bool often = i / FAULTS == 0 && fault.what == RT_FAULT_CUT;
        fault.times = often ? RT_FAULT_ALWAYS : 1;
        numbers[i] = rt_proxy_fault(proxies[i % PLACES], &fault);
    }
}

static int due(int i)
{
    bool commits = i / FAULTS == 1 || (i / FAULTS == 0 && i % FAULTS == DOUBLED);

    return commits ? COMMITTED : ABORTED;
}

static long served(void)
{
    return town->served[0] + town->served[1] + town->served[2];
}

static bool have_served(void *arg)
{
    return served() >= *(long *)arg;
}

/* All of them at once. False: on a busy machine another call was late, too. */
static bool meet_faults(uint32_t call_ms)
{
    uint32_t numbers[CASES];
    bool as_planned = true;
    int first = ledger->transfers;

    town->first = first;
    plan_faults(numbers);
    assert_int_equal(
        run(&(struct role){
            .work = ABREAST, .count = CASES, .timeout_ms = LIMIT_MS, .call_ms = call_ms}),
        0);
    assert_int_equal(run(&(struct role){.work = RECOVERY}), 0);
    long late = ledger->late_tries, all = served() + 3;
    for (int i = LATE; i < CASES; i += FAULTS) /* now they come: all is over */
        rt_proxy_fault_release(proxies[i % PLACES], numbers[i]);
    wait_for(have_served, &all, "what was kept back is answered");
    drain();
    for (int i = 0; i < CASES; i++) {
        as_planned = as_planned && ledger->told[first + i] == due(i) &&
                     rt_proxy_fault_hits(proxies[i % PLACES], numbers[i]) > 0;
        assert_int_equal(effects_of(first + i, i % PLACES, ROTA_OP_CONFIRM),
                         ledger->told[first + i] == COMMITTED);
    }
    if (!as_planned)
        return false;
    assert_int_equal(ledger->late_tries, late + 1);
    for (int i = 0; i < CASES; i++) {
        bool unheard = i < FAULTS && (i == CUT_ASKED || i == DROP_ASKED || i == LATE);
        assert_int_equal(effects_of(first + i, i % PLACES, ROTA_OP_TRY), unheard ? 0 : 1);
    }
    return true;
}

static void each_call_meets_each_fault(void **state)
{
    uint32_t call_ms = SOON_MS;

    (void)state;
    while (!meet_faults(call_ms)) {
        call_ms *= 4;
        assert_true(call_ms < LIMIT_MS);
    }
    network_calm();
    heal_and_check(0);
}

/* Nobody but the journal knows of it. */
static void a_try_is_known_before_it_leaves(void **state)
{
    (void)state;
    teller_dies(0, false, "tcc-tried:1");
    heal_and_check(0);
}

static void tellers_die_at_every_point(void **state)
{
    const struct way *way;
    const char *name;
    int deaths = 0;
    char point[64];

    (void)state;
    for (unsigned i = 0; (way = next_way(&i, &name)) != NULL;) {
        for (int k = 1; k <= way->commits; k++, deaths++)
            teller_dies(0, false, at(point, name, k));
        for (int k = 1; k <= way->aborts; k++, deaths++)
            teller_dies(0, true, at(point, name, k));
    }
    heal_and_check(0);
    printf("tellers killed %d times\n", deaths);
}

/* Each recovery has a journal of its own, with one decided transaction and one undecided. */
static void recoveries_die_at_every_point(void **state)
{
    pid_t pids[JOURNALS];
    const char *names[JOURNALS], *name;
    const struct way *way;
    int first = journals;

    (void)state;
    for (unsigned i = 0; (way = next_way(&i, &name)) != NULL;) {
        if (!way->recovers)
            continue;
        assert_true(journals < JOURNALS);
        teller_dies(journals, false, "decide-answered");
        teller_dies(journals, false, "tcc-tried:2");
        names[journals++] = name;
    }
    for (int done = first, begun = first; done < journals; done++) {
        for (; begun < journals && begun < done + HEAL_AT_ONCE; begun++) {
            struct role r = {.work = RECOVERY, .journal = begun};
            snprintf(r.point, sizeof(r.point), "%s", names[begun]);
            pids[begun] = start(&r);
        }
        if (ends(pids[done]) != KILLED)
            fail_msg("no recovery came by %s", names[done]);
    }
    heal_and_check(0);
    printf("recoveries killed at %d points\n", journals - first);
}

/* The process that forgets dies; the next one forgets, and what is over stays over. */
static void who_forgets_dies_at_every_point(void **state)
{
    struct role r = {.work = RECOVERY, .forgets = true, .timeout_ms = 1000};
    const struct way *way;
    const char *name;
    pid_t pids[JOURNALS];
    int deaths = 0;

    (void)state;
    for (unsigned i = 0; (way = next_way(&i, &name)) != NULL;) {
        if (!way->forgets)
            continue;
        r.journal = deaths;
        snprintf(r.point, sizeof(r.point), "%s", name);
        pids[deaths++] = start(&r);
    }
    for (int i = 0; i < deaths; i++)
        assert_int_equal(ends(pids[i]), KILLED);
    snprintf(r.point, sizeof(r.point), "forget-answered:2");
    r.journal = 0;
    assert_int_equal(run(&r), KILLED);
    heal_and_check(0);
    printf("who forgets was killed at %d points\n", deaths);
}

struct death {
    int place, call; /* its first or its second */
    bool poor;
    const char *name;
};

static bool is_dead(void *arg)
{
    pid_t *pid = arg; /* 0 when it has ended */
    int code = KILLED;

    if (*pid != 0 && rt_forkserver_ended(forks, *pid, &code))
        *pid = 0;
    assert_int_equal(code, KILLED);
    return *pid == 0;
}

/* It died, or its caller ended without it. */
static bool is_over(void *arg)
{
    pid_t *pids = arg; /* the service's, the teller's: 0 when it has ended */
    int code = 0;

    if (pids[1] != 0 && rt_forkserver_ended(forks, pids[1], &code))
        pids[1] = 0;
    assert_int_equal(code, 0);
    return is_dead(&pids[0]) || pids[1] == 0;
}

static int serve_and_die(void *arg, uint32_t timeout_ms)
{
    const struct death *d = arg;
    struct role r = {.work = TELLER, .place = d->place, .count = 1, .poor = d->poor};

    char point[64];

    r.timeout_ms = timeout_ms;
    service_again(d->place, at(point, d->name, d->call));
    pid_t pids[2] = {services[d->place], start(&r)};
    wait_for(is_over, pids, "the service dies, or its caller ends");
    if (pids[0] != 0 && town->served[d->place] < d->call)
        return 0;
    wait_for(is_dead, &pids[0], "who has answered dies");
    service_start(d->place, "");
    if (pids[1] != 0)
        assert_int_equal(ends(pids[1]), 0);
    return KILLED;
}

/* In a try, a confirm and a cancel: the places take turns; in long runs each dies at all of them. */
static void services_die_at_every_point(void **state)
{
    const struct way *way;
    const char *name;
    int deaths = 0, points = 0, turns = rounds(1) > 1 ? PLACES : 1;

    (void)state;
    for (unsigned i = 0; (way = next_way(&i, &name)) != NULL;) {
        if (!way->serves)
            continue;
        for (int k = 0; k < 3 * turns; k++, deaths++) {
            struct death d = {.place = (points + k % 3 + k / 3) % PLACES,
                              .call = k % 3 == 0 ? 1 : 2,
                              .poor = k % 3 == 2,
                              .name = name};
            must_die(serve_and_die, &d, name);
        }
        points++;
    }
    heal_and_check(0);
    printf("services killed %d times\n", deaths);
}

static void calls_are_dropped_doubled_late_and_out_of_order(void **state)
{
    pid_t pids[3];

    (void)state;
    network_faulty();
    for (int i = 0; i < 3; i++)
        pids[i] = start(&(struct role){
            .work = TELLER, .place = -1, .count = (int)rounds(10), .call_ms = SHORT_MS});
    for (int i = 0; i < 3; i++)
        assert_int_equal(ends(pids[i]), 0);
    heal_and_check(SHORT_MS);
    network_calm();
    show_network();
}

static bool has_moved(void *arg)
{
    return ledger->transfers >= *(int *)arg;
}

static void all_of_it_together(void **state)
{
    unsigned seed = (unsigned)rt_seed();

    (void)state;
    network_faulty();
    printf("ROTA_SEED=%u\n", seed);
    for (long i = 0; i < rounds(3); i++) {
        const struct role r = {.work = TELLER, .place = -1, .count = 100, .call_ms = SHORT_MS};
        const struct role heals = {.work = RECOVERY, .forgets = true, .call_ms = SHORT_MS};
        pid_t a = start(&r), b = start(&r), c = start(&heals);
        for (int k = 0; k < 3; k++) {
            int until = ledger->transfers + 3;
            wait_for(has_moved, &until, "money moves");
            service_again((int)(rand_r(&seed) % PLACES), "");
        }
        end(a);
        end(b);
        end(c);
    }
    heal_and_check(SHORT_MS);
    network_calm();
    show_network();
}

static void the_fences_are_clean_after_gc(void **state)
{
    (void)state;
    for (int i = 0; i < journals; i++)
        assert_int_equal(run(&(struct role){.work = CLEANER, .journal = i}), 0);
    for (int i = 0; i < PLACES; i++)
        assert_int_equal(places[i]->site->number("SELECT COUNT(*) FROM rota_fence"), 0);
}

static void every_point_was_hit(void **state)
{
    const struct way *way;
    const char *name;
    int count = 0;

    (void)state;
    for (unsigned i = 0; (way = next_way(&i, &name)) != NULL;) {
        bool ours = way->commits || way->aborts || way->recovers || way->forgets || way->serves;
        if (ours && point_hits(name) == 0)
            fail_msg("nobody came by the crash point %s", name);
        count += ours;
    }
    printf("%d crash points, all hit\n", count);
}

/* ---- The world -------------------------------------------------------------------------------------------- */

static int up(void **state)
{
    char seen[200];

    (void)state;
    town = rt_shared_new(sizeof(*town));
    snprintf(town->journal, sizeof(town->journal), "file:%s/journal", rt_tmpdir());
    snprintf(seen, sizeof(seen), "%s/seen", rt_tmpdir());
    setenv("ROTA_POINTS_SEEN", seen, 1);
    ledger_open();
    forks = rt_forkserver_start(role_play, NULL); /* before there are threads */
    for (int i = 0; i < PLACES; i++) {
        const struct rt_proxy_options opts = {
            .port = 1, .framing = &rt_proxy_http, .seed = rt_seed()};
        proxies[i] = rt_proxy_start(&opts);
        town->proxy[i] = rt_proxy_port(proxies[i]);
        service_start(i, "");
    }
    return 0;
}

static int down(void **state)
{
    (void)state;
    rt_forkserver_stop(forks);
    for (int i = 0; i < PLACES; i++)
        rt_proxy_stop(proxies[i]);
    ledger_close();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_dies),
        cmocka_unit_test(each_call_meets_each_fault),
        cmocka_unit_test(a_try_is_known_before_it_leaves),
        cmocka_unit_test(tellers_die_at_every_point),
        cmocka_unit_test(recoveries_die_at_every_point),
        cmocka_unit_test(who_forgets_dies_at_every_point),
        cmocka_unit_test(services_die_at_every_point),
        cmocka_unit_test(calls_are_dropped_doubled_late_and_out_of_order),
        cmocka_unit_test(all_of_it_together),
        cmocka_unit_test(the_fences_are_clean_after_gc),
        cmocka_unit_test(every_point_was_hit),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(1700, "the bank over HTTP hangs");
    return cmocka_run_group_tests(tests, up, down);
}
