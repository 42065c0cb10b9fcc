/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon, the doctor, and forgetting. */
#include "cases.h"

#include "lib/proc.h"
#include "txn/fence/fence.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#define DAY_MS INT64_C(86400000)

/* ---- Doctor ----------------------------------------------------------------------- */

static const json_t *verdict_of(const json_t *all, const char *of, const char *promise)
{
    const json_t *rows = json_object_get(all, "verdicts"), *v;
    size_t i;

    json_array_foreach(rows, i, v)
    {
        if (strcmp(text_of(v, "of"), of) == 0 && strstr(text_of(v, "promise"), promise) != NULL)
            return v;
    }
    fail_msg("no verdict on '%s' of %s", promise, of);
    return NULL;
}

static void is_verdict(int code, const char *of, const char *promise, const char *verdict)
{
    json_t *all = run_json(code, "doctor", NULL);

    has_keys(all, "journal broken verdicts");
    has_keys(verdict_of(all, of, promise), "of promise verdict setting remedy");
    assert_string_equal(text_of(verdict_of(all, of, promise), "verdict"), verdict);
    json_decref(all);
}

static void doctor_reads_settings(void **state)
{
    (void)state;
    pg->admin("ALTER SYSTEM SET fsync = on; ");
    pg->admin("ALTER SYSTEM SET full_page_writes = on");
    pg->admin("ALTER SYSTEM SET synchronous_commit = on");
    pg->admin("SELECT pg_reload_conf()");
    my->admin("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    const struct said *said = run("doctor", NULL);
    assert_non_null(strstr(said->out, "innodb_flush_log_at_trx_commit = 1"));
    assert_non_null(strstr(said->out, "max_prepared_transactions = 64"));
    assert_non_null(strstr(said->out, "MariaDB 1"));
    is_verdict(said->code, "journal", "survives a crash", "kept");
    is_verdict(said->code, "shop", "prepared branches survive", "kept");

    my->admin("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    is_verdict(1, "shop", "prepared branches survive", "broken");
    my->admin("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    my->admin("SET GLOBAL read_only = 1");
    is_verdict(1, "shop", "takes writes", "broken");
    my->admin("SET GLOBAL read_only = 0");
    my->admin("REVOKE PROCESS ON *.* FROM rota@'%'");
    is_verdict(1, "shop", "others can finish", "broken");
    my->admin("GRANT PROCESS ON *.* TO rota@'%'");
    is_verdict(said->code, "shop", "others can finish", "kept");
}

/* Without the right PROCESS nobody is taken over, and the command says so; what waits cannot be seen. */
static void without_rights(void **state)
{
    struct left l = leave_decided(true);

    (void)state;
    my->admin("REVOKE PROCESS ON *.* FROM rota@'%'");
    json_t *all = run_json(1, "indoubt", NULL);
    const json_t *shop = entry_of(all, "resources", "resource", "shop");
    assert_true(json_is_true(json_object_get(shop, "asked")));
    assert_non_null(strstr(text_of(shop, "why"), "PROCESS"));
    json_decref(all);
    all = run_json(1, "resolve", "--commit", "--yes", l.text, NULL);
    assert_non_null(
        strstr(text_of(entry_of(all, "branches", "resource", "shop"), "why"), "PROCESS"));
    assert_string_equal(text_of(entry_of(all, "branches", "resource", "ledger"), "has"),
                        "committed");
    json_decref(all);
    assert_int_equal(my->prepared(), 1);
    my->admin("GRANT PROCESS ON *.* TO rota@'%'");
    json_decref(run_json(0, "resolve", "--commit", "--yes", l.text, NULL));
    is_at_both(&l, true);
}

static void prints_tables(void **state)
{
    char *url = pg->url(0);
    json_t *all = run_json(0, "--journal", url, "doctor", "--ddl", NULL);

    (void)state;
    const char *ddl = text_of(entry_of(all, "tables", "of", "journal"), "ddl");
    assert_non_null(strstr(ddl, "rota_txn_resource"));
    assert_non_null(
        strstr(text_of(entry_of(all, "tables", "of", "shop"), "ddl"), "ENGINE = InnoDB;"));
    assert_non_null(strstr(text_of(entry_of(all, "tables", "of", "ledger"), "ddl"), "rota_mark"));
    /* That is all a user who may not create anything needs. */
    pg->admin("CREATE ROLE poor LOGIN");
    pg->admin("REVOKE CREATE ON SCHEMA public FROM public");
    pg->admin(ddl);
    pg->admin("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO poor");
    char poor[512];
    snprintf(poor, sizeof(poor), "postgres://poor@127.0.0.1:%u/postgres", (unsigned)pg->port());
    json_decref(run_json(0, "--journal", poor, "ls", NULL));
    pg->admin("DROP OWNED BY poor; DROP ROLE poor");
    json_decref(all);
    const struct said *said = run("--journal", url, "doctor", "--ddl", "ledger", NULL);
    assert_memory_equal(said->out, "CREATE TABLE", 12);
    refuses(64, "no resource 'attic'", "doctor", "--ddl", "attic", NULL);
    free(url);
}

/* A journal that refuses every commit is not called sound: its floor is ahead, or its user may not write. */
static void doctor_of_a_journal_that_refuses(void **state)
{
    char reader[128], *url = pg->url(0);

    (void)state;
    json_decref(run_json(0, "--journal", url, "ls", NULL)); /* makes it */
    json_t *all = run_json(run("doctor", NULL)->code, "--journal", url, "doctor", NULL);
    assert_string_equal(text_of(verdict_of(all, "journal", "above its floor"), "verdict"), "kept");
    assert_string_equal(text_of(verdict_of(all, "journal", "be written"), "verdict"), "kept");
    json_decref(all);
    pg->admin("UPDATE rota_txn_meta SET n = 4102444800000 WHERE k = 'floor'"); /* the year 2100 */
    all = run_json(1, "--journal", url, "doctor", NULL);
    assert_string_equal(text_of(verdict_of(all, "journal", "above its floor"), "verdict"),
                        "broken");
    assert_non_null(
        strstr(text_of(verdict_of(all, "journal", "above its floor"), "setting"), "2100-"));
    assert_string_equal(text_of(verdict_of(all, "journal", "be written"), "verdict"), "kept");
    json_decref(all);
    pg->admin("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    snprintf(reader, sizeof(reader), "postgres://reader@127.0.0.1:%u/postgres",
             (unsigned)pg->port());
    all = run_json(1, "--journal", reader, "doctor", NULL);
    assert_string_equal(text_of(verdict_of(all, "journal", "be written"), "verdict"), "broken");
    assert_non_null(
        strstr(text_of(verdict_of(all, "journal", "be written"), "setting"), "permission denied"));
    json_decref(all);
    pg->admin("DROP OWNED BY reader; DROP ROLE reader");
    pg->admin("DROP TABLE rota_txn, rota_txn_branch, rota_txn_meta, rota_txn_resource");
    free(url);
}

static void prints_tables_of_mariadb(void **state)
{
    char *url = my->url(0), *text, *rest = NULL;
    json_t *all = run_json(0, "--journal", url, "doctor", "--ddl", "journal", NULL);

    (void)state;
    my->admin("REVOKE ALL ON locks.* FROM rota@'%'");
    my->admin("GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO rota@'%'");
    refuses(64, "rota txn doctor --ddl", "--journal", url, "ls", NULL);
    text = strdup(text_of(entry_of(all, "tables", "of", "journal"), "ddl"));
    my->admin("USE locks");
    for (char *s = strtok_r(text, ";", &rest); s != NULL; s = strtok_r(NULL, ";", &rest)) {
        for (char *c = s; *c != '\0'; c++)
            *c = *c == '\n' ? ' ' : *c;
        if (strspn(s, " ") < strlen(s))
            my->admin(s);
    }
    json_decref(run_json(0, "--journal", url, "ls", NULL));
    my->admin("GRANT ALL ON locks.* TO rota@'%'");
    json_decref(all);
    free(text);
    free(url);
}

/* ---- Forgetting ---------------------------------------------------------------------- */

static void put_marks(const struct left *l)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "INSERT INTO rota_mark VALUES (x'%s', 1, 1)", l->text);
    my->admin(sql);
    snprintf(sql, sizeof(sql), "INSERT INTO rota_mark VALUES (decode('%s', 'hex'), 2, 1)", l->text);
    pg->admin(sql);
}

/* A row in both fences, whose deadline was long ago. */
static void put_fences(const struct left *l, int state)
{
    char sql[200];

    snprintf(sql, sizeof(sql), "INSERT INTO rota_fence VALUES ('%s-0123456789ab', 1, %d, 0, %lld)",
             l->text, state, (long long)(desk_now_ms() - 3 * DAY_MS));
    my->admin(sql);
    pg->admin(sql);
}

/* How the list WITH that option shows it; NULL: it does not. */
static const char *listed_as(const char *with, const struct left *l)
{
    static char state[32];
    json_t *all = run_json(0, "ls", with, NULL);
    const json_t *row = entry_of(all, "transactions", "id", l->text);

    snprintf(state, sizeof(state), "%s", row != NULL ? text_of(row, "state") : "");
    json_decref(all);
    return state[0] != '\0' ? state : NULL;
}

/* A promise of three-phase commit at both. */
static void put_promise(const struct left *l, int mixed, int ended, int sure)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "INSERT INTO rota_promise VALUES ('%s', 4, 1, %d, %d, %d, 0, '7b7d')", l->text, mixed,
             ended, sure);
    my->admin(sql);
    pg->admin(sql);
}

