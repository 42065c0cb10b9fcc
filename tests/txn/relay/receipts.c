/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts on a real broker: by a topic, over HTTP, by the table; lost, late, doubled, and none at all. */
#include "stand.h"

#include "lib/http.h"
#include "lib/proc.h"
#include "txn/relay/receipts.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_MS 60000

/* ---- What they are written with ------------------------------------------------------------------ */

static char database[200];
/* Each case has its own: the relay publishes again what is reported late, and copies of it stay. */
static char topic[20];

/* Starts a relay of the table with all ways to report, with a TOKEN (NULL: none is needed); returns its port. */
static pid_t relay_with(uint16_t *port, const char *token)
{
    static int cases;
    char *url = HERE->site->url(0), source[128];

    stand_clear();
    office_empty();
    office_admin("DELETE FROM effect");
    snprintf(database, sizeof(database), "%s", url);
    free(url);
    snprintf(topic, sizeof(topic), "orders-%d", ++cases);
    stand_route(topic);
    stand_route("receipts");
    snprintf(source, sizeof(source), "%s", stand_source("receipts"));
    pid_t pid = stand_start(1, "--from", database, "--to", stand_url(), "--receipts", source,
                            "--listen", "127.0.0.1:0", "--republish-after", "1s",
                            token != NULL ? "--token-file" : NULL, token, NULL);
    stand_await_text("err1", "listens at port ");
    *port = (uint16_t)strtoul(strstr(stand_err(1), "at port ") + 8, NULL, 10);
    return pid;
}

static pid_t relay_up(uint16_t *port)
{
    return relay_with(port, NULL);
}

static void relay_down(pid_t pid)
{
    stand_kill(pid, SIGTERM);
    assert_int_equal(stand_end(pid), 0);
}

static bool so_many(void *arg)
{
    return office_count("processed") >= *(const long long *)arg;
}

static void await_processed(long long n)
{
    if (!rt_await(so_many, &n, LIMIT_MS))
        fail_msg("%lld are processed, not %lld: %s %s", office_count("processed"), n, stand_err(0),
                 stand_err(1));
}

