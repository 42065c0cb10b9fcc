/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor judges by: the settings of a database, a verdict per promise. */
#include "txn/cli/verdicts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 8
#define CELL 128

struct row { /* the first row of an answer */
    bool told;
    char cell[CELLS][CELL];
};

struct patient {
    const struct rt_visit *visit;
    const char *name;
    rt_finding_fn *fn;
    void *arg;
};

static void tell(const struct patient *p, const char *promise, const char *verdict,
                 const char *setting, const char *remedy)
{
    const struct rt_finding f = {p->name, promise, verdict, setting, remedy};

    p->fn(p->arg, &f);
}

static void judge(const struct patient *p, const char *promise, bool kept, const char *setting,
                  const char *remedy)
{
    tell(p, promise, kept ? "kept" : "broken", setting, kept ? "" : remedy);
}

static void take_row(void *arg, int cells, char *const *values)
{
    struct row *row = arg;

    for (int i = 0; !row->told && i < cells && i < CELLS; i++)
        snprintf(row->cell[i], CELL, "%s", values[i] != NULL ? values[i] : "");
    row->told = true;
}

static int ask(const struct patient *p, const char *sql, struct row *row)
{
    struct rt_party_op op = {.what = RT_PARTY_LOOK,
                             .look = {.sql = sql, .row = take_row, .arg = row}};

    memset(row, 0, sizeof(*row));
    return rt_txns_errand(p->visit->m, p->name, &op);
}

/* ---- MariaDB ------------------------------------------------------------------------ */

static void mysql_durable(const struct patient *p)
{
    struct row row;
    char setting[2 * CELL];

    int err = ask(
        p,
        "SELECT @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, "
        "@@global.innodb_doublewrite, @@global.read_only",
        &row);
    if (err != 0) {
        tell(p, "prepared branches survive a crash", "limited", rota_txn_errmsg(p->visit->m),
             "the settings cannot be read");
        return;
    }
    snprintf(setting, sizeof(setting), "innodb_flush_log_at_trx_commit = %s", row.cell[0]);
    judge(p, "prepared branches survive a crash", strcmp(row.cell[0], "1") == 0, setting,
          "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration");
    snprintf(setting, sizeof(setting), "innodb_doublewrite = %s", row.cell[3]);
    judge(p, "pages are whole after a crash",
          strcmp(row.cell[3], "1") == 0 || strcasecmp(row.cell[3], "on") == 0, setting,
          "innodb_doublewrite = ON in the server's configuration");
    bool logs = strcmp(row.cell[1], "1") == 0;
    snprintf(setting, sizeof(setting), logs ? "log_bin = ON, sync_binlog = %s" : "log_bin = OFF",
             row.cell[2]);
    judge(p, "the binary log agrees after a crash", !logs || strcmp(row.cell[2], "1") == 0, setting,
          "SET GLOBAL sync_binlog = 1, and in the server's configuration");
    snprintf(setting, sizeof(setting), "read_only = %s", row.cell[4]);
    judge(p, "it takes writes",
          strcmp(row.cell[4], "0") == 0 || strcasecmp(row.cell[4], "off") == 0, setting,
          "a replica: name its primary as the resource");
}

static void mysql_rights(const struct patient *p)
{
    struct row row;
    char setting[3 * CELL];
    int err = ask(p, "SELECT COUNT(*) FROM information_schema.INNODB_TRX", &row);

    judge(p, "others can finish its branches", err == 0,
          err == 0 ? "the privilege PROCESS is there" : rota_txn_errmsg(p->visit->m),
          "GRANT PROCESS ON *.* TO the resource's user");
    if (err != 0)
        return;
    err = ask(p,
              "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Slave\\_%'",
              &row);
    if (err != 0)
        return;
    snprintf(setting, sizeof(setting), "%s replication threads", row.cell[0]);
    judge(
        p, "it is not a replica", strcmp(row.cell[0], "0") == 0, setting,
        "a replica: what is prepared there is not at its primary; name the primary as the resource");
}

