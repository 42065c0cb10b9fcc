/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor refuses what cannot keep a prepared branch: PostgreSQL without two-phase commit, its standby, a replica of
 * MariaDB; and says why.
 *
 *   test_refused ROTA-TXN */
#include "lib/mysql_server.h"
#include "lib/postgres_server.h"
#include "lib/proc.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static const char *program;

/* Examines the database at URL and frees URL: it must be broken, and the setting or remedy of a broken promise must
 * have TEXT. */
static void is_refused(char *url, const char *text)
{
    char path[300], line[1200];
    json_error_t wrong;
    const json_t *v;
    bool said = false;
    size_t i;

    snprintf(path, sizeof(path), "%s/resources", rt_tmpdir());
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(chmod(path, 0600), 0);
    fprintf(file, "patient = %s\n", url);
    fclose(file);
    free(url);
    snprintf(line, sizeof(line), "'%s' --journal 'file:%s/journal' --resources '%s' doctor --json",
             program, rt_tmpdir(), path);
    FILE *out = popen(line, "re");
    assert_non_null(out);
    json_t *all = json_loadf(out, 0, &wrong);
    int status = pclose(out);
    assert_non_null(all);
    assert_int_equal(WEXITSTATUS(status), 1);
    json_array_foreach(json_object_get(all, "verdicts"), i, v)
    {
        if (strcmp(json_string_value(json_object_get(v, "of")), "patient") == 0 &&
            strcmp(json_string_value(json_object_get(v, "verdict")), "broken") == 0)
            said = said || strstr(json_string_value(json_object_get(v, "setting")), text) != NULL ||
                   strstr(json_string_value(json_object_get(v, "remedy")), text) != NULL;
    }
    if (!said)
        fail_msg("no '%s' in %s", text, json_dumps(all, JSON_COMPACT));
    json_decref(all);
}

static void postgres(void **state)
{
    static struct rt_pg without, primary, standby;
    const struct rt_pg_options none = {.extra = {"max_prepared_transactions=0"}};
    const struct rt_pg_options some = {.extra = {"max_prepared_transactions=4"}};

    (void)state;
    rt_pg_start(&without, &none);
    is_refused(rt_pg_url(&without, 0), "max_prepared_transactions");
    rt_pg_fini(&without);
    rt_pg_start(&primary, &some);
    is_refused(rt_pg_url(&primary, 0), "fsync = off");                    /* as the tests have it */
    rt_pg_do(&primary, "ALTER SYSTEM SET max_prepared_transactions = 4"); /* for the copy of it */
    rt_pg_start_standby(&standby, &primary, "standby");
    is_refused(rt_pg_url(&standby, 0), "standby");
    rt_pg_fini(&standby);
    rt_pg_fini(&primary);
}

static void mariadb(void **state)
{
    static struct rt_mariadb primary, replica;
    const struct rt_mariadb_options logs = {.log = true, .extra = {"--sync-binlog=0"}};
    const struct rt_mariadb_options follows = {.primary = &primary};

    (void)state;
    rt_mariadb_start(&primary, &logs);
    rt_mariadb_do(&primary, "GRANT PROCESS ON *.* TO rota@'%%'");
    is_refused(rt_mariadb_url(&primary, 0), "sync_binlog = 0");
    rt_mariadb_start(&replica, &follows);
    is_refused(rt_mariadb_url(&replica, 0), "replica");
    rt_mariadb_fini(&replica);
    rt_mariadb_fini(&primary);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(postgres), cmocka_unit_test(mariadb)};

    assert_true(argc > 1);
    program = argv[1];
    rt_watchdog(200, "the doctor hangs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
