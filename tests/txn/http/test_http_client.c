/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of services over HTTP: every answer, servers that misbehave, certificates, hosts that hang, the end. */
#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "house.h"
#include "lib/certs.h"
#include "lib/proc.h"
#include "lib/rogue.h"
#include "lib/scarce.h"

#include <rota.h>

#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG 60000 /* ms; nothing waits this long */
#define SECRET "hunter2-of-the-test"

static struct house house, secure;
static struct rt_certs certs;
static struct rt_http_site *the_site; /* "stock"; NULL: there is none */

static struct rt_http_site *find_site(void *arg, const char *name)
{
    (void)arg;
    return the_site != NULL && strcmp(name, "stock") == 0 ? rt_http_site_hold(the_site) : NULL;
}

static struct rt_http_calls *calls_open(void)
{
    struct rt_http_calls *h = NULL;

    assert_int_equal(rt_http_calls_open(&h, &(struct rt_http_calls_options){.site = find_site}), 0);
    return h;
}

static void site_set(const char *format, ...)
{
    char url[1000], errmsg[256] = "";
    va_list args;

    rt_http_site_let_go(the_site);
    the_site = NULL;
    va_start(args, format);
    vsnprintf(url, sizeof(url), format, args);
    va_end(args);
    if (url[0] != '\0' && rt_http_site_new(&the_site, url, errmsg, sizeof(errmsg)) != 0)
        fail_msg("%s", errmsg);
}

