/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that refuse or cannot, odd names and nodes: one clear error as soon as it is known, or a line that still
 * works; and nothing left behind. For servers that are no ZooKeeper see test_rogue.c. */
#include "engine/zookeeper/ops.h"
#include "lib/players.h"
#include "lib/proc.h"
#include "lib/refusal.h"
#include "lib/user.h"
#include "lib/zookeeper_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CALL_MS 30000 /* a refusal comes long before: no case here waits this long */
#define SHORT_MS 4000 /* where a timeout ends it; a slow server says why before */
#define LIMIT_MS 60000
#define SECRET "hush-Wr0ng-7c1"

static const char *const secrets[] = {SECRET, NULL};
static struct rt_zks one; /* without users, for all cases */
static char *plain;

static void assert_url(const char *url, int err, const char *words)
{
    struct refusal r = refusal_of(url, CALL_MS);

    refusal_assert(&r, err, words, secrets);
}

static bool is_empty(void *zks)
{
    return rt_zks_count(zks, 0, "zk_ephemerals_count") == 0;
}

static void assert_nothing_left(struct rt_zks *zks)
{
    assert_true(rt_await(is_empty, zks, LIMIT_MS));
}

/* ---- Asking by hand ---------------------------------------------------------------------------- */

static struct rt_zk_conn *conn_of(struct user *u)
{
    return &((struct rt_zk *)(void *)u->conn)->c;
}

static int asked_err;
static int32_t asked_said;
static bool asked_done;

static void on_answer(struct rt_zk *z, struct rt_zk_ask *a, int err, struct rt_zk_reply *reply)
{
    (void)z;
    (void)a;
    asked_done = true;
    asked_err = err;
    asked_said = reply != NULL ? reply->said : 0;
}

/* Sends A, waits for its answer: what the server said, or an error of ours. */
static int32_t ask(struct user *u, struct rt_zk_ask *a)
{
    asked_done = false;
    assert_int_equal(rt_zk_send(conn_of(u), a, NULL, NULL, 0, NULL), 0);
    for (int i = 0; i < 1000 && !asked_done; i++)
        user_turn(u, 20);
    assert_true(asked_done);
    return asked_err != 0 ? asked_err : asked_said;
}

static int32_t make(struct user *u, const char *path, uint32_t flags)
{
    return ask(
        u, rt_zk_create(conn_of(u), RT_ZK_CREATE, path, (struct rt_text){"", 0}, flags, on_answer));
}

static int32_t drop(struct user *u, const char *path)
{
    return ask(u, rt_zk_delete(conn_of(u), path, on_answer));
}

/* ---- Who may, and what ------------------------------------------------------------------------- */

