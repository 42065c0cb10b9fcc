/* SPDX-License-Identifier: Apache-2.0 */
/* The small server: whom it lets in, what is too much, handlers that hang or answer later, the end. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "house.h"
#include "lib/certs.h"
#include "lib/http.h"
#include "lib/proc.h"
#include "lib/scarce.h"

#include <rota.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONG 60000

static struct rt_http_site *the_site;

static struct rt_http_site *find_site(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return rt_http_site_hold(the_site);
}

static struct rt_http_calls *calls_open(void)
{
    struct rt_http_calls *h = NULL;

    assert_int_equal(rt_http_calls_open(&h, &(struct rt_http_calls_options){.site = find_site}), 0);
    return h;
}

static int status_of(struct rt_http_calls *h, const char *base, const char *path, const char *body)
{
    char url[300];

    snprintf(url, sizeof(url), "%s%s", base, path);
    struct rt_service_call c = ask_do(h, RT_SERVICE_CONFIRM, url, body, LONG);
    return c.status;
}

static const char *write_file(const char *name, const char *text)
{
    static char path[300];
    snprintf(path, sizeof(path), "%s/%s", rt_tmpdir(), name);
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

/* The answer to TEXT, whole or until the connection is closed. */
static void raw(uint16_t port, const char *text, char *out, size_t room)
{
    int fd = rt_http_open(port);
    size_t n = 0;
    ssize_t got;

    assert_true(fd >= 0);
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
    while (n + 1 < room && strstr(out, "\r\n\r\n") == NULL &&
           (got = recv(fd, out + n, room - 1 - n, 0)) > 0) {
        n += (size_t)got;
        out[n] = '\0';
    }
    out[n] = '\0';
    close(fd);
}

static void doors(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct house house;
    char out[1000] = "";

    (void)state;
    house_start(&house, &(struct rt_http_server_options){0});
    assert_int_equal(status_of(h, house.base, "/s/200", "x"), 200);
    assert_int_equal(status_of(h, house.base, "/quick", "x"), 200);
    assert_int_equal(status_of(h, house.base, "/later", "x"), 200);
    assert_int_equal(status_of(h, house.base, "/nowhere", "x"), 404);
    assert_int_equal(status_of(h, house.base, "/echo/more", "x"), 404);
    raw(rt_http_server_port(house.server), "GET /s/200 HTTP/1.1\r\nHost: localhost\r\n\r\n", out,
        sizeof(out));
    assert_non_null(strstr(out, " 405 "));
    out[0] = '\0';
    raw(rt_http_server_port(house.server), "GET /echo?q=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", out,
        sizeof(out));
    assert_non_null(strstr(out, " 200 "));
    out[0] = '\0';
    raw(rt_http_server_port(house.server), "no HTTP at all\r\n\r\n", out, sizeof(out));
    assert_null(strstr(out, " 200 "));
    house_stop(&house);
    rt_http_calls_close(h);
}

static void too_large(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct house house;
    char body[101], out[1000] = "";

    (void)state;
    memset(body, 'x', sizeof(body));
    house_start(&house, &(struct rt_http_server_options){.body_max = 99});
    body[100] = '\0';
    assert_int_equal(status_of(h, house.base, "/echo", body), 413);
    body[99] = '\0';
    assert_int_equal(status_of(h, house.base, "/echo", body), 200);
    raw(rt_http_server_port(house.server), /* nothing is said of its length before */
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "40\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n"
        "40\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n0\r\n\r\n",
        out, sizeof(out));
    assert_null(strstr(out, " 200 "));
    house_stop(&house);
    rt_http_calls_close(h);
}

