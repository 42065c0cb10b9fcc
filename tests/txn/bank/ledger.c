/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts at three databases, one call at one of them, and the checks. */
#include "ledger.h"

#include "base/bug.h"
#include "lib/proc.h"
#include "txn/manager/manager.h"
#include "txn/point.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct desk *const places[PLACES] = {&desk_mysql, &desk_postgres, &desk_sqlite};
const char *const place_names[PLACES] = {"till", "vault", "safe"};
struct ledger *ledger;

/* ---- The databases ------------------------------------------------------------------------- */

void ledger_open(void)
{
    static const char *const ddl[] = {
        "CREATE TABLE effects (txn VARCHAR(64), branch BIGINT, op INT)",
        "CREATE INDEX effects_of ON effects (txn, branch)",
        "CREATE TABLE account (id INT PRIMARY KEY, balance INT, hold INT, CHECK (balance >= 0))"};
    char sql[80];

    ledger = rt_shared_new(sizeof(*ledger));
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
}

void ledger_close(void)
{
    for (int i = 0; i < PLACES; i++)
        places[i]->site->fini();
    rt_shared_free(ledger, sizeof(*ledger));
}

/* ---- Transfers ------------------------------------------------------------------------------- */

static int draw(unsigned *seed, int below)
{
    return rand_r(seed) % below;
}

struct transfer transfer_new(int from, bool poor, unsigned *seed)
{
    struct transfer t = {.tid = ledger->transfers++};

    if (t.tid >= TRANSFERS)
        abort();
    t.from = from >= 0 ? from : draw(seed, PLACES);
    t.to = (t.from + 1 + draw(seed, PLACES - 1)) % PLACES;
    t.goes = (struct order){t.tid, 1 + draw(seed, ACCOUNTS), -(1 + draw(seed, 5))};
    t.comes = (struct order){t.tid, 1 + draw(seed, ACCOUNTS), -t.goes.amount};
    if (poor)
        t.comes.amount = -BALANCE * 2; /* more than there is */
    ledger->from[t.tid] = 1 + (unsigned)t.from;
    ledger->to[t.tid] = 1 + (unsigned)t.to;
    return t;
}

void transfer_end(const struct transfer *of, struct rota_txn *t, int tried)
{
    int err = tried == 0               ? rota_txn_commit(t)
              : rota_txn_abort(t) == 0 ? ROTA_ABORTED
                                       : ROTA_UNKNOWN;

    ledger->told[of->tid] = err == 0 ? COMMITTED : err == ROTA_ABORTED ? ABORTED : UNKNOWN;
}

/* ---- One call at one place ------------------------------------------------------------------ */

