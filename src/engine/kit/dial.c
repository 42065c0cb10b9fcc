/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to dial, when, and for how long. */
#include "engine/kit/dial.h"

#include "base/alloc.h"
#include "engine/kit/words.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define CALL_MS 5000
#define TTL_MS 10000
#define CONNECT_MOST_MS 3000
#define PATIENCE_LEAST_MS 200

/* ---- Whom ------------------------------------------------------------------------------------- */

bool rt_dial_text(char *out, size_t size, const char *host, uint16_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    int n = snprintf(out, size, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", (unsigned)port);
    return n < (int)size;
}

int rt_dial_add(struct rt_dial_ring *ring, struct rt_conn *conn, const char *host, uint16_t port)
{
    struct rt_dial_end *ends = rt_realloc(ring->ends, (ring->count + 1) * sizeof(*ends));
    char *copy = rt_strdup(host);
    if (ends != NULL)
        ring->ends = ends;
    if (ends == NULL || copy == NULL) {
        rt_free(copy);
        return ROTA_NOMEM;
    }
    struct rt_dial_end *e = &ends[ring->count++];
    *e = (struct rt_dial_end){.host = copy, .port = port};
    if (host[0] == '/')
        snprintf(e->at, sizeof(e->at), "%s", host);
    else if (strlen(host) > 255 || !rt_dial_text(e->at, sizeof(e->at), host, port))
        return rt_words_fail(conn, ROTA_INVALID, "a host is longer than 255 bytes");
    return 0;
}

int rt_dial_hosts(struct rt_dial_ring *ring, struct rt_conn *conn, const struct rt_url *url,
                  uint16_t port)
{
    assert(ring->ends == NULL);
    if (url->host_count == 0)
        return rt_words_fail(conn, ROTA_INVALID, "%s: names no host: write %s://host", url->scheme,
                             url->scheme);
    int rv = 0;
    for (size_t i = 0; rv == 0 && i < url->host_count; i++)
        rv = rt_dial_add(ring, conn, url->hosts[i].host,
                         url->hosts[i].port != 0 ? url->hosts[i].port : port);
    return rv;
}

const struct rt_dial_end *rt_dial_next(struct rt_dial_ring *ring)
{
    assert(ring->count > 0);
    ring->now = (ring->now + 1) % ring->count;
    return &ring->ends[ring->now];
}

void rt_dial_ring_fini(struct rt_dial_ring *ring)
{
    for (size_t i = 0; i < ring->count; i++)
        rt_free(ring->ends[i].host);
    rt_free(ring->ends);
    *ring = (struct rt_dial_ring){0};
}

int rt_dial_tls(struct rt_tls **tls, struct rt_conn *conn, const struct rt_url *url, bool secure,
                const char *scheme)
{
    const char *ca = rt_url_param(url, "ca", NULL), *cert = rt_url_param(url, "cert", NULL);
    const char *key = rt_url_param(url, "key", NULL);
    if (secure)
        return rt_tls_new(tls, ca, cert, key, conn->errmsg, sizeof(conn->errmsg));
    if (ca != NULL || cert != NULL || key != NULL)
        return rt_words_fail(conn, ROTA_INVALID, "?ca=, ?cert= and ?key= are for %s://", scheme);
    return 0;
}

int rt_dial_random(struct rt_conn *conn, void *out, size_t size)
{
    if (getrandom(out, size, 0) == (ssize_t)size)
        return 0;
    return rt_words_fail(conn, ROTA_INTERNAL, "the system gave no random bytes");
}

/* ---- When ------------------------------------------------------------------------------------- */

void rt_dial_times(struct rt_conn *conn)
{
    conn->call_ms = conn->call_ms != 0 ? conn->call_ms : CALL_MS;
    conn->ttl_ms = conn->ttl_ms != 0 ? conn->ttl_ms : TTL_MS;
}

uint32_t rt_dial_connect_ms(const struct rt_conn *conn, size_t count)
{
    uint32_t ms = conn->call_ms / 2;
    if (count > 1)
        ms = ms * 2 / (uint32_t)(count + 1);
    ms = ms > CONNECT_MOST_MS ? CONNECT_MOST_MS : ms;
    return ms < PATIENCE_LEAST_MS ? PATIENCE_LEAST_MS : ms;
}

int64_t rt_dial_patience(const struct rt_conn *conn)
{
    uint32_t ms = conn->ttl_ms / 4;
    if (ms == 0 || ms > conn->call_ms)
        ms = conn->call_ms;
    return (ms < PATIENCE_LEAST_MS ? PATIENCE_LEAST_MS : ms) * RT_MS;
}

int64_t rt_dial_jitter(uint64_t *jitter, int64_t most)
{
    assert(most >= 0);
    *jitter = *jitter * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(*jitter >> 33) % (most + 1);
}

void rt_dial_later(struct rt_dial_pause *p, const struct rt_conn *conn, uint64_t *jitter)
{
    uint32_t part = conn->ttl_ms / 50;
    uint32_t most = part < RT_DIAL_PAUSE_LAST_MS ? part : RT_DIAL_PAUSE_LAST_MS;
    uint32_t ms = p->ms == 0 ? RT_DIAL_PAUSE_FIRST_MS : p->ms * 2;
    ms = ms > most ? most : ms;
    p->ms = ms > RT_DIAL_PAUSE_FIRST_MS ? ms : RT_DIAL_PAUSE_FIRST_MS;
    int64_t half = p->ms * RT_MS / 2;
    p->until = rt_loop_now(conn->loop) + half + rt_dial_jitter(jitter, half);
}

int rt_dial_level(bool *outage)
{
    bool told = *outage;
    *outage = true;
    return told ? ROTA_LOG_INFO : ROTA_LOG_WARN;
}
