/* SPDX-License-Identifier: Apache-2.0 */
/* The database of the file journal: txn.db in a folder, SQLite with a WAL. One thread opens it, then one other thread
 * uses it.
 *
 *   a batch of asks ──▶ BEGIN ──▶ each ask's steps, in all their rounds ──▶ COMMIT: one write, one fsync ──▶ all told
 *
 * synchronous=FULL if anything in the batch must be durable, else NORMAL: no fsync, and nothing is torn. The last
 * process that closes folds the WAL back and deletes it. If a process died the WAL stays, and whoever deletes it then
 * deletes decisions.
 *
 * A crash at any moment: before the COMMIT's frame is in the WAL, nothing of the batch is there, and nobody was told.
 * After that, all of it may be there or, if the machine lost its memory before the fsync, nothing: nobody was told
 * either. After the fsync all of it is there. SQLite cuts a torn tail by its checksums. */
#ifndef RT_JOURNAL_FILE_DB_H
#define RT_JOURNAL_FILE_DB_H

#include "txn/journal/rows/rows.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#define RT_JFILE_NAME "txn.db"

struct rt_jfile_db {
    struct rt_conn *say; /* whose errmsg is set: the opener's, then the thread's own */
    char shown[104];     /* the folder, for messages */
    sqlite3 *db;
    sqlite3_stmt *stmts[RT_ROWS_END];
    sqlite3_stmt *begin, *begin_read, *commit, *rollback;
    bool full;     /* synchronous is set to FULL */
    bool busy;     /* the last error was another's lock */
    int64_t until; /* until when to wait for another process's lock (CLOCK_BOOTTIME, in ns) */
    atomic_bool *leaving; /* ... or until this is true */
    uint32_t number;
    struct rt_jfile_db *next; /* fork.c: all of this process */
    pthread_mutex_t at_work;  /* held while the writer works, only to keep fork() away */
};

enum rt_jfile_end {
    RT_JFILE_GOOD,
    RT_JFILE_AGAIN,  /* another process holds it: nothing was done */
    RT_JFILE_FAILED, /* nothing was done: errmsg, and err */
    RT_JFILE_STOPS, /* unknown what was done, or the file cannot be trusted: errmsg; it never works again */
};

/* Opens and checks FOLDER/txn.db; makes it, with mode MODE, if it is not there. 0, or an error with errmsg, and nothing
 * is open. */
int rt_jfile_db_open(struct rt_jfile_db *d, int dir, const char *folder, mode_t mode);
void rt_jfile_db_close(struct rt_jfile_db *d);
void rt_jfile_db_end(struct rt_jfile_db *d); /* the same for fork.c, which holds the list */

/* ---- fork.c: while this is held nobody forks, and nothing is inherited. Around opening and closing. */
void rt_jfile_fork_hold(void);
void rt_jfile_fork_let(void);
void rt_jfile_fork_add(struct rt_jfile_db *d); /* both: while held */
void rt_jfile_fork_remove(struct rt_jfile_db *d);

/* Around a batch. WRITES, DURABLE: whether anything in it is so. *ERR is set with FAILED. After a COMMIT that is not
 * GOOD no transaction is open. */
enum rt_jfile_end rt_jfile_db_begin(struct rt_jfile_db *d, bool writes, bool durable, int *err);
enum rt_jfile_end rt_jfile_db_commit(struct rt_jfile_db *d, int *err);
void rt_jfile_db_rollback(struct rt_jfile_db *d);

/* Runs the steps of BOOK and records their rows and counts. */
enum rt_jfile_end rt_jfile_db_run(struct rt_jfile_db *d, struct rt_sql_book *book, int *err);

/* sql.c. */
extern const char rt_jfile_schema[];
extern const struct rt_sql_saying rt_jfile_words[RT_ROWS_END];

#endif
