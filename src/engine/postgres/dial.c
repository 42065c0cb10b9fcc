/* SPDX-License-Identifier: Apache-2.0 */
/* How a link comes up: libpq is given one address after the other, for its own look-ups block. */
#include "engine/kit/words.h"
#include "engine/postgres/postgres.h"
#include "net/fd.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

static void next_place(struct rt_postgres_link *l);
static void next_address(struct rt_postgres_link *l);

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

/* The last of a name counts, so what is ours comes last. */
static void put_all(struct params *q, struct rt_postgres_link *l, const char *host, uint16_t port)
{
    const struct rt_postgres *p = rt_postgres_self(l);

    for (size_t i = 0; i < p->count; i++)
        put(q, p->keys[i], p->values[i]);
    snprintf(q->port, sizeof(q->port), "%u", (unsigned)port);
    put(q, "port", q->port);
    put(q, "host", host);
    l->chosen = NULL;
    if (l->dial == NULL)
        return;
    put(q, "hostaddr", address_text(q, &l->dial->addresses[l->dial->next++]));
    l->chosen = rt_postgres_sslmode(p, host);
    put(q, "sslmode", l->chosen);
    put(q, "sslrootcert", rt_postgres_ca(p, l->chosen));
}

/* libpq prints what it is not told to do otherwise. The last words of a server that ends us are worth repeating. */
static void on_notice(void *arg, const PGresult *r)
{
    struct rt_postgres_link *l = arg;
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    bool grave = severity != NULL &&
                 (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);

    if (grave && text != NULL)
        rt_postgres_one_line(l->notice, sizeof(l->notice), text);
}

static void connect_to(struct rt_postgres_link *l, const char *host, uint16_t port)
{
    struct params q = {.count = 0};
    struct rt_fd_low low;

    put_all(&q, l, host, port);
    if (rt_fd_keep(&low) != 0) {
        rt_postgres_fail(l, ROTA_UNREACHABLE, "%s", strerror(errno));
        return;
    }
    l->notice[0] = '\0';
    l->pg = PQconnectStartParams(q.keys, q.values, 0);
    rt_fd_leave(&low);
    explicit_bzero(&q, sizeof(q));
    if (l->pg == NULL) {
        rt_postgres_fail(l, ROTA_NOMEM, "out of memory");
        return;
    }
    (void)PQsetErrorVerbosity(l->pg,
                              PQERRORS_VERBOSE); /* with the SQLSTATE, which nothing else tells */
    (void)PQsetNoticeReceiver(l->pg, on_notice, l);
    l->state = RT_POSTGRES_DIALING;
    if (PQstatus(l->pg) == CONNECTION_BAD)
        rt_postgres_alarm(l, 0); /* told from a turn: as if it were too late */
    else if (rt_postgres_watch(l, false, true))
        rt_postgres_alarm(l, l->deadline);
}

/* ---- All of them ----------------------------------------------------------------------------------- */

static void looked_up(struct rt_dial *d, int gai, int errnum)
{
    struct rt_postgres_link *l = d->arg;
    const char *what = gai == EAI_SYSTEM ? strerror(errnum) : gai_strerror(gai);

    if (gai == 0) {
        next_address(l);
        return;
    }
    snprintf(l->why, sizeof(l->why), "the name %s cannot be looked up: %s", d->host, what);
    l->err = gai == EAI_MEMORY ? ROTA_NOMEM : ROTA_UNREACHABLE;
    next_place(l);
}

static void drop_dial(struct rt_postgres_link *l)
{
    rt_dial_free(l->dial);
    l->dial = NULL;
}

/* Its own time is a fair share of what is left. */
static void set_deadline(struct rt_postgres_link *l, size_t others)
{
    const struct rt_postgres *p = rt_postgres_self(l);
    size_t places = l->end != NULL ? 0 : p->place_count - l->place;
    int64_t now = rt_loop_now(l->loop);

    l->deadline = now + (l->until - now) / (int64_t)(others + places + 1);
}

