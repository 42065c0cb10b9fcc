/* SPDX-License-Identifier: Apache-2.0 */
/* Links with too little memory, without descriptors 0 to 2, and to names of several addresses. */
#include "../sql/rider.h"
#include "engine/postgres/postgres.h"
#include "lib/postgres_server.h"
#include "lib/scarce.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct rt_pg server;

/* ---- Names ------------------------------------------------------------------------------------------------ */

static void add(struct addrinfo **list, uint32_t address, const char *port)
{
    struct addrinfo *a = calloc(1, sizeof(*a) + sizeof(struct sockaddr_in));
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)(a + 1);
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    in->sin_addr.s_addr = htonl(address);
    a->ai_family = AF_INET;
    a->ai_socktype = SOCK_STREAM;
    a->ai_addr = (struct sockaddr *)in;
    a->ai_addrlen = sizeof(*in);
    a->ai_next = *list;
    *list = a;
}

/* In place of libc's, for libpq too: "several" is two addresses where nobody listens and then the server's. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out)
{
    struct in_addr numeric;
    (void)hints;
    *out = NULL;
    if (inet_pton(AF_INET, host, &numeric) == 1)
        add(out, ntohl(numeric.s_addr), port);
    for (uint32_t i = 1; i <= 3 && strcmp(host, "several") == 0; i++)
        add(out, 0x7f000000u + i, port);
    return *out != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list != NULL) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

/* ---- The library ------------------------------------------------------------------------------------------- */

static bool no_libpq;

void *dlopen(const char *name, int flags)
{
    union {
        void *symbol;
        void *(*call)(const char *name, int flags);
    } real = {.symbol = dlsym(RTLD_NEXT, "dlopen")};
    return no_libpq && name != NULL && strstr(name, "libpq") != NULL ? NULL
                                                                     : real.call(name, flags);
}

/* The first case: once it is there, it stays. */
static void without_libpq(void **state)
{
    struct rider r;
    (void)state;
    no_libpq = true;
    assert_int_equal(rider_open(&r, &rt_postgres_driver, "postgres://h/d", NULL, 0),
                     ROTA_UNSUPPORTED);
    assert_non_null(strstr(r.why, "(Debian: libpq5)"));
    no_libpq = false;
}

static int start(void **state)
{
    (void)state;
    rt_pg_start(&server, NULL);
    rt_pg_make_tables(&server, rt_postgres_driver.ddl);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rt_pg_fini(&server);
    return 0;
}

static const char *url_of(const char *host)
{
    static char url[200];
    snprintf(url, sizeof(url), "postgres://postgres@%s:%u/postgres?sslmode=disable&schema=public",
             host, (unsigned)server.server.port);
    return url;
}

static void several_addresses(void **state)
{
    struct rider r;
    (void)state;
    rider_start(&r, &rt_postgres_driver, url_of("several"));
    DO(&r, STEP0(FACTS));
    rider_drop(&r);
    for (int turns = 0; turns < 8; turns++) { /* dropped while it looks, and while it tries */
        assert_int_equal(rider_begin(&r, 0), 0);
        for (int i = 0; i < turns && r.ups < 2; i++)
            rider_turn();
        rider_drop(&r);
    }
    rider_close(&r);
}

/* ---- Descriptors ------------------------------------------------------------------------------------------- */

static void low_descriptors(void **state)
{
    struct rider r;
    int saved = fcntl(0, F_DUPFD_CLOEXEC, 10);
    (void)state;
    close(0);
    rider_start(&r, &rt_postgres_driver, url_of("127.0.0.1"));
    assert_true(rt_postgres_of(r.link)->fd > 2);
    assert_int_equal(fcntl(0, F_GETFD), -1); /* and nothing was left there */
    DO(&r, STEP0(FACTS));
    rider_close(&r);
    if (saved >= 0) {
        dup2(saved, 0);
        close(saved);
    }
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* Every allocation of `open` fails once: the error says so, and nothing stays. */
static void little_memory(void **state)
{
    struct rt_conn conn = {.loop = &rider_loop, .ttl_ms = 10000, .call_ms = 5000};
    struct rt_dial_ring ring = {0};
    struct rt_url url;
    void *self;
    int rv = ROTA_NOMEM;
    (void)state;
    assert_int_equal(rt_url_parse(&url,
                                  "postgres://me:p@/d?host=/a,b&port=1,2&ca=/c&cert=/d&schema=s",
                                  conn.errmsg, sizeof(conn.errmsg)),
                     0);
    scarce_begin();
    for (long at = 1; rv != 0; at++) {
        scarce.asked = 0;
        scarce.fail_at = at;
        rv = rt_postgres_driver.open(&conn, &url, &ring, &self);
        if (rv != 0)
            rt_dial_ring_fini(&ring);
        assert_true(rv == ROTA_NOMEM || (rv == 0 && at > 12));
        assert_true(rv == 0 || scarce.live == 0);
    }
    assert_string_equal(ring.ends[1].at, "b:2");
    rt_dial_ring_fini(&ring);
    rt_postgres_driver.close(self);
    assert_int_equal(scarce.live, 0);
    scarce_end();
    rt_url_fini(&url);
}

/* That much is left, and then nothing: the error says so, or it was enough; the next try succeeds. */
static void little_memory_on_the_way(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "several"};
    (void)state;
    for (long left = 0; left < 20; left++) {
        struct rider r;
        assert_int_equal(rider_open(&r, &rt_postgres_driver, url_of(hosts[left % 2]), NULL, 0), 0);
        assert_true(rider_dial(&r));
        rider_drop(&r);
        scarce_begin();
        scarce_leave(left / 2);
        int rv = rider_begin(&r, 0);
        assert_true(rv == 0 || rv == ROTA_NOMEM);
        while (rv == 0 && r.ups == 1 && r.downs == 0)
            rider_turn();
        assert_true(rv != 0 || r.ups == 2 || r.err == ROTA_NOMEM);
        scarce_end();
        if (r.ups == 1)
            assert_true(rider_dial(&r));
        DO(&r, STEP0(FACTS));
        rider_close(&r);
    }
}

/* A flight that cannot be recorded does not leave. */
static void little_memory_for_a_flight(void **state)
{
    struct rt_sql_step steps[RIDER_STEPS * 4];
    struct rt_sql_flight f = {steps, RIDER_STEPS * 4};
    struct rider r;
    (void)state;
    for (size_t i = 0; i < f.count; i++)
        steps[i] = STEP(RENEW, N(1), N(1));
    scarce_begin();
    rider_start(&r, &rt_postgres_driver, url_of("127.0.0.1"));
    scarce_leave(0);
    assert_int_equal(rt_postgres_driver.send(r.link, &f), ROTA_NOMEM);
    scarce_leave(-1);
    DO(&r, STEP0(FACTS));
    rider_close(&r);
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_libpq, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(several_addresses, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(low_descriptors, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(little_memory, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(little_memory_on_the_way, rider_setup, rider_teardown),
        cmocka_unit_test_setup_teardown(little_memory_for_a_flight, rider_setup, rider_teardown),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
