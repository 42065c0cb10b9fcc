-- SPDX-License-Identifier: Apache-2.0
-- The statements of lease.h, in the SQL of MariaDB and MySQL. {table}, {fence}, {shown}: what the table is called, the one with its
-- fences, and the table in messages; {schema} and {name}: its parts, as values. Arguments of a ticket: ?1 name, ?2 session,
-- ?3 nonce, ?4 ttl in us, ?5 thread, ?6 host, ?7 process, ?8 label, ?9 id (whose it is, as one text), ?10 the version that was seen.
--
-- NOW is the beginning of the statement: whoever judges another's end does so by a clock that is behind, on the row's last
-- version, which an ON DUPLICATE KEY UPDATE and an UPDATE wait for. What only looks decides nothing. Nothing is locked for
-- sharing first and changed then: that is how two who wait would stop each other.
#define NOW timestampdiff(microsecond, 19700101, utc_timestamp(6))
#define DAY 86400000000
#define LATER least(greatest(expires, NOW + ?4), NOW + 3 * ?4)

#define OF_TABLE table_schema = {schema} and table_name = {name}
-- A key of its own, or two would hold.
#define SHAPE(more_) select case \
        when not exists (select 1 from information_schema.statistics i where i.OF_TABLE and i.non_unique = 0 \
                and i.column_name = 'name' and i.sub_part is null and 1 = (select count(*) from information_schema.statistics k \
                    where k.OF_TABLE and k.index_name = i.index_name)) \
            then 'the column name of {shown} has no unique key of its own: two would hold' \
        when exists (select 1 from information_schema.tables where OF_TABLE and engine <> 'InnoDB') \
            then '{shown} is not InnoDB: ALTER TABLE {shown} ENGINE=InnoDB' \
        more_ else '' end, \
    (select coalesce(character_maximum_length, 0) from information_schema.columns where OF_TABLE and column_name = 'name')

-- ---- row

--@ row_ddl as it is
create table if not exists {table} (
    name varbinary(1530) not null primary key,
    fence bigint not null,
    session bigint not null,
    nonce bigint not null,
    host varbinary(255) not null,
    process bigint not null,
    thread bigint not null,
    label varbinary(255) not null,
    since bigint not null,
    expires bigint not null,
    key rota_by_expires (expires))
    engine=InnoDB row_format=dynamic;
create table if not exists {fence} (
    name varbinary(1530) not null primary key,
    fence bigint not null)
    engine=InnoDB row_format=dynamic;

--@ row_columns
select r.name, r.fence, session, nonce, host, process, thread, label, since, expires, f.name, f.fence
from {table} r cross join {fence} f where false

--@ row_shape
SHAPE()

-- The fence first: its row makes those who find nobody there come one after the other. Nothing is written while another holds.
#define MINE session = ?2 and nonce = ?3
--@ row_begin
set @rota_fence = null
--@ row_number
insert into {fence} (name, fence) select ?1, @rota_fence := NOW from dual
where not exists (select 1 from {table} where name = ?1 and expires > NOW and not (MINE))
on duplicate key update fence = (@rota_fence := greatest(fence + 1, values(fence)))
-- Assignments go from left to right: what FREE looks at comes last.
#define FREE expires <= NOW
#define IF_FREE(column_) column_ = if(FREE, values(column_), column_)
--@ row_take
insert into {table} (name, fence, session, nonce, host, process, thread, label, since, expires)
select ?1, @rota_fence, ?2, ?3, ?6, ?7, ?5, ?8, NOW, NOW + ?4 from dual where @rota_fence is not null
on duplicate key update IF_FREE(fence), IF_FREE(host), IF_FREE(process), IF_FREE(thread), IF_FREE(label), IF_FREE(since),
    IF_FREE(session), IF_FREE(nonce), expires = if(MINE, values(expires), expires)

--@ row_renew
update {table} set expires = LATER where name = ?1 and MINE and expires > NOW
--@ row_have
select 1 from {table} where name = ?1 and MINE and expires > NOW

--@ row_leave
delete from {table} where name = ?1 and MINE and expires > NOW

-- An error, if it is another's: a set comes to nothing.
--@ row_guard
insert into {table} (name, fence, session, nonce, host, process, thread, label, since, expires)
select name, fence, session, nonce, host, process, thread, label, since, expires from {table} where name = ?1 and not (MINE)

--@ row_look
select name, fence, session, nonce, expires - NOW, NOW - since, thread, host, process, label from {table} where name = ?1

--@ row_list
select name from {table} where left(name, length(?1)) = ?1 and expires > NOW order by name

--@ row_break
delete from {table} where name = ?1 and fence = ?2

--@ row_sweep
delete from {table} where expires <= NOW order by expires limit ?1

