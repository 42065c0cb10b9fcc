/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the store of a model Redis: sessions and lines. */
#include "sim/redis/truth.h"

#include "engine/redis/redis.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_SIZE 16 /* rota:{255} */
#define SWEEPS_MAX 1000
#define SESSIONS_MAX 1024

/* The room of the line NAME; "": the one in which every session begins. */
static uint32_t room_of(const struct rs_server *s, const char *name)
{
    static const struct rt_redis_conn in_cluster = {.room_count = RT_REDIS_ROOMS_CLUSTER};
    return s->cluster && name[0] != '\0' ? rt_redis_room_of(&in_cluster, name) : 0;
}

static const struct rs_key *find(const struct rs_server *s, uint32_t room, const char *kind,
                                 const char *name)
{
    char key[320];
    int n = snprintf(key, sizeof(key), "rota:{%u}%s%s", room, kind, name);
    return rs_store_find(&s->machine.store, (struct rs_text){key, (size_t)n});
}

/* ---- Lines -------------------------------------------------------------- */

static struct sim_place read_member(uint64_t number, struct rs_text member, bool granted)
{
    struct sim_place p = {.number = number, .granted = granted};
    char *at;
    p.session = strtoull(member.at, &at, 16); /* "-": nobody's */
    at += member.at[0] == '-';
    p.nonce = strtoull(at, &at, 10);
    p.mode = (uint32_t)strtoul(at, &at, 10);
    p.take = (uint32_t)strtoul(at, &at, 10);
    p.of = (uint32_t)strtoul(at, &at, 10);
    assert(at < member.at + member.n && *at == ' ');
    return p;
}

/* "TILL NUMBER MEMBER" from AT to END: a ticket that waits. */
static struct sim_place read_beside(const char *at, const char *end)
{
    char *next;
    (void)strtoull(at, &next, 10);
    uint64_t number = strtoull(next, &next, 10);
    return read_member(number, (struct rs_text){next + 1, (size_t)(end - next - 1)}, false);
}

static const struct rs_entry *mark(const struct rs_server *s, uint32_t room, const char *field)
{
    const struct rs_key *index = find(s, room, "", "");
    struct rs_text text = {field, strlen(field)};
    return index != NULL ? rs_key_find(index, text) : NULL;
}

static int by_number(const void *a, const void *b)
{
    const struct sim_place *p = a, *o = b;
    return (p->number > o->number) - (p->number < o->number);
}

/* A line that one plain ticket holds is folded into the room: "NUMBER MEMBER", a star before it while
 * others wait; or a plus, and on a second line "TILL NUMBER MEMBER" without its last 0, the one that
 * waits. */
static size_t read_line(const struct rs_server *s, const char *name, struct sim_place *out)
{
    size_t n = 0;
    char *beside = NULL;
    uint32_t room = room_of(s, name);
    const struct rs_entry *folded = mark(s, room, name);
    const struct rs_key *g = find(s, room, ":g:", name), *w = find(s, room, ":w:", name);
    if (folded != NULL && folded->value.n > 0) {
        char *member;
        size_t star = folded->value.at[0] == '*' || folded->value.at[0] == '+';
        uint64_t number = strtoull(folded->value.at + star, &member, 10);
        size_t digits = (size_t)(member - folded->value.at) + 1, size = folded->value.n;
        beside = memchr(folded->value.at, '\n', size);
        if (beside != NULL)
            size = (size_t)(beside - folded->value.at);
        out[n++] = read_member(number, (struct rs_text){member + 1, size - digits}, true);
    }
    for (size_t i = 0; g != NULL && i < g->count && n < SIM_PLACES_MAX; i++)
        out[n++] = read_member(strtoull(g->entries[i].name.at, NULL, 10), g->entries[i].value,
                               true);
    qsort(out, n, sizeof(*out), by_number);
    if (beside != NULL)
        out[n++] = read_beside(beside, folded->value.at + folded->value.n);
    for (size_t i = 0; w != NULL && i < w->count && n < SIM_PLACES_MAX; i++)
        out[n++] = read_member((uint64_t)w->entries[i].score, w->entries[i].name, false);
    return n;
}

/* ---- Remembered while nothing changes: everybody looks after every step ---- */

static struct line {
    uint64_t version;
    char name[32];
    struct sim_place places[SIM_PLACES_MAX];
    size_t count;
} lines[SIM_NAMES_MAX];

static struct {
    uint64_t version;
    struct {
        uint64_t id;
        uint32_t room;
        int64_t ends_us;
    } at[SESSIONS_MAX];
    size_t count;
} sessions;

static struct line *line_of(const char *name)
{
    size_t i = 0;
    while (i < SIM_NAMES_MAX - 1 && lines[i].name[0] != '\0' && strcmp(lines[i].name, name) != 0)
        i++;
    if (strcmp(lines[i].name, name) != 0) {
        snprintf(lines[i].name, sizeof(lines[i].name), "%s", name);
        lines[i].version = 0;
    }
    return &lines[i];
}

