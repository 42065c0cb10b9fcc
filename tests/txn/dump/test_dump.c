/* SPDX-License-Identifier: Apache-2.0 */
/* A core dump has no password of ours. test_dump DUMPED ROTA-TXN
 *
 * A dump is what /proc/PID/mem shows, without the mappings that are marked not to be dumped ("dd" in smaps). Where the
 * kernel writes a plain file, that is looked into as well. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/mysql_server.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 60
#define NEEDLE 24

enum {
    BOOKS,
    SHOP,
    LEDGER,
    SECRETS
}; /* the journal's, by URL; MariaDB's, by URL; PostgreSQL's, by file */

static const char *program, *command;
static struct rt_mariadb my;
static struct rt_pg pg;
static char secrets[SECRETS][64], mark[64], home[256];

/* ---- Memory ------------------------------------------------------------------ */

/* How often TEXT is in it. */
static size_t count_in(const char *bytes, size_t size, const char *text)
{
    const char *end = bytes + size, *at = bytes;
    size_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        n++;
        at++;
    }
    return n;
}

/* The same in PID's memory, from FROM to TO; what cannot be read counts as empty. */
static size_t count_range(int mem, unsigned long from, unsigned long to, const char *text)
{
    char *bytes = malloc(to - from);
    size_t got = 0;

    assert_non_null(bytes);
    while (got < to - from) {
        ssize_t n = pread(mem, bytes + got, to - from - got, (off_t)(from + got));
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    size_t count = count_in(bytes, got, text);
    free(bytes);
    return count;
}

/* In all readable memory of PID; DUMPED: in what a core would have. */
static size_t count_memory(pid_t pid, const char *text, bool dumped)
{
    char path[64], line[512], perms[8] = "";
    unsigned long from = 0, to = 0;
    size_t count = 0;

    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    int mem = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(mem >= 0);
    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
    FILE *maps = fopen(path, "re");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char word[8];
        unsigned long a, b;
        if (sscanf(line, "%lx-%lx %7s", &a, &b, word) == 3) {
            from = a;
            to = b;
            snprintf(perms, sizeof(perms), "%s", word);
        } else if (strncmp(line, "VmFlags:", 8) == 0 && perms[0] == 'r' &&
                   !(dumped && strstr(line, " dd") != NULL)) {
            count += count_range(mem, from, to, text);
        }
    }
    fclose(maps);
    close(mem);
    return count;
}

/* ---- A process ----------------------------------------------------------------- */

/* Starts it in HOME with RLIMIT_CORE at its maximum; its standard output is *OUT. */
static pid_t spawn(const char *const *words, int *out)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit;
        getrlimit(RLIMIT_CORE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_CORE, &limit);
        if (chdir(home) == 0 && dup2(ends[1], 1) == 1)
            execv(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    assert_true(pid > 0);
    close(ends[1]);
    *out = ends[0];
    return pid;
}

static pid_t start(const char *how)
{
    char said[6] = "";
    int out;
    pid_t pid = spawn((const char *[]){program, mark, how, NULL}, &out);

    size_t got = 0;
    while (got < 5) {
        ssize_t n = read(out, said + got, 5 - got);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_string_equal(said, "ready");
    close(out);
    return pid;
}

/* Ends it by SIGABRT. True: a core was dumped. */
static bool end(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGABRT), 0);
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    assert_true(WIFSIGNALED(status));
    return WCOREDUMP(status);
}

/* The core file in HOME, which is removed; NULL: there is none. */
static char *read_core(size_t *size)
{
    char pattern[300];
    glob_t found;
    char *bytes = NULL;

    snprintf(pattern, sizeof(pattern), "%s/core*", home);
    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    FILE *file = fopen(found.gl_pathv[0], "re");
    struct stat st;
    assert_true(file != NULL && fstat(fileno(file), &st) == 0 && st.st_size > 0);
    bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    *size = fread(bytes, 1, (size_t)st.st_size, file);
    fclose(file);
    assert_int_equal(unlink(found.gl_pathv[0]), 0);
    globfree(&found);
    return bytes;
}

/* What is searched for: longer than a register, and not the beginning, which the heap overwrites when it is freed. */
static const char *tail_of(int i)
{
    return secrets[i] + strlen(secrets[i]) - NEEDLE;
}

/* For a process that went as far as HOW. ALONE[I]: only we have the I-th secret, so it is in no dump. */
static void look(const char *how, const bool alone[SECRETS])
{
    pid_t pid = start(how);

    assert_true(count_memory(pid, mark, true) > 0);
    for (int i = 0; i < SECRETS; i++) {
        size_t n = count_memory(pid, tail_of(i), true), all = count_memory(pid, tail_of(i), false);
        print_message("%s, %.5s: %zu in a dump, %zu in memory\n", how, secrets[i], n, all);
        if (alone[i])
            assert_int_equal(n, 0);
        if (strcmp(how, "open") ==
            0) /* so it can be found: what the URL has is there for the next connection */
            assert_int_equal(all > 0, i != LEDGER);
    }
    size_t size = 0;
    bool dumped = end(pid);
    char *core = read_core(&size);
    if (core == NULL)
        print_message("%s\n", dumped ? "the core went elsewhere" : "no core can be dumped here");
    else
        assert_true(count_in(core, size, mark) > 0);
    for (int i = 0; core != NULL && i < SECRETS; i++)
        assert_false(alone[i] && count_in(core, size, tail_of(i)) > 0);
    free(core);
}

