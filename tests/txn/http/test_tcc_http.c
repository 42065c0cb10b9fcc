/* SPDX-License-Identifier: Apache-2.0 */
/* Branches that are services over HTTP, from rota_tcc_http to the last confirm: answers of every kind, and recovery by
 * another process. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/proc.h"
#include "lib/scarce.h"
#include "txn/http/server.h"
#include "txn/manager/manager.h"

#include <rota_txn.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENT 30000  /* ms, of calls that are answered */
#define LIMIT 5000     /* ... that are not, but are asked before */
#define ROUNDS 5000000 /* of the keeper: many seconds */

enum { TRY, CONFIRM, CANCEL, OPS };

/* A service: what it was asked, what it says. Paths are /NAME/OP. */
struct service {
    const char *name;
    _Atomic int asked[OPS]; /* calls */
    _Atomic int says[OPS];  /* the status; 1: nothing */
    _Atomic int times[OPS]; /* that often, then 200; 0: always */
    _Atomic bool wrong;     /* headers or body are not what they should be */
};

static struct service services[2] = {{.name = "stock"}, {.name = "money"}};
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rt_http_server *server;
static struct rota_txns *m;
static char base[64], journal[300];
static struct rt_http_request *_Atomic held; /* a try that is not answered */

static const char *const ops[] = {"try", "confirm", "cancel"};

static void serve(struct rt_http_request *r, void *arg)
{
    struct service *s = strncmp(r->path, "/stock/", 7) == 0 ? &services[0] : &services[1];
    const char *op = strrchr(r->path, '/') + 1;
    struct rota_call call;
    int i = strcmp(op, "try") == 0 ? TRY : strcmp(op, "confirm") == 0 ? CONFIRM : CANCEL;

    (void)arg;
    int rv = rota_call_read(
        &call, rt_http_request_header(r, "Rota-Txn"), rt_http_request_header(r, "Rota-Branch"),
        rt_http_request_header(r, "Rota-Op"), rt_http_request_header(r, "Rota-Deadline"));
    pthread_mutex_lock(&mu);
    s->wrong = s->wrong || rv != 0 || call.op != i + 1 || strcmp(r->body, "{\"n\":1}") != 0 ||
               strcmp(rt_http_request_header(r, "Content-Type"), "application/json") != 0;
    s->asked[i]++;
    int status = s->says[i] != 0 && (s->times[i] == 0 || s->asked[i] <= s->times[i]) ? s->says[i]
                                                                                     : 200;
    if (status == 1)
        held = r;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mu);
    if (status != 1)
        rt_http_request_answer(r, status, "text/plain", "it is so", 8);
}

static void await_asked(int service, int op, int n)
{
    pthread_mutex_lock(&mu);
    while (services[service].asked[op] < n)
        pthread_cond_wait(&changed, &mu);
    pthread_mutex_unlock(&mu);
}

static struct rota_txns *open_manager(uint32_t flags, uint32_t call_ms)
{
    struct rota_txns_options opts = {
        .flags = flags, .recover_ms = 100, .call_ms = call_ms, .resources = "/dev/null"};
    struct rota_txns *out = NULL;
    char url[100];

    if (rota_txns_open(&out, journal, &opts) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    snprintf(url, sizeof(url), "%s/", base);
    assert_int_equal(rota_txns_resource(out, "shop", url), 0);
    return out;
}

static int fresh(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int op = 0; op < OPS; op++)
            services[i].asked[op] = services[i].says[op] = services[i].times[op] = 0;
    return 0;
}

static int over(void **state)
{
    (void)state;
    return services[0].wrong || services[1].wrong ? -1 : 0;
}

/* URLs of service I: whole, or paths of the shop's. */
struct urls {
    char text[OPS][100];
    struct rota_tcc_http what;
};

