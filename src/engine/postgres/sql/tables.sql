-- SPDX-License-Identifier: Apache-2.0
-- What the server keeps: engine/sql/driver.h says what it means. MAKE runs it; `rota doctor --ddl` prints it.

-- The room of a lock, and the weight of an exclusive ticket: 2^62.
#define ALL 4611686018427387904

-- No CHECKs: PostgreSQL makes them ready anew for every statement, which cost a third of a pair (0.04 ms).
--
-- Rows change all the time and are few: pages with room for the next version, of which no index needs to hear, and swept long
-- before a fifth of them is dead.
#define BUSY_TABLE with (fillfactor = 60, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05, \
    autovacuum_analyze_threshold = 100000, autovacuum_vacuum_cost_delay = 0)

--@ ddl as it is
create table if not exists rota_meta (
    k text collate "C" primary key,
    v text not null);
create table if not exists rota_session (
    id bigint primary key,
    expires bigint not null,
    label text not null)
    BUSY_TABLE;
create table if not exists rota_line (
    name text collate "C" primary key,
    fence bigint not null,
    session bigint,
    nonce bigint,
    owner bigint,
    flags bigint,
    since bigint not null,
    bell bigint,
    count bigint not null default 0,
    waiting bigint not null default 0,
    watched bigint not null default 0)
    BUSY_TABLE;
create table if not exists rota_ticket (
    name text collate "C" not null,
    number bigint not null,
    session bigint not null,
    nonce bigint not null,
    owner bigint not null,
    mode bigint not null,
    take bigint not null,
    of_ bigint not null,
    weight bigint not null,
    granted boolean not null,
    durable boolean not null,
    flags bigint not null,
    since bigint not null,
    at_least bigint not null,
    until bigint not null,
    bell bigint not null,
    value bytea,
    label text,
    primary key (name, number))
    BUSY_TABLE;
create index if not exists rota_session_expires on rota_session (expires);
create index if not exists rota_ticket_session on rota_ticket (session);
create index if not exists rota_ticket_until on rota_ticket (until) where until <> 0;
insert into rota_meta (k, v) select 'layout', '1.0' where not exists (select 1 from rota_meta) on conflict do nothing;

-- Names every column: a table of another shape is as good as none.
--@ layout
select v, (select w.v from rota_meta w where w.k = 'server') from rota_meta where k = 'layout'
    and not exists (select id, expires, label from rota_session where false)
    and not exists (select name, fence, session, nonce, owner, flags, since, bell, count, waiting, watched
        from rota_line where false)
    and not exists (select name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags,
        since, at_least, until, bell, value, label from rota_ticket where false)