size_t sim_truth_look(const struct rs_server *s, const char *name, struct sim_place *out,
                      size_t most)
{
    struct line *line = line_of(name);
    if (line->version != s->machine.version) {
        line->version = s->machine.version;
        line->count = read_line(s, name, line->places);
    }
    size_t n = line->count < most ? line->count : most;
    memcpy(out, line->places, n * sizeof(*out));
    return n;
}

/* Whether KEY is the index of a room, and of which. */
static bool is_index(const struct rs_key *key, uint32_t *room)
{
    int end = 0;
    char text[ROOM_SIZE];
    snprintf(text, sizeof(text), "%.*s", (int)key->name.n, key->name.at);
    return key->name.n < sizeof(text) && sscanf(text, "rota:{%" SCNu32 "}%n", room, &end) == 1 &&
           end == (int)key->name.n;
}

static void read_sessions_of(uint32_t room, const struct rs_key *index)
{
    for (size_t i = 0; i < index->count; i++) {
        const struct rs_entry *e = &index->entries[i];
        if (e->name.n != 17 || e->name.at[0] != '\3')
            continue;
        assert(sessions.count < SESSIONS_MAX);
        sessions.at[sessions.count].id = strtoull(e->name.at + 1, NULL, 16);
        sessions.at[sessions.count].room = room;
        sessions.at[sessions.count++].ends_us = strtoll(e->value.at, NULL, 10);
    }
}

static void read_sessions(const struct rs_server *s)
{
    uint32_t room;
    sessions.version = s->machine.version;
    sessions.count = 0;
    for (size_t i = 0; i < s->machine.store.count; i++)
        if (is_index(&s->machine.store.keys[i], &room))
            read_sessions_of(room, &s->machine.store.keys[i]);
}

bool sim_truth_session(const struct rs_server *s, uint64_t session, const char *name, int64_t *ends)
{
    uint32_t room = name != NULL ? room_of(s, name) : 0;
    bool there = false;
    if (sessions.version != s->machine.version)
        read_sessions(s);
    for (size_t i = 0; i < sessions.count; i++)
        if (sessions.at[i].id == session && (name == NULL || sessions.at[i].room == room)) {
            int64_t when = rs_server_when(s, sessions.at[i].ends_us);
            *ends = there && when < *ends ? *ends : when;
            there = true;
        }
    return there;
}

uint64_t sim_truth_counter(const struct rs_server *s)
{
    const struct rs_entry *e = mark(s, 0, "\1");
    return e != NULL ? strtoull(e->value.at, NULL, 10) : 0;
}

/* ---- The end ------------------------------------------------------------ */

static void sweep_room(struct rs_server *s, uint32_t room)
{
    const struct rt_redis_text *script = rt_redis_script_text(RT_REDIS_SCRIPT_SWEEP, s->cluster);
    char key[ROOM_SIZE];
    int n = snprintf(key, sizeof(key), "rota:{%u}", room);
    struct rs_text argv[] = {RS_TEXT("EVAL"), {script->text, script->length},
                             RS_TEXT("1"),    {key, (size_t)n},
                             RS_TEXT("7"),    RS_TEXT("100"),
                             RS_TEXT(""),     RS_TEXT("")};
    bool more = true;
    for (int i = 0; more; i++) {
        struct rs_buffer reply = {0};
        assert(i < SWEEPS_MAX);
        bool known = rs_machine_run(&s->machine, sizeof(argv) / sizeof(argv[0]), argv, &reply);
        assert(known && reply.at[0] == '*');
        (void)known;
        more = reply.at[reply.n - 3] == '1'; /* ":1\r\n", the last element */
        rs_buffer_free(&reply);
    }
}

void sim_truth_sweep(struct rs_server *s)
{
    s->machine.full = false;
    for (uint32_t room = 0; room < (s->cluster ? RT_REDIS_ROOMS_CLUSTER : 1); room++)
        if (find(s, room, "", "") != NULL)
            sweep_room(s, room);
}

static size_t left_of(const struct rs_key *key)
{
    if (rs_text_equals(key->name, RS_TEXT("rota:{0}:meta")))
        return 0;
    size_t n = 0;
    uint32_t room;
    bool index = is_index(key, &room);
    for (size_t i = 0; i < key->count; i++) {
        struct rs_text name = key->entries[i].name;
        if (index && name.n == 1 && (name.at[0] == '\1' || name.at[0] == '\2'))
            continue;
        n++;
    }
    return n;
}

size_t sim_truth_left(const struct rs_server *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->machine.store.count; i++)
        n += left_of(&s->machine.store.keys[i]);
    return n;
}

void sim_truth_dump(const struct rs_server *s, void (*line)(const void *arg, const char *text),
                    const void *arg)
{
    char text[480];
    snprintf(text, sizeof(text), "clock %" PRId64, rs_server_clock(s));
    line(arg, text);
    for (size_t i = 0; i < s->machine.store.count; i++) {
        const struct rs_key *key = &s->machine.store.keys[i];
        for (size_t k = 0; k < key->count; k++) {
            const struct rs_entry *e = &key->entries[k];
            snprintf(text, sizeof(text), "%.*s: '%.*s' %.*s %.0f", (int)key->name.n, key->name.at,
                     (int)e->name.n, e->name.at, (int)e->value.n, e->value.at, e->score);
            line(arg, text);
        }
    }
}
