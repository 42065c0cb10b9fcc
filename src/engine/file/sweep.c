/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing away what the dead left, in bounded steps (I6). A row whose session's file is not
 * locked is dead for ever: the lock was there before the row, and ids are never used again. */
#include "engine/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SOME_SESSIONS 16 /* probed when a client opens: 3 us each */
#define SOME_FILES 256   /* names read from s/ then */
#define SOME_ENDED 64    /* tickets whose time is over, taken out then */
#define LINE_PAGE 64     /* tickets of one line read at a time, and probed */

/* ---- A session ------------------------------------------------------------------ */

static int collect(struct rt_file_conn *c, sqlite3_stmt *s, struct rt_file_rings *keys)
{
    int rc, rv = 0;
    while (rv == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct rt_file_ring key = {.number = (uint64_t)sqlite3_column_int64(s, 1)};
        const unsigned char *name = sqlite3_column_text(s, 0);
        rv = name != NULL ? rt_file_rings_add(keys, key, (const char *)name) : ROTA_NOMEM;
    }
    if (rv == 0 && rc != SQLITE_DONE)
        rv = rt_file_db_error(c, rc);
    (void)sqlite3_reset(s);
    return rv;
}

/* Tickets of SESSION: those of one line, by the line's key; then any, by a scan of the table, which
 * costs less, once per death, than an index would at every pair. Read before the transaction. */
static int collect_session(struct rt_file_conn *c, uint64_t session, const char *name,
                           struct rt_file_rings *keys)
{
    sqlite3_stmt *s = rt_file_stmt(c, name != NULL ? RT_FILE_LINE_OF_SESSION
                                                   : RT_FILE_SESSION_TICKETS);
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    (void)sqlite3_bind_int64(s, 1, (int64_t)session);
    (void)sqlite3_bind_int64(s, 2, RT_FILE_SWEEP_STEP);
    if (name != NULL)
        (void)sqlite3_bind_text(s, 3, name, -1, SQLITE_STATIC);
    return collect(c, s, keys);
}

static int remove_keys(struct rt_file_conn *c, const struct rt_file_rings *keys, uint64_t session)
{
    for (size_t i = 0; i < keys->count; i++) {
        const char *name = keys->text + keys->list[i].name;
        int64_t number = (int64_t)keys->list[i].number;
        struct rt_file_row row;
        bool found = false;
        int rv = rt_file_row_get(c, RT_FILE_TICKET_GET, name, 1, &number, &row, &found);
        if (rv == 0 && found && row.session == session && (row.flags & RT_FILE_DURABLE) == 0)
            rv = rt_file_line_remove(c, name, &row, false);
        if (rv != 0)
            return rv;
    }
    return 0;
}

static int drop_session(struct rt_file_conn *c, uint64_t session)
{
    int64_t id = (int64_t)session;
    bool observed = false;
    int rv = rt_file_observed(c, &observed);
    if (rv == 0 && observed)
        rv = rt_file_run(c, RT_FILE_OBSERVER_DROP_SESSION, 1, &id);
    if (rv == 0 && observed)
        rv = rt_file_run(c, RT_FILE_META_OBSERVERS, 0, NULL);
    return rv != 0 ? rv : rt_file_run(c, RT_FILE_SESSION_DROP, 1, &id);
}

int rt_file_sweep_session(struct rt_file_conn *c, uint64_t session, const char *name, bool *more)
{
    struct rt_file_rings keys = {0};
    bool last = false;
    *more = true;
    int rv = 0;
    if (name != NULL)
        rv = collect_session(c, session, name, &keys);
    if (rv == 0 && keys.count < RT_FILE_SWEEP_STEP) {
        size_t before = keys.count;
        rv = collect_session(c, session, NULL, &keys);
        last = keys.count - before < RT_FILE_SWEEP_STEP;
    }
    if (rv == 0)
        rv = rt_file_begin(c);
    if (rv != 0)
        goto free_keys;
    rv = remove_keys(c, &keys, session);
    if (rv == 0 && last)
        rv = drop_session(c, session);
    if (rv == 0)
        rv = rt_file_commit(c);
    else
        rt_file_rollback(c);
    if (rv == 0) {
        *more = !last;
        c->counted.sweeps++;
        if (last) /* now: a row without a file would live as long as its process */
            rt_file_session_unlink(c, session);
        rt_file_rings_send(c);
    }
free_keys:
    rt_file_rings_free(&keys);
    return rv;
}

/* ---- A line ----------------------------------------------------------------------- */

