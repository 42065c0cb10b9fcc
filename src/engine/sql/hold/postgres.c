/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on PostgreSQL: advisory locks, FOR UPDATE, LOCK TABLE; and the table that numbers them.
 *
 * $1 name, $2 key, $3 connection that holds, $4 session, $5 owner, $6 label, $7 number, $8 the name as it is spelled there. */
#include "engine/sql/hold/ways.h"

#define US(at) "(extract(epoch from " at ") * 1000000)::bigint"
#define NOW "least(" US("clock_timestamp()") ", 9000000000000000)"

#define COLUMNS "(name, conn, fence, holder, session, owner, since, label, k)"
#define RAISE "fence = greatest(h.fence + 1, excluded.fence)"
#define REST                                                                                                   \
    ", holder = excluded.holder, session = excluded.session, owner = excluded.owner, since = excluded.since, " \
    "label = excluded.label, k = excluded.k"
#define FENCE(from)                                                                  \
    "insert into rota_hold as h " COLUMNS " select $1, 0, " NOW ", $3, $4, $5, " NOW \
    ", $6, {key} " from " on conflict (name, conn) do update set " RAISE REST " returning "
#define FENCE_SHARED(from)                                                              \
    "f as (insert into rota_hold as h " COLUMNS " select $1, 0, " NOW ", 0, 0, 0, " NOW \
    ", '', 0 " from " on conflict (name, conn) do update set " RAISE                    \
    ", since = excluded.since returning fence) insert into "                            \
    "rota_hold as h " COLUMNS " select $1, $3, f.fence, $3, $4, $5, " NOW               \
    ", $6, {key} from f on conflict "                                                   \
    "(name, conn) do update set fence = excluded.fence" REST " returning "

/* Two clients that make it do so one after the other; and only one table is made that users of a database share
 * without naming it. */
#define MAKE(table, columns, more)                                                                               \
    "do $rota$ declare t text; begin perform pg_advisory_xact_lock(1919906913); if to_regclass('" table          \
    "') is null then select quote_ident(n.nspname) into t from pg_class c join pg_namespace n on n.oid = "       \
    "c.relnamespace where c.relname = '" table                                                                   \
    "' and n.nspname <> current_schema() and left(n.nspname, 3) <> "                                             \
    "'pg_' limit 1; if t is not null and '{schema}' = '' then raise exception 'the schema % has tables of Rota " \
    "already: write ?schema=% to use them', t, t; end if; create table " table " (" columns                      \
    "); end if; " more "end $rota$"

#define FOREIGN                                                                                          \
    "concat_ws(', ', 'pid ' || a.pid, 'user ' || a.usename, nullif(a.application_name, ''), 'from ' || " \
    "host(a.client_addr))"
#define SHOWN(began, since)                                                                                \
    "coalesce(h.fence, a.pid)::bigint, coalesce(h.session, 0)::bigint, coalesce(h.owner, 0)::bigint, " NOW \
    " - coalesce(h.since, " US(since) "), coalesce(h.label, " FOREIGN ") "
#define STARTED US("a.backend_start")
#define KEY_IS                                                                                                       \
    "l.locktype = 'advisory' and l.database = (select oid from pg_database where datname = current_database()) and " \
    "l.granted and l.objsubid = {sub} and ((l.classid::bigint << 32) | l.objid::bigint) = {key}"
#define IN_TRANSACTION "h.since >= " US("a.xact_start")
#define LIST_OURS                                                                                                      \
    "select h.name, count(*)::bigint from rota_hold h join pg_stat_activity a on a.pid = h.holder and " IN_TRANSACTION \
    " where h.holder <> 0 and left(h.name, length($1)) = $1 group by h.name order by h.name"

/* Nothing but its own ttl ends an idle seat, and nothing ends the wait of one that is not idle; a waiting backend
 * notices that its client is gone. Settings that this version does not know are not set. */
#define SET(value, names)                                                                        \
    "(select count(set_config(name, '" value "', false)) from pg_settings where name in (" names \
    "))"
#define SETTINGS                                                                                                                                                                  \
    "select " SET("{ttl}", "'idle_session_timeout', 'idle_in_transaction_session_timeout'") ", " SET("0", "'lock_timeout', 'statement_timeout', 'transaction_timeout'") ", " SET( \
        "{third}",                                                                                                                                                                \
        "'client_connection_check_interval'") ", " SET("10",                                                                                                                      \
                                                       "'tcp_keepalives_idle'") ", " SET("3",                                                                                     \
                                                                                         "'tcp_keepalives_interval', 'tcp_keepalives_count'")

