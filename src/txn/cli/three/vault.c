/* SPDX-License-Identifier: Apache-2.0 */
/* What a participant of three-phase commit does at its database. */
#include "txn/cli/three/vault.h"

#include "base/alloc.h"
#include "net/loop.h"
#include "txn/manager/resource_inside.h"

#include <rota.h>

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CALL_NS INT64_C(5000000000)
#define LINE 256
#define EPOCH "00000000000000000000000000000000" /* no transaction has this id */
#define GATE_TRIES 40
#define GATE_MS 130 /* InnoDB shows nothing new to who asks more often */

static const char table[] =
    "CREATE TABLE IF NOT EXISTS rota_promise (id CHAR(32) PRIMARY KEY, stance SMALLINT NOT NULL, "
    "how SMALLINT NOT NULL, mixed SMALLINT NOT NULL, ended SMALLINT NOT NULL, sure SMALLINT NOT "
    "NULL, until_ms BIGINT NOT NULL, body %s NOT NULL)";

/* ---- Saying ---------------------------------------------------------------------- */

/* SQL as it stands, however long. WITHIN: ns. */
static bool say(struct rt_till *till, const char *sql, int64_t within)
{
    struct rt_talk *t = &till->talk;
    int64_t until = rt_loop_clock() + within;
    t->size = 0;
    memset(&t->said, 0, sizeof(t->said));
    if (!rt_talk_add(t, "%s", sql)) {
        snprintf(till->errmsg, sizeof(till->errmsg), "out of memory");
        return false;
    }
    for (bool over = t->kind->send(t); !over;) {
        struct pollfd p = {.fd = t->kind->fd(t), .events = t->events};
        int64_t left = (until - rt_loop_clock()) / 1000000;
        if (left <= 0 || poll(&p, 1, (int)left) <= 0) {
            t->said.lost = true;
            snprintf(till->errmsg, sizeof(till->errmsg), "the database did not answer in time");
            return false;
        }
        over = t->kind->advance(t, p.revents);
    }
    if (t->said.failed || t->said.lost)
        snprintf(till->errmsg, sizeof(till->errmsg), "%s", t->said.text);
    return !t->said.failed && !t->said.lost;
}

static bool reopen(struct rt_vault *v)
{
    if (v->open)
        return true;
    v->open = rt_till_open(&v->till, v->url) == 0;
    if (!v->open)
        snprintf(v->errmsg, sizeof(v->errmsg), "%s", v->till.errmsg);
    return v->open;
}

static bool trouble(struct rt_vault *v)
{
    snprintf(v->errmsg, sizeof(v->errmsg), "%s", v->till.errmsg);
    rt_vault_close(v);
    return false;
}

/* ---- Rows ------------------------------------------------------------------------ */

/* From now on nothing counts that an earlier participant at this database has on its way. */
static bool begin_epoch(struct rt_vault *v)
{
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    v->epoch = (int64_t)(random >> 2) + 1;
    return rt_till_say(&v->till,
                       "INSERT INTO rota_promise (id, stance, how, mixed, ended, sure, until_ms, "
                       "body) VALUES ('" EPOCH "', 0, 0, 0, 0, 0, %lld, '') %s until_ms = %lld",
                       (long long)v->epoch,
                       v->till.mysql ? "ON DUPLICATE KEY UPDATE" : "ON CONFLICT (id) DO UPDATE SET",
                       (long long)v->epoch);
}

int rt_vault_open(struct rt_vault *v, const char *url)
{
    memset(v, 0, sizeof(*v));
    v->url = url;
    int rv = rt_till_open(&v->till, url);
    v->open = true; /* to be given back, also after a failure */
    if (rv == 0 &&
        (!rt_till_say(&v->till, table, v->till.mysql ? "LONGTEXT" : "TEXT") || !begin_epoch(v)))
        rv = ROTA_UNSUPPORTED;
    if (rv != 0)
        (void)trouble(v);
    return rv;
}

void rt_vault_close(struct rt_vault *v)
{
    if (v->open)
        rt_till_close(&v->till);
    v->open = false;
}

static char *hex(const char *text)
{
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(text);
    char *out = malloc(2 * size + 1);
    for (size_t i = 0; out != NULL && i < size; i++) {
        out[2 * i] = digits[(unsigned char)text[i] >> 4];
        out[2 * i + 1] = digits[(unsigned char)text[i] & 15];
    }
    if (out != NULL)
        out[2 * size] = '\0';
    return out;
}

static char *unhex(const char *text)
{
    size_t size = strlen(text) / 2;
    char *out = malloc(size + 1);
    for (size_t i = 0; out != NULL && i < size; i++)
        out[i] = (char)(rt_txn_id_digit(text[2 * i]) << 4 | rt_txn_id_digit(text[2 * i + 1]));
    if (out != NULL)
        out[size] = '\0';
    return out;
}

