-- SPDX-License-Identifier: Apache-2.0
-- The steps of engine/sql/driver.h, in the SQL of MariaDB 10.6 and MySQL 8.0, or later. ?N is a step's Nth argument.
--
-- Why nothing is half done: a flight of several statements ends with the first that fails, and is rolled back (mysql.h). So a
-- statement may count on those before it in its flight.
--
-- Why nobody is judged too early: sessions are read without locks, as they were when the statement began, and NOW is the time
-- of that beginning, before any row is seen. A session whose renewal was answered before its end is seen renewed by any
-- statement that begins behind that end. READ COMMITTED reads so in a SELECT, an INSERT ... SELECT, and an UPDATE of one table.
-- In a DELETE, in an UPDATE that joins, and in SET, InnoDB locks what a subquery reads: a renewal would wait for the end of a
-- flight, and flights for each other in a circle. There no session is asked for (PURGE first marks by an UPDATE what then
-- goes), or only a dead one.
--
-- Why a line does not change under a flight: LOCK has its row, and tickets are written only by whoever has that.
--
-- rota_line.count, .waiting and .fence are made good once, at the end of the flight, by counting (recount). No statement in
-- between looks at them, but at the rows.
#define NOW timestampdiff(microsecond, 19700101, utc_timestamp(6))
#define ALIVE(id_) exists (select 1 from rota_session z where z.id = id_ and z.expires > NOW)

-- rt_mode, as core/grant.h numbers them, and the room of a lock: 2^62.
#define SHARED 1
#define PERMITS 2
#define COUNTED 3
#define GATHER 4
#define ROOM(mode_, many_) if(mode_ = PERMITS, many_, 4611686018427387904)

-- When the at_least of ticket T is over; after the clock was set back it counts from now. Whether it stays until then.
#define OWES_UNTIL(t_) (least(t_.since, NOW) + t_.at_least)
#define OWES(t_) (t_.granted and t_.at_least > 0 and OWES_UNTIL(t_) > NOW)
-- When ticket T of session S (or of none: its columns are null) ends by time; null: never.
#define ENDS(t_, s_) if(t_.durable, nullif(t_.until, 0), \
    greatest(coalesce(s_.expires, 0), if(t_.granted and t_.at_least > 0, OWES_UNTIL(t_), 0)))
#define LASTS(t_, s_) greatest(0, ENDS(t_, s_) - NOW)
#define LIVES(t_, s_) coalesce(ENDS(t_, s_) > NOW, 1)
#define TICKETS rota_ticket t left join rota_session s on s.id = t.session

-- Tables of another shape are found out here, and not by the first who asks for a lock.
--@ layout
select v, (select w.v from rota_meta w where w.k = 'server') from rota_meta where k = 'layout'
    and not exists (select id, expires, label from rota_session where false)
    and not exists (select name, fence, session, nonce, owner, flags, since, bell, count, waiting, watched
        from rota_line where false)
    and not exists (select name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags,
        since, at_least, until, bell, value, label from rota_ticket where false)

--@ here
insert into rota_meta (k, v) values ('server', ?1) on duplicate key update v = ?1

-- ---- Sessions

--@ open
insert into rota_session (id, expires, label) values (?1, last_insert_id(NOW + ?2), coalesce(?3, ''))
on duplicate key update id = id

-- A row that does not change counts as none, so it always does.
--@ renew
update rota_session
set expires = last_insert_id(least(greatest(expires + 1, NOW + ?2), NOW + 3 * ?2 - (expires = NOW + 3 * ?2)))
where id = ?1 and expires > NOW

#define ROWLESS(id_) not exists (select 1 from rota_ticket t where t.durable = 0 and t.session = id_)
--@ end
delete from rota_session where id = ?1 and ROWLESS(?1)

--@ bury
delete from rota_session where expires <= NOW and ROWLESS(rota_session.id) limit ?1

--@ mine
select t.name, t.number, t.nonce, t.granted, t.granted and t.flags & 1 <> 0 and l.waiting > 0
from rota_ticket t join rota_line l on l.name = t.name where t.durable = 0 and t.session = ?1

--@ folded
select fence, nonce from rota_line where name = ?1 and session = ?2

-- By the sessions' ends, which are few: most of those who have tickets live.
--@ dead
select t.name from rota_session s join rota_ticket t on t.durable = 0 and t.session = s.id where s.expires <= NOW
union select name from rota_ticket where until between 1 and NOW and durable limit ?1

