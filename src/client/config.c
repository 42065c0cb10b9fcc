/* SPDX-License-Identifier: Apache-2.0 */
/* Named engines: lines `name = url` in ~/.config/rota/config, then in /etc/rota/config. */
#include "client/client.h"

#include "base/alloc.h"
#include "engine/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 4096
#define LINE_ROOM (RT_URL_MAX + 512)

static bool config_path(char *path, size_t size)
{
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int used = -1;

    if (xdg != NULL && xdg[0] == '/')
        used = snprintf(path, size, "%s/rota/config", xdg);
    else if (home != NULL && home[0] != '\0')
        used = snprintf(path, size, "%s/.config/rota/config", home);
    return used > 0 && (size_t)used < size;
}

/* Cuts white space off both ends. */
static char *trim(char *text)
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
    char *text = trim(line);
    char *equals = strchr(text, '=');

    if (text[0] == '#' || equals == NULL)
        return NULL;
    *equals = '\0';
    return strcmp(trim(text), name) == 0 ? trim(equals + 1) : NULL;
}

/* What FILE says of NAME, in *OUT: ROTA_INVALID and nothing in ERRMSG: it does not. */
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

int rt_config_find(const char *name, char **out, char *errmsg, size_t size)
{
    char own[PATH_ROOM];
    const char *paths[2], *seen = NULL;
    int n = 0, rv = ROTA_INVALID;

    errmsg[0] = '\0';
    if (config_path(own, sizeof(own)))
        paths[n++] = own; /* a user's own names come first */
    paths[n++] = rt_config_system;
    for (int i = 0; i < n && rv == ROTA_INVALID && errmsg[0] == '\0'; i++) {
        FILE *file = fopen(paths[i], "re");
        if (file == NULL)
            continue;
        seen = seen == NULL ? paths[i] : seen;
        rv = look_up(file, paths[i], name, out, errmsg, size);
        fclose(file);
    }
    if (rv != ROTA_INVALID || errmsg[0] != '\0')
        return rv;
    if (seen != NULL)
        snprintf(errmsg, size, "no engine is named '%.60s' in %.120s: add a line '%.20s = URL'",
                 name, seen, name);
    else if (n == 2)
        snprintf(errmsg, size,
                 "'%.60s' is no URL and there is no %.120s: write it like file: or add %s", name,
                 own, "'NAME = URL' there");
    else
        snprintf(errmsg, size, "'%.60s' is no URL, and without $HOME there is no list of names",
                 name);
    return rv;
}
