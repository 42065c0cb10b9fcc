/* SPDX-License-Identifier: Apache-2.0 */
/* Every step in the SQL of MariaDB 10.6 and MySQL 8.0, or later.
 *
 * Why nothing is half done: a flight of several statements ends with the first that fails, and is rolled back (mysql.h).
 * So a statement may count on those before it in its flight.
 *
 * Why nothing is judged too early: sessions are read without locks, as they were when the statement began, and NOW is the
 * time of that beginning, before any row is seen. A session whose renewal was answered before its end is seen renewed by
 * any statement that begins after the end. READ COMMITTED does so for SELECT, for INSERT ... SELECT, and for UPDATE of one
 * table. In a DELETE, in an UPDATE that joins, and in SET, InnoDB locks what the subquery reads: a renewal would wait
 * for a flight's end, and flights for each other in a circle. There no session is asked for (PURGE first marks by an
 * UPDATE what then goes), or only a dead one.
 *
 * Why a line cannot change under a flight: LOCK has its row, and tickets are written only under that.
 *
 * Counts: rota_line.count and .waiting are made good once, at the end of the flight, by counting (RECOUNT); `fence` with
 * them. No statement in between looks at them.
 *
 * Numbers that come with OK: TAKE answers by LAST_INSERT_ID(number), and by how many rows it changed: 1 is a new line, 2 a
 * free one, 0 neither. The assignments go from left to right, so `session`, of which FREE depends, comes last. */
#include "engine/mysql/mysql.h"

#include <assert.h>
#include <string.h>

#define NOW RT_MYSQL_NOW
#define WHOLE "4611686018427387904"
#define ALIVE(id) "EXISTS(SELECT 1 FROM rota_session z WHERE z.id=" id " AND z.expires>" NOW ")"
#define DEAD(id) "NOT " ALIVE(id)

/* When the at_least of ticket T is over; after the clock was set back it counts from now. */
#define LEAST(t) "(LEAST(" t "since," NOW ")+" t "at_least)"
/* Whether T stays for its at_least, whatever becomes of its session. */
#define STAYS(t) "(" t "granted AND " t "at_least>0 AND " LEAST(t) ">" NOW ")"
/* When ticket T of session S (or of none: all its columns are NULL) ends by time; NULL: never. */
#define ENDS(t, s)                                                                    \
    "IF(" t ".durable,NULLIF(" t ".until,0),GREATEST(COALESCE(" s ".expires,0),IF(" t \
    ".granted AND " t ".at_least>0," LEAST(t ".") ",0)))"
#define LEFT(t, s) "GREATEST(0," ENDS(t, s) "-" NOW ")"
#define LIVES(t, s) "COALESCE(" ENDS(t, s) ">" NOW ",1)"

#define TICKETS "rota_ticket t LEFT JOIN rota_session s ON s.id=t.session"

/* ---- Tables -------------------------------------------------------------------------------------------------------- */

#define TABLE(name, columns) \
    "CREATE TABLE IF NOT EXISTS " name " (\n" columns ")\n  ENGINE=InnoDB ROW_FORMAT=DYNAMIC;\n"

