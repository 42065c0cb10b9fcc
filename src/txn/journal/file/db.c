/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, statements, transactions. Only SQLite opens or closes txn.db, txn.db-wal and txn.db-shm here: closing any
 * descriptor of them would drop the POSIX locks of all the process's connections. (The file is created before that.) */
#include "txn/journal/file/db.h"

#include "engine/kit/words.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define APPLICATION_ID 0x526f7478 /* "Rotx" */
#define LAYOUT_STEP 1000          /* user_version = major * 1000 + minor */
#define PAGE_SIZE "4096"
#define WAL_FULL 2000 /* frames: folded back after a commit; 8 MiB */
#define SPINS 30
#define NAP_NS 50000
#define NAPS_MAX 8
#define NAP_OPEN_NS 1000000
#define COLUMNS 16

/* ---- Errors ------------------------------------------------------------------------------------------ */

static int say_io(struct rt_jfile_db *d, int rc)
{
    int err = d->db != NULL ? sqlite3_system_errno(d->db) : 0;
    return rt_words_fail(d->say, ROTA_UNREACHABLE, "%s/" RT_JFILE_NAME ": %s%s%s", d->shown,
                         sqlite3_errstr(rc), err != 0 ? ": " : "", err != 0 ? strerror(err) : "");
}

/* What SQLite's RC means to us; sets errmsg. */
static int error_of(struct rt_jfile_db *d, int rc)
{
    int code = rc & 0xff;
    d->busy = code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PROTOCOL;
    switch (code) {
    case SQLITE_NOMEM:
        return rt_words_nomem(d->say);
    case SQLITE_FULL:
        return rt_words_fail(d->say, ROTA_UNREACHABLE,
                             "no space left for %s/" RT_JFILE_NAME ": free some and try again",
                             d->shown);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return rt_words_fail(d->say, ROTA_UNREACHABLE,
                             "%s/" RT_JFILE_NAME " stayed locked: see who uses it (fuser)",
                             d->shown);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return rt_words_fail(d->say, ROTA_AUTH,
                             "%s/" RT_JFILE_NAME
                             " cannot be written: fix its permissions or name another folder",
                             d->shown);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return rt_words_fail(d->say, ROTA_PROTOCOL,
                             "%s/" RT_JFILE_NAME
                             " is damaged or not a Rota journal: restore it; nothing was changed",
                             d->shown);
    default:
        return say_io(d, rc);
    }
}

/* How a statement or a batch ends that failed with RC, with nothing written yet. */
static enum rt_jfile_end end_of(struct rt_jfile_db *d, int rc, int *err)
{
    int code = rc & 0xff;
    *err = error_of(d, rc);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PROTOCOL)
        return RT_JFILE_AGAIN;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? RT_JFILE_STOPS : RT_JFILE_FAILED;
}

static int64_t clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Another process is writing: usually for one fsync. */
static int on_busy(void *arg, int count)
{
    struct rt_jfile_db *d = arg;
    if (clock_ns() >= d->until || (d->leaving != NULL && atomic_load(d->leaving)))
        return 0;
    if (count < SPINS) {
        (void)sched_yield();
        return 1;
    }
    struct timespec nap = {.tv_nsec = NAP_NS * (1 + (count - SPINS) % NAPS_MAX)};
    (void)nanosleep(&nap, NULL);
    return 1;
}

/* ---- Statements ---------------------------------------------------------------------------------------- */

static int prepare(struct rt_jfile_db *d, const char *sql, sqlite3_stmt **s)
{
    return *s != NULL ? SQLITE_OK
                      : sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, NULL);
}

