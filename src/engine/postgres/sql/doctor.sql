-- SPDX-License-Identifier: Apache-2.0
-- What the server says of itself: for the greeting, and for the doctor.

-- Others that follow this server's log; who subscribes to tables is none that could take its place.
#define STANDBYS pg_stat_replication r where not exists (select 1 from pg_replication_slots p \
    where p.active_pid = r.pid and p.slot_type = 'logical')
#define OUR_TABLES (values ('rota_meta'), ('rota_session'), ('rota_line'), ('rota_ticket')) n (n)
#define BUSY_ONES (to_regclass('rota_session'), to_regclass('rota_line'), to_regclass('rota_ticket'))

-- Why it cannot be trusted, and behind "; " what to change. Who may not look at standbys sees none of their states: then
-- a commit has waited for one, or there are no names.
#define DOUBT case when current_setting('fsync') = 'off' \
        then 'fsync is off: a machine that stops forgets grants; set fsync = on' \
    when current_setting('full_page_writes') = 'off' \
        then 'full_page_writes is off: a torn page loses grants; set full_page_writes = on' \
    when current_setting('synchronous_commit') = 'off' \
        then 'synchronous_commit is off: a crash forgets the last grants; set synchronous_commit = on' \
    when exists (select 1 from OUR_TABLES join pg_class c on c.oid = to_regclass(n) where c.relpersistence <> 'p') \
        then 'a table is unlogged: a crash empties it; alter table rota_... set logged' \
    when exists (select 1 from STANDBYS) and (current_setting('synchronous_standby_names') = '' \
            or current_setting('synchronous_commit') = 'local') \
        then 'a standby follows asynchronously: promoted, it lacks the last grants; set synchronous_standby_names' \
    when exists (select 1 from STANDBYS and r.sync_state is not null) \
            and not exists (select 1 from STANDBYS and r.sync_state in ('sync', 'quorum')) \
        then 'no standby is in sync: promoted, it lacks the last grants; see pg_stat_replication' \
    else '' end

-- A pooler, or another who answers in the server's place, tells keys of its own. $1: the process that was told when we
-- connected; -1: who asks knows that it pools by session. $2: our own clock, in microseconds, when this left.
--@ facts
select current_setting('server_version_num')::bigint, version(),
    not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off', pg_backend_pid()::bigint, DOUBT,
    case when version() ~* '(cockroach|greenplum|redshift|yugabyte|materialize)'
            then 'this is not PostgreSQL itself, whose locks and notices are needed: ' || left(version(), 60)
        when current_setting('server_version_num')::int < 110000 then 'PostgreSQL 11 or later is needed'
        when $1 not in (-1, pg_backend_pid()) then 'a pooler sits between, where prepared statements and notices go astray: '
            || 'name the server itself, or, if it pools by session, write ?pooler=session'
        else '' end,
    -- a promotion begins a new timeline
    (select system_identifier::text from pg_control_system())
        || case when pg_is_in_recovery() then '' else '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) end,
    NOW, $2 - NOW

#define VERDICT(bad_, how_) case when bad_ then how_ else 'kept' end
#define REMEDY(bad_, what_) case when bad_ then what_ else '' end
#define FAR (tls is null and not coalesce(peer <<= '127.0.0.0/8' or peer = '::1', true))
#define SUPERUSER current_setting('is_superuser') = 'on'
#define FAST abs(off_us) > 1000000

-- What the server is. $1: our own clock, in microseconds, when this left; $2: as FACTS' $1.
--@ doctor
with f as (select DOUBT as doubt, NOW - $1 as off_us,
    (select count(*) from STANDBYS) as standbys,
    (select count(*) from STANDBYS and r.sync_state in ('sync', 'quorum')) as in_sync,
    (select count(*) from STANDBYS and r.sync_state is null) as hidden)
