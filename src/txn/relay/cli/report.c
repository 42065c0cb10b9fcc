/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what was processed, in one of three ways. */
#include "txn/relay/cli/report.h"

#include "engine/url.h"
#include "net/loop.h"
#include "txn/event/store.h"
#include "txn/http/client.h"
#include "txn/http/payload.h"
#include "txn/relay/outlet.h"
#include "txn/relay/receipts.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HTTP_NS (6 * INT64_C(1000000000)) /* a relay's database answers within 5 s */
#define AT_ONCE 80 /* ids of one receipt: they fit into 32 KB, sent by HTTP, whatever is escaped */

struct asking { /* one request, and whoever waits for it */
    struct rt_service_call call;
    pthread_mutex_t mu;
    pthread_cond_t told;
    bool done;
};

struct rt_report {
    /* by the table */
    char *db;
    struct rt_event_map map;
    struct rt_store *store;
    /* by a topic */
    char *topic;
    struct rt_url url;
    struct rt_outlet outlet;
    /* over HTTP */
    struct rt_http_site *site;
    struct rt_http_calls *calls;

    char ids[RT_REPORT_KEPT][RT_EVENT_ID];
    size_t count;
    struct rt_report_counts counts;
};

/* ---- Sending --------------------------------------------------------------------------------- */

static int by_db(struct rt_report *r, const char *const *ids, size_t n, char *errmsg, size_t size)
{
    const struct rt_store_options opts = {.reads_only = true};
    int err = r->store != NULL ? 0 : rt_store_open(&r->store, r->db, &r->map, &opts, errmsg, size);

    if (err == 0 && n > 0 && (err = rt_store_processed(r->store, ids, n, NULL)) != 0)
        snprintf(errmsg, size, "%s", rt_store_errmsg(r->store));
    return err;
}

static int by_topic(struct rt_report *r, const char *text, char *errmsg, size_t size)
{
    char id[RT_EVENT_ID +
            32]; /* of the receipt: brokers know a message by its id, and this is another one */
    const struct rt_message m = {
        .id = id, .topic = r->topic, .type = "processed", .body = text, .size = strlen(text)};

    snprintf(id, sizeof(id), "%s.%" PRIx64, r->ids[0], (uint64_t)rt_relay_now());
    return rt_outlet_send(&r->outlet, &m, errmsg, size);
}

static void on_told(struct rt_service_call *call)
{
    struct asking *a = call->user;

    pthread_mutex_lock(&a->mu);
    a->done = true;
    pthread_cond_signal(&a->told);
    pthread_mutex_unlock(&a->mu);
}

static struct rt_http_site *site_of(void *arg, const char *resource)
{
    struct rt_report *r = arg;

    (void)resource;
    return rt_http_site_hold(r->site);
}

static int ask(struct rt_report *r, struct asking *a)
{
    pthread_mutex_init(&a->mu, NULL);
    pthread_cond_init(&a->told, NULL);
    int err = rt_http_calls_ask(r->calls, &a->call);
    pthread_mutex_lock(&a->mu);
    while (err == 0 && !a->done)
        pthread_cond_wait(&a->told, &a->mu);
    pthread_mutex_unlock(&a->mu);
    pthread_cond_destroy(&a->told);
    pthread_mutex_destroy(&a->mu);
    return err;
}

/* ["ID", ...], to be freed; NULL: no memory. */
static char *json_of(const char *const *ids, size_t n)
{
    json_t *list = json_array();
    bool whole = list != NULL;

    for (size_t i = 0; i < n && whole; i++)
        whole = json_array_append_new(list, json_string(ids[i])) == 0;
    char *text = whole ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return text;
}

static int post(struct rt_report *r, const char *text, char *errmsg, size_t size)
{
    const struct rt_http_payload p = {.urls = {"", RT_RECEIPTS_PATH, ""},
                                      .type = "application/json",
                                      .body = text,
                                      .size = strlen(text)};
    size_t bytes = 0;
    int err = rt_http_payload_check(&p, &bytes, errmsg, size);
    void *payload = err == 0 ? malloc(bytes) : NULL;

    if (payload == NULL)
        return err != 0 ? err : (snprintf(errmsg, size, "no memory"), ROTA_NOMEM);
    rt_http_payload_write(&p, payload);
    struct asking a = {.call = {.op = RT_SERVICE_CONFIRM,
                                .payload = payload,
                                .size = bytes,
                                .resource = "relay",
                                .bare = true,
                                .deadline = rt_loop_clock() + HTTP_NS,
                                .done = on_told,
                                .user = &a}};
    err = ask(r, &a);
    free(payload);
    if (err == 0 && a.call.reply == RT_REPLY_DONE)
        return 0;
    snprintf(errmsg, size, "%s", err != 0 ? "no memory" : a.call.errmsg);
    return ROTA_UNREACHABLE;
}