static void who_is_let_in(void **state)
{
    static const struct {
        const char *token;
        int status;
    } all[] = {{"", 401},           {"right", 200},  {"wrong", 401}, {"righ", 401},
               {"rightright", 401}, {"right!", 401}, {"RIGHT", 401}};
    struct rt_http_calls *h = calls_open();
    struct house house;
    char errmsg[256], url[600];

    (void)state;
    house_start(&house, &(struct rt_http_server_options){
                            .token_file = write_file("server-token", "right\n")});
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        snprintf(url, sizeof(url), "%s", house.base);
        if (all[i].token[0] != '\0')
            snprintf(url, sizeof(url), "%s/?token_file=%s", house.base,
                     write_file("token", all[i].token));
        assert_int_equal(rt_http_site_new(&the_site, url, errmsg, sizeof(errmsg)), 0);
        assert_int_equal(status_of(h, "", "/s/200", "x"), all[i].status);
        assert_int_equal(status_of(h, "", "/nowhere", "x"), all[i].status == 200 ? 404 : 401);
        rt_http_site_let_go(the_site);
    }
    house_stop(&house);
    rt_http_calls_close(h);
}

/* The status of the answer to a request with this HEAD and the body {}. */
static int status_to(uint16_t port, const char *line, const char *head, char *out, size_t room)
{
    char text[600];

    out[0] = '\0';
    snprintf(text, sizeof(text), "%s HTTP/1.1\r\n%sContent-Length: 2\r\n\r\n{}", line, head);
    raw(port, text, out, room);
    return strncmp(out, "HTTP/1.1 ", 9) == 0 ? atoi(out + 9) : 0;
}

#define JSON "Content-Type: application/json\r\n"

static void web_pages_cannot_ask(void **state)
{
    struct house house;
    char out[1000];

    (void)state;
    house_start(&house, &(struct rt_http_server_options){0});
    uint16_t port = rt_http_server_port(house.server);
    const struct {
        const char *line, *head;
        int status;
    } all[] = {
        {"POST /json", "Host: localhost:1\r\n" JSON, 200},
        {"POST /json", "Host: LOCALHOST\r\n" JSON, 200},
        {"POST /json", "Host: 127.0.0.1\r\nContent-Type: Application/JSON; charset=utf-8\r\n", 200},
        {"POST /json", "Host: evil.example\r\n" JSON, 421},
        {"POST /json", "Host: 127.0.0.1.evil.example\r\n" JSON, 421},
        {"POST /json", "Host: 192.0.2.1\r\n" JSON, 421},
        {"POST /json", "Host: localhost@evil.example\r\n" JSON, 421},
        {"POST /json", "Host: \r\n" JSON, 421},
        {"GET /echo", "Host: evil.example\r\n", 421}, /* DNS rebinding reads, too */
        {"POST /nowhere", "Host: evil.example\r\n", 421},
        {"POST /json", "Host: localhost\r\nOrigin: https://evil.example\r\n" JSON, 403},
        {"POST /json", "Host: localhost\r\nOrigin: http://localhost:3000\r\n" JSON, 403},
        {"POST /json", "Host: localhost\r\nOrigin: null\r\n" JSON, 403},
        {"OPTIONS /json", "Host: localhost\r\nOrigin: https://evil.example\r\n", 403},
        {"GET /echo", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403},
        {"GET /echo", "Host: localhost\r\nSec-Fetch-Site: same-site\r\n", 403},
        {"GET /echo", "Host: localhost\r\nSec-Fetch-Site: none\r\n" JSON,
         200}, /* typed by a person */
        {"POST /json", "Host: localhost\r\nOrigin: http://localhost\r\n" JSON, 200},
        {"POST /json", "Host: localhost:9\r\nOrigin: https://localhost:9\r\n" JSON, 200},
        {"POST /json", "Host: localhost\r\n", 415},
        {"POST /json", "Host: localhost\r\nContent-Type: text/plain\r\n", 415},
        {"POST /json", "Host: localhost\r\nContent-Type: application/jsonp\r\n", 415},
        {"POST /json", "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n",
         415},
        {"POST /text", "Host: localhost\r\nContent-Type: text/plain\r\n", 415}, /* no token */
        {"POST /text", "Host: localhost\r\nContent-Type: text/plain\r\n" JSON, 415},
        {"POST /text", "Host: localhost\r\n" JSON, 200},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int status = status_to(port, all[i].line, all[i].head, out, sizeof(out));
        if (status != all[i].status || strstr(out, "X-Content-Type-Options: nosniff") == NULL ||
            strstr(out, "Cache-Control: no-store") == NULL)
            fail_msg("%s %s: %d: %s", all[i].line, all[i].head, status, out);
    }
    house_stop(&house);
}

