/* SPDX-License-Identifier: Apache-2.0 */
/* The client on file: in bad surroundings: closed standard descriptors, a database that is stuck. */
#include <fcntl.h>
#include <ftw.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[32], url[48];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/rota-trouble-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(url, sizeof(url), "file:%s", folder);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- Descriptors --------------------------------------------------------- */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* A program that closed its standard descriptors and opens others in their place later. Returns
 * which step went wrong. */
static int live_without_standard(uint32_t flags)
{
    struct rota_options opts = {.flags = flags};
    struct rota_ask try = {.flags = ROTA_TRY};
    struct rota *r, *other;
    struct rota_lock *lock, *second;

    for (int fd = 0; fd < 3; fd++)
        close(fd);
    if (rota_open(&r, url, &opts) != 0 || rota_acquire(r, "a", NULL, &lock) != 0)
        return 1;
    if (is_open(0) || is_open(1) || is_open(2))
        return 2;
    int null = open("/dev/null", O_RDWR);
    if (null != 0 || dup2(null, 1) != 1 || dup2(null, 2) != 2)
        return 3;
    if (rota_open(&other, url, &opts) != 0)
        return 4;
    if (rota_acquire(other, "a", &try, &second) != ROTA_BUSY || rota_check(lock) != 0)
        return 5; /* dup2 ended the session */
    if (rota_release(lock) != 0)
        return 6;
    rota_close(other);
    rota_close(r);
    return is_open(0) && is_open(1) && is_open(2) ? 0 : 7;
}

static void without_standard_descriptors(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= ROTA_NO_KEEPER; flags += ROTA_NO_KEEPER) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(live_without_standard(flags));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_standard_descriptors, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
