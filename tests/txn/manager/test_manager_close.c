/* SPDX-License-Identifier: Apache-2.0 */
/* A manager that is closed while something is under way, and connections that cannot be rolled back: nobody is left
 * without an answer, and nothing that was reported as aborted can be committed. On a real PostgreSQL, which is also the
 * journal, and a real MariaDB. */
#include "txn/branch/site.h"

#include "lib/proc.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <rota_txn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct site *my = &site_mysql, *pg = &site_postgres;
static long long row; /* the next that nobody has used */

static void said(struct rota_txns *m, int rv)
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

/* A manager whose journal is behind a door, with a transaction that has work on both. */
struct desk {
    struct rt_proxy *door;
    struct rota_txns *m;
    struct rota_txn *t;
    void *my, *pg;
};

static void desk_open(struct desk *d, uint32_t flags)
{
    struct rt_proxy_options door = {.port = pg->port(), .framing = &rt_proxy_postgres};
    struct rota_txns_options opts = {.flags = flags, .timeout_ms = 3600 * 1000};

    d->door = rt_proxy_start(&door);
    char *url = pg->url(rt_proxy_port(d->door));
    said(NULL, rota_txns_open(&d->m, url, &opts));
    free(url);
    d->my = my->connect(0);
    d->pg = pg->connect(0);
    said(d->m, rota_txn_begin(d->m, NULL, &d->t));
    said(d->m, rota_xa_mysql(d->t, "shop", d->my, NULL));
    said(d->m, rota_xa_postgres(d->t, "ledger", d->pg, NULL));
    insert(my, d->my, ++row);
    insert(pg, d->pg, row);
}

/* From now on the journal is silent. */
static void silence(struct desk *d)
{
    rt_proxy_hold(d->door, RT_PROXY_UP);
    rt_proxy_hold(d->door, RT_PROXY_DOWN);
}

static uint64_t requests(struct desk *d) /* to the journal */
{
    struct rt_proxy_counts counts;

    rt_proxy_counts(d->door, &counts);
    return counts.chunks[RT_PROXY_UP];
}

static void desk_end(struct desk *d)
{
    rt_proxy_stop(d->door);
    my->close(d->my);
    pg->close(d->pg);
}

static void on_end(void *arg, int err)
{
    int *told = arg; /* how often, and what */
    told[0]++;
    told[1] = err;
}

static void closing_calls_back(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= ROTA_TXN_RECOVER; flags += ROTA_TXN_RECOVER) {
        int told[2] = {0, 0};
        struct desk d;

        desk_open(&d, flags);
        silence(&d);
        said(d.m, rota_txn_commit_async(d.t, on_end, told));
        rota_txns_close(d.m);
        assert_int_equal(told[0], 1);
        assert_true(told[1] == ROTA_UNKNOWN ||
                    told[1] == ROTA_ABORTED); /* COMMIT was sent, or not */
        desk_end(&d);
    }
}

struct waiter {
    pthread_t thread;
    struct desk *desk;
    char id[64];
    int err;
    atomic_bool over;
};

static void *commits(void *arg)
{
    struct waiter *w = arg;
    w->err = rota_txn_commit(w->desk->t);
    atomic_store(&w->over, true);
    return NULL;
}

static void *asks(void *arg)
{
    struct waiter *w = arg;
    struct rota_outcome o;
    w->err = rota_txn_outcome(w->desk->m, w->id, &o);
    return NULL;
}

/* Calls that wait in other threads return. */
static void closing_wakes_who_waits(void **state)
{
    struct desk d;
    struct waiter commit = {.desk = &d}, ask = {.desk = &d};
    struct rota_outcome o;

    (void)state;
    desk_open(&d, 0);
    snprintf(ask.id, sizeof(ask.id), "%s", rota_txn_id(d.t));
    said(d.m, rota_txn_outcome(d.m, ask.id, &o)); /* behind what its branches told the journal */
    long before = pg->prepared();
    uint64_t asked = requests(&d);
    silence(&d);
    assert_int_equal(pthread_create(&ask.thread, NULL, asks, &ask), 0);
    while (requests(&d) == asked)
        usleep(1000);
    assert_int_equal(pthread_create(&commit.thread, NULL, commits, &commit), 0);
    while (pg->prepared() == before && !atomic_load(&commit.over)) /* then the journal is asked */
        usleep(1000);
    rota_txns_close(d.m);
    pthread_join(ask.thread, NULL);
    pthread_join(commit.thread, NULL);
    assert_true(ask.err == ROTA_CLOSED || ask.err == ROTA_UNREACHABLE);
    assert_true(commit.err == ROTA_UNKNOWN || commit.err == ROTA_ABORTED);
    desk_end(&d);
}