/* One event of the case's topic, committed. */
static void put(const char *payload)
{
    const struct rota_event e = {
        .topic = topic, .key = "k", .type = "made", .payload = payload, .size = strlen(payload)};
    void *conn = office_conn();

    office_sql(conn, "%s", HERE->begin);
    if (HERE->put(conn, &e) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    office_sql(conn, "COMMIT");
    office_close(conn);
}

/* Events are taken, and reported to WHERE, until it is ended. There may be copies of one: so nobody counts them. */
static pid_t consumer_up(const char *where)
{
    char command[600];

    snprintf(command, sizeof(command), "echo $ROTA_EVENT_ID >%s", stand_path("id"));
    return stand_start(0, "consume", "--from", stand_url(), "--source", stand_source(topic),
                       "--consumer", "g", "--lease", "1s", "--report", where, "--exec", command,
                       NULL);
}

/* One event is taken, reported to WHERE, and processed. */
static void consume_one(const char *where)
{
    pid_t pid = consumer_up(where);

    await_processed(1);
    relay_down(pid);
}

/* Of the event that was taken last. */
static void last_id(char *out, size_t size)
{
    const char *text = stand_text("id");

    snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
    assert_true(out[0] != '\0');
}

/* ---- Cases ------------------------------------------------------------------------------------------ */

static void a_list_of_ids_is_read_line_by_line(void **state)
{
    char text[] = " a-1 \r\n\n b2\n", odd[] = "a\0b", control[] = "a\x01";
    const char *ids[3];

    (void)state;
    assert_int_equal(rt_receipts_read(text, strlen(text), ids, 3), 2);
    assert_string_equal(ids[0], "a-1");
    assert_string_equal(ids[1], "b2");
    assert_int_equal(rt_receipts_read(odd, 3, ids, 3), SIZE_MAX);
    assert_int_equal(rt_receipts_read(control, 2, ids, 3), SIZE_MAX);
    char latin[] = "caf\xe9";
    assert_int_equal(rt_receipts_read(latin, 4, ids, 3), SIZE_MAX); /* a database would refuse it */
    assert_null(rt_receipts_fault("caf\xc3\xa9", 64));
    assert_non_null(rt_receipts_fault(" a", 64));
    assert_non_null(rt_receipts_fault("a\nb", 64));
    static const char *const json[] = {"{\"id\": \"a\"}", "{", "{ }", "[\"a\"]", "[1, 2]", "\"a\""};
    for (size_t i = 0; i < sizeof(json) / sizeof(json[0]); i++) {
        char line[40];
        snprintf(line, sizeof(line), "a\n %s", json[i]);
        assert_int_equal(rt_receipts_read(line, strlen(line), ids, 3), SIZE_MAX);
        assert_non_null(rt_receipts_fault(json[i], RT_EVENT_ID - 1));
        assert_null(rt_receipts_fault(json[i], RT_EVENT_TAKEN)); /* the inbox takes any */
    }
    assert_null(rt_receipts_fault("{6B8D5B02-81CF-44A3-9560-8B2C8063D968}", RT_EVENT_ID - 1));
    char many[] = "a\nb\nc\nd", none[] = "\n \n";
    assert_int_equal(rt_receipts_read(many, strlen(many), ids, 3), SIZE_MAX);
    assert_int_equal(rt_receipts_read(none, strlen(none), ids, 3), 0);
}

static void reported_by_a_topic_and_doubled_late_or_bad_ones_do_no_harm(void **state)
{
    uint16_t port;
    char id[64];

    (void)state;
    pid_t relay = relay_up(&port);
    put("one");
    consume_one("topic:receipts");
    last_id(id, sizeof(id));
    stand_publish("receipts", "r-1", id, strlen(id)); /* doubled */
    stand_publish("receipts", "r-2", "\0\1", 2);
    stand_publish("receipts", "r-3", "no-such-event\n", 14);
    office_admin("DELETE FROM rota_event");
    stand_publish("receipts", "r-4", id, strlen(id)); /* late: the row is gone */
    put("two");
    consume_one("topic:receipts");
    assert_int_equal(office_number("SELECT COUNT(*) FROM rota_event"), 1);
    stand_await_text("err1", "not a list of ids");
    relay_down(relay);
}

static void reported_over_http_and_doubled_or_bad_ones_do_no_harm(void **state)
{
    uint16_t port;
    char where[64], id[64], list[200], said[300];

    (void)state;
    pid_t relay = relay_up(&port);
    snprintf(where, sizeof(where), "http://127.0.0.1:%u", port);
    put("one");
    consume_one(where);
    last_id(id, sizeof(id));
    int fd = rt_http_open(port);
    assert_true(fd >= 0);
    snprintf(list, sizeof(list), "[\"%s\", \"%s\"]", id, id);
    assert_int_equal(rt_http_post(fd, "/processed", list, said, sizeof(said)), 0);
    assert_string_equal(said, "{\"processed\": 0}\n"); /* it was before */
    assert_int_equal(rt_http_post(fd, "/processed", "[\"no-such-event\"]", said, sizeof(said)), 0);
    assert_string_equal(said, "{\"processed\": 0}\n");
    static const char *const bad[] = {"\x01",       "x",      "[]",       "[\"a\\u0001\"]",
                                      "[\"a\", 1]", "[\"\"]", "[\"[1]\"]"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(rt_http_post(fd, "/processed", bad[i], said, sizeof(said)), 0);
        assert_non_null(strstr(said, "ids of events"));
    }
    assert_int_equal(rt_http_post(fd, "/processed", "{\"id\": \"x\"}", said, sizeof(said)), 0);
    assert_non_null(
        strstr(said, "ids of events")); /* it is easily done, and nothing was processed */
    close(fd);
    relay_down(relay);
}

/* An id that no receipt can have: the reports after it go all the same. */
static void what_cannot_be_reported_is_told_and_holds_up_nothing(void **state)
{
    uint16_t port;
    char where[64];

    (void)state;
    pid_t relay = relay_up(&port);
    snprintf(where, sizeof(where), "http://127.0.0.1:%u", port);
    stand_publish(topic, "caf\xe9", "x", 1);
    pid_t consumer = consumer_up(where);
    stand_await_text("err0", "is not reported: its id is not UTF-8");
    put("one");
    await_processed(1);
    relay_down(consumer);
    relay_down(relay);
}

static void without_the_token_nothing_is_reported(void **state)
{
    uint16_t port;
    char where[700], token[600];

    (void)state;
    snprintf(token, sizeof(token), "%s.token", rt_tmpdir());
    FILE *file = fopen(token, "w");
    assert_true(file != NULL && fputs("s3cret-word\n", file) >= 0 && fclose(file) == 0);
    pid_t relay = relay_with(&port, token);
    snprintf(where, sizeof(where), "http://127.0.0.1:%u", port);
    put("one");
    pid_t consumer = consumer_up(where);
    stand_await_text("err0", "401");
    relay_down(consumer);
    assert_int_equal(office_count("processed"), 0);
    snprintf(where, sizeof(where), "http://127.0.0.1:%u?token_file=%s", port, token);
    consume_one(where); /* it is published again */
    relay_down(relay);
    unlink(token);
}

/* Somebody who takes reports and never answers; returns its port. */
static int silent(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 4) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* The receipt is lost with the consumer. The relay publishes again, the consumer knows it, and reports it. */
static void killed_between_the_acknowledgement_and_the_report_it_is_processed_in_the_end(
    void **state)
{
    uint16_t port, deaf;
    char where[64], command[1024];

    (void)state;
    pid_t relay = relay_up(&port);
    int fd = silent(&deaf);
    snprintf(command, sizeof(command), "exec %s clerk %s", stand_self(), strchr(database, ':') + 1);
    snprintf(where, sizeof(where), "http://127.0.0.1:%u", deaf);
    put("one");
    pid_t pid = stand_start(0, "consume", "--from", stand_url(), "--source", stand_source(topic),
                            "--consumer", "g", "--lease", "1s", "--report", where, "--exec",
                            command, NULL);
    int one = accept(fd, NULL, NULL); /* it reports, so it has acknowledged */
    assert_true(one >= 0);
    stand_kill(pid, SIGKILL);
    (void)stand_end(pid);
    assert_int_equal(office_number("SELECT COUNT(*) FROM effect"), 1);
    assert_int_equal(office_count("processed"), 0);
    snprintf(where, sizeof(where), "http://127.0.0.1:%u", port);
    pid = stand_start(0, "consume", "--from", stand_url(), "--source", stand_source(topic),
                      "--consumer", "g", "--lease", "1s", "--report", where, "--exec", command,
                      NULL);
    await_processed(1);
    relay_down(pid);
    assert_int_equal(office_number("SELECT COUNT(*) FROM effect"), 1);
    relay_down(relay);
    close(one);
    close(fd);
}

static void reported_by_the_table_itself(void **state)
{
    char where[220];
    uint16_t port;

    (void)state;
    pid_t relay = relay_up(&port);
    put("one");
    snprintf(where, sizeof(where), "db:%s", database);
    consume_one(where);
    relay_down(relay);
}

static void the_example_takes_works_acknowledges_and_reports(void **state)
{
    uint16_t port;
    char number[8];

    (void)state;
    pid_t relay = relay_up(&port);
    put("dear customer");
    snprintf(number, sizeof(number), "%u", stand_server->port);
    pid_t pid = stand_start_program(CONSUMER, "127.0.0.1", number, stand_source(topic),
                                    strchr(database, ':') + 1, NULL);
    await_processed(1); /* its group begins with what was there before */
    stand_kill(pid, SIGTERM);
    (void)stand_end(pid);
    assert_int_equal(office_number("SELECT COUNT(*) FROM mail WHERE text = 'dear customer'"), 1);
    relay_down(relay);
}

static void beyond_this_machine_a_token_is_needed(void **state)
{
    (void)state;
    stand_clear();
    assert_int_equal(
        stand_run("--from", database, "--to", stand_url(), "--listen", "0.0.0.0:0", NULL), 64);
    assert_non_null(strstr(stand_err(0), "token"));
    assert_int_equal(stand_run("--from", database, "--to", stand_url(), "--token-file", "x", NULL),
                     64);
    assert_non_null(strstr(stand_err(0), "--listen"));
}

const struct CMUnitTest cases_receipts[] = {
    cmocka_unit_test(a_list_of_ids_is_read_line_by_line),
    cmocka_unit_test(reported_by_a_topic_and_doubled_late_or_bad_ones_do_no_harm),
    cmocka_unit_test(reported_over_http_and_doubled_or_bad_ones_do_no_harm),
    cmocka_unit_test(what_cannot_be_reported_is_told_and_holds_up_nothing),
    cmocka_unit_test(without_the_token_nothing_is_reported),
    cmocka_unit_test(reported_by_the_table_itself),
    cmocka_unit_test(killed_between_the_acknowledgement_and_the_report_it_is_processed_in_the_end),
    cmocka_unit_test(the_example_takes_works_acknowledges_and_reports),
    cmocka_unit_test(beyond_this_machine_a_token_is_needed),
};
const size_t cases_receipts_count = sizeof(cases_receipts) / sizeof(cases_receipts[0]);
