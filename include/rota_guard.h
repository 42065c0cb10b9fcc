/* SPDX-License-Identifier: Apache-2.0 */
/* Guards: a fence is worth what the resource checks. Part of librota; docs/guides/guards.md has the whole story.
 *
 * A guard remembers, where the data is, the highest fence it has seen, and refuses an older one in the same step
 * as the write: ROTA_LOST, and nothing was written. So a holder that slept past its time does no harm.
 *
 * The rule: a tenure's first guarded step comes BEFORE it looks at what it is going to change. A look that the
 * guard does not know of can be followed by the late write of an earlier holder, and be out of date. In SQL
 * that is the order guard, look, write, in one transaction; elsewhere looking is a guarded step of its own.
 *
 * Fences are those of exclusive holds (rota_fence, $ROTA_FENCE): 1 to INT64_MAX, else ROTA_INVALID. Those of shared
 * holds and permits do not fence. Keep to one lock, on one engine, for each resource: fences of two do not compare.
 *
 * rota_errmsg(NULL) says more about this thread's last failing call. What needs a client library is inline and is
 * available if that library's header (libpq-fe.h, mysql.h, hiredis/hiredis.h) was included before this one. */
#ifndef ROTA_GUARD_H
#define ROTA_GUARD_H

#include <rota.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets what rota_errmsg(NULL) says in this thread: the first line of TEXT, or with NULL the sentence for ERR; returns ERR.
 * For the inline functions here, and for guards of your own. */
int rota_guard_say(int err, const char *text);

/* ---- A file -------------------------------------------------------------- */

/* Replaces the file PATH with BYTES in one step, unless a fence later than FENCE was here: LOST, nothing changed. With
 * BYTES NULL it only claims: from then on earlier fences are refused; do that before you read the file. The highest
 * fence is in PATH.fence, beside it, which is never removed. Symbolic links are followed; the new file has the rights of
 * the old one, and its owner if we may give it away. 0: on the disk. UNKNOWN: in place, but the disk did not confirm
 * that it will be after a crash. UNREACHABLE: the file system refuses. Waits for others that are inside, even for one
 * that is stopped there. Local file systems, and network file systems on which flock(2) excludes machines. */
int rota_guard_file(const char *path, uint64_t fence, const void *bytes, size_t size);

/* ---- etcd ---------------------------------------------------------------- */

/* The body of a POST to etcd's /v3/kv/txn that sets KEY to VALUE unless a later fence was here, and notes FENCE in
 * KEY.fence, in one step; with VALUE NULL it claims and reads. Give *OUT back with rota_guard_etcd_free. No I/O. */
int rota_guard_etcd(const char *key, uint64_t fence, const void *value, size_t size, char **out);
void rota_guard_etcd_free(char *request);

/* What ANSWER, the body that came back, means: 0: done; LOST: a later fence was here; AUTH, INVALID: etcd refused;
 * UNKNOWN: it may have been done; PROTOCOL: this is no such answer. For a request that reads, the value goes to
 * VALUE, ROOM bytes, and its size to *SIZE (0 also if there is no such key); both may be NULL. INVALID: more than ROOM. */
int rota_guard_etcd_answer(const char *answer, void *value, size_t room, size_t *size);

/* ---- Optimistic updates -------------------------------------------------- */

/* Calls FN until it returns something other than ROTA_BUSY, at most TRIES times (0: INVALID), and returns that.
 * Between two tries it sleeps for a random time below 1 ms, then 2, 4, ... up to 128 ms. For updates by
 * version (UPDATE ... WHERE version = what I saw; no row: ROTA_BUSY), and for transactions that the server
 * gives up because of others. */
typedef int rota_retry_fn(void *arg);
int rota_retry(uint32_t tries, rota_retry_fn *fn, void *arg);

/* ---- Redis --------------------------------------------------------------- */

/* KEYS: the guard. ARGV: the fence, then a command, which is run if no later fence was here. Numbers are compared as
 * digits: Lua's own are exact only up to 2^53. The fence is noted first: it is ours, whatever becomes of the command. */
