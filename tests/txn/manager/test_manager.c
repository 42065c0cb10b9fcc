/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of rota_txn.h, on a real PostgreSQL and a real MariaDB and a file journal. */
#include "txn/branch/site.h"

#include "lib/proc.h"

#include <poll.h>
#include <pthread.h>
#include <rota_txn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct rota_txns *m;
static const struct site *my = &site_mysql, *pg = &site_postgres;
static long long row; /* the next that nobody has used */

struct pair { /* a connection to each */
    void *my, *pg;
};

static struct pair pair_open(void)
{
    return (struct pair){my->connect(0), pg->connect(0)};
}

static void pair_close(struct pair *p)
{
    my->close(p->my);
    pg->close(p->pg);
}

static const char *journal_in(const char *folder)
{
    static char url[512];

    snprintf(url, sizeof(url), "file:%s/%s", rt_tmpdir(), folder);
    return url;
}

static const char *pg_url(void)
{
    static char url[80];

    snprintf(url, sizeof(url), "postgres://postgres@127.0.0.1:%u/postgres", (unsigned)pg->port());
    return url;
}

static void said(int rv)
{
    if (rv != 0)
        fail_msg("%d: %s", rv, rota_txn_errmsg(m));
}

static void insert(const struct site *site, void *conn, long long id)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", id);
    assert_true(site->sql(conn, sql));
}

/* A transaction with a branch at each, and a row ID in both. */
static struct rota_txn *both(struct pair *p, long long id, const struct rota_txn_options *opts,
                             struct rota_branch **at_my)
{
    struct rota_txn *t;

    said(rota_txn_begin(m, opts, &t));
    said(rota_xa_mysql(t, "shop", p->my, at_my));
    said(rota_xa_postgres(t, "ledger", p->pg, NULL));
    insert(my, p->my, id);
    insert(pg, p->pg, id);
    return t;
}

static void is_at_both(long long id, bool there)
{
    assert_int_equal(has_row(my, id), there);
    assert_int_equal(has_row(pg, id), there);
}

static void nothing_prepared(void)
{
    assert_int_equal(my->prepared(), 0);
    assert_int_equal(pg->prepared(), 0);
}

static void commits_both(void **state)
{
    struct pair p = pair_open();

    (void)state;
    for (int i = 0; i < 3; i++) { /* the connections are used again */
        said(rota_txn_commit(both(&p, ++row, NULL, NULL)));
        is_at_both(row, true);
    }
    nothing_prepared();
    pair_close(&p);
}

static void aborts_both(void **state)
{
    struct pair p = pair_open();

    (void)state;
    said(rota_txn_abort(both(&p, ++row, NULL, NULL)));
    is_at_both(row, false);
    said(rota_txn_commit(both(&p, row, NULL, NULL)));
    is_at_both(row, true);
    pair_close(&p);
}

static void a_failed_branch_votes_no(void **state)
{
    struct pair p = pair_open();
    struct rota_branch *b;
    struct rota_txn *t = both(&p, ++row, NULL, &b);

    (void)state;
    said(rota_branch_fail(b));
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "shop"));
    is_at_both(row, false);
    nothing_prepared();
    said(rota_txn_commit(both(&p, ++row, NULL, NULL))); /* the connections are as they were */
    pair_close(&p);
}

/* A statement that fails in PostgreSQL: PREPARE TRANSACTION answers ROLLBACK, without an error. */
static void a_failed_statement_votes_no(void **state)
{
    struct pair p = pair_open();
    struct rota_txn *t = both(&p, ++row, NULL, NULL);

    (void)state;
    assert_false(pg->sql(p.pg, "INSERT INTO nowhere VALUES (1)"));
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "ledger"));
    is_at_both(row, false);
    nothing_prepared();
    pair_close(&p);
}

/* A branch at each, with a row ID of its own at MariaDB; both leave something to the vote. */
static struct rota_txn *both_last(struct pair *p, long long id, const char *table, const char *more,
                                  uint64_t *changed)
{
    struct rota_branch *shop, *ledger;
    struct rota_txn *t;
    char sql[80];

    said(rota_txn_begin(m, NULL, &t));
    said(rota_xa_mysql(t, "shop", p->my, &shop));
    said(rota_xa_postgres(t, "ledger", p->pg, &ledger));
    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", id);
    said(rota_branch_last(shop, sql, &changed[0]));
    snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (%lld)%s", table, id, more);
    said(rota_branch_last(ledger, sql, &changed[1]));
    memset(sql, 'x', sizeof(sql)); /* it was copied */
    is_at_both(id, false);
    return t;
}

