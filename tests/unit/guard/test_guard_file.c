/* SPDX-License-Identifier: Apache-2.0 */
/* The guard of a file: older fences are refused, the file is always whole, and bad input changes nothing. */
#include "lib/proc.h"
#include "lib/scarce.h"
#include "lib/servers.h"

#include <errno.h>
#include <fcntl.h>
#include <rota_guard.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[4096], side[4200], folder[4000];

/* ---- What goes to the disk, in its order -------------------------------- */

/* F: the fence's file is synced, N: the new file, D: the folder; R: the new one takes its place. */
static char steps[64];
static char fails; /* the step that does not succeed, from then on */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);

static bool is_file(int fd, const char *name)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(name, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

static bool step(char what)
{
    size_t n = strlen(steps);

    if (n + 1 < sizeof(steps))
        steps[n] = what;
    if (what != fails)
        return true;
    errno = EIO;
    return false;
}

int __wrap_fsync(int fd)
{
    char what = 'N';

    if (is_file(fd, side))
        what = 'F';
    else if (is_file(fd, folder))
        what = 'D';
    return step(what) ? __real_fsync(fd) : -1;
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return step('R') ? __real_renameat(from_dir, from, to_dir, to) : -1;
}

static void stepped(const char *wanted)
{
    assert_string_equal(steps, wanted);
    memset(steps, 0, sizeof(steps));
}

static int begin(void **state)
{
    static int count;

    (void)state;
    memset(steps, 0, sizeof(steps));
    fails = '\0';
    snprintf(folder, sizeof(folder), "%s/%d", rt_tmpdir(), ++count);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof(path), "%s/state", folder);
    snprintf(side, sizeof(side), "%s.fence", path);
    return 0;
}

static int put(const char *file, uint64_t fence, const char *text)
{
    return rota_guard_file(file, fence, text, strlen(text));
}

