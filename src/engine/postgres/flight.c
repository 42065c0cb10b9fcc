/* SPDX-License-Identifier: Apache-2.0 */
/* Flights: steps into pipelined statements, one Sync behind them, and their answers into rows.
 *
 * All of it goes into libpq's buffer and leaves in one send. Without BEGIN, everything before a Sync is one
 * transaction; a statement gets its name in the flight that first uses it. */
#include "engine/postgres/postgres.h"

#include "base/alloc.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOOL_OID 16
#define BYTEA_OID 17
#define INT8_OID 20
#define INT2_OID 21
#define INT4_OID 23
#define TEXT_OID 25

#define COLUMNS 16 /* of a row, at most */
/* When libpq has no room for a whole TLS record, the rest stays in OpenSSL, where no poll sees it: we look again
 * after this long. */
#define TLS_AGAIN_MS 5
#define LOCK_LEAST_MS 100
#define STATEMENT_LEAST_MS 1000
#define MAKE_LOCK \
    "select pg_advisory_xact_lock(1919906913)" /* two who make the tables do so one after the other */

/* Users of one database whose search_path leads to schemas of their own would each make tables, and hold the same lock. */
#define MAKE_ONLY_ONES                                                                                    \
    "do $rota$ declare t text; begin"                                                                     \
    " select quote_ident(n.nspname) into t from pg_class c join pg_namespace n on n.oid = c.relnamespace" \
    " where c.relname = 'rota_line' and c.relkind in ('r', 'p') and n.nspname <> current_schema()"        \
    " and left(n.nspname, 3) <> 'pg_' limit 1;"                                                           \
    " if t is not null then raise exception 'the schema % has tables of Rota already: write ?schema=% to" \
    " use them, or ?schema=% for others, whose locks are others', t, t, quote_ident(current_schema());"   \
    " end if; end $rota$"

/* ---- Arguments --------------------------------------------------------------------------------------- */

static void put(struct rt_postgres_args *a, Oid type, const void *at, size_t size)
{
    assert(a->count < RT_SQL_ARGS);
    a->types[a->count] = type;
    a->values[a->count] = at;
    a->lengths[a->count] = (int)size;
    a->formats[a->count++] = 1; /* binary */
}

static void put_number(struct rt_postgres_args *a, int64_t number)
{
    a->numbers[a->count] = (int64_t)htobe64((uint64_t)number);
    put(a, INT8_OID, &a->numbers[a->count], sizeof(a->numbers[0]));
}

static Oid oid_of(char type)
{
    return type == 'i' ? INT8_OID : type == 'b' ? BYTEA_OID : TEXT_OID;
}

static void put_cell(struct rt_postgres_args *a, char type, const struct rt_sql_cell *c)
{
    if (c->null)
        put(a, oid_of(type), NULL, 0);
    else if (type == 'i')
        put_number(a, c->number);
    else
        put(a, oid_of(type), c->text != NULL ? c->text : "", c->size);
}

static void put_step(struct rt_postgres_args *a, const struct rt_postgres_link *l,
                     const struct rt_sql_step *s)
{
    const char *types = s->kind == RT_SQL_SAYING ? s->saying->types
                                                 : rt_postgres_statements[s->kind].types;
    a->count = 0;
    for (size_t i = 0; types[i] != '\0'; i++) {
        if (types[i] == 'c') {
            rt_postgres_line(a->channel, s->args[0].text, s->args[0].size);
            put(a, TEXT_OID, a->channel, strlen(a->channel));
        } else if (types[i] == 'w') {
            put_number(a, rt_sql_wall_us());
        } else if (types[i] == 'p') {
            put_number(a, rt_postgres_self(l)->pooler ? -1 : rt_pq.PQbackendPID(l->pg));
        } else {
            assert(i < s->count);
            put_cell(a, types[i], &s->args[i]);
        }
    }
}

/* ---- Statements --------------------------------------------------------------------------------------- */

