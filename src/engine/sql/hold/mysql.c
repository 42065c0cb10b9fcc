/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on MariaDB: GET_LOCK, FOR UPDATE, LOCK TABLES; and the table that numbers them.
 *
 * ?1 name, ?2 key, ?3 connection that holds, ?4 session, ?5 owner, ?6 label, ?7 number, ?8 the name as it is spelled there. */
#include "engine/sql/hold/ways.h"

#define NOW "LEAST(CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED), 9000000000000000)"
#define UPTIME                                                                                                \
    "(SELECT CAST(VARIABLE_VALUE AS SIGNED) + 1 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = " \
    "'UPTIME') * 1000000"

#define COLUMNS "(name, conn, fence, holder, session, owner, since, label, k)"
#define RAISE "fence = GREATEST(rota_hold.fence + 1, VALUES(fence))"
#define REST                                                                                               \
    ", holder = VALUES(holder), session = VALUES(session), owner = VALUES(owner), since = VALUES(since), " \
    "label = VALUES(label), k = VALUES(k)"
/* Numbers it, but only IF. */
#define FENCE(if)                                                               \
    "INSERT INTO rota_hold " COLUMNS " SELECT ?1, 0, " NOW ", ?3, ?4, ?5, " NOW \
    ", ?6, 0 FROM DUAL WHERE " if " ON DUPLICATE KEY UPDATE " RAISE REST
#define NUMBER "SELECT fence FROM rota_hold WHERE name = ?1 AND conn = 0 AND holder = ?3"

/* In one step: whoever finds the table finds its layout's version in it. */
#define MAKE                                                                                                  \
    "CREATE TABLE IF NOT EXISTS rota_hold (name VARBINARY(767) NOT NULL, conn BIGINT NOT NULL, fence BIGINT " \
    "NOT NULL, holder BIGINT NOT NULL, session BIGINT NOT NULL, owner BIGINT NOT NULL, since BIGINT NOT "     \
    "NULL, label VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, k BIGINT NOT NULL, PRIMARY KEY (name, conn)) "  \
    "ENGINE=InnoDB SELECT '' AS name, 0 AS conn, 1000 AS fence, 0 AS holder, 0 AS session, 0 AS owner, 0 AS " \
    "since, '' AS label, 0 AS k"

/* For dialects whose server does not say who holds: what our own clients have written, if that
 * connection still exists. */
#define OURS                                                                                              \
    " FROM rota_hold h JOIN information_schema.PROCESSLIST p ON p.ID = h.holder WHERE h.holder <> 0 AND " \
    "h.since >= " NOW " - " UPTIME
#define LOOK_OURS                                                                 \
    "SELECT h.holder, 0, IF(h.conn = 0, 0, 1), h.fence, h.session, h.owner, " NOW \
    " - h.since, h.label" OURS " AND h.name = ?1"
#define LIST_OURS                  \
    "SELECT h.name, COUNT(*)" OURS \
    " AND LEFT(h.name, LENGTH(?1)) = ?1 GROUP BY h.name ORDER BY h.name"
#define TIDY                                                                                    \
    "DELETE FROM rota_hold WHERE name <> '' AND since < " NOW " - 86400000000 AND fence < " NOW \
    " AND holder NOT IN "                                                                       \
    "(SELECT ID FROM information_schema.PROCESSLIST) LIMIT 100"

/* Nothing but its own ttl ends an idle seat, and nothing ends the wait of one that is not idle. */
#define SETTINGS                                                                                        \
    "SET SESSION wait_timeout={ttl_s}, lock_wait_timeout=31536000, innodb_lock_wait_timeout=100000000 " \
    "/*M!100101 , max_statement_time=0 */ /*M!100300 , idle_transaction_timeout=0, "                    \
    "idle_write_transaction_timeout=0, idle_readonly_transaction_timeout=0 */"

