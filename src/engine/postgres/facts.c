/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of itself: for the greeting, and for the doctor. */
#include "engine/postgres/statements.h"

#define SETTING(name) "current_setting('" name "')"
/* Others that follow this server's log; who subscribes to tables is none that could take its place. */
#define STANDBYS                                                                                              \
    "pg_stat_replication r where not exists (select 1 from pg_replication_slots p where p.active_pid = r.pid" \
    " and p.slot_type = 'logical')"

const char rt_postgres_facts[] = "select " SETTING(
    "server_version_num") "::bigint, version(),"
                          " not pg_is_in_recovery() and " SETTING(
                              "transaction_read_only") " = 'off', pg_backend_pid()::bigint,"
                                                       " case when " SETTING(
                                                           "fsync") " = 'off' then 'fsync is off: a machine that stops forgets grants; set fsync = on'"
                                                                    " when " SETTING(
                                                                        "full_page_writes") " = 'off' then 'full_page_writes is off: a torn page loses grants; set full_page_writes = on'"
                                                                                            " when " SETTING(
                                                                                                "synchronous_commit") " = 'off' then 'synchronous_commit is off: a crash forgets the last grants; set synchronous_commit = on'"
                                                                                                                      " when exists (select 1 from pg_class c where c.oid in (to_regclass('rota_line'), to_regclass('rota_ticket'),"
                                                                                                                      " to_regclass('rota_session')) and c.relpersistence <> 'p')"
                                                                                                                      " then 'a table is unlogged: a crash empties it; alter table ... set logged'"
                                                                                                                      " when exists (select 1 from " STANDBYS
                                                                                                                      ") and (" SETTING("synchronous_standby_names") " = '' or " SETTING(
                                                                                                                          "synchronous_commit") " = 'local')"
                                                                                                                                                " then 'a standby follows asynchronously: promoted, it lacks the last grants; set synchronous_standby_names'"
                                                                                                                                                " else '' end,"
                                                                                                                                                " case when version() ~* '(cockroach|greenplum|redshift|yugabyte|materialize)'"
                                                                                                                                                " then 'this is not PostgreSQL itself, whose locks and notices are needed: ' || left(version(), 60)"
                                                                                                                                                " when " SETTING(
                                                                                                                                                    "server_version_num") "::int < 110000 then 'PostgreSQL 11 or later is needed'"
                                                                                                                                                                          " else '' end";

const char rt_postgres_doctor[] = "select ''::text, ''::text, ''::text, ''::text where false";
