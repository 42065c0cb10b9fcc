/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of this connection, and what a key on a node says. */
#include "engine/redlock/redlock.h"

#include "base/alloc.h"
#include "base/list.h"
#include "engine/kit/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t bucket_of(const char *name)
{
    return rt_hash(name, strlen(name)) % RT_REDLOCK_BUCKETS;
}

struct rt_redlock_ticket *rt_redlock_ticket_new(struct rt_redlock_conn *c,
                                                const struct rt_join *join)
{
    size_t size = strlen(join->name) + 1;
    struct rt_redlock_ticket *t = rt_alloc(sizeof(*t) + size);
    if (t == NULL)
        return NULL;
    memcpy(t->name, join->name, size);
    t->session = join->session;
    t->nonce = join->nonce;
    t->owner = join->owner;
    t->flags = join->flags;
    RT_LIST_ADD(&c->tickets[bucket_of(t->name)], t);
    return t;
}

struct rt_redlock_ticket *rt_redlock_find(const struct rt_redlock_conn *c, const char *name,
                                          uint64_t session, uint64_t number, uint64_t nonce)
{
    struct rt_redlock_ticket *t = c->tickets[bucket_of(name)];
    for (; t != NULL; t = t->next)
        if (t->session == session && rt_names_ticket(number, nonce, t->number, t->nonce) &&
            strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

void rt_redlock_rest(const struct rt_redlock_conn *c, uint64_t owner, char *out, size_t size)
{
    (void)snprintf(out, size, " %llu %.*s", (unsigned long long)owner, RT_LABEL_MAX,
                   c->base.label != NULL ? c->base.label : "");
}

/* ---- Values -------------------------------------------------------------------------------------- */

static bool is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") >= n;
}

/* "TOKEN rota NUMBER OWNER LABEL" */
static bool read_ours(const char *value, struct rt_redlock_value *out)
{
    char half[17], *end;
    if (!is_hex(value, RT_REDLOCK_TOKEN) || strncmp(value + RT_REDLOCK_TOKEN, " rota ", 6) != 0)
        return false;
    memcpy(half, value, 16);
    half[16] = '\0';
    out->session = strtoull(half, NULL, 16);
    out->number = strtoull(value + RT_REDLOCK_TOKEN + 6, &end, 10);
    if (*end != ' ')
        return false;
    out->owner = strtoull(end + 1, &end, 10);
    (void)snprintf(out->label, sizeof(out->label), "%s", *end == ' ' ? end + 1 : "");
    return true;
}

void rt_redlock_read(const char *value, struct rt_redlock_value *out)
{
    *out = (struct rt_redlock_value){0};
    (void)snprintf(out->token, sizeof(out->token), "%s", value);
    out->ours = read_ours(value, out);
    if (!out->ours) { /* redsync, redis-py, node-redlock, ...: what they are told apart by */
        out->session = out->number = out->owner = 0;
        (void)snprintf(out->label, sizeof(out->label), "another client (token %.12s%s)", value,
                       strlen(value) > 12 ? "..." : "");
    }
}
