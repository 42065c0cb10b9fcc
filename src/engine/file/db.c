/* SPDX-License-Identifier: Apache-2.0 */
/* The database of the embedded engine: opening, statements, transactions, the counter.
 *
 * Nobody here opens or closes rota.db, rota.db-wal or rota.db-shm but SQLite: closing any
 * descriptor of them would drop the POSIX locks of all connections of the process. */
#include "base/bug.h"
#include "engine/file/file.h"
#include "engine/file/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define APPLICATION_ID 0x526f7461  /* "Rota" */
#define LAYOUT_STEP 1000           /* user_version = major * 1000 + minor */
#define PAGE_SIZE "1024"           /* a pair writes 3 pages: small ones, measured 25 % faster */
#define RESERVE INT64_C(600000000) /* one fsync per this many numbers: ten minutes of the clock */
#define CLOCK_MAX \
    INT64_C(9000000000000000)         /* us: a later clock counts as that, and numbers only count */
#define NUMBER_MAX (INT64_C(1) << 53) /* computing with numbers is exact below */
#define WAL_FULL 4000                 /* frames: folded back at the next commit; 4 MiB */
#define WAL_LONG 200                  /* frames: folded back at close; a lone open reads them all */
#define SPINS 30                      /* a transaction takes about this many yields */
#define NAP_NS 50000
#define NAPS_MAX 4 /* 200 us */
#define PUT_TRIES 8
#define TORN_NAP_NS (10 * RT_MS) /* those who have to give up need their time */

int64_t rt_file_wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The least that numbers begin at: what was numbered before, in a folder that has been lost since, is behind it. */
static int64_t clock_number(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (ts.tv_sec < 0)
        return 1;
    int64_t most = CLOCK_MAX / 1000000;
    return ts.tv_sec >= most ? CLOCK_MAX : (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t rt_file_mono_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- Errors -------------------------------------------------------------- */

static int io_error(struct rt_file_conn *c, int rc)
{
    int err = c->db != NULL ? sqlite3_system_errno(c->db) : 0;
    if (err == 0 && errno == EMFILE) /* SQLite keeps it for some calls only */
        err = errno;
    if (rt_file_say_files(c, err))
        return ROTA_UNREACHABLE;
    if (rc == SQLITE_IOERR_SHORT_READ)
        rt_file_say(c,
                    "%s/rota.db: it or its WAL was truncated while in use: end all programs that "
                    "use it, and try again",
                    c->shown);
    else if ((rc & 0xff) == SQLITE_IOERR)
        rt_file_say(c, "%s/rota.db: %s: disk full? free some space; else look at the system's log",
                    c->shown, sqlite3_errstr(rc));
    else
        rt_file_say(c,
                    "%s/rota.db cannot be opened%s%s: look at its rights, or name another folder",
                    c->shown, err != 0 ? ": " : "", err != 0 ? strerror(err) : "");
    return ROTA_UNREACHABLE;
}

int rt_file_db_error(struct rt_file_conn *c, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* the WAL's header changed under us too often */
        return RT_FILE_AGAIN;
    case SQLITE_NOMEM:
        return ROTA_NOMEM;
    case SQLITE_FULL:
        rt_file_say(c, "no space left for %s/rota.db: free some and try again", c->shown);
        return ROTA_UNREACHABLE;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        rt_file_say(c, "%s/rota.db cannot be written: mend its rights or name another folder",
                    c->shown);
        return ROTA_AUTH;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        rt_file_say(c,
                    "%s/rota.db is damaged or no database of Rota: move it away or name another "
                    "folder; nothing was changed",
                    c->shown);
        return ROTA_PROTOCOL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return io_error(c, rc);
    default:
        rt_file_say(c, "%s/rota.db: %s", c->shown,
                    c->db != NULL ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc));
        return ROTA_UNREACHABLE;
    }
}

/* Spins a little, then naps, until the limit: another's transaction takes some 10 us. */
static int on_busy(void *arg, int count)
{
    struct rt_file_conn *c = arg;
    int64_t now = rt_file_mono_ns();
    if (count == 0)
        c->busy_since = now;
    if (now - c->busy_since >= c->busy_limit_ns)
        return 0;
    if (count < SPINS) {
        (void)sched_yield();
    } else {
        long naps = 1 + (count - SPINS) % NAPS_MAX;
        struct timespec nap = {.tv_nsec = NAP_NS * naps};
        (void)nanosleep(&nap, NULL);
    }
    rt_file_torn_mend(c);
    return 1;
}

