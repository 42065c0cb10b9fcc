/* SPDX-License-Identifier: Apache-2.0 */
/* What the server pushes: listened to while there is something to hear, and told after the answers that it follows.
 *
 * In PostgreSQL a NOTIFY wakes every connection that listens to anything: whoever has nothing to hear stops listening
 * after a while (wait.c says when). */
#include "engine/sql/sql.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- Listening --------------------------------------------------------------------------------------------------- */

static void unlisten_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_UNLISTEN, rt_sql_number(a->c->ear));
}

static bool unlisten_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    a->c->lanes[0].listens = false;
    rt_sql_hear_linked(a->c); /* a JOIN that was under way waits now */
    return true;
}

/* Out of time: the server may have done it, or still do it. LISTEN may be said twice. */
static void unlisten_failed(struct rt_sql_ask *a, int err)
{
    (void)err;
    a->c->lanes[0].listens = false;
    if (!a->c->closing)
        rt_sql_hear_linked(a->c);
}

static const struct rt_sql_plan unlisten_plan = {.alone = true,
                                                 .reads = true,
                                                 .say = unlisten_say,
                                                 .heard = unlisten_heard,
                                                 .failed = unlisten_failed};

/* In a flight before the looks: otherwise what commits between a look and this flight's own end would be missed. */
static void listen_say(struct rt_sql_ask *a, struct rt_sql_book *b)
{
    rt_sql_say(b, RT_SQL_LISTEN, rt_sql_number(a->c->ear));
}

static bool listen_heard(struct rt_sql_ask *a, const struct rt_sql_book *b)
{
    (void)b;
    a->c->lanes[0].listens = true;
    rt_sql_wait_look_all(a->c);
    return true;
}

static const struct rt_sql_plan listen_plan = {
    .reads = true, .say = listen_say, .heard = listen_heard};

void rt_sql_hear_linked(struct rt_sql_conn *c)
{
    if (c->ticket_count > 0 && c->driver->notifies)
        (void)rt_sql_ask(c, &listen_plan, NULL, NULL, NULL);
}

static bool is_listen(const struct rt_entry *e, const void *arg)
{
    (void)arg;
    return ((const struct rt_sql_ask *)(const void *)e)->plan == &listen_plan;
}

void rt_sql_hear_renewed(struct rt_sql_conn *c)
{
    if (!c->lanes[0].listens && rt_ledger_find(&c->ledger, is_listen, NULL) == NULL)
        rt_sql_hear_linked(c);
}

void rt_sql_unlisten(struct rt_sql_conn *c)
{
    (void)rt_sql_ask(c, &unlisten_plan, NULL, NULL, NULL);
}

/* ---- Pushes ------------------------------------------------------------------------------------------------------- */

struct rt_sql_push {
    struct rt_sql_push *next;
    bool line; /* for observers */
    char text[];
};

/* "NUMBER KIND NAME" */
static void hear(struct rt_sql_conn *c, const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (number == 0 || end[0] != ' ' || end[1] == '\0' || end[2] != ' ')
        return;
    const char *name = end + 3;
    struct rt_sql_ticket *t = rt_sql_wait_find(c, name, number);
    uint64_t session = t != NULL ? t->session : c->session;
    switch (end[1]) {
    case 'G':
        if (t != NULL)
            rt_sql_wait_granted(c, t);
        else
            rt_sql_tell(c, RT_GRANTED, session, number, name);
        break;
    case 'W':
        rt_sql_tell(c, RT_WANTED, session, number, name);
        break;
    case 'L':
        if (t != NULL)
            rt_sql_wait_lost(c, t);
        else
            rt_sql_tell(c, RT_TICKET_LOST, session, number, name);
        break;
    default:
        break;
    }
}

static void pass_on(struct rt_sql_conn *c, bool line, const char *text)
{
    if (line)
        rt_sql_observe_look(c, text);
    else
        hear(c, text);
}

void rt_sql_notice(struct rt_sql_conn *c, bool later, const char *channel, const char *text)
{
    bool line = strncmp(channel, "rota_o", 6) == 0;
    if (!later) {
        pass_on(c, line, text);
        return;
    }
    size_t size = strlen(text) + 1;
    struct rt_sql_push *p = rt_alloc(sizeof(*p) + size);
    if (p == NULL)
        return; /* BEAT tells it */
    p->line = line;
    memcpy(p->text, text, size);
    *c->pushes_end = p;
    c->pushes_end = &p->next;
}

static struct rt_sql_push *take_push(struct rt_sql_conn *c)
{
    struct rt_sql_push *p = c->pushes;
    if (p == NULL)
        return NULL;
    c->pushes = p->next;
    if (c->pushes == NULL)
        c->pushes_end = &c->pushes;
    return p;
}

void rt_sql_told(struct rt_sql_conn *c)
{
    for (struct rt_sql_push *p; (p = take_push(c)) != NULL; rt_free(p))
        pass_on(c, p->line, p->text);
}

/* ---- Life --------------------------------------------------------------------------------------------------------- */

void rt_sql_hear_init(struct rt_sql_conn *c)
{
    c->pushes_end = &c->pushes;
}

void rt_sql_hear_fini(struct rt_sql_conn *c)
{
    for (struct rt_sql_push *p; (p = take_push(c)) != NULL;)
        rt_free(p);
}
