/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there whole or not at all; labels of metrics. */
#include "cli/cli.h"
#include "cli/prometheus.h"
#include "cli/save.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/rota-save-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return unlink("file") != 0 || chdir("/") != 0 || rmdir(folder) != 0;
}

static int files_here(void)
{
    int count = 0;
    DIR *dir = opendir(".");
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2; /* . and .. */
}

static const char *content(void)
{
    static char text[64];
    FILE *file = fopen("file", "re");
    size_t n = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[n] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

static void a_file_comes_whole(void **state)
{
    (void)state;
    struct rt_save save;
    assert_int_equal(rt_save_check("file"), RT_EXIT_OK);
    assert_int_equal(files_here(), 0);
    assert_int_equal(rt_save_begin(&save, "file"), RT_EXIT_OK);
    fputs("first", save.file);
    assert_int_equal(access("file", F_OK), -1); /* not before it is done */
    assert_int_equal(rt_save_end(&save), RT_EXIT_OK);
    assert_string_equal(content(), "first");
    assert_int_equal(files_here(), 1);
}

static void a_full_disk_leaves_what_was_there(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct rt_save save;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 100;
    assert_int_equal(rt_save_begin(&save, "file"), RT_EXIT_OK);
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < 10000; i++)
        fputs("more than fits ", save.file);
    int code = rt_save_end(&save);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(code, RT_EXIT_IOERR);
    assert_string_equal(content(), "first");
    assert_int_equal(files_here(), 1);
}

static void devices_are_written_and_not_replaced(void **state)
{
    (void)state;
    struct rt_save save;
    assert_int_equal(rt_save_begin(&save, "/dev/full"), RT_EXIT_OK);
    fputs("x", save.file);
    assert_int_equal(rt_save_end(&save), RT_EXIT_IOERR);
    assert_int_equal(rt_save_begin(&save, "/dev/null"), RT_EXIT_OK);
    fputs("x", save.file);
    assert_int_equal(rt_save_end(&save), RT_EXIT_OK);
    assert_int_equal(rt_save_begin(&save, "/proc/none/file"), RT_EXIT_IOERR);
}

static void labels_are_escaped_and_cut_between_characters(void **state)
{
    (void)state;
    char out[16];
    assert_string_equal(rt_prometheus_label("plain", out, sizeof(out)), "plain");
    assert_string_equal(rt_prometheus_label("\"a\\b\n", out, sizeof(out)), "\\\"a\\\\b\\n");
    assert_string_equal(rt_prometheus_label("äöü", out, 6), "äö"); /* never half of one */
    assert_string_equal(rt_prometheus_label("\"\"\"", out, 6), "\\\"\\\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_comes_whole),
        cmocka_unit_test(a_full_disk_leaves_what_was_there),
        cmocka_unit_test(devices_are_written_and_not_replaced),
        cmocka_unit_test(labels_are_escaped_and_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