static void names_it_is_asked_by(void **state)
{
    struct house house;
    char out[1000], names[] = "db.example,other.example";

    (void)state;
    house_start(&house,
                &(struct rt_http_server_options){
                    .allow_hosts = names, .token_file = write_file("names-token", "right\n")});
    uint16_t port = rt_http_server_port(house.server);
    memset(names, 'x', sizeof(names) - 1); /* it has its own */
#define TOKEN "Authorization: Bearer right\r\n"
    assert_int_equal(status_to(port, "POST /json", "Host: DB.example:80\r\n" TOKEN JSON, out, 1000),
                     200);
    assert_int_equal(status_to(port, "POST /json", "Host: other.example\r\n" TOKEN JSON, out, 1000),
                     200);
    assert_int_equal(status_to(port, "POST /json", "Host: b.example\r\n" TOKEN JSON, out, 1000),
                     421);
    assert_int_equal(status_to(port, "POST /json", "Host: db.example.\r\n" TOKEN JSON, out, 1000),
                     200);
    assert_int_equal(status_to(port, "POST /json", "Host: db.example\r\n" JSON, out, 1000), 401);
    assert_int_equal(status_to(port, "POST /text",
                               "Host: localhost\r\nContent-Type: text/plain\r\n" TOKEN, out, 1000),
                     200);
    house_stop(&house);
}

static void what_may_be_allowed(void **state)
{
    char names[30] = "";

    (void)state;
    assert_null(rt_http_door_add(names, sizeof(names), "a.example"));
    assert_null(rt_http_door_add(names, sizeof(names), "2001:db8::1"));
    assert_string_equal(names, "a.example,2001:db8::1");
    static const char *const bad[] = {"", "a:1", "a,b", "[::1]", "*", "-x", "a b", "far.too.long"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_non_null(rt_http_door_add(names, sizeof(names), bad[i]));
    assert_string_equal(names, "a.example,2001:db8::1");
}

/* By the rules alone, where it listens at other addresses. */
static void hosts_of_other_addresses(void **state)
{
    static const struct {
        const char *at, *host, *origin;
        int status;
    } all[] = {
        {"0.0.0.0:80", "192.0.2.1", NULL, 0},
        {"0.0.0.0:80", "[2001:db8::1]:80", NULL, 0},
        {"0.0.0.0:80", "h.example", NULL, 421},
        {"[::1]:80", "[::1]:80", NULL, 0},
        {"[::1]:80", "[0:0:0:0:0:0:0:1]", NULL, 0},
        {"[::1]:80", "127.0.0.1", NULL, 421},
        {"[::1]:80", "[::1", NULL, 421},
        {"[::1]:80", "::1", NULL, 421},
        {"127.0.0.2:80", "127.0.0.2", NULL, 0},
        {"127.0.0.2:80", "127.0.0.1", NULL, 421},
        {"127.0.0.1:80", NULL, NULL, 0},
        {"127.0.0.1:80", NULL, "http://localhost", 403},
        {"127.0.0.1:80", "localhost:80:80", NULL, 421},
        {"127.0.0.1:80", "localhost", "https://localhost", 0},
        {"127.0.0.1:80", "localhost.:80", NULL, 0},
        {"127.0.0.1:80", "-x", NULL, 421},
        {"127.0.0.1:80", "[2001:db8::2]", NULL, 0},
        {"127.0.0.1:80", "[2001:db8:0:0::2]:1", NULL, 0},
        {"127.0.0.1:80", "[2001:db8::3]", NULL, 421},
    };
    char line[300];

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rt_http_listen at;
        assert_int_equal(rt_http_listen_read(&at, all[i].at, line, sizeof(line)), 0);
        const struct rt_http_door door = {.at = &at, .names = "a.example,2001:DB8:0::2"};
        const struct rt_http_head head = {.host = all[i].host, .origin = all[i].origin};
        if (rt_http_door_refuses(&door, &head, line, sizeof(line)) != all[i].status)
            fail_msg("%zu: %s at %s", i, all[i].host, all[i].at);
    }
    struct rt_http_listen at;
    assert_int_equal(rt_http_listen_read(&at, "127.0.0.1:80", line, sizeof(line)), 0);
    const struct rt_http_door secure = {.at = &at, .secure = true};
    const struct rt_http_head plain = {.host = "localhost", .origin = "http://localhost"};
    const struct rt_http_head named = {.host = "db.example:80"};
    assert_int_equal(rt_http_door_refuses(&secure, &plain, line, sizeof(line)), 403);
    assert_int_equal(rt_http_door_refuses(&secure, &named, line, sizeof(line)), 421);
    assert_non_null(strstr(line, "--allow-host db.example,")); /* what to do */
}

