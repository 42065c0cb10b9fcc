-- SPDX-License-Identifier: Apache-2.0
-- What the server says of itself: for the greeting, and for the doctor. MariaDB reads what stands in /*M! comments, MySQL what
-- stands in /*! comments with a version that MariaDB never had.
#define SHOWN /*M!information_schema*//*!80000 performance_schema*/
#define SHOWS(table_, name_) (select variable_value from SHOWN.table_ where variable_name = name_)
-- Replicas that are connected: MariaDB counts them for everybody; in MySQL only who may see all processes sees them.
#define REPLICAS (/*M!select variable_value + 0 from information_schema.global_status \
        where variable_name = 'slaves_connected'*//*!80000 select count(*) from information_schema.processlist \
        where command like 'Binlog Dump%'*/)
#define READ_ONLY (@@global.read_only <> 0 /*!80000 or @@global.super_read_only <> 0*/)
#define VERSION_TEXT concat(/*M!'MariaDB '*//*!80000 'MySQL '*/, substring_index(version(), '-', 1))
#define VERSION_PART(n_) cast(substring_index(substring_index(version(), '.', n_), '.', -1) as signed)
-- Room for a flight of many asks whose names are as long as they usually are, and for the ends of what LIST looks for.
#define PACKET_LEAST 1048576
#define OUR_TABLES ('rota_meta', 'rota_session', 'rota_line', 'rota_ticket')

-- Why it cannot be trusted, and behind "; " what to change.
#define DOUBT case when @@global.innodb_flush_log_at_trx_commit <> 1 \
        then 'innodb_flush_log_at_trx_commit is not 1: a crash forgets the last second; set it to 1' \
    when @@global.log_bin and @@global.sync_binlog <> 1 \
        then 'sync_binlog is not 1: after a crash tables and binary log may disagree; set it to 1' \
    when cast(@@global.innodb_doublewrite as char) in ('0', 'OFF') \
        then 'innodb_doublewrite is off: a crash may tear pages; turn it on' \
    when REPLICAS <> 0 \
        then 'replicas follow asynchronously: promoted, one lacks the last grants; guard the resource by the fence' \
    else '' end

-- @rota_ours: our own clock, in microseconds, when this left.
--@ facts
select 10000 * VERSION_PART(1) + 100 * VERSION_PART(2), VERSION_TEXT, not READ_ONLY, connection_id(), DOUBT,
    case when coalesce(SHOWS(global_variables, 'wsrep_on'), 'OFF') = 'ON'
            then 'Galera (wsrep_on) lets several servers grant the same lock: use one server'
        when @@global.log_bin and @@session.binlog_format = 'STATEMENT'
            then 'binlog_format is STATEMENT, which cannot log what Rota does: set MIXED or ROW'
        when (select count(*) from information_schema.tables where table_schema = database() and engine <> 'InnoDB'
                and table_name in OUR_TABLES) <> 0
            then 'tables of Rota are not InnoDB: ALTER TABLE ... ENGINE=InnoDB'
        when @@session.max_allowed_packet < PACKET_LEAST
            then concat('max_allowed_packet is ', @@session.max_allowed_packet, ', and longer texts become null: set it to ',
                PACKET_LEAST, ' or more')
        else '' end,
    concat(@@hostname, ':', @@port, '/', @@server_id), NOW, @rota_ours - NOW

-- Statements that change nothing, but need every right.
--@ rights as it is
insert into rota_meta (k, v) select k, v from rota_meta where k = '';
update rota_meta set v = v where k = '';
update rota_line set fence = fence where name = '';
delete from rota_ticket where name = '' and number = 0;
delete from rota_session where id = 0 and expires = 0;

-- What several verdicts need.
--@ notes
select DOUBT, REPLICAS, READ_ONLY, SHOWS(global_status, 'prepared_stmt_count') + 0,
    coalesce(SHOWS(session_variables, 'max_statement_time') + 0, 0), coalesce(SHOWS(session_status, 'ssl_cipher'), ''),
    substring_index(user(), '@', -1) in ('localhost', '127.0.0.1', '::1'),
    (select count(*) from rota_ticket where durable and until = 0),
    (select count(*) from rota_session where expires < NOW - 60000000), NOW - @rota_ours
into @rota_doubt, @rota_replicas, @rota_readonly, @rota_prepared, @rota_limit, @rota_cipher, @rota_near, @rota_endless,
    @rota_over, @rota_off

#define VERDICT(bad_, how_) if(bad_, how_, 'kept')
#define REMEDY(bad_, what_) if(bad_, what_, '')
#define DOUBTED if(@rota_doubt <> '', 'limited', 'kept')
#define TO_CHANGE substring_index(@rota_doubt, '; ', -1)
#define FAST abs(@rota_off) > 1000000
#define TIGHT @rota_prepared > 0.8 * @@global.max_prepared_stmt_count
#define FAR (@rota_cipher = '' and not @rota_near)
#define STAYS (@rota_endless + @rota_over > 0)
--@ doctor
select 'one holder at a time (I1)', DOUBTED,
    if(@rota_doubt <> '', substring_index(@rota_doubt, '; ', 1), 'every grant is on disk before it is told'), TO_CHANGE
union all select 'fences only grow (I2)', DOUBTED, 'above the last of the line, and never behind the server''s clock', TO_CHANGE
union all select 'order of arrival (I7)', 'kept', 'a ticket is numbered while its line is locked', ''
union all select 'durable tickets', DOUBTED, 'rows that need no session', TO_CHANGE
union all select 'server', VERDICT(@rota_readonly, 'broken'),
    concat(VERSION_TEXT, if(@rota_readonly, ', takes no writes', ''), ', ', @rota_replicas, ' replicas'),
    REMEDY(@rota_readonly, 'name the primary')
union all select 'isolation', 'kept', 'READ COMMITTED, strict, UTC: which we set', ''
union all select 'idle time-outs', VERDICT(@rota_limit <> 0, 'limited'),
    concat('wait_timeout ', @@session.wait_timeout, ' s, lock waits 1 s',
        if(@rota_limit <> 0, concat(', max_statement_time ', @rota_limit, ' s'), '')),
    REMEDY(@rota_limit <> 0, 'max_statement_time=0 for this user: what is cut off is asked again')
union all select 'prepared statements', VERDICT(TIGHT, 'limited'),
    concat(@rota_prepared, ' of max_prepared_stmt_count ', @@global.max_prepared_stmt_count, ' are in use'),
    REMEDY(TIGHT, 'raise max_prepared_stmt_count: a client needs up to 80')
union all select 'privacy', VERDICT(FAR, 'limited'),
    if(@rota_cipher <> '', concat('TLS, ', @rota_cipher),
        if(@rota_near, 'on this machine', 'no TLS: names and labels pass in the clear')), REMEDY(FAR, 'use mysqls://')
union all select 'rights', 'kept', concat('the user ', current_user(), ' may do all that is needed'), ''
union all select 'clock', VERDICT(FAST, 'limited'), concat('the server''s is ', round(abs(@rota_off) / 1000000, 3),
        if(@rota_off < 0, ' s behind ours', ' s ahead of ours')),
    REMEDY(FAST, 'run NTP on the server, slewing: fences follow its clock')
union all select 'nothing stays (I6)', VERDICT(STAYS, 'limited'),
    concat((select count(*) from rota_session), ' sessions, ', @rota_over, ' of them over and still there; ',
        (select count(*) from rota_line), ' lines; ', @rota_endless, ' tickets that nothing ends'),
    REMEDY(STAYS, 'rota ls shows them, rota break takes one away; what is over goes with the next clients')
