/* SPDX-License-Identifier: Apache-2.0 */
/* The journal in a SQL database, on the lanes of engine/sql. */
#include "txn/journal/sql/sql.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/words.h"
#include "txn/journal/points.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct rt_jsql *of(struct rt_journal *j)
{
    return (struct rt_jsql *)(void *)j;
}

static struct rt_jsql *of_conn(struct rt_sql_conn *c)
{
    return (struct rt_jsql *)(void *)((char *)c - offsetof(struct rt_jsql, conn));
}

static struct rt_jsql *of_ledger(struct rt_ledger *l)
{
    return (struct rt_jsql *)(void *)((char *)l - offsetof(struct rt_jsql, desk) -
                                      offsetof(struct rt_journal_desk, ledger));
}

/* The lanes' last errmsg becomes ours. */
static void take_errmsg(struct rt_jsql *j)
{
    snprintf(j->base.base.errmsg, sizeof(j->base.base.errmsg), "%s", j->conn.base.errmsg);
}

/* ---- An op's ask -------------------------------------------------------------------------------------- */

static void tell(struct rt_jsql *j, struct rt_journal_ask *a, int err)
{
    rt_ledger_out(&a->entry);
    rt_journal_ask_tell(&j->desk, a, err);
}

static void say(struct rt_sql_ask *s, struct rt_sql_book *b)
{
    struct rt_jsql *j = of_conn(s->c);
    struct rt_journal_ask *a = s->about;
    rt_journal_point_begun(&a->in);
    rt_rows_say(a, b, j->dialect->words, j->desk.number);
}

static bool heard(struct rt_sql_ask *s, const struct rt_sql_book *b)
{
    struct rt_jsql *j = of_conn(s->c);
    struct rt_journal_ask *a = s->about;
    int err;
    if (!rt_rows_hear(a, b, &j->base.base, &err))
        return false;
    rt_journal_point_written(&a->in);
    if (err == 0)
        err = rt_rows_show(a, b, &j->base.base);
    tell(j, a, err);
    return true;
}

static void failed(struct rt_sql_ask *s, int err)
{
    struct rt_jsql *j = of_conn(s->c);
    take_errmsg(j);
    tell(j, s->about, err);
}

static void freed(struct rt_sql_ask *s)
{
    rt_journal_ask_free(s->about);
}

static const struct rt_sql_plan reading = {
    .reads = true, .say = say, .heard = heard, .failed = failed, .freed = freed};
static const struct rt_sql_plan writing = {
    .say = say, .heard = heard, .failed = failed, .freed = freed};

static int begin(struct rt_jsql *j, struct rt_journal_ask *a)
{
    const struct rt_txn_id *id = rt_journal_ask_id(a);
    char name[RT_TXN_ID_TEXT];
    if (id != NULL)
        rt_txn_id_text(id, name);
    struct rt_sql_ask *s = rt_sql_ask_new(&j->conn, rt_journal_ask_reads(a) ? &reading : &writing,
                                          NULL, id != NULL ? name : NULL, a);
    if (s == NULL)
        return ROTA_NOMEM;
    s->entry.deadline = a->entry.deadline;
    s->entry.again = true;
    s->single = rt_rows_alone(a);
    a->entry.deadline = RT_NEVER; /* S keeps it, and knows whether it left */
    rt_sql_ask_go(s);
    return 0;
}

/* ---- The pilot ------------------------------------------------------------------------------------------ */

static void pilot(struct rt_jsql *j);

static void pilot_say(struct rt_sql_ask *s, struct rt_sql_book *b)
{
    rt_rows_say_cells(b, of_conn(s->c)->dialect->words, RT_ROWS_WHO, NULL, 0);
}

static bool pilot_heard(struct rt_sql_ask *s, const struct rt_sql_book *b)
{
    struct rt_jsql *j = of_conn(s->c);
    (void)b;
    j->piloted = false;
    rt_ledger_flush(&j->desk.ledger);
    return true;
}

/* No op would fare better, unless the pilot only took too long. */
static void pilot_failed(struct rt_sql_ask *s, int err)
{
    struct rt_jsql *j = of_conn(s->c);
    char why[sizeof(j->conn.base.errmsg)];
    j->piloted = false;
    snprintf(why, sizeof(why), "%s", j->conn.base.errmsg);
    if (err != ROTA_UNREACHABLE)
        rt_ledger_refuse(&j->desk.ledger, err, why);
    else if (!RT_RING_EMPTY(&j->desk.ledger.waiting))
        pilot(j);
}

static const struct rt_sql_plan pilots = {
    .reads = true, .say = pilot_say, .heard = pilot_heard, .failed = pilot_failed};

static void pilot(struct rt_jsql *j)
{
    if (j->piloted)
        return;
    j->piloted = true;
    if (rt_sql_ask(&j->conn, &pilots, NULL, NULL, NULL) == NULL)
        j->piloted = false; /* those who wait ask again, or end */
}

/* ---- The ledger ------------------------------------------------------------------------------------------- */

