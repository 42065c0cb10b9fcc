/* SPDX-License-Identifier: Apache-2.0 */
/* Three-phase commit with real parts: participants at a MariaDB and a PostgreSQL, a coordinator and a file journal, each a
 * process of rota-txn.
 *
 *   test_three ROTA-TXN ROTA-TXN-POINTS [WORD]      the second with crash points; with WORD only cases whose name has it
 *
 * The textbook's schedule: all have promised; one is PRECOMMITTED, the other is still at its work; then the coordinator and
 * that other one are killed. on_timeout says what becomes of the first.
 *
 * What docs/transactions/three-phase.md says, and who asserts it (S: test_three_stories, M: sim --three and --three-commit
 * with the invariant, no letter: a case here):
 *   an answer is how it stands, durably         S as_it_should_be, a_lost_write_is_written_again; M H4; both_commit
 *   COMMIT stands after all are ready           S three_phases; M H2
 *   a promise aborts when its time is over      S a_promise_ends_by_itself; a_promise_costs_no_locks
 *   ... unless the coordinator is undecided     S a_promise_is_kept_while_the_coordinator_is_undecided
 *   the ready follow whoever knows              S peers_know, recovery_is_seen; block_one_outcome_*, recovery_commits_*
 *   block waits, one outcome                    S block_waits; M H3; block_one_outcome_*
 *   commit commits, unless a peer only waits    S commit_commits_alone, commit_waits_for_who_waits; commit_mixed_*
 *   commit may be mixed                         sim-three-mixed; commit_mixed_*
 *   ... told by participant and coordinator     S a_mix_is_told_and_never_closed; M H5; commit_mixed_*
 *   ... and by recovery                         S no_pre_leaves_before_*; M H8; recovery_tells_a_mix_*
 *   a promise costs no locks                    a_promise_costs_no_locks
 *   who cannot take part says so first          S work_that_fails_is_a_no, an_abort_before_the_promise_stays; both_commit
 *   locks are held for T2 and a round           S commit_commits_alone (in virtual time)
 *   recovery ends as decided, and is found      recovery_and_participant_agree (ABORT), recovery_commits_what_stands
 *   one participant per database                a_second_participant_takes_over
 *   ... if it could start                       who_cannot_listen_takes_nothing_over
 *   ... under one name in a transaction         who_takes_part_twice_refuses, who_is_asked_under_another_name_refuses
 *   one token for all, required off loopback    who_takes_part_has_the_token
 *   it answers for names that it was told       names_they_are_asked_by
 *   --serve answers for the dead                a_server_aborts_what_is_undecided; S adopted; a_server_asks_whether_*
 *   statements have the rights of its URL       statements_have_the_rights_of_the_url
 *   what a statement commits stays              what_a_statement_commits_stays
 *   it says for whom it waits                   who_does_not_answer_is_named
 *   it says what stands at once; --for ends it  the_outcome_is_told_when_it_stands, its_time_can_be_limited
 *   two-phase commit with a journal in etcd     tests/txn/bank, scenes.c: the coordinator and who heard COMMIT die */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "party.h"

#include "lib/proc.h"
#include "lib/servers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static long long last_row = 1000;

/* ---- Cases -------------------------------------------------------------------------- */

static void set_table(const struct site *ready, const struct site *late)
{
    first.site = ready;
    second.site = late;
    take_address(&first, ready == &site_mysql ? "shop" : "ledger");
    take_address(&second, late == &site_mysql ? "shop" : "ledger");
    take_address(&chair, "chair");
    start_participant(&first);
    start_participant(&second);
}

static void clear_table(void)
{
    end(&first);
    end(&second);
    forget_promises();
    close(first.anchor);
    close(second.anchor);
    close(chair.anchor);
    assert_int_equal(site_mysql.prepared() + site_postgres.prepared(), 0);
}

static void both_commit(void **state)
{
    (void)state;
    long long row = ++last_row;
    set_table(&site_mysql, &site_postgres);
    start_coordinator("block", row, "60s", "120s");
    assert_int_equal(rt_proc_wait(chair.pid), 0);
    assert_true(log_has(&chair, "COMMITTED"));
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    wait_for(&first, "stance", STANCE_COMMITTED);
    wait_for(&second, "ended", 1);
    start_coordinator("block", row, "60s", "120s"); /* the row is there: its work fails */
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "ABORTED"));
    clear_table();
}

