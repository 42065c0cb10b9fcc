/* SPDX-License-Identifier: Apache-2.0 */
/* The suite of brokers: what broker.h promises, on a real one (POST); then rota relay consume, and receipts, on the
 * same one and SQLite. With a word: only the cases whose name has it. */
#include "engine/url.h"
#include "lib/proc.h"
#include "stand.h"

#include <rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define LONG (60 * SECOND)
#define MANY 1000

struct rt_server *stand_server;

/* ---- What cases are written with ------------------------------------------------------------- */

static int try_open(struct rt_broker **out, const char *user_at, const char *params, char *line,
                    size_t size)
{
    char text[300];
    struct rt_url url;
    const struct rt_broker_options opts = {0};

    POST.url(text, sizeof(text), user_at, params);
    assert_int_equal(rt_url_parse(&url, text, line, size), 0);
    int err = POST.kind->open(out, &url, &opts, rt_relay_now() + LONG, line, size);
    rt_url_fini(&url);
    return err;
}

static struct rt_broker *opened(void)
{
    struct rt_broker *b = NULL;
    char line[RT_BROKER_LINE] = "";
    int err = try_open(&b, "", "", line, sizeof(line));

    if (err != 0)
        fail_msg("%s: %s", rota_strerror(err), line);
    return b;
}

static struct rt_broker *taking(const char *topic, uint32_t ahead)
{
    char source[128];
    struct rt_broker *b = opened();

    POST.source(source, sizeof(source), topic);
    if (POST.kind->subscribe(b, source, "g", ahead) != 0)
        fail_msg("%s", POST.kind->errmsg(b));
    return b;
}

static struct rt_message message(const char *id, const char *topic, const void *body, size_t size)
{
    return (struct rt_message){.id = id, .topic = topic, .body = body, .size = size};
}

static enum rt_sent publish_one(struct rt_broker *b, const struct rt_message *m, const char **why)
{
    enum rt_sent sent = RT_SENT_LOST;

    assert_int_equal(POST.kind->publish(b, m, 1, rt_relay_now() + LONG, &sent, why), 0);
    return sent;
}

static void must_publish(struct rt_broker *b, const struct rt_message *m)
{
    const char *why = NULL;

    assert_int_equal(publish_one(b, m, &why), RT_SENT_CONFIRMED);
}

static void must_take(struct rt_broker *b, struct rt_message *m, uint64_t *token)
{
    if (POST.kind->next(b, rt_relay_now() + LONG, m, token) != 0)
        fail_msg("%s", POST.kind->errmsg(b));
}

static void take_and_ack(struct rt_broker *b, const struct rt_message *as)
{
    struct rt_message m;
    uint64_t token;

    must_take(b, &m, &token);
    assert_string_equal(m.id, as->id);
    assert_string_equal(m.topic, as->topic);
    assert_int_equal(m.size, as->size);
    assert_memory_equal(m.body != NULL ? m.body : "", as->size > 0 ? as->body : "", as->size);
    assert_int_equal(m.key == NULL, as->key == NULL);
    assert_int_equal(m.type == NULL, as->type == NULL);
    if (as->key != NULL)
        assert_string_equal(m.key, as->key);
    if (as->type != NULL)
        assert_string_equal(m.type, as->type);
    assert_int_equal(POST.kind->ack(b, token), 0);
}

/* ---- Cases -------------------------------------------------------------------------------------- */

static void what_is_published_is_taken_as_it_was(void **state)
{
    static const char odd[] = "a\0b\r\n\xf0\x9f\x9a\x80 \xff";
    struct rt_message all[] = {
        message("id-1", "as.it.was", odd, sizeof(odd)),
        message("id-2", "as.it.was", "", 0),
        {.id = "id-3",
         .topic = "as.it.was",
         .key = "order 7 \xc3\xa9",
         .type = "created",
         .body = "x",
         .size = 1},
    };

    (void)state;
    POST.route("as.it.was");
    struct rt_broker *b = opened(), *taker = taking("as.it.was", 4);
    for (size_t i = 0; i < 3; i++)
        must_publish(b, &all[i]);
    for (size_t i = 0; i < 3; i++)
        take_and_ack(taker, &all[i]);
    POST.kind->close(b);
    POST.kind->close(taker);
}