#define ROTA_GUARD_REDIS_SCRIPT                                                                         \
    "local seen, mine = redis.call(\"GET\", KEYS[1]) or \"0\", ARGV[1] "                                \
    "if not mine:find(\"^[1-9]%d*$\") then return redis.error_reply(\"ERR no fence was given\") end "   \
    "if not seen:find(\"^%d+$\") then return redis.error_reply(\"ERR the guard key is no fence\") end " \
    "if #seen > #mine or #seen == #mine and seen > mine then "                                          \
    "return redis.error_reply(\"LOST fence \" .. seen .. \" was here already\") end "                   \
    "if seen ~= mine then redis.call(\"SET\", KEYS[1], mine) end "                                      \
    "return redis.pcall(unpack(ARGV, 2))"

#ifdef __HIREDIS_H

static inline int rota_guard_impl_redis_error(const char *text)
{
    static const struct {
        const char *begins;
        int err;
    } known[] = {
        {"LOST ", ROTA_LOST},
        {"NOAUTH", ROTA_AUTH},
        {"NOPERM", ROTA_AUTH},
        {"WRONGPASS", ROTA_AUTH},
        {"READONLY", ROTA_UNREACHABLE},
        {"LOADING", ROTA_UNREACHABLE},
        {"MASTERDOWN", ROTA_UNREACHABLE},
        {"CLUSTERDOWN", ROTA_UNREACHABLE},
        {"MOVED", ROTA_UNREACHABLE},
        {"ASK ", ROTA_UNREACHABLE},
        {"TRYAGAIN", ROTA_UNREACHABLE},
        {"NOREPLICAS", ROTA_UNREACHABLE},
        {"BUSY ", ROTA_UNREACHABLE},
        {"OOM", ROTA_UNREACHABLE},
        {"MISCONF", ROTA_UNREACHABLE},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(text, known[i].begins, strlen(known[i].begins)) == 0)
            return known[i].err;
    /* Inside a script, the error is not NOPERM. */
    return strstr(text, "user executing the script") != NULL ? ROTA_AUTH : ROTA_INVALID;
}

/* What REPLY, which may be NULL, means; it goes to *OUT, or back to hiredis. */
static inline int rota_guard_impl_redis_judge(const redisContext *c, redisReply *reply,
                                              redisReply **out)
{
    int err = 0;

    if (reply == NULL) /* sent, perhaps */
        return rota_guard_say(ROTA_UNKNOWN, c->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        err = rota_guard_say(rota_guard_impl_redis_error(reply->str), reply->str);
    else if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "QUEUED") == 0)
        err = rota_guard_say(ROTA_INVALID, "inside MULTI nobody can be told what became of it");
    else if (out != NULL)
        *out = reply;
    if (err != 0 || out == NULL)
        freeReplyObject(reply);
    return err;
}

/* Runs the command ARGV[0..ARGC) on C unless a later fence was here: LOST, and it was not run. The highest fence is in
 * KEY, a key of its own, without a ttl; in a cluster it must be in the same hash slot as what the command touches:
 * "{account:7}:fence" for "account:7". Reads (GET) are guarded too: earlier fences are refused from then on. LENGTHS may
 * be NULL: strings. *REPLY (may be NULL) is the command's reply, the caller's to free. INVALID: also an error that the
 * command itself ended with. UNKNOWN: no answer, it may have been run. C must be blocking, and not inside MULTI. */
