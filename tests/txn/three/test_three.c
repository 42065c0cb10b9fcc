/* SPDX-License-Identifier: Apache-2.0 */
/* Three-phase commit with real parts: participants at a MariaDB and a PostgreSQL, a coordinator and a file journal, each a
 * process of rota-txn.
 *
 *   test_three ROTA-TXN ROTA-TXN-POINTS [WORD]      the second with crash points; with WORD only cases whose name has it
 *
 * The textbook's schedule: all have promised; one is PRECOMMITTED, the other is still at its work; then the coordinator and
 * that other one are killed. What becomes of the first is on_timeout's to say.
 *
 * What docs/transactions/three-phase.md says, and who asserts it (S: test_three_stories, M: sim --three and --three-commit
 * with the invariant, no letter: a case here):
 *   an answer is how it stands, durably         S as_it_should_be, a_lost_write_is_written_again; M H4; both_commit
 *   COMMIT stands after all are ready           S three_phases; M H2
 *   a promise aborts when its time is over      S a_promise_ends_by_itself; a_promise_costs_no_locks
 *   ... unless the coordinator is undecided     S a_promise_is_kept_while_the_coordinator_is_undecided
 *   who is ready follows whoever knows          S peers_know, recovery_is_seen; block_one_outcome_*, recovery_commits_*
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
 *   one token for all, beyond loopback a must   who_takes_part_has_the_token
 *   --serve answers for the dead                a_server_aborts_what_is_undecided; S adopted; a_server_asks_whether_*
 *   two-phase commit with a journal in etcd     tests/txn/bank, scenes.c: the coordinator and who heard COMMIT die */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "lib/servers.h"
#include "txn/branch/site.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 60    /* of one condition */
#define STANCE_WAIT 1 /* as rota_promise keeps them: txn/three/three.h */
#define STANCE_PRECOMMITTED 2
#define STANCE_COMMITTED 3
#define STANCE_ABORTED 4
#define HOW_TOLD 1
#define HOW_TIMEOUT 3
#define HOW_ELSEWHERE 6

static const char *program, *with_points, *token; /* token: the file of all who take part */
static char journal[400], resources[400];
static long long last_row = 1000;

/* ---- Processes of rota-txn ---------------------------------------------------------- */

struct party {
    const struct site *site; /* NULL: a coordinator */
    const char *name;
    char listen[40], url[60], log[400];
    int anchor;
    uint16_t port;
    pid_t pid;
    const char *point; /* where it dies */
    const char *words[28];
};

static struct party first, second, chair;

