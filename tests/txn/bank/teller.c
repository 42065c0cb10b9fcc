/* SPDX-License-Identifier: Apache-2.0 */
/* Roles that use the library as its users do: a teller, a joiner, a recoverer. */
#include "bank.h"

#include <rota_txn.h>

#include <libpq-fe.h>
#include <mysql.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const place_names[PLACES] = {"till", "vault", "safe"};

static const struct shape shapes[] = {
    {.name = "two", .writes = 1u << TILL | 1u << VAULT},
    {.name = "three", .writes = 1u << TILL | 1u << VAULT | 1u << SAFE},
    {.name = "one", .writes = 1u << TILL, .alone = true},
    {.name = "one-pg", .writes = 1u << VAULT, .alone = true},
    {.name = "read", .writes = 1u << TILL, .reads = 1u << VAULT},
    {.name = "looks", .reads = 1u << TILL | 1u << VAULT},
    {.name = "fail", .writes = 1u << TILL | 1u << VAULT, .fails = true},   /* a statement fails */
    {.name = "refuse", .writes = 1u << TILL | 1u << VAULT, .fails = true}, /* PREPARE fails */
    {.name = "abort", .writes = 1u << TILL | 1u << VAULT, .fails = true},
    {.name = "join", .writes = 1u << TILL | 1u << VAULT, .joined = true},
};

const struct shape *shape_at(size_t i)
{
    return i < sizeof(shapes) / sizeof(shapes[0]) ? &shapes[i] : NULL;
}

const struct shape *shape_find(const char *name)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

/* ---- Connections, as an application has them ------------------------------------ */

static MYSQL *my[PLACES];
static PGconn *pg;

static const char *env(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL) {
        fprintf(stderr, "bank: no %s\n", name);
        abort();
    }
    return value;
}

static bool my_open(enum place place)
{
    my[place] = mysql_init(NULL);
    return my[place] != NULL &&
           mysql_real_connect(my[place], "127.0.0.1", "rota", env("BANK_MY_PASSWORD"),
                              place == SAFE ? "safe" : "locks", (unsigned)atoi(env("BANK_MY_PORT")),
                              NULL, 0) != NULL;
}