const char rt_mysql_ddl[] = TABLE(
    "rota_meta", "  k VARBINARY(32) NOT NULL PRIMARY KEY,\n  v VARBINARY(255) NOT NULL\n")
    TABLE(
        "rota_session",
        "  id BIGINT NOT NULL PRIMARY KEY,\n  expires BIGINT NOT NULL,\n  label VARBINARY(255) NOT NULL,\n"
        "  KEY rota_by_expires (expires)\n")
        TABLE(
            "rota_line",
            "  name VARBINARY(1530) NOT NULL PRIMARY KEY,\n  fence BIGINT NOT NULL DEFAULT 0,\n"
            "  session BIGINT NULL,\n  nonce BIGINT NOT NULL DEFAULT 0,\n  owner BIGINT NOT NULL DEFAULT 0,\n"
            "  flags INT NOT NULL DEFAULT 0,\n  since BIGINT NOT NULL DEFAULT 0,\n  bell BIGINT NOT NULL DEFAULT 0,\n"
            "  count INT NOT NULL DEFAULT 0,\n  waiting INT NOT NULL DEFAULT 0,\n"
            "  watched BIGINT NOT NULL DEFAULT 0,\n  turn BIGINT NOT NULL DEFAULT 0\n")
            TABLE(
                "rota_ticket",
                "  name VARBINARY(1530) NOT NULL,\n  number BIGINT NOT NULL,\n  session BIGINT NOT NULL,\n"
                "  nonce BIGINT NOT NULL,\n  owner BIGINT NOT NULL,\n  mode TINYINT NOT NULL,\n  take INT NOT NULL,\n"
                "  of_ INT NOT NULL,\n  weight BIGINT NOT NULL,\n  granted TINYINT NOT NULL,\n  durable TINYINT NOT NULL,\n"
                "  flags INT NOT NULL,\n  since BIGINT NOT NULL,\n  at_least BIGINT NOT NULL,\n  until BIGINT NOT NULL,\n"
                "  bell BIGINT NOT NULL,\n  value VARBINARY(1023) NULL,\n  label VARBINARY(255) NULL,\n"
                "  PRIMARY KEY (name, number),\n  KEY rota_by_session (durable, session),\n  KEY rota_by_until (until)\n") "INSERT IGNORE INTO rota_meta (k, v) VALUES ('layout', '1.0');\n";

/* ---- Lines under their lock ------------------------------------------------------------------------------------------ */

#define FREE "rota_line.session IS NULL AND rota_line.count=0 AND rota_line.watched<=" NOW
#define IF_FREE(column, value) column "=IF(" FREE "," value ",rota_line." column ")"
static const char take[] =
    "INSERT INTO rota_line(name,fence,session,nonce,owner,flags,since,bell) "
    "SELECT ?1,LAST_INSERT_ID(" NOW "),?2,?3,?4,?5," NOW
    ",?6 FROM rota_session WHERE id=?2 AND expires>" NOW " "
    "ON DUPLICATE KEY UPDATE " IF_FREE("fence", "LAST_INSERT_ID(GREATEST(rota_line.fence+1," NOW "))") "," IF_FREE(
        "nonce",
        "?3") "," IF_FREE("owner",
                          "?4") "," IF_FREE("flags",
                                            "?5") "," IF_FREE("since",
                                                              NOW) "," IF_FREE("bell",
                                                                               "?6") "," IF_FREE("session",
                                                                                                 "?2");

static const char unfold[] =
    "INSERT INTO rota_ticket(name,number,session,nonce,owner,mode,take,of_,weight,granted,durable,flags,since,at_least,"
    "until,bell) SELECT name,fence,session,nonce,owner,0,0,0," WHOLE
    ",1,0,flags,since,0,0,bell FROM rota_line "
    "WHERE name=?1 AND session IS NOT NULL AND " ALIVE("rota_line.session");

/* Becomes durable and nobody's, and ends with its at_least, or has ended: 1. */
#define LET_GO                                                                                                     \
    "t.label=COALESCE((SELECT s.label FROM rota_session s WHERE s.id=t.session),t.label),t.durable=1,t.session=0," \
    "t.nonce=0,t.owner=0"
static const char mark_dead[] = "UPDATE rota_ticket t SET t.until=IF(" STAYS("t.") "," LEAST(
    "t.") ",1)," LET_GO " WHERE t.name=?1 AND NOT t.durable AND " DEAD("t.session");
static const char purge[] =
    "DELETE FROM rota_ticket WHERE name=?1 AND durable AND until BETWEEN 1 AND " NOW;

/* A ticket is granted if all ahead of it and itself fit: the sums only grow, so the first that does not fit ends it.
 * Of a barrier the first `of` that wait go through together. */
static const char settle[] =
    "UPDATE rota_ticket t JOIN (SELECT number,SUM(weight) OVER (ORDER BY number) upto,"
    "SUM(mode=4 AND NOT granted) OVER (ORDER BY number) place,SUM(mode=4 AND NOT granted) OVER () gathered "
    "FROM rota_ticket WHERE name=?1) w ON w.number=t.number SET t.granted=1,t.since=" NOW " "
    "WHERE t.name=?1 AND NOT t.granted AND (t.mode=3 OR t.mode=4 AND w.gathered>=t.of_ AND w.place<=t.of_ "
    "OR t.mode<3 AND w.upto<=IF(t.mode=2,t.of_," WHOLE "))";