static bool say(int place, void *conn, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool say(int place, void *conn, const char *format, ...)
{
    char sql[400];
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    return places[place]->site->sql(conn, sql);
}

/* The table refuses a balance below 0. */
static bool work(int place, void *conn, const struct rota_call *call, const struct order *o)
{
    int amount = abs(o->amount), balance = 0, hold = call->op == ROTA_OP_TRY ? amount : -amount;

    if (o->amount < 0)
        balance = call->op == ROTA_OP_TRY ? -amount : call->op == ROTA_OP_CANCEL ? amount : 0;
    else
        balance = call->op == ROTA_OP_CONFIRM ? amount : 0;
    return say(place, conn,
               "UPDATE account SET balance = balance + (%d), hold = hold + (%d) WHERE id = %d",
               balance, hold, o->account) &&
           say(place, conn, "INSERT INTO effects VALUES ('%d', %d, %d)", o->tid, place, call->op);
}

static void tell(void (*said)(void *arg, int rv), void *arg, int rv)
{
    if (said != NULL)
        said(arg, rv);
}

int place_serve(int place, void *conn, const struct rota_call *call, const struct order *o,
                void (*said)(void *arg, int rv), void *arg)
{
    enum rota_fenced verdict = 0;
    int rv = ROTA_BUSY;

    if (say(place, conn, "%s", places[place]->begin))
        rv = places[place]->fence(conn, call, &verdict);
    ledger->late_tries += rv == 0 && verdict == ROTA_FENCE_LATE;
    ledger->empty_cancels += rv == 0 && verdict == ROTA_FENCE_EMPTY;
    if (rv == 0 && verdict == ROTA_FENCE_DO && !work(place, conn, call, o))
        rv = call->op == ROTA_OP_TRY ? ROTA_ABORTED : ROTA_BUSY;
    if (rv == 0 && (verdict == ROTA_FENCE_LATE || verdict == ROTA_FENCE_EARLY ||
                    verdict == ROTA_FENCE_CROSSED))
        rv = ROTA_ABORTED;
    if (rv != 0) {
        (void)say(place, conn, "ROLLBACK");
        tell(said, arg, rv);
        return rv;
    }
    bool early = RT_BUG(RT_BUG_SERVICE_ANSWERS_FIRST);
    if (early)
        tell(said, arg, 0);
    rt_point("service-worked");
    if (!say(place, conn, "COMMIT"))
        rv = ROTA_UNKNOWN;
    if (rv == 0)
        rt_point("service-committed");
    if (!early)
        tell(said, arg, rv);
    return rv;
}

void must_die(int (*play)(void *arg, uint32_t timeout_ms), void *arg, const char *what)
{
    for (uint32_t ms = SOON_MS; ms < LIMIT_MS; ms *= 4) {
        int code = play(arg, ms);
        if (code == RT_PROC_SIGNALED + SIGKILL)
            return;
        assert_int_equal(code, 0);
    }
    fail_msg("nobody came by %s", what);
}

/* ---- Healing ---------------------------------------------------------------------------------- */

static void on_undone(void *arg, const struct rt_journal_record *record)
{
    (void)record;
    ++*(long *)arg;
}

static long undone(struct rota_txns *m)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN};
    long count = 0;

    op.scan.before_ms = RT_TXN_BIRTH_MAX;
    op.scan.limit = RT_JOURNAL_PAGE_MAX;
    op.scan.each = on_undone;
    op.scan.arg = &count;
    return rt_txns_ask(m, &op) == 0 ? count : 1;
}

void ledger_heal(struct rota_txns *m)
{
    for (int i = 0; undone(m) > 0; i++) {
        if (i > LIMIT_MS / 20) {
            fprintf(stderr, "the bank does not heal: %ld undone\n", undone(m));
            abort();
        }
        poll(NULL, 0, 20);
    }
}

void ledger_clean_fences(struct rota_txns *m, void *const conns[PLACES])
{
    uint64_t went;

    for (int i = 0; i < PLACES; i++)
        if (!say(i, conns[i], "UPDATE rota_fence SET deadline = deadline - 172800000") ||
            places[i]->clean(m, conns[i], &went) != 0) {
            fprintf(stderr, "%s: %s\n", place_names[i], rota_txn_errmsg(m));
            abort();
        }
}

/* ---- Checks ------------------------------------------------------------------------------------- */

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

long long effects_of(int tid, int place, enum rota_op op)
{
    char sql[160];

    snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM effects WHERE txn = '%d' AND op = %d", tid,
             op);
    return places[place]->site->number(sql);
}

/* Both are confirmed, or none; what was tried was confirmed or cancelled; and all of it is as was told. */
static void check_transfer(int tid)
{
    int from = (int)ledger->from[tid] - 1, to = (int)ledger->to[tid] - 1;

    if (from < 0 || to < 0)
        return; /* it died before it began */
    long long one = effects_of(tid, from, ROTA_OP_CONFIRM);
    long long two = effects_of(tid, to, ROTA_OP_CONFIRM);
    assert_int_equal(one, two);
    assert_int_equal(effects_of(tid, from, ROTA_OP_TRY),
                     one + effects_of(tid, from, ROTA_OP_CANCEL));
    assert_int_equal(effects_of(tid, to, ROTA_OP_TRY), two + effects_of(tid, to, ROTA_OP_CANCEL));
    if (ledger->told[tid] == COMMITTED)
        assert_int_equal(one, 1);
    if (ledger->told[tid] == ABORTED)
        assert_int_equal(one, 0);
}

void ledger_check(void)
{
    static int checked;
    long long sum = 0;

    for (int i = 0; i < PLACES; i++)
        check_place(i, &sum);
    assert_int_equal(sum, (long long)PLACES * ACCOUNTS * BALANCE);
    for (; checked < ledger->transfers; checked++)
        check_transfer(checked);
}

long rounds(long least)
{
    const char *factor = getenv("FACTOR");

    return least * (factor != NULL ? strtol(factor, NULL, 10) : 1);
}
