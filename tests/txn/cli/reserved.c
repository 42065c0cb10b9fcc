/* SPDX-License-Identifier: Apache-2.0 */
/* Branches that are services: nobody can ask them what they did, and only recovery calls them. */
#include "cases.h"

#include "lib/proc.h"
#include "txn/http/client.h"
#include "txn/http/payload.h"
#include "txn/http/server.h"
#include "txn/manager/tcc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* ---- A service ---------------------------------------------------------------------- */

static struct rt_http_server *server;
static _Atomic int cancels, others; /* calls */
static char base[64];

static void serve(struct rt_http_request *r, void *arg)
{
    (void)arg;
    if (strcmp(r->path, "/cancel") == 0)
        cancels++;
    else
        others++;
    rt_http_request_answer(r, 200, NULL, "", 0);
}

static void service_open(void)
{
    static const struct rt_http_route route = {
        .method = "POST", .path = "/*", .handle = serve, .takes = RT_HTTP_ANY};
    char why[RT_SERVICE_LINE];

    if (rt_http_calls_ready(why, sizeof(why)) != 0)
        skip();
    cancels = others = 0;
    const struct rt_http_server_options options = {
        .listen = "127.0.0.1:0", .routes = &route, .route_count = 1};
    if (rt_http_server_start(&server, &options, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    snprintf(base, sizeof(base), "http://127.0.0.1:%u", (unsigned)rt_http_server_port(server));
}

/* ---- What is left behind ---------------------------------------------------------------- */

/* Branch NUMBER of L is a service, tried: whole URLs, or paths below NAME's own. */
static int reserve(const struct left *l, uint32_t number, const char *name, bool paths)
{
    char confirm[100], cancel[100], why[RT_SERVICE_LINE];
    uint8_t bytes[500];
    size_t size;

    snprintf(confirm, sizeof(confirm), "%s/confirm", paths ? "" : base);
    snprintf(cancel, sizeof(cancel), "%s/cancel", paths ? "" : base);
    const struct rt_http_payload p = {.urls = {"", confirm, cancel}, .type = "", .body = ""};
    assert_int_equal(rt_http_payload_check(&p, &size, why, sizeof(why)), 0);
    assert_true(size <= sizeof(bytes));
    rt_http_payload_write(&p, bytes);
    const struct rt_journal_branch branch = {
        .number = number, .mode = RT_TCC_HTTP, .resource = name, .payload = bytes, .size = size};
    struct rt_journal_op op = {
        .kind = RT_JOURNAL_REGISTER,
        .reg = {.id = l->id, .deadline_ms = l->deadline_ms, .branches = &branch, .count = 1}};
    return rt_txns_ask(m, &op);
}

/* Somebody who joined has voted: its row is no branch. */
static void vouch(const struct left *l)
{
    static const uint8_t numbers[] = {0, 0, 0, 1};
    const struct rt_journal_branch vote = {.number = 0x80000007u,
                                           .mode = RT_VOUCHER,
                                           .resource = "vote",
                                           .payload = numbers,
                                           .size = sizeof(numbers)};
    struct rt_journal_op op = {
        .kind = RT_JOURNAL_REGISTER,
        .reg = {.id = l->id, .deadline_ms = l->deadline_ms, .branches = &vote, .count = 1}};

    assert_int_equal(rt_txns_ask(m, &op), 0);
}

static void begin(const struct left *l)
{
    struct rt_journal_op op = {.kind = RT_JOURNAL_REGISTER,
                               .reg = {.id = l->id, .deadline_ms = l->deadline_ms}};

    assert_int_equal(rt_txns_ask(m, &op), 0);
}

/* ---- A branch that comes while a person is asked ------------------------------------------- */

struct late {
    struct left l;
    char asks[400], goes[400]; /* pipes: the person is asked; the branch is there */
    int err;
};

static void *come_late(void *arg)
{
    struct late *late = arg;
    FILE *asks = fopen(late->asks, "re");

    late->err = asks != NULL && fgetc(asks) == '\n' ? reserve(&late->l, 1, base, false) : -1;
    FILE *goes = fopen(late->goes, "we");
    fputs("\n", goes);
    fclose(goes);
    fclose(asks);
    return NULL;
}

/* An adversary's finding: what was there before the decision counted, so the transaction was closed, and the branch never
 * cancelled. */
static void a_branch_that_came_meanwhile(void **state)
{
    struct late late = {.l = left_new(desk_now_ms(), 600000)};
    char words[100], script[1200];
    pthread_t thread;

    (void)state;
    service_open();
    begin(&late.l);
    snprintf(late.asks, sizeof(late.asks), "%s/asks", rt_tmpdir());
    snprintf(late.goes, sizeof(late.goes), "%s/goes", rt_tmpdir());
    assert_int_equal(mkfifo(late.asks, 0600) | mkfifo(late.goes, 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, come_late, &late), 0);
    snprintf(script, sizeof(script),
             "expect decide ABORT\nexpect Type yes: \nrun echo >'%s'; read x <'%s'\n"
             "send yes\\n\nexpect recovery cancels it\nend\n",
             late.asks, late.goes);
    snprintf(words, sizeof(words), "resolve --abort %s", late.l.text);
    assert_int_equal(run_at_terminal(script, words), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late.err, 0);
    json_t *all = run_json(0, "show", late.l.text, NULL);
    assert_string_equal(text_of(all, "state"), "aborting");
    json_decref(all);
    (void)run("recover", "--once", "--for", "4m",
              NULL); /* 1: there is the cellar of another case */
    assert_int_equal(cancels, 1);
    all = run_json(0, "show", late.l.text, NULL);
    assert_string_equal(text_of(all, "state"), "aborted");
    json_decref(all);
    rt_http_server_stop(server, 1000);
}

/* ---- What is said of them --------------------------------------------------------------------- */

static void is_said(const char *file, const struct left *l, const char *name, const char *text)
{
    json_t *all = run_json(0, "--resources", file, "show", l->text, NULL);
    const json_t *branch = entry_of(all, "branches", "resource", name);

    assert_string_equal(text_of(branch, "has"), "unknown");
    if (strstr(text_of(branch, "why"), text) == NULL)
        fail_msg("'%s', not '%s'", text_of(branch, "why"), text);
    json_decref(all);
}

/* The lines say who finishes it, not that a URL is missing that is there, or that nobody needs. */
static void recovery_finishes_services(void **state)
{
    struct left l = left_new(desk_now_ms(), 600000);
    char file[400];

    (void)state;
    service_open();
    snprintf(file, sizeof(file), "%s/with-stock", rt_tmpdir());
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    fprintf(out, "stock = %s/\n", base);
    fclose(out);
    assert_int_equal(reserve(&l, 1, "stock", true), 0);
    assert_int_equal(reserve(&l, 2, base, false), 0);
    vouch(&l);
    is_said(file, &l, "stock", "a service: it is confirmed or cancelled once that is decided");
    is_said(file, &l, base, "a service: it is confirmed or cancelled once that is decided");
    json_t *all = run_json(1, "--resources", file, "resolve", "--abort", "--yes", l.text, NULL);
    const json_t *stock = entry_of(all, "branches", "resource", "stock");
    assert_int_equal(json_array_size(json_object_get(all, "branches")), 2);
    assert_non_null(strstr(text_of(stock, "why"), "a service: recovery cancels it"));
    json_decref(all);
    is_said(file, &l, "stock", "'rota txn recover'");
    is_said(file, &l, base, "a service: recovery cancels it");
    is_said("/dev/null", &l, base, "a service: recovery cancels it");
    is_said("/dev/null", &l, "stock", "add 'stock = https://...' to ~/.config/rota/txn");
    all = run_json(1, "--resources", file, "recover", "--once", "--for", "4m", NULL);
    assert_int_equal(number_of(all, "left"), 0); /* 1: the databases are not in that file */
    json_decref(all);
    assert_true(cancels == 2 && others == 0);
    all = run_json(0, "resolve", "--abort", "--yes", l.text, NULL); /* it is over */
    assert_true(json_is_true(json_object_get(all, "finished")));
    json_decref(all);
    rt_http_server_stop(server, 1000);
}

const struct CMUnitTest cases_reserved[] = {
    cmocka_unit_test(a_branch_that_came_meanwhile),
    cmocka_unit_test(recovery_finishes_services),
};
const size_t cases_reserved_count = sizeof(cases_reserved) / sizeof(cases_reserved[0]);
