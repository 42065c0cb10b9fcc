/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of docs/transactions/tcc.md, as they stand there: a service in any language does what the library does,
 * on the same rows. */
#include "desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char page[65536];

static void read_page(void)
{
    FILE *file = fopen(TCC_PAGE, "re");

    assert_non_null(file);
    size_t size = fread(page, 1, sizeof(page) - 1, file);
    fclose(file);
    assert_true(size > 0 && size < sizeof(page) - 1);
    page[size] = '\0';
}

/* The block under the mark with this database's word and WHAT. */
static void block(const char *what, char *out, size_t size)
{
    for (const char *at = page; (at = strstr(at, "<!-- sql: ")) != NULL; at++) {
        char mark[200];
        snprintf(mark, sizeof(mark), "%.*s", (int)strcspn(at, "\n"), at);
        if (strstr(mark, DESK_WORD) == NULL || strstr(mark, what) == NULL)
            continue;
        const char *from = strstr(at, "```sql\n");
        const char *to = from != NULL ? strstr(from + 7, "```") : NULL;
        assert_non_null(to);
        snprintf(out, size, "%.*s", (int)(to - from - 7), from + 7);
        return;
    }
    fail_msg("the page has no statement '%s' for " DESK_WORD, what);
}

/* Puts the values of CALL where the headers stand. */
static void fill(const char *sql, const struct rota_call *call, char *out, size_t size)
{
    char values[3][80];
    static const char *const names[] = {":txn", ":branch", ":deadline"};
    size_t n = 0;

    snprintf(values[0], sizeof(values[0]), "'%s'", call->txn);
    snprintf(values[1], sizeof(values[1]), "%u", call->branch);
    snprintf(values[2], sizeof(values[2]), "%lld", (long long)call->deadline_ms);
    while (*sql != '\0' && n < size - 100) {
        int hit = -1;
        for (int i = 0; i < 3; i++)
            hit = strncmp(sql, names[i], strlen(names[i])) == 0 ? i : hit;
        n += (size_t)snprintf(out + n, size - n, hit >= 0 ? "%s" : "%.1s",
                              hit >= 0 ? values[hit] : sql);
        sql += hit >= 0 ? strlen(names[hit]) : 1;
    }
}

/* The page's table: what `was` means. */
static enum rota_fenced by_page(enum rota_op op, long long was)
{
    char row[16], cell[60];
    int column = op == ROTA_OP_TRY ? 2 : op == ROTA_OP_CONFIRM ? 3 : 4;

    snprintf(row, sizeof(row), "\n| %lld |", was);
    const char *at = strstr(strstr(page, "What `was` means:"), row);
    assert_non_null(at);
    for (int i = 0; i < column; i++)
        at = strchr(at + 1, '|');
    snprintf(cell, sizeof(cell), "%.*s", (int)strcspn(at + 1, "|"), at + 1);
    if (strstr(cell, "**work**") != NULL)
        return ROTA_FENCE_DO;
    if (strstr(cell, "COMMIT") != NULL)
        return ROTA_FENCE_EMPTY;
    if (strstr(cell, "ROLLBACK") != NULL)
        return ROTA_FENCE_EARLY;
    return strstr(cell, "200") != NULL ? ROTA_FENCE_DONE : ROTA_FENCE_LATE;
}

static bool agrees(enum rota_fenced said, enum rota_fenced want)
{
    bool refuses = want == ROTA_FENCE_CROSSED || want == ROTA_FENCE_LATE ||
                   want == ROTA_FENCE_EARLY;

    return said == want || (refuses && (said == ROTA_FENCE_LATE || said == ROTA_FENCE_EARLY));
}

static const char *const words[] = {"", " try ", " confirm ", " cancel "};

/* One call, by the page: BEGIN, the statement, `was`, the work, COMMIT. */
static enum rota_fenced serve_by_page(void *conn, const struct rota_call *call)
{
    char sql[2000], filled[3000];

    block(words[call->op], sql, sizeof(sql));
    fill(sql, call, filled, sizeof(filled));
    desk_sql(conn, "%s", HERE->begin);
    desk_sql(conn, "%s", filled);
    desk_sql(conn, "COMMIT"); /* nobody else is here: `was` can be read after it */
    return by_page((enum rota_op)call->op,
                   desk_number("SELECT was FROM rota_fence WHERE txn = '%s' AND branch = %u",
                               call->txn, call->branch));
}

static void play(void *conn, unsigned order, unsigned who)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    struct model model = {0};
    bool early = false; /* committed here, so it stays */

    for (int i = 0; i < 4 && !early; i++, order /= 3, who /= 2) {
        struct rota_call next = call_as(&call, (enum rota_op)(1 + order % 3));
        enum rota_fenced want = model_call(&model, (enum rota_op)next.op);
        if (who % 2 == 0) {
            assert_true(agrees(serve_by_page(conn, &next), want));
            early = want == ROTA_FENCE_EARLY;
        } else {
            assert_int_equal(serve(conn, &next), want);
        }
    }
}

static void the_page_and_the_library_are_one(void **state)
{
    void *conn = desk_open();
    char sql[2000];

    (void)state;
    read_page();
    HERE->site->admin("ALTER TABLE rota_fence RENAME TO made_by_the_library");
    block(" table ", sql, sizeof(sql));
    desk_sql(conn, "%s", sql);
    assert_int_equal(HERE->make(conn), 0); /* takes it for its own */
    for (unsigned order = 0; order < 81; order++)
        for (unsigned who = 0; who < 16; who += 5) /* by turns: the page, the library, mixed */
            play(conn, order, who);
    HERE->site->admin("DROP TABLE rota_fence");
    HERE->site->admin("ALTER TABLE made_by_the_library RENAME TO rota_fence");
    desk_close(conn);
}

/* Where there is no RETURNING: the third try of a branch, in a transaction that looked before the second one came. Its
 * own statement then changes nothing, so a plain SELECT shows the row as it was: as if this try were the first. */
static void was_is_read_as_it_is(void **state)
{
    struct rota_call call = call_new(ROTA_OP_TRY);
    char sql[2000], filled[3000];

    (void)state;
    if (strcmp(DESK_WORD, "mysql") != 0)
        return; /* it has RETURNING, and a row that is written is seen */
    void *conn = desk_open();
    read_page();
    desk_sql(conn, "CREATE TABLE seen (was BIGINT)");
    desk_sql(conn, "%s", HERE->levels[1]); /* REPEATABLE READ */
    assert_int_equal(serve_by_page(conn, &call), ROTA_FENCE_DO);
    desk_sql(conn, "%s", HERE->begin);
    desk_sql(conn, "SELECT COUNT(*) FROM rota_fence");
    void *other = desk_open();
    assert_int_equal(serve_by_page(other, &call), ROTA_FENCE_DONE);
    desk_close(other);
    block(" try ", sql, sizeof(sql));
    fill(sql, &call, filled, sizeof(filled));
    desk_sql(conn, "%s", filled);
    block(" was ", sql, sizeof(sql));
    fill(strstr(sql, " FROM"), &call, filled, sizeof(filled));
    desk_sql(conn, "SELECT was INTO @was%s", filled);
    desk_sql(conn, "INSERT INTO seen VALUES (@was)");
    desk_sql(conn, "COMMIT");
    assert_int_equal(desk_number("SELECT was FROM seen"), 1);
    desk_sql(conn, "DROP TABLE seen");
    desk_close(conn);
}

const struct CMUnitTest cases_page[] = {cmocka_unit_test(the_page_and_the_library_are_one),
                                        cmocka_unit_test(was_is_read_as_it_is)};
const size_t cases_page_count = 2;