/* What JOIN and GATE judge by: the line's tickets, summed up. */
#define LINE(session, nonce, mode, of)                                                                            \
    "(SELECT COALESCE(MAX(t.number),0) last,COALESCE(SUM(t.weight),0) upto,COALESCE(SUM(NOT t.granted),0) waits," \
    "COALESCE(SUM(NOT(t.mode=" mode " AND t.of_=" of " OR t.mode<2 AND " mode "<2)),0) others,"                   \
    "COALESCE(SUM(t.session=" session " AND t.nonce=" nonce                                                       \
    "),0) mine FROM rota_ticket t WHERE t.name=?1) f"
/* A barrier's last one fits; SETTLE then grants it with the others. */
#define FITS(mode, of, weight)                                                                    \
    "CASE " mode " WHEN 3 THEN 1 WHEN 4 THEN f.waits+1>=" of " ELSE f.waits=0 AND f.upto+" weight \
    "<=IF(" mode "=2," of "," WHOLE ") END"
#define MAY_JOIN(session, durable, try, fits) \
    "f.others=0 AND f.mine=0 AND (" durable "<>0 OR " ALIVE(session) ") AND (" try "=0 OR " fits ")"

static const char gate[] = "SELECT @rota_gate+COUNT(*) INTO @rota_gate FROM " LINE(
    "?2", "?3", "?4", "?5") " WHERE " MAY_JOIN("?2", "?8", "?7", FITS("?4", "?5", "?6"));

static const char join[] =
    "INSERT INTO rota_ticket(name,number,session,nonce,owner,mode,take,of_,weight,granted,durable,flags,since,at_least,"
    "until,bell,value,label) SELECT ?1,GREATEST(l.fence+1,f.last+1," NOW
    "),?2,?3,?4,?5,?6,?7,?8,?5<>4 AND " FITS(
        "?5", "?7",
        "?8") ",?12,?9," NOW ",?10,IF(?11=0,0," NOW
              "+?11),?16,?14,?15 FROM rota_line l JOIN " LINE(
                  "?2", "?3", "?5",
                  "?7") " WHERE l.name=?1 AND " MAY_JOIN("?2", "?12", "?13",
                                                         FITS(
                                                             "?5", "?7",
                                                             "?8")) " AND (?17=0 OR @rota_gate=?17)";

#define MINE "t.name=?1 AND t.session=?2 AND (t.number=?3 OR ?3=0 AND t.nonce=?4)"
static const char keep[] = "UPDATE rota_ticket t SET t.until=" LEAST(
    "t.") "," LET_GO " WHERE " MINE " AND ?5<>0 AND " STAYS("t.");
static const char leave[] =
    "DELETE FROM rota_ticket WHERE name=?1 AND session=?2 AND (number=?3 OR ?3=0 AND nonce=?4)";

static const char recount[] =
    "UPDATE rota_line l SET l.count=(SELECT COUNT(*) FROM rota_ticket t WHERE t.name=?1),"
    "l.waiting=(SELECT COUNT(*) FROM rota_ticket t WHERE t.name=?1 AND NOT t.granted),"
    "l.fence=GREATEST(l.fence,COALESCE((SELECT MAX(t.number) FROM rota_ticket t WHERE t.name=?1),0)) WHERE l.name=?1";

/* ---- Looks ------------------------------------------------------------------------------------------------------------ */

#define WAITERS "EXISTS(SELECT 1 FROM rota_ticket w WHERE w.name=?1 AND NOT w.granted)"
#define WANTED(t) "(" t ".granted AND " t ".flags&1<>0 AND " WAITERS ")"

/* Who stands behind the ticket NUMBER waits for the one ahead, or if that one holds, for any who does. */
#define AHEAD(number, what)                                                  \
    "(SELECT " what " FROM " TICKETS " WHERE t.name=?1 AND t.number<" number \
    " ORDER BY t.number DESC LIMIT 1)"
