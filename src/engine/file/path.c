/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of the embedded engine: found, made, and refused where it would not be safe. */
#include "base/alloc.h"
#include "engine/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MODE_DEFAULT 0600
#define MODE_SHARED 0660 /* nothing for others: they could take locks away */

static const struct {
    uint32_t type; /* of struct statfs */
    const char *name;
} remote_types[] = {
    {0x00006969, "NFS"},      {0x0000517b, "SMB"},    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},     {0x5346414f, "AFS"},    {0x6b414653, "AFS"},
    {0x73757245, "Coda"},     {0x00c36400, "Ceph"},   {0x01021997, "9p"},
    {0x65735546, "FUSE"},     {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
    {0x7461636f, "OCFS2"},    {0x01161970, "GFS2"},   {0x786f4256, "VirtualBox shared"},
    {0x20030528, "OrangeFS"}, {0x0000564c, "NCP"},    {0x19830326, "BeeGFS"},
};

const char *rt_file_path_remote(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return "unknown";
    for (size_t i = 0; i < sizeof(remote_types) / sizeof(remote_types[0]); i++)
        if ((uint32_t)fs.f_type == remote_types[i].type)
            return remote_types[i].name;
    return NULL;
}

static const struct {
    uint32_t type;
    struct rt_file_forgets forgets;
} forgetting_types[] = {
    {0x01021994, {"in memory (tmpfs): a boot or an unmount empties it", "use a folder on a disk"}},
    {0x858458f6, {"in memory (ramfs): a boot or an unmount empties it", "use a folder on a disk"}},
    {0x794c7630,
     {"overlay, as of a container: gone with it", "use a folder on a volume, or on a disk"}},
};

const struct rt_file_forgets *rt_file_path_forgets(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return NULL; /* refused before, as unknown */
    for (size_t i = 0; i < sizeof(forgetting_types) / sizeof(forgetting_types[0]); i++)
        if ((uint32_t)fs.f_type == forgetting_types[i].type)
            return &forgetting_types[i].forgets;
    return NULL;
}

static int parse_mode(struct rt_file_conn *c, const char *text)
{
    c->mode = MODE_DEFAULT;
    c->mode_asked = 0;
    if (text == NULL || *text == '\0')
        return 0;
    char *end = NULL;
    unsigned long mode = strtoul(text, &end, 8);
    if (*end != '\0' || (mode != MODE_DEFAULT && mode != MODE_SHARED)) {
        rt_file_say(c, "mode=%s: use 0600, or 0660 to share the folder with its group", text);
        return ROTA_INVALID;
    }
    c->mode = c->mode_asked = (mode_t)mode;
    return 0;
}

/* The end of a long path: a message is one line of 255 bytes, and must come to its reason. */
static void show(struct rt_file_conn *c, const char *path)
{
    size_t size = strlen(path), room = sizeof(c->shown) - 1;
    if (size <= room)
        (void)snprintf(c->shown, sizeof(c->shown), "%s", path);
    else
        (void)snprintf(c->shown, sizeof(c->shown), "...%s", path + size - room + 3);
}

static int check_length(struct rt_file_conn *c, size_t size)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    int most = vfs != NULL ? vfs->mxPathname - (int)sizeof("/rota.db-journal") : 0;
    if (most <= 0 || size <= (size_t)most)
        return 0;
    rt_file_say(c, "the path of folder %s has %zu bytes, %d may be: name a shorter one", c->shown,
                size, most);
    return ROTA_INVALID;
}

/* The folder as the URL says it; "" is the user's own. */
static int spell(struct rt_file_conn *c, const char *path, char *out, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n;
    if (*path != '\0')
        n = snprintf(out, size, "%s", path);
    else if (state != NULL && *state == '/')
        n = snprintf(out, size, "%s/rota", state);
    else if (home != NULL && *home == '/')
        n = snprintf(out, size, "%s/.local/state/rota", home);
    else {
        rt_file_say(c, "no home folder: set HOME or XDG_STATE_HOME, or name one as file:/folder");
        return ROTA_INVALID;
    }
    if (n < 0 || (size_t)n >= size) {
        rt_file_say(c, "the folder's name is too long");
        return ROTA_INVALID;
    }
    while (n > 1 && out[n - 1] == '/')
        out[--n] = '\0';
    show(c, out);
    return 0;
}

