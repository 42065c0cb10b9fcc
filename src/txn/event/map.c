/* SPDX-License-Identifier: Apache-2.0 */
/* A map of columns: read, printed; and the ids of messages that follow from it. */
#include "txn/event/event.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_MAX 16384

const char *const rt_event_state_names[RT_EVENT_STATES] = {"new", "published", "processed", "dead"};

static const char *const column_names[RT_COLUMNS] = {
    [RT_COLUMN_ID] = "id",       [RT_COLUMN_EVENT_ID] = "event_id", [RT_COLUMN_TOPIC] = "topic",
    [RT_COLUMN_KEY] = "key",     [RT_COLUMN_TYPE] = "type",         [RT_COLUMN_PAYLOAD] = "payload",
    [RT_COLUMN_STATE] = "state", [RT_COLUMN_CREATED] = "created",   [RT_COLUMN_UPDATED] = "updated",
};

void rt_event_map_default(struct rt_event_map *map)
{
    *map = (struct rt_event_map){.table = RT_EVENT_TABLE, .own = true};
    for (int i = 0; i < RT_COLUMNS; i++)
        snprintf(map->columns[i].text, RT_EVENT_WORD, "%s",
                 i == RT_COLUMN_KEY ? "msg_key" : column_names[i]);
    for (int i = 0; i < RT_EVENT_STATES; i++)
        snprintf(map->states[i], RT_EVENT_WORD, "%s", rt_event_state_names[i]);
}

__attribute__((format(printf, 3, 4))) static int refuse(char *errmsg, size_t size,
                                                        const char *format, ...)
{
    char line[500];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (char *c = line; *c != '\0'; c++)
        *c = (char)((unsigned char)*c < ' ' ? '?' : *c);
    snprintf(errmsg, size, "the map of columns: %s", line);
    return ROTA_INVALID;
}

/* ---- Reading ---------------------------------------------------------------------------- */

struct reading {
    const char *at;
    char name[32];
    struct rt_event_word value;
    bool quoted_badly, too_long;
};

static bool ends_entry(char c)
{
    return c == '\0' || c == ',' || c == '&' || c == '\n' || c == '\r';
}

static void skip(struct reading *r, const char *set)
{
    r->at += strspn(r->at, set);
    while (*r->at == '#') {
        r->at += strcspn(r->at, "\n");
        r->at += strspn(r->at, set);
    }
}

static void put(struct reading *r, size_t *n, char c)
{
    if (*n < RT_EVENT_WORD - 1)
        r->value.text[(*n)++] = c;
    else
        r->too_long = true;
}

static void read_quoted(struct reading *r, size_t *n)
{
    r->value.constant = true;
    for (r->at++; *r->at != '\0'; r->at++) {
        if (*r->at == '\'' && r->at[1] != '\'')
            break;
        if (*r->at == '\'')
            r->at++;
        put(r, n, *r->at);
    }
    r->quoted_badly = *r->at != '\'';
    r->at += *r->at == '\'';
    r->at += strspn(r->at, " \t");
    r->quoted_badly = r->quoted_badly || !ends_entry(*r->at);
}

static void read_value(struct reading *r)
{
    size_t n = 0;

    memset(&r->value, 0, sizeof(r->value));
    r->at += strspn(r->at, " \t");
    if (*r->at == '\'') {
        read_quoted(r, &n);
    } else {
        while (!ends_entry(*r->at))
            put(r, &n, *r->at++);
        while (n > 0 && (r->value.text[n - 1] == ' ' || r->value.text[n - 1] == '\t'))
            n--;
    }
    r->value.text[n] = '\0';
}

/* The next name; false: there is no '=' after it. */
static bool read_name(struct reading *r)
{
    size_t n = 0;

    while (!ends_entry(*r->at) && *r->at != '=') {
        if (n < sizeof(r->name) - 1 && *r->at != ' ' && *r->at != '\t')
            r->name[n++] = *r->at;
        r->at++;
    }
    r->name[n] = '\0';
    bool ok = *r->at == '=';
    r->at += ok;
    return ok;
}

