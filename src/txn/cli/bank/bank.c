/* SPDX-License-Identifier: Apache-2.0 */
/* The bank of the demo: its tellers, and whoever kills them. */
#include "txn/cli/bank/bank.h"

#include "txn/manager/manager.h"
#include "txn/manager/till.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TELLERS_MOST 16
#define LIFE_NS 120000000 /* how long tellers work before one of them is killed */
#define TIMEOUT_MS 2000   /* of a transaction: the demo is short */
#define RECOVER_MS 300
#define LOOK_NS 100000000
#define LOOKS_MOST 600 /* a minute */

const char *const rt_bank_names[RT_BANK_SITES] = {"shop", "ledger"};

static int fail(struct rt_bank *bank, const char *who, const char *why)
{
    snprintf(bank->errmsg, sizeof(bank->errmsg), "%.60s: %.240s", who, why);
    return ROTA_UNREACHABLE;
}

static void pause_for(long ns)
{
    (void)nanosleep(&(struct timespec){0, ns}, NULL);
}

/* ---- Accounts ---------------------------------------------------------------------- */

static int open_tills(struct rt_bank *bank, struct rt_till tills[RT_BANK_SITES])
{
    for (int i = 0; i < RT_BANK_SITES; i++) {
        int rv = rt_till_open(&tills[i], bank->url[i]);
        if (rv != 0)
            return fail(bank, rt_bank_names[i], tills[i].errmsg);
    }
    return 0;
}

static void close_tills(struct rt_till tills[RT_BANK_SITES])
{
    for (int i = 0; i < RT_BANK_SITES; i++)
        rt_till_close(&tills[i]);
}

static int make_accounts(struct rt_bank *bank, struct rt_till tills[RT_BANK_SITES])
{
    for (int i = 0; i < RT_BANK_SITES; i++) {
        struct rt_till *till = &tills[i];
        bool made = rt_till_say(till, "DROP TABLE IF EXISTS rota_demo_account") &&
                    rt_till_say(till,
                                "CREATE TABLE rota_demo_account (id INT PRIMARY KEY, coins INT)%s",
                                till->mysql ? " ENGINE = InnoDB" : "");
        for (int id = 0; made && id < RT_BANK_ACCOUNTS; id++)
            made = rt_till_say(till, "INSERT INTO rota_demo_account VALUES (%d, %d)", id,
                               RT_BANK_COINS);
        if (!made)
            return fail(bank, rt_bank_names[i], till->errmsg);
    }
    return 0;
}

static int count_coins(struct rt_bank *bank, struct rt_till tills[RT_BANK_SITES], long long *out)
{
    long long sum = 0;

    for (int i = 0; i < RT_BANK_SITES; i++) {
        long long coins = rt_till_number(&tills[i], "SELECT SUM(coins) FROM rota_demo_account");
        if (coins < 0)
            return fail(bank, rt_bank_names[i], tills[i].errmsg);
        sum += coins;
    }
    *out = sum;
    return 0;
}

/* ---- Tellers ------------------------------------------------------------------------- */

static bool move(struct rt_till *till, int account, int coins)
{
    return rt_till_say(till, "UPDATE rota_demo_account SET coins = coins + (%d) WHERE id = %d",
                       coins, account);
}

/* One after the other, each by itself: a teller killed in between makes coins, or loses them. */
static bool carry_bare(struct rt_till tills[RT_BANK_SITES], int from, const int accounts[2],
                       int coins)
{
    return move(&tills[from], accounts[0], -coins) && move(&tills[1 - from], accounts[1], coins);
}

static bool begin_both(struct rota_txn *t, struct rt_till tills[RT_BANK_SITES])
{
    return rota_xa_mysql(t, rt_bank_names[RT_BANK_SHOP], tills[RT_BANK_SHOP].conn, NULL) == 0 &&
           rota_xa_postgres(t, rt_bank_names[RT_BANK_LEDGER], tills[RT_BANK_LEDGER].conn, NULL) ==
               0;
}

static bool carry(struct rota_txns *m, struct rt_till tills[RT_BANK_SITES], int from,
                  const int accounts[2], int coins)
{
    struct rota_txn *t;

    if (rota_txn_begin(m, NULL, &t) != 0)
        return false;
    if (begin_both(t, tills) && carry_bare(tills, from, accounts, coins))
        return rota_txn_commit(t) == 0;
    (void)rota_txn_abort(t);
    return false;
}

