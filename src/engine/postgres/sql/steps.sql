-- SPDX-License-Identifier: Apache-2.0
-- The steps of engine/sql/driver.h.
--
-- Which time is now? A pipelined statement is Bind, then Execute. One that changes something takes its snapshot in Execute,
-- behind the moment that statement_timestamp() tells: NOW. One that only reads takes it in Bind already, *before* that moment,
-- so it may miss a renewal that was answered before NOW: it judges others by the beginning of the transaction, THEN. (Its own
-- session's renewals came by the same connection, and how long something still lasts is only said to be looked at again: NOW
-- is good enough for both.)
--
-- Isolation is READ COMMITTED: behind LOCK each statement sees what is there when the line is ours.
--
-- Plans are made once, whatever is in the tables then. So nothing is written that could be read by anything but a key:
-- subqueries of one row in place of EXISTS, and OFFSET 0, which a plan does not turn into a join.
-- By date_part, a double, which is exact to the microsecond until 2100; extract is a numeric since 14, and takes ten times as long.
#define NOW (date_part('epoch', statement_timestamp()) * 1000000)::bigint
#define THEN (date_part('epoch', transaction_timestamp()) * 1000000)::bigint
#define ALIVE(id_) (coalesce((select s.expires from rota_session s where s.id = id_), 0) > NOW)
#define NOTIFY(t_, kind_) pg_notify('rota_' || lpad(to_hex(t_.bell), 16, '0'), t_.number || kind_ || $1)
#define WANTED(t_, l_) (t_.granted and t_.flags & 1 <> 0 and l_.waiting > 0)

-- rt_mode, as core/grant.h numbers them.
#define SHARED 1
#define PERMITS 2
#define COUNTED 3
#define GATHER 4

--@ here
insert into rota_meta as m (k, v) values ('server', $1)
on conflict (k) do update set v = excluded.v where m.v <> excluded.v

-- ---- Sessions

--@ open
insert into rota_session (id, expires, label) values ($1, NOW + $2, $3) on conflict do nothing
returning expires

--@ renew
update rota_session set expires = least(greatest(expires, NOW + $2), NOW + 3 * $2) where id = $1 and expires > NOW
returning expires

--@ end
delete from rota_session where id = $1
    and not exists (select 1 from rota_ticket t where t.session = $1 and not t.durable)

--@ mine
select t.name, t.number, t.nonce, t.granted, WANTED(t, l)
from rota_ticket t cross join lateral (select l.waiting from rota_line l where l.name = t.name offset 0) l
where t.session = $1 and not t.durable

--@ folded
select fence, nonce from rota_line where name = $1 and session = $2

--@ dead
select distinct x.name from (
    (select t.name from rota_ticket t where t.until <> 0 and t.until <= NOW limit $1)
    union all
    (select t.name from rota_session s
        cross join lateral (select t.name from rota_ticket t where t.session = s.id and not t.durable limit $1) t
        where s.expires <= NOW limit $1)) x
limit $1

--@ bury
delete from rota_session where id in (
    select s.id from rota_session s where s.expires <= NOW
        and (select 1 from rota_ticket t where t.session = s.id and not t.durable limit 1) is null
    limit $1 for update skip locked)

-- By their places in the table: whatever was in it when the plan was made, none but those rows are looked at to delete them.
-- One that somebody has locked, or has changed, stays.
--@ idle
with w as (select max(x.name) upto from (select l.name from rota_line l where l.name > $1 order by l.name limit $3) x),
d as (delete from rota_line where ctid = any(array(select l.ctid from rota_line l
    where l.name > $1 and l.name <= (select w.upto from w)
        and l.since <= NOW - $2 and l.fence <= NOW - $2 and l.watched <= NOW - $2 and l.count = 0
        and (l.session is null or not ALIVE(l.session))
    for update skip locked)))
select w.upto from w where w.upto is not null

-- Somebody took the session away by hand, or it was buried in the very moment in which UNFOLD found it alive.
--@ strays
select t.name from rota_ticket t
where not t.durable and (select 1 from rota_session s where s.id = t.session) is null limit $1

-- Who walks through idle lines: "until who after". Nobody waits for that row: who finds it locked has come too late.
#define UNTIL case when m.v ~ '^[0-9]{1,18} ' then split_part(m.v, ' ', 1)::bigint else 0 end
#define WHO split_part(m.v, ' ', 2)
#define AFTER substr(m.v, length(split_part(m.v, ' ', 1)) + length(WHO) + 3)
#define OVER (UNTIL <= NOW or UNTIL > NOW + 7200000000)
--@ sweeper
select case when OVER then 0 else UNTIL - NOW end from rota_meta m where m.k = 'sweeper'

