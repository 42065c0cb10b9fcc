/* SPDX-License-Identifier: Apache-2.0 */
/* The participant MariaDB, for a keeper's connection: taking over what another has prepared, and answering questions.
 *
 *   takeover   XA RECOVER, XA COMMIT, the marker is read
 *   GATE       XA RECOVER, then information_schema.innodb_trx: no transaction may have that connection's number.
 *              InnoDB's view may be long out of date (it looks anew only if nobody has for 100 ms): it counts only if
 *              this very question is in it
 *
 * XAER_NOTA means "finished" or "another connection has it": XA RECOVER tells them apart, and the marker tells how it
 * finished. */
#include "txn/branch/gate_mysql.h"

#include "base/bug.h"
#include "txn/branch/mysql_errors.h"
#include "txn/branch/xid.h"

#include <rota.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PAGE 1000 /* markers deleted at once */

enum { /* party->step */
       TAKEN_LISTED = RT_GATE_MYSQL,
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
       STEPS_END,
};

static const char *id_of(const struct rt_txn_id *id, char out[RT_TXN_ID_TEXT])
{
    rt_txn_id_text(id, out);
    return out;
}

/* ---- XA RECOVER --------------------------------------------------------------- */

/* For each branch that the op is about: notes that it was seen, and by which connection. */
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

bool rt_gate_mysql_refuse(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->code == NO_PRIVILEGE)
        return rt_party_end(p, RT_REPLY_REFUSED, ROTA_AUTH, "%s: GRANT PROCESS ON *.* TO that user",
                            said->text);
    return rt_party_end(p, RT_REPLY_REFUSED, error_of(said), "%s", said->text);
}

/* ---- COMMIT, ROLLBACK: the takeover -------------------------------------------------- */

static bool take_over(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char xid[RT_XID_TEXT];

    if ((p->op->flags & RT_PARTY_UNGATED) != 0 &&
        part->connection != 0) /* for tests: as others do it */
        return RT_PARTY_SAY(p, TAKEN_DONE, "XA %s %s",
                            p->op->what == RT_PARTY_COMMIT ? "COMMIT" : "ROLLBACK",
                            rt_xid_text(part, xid));
    if (!part->clear && (p->op->flags & RT_PARTY_UNGATED) == 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY,
                            "not checked whether the connection that prepared it is gone (GATE)");
    return say_recover(p, TAKEN_LISTED);
}

static bool taken_listed(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char xid[RT_XID_TEXT];

    if (p->talk->said.failed)
        return rt_gate_mysql_refuse(p);
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
        return rt_gate_mysql_refuse(p);
    if (p->op->what == RT_PARTY_ROLLBACK)
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    if ((p->op->flags & RT_PARTY_UNGATED) != 0 &&
        !said->failed) /* for tests: believed, as others do it */
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    return say_mark(p, TAKEN_MARK);
}

static bool taken_unknown(struct rt_party *p)
{
    if (p->talk->said.failed)
        return rt_gate_mysql_refuse(p);
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
        return rt_gate_mysql_refuse(p);
    if (is_marked(&p->talk->said))
        return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
    return rt_party_end(
        p, RT_REPLY_ABSENT, ROTA_LOST,
        "MariaDB has neither the branch nor its marker: if it has lost it, it is back after a restart of the server");
}

/* ---- ASK, GATE, LIST, FORGET --------------------------------------------------------- */

static bool ask_listed(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char id[RT_TXN_ID_TEXT];

    if (p->talk->said.failed)
        return rt_gate_mysql_refuse(p);
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
        return rt_gate_mysql_refuse(p);
    if (said->affected == 1)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    return say_mark(p, ASK_MARK);
}

static bool ask_mark(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        return rt_gate_mysql_refuse(p);
    if (said->rows == 0 && (p->op->flags & RT_PARTY_FENCE) != 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY,
                            "its marker disappeared while it was looked at");
    return rt_party_end(p, is_marked(said) ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT, 0, NULL);
}

static bool gate_listed(struct rt_party *p)
{
    if (p->talk->said.failed)
        return rt_gate_mysql_refuse(p);
    if (!p->hit)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    return RT_PARTY_SAY(p, GATE_BEGUN, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
}

/* One of InnoDB's transactions: whose connection it is on, and whether it is this very question. */
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
        return rt_gate_mysql_refuse(p);
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
            "what InnoDB shows of its transactions is out of date: others keep reading it");
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

