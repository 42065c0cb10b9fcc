/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of itself: for the greeting, and for the doctor. */
#include "engine/mysql/mysql.h"

/* MariaDB reads what stands in M! comments, MySQL what stands in ! comments with a version that MariaDB never had. */
#define MARIADB(sql) "/*M! " sql "*/"
#define MYSQL(sql) "/*!80000 " sql "*/"

#define OF_THE_SERVER(table, name)                                                             \
    "(SELECT VARIABLE_VALUE FROM " MARIADB("information_schema.") MYSQL("performance_schema.") \
        table " WHERE VARIABLE_NAME='" name "')"
/* Replicas that are connected: MariaDB counts them for everybody, in MySQL only who may see all processes sees them. */
#define REPLICAS                                                                        \
    "(" MARIADB("SELECT VARIABLE_VALUE+0 FROM information_schema.GLOBAL_STATUS WHERE "  \
                "VARIABLE_NAME='SLAVES_CONNECTED'")                                     \
        MYSQL("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE " \
              "'Binlog Dump%'") ")"
#define READ_ONLY "(@@global.read_only<>0" MYSQL(" OR @@global.super_read_only<>0") ")"
#define NOT_INNODB                                                                       \
    "(SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND " \
    "TABLE_NAME IN ('rota_meta','rota_session','rota_line','rota_ticket') AND ENGINE<>'InnoDB')"
#define VERSION \
    "CONCAT(" MARIADB("'MariaDB '") MYSQL("'MySQL '") ",SUBSTRING_INDEX(VERSION(),'-',1))"
#define PART(n) "CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(),'.'," n "),'.',-1) AS SIGNED)"

/* What is wrong: what comes of it: what to do. */
#define FORGETS                                                                                     \
    "CASE WHEN @@global.innodb_flush_log_at_trx_commit<>1 THEN 'innodb_flush_log_at_trx_commit is " \
    "not 1: a crash forgets the last second: set it to 1' "                                         \
    "WHEN @@global.log_bin AND @@global.sync_binlog<>1 THEN 'sync_binlog is not 1: after a crash "  \
    "the tables and the binary log may disagree: set it to 1' "                                     \
    "WHEN CAST(@@global.innodb_doublewrite AS CHAR) IN ('0','OFF') THEN 'innodb_doublewrite is "    \
    "off: a crash may tear pages: turn it on' "                                                     \
    "WHEN " REPLICAS                                                                                \
    "<>0 THEN 'replicas follow asynchronously: one that is promoted may lack the "                  \
    "last grants: guard the resource by the fence' ELSE '' END"

#define NO_USE                                                                                              \
    "CASE WHEN COALESCE(" OF_THE_SERVER(                                                                    \
        "GLOBAL_VARIABLES",                                                                                 \
        "wsrep_on") ",'OFF')='ON' THEN 'Galera "                                                            \
                    "(wsrep_on) lets several servers grant the same lock: use one server' "                 \
                    "WHEN @@global.log_bin AND @@session.binlog_format='STATEMENT' THEN 'binlog_format is " \
                    "STATEMENT, which cannot log what Rota does: set MIXED or ROW' "                        \
                    "WHEN " NOT_INNODB                                                                      \
                    "<>0 THEN 'tables of Rota are not InnoDB: ALTER TABLE ... ENGINE=InnoDB' ELSE '' END"

const char rt_mysql_facts[] = "SELECT 10000*" PART("1") "+100*" PART(
    "2") "," VERSION ",NOT " READ_ONLY ",CONNECTION_ID()," FORGETS "," NO_USE;

const char rt_mysql_rights[] = "INSERT INTO rota_meta(k,v) SELECT k,v FROM rota_meta WHERE k='';\n"
                               "UPDATE rota_line SET turn=turn WHERE name='';\n"
                               "DELETE FROM rota_ticket WHERE name='' AND number=0;\n"
                               "DELETE FROM rota_session WHERE id=0 AND expires=0";

/* ---- The doctor ------------------------------------------------------------------------------------------------------ */