static void urls_of(struct urls *u, int i, bool paths)
{
    for (int op = 0; op < OPS; op++)
        snprintf(u->text[op], sizeof(u->text[op]), "%s/%s/%s", paths ? "" : base, services[i].name,
                 ops[op]);
    u->what = (struct rota_tcc_http){.resource = paths ? "shop" : NULL,
                                     .try_url = u->text[TRY],
                                     .confirm_url = u->text[CONFIRM],
                                     .cancel_url = u->text[CANCEL],
                                     .content_type = "application/json",
                                     .body = "{\"n\":1}",
                                     .size = 7};
}

static struct rota_txn *begin_with(uint32_t flags)
{
    struct rota_txn *t = NULL;

    assert_int_equal(rota_txn_begin(m, &(struct rota_txn_options){.flags = flags}, &t), 0);
    return t;
}

static struct rota_txn *begin(void)
{
    return begin_with(ROTA_TXN_WAIT);
}

static int call(struct rota_txn *t, int i, char *answer, size_t room)
{
    struct urls u;

    urls_of(&u, i, i == 1);
    return rota_tcc_http(t, &u.what, answer, room);
}

static void all_said_yes(void **state)
{
    struct rota_txn *t = begin();
    char answer[100], small[4];

    (void)state;
    assert_int_equal(call(t, 0, answer, sizeof(answer)), 0);
    assert_string_equal(answer, "it is so");
    assert_int_equal(call(t, 1, small, sizeof(small)), 0);
    assert_string_equal(small, "it ");
    assert_int_equal(services[0].asked[CONFIRM], 0);
    assert_int_equal(rota_txn_commit(t), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(services[i].asked[TRY], 1);
        assert_int_equal(services[i].asked[CONFIRM], 1);
        assert_int_equal(services[i].asked[CANCEL], 0);
    }
}

static void one_said_no(void **state)
{
    struct rota_txn *t = begin();

    (void)state;
    services[1].says[TRY] = 409;
    assert_int_equal(call(t, 0, NULL, 0), 0);
    assert_int_equal(call(t, 1, NULL, 0), ROTA_ABORTED);
    assert_non_null(strstr(rota_txn_errmsg(m), "409"));
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    await_asked(0, CANCEL, 1);
    assert_int_equal(services[0].asked[CONFIRM] + services[1].asked[CONFIRM], 0);
}

static void one_failed(void **state)
{
    static const int statuses[] = {500, 302, 425};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        fresh(NULL);
        struct rota_txn *t = begin();
        services[0].says[TRY] = statuses[i];
        assert_int_equal(call(t, 0, NULL, 0), ROTA_UNKNOWN);
        assert_int_equal(rota_txn_abort(t), 0);
        await_asked(0, CANCEL, 1); /* it may have reserved */
    }
}

static void a_try_without_an_answer(void **state)
{
    struct rota_txns *before = m;

    (void)state;
    m = open_manager(0, LIMIT);
    struct rota_txn *t = begin();
    services[0].says[TRY] = 1;
    assert_int_equal(call(t, 0, NULL, 0), ROTA_UNKNOWN); /* after call_ms */
    assert_non_null(strstr(rota_txn_errmsg(m), "in time"));
    assert_int_equal(rota_txn_commit(t), ROTA_ABORTED);
    await_asked(0, CANCEL, 1);
    rt_http_request_answer(held, 200, NULL, "", 0); /* late: nobody hears it */
    rota_txns_close(m);
    m = before;
}