static void last_statements_are_run_by_the_commit(void **state)
{
    struct pair p = pair_open();
    uint64_t changed[2] = {77, 77};
    struct rota_branch *b;
    struct rota_txn *t;

    (void)state;
    said(rota_txn_commit(both_last(&p, ++row, "work", ", (-1), (-2)", changed)));
    is_at_both(row, true);
    assert_int_equal(changed[0], 1);
    assert_int_equal(changed[1], 3);
    said(rota_txn_begin(m, NULL, &t)); /* in one phase */
    said(rota_xa_postgres(t, "ledger", p.pg, &b));
    said(rota_branch_last(b, "DELETE FROM work WHERE id < 0", &changed[0]));
    said(rota_txn_commit(t));
    assert_int_equal(changed[0], 2);
    nothing_prepared();
    pair_close(&p);
}

static void a_last_statement_that_fails_aborts(void **state)
{
    struct pair p = pair_open();
    uint64_t changed[2] = {77, 77};

    (void)state;
    struct rota_txn *t = both_last(&p, ++row, "nowhere", "", changed);
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "ledger"));
    assert_non_null(strstr(rota_txn_errmsg(m), "nowhere"));
    assert_true(changed[1] == UINT64_MAX);
    is_at_both(row, false);
    nothing_prepared();
    said(rota_txn_abort(both_last(&p, row, "work", "", changed))); /* never run */
    is_at_both(row, false);
    said(rota_txn_commit(both(&p, row, NULL, NULL))); /* the connections are as they were */
    pair_close(&p);
}

/* The server works on it for longer than anybody waits (call_ms, which all that is answered must meet). Once all is
 * reported as over, it must not go on to prepare. */
static void a_vote_that_comes_too_late_prepares_nothing(void **state)
{
    struct rota_txns *before = m;
    struct pair p = pair_open();
    void *other = pg->connect(0);
    uint64_t changed[2];
    struct rota_outcome o;
    char id[64];

    (void)state;
    said(rota_txns_open(&m, journal_in("late"), NULL));
    said(rota_txns_resource(m, "ledger", pg_url()));
    assert_true(pg->sql(other, "BEGIN"));
    insert(pg, other, ++row);
    struct rota_txn *t = both_last(&p, row, "work", "", changed);
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    for (o.unfinished = 2; o.unfinished > 0; poll(NULL, 0, 10))
        said(rota_txn_outcome(m, id, &o));
    assert_int_equal(o.stand, ROTA_STAND_ABORTED);
    assert_true(pg->sql(other, "ROLLBACK")); /* now it goes on */
    while (pg->number("SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE "
                      "'%PREPARE TRANSACTION%' AND pid <> pg_backend_pid()") > 0)
        poll(NULL, 0, 10);
    nothing_prepared();
    is_at_both(row, false);
    rota_txns_close(m);
    m = before;
    pg->close(other);
    pair_close(&p);
}

static void count_calls(void *arg, const char *id, const char *resource, const char *line)
{
    (void)id;
    (void)resource;
    (void)line;
    ++*(int *)arg;
}

/* The application itself has seen its connection end: nothing of the branch stays, and there is nothing a person could
 * do. */
static void a_connection_that_has_ended_calls_nobody(void **state)
{
    int calls = 0;
    struct rota_txns_options watched = {.attention = count_calls, .attention_arg = &calls};
    struct rota_txns *before = m;

    (void)state;
    said(rota_txns_open(&m, journal_in("ended"), &watched));
    said(rota_txns_resource(m, "ledger", pg_url()));
    for (int i = 0; i < 4; i++) {
        const struct site *site = i < 2 ? my : pg;
        struct pair p = pair_open();
        struct rota_txn *t = both(&p, ++row, NULL, NULL);
        site->kill_connection(i < 2 ? p.my : p.pg);
        while (site->sql(i < 2 ? p.my : p.pg, "SELECT 1"))
            poll(NULL, 0, 10);
        if (i % 2 == 0) {
            said(rota_txn_abort(t));
        } else {
            assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
            assert_non_null(strstr(rota_txn_errmsg(m), "not connected"));
        }
        is_at_both(row, false);
        pair_close(&p);
    }
    rota_txns_close(m);
    m = before;
    assert_int_equal(calls, 0);
    nothing_prepared();
}

