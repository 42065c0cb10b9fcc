/* SPDX-License-Identifier: Apache-2.0 */
/* Calls through the fault proxy: for each fault, what the caller is told and how often the service is asked. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "house.h"

#include "base/alloc.h"
#include "lib/proc.h"
#include "lib/proxy.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

#define PATIENT 30000 /* ms, of calls that are answered */
#define SHORT 5000    /* ... that are not, but come to the proxy before */

static struct rt_http_server *server;
static struct rt_proxy *proxy;
static struct rt_http_calls *calls;
static atomic_int asked;
static char url[100];

static void serve(struct rt_http_request *r, void *arg)
{
    (void)arg;
    asked++;
    rt_http_request_answer(r, 200, "text/plain", r->body, r->size);
}

static void must_be_asked(int times)
{
    for (int i = 0; asked < times; i++) {
        assert_true(i < PATIENT / 5);
        poll(NULL, 0, 5);
    }
    assert_int_equal(asked, times);
}

static enum rt_reply call(const char *body, unsigned ms)
{
    struct rt_service_call c = ask_do(calls, RT_SERVICE_TRY, url, body, ms);

    rt_free(c.body);
    return c.reply;
}

static const struct loss {
    enum rt_fault_on on;
    enum rt_fault_do what;
    unsigned ms;
    enum rt_reply reply;
    int asked; /* for each request that the fault had */
} losses[] = {
    {RT_FAULT_REQUEST, RT_FAULT_CUT, PATIENT, RT_REPLY_LOST, 0},
    {RT_FAULT_REQUEST, RT_FAULT_DROP, SHORT, RT_REPLY_LOST, 0},
    {RT_FAULT_REPLY, RT_FAULT_CUT, PATIENT, RT_REPLY_LOST, 1},
    {RT_FAULT_REPLY, RT_FAULT_DROP, SHORT, RT_REPLY_LOST, 1},
    {RT_FAULT_REQUEST, RT_FAULT_DOUBLE, PATIENT, RT_REPLY_YES, 2},
};

static void each_fault_is_what_it_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        const struct loss *l = &losses[i];
        char body[32];
        snprintf(body, sizeof(body), "order %zu", i);
        /* All: libcurl asks once more when a connection it kept has ended. */
        const struct rt_fault fault = {
            .on = l->on, .what = l->what, .match = body, .times = RT_FAULT_ALWAYS};
        asked = 0;
        assert_int_equal(call("another", PATIENT), RT_REPLY_YES); /* on a connection that is kept */
        uint32_t number = rt_proxy_fault(proxy, &fault);
        assert_int_equal(call(body, l->ms), l->reply);
        int hits = (int)rt_proxy_fault_hits(proxy, number);
        assert_true(hits == 1 || (hits == 2 && l->what == RT_FAULT_CUT));
        must_be_asked(1 + hits * l->asked);
        assert_int_equal(call("one more", PATIENT), RT_REPLY_YES); /* and the next is as ever */
        must_be_asked(2 + hits * l->asked);
    }
}

/* Its caller is long gone, and others were served meanwhile. */
static void what_is_kept_back_comes_behind_others(void **state)
{
    const struct rt_fault fault = {
        .on = RT_FAULT_REQUEST, .what = RT_FAULT_DELAY, .match = "POST /echo late "};

    (void)state;
    asked = 0;
    uint32_t number = rt_proxy_fault(proxy, &fault);
    assert_int_equal(call("late", SHORT), RT_REPLY_LOST);
    assert_int_equal(call("in time", PATIENT), RT_REPLY_YES);
    assert_int_equal(asked, 1);
    rt_proxy_fault_release(proxy, number);
    must_be_asked(2);
}

static void some_of_a_hundred_by_chance(void **state)
{
    const struct rt_fault fault = {
        .on = RT_FAULT_REQUEST, .what = RT_FAULT_DOUBLE, .times = RT_FAULT_ALWAYS, .chance = 50};

    (void)state;
    asked = 0;
    uint32_t number = rt_proxy_fault(proxy, &fault);
    for (int i = 0; i < 40; i++)
        assert_int_equal(call("some", PATIENT), RT_REPLY_YES);
    rt_proxy_fault_end(proxy, number);
    int hits = (int)rt_proxy_fault_hits(proxy, number);
    assert_true(hits > 0 && hits < 40);
    must_be_asked(40 + hits);
}

static int set_up(void **state)
{
    static const struct rt_http_route route = {
        .method = "POST", .path = "/*", .handle = serve, .takes = RT_HTTP_ANY};
    const struct rt_http_server_options options = {.routes = &route, .route_count = 1};
    struct rt_proxy_options through = {.framing = &rt_proxy_http, .seed = 7};
    char errmsg[256];

    (void)state;
    if (rt_http_server_start(&server, &options, errmsg, sizeof(errmsg)) != 0 ||
        rt_http_calls_open(&calls, &(struct rt_http_calls_options){.site = NULL}) != 0)
        return -1;
    through.port = rt_http_server_port(server);
    proxy = rt_proxy_start(&through);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/echo", (unsigned)rt_proxy_port(proxy));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rt_http_calls_close(calls);
    rt_proxy_stop(proxy);
    rt_http_server_stop(server, 5000);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(each_fault_is_what_it_says),
        cmocka_unit_test(what_is_kept_back_comes_behind_others),
        cmocka_unit_test(some_of_a_hundred_by_chance),
    };

    rt_watchdog(100, "test_http_proxy hangs");
    return cmocka_run_group_tests_name("http through the proxy", all, set_up, tear_down);
}
