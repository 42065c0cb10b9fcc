/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of the file journal, in SQLite's SQL: rows.h says what each does. */
#include "txn/journal/file/db.h"

#define NOW "CAST((julianday('now')-2440587.5)*86400000 AS INTEGER)"
#define FLOOR "(SELECT n FROM rota_txn_meta WHERE k='floor')"
/* OR FAIL where a statement inserts what it selects: then SQLite sets no savepoint, which nobody needs, for a batch
 * with an error is rolled back as a whole. */
#define AT(step, types_, rows_, ...) \
    [RT_ROWS_##step] = {.sql = __VA_ARGS__, .types = types_, .slot = RT_ROWS_##step, .rows = rows_}
#define NOTHING(step) [RT_ROWS_##step] = {.sql = NULL, .types = "", .slot = RT_ROWS_##step}
#define MAY_DECIDE(stands, known) "stands=1 AND (" stands "=3 OR registered<=" known ")"
#define NAMED "SELECT id FROM rota_txn WHERE id>=?1 AND done<>0 AND decided<?2 ORDER BY id LIMIT ?3"

const char rt_jfile_schema[] =
    "CREATE TABLE rota_txn_meta(k TEXT PRIMARY KEY,n INTEGER,v TEXT) WITHOUT ROWID;"
    "CREATE TABLE rota_txn(id BLOB PRIMARY KEY,stands INTEGER NOT NULL,deadline INTEGER NOT NULL,"
    "decided INTEGER NOT NULL,done INTEGER NOT NULL,registered INTEGER NOT NULL,claimer INTEGER NOT NULL,"
    "claimed INTEGER NOT NULL,label TEXT NOT NULL,branches BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX rota_txn_undone ON rota_txn(deadline,id) WHERE done=0;"
    "CREATE TABLE rota_txn_branch(id BLOB NOT NULL,number INTEGER NOT NULL,body BLOB NOT NULL,"
    "PRIMARY KEY(id,number)) WITHOUT ROWID;"
    "CREATE TABLE rota_txn_resource(name TEXT PRIMARY KEY,url TEXT NOT NULL,seen INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO rota_txn_meta(k,n,v) VALUES('layout',0,'1.0'),('floor',0,''),"
    "('number',(random()&4294967295)%4294967295+1,'');";

const struct rt_sql_saying rt_jfile_words[RT_ROWS_END] = {
    NOTHING(GUARD),
    NOTHING(GUARD_ALONE),
    NOTHING(LOCK), /* there is only one writer */
    AT(WHO, "", true,
       "SELECT (SELECT n FROM rota_txn_meta WHERE k='number')," FLOOR "," NOW
       ",(SELECT v FROM rota_txn_meta WHERE k='layout')"),
    AT(INSERT, "biitbii", false,
       "INSERT INTO rota_txn(id,stands,deadline,decided,done,registered,claimer,claimed,label,branches) "
       "SELECT ?1,?2,?3," NOW ",0,0,0,0,?4,?5 WHERE " FLOOR "<=?7 "
       "ON CONFLICT(id) DO UPDATE SET stands=excluded.stands,decided=excluded.decided,"
       "branches=excluded.branches WHERE " MAY_DECIDE("?2", "?6")),
    AT(SETTLE, "bibi", false,
       "UPDATE rota_txn SET stands=?2,decided=" NOW
       ",branches=?3 WHERE id=?1 AND " MAY_DECIDE("?2", "?4")),
    AT(STANDS, "b", true,
       "SELECT m.n,t.stands,t.done,t.deadline,t.decided,t.registered,t.claimer,t.claimed,t.label,t.branches," NOW
       " FROM rota_txn_meta m LEFT JOIN rota_txn t ON t.id=?1 WHERE m.k='floor'"),
    AT(ROW, "biti", false,
       "INSERT OR FAIL INTO rota_txn(id,stands,deadline,decided,done,registered,claimer,claimed,label,branches) "
       "SELECT ?1,1,?2,0,0,0,0,0,?3,x'' WHERE " FLOOR "<=?4 ON CONFLICT(id) DO NOTHING"),
    AT(BRANCH, "bib", false,
       "INSERT OR FAIL INTO rota_txn_branch(id,number,body) SELECT ?1,?2,?3 FROM rota_txn WHERE id=?1 AND stands=1 "
       "ON CONFLICT(id,number) DO NOTHING"),
    AT(COUNT, "b", false,
       "UPDATE rota_txn SET registered=(SELECT count(*) FROM rota_txn_branch b WHERE b.id=?1) "
       "WHERE id=?1 AND stands=1"),
    AT(BRANCHES, "b", true, "SELECT body FROM rota_txn_branch WHERE id=?1 ORDER BY number"),
    AT(DONE, "b", false, "UPDATE rota_txn SET done=" NOW " WHERE id=?1 AND stands<>1 AND done=0"),
    AT(DONE_MANY, "bbbbbbbbbbbbbbbb", false,
       "UPDATE rota_txn SET done=" NOW " WHERE stands<>1 AND done=0 AND id IN "
       "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)"),
    AT(NEWEST, "b", true, "SELECT id FROM rota_txn WHERE id<?1 ORDER BY id DESC LIMIT 1"),
    AT(RAISE, "i", false, "UPDATE rota_txn_meta SET n=?1 WHERE k='floor' AND n<?1"),
    AT(SWEEP, "bi", false,
       "DELETE FROM rota_txn WHERE id IN "
       "(SELECT id FROM rota_txn WHERE id<?1 AND done<>0 ORDER BY id LIMIT ?2)"),
    AT(STRAYS, "b", false,
       "DELETE FROM rota_txn_branch WHERE id<?1 AND NOT EXISTS "
       "(SELECT 1 FROM rota_txn t WHERE t.id=rota_txn_branch.id)"),
    AT(NAMED_BRANCHES, "bii", false, "DELETE FROM rota_txn_branch WHERE id IN (" NAMED ")"),
    AT(NAMED, "bii", false, "DELETE FROM rota_txn WHERE id IN (" NAMED ")"),
    AT(SCAN, "iibi", true,
       "SELECT id,stands,deadline,decided,registered,claimer,claimed,label,branches FROM rota_txn "
       "WHERE done=0 AND deadline<=?1 AND (deadline,id)>(?2,?3) ORDER BY deadline,id LIMIT ?4"),
    AT(ALL, "bi", true,
       "SELECT id,stands,deadline,decided,registered,claimer,claimed,label,branches,done FROM rota_txn "
       "WHERE id>?1 ORDER BY id LIMIT ?2"),
    AT(CLAIM, "bii", false,
       "UPDATE rota_txn SET claimer=iif(?3=0,0,?2),claimed=iif(?3=0,0," NOW
       "+?3) WHERE id=?1 AND done=0 "
       "AND (claimer IN (0,?2) OR claimed<=" NOW ")"),
    AT(RESOURCE, "tt", false,
       "INSERT INTO rota_txn_resource(name,url,seen) VALUES(?1,?2," NOW ") "
       "ON CONFLICT(name) DO UPDATE SET url=excluded.url,seen=excluded.seen WHERE url<>excluded.url"),
    AT(RESOURCES, "", true, "SELECT name,url,seen FROM rota_txn_resource ORDER BY name"),
};