-- Found without a lock, then deleted in the part of the table where they are: a DELETE locks what it reads. So it does not look at
-- sessions either: a renewal would wait for it. A session that is over never comes back.
#define OLD(l_) l_.count = 0 and l_.since < NOW - ?2 and l_.fence < NOW - ?2 and l_.watched < NOW - ?2
#define IDLE_ONES name between @rota_from and @rota_to
--@ find_idle
select min(if(d.idle, d.name, null)), max(if(d.idle, d.name, null)), max(d.name) into @rota_from, @rota_to, @rota_upto
from (select l.name, OLD(l) and (l.session is null or not ALIVE(l.session)) idle
    from rota_line l where l.name > ?1 order by l.name limit ?3) d
--@ unfold_idle
update rota_line set session = null where IDLE_ONES and session is not null and OLD(rota_line) and not ALIVE(rota_line.session)
--@ idle
delete from rota_line where IDLE_ONES and session is null and OLD(rota_line)
--@ looked
select @rota_upto from dual where @rota_upto is not null

-- Somebody took the session away by hand, or it was buried in the very moment in which UNFOLD found it alive.
--@ strays
select t.name from (select distinct session from rota_ticket where durable = 0) d
    left join rota_session s on s.id = d.session
    join rota_ticket t on t.durable = 0 and t.session = d.session
where s.id is null limit ?1

-- Who walks through idle lines: "until who after". Each statement commits by itself, so nobody waits for that row for long.
#define UNTIL cast(substring_index(v, ' ', 1) as signed)
#define WHO substring_index(substring_index(v, ' ', 2), ' ', -1)
#define AFTER substr(v, length(substring_index(v, ' ', 2)) + 2)
#define OVER (UNTIL <= NOW or UNTIL > NOW + 7200000000)
--@ sweeper
select if(OVER, 0, UNTIL - NOW) from rota_meta where k = 'sweeper'
--@ first_sweep
insert into rota_meta (k, v) select 'sweeper', '0 0 ' from dual
where not exists (select 1 from rota_meta where k = 'sweeper') on duplicate key update v = v
--@ sweep
update rota_meta set v = concat(NOW + ?2, ' ', ?1, ' ', AFTER) where k = 'sweeper' and (OVER or WHO = ?1)
--@ sweeps
select AFTER from rota_meta where k = 'sweeper' and WHO = ?1
--@ swept
update rota_meta set v = concat(NOW + ?3, ' ', ?2, ' ', left(?4, 200)) where k = 'sweeper' and WHO = ?1

-- ---- Folded lines

-- The number comes with OK, as LAST_INSERT_ID, and so does whether there is one: 1 is a new line, 2 a free one, 0 neither.
-- Assignments go from left to right: what FREE looks at comes last. A session is not looked at: another table costs as much
-- as the rest. One that is over has no name, which is an error.
#define FREE (session is null and count = 0 and watched <= values(since))
#define IF_FREE(column_) column_ = if(FREE, values(column_), column_)
--@ take
insert into rota_line (name, fence, session, nonce, owner, flags, since, bell)
values (if(?7 > NOW, ?1, null), last_insert_id(NOW), ?2, ?3, ?4, ?5, NOW, ?6)
on duplicate key update fence = if(FREE, last_insert_id(greatest(fence + 1, values(fence))), fence),
    IF_FREE(nonce), IF_FREE(owner), IF_FREE(flags), IF_FREE(since), IF_FREE(bell), IF_FREE(session)

--@ give
update rota_line set session = null where name = ?1 and session = ?2 and fence = ?3
    and (?4 = 0 or nonce = ?4) and watched <= NOW

--@ verify
select 1 from rota_line where name = ?1 and session = ?2 and fence = ?3 and ALIVE(?2)

--@ watch
insert into rota_line (name, since, watched) values (?1, NOW, NOW + ?2)
on duplicate key update watched = greatest(watched, NOW + ?2)

-- ---- Lines under their lock

-- A row that an ON DUPLICATE KEY UPDATE finds is locked even if nothing of it is another then: nothing is written.
--@ lock
insert into rota_line (name, since) values (?1, NOW) on duplicate key update fence = fence

--@ unfold
insert into rota_ticket (name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags, since,
    at_least, until, bell)
select name, fence, session, nonce, owner, 0, 0, 0, ROOM(0, 0), 1, 0, flags, since, 0, 0, bell from rota_line
where name = ?1 and session is not null and ALIVE(rota_line.session)
--@ unfolded
update rota_line set session = null where name = ?1 and session is not null

-- Durable and nobody's.
#define LET_GO t.label = coalesce((select s.label from rota_session s where s.id = t.session), t.label), t.durable = 1, \
    t.session = 0, t.nonce = 0, t.owner = 0, t.bell = 0
-- Those who owe nothing have ended: at 1.
--@ mark
update rota_ticket t set t.until = if(OWES(t), OWES_UNTIL(t), 1), LET_GO
where t.name = ?1 and not t.durable and not ALIVE(t.session)
--@ purge
delete from rota_ticket where name = ?1 and durable and until between 1 and NOW