static void asked_until_it_is_done(void **state)
{
    struct rota_txn *t = begin_with(0);

    (void)state;
    services[0].says[CONFIRM] = 500;
    services[0].times[CONFIRM] = 2;
    services[1].says[CONFIRM] = 425;
    services[1].times[CONFIRM] = 1;
    assert_int_equal(call(t, 0, NULL, 0), 0);
    assert_int_equal(call(t, 1, NULL, 0), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    await_asked(0, CONFIRM, 3);
    await_asked(1, CONFIRM, 2);
}

static void recovered_elsewhere(void **state)
{
    struct rota_txn *t = begin_with(0);

    (void)state;
    services[0].says[CONFIRM] = 500;
    assert_int_equal(call(t, 0, NULL, 0), 0);
    assert_int_equal(call(t, 1, NULL, 0), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    await_asked(0, CONFIRM, 1);
    rota_txns_close(m);
    pthread_mutex_lock(&mu);
    services[0].says[CONFIRM] = 0;
    int before = services[0].asked[CONFIRM];
    pthread_mutex_unlock(&mu);
    m = open_manager(ROTA_TXN_RECOVER, PATIENT);
    await_asked(0, CONFIRM, before + 1);
    await_asked(1, CONFIRM, 1);
    assert_int_equal(services[0].asked[CANCEL] + services[1].asked[CANCEL], 0);
    rota_txns_close(m);
    m = open_manager(0, PATIENT);
}

static void shop_is_at(const char *path, const char *host)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fprintf(file, "shop = http://%s:%u/\n", host, rt_http_server_port(server));
    fclose(file);
}

/* Both refused, and will be asked again in 30 s; the one whose address was corrected is asked at once. */
static void its_address_is_corrected(void **state)
{
    char path[300], line[200];
    struct rota_txns_options opts = {.resources = path};
    struct rota_txns *before = m;

    (void)state;
    snprintf(path, sizeof(path), "%s/corrected", rt_tmpdir());
    shop_is_at(path, "127.0.0.1");
    m = NULL;
    assert_int_equal(rota_txns_open(&m, journal, &opts), 0);
    for (int i = 0; i < 2; i++) {
        struct rota_txn *t = begin_with(0);
        services[i].says[CONFIRM] = 409;
        services[i].times[CONFIRM] = 1;
        assert_int_equal(call(t, i, NULL, 0), 0);
        assert_int_equal(rota_txn_commit(t), 0);
        await_asked(i, CONFIRM, 1);
    }
    assert_int_equal(rt_txns_reload(m, path, line, sizeof(line)), 0);
    assert_string_equal(line, "");
    shop_is_at(path, "localhost");
    assert_int_equal(rt_txns_reload(m, path, line, sizeof(line)), 0);
    assert_string_equal(line, "shop has another URL");
    await_asked(1, CONFIRM, 2);
    assert_int_equal(services[0].asked[CONFIRM], 1);
    rota_txns_close(m);
    m = before;
}

struct waiting {
    int rv[2];
    _Atomic int n;
};

static void on_tried(void *arg, int err)
{
    struct waiting *w = arg;

    pthread_mutex_lock(&mu);
    w->rv[w->n++] = err;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mu);
}

static void both_at_once(void **state)
{
    struct rota_txn *t = begin();
    struct waiting w = {.n = 0};
    struct urls u[2];
    char answer[20];

    (void)state;
    for (int i = 0; i < 2; i++) {
        urls_of(&u[i], i, false);
        assert_int_equal(rota_tcc_http_async(t, &u[i].what, i == 0 ? answer : NULL,
                                             i == 0 ? sizeof(answer) : 0, on_tried, &w),
                         0);
    }
    pthread_mutex_lock(&mu);
    while (w.n < 2)
        pthread_cond_wait(&changed, &mu);
    pthread_mutex_unlock(&mu);
    assert_true(w.rv[0] == 0 && w.rv[1] == 0);
    assert_string_equal(answer, "it is so");
    assert_int_equal(rota_txn_commit(t), 0);
    assert_int_equal(services[0].asked[CONFIRM] + services[1].asked[CONFIRM], 2);
}

static void without_a_try(void **state)
{
    struct rota_txn *t = begin();
    struct urls u;

    (void)state;
    urls_of(&u, 0, false);
    u.what.try_url = NULL;
    assert_int_equal(rota_tcc_http(t, &u.what, NULL, 0), 0);
    assert_int_equal(rota_txn_commit(t), 0);
    assert_int_equal(services[0].asked[TRY], 0);
    assert_int_equal(services[0].asked[CONFIRM], 1);
}