/* Promises of finished transactions go; those mixed, unsure or not ended stay, whatever the journal has forgotten. */
static void put_promises(const struct left *old, const struct left *undone,
                         const struct left *fresh)
{
    struct left mixed = left_new(desk_now_ms() - 11 * DAY_MS, 60000),
                unsure = left_new(desk_now_ms() - 12 * DAY_MS, 60000),
                open = left_new(desk_now_ms() - 13 * DAY_MS, 60000);
    static const char ddl[] =
        "CREATE TABLE rota_promise (id CHAR(32) PRIMARY KEY, stance SMALLINT NOT NULL, how "
        "SMALLINT NOT NULL, mixed SMALLINT NOT NULL, ended SMALLINT NOT NULL, sure SMALLINT NOT "
        "NULL, until_ms BIGINT NOT NULL, body TEXT NOT NULL)";

    my->admin(ddl);
    pg->admin(ddl);
    put_promise(old, 0, 1, 1);
    put_promise(&mixed, 1, 1, 1);
    put_promise(&unsure, 0, 1, 0);
    put_promise(&open, 0, 0, 1);
    put_promise(undone, 0, 1, 1);
    put_promise(fresh, 0, 1, 1);
}

static void only_one_promise_went(const json_t *all)
{
    assert_int_equal(number_of(entry_of(all, "resources", "resource", "shop"), "promises"), 1);
    assert_int_equal(number_of(entry_of(all, "resources", "resource", "ledger"), "promises"), 1);
    assert_int_equal(my->number("SELECT COUNT(*) FROM rota_promise"), 5);
    assert_int_equal(pg->number("SELECT COUNT(*) FROM rota_promise"), 5);
    assert_int_equal(my->number("SELECT COUNT(*) FROM rota_promise WHERE mixed = 1"), 1);
    my->admin("DROP TABLE rota_promise");
    pg->admin("DROP TABLE rota_promise");
}

