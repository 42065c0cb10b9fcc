/* SPDX-License-Identifier: Apache-2.0 */
/* No lock at all: a row has a version, and an update counts only if nobody has changed it since we read it. Good where
 * conflicts are rare; where they are frequent, most work is thrown away, and a lock is better. */
#include <libpq-fe.h>
#include <rota_guard.h>

struct edit {
    PGconn *db;
    const char *word;
    int disturb; /* for the demo: how often somebody else comes in between */
    int tries;
};

static int run(PGconn *db, const char *sql)
{
    PGresult *result = PQexec(db, sql);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : ROTA_PROTOCOL;
}

/* Reads, works, and writes if the version is still the one it read; else BUSY: try again. */
static int append_word(void *arg)
{
    struct edit *edit = arg;
    const char *values[2] = {edit->word, NULL};
    char version[24];

    edit->tries++;
    PGresult *seen = PQexec(edit->db, "SELECT version FROM page WHERE id = 1");
    if (PQresultStatus(seen) != PGRES_TUPLES_OK || PQntuples(seen) != 1) {
        PQclear(seen);
        return ROTA_PROTOCOL;
    }
    snprintf(version, sizeof(version), "%s", PQgetvalue(seen, 0, 0));
    PQclear(seen);
    if (edit->disturb-- > 0)
        run(edit->db, "UPDATE page SET text = text || ' they', version = version + 1 WHERE id = 1");
    values[1] = version;
    PGresult *done = PQexecParams(edit->db,
                                  "UPDATE page SET text = text || ' ' || $1, version = version + 1 "
                                  "WHERE id = 1 AND version = $2",
                                  2, NULL, values, NULL, NULL, 0);
    int err = PQresultStatus(done) != PGRES_COMMAND_OK ? ROTA_PROTOCOL
              : strcmp(PQcmdTuples(done), "1") == 0    ? 0
                                                       : ROTA_BUSY;
    PQclear(done);
    return err;
}

int main(void)
{
    struct edit edit = {.db = PQconnectdb(""), .word = "we", .disturb = 2};

    int err = run(edit.db, "SET client_min_messages = warning; CREATE TABLE IF NOT EXISTS page "
                           "(id int PRIMARY KEY, text text, version bigint NOT NULL DEFAULT 0); "
                           "INSERT INTO page VALUES (1, '', 0) ON CONFLICT DO NOTHING");
    if (err == 0)
        err = rota_retry(10, append_word, &edit); /* ten tries at most, random pauses between */
    printf("%s after %d tries\n", rota_strerror(err), edit.tries);
    PQfinish(edit.db);
    return err != 0 || edit.tries != 3;
}