static struct rt_service_call get(struct rt_http_calls *h, enum rt_service_op op, const char *base,
                                  const char *path, unsigned ms)
{
    char url[500];

    snprintf(url, sizeof(url), "%s%s", base, path);
    return ask_do(h, op, url, "a body", ms);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void statuses(void **state)
{
    static const struct {
        int status;
        enum rt_reply of_try, of_rest;
        const char *says;
    } all[] = {
        {200, RT_REPLY_YES, RT_REPLY_DONE, ""},
        {201, RT_REPLY_YES, RT_REPLY_DONE, ""},
        {204, RT_REPLY_YES, RT_REPLY_DONE, ""},
        {299, RT_REPLY_YES, RT_REPLY_DONE, ""},
        {409, RT_REPLY_NO, RT_REPLY_REFUSED, "409, refused: said 409"},
        {425, RT_REPLY_HELD, RT_REPLY_HELD, "425"},
        {302, RT_REPLY_LOST, RT_REPLY_LOST, "redirect"},
        {307, RT_REPLY_LOST, RT_REPLY_LOST, "redirect"},
        {400, RT_REPLY_LOST, RT_REPLY_LOST, "answered 400"},
        {401, RT_REPLY_LOST, RT_REPLY_LOST, "token_file"},
        {404, RT_REPLY_LOST, RT_REPLY_LOST, "correct its URL"},
        {500, RT_REPLY_LOST, RT_REPLY_LOST, "answered 500"},
        {503, RT_REPLY_LOST, RT_REPLY_LOST, "answered 503"},
    };
    struct rt_http_calls *h = calls_open();

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (int op = RT_SERVICE_TRY; op <= RT_SERVICE_CANCEL; op++) {
            char path[32];
            snprintf(path, sizeof(path), "/s/%d", all[i].status);
            struct rt_service_call c = get(h, (enum rt_service_op)op, house.base, path, LONG);
            assert_int_equal(c.status, all[i].status);
            assert_int_equal(c.reply, op == RT_SERVICE_TRY ? all[i].of_try : all[i].of_rest);
            if (strstr(c.errmsg, all[i].says) == NULL ||
                (all[i].says[0] == '\0' && c.errmsg[0] != '\0'))
                fail_msg("%d: %s", all[i].status, c.errmsg);
            bool has = op == RT_SERVICE_TRY && c.reply != RT_REPLY_LOST && c.status != 204;
            assert_int_equal(c.body != NULL, has);
            if (has)
                assert_memory_equal(c.body, "said ", 5);
            rt_free(c.body);
        }
    rt_http_calls_close(h);
}

static void what_is_sent(void **state)
{
    struct rt_http_calls *h = calls_open();

    (void)state;
    struct rt_service_call c = get(h, RT_SERVICE_TRY, house.base, "/echo?q=a%20b", LONG);
    assert_int_equal(c.reply, RT_REPLY_YES);
    assert_string_equal(
        c.body,
        "POST /echo q=a b\n"
        "Rota-Txn=000000070000000003e800000000002a-00000001e240\nRota-Branch=3\nRota-Op=try\n"
        "Rota-Deadline=123456\nContent-Type=text/plain\nAuthorization=-\nExpect=-\na body");
    assert_int_equal(c.body_size, strlen(c.body));
    rt_free(c.body);
    c = ask_do(h, RT_SERVICE_CONFIRM, "", "", LONG); /* there is nothing to ask */
    assert_int_equal(c.reply, RT_REPLY_DONE);
    c = ask_do(h, RT_SERVICE_TRY, "", "", LONG);
    assert_int_equal(c.reply, RT_REPLY_YES);
    rt_http_calls_close(h);
}

static void large_answers(void **state)
{
    struct rt_http_calls *h = calls_open();

    (void)state;
    struct rt_service_call c = get(h, RT_SERVICE_TRY, house.base, "/large", LONG);
    assert_int_equal(c.reply, RT_REPLY_YES);
    assert_int_equal(c.body_size, RT_SERVICE_BODY_MAX);
    assert_int_equal(c.body[RT_SERVICE_BODY_MAX], '\0');
    rt_free(c.body);
    c = get(h, RT_SERVICE_CONFIRM, house.base, "/large", LONG);
    assert_int_equal(c.reply, RT_REPLY_DONE);
    rt_http_calls_close(h);
}

/* ---- Names and certificates -------------------------------------------------------------------- */

static void services_by_name(void **state)
{
    struct rt_http_calls *h = calls_open();
    char token[300];

    (void)state;
    site_set("");
    struct rt_service_call c = ask_do(h, RT_SERVICE_TRY, "/echo", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_LOST);
    assert_non_null(strstr(c.errmsg, "file of resources"));

    snprintf(token, sizeof(token), "%s/client-token", rt_tmpdir());
    FILE *file = fopen(token, "we");
    fputs(SECRET "\n", file);
    fclose(file);
    site_set("%s/?token_file=%s", house.base, token);
    c = ask_do(h, RT_SERVICE_TRY, "/echo", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_YES);
    assert_non_null(strstr(c.body, "Authorization=Bearer " SECRET "\n"));
    rt_free(c.body);
    c = get(h, RT_SERVICE_TRY, house.base, "/echo", LONG); /* a URL is given no service's token */
    assert_non_null(strstr(c.body, "Authorization=-\n"));
    rt_free(c.body);
    unlink(token);
    c = ask_do(h, RT_SERVICE_TRY, "/echo", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_LOST);
    assert_non_null(strstr(c.errmsg, "cannot be read"));
    site_set("");
    rt_http_calls_close(h);
}

static void certificates(void **state)
{
    struct rt_http_calls *h = calls_open();

    (void)state;
    struct rt_service_call c = get(h, RT_SERVICE_TRY, secure.base, "/s/200",
                                   LONG); /* nobody knows its authority */
    assert_int_equal(c.reply, RT_REPLY_LOST);
    assert_non_null(strstr(c.errmsg, "?ca="));
    const struct {
        const char *ca;
        bool good;
    } all[] = {{certs.ca, true},
               {certs.stranger_ca, false},
               {certs.nothing, false},
               {"/nowhere/ca.pem", false}};
    for (size_t i = 0; i < 4; i++) {
        site_set("%s?ca=%s", secure.base, all[i].ca);
        c = ask_do(h, RT_SERVICE_CONFIRM, "/s/200", "x", LONG);
        if (c.reply != (all[i].good ? RT_REPLY_DONE : RT_REPLY_LOST))
            fail_msg("%s: %s", all[i].ca, c.errmsg);
    }
    site_set("https://localhost:%u/?ca=%s&cert=%s&key=%s", rt_http_server_port(secure.server),
             certs.ca, certs.client_cert, certs.client_key);
    c = ask_do(h, RT_SERVICE_CONFIRM, "/s/200", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_DONE);
    rt_http_calls_close(h); /* a connection with that certificate would do */
    h = calls_open();
    site_set("https://localhost:%u/?ca=%s&cert=%s&key=%s", rt_http_server_port(secure.server),
             certs.ca, certs.client_cert,
             certs.locked_key); /* nobody is asked for its passphrase */
    c = ask_do(h, RT_SERVICE_CONFIRM, "/s/200", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_LOST);
    assert_non_null(strstr(c.errmsg, "?key="));
    site_set("https://127.0.0.1:%u/?ca=%s", rt_http_server_port(house.server),
             certs.ca); /* TLS where there is none */
    c = ask_do(h, RT_SERVICE_CONFIRM, "/s/200", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_LOST);
    site_set("http://127.0.0.1:%u/",
             rt_http_server_port(secure.server)); /* and none where there is TLS */
    c = ask_do(h, RT_SERVICE_CONFIRM, "/s/200", "x", LONG);
    assert_int_equal(c.reply, RT_REPLY_LOST);
    site_set("");
    rt_http_calls_close(h);
}

static void wrong_name_or_too_old(void **state)
{
    const char *pairs[][2] = {{certs.other_cert, certs.other_key},
                              {certs.expired_cert, certs.expired_key}};
    struct rt_http_calls *h = calls_open();

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct house wrong;
        house_start(&wrong, &(struct rt_http_server_options){.cert_file = pairs[i][0],
                                                             .key_file = pairs[i][1]});
        site_set("%s?ca=%s", wrong.base, certs.ca);
        struct rt_service_call c = ask_do(h, RT_SERVICE_CONFIRM, "/s/200", "x", LONG);
        assert_int_equal(c.reply, RT_REPLY_LOST);
        assert_int_equal(c.status, 0);
        house_stop(&wrong);
    }
    site_set("");
    rt_http_calls_close(h);
}

