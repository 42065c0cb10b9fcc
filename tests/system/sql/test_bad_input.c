/* SPDX-License-Identifier: Apache-2.0 */
/* SQL servers that refuse, cannot, or are not SQL servers; names of every kind; tables that are not ours: one clear
 * error, and nothing was changed. What a driver by itself says is in tests/unit. */
#include "house.h"
#include "lib/history.h"
#include "lib/players.h"
#include "lib/refusal.h"
#include "lib/rogue.h"
#ifdef HOUSE_MYSQL
#include "lib/mysql_server.h"
#endif

#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CALL_MS 15000 /* a refusal comes long before: no case here waits this long */
#define SHORT_MS 1500 /* where a timeout ends it */
#define SAID_MS 5000  /* the same, where a slow server has to say something before */
#define GALERA "/usr/lib/galera/libgalera_smm.so" /* comes with Debian's server */
#define SECRET "hush-Wr0ng-7c1"

static const char *const secrets[] = {SECRET, NULL};

static void assert_url(const char *url, int err, const char *words)
{
    struct refusal r = refusal_of(url, CALL_MS);
    refusal_assert(&r, err, words, secrets);
}

static void assert_good(void)
{
    char *url = house->url(0);
    struct refusal r = refusal_of(url, CALL_MS);
    if (r.err != 0)
        fail_msg("%s", r.text);
    free(url);
}

static const char *scheme(void)
{
    return house->driver->schemes[0];
}

static const char *database(void)
{
    return house->driver->notifies ? "postgres" : "locks";
}

/* As USER, with the password SECRET. */
static const char *url_of(const char *user, const char *where)
{
    static char url[400];
    snprintf(url, sizeof(url), "%s://%s@127.0.0.1:%u/%s", scheme(), user, (unsigned)house->port(),
             where);
    return url;
}

/* ---- Who may --------------------------------------------------------------------------------------- */

static void add_user(const char *name)
{
    if (house->driver->notifies)
        house_ask("create user %s password '" SECRET "'", name);
    else
        house_ask("CREATE USER %s@'%%' IDENTIFIED BY '" SECRET "'", name);
}

static void drop_tables(void)
{
    house_ask("drop table if exists rota_ticket");
    house_ask("drop table if exists rota_line");
    house_ask("drop table if exists rota_session");
    house_ask("drop table if exists rota_meta");
}

static long long tables(void)
{
    return house_number("select count(*) from information_schema.tables where table_schema in "
                        "('public', 'locks') and table_name like 'rota%%'");
}

static void users(void **state)
{
    (void)state;
    setenv("ROTA_PASSWORD", SECRET, 1);
    if (!house->driver->notifies) /* the other lets anybody in */
        assert_url(url_of("rota", database()), ROTA_AUTH, "rota|password");
    assert_url(url_of("nobody", database()), ROTA_AUTH, "nobody");
    add_user("reader");
    if (!house->driver->notifies)
        house_ask("GRANT SELECT ON locks.* TO reader@'%%'");
    else
        house_ask("grant select on rota_meta, rota_session, rota_line, rota_ticket to reader");
    assert_url(url_of("reader", "nowhere"), house->driver->notifies ? ROTA_INVALID : ROTA_AUTH,
               "nowhere");
    assert_url(url_of("reader", database()), ROTA_AUTH, "denied");
    drop_tables();
    if (house->driver->notifies)
        house_ask("revoke create on schema public from public");
    assert_url(url_of("reader", database()), ROTA_UNSUPPORTED, "tables|rota doctor --ddl");
    assert_int_equal(tables(), 0);
    unsetenv("ROTA_PASSWORD");
    assert_good();
}

#ifdef HOUSE_MYSQL
struct heard { /* lines of a log */
    pthread_mutex_t mutex;
    int lines, denied;
};

