/* SPDX-License-Identifier: Apache-2.0 */
/* Which statement is said in which words, about which table; and what a row says. */
#include "engine/sql/dialect/lease.h"

#include "base/alloc.h"
#include "base/bug.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- The words ---------------------------------------------------------------------------------- */

#define P(name) rt_lease_postgres_##name
#define M(name) rt_lease_mysql_##name
extern const char P(make)[], P(row_ddl)[], P(row_columns)[], P(row_shape)[], P(row_take)[],
    P(row_renew)[], P(row_leave)[], P(row_guard)[], P(row_look)[], P(row_list)[], P(row_break)[],
    P(row_sweep)[], P(row_tidy)[], P(version_ddl)[], P(version_columns)[], P(version_shape)[],
    P(version_take)[], P(version_first)[], P(version_renew)[], P(version_leave)[],
    P(version_guard)[], P(version_look)[], P(version_list)[], P(version_break)[], P(version_tidy)[],
    P(shedlock_ddl)[], P(shedlock_columns)[], P(shedlock_shape)[], P(shedlock_take)[],
    P(shedlock_renew)[], P(shedlock_leave)[], P(shedlock_guard)[], P(shedlock_look)[],
    P(shedlock_list)[], P(shedlock_break)[];
extern const char M(row_ddl)[], M(row_columns)[], M(row_shape)[], M(row_begin)[], M(row_number)[],
    M(row_take)[], M(row_renew)[], M(row_have)[], M(row_leave)[], M(row_guard)[], M(row_look)[],
    M(row_list)[], M(row_break)[], M(row_sweep)[], M(row_tidy)[], M(version_ddl)[],
    M(version_columns)[], M(version_shape)[], M(version_take)[], M(version_first)[],
    M(version_renew)[], M(version_have)[], M(version_leave)[], M(version_guard)[],
    M(version_look)[], M(version_list)[], M(version_break)[], M(version_tidy)[], M(shedlock_zone)[],
    M(shedlock_ddl)[], M(shedlock_columns)[], M(shedlock_shape)[], M(shedlock_take)[],
    M(shedlock_first)[], M(shedlock_renew)[], M(shedlock_have)[], M(shedlock_leave)[],
    M(shedlock_guard)[], M(shedlock_look)[], M(shedlock_list)[], M(shedlock_break)[];

