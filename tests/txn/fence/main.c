/* SPDX-License-Identifier: Apache-2.0 */
/* One database, all cases. With a word: only those whose name has it. */
#include "desk.h"

#include "lib/proc.h"

#include <signal.h>
#include <string.h>

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
    HERE->site->start();
    HERE->site->admin("CREATE TABLE effects (txn VARCHAR(64), branch BIGINT, op INT)");
    HERE->site->admin("CREATE INDEX effects_of ON effects (txn, branch)");
    void *conn = desk_open();
    assert_int_equal(HERE->make(conn), 0);
    desk_close(conn);
    return 0;
}

static int down(void **state)
{
    (void)state;
    HERE->site->fini();
    return 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest all[100];
    const char *word = argc > 1 ? argv[1] : NULL;

    size_t n = gather(all, 0, cases_orders, cases_orders_count, word);
    n = gather(all, n, cases_both, cases_both_count, word);
    n = gather(all, n, cases_peers, cases_peers_count, word);
    n = gather(all, n, cases_bad, cases_bad_count, word);
    n = gather(all, n, cases_clean, cases_clean_count, word);
    n = gather(all, n, cases_page, cases_page_count, word);
    assert_true(n > 0 && n < 100);
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(400, "the fence hangs");
    return _cmocka_run_group_tests("fence", all, n, up, down);
}
