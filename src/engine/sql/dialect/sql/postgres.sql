-- SPDX-License-Identifier: Apache-2.0
-- The statements of lease.h, in PostgreSQL's words. {table}, {fence}, {index}, {shown}: what the table is called, the one with its
-- fences, an index, and the table in messages. Arguments of a ticket: $1 name, $2 session, $3 nonce, $4 ttl in us, $5 thread,
-- $6 host, $7 process, $8 label, $9 id (whose it is, as one text), $10 the version that was seen.
--
-- NOW is the beginning of the statement: whoever judges another's end does so by a clock that is behind, on the row's last
-- version, which an ON CONFLICT DO UPDATE and an UPDATE wait for. What only looks decides nothing.
#define NOW (date_part('epoch', statement_timestamp()) * 1000000)::bigint
#define DAY 86400000000
#define LATER least(greatest(expires, NOW + $4), NOW + 3 * $4)

-- A key of its own, or two would hold.
#define SHAPE(more_) select case \
        when not exists (select 1 from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0] \
            where i.indrelid = to_regclass('{table}') and i.indisunique and i.indimmediate and i.indpred is null \
                and i.indnkeyatts = 1 and a.attname = 'name') \
            then 'the column name of {shown} has no unique key of its own: two would hold' \
        when (select relpersistence from pg_class where oid = to_regclass('{table}')) <> 'p' \
            then '{shown} is not logged: a crash empties it; ALTER TABLE {shown} SET LOGGED' \
        more_ else '' end, \
    (select case when a.atttypmod > 4 then a.atttypmod - 4 else 0 end::bigint from pg_attribute a \
        where a.attrelid = to_regclass('{table}') and a.attname = 'name')

-- Two who make tables do so one after the other.
--@ make
select pg_advisory_xact_lock(1919906913)

-- ---- row

--@ row_ddl as it is
create table if not exists {table} (
    name text collate "C" primary key,
    fence bigint not null,
    session bigint not null,
    nonce bigint not null,
    host text not null,
    process bigint not null,
    thread bigint not null,
    label text not null,
    since bigint not null,
    expires bigint not null);
create table if not exists {fence} (
    name text collate "C" primary key,
    fence bigint not null);
create index if not exists {index} on {table} (expires);

--@ row_columns
select r.name, r.fence, session, nonce, host, process, thread, label, since, expires, f.name, f.fence
from {table} r cross join {fence} f where false

--@ row_shape
SHAPE()

-- The fence first: its row makes those who find nobody there come one after the other. Nothing is written while another holds.
#define MINE(r_) (r_.session = $2 and r_.nonce = $3)
--@ row_take
with f as (insert into {fence} as f (name, fence)
    select $1, NOW where not exists (select 1 from {table} r where r.name = $1 and r.expires > NOW and not MINE(r))
    on conflict (name) do update set fence = greatest(f.fence + 1, excluded.fence) returning fence)
insert into {table} as r (name, fence, session, nonce, host, process, thread, label, since, expires)
select $1, f.fence, $2, $3, $6, $7, $5, $8, NOW, NOW + $4 from f
on conflict (name) do update set expires = excluded.expires,
    fence = case when r.expires > NOW then r.fence else excluded.fence end,
    since = case when r.expires > NOW then r.since else excluded.since end,
    session = excluded.session, nonce = excluded.nonce, host = excluded.host, process = excluded.process,
    thread = excluded.thread, label = excluded.label
where r.expires <= NOW or MINE(r)

--@ row_renew
update {table} r set expires = LATER where r.name = $1 and MINE(r) and r.expires > NOW returning 1::bigint

--@ row_leave
delete from {table} r where r.name = $1 and MINE(r) and r.expires > NOW

-- An error, unless it is ours: a set comes to nothing.
--@ row_guard
select 1 / (select count(*) from {table} r where r.name = $1 and MINE(r))

--@ row_look
select name, fence, session, nonce, expires - NOW, NOW - since, thread, host, process, label from {table} where name = $1

--@ row_list
select name from {table} where left(name, length($1)) = $1 and expires > NOW order by name collate "C"

--@ row_break
delete from {table} where name = $1 and fence = $2

--@ row_sweep
delete from {table} where name in (select name from {table} where expires <= NOW order by expires limit $1 for update skip locked)

-- Numbers that the clock has left far behind.
--@ row_tidy
delete from {fence} where name in (select name from {fence} where fence < NOW - DAY limit $1 for update skip locked)

-- ---- version

