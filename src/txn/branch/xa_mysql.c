/* SPDX-License-Identifier: Apache-2.0 */
/* The participant MariaDB, by XA.
 *
 * Its xid is 'NAME','CONNECTION',1383036001: NAME as core/name.h writes it, CONNECTION the number of the connection
 * that began it, by which a takeover sees whether that one is gone. What would be three round trips is one compound
 * statement, or one packet on a connection that takes several statements in one:
 *
 *   PREPARE    savepoint and back (a warning tells that a table without transactions was changed), marker, XA END, XA
 *              PREPARE; ONE_PHASE: the same, XA COMMIT ... ONE PHASE
 *   COMMIT     is the connection in a transaction still? After mysql_reset_connection XA COMMIT says OK, even there,
 *              and commits nothing
 *   takeover   XA RECOVER, XA COMMIT, the marker is read
 *   GATE       XA RECOVER, then information_schema.innodb_trx: no transaction may have the number of that connection.
 *              What InnoDB shows may be long out of date (it looks anew only when nobody has for 100 ms): it counts if
 *              this very question is in it
 *
 * XAER_NOTA says "finished" or "another connection has it": XA RECOVER tells them apart, the marker tells how it
 * finished. */
#include "base/bug.h"
#include "txn/branch/libmysql.h"
#include "txn/branch/mysql_errors.h"
#include "txn/branch/party.h"
#include "txn/branch/xid.h"

#include <rota.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PAGE 1000 /* markers that are taken away at once */

#define DDL                                                                                      \
    "CREATE TABLE IF NOT EXISTS %s (id BINARY(16) NOT NULL, branch INT UNSIGNED NOT NULL, kind " \
    "TINYINT NOT NULL, PRIMARY KEY (id, branch)) ENGINE = InnoDB"
/* kind: 1 a marker, 0 a fence */

/* With autocommit off, too: nothing stays open behind it. */
#define SAFELY                                                                                     \
    "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END; START " \
    "TRANSACTION; "

enum { /* party->step */
       FIRST,
       ATTACH_WHO,
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
       TAKEN_LISTED,
       TAKEN_DONE,
       TAKEN_UNKNOWN,
       TAKEN_MARK,
       ASK_LISTED,
       ASK_FENCED,
       ASK_MARK,
       GATE_LISTED,
       GATE_BEGUN,
       GATE_SHOWN,
       GATE_OVER,
       LISTED,
       FORGOTTEN,
};

static const char *id_of(const struct rt_txn_id *id, char out[RT_TXN_ID_TEXT])
{
    rt_txn_id_text(id, out);
    return out;
}

/* ---- XA RECOVER --------------------------------------------------------------- */

/* Of each branch that the op is about: seen, and by which connection. */
static void match(void *arg, int cells, char *const *values)
{
    struct rt_party *p = arg;
    struct rt_party_op *op = p->op;
    struct rt_name name;
    uint64_t connection;

    if (cells < 4 || values[3] == NULL || !rt_xid_read(values[3], &name, &connection))
        return;
    for (size_t i = 0; i < (op->count > 0 ? op->count : 1); i++) {
        struct rt_part *part = &op->part[i];
        if (part->name.branch != name.branch || !rt_txn_id_same(&part->name.id, &name.id))
            continue;
        part->clear = part->clear && part->connection == connection;
        part->connection = connection;
        part->name = name; /* with its deadline */
        part->seen = 1;
        p->hit = true;
    }
}

static bool say_recover(struct rt_party *p, int next)
{
    p->hit = false;
    for (size_t i = 0; i < (p->op->count > 0 ? p->op->count : 1); i++)
        p->op->part[i].seen = 0;
    p->talk->row = match;
    p->talk->row_arg = p;
    return RT_PARTY_SAY(p, next, "XA RECOVER FORMAT = 'SQL'");
}

static bool say_mark(struct rt_party *p, int next)
{
    const struct rt_part *part = p->op->part;
    char id[RT_TXN_ID_TEXT];

    return RT_PARTY_SAY(p, next, "SELECT kind FROM %s WHERE id = x'%s' AND branch = %u", p->marks,
                        id_of(&part->name.id, id), part->name.branch);
}

static bool is_marked(const struct rt_said *said)
{
    return !said->failed && said->rows == 1 && strcmp(said->cell[0], "1") == 0;
}

/* A keeper's question failed. */
static bool refuse(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->code == NO_PRIVILEGE)
        return rt_party_end(p, RT_REPLY_REFUSED, ROTA_AUTH, "%s: GRANT PROCESS ON *.* TO that user",
                            said->text);
    return rt_party_end(p, RT_REPLY_REFUSED, error_of(said), "%s", said->text);
}

