/* SPDX-License-Identifier: Apache-2.0 */
/* The participant PostgreSQL, by PREPARE TRANSACTION.
 *
 * Its gid is rota1-NAME, NAME as core/name.h writes it. Any connection of the same database and user may finish a
 * prepared transaction, whether or not the one that prepared it lives: no gate.
 *
 *   PREPARE     has it written anything (a transaction number)? no: COMMIT, read-only. yes: marker and PREPARE
 *               TRANSACTION in one packet
 *   ONE_PHASE   marker and COMMIT in one packet
 *   ASK         pg_prepared_xacts, then the marker, in two statements: in one, the marker would be looked up in an
 *               earlier snapshot. (A commit shows its rows before it leaves the list)
 *
 * What is prepared belongs to the role of that moment, and only its owner or a superuser may finish it. So if the role is
 * another than at BEGIN (SET LOCAL ROLE), which the connection will have again, the marker's kind is NULL: the INSERT
 * fails, and nothing is prepared. SHOW takes no snapshot: the application may still choose the isolation.
 *
 * A failed transaction answers ROLLBACK to PREPARE TRANSACTION and to COMMIT, and that is not an error: only the tag
 * counts. */
#include "base/bug.h"
#include "engine/postgres/libpq.h"
#include "txn/branch/party.h"

#include <rota.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GID_TEXT (6 + RT_NAME_TEXT)
#define PAGE 1000 /* markers deleted at once */

#define DDL                                                                                    \
    "CREATE TABLE IF NOT EXISTS %s (id bytea NOT NULL, branch bigint NOT NULL, kind smallint " \
    "NOT NULL, PRIMARY KEY (id, branch))"

enum { /* party->step */
       FIRST,
       ATTACH_WHO,
       ATTACH_MADE,
       ATTACH_FOUND,
       ATTACH_SET,
       BEGUN,
       NUMBERED,
       READONLY_DONE,
       READONLY_ROLLED,
       LAST_SAID,
       VOTED,
       REFUSED_ROLLED,
       ENDED_ROLLED,
       OWN_ROLLED,
       FINISHED,
       ASK_LISTED,
       ASK_FENCED,
       ASK_UNFENCED,
       ASK_MARK,
       LISTED,
       FORGOTTEN,
};

static bool is_state(const struct rt_said *said, const char *state)
{
    return said->failed && strncmp(said->state, state, strlen(state)) == 0;
}

static int error_of(const struct rt_said *said)
{
    return is_state(said, "42501")   ? ROTA_AUTH
           : is_state(said, "40")    ? ROTA_BUSY
           : is_state(said, "55P03") ? ROTA_BUSY
           : is_state(said, "53")    ? ROTA_UNREACHABLE /* no slot, no space */
                                     : ROTA_INVALID;
}

static const char *gid_of(const struct rt_part *part, char out[GID_TEXT])
{
    char name[RT_NAME_TEXT];

    rt_name_text(&part->name, name);
    snprintf(out, GID_TEXT, "rota1-%s", name);
    return out;
}

static const char *id_of(const struct rt_txn_id *id, char out[RT_TXN_ID_TEXT])
{
    rt_txn_id_text(id, out);
    return out;
}

/* A keeper's question failed. */
static bool refuse(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    return rt_party_end(p, RT_REPLY_REFUSED, error_of(said), "%s", said->text);
}

/* ---- ATTACH --------------------------------------------------------------------- */

#define TABLE_NAME(p) ((p)->marks[0] != '\0' ? (p)->marks : "rota_mark")

static bool say_table(struct rt_party *p)
{
    return RT_PARTY_SAY(
        p, ATTACH_FOUND,
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relpersistence FROM "
        "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($rota$%s$rota$)",
        TABLE_NAME(p));
}