static void hear(void *arg, int level, const char *line)
{
    struct heard *h = arg;
    pthread_mutex_lock(&h->mutex);
    h->lines += level <= ROTA_LOG_WARN;
    h->denied += strstr(line, "denied") != NULL;
    pthread_mutex_unlock(&h->mutex);
}

struct wish {
    struct rota *rota;
    struct rota_lock *lock;
    int err;
};

static void *wish_for(void *arg)
{
    struct wish *w = arg;
    struct rota_ask ask = {.flags = ROTA_REJOIN};
    w->err = rota_acquire(w->rota, "x", &ask, &w->lock);
    return NULL;
}

static long long refused(void)
{
    return house_number("select variable_value from information_schema.global_status where "
                        "variable_name = 'ACCESS_DENIED_ERRORS'");
}

/* Somebody changes the password of a waiting client, and ends its connections: it retries again and again, says so in
 * one line and not in one for each try, and goes on when the password is right again. */
static void change_password(const char *where, const char *waiting)
{
    struct heard h = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct rota_options options = {.log = hear, .log_arg = &h};
    struct wish holder = {0}, waiter = {0};
    pthread_t thread;
    assert_int_equal(rota_open(&holder.rota, url_of("host", where), NULL), 0);
    (void)wish_for(&holder);
    assert_int_equal(holder.err, 0);
    assert_int_equal(rota_open(&waiter.rota, url_of("guest", where), &options), 0);
    assert_int_equal(pthread_create(&thread, NULL, wish_for, &waiter), 0);
    while (house_number("%s", waiting) == 0)
        usleep(20000);
    house_ask("ALTER USER guest@'%%' IDENTIFIED BY 'another'");
    long long before = refused();
    house_ask("KILL USER guest");
    while (refused() < before + 8)
        usleep(20000);
    pthread_mutex_lock(&h.mutex);
    print_message("%s: %d lines, %d of them of the refusal\n", where, h.lines, h.denied);
    assert_in_range(h.denied, 1, 3);
    assert_in_range(h.lines, 1, 7);
    pthread_mutex_unlock(&h.mutex);
    house_ask("ALTER USER guest@'%%' IDENTIFIED BY '" SECRET "'");
    assert_int_equal(rota_release(holder.lock), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.err, 0);
    assert_int_equal(rota_release(waiter.lock), 0);
    rota_close(waiter.rota);
    rota_close(holder.rota);
}

static void a_password_that_changes(void **state)
{
    (void)state;
    setenv("ROTA_PASSWORD", SECRET, 1);
    add_user("guest");
    add_user("host");
    house_ask("GRANT ALL ON locks.* TO guest@'%%', host@'%%'");
    house_ask("GRANT PROCESS ON *.* TO guest@'%%', host@'%%'");
    change_password("locks", "select count(*) from rota_ticket where not granted");
    change_password("locks?dialect=getlock",
                    "select count(*) from information_schema.processlist where user = 'guest' and "
                    "state = 'User lock'");
    unsetenv("ROTA_PASSWORD");
}
#endif

/* ---- Tables of others ------------------------------------------------------------------------------- */

static void tables_of_others(void **state)
{
    char *url = house->url(0);
    (void)state;
    drop_tables();
    house_ask("create table rota_line (id int primary key, content varchar(20))");
    house_ask("insert into rota_line values (7, 'not yours')");
    assert_url(url, ROTA_UNSUPPORTED, "rota_|shape");
    assert_string_equal(house_ask("select content from rota_line where id = 7"), "not yours");
    drop_tables();
    house_ask("create table rota_meta (k varchar(20) primary key, v varchar(20))");
    house_ask("insert into rota_meta values ('colour', 'green')");
    assert_url(url, ROTA_UNSUPPORTED, "rota_meta|layout");
    assert_int_equal(house_number("select count(*) from rota_meta"), 1);
    house_ask("insert into rota_meta values ('layout', '9.0')");
    assert_url(url, ROTA_UNSUPPORTED, "layout 9.0");
    assert_int_equal(house_number("select count(*) from rota_meta"), 2);
    drop_tables();
    assert_good();
    free(url);
}