-- A ticket is granted if all ahead of it and itself fit: the sums only grow, so the first that does not fit ends it. Of a
-- barrier the first `of` that wait go through together. One walk in the order of the numbers, summed up in variables: window
-- functions cost three times as much. Sums go beyond 64 bits, and MySQL decides what a variable is before it has a value.
#define UPTO cast(@rota_upto as decimal(30))
--@ gather
select 0, 0, count(*) into @rota_upto, @rota_place, @rota_gathered
from rota_ticket where name = ?1 and mode = GATHER and not granted
#define GRANTED_NOW (case mode when COUNTED then 1 when GATHER then @rota_gathered >= of_ and @rota_place <= of_ \
    else UPTO <= ROOM(mode, of_) end)
--@ settle
update rota_ticket set weight = weight + 0 * (@rota_upto := UPTO + weight)
        + 0 * (@rota_place := @rota_place + (mode = GATHER and not granted)),
    since = if(not granted and GRANTED_NOW, NOW, since), granted = granted or GRANTED_NOW
where name = ?1 order by number

-- What JOIN and GATE judge by: the line's tickets, summed up. A barrier's last one fits, and SETTLE grants it with the others.
#define SUMMED(session_, nonce_, mode_, many_) (select coalesce(max(t.number), 0) latest, coalesce(sum(t.weight), 0) upto, \
        coalesce(sum(not t.granted), 0) waits, \
        coalesce(sum(not (t.mode = mode_ and t.of_ = many_ or t.mode <= SHARED and mode_ <= SHARED)), 0) others, \
        coalesce(sum(t.session = session_ and t.nonce = nonce_), 0) mine \
    from rota_ticket t where t.name = ?1) f
#define FITS(mode_, many_, weight_) case mode_ when COUNTED then 1 when GATHER then f.waits + 1 >= many_ \
    else f.waits = 0 and f.upto + weight_ <= ROOM(mode_, many_) end
#define MAY_JOIN(alive_, try_, fits_) f.others = 0 and f.mine = 0 and (alive_) and (try_ = 0 or fits_)

--@ gate
select @rota_gate + count(*) into @rota_gate from SUMMED(?2, ?3, ?4, ?5) where MAY_JOIN(?8 <> 0 or ALIVE(?2), ?7, FITS(?4, ?5, ?6))

-- The session is locked against its burial, which does not see our ticket yet.
--@ join
insert into rota_ticket (name, number, session, nonce, owner, mode, take, of_, weight, granted, durable, flags, since,
    at_least, until, bell, value, label)
select ?1, greatest(l.fence + 1, f.latest + 1, NOW), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?5 <> GATHER and FITS(?5, ?7, ?8), ?12, ?9,
    NOW, ?10, if(?11 = 0, 0, NOW + ?11), ?16, ?14, ?15
from rota_line l join SUMMED(?2, ?3, ?5, ?7)
where l.name = ?1 and MAY_JOIN(?12 <> 0 or exists (select 1 from rota_session z where z.id = ?2 and z.expires > NOW
    lock in share mode), ?13, FITS(?5, ?7, ?8)) and (?17 = 0 or @rota_gate = ?17)

#define MINE name = ?1 and session = ?2 and (number = ?3 and (?4 = 0 or nonce = ?4) or ?3 = 0 and nonce = ?4)
--@ leaving
select granted from rota_ticket where MINE
--@ keep
update rota_ticket t set t.until = OWES_UNTIL(t), LET_GO where MINE and ?5 <> 0 and OWES(t)
--@ leave
delete from rota_ticket where MINE