#define COMMON                                                                                         \
    [RT_HOLD_SAY_TIDY] = TIDY,                                                                         \
    [RT_HOLD_SAY_CLEAR] =                                                                              \
        "UPDATE rota_hold SET holder = 0 WHERE name = ?1 AND conn = 0 AND fence = ?7 AND holder = ?3", \
    [RT_HOLD_SAY_CLEAR_SHARED] =                                                                       \
        "DELETE FROM rota_hold WHERE name = ?1 AND conn = ?3 AND fence = ?7",                          \
    [RT_HOLD_SAY_LAYOUT] = "SELECT fence FROM rota_hold WHERE name = '' AND conn = 0",                 \
    [RT_HOLD_SAY_BREAK] =                                                                              \
        "UPDATE rota_hold SET holder = -1 WHERE name = ?1 AND conn IN (0, ?3) AND fence = ?7 AND "     \
        "holder = ?3",                                                                                 \
    [RT_HOLD_SAY_BROKEN] =                                                                             \
        "SELECT 1 FROM rota_hold WHERE name = ?1 AND conn IN (0, ?3) AND fence = ?7 AND holder = -1",  \
    [RT_HOLD_SAY_PING] = "SELECT 1", [RT_HOLD_SAY_WHO] = "SELECT CONNECTION_ID(), 0",                  \
    [RT_HOLD_SAY_SETTINGS] = SETTINGS, [RT_HOLD_SAY_MAKE] = MAKE

#define BUSY_WAIT "31536000" /* s: MariaDB accepts no negative time */

/* A statement is several literals. NOLINTBEGIN(bugprone-suspicious-missing-comma) */

const struct rt_sqlhold_way rt_sqlhold_getlock = {
    .dialect = "getlock",
    .tongue = RT_SQL_MYSQL,
    .caps = RT_HOLD_CAPS,
    .unsafe =
        "dialect getlock: a named lock is not replicated, and others see no fences; strict is for dialect line",
    .here = true,
    .sql =
        {
            COMMON,
            [RT_HOLD_SAY_TRY] = "SELECT @rota_got := GET_LOCK(?8, 0)",
            [RT_HOLD_SAY_WAIT] = "SELECT @rota_got := GET_LOCK(?8, " BUSY_WAIT ")",
            [RT_HOLD_SAY_FENCE] = FENCE("@rota_got = 1"),
            [RT_HOLD_SAY_NUMBER] = NUMBER " AND @rota_got = 1",
            [RT_HOLD_SAY_VERIFY] = "SELECT COALESCE(IS_USED_LOCK(?8) = CONNECTION_ID(), 0)",
            [RT_HOLD_SAY_GIVE] = "SELECT COALESCE(RELEASE_LOCK(?8), 0)",
            [RT_HOLD_SAY_LOOK] =
                "SELECT u.id, 0, 0, COALESCE(h.fence, u.id), COALESCE(h.session, 0), COALESCE(h.owner, 0), "
                "COALESCE(" NOW
                " - h.since, p.TIME * 1000000), COALESCE(h.label, CONCAT('connection ', u.id, "
                "COALESCE(CONCAT(', ', p.USER, '@', p.HOST), ''))) FROM (SELECT IS_USED_LOCK(?8) AS id) u LEFT JOIN "
                "information_schema.PROCESSLIST p ON p.ID = u.id LEFT JOIN rota_hold h ON h.name = ?1 AND h.conn = 0 "
                "AND h.holder = u.id AND h.since >= " NOW " - " UPTIME " WHERE u.id IS NOT NULL",
            [RT_HOLD_SAY_LIST] =
                "SELECT name, 1 FROM rota_hold WHERE conn = 0 AND name <> '' AND LEFT(name, LENGTH(?1)) = ?1 AND "
                "IF(LENGTH(name) <= 64, IS_USED_LOCK(name) IS NOT NULL, holder IN (SELECT ID FROM "
                "information_schema.PROCESSLIST)) ORDER BY name",
        },
    .flights =
        {
            [RT_HOLD_TRY] = {{RT_HOLD_SAY_TRY, RT_HOLD_SAY_FENCE, RT_HOLD_SAY_NUMBER, RT_HOLD_END}},
            [RT_HOLD_WAIT] = {{RT_HOLD_SAY_WAIT, RT_HOLD_END}},
            [RT_HOLD_NUMBERS] = {{RT_HOLD_SAY_FENCE, RT_HOLD_SAY_NUMBER, RT_HOLD_SAY_VERIFY,
                                  RT_HOLD_END}},
            [RT_HOLD_VERIFY] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_GIVE] = {{RT_HOLD_SAY_GIVE, RT_HOLD_END}},
        },
};

#define ROW "FROM {table} WHERE {column} = ?1 "
#define IN_TABLE "TABLE_SCHEMA = {schema_only} AND TABLE_NAME = '{table_only}'"
#define COLUMN_IS \
    "FROM information_schema.COLUMNS WHERE " IN_TABLE " AND COLUMN_NAME = '{column_only}'"
