/* SPDX-License-Identifier: Apache-2.0 */
/* Files of resources: lines `name = url`, and `on_attention = command`, in ~/.config/rota/txn, then in /etc/rota/txn. */
#include "txn/manager/resource_inside.h"

#include "base/alloc.h"
#include "base/secret.h"
#include "client/config.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_ROOM 4096
#define LINE_ROOM (RT_URL_MAX + 512)
#define HOOK RT_RESOURCE_HOOK

const char *rt_resources_system = "/etc/rota/txn";

struct reading {
    struct rt_resources *table;
    const char *path;
    unsigned load, line;
    bool has_password;
};

/* Returns ERR, with "FILE:LINE: " before the message. */
static int fault(const struct reading *f, int err, const char *what, char *errmsg, size_t size)
{
    snprintf(errmsg, size, "%.100s:%u: %s", f->path, f->line, what);
    return err;
}

static int take_hook(struct reading *f, const char *command, char *errmsg, size_t size)
{
    struct rt_resources *t = f->table;

    if (command[0] == '\0')
        return fault(f, ROTA_INVALID, HOOK " has no command: write one, or leave the line out",
                     errmsg, size);
    if (t->on_attention != NULL && t->on_attention_load == f->load)
        return fault(f, ROTA_INVALID, HOOK " is named twice: keep one", errmsg, size);
    if (t->on_attention != NULL)
        return 0; /* the first file's counts */
    t->on_attention = rt_strdup(command);
    t->on_attention_load = f->load;
    return t->on_attention != NULL ? 0 : fault(f, ROTA_NOMEM, "out of memory", errmsg, size);
}

static int take_line(struct reading *f, char *line, char *errmsg, size_t size)
{
    char why[RT_RESOURCE_LINE];
    bool whole = strlen(line) + 1 < LINE_ROOM || strchr(line, '\n') != NULL;
    char *text = rt_config_trim(line);
    char *equals = strchr(text, '=');

    if (!whole)
        return fault(f, ROTA_INVALID, "the line is too long", errmsg, size);
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    if (equals == NULL) /* not shown: it may hold a secret */
        return fault(f, ROTA_INVALID, "this is not NAME = URL", errmsg, size);
    *equals = '\0';
    if (strcmp(rt_config_trim(text), HOOK) == 0)
        return take_hook(f, rt_config_trim(equals + 1), errmsg, size);
    int rv = rt_resources_put(f->table, rt_config_trim(text), rt_config_trim(equals + 1), f->load,
                              &f->has_password, why, sizeof(why));
    return rv == 0 ? 0 : fault(f, rv, why, errmsg, size);
}

static void warn(const struct reading *f, FILE *file)
{
    const struct rt_resources_hooks *hooks = &f->table->hooks;
    char line[RT_RESOURCE_LINE];
    struct stat st;

    if (!f->has_password || hooks->warn == NULL || fstat(fileno(file), &st) != 0 ||
        (st.st_mode & S_IROTH) == 0)
        return;
    snprintf(line, sizeof(line),
             "%.100s contains a password, and everybody can read it: chmod 600 it, or use "
             "?password_file=",
             f->path);
    hooks->warn(hooks->arg, line);
}

/* MUST: a missing file is an error. */
static int read_file(struct rt_resources *t, const char *path, bool must, char *errmsg, size_t size)
{
    struct reading f = {.table = t, .path = path};
    char line[LINE_ROOM], buffer[RT_SECRET_BUFFER];
    FILE *file = rt_secret_open(path, buffer);
    int rv = 0;

    if (file == NULL && !must && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (file == NULL) {
        snprintf(errmsg, size, "the list of resources %.150s cannot be read: %s", path,
                 strerror(errno));
        return ROTA_INVALID;
    }
    pthread_mutex_lock(&t->mu);
    f.load = ++t->loads;
    pthread_mutex_unlock(&t->mu);
    errno = 0;
    while (rv == 0 && fgets(line, sizeof(line), file) != NULL) {
        f.line++;
        rv = take_line(&f, line, errmsg, size);
    }
    if (rv == 0 && ferror(file) != 0) {
        snprintf(errmsg, size, "the list of resources %.150s cannot be read: %s", path,
                 strerror(errno));
        rv = ROTA_INVALID;
    }
    warn(&f, file);
    fclose(file);
    explicit_bzero(line, sizeof(line));
    explicit_bzero(buffer, sizeof(buffer));
    return rv;
}

/* ---- Once more ------------------------------------------------------------------- */

static void take_command(struct rt_resources *t, struct rt_resources *fresh)
{
    rt_free(t->on_attention);
    t->on_attention = fresh->on_attention;
    fresh->on_attention = NULL;
}

int rt_resources_reload(struct rt_resources *t, const char *path,
                        void (*each)(void *arg, const char *name, enum rt_resource_news news),
                        void *arg, char *errmsg, size_t size)
{
    struct rt_renewal n = {.t = t, .each = each, .arg = arg, .errmsg = errmsg, .size = size};

    snprintf(errmsg, size, "out of memory");
    int rv = rt_resources_open(&n.fresh, NULL);
    if (rv != 0)
        return rv;
    n.err = rt_resources_load(n.fresh, path, errmsg, size);
    pthread_mutex_lock(&t->mu);
    if (n.err == 0)
        rt_renewal_check(&n);
    if (n.err == 0)
        rt_renewal_check_sites(&n);
    if (n.err == 0)
        rt_renewal_take(&n);
    if (n.err == 0)
        rt_renewal_take_sites(&n);
    if (n.err == 0)
        take_command(t, n.fresh);
    pthread_mutex_unlock(&t->mu);
    rt_resources_close(n.fresh);
    return n.err;
}

static void stamp_file(const char *path, int64_t out[5])
{
    struct stat st;

    if (stat(path, &st) != 0)
        return;
    out[0] = (int64_t)st.st_dev;
    out[1] = (int64_t)st.st_ino;
    out[2] = (int64_t)st.st_size;
    out[3] = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    out[4] = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
}

void rt_resources_stamp(const char *path, struct rt_resources_stamp *out)
{
    char own[PATH_ROOM];

    memset(out, 0, sizeof(*out));
    if (path != NULL) {
        stamp_file(path, out->of[0]);
        return;
    }
    if (rt_config_own("txn", own, sizeof(own)))
        stamp_file(own, out->of[0]);
    stamp_file(rt_resources_system, out->of[1]);
}

int rt_resources_load(struct rt_resources *t, const char *path, char *errmsg, size_t size)
{
    char own[PATH_ROOM];

    assert(size > 0);
    if (path != NULL)
        return read_file(t, path, true, errmsg, size);
    int rv = rt_config_own("txn", own, sizeof(own)) ? read_file(t, own, false, errmsg, size) : 0;
    return rv != 0 ? rv : read_file(t, rt_resources_system, false, errmsg, size);
}

const char *rt_resources_on_attention(const struct rt_resources *t)
{
    return t->on_attention;
}
