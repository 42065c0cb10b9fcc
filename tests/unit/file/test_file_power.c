/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine and a power loss: each file is as it was when it was last synced. */
#include "place.h"

#include "engine/file/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define CHECKPOINT_BYTE 121 /* of the shm: SQLite's lock for folding the WAL back */

static char disk[80]; /* the folder as it is on the disk; "": nobody looks */

/* What is synced is on the disk; the journal of its creation is deleted by then. */
static void note(int fd)
{
    char link[32], path[128], command[256];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0 || disk[0] == '\0')
        return;
    path[n] = '\0';
    const char *name = strrchr(path, '/') + 1;
    if (strcmp(name, "rota.db") != 0 && strcmp(name, "rota.db-wal") != 0)
        return;
    snprintf(command, sizeof(command), "cp %s %s/", path, disk);
    assert_int_equal(system(command), 0);
}

/* In place of the C library's, for SQLite too. */
int fdatasync(int fd)
{
    note(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    note(fd);
    return (int)syscall(SYS_fsync, fd);
}

/* Like a client that takes long to fold the WAL back: no other can do it meanwhile, and sync along the way. */
static int hold_checkpoint(void)
{
    char path[96];
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = CHECKPOINT_BYTE, .l_len = 1};
    snprintf(path, sizeof(path), "%s/rota.db-shm", place_folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

/* The highest number before the power went. */
static uint64_t number_before(void)
{
    struct user u;
    struct rt_join j = {0};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_int_equal(user_leave(&u, "a", j.number), 0);
    int fd = hold_checkpoint();
    place_sql("UPDATE meta SET next=reserved"); /* the next one needs a new reserve */
    assert_int_equal(user_join(&u, "a", &j), 0);
    disk[0] = '\0'; /* here the power goes */
    close(fd);
    user_close(&u);
    return j.number;
}

/* I2: a fence is not given before its reserve is on the disk, or it would be given twice. */
static void test_no_fence_comes_back_after_a_power_loss(void **state)
{
    (void)state;
    char url[96], command[128];
    struct user u;
    struct rt_join j = {0};
    snprintf(disk, sizeof(disk), "%s/disk", place_folder);
    assert_int_equal(mkdir(disk, 0700), 0);
    snprintf(url, sizeof(url), "file:%s", disk);
    place_shift_s = PLACE_NO_CLOCK_S; /* the battery of the clock was lost too */
    rt_file_fake_boot("before");
    uint64_t before = number_before();
    rt_file_fake_boot("after");
    user_start(&u, url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_true(j.number > before);
    user_close(&u);
    rt_file_fake_boot(NULL);
    snprintf(command, sizeof(command), "rm -r %s/disk", place_folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_no_fence_comes_back_after_a_power_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