static void a_batch_is_confirmed_and_keeps_its_order(void **state)
{
    static struct rt_message all[MANY];
    static char ids[MANY][16];
    static enum rt_sent sent[MANY];
    static const char *why[MANY];

    (void)state;
    POST.route("many");
    struct rt_broker *b = opened(), *taker = taking("many", 64);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof(ids[i]), "many-%zu", i);
        all[i] = message(ids[i], "many", ids[i], strlen(ids[i]));
    }
    assert_int_equal(POST.kind->publish(b, all, MANY, rt_relay_now() + LONG, sent, why), 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(sent[i], RT_SENT_CONFIRMED);
    for (size_t i = 0; i < MANY; i++)
        take_and_ack(taker, &all[i]);
    POST.kind->close(b);
    POST.kind->close(taker);
}

static void what_nobody_takes_is_refused_alone(void **state)
{
    const struct rt_message all[] = {
        message("r-1", "led", "1", 1),
        message("r-2", "leads.nowhere", "2", 1),
        message("r-3", "led", "3", 1),
    };
    enum rt_sent sent[3];
    const char *why[3];

    (void)state;
    if (!POST.refuses_without_route)
        return;
    POST.route("led");
    struct rt_broker *b = opened();
    assert_int_equal(POST.kind->publish(b, all, 3, rt_relay_now() + LONG, sent, why), 0);
    assert_int_equal(sent[0], RT_SENT_CONFIRMED);
    assert_int_equal(sent[1], RT_SENT_REFUSED);
    assert_non_null(why[1]);
    assert_int_equal(sent[2], RT_SENT_CONFIRMED);
    must_publish(b, &all[0]); /* and it goes on */
    POST.kind->close(b);
}

/* A queue that is full is no fault of the message, and no other queue's trouble. */
static void where_there_is_no_room_it_is_full(void **state)
{
    const struct rt_message all[] = {message("f-1", "two", "1", 1), message("f-2", "two", "2", 1),
                                     message("f-3", "two", "3", 1),
                                     message("f-4", "roomy", "4", 1)};
    enum rt_sent sent[4];
    const char *why[4];

    (void)state;
    if (POST.route_two == NULL)
        return;
    POST.route_two("two");
    POST.route("roomy");
    struct rt_broker *b = opened();
    assert_int_equal(POST.kind->publish(b, all, 4, rt_relay_now() + LONG, sent, why), 0);
    assert_true(sent[0] == RT_SENT_CONFIRMED && sent[1] == RT_SENT_CONFIRMED);
    assert_int_equal(sent[2], RT_SENT_FULL);
    if (why[2] == NULL || strstr(why[2], POST.full) == NULL)
        fail_msg("it says: %s", why[2]);
    assert_int_equal(sent[3], RT_SENT_CONFIRMED);
    POST.kind->close(b);
}

/* A topic, a key or a type that the broker cannot carry is that message's trouble, and nobody else's. */
static void what_cannot_be_carried_is_refused_alone(void **state)
{
    enum rt_sent sent[3];
    const char *why[3];

    (void)state;
    if (POST.bad_topics == NULL)
        return;
    POST.route("plain");
    struct rt_broker *b = opened(), *taker = taking("plain", 4);
    for (size_t i = 0; POST.bad_topics[i] != NULL || POST.bad_key != NULL; i++) {
        struct rt_message all[] = {message("c-1", "plain", "1", 1), message("c-2", "plain", "2", 1),
                                   message("c-3", "plain", "3", 1)};
        char ids[2][32];
        bool last = POST.bad_topics[i] == NULL;
        for (int k = 0; k < 2; k++) {
            snprintf(ids[k], sizeof(ids[k]), "c-%zu-%d", i, k);
            all[2 * k].id = ids[k];
        }
        if (last)
            all[1].key = POST.bad_key;
        else
            all[1].topic = POST.bad_topics[i];
        assert_int_equal(POST.kind->publish(b, all, 3, rt_relay_now() + LONG, sent, why), 0);
        assert_int_equal(sent[0], RT_SENT_CONFIRMED);
        if (sent[1] != RT_SENT_REFUSED || why[1] == NULL || strlen(why[1]) < 10)
            fail_msg("'%s' as '%s' is not refused: %d", all[1].topic, all[1].key, sent[1]);
        assert_int_equal(sent[2], RT_SENT_CONFIRMED);
        take_and_ack(taker, &all[0]);
        take_and_ack(taker, &all[2]);
        if (last)
            break;
    }
    POST.kind->close(b);
    POST.kind->close(taker);
}

