/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects whose locks live with a connection, on a real server: replies lost and late at each statement,
 * connections killed one by one, the server killed and started again, each allocation failing once. Nobody holds what
 * another holds, holders are told, fences grow, and no connection and no open transaction stays; its administrator
 * looks at what is on the server.
 *
 *   test_sql_hold postgres|mysql [DIALECT]   all of them, if none is named
 *
 * Where somebody else ends a connection (KILL, the server's death, a proxy's reset), the lock is free at once, and its
 * holder hears of it a moment later: two may then believe they hold, which is counted, and only the fence decides
 * (STAGE_LOSSY). */
#include "engine/sql/hold/hold.h"
#include "house.h"
#include "lib/players.h"
#include "lib/scarce.h"
#include "treat.h"

#ifdef HOUSE_MYSQL
#include "engine/mysql/mysql.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROCESSES 4
#define KINDS 5
#define TTL_MS 1000
#define LONG_TTL_MS 60000 /* longer than UNTIL waits: what happens there happens by itself */

static const struct dialect {
    const char *engine, *name;
    bool shared;
    /* How the proxy recognizes flights: by a statement's slot where it is among others or on PostgreSQL, else by
     * words. */
    struct {
        const char *name;
        int slot;
        const char *words;
    } kinds[KINDS];
} dialects[] = {
    {"mysql",
     "getlock",
     false,
     {{"try", RT_HOLD_SAY_TRY, NULL},
      {"wait", -1, "execute SELECT @rota_got := GET_LOCK(?, 3"},
      {"number", RT_HOLD_SAY_VERIFY, NULL},
      {"renew", -1, "execute SELECT COALESCE(IS_USED_LOCK"},
      {"leave", -1, "execute SELECT COALESCE(RELEASE_LOCK"}}},
    {"mysql",
     "forupdate",
     true,
     {{"try", RT_HOLD_SAY_TRY, NULL},
      {"wait", RT_HOLD_SAY_WAIT, NULL},
      {"number", RT_HOLD_SAY_FENCE, NULL},
      {"renew", -1, "execute SELECT @@in_transaction"},
      {"leave", -1, "COMMIT "}}},
    {"mysql",
     "table",
     false,
     {{"lock", -1, "LOCK "},
      {"wait", -1, "LOCK "},
      {"number", RT_HOLD_SAY_FENCE, NULL},
      {"renew", -1, "execute SELECT CONNECTION_ID() ="},
      {"leave", -1, "UNLOCK "}}},
    {"postgres",
     "advisory",
     true,
     {{"try", RT_HOLD_SAY_TRY, NULL},
      {"wait", RT_HOLD_SAY_WAIT, NULL},
      {"number", RT_HOLD_SAY_FENCE, NULL},
      {"renew", RT_HOLD_SAY_VERIFY, NULL},
      {"leave", RT_HOLD_SAY_GIVE, NULL}}},
    {"postgres",
     "forupdate",
     true,
     {{"try", RT_HOLD_SAY_TRY, NULL},
      {"wait", RT_HOLD_SAY_WAIT, NULL},
      {"number", RT_HOLD_SAY_FENCE, NULL},
      {"renew", RT_HOLD_SAY_VERIFY, NULL},
      {"leave", -1, "commit "}}},
    {"postgres",
     "table",
     false,
     {{"try", -1, "begin lock"},
      {"wait", -1, "rollback begin"},
      {"number", RT_HOLD_SAY_FENCE, NULL},
      {"renew", RT_HOLD_SAY_VERIFY, NULL},
      {"leave", -1, "commit "}}},
};
static const struct dialect *dialect;

static bool is_mysql(void)
{
    return strcmp(house->name, "mysql") == 0;
}

static char *url_of(uint16_t port)
{
    char *plain = house->url(port), *all = NULL;
    assert_true(asprintf(&all, "%s%cdialect=%s", plain, strchr(plain, '?') != NULL ? '&' : '?',
                         dialect->name) > 0);
    free(plain);
    return all;
}

static struct rota *client(uint32_t ttl_ms)
{
    char *url = url_of(0);
    struct rota *r = player(url, ttl_ms, 0);
    free(url);
    return r;
}

/* ---- What is there -------------------------------------------------------------------------------- */

