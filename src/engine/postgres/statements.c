/* SPDX-License-Identifier: Apache-2.0 */
/* The steps in PostgreSQL's words.
 *
 * Which time is now? A pipelined statement is Bind, then Execute. One that changes something takes its snapshot in
 * Execute, behind the moment that statement_timestamp() tells: NOW. One that only reads takes it in Bind already, *before*
 * that moment, so that it may miss a renewal which was answered before NOW: it judges others by the beginning of the
 * transaction, THEN. (Its own session's renewals came by the same connection, and how long something still lasts is only
 * said to be looked at again: NOW is good enough for both.)
 *
 * Isolation is READ COMMITTED: behind LOCK each statement sees what is there when the line is ours. */
#include "engine/postgres/statements.h"

#include "engine/kit/hash.h"

#include <inttypes.h>
#include <stdio.h>

#define US(at) "(extract(epoch from " at ") * 1000000)::bigint"
#define NOW US("statement_timestamp()")
#define THEN US("transaction_timestamp()")
#define ALL "4611686018427387904" /* the weight of an exclusive ticket, and a lock's room: 2^62 */

/* rt_mode, as core/grant.h numbers them. */
#define SHARED "1"
#define PERMITS "2"
#define COUNTED "3"
#define GATHER "4"

#define ALIVE(session) \
    "exists (select 1 from rota_session s where s.id = " session " and s.expires > " NOW ")"
#define NOTIFY(t, kind) \
    "pg_notify('rota_' || lpad(to_hex(" t ".bell), 16, '0'), " t ".number || ' " kind " ' || $1)"
#define WANTED(t, l) t ".granted and " t ".flags & 1 <> 0 and " l ".waiting > 0"

/* ---- Tables ----------------------------------------------------------------------------------- */

/* Rows change all the time and are few: pages with room for the next version (no index needs to hear of it), and swept
 * long before a fifth of them is dead. */
#define BUSY_TABLE                                                                   \
    " with (fillfactor = 60, autovacuum_vacuum_threshold = 1000, "                   \
    "autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_threshold = 100000, " \
    "autovacuum_vacuum_cost_delay = 0)"

const char rt_postgres_ddl[] =
    "create table if not exists rota_meta (\n"
    "    k text collate \"C\" primary key,\n"
    "    v text not null);\n"
    "create table if not exists rota_session (\n"
    "    id bigint primary key check (id <> 0),\n"
    "    expires bigint not null,\n"
    "    label text not null)" BUSY_TABLE ";\n"
    "create table if not exists rota_line (\n"
    "    name text collate \"C\" primary key check (name <> ''),\n"
    "    fence bigint not null check (fence >= 0),\n"
    "    session bigint check (session <> 0),\n"
    "    nonce bigint, owner bigint, flags bigint,\n"
    "    since bigint not null,\n"
    "    bell bigint,\n"
    "    count bigint not null default 0,\n"
    "    waiting bigint not null default 0 check (waiting between 0 and count),\n"
    "    watched bigint not null default 0,\n"
    "    turn bigint not null default 0,\n"
    "    check (session is null or count = 0 and fence > 0))" BUSY_TABLE ";\n"
    "create table if not exists rota_ticket (\n"
    "    name text collate \"C\" not null,\n"
    "    number bigint not null check (number > 0),\n"
    "    session bigint not null, nonce bigint not null, owner bigint not null,\n"
    "    mode bigint not null check (mode between 0 and 4),\n"
    "    take bigint not null, of_ bigint not null,\n"
    "    weight bigint not null check (weight between 0 and " ALL "),\n"
    "    granted boolean not null, durable boolean not null, flags bigint not null,\n"
    "    since bigint not null,\n"
    "    at_least bigint not null check (at_least >= 0),\n"
    "    until bigint not null check (until = 0 or durable),\n"
    "    bell bigint not null,\n"
    "    value bytea,\n"
    "    label text,\n"
    "    primary key (name, number))" BUSY_TABLE ";\n"
    "create index if not exists rota_ticket_session on rota_ticket (session);\n"
    "create index if not exists rota_ticket_until on rota_ticket (until) where until <> 0;\n"
    "insert into rota_meta (k, v) values ('layout', '1.0') on conflict do nothing;\n";

