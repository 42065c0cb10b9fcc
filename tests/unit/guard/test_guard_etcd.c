/* SPDX-License-Identifier: Apache-2.0 */
/* The guard in etcd: one Txn as JSON, on a real server, and answers of every kind. */
#include "lib/etcd_server.h"
#include "lib/http.h"
#include "lib/scarce.h"

#include <rota_guard.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static struct rt_etcds etcds;
static int db = -1;

static int send_txn(const char *key, uint64_t fence, const char *value, char *got, size_t *size)
{
    static char answer[16384];
    char *request = NULL;

    int err = rota_guard_etcd(key, fence, value, value != NULL ? strlen(value) : 0, &request);
    if (err != 0)
        return err;
    assert_int_equal(rt_http_post(db, "/v3/kv/txn", request, answer, sizeof(answer)), 0);
    rota_guard_etcd_free(request);
    return rota_guard_etcd_answer(answer, got, got != NULL ? 256 : 0, size);
}

static int put(const char *key, uint64_t fence, const char *value)
{
    return send_txn(key, fence, value, NULL, NULL);
}

static void is(const char *key, const char *wanted)
{
    char out[512];
    const char *args[] = {"get", "--print-value-only", key, NULL};

    assert_int_equal(rt_etcds_ctl(&etcds, -1, out, sizeof(out), args), 0);
    out[strcspn(out, "\n")] = '\0';
    assert_string_equal(out, wanted);
}

static void an_older_fence_is_refused(void **state)
{
    (void)state;
    assert_int_equal(put("a", 34, "b"), 0);
    assert_int_equal(put("a", 33, "x"), ROTA_LOST);
    is("a", "b");
    assert_int_equal(put("a", 34, "bb"), 0);
    assert_int_equal(put("a", 35, "c"), 0);
    is("a", "c");
    is("a.fence", "00000000000000000035");
}

static void a_guarded_look_keeps_the_earlier_one_out(void **state)
{
    char got[256] = "";
    size_t size = 99;

    (void)state;
    assert_int_equal(send_txn("l", 32, NULL, got, &size), 0); /* nothing there yet */
    assert_int_equal(size, 0);
    assert_int_equal(put("l", 33, "7"), 0);
    assert_int_equal(send_txn("l", 34, NULL, got, &size), 0);
    assert_int_equal(size, 1);
    assert_int_equal(got[0], '7');
    assert_int_equal(put("l", 33, "8"), ROTA_LOST);
    assert_int_equal(send_txn("l", 33, NULL, got, &size), ROTA_LOST);
    is("l", "7");
}

static void numbers_are_compared_as_numbers(void **state)
{
    (void)state;
    assert_int_equal(put("n", 9, "a"), 0);
    assert_int_equal(put("n", 10, "b"), 0);
    assert_int_equal(put("n", 9, "c"), ROTA_LOST);
    assert_int_equal(put("n", INT64_MAX, "d"), 0);
    assert_int_equal(put("n", INT64_MAX - 1, "e"), ROTA_LOST);
    assert_int_equal(put("n", INT64_MAX, "f"), 0);
    is("n", "f");
}

