/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts from a topic and over HTTP. */
#include "txn/relay/receipts.h"

#include "engine/name.h"
#include "engine/url.h"
#include "txn/relay/broker.h"

#include <assert.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <rota.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define GROUP "rota-receipts"
#define AHEAD 200     /* receipts at once */
#define IDS 1000      /* of one receipt */
#define WAIT_MS 500   /* for the next */
#define AGAIN_MS 1000 /* after trouble */
#define OPEN_MS 5000
#define GRACE_MS 3000
#define THREADS 4
#define LINE 512

struct table { /* the events, as one thread sees them */
    struct rt_store *store;
    char line[LINE];
};

struct rt_receipts {
    struct rt_receipts_options opts;
    struct rt_url url;
    const struct rt_broker_kind *kind;
    struct rt_broker *broker;
    struct table by_topic;
    pthread_t thread;
    bool has_thread;
    int wake; /* readable for good once it must end */
    atomic_bool ending;
    char said[LINE];

    struct rt_http_server *server;
    struct rt_http_route route;
    pthread_mutex_t http_mu; /* for by_http */
    struct table by_http;

    pthread_mutex_t mu; /* for what follows */
    struct rt_receipts_counts counts;
};

/* ---- Ids --------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Whoever posts {"id": "..."} would be told that all is well. {GUID} may be an id. */
static bool is_json(const char *line)
{
    const char *next = line[0] != '\0' ? line + 1 + strspn(line + 1, " \t") : line;

    if (line[0] == '{')
        return strchr("\"}", *next) != NULL; /* or its end */
    if (line[0] == '[')
        return strchr("\"{[]-0123456789", *next) != NULL;
    return line[0] == '"';
}

const char *rt_receipts_fault(const char *id, size_t most)
{
    size_t n = strlen(id);

    if (n > most)
        return most == RT_EVENT_TAKEN ? "is longer than 64 bytes" : "is longer than 191 bytes";
    if (n > 0 && (is_blank(id[0]) || is_blank(id[n - 1])))
        return "has blanks around it";
    return most != RT_EVENT_TAKEN && is_json(id) ? "looks like JSON" : rt_name_fault(id);
}

size_t rt_receipts_read(char *text, size_t size, const char **out, size_t most)
{
    size_t count = 0;

    if (memchr(text, '\0', size) != NULL)
        return SIZE_MAX;
    for (char *at = text, *end = text + size; at < end;) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        char *stop = newline != NULL ? newline : end, *next = stop + 1;
        while (at < stop && is_blank(*at))
            at++;
        while (stop > at && is_blank(stop[-1]))
            stop--;
        *stop = '\0';
        if (*at != '\0' && (count == most || rt_receipts_fault(at, RT_EVENT_ID - 1) != NULL))
            return SIZE_MAX;
        if (*at != '\0')
            out[count++] = at;
        at = next;
    }
    return count;
}

/* As rt_receipts_read, of a list in JSON, to whose strings OUT points. */
static size_t read_list(json_t *list, const char **out, size_t most)
{
    size_t count = json_array_size(list);

    if (!json_is_array(list) || count > most)
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        out[i] = json_string_value(json_array_get(list, i));
        if (out[i] == NULL || out[i][0] == '\0' ||
            rt_receipts_fault(out[i], RT_EVENT_ID - 1) != NULL)
            return SIZE_MAX;
    }
    return count;
}

/* ---- The table ------------------------------------------------------------------------------ */

static int write_down(struct rt_receipts *r, struct table *t, const char *const *ids, size_t n,
                      uint64_t *changed)
{
    const struct rt_store_options opts = {.reads_only = true}; /* lanes make what is missing */
    int err = t->store != NULL ? 0
                               : rt_store_open(&t->store, r->opts.from, r->opts.map, &opts, t->line,
                                               sizeof(t->line));

    if (err != 0)
        return err;
    err = rt_store_processed(t->store, ids, n, changed);
    if (err != 0)
        snprintf(t->line, sizeof(t->line), "%s", rt_store_errmsg(t->store));
    return err;
}

static void count(struct rt_receipts *r, uint64_t topic, uint64_t http, uint64_t changed)
{
    pthread_mutex_lock(&r->mu);
    r->counts.topic += topic;
    r->counts.http += http;
    r->counts.changed += changed;
    pthread_mutex_unlock(&r->mu);
}

/* ---- By a topic -------------------------------------------------------------------------------- */

struct batch {
    uint64_t tokens[AHEAD];
    size_t taken;
    const char *ids[2 * IDS]; /* room for one whole receipt more */
    char *texts[AHEAD];
    size_t count;
};