/* One is ready, the other at its work, which waits for a row; then the coordinator and the other die. */
static void play_textbook(const char *on_timeout, long long row)
{
    char sql[60];
    void *conn = second.site->connect(0);
    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", row);
    assert_true(second.site->sql(conn, "BEGIN") && second.site->sql(conn, sql));
    start_coordinator(on_timeout, row, "60s", "3s");
    wait_for(&first, "stance", STANCE_PRECOMMITTED);
    wait_for(&second, "stance", STANCE_WAIT);
    rt_proc_kill(chair.pid);
    rt_proc_kill(second.pid);
    assert_true(second.site->sql(conn, "ROLLBACK"));
    second.site->close(conn);
}

static void commit_is_mixed_and_told(const struct site *ready, const struct site *late)
{
    char id[33];
    long long row = ++last_row;
    set_table(ready, late);
    play_textbook("commit", row);
    id_of_chair(id);
    wait_for(&first, "ended", 1); /* of itself */
    assert_int_equal(promise(&first, "stance"), STANCE_COMMITTED);
    assert_int_equal(promise(&first, "mixed"), 0); /* it does not know yet */
    wait_for_log(&first, "committed on its own");
    assert_true(has_row(ready, row));
    start_participant(&second);
    start_server();
    wait_for(&first, "mixed", 1);
    wait_for_log(&first, "MIXED: it is committed here");
    wait_for_log(&chair, "MIXED: decided ABORTED");
    wait_for(&second, "stance", STANCE_ABORTED);
    metric_is(&first, "rota_three_mixed 1\n");
    assert_true(has_row(ready, row) && !has_row(late, row)); /* mixed it is, and stays */
    end(&first);                                             /* it is known after a restart, too */
    start_participant(&first);
    metric_is(&first, "rota_three_mixed 1\n");
    end(&chair); /* it has left it open */
    tool_says(1, id, "ls", "--attention", NULL, NULL);
    tool_says(0, "aborted", "resolve", "--done", "--yes", id);
    clear_table();
}

static void block_has_one_outcome(const struct site *ready, const struct site *late)
{
    long long row = ++last_row;
    set_table(ready, late);
    play_textbook("block", row);
    wait_for_log(&first, "blocked");
    metric_is(&first, "rota_three_blocked 1\n");
    assert_int_equal(promise(&first, "stance"), STANCE_PRECOMMITTED);
    assert_int_equal(ready->prepared(), 1);
    start_participant(&second); /* the coordinator stays dead: the peer knows enough */
    wait_for(&first, "ended", 1);
    assert_int_equal(promise(&first, "stance"), STANCE_ABORTED);
    assert_int_equal(promise(&second, "stance"), STANCE_ABORTED);
    assert_int_equal(promise(&first, "mixed") + promise(&second, "mixed"), 0);
    assert_true(!has_row(ready, row) && !has_row(late, row));
    metric_is(&first, "rota_three_blocked 0\n");
    clear_table();
}

static void commit_mixed_mysql_ready(void **state)
{
    (void)state;
    commit_is_mixed_and_told(&site_mysql, &site_postgres);
}

static void commit_mixed_postgres_ready(void **state)
{
    (void)state;
    commit_is_mixed_and_told(&site_postgres, &site_mysql);
}

static void block_one_outcome_mysql_ready(void **state)
{
    (void)state;
    block_has_one_outcome(&site_mysql, &site_postgres);
}

static void block_one_outcome_postgres_ready(void **state)
{
    (void)state;
    block_has_one_outcome(&site_postgres, &site_mysql);
}

/* All are dead; recovery ends what is prepared as the journal says, and the participant finds that. */
static void recovery_and_participant_agree(void **state)
{
    char id[33];
    long long row = ++last_row;
    (void)state;
    set_table(&site_mysql, &site_postgres);
    play_textbook("block", row);
    rt_proc_kill(first.pid);
    id_of_chair(id);
    assert_int_equal(first.site->prepared(), 1);
    tool("settle", id); /* ABORT stands */
    tool("recover", "--once");
    assert_int_equal(first.site->prepared(), 0);
    assert_int_equal(promise(&first, "stance"), STANCE_PRECOMMITTED); /* its row knows nothing */
    start_participant(&first);
    wait_for(&first, "stance", STANCE_ABORTED);
    assert_int_equal(promise(&first, "mixed"), 0);
    start_participant(&second);
    wait_for(&second, "stance", STANCE_ABORTED);
    assert_true(!has_row(&site_mysql, row) && !has_row(&site_postgres, row));
    clear_table();
}

