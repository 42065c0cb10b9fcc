/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of docs/transactions/outbox.md, as they stand there. */
#include "office.h"

#include "txn/event/local.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char page[65536];

static void read_page(void)
{
    FILE *file = fopen(OUTBOX_PAGE, "re");

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
        if (strstr(mark, OFFICE_WORD) == NULL || strstr(mark, what) == NULL)
            continue;
        const char *from = strstr(at, "```sql\n");
        const char *to = from != NULL ? strstr(from + 7, "```") : NULL;
        assert_non_null(to);
        snprintf(out, size, "%.*s", (int)(to - from - 7), from + 7);
        return;
    }
    fail_msg("the page has no statement '%s' for " OFFICE_WORD, what);
}

/* Without blanks: two texts that say the same become equal. */
static void squeeze(const char *text, char *out, size_t *n)
{
    for (; *text != '\0'; text++)
        if (!isspace((unsigned char)*text))
            out[(*n)++] = *text;
    out[*n] = '\0';
}

static void the_page_has_the_tables_as_they_are_made(void **state)
{
    static char sql[16384], made[16384], written[16384];
    enum rt_dialect dialect = OFFICE_WORD[0] == 'm'   ? RT_STMT_MYSQL
                              : OFFICE_WORD[0] == 'p' ? RT_STMT_POSTGRES
                                                      : RT_STMT_SQLITE;
    size_t n = 0;

    (void)state;
    read_page();
    for (const char *const *ddl = rt_event_ddl(dialect, true); *ddl != NULL; ddl++) {
        squeeze(*ddl, made, &n);
        squeeze(";", made, &n);
    }
    n = 0;
    block(" table ", sql, sizeof(sql));
    squeeze(sql, written, &n);
    assert_string_equal(written, made);
}

/* Puts values where names stand. */
static void fill(const char *sql, const char *event_id, char *out, size_t size)
{
    static const char *const names[] = {":consumer", ":event_id"};
    const char *values[] = {"mail", event_id};
    size_t n = 0;

    while (*sql != '\0' && n < size - 100) {
        int hit = -1;
        for (int i = 0; i < 2; i++)
            hit = strncmp(sql, names[i], strlen(names[i])) == 0 ? i : hit;
        n += (size_t)snprintf(out + n, size - n, hit >= 0 ? "'%s'" : "%.1s",
                              hit >= 0 ? values[hit] : sql);
        sql += hit >= 0 ? strlen(names[hit]) : 1;
    }
    out[n > 0 && out[n - 1] == '\n' ? n - 1 : n] = '\0';
}

static void an_event_goes_its_way_by_the_page(void **state)
{
    char sql[1000], filled[1200], id[RT_EVENT_ID];
    void *conn = office_conn();

    (void)state;
    read_page();
    office_empty();
    block(" write ", sql, sizeof(sql));
    office_sql(conn, "%s", HERE->begin);
    office_sql(conn, "%s", sql);
    office_sql(conn, "COMMIT");
    struct rt_store *s = office_store(NULL, NULL);
    struct claim c = claim(s, 10);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.rows[0].key, "order-17");
    assert_memory_equal(c.rows[0].payload, "{\"total\": 12}", c.rows[0].size);
    snprintf(id, sizeof(id), "%s", c.rows[0].event_id);
    mark_all(s, &c, RT_MARK_PUBLISHED, NULL);
    block(" take ", sql, sizeof(sql));
    fill(sql, id, filled, sizeof(filled));
    for (int i = 0; i < 2; i++) { /* the second time changes nothing, and is no error */
        office_sql(conn, "%s", HERE->begin);
        office_sql(conn, "%s", filled);
        office_sql(conn, "COMMIT");
        assert_int_equal(office_number("SELECT COUNT(*) FROM rota_inbox"), 1);
    }
    office_sql(conn, "%s", HERE->begin); /* the library knows what the page took */
    assert_int_equal(HERE->take(conn, "mail", id), ROTA_BUSY);
    office_sql(conn, "ROLLBACK");
    block(" processed ", sql, sizeof(sql));
    fill(sql, id, filled, sizeof(filled));
    office_sql(conn, "%s", filled);
    assert_int_equal(office_count("processed"), 1);
    rt_store_close(s);
    office_close(conn);
}

const struct CMUnitTest cases_page[] = {
    cmocka_unit_test(the_page_has_the_tables_as_they_are_made),
    cmocka_unit_test(an_event_goes_its_way_by_the_page),
};
const size_t cases_page_count = sizeof(cases_page) / sizeof(cases_page[0]);