static struct rota_txns *open_manager(struct rt_bank *bank, uint32_t flags)
{
    struct rota_txns_options opts = {.flags = flags,
                                     .timeout_ms = TIMEOUT_MS,
                                     .recover_ms = RECOVER_MS,
                                     .resources = "/dev/null"};
    struct rota_txns *m = NULL;

    if (rota_txns_open(&m, bank->journal, &opts) != 0) {
        fail(bank, "journal", rota_txn_errmsg(NULL));
        return NULL;
    }
    for (int i = 0; i < RT_BANK_SITES; i++)
        if (bank->url[i] != NULL && rota_txns_resource(m, rt_bank_names[i], bank->url[i]) != 0) {
            fail(bank, rt_bank_names[i], rota_txn_errmsg(m));
            rota_txns_close(m);
            return NULL;
        }
    return m;
}

/* A process: works until it is killed. */
__attribute__((noreturn)) static void work(struct rt_bank *bank, pid_t parent, uint64_t *carried)
{
    struct rt_till tills[RT_BANK_SITES] = {0};
    struct rota_txns *m = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (getppid() != parent || open_tills(bank, tills) != 0 ||
        (bank->journal != NULL && (m = open_manager(bank, 0)) == NULL))
        _exit(1);
    srandom((unsigned)getpid());
    for (;;) {
        int from = (int)(random() % RT_BANK_SITES), coins = 1 + (int)(random() % 9);
        const int accounts[2] = {(int)(random() % RT_BANK_ACCOUNTS),
                                 (int)(random() % RT_BANK_ACCOUNTS)};
        bool done = m != NULL ? carry(m, tills, from, accounts, coins)
                              : carry_bare(tills, from, accounts, coins);
        if (done)
            __atomic_fetch_add(carried, 1, __ATOMIC_RELAXED);
        else if (tills[0].talk.said.lost || tills[1].talk.said.lost)
            _exit(1);
    }
}

static pid_t hire(struct rt_bank *bank, uint64_t *carried)
{
    pid_t parent = getpid();

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        work(bank, parent, carried);
    return pid;
}