/* A row in a table of another storage engine cannot be locked: two would hold. BINARY is padded: its row is
 * not found again. */
#define SHAPE                                                                                                      \
    "SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM information_schema.TABLES WHERE " IN_TABLE                         \
    ") THEN 'there is no table {table} (?table=), or this user may not see it' WHEN EXISTS (SELECT 1 FROM "        \
    "information_schema.TABLES WHERE " IN_TABLE                                                                    \
    " AND COALESCE(ENGINE, '') <> 'InnoDB') THEN '{table} is not "                                                 \
    "InnoDB, and two would hold: ALTER TABLE {table} ENGINE=InnoDB' WHEN NOT EXISTS (SELECT 1 " COLUMN_IS          \
    ") THEN 'the table {table} has no column {column} (?column=)' WHEN NOT EXISTS (SELECT 1 " COLUMN_IS            \
    " AND DATA_TYPE IN ('char', 'varchar', 'varbinary', 'tinytext', 'text', 'mediumtext', 'longtext', 'tinyblob'," \
    " 'blob', 'mediumblob', 'longblob')) THEN 'the column {column} of {table} is no text: it cannot have names' "  \
    "ELSE '' END, (SELECT COALESCE(CHARACTER_MAXIMUM_LENGTH, 0) " COLUMN_IS                                        \
    "), (SELECT COALESCE(CHARACTER_SET_NAME, '') NOT LIKE 'utf8%' OR DATA_TYPE LIKE '%text' " COLUMN_IS            \
    ")"
const struct rt_sqlhold_way rt_sqlhold_forupdate_mysql = {
    .dialect = "forupdate",
    .tongue = RT_SQL_MYSQL,
    .caps = RT_HOLD_CAPS | ROTA_CAP_SHARED,
    .unsafe =
        "dialect forupdate: a lock is a transaction, and ends with its connection; strict is for dialect line",
    .rows = true,
    .sql =
        {
            COMMON,
            [RT_HOLD_SAY_BEGIN] = "BEGIN",
            [RT_HOLD_SAY_COMMIT] = "COMMIT",
            [RT_HOLD_SAY_ROLLBACK] = "ROLLBACK",
            [RT_HOLD_SAY_TRY] = "SELECT 1 " ROW "FOR UPDATE SKIP LOCKED",
            [RT_HOLD_SAY_TRY_SHARED] = "SELECT 1 " ROW "LOCK IN SHARE MODE SKIP LOCKED",
            [RT_HOLD_SAY_WAIT] = "SELECT 1 " ROW "FOR UPDATE",
            [RT_HOLD_SAY_WAIT_SHARED] = "SELECT 1 " ROW "LOCK IN SHARE MODE",
            [RT_HOLD_SAY_THERE] = "select 1 from {table} where {column} is null",
            [RT_HOLD_SAY_EXISTS] = "SELECT COUNT(*) " ROW,
            [RT_HOLD_SAY_ENSURE] =
                "INSERT INTO {table} ({column}) SELECT ?1 FROM DUAL WHERE NOT EXISTS (SELECT 1 " ROW
                ") ON DUPLICATE KEY UPDATE {column} = {table_only}.{column}",
            [RT_HOLD_SAY_SHAPE] = SHAPE,
            [RT_HOLD_SAY_FENCE] = FENCE("1"),
            [RT_HOLD_SAY_NUMBER] = NUMBER,
            [RT_HOLD_SAY_FENCE_SHARED] = "INSERT INTO rota_hold " COLUMNS " VALUES (?1, 0, " NOW
                                         ", 0, 0, 0, " NOW ", '', 0) ON DUPLICATE KEY "
                                         "UPDATE " RAISE ", since = VALUES(since)",
            [RT_HOLD_SAY_FENCE_SHARED_ROW] =
                "INSERT INTO rota_hold " COLUMNS " SELECT ?1, ?3, h.fence, ?3, ?4, ?5, " NOW
                ", ?6, 0 FROM rota_hold h "
                "WHERE h.name = ?1 AND h.conn = 0 ON DUPLICATE KEY UPDATE fence = VALUES(fence)" REST,
            [RT_HOLD_SAY_NUMBER_SHARED] =
                "SELECT fence FROM rota_hold WHERE name = ?1 AND conn = ?3",
            [RT_HOLD_SAY_VERIFY] = "SELECT @@in_transaction",
            [RT_HOLD_SAY_LOOK] = LOOK_OURS,
            /* Locked and let go at once, because it is no transaction. */
            [RT_HOLD_SAY_PROBE] =
                "SELECT 0, 0, 0, 0, 0, 0, NULL, 'a session of this server; MariaDB does not say which' FROM DUAL WHERE "
                "(SELECT COUNT(*) " ROW ") > (SELECT COUNT(*) FROM (SELECT 1 " ROW
                "FOR UPDATE SKIP LOCKED) y)",
            [RT_HOLD_SAY_LIST] = LIST_OURS,
            [RT_HOLD_SAY_MAKE2] =
                "CREATE TABLE IF NOT EXISTS rota_forupdate (name VARBINARY(767) NOT NULL PRIMARY KEY) ENGINE=InnoDB",
            [RT_HOLD_SAY_DOCTOR] =
                "SELECT 'a row is locked by itself', IF(SUM(i), 'kept', 'broken'), IF(SUM(i), 'a unique index leads to "
                "it', 'there is no unique index on the column alone: who asks for one name locks, or waits for, the "
                "rows of all'), IF(SUM(i), '', 'CREATE UNIQUE INDEX on that column') FROM (SELECT COUNT(*) = 1 AND "
                "MAX(NON_UNIQUE) = 0 AND MAX(COLUMN_NAME = '{column_only}') = 1 AS i FROM "
                "information_schema.STATISTICS WHERE TABLE_SCHEMA = {schema_only} AND TABLE_NAME = '{table_only}' "
                "GROUP BY INDEX_NAME UNION ALL SELECT 0) x",
        },
    .flights =
        {
            [RT_HOLD_TRY] = {{RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_TRY, RT_HOLD_SAY_EXISTS, RT_HOLD_END},
                             {RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_TRY_SHARED, RT_HOLD_SAY_EXISTS,
                              RT_HOLD_END}},
            [RT_HOLD_WAIT] = {{RT_HOLD_SAY_ROLLBACK, RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_WAIT,
                               RT_HOLD_END},
                              {RT_HOLD_SAY_ROLLBACK, RT_HOLD_SAY_BEGIN, RT_HOLD_SAY_WAIT_SHARED,
                               RT_HOLD_END}},
            [RT_HOLD_NUMBERS] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END},
                                 {RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_VERIFY] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END},
                                {RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_GIVE] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_SAY_COMMIT, RT_HOLD_SAY_CLEAR,
                               RT_HOLD_END},
                              {RT_HOLD_SAY_VERIFY, RT_HOLD_SAY_COMMIT, RT_HOLD_SAY_CLEAR_SHARED,
                               RT_HOLD_END}},
        },
};