/* Makes room for the answers of MORE statements; none is due any more. */
static bool make_room(struct rt_postgres_link *l, size_t more)
{
    l->due_count = 0;
    return rt_grow(&l->due, &l->due_room, more, sizeof(*l->due));
}

static void note_due(struct rt_postgres_link *l, size_t step, enum rt_sql_step_kind kind,
                     bool prepare)
{
    assert(l->due_count < l->due_room);
    l->due[l->due_count++] = (struct rt_postgres_due){
        .step = (uint32_t)step, .kind = (uint8_t)kind, .prepare = prepare};
}

/* Notes whether the server knows what D names. */
static void set_prepared(struct rt_postgres_link *l, const struct rt_postgres_due *d, bool known)
{
    uint64_t bit = UINT64_C(1) << (d->saying != NULL ? d->saying->slot : d->kind);
    uint32_t *own = d->many > 0 ? &l->own_many : &l->own;
    if (d->saying != NULL)
        *own = (uint32_t)(known ? *own | bit : *own & ~bit);
    else
        l->prepared = known ? l->prepared | bit : l->prepared & ~bit;
}

static bool say(struct rt_postgres_link *l, size_t step, enum rt_sql_step_kind kind,
                const char *sql, const struct rt_postgres_args *a)
{
    note_due(l, step, kind, false);
    return a == NULL ? rt_pq.PQsendQueryParams(l->pg, sql, 0, NULL, NULL, NULL, NULL, 1) == 1
                     : rt_pq.PQsendQueryParams(l->pg, sql, a->count, a->types, a->values,
                                               a->lengths, a->formats, 1) == 1;
}

static bool say_prepared(struct rt_postgres_link *l, size_t step, enum rt_sql_step_kind kind,
                         const struct rt_postgres_args *a)
{
    uint64_t bit = UINT64_C(1) << kind;
    char name[16];

    snprintf(name, sizeof(name), "rota%d", (int)kind);
    if ((l->prepared & bit) == 0) {
        note_due(l, step, kind, true);
        if (rt_pq.PQsendPrepare(l->pg, name, rt_postgres_statements[kind].sql, a->count,
                                a->types) != 1)
            return false;
        l->prepared |= bit;
    }
    note_due(l, step, kind, false);
    return rt_pq.PQsendQueryPrepared(l->pg, name, a->count, a->values, a->lengths, a->formats, 1) ==
           1;
}

static struct rt_postgres_due *note_own(struct rt_postgres_link *l, size_t step, size_t many,
                                        const struct rt_sql_saying *saying, bool prepare)
{
    note_due(l, step, RT_SQL_SAYING, prepare);
    struct rt_postgres_due *d = &l->due[l->due_count - 1];
    d->saying = saying;
    d->many = (uint32_t)many;
    return d;
}

/* Says a dialect's own words; MANY: for so many steps, 0: for one. */
static bool say_own(struct rt_postgres_link *l, size_t step, size_t many,
                    const struct rt_sql_saying *saying, const struct rt_postgres_args *a)
{
    const char *sql = many > 0 ? saying->many : saying->sql;
    char name[16];

    if (saying->slot == RT_SQL_ONCE) {
        bool good = say(l, step, RT_SQL_SAYING, sql, NULL);
        l->due[l->due_count - 1].saying = saying;
        return good;
    }
    snprintf(name, sizeof(name), many > 0 ? "rota_many%d" : "rota_own%d", (int)saying->slot);
    if (((many > 0 ? l->own_many : l->own) & (UINT32_C(1) << saying->slot)) == 0) {
        struct rt_postgres_due *d = note_own(l, step, many, saying, true);
        if (rt_pq.PQsendPrepare(l->pg, name, sql, a->count, a->types) != 1)
            return false;
        set_prepared(l, d, true);
    }
    (void)note_own(l, step, many, saying, false);
    return rt_pq.PQsendQueryPrepared(l->pg, name, a->count, a->values, a->lengths, a->formats, 1) ==
           1;
}