/* Another participant has taken over this database: this one must not go on. */
static bool is_ours(struct rt_vault *v)
{
    if (v->till.talk.said.affected > 0)
        return true; /* it was written under our epoch */
    long long epoch = rt_till_number(&v->till,
                                     "SELECT until_ms FROM rota_promise WHERE id = '" EPOCH "'");
    if (epoch < 0)
        return trouble(v);
    v->deposed = epoch != v->epoch;
    snprintf(v->errmsg, sizeof(v->errmsg), "another participant has taken over this database");
    return !v->deposed;
}

bool rt_vault_write(struct rt_vault *v, const struct rt_word *w, const struct rt_promise *row)
{
    char id[RT_TXN_ID_TEXT], *sql = NULL;
    char *body = rt_word_text(w, "can", w->name.branch, RT_STANCE_NONE);
    char *digits = body != NULL ? hex(body) : NULL;
    rt_txn_id_text(&w->name.id, id);
    bool good = digits != NULL && reopen(v);
    if (good)
        good = asprintf(&sql,
                        "INSERT INTO rota_promise (id, stance, how, mixed, ended, sure, until_ms, "
                        "body) SELECT '%s', %u, %u, %u, %u, %u, %lld, '%s' FROM (SELECT 1 FROM "
                        "rota_promise WHERE id = '" EPOCH "' AND until_ms = %lld %s) e %s "
                        "stance = %u, how = %u, mixed = %u, ended = %u, sure = %u, until_ms = %lld",
                        id, row->stand.stance, row->stand.how, row->stand.mixed, row->stand.ended,
                        row->sure, (long long)row->until_ms, digits, (long long)v->epoch,
                        v->till.mysql ? "LOCK IN SHARE MODE" : "FOR SHARE",
                        v->till.mysql ? "ON DUPLICATE KEY UPDATE"
                                      : "ON CONFLICT (id) DO UPDATE SET",
                        row->stand.stance, row->stand.how, row->stand.mixed, row->stand.ended,
                        row->sure, (long long)row->until_ms) > 0 &&
               (say(&v->till, sql, CALL_NS) || trouble(v)) && is_ours(v);
    free(body);
    free(digits);
    free(sql);
    return good;
}

struct reader {
    void (*each)(void *arg, const char *body, size_t size, const struct rt_promise *row);
    void *arg;
};

static void read_row(void *arg, int cells, char *const *v)
{
    struct reader *r = arg;
    if (cells < 5 || v[4] == NULL)
        return;
    long flags = strtol(v[2], NULL, 10);
    struct rt_promise row = {.stand = {.stance = (uint8_t)strtol(v[0], NULL, 10),
                                       .how = (uint8_t)strtol(v[1], NULL, 10),
                                       .mixed = (flags & 1) != 0,
                                       .ended = (flags & 2) != 0},
                             .sure = (flags & 4) != 0,
                             .until_ms = strtoll(v[3], NULL, 10)};
    char *body = unhex(v[4]);
    if (body != NULL && row.stand.stance < RT_STANCES && row.stand.how < RT_HOWS)
        r->each(r->arg, body, strlen(body), &row);
    free(body);
}

bool rt_vault_read(struct rt_vault *v,
                   void (*each)(void *arg, const char *body, size_t size,
                                const struct rt_promise *row),
                   void *arg)
{
    struct reader reader = {each, arg};
    if (!reopen(v))
        return false;
    v->till.talk.row = read_row;
    v->till.talk.row_arg = &reader;
    bool good = say(&v->till, /* a row that is told has six cells at most */
                    "SELECT stance, how, mixed + 2 * ended + 4 * sure, until_ms, body FROM "
                    "rota_promise WHERE id <> '" EPOCH "'",
                    CALL_NS);
    v->till.talk.row = NULL;
    return good || trouble(v);
}

/* ---- Work ------------------------------------------------------------------------ */

void rt_deed_drop(struct rt_deed *k)
{
    if (k->party != NULL)
        rt_party_close(k->party);
    if (k->open)
        rt_till_close(&k->till);
    k->party = NULL;
    k->open = false;
    k->part.by = NULL;
}

static enum rt_reply ask(struct rt_deed *k, enum rt_party_what what, uint32_t flags, char *errmsg)
{
    struct rt_party_op op = {.what = what, .flags = flags, .deadline = rt_loop_clock() + CALL_NS};
    op.part = what == RT_PARTY_ATTACH ? NULL : &k->part;
    enum rt_reply reply = rt_party_do(k->party, &op);
    if (reply == RT_REPLY_LOST || reply == RT_REPLY_NO || reply == RT_REPLY_REFUSED)
        snprintf(errmsg, LINE, "%s", k->party->errmsg);
    return reply;
}

/* A connection, attached. KEEPER: to end what another prepared. */
static bool connect_to(struct rt_deed *k, const char *url, const struct rt_word *w, bool keeper,
                       char *errmsg)
{
    assert(!k->open);
    memset(&k->part, 0, sizeof(k->part));
    k->part.name = w->name;
    k->open = true; /* to be given back, also after a failure */
    if (rt_till_open(&k->till, url) != 0) {
        snprintf(errmsg, LINE, "%s", k->till.errmsg);
        return false;
    }
    if (rt_party_open(&k->party, k->till.reach->kind, k->till.conn, keeper, NULL, errmsg, LINE) !=
        0)
        return false;
    return ask(k, RT_PARTY_ATTACH, 0, errmsg) == RT_REPLY_DONE;
}