static void spill(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static const char *content(const char *file)
{
    static char text[256];
    int fd = open(file, O_RDONLY);

    if (fd < 0)
        return "(none)";
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

static void an_older_fence_is_refused(void **state)
{
    (void)state;
    assert_int_equal(put(path, 34, "b"), 0);
    assert_int_equal(put(path, 33, "a"), ROTA_LOST);
    assert_non_null(strstr(rota_errmsg(NULL), "fence 34 was here"));
    assert_string_equal(content(path), "b");
    assert_int_equal(put(path, 34, "bb"), 0);
    assert_int_equal(put(path, 35, ""), 0);
    assert_string_equal(content(path), "");
    assert_string_equal(content(side), "00000000000000000035\n");
}

/* A: looks. B: claims, looks. A writes: refused, or B's look would be out of date. */
static void a_claim_before_the_look_keeps_the_earlier_one_out(void **state)
{
    (void)state;
    spill(path, "7");
    assert_int_equal(rota_guard_file(path, 33, NULL, 0), 0);
    assert_int_equal(rota_guard_file(path, 34, NULL, 0), 0);
    assert_int_equal(put(path, 33, "8"), ROTA_LOST);
    assert_int_equal(rota_guard_file(path, 33, NULL, 0), ROTA_LOST);
    assert_string_equal(content(path), "7");
    assert_int_equal(put(path, 34, "8"), 0);
}

/* The fence is on the disk before what it lets in, and so are the bytes before the name; the name before we say so. */
static void the_disk_has_it_in_this_order(void **state)
{
    (void)state;
    assert_int_equal(put(path, 33, "a"), 0);
    stepped("FDNRD");
    assert_int_equal(put(path, 33, "b"), 0);
    stepped("NRD");
    assert_int_equal(rota_guard_file(path, 34, NULL, 0), 0);
    stepped("F");
    assert_int_equal(put(path, 35, "c"), 0);
    stepped("FNRD");
    assert_int_equal(put(path, 34, "d"), ROTA_LOST);
    stepped("");
}

static void a_disk_that_fails_is_told(void **state)
{
    char fresh[4300];

    (void)state;
    snprintf(fresh, sizeof(fresh), "%s.fence.new", path);
    assert_int_equal(put(path, 33, "a"), 0);
    for (const char *step_of = "FNR"; *step_of != '\0'; step_of++) {
        fails = *step_of;
        assert_int_equal(put(path, 40, "b"), ROTA_UNREACHABLE);
        assert_non_null(strstr(rota_errmsg(NULL), strerror(EIO)));
        assert_string_equal(content(path), "a");
        assert_string_equal(content(fresh), "(none)");
    }
    fails = 'D'; /* it is in its place, and may not be after a crash */
    assert_int_equal(put(path, 40, "b"), ROTA_UNKNOWN);
    assert_string_equal(content(path), "b");
}

static void names_may_be_short_and_relative(void **state)
{
    char before[4096];

    (void)state;
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(put("s", 34, "a"), 0);
    assert_int_equal(put("./s", 33, "b"), ROTA_LOST);
    assert_string_equal(content("s"), "a");
    assert_string_equal(content("s.fence"), "00000000000000000034\n");
    assert_int_equal(put("./", 34, "a"), ROTA_INVALID);
    assert_int_equal(put("none/", 34, "a"), ROTA_INVALID);
    assert_int_equal(chdir(before), 0);
}

static void numbers_are_compared_as_numbers(void **state)
{
    (void)state;
    assert_int_equal(put(path, 9, "a"), 0);
    assert_int_equal(put(path, 10, "b"), 0);
    assert_int_equal(put(path, 9, "c"), ROTA_LOST);
    assert_int_equal(put(path, INT64_MAX, "d"), 0);
    assert_int_equal(put(path, INT64_MAX - 1, "e"), ROTA_LOST);
    assert_int_equal(put(path, INT64_MAX, "f"), 0);
    assert_string_equal(content(path), "f");
}

static void what_is_no_fence_or_path_is_refused(void **state)
{
    (void)state;
    assert_int_equal(put(path, 0, "a"), ROTA_INVALID);
    assert_int_equal(put(path, (uint64_t)INT64_MAX + 1, "a"), ROTA_INVALID);
    assert_int_equal(put("", 1, "a"), ROTA_INVALID);
    assert_int_equal(rota_guard_file(NULL, 1, "a", 1), ROTA_INVALID);
    assert_int_equal(put("/", 1, "a"), ROTA_INVALID);
    assert_int_equal(put(rt_tmpdir(), 1, "a"), ROTA_INVALID);
    assert_int_equal(put("/no/such/folder/file", 1, "a"), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(NULL), "/no/such/folder/file"));
    assert_string_equal(content(side), "(none)");
}

/* A folder, a pipe: nothing is put beside them. */
static void what_is_no_file_is_left_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(i == 0 ? mkdir(path, 0700) : mkfifo(path, 0600), 0);
        assert_int_equal(put(path, 1, "a"), ROTA_INVALID);
        assert_non_null(strstr(rota_errmsg(NULL), "state is no file"));
        assert_string_equal(content(side), "(none)");
        assert_int_equal(i == 0 ? rmdir(path) : unlink(path), 0);
    }
}

/* The lowest that is free: all below are in use. */
static int free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    close(fd);
    return fd;
}

/* Even when it is refused; and a program may have closed its own. */
static void descriptors_are_given_back(void **state)
{
    int before = free_descriptor(), input = dup(STDIN_FILENO);

    (void)state;
    assert_int_equal(put(path, 2, "2"), 0);
    assert_int_equal(put(path, 1, "1"), ROTA_LOST);
    close(STDIN_FILENO);
    assert_int_equal(put(path, 3, "3"), 0);
    assert_int_equal(put(path, 4, "4"), 0);
    assert_int_equal(free_descriptor(), STDIN_FILENO);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
    assert_int_equal(free_descriptor(), before);
    assert_string_equal(content(path), "4");
}

/* There are some for the folder and the fence, and none for what is to be written. */
static int put_without_descriptors(int index, void *arg)
{
    rlim_t most = (rlim_t)free_descriptor() + 2;
    struct rlimit limit = {most, most};

    (void)index;
    (void)arg;
    setrlimit(RLIMIT_NOFILE, &limit);
    int err = put(path, 35, "next");
    return err == ROTA_UNREACHABLE && strstr(rota_errmsg(NULL), strerror(EMFILE)) != NULL ? 0 : 1;
}

