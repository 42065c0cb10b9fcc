/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes rows of the fence that nobody will ask for, as the journal says, page by page. fence.h says which. */
#include "txn/fence/fence.h"

#include "base/bug.h"
#include "engines.h"
#include "txn/manager/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct page {
    char txn[RT_FENCE_PAGE][48];
    size_t count;
};

static void take(void *arg, int cells, char *const *values)
{
    struct page *p = arg;

    if (cells == 1 && values[0] != NULL && p->count < RT_FENCE_PAGE)
        snprintf(p->txn[p->count++], sizeof(p->txn[0]), "%s", values[0]);
}

static int say(struct rota_txns *m, const struct rt_fence_kind *kind, void *conn, char *sql,
               struct rt_said *said, struct page *page)
{
    kind->say(conn, sql, said, page != NULL ? take : NULL, page);
    if (!said->failed)
        return 0;
    int err = said->lost ? ROTA_UNREACHABLE : kind->error(said);
    return rt_txns_fail(m, err, "%s: %s", RT_FENCE_TABLE, said->text);
}

/* Lists this journal's transactions after AFTER whose rows may go if the journal agrees. */
static int list(struct rota_txns *m, const struct rt_fence_kind *kind, void *conn,
                const char *after, struct page *page)
{
    struct rt_said said = {0};
    char sql[RT_FENCE_SQL];

    page->count = 0;
    snprintf(sql, sizeof(sql),
             "SELECT DISTINCT txn FROM " RT_FENCE_TABLE
             " WHERE txn > '%s' AND txn < '%08x~' AND deadline < %" PRId64
             " AND state <> %d ORDER BY txn LIMIT %d",
             after, m->number, rt_txns_wall_ms() - RT_FENCE_CLEAN_MS, RT_FENCE_TRIED,
             RT_FENCE_PAGE);
    return say(m, kind, conn, sql, &said, page);
}

static void on_record(void *arg, const struct rt_journal_record *record)
{
    *(bool *)arg = record->stands == RT_JOURNAL_EXPIRED || record->done;
}

/* Keeps in PAGE only what is over. A row without an id is somebody else's. */
static int ask_journal(struct rota_txns *m, struct page *page)
{
    size_t count = 0;

    for (size_t i = 0; i < page->count; i++) {
        struct rt_journal_op op = {.kind = RT_JOURNAL_READ};
        bool over = RT_BUG(RT_BUG_FENCE_CLEANS_ALL) != 0;
        struct rt_name name;
        if (!rt_name_ticket_parse(page->txn[i], &name))
            continue;
        op.read.id = name.id;
        op.read.each = on_record;
        op.read.arg = &over;
        int err = RT_BUG(RT_BUG_FENCE_CLEANS_ALL) ? 0 : rt_txns_ask(m, &op);
        if (err != 0)
            return err;
        if (over)
            memmove(page->txn[count++], page->txn[i], sizeof(page->txn[0]));
    }
    page->count = count;
    return 0;
}

static int take_away(struct rota_txns *m, const struct rt_fence_kind *kind, void *conn,
                     const struct page *page, uint64_t *count)
{
    struct rt_said said = {0};
    char sql[RT_FENCE_SQL], commit[] = "COMMIT";
    size_t size = (size_t)snprintf(sql, sizeof(sql),
                                   "DELETE FROM " RT_FENCE_TABLE " WHERE state <> %d AND txn IN (",
                                   RT_FENCE_TRIED);

    if (page->count == 0)
        return 0;
    for (size_t i = 0; i < page->count; i++)
        size += (size_t)snprintf(sql + size, sizeof(sql) - size, "%s'%s'", i > 0 ? ", " : "",
                                 page->txn[i]);
    snprintf(sql + size, sizeof(sql) - size, ")");
    int err = say(m, kind, conn, sql, &said, NULL);
    if (err == 0)
        *count += said.affected;
    if (err == 0 && kind->odku) /* where autocommit is off */
        err = say(m, kind, conn, commit, &said, NULL);
    return err;
}

static int clean(const struct rt_fence_kind *kind, struct rota_txns *m, void *conn, uint64_t *count)
{
    char errmsg[RT_TXN_LINE] = "", after[48];
    struct page page;
    uint64_t went = 0;

    if (m == NULL)
        return rt_txns_fail(NULL, ROTA_INVALID, "a manager is needed, to ask its journal");
    int err = rt_txns_enter(m, "cleaning a fence");
    if (err != 0)
        return err;
    if (conn == NULL)
        return rt_txns_fail(m, ROTA_INVALID, "the fence needs a connection");
    err = kind->ready(conn, RT_FENCE_OUTSIDE, errmsg, sizeof(errmsg));
    if (err != 0)
        return rt_txns_fail(m, err, "%s", errmsg);
    snprintf(after, sizeof(after), "%08x", m->number);
    bool more = true;
    while (err == 0 && more) {
        err = list(m, kind, conn, after, &page);
        more = err == 0 && page.count == RT_FENCE_PAGE;
        if (more)
            memcpy(after, page.txn[page.count - 1], sizeof(after));
        if (err == 0)
            err = ask_journal(m, &page);
        if (err == 0)
            err = take_away(m, kind, conn, &page, &went);
    }
    if (err == 0 && count != NULL)
        *count = went;
    return err;
}

int rota_fence_clean_mysql(struct rota_txns *m, struct st_mysql *my, uint64_t *count)
{
    return clean(&rt_fence_mysql, m, my, count);
}

int rota_fence_clean_postgres(struct rota_txns *m, struct pg_conn *pg, uint64_t *count)
{
#if ROTA_ENGINE_POSTGRES
    return clean(&rt_fence_postgres, m, pg, count);
#else
    (void)pg;
    (void)count;
    return rt_txns_fail(m, ROTA_UNSUPPORTED, "this library was built without PostgreSQL");
#endif
}

int rota_fence_clean_sqlite(struct rota_txns *m, struct sqlite3 *db, uint64_t *count)
{
#if ROTA_ENGINE_FILE
    return clean(&rt_fence_sqlite, m, db, count);
#else
    (void)db;
    (void)count;
    return rt_txns_fail(m, ROTA_UNSUPPORTED, "this library was built without SQLite");
#endif
}