static int by_http(struct rt_report *r, const char *const *ids, size_t n, char *errmsg, size_t size)
{
    char *text = json_of(ids, n);

    if (text == NULL) {
        snprintf(errmsg, size, "no memory");
        return ROTA_NOMEM;
    }
    int err = post(r, text, errmsg, size);
    free(text);
    return err;
}

/* The first N. */
static int send_some(struct rt_report *r, size_t n, char *errmsg, size_t size)
{
    const char *ids[AT_ONCE];
    char text[AT_ONCE * RT_EVENT_ID + 1];
    size_t used = 0;

    assert(n <= AT_ONCE);
    for (size_t i = 0; i < n; i++) {
        ids[i] = r->ids[i];
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", r->ids[i]);
    }
    if (r->db != NULL)
        return by_db(r, ids, n, errmsg, size);
    return r->topic != NULL ? by_topic(r, text, errmsg, size) : by_http(r, ids, n, errmsg, size);
}

int rt_report_send(struct rt_report *r, char *errmsg, size_t size)
{
    while (r->count > 0) {
        size_t n = r->count < AT_ONCE ? r->count : AT_ONCE;
        int err = send_some(r, n, errmsg, size);
        if (err != 0)
            return err;
        r->count -= n;
        r->counts.reported += n;
        memmove(r->ids[0], r->ids[n], r->count * sizeof(r->ids[0]));
    }
    return 0;
}

bool rt_report_add(struct rt_report *r, const char *event_id)
{
    bool readable = rt_receipts_fault(event_id, RT_EVENT_ID - 1) == NULL;

    if (r->count == RT_REPORT_KEPT || !readable)
        r->counts.lost++;
    else
        memcpy(r->ids[r->count++], event_id, strlen(event_id) + 1);
    return readable;
}

size_t rt_report_left(const struct rt_report *r)
{
    return r->count;
}

struct rt_report_counts rt_report_counts(const struct rt_report *r)
{
    return r->counts;
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static int open_topic(struct rt_report *r, const char *name, const char *from, char *errmsg,
                      size_t size)
{
    r->topic = strdup(name);
    r->outlet.url = &r->url;
    if (r->topic == NULL || name[0] == '\0') {
        snprintf(errmsg, size, "topic:NAME: the name is missing");
        return ROTA_INVALID;
    }
    return rt_broker_read(from, &r->url, &r->outlet.kind, errmsg, size);
}

static int open_http(struct rt_report *r, const char *url, char *errmsg, size_t size)
{
    const struct rt_http_calls_options opts = {.site = site_of, .arg = r};
    int err = rt_http_site_new(&r->site, url, errmsg, size);

    if (err == 0)
        err = rt_http_calls_ready(errmsg, size);
    if (err == 0 && (err = rt_http_calls_open(&r->calls, &opts)) != 0)
        snprintf(errmsg, size, "no memory");
    return err;
}

/* Reports a table that is not as it must be now. */
static int open_db(struct rt_report *r, const char *url, bool waits, char *errmsg, size_t size)
{
    r->db = strdup(url);
    if (r->db == NULL) {
        snprintf(errmsg, size, "no memory");
        return ROTA_NOMEM;
    }
    int err = by_db(r, NULL, 0, errmsg, size);
    return err == ROTA_UNREACHABLE && waits ? 0 : err;
}

int rt_report_open(struct rt_report **out, const char *text, const struct rt_event_map *map,
                   const char *from, bool waits, char *errmsg, size_t size)
{
    struct rt_report *r = calloc(1, sizeof(*r));
    int err = ROTA_INVALID;

    if (r == NULL) {
        snprintf(errmsg, size, "no memory");
        return ROTA_NOMEM;
    }
    r->map = *map;
    if (strncmp(text, "db:", 3) == 0)
        err = open_db(r, text + 3, waits, errmsg, size);
    else if (strncmp(text, "topic:", 6) == 0)
        err = open_topic(r, text + 6, from, errmsg, size);
    else if (rt_http_site_is(text))
        err = open_http(r, text, errmsg, size);
    else
        snprintf(errmsg, size, "use db:URL, topic:NAME, or http://HOST:PORT of a relay");
    if (err != 0) {
        rt_report_close(r);
        return err;
    }
    *out = r;
    return 0;
}

void rt_report_close(struct rt_report *r)
{
    if (r == NULL)
        return;
    rt_http_calls_close(r->calls);
    rt_http_site_let_go(r->site);
    rt_outlet_close(&r->outlet);
    rt_url_fini(&r->url);
    rt_store_close(r->store);
    free(r->db);
    free(r->topic);
    free(r);
}