/* ---- Servers that misbehave ------------------------------------------------------------------------- */

#define SAYS(text) .first = (text), .first_size = sizeof(text) - 1
#define THEN(text) .then = (text), .then_size = sizeof(text) - 1

static char megabyte[1 << 20];

static void bad_servers(void **state)
{
    const struct {
        struct rogue_options options;
        enum rt_reply reply;
        unsigned ms;
        const char *says;
    } all[] = {
        {{.way = ROGUE_NOISE, .seed = 15}, RT_REPLY_LOST, LONG, ""},
        {{.way = ROGUE_ECHOES}, RT_REPLY_LOST, LONG, "HTTP"},
        {{.way = ROGUE_CLOSES}, RT_REPLY_LOST, LONG, ""},
        {{.way = ROGUE_MUTE}, RT_REPLY_LOST, 50, "in time"},
        {{.way = ROGUE_HANGS_UP, SAYS("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes ")},
         RT_REPLY_LOST,
         LONG,
         "whole"},
        {{.way = ROGUE_HANGS_UP, SAYS("HTTP/1.1 200 OK\r\nContent-Len")}, RT_REPLY_LOST, LONG, ""},
        {{.way = ROGUE_HANGS_UP, SAYS("hello\n")}, RT_REPLY_LOST, LONG, "HTTP"},
        {{.way = ROGUE_SAYS, SAYS("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes ")},
         RT_REPLY_LOST,
         50,
         "in time"},
        {{.way = ROGUE_SAYS,
          SAYS("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")},
         RT_REPLY_LOST,
         LONG,
         "redirect"},
        {{.way = ROGUE_SAYS, SAYS("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
         RT_REPLY_DONE,
         LONG,
         ""},
        {{.way = ROGUE_SAYS,
          SAYS("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nyes\r\n0\r\nX-Behind: it\r\n\r\n")},
         RT_REPLY_DONE,
         LONG,
         ""},
        {{.way = ROGUE_SAYS, SAYS("HTTP/1.1 999999 OK\r\nContent-Length: 0\r\n\r\n")},
         RT_REPLY_LOST,
         LONG,
         ""},
        {{.way = ROGUE_FLOODS,
          SAYS("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n"),
          .then = megabyte,
          .then_size = sizeof(megabyte)},
         RT_REPLY_DONE,
         LONG,
         ""},
        {{.way = ROGUE_FLOODS,
          SAYS("HTTP/1.1 409 No\r\n\r\n"),
          .then = megabyte,
          .then_size = sizeof(megabyte)},
         RT_REPLY_REFUSED,
         LONG,
         "409"},
        {{.way = ROGUE_FLOODS, SAYS("HTTP/1.1 200 OK\r\n"), THEN("X-Head: for ever and ever\r\n")},
         RT_REPLY_LOST,
         LONG,
         "head"},
        {{.way = ROGUE_FLOODS,
          SAYS("HTTP/1.1 100 Continue\r\n\r\n"),
          THEN("HTTP/1.1 100 Continue\r\n\r\n")},
         RT_REPLY_LOST,
         LONG,
         "head"},
    };
    struct rt_http_calls *h = calls_open();

    (void)state;
    memset(megabyte, 'x', sizeof(megabyte));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rogue *rogue = rogue_start(&all[i].options);
        char base[64];
        snprintf(base, sizeof(base), "http://127.0.0.1:%u", rogue_port(rogue));
        struct rt_service_call c = get(h, RT_SERVICE_CONFIRM, base, "/x", all[i].ms);
        if (c.reply != all[i].reply || strstr(c.errmsg, all[i].says) == NULL)
            fail_msg("%zu: %d %d %s", i, (int)c.reply, c.status, c.errmsg);
        assert_int_equal(c.errmsg[0] == '\0', c.reply == RT_REPLY_DONE);
        rogue_stop(rogue);
    }
    struct rt_service_call c = get(h, RT_SERVICE_TRY, "http://127.0.0.1:1", "/x",
                                   LONG); /* nobody is there */
    assert_int_equal(c.reply, RT_REPLY_LOST);
    rt_http_calls_close(h);
}

/* One byte for each byte that comes: the answer is complete when the request is. */
static size_t drip(void *arg, bool begins, const void *got, size_t n, void *out, size_t room)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes";

    (void)arg;
    (void)got;
    (void)n;
    (void)room;
    size_t k = begins ? sizeof(answer) - 2 : 0;
    memcpy(out, answer, k);
    return k;
}