#define COMMON                                                                                                  \
    [RT_HOLD_SAY_TIDY] =                                                                                        \
        "delete from rota_hold where ctid in (select ctid from rota_hold h where name <> '' and since < " NOW   \
        " - 86400000000 and fence < " NOW                                                                       \
        " and not exists (select 1 from pg_stat_activity a where "                                              \
        "a.pid = h.holder) limit 100)",                                                                         \
    [RT_HOLD_SAY_CLEAR] =                                                                                       \
        "update rota_hold set holder = 0 where name = $1 and conn = 0 and fence = $7 and holder = $3",          \
    [RT_HOLD_SAY_CLEAR_SHARED] =                                                                                \
        "delete from rota_hold where name = $1 and conn = $3 and fence = $7",                                   \
    [RT_HOLD_SAY_KILL] =                                                                                        \
        "select pg_terminate_backend(a.pid)::int::bigint from pg_stat_activity a where a.pid = $7 and " STARTED \
        " = $5",                                                                                                \
    [RT_HOLD_SAY_LAYOUT] = "select fence from rota_hold where name = '' and conn = 0",                          \
    [RT_HOLD_SAY_BREAK] =                                                                                       \
        "update rota_hold set holder = -1 where name = $1 and conn in (0, $3) and fence = $7 and holder = $3",  \
    [RT_HOLD_SAY_BROKEN] =                                                                                      \
        "select 1::bigint from rota_hold where name = $1 and conn in (0, $3) and fence = $7 and holder = -1",   \
    [RT_HOLD_SAY_PING] = "select 1::bigint",                                                                    \
    [RT_HOLD_SAY_WHO] = "select a.pid::bigint, " STARTED                                                        \
                        " from pg_stat_activity a where a.pid = pg_backend_pid()",                              \
    [RT_HOLD_SAY_BEGIN] = "begin", [RT_HOLD_SAY_COMMIT] = "commit",                                             \
    [RT_HOLD_SAY_ROLLBACK] = "rollback", [RT_HOLD_SAY_SETTINGS] = SETTINGS,                                     \
    [RT_HOLD_SAY_MAKE] = MAKE(                                                                                  \
        "rota_hold",                                                                                            \
        "name text collate \"C\" not null, conn bigint not null, fence bigint not null, holder "                \
        "bigint not null, session bigint not null, owner bigint not null, since bigint not null, "              \
        "label text not null, k bigint not null, primary key (name, conn)",                                     \
        "insert into rota_hold " COLUMNS " values ('', 0, 1000, 0, 0, 0, 0, '', 0) on conflict "                \
        "do nothing; ")

/* A statement is several literals. NOLINTBEGIN(bugprone-suspicious-missing-comma) */

