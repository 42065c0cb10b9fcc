/* SPDX-License-Identifier: Apache-2.0 */
/* What is left behind is shown as it is, and resolved without ever contradicting a decision. */
#include "cases.h"

#include <poll.h>
#include <pthread.h>

/* ---- Somebody who waits for a row of a prepared branch ------------------------- */

struct waiter {
    const struct site *site;
    void *conn;
    pthread_t thread;
    char sql[80];
};

static void *wait_for_row(void *arg)
{
    struct waiter *w = arg;

    (void)w->site->sql(w->conn, w->sql); /* the row is there after all, or it is not */
    return NULL;
}

static void waiter_start(struct waiter *w, const struct site *site, const struct left *l)
{
    *w = (struct waiter){.site = site, .conn = site->connect(0)};
    if (site == my) /* longer than any of this takes */
        assert_true(site->sql(w->conn, "SET innodb_lock_wait_timeout = 300"));
    snprintf(w->sql, sizeof(w->sql), "INSERT INTO work VALUES (%lld)", l->row);
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_row, w), 0);
}

static void waiter_end(struct waiter *w)
{
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    w->site->close(w->conn);
}

/* Until indoubt shows COUNT that wait; InnoDB shows news a little late. */
static json_t *see_waits(size_t count)
{
    for (int tries = 0; tries < 100; tries++) {
        json_t *all = run_json(1, "indoubt", NULL);
        if (json_array_size(json_object_get(all, "waits")) == count)
            return all;
        json_decref(all);
        poll(NULL, 0, 150);
    }
    fail_msg("nobody waits: %s", run("--json", "indoubt", NULL)->out);
    return NULL;
}

/* ---- Decided --------------------------------------------------------------------- */

static void committed_and_not_finished(void **state)
{
    struct left l = leave_decided(true);
    struct waiter at_my, at_pg;
    char handle[64];

    (void)state;
    waiter_start(&at_my, my, &l);
    waiter_start(&at_pg, pg, &l);
    json_t *all = see_waits(2), *shop = entry_of(all, "prepared", "resource", "shop"),
           *ledger = entry_of(all, "prepared", "resource", "ledger");
    has_keys(all, "prepared waits resources");
    has_keys(shop, "resource name about journal id branch prepared_ms left_ms finish");
    has_keys(entry_of(all, "resources", "resource", "shop"), "resource url asked why");
    assert_string_equal(text_of(shop, "about"), "commit");
    assert_string_equal(text_of(shop, "id"), l.text);
    assert_memory_equal(text_of(shop, "finish"), "XA COMMIT ", 10);
    assert_memory_equal(text_of(ledger, "finish"), "COMMIT PREPARED ", 16);
    assert_true(number_of(ledger, "prepared_ms") >= 0);
    json_t *wait = entry_of(all, "waits", "resource", "shop");
    has_keys(wait, "resource who connection on since_ms behind");
    assert_string_equal(text_of(wait, "behind"), text_of(shop, "name"));
    assert_memory_equal(text_of(wait, "who"), "rota@", 5);
    assert_non_null(strstr(text_of(wait, "on"), "work"));
    wait = entry_of(all, "waits", "resource", "ledger");
    assert_string_equal(text_of(wait, "behind"), text_of(ledger, "name"));
    json_decref(all);

    all = run_json(0, "ls", NULL);
    json_t *listed = entry_of(all, "transactions", "id", l.text);
    has_keys(listed, "id state age_ms left_ms decided_ms label branches served attention");
    assert_string_equal(text_of(listed, "state"), "committing");
    assert_string_equal(text_of(listed, "label"), "of the test");
    assert_int_equal(number_of(listed, "branches"), 2);
    json_decref(all);
    all = run_json(0, "show", l.text, NULL);
    has_keys(all, "id state age_ms left_ms decided_ms label branches served calls notes");
    shop = entry_of(all, "branches", "resource", "shop");
    has_keys(shop, "branch resource has why prepared_ms finish blocks");
    has_keys(json_array_get(json_object_get(shop, "blocks"), 0), "who connection on since_ms");
    json_decref(all);
    const struct said *said = run("indoubt", NULL);
    assert_int_equal(said->code, 1);
    assert_non_null(strstr(said->out, "blocks rota@"));
    said = run("show", l.text, NULL);
    assert_non_null(strstr(said->out, "XA COMMIT"));

    refuses(75, "it is committed, and that stands", "resolve", "--abort", "--yes", l.text, NULL);
    refuses(75, "is prepared at shop", "resolve", "--done", "--yes", l.text, NULL);
    refuses(64, "--yes", "resolve", "--commit", l.text, NULL);
    refuses(64, "so --commit", "resolve", "--yes", l.text, NULL);
    refuses(64, "no branch 9", "resolve", "--commit", "--branch", "9", "--yes", l.text, NULL);
    assert_int_equal(prepared(), 2);
    snprintf(handle, sizeof(handle), "%s-%012llx", l.text, (unsigned long long)l.deadline_ms);
    all = run_json(0, "resolve", "--commit", "--yes", handle, NULL);
    has_keys(all, "id decision finished branches");
    has_keys(entry_of(all, "branches", "resource", "shop"), "branch resource has why");
    assert_string_equal(text_of(all, "decision"), "committed");
    assert_string_equal(text_of(entry_of(all, "branches", "resource", "shop"), "has"), "committed");
    json_decref(all);
    waiter_end(&at_my);
    waiter_end(&at_pg);
    assert_int_equal(prepared(), 0);
    is_at_both(&l, true);

    all = run_json(0, "show", l.text, NULL); /* it tells who did it */
    assert_string_equal(text_of(all, "state"), "committed");
    const json_t *note = json_array_get(json_object_get(all, "notes"), 0);
    has_keys(note, "at text");
    assert_non_null(strstr(text_of(note, "text"), "resolve --commit"));
    assert_non_null(strchr(text_of(note, "text"), '@'));
    json_decref(all);
    all = run_json(0, "outcome", l.text, NULL);
    assert_string_equal(text_of(all, "stand"), "committed");
    has_keys(all, "id stand decision branches unfinished deadline decided why");
    assert_int_equal(number_of(all, "unfinished"), 0);
    json_decref(all);
    json_decref(run_json(0, "indoubt", NULL)); /* the note is no resource */
}