static void what_is_refused(void **state)
{
    struct rt_certs certs;
    struct rt_http_server *s = NULL;
    struct house house;
    char errmsg[256], taken[64];

    (void)state;
    rt_certs_make(&certs, rt_tmpdir());
    house_start(&house, &(struct rt_http_server_options){0});
    snprintf(taken, sizeof(taken), "127.0.0.1:%u", rt_http_server_port(house.server));
    const struct {
        struct rt_http_server_options options;
        int err;
        const char *says;
    } all[] = {
        {{.listen = "127.0.0.1"}, ROTA_INVALID, "ADDRESS:PORT"},
        {{.listen = "h:1"}, ROTA_INVALID, "ADDRESS:PORT"},
        {{.listen = "::1:80"}, ROTA_INVALID, "ADDRESS:PORT"},
        {{.listen = "127.0.0.1:99999"}, ROTA_INVALID, "ADDRESS:PORT"},
        {{.listen = "0.0.0.0:0"}, ROTA_INVALID, "token and a certificate"},
        {{.listen = "[::]:0"}, ROTA_INVALID, "token and a certificate"},
        {{.listen = taken}, ROTA_UNREACHABLE, "cannot listen"},
        {{.token_file = "/nowhere"}, ROTA_INVALID, "/nowhere"},
        {{.cert_file = "/nowhere"}, ROTA_INVALID, "/nowhere"},
        {{.cert_file = certs.nothing}, ROTA_INVALID, "not a PEM"},
        {{.cert_file = certs.server_cert, .key_file = certs.client_key},
         ROTA_INVALID,
         "belong together"},
        {{.key_file = certs.server_key}, ROTA_INVALID, "certificate"},
        {{.allow_hosts = "h.example:80"}, ROTA_INVALID, "without ports"},
        {{.allow_hosts = "h.example,"}, ROTA_INVALID, "host names"},
        {{.allow_hosts = "*"}, ROTA_INVALID, "host names"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int rv = rt_http_server_start(&s, &all[i].options, errmsg, sizeof(errmsg));
        if (rv != all[i].err || strstr(errmsg, all[i].says) == NULL)
            fail_msg("%zu: %d %s", i, rv, errmsg);
        assert_null(s);
    }
    house_stop(&house);
    rt_http_server_stop(NULL, 0);
    assert_int_equal(rt_http_server_start(
                         &s,
                         &(struct rt_http_server_options){.listen = "0.0.0.0:0", .insecure = true},
                         errmsg, sizeof(errmsg)),
                     0);
    rt_http_server_stop(s, 0);
}

static void handlers_that_hang(void **state)
{
    static struct ask asks[7];
    struct rt_http_calls *h = calls_open();
    struct house house;
    char url[100];

    (void)state;
    house_start(&house, &(struct rt_http_server_options){.threads = 8});
    snprintf(url, sizeof(url), "%s/hang", house.base);
    for (int i = 0; i < 7; i++) {
        ask_init(&asks[i], RT_SERVICE_CONFIRM, url, "x", LONG);
        ask_send(&asks[i], h);
    }
    house_await_hanging(&house, 7);
    for (int i = 0; i < 10; i++)
        assert_int_equal(status_of(h, house.base, "/s/200", "x"), 200);
    house_open_gate(&house);
    for (int i = 0; i < 7; i++) {
        ask_await(&asks[i]);
        assert_int_equal(asks[i].call.status, 200);
        ask_fini(&asks[i]);
    }
    house_stop(&house);
    rt_http_calls_close(h);
}

static void *stop(void *arg)
{
    struct house *house = arg;

    rt_http_server_stop(house->server, LONG);
    return NULL;
}

static void the_end_waits_for_who_is_there(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct house house;
    pthread_t thread;
    struct ask a;
    char url[100];

    (void)state;
    house_start(&house, &(struct rt_http_server_options){.threads = 1});
    snprintf(url, sizeof(url), "%s/hang", house.base);
    ask_init(&a, RT_SERVICE_CONFIRM, url, "x", LONG);
    ask_send(&a, h);
    house_await_hanging(&house, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop, &house), 0);
    house_open_gate(&house);
    ask_await(&a);
    assert_int_equal(a.call.status, 200);
    ask_fini(&a);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&house.changed);
    pthread_mutex_destroy(&house.mu);
    rt_http_calls_close(h);
}

