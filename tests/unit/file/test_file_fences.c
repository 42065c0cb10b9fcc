/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine's fences: never behind the clock, so that losing the folder takes none of them back; and on
 * which file systems that is the only protection. */
#include "place.h"

#include "engine/file/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#define HOUR_S ((time_t)3600)
#define EXACT (INT64_C(1) << 53) /* computing with doubles is exact below */

static uint32_t fs_type; /* what the folder's file system is said to be; 0: what it is */

/* In place of the C library's. */
int fstatfs(int fd, struct statfs *fs)
{
    long rv = syscall(SYS_fstatfs, fd, fs);
    if (rv == 0 && fs_type != 0)
        fs->f_type = (__fsword_t)fs_type;
    return (int)rv;
}

static int setup(void **state)
{
    fs_type = 0;
    return place_setup(state);
}

static uint64_t next_fence(void)
{
    struct user u;
    struct rt_join j = {0};
    user_start(&u, place_url, 0);
    assert_int_equal(user_join(&u, "a", &j), 0);
    assert_int_equal(user_leave(&u, "a", j.number), 0);
    user_close(&u);
    assert_true(j.number < EXACT);
    return j.number;
}

static void in_folder(const char *text)
{
    char command[256];
    snprintf(command, sizeof(command), "cd %s && %s", place_folder, text);
    assert_int_equal(system(command), 0);
}

/* As after tmpfs was mounted anew. */
static void test_a_deleted_folder_takes_no_fence_back(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 3; k++) {
            uint64_t n = next_fence();
            assert_true(n > last);
            last = n;
        }
        in_folder("rm -r *");
    }
}

static void test_an_old_copy_takes_no_fence_back(void **state)
{
    (void)state;
    uint64_t last = next_fence();
    in_folder("mkdir old && cp rota.db rota.db-wal old/");
    for (int i = 0; i < 5; i++) {
        uint64_t n = next_fence();
        assert_true(n > last);
        last = n;
    }
    in_folder("cp old/rota.db old/rota.db-wal . && rm -r rota.db-shm old");
    assert_true(next_fence() > last);
}

/* A database of a version that counted from 1. */
static void test_an_older_counter_goes_on_with_the_clock(void **state)
{
    (void)state;
    uint64_t first = next_fence();
    place_sql("UPDATE meta SET next=7,reserved=10001");
    assert_true(next_fence() > first);
}

/* The clock alone does not decide: neither one that was set back, nor a wrong one that was corrected. */
static void test_a_clock_set_back_takes_no_fence_back(void **state)
{
    (void)state;
    uint64_t last = next_fence();
    static const time_t shifts[] = {-HOUR_S, -20 * PLACE_YEAR_S, HOUR_S,
                                    0,       20 * PLACE_YEAR_S,  -HOUR_S};
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        place_shift_s = shifts[i];
        for (int k = 0; k < 3; k++) {
            uint64_t n = next_fence();
            assert_true(n > last);
            last = n;
        }
    }
}

/* Beyond what doubles hold exactly it just counts. */
static void test_a_clock_of_any_year(void **state)
{
    (void)state;
    place_shift_s = 300 * PLACE_YEAR_S;
    uint64_t n = next_fence();
    assert_true(n >= UINT64_C(9000000000000000));
    assert_int_equal(next_fence(), n + 1);
    place_shift_s = PLACE_NO_CLOCK_S;
    assert_int_equal(next_fence(), n + 2);
}

/* ---- Where the folder lies ------------------------------------------------------------------ */

struct verdict {
    char verdict[16], setting[128], remedy[128];
};

static void see(void *arg, const struct rota_verdict *v)
{
    struct verdict *out = arg;
    if (strcmp(v->promise, "fences only grow (I2)") != 0)
        return;
    snprintf(out->verdict, sizeof(out->verdict), "%s", v->verdict);
    snprintf(out->setting, sizeof(out->setting), "%s", v->setting);
    snprintf(out->remedy, sizeof(out->remedy), "%s", v->remedy);
}

/* Strict opens where the doctor says that fences are kept, and says why where it does not. */
static void verdict_on(uint32_t type, bool strict, const char *setting, const char *remedy)
{
    struct user u;
    struct verdict v = {0};
    struct rt_op op = {.kind = RT_OP_CHECK, .deadline = RT_NEVER};
    op.check.each = see;
    op.check.arg = &v;
    fs_type = type;
    user_start(&u, place_url, 0);
    assert_int_equal(user_do(&u, &op), 0);
    assert_string_equal(v.verdict, strict ? "kept" : "limited");
    assert_non_null(strstr(v.setting, setting));
    assert_non_null(strstr(v.remedy, remedy));
    assert_int_equal((rt_engine_file.caps(u.conn) & ROTA_CAP_STRICT) != 0, strict);
    assert_int_equal(u.conn->unsafe[0] == '\0', strict);
    assert_non_null(strstr(u.conn->unsafe, strict ? "" : setting));
    user_close(&u);
}

static void test_a_file_system_that_forgets_is_not_strict(void **state)
{
    (void)state;
    verdict_on(0xef53, true, "reserved on the disk", ""); /* ext4 */
    verdict_on(0x58465342, true, "reserved on the disk", "");
    verdict_on(0x01021994, false, "in memory (tmpfs)", "on a disk");
    verdict_on(0x858458f6, false, "in memory (ramfs)", "on a disk");
    verdict_on(0x794c7630, false, "overlay", "volume");
}

#define FENCES(f) cmocka_unit_test_setup_teardown(f, setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCES(test_a_deleted_folder_takes_no_fence_back),
        FENCES(test_an_old_copy_takes_no_fence_back),
        FENCES(test_an_older_counter_goes_on_with_the_clock),
        FENCES(test_a_clock_set_back_takes_no_fence_back),
        FENCES(test_a_clock_of_any_year),
        FENCES(test_a_file_system_that_forgets_is_not_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