/* All but the last byte at once; that one never comes: at the deadline the call is LOST, however much came. */
static void byte_by_byte(void **state)
{
    struct rogue *rogue = rogue_start(&(struct rogue_options){.way = ROGUE_PLAYS, .play = drip});
    struct rt_http_calls *h = calls_open();
    char base[64];

    (void)state;
    snprintf(base, sizeof(base), "http://127.0.0.1:%u", rogue_port(rogue));
    struct rt_service_call c = get(h, RT_SERVICE_TRY, base, "/x", 50);
    assert_int_equal(c.reply, RT_REPLY_LOST);
    assert_int_equal(c.status, 0);
    assert_null(c.body);
    rogue_stop(rogue);
    rt_http_calls_close(h);
}

static void bad_bytes(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct ask a;

    (void)state;
    ask_init(&a, RT_SERVICE_CANCEL, "http://h/", "", LONG);
    a.call.size--;
    ask_send(&a, h);
    ask_await(&a);
    assert_int_equal(a.call.reply, RT_REPLY_LOST);
    assert_non_null(strstr(a.call.errmsg, "this version of Rota"));
    ask_fini(&a);
    ask_init(&a, RT_SERVICE_CANCEL, "http://h/", "", 0); /* late from the start */
    ask_send(&a, h);
    ask_await(&a);
    assert_int_equal(a.call.reply, RT_REPLY_LOST);
    ask_fini(&a);
    rt_http_calls_close(h);
}

/* ---- Hosts that hang, cuts, the end -------------------------------------------------------------------- */

#define MANY 200

static void one_hangs_another_does_not(void **state)
{
    static struct ask asks[MANY];
    struct rogue *mute = rogue_start(&(struct rogue_options){.way = ROGUE_MUTE});
    struct rt_http_calls *h = calls_open();
    char url[64];

    (void)state;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", rogue_port(mute));
    for (int i = 0; i < MANY; i++) {
        ask_init(&asks[i], RT_SERVICE_TRY, url, "x", LONG);
        ask_send(&asks[i], h);
    }
    for (int i = 0; i < 20; i++) { /* would wait for LONG behind the others */
        struct rt_service_call c = get(h, RT_SERVICE_TRY, house.base, "/s/200", LONG);
        assert_int_equal(c.reply, RT_REPLY_YES);
        rt_free(c.body);
    }
    rt_http_calls_cut(h, &asks[0].call);        /* it is under way */
    rt_http_calls_cut(h, &asks[MANY - 1].call); /* it waits */
    ask_await(&asks[0]);
    ask_await(&asks[MANY - 1]);
    assert_non_null(strstr(asks[0].call.errmsg, "given up"));
    rt_http_calls_cut(h, &asks[0].call); /* it was answered before: nothing happens */
    rt_http_calls_close(h);              /* all others are under way */
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(asks[i].times, 1);
        assert_int_equal(asks[i].call.reply, RT_REPLY_LOST);
        ask_fini(&asks[i]);
    }
    rogue_stop(mute);
}

static void more_than_at_once(void **state)
{
    static struct ask asks[MANY];
    struct rt_http_calls *h = calls_open();
    char url[100];

    (void)state;
    snprintf(url, sizeof(url), "%s/s/204", house.base);
    for (int i = 0; i < MANY; i++)
        ask_init(&asks[i], RT_SERVICE_CONFIRM, url, "x", LONG);
    for (int i = 0; i < MANY; i++)
        ask_send(&asks[i], h);
    for (int i = 0; i < MANY; i++) {
        ask_await(&asks[i]);
        assert_int_equal(asks[i].call.reply, RT_REPLY_DONE);
        ask_fini(&asks[i]);
    }
    rt_http_calls_close(h);
    rt_http_calls_close(NULL);
    h = calls_open(); /* and one that was never asked */
    rt_http_calls_close(h);
}

