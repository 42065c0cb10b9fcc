/* SPDX-License-Identifier: Apache-2.0 */
/* One server, all cases. With a word: only those whose name has it. */
#include "cases.h"

#include "lib/proc.h"

#include <signal.h>

struct seat keeper;
long long row;

static size_t gather(struct CMUnitTest *out, size_t n, const struct CMUnitTest *from, size_t count,
                     const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (word == NULL || strstr(from[i].name, word) != NULL)
            out[n++] = from[i];
    return n;
}

static int up(void **state)
{
    (void)state;
    HERE->start();
    seat_open(&keeper, HERE, 0, true);
    return 0;
}

static int down(void **state)
{
    (void)state;
    seat_close(&keeper);
    HERE->fini();
    return 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest all[100];
    const char *word = argc > 1 ? argv[1] : NULL;

    assert_true(cases_plain_count + cases_losses_count + cases_peers_count + cases_bad_count +
                    cases_last_count <
                100);
    size_t n = gather(all, 0, cases_plain, cases_plain_count, word);
    n = gather(all, n, cases_last, cases_last_count, word);
    n = gather(all, n, cases_losses, cases_losses_count, word);
    n = gather(all, n, cases_peers, cases_peers_count, word);
    n = gather(all, n, cases_bad, cases_bad_count, word);
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(400, "the branches hang");
    return _cmocka_run_group_tests("branch", all, n, up, down);
}
