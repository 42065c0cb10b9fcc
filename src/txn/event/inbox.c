/* SPDX-License-Identifier: Apache-2.0 */
/* The inbox of a consumer that has no database of its own: what it has taken. */
#include "txn/event/store_inside.h"

#include <stdio.h>

/* The statement that makes it is the last. */
static const char *ddl_of(const struct rt_store *s)
{
    const char *const *ddl = rt_event_ddl(s->kind->dialect, true);

    while (ddl[1] != NULL)
        ddl++;
    return *ddl;
}

static int look(struct rt_store *s)
{
    int err = rt_store_begin(s);

    return err != 0 ? err : rt_store_say_text(s, "SELECT 1 FROM " RT_EVENT_INBOX " WHERE 1 = 0");
}

int rt_store_check_inbox(struct rt_store *s)
{
    char why[RT_STORE_LINE] = "";
    int err = look(s);

    if (err == 0 || err == ROTA_UNREACHABLE)
        return err;
    err = rt_store_begin(s);
    if (err == 0 && (err = rt_store_say_text(s, ddl_of(s))) != 0)
        snprintf(why, sizeof(why), "%.250s", s->errmsg);
    if (err == 0 || look(s) == 0) /* if two make it at once, one is told that it exists */
        return 0;
    return rt_store_fail(s, err,
                         "%s: docs/transactions/outbox.md has the table " RT_EVENT_INBOX
                         " for somebody who may create it",
                         why);
}

int rt_store_taken(struct rt_store *s, const char *consumer, const char *event_id, bool *taken)
{
    struct rt_stmt *q = &s->q;
    int err = rt_store_begin(s);

    if (err != 0)
        return err;
    rt_stmt_add(q, "SELECT 1 FROM " RT_EVENT_INBOX " WHERE consumer = ");
    rt_stmt_text(q, consumer);
    rt_stmt_add(q, " AND event_id = ");
    rt_stmt_text(q, event_id);
    err = rt_store_say(s);
    if (err == 0)
        *taken = rt_store_cell(s, 0, 0, 0)->text != NULL;
    return err;
}

int rt_store_take(struct rt_store *s, const char *consumer, const char *event_id)
{
    struct rt_stmt *q = &s->q;
    bool mysql = s->kind->dialect == RT_STMT_MYSQL;
    int err = rt_store_begin(s);

    if (err != 0)
        return err;
    rt_stmt_add(q, "INSERT %sINTO " RT_EVENT_INBOX " (consumer, event_id) VALUES (",
                mysql ? "IGNORE " : "");
    rt_stmt_text(q, consumer);
    rt_stmt_add(q, ", ");
    rt_stmt_text(q, event_id);
    rt_stmt_add(q, ")%s", mysql ? "" : " ON CONFLICT DO NOTHING");
    return rt_store_say(s);
}
