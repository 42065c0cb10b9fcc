/* SPDX-License-Identifier: Apache-2.0 */
/* rota doctor --ddl on an engine that has tables; this file plays the library. */
#include "cli/connect.h"
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TABLES "create table rota_line (\n    name text primary key\n);\n"

static int answer; /* of rota_ddl */

/* ---- What is played ----------------------------------------------------- */

int rota_ddl(const char *url, rota_ddl_fn *fn, void *arg)
{
    assert_string_equal(url, "sql://db");
    if (answer == 0)
        fn(arg, TABLES);
    return answer;
}

int rota_doctor(struct rota *r, rota_verdict_fn *fn, void *arg)
{
    (void)r, (void)fn, (void)arg;
    fail();
    return 0;
}

void rota_close(struct rota *r)
{
    (void)r;
}

const char *rt_connect_url(const struct rt_cli *cli)
{
    return cli->on;
}

int rt_connect_open(struct rota **out, const struct rt_cli *cli, const struct rota_options *opts)
{
    (void)out, (void)cli, (void)opts;
    fail_msg("the server was asked");
    return 0;
}

int rt_connect_report(const struct rota *r, int err, const char *prefix)
{
    (void)prefix;
    assert_null(r);
    return 100 - err;
}

void rt_connect_redact(const char *url, char *out, size_t size)
{
    snprintf(out, size, "%s", url);
}

int rt_help_print(const struct rt_command *command)
{
    (void)command;
    return 0;
}

const struct rt_command *rt_command_find(const char *name)
{
    (void)name;
    return NULL;
}

/* ---- Asking ------------------------------------------------------------- */

static char printed[512];

/* Runs the command with stdout in PRINTED; returns its exit code. */
static int run(int argc, const char *const *argv)
{
    struct rt_cli cli = {"sql://db"};
    char *args[4] = {0};
    FILE *file = tmpfile();
    int before = dup(STDOUT_FILENO);

    assert_non_null(file);
    for (int i = 0; i < argc; i++)
        args[i] = (char *)(uintptr_t)argv[i]; /* getopt only moves them */
    fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    rt_options_begin(&cli);
    int code = rt_doctor_main(&cli, argc, args);
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    rewind(file);
    printed[fread(printed, 1, sizeof(printed) - 1, file)] = '\0';
    fclose(file);
    return code;
}

static void tables_are_printed_as_they_are(void **state)
{
    (void)state;
    assert_int_equal(run(2, (const char *const[]){"doctor", "--ddl"}), 0);
    assert_string_equal(printed, TABLES);
}

static void or_as_one_string(void **state)
{
    (void)state;
    assert_int_equal(run(3, (const char *const[]){"doctor", "--json", "--ddl"}), 0);
    assert_non_null(strstr(printed, "\"engine\": \"sql://db\""));
    assert_non_null(strstr(
        printed, "\"ddl\": \"create table rota_line (\\n    name text primary key\\n);\\n\""));
}

static void a_failure_prints_nothing(void **state)
{
    (void)state;
    answer = ROTA_INVALID;
    assert_int_equal(run(2, (const char *const[]){"doctor", "--ddl"}), 100 - ROTA_INVALID);
    assert_string_equal(printed, "");
    assert_int_equal(run(3, (const char *const[]){"doctor", "--json", "--ddl"}),
                     100 - ROTA_INVALID);
    assert_string_equal(printed, "");
    answer = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_printed_as_they_are),
        cmocka_unit_test(or_as_one_string),
        cmocka_unit_test(a_failure_prints_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