/* Every length, so that base64 ends in each of its ways; every byte. */
static void bytes_are_passed_through(void **state)
{
    static char answer[16384];
    unsigned char bytes[300], got[300];
    char *request;
    size_t size;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 37 + 5);
    for (size_t n = 0; n <= sizeof(bytes); n += n < 8 ? 1 : 146) {
        assert_int_equal(rota_guard_etcd("by\"tes\\'", 5, bytes, n, &request), 0);
        assert_int_equal(rt_http_post(db, "/v3/kv/txn", request, answer, sizeof(answer)), 0);
        rota_guard_etcd_free(request);
        assert_int_equal(rota_guard_etcd_answer(answer, NULL, 0, NULL), 0);
        assert_int_equal(rota_guard_etcd("by\"tes\\'", 5, NULL, 0, &request), 0);
        assert_int_equal(rt_http_post(db, "/v3/kv/txn", request, answer, sizeof(answer)), 0);
        rota_guard_etcd_free(request);
        assert_int_equal(rota_guard_etcd_answer(answer, got, sizeof(got), &size), 0);
        assert_int_equal(size, n);
        assert_memory_equal(got, bytes, n);
        if (n > 0)
            assert_int_equal(rota_guard_etcd_answer(answer, got, n - 1, &size), ROTA_INVALID);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    char *request = NULL;

    (void)state;
    assert_int_equal(rota_guard_etcd("a", 0, "v", 1, &request), ROTA_INVALID);
    assert_int_equal(rota_guard_etcd("a", (uint64_t)INT64_MAX + 1, "v", 1, &request), ROTA_INVALID);
    assert_int_equal(rota_guard_etcd("", 1, "v", 1, &request), ROTA_INVALID);
    assert_int_equal(rota_guard_etcd(NULL, 1, "v", 1, &request), ROTA_INVALID);
    assert_int_equal(rota_guard_etcd("a", 1, "v", 1, NULL), ROTA_INVALID);
    assert_int_equal(rota_guard_etcd_answer(NULL, NULL, 0, NULL), ROTA_INVALID);
    assert_null(request);
}

static void answers_are_judged(void **state)
{
    static const struct {
        const char *answer;
        int err;
    } cases[] = {
        {"", ROTA_PROTOCOL},
        {"<html>404", ROTA_PROTOCOL},
        {"{\"header\":{},\"succeeded\":true}", 0},
        {"{ \"header\" : {}, \"succeeded\" : true }", 0}, /* 3.6 puts spaces where it likes */
        {"{\"header\":{}}", ROTA_LOST},
        {"{\"header\":{},\"succeeded\":false}", ROTA_LOST},
        {"{\"header\":{},\"responses\":[{\"response_txn\":{}}]}", ROTA_LOST},
        {"{\"header\":{},\"responses\":[{\"response_txn\":{\"succeeded\":true}}]}", 0},
        {"{\"header\":{},\"succeeded\":true,\"value\":\"A\"}", ROTA_PROTOCOL},
        {"{\"header\":{},\"succeeded\":true,\"value\":\"A*==\"}", ROTA_PROTOCOL},
        {"{\"header\":{},\"succeeded\":true,\"value\":7}", ROTA_PROTOCOL},
        {"{\"error\":\"etcdserver: permission denied\",\"code\":7}", ROTA_AUTH},
        {"{\"error\":\"invalid auth token\",\"code\":16}", ROTA_AUTH},
        {"{\"error\":\"duplicate key\",\"code\":3}", ROTA_INVALID},
        {"{\"error\":\"request timed out\",\"code\":14}", ROTA_UNKNOWN},
        {"{\"error\":\"what\",\"code\":5}", ROTA_PROTOCOL},
        {"{\"error\":\"a word like \\\"succeeded\\\":true\",\"code\":4}", ROTA_UNKNOWN},
    };
    char got[16];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int err = rota_guard_etcd_answer(cases[i].answer, got, sizeof(got), NULL);
        if (err != cases[i].err)
            print_error("%s\n", cases[i].answer);
        assert_int_equal(err, cases[i].err);
    }
}

static void memory_that_runs_out_is_told(void **state)
{
    char *request = NULL;

    (void)state;
    for (int after = 0; after < 2; after++) {
        scarce_begin();
        scarce.after = after != 0;
        for (long n = 1; request == NULL; n++) {
            scarce.asked = 0;
            scarce.fail_at = n;
            int err = rota_guard_etcd("a", 34, "value", 5, &request);
            assert_int_equal(err, request == NULL ? ROTA_NOMEM : 0);
        }
        rota_guard_etcd_free(request);
        request = NULL;
        assert_int_equal(scarce.live, 0);
    }
    scarce_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_fence_is_refused),
        cmocka_unit_test(a_guarded_look_keeps_the_earlier_one_out),
        cmocka_unit_test(numbers_are_compared_as_numbers),
        cmocka_unit_test(bytes_are_passed_through),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(answers_are_judged),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };

    rt_etcds_start(&etcds, 1, NULL);
    db = rt_http_open(etcds.node[0].server.port);
    int failed = db < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    close(db);
    rt_etcds_fini(&etcds);
    return failed;
}