const struct rt_sqlhold_way rt_sqlhold_advisory = {
    .dialect = "advisory",
    .tongue = RT_SQL_POSTGRES,
    .caps = RT_HOLD_CAPS | ROTA_CAP_SHARED,
    .unsafe =
        "dialect advisory: an advisory lock is not replicated, and others see no fences; strict is for dialect line",
    .here = true,
    .keyed = true,
    .sql =
        {
            COMMON,
            [RT_HOLD_SAY_TRY] = "with l as (select pg_try_advisory_lock({args}) as got) " FENCE(
                "from l where got") "1::bigint, fence",
            [RT_HOLD_SAY_TRY_SHARED] =
                "with l as (select pg_try_advisory_lock_shared({args}) as got), " FENCE_SHARED(
                    "from l where got") "1::bigint, fence",
            [RT_HOLD_SAY_WAIT] = "select 1::bigint from pg_advisory_lock({args})",
            [RT_HOLD_SAY_WAIT_SHARED] = "select 1::bigint from pg_advisory_lock_shared({args})",
            [RT_HOLD_SAY_FENCE] = FENCE("") "fence",
            [RT_HOLD_SAY_FENCE_SHARED] = "with " FENCE_SHARED("") "fence",
            [RT_HOLD_SAY_VERIFY] =
                "select count(*)::bigint from pg_locks l where l.pid = pg_backend_pid() and " KEY_IS,
            [RT_HOLD_SAY_GIVE] = "select pg_advisory_unlock({args})::int::bigint",
            [RT_HOLD_SAY_GIVE_SHARED] = "select pg_advisory_unlock_shared({args})::int::bigint",
            [RT_HOLD_SAY_DOWNGRADE] =
                "select pg_advisory_unlock({args})::int::bigint from pg_advisory_lock_shared({args})",
            [RT_HOLD_SAY_LOOK] =
                "select a.pid::bigint, " STARTED ", (l.mode = 'ShareLock')::int::bigint, " SHOWN(
                    "",
                    "a.state_change") "from pg_locks l join pg_stat_activity a on a.pid = l.pid left join rota_hold h on "
                                      "h.name = $1 and h.holder = l.pid and h.since >= " STARTED
                                      " and (h.conn = 0) = (l.mode <> 'ShareLock') where " KEY_IS,
            [RT_HOLD_SAY_LIST] =
                "select h.name, count(*)::bigint from rota_hold h join pg_locks l on l.locktype = 'advisory' and "
                "l.granted and l.pid = h.holder and ((l.classid::bigint << 32) | l.objid::bigint) = h.k where "
                "left(h.name, length($1)) = $1 group by h.name order by h.name",
        },
    .flights =
        {
            [RT_HOLD_TRY] = {{RT_HOLD_SAY_TRY, RT_HOLD_END}, {RT_HOLD_SAY_TRY_SHARED, RT_HOLD_END}},
            [RT_HOLD_WAIT] = {{RT_HOLD_SAY_WAIT, RT_HOLD_END},
                              {RT_HOLD_SAY_WAIT_SHARED, RT_HOLD_END}},
            [RT_HOLD_NUMBERS] = {{RT_HOLD_SAY_FENCE, RT_HOLD_SAY_VERIFY, RT_HOLD_END},
                                 {RT_HOLD_SAY_FENCE_SHARED, RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_VERIFY] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END},
                                {RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_GIVE] = {{RT_HOLD_SAY_GIVE, RT_HOLD_END},
                              {RT_HOLD_SAY_GIVE_SHARED, RT_HOLD_END}},
            [RT_HOLD_DOWNGRADE] = {{RT_HOLD_SAY_DOWNGRADE, RT_HOLD_END}, {RT_HOLD_END}},
        },
};

#define ROW "from {table} where {column} = $1 "
#define COLUMN_IS                                                                                         \
    "from pg_attribute a join pg_type y on y.oid = a.atttypid where a.attrelid = to_regclass('{table}') " \
    "and a.attname = lower('{column}') and a.attnum > 0 and not a.attisdropped"
#define SHAPE                                                                                                     \
    "select case when to_regclass('{table}') is null then 'there is no table {table} (?table=)' when not exists " \
    "(select 1 " COLUMN_IS                                                                                        \
    ") then 'the table {table} has no column {column} (?column=)' when not exists (select 1 " COLUMN_IS           \
    " and y.typcategory = 'S') then 'the column {column} of {table} is no text: it cannot have names' "           \
    "else '' end, coalesce((select greatest(a.atttypmod - 4, 0) " COLUMN_IS                                       \
    " and y.typname in ('varchar', "                                                                              \
    "'bpchar')), 0)::bigint, 0::bigint"
#define SHARED_FENCES                                                                           \
    [RT_HOLD_SAY_FENCE] = FENCE("") "fence", [RT_HOLD_SAY_FENCE_SHARED] = "with " FENCE_SHARED( \
                                                 "") "fence"