static void no_descriptors_are_told(void **state)
{
    (void)state;
    assert_int_equal(put(path, 34, "whole"), 0);
    assert_int_equal(rt_proc_wait(rt_proc_start(put_without_descriptors, 0, NULL)), 0);
    assert_string_equal(content(path), "whole");
}

static void a_foreign_fence_file_is_left_alone(void **state)
{
    static const char *const foreign[] = {"34\n", "x0000000000000000034\n", "00000000000000000034",
                                          "00000000000000000034\n\n", "99999999999999999999\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        spill(side, foreign[i]);
        assert_int_equal(put(path, 35, "a"), ROTA_INVALID);
        assert_non_null(strstr(rota_errmsg(NULL), "state.fence has no fence in it"));
        assert_string_equal(content(side), foreign[i]);
        assert_string_equal(content(path), "(none)");
    }
    spill(side, ""); /* of one that died before it wrote */
    assert_int_equal(put(path, 35, "a"), 0);
}

static void links_lead_to_one_guard(void **state)
{
    char link[4300], dangling[4300];
    struct stat st;

    (void)state;
    snprintf(link, sizeof(link), "%s.link", path);
    snprintf(dangling, sizeof(dangling), "%s.dangling", path);
    spill(path, "0");
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(symlink("/no/such/file", dangling), 0);
    assert_int_equal(put(link, 34, "1"), 0);
    assert_int_equal(put(path, 33, "2"), ROTA_LOST);
    assert_string_equal(content(path), "1");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(put(dangling, 34, "1"), ROTA_INVALID);
}

