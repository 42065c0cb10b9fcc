/* SPDX-License-Identifier: Apache-2.0 */
/* The fence: one statement for each call, its meaning, and its table. fence.h has the picture. */
#include "txn/fence/fence.h"

#include "base/bug.h"
#include "engines.h"
#include "txn/fence/call.h"
#include "txn/manager/inside.h"
#include "txn/point.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Talk ------------------------------------------------------------------------------ */

void rt_fence_talk(const struct rt_talk_kind *kind, void *conn, char *sql, struct rt_said *said,
                   void (*row)(void *arg, int cells, char *const *values), void *arg)
{
    struct rt_talk t = {.kind = kind, .conn = conn, .sql = sql, .size = strlen(sql)};

    t.until = INT64_MAX;
    t.row = row;
    t.row_arg = arg;
    rt_talk_wait(&t, INT64_MAX);
    *said = t.said;
}

/* ---- What a call means ------------------------------------------------------------------ */

enum rota_fenced rt_fence_judge(int32_t op, enum rt_fence_state was)
{
    static const enum rota_fenced verdicts[][RT_FENCE_VOID + 1] = {
        [ROTA_OP_TRY] = {ROTA_FENCE_DO, ROTA_FENCE_DONE, ROTA_FENCE_DONE, ROTA_FENCE_LATE,
                         ROTA_FENCE_LATE},
        [ROTA_OP_CONFIRM] = {ROTA_FENCE_EARLY, ROTA_FENCE_DO, ROTA_FENCE_DONE, ROTA_FENCE_CROSSED,
                             ROTA_FENCE_EARLY},
        [ROTA_OP_CANCEL] = {ROTA_FENCE_EMPTY, ROTA_FENCE_DO, ROTA_FENCE_CROSSED, ROTA_FENCE_DONE,
                            ROTA_FENCE_DONE}};

    assert(op >= ROTA_OP_TRY && op <= ROTA_OP_CANCEL && was <= RT_FENCE_VOID);
    if (RT_BUG(RT_BUG_FENCE_CONFIRM_ANY) && op == ROTA_OP_CONFIRM && was != RT_FENCE_CONFIRMED)
        return ROTA_FENCE_DO;
    return verdicts[op][was];
}

/* What the row says after OP if there was none (made), and if it was TRIED (next); any other state stays. */
static void write_statement(const struct rt_fence_kind *kind, const struct rota_call *call,
                            char sql[RT_FENCE_SQL])
{
    static const int made[] = {[ROTA_OP_TRY] = RT_FENCE_TRIED,
                               [ROTA_OP_CONFIRM] = RT_FENCE_VOID,
                               [ROTA_OP_CANCEL] = RT_FENCE_VOID};
    static const int next[] = {[ROTA_OP_TRY] = RT_FENCE_TRIED,
                               [ROTA_OP_CONFIRM] = RT_FENCE_CONFIRMED,
                               [ROTA_OP_CANCEL] = RT_FENCE_CANCELLED};
    int size;

    if (kind->odku)
        size = snprintf(
            sql, RT_FENCE_SQL,
            "BEGIN NOT ATOMIC IF @@in_transaction = 0 AND @@autocommit = 1 THEN SIGNAL SQLSTATE "
            "'45000' SET MESSAGE_TEXT = 'there is no transaction: BEGIN comes first'; END IF; "
            "INSERT INTO " RT_FENCE_TABLE " (txn, branch, state, was, deadline) VALUES ('%s', "
            "%" PRIu32 ", %d, 0, %" PRId64 ") ON DUPLICATE KEY UPDATE was = state, state = "
            "IF(state = 1, %d, state) RETURNING was; END",
            call->txn, call->branch, made[call->op], call->deadline_ms, next[call->op]);
    else
        size = snprintf(sql, RT_FENCE_SQL,
                        "INSERT INTO " RT_FENCE_TABLE " AS f (txn, branch, state, was, deadline) "
                        "VALUES ('%s', %" PRIu32 ", %d, 0, %" PRId64 ") ON CONFLICT (txn, branch) "
                        "DO UPDATE SET was = f.state, state = CASE WHEN f.state = 1 THEN %d ELSE "
                        "f.state END RETURNING was",
                        call->txn, call->branch, made[call->op], call->deadline_ms, next[call->op]);
    assert(size > 0 && size < RT_FENCE_SQL);
}

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A failed statement: what it means, and what to answer. */
static int told(const struct rt_fence_kind *kind, const struct rt_said *said)
{
    int err = said->lost ? ROTA_UNREACHABLE : kind->error(said);

    if (err == ROTA_BUSY)
        return rt_txns_fail(NULL, err, "%s: another call has this branch: ROLLBACK and answer 425",
                            said->text);
    if (err == ROTA_UNREACHABLE)
        return rt_txns_fail(NULL, err, "%s: nothing of it remains; answer 425", said->text);
    if (err == ROTA_UNSUPPORTED)
        return rt_txns_fail(NULL, err, "%s: %s creates the table, outside a transaction; or: %s",
                            said->text, kind->make, kind->ddl);
    return rt_txns_fail(NULL, err, "%s: ROLLBACK", said->text);
}

