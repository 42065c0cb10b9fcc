/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes in one transaction, as rota_txn.h has it: one began it, the other joins with the id that it was given.
 * On a real PostgreSQL and a real MariaDB and a file journal; each side once at each. */
#include "txn/branch/site.h"

#include "lib/proc.h"

#include <rota_txn.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct rota_txns *m, *there; /* one begins, one joins */
static const struct site *my = &site_mysql, *pg = &site_postgres;
static long long row; /* the next that nobody has used */

#define ID_TEXT 64

static bool is_child; /* it must not go on as the test when something fails */

static void must(bool good, const char *what)
{
    if (!good && is_child) {
        fprintf(stderr, "in the other process: %s\n", what);
        _exit(1);
    }
}

static void said(struct rota_txns *whose, int rv)
{
    must(rv == 0, rota_txn_errmsg(whose));
    if (rv != 0)
        fail_msg("%d: %s", rv, rota_txn_errmsg(whose));
}

static struct rota_txns *manager(void)
{
    struct rota_txns *out = NULL;
    char journal[512], *my_url = my->url(my->port()), *pg_url = pg->url(pg->port());

    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    said(NULL, rota_txns_open(&out, journal, NULL));
    said(out, rota_txns_resource(out, "shop", my_url));
    said(out, rota_txns_resource(out, "ledger", pg_url));
    free(my_url);
    free(pg_url);
    return out;
}

static void insert(const struct site *site, void *conn, long long id)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", id);
    bool good = site->sql(conn, sql);
    must(good, sql);
    assert_true(good);
}

static int branch(struct rota_txn *t, const struct site *site, void *conn, struct rota_branch **out)
{
    return site == my ? rota_xa_mysql(t, "shop", conn, out)
                      : rota_xa_postgres(t, "ledger", conn, out);
}

struct both { /* a transaction with work on both sides */
    const struct site *here_at, *there_at;
    void *here_conn, *there_conn;
    struct rota_txn *here, *joined;
    struct rota_branch *part; /* the joiner's */
};

/* HERE_AT: where the beginner works; the joiner works at the other site. */
static void begin(struct both *b, const struct site *here_at, uint32_t timeout_ms)
{
    struct rota_txn_options opts = {.timeout_ms = timeout_ms};

    *b = (struct both){.here_at = here_at, .there_at = here_at == my ? pg : my};
    b->here_conn = b->here_at->connect(0);
    b->there_conn = b->there_at->connect(0);
    said(m, rota_txn_begin(m, &opts, &b->here));
    said(m, branch(b->here, b->here_at, b->here_conn, NULL));
    insert(b->here_at, b->here_conn, ++row);
}

static void join(struct both *b)
{
    said(there, rota_txn_join(there, rota_txn_id(b->here), &b->joined));
    said(there, branch(b->joined, b->there_at, b->there_conn, &b->part));
    insert(b->there_at, b->there_conn, row);
}

/* All is over: the row is at both, or at none, and nothing is in doubt. */
static void ended(struct both *b, bool committed)
{
    assert_int_equal(has_row(my, row), committed);
    assert_int_equal(has_row(pg, row), committed);
    assert_int_equal(my->prepared(), 0);
    assert_int_equal(pg->prepared(), 0);
    b->here_at->close(b->here_conn);
    b->there_at->close(b->there_conn);
}

static void both_commit(void **state)
{
    const struct site *sites[] = {my, pg};
    struct both b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&b, sites[i], 0);
        join(&b);
        said(there, rota_txn_vote(b.joined));
        assert_int_equal(b.there_at->prepared(), 1);
        assert_int_equal(rota_branch_last(b.part, "SELECT 1", NULL), ROTA_INVALID); /* too late */
        assert_int_equal(rota_branch_fail(b.part), ROTA_INVALID);
        said(m, rota_txn_commit(b.here));
        said(there, rota_txn_commit(b.joined));
        ended(&b, true);
    }
}