const struct rt_sqlhold_way rt_sqlhold_table_mysql = {
    .dialect = "table",
    .tongue = RT_SQL_MYSQL,
    .caps = RT_HOLD_CAPS,
    .unsafe =
        "dialect table: a lock ends with its connection, and is not replicated; strict is for dialect line",
    .by_landing = true,
    .tables = true,
    .sql =
        {
            COMMON,
            [RT_HOLD_SAY_ROLLBACK] = "UNLOCK TABLES",
            [RT_HOLD_SAY_COMMIT] = "UNLOCK TABLES",
            [RT_HOLD_SAY_FENCE] = FENCE("1"),
            [RT_HOLD_SAY_NUMBER] = NUMBER,
            [RT_HOLD_SAY_VERIFY] = "SELECT CONNECTION_ID() = ?3",
            [RT_HOLD_SAY_LOOK] = LOOK_OURS,
            [RT_HOLD_SAY_LIST] = LIST_OURS,
        },
    .flights =
        {
            [RT_HOLD_TRY] = {{RT_HOLD_NOWAIT, RT_HOLD_END}},
            [RT_HOLD_WAIT] = {{RT_HOLD_LOCK, RT_HOLD_END}},
            [RT_HOLD_MAKES] = {{RT_HOLD_NEW, RT_HOLD_END}},
            [RT_HOLD_NUMBERS] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_VERIFY] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_END}},
            [RT_HOLD_GIVE] = {{RT_HOLD_SAY_VERIFY, RT_HOLD_SAY_COMMIT, RT_HOLD_SAY_CLEAR,
                               RT_HOLD_END}},
        },
};

/* NOLINTEND(bugprone-suspicious-missing-comma) */