static void what_is_refused(void **state)
{
    static char large[40000];
    const struct {
        struct rota_tcc_http what;
        int err;
        const char *says;
    } all[] = {
        {{0}, ROTA_INVALID, "at least one"},
        {{.try_url = "http://u:p@h/"}, ROTA_INVALID, "password"},
        {{.try_url = "gopher://h/"}, ROTA_INVALID, "http://"},
        {{.try_url = "/try"}, ROTA_INVALID, "name of its service"},
        {{.try_url = "/try", .resource = "nobody"}, ROTA_UNSUPPORTED, "nobody = https"},
        {{.try_url = "/try", .resource = ""}, ROTA_INVALID, "name"},
        {{.try_url = "http://h/", .size = 1}, ROTA_INVALID, "NULL"},
        {{.try_url = "http://h/", .body = large, .size = sizeof(large)}, ROTA_INVALID, "32768"},
        {{.try_url = "http://h/", .content_type = "a\r\nb: c"}, ROTA_INVALID, "content type"},
    };
    struct rota_txn *t = begin();
    char answer[10];

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int rv = rota_tcc_http(t, &all[i].what, NULL, 0);
        if (rv != all[i].err || strstr(rota_txn_errmsg(m), all[i].says) == NULL)
            fail_msg("%zu: %d %s", i, rv, rota_txn_errmsg(m));
    }
    assert_int_equal(rota_tcc_http(NULL, &all[0].what, NULL, 0), ROTA_INVALID);
    assert_int_equal(rota_tcc_http(t, NULL, NULL, 0), ROTA_INVALID);
    assert_int_equal(rota_tcc_http(t, &all[0].what, answer, 0), ROTA_INVALID);
    assert_int_equal(rota_tcc_http_async(t, &all[1].what, NULL, 0, NULL, NULL), ROTA_INVALID);
    assert_int_equal(call(t, 0, NULL, 0), 0); /* T can go on */
    assert_int_equal(rota_txn_commit(t), 0);
}

/* A program that always has a next transaction: whenever one ends it begins another, on the keeper's thread. */
struct chain {
    bool enough, over; /* with mu */
    long left;
};

static void begin_next(void *arg, int err)
{
    struct chain *c = arg;
    struct rota_txn *t = NULL;

    pthread_mutex_lock(&mu);
    bool goes_on = !c->enough && c->left-- > 0 && err == 0;
    c->over = !goes_on;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mu);
    if (!goes_on)
        return;
    if (rota_txn_begin(m, NULL, &t) != 0 || rota_txn_commit_async(t, begin_next, c) != 0)
        abort();
}

/* Whether it went on until now. */
static bool chain_end(struct chain *c)
{
    pthread_mutex_lock(&mu);
    bool went_on = !c->over;
    c->enough = true;
    while (!c->over)
        pthread_cond_wait(&changed, &mu);
    pthread_mutex_unlock(&mu);
    return went_on;
}

/* ... the keeper has something to do in every round: it hears journal and services all the same, and not only when
 * that ends. */
static void beside_one_that_never_rests(void **state)
{
    struct chain c = {.left = ROUNDS};
    struct rota_txn *t = begin();

    (void)state;
    begin_next(&c, 0);
    int tried = call(t, 0, NULL, 0);
    int committed = rota_txn_commit(t);
    assert_true(chain_end(&c));
    assert_int_equal(tried, 0);
    assert_int_equal(committed, 0);
    assert_int_equal(services[0].asked[CONFIRM], 1);
}

/* Its function ends what it has, whatever was told, while the manager is being closed. */
struct late {
    struct rota_txn *t[3]; /* one that is tried, one that was, one without a branch */
    int told, times;
    int ends[2][3]; /* what commit and abort said */
};

static void never(void *arg, int err)
{
    (void)arg;
    (void)err;
    abort();
}

static void end_all(void *arg, int err)
{
    struct late *l = arg;

    l->told = err;
    l->times++;
    for (int i = 0; i < 3; i++) {
        l->ends[0][i] = rota_txn_commit_async(l->t[i], never, NULL);
        l->ends[1][i] = rota_txn_abort_async(l->t[i], never, NULL);
    }
}