--@ version_ddl as it is
create table if not exists {table} (
    name text collate "C" primary key,
    version bigint not null,
    session bigint not null,
    nonce bigint not null,
    host text not null,
    process bigint not null,
    thread bigint not null,
    label text not null,
    since bigint not null,
    expires bigint not null);

--@ version_columns
select name, version, session, nonce, host, process, thread, label, since, expires from {table} where false

--@ version_shape
SHAPE()

--@ version_take
update {table} set version = greatest(version + 1, NOW), session = $2, nonce = $3, host = $6, process = $7, thread = $5,
    label = $8, since = NOW, expires = NOW + $4
where name = $1 and version = $10 and (session = 0 or expires <= NOW)

--@ version_first
insert into {table} (name, version, session, nonce, host, process, thread, label, since, expires)
select $1, NOW, $2, $3, $6, $7, $5, $8, NOW, NOW + $4 where $10 = -1 on conflict (name) do nothing

--@ version_renew
update {table} r set expires = LATER where r.name = $1 and MINE(r) and r.expires > NOW returning 1::bigint

#define FREED session = 0, nonce = 0, host = '', process = 0, thread = 0, label = '', expires = 0
--@ version_leave
update {table} r set FREED where r.name = $1 and MINE(r) and r.expires > NOW

--@ version_guard
select 1 / (select count(*) from {table} r where r.name = $1 and MINE(r))

--@ version_look
select name, version, session, nonce, case when session = 0 then 0 else expires - NOW end, NOW - since, thread, host, process,
    label from {table} where name = $1

--@ version_list
select name from {table} where left(name, length($1)) = $1 and session <> 0 and expires > NOW order by name collate "C"

--@ version_break
update {table} set FREED where name = $1 and version = $2 and session <> 0

--@ version_tidy
delete from {table} where name in (select name from {table} where version < NOW - DAY and expires <= NOW limit $1
    for update skip locked)

-- ---- shedlock: to the byte, with the server's time

#define UTC timezone('utc', statement_timestamp())
#define US(n_) (n_)::double precision * interval '1 microsecond'
#define MICROS(i_) (date_part('epoch', i_) * 1000000)::bigint

--@ shedlock_ddl as it is
create table if not exists {table} (
    name VARCHAR(64) NOT NULL,
    lock_until TIMESTAMP NOT NULL,
    locked_at TIMESTAMP NOT NULL,
    locked_by VARCHAR(255) NOT NULL,
    PRIMARY KEY (name));

--@ shedlock_columns
select name from {table} where false and lock_until is null and locked_at is null and locked_by is null

--@ shedlock_shape
SHAPE(when exists (select 1 from pg_attribute a where a.attrelid = to_regclass('{table}')
        and a.attname in ('lock_until', 'locked_at') and a.atttypid <> 'timestamp'::regtype)
    then 'lock_until and locked_at of {shown} are not TIMESTAMP without time zone: clients of several zones would disagree'
    when exists (select 1 from pg_attribute a where a.attrelid = to_regclass('{table}')
        and a.attname in ('lock_until', 'locked_at') and a.atttypmod between 0 and 2)
    then 'lock_until and locked_at of {shown} have no milliseconds: a rounded end is too early; use TIMESTAMP(3)')

--@ shedlock_take
insert into {table} as s (name, lock_until, locked_at, locked_by)
select $1, UTC + US($4), UTC, $9
where not exists (select 1 from {table} x where x.name = $1 and x.lock_until > UTC and x.locked_by <> $9)
on conflict (name) do update set lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by
where s.lock_until <= UTC or s.locked_by = $9

--@ shedlock_renew
update {table} set lock_until = greatest(lock_until, UTC + US($4)) where name = $1 and locked_by = $9 and lock_until > UTC
returning 1::bigint

--@ shedlock_leave
update {table} set lock_until = UTC where name = $1 and locked_by = $9 and lock_until > UTC

--@ shedlock_guard
select 1 / (select count(*) from {table} where name = $1 and locked_by = $9)

--@ shedlock_look
select name, MICROS(locked_at), 0::bigint, 0::bigint, MICROS(lock_until - UTC), MICROS(UTC - locked_at), 0::bigint, '',
    0::bigint, locked_by from {table} where name = $1

--@ shedlock_list
select name from {table} where left(name, length($1)) = $1 and lock_until > UTC order by name collate "C"

--@ shedlock_break
update {table} set lock_until = UTC where name = $1 and MICROS(locked_at) = $2 and lock_until > UTC
