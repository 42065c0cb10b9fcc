/* SPDX-License-Identifier: Apache-2.0 */
/* A client meets a server that is not one. */
#include "lib/meeting.h"

#include "lib/refusal.h"

#include <dirent.h>
#include <rota.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static size_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

void meeting(const struct rogue_options *opts, const char *scheme, const char *path,
             uint32_t call_ms, const char *what, int err, const char *words,
             const char *const *secrets)
{
    size_t files = open_files();
    struct rogue *rogue = rogue_start(opts);
    struct refusal r;
    char url[100];

    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", scheme, (unsigned)rogue_port(rogue),
                   path);
    print_message("%s: ", what);
    r = refusal_of(url, call_ms);
    if (err == MEETING_EITHER)
        err = r.err == ROTA_PROTOCOL ? ROTA_PROTOCOL : ROTA_UNREACHABLE;
    refusal_assert(&r, err, words, secrets);
    rogue_stop(rogue);
    assert_int_equal(open_files(), files);
}