/* Names every column: a table of another shape is as good as none. */
static const char layout[] =
    "select v from rota_meta where k = 'layout'"
    " and not exists (select id, expires, label from rota_session where false)"
    " and not exists (select name, fence, session, nonce, owner, flags, since, bell, count, waiting, watched, turn"
    " from rota_line where false)"
    " and not exists (select name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags,"
    " since, at_least, until, bell, value, label from rota_ticket where false)";

/* ---- Sessions --------------------------------------------------------------------------------- */

static const char open_session[] = "insert into rota_session (id, expires, label) values ($1, " NOW
                                   " + $2, $3) on conflict do nothing";

static const char renew[] = "update rota_session set expires = " NOW
                            " + $2 where id = $1 and expires > " NOW;

static const char end_session[] =
    "delete from rota_session where id = $1"
    " and not exists (select 1 from rota_ticket t where t.session = $1 and not t.durable)";

static const char mine[] = "select t.name, t.number, t.nonce, t.granted, " WANTED(
    "t",
    "l") " from rota_ticket t join rota_line l using (name) where t.session = $1 and not t.durable";

static const char folded[] = "select fence, nonce from rota_line where name = $1 and session = $2";

static const char dead[] =
    "select distinct x.name from ("
    "(select t.name from rota_ticket t where t.until <> 0 and t.until <= " NOW " limit $1)"
    " union all (select t.name from rota_session s join rota_ticket t on t.session = s.id"
    " where s.expires <= " NOW " and not t.durable limit $1)) x limit $1";

static const char bury[] =
    "delete from rota_session where id in (select s.id from rota_session s where s.expires <= " NOW
    " and not exists (select 1 from rota_ticket t where t.session = s.id and not t.durable)"
    " limit $1 for update skip locked)";

static const char idle[] =
    "delete from rota_line where name in (select l.name from rota_line l where l.since <= " NOW
    " - $1 and l.watched <= " NOW " - $1 and l.count = 0"
    " and (l.session is null or not " ALIVE("l.session") ") limit $2 for update skip locked)";

/* ---- Folded lines ----------------------------------------------------------------------------- */

static const char take[] =
    "insert into rota_line as l (name, fence, session, nonce, owner, flags, since, bell)"
    " select $1, " NOW ", s.id, $3, $4, $5, " NOW
    ", $6 from rota_session s where s.id = $2 and s.expires > " NOW
    " on conflict (name) do update set fence = greatest(l.fence + 1, excluded.fence), session = excluded.session,"
    " nonce = excluded.nonce, owner = excluded.owner, flags = excluded.flags, since = excluded.since,"
    " bell = excluded.bell"
    " where l.session is null and l.count = 0 and l.watched <= " NOW " returning fence";

static const char give[] =
    "update rota_line set session = null where name = $1 and session = $2 and fence = $3"
    " and watched <= " NOW;

static const char verify[] =
    "select 1::bigint from rota_line l where l.name = $1 and l.session = $2 and l.fence = $3 and " ALIVE(
        "$2");

/* ---- Under the lock --------------------------------------------------------------------------- */

/* A row that an ON CONFLICT DO UPDATE finds is locked even if its WHERE then says no: no new version is written. */
static const char lock[] = "insert into rota_line as l (name, fence, since) values ($1, 0, " NOW ")"
                           " on conflict (name) do update set turn = $2 where false";

static const char unfold[] =
    "with u as (insert into rota_ticket (name, number, session, nonce, owner, mode, take, of_, weight, granted, durable,"
    " flags, since, at_least, until, bell)"
    " select l.name, l.fence, l.session, l.nonce, l.owner, 0, 0, 0, " ALL
    ", true, false, l.flags, l.since, 0, 0, l.bell"
    " from rota_line l where l.name = $1 and l.session is not null and " ALIVE(
        "l.session") " returning 1)"
                     " update rota_line set session = null, count = (select count(*) from u) where name = $1 and session is not null";