static bool attach_more(struct rt_party *p)
{
    if (p->keeper)
        return RT_PARTY_SAY(
            p, ATTACH_SET,
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE");
    p->attached = true;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

static bool attach_who(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    if (strcmp(said->cell[1], "t") == 0)
        return rt_party_end(p, RT_REPLY_NO, ROTA_UNSUPPORTED,
                            "this server is a standby: only its primary prepares transactions");
    if (strcmp(said->cell[0], "0") == 0)
        return rt_party_end(
            p, RT_REPLY_NO, ROTA_UNSUPPORTED,
            "max_prepared_transactions is 0: set it to max_connections or more, and restart the server");
    if ((p->op->flags & RT_PARTY_UNMARKED) != 0)
        return attach_more(p);
    if (strcmp(said->cell[2], "t") == 0 && (p->op->flags & RT_PARTY_KNOWN) != 0)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID, "there is no table %s", p->marks);
    if (strcmp(said->cell[2], "t") == 0)
        return RT_PARTY_SAY(p, ATTACH_MADE, DDL, TABLE_NAME(p));
    return say_table(p);
}

static bool attach_made(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (is_state(said, "42501"))
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "the table of markers is missing: " DDL,
                            TABLE_NAME(p));
    /* If several make it at once, all but one are told that it is there, or its row type, or a key of the catalogue. */
    if (said->failed && !is_state(said, "42P07") && !is_state(said, "42710") &&
        !is_state(said, "23505"))
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    return say_table(p);
}

static bool attach_found(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    if (said->rows != 1)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID, "the table of markers is missing: " DDL,
                            TABLE_NAME(p));
    if (strcmp(said->cell[1], "p") != 0)
        return rt_party_end(p, RT_REPLY_NO, ROTA_UNSUPPORTED,
                            "%s is temporary or unlogged: markers would not outlive a crash",
                            said->cell[0]);
    snprintf(p->marks, sizeof(p->marks), "%s", said->cell[0]);
    return attach_more(p);
}

