/* SPDX-License-Identifier: Apache-2.0 */
/* What others do to databases. FILE: makes one that is somebody else's. FILE seize: begins a
 * transaction in it, prints a line, and ends it when stdin ends. */
#include <sqlite3.h>
#include <stdio.h>

static int seize(sqlite3 *db)
{
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    printf("seized\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK;
}

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    int failed = 1;

    if (argc == 3 && sqlite3_open(argv[1], &db) == SQLITE_OK)
        failed = seize(db);
    else if (argc == 2 && sqlite3_open(argv[1], &db) == SQLITE_OK)
        failed = sqlite3_exec(db,
                              "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);"
                              "INSERT INTO customers (name) VALUES ('Ada'), ('Grace');",
                              NULL, NULL, NULL) != SQLITE_OK;
    if (failed)
        fprintf(stderr, "foreign_db: %s\n", db != NULL ? sqlite3_errmsg(db) : "usage");
    sqlite3_close(db);
    return failed;
}
