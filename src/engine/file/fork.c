/* SPDX-License-Identifier: Apache-2.0 */
/* fork(): what a child inherits of SQLite must be given up before it opens its own.
 *
 * SQLite counts a process's locks in memory, and POSIX locks are not inherited: a child that
 * opened the database beside the inherited connections would share their counts and hold no lock
 * at all; another's close could then take the WAL away under it. So no fork happens while one of
 * our connections is at work, and the first open in a child closes the inherited ones. */
#include "engine/file/file.h"

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rt_file_conn *list;      /* of this process */
static struct rt_file_conn *inherited; /* of the parent: never used again, only closed */

static void before(void)
{
    (void)pthread_mutex_lock(&list_mutex);
    for (struct rt_file_conn *c = list; c != NULL; c = c->list_next)
        (void)pthread_mutex_lock(&c->mutex);
}

static void unlock_all(void)
{
    for (struct rt_file_conn *c = list; c != NULL; c = c->list_next)
        (void)pthread_mutex_unlock(&c->mutex);
}

static void in_parent(void)
{
    unlock_all();
    (void)pthread_mutex_unlock(&list_mutex);
}

static void in_child(void)
{
    unlock_all();
    struct rt_file_conn **at = &list;
    while (*at != NULL)
        at = &(*at)->list_next;
    *at = inherited; /* the parent may have inherited some itself */
    inherited = list;
    list = NULL;
    (void)pthread_mutex_unlock(&list_mutex);
}

static void install(void)
{
    (void)pthread_atfork(before, in_parent, in_child);
}

void rt_file_fork_add(struct rt_file_conn *c)
{
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    /* A log function of the user's that forks must not wait for itself. */
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&c->mutex, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    (void)pthread_mutex_lock(&list_mutex);
    c->list_next = list;
    list = c;
    (void)pthread_mutex_unlock(&list_mutex);
}

void rt_file_fork_remove(struct rt_file_conn *c)
{
    (void)pthread_mutex_lock(&list_mutex);
    struct rt_file_conn **at = &list;
    while (*at != NULL && *at != c)
        at = &(*at)->list_next;
    if (*at != NULL)
        *at = c->list_next;
    (void)pthread_mutex_unlock(&list_mutex);
    (void)pthread_mutex_destroy(&c->mutex);
}

void rt_file_fork_clean(void)
{
    (void)pthread_once(&once, install);
    (void)pthread_mutex_lock(&list_mutex);
    while (inherited != NULL) {
        struct rt_file_conn *c = inherited;
        inherited = c->list_next;
        /* No checkpoint: the child has no say in the parent's files. */
        if (c->db != NULL)
            (void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
        c->wal_frames = 0;
        rt_file_db_close(c);
    }
    (void)pthread_mutex_unlock(&list_mutex);
}

void rt_file_enter(struct rt_file_conn *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    c->depth++;
    rt_file_torn_mend(c);
}

void rt_file_exit(struct rt_file_conn *c)
{
    c->depth--;
    (void)pthread_mutex_unlock(&c->mutex);
}

void rt_file_fork_leave(const struct rt_file_conn *c)
{
    if (pthread_mutex_trylock(&list_mutex) != 0)
        return;
    for (struct rt_file_conn *o = list; o != NULL; o = o->list_next) {
        if (o == c || pthread_mutex_trylock(&o->mutex) != 0)
            continue;
        if (o->depth == 0 && o->session == 0 && o->db != NULL && !rt_file_db_linked(o))
            rt_file_db_close(o);
        (void)pthread_mutex_unlock(&o->mutex);
    }
    (void)pthread_mutex_unlock(&list_mutex);
}
