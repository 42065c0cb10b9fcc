/* SPDX-License-Identifier: Apache-2.0 */
/* What DTM's clients send: read, refused with one line, stored and read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "txn/serve/plan.h"

static char why[RT_PLAN_LINE];

static bool reads(struct rt_plan *p, const char *text)
{
    return rt_plan_read(p, text, strlen(text), 5000, why);
}

static void refused(const char *text, const char *word)
{
    struct rt_plan p;
    assert_false(reads(&p, text));
    if (strstr(why, word) == NULL)
        fail_msg("%s: %s", text, why);
    assert_null(strchr(why, '\n'));
}

static void a_saga_is_read_and_kept(void **state)
{
    static const char text[] =
        "{\"gid\":\"g1\",\"trans_type\":\"saga\",\"steps\":[{\"action\":\"http://a/1\",\"compensate\":"
        "\"http://a/2\"},{\"action\":\"http://b/1\",\"compensate\":\"\"}],\"payloads\":[\"{1}\",\"{2}\"],"
        "\"custom_data\":\"{\\\"orders\\\":{\\\"1\\\":[0]},\\\"concurrent\\\":true}\",\"concurrent\":true,"
        "\"branch_headers\":{\"test_header\":\"x y\"},\"timeout_to_fail\":7,\"wait_result\":true,"
        "\"protocol\":\"\",\"other\":1}";
    struct rt_plan p, q;
    size_t size;
    (void)state;
    assert_true(reads(&p, text));
    char *kept = rt_plan_write(&p, &size);
    assert_true(rt_plan_read(&q, kept, size, 9000, why));
    for (struct rt_plan *r = &p; r != NULL; r = r == &p ? &q : NULL) {
        assert_int_equal(r->kind, RT_PLAN_SAGA);
        assert_int_equal(r->count, 2);
        assert_string_equal(r->steps[0].forward, "http://a/1");
        assert_string_equal(r->steps[1].back, "");
        assert_string_equal(r->steps[1].data, "{2}");
        assert_string_equal(r->steps[1].id, "02");
        assert_int_equal(r->order_count, 1);
        assert_int_equal(r->orders[0].step, 1);
        assert_true(r->concurrent);
        assert_string_equal(r->headers, "test_header: x y\n");
        assert_int_equal(r->timeout_s, 7);
        assert_int_equal(r->created_ms, 5000);
    }
    assert_true(p.wait);
    assert_false(q.wait); /* of the request, not of the transaction */
    free(kept);
    rt_plan_free(&p);
    rt_plan_free(&q);
}

static void what_is_wrong_is_said(void **state)
{
    char gid[1100];
    (void)state;
    refused("", "not JSON");
    refused("garbage", "not JSON");
    refused("[1,2]", "not a JSON object");
    refused("{}", "gid is missing");
    refused("{\"gid\":7}", "gid is not a text");
    refused("{\"gid\":\"a\\nb\",\"trans_type\":\"tcc\"}", "control");
    refused("{\"gid\":\"g\"}", "trans_type is missing");
    refused("{\"gid\":\"g\",\"trans_type\":\"workflow\"}", "only tcc, saga and msg");
    refused("{\"gid\":\"g\",\"trans_type\":\"xa\"}", "only tcc, saga and msg");
    refused("{\"gid\":\"g\",\"trans_type\":\"tcc\",\"protocol\":\"grpc\"}", "only http");
    refused("{\"gid\":\"g\",\"trans_type\":\"saga\",\"steps\":3}", "not an array");
    refused("{\"gid\":\"g\",\"trans_type\":\"saga\",\"steps\":[3]}", "not an object");
    refused("{\"gid\":\"g\",\"trans_type\":\"msg\",\"steps\":[{\"action\":\"topic://t\"}]}",
            "topics");
    refused("{\"gid\":\"g\",\"trans_type\":\"msg\",\"steps\":[{\"action\":\"localhost:58081/f\"}]}",
            "only http");
    refused("{\"gid\":\"g\",\"trans_type\":\"msg\",\"steps\":[{\"action\":\"http://u:p@h/\"}]}",
            "action");
    refused("{\"gid\":\"g\",\"trans_type\":\"tcc\",\"timeout_to_fail\":-1}", "timeout_to_fail");
    refused("{\"gid\":\"g\",\"trans_type\":\"tcc\",\"branch_headers\":{\"a b\":\"c\"}}",
            "not a header");
    refused("{\"gid\":\"g\",\"trans_type\":\"tcc\",\"branch_headers\":{\"a\":\"c\\r\\nd: e\"}}",
            "control");
    refused("{\"gid\":\"g\",\"trans_type\":\"tcc\",\"branch_headers\":{\"Content-Length\":\"3\"}}",
            "not one you may set");
    refused(
        "{\"gid\":\"g\",\"trans_type\":\"tcc\",\"branch_headers\":{\"transfer-encoding\":\"x\"}}",
        "not one you may set");
    refused("{\"gid\":\"g\",\"trans_type\":\"saga\",\"custom_data\":\"x\"}", "custom_data");
    refused(
        "{\"gid\":\"g\",\"trans_type\":\"saga\",\"custom_data\":\"{\\\"orders\\\":{\\\"5\\\":[0]}}\"}",
        "orders");
    refused(
        "{\"gid\":\"g\",\"trans_type\":\"saga\",\"steps\":[{}],\"custom_data\":\"{\\\"orders\\\":{\\\"0\\\":"
        "[0]}}\"}",
        "earlier");
    memset(gid, 0, sizeof(gid));
    strcpy(gid, "{\"trans_type\":\"tcc\",\"gid\":\"");
    memset(gid + strlen(gid), 'g', 1000);
    strcat(gid, "\"}");
    refused(gid, "1000 bytes");
}