/* One has committed by itself, and no database lists anything of it; then somebody who knows none of them decides
 * ABORT. Recovery, anywhere, finds the marker, calls a person and closes nothing; nobody who comes later closes it in
 * silence. */
static void recovery_tells_a_mix(const struct site *ready, const struct site *late)
{
    char id[33];
    long long row = ++last_row;
    set_table(ready, late);
    play_textbook("commit", row);
    wait_for(&first, "ended", 1); /* of itself */
    rt_proc_kill(first.pid);
    id_of_chair(id);
    assert_int_equal(site_mysql.prepared() + site_postgres.prepared(), 0);
    tool("settle", id); /* ABORT stands */
    /* The second one is another machine's: it was told nothing. */
    for (int i = 0; i < 2; i++) {
        tool_says(1, "decided ABORT, but the participant has committed it", "recover", "--once",
                  NULL, NULL);
        assert_true(log_has(&tool_party, "1 left, 1 of which need a person"));
    }
    tool_says(1, id, "ls", "--attention", NULL, NULL);
    tool_says(0, "has committed it", "show", id, NULL, NULL);
    assert_true(log_has(&tool_party, first.name));
    start_participant(&second); /* its promise is given up */
    wait_for(&second, "stance", STANCE_ABORTED);
    assert_true(has_row(ready, row) && !has_row(late, row));
    tool_says(0, "aborted", "resolve", "--done", "--yes", id); /* a person has mended it */
    tool("recover", "--once");
    start_participant(&first);
    clear_table();
}

static void recovery_tells_a_mix_mysql_ready(void **state)
{
    (void)state;
    recovery_tells_a_mix(&site_mysql, &site_postgres);
}

static void recovery_tells_a_mix_postgres_ready(void **state)
{
    (void)state;
    recovery_tells_a_mix(&site_postgres, &site_mysql);
}

static int up(void **state)
{
    (void)state;
    site_mysql.start();
    site_postgres.start();
    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    snprintf(resources, sizeof(resources), "%s/resources", rt_tmpdir());
    char *my = site_mysql.url(0), *pg = site_postgres.url(0);
    FILE *file = fopen(resources, "we");
    assert_non_null(file);
    assert_int_equal(chmod(resources, 0600), 0);
    fprintf(file, "shop = %s\nledger = %s\n", my, pg);
    fclose(file);
    free(my);
    free(pg);
    return 0;
}

static int down(void **state)
{
    (void)state;
    site_mysql.fini();
    site_postgres.fini();
    return 0;
}

/* Some 150 with its start and its end; if its threads wake each other, 60,000 each second. */
#define WAKES_MOST 2000

/* How often the children that have ended had waited for something, and woken. */
static long wakes_of_ended(void)
{
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &u), 0);
    return u.ru_nvcsw;
}

/* Aborted, because one never answered: the command says so, and ends although it cannot tell everybody. It sleeps
 * while it waits. */
static void a_dead_participant_does_not_keep_the_command(void **state)
{
    long long row = ++last_row;
    (void)state;
    set_table(&site_mysql, &site_postgres);
    end(&second);
    waits = "1s";
    long before = wakes_of_ended();
    start_coordinator("block", row, "1s", "2s");
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_in_range(wakes_of_ended() - before, 1, WAKES_MOST);
    assert_true(log_has(&chair, "ABORTED"));
    assert_false(has_row(&site_mysql, row));
    waits = NULL;
    start_participant(&second);
    clear_table();
}

/* What stands is told at once, while it goes on telling the participants. */
static void the_outcome_is_told_when_it_stands(void **state)
{
    int status;
    (void)state;
    set_table(&site_mysql, &site_postgres);
    end(&second);
    waits = "10m";
    start_coordinator("block", ++last_row, "1s", "2s");
    wait_for_log(&chair, "ABORTED");
    assert_int_equal(waitpid(chair.pid, &status, WNOHANG), 0);
    rt_proc_kill(chair.pid);
    waits = NULL;
    start_participant(&second);
    clear_table();
}

