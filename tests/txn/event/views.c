/* SPDX-License-Identifier: Apache-2.0 */
/* Others commit while a claim reads the table: the rows it takes, and those it says come before, must fit together.
 *
 * A claim locks the latest rows, but its subquery goes by a view that MariaDB makes at the first row. So a claim is
 * held up at a row in the middle (`gate`): the table of troubles is a view for a while, which waits for a lock of
 * ours. */
#include "office.h"

#include "lib/servers.h"

#include <pthread.h>
#include <string.h>

struct gate { /* SQL of a database */
    const char *word;
    const char *up[2], *down[2]; /* the view, and the table again */
    const char *close, *open;
    const char *waiting; /* how many stand before it */
};

static const struct gate gates[] = {
    {.word = "mysql",
     .up = {"RENAME TABLE rota_event_trouble TO kept_trouble",
            "CREATE VIEW rota_event_trouble AS SELECT source, event, next_at_ms, dead, "
            "reason, attempts + GET_LOCK('gate', 60) - 1 AS attempts FROM kept_trouble"},
     .down = {"DROP VIEW rota_event_trouble", "RENAME TABLE kept_trouble TO rota_event_trouble"},
     .close = "SELECT GET_LOCK('gate', 0)",
     .open = "SELECT RELEASE_LOCK('gate')",
     .waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'"},
    {.word = "postgres",
     .up = {"ALTER TABLE rota_event_trouble RENAME TO kept_trouble",
            "CREATE VIEW rota_event_trouble AS SELECT source, event, next_at_ms, dead, "
            "reason, attempts + length(pg_advisory_lock(7)::text) AS attempts FROM kept_trouble"},
     .down = {"DROP VIEW rota_event_trouble", "ALTER TABLE kept_trouble RENAME TO "
                                              "rota_event_trouble"},
     .close = "SELECT pg_advisory_lock(7)",
     .open = "SELECT pg_advisory_unlock(7)",
     .waiting = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"},
};

static const struct gate *gate_here(void)
{
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++)
        if (strcmp(gates[i].word, OFFICE_WORD) == 0)
            return &gates[i];
    return NULL; /* SQLite: one at a time, and nobody commits meanwhile */
}

static bool somebody_waits(void *arg)
{
    (void)arg;
    return office_number("%s", gate_here()->waiting) > 0;
}

struct claimer {
    struct rt_store *s;
    struct claim c;
    int err;
};

static void *turn(void *arg)
{
    struct claimer *c = arg;

    c->err = rt_store_turn(c->s, NULL, 0, 10, &c->c.rows, &c->c.count);
    return NULL;
}

static void put_by(void *writer, const char *payload)
{
    const struct rota_event e = {.topic = "orders", .key = "k", .payload = payload, .size = 3};

    assert_int_equal(HERE->put(writer, &e), 0);
}

/* Rows: first, one, gate, two. WRITER has written one and two, or only locks one, and has not committed. */
static void write_rows(void *writer, bool early)
{
    office_empty();
    office_put("f", "first");              /* where the claim's view is made */
    if (strcmp(OFFICE_WORD, "mysql") == 0) /* or an UPDATE of one keeps all rows that it reads */
        office_sql(writer, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    office_sql(writer, "%s", HERE->begin);
    if (early)
        office_put("k", "one");
    else
        put_by(writer, "one");
    office_put("g", "gate");
    office_admin("INSERT INTO rota_event_trouble (source, event, attempts, next_at_ms, dead, "
                 "reason) VALUES ('rota_event', %lld, 1, 0, 0, 'x')",
                 (long long)office_row("gate"));
    if (early)
        office_put("k", "two");
    else
        put_by(writer, "two");
}

/* Claims by O; row one is put in STATE, and committed, when the claim is past it and has not reached two. Returns
 * whether two came; *HELD: and does not go before one. */
static bool claim_meanwhile(const struct rt_store_options *o, const char *state, bool early,
                            bool *held)
{
    const struct gate *gate = gate_here();
    struct claimer c = {.s = office_store(NULL, o)};
    void *writer = office_conn();
    pthread_t thread;

    write_rows(writer, early);
    office_sql(writer, "UPDATE rota_event SET state = '%s' WHERE %s = 'one'", state, HERE->text);
    office_sql(writer, "%s", gate->close);
    for (int i = 0; i < 2; i++)
        office_admin("%s", gate->up[i]);
    assert_int_equal(pthread_create(&thread, NULL, turn, &c), 0);
    bool waited = rt_await(somebody_waits, NULL, SITE_LIMIT_MS);
    office_sql(writer, "COMMIT");
    office_sql(writer, "%s", gate->open);
    pthread_join(thread, NULL);
    if (c.err != 0)
        fail_msg("%s", rt_store_errmsg(c.s));
    const struct rt_store_row *two = find_row(&c.c, "two");
    bool came = two != NULL, gated = find_row(&c.c, "gate") != NULL;
    *held = !came || two->prev == office_row("one");
    let_go(c.s);
    for (int i = 0; i < 2; i++)
        office_admin("%s", gate->down[i]);
    assert_true(waited && gated);
    rt_store_close(c.s);
    office_close(writer);
    return came;
}

/* PostgreSQL: what was not committed when the claim began does not come. */
static void check(const struct rt_store_options *o, const char *state, bool early)
{
    bool held = false;

    if (gate_here() == NULL)
        return;
    bool came = claim_meanwhile(o, state, early, &held);
    assert_int_equal(came, early || strcmp(OFFICE_WORD, "mysql") == 0);
    assert_true(held);
}

static void what_is_committed_meanwhile_is_before(void **state)
{
    const struct rt_store_options patient = {.call_ms = SITE_LIMIT_MS};

    (void)state;
    check(&patient, "new", false);
}

static void with_strict_order_too(void **state)
{
    const struct rt_store_options strict = {.strict_order = true, .call_ms = SITE_LIMIT_MS};

    (void)state;
    check(&strict, "new", false);
    check(&strict, "published", false); /* by another relay */
    check(&strict, "published", true);
}

static void who_dies_meanwhile_blocks(void **state)
{
    const struct rt_store_options block = {.dead_blocks = true, .call_ms = SITE_LIMIT_MS};
    const struct rt_store_options both = {
        .dead_blocks = true, .strict_order = true, .call_ms = SITE_LIMIT_MS};

    (void)state;
    check(&block, "dead", true);
    check(&both, "dead", true);
    check(&both, "dead", false);
}

const struct CMUnitTest cases_views[] = {
    cmocka_unit_test(what_is_committed_meanwhile_is_before),
    cmocka_unit_test(with_strict_order_too),
    cmocka_unit_test(who_dies_meanwhile_blocks),
};
const size_t cases_views_count = sizeof(cases_views) / sizeof(cases_views[0]);