/* ---- ATTACH -------------------------------------------------------------------- */

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
            "two-phase commit is known here of MariaDB, and this server is another");
    if (strcmp(said->cell[3], "1") == 0)
        return rt_party_end(
            p, RT_REPLY_NO, ROTA_UNSUPPORTED,
            "a Galera cluster does not keep prepared transactions: use a single MariaDB");
    if (strcmp(said->cell[1], "1") == 0)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the connection is in a transaction: COMMIT or ROLLBACK comes first");
    p->number = strtoull(said->cell[0], NULL, 10);
    p->handle = rt_my.mysql_thread_id(p->conn);
    p->several = rt_my.mariadb_get_info(p->conn, RT_MARIADB_CLIENT_CAPABILITIES, &can) == 0 &&
                 (can & RT_MYSQL_MULTI_STATEMENTS) != 0;
    if ((p->op->flags & RT_PARTY_UNMARKED) != 0)
        return attach_more(p);
    if (p->marks[0] == '\0' && said->null[4])
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "no database is chosen: markers of branches need one");
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
    return RT_PARTY_SAY(p, ATTACH_TABLE, "SHOW CREATE TABLE %s", p->marks);
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
            "%s is no InnoDB table: a marker would stay whatever becomes of its branch", p->marks);
    return attach_more(p);
}

static bool attach_set(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
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

#define NO_INNODB "a table that cannot be rolled back (no InnoDB) was changed"

static bool say_vote(struct rt_party *p)
{
    struct rt_part *part = p->op->part;
    bool one_phase = p->op->what == RT_PARTY_ONE_PHASE;
    char xid[RT_XID_TEXT], id[RT_TXN_ID_TEXT];

    if (part->last != NULL && (one_phase || !p->several) && p->step != LAST_SAID)
        return RT_PARTY_SAY(p, LAST_SAID, "%s", part->last);
    part->prepared = true;
    rt_xid_text(part, xid);
    p->hit = part->last != NULL && p->step != LAST_SAID; /* it is in the packet */
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
        "'" NO_INNODB "'; SAVEPOINT rota_mark; ROLLBACK TO "
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
        rt_party_trouble(p, ROTA_INVALID, "a statement of it failed");
    }
    if (part->failed)
        return say_end(p, REFUSED_ENDED);
    if (part->watched && p->op->what == RT_PARTY_PREPARE && part->last == NULL)
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

/* What the application left to the vote was said alone. */
static bool last_said(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed) {
        rt_party_trouble(p, error_of(said), said->text);
        return say_end(p, REFUSED_ENDED);
    }
    p->op->part->changed = rt_talk_from_end(p->talk, 0).affected;
    return say_vote(p);
}

#define OURS 5 /* results of a vote of several statements; of the second one: */
#define BACK 3 /* ... so many follow it */

/* Why a vote of several statements, with the application's before it or not, that went well is a no all the same. */
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
    bool one_phase = p->op->what == RT_PARTY_ONE_PHASE;

    if (said->failed && p->several && said->code == NO_SYNTAX) { /* it does not any more */
        p->several = false;
        if (!p->hit)
            return say_vote(p);
    }
    const char *no = said->failed ? said->text : p->several && !one_phase ? several_no(p) : NULL;
    if (no != NULL) {
        rt_party_trouble(p, said->failed ? error_of(said) : ROTA_INVALID, no);
        return say_end(
            p, REFUSED_ENDED); /* it may have ended already: what is answered does not matter */
    }
    if (one_phase)
        p->op->part->by = NULL;
    return rt_party_end(p, one_phase ? RT_REPLY_DONE : RT_REPLY_YES, 0, NULL);
}

/* It said no, and is rolled back; or who knows. */
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
    struct rt_part *part = p->op->part;
    char xid[RT_XID_TEXT];

    if (!p->keeper && part->by == p && !part->prepared)
        return p->op->what == RT_PARTY_ROLLBACK
                   ? say_end(p, OWN_ENDED)
                   : rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, "it is not prepared");
    if (!p->keeper && part->by == p)
        return say_own(p);
    if ((p->op->flags & RT_PARTY_UNGATED) != 0 &&
        part->connection != 0) /* for tests: as others do */
        return RT_PARTY_SAY(p, TAKEN_DONE, "XA %s %s",
                            p->op->what == RT_PARTY_COMMIT ? "COMMIT" : "ROLLBACK",
                            rt_xid_text(part, xid));
    if (!part->clear && (p->op->flags & RT_PARTY_UNGATED) == 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY,
                            "whether the connection that prepared it is gone was not asked (GATE)");
    return say_recover(p, TAKEN_LISTED);
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
            ? "the connection was reset while a branch was prepared on it: close it, then the branch is finished"
            : "%s",
        said->text);
}