-- PASS locks the line by its first statement. Each looks at whether the one before it has changed its row; the last one finds
-- somebody who must not be granted, us for one, if there is anybody: what must not be null is then, and ends the flight.
-- (Beside a constant row_count() would be one too, from the statement's first run on.)
--@ passing
update rota_line set count = count - 1, waiting = waiting - (waiting > 0) where name = ?1 and count = waiting + 1
--@ passed
delete from rota_ticket where name = ?1 and number = ?3 and session = ?2 and granted and granted = row_count()
    and (?4 = 0 or nonce = ?4) and mode = 0 and not durable and at_least = 0
--@ pass
update rota_ticket t set t.since = NOW,
    t.granted = if(row_count() > t.granted and t.mode = 0 and not t.durable and ALIVE(t.session), 1, null)
where t.name = ?1 order by t.name, t.number limit 1

--@ change
update rota_ticket set flags = flags | ?7, value = if(?5 <> 0, ?6, value),
    weight = if(?4 <> 0 and mode = 0, 1, weight), mode = if(?4 <> 0 and mode = 0, SHARED, mode)
where name = ?1 and session = ?2 and number = ?3 and granted

--@ break
delete from rota_ticket where name = ?1 and (number = ?2 or ?2 = 0 and durable and mode = ?3)

--@ recount
update rota_line l set l.count = (select count(*) from rota_ticket t where t.name = ?1),
    l.waiting = (select count(*) from rota_ticket t where t.name = ?1 and not t.granted),
    l.fence = greatest(l.fence, coalesce((select max(t.number) from rota_ticket t where t.name = ?1), 0))
where l.name = ?1

-- ---- Looks

#define WANTED (m.granted and m.flags & 1 <> 0 and exists (select 1 from rota_ticket w where w.name = ?1 and not w.granted))
-- M waits for A, the one ahead; or if that one holds, for any who does. (Nobody who holds stands behind one who waits.)
-- Of several that hold permits any may let it in: there is no one bell.
#define AHEAD left join rota_ticket a on a.name = ?1 \
        and a.number = (select max(x.number) from rota_ticket x where x.name = ?1 and x.number < m.number) \
    left join rota_session b on b.id = a.session
-- Nobody is there: a row was taken away by hand, and the line is to be tended.
#define WAITS_FOR_AHEAD if(a.number is null, if(m.mode <> GATHER and not m.granted, 0, null), LASTS(a, b))
#define WAITS_FOR if(a.granted, \
        (select min(LASTS(t, s)) from TICKETS where t.name = ?1 and t.number < m.number and t.granted), WAITS_FOR_AHEAD), \
    if(a.granted and m.mode = PERMITS and a.number > (select min(x.number) from rota_ticket x where x.name = ?1), 0, a.bell)

--@ answer
select ALIVE(?2), m.number, m.granted, WANTED, f.mode, f.of_, coalesce(f.label, g.label), WAITS_FOR
from rota_line l
    left join rota_ticket m on m.name = ?1 and m.session = ?2 and m.nonce = ?3
    left join rota_ticket f on f.name = ?1 and f.number = (select min(x.number) from rota_ticket x where x.name = ?1)
    left join rota_session g on g.id = f.session
    AHEAD
where l.name = ?1 limit 1

--@ look
select m.granted, WAITS_FOR from rota_ticket m AHEAD where m.name = ?1 and m.number = ?3 and m.session = ?2

-- What a statement could look at costs, whether it does or not: this is half of LOOK.
--@ look_ahead
select m.granted, WAITS_FOR_AHEAD, a.bell from rota_ticket m AHEAD where m.name = ?1 and m.number = ?3 and m.session = ?2

--@ state
select m.granted, m.mode, WANTED from rota_ticket m where m.name = ?1 and m.session = ?2 and m.number = ?3

#define FOLDS rota_line l join rota_session s on s.id = l.session and s.expires > NOW
--@ front
select l.fence number, 1 granted, 1 n, 0 mode, 0 of_, null value, s.label label, s.expires - NOW ends
from FOLDS where l.name = ?1
union all
select t.number, t.granted, count(*) over (), t.mode, t.of_, t.value, coalesce(t.label, s.label),
    min(LASTS(t, s)) over ()
from TICKETS where t.name = ?1 and LIVES(t, s)
order by number limit 1

-- One whose session is dead, but which owes, is shown as PURGE will make it.
#define DIED (not t.durable and coalesce(s.expires, 0) <= NOW)
--@ inspect
select l.name name, l.fence number, l.session, l.owner, 0, 0, 0, 1, 0, l.flags, greatest(0, NOW - l.since),
    s.expires - NOW, null, s.label
from FOLDS where l.name = ?1 or ?1 is null and l.session = ?2
union all
select t.name, t.number, if(t.durable or DIED, 0, t.session), if(DIED, 0, t.owner), t.mode, t.take, t.of_, t.granted,
    t.durable or DIED, t.flags, greatest(0, NOW - t.since), LASTS(t, s), t.value, coalesce(t.label, s.label)
from TICKETS
where (t.name = ?1 or ?1 is null and t.durable in (0, 1) and t.session = ?2) and LIVES(t, s)
order by name, number

#define BEGINS(name_) name_ >= ?1 and name_ <= concat(?1, repeat(char(255), 1530)) and left(name_, length(?1)) = ?1
--@ list
select d.name, sum(d.n), sum(d.g) from (
    select l.name name, 1 n, 1 g from FOLDS where BEGINS(l.name)
    union all
    select t.name, 1, t.granted from TICKETS where BEGINS(t.name) and LIVES(t, s)) d
group by d.name order by d.name

-- ---- Bells: a named lock, one for the whole server

#define BELL concat('rota:', ?1)
--@ bell_take
do if(coalesce(is_used_lock(BELL), 0) = connection_id(), 1, get_lock(BELL, 0))
--@ bell_ring
do release_lock(BELL)
--@ bell_wait
do if(get_lock(BELL, ?2 / 1000) = 1, release_lock(BELL), 0)
