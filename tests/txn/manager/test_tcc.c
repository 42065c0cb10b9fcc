/* SPDX-License-Identifier: Apache-2.0 */
/* Services that are functions: tried, confirmed, cancelled, each once, whoever dies and whenever. A service here is a
 * row in memory that processes share, with a fence of its own. */
#include "base/alloc.h"
#include "lib/proc.h"
#include "lib/scarce.h"
#include "txn/manager/inside.h"
#include "txn/manager/manager.h"

#include <errno.h>
#include <rota_txn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ROWS 256
#define BRANCHES 3

struct row { /* of one transaction: what its services have */
    _Atomic int tried[BRANCHES], confirmed[BRANCHES], cancelled[BRANCHES], wrong;
    _Atomic int told; /* 1 + minus what commit or abort returned; 0: nothing */
};

static struct row *rows;       /* shared */
static _Atomic int answers[3]; /* what try, confirm and cancel say, if that is not 0 */
static _Atomic int order[16], ordered, calls;
static int next_row;

struct what { /* a payload */
    int row, branch;
};

static int on_try(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    const struct what *w = payload;
    struct row *r = &rows[w->row];

    (void)arg;
    if (size != sizeof(*w) || call->op != ROTA_OP_TRY || call->branch == 0)
        r->wrong++;
    if (r->cancelled[w->branch] != 0)
        return ROTA_ABORTED; /* late */
    if (answers[0] != 0)
        return answers[0];
    r->tried[w->branch] = 1;
    return 0;
}

static int end(const struct what *w, int op, _Atomic int *done)
{
    atomic_fetch_add(&calls, 1);
    if (answers[op] != 0)
        return answers[op];
    if (done[w->branch] == 0 && ordered < 16)
        order[ordered++] = w->branch;
    done[w->branch] = 1;
    return 0;
}

static int on_confirm(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    const struct what *w = payload;
    struct row *r = &rows[w->row];

    (void)arg;
    if (size != sizeof(*w) || call->op != ROTA_OP_CONFIRM || r->tried[w->branch] == 0 ||
        r->cancelled[w->branch] != 0)
        r->wrong++;
    return end(w, 1, r->confirmed);
}

static int on_cancel(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    const struct what *w = payload;
    struct row *r = &rows[w->row];

    (void)arg;
    if (size != sizeof(*w) || call->op != ROTA_OP_CANCEL || r->confirmed[w->branch] != 0)
        r->wrong++;
    return end(w, 2, r->cancelled);
}

static const struct rota_tcc functions = {on_try, on_confirm, on_cancel};

/* ---- A manager ------------------------------------------------------------------ */

static struct rota_txns *m;
static char url[256];
static _Atomic int noticed;

static void on_attention(void *arg, const char *id, const char *resource, const char *line)
{
    (void)arg;
    (void)id;
    (void)resource;
    (void)line;
    noticed++;
}

static struct rota_txns *open_at(const char *folder, uint32_t flags)
{
    struct rota_txns_options opts = {.flags = flags, .recover_ms = 100, .attention = on_attention};
    struct rota_txns *out = NULL;

    snprintf(url, sizeof(url), "file:%s/%s", rt_tmpdir(), folder);
    if (rota_txns_open(&out, url, &opts) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    return out;
}

static void serve(struct rota_txns *with)
{
    assert_int_equal(rota_tcc_serve(with, "stock", &functions, NULL), 0);
    assert_int_equal(rota_tcc_serve(with, "money", &functions, NULL), 0);
}

static struct rota_txn *begin(uint32_t flags)
{
    struct rota_txn_options opts = {.flags = flags};
    struct rota_txn *t = NULL;