-- Numbers that the clock has left far behind.
--@ row_tidy
delete from {fence} where fence < NOW - DAY limit ?1

-- ---- version

--@ version_ddl as it is
create table if not exists {table} (
    name varbinary(1530) not null primary key,
    version bigint not null,
    session bigint not null,
    nonce bigint not null,
    host varbinary(255) not null,
    process bigint not null,
    thread bigint not null,
    label varbinary(255) not null,
    since bigint not null,
    expires bigint not null)
    engine=InnoDB row_format=dynamic;

--@ version_columns
select name, version, session, nonce, host, process, thread, label, since, expires from {table} where false

--@ version_shape
SHAPE()

--@ version_take
update {table} set version = greatest(version + 1, NOW), session = ?2, nonce = ?3, host = ?6, process = ?7, thread = ?5,
    label = ?8, since = NOW, expires = NOW + ?4
where name = ?1 and version = ?10 and (session = 0 or expires <= NOW)

--@ version_first
insert into {table} (name, version, session, nonce, host, process, thread, label, since, expires)
select ?1, NOW, ?2, ?3, ?6, ?7, ?5, ?8, NOW, NOW + ?4 from dual where ?10 = -1
on duplicate key update version = version

--@ version_renew
update {table} set expires = LATER where name = ?1 and MINE and expires > NOW
--@ version_have
select 1 from {table} where name = ?1 and MINE and expires > NOW

#define FREED session = 0, nonce = 0, host = '', process = 0, thread = 0, label = '', expires = 0
--@ version_leave
update {table} set FREED where name = ?1 and MINE and expires > NOW

--@ version_guard
insert into {table} (name, version, session, nonce, host, process, thread, label, since, expires)
select name, version, session, nonce, host, process, thread, label, since, expires from {table} where name = ?1 and not (MINE)

--@ version_look
select name, version, session, nonce, if(session = 0, 0, expires - NOW), NOW - since, thread, host, process, label
from {table} where name = ?1

--@ version_list
select name from {table} where left(name, length(?1)) = ?1 and session <> 0 and expires > NOW order by name

--@ version_break
update {table} set FREED where name = ?1 and version = ?2 and session <> 0

--@ version_tidy
delete from {table} where version < NOW - DAY and expires <= NOW limit ?1

-- ---- shedlock: to the byte, with the server's time

#define UTC utc_timestamp(3)
#define UNTIL timestampadd(microsecond, ?4, UTC)
#define AT timestampdiff(microsecond, '1970-01-01', locked_at)

-- Others store UTC in TIMESTAMPs as if it were the zone of their session, which is the server's: so must we.
--@ shedlock_zone
set time_zone = @@global.time_zone

--@ shedlock_ddl as it is
create table if not exists {table} (
    name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    lock_until TIMESTAMP(3) NOT NULL,
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_by VARCHAR(255) NOT NULL,
    PRIMARY KEY (name))
    engine=InnoDB;

--@ shedlock_columns
select name from {table} where false and lock_until is null and locked_at is null and locked_by is null

--@ shedlock_shape
SHAPE(when (select count(*) from information_schema.columns where OF_TABLE and column_name in ('lock_until', 'locked_at')
        and datetime_precision >= 3) < 2
    then 'lock_until and locked_at of {shown} have no milliseconds: a rounded end is too early; use TIMESTAMP(3)')

--@ shedlock_take
update {table} set lock_until = UNTIL, locked_at = UTC, locked_by = ?9
where name = ?1 and (lock_until <= UTC or locked_by = ?9)
--@ shedlock_first
insert into {table} (name, lock_until, locked_at, locked_by) select ?1, UNTIL, UTC, ?9 from dual
where not exists (select 1 from {table} where name = ?1)
on duplicate key update locked_by = locked_by

--@ shedlock_renew
update {table} set lock_until = greatest(lock_until, UNTIL) where name = ?1 and locked_by = ?9 and lock_until > UTC
--@ shedlock_have
select 1 from {table} where name = ?1 and locked_by = ?9 and lock_until > UTC

--@ shedlock_leave
update {table} set lock_until = UTC where name = ?1 and locked_by = ?9 and lock_until > UTC

--@ shedlock_guard
insert into {table} (name, lock_until, locked_at, locked_by)
select name, lock_until, locked_at, locked_by from {table} where name = ?1 and locked_by <> ?9

--@ shedlock_look
select name, AT, 0, 0, timestampdiff(microsecond, UTC, lock_until), timestampdiff(microsecond, locked_at, UTC), 0, '', 0,
    locked_by from {table} where name = ?1

--@ shedlock_list
select name from {table} where left(cast(name as binary), length(?1)) = ?1 and lock_until > UTC order by cast(name as binary)

--@ shedlock_break
update {table} set lock_until = UTC where name = ?1 and AT = ?2 and lock_until > UTC