static void before_a_connection(void **state)
{
    (void)state;
    look("open", (bool[]){true, true, true});
}

/* The client libraries keep what they were given. */
static void with_connections(void **state)
{
    (void)state;
    look("work", (bool[]){true, false, false});
}

static void after_the_end(void **state)
{
    (void)state;
    look("closed", (bool[]){true, false, false});
}

/* The command is not dumped at all, whatever its libraries keep. */
static void the_command(void **state)
{
    char metrics[300];
    int out;

    (void)state;
    snprintf(metrics, sizeof(metrics), "%s/metrics", home);
    pid_t pid = spawn(
        (const char *[]){command, "--journal", "books", "recover", "--metrics", metrics, NULL},
        &out);
    while (access(metrics, F_OK) !=
           0) /* it has asked the journal and both databases; the watchdog ends it */
        poll(NULL, 0, 20);
    if (geteuid() == 0) /* nobody else can look */
        assert_true(count_memory(pid, tail_of(SHOP), false) > 0);
    assert_false(end(pid));
    size_t size = 0;
    assert_null(read_core(&size));
    close(out);
}

/* ---- The stage ------------------------------------------------------------------- */

static void make_secret(char *out, size_t size, const char *of)
{
    uint64_t random[2];

    assert_int_equal(getrandom(random, sizeof(random), 0), sizeof(random));
    snprintf(out, size, "%s-%016llx%016llx", of, (unsigned long long)random[0],
             (unsigned long long)random[1]);
}

static FILE *file_at(const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", home, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    return file;
}

static void write_configuration(void)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/rota", home);
    assert_int_equal(mkdir(path, 0700), 0);
    FILE *file = file_at("rota/config");
    fprintf(file, "books = mysql://books:%s@127.0.0.1:%u/locks\n", secrets[BOOKS],
            (unsigned)my.server.port);
    fclose(file);
    file = file_at("password");
    fprintf(file, "%s\n", secrets[LEDGER]);
    fclose(file);
    file = file_at("rota/txn");
    fprintf(file, "shop = mysql://shop:%s@127.0.0.1:%u/locks\n", secrets[SHOP],
            (unsigned)my.server.port);
    fprintf(
        file,
        "ledger = postgres://ledger@127.0.0.1:%u/postgres?password_file=%s/password&sslmode=disable\n",
        (unsigned)pg.server.port, home);
    fclose(file);
    setenv("XDG_CONFIG_HOME", home, 1);
    unsetenv("ROTA_JOURNAL");
}

static int up(void **state)
{
    const struct rt_pg_options opts = {.user = true, .extra = {"max_prepared_transactions=4"}};

    (void)state;
    rt_watchdog(3 * LIMIT_S, "a process does not get ready");
    snprintf(home, sizeof(home), "%s", rt_tmpdir());
    make_secret(secrets[BOOKS], sizeof(secrets[BOOKS]), "books");
    make_secret(secrets[SHOP], sizeof(secrets[SHOP]), "shop");
    make_secret(secrets[LEDGER], sizeof(secrets[LEDGER]), "ledger");
    make_secret(mark, sizeof(mark), "mark");
    rt_mariadb_start(&my, NULL);
    rt_pg_start(&pg, &opts);
    rt_mariadb_do(&my, "GRANT ALL ON *.* TO books@'%%' IDENTIFIED BY '%s'", secrets[BOOKS]);
    rt_mariadb_do(&my, "GRANT ALL ON *.* TO shop@'%%' IDENTIFIED BY '%s'", secrets[SHOP]);
    rt_pg_do(&pg, "CREATE ROLE ledger SUPERUSER LOGIN PASSWORD '%s'", secrets[LEDGER]);
    write_configuration();
    return 0;
}

static int down(void **state)
{
    (void)state;
    rt_mariadb_fini(&my);
    rt_pg_fini(&pg);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_a_connection),
        cmocka_unit_test(with_connections),
        cmocka_unit_test(after_the_end),
        cmocka_unit_test(the_command),
    };

    if (argc != 3)
        return 64;
    program = realpath(argv[1], NULL); /* they are started in another folder */
    command = realpath(argv[2], NULL);
    if (program == NULL || command == NULL)
        return 66;
    return cmocka_run_group_tests_name("core dumps", tests, up, down);
}