/* A file with a wrong password. */
static const char *wrong_file(void)
{
    static char path[300];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/wrong", rt_tmpdir());
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(chmod(path, 0600), 0);
    fprintf(f, "%s\n", SECRET);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* What user B may do with what A has: nothing, by whatever request. */
static void assert_no_rights(struct user *b, const char *ticket, const char *line)
{
    struct rt_zk_conn *c = conn_of(b);
    char path[RT_ZK_PATH_ROOM];

    assert_int_equal(drop(b, ticket), ROTA_AUTH);
    assert_int_equal(ask(b, rt_zk_read(c, RT_ZK_GET, ticket, false, on_answer)), ROTA_AUTH);
    assert_int_equal(ask(b, rt_zk_set(c, ticket, (struct rt_text){"x", 1}, on_answer)), ROTA_AUTH);
    assert_int_equal(ask(b, rt_zk_read(c, RT_ZK_CHILDREN, line, false, on_answer)), ROTA_AUTH);
    (void)snprintf(path, sizeof(path), "%s/mine", line);
    assert_int_equal(make(b, path, RT_ZK_EPHEMERAL), ROTA_AUTH);
}

static void users(void **state)
{
    struct rt_zks_options opts = {.user = true};
    static struct rt_zks zks;
    static struct user a, b;
    char url[900], ticket[RT_ZK_PATH_ROOM], *good;
    struct rt_join held = {0};

    (void)state;
    rt_zks_start(&zks, 1, &opts);
    unsigned port = zks.node[0].server.port;
    good = rt_zks_url(&zks, NULL);
    user_start(&a, good, CALL_MS);
    assert_int_equal(user_join(&a, "prize", &held), 0);
    (void)snprintf(url, sizeof(url), "zk://rota@127.0.0.1:%u/rota?password_file=%s", port,
                   wrong_file());
    assert_url(url, ROTA_AUTH, "'rota'|may not");
    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%u/rota", port);
    assert_url(url, ROTA_AUTH, "user|password");
    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%u/rota/below", port);
    assert_url(url, ROTA_AUTH, "/rota|wants a user");
    (void)snprintf(url, sizeof(url), "zk://other@127.0.0.1:%u/rota?password_file=%s", port,
                   wrong_file());
    assert_url(url, ROTA_AUTH, "'other'|may not");
    assert_int_equal(user_open(&b, url), 0);
    struct rt_zk *z = (struct rt_zk *)(void *)a.conn;
    const struct rt_zk_ticket *t = rt_zk_ticket_find(z, "prize", a.session, held.number, 0);
    assert_non_null(t);
    (void)snprintf(ticket, sizeof(ticket), "%s", rt_zk_node_path(z, "prize", t->node));
    assert_no_rights(&b, ticket, RT_ZKS_ROOT "/prize");
    assert_int_equal(user_leave(&a, "prize", held.number), 0); /* it was there all the time */
    user_close(&b);
    user_close(&a);
    assert_int_equal(refusal_of(good, CALL_MS).err, 0);
    assert_nothing_left(&zks);
    free(good);
    rt_zks_fini(&zks);
}

/* ---- TLS --------------------------------------------------------------------------------------- */

static void certificates(void **state)
{
    struct rt_zks_options opts = {.tls = true, .tls_clients = true};
    static struct rt_zks zks;
    struct refusal r;
    char url[900], *good;

    (void)state;
    rt_zks_start(&zks, 1, &opts);
    unsigned port = zks.node[0].server.port;
    (void)snprintf(url, sizeof(url), "zks://localhost:%u/rota?ca=%s", port, zks.certs.stranger_ca);
    assert_url(url, ROTA_AUTH, "certificate|CA");
    (void)snprintf(url, sizeof(url), "zks://localhost:%u/rota", port);
    assert_url(url, ROTA_AUTH, "certificate|?ca=");
    (void)snprintf(url, sizeof(url), "zks://localhost:%u/rota?ca=%s", port, zks.certs.ca);
    assert_url(url, ROTA_AUTH, "certificate|?cert=");
    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%u/rota", port);
    r = refusal_of(url, SHORT_MS); /* it only closes, as a restarting server does */
    refusal_assert(&r, ROTA_UNREACHABLE, "TLS|zks://", secrets);
    good = rt_zks_url(&zks, NULL);
    assert_int_equal(refusal_of(good, CALL_MS).err, 0);
    assert_nothing_left(&zks);
    free(good);
    rt_zks_fini(&zks);
}

static void tls_to_a_plain_server(void **state)
{
    struct refusal r;
    char url[200];

    (void)state;
    (void)snprintf(url, sizeof(url), "zks://localhost:%u/rota", (unsigned)one.node[0].server.port);
    r = refusal_of(url, SHORT_MS / 2);
    refusal_assert(&r, r.err, "TLS", secrets);
    assert_true(r.err == ROTA_PROTOCOL || r.err == ROTA_UNREACHABLE);
    assert_nothing_left(&one);
}

/* ---- Who cannot -------------------------------------------------------------------------------- */

static void no_quorum(void **state)
{
    static struct rt_zks zks;
    struct refusal r;
    char *url;

    (void)state;
    rt_zks_start(&zks, 3, NULL);
    url = rt_zks_url(&zks, NULL);
    assert_int_equal(refusal_of(url, CALL_MS).err, 0);
    rt_server_kill(&zks.node[1].server);
    rt_server_kill(&zks.node[2].server);
    for (int i = 0; i < 20; i++) { /* until the one that is left has noticed */
        r = refusal_of(url, SHORT_MS);
        assert_int_not_equal(r.err, 0);
        if (strstr(r.text, "majority") != NULL)
            break;
    }
    refusal_assert(&r, ROTA_UNREACHABLE, "majority", secrets);
    rt_server_start(&zks.node[1].server); /* two are enough, and a patient waiter is served */
    assert_int_equal(refusal_of(url, LIMIT_MS).err, 0);
    rt_zks_run(&zks, 2);
    assert_nothing_left(&zks);
    free(url);
    rt_zks_fini(&zks);
}

static void nobody_there(void **state)
{
    int anchor;
    uint16_t port = rt_port_reserve(&anchor);
    struct refusal r;
    char url[100];

    (void)state;
    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%u/rota", (unsigned)port);
    r = refusal_of(url, SHORT_MS / 2); /* the absent will not come later */
    refusal_assert(&r, ROTA_UNREACHABLE, "refused", secrets);
    r = refusal_of("zk://no-such-host.invalid/", SHORT_MS);
    refusal_assert(&r, ROTA_UNREACHABLE, "no-such-host.invalid", secrets);
    close(anchor);
}

/* ---- Roots and names --------------------------------------------------------------------------- */

static const char *rooted(const char *root)
{
    static char url[500];

    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%u%s", (unsigned)one.node[0].server.port,
                   root);
    return url;
}

