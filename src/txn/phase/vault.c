/* SPDX-License-Identifier: Apache-2.0 */
/* Promises of three-phase commit: rows in rota_promise. */
#include "txn/phase/vault.h"

#include "base/alloc.h"

#include <rota.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CALL_NS INT64_C(5000000000)
#define EPOCH "00000000000000000000000000000000" /* no transaction has this id */

static const char table[] =
    "CREATE TABLE IF NOT EXISTS rota_promise (id CHAR(32) PRIMARY KEY, stance SMALLINT NOT NULL, "
    "how SMALLINT NOT NULL, mixed SMALLINT NOT NULL, ended SMALLINT NOT NULL, sure SMALLINT NOT "
    "NULL, until_ms BIGINT NOT NULL, body %s NOT NULL)";

/* ---- Its connection --------------------------------------------------------------- */

static bool trouble(struct rt_vault *v)
{
    snprintf(v->errmsg, sizeof(v->errmsg), "%s", v->till.errmsg);
    rt_vault_close(v);
    return false;
}

static bool reopen(struct rt_vault *v)
{
    if (v->open)
        return true;
    v->open = true; /* to be given back, also after a failure */
    return rt_till_open(&v->till, v->url) == 0 || trouble(v);
}

/* ---- Rows ------------------------------------------------------------------------ */

/* From now on, writes that an earlier participant at this database still has on their way do not count. */
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

/* A user who may write but not make tables can work if somebody else has made this one. */
static bool make_table(struct rt_vault *v)
{
    return rt_till_say(&v->till, "SELECT 1 FROM rota_promise WHERE id = ''") ||
           (!v->till.talk.said.lost &&
            rt_till_say(&v->till, table, v->till.mysql ? "LONGTEXT" : "TEXT"));
}

int rt_vault_open(struct rt_vault *v, const char *url)
{
    memset(v, 0, sizeof(*v));
    v->url = url;
    int rv = rt_till_open(&v->till, url);
    v->open = true; /* to be given back, also after a failure */
    if (rv == 0 && (!make_table(v) || !begin_epoch(v)))
        rv = v->till.talk.said.lost ? ROTA_UNREACHABLE : ROTA_AUTH;
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
    char *out = rt_alloc(2 * size + 1);
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
    char *out = rt_alloc(size + 1);
    for (size_t i = 0; out != NULL && i < size; i++)
        out[i] = (char)(rt_txn_id_digit(text[2 * i]) << 4 | rt_txn_id_digit(text[2 * i + 1]));
    if (out != NULL)
        out[size] = '\0';
    return out;
}

/* False: another participant has taken over this database, and this one must not go on; or nobody knows. */
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
               (rt_till_tell(&v->till, sql, CALL_NS) || trouble(v)) && is_ours(v);
    free(body);
    rt_free(digits);
    free(sql);
    return good;
}

struct reader {
    rt_vault_row_fn *each;
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
    rt_free(body);
}

/* Reads the rows WHERE. A row passed on has six cells at most. */
static bool read_rows(struct rt_vault *v, const char *where, rt_vault_row_fn *each, void *arg)
{
    struct reader reader = {each, arg};
    char sql[256];

    if (!reopen(v))
        return false;
    snprintf(sql, sizeof(sql),
             "SELECT stance, how, mixed + 2 * ended + 4 * sure, until_ms, body FROM rota_promise "
             "WHERE %s",
             where);
    v->till.talk.row = read_row;
    v->till.talk.row_arg = &reader;
    bool good = rt_till_tell(&v->till, sql, CALL_NS);
    v->till.talk.row = NULL;
    return good || trouble(v);
}

bool rt_vault_read(struct rt_vault *v, rt_vault_row_fn *each, void *arg)
{
    return read_rows(v, "id <> '" EPOCH "' AND (ended = 0 OR sure = 0 OR mixed = 1)", each, arg);
}

bool rt_vault_find(struct rt_vault *v, const struct rt_txn_id *id, rt_vault_row_fn *each, void *arg)
{
    char text[RT_TXN_ID_TEXT], where[64];

    rt_txn_id_text(id, text);
    snprintf(where, sizeof(where), "id = '%s'", text);
    return read_rows(v, where, each, arg);
}
