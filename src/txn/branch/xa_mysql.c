/* SPDX-License-Identifier: Apache-2.0 */
/* The participant MariaDB, by XA.
 *
 * Its xid is 'NAME','CONNECTION',1383036001: NAME as core/name.h writes it, CONNECTION the number of the connection
 * that began it, by which a takeover sees whether that connection is gone. What would be three round trips is one
 * compound statement, or one packet on a connection that takes several statements in one:
 *
 *   PREPARE    savepoint and back (a warning tells that a table without transactions was changed), marker, XA END, XA
 *              PREPARE; ONE_PHASE: the same, XA COMMIT ... ONE PHASE
 *   COMMIT     is the connection still in a transaction? After mysql_reset_connection XA COMMIT says OK, even there,
 *              and commits nothing
 *
 * What a keeper asks is in gate_mysql.c. */
#include "base/bug.h"
#include "txn/branch/gate_mysql.h"
#include "txn/branch/libmysql.h"
#include "txn/branch/mysql_errors.h"
#include "txn/branch/party.h"
#include "txn/branch/xid.h"

#include <rota.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DDL                                                                                      \
    "CREATE TABLE IF NOT EXISTS %s (id BINARY(16) NOT NULL, branch INT UNSIGNED NOT NULL, kind " \
    "TINYINT NOT NULL, PRIMARY KEY (id, branch)) ENGINE = InnoDB"
/* kind: 1 a marker, 0 a fence */

/* Leaves nothing open, even with autocommit off. */
#define SAFELY                                                                                     \
    "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END; START " \
    "TRANSACTION; "

enum { /* party->step */
       FIRST,
       ATTACH_WHO,
       ATTACH_MODE,
       ATTACH_TABLE,
       ATTACH_MADE,
       ATTACH_SET,
       BEGUN,
       BEGUN_COUNTED,
       COUNTED,
       LAST_SAID,
       READONLY_ENDED,
       READONLY_ROLLED,
       VOTED,
       REFUSED_ENDED,
       REFUSED_ROLLED,
       OWN_ENDED,
       OWN_DONE,
};

static const char *id_of(const struct rt_txn_id *id, char out[RT_TXN_ID_TEXT])
{
    rt_txn_id_text(id, out);
    return out;
}

/* ---- ATTACH -------------------------------------------------------------------- */

/* ORACLE has another grammar. */
static bool say_who(struct rt_party *p)
{
    return RT_PARTY_SAY(
        p, ATTACH_WHO,
        "SELECT CONNECTION_ID(), @@in_transaction, VERSION(), @@wsrep_on, DATABASE(), @@sql_mode "
        "REGEXP 'ORACLE', @@max_allowed_packet");
}

static bool attach_mode(struct rt_party *p)
{
    return p->talk->said.failed ? rt_gate_mysql_refuse(p) : say_who(p);
}

static bool attach_more(struct rt_party *p)
{
    if (p->keeper)
        return RT_PARTY_SAY(p, ATTACH_SET,
                            "SET SESSION autocommit = 1, tx_isolation = 'READ-COMMITTED'");
    p->attached = true;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

static bool attach_who(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    unsigned long can = 0;
    char *to = p->marks;

    if (said->failed && said->code != NO_VARIABLE)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    if (said->failed || strstr(said->cell[2], "MariaDB") == NULL)
        return rt_party_end(
            p, RT_REPLY_NO, ROTA_UNSUPPORTED,
            "two-phase commit is supported with MariaDB, and this server is another");
    if (strcmp(said->cell[3], "1") == 0)
        return rt_party_end(
            p, RT_REPLY_NO, ROTA_UNSUPPORTED,
            "a Galera cluster does not keep prepared transactions: use a single MariaDB");
    if (strcmp(said->cell[1], "1") == 0)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the connection is in a transaction: COMMIT or ROLLBACK comes first");
    if (strcmp(said->cell[5], "1") == 0 && p->keeper)
        return RT_PARTY_SAY(p, ATTACH_MODE, "SET SESSION sql_mode = ''");
    if (strcmp(said->cell[5], "1") == 0)
        return rt_party_end(
            p, RT_REPLY_NO, ROTA_UNSUPPORTED,
            "sql_mode contains ORACLE, and what the branch says is not understood there: SET SESSION sql_mode "
            "without it");
    p->number = strtoull(said->cell[0], NULL, 10);
    p->packet = strtoull(said->cell[6], NULL, 10);
    p->handle = rt_my.mysql_thread_id(p->conn);
    p->several = rt_my.mariadb_get_info(p->conn, RT_MARIADB_CLIENT_CAPABILITIES, &can) == 0 &&
                 (can & RT_MYSQL_MULTI_STATEMENTS) != 0;
    if ((p->op->flags & RT_PARTY_UNMARKED) != 0)
        return attach_more(p);
    if (p->marks[0] == '\0' && said->null[4])
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "no database is selected: markers of branches need one");
    if (p->marks[0] == '\0') {
        *to++ = '`';
        for (const char *c = said->cell[4]; *c != '\0' && to < p->marks + RT_PARTY_MARKS_MAX - 20;
             c++) {
            *to++ = *c;
            if (*c == '`')
                *to++ = '`';
        }
        snprintf(to, 20, "`.rota_mark");
    }
    /* some modes (ANSI, MYSQL40, NO_TABLE_OPTIONS) leave ENGINE out, or call it TYPE */
    return RT_PARTY_SAY(p, ATTACH_TABLE, "SET STATEMENT sql_mode = '' FOR SHOW CREATE TABLE %s",
                        p->marks);
}