static void roots(void **state)
{
    static struct user u;
    char below[400];

    (void)state;
    assert_int_equal(refusal_of(rooted("/not/made/yet/"), CALL_MS).err, 0);
    assert_int_equal(refusal_of(rooted(""), CALL_MS).err, 0);
    assert_int_equal(refusal_of(rooted("/"), CALL_MS).err, 0);
    assert_url(rooted("/a//b"), ROTA_INVALID, "path|ZooKeeper");
    assert_url(rooted("/a/../b"), ROTA_INVALID, "path|ZooKeeper");
    assert_url(rooted("/zookeeper"), ROTA_INVALID, "ZooKeeper");
    user_start(&u, plain, CALL_MS); /* a root that can have nothing below it: a session's node */
    (void)snprintf(below, sizeof(below), "/rota/%s/%016llx", RT_ZK_SESSIONS,
                   (unsigned long long)u.session);
    assert_url(rooted(below), ROTA_INVALID, "cannot be made|ephemeral");
    user_close(&u);
    assert_nothing_left(&one);
}

static int try_name(struct rota *r, const char *name)
{
    struct rota_lock *lock = NULL;
    int err = rota_acquire(r, name, NULL, &lock);

    return err == 0 ? rota_release(lock) : err;
}

static void names(void **state)
{
    static const char *const odd[] = {"/a",
                                      "a/",
                                      "a//b",
                                      "a/./b",
                                      "a/../b",
                                      "..",
                                      "a/..",
                                      "/",
                                      "+rota",
                                      "+rota/x",
                                      "%2E",
                                      "a b",
                                      "a\\b",
                                      "a%b",
                                      "a?b",
                                      "\xc3\xa4",
                                      ".",
                                      "zookeeper",
                                      "\xf0\x9f\x94\x92",
                                      "\xef\xbf\xbd",
                                      "\xee\x80\x80"};
    struct rota *spelled = player(plain, 0, CALL_MS), *raw;
    char url[400];

    (void)state;
    (void)snprintf(url, sizeof(url), "%s&names=raw", plain);
    raw = player(url, 0, CALL_MS);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(try_name(spelled, odd[i]), 0);
        int err = try_name(raw, odd[i]);
        print_message("%-10s %s: %s\n", odd[i], rota_strerror(err),
                      err != 0 ? rota_errmsg(raw) : "");
        assert_true(err == 0 || err == ROTA_INVALID);
        assert_true(err == 0 || strstr(rota_errmsg(raw), "ZooKeeper") != NULL);
        assert_true(err != 0 || (odd[i][0] != '/' && strstr(odd[i], "/..") == NULL));
    }
    assert_int_equal(try_name(raw, "a/b"), 0);
    assert_int_equal(try_name(raw, "\xf0\x9f\x94\x92"), ROTA_INVALID); /* Java's surrogates */
    rota_close(spelled);
    rota_close(raw);
    assert_nothing_left(&one);
}

/* ---- Nodes of others in a line ------------------------------------------------------------------ */

/* It holds until whoever made it removes it; then the line goes on. */
static void foreign(const char *node, bool ahead)
{
    static struct user u;
    struct rt_join join = {0};
    char path[400];

    user_start(&u, plain, CALL_MS);
    assert_int_equal(user_join(&u, "prize", &join), 0); /* there is a line */
    assert_int_equal(user_leave(&u, "prize", join.number), 0);
    (void)snprintf(path, sizeof(path), RT_ZKS_ROOT "/prize/%s", node);
    assert_int_equal(make(&u, path, RT_ZK_PERSISTENT), 0);
    join = (struct rt_join){.flags = RT_JOIN_TRY};
    assert_int_equal(user_join(&u, "prize", &join), ahead ? ROTA_BUSY : 0);
    if (!ahead)
        assert_int_equal(user_leave(&u, "prize", join.number), 0);
    join = (struct rt_join){0};
    assert_int_equal(user_join(&u, "prize", &join), 0);
    assert_true(join.granted == !ahead);
    assert_int_equal(user_lines(&u, "prize"), 1);
    assert_int_equal(drop(&u, path), 0);
    if (ahead)
        (void)user_hear(&u, RT_GRANTED, join.number, 0);
    assert_int_equal(user_leave(&u, "prize", join.number), 0);
    user_close(&u);
}