/* Kills one teller after the other, in the middle of its work, and hires another in its place. */
static int run_tellers(struct rt_bank *bank)
{
    uint64_t *carried = mmap(NULL, sizeof(*carried), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t tellers[TELLERS_MOST];
    uint32_t count = bank->tellers < TELLERS_MOST ? bank->tellers : TELLERS_MOST;

    if (carried == MAP_FAILED)
        return fail(bank, "memory", strerror(errno));
    for (uint32_t i = 0; i < count; i++)
        tellers[i] = hire(bank, carried);
    pause_for(4 * LIFE_NS);
    for (bank->killed = 0; bank->killed < bank->kills; bank->killed++) {
        uint32_t i = (uint32_t)random() % count;
        pause_for(LIFE_NS);
        kill(tellers[i], SIGKILL);
        (void)waitpid(tellers[i], NULL, 0);
        tellers[i] = hire(bank, carried);
    }
    for (uint32_t i = 0; i < count; i++) {
        kill(tellers[i], SIGKILL);
        (void)waitpid(tellers[i], NULL, 0);
    }
    bank->carried = __atomic_load_n(carried, __ATOMIC_RELAXED);
    munmap(carried, sizeof(*carried));
    return 0;
}

/* ---- In doubt ------------------------------------------------------------------------- */

static void count_one(void *arg, const struct rt_party_seen *seen)
{
    (void)seen;
    ++*(uint64_t *)arg;
}

/* How many branches of this journal are prepared at both; -1: one could not be asked. */
static long long count_prepared(struct rt_bank *bank, struct rota_txns *m)
{
    uint64_t count = 0;

    for (int i = 0; i < RT_BANK_SITES; i++) {
        struct rt_party_op op = {.what = RT_PARTY_LIST};
        if (bank->url[i] == NULL)
            continue;
        op.list.journal = rt_txns_number(m);
        op.list.each = count_one;
        op.list.arg = &count;
        if (rt_txns_errand(m, rt_bank_names[i], &op) != 0) {
            fail(bank, rt_bank_names[i], rota_txn_errmsg(m));
            return -1;
        }
    }
    return (long long)count;
}

/* Waits until recovery has finished all; but not for ever, in case it lacks a permission. */
static int wait_clear(struct rt_bank *bank, struct rota_txns *m)
{
    for (int looks = 0; looks < LOOKS_MOST; looks++) {
        long long n = count_prepared(bank, m);
        if (n <= 0)
            return n < 0 ? ROTA_UNREACHABLE : 0;
        bank->in_doubt = (uint64_t)n > bank->in_doubt ? (uint64_t)n : bank->in_doubt;
        pause_for(LOOK_NS);
    }
    return fail(bank, "recovery",
                "branches stay in doubt: recovery needs the privilege PROCESS at MariaDB, and the "
                "tellers' user at PostgreSQL");
}

int rt_bank_mend(struct rt_bank *bank)
{
    struct rota_txns *m = open_manager(bank, ROTA_TXN_RECOVER);
    int rv = m != NULL ? wait_clear(bank, m) : ROTA_UNREACHABLE;

    rota_txns_close(m);
    return rv;
}

int rt_bank_run(struct rt_bank *bank)
{
    struct rt_till tills[RT_BANK_SITES] = {0};

    int rv = open_tills(bank, tills);
    if (rv == 0)
        rv = make_accounts(bank, tills);
    if (rv == 0)
        rv = count_coins(bank, tills, &bank->before);
    close_tills(tills); /* none of ours may be connected when tellers are forked */
    if (rv == 0)
        rv = run_tellers(bank);
    if (rv == 0 && bank->journal != NULL)
        rv = rt_bank_mend(bank);
    if (rv == 0)
        rv = open_tills(bank, tills);
    if (rv == 0)
        rv = count_coins(bank, tills, &bank->after);
    close_tills(tills);
    return rv;
}

/* ---- The scene -------------------------------------------------------------------------- */

/* Begins a transaction, prepares half of it as a process that joined it would, says so, and waits to be killed. */
__attribute__((noreturn)) static void prepare_and_wait(struct rt_bank *bank, pid_t parent, int says)
{
    struct rt_till tills[RT_BANK_SITES] = {0};
    struct rota_txn *t, *joined;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || open_tills(bank, tills) != 0)
        _exit(1);
    struct rota_txns *m = open_manager(bank, 0);
    if (m == NULL || rota_txn_begin(m, NULL, &t) != 0 ||
        rota_txn_join(m, rota_txn_id(t), &joined) != 0 ||
        rota_xa_postgres(joined, rt_bank_names[RT_BANK_LEDGER], tills[RT_BANK_LEDGER].conn, NULL) !=
            0 ||
        !move(&tills[RT_BANK_LEDGER], 0, 50) || rota_txn_vote(joined) != 0)
        _exit(1);
    (void)!write(says, "p", 1);
    for (;;)
        pause();
}

static int kill_prepared(struct rt_bank *bank)
{
    pid_t parent = getpid();
    int says[2];
    char byte;

    if (pipe(says) != 0)
        return fail(bank, "pipe", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(says[0]);
        prepare_and_wait(bank, parent, says[1]);
    }
    close(says[1]);
    bool prepared = pid > 0 && read(says[0], &byte, 1) == 1;
    close(says[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return prepared ? 0 : fail(bank, "teller", "it could not prepare its half");
}

int rt_bank_scene(struct rt_bank *bank, void (*progress)(const char *line))
{
    char line[160];

    int rv = kill_prepared(bank);
    if (rv != 0)
        return rv;
    struct rota_txns *m = open_manager(bank, ROTA_TXN_RECOVER);
    if (m == NULL)
        return ROTA_UNREACHABLE;
    long long n = count_prepared(bank, m);
    snprintf(
        line, sizeof(line),
        "a teller prepared its half at %s and was killed: %lld branch in doubt, its rows are locked",
        rt_bank_names[RT_BANK_LEDGER], n);
    progress(line);
    rv = n > 0 ? wait_clear(bank, m) : n == 0 ? 0 : ROTA_UNREACHABLE;
    rota_txns_close(m);
    if (rv == 0)
        progress(
            "its deadline passed, recovery decided ABORT and rolled it back: nothing is in doubt");
    return rv;
}