static bool attach_table(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool made = p->step == ATTACH_MADE;

    if (said->failed && (p->op->flags & RT_PARTY_KNOWN) != 0)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    if (!made && said->failed && (said->code == NO_TABLE || said->code == NO_TABLE_RIGHT))
        return RT_PARTY_SAY(p, ATTACH_MADE, DDL, p->marks);
    if (said->failed)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "the table of markers is missing: " DDL,
                            p->marks);
    if (!made && strstr(said->cell[1], "ENGINE=InnoDB") == NULL)
        return rt_party_end(
            p, RT_REPLY_NO, ROTA_UNSUPPORTED,
            "%s is not an InnoDB table: a marker would stay whatever becomes of its branch",
            p->marks);
    return attach_more(p);
}

static bool attach_set(struct rt_party *p)
{
    if (p->talk->said.failed)
        return rt_gate_mysql_refuse(p);
    p->attached = true;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* ---- BEGIN, votes --------------------------------------------------------------- */

#define COUNTERS                                                               \
    "SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS WHERE " \
    "VARIABLE_NAME IN ('HANDLER_WRITE', 'HANDLER_UPDATE', 'HANDLER_DELETE')"

static bool begun(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    struct rt_part *part = p->op->part;

    if (said->failed && (said->code == XA_OUTSIDE || said->code == XA_RMFAIL))
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the connection is in a transaction: COMMIT or ROLLBACK comes first");
    if (said->failed)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    part->by = p;
    if ((p->op->flags & RT_PARTY_READS) != 0)
        return RT_PARTY_SAY(p, BEGUN_COUNTED, COUNTERS);
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

static bool begun_counted(struct rt_party *p)
{
    struct rt_part *part = p->op->part;

    part->watched = !p->talk->said.failed;
    part->writes = strtoull(p->talk->said.cell[0], NULL, 10);
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

static bool say_end(struct rt_party *p, int next)
{
    char xid[RT_XID_TEXT];

    return RT_PARTY_SAY(p, next, "XA END %s", rt_xid_text(p->op->part, xid));
}

static bool say_rollback(struct rt_party *p, int next)
{
    char xid[RT_XID_TEXT];

    return RT_PARTY_SAY(p, next, "XA ROLLBACK %s", rt_xid_text(p->op->part, xid));
}

/* SIGNAL takes 128 bytes. */
#define NO_INNODB                                                                         \
    "a table that cannot be rolled back (no InnoDB) was changed, or a temporary one was " \
    "made: make those before the branch"
#define NO_WARNINGS                                                                         \
    "max_error_count is 0, so the server does not tell whether it can be rolled back: set " \
    "it to 1 or more"
/* All of a compound statement is ours: nothing else can make its syntax wrong. */
#define OTHER_GRAMMAR                                                                             \
    "its vote was not understood: sql_mode has ORACLE in it now, unlike when the connection was " \
    "first used: SET SESSION sql_mode without it"

#define VOTE_MOST 1024 /* more bytes than ours ever need */

static bool say_vote(struct rt_party *p)
{
    struct rt_part *part = p->op->part;
    bool one_phase = p->op->what == RT_PARTY_ONE_PHASE;
    bool long_one = part->last != NULL && strlen(part->last) + VOTE_MOST >= p->packet;
    char xid[RT_XID_TEXT], id[RT_TXN_ID_TEXT];

    if (part->last != NULL && (one_phase || !p->several || long_one) && p->step != LAST_SAID)
        return RT_PARTY_SAY(p, LAST_SAID, "%s", part->last);
    part->prepared = true;
    rt_xid_text(part, xid);
    p->hit = part->last != NULL && p->step != LAST_SAID; /* `last` is in the packet */
    if (p->hit && !rt_last_add(p))
        return false;
    if (p->several && !one_phase) /* cheaper for the server: nothing is compiled */
        return RT_PARTY_FORCE(p, VOTED,
                              "SAVEPOINT rota_mark; ROLLBACK TO SAVEPOINT rota_mark; INSERT INTO "
                              "%s VALUES (x'%s', %u, 1); XA END %s; XA PREPARE %s",
                              p->marks, id_of(&part->name.id, id), part->name.branch, xid, xid);
    return RT_PARTY_FORCE(
        p, VOTED,
        "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR %d SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = "
        "'" NO_INNODB "'; IF @@max_error_count = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = "
        "'" NO_WARNINGS "'; END IF; SAVEPOINT rota_mark; ROLLBACK TO "
        "SAVEPOINT rota_mark; INSERT INTO %s VALUES (x'%s', %u, 1); XA END %s; XA %s %s%s; END",
        RT_BUG(RT_BUG_BRANCH_ANY_TABLE) ? XA_NOTA : NOT_ROLLED_BACK, p->marks,
        id_of(&part->name.id, id), part->name.branch, xid, one_phase ? "COMMIT" : "PREPARE", xid,
        one_phase ? " ONE PHASE" : "");
}

static bool vote(struct rt_party *p)
{
    struct rt_part *part = p->op->part;

    if (part->by != p)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the branch has not begun on this connection");
    if (rt_my.mysql_errno(p->conn) != 0) {
        part->failed = true;
        rt_party_trouble(p, ROTA_INVALID, "its last statement failed");
    } else if (part->failed) {
        rt_party_trouble(p, ROTA_INVALID, "one of its statements failed");
    }
    if (part->failed)
        return say_end(p, REFUSED_ENDED);
    if (part->watched && p->op->what == RT_PARTY_PREPARE &&
        (part->last == NULL || RT_BUG(RT_BUG_BRANCH_LAST_READS)))
        return RT_PARTY_SAY(p, COUNTED, COUNTERS);
    return say_vote(p);
}

static bool counted(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed || strtoull(said->cell[0], NULL, 10) != p->op->part->writes)
        return say_vote(p);
    return say_end(p, READONLY_ENDED);
}

static bool readonly_rolled(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    p->op->part->by = NULL;
    if (said->failed)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    return rt_party_end(p, RT_REPLY_READONLY, 0, NULL);
}

/* The statement that the application left to the vote was said alone. */
static bool last_said(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed && !RT_BUG(RT_BUG_BRANCH_LAST_FAILED)) {
        rt_party_trouble(p, error_of(said), said->text);
        return say_end(p, REFUSED_ENDED);
    }
    p->op->part->changed = rt_talk_from_end(p->talk, 0).affected;
    return say_vote(p);
}

#define OURS 5 /* results of a vote of several statements; after the second one */
#define BACK 3 /* ... this many follow */

/* Why a vote of several statements, with or without the application's before it, is a no although it succeeded. */
static const char *several_no(struct rt_party *p)
{
    const struct rt_talk *t = p->talk;

    if (rt_talk_from_end(t, BACK).warnings > 0 && !RT_BUG(RT_BUG_BRANCH_ANY_TABLE))
        return NO_INNODB;
    if (p->hit && t->said.results < OURS)
        return "its last statement has no end";
    if (p->hit)
        p->op->part->changed = rt_talk_from_end(t, OURS).affected;
    return NULL;
}

static bool voted(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool one_phase = p->op->what == RT_PARTY_ONE_PHASE, compound = one_phase || !p->several;
    bool odd = said->failed && said->code == NO_SYNTAX;

    if (odd && !compound) { /* the connection no longer takes several */
        p->several = false;
        if (!p->hit)
            return say_vote(p);
    }
    const char *no = odd && compound ? OTHER_GRAMMAR
                     : said->failed  ? said->text
                     : !compound     ? several_no(p)
                                     : NULL;
    if (no != NULL) {
        rt_party_trouble(p, said->failed ? error_of(said) : ROTA_INVALID, no);
        return say_end(
            p, REFUSED_ENDED); /* it may already have ended, so the answer does not matter */
    }
    if (one_phase)
        p->op->part->by = NULL;
    return rt_party_end(p, one_phase ? RT_REPLY_DONE : RT_REPLY_YES, 0, NULL);
}

/* It said no, and is rolled back; or nobody knows. */
static bool refused_rolled(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool gone = said->failed && said->code == XA_NOTA && p->op->what != RT_PARTY_ONE_PHASE;

    if (said->failed && !gone && !is_rolled_back(said->code))
        return rt_party_lose(p, said->text);
    p->op->part->by = NULL;
    p->op->part->prepared = false;
    return rt_party_end(p, RT_REPLY_NO, p->trouble, NULL);
}

/* ---- COMMIT, ROLLBACK ------------------------------------------------------------- */

static bool say_own(struct rt_party *p)
{
    char xid[RT_XID_TEXT];

    if ((p->op->flags & RT_PARTY_LENT) != 0)
        return RT_PARTY_FORCE(p, OWN_DONE, "XA %s %s",
                              p->op->what == RT_PARTY_COMMIT ? "COMMIT" : "ROLLBACK",
                              rt_xid_text(p->op->part, xid));
    return RT_PARTY_FORCE(
        p, OWN_DONE,
        "BEGIN NOT ATOMIC IF @@in_transaction = %d THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = "
        "'reset'; END IF; XA %s %s; END",
        RT_BUG(RT_BUG_BRANCH_RESET_NOT_SEEN) ? 2 : 0,
        p->op->what == RT_PARTY_COMMIT ? "COMMIT" : "ROLLBACK", rt_xid_text(p->op->part, xid));
}

static bool order(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;

    if (!p->keeper && part->by == p && !part->prepared)
        return p->op->what == RT_PARTY_ROLLBACK
                   ? say_end(p, OWN_ENDED)
                   : rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, "it is not prepared");
    if (!p->keeper && part->by == p)
        return say_own(p);
    return rt_gate_mysql_first(p);
}