/* The broker ends the connection over it. Among others nobody knows which message it was; alone it is known, and the
 * error says why. */
static void what_costs_the_connection_is_refused_when_it_is_alone(void **state)
{
    enum rt_sent sent[2];
    const char *why[2] = {NULL, NULL};

    (void)state;
    if (POST.message_max == 0)
        return;
    char *body = calloc(1, 2 * POST.message_max);
    assert_non_null(body);
    const struct rt_message all[] = {message("much-1", "much", body, 2 * POST.message_max),
                                     message("much-2", "much", "2", 1)};
    POST.route("much");
    struct rt_broker *b = opened();
    assert_int_equal(POST.kind->publish(b, all, 2, rt_relay_now() + LONG, sent, why),
                     ROTA_UNREACHABLE);
    assert_int_equal(sent[0], RT_SENT_LOST);
    assert_int_equal(sent[1], RT_SENT_LOST);
    POST.kind->close(b);
    b = opened();
    assert_int_equal(POST.kind->publish(b, all, 1, rt_relay_now() + LONG, sent, why),
                     ROTA_UNREACHABLE);
    assert_int_equal(sent[0], RT_SENT_REFUSED);
    assert_non_null(strstr(why[0], "larger than"));
    POST.kind->close(b);
    free(body);
}

/* What came too late is not mixed up with what is sent next. */
static void what_was_not_waited_for_is_forgotten(void **state)
{
    const struct rt_message first[] = {message("late-1", "late", "1", 1),
                                       message("late-2", "leads.nowhere.late", "2", 1)};
    const struct rt_message second = message("late-3", "late", "3", 1);
    enum rt_sent sent[2];
    const char *why[2];

    (void)state;
    POST.route("late");
    for (int i = 0; i < 20; i++) {
        struct rt_broker *b = opened();
        /* a deadline that lets it send, and hardly wait */
        int err = POST.kind->publish(b, first, 2, rt_relay_now() + SECOND / 5000 * i, sent, why);
        if (err == 0 || err == ROTA_BUSY)
            must_publish(b, &second);
        POST.kind->close(b);
    }
}

static void what_is_not_acknowledged_comes_again(void **state)
{
    const struct rt_message one = message("again", "again", "1", 1);
    struct rt_message m;
    uint64_t token;

    (void)state;
    POST.route("again");
    struct rt_broker *b = opened(), *taker = taking("again", 1);
    must_publish(b, &one);
    must_take(taker, &m, &token);
    assert_int_equal(POST.kind->back(taker, token), 0);
    must_take(taker, &m, &token);
    assert_string_equal(m.id, "again");
    assert_int_equal(POST.kind->ack(taker, token), 0);
    assert_int_equal(POST.kind->next(taker, rt_relay_now() + SECOND / 10, &m, &token), ROTA_BUSY);
    POST.kind->close(b);
    POST.kind->close(taker);
}

static void a_broker_that_dies_is_unreachable_and_comes_back(void **state)
{
    const struct rt_message one = message("dies", "dies", "1", 1);
    enum rt_sent sent = RT_SENT_CONFIRMED;
    const char *why = NULL;
    char line[RT_BROKER_LINE] = "";
    struct rt_broker *none = NULL;

    (void)state;
    POST.route("dies");
    struct rt_broker *b = opened();
    must_publish(b, &one);
    rt_server_kill(stand_server);
    assert_int_equal(POST.kind->publish(b, &one, 1, rt_relay_now() + LONG, &sent, &why),
                     ROTA_UNREACHABLE);
    assert_int_equal(sent, RT_SENT_LOST);
    assert_true(strlen(POST.kind->errmsg(b)) > 10);
    POST.kind->close(b);
    assert_int_equal(try_open(&none, "", "", line, sizeof(line)), ROTA_UNREACHABLE);
    assert_null(none);
    assert_true(strlen(line) > 10);
    POST.run();
    POST.route("dies"); /* RabbitMQ may have forgotten a queue that was made just before */
    b = opened();
    must_publish(b, &one);
    POST.kind->close(b);
}