/* A call with SIZE bytes of data to a URL of LENGTH bytes, by step, by query, by branch. */
static bool fits(size_t length, size_t size)
{
    static char text[80000], url[3000], data[40000];
    struct rt_plan p, tcc = {.kind = RT_PLAN_TCC, .gid = "g"};
    const char *gid;

    snprintf(url, sizeof(url), "http://h/%0*d", (int)length - 9, 0);
    snprintf(data, sizeof(data), "%0*d", (int)size, 0);
    snprintf(
        text, sizeof(text),
        "{\"gid\":\"g\",\"trans_type\":\"saga\",\"steps\":[{\"action\":\"\",\"compensate\":\"%s\"}],"
        "\"payloads\":[\"%s\"]}",
        url, data);
    bool good = reads(&p, text);
    if (good)
        rt_plan_free(&p);
    snprintf(text, sizeof(text),
             "{\"gid\":\"g\",\"branch_id\":\"01\",\"confirm\":\"%s\",\"data\":\"%s\"}", url, data);
    assert_int_equal(rt_plan_add(&tcc, text, strlen(text), 1, &gid, why), good);
    rt_plan_free(&tcc);
    return good;
}

/* What the carrier would not accept (address.h, payload.h) would be retried for ever. */
static void what_cannot_be_called_is_refused(void **state)
{
    (void)state;
    assert_true(fits(1900, 30000));
    assert_false(fits(2040, 10));
    assert_non_null(strstr(why, "2048 bytes"));
    assert_false(fits(100, 33000));
    assert_non_null(strstr(why, "leave the rest"));
}

static void a_tcc_has_any_number_of_branches(void **state)
{
    struct rt_plan p = {.kind = RT_PLAN_TCC, .gid = "g"};
    const char *gid;
    char text[100];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof(text), "{\"gid\":\"g\",\"branch_id\":\"%04d\"}", i);
        assert_true(rt_plan_add(&p, text, strlen(text), 1, &gid, why));
    }
    rt_plan_free(&p);
}

static void branches_are_ordered_by_their_time(void **state)
{
    struct rt_plan p = {.kind = RT_PLAN_TCC, .gid = ""};
    const char *gid;
    size_t size;
    (void)state;
    static const char one[] =
        "{\"gid\":\"g\",\"branch_id\":\"02\",\"confirm\":\"http://a/\",\"cancel\":\"http://b/\","
        "\"data\":\"{}\"}";
    static const char two[] = "{\"gid\":\"g\",\"branch_id\":\"0102\",\"at\":30}";
    assert_true(rt_plan_add(&p, one, strlen(one), 50, &gid, why));
    assert_true(rt_plan_add(&p, two, strlen(two), 60, &gid, why));
    assert_string_equal(gid, "g");
    assert_string_equal(p.steps[0].id, "0102");
    assert_string_equal(p.steps[1].id, "02");
    assert_int_not_equal(p.steps[0].number, p.steps[1].number);
    char *kept = rt_plan_write_branch(&p.steps[1], &size);
    assert_true(rt_plan_add(&p, kept, size, 99, &gid, why));
    assert_int_equal(p.steps[2].at, 50);
    assert_string_equal(p.steps[2].back, "http://b/");
    assert_int_equal(p.steps[2].number, p.steps[1].number);
    free(kept);
    assert_false(rt_plan_add(&p, "{}", 2, 1, &gid, why));
    assert_false(rt_plan_add(&p, "{\"gid\":\"g\"}", 11, 1, &gid, why));
    assert_non_null(strstr(why, "branch_id is missing"));
    assert_int_equal(p.count, 3);
    rt_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saga_is_read_and_kept),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(what_cannot_be_called_is_refused),
        cmocka_unit_test(a_tcc_has_any_number_of_branches),
        cmocka_unit_test(branches_are_ordered_by_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
