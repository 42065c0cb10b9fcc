/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects whose locks are rows with an end, on a real server: replies lost, late and cut, foreign holders, tables
 * of another shape, the sweeper; its administrator looks at what is on the server.
 *
 *   test_sql_lease postgres|mysql [DIALECT]   all of them, if none is named */
#include "engine/sql/dialect/lease.h"
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
#define TTL_MS 1000
#define HOUR (INT64_C(3600) * 1000000)
#define LONG_TTL_MS 10000 /* so long that nobody loses anything on a slow machine either */

static const struct lease {
    const char *name, *table;
} leases[] = {{"row", "rota_row"}, {"version", "rota_version"}, {"shedlock", "shedlock"}};
static const struct lease *dialect = &leases[0];
static struct house_knob clock_of; /* the server's */

static bool is_mysql(void)
{
    return strcmp(house->name, "mysql") == 0;
}

/* The server's clock says until when it is taken, as in ShedLock. */
static const char *utc(void)
{
    return is_mysql() ? "utc_timestamp(3)" : "timezone('utc', clock_timestamp())";
}

static const char *now_us(void)
{
    return is_mysql() ? "timestampdiff(microsecond, 19700101, utc_timestamp(6))"
                      : "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
}

/* Rows that others would wait for. */
static long long held(void)
{
    if (strcmp(dialect->name, "shedlock") == 0)
        return house_number("select count(*) from shedlock where lock_until > %s", utc());
    return house_number("select count(*) from %s where session <> 0 and expires > %s",
                        dialect->table, now_us());
}

static char *url_of(uint16_t port, const char *more)
{
    char *plain = house->url(port), *all = NULL;
    assert_true(asprintf(&all, "%s%cdialect=%s%s", plain, strchr(plain, '?') != NULL ? '&' : '?',
                         dialect->name, more) > 0);
    free(plain);
    return all;
}

/* The words by which the proxy knows a flight with this statement: alone, or among others. */
static void words_of(enum rt_lease_say kind, bool alone, char *out, size_t size)
{
    (void)alone;
    if (!is_mysql()) {
        snprintf(out, size, "rota_own%d ", (int)kind);
        return;
    }
#ifdef HOUSE_MYSQL
    if (alone)
        snprintf(out, size, "execute %s `%s`",
                 strcmp(dialect->name, "row") == 0 ? "delete from" : "update", dialect->table);
    else
        snprintf(out, size, "rota%d ", (int)(RT_MYSQL_OWN + kind));
#endif
}

/* ---- Every flight, in every way ------------------------------------------------------------------ */

static size_t none_held(void *arg, char *text, size_t size)
{
    int64_t end = players_now_ms() + HOUSE_LIMIT_MS / 2;
    (void)arg;
    while (held() > 0 && players_now_ms() < end)
        players_pause(end + 1000, "the end of what the dead held");
    size_t left = (size_t)held();
    if (left > 0)
        snprintf(text, size, " %zu rows", left);
    return left;
}

static void stir(struct stage *st, void *arg)
{
    (void)arg;
    stage_kill(st, PROCESSES);
    stage_spawn(st, PROCESSES);
}

static void every_flight_in_every_way(void **state)
{
    static char words[6][100], title[64];
    static const struct {
        const char *name;
        enum rt_lease_say kind;
        bool alone;
    } all[] = {{"take", RT_LEASE_TAKE, false},
               {"leave", RT_LEASE_LEAVE, true},
               {"renew", RT_LEASE_RENEW, false}};
    struct treat_kind kinds[3];
    struct rt_proxy *proxies[PROCESSES];
    struct treat_line lines[PROCESSES];
    snprintf(title, sizeof(title), "%s %s: replies lost, late", house->name, dialect->name);
    bool fenced = strcmp(dialect->name, "shedlock") != 0;
    struct stage_plan plan = {.title = title,
                              .processes = PROCESSES + 1,
                              .threads = 2,
                              .locks = 2,
                              .flags = STAGE_TRY | STAGE_GIVE_UP | (fenced ? 0 : STAGE_UNFENCED),
                              .ttl_ms = TTL_MS,
                              .long_permille = 10,
                              .long_ms = 1200,
                              .pause_us = 2000};
    struct stage *st = stage_new(&plan);
    struct treat_plan treat = {.kinds = kinds,
                               .kind_count = 3,
                               .lines = lines,
                               .line_count = PROCESSES,
                               .in_order = true,
                               .late_ms = TTL_MS * 13 / 10,
                               .rounds = 1 + stage_factor() / 4,
                               .stir = stir};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        words_of(all[i].kind, all[i].alone, words[i], sizeof(words[i]));
        kinds[i] = (struct treat_kind){all[i].name, words[i], false};
    }
    char *direct = url_of(0, "");
    stage_url(st, direct);
    free(direct);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        proxies[i] = house_proxy(stage_seed() + i);
        char *url = url_of(rt_proxy_port(proxies[i]), "");
        stage_url_of(st, i, url);
        lines[i] = (struct treat_line){&proxies[i], 1};
        free(url);
    }
    stage_start(st);
    size_t left = treat_all(st, &treat);
    size_t found = stage_finish(st, none_held, NULL);
    stage_free(st);
    assert_int_equal(found, 0);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < PROCESSES; i++)
        rt_proxy_stop(proxies[i]);
}

