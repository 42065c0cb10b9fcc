/* SPDX-License-Identifier: Apache-2.0 */
/* Templates become statements, and statements are said. */
#include "engine/sql/hold/ways.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const struct rt_sqlhold_way *const rt_sqlhold_ways[] = {&rt_sqlhold_getlock,
                                                        &rt_sqlhold_advisory,
                                                        &rt_sqlhold_forupdate_mysql,
                                                        &rt_sqlhold_forupdate_postgres,
                                                        &rt_sqlhold_table_mysql,
                                                        &rt_sqlhold_table_postgres,
                                                        NULL};

#define TYPES "tiiiitit"
#define ARGS 8

/* ---- Templates ------------------------------------------------------------------------------------------------------ */

struct text { /* what a template becomes; `at` NULL: only counted */
    char *at;
    size_t size;
};

static void add(struct text *t, const char *from, size_t n)
{
    if (t->at != NULL)
        memcpy(t->at + t->size, from, n);
    t->size += n;
}

static void add_text(struct text *t, const char *from)
{
    add(t, from, strlen(from));
}

/* The key, computed by us or by the server. */
static const char *key_of(const struct rt_sqlhold_conn *c)
{
    if (!c->way->keyed)
        return "$2::bigint";
    return c->keys == RT_HOLD_HASHTEXTEXTENDED ? "hashtextextended($1::text, 0)"
           : c->keys == RT_HOLD_HASHTEXT       ? "hashtext($1::text)::bigint"
                                               : "$2::bigint";
}

static void add_args(struct text *t, const struct rt_sqlhold_conn *c)
{
    const char *key = key_of(c);
    if (!rt_sqlhold_keys_pair(c->keys)) {
        add_text(t, key);
        return;
    }
    add_text(t, "(");
    add_text(t, key);
    add_text(t, " >> 32)::int4, ((");
    add_text(t, key);
    add_text(t, " << 32) >> 32)::int4");
}

/* What is behind the dot in "a.b", or the whole. */
static const char *last_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

static void add_schema(struct text *t, const char *table)
{
    const char *dot = strrchr(table, '.');
    if (dot == NULL) {
        add_text(t, "DATABASE()");
        return;
    }
    add_text(t, "'");
    add(t, table, (size_t)(dot - table));
    add_text(t, "'");
}

static void add_word(struct text *t, const struct rt_sqlhold_conn *c, const char *word, size_t n)
{
    char number[24];
    uint32_t ttl = c->sql.base.ttl_ms;
#define IS(what) (n == sizeof(what) - 1 && memcmp(word, what, n) == 0)
    if (IS("key"))
        add_text(t, key_of(c));
    else if (IS("args"))
        add_args(t, c);
    else if (IS("sub"))
        add_text(t, rt_sqlhold_keys_pair(c->keys) ? "2" : "1");
    else if (IS("table"))
        add_text(t, c->table);
    else if (IS("table_only"))
        add_text(t, last_of(c->table));
    else if (IS("schema_only"))
        add_schema(t, c->table);
    else if (IS("column") || IS("column_only"))
        add_text(t, c->column);
    else if (IS("schema"))
        add_text(t, c->schema_said ? "said" : "");
    else {
        assert(IS("ttl") || IS("third") || IS("ttl_s"));
        snprintf(number, sizeof(number), "%u",
                 IS("ttl")     ? ttl
                 : IS("third") ? ttl / 3
                               : (ttl + 999) / 1000);
        add_text(t, number);
    }
#undef IS
}

static void expand(struct text *t, const struct rt_sqlhold_conn *c, const char *template)
{
    for (const char *at = template; *at != '\0';) {
        size_t plain = strcspn(at, "{");
        add(t, at, plain);
        at += plain;
        if (*at != '{')
            break;
        size_t n = strcspn(at + 1, "}");
        add_word(t, c, at + 1, n);
        at += n + 2;
    }
}

static char *expanded(const struct rt_sqlhold_conn *c, const char *template)
{
    struct text t = {0};
    expand(&t, c, template);
    t.at = rt_alloc(t.size + 1); /* zeroed */
    t.size = 0;
    if (t.at != NULL)
        expand(&t, c, template);
    return t.at;
}