static bool attach_set(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
    p->attached = true;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* ---- BEGIN, votes ------------------------------------------------------------------ */

static bool begun(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        return rt_party_end(p, RT_REPLY_NO, error_of(said), "%s", said->text);
    snprintf(p->role, sizeof(p->role), "%.63s", said->cell[0]);
    p->op->part->by = p;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* 1 if whoever prepares it may finish it, else NULL; with the role at BEGIN. Superusers are members of any role, that of
 * initdb (10) among them. */
#define KIND                                              \
    "CASE WHEN current_setting('role') = $rota$%s$rota$ " \
    "OR pg_has_role(session_user, 10::oid, 'MEMBER') THEN 1 END"
#define ANOTHER_ROLE                                                                                     \
    "its role is not the one in which it began, and nobody could finish what that prepares: RESET ROLE " \
    "before the commit, or SET ROLE before the branch"

#define HAS_READ "SELECT pg_current_xact_id_if_assigned() IS NULL" /* and not written */

/* The application's statement comes first. */
static bool say_vote(struct rt_party *p)
{
    struct rt_part *part = p->op->part;
    char gid[GID_TEXT], id[RT_TXN_ID_TEXT];
    bool asks = p->wrote && p->step != NUMBERED && part->last == NULL;

    id_of(&part->name.id, id);
    part->prepared = p->op->what == RT_PARTY_PREPARE;
    if (part->last != NULL && !part->prepared && p->step != LAST_SAID)
        return RT_PARTY_SAY(p, LAST_SAID, "%s", part->last); /* COMMIT must not follow it unseen */
    if (part->last != NULL && part->prepared && !rt_last_add(p))
        return false;
    if (!part->prepared)
        return RT_PARTY_FORCE(p, VOTED,
                              "INSERT INTO %s VALUES (decode('%s', 'hex'), %u, 1); COMMIT",
                              p->marks, id, part->name.branch);
    return RT_PARTY_FORCE(
        p, VOTED,
        "%sINSERT INTO %s VALUES (decode('%s', 'hex'), %u, " KIND "); PREPARE TRANSACTION '%s'",
        asks ? HAS_READ "; " : "", p->marks, id, part->name.branch, p->role, gid_of(part, gid));
}

static bool vote(struct rt_party *p)
{
    struct rt_part *part = p->op->part;
    PGTransactionStatusType status = rt_pq.PQtransactionStatus(p->conn);

    if (part->by != p)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the branch has not begun on this connection");
    if (status ==
        PQTRANS_IDLE) { /* the application ended it by COMMIT, ROLLBACK or DDL: who knows what stays */
        part->by = NULL;
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the transaction of the branch was ended on its connection");
    }
    if (part->failed || (status == PQTRANS_INERROR && !RT_BUG(RT_BUG_BRANCH_ANSWER_IS_YES))) {
        rt_party_trouble(p, ROTA_INVALID, "one of its statements failed");
        return RT_PARTY_SAY(p, REFUSED_ROLLED, "ROLLBACK");
    }
    /* A connection that wrote before will probably write again: then the question goes with the vote itself, and its
     * answer counts for the next branch. */
    if (p->op->what == RT_PARTY_PREPARE && (p->op->flags & RT_PARTY_WRITES) == 0 && !p->wrote &&
        (part->last == NULL || RT_BUG(RT_BUG_BRANCH_LAST_READS)))
        return RT_PARTY_SAY(p, NUMBERED, HAS_READ);
    return say_vote(p);
}

static bool numbered(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (!said->failed && strcmp(said->cell[0], "t") == 0)
        return RT_PARTY_SAY(p, READONLY_DONE, "COMMIT");
    p->wrote = true;
    return say_vote(p); /* if something is wrong, this will say so */
}

static bool readonly_done(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    p->op->part->by = NULL;
    if (said->failed || strcmp(said->tag, "COMMIT") != 0)
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID, "%s",
                            said->failed ? said->text : "it was rolled back");
    return rt_party_end(p, RT_REPLY_READONLY, 0, NULL);
}

#define OURS 2 /* results of a vote, after the application's own */

/* Takes the result of the statement that the application left to the vote. False: it ended the transaction. */
static bool take_last(struct rt_party *p)
{
    p->op->part->changed = rt_talk_from_end(p->talk, OURS).affected;
    return p->talk->said.ends == 1 || RT_BUG(RT_BUG_BRANCH_ANSWER_IS_YES);
}

/* Nothing is left of it but what it committed on its own. */
static bool ended_rolled(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed && !is_state(said, "42704"))
        return rt_party_lose(p, said->text);
    p->op->part->by = NULL;
    p->op->part->prepared = false;
    return rt_party_end(p, RT_REPLY_NO, p->trouble, NULL);
}

static bool refuse_last(struct rt_party *p)
{
    char gid[GID_TEXT];

    rt_party_trouble(p, ROTA_INVALID,
                     "its last statement ended the transaction, which only the branch may do, or "
                     "rolled back to a savepoint: do that before it");
    if (!p->op->part->prepared)
        return RT_PARTY_SAY(p, REFUSED_ROLLED, "ROLLBACK");
    return RT_PARTY_SAY(p, ENDED_ROLLED, "ROLLBACK PREPARED '%s'", gid_of(p->op->part, gid));
}

/* One phase: the statement that the application left to the vote was said alone. */
static bool last_said(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed) {
        rt_party_trouble(p, error_of(said), said->text);
        return RT_PARTY_SAY(p, REFUSED_ROLLED, "ROLLBACK");
    }
    p->op->part->changed = rt_talk_from_end(p->talk, 0).affected;
    if (said->ends > 0 && !RT_BUG(RT_BUG_BRANCH_ANSWER_IS_YES))
        return refuse_last(p);
    return say_vote(p);
}