static void on_notice(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

static bool pg_open(void)
{
    char info[200];

    snprintf(info, sizeof(info),
             "host=127.0.0.1 port=%s user=postgres dbname=postgres sslmode=disable "
             "gssencmode=disable",
             env("BANK_PG_PORT"));
    pg = PQconnectdb(info);
    (void)PQsetNoticeProcessor(pg, on_notice, NULL);
    return PQstatus(pg) == CONNECTION_OK;
}

static bool place_open(enum place place)
{
    if (place == VAULT)
        return pg != NULL || pg_open();
    return my[place] != NULL || my_open(place);
}

static void place_close(enum place place)
{
    if (place == VAULT && pg != NULL) {
        PQfinish(pg);
        pg = NULL;
    } else if (my[place] != NULL) {
        mysql_close(my[place]);
        my[place] = NULL;
    }
}

static void places_close(void)
{
    for (enum place p = 0; p < PLACES; p++)
        place_close(p);
}

static bool place_do(enum place place, const char *sql)
{
    if (place == VAULT) {
        PGresult *result = PQexec(pg, sql);
        ExecStatusType status = PQresultStatus(result);
        PQclear(result);
        return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    }
    if (mysql_query(my[place], sql) != 0)
        return false;
    MYSQL_RES *rows = mysql_store_result(my[place]);
    if (rows != NULL)
        mysql_free_result(rows);
    return true;
}

/* ---- A manager --------------------------------------------------------------------- */

static int log_fd = -1;

static void log_open(void)
{
    log_fd = open(env("BANK_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void log_line(const char *line)
{
    char text[400];
    int size = snprintf(text, sizeof(text), "%d: %s\n", (int)getpid(), line);

    if (log_fd >= 0 && write(log_fd, text, (size_t)size) < 0)
        abort();
}

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    log_line(line);
}

static void on_attention(void *arg, const char *id, const char *resource, const char *line)
{
    char text[360];

    (void)arg;
    snprintf(text, sizeof(text), "attention: %s at %s: %s", id, resource, line);
    log_line(text);
}

static struct rota_txns *manager(uint32_t flags)
{
    static const char *const urls[PLACES] = {"BANK_TILL", "BANK_VAULT", "BANK_SAFE"};
    struct rota_txns_options opts = {.flags = flags,
                                     .timeout_ms = (uint32_t)atoi(env("BANK_TIMEOUT_MS")),
                                     .call_ms = (uint32_t)atoi(env("BANK_CALL_MS")),
                                     .recover_ms = 200,
                                     .keep_ms = (uint32_t)atoi(env("BANK_KEEP_MS")),
                                     .log = on_log,
                                     .attention = on_attention};
    struct rota_txns *m = NULL;

    log_open();
    /* Retries until a journal that is away is back. */
    for (int tries = 0; rota_txns_open(&m, env("BANK_JOURNAL"), &opts) != 0; tries++) {
        log_line(rota_txn_errmsg(NULL));
        if (tries * 20 > LIMIT_MS) {
            fprintf(stderr, "bank: rota_txns_open: %s\n", rota_txn_errmsg(NULL));
            abort();
        }
        poll(NULL, 0, 20);
    }
    for (enum place p = 0; p < PLACES; p++)
        if (rota_txns_resource(m, place_names[p], env(urls[p])) != 0) {
            fprintf(stderr, "bank: rota_txns_resource: %s\n", rota_txn_errmsg(m));
            abort();
        }
    return m;
}

/* ---- Transfers ----------------------------------------------------------------------- */

struct transfer {
    const struct shape *shape;
    long tid;
    int amount;
};

static int begin_at(struct rota_txn *t, enum place place, struct rota_branch **b)
{
    if (!place_open(place)) {
        place_close(place);
        return ROTA_UNREACHABLE;
    }
    return place == VAULT ? rota_xa_postgres(t, place_names[place], pg, b)
                          : rota_xa_mysql(t, place_names[place], my[place], b);
}

static unsigned places_of(unsigned bits)
{
    return (unsigned)__builtin_popcount(bits);
}

/* What PLACE gains: the first place gives to all others; a single place moves the amount between its accounts. */
static int gain(const struct transfer *x, enum place place)
{
    bool first = (x->shape->writes & ((1u << place) - 1)) == 0;

    return first ? -x->amount * ((int)places_of(x->shape->writes) - 1) : x->amount;
}

static bool work_at(const struct transfer *x, enum place place)
{
    char sql[160];
    long account = x->tid % (ACCOUNTS / 2);
    bool ok = true;

    if ((x->shape->writes & 1u << place) == 0) {
        snprintf(sql, sizeof(sql), "SELECT balance FROM account WHERE id = %ld", account);
        return place_do(place, sql);
    }
    snprintf(sql, sizeof(sql), "UPDATE account SET balance = balance + %d WHERE id = %ld",
             gain(x, place), account);
    ok = place_do(place, sql);
    if (places_of(x->shape->writes) == 1) {
        snprintf(sql, sizeof(sql), "UPDATE account SET balance = balance - %d WHERE id = %ld",
                 x->amount, account);
        ok = ok && place_do(place, sql);
        snprintf(sql, sizeof(sql), "UPDATE account SET balance = balance + %d WHERE id = %ld",
                 x->amount, account + ACCOUNTS / 2);
        ok = ok && place_do(place, sql);
    }
    snprintf(sql, sizeof(sql), "INSERT INTO moved VALUES (%ld)", x->tid);
    ok = ok && place_do(place, sql);
    snprintf(sql, sizeof(sql), "INSERT INTO late VALUES (%ld), (%ld)", x->tid, x->tid);
    if (strcmp(x->shape->name, "refuse") == 0 && place == VAULT) /* found out by PREPARE */
        ok = ok && place_do(place, sql);
    if (strcmp(x->shape->name, "fail") == 0 && place == VAULT)
        ok = ok && place_do(place, "INSERT INTO nowhere VALUES (1)");
    return ok;
}

static const char *told_word(int err)
{
    return err == 0 || err == ROTA_UNFINISHED ? "committed"
           : err == ROTA_ABORTED              ? "aborted"
           : err == ROTA_UNKNOWN              ? "unknown"
                                              : "error";
}

/* The journal did not answer: how did it end? */
static void ask_outcome(struct rota_txns *m, const struct transfer *x, const char *id)
{
    struct rota_outcome out = {.stand = ROTA_STAND_OPEN};

    for (int tries = 0; id[0] != '\0' && tries < 100; tries++) {
        if (rota_txn_outcome(m, id, &out) == 0 && out.decision != ROTA_STAND_OPEN) {
            book_write("told %ld %s %d\n", x->tid,
                       out.decision == ROTA_STAND_COMMITTED ? "committed" : "aborted", 0);
            return;
        }
        poll(NULL, 0, 20);
    }
}

static void ends(struct rota_txns *m, const struct transfer *x, const char *id, int err, bool abort)
{
    char line[400];

    if (abort && err == 0)
        err = ROTA_ABORTED;
    book_write("told %ld %s %d\n", x->tid, told_word(err), err);
    if (err != 0) {
        snprintf(line, sizeof(line), "%ld %s: %d, %.300s", x->tid, x->shape->name, err,
                 rota_txn_errmsg(m));
        log_line(line);
        places_close(); /* some of them may be lost */
    }
    if (err == ROTA_UNKNOWN)
        ask_outcome(m, x, id);
}

/* The other process is given the id, and says when it has voted. */
static bool other_voted(const char *id)
{
    int in = atoi(env("BANK_IN")), out = atoi(env("BANK_OUT"));
    char word = 'n';

    if (write(out, id, strlen(id)) != (ssize_t)strlen(id) || write(out, "\n", 1) != 1)
        return false;
    return read(in, &word, 1) == 1 && word == 'y';
}

static bool work(struct rota_txn *t, const struct transfer *x)
{
    unsigned all = x->shape->writes | x->shape->reads;

    for (enum place p = 0; p < PLACES; p++) {
        struct rota_branch *b = NULL;
        if ((all & 1u << p) == 0 || (x->shape->joined && p == VAULT))
            continue;
        if (begin_at(t, p, &b) != 0)
            return false;
        if (!work_at(x, p) && rota_branch_fail(b) != 0)
            abort();
    }
    return true;
}

static void transfer(struct rota_txns *m, const struct transfer *x)
{
    struct rota_txn_options opts = {.label = x->shape->name, .flags = ROTA_TXN_WAIT};
    struct rota_txn *t = NULL;
    char id[64] = "";

    book_write("plan %ld %s %s\n", x->tid, x->shape->name, env("BANK_HOUSE"));
    if (rota_txn_begin(m, &opts, &t) != 0) {
        fprintf(stderr, "bank: rota_txn_begin: %s\n", rota_txn_errmsg(m));
        abort();
    }
    if (!x->shape->alone) {
        snprintf(id, sizeof(id), "%s", rota_txn_id(t));
        book_write("id %ld %s\n", x->tid, id);
    }
    bool good = work(t, x) && (!x->shape->joined || other_voted(id));
    if (!good || strcmp(x->shape->name, "abort") == 0)
        ends(m, x, id, rota_txn_abort(t), true);
    else
        ends(m, x, id, rota_txn_commit(t), false);
}

static const struct shape *any_shape(unsigned *seed)
{
    for (;;) {
        const struct shape *s = shape_at((size_t)rand_r(seed) %
                                         (sizeof(shapes) / sizeof(shapes[0])));
        if (!s->joined)
            return s;
    }
}

int bank_teller(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    long tid = atol(argv[3]), count = atol(argv[4]);
    unsigned seed = (unsigned)tid;
    struct rota_txns *m = manager(0);

    for (long i = 0; i < count; i++) {
        const struct shape *s = strcmp(argv[2], "any") == 0 ? any_shape(&seed)
                                                            : shape_find(argv[2]);
        struct transfer x = {.shape = s, .tid = tid + i, .amount = 1 + rand_r(&seed) % 9};
        transfer(m, &x);
    }
    rota_txns_close(m);
    places_close();
    return 0;
}

/* ---- Who joins ------------------------------------------------------------------------- */

static bool read_id(char id[64])
{
    size_t n = 0;

    while (n < 63 && read(atoi(env("BANK_IN")), &id[n], 1) == 1 && id[n] != '\n')
        n++;
    id[n] = '\0';
    return n > 0;
}

int bank_joiner(int argc, char **argv)
{
    char id[64], line[400];
    struct rota_txn *t = NULL;
    struct rota_branch *b = NULL;

    if (argc != 3)
        return 64;
    /* The amount is drawn as the teller draws it. */
    unsigned seed = (unsigned)atol(argv[2]);
    struct transfer x = {
        .shape = shape_find("join"), .tid = atol(argv[2]), .amount = 1 + rand_r(&seed) % 9};
    struct rota_txns *m = manager(0);
    if (!read_id(id))
        return 0; /* the teller died first */
    int err = rota_txn_join(m, id, &t);
    if (err == 0)
        err = begin_at(t, VAULT, &b);
    if (err == 0 && !work_at(&x, VAULT) && rota_branch_fail(b) != 0)
        abort();
    if (err == 0)
        err = rota_txn_vote(t);
    if (write(atoi(env("BANK_OUT")), err == 0 ? "y" : "n", 1) != 1)
        log_line("the teller has gone");
    if (t != NULL && err == 0)
        err = rota_txn_commit(t);
    else if (t != NULL)
        err = rota_txn_abort(t) == 0 ? ROTA_ABORTED : ROTA_UNKNOWN;
    snprintf(line, sizeof(line), "%ld joiner: %d, %.300s", x.tid, err, rota_txn_errmsg(m));
    log_line(line);
    book_write("joiner %ld %s %d\n", x.tid, told_word(err), err);
    places_close();
    rota_txns_close(m);
    return 0;
}

/* ---- Who recovers ------------------------------------------------------------------------ */

int bank_recoverer(int argc, char **argv)
{
    sigset_t set;
    int sig = 0;

    (void)argc;
    (void)argv;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct rota_txns *m = manager(ROTA_TXN_RECOVER);
    while (sigwait(&set, &sig) != 0) {
    }
    rota_txns_close(m);
    return 0;
}