static bool answers(const char *sql)
{
    return strncmp(sql, "select", 6) == 0 || strncmp(sql, "SELECT", 6) == 0 ||
           strstr(sql, " returning ") != NULL;
}

static bool changes_only_by_itself(enum rt_sqlhold_say say)
{
    return say == RT_HOLD_SAY_FENCE || say == RT_HOLD_SAY_FENCE_SHARED ||
           say == RT_HOLD_SAY_FENCE_SHARED_ROW || say == RT_HOLD_SAY_ENSURE ||
           say == RT_HOLD_SAY_TIDY;
}

static void set_saying(struct rt_sqlhold_conn *c, enum rt_sqlhold_say say)
{
    bool once = say >= RT_HOLD_SAYS;
    c->sayings[say] = (struct rt_sql_saying){
        .sql = c->texts[say],
        .types = once ? "" : TYPES,
        .slot = once ? RT_SQL_ONCE : (uint8_t)say,
        .rows = answers(c->texts[say]),
        /* Nothing that a seat says is wrapped in a transaction: the way itself says where one begins. */
        .reads = c->way->here || !changes_only_by_itself(say),
    };
}

static bool used(const struct rt_sqlhold_conn *c, enum rt_sqlhold_say say)
{
    bool ours = say == RT_HOLD_SAY_MAKE2 ||
                say == RT_HOLD_SAY_THERE; /* a user's own: SHAPE says it all */
    return c->way->sql[say] != NULL && !(ours && c->table_said);
}

static int make_ddl(struct rt_sqlhold_conn *c)
{
    struct text t = {0};
    for (int pass = 0; pass < 2; pass++) {
        t.size = 0;
        for (int say = RT_HOLD_SAY_MAKE; say <= RT_HOLD_SAY_MAKE2; say++)
            if (c->texts[say] != NULL) {
                add_text(&t, c->texts[say]);
                add_text(&t, ";\n");
            }
        if (pass == 0 && (t.at = c->ddl = rt_alloc(t.size + 1)) == NULL)
            return ROTA_NOMEM;
    }
    return 0;
}

int rt_sqlhold_words_open(struct rt_sqlhold_conn *c)
{
    for (int say = 0; say < RT_HOLD_ALL; say++) {
        if (!used(c, (enum rt_sqlhold_say)say))
            continue;
        c->texts[say] = expanded(c, c->way->sql[say]);
        if (c->texts[say] == NULL)
            return rt_words_nomem(rt_sqlhold_base(c));
        set_saying(c, (enum rt_sqlhold_say)say);
    }
    return make_ddl(c) == 0 ? 0 : rt_words_nomem(rt_sqlhold_base(c));
}

void rt_sqlhold_words_close(struct rt_sqlhold_conn *c)
{
    for (int say = 0; say < RT_HOLD_ALL; say++)
        rt_free(c->texts[say]);
    rt_free(c->ddl);
    rt_free(c->prefix);
    rt_free(c->table);
    rt_free(c->column);
}

const char *rt_sqlhold_ddl(const struct rt_conn *conn)
{
    return ((const struct rt_sqlhold_conn *)(const void *)conn)->ddl;
}

/* ---- Tickets' own ---------------------------------------------------------------------------------------------------- */

static void spell_table(const struct rt_sqlhold_conn *c, struct rt_sqlhold_ticket *t)
{
    static const char *const mysql[] = {
        "LOCK TABLES %s WRITE", "LOCK TABLES %s WRITE NOWAIT",
        /* if somebody has locked it, it exists */
        "SET STATEMENT lock_wait_timeout=0 FOR CREATE TABLE IF NOT EXISTS %s (x INT)"};
    static const char *const postgres[] = {
        "lock table %s in access exclusive mode", "lock table %s in access exclusive mode nowait",
        "do $r$ begin perform pg_advisory_xact_lock(1919906913); create table if not exists %s (); end $r$"};
    bool my = c->way->tongue == RT_SQL_MYSQL;
    char quoted[2 * RT_HOLD_SPELLED];
    rt_sqlhold_table_name(c->prefix, t->name, t->spelled);
    rt_sqlhold_quote(my ? '`' : '"', t->spelled, quoted);
    for (int i = 0; i < 3; i++) {
        const char *text = my ? mysql[i] : postgres[i], *at = strstr(text, "%s");
        snprintf(t->texts[i], sizeof(t->texts[i]), "%.*s%s%s", (int)(at - text), text, quoted,
                 at + 2);
        t->once[i] = (struct rt_sql_saying){
            .sql = t->texts[i], .types = "", .slot = RT_SQL_ONCE, .reads = true};
    }
}

