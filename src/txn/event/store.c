/* SPDX-License-Identifier: Apache-2.0 */
/* A store: opening it, reconnecting after a loss, and saying one statement. */
#include "txn/event/store_inside.h"

#include "base/alloc.h"
#include "engines.h"
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MS INT64_C(1000000)

int rt_store_fail(struct rt_store *s, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->errmsg, sizeof(s->errmsg), format, args);
    va_end(args);
    return err;
}

const char *rt_store_errmsg(const struct rt_store *s)
{
    return s->errmsg;
}

const char *rt_store_place(const struct rt_store *s)
{
    return s->url.redacted;
}

bool rt_store_notifies(const struct rt_store *s)
{
    return s->notifies;
}

bool rt_store_has(const struct rt_store *s, enum rt_event_column column)
{
    return s->map.columns[column].text[0] != '\0' && !s->map.columns[column].constant;
}

/* ---- Saying ----------------------------------------------------------------------------- */

static void release(struct rt_store *s)
{
    for (size_t i = 0; i < s->result_count; i++) {
        s->kind->release(&s->results[i]);
        rt_free(s->results[i].cells);
        s->results[i] = (struct rt_result){0};
    }
    s->result_count = 0;
}

static void hang_up(struct rt_store *s)
{
    if (s->conn != NULL)
        s->kind->hang_up(s);
    s->conn = NULL;
    s->open = false;
}

int rt_store_begin(struct rt_store *s)
{
    release(s);
    s->errmsg[0] = '\0';
    s->no_value = false;
    if (s->conn == NULL) {
        int err = s->kind->connect(s, s->errmsg, sizeof(s->errmsg));
        release(s);
        if (err != 0) {
            hang_up(s);
            return err;
        }
    }
    rt_stmt_clear(&s->q);
    return 0;
}

/* Keeps the line of what failed before something else is said. */
static int failed(struct rt_store *s)
{
    int err = s->said.lost ? ROTA_UNREACHABLE : s->kind->fence->error(&s->said);

    s->no_value = !s->said.lost &&
                  (strncmp(s->said.state, "22", 2) == 0 || strcmp(s->said.state, "42883") == 0);
    rt_store_fail(s, err, "%s: %s", s->map.table, s->said.text);
    release(s);
    if (s->said.lost) {
        hang_up(s);
        return err;
    }
    rt_stmt_clear(&s->q);
    rt_stmt_add(&s->q, "ROLLBACK");
    if (!s->q.failed && (s->open || s->kind->dialect != RT_STMT_POSTGRES))
        s->kind->say(s);
    if (s->said.lost || s->q.failed)
        hang_up(s);
    release(s);
    s->open = false;
    return err;
}

int rt_store_say(struct rt_store *s)
{
    if (s->q.failed) {
        hang_up(s); /* what is claimed is let go */
        return rt_store_fail(s, ROTA_NOMEM, "out of memory");
    }
    memset(&s->said, 0, sizeof(s->said));
    s->said_count++;
    s->kind->say(s);
    if (s->q.failed) {
        hang_up(s);
        return rt_store_fail(s, ROTA_NOMEM, "out of memory");
    }
    return s->said.failed || s->said.lost ? failed(s) : 0;
}

int rt_store_say_text(struct rt_store *s, const char *sql)
{
    rt_stmt_clear(&s->q);
    rt_stmt_add(&s->q, "%s", sql);
    return rt_store_say(s);
}

int rt_store_settle(struct rt_store *s)
{
    int err = rt_store_begin(s);

    if (err == 0 && s->open) {
        err = rt_store_say_text(s, "COMMIT");
        s->open = false;
    }
    rt_stmt_clear(&s->q);
    return err;
}

const struct rt_cell *rt_store_cell(const struct rt_store *s, size_t result, size_t row, size_t col)
{
    static const struct rt_cell none;

    if (result >= s->result_count || row >= s->results[result].rows ||
        col >= s->results[result].cols)
        return &none;
    return &s->results[result].cells[row * s->results[result].cols + col];
}