static int store_value(struct rt_event_map *map, const struct reading *r, char *errmsg, size_t size)
{
    for (int i = 0; i < RT_COLUMNS; i++)
        if (strcmp(r->name, column_names[i]) == 0) {
            bool may = i == RT_COLUMN_TOPIC || i == RT_COLUMN_TYPE || i == RT_COLUMN_KEY;
            if (r->value.constant && !may)
                return refuse(errmsg, size, "%s must be a column: write it without quotes",
                              r->name);
            map->columns[i] = r->value;
            return 0;
        }
    for (int i = 0; i < RT_EVENT_STATES; i++)
        if (strcmp(r->name, rt_event_state_names[i]) == 0) {
            memcpy(map->states[i], r->value.text, RT_EVENT_WORD);
            return 0;
        }
    if (strcmp(r->name, "table") == 0)
        return 0; /* it was looked for before */
    return refuse(
        errmsg, size,
        "'%s' is not one of table, id, event_id, topic, key, type, payload, state, created, "
        "updated, new, published, processed, dead",
        r->name);
}

/* Reads each entry of TEXT. MAP NULL: only looks for the table's name, which TABLE gets. */
static int read_all(const char *text, struct rt_event_map *map, char *table, char *errmsg,
                    size_t size)
{
    struct reading r = {.at = text};
    int err = 0;

    skip(&r, "? \t\r\n,&");
    while (*r.at != '\0' && err == 0) {
        if (!read_name(&r))
            return refuse(errmsg, size, "'%s' has no value: write %s=COLUMN", r.name, r.name);
        read_value(&r);
        if (r.quoted_badly)
            return refuse(errmsg, size, "%s: a quote is not closed, or something follows it",
                          r.name);
        if (r.too_long)
            return refuse(errmsg, size, "%s: more than %d bytes", r.name, RT_EVENT_WORD - 1);
        if (map != NULL)
            err = store_value(map, &r, errmsg, size);
        else if (strcmp(r.name, "table") == 0)
            memcpy(table, r.value.text, RT_EVENT_WORD);
        skip(&r, " \t\r\n,&");
    }
    return err;
}

static int check(const struct rt_event_map *map, char *errmsg, size_t size)
{
    static const int needed[] = {RT_COLUMN_ID, RT_COLUMN_TOPIC, RT_COLUMN_PAYLOAD, RT_COLUMN_STATE};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (map->columns[needed[i]].text[0] == '\0')
            return refuse(errmsg, size, "it names no %s: add %s=COLUMN%s", column_names[needed[i]],
                          column_names[needed[i]],
                          needed[i] == RT_COLUMN_TOPIC ? ", or topic='a constant'" : "");
    for (int i = 0; i < RT_EVENT_DEAD; i++)
        for (int j = i + 1; j < RT_EVENT_STATES; j++)
            if (strcasecmp(map->states[i], map->states[j]) == 0)
                return refuse(errmsg, size, "%s and %s are both '%s'%s", rt_event_state_names[i],
                              rt_event_state_names[j], map->states[i],
                              strcmp(map->states[i], map->states[j]) == 0
                                  ? ""
                                  : ", but for upper and lower case");
    for (int i = 0; i < RT_EVENT_DEAD; i++)
        if (map->states[i][0] == '\0')
            return refuse(errmsg, size, "%s is empty", rt_event_state_names[i]);
    return 0;
}

int rt_event_map_read(struct rt_event_map *map, const char *text, char *errmsg, size_t size)
{
    struct rt_event_map read;
    char table[RT_EVENT_WORD] = RT_EVENT_TABLE;

    int err = read_all(text, NULL, table, errmsg, size);
    if (err != 0)
        return err;
    if (table[0] == '\0')
        return refuse(errmsg, size, "table is empty");
    rt_event_map_default(&read);
    if (strcmp(table, RT_EVENT_TABLE) != 0) {
        memset(read.columns, 0, sizeof(read.columns));
        read.states[RT_EVENT_DEAD][0] = '\0';
        memcpy(read.table, table, sizeof(table));
        read.own = false;
    }
    err = read_all(text, &read, NULL, errmsg, size);
    if (err == 0)
        err = check(&read, errmsg, size);
    if (err == 0)
        *map = read;
    return err;
}