static bool statements(struct rt_deed *k, const struct rt_word *w, char *errmsg)
{
    for (size_t i = 0; i < json_array_size(w->statements); i++)
        if (!say(&k->till, json_string_value(json_array_get(w->statements, i)),
                 w->t1_ms * INT64_C(1000000))) {
            snprintf(errmsg, LINE, "%s", k->till.errmsg);
            return false;
        }
    return true;
}

enum rt_reply rt_deed_do(struct rt_deed *k, const char *url, const struct rt_word *w, char *errmsg)
{
    enum rt_reply reply = RT_REPLY_NO;
    rt_deed_drop(k);
    if (!connect_to(k, url, w, false, errmsg) ||
        ask(k, RT_PARTY_BEGIN, RT_PARTY_WRITES, errmsg) != RT_REPLY_DONE)
        rt_deed_drop(k); /* its end ends what has begun */
    else if (!statements(k, w, errmsg))
        rt_deed_drop(k);
    else
        reply = ask(k, RT_PARTY_PREPARE, RT_PARTY_WRITES, errmsg);
    if (reply != RT_REPLY_YES)
        rt_deed_drop(k);
    return reply == RT_REPLY_YES || reply == RT_REPLY_LOST ? reply : RT_REPLY_NO;
}

struct finder {
    const struct rt_name *name;
    bool found;
    uint64_t connection;
};

static void find(void *arg, const struct rt_party_seen *seen)
{
    struct finder *f = arg;
    if (!seen->ours || seen->name.branch != f->name->branch ||
        !rt_txn_id_same(&seen->name.id, &f->name->id))
        return;
    f->found = true;
    f->connection = seen->connection;
}

/* MariaDB: through the gate, or its commit could be lost. */
static enum rt_reply pass_gate(struct rt_deed *k, char *errmsg)
{
    struct finder f = {.name = &k->part.name};
    struct rt_party_op op = {.what = RT_PARTY_LIST, .deadline = rt_loop_clock() + CALL_NS};
    op.list.journal = rt_txn_id_journal(&k->part.name.id);
    op.list.each = find;
    op.list.arg = &f;
    enum rt_reply reply = rt_party_do(k->party, &op);
    if (reply != RT_REPLY_DONE)
        return RT_REPLY_LOST;
    if (!f.found)
        return RT_REPLY_ABSENT;
    k->part.connection = f.connection;
    k->part.prepared = true;
    for (int i = 0; i < GATE_TRIES; i++) {
        if (i > 0)
            (void)poll(NULL, 0, GATE_MS);
        reply = ask(k, RT_PARTY_GATE, 0, errmsg);
        if (reply != RT_REPLY_HELD)
            return reply;
    }
    snprintf(errmsg, LINE, "another connection has it still");
    return RT_REPLY_LOST;
}

static enum rt_reply take_over(struct rt_deed *k, enum rt_party_what what, char *errmsg)
{
    enum rt_reply reply = k->till.mysql ? pass_gate(k, errmsg) : RT_REPLY_CLEAR;
    k->part.prepared = true;
    if (reply == RT_REPLY_CLEAR)
        reply = ask(k, what, 0, errmsg);
    if (reply == RT_REPLY_ABSENT) /* who has ended it, and how? */
        reply = ask(k, RT_PARTY_ASK, what == RT_PARTY_ROLLBACK ? RT_PARTY_FENCE : 0, errmsg);
    bool known = reply == RT_REPLY_DONE || reply == RT_REPLY_ABSENT || reply == RT_REPLY_COMMITTED;
    return known ? reply : RT_REPLY_LOST;
}

enum rt_reply rt_deed_end(struct rt_deed *k, const char *url, const struct rt_word *w,
                          enum rt_party_what what, char *errmsg)
{
    enum rt_reply reply = RT_REPLY_LOST;
    assert(what == RT_PARTY_COMMIT || what == RT_PARTY_ROLLBACK);
    if (k->party != NULL && ask(k, what, 0, errmsg) == RT_REPLY_DONE)
        reply = RT_REPLY_DONE;
    rt_deed_drop(k);
    if (reply != RT_REPLY_DONE && connect_to(k, url, w, true, errmsg))
        reply = take_over(k, what, errmsg);
    rt_deed_drop(k);
    return reply;
}

enum rt_reply rt_deed_look(struct rt_deed *k, const char *url, const struct rt_word *w,
                           char *errmsg)
{
    enum rt_reply reply = RT_REPLY_LOST;
    rt_deed_drop(k);
    if (connect_to(k, url, w, true, errmsg))
        reply = ask(k, RT_PARTY_ASK, 0, errmsg);
    rt_deed_drop(k);
    bool known = reply == RT_REPLY_PREPARED || reply == RT_REPLY_ABSENT ||
                 reply == RT_REPLY_COMMITTED;
    return known ? reply : RT_REPLY_LOST;
}