static void a_wrong_password_is_told_without_it(void **state)
{
    char line[RT_BROKER_LINE] = "";
    struct rt_broker *none = NULL;

    (void)state;
    if (!POST.has_passwords)
        return;
    assert_int_equal(try_open(&none, "guest:s3cret@", "", line, sizeof(line)), ROTA_AUTH);
    assert_null(none);
    assert_null(strstr(line, "s3cret"));
    assert_true(strlen(line) > 10);
}

static void what_is_too_long_is_refused(void **state)
{
    struct rt_broker *b;
    const char *why = NULL;

    (void)state;
    POST.route("long");
    b = opened();
    size_t most = POST.kind->body_max(b);
    if (most > 0 && most < 64u << 20) {
        char *body = calloc(1, most * 2);
        assert_non_null(body);
        const struct rt_message too_long = message("too-long", "long", body, most * 2);
        assert_int_equal(publish_one(b, &too_long, &why), RT_SENT_REFUSED);
        assert_non_null(why);
        const struct rt_message longest = message("longest", "long", body, most);
        must_publish(b, &longest);
        free(body);
    }
    POST.kind->close(b);
}

/* What was taken is kept from others while somebody works on it, and is given up for good. */
static void what_is_kept_stays_and_what_is_left_is_gone(void **state)
{
    const struct rt_message one = message("kept", "kept", "1", 1);
    struct rt_message m;
    uint64_t token;

    (void)state;
    POST.route("kept");
    struct rt_broker *b = opened(), *taker = taking("kept", 1);
    must_publish(b, &one);
    must_take(taker, &m, &token);
    assert_int_equal(POST.kind->keep(taker, token), 0);
    assert_int_equal(POST.kind->keep(taker, token), 0);
    assert_string_equal(m.id, "kept");
    assert_int_equal(POST.kind->leave(taker, token), 0);
    assert_int_equal(POST.kind->next(taker, rt_relay_now() + SECOND / 10, &m, &token), ROTA_BUSY);
    POST.kind->close(b);
    POST.kind->close(taker);
}

static const struct CMUnitTest cases_broker[] = {
    cmocka_unit_test(what_is_published_is_taken_as_it_was),
    cmocka_unit_test(a_batch_is_confirmed_and_keeps_its_order),
    cmocka_unit_test(what_nobody_takes_is_refused_alone),
    cmocka_unit_test(where_there_is_no_room_it_is_full),
    cmocka_unit_test(what_cannot_be_carried_is_refused_alone),
    cmocka_unit_test(what_costs_the_connection_is_refused_when_it_is_alone),
    cmocka_unit_test(what_was_not_waited_for_is_forgotten),
    cmocka_unit_test(what_is_not_acknowledged_comes_again),
    cmocka_unit_test(what_is_kept_stays_and_what_is_left_is_gone),
    cmocka_unit_test(a_wrong_password_is_told_without_it),
    cmocka_unit_test(what_is_too_long_is_refused),
    cmocka_unit_test(a_broker_that_dies_is_unreachable_and_comes_back),
};

static size_t gather(struct CMUnitTest *out, size_t n, const struct CMUnitTest *from, size_t count,
                     const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (word == NULL || strstr(from[i].name, word) != NULL)
            out[n++] = from[i];
    return n;
}

static void set_up(void)
{
    HERE->site->start();
    void *conn = office_conn();
    if (HERE->make(conn) != 0)
        abort();
    office_close(conn);
    HERE->site->admin("CREATE TABLE effect (id INTEGER PRIMARY KEY, what TEXT)");
    stand_server = POST.start();
}

int main(int argc, char **argv)
{
    static struct CMUnitTest all[60];
    const char *word = argc > 1 ? argv[1] : NULL;

    if (argc > 2 && strcmp(argv[1], "clerk") == 0)
        return stand_clerk(argv);
    size_t n = gather(all, 0, cases_broker, sizeof(cases_broker) / sizeof(cases_broker[0]), word);
    n = gather(all, n, cases_receipts, cases_receipts_count, word);
    n = gather(all, n, cases_consume, cases_consume_count, word);
    assert_true(n > 0 && n < sizeof(all) / sizeof(all[0]));
    signal(SIGPIPE, SIG_IGN);
    rt_watchdog(600, "the suite of brokers hangs");
    stand_open(argv[0]);
    set_up();
    int failed = _cmocka_run_group_tests("broker", all, n, NULL, NULL);
    POST.fini();
    HERE->site->fini();
    stand_close();
    return failed;
}