static void trouble(struct rt_receipts *r, const char *line)
{
    if (strcmp(r->said, line) == 0)
        return;
    snprintf(r->said, sizeof(r->said), "%s", line);
    r->opts.log(r->opts.arg, true, line);
}

static void well(struct rt_receipts *r)
{
    if (r->said[0] != '\0')
        r->opts.log(r->opts.arg, false, "receipts go on");
    r->said[0] = '\0';
}

static void hang_up(struct rt_receipts *r)
{
    if (r->broker != NULL)
        r->kind->close(r->broker);
    r->broker = NULL;
}

static int reach(struct rt_receipts *r, char *line, size_t size)
{
    const struct rt_broker_options opts = {.app = "rota-relay receipts"};
    int err = r->kind->open(&r->broker, &r->url, &opts, rt_relay_now() + OPEN_MS * MS, line, size);

    if (err != 0)
        return err;
    err = r->kind->subscribe(r->broker, r->opts.source, GROUP, AHEAD);
    if (err == 0)
        return 0;
    snprintf(line, size, "receipts: %s", r->kind->errmsg(r->broker));
    hang_up(r);
    return err;
}

/* Adds what a message says. One that is no receipt is passed over, and acknowledged with the others: else it would come
 * again for ever. False: no memory. */
static bool add(struct rt_receipts *r, struct batch *b, const struct rt_message *m, uint64_t token)
{
    char *text = malloc(m->size + 1);

    if (text == NULL)
        return false;
    memcpy(text, m->size > 0 ? m->body : "", m->size);
    text[m->size] = '\0';
    b->texts[b->taken] = text;
    b->tokens[b->taken++] = token;
    size_t n = rt_receipts_read(text, m->size, b->ids + b->count, IDS);
    if (n != SIZE_MAX)
        b->count += n;
    else
        trouble(r, "receipts: a message that is not a list of ids was skipped");
    return true;
}

/* Collects all that is there, one by one; waits for the first. */
static int collect(struct rt_receipts *r, struct batch *b)
{
    int64_t deadline = rt_relay_now() + WAIT_MS * MS;
    struct rt_message m;
    uint64_t token;

    while (b->taken < AHEAD && b->count <= IDS) {
        int err = r->kind->next(r->broker, deadline, &m, &token);
        if (err == ROTA_BUSY)
            return 0;
        if (err != 0) {
            trouble(r, r->kind->errmsg(r->broker));
            return err;
        }
        if (!add(r, b, &m, token))
            return ROTA_NOMEM;
        deadline = rt_relay_now();
    }
    return 0;
}

static int settle(struct rt_receipts *r, struct batch *b)
{
    uint64_t changed = 0;
    int err = b->count > 0 ? write_down(r, &r->by_topic, b->ids, b->count, &changed) : 0;

    if (err != 0) {
        trouble(r, r->by_topic.line);
        return err;
    }
    for (size_t i = 0; i < b->taken && err == 0; i++)
        err = r->kind->ack(r->broker, b->tokens[i]);
    if (err != 0)
        trouble(r, r->kind->errmsg(r->broker));
    else if (b->count > 0)
        well(r);
    count(r, b->count, 0, changed);
    return err;
}

static int turn(struct rt_receipts *r)
{
    struct batch b = {.taken = 0};
    char line[LINE] = "";
    int err = r->broker != NULL ? 0 : reach(r, line, sizeof(line));

    if (err != 0) {
        trouble(r, line);
        return err;
    }
    err = collect(r, &b);
    if (err == 0 && b.taken > 0)
        err = settle(r, &b);
    for (size_t i = 0; i < b.taken; i++)
        free(b.texts[i]);
    return err;
}

/* After any trouble everything that was not acknowledged comes again, on another connection. */
static void *drive(void *arg)
{
    struct rt_receipts *r = arg;

    while (!atomic_load(&r->ending))
        if (turn(r) != 0) {
            hang_up(r);
            poll(&(struct pollfd){.fd = r->wake, .events = POLLIN}, 1, AGAIN_MS);
        }
    return NULL;
}

/* ---- Over HTTP -------------------------------------------------------------------------------------- */

static void answer(struct rt_http_request *q, int status, const char *type, const char *text)
{
    rt_http_request_answer(q, status, type, text, strlen(text));
}

static void process(struct rt_receipts *r, struct rt_http_request *q, const char *const *ids,
                    size_t n)
{
    char said[LINE + 2];
    uint64_t changed = 0;

    pthread_mutex_lock(&r->http_mu);
    int err = write_down(r, &r->by_http, ids, n, &changed);
    snprintf(said, sizeof(said), "%s\n", r->by_http.line);
    pthread_mutex_unlock(&r->http_mu);
    if (err != 0) {
        answer(q, 503, "text/plain", said);
        return;
    }
    count(r, 0, n, changed);
    snprintf(said, sizeof(said), "{\"processed\": %llu}\n", (unsigned long long)changed);
    answer(q, 200, "application/json", said);
}