--@ sweep
with u as (update rota_meta m set v = (NOW + $2) || ' ' || $1 || ' ' || AFTER
    where m.ctid = any(array(select m.ctid from rota_meta m where m.k = 'sweeper' and (OVER or WHO = $1::text)
        for update skip locked))
    returning AFTER as after),
n as (insert into rota_meta (k, v) select 'sweeper', (NOW + $2) || ' ' || $1 || ' '
    where (select 1 from rota_meta m where m.k = 'sweeper') is null on conflict do nothing returning '' as after)
select u.after from u union all select n.after from n

--@ swept
update rota_meta m set v = (NOW + $3) || ' ' || $2 || ' ' || left($4, 200) where m.k = 'sweeper' and WHO = $1::text

-- ---- Folded lines

--@ take
insert into rota_line as l (name, fence, session, nonce, owner, flags, since, bell)
select $1, NOW, $2, $3, $4, $5, NOW, $6 where $7 > NOW
on conflict (name) do update set fence = greatest(l.fence + 1, excluded.fence), session = excluded.session,
    nonce = excluded.nonce, owner = excluded.owner, flags = excluded.flags, since = excluded.since, bell = excluded.bell
    where l.session is null and l.count = 0 and l.watched <= NOW
returning fence

--@ give
update rota_line set session = null where name = $1 and session = $2 and fence = $3
    and ($4 = 0 or nonce = $4) and watched <= NOW

--@ verify
select 1::bigint from rota_line l where l.name = $1 and l.session = $2 and l.fence = $3 and ALIVE($2)

-- ---- Under the lock

-- A row that an ON CONFLICT DO UPDATE finds is locked even if its WHERE then says no: no new version of it is written.
--@ lock
insert into rota_line as l (name, fence, since) values ($1, 0, NOW) on conflict (name) do update set fence = 0 where false

--@ unfold
with u as (insert into rota_ticket (name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags,
        since, at_least, until, bell)
    select l.name, l.fence, l.session, l.nonce, l.owner, 0, 0, 0, ALL, true, false, l.flags, l.since, 0, 0, l.bell
    from rota_line l where l.name = $1 and l.session is not null and ALIVE(l.session) returning 1)
update rota_line set session = null, count = (select count(*) from u) where name = $1 and session is not null

-- Until when ticket T owes its line time; after the clock was set back no longer than from now on.
#define OWED(t_, now_) \
    case when t_.granted and t_.at_least > 0 then least(t_.since, now_) + t_.at_least else 0 end
-- What a ticket becomes that does.
#define KEPT(t_) durable = true, session = 0, nonce = 0, owner = 0, bell = 0, until = OWED(t_, NOW), \
    label = coalesce(t_.label, (select s.label from rota_session s where s.id = t_.session))
-- The line's counts follow what is among GONE.
#define COUNT_OUT(gone_) update rota_line set count = count - (select count(*) from gone_), \
    waiting = waiting - (select count(*) from gone_ where not granted) where name = $1 and exists (select 1 from gone_)

--@ purge
with g as (delete from rota_ticket t where t.name = $1
        and case when t.durable then t.until <> 0 and t.until <= NOW
            else OWED(t, NOW) <= NOW and not ALIVE(t.session) end
    returning t.granted),
k as (update rota_ticket t set KEPT(t)
    where t.name = $1 and not t.durable and OWED(t, NOW) > NOW and not ALIVE(t.session))
COUNT_OUT(g)

-- The rule of core/grant.h: prefix sums grow, so the first that does not fit ends the walk; a barrier opens for the first `of`
-- that wait when there are so many. They are found once, as an array: a join's plan, made when few tickets stood anywhere, would
-- find them for each ticket of the line again.
--@ settle
with u as (update rota_ticket t set granted = true, since = NOW
    where t.name = $1 and t.number = any(array(select w.number from (select t.number, t.granted, t.mode, t.of_,
            sum(t.weight) over (order by t.number) upto,
            count(*) filter (where not t.granted) over () waiting,
            count(*) filter (where not t.granted) over (order by t.number) place
        from rota_ticket t where t.name = $1 and (select waiting from rota_line where name = $1) > 0) w
        where not w.granted and case w.mode when PERMITS then w.upto <= w.of_
            when GATHER then w.waiting >= w.of_ and w.place <= w.of_ else w.upto <= ALL end))
    returning t.number, t.bell),
n as (select NOTIFY(u, ' G ') from u)
update rota_line set waiting = waiting - (select count(*) from u) where name = $1 and (select count(*) from n) > 0

--@ tell
select pg_notify($2, $1) from rota_line where name = $1 and watched > NOW