static void what_is_no_last_statement(void **state)
{
    struct pair p = pair_open();
    struct rota_branch *b;
    struct rota_txn *t = both(&p, ++row, NULL, &b);

    (void)state;
    assert_int_equal(rota_branch_last(NULL, "SELECT 1", NULL), ROTA_INVALID);
    assert_int_equal(rota_branch_last(b, NULL, NULL), ROTA_INVALID);
    assert_int_equal(rota_branch_last(b, " ;\n", NULL), ROTA_INVALID);
    said(rota_branch_last(b, "SELECT 1", NULL));
    assert_int_equal(rota_branch_last(b, "SELECT 1", NULL), ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(m), "already"));
    said(rota_txn_commit(t));
    is_at_both(row, true);
    pair_close(&p);
}

static void one_branch_needs_no_journal(void **state)
{
    struct pair p = pair_open();
    struct rota_txn *t;

    (void)state;
    said(rota_txn_begin(m, NULL, &t));
    said(rota_xa_postgres(t, "ledger", p.pg, NULL));
    insert(pg, p.pg, ++row);
    said(rota_txn_commit(t));
    assert_true(has_row(pg, row));
    said(rota_txn_begin(m, NULL, &t));
    said(rota_xa_mysql(t, "shop", p.my, NULL));
    insert(my, p.my, row);
    said(rota_txn_commit(t));
    assert_true(has_row(my, row));
    pair_close(&p);
}

static void none_is_committed_too(void **state)
{
    struct rota_txn *t;

    (void)state;
    said(rota_txn_begin(m, NULL, &t));
    said(rota_txn_commit(t));
    said(rota_txn_begin(m, NULL, &t));
    said(rota_txn_abort(t));
}

static void outcomes_are_told(void **state)
{
    struct rota_txn_options wait = {.flags = ROTA_TXN_WAIT, .label = "for the test"};
    struct pair p = pair_open();
    struct rota_txn *t = both(&p, ++row, &wait, NULL);
    struct rota_outcome o;
    char id[64];

    (void)state;
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    said(rota_txn_outcome(m, id, &o));
    assert_int_equal(o.stand, ROTA_STAND_OPEN);
    said(rota_txn_commit(t));
    said(rota_txn_outcome(m, id, &o));
    assert_int_equal(o.stand, ROTA_STAND_COMMITTED);
    assert_int_equal(o.branches, 2);
    assert_int_equal(o.unfinished, 0);
    id[32] = '\0'; /* the digits alone will do */
    said(rota_txn_settle(m, id, &o));
    assert_int_equal(o.stand, ROTA_STAND_COMMITTED);

    t = both(&p, ++row, NULL, NULL);
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    said(rota_txn_settle(m, id, &o));
    assert_int_equal(o.stand, ROTA_STAND_ABORTED);
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED); /* it came second, and is told */
    is_at_both(row, false);
    nothing_prepared();
    assert_int_equal(rota_txn_outcome(m, "0123", &o), ROTA_INVALID);
    assert_int_equal(rota_txn_outcome(m, "0123456789abcdef0123456789abcdef", &o), ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(m), "another journal"));
    pair_close(&p);
}

static void bad_input_loses_nothing(void **state)
{
    static const char *const odd[] = {" shop ",       "a\nb",   "a=b", "#x",
                                      "on_attention", "rota:x", "\xe4"};
    struct pair p = pair_open();
    struct rota_txn *t;

    (void)state;
    assert_int_equal(rota_txn_begin(m, &(struct rota_txn_options){.label = "caf\xe9"}, &t),
                     ROTA_INVALID);
    assert_non_null(strstr(rota_txn_errmsg(m), "UTF-8"));
    said(rota_txn_begin(m, NULL, &t));
    assert_int_equal(rota_xa_postgres(t, "", p.pg, NULL), ROTA_INVALID);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        if (rota_xa_postgres(t, odd[i], p.pg, NULL) != ROTA_INVALID)
            fail_msg("'%s' is the name of a resource", odd[i]);
        assert_non_null(strstr(rota_txn_errmsg(m), "the name of a resource"));
        assert_int_equal(rota_txns_resource(m, odd[i], pg_url()), ROTA_INVALID);
    }
    assert_int_equal(rota_xa_postgres(t, "ledger", NULL, NULL), ROTA_INVALID);
    assert_true(pg->sql(p.pg, "BEGIN"));
    assert_int_equal(rota_xa_postgres(t, "ledger", p.pg, NULL), ROTA_INVALID);
    assert_true(pg->sql(p.pg, "ROLLBACK"));
    said(rota_xa_postgres(t, "ledger", p.pg, NULL));
    assert_int_equal(rota_xa_postgres(t, "ledger", p.pg, NULL), ROTA_INVALID); /* it has one */
    assert_non_null(strstr(rota_txn_errmsg(m), "branch already"));
    insert(pg, p.pg, ++row);
    said(rota_txn_commit(t));
    assert_true(has_row(pg, row));
    struct rota_txn_options strange = {.flags = 0x80};
    assert_int_equal(rota_txn_begin(m, &strange, &t), ROTA_INVALID);
    pair_close(&p);
}