/* Says the statements of `ddl` one by one; a schema of its own is made, too. */
static bool say_make(struct rt_postgres_link *l, size_t step)
{
    const struct rt_postgres *p = rt_postgres_self(l);
    char text[2048];
    bool good = say(l, step, RT_SQL_MAKE, MAKE_LOCK, NULL);

    if (good && p->schema != NULL && strlen(p->schema) < 200) {
        snprintf(
            text, sizeof(text),
            "do $rota$ begin if not exists (select 1 from pg_namespace where nspname = %s) then"
            " create schema %s; end if; end $rota$",
            p->schema, p->search_path);
        good = say(l, step, RT_SQL_MAKE, text, NULL);
    }
    if (good && p->schema == NULL)
        good = say(l, step, RT_SQL_MAKE, MAKE_ONLY_ONES, NULL);
    for (const char *at = rt_postgres_sql_ddl, *end; good && (end = strstr(at, ";\n")) != NULL;
         at = end + 2) {
        snprintf(text, sizeof(text), "%.*s", (int)(end - at), at);
        good = say(l, step, RT_SQL_MAKE, text, NULL);
    }
    return good;
}

static bool say_listen(struct rt_postgres_link *l, size_t step, const struct rt_sql_step *s)
{
    bool on = s->kind == RT_SQL_LISTEN || s->kind == RT_SQL_LISTEN_LINE;
    char channel[RT_POSTGRES_CHANNEL], text[RT_POSTGRES_CHANNEL + 16];

    assert(s->count == 1);
    if (s->kind == RT_SQL_LISTEN || s->kind == RT_SQL_UNLISTEN)
        rt_postgres_bell(channel, s->args[0].number);
    else
        rt_postgres_line(channel, s->args[0].text, s->args[0].size);
    snprintf(text, sizeof(text), "%s %s", on ? "listen" : "unlisten", channel);
    return say(l, step, s->kind, text, NULL);
}

static bool say_step(struct rt_postgres_link *l, size_t step, const struct rt_sql_step *s)
{
    const struct rt_postgres_statement *st = &rt_postgres_statements[s->kind];
    struct rt_postgres_args a;

    if (s->kind == RT_SQL_MAKE)
        return say_make(l, step);
    if (s->kind == RT_SQL_SAYING) {
        put_step(&a, l, s);
        return say_own(l, step, 0, s->saying, &a);
    }
    if (st->sql == NULL)
        return say_listen(l, step, s);
    if (s->kind == RT_SQL_PASS &&
        !say_step(l, step, &(struct rt_sql_step){RT_SQL_LOCK, 1, s->args, NULL}))
        return false;
    put_step(&a, l, s);
    if (s->kind == RT_SQL_DOCTOR)
        return say(l, step, s->kind, st->sql, &a) &&
               say(l, step, s->kind, rt_postgres_sql_doctor_more, NULL);
    return st->once ? say(l, step, s->kind, st->sql, &a) : say_prepared(l, step, s->kind, &a);
}

/* Says the steps of F from AT on that leave as one statement: returns how many, 0 if that failed. */
static size_t say_steps(struct rt_postgres_link *l, const struct rt_sql_flight *f, size_t at)
{
    struct rt_postgres_args a;
    size_t n = rt_postgres_run(f, at);

    if (n > 1 && rt_postgres_put_many(l, &f->steps[at], n, &a))
        return say_own(l, at, n, f->steps[at].saying, &a) ? n : 0;
    return say_step(l, at, &f->steps[at]) ? 1 : 0;
}

/* ---- Sending -------------------------------------------------------------------------------------------- */

#define MOST_OF_A_STEP 16 /* statements: MAKE's */

/* The connection is no longer of use. */
static void broken(struct rt_postgres_link *l, int err)
{
    char gist[RT_POSTGRES_WHY];

    rt_postgres_one_line(gist, sizeof(gist), rt_pq.PQerrorMessage(l->pg));
    rt_postgres_fail(l, err, "%s",
                     l->notice[0] != '\0' ? l->notice
                     : gist[0] != '\0'    ? gist
                                          : "the connection broke");
}

