-- SPDX-License-Identifier: Apache-2.0
-- The journal in PostgreSQL: rows.h says what each step is. Isolation is READ COMMITTED, and a flight is one
-- transaction.
-- GUARD is an advisory lock: a row lock on the floor would write to its row in every flight.
#define NOW (date_part('epoch', statement_timestamp()) * 1000)::bigint
#define MAY_DECIDE(stands_, known_) (t.stands = 1 and (stands_ = 3 or t.registered <= known_))
#define COLUMNS (id, stands, deadline, decided, done, registered, claimer, claimed, label, branches)

--@ meta as it is
create table if not exists rota_txn_meta (
    k text collate "C" primary key,
    n bigint not null,
    v text not null)
--@ row_table as it is
create table if not exists rota_txn (
    id bytea primary key,
    stands bigint not null,
    deadline bigint not null,
    decided bigint not null,
    done bigint not null,
    registered bigint not null,
    claimer bigint not null,
    claimed bigint not null,
    label text not null,
    branches bytea not null)
--@ undone as it is
create index if not exists rota_txn_undone on rota_txn (deadline, id) where done = 0
--@ branch_table as it is
create table if not exists rota_txn_branch (
    id bytea not null,
    number bigint not null,
    body bytea not null,
    primary key (id, number))
--@ resource_table as it is
create table if not exists rota_txn_resource (
    name text collate "C" primary key,
    url text not null,
    seen bigint not null)
--@ fill as it is
insert into rota_txn_meta (k, n, v) values
    ('layout', 0, '1.0'), ('floor', 0, ''), ('number', floor(random() * 4294967295)::bigint + 1, '')
    on conflict do nothing

--@ make_lock
select pg_advisory_xact_lock(1919906913)

-- Names every table: one that is not there is as good as none. A journal whose COMMIT does not wait for the disk is
-- none.
--@ who
select (select n from rota_txn_meta where k = 'number'), f.n, NOW, (select v from rota_txn_meta where k = 'layout')
from rota_txn_meta f where f.k = 'floor'
    and not exists (select id from rota_txn where false) and not exists (select id from rota_txn_branch where false)
    and not exists (select name from rota_txn_resource where false)
    and (current_setting('synchronous_commit') <> 'off' or set_config('synchronous_commit', 'on', false) is not null)

--@ guard
select pg_advisory_xact_lock_shared(1919906914)

--@ guard_alone
select pg_advisory_xact_lock(1919906914)

--@ insert
insert into rota_txn as t COLUMNS select $1, $2, $3, NOW, 0, 0, 0, 0, $4, $5 from rota_txn_meta m
where m.k = 'floor' and m.n <= $7
on conflict (id) do update set stands = excluded.stands, decided = excluded.decided, branches = excluded.branches
where MAY_DECIDE($2, $6)

-- The same for several, in the order of their ids.
--@ insert_many
insert into rota_txn as t COLUMNS select d.id, d.stands, d.deadline, NOW, 0, 0, 0, 0, d.label, d.branches
from unnest($1, $2, $3, $4, $5, $7) d (id, stands, deadline, label, branches, birth)
where d.birth >= (select n from rota_txn_meta where k = 'floor')
on conflict (id) do update set stands = excluded.stands, decided = excluded.decided, branches = excluded.branches
where MAY_DECIDE(excluded.stands, (select max(k.known) from unnest($1, $6) k (id, known) where k.id = t.id))
returning t.id

--@ settle
update rota_txn t set stands = $2, decided = NOW, branches = $3 where t.id = $1 and MAY_DECIDE($2, $4)

--@ stands
select m.n, t.stands, t.done, t.deadline, t.decided, t.registered, t.claimer, t.claimed, t.label, t.branches, NOW
from rota_txn_meta m left join rota_txn t on t.id = $1 where m.k = 'floor'

--@ row
insert into rota_txn COLUMNS select $1, 1, $2, 0, 0, 0, 0, 0, $3, '' from rota_txn_meta m
where m.k = 'floor' and m.n <= $4
on conflict (id) do nothing

--@ lock
select 1::bigint from rota_txn where id = $1 for update

--@ branch
insert into rota_txn_branch (id, number, body) select $1, $2, $3 from rota_txn where id = $1 and stands = 1
on conflict (id, number) do nothing

--@ count
update rota_txn set registered = (select count(*) from rota_txn_branch b where b.id = $1) where id = $1 and stands = 1

--@ branches
select body from rota_txn_branch where id = $1 order by number

-- done < 1: with done = 0 a plan that was made when the table was empty goes through rota_txn_undone, for ever.
--@ done
update rota_txn set done = NOW where id = $1 and stands <> 1 and done < 1

--@ done_many
update rota_txn set done = NOW where stands <> 1 and done < 1 and id in
    ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

--@ raise
update rota_txn_meta set n = $1 where k = 'floor' and n < $1

--@ sweep
delete from rota_txn where id in (select id from rota_txn where id < $1 and done <> 0 order by id limit $2)

--@ strays
delete from rota_txn_branch b where b.id < $1 and not exists (select 1 from rota_txn t where t.id = b.id)

--@ named_branches
delete from rota_txn_branch where id in
    (select id from rota_txn where id >= $1 and done <> 0 and decided < $2 order by id limit $3)

--@ named
delete from rota_txn where id in
    (select id from rota_txn where id >= $1 and done <> 0 and decided < $2 order by id limit $3)

--@ scan
select id, stands, deadline, decided, registered, claimer, claimed, label, branches from rota_txn
where done = 0 and deadline <= $1 and (deadline, id) > ($2, $3) order by deadline, id limit $4

--@ all
select id, stands, deadline, decided, registered, claimer, claimed, label, branches, done from rota_txn
where id > $1 order by id limit $2

--@ claim
update rota_txn set claimer = case when $3 = 0 then 0 else $2 end, claimed = case when $3 = 0 then 0 else NOW + $3 end
where id = $1 and done < 1 and (claimer in (0, $2) or claimed <= NOW)

--@ resource
insert into rota_txn_resource as r (name, url, seen) values ($1, $2, NOW)
on conflict (name) do update set url = excluded.url, seen = excluded.seen where r.url <> excluded.url

--@ resources
select name, url, seen from rota_txn_resource order by name
