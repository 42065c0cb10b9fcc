/* SPDX-License-Identifier: Apache-2.0 */
/* What the database says, read from behind everybody's back. */
#include "sim/file/machine.h"
#include "sim/invariants.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static sqlite3 *open_beside(struct sf_world *w, const char *path)
{
    sqlite3 *db = NULL;
    int keep = 1;
    bool visited = w->visited;
    w->visited = true;
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    w->visited = visited;
    assert(rc == SQLITE_OK);
    (void)rc;
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    (void)sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    return s;
}

void sf_truth_close(struct sf_world *w)
{
    if (w->eye == NULL)
        return;
    sf_give(w);
    (void)sqlite3_finalize(w->version);
    (void)sqlite3_finalize(w->tickets);
    (void)sqlite3_finalize(w->sessions);
    (void)sqlite3_close(w->taker);
    (void)sqlite3_close(w->eye);
}

/* Finds the database in the folder, if it has been made; a deleted one counts until there is another. */
static void find_database(struct sf_world *w)
{
    char path[96];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/rota.db", w->folder);
    if (stat(path, &st) != 0 || st.st_ino == w->inode || st.st_size == 0)
        return;
    sqlite3 *db = open_beside(w, path);
    sqlite3_stmt *sessions = prepare(db, "SELECT id FROM session");
    if (sessions == NULL) { /* not yet */
        (void)sqlite3_close(db);
        return;
    }
    bool first = w->inode == 0;
    sf_truth_close(w);
    w->eye = db;
    w->taker = open_beside(w, path);
    w->sessions = sessions;
    w->version = prepare(db, "PRAGMA data_version");
    w->tickets = prepare(db, "SELECT line,number,flags,session,nonce,mode,take,of FROM ticket"
                             " ORDER BY line,number");
    assert(w->version != NULL && w->tickets != NULL);
    w->inode = st.st_ino;
    w->seen = -1;
    if (!first)
        sf_replaced(w);
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
    find_database(w);
    int64_t now = w->eye != NULL ? version(w) : w->seen;
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

/* Tickets that it granted to others, and those that went or only keep their line. */
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
    sim_check_lines(w->sim, SIM_ANYBODY);
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
