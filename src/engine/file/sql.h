/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of the embedded engine, in the order of enum rt_file_stmt. Only db.c reads it. */
#ifndef RT_FILE_SQL_H
#define RT_FILE_SQL_H

/* Read by rt_file_row_read. */
#define ROW "number,flags,session,nonce,owner,bell,since,until,at_least,mode,take,of"

/* The counter has a page of its own: with pages of 1 KiB that costs 2 us a pair, measured. The
 * index of ends holds only tickets that have one, so a plain pair never writes to it. */
static const char schema_sql[] =
    "CREATE TABLE meta(id INTEGER PRIMARY KEY, next INTEGER NOT NULL, reserved INTEGER NOT NULL,"
    " observers INTEGER NOT NULL, boot TEXT NOT NULL);"
    "CREATE TABLE session(id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, start INTEGER NOT NULL,"
    " opened INTEGER NOT NULL, label TEXT NOT NULL);"
    "CREATE TABLE ticket(line TEXT NOT NULL, number INTEGER NOT NULL, flags INTEGER NOT NULL,"
    " session INTEGER NOT NULL, nonce INTEGER NOT NULL, owner INTEGER NOT NULL,"
    " bell INTEGER NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL,"
    " at_least INTEGER NOT NULL, mode INTEGER NOT NULL, take INTEGER NOT NULL,"
    " of INTEGER NOT NULL, value TEXT, label TEXT, PRIMARY KEY(line, number)) WITHOUT ROWID;"
    "CREATE INDEX ticket_end ON ticket(until) WHERE until > 0;"
    "CREATE TABLE observer(line TEXT NOT NULL, session INTEGER NOT NULL,"
    " PRIMARY KEY(line, session)) WITHOUT ROWID;"
    "INSERT INTO meta VALUES(1, 1, 1, 0, '');";