/* What a ticket R becomes that keeps its line for its at_least. */
#define KEPT(r)                                                                                    \
    "durable = true, session = 0, nonce = 0, owner = 0, bell = 0, until = " r ".since + " r        \
    ".at_least, label = coalesce(" r ".label, (select s.label from rota_session s where s.id = " r \
    ".session))"
#define OWES(t) t ".granted and " t ".since + " t ".at_least > " NOW

static const char purge[] =
    "with g as (delete from rota_ticket t where t.name = $1 and case when t.durable"
    " then t.until <> 0 and t.until <= " NOW " else not (" OWES("t") ") and not " ALIVE(
        "t.session") " end"
                     " returning t.granted),"
                     " k as (update rota_ticket t set " KEPT("t") " where t.name = $1 and not t.durable and " OWES(
                         "t") " and not " ALIVE("t.session") ")"
                                                             " update rota_line set count = count - (select count(*) from g),"
                                                             " waiting = waiting - (select count(*) from g where not granted) where name = $1 and exists (select 1 from g)";

/* The rule of core/grant.h: prefix sums grow, so the first that does not fit ends the walk; a barrier opens for the first
 * `of` that wait when there are so many. */
static const char settle[] =
    "with w as (select t.number, t.granted, t.mode, t.of_, sum(t.weight) over (order by t.number) upto,"
    " count(*) filter (where not t.granted) over () waiting,"
    " count(*) filter (where not t.granted) over (order by t.number) place"
    " from rota_ticket t where t.name = $1 and (select waiting from rota_line where name = $1) > 0),"
    " u as (update rota_ticket t set granted = true, since = " NOW
    " from w where t.name = $1 and t.number = w.number and not w.granted"
    " and case w.mode when " PERMITS " then w.upto <= w.of_ when " GATHER
    " then w.waiting >= w.of_ and w.place <= w.of_ else w.upto <= " ALL
    " end returning t.number, t.bell),"
    " n as (select " NOTIFY(
        "u",
        "G") " from u)"
             " update rota_line set waiting = waiting - (select count(*) from u) where name = $1 and (select count(*) from n) > 0";

static const char tell[] =
    "select pg_notify($2, $1) from rota_line where name = $1 and watched > " NOW;

/* The line L and what is to be known of its tickets, F, before one of this kind stands behind them. */
#define JUDGED(session, nonce, mode, of, weight)                                           \
    " from rota_line l cross join lateral (select case " mode " when " COUNTED             \
    " then true when " GATHER " then l.waiting + 1 >= " of " when " PERMITS                \
    " then l.waiting = 0 and coalesce(sum(t.weight), 0) + " weight " <= " of               \
    " else l.waiting = 0 and coalesce(sum(t.weight), 0) + " weight " <= " ALL " end fits," \
    " coalesce(bool_and(case when " mode " <= " SHARED " then t.mode <= " SHARED           \
    " else t.mode = " mode " and t.of_ = " of " end), true) same,"                         \
    " coalesce(bool_or(t.session = " session " and t.nonce = " nonce "), false) mine"      \
    " from rota_ticket t where t.name = $1) f where l.name = $1 and f.same and not f.mine"
#define GATE "coalesce(nullif(current_setting('rota.gate', true), ''), '0')::bigint"

/* The count lasts as long as the transaction. */
static const char gate[] = "select set_config('rota.gate', (" GATE " + 1)::text, true)" JUDGED(
    "$2", "$3", "$4", "$5", "$6") " and (f.fits or $7 = 0) and ($8 <> 0 or " ALIVE("$2") ")";

/* The session is locked against its burial, which does not see our ticket yet. A barrier's ticket is granted by SETTLE,
 * with those it waited for. */