static void children_that_do_not_parse(void **state)
{
    (void)state;
    foreign("readme", true);
    foreign("\xc3\xa4\xc3\xb6", true);
    foreign("x-0000000000", true);
    foreign("_c_zzzz-lock-0000000000", true);
    foreign("_c_00000000-0000-0001-0000-000000000001-q9-lock-0000000000", true);
    foreign("_c_00000000-0000-0001-0000-000000000001-lock-", true);
    foreign("lock-2147483000", false);
    assert_nothing_left(&one);
}

/* How many stand in "prize", as seen by a client that creates nothing; LEFT: how long the first still has. */
static size_t shown(struct rota *looker, int64_t *left_ms)
{
    struct rota_line *line = NULL, *lines = NULL;
    size_t listed = 0, n;

    assert_int_equal(rota_inspect(looker, "prize", &line), 0);
    n = line->count;
    if (n > 0) {
        assert_true(line->places[0].since_ms >= 0);
        *left_ms = line->places[0].left_ms;
    }
    rota_line_free(line);
    assert_int_equal(rota_list(looker, "prize", &lines, &listed), 0);
    assert_true(listed <= n); /* it may have ended since */
    rota_list_free(lines, listed);
    return n;
}

static bool shows_nobody(void *looker)
{
    int64_t left_ms;

    return shown(looker, &left_ms) == 0;
}

/* A client that only looks never hears the servers' clock; even so it tells since when, leaves out what is over by
 * time, and does not say that a session will end what none will. */
static void who_only_looks(void **state)
{
    static const char *const over = RT_ZKS_ROOT
        "/prize/_c_00000000-0000-0001-0000-000000000001-d-t1-n5-lock-0000000000";
    static const char *const kept = RT_ZKS_ROOT
        "/prize/_c_00000000-0000-0001-0000-000000000001-d-t3600000-n5-lock-0000000000";
    static const char *const stays = RT_ZKS_ROOT "/prize/readme";
    static struct user u;
    struct rota *looker = player(plain, 0, CALL_MS);
    struct rt_join join = {0};
    int64_t left_ms = 0;

    (void)state;
    user_start(&u, plain, CALL_MS);
    assert_int_equal(user_join(&u, "prize", &join), 0);
    assert_int_equal(shown(looker, &left_ms), 1);
    assert_true(left_ms > 0);
    assert_int_equal(user_leave(&u, "prize", join.number), 0);
    assert_int_equal(make(&u, over, RT_ZK_PERSISTENT), 0);
    assert_true(rt_await(shows_nobody, looker, LIMIT_MS));
    assert_int_equal(drop(&u, over), 0); /* nobody else has */
    assert_int_equal(make(&u, kept, RT_ZK_PERSISTENT), 0);
    assert_int_equal(shown(looker, &left_ms), 1);
    assert_true(left_ms > 0 && left_ms <= 3600000);
    assert_int_equal(drop(&u, kept), 0);
    assert_int_equal(make(&u, stays, RT_ZK_PERSISTENT), 0);
    assert_int_equal(shown(looker, &left_ms), 1);
    assert_int_equal(left_ms, -1);
    assert_int_equal(drop(&u, stays), 0);
    user_close(&u);
    rota_close(looker);
    assert_nothing_left(&one);
}

static int setup(void **state)
{
    (void)state;
    rt_zks_start(&one, 1, NULL);
    plain = rt_zks_url(&one, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(plain);
    rt_zks_fini(&one);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users),
        cmocka_unit_test(certificates),
        cmocka_unit_test(tls_to_a_plain_server),
        cmocka_unit_test(no_quorum),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(roots),
        cmocka_unit_test(names),
        cmocka_unit_test(children_that_do_not_parse),
        cmocka_unit_test(who_only_looks),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, setup, teardown);
}