static inline int rota_guard_redis(redisContext *c, const char *key, uint64_t fence, int argc,
                                   const char **argv, const size_t *lengths, redisReply **reply)
{
    const char *head[] = {"EVAL", ROTA_GUARD_REDIS_SCRIPT, "1", key, NULL};
    char number[24];

    if (c == NULL || key == NULL || key[0] == '\0' || argc < 1 || argv == NULL || fence == 0 ||
        fence > INT64_MAX || (c->flags & REDIS_BLOCK) == 0)
        return rota_guard_say(ROTA_INVALID, NULL);
    if (c->err != 0)
        return rota_guard_say(ROTA_UNREACHABLE, c->errstr);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)fence);
    head[4] = number;
    const char **words = (const char **)calloc((size_t)argc + 5, sizeof(*words));
    size_t *sizes = (size_t *)calloc((size_t)argc + 5, sizeof(*sizes));
    int err = ROTA_NOMEM;
    if (words != NULL && sizes != NULL) {
        for (int i = 0; i < argc + 5; i++) {
            words[i] = i < 5 ? head[i] : argv[i - 5];
            sizes[i] = i < 5 || lengths == NULL ? strlen(words[i]) : lengths[i - 5];
        }
        err = rota_guard_impl_redis_judge(
            c, (redisReply *)redisCommandArgv(c, argc + 5, words, sizes), reply);
    }
    free((void *)words);
    free(sizes);
    return err == ROTA_NOMEM ? rota_guard_say(err, NULL) : err;
}

#endif /* hiredis */

/* ---- SQL ----------------------------------------------------------------- */

/* The tables, to be created once, by whoever may; not inside a transaction (MySQL would commit it). */
#define ROTA_GUARD_POSTGRES_DDL                                                        \
    "CREATE TABLE IF NOT EXISTS rota_guard (resource text COLLATE \"C\" PRIMARY KEY, " \
    "fence bigint NOT NULL) WITH (fillfactor = 60)"
#define ROTA_GUARD_MYSQL_DDL                                                       \
    "CREATE TABLE IF NOT EXISTS rota_guard (resource VARBINARY(255) PRIMARY KEY, " \
    "fence BIGINT NOT NULL) ENGINE = InnoDB"
#define ROTA_SQL_LOCK_POSTGRES_DDL                                                    \
    "CREATE TABLE IF NOT EXISTS rota_sql_lock (name text COLLATE \"C\" PRIMARY KEY, " \
    "fence bigint NOT NULL) WITH (fillfactor = 60)"
#define ROTA_SQL_LOCK_MYSQL_DDL                                                   \
    "CREATE TABLE IF NOT EXISTS rota_sql_lock (name VARBINARY(255) PRIMARY KEY, " \
    "fence BIGINT NOT NULL) ENGINE = InnoDB"

#define ROTA_GUARD_NAME_MAX 255 /* bytes of a resource or a lock */

static inline int rota_guard_impl_check(const char *name, uint64_t fence)
{
    if (name == NULL || name[0] == '\0' || strlen(name) > ROTA_GUARD_NAME_MAX)
        return rota_guard_say(ROTA_INVALID, "a name has 1 to 255 bytes");
    if (fence == 0 || fence > INT64_MAX)
        return rota_guard_say(ROTA_INVALID, "a fence is 1 to 2^63 - 1");
    return 0;
}

#define ROTA_GUARD_IMPL_NO_TXN "this belongs into a transaction: BEGIN comes first"
#define ROTA_GUARD_IMPL_LATE "a later fence was here already: roll back"

/* What both databases have:
 *
 * rota_guard_postgres, rota_guard_mysql: the guard in the caller's own transaction on DB (none: INVALID). LOST: a later
 * fence was here for RESOURCE; roll back. 0: FENCE is noted, and the row stays locked until COMMIT or ROLLBACK, so that
 * look and write are one step. Call it first in the transaction, before the look: at REPEATABLE READ and above, a look
 * before it would show an older state for the whole transaction. 0 is worth what COMMIT then says.
 *
 * rota_sql_lock_postgres, rota_sql_lock_mysql: a lock inside the caller's own transaction, without anything else of Rota:
 * NAME is ours until COMMIT or ROLLBACK, or until the connection ends. Waits at most WAIT_MS (0: not at all, ROTA_NEVER:
 * as long as it takes). BUSY: somebody has it, and WAIT_MS was 0; TIMEOUT: not in time. *FENCE (may be NULL) grows with
 * each lock.
 *
 * BUSY also means that the server gave up the transaction because of others (a deadlock, a serialization failure): after
 * ROLLBACK all of it may be tried again; rota_retry does that. UNREACHABLE: the connection or the server has gone, or is
 * read-only; the transaction no longer exists. AUTH: a right is missing. INVALID: also if the table is missing, or is a
 * different one. */

