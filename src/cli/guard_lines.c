/* SPDX-License-Identifier: Apache-2.0 */
/* What rota guard prints: see guard_lines.h. The tests run the examples in docs/guides/guards.md, and these lines
 * too. */
#include "cli/guard_lines.h"

#include <rota_guard.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- Quoting ------------------------------------------------------------- */

/* TEXT with each QUOTE doubled. */
static void put_doubled(const char *text, char quote)
{
    for (; *text != '\0'; text++) {
        if (*text == quote)
            putchar(quote);
        putchar(*text);
    }
}

/* A table may be schema.table; each part is quoted, exactly as it is spelt. */
static void put_name(const char *name, char quote)
{
    putchar(quote);
    for (; *name != '\0'; name++) {
        if (*name == '.')
            printf("%c.%c", quote, quote);
        else
            put_doubled((char[]){*name, '\0'}, quote);
    }
    putchar(quote);
}

/* One shell word. */
static void put_word(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    putchar('\'');
}

/* A string for etcdctl, inside a here-document that expands: \ and " are escaped for the former, then \ $ ` for the
 * latter. */
static void put_etcd(const char *key, const char *more)
{
    putchar('"');
    for (int i = 0; i < 2; i++) {
        for (const char *at = i == 0 ? key : more; *at != '\0'; at++) {
            if (*at == '\\')
                fputs("\\\\\\\\", stdout);
            else if (*at == '"')
                fputs("\\\\\"", stdout);
            else if (*at == '$' || *at == '`')
                printf("\\%c", *at);
            else
                putchar(*at);
        }
    }
    putchar('"');
}

/* ---- PostgreSQL ---------------------------------------------------------- */

#define PSQL "psql -X -q -v ON_ERROR_STOP=1"

static void put_pg_alter(const struct rt_guard_lines *l)
{
    puts("# Once: the column that remembers the highest fence.\n" PSQL " <<'SQL'");
    fputs("ALTER TABLE ", stdout);
    put_name(l->table, '"');
    fputs(" ADD COLUMN IF NOT EXISTS ", stdout);
    put_name(l->column, '"');
    puts(" bigint NOT NULL DEFAULT 0;\nSQL\n");
}

static void put_pg_row_guard(const struct rt_guard_lines *l)
{
    fputs("UPDATE ", stdout);
    put_name(l->table, '"');
    fputs(" SET ", stdout);
    put_name(l->column, '"');
    fputs(" = :'fence' WHERE ", stdout);
    put_name(l->key, '"');
    fputs(" = :'key' AND ", stdout);
    put_name(l->column, '"');
    puts(" <= :'fence' RETURNING 1 AS rota_guard \\gset");
}

static void put_pg_guard(void)
{
    puts(
        "INSERT INTO rota_guard AS g (resource, fence) VALUES (:'key', :'fence')\n"
        "    ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE g.fence <= excluded.fence\n"
        "    RETURNING 1 AS rota_guard \\gset");
}

/* The user's change, or where it goes. */
static void put_change(const struct rt_guard_lines *l, char quote, const char *key)
{
    if (l->set == NULL || l->table == NULL) {
        puts("-- Here: look, then change.");
        return;
    }
    fputs("UPDATE ", stdout);
    put_name(l->table, quote);
    printf(" SET %s WHERE ", l->set);
    put_name(l->key, quote);
    printf(" = %s;\n", key);
}

void rt_guard_lines_postgres(const struct rt_guard_lines *l)
{
    if (l->table != NULL)
        put_pg_alter(l);
    else
        puts("# Once: the table that remembers the highest fences.\n" PSQL
             " <<'SQL'\n" ROTA_GUARD_POSTGRES_DDL ";\nSQL\n");
    printf(
        "# Under rota run. $KEY: %s. A later fence was here%s: psql ends with 3, nothing is changed.\n",
        l->table != NULL ? "the row's" : "what is changed, by any name",
        l->table != NULL ? ", or there is no such row" : "");
    puts(PSQL " -v key=\"${KEY:?}\" -v fence=\"${ROTA_FENCE:?}\" <<'SQL'\nBEGIN;");
    if (l->table != NULL)
        put_pg_row_guard(l);
    else
        put_pg_guard();
    put_change(l, '"', ":'key'");
    puts("COMMIT;\nSQL");
}

/* ---- MySQL, MariaDB ------------------------------------------------------ */

static void put_my_alter(const struct rt_guard_lines *l)
{
    puts("# Once: the column that remembers the highest fence.\nmariadb <<'SQL'");
    fputs("ALTER TABLE ", stdout);
    put_name(l->table, '`');
    fputs(" ADD COLUMN ", stdout);
    put_name(l->column, '`');
    puts(" BIGINT NOT NULL DEFAULT 0;\nSQL\n");
}

