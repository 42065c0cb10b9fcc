-- SPDX-License-Identifier: Apache-2.0
-- The journal in MariaDB 10.6 and MySQL 8.0, or later: rows.h says what each step is. Isolation is READ COMMITTED,
-- and a flight is one transaction. An assignment of ON DUPLICATE KEY UPDATE sees those before it: `stands` comes last.
#define NOW (timestampdiff(microsecond, 19700101, utc_timestamp(6)) div 1000)
#define MAY(stands_, known_) (rota_txn.stands = 1 and (stands_ = 3 or rota_txn.registered <= known_))
#define COLUMNS (id, stands, deadline, decided, done, registered, claimer, claimed, label, branches)

--@ meta as it is
create table if not exists rota_txn_meta (
    k varbinary(32) not null primary key,
    n bigint not null,
    v varbinary(255) not null)
    engine=InnoDB row_format=dynamic
--@ row_table as it is
create table if not exists rota_txn (
    id binary(16) not null primary key,
    stands tinyint not null,
    deadline bigint not null,
    decided bigint not null,
    done bigint not null,
    registered int not null,
    claimer bigint not null,
    claimed bigint not null,
    label varbinary(255) not null,
    branches mediumblob not null,
    key rota_txn_undone (done, deadline, id))
    engine=InnoDB row_format=dynamic
--@ branch_table as it is
create table if not exists rota_txn_branch (
    id binary(16) not null,
    number bigint not null,
    body mediumblob not null,
    primary key (id, number))
    engine=InnoDB row_format=dynamic
--@ resource_table as it is
create table if not exists rota_txn_resource (
    name varbinary(255) not null primary key,
    url varbinary(2048) not null,
    seen bigint not null)
    engine=InnoDB row_format=dynamic
--@ fill as it is
insert ignore into rota_txn_meta (k, n, v) values
    ('layout', 0, '1.0'), ('floor', 0, ''), ('number', floor(rand() * 4294967295) + 1, '')

--@ who
select (select n from rota_txn_meta where k = 'number'), f.n, NOW, (select v from rota_txn_meta where k = 'layout')
from rota_txn_meta f where f.k = 'floor'
    and not exists (select id from rota_txn where false) and not exists (select id from rota_txn_branch where false)
    and not exists (select name from rota_txn_resource where false)

--@ guard
select n from rota_txn_meta where k = 'floor' lock in share mode

--@ guard_alone
select n from rota_txn_meta where k = 'floor' for update

--@ insert
insert into rota_txn COLUMNS select ?1, ?2, ?3, NOW, 0, 0, 0, 0, ?4, ?5 from rota_txn_meta m
where m.k = 'floor' and m.n <= ?7
on duplicate key update
    branches = if(MAY(?2, ?6), ?5, rota_txn.branches), decided = if(MAY(?2, ?6), NOW, rota_txn.decided),
    stands = if(MAY(?2, ?6), ?2, rota_txn.stands)

--@ settle
update rota_txn set stands = ?2, decided = NOW, branches = ?3 where id = ?1 and MAY(?2, ?4)

--@ stands
select m.n, t.stands, t.done, t.deadline, t.decided, t.registered, t.claimer, t.claimed, t.label, t.branches, NOW
from rota_txn_meta m left join rota_txn t on t.id = ?1 where m.k = 'floor'

--@ row
insert into rota_txn COLUMNS select ?1, 1, ?2, 0, 0, 0, 0, 0, ?3, '' from rota_txn_meta m
where m.k = 'floor' and m.n <= ?4
on duplicate key update registered = rota_txn.registered

--@ lock
select 1 from rota_txn where id = ?1 for update

--@ branch
insert into rota_txn_branch (id, number, body) select ?1, ?2, ?3 from rota_txn where id = ?1 and stands = 1
on duplicate key update number = rota_txn_branch.number

--@ count
update rota_txn set registered = (select count(*) from rota_txn_branch b where b.id = ?1) where id = ?1 and stands = 1

--@ branches
select body from rota_txn_branch where id = ?1 order by number

--@ done
update rota_txn set done = NOW where id = ?1 and stands <> 1 and done = 0

--@ done_many
update rota_txn set done = NOW where stands <> 1 and done = 0 and id in
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)

--@ raise
update rota_txn_meta set n = ?1 where k = 'floor' and n < ?1

--@ sweep
delete from rota_txn where id < ?1 and done <> 0 order by id limit ?2

--@ strays
delete b from rota_txn_branch b left join rota_txn t on t.id = b.id where b.id < ?1 and t.id is null

--@ named_branches
delete b from rota_txn_branch b join (
    select id from rota_txn where id >= ?1 and done <> 0 and decided < ?2 order by id limit ?3) t on t.id = b.id

--@ named
delete from rota_txn where id >= ?1 and done <> 0 and decided < ?2 order by id limit ?3

--@ scan
select id, stands, deadline, decided, registered, claimer, claimed, label, branches from rota_txn
where done = 0 and deadline <= ?1 and (deadline > ?2 or (deadline = ?2 and id > ?3)) order by deadline, id limit ?4

--@ all
select id, stands, deadline, decided, registered, claimer, claimed, label, branches, done from rota_txn
where id > ?1 order by id limit ?2

--@ claim
update rota_txn set claimer = if(?3 = 0, 0, ?2), claimed = if(?3 = 0, 0, NOW + ?3)
where id = ?1 and done = 0 and (claimer in (0, ?2) or claimed <= NOW)

--@ resource
insert into rota_txn_resource (name, url, seen) values (?1, ?2, NOW)
on duplicate key update seen = if(url = ?2, seen, NOW), url = ?2

--@ resources
select name, url, seen from rota_txn_resource order by name