/* A branch that only read is there all the same when the process that began it asks. */
static void who_only_read_does_not_abort_it(void **state)
{
    const struct site *sites[] = {my, pg};
    struct both b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&b, sites[i], 0);
        said(there, rota_txn_join(there, rota_txn_id(b.here), &b.joined));
        said(there, branch(b.joined, b.there_at, b.there_conn, NULL));
        said(there, rota_txn_vote(b.joined));
        said(m, rota_txn_commit(b.here));
        said(there, rota_txn_commit(b.joined));
        assert_true(has_row(b.here_at, row));
        insert(b.there_at, b.there_conn, row);
        ended(&b, true);
    }
}

static void a_no_aborts_both(void **state)
{
    const struct site *sites[] = {my, pg};
    struct both b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&b, sites[i], 0);
        join(&b);
        said(there, rota_branch_fail(b.part));
        assert_int_equal(rota_txn_vote(b.joined), ROTA_ABORTED);
        assert_int_equal(rota_txn_commit(b.here), ROTA_ABORTED);
        assert_int_equal(rota_txn_commit(b.joined), ROTA_ABORTED);
        ended(&b, false);
    }
}

static void who_has_not_voted_aborts_it(void **state)
{
    struct both b;

    (void)state;
    begin(&b, pg, 0);
    join(&b);
    assert_int_equal(rota_txn_commit(b.here), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "shop"));
    assert_int_equal(rota_txn_commit(b.joined), ROTA_ABORTED);
    ended(&b, false);
}

static void abort_ends_both(void **state)
{
    struct both b;

    (void)state;
    begin(&b, my, 0); /* the beginner: after a yes */
    join(&b);
    said(there, rota_txn_vote(b.joined));
    said(m, rota_txn_abort(b.here));
    assert_int_equal(rota_txn_commit(b.joined), ROTA_ABORTED);
    ended(&b, false);
    begin(&b, my, 0); /* the joiner: after a yes, too, if nothing stands yet */
    join(&b);
    said(there, rota_txn_vote(b.joined));
    said(there, rota_txn_abort(b.joined));
    assert_int_equal(rota_txn_commit(b.here), ROTA_ABORTED);
    ended(&b, false);
}

static void who_comes_too_late_is_told(void **state)
{
    char id[ID_TEXT];
    struct both b;

    (void)state;
    begin(&b, pg, 0);
    snprintf(id, sizeof(id), "%s", rota_txn_id(b.here));
    said(there, rota_txn_join(there, id, &b.joined));
    said(m, rota_txn_commit(b.here));
    assert_int_equal(branch(b.joined, b.there_at, b.there_conn, NULL), ROTA_ABORTED);
    assert_int_equal(rota_txn_commit(b.joined), ROTA_ABORTED);
    assert_true(has_row(pg, row));
    insert(my, b.there_conn, row); /* its connection is as it was */
    ended(&b, true);
    id[3] ^= 1;
    assert_int_equal(rota_txn_join(there, id, &b.joined), ROTA_INVALID); /* of another journal */
    assert_int_equal(rota_txn_join(there, "none", &b.joined), ROTA_INVALID);
}

static void on_begun(void *arg, int err)
{
    *(int *)arg = err;
}

/* Its manager is closed while a branch begins: over the many rounds, at any moment of that. */
static void closing_while_a_branch_begins(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        const struct site *site = i % 2 == 0 ? my : pg;
        struct rota_txns *own = manager();
        struct rota_txn *here, *t;
        void *conn = site->connect(0);
        int err = -1000;

        said(m, rota_txn_begin(m, NULL, &here));
        said(own, rota_txn_join(own, rota_txn_id(here), &t));
        said(own, site == my ? rota_xa_mysql_async(t, "shop", conn, NULL, on_begun, &err)
                             : rota_xa_postgres_async(t, "ledger", conn, NULL, on_begun, &err));
        for (int k = 0; k < i * i * 4; k++)
            sched_yield();
        rota_txns_close(own);
        assert_true(err == 0 || err == ROTA_ABORTED); /* it was called, and t is gone */
        site->close(conn);
        (void)rota_txn_abort(here);
    }
    assert_int_equal(my->prepared(), 0);
    assert_int_equal(pg->prepared(), 0);
}

/* ---- Other processes, which die ------------------------------------------------------- */