int rt_event_map_load(struct rt_event_map *map, const char *text_or_file, char *errmsg, size_t size)
{
    char text[FILE_MAX];

    if (strchr(text_or_file, '=') != NULL)
        return rt_event_map_read(map, text_or_file, errmsg, size);
    FILE *file = fopen(text_or_file, "re");
    if (file == NULL) {
        snprintf(errmsg, size, "%.200s: %s", text_or_file, strerror(errno));
        return ROTA_INVALID;
    }
    size_t n = fread(text, 1, sizeof(text), file);
    bool bad = ferror(file) != 0 || n == sizeof(text) || memchr(text, '\0', n) != NULL;
    fclose(file);
    if (bad) {
        snprintf(errmsg, size, "%.200s: it cannot be read, or is not a map of columns",
                 text_or_file);
        return ROTA_INVALID;
    }
    text[n] = '\0';
    return rt_event_map_read(map, text, errmsg, size);
}

/* ---- Printing --------------------------------------------------------------------------- */

static size_t print_one(char *out, size_t size, size_t n, const char *name, const char *value,
                        bool constant)
{
    char quoted[2 * RT_EVENT_WORD + 2];
    size_t q = 0;

    if (n >= size)
        return n;
    for (const char *c = value; constant && *c != '\0'; c++) {
        quoted[q++] = *c;
        if (*c == '\'')
            quoted[q++] = '\'';
    }
    quoted[q] = '\0';
    int add = constant ? snprintf(out + n, size - n, "%s%s='%s'", n > 0 ? "," : "", name, quoted)
                       : snprintf(out + n, size - n, "%s%s=%s", n > 0 ? "," : "", name, value);
    return n + (size_t)add;
}

bool rt_event_map_print(const struct rt_event_map *map, char *out, size_t size)
{
    size_t n = print_one(out, size, 0, "table", map->table, false);

    for (int i = 0; i < RT_COLUMNS; i++)
        if (map->columns[i].text[0] != '\0')
            n = print_one(out, size, n, column_names[i], map->columns[i].text,
                          map->columns[i].constant);
    for (int i = 0; i < RT_EVENT_STATES; i++)
        if (map->states[i][0] != '\0')
            n = print_one(out, size, n, rt_event_state_names[i], map->states[i], false);
    return n < size;
}

/* ---- Ids -------------------------------------------------------------------------------- */

bool rt_event_id_is_uuid(const char *event_id, char *out)
{
    char digits[33];
    size_t n = 0, at = 0;

    for (; event_id[at] != '\0' && n < 32; at++) {
        bool hyphen = at == 8 || at == 13 || at == 18 || at == 23;
        if (hyphen && event_id[at] == '-')
            continue;
        if (!isxdigit((unsigned char)event_id[at]))
            return false;
        digits[n++] = (char)tolower((unsigned char)event_id[at]);
    }
    if (n != 32 || event_id[at] != '\0' || (at != 32 && at != 36))
        return false;
    digits[32] = '\0';
    if (out != NULL)
        memcpy(out, digits, sizeof(digits));
    return true;
}

void rt_event_id_of(const struct rt_event_map *map, const char *event_id, int64_t id,
                    char out[RT_EVENT_ID])
{
    if (event_id == NULL)
        snprintf(out, RT_EVENT_ID, "%.160s:%" PRId64, map->table, id);
    else if (!rt_event_id_is_uuid(event_id, out))
        snprintf(out, RT_EVENT_ID, "%s", event_id);
}

enum rt_event_form rt_event_form_of(const char *type)
{
    if (strcasecmp(type, "uuid") == 0)
        return RT_FORM_UUID;
    return strcasestr(type, "binary") != NULL || strcasestr(type, "blob") != NULL ||
                   strcasecmp(type, "bytea") == 0
               ? RT_FORM_BYTES
               : RT_FORM_TEXT;
}

bool rt_event_id_row(const struct rt_event_map *map, const char *event_id, int64_t *id)
{
    char want[RT_EVENT_ID];
    const char *colon = strrchr(event_id, ':');

    assert(id != NULL);
    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return false;
    *id = strtoll(colon + 1, NULL, 10);
    rt_event_id_of(map, NULL, *id, want);
    return strcmp(want, event_id) == 0;
}
