/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine: what it does to its folder, and what it says of an unsuitable one. */
#include "place.h"

#include "engine/file/file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The WAL -------------------------------------------------------------------------- */

static atomic_int syncs;

int fsync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

static uint64_t lone_command(void)
{
    struct user u;
    struct rt_join j = {0};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_int_equal(user_leave(&u, "a", j.number), 0);
    user_close(&u);
    return j.number;
}

static off_t size_of(const char *name)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", place_folder, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

#define COMMANDS 200

static void test_lone_commands_neither_sync_nor_let_the_wal_grow(void **state)
{
    (void)state;
    int with = 0;
    (void)lone_command();
    for (int i = 0; i < COMMANDS; i++) {
        int before = atomic_load(&syncs);
        (void)lone_command();
        with += atomic_load(&syncs) != before;
    }
    print_message("%d of %d lone commands synced; the WAL has %ld bytes\n", with, COMMANDS,
                  (long)size_of("rota.db-wal"));
    assert_true(with < COMMANDS / 5);
    assert_true(size_of("rota.db-wal") < 300 * 1024); /* each command reads it all */
}

/* I2, although somebody tidied up: the numbers that were reserved are in the main file. */
static void test_a_deleted_wal_repeats_no_number(void **state)
{
    (void)state;
    char path[128];
    uint64_t last = 0;
    place_shift_s = PLACE_NO_CLOCK_S; /* and although no clock helps */
    for (int i = 0; i < 3; i++) {
        uint64_t n = lone_command();
        assert_true(n > last);
        last = lone_command();
        assert_int_equal(last, n + 1);
        snprintf(path, sizeof(path), "%s/rota.db-wal", place_folder);
        assert_int_equal(unlink(path), 0);
        snprintf(path, sizeof(path), "%s/rota.db-shm", place_folder);
        assert_int_equal(unlink(path), 0);
    }
}

/* One client that never closes: the WAL is folded back all the same, and begins anew. */
static void test_a_long_life_does_not_let_the_wal_grow(void **state)
{
    (void)state;
    struct user u;
    user_start(&u, place_url, 0);
    for (int i = 0; i < 6000; i++) {
        struct rt_join j = {0};
        assert_int_equal(user_join(&u, "a", &j), 0);
        assert_int_equal(user_leave(&u, "a", j.number), 0);
    }
    print_message("after 6000 pairs the WAL has %lld bytes\n", (long long)size_of("rota.db-wal"));
    assert_true(size_of("rota.db-wal") < 8 << 20);
    user_close(&u);
}

/* ---- Rights ----------------------------------------------------------------------------- */

static void test_the_database_says_how_it_is_shared(void **state)
{
    (void)state;
    struct user u;
    struct stat st;
    char text[128], path[128];
    snprintf(text, sizeof(text), "%s?mode=0660", place_url);
    user_start(&u, text, 0);
    user_close(&u);
    user_start(&u, place_url, 0); /* its owner forgot to say so */
    snprintf(path, sizeof(path), "%s/s/%016llx", place_folder, (unsigned long long)u.session);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    snprintf(path, sizeof(path), "%s/s/%016llx.sock", place_folder, (unsigned long long)u.session);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    user_close(&u);
    snprintf(text, sizeof(text), "%s?mode=0600", place_url);
    place_refused(text, ROTA_INVALID, "mode 0660");
}

static void test_a_private_database_is_not_shared_by_a_mode(void **state)
{
    (void)state;
    char text[128];
    (void)lone_command();
    snprintf(text, sizeof(text), "%s?mode=0660", place_url);
    place_refused(text, ROTA_INVALID, "mode 0600");
}

/* ---- Messages ---------------------------------------------------------------------------- */

static void test_a_damaged_counter_is_refused(void **state)
{
    (void)state;
    static const char *const edits[] = {
        "UPDATE meta SET next=-5",
        "UPDATE meta SET next=9223372036854775807,reserved=9223372036854775807",
        "UPDATE meta SET next=9223372036854775800,reserved=9223372036854775807",
        "UPDATE meta SET next=50,reserved=40",
    };
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        struct user u;
        struct rt_join j = {0};
        (void)lone_command();
        place_sql(edits[i]);
        int rv = user_open(&u, place_url);
        if (rv == 0) {
            struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
            op.beat.open = true;
            rv = user_do(&u, &op);
            u.session = op.beat.session;
            if (rv == 0)
                rv = user_join(&u, "a", &j);
        }
        assert_int_equal(rv, ROTA_PROTOCOL);
        assert_non_null(strstr(u.errmsg, "is damaged: its counter"));
        if (u.conn != NULL)
            user_close(&u);
        place_sql("UPDATE meta SET next=1,reserved=1");
    }
}