/* They are dropped, or changed, while somebody works with them. */
static void tables_taken_away(void **state)
{
    char *url = house->url(0);
    struct rota *r = player(url, 0, CALL_MS);
    struct rota_lock *lock = player_take(r, "before", NULL);
    (void)state;
    drop_tables();
    assert_int_not_equal(rota_check(lock), 0);
    (void)rota_release(lock);
    int gone = rota_acquire(r, "after", NULL, &lock); /* the session went with them */
    assert_true(gone == 0 || gone == ROTA_LOST);
    if (gone == 0)
        assert_int_equal(rota_release(lock), 0);
    assert_int_equal(rota_release(player_take(r, "after", NULL)), 0); /* made anew */
    house_ask("alter table rota_line drop column watched");
    struct rota_ask ask = {.limit_ms = SAID_MS};
    int err = rota_acquire(r, "never", &ask, &lock);
    print_message("%s: %s\n", rota_strerror(err), rota_errmsg(r));
    assert_true(err == ROTA_UNREACHABLE || err == ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_errmsg(r), "rota_"));
    rota_close(r);
    drop_tables();
    assert_good();
    free(url);
}

/* ---- Names ------------------------------------------------------------------------------------------ */

static const char *const names[] = {
    "it's",
    "\"quoted\"",
    "back\\slash",
    "back\\",
    "\\'",
    "'; drop table rota_line; --",
    "$1 ?1 ? %s %n :name @var",
    "`tick`",
    "/* comment */ -- #",
    "a",
    "A",
    "a ",
    " a",
    "a  ",
    "\xc3\xa4",  /* a umlaut */
    "a\xcc\x88", /* the same, composed */
    "\xc3\x84",  /* the capital */
    "\xc3\x9f",  /* sharp s */
    "ss",
    "\xe9\x94\x81\xe6\x9c\x8d\xe5\x8a\xa1",     /* Chinese */
    "\xd7\xa0\xd7\xa2\xd7\x99\xd7\x9c\xd7\x94", /* from right to left */
    "\xd0\x97\xd0\xb0\xd0\xbc\xd0\xbe\xd0\xba", /* Cyrillic */
    "\xf0\x9f\x94\x92\xf0\x9f\x94\x91",         /* beyond the first plane */
    "\xf4\x8f\xbf\xbd",                         /* the last there is */
    "%",
    "_",
    "percent%and_score",
    "NULL",
    "0",
    "0x41",
    "1e5",
    "true",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* How many lines that begin with PREFIX are NAME. */
static size_t listed(struct rota *r, const char *prefix, const char *name, size_t *all)
{
    struct rota_line *lines = NULL;
    size_t count = 0, seen = 0;
    assert_int_equal(rota_list(r, prefix, &lines, &count), 0);
    for (size_t i = 0; i < count; i++)
        seen += strcmp(lines[i].name, name) == 0 && lines[i].count == 1;
    rota_list_free(lines, count);
    *all = count;
    return seen;
}

/* All of them are different locks, held at once; another client lists and sees them as they are; labels and values,
 * too. */
static void all_names(const char *url)
{
    struct rota_options options = {.label = "O'Brien \\ \"x\" $1 ?1", .call_ms = CALL_MS};
    static struct rota_lock *held[NAMES];
    struct rota *r = NULL, *other = player(url, 0, CALL_MS);
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota_lock *none = NULL;
    size_t all;
    assert_int_equal(rota_open(&r, url, &options), 0);
    for (size_t i = 0; i < NAMES; i++)
        held[i] = player_take(r, names[i], NULL);
    for (size_t i = 0; i < NAMES; i++) {
        struct rota_line *line = NULL;
        assert_int_equal(rota_acquire(other, names[i], &try, &none), ROTA_BUSY);
        assert_int_equal(rota_inspect(other, names[i], &line), 0);
        assert_int_equal(line->count, 1);
        assert_string_equal(line->places[0].label, options.label);
        rota_line_free(line);
    }
    for (size_t i = 0; i < NAMES; i++) {
        if (listed(other, "", names[i], &all) != 1)
            fail_msg("'%s' is not listed once", names[i]);
        assert_int_equal(all, NAMES);
        assert_int_equal(listed(other, names[i], names[i], &all), 1);
    }
    assert_int_equal(listed(other, "%", "%", &all), 1); /* only of what begins with it */
    assert_int_equal(all, 1);
    for (size_t i = 0; i < NAMES; i++)
        assert_int_equal(rota_release(held[i]), 0);
    rota_close(r);
    rota_close(other);
}

static void names_of_every_kind(void **state)
{
    char *url = house->url(0);
    (void)state;
    all_names(url);
    if (house->driver->notifies) {
        house_ask("alter system set standard_conforming_strings = off");
        house_ask("alter system set client_encoding = 'LATIN1'");
        house_ask("select pg_reload_conf()");
        all_names(url);
        house_ask("alter system reset all");
        house_ask("select pg_reload_conf()");
    } else {
        house_ask(
            "SET GLOBAL sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'");
        house_ask("SET GLOBAL character_set_server=latin1");
        house_ask("SET GLOBAL character_set_client=sjis");
        house_ask("SET GLOBAL init_connect='SET NAMES big5'");
        all_names(url);
        house_ask("SET GLOBAL sql_mode=DEFAULT, character_set_server=DEFAULT, init_connect=''");
    }
    free(url);
}

/* Databases that are not in UTF-8: one byte a letter, letters with bytes that mean something by themselves, no
 * ASCII. */
static void databases_of_every_kind(void **state)
{
    static const char *const pg[] = {"SQL_ASCII", "LATIN1", "WIN1251", "EUC_JP", "MULE_INTERNAL"};
    static const char *const my[] = {"latin1", "utf8mb3", "ucs2", "utf32", "gbk", "sjis", "big5"};
    const char *const *sets = house->driver->notifies ? pg : my;
    size_t count = house->driver->notifies ? sizeof(pg) / sizeof(pg[0])
                                           : sizeof(my) / sizeof(my[0]);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        char *url = house->url(0),
             *at = strstr(url, house->driver->notifies ? "/postgres" : "/locks"), odd[1000];
        at = strstr(url + strlen("postgres://"), house->driver->notifies ? "/postgres" : "/locks");
        snprintf(odd, sizeof(odd), "%.*s/odd%zu%s", (int)(at - url), url, i,
                 at + strlen(house->driver->notifies ? "/postgres" : "/locks"));
        if (house->driver->notifies) {
            house_ask("create database odd%zu encoding '%s' locale 'C' template template0", i,
                      sets[i]);
        } else {
            house_ask("CREATE DATABASE odd%zu CHARACTER SET %s", i, sets[i]);
            house_ask("GRANT ALL ON odd%zu.* TO rota@'%%'", i);
        }
        print_message("%s\n", sets[i]);
        struct refusal r = refusal_of(odd, CALL_MS);
        if (r.err == 0)
            all_names(odd);
        else
            refusal_assert(&r, r.err == ROTA_PROTOCOL ? r.err : ROTA_UNSUPPORTED, "UTF", secrets);
        free(url);
    }
}