select v.* from f cross join lateral (values
    ('one holder at a time (I1)', VERDICT(doubt <> '', 'limited'),
        case when doubt = '' then 'every grant is on disk before it is told' else split_part(doubt, '; ', 1) end,
        split_part(doubt, '; ', 2)),
    ('fences only grow (I2)', VERDICT(doubt <> '', 'limited'),
        'above the line''s last, and never behind the server''s clock', split_part(doubt, '; ', 2)),
    ('order of arrival (I7)', 'kept', 'a ticket is numbered while its line is locked', ''),
    ('durable tickets', VERDICT(doubt <> '', 'limited'), 'rows that need no session', split_part(doubt, '; ', 2)),
    ('outages survived', VERDICT(in_sync + hidden = 0, 'limited'), standbys || ' standbys, '
        || case when hidden > 0 then 'which this user may not look at' else in_sync || ' in sync' end,
        REMEDY(in_sync + hidden = 0, 'run a standby that synchronous_standby_names names')),
    ('isolation', 'kept', current_setting('transaction_isolation') || ', which we set', ''),
    ('poolers', VERDICT($2 = -1, 'limited'), case when $2 = -1 then 'one may sit between: ?pooler=session'
        else 'none sits between' end, REMEDY($2 = -1, 'name the server itself')),
    ('idle time-outs', 'kept', 'off for us; tcp_keepalives_idle is ' || current_setting('tcp_keepalives_idle'), ''),
    ('clock', VERDICT(FAST, 'limited'), 'the server''s is ' || round(abs(off_us) / 1000000.0, 3)
        || case when off_us < 0 then ' s behind ours' else ' s ahead of ours' end,
        REMEDY(FAST, 'run NTP on the servers, slewing: fences follow their clocks')),
    ('version', 'kept', 'PostgreSQL ' || current_setting('server_version'), '')
) v (promise, verdict, setting, remedy)

-- What we are there.
--@ doctor_more
with f as (select
    (select string_agg(p || ' on ' || n, ', ') from OUR_TABLES, (values ('select'), ('insert'), ('update'), ('delete')) p (p)
        where not has_table_privilege(n, p)) as lacks,
    (select quote_ident(n.nspname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = to_regclass('rota_line')) as home,
    (select string_agg(quote_ident(n.nspname), ', ' order by n.nspname) from pg_class c
        join pg_namespace n on n.oid = c.relnamespace where c.relname = 'rota_line' and c.relkind in ('r', 'p')
        and c.oid <> to_regclass('rota_line') and left(n.nspname, 3) <> 'pg_') as others,
    (select string_agg(relname || ' ' || pg_size_pretty(pg_total_relation_size(relid)) || ' with ' || n_dead_tup
        || ' dead rows', ', ' order by relname) from pg_stat_user_tables where relid in BUSY_ONES) as bloat,
    (select max(n_dead_tup - 4 * n_live_tup) from pg_stat_user_tables where relid in BUSY_ONES) as dead,
    (select version from pg_stat_ssl where pid = pg_backend_pid() and ssl) as tls, inet_client_addr() as peer,
    pg_notification_queue_usage() as queue, (select count(*) from rota_session) as sessions,
    (select count(*) from rota_session where expires <= NOW) as over,
    (select count(*) from rota_ticket where durable and until = 0) as endless,
    (select 'rota break ' || quote_literal(name) || ' --fence ' || number from rota_ticket
        where durable and until = 0 limit 1) as endless_one)
select v.* from f cross join lateral (values
    ('rights', VERDICT(lacks is not null, 'broken'),
        coalesce('no ' || lacks, 'the user ' || current_user || ' may do all that is needed'),
        REMEDY(lacks is not null, 'grant select, insert, update, delete on rota_meta, rota_session, rota_line, rota_ticket to '
            || quote_ident(current_user))),
    ('tables', VERDICT(others is not null, 'limited'),
        'in the schema ' || home || coalesce('; others, whose locks are others: in ' || others, ''),
        REMEDY(others is not null, 'whoever is to exclude each other writes ?schema=' || home)),
    ('users', VERDICT(SUPERUSER, 'limited'), current_user || case when SUPERUSER then ' is a superuser' else '' end,
        REMEDY(SUPERUSER, 'use one that may only use the four tables')),
    ('privacy', VERDICT(FAR, 'limited'), coalesce(tls, case when peer is null then 'a unix socket'
        when FAR then 'no TLS: names, labels and values pass in the clear' else 'this machine' end),
        REMEDY(FAR, 'use ?sslmode=verify-full')),
    ('pushes', VERDICT(queue > 0.5, 'limited'), 'NOTIFY; its queue is ' || round((queue * 100)::numeric, 1) || ' % full',
        REMEDY(queue > 0.5, 'end who listens and does not read: see pg_stat_activity')),
    ('bloat', VERDICT(dead > 10000, 'limited'), coalesce(bloat, 'nothing is known yet'),
        REMEDY(dead > 10000, 'vacuum rota_session, rota_line, rota_ticket; see why autovacuum does not keep up')),
    ('nothing stays (I6)', VERDICT(endless > 0, 'limited'), sessions || ' sessions, ' || over
        || ' of them over and still there; ' || endless || ' tickets that nothing ends', coalesce(endless_one, ''))
) v (promise, verdict, setting, remedy)
