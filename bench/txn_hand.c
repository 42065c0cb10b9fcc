/* SPDX-License-Identifier: Apache-2.0 */
/* Two-phase commit as one would write it by hand: prepared and committed on both sides at once, and in between one
 * durable row in a log, whose writes are shared: whoever finds nobody writing writes for all that wait. */
#include "txn.h"

#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- The log --------------------------------------------------------------- */

struct entry { /* somebody's row, on its stack */
    int client;
    unsigned count;
    sem_t written;
    bool leads; /* it was woken to write for itself and all waiters */
    struct entry *next;
};

static struct {
    sqlite3 *db;
    sqlite3_stmt *begin, *insert, *commit;
    pthread_mutex_t mu;
    struct entry *waiting;
    bool writing;
} book = {.mu = PTHREAD_MUTEX_INITIALIZER};

__attribute__((noreturn)) static void die(void)
{
    fprintf(stderr, "rota-bench: sqlite: %s\n", sqlite3_errmsg(book.db));
    exit(1);
}

static sqlite3_stmt *prepared(const char *sql)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v3(book.db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) != SQLITE_OK)
        die();
    return s;
}

void txn_hand_open(const struct bench *b)
{
    char path[4200];
    if (book.db != NULL)
        return;
    snprintf(path, sizeof path, "%s/by-hand.db", b->folder);
    if (sqlite3_open(path, &book.db) != SQLITE_OK ||
        sqlite3_exec(
            book.db,
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA locking_mode=EXCLUSIVE;"
            "CREATE TABLE decision (id TEXT PRIMARY KEY, what INT, branches BLOB) WITHOUT ROWID",
            NULL, NULL, NULL) != SQLITE_OK)
        die();
    book.begin = prepared("BEGIN");
    book.insert = prepared("INSERT INTO decision VALUES (?1, 1, zeroblob(100))");
    book.commit = prepared("COMMIT");
}

void txn_hand_close(void)
{
    sqlite3_finalize(book.begin);
    sqlite3_finalize(book.insert);
    sqlite3_finalize(book.commit);
    sqlite3_close(book.db);
    book.db = NULL;
    book.begin = book.insert = book.commit = NULL;
}

static void step(sqlite3_stmt *s)
{
    if (sqlite3_step(s) != SQLITE_DONE)
        die();
    sqlite3_reset(s);
}

static void write_all(struct entry *all)
{
    char id[48];
    step(book.begin);
    for (struct entry *e = all; e != NULL; e = e->next) {
        int n = snprintf(id, sizeof id, "%08d-%010u", e->client, e->count);
        sqlite3_bind_text(book.insert, 1, id, n, SQLITE_STATIC);
        step(book.insert);
    }
    step(book.commit);
}

/* Makes E's row durable, and perhaps those of others. */
static void note(struct entry *e)
{
    sem_init(&e->written, 0, 0);
    pthread_mutex_lock(&book.mu);
    e->next = book.waiting;
    book.waiting = e;
    bool leads = !book.writing;
    book.writing = true;
    pthread_mutex_unlock(&book.mu);
    if (!leads) {
        while (sem_wait(&e->written) != 0)
            ;
        if (!e->leads)
            return;
    }
    pthread_mutex_lock(&book.mu);
    struct entry *all = book.waiting;
    book.waiting = NULL;
    pthread_mutex_unlock(&book.mu);
    write_all(all);
    pthread_mutex_lock(&book.mu);
    struct entry *leader = book.waiting; /* of the next: it is still in the list */
    book.writing = leader != NULL;
    if (leader != NULL) {
        leader->leads = true;
        sem_post(&leader->written);
    }
    pthread_mutex_unlock(&book.mu);
    for (struct entry *next; all != NULL; all = next) {
        next = all->next;
        if (all != e)
            sem_post(&all->written);
    }
}

void txn_hand_note(int client, unsigned count)
{
    struct entry e = {.client = client, .count = count};
    note(&e);
    sem_destroy(&e.written);
}

/* ---- Transfers --------------------------------------------------------------- */

static const char *xid(const struct txn_client *c, const struct txn_branch *b, char out[64])
{
    snprintf(out, 64, b->my != NULL ? "'hand-%08d-%010u','%s'" : "'hand-%08d-%010u-%s'", c->number,
             c->count, b->database);
    return out;
}

static void begin(struct txn_client *c, struct txn_branch *b)
{
    char id[64];
    if (b->my != NULL)
        txn_say(b, "XA START %s", xid(c, b, id));
    else
        txn_say(b, "BEGIN");
}

static void send_prepare(struct txn_client *c, struct txn_branch *b)
{
    char id[64];
    xid(c, b, id);
    if (b->my != NULL)
        txn_send(b, "XA END %s; XA PREPARE %s", id, id);
    else
        txn_send(b, "PREPARE TRANSACTION %s", id);
}

/* The same with an extra row in each branch, like Rota's markers. */
static void send_marked(struct txn_client *c, struct txn_branch *b)
{
    char id[64];
    xid(c, b, id);
    if (b->my != NULL)
        txn_send(b, "INSERT INTO mark VALUES (%d, %u); XA END %s; XA PREPARE %s", c->number,
                 c->count, id, id);
    else
        txn_send(b, "INSERT INTO mark VALUES (%d, %u); PREPARE TRANSACTION %s", c->number, c->count,
                 id);
}

static void send_commit(struct txn_client *c, struct txn_branch *b)
{
    char id[64];
    txn_send(b, b->my != NULL ? "XA COMMIT %s" : "COMMIT PREPARED %s", xid(c, b, id));
}

static void on_both(struct txn_client *c, void (*send)(struct txn_client *c, struct txn_branch *b))
{
    for (int i = 0; i < 2; i++)
        send(c, &c->side[i]);
    for (int i = 0; i < 2; i++)
        txn_hear(&c->side[i]);
}

static void begin_and_pay(struct txn_client *c)
{
    for (int i = 0; i < 2; i++)
        begin(c, &c->side[i]);
    for (int i = 0; i < 2; i++)
        txn_pay(c, i);
}

static void logged(struct txn_client *c)
{
    struct entry e = {.client = c->number, .count = c->count};
    begin_and_pay(c);
    on_both(c, send_prepare);
    note(&e);
    on_both(c, send_commit);
}

static void marked(struct txn_client *c)
{
    struct entry e = {.client = c->number, .count = c->count};
    begin_and_pay(c);
    on_both(c, send_marked);
    note(&e);
    on_both(c, send_commit);
}

static void note_apart(void *arg)
{
    const struct txn_client *c = arg;
    txn_hand_note(c->number, c->count);
}

static void commit_apart(void *arg)
{
    struct txn_client *c = arg;
    on_both(c, send_marked);
    apart_do(&c->writer, note_apart, c);
    on_both(c, send_commit);
}

/* The same, where neither a server nor a disk that hangs keeps the client waiting longer than it wants to. */
static void apart(struct txn_client *c)
{
    begin_and_pay(c);
    apart_do(&c->keeper, commit_apart, c);
}

static void bare(struct txn_client *c)
{
    begin_and_pay(c);
    on_both(c, send_prepare);
    on_both(c, send_commit);
}

const struct txn_way txn_hand_logged = {"by hand, with a log", logged};
const struct txn_way txn_hand_marked = {"by hand, with a log and markers", marked};
const struct txn_way txn_hand_apart = {"by hand, with both, by threads of their own", apart};
const struct txn_way txn_hand_bare = {"by hand, without a log", bare};
