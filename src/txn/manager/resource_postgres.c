/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to PostgreSQL with libpq, as the engine's URLs say. */
#include "engine/postgres/postgres.h"
#include "net/fd.h"
#include "txn/manager/resource_inside.h"

#include "net/loop.h"

#include <rota.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PORT 5432

static const char *const schemes[] = {"postgres", "postgresql", NULL};
static const char *const params[] = {
    "service",         "sslmode",    "sslrootcert",     "sslcert",     "sslkey",
    "sslcrl",          "passfile",   "options",         "requirepeer", "application_name",
    "channel_binding", "gssencmode", "krbsrvname",      "host",        "port",
    "schema",          "pooler",     "connect_timeout", NULL,
};

struct dialed {
    struct rt_conn words; /* for its errmsg */
    struct rt_dial_ring ring;
    struct rt_postgres *self;
    const char *chosen; /* our default sslmode */
};

static int read_url(struct dialed *d, const struct rt_url *url)
{
    void *self = NULL;
    int rv = rt_postgres_open(&d->words, url, &d->ring, &self);

    d->self = self;
    if (rv == 0 && d->ring.count == 0)
        rv = rt_dial_hosts(&d->ring, &d->words, url, PORT);
    return rv;
}

static void fini(struct dialed *d)
{
    if (d->self != NULL)
        rt_postgres_close(d->self);
    rt_dial_ring_fini(&d->ring);
}

/* The last value of a name counts, so ours come last. Looks the host up. */
static PGconn *begin(struct dialed *d, const struct rt_dial_end *end)
{
    const struct rt_postgres *p = d->self;
    const char *keys[RT_POSTGRES_PARAMS + 5] = {NULL}, *values[RT_POSTGRES_PARAMS + 5] = {NULL};
    bool local = end->host[0] == '\0' || end->host[0] == '/' || end->host[0] == '@';
    char port[8];
    size_t n = 0;

    d->chosen = local ? NULL : rt_postgres_sslmode(p, end->host);
    const char *ca = local ? NULL : rt_postgres_ca(p, d->chosen);
    const char *ours[][2] = {{"port", port},
                             {"host", end->host[0] != '\0' ? end->host : NULL},
                             {"sslmode", d->chosen},
                             {"sslrootcert", ca}};
    snprintf(port, sizeof(port), "%u", (unsigned)end->port);
    for (; n < p->count; n++) {
        keys[n] = p->keys[n];
        values[n] = p->values[n];
    }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (ours[i][1] != NULL) {
            keys[n] = ours[i][0];
            values[n++] = ours[i][1];
        }
    PGconn *pg = rt_pq.PQconnectStartParams(keys, values, 0);
    explicit_bzero((void *)values, sizeof(values));
    return pg;
}

/* Why not. */
static int refused(const struct dialed *d, PGconn *pg, const char *at, char *errmsg, size_t size)
{
    char why[RT_RESOURCE_LINE];
    int err = rt_postgres_refusal(rt_pq.PQerrorMessage(pg), why, sizeof(why));
    bool without = strstr(why, "does not support SSL") != NULL;

    if (rt_pq.PQconnectionNeedsPassword(pg) == 1)
        err = ROTA_AUTH;
    const char *hint = d->chosen == NULL || err == ROTA_UNREACHABLE ? ""
                       : without ? "; to do without TLS write ?sslmode=disable"
                       : strstr(why, "certificate") != NULL
                           ? "; write ?ca=FILE with its authority, or ?sslmode=require"
                           : "";
    snprintf(errmsg, size, "%.80s: %.110s%s", at, why, hint);
    return err;
}

static void quiet(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* Polls until it is up: 0; or an error. */
static int poll_up(struct dialed *d, PGconn *pg, struct rt_effort *effort, const char *at,
                   char *errmsg, size_t size)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;

    (void)rt_pq.PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
    (void)rt_pq.PQsetNoticeReceiver(pg, quiet, NULL);
    while (rt_pq.PQstatus(pg) != CONNECTION_BAD && next != PGRES_POLLING_FAILED) {
        struct rt_fd_low low;
        int said = rt_effort_wait(effort, rt_pq.PQsocket(pg),
                                  next == PGRES_POLLING_READING ? POLLIN : POLLOUT, INT64_MAX);
        if (said < 0)
            return ROTA_CANCELED;
        if (said == 0) {
            snprintf(errmsg, size, "%.80s: no answer in time", at);
            return ROTA_UNREACHABLE;
        }
        if (rt_fd_keep(&low) != 0) {
            snprintf(errmsg, size, "%s", strerror(errno));
            return ROTA_UNREACHABLE;
        }
        next = rt_pq.PQconnectPoll(pg);
        rt_fd_leave(&low);
        if (next == PGRES_POLLING_OK)
            return 0;
    }
    return refused(d, pg, at, errmsg, size);
}

static int dial(struct dialed *d, const struct rt_dial_end *end, struct rt_effort *effort,
                void **conn, char *errmsg, size_t size)
{
    struct rt_fd_low low;

    if (rt_fd_keep(&low) != 0) {
        snprintf(errmsg, size, "%s", strerror(errno));
        return ROTA_UNREACHABLE;
    }
    rt_effort_blind(effort);
    PGconn *pg = begin(d, end);
    bool goes_on = rt_effort_seeing(effort);
    rt_fd_leave(&low);
    int err = !goes_on ? ROTA_CANCELED : pg == NULL ? ROTA_NOMEM : 0;
    if (err == ROTA_NOMEM)
        snprintf(errmsg, size, "out of memory");
    if (err == 0)
        err = poll_up(d, pg, effort, end->at, errmsg, size);
    if (err != 0) {
        rt_pq.PQfinish(pg);
        return err;
    }
    (void)fcntl(rt_pq.PQsocket(pg), F_SETFD, FD_CLOEXEC);
    *conn = pg;
    return 0;
}

static int dial_to(const struct rt_url *url, size_t i, size_t *count, struct rt_effort *effort,
                   void **conn, char *marks, char *errmsg, size_t size)
{
    struct dialed d = {.self = NULL};
    int rv = read_url(&d, url);

    if (rv != 0) {
        snprintf(errmsg, size, "%s",
                 d.words.errmsg[0] != '\0' ? d.words.errmsg : rota_strerror(rv));
    } else {
        *count = d.ring.count;
        assert(i < d.ring.count);
        if (d.self->search_path != NULL)
            snprintf(marks, RT_PARTY_MARKS_MAX, "%.200s.rota_mark", d.self->search_path);
        rv = dial(&d, &d.ring.ends[i], effort, conn, errmsg, size);
    }
    fini(&d);
    return rv;
}

static int fd_of(void *conn)
{
    return rt_pq.PQsocket(conn);
}

static void hang_up(void *conn)
{
    rt_pq.PQfinish(conn);
}

const struct rt_reach rt_reach_postgres = {
    .schemes = schemes,
    .params = params,
    .kind = &rt_xa_postgres,
    .connect = dial_to,
    .fd = fd_of,
    .hang_up = hang_up,
};
