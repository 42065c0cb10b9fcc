/* SPDX-License-Identifier: Apache-2.0 */
/* rota relay consume on a real broker: commands that succeed, fail, hang and are killed; consumers that are killed; a
 * broker that goes away. */
#include "stand.h"

#include "lib/proc.h"

#include <fcntl.h>
#include <rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define FROM "consume", "--from", stand_url()
#define OF(topic) "--source", stand_source(topic), "--consumer", "g"
#define ONCE "--once", "--json"
/* Until N are over. --once may end before the first event comes from a broker that is slow (not from Redis, which is
 * asked until it answers). */
#define COUNT(n) "--count", n, "--json"
#define LONG_LEASE "6s" /* a consumer asks for more each third of it */
#define LONG_LEASE_NS (6 * INT64_C(1000000000))

static char script[1024];

/* A command; @ is the case's folder. */
static const char *sh(const char *text)
{
    size_t n = 0;

    for (const char *p = text; *p != '\0' && n < sizeof(script) - 300; p++)
        if (*p == '@')
            n += (size_t)snprintf(script + n, sizeof(script) - n, "%s", rt_tmpdir());
        else
            script[n++] = *p;
    script[n] = '\0';
    return script;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

/* What --json says of NAME. */
static long told(const char *name)
{
    char word[40];

    snprintf(word, sizeof(word), "\"%s\":", name);
    const char *at = strstr(stand_out(0), word);
    if (at == NULL)
        fail_msg("no %s in: %s; %s", word, stand_out(0), stand_err(0));
    return at != NULL ? strtol(at + strlen(word), NULL, 10) : -1;
}

/* ---- Commands --------------------------------------------------------------------------------- */

static void each_event_is_run_with_its_payload_and_its_names(void **state)
{
    static const char odd[] = "a\0b \xf0\x9f\x9a\x80";

    (void)state;
    stand_clear();
    stand_route("c.each");
    stand_publish("c.each", "id-1", odd, sizeof(odd));
    stand_publish("c.each", "id-2", "", 0);
    const char *command = sh("wc -c >>@/size; echo "
                             "\"$ROTA_EVENT_ID|$ROTA_EVENT_TOPIC|$ROTA_EVENT_KEY|$ROTA_EVENT_TYPE|"
                             "$ROTA_EVENT_ATTEMPT|$ROTA_CONSUMER\" >>@/names");
    char metrics[600];
    snprintf(metrics, sizeof(metrics), "%s", stand_path("metrics"));
    assert_int_equal(
        stand_run(FROM, OF("c.each"), COUNT("2"), "--exec", command, "--metrics", metrics, NULL),
        0);
    has(stand_text("metrics"), "rota_consume_events_total{result=\"done\"} 2");
    assert_string_equal(stand_text("names"),
                        "id-1|c.each|k 1|made|1|g\nid-2|c.each|k 1|made|1|g\n");
    char sizes[40];
    snprintf(sizes, sizeof(sizes), "%zu\n0\n", sizeof(odd));
    assert_string_equal(stand_text("size"), sizes);
    assert_int_equal(told("done"), 2);
    has(stand_err(0), "at least once");
    assert_int_equal(stand_run(FROM, OF("c.each"), ONCE, "--exec", command, NULL), 0);
    assert_int_equal(told("done"), 0); /* they were acknowledged */
}

/* A program reads the JSON, so nothing else is in it. */
static void what_a_command_says_is_not_in_the_json(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.says");
    stand_publish("c.says", "s-1", "1", 1);
    assert_int_equal(stand_run(FROM, OF("c.says"), COUNT("1"), "--exec", "echo hello", NULL), 0);
    assert_int_equal(told("done"), 1);
    assert_int_equal(stand_out(0)[0], '{');
    assert_null(strstr(stand_out(0), "hello"));
    has(stand_err(0), "hello");
    stand_publish("c.says", "s-2", "1", 1);
    assert_int_equal(stand_run(FROM, OF("c.says"), "--count", "1", "--exec", "echo hello", NULL),
                     0);
    has(stand_out(0), "hello"); /* for people */
}

static void what_fails_is_tried_again_and_then_given_up(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.fails");
    stand_publish("c.fails", "f-1", "1", 1);
    stand_publish("c.fails", "f-2", "2", 1);
    assert_int_equal(stand_run(FROM, OF("c.fails"), COUNT("2"), "--attempts", "3", "--pause",
                               "10ms", "--exec",
                               sh("echo $ROTA_EVENT_ID.$ROTA_EVENT_ATTEMPT >>@/ran; "
                                  "case $ROTA_EVENT_ID in f-1) exit 3;; esac"),
                               NULL),
                     1);
    assert_string_equal(stand_text("ran"), "f-1.1\nf-1.2\nf-1.3\nf-2.1\n");
    assert_int_equal(told("done"), 1);
    assert_int_equal(told("failed"), 3);
    assert_int_equal(told("left"), 1);
    has(stand_err(0), "f-1 of c.fails failed, attempt 3 of 3: exit status 3");
    has(stand_err(0), "f-1 was given up");
    assert_int_equal(stand_run(FROM, OF("c.fails"), ONCE, "--exec", "true", NULL), 0);
    assert_int_equal(told("done"), 0);
}

static void what_is_given_up_goes_to_the_topic_for_the_dead(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.sick");
    stand_route("c.dead");
    stand_publish("c.sick", "s-1", "body", 4);
    assert_int_equal(stand_run(FROM, OF("c.sick"), COUNT("1"), "--attempts", "1", "--dead",
                               "c.dead", "--exec", "kill -9 $$", NULL),
                     1);
    assert_int_equal(told("moved"), 1);
    has(stand_err(0), "signal 9");
    assert_int_equal(stand_run(FROM, OF("c.dead"), COUNT("1"), "--exec",
                               sh("echo $ROTA_EVENT_ID >>@/dead; cat >>@/dead"), NULL),
                     0);
    assert_string_equal(stand_text("dead"), "s-1\nbody");
}

static void a_command_that_hangs_is_ended(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.hangs");
    stand_publish("c.hangs", "h-1", "1", 1);
    assert_int_equal(stand_run(FROM, OF("c.hangs"), COUNT("1"), "--attempts", "1", "--timeout",
                               "5s", "--exec", sh("echo ran >>@/ran; sleep 600 & sleep 600"), NULL),
                     1); /* long enough for a shell to start */
    assert_int_equal(stand_lines("ran"), 1);
    has(stand_err(0), "took longer");
}

static bool is_free(void *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool yes = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    close(fd);
    return yes;
}

/* Otherwise it would still work on the event while that is retried. */
static void what_a_hanging_command_started_is_ended_with_it(void **state)
{
    char path[600];

    (void)state;
    stand_clear();
    stand_route("c.group");
    stand_publish("c.group", "h-2", "1", 1);
    const char *command = sh(
        "exec 9>@/lock; flock 9; (trap '' TERM; while :; do sleep 1; done) & wait");
    assert_int_equal(stand_run(FROM, OF("c.group"), COUNT("1"), "--attempts", "1", "--timeout",
                               "1s", "--exec", command, NULL),
                     1);
    snprintf(path, sizeof(path), "%s", stand_path("lock"));
    if (!rt_await(is_free, path, 20000))
        fail_msg("somebody of the command lives on");
}

/* Longer than the broker waits before it gives the work to somebody else. */
static void a_command_that_takes_long_keeps_its_event(void **state)
{
    bool last;

    (void)state;
    stand_clear();
    stand_route("c.long");
    stand_publish("c.long", "l-1", "1", 1);
    const char *command = sh("echo ran >>@/ran; while [ ! -e @/go ]; do sleep 0.1; done");
    pid_t first = stand_start(1, FROM, OF("c.long"), "--lease", LONG_LEASE, "--count", "1",
                              "--exec", command, NULL);
    stand_await_lines("ran", 1);
    int64_t until = rt_relay_now() + LONG_LEASE_NS;
    do { /* each looks for a second; the last one begins when the lease would be over */
        last = rt_relay_now() >= until;
        assert_int_equal(stand_run(FROM, OF("c.long"), "--lease", LONG_LEASE, ONCE, "--exec",
                                   sh("echo twice >>@/ran"), NULL),
                         0);
    } while (!last);
    assert_int_equal(stand_run("--version", NULL), 0);
    FILE *go = fopen(stand_path("go"), "w");
    assert_non_null(go);
    fclose(go);
    assert_int_equal(stand_end(first), 0);
    assert_string_equal(stand_text("ran"), "ran\n");
}

static void the_first_signal_lets_the_command_end(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.signal");
    stand_publish("c.signal", "g-1", "1", 1);
    stand_publish("c.signal", "g-2", "2", 1);
    pid_t pid = stand_start(
        1, FROM, OF("c.signal"), "--exec",
        sh("echo $ROTA_EVENT_ID >>@/ran; while [ ! -e @/go ]; do sleep 0.1; done; echo end >>@/ran"),
        NULL);
    stand_await_lines("ran", 1);
    stand_kill(pid, SIGTERM);
    FILE *go = fopen(stand_path("go"), "w");
    assert_non_null(go);
    fclose(go);
    assert_int_equal(stand_end(pid), 0);
    assert_string_equal(stand_text("ran"), "g-1\nend\n");
    assert_int_equal(stand_run(FROM, OF("c.signal"), COUNT("1"), "--exec", "true", NULL), 0);
    assert_int_equal(told("done"), 1); /* the other one */
    assert_int_equal(stand_run(FROM, OF("c.signal"), ONCE, "--exec", "true", NULL), 0);
    assert_int_equal(told("done"), 0);
}

static void the_second_signal_ends_the_command_and_its_event_comes_again(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.second");
    stand_publish("c.second", "g-3", "1", 1);
    pid_t pid = stand_start(1, FROM, OF("c.second"), "--lease", "1s", "--exec",
                            sh("echo ran >>@/ran; sleep 600"), NULL);
    stand_await_lines("ran", 1);
    stand_kill(pid, SIGTERM);
    stand_kill(pid, SIGINT); /* another signal: both are pending */
    int code = stand_end(pid);
    assert_int_equal(code, 0);
    assert_int_equal(stand_run(FROM, OF("c.second"), "--lease", "1s", "--count", "1", "--json",
                               "--exec", "true", NULL),
                     0);
    assert_int_equal(told("done"), 1);
}

/* ---- Once, and not twice ------------------------------------------------------------------------- */

static void killed_between_its_work_and_the_acknowledgement_the_effect_is_there_once(void **state)
{
    char command[1024];
    char *url = HERE->site->url(0);
    const char *path = strchr(url, ':') + 1;

    (void)state;
    stand_clear();
    office_admin("DELETE FROM effect");
    stand_route("c.killed");
    stand_publish("c.killed", "k-1", "once", 4);
    snprintf(command, sizeof(command), "exec %s clerk %s kill", stand_self(), path);
    assert_int_equal(
        stand_run(FROM, OF("c.killed"), "--lease", "1s", "--count", "1", "--exec", command, NULL),
        RT_PROC_SIGNALED + SIGKILL);
    assert_int_equal(office_number("SELECT COUNT(*) FROM effect"), 1);
    /* It was not acknowledged: it comes again, and is known. */
    assert_int_equal(stand_run(FROM, OF("c.killed"), "--lease", "1s", "--count", "1", "--json",
                               "--exec", command, NULL),
                     0);
    assert_int_equal(told("done"), 1);
    assert_int_equal(office_number("SELECT COUNT(*) FROM effect"), 1);
    free(url);
}

static void killed_while_the_command_runs_the_event_comes_again(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.midst");
    stand_publish("c.midst", "m-1", "1", 1);
    pid_t pid = stand_start(1, FROM, OF("c.midst"), "--lease", "1s", "--exec",
                            sh("echo $$ >>@/ran; exec sleep 600"), NULL);
    stand_await_lines("ran", 1);
    stand_kill(pid, SIGKILL);
    (void)stand_end(pid);
    pid = stand_start(1, FROM, OF("c.midst"), "--lease", "1s", "--count", "1", "--exec",
                      sh("echo again $ROTA_EVENT_ID >>@/ran"), NULL);
    stand_await_lines("ran", 2);
    assert_int_equal(stand_end(pid), 0);
    has(stand_text("ran"), "again m-1");
}

/* The shell that is started is only the first of them. Whoever is next takes no lock that one of them still has. */
static void killed_its_command_ends_before_the_event_is_run_again(void **state)
{
    char path[600];

    (void)state;
    stand_clear();
    stand_route("c.orphan");
    stand_publish("c.orphan", "o-1", "1", 1);
    pid_t pid = stand_start(1, FROM, OF("c.orphan"), "--lease", LONG_LEASE, "--exec",
                            sh("exec 9>@/lock; flock 9; echo ran >>@/ran; "
                               "(for i in $(seq 300); do sleep 0.1; done); echo effect >>@/ran"),
                            NULL);
    stand_await_lines("ran", 1);
    stand_kill(pid, SIGKILL);
    (void)stand_end(pid);
    assert_int_equal(
        stand_run(FROM, OF("c.orphan"), "--lease", LONG_LEASE, "--count", "1", "--exec",
                  sh("flock -n @/lock echo alone >>@/ran || echo beside >>@/ran"), NULL),
        0);
    assert_string_equal(stand_text("ran"), "ran\nalone\n");
    snprintf(path, sizeof(path), "%s", stand_path("lock"));
    assert_true(is_free(path));
}

static void with_an_inbox_a_doubled_event_is_run_once(void **state)
{
    char inbox[600];

    (void)state;
    stand_clear();
    stand_route("c.twice");
    snprintf(inbox, sizeof(inbox), "sqlite:%s", stand_path("inbox.db"));
    for (int i = 0; i < 2; i++) {
        stand_publish("c.twice", "t-1", "1", 1);
        assert_int_equal(stand_run(FROM, OF("c.twice"), COUNT("1"), "--inbox", inbox, "--exec",
                                   sh("echo ran >>@/ran"), NULL),
                         0);
        assert_int_equal(told("done"), i == 0);
        assert_int_equal(told("skipped"), i == 1);
        has(stand_err(0), "is not run again");
        /* Nothing is left; and by its end NATS has forgotten the id, of which it would not take a second message. */
        assert_int_equal(stand_run(FROM, OF("c.twice"), ONCE, "--exec", "true", NULL), 0);
        assert_int_equal(told("done"), 0);
    }
    assert_int_equal(stand_lines("ran"), 1);
}

/* MariaDB would truncate it, and find nothing by it; PostgreSQL would refuse it, for ever. */
static void an_id_that_the_inbox_cannot_have_is_told_and_not_run(void **state)
{
    char inbox[600], id[66];

    (void)state;
    stand_clear();
    stand_route("c.long-id");
    snprintf(inbox, sizeof(inbox), "sqlite:%s", stand_path("inbox.db"));
    memset(id, 'i', 65);
    id[65] = '\0';
    stand_publish("c.long-id", id, "1", 1);
    stand_publish("c.long-id", id + 1, "2", 1);
    assert_int_equal(stand_run(FROM, OF("c.long-id"), COUNT("2"), "--inbox", inbox, "--attempts",
                               "1", "--exec", sh("cat >>@/ran; echo >>@/ran"), NULL),
                     1);
    assert_string_equal(stand_text("ran"), "2\n");
    assert_int_equal(told("left"), 1);
    has(stand_err(0), "longer than 64 bytes");
}

/* Two foreign ids that differ after a zero byte are not the same. */
static void an_id_with_a_zero_byte_is_not_cut(void **state)
{
    char inbox[600];

    (void)state;
    if (POST.publish_zero == NULL)
        return;
    stand_clear();
    stand_route("c.zero-id");
    snprintf(inbox, sizeof(inbox), "sqlite:%s", stand_path("inbox.db"));
    stand_publish("c.zero-id", "a", "1", 1);
    POST.publish_zero("c.zero-id");
    assert_int_equal(stand_run(FROM, OF("c.zero-id"), ONCE, "--inbox", inbox, "--attempts", "1",
                               "--exec", sh("echo ran >>@/ran"), NULL),
                     1);
    assert_int_equal(stand_lines("ran"), 1);
    assert_int_equal(told("left"), 1);
    has(stand_err(0), "control character");
}

/* ---- What cannot be ---------------------------------------------------------------------------------- */

static void a_source_that_is_not_there_is_told(void **state)
{
    (void)state;
    stand_clear();
    int code = stand_run(FROM, "--source", "nowhere", "--consumer", "g", "--exec", "true", ONCE,
                         NULL);
    assert_int_equal(code, POST.refuses_without_route ? 64 : 0); /* Redis makes a stream */
    has(stand_err(0), "nowhere");
    if (!POST.refuses_without_route)
        has(stand_err(0), "there was no stream nowhere");
}

static void wrong_credentials_are_told_without_them(void **state)
{
    char url[300];

    (void)state;
    stand_clear();
    POST.url(url, sizeof(url), "guest:s3cret@", "");
    assert_int_equal(stand_run("consume", "--from", url, OF("c.each"), "--exec", "true", NULL), 69);
    assert_null(strstr(stand_err(0), "s3cret"));
    assert_int_equal(stand_lines("err0"), 1);
}

static void wrong_usage_is_one_line(void **state)
{
    (void)state;
    stand_clear();
    assert_int_equal(stand_run("consume", "--from", stand_url(), NULL), 64);
    has(stand_err(0), "--source is missing");
    assert_int_equal(stand_run(FROM, OF("x"), "--exec", "true", "--report", "mail:me", NULL), 64);
    has(stand_err(0), "db:URL, topic:NAME");
    assert_int_equal(stand_run(FROM, OF("x"), "--exec", "true", "more", NULL), 64);
    has(stand_err(0), "unexpected argument 'more'");
    /* MariaDB takes "g " for "g": one of the two would not run what the other has run. */
    assert_int_equal(
        stand_run(FROM, "--source", "x", "--consumer", "g ", "--exec", "true", "--once", NULL), 64);
    has(stand_err(0), "begins or ends with a blank");
    assert_int_equal(stand_run(FROM, OF("x"), "--exec", " ", NULL), 64); /* as "$UNSET" is */
    has(stand_err(0), "--exec is missing, or empty");
    assert_int_equal(stand_run(FROM, "--source", "", "--consumer", "g", "--exec", "true", NULL),
                     64);
    has(stand_err(0), "--source is missing, or empty");
    assert_int_equal(stand_run(FROM, OF("x"), "--exec", "true", "--dead", "", NULL), 64);
    has(stand_err(0), "--dead is empty");
    assert_int_equal(stand_run(FROM, OF("x"), "--exec", "true", "--dead", stand_source("x"), NULL),
                     64);
    has(stand_err(0), "where the events come from");
}

/* ---- Away and back: the last, for it kills the broker ----------------------------------------------- */

static void a_broker_that_comes_back_is_gone_on_with(void **state)
{
    (void)state;
    stand_clear();
    stand_route("c.away");
    stand_publish("c.away", "a-1", "1", 1);
    pid_t pid = stand_start(1, FROM, OF("c.away"), "--lease", "1s", "--exec",
                            sh("echo $ROTA_EVENT_ID >>@/ran"), NULL);
    stand_await_lines("ran", 1);
    rt_server_kill(stand_server);
    stand_await_lines("err1", 2);
    POST.run();
    stand_route("c.away"); /* RabbitMQ may have forgotten a queue that was made just before */
    stand_await_text("err1", "well again");
    stand_publish("c.away", "a-2", "2", 1);
    stand_await_text("ran", "a-2");
    stand_kill(pid, SIGTERM);
    assert_int_equal(stand_end(pid), 0);
}

const struct CMUnitTest cases_consume[] = {
    cmocka_unit_test(each_event_is_run_with_its_payload_and_its_names),
    cmocka_unit_test(what_a_command_says_is_not_in_the_json),
    cmocka_unit_test(what_fails_is_tried_again_and_then_given_up),
    cmocka_unit_test(what_is_given_up_goes_to_the_topic_for_the_dead),
    cmocka_unit_test(a_command_that_hangs_is_ended),
    cmocka_unit_test(what_a_hanging_command_started_is_ended_with_it),
    cmocka_unit_test(a_command_that_takes_long_keeps_its_event),
    cmocka_unit_test(the_first_signal_lets_the_command_end),
    cmocka_unit_test(the_second_signal_ends_the_command_and_its_event_comes_again),
    cmocka_unit_test(killed_between_its_work_and_the_acknowledgement_the_effect_is_there_once),
    cmocka_unit_test(killed_while_the_command_runs_the_event_comes_again),
    cmocka_unit_test(killed_its_command_ends_before_the_event_is_run_again),
    cmocka_unit_test(with_an_inbox_a_doubled_event_is_run_once),
    cmocka_unit_test(an_id_that_the_inbox_cannot_have_is_told_and_not_run),
    cmocka_unit_test(an_id_with_a_zero_byte_is_not_cut),
    cmocka_unit_test(a_source_that_is_not_there_is_told),
    cmocka_unit_test(wrong_credentials_are_told_without_them),
    cmocka_unit_test(wrong_usage_is_one_line),
    cmocka_unit_test(a_broker_that_comes_back_is_gone_on_with),
};
const size_t cases_consume_count = sizeof(cases_consume) / sizeof(cases_consume[0]);