#define WAITS_FOR(number)                                                        \
    "IF(EXISTS(SELECT 1 FROM rota_ticket w WHERE w.name=?1 AND w.number<" number \
    " AND NOT w.granted)," AHEAD(number, LEFT("t", "s")) ",(SELECT MIN(" LEFT(   \
        "t", "s") ") FROM " TICKETS " WHERE t.name=?1 AND t.number<" number      \
                  " AND t.granted))," AHEAD(number, "t.bell")

static const char answer[] =
    "SELECT " ALIVE("?2") ",m.number,m.granted," WANTED("m") ",f.mode,f.of_,COALESCE(f.label,g.label)," WAITS_FOR(
        "m.number") " FROM (SELECT 1 one) o LEFT JOIN rota_ticket m ON m.name=?1 AND m.session=?2 AND m.nonce=?3 "
                    "LEFT JOIN rota_ticket f ON f.name=?1 AND f.number=(SELECT MIN(x.number) FROM rota_ticket x WHERE x.name=?1) "
                    "LEFT JOIN rota_session g ON g.id=f.session LIMIT 1";

static const char look[] = "SELECT m.granted," WAITS_FOR(
    "?3") " FROM rota_ticket m WHERE m.name=?1 AND m.number=?3 AND m.session=?2";

static const char state[] = "SELECT m.granted,m.mode," WANTED(
    "m") " FROM rota_ticket m WHERE m.name=?1 AND m.session=?2 "
         "AND m.number=?3";

#define FOLDS "rota_line l JOIN rota_session s ON s.id=l.session AND s.expires>" NOW

static const char front[] =
    "SELECT l.fence number,1 granted,1 n,0 mode,0 of_,NULL value,s.label label,s.expires-" NOW
    " ends FROM " FOLDS
    " WHERE l.name=?1 UNION ALL SELECT t.number,t.granted,COUNT(*) OVER (),t.mode,t.of_,t.value,"
    "COALESCE(t.label,s.label),MIN(" LEFT("t", "s") ") OVER () FROM " TICKETS
                                                    " WHERE t.name=?1 AND " LIVES(
                                                        "t", "s") " ORDER BY number LIMIT 1";

/* One whose session is dead, but which stays for its at_least, is shown as PURGE will make it. */
#define NOBODYS "t.durable OR COALESCE(s.expires,0)<=" NOW
static const char inspect[] =
    "SELECT l.name name,l.fence number,l.session,l.owner,0,0,0,1,0,l.flags,GREATEST(0," NOW
    "-l.since),s.expires-" NOW ",NULL,s.label FROM " FOLDS
    " WHERE l.name=?1 OR ?1 IS NULL AND l.session=?2 UNION ALL SELECT t.name,t.number,IF(" NOBODYS
    ",0,t.session),"
    "IF(NOT t.durable AND COALESCE(s.expires,0)<=" NOW
    ",0,t.owner),t.mode,t.take,t.of_,t.granted," NOBODYS ",t.flags,GREATEST(0," NOW
    "-t.since)," LEFT(
        "t",
        "s") ",t.value,COALESCE(t.label,s.label) FROM " TICKETS
             " WHERE (t.name=?1 OR ?1 IS NULL AND t.durable IN (0,1) AND t.session=?2) AND " LIVES(
                 "t", "s") " ORDER BY name,number";

#define BEGINS(name) \
    name ">=?1 AND " name "<=CONCAT(?1,REPEAT(CHAR(255),1530)) AND LEFT(" name ",LENGTH(?1))=?1"
static const char list[] =
    "SELECT d.name,SUM(d.n),SUM(d.g) FROM (SELECT l.name name,1 n,1 g FROM " FOLDS
    " WHERE " BEGINS("l.name") " UNION ALL SELECT t.name,1,t.granted FROM " TICKETS
                               " WHERE " BEGINS("t.name") " AND " LIVES(
                                   "t", "s") ") d GROUP BY d.name ORDER BY d.name";

/* ---- Sessions ---------------------------------------------------------------------------------------------------------- */