static void take_off(struct rt_postgres_link *l)
{
    l->flying = true;
    l->fate = RT_SQL_LANDED;
    l->failed = 0;
    l->due_next = 0;
    l->null_seen = false;
    l->why[0] = '\0';
}

/* Comes after the last step. What does not leave at once leaves when there is room. */
static void close_flight(struct rt_postgres_link *l, bool good)
{
    if (!good || rt_pq.PQpipelineSync(l->pg) != 1) {
        broken(l, ROTA_UNREACHABLE);
        return;
    }
    rt_postgres_write(l);
}

void rt_postgres_write(struct rt_postgres_link *l)
{
    int left = rt_pq.PQflush(l->pg);

    if (left < 0) {
        broken(l, ROTA_UNREACHABLE);
        return;
    }
    if (l->wants_write == (left == 1))
        return;
    if (rt_postgres_watch(l, true, left == 1))
        l->wants_write = left == 1;
}

int rt_postgres_send(struct rt_sql_link *base, const struct rt_sql_flight *f)
{
    struct rt_postgres_link *l = rt_postgres_of(base);
    size_t n = 1;

    assert((l->state == RT_POSTGRES_UP || l->state == RT_POSTGRES_ENDED) && !l->flying &&
           f->count > 0);
    if (!make_room(l, 4 * f->count + MOST_OF_A_STEP))
        return ROTA_NOMEM;
    take_off(l);
    if (l->state == RT_POSTGRES_ENDED) /* told with its end */
        return 0;
    l->steps = f->steps;
    for (size_t i = 0; n > 0 && i < f->count; i += n)
        n = say_steps(l, f, i);
    close_flight(l, n > 0);
    return 0;
}

/* ---- The greeting ---------------------------------------------------------------------------------------- */

struct setting {
    int since; /* version */
    const char *name, *value;
};

/* Always by key and by index: a plan made while the tables were empty is kept when they no longer are. */
static const struct setting settings[] = {
    {0, "client_min_messages", "error"},
    {0, "default_transaction_isolation", "read committed"},
    {0, "enable_seqscan", "off"},
    {0, "enable_bitmapscan", "off"}, /* it does not remember which entries are dead */
    {90600, "idle_in_transaction_session_timeout", "0"},
    {110000, "jit", "off"},
    {120000, "plan_cache_mode", "force_generic_plan"},
    {140000, "idle_session_timeout", "0"},
};

static void put_settings(const struct rt_postgres_link *l, char *text, size_t size)
{
    const struct rt_postgres *p = rt_postgres_self(l);
    uint32_t ttl = l->base.base->ttl_ms;
    uint32_t lock = ttl / 10 > LOCK_LEAST_MS ? ttl / 10 : LOCK_LEAST_MS;
    uint32_t statement = ttl > STATEMENT_LEAST_MS ? ttl : STATEMENT_LEAST_MS;
    size_t used = (size_t)snprintf(text, size,
                                   "select set_config('lock_timeout', '%u', false),"
                                   " set_config('statement_timeout', '%u', false)",
                                   lock, statement);

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (rt_pq.PQserverVersion(l->pg) >= settings[i].since)
            used += (size_t)snprintf(text + used, size - used, ", set_config('%s', '%s', false)",
                                     settings[i].name, settings[i].value);
    if (p->search_path != NULL)
        snprintf(text + used, size - used, ", set_config('search_path', $1, false)");
}

void rt_postgres_greet(struct rt_postgres_link *l)
{
    const struct rt_postgres *p = rt_postgres_self(l);
    char text[1024];
    struct rt_postgres_args a = {.count = 0};

    l->state = RT_POSTGRES_GREETING;
    rt_postgres_alarm(l, l->until);
    if (!make_room(l, MOST_OF_A_STEP)) {
        rt_postgres_fail(l, ROTA_NOMEM, "out of memory");
        return;
    }
    if (!rt_postgres_watch(l, true, false))
        return;
    put_settings(l, text, sizeof(text));
    if (p->search_path != NULL)
        put(&a, TEXT_OID, p->search_path, strlen(p->search_path));
    take_off(l);
    close_flight(l, rt_pq.PQsetnonblocking(l->pg, 1) == 0 &&
                        rt_pq.PQenterPipelineMode(l->pg) == 1 && say(l, 0, RT_SQL_STEPS, text, &a));
}