static long long connections(void)
{
    return house_number(
        "%s", is_mysql() ? "select count(*) from information_schema.PROCESSLIST where USER = 'rota'"
                         : "select count(*) from pg_stat_activity where backend_type = 'client "
                           "backend' and pid <> pg_backend_pid()");
}

/* Asked again within 100 ms, INNODB_TRX repeats what it said before. */
static long long transactions(void)
{
    if (is_mysql())
        (void)house_ask("do sleep(0.15)");
    return house_number("%s", is_mysql() ? "select count(*) from information_schema.INNODB_TRX"
                                         : "select count(*) from pg_stat_activity where state like "
                                           "'idle in transaction%' or wait_event_type = 'Lock'");
}

static void transactions_are(long long n)
{
    int64_t end = players_now_ms() + PLAYERS_PATIENCE_MS;
    while (transactions() != n && players_now_ms() < end)
        players_pause(end + 1000, "the end of transactions");
    if (transactions() != n)
        fail_msg(
            "not %lld transactions: %s", n,
            house_ask(
                "%s",
                is_mysql()
                    ? "select group_concat(trx_mysql_thread_id, ' ', trx_state, ' ', "
                      "trx_started, ' ', trx_rows_locked, ' ', coalesce(trx_query, ''), ' ', "
                      "coalesce(p.USER, ''), ' ', coalesce(p.COMMAND, '') separator '; ') from "
                      "information_schema.INNODB_TRX left join information_schema.PROCESSLIST p on "
                      "p.ID = trx_mysql_thread_id"
                    : "select string_agg(pid || ' ' || state || ' ' || query, '; ') from "
                      "pg_stat_activity where backend_type = 'client backend'"));
}

/* The seats of departed clients are gone: the server has noticed, whatever they waited for. */
static size_t none_there(void *arg, char *text, size_t size)
{
    int64_t end = players_now_ms() + HOUSE_LIMIT_MS / 2;
    (void)arg;
    while (connections() > 0 && players_now_ms() < end)
        players_pause(end + 1000, "the end of the connections");
    size_t left = (size_t)connections();
    if (left > 0)
        snprintf(text, size, " %zu connections", left);
    return left;
}

/* ---- Under load ----------------------------------------------------------------------------------- */

static struct stage *new_stage(const char *what, uint32_t processes, uint32_t more)
{
    static char titles[3 * sizeof(dialects) / sizeof(dialects[0])][64];
    static size_t count;
    char *title = titles[count++];
    snprintf(title, sizeof(titles[0]), "%s %s: %s", house->name, dialect->name, what);
    struct stage_plan plan = {.title = title,
                              .processes = processes,
                              .threads = 2,
                              .locks = 2,
                              .flags = STAGE_TRY | STAGE_GIVE_UP | more |
                                       (dialect->shared ? STAGE_SHARED : 0),
                              .ttl_ms = TTL_MS,
                              .long_permille = 20,
                              .long_ms = 1200,
                              .pause_us = 10000};
    struct stage *st = stage_new(&plan);
    char *url = url_of(0);
    stage_url(st, url);
    free(url);
    return st;
}

static void end_stage(struct stage *st)
{
    size_t found = stage_finish(st, none_there, NULL);
    stage_free(st);
    assert_int_equal(found, 0);
}

