/* SPDX-License-Identifier: Apache-2.0 */
/* Named engines: lines `name = url` in ~/.config/rota/config. */
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

int rt_config_find(const char *name, char **out, char *errmsg, size_t size)
{
    char path[PATH_ROOM];
    char line[LINE_ROOM];
    char *found = NULL;

    if (!config_path(path, sizeof(path))) {
        snprintf(errmsg, size, "'%.60s' is no URL, and without $HOME there is no list of names",
                 name);
        return ROTA_INVALID;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(errmsg, size,
                 "'%.60s' is no URL and there is no %.120s: write it like file: or add %s", name,
                 path, "'NAME = URL' there");
        return ROTA_INVALID;
    }
    unsigned number = 0;
    while (found == NULL && fgets(line, sizeof(line), file) != NULL) {
        number++;
        found = value_of(line, name);
    }
    fclose(file);
    if (found == NULL) {
        snprintf(errmsg, size, "no engine is named '%.60s' in %.120s: add a line '%.20s = URL'",
                 name, path, name);
        return ROTA_INVALID;
    }
    if (strchr(found, ':') == NULL) { /* names do not stand for names */
        snprintf(errmsg, size,
                 "%.120s:%u: '%.60s' is given no URL there: write it like %.20s = file:", path,
                 number, name, name);
        return ROTA_INVALID;
    }
    *out = rt_strdup(found);
    explicit_bzero(line, sizeof(line));
    return *out != NULL ? 0 : ROTA_NOMEM;
}