/* What several verdicts need. */
const char rt_mysql_notes[] =
    "SELECT " FORGETS "," REPLICAS "," READ_ONLY
    "," OF_THE_SERVER("GLOBAL_STATUS", "Prepared_stmt_count") "+0,COALESCE(" OF_THE_SERVER(
        "SESSION_VARIABLES",
        "max_statement_time") "+0,0),"
                              "COALESCE(" OF_THE_SERVER(
                                  "SESSION_STATUS",
                                  "Ssl_cipher") ",''),SUBSTRING_INDEX(USER(),'@',-1) IN ('localhost','127.0.0.1','::1'),"
                                                "(SELECT COUNT(*) FROM rota_ticket WHERE durable AND until=0),"
                                                "(SELECT COUNT(*) FROM rota_session WHERE expires<" RT_MYSQL_NOW
                                                "-60000000)," RT_MYSQL_NOW "-@rota_ours "
                                                "INTO @rota_forgets,@rota_replicas,@rota_readonly,@rota_prepared,@rota_limit,@rota_cipher,@rota_local,@rota_endless,@rota_over,@rota_off";

#define ROW(promise, bad, verdict, detail, remedy) \
    "SELECT '" promise "',IF(" bad ",'" verdict "','kept')," detail ",IF(" bad ",'" remedy "','')"
#define AND " UNION ALL "
/* By what is wrong and what comes of it; the last part is what to do. */
#define BY_FORGETS(promise, kept)                                                              \
    "SELECT '" promise                                                                         \
    "',IF(@rota_forgets<>'','limited','kept'),IF(@rota_forgets<>'',SUBSTRING(@rota_forgets,1," \
    "LENGTH(@rota_forgets)-LENGTH(SUBSTRING_INDEX(@rota_forgets,': ',-1))-2),'" kept           \
    "'),SUBSTRING_INDEX(@rota_forgets,': ',-1)"

const char rt_mysql_doctor[] = BY_FORGETS("one holder at a time (I1)",
                                          "one server, every commit is on its disk")
    AND ROW(
        "fences only grow (I2)", "@rota_forgets<>''", "limited",
        "IF(@rota_forgets<>'','a number that was lost goes on from the server''s clock: larger, unless that went back',"
        "'the last number stands in the row of its line')",
        "keep the clocks slewed, not stepped") AND ROW("order of arrival (I7)", "0", "limited",
                                                       "'the lock of its row numbers all tickets of a line'",
                                                       "")
        AND BY_FORGETS("durable tickets", "rows, which every commit puts on the disk") AND ROW(
            "server", "@rota_readonly", "broken",
            "CONCAT(" VERSION
            ",IF(@rota_readonly,', takes no writes',''),', ',@rota_replicas,' replicas')",
            "name the primary") AND ROW("isolation", "0", "limited",
                                        "'READ COMMITTED, strict, UTC: set by every connection'",
                                        "")
            AND ROW(
                "time-outs", "@rota_limit<>0", "limited",
                "CONCAT('wait_timeout ',@@session.wait_timeout,' s, lock waits 1 s',IF(@rota_limit<>0,CONCAT("
                "', max_statement_time ',@rota_limit,' s'),''))",
                "max_statement_time=0 for this user: what is cut off is asked again")
                AND ROW(
                    "prepared statements", "@rota_prepared>0.8*@@global.max_prepared_stmt_count",
                    "limited",
                    "CONCAT(@rota_prepared,' of max_prepared_stmt_count ',@@global.max_prepared_stmt_count,' are in use')",
                    "raise max_prepared_stmt_count: a client needs up to 80")
                    AND ROW(
                        "privacy", "@rota_cipher='' AND NOT @rota_local", "limited",
                        "IF(@rota_cipher<>'',CONCAT('TLS, ',@rota_cipher),IF(@rota_local,'on this machine',"
                        "'no TLS: names and labels pass in the clear'))",
                        "use mysqls://") AND ROW("rights", "0", "limited",
                                                 "CONCAT('the user ',CURRENT_USER(),' may do all that is needed')",
                                                 "") AND
                        ROW("clock", "ABS(@rota_off)>1000000", "limited",
                            "CONCAT('the server''s is ',ROUND(ABS(@rota_off)/1000000,3),' s ',IF(@rota_off<0,'behind','ahead of'),' ours')",
                            "run NTP on the server, slewing: fences after a crash follow its clock") AND
                            ROW("nothing stays (I6)", "@rota_endless+@rota_over>0", "limited",
                                "CONCAT((SELECT COUNT(*) FROM rota_session),' sessions, ',@rota_over,' of them over and still there; ',"
                                "(SELECT COUNT(*) FROM rota_line),' lines; ',@rota_endless,' tickets that nothing ends')",
                                "rota ls shows them, rota break takes one away; what is over goes with the next clients");
