/* SPDX-License-Identifier: Apache-2.0 */
/* The roles that the driver starts: services, tellers, recoveries. Each dies where ROTA_POINT says. */
#include "http.h"

#include "base/bug.h"
#include "hits.h"
#include "lib/patience.h"
#include "lib/proc.h"
#include "txn/http/server.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct town *town;

/* ---- A service ------------------------------------------------------------------------------ */

#define SERVICE_THREADS 4
#define LEAVES_MS 5000 /* an answer, at the latest */

static int place; /* its own */

/* 200 only once it is durable; 409 refuses for good; anything else is asked again. */
static void answer(void *arg, int rv)
{
    int status = rv == 0 ? 200 : rv == ROTA_ABORTED ? 409 : rv == ROTA_BUSY ? 425 : 503;
    bool early = RT_BUG(RT_BUG_SERVICE_ANSWERS_FIRST);
    long sent = early ? point_hits("service-answered") : 0;

    town->served[place]++;
    rt_http_request_answer(arg, status, NULL, "", 0);
    /* The bug is that this answer is heard and the service then dies before its COMMIT, not that it dies first. */
    for (int ms = 0; early && ms < LEAVES_MS && point_hits("service-answered") == sent; ms++)
        (void)poll(NULL, 0, 1);
}

static void handle(struct rt_http_request *r, void *arg)
{
    static _Thread_local void *conn; /* a connection for each thread: calls of one branch meet */
    struct rota_call call;
    struct order o;

    (void)arg;
    int rv = rota_call_read(
        &call, rt_http_request_header(r, "Rota-Txn"), rt_http_request_header(r, "Rota-Branch"),
        rt_http_request_header(r, "Rota-Op"), rt_http_request_header(r, "Rota-Deadline"));
    if (rv != 0 || sscanf(r->body, "%d %d %d", &o.tid, &o.account, &o.amount) != 3) {
        fprintf(stderr, "a service was asked: %s\n", r->body);
        abort();
    }
    if (conn == NULL)
        conn = places[place]->site->connect(0);
    (void)place_serve(place, conn, &call, &o, answer, r);
}

/* Until it is killed. */
static int service(const struct role *r)
{
    static const struct rt_http_route route = {
        .method = "POST", .path = "/*", .handle = handle, .takes = RT_HTTP_ANY};
    const struct rt_http_server_options options = {
        .routes = &route, .route_count = 1, .threads = SERVICE_THREADS};
    struct rt_http_server *server;
    char errmsg[256];

    place = r->place;
    if (rt_http_server_start(&server, &options, errmsg, sizeof(errmsg)) != 0) {
        fprintf(stderr, "%s: %s\n", place_names[place], errmsg);
        abort();
    }
    town->port[place] = rt_http_server_port(server);
    for (;;)
        pause();
}

/* ---- Tellers --------------------------------------------------------------------------------- */

static struct rota_txns *m;

/* What was reserved and decided is never refused: nobody would heal that. */
static void person_called(void *arg, const char *id, const char *resource, const char *line)
{
    (void)arg;
    if (strstr(line, "refused") == NULL)
        return;
    fprintf(stderr, "a person is called for %s: %s: %s\n", id, resource, line);
    _exit(3);
}

static void enter(const struct role *r, uint32_t flags)
{
    const struct rota_txns_options opts = {
        .flags = flags,
        .timeout_ms = r->timeout_ms != 0 ? r->timeout_ms : SOON_MS,
        .call_ms = r->call_ms,
        .recover_ms = 100,
        .keep_ms = r->forgets ? 2 * (r->timeout_ms != 0 ? r->timeout_ms : SOON_MS) : 0,
        .resources = "/dev/null",
        .attention = person_called};
    char url[240];

    snprintf(url, sizeof(url), "%s%d", town->journal, r->journal);
    if (rota_txns_open(&m, url, &opts) != 0) {
        fprintf(stderr, "%s: %s\n", url, rota_txn_errmsg(NULL));
        abort();
    }
    for (int i = 0; i < PLACES; i++) {
        snprintf(url, sizeof(url), "http://127.0.0.1:%u/", town->proxy[i]);
        if (rota_txns_resource(m, place_names[i], url) != 0)
            abort();
    }
}

static int call(struct rota_txn *t, int at, const struct order *o)
{
    char body[64];
    int n = snprintf(body, sizeof(body), "%d %d %d", o->tid, o->account, o->amount);
    const struct rota_tcc_http what = {.resource = place_names[at],
                                       .try_url = "/try",
                                       .confirm_url = "/confirm",
                                       .cancel_url = "/cancel",
                                       .content_type = "text/plain",
                                       .body = body,
                                       .size = (size_t)n};

    return rota_tcc_http(t, &what, NULL, 0);
}

static void carry_out(const struct transfer *of)
{
    struct rota_txn *t;

    if (rota_txn_begin(m, NULL, &t) != 0)
        abort();
    int err = call(t, of->from, &of->goes);
    if (err == 0)
        err = call(t, of->to, &of->comes);
    transfer_end(of, t, err);
}

static int teller(const struct role *r)
{
    unsigned seed = (unsigned)getpid() ^ (unsigned)rt_seed();

    enter(r, 0);
    for (int i = 0; i < r->count; i++) {
        struct transfer of = transfer_new(r->place, r->poor, &seed);
        carry_out(&of);
    }
    rota_txns_close(m);
    return 0;
}

static void *one_of_many(void *arg)
{
    carry_out(arg);
    return NULL;
}

static int tellers_abreast(const struct role *r)
{
    struct transfer *of = calloc((size_t)r->count, sizeof(*of));
    pthread_t *threads = calloc((size_t)r->count, sizeof(*threads));
    unsigned seed = (unsigned)getpid();

    enter(r, 0);
    for (int i = 0; i < r->count; i++)
        of[i] = transfer_new(i % PLACES, i >= POOR_FROM, &seed);
    if (of[0].tid != town->first)
        abort();
    for (int i = 0; i < r->count; i++)
        if (pthread_create(&threads[i], NULL, one_of_many, &of[i]) != 0)
            abort();
    for (int i = 0; i < r->count; i++)
        pthread_join(threads[i], NULL);
    rota_txns_close(m);
    free(threads);
    free(of);
    return 0;
}

/* ---- Who heals, and who cleans ------------------------------------------------------------------ */

static int recovery(const struct role *r)
{
    enter(r, ROTA_TXN_RECOVER);
    while (r->forgets)
        poll(NULL, 0, 1000);
    ledger_heal(m);
    rota_txns_close(m);
    return 0;
}

static int cleaner(const struct role *r)
{
    void *conns[PLACES];

    enter(r, 0);
    for (int i = 0; i < PLACES; i++)
        conns[i] = places[i]->site->connect(0);
    ledger_clean_fences(m, conns);
    for (int i = 0; i < PLACES; i++)
        places[i]->site->close(conns[i]);
    rota_txns_close(m);
    return 0;
}

int role_play(int index, void *unused)
{
    static int (*const works[])(const struct role *) = {[TELLER] = teller,
                                                        [ABREAST] = tellers_abreast,
                                                        [RECOVERY] = recovery,
                                                        [SERVICE] = service,
                                                        [CLEANER] = cleaner};
    const struct role *r = &town->role[index];

    (void)unused;
    if (r->point[0] != '\0')
        setenv("ROTA_POINT", r->point, 1);
    if (r->work != SERVICE)
        rt_watchdog(300, "a role of the bank hangs");
    return works[r->work](r);
}