/* --for ends it, whatever is under way: a participant that is stopped, long before its time is over. */
static void its_time_can_be_limited(void **state)
{
    long long row = ++last_row;
    (void)state;
    set_table(&site_mysql, &site_postgres);
    assert_int_equal(kill(second.pid, SIGSTOP), 0);
    within = "1s";
    start_coordinator("block", row, "10m", "10m");
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    within = NULL;
    assert_true(log_has(&chair, "ABORTED"));
    assert_int_equal(kill(second.pid, SIGCONT), 0);
    assert_false(has_row(&site_mysql, row));
    clear_table();
}

/* On a terminal it says for whom it waits: before it is decided, and after. */
static void who_does_not_answer_is_named(void **state)
{
    (void)state;
    set_table(&site_mysql, &site_postgres);
    end(&second);
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    chair.terminal = ptsname(terminal);
    start_coordinator("block", ++last_row, "10s", "10s");
    wait_for_screen(terminal, ": waiting for an answer from ledger\r\n");
    wait_for_screen(terminal, ": ABORTED; waiting for an answer from ledger\r\n");
    chair.terminal = NULL;
    rt_proc_kill(chair.pid);
    close(terminal);
    start_participant(&second);
    clear_table();
}

/* Nobody knows yet what becomes of it, so it is called neither committed nor aborted. */
static void undecided_is_not_aborted(void **state)
{
    (void)state;
    first.site = &site_mysql;
    second.site = &site_postgres;
    take_address(&first, "shop");
    take_address(&second, "ledger"); /* nobody listens there */
    take_address(&chair, "chair");
    start_coordinator("block", ++last_row, "60s", "60s");
    wait_for_log(&chair, "begun");
    kill(chair.pid, SIGTERM);
    assert_int_equal(rt_proc_wait(chair.pid), 76);
    assert_true(log_has(&chair, "before it was decided"));
    close(first.anchor);
    close(second.anchor);
    close(chair.anchor);
}

/* Both are ready, and the coordinator dies at POINT, by which COMMIT stands, or does not yet. */
static void die_at(const char *point, const char *on_timeout, long long row)
{
    set_table(&site_mysql, &site_postgres);
    chair.point = point;
    start_coordinator(on_timeout, row, "60s", "3s");
    assert_int_equal(rt_proc_wait(chair.pid), RT_PROC_SIGNALED + SIGKILL);
    chair.point = NULL;
}

static void both_have(const char *what, long long value)
{
    wait_for(&first, what, value);
    wait_for(&second, what, value);
}

/* COMMIT stands, and nobody has heard of it: recovery commits what is prepared, and the participants find it so. */
static void recovery_commits_what_stands(void **state)
{
    long long row = ++last_row;
    (void)state;
    die_at("decide-written", "block", row);
    rt_proc_kill(first.pid);
    rt_proc_kill(second.pid);
    assert_int_equal(site_mysql.prepared() + site_postgres.prepared(), 2);
    tool("recover", "--once");
    assert_int_equal(site_mysql.prepared() + site_postgres.prepared(), 0);
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    both_have("stance", STANCE_PRECOMMITTED); /* their rows know nothing */
    start_participant(&first);
    start_participant(&second);
    both_have("stance", STANCE_COMMITTED);
    both_have("how", HOW_ELSEWHERE);
    both_have("mixed", 0);
    clear_table();
}

/* All were ready, nothing is decided, and all have committed by themselves: whoever answers for the dead coordinator
 * asks them to be ready once more, and so decides COMMIT. Nothing is mixed. */
static void a_server_asks_whether_all_are_ready(void **state)
{
    char id[33];
    long long row = ++last_row;
    (void)state;
    die_at("decide-asked", "commit", row);
    id_of_chair(id);
    tool_says(75, "open", "outcome", id, NULL, NULL);
    both_have("stance", STANCE_COMMITTED); /* by itself, or after its peer */
    both_have("sure", 0);
    start_server();
    both_have("sure", 1);
    both_have("stance", STANCE_COMMITTED);
    both_have("mixed", 0);
    tool_says(0, "committed", "outcome", id, NULL, NULL);
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    end(&chair);
    tool("recover", "--once");
    clear_table();
}

/* `block`, and the peer stays dead: whoever answers for the coordinator decides ABORT if nothing stands. */
static void a_server_aborts_what_is_undecided(void **state)
{
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    play_textbook("block", row);
    wait_for_log(&first, "blocked");
    start_server();
    wait_for(&first, "stance", STANCE_ABORTED);
    wait_for(&first, "how", HOW_TOLD);
    wait_for(&first, "ended", 1);
    start_participant(&second);
    both_have("stance", STANCE_ABORTED);
    both_have("mixed", 0);
    assert_true(!has_row(&site_mysql, row) && !has_row(&site_postgres, row));
    end(&chair);
    clear_table();
}

