/* SPDX-License-Identifier: Apache-2.0 */
/* Events in branches of Rota's transactions: seen once the transaction commits, whoever dies, and never otherwise. */
#include "office.h"

#include "lib/proc.h"
#include "lib/servers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rota_txns *m;

static struct rota_txns *open_manager(uint32_t flags)
{
    char journal[400], *url = HERE->site->url(0);
    struct rota_txns *opened = NULL;

    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    if (rota_txns_open(&opened, journal, &(struct rota_txns_options){.flags = flags}) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    assert_int_equal(rota_txns_resource(opened, "here", url), 0);
    free(url);
    return opened;
}

static int branch_of(struct rota_txn *t, void *conn, struct rota_branch **out)
{
    return strcmp(OFFICE_WORD, "mysql") == 0 ? rota_xa_mysql(t, "here", conn, out)
                                             : rota_xa_postgres(t, "here", conn, out);
}

/* TWO: it is prepared, because others may have joined. */
static struct rota_txn *begin(void *conn, bool two)
{
    struct rota_txn *t = NULL;

    assert_int_equal(rota_txn_begin(m, NULL, &t), 0);
    if (two)
        assert_non_null(rota_txn_id(t));
    if (branch_of(t, conn, NULL) != 0)
        fail_msg("%s", rota_txn_errmsg(m));
    return t;
}

static void put(struct rota_txn *t)
{
    const struct rota_event e = {
        .topic = "orders", .key = "k", .type = "made", .payload = "one", .size = 3};

    if (rota_event_put(t, "here", &e) != 0)
        fail_msg("%s", rota_txn_errmsg(m));
}

static long long events(void)
{
    return office_number("SELECT COUNT(*) FROM rota_event");
}

static void it_is_seen_when_committed(void **state)
{
    void *conn = office_conn();

    (void)state;
    m = open_manager(0);
    for (int two = 0; two < 2; two++) {
        office_empty();
        struct rota_txn *t = begin(conn, two);
        put(t);
        office_sql(conn, "INSERT INTO work VALUES (%d)", 900 + two);
        assert_int_equal(events(), 0);
        if (rota_txn_commit(t) != 0)
            fail_msg("%s", rota_txn_errmsg(m));
        assert_int_equal(events(), 1);
        struct rt_store *s = office_store(NULL, NULL); /* as a relay that looks again */
        assert_int_equal(claim(s, 10).count, 1);
        rt_store_close(s);
        t = begin(conn, two);
        put(t);
        assert_int_equal(rota_txn_abort(t), 0);
        assert_int_equal(events(), 1);
    }
    rota_txns_close(m);
    office_close(conn);
}

/* An ordinary statement of the branch, by the page; beside it, a transaction of its own wakes relays as ever. */
static void plain_sql_does_the_same(void **state)
{
    void *conn = office_conn(), *other = office_conn();

    (void)state;
    office_empty();
    m = open_manager(0);
    struct rt_store *s = office_store(NULL, NULL);
    struct rota_txn *t = begin(conn, true);
    office_sql(conn, "INSERT INTO rota_event (topic, payload) VALUES ('t', 'plain')");
    if (rota_txn_commit(t) != 0)
        fail_msg("%s", rota_txn_errmsg(m));
    assert_int_equal(events(), 1);
    if (rt_store_notifies(s)) {
        assert_int_equal(rt_store_wait(s, 0, -1), 0);
        office_sql(conn, "INSERT INTO rota_event (topic, payload) VALUES ('t', 'after')");
        assert_int_equal(rt_store_wait(s, SITE_LIMIT_MS, -1), 1);
        office_sql(other,
                   "BEGIN; SET LOCAL rota.branch = on; INSERT INTO rota_event (topic, payload) "
                   "VALUES ('t', 'own'); PREPARE TRANSACTION 'own'");
        office_sql(other, "COMMIT PREPARED 'own'");
        assert_int_equal(events(), 3);
    }
    rt_store_close(s);
    rota_txns_close(m);
    office_close(conn);
    office_close(other);
}

/* Joins, writes the event, says yes, and is killed. */
static pid_t start_joiner(int *to)
{
    int pipes[2];
    char id[200] = "";

    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        close(pipes[0]);
        *to = pipes[1];
        return pid;
    }
    struct rota_txn *t = NULL;
    if (read(pipes[0], id, sizeof(id) - 1) <= 0)
        _exit(2);
    m = open_manager(0);
    void *conn = office_conn();
    if (rota_txn_join(m, id, &t) != 0 || branch_of(t, conn, NULL) != 0)
        _exit(3);
    put(t);
    if (rota_txn_vote(t) != 0)
        _exit(4);
    kill(getpid(), SIGKILL);
    _exit(5);
}