static bool taken_listed(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char xid[RT_XID_TEXT];

    if (p->talk->said.failed)
        return refuse(p);
    if (!p->hit)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    if (!part->clear && (p->op->flags & RT_PARTY_UNGATED) == 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY,
                            "another connection has prepared it since");
    return RT_PARTY_FORCE(p, TAKEN_DONE, "XA %s %s",
                          p->op->what == RT_PARTY_COMMIT ? "COMMIT" : "ROLLBACK",
                          rt_xid_text(part, xid));
}

static bool taken_done(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed && said->code == XA_NOTA && RT_BUG(RT_BUG_BRANCH_NOTA_IS_DONE))
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    if (said->failed && said->code == XA_NOTA)
        return say_recover(p, TAKEN_UNKNOWN);
    if (said->failed && !is_rolled_back(said->code))
        return refuse(p);
    if (p->op->what == RT_PARTY_ROLLBACK)
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    if ((p->op->flags & RT_PARTY_UNGATED) != 0 &&
        !said->failed) /* for tests: believed, as others do */
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    return say_mark(p, TAKEN_MARK);
}

static bool taken_unknown(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
    if (p->hit) {
        p->op->part->clear = false;
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY, "another connection has it");
    }
    if (p->op->what == RT_PARTY_ROLLBACK)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    return say_mark(p, TAKEN_MARK);
}

static bool taken_mark(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
    if (is_marked(&p->talk->said))
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    return rt_party_end(
        p, RT_REPLY_ABSENT, ROTA_LOST,
        "MariaDB has neither the branch nor its marker: if it has lost it, it is there again after a restart of the server");
}

/* ---- ASK, GATE, LIST, FORGET --------------------------------------------------------- */

static bool ask_listed(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char id[RT_TXN_ID_TEXT];

    if (p->talk->said.failed)
        return refuse(p);
    if (p->hit)
        return rt_party_end(p, RT_REPLY_PREPARED, 0, NULL);
    if ((p->op->flags & RT_PARTY_FENCE) == 0 || RT_BUG(RT_BUG_BRANCH_NO_FENCE))
        return say_mark(p, ASK_MARK);
    return RT_PARTY_FORCE(
        p, ASK_FENCED,
        "SET STATEMENT innodb_lock_wait_timeout = 1 FOR INSERT IGNORE INTO %s VALUES (x'%s', %u, 0)",
        p->marks, id_of(&part->name.id, id), part->name.branch);
}

static bool ask_fenced(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed && (said->code == LOCK_WAIT || said->code == DEADLOCK))
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY, "it is at work");
    if (said->failed)
        return refuse(p);
    if (said->affected == 1)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    return say_mark(p, ASK_MARK);
}

static bool ask_mark(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        return refuse(p);
    if (said->rows == 0 && (p->op->flags & RT_PARTY_FENCE) != 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY, "its marker went while it was looked at");
    return rt_party_end(p, is_marked(said) ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT, 0, NULL);
}