static bool own_done(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    struct rt_part *part = p->op->part;
    bool rolled = !part->prepared && (said->code == XA_NOTA || is_rolled_back(said->code));

    part->by = NULL;
    if (!said->failed || rolled)
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    return rt_party_end(
        p, RT_REPLY_LOST, ROTA_LOST,
        said->code == SIGNALLED
            ? "the connection was reset while a branch was prepared on it: close it, so that the branch can be finished"
            : "%s",
        said->text);
}

/* ---- Steps ----------------------------------------------------------------------------- */

static bool first(struct rt_party *p)
{
    struct rt_part *part = p->op->part;
    char xid[RT_XID_TEXT];

    if (p->op->what != RT_PARTY_ATTACH && rt_my.mysql_thread_id(p->conn) != p->handle)
        return rt_party_lose(
            p,
            "the client library has reconnected: what was on the old connection is not on this one");
    switch (p->op->what) {
    case RT_PARTY_ATTACH:
        return say_who(p);
    case RT_PARTY_BEGIN:
        part->connection = p->number;
        return RT_PARTY_SAY(p, BEGUN, "XA START %s", rt_xid_text(part, xid));
    case RT_PARTY_PREPARE:
    case RT_PARTY_ONE_PHASE:
        return vote(p);
    case RT_PARTY_COMMIT:
    case RT_PARTY_ROLLBACK:
        return order(p);
    default:
        return rt_gate_mysql_first(p);
    }
}