struct news {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    int err, calls;
};

static void on_end(void *arg, int err)
{
    struct news *n = arg;

    pthread_mutex_lock(&n->mu);
    n->err = err;
    n->calls++;
    pthread_cond_signal(&n->cond);
    pthread_mutex_unlock(&n->mu);
}

static int await(struct news *n)
{
    pthread_mutex_lock(&n->mu);
    while (n->calls == 0)
        pthread_cond_wait(&n->cond, &n->mu);
    n->calls--;
    int err = n->err;
    pthread_mutex_unlock(&n->mu);
    return err;
}

static void commits_without_waiting(void **state)
{
    struct news n = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, -100, 0};
    struct pair p = pair_open();

    (void)state;
    said(rota_txn_commit_async(both(&p, ++row, NULL, NULL), on_end, &n));
    assert_int_equal(await(&n), 0);
    is_at_both(row, true);
    pair_close(&p);
}

static void begins_without_waiting(void **state)
{
    struct news n = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, -100, 0};
    struct pair p = pair_open();
    struct rota_branch *at_my = NULL, *at_pg = NULL;
    struct rota_txn *t;

    (void)state;
    said(rota_txn_begin(m, NULL, &t));
    said(rota_xa_mysql_async(t, "shop", p.my, &at_my, on_end, &n));
    assert_int_equal(await(&n), 0);
    said(rota_xa_postgres_async(t, "ledger", p.pg, &at_pg, on_end, &n));
    assert_int_equal(await(&n), 0);
    assert_non_null(at_my);
    assert_non_null(at_pg);
    insert(my, p.my, ++row);
    insert(pg, p.pg, row);
    said(rota_txn_commit(t));
    is_at_both(row, true);

    said(rota_txn_begin(m, NULL, &t));
    assert_true(pg->sql(p.pg, "BEGIN"));
    said(rota_xa_postgres_async(t, "ledger", p.pg, NULL, on_end, &n));
    assert_int_equal(await(&n), ROTA_INVALID); /* it is in a transaction */
    assert_true(pg->sql(p.pg, "ROLLBACK"));
    said(rota_xa_postgres_async(t, "ledger", p.pg, NULL, on_end, &n));
    assert_int_equal(await(&n), 0);
    said(rota_txn_abort(t));
    pair_close(&p);
}

/* Another manager on the same journal, as another process would have. It joins by ID and inserts ID2 at PostgreSQL. */
static struct rota_txn *join_with(struct rota_txns *other, const char *id, void *conn,
                                  long long id2)
{
    struct rota_txn *t;

    if (rota_txn_join(other, id, &t) != 0 || rota_xa_postgres(t, "ledger", conn, NULL) != 0)
        fail_msg("%s", rota_txn_errmsg(other));
    insert(pg, conn, id2);
    return t;
}

struct end {
    pthread_t thread;
    struct rota_txn *t;
    int err;
};

static void *end(void *arg)
{
    struct end *e = arg;
    e->err = rota_txn_commit(e->t);
    return NULL;
}