const struct rt_sqlhold_way rt_sqlhold_forupdate_postgres = {
    .dialect = "forupdate",
    .tongue = RT_SQL_POSTGRES,
    .caps = RT_HOLD_CAPS | ROTA_CAP_SHARED,
    .unsafe =
        "dialect forupdate: a lock is a transaction, and ends with its connection; strict is for dialect line",
    .rows = true,
    .sql =
        {
            COMMON,
            SHARED_FENCES,
            [RT_HOLD_SAY_TRY] = "select 1::bigint " ROW "for update skip locked",
            [RT_HOLD_SAY_TRY_SHARED] = "select 1::bigint " ROW "for share skip locked",
            [RT_HOLD_SAY_WAIT] = "select 1::bigint " ROW "for update",
            [RT_HOLD_SAY_WAIT_SHARED] = "select 1::bigint " ROW "for share",
            [RT_HOLD_SAY_THERE] = "select 1 from {table} where {column} is null",
            [RT_HOLD_SAY_SHAPE] = SHAPE,
            [RT_HOLD_SAY_EXISTS] = "select count(*)::bigint " ROW,
            [RT_HOLD_SAY_ENSURE] =
                "insert into {table} ({column}) values ($1) on conflict do nothing",
            [RT_HOLD_SAY_VERIFY] = "select (txid_current_if_assigned() is not null)::int::bigint",
            [RT_HOLD_SAY_LOOK] =
                "select a.pid::bigint, " STARTED
                ", coalesce((h.conn <> 0)::int, 0)::bigint, " SHOWN(
                    "",
                    "a.xact_start") "from pg_stat_activity a left join rota_hold h on h.name = $1 and h.holder = a.pid and " IN_TRANSACTION
                                    " where h.name is not null or a.pid in (select l.pid from {table} t join pg_locks l on l.locktype = "
                                    "'transactionid' and l.granted and l.transactionid = t.xmax where t.{column} = $1)",
            [RT_HOLD_SAY_LIST] = LIST_OURS,
            [RT_HOLD_SAY_MAKE2] = MAKE("rota_forupdate",
                                       "name text collate \"C\" not null primary key", ""),
            [RT_HOLD_SAY_DOCTOR] =
                "select 'a row is locked by itself', case when i then 'kept' else 'broken' end, case when i then 'a "
                "unique index leads to it' else 'there is no unique index on the column alone: a name may have several "
                "rows, and every lock reads the whole table' end, case when i then '' else 'create unique index on that "
                "column' end from (select exists (select 1 from pg_index x join pg_attribute a on a.attrelid = "
                "x.indrelid and a.attnum = x.indkey[0] where x.indrelid = to_regclass('{table}') and x.indisunique and "
                "x.indisvalid and x.indnkeyatts = 1 and x.indpred is null and a.attname = '{column}') as i) y",
        },
    .flights =
        {
            [RT_HOLD_TRY] = {{RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_TRY, RT_HOLD_SAY_EXISTS, RT_HOLD_END},
                             {RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_TRY_SHARED, RT_HOLD_SAY_EXISTS,
                              RT_HOLD_END}},
            [RT_HOLD_WAIT] = {{RT_HOLD_SAY_ROLLBACK, RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_WAIT,
                               RT_HOLD_END},
                              {RT_HOLD_SAY_ROLLBACK, RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_WAIT_SHARED,
                               RT_HOLD_END}},
            [RT_HOLD_NUMBERS] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END},
                                 {RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_VERIFY] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END},
                                {RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_GIVE] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_SAY_COMMIT, RT_HOLD_END},
                              {RT_HOLD_SAY_VERIFY, RT_HOLD_SAY_COMMIT, RT_HOLD_END}},
        },
};

#define TABLE_IS \
    "l.locktype = 'relation' and l.relation = to_regclass(quote_ident($8)) and l.granted and l.mode = 'AccessExclusiveLock'"
const struct rt_sqlhold_way rt_sqlhold_table_postgres = {
    .dialect = "table",
    .tongue = RT_SQL_POSTGRES,
    .caps = RT_HOLD_CAPS,
    .unsafe =
        "dialect table: a lock ends with its connection, and is not replicated; strict is for dialect line",
    .by_landing = true,
    .tables = true,
    .sql =
        {
            COMMON,
            SHARED_FENCES,
            [RT_HOLD_SAY_VERIFY] =
                "select count(*)::bigint from pg_locks l where l.pid = pg_backend_pid() and " TABLE_IS,
            [RT_HOLD_SAY_LOOK] = "select a.pid::bigint, " STARTED ", 0::bigint, " SHOWN(
                "",
                "a.xact_start") "from pg_locks l join pg_stat_activity a on a.pid = l.pid left join rota_hold h on h.name "
                                "= $1 and h.holder = l.pid and " IN_TRANSACTION " where " TABLE_IS,
            [RT_HOLD_SAY_LIST] = LIST_OURS,
        },
    .flights =
        {
            [RT_HOLD_TRY] = {{RT_HOLD_SAY_BEGIN, RT_HOLD_NOWAIT, RT_HOLD_END}},
            [RT_HOLD_WAIT] = {{RT_HOLD_SAY_ROLLBACK, RT_HOLD_SAY_BEGIN, RT_HOLD_LOCK, RT_HOLD_END}},
            [RT_HOLD_MAKES] = {{RT_HOLD_NEW, RT_HOLD_END}},
            [RT_HOLD_NUMBERS] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_VERIFY] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_GIVE] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_SAY_COMMIT, RT_HOLD_END}},
        },
};

/* NOLINTEND(bugprone-suspicious-missing-comma) */