int64_t rt_store_number(const struct rt_cell *cell, int64_t fallback)
{
    return cell->text != NULL && cell->size > 0 ? strtoll(cell->text, NULL, 10) : fallback;
}

struct rt_result *rt_store_result(struct rt_store *s, size_t rows, size_t cols)
{
    if (s->result_count == RT_STORE_RESULTS)
        return NULL;
    struct rt_result *r = &s->results[s->result_count];
    *r = (struct rt_result){.rows = rows, .cols = cols};
    r->cells = rt_alloc((rows * cols + 1) * sizeof(*r->cells));
    if (r->cells == NULL)
        return NULL;
    s->result_count++;
    return r;
}

void rt_store_talk(struct rt_store *s, void (*take)(void *arg, void *result))
{
    struct rt_talk t = {.kind = s->reach->kind->talk,
                        .conn = s->conn,
                        .sql = s->q.text,
                        .size = s->q.size,
                        .until = INT64_MAX,
                        .whole = take,
                        .whole_arg = s};

    rt_talk_wait(&t, rt_loop_clock() + (int64_t)s->o.call_ms * MS);
    s->said = t.said;
}

int rt_store_poll(int64_t ms, int wake_fd, int fd)
{
    struct pollfd fds[2] = {{.fd = wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int64_t until = rt_loop_clock() + ms * MS;
    int n;

    do {
        int64_t left = (until - rt_loop_clock() + MS - 1) / MS;
        n = poll(fds, 2, left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

int rt_store_wait(struct rt_store *s, int64_t ms, int wake_fd)
{
    int err = rt_store_settle(s);

    return err != 0 ? err : s->kind->wait(s, ms, wake_fd);
}

/* ---- Pieces ------------------------------------------------------------------------------ */

bool rt_store_make_room(struct rt_store *s, size_t rows, size_t items)
{
    size_t ids = rows > items ? rows : items;

    return rt_grow(&s->rows, &s->row_room, rows, sizeof(*s->rows)) &&
           rt_grow(&s->items, &s->item_room, items, sizeof(*s->items)) &&
           rt_grow(&s->ids, &s->id_room, ids, sizeof(*s->ids));
}

const char *rt_store_event_id(struct rt_store *s, size_t i, const struct rt_cell *cell, int64_t id)
{
    rt_event_id_of(&s->map, cell->text, id, s->ids[i]);
    return s->ids[i];
}

void rt_store_add_table(struct rt_store *s)
{
    rt_stmt_add(&s->q, " FROM ");
    rt_stmt_table(&s->q, s->map.table);
    rt_stmt_add(&s->q, " e");
}

void rt_store_add_index(struct rt_store *s, int which)
{
    if (s->index[which][0] == '\0')
        return;
    rt_stmt_add(&s->q, " FORCE INDEX (");
    rt_stmt_name(&s->q, s->index[which]);
    rt_stmt_add(&s->q, ")");
}

void rt_store_add_event_id(struct rt_store *s)
{
    bool pg = s->kind->dialect == RT_STMT_POSTGRES;

    if (s->form == RT_FORM_BYTES)
        rt_stmt_add(&s->q, pg ? "encode(" : "LOWER(HEX(");
    rt_stmt_column(&s->q, &s->map, RT_COLUMN_EVENT_ID, "e");
    if (s->form == RT_FORM_BYTES)
        rt_stmt_add(&s->q, pg ? ", 'hex')" : "))");
}

void rt_store_add_age(struct rt_store *s, enum rt_event_column column)
{
    static const char *const before[] = {
        [RT_STMT_MYSQL] = "TIMESTAMPDIFF(MICROSECOND, ",
        [RT_STMT_POSTGRES] = "(extract(epoch FROM statement_timestamp() - ",
        [RT_STMT_SQLITE] = "CAST((julianday('now') - julianday("};
    static const char *const after[] = {[RT_STMT_MYSQL] = ", NOW(3)) DIV 1000",
                                        [RT_STMT_POSTGRES] = ") * 1000)::bigint",
                                        [RT_STMT_SQLITE] = ")) * 86400000 AS INTEGER)"};

    if (!rt_store_has(s, column)) {
        rt_stmt_add(&s->q, "NULL");
        return;
    }
    rt_stmt_add(&s->q, "%s", before[s->kind->dialect]);
    rt_stmt_column(&s->q, &s->map, column, "e");
    rt_stmt_add(&s->q, "%s", after[s->kind->dialect]);
}

void rt_store_add_source(struct rt_store *s)
{
    rt_stmt_add(&s->q, "source = ");
    rt_stmt_text(&s->q, s->map.table);
    rt_stmt_add(&s->q, " AND event");
}

/* ---- Opening ----------------------------------------------------------------------------- */

static int find_kind(struct rt_store *s)
{
    s->reach = rt_reach_of(s->url.scheme);
#if ROTA_ENGINE_MYSQL
    if (s->reach == &rt_reach_mysql)
        s->kind = &rt_store_mysql;
#endif
#if ROTA_ENGINE_POSTGRES
    if (s->reach == &rt_reach_postgres)
        s->kind = &rt_store_postgres;
#endif
#if ROTA_ENGINE_FILE
    if (strcmp(s->url.scheme, "sqlite") == 0)
        s->kind = &rt_store_sqlite;
#endif
    if (s->kind != NULL)
        return 0;
    return rt_store_fail(
        s, ROTA_INVALID,
        "'%.40s:' is not a database for events: use mysql://..., postgres://... or "
        "sqlite:PATH",
        s->url.scheme);
}

static void set_options(struct rt_store *s, const struct rt_event_map *map,
                        const struct rt_store_options *o)
{
    unsigned char random[16];

    if (o != NULL)
        s->o = *o;
    s->o.lease_ms = s->o.lease_ms != 0 ? s->o.lease_ms : 10000;
    s->o.call_ms = s->o.call_ms != 0 ? s->o.call_ms : 5000;
    s->o.republish_ms = s->o.republish_ms != 0 ? s->o.republish_ms : 60000;
    s->o.reads_only = s->o.reads_only || s->o.inbox;
    if (map != NULL)
        s->map = *map;
    else
        rt_event_map_default(&s->map);
    if (s->o.inbox)
        memcpy(s->map.table, RT_EVENT_INBOX, sizeof(RT_EVENT_INBOX)); /* for messages */
    while (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
    }
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(s->owner + 2 * i, 3, "%02x", random[i]);
}

int rt_store_open(struct rt_store **out, const char *url, const struct rt_event_map *map,
                  const struct rt_store_options *o, char *errmsg, size_t size)
{
    struct rt_store *s = rt_alloc(sizeof(*s));

    if (s == NULL) {
        snprintf(errmsg, size, "out of memory");
        return ROTA_NOMEM;
    }
    set_options(s, map, o);
    int err = rt_url_parse(&s->url, url, s->errmsg, sizeof(s->errmsg));
    if (err == 0)
        err = find_kind(s);
    if (err == 0) {
        s->q.dialect = s->kind->dialect;
        err = rt_store_begin(s);
    }
    if (err == 0)
        err = s->o.inbox ? rt_store_check_inbox(s) : rt_store_check(s);
    if (err != 0) {
        snprintf(errmsg, size, "%s", s->errmsg[0] != '\0' ? s->errmsg : rota_strerror(err));
        rt_store_close(s);
        return err;
    }
    *out = s;
    return 0;
}

void rt_store_close(struct rt_store *s)
{
    if (s == NULL)
        return;
    release(s);
    if (s->conn != NULL && s->kind->dialect == RT_STMT_SQLITE && !s->o.reads_only)
        (void)rt_store_turn(s, NULL, 0, 0, NULL, NULL); /* the lease is let go */
    hang_up(s);
    rt_url_fini(&s->url);
    rt_stmt_fini(&s->q);
    rt_free(s->rows);
    rt_free(s->items);
    rt_free(s->ids);
    rt_free(s);
}