/* ---- Replicas, and what strict asks for ---------------------------------------------------------------- */

static struct refusal strictly(const char *url)
{
    struct rota_options opts = {.flags = ROTA_STRICT, .call_ms = CALL_MS};
    struct refusal refusal = {0};
    struct rota *r = NULL;
    int64_t since = rt_history_now();
    int err = rota_open(&r, url, &opts);
    refusal_note(&refusal, err, err != 0 ? rota_errmsg(NULL) : "", since);
    if (err == 0)
        rota_close(r);
    return refusal;
}

static void replicas_and_strict(void **state)
{
    (void)state;
    house->start_logged();
    char *url = house->url(0);
    struct refusal r = strictly(url);
    if (house->driver->notifies)
        refusal_assert(&r, ROTA_UNSAFE, "strict|fsync", secrets);
    else
        refusal_assert(&r, ROTA_UNSAFE, "strict|sync_binlog", secrets);
    house->follow();
    if (!house->driver->notifies) {
        house_ask("SET GLOBAL sync_binlog=1");
        r = strictly(url);
        refusal_assert(&r, ROTA_UNSAFE, "strict|replica", secrets);
        house_ask("SET GLOBAL innodb_flush_log_at_trx_commit=2");
        r = strictly(url);
        refusal_assert(&r, ROTA_UNSAFE, "strict|innodb_flush_log_at_trx_commit", secrets);
    }
    assert_good();
    char *replica = house->replica_url();
    r = refusal_of(replica, SAID_MS);
    refusal_assert(&r, ROTA_UNREACHABLE, "replica|read-only", secrets);
    free(replica);
    free(url);
    house->fini();
}