/* /proc/locks: "12: POSIX  ADVISORY  WRITE 4711 fe:00:1234567 120 120". SQLite's WAL takes byte
 * 120 of the shm file for writing (walformat.html, "WAL_WRITE_LOCK"). */
pid_t rt_file_lock_owner(const struct rt_file_conn *c)
{
    struct stat st;
    if (fstatat(c->dir, "rota.db-shm", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    FILE *f = fopen("/proc/locks", "re");
    if (f == NULL)
        return 0;
    char text[256];
    pid_t owner = 0;
    while (owner == 0 && fgets(text, sizeof(text), f) != NULL) {
        int pid = 0;
        unsigned long inode = 0, from = 0, to = 0;
        if (strstr(text, "WRITE") == NULL ||
            /* NOLINTNEXTLINE(cert-err34-c): the kernel prints numbers that fit */
            sscanf(text, "%*s POSIX %*s WRITE %d %*[^:]:%*[^:]:%lu %lu %lu", &pid, &inode, &from,
                   &to) != 4)
            continue;
        if (inode == st.st_ino && from <= 120 && to >= 120)
            owner = pid;
    }
    (void)fclose(f);
    return owner;
}

void rt_file_say_busy(struct rt_file_conn *c)
{
    pid_t pid = c->torn ? 0 : rt_file_lock_owner(c);
    if (c->torn)
        rt_file_say(c,
                    "files of %s/rota.db were deleted or truncated while in use: end who uses "
                    "them (fuser s/* there)",
                    c->shown);
    else if (pid > 0)
        rt_file_say(c, "%s/rota.db is locked by process %d (stopped?): continue or end it",
                    c->shown, (int)pid);
    else
        rt_file_say(c, "%s/rota.db stayed locked: see who uses it (fuser) and try again", c->shown);
}

/* ---- Statements ----------------------------------------------------------- */

sqlite3_stmt *rt_file_stmt(struct rt_file_conn *c, enum rt_file_stmt which)
{
    sqlite3_stmt **s = &c->stmts[which];
    if (*s != NULL || c->db == NULL)
        return *s;
    int rc = sqlite3_prepare_v3(c->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT, s, NULL);
    if (rc != SQLITE_OK)
        (void)rt_file_db_error(c, rc);
    return *s;
}

int rt_file_run(struct rt_file_conn *c, enum rt_file_stmt which, int count, const int64_t *args)
{
    sqlite3_stmt *s = rt_file_stmt(c, which);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    for (int i = 0; i < count; i++)
        (void)sqlite3_bind_int64(s, i + 1, args[i]);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        rc = SQLITE_DONE;
    int rv = rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

/* ---- Transactions ---------------------------------------------------------- */

int rt_file_begin(struct rt_file_conn *c)
{
    int rv = rt_file_run(c, RT_FILE_BEGIN, 0, NULL);
    c->in_tx = rv == 0;
    return rv;
}

int rt_file_commit(struct rt_file_conn *c)
{
    if (RT_BUG(RT_BUG_RUNG_BEFORE_COMMIT))
        rt_file_rings_send(c);
    int rv = rt_file_run(c, RT_FILE_COMMIT, 0, NULL);
    if (rv == 0) {
        c->in_tx = false;
        return 0;
    }
    bool io = (sqlite3_errcode(c->db) & 0xff) == SQLITE_IOERR;
    rt_file_rollback(c);
    /* The commit's frame may have reached the file: a recovery would find it. */
    return io ? ROTA_UNKNOWN : rv;
}

void rt_file_rollback(struct rt_file_conn *c)
{
    if (c->in_tx && sqlite3_get_autocommit(c->db) == 0)
        (void)rt_file_run(c, RT_FILE_ROLLBACK, 0, NULL);
    c->in_tx = false;
    rt_file_rings_clear(&c->rings);
    rt_file_wait_drop_born(c);
}

/* ---- The WAL ------------------------------------------------------------------ */

/* As far as no reader is in the way; the next one folds back what is left. */
static void fold_back(struct rt_file_conn *c)
{
    (void)sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* After each commit: what wal_autocheckpoint does (it is such a hook), and counts. */
static int on_wal(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct rt_file_conn *c = arg;
    (void)name;
    c->wal_frames = frames;
    if (frames >= WAL_FULL)
        (void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

/* At close: whoever opens the folder alone reads the whole WAL, and takes none of it as folded back.
 * So it begins anew, if nobody is at work, and never stays empty (see wal_is_lost). */
static void begin_anew(struct rt_file_conn *c)
{
    c->busy_limit_ns = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (rc == SQLITE_OK)
        (void)sqlite3_exec(c->db, "UPDATE meta SET next=min(next+1,reserved)", NULL, NULL, NULL);
}

/* The WAL stays when programs end: if it is not there, commits were lost with it. Or
 * somebody is just making it: either way it goes on as after a power loss. */
static bool wal_is_lost(const struct rt_file_part *wal)
{
    return !wal->there || wal->size == 0;
}

/* ---- The counter ----------------------------------------------------------- */

static const char *fake_boot;

void rt_file_fake_boot(const char *id)
{
    fake_boot = id;
}

static int boot_id(struct rt_file_conn *c, char *out, size_t size)
{
    if (fake_boot != NULL) {
        (void)snprintf(out, size, "%s", fake_boot);
        return 0;
    }
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    if (n <= 0) {
        if (!rt_file_say_files(c, errno))
            rt_file_say(c, "cannot read the boot id: mount /proc");
        return ROTA_UNREACHABLE;
    }
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return 0;
}

struct meta {
    int64_t next, reserved, observers;
    char boot[64];
};

static int check_counter(struct rt_file_conn *c, const struct meta *m)
{
    if (m->next >= 1 && m->next <= m->reserved && m->reserved <= NUMBER_MAX - 2 * RESERVE)
        return 0;
    rt_file_say(c,
                "%s/rota.db is damaged: its counter is %" PRId64 " of %" PRId64
                "; move it away or name another folder",
                c->shown, m->next, m->reserved);
    return ROTA_PROTOCOL;
}

static int meta_get(struct rt_file_conn *c, struct meta *m, bool boot)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_META);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    int rc = sqlite3_step(s);
    int rv = 0;
    if (rc == SQLITE_ROW) {
        m->next = sqlite3_column_int64(s, 0);
        m->reserved = sqlite3_column_int64(s, 1);
        m->observers = sqlite3_column_int64(s, 2);
        const unsigned char *text = boot ? sqlite3_column_text(s, 3) : NULL;
        (void)snprintf(m->boot, sizeof(m->boot), "%s", text != NULL ? (const char *)text : "");
        rv = check_counter(c, m);
    } else {
        rv = rt_file_db_error(c, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc);
    }
    (void)sqlite3_reset(s);
    return rv;
}

/* max(last + 1, clock), as on servers. */
static int64_t number_of(const struct meta *m)
{
    int64_t now = clock_number();
    if (RT_BUG(RT_BUG_COUNTER_FOLLOWS_CLOCK) && m->next > now + 10000)
        return now;
    return m->next > now ? m->next : now;
}

int rt_file_number(struct rt_file_conn *c, uint64_t *number, bool *observed)
{
    struct meta m;
    int rv = meta_get(c, &m, false);
    if (rv != 0)
        return rv;
    int64_t next = number_of(&m);
    if (next >= m.reserved) { /* I2: never use a number that a power loss could give again */
        c->numbers_ok = false;
        return RT_FILE_AGAIN;
    }
    *number = (uint64_t)next;
    *observed = m.observers > 0;
    return rt_file_run(c, RT_FILE_META_NEXT, 1, (int64_t[]){next + 1});
}

int rt_file_observed(struct rt_file_conn *c, bool *observed)
{
    struct meta m = {0};
    int rv = meta_get(c, &m, false);
    *observed = m.observers > 0;
    return rv;
}

/* In a transaction that is on the disk before it returns. */
static int reserve_in_tx(struct rt_file_conn *c, const char *boot)
{
    struct meta m;
    int rv = rt_file_begin(c);
    if (rv != 0)
        return rv;
    rv = meta_get(c, &m, true);
    if (rv == 0 && (strcmp(m.boot, boot) != 0 || c->wal_lost)) {
        m.next = m.reserved; /* what was numbered since the last fsync may have been forgotten */
        sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_META_BOOT);
        if (s != NULL)
            (void)sqlite3_bind_text(s, 1, boot, -1, SQLITE_TRANSIENT);
        rv = s != NULL ? rt_file_run(c, RT_FILE_META_BOOT, 0, NULL)
                       : rt_file_db_error(c, sqlite3_errcode(c->db));
    }
    int64_t next = rv == 0 ? number_of(&m) : 0;
    if (rv == 0 && next >= m.reserved)
        rv = rt_file_run(c, RT_FILE_META_RESERVED, 2, (int64_t[]){next, next + RESERVE});
    if (rv == 0)
        return rt_file_commit(c);
    rt_file_rollback(c);
    return rv;
}

int rt_file_reserve(struct rt_file_conn *c)
{
    char boot[64];
    struct meta m;
    int rv = boot_id(c, boot, sizeof(boot));
    if (rv == 0)
        rv = meta_get(c, &m, true);
    if (rv != 0)
        return rv;
    if (strcmp(m.boot, boot) != 0 || number_of(&m) >= m.reserved || c->wal_lost) {
        (void)sqlite3_exec(c->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL);
        rv = reserve_in_tx(c, boot);
        (void)sqlite3_exec(c->db, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
        if (rv == 0)
            fold_back(c); /* into the main file: the WAL may be deleted by whoever tidies up */
    }
    c->wal_lost = c->wal_lost && rv != 0;
    c->numbers_ok = rv == 0;
    return rv;
}

/* ---- Opening ---------------------------------------------------------------- */

static int pragma_int(struct rt_file_conn *c, const char *sql, int64_t *value)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *value = sqlite3_column_int64(s, 0);
        rc = SQLITE_OK;
    }
    (void)sqlite3_finalize(s);
    return rc == SQLITE_OK ? 0 : rt_file_db_error(c, rc);
}

static int exec(struct rt_file_conn *c, const char *sql)
{
    int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : rt_file_db_error(c, rc);
}

static int check_layout(struct rt_file_conn *c, bool *fresh)
{
    int64_t id = 0, version = 0, tables = 0;
    int rv = pragma_int(c, "PRAGMA application_id", &id);
    if (rv == 0)
        rv = pragma_int(c, "PRAGMA user_version", &version);
    if (rv == 0)
        rv = pragma_int(c, "SELECT count(*) FROM sqlite_schema", &tables);
    if (rv != 0)
        return rv;
    *fresh = id == 0 && version == 0 && tables == 0;
    if (*fresh)
        return 0;
    if (id != APPLICATION_ID) {
        rt_file_say(c,
                    "%s/rota.db belongs to another program: name another folder; nothing was "
                    "changed",
                    c->shown);
        return ROTA_PROTOCOL;
    }
    if (version / LAYOUT_STEP != RT_FILE_LAYOUT_MAJOR) {
        rt_file_say(c,
                    "%s/rota.db has layout %" PRId64 ", this program knows %d: use a program of "
                    "that version, or another folder",
                    c->shown, version / LAYOUT_STEP, RT_FILE_LAYOUT_MAJOR);
        return ROTA_UNSUPPORTED;
    }
    return 0;
}

static int create(struct rt_file_conn *c)
{
    bool fresh = false;
    char version[64];
    (void)snprintf(version, sizeof(version), "PRAGMA application_id=%d;PRAGMA user_version=%d;",
                   APPLICATION_ID, RT_FILE_LAYOUT_MAJOR * LAYOUT_STEP + RT_FILE_LAYOUT_MINOR);
    int rv = exec(c, "PRAGMA page_size=" PAGE_SIZE ";PRAGMA journal_mode=WAL;");
    if (rv == 0)
        rv = exec(c, "BEGIN IMMEDIATE");
    if (rv != 0)
        return rv;
    rv = check_layout(c, &fresh); /* another may have been first */
    if (rv == 0 && fresh)
        rv = exec(c, schema_sql);
    if (rv == 0 && fresh)
        rv = exec(c, version);
    if (rv == 0)
        rv = exec(c, "COMMIT");
    if (rv != 0)
        (void)sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    else
        fold_back(c);
    return rv;
}

static int settings(struct rt_file_conn *c)
{
    (void)sqlite3_extended_result_codes(c->db, 1);
    (void)sqlite3_busy_handler(c->db, on_busy, c);
    (void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    (void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    /* The WAL stays for the next one: folding it back and beginning it anew would cost each command
     * that is alone four fsyncs. Only when it has become long does the one that closes do that. */
    (void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    (void)sqlite3_wal_hook(c->db, on_wal, c);
    int persist = 1;
    (void)sqlite3_file_control(c->db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
    return exec(c, "PRAGMA cell_size_check=ON;PRAGMA synchronous=NORMAL;PRAGMA temp_store=MEMORY;"
                   "PRAGMA cache_size=-16000;");
}

static int cannot_make(struct rt_file_conn *c, int err)
{
    rt_file_say(c, "cannot make %s/rota.db: %s; name a folder you may write", c->shown,
                strerror(err));
    return err == EACCES || err == EPERM || err == EROFS ? ROTA_AUTH : ROTA_UNREACHABLE;
}

/* The file, with the rights that WAL and shm inherit, gets its name last: once it has one, somebody may put another
 * thing there. It is closed before that: until then no thread of ours has opened it by SQLite (see the top). */
static int put_file(struct rt_file_conn *c)
{
    int err = ENOENT;
    for (int i = 0; i < PUT_TRIES && err == ENOENT; i++) { /* it may be swept as a stray */
        uint64_t id = 0;
        int fd = -1, rv = rt_file_session_make(c, &id, &fd);
        if (rv != 0)
            return rv;
        (void)close(fd);
        err = rt_file_session_publish(c, id, "rota.db") == 0 ? 0 : errno;
    }
    return err == 0 || err == EEXIST ? 0 : cannot_make(c, err);
}

static int make_file(struct rt_file_conn *c)
{
    struct stat st;
    int rv = 0;
    if (fstatat(c->dir, "rota.db", &st, AT_SYMLINK_NOFOLLOW) != 0) {
        rv = errno == ENOENT ? put_file(c) : cannot_make(c, errno);
        if (rv == 0 && fstatat(c->dir, "rota.db", &st, AT_SYMLINK_NOFOLLOW) != 0)
            rv = cannot_make(c, errno);
    }
    bool shared = (c->mode & 0060) != 0;
    if (rv == 0 && (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && !shared))) {
        rt_file_say(c, "%s/rota.db is no plain file of yours: move it away or name another folder",
                    c->shown);
        rv = ROTA_AUTH;
    }
    return rv;
}

static int try_open(struct rt_file_conn *c, const char *path)
{
    struct rt_file_part parts[RT_FILE_PARTS]; /* before SQLite makes them */
    rt_file_torn_see(c, parts);
    if (rt_file_torn_check(c, parts) != 0 && !RT_BUG(RT_BUG_DELETED_NOT_WAITED_FOR))
        return RT_FILE_AGAIN;
    bool fresh = false, lost = wal_is_lost(&parts[RT_FILE_PART_WAL]);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    int rc = sqlite3_open_v2(path, &c->db, flags, NULL);
    int rv = rc == SQLITE_OK ? settings(c) : rt_file_db_error(c, rc);
    if (rv == 0)
        rv = exec(c, "BEGIN"); /* one snapshot: another may be making it just now */
    if (rv == 0)
        rv = check_layout(c, &fresh);
    if (rv == 0)
        rv = exec(c, "COMMIT");
    if (rv == 0)
        rv = fresh ? create(c) : exec(c, "PRAGMA journal_mode=WAL");
    if (rv == 0 && lost && !fresh) { /* before anybody takes numbers that were given already */
        c->wal_lost = true;
        rv = rt_file_reserve(c);
    }
    if (rv == 0)
        rv = rt_file_torn_note(c, parts);
    if (rv != 0)
        rt_file_db_close(c);
    return rv;
}

int rt_file_db_open(struct rt_file_conn *c, bool wait)
{
    char path[PATH_MAX + 16];
    int rv = make_file(c);
    if (rv != 0)
        return rv;
    (void)snprintf(path, sizeof(path), "%s/rota.db", c->folder);
    /* All that SQLite does not do at once is to make the database, or to mend it after a crash. */
    int64_t limit = rt_file_mono_ns() + (int64_t)c->base.call_ms * RT_MS;
    while ((rv = try_open(c, path)) == RT_FILE_AGAIN && wait && rt_file_mono_ns() < limit) {
        struct timespec nap = {.tv_nsec = c->torn ? TORN_NAP_NS : RT_MS};
        (void)nanosleep(&nap, NULL);
    }
    if (rv != RT_FILE_AGAIN || !wait)
        return rv;
    rt_file_say_busy(c);
    return ROTA_UNREACHABLE;
}

void rt_file_db_close(struct rt_file_conn *c)
{
    for (size_t i = 0; i < RT_FILE_STMTS; i++) {
        (void)sqlite3_finalize(c->stmts[i]);
        c->stmts[i] = NULL;
    }
    if (c->wal_frames > WAL_LONG && rt_file_db_linked(c))
        begin_anew(c);
    c->wal_frames = 0;
    (void)sqlite3_close(c->db);
    c->db = NULL;
    if (c->shm_fd >= 0)
        (void)close(c->shm_fd);
    c->shm_fd = -1;
}