static const char mine[] =
    "SELECT t.name,t.number,t.nonce,t.granted,t.granted AND t.flags&1<>0 AND l.waiting>0 FROM rota_ticket t "
    "JOIN rota_line l ON l.name=t.name WHERE t.durable=0 AND t.session=?1";

static const char dead[] =
    "SELECT t.name FROM (SELECT DISTINCT session FROM rota_ticket WHERE durable=0) d LEFT JOIN rota_session s "
    "ON s.id=d.session AND s.expires>" NOW
    " JOIN rota_ticket t ON t.durable=0 AND t.session=d.session WHERE s.id IS NULL "
    "UNION SELECT name FROM rota_ticket WHERE until BETWEEN 1 AND " NOW " AND durable LIMIT ?1";

#define ROWLESS(id) "NOT EXISTS(SELECT 1 FROM rota_ticket t WHERE t.durable=0 AND t.session=" id ")"

/* Found without a lock, then deleted in the part of the table where they are: a DELETE locks what it reads. */
#define IDLE(l)                                                               \
    l "count=0 AND " l "since<" NOW "-?1 AND " l "watched<" NOW "-?1 AND (" l \
      "session IS NULL OR " DEAD(l "session") ")"
static const char find_idle[] =
    "SELECT MIN(d.name),MAX(d.name) INTO @rota_from,@rota_to FROM (SELECT l.name FROM rota_line l WHERE " IDLE(
        "l.") " ORDER BY l.name LIMIT ?2) d";
static const char idle[] =
    "DELETE FROM rota_line WHERE name BETWEEN @rota_from AND @rota_to AND " IDLE("rota_line.");

#define BELL "CONCAT('rota:',?1)" /* the name of a lock, one for the whole server */

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