static void put_my_row_guard(const struct rt_guard_lines *l)
{
    fputs("UPDATE ", stdout);
    put_name(l->table, '`');
    fputs(" SET ", stdout);
    put_name(l->column, '`');
    fputs(" = GREATEST(", stdout);
    put_name(l->column, '`');
    fputs(", @fence) WHERE ", stdout);
    put_name(l->key, '`');
    fputs(" = @key;\nSELECT ", stdout);
    put_name(l->column, '`');
    fputs(" FROM ", stdout);
    put_name(l->table, '`');
    fputs(" WHERE ", stdout);
    put_name(l->key, '`');
    puts(" = @key INTO @seen FOR UPDATE;");
}

void rt_guard_lines_mysql(const struct rt_guard_lines *l)
{
    if (l->table != NULL)
        put_my_alter(l);
    else
        puts(
            "# Once: the table that remembers the highest fences.\nmariadb <<'SQL'\n" ROTA_GUARD_MYSQL_DDL
            ";\nSQL\n");
    printf(
        "# Under rota run. $KEY: %s. A later fence was here%s: the client ends with 1, nothing is\n"
        "# changed. With MySQL's own client: mysql. The key goes in hexadecimal, so that it needs no quotes.\n",
        l->table != NULL ? "the row's" : "what is changed, by any name",
        l->table != NULL ? ", or there is no such row" : "");
    puts(
        "mariadb --init-command=\"SET @fence = ${ROTA_FENCE:?}, @seen = 0,\n"
        "    @key = CONVERT(x'$(printf %s \"${KEY:?}\" | od -An -v -tx1 | tr -d ' \\n')' USING utf8mb4)\" <<'SQL'\n"
        "BEGIN;");
    if (l->table != NULL)
        put_my_row_guard(l);
    else
        puts("INSERT INTO rota_guard (resource, fence) VALUES (@key, @fence)\n"
             "    ON DUPLICATE KEY UPDATE fence = GREATEST(fence, @fence);\n"
             "SELECT fence FROM rota_guard WHERE resource = @key INTO @seen FOR UPDATE;");
    puts("-- Two rows where one is wanted: an error, if a later fence was here.\n"
         "SET @mine = IF(@seen = @fence, 1, (SELECT 1 UNION SELECT 2));");
    put_change(l, '`', "@key");
    puts("COMMIT;\nSQL");
}

/* ---- Redis --------------------------------------------------------------- */

static void put_redis(const char *key, const char *command, const char *value)
{
    /* In a cluster the guard is where the key is. */
    const char *open = strpbrk(key, "{}") == NULL ? "{" : "", *close = open[0] != '\0' ? "}" : "";
    char guard[4096];

    snprintf(guard, sizeof(guard), "%s%s%s:fence", open, key, close);
    fputs("redis-cli -e EVAL \"$guard\" 1 ", stdout);
    put_word(guard);
    printf(" \"${ROTA_FENCE:?}\" %s ", command);
    put_word(key);
    puts(value);
}

void rt_guard_lines_redis(const struct rt_guard_lines *l)
{
    assert(l->key != NULL);
    fputs("guard=", stdout);
    put_word(ROTA_GUARD_REDIS_SCRIPT);
    puts(
        "\n\n# Under rota run. A later fence was here: redis-cli ends with 1, nothing is changed.\n"
        "# Look: it claims as well, so that no earlier holder can write between your look and your write.");
    put_redis(l->key, "GET", "");
    puts("# Write: any command in place of SET.");
    put_redis(l->key, "SET", " \"${VALUE?}\"");
}

/* ---- etcd ---------------------------------------------------------------- */

/* etcdctl exits with 0 whichever branch was taken; its first line says which. */
#define JUDGE "awk 'NR == 1 { mine = $0 == \"SUCCESS\" } NR > 1; END { exit !mine }'"

static void put_etcd_txn(const char *key, const char *step, const char *value)
{
    puts("etcdctl txn <<TXN | " JUDGE);
    fputs("value(", stdout);
    put_etcd(key, ".fence");
    fputs(") < \"$(printf %020d $((${ROTA_FENCE:?} + 1)))\"\n\nput ", stdout);
    put_etcd(key, ".fence");
    printf(" $(printf %%020d ${ROTA_FENCE:?})\n%s ", step);
    put_etcd(key, "");
    printf("%s\n\n\nTXN\n", value);
}

void rt_guard_lines_etcd(const struct rt_guard_lines *l)
{
    assert(l->key != NULL);
    puts("# Once: the key that remembers the highest fence. (FAILURE: it is there already.)\n"
         "etcdctl txn <<TXN");
    fputs("create(", stdout);
    put_etcd(l->key, ".fence");
    fputs(") = \"0\"\n\nput ", stdout);
    put_etcd(l->key, ".fence");
    puts(" 00000000000000000000\n\n\nTXN\n");
    puts(
        "# Under rota run. A later fence was here: it ends with 1, nothing is changed.\n"
        "# Look: it claims as well, so that no earlier holder can write between your look and your write.");
    put_etcd_txn(l->key, "get", "");
    puts("\n# Write: a value of one line, without quotes in it.");
    put_etcd_txn(l->key, "put", " \"${VALUE?}\"");
}