static struct rt_http_request *_Atomic kept;

static void keep(struct rt_http_request *r, void *arg)
{
    (void)arg;
    kept = r;
}

static void an_answer_after_the_end(void **state)
{
    const struct rt_http_route route = {
        .method = "POST", .path = "/keep", .handle = keep, .takes = RT_HTTP_ANY};
    struct rt_http_calls *h = calls_open();
    struct rt_http_server *s = NULL;
    char errmsg[256], url[100];
    struct ask a;

    (void)state;
    assert_int_equal(rt_http_server_start(
                         &s, &(struct rt_http_server_options){.routes = &route, .route_count = 1},
                         errmsg, sizeof(errmsg)),
                     0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/keep", rt_http_server_port(s));
    ask_init(&a, RT_SERVICE_CONFIRM, url, "x", LONG);
    ask_send(&a, h);
    while (kept == NULL)
        usleep(1000);
    rt_http_server_stop(s, 0);
    ask_await(&a);
    assert_int_equal(a.call.reply, RT_REPLY_LOST);
    ask_fini(&a);
    assert_string_equal(kept->path, "/keep");
    assert_string_equal(rt_http_request_header(kept, "rota-op"), "confirm");
    rt_http_request_answer(kept, 200, NULL, "", 0); /* nobody hears it */
    rt_http_calls_close(h);
}

static void no_memory(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        const struct rt_http_route route = {
            .method = "POST", .path = "/keep", .handle = keep, .takes = RT_HTTP_ANY};
        struct rt_http_server *s = NULL;
        char errmsg[256], out[300] = "";
        scarce_begin();
        scarce.fail_at = n;
        kept = NULL;
        int rv = rt_http_server_start(
            &s, &(struct rt_http_server_options){.threads = 1, .routes = &route, .route_count = 1},
            errmsg, sizeof(errmsg));
        if (rv != 0)
            assert_int_equal(rv, ROTA_NOMEM);
        if (rv == 0) {
            int fd = rt_http_open(rt_http_server_port(s));
            static const char request[] =
                "POST /keep?a=b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx";
            (void)send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
            /* Either it is handed on, or the connection is closed. */
            while (kept == NULL && recv(fd, out, sizeof(out), MSG_DONTWAIT) != 0)
                usleep(100);
            if (kept != NULL)
                rt_http_request_answer(kept, 200, "text/plain", "yes", 3);
            if (kept != NULL)
                (void)recv(fd, out, sizeof(out), 0);
            close(fd);
            rt_http_server_stop(s, LONG);
        }
        bool over = scarce.asked < n;
        assert_int_equal(scarce.live, 0);
        scarce_end();
        if (over)
            break;
        assert_true(n < 1000);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(doors),
        cmocka_unit_test(too_large),
        cmocka_unit_test(who_is_let_in),
        cmocka_unit_test(web_pages_cannot_ask),
        cmocka_unit_test(names_it_is_asked_by),
        cmocka_unit_test(what_may_be_allowed),
        cmocka_unit_test(hosts_of_other_addresses),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(handlers_that_hang),
        cmocka_unit_test(the_end_waits_for_who_is_there),
        cmocka_unit_test(an_answer_after_the_end),
        cmocka_unit_test(no_memory),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    rt_watchdog(120, "test_http_server hangs");
    return cmocka_run_group_tests_name("http server", all, NULL, NULL);
}