    next_row++;
    assert_true(next_row < ROWS);
    ordered = 0;
    assert_int_equal(rota_txn_begin(m, &opts, &t), 0);
    return t;
}

static int call(struct rota_txn *t, int branch)
{
    struct what w = {next_row, branch};
    return rota_tcc_call(t, branch == 0 ? "stock" : "money", &w, sizeof(w));
}

static void a_while(void)
{
    struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
}

static void on_undone(void *arg, const struct rt_journal_record *record)
{
    (void)record;
    ++*(int *)arg;
}

static int undone(struct rota_txns *with)
{
    int n = 0;
    struct rt_journal_op op = {.kind = RT_JOURNAL_SCAN};

    op.scan.before_ms = INT64_C(1) << 47;
    op.scan.limit = RT_JOURNAL_PAGE_MAX;
    op.scan.each = on_undone;
    op.scan.arg = &n;
    return rt_txns_ask(with, &op) == 0 ? n : -1;
}

static void until_done(struct rota_txns *with)
{
    rt_watchdog(60, "something is undone for ever");
    while (undone(with) != 0)
        a_while();
    rt_watchdog(0, "");
}

static int begin_group(void **state)
{
    (void)state;
    m = open_at("group", 0);
    serve(m);
    return 0;
}

static int end_group(void **state)
{
    (void)state;
    rota_txns_close(m);
    return 0;
}

/* ---- Cases ----------------------------------------------------------------------- */

static void yes_is_confirmed(void **state)
{
    struct rota_txn *t = begin(ROTA_TXN_WAIT);

    (void)state;
    assert_int_equal(call(t, 0), 0);
    assert_int_equal(rows[next_row].tried[0], 1);
    assert_int_equal(call(t, 1), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    struct row *r = &rows[next_row];
    assert_true(r->confirmed[0] == 1 && r->confirmed[1] == 1 && r->wrong == 0);
    assert_true(r->cancelled[0] == 0 && r->cancelled[1] == 0);
    until_done(m);
}

static void no_is_cancelled(void **state)
{
    struct rota_txn *t = begin(0);

    (void)state;
    assert_int_equal(call(t, 0), 0);
    answers[0] = ROTA_ABORTED;
    assert_int_equal(call(t, 1), ROTA_ABORTED);
    answers[0] = 0;
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "money"));
    until_done(m);
    struct row *r = &rows[next_row];
    assert_true(r->cancelled[0] == 1 && r->cancelled[1] == 1 && r->wrong == 0);
    t = begin(0); /* one that fails may have reserved */
    answers[0] = ROTA_UNREACHABLE;
    assert_int_equal(call(t, 0), ROTA_UNKNOWN);
    answers[0] = 0;
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    until_done(m);
    assert_int_equal(rows[next_row].cancelled[0], 1);
    t = begin(0); /* and one changes its mind */
    assert_int_equal(call(t, 0), 0);
    assert_int_equal(rota_txn_abort(t), 0);
    until_done(m);
    assert_int_equal(rows[next_row].cancelled[0], 1);
}

/* A service that does not confirm: committed, and its caller, who waits for that, is told that it is not finished. */
static void waited_for_in_vain(void **state)
{
    struct rota_txn_options opts = {.flags = ROTA_TXN_WAIT, .timeout_ms = 1000};
    struct rota_txn *t = NULL;

    (void)state;
    next_row++;
    assert_int_equal(rota_txn_begin(m, &opts, &t), 0);
    assert_int_equal(call(t, 0), 0);
    answers[1] = ROTA_UNREACHABLE;
    assert_int_equal(rota_txn_commit(t), ROTA_UNFINISHED);
    assert_non_null(strstr(rota_txn_errmsg(m), "committed, but stock is not finished yet: "));
    answers[1] = 0;
    until_done(m);
    assert_int_equal(rows[next_row].confirmed[0], 1);
}

/* A COMMIT that the journal will never have: ABORTED at once, with its reason, and what was tried is cancelled. */
static void refused_by_the_journal(void **state)
{
    struct rota_txn *t = begin(0);

    (void)state;
    assert_int_equal(call(t, 0), 0);
    t->label = rt_strdup("caf\xe9"); /* rota_txn_begin would not take it */
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "the label is not UTF-8"));
    until_done(m);
    assert_int_equal(rows[next_row].cancelled[0], 1);
}