/* Its function ends the transaction, whatever became of its branch. */
struct starter {
    const struct site *site;
    struct rota_txn *t;
    void *conn;
    int begun[2], ended[2]; /* as of on_end */
    int end, again;         /* what the calls said */
};

static int start(struct starter *s, rota_txn_fn *fn, void *arg)
{
    return s->site == my ? rota_xa_mysql_async(s->t, "shop", s->conn, NULL, fn, arg)
                         : rota_xa_postgres_async(s->t, "ledger", s->conn, NULL, fn, arg);
}

static void end_it(void *arg, int err)
{
    struct starter *s = arg;

    on_end(s->begun, err);
    s->end = rota_txn_abort_async(s->t, on_end, s->ended);
    s->again = s->end == 0 ? ROTA_CLOSED : start(s, on_end, s->ended);
}

/* At any moment of it, over the many rounds. */
static void closing_while_a_branch_begins(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        const struct site *site = i % 2 == 0 ? my : pg;
        struct starter s = {.site = site, .conn = site->connect(0)};
        struct rota_txns *m;
        char journal[300];

        snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
        said(NULL, rota_txns_open(&m, journal, NULL));
        said(m, rota_txn_begin(m, NULL, &s.t));
        said(m, start(&s, end_it, &s));
        usleep(i * i * 3);
        rota_txns_close(m);
        assert_int_equal(s.begun[0], 1);
        assert_true(s.begun[1] == 0 || s.begun[1] == ROTA_ABORTED);
        assert_true(s.end == 0 || s.end == ROTA_CLOSED); /* before it was closed, or not */
        assert_int_equal(s.again, ROTA_CLOSED);
        assert_int_equal(s.ended[0], s.end == 0 ? 1 : 0);
        insert(site, s.conn, ++row); /* the connection is free, and in no transaction */
        assert_true(has_row(site, row));
        site->close(s.conn);
    }
}

/* An answer that the application has not read: nothing can be sent on the connection, not even ROLLBACK. */
static void what_cannot_be_rolled_back_is_cut(void **state)
{
    PGresult *result;
    struct desk d;

    (void)state;
    desk_open(&d, 0);
    assert_int_equal(PQsendQuery(d.pg, "SELECT 1"), 1);
    assert_int_equal(rota_txn_commit(d.t), ROTA_ABORTED);
    while ((result = PQgetResult(d.pg)) != NULL)
        PQclear(result);
    assert_false(pg->sql(d.pg, "COMMIT"));
    assert_false(has_row(pg, row));
    assert_false(has_row(my, row));
    rota_txns_close(d.m);
    desk_end(&d);
}

static void who_votes_is_not_ended_meanwhile(void **state)
{
    int told[2] = {0, 0};
    struct rota_txn *joined;
    struct desk d;

    (void)state;
    desk_open(&d, 0);
    said(d.m, rota_txn_join(d.m, rota_txn_id(d.t), &joined));
    void *conn = pg->connect(0);
    said(d.m, rota_xa_postgres(joined, "ledger", conn, NULL));
    insert(pg, conn, row + 1000000);
    said(d.m, rota_txn_vote_async(joined, on_end, told));
    int rv = rota_txn_commit_async(joined, on_end, told);
    assert_true(rv == 0 || rv == ROTA_INVALID); /* it had voted by then, or not */
    rota_txns_close(d.m);
    assert_int_equal(told[0], rv == 0 ? 2 : 1);
    pg->close(conn);
    desk_end(&d);
}

static void bad_options_are_refused(void **state)
{
    const struct rota_txns_options bad[] = {
        {.timeout_ms = 999}, {.timeout_ms = 24 * 3600 * 1000 + 1}, {.keep_ms = 100000}};
    struct rota_txns *m = NULL;
    char journal[300];

    (void)state;
    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(rota_txns_open(&m, journal, &bad[i]), ROTA_INVALID);
        assert_non_null(strstr(rota_txn_errmsg(NULL), "timeout"));
    }
    assert_null(m);
}

static int set_up(void **state)
{
    (void)state;
    setenv("HOME", rt_tmpdir(), 1); /* nobody's resources */
    my->start();
    pg->start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    my->fini();
    pg->fini();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_calls_back),
        cmocka_unit_test(closing_wakes_who_waits),
        cmocka_unit_test(closing_while_a_branch_begins),
        cmocka_unit_test(what_cannot_be_rolled_back_is_cut),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(who_votes_is_not_ended_meanwhile),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
