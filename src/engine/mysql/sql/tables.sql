-- SPDX-License-Identifier: Apache-2.0
-- What the server keeps: engine/sql/driver.h says what it means. MAKE runs it; `rota doctor --ddl` prints it.

-- No index on a line but its key: it would be changed with every lock and unlock.
--@ ddl as it is
create table if not exists rota_meta (
    k varbinary(32) not null primary key,
    v varbinary(255) not null)
    engine=InnoDB row_format=dynamic;
create table if not exists rota_session (
    id bigint not null primary key,
    expires bigint not null,
    label varbinary(255) not null,
    key rota_by_expires (expires))
    engine=InnoDB row_format=dynamic;
create table if not exists rota_line (
    name varbinary(1530) not null primary key,
    fence bigint not null default 0,
    session bigint null,
    nonce bigint not null default 0,
    owner bigint not null default 0,
    flags int not null default 0,
    since bigint not null default 0,
    bell bigint not null default 0,
    count int not null default 0,
    waiting int not null default 0,
    watched bigint not null default 0)
    engine=InnoDB row_format=dynamic;
create table if not exists rota_ticket (
    name varbinary(1530) not null,
    number bigint not null,
    session bigint not null,
    nonce bigint not null,
    owner bigint not null,
    mode tinyint not null,
    take int not null,
    of_ int not null,
    weight bigint not null,
    granted tinyint not null,
    durable tinyint not null,
    flags int not null,
    since bigint not null,
    at_least bigint not null,
    until bigint not null,
    bell bigint not null,
    value varbinary(1023) null,
    label varbinary(255) null,
    primary key (name, number),
    key rota_by_session (durable, session),
    key rota_by_until (until))
    engine=InnoDB row_format=dynamic;
insert ignore into rota_meta (k, v) select 'layout', '1.0' from dual where not exists (select 1 from rota_meta);