static int exec_party(int index, void *arg)
{
    const struct party *p = arg;
    (void)index;
    int fd = open(p->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    if (p->point != NULL)
        setenv("ROTA_POINT", p->point, 1);
    execv(p->words[0], (char *const *)(const void *)p->words);
    return 125;
}

static char log_text[65536]; /* as it was read last */

static bool log_has(const struct party *p, const char *text)
{
    FILE *file = fopen(p->log, "re");
    size_t n = file != NULL ? fread(log_text, 1, sizeof(log_text) - 1, file) : 0;
    log_text[n] = '\0';
    if (file != NULL)
        fclose(file);
    return strstr(log_text, text) != NULL;
}

static void wait_for_log(const struct party *p, const char *text)
{
    rt_watchdog(LIMIT_S, text);
    while (!log_has(p, text))
        poll(NULL, 0, 10);
}

static void start(struct party *p)
{
    unlink(p->log);
    p->pid = rt_proc_start(exec_party, 0, p);
    wait_for_log(p, "port ");
}

static void take_address(struct party *p, const char *name)
{
    p->port = rt_port_reserve(&p->anchor);
    p->name = name;
    snprintf(p->listen, sizeof(p->listen), "127.0.0.1:%u", p->port);
    snprintf(p->url, sizeof(p->url), "%s=http://127.0.0.1:%u", name, p->port);
    snprintf(p->log, sizeof(p->log), "%s/%s.log", rt_tmpdir(), name);
}

static void start_participant(struct party *p)
{
    static char *urls[2];
    int i = p == &second;
    free(urls[i]);
    urls[i] = p->site->url(0);
    const char *words[] = {program, "participant", "--listen", p->listen,
                           urls[i], NULL,          NULL,       NULL};
    if (token != NULL) {
        words[5] = "--token-file";
        words[6] = token;
    }
    memcpy(p->words, words, sizeof(words));
    start(p);
}

/* A coordinator of a transaction that inserts ROW at both. */
static void start_coordinator(const char *on_timeout, long long row, const char *t1, const char *t2)
{
    static char sql[2][100];
    snprintf(sql[0], sizeof(sql[0]), "%s=INSERT INTO work VALUES (%lld)", first.name, row);
    snprintf(sql[1], sizeof(sql[1]), "%s=INSERT INTO work VALUES (%lld)", second.name, row);
    const char *words[] = {chair.point != NULL ? with_points : program,
                           "--journal",
                           journal,
                           "--resources",
                           resources,
                           "three",
                           "--listen",
                           chair.listen,
                           "--part",
                           first.url,
                           "--part",
                           second.url,
                           "--sql",
                           sql[0],
                           "--sql",
                           sql[1],
                           "--on-timeout",
                           on_timeout,
                           "--promise",
                           t1,
                           "--patience",
                           "60s",
                           "--ready",
                           t2,
                           token != NULL ? "--token-file" : NULL,
                           token,
                           NULL};
    memcpy(chair.words, words, sizeof(words));
    start(&chair);
}

/* Somebody who answers the participants, at the same address. */
static void start_server(void)
{
    chair.point = NULL;
    const char *words[] = {program, "--journal", journal,      "--resources", resources,
                           "three", "--listen",  chair.listen, "--serve",     NULL};
    memcpy(chair.words, words, sizeof(words));
    start(&chair);
}

static void end(struct party *p)
{
    kill(p->pid, SIGTERM);
    assert_int_equal(rt_proc_wait(p->pid), 0);
}

static struct party tool_party = {.name = "tool"};

/* Its words after the journal and the resources; it ends with CODE, and says TEXT. */
static void tool_says(int code, const char *text, const char *one, const char *two,
                      const char *three, const char *four)
{
    struct party *t = &tool_party;
    snprintf(t->log, sizeof(t->log), "%s/tool.log", rt_tmpdir());
    unlink(t->log);
    const char *words[] = {program, "--journal", journal, "--resources", resources,
                           one,     two,         three,   four,          NULL};
    memcpy(t->words, words, sizeof(words));
    int ended = rt_proc_wait(rt_proc_start(exec_party, 0, t));
    bool says = log_has(t, text);
    if (ended != code || !says)
        fail_msg("%s %s: ended with %d, not with %d and \"%s\": %s", one, two, ended, code, text,
                 log_text);
}

static void tool(const char *one, const char *two)
{
    tool_says(0, "", one, two, NULL, NULL);
}

static void id_of_chair(char id[33])
{
    char line[200];
    FILE *log = fopen(chair.log, "re");
    assert_non_null(log);
    id[0] = '\0';
    while (fgets(line, sizeof(line), log) != NULL)
        if (strstr(line, " begun") != NULL)
            snprintf(id, 33, "%.32s", line);
    fclose(log);
    assert_int_equal(strlen(id), 32);
}

/* ---- What the databases say ----------------------------------------------------------- */

static long long promise(const struct party *p, const char *what)
{
    char sql[200];
    snprintf(
        sql, sizeof(sql),
        "SELECT COALESCE(MAX(%s), -1) FROM rota_promise WHERE until_ms = (SELECT MAX(until_ms) "
        "FROM rota_promise WHERE stance > 0) AND stance > 0",
        what);
    return p->site->number(sql);
}

static void wait_for(const struct party *p, const char *what, long long value)
{
    char why[100];
    snprintf(why, sizeof(why), "%s at %s is not %lld", what, p->name, value);
    rt_watchdog(LIMIT_S, why);
    while (promise(p, what) != value)
        poll(NULL, 0, 10);
}

static void forget_promises(void)
{
    first.site->admin("DELETE FROM rota_promise WHERE stance > 0");
    second.site->admin("DELETE FROM rota_promise WHERE stance > 0");
}

/* With WORDS of curl's. */
static void answers(const struct party *p, const char *words, const char *line)
{
    char command[200], text[2048] = "";
    snprintf(command, sizeof(command), "curl -s %s http://127.0.0.1:%u/metrics", words, p->port);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t n = fread(text, 1, sizeof(text) - 1, pipe);
    pclose(pipe);
    text[n] = '\0';
    if (strstr(text, line) == NULL)
        fail_msg("no %s in %s", line, text);
}

static void metric_is(const struct party *p, const char *line)
{
    answers(p, "", line);
}

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

/* One is ready, the other at its work, which waits for a row; then coordinator and the other die. */
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
    wait_for_log(&first, "committed of itself");
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

/* One has committed of itself, and nothing of it is listed at any database; then ABORT is decided by who knows none of them.
 * Recovery, anywhere, finds the marker, calls a person and closes nothing; nobody who comes later does so in silence. */
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
        tool_says(1, "decided ABORT, and the participant has committed it", "recover", "--once",
                  NULL, NULL);
        assert_true(log_has(&tool_party, "1 left, of them 1 need a person"));
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

/* All were ready, nothing is decided, and all have committed of themselves: whoever answers for the dead coordinator asks
 * them to be ready once more, and so decides COMMIT. Nothing is mixed. */
static void a_server_asks_whether_all_are_ready(void **state)
{
    char id[33];
    long long row = ++last_row;
    (void)state;
    die_at("decide-asked", "commit", row);
    id_of_chair(id);
    tool_says(75, "open", "outcome", id, NULL, NULL);
    both_have("stance", STANCE_COMMITTED); /* of itself, or after its peer */
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

/* `block`, and the peer stays dead: whoever answers for the coordinator decides ABORT, where nothing stands. */
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

/* A promise is a row, and nothing else: others work meanwhile. And it ends by itself, whoever is dead. */
static void a_promise_costs_no_locks(void **state)
{
    char sql[60];
    long long row = ++last_row;
    (void)state;
    set_table(&site_postgres, &site_mysql);
    rt_proc_kill(second.pid); /* so nobody is asked to be ready */
    start_coordinator("block", row, "3s", "60s");
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
    start_coordinator("block", ++last_row, "2s", "60s");
    assert_int_equal(rt_proc_wait(first.pid), 1);
    assert_true(log_has(&first, "another participant has taken over this database"));
    rt_proc_kill(chair.pid);
    end(&heir);
    free(url);
    close(heir.anchor);
    start_participant(&first);
    clear_table();
}

/* One token for all who take part: who does not send it is not heard; and beyond this machine it is needed. */
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
        cmocka_unit_test(undecided_is_not_aborted),
        cmocka_unit_test(recovery_commits_what_stands),
        cmocka_unit_test(a_server_asks_whether_all_are_ready),
        cmocka_unit_test(a_server_aborts_what_is_undecided),
        cmocka_unit_test(a_promise_costs_no_locks),
        cmocka_unit_test(a_second_participant_takes_over),
        cmocka_unit_test(who_takes_part_has_the_token),
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
