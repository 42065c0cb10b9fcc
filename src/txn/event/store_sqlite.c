/* SPDX-License-Identifier: Apache-2.0 */
/* Events in SQLite: sqlite:PATH. Statements run one after the other; rows are copied, and outlive the transaction. */
#include "txn/event/store_inside.h"

#include "base/alloc.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct growing { /* the rows of a SELECT, as they come */
    char *bytes; /* of all cells, each with a zero after it */
    size_t size, room;
    struct span {
        size_t at, size;
        bool null;
    } * spans;
    size_t count, span_room;
};

static bool grow(struct growing *g, sqlite3_stmt *st)
{
    for (int i = 0; i < sqlite3_column_count(st); i++) {
        const void *data = sqlite3_column_blob(st, i);
        size_t size = (size_t)sqlite3_column_bytes(st, i);
        if (!rt_grow(&g->bytes, &g->room, g->size + size + 1, 1) ||
            !rt_grow(&g->spans, &g->span_room, g->count + 1, sizeof(*g->spans)))
            return false;
        if (size > 0)
            memcpy(g->bytes + g->size, data, size);
        g->bytes[g->size + size] = '\0';
        g->spans[g->count++] = (struct span){g->size, size,
                                             sqlite3_column_type(st, i) == SQLITE_NULL};
        g->size += size + 1;
    }
    return true;
}

/* The bytes become the result's. */
static void keep(struct rt_store *s, struct growing *g, int cols)
{
    struct rt_result *r = rt_store_result(s, g->count / (size_t)cols, (size_t)cols);

    if (r == NULL) {
        rt_free(g->bytes);
        s->q.failed = true;
    } else {
        r->raw = g->bytes;
        for (size_t i = 0; i < g->count; i++)
            if (!g->spans[i].null)
                r->cells[i] = (struct rt_cell){.text = g->bytes + g->spans[i].at,
                                               .size = g->spans[i].size};
    }
    rt_free(g->spans);
}

static void note(struct rt_store *s, int rv)
{
    struct rt_said *said = &s->said;

    if (rv == SQLITE_DONE || rv == SQLITE_OK) {
        said->affected = (uint64_t)sqlite3_changes(s->conn);
        return;
    }
    said->failed = true;
    said->code = (unsigned)rv & 0xff;
    rt_talk_line(said->text, sizeof(said->text), sqlite3_errmsg(s->conn));
}

static void run(struct rt_store *s, sqlite3_stmt *st)
{
    int rv = SQLITE_ROW, cols = sqlite3_column_count(st);
    struct growing g = {0};

    while (rv == SQLITE_ROW) {
        rv = sqlite3_step(st);
        if (rv == SQLITE_ROW && !grow(&g, st))
            rv = SQLITE_NOMEM;
    }
    note(s, rv);
    if (cols > 0 && !s->said.failed) {
        keep(s, &g, cols);
    } else {
        rt_free(g.bytes);
        rt_free(g.spans);
    }
}

static void say(struct rt_store *s)
{
    const char *at = s->q.text;

    s->said = (struct rt_said){0};
    while (!s->said.failed && at[strspn(at, "; \n")] != '\0') {
        sqlite3_stmt *st = NULL;
        int rv = sqlite3_prepare_v2(s->conn, at, -1, &st, &at);
        if (rv != SQLITE_OK)
            note(s, rv);
        else if (st != NULL)
            run(s, st);
        sqlite3_finalize(st);
    }
}

static void release(struct rt_result *r)
{
    rt_free(r->raw);
}

static int connect_to(struct rt_store *s, char *errmsg, size_t size)
{
    static const char *const none[] = {NULL};
    sqlite3 *db = NULL;

    int err = rt_url_check_params(&s->url, none, errmsg, size);
    if (err != 0)
        return err;
    int makes = s->o.inbox ? SQLITE_OPEN_CREATE : 0; /* the inbox may be the only table */
    int rv = sqlite3_open_v2(s->url.path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | makes,
                             NULL);
    s->conn = db;
    if (rv != SQLITE_OK) {
        bool missing = rv == SQLITE_CANTOPEN && access(s->url.path, F_OK) != 0 && errno == ENOENT;
        snprintf(errmsg, size, "%.200s: %s", s->url.path,
                 missing ? "there is no such file; the service that writes the events creates it"
                 : db != NULL ? sqlite3_errmsg(db)
                              : "out of memory");
        return rv == SQLITE_CANTOPEN || rv == SQLITE_NOTADB ? ROTA_INVALID : ROTA_UNREACHABLE;
    }
    sqlite3_busy_timeout(db, (int)(s->o.lock_ms != 0 ? s->o.lock_ms : s->o.call_ms));
    return 0;
}

static void hang_up(struct rt_store *s)
{
    sqlite3_close(s->conn);
}

static int wait_for(struct rt_store *s, int64_t ms, int wake_fd)
{
    (void)s;
    return rt_store_poll(ms, wake_fd, -1);
}

const struct rt_store_kind rt_store_sqlite = {
    .dialect = RT_STMT_SQLITE,
    .fence = &rt_fence_sqlite,
    .connect = connect_to,
    .hang_up = hang_up,
    .say = say,
    .release = release,
    .wait = wait_for,
};