/* ---- One reply is lost --------------------------------------------------------------------------- */

struct duo { /* one client through a proxy, one without */
    struct rt_proxy *proxy;
    struct rota *proxied, *direct;
};

static void duo_begin(struct duo *d)
{
    d->proxy = house_proxy(1);
    char *direct = url_of(0, ""), *proxied = url_of(rt_proxy_port(d->proxy), "");
    d->direct = player(direct, LONG_TTL_MS, 0);
    d->proxied = player(proxied, LONG_TTL_MS, 0);
    free(direct);
    free(proxied);
}

static void duo_end(struct duo *d)
{
    rota_close(d->proxied);
    rota_close(d->direct);
    rt_proxy_stop(d->proxy);
}

/* A grant whose answer was lost is found again, by its owner. */
static void a_grant_unheard_is_found(void **state)
{
    static const enum rt_fault_do ends[] = {RT_FAULT_RESET, RT_FAULT_CUT};
    char words[100], name[20];
    struct duo d;
    (void)state;
    duo_begin(&d);
    words_of(RT_LEASE_TAKE, false, words, sizeof(words));
    for (size_t i = 0; i < 4; i++) {
        const struct rt_fault cut = {.on = RT_FAULT_REPLY, .what = ends[i % 2], .match = words};
        struct rota_ask ask = {.limit_ms = HOUSE_LIMIT_MS};
        struct rota_lock *lock = NULL;
        snprintf(name, sizeof(name), "odd%zu", i);
        assert_int_equal(rota_release(player_take(d.proxied, name, NULL)), 0);
        uint32_t fault = rt_proxy_fault(d.proxy, &cut);
        int err = rota_acquire(d.proxied, name, &ask, &lock);
        assert_int_equal(rt_proxy_fault_hits(d.proxy, fault), 1);
        assert_int_equal(err, 0);
        assert_int_equal(held(), 1);
        assert_int_equal(rota_release(lock), 0);
        assert_int_equal(held(), 0);
    }
    duo_end(&d);
}

/* A release whose answer was lost is done; it never claims what is not known. */
static void a_release_unheard_is_done(void **state)
{
    char words[100];
    struct duo d;
    (void)state;
    duo_begin(&d);
    words_of(RT_LEASE_LEAVE, true, words, sizeof(words));
    struct rota_lock *lock = player_take(d.proxied, "gone", NULL);
    const struct rt_fault cut = {.on = RT_FAULT_REPLY, .what = RT_FAULT_RESET, .match = words};
    uint32_t fault = rt_proxy_fault(d.proxy, &cut);
    assert_int_equal(rota_release(lock), ROTA_UNKNOWN);
    assert_int_equal(rt_proxy_fault_hits(d.proxy, fault), 1);
    assert_int_equal(held(), 0);
    assert_int_equal(rota_release(player_take(d.direct, "gone", NULL)), 0);
    duo_end(&d);
}

static void what_somebody_took_away_is_lost(void **state)
{
    struct duo d;
    struct player_lost lost = {0};
    (void)state;
    duo_begin(&d);
    struct rota_lock *lock = player_take(d.direct, "prize", &lost);
    assert_int_equal(held(), 1);
    house_ask("delete from %s", dialect->table);
    UNTIL(lost.calls == 1);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    duo_end(&d);
}

/* ---- Others -------------------------------------------------------------------------------------- */