static bool gate_listed(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
    if (!p->hit)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    return RT_PARTY_SAY(p, GATE_BEGUN, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
}

/* A transaction of InnoDB: whose connection's, and whether it is this question. */
static void shown(void *arg, int cells, char *const *values)
{
    struct rt_party *p = arg;

    if (cells < 2 || values[0] == NULL)
        return;
    uint64_t connection = strtoull(values[0], NULL, 10);
    if (connection == p->number && values[1] != NULL && strcmp(values[1], "1") == 0)
        p->hit = true;
    for (size_t i = 0; i < (p->op->count > 0 ? p->op->count : 1); i++)
        if (p->op->part[i].seen == 1 && p->op->part[i].connection == connection)
            p->op->part[i].seen = 2;
}

static bool gate_begun(struct rt_party *p)
{
    unsigned long long nonce = 0;

    if (p->talk->said.failed)
        return refuse(p);
    if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
        nonce = ++p->nonce;
    p->hit = false;
    p->talk->row = shown;
    p->talk->row_arg = p;
    return RT_PARTY_FORCE(
        p, GATE_SHOWN,
        "SELECT trx_mysql_thread_id, trx_query LIKE '%%rota %016llx%%' FROM information_schema.innodb_trx",
        nonce);
}

static bool gate_shown(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        rt_party_trouble(p, error_of(said), said->text);
    return RT_PARTY_SAY(p, GATE_OVER, "ROLLBACK");
}

static bool gate_over(struct rt_party *p)
{
    size_t held = 0;

    if (p->trouble != 0)
        return rt_party_end(p, RT_REPLY_REFUSED, p->trouble,
                            "the user may not see other transactions: GRANT PROCESS ON *.* TO it");
    if (!p->hit && !RT_BUG(RT_BUG_BRANCH_OLD_VIEW))
        return rt_party_end(
            p, RT_REPLY_HELD, ROTA_BUSY,
            "what InnoDB shows of its transactions is out of date: others read it all the time");
    for (size_t i = 0; i < (p->op->count > 0 ? p->op->count : 1); i++) {
        struct rt_part *part = &p->op->part[i];
        part->clear = part->seen == 1; /* prepared, then without its connection */
        held += part->seen == 2;
    }
    if (held > 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY,
                            "the connection that prepared it is still there");
    return rt_party_end(p, RT_REPLY_CLEAR, 0, NULL);
}

static void tell(void *arg, int cells, char *const *values)
{
    struct rt_party *p = arg;
    struct rt_party_seen seen = {.text = ""};
    char finish[400];

    if (cells < 4 || values[3] == NULL)
        return;
    seen.text = values[3];
    snprintf(finish, sizeof(finish), "XA ROLLBACK %s", values[3]);
    seen.finish = finish;
    seen.ours = rt_xid_read(values[3], &seen.name, &seen.connection) &&
                rt_txn_id_journal(&seen.name.id) == p->op->list.journal;
    p->op->list.each(p->op->list.arg, &seen);
}

static bool say_list(struct rt_party *p)
{
    p->talk->row = tell;
    p->talk->row_arg = p;
    return RT_PARTY_SAY(p, LISTED, "XA RECOVER FORMAT = 'SQL'");
}

static bool say_forget(struct rt_party *p)
{
    const struct rt_txn_id from = rt_txn_id_make(p->op->forget.journal, 0, 0);
    const struct rt_txn_id to = rt_txn_id_make(p->op->forget.journal, p->op->forget.before_ms, 0);
    char a[RT_TXN_ID_TEXT], b[RT_TXN_ID_TEXT];
    struct rt_talk *t = p->talk;

    p->step = FORGOTTEN;
    p->forces = true;
    bool ok = rt_talk_add(t, "DELETE FROM %s WHERE id >= x'%s' AND id < x'%s'", p->marks,
                          id_of(&from, a), id_of(&to, b));
    for (size_t i = 0; ok && i < p->op->forget.keep_count; i++)
        ok = rt_talk_add(t, "%sx'%s'", i == 0 ? " AND id NOT IN (" : ", ",
                         id_of(&p->op->forget.keep[i], a));
    ok = ok && rt_talk_add(t, "%s LIMIT %d", p->op->forget.keep_count > 0 ? ")" : "", PAGE);
    t->size = ok ? t->size : 0;
    return false;
}

static bool over(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
    if (p->step == FORGOTTEN) {
        p->op->forget.count = p->talk->said.affected;
        p->op->forget.more = p->talk->said.affected == PAGE;
    }
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* ---- Steps ----------------------------------------------------------------------------- */

static bool first(struct rt_party *p)
{
    struct rt_part *part = p->op->part;
    char xid[RT_XID_TEXT];

    if (p->op->what != RT_PARTY_ATTACH && rt_my.mysql_thread_id(p->conn) != p->handle)
        return rt_party_lose(
            p,
            "the client library has connected anew: what was on the old connection is not on this one");
    switch (p->op->what) {
    case RT_PARTY_ATTACH:
        return RT_PARTY_SAY(
            p, ATTACH_WHO,
            "SELECT CONNECTION_ID(), @@in_transaction, VERSION(), @@wsrep_on, DATABASE()");
    case RT_PARTY_BEGIN:
        part->connection = p->number;
        return RT_PARTY_SAY(p, BEGUN, "XA START %s", rt_xid_text(part, xid));
    case RT_PARTY_PREPARE:
    case RT_PARTY_ONE_PHASE:
        return vote(p);
    case RT_PARTY_COMMIT:
    case RT_PARTY_ROLLBACK:
        return order(p);
    case RT_PARTY_ASK:
        return say_recover(p, ASK_LISTED);
    case RT_PARTY_GATE:
        return say_recover(p, GATE_LISTED);
    case RT_PARTY_LIST:
        return say_list(p);
    case RT_PARTY_FORGET:
        return say_forget(p);
    default:
        return rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, "no such operation");
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
        [TAKEN_LISTED] = taken_listed,
        [TAKEN_DONE] = taken_done,
        [TAKEN_UNKNOWN] = taken_unknown,
        [TAKEN_MARK] = taken_mark,
        [ASK_LISTED] = ask_listed,
        [ASK_FENCED] = ask_fenced,
        [ASK_MARK] = ask_mark,
        [GATE_LISTED] = gate_listed,
        [GATE_BEGUN] = gate_begun,
        [GATE_SHOWN] = gate_shown,
        [GATE_OVER] = gate_over,
        [LISTED] = over,
        [FORGOTTEN] = over,
    };

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