/* ... even under somebody who has it open: no number is taken from it, and nobody waits for ever. */
static void test_a_counter_damaged_in_use_is_refused(void **state)
{
    (void)state;
    struct user u;
    struct rt_join j = {0};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_int_equal(user_leave(&u, "a", j.number), 0);
    place_sql("UPDATE meta SET next=-5");
    assert_int_equal(user_join(&u, "a", &j), ROTA_PROTOCOL);
    assert_non_null(strstr(u.errmsg, "is damaged: its counter is -5"));
    place_sql("UPDATE meta SET next=reserved");
    assert_int_equal(user_join(&u, "a", &j), 0);
    user_close(&u);
}

static void test_long_paths(void **state)
{
    (void)state;
    char text[1024], part[201];
    memset(part, 'x', 200);
    part[200] = '\0';
    snprintf(text, sizeof(text), "%s/%s", place_folder, part);
    assert_int_equal(mkdir(text, 0700), 0);
    snprintf(text, sizeof(text), "%s/%s/%s", place_folder, part, part);
    assert_int_equal(mkdir(text, 0700), 0);
    /* It works, and its messages say why, not only where. */
    struct user u;
    snprintf(text, sizeof(text), "file:%s/%s/%s", place_folder, part, part);
    user_start(&u, text, 0);
    user_close(&u);
    snprintf(text, sizeof(text), "%s/%s/rota.db", part, part);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "-wal");
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", place_folder, text);
    assert_int_equal(unlink(path), 0);
    path[strlen(path) - 4] = '\0';
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100; i++)
        fputs("no database at all, ", f);
    fclose(f);
    snprintf(text, sizeof(text), "file:%s/%s/%s", place_folder, part, part);
    place_refused(text, ROTA_PROTOCOL, "is damaged or no database of Rota");
    snprintf(text, sizeof(text), "file:%s/%s/%s/%s", place_folder, part, part, part);
    place_refused(text, ROTA_INVALID, "name a shorter one");
}

static void test_a_missing_parent_is_named(void **state)
{
    (void)state;
    char text[128];
    snprintf(text, sizeof(text), "%s/none/there", place_url);
    place_refused(text, ROTA_UNREACHABLE, "make its parent first");
}

/* Fewer and fewer descriptors: whatever fails first, the remedy is the same. */
static void test_too_many_open_files(void **state)
{
    (void)state;
    struct rlimit old, few;
    int fd = dup(0), failed = 0, rv = ROTA_UNREACHABLE;
    close(fd);
    (void)lone_command();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    for (int n = 1; n < 40 && rv != 0; n++) {
        struct user u;
        few.rlim_cur = (rlim_t)(fd + n);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        rv = user_open(&u, place_url);
        bool opened = rv == 0;
        if (opened) {
            struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
            op.beat.open = true;
            rv = user_do(&u, &op);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        if (opened)
            user_close(&u);
        if (rv == 0 || u.errmsg[0] == '\0') /* the loop's: not the engine's to say */
            continue;
        failed++;
        assert_int_equal(rv, ROTA_UNREACHABLE);
        if (strstr(u.errmsg, "raise ulimit -n") == NULL)
            fail_msg("%d: \"%s\"", n, u.errmsg);
    }
    assert_int_equal(rv, 0);
    print_message("%d failures, each with the remedy\n", failed);
    assert_true(failed > 0);
}

/* A file that may not grow is a disk that is full, for SQLite. */
static void test_a_full_disk_is_named(void **state)
{
    (void)state;
    struct user u;
    struct rlimit old, small;
    user_start(&u, place_url, 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = (rlim_t)size_of("rota.db-wal");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rv = 0;
    for (int i = 0; i < 100 && rv == 0; i++) {
        struct rt_join j = {.value = "x"};
        rv = user_join(&u, "a", &j);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(rv == ROTA_UNREACHABLE || rv == ROTA_UNKNOWN);
    if (strstr(u.errmsg, "disk full?") == NULL && strstr(u.errmsg, "no space left") == NULL)
        fail_msg("\"%s\"", u.errmsg);
    struct rt_join j = {0};
    assert_int_equal(user_join(&u, "b", &j), 0); /* and it goes on when there is room again */
    user_close(&u);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_lone_commands_neither_sync_nor_let_the_wal_grow),
        CASE(test_a_deleted_wal_repeats_no_number),
        CASE(test_a_long_life_does_not_let_the_wal_grow),
        CASE(test_the_database_says_how_it_is_shared),
        CASE(test_a_private_database_is_not_shared_by_a_mode),
        CASE(test_a_damaged_counter_is_refused),
        CASE(test_a_counter_damaged_in_use_is_refused),
        CASE(test_long_paths),
        CASE(test_a_missing_parent_is_named),
        CASE(test_too_many_open_files),
        CASE(test_a_full_disk_is_named),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