static void one_after_the_other(void **state)
{
    struct rota_txn *t = begin(ROTA_TXN_WAIT | ROTA_TXN_ORDERED);

    (void)state;
    for (int i = 0; i < BRANCHES; i++)
        assert_int_equal(call(t, i), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    for (int i = 0; i < BRANCHES; i++)
        assert_int_equal(order[i], i);
    t = begin(ROTA_TXN_ORDERED);
    for (int i = 0; i < BRANCHES; i++)
        assert_int_equal(call(t, i), 0);
    assert_int_equal(rota_txn_abort(t), 0);
    until_done(m);
    for (int i = 0; i < BRANCHES; i++)
        assert_int_equal(order[i], BRANCHES - 1 - i);
}

static void asked_again(void **state)
{
    struct rota_txn *t = begin(0);

    (void)state;
    assert_int_equal(call(t, 0), 0);
    int before = calls;
    answers[1] = ROTA_UNREACHABLE;
    assert_int_equal(rota_txn_commit(t), 0); /* committed; confirm runs after */
    while (calls < before + 3)
        a_while();
    answers[1] = 0;
    until_done(m);
    assert_int_equal(rows[next_row].confirmed[0], 1);
    t = begin(0); /* refused for good: a person is called */
    assert_int_equal(call(t, 0), 0);
    char id[64];
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    answers[1] = ROTA_ABORTED;
    assert_int_equal(rota_txn_commit(t), 0);
    struct rota_outcome o = {0};
    rt_watchdog(60, "it is not told as stuck");
    while (o.stand != ROTA_STAND_STUCK)
        assert_int_equal(rota_txn_outcome(m, id, &o), 0);
    assert_non_null(strstr(o.why, "confirm"));
    while (noticed == 0)
        a_while();
    rt_watchdog(0, "");
    answers[1] = 0; /* a person has done it, and says so; what waits for 30 s is left to that */
    struct rt_txn_id raw;
    char hex[33];
    snprintf(hex, sizeof(hex), "%.32s", id);
    assert_true(rt_txn_id_read(hex, &raw));
    struct rt_journal_op op = {.kind = RT_JOURNAL_DONE};
    op.finish.ids = &raw;
    op.finish.count = 1;
    assert_int_equal(rt_txns_ask(m, &op), 0);
}

struct told {
    _Atomic int count, err;
};

static void on_told(void *arg, int err)
{
    struct told *told = arg;
    told->err = err != 0 ? err : told->err;
    told->count++;
}

static void without_waiting(void **state)
{
    struct rota_txn *t = begin(ROTA_TXN_WAIT);
    struct told told = {0};

    (void)state;
    for (int i = 0; i < BRANCHES; i++) {
        struct what w = {next_row, i};
        assert_int_equal(rota_tcc_call_async(t, "stock", &w, sizeof(w), on_told, &told), 0);
    }
    int early = rota_txn_commit_async(t, on_told, &told);
    assert_true(early == ROTA_INVALID || early == 0); /* 0: all have been tried */
    for (int i = 0; early == 0 && i < BRANCHES; i++)
        assert_int_equal(rows[next_row].tried[i], 1);
    rt_watchdog(60, "tries are not called back");
    while (told.count < BRANCHES + (early == 0))
        a_while();
    rt_watchdog(0, "");
    if (early != 0)
        assert_int_equal(rota_txn_commit(t), 0);
    until_done(m);
    assert_int_equal(told.err, 0);
    for (int i = 0; i < BRANCHES; i++)
        assert_int_equal(rows[next_row].confirmed[i], 1);
}

static void who_joined_brings_services(void **state)
{
    struct rota_txn *t = begin(ROTA_TXN_WAIT), *j = NULL;

    (void)state;
    assert_int_equal(call(t, 0), 0);
    assert_int_equal(rota_txn_join(m, rota_txn_id(t), &j), 0);
    assert_int_equal(call(j, 1), 0);
    assert_int_equal(rota_txn_vote(j), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    assert_int_equal(rota_txn_commit(j), 0);
    until_done(m);
    assert_true(rows[next_row].confirmed[0] == 1 && rows[next_row].confirmed[1] == 1);
    t = begin(0); /* no vote is a no; the one that began it cancels all */
    assert_int_equal(call(t, 0), 0);
    assert_int_equal(rota_txn_join(m, rota_txn_id(t), &j), 0);
    assert_int_equal(call(j, 1), 0);
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    until_done(m);
    assert_true(rows[next_row].cancelled[0] == 1 && rows[next_row].cancelled[1] == 1);
    assert_int_equal(rota_txn_vote(j), ROTA_ABORTED);
    assert_int_equal(rota_txn_abort(j), 0);
    until_done(m);
}

static void bad_input(void **state)
{
    static char big[40000];
    struct rota_tcc none = {on_try, NULL, on_cancel};
    struct rota_txn *t = begin(0);

    (void)state;
    assert_int_equal(rota_tcc_serve(NULL, "x", &functions, NULL), ROTA_INVALID);
    assert_int_equal(rota_tcc_serve(m, NULL, &functions, NULL), ROTA_INVALID);
    assert_int_equal(rota_tcc_serve(m, "", &functions, NULL), ROTA_INVALID);
    assert_int_equal(rota_tcc_serve(m, "rota:x", &functions, NULL), ROTA_INVALID);
    assert_int_equal(rota_tcc_serve(m, "x", &none, NULL), ROTA_INVALID);
    assert_int_equal(rota_tcc_serve(m, "stock", &functions, NULL), ROTA_INVALID);
    assert_int_equal(rota_tcc_call(NULL, "stock", NULL, 0), ROTA_INVALID);
    assert_int_equal(rota_tcc_call(t, "stock", NULL, 1), ROTA_INVALID);
    assert_int_equal(rota_tcc_call(t, "stock", big, sizeof(big)), ROTA_INVALID);
    assert_int_equal(rota_tcc_call(t, "nobody", big, 1), ROTA_UNSUPPORTED);
    assert_int_equal(rota_tcc_call_async(t, "nobody", big, 1, on_told, NULL), ROTA_UNSUPPORTED);
    assert_int_equal(rota_tcc_call_async(t, "stock", big, 1, NULL, NULL), ROTA_INVALID);
    assert_int_equal(rota_txn_abort(t), 0);
}

/* Left decided by a manager that is closed: one branch is unfinished. */
static void leave_undone(const char *folder, char id[64])
{
    m = open_at(folder, 0);
    serve(m);
    struct rota_txn *t = begin(0);
    assert_int_equal(call(t, 0), 0);
    snprintf(id, 64, "%s", rota_txn_id(t));
    answers[1] = ROTA_UNREACHABLE;
    assert_int_equal(rota_txn_commit(t), 0);
    rota_txns_close(m);
    answers[1] = 0;
}

/* A manager that serves nothing leaves it unfinished; whoever serves it later ends it. */
static void served_later(void **state)
{
    struct rota_txns *before = m;
    char id[64];

    (void)state;
    leave_undone("later", id);
    m = open_at("later", ROTA_TXN_RECOVER);
    noticed = 0;
    rt_watchdog(60, "nobody is told that nobody serves it");
    while (noticed == 0)
        a_while();
    rt_watchdog(0, "");
    assert_int_equal(rows[next_row].confirmed[0], 0);
    serve(m);
    until_done(m);
    assert_int_equal(rows[next_row].confirmed[0], 1);
    rota_txns_close(m);
    m = before;
}

/* Recovery has just adopted it, and the journal has not told it of the branches yet: none of them is finished. */
static void what_is_just_adopted_is_unfinished(void **state)
{
    struct rota_txns *before = m;
    struct rota_outcome o = {0};
    struct rt_txn_id raw;
    char id[64];

    (void)state;
    leave_undone("adopted", id);
    m = open_at("adopted", 0);
    id[32] = '\0';
    assert_true(rt_txn_id_read(id, &raw));
    pthread_mutex_lock(&m->mu);
    struct rota_txn *t = rt_entry_new(m);
    rt_txn_adopt(&t->core, &raw, 0, t->core.branches, t->core.room);
    rt_entry_named(t);
    pthread_mutex_unlock(&m->mu);
    assert_int_equal(rota_txn_outcome(m, id, &o), 0);
    pthread_mutex_lock(&m->mu);
    rt_entry_free(t);
    pthread_mutex_unlock(&m->mu);
    assert_int_equal(o.stand, ROTA_STAND_COMMITTED);
    assert_int_equal(o.branches, 1);
    assert_int_equal(o.unfinished, 1);
    rota_txns_close(m);
    m = before;
}

/* ---- Whoever dies ------------------------------------------------------------------ */

struct death {
    const char *point;
    bool aborts;
};

static const struct death deaths[] = {
    {"register-asked", false}, {"register-begun", false}, {"register-written", false},
    {"tcc-registered", false}, {"tcc-tried", false},      {"decide-asked", false},
    {"decide-begun", false},   {"decide-written", false}, {"decide-answered", false},
    {"tcc-confirmed", false},  {"done-asked", false},     {"tcc-registered", true},
    {"tcc-tried", true},       {"abort-asked", true},     {"abort-written", true},
    {"abort-answered", true},  {"tcc-cancelled", true},   {"done-asked", true},
};
#define DEATHS (sizeof(deaths) / sizeof(deaths[0]))

static int die(int index, void *arg)
{
    char place[64], folder[16];
    struct rota_txn *t = NULL;
    /* All of them die at once: the last one must get to its point before its deadline. */
    struct rota_txn_options opts = {.timeout_ms = 10000, .flags = ROTA_TXN_WAIT};
    /* the second try, the second confirm: one has happened before */
    const char *p = deaths[index].point;
    int k = strncmp(p, "tcc-", 4) == 0 || strncmp(p, "register", 8) == 0 ? 2 : 1;

    (void)arg;
    snprintf(place, sizeof(place), "%s:%d", p, k);
    setenv("ROTA_POINT", place, 1);
    snprintf(folder, sizeof(folder), "death%d", index);
    next_row = 200 + index;
    m = open_at(folder, 0);
    serve(m);
    if (rota_txn_begin(m, &opts, &t) != 0 || call(t, 0) != 0 || call(t, 1) != 0)
        return 1;
    int rv = deaths[index].aborts ? rota_txn_abort(t) : rota_txn_commit(t);
    rows[next_row].told = 1 - rv;
    rota_txns_close(m);
    return 0; /* no point hit */
}

static int recover(int index, void *arg)
{
    char folder[16];

    (void)arg;
    snprintf(folder, sizeof(folder), "death%d", index);
    m = open_at(folder, ROTA_TXN_RECOVER);
    serve(m);
    until_done(m);
    rota_txns_close(m);
    return 0;
}

static void whoever_dies_leaves_nothing(void **state)
{
    pid_t pids[DEATHS];

    (void)state;
#ifndef ROTA_POINTS
    skip();
#endif
    (void)rt_tmpdir();
    for (size_t i = 0; i < DEATHS; i++)
        pids[i] = rt_proc_start(die, (int)i, NULL);
    for (size_t i = 0; i < DEATHS; i++)
        if (rt_proc_wait(pids[i]) != RT_PROC_SIGNALED + 9)
            fail_msg("nobody died at %s", deaths[i].point);
    for (size_t i = 0; i < DEATHS; i++)
        pids[i] = rt_proc_start(recover, (int)i, NULL);
    for (size_t i = 0; i < DEATHS; i++)
        assert_int_equal(rt_proc_wait(pids[i]), 0);
    for (size_t i = 0; i < DEATHS; i++) {
        const struct row *r = &rows[200 + i];
        int tried = r->tried[0] + r->tried[1], confirmed = r->confirmed[0] + r->confirmed[1];
        int cancelled = r->cancelled[0] * r->tried[0] + r->cancelled[1] * r->tried[1];
        if (r->wrong != 0 || (confirmed != 0 && (confirmed != tried || cancelled != 0)) ||
            (confirmed == 0 && cancelled != tried))
            fail_msg("%s: tried %d, confirmed %d, cancelled %d, wrong %d", deaths[i].point, tried,
                     confirmed, cancelled, r->wrong);
        if (deaths[i].aborts && confirmed != 0)
            fail_msg("%s: aborted, and confirmed", deaths[i].point);
    }
}

/* ---- Memory runs out ------------------------------------------------------------------ */

static void one_scarce(void)
{
    struct rota_txn *t = NULL;
    struct what w = {next_row, 0};
    struct told told = {0};

    if (rota_txn_begin(m, NULL, &t) != 0)
        return;
    (void)rota_tcc_call(t, "stock", &w, sizeof(w));
    w.branch = 1;
    int rv = rota_tcc_call_async(t, "money", &w, sizeof(w), on_told, &told);
    rt_watchdog(60, "a try is not called back");
    while (rv == 0 && told.count == 0)
        a_while();
    rv = rota_txn_commit(t);
    rt_watchdog(0, "");
    rows[next_row].told = 1 - rv;
}

static void memory_runs_out(void **state)
{
    bool all = false;

    (void)state;
    rota_txns_close(m); /* the heap is changed: nobody else may use it */
    for (int n = 1; !all && n < 150; n++) {
        scarce_begin();
        m = open_at("scarce", 0);
        serve(m);
        next_row = 100;
        memset(&rows[100], 0, sizeof(rows[100]));
        scarce.asked = 0;
        scarce.fail_at = n;
        one_scarce();
        all = scarce.asked < n;
        scarce.fail_at = 0;
        until_done(m);
        rota_txns_close(m);
        assert_int_equal(scarce.live, 0);
        scarce_end();
        const struct row *r = &rows[100];
        assert_int_equal(r->wrong, 0);
        for (int i = 0; i < 2; i++)
            if (r->tried[i] != 0)
                assert_int_equal(r->told == 1 ? r->confirmed[i] : r->cancelled[i], 1);
    }
    m = NULL;
    assert_true(all);
}

/* ---- Many: test_tcc many N ------------------------------------------------------------ */

static int count_try(void *arg, const struct rota_call *c, const void *payload, size_t size)
{
    (void)arg, (void)c, (void)payload, (void)size;
    atomic_fetch_add(&rows[0].tried[0], 1);
    return 0;
}

static int count_end(void *arg, const struct rota_call *c, const void *payload, size_t size)
{
    (void)arg, (void)payload, (void)size;
    atomic_fetch_add(c->op == ROTA_OP_CANCEL ? &rows[0].cancelled[0] : &rows[0].confirmed[0], 1);
    return 0;
}

static const struct rota_tcc counting = {count_try, count_end, count_end};

#define OPEN_BYTES 2048 /* of memory that one may cost while it is open */

static int open_many(int n, void *arg)
{
    struct told told = {0};
    struct rota_txn_options opts = {.timeout_ms = 5000};

    (void)arg;
    scarce_begin();
    m = open_at("many", 0);
    assert_int_equal(rota_tcc_serve(m, "stock", &counting, NULL), 0);
    assert_int_equal(rota_tcc_serve(m, "money", &counting, NULL), 0);
    size_t before = scarce_held();
    for (int i = 0; i < n; i++) {
        struct rota_txn *t = NULL;
        if (rota_txn_begin(m, &opts, &t) != 0 ||
            rota_tcc_call_async(t, "stock", "16 bytes of load", 16, on_told, &told) != 0 ||
            rota_tcc_call_async(t, "money", "16 bytes of load", 16, on_told, &told) != 0)
            return 1;
        while (told.count < 2 * i - 1000)
            a_while();
    }
    while (told.count < 2 * n)
        a_while();
    size_t each = (scarce_held() - before) / (size_t)n;
    printf("%d open ones of two services: %zu bytes of memory each\n", n, each);
    fflush(stdout);
    _exit(told.err != 0 ? 2 : each >= OPEN_BYTES ? 3 : 0); /* as if killed */
}

static int recover_many(int n, void *arg)
{
    struct timespec from, to;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &from);
    m = open_at("many", ROTA_TXN_RECOVER);
    assert_int_equal(rota_tcc_serve(m, "stock", &counting, NULL), 0);
    assert_int_equal(rota_tcc_serve(m, "money", &counting, NULL), 0);
    while (undone(m) != 0) {
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%d recovered in %.1f s\n", n,
           (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    fflush(stdout);
    rota_txns_close(m);
    return 0;
}

/* ---- More than a journal keeps ---------------------------------------------------- */

static struct rota_txns *open_large(const char *journal)
{
    if (strncmp(journal, "file", 4) == 0)
        return open_at("large", 0);
    if (rota_txns_open(&m, journal, NULL) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    return m;
}

/* A COMMIT whose list is too long is ABORTED, with the reason, and all tries are cancelled; nothing waits for ever. */
static void too_many_names(void **state)
{
    char name[RT_JOURNAL_NAME_MAX + 1];
    struct rota_txn *t = NULL;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(rota_tcc_serve(m, name, &counting, NULL), 0);
    assert_int_equal(rota_txn_begin(m, &(struct rota_txn_options){.flags = 0}, &t), 0);
    int tried = rows[0].tried[0], cancelled = rows[0].cancelled[0];
    for (int i = 0; i < 250; i++)
        assert_int_equal(rota_tcc_call(t, name, "x", 1), 0);
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "64 KB"));
    while (rows[0].cancelled[0] < cancelled + 250 || undone(m) != 0)
        a_while();
    assert_int_equal(rows[0].tried[0], tried + 250);
    assert_int_equal(rows[0].confirmed[0], 0);
}

/* etcd keeps 512 KB of what is registered: the call that is too much says so, and the others are cancelled. */
static void too_many_bytes(void **state)
{
    static char bytes[32000];
    struct rota_txn *t = NULL;
    int rv = 0, made = 0, cancelled = rows[0].cancelled[0];

    (void)state;
    assert_int_equal(rota_tcc_serve(m, "large", &counting, NULL), 0);
    assert_int_equal(rota_txn_begin(m, &(struct rota_txn_options){.flags = 0}, &t), 0);
    while (rv == 0 && made < 40)
        if ((rv = rota_tcc_call(t, "large", bytes, sizeof(bytes))) == 0)
            made++;
    if (strncmp(url, "etcd", 4) == 0) {
        assert_int_equal(made, 16);
        assert_int_equal(rv, ROTA_ABORTED);
        assert_non_null(strstr(rota_txn_errmsg(m), "512 KB"));
        assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
        assert_non_null(strstr(rota_txn_errmsg(m), "512 KB"));
        while (rows[0].cancelled[0] < cancelled + made || undone(m) != 0)
            a_while();
    } else {
        assert_int_equal(rv, 0);
        rota_txn_abort(t);
    }
}

static int large(const char *journal)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(too_many_names),
                                       cmocka_unit_test(too_many_bytes)};
    rt_watchdog(100, "a transaction that is too large hangs");
    m = open_large(journal);
    if (strncmp(journal, "file", 4) != 0)
        snprintf(url, sizeof(url), "%s", journal);
    int failed = cmocka_run_group_tests_name("too large", tests, NULL, NULL);
    rota_txns_close(m);
    return failed;
}