#ifdef LIBPQ_FE_H

static inline int rota_guard_impl_pg_code(const PGconn *db, const char *state)
{
    static const struct {
        const char *state; /* or its beginning */
        int err;
    } known[] = {
        {"55P03", ROTA_TIMEOUT},     /* lock_timeout */
        {"40", ROTA_BUSY},           /* serialization failure, deadlock */
        {"42501", ROTA_AUTH},        /* insufficient privilege */
        {"25006", ROTA_UNREACHABLE}, /* a replica, or read-only */
        {"57014", ROTA_CANCELED},    /* statement_timeout, pg_cancel_backend */
        {"57P", ROTA_UNREACHABLE},   /* shut down, terminated */
        {"53", ROTA_UNREACHABLE},    /* disk full, out of memory */
        {"08", ROTA_UNREACHABLE},    /* connection */
        {"42", ROTA_INVALID},        /* no such table, or of another shape */
        {"22", ROTA_INVALID},        /* a name that is not valid text there */
        {"25P02", ROTA_INVALID},     /* the transaction had failed already */
    };

    if (state == NULL || PQstatus(db) != CONNECTION_OK)
        return ROTA_UNREACHABLE;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(state, known[i].state, strlen(known[i].state)) == 0)
            return known[i].err;
    return ROTA_PROTOCOL;
}

/* Consumes RESULT, which is an error. */
static inline int rota_guard_impl_pg_fail(const PGconn *db, PGresult *result, const char *ddl)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char text[512];

    int err = rota_guard_say(rota_guard_impl_pg_code(db, state), PQerrorMessage(db));
    if (state != NULL && strcmp(state, "42P01") == 0) {
        snprintf(text, sizeof(text), "the table is missing: %s", ddl);
        rota_guard_say(err, text);
    }
    PQclear(result);
    return err;
}

static inline int rota_guard_impl_pg_in_txn(const PGconn *db)
{
    if (db == NULL)
        return rota_guard_say(ROTA_INVALID, NULL);
    switch (PQtransactionStatus(db)) {
    case PQTRANS_INTRANS:
        return 0;
    case PQTRANS_UNKNOWN:
        return rota_guard_say(ROTA_UNREACHABLE, PQerrorMessage(db));
    default:
        return rota_guard_say(ROTA_INVALID, ROTA_GUARD_IMPL_NO_TXN);
    }
}

static inline int rota_guard_postgres(PGconn *db, const char *resource, uint64_t fence)
{
    const char *values[2] = {resource, NULL};
    char number[24];

    int err = rota_guard_impl_check(resource, fence);
    if (err == 0)
        err = rota_guard_impl_pg_in_txn(db);
    if (err != 0)
        return err;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)fence);
    values[1] = number;
    /* The row is locked even if it is not changed. */
    PGresult *result = PQexecParams(
        db,
        "INSERT INTO rota_guard AS g (resource, fence) VALUES ($1::text, $2::bigint) "
        "ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence "
        "WHERE g.fence <= excluded.fence RETURNING g.fence",
        2, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return rota_guard_impl_pg_fail(db, result, ROTA_GUARD_POSTGRES_DDL);
    int rows = PQntuples(result);
    PQclear(result);
    return rows == 1 ? 0 : rota_guard_say(ROTA_LOST, ROTA_GUARD_IMPL_LATE);
}

/* One flight. The savepoint keeps the caller's transaction alive if the lock is not granted; lock_timeout is set back. */
#define ROTA_GUARD_IMPL_PG_LOCK                                               \
    "SAVEPOINT rota_sql_lock; "                                               \
    "SELECT set_config('rota.wait', current_setting('lock_timeout'), true), " \
    "set_config('lock_timeout', '%lu', true); "                               \
    "INSERT INTO rota_sql_lock AS l (name, fence) "                           \
    "VALUES (%s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) " \
    "ON CONFLICT (name) DO UPDATE SET fence = greatest(l.fence + 1, "         \
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint); "            \
    "RELEASE SAVEPOINT rota_sql_lock; "                                       \
    "SELECT (SELECT fence FROM rota_sql_lock WHERE name = %s), "              \
    "set_config('lock_timeout', current_setting('rota.wait'), true)"