static void aborted_and_not_finished(void **state)
{
    struct left l = leave_decided(false);

    (void)state;
    json_t *all = run_json(1, "indoubt", NULL);
    assert_memory_equal(text_of(entry_of(all, "prepared", "resource", "shop"), "finish"),
                        "XA ROLLBACK ", 12);
    json_decref(all);
    refuses(75, "it is aborted, and that stands", "resolve", "--commit", "--yes", l.text, NULL);
    /* One branch by hand, then the rest. */
    all = run_json(1, "resolve", "--abort", "--branch", "2", "--yes", l.text, NULL);
    assert_true(json_is_false(json_object_get(all, "finished")));
    json_decref(all);
    assert_int_equal(my->prepared(), 1);
    assert_int_equal(pg->prepared(), 0);
    json_decref(run_json(0, "resolve", "--abort", "--yes", l.text, NULL));
    assert_int_equal(prepared(), 0);
    is_at_both(&l, false);
    json_decref(run_json(0, "ls", "--attention", NULL));
}

/* ---- Undecided --------------------------------------------------------------------- */

static void undecided(void **state)
{
    struct left l = leave_prepared(-30000);

    (void)state;
    json_t *all = run_json(1, "indoubt", NULL);
    const json_t *shop = entry_of(all, "prepared", "resource", "shop");
    assert_string_equal(text_of(shop, "about"), "undecided");
    assert_true(json_is_null(json_object_get(shop, "finish")));
    json_decref(all);
    refuses(75, "only the process that began it may commit", "resolve", "--commit", "--yes", l.text,
            NULL);
    refuses(75, "nothing is decided", "resolve", "--done", "--yes", l.text, NULL);
    assert_int_equal(prepared(), 2);
    all = run_json(0, "settle", l.text, NULL);
    assert_string_equal(text_of(all, "stand"), "aborted");
    json_decref(all);
    all = run_json(0, "recover", "--once", "--for", "4m", NULL);
    has_keys(all, "left attention open unasked served");
    assert_int_equal(number_of(all, "left"), 0);
    json_decref(all);
    assert_int_equal(prepared(), 0);
    is_at_both(&l, false);
}

static void young(void **state)
{
    struct left l = leave_prepared(60000);

    (void)state;
    json_t *all = run_json(0, "indoubt", NULL);
    assert_string_equal(text_of(entry_of(all, "prepared", "resource", "ledger"), "about"), "young");
    json_decref(all);
    json_decref(
        run_json(0, "recover", "--once", "--for", "4m", NULL)); /* its process may be at work */
    assert_int_equal(prepared(), 2);
    all = run_json(0, "resolve", "--abort", "--yes", l.text, NULL);
    assert_int_equal(json_array_size(json_object_get(all, "branches")), 2);
    json_decref(all);
    assert_int_equal(prepared(), 0);
    all = run_json(0, "outcome", l.text, NULL);
    assert_string_equal(text_of(all, "stand"), "aborted");
    json_decref(all);
}