static void others_join(void **state)
{
    struct pair p = pair_open(), q = pair_open();
    struct rota_txns *other;

    (void)state;
    said(rota_txns_open(&other, journal_in("journal"), NULL));
    said(rota_txns_resource(m, "ledger", pg_url()));
    for (int vote = 0; vote < 2; vote++) {
        struct rota_txn *t;
        said(rota_txn_begin(m, NULL, &t));
        said(rota_xa_mysql(t, "shop", p.my, NULL));
        insert(my, p.my, ++row);
        struct end e = {.t = join_with(other, rota_txn_id(t), q.pg, row)};
        if (vote == 0) { /* it has not voted: that is a no */
            assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
            (void)rota_txn_vote(e.t); /* yes, and too late */
            assert_int_equal(rota_txn_commit(e.t), ROTA_ABORTED);
            is_at_both(row, false);
            continue;
        }
        assert_int_equal(rota_txn_vote(e.t), 0);
        assert_int_equal(pthread_create(&e.thread, NULL, end, &e), 0);
        said(rota_txn_commit(t));
        pthread_join(e.thread, NULL);
        assert_int_equal(e.err, 0);
        is_at_both(row, true);
    }
    assert_int_equal(rota_txn_join(other, NULL, &(struct rota_txn *){NULL}), ROTA_INVALID);
    rota_txns_close(other);
    nothing_prepared();
    pair_close(&p);
    pair_close(&q);
}

static void closing_aborts_what_is_open(void **state)
{
    struct pair p = pair_open();
    struct rota_txns *before = m;

    (void)state;
    m = NULL;
    said(rota_txns_open(&m, journal_in("closing"), NULL));
    (void)both(&p, ++row, NULL, NULL);
    rota_txns_close(m);
    m = before;
    is_at_both(row, false);
    nothing_prepared();
    pair_close(&p);
}

static void a_child_is_told_so(void **state)
{
    struct rota_txn *t;

    (void)state;
    said(rota_txn_begin(m, NULL, &t));
    pid_t child = fork();
    if (child == 0) {
        struct rota_txn *other;
        bool good = rota_txn_commit(t) == ROTA_FORKED &&
                    rota_txn_begin(m, NULL, &other) == ROTA_FORKED;
        rota_txns_close(m);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    said(rota_txn_commit(t));
}

struct teller {
    pthread_t thread;
    long long first;
    int failed;
};

#define TELLERS 8
#define TRANSFERS 20

static void *transfer(void *arg)
{
    struct teller *self = arg;
    struct pair p = pair_open();

    for (int i = 0; i < TRANSFERS; i++)
        self->failed += rota_txn_commit(both(&p, self->first + i, NULL, NULL)) != 0;
    pair_close(&p);
    return NULL;
}

static void many_at_once(void **state)
{
    struct teller tellers[TELLERS];

    (void)state;
    for (int i = 0; i < TELLERS; i++) {
        tellers[i] = (struct teller){.first = row + 1 + i * TRANSFERS};
        assert_int_equal(pthread_create(&tellers[i].thread, NULL, transfer, &tellers[i]), 0);
    }
    for (int i = 0; i < TELLERS; i++) {
        pthread_join(tellers[i].thread, NULL);
        assert_int_equal(tellers[i].failed, 0);
    }
    for (int i = 1; i <= TELLERS * TRANSFERS; i++)
        is_at_both(row + i, true);
    row += TELLERS * TRANSFERS;
    nothing_prepared();
}

/* ---- Journals that do not take it ------------------------------------------------------------- */

/* Another manager in place of M, at a journal in PostgreSQL. */
static struct rota_txns *at_postgres(const char *user, const struct rota_txns_options *opts)
{
    struct rota_txns *before = m;
    char url[80];

    snprintf(url, sizeof(url), "postgres://%s@127.0.0.1:%u/postgres", user, (unsigned)pg->port());
    int rv = rota_txns_open(&m, url, opts);
    if (rv != 0)
        fail_msg("%s: %s", url, rota_txn_errmsg(NULL));
    return before;
}

static int64_t wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void drop_journal(struct rota_txns *before)
{
    rota_txns_close(m);
    m = before;
    pg->admin("DROP TABLE rota_txn, rota_txn_branch, rota_txn_meta, rota_txn_resource");
}

/* Whoever is refused by a floor in the future is told so, not that it is old. */
static void a_floor_ahead_of_the_clock(void **state)
{
    struct pair p = pair_open();
    struct rota_txns *before = at_postgres("postgres", NULL);

    (void)state;
    pg->admin("UPDATE rota_txn_meta SET n = 4102444800000 WHERE k = 'floor'"); /* the year 2100 */
    assert_int_equal(rota_txn_commit(both(&p, ++row, NULL, NULL)), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "floor is ahead of this clock"));
    assert_non_null(strstr(rota_txn_errmsg(m), "rota txn doctor"));
    is_at_both(row, false);
    pg->admin("UPDATE rota_txn_meta SET n = 1 WHERE k = 'floor'");
    struct rota_txn *t = both(&p, ++row, NULL, NULL);
    for (int64_t begun = wall_ms(); wall_ms() <= begun;)
        ; /* so that the floor is above its birth, and not ahead of the clock */
    pg->admin(
        "UPDATE rota_txn_meta SET n = floor(date_part('epoch', clock_timestamp()) * 1000) WHERE k = 'floor'");
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_null(strstr(rota_txn_errmsg(m), "ahead"));
    assert_non_null(strstr(rota_txn_errmsg(m), "keep_ms"));
    nothing_prepared();
    drop_journal(before);
    pair_close(&p);
}