static void greeted(struct rt_postgres_link *l)
{
    if (l->fate != RT_SQL_LANDED) {
        rt_postgres_end(l, l->fate == RT_SQL_AGAIN ? ROTA_UNREACHABLE : ROTA_UNSUPPORTED);
        return;
    }
    rt_postgres_alarm(l, RT_NEVER);
    l->state = RT_POSTGRES_UP;
    rt_dial_free(l->dial);
    l->dial = NULL;
    l->base.user->up(&l->base);
}

/* ---- Answers ----------------------------------------------------------------------------------------------- */

static int64_t number_of(Oid type, const char *at)
{
    uint64_t v8;
    uint32_t v4;
    uint16_t v2;

    switch (type) {
    case BOOL_OID:
        return *at != 0;
    case INT8_OID:
        memcpy(&v8, at, sizeof(v8));
        return (int64_t)be64toh(v8);
    case INT4_OID:
        memcpy(&v4, at, sizeof(v4));
        return (int32_t)be32toh(v4);
    default:
        memcpy(&v2, at, sizeof(v2));
        return (int16_t)be16toh(v2);
    }
}

static void read_cell(struct rt_sql_cell *c, const PGresult *r, int row, int column)
{
    Oid type = rt_pq.PQftype(r, column);
    const char *at = rt_pq.PQgetvalue(r, row, column);

    *c = (struct rt_sql_cell){.null = rt_pq.PQgetisnull(r, row, column) == 1};
    if (c->null)
        return;
    if (type == BOOL_OID || type == INT8_OID || type == INT4_OID || type == INT2_OID) {
        c->number = number_of(type, at);
    } else {
        c->text = at;
        c->size = (size_t)rt_pq.PQgetlength(r, row, column);
    }
}

static void tell_rows(struct rt_postgres_link *l, size_t step, const PGresult *r)
{
    struct rt_sql_cell cells[COLUMNS];
    int columns = rt_pq.PQnfields(r);
    uint32_t life = l->life;

    assert(columns <= COLUMNS);
    for (int row = 0; row < rt_pq.PQntuples(r) && l->life == life; row++) {
        for (int i = 0; i < columns; i++)
            read_cell(&cells[i], r, row, i);
        l->base.user->row(&l->base, step, cells, (size_t)columns);
    }
}

static void tell_answer(struct rt_postgres_link *l, const struct rt_postgres_due *d, PGresult *r)
{
    struct rt_sql_cell cell;

    if (d->prepare || d->kind == RT_SQL_STEPS)
        return;
    if (d->many > 0) {
        rt_postgres_tell_many(l, d, r);
        return;
    }
    enum rt_postgres_out out = d->saying == NULL ? rt_postgres_statements[d->kind].out
                               : d->saying->rows ? RT_POSTGRES_ROWS
                                                 : RT_POSTGRES_CHANGED;
    switch (out) {
    case RT_POSTGRES_NOTHING:
        return;
    case RT_POSTGRES_ROWS:
        tell_rows(l, d->step, r);
        return;
    case RT_POSTGRES_CHANGED:
        l->base.user->changed(&l->base, d->step, strtoull(rt_pq.PQcmdTuples(r), NULL, 10));
        return;
    case RT_POSTGRES_COUNT:
        read_cell(&cell, r, 0, 0);
        l->base.user->changed(&l->base, d->step, (uint64_t)cell.number);
        return;
    }
}

/* A server that ends the connection may already have done it all; if it gives no reason, we cannot tell
 * what it means. */