/* A promise is a row and nothing else: others work meanwhile. And it ends by itself, whoever is dead. */
static void a_promise_costs_no_locks(void **state)
{
    char sql[60];
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    rt_proc_kill(second.pid);                      /* so nobody is asked to be ready */
    start_coordinator("block", row, "10s", "60s"); /* time to see the promise, and to kill */
    wait_for(&first, "stance", STANCE_WAIT);
    rt_proc_kill(chair.pid);
    void *conn = first.site->connect(0);
    snprintf(sql, sizeof(sql), "INSERT INTO work VALUES (%lld)", row);
    assert_true(first.site->sql(conn, "SET lock_timeout = 1"));
    assert_true(first.site->sql(conn, sql)); /* the row that it would have inserted */
    first.site->close(conn);
    assert_int_equal(first.site->prepared(), 0);
    wait_for(&first, "stance", STANCE_ABORTED);
    assert_int_equal(promise(&first, "how"), HOW_TIMEOUT);
    start_participant(&second);
    clear_table();
}

/* Two at one database: the first ends as soon as it would write. */
static void a_second_participant_takes_over(void **state)
{
    (void)state;
    set_table(&site_postgres, &site_mysql);
    struct party heir = {.site = &site_postgres, .name = "heir"};
    take_address(&heir, "heir");
    char *url = site_postgres.url(0);
    const char *words[] = {program, "participant", "--listen", heir.listen, url, NULL};
    memcpy(heir.words, words, sizeof(words));
    start(&heir);
    start_coordinator("block", ++last_row, "20s", "60s");
    assert_int_equal(rt_proc_wait(first.pid), 1);
    assert_true(log_has(&first, "another participant has taken over this database"));
    rt_proc_kill(chair.pid);
    end(&heir);
    free(url);
    close(heir.anchor);
    start_participant(&first);
    clear_table();
}

/* One token for all participants: a request without it is not heard; and beyond this machine it is required. */
static void who_takes_part_has_the_token(void **state)
{
    static char path[400];
    long long row = ++last_row;
    (void)state;
    snprintf(path, sizeof(path), "%s/token", rt_tmpdir());
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fputs("s3cret-of-all\n", file);
    fclose(file);
    token = path;
    set_table(&site_mysql, &site_postgres);
    answers(&first, "-w %{http_code}", "401");
    answers(&second, "-H 'Authorization: Bearer s3cret-of-some' -w %{http_code}", "401");
    answers(&second, "-H 'Authorization: Bearer s3cret-of-all' -w %{http_code}", "200");
    start_coordinator("block", row, "60s", "60s");
    assert_int_equal(rt_proc_wait(chair.pid), 0);
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    token = NULL;
    clear_table();
    char *url = site_postgres.url(0);
    tool_says(64, "token", "participant", "--listen", "0.0.0.0:0", url);
    free(url);
}

static void add_word(struct party *p, const char *one, const char *two)
{
    size_t n = 0;

    while (p->words[n] != NULL)
        n++;
    assert_true(n + 2 < sizeof(p->words) / sizeof(p->words[0]));
    p->words[n] = one;
    p->words[n + 1] = two;
    p->words[n + 2] = NULL;
}

/* curl finds every name below localhost on this machine. */
static void names_they_are_asked_by(void **state)
{
    char address[80];
    long long row = ++last_row;
    (void)state;
    set_table(&site_mysql, &site_postgres);
    snprintf(second.url, sizeof(second.url), "ledger=http://ledger.localhost:%u", second.port);
    start_coordinator("block", row, "3s", "60s");
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "--allow-host ledger.localhost")); /* what to do */
    assert_false(has_row(&site_mysql, row) || has_row(&site_postgres, row));
    end(&second);
    add_word(&second, "--allow-host", "ledger.localhost");
    start(&second);
    row = ++last_row;
    start_coordinator("block", row, "60s", "60s");
    assert_int_equal(rt_proc_wait(chair.pid), 0);
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    start_server();
    answers(&chair, "-H 'Host: chair.localhost' -w %{http_code}", "421");
    end(&chair);
    snprintf(address, sizeof(address), "http://chair.localhost:%u", chair.port);
    add_word(&chair, "--address", address);
    add_word(&chair, "--allow-host", "other.example");
    start(&chair);
    answers(&chair, "-H 'Host: chair.localhost' -w %{http_code}", "404"); /* it is its own name */
    answers(&chair, "-H 'Host: Other.example.' -w %{http_code}", "404");
    answers(&chair, "-H 'Host: third.example' -w %{http_code}", "421");
    end(&chair);
    clear_table();
    tool_says(64, "without a port", "three", "--serve", "--allow-host", "a:1");
    tool_says(64, "without a port", "participant", "--allow-host", "", "postgres://h/d");
}