static const char *const statements[RT_FILE_STMTS] = {
    [RT_FILE_BEGIN] = "BEGIN IMMEDIATE",
    [RT_FILE_COMMIT] = "COMMIT",
    [RT_FILE_ROLLBACK] = "ROLLBACK",
    [RT_FILE_META] = "SELECT next,reserved,observers,boot FROM meta WHERE id=1",
    [RT_FILE_META_NEXT] = "UPDATE meta SET next=?1 WHERE id=1",
    [RT_FILE_META_RESERVED] = "UPDATE meta SET next=?1,reserved=?2 WHERE id=1",
    [RT_FILE_META_BOOT] = "UPDATE meta SET boot=?1 WHERE id=1",
    [RT_FILE_META_OBSERVERS] =
        "UPDATE meta SET observers=(SELECT count(*) FROM observer) WHERE id=1",
    [RT_FILE_SESSION_ADD] = "INSERT INTO session(id,pid,start,opened,label) VALUES(?1,?2,?3,?4,?5)",
    [RT_FILE_SESSION_GET] = "SELECT pid,start,label FROM session WHERE id=?1",
    [RT_FILE_SESSION_DROP] = "DELETE FROM session WHERE id=?1",
    [RT_FILE_SESSION_SOME] = "SELECT id FROM session WHERE id>=?1 ORDER BY id LIMIT ?2",
    [RT_FILE_TICKET_ADD] = "INSERT INTO ticket(line,number,flags,session,nonce,owner,bell,since,"
                           "until,at_least,mode,take,of,value,label)"
                           " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15)",
    [RT_FILE_TICKET_GET] = "SELECT " ROW " FROM ticket WHERE line=?1 AND number=?2",
    [RT_FILE_TICKET_BY_NONCE] = "SELECT " ROW
                                " FROM ticket WHERE line=?1 AND nonce=?2 AND session=?3",
    [RT_FILE_TICKET_SET] = "UPDATE ticket SET flags=?3,session=?4,nonce=?5,since=?6,until=?7,"
                           "mode=?8 WHERE line=?1 AND number=?2",
    [RT_FILE_TICKET_KEEP] = "UPDATE ticket SET flags=?3,session=0,nonce=0,bell=0,since=?4,until=?5,"
                            "label=(SELECT label FROM session WHERE id=ticket.session)"
                            " WHERE line=?1 AND number=?2",
    [RT_FILE_TICKET_VALUE] = "UPDATE ticket SET value=?3 WHERE line=?1 AND number=?2",
    [RT_FILE_TICKET_DROP] = "DELETE FROM ticket WHERE line=?1 AND number=?2",
    [RT_FILE_LINE_LAST] = "SELECT " ROW " FROM ticket WHERE line=?1 ORDER BY number DESC LIMIT 1",
    [RT_FILE_LINE_WALK] = "SELECT " ROW " FROM ticket WHERE line=?1 AND number>?2 ORDER BY number",
    [RT_FILE_LINE_WAITING] = "SELECT count(*) FROM ticket WHERE line=?1 AND flags&1=0",
    [RT_FILE_LINE_BEFORE] = "SELECT " ROW
                            " FROM ticket WHERE line=?1 AND number<?2 ORDER BY number DESC LIMIT 1",
    [RT_FILE_LINE_BEHIND] = "SELECT " ROW
                            " FROM ticket WHERE line=?1 AND number>?2 ORDER BY number LIMIT 1",
    [RT_FILE_LINE_EXPIRED] = "SELECT " ROW
                             " FROM ticket WHERE line=?1 AND until>0 AND (until<=?2 OR since>?2)"
                             " LIMIT 1",
    [RT_FILE_LINE_UNTIL] =
        "SELECT min(iif(since>?2, 1, until)) FROM ticket WHERE line=?1 AND until>0",
    [RT_FILE_LINE_DURABLE] = "SELECT " ROW
                             " FROM ticket WHERE line=?1 AND mode=?2 AND flags&2 LIMIT 1",
    [RT_FILE_LINE_FRONT] =
        "SELECT number,flags,value,coalesce(ticket.label,session.label,''),mode,of,"
        "(SELECT count(*) FROM ticket WHERE line=?1) FROM ticket"
        " LEFT JOIN session ON session.id=ticket.session"
        " WHERE line=?1 ORDER BY number LIMIT 1",
    [RT_FILE_LINE_PAGE] = "SELECT number,session,flags,mode FROM ticket WHERE line=?1 AND number>?2"
                          " ORDER BY number LIMIT ?3",
    [RT_FILE_EXPIRED_SOME] =
        "SELECT line,number FROM ticket WHERE until BETWEEN 1 AND ?1 ORDER BY until LIMIT ?2",
    [RT_FILE_SESSION_TICKETS] =
        "SELECT line,number FROM ticket WHERE session=?1 AND flags&2=0 LIMIT ?2",
    [RT_FILE_LINE_OF_SESSION] =
        "SELECT line,number FROM ticket WHERE line=?3 AND session=?1 AND flags&2=0 LIMIT ?2",
    [RT_FILE_OBSERVER_ADD] = "INSERT OR IGNORE INTO observer(line,session) VALUES(?1,?2)",
    [RT_FILE_OBSERVER_DROP] = "DELETE FROM observer WHERE line=?1 AND session=?2",
    [RT_FILE_OBSERVER_DROP_SESSION] = "DELETE FROM observer WHERE session=?1",
    [RT_FILE_OBSERVER_LINE] = "SELECT session FROM observer WHERE line=?1",
    [RT_FILE_INSPECT_LINE] = "SELECT " ROW
                             ",line,value,coalesce(ticket.label,session.label,'') FROM ticket"
                             " LEFT JOIN session ON session.id=ticket.session WHERE line=?1"
                             " AND (until=0 OR until>?2) ORDER BY number",
    [RT_FILE_INSPECT_SESSION] = "SELECT " ROW
                                ",line,value,coalesce(ticket.label,session.label,'') FROM ticket"
                                " LEFT JOIN session ON session.id=ticket.session WHERE session=?1"
                                " AND (until=0 OR until>?2) ORDER BY line,number",
    [RT_FILE_LIST] = "SELECT line,count(*),sum(flags&1) FROM ticket WHERE line>=?1"
                     " AND (until=0 OR until>?2) AND substr(line,1,length(?1))=?1 GROUP BY line",
};

#endif
