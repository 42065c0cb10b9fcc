/* SPDX-License-Identifier: Apache-2.0 */
/* 64 clients that decide at once: transactions whose two participants are simulated, and say yes at once. What is left
 * is the manager and its journal. On PostgreSQL, beside rows inserted by hand that share their COMMITs the same way. */
#include "txn.h"

#include "txn/branch/party.h"
#include "txn/manager/inside.h"

#include <assert.h>
#include <dirent.h>
#include <pthread.h>
#include <rota_txn.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE 64
#define ROUNDS 7
#define ROUND_S 1.0

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
    fprintf(stderr, "rota-bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- A participant that is played ------------------------------------------------ */

struct played {
    int ends[2]; /* a connection is known by its socket */
};

static int load(char *errmsg, size_t size)
{
    (void)errmsg;
    (void)size;
    return 0;
}

static int usable(struct rt_talk *t, char *errmsg, size_t size)
{
    (void)t;
    (void)errmsg;
    (void)size;
    return 0;
}

static int fd(struct rt_talk *t)
{
    return ((const struct played *)t->conn)->ends[0];
}

static bool answered(struct rt_talk *t)
{
    t->said.failed = true; /* who it is: it has no name */
    return true;
}

static const struct rt_talk_kind played_talk = {
    .load = load, .usable = usable, .send = answered, .fd = fd};

static bool step(struct rt_party *p)
{
    enum rt_reply reply = RT_REPLY_DONE;
    switch (p->op->what) {
    case RT_PARTY_ATTACH:
        p->attached = true;
        snprintf(p->marks, sizeof p->marks, "`left`.rota_mark");
        break;
    case RT_PARTY_BEGIN:
        p->op->part->by = p;
        break;
    case RT_PARTY_PREPARE:
        p->op->part->prepared = true;
        reply = RT_REPLY_YES;
        break;
    default:
        p->op->part->by = NULL;
    }
    return rt_party_end(p, reply, 0, NULL);
}

static const struct rt_party_kind played_kind = {
    .name = "played", .title = "played", .ddl = "", .talk = &played_talk, .step = step};

/* ---- By Rota --------------------------------------------------------------------- */

struct deciders {
    struct rota_txns *manager;
    struct played connections[AT_ONCE][2];
    _Atomic int next;
};

static int decide(void *arg)
{
    static _Thread_local int mine = -1;
    static const char *const names[] = {"left", "right"};
    const struct rota_txn_options opts = {.flags = ROTA_TXN_WAIT};
    struct deciders *d = arg;
    struct rota_txn *t = NULL;
    if (mine < 0)
        mine = atomic_fetch_add(&d->next, 1);
    assert(mine < AT_ONCE);
    int err = rota_txn_begin(d->manager, &opts, &t);
    for (int i = 0; err == 0 && i < 2; i++)
        err = rt_xa_begin(t, names[i], RT_XA_POSTGRES, &played_kind, &d->connections[mine][i],
                          NULL);
    if (err == 0)
        err = rota_txn_commit(t);
    if (err != 0)
        die("a decision", rota_txn_errmsg(d->manager));
    return 0;
}

static void deciders_open(struct deciders *d, const char *url)
{
    *d = (struct deciders){.manager = NULL};
    if (rota_txns_open(&d->manager, url, NULL) != 0)
        die(url, rota_txn_errmsg(NULL));
    for (int i = 0; i < AT_ONCE; i++)
        for (int k = 0; k < 2; k++)
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, d->connections[i][k].ends) != 0)
                die("a participant", "no socket");
}

static void deciders_close(struct deciders *d)
{
    rota_txns_close(d->manager);
    for (int i = 0; i < AT_ONCE; i++)
        for (int k = 0; k < 2; k++) {
            close(d->connections[i][k].ends[0]);
            close(d->connections[i][k].ends[1]);
        }
}

static double decisions(struct deciders *d, double seconds)
{
    double per_second = 0;
    atomic_store(&d->next, 0);
    bench_done(rt_bench_crowd(AT_ONCE, seconds, decide, d, &per_second));
    return per_second;
}

/* ---- By hand: whoever finds nobody writing writes for all that wait ----------------- */

struct row {
    int client;
    unsigned count;
    sem_t written;
    bool leads;
    struct row *next;
};

#define ID_BYTES 16
#define ID_HEX (2 * ID_BYTES + 7) /* its digits, their backslashes, quotes and comma */

static struct {
    PGconn *db;
    pthread_mutex_t mu;
    struct row *waiting;
    bool writing;
    bool marks;                          /* rows are marked as done by the flight that follows */
    char unmarked[AT_ONCE * ID_HEX + 3]; /* the ids of the last flight, as an array */
} table = {.mu = PTHREAD_MUTEX_INITIALIZER};