static bool has_event(void *arg)
{
    (void)arg;
    return events() == 1;
}

static bool has_none_prepared(void *arg)
{
    (void)arg;
    return HERE->site->prepared() == 0;
}

static void recovery_brings_it_after_kill_9(void **state)
{
    struct rota_txn *t = NULL;
    int to, status;

    (void)state;
    office_empty();
    pid_t pid = start_joiner(&to);
    m = open_manager(ROTA_TXN_RECOVER);
    assert_int_equal(rota_txn_begin(m, NULL, &t), 0);
    const char *id = rota_txn_id(t);
    assert_int_equal(write(to, id, strlen(id)), (ssize_t)strlen(id));
    close(to);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(HERE->site->prepared(), 1);
    assert_int_equal(events(), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    assert_true(rt_await(has_event, NULL, SITE_LIMIT_MS));
    assert_true(rt_await(has_none_prepared, NULL, SITE_LIMIT_MS));
    rota_txns_close(m);
}

static int yes(void *arg, const struct rota_call *call, const void *payload, size_t size)
{
    (void)arg;
    (void)call;
    (void)payload;
    (void)size;
    return 0;
}

static void refuses(int err, const char *line, int is)
{
    if (is != err || strstr(rota_txn_errmsg(m), line) == NULL)
        fail_msg("%d: %s", is, rota_txn_errmsg(m));
}

static void what_cannot_take_one_says_so(void **state)
{
    const struct rota_tcc calls = {yes, yes, yes};
    const struct rota_event e = {.topic = "t", .payload = "x", .size = 1}, none = {0};
    const struct rota_event twice = {.topic = "t", .event_id = "0123456789ab4def8123456789abcdef"};
    void *conn = office_conn();

    (void)state;
    office_empty();
    m = open_manager(0);
    assert_int_equal(rota_tcc_serve(m, "stock", &calls, NULL), 0);
    struct rota_txn *t = begin(conn, false);
    assert_int_equal(rota_tcc_call(t, "stock", "x", 1), 0);
    refuses(ROTA_UNSUPPORTED, "'stock' is a service", rota_event_put(t, "stock", &e));
    refuses(ROTA_INVALID, "no branch at 'there'", rota_event_put(t, "there", &e));
    refuses(ROTA_INVALID, "has no topic", rota_event_put(t, "here", &none));
    assert_int_equal(rota_event_put(NULL, "here", &e), ROTA_INVALID);
    assert_int_equal(rota_event_put(t, "here", &e), 0);
    if (rota_txn_commit(t) != 0) /* it could go on */
        fail_msg("%s", rota_txn_errmsg(m));
    assert_int_equal(events(), 1);
    t = begin(conn, false);
    assert_int_equal(rota_event_put(t, "here", &twice), 0);
    assert_true(rota_event_put(t, "here", &twice) != 0); /* there is such an id */
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    assert_int_equal(events(), 1);
    struct rota_txn *joined = NULL;
    t = NULL;
    assert_int_equal(rota_txn_begin(m, NULL, &t), 0);
    assert_int_equal(rota_txn_join(m, rota_txn_id(t), &joined), 0);
    assert_int_equal(branch_of(joined, conn, NULL), 0);
    assert_int_equal(rota_event_put(joined, "here", &e), 0);
    assert_int_equal(rota_txn_vote(joined), 0);
    refuses(ROTA_INVALID, "is lent", rota_event_put(joined, "here", &e));
    assert_int_equal(rota_txn_commit(t), 0);
    assert_int_equal(rota_txn_commit(joined), 0);
    assert_int_equal(events(), 2);
    rota_txns_close(m);
    office_close(conn);
}

const struct CMUnitTest cases_branch[] = {
    cmocka_unit_test(it_is_seen_when_committed),
    cmocka_unit_test(plain_sql_does_the_same),
    cmocka_unit_test(recovery_brings_it_after_kill_9),
    cmocka_unit_test(what_cannot_take_one_says_so),
};
const size_t cases_branch_count = sizeof(cases_branch) / sizeof(cases_branch[0]);