static mode_t folder_mode(const struct rt_file_conn *c)
{
    /* Setgid: what others of the group make in it belongs to the group. */
    return (c->mode & 0060) != 0 ? 02770 : 0700;
}

/* Makes the default folder's parents too, as the XDG specification asks (0700). MADE: it was not there. */
static int make(struct rt_file_conn *c, char *path, bool parents, bool *made)
{
    for (char *p = path + 1; parents && *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(path, 0700); /* if it failed, the last one says why */
        *p = '/';
    }
    *made = mkdir(path, 0700) == 0;
    if (*made || errno == EEXIST)
        return 0;
    int err = errno;
    rt_file_say(c, "cannot make folder %s: %s; %s", c->shown, strerror(err),
                err == ENOENT ? "make its parent first"
                              : "name a folder you may write, as file:/folder");
    return err == EACCES || err == EPERM || err == EROFS ? ROTA_AUTH : ROTA_UNREACHABLE;
}

/* How an existing database is shared, counts: files that others cannot open would keep a dead
 * holder's lock. Without `mode=` this is only taken from one's own folder. */
static int adopt_mode(struct rt_file_conn *c)
{
    struct stat dir, db;
    if (fstat(c->dir, &dir) != 0 || fstatat(c->dir, "rota.db", &db, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    mode_t mode = (db.st_mode & 0060) == 0060 ? 0660 : 0600;
    if (c->mode_asked == 0) {
        c->mode = dir.st_uid == geteuid() ? mode : MODE_DEFAULT;
        return 0;
    }
    if (c->mode_asked == mode)
        return 0;
    rt_file_say(c,
                "%s/rota.db has mode %04o, not %04o: leave mode= out, or chmod all in the folder",
                c->shown, (unsigned)mode, (unsigned)c->mode_asked);
    return ROTA_INVALID;
}

static int check_owner(struct rt_file_conn *c, int fd, const char *what)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        rt_file_say(c, "cannot look at %s: %s", what, strerror(errno));
        return ROTA_UNREACHABLE;
    }
    bool shared = (c->mode & 0060) != 0;
    if (st.st_uid != geteuid() && !shared) {
        rt_file_say(c,
                    "%s belongs to user %u: use a folder of your own, or mode=0660 on both sides",
                    what, (unsigned)st.st_uid);
        return ROTA_AUTH;
    }
    if ((st.st_mode & S_IWOTH) != 0) {
        rt_file_say(c, "%s can be written by everybody: chmod o-w it, or use another folder", what);
        return ROTA_AUTH;
    }
    if (shared && st.st_uid != geteuid() && (st.st_mode & S_IWGRP) == 0) {
        rt_file_say(c, "%s is not shared with its group: its owner may chmod 2770 it", what);
        return ROTA_AUTH;
    }
    return 0;
}

static int open_folder(struct rt_file_conn *c, int at, const char *path, const char *what, int *out)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        int err = errno;
        if (err == ENOTDIR || err == ELOOP)
            rt_file_say(c, "%s is not a folder, or a symbolic link: name the real folder", what);
        else if (!rt_file_say_files(c, err))
            rt_file_say(c, "cannot open folder %s: %s", what, strerror(err));
        return err == EACCES || err == EPERM    ? ROTA_AUTH
               : err == ENOTDIR || err == ELOOP ? ROTA_INVALID
                                                : ROTA_UNREACHABLE;
    }
    *out = fd;
    return 0;
}

/* Whether there is nothing in the folder but what clients that were faster put there. */
static bool is_new(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *e;
    bool ours = d != NULL;
    while (ours && (e = readdir(d)) != NULL)
        ours = e->d_name[0] == '.' || strcmp(e->d_name, "s") == 0 ||
               strncmp(e->d_name, "rota.db", strlen("rota.db")) == 0 ||
               strncmp(e->d_name, "txn.db", strlen("txn.db")) == 0;
    if (d != NULL)
        (void)closedir(d);
    else if (copy >= 0)
        (void)close(copy);
    return ours;
}