/* ---- What only MariaDB can be ------------------------------------------------------------------------- */

#ifdef HOUSE_MYSQL
static void tables_of_another_kind(void **state)
{
    char *url = house->url(0);
    (void)state;
    house_ask("ALTER TABLE rota_meta ENGINE=MyISAM");
    assert_url(url, ROTA_UNSUPPORTED, "rota|InnoDB");
    house_ask("ALTER TABLE rota_meta ENGINE=InnoDB");
    assert_good();
    free(url);
}

/* What would be longer becomes null there, without an error: rota_list found nothing. Connected clients go on. */
static void small_packets(void **state)
{
    char *url = house->url(0);
    struct rota *r = player(url, 0, CALL_MS);
    struct rota_lock *lock = player_take(r, "before", NULL);
    size_t all;
    (void)state;
    house_ask("SET GLOBAL max_allowed_packet=1024");
    assert_url(url, ROTA_UNSUPPORTED, "max_allowed_packet is 1024|1048576");
    assert_int_equal(listed(r, "", "before", &all), 1);
    house_ask("SET GLOBAL max_allowed_packet=DEFAULT");
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    assert_good();
    free(url);
}

/* With the smallest limit that is accepted. What many ask for at once, by the longest names there are, does not fit
 * into one packet: then each asks for itself. A set cannot, and is told so. */
static void packets_that_are_too_large(void **state)
{
    enum { LONG = 255, ASKS = 160, SET = 100, LASTING_MS = 60000 }; /* nobody is to be lost here */
    static struct player_wish wishes[ASKS];
    static char at[ASKS][LONG + 1];
    static const char *set[SET];
    static struct rota_lock *held[ASKS], *locks[SET];
    char *url = house->url(0);
    (void)state;
    house_ask("SET GLOBAL max_allowed_packet=1048576");
    struct rota *a = player(url, LASTING_MS, CALL_MS), *b = player(url, LASTING_MS, CALL_MS);
    for (size_t i = 0; i < ASKS; i++) {
        memset(at[i], '%', LONG); /* three bytes each */
        at[i][0] = (char)('A' + i / 20);
        at[i][1] = (char)('A' + i % 20);
        held[i] = player_take(a, at[i], NULL);
    }
    for (size_t i = 0; i < ASKS; i++)
        player_wish(b, at[i], ROTA_EXCLUSIVE, &wishes[i]);
    for (size_t i = 0; i < ASKS; i++)
        player_counts(a, at[i], 2);
    for (size_t i = 0; i < ASKS; i++) {
        assert_int_equal(rota_release(held[i]), 0);
        assert_int_equal(rota_release(player_wished(&wishes[i], 0)), 0);
    }
    rota_close(a);
    for (size_t i = 0; i < SET; i++)
        set[i] = at[i];
    int64_t since = rt_history_now();
    int err = rota_acquire_all(b, set, SET, NULL, locks);
    struct refusal r = {0};
    refusal_note(&r, err, rota_errmsg(b), since);
    refusal_assert(&r, ROTA_PROTOCOL, "max_allowed_packet", secrets);
    assert_int_equal(rota_release(player_take(b, at[0], NULL)),
                     0); /* nothing was done, and it goes on */
    rota_close(b);
    house_ask("SET GLOBAL max_allowed_packet=DEFAULT");
    free(url);
}

