/* SPDX-License-Identifier: Apache-2.0 */
/* A shared folder, and somebody of its group who puts another thing in place of what the engine has just made: that
 * thing's rights must stay as they are. The swap follows whatever makes a name, before the engine goes on. */
#include "place.h"

#include "engine/file/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const char *target; /* the end of the name that is swapped, once; NULL: none */
static char bait[96];      /* what it is swapped for */
static bool by_link;       /* a symbolic link to it; else itself, moved there */
static int swaps;

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void swap(int dir, const char *name)
{
    if (target == NULL || !ends_with(name, target))
        return;
    char away[300];
    target = NULL;
    swaps++;
    snprintf(away, sizeof(away), "%s-away", name);
    assert_int_equal(renameat(dir, name, dir, away), 0);
    if (by_link)
        assert_int_equal(symlinkat(bait, dir, name), 0);
    else
        assert_int_equal(renameat(AT_FDCWD, bait, dir, name), 0);
}

/* In place of the C library's. */
int mkdir(const char *path, mode_t mode)
{
    long rv = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (rv == 0)
        swap(AT_FDCWD, path);
    return (int)rv;
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    long rv = syscall(SYS_mkdirat, dir, path, mode);
    if (rv == 0)
        swap(dir, path);
    return (int)rv;
}

int mknodat(int dir, const char *path, mode_t mode, dev_t dev)
{
    long rv = syscall(SYS_mknodat, dir, path, mode, dev);
    if (rv == 0)
        swap(dir, path);
    return (int)rv;
}

int linkat(int from_dir, const char *from, int dir, const char *path, int flags)
{
    long rv = syscall(SYS_linkat, from_dir, from, dir, path, flags);
    if (rv == 0)
        swap(dir, path);
    return (int)rv;
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t size)
{
    long rv = syscall(SYS_bind, fd, address.__sockaddr__, size);
    if (rv == 0 && address.__sockaddr__->sa_family == AF_UNIX)
        swap(AT_FDCWD, address.__sockaddr_un__->sun_path);
    return (int)rv;
}

static char folder[96], url[160];

static int setup(void **state)
{
    int rv = place_setup(state);
    snprintf(folder, sizeof(folder), "%s/rota", place_folder);
    snprintf(url, sizeof(url), "file:%s?mode=0660", folder);
    snprintf(bait, sizeof(bait), "%s/private", place_folder);
    umask(077);
    swaps = 0;
    return rv;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

/* The engine, and somebody who swaps NAME for the bait, whose rights are none of its business: it may fail, not change
 * them. Under its other name the bait is found at FOUND. */
static void try_swap(const char *name, const char *found)
{
    struct user u;
    mode_t before = mode_of(bait);
    target = name;
    int rv = user_open(&u, url);
    if (rv == 0) {
        struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
        op.beat.open = true;
        (void)user_do(&u, &op);
        user_close(&u);
    }
    target = NULL;
    assert_int_equal(swaps, 1);
    assert_int_equal(mode_of(by_link ? bait : found), before);
}

static void make_bait(mode_t type)
{
    if (S_ISDIR(type)) {
        char path[160];
        assert_int_equal(mkdir(bait, 0700), 0);
        snprintf(path, sizeof(path), "private/diary");
        place_write(path, "mine\n");
    } else if (S_ISSOCK(type)) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", bait);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        close(fd);
    } else {
        place_write("private", "");
    }
}

static void test_a_link_in_place_of_the_folder(void **state)
{
    (void)state;
    by_link = true;
    make_bait(S_IFDIR);
    try_swap("/rota", NULL);
}

static void test_a_link_in_place_of_the_sessions(void **state)
{
    (void)state;
    by_link = true;
    make_bait(S_IFDIR);
    try_swap("s", NULL);
}

static void test_a_link_in_place_of_the_database(void **state)
{
    (void)state;
    by_link = true;
    make_bait(S_IFREG);
    try_swap("rota.db", NULL);
}

static void test_a_link_in_place_of_the_bell(void **state)
{
    (void)state;
    by_link = true;
    make_bait(S_IFREG);
    try_swap(".sock", NULL);
}

/* Whoever may write a folder may move what lies in it, whoever owns it: no link is needed. */
static void test_another_thing_in_place_of_the_folder(void **state)
{
    (void)state;
    by_link = false;
    make_bait(S_IFDIR);
    try_swap("/rota", folder);
}

static void test_another_thing_in_place_of_the_database(void **state)
{
    (void)state;
    char path[160];
    by_link = false;
    make_bait(S_IFREG);
    snprintf(path, sizeof(path), "%s/rota.db", folder);
    try_swap("rota.db", path);
}

static char socket_path[300];

static void note_socket(void)
{
    char text[160];
    snprintf(text, sizeof(text), "ls %s/s/*.sock", folder);
    FILE *f = popen(text, "r");
    assert_non_null(f);
    assert_non_null(fgets(socket_path, sizeof(socket_path), f));
    socket_path[strcspn(socket_path, "\n")] = '\0';
    pclose(f);
}

static void test_another_thing_in_place_of_the_bell(void **state)
{
    (void)state;
    struct user u;
    struct rt_op op = {.kind = RT_OP_BEAT, .deadline = RT_NEVER};
    by_link = false;
    make_bait(S_IFSOCK);
    mode_t before = mode_of(bait);
    assert_int_equal(user_open(&u, url), 0);
    target = ".sock";
    op.beat.open = true;
    int rv = user_do(&u, &op);
    assert_int_equal(swaps, 1);
    if (rv == 0) {
        note_socket();
        assert_int_equal(mode_of(socket_path), before);
    } else if (strstr(u.errmsg, "replaced") == NULL) {
        fail_msg("\"%s\"", u.errmsg);
    }
    user_close(&u);
}

/* With nobody interfering all of it is the group's, whatever the umask. */
static void test_all_is_shared(void **state)
{
    (void)state;
    struct user u;
    char path[160];
    user_start(&u, url, 0);
    assert_int_equal(mode_of(folder), 02770);
    snprintf(path, sizeof(path), "%s/s", folder);
    assert_int_equal(mode_of(path), 02770);
    static const char *const files[] = {"rota.db", "rota.db-wal", "rota.db-shm"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        assert_int_equal(mode_of(path), 0660);
    }
    note_socket();
    assert_int_equal(mode_of(socket_path), 0660);
    socket_path[strlen(socket_path) - strlen(".sock")] = '\0';
    assert_int_equal(mode_of(socket_path), 0660);
    user_close(&u);
}

#define LINKS(f) cmocka_unit_test_setup_teardown(f, setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINKS(test_a_link_in_place_of_the_folder),
        LINKS(test_a_link_in_place_of_the_sessions),
        LINKS(test_a_link_in_place_of_the_database),
        LINKS(test_a_link_in_place_of_the_bell),
        LINKS(test_another_thing_in_place_of_the_folder),
        LINKS(test_another_thing_in_place_of_the_database),
        LINKS(test_another_thing_in_place_of_the_bell),
        LINKS(test_all_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