static const char join[] =
    "with s as (select s.id from rota_session s where s.id = $2 and s.expires > " NOW
    " for key share),"
    " x as (insert into rota_ticket (name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags,"
    " since, at_least, until, bell, value, label)"
    " select $1, greatest(l.fence + 1, " NOW
    "), $2, $3, $4, $5, $6, $7, $8, f.fits and $5 <> " GATHER ", $12 <> 0, $9, " NOW
    ", $10, case when $11 = 0 then 0 else " NOW " + $11 end, $16, $14, $15" JUDGED(
        "$2", "$3", "$5", "$7",
        "$8") " and (f.fits or $13 = 0) and ($12 <> 0 or exists (select 1 from s)) and ($17 = 0 or " GATE
              " = $17)"
              " returning number, granted)"
              " update rota_line l set fence = x.number, since = " NOW ", count = l.count + 1,"
              " waiting = l.waiting + case when x.granted then 0 else 1 end from x where l.name = $1";

static const char want[] = "select " NOTIFY(
    "t", "W") " from rota_line l join rota_ticket t using (name)"
              " where l.name = $1 and l.waiting = 1 and t.granted and t.flags & 1 <> 0";

/* How long ticket T still lasts at most; null: for ever. */
#define LEFT(t)                                                                           \
    "case when " t ".durable and " t ".until = 0 then null else greatest(0, case when " t \
    ".durable then " t                                                                    \
    ".until else greatest(coalesce((select s.expires from rota_session s where s.id = " t \
    ".session), 0), case when " t ".granted then " t ".since + " t                        \
    ".at_least else 0 end) end - " NOW ") end"
/* What ticket M waits for, with A the one ahead of it. */
#define AHEAD(m)                                                                            \
    " left join lateral (select a.* from rota_ticket a where a.name = $1 and a.number < " m \
    ".number"                                                                               \
    " order by a.number desc limit 1) a on true"
#define LEFT_AHEAD(m)                                                                  \
    "case when " m                                                                     \
    ".granted then null when not a.granted then " LEFT("a") " else (select min(" LEFT( \
        "g") ") from rota_ticket g where g.name = $1 and g.granted and g.number < " m  \
             ".number) end"

static const char answer[] = "select " ALIVE("$2") ", m.number, m.granted, " WANTED(
    "m",
    "l") ", f.mode, f.of_,"
         " coalesce(f.label, (select s.label from rota_session s where s.id = f.session and not f.durable)), " LEFT_AHEAD(
             "m") ", a.bell from (select 1) one left join rota_line l on l.name = $1"
                  " left join lateral (select t.* from rota_ticket t where t.name = $1 and t.session = $2 and t.nonce = $3 limit 1) m"
                  " on true"
                  " left join lateral (select t.* from rota_ticket t where t.name = $1 order by t.number limit 1) f on true" AHEAD(
                      "m");

static const char leave[] = "with t as (select r.number, r.granted, $5 <> 0 and " OWES(
    "r") " owes from rota_ticket r"
         " where r.name = $1 and r.session = $2 and ($3 = 0 or r.number = $3) and ($3 <> 0 or r.nonce = $4)),"
         " k as (update rota_ticket r set " KEPT(
             "r") " from t where t.owes and r.name = $1 and r.number = t.number),"
                  " d as (delete from rota_ticket r using t where not t.owes and r.name = $1 and r.number = t.number"
                  " returning r.granted),"
                  " l as (update rota_line set count = count - (select count(*) from d),"
                  " waiting = waiting - (select count(*) from d where not granted) where name = $1 and exists (select 1 from d))"
                  " select granted from t";

static const char change[] =
    "update rota_ticket set flags = flags | $7, value = case when $5 <> 0 then $6 else value end,"
    " mode = case when $4 <> 0 and mode = 0 then " SHARED " else mode end,"
    " weight = case when $4 <> 0 and mode = 0 then 1 else weight end"
    " where name = $1 and session = $2 and number = $3 and granted";