/* Not while it holds: what the dead held is free at once, but the checker has its promise until the ttl is over. */
static void stir(struct stage *st, void *arg)
{
    (void)arg;
    stage_stop(st, PROCESSES);
    if (stage_holds(st, PROCESSES)) {
        stage_cont(st, PROCESSES);
        return;
    }
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static void words_of(size_t kind, char *out, size_t size)
{
    int slot = dialect->kinds[kind].slot;
    if (slot < 0)
        snprintf(out, size, "%s", dialect->kinds[kind].words);
    else if (!is_mysql())
        snprintf(out, size, "rota_own%d ", slot);
#ifdef HOUSE_MYSQL
    else
        snprintf(out, size, "rota%d ", (int)RT_MYSQL_OWN + slot);
#endif
}

static void every_flight_in_every_way(void **state)
{
    static char words[KINDS][100];
    struct treat_kind kinds[KINDS];
    struct rt_proxy *proxies[PROCESSES];
    struct treat_line lines[PROCESSES];
    bool resets = stage_factor() > 1; /* in make torture */
    struct stage *st = new_stage("replies lost, late", PROCESSES + 1, resets ? STAGE_LOSSY : 0);
    struct treat_plan treat = {.kinds = kinds,
                               .kind_count = KINDS,
                               .lines = lines,
                               .line_count = PROCESSES,
                               .in_order = true,
                               .late_ms = TTL_MS * 13 / 10,
                               .rounds = 1 + stage_factor() / 4,
                               .stir = stir};
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        words_of(i, words[i], sizeof(words[i]));
        kinds[i] = (struct treat_kind){dialect->kinds[i].name, words[i], false};
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        proxies[i] = house_proxy(stage_seed() + i);
        char *url = url_of(rt_proxy_port(proxies[i]));
        stage_url_of(st, i, url);
        lines[i] = (struct treat_line){&proxies[i], 1};
        free(url);
    }
    stage_start(st);
    size_t left = treat_all(st, &treat);
    end_stage(st);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < PROCESSES; i++)
        rt_proxy_stop(proxies[i]);
}

static void connections_killed_one_by_one(void **state)
{
    struct stage *st = new_stage("connections killed", PROCESSES, STAGE_LOSSY);
    uint32_t cut = 0;
    (void)state;
    stage_start(st);
    for (uint32_t i = 0; i < 40 * stage_factor(); i++) {
        stage_mark(st);
        cut += house_ask("%s", i % 4 == 3 ? house->stop_one : house->cut_one)[0] != '\0';
        if (i % 8 == 5) { /* a whole client, whatever it does */
            stage_kill(st, i / 8 % PROCESSES);
            stage_spawn(st, i / 8 % PROCESSES);
        }
        stage_pause(st, stage_below(st, 60));
    }
    assert_true(cut > 0);
    stage_await_grants(st);
    end_stage(st);
}

static void killed_and_started_again(void **state)
{
    struct stage *st = new_stage("server killed", PROCESSES, STAGE_LOSSY);
    (void)state;
    stage_start(st);
    for (uint32_t i = 0; i < 2 * stage_factor(); i++) {
        stage_pause(st, 100 + stage_below(st, 200));
        stage_mark(st);
        house->kill();
        stage_pause(st, i % 2 == 1 ? TTL_MS * 13 / 10 : stage_below(st, 100));
        house->run();
        stage_await_grants(st);
    }
    end_stage(st);
}

/* ---- Step by step --------------------------------------------------------------------------------- */

/* Ends the connection that holds FENCE, as an administrator does. */
static void kill_holder(uint64_t fence)
{
    long long id = house_number("select holder from rota_hold where fence = %llu and holder <> 0",
                                (unsigned long long)fence);
    assert_true(id > 0);
    if (is_mysql())
        (void)house_ask("KILL %lld", id);
    else
        (void)house_ask("select pg_terminate_backend(%lld)", id);
}

/* Its connection ends: that tells it, not the ttl; the waiter has it next, with a higher fence; nothing else is
 * lost. */
static void a_holder_is_told_at_once(void **state)
{
    struct rota *ours = client(LONG_TTL_MS), *other = client(LONG_TTL_MS);
    struct player_lost lost = {0}, kept = {0};
    (void)state;
    struct rota_lock *lock = player_take(ours, "prize", &lost);
    struct rota_lock *beside = player_take(ours, "beside", &kept);
    uint64_t fence = rota_fence(lock);
    kill_holder(fence);
    UNTIL(lost.calls == 1);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    struct rota_lock *next = player_take(other, "prize", NULL);
    assert_true(rota_fence(next) > fence);
    assert_int_equal(rota_release(next), 0);
    assert_int_equal(kept.calls, 0);
    assert_int_equal(rota_check(beside), 0);
    assert_int_equal(rota_release(beside), 0);
    rota_close(ours);
    rota_close(other);
    assert_int_equal(none_there(NULL, (char[100]){0}, 100), 0);
}