static const struct rt_mysql_step steps[RT_SQL_STEPS] = {
    [RT_SQL_FACTS] = {.sql = {rt_mysql_facts}, .plain = true, .reads = true},
    [RT_SQL_LAYOUT] = {.sql = {"SELECT v FROM rota_meta WHERE k='layout'"},
                       .plain = true,
                       .reads = true},
    [RT_SQL_MAKE] = {.sql = {rt_mysql_ddl}, .plain = true},
    [RT_SQL_OPEN] = {.sql = {"INSERT INTO rota_session(id,expires,label) VALUES (?1," NOW
                             "+?2,COALESCE(?3,'')) "
                             "ON DUPLICATE KEY UPDATE id=id"}},
    /* A row that does not change counts as none: one that stays what it is gets a microsecond. */
    [RT_SQL_RENEW] = {.sql = {"UPDATE rota_session SET expires=IF(expires BETWEEN " NOW
                              "+?2 AND " NOW "+?2+?2,expires+1," NOW
                              "+?2) WHERE id=?1 AND expires>" NOW}},
    [RT_SQL_END] = {.sql = {"DELETE FROM rota_session WHERE id=?1 AND " ROWLESS("?1")}},
    [RT_SQL_MINE] = {.sql = {mine}, .reads = true},
    [RT_SQL_FOLDED] = {.sql = {"SELECT fence,nonce FROM rota_line WHERE name=?1 AND session=?2"},
                       .reads = true},
    [RT_SQL_DEAD] = {.sql = {dead}, .reads = true},
    [RT_SQL_BURY] = {.sql = {"DELETE FROM rota_session WHERE expires<=" NOW
                             " AND " ROWLESS("rota_session.id") " LIMIT ?1"}},
    [RT_SQL_IDLE] = {.sql = {find_idle, idle}},
    [RT_SQL_TAKE] = {.sql = {take}, .by_id = true},
    [RT_SQL_GIVE] =
        {.sql =
             {"UPDATE rota_line SET session=NULL WHERE name=?1 AND session=?2 AND fence=?3 AND watched<=" NOW}},
    [RT_SQL_VERIFY] =
        {.sql = {"SELECT 1 FROM rota_line WHERE name=?1 AND session=?2 AND fence=?3 AND " ALIVE(
             "?2")},
         .reads = true},
    [RT_SQL_LOCK] = {.sql = {"INSERT INTO rota_line(name,since,turn) VALUES (?1," NOW
                             ",?2) ON DUPLICATE KEY UPDATE turn=?2"}},
    [RT_SQL_UNFOLD] =
        {.sql = {unfold, "UPDATE rota_line SET session=NULL WHERE name=?1 AND session IS NOT NULL"},
         .recounts = true},
    [RT_SQL_PURGE] = {.sql = {mark_dead, purge}, .recounts = true},
    [RT_SQL_SETTLE] = {.sql = {settle}, .recounts = true},
    [RT_SQL_GATE] = {.sql = {gate}, .gate = true},
    [RT_SQL_JOIN] = {.sql = {join}, .recounts = true},
    [RT_SQL_ANSWER] = {.sql = {answer}, .reads = true},
    [RT_SQL_LEAVE] = {.sql = {"SELECT t.granted FROM rota_ticket t WHERE " MINE, keep, leave},
                      .recounts = true},
    [RT_SQL_CHANGE] =
        {.sql =
             {"UPDATE rota_ticket SET flags=flags|?7,value=IF(?5<>0,?6,value),weight=IF(?4<>0 AND mode=0,1,weight),"
              "mode=IF(?4<>0 AND mode=0,1,mode) WHERE name=?1 AND session=?2 AND number=?3 AND granted"}},
    [RT_SQL_STATE] = {.sql = {state}, .reads = true},
    [RT_SQL_BREAK] =
        {.sql =
             {"DELETE FROM rota_ticket WHERE name=?1 AND (number=?2 OR ?2=0 AND durable AND mode=?3)"},
         .recounts = true},
    [RT_SQL_WATCH] = {.sql = {"INSERT INTO rota_line(name,since,watched) VALUES (?1," NOW "," NOW
                              "+?2) ON DUPLICATE KEY UPDATE "
                              "watched=GREATEST(watched," NOW "+?2)"}},
    [RT_SQL_LOOK] = {.sql = {look}, .reads = true},
    [RT_SQL_FRONT] = {.sql = {front}, .reads = true},
    [RT_SQL_INSPECT] = {.sql = {inspect}, .reads = true},
    [RT_SQL_LIST] = {.sql = {list}, .reads = true},
    [RT_SQL_DOCTOR] = {.sql = {rt_mysql_rights, rt_mysql_notes, rt_mysql_doctor},
                       .plain = true,
                       .reads = true},
    [RT_SQL_BELL_TAKE] = {.sql = {"DO IF(COALESCE(IS_USED_LOCK(" BELL
                                  "),0)=CONNECTION_ID(),1,GET_LOCK(" BELL ",0))"},
                          .reads = true},
    [RT_SQL_BELL_RING] = {.sql = {"DO RELEASE_LOCK(" BELL ")"}, .reads = true, .behind = true},
    [RT_SQL_BELL_WAIT] = {.sql = {"DO IF(GET_LOCK(" BELL ",?2/1000)=1,RELEASE_LOCK(" BELL "),0)"},
                          .reads = true},
};

const struct rt_mysql_step *rt_mysql_step(enum rt_sql_step_kind kind)
{
    assert(kind < RT_SQL_STEPS);
    return &steps[kind];
}

const char *rt_mysql_sql(size_t form)
{
    assert(form < RT_MYSQL_FORMS);
    return form == RT_MYSQL_RECOUNT ? recount
                                    : steps[form / RT_MYSQL_PARTS].sql[form % RT_MYSQL_PARTS];
}

size_t rt_mysql_marks(const char *sql, struct rt_mysql_bytes *out, uint8_t *args)
{
    size_t count = 0;
    for (const char *at = sql; *at != '\0';) {
        size_t plain = strcspn(at, "?");
        if (out != NULL)
            rt_mysql_add(out, at, plain);
        at += plain;
        if (*at != '?')
            break;
        uint8_t number = 0;
        for (at++; *at >= '0' && *at <= '9'; at++)
            number = (uint8_t)(10 * number + (*at - '0'));
        assert(number >= 1 && number <= RT_SQL_ARGS && count < RT_MYSQL_MARKS);
        if (args != NULL)
            args[count] = number;
        count++;
        if (out != NULL)
            rt_mysql_add(out, "?", 1);
    }
    return count;
}