static bool readonly_ended(struct rt_party *p)
{
    return say_rollback(p, READONLY_ROLLED);
}

static bool refused_ended(struct rt_party *p)
{
    return say_rollback(p, REFUSED_ROLLED);
}

static bool own_ended(struct rt_party *p)
{
    return say_rollback(p, OWN_DONE);
}

static bool step(struct rt_party *p)
{
    static bool (*const steps[])(struct rt_party *) = {
        [FIRST] = first,
        [ATTACH_WHO] = attach_who,
        [ATTACH_MODE] = attach_mode,
        [ATTACH_TABLE] = attach_table,
        [ATTACH_MADE] = attach_table,
        [ATTACH_SET] = attach_set,
        [BEGUN] = begun,
        [BEGUN_COUNTED] = begun_counted,
        [COUNTED] = counted,
        [LAST_SAID] = last_said,
        [READONLY_ENDED] = readonly_ended,
        [READONLY_ROLLED] = readonly_rolled,
        [VOTED] = voted,
        [REFUSED_ENDED] = refused_ended,
        [REFUSED_ROLLED] = refused_rolled,
        [OWN_ENDED] = own_ended,
        [OWN_DONE] = own_done,
    };

    if (p->step >= RT_GATE_MYSQL)
        return rt_gate_mysql_step(p);
    assert(p->step >= 0 && (size_t)p->step < sizeof(steps) / sizeof(steps[0]));
    return steps[p->step](p);
}

const struct rt_party_kind rt_xa_mysql = {
    .name = "xa-mysql",
    .title = "MariaDB",
    .gated = true,
    .ddl = DDL,
    .hex = {"x'", "'"},
    .identity_read = {SAFELY "SELECT GROUP_CONCAT(kind ORDER BY branch) FROM ", "; COMMIT; END"},
    .identity_make = {SAFELY "INSERT IGNORE INTO ", "; COMMIT; END"},
    .talk = &rt_talk_mysql,
    .step = step,
};