/* A row without a decision, long after its deadline: nobody recovers here. */
static void attention(void **state)
{
    struct left l = left_new(desk_now_ms() - 3600000, 60000);
    struct rt_journal_op op = {.kind = RT_JOURNAL_REGISTER,
                               .reg = {.id = l.id, .deadline_ms = l.deadline_ms, .label = "alone"}};

    (void)state;
    assert_int_equal(rt_txns_ask(m, &op), 0);
    json_t *all = run_json(1, "ls", "--attention", NULL);
    const json_t *row = entry_of(all, "transactions", "id", l.text);
    assert_string_equal(text_of(row, "state"), "overdue");
    assert_true(json_is_true(json_object_get(row, "attention")));
    json_decref(all);
    const struct said *said = run("ls", NULL);
    assert_int_equal(said->code, 0);
    assert_non_null(strstr(said->out, "overdue"));
    json_decref(run_json(0, "recover", "--once", "--for", "4m", NULL));
    all = run_json(0, "outcome", l.text, NULL);
    assert_string_equal(text_of(all, "stand"), "aborted");
    json_decref(all);
    json_decref(run_json(0, "ls", "--attention", NULL));
}

/* The command asks a person, who must say yes. */
static void asks_a_person(void **state)
{
    struct left l = leave_decided(false);
    char words[100];

    (void)state;
    snprintf(words, sizeof(words), "resolve --abort %s", l.text);
    assert_int_equal(
        run_at_terminal("expect roll back branch 1 at shop\nexpect Type yes: \nsend y\\n\n"
                        "expect nothing was done\nend\n",
                        words),
        75);
    assert_int_equal(prepared(), 2);
    json_t *all = run_json(0, "show", l.text, NULL);
    assert_int_equal(json_array_size(json_object_get(all, "notes")), 0);
    json_decref(all);
    assert_int_equal(
        run_at_terminal("expect Type yes: \nsend yes\\n\nexpect aborted\nend\n", words), 0);
    assert_int_equal(prepared(), 0);
}

/* What dead processes left: the decided is finished, the undecided aborted. */
static void recovered(void **state)
{
    struct left yes = leave_decided(true), no = leave_decided(false), none = leave_prepared(-10000);

    (void)state;
    assert_int_equal(prepared(), 6);
    json_decref(run_json(0, "recover", "--once", "--for", "4m", NULL));
    assert_int_equal(prepared(), 0);
    is_at_both(&yes, true);
    is_at_both(&no, false);
    is_at_both(&none, false);
    json_decref(run_json(0, "indoubt", NULL));
}

/* ---- Not ours ------------------------------------------------------------------------ */

static void foreign_ones_are_shown_and_left(void **state)
{
    void *a = my->connect(0), *b = pg->connect(0), *c = pg->connect(0);

    (void)state;
    assert_true(my->sql(a, "XA START 'theirs'") && my->sql(a, "INSERT INTO work VALUES (900001)") &&
                my->sql(a, "XA END 'theirs'") && my->sql(a, "XA PREPARE 'theirs'"));
    assert_true(pg->sql(b, "BEGIN") && pg->sql(b, "INSERT INTO work VALUES (900001)") &&
                pg->sql(b, "PREPARE TRANSACTION 'theirs'"));
    /* A branch of another of Rota's journals, long past its deadline. */
    assert_true(
        pg->sql(c, "BEGIN") && pg->sql(c, "INSERT INTO work VALUES (900002)") &&
        pg->sql(
            c,
            "PREPARE TRANSACTION 'rota1-00000001019a8c0d2f3a0123456789ab-00000001-019a8c0d2f3a'"));
    my->close(a);
    pg->close(b);
    pg->close(c);
    json_t *all = run_json(0, "indoubt", NULL);
    const json_t *theirs = entry_of(all, "prepared", "name", "theirs");
    assert_non_null(theirs);
    assert_string_equal(text_of(theirs, "about"), "foreign");
    const json_t *other = entry_of(all, "prepared", "about", "elsewhere");
    assert_string_equal(text_of(other, "journal"), "00000001");
    json_decref(all);
    /* Whoever forgot to name the journal gets a new one, which has heard of no database: the databases are asked. */
    char new[500];
    snprintf(new, sizeof(new), "%s-new", journal);
    all = run_json(0, "--journal", strncmp(journal, "file:", 5) == 0 ? new : journal, "indoubt",
                   NULL);
    assert_non_null(entry_of(all, "prepared", "name", "theirs"));
    assert_non_null(entry_of(all, "prepared", "about", "elsewhere"));
    json_decref(all);
    json_decref(run_json(0, "recover", "--once", "--for", "4m", NULL));
    assert_int_equal(my->prepared(), 1);
    assert_int_equal(pg->prepared(), 2);
    my->admin("XA ROLLBACK 'theirs'");
    pg->admin("ROLLBACK PREPARED 'theirs'");
    pg->admin("ROLLBACK PREPARED 'rota1-00000001019a8c0d2f3a0123456789ab-00000001-019a8c0d2f3a'");
}

/* ---- What cannot be asked ------------------------------------------------------------ */