static inline int rota_guard_impl_pg_lock(PGconn *db, const char *literal, uint32_t wait_ms,
                                          uint64_t *fence)
{
    char text[sizeof(ROTA_GUARD_IMPL_PG_LOCK) + 4 * ROTA_GUARD_NAME_MAX + 64];
    /* 0 means no limit there; nobody waits a month */
    unsigned long ms = wait_ms == 0 ? 1 : wait_ms == ROTA_NEVER ? 0 : wait_ms;

    if (ms > 2147483647)
        ms = 2147483647;
    snprintf(text, sizeof(text), ROTA_GUARD_IMPL_PG_LOCK, ms, literal, literal);
    PGresult *result = PQexec(db, text);
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        if (fence != NULL)
            *fence = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
        return 0;
    }
    int err = rota_guard_impl_pg_fail(db, result, ROTA_SQL_LOCK_POSTGRES_DDL);
    PQclear(PQexec(db, "ROLLBACK TO SAVEPOINT rota_sql_lock; RELEASE SAVEPOINT rota_sql_lock"));
    return err == ROTA_TIMEOUT && wait_ms == 0 ? rota_guard_say(ROTA_BUSY, NULL) : err;
}

static inline int rota_sql_lock_postgres(PGconn *db, const char *name, uint32_t wait_ms,
                                         uint64_t *fence)
{
    int err = rota_guard_impl_check(name, 1);
    if (err == 0)
        err = rota_guard_impl_pg_in_txn(db);
    if (err != 0)
        return err;
    char *literal = PQescapeLiteral(db, name, strlen(name));
    if (literal == NULL)
        return rota_guard_say(ROTA_INVALID, PQerrorMessage(db));
    err = rota_guard_impl_pg_lock(db, literal, wait_ms, fence);
    PQfreemem(literal);
    return err;
}

#endif /* libpq */

#ifdef _mysql_h

static inline int rota_guard_impl_my_code(unsigned number)
{
    switch (number) {
    case 1205: /* lock wait */
        return ROTA_TIMEOUT;
    case 1213: /* deadlock */
    case 1020: /* changed since the snapshot */
        return ROTA_BUSY;
    case 1044: /* rights of all kinds */
    case 1045:
    case 1142:
    case 1143:
    case 1227:
        return ROTA_AUTH;
    case 1054: /* no such column, table; a value that does not fit */
    case 1146:
    case 1264:
    case 1406:
        return ROTA_INVALID;
    case 1053: /* shut down, killed, read-only, full, connection gone */
    case 1114:
    case 1290:
    case 1317:
    case 1792:
    case 1927:
    case 2002:
    case 2003:
    case 2006:
    case 2013:
        return ROTA_UNREACHABLE;
    default:
        return ROTA_PROTOCOL;
    }
}

static inline int rota_guard_impl_my_fail(MYSQL *db, const char *ddl)
{
    char text[512];

    if (mysql_errno(db) != 1146)
        return rota_guard_say(rota_guard_impl_my_code(mysql_errno(db)), mysql_error(db));
    snprintf(text, sizeof(text), "the table is missing: %s", ddl);
    return rota_guard_say(ROTA_INVALID, text);
}

/* Without autocommit every statement is in a transaction. */
static inline int rota_guard_impl_my_commits(const MYSQL *db)
{
    return (db->server_status & SERVER_STATUS_IN_TRANS) == 0 &&
           (db->server_status & SERVER_STATUS_AUTOCOMMIT) != 0;
}

static inline int rota_guard_impl_my_in_txn(const MYSQL *db)
{
    if (db == NULL)
        return rota_guard_say(ROTA_INVALID, NULL);
    return rota_guard_impl_my_commits(db) ? rota_guard_say(ROTA_INVALID, ROTA_GUARD_IMPL_NO_TXN)
                                          : 0;
}

/* Runs QUERY in the caller's transaction. With MYSQL_OPT_RECONNECT it may have gone to another connection, where it has
 * committed itself. */