static int send_ask(struct rt_ledger *l, struct rt_entry *e, const void **via)
{
    struct rt_jsql *j = of_ledger(l);
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    *via = j;
    if (j->desk.number == 0) {
        pilot(j);
        return j->piloted ? ROTA_UNREACHABLE : ROTA_NOMEM;
    }
    if (rt_journal_ask_foreign(&j->desk, a) != 0)
        return ROTA_INVALID;
    return begin(j, a);
}

static void ended(struct rt_ledger *l, struct rt_entry *e, int err, const char *why)
{
    struct rt_jsql *j = of_ledger(l);
    struct rt_journal_ask *a = rt_journal_ask_of(e);
    if (err == ROTA_INVALID)
        (void)rt_journal_ask_foreign(&j->desk, a);
    else
        (void)rt_ledger_say(l, e, err, why, j->conn.driver->name, rt_sql_lane_at(&j->conn),
                            j->conn.trouble);
    rt_journal_ask_tell(&j->desk, a, err);
    rt_journal_ask_free(a);
}

static const struct rt_ledger_user ledger_user = {.send = send_ask, .ended = ended};

void rt_jsql_submit(struct rt_journal *base, struct rt_journal_op *op)
{
    rt_journal_desk_submit(&of(base)->desk, op);
}

/* ---- Riding on the lanes ------------------------------------------------------------------------------------ */

static void say_layout(struct rt_sql_conn *c, struct rt_sql_book *b)
{
    rt_sql_say_own_cells(b, &of_conn(c)->layout, NULL, 0);
}

static void say_make(struct rt_sql_conn *c, struct rt_sql_book *b)
{
    for (const struct rt_sql_saying *s = of_conn(c)->dialect->make; s->sql != NULL; s++)
        rt_sql_say_own_cells(b, s, NULL, 0);
}

/* If the number has changed, the tables were deleted, or this is another server. */
static bool take_layout(struct rt_sql_conn *c, const struct rt_sql_book *b, char *why, size_t size)
{
    struct rt_jsql *j = of_conn(c);
    uint32_t number = 0;
    if (rt_rows_who(b, &c->base, "it", &number) != 0) {
        snprintf(why, size, "%s", c->base.errmsg);
        return false;
    }
    if (j->desk.number != 0 && j->desk.number != number) {
        snprintf(why, size,
                 "the journal there is %08x, and was %08x: decisions may be lost; restore it",
                 (unsigned)number, (unsigned)j->desk.number);
        return false;
    }
    j->desk.number = number;
    return true;
}

static void linked(struct rt_sql_conn *c)
{
    struct rt_jsql *j = of_conn(c);
    snprintf(j->base.base.unsafe, sizeof(j->base.base.unsafe), "%s", c->base.unsafe);
    rt_ledger_flush(&j->desk.ledger);
}

static const struct rt_sql_rider rider = {.say_layout = say_layout,
                                          .take_layout = take_layout,
                                          .say_make = say_make,
                                          .linked = linked,
                                          .tables = "rota_txn*",
                                          .doctor = "rota txn doctor"};

static void no_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    (void)op; /* the lock engine is asked nothing */
}

static void no_event(struct rt_up *up, const struct rt_event *event)
{
    (void)up;
    (void)event; /* LINK: the log has it */
}

static void log_line(struct rt_up *up, int level, const char *line)
{
    const struct rt_jsql *j = (const struct rt_jsql *)(const void *)((char *)up -
                                                                     offsetof(struct rt_jsql, up));
    if (j->base.up->log != NULL)
        j->base.up->log(j->base.up, level, line);
}

int rt_jsql_open(struct rt_journal *base, const struct rt_url *url,
                 const struct rt_jsql_dialect *dialect)
{
    struct rt_jsql *j = of(base);
    int rv = rt_journal_desk_init(&j->desk, base, &ledger_user);
    if (rv != 0)
        return rv;
    j->dialect = dialect;
    j->layout = dialect->words[RT_ROWS_WHO];
    j->layout.slot = RT_SQL_ONCE;
    j->up = (struct rt_up){.done = no_done, .event = no_event, .log = log_line};
    j->conn.base = base->base;
    j->conn.base.up = &j->up;
    rv = rt_sql_open_lanes(&j->conn.base, url, dialect->driver, &rider);
    if (rv != 0) {
        take_errmsg(j);
        rt_journal_desk_fini(&j->desk, NULL);
    }
    return rv;
}

static void free_entry(struct rt_ledger *l, struct rt_entry *e)
{
    (void)l;
    if (!e->flying) /* else its flight frees it */
        rt_journal_ask_free(rt_journal_ask_of(e));
}

void rt_jsql_close(struct rt_journal *base)
{
    struct rt_jsql *j = of(base);
    rt_journal_desk_fini(&j->desk, free_entry);
    rt_sql_close(&j->conn.base);
}

void rt_jsql_forked(struct rt_journal *base)
{
    rt_sql_forked(&of(base)->conn.base);
}
