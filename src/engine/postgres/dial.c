/* SPDX-License-Identifier: Apache-2.0 */
/* How a link comes up: libpq is given one address after the other, because its own look-ups block. */
#include "engine/kit/words.h"
#include "engine/postgres/postgres.h"
#include "net/fd.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

/* ---- One address ---------------------------------------------------------------------------------- */

struct params {
    const char *keys[RT_POSTGRES_PARAMS + 8], *values[RT_POSTGRES_PARAMS + 8];
    size_t count;
    char port[8], address[64];
};

static void put(struct params *q, const char *key, const char *value)
{
    if (value == NULL)
        return;
    q->keys[q->count] = key;
    q->values[q->count++] = value;
}

static const char *address_text(struct params *q, const struct rt_address *a)
{
    int rv = getnameinfo((const struct sockaddr *)&a->at, a->size, q->address, sizeof(q->address),
                         NULL, 0, NI_NUMERICHOST);
    return rv == 0 ? q->address : NULL;
}

/* The last parameter of a name counts, so ours come last. */
static void put_all(struct params *q, struct rt_postgres_link *l)
{
    const struct rt_postgres *p = rt_postgres_self(l);
    const char *host = l->end->host;

    for (size_t i = 0; i < p->count; i++)
        put(q, p->keys[i], p->values[i]);
    snprintf(q->port, sizeof(q->port), "%u", (unsigned)l->end->port);
    put(q, "port", q->port);
    put(q, "host", host[0] != '\0' ? host : NULL);
    l->chosen = NULL;
    if (l->dial == NULL)
        return;
    put(q, "hostaddr", address_text(q, &l->dial->addresses[l->dial->next++]));
    l->chosen = rt_postgres_sslmode(p, host);
    put(q, "sslmode", l->chosen);
    put(q, "sslrootcert", rt_postgres_ca(p, l->chosen));
}

/* By default libpq prints these. The last words of a server that ends us are worth repeating. */
static void on_notice(void *arg, const PGresult *r)
{
    struct rt_postgres_link *l = arg;
    const char *severity = rt_pq.PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = rt_pq.PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    bool grave = severity != NULL &&
                 (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);

    if (grave && text != NULL)
        rt_postgres_one_line(l->notice, sizeof(l->notice), text);
}

static void try_it(struct rt_postgres_link *l)
{
    struct params q = {.count = 0};
    struct rt_fd_low low;

    put_all(&q, l);
    if (rt_fd_keep(&low) != 0) {
        rt_postgres_fail(l, ROTA_UNREACHABLE, "%s", strerror(errno));
        return;
    }
    l->notice[0] = '\0';
    l->pg = rt_pq.PQconnectStartParams(q.keys, q.values, 0);
    rt_fd_leave(&low);
    explicit_bzero(&q, sizeof(q));
    if (l->pg == NULL) {
        rt_postgres_fail(l, ROTA_NOMEM, "out of memory");
        return;
    }
    (void)rt_pq.PQsetErrorVerbosity(
        l->pg, PQERRORS_VERBOSE); /* with the SQLSTATE, which nothing else tells */
    (void)rt_pq.PQsetNoticeReceiver(l->pg, on_notice, l);
    l->state = RT_POSTGRES_DIALING;
    if (rt_pq.PQstatus(l->pg) == CONNECTION_BAD)
        rt_postgres_alarm(l, 0); /* told from a turn, as if time were up */
    else if (rt_postgres_watch(l, false, true))
        rt_postgres_alarm(l, l->deadline);
}

/* ---- All of them ----------------------------------------------------------------------------------- */

static void give_up(struct rt_postgres_link *l)
{
    int err = l->err != 0 ? l->err : ROTA_UNREACHABLE;

    if (l->why[0] == '\0')
        rt_postgres_fail(l, err, "did not answer within %u ms", l->connect_ms);
    else
        rt_postgres_end(l, err);
}

/* Each address gets a fair share of the time that is left. */
static void next_address(struct rt_postgres_link *l)
{
    const struct rt_dial *d = l->dial;
    int64_t now = rt_loop_now(l->loop);

    if (d == NULL || d->next == d->count || now >= l->until) {
        give_up(l);
        return;
    }
    l->deadline = now + (l->until - now) / (int64_t)(d->count - d->next);
    try_it(l);
}

