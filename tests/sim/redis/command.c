/* SPDX-License-Identifier: Apache-2.0 */
/* The commands on keys, as far as the engine and its scripts use them; what all commands share. */
#include "sim/redis/call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WRONGTYPE "WRONGTYPE Operation against a key holding the wrong kind of value"

bool rs_word_is(struct rs_text text, const char *word)
{
    return text.n == strlen(word) && strncasecmp(text.at, word, text.n) == 0;
}

/* ---- Arguments ---------------------------------------------------------- */

bool rs_to_double(struct rs_text text, double *out)
{
    char copy[64], *end;
    if (text.n == 0 || text.n >= sizeof(copy))
        return false;
    memcpy(copy, text.at, text.n);
    copy[text.n] = '\0';
    *out = strtod(copy, &end);
    return *end == '\0' && !isnan(*out);
}

bool rs_to_integer(struct rs_text text, int64_t *out)
{
    char copy[64], *end;
    if (text.n == 0 || text.n >= sizeof(copy))
        return false;
    memcpy(copy, text.at, text.n);
    copy[text.n] = '\0';
    *out = strtoll(copy, &end, 10);
    return *end == '\0';
}

bool rs_call_key(struct rs_call *c, enum rs_type type, struct rs_key **key)
{
    *key = rs_store_find(&c->m->store, c->argv[1]);
    if (*key == NULL || (*key)->type == type)
        return true;
    rs_reply_error(c->reply, WRONGTYPE);
    return false;
}

struct rs_key *rs_call_made(struct rs_call *c, enum rs_type type)
{
    return rs_store_get(&c->m->store, c->argv[1], type);
}

const struct rs_entry *rs_call_entry(const struct rs_key *key, struct rs_text name)
{
    return key != NULL ? rs_key_find(key, name) : NULL;
}

void rs_call_remove(struct rs_call *c, enum rs_type type)
{
    struct rs_key *key;
    int64_t n = 0;
    if (!rs_call_key(c, type, &key))
        return;
    for (size_t i = 2; key != NULL && i < c->argc; i++) {
        struct rs_entry *e = rs_key_find(key, c->argv[i]);
        n += e != NULL;
        if (e != NULL)
            rs_key_remove(key, e);
    }
    if (key != NULL)
        rs_store_trim(&c->m->store, key);
    rs_reply_integer(c->reply, n);
}

void rs_call_count(struct rs_call *c, enum rs_type type)
{
    struct rs_key *key;
    if (rs_call_key(c, type, &key))
        rs_reply_integer(c->reply, key != NULL ? (int64_t)key->count : 0);
}

/* All at once, as Redis does while a key is small; patterns and counts are ignored. */
void rs_call_scan(struct rs_call *c, enum rs_type type)
{
    struct rs_key *key;
    if (!rs_call_key(c, type, &key))
        return;
    size_t n = key != NULL ? key->count : 0;
    rs_reply_array(c->reply, 2);
    rs_reply_string(c->reply, "0");
    rs_reply_array(c->reply, 2 * n);
    for (size_t i = 0; i < n; i++) {
        rs_reply_bulk(c->reply, key->entries[i].name);
        if (type == RS_ZSET)
            rs_reply_double(c->reply, key->entries[i].score);
        else
            rs_reply_bulk(c->reply, key->entries[i].value);
    }
}

/* ---- Keys --------------------------------------------------------------- */

static void do_del(struct rs_call *c)
{
    int64_t n = 0;
    for (size_t i = 1; i < c->argc; i++)
        n += rs_store_delete(&c->m->store, c->argv[i]);
    rs_reply_integer(c->reply, n);
}

static void do_exists(struct rs_call *c)
{
    int64_t n = 0;
    for (size_t i = 1; i < c->argc; i++)
        n += rs_store_find(&c->m->store, c->argv[i]) != NULL;
    rs_reply_integer(c->reply, n);
}

static void do_type(struct rs_call *c)
{
    static const char *const names[] = {"string", "hash", "zset"};
    const struct rs_key *key = rs_store_find(&c->m->store, c->argv[1]);
    rs_reply_status(c->reply, key != NULL ? names[key->type] : "none");
}

/* SET KEY VALUE [NX] [PX MS] */
static void do_set(struct rs_call *c)
{
    bool unless = false;
    int64_t ms = 0;
    for (size_t i = 3; i < c->argc; i++) {
        bool px = rs_word_is(c->argv[i], "PX");
        unless = unless || rs_word_is(c->argv[i], "NX");
        if (!px && !rs_word_is(c->argv[i], "NX")) {
            rs_reply_error(c->reply, RS_SYNTAX);
            return;
        }
        if (px && (++i == c->argc || !rs_to_integer(c->argv[i], &ms) || ms <= 0)) {
            rs_reply_error(c->reply, "ERR invalid expire time in 'set' command");
            return;
        }
    }
    if (unless && rs_store_find(&c->m->store, c->argv[1]) != NULL) {
        rs_reply_null(c->reply);
        return;
    }
    rs_store_delete(&c->m->store, c->argv[1]);
    struct rs_key *key = rs_call_made(c, RS_STRING);
    rs_hash_set(key, RS_TEXT(""), c->argv[2]);
    key->ends_us = ms > 0 ? c->m->clock_us(c->m) + ms * 1000 : 0;
    rs_reply_status(c->reply, "OK");
}

