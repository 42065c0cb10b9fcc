/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox on one database, all cases. With a word: only those whose name has it. */
#include "office.h"

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
    void *conn = office_conn();
    if (HERE->make(conn) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    assert_int_equal(HERE->make(conn), 0); /* twice is legal */
    office_close(conn);
    HERE->site->admin(HERE->orders);
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

    size_t n = gather(all, 0, cases_turns, cases_turns_count, word);
    n = gather(all, n, cases_faults, cases_faults_count, word);
    n = gather(all, n, cases_shapes, cases_shapes_count, word);
    n = gather(all, n, cases_books, cases_books_count, word);
    n = gather(all, n, cases_views, cases_views_count, word);
    n = gather(all, n, cases_page, cases_page_count, word);
    n = gather(all, n, cases_command, cases_command_count, word);
#ifdef WITH_BRANCHES
    n = gather(all, n, cases_branch, cases_branch_count, word);
#endif
    assert_true(n > 0 && n < 100);
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(400, "the outbox hangs");
    return _cmocka_run_group_tests("event", all, n, up, down);
}
