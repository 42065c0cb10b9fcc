/* SPDX-License-Identifier: Apache-2.0 */
/* Services with try, confirm and cancel: two local ones that do nothing, beside the same calls by hand and one durable
 * row. */
#include "tcc.h"

#include "apart.h"
#include "txn/http/server.h"

#include <curl/curl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5
#define ROUND_S 1.0
#define CLIENTS_MAX 64
#define WAYS 5
#define BODY "{\"amount\": 1, \"account\": \"0123456789\"}"

const char *const tcc_ops[TCC_OPS] = {"try", "confirm", "cancel"};
char tcc_at[TCC_SERVICES][64];
static struct rt_http_server *servers[TCC_SERVICES];
static char urls[TCC_SERVICES][TCC_OPS][80];
static struct rota_txns *manager;

struct client {
    CURL *easy[TCC_SERVICES];
    CURLM *multi;
    unsigned count;
    int number;                  /* of the note that is being written */
    struct apart keeper, writer; /* by_hand_apart */
};

struct crowd {
    struct client clients[CLIENTS_MAX];
    _Atomic int next;
    void (*order)(struct client *c, int number);
};

static struct crowd crowd;

void tcc_must(bool ok, const char *what, struct rota_txns *m)
{
    if (ok)
        return;
    fprintf(stderr, "rota-bench: tcc: %s: %s\n", what, rota_txn_errmsg(m));
    exit(1);
}

static void must(bool ok, const char *what)
{
    tcc_must(ok, what, manager);
}

/* ---- The services -------------------------------------------------------------------- */

static void say_yes(struct rt_http_request *r, void *arg)
{
    (void)arg;
    rt_http_request_answer(r, 200, "application/json", "{}", 2);
}

void tcc_start(void)
{
    static const struct rt_http_route route = {
        .method = "POST", .path = "/*", .handle = say_yes, .quick = true, .takes = RT_HTTP_ANY};
    char errmsg[256];
    for (int i = 0; i < TCC_SERVICES; i++) {
        const struct rt_http_server_options o = {.routes = &route, .route_count = 1, .threads = 1};
        must(rt_http_server_start(&servers[i], &o, errmsg, sizeof errmsg) == 0, "a service");
        snprintf(tcc_at[i], sizeof tcc_at[i], "http://127.0.0.1:%u",
                 rt_http_server_port(servers[i]));
        for (int op = 0; op < TCC_OPS; op++)
            snprintf(urls[i][op], sizeof urls[i][op], "%s/%s", tcc_at[i], tcc_ops[op]);
    }
}

void tcc_stop(void)
{
    for (int i = 0; i < TCC_SERVICES; i++)
        rt_http_server_stop(servers[i], 1000);
}

/* ---- By hand ---------------------------------------------------------------------------- */

static size_t unread(char *bytes, size_t one, size_t n, void *arg)
{
    (void)bytes;
    (void)arg;
    return one * n;
}