static _Atomic int next_hand;

static void pg_must(bool ok)
{
    if (!ok)
        die("postgres", PQerrorMessage(table.db));
}

static void made(PGresult *r)
{
    pg_must(PQresultStatus(r) == PGRES_COMMAND_OK);
    PQclear(r);
}

static void table_open(void)
{
    PGconn *db = table.db = PQconnectdb(txn_postgres_url());
    made(PQexec(db, "create table decision (id bytea primary key, what smallint, deadline bigint, "
                    "branches bytea)"));
    /* What recovery needs as well: it must find what is decided and not done. */
    made(PQexec(db, "create table marked (like decision including all, done smallint not null)"));
    made(PQexec(db, "create index undone on marked (deadline, id) where done = 0"));
    made(
        PQexec(db, "set enable_seqscan = off")); /* a plan that was made for an empty table stays */
    made(PQprepare(db, "bare", "insert into decision values ($1, 1, 0, $2)", 0, NULL));
    made(PQprepare(db, "undone", "insert into marked values ($1, 1, 0, $2, 0)", 0, NULL));
    made(PQprepare(db, "done",
                   "update marked set done = 1 where done < 1 and id = any ($1::bytea[])", 0,
                   NULL));
    made(PQprepare(db, "begin", "begin", 0, NULL));
    made(PQprepare(db, "commit", "commit", 0, NULL));
    pg_must(PQenterPipelineMode(db) == 1);
}

static void drain(void)
{
    for (;;) {
        PGresult *r = PQgetResult(table.db);
        if (r == NULL)
            continue; /* between two statements */
        ExecStatusType status = PQresultStatus(r);
        PQclear(r);
        if (status == PGRES_PIPELINE_SYNC)
            return;
        pg_must(status == PGRES_COMMAND_OK);
    }
}

/* Those of the flight before, in one statement. */
static void mark_rows(void)
{
    const char *const ids[] = {table.unmarked};
    if (table.unmarked[0] != '\0')
        pg_must(PQsendQueryPrepared(table.db, "done", 1, ids, NULL, NULL, 0) == 1);
    table.unmarked[0] = '\0';
}

static void note_unmarked(const char id[ID_BYTES])
{
    size_t n = strlen(table.unmarked);
    char *at = table.unmarked + (n > 0 ? n - 1 : 0); /* over the brace */
    at += sprintf(at, "%s\"\\\\x", n > 0 ? "," : "{");
    for (int i = 0; i < ID_BYTES; i++)
        at += sprintf(at, "%02x", (unsigned char)id[i]);
    memcpy(at, "\"}", 3);
}

/* All of them in one transaction: one write to the server, one forced write by it. */
static void write_rows(struct row *all)
{
    static const char branches[100];
    pg_must(PQsendQueryPrepared(table.db, "begin", 0, NULL, NULL, NULL, 0) == 1);
    mark_rows();
    for (struct row *r = all; r != NULL; r = r->next) {
        char id[ID_BYTES];
        snprintf(id, sizeof id, "%04d%010u", r->client, r->count);
        const char *const values[] = {id, branches};
        const int sizes[] = {sizeof id, sizeof branches}, formats[] = {1, 1};
        pg_must(PQsendQueryPrepared(table.db, table.marks ? "undone" : "bare", 2, values, sizes,
                                    formats, 0) == 1);
        if (table.marks)
            note_unmarked(id);
    }
    pg_must(PQsendQueryPrepared(table.db, "commit", 0, NULL, NULL, NULL, 0) == 1);
    pg_must(PQpipelineSync(table.db) == 1);
    drain();
}

static int insert(void *arg)
{
    static _Thread_local int mine = -1;
    static _Atomic unsigned counts; /* across rounds, too */
    (void)arg;
    if (mine < 0)
        mine = atomic_fetch_add(&next_hand, 1);
    struct row row = {.client = mine, .count = atomic_fetch_add(&counts, 1)};
    sem_init(&row.written, 0, 0);
    pthread_mutex_lock(&table.mu);
    row.next = table.waiting;
    table.waiting = &row;
    bool leads = !table.writing;
    table.writing = true;
    pthread_mutex_unlock(&table.mu);
    if (!leads) {
        while (sem_wait(&row.written) != 0)
            ;
        if (!row.leads)
            return 0;
    }
    pthread_mutex_lock(&table.mu);
    struct row *all = table.waiting;
    table.waiting = NULL;
    pthread_mutex_unlock(&table.mu);
    write_rows(all);
    pthread_mutex_lock(&table.mu);
    struct row *leader = table.waiting;
    table.writing = leader != NULL;
    if (leader != NULL) {
        leader->leads = true;
        sem_post(&leader->written);
    }
    pthread_mutex_unlock(&table.mu);
    for (struct row *next; all != NULL; all = next) {
        next = all->next;
        if (all != &row)
            sem_post(&all->written);
    }
    return 0;
}