/* A name whose look-up hangs: libcurl calls this program's getaddrinfo. */
static _Atomic bool lookups_go_on;
static _Atomic int lookups;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    lookup *real;
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    memcpy(&real, &symbol, sizeof(symbol));
    if (name == NULL || strcmp(name, "hangs.invalid") != 0)
        return real(name, service, hints, out);
    lookups++;
    while (!lookups_go_on)
        usleep(1000);
    lookups--;
    return EAI_NONAME;
}

static bool is_looked_up(void)
{
    return lookups > 0;
}

static void a_lookup_that_hangs(void **state)
{
    struct rt_http_calls *h = calls_open();
    struct ask a;

    (void)state;
    ask_init(&a, RT_SERVICE_TRY, "http://hangs.invalid/", "x", LONG);
    ask_send(&a, h);
    while (!is_looked_up())
        usleep(1000);
    struct rt_service_call c = get(h, RT_SERVICE_TRY, house.base, "/s/204", LONG);
    assert_int_equal(c.reply, RT_REPLY_YES);
    c = ask_do(h, RT_SERVICE_TRY, "http://hangs.invalid/", "x",
               20); /* its deadline comes meanwhile */
    assert_int_equal(c.reply, RT_REPLY_LOST);
    assert_non_null(strstr(c.errmsg, "in time"));
    rt_http_calls_close(h); /* waits for no look-up */
    assert_int_equal(a.times, 1);
    assert_false(lookups_go_on);
    ask_fini(&a);
    lookups_go_on = true;
    while (lookups > 0)
        usleep(1000);
}

static void no_memory(void **state)
{
    /* The house has the same heap. */
    struct rogue *rogue = rogue_start(&(struct rogue_options){
        .way = ROGUE_SAYS, SAYS("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")});
    char url[100];

    (void)state;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", rogue_port(rogue));
    for (long n = 1;; n++) {
        struct rt_http_calls *h = NULL;
        struct ask a;
        ask_init(&a, RT_SERVICE_TRY, url, "x", LONG);
        scarce_begin();
        scarce.fail_at = n;
        int rv = rt_http_calls_open(&h, NULL);
        if (rv == 0)
            rv = rt_http_calls_ask(h, &a.call);
        if (rv == 0)
            ask_await(&a);
        else
            assert_int_equal(rv, ROTA_NOMEM);
        if (rv == 0 && a.call.reply != RT_REPLY_YES)
            assert_non_null(strstr(a.call.errmsg, "memory"));
        rt_http_calls_close(h);
        bool over = scarce.asked < n;
        a.times = 1;
        ask_fini(&a);
        scarce_end();
        if (over)
            break;
        assert_true(n < 1000);
    }
    rogue_stop(rogue);
}

static _Atomic int pipes;

static void on_pipe(int n)
{
    (void)n;
    pipes++;
}

static int set_up(void **state)
{
    (void)state;
    signal(SIGPIPE, on_pipe); /* nobody may see one */
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("https_proxy", "http://127.0.0.1:1", 1);
    rt_certs_make(&certs, rt_tmpdir());
    house_start(&house, &(struct rt_http_server_options){0});
    house_start(&secure, &(struct rt_http_server_options){.cert_file = certs.server_cert,
                                                          .key_file = certs.server_key});
    rt_watchdog(120, "test_http_client hangs");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    house_stop(&house);
    house_stop(&secure);
    return pipes == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    /* Without the houses, whose threads use the same heap. */
    static const struct CMUnitTest alone[] = {cmocka_unit_test(no_memory)};
    static const struct CMUnitTest all[] = {
        cmocka_unit_test(statuses),          cmocka_unit_test(what_is_sent),
        cmocka_unit_test(large_answers),     cmocka_unit_test(services_by_name),
        cmocka_unit_test(certificates),      cmocka_unit_test(wrong_name_or_too_old),
        cmocka_unit_test(bad_servers),       cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(bad_bytes),         cmocka_unit_test(one_hangs_another_does_not),
        cmocka_unit_test(more_than_at_once), cmocka_unit_test(a_lookup_that_hangs),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = cmocka_run_group_tests_name("http client, no memory", alone, NULL, NULL);
    return failed + cmocka_run_group_tests_name("http client", all, set_up, tear_down);
}
