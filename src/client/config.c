/* SPDX-License-Identifier: Apache-2.0 */
/* Named engines: lines `name = url` in ~/.config/rota/config, then in /etc/rota/config. */
#include "client/config.h"

#include "base/alloc.h"
#include "base/secret.h"
#include "engine/url.h"

#include <rota.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 4096
#define LINE_ROOM (RT_URL_MAX + 512)

bool rt_config_own(const char *file, char *path, size_t size)
{
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int used = -1;

    if (xdg != NULL && xdg[0] == '/')
        used = snprintf(path, size, "%s/rota/%s", xdg, file);
    else if (home != NULL && home[0] != '\0')
        used = snprintf(path, size, "%s/.config/rota/%s", home, file);
    return used > 0 && (size_t)used < size;
}

char *rt_config_trim(char *text)
{
    text += strspn(text, " \t\r\n");
    size_t size = strlen(text);
    while (size > 0 && strchr(" \t\r\n", text[size - 1]) != NULL)
        text[--size] = '\0';
    return text;
}

/* The URL if LINE is `NAME = url`, else NULL. */
static char *value_of(char *line, const char *name)
{
    char *text = rt_config_trim(line);
    char *equals = strchr(text, '=');

    if (text[0] == '#' || equals == NULL)
        return NULL;
    *equals = '\0';
    return strcmp(rt_config_trim(text), name) == 0 ? rt_config_trim(equals + 1) : NULL;
}

/* What FILE says of NAME, in *OUT. ROTA_INVALID with nothing in ERRMSG: it says nothing. */
static int look_up(FILE *file, const char *path, const char *name, char **out, char *errmsg,
                   size_t size)
{
    char line[LINE_ROOM];
    char *found = NULL;
    unsigned number = 0;
    int rv = ROTA_INVALID;

    while (found == NULL && fgets(line, sizeof(line), file) != NULL) {
        number++;
        found = value_of(line, name);
    }
    if (found != NULL && strchr(found, ':') == NULL) { /* names do not stand for names */
        snprintf(errmsg, size,
                 "%.120s:%u: '%.60s' is given no URL there: write it like %.20s = file:", path,
                 number, name, name);
    } else if (found != NULL) {
        *out = rt_strdup(found);
        rv = *out != NULL ? 0 : ROTA_NOMEM;
    }
    explicit_bzero(line, sizeof(line));
    return rv;
}

const char *rt_config_system = "/etc/rota/config";

/* Where a name was looked for. */
struct search {
    char own[PATH_ROOM]; /* "": without $HOME there is none */
    const char *seen;    /* the first file that was read; NULL: none */
    const char *shut;    /* the last that is there and cannot be read; NULL: none */
    int shut_errno;
};

/* As look_up; a file that cannot be read has no names. */
static int search_in(struct search *s, const char *path, const char *name, char **out, char *errmsg,
                     size_t size)
{
    char buffer[RT_SECRET_BUFFER];
    FILE *file = rt_secret_open(path, buffer);
    int rv = ROTA_INVALID, err = errno;

    if (file != NULL) {
        errno = 0;
        rv = look_up(file, path, name, out, errmsg, size);
        err = ferror(file) != 0 ? errno : 0;
        fclose(file);
        explicit_bzero(buffer, sizeof(buffer));
    }
    if (err == 0) {
        s->seen = s->seen == NULL ? path : s->seen;
    } else if (err != ENOENT && err != ENOTDIR) {
        s->shut = path;
        s->shut_errno = err;
    }
    return rv;
}

static void tell_missing(const struct search *s, const char *name, char *errmsg, size_t size)
{
    if (s->shut != NULL)
        snprintf(errmsg, size,
                 "'%.60s' is no URL, and %.100s, which may name it, cannot be read: %s", name,
                 s->shut, strerror(s->shut_errno));
    else if (s->seen != NULL)
        snprintf(errmsg, size, "no engine is named '%.60s' in %.120s: add a line '%.20s = URL'",
                 name, s->seen, name);
    else if (s->own[0] != '\0')
        snprintf(errmsg, size,
                 "'%.60s' is no URL: write it like file: or add 'NAME = URL' to %.60s or %.60s; %s",
                 name, s->own, rt_config_system, "neither is there");
    else
        snprintf(errmsg, size,
                 "'%.60s' is no URL, and there is no list of names: no $HOME, and no %.100s", name,
                 rt_config_system);
}

int rt_config_find(const char *name, char **out, char *errmsg, size_t size)
{
    struct search s = {.own = ""};
    int rv = ROTA_INVALID;

    errmsg[0] = '\0';
    if (!rt_config_own("config", s.own, sizeof(s.own)))
        s.own[0] = '\0';
    if (s.own[0] != '\0') /* a user's own names come first */
        rv = search_in(&s, s.own, name, out, errmsg, size);
    if (rv == ROTA_INVALID && errmsg[0] == '\0')
        rv = search_in(&s, rt_config_system, name, out, errmsg, size);
    if (rv == ROTA_INVALID && errmsg[0] == '\0')
        tell_missing(&s, name, errmsg, size);
    return rv;
}