static void resource_that_nobody_knows(void **state)
{
    struct left l = leave_prepared(60000);

    (void)state;
    decide(&l, true, "cellar");
    json_t *all = run_json(1, "indoubt", NULL);
    const json_t *cellar = entry_of(all, "resources", "resource", "cellar");
    assert_true(json_is_false(json_object_get(cellar, "asked")));
    assert_non_null(strstr(text_of(cellar, "why"), "cellar"));
    json_decref(all);
    all = run_json(1, "resolve", "--commit", "--yes", l.text, NULL);
    assert_string_equal(text_of(entry_of(all, "branches", "resource", "ledger"), "has"),
                        "committed");
    assert_string_equal(text_of(entry_of(all, "branches", "resource", "cellar"), "has"), "unknown");
    json_decref(all);
    is_at_both(&l, true);
    all = run_json(1, "recover", "--once", "--for", "4m", NULL); /* a person is called */
    assert_int_equal(number_of(all, "left"), 1);
    assert_int_equal(number_of(all, "attention"), 1);
    assert_int_equal(number_of(all, "unasked"), 1);
    json_decref(all);
    json_decref(run_json(0, "resolve", "--done", "--yes", l.text, NULL)); /* vouched for */
    all = run_json(0, "ls", NULL);
    assert_null(entry_of(all, "transactions", "id", l.text));
    json_decref(all);
    all = run_json(0, "show", l.text, NULL);
    assert_int_equal(json_array_size(json_object_get(all, "notes")), 2);
    json_decref(all);
}

/* The URL of shop leads to another database than the branch's: nothing is asked there. */
static void another_database_at_its_address(void **state)
{
    struct left l = left_new(desk_now_ms() - 120000, 60000);
    const struct rt_place place = {.identity = 12345, .marks = "`locks`.rota_mark"};
    uint8_t payload[RT_PLACE_BYTES];
    const struct rt_journal_branch branch = {.number = 1,
                                             .mode = 1,
                                             .resource = "shop",
                                             .payload = payload,
                                             .size = rt_place_write(&place, payload)};
    struct rt_journal_op op = {.kind = RT_JOURNAL_DECIDE,
                               .decide = {.id = l.id,
                                          .decision = RT_JOURNAL_COMMIT,
                                          .deadline_ms = l.deadline_ms,
                                          .branches = &branch,
                                          .count = 1}};

    (void)state;
    assert_int_equal(rt_txns_ask(m, &op), 0);
    json_t *all = run_json(0, "show", l.text, NULL);
    const json_t *shop = entry_of(all, "branches", "resource", "shop");
    assert_string_equal(text_of(shop, "has"), "unknown");
    assert_non_null(strstr(text_of(shop, "why"), "another database answers"));
    json_decref(all);
    json_decref(run_json(1, "resolve", "--commit", "--yes", l.text, NULL));
    all = run_json(1, "recover", "--once", "--for", "4m", NULL);
    assert_int_equal(number_of(all, "attention"), 1);
    json_decref(all);
    json_decref(run_json(0, "resolve", "--done", "--yes", l.text, NULL));
}

static void server_that_is_down(void **state)
{
    struct left l = leave_decided(true);
    struct daemon d;

    (void)state;
    pg->kill();
    json_t *all = run_json(1, "indoubt", NULL);
    assert_string_equal(text_of(entry_of(all, "prepared", "resource", "shop"), "about"), "commit");
    assert_true(
        json_is_false(json_object_get(entry_of(all, "resources", "resource", "ledger"), "asked")));
    json_decref(all);
    daemon_start(&d);
    hears(&d, "READY=1");
    wait_until_prepared(0, -1); /* the other one does not wait for it */
    json_decref(run_json(75, "recover", "--once", "--for", "1s", NULL));
    pg->run();
    wait_until_prepared(0, 0);
    is_at_both(&l, true);
    daemon_stop(&d);
    all = run_json(0, "show", l.text, NULL);
    assert_string_equal(text_of(entry_of(all, "branches", "resource", "shop"), "has"), "committed");
    assert_string_equal(text_of(entry_of(all, "branches", "resource", "ledger"), "has"),
                        "committed");
    json_decref(all);
}

const struct CMUnitTest cases_doubt[] = {
    cmocka_unit_test(committed_and_not_finished),
    cmocka_unit_test(aborted_and_not_finished),
    cmocka_unit_test(undecided),
    cmocka_unit_test(young),
    cmocka_unit_test(attention),
    cmocka_unit_test(asks_a_person),
    cmocka_unit_test(recovered),
    cmocka_unit_test(foreign_ones_are_shown_and_left),
    cmocka_unit_test(resource_that_nobody_knows),
    cmocka_unit_test(another_database_at_its_address),
    cmocka_unit_test(server_that_is_down),
};
const size_t cases_doubt_count = sizeof(cases_doubt) / sizeof(cases_doubt[0]);