/* Neither a release nor a try that found it taken leaves a transaction open, even while the client lives. */
static void no_transaction_stays(void **state)
{
    struct rota *ours = client(LONG_TTL_MS), *other = client(LONG_TTL_MS);
    struct rota_ask attempt = {.flags = ROTA_TRY};
    const char *const names[] = {"a", "prize"};
    struct rota_lock *no = NULL, *none[2] = {NULL, NULL};
    (void)state;
    struct rota_lock *lock = player_take(ours, "prize", NULL);
    long long one = transactions();
    assert_int_equal(rota_acquire(other, "prize", &attempt, &no), ROTA_BUSY);
    transactions_are(one);
    assert_int_equal(rota_acquire_all(other, names, 2, &attempt, none), ROTA_BUSY);
    transactions_are(one);
    assert_int_equal(rota_release(lock), 0);
    transactions_are(0);
    struct rota_ask brief = {.limit_ms = 50};
    lock = player_take(ours, "prize", NULL);
    assert_int_equal(rota_acquire(other, "prize", &brief, &no), ROTA_TIMEOUT);
    transactions_are(one);
    assert_int_equal(rota_release(lock), 0);
    transactions_are(0);
    rota_close(ours);
    rota_close(other);
    assert_int_equal(none_there(NULL, (char[100]){0}, 100), 0);
}

/* ---- Memory --------------------------------------------------------------------------------------- */

/* The Nth allocation from here on fails: an error or none, and then all works again. True: it was reached. */
static bool run_out(const char *url, long n)
{
    struct rota_options opts = {
        .flags = ROTA_NO_KEEPER, .ttl_ms = LONG_TTL_MS, .call_ms = HOUSE_LIMIT_MS / 2};
    struct rota_ask attempt = {.flags = ROTA_TRY};
    const char *const names[] = {"b", "a"};
    struct rota_lock *lock = NULL, *both[2] = {NULL, NULL};
    struct rota *r = NULL;
    assert_int_equal(rota_open(&r, url, &opts), 0);
    assert_int_equal(rota_release(player_take(r, "warm", NULL)), 0);
    scarce.fail_at = scarce.asked + n / 2 + 1;
    int err = n % 2 == 0 ? rota_acquire(r, "x", &attempt, &lock)
                         : rota_acquire_all(r, names, 2, &attempt, both);
    bool reached = scarce.asked >= scarce.fail_at;
    scarce.fail_at = 0;
    if (err == 0 && lock != NULL)
        assert_int_equal(rota_release(lock), 0);
    for (size_t i = 0; err == 0 && lock == NULL && i < 2; i++)
        assert_int_equal(rota_release(both[i]), 0);
    assert_int_equal(rota_release(player_take(r, "after", NULL)), 0);
    assert_int_equal(rota_release(player_take(r, "x", NULL)), 0);
    assert_int_equal(rota_release(player_take(r, "a", NULL)), 0);
    rota_close(r);
    return reached;
}

static void memory_runs_out_anywhere(void **state)
{
    char *url = url_of(0);
    bool reached = true, before = true;
    long n = 0;
    (void)state;
    for (; reached || before; n++) {
        scarce_begin();
        before = reached;
        reached = run_out(url, n);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
    print_message("%ld runs\n", n);
    free(url);
    assert_int_equal(none_there(NULL, (char[100]){0}, 100), 0);
}

/* ---- All of them ---------------------------------------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    house->start();
    return 0;
}

static int clean(void **state)
{
    (void)state;
    struct rota *r = client(0); /* which makes the tables */
    assert_int_equal(rota_release(player_take(r, "first", NULL)), 0);
    rota_close(r);
    assert_int_equal(none_there(NULL, (char[100]){0}, 100), 0);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_flight_in_every_way, clean),
        cmocka_unit_test_setup(connections_killed_one_by_one, clean),
        cmocka_unit_test_setup(killed_and_started_again, clean),
        cmocka_unit_test_setup(a_holder_is_told_at_once, clean),
        cmocka_unit_test_setup(no_transaction_stays, clean),
        cmocka_unit_test_setup(memory_runs_out_anywhere, clean),
    };
    int failed = 0;
    if (!house_choose(argc, argv))
        return 64;
    for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++) {
        dialect = &dialects[i];
        if (strcmp(dialect->engine, house->name) != 0 ||
            (argc > 2 && strcmp(argv[2], dialect->name) != 0))
            continue;
        print_message("---- %s\n", dialect->name);
        failed += cmocka_run_group_tests(tests, start, house_teardown);
    }
    return failed;
}