-- The line L and what is to be known of its tickets, F, before one more stands behind them. They are counted, whatever the line
-- says of them: rows that were taken away by hand are not waited for.
#define WAITS count(*) filter (where not t.granted)
#define JUDGED(session_, nonce_, mode_, of_it, weight_, try_, lives_) rota_line l cross join lateral (select \
        case mode_ when COUNTED then true when GATHER then WAITS + 1 >= of_it \
            when PERMITS then WAITS = 0 and coalesce(sum(t.weight), 0) + weight_ <= of_it \
            else WAITS = 0 and coalesce(sum(t.weight), 0) + weight_ <= ALL end fits, \
        count(*) count, WAITS waits, \
        coalesce(bool_and(case when mode_ <= SHARED then t.mode <= SHARED else t.mode = mode_ and t.of_ = of_it end), \
            true) same, \
        coalesce(bool_or(t.session = session_ and t.nonce = nonce_), false) mine \
        from rota_ticket t where t.name = $1) f \
    where l.name = $1 and f.same and not f.mine and (f.fits or try_ = 0) and lives_
-- How many were counted; it lasts as long as the transaction.
#define COUNT_SO_FAR coalesce(nullif(current_setting('rota.gate', true), ''), '0')::bigint

--@ gate
select set_config('rota.gate', (COUNT_SO_FAR + 1)::text, true)
from JUDGED($2, $3, $4, $5, $6, $7, ($8 <> 0 or ALIVE($2)))

-- The session is locked against its burial, which does not see our ticket yet. A barrier's ticket is granted by SETTLE, with
-- those it waited for.
--@ join
with s as (select s.id from rota_session s where s.id = $2 and s.expires > NOW for key share),
j as (select l.fence, f.fits, f.count, f.waits
    from JUDGED($2, $3, $5, $7, $8, $13, ($12 <> 0 or exists (select 1 from s))) and ($17 = 0 or COUNT_SO_FAR = $17)),
x as (insert into rota_ticket (name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags, since,
        at_least, until, bell, value, label)
    select $1, greatest(j.fence + 1, NOW), $2, $3, $4, $5, $6, $7, $8, j.fits and $5 <> GATHER, $12 <> 0, $9, NOW,
        $10, case when $11 = 0 then 0 else NOW + $11 end, $16, $14, $15 from j
    returning number, granted)
update rota_line l set fence = x.number, since = NOW, count = j.count + 1,
    waiting = j.waits + case when x.granted then 0 else 1 end from x, j where l.name = $1

--@ want
select NOTIFY(t, ' W ') from rota_line l join rota_ticket t using (name)
where l.name = $1 and l.waiting = 1 and t.granted and t.flags & 1 <> 0

-- How long ticket T still lasts at most; null: for ever.
#define LEFT_OF(t_) case when t_.durable and t_.until = 0 then null else greatest(0, case when t_.durable then t_.until \
    else greatest((select s.expires from rota_session s where s.id = t_.session), OWED(t_, NOW)) end - NOW) end
-- What ticket M waits for, with A the one ahead of it. Nobody is there: a row was taken away by hand, and the line is to be
-- tended. Of several that hold permits any may let it in: there is no one bell.
#define AHEAD left join lateral (select a.* from rota_ticket a where a.name = $1 and a.number < m.number \
    order by a.number desc limit 1) a on true
#define LEFT_AHEAD case when m.granted then null when not a.granted then LEFT_OF(a) \
    when a.number is null and m.mode <> GATHER then 0 \
    else (select min(LEFT_OF(g)) from rota_ticket g where g.name = $1 and g.granted and g.number < m.number) end
#define BELL_AHEAD case when a.granted and m.mode = PERMITS \
    and a.number > (select min(x.number) from rota_ticket x where x.name = $1) then 0 else a.bell end

--@ answer
select ALIVE($2), m.number, m.granted, WANTED(m, l), f.mode, f.of_,
    coalesce(f.label, (select s.label from rota_session s where s.id = f.session and not f.durable)), LEFT_AHEAD, BELL_AHEAD
from (select 1) one left join rota_line l on l.name = $1
    left join lateral (select t.* from rota_ticket t where t.name = $1 and t.session = $2 and t.nonce = $3 limit 1) m on true
    left join lateral (select t.* from rota_ticket t where t.name = $1 order by t.number limit 1) f on true
    AHEAD

--@ leave
with t as (select r.number, r.granted, $5 <> 0 and OWED(r, NOW) > NOW as owes from rota_ticket r
    where r.name = $1 and r.session = $2 and ($3 = 0 or r.number = $3) and ($3 <> 0 and $4 = 0 or r.nonce = $4)),
k as (update rota_ticket r set KEPT(r) from t where t.owes and r.name = $1 and r.number = t.number),
d as (delete from rota_ticket r using t where not t.owes and r.name = $1 and r.number = t.number returning r.granted),
l as (COUNT_OUT(d))
select granted from t