/* ---- PostgreSQL ----------------------------------------------------------------------- */

static void postgres_durable(const struct patient *p)
{
    struct row row;
    char setting[3 * CELL];

    int err = ask(p,
                  "SELECT current_setting('fsync'), current_setting('full_page_writes'), "
                  "(SELECT setting FROM pg_settings WHERE name = 'synchronous_commit'), "
                  "current_setting('max_prepared_transactions'), "
                  "(SELECT count(*) FROM pg_prepared_xacts)",
                  &row);
    if (err != 0) {
        tell(p, "prepared branches survive a crash", "limited", rota_txn_errmsg(p->visit->m),
             "the settings cannot be read");
        return;
    }
    snprintf(setting, sizeof(setting), "fsync = %s", row.cell[0]);
    judge(p, "prepared branches survive a crash", strcmp(row.cell[0], "on") == 0, setting,
          "ALTER SYSTEM SET fsync = on, then reload");
    snprintf(setting, sizeof(setting), "full_page_writes = %s", row.cell[1]);
    judge(p, "pages are whole after a crash", strcmp(row.cell[1], "on") == 0, setting,
          "ALTER SYSTEM SET full_page_writes = on, then reload");
    snprintf(setting, sizeof(setting), "synchronous_commit = %s", row.cell[2]);
    bool off = strcmp(row.cell[2], "off") == 0;
    tell(
        p, "commits in one phase survive a crash", off ? "broken" : "kept", setting,
        off ? "ALTER SYSTEM SET synchronous_commit = on, then reload; PREPARE TRANSACTION waits for the disk in any case"
            : "");
    long most = strtol(row.cell[3], NULL, 10), now = strtol(row.cell[4], NULL, 10);
    snprintf(setting, sizeof(setting), "max_prepared_transactions = %ld, %ld in use", most, now);
    tell(
        p, "there is room to prepare",
        now >= most      ? "broken"
        : now * 2 > most ? "limited"
                         : "kept",
        setting,
        now * 2 > most
            ? "raise max_prepared_transactions to more than the connections that prepare, and restart"
            : "");
}

static void postgres_rights(const struct patient *p)
{
    struct row row;
    char setting[3 * CELL];
    int err = ask(
        p,
        "SELECT count(*), current_user FROM pg_prepared_xacts WHERE database = current_database() "
        "AND gid LIKE 'rota1-%' AND owner <> current_user AND NOT (SELECT rolsuper FROM pg_roles "
        "WHERE rolname = current_user)",
        &row);

    if (err != 0)
        return;
    snprintf(setting, sizeof(setting), "%s prepared by users other than %s", row.cell[0],
             row.cell[1]);
    judge(
        p, "others can finish its branches", strcmp(row.cell[0], "0") == 0, setting,
        "only the user who prepared a branch, or a superuser, may finish it: name the application's user in the URL");
}

/* ---- Both -------------------------------------------------------------------------------- */

void rt_verdicts_of(const struct rt_visit *v, const char *name, rt_finding_fn *fn, void *arg)
{
    const struct patient p = {v, name, fn, arg};
    struct row row;
    char setting[CELL];

    if (ask(&p, "SELECT version()", &row) != 0) {
        tell(&p, "it takes part in transactions", "broken", rota_txn_errmsg(v->m),
             "recovery cannot finish anything there until that is fixed");
        return;
    }
    bool postgres = strstr(row.cell[0], "PostgreSQL") != NULL;
    snprintf(setting, sizeof(setting), "%s%.*s", postgres ? "" : "MariaDB ",
             (int)strcspn(row.cell[0], "("), row.cell[0]);
    tell(&p, "it takes part in transactions", "kept", setting, "");
    if (postgres) {
        postgres_durable(&p);
        postgres_rights(&p);
    } else {
        mysql_durable(&p);
        mysql_rights(&p);
    }
}
