/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of the dialects whose locks are rows that expire, or live with a connection, in rounds that alternate with the
 * statements that one would write by hand, each a transaction of its own, as text. What these leave out: whose the row
 * is after a lost answer, fences, losses. */
#include "sql.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 15

static const struct dialect {
    const char *name, *what;
    const char *say
        [2]
        [4]; /* for PostgreSQL, for MariaDB; NULL: none. The tables are there: Rota has made them */
} dialects[] = {
    {"row",
     "INSERT, DELETE",
     {{"insert into rota_row values ('hand', 1, 1, 1, 'h', 1, 1, '', 1, 1)",
       "delete from rota_row where name = 'hand'"},
      {"insert into rota_row values ('hand', 1, 1, 1, 'h', 1, 1, '', 1, 1)",
       "delete from rota_row where name = 'hand'"}}},
    {"version",
     "SELECT, UPDATE of a version, UPDATE",
     {{"insert into rota_version values ('hand', 1, 0, 0, '', 0, 0, '', 0, 9000000000000000) on conflict do nothing",
       "select version, session from rota_version where name = 'hand'",
       "update rota_version set version = version + 1, session = 1 where name = 'hand' and session = 0",
       "update rota_version set session = 0 where name = 'hand' and session = 1"},
      {"insert ignore into rota_version values ('hand', 1, 0, 0, '', 0, 0, '', 0, 9000000000000000)",
       "select version, session from rota_version where name = 'hand'",
       "update rota_version set version = version + 1, session = 1 where name = 'hand' and session = 0",
       "update rota_version set session = 0 where name = 'hand' and session = 1"}}},
    {"shedlock",
     "ShedLock's UPDATEs",
     {{"insert into shedlock values ('hand', timezone('utc', current_timestamp), "
       "timezone('utc', current_timestamp), 'hand') on conflict do nothing",
       "update shedlock set lock_until = timezone('utc', current_timestamp) + interval '10 s', locked_at = "
       "timezone('utc', current_timestamp), locked_by = 'hand' where name = 'hand' and lock_until <= "
       "timezone('utc', current_timestamp)",
       "update shedlock set lock_until = timezone('utc', current_timestamp) where name = 'hand' and "
       "locked_by = 'hand'"},
      {"insert ignore into shedlock values ('hand', utc_timestamp(3), utc_timestamp(3), 'hand')",
       "update shedlock set lock_until = timestampadd(second, 10, utc_timestamp(3)), locked_at = "
       "utc_timestamp(3), locked_by = 'hand' where name = 'hand' and lock_until <= utc_timestamp(3)",
       "update shedlock set lock_until = utc_timestamp(3) where name = 'hand' and locked_by = 'hand'"}}},
    {"getlock",
     "GET_LOCK, RELEASE_LOCK",
     {{NULL}, {"select get_lock('hand', 0)", "select release_lock('hand')"}}},
    {"advisory",
     "pg_try_advisory_lock, pg_advisory_unlock",
     {{"select pg_try_advisory_lock(hashtextextended('hand', 0))",
       "select pg_advisory_unlock(hashtextextended('hand', 0))"},
      {NULL}}},
    {"forupdate",
     "BEGIN, SELECT FOR UPDATE, COMMIT",
     {{"insert into rota_forupdate values ('hand') on conflict do nothing", "begin",
       "select 1 from rota_forupdate where name = 'hand' for update", "commit"},
      {"insert ignore into rota_forupdate values ('hand')", "begin",
       "select 1 from rota_forupdate where name = 'hand' for update", "commit"}}},
    {"table",
     "LOCK TABLE, COMMIT or UNLOCK TABLES",
     {{"create table if not exists hand ()", "begin", "lock table hand in access exclusive mode",
       "commit"},
      {"create table if not exists hand (x int)", "lock tables hand write", "unlock tables"}}},
};

static bool only_makes(const char *sql)
{
    return strstr(sql, "on conflict") != NULL || strstr(sql, "ignore") != NULL ||
           strstr(sql, "if not exists") != NULL;
}

/* Not counting the statement that only makes the row. */
static double by_hand_us(const struct sql_way *way, struct hand *h, const char *const *say, int n)
{
    size_t first = only_makes(say[0]);
    int64_t from = rt_bench_ns();
    for (int i = 0; i < n; i++)
        for (size_t k = first; k < 4 && say[k] != NULL; k++)
            way->say(h, say[k]);
    return (double)(rt_bench_ns() - from) / 1000 / n;
}

static double rota_us(struct rota *r, int n)
{
    int64_t from = rt_bench_ns();
    double one = 0;
    for (int i = 0; i < n; i++)
        bench_done(rt_bench_pairs(r, "pair", NULL, 1, &one));
    return (double)(rt_bench_ns() - from) / 1000 / n;
}

static void bench_one(const struct bench *b, const struct sql_way *way, const struct dialect *d)
{
    char url[400], ours[96], theirs[96], ratio[96];
    bool mysql = strcmp(way->name, "mysql") == 0;
    int n = (int)(100 * b->scale) + 1;
    struct beside s = {.n = 0};
    struct rota *r = NULL;
    snprintf(url, sizeof url, "%s%cdialect=%s", way->url(), strchr(way->url(), '?') ? '&' : '?',
             d->name);
    const struct rt_bench place = {.url = url, .prefix = ""};
    bench_done(rt_bench_open(&place, &r, NULL));
    (void)rota_us(r, n);
    struct hand *h = way->dial();
    if (only_makes(d->say[mysql][0]))
        way->say(h, d->say[mysql][0]);
    for (int i = 0; i < ROUNDS; i++) {
        double hand = by_hand_us(way, h, d->say[mysql], n);
        beside_add(&s, rota_us(r, n), hand);
    }
    snprintf(ours, sizeof ours, "%s: pair of dialect %s", way->name, d->name);
    snprintf(theirs, sizeof theirs, "%s: %s by hand", way->name, d->what);
    snprintf(ratio, sizeof ratio, "%s: dialect %s / by hand", way->name, d->name);
    beside_say(b, &s, &(struct beside_text){ours, theirs, ratio, "us", 0, false});
    way->hang_up(h);
    rota_close(r);
}

void sql_bench_dialects(const struct bench *b, const struct sql_way *way)
{
    bool mysql = strcmp(way->name, "mysql") == 0;
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0]; i++)
        if (dialects[i].say[mysql][0] != NULL)
            bench_one(b, way, &dialects[i]);
}