static void looked_up(struct rt_dial *d, int gai, int errnum)
{
    struct rt_postgres_link *l = d->arg;

    if (gai == 0)
        next_address(l);
    else
        rt_postgres_fail(l, gai == EAI_MEMORY ? ROTA_NOMEM : ROTA_UNREACHABLE,
                         "the name %s cannot be looked up: %s", d->host,
                         gai == EAI_SYSTEM ? strerror(errnum) : gai_strerror(gai));
}

static void look_up(struct rt_postgres_link *l)
{
    struct rt_stream_target target = {.host = l->end->host, .port = l->end->port};
    int rv = rt_dial_new(&l->dial, &target);

    if (rv == 0 && l->dial->count > 0) {
        next_address(l);
        return;
    }
    if (rv == 0) {
        l->dial->arg = l;
        l->state = RT_POSTGRES_LOOKING;
        rt_postgres_alarm(l, l->until);
        rv = rt_lookup_start(l->dial, l->loop, looked_up);
    }
    if (rv != 0)
        rt_postgres_fail(l, rv, "the name %s cannot be looked up: %s", l->end->host,
                         rv == ROTA_UNREACHABLE ? strerror(errno) : rota_strerror(rv));
}

int rt_postgres_dial(struct rt_sql_link *base, const struct rt_dial_end *end, uint32_t connect_ms)
{
    struct rt_postgres_link *l = rt_postgres_of(base);
    const struct rt_postgres *p = rt_postgres_self(l);
    struct rt_loop *loop = base->base->loop;

    assert(l->state == RT_POSTGRES_IDLE && !l->reserved);
    if (loop->virtual_time) /* opened only for questions that need no server */
        return rt_words_fail(base->base, ROTA_UNREACHABLE,
                             "a server is not reached in virtual time");
    if (rt_loop_reserve(loop, 1) != 0)
        return ROTA_NOMEM;
    l->loop = loop;
    l->reserved = true;
    l->timer.fire = rt_postgres_fire;
    l->end = end;
    l->connect_ms = p->connect_ms != 0 ? p->connect_ms : connect_ms;
    l->until = l->deadline = rt_loop_tick(loop) + l->connect_ms * RT_MS;
    if (end->host[0] == '\0' || end->host[0] == '/' || end->host[0] == '@')
        try_it(l);
    else
        look_up(l);
    return 0;
}

/* ---- One step further ------------------------------------------------------------------------------- */

/* A hint on what to write, where TLS was our choice. */
static void add_hint(struct rt_postgres_link *l)
{
    size_t used = strlen(l->why);
    bool without = strstr(l->why, "does not support SSL") != NULL;

    if (l->chosen == NULL || l->err == ROTA_UNREACHABLE ||
        (strstr(l->why, "certificate") == NULL && !without))
        return;
    snprintf(l->why + used, sizeof(l->why) - used, "%s",
             without ? "; to do without TLS write ?sslmode=disable"
                     : "; write ?ca=FILE with its authority, or ?sslmode=require to trust any");
}

/* A server that answered and said no is not asked again at another of its addresses. */
static void refused(struct rt_postgres_link *l)
{
    l->err = rt_postgres_refusal(rt_pq.PQerrorMessage(l->pg), l->why, sizeof(l->why) - 80);
    if (rt_pq.PQconnectionNeedsPassword(l->pg) == 1)
        l->err = ROTA_AUTH;
    add_hint(l);
    rt_postgres_finish(l);
    if (l->err == ROTA_UNREACHABLE)
        next_address(l);
    else
        give_up(l);
}

void rt_postgres_too_late(struct rt_postgres_link *l)
{
    if (l->state == RT_POSTGRES_DIALING && rt_pq.PQstatus(l->pg) == CONNECTION_BAD) {
        refused(l);
        return;
    }
    l->why[0] = '\0'; /* whatever was said before is not the reason */
    l->err = 0;
    rt_postgres_finish(l);
    next_address(l);
}

void rt_postgres_poll(struct rt_postgres_link *l)
{
    struct rt_fd_low low;

    /* libpq may close its socket and open another, which may have the same number. */
    rt_watch_want(&l->socket->watch, false, false);
    if (rt_fd_keep(&low) != 0) {
        rt_postgres_fail(l, ROTA_UNREACHABLE, "%s", strerror(errno));
        return;
    }
    PostgresPollingStatusType status = rt_pq.PQconnectPoll(l->pg);
    rt_fd_leave(&low);
    if (status == PGRES_POLLING_FAILED)
        refused(l);
    else if (status == PGRES_POLLING_OK)
        rt_postgres_greet(l);
    else
        (void)rt_postgres_watch(l, status == PGRES_POLLING_READING,
                                status == PGRES_POLLING_WRITING);
}