/* Nobody can do through it what its database user may not do. */
static void statements_have_the_rights_of_the_url(void **state)
{
    static char as_clerk[400];
    char insert[60];
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    end(&first);
    site_postgres.admin("CREATE TABLE vault (id bigint)");
    site_postgres.admin("CREATE ROLE clerk LOGIN");
    site_postgres.admin("GRANT USAGE, CREATE ON SCHEMA public TO clerk");
    site_postgres.admin("GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk");
    site_postgres.admin("REVOKE ALL ON vault FROM clerk");
    char *url = site_postgres.url(0);
    snprintf(as_clerk, sizeof(as_clerk), "postgres://clerk%s", strchr(url, '@'));
    free(url);
    const char *words[] = {program, "participant", "--listen", first.listen, as_clerk, NULL};
    memcpy(first.words, words, sizeof(words));
    start(&first);
    snprintf(insert, sizeof(insert), "INSERT INTO work VALUES (%lld)", row);
    start_coordinator_of("INSERT INTO vault VALUES (1)", insert);
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "ledger said no: "));
    assert_true(log_has(&chair, "permission denied"));
    assert_false(has_row(&site_mysql, row));
    assert_int_equal(site_postgres.number("SELECT COUNT(*) FROM vault"), 0);
    start_coordinator_of("ROLLBACK", insert); /* nor what the participant alone may */
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "ended the transaction"));
    start_coordinator_of("COPY work FROM STDIN", insert);
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "COPY"));
    assert_false(has_row(&site_mysql, row));
    start_coordinator_of(insert, insert);
    assert_int_equal(rt_proc_wait(chair.pid), 0);
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    clear_table();
}

/* PostgreSQL lets a statement end its transaction, and nobody can take that back: it is a no, and the line says what stays. */
static void what_a_statement_commits_stays(void **state)
{
    char insert[60], both[100];
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    snprintf(insert, sizeof(insert), "INSERT INTO work VALUES (%lld)", row);
    snprintf(both, sizeof(both), "COMMIT; %s", insert);
    start_coordinator_of(both, insert);
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "ledger said no: a statement ended the transaction"));
    assert_true(log_has(&chair, "what it has committed stays"));
    assert_true(has_row(&site_postgres, row) && !has_row(&site_mysql, row));
    start_coordinator_of("SELECT 1", "COMMIT"); /* MariaDB refuses it */
    assert_int_equal(rt_proc_wait(chair.pid), 75);
    assert_true(log_has(&chair, "shop said no: "));
    assert_false(log_has(&chair, "ended the transaction"));
    clear_table();
}

/* The addresses of two were swapped: the work of one would be done at the other. */
static void who_is_asked_under_another_name_refuses(void **state)
{
    char insert[60];
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    snprintf(insert, sizeof(insert), "INSERT INTO work VALUES (%lld)", row);
    for (int right = 0; right < 2; right++) {
        end(&first);
        char *url = site_postgres.url(0);
        const char *words[] = {program,      "participant", "--listen",
                               first.listen, "--name",      right ? "ledger" : "shop",
                               url,          NULL};
        memcpy(first.words, words, sizeof(words));
        start(&first);
        start_coordinator_of(insert, insert);
        assert_int_equal(rt_proc_wait(chair.pid), right ? 0 : 75);
        if (!right)
            assert_true(log_has(&chair, "ledger said no: 'shop' answers there"));
        assert_int_equal(has_row(&site_mysql, row), right);
        assert_int_equal(has_row(&site_postgres, row), right);
        free(url);
    }
    clear_table();
}

