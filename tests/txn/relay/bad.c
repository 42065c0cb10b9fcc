/* SPDX-License-Identifier: Apache-2.0 */
/* The command rota-relay given bad options, URLs, tables, credentials, brokers, payloads. Each yields one clear line,
 * or a state with a reason, and nothing is lost. One program per database and broker. */
#include "../event/office.h"
#include "engine/url.h"
#include "lib/proc.h"
#include "post.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define WORDS 24
#define OK 0
#define LEFT 1
#define USAGE 64
#define AWAY 69
#define LONG_SIZE (2u << 20)
#define MANY 200
#define MANY_SIZE (256u << 10)
#define MEMORY_KB (72 * 1024) /* 50 MB of payloads twice, or as hexadecimal digits, would be more */

static struct rt_server *broker;
static char *from, to[300], log_path[400], said[20000];

/* ---- What cases are written with ------------------------------------------------------------------ */

struct words {
    const char *word[WORDS];
};

static int run(int index, void *arg)
{
    struct words *w = arg;
    char *argv[WORDS + 1] = {0};
    int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    (void)index;
    for (int i = 0; i < WORDS && w->word[i] != NULL; i++)
        argv[i] = strdup(w->word[i]);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return 126;
    execv(ROTA_RELAY, argv);
    return 127;
}

static const char *read_log(void)
{
    FILE *file = fopen(log_path, "re");
    size_t n = file != NULL ? fread(said, 1, sizeof(said) - 1, file) : 0;

    said[n] = '\0';
    if (file != NULL)
        fclose(file);
    return said;
}

#define RELAY(...) (&(struct words){{"rota-relay", __VA_ARGS__}})

/* A relay that keeps running. */
static pid_t start(struct words *w)
{
    unlink(log_path); /* what was said is its own */
    return rt_proc_start(run, 0, w);
}

static int relay(struct words *w)
{
    int code = rt_proc_wait(start(w));

    read_log();
    return code;
}

/* It ends with CODE and one line, which has WORD in it, and no secret. */
static void says(int code, const char *word, struct words *w)
{
    int is = relay(w);
    size_t lines = 0;

    for (const char *c = said; *c != '\0'; c++)
        lines += *c == '\n';
    if (is != code || lines != 1 || strstr(said, word) == NULL || strstr(said, "s3cret") != NULL)
        fail_msg("code %d, not %d, or no line with '%s': %s", is, code, word, said);
}

