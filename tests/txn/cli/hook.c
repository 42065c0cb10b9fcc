/* SPDX-License-Identifier: Apache-2.0 */
/* A person is called: on_attention of the configuration, and what ls, show and the metrics say of it. */
#include "cases.h"

#include "lib/proc.h"

#include <sys/stat.h>
#include <unistd.h>

static char hooked[400], called[400];

/* A file of resources like the desk's, with a hook. */
static void write_hooked(void)
{
    char line[700];
    FILE *from = fopen(resources, "re"), *to;

    snprintf(called, sizeof(called), "%s/called", rt_tmpdir());
    snprintf(hooked, sizeof(hooked), "%s/hooked", rt_tmpdir());
    unlink(called);
    to = fopen(hooked, "we");
    assert_true(from != NULL && to != NULL);
    assert_int_equal(chmod(hooked, 0600), 0);
    while (fgets(line, sizeof(line), from) != NULL)
        fputs(line, to);
    fprintf(to, "on_attention = echo \"$ROTA_TXN|$ROTA_RESOURCE|$ROTA_LINE\" >>%s\n", called);
    fclose(from);
    fclose(to);
}

/* How many lines that the hook wrote begin with TEXT. */
static int count_called(const char *text)
{
    FILE *file = fopen(called, "re");
    char line[700];
    int n = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        n += strncmp(line, text, strlen(text)) == 0;
    if (file != NULL)
        fclose(file);
    return n;
}

static void a_person_is_called(void **state)
{
    struct left l = leave_prepared(60000), other = leave_decided(true);
    char line[200];

    (void)state;
    write_hooked();
    decide(&l, true, "attic");
    json_t *all = run_json(0, "ls", NULL);
    assert_true(
        json_is_false(json_object_get(entry_of(all, "transactions", "id", l.text), "attention")));
    json_decref(all);
    json_decref(run_json(1, "--resources", hooked, "recover", "--once", "--for", "4m", NULL));
    is_at_both(&l, true); /* and nobody waits for the person */
    is_at_both(&other, true);
    snprintf(line, sizeof(line), "%s|attic|this machine has no URL for it", l.text);
    assert_int_equal(count_called(line), 1);
    assert_int_equal(count_called(other.text), 0);

    all = run_json(1, "ls", "--attention", NULL);
    assert_non_null(entry_of(all, "transactions", "id", l.text));
    assert_null(entry_of(all, "transactions", "id", other.text));
    json_decref(all);
    all = run_json(0, "show", l.text, NULL);
    const json_t *call = entry_of(all, "calls", "resource", "attic");
    has_keys(call, "at resource text");
    assert_true(number_of(call, "at") > desk_now_ms() - 600000);
    assert_non_null(strstr(text_of(call, "text"), "no URL"));
    assert_int_equal(json_array_size(json_object_get(all, "calls")), 1);
    json_decref(all);
    assert_non_null(strstr(run("show", l.text, NULL)->out, "  attic: this machine has no URL"));
    json_decref(run_json(0, "resolve", "--done", "--yes", l.text, NULL));
    all = run_json(run("ls", "--attention", NULL)->code, "ls", "--attention", NULL);
    assert_null(
        entry_of(all, "transactions", "id", l.text)); /* it is over; show tells of it still */
    json_decref(all);
}

static bool has_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        found = found || strcmp(line, text) == 0;
    if (file != NULL)
        fclose(file);
    return found;
}

static void a_daemon_calls(void **state)
{
    struct left l = leave_prepared(60000);
    char old[400];
    struct daemon d;

    (void)state;
    write_hooked();
    decide(&l, true, "attic");
    snprintf(old, sizeof(old), "%s", resources);
    snprintf(resources, sizeof(resources), "%s", hooked);
    daemon_start(&d);
    snprintf(resources, sizeof(resources), "%s", old);
    hears(&d, "READY=1");
    while (count_called(l.text) == 0 || !has_text(d.metrics, "rota_txn_up 1\n") ||
           has_text(d.metrics, "rota_txn_attention 0\n"))
        hears(&d, "WATCHDOG=1"); /* unread messages stop it */
    assert_true(has_text(d.metrics, "rota_txn_hooks_total{result=\"killed\"} 0\n"));
    assert_true(has_text(d.metrics, "rota_txn_hooks_total{result=\"dropped\"} 0\n"));
    daemon_stop(&d);
    assert_int_equal(count_called(l.text), 1);
    json_decref(run_json(0, "resolve", "--done", "--yes", l.text, NULL));
}

const struct CMUnitTest cases_hook[] = {
    cmocka_unit_test(a_person_is_called),
    cmocka_unit_test(a_daemon_calls),
};
const size_t cases_hook_count = sizeof(cases_hook) / sizeof(cases_hook[0]);
