/* SPDX-License-Identifier: Apache-2.0 */
/* Named engines: the user's own list, then the machine's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char room[64], own[128], machine[128];
static char errmsg[256];

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    snprintf(room, sizeof(room), "/tmp/rota-config-XXXXXX");
    assert_non_null(mkdtemp(room));
    snprintf(own, sizeof(own), "%s/rota", room);
    assert_int_equal(mkdir(own, 0700), 0);
    snprintf(own, sizeof(own), "%s/rota/config", room);
    snprintf(machine, sizeof(machine), "%s/machine", room);
    rt_config_system = machine;
    return setenv("XDG_CONFIG_HOME", room, 1);
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(own);
    (void)unlink(machine);
    own[strlen(own) - strlen("/config")] = '\0';
    assert_int_equal(rmdir(own), 0);
    return rmdir(room);
}

static void finds(const char *name, const char *url)
{
    char *found = NULL;
    assert_int_equal(rt_config_find(name, &found, errmsg, sizeof(errmsg)), 0);
    assert_string_equal(found, url);
    rt_free(found);
}

static void misses(const char *name, const char *why)
{
    char *found = NULL;
    assert_int_equal(rt_config_find(name, &found, errmsg, sizeof(errmsg)), ROTA_INVALID);
    assert_null(found);
    assert_non_null(strstr(errmsg, why));
}

static void the_users_names_come_first(void **state)
{
    (void)state;
    write_file(own, "prod = file:/own\n# spare = file:/no\n");
    write_file(machine, "prod = file:/machine\nspare = file:/spare\n");
    finds("prod", "file:/own");
    finds("spare", "file:/spare");
    misses("other", "no engine is named 'other' in ");
    misses("other", own);
}

static void either_list_is_enough(void **state)
{
    (void)state;
    misses("prod", "neither is there");
    misses("prod", own);
    misses("prod", machine);
    write_file(machine, "prod = file:/machine\n");
    finds("prod", "file:/machine");
    misses("other", machine);
    assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
    assert_int_equal(setenv("HOME", "", 1), 0);
    finds("prod", "file:/machine"); /* a service without a home */
    assert_int_equal(unlink(machine), 0);
    misses("prod", "no $HOME, and no ");
    misses("prod", machine);
}

/* A mistake in one's own list is reported, not covered up by the machine's. */
static void a_mistake_is_told_where_it_is(void **state)
{
    (void)state;
    write_file(own, "\nprod = spare\n");
    write_file(machine, "prod = file:/machine\n");
    misses("prod", "/rota/config:2: 'prod' is given no URL there");
}

/* A user who may not read the list with the name must not look for it elsewhere. (A link to itself, a
 * folder: these keep root out too.) */
static void a_list_that_cannot_be_read_is_told(void **state)
{
    (void)state;
    assert_int_equal(symlink(machine, machine), 0);
    misses("prod", machine);
    misses("prod", "cannot be read: Too many levels");
    write_file(own, "spare = file:/own\n");
    misses("prod", machine);
    finds("spare", "file:/own");
    assert_int_equal(unlink(machine), 0);
    assert_int_equal(mkdir(machine, 0700), 0);
    misses("prod", "cannot be read: Is a directory");
    assert_int_equal(rmdir(machine), 0);
}

/* A home that a service may not look into is not the end: the machine's list has the name. */
static void ones_own_list_that_cannot_be_read_is_passed(void **state)
{
    (void)state;
    assert_int_equal(symlink(own, own), 0);
    write_file(machine, "prod = file:/machine\n");
    finds("prod", "file:/machine");
    misses("other", own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_users_names_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(either_list_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(a_mistake_is_told_where_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_that_cannot_be_read_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(ones_own_list_that_cannot_be_read_is_passed, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