-- Behind LOCK, which the driver says before it.
--@ pass
with m as (select r.number from rota_ticket r where r.name = $1 and r.number = $3 and r.session = $2 and r.granted
        and ($4 = 0 or r.nonce = $4) and r.mode = 0 and not r.durable and r.at_least = 0
        and (select l.count = l.waiting + 1 from rota_line l where l.name = $1)),
n as (select t.number, t.mode = 0 and not t.granted and not t.durable and ALIVE(t.session) as fits
    from rota_ticket t where t.name = $1 and t.number <> $3 order by t.number limit 1),
d as (delete from rota_ticket r using m where r.name = $1 and r.number = m.number and coalesce((select fits from n), true)
    returning 1),
u as (update rota_ticket t set granted = true, since = NOW from n, d where t.name = $1 and t.number = n.number
    returning t.number, t.bell),
p as (select NOTIFY(u, ' G ') from u)
update rota_line set count = count - 1, waiting = waiting - (select count(*) from p) where name = $1
    and (select count(*) from d) > 0

--@ change
update rota_ticket set flags = flags | $7, value = case when $5 <> 0 then $6 else value end,
    mode = case when $4 <> 0 and mode = 0 then SHARED else mode end,
    weight = case when $4 <> 0 and mode = 0 then 1 else weight end
where name = $1 and session = $2 and number = $3 and granted

--@ state
select t.granted, t.mode, WANTED(t, l) from rota_ticket t join rota_line l using (name)
where t.name = $1 and t.session = $2 and t.number = $3
union all select true, 0::bigint, false from rota_line where name = $1 and session = $2 and fence = $3

--@ break
with d as (delete from rota_ticket where name = $1 and case when $2 <> 0 then number = $2 else durable and mode = $3 end
    returning number, granted, durable, bell),
l as (COUNT_OUT(d)),
n as (select NOTIFY(d, ' L ') from d where not d.durable)
select count(*) from d where (select count(*) from n) >= 0

--@ watch
insert into rota_line as l (name, fence, since, watched) values ($1, 0, NOW, NOW + $2)
on conflict (name) do update set watched = greatest(l.watched, excluded.watched)

-- ---- Looking

--@ look
select m.granted, LEFT_AHEAD, BELL_AHEAD from rota_ticket m AHEAD where m.name = $1 and m.session = $2 and m.number = $3

-- Living tickets, among the rows and folded. One whose session is dead but which owes time is shown as PURGE will make it.
#define LIVING_ROWS(where_) select t.name, t.number, case when t.durable or d.dead then 0 else t.session end as session, \
        case when d.dead then 0 else t.owner end as owner, t.mode, t.take, t.of_, t.granted, \
        t.durable or d.dead as durable, t.flags, t.since, \
        case when t.durable then nullif(t.until, 0) else greatest(s.expires, OWED(t, THEN)) end as ends, \
        t.value, coalesce(t.label, s.label, '') as label \
    from rota_ticket t left join lateral (select s.expires, s.label from rota_session s where s.id = t.session \
        and not t.durable offset 0) s on true, \
        lateral (select not t.durable and coalesce(s.expires, 0) <= THEN as dead) d \
    where where_ and case when t.durable then t.until = 0 or t.until > THEN else not d.dead or OWED(t, THEN) > THEN end
#define LIVING_FOLDED(where_) select l.name, l.fence, l.session, l.owner, 0::bigint, 0::bigint, 0::bigint, true, false, \
        l.flags, l.since, s.expires, null::bytea, s.label \
    from rota_line l cross join lateral (select s.expires, s.label from rota_session s \
        where s.id = l.session and s.expires > THEN offset 0) s \
    where where_

--@ front
with v as (LIVING_ROWS(t.name = $1) union all LIVING_FOLDED(l.name = $1))
select v.number, v.granted, (select count(*) from v), v.mode, v.of_, v.value, v.label,
    (select case when min(ends) is not null then greatest(0, min(ends) - NOW) end from v)
from v order by v.number limit 1

-- Each part by one of its indexes, but for what is folded with a session: no index knows.
--@ inspect
select v.name, v.number, v.session, v.owner, v.mode, v.take, v.of_, v.granted, v.durable, v.flags,
    greatest(0, NOW - v.since), case when v.ends is not null then greatest(0, v.ends - NOW) end, v.value, v.label
from (LIVING_ROWS(t.name = $1) union all LIVING_FOLDED(l.name = $1)
    union all LIVING_ROWS($1 is null and t.session = $2) union all LIVING_FOLDED($1 is null and l.session = $2)) v
order by v.name, v.number

--@ list
select v.name, count(*), count(*) filter (where v.granted)
from (LIVING_ROWS(t.name >= $1 and left(t.name::text, length($1)) = $1)
    union all LIVING_FOLDED(l.name >= $1 and left(l.name::text, length($1)) = $1)) v
group by v.name order by v.name
