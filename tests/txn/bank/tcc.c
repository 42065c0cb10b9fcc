/* SPDX-License-Identifier: Apache-2.0 */
/* The bank over services: accounts on MariaDB, PostgreSQL and SQLite, moved by try, confirm and cancel behind the fence.
 *
 * Every call goes through a transport that loses it, loses its answer, doubles it, or keeps it back and delivers it behind
 * others: a try after its cancel, too. Tellers and their services, and recoveries, die at every named point. Then a recovery
 * heals: the sums are right, each effect was there once, nothing is reserved, and the fences can be taken away. */
#include "txn/fence/desk.h"

#include "lib/proc.h"
#include "txn/manager/manager.h"
#include "txn/point.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACES 3
#define ACCOUNTS 20
#define BALANCE 1000
#define TRANSFERS 4096 /* the most */
#define SOON_MS 3000
#define LIMIT_MS 120000

static const struct desk *const places[PLACES] = {&desk_mysql, &desk_postgres, &desk_sqlite};
static const char *const names[PLACES] = {"till", "vault", "safe"};

enum told { NOTHING, COMMITTED, ABORTED, UNKNOWN };

static struct shared { /* by all processes */
    _Atomic int told[TRANSFERS];
    _Atomic unsigned from[TRANSFERS], to[TRANSFERS]; /* 1 + place */
    _Atomic int transfers;
    _Atomic long lost, unanswered, doubled, late, late_tries;
    _Atomic long undone;
} * all;

/* ---- A service: one place ---------------------------------------------------------------- */

struct order {                /* a payload */
    int tid, account, amount; /* amount: negative: it goes */
};

static void *conns[PLACES];
static pthread_mutex_t busy[PLACES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER};
static const char *dies_at = ""; /* a service: fenced, worked, committed */

static void may_die(const char *point)
{
    if (strcmp(dies_at, point) == 0)
        (void)raise(SIGKILL);
}

static bool say(int place, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool say(int place, const char *format, ...)
{
    char sql[400];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    return places[place]->site->sql(conns[place], sql);
}

/* What goes is taken from the balance by try; what comes is added to it by confirm. The rest is on hold. A balance below 0 is
 * refused by the table. */
static bool work(int place, const struct rota_call *call, const struct order *o)
{
    int amount = abs(o->amount), balance = 0, hold = call->op == ROTA_OP_TRY ? amount : -amount;

    if (o->amount < 0)
        balance = call->op == ROTA_OP_TRY ? -amount : call->op == ROTA_OP_CANCEL ? amount : 0;
    else
        balance = call->op == ROTA_OP_CONFIRM ? amount : 0;
    return say(place,
               "UPDATE account SET balance = balance + (%d), hold = hold + (%d) WHERE id = %d",
               balance, hold, o->account) &&
           say(place, "INSERT INTO effects VALUES ('%d', %d, %d)", o->tid, place, call->op);
}

/* One call, as the page of services says. */
static int serve_place(int place, const struct rota_call *call, const struct order *o)
{
    enum rota_fenced verdict = 0;
    int rv = ROTA_BUSY;

    pthread_mutex_lock(&busy[place]);
    if (say(place, "%s", places[place]->begin))
        rv = places[place]->fence(conns[place], call, &verdict);
    if (rv == 0)
        may_die("fenced");
    if (rv == 0 && verdict == ROTA_FENCE_DO && !work(place, call, o))
        rv = call->op == ROTA_OP_TRY ? ROTA_ABORTED : ROTA_BUSY;
    bool refused = verdict == ROTA_FENCE_LATE || verdict == ROTA_FENCE_EARLY ||
                   verdict == ROTA_FENCE_CROSSED;
    if (rv == 0)
        may_die("worked");
    if (rv != 0 || refused)
        (void)say(place, "ROLLBACK");
    else if (!say(place, "COMMIT"))
        rv = ROTA_UNKNOWN;
    if (rv == 0 && !refused)
        may_die("committed");
    pthread_mutex_unlock(&busy[place]);
    return rv == 0 && refused ? ROTA_ABORTED : rv;
}

/* ---- The transport -------------------------------------------------------------------------- */

#define LATE_MOST 64

static struct late {  /* a copy that comes behind others */
    int place, after; /* so many calls */
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
        all->late++;
        all->late_tries += one.call.op == ROTA_OP_TRY;
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
        all->lost++;
        return ROTA_UNREACHABLE;
    }
    if (fate < 16) { /* no answer, and it comes later: behind its cancel */
        all->lost++;
        keep(place, call, &o);
        return ROTA_UNREACHABLE;
    }
    if (fate < 30)
        keep(place, call, &o);
    int rv = serve_place(place, call, &o);
    if (fate >= 30 && fate < 45) {
        all->doubled++;
        rv = serve_place(place, call, &o);
    }
    if (fate >= 45 && fate < 53) {
        all->unanswered++;
        return ROTA_UNREACHABLE;
    }
    return rv;
}