static void insert_foreign(const char *name, const char *who, int seconds)
{
    char when[120];
    if (strcmp(dialect->name, "shedlock") == 0) {
        if (is_mysql())
            snprintf(when, sizeof(when), "timestampadd(second, %d, utc_timestamp(3))", seconds);
        else
            snprintf(when, sizeof(when), "%s + %d * interval '1 second'", utc(), seconds);
        house_ask(
            "insert into shedlock (name, lock_until, locked_at, locked_by) values ('%s', %s, %s, '%s')",
            name, when, utc(), who);
        return;
    }
    const char *now = now_us();
    house_ask(
        "insert into %s (name, %s, session, nonce, host, process, thread, label, since, expires) values "
        "('%s', %s, 5, 5, 'elsewhere', 7, 1, '%s', %s, %s + %d * 1000000)",
        dialect->table, strcmp(dialect->name, "row") == 0 ? "fence" : "version", name, now, who,
        now, now, seconds);
}

static void is_held_by(struct rota *r, const char *name, const char *label)
{
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(r, name, &line), 0);
    assert_int_equal(line->count, 1);
    const struct rota_place *place = &line->places[0];
    assert_string_equal(place->label, label);
    assert_true(place->flags & ROTA_PLACE_GRANTED);
    assert_false(place->flags & ROTA_PLACE_MINE);
    assert_true(place->left_ms > 0 && place->left_ms <= 600000);
    rota_line_free(line);
}

/* A holder is named, waited for, and broken by its number. */
static void a_foreign_holder_is_named(void **state)
{
    char *url = url_of(0, "");
    struct rota *r = player(url, LONG_TTL_MS, 0);
    struct rota_ask attempt = {.flags = ROTA_TRY};
    struct rota_lock *lock = NULL;
    (void)state;
    insert_foreign("job", "their-host", 600);
    assert_int_equal(rota_acquire(r, "job", &attempt, &lock), ROTA_BUSY);
    assert_non_null(strstr(rota_errmsg(r), "their-host"));
    is_held_by(r, "job", "their-host");
    house_ask("delete from %s", dialect->table);
    insert_foreign("job", "their-host", 1); /* it ends by itself */
    assert_int_equal(rota_release(player_take(r, "job", NULL)), 0);
    rota_close(r);
    free(url);
}

/* By hand, in the server, all rows become somebody else's, and for long. */
static void hand_over(void)
{
    if (strcmp(dialect->name, "shedlock") == 0)
        house_ask("update shedlock set locked_by = 'their-host', lock_until = %s",
                  is_mysql() ? "timestampadd(second, 600, lock_until)"
                             : "lock_until + interval '600 seconds'");
    else
        house_ask("update %s set session = 5, nonce = 5, expires = expires + 600000000",
                  dialect->table);
}

static void what_another_has_is_lost(void **state)
{
    struct duo d;
    struct player_lost lost = {0};
    (void)state;
    duo_begin(&d);
    struct rota_lock *lock = player_take(d.direct, "prize", &lost);
    hand_over();
    UNTIL(lost.calls == 1);
    assert_int_equal(rota_release(lock), ROTA_LOST);
    duo_end(&d);
}

static void what_another_has_is_not_released(void **state)
{
    struct duo d;
    (void)state;
    duo_begin(&d);
    struct rota_lock *lock = player_take(d.direct, "prize", NULL);
    hand_over();
    assert_int_equal(rota_release(lock), ROTA_LOST);
    assert_int_equal(held(), 1);
    duo_end(&d);
}

/* The server's clock differs from ours: the server's says who holds, and for how long. */
static void the_servers_clock_decides(void **state)
{
    static const int64_t shifts[] = {-HOUR, HOUR, 0};
    struct rota_ask attempt = {.flags = ROTA_TRY};
    struct duo d;
    (void)state;
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        struct rota_lock *other = NULL;
        struct rota_line *line = NULL;
        house_knob_set(&clock_of, shifts[i]);
        duo_begin(&d);
        struct rota_lock *lock = player_take(d.direct, "prize", NULL);
        assert_int_equal(rota_acquire(d.proxied, "prize", &attempt, &other), ROTA_BUSY);
        assert_int_equal(rota_inspect(d.proxied, "prize", &line), 0);
        assert_int_equal(line->count, 1);
        assert_true(line->places[0].left_ms > 0 && line->places[0].left_ms <= LONG_TTL_MS);
        rota_line_free(line);
        assert_int_equal(rota_release(lock), 0);
        assert_int_equal(held(), 0);
        duo_end(&d);
        house_ask("delete from %s",
                  dialect->table); /* by the next clock it might have an end again */
    }
}