/* What all of them have. */
#define COMMON(T, name)                                                         \
    [RT_LEASE_COLUMNS] = T(name##_columns), [RT_LEASE_SHAPE] = T(name##_shape), \
    [RT_LEASE_TAKE] = T(name##_take), [RT_LEASE_RENEW] = T(name##_renew),       \
    [RT_LEASE_LEAVE] = T(name##_leave), [RT_LEASE_GUARD] = T(name##_guard),     \
    [RT_LEASE_LOOK] = T(name##_look), [RT_LEASE_LIST] = T(name##_list),         \
    [RT_LEASE_BREAK] = T(name##_break), [RT_LEASE_SAYS] = T(name##_ddl)

const char *const rt_lease_words[3][2][RT_LEASE_SAYS + 1] = {
    {{COMMON(P, row), [RT_LEASE_SWEEP] = P(row_sweep), [RT_LEASE_TIDY] = P(row_tidy),
      [RT_LEASE_MAKE] = P(make)},
     {[RT_LEASE_COLUMNS] = M(row_columns),
      [RT_LEASE_SHAPE] = M(row_shape),
      [RT_LEASE_TAKE] = M(row_begin),
      [RT_LEASE_TAKE_2] = M(row_number),
      [RT_LEASE_TAKE_3] = M(row_take),
      [RT_LEASE_RENEW] = M(row_renew),
      [RT_LEASE_HAVE] = M(row_have),
      [RT_LEASE_LEAVE] = M(row_leave),
      [RT_LEASE_GUARD] = M(row_guard),
      [RT_LEASE_LOOK] = M(row_look),
      [RT_LEASE_LIST] = M(row_list),
      [RT_LEASE_BREAK] = M(row_break),
      [RT_LEASE_SWEEP] = M(row_sweep),
      [RT_LEASE_TIDY] = M(row_tidy),
      [RT_LEASE_SAYS] = M(row_ddl)}},
    {{COMMON(P, version), [RT_LEASE_TAKE_2] = P(version_first), [RT_LEASE_TIDY] = P(version_tidy),
      [RT_LEASE_MAKE] = P(make)},
     {COMMON(M, version), [RT_LEASE_TAKE_2] = M(version_first), [RT_LEASE_HAVE] = M(version_have),
      [RT_LEASE_TIDY] = M(version_tidy)}},
    {{COMMON(P, shedlock), [RT_LEASE_MAKE] = P(make)},
     {COMMON(M, shedlock), [RT_LEASE_TAKE_2] = M(shedlock_first),
      [RT_LEASE_HAVE] = M(shedlock_have), [RT_LEASE_ZONE] = M(shedlock_zone)}},
};

/* ---- The table ---------------------------------------------------------------------------------- */

struct names { /* what stands in braces */
    char table[200], fence[200], index[120], shown[160], schema[80], name[80];
};

static bool is_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return size > 0 && size <= 58 && !isdigit((unsigned char)text[0]); /* and "_fence" */
}

/* TABLE or SCHEMA.TABLE. PostgreSQL folds unquoted names to lower case, and so does this. */
static bool take_names(struct names *n, const char *table, bool postgres)
{
    const char *dot = strchr(table, '.'), *name = dot != NULL ? dot + 1 : table;
    size_t size = dot != NULL ? (size_t)(dot - table) : 0;
    char schema[64] = "", own[64], q = postgres ? '"' : '`';
    if ((dot != NULL && !is_name(table, size)) || !is_name(name, strlen(name)))
        return false;
    (void)snprintf(schema, sizeof(schema), "%.*s", (int)size, table);
    (void)snprintf(own, sizeof(own), "%s", name);
    for (char *p = schema; postgres && *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    for (char *p = own; postgres && *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    char before[80] = "";
    if (dot != NULL)
        (void)snprintf(before, sizeof(before), "%c%s%c.", q, schema, q);
    (void)snprintf(n->table, sizeof(n->table), "%s%c%s%c", before, q, own, q);
    (void)snprintf(n->fence, sizeof(n->fence), "%s%c%s_fence%c", before, q, own, q);
    (void)snprintf(n->index, sizeof(n->index), "%c%.54s_expires%c", q, own, q);
    (void)snprintf(n->shown, sizeof(n->shown), "%s%s%s", schema, dot != NULL ? "." : "", own);
    (void)snprintf(n->schema, sizeof(n->schema), dot != NULL ? "'%s'" : "database()", schema);
    (void)snprintf(n->name, sizeof(n->name), "'%s'", own);
    return true;
}

/* Copies TEXT to OUT (NULL: only counts) with its braces filled in. Returns how many bytes, without a NUL. */
static size_t fill(const char *text, const struct names *n, char *out)
{
    const struct {
        const char *brace, *value;
    } all[] = {{"{table}", n->table}, {"{fence}", n->fence},   {"{index}", n->index},
               {"{shown}", n->shown}, {"{schema}", n->schema}, {"{name}", n->name}};
    size_t used = 0;
    while (*text != '\0') {
        size_t i = 0, size = 1;
        const char *value = text;
        while (*text == '{' && i < 6 && strncmp(text, all[i].brace, strlen(all[i].brace)) != 0)
            i++;
        if (*text == '{' && i < 6) {
            value = all[i].value;
            size = strlen(value);
        }
        if (out != NULL)
            memcpy(out + used, value, size);
        used += size;
        text += *text == '{' && i < 6 ? strlen(all[i].brace) : 1;
    }
    return used;
}

/* ---- Statements --------------------------------------------------------------------------------- */

#define OF_A_TICKET "tiiiititti"

static const char *types_of(enum rt_lease_say kind)
{
    switch (kind) {
    case RT_LEASE_LOOK:
    case RT_LEASE_LIST:
        return "t";
    case RT_LEASE_BREAK:
        return "ti";
    case RT_LEASE_SWEEP:
    case RT_LEASE_TIDY:
        return "i";
    default:
        return kind < RT_LEASE_SLOTS ? OF_A_TICKET : "";
    }
}

static struct rt_sql_saying saying_of(const struct rt_lease_conn *c, size_t kind, const char *sql)
{
    bool have = rt_lease_says(c, RT_LEASE_HAVE);
    bool reads = kind == RT_LEASE_HAVE || kind == RT_LEASE_LOOK || kind == RT_LEASE_LIST ||
                 kind == RT_LEASE_ZONE || kind == RT_LEASE_COLUMNS || kind == RT_LEASE_SHAPE;
    return (struct rt_sql_saying){
        .sql = sql,
        .types = types_of((enum rt_lease_say)kind),
        .slot = (uint8_t)(kind < RT_LEASE_SLOTS ? kind : RT_SQL_ONCE),
        .rows = reads || (kind == RT_LEASE_RENEW && !have) || kind == RT_LEASE_GUARD,
        .reads = reads,
    };
}

#ifdef ROTA_PLANTED
/* Each WHAT in TEXT becomes WITH, which is not longer, padded with blanks. */
static void replace(char *text, const char *what, const char *with)
{
    for (char *at; (at = strstr(text, what)) != NULL; text = at + strlen(what)) {
        memset(at, ' ', strlen(what));
        memcpy(at, with, strlen(with));
    }
}

static bool is_take(size_t kind)
{
    return kind <= RT_LEASE_TAKE_3;
}

static void plant(size_t kind, char *text)
{
    static const char *const owners[][2] = {
        {"r.session = $2", "$2 = $2"}, {"r.nonce = $3", "$3 = $3"},
        {"session = ?2", "?2 = ?2"},   {"nonce = ?3", "?3 = ?3"},
        {"locked_by = $9", "$9 = $9"}, {"locked_by = ?9", "?9 = ?9"}};
    bool any = (RT_BUG(RT_BUG_LEAVES_ANY_ROW) && kind == RT_LEASE_LEAVE) ||
               (RT_BUG(RT_BUG_RENEWS_ANY_ROW) && (kind == RT_LEASE_RENEW || kind == RT_LEASE_HAVE));
    for (size_t i = 0; any && i < sizeof(owners) / sizeof(owners[0]); i++)
        replace(text, owners[i][0], owners[i][1]);
    if (RT_BUG(RT_BUG_ENDS_BY_OUR_CLOCK) && is_take(kind)) {
        replace(text, "(date_part('epoch', statement_timestamp()) * 1000000)::bigint + $4", "$4");
        replace(text, "timestampdiff(microsecond, 19700101, utc_timestamp(6)) + ?4", "?4");
    }
}

static uint64_t ttl_us(const struct rt_lease_conn *c, size_t kind)
{
    struct timespec now = {0};
    if (RT_BUG(RT_BUG_ENDS_BY_OUR_CLOCK) && is_take(kind))
        (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + c->sql.base.ttl_ms * UINT64_C(1000);
}
#else
static void plant(size_t kind, char *text)
{
    (void)kind;
    (void)text;
}

static uint64_t ttl_us(const struct rt_lease_conn *c, size_t kind)
{
    (void)kind;
    return c->sql.base.ttl_ms * UINT64_C(1000);
}
#endif

/* The DDL, statement by statement: each ends with a semicolon at the end of a line. */
static void split(struct rt_lease_conn *c, char *at)
{
    size_t kind = RT_LEASE_MAKE;
    for (char *end; (end = strstr(at, ";\n")) != NULL; at = end + 2) {
        *end = '\0';
        while (rt_lease_says(c, (enum rt_lease_say)kind))
            kind++;
        assert(kind < RT_LEASE_SAYS);
        c->says[kind] = saying_of(c, kind, at);
    }
}

int rt_lease_speech(struct rt_lease_conn *c, const char *table, enum rt_sql_tongue tongue)
{
    struct names n;
    const char *const *words = c->dialect->words[tongue == RT_SQL_MYSQL];
    size_t size = 0;
    if (!take_names(&n, table, tongue == RT_SQL_POSTGRES))
        return rt_lease_fail(c, ROTA_INVALID,
                             "?table=%.60s is no name of a table: letters, digits and _, perhaps "
                             "behind a schema and a dot",
                             table);
    (void)snprintf(c->table, sizeof(c->table), "%s", n.shown);
    for (size_t i = 0; i <= RT_LEASE_SAYS; i++)
        size += words[i] != NULL ? (i == RT_LEASE_SAYS ? 2 : 1) * (fill(words[i], &n, NULL) + 1)
                                 : 0;
    char *at = c->texts = rt_alloc(size);
    if (at == NULL)
        return rt_words_nomem(&c->sql.base);
    for (size_t i = 0; i < RT_LEASE_SAYS; i++)
        c->says[i].sql = words[i]; /* which ones there are */
    for (size_t i = 0; i < RT_LEASE_SAYS; i++) {
        if (words[i] == NULL)
            continue;
        c->says[i] = saying_of(c, i, at);
        size_t length = fill(words[i], &n, at); /* it is terminated: rt_alloc zeroes */
        plant(i, at);
        at += length + 1;
    }
    c->ddl = at;
    at += fill(words[RT_LEASE_SAYS], &n, at) + 1;
    (void)fill(words[RT_LEASE_SAYS], &n, at);
    split(c, at);
    return 0;
}

/* "LABEL rota:SESSIONNONCE": others compare it as a whole. */
static void id_of(const struct rt_lease_conn *c, const struct rt_lease_ticket *t,
                  char out[RT_LEASE_ID])
{
    (void)snprintf(out, RT_LEASE_ID, "%.200s rota:%016llx%016llx", c->sql.label,
                   (unsigned long long)t->session, (unsigned long long)t->nonce);
}

void rt_lease_say(struct rt_lease_conn *c, struct rt_sql_book *b, enum rt_lease_say kind,
                  const struct rt_lease_ticket *t)
{
    char id[RT_LEASE_ID];
    if (!rt_lease_says(c, kind))
        return;
    id_of(c, t, id);
    rt_sql_say_own(b, &c->says[kind], rt_sql_text(t->name), rt_sql_number(t->session),
                   rt_sql_number(t->nonce), rt_sql_number(ttl_us(c, kind)), rt_sql_number(t->owner),
                   rt_sql_text(c->host), rt_sql_number((uint64_t)c->process),
                   rt_sql_text(c->sql.label), rt_sql_text(id), rt_sql_number((uint64_t)t->seen));
}

/* ---- Rows --------------------------------------------------------------------------------------- */

#define MARK " rota:"
#define DIGITS 32

/* Whose locked_by TEXT is, if it is ours. */
static void read_id(const char *text, struct rt_lease_row *out)
{
    size_t size = strlen(text), tail = strlen(MARK) + DIGITS;
    char half[17];
    if (size < tail || strncmp(text + size - tail, MARK, strlen(MARK)) != 0 ||
        strspn(text + size - DIGITS, "0123456789abcdef") != DIGITS) {
        (void)snprintf(out->label, sizeof(out->label), "%s", text);
        return;
    }
    (void)snprintf(half, sizeof(half), "%.16s", text + size - DIGITS);
    out->session = strtoull(half, NULL, 16);
    out->nonce = strtoull(text + size - 16, NULL, 16);
    out->ours = true;
    (void)snprintf(out->label, sizeof(out->label), "%.*s", (int)(size - tail), text);
}

void rt_lease_read(const struct rt_lease_conn *c, const struct rt_sql_row *row,
                   struct rt_lease_row *out)
{
    *out = (struct rt_lease_row){0};
    if (row == NULL)
        return;
    out->number = (uint64_t)rt_sql_int(row, 1);
    out->session = (uint64_t)rt_sql_int(row, 2);
    out->nonce = (uint64_t)rt_sql_int(row, 3);
    out->left_us = rt_sql_int(row, 4);
    out->held = out->left_us > 0;
    out->since_us = rt_sql_int(row, 5);
    out->owner = (uint64_t)rt_sql_int(row, 6);
    out->ours = out->session != 0;
    if (c->dialect->by_text)
        read_id(rt_sql_str(row, 9), out);
    else if (rt_sql_str(row, 9)[0] != '\0')
        (void)snprintf(out->label, sizeof(out->label), "%s", rt_sql_str(row, 9));
    else /* somebody else's: by hand, or by the same statements */
        (void)snprintf(out->label, sizeof(out->label), "%.200s/%lld", rt_sql_str(row, 7),
                       (long long)rt_sql_int(row, 8));
}