static int once(struct rt_jfile_db *d, const char *sql, sqlite3_stmt **s)
{
    int rc = prepare(d, sql, s);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(*s);
    (void)sqlite3_reset(*s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static void bind_args(sqlite3_stmt *s, const char *types, const struct rt_sql_cell *args,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int at = (int)i + 1;
        if (args[i].null)
            (void)sqlite3_bind_null(s, at);
        else if (args[i].text == NULL)
            (void)sqlite3_bind_int64(s, at, args[i].number);
        else if (types[i] == 't')
            (void)sqlite3_bind_text(s, at, args[i].text, (int)args[i].size, SQLITE_STATIC);
        else
            (void)sqlite3_bind_blob(s, at, args[i].text, (int)args[i].size, SQLITE_STATIC);
    }
}

static void hear(struct rt_sql_book *book, size_t step, sqlite3_stmt *s)
{
    struct rt_sql_cell cells[COLUMNS];
    int count = sqlite3_column_count(s);
    assert(count <= COLUMNS);
    for (int i = 0; i < count; i++) {
        int type = sqlite3_column_type(s, i);
        cells[i] = (struct rt_sql_cell){.null = type == SQLITE_NULL};
        if (type == SQLITE_INTEGER) {
            cells[i].number = sqlite3_column_int64(s, i);
        } else if (type != SQLITE_NULL) {
            const void *at = sqlite3_column_blob(s, i);
            cells[i].text = at != NULL ? at : "";
            cells[i].size = (size_t)sqlite3_column_bytes(s, i);
        }
    }
    rt_sql_book_hear(book, step, cells, (size_t)count);
}

static int run_step(struct rt_jfile_db *d, struct rt_sql_book *book, size_t i)
{
    const struct rt_sql_saying *saying = book->steps[i].saying;
    sqlite3_stmt **s = &d->stmts[saying->slot];
    int rc = prepare(d, saying->sql, s);
    if (rc != SQLITE_OK)
        return rc;
    bind_args(*s, saying->types, book->steps[i].args, book->steps[i].count);
    int64_t before = sqlite3_total_changes64(d->db);
    while ((rc = sqlite3_step(*s)) == SQLITE_ROW)
        hear(book, i, *s);
    book->changed[i] = (uint64_t)(sqlite3_total_changes64(d->db) - before);
    (void)sqlite3_reset(*s);
    (void)sqlite3_clear_bindings(*s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

enum rt_jfile_end rt_jfile_db_run(struct rt_jfile_db *d, struct rt_sql_book *book, int *err)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && !book->failed && i < book->step_count; i++)
        rc = run_step(d, book, i);
    if (book->failed)
        rc = SQLITE_NOMEM;
    return rc == SQLITE_OK ? RT_JFILE_GOOD : end_of(d, rc, err);
}

/* ---- Transactions -------------------------------------------------------------------------------------- */

static int exec(struct rt_jfile_db *d, const char *sql)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

/* Whoever opens the journal by its name would find another one, or none: what is written here would be lost to
 * recovery. A process that may no longer look (it has since given up its rights) cannot know, and goes on. */
static bool has_moved(struct rt_jfile_db *d)
{
    struct stat now;
    int moved = 0;
    if (sqlite3_file_control(d->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK ||
        moved == 0)
        return false;
    const char *path = sqlite3_db_filename(d->db, "main");
    return path == NULL || stat(path, &now) == 0 || errno == ENOENT || errno == ENOTDIR;
}

enum rt_jfile_end rt_jfile_db_begin(struct rt_jfile_db *d, bool writes, bool durable, int *err)
{
    int rc = SQLITE_OK;
    if (writes && has_moved(d)) {
        *err = rt_words_fail(d->say, ROTA_PROTOCOL,
                             "%s/" RT_JFILE_NAME " was moved or removed while it was open: put it "
                             "back where it was, and open the journal anew",
                             d->shown);
        return RT_JFILE_STOPS;
    }
    if (writes && d->full != durable) {
        rc = exec(d, durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
        d->full = durable;
    }
    if (rc == SQLITE_OK)
        rc = writes ? once(d, "BEGIN IMMEDIATE", &d->begin) : once(d, "BEGIN", &d->begin_read);
    return rc == SQLITE_OK ? RT_JFILE_GOOD : end_of(d, rc, err);
}

void rt_jfile_db_rollback(struct rt_jfile_db *d)
{
    if (sqlite3_get_autocommit(d->db) == 0)
        (void)once(d, "ROLLBACK", &d->rollback);
}

/* A recovery may find what a failed COMMIT has left in the WAL: it is known that there is nothing only after BUSY and
 * FULL, and where COMMIT was not even begun. */
enum rt_jfile_end rt_jfile_db_commit(struct rt_jfile_db *d, int *err)
{
    bool begun = prepare(d, "COMMIT", &d->commit) == SQLITE_OK;
    int rc = once(d, "COMMIT", &d->commit), code = rc & 0xff;
    if (rc == SQLITE_OK)
        return RT_JFILE_GOOD;
    enum rt_jfile_end end = end_of(d, rc, err);
    rt_jfile_db_rollback(d);
    if (!begun || code == SQLITE_BUSY || code == SQLITE_FULL)
        return end;
    (void)rt_words_fail(
        d->say, ROTA_UNKNOWN,
        "%s/" RT_JFILE_NAME ": %s (%s): no more is written until the journal is opened "
        "anew; look at the system's log",
        d->shown, code == SQLITE_IOERR ? "the disk did not take it" : "a COMMIT failed",
        sqlite3_errstr(rc));
    return RT_JFILE_STOPS;
}

/* Whoever is at work folds the WAL back when it is long; a failed fsync there loses nothing: the WAL still has it
 * all. */
static int on_wal(void *arg, sqlite3 *db, const char *name, int frames)
{
    (void)arg;
    (void)name;
    if (frames >= WAL_FULL)
        (void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

/* ---- Opening --------------------------------------------------------------------------------------------- */

static int pragma_int(struct rt_jfile_db *d, const char *sql, int64_t *value)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(d->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        *value = sqlite3_column_int64(s, 0);
    (void)sqlite3_finalize(s);
    return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
}

static int check_layout(struct rt_jfile_db *d, bool *fresh)
{
    int64_t id = 0, version = 0, tables = 0;
    int rc = pragma_int(d, "PRAGMA application_id", &id);
    if (rc == SQLITE_OK)
        rc = pragma_int(d, "PRAGMA user_version", &version);
    if (rc == SQLITE_OK)
        rc = pragma_int(d, "SELECT count(*) FROM sqlite_schema", &tables);
    if (rc != SQLITE_OK)
        return error_of(d, rc);
    *fresh = id == 0 && version == 0 && tables == 0;
    if (*fresh)
        return 0;
    if (id != APPLICATION_ID)
        return rt_words_fail(
            d->say, ROTA_PROTOCOL,
            "%s/" RT_JFILE_NAME
            " belongs to another program: name another folder; nothing was changed",
            d->shown);
    if (version / LAYOUT_STEP != RT_ROWS_LAYOUT_MAJOR)
        return rt_words_fail(d->say, ROTA_UNSUPPORTED,
                             "%s/" RT_JFILE_NAME " has layout %" PRId64
                             ", this program knows %d: use a program of that version",
                             d->shown, version / LAYOUT_STEP, RT_ROWS_LAYOUT_MAJOR);
    return 0;
}

static int settings(struct rt_jfile_db *d)
{
    (void)sqlite3_extended_result_codes(d->db, 1);
    (void)sqlite3_busy_handler(d->db, on_busy, d);
    (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    (void)sqlite3_wal_hook(d->db, on_wal, d);
    d->full = true;
    return exec(d, "PRAGMA cell_size_check=ON;PRAGMA synchronous=FULL;PRAGMA temp_store=MEMORY;"
                   "PRAGMA cache_size=-16000;");
}

static int create_in(struct rt_jfile_db *d)
{
    bool fresh = false;
    char version[96];
    (void)snprintf(version, sizeof(version), "PRAGMA application_id=%d;PRAGMA user_version=%d;",
                   APPLICATION_ID, RT_ROWS_LAYOUT_MAJOR * LAYOUT_STEP);
    int rv = check_layout(d, &fresh); /* another process may have been first */
    if (rv != 0 || !fresh)
        return rv;
    int rc = exec(d, rt_jfile_schema);
    if (rc == SQLITE_OK)
        rc = exec(d, version);
    return rc == SQLITE_OK ? 0 : error_of(d, rc);
}

static int create(struct rt_jfile_db *d)
{
    int rc = exec(d, "PRAGMA page_size=" PAGE_SIZE ";PRAGMA journal_mode=WAL;");
    if (rc == SQLITE_OK)
        rc = exec(d, "BEGIN IMMEDIATE");
    if (rc != SQLITE_OK)
        return error_of(d, rc);
    int rv = create_in(d);
    if (rv == 0 && (rc = exec(d, "COMMIT")) != SQLITE_OK)
        rv = error_of(d, rc);
    if (rv != 0 && sqlite3_get_autocommit(d->db) == 0)
        (void)exec(d, "ROLLBACK");
    return rv;
}

static int who(struct rt_jfile_db *d)
{
    struct rt_sql_book book = {0};
    int rv = 0;
    rt_rows_say_cells(&book, rt_jfile_words, RT_ROWS_WHO, NULL, 0);
    if (rt_jfile_db_run(d, &book, &rv) == RT_JFILE_GOOD)
        rv = rt_rows_who(&book, d->say, d->shown, &d->number);
    rt_sql_book_free(&book);
    return rv;
}

static int open_db(struct rt_jfile_db *d, const char *path)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    bool fresh = false;
    int rc = sqlite3_open_v2(path, &d->db, flags, NULL);
    if (rc == SQLITE_OK)
        rc = settings(d);
    if (rc == SQLITE_OK)
        rc = exec(d, "BEGIN"); /* one snapshot: another process may just be making it */
    if (rc != SQLITE_OK)
        return error_of(d, rc);
    int rv = check_layout(d, &fresh);
    if (rv == 0 && (rc = exec(d, "COMMIT")) != SQLITE_OK)
        rv = error_of(d, rc);
    if (rv == 0 && fresh)
        rv = create(d);
    return rv == 0 ? who(d) : rv;
}

/* Makes the file with the rights that WAL and shm inherit, before SQLite opens it. */
static int make_file(struct rt_jfile_db *d, int dir, mode_t mode)
{
    struct stat st;
    int fd = openat(dir, RT_JFILE_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int err = fd < 0 ? errno : 0;
    if (fd >= 0) {
        err = fchmod(fd, mode) == 0 ? 0 : errno;
        (void)close(fd);
    }
    if (err == EEXIST)
        err = 0;
    if (err == 0 && fstatat(dir, RT_JFILE_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0)
        err = errno;
    if (err != 0)
        return rt_words_fail(
            d->say, err == EACCES || err == EPERM || err == EROFS ? ROTA_AUTH : ROTA_UNREACHABLE,
            "cannot create %s/" RT_JFILE_NAME ": %s; name a folder you may write", d->shown,
            strerror(err));
    if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && (mode & 0060) == 0))
        return rt_words_fail(d->say, ROTA_AUTH,
                             "%s/" RT_JFILE_NAME
                             " is not a regular file of yours: move it away or name another folder",
                             d->shown);
    return 0;
}

static int open_once(struct rt_jfile_db *d, const char *path)
{
    rt_jfile_fork_hold();
    int rv = open_db(d, path);
    if (rv == 0)
        rt_jfile_fork_add(d);
    else
        rt_jfile_db_end(d);
    rt_jfile_fork_let();
    return rv;
}

int rt_jfile_db_open(struct rt_jfile_db *d, int dir, const char *folder, mode_t mode)
{
    char path[PATH_MAX + 16];
    int rv = make_file(d, dir, mode);
    if (rv != 0)
        return rv;
    (void)snprintf(path, sizeof(path), "%s/" RT_JFILE_NAME, folder);
    while ((rv = open_once(d, path)) != 0) {
        bool again = d->busy && clock_ns() < d->until; /* not every wait asks the handler */
        struct timespec nap = {.tv_nsec = NAP_OPEN_NS};
        if (!again)
            return rv;
        d->busy = false;
        (void)nanosleep(&nap, NULL);
    }
    return 0;
}

void rt_jfile_db_close(struct rt_jfile_db *d)
{
    rt_jfile_fork_hold();
    rt_jfile_fork_remove(d);
    rt_jfile_db_end(d);
    rt_jfile_fork_let();
}

void rt_jfile_db_end(struct rt_jfile_db *d)
{
    sqlite3_stmt **own[] = {&d->begin, &d->begin_read, &d->commit, &d->rollback};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        (void)sqlite3_finalize(*own[i]);
        *own[i] = NULL;
    }
    for (size_t i = 0; i < sizeof(d->stmts) / sizeof(d->stmts[0]); i++) {
        (void)sqlite3_finalize(d->stmts[i]);
        d->stmts[i] = NULL;
    }
    (void)sqlite3_close(d->db);
    d->db = NULL;
}
