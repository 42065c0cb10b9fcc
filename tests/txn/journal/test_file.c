/* SPDX-License-Identifier: Apache-2.0 */
/* The file journal and its disk: one fsync for many, an fsync that fails, a full disk, a power loss, a writer killed at
 * any write or fsync, torn or damaged files, a heap that runs out. */
#undef _FILE_OFFSET_BITS /* pwrite has both its names */
#include "clerk.h"
#include "lib/proc.h"
#include "lib/scarce.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The disk, in place of the C library's, for SQLite too ------------------------------------------- */

static atomic_long syncs;   /* of the WAL */
static atomic_bool broken;  /* they fail */
static atomic_bool full;    /* no file grows */
static atomic_long die_at;  /* kill -9 at the Nth step from now; 0: never */
static atomic_bool held;    /* syncs of the WAL wait for `gate` */
static atomic_long waiting; /* that do */
static char disk[256];      /* what was synced is copied there; "": nobody looks */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static const char *name_of(int fd, char *path, size_t size)
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_ours(int fd)
{
    char path[256];
    return strncmp(name_of(fd, path, sizeof(path)), "txn.db", 6) == 0;
}

static void step(int fd)
{
    if (atomic_load(&die_at) > 0 && is_ours(fd) && atomic_fetch_sub(&die_at, 1) == 1)
        (void)kill(getpid(), SIGKILL);
}

static void copy(int fd)
{
    char path[256], to[600];
    const char *name = name_of(fd, path, sizeof(path));
    static char bytes[1 << 16];
    off_t at = 0;
    ssize_t n;
    snprintf(to, sizeof(to), "%s/%s", disk, name);
    int out = open(to, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    int in = open(path, O_RDONLY | O_CLOEXEC);
    while ((n = pread(in, bytes, sizeof(bytes), at)) > 0 && write(out, bytes, (size_t)n) == n)
        at += n;
    close(in);
    close(out);
}

/* The folder was synced: what was deleted there stays deleted. */
static void copy_names(const char *from)
{
    static const char *const names[] = {"txn.db", "txn.db-journal", "txn.db-wal"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char there[600];
        snprintf(there, sizeof(there), "%s/%s", from, names[i]);
        if (access(there, F_OK) == 0)
            continue;
        snprintf(there, sizeof(there), "%s/%s", disk, names[i]);
        (void)unlink(there);
    }
}

static int sync_of(int fd, long call)
{
    char path[256];
    step(fd); /* between the write and the fsync */
    struct stat st;
    if (disk[0] != '\0' && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)name_of(fd, path, sizeof(path));
        copy_names(path);
    }
    if (!is_ours(fd))
        return (int)syscall(call, fd);
    if (strcmp(name_of(fd, path, sizeof(path)), "txn.db-wal") == 0) {
        atomic_fetch_add(&syncs, 1);
        if (atomic_load(&held)) {
            atomic_fetch_add(&waiting, 1);
            pthread_mutex_lock(&gate);
            pthread_mutex_unlock(&gate);
        }
        if (atomic_load(&broken)) {
            errno = EIO;
            return -1;
        }
    }
    int rv = (int)syscall(call, fd);
    if (disk[0] != '\0')
        copy(fd);
    step(fd);
    return rv;
}