/* A cluster of one node. */
static void galera(void **state)
{
    static struct rt_mariadb m;
    char listen[100];
    int anchor;
    (void)state;
    snprintf(listen, sizeof(listen),
             "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%u",
             (unsigned)rt_port_reserve(&anchor));
    struct rt_mariadb_options opts = {
        .extra = {"--wsrep-on=ON", "--wsrep-provider=" GALERA, "--wsrep-cluster-address=gcomm://",
                  "--binlog-format=ROW", "--wsrep-node-address=127.0.0.1", listen}};
    rt_mariadb_start(&m, &opts);
    char *url = rt_mariadb_url(&m, 0);
    assert_url(url, ROTA_UNSUPPORTED, "Galera|wsrep_on");
    assert_string_equal(rt_mariadb_ask(&m, "SHOW TABLES"), "");
    free(url);
    rt_mariadb_fini(&m);
    close(anchor); /* nobody else is given the port before */
}
#endif

/* ---- Who is none --------------------------------------------------------------------------------------- */

static void nobody_and_strangers(void **state)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    static const enum rogue_way ways[] = {ROGUE_SAYS,  ROGUE_FLOODS, ROGUE_HANGS_UP, ROGUE_ECHOES,
                                          ROGUE_NOISE, ROGUE_CLOSES, ROGUE_MUTE};
    char url[200];
    (void)state;
    setenv("ROTA_PASSWORD", SECRET, 1);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct rogue_options opts = {.way = ways[i],
                                     .first = http,
                                     .first_size = sizeof(http) - 1,
                                     .then = http,
                                     .then_size = sizeof(http) - 1,
                                     .seed = stage_seed()};
        struct rogue *rogue = rogue_start(&opts);
        snprintf(url, sizeof(url), "%s://rota@127.0.0.1:%u/%s", scheme(),
                 (unsigned)rogue_port(rogue), database());
        struct refusal r = refusal_of(url, SHORT_MS);
        refusal_assert(&r, r.err, "127.0.0.1", secrets);
        assert_true(r.err == ROTA_PROTOCOL || r.err == ROTA_UNREACHABLE);
        rogue_stop(rogue);
    }
    unsetenv("ROTA_PASSWORD");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_every_kind),
        cmocka_unit_test(databases_of_every_kind),
        cmocka_unit_test(tables_of_others),
        cmocka_unit_test(tables_taken_away),
        cmocka_unit_test(users),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(nobody_and_strangers),
        cmocka_unit_test(replicas_and_strict),
    };
    if (!house_choose(argc, argv))
        return 64;
    int failed = cmocka_run_group_tests(tests, house_setup, house_teardown);
    failed += cmocka_run_group_tests(others, NULL, NULL);
#ifdef HOUSE_MYSQL
    const struct CMUnitTest settings[] = {
        cmocka_unit_test(tables_of_another_kind),
        cmocka_unit_test(small_packets),
        cmocka_unit_test(packets_that_are_too_large),
        cmocka_unit_test(a_password_that_changes),
    };
    const struct CMUnitTest clusters[] = {cmocka_unit_test(galera)};
    if (house == &house_mysql)
        failed += cmocka_run_group_tests(settings, house_setup, house_teardown);
    if (house == &house_mysql && access(GALERA, R_OK) == 0)
        failed += cmocka_run_group_tests(clusters, NULL, NULL);
#endif
    return failed;
}