/* For planted bugs: a fence that looks before it writes, and one that does not remember a cancel. */
static bool is_skipped(const struct rt_fence_kind *kind, void *conn, const struct rota_call *call,
                       enum rt_fence_state *was)
{
    struct rt_said said = {0};
    char sql[RT_FENCE_SQL];
    bool select_first = RT_BUG(RT_BUG_FENCE_SELECT_FIRST);
    bool forgets = RT_BUG(RT_BUG_FENCE_NO_TOMBSTONE) && call->op == ROTA_OP_CANCEL;

    if (!select_first && !forgets)
        return false;
    snprintf(sql, sizeof(sql),
             "SELECT state FROM " RT_FENCE_TABLE " WHERE txn = '%s' AND branch = %" PRIu32,
             call->txn, call->branch);
    kind->say(conn, sql, &said, NULL, NULL);
    *was = said.rows == 1 ? (enum rt_fence_state)strtoul(said.cell[0], NULL, 10) : RT_FENCE_NONE;
    return forgets ? *was == RT_FENCE_NONE : *was != RT_FENCE_TRIED && *was != RT_FENCE_NONE;
}

static int ask(const struct rt_fence_kind *kind, void *conn, const struct rota_call *call,
               enum rota_fenced *out)
{
    enum rt_fence_state was = RT_FENCE_NONE, seen = RT_FENCE_NONE;
    struct rt_said said = {0};
    char sql[RT_FENCE_SQL];

    if (is_skipped(kind, conn, call, &was)) {
        *out = rt_fence_judge(call->op, was);
        return 0;
    }
    write_statement(kind, call, sql);
    kind->say(conn, sql, &said, NULL, NULL);
    if (said.failed || said.lost)
        return told(kind, &said);
    char *end = said.cell[0];
    seen = (enum rt_fence_state)strtoul(said.cell[0], &end, 10);
    if (said.rows != 1 || end == said.cell[0] || *end != '\0' || seen > RT_FENCE_VOID)
        return rt_txns_fail(NULL, ROTA_PROTOCOL,
                            RT_FENCE_TABLE " has a row that is not ours: ROLLBACK");
    *out = rt_fence_judge(call->op, RT_BUG(RT_BUG_FENCE_SELECT_FIRST) ? was : seen);
    return 0;
}

static int fence(const struct rt_fence_kind *kind, void *conn, const struct rota_call *call,
                 enum rota_fenced *verdict)
{
    enum rota_fenced said = 0;
    char errmsg[RT_TXN_LINE] = "";
    struct rt_name name;

    int err = rt_call_check(call, &name);
    if (err != 0)
        return err;
    if (verdict == NULL || conn == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "the fence needs %s",
                            conn == NULL ? "a connection" : "a place for its verdict");
    err = kind->ready(conn, RT_FENCE_INSIDE, errmsg, sizeof(errmsg));
    if (err != 0)
        return rt_txns_fail(NULL, err, "%s", errmsg);
    if (call->op == ROTA_OP_TRY && wall_ms() - call->deadline_ms > RT_FENCE_LATE_MS &&
        !RT_BUG(RT_BUG_FENCE_NO_DEADLINE)) {
        *verdict = ROTA_FENCE_LATE;
        return 0;
    }
    if (RT_BUG(RT_BUG_FENCE_SKIPPED)) {
        *verdict = ROTA_FENCE_DO;
        return 0;
    }
    err = ask(kind, conn, call, &said);
    if (err != 0)
        return err;
    rt_point("service-fenced");
    *verdict = said;
    return 0;
}

