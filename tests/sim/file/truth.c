/* SPDX-License-Identifier: Apache-2.0 */
/* What the database says, read from behind everybody's back. */
#include "sim/file/machine.h"
#include "sim/invariants.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static sqlite3_stmt *prepare(struct sf_world *w, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(w->eye, sql, -1, &s, NULL);
    if (rc != SQLITE_OK)
        sim_violated(w->sim, "truth", "%s: %s", sql, sqlite3_errmsg(w->eye));
    return s;
}

void sf_truth_open(struct sf_world *w)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/rota.db", w->folder);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(path, &w->eye, flags, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_open_v2(path, &w->taker, flags, NULL);
    assert(rc == SQLITE_OK);
    (void)rc;
    int keep = 1;
    (void)sqlite3_db_config(w->eye, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    (void)sqlite3_db_config(w->taker, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    (void)sqlite3_file_control(w->eye, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    (void)sqlite3_file_control(w->taker, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    w->version = prepare(w, "PRAGMA data_version");
    w->tickets = prepare(w, "SELECT line,number,flags,session,nonce,mode,take,of FROM ticket"
                            " ORDER BY line,number");
    w->sessions = prepare(w, "SELECT id FROM session");
    w->seen = -1;
}

void sf_truth_close(struct sf_world *w)
{
    (void)sqlite3_finalize(w->version);
    (void)sqlite3_finalize(w->tickets);
    (void)sqlite3_finalize(w->sessions);
    (void)sqlite3_close(w->taker);
    (void)sqlite3_close(w->eye);
}

static int64_t version(struct sf_world *w)
{
    int rc = sqlite3_step(w->version);
    int64_t version = sqlite3_column_int64(w->version, 0);
    (void)sqlite3_reset(w->version);
    assert(rc == SQLITE_ROW);
    (void)rc;
    return version;
}

static void read_ticket(const struct sf_world *w, struct sf_row *row)
{
    uint32_t flags = (uint32_t)sqlite3_column_int64(w->tickets, 2);
    bool durable = (flags & RT_FILE_DURABLE) != 0;
    (void)snprintf(row->name, sizeof(row->name), "%s", sqlite3_column_text(w->tickets, 0));
    row->place = (struct sim_place){
        .number = (uint64_t)sqlite3_column_int64(w->tickets, 1),
        .session = durable ? 0 : (uint64_t)sqlite3_column_int64(w->tickets, 3),
        .nonce = (uint64_t)sqlite3_column_int64(w->tickets, 4),
        .mode = (uint32_t)sqlite3_column_int64(w->tickets, 5),
        .take = (uint32_t)sqlite3_column_int64(w->tickets, 6),
        .of = (uint32_t)sqlite3_column_int64(w->tickets, 7),
        .granted = (flags & RT_FILE_GRANTED) != 0,
    };
}

void sf_truth_read(struct sf_world *w)
{
    int64_t now = version(w);
    if (now == w->seen)
        return;
    w->seen = now;
    w->row_count = w->id_count = 0;
    while (sqlite3_step(w->tickets) == SQLITE_ROW) {
        assert(w->row_count < SF_ROWS_MAX);
        read_ticket(w, &w->rows[w->row_count++]);
    }
    (void)sqlite3_reset(w->tickets);
    while (sqlite3_step(w->sessions) == SQLITE_ROW) {
        assert(w->id_count < SF_SESSIONS_MAX);
        w->ids[w->id_count++] = (uint64_t)sqlite3_column_int64(w->sessions, 0);
    }
    (void)sqlite3_reset(w->sessions);
}

static const struct sim_place *find(const struct sf_row *rows, size_t n, const struct sf_row *row)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].place.number == row->place.number && strcmp(rows[i].name, row->name) == 0)
            return &rows[i].place;
    return NULL;
}

/* Tickets that it granted to others, and those that went or keep their line only. */
static int64_t may_ring(const struct sf_world *w, const struct sf_row *before, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct sim_place *now = find(w->rows, w->row_count, &before[i]);
        count += now == NULL || (now->session == 0 && before[i].place.session != 0);
        count += now != NULL && now->granted && !before[i].place.granted;
    }
    return count;
}

void sf_truth_committed(struct sf_world *w, struct sim_client *c)
{
    static struct sf_row before[SF_ROWS_MAX];
    size_t n = w->row_count;
    memcpy(before, w->rows, n * sizeof(before[0]));
    sf_truth_read(w);
    w->players[c->index].owed += may_ring(w, before, n);
    sim_counts.scripts++;
    for (uint32_t i = 0; i < w->sim->plan.names; i++)
        sim_check_line(w->sim, &w->sim->lines[i]);
}

size_t sf_truth_files(const struct sf_world *w)
{
    char path[96];
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "%s/s", w->folder);
    DIR *d = opendir(path);
    for (struct dirent *e = NULL; d != NULL && (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    if (d != NULL)
        (void)closedir(d);
    return n;
}