static void take_error(struct rt_postgres_link *l, const struct rt_postgres_due *d,
                       const PGresult *r)
{
    const char *sqlstate = rt_pq.PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *severity = rt_pq.PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = rt_pq.PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);

    /* A statement that is not what we prepared (somebody changed the tables, or sits in between) is prepared anew
     * only on a new connection. */
    bool stale = sqlstate != NULL && strstr("26000 0A000 42P05", sqlstate) != NULL;
    if (sqlstate == NULL || stale || (severity != NULL && strcmp(severity, "ERROR") != 0)) {
        if (text != NULL)
            rt_postgres_one_line(l->notice, sizeof(l->notice), text);
        broken(l, ROTA_UNREACHABLE);
        return;
    }
    if (d->prepare)
        set_prepared(l, d, false);
    if (l->fate != RT_SQL_LANDED)
        return;
    l->fate = rt_postgres_meaning(sqlstate);
    l->failed = d->step;
    rt_postgres_one_line(l->why, sizeof(l->why), text != NULL ? text : sqlstate);
}

static void land(struct rt_postgres_link *l)
{
    l->flying = false;
    if (l->state == RT_POSTGRES_GREETING)
        greeted(l);
    else
        l->base.user->landed(&l->base, l->fate, l->failed, l->why);
}

/* D was not run because something before it failed; we then cannot rely on a statement's name. */
static void skip(struct rt_postgres_link *l, const struct rt_postgres_due *d)
{
    if (d->prepare)
        set_prepared(l, d, false);
    l->due_next++;
}

static void take_result(struct rt_postgres_link *l, PGresult *r)
{
    static const struct rt_postgres_due sync = {.kind = RT_SQL_STEPS};
    ExecStatusType status = rt_pq.PQresultStatus(r);
    const struct rt_postgres_due *d = l->due_next < l->due_count ? &l->due[l->due_next] : &sync;

    if (status == PGRES_PIPELINE_SYNC && d == &sync) {
        land(l);
    } else if (status == PGRES_FATAL_ERROR) { /* with the Sync: the COMMIT failed */
        l->due_next += d != &sync;
        take_error(l, d, r);
    } else if (status == PGRES_PIPELINE_ABORTED && d != &sync) {
        skip(l, d);
    } else if ((status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) && d != &sync) {
        l->due_next++;
        tell_answer(l, d, r);
    } else {
        rt_postgres_fail(l, ROTA_PROTOCOL, "an answer that nobody asked for (%d)", (int)status);
    }
}

/* Each statement's answers end with a NULL; in a pipeline two NULLs never come in a row. */
static bool next_result(struct rt_postgres_link *l)
{
    PGresult *r = rt_pq.PQgetResult(l->pg);

    if (r == NULL && l->null_seen) {
        rt_postgres_fail(l, ROTA_PROTOCOL, "an answer is missing");
        return false;
    }
    l->null_seen = r == NULL;
    if (r != NULL)
        take_result(l, r);
    rt_pq.PQclear(r);
    return true;
}

static void tell_notices(struct rt_postgres_link *l)
{
    uint32_t life = l->life;
    PGnotify *n;

    while (l->life == life && l->state == RT_POSTGRES_UP && (n = rt_pq.PQnotifies(l->pg)) != NULL) {
        l->base.user->notice(&l->base, n->relname, n->extra);
        rt_pq.PQfreemem(n);
    }
}

void rt_postgres_read(struct rt_postgres_link *l)
{
    uint32_t life = l->life;
    bool good = rt_pq.PQconsumeInput(l->pg) == 1;

    while (l->life == life && l->state < RT_POSTGRES_ENDED && l->flying &&
           rt_pq.PQisBusy(l->pg) == 0)
        if (!next_result(l))
            return;
    if (l->life != life || l->state >= RT_POSTGRES_ENDED)
        return;
    tell_notices(l);
    if (l->life != life || l->state >= RT_POSTGRES_ENDED)
        return;
    if (!good || rt_pq.PQstatus(l->pg) == CONNECTION_BAD)
        broken(l, ROTA_UNREACHABLE);
    else if (l->state == RT_POSTGRES_UP && l->flying && rt_pq.PQsslInUse(l->pg) == 1)
        rt_postgres_alarm(l, rt_loop_now(l->loop) + TLS_AGAIN_MS * RT_MS);
}