static inline int rota_guard_impl_my_query(MYSQL *db, const char *query, const char *ddl)
{
    if (mysql_query(db, query) != 0)
        return rota_guard_impl_my_fail(db, ddl);
    return rota_guard_impl_my_commits(db)
               ? rota_guard_say(ROTA_UNREACHABLE, "the connection is another one: begin anew")
               : 0;
}

/* In hexadecimal, so that no character set and no quoting mode matters. */
static inline void rota_guard_impl_my_hex(const char *name, char *out)
{
    for (; *name != '\0'; name++, out += 2)
        snprintf(out, 3, "%02x", (unsigned)(unsigned char)*name);
}

/* Changes the connection's LAST_INSERT_ID(). */
static inline int rota_guard_mysql(MYSQL *db, const char *resource, uint64_t fence)
{
    char name[2 * ROTA_GUARD_NAME_MAX + 1], text[2 * ROTA_GUARD_NAME_MAX + 256];

    int err = rota_guard_impl_check(resource, fence);
    if (err == 0)
        err = rota_guard_impl_my_in_txn(db);
    if (err != 0)
        return err;
    rota_guard_impl_my_hex(resource, name);
    snprintf(text, sizeof(text),
             "INSERT INTO rota_guard (resource, fence) VALUES (x'%s', %llu) "
             "ON DUPLICATE KEY UPDATE fence = LAST_INSERT_ID(GREATEST(fence, %llu))",
             name, (unsigned long long)fence, (unsigned long long)fence);
    err = rota_guard_impl_my_query(db, text, ROTA_GUARD_MYSQL_DDL);
    if (err != 0)
        return err;
    /* The highest fence, or 0 if the row is new. */
    return mysql_insert_id(db) <= fence ? 0 : rota_guard_say(ROTA_LOST, ROTA_GUARD_IMPL_LATE);
}

#define ROTA_GUARD_IMPL_MY_CLOCK "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

/* WAIT_MS is rounded up to seconds, as the server counts; MySQL, unlike MariaDB, waits a second for 0 too. Changes the
 * connection's LAST_INSERT_ID(), and the variable @rota_wait. */
static inline int rota_sql_lock_mysql(MYSQL *db, const char *name, uint32_t wait_ms,
                                      uint64_t *fence)
{
    char hex[2 * ROTA_GUARD_NAME_MAX + 1], text[2 * ROTA_GUARD_NAME_MAX + 384];
    unsigned long wait_s = wait_ms == ROTA_NEVER ? 100000000ul : (wait_ms + 999ul) / 1000;

    int err = rota_guard_impl_check(name, 1);
    if (err == 0)
        err = rota_guard_impl_my_in_txn(db);
    if (err != 0)
        return err;
    snprintf(text, sizeof(text),
             "SET @rota_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = %lu", wait_s);
    if (mysql_query(db, text) != 0)
        return rota_guard_impl_my_fail(db, "");
    rota_guard_impl_my_hex(name, hex);
    snprintf(text, sizeof(text),
             "INSERT INTO rota_sql_lock (name, fence) "
             "VALUES (x'%s', LAST_INSERT_ID(" ROTA_GUARD_IMPL_MY_CLOCK ")) ON DUPLICATE KEY UPDATE "
             "fence = LAST_INSERT_ID(GREATEST(fence + 1, " ROTA_GUARD_IMPL_MY_CLOCK "))",
             hex);
    err = rota_guard_impl_my_query(db, text, ROTA_SQL_LOCK_MYSQL_DDL);
    uint64_t number = err == 0 ? mysql_insert_id(db) : 0;
    if (mysql_query(db, "SET innodb_lock_wait_timeout = @rota_wait") != 0 && err == 0)
        err = rota_guard_impl_my_fail(db, "");
    if (err == 0 && fence != NULL)
        *fence = number;
    return err == ROTA_TIMEOUT && wait_ms == 0 ? rota_guard_say(ROTA_BUSY, NULL) : err;
}

#endif /* MySQL, MariaDB */

#ifdef __cplusplus
}
#endif
#endif
