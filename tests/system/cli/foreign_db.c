/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an SQLite database that is somebody else's: FILE. */
#include <sqlite3.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    int failed = 1;

    if (argc == 2 && sqlite3_open(argv[1], &db) == SQLITE_OK)
        failed = sqlite3_exec(db,
                              "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);"
                              "INSERT INTO customers (name) VALUES ('Ada'), ('Grace');",
                              NULL, NULL, NULL) != SQLITE_OK;
    if (failed)
        fprintf(stderr, "foreign_db: %s\n", db != NULL ? sqlite3_errmsg(db) : "usage");
    sqlite3_close(db);
    return failed;
}