/* ---- Tellers and recoveries: processes of their own -------------------------------------------- */

struct role {
    const char *journal, *point, *service_point;
    int count;           /* transfers */
    uint32_t timeout_ms; /* 0: SOON_MS */
    bool poor;           /* the second service refuses */
    bool faults;
};

static struct rota_txns *m;

static void enter(const struct role *r, uint32_t flags)
{
    static const struct rota_tcc calls = {carry, carry, carry};
    const struct rota_txns_options opts = {.flags = flags,
                                           .timeout_ms = r->timeout_ms != 0 ? r->timeout_ms
                                                                            : SOON_MS,
                                           .recover_ms = 100};

    rt_watchdog(300, "a role of the bank hangs");
    seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    faulty = r->faults;
    dies_at = r->service_point != NULL ? r->service_point : "";
    for (int i = 0; i < PLACES; i++)
        conns[i] = places[i]->site->connect(0);
    if (rota_txns_open(&m, r->journal, &opts) != 0) {
        fprintf(stderr, "%s: %s\n", r->journal, rota_txn_errmsg(NULL));
        abort();
    }
    for (int i = 0; i < PLACES; i++)
        if (rota_tcc_serve(m, names[i], &calls, (void *)(intptr_t)i) != 0)
            abort();
}

static void leave(void)
{
    rota_txns_close(m);
    deliver_late(true);
    for (int i = 0; i < PLACES; i++)
        places[i]->site->close(conns[i]);
}

static void transfer(const struct role *r)
{
    int tid = all->transfers++, from = draw(PLACES), to = (from + 1 + draw(PLACES - 1)) % PLACES;
    struct order goes = {tid, 1 + draw(ACCOUNTS), -(1 + draw(5))};
    struct order comes = {tid, 1 + draw(ACCOUNTS), -goes.amount};
    struct rota_txn *t;

    if (tid >= TRANSFERS || rota_txn_begin(m, NULL, &t) != 0)
        abort();
    all->from[tid] = 1 + (unsigned)from;
    all->to[tid] = 1 + (unsigned)to;
    if (r->poor)
        comes.amount = -BALANCE * 2; /* more than there is */
    int err = rota_tcc_call(t, names[from], &goes, sizeof(goes));
    if (err == 0)
        err = rota_tcc_call(t, names[to], &comes, sizeof(comes));
    err = err == 0 ? rota_txn_commit(t) : rota_txn_abort(t) == 0 ? ROTA_ABORTED : ROTA_UNKNOWN;
    all->told[tid] = err == 0 ? COMMITTED : err == ROTA_ABORTED ? ABORTED : UNKNOWN;
}

static int teller(int index, void *arg)
{
    struct role *r = arg;

    (void)index;
    enter(r, 0);
    for (int i = 0; i < r->count; i++)
        transfer(r);
    leave();
    return 0;
}

static void on_undone(void *arg, const struct rt_journal_record *record)
{
    (void)record;
    ++*(long *)arg;
}

static long undone(void)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN};
    long count = 0;

    op.scan.before_ms = RT_TXN_BIRTH_MAX;
    op.scan.limit = RT_JOURNAL_PAGE_MAX;
    op.scan.each = on_undone;
    op.scan.arg = &count;
    return rt_txns_ask(m, &op) == 0 ? count : 1;
}

static int recovery(int index, void *arg)
{
    (void)index;
    enter(arg, ROTA_TXN_RECOVER);
    for (int i = 0; undone() > 0; i++) {
        if (i > LIMIT_MS / 20) {
            fprintf(stderr, "the bank does not heal\n");
            abort();
        }
        poll(NULL, 0, 20);
    }
    leave();
    return 0;
}

static int cleaner(int index, void *arg)
{
    const struct role *r = arg;
    uint64_t went[PLACES];

    (void)index;
    enter(r, 0);
    for (int i = 0; i < PLACES; i++) { /* two days later */
        if (!say(i, "UPDATE rota_fence SET deadline = deadline - 172800000") ||
            places[i]->clean(m, conns[i], &went[i]) != 0) {
            fprintf(stderr, "%s: %s\n", names[i], rota_txn_errmsg(m));
            abort();
        }
    }
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

static void check_place(int i, long long *sum)
{
    const struct site *s = places[i]->site;

    *sum += s->number("SELECT SUM(balance) FROM account");
    assert_int_equal(s->number("SELECT COUNT(*) FROM account WHERE hold <> 0"), 0);
    assert_int_equal(
        s->number("SELECT COUNT(*) FROM (SELECT 1 FROM effects GROUP BY txn, branch, op "
                  "HAVING COUNT(*) > 1) AS twice"),
        0);
    assert_int_equal(s->number("SELECT COUNT(*) FROM rota_fence WHERE state = 1"), 0);
}

static long long has(int tid, unsigned place, enum rota_op op)
{
    char sql[160];

    snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM effects WHERE txn = '%d' AND op = %d", tid,
             op);
    return places[place - 1]->site->number(sql);
}