/* Whoever looks sees ours for what they are: there until they are released. */
static void ours_are_there(void **state)
{
    char *url = url_of(0, "");
    struct rota *r = player(url, LONG_TTL_MS, 0);
    struct rota_lock *lock = player_take(r, "ours", NULL);
    (void)state;
    assert_int_equal(held(), 1);
    if (strcmp(dialect->name, "shedlock") == 0) /* ShedLock's own statement takes nothing */
        assert_int_equal(
            house_number("select count(*) from shedlock where name = 'ours' and lock_until <= %s",
                         utc()),
            0);
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(held(), 0);
    if (strcmp(dialect->name, "shedlock") == 0) /* and there it is never deleted */
        assert_int_equal(
            house_number("select count(*) from shedlock where name = 'ours' and lock_until <= %s",
                         utc()),
            1);
    rota_close(r);
    free(url);
}

/* ---- Tables -------------------------------------------------------------------------------------- */

static void refused(const char *more, int err, const char *why)
{
    struct rota_options opts = {.call_ms = 10000};
    struct rota *r = NULL;
    char *url = url_of(0, more);
    int rv = rota_open(&r, url, &opts);
    if (rv == 0) { /* it learns when it asks */
        struct rota_lock *lock = NULL;
        rv = rota_acquire(r, "x", &(struct rota_ask){.flags = ROTA_TRY}, &lock);
        if (strstr(rota_errmsg(r), why) == NULL)
            fail_msg("%s: %s", url, rota_errmsg(r));
        rota_close(r);
    } else if (strstr(rota_errmsg(NULL), why) == NULL) {
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    }
    assert_int_equal(rv, err);
    free(url);
}

static void tables_of_another_shape(void **state)
{
    (void)state;
    refused("&table=no-name", ROTA_INVALID, "no name of a table");
    house_ask("create table odd (name varchar(20))");
    refused("&table=odd", ROTA_UNSUPPORTED, "odd are of another shape");
    if (strcmp(dialect->name, "shedlock") == 0) {
        house_ask(
            "create table loose (name varchar(64), lock_until timestamp(3), locked_at timestamp(3) null, locked_by varchar(255))");
        refused("&table=loose", ROTA_UNSUPPORTED, "no unique key of its own");
        house_ask(
            "create table coarse (name varchar(64) primary key, lock_until %s, locked_at %s, locked_by varchar(255))",
            is_mysql() ? "datetime" : "timestamptz", is_mysql() ? "datetime" : "timestamptz");
        refused("&table=coarse", ROTA_UNSUPPORTED,
                is_mysql() ? "no milliseconds" : "without time zone");
        house_ask(
            "create table seconds (name varchar(64) primary key, lock_until timestamp(0), locked_at timestamp(0) null, locked_by varchar(255))");
        refused("&table=seconds", ROTA_UNSUPPORTED, "no milliseconds");
        house_ask("drop table seconds");
        house_ask("drop table loose");
        house_ask("drop table coarse");
    }
    house_ask("drop table odd");
}

/* A table of another name is another world; a name that does not fit is refused, not truncated. */
static void another_table(void **state)
{
    char *url = url_of(0, "&table=Jobs"), *usual = url_of(0, "");
    struct rota *r = player(url, LONG_TTL_MS, 0), *other = player(usual, LONG_TTL_MS, 0);
    struct rota_lock *lock = player_take(r, "x", NULL), *two = player_take(other, "x", NULL),
                     *no = NULL;
    char longer[80];
    (void)state;
    assert_int_equal(house_number("select count(*) from %s", is_mysql() ? "Jobs" : "jobs"), 1);
    memset(longer, 'n', 70);
    longer[70] = '\0';
    if (strcmp(dialect->name, "shedlock") == 0) {
        assert_int_equal(rota_acquire(r, longer, NULL, &no), ROTA_INVALID);
        assert_non_null(strstr(rota_errmsg(r), "has room for 64 characters"));
    }
    assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_release(two), 0);
    rota_close(r);
    rota_close(other);
    free(url);
    free(usual);
}