static char refusal[256]; /* the first line of the log that says it */

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    if (strstr(line, "permission denied") != NULL && refusal[0] == '\0')
        snprintf(refusal, sizeof(refusal), "%s", line);
}

/* The journal's refusal reaches whoever waits, and the log; once the right is there, the keeper ends it. */
static void a_journal_that_may_not_be_written(void **state)
{
    struct pair p = pair_open();
    struct rota_txns_options opts = {.log = on_log};
    /* The votes must be there by then. */
    struct rota_txn_options soon = {.timeout_ms = 6000};
    struct rota_txns *before = at_postgres("postgres", NULL); /* makes the tables */
    char *my_url = my->url(0), *at_pg = pg->url(0), id[64];
    struct rota_outcome o = {.stand = ROTA_STAND_OPEN};

    (void)state;
    rota_txns_close(m);
    pg->admin("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    (void)at_postgres("reader", &opts);
    said(rota_txns_resource(m, "shop", my_url));
    said(rota_txns_resource(m, "ledger", at_pg));
    struct rota_txn *t = both(&p, ++row, &soon, NULL);
    snprintf(id, sizeof(id), "%s", rota_txn_id(t));
    assert_int_equal(rota_txn_commit(t), ROTA_UNKNOWN);
    assert_non_null(strstr(rota_txn_errmsg(m), "permission denied"));
    assert_non_null(strstr(rota_txn_errmsg(m), "rota_txn_outcome"));
    assert_non_null(strstr(refusal, "permission denied"));
    pg->admin("GRANT ALL ON ALL TABLES IN SCHEMA public TO reader");
    for (; o.stand == ROTA_STAND_OPEN || o.unfinished > 0; poll(NULL, 0, 10))
        said(rota_txn_outcome(m, id, &o));
    is_at_both(row, o.stand == ROTA_STAND_COMMITTED);
    drop_journal(before);
    pg->admin("DROP OWNED BY reader; DROP ROLE reader");
    free(my_url);
    free(at_pg);
    pair_close(&p);
}

static int set_up(void **state)
{
    (void)state;
    setenv("HOME", rt_tmpdir(), 1); /* nobody's resources */
    my->start();
    pg->start();
    int rv = rota_txns_open(&m, journal_in("journal"), NULL);
    if (rv != 0)
        fprintf(stderr, "rota_txns_open: %s\n", rota_txn_errmsg(NULL));
    return rv;
}

static int tear_down(void **state)
{
    (void)state;
    rota_txns_close(m);
    my->fini();
    pg->fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits_both),
        cmocka_unit_test(aborts_both),
        cmocka_unit_test(a_failed_branch_votes_no),
        cmocka_unit_test(a_failed_statement_votes_no),
        cmocka_unit_test(last_statements_are_run_by_the_commit),
        cmocka_unit_test(a_last_statement_that_fails_aborts),
        cmocka_unit_test(a_vote_that_comes_too_late_prepares_nothing),
        cmocka_unit_test(a_connection_that_has_ended_calls_nobody),
        cmocka_unit_test(what_is_no_last_statement),
        cmocka_unit_test(one_branch_needs_no_journal),
        cmocka_unit_test(none_is_committed_too),
        cmocka_unit_test(outcomes_are_told),
        cmocka_unit_test(bad_input_loses_nothing),
        cmocka_unit_test(commits_without_waiting),
        cmocka_unit_test(begins_without_waiting),
        cmocka_unit_test(others_join),
        cmocka_unit_test(closing_aborts_what_is_open),
        cmocka_unit_test(a_child_is_told_so),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(a_floor_ahead_of_the_clock),
        cmocka_unit_test(a_journal_that_may_not_be_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