/* Both are confirmed, or none; what was tried was confirmed or cancelled; and as was told. */
static void check_transfer(int tid)
{
    unsigned from = all->from[tid], to = all->to[tid];

    if (from == 0 || to == 0)
        return; /* it died before it began */
    long long one = has(tid, from, ROTA_OP_CONFIRM), two = has(tid, to, ROTA_OP_CONFIRM);
    assert_int_equal(one, two);
    assert_int_equal(has(tid, from, ROTA_OP_TRY), one + has(tid, from, ROTA_OP_CANCEL));
    assert_int_equal(has(tid, to, ROTA_OP_TRY), two + has(tid, to, ROTA_OP_CANCEL));
    if (all->told[tid] == COMMITTED)
        assert_int_equal(one, 1);
    if (all->told[tid] == ABORTED)
        assert_int_equal(one, 0);
}

static int checked;

static void heal_and_check(bool faults)
{
    struct role r = {.faults = faults};
    long long sum = 0;

    assert_int_equal(rt_proc_wait(start(recovery, &r)), 0);
    for (int i = 0; i < PLACES; i++)
        check_place(i, &sum);
    assert_int_equal(sum, (long long)PLACES * ACCOUNTS * BALANCE);
    for (; checked < all->transfers; checked++)
        check_transfer(checked);
}

static int up(void **state)
{
    static const char *const ddl[] = {
        "CREATE TABLE effects (txn VARCHAR(64), branch BIGINT, op INT)",
        "CREATE INDEX effects_of ON effects (txn, branch)",
        "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL CHECK (balance >= 0), hold "
        "INT NOT NULL)"};
    char sql[80];

    (void)state;
    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    for (int i = 0; i < PLACES; i++) {
        places[i]->site->start();
        for (int j = 0; j < 3; j++)
            places[i]->site->admin(ddl[j]);
        for (int j = 1; j <= ACCOUNTS; j++) {
            snprintf(sql, sizeof(sql), "INSERT INTO account VALUES (%d, %d, 0)", j, BALANCE);
            places[i]->site->admin(sql);
        }
        void *conn = places[i]->site->connect(0);
        assert_int_equal(places[i]->make(conn), 0);
        places[i]->site->close(conn);
    }
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++)
        places[i]->site->fini();
    return 0;
}

static long rounds(long least)
{
    const char *factor = getenv("FACTOR");

    return least * (factor != NULL ? strtol(factor, NULL, 10) : 1);
}

/* ---- Scenes ------------------------------------------------------------------------------------------ */

static void nobody_dies(void **state)
{
    struct role r = {.count = 10, .timeout_ms = LIMIT_MS};
    struct role poor = {.count = 2, .poor = true, .timeout_ms = LIMIT_MS};
    int first = all->transfers;

    (void)state;
    assert_int_equal(rt_proc_wait(start(teller, &r)), 0);
    assert_int_equal(rt_proc_wait(start(teller, &poor)), 0);
    for (int i = 0; i < 12; i++)
        assert_int_equal(all->told[first + i], i < 10 ? COMMITTED : ABORTED);
    heal_and_check(false);
}

/* Which points a teller and its services come by: in a transfer that commits, and in one that does not. */
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
static const char *const of_service[] = {"fenced", "worked", "committed"};

static void dies(struct role *r)
{
    for (r->timeout_ms = SOON_MS; r->timeout_ms < LIMIT_MS; r->timeout_ms *= 4) {
        int code = rt_proc_wait(start(teller, r));
        if (code == RT_PROC_SIGNALED + SIGKILL)
            return;
        assert_int_equal(code, 0); /* a busy machine needs longer */
    }
    fail_msg("nobody came by %s%s", r->point != NULL ? r->point : "",
             r->service_point != NULL ? r->service_point : "");
}

static void tellers_die_at_every_point(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(of_commit) / sizeof(of_commit[0]); i++)
        dies(&(struct role){.count = 1, .point = of_commit[i]});
    for (size_t i = 0; i < sizeof(of_abort) / sizeof(of_abort[0]); i++)
        dies(&(struct role){.count = 1, .point = of_abort[i], .poor = true});
    for (size_t i = 0; i < sizeof(of_service) / sizeof(of_service[0]); i++)
        dies(&(struct role){.count = 1, .service_point = of_service[i]});
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
    struct role r = {.service_point = "worked"};
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
           all->transfers, all->lost, all->unanswered, all->doubled, all->late, all->late_tries);
    assert_true(all->lost > 0 && all->unanswered > 0 && all->doubled > 0 && all->late_tries > 0);
}

static void all_of_it_together(void **state)
{
    (void)state;
    for (long i = 0; i < rounds(6); i++) {
        struct role r = {.count = 100, .faults = true}, other = r;
        pid_t a = start(teller, &r), b = start(teller, &other), c = start(recovery, &other);
        int until = all->transfers + 6;
        for (int n = 0; all->transfers < until; n++) {
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
