/* SPDX-License-Identifier: Apache-2.0 */
/* The stage itself, without any fault, on any engine ($ROTA_TEST_URL, else file:). */
#include "lib/proc.h"
#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

static void engine_url(char *out, size_t size)
{
    const char *url = getenv("ROTA_TEST_URL");

    if (url != NULL && url[0] != '\0') {
        snprintf(out, size, "%s", url);
        return;
    }
    snprintf(out, size, "%s/engine", rt_tmpdir());
    assert_int_equal(mkdir(out, 0700), 0);
    snprintf(out, size, "file:%s/engine", rt_tmpdir());
}

static void contenders_and_kills(void **state)
{
    struct stage_plan plan = {.title = "stage",
                              .processes = 4,
                              .threads = 2,
                              .locks = 2,
                              .flags = STAGE_SHARED | STAGE_TRY | STAGE_GIVE_UP | STAGE_PERMITS |
                                       STAGE_SPICE,
                              .long_permille = 20,
                              .long_ms = 100,
                              .pause_us = 500};
    struct stage *st = stage_new(&plan);
    char url[STAGE_URL_MAX];

    (void)state;
    engine_url(url, sizeof(url));
    stage_url(st, url);
    stage_start(st);
    stage_pause(st, 1000);
    assert_int_equal(stage_finish(st, NULL, NULL), 0);
    stage_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contenders_and_kills),
    };

    cmocka_set_test_filter(getenv("ROTA_ONLY")); /* one case by hand */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