/* ---- The table ---------------------------------------------------------------------------- */

#define MAKE_TRIES 3 /* if two make it at once, one is told that it is there */

static bool is_there(const struct rt_fence_kind *kind, void *conn)
{
    struct rt_said said = {0};
    char sql[RT_FENCE_SQL];

    if (kind->there == NULL)
        return false;
    snprintf(sql, sizeof(sql), "%s", kind->there);
    kind->say(conn, sql, &said, NULL, NULL);
    return said.rows == 1 && !said.null[0];
}

static int make(const struct rt_fence_kind *kind, void *conn)
{
    struct rt_said said = {0};
    char errmsg[RT_TXN_LINE] = "", sql[RT_FENCE_SQL];

    if (conn == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "the fence needs a connection");
    int err = kind->ready(conn, RT_FENCE_OUTSIDE, errmsg, sizeof(errmsg));
    if (err != 0)
        return rt_txns_fail(NULL, err, "%s", errmsg);
    for (int i = 0; i < MAKE_TRIES && !is_there(kind, conn); i++) {
        snprintf(sql, sizeof(sql), "%s", kind->ddl);
        kind->say(conn, sql, &said, NULL, NULL);
        if (!said.failed)
            break;
    }
    if (said.failed) {
        err = said.lost ? ROTA_UNREACHABLE : kind->error(&said);
        return rt_txns_fail(NULL, err, "%s: somebody with the right must create the table: %s",
                            said.text, kind->ddl);
    }
    if (kind->found == NULL)
        return 0;
    snprintf(sql, sizeof(sql), "%s", kind->found);
    kind->say(conn, sql, &said, NULL, NULL);
    if (said.failed || said.rows == 1)
        return rt_txns_fail(NULL, ROTA_UNSUPPORTED, "%s", said.failed ? said.text : said.cell[0]);
    return 0;
}

/* ---- Public ------------------------------------------------------------------------------- */

int rota_fence_mysql(struct st_mysql *my, const struct rota_call *call, enum rota_fenced *verdict)
{
    return fence(&rt_fence_mysql, my, call, verdict);
}

int rota_fence_make_mysql(struct st_mysql *my)
{
    return make(&rt_fence_mysql, my);
}

int rota_fence_postgres(struct pg_conn *pg, const struct rota_call *call, enum rota_fenced *verdict)
{
#if ROTA_ENGINE_POSTGRES
    return fence(&rt_fence_postgres, pg, call, verdict);
#else
    (void)pg;
    (void)call;
    (void)verdict;
    return rt_txns_fail(NULL, ROTA_UNSUPPORTED, "this library was built without PostgreSQL");
#endif
}

int rota_fence_make_postgres(struct pg_conn *pg)
{
#if ROTA_ENGINE_POSTGRES
    return make(&rt_fence_postgres, pg);
#else
    (void)pg;
    return rt_txns_fail(NULL, ROTA_UNSUPPORTED, "this library was built without PostgreSQL");
#endif
}

int rota_fence_sqlite(struct sqlite3 *db, const struct rota_call *call, enum rota_fenced *verdict)
{
#if ROTA_ENGINE_FILE
    return fence(&rt_fence_sqlite, db, call, verdict);
#else
    (void)db;
    (void)call;
    (void)verdict;
    return rt_txns_fail(NULL, ROTA_UNSUPPORTED, "this library was built without SQLite");
#endif
}

int rota_fence_make_sqlite(struct sqlite3 *db)
{
#if ROTA_ENGINE_FILE
    return make(&rt_fence_sqlite, db);
#else
    (void)db;
    return rt_txns_fail(NULL, ROTA_UNSUPPORTED, "this library was built without SQLite");
#endif
}
