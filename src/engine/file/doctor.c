/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor: which promises hold in this folder, and what to do about those that do not. */
#include "engine/file/file.h"
#include "engine/kit/words.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define say rt_words_verdict

static int text_of(struct rt_file_conn *c, const char *sql, char *out, size_t size)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    const unsigned char *text = rc == SQLITE_ROW ? sqlite3_column_text(s, 0) : NULL;
    (void)snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
    (void)sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : rt_file_db_error(c, rc);
}

static void check_place(struct rt_file_conn *c, struct rt_op *op)
{
    struct stat here, there;
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/s", c->folder);
    const char *remote = rt_file_path_remote(c->dir);
    bool same = fstat(c->sdir, &here) == 0 && stat(path, &there) == 0 &&
                here.st_ino == there.st_ino && here.st_dev == there.st_dev;
    if (remote != NULL)
        say(op, "one holder at a time (I1)", "broken", remote, "move the folder to a local disk");
    else if (!same)
        say(op, "one holder at a time (I1)", "broken", "the folder was moved or replaced",
            "end all programs that use it, then start them again");
    else
        say(op, "one holder at a time (I1)", "kept", "local file system", "");
}

static void check_settings(struct rt_file_conn *c, struct rt_op *op, const char *journal,
                           const char *sync)
{
    const struct rt_file_forgets *forgets = rt_file_path_forgets(c->dir);
    bool sound = strcmp(journal, "wal") == 0 && strcmp(sync, "0") != 0;
    char text[160];
    (void)snprintf(text, sizeof(text), "%s; then the clock alone keeps fences growing",
                   forgets != NULL ? forgets->what : "");
    if (sound && forgets != NULL)
        say(op, "fences only grow (I2)", "limited", text, forgets->remedy);
    else
        say(op, "fences only grow (I2)", sound ? "kept" : "broken",
            "reserved on the disk, ten minutes of the clock at a time",
            sound ? "" : "use WAL again");
    say(op, "order of arrival (I7)", "kept", "one counter for all lines", "");
    if (forgets != NULL)
        say(op, "durable tickets", "limited", forgets->what, forgets->remedy);
    else
        say(op, "durable tickets", "limited",
            "WAL, synchronous=NORMAL: a power loss may undo the last moments",
            "keep what must never be undone on a server with synchronous commits");
}

static void check_rights(struct rt_file_conn *c, struct rt_op *op)
{
    struct stat st;
    char text[64];
    if (fstat(c->dir, &st) != 0)
        return;
    (void)snprintf(text, sizeof(text), "folder %04o, files %04o", (unsigned)st.st_mode & 07777,
                   (unsigned)c->mode);
    bool open_to_group = (st.st_mode & S_IWGRP) != 0 && (c->mode & 0060) == 0;
    say(op, "rights", open_to_group ? "limited" : "kept", text,
        open_to_group ? "chmod g-w the folder, or share it by mode=0660" : "");
}

int rt_file_check(struct rt_file_conn *c, struct rt_op *op)
{
    char journal[16], sync[16], sound[128], owner[64] = "free";
    int rv = text_of(c, "PRAGMA journal_mode", journal, sizeof(journal));
    if (rv == 0)
        rv = text_of(c, "PRAGMA synchronous", sync, sizeof(sync));
    if (rv == 0)
        rv = text_of(c, "PRAGMA quick_check(1)", sound, sizeof(sound));
    if (rv != 0)
        return rv;
    pid_t pid = rt_file_lock_owner(c);
    if (pid > 0)
        (void)snprintf(owner, sizeof(owner), "held by process %d", (int)pid);
    check_place(c, op);
    check_settings(c, op, journal, sync);
    check_rights(c, op);
    say(op, "database", strcmp(sound, "ok") == 0 ? "kept" : "broken", sound,
        strcmp(sound, "ok") == 0 ? "" : "end all programs that use it and move rota.db* away");
    say(op, "write lock", pid > 0 ? "limited" : "kept", owner,
        pid > 0 ? "if it stays: continue or end that process" : "");
    return 0;
}
