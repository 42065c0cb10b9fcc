/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a model SQL server. */
#include "sim/sql/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more. */
static void *grow(void *at, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return at;
    *room = *room != 0 ? 2 * *room : 8;
    at = realloc(at, *room * size);
    assert(at != NULL);
    return at;
}

/* ---- Sessions ----------------------------------------------------------------------------------------------------- */

struct ss_session *ss_session(const struct ss_store *s, int64_t id)
{
    for (size_t i = 0; i < s->session_count; i++)
        if (s->sessions[i].id == id)
            return &s->sessions[i];
    return NULL;
}

struct ss_session *ss_session_add(struct ss_store *s, int64_t id)
{
    s->sessions = grow(s->sessions, s->session_count, &s->session_room, sizeof(*s->sessions));
    struct ss_session *row = &s->sessions[s->session_count++];
    *row = (struct ss_session){.id = id};
    return row;
}

void ss_session_drop(struct ss_store *s, struct ss_session *row)
{
    *row = s->sessions[--s->session_count];
}

bool ss_alive(const struct ss_store *s, int64_t session, int64_t now)
{
    const struct ss_session *row = ss_session(s, session);
    return row != NULL && row->expires > now;
}

bool ss_has_rows(const struct ss_store *s, int64_t session)
{
    for (size_t i = 0; i < s->line_count; i++)
        for (size_t k = 0; k < s->lines[i].count; k++)
            if (s->lines[i].tickets[k].session == session && !s->lines[i].tickets[k].durable)
                return true;
    return false;
}

/* ---- Lines -------------------------------------------------------------------------------------------------------- */

struct ss_line *ss_line(const struct ss_store *s, const char *name, size_t size)
{
    for (size_t i = 0; i < s->line_count; i++)
        if (strlen(s->lines[i].name) == size && memcmp(s->lines[i].name, name, size) == 0)
            return &s->lines[i];
    return NULL;
}

struct ss_line *ss_line_get(struct ss_store *s, const char *name, size_t size, int64_t now)
{
    struct ss_line *l = ss_line(s, name, size);
    if (l != NULL)
        return l;
    assert(size < sizeof(l->name));
    s->lines = grow(s->lines, s->line_count, &s->line_room, sizeof(*s->lines));
    struct ss_line row = {.since = now};
    memcpy(row.name, name, size);
    size_t at = s->line_count++;
    for (; at > 0 && strcmp(s->lines[at - 1].name, row.name) > 0; at--)
        s->lines[at] = s->lines[at - 1];
    s->lines[at] = row;
    return &s->lines[at];
}

void ss_line_drop(struct ss_store *s, struct ss_line *l)
{
    size_t at = (size_t)(l - s->lines);
    free(l->tickets);
    s->line_count--;
    memmove(l, l + 1, (s->line_count - at) * sizeof(*l));
}

/* ---- Tickets ------------------------------------------------------------------------------------------------------ */

struct ss_ticket *ss_ticket_add(struct ss_line *l)
{
    l->tickets = grow(l->tickets, l->count, &l->room, sizeof(*l->tickets));
    struct ss_ticket *t = &l->tickets[l->count++];
    memset(t, 0, sizeof(*t));
    return t;
}

void ss_ticket_drop(struct ss_line *l, struct ss_ticket *t)
{
    size_t at = (size_t)(t - l->tickets);
    assert(at < l->count);
    l->waiting -= !t->granted;
    l->count--;
    memmove(t, t + 1, (l->count - at) * sizeof(*t));
}

bool ss_over(const struct ss_store *s, const struct ss_ticket *t, int64_t now)
{
    return t->durable ? t->until != 0 && t->until <= now : !ss_alive(s, t->session, now);
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

void ss_store_clear(struct ss_store *s)
{
    for (size_t i = 0; i < s->line_count; i++)
        free(s->lines[i].tickets);
    free(s->lines);
    free(s->sessions);
    *s = (struct ss_store){0};
}

static void *copy(const void *from, size_t n, size_t size)
{
    void *to = n > 0 ? malloc(n * size) : NULL;
    assert(n == 0 || to != NULL);
    if (n > 0)
        memcpy(to, from, n * size);
    return to;
}

void ss_store_copy(struct ss_store *to, const struct ss_store *from)
{
    ss_store_clear(to);
    *to = *from;
    to->session_room = to->session_count;
    to->line_room = to->line_count;
    to->sessions = copy(from->sessions, from->session_count, sizeof(*from->sessions));
    to->lines = copy(from->lines, from->line_count, sizeof(*from->lines));
    for (size_t i = 0; i < to->line_count; i++) {
        struct ss_line *l = &to->lines[i];
        l->room = l->count;
        l->tickets = copy(l->tickets, l->count, sizeof(*l->tickets));
    }
}