/* The rights of a folder that we made just now, if it is the one. What bears its name by now may be
 * somebody's link, or another folder of ours that somebody moved there (from beside it: the kernel
 * lets nobody move a folder elsewhere who may not write it). */
static int share(struct rt_file_conn *c, int fd, bool is_it, const char *what)
{
    struct stat st;
    if (is_it && fstat(fd, &st) == 0 && st.st_uid == geteuid() && fchmod(fd, folder_mode(c)) == 0)
        return 0;
    rt_file_say(c, "%s was replaced while it was made: see who may write beside it, and try again",
                what);
    return ROTA_AUTH;
}

static int open_sessions(struct rt_file_conn *c)
{
    if (faccessat(c->dir, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        int err = errno;
        rt_file_say(c, "folder %s cannot be written: %s; name one you may write, as file:/folder",
                    c->shown, strerror(err));
        return ROTA_AUTH;
    }
    bool made = mkdirat(c->dir, "s", 0700) == 0;
    if (!made && errno != EEXIST) {
        rt_file_say(c, "cannot make %s/s: %s", c->shown, strerror(errno));
        return errno == EACCES || errno == EROFS ? ROTA_AUTH : ROTA_UNREACHABLE;
    }
    int rv = open_folder(c, c->dir, "s", "s/ of the folder", &c->sdir);
    if (rv == 0 && made)
        rv = share(c, c->sdir, true, "the folder s/ of sessions");
    return rv != 0 ? rv : check_owner(c, c->sdir, "the folder s/ of sessions");
}

static int resolve(struct rt_file_conn *c, const char *path)
{
    char *real = realpath(path, NULL); /* libc's: given back below */
    if (real == NULL) {
        rt_file_say(c, "cannot resolve %s: %s", c->shown, strerror(errno));
        return errno == ENOMEM ? ROTA_NOMEM : ROTA_UNREACHABLE;
    }
    show(c, real);
    int rv = check_length(c, strlen(real));
    c->folder = rv == 0 ? rt_strdup(real) : NULL;
    free(real);
    return rv == 0 && c->folder == NULL ? ROTA_NOMEM : rv;
}

int rt_file_path_folder(struct rt_file_conn *c, const char *path, const char *mode)
{
    char text[PATH_MAX];
    bool made = false;
    int rv = parse_mode(c, mode);
    if (rv == 0)
        rv = spell(c, path, text, sizeof(text));
    if (rv == 0)
        rv = make(c, text, *path == '\0', &made);
    if (rv == 0)
        rv = open_folder(c, AT_FDCWD, text, c->shown, &c->dir);
    if (rv == 0 && made)
        rv = share(c, c->dir, is_new(c->dir), c->shown);
    if (rv == 0)
        rv = adopt_mode(c);
    if (rv == 0)
        rv = check_owner(c, c->dir, c->shown);
    if (rv == 0)
        rv = resolve(c, text);
    if (rv == 0) {
        const char *remote = rt_file_path_remote(c->dir);
        if (remote != NULL) {
            rt_file_say(c,
                        "%s is on a %s file system, whose locks cannot be trusted: use a local one",
                        c->shown, remote);
            rv = ROTA_UNSUPPORTED;
        }
    }
    if (rv != 0)
        return rv;
    const struct rt_file_forgets *forgets = rt_file_path_forgets(c->dir);
    c->base.unsafe[0] = '\0';
    if (forgets != NULL)
        (void)snprintf(c->base.unsafe, sizeof(c->base.unsafe), "%s: %s", forgets->what,
                       forgets->remedy);
    atomic_store_explicit(&c->strict, forgets == NULL, memory_order_relaxed);
    return 0;
}

int rt_file_path_open(struct rt_file_conn *c, const char *path, const char *mode)
{
    int rv = rt_file_path_folder(c, path, mode);
    return rv != 0 ? rv : open_sessions(c);
}

void rt_file_path_close(struct rt_file_conn *c)
{
    if (c->sdir >= 0)
        (void)close(c->sdir);
    if (c->dir >= 0)
        (void)close(c->dir);
    rt_free(c->folder);
    c->dir = c->sdir = -1;
    c->folder = NULL;
}
