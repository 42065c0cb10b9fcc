/* SPDX-License-Identifier: Apache-2.0 */
/* fork(): what a child inherits of SQLite is given up before it opens its own, as in engine/file/fork.c.
 *
 * SQLite counts a process's locks in memory, and POSIX locks are not inherited: a child that opened the file beside the
 * inherited connection would share its counts and hold no lock at all, and whoever closed last elsewhere would delete
 * the WAL with what the child decides. And a mutex of SQLite's that the writer held at the fork never becomes free in
 * the child. So no fork happens while one of us is at work, and the first open in a child closes what was inherited. */
#include "txn/journal/file/db.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rt_jfile_db *list;      /* of this process */
static struct rt_jfile_db *inherited; /* of the parent: never used again, only closed */

static void before(void)
{
    (void)pthread_mutex_lock(&mutex);
    for (struct rt_jfile_db *d = list; d != NULL; d = d->next)
        (void)pthread_mutex_lock(&d->at_work);
}

static void unlock_all(void)
{
    for (struct rt_jfile_db *d = list; d != NULL; d = d->next)
        (void)pthread_mutex_unlock(&d->at_work);
}

static void in_parent(void)
{
    unlock_all();
    (void)pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    unlock_all();
    struct rt_jfile_db **at = &list;
    while (*at != NULL)
        at = &(*at)->next;
    *at = inherited; /* the parent may have inherited some, too */
    inherited = list;
    list = NULL;
    (void)pthread_mutex_unlock(&mutex);
}

static void install(void)
{
    (void)pthread_atfork(before, in_parent, in_child);
}

void rt_jfile_fork_hold(void)
{
    (void)pthread_once(&once, install);
    (void)pthread_mutex_lock(&mutex);
    while (inherited != NULL) {
        struct rt_jfile_db *d = inherited;
        inherited = d->next;
        /* No checkpoint: the child has no say in the parent's file. */
        (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
        rt_jfile_db_end(d);
    }
}

void rt_jfile_fork_let(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

void rt_jfile_fork_add(struct rt_jfile_db *d)
{
    (void)pthread_mutex_init(&d->at_work, NULL);
    d->next = list;
    list = d;
}

void rt_jfile_fork_remove(struct rt_jfile_db *d)
{
    struct rt_jfile_db **at = &list;
    while (*at != NULL && *at != d)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = d->next;
    (void)pthread_mutex_destroy(&d->at_work);
}