static int ids(struct rt_file_conn *c, sqlite3_stmt *s, uint64_t *out, size_t room, size_t *count)
{
    int rc = SQLITE_DONE;
    *count = 0;
    while (*count < room && (rc = sqlite3_step(s)) == SQLITE_ROW)
        out[(*count)++] = (uint64_t)sqlite3_column_int64(s, 0);
    (void)sqlite3_reset(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

struct probe { /* a ticket whose session is asked for */
    uint64_t number, session;
    uint32_t flags, mode;
};

/* Tickets of the line behind FROM, in its order: by the key, so a page costs no more than it has. */
static int page(struct rt_file_conn *c, const char *name, uint64_t from, struct probe *out,
                size_t *count)
{
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_LINE_PAGE);
    int rc = SQLITE_DONE;
    if (s == NULL)
        return rt_file_db_error(c, sqlite3_errcode(c->db));
    (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(s, 2, (int64_t)from);
    (void)sqlite3_bind_int64(s, 3, LINE_PAGE);
    for (*count = 0; *count < LINE_PAGE && (rc = sqlite3_step(s)) == SQLITE_ROW; (*count)++)
        out[*count] = (struct probe){.number = (uint64_t)sqlite3_column_int64(s, 0),
                                     .session = (uint64_t)sqlite3_column_int64(s, 1),
                                     .flags = (uint32_t)sqlite3_column_int64(s, 2),
                                     .mode = (uint32_t)sqlite3_column_int64(s, 3)};
    (void)sqlite3_reset(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

/* Whether one that lives excludes all others, so that no death behind it lets anybody in. */
static bool excludes(const struct probe *p)
{
    return (p->flags & RT_FILE_GRANTED) != 0 && p->mode == RT_EXCLUSIVE;
}

static int probe_page(struct rt_file_conn *c, const char *name, const struct probe *list,
                      size_t count, struct rt_file_cursor *at)
{
    for (size_t i = 0; i < count; i++) {
        const struct probe *p = &list[i];
        bool own = (p->flags & RT_FILE_DURABLE) != 0 || p->session == c->session;
        if (!own && p->session != at->alive && rt_file_session_dead(c, p->session)) {
            bool more = false;
            int rv = rt_file_sweep_session(c, p->session, name, &more);
            if (rv != 0)
                return rv;
            at->swept = true;
        } else if (!at->all && excludes(p)) {
            at->ended = true;
            return 0;
        } else if (!own) {
            at->alive = p->session;
        }
        at->from = p->number;
    }
    at->ended = count < LINE_PAGE;
    return 0;
}

int rt_file_sweep_line(struct rt_file_conn *c, const char *name, int pages,
                       struct rt_file_cursor *at)
{
    struct probe list[LINE_PAGE];
    at->swept = at->ended = false;
    at->alive = 0;
    for (int i = 0; i < pages && !at->ended; i++) {
        size_t count = 0;
        int rv = page(c, name, at->from, list, &count);
        if (rv == 0)
            rv = probe_page(c, name, list, count, at);
        if (rv != 0)
            return rv;
    }
    if (at->ended)
        at->from = 0;
    return 0;
}

/* ---- Anything -------------------------------------------------------------------- */

static void some_sessions(struct rt_file_conn *c)
{
    uint64_t sessions[SOME_SESSIONS], from = 0;
    size_t count = 0;
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_SESSION_SOME);
    if (s == NULL)
        return;
    /* From a random place, so that many living ones do not hide a dead one for ever. */
    if (getrandom(&from, sizeof(from), GRND_NONBLOCK) != (ssize_t)sizeof(from))
        from = 0;
    for (int round = 0; round < 2 && count < SOME_SESSIONS; round++) {
        (void)sqlite3_bind_int64(s, 1, round == 0 ? (int64_t)(from >> 1) : 0);
        (void)sqlite3_bind_int64(s, 2, SOME_SESSIONS);
        if (ids(c, s, sessions, SOME_SESSIONS, &count) != 0)
            return;
        for (size_t i = 0; i < count; i++) {
            bool more = false;
            if (sessions[i] != c->session && rt_file_session_dead(c, sessions[i]))
                (void)rt_file_sweep_session(c, sessions[i], NULL, &more);
        }
    }
}

static void some_ended(struct rt_file_conn *c)
{
    struct rt_file_rings keys = {0};
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_EXPIRED_SOME);
    if (s == NULL)
        return;
    (void)sqlite3_bind_int64(s, 1, rt_file_wall_ms());
    (void)sqlite3_bind_int64(s, 2, SOME_ENDED);
    if (collect(c, s, &keys) != 0 || keys.count == 0 || rt_file_begin(c) != 0)
        goto free_keys;
    int rv = 0;
    bool some = false;
    for (size_t i = 0; i < keys.count && rv == 0; i++)
        rv = rt_file_line_expire(c, keys.text + keys.list[i].name, &some);
    if (rv == 0 && rt_file_commit(c) == 0)
        rt_file_rings_send(c);
    else
        rt_file_rollback(c);
free_keys:
    rt_file_rings_free(&keys);
}

/* A file without a row: its maker died before the row was there, or is just about to make it;
 * so it is locked before it is unlinked. */
static void stray(struct rt_file_conn *c, const char *name)
{
    char *end = NULL;
    uint64_t session = strtoull(name, &end, 16);
    bool sock = strcmp(end, ".sock") == 0;
    sqlite3_stmt *s = rt_file_stmt(c, RT_FILE_SESSION_GET);
    if (session == 0 || (*end != '\0' && !sock) || s == NULL)
        return;
    (void)sqlite3_bind_int64(s, 1, (int64_t)session);
    int rc = sqlite3_step(s);
    (void)sqlite3_reset(s);
    if (rc != SQLITE_DONE)
        return;
    char file[17];
    (void)strncpy(file, name, 16);
    file[16] = '\0';
    int fd = openat(c->sdir, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd >= 0 ? fcntl(fd, F_OFD_SETLK, &lock) == 0 : errno == ENOENT)
        rt_file_session_unlink(c, session);
    if (fd >= 0)
        (void)close(fd);
}

static void some_files(struct rt_file_conn *c)
{
    int fd = openat(c->sdir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    struct dirent *e;
    for (int i = 0; i < SOME_FILES && (e = readdir(d)) != NULL; i++)
        if (e->d_name[0] != '.' && strlen(e->d_name) >= 16)
            stray(c, e->d_name);
    (void)closedir(d);
}

void rt_file_sweep_some(struct rt_file_conn *c)
{
    some_sessions(c);
    some_ended(c);
    some_files(c);
}