static void client_open(struct client *c)
{
    must(apart_start(&c->keeper) && apart_start(&c->writer), "a thread");
    c->multi = curl_multi_init();
    for (int i = 0; i < TCC_SERVICES; i++) {
        c->easy[i] = curl_easy_init();
        must(c->easy[i] != NULL && c->multi != NULL, "libcurl");
        curl_easy_setopt(c->easy[i], CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(c->easy[i], CURLOPT_PROXY, "");
        curl_easy_setopt(c->easy[i], CURLOPT_WRITEFUNCTION, unread);
        curl_easy_setopt(c->easy[i], CURLOPT_POSTFIELDS, BODY);
    }
}

static void client_close(struct client *c)
{
    for (int i = 0; i < TCC_SERVICES; i++)
        curl_easy_cleanup(c->easy[i]);
    curl_multi_cleanup(c->multi);
    apart_stop(&c->keeper);
    apart_stop(&c->writer);
}

static void check(CURL *easy)
{
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    must(status == 200, "an answer");
}

static void one_after_the_other(struct client *c, int op)
{
    for (int i = 0; i < TCC_SERVICES; i++) {
        curl_easy_setopt(c->easy[i], CURLOPT_URL, urls[i][op]);
        must(curl_easy_perform(c->easy[i]) == CURLE_OK, "a call");
        check(c->easy[i]);
    }
}

static void both_at_once(struct client *c, int op)
{
    int running = TCC_SERVICES;
    for (int i = 0; i < TCC_SERVICES; i++) {
        curl_easy_setopt(c->easy[i], CURLOPT_URL, urls[i][op]);
        curl_multi_add_handle(c->multi, c->easy[i]);
    }
    while (curl_multi_perform(c->multi, &running) == CURLM_OK && running > 0)
        curl_multi_poll(c->multi, NULL, 0, 1000, NULL);
    for (int i = 0; i < TCC_SERVICES; i++) {
        check(c->easy[i]);
        curl_multi_remove_handle(c->multi, c->easy[i]);
    }
}

static void by_hand(struct client *c, int number)
{
    one_after_the_other(c, TCC_TRY);
    txn_hand_note(number + 1000, c->count);
    one_after_the_other(c, TCC_CONFIRM);
}

static void by_hand_at_once(struct client *c, int number)
{
    both_at_once(c, TCC_TRY);
    txn_hand_note(number + 1000, c->count);
    both_at_once(c, TCC_CONFIRM);
}

/* The least for a coordinator that finds every try again after a crash: a try is on record before it leaves. */
static void by_hand_on_record(struct client *c, int number)
{
    txn_hand_note(number + 1000, c->count);
    by_hand_at_once(c, number + 2 * CLIENTS_MAX);
}

/* The same by a thread that makes the calls and one that writes, for a caller that asks for the tries and then for the
 * commit: the least for a library whose caller is answered in time while a disk or a service hangs. */
static void note_it(void *arg)
{
    struct client *c = arg;
    txn_hand_note(c->number, c->count);
}

static void keep_try(void *arg)
{
    struct client *c = arg;
    apart_do(&c->writer, note_it, c);
    both_at_once(c, TCC_TRY);
}

static void keep_commit(void *arg)
{
    struct client *c = arg;
    apart_do(&c->writer, note_it, c);
    both_at_once(c, TCC_CONFIRM);
}

static void by_hand_apart(struct client *c, int number)
{
    c->number = number + 1000;
    apart_do(&c->keeper, keep_try, c);
    c->number = number + 1000 + 2 * CLIENTS_MAX;
    apart_do(&c->keeper, keep_commit, c);
}

/* ---- By Rota: counted when both have confirmed ---------------------------------------------- */

struct tried {
    sem_t sem; /* all have answered */
    _Atomic int left, failed;
};

static void on_tried(void *arg, int err)
{
    struct tried *t = arg;
    if (err != 0)
        t->failed++;
    if (atomic_fetch_sub(&t->left, 1) == 1)
        sem_post(&t->sem);
}

int tcc_ask_http(struct rota_txn *t, int i, rota_txn_fn *fn, void *arg)
{
    const struct rota_tcc_http what = {.try_url = urls[i][TCC_TRY],
                                       .confirm_url = urls[i][TCC_CONFIRM],
                                       .cancel_url = urls[i][TCC_CANCEL],
                                       .content_type = "application/json",
                                       .body = BODY,
                                       .size = sizeof BODY - 1};
    return rota_tcc_http_async(t, &what, NULL, 0, fn, arg);
}

void tcc_order(struct rota_txns *m, tcc_ask *ask)
{
    const struct rota_txn_options opts = {.flags = ROTA_TXN_WAIT};
    struct rota_txn *t = NULL;
    struct tried tried = {.left = TCC_SERVICES};
    tcc_must(rota_txn_begin(m, &opts, &t) == 0, "begin", m);
    sem_init(&tried.sem, 0, 0);
    for (int i = 0; i < TCC_SERVICES; i++)
        tcc_must(ask(t, i, on_tried, &tried) == 0, "a try", m);
    while (sem_wait(&tried.sem) != 0)
        ;
    tcc_must(tried.failed == 0, "a try", m);
    tcc_must(rota_txn_commit(t) == 0, "commit", m);
    sem_destroy(&tried.sem);
}

static void by_rota(struct client *c, int number)
{
    (void)c;
    (void)number;
    tcc_order(manager, tcc_ask_http);
}

/* ---- Orders per second ------------------------------------------------------------------------ */

static int turn(void *arg)
{
    static _Thread_local int mine = -1;
    struct crowd *c = arg;
    if (mine < 0)
        mine = atomic_fetch_add(&c->next, 1);
    c->clients[mine].count++;
    c->order(&c->clients[mine], mine);
    return 0;
}

static double rate_of(void (*order)(struct client *, int), int clients, double seconds)
{
    double per_second = 0;
    crowd.order = order;
    atomic_store(&crowd.next, 0);
    bench_done(rt_bench_crowd(clients, seconds, turn, &crowd, &per_second));
    return per_second;
}

static const char *text(int clients, const char *what)
{
    static char texts[8][96];
    static unsigned next;
    char *out = texts[next++ % 8];
    snprintf(out, sizeof texts[0], "two services, %d: %s", clients, what);
    return out;
}

static double orders(void)
{
    double n = 0;
    for (int i = 0; i < CLIENTS_MAX; i++)
        n += crowd.clients[i].count;
    return n;
}

static void bench_one(const struct bench *b, int clients)
{
    void (*const ways[WAYS])(struct client *, int) = {by_rota, by_hand, by_hand_at_once,
                                                      by_hand_on_record, by_hand_apart};
    struct beside than[WAYS] = {{.n = 0}};
    double cpu[WAYS] = {0}, done[WAYS] = {0};
    for (int i = 0; i < WAYS; i++) /* warms up */
        (void)rate_of(ways[i], clients, 0.3 * ROUND_S * b->scale);
    for (int round = 0; round < ROUNDS; round++) {
        double rate[WAYS];
        for (int i = 0; i < WAYS; i++) {
            int way = (i + round) % WAYS;
            cpu[way] -= rt_bench_cpu_us();
            done[way] -= orders();
            rate[way] = rate_of(ways[way], clients, ROUND_S * b->scale);
            cpu[way] += rt_bench_cpu_us();
            done[way] += orders();
        }
        for (int i = 1; i < WAYS; i++)
            beside_add(&than[i], rate[0], rate[i]);
    }
    beside_say(b, &than[1],
               &(struct beside_text){
                   text(clients, "Rota"), text(clients, "by hand, one call after the other"),
                   text(clients, "Rota / by hand, one after the other"), "/s", 0.8, true});
    beside_say(b, &than[2],
               &(struct beside_text){NULL, text(clients, "by hand, both at once"),
                                     text(clients, "Rota / by hand, both at once"), "/s", 0, true});
    beside_say(b, &than[3],
               &(struct beside_text){NULL, text(clients, "by hand, tries on record first"),
                                     text(clients, "Rota / by hand, tries on record first"), "/s",
                                     0, true});
    beside_say(b, &than[4],
               &(struct beside_text){NULL, text(clients, "by hand, threads for disk and calls"),
                                     text(clients, "Rota / by hand, threads for both"), "/s", 0,
                                     true});
    static const char *const names[] = {"Rota, CPU with the services",
                                        "by hand, one after the other, CPU with the services",
                                        "by hand, both at once, CPU with the services",
                                        "by hand, tries on record first, CPU with the services",
                                        "by hand, threads for both, CPU with the services"};
    for (int i = 0; i < WAYS; i++)
        bench_say(b, text(clients, names[i]), cpu[i] / done[i], "us");
}

void bench_txn_tcc(const struct bench *b)
{
    char url[BENCH_URL];
    snprintf(url, sizeof url, "file:%s/tcc-journal", b->folder);
    must(rota_txns_open(&manager, url, NULL) == 0, "a manager");
    txn_hand_open(b);
    tcc_start();
    for (int i = 0; i < CLIENTS_MAX; i++)
        client_open(&crowd.clients[i]);
    bench_one(b, 1);
    bench_one(b, 16);
    bench_one(b, CLIENTS_MAX);
    for (int i = 0; i < CLIENTS_MAX; i++)
        client_close(&crowd.clients[i]);
    rota_txns_close(manager);
    manager = NULL;
    tcc_peers(b);
    tcc_stop();
}