static bool voted(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool one_phase = p->op->what == RT_PARTY_ONE_PHASE;
    bool yes = strcmp(said->tag, one_phase ? "COMMIT" : "PREPARE TRANSACTION") == 0;

    if (!said->failed && p->op->part->last != NULL && !one_phase && !take_last(p))
        return refuse_last(p);
    if ((!said->failed && yes) || RT_BUG(RT_BUG_BRANCH_ANSWER_IS_YES)) {
        if (one_phase)
            p->op->part->by = NULL;
        p->wrote = p->op->part->last != NULL || strcmp(said->cell[0], "t") != 0;
        return rt_party_end(p, one_phase ? RT_REPLY_DONE : RT_REPLY_YES, 0, NULL);
    }
    if (is_state(said, "25006") && strcmp(said->cell[0], "t") == 0 && p->op->part->last == NULL) {
        p->wrote = false; /* we took it for a writer, but it is READ ONLY */
        return RT_PARTY_SAY(p, READONLY_ROLLED, "ROLLBACK");
    }
    bool no_owner = !one_phase && is_state(said, "23502") && strstr(said->text, "kind") != NULL;
    rt_party_trouble(p, said->failed ? error_of(said) : ROTA_INVALID,
                     no_owner       ? ANOTHER_ROLE
                     : said->failed ? said->text
                                    : "the transaction had failed: the server rolled it back");
    return RT_PARTY_SAY(p, REFUSED_ROLLED,
                        "ROLLBACK"); /* a warning if there is nothing to roll back */
}

static bool refused_rolled(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed)
        return rt_party_lose(p, said->text);
    p->op->part->by = NULL;
    p->op->part->prepared = false;
    if (p->step == READONLY_ROLLED)
        return rt_party_end(p, RT_REPLY_READONLY, 0, NULL);
    return rt_party_end(p, RT_REPLY_NO, p->trouble, NULL);
}

/* ---- COMMIT, ROLLBACK --------------------------------------------------------------- */

static bool order(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    bool commit = p->op->what == RT_PARTY_COMMIT;
    char gid[GID_TEXT];

    if (!p->keeper && part->by == p && !part->prepared)
        return commit ? rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, "it is not prepared")
                      : RT_PARTY_SAY(p, OWN_ROLLED, "ROLLBACK");
    if (rt_pq.PQtransactionStatus(p->conn) != PQTRANS_IDLE)
        return rt_party_end(
            p, RT_REPLY_REFUSED, ROTA_INVALID,
            "the connection is in another transaction: a keeper's connection can finish the branch");
    return RT_PARTY_FORCE(p, FINISHED, "%s PREPARED '%s'", commit ? "COMMIT" : "ROLLBACK",
                          gid_of(part, gid));
}

static bool own_rolled(struct rt_party *p)
{
    if (p->talk->said.failed)
        return refuse(p);
    p->op->part->by = NULL;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

static bool finished(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool commit = p->op->what == RT_PARTY_COMMIT;

    if (is_state(said, "42704")) /* there is no such branch */
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    if (is_state(said, "55000") || is_state(said, "55006")) /* another connection is at it now */
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY, "%s", said->text);
    if (said->failed)
        return refuse(p);
    if (strcmp(said->tag, commit ? "COMMIT PREPARED" : "ROLLBACK PREPARED") != 0)
        return rt_party_end(p, RT_REPLY_REFUSED, ROTA_PROTOCOL, "the server answered \"%s\"",
                            said->tag);
    p->op->part->by = NULL;
    return rt_party_end(p, RT_REPLY_DONE, 0, NULL);
}

/* ---- ASK, GATE, LIST, FORGET ----------------------------------------------------------- */

static bool say_mark(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char id[RT_TXN_ID_TEXT];

    return RT_PARTY_SAY(p, ASK_MARK,
                        "SELECT kind FROM %s WHERE id = decode('%s', 'hex') AND branch = %u",
                        p->marks, id_of(&part->name.id, id), part->name.branch);
}

/* By id and branch: the asker may not know the deadline. */
static bool say_listed(struct rt_party *p)
{
    const struct rt_part *part = p->op->part;
    char id[RT_TXN_ID_TEXT];

    return RT_PARTY_SAY(
        p, ASK_LISTED,
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE 'rota1-%s-%08x-%%'",
        id_of(&part->name.id, id), part->name.branch);
}