/* Whether NAME fits the column: cut short, it would be another name. */
static bool fits(const struct rt_sqlhold_conn *c, const char *name)
{
    int64_t size = 0;
    for (; *name != '\0'; name++)
        size += c->name_bytes ||
                ((unsigned char)*name & 0xc0) != 0x80; /* the first byte of each character */
    return c->name_most == 0 || size <= c->name_most;
}

int rt_sqlhold_unfit(struct rt_sqlhold_conn *c)
{
    return c->unfit[0] == '\0' ? 0 : rt_sqlhold_fail(c, ROTA_INVALID, "%s", c->unfit);
}

int rt_sqlhold_spell(struct rt_sqlhold_conn *c, struct rt_sqlhold_ticket *t)
{
    if (c->unfit[0] != '\0')
        return rt_sqlhold_unfit(c);
    if (c->way->rows && !fits(c, t->name))
        return rt_sqlhold_fail(c, ROTA_INVALID,
                               "%.80s is too long a name: the column %.60s of %.60s takes %lld %s",
                               t->name, c->column, c->table, (long long)c->name_most,
                               c->name_bytes ? "bytes" : "characters");
    const char *why = c->way->tables && c->prefix[0] == '\0'
                          ? rt_sqlhold_no_table_name(c->way->tongue, t->name)
                          : NULL;
    if (why != NULL)
        return rt_sqlhold_fail(c, ROTA_INVALID, "%.80s cannot be a table: %s", t->name, why);
    if (c->way->tables)
        spell_table(c, t);
    else
        rt_sqlhold_lock_name(t->name, t->spelled);
    if (c->way->keyed && !rt_sqlhold_key(c->keys, t->name, &t->key))
        return rt_sqlhold_fail(c, ROTA_INVALID, "%.80s has no key by this ?keys=", t->name);
    return 0;
}

/* ---- Saying ---------------------------------------------------------------------------------------------------------- */

void rt_sqlhold_say(struct rt_sqlhold_conn *c, struct rt_sql_book *b, enum rt_sqlhold_say say,
                    const struct rt_sqlhold_about *about)
{
    const struct rt_sqlhold_ticket *t = about->ticket;
    char spelled[RT_HOLD_SPELLED] = "";
    int64_t key = t != NULL ? t->key : 0;
    if (say >= RT_HOLD_LOCK) {
        assert(t != NULL && say < RT_HOLD_END);
        rt_sql_say_own_cells(b, &t->once[say - RT_HOLD_LOCK], NULL, 0);
        return;
    }
    if (c->texts[say] == NULL)
        return;
    if (say >= RT_HOLD_SAYS) {
        rt_sql_say_own_cells(b, &c->sayings[say], NULL, 0);
        return;
    }
    if (t == NULL && about->name != NULL) {
        if (c->way->tables)
            rt_sqlhold_table_name(c->prefix, about->name, spelled);
        else
            rt_sqlhold_lock_name(about->name, spelled);
        (void)rt_sqlhold_key(c->keys, about->name, &key);
    }
    const char *name = t != NULL ? t->name : about->name != NULL ? about->name : "";
    struct rt_sql_cell args[ARGS] = {rt_sql_text(name),
                                     rt_sql_number((uint64_t)key),
                                     rt_sql_number(about->holder),
                                     rt_sql_number(t != NULL ? t->session : about->session),
                                     rt_sql_number(t != NULL ? t->owner : about->owner),
                                     rt_sql_text(c->sql.label),
                                     rt_sql_number(about->number),
                                     rt_sql_text(t != NULL ? t->spelled : spelled)};
    rt_sql_say_own_cells(b, &c->sayings[say], args, ARGS);
}