/* What the dead leave is swept, a hundred at a time. */
static void what_has_ended_is_swept(void **state)
{
    char *url = url_of(0, ""), name[20];
    (void)state;
    if (strcmp(dialect->name, "row") != 0) {
        free(url);
        return; /* their rows are not taken away, but taken over */
    }
    for (int i = 0; i < 150; i++) {
        snprintf(name, sizeof(name), "dead%d", i);
        insert_foreign(name, "dead", -5);
    }
    assert_int_equal(house_number("select count(*) from rota_row"), 150);
    struct rota *r = player(url, TTL_MS, 0); /* from here on it sweeps */
    int64_t end = players_now_ms() + HOUSE_LIMIT_MS;
    while (house_number("select count(*) from rota_row where label = 'dead'") > 0) {
        struct rota_lock *lock = NULL; /* on a slow machine its session may end meanwhile */
        if (rota_acquire(r, "alive", NULL, &lock) == 0)
            (void)rota_release(lock);
        players_pause(end, "what has ended is there still");
    }
    rota_close(r);
    free(url);
}

/* ---- Memory ------------------------------------------------------------------------------------- */

/* The Nth allocation from here on fails: an error or none, and then all works again. */
static void run_out(const char *url, long n)
{
    struct rota_options opts = {
        .flags = ROTA_NO_KEEPER, .ttl_ms = LONG_TTL_MS, .call_ms = HOUSE_LIMIT_MS / 2};
    struct rota_ask attempt = {.flags = ROTA_TRY};
    const char *const names[] = {"b", "a"};
    struct rota_lock *lock = NULL, *both[2] = {NULL, NULL};
    struct rota *r = NULL;
    assert_int_equal(rota_open(&r, url, &opts), 0);
    assert_int_equal(rota_release(player_take(r, "warm", NULL)), 0);
    scarce.fail_at = scarce.asked + n + 1;
    int err = n % 2 == 0 ? rota_acquire(r, "x", &attempt, &lock)
                         : rota_acquire_all(r, names, 2, &attempt, both);
    scarce.fail_at = 0;
    if (err == 0 && lock != NULL)
        assert_int_equal(rota_release(lock), 0);
    for (size_t i = 0; err == 0 && lock == NULL && i < 2; i++)
        assert_int_equal(rota_release(both[i]), 0);
    assert_int_equal(rota_release(player_take(r, "after", NULL)), 0);
    rota_close(r);
}

static void memory_runs_out_anywhere(void **state)
{
    char *url = url_of(0, "");
    (void)state;
    for (long n = 0; n < 24; n++) {
        scarce_begin();
        run_out(url, n);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
    free(url);
}

/* ---- All of them --------------------------------------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    house_knob_begin(&clock_of, HOUSE_CLOCK);
    house->start();
    house_knob_end(HOUSE_CLOCK);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    char *url = url_of(0, "");
    struct rota *r = player(url, 0, HOUSE_LIMIT_MS); /* which makes the tables */
    assert_int_equal(rota_release(player_take(r, "first", NULL)), 0);
    rota_close(r);
    free(url);
    house_ask("delete from %s", dialect->table);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_flight_in_every_way, clean),
        cmocka_unit_test_setup(a_grant_unheard_is_found, clean),
        cmocka_unit_test_setup(a_release_unheard_is_done, clean),
        cmocka_unit_test_setup(what_somebody_took_away_is_lost, clean),
        cmocka_unit_test_setup(what_another_has_is_lost, clean),
        cmocka_unit_test_setup(what_another_has_is_not_released, clean),
        cmocka_unit_test_setup(the_servers_clock_decides, clean),
        cmocka_unit_test_setup(a_foreign_holder_is_named, clean),
        cmocka_unit_test_setup(ours_are_there, clean),
        cmocka_unit_test_setup(tables_of_another_shape, clean),
        cmocka_unit_test_setup(another_table, clean),
        cmocka_unit_test_setup(what_has_ended_is_swept, clean),
        cmocka_unit_test_setup(memory_runs_out_anywhere, clean),
    };
    int failed = 0;
    if (!house_choose(argc, argv))
        return 64;
    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
        dialect = &leases[i];
        if (argc > 2 && strcmp(argv[2], dialect->name) != 0)
            continue;
        print_message("---- %s\n", dialect->name);
        failed += cmocka_run_group_tests(tests, start, house_teardown);
    }
    return failed;
}