static void rights_stay_as_they_were(void **state)
{
    struct stat st;

    (void)state;
    spill(path, "0");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(put(path, 1, "1"), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(stat(side, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(unlink(path), 0); /* new ones: as the umask says */
    assert_int_equal(unlink(side), 0);
    mode_t mask = umask(0027);
    assert_int_equal(put(path, 1, "1"), 0);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(stat(side, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

/* What a crash between two steps leaves: the next one is not disturbed, and nothing more is there afterwards. */
static void leftovers_of_a_crash_are_used_again(void **state)
{
    char fresh[4300];

    (void)state;
    snprintf(fresh, sizeof(fresh), "%s.fence.new", path);
    spill(path, "0");
    spill(side, "00000000000000000034\n");
    spill(fresh, "half of it");
    assert_int_equal(put(path, 33, "1"), ROTA_LOST);
    assert_int_equal(put(path, 34, "1"), 0);
    assert_string_equal(content(path), "1");
    assert_string_equal(content(fresh), "(none)");
}

/* A limit on the size of files stands for a full disk: one clear error, the file before is there. */
static int write_too_much(int index, void *arg)
{
    static char bytes[8192];
    struct rlimit limit = {4096, 4096};

    (void)index;
    (void)arg;
    memset(bytes, 'x', sizeof(bytes));
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int err = rota_guard_file(path, 35, bytes, sizeof(bytes));
    return err == ROTA_UNREACHABLE && strstr(rota_errmsg(NULL), strerror(EFBIG)) != NULL ? 0 : 1;
}

static void a_full_disk_leaves_what_was(void **state)
{
    char fresh[4300];

    (void)state;
    snprintf(fresh, sizeof(fresh), "%s.fence.new", path);
    assert_int_equal(put(path, 34, "whole"), 0);
    assert_int_equal(rt_proc_wait(rt_proc_start(write_too_much, 0, NULL)), 0);
    assert_string_equal(content(path), "whole");
    assert_string_equal(content(fresh), "(none)");
    assert_int_equal(put(path, 35, "next"), 0); /* its fence was its own, and counts */
}

static int put_34(int index, void *arg)
{
    (void)index;
    close(*(int *)arg); /* else the lock that was inherited is ours as well */
    return put(path, 34, "a") == 0 ? 0 : 1;
}

/* Somebody waits for the lock on this descriptor's file. */
static bool is_waited_for(void *arg)
{
    struct stat st;
    char line[256], wanted[64];
    FILE *locks = fopen("/proc/locks", "re");
    bool found = false;

    assert_int_equal(fstat(*(int *)arg, &st), 0);
    snprintf(wanted, sizeof(wanted), ":%lu ", (unsigned long)st.st_ino);
    while (locks != NULL && fgets(line, sizeof(line), locks) != NULL)
        found = found || (strstr(line, "-> FLOCK") != NULL && strstr(line, wanted) != NULL);
    if (locks != NULL)
        fclose(locks);
    return found;
}

/* We are inside, remove the fence's file and leave: a waiter must take the file that is now found under the name. */
static void a_removed_fence_file_is_no_guard(void **state)
{
    int fd = open(side, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_int_equal(flock(fd, LOCK_EX), 0);
    pid_t other = rt_proc_start(put_34, 0, &fd);
    assert_true(rt_await(is_waited_for, &fd, 30000));
    assert_int_equal(unlink(side), 0);
    close(fd);
    assert_int_equal(rt_proc_wait(other), 0);
    assert_string_equal(content(side), "00000000000000000034\n");
    assert_int_equal(put(path, 33, "b"), ROTA_LOST);
}

#define CLIENTS 4
#define WRITES 25

struct race {
    uint64_t last, failed;
};

/* Each write with the next fence; whoever was overtaken is refused. */
static int race(int index, void *arg)
{
    struct race *r = arg;
    char text[32];

    (void)index;
    for (int i = 0; i < WRITES; i++) {
        uint64_t fence = __atomic_add_fetch(&r->last, 1, __ATOMIC_SEQ_CST);
        snprintf(text, sizeof(text), "%llu", (unsigned long long)fence);
        int err = put(path, fence, text);
        if (err != 0 && err != ROTA_LOST)
            return 1;
    }
    return 0;
}

static void the_latest_fence_wins_a_race(void **state)
{
    struct race *r = rt_shared_new(sizeof(*r));
    char text[32];

    (void)state;
    assert_int_equal(rt_proc_run_all(CLIENTS, race, r), 0);
    snprintf(text, sizeof(text), "%d", CLIENTS * WRITES);
    assert_string_equal(content(path), text);
    rt_shared_free(r, sizeof(*r));
}

static void memory_that_runs_out_is_told(void **state)
{
    (void)state;
    scarce_begin();
    for (long n = 0;; n++) {
        scarce_leave(n);
        int err = put(path, 34, "a");
        if (err == 0)
            break;
        assert_int_equal(err, ROTA_NOMEM);
        assert_string_equal(content(path), "(none)");
    }
    scarce_end();
    assert_string_equal(content(path), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_older_fence_is_refused, begin),
        cmocka_unit_test_setup(a_claim_before_the_look_keeps_the_earlier_one_out, begin),
        cmocka_unit_test_setup(the_disk_has_it_in_this_order, begin),
        cmocka_unit_test_setup(a_disk_that_fails_is_told, begin),
        cmocka_unit_test_setup(names_may_be_short_and_relative, begin),
        cmocka_unit_test_setup(numbers_are_compared_as_numbers, begin),
        cmocka_unit_test_setup(what_is_no_fence_or_path_is_refused, begin),
        cmocka_unit_test_setup(what_is_no_file_is_left_alone, begin),
        cmocka_unit_test_setup(descriptors_are_given_back, begin),
        cmocka_unit_test_setup(no_descriptors_are_told, begin),
        cmocka_unit_test_setup(a_foreign_fence_file_is_left_alone, begin),
        cmocka_unit_test_setup(links_lead_to_one_guard, begin),
        cmocka_unit_test_setup(rights_stay_as_they_were, begin),
        cmocka_unit_test_setup(leftovers_of_a_crash_are_used_again, begin),
        cmocka_unit_test_setup(a_full_disk_leaves_what_was, begin),
        cmocka_unit_test_setup(a_removed_fence_file_is_no_guard, begin),
        cmocka_unit_test_setup(the_latest_fence_wins_a_race, begin),
        cmocka_unit_test_setup(memory_that_runs_out_is_told, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