static double inserts(bool marks, double seconds)
{
    double per_second = 0;
    table.marks = marks;
    table.unmarked[0] = '\0';
    atomic_store(&next_hand, 0);
    bench_done(rt_bench_crowd(AT_ONCE, seconds, insert, NULL, &per_second));
    return per_second;
}

/* ---- Both ------------------------------------------------------------------------------ */

static void on_file(const struct bench *b)
{
    struct deciders d;
    char url[BENCH_URL];
    double rates[ROUNDS];
    snprintf(url, sizeof url, "file:%s/decisions", b->folder);
    deciders_open(&d, url);
    (void)decisions(&d, ROUND_S * b->scale);
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = decisions(&d, ROUND_S * b->scale);
    deciders_close(&d);
    bench_goal(b, "64 who decide, journal in a file", rt_bench_median(rates, ROUNDS), "/s", true,
               20000);
}

static void on_postgres(const struct bench *b)
{
    struct deciders d;
    struct beside bare = {.n = 0}, marked = {.n = 0};
    txn_start();
    table_open();
    deciders_open(&d, txn_postgres_url());
    (void)decisions(&d, ROUND_S * b->scale);
    (void)inserts(false, ROUND_S * b->scale);
    (void)inserts(true, ROUND_S * b->scale);
    for (int i = 0; i < ROUNDS; i++) {
        double theirs = inserts(false, ROUND_S * b->scale);
        double bound = inserts(true, ROUND_S * b->scale);
        double ours = decisions(&d, ROUND_S * b->scale);
        beside_add(&bare, ours, theirs);
        beside_add(&marked, ours, bound);
    }
    deciders_close(&d);
    PQfinish(table.db);
    beside_say(b, &bare,
               &(struct beside_text){"64 who decide, journal on PostgreSQL",
                                     "64 bare INSERTs that share their COMMITs",
                                     "decisions / bare INSERTs", "/s", 0.5, true});
    /* The nearest bound: a decision is written twice, for recovery must know what is finished. */
    beside_say(b, &marked,
               &(struct beside_text){NULL, "64 INSERTs, each row marked as done later",
                                     "decisions / INSERTs with their marks", "/s", 0, true});
}

void bench_txn_decide(const struct bench *b)
{
    on_file(b);
    on_postgres(b);
}

/* ---- As more and more are finished ----------------------------------------------------- */

#define FINISHED 100000
#define LOOK_S 0.5

/* Of the files in FOLDER. */
static double bytes_in(const char *folder)
{
    double sum = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        struct stat status;
        if (fstatat(dirfd(dir), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            sum += (double)status.st_size;
    }
    if (dir != NULL)
        closedir(dir);
    return sum;
}

/* Decides until FINISHED are: the rates of the first look and of the last, and how long it takes to open the journal. */
static void grow(const struct bench *b, const char *name, const char *url)
{
    struct deciders d;
    char what[96];
    double first = 0, last = 0, finished = 0, most = FINISHED * b->scale;
    deciders_open(&d, url);
    (void)decisions(&d, LOOK_S); /* warms up */
    while (finished < most) {
        last = decisions(&d, LOOK_S);
        first = first > 0 ? first : last;
        finished += last * LOOK_S;
    }
    deciders_close(&d);
    int64_t from = rt_bench_ns();
    deciders_open(&d, url);
    double opened = (double)(rt_bench_ns() - from) / 1e6;
    deciders_close(&d);
    snprintf(what, sizeof what, "%s: transactions %.0f: decisions, at first", name, most);
    bench_say(b, what, first, "/s");
    snprintf(what, sizeof what, "%s: transactions %.0f: decisions, at last", name, most);
    bench_say(b, what, last, "/s");
    snprintf(what, sizeof what, "%s: transactions %.0f: journal opened again", name, most);
    bench_say(b, what, opened, "ms");
}

void bench_scale_txn(const struct bench *b)
{
    char url[BENCH_URL];
    snprintf(url, sizeof url, "file:%s/scale-decisions", b->folder);
    grow(b, "file", url);
    bench_say(b, "file: transactions: journal", bytes_in(url + strlen("file:")), "bytes");
    txn_start();
    grow(b, "postgres", txn_postgres_url());
}