static void put(const char *topic, const void *payload, size_t size)
{
    const struct rota_event e = {.topic = topic, .payload = payload, .size = size};
    void *conn = office_conn();

    office_sql(conn, "%s", HERE->begin);
    if (HERE->put(conn, &e) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    office_sql(conn, "COMMIT");
    office_close(conn);
}

static int lead(int index, void *topic)
{
    (void)index;
    POST.route(topic);
    return 0;
}

/* Client libraries of brokers have threads: never in this process. */
static void route(char *topic)
{
    assert_int_equal(rt_proc_wait(rt_proc_start(lead, 0, topic)), 0);
}

static void fresh(void)
{
    office_empty();
    if (!HERE->rows_lock)
        office_admin("DELETE FROM rota_relay");
}

/* ---- Words ------------------------------------------------------------------------------------------ */

static void options_are_named(void **state)
{
    (void)state;
    says(USAGE, "'--bogus'", RELAY("--from", from, "--bogus"));
    says(USAGE, "--to needs a value", RELAY("--from", from, "--to"));
    says(USAGE, "--to is missing", RELAY("--from", from));
    says(USAGE, "--from is missing", RELAY("--to", to));
    says(USAGE, "--batch must be a number", RELAY("--from", from, "--to", to, "--batch", "0"));
    says(USAGE, "--lease must be a time", RELAY("--from", from, "--to", to, "--lease", "1x"));
    says(USAGE, "none ever is",
         RELAY("--from", from, "--to", to, "--until", "published", "--strict-order"));
    says(USAGE, "'more'", RELAY("--from", from, "--to", to, "more"));
}

static void typing_errors_in_urls_are_told(void **state)
{
    char odd[400];

    (void)state;
    says(USAGE, "'postgre:'", RELAY("--from", "postgre://h/x", "--to", to));
    says(USAGE, "ampq", RELAY("--from", from, "--to", "ampq://127.0.0.1"));
    says(USAGE, "the broker", RELAY("--from", from, "--to", "amqp//127.0.0.1"));
    snprintf(odd, sizeof(odd), "%s?colour=red", to);
    says(USAGE, "'colour'", RELAY("--from", from, "--to", odd));
    if (POST.missing != NULL) {
        snprintf(odd, sizeof(odd), "%s%s", to, POST.missing);
        says(USAGE, "nowhere", RELAY("--from", from, "--to", odd));
    }
}

/* ---- The database ----------------------------------------------------------------------------------- */

static void a_table_that_lacks_a_column_is_told(void **state)
{
    (void)state;
    says(USAGE, "no column 'body'",
         RELAY("--from", from, "--to", to, "--once", "--map",
               "table=tbl_order_event,id=id,topic='t',state=process,payload=body"));
    says(USAGE, "no table nowhere",
         RELAY("--from", from, "--to", to, "--once", "--map",
               "table=nowhere,id=id,topic='t',state=process,payload=body"));
    says(USAGE, "not one of table, id", RELAY("--from", from, "--to", to, "--map", "colour=red"));
}

static void wrong_credentials_are_told_without_them(void **state)
{
    char bad[600];

    (void)state;
    POST.url(bad, sizeof(bad), "guest:s3cret@", "");
    says(AWAY, "", RELAY("--from", from, "--to", bad));
    if (!HERE->rows_lock)
        return;
    const char *user = strstr(from, "//"), *at = strchr(from, '@');
    assert_true(user != NULL && at != NULL);
    snprintf(bad, sizeof(bad), "%.*snobody:s3cret%.*s", (int)(user + 2 - from), from,
             (int)strcspn(at, "?"), at);
    says(AWAY, "nobody", RELAY("--from", bad, "--to", to));
}

static const struct
    stubborn { /* databases that refuse for good: a claim; each mark, and each note of trouble */
    const char *at, *map, *word, *make[2], *drop[2];
} stubborns[] = {
    {"postgres",
     NULL,
     "nobody may",
     {"CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE ''nobody may''; END' LANGUAGE plpgsql; "
      "CREATE TRIGGER one BEFORE UPDATE ON rota_event FOR EACH ROW EXECUTE FUNCTION refuse()",
      "CREATE TRIGGER two BEFORE INSERT ON rota_event_trouble FOR EACH ROW EXECUTE FUNCTION refuse()"},
     {"DROP FUNCTION refuse CASCADE", ""}},
    {"mysql",
     NULL,
     "nobody may",
     {"CREATE TRIGGER one BEFORE UPDATE ON rota_event FOR EACH ROW SIGNAL SQLSTATE '45000' SET "
      "MESSAGE_TEXT = 'nobody may'",
      "CREATE TRIGGER two BEFORE INSERT ON rota_event_trouble FOR EACH ROW SIGNAL SQLSTATE '45000' "
      "SET MESSAGE_TEXT = 'nobody may'"},
     {"DROP TRIGGER one", "DROP TRIGGER two"}},
    {"sqlite",
     NULL,
     "nobody may",
     {"CREATE TRIGGER one BEFORE UPDATE ON rota_event BEGIN SELECT RAISE(ABORT, 'nobody may'); END",
      "CREATE TRIGGER two BEFORE INSERT ON rota_event_trouble BEGIN SELECT RAISE(ABORT, 'nobody "
      "may'); END"},
     {"DROP TRIGGER one", "DROP TRIGGER two"}},
};

/* What a cron job has started must end. */
static void once_ends_although_the_database_refuses_for_good(void **state)
{
    (void)state;
    fresh();
    route("bad.stubborn");
    put("bad.stubborn", "1", 1);
    for (size_t i = 0; i < sizeof(stubborns) / sizeof(stubborns[0]); i++) {
        const struct stubborn *b = &stubborns[i];
        if (strcmp(b->at, OFFICE_WORD) != 0)
            continue;
        for (int j = 0; j < 2; j++)
            HERE->site->admin(b->make[j]);
        int code = relay(
            RELAY("--from", from, "--to", to, "--once", b->map != NULL ? "--map" : NULL, b->map));
        if (code != AWAY || strstr(said, "given up") == NULL || strstr(said, b->word) == NULL)
            fail_msg("code %d: %s", code, said);
        for (int j = 0; j < 2; j++)
            if (b->drop[j][0] != '\0')
                HERE->site->admin(b->drop[j]);
    }
    assert_int_equal(relay(RELAY("--from", from, "--to", to, "--once")), OK);
}

/* ---- The broker --------------------------------------------------------------------------------------- */

/* What has no way to go is in trouble, then dead; the rest goes. */
static void what_has_no_route_is_dead_with_a_reason(void **state)
{
    (void)state;
    if (!POST.refuses_without_route)
        return;
    fresh();
    route("bad.led");
    put("bad.leads.nowhere", "1", 1);
    put("bad.led", "2", 1);
    assert_int_equal(relay(RELAY("--from", from, "--to", to, "--once")), LEFT);
    assert_int_equal(office_count("published"), 1);
    assert_int_equal(office_count("new"), 1);
    assert_int_equal(office_number("SELECT count(*) FROM rota_event_trouble WHERE attempts = 1 AND "
                                   "dead = 0 AND length(reason) > 10"),
                     1);
    office_admin("UPDATE rota_event_trouble SET next_at_ms = 0");
    assert_int_equal(relay(RELAY("--from", from, "--to", to, "--once", "--attempts", "2")), LEFT);
    assert_int_equal(office_count("dead"), 1);
    assert_int_equal(office_number("SELECT count(*) FROM rota_event_trouble WHERE dead = 1 AND "
                                   "length(reason) > 10"),
                     1);
}

static void what_is_too_long_is_dead_with_a_reason(void **state)
{
    char *body = calloc(1, LONG_SIZE);

    (void)state;
    assert_non_null(body);
    if (!POST.has_short_limit) {
        free(body);
        return;
    }
    fresh();
    route("bad.long");
    put("bad.long", body, LONG_SIZE);
    put("bad.long", "short", 5);
    free(body);
    (void)relay(RELAY("--from", from, "--to", to, "--once", "--attempts", "1"));
    assert_int_equal(office_count("published"), 1);
    if (office_count("dead") != 1 ||
        office_number("SELECT count(*) FROM rota_event_trouble WHERE length(reason) > 10") != 1)
        fail_msg("it is not dead, or nobody says why: %s", said);
}

static bool has_said(void *word)
{
    return strstr(read_log(), word) != NULL;
}

static size_t count_said(const char *word)
{
    size_t n = 0;

    for (const char *at = read_log(); (at = strstr(at, word)) != NULL; at++)
        n++;
    return n;
}

static bool refused_twice(void *unused)
{
    (void)unused;
    return office_number("SELECT count(*) FROM rota_event_trouble WHERE attempts >= 2") == 2;
}

/* Whoever looks at the log learns that events are refused, and why: one line for a reason, however often. */
static void what_is_refused_is_told_once(void **state)
{
    (void)state;
    if (!POST.refuses_without_route)
        return;
    fresh();
    put("bad.untold", "1", 1);
    put("bad.untold", "2", 1);
    pid_t pid = start(RELAY("--from", from, "--to", to));
    if (!rt_await(refused_twice, NULL, SITE_LIMIT_MS))
        fail_msg("it is not refused: %s", read_log());
    kill(pid, SIGTERM);
    assert_int_equal(rt_proc_wait(pid), 0);
    if (count_said("topic bad.untold") != 1 || count_said("refused: ") != 1)
        fail_msg("it is not told once: %s", said);
}

/* A database that drops marks without a word: the event is not published as fast as it turns. */
static void a_mark_that_changes_nothing_is_told(void **state)
{
    (void)state;
    if (HERE->rows_lock)
        return; /* the trigger is SQLite's; the lane is the same */
    fresh();
    route("bad.dropped");
    put("bad.dropped", "1", 1);
    office_admin(
        "CREATE TRIGGER bad_drop BEFORE UPDATE ON rota_event BEGIN SELECT RAISE(IGNORE); END");
    int code = relay(RELAY("--from", from, "--to", to, "--once"));
    office_admin("DROP TRIGGER bad_drop");
    if (code != LEFT || count_said("still new") != 1)
        fail_msg("code %d: %s", code, said);
    assert_int_equal(office_number("SELECT attempts FROM rota_event_trouble"), 0);
}

static const char odd[] = "\0a\0\xf0\x9f\x98\x80\r\n'\"\\\xff\0";

static int takes_odd(int index, void *unused)
{
    struct rt_broker *b = NULL;
    struct rt_url url;
    struct rt_message m;
    char line[RT_BROKER_LINE], source[64];
    const struct rt_broker_options opts = {0};
    uint64_t token;

    (void)index;
    (void)unused;
    POST.source(source, sizeof(source), "bad.odd");
    if (rt_url_parse(&url, to, line, sizeof(line)) != 0 ||
        POST.kind->open(&b, &url, &opts, rt_relay_now() + 60 * SECOND, line, sizeof(line)) != 0 ||
        POST.kind->subscribe(b, source, "g", 1) != 0 ||
        POST.kind->next(b, rt_relay_now() + 60 * SECOND, &m, &token) != 0)
        return 1;
    return m.size == sizeof(odd) && memcmp(m.body, odd, sizeof(odd)) == 0 ? 0 : 2;
}

static void zeros_and_emoji_come_as_they_went(void **state)
{
    (void)state;
    fresh();
    route("bad.odd");
    put("bad.odd", odd, sizeof(odd));
    assert_int_equal(relay(RELAY("--from", from, "--to", to, "--once")), OK);
    assert_int_equal(rt_proc_wait(rt_proc_start(takes_odd, 0, NULL)), 0);
}

static bool all_published(void *unused)
{
    (void)unused;
    return office_number("SELECT count(*) FROM rota_event WHERE state <> 'published'") == 0;
}

static void end_relay(pid_t pid)
{
    kill(pid, SIGTERM);
    assert_int_equal(rt_proc_wait(pid), 0);
}

/* How long does not matter: test_lane has the hour. Nothing is claimed while the broker is away. */
static bool one_published(void *unused)
{
    (void)unused;
    return office_count("published") == 1;
}

/* More rows than a claim has, all behind one that is dead: the key waits, and nobody else. */
static void a_key_that_waits_keeps_no_other(void **state)
{
    (void)state;
    fresh();
    route("orders");
    for (int i = 0; i < 40; i++)
        office_put("waits", i == 0 ? "first" : "behind");
    office_put("other", "goes");
    office_admin("UPDATE rota_event SET state = 'dead' WHERE id = %lld",
                 (long long)office_row("first"));
    pid_t pid = start(RELAY("--from", from, "--to", to, "--on-dead", "block", "--batch", "16"));
    if (!rt_await(one_published, NULL, SITE_LIMIT_MS))
        fail_msg("what is of another key does not go: %s", read_log());
    assert_int_equal(office_count("new"), 39);
    end_relay(pid);
    says(LEFT, "39 left", RELAY("--from", from, "--to", to, "--on-dead", "block", "--once"));
}

static bool tried_often(void *first)
{
    return POST.tries() >= *(long long *)first + 10;
}

/* Two lanes and one event: while one of them has it, the other finds nothing, which is no good news. */
static void a_broker_that_takes_nothing_is_not_well(void **state)
{
    (void)state;
    if (POST.fill == NULL)
        return;
    fresh();
    route("bad.full");
    put("bad.full", "1", 1);
    POST.fill(true);
    long long first = POST.tries();
    pid_t pid = start(RELAY("--from", from, "--to", to, "--lanes", "2"));
    bool often = rt_await(tried_often, &first, SITE_LIMIT_MS);
    size_t well = count_said("well again"), full = count_said("OOM");
    POST.fill(false);
    if (!often || well != 0 || full != 1)
        fail_msg("it is not told once, or is well: %s", said);
    assert_true(rt_await(all_published, NULL, SITE_LIMIT_MS));
    assert_true(rt_await(has_said, "well again", SITE_LIMIT_MS));
    end_relay(pid);
    assert_int_equal(office_number("SELECT count(*) FROM rota_event_trouble"), 0);
}

static void a_broker_that_is_away_is_waited_for(void **state)
{
    (void)state;
    fresh();
    route("bad.away");
    put("bad.away", "1", 1);
    rt_server_kill(broker);
    says(AWAY, "", RELAY("--from", from, "--to", to, "--once"));
    assert_true(strlen(said) > 20);
    pid_t pid = start(RELAY("--from", from, "--to", to, "--lanes", "1"));
    assert_true(rt_await(has_said, "relay: ", SITE_LIMIT_MS));
    assert_int_equal(office_count("new"), 1);
    struct rt_store *s = office_store(NULL, NULL);
    assert_int_equal(claim_until(s, 1).count, 1); /* anybody could have it */
    let_go(s);
    rt_store_close(s);
    POST.run();
    assert_true(rt_await(all_published, NULL, SITE_LIMIT_MS));
    assert_true(rt_await(has_said, "well again", SITE_LIMIT_MS));
    end_relay(pid);
}

static long peak_kb(pid_t pid)
{
    char path[64], line[256];
    long kb = -1;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    fclose(file);
    return kb;
}

/* It stands still over 100 MB of events: they wait in the database, not in the relay. */
static void a_slow_broker_fills_no_memory(void **state)
{
    char *body = calloc(1, MANY_SIZE);

    (void)state;
    assert_non_null(body);
    fresh();
    route("bad.slow");
    put("bad.slow", "1", 1);
    pid_t pid = start(RELAY("--from", from, "--to", to, "--lease", "2s", "--until", "published"));
    assert_true(rt_await(all_published, NULL, SITE_LIMIT_MS));
    kill(-broker->pid, SIGSTOP); /* RabbitMQ is a child of its script */
    for (int i = 0; i < MANY; i++)
        put("bad.slow", body, MANY_SIZE);
    free(body);
    assert_true(rt_await(has_said, "relay: ", SITE_LIMIT_MS));
    kill(-broker->pid, SIGCONT);
    assert_true(rt_await(all_published, NULL, SITE_LIMIT_MS));
    long kb = peak_kb(pid);
    printf("%d events of %u KB, and a broker that stood still: the relay had %ld MB at most\n",
           MANY, MANY_SIZE >> 10, kb / 1024);
    end_relay(pid);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_in_range(kb, 1, MEMORY_KB);
#endif
}

static int up(void **state)
{
    (void)state;
    snprintf(log_path, sizeof(log_path), "%s/said", rt_tmpdir());
    HERE->site->start();
    broker = POST.start();
    POST.url(to, sizeof(to), "", "");
    from = HERE->site->url(HERE->site->port != NULL ? HERE->site->port() : 0);
    void *conn = office_conn();
    if (HERE->make(conn) != 0)
        fail_msg("%s", rota_txn_errmsg(NULL));
    office_close(conn);
    HERE->site->admin(HERE->orders);
    return 0;
}

static int down(void **state)
{
    (void)state;
    POST.fini();
    HERE->site->fini();
    free(from);
    return 0;
}

/* With a word: only the case of that name. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_named),
        cmocka_unit_test(typing_errors_in_urls_are_told),
        cmocka_unit_test(a_table_that_lacks_a_column_is_told),
        cmocka_unit_test(wrong_credentials_are_told_without_them),
        cmocka_unit_test(once_ends_although_the_database_refuses_for_good),
        cmocka_unit_test(what_has_no_route_is_dead_with_a_reason),
        cmocka_unit_test(what_is_too_long_is_dead_with_a_reason),
        cmocka_unit_test(what_is_refused_is_told_once),
        cmocka_unit_test(a_mark_that_changes_nothing_is_told),
        cmocka_unit_test(zeros_and_emoji_come_as_they_went),
        cmocka_unit_test(a_key_that_waits_keeps_no_other),
        cmocka_unit_test(a_broker_that_takes_nothing_is_not_well),
        cmocka_unit_test(a_broker_that_is_away_is_waited_for),
        cmocka_unit_test(a_slow_broker_fills_no_memory),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    rt_watchdog(400, "a relay with bad input hangs");
    return cmocka_run_group_tests(tests, up, down);
}