static void try_host(struct rt_postgres_link *l, const char *host, uint16_t port, const char *at)
{
    if (host == NULL || host[0] == '\0' || host[0] == '/' || host[0] == '@') {
        const char *folder = host != NULL && host[0] != '\0' ? host : "its usual socket";
        snprintf(l->at, sizeof(l->at), "%s", folder);
        set_deadline(l, 0);
        connect_to(l, host != NULL && host[0] != '\0' ? host : NULL, port);
        return;
    }
    struct rt_stream_target target = {.host = host, .port = port};
    if (at != NULL)
        snprintf(l->at, sizeof(l->at), "%s", at);
    else
        (void)rt_dial_text(l->at, sizeof(l->at), host, port);
    int rv = rt_dial_new(&l->dial, &target);
    if (rv != 0) {
        rt_postgres_fail(l, rv, "%s", rv == ROTA_NOMEM ? "out of memory" : "no host");
        return;
    }
    l->dial->arg = l;
    if (l->dial->count > 0) {
        next_address(l);
        return;
    }
    l->state = RT_POSTGRES_LOOKING;
    set_deadline(l, 0);
    rt_postgres_alarm(l, l->deadline);
    rv = rt_lookup_start(l->dial, l->loop, looked_up);
    if (rv != 0)
        rt_postgres_fail(l, rv == ROTA_NOMEM ? rv : ROTA_UNREACHABLE,
                         "the name %s cannot be looked up: %s", host,
                         rv == ROTA_NOMEM ? "out of memory" : strerror(errno));
}

static void give_up(struct rt_postgres_link *l)
{
    int err = l->err != 0 ? l->err : ROTA_UNREACHABLE;

    if (l->why[0] == '\0')
        rt_postgres_fail(l, err, "did not answer within %u ms", l->connect_ms);
    else
        rt_postgres_end(l, err);
}

static void next_place(struct rt_postgres_link *l)
{
    const struct rt_postgres *p = rt_postgres_self(l);

    drop_dial(l);
    if (l->end != NULL || l->place == p->place_count || rt_loop_now(l->loop) >= l->until) {
        give_up(l);
        return;
    }
    const struct rt_postgres_place *to = &p->places[l->place++];
    try_host(l, to->host, to->port, NULL);
}

static void next_address(struct rt_postgres_link *l)
{
    const struct rt_postgres *p = rt_postgres_self(l);
    const struct rt_dial *d = l->dial;

    if (d == NULL || d->next == d->count || rt_loop_now(l->loop) >= l->until) {
        next_place(l);
        return;
    }
    set_deadline(l, d->count - d->next - 1);
    connect_to(l, l->end != NULL ? l->end->host : p->places[l->place - 1].host, d->port);
}

int rt_postgres_dial(struct rt_sql_link *base, const struct rt_dial_end *end, uint32_t connect_ms)
{
    struct rt_postgres_link *l = rt_postgres_of(base);
    const struct rt_postgres *p = rt_postgres_self(l);
    struct rt_loop *loop = base->base->loop;

    assert(l->state == RT_POSTGRES_IDLE && (end != NULL || p->place_count > 0));
    if (loop->virtual_time) /* opened only to be asked what needs no server */
        return rt_words_fail(base->base, ROTA_UNREACHABLE,
                             "a server is not reached in virtual time");
    if (!l->reserved && rt_loop_reserve(loop, 1) != 0)
        return ROTA_NOMEM;
    l->loop = loop;
    l->reserved = true;
    l->end = end;
    l->place = 0;
    l->err = 0;
    l->why[0] = l->at[0] = '\0';
    l->prepared = 0;
    l->connect_ms = p->connect_ms != 0 ? p->connect_ms : connect_ms;
    l->until = rt_loop_tick(loop) + l->connect_ms * RT_MS;
    if (end != NULL)
        try_host(l, end->host, end->port, end->at);
    else
        next_place(l);
    return 0;
}

/* ---- One step further ------------------------------------------------------------------------------- */

/* What to write where TLS was our choice. */
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

/* A server that answered and said no is not asked by another of its addresses. */
static void refused(struct rt_postgres_link *l)
{
    l->err = rt_postgres_refusal(PQerrorMessage(l->pg), l->why, sizeof(l->why) - 80);
    if (PQconnectionNeedsPassword(l->pg) == 1)
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
    if (l->state == RT_POSTGRES_DIALING && PQstatus(l->pg) == CONNECTION_BAD) {
        refused(l);
        return;
    }
    l->why[0] = '\0'; /* nothing that was said before is the reason */
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
    PostgresPollingStatusType status = PQconnectPoll(l->pg);
    rt_fd_leave(&low);
    if (status == PGRES_POLLING_FAILED)
        refused(l);
    else if (status == PGRES_POLLING_OK)
        rt_postgres_greet(l);
    else
        (void)rt_postgres_watch(l, status == PGRES_POLLING_READING,
                                status == PGRES_POLLING_WRITING);
}