static int many(int n)
{
    (void)rt_tmpdir();
    int rv = rt_proc_wait(rt_proc_start(open_many, n, NULL));
    if (rv == 0)
        rv = rt_proc_wait(rt_proc_start(recover_many, n, NULL));
    printf("tried %d, cancelled %d, confirmed %d\n", rows[0].tried[0], rows[0].cancelled[0],
           rows[0].confirmed[0]);
    bool all = rows[0].tried[0] == 2 * n && rows[0].cancelled[0] >= 2 * n;
    return rv != 0 || !all || rows[0].confirmed[0] != 0;
}

int main(int argc, char **argv)
{
    rows = rt_shared_new(ROWS * sizeof(*rows));
    if (argc == 3 && strcmp(argv[1], "many") == 0)
        return many(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "large") == 0)
        return large(argv[2]);
    const struct CMUnitTest first[] = {cmocka_unit_test(whoever_dies_leaves_nothing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yes_is_confirmed),
        cmocka_unit_test(no_is_cancelled),
        cmocka_unit_test(waited_for_in_vain),
        cmocka_unit_test(refused_by_the_journal),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(asked_again),
        cmocka_unit_test(without_waiting),
        cmocka_unit_test(who_joined_brings_services),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(served_later),
        cmocka_unit_test(what_is_just_adopted_is_unfinished),
        cmocka_unit_test(memory_runs_out),
    };
    int failed = cmocka_run_group_tests_name("deaths", first, NULL,
                                             NULL); /* before there are threads */
    return failed + cmocka_run_group_tests_name("services", tests, begin_group, end_group);
}