static const char state[] = "select t.granted, t.mode, " WANTED(
    "t",
    "l") " from rota_ticket t join rota_line l using (name)"
         " where t.name = $1 and t.session = $2 and t.number = $3"
         " union all select true, 0::bigint, false from rota_line where name = $1 and session = $2 and fence = $3";

static const char break_ticket[] =
    "with d as (delete from rota_ticket where name = $1 and case when $2 <> 0 then number = $2 else durable and mode = $3"
    " end returning number, granted, durable, bell),"
    " l as (update rota_line set count = count - (select count(*) from d),"
    " waiting = waiting - (select count(*) from d where not granted) where name = $1 and exists (select 1 from d)),"
    " n as (select " NOTIFY("d", "L") " from d where not d.durable)"
                                      " select count(*) from d where (select count(*) from n) >= 0";

static const char watch[] =
    "insert into rota_line as l (name, fence, since, watched) values ($1, 0, " NOW ", " NOW " + $2)"
    " on conflict (name) do update set watched = greatest(l.watched, excluded.watched)";

/* ---- Looking ---------------------------------------------------------------------------------- */

static const char look[] = "select m.granted, " LEFT_AHEAD("m") ", a.bell from rota_ticket m" AHEAD(
    "m") " where m.name = $1 and m.session = $2 and m.number = $3";

/* Living tickets, among the rows and folded. One whose session is dead but which owes time is shown as PURGE will make
 * it. */
#define LIVING_ROWS(where)                                                                                          \
    "select t.name, t.number, case when t.durable or d.dead then 0 else t.session end as session,"                  \
    " case when d.dead then 0 else t.owner end as owner, t.mode, t.take, t.of_, t.granted,"                         \
    " t.durable or d.dead as durable, t.flags, t.since, case when t.durable then nullif(t.until, 0)"                \
    " else greatest(coalesce(s.expires, 0), case when t.granted then t.since + t.at_least else 0 end) end as ends," \
    " t.value, coalesce(t.label, s.label, '') as label"                                                             \
    " from rota_ticket t left join rota_session s on s.id = t.session and not t.durable,"                           \
    " lateral (select not t.durable and coalesce(s.expires, 0) <= " THEN " as dead) d"                              \
    " where " where " and case when t.durable then t.until = 0 or t.until > " THEN                                  \
    " else not d.dead or t.granted and t.since + t.at_least > " THEN " end"
#define LIVING_FOLDED(where)                                                                                         \
    "select l.name, l.fence, l.session, l.owner, 0::bigint, 0::bigint, 0::bigint, true, false, l.flags, l.since, "   \
    "s.expires, null::bytea, s.label from rota_line l join rota_session s on s.id = l.session and s.expires > " THEN \
    " where " where

static const char front[] = "with v as (" LIVING_ROWS("t.name = $1") " union all " LIVING_FOLDED(
    "l.name = $1") ")"
                   " select v.number, v.granted, (select count(*) from v), v.mode, v.of_, v.value, v.label,"
                   " (select case when min(ends) is not null then greatest(0, min(ends) - " NOW
                   ") end from v)"
                   " from v order by v.number limit 1";

/* Each part by one of its indexes, but for what is folded with a session: no index knows. */
static const char inspect[] =
    "select v.name, v.number, v.session, v.owner, v.mode, v.take, v.of_, v.granted, v.durable, v.flags,"
    " greatest(0, " NOW " - v.since), case when v.ends is not null then greatest(0, v.ends - " NOW
    ") end, v.value, v.label"
    " from (" LIVING_ROWS("t.name = $1") " union all " LIVING_FOLDED("l.name = $1") " union all " LIVING_ROWS(
        "$1 is null and t.session = $2") " union all " LIVING_FOLDED("$1 is null and l.session = $2") ") v order by v.name, v.number";

static const char list[] = "select v.name, count(*), count(*) filter (where v.granted) from (" LIVING_ROWS(
    "t.name >= $1 and left(t.name, length($1)) = $1") " union all " LIVING_FOLDED("l.name >= $1 and left(l.name, length($1)) = $1") ") v group by v.name order by v.name";