static void forgets_what_is_over(void **state)
{
    struct left old = left_new(desk_now_ms() - 10 * DAY_MS, 60000),
                reserved = left_new(desk_now_ms() - 11 * DAY_MS, 60000),
                undone = left_new(desk_now_ms() - 9 * DAY_MS, 60000),
                fresh = left_new(desk_now_ms() - DAY_MS, 60000);

    (void)state;
    decide(&old, true, NULL);
    decide(&undone, true, NULL);
    decide(&fresh, true, NULL);
    put_marks(&old);
    put_marks(&undone);
    put_marks(&fresh);
    my->admin(rt_fence_mysql.ddl);
    pg->admin(rt_fence_postgres.ddl);
    put_fences(&old, 3);
    put_fences(&reserved, 1); /* it is over, and nobody gave back what was reserved */
    put_fences(&undone, 3);
    put_fences(&fresh, 2);
    put_promises(&old, &undone, &fresh);
    mark_done(&old);
    mark_done(&fresh);
    assert_string_equal(listed_as("--all", &old), "committed"); /* it is over, and not forgotten */
    assert_string_equal(listed_as("--all", &undone), "committing");
    assert_null(listed_as(NULL, &old));
    json_t *all = run_json(1, "gc", "--keep", "8d", NULL); /* 1: the cellar of another case */
    has_keys(all, "before transactions unfinished resources");
    has_keys(entry_of(all, "resources", "resource", "shop"),
             "resource markers fences promises why");
    assert_int_equal(number_of(all, "transactions"), 1);
    assert_int_equal(number_of(all, "unfinished"), 1);
    assert_int_equal(number_of(entry_of(all, "resources", "resource", "shop"), "markers"), 1);
    assert_int_equal(number_of(entry_of(all, "resources", "resource", "ledger"), "markers"), 1);
    assert_int_equal(number_of(entry_of(all, "resources", "resource", "shop"), "fences"), 1);
    assert_int_equal(number_of(entry_of(all, "resources", "resource", "ledger"), "fences"), 1);
    assert_int_equal(my->number("SELECT COUNT(*) FROM rota_fence"), 3);
    assert_int_equal(pg->number("SELECT COUNT(*) FROM rota_fence WHERE state = 1"), 1);
    my->admin("DROP TABLE rota_fence");
    pg->admin("DROP TABLE rota_fence");
    only_one_promise_went(all);
    json_decref(all);
    assert_null(listed_as("--all", &old));
    assert_string_equal(listed_as("--all", &fresh), "committed");
    all = run_json(1, "outcome", old.text, NULL);
    assert_string_equal(text_of(all, "stand"), "expired");
    json_decref(all);
    json_decref(run_json(0, "outcome", undone.text, NULL));
    json_decref(run_json(0, "outcome", fresh.text, NULL));
    assert_true(has_mark(my, &(struct rt_part){.name = {.id = undone.id, .branch = 1}}));
    assert_false(has_mark(pg, &(struct rt_part){.name = {.id = old.id, .branch = 2}}));
    json_decref(
        run_json(0, "resolve", "--commit", "--yes", undone.text, NULL)); /* its markers say so */
}

