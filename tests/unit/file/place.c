/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for one case of a test, and other processes that use it. */
#include "place.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

char place_folder[64], place_url[96];
time_t place_shift_s;

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
    long rv = syscall(SYS_clock_gettime, clock, ts);
    if (rv == 0 && clock == CLOCK_REALTIME)
        ts->tv_sec += place_shift_s;
    return (int)rv;
}

int place_setup(void **state)
{
    (void)state;
    place_shift_s = 0;
    snprintf(place_folder, sizeof(place_folder), "/tmp/rota-test-file-XXXXXX");
    assert_non_null(mkdtemp(place_folder));
    snprintf(place_url, sizeof(place_url), "file:%s", place_folder);
    return 0;
}

static void empty(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    if (d == NULL)
        return;
    while ((e = readdir(d)) != NULL) {
        char name[512];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        if (unlink(name) != 0) {
            empty(name);
            rmdir(name);
        }
    }
    closedir(d);
}

int place_teardown(void **state)
{
    (void)state;
    empty(place_folder);
    rmdir(place_folder);
    return 0;
}

size_t place_sessions(void)
{
    char path[128];
    size_t n = 0;
    struct dirent *e;
    snprintf(path, sizeof(path), "%s/s", place_folder);
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

void place_sql(const char *text)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/rota.db", place_folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* A failed check in a child must not go on with the cases of its parent, nor outlive it. */
void place_child(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* A process that joins NAME, says so, and sleeps until it is killed. */
pid_t place_holder(const char *name, struct rt_join j)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        place_child();
        struct user u;
        user_start(&u, place_url, 0);
        byte = user_join(&u, name, &j) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        for (;;)
            user_turn(&u, 1000);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(byte, 'y');
    return pid;
}

void place_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void place_refused(const char *text, int err, const char *says)
{
    struct user u;
    assert_int_equal(user_open(&u, text), err);
    if (strstr(u.errmsg, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", u.errmsg, says);
    assert_null(strchr(u.errmsg, '\n'));
}

void place_write(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s", place_folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