int fdatasync(int fd)
{
    return sync_of(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return sync_of(fd, SYS_fsync);
}

static ssize_t write_at(int fd, const void *bytes, size_t size, off_t at)
{
    struct stat st;
    if (atomic_load(&full) && is_ours(fd) && fstat(fd, &st) == 0 && at + (off_t)size > st.st_size) {
        errno = ENOSPC;
        return -1;
    }
    step(fd);
    ssize_t rv = syscall(SYS_pwrite64, fd, bytes, size, at);
    step(fd);
    return rv;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return write_at(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at)
{
    return write_at(fd, bytes, size, at);
}

/* ---- Folders -------------------------------------------------------------------------------------------- */

static char folder[200], url[256];

static int new_folder(void **state)
{
    static int count;
    (void)state;
    snprintf(folder, sizeof(folder), "%s/j%d", rt_tmpdir(), ++count);
    snprintf(url, sizeof(url), "file:%s", folder);
    return 0;
}

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", folder, name);
}

/* ---- Group commit ------------------------------------------------------------------------------------------ */

#define AT_ONCE 32

/* While one fsync is under way, 32 decisions come: the next fsync is for all of them. */
static void test_one_fsync(void **state)
{
    static struct rt_journal_op first, ops[AT_ONCE];
    struct clerk c;
    (void)state;
    clerk_start(&c, url);
    assert_int_equal(clerk_decide(&c, clerk_id(&c), RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    long before = atomic_load(&syncs);
    atomic_store(&waiting, 0);
    pthread_mutex_lock(&gate);
    atomic_store(&held, true);
    first = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
    first.decide.id = clerk_id(&c);
    first.decide.decision = RT_JOURNAL_COMMIT;
    clerk_submit(&c, &first);
    while (atomic_load(&waiting) == 0)
        clerk_turn(&c, 1);
    for (int i = 0; i < AT_ONCE; i++) {
        ops[i] = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
        ops[i].decide.id = clerk_id(&c);
        ops[i].decide.decision = RT_JOURNAL_COMMIT;
        clerk_submit(&c, &ops[i]);
    }
    assert_false(clerk_told(&first)); /* nobody is told before it is on the disk */
    atomic_store(&held, false);
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < AT_ONCE; i++)
        assert_int_equal(clerk_wait(&c, &ops[i]), 0);
    assert_true(clerk_told(&first));
    assert_int_equal(atomic_load(&syncs) - before, 2);
    clerk_close(&c);
}

/* A figure: 32 at once for a while. And lazy ops cost no fsync. */
static void test_figure(void **state)
{
    static struct rt_journal_op ops[AT_ONCE];
    struct clerk c;
    long total = 2000, asked = 0, told = 0;
    (void)state;
    clerk_start(&c, url);
    long before = atomic_load(&syncs);
    for (int i = 0; told < total; i = (i + 1) % AT_ONCE) {
        if (asked >= AT_ONCE && !clerk_told(&ops[i])) {
            clerk_turn(&c, i == 0 ? 10 : 0);
            continue;
        }
        told += asked >= AT_ONCE;
        if (asked >= AT_ONCE)
            assert_int_equal(ops[i].err, 0);
        ops[i] = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
        ops[i].decide.id = clerk_id(&c);
        ops[i].decide.decision = RT_JOURNAL_COMMIT;
        clerk_submit(&c, &ops[i]);
        asked++;
    }
    long used = atomic_load(&syncs) - before;
    print_message("decisions per fsync at %d at once: %.1f\n", AT_ONCE,
                  (double)told / (double)used);
    assert_true(used < told);
    for (int i = 0; i < AT_ONCE; i++)
        (void)clerk_wait(&c, &ops[i]);
    before = atomic_load(&syncs);
    for (int i = 0; i < AT_ONCE; i++)
        clerk_finish(&c, ops[i].decide.id);
    assert_int_equal(atomic_load(&syncs), before);
    clerk_close(&c);
}

/* ---- What a disk can do -------------------------------------------------------------------------------------- */

static void test_fsync_fails(void **state)
{
    struct clerk c;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    (void)state;
    clerk_start(&c, url);
    struct rt_txn_id good = clerk_id(&c);
    assert_int_equal(clerk_decide(&c, good, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    atomic_store(&broken, true);
    op.decide.id = clerk_id(&c);
    op.decide.decision = RT_JOURNAL_COMMIT;
    assert_int_equal(clerk_do(&c, &op), ROTA_UNKNOWN);
    assert_non_null(strstr(c.errmsg, "opened anew"));
    assert_non_null(strstr(c.log, "opened anew"));
    atomic_store(&broken, false);
    long before = atomic_load(&syncs);
    assert_int_equal(clerk_do(&c, &op), ROTA_PROTOCOL); /* never tried again */
    assert_non_null(strstr(c.errmsg, "opened anew"));
    struct rt_journal_op read = {.kind = RT_JOURNAL_READ};
    read.read.id = good;
    assert_int_equal(clerk_do(&c, &read), ROTA_PROTOCOL);
    assert_int_equal(atomic_load(&syncs), before);
    clerk_close(&c);
    clerk_start(&c, url);
    assert_int_equal(clerk_read(&c, good).stands, RT_JOURNAL_COMMIT);
    assert_int_not_equal(clerk_decide(&c, op.decide.id, RT_JOURNAL_ABORT), RT_JOURNAL_OPEN);
    clerk_close(&c);
}

static void test_disk_full(void **state)
{
    struct clerk c;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    (void)state;
    clerk_start(&c, url);
    struct rt_txn_id good = clerk_id(&c);
    assert_int_equal(clerk_decide(&c, good, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    atomic_store(&full, true);
    int rv = 0;
    for (int i = 0; i < 1000 && rv == 0; i++) { /* until what is already there is overwritten */
        op.decide.id = clerk_id(&c);
        op.decide.decision = RT_JOURNAL_COMMIT;
        rv = clerk_do(&c, &op);
    }
    assert_int_equal(rv, ROTA_UNREACHABLE);
    assert_non_null(strstr(c.errmsg, "no space"));
    assert_int_equal(clerk_read(&c, op.decide.id).stands, RT_JOURNAL_ABSENT);
    assert_int_equal(clerk_read(&c, good).stands, RT_JOURNAL_COMMIT);
    atomic_store(&full, false);
    assert_int_equal(clerk_decide(&c, op.decide.id, RT_JOURNAL_ABORT), RT_JOURNAL_ABORT);
    clerk_close(&c);
}

/* Recovery would not find what is decided then, so nothing is. */
static void test_moved_away(void **state)
{
    struct clerk c;
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    char away[220];
    (void)state;
    clerk_start(&c, url);
    struct rt_txn_id good = clerk_id(&c);
    assert_int_equal(clerk_decide(&c, good, RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    snprintf(away, sizeof(away), "%s.away", folder);
    assert_int_equal(rename(folder, away), 0);
    op.decide.id = clerk_id(&c);
    op.decide.decision = RT_JOURNAL_COMMIT;
    assert_int_not_equal(clerk_do(&c, &op), 0);
    assert_non_null(strstr(c.errmsg, "moved or removed"));
    assert_non_null(strstr(c.errmsg, "open the journal anew"));
    assert_int_equal(rename(away, folder), 0);
    assert_int_not_equal(clerk_do(&c, &op), 0); /* not before it is opened anew */
    clerk_close(&c);
    clerk_start(&c, url);
    assert_int_equal(clerk_read(&c, good).stands, RT_JOURNAL_COMMIT);
    assert_int_equal(clerk_read(&c, op.decide.id).stands, RT_JOURNAL_ABSENT);
    clerk_close(&c);
}

/* A daemon that drops its rights once all is open can no longer see the file: that does not mean it is gone. */
static void test_rights_given_up(void **state)
{
    struct clerk c;
    (void)state;
    if (geteuid() != 0)
        skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        clerk_start(&c, url);
        if (setuid(65534) != 0 || access(folder, X_OK) == 0)
            _exit(2);
        struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
        op.decide.id = clerk_id(&c);
        op.decide.decision = RT_JOURNAL_COMMIT;
        _exit(clerk_do(&c, &op) == 0 && op.decide.stands == RT_JOURNAL_COMMIT ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Each file is as it was when it was last synced: all that was acknowledged is there. */
static void test_power_loss(void **state)
{
    struct rt_txn_id ids[40];
    struct clerk c;
    (void)state;
    snprintf(disk, sizeof(disk), "%s/disk", rt_tmpdir());
    assert_int_equal(mkdir(disk, 0700), 0);
    clerk_start(&c, url);
    for (int i = 0; i < 40; i++) {
        ids[i] = clerk_id(&c);
        if (i % 4 == 3)
            assert_int_equal(clerk_register(&c, ids[i], 1), RT_JOURNAL_OPEN);
        else
            assert_int_equal(clerk_decide(&c, ids[i], RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    }
    char there[300];
    snprintf(there, sizeof(there), "file:%s", disk);
    disk[0] = '\0'; /* here the power goes */
    clerk_close(&c);
    clerk_start(&c, there);
    for (int i = 0; i < 40; i++)
        assert_int_equal(clerk_read(&c, ids[i]).stands,
                         i % 4 == 3 ? RT_JOURNAL_OPEN : RT_JOURNAL_COMMIT);
    clerk_close(&c);
}

/* ---- A COMMIT that fails late ---------------------------------------------------------------------------------- */

static atomic_bool poor; /* SQLite has no memory left just after the WAL was synced */
static sqlite3_io_methods wal;
static int (*sync_wal)(sqlite3_file *f, int flags);
static int (*open_file)(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out);

static int sync_poorly(sqlite3_file *f, int flags)
{
    int rc = sync_wal(f, flags);
    return rc == SQLITE_OK && atomic_load(&poor) ? SQLITE_NOMEM : rc;
}

static int open_poorly(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    int rc = open_file(v, name, f, flags, out);
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_WAL) != 0) {
        wal = *f->pMethods;
        sync_wal = wal.xSync;
        wal.xSync = sync_poorly;
        f->pMethods = &wal;
    }
    return rc;
}

/* The whole transaction is in the WAL, and whoever recovers that finds it, whatever SQLite said: so it is not known. */
static void test_commit_fails_late(void **state)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
    sqlite3_vfs *v = sqlite3_vfs_find(NULL);
    char there[300];
    struct clerk c;
    (void)state;
    open_file = v->xOpen;
    v->xOpen = open_poorly;
    snprintf(disk, sizeof(disk), "%s/late", rt_tmpdir());
    snprintf(there, sizeof(there), "file:%s", disk);
    assert_int_equal(mkdir(disk, 0700), 0);
    clerk_start(&c, url);
    op.decide.id = clerk_id(&c);
    op.decide.decision = RT_JOURNAL_COMMIT;
    atomic_store(&poor, true);
    assert_int_equal(clerk_do(&c, &op), ROTA_UNKNOWN);
    assert_non_null(strstr(c.errmsg, "opened anew"));
    atomic_store(&poor, false);
    assert_int_equal(clerk_do(&c, &op), ROTA_PROTOCOL); /* never tried again */
    disk[0] = '\0';                                     /* here the power goes */
    clerk_close(&c);
    v->xOpen = open_file;
    clerk_start(&c, there);
    assert_int_equal(clerk_read(&c, op.decide.id).stands, RT_JOURNAL_COMMIT);
    clerk_close(&c);
}

/* ---- A writer that dies ------------------------------------------------------------------------------------------ */

/* Decides until it dies, and reports what it was told. */
static void write_and_die(int out, long at)
{
    struct clerk c;
    atomic_store(&die_at, at);
    if (clerk_open(&c, url) != 0)
        _exit(1);
    clerk_identify(&c);
    for (uint64_t i = 1; i <= 12; i++) {
        struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE};
        op.decide.id = rt_txn_id_make(c.number, c.now_ms, (uint64_t)at << 8 | i);
        op.decide.decision = i % 2 == 0 ? RT_JOURNAL_COMMIT : RT_JOURNAL_ABORT;
        if (clerk_do(&c, &op) != 0 || write(out, &op.decide, sizeof(op.decide)) < 0)
            _exit(2);
        if (i % 3 == 0)
            clerk_finish(&c, op.decide.id);
    }
    _exit(0); /* it was not to die so late */
}

#define TOLD_MAX 16

/* What a child that writes and dies was told; BESIDE: there is another client, which mends what the child leaves. */
static size_t let_write(long at, bool beside, struct rt_journal_op *all, int *status)
{
    int ends[2];
    size_t count = 0;
    struct clerk c;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        write_and_die(ends[1], at);
    }
    close(ends[1]);
    if (beside)
        clerk_start(&c, url);
    while (count < TOLD_MAX && read(ends[0], &all[count].decide, sizeof(all[0].decide)) ==
                                   (ssize_t)sizeof(all[0].decide))
        count++;
    close(ends[0]);
    assert_int_equal(waitpid(pid, status, 0), pid);
    if (WIFEXITED(*status) && WEXITSTATUS(*status) != 0)
        fail_msg("at %ld it ended with %d", at, WEXITSTATUS(*status));
    if (beside)
        clerk_close(&c);
    return count;
}

static void check_told(const struct rt_journal_op *all, size_t count)
{
    struct clerk c;
    clerk_start(&c, url);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(clerk_read(&c, all[i].decide.id).stands, all[i].decide.stands);
    assert_int_equal(clerk_decide(&c, clerk_id(&c), RT_JOURNAL_COMMIT), RT_JOURNAL_COMMIT);
    clerk_close(&c);
}

static bool killed_at(long at)
{
    struct rt_journal_op all[TOLD_MAX];
    int status;
    size_t count = let_write(at, at % 3 == 0, all, &status);
    check_told(all, count);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* In a new folder: also while the folder is made. */
static void test_killed_anywhere(void **state)
{
    long at = 1, died = 0;
    for (; at < 400; at += at < 60 ? 1 : 7) {
        if (at < 60 || at % 5 == 0)
            (void)new_folder(state);
        if (!killed_at(at))
            break;
        died++;
    }
    print_message("killed at %ld writes and fsyncs\n", died);
    assert_true(died > 60);
}

/* ---- A fork ---------------------------------------------------------------------------------------------------------- */

/* Opens the file beside what it inherited; decides when it is told to; and dies without closing anything. */
static void decide_as_child(int go, int told)
{
    struct clerk c;
    char byte = 'o';
    if (clerk_open(&c, url) != 0)
        _exit(1);
    clerk_identify(&c);
    if (write(told, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(2);
    struct rt_txn_id id = clerk_id(&c);
    if (clerk_decide(&c, id, RT_JOURNAL_COMMIT) != RT_JOURNAL_COMMIT ||
        write(told, &id, sizeof(id)) != (ssize_t)sizeof(id))
        _exit(3);
    (void)kill(getpid(), SIGKILL);
}

/* A child's connection has locks of its own: when its parent closes, the last but the child, the WAL stays. */
static void test_child_has_its_own(void **state)
{
    struct clerk c;
    struct rt_txn_id id;
    int go[2], told[2], status;
    char byte;
    (void)state;
    clerk_start(&c, url);
    (void)clerk_decide(&c, clerk_id(&c), RT_JOURNAL_COMMIT);
    assert_true(pipe(go) == 0 && pipe(told) == 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        decide_as_child(go[0], told[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &byte, 1), 1);
    clerk_close(&c);
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(read(told[0], &id, sizeof(id)), sizeof(id));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    clerk_start(&c, url);
    assert_int_equal(clerk_read(&c, id).stands, RT_JOURNAL_COMMIT);
    clerk_close(&c);
    close(go[0]), close(go[1]), close(told[0]);
}

/* ---- Files ----------------------------------------------------------------------------------------------------------- */

static void test_torn_tail(void **state)
{
    char path[256];
    int status;
    struct rt_journal_op all[TOLD_MAX];
    (void)state;
    size_t count = let_write(0, false, all, &status);
    assert_int_equal(count, 12);
    path_of(path, sizeof(path), "txn.db-wal");
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(write(fd, "torn", 4), 4);
    close(fd);
    check_told(all, count);
}

static void test_not_ours(void **state)
{
    char path[256], text[100];
    struct clerk c;
    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    path_of(path, sizeof(path), "txn.db");
    memset(text, 'x', sizeof(text));
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    close(fd);
    assert_int_equal(clerk_open(&c, url), ROTA_PROTOCOL);
    assert_non_null(strstr(c.errmsg, "damaged or not a Rota journal"));
    assert_int_equal(clerk_open(&c, "file:/proc/nowhere"), ROTA_UNREACHABLE);
    assert_int_equal(clerk_open(&c, "file:/tmp?no=such"), ROTA_INVALID);
    assert_int_equal(clerk_open(&c, "redis://x"), ROTA_INVALID);
    assert_non_null(strstr(c.errmsg, "no journal for"));
}

/* ---- Memory -------------------------------------------------------------------------------------------------------------- */

static int use_all(struct clerk *c)
{
    struct rt_journal_branch one = {.number = 9, .resource = "r"};
    struct rt_journal_op op = {.kind = RT_JOURNAL_IDENTIFY};
    static struct page page;
    int rv = clerk_do(c, &op);
    if (rv != 0)
        return rv;
    c->number = op.identify.number;
    c->now_ms = op.identify.now_ms;
    struct rt_txn_id id = clerk_id(c);
    op = (struct rt_journal_op){.kind = RT_JOURNAL_REGISTER};
    op.reg.id = id;
    op.reg.branches = &one;
    op.reg.count = 1;
    if ((rv = clerk_do(c, &op)) != 0)
        return rv;
    op = (struct rt_journal_op){.kind = RT_JOURNAL_DECIDE};
    op.decide.id = id;
    op.decide.decision = RT_JOURNAL_ABORT;
    if ((rv = clerk_do(c, &op)) != 0)
        return rv;
    page.count = 0;
    op = (struct rt_journal_op){.kind = RT_JOURNAL_READ};
    op.read.id = id;
    op.read.each = clerk_see;
    op.read.arg = &page;
    return clerk_do(c, &op);
}

/* Each allocation fails once: only an error, and what comes after it works. */
static void test_no_memory(void **state)
{
    struct clerk c;
    long n = 0;
    int rv;
    (void)state;
    clerk_start(&c, url); /* the folder is there */
    clerk_close(&c);
    do {
        scarce_begin();
        scarce.fail_at = ++n;
        rv = clerk_open(&c, url);
        if (rv == 0) {
            rv = use_all(&c);
            scarce.fail_at = 0;
            if (rv != 0)
                assert_int_equal(use_all(&c), 0);
            clerk_close(&c);
        }
        scarce.fail_at = 0;
        assert_true(rv == 0 || rv == ROTA_NOMEM || rv == ROTA_UNREACHABLE);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    } while (rv != 0 && n < 500);
    print_message("%ld allocations\n", n);
    assert_true(n > 10 && n < 500);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, new_folder)
    const struct CMUnitTest tests[] = {
        CASE(test_one_fsync),         CASE(test_figure),          CASE(test_fsync_fails),
        CASE(test_disk_full),         CASE(test_moved_away),      CASE(test_rights_given_up),
        CASE(test_power_loss),        CASE(test_killed_anywhere), CASE(test_torn_tail),
        CASE(test_not_ours),          CASE(test_no_memory),       CASE(test_child_has_its_own),
        CASE(test_commit_fails_late),
    };
    return cmocka_run_group_tests_name("journal file", tests, NULL, NULL);
}