static bool ask_listed(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    const struct rt_part *part = p->op->part;
    char id[RT_TXN_ID_TEXT];

    if (said->failed)
        return refuse(p);
    if (said->rows > 0 && rt_name_parse(said->cell[0] + 6, &p->op->part->name))
        return rt_party_end(p, RT_REPLY_PREPARED, 0, NULL);
    if ((p->op->flags & RT_PARTY_FENCE) == 0 || RT_BUG(RT_BUG_BRANCH_NO_FENCE))
        return say_mark(p);
    return RT_PARTY_FORCE(
        p, ASK_FENCED,
        "BEGIN; SET LOCAL lock_timeout = '1s'; INSERT INTO %s VALUES (decode('%s', 'hex'), %u, 0) "
        "ON CONFLICT DO NOTHING; COMMIT",
        p->marks, id_of(&part->name.id, id), part->name.branch);
}

static bool ask_fenced(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;

    if (said->failed) {
        p->hit = is_state(said, "55P03") || is_state(said, "40");
        rt_party_trouble(p, error_of(said), said->text);
        return RT_PARTY_SAY(p, ASK_UNFENCED, "ROLLBACK");
    }
    if (said->affected == 1)
        return rt_party_end(p, RT_REPLY_ABSENT, 0, NULL);
    return say_mark(p);
}

static bool ask_unfenced(struct rt_party *p)
{
    return rt_party_end(p, p->hit ? RT_REPLY_HELD : RT_REPLY_REFUSED, p->trouble, NULL);
}

static bool ask_mark(struct rt_party *p)
{
    const struct rt_said *said = &p->talk->said;
    bool marked = said->rows == 1 && strcmp(said->cell[0], "1") == 0;

    if (said->failed)
        return refuse(p);
    if (said->rows == 0 && (p->op->flags & RT_PARTY_FENCE) != 0)
        return rt_party_end(p, RT_REPLY_HELD, ROTA_BUSY,
                            "its marker disappeared while it was looked at");
    return rt_party_end(p, marked ? RT_REPLY_COMMITTED : RT_REPLY_ABSENT, 0, NULL);
}

static void tell(void *arg, int cells, char *const *values)
{
    struct rt_party *p = arg;
    struct rt_party_seen seen = {.text = ""};
    char finish[300];

    if (cells < 2 || values[0] == NULL || values[1] == NULL)
        return;
    seen.text = values[0];
    seen.prepared_ms = strtoll(values[1], NULL, 10);
    snprintf(finish, sizeof(finish), "ROLLBACK PREPARED '%s'", values[0]);
    seen.finish = finish;
    seen.ours = strncmp(values[0], "rota1-", 6) == 0 && rt_name_parse(values[0] + 6, &seen.name) &&
                rt_txn_id_journal(&seen.name.id) == p->op->list.journal;
    p->op->list.each(p->op->list.arg, &seen);
}

static bool say_list(struct rt_party *p)
{
    p->talk->row = tell;
    p->talk->row_arg = p;
    return RT_PARTY_SAY(
        p, LISTED,
        "SELECT gid, floor(extract(epoch from prepared) * 1000)::bigint FROM pg_prepared_xacts "
        "WHERE database = current_database()");
}