/* ---- The daemon --------------------------------------------------------------------------- */

static bool has_line(const char *path, const char *text)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        found = found || strcmp(line, text) == 0;
    if (file != NULL)
        fclose(file);
    return found;
}

static void a_daemon_recovers(void **state)
{
    struct daemon d;
    struct left yes = leave_decided(true), no = leave_prepared(-10000);

    (void)state;
    daemon_start(&d);
    hears(&d, "READY=1");
    wait_until_prepared(0, 0);
    is_at_both(&yes, true);
    is_at_both(&no, false);
    hears(&d, "WATCHDOG=1");
    while (!has_line(d.metrics, "rota_txn_up 1\n")) /* the watchdog ends it */
        poll(NULL, 0, 50);
    daemon_stop(&d);
}

/* A daemon's own file: the desk's shop, and these lines. */
static void write_own(const char *path, const char *more)
{
    char line[700];
    FILE *from = fopen(resources, "re"), *to = fopen(path, "we");

    assert_true(from != NULL && to != NULL);
    assert_int_equal(chmod(path, 0600), 0);
    while (fgets(line, sizeof(line), from) != NULL)
        if (strncmp(line, "shop ", 5) == 0)
            fputs(line, to);
    fputs(more, to);
    fclose(from);
    fclose(to);
}

/* Addresses are corrected while it runs; a file that cannot be used changes nothing. */
static void a_daemon_reads_its_resources_again(void **state)
{
    char own[400], old[400], good[600], attic[600], *url = pg->url(0);
    struct left l = leave_decided(true), named = leave_prepared(60000);
    struct daemon d;

    (void)state;
    decide(&named, true, "attic");
    snprintf(own, sizeof(own), "%s/own", rt_tmpdir());
    snprintf(old, sizeof(old), "%s", resources);
    write_own(own, "ledger = postgres://rota@127.0.0.1:1/postgres\n");
    snprintf(resources, sizeof(resources), "%s", own);
    daemon_start(&d);
    snprintf(resources, sizeof(resources), "%s", old);
    wait_until_prepared(0, 2);
    logs(&d, "attic: this machine has no URL for it");
    write_own(own, "ledger postgres://somewhere\n");
    logs(&d, "the list of resources was not read again, the old one stays: ");
    logs(&d, "/own:2: this is not NAME = URL");
    assert_int_equal(pg->prepared(), 2);
    snprintf(good, sizeof(good), "ledger = %s\n", url);
    write_own(own, good);
    logs(&d, "the list of resources was read again: ledger has another URL");
    wait_until_prepared(0, 0);
    is_at_both(&l, true);
    is_at_both(&named, true);
    assert_int_equal(kill(d.pid, SIGHUP), 0);
    logs(&d, "the list of resources was read again: no name has another URL");
    snprintf(attic, sizeof(attic), "%sattic = %s\n", good, url);
    write_own(own, attic);
    logs(&d, "the list of resources was read again: attic is new");
    logs(&d, "attic: decided COMMIT, but the participant has neither the branch nor its marker");
    write_own(own, "");
    logs(&d, "ledger is no longer named, and stays until the end");
    json_decref(run_json(0, "resolve", "--done", "--yes", named.text, NULL));
    daemon_stop(&d);
    free(url);
}

const struct CMUnitTest cases_service[] = {
    cmocka_unit_test(doctor_reads_settings),
    cmocka_unit_test(without_rights),
    cmocka_unit_test(doctor_of_a_journal_that_refuses),
    cmocka_unit_test(prints_tables),
    cmocka_unit_test(prints_tables_of_mariadb),
    cmocka_unit_test(forgets_what_is_over),
    cmocka_unit_test(a_daemon_recovers),
    cmocka_unit_test(a_daemon_reads_its_resources_again),
};
const size_t cases_service_count = sizeof(cases_service) / sizeof(cases_service[0]);