/* ---- All -------------------------------------------------------------------------------------- */

#define ROWS RT_POSTGRES_ROWS
#define CHANGED RT_POSTGRES_CHANGED

const struct rt_postgres_statement rt_postgres_statements[RT_SQL_STEPS] = {
    [RT_SQL_FACTS] = {rt_postgres_facts, "", ROWS, true},
    [RT_SQL_LAYOUT] = {layout, "", ROWS, true},
    [RT_SQL_MAKE] = {NULL, "", RT_POSTGRES_NOTHING, true},
    [RT_SQL_OPEN] = {open_session, "iil", CHANGED, false},
    [RT_SQL_RENEW] = {renew, "ii", CHANGED, false},
    [RT_SQL_END] = {end_session, "i", CHANGED, false},
    [RT_SQL_MINE] = {mine, "i", ROWS, false},
    [RT_SQL_FOLDED] = {folded, "ti", ROWS, false},
    [RT_SQL_DEAD] = {dead, "i", ROWS, false},
    [RT_SQL_BURY] = {bury, "i", CHANGED, false},
    [RT_SQL_IDLE] = {idle, "ii", CHANGED, false},
    [RT_SQL_TAKE] = {take, "tiiiii", ROWS, false},
    [RT_SQL_GIVE] = {give, "tii", CHANGED, false},
    [RT_SQL_VERIFY] = {verify, "tii", ROWS, false},
    [RT_SQL_LOCK] = {lock, "ti", RT_POSTGRES_NOTHING, false},
    [RT_SQL_UNFOLD] = {unfold, "t", CHANGED, false},
    [RT_SQL_PURGE] = {purge, "t", CHANGED, false},
    [RT_SQL_SETTLE] = {settle, "t", CHANGED, false},
    [RT_SQL_TELL] = {tell, "tc", RT_POSTGRES_NOTHING, false},
    [RT_SQL_GATE] = {gate, "tiiiiiii", RT_POSTGRES_NOTHING, false},
    [RT_SQL_JOIN] = {join, "tiiiiiiiiiiiiblii", CHANGED, false},
    [RT_SQL_WANT] = {want, "t", RT_POSTGRES_NOTHING, false},
    [RT_SQL_ANSWER] = {answer, "tii", ROWS, false},
    [RT_SQL_LEAVE] = {leave, "tiiii", ROWS, false},
    [RT_SQL_CHANGE] = {change, "tiiiibi", CHANGED, false},
    [RT_SQL_STATE] = {state, "tii", ROWS, false},
    [RT_SQL_BREAK] = {break_ticket, "tii", RT_POSTGRES_COUNT, false},
    [RT_SQL_WATCH] = {watch, "ti", CHANGED, false},
    [RT_SQL_LOOK] = {look, "tii", ROWS, false},
    [RT_SQL_FRONT] = {front, "t", ROWS, false},
    [RT_SQL_INSPECT] = {inspect, "ti", ROWS, false},
    [RT_SQL_LIST] = {list, "t", ROWS, false},
    [RT_SQL_DOCTOR] = {rt_postgres_doctor, "w", ROWS, true},
    [RT_SQL_LISTEN] = {NULL, "i", RT_POSTGRES_NOTHING, true},
    [RT_SQL_UNLISTEN] = {NULL, "i", RT_POSTGRES_NOTHING, true},
    [RT_SQL_LISTEN_LINE] = {NULL, "t", RT_POSTGRES_NOTHING, true},
    [RT_SQL_UNLISTEN_LINE] = {NULL, "t", RT_POSTGRES_NOTHING, true},
};

void rt_postgres_bell(char *out, int64_t bell)
{
    snprintf(out, RT_POSTGRES_CHANNEL, "rota_%016" PRIx64, (uint64_t)bell);
}

void rt_postgres_line(char *out, const char *name, size_t size)
{
    snprintf(out, RT_POSTGRES_CHANNEL, "rota_o%016" PRIx64, rt_hash(name, size));
}