static void do_pexpire(struct rs_call *c)
{
    struct rs_key *key = rs_store_find(&c->m->store, c->argv[1]);
    int64_t ms;
    if (!rs_to_integer(c->argv[2], &ms)) {
        rs_reply_error(c->reply, RS_NOT_INTEGER);
        return;
    }
    rs_reply_integer(c->reply, key != NULL);
    if (key != NULL && ms > 0)
        key->ends_us = c->m->clock_us(c->m) + ms * 1000;
    else if (key != NULL)
        rs_store_delete(&c->m->store, c->argv[1]);
}

static void do_pttl(struct rs_call *c)
{
    const struct rs_key *key = rs_store_find(&c->m->store, c->argv[1]);
    if (key == NULL || key->ends_us == 0)
        rs_reply_integer(c->reply, key == NULL ? -2 : -1);
    else
        rs_reply_integer(c->reply, (key->ends_us - c->m->clock_us(c->m) + 999) / 1000);
}

static void do_get(struct rs_call *c)
{
    struct rs_key *key;
    if (!rs_call_key(c, RS_STRING, &key))
        return;
    if (key == NULL)
        rs_reply_null(c->reply);
    else
        rs_reply_bulk(c->reply, key->entries[0].value);
}

static void do_time(struct rs_call *c)
{
    int64_t now = c->m->clock_us(c->m);
    char text[32];
    rs_reply_array(c->reply, 2);
    snprintf(text, sizeof(text), "%lld", (long long)(now / 1000000));
    rs_reply_string(c->reply, text);
    snprintf(text, sizeof(text), "%lld", (long long)(now % 1000000));
    rs_reply_string(c->reply, text);
}

static void do_publish(struct rs_call *c)
{
    rs_reply_integer(c->reply, c->m->publish(c->m, c->argv[1], c->argv[2]));
}

/* ---- The table ---------------------------------------------------------- */

static const struct rs_command key_commands[] = {
    {"DEL", do_del, 2, 0, true, false},
    {"UNLINK", do_del, 2, 0, true, false},
    {"EXISTS", do_exists, 2, 0, false, false},
    {"TYPE", do_type, 2, 2, false, false},
    {"SET", do_set, 3, 6, true, true},
    {"PEXPIRE", do_pexpire, 3, 3, true, false},
    {"PTTL", do_pttl, 2, 2, false, false},
    {"GET", do_get, 2, 2, false, false},
    {"TIME", do_time, 1, 1, false, false},
    {"PUBLISH", do_publish, 3, 3, false, false},
    {"SPUBLISH", do_publish, 3, 3, false, false},
    {NULL, NULL, 0, 0, false, false},
};

static const struct rs_command *find_command(struct rs_text name)
{
    static const struct rs_command *const tables[] = {key_commands, rs_hash_commands,
                                                      rs_zset_commands};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct rs_command *c = tables[i]; c->name != NULL; c++)
            if (rs_word_is(name, c->name))
                return c;
    return NULL;
}

bool rs_command_run(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                    struct rs_buffer *reply)
{
    struct rs_call c = {.m = m, .argv = argv, .argc = argc, .reply = reply};
    const struct rs_command *command = find_command(argv[0]);
    if (command == NULL)
        return false;
    if (argc < command->least || (command->most != 0 && argc > command->most)) {
        rs_reply_error(reply, "ERR wrong number of arguments for this command");
    } else if (command->grows && m->full && !m->wrote) { /* once it has written, a script goes on */
        rs_reply_error(reply, "OOM command not allowed when used memory > 'maxmemory'.");
    } else {
        m->wrote = m->wrote || command->writes;
        command->run(&c);
    }
    return true;
}

void rs_machine_expire(struct rs_machine *m)
{
    bool any = false;
    for (size_t i = m->store.count; i-- > 0;) {
        const struct rs_key *key = &m->store.keys[i];
        if (key->ends_us == 0 || key->ends_us > m->clock_us(m))
            continue;
        any = true;
        rs_store_delete(&m->store, key->name);
    }
    if (any)
        rs_machine_changed(m);
}

bool rs_machine_run(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                    struct rs_buffer *reply)
{
    rs_machine_expire(m); /* a script sees one moment */
    m->wrote = false;
    bool known = rs_command_run(m, argc, argv, reply) || rs_script_run(m, argc, argv, reply);
    if (m->wrote)
        rs_machine_changed(m);
    return known;
}

void rs_machine_changed(struct rs_machine *m)
{
    static uint64_t last;
    m->version = ++last;
}

void rs_machine_clear(struct rs_machine *m)
{
    rs_store_clear(&m->store);
    m->script_count = 0;
}
