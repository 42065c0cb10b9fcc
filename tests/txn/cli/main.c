/* SPDX-License-Identifier: Apache-2.0 */
/* rota-txn on a real MariaDB, a real PostgreSQL and a journal: one start, all cases.
 *
 *   test_txn_cli ROTA-TXN PTY [JOURNAL [WORD]]    JOURNAL: a URL, or "file"; with WORD only cases whose name has it */
#include "cases.h"

#include "lib/proc.h"

#include <signal.h>

static const char *command, *url;

static int up(void **state)
{
    (void)state;
    desk_open(command, url);
    return 0;
}

static int down(void **state)
{
    (void)state;
    desk_close();
    return 0;
}

static size_t gather(struct CMUnitTest *out, size_t n, const struct CMUnitTest *from, size_t count,
                     const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (word == NULL || strstr(from[i].name, word) != NULL)
            out[n++] = from[i];
    return n;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest all[60];
    const char *word = argc > 4 ? argv[4] : NULL;

    assert_true(argc > 2 && cases_words_count + cases_doubt_count + cases_service_count +
                                    cases_hook_count + cases_reserved_count <
                                60);
    command = argv[1];
    pty = argv[2];
    url = argc > 3 && strcmp(argv[3], "file") != 0 ? argv[3] : NULL;
    size_t n = gather(all, 0, cases_words, cases_words_count, word);
    n = gather(all, n, cases_doubt, cases_doubt_count, word);
    n = gather(all, n, cases_reserved, cases_reserved_count, word);
    n = gather(all, n, cases_service, cases_service_count, word);
    n = gather(all, n, cases_hook, cases_hook_count, word);
    signal(SIGPIPE, SIG_IGN);
    unsetenv("ROTA_JOURNAL");
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    rt_watchdog(DESK_LIMIT_S, "rota-txn hangs");
    return _cmocka_run_group_tests("rota-txn", all, n, up, down);
}