struct child {
    pid_t pid;
    int said; /* what it says is read here */
};

/* WORK in a process of its own, which then sleeps until it is killed. It says one line. */
static struct child spawn(void (*work)(const char *id, int says), const char *id)
{
    struct child c;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        is_child = true;
        close(ends[0]);
        work(id, ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    c.said = ends[0];
    return c;
}

static void hear(struct child *c, char line[ID_TEXT])
{
    size_t n = 0;

    while (n < ID_TEXT - 1 && read(c->said, line + n, 1) == 1 && line[n] != '\n')
        n++;
    assert_true(n > 0 && line[n] == '\n');
    line[n] = '\0';
}

static void murder(struct child *c)
{
    int status;

    assert_int_equal(kill(c->pid, SIGKILL), 0);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    close(c->said);
}

static void say(int says, const char *word)
{
    dprintf(says, "%s\n", word);
}

/* Joins at SITE, inserts, votes yes. */
static void votes_at(const struct site *site, const char *id, int says)
{
    struct rota_txns *own = manager();
    void *conn = site->connect(0);
    struct rota_txn *t;

    bool good = rota_txn_join(own, id, &t) == 0 && branch(t, site, conn, NULL) == 0;
    insert(site, conn, row);
    say(says, good && rota_txn_vote(t) == 0 ? "yes" : rota_txn_errmsg(own));
}

static void votes_at_my(const char *id, int says)
{
    votes_at(my, id, says);
}

static void votes_at_pg(const char *id, int says)
{
    votes_at(pg, id, says);
}

static void who_voted_yes_dies(void **state)
{
    const struct site *sites[] = {my, pg};
    char line[ID_TEXT];
    struct both b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&b, sites[i], 0);
        struct child c = spawn(sites[i] == my ? votes_at_pg : votes_at_my, rota_txn_id(b.here));
        hear(&c, line);
        assert_string_equal(line, "yes");
        murder(&c);
        said(m, rota_txn_commit(b.here)); /* its yes holds: somebody else commits its part */
        while (!has_row(b.there_at, row) || b.there_at->prepared() != 0)
            usleep(20000);
        ended(&b, true);
    }
}

static void begins_at_pg(const char *unused, int says)
{
    struct rota_txn_options opts = {.timeout_ms = 10000}; /* another must join and vote by then */
    struct rota_txns *own = manager();
    void *conn = pg->connect(0);
    struct rota_txn *t;

    (void)unused;
    said(own, rota_txn_begin(own, &opts, &t));
    said(own, branch(t, pg, conn, NULL));
    insert(pg, conn, row);
    say(says, rota_txn_id(t));
}

static void who_began_it_dies(void **state)
{
    void *conn = my->connect(0);
    char id[ID_TEXT];
    struct rota_txn *t;

    (void)state;
    row++;
    struct child c = spawn(begins_at_pg, "");
    hear(&c, id);
    said(there, rota_txn_join(there, id, &t));
    said(there, branch(t, my, conn, NULL));
    insert(my, conn, row);
    said(there, rota_txn_vote(t));
    murder(&c);
    assert_int_equal(my->prepared(), 1);                /* silence is no decision */
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED); /* after the deadline it is */
    assert_false(has_row(my, row));
    assert_int_equal(my->prepared(), 0);
    my->close(conn);
}

static int set_up(void **state)
{
    (void)state;
    setenv("HOME", rt_tmpdir(), 1); /* nobody's resources */
    my->start();
    pg->start();
    m = manager();
    there = manager();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_txns_close(there);
    rota_txns_close(m);
    my->fini();
    pg->fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_commit),
        cmocka_unit_test(who_only_read_does_not_abort_it),
        cmocka_unit_test(a_no_aborts_both),
        cmocka_unit_test(who_has_not_voted_aborts_it),
        cmocka_unit_test(abort_ends_both),
        cmocka_unit_test(who_comes_too_late_is_told),
        cmocka_unit_test(closing_while_a_branch_begins),
        cmocka_unit_test(who_voted_yes_dies),
        cmocka_unit_test(who_began_it_dies),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