static bool say_forget(struct rt_party *p)
{
    const struct rt_txn_id from = rt_txn_id_make(p->op->forget.journal, 0, 0);
    const struct rt_txn_id to = rt_txn_id_make(p->op->forget.journal, p->op->forget.before_ms, 0);
    char a[RT_TXN_ID_TEXT], b[RT_TXN_ID_TEXT];
    struct rt_talk *t = p->talk;

    p->step = FORGOTTEN;
    p->forces = true;
    bool ok = rt_talk_add(
        t,
        "DELETE FROM %s WHERE (id, branch) IN (SELECT id, branch FROM %s WHERE id >= decode('%s', 'hex') "
        "AND id < decode('%s', 'hex')",
        p->marks, p->marks, id_of(&from, a), id_of(&to, b));
    for (size_t i = 0; ok && i < p->op->forget.keep_count; i++)
        ok = rt_talk_add(t, "%sdecode('%s', 'hex')", i == 0 ? " AND id NOT IN (" : ", ",
                         id_of(&p->op->forget.keep[i], a));
    ok = ok && rt_talk_add(t, "%s LIMIT %d)", p->op->forget.keep_count > 0 ? ")" : "", PAGE);
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

static bool gate(struct rt_party *p)
{
    for (size_t i = 0; i < (p->op->count > 0 ? p->op->count : 1); i++)
        p->op->part[i].clear = true;
    return rt_party_end(p, RT_REPLY_CLEAR, 0, NULL);
}

/* ---- Steps ------------------------------------------------------------------------------- */

static bool first(struct rt_party *p)
{
    bool idle = rt_pq.PQtransactionStatus(p->conn) == PQTRANS_IDLE;

    if (!idle && (p->op->what == RT_PARTY_ATTACH || p->op->what == RT_PARTY_BEGIN))
        return rt_party_end(p, RT_REPLY_NO, ROTA_INVALID,
                            "the connection is in a transaction: COMMIT or ROLLBACK comes first");
    switch (p->op->what) {
    case RT_PARTY_ATTACH:
        return RT_PARTY_SAY(
            p, ATTACH_WHO,
            "SELECT current_setting('max_prepared_transactions'), pg_is_in_recovery(), to_regclass($rota$%s$rota$) IS NULL",
            TABLE_NAME(p));
    case RT_PARTY_BEGIN:
        p->wrote = p->wrote && (p->op->flags & RT_PARTY_READS) == 0;
        /* after NOTIFY it could not be prepared: triggers check whether they may (rota_event_wake) */
        return RT_PARTY_SAY(p, BEGUN, "BEGIN; SET LOCAL rota.branch = on; SHOW role");
    case RT_PARTY_PREPARE:
    case RT_PARTY_ONE_PHASE:
        return vote(p);
    case RT_PARTY_COMMIT:
    case RT_PARTY_ROLLBACK:
        return order(p);
    case RT_PARTY_ASK:
        return say_listed(p);
    case RT_PARTY_GATE:
        return gate(p);
    case RT_PARTY_LIST:
        return say_list(p);
    case RT_PARTY_FORGET:
        return say_forget(p);
    default:
        return rt_party_end(p, RT_REPLY_REFUSED, ROTA_INVALID, "no such operation");
    }
}

static bool step(struct rt_party *p)
{
    static bool (*const steps[])(struct rt_party *) = {
        [FIRST] = first,
        [ATTACH_WHO] = attach_who,
        [ATTACH_MADE] = attach_made,
        [ATTACH_FOUND] = attach_found,
        [ATTACH_SET] = attach_set,
        [BEGUN] = begun,
        [NUMBERED] = numbered,
        [READONLY_DONE] = readonly_done,
        [READONLY_ROLLED] = refused_rolled,
        [LAST_SAID] = last_said,
        [VOTED] = voted,
        [REFUSED_ROLLED] = refused_rolled,
        [ENDED_ROLLED] = ended_rolled,
        [OWN_ROLLED] = own_rolled,
        [FINISHED] = finished,
        [ASK_LISTED] = ask_listed,
        [ASK_FENCED] = ask_fenced,
        [ASK_UNFENCED] = ask_unfenced,
        [ASK_MARK] = ask_mark,
        [LISTED] = over,
        [FORGOTTEN] = over,
    };

    assert(p->step >= 0 && (size_t)p->step < sizeof(steps) / sizeof(steps[0]));
    return steps[p->step](p);
}

const struct rt_party_kind rt_xa_postgres = {
    .name = "xa-postgres",
    .title = "PostgreSQL",
    .gated = false,
    .ddl = DDL,
    .hex = {"decode('", "', 'hex')"},
    .identity_read = {"SELECT string_agg(kind::text, ',' ORDER BY branch) FROM ", ""},
    .identity_make = {"INSERT INTO ", " ON CONFLICT DO NOTHING"},
    .talk = &rt_talk_postgres,
    .step = step,
};