/* One participant at PORT under two names: the second would be told how the first one stands, and its work be lost. */
static void ask_twice_at_one(const char *host, const char *at_first, const char *at_second)
{
    char url[sizeof(second.url)];
    memcpy(url, second.url, sizeof(url));
    snprintf(second.url, sizeof(second.url), "%s=http://%s:%u", second.name, host, first.port);
    start_coordinator_of(at_first, at_second);
    memcpy(second.url, url, sizeof(url));
}

static void who_takes_part_twice_refuses(void **state)
{
    char insert[2][60];
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    for (int i = 0; i < 2; i++)
        snprintf(insert[i], sizeof(insert[i]), "INSERT INTO work VALUES (%lld)", row + i);
    last_row = row + 1;
    for (int named = 0; named < 2; named++) {
        end(&first);
        char *url = site_postgres.url(0);
        const char *words[] = {program, "participant", "--listen", first.listen,
                               url,     NULL,          NULL,       NULL};
        words[5] = named ? "--name" : NULL;
        words[6] = first.name;
        memcpy(first.words, words, sizeof(words));
        start(&first);
        ask_twice_at_one("localhost", insert[0],
                         insert[1]); /* it cannot tell that it is the same */
        assert_int_equal(rt_proc_wait(chair.pid), 75);
        assert_true(log_has(&chair, "ABORTED"));
        assert_true(log_has(&chair, named ? "'ledger' answers there, not 'shop'"
                                          : "it takes part in this transaction already, as '"));
        ask_twice_at_one("127.0.0.1", insert[0], insert[1]);
        assert_int_equal(rt_proc_wait(chair.pid), 64);
        assert_true(log_has(&chair, "'ledger' and 'shop' have the same address"));
        assert_false(has_row(&site_postgres, row) || has_row(&site_postgres, row + 1));
        free(url);
    }
    clear_table();
}

/* Its address is taken, so it cannot start: whoever works at that database goes on. */
static void who_cannot_listen_takes_nothing_over(void **state)
{
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    char *url = site_postgres.url(0);
    tool_says(69, "cannot listen", "participant", "--listen", first.listen, url);
    free(url);
    start_coordinator("block", row, "20s", "60s");
    assert_int_equal(rt_proc_wait(chair.pid), 0);
    assert_true(has_row(&site_mysql, row) && has_row(&site_postgres, row));
    clear_table();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(both_commit),
        cmocka_unit_test(commit_mixed_mysql_ready),
        cmocka_unit_test(commit_mixed_postgres_ready),
        cmocka_unit_test(block_one_outcome_mysql_ready),
        cmocka_unit_test(block_one_outcome_postgres_ready),
        cmocka_unit_test(recovery_and_participant_agree),
        cmocka_unit_test(recovery_tells_a_mix_mysql_ready),
        cmocka_unit_test(recovery_tells_a_mix_postgres_ready),
        cmocka_unit_test(a_dead_participant_does_not_keep_the_command),
        cmocka_unit_test(the_outcome_is_told_when_it_stands),
        cmocka_unit_test(its_time_can_be_limited),
        cmocka_unit_test(who_does_not_answer_is_named),
        cmocka_unit_test(undecided_is_not_aborted),
        cmocka_unit_test(recovery_commits_what_stands),
        cmocka_unit_test(a_server_asks_whether_all_are_ready),
        cmocka_unit_test(a_server_aborts_what_is_undecided),
        cmocka_unit_test(a_promise_costs_no_locks),
        cmocka_unit_test(a_second_participant_takes_over),
        cmocka_unit_test(who_takes_part_has_the_token),
        cmocka_unit_test(names_they_are_asked_by),
        cmocka_unit_test(statements_have_the_rights_of_the_url),
        cmocka_unit_test(what_a_statement_commits_stays),
        cmocka_unit_test(who_is_asked_under_another_name_refuses),
        cmocka_unit_test(who_takes_part_twice_refuses),
        cmocka_unit_test(who_cannot_listen_takes_nothing_over),
    };
    struct CMUnitTest some[sizeof(all) / sizeof(all[0])];
    size_t n = 0;
    assert_true(argc > 2);
    program = argv[1];
    with_points = argv[2];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (argc < 4 || strstr(all[i].name, argv[3]) != NULL)
            some[n++] = all[i];
    unsetenv("ROTA_JOURNAL");
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(LIMIT_S, "rota-txn hangs");
    return _cmocka_run_group_tests("three-phase commit", some, n, up, down);
}
