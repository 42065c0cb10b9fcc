/* SPDX-License-Identifier: Apache-2.0 */
/* The options of rota run: how long it tries a server that does not answer. */
#include "cli/run_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <string.h>

const struct rt_command *rt_command_find(const char *name)
{
    (void)name;
    return NULL;
}

int rt_help_print(const struct rt_command *command)
{
    (void)command;
    return RT_EXIT_OK;
}

/* rota run WORDS a true, on URL; 0: as long as ever. */
static uint32_t tried_ms(const char *words, const char *url)
{
    struct rt_hold hold = {0};
    char text[64], *argv[8] = {(char[]){"run"}};
    int argc = 1;
    bool done = false;

    assert_true(strlen(words) < sizeof(text));
    memcpy(text, words, strlen(words) + 1);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc++] = (char[]){"a"};
    argv[argc++] = (char[]){"true"};
    assert_int_equal(rt_run_options_parse(&hold, argc, argv, &done), RT_EXIT_OK);
    return rt_run_options_call_ms(&hold.ask, url);
}

static void a_server_is_tried_as_long_as_one_waits(void **state)
{
    static const char url[] = "redis://h";

    (void)state;
    assert_int_equal(tried_ms("", url), 0);
    assert_int_equal(tried_ms("-w 4", url), 4000);
    assert_int_equal(tried_ms("-w 3", url), 3000);
    assert_int_equal(tried_ms("-w 1", url), 3000);
    assert_int_equal(tried_ms("-w 1h", url), 0);
    assert_int_equal(tried_ms("-w 5", url), 0);
    assert_int_equal(tried_ms("-w 0.1", url), 3000); /* the network needs some */
    assert_int_equal(tried_ms("-w 0", url), 3000);
    assert_int_equal(tried_ms("-n", url), 3000);
    assert_int_equal(tried_ms("-n", "prod"), 3000); /* a name from the configuration */
}

static void what_is_here_needs_no_bound(void **state)
{
    (void)state;
    assert_int_equal(tried_ms("-n", NULL), 0);
    assert_int_equal(tried_ms("-n", "file:/x"), 0);
    assert_int_equal(tried_ms("-w 1", "file:"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_tried_as_long_as_one_waits),
        cmocka_unit_test(what_is_here_needs_no_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