static void *close_it(void *arg)
{
    rota_txns_close(arg);
    return NULL;
}

static void ended_while_closing(void **state)
{
    static const int statuses[] = {200, 409};
    struct rota_txns *before = m;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct late l = {.times = 0};
        struct urls u;
        pthread_t closer;

        fresh(NULL);
        m = open_manager(0, PATIENT);
        for (int k = 0; k < 3; k++)
            l.t[k] = begin();
        services[0].says[TRY] = 1;
        urls_of(&u, 0, false);
        assert_int_equal(rota_tcc_http_async(l.t[0], &u.what, NULL, 0, end_all, &l), 0);
        await_asked(0, TRY, 1);
        assert_int_equal(call(l.t[1], 1, NULL, 0), 0);
        assert_int_equal(pthread_create(&closer, NULL, close_it, m), 0);
        await_asked(1, CANCEL, 1); /* so all were abandoned */
        rt_http_request_answer(held, statuses[i], NULL, "", 0);
        pthread_join(closer, NULL);
        assert_int_equal(l.times, 1);
        assert_int_equal(l.told, statuses[i] == 200 ? 0 : ROTA_ABORTED);
        for (int k = 0; k < 6; k++)
            assert_int_equal(l.ends[k / 3][k % 3], ROTA_CLOSED);
        assert_int_equal(services[0].asked[CONFIRM] + services[1].asked[CONFIRM], 0);
    }
    m = before;
}

/* Many are open at a time where people confirm: bodies of up to 100 bytes, two services, under 2 KB. */
static void what_an_open_one_costs(void **state)
{
    enum { WARM = 8, OPEN = 300 };
    struct rota_txns *before = m;
    struct rota_txn *t[WARM + OPEN];
    size_t held_by_all = 0;

    (void)state;
    m = open_manager(0, PATIENT);
    for (int i = 0; i < WARM + OPEN; i++) {
        if (i == WARM)
            held_by_all = scarce_held();
        t[i] = begin_with(0);
        assert_int_equal(call(t[i], 0, NULL, 0), 0);
        assert_int_equal(call(t[i], 1, NULL, 0), 0);
    }
    size_t each = (scarce_held() - held_by_all) / OPEN;
    print_message("an open transaction of two services costs %zu bytes\n", each);
    assert_in_range(each, 1, 2047);
    for (int i = 0; i < WARM + OPEN; i++)
        assert_int_equal(rota_txn_commit(t[i]), 0);
    rota_txns_close(m);
    m = before;
}

static int set_up(void **state)
{
    static const struct rt_http_route route = {
        .method = "POST", .path = "/*", .handle = serve, .takes = RT_HTTP_ANY};
    char errmsg[256];

    (void)state;
    scarce_begin(); /* before there are threads: what_an_open_one_costs counts */
    if (rt_http_server_start(&server,
                             &(struct rt_http_server_options){.routes = &route, .route_count = 1},
                             errmsg, sizeof(errmsg)) != 0)
        return -1;
    snprintf(base, sizeof(base), "http://127.0.0.1:%u", rt_http_server_port(server));
    snprintf(journal, sizeof(journal), "file:%s/journal", rt_tmpdir());
    m = open_manager(0, PATIENT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_txns_close(m);
    rt_http_server_stop(server, 5000);
    scarce_end();
    return 0;
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fresh, over)
    static const struct CMUnitTest all[] = {
        CASE(all_said_yes),
        CASE(one_said_no),
        CASE(one_failed),
        CASE(a_try_without_an_answer),
        CASE(asked_until_it_is_done),
        CASE(recovered_elsewhere),
        CASE(its_address_is_corrected),
        CASE(both_at_once),
        CASE(without_a_try),
        CASE(what_is_refused),
        CASE(beside_one_that_never_rests),
        CASE(ended_while_closing),
        CASE(what_an_open_one_costs),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    rt_watchdog(100, "test_tcc_http hangs");
    return cmocka_run_group_tests_name("tcc over http", all, set_up, tear_down);
}