/* Which markers of a table go; without quotes, for it is also said inside a text. */
static bool add_gone(struct rt_party *p)
{
    const struct rt_txn_id from = rt_txn_id_make(p->op->forget.journal, 0, 0);
    const struct rt_txn_id to = rt_txn_id_make(p->op->forget.journal, p->op->forget.before_ms, 0);
    char a[RT_TXN_ID_TEXT], b[RT_TXN_ID_TEXT];
    struct rt_talk *t = p->talk;

    bool ok = rt_talk_add(t, " WHERE id >= 0x%s AND id < 0x%s", id_of(&from, a), id_of(&to, b));
    for (size_t i = 0; ok && i < p->op->forget.keep_count; i++)
        ok = rt_talk_add(t, "%s0x%s", i == 0 ? " AND id NOT IN (" : ", ",
                         id_of(&p->op->forget.keep[i], a));
    return ok && rt_talk_add(t, "%s LIMIT %d", p->op->forget.keep_count > 0 ? ")" : "", PAGE);
}

/* In the database that the URL leads to, and in all others of the server: a branch writes its marker where its own
 * connection is, and the URL may lead to another database, or to none. What this user may not touch is left. */
static bool say_forget(struct rt_party *p)
{
    struct rt_talk *t = p->talk;

    p->step = FORGOTTEN;
    p->forces = true;
    bool ok = rt_talk_add(t, "BEGIN NOT ATOMIC DECLARE n INT DEFAULT 0; ");
    if (ok && p->marks[0] != '\0')
        ok = rt_talk_add(t, "DELETE FROM %s", p->marks) && add_gone(p) &&
             rt_talk_add(t, "; SET n = ROW_COUNT(); ");
    ok =
        ok &&
        rt_talk_add(
            t,
            "FOR t IN (SELECT TABLE_SCHEMA AS s FROM information_schema.TABLES WHERE TABLE_NAME = 'rota_mark') "
            "DO BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END; EXECUTE IMMEDIATE CONCAT('DELETE FROM `', "
            "REPLACE(t.s, '`', '``'), '`.rota_mark") &&
        add_gone(p) && rt_talk_add(t, "'); SET n = n + ROW_COUNT(); END; END FOR; SELECT n; END");
    t->size = ok ? t->size : 0;
    return false;
}

static bool over(struct rt_party *p)
{
    if (p->talk->said.failed)
        return rt_gate_mysql_refuse(p);
    if (p->step == FORGOTTEN) {
        p->op->forget.count = strtoull(p->talk->said.cell[0], NULL, 10);
        p->op->forget.more = p->op->forget.count >= PAGE;
    }
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* ---- Steps ----------------------------------------------------------------------------- */

bool rt_gate_mysql_first(struct rt_party *p)
{
    switch (p->op->what) {
    case RT_PARTY_COMMIT:
    case RT_PARTY_ROLLBACK:
        return take_over(p);
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

bool rt_gate_mysql_step(struct rt_party *p)
{
    static bool (*const steps[])(struct rt_party *) = {
        [TAKEN_LISTED - RT_GATE_MYSQL] = taken_listed,
        [TAKEN_DONE - RT_GATE_MYSQL] = taken_done,
        [TAKEN_UNKNOWN - RT_GATE_MYSQL] = taken_unknown,
        [TAKEN_MARK - RT_GATE_MYSQL] = taken_mark,
        [ASK_LISTED - RT_GATE_MYSQL] = ask_listed,
        [ASK_FENCED - RT_GATE_MYSQL] = ask_fenced,
        [ASK_MARK - RT_GATE_MYSQL] = ask_mark,
        [GATE_LISTED - RT_GATE_MYSQL] = gate_listed,
        [GATE_BEGUN - RT_GATE_MYSQL] = gate_begun,
        [GATE_SHOWN - RT_GATE_MYSQL] = gate_shown,
        [GATE_OVER - RT_GATE_MYSQL] = gate_over,
        [LISTED - RT_GATE_MYSQL] = over,
        [FORGOTTEN - RT_GATE_MYSQL] = over,
    };

    assert(p->step >= RT_GATE_MYSQL && p->step < STEPS_END);
    return steps[p->step - RT_GATE_MYSQL](p);
}