/* 200: written, with the number of rows changed; 400: no list of ids; 503: not now. The server lets only JSON in, and text
 * with a token. */
static void on_processed(struct rt_http_request *q, void *arg)
{
    const char *type = rt_http_request_header(q, "Content-Type");
    bool is_text = type != NULL && strncasecmp(type, "text/plain", 10) == 0;
    const char **ids = calloc(IDS, sizeof(*ids));
    char *text = is_text ? malloc(q->size + 1) : NULL;
    json_t *list = is_text ? NULL : json_loadb(q->body, q->size, 0, NULL);
    size_t n = SIZE_MAX;

    if (text != NULL)
        n = rt_receipts_read(memcpy(text, q->body, q->size + 1), q->size, ids,
                             ids != NULL ? IDS : 0);
    else if (list != NULL)
        n = read_list(list, ids, ids != NULL ? IDS : 0);
    if (ids == NULL || (is_text && text == NULL))
        answer(q, 503, "text/plain", "no memory\n");
    else if (n > 0 && n != SIZE_MAX)
        process(arg, q, ids, n);
    else
        answer(q, 400, "text/plain",
               is_text ? "the body must have the ids of events, one per line, at most 1000\n"
                       : "the body must be a list of the ids of events, at most 1000: "
                         "[\"ID\", ...]\n");
    json_decref(list);
    free(ids);
    free(text);
}

static int listen_for(struct rt_receipts *r, char *errmsg, size_t size)
{
    struct rt_http_server_options opts = r->opts.http;

    if (opts.listen == NULL)
        return 0;
    r->route = (struct rt_http_route){.method = "POST",
                                      .path = RT_RECEIPTS_PATH,
                                      .handle = on_processed,
                                      .arg = r,
                                      .takes = RT_HTTP_JSON_OR_TEXT};
    opts.threads = THREADS;
    opts.routes = &r->route;
    opts.route_count = 1;
    return rt_http_server_start(&r->server, &opts, errmsg, size);
}

/* ---- Beginning and end -------------------------------------------------------------------------------- */

static int begin_topic(struct rt_receipts *r, bool waits, char *errmsg, size_t size)
{
    int err = rt_broker_read(r->opts.to, &r->url, &r->kind, errmsg, size);

    if (err == 0)
        err = reach(r, errmsg, size);
    if (err != 0 && (err != ROTA_UNREACHABLE || !waits))
        return err;
    r->has_thread = pthread_create(&r->thread, NULL, drive, r) == 0;
    if (r->has_thread)
        return 0;
    snprintf(errmsg, size, "cannot start a thread");
    return ROTA_NOMEM;
}

int rt_receipts_start(struct rt_receipts **out, const struct rt_receipts_options *opts, bool waits,
                      char *errmsg, size_t size)
{
    struct rt_receipts *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        snprintf(errmsg, size, "no memory");
        return ROTA_NOMEM;
    }
    r->opts = *opts;
    pthread_mutex_init(&r->mu, NULL);
    pthread_mutex_init(&r->http_mu, NULL);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err = r->wake < 0 ? (snprintf(errmsg, size, "no descriptor left"), ROTA_NOMEM) : 0;
    if (err == 0)
        err = listen_for(r, errmsg, size);
    if (err == 0 && opts->source != NULL)
        err = begin_topic(r, waits, errmsg, size);
    if (err != 0) {
        rt_receipts_end(r);
        return err;
    }
    *out = r;
    return 0;
}

struct rt_receipts_counts rt_receipts_look(struct rt_receipts *r)
{
    pthread_mutex_lock(&r->mu);
    struct rt_receipts_counts counts = r->counts;
    pthread_mutex_unlock(&r->mu);
    return counts;
}

uint16_t rt_receipts_port(const struct rt_receipts *r)
{
    return r->server != NULL ? rt_http_server_port(r->server) : 0;
}

void rt_receipts_end(struct rt_receipts *r)
{
    if (r == NULL)
        return;
    atomic_store(&r->ending, true);
    if (r->wake >= 0 && eventfd_write(r->wake, 1) != 0)
        abort();
    rt_http_server_stop(r->server, GRACE_MS);
    if (r->has_thread)
        pthread_join(r->thread, NULL);
    hang_up(r);
    rt_store_close(r->by_topic.store);
    rt_store_close(r->by_http.store);
    if (r->wake >= 0)
        close(r->wake);
    rt_url_fini(&r->url);
    pthread_mutex_destroy(&r->mu);
    pthread_mutex_destroy(&r->http_mu);
    free(r);
}
