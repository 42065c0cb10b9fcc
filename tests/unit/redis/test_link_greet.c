/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting: what a server may say to it, and what the user is told; URLs; no secret anywhere. */
#include "lib/scarce.h"
#include "played.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECRET "correct-horse-battery"

static struct played p;

static void assert_no_secret(void)
{
    assert_null(strstr(p.log, SECRET));
    assert_null(strstr(p.op_errmsg, SECRET));
    for (int i = 0; i < p.asked_count; i++)
        assert_null(strstr(p.asked[i].errmsg, SECRET));
}

static void begin(const char *url)
{
    played_open(&p, url, SECRET, 0);
    played_submit(&p);
    played_turn(&p);
    played_accept(&p, 0);
}

/* ---- Refusals ------------------------------------------------------------------------------------- */

#define GOOD                                                                                      \
    "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory_policy:noeviction" \
    "\r\n"

struct refusal {
    const char *url;
    const char *auth, *select, *info; /* NULL: good */
    int err;
    const char *says;
};

static const struct refusal refusals[] = {
    {"redis://h", "-WRONGPASS invalid username-password pair or user is disabled.\r\n", NULL, NULL,
     ROTA_AUTH, "refused the password of the user default"},
    {"redis://bob@h", "-WRONGPASS invalid username-password pair or user is disabled.\r\n", NULL,
     NULL, ROTA_AUTH, "refused the password of the user bob"},
    {"redis://h",
     "-ERR AUTH <password> called without any password configured for the default user. Are you "
     "sure your configuration is correct?\r\n",
     NULL, NULL, ROTA_AUTH, "has no password set"},
    {"redis://h", "-ERR unknown command 'AUTH', with args beginning with: '" SECRET "'\r\n", NULL,
     NULL, ROTA_AUTH, "is that a Redis server?"},
    {"redis://bob@h", "-ERR wrong number of arguments for 'auth' command\r\n", NULL, NULL,
     ROTA_UNSUPPORTED, "knows no users"},
    {"redis://h/99", NULL, "-ERR DB index is out of range\r\n", NULL, ROTA_INVALID,
     "has no database 99"},
    {"redis://h/3", NULL, "-ERR SELECT is not allowed in cluster mode\r\n", NULL, ROTA_INVALID,
     "only database 0"},
    {"redis://h/3", NULL, "-NOPERM this user has no permissions to run the 'select' command\r\n",
     NULL, ROTA_AUTH, "'select'"},
    {"redis://h", NULL, NULL, "-NOPERM User x has no permissions to run the 'info' command\r\n",
     ROTA_AUTH, "the 'info' command (see the ACL line"},
    {"redis://h", NULL, NULL, "-NOAUTH Authentication required.\r\n", ROTA_AUTH,
     "asks for a password"},
    {"redis://h", "-WRONGPASS no\r\n", NULL, "-NOAUTH Authentication required.\r\n", ROTA_AUTH,
     "refused the password"}, /* and the ECHO gets NOAUTH too, see play() */
    {"redis://h", NULL, NULL, "-ERR nothing " SECRET " here\r\n", ROTA_PROTOCOL, "nothing ***"},
    {"redis://h", NULL, NULL, "redis_version:5.0.7\r\nredis_mode:standalone\r\nrole:master\r\n",
     ROTA_UNSUPPORTED, "version 5.0.7: Rota needs 6.2"},
    {"redis://h", NULL, NULL, "redis_version:6.1.9\r\nredis_mode:standalone\r\nrole:master\r\n",
     ROTA_UNSUPPORTED, "version 6.1.9: Rota needs 6.2"},
    {"redis://h", NULL, NULL, "redis_version:6.2.1\r\nredis_mode:cluster\r\nrole:master\r\n",
     ROTA_UNSUPPORTED, "with cluster mode: Rota needs 7.0"},
    {"redis://h", NULL, NULL, "nothing:1\r\n", ROTA_PROTOCOL, "does not say which Redis it is"},
    {"redis://h", NULL, NULL, "redis_version:7.0.15\r\nredis_mode:sentinel\r\n", ROTA_INVALID,
     "?sentinel=NAME"},
};

/* INFO's own text becomes a reply; anything else is one already. */
static void say(const char *text)
{
    char reply[512];
    if (text[0] == '-' || text[0] == '+') {
        played_say(&p, 0, text);
        return;
    }
    snprintf(reply, sizeof(reply), "$%zu\r\n%s\r\n", strlen(text), text);
    played_say(&p, 0, reply);
}

static void play(const struct refusal *r)
{
    const char *command;
    while ((command = played_next(&p, 0))[0] != '\0' && p.streams[0].stream != NULL) {
        if (strncmp(command, "AUTH", 4) == 0) {
            assert_non_null(strstr(command, SECRET));
            say(r->auth != NULL ? r->auth : "+OK\r\n");
        } else if (strncmp(command, "SELECT", 6) == 0) {
            say(r->select != NULL ? r->select : "+OK\r\n");
        } else if (strcmp(command, "INFO") == 0) {
            say(r->info != NULL ? r->info : GOOD);
        } else if (strncmp(command, "CONFIG", 6) == 0 || strncmp(command, "ACL", 3) == 0) {
            say("-NOPERM no\r\n");
        } else {
            assert_true(strncmp(command, "ECHO ", 5) == 0);
            assert_int_equal(p.op_done, 0); /* nothing is believed before it */
            bool out = r->info != NULL && strncmp(r->info, "-NOAUTH", 7) == 0;
            say(out ? r->info : command + 5);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        begin(refusals[i].url);
        play(&refusals[i]);
        if (p.op_done != 1 || p.op.err != refusals[i].err ||
            strstr(p.op_errmsg, refusals[i].says) == NULL)
            fail_msg("refusal %zu: done %d, err %d, \"%s\"", i, p.op_done, p.op.err, p.op_errmsg);
        assert_non_null(strstr(p.op_errmsg, "h:6379"));
        assert_no_secret();
        assert_null(p.streams[0].stream);
        played_pass(&p, 10000);
        assert_int_equal(p.opened, 1); /* nobody waits: not tried again */
        played_submit(&p);
        played_pass(&p, 1);
        assert_int_equal(p.opened, 2); /* but when somebody does: it may have been mended */
        played_close(&p);
    }
}

/* A sentinel refuses SELECT and ECHO, too: what it is comes first. */
static void test_sentinel_unawares(void **state)
{
    const char *command;
    (void)state;
    begin("redis://h/3");
    while ((command = played_next(&p, 0))[0] != '\0' && p.streams[0].stream != NULL)
        say(strcmp(command, "INFO") == 0 ? "redis_version:7.0.15\r\nredis_mode:sentinel\r\n"
                                         : "-ERR unknown command\r\n");
    assert_int_equal(p.op.err, ROTA_INVALID);
    assert_non_null(strstr(p.op_errmsg, "is a Sentinel: say ?sentinel=NAME"));
    played_close(&p);
}

/* ACL GETUSER default, as Redis 7 answers it; KEYS with a # before them as 6.2 does: a list. */
static void say_rights(const char *commands, const char *keys)
{
    char text[512];
    bool list = keys[0] == '#';
    keys += list;
    snprintf(text, sizeof(text),
             "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\ncommands\r\n$%zu\r\n%s\r\n"
             "$4\r\nkeys\r\n%s$%zu\r\n%s\r\n",
             strlen(commands), commands, list ? "*1\r\n" : "", strlen(keys), keys);
    played_say(&p, 0, text);
}

static void test_rights_of_the_default_user(void **state)
{
    static const struct {
        const char *commands, *keys; /* NULL: refused */
        enum rt_resp_replay replay;
    } all[] = {
        {"+@all", "~*", RT_RESP_REPLAY_KEPT},
        {"-@all", "~*", RT_RESP_REPLAY_DROPPED},
        {"-@all", "", RT_RESP_REPLAY_DROPPED},
        {"", "", RT_RESP_REPLAY_DROPPED},
        {"+@all", "", RT_RESP_REPLAY_DROPPED},
        {"+@all", "~cache:*", RT_RESP_REPLAY_DROPPED},
        {"+@all", "%R~*", RT_RESP_REPLAY_DROPPED},
        {"+@all", "~cache:* ~rota:*", RT_RESP_REPLAY_KEPT},
        {"+@all", "~rota*", RT_RESP_REPLAY_KEPT},
        {"+@all", "%RW~rota*", RT_RESP_REPLAY_KEPT},
        {"+@all", "%R~* %W~r*", RT_RESP_REPLAY_KEPT},
        {"+@all", "%W~rota:*", RT_RESP_REPLAY_DROPPED},
        {"+@all", "~ro?a:**", RT_RESP_REPLAY_KEPT},
        {"+@all", "~rota:", RT_RESP_REPLAY_DROPPED},
        {"+@all", "~rota:*x", RT_RESP_REPLAY_DROPPED},
        {"+@all", "~rota:x*", RT_RESP_REPLAY_DROPPED},
        {"+@all", "~", RT_RESP_REPLAY_DROPPED},
        {"+@all", "#rota*", RT_RESP_REPLAY_KEPT},
        {"+@all", "#*", RT_RESP_REPLAY_KEPT},
        {"+@all", "#cache:*", RT_RESP_REPLAY_DROPPED},
        {"+@all -@dangerous", "~*", RT_RESP_REPLAY_KEPT},
        {"+@all -@write", "~*", RT_RESP_REPLAY_DROPPED},
        {"+@all -@hash", "~*", RT_RESP_REPLAY_DROPPED},
        {"+@all -@slow", "~*", RT_RESP_REPLAY_DROPPED},
        {"+@all -zpopmin", "~*", RT_RESP_REPLAY_DROPPED},
        {"-@all +@write", "~*", RT_RESP_REPLAY_KEPT},
        {"-@all +@hash +@sortedset", "~*", RT_RESP_REPLAY_DROPPED},
        {"-@all +@hash +@sortedset +del", "~*", RT_RESP_REPLAY_KEPT},
        {"-@all +@fast +@keyspace", "~*", RT_RESP_REPLAY_KEPT},
        {"+@all -@all", "~*", RT_RESP_REPLAY_DROPPED},
        {NULL, NULL, RT_RESP_REPLAY_UNKNOWN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const char *command;
        played_open(&p, "redis://bob@h", SECRET, 0);
        played_submit(&p);
        played_turn(&p);
        played_accept(&p, 0);
        while (strncmp(command = played_next(&p, 0), "ECHO", 4) != 0)
            if (strcmp(command, "ACL GETUSER default") != 0)
                say(strcmp(command, "INFO") == 0         ? GOOD
                    : strncmp(command, "CONFIG", 6) == 0 ? "-NOPERM no\r\n"
                                                         : "+OK\r\n");
            else if (all[i].commands != NULL)
                say_rights(all[i].commands, all[i].keys);
            else
                say("-NOPERM no\r\n");
        say(command + 5);
        if (p.conn->link.nodes->facts.replay != all[i].replay)
            fail_msg("%zu: %s, %s", i, all[i].commands, all[i].keys);
        played_close(&p);
    }
    played_open(&p, "redis://default@h", SECRET, 0); /* itself: it may what we may */
    played_submit(&p);
    played_turn(&p);
    played_accept(&p, 0);
    played_greet_first(&p, 0, "");
    assert_int_equal(p.conn->link.nodes->facts.replay, RT_RESP_REPLAY_KEPT);
    played_close(&p);
}

static void test_user_without_password(void **state)
{
    (void)state;
    played_open(&p, "redis://bob@h", NULL, 0);
    played_submit(&p);
    played_turn(&p);
    played_accept(&p, 0);
    const char *command;
    while ((command = played_next(&p, 0))[0] != '\0' && p.streams[0].stream != NULL)
        say(strncmp(command, "AUTH", 4) == 0   ? "-WRONGPASS no\r\n"
            : strncmp(command, "ECHO", 4) == 0 ? command + 5
                                               : "-NOAUTH Authentication required.\r\n");
    assert_int_equal(p.op.err, ROTA_AUTH);
    assert_non_null(strstr(p.op_errmsg, "none was given"));
    assert_non_null(strstr(p.op_errmsg, "ROTA_PASSWORD"));
    played_close(&p);
}

/* Pushes come over a link of their own, which has to say who it is as the first one did; else waiters hear nothing
 * until the next beat. A good answer does not confirm a channel, and a refusal cuts the link, without naming
 * secrets. */
static void test_push_link_says_who_it_is(void **state)
{
    static const struct {
        const char *url, *password, *auth;
    } all[] = {
        {"redis://h", NULL, NULL},
        {"redis://h", SECRET, "AUTH " SECRET},
        {"redis://bob@h", SECRET, "AUTH bob " SECRET},
        {"redis://bob@h", NULL, "AUTH bob "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        played_open(&p, all[i].url, all[i].password, 0);
        played_turn(&p);
        played_accept(&p, 0);
        if (all[i].auth != NULL) {
            assert_string_equal(played_next(&p, 0), all[i].auth);
            played_say(&p, 0, "+OK\r\n");
        }
        played_greet(&p, 0);
        assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
        played_turn(&p);
        played_accept(&p, 1);
        if (all[i].auth != NULL)
            assert_string_equal(played_next(&p, 1), all[i].auth);
        assert_string_equal(played_next(&p, 1), "SUBSCRIBE one");
        if (all[i].auth != NULL)
            played_say(&p, 1, "+OK\r\n");
        assert_int_equal(p.conn->link.nodes->push.owed, 1);
        played_say(&p, 1, "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n");
        assert_int_equal(p.conn->link.nodes->push.owed, 0);
        played_say(&p, 1, "-NOPERM no " SECRET "\r\n");
        assert_null(p.streams[1].stream);
        assert_non_null(strstr(p.log, "grants come late without pushes"));
        assert_true(i == 0 || i == 3 || strstr(p.log, SECRET) == NULL);
        played_close(&p);
    }
}

static size_t times_said(const char *what)
{
    size_t n = 0;
    for (const char *at = p.log; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* Both links are refused, each in its own words, and redialed for ever: each says so once, until it succeeds. */
static void test_a_refusal_is_told_once_by_each_link(void **state)
{
    (void)state;
    played_open(&p, "redis://h", NULL, 0);
    played_turn(&p);
    played_accept(&p, 0);
    played_greet(&p, 0);
    assert_int_equal(rt_resp_subscribe(&p.conn->link, 0, "one"), 0);
    played_turn(&p);
    for (size_t i = 1; i < 6; i++) {
        played_accept(&p, i);
        assert_string_equal(played_next(&p, i), "SUBSCRIBE one");
        if (i == 4) /* it is well, and refused again */
            played_say(&p, i, "*3\r\n$9\r\nsubscribe\r\n$3\r\none\r\n:1\r\n");
        played_say(&p, i, "-NOPERM no\r\n");
        assert_null(p.streams[i].stream);
        size_t told = i < 4 ? 1 : 2;
        assert_int_equal(times_said("grants come late without pushes"), told);
        assert_int_equal(times_said("redis: push link"), told);
        snprintf(p.conn->link.last_trouble, sizeof(p.conn->link.last_trouble), "another link's");
        played_pass(&p, 600);
    }
    played_close(&p);
}

/* What a TLS port does with our greeting: an alert, or just an end. */
static void test_tls_unawares(void **state)
{
    static const char alert[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46};
    (void)state;
    begin("redis://h");
    played_say_bytes(&p, 0, alert, sizeof(alert));
    assert_int_equal(p.op.err, ROTA_PROTOCOL);
    assert_non_null(strstr(p.op_errmsg, "rediss://"));
    played_close(&p);
    begin("redis://h");
    played_end(&p, 0);
    assert_int_equal(p.op_done, 0); /* a server that goes down does that as well */
    played_pass(&p, 6000);
    assert_int_equal(p.op.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(p.log, "rediss://"));
    played_close(&p);
    begin("redis://h"); /* one that has spoken is no TLS port */
    played_say(&p, 0, "+OK\r\n");
    played_end(&p, 0);
    assert_null(strstr(p.log, "rediss://"));
    played_close(&p);
}

static void test_garbage(void **state)
{
    static const char *const garbage[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\r\n",
        "*-7\r\n",
        "$-9\r\n",
        "*1000000000\r\n", /* hiredis would ask for 8 GB */
        "*1000001\r\n",
        "*2147483647\r\n",
        "*9999999999999999999\r\n",
        "$9223372036854775807\r\nx\r\n",
        ":99999999999999999999999\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        begin("redis://h");
        played_say(&p, 0, garbage[i]);
        assert_true(garbage[i][0] != '*' || p.op_done == 1); /* no array is waited for */
        if (p.op_done == 0) /* a long string may still come: it never does */
            played_pass(&p, 6000);
        assert_int_equal(p.op_done, 1);
        assert_true(p.op.err == ROTA_PROTOCOL || p.op.err == ROTA_UNREACHABLE);
        assert_true(p.op_errmsg[0] != '\0');
        played_close(&p);
    }
}

static void test_endless_answers(void **state)
{
    static char chunk[60000];
    static const char *const starts[] = {
        "$1000000000\r\n", "$16000000000\r\n", "+", "-", ":", "*", "$"};
    (void)state;
    for (size_t k = 0; k < sizeof(starts) / sizeof(starts[0]); k++) {
        begin("redis://h");
        memset(chunk, '1', sizeof(chunk));
        played_say(&p, 0, starts[k]);
        size_t sent = 0;
        while (p.streams[0].stream != NULL) {
            played_say_bytes(&p, 0, chunk, sizeof(chunk));
            sent += sizeof(chunk);
            assert_true(sent < 20u << 20);
        }
        assert_true(k <= 1 ? sent > 15u << 20 : sent < 200000);
        assert_int_equal(p.op_done, 1);
        assert_int_equal(p.op.err, ROTA_PROTOCOL);
        played_close(&p);
    }
}

static void test_silent_server(void **state)
{
    (void)state;
    begin("redis://h");
    played_pass(&p, 6000);
    assert_int_equal(p.op_done, 1);
    assert_int_equal(p.op.err, ROTA_UNREACHABLE);
    assert_non_null(strstr(p.op_errmsg, "did not answer within 2500 ms"));
    assert_no_secret();
    played_close(&p);
}

static void test_never_connected(void **state)
{
    (void)state;
    played_open(&p, "redis://h", NULL, 0);
    played_submit(&p);
    played_pass(&p, 6000);
    assert_int_equal(p.op_done, 1);
    assert_int_equal(p.op.err, ROTA_UNREACHABLE);
    played_close(&p);
}

static void test_trouble_that_passes(void **state)
{
    (void)state;
    begin("redis://h");
    played_greet_first(&p, 0, "loading:1\r\n");
    assert_null(p.streams[0].stream);
    assert_int_equal(p.op_done, 0);
    assert_non_null(strstr(p.log, "is loading its data"));
    played_pass(&p, 20);
    played_accept(&p, 1);
    played_greet(&p, 1);
    assert_non_null(strstr(played_next(&p, 1), " n")); /* the op went on */
    played_close(&p);
}

/* ---- The layout's mark ------------------------------------------------------------------------------- */

static void answer_meta(const char *layout, const char *rooms)
{
    char text[256];
    played_greet_first(&p, 0, "");
    unsigned long long tag = played_tag(played_meta(&p, 0));
    snprintf(text, sizeof(text), "*4\r\n$%d\r\n%llu\r\n:0\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             snprintf(NULL, 0, "%llu", tag), tag, strlen(layout), layout, strlen(rooms), rooms);
    played_say(&p, 0, text);
}

static void test_layouts(void **state)
{
    static const struct {
        const char *layout, *rooms;
        int err;
        const char *says;
    } all[] = {
        {"2.0", "1", ROTA_UNSUPPORTED, "Rota's layout 2.0"},
        {"1.0", "256", ROTA_UNSUPPORTED, "laid out for 256 rooms"},
        {"", "", ROTA_UNSUPPORTED, "Rota's layout"},
        {"1.7", "1", 0, NULL}, /* a newer minor is worked with */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        begin("redis://h");
        answer_meta(all[i].layout, all[i].rooms);
        assert_int_equal(p.op_done, all[i].err != 0);
        if (all[i].err != 0) {
            assert_int_equal(p.op.err, all[i].err);
            assert_non_null(strstr(p.op_errmsg, all[i].says));
        }
        played_close(&p);
    }
}

/* ---- Strict ------------------------------------------------------------------------------------------- */

static uint32_t caps_with(const char *more)
{
    char text[256];
    played_open(&p, "redis://h", NULL, 0);
    assert_int_equal(p.conn->base.engine->caps(&p.conn->base) & ROTA_CAP_STRICT, 0);
    played_turn(&p);
    played_accept(&p, 0);
    played_greet_first(&p, 0, more);
    unsigned long long tag = played_tag(played_meta(&p, 0));
    snprintf(text, sizeof(text), "*4\r\n$%d\r\n%llu\r\n:0\r\n$3\r\n1.0\r\n$1\r\n1\r\n",
             snprintf(NULL, 0, "%llu", tag), tag);
    played_say(&p, 0, text);
    return p.conn->base.engine->caps(&p.conn->base);
}

static void test_no_right_to_publish(void **state)
{
    (void)state;
    begin("redis://h");
    played_greet_first(&p, 0, "");
    assert_true(strncmp(played_next(&p, 0), "PUBLISH rota:{0}:p:", 19) == 0);
    played_say(&p, 0, "-NOPERM this user has no permissions to access one of the channels\r\n");
    assert_int_equal(p.op_done, 0);
    unsigned long long tag = played_tag(played_next(&p, 0));
    char text[128];
    snprintf(text, sizeof(text), "*4\r\n$%d\r\n%llu\r\n:0\r\n$3\r\n1.0\r\n$1\r\n1\r\n",
             snprintf(NULL, 0, "%llu", tag), tag);
    played_say(&p, 0, text);
    assert_int_equal(p.op_done, 1);
    assert_int_equal(p.op.err, ROTA_AUTH);
    assert_non_null(strstr(p.op_errmsg, "channels"));
    played_close(&p);
}

static void test_right_of_a_script_is_named(void **state)
{
    char text[256];
    (void)state;
    begin("redis://h");
    played_greet_first(&p, 0, "");
    (void)played_meta(&p, 0);
    const struct rt_redis_text *meta = rt_redis_script_text(RT_REDIS_SCRIPT_META, false);
    const char *call = strstr(meta->text, "call('HSETNX'");
    assert_non_null(call);
    int line = 1;
    for (const char *at = meta->text; at < call; at++)
        line += *at == '\n';
    snprintf(text, sizeof(text),
             "-ERR The user executing the script can't run this command or subcommand script: %s, "
             "on @user_script:%d.\r\n",
             meta->sha1, line);
    played_say(&p, 0, text);
    unsigned long long tag = played_tag(played_next(&p, 0));
    snprintf(text, sizeof(text), "$%d\r\n%llu\r\n", snprintf(NULL, 0, "%llu", tag), tag);
    played_say(&p, 0, text);
    assert_int_equal(p.op_done, 1);
    assert_int_equal(p.op.err, ROTA_AUTH);
    assert_non_null(strstr(p.op_errmsg, "'HSETNX'"));
    played_close(&p);
}

static void test_strict(void **state)
{
    (void)state;
    assert_true((caps_with("") & ROTA_CAP_STRICT) != 0);
    assert_string_equal(p.conn->base.unsafe, "");
    played_close(&p);
    assert_int_equal(caps_with("connected_slaves:1\r\n") & ROTA_CAP_STRICT, 0);
    assert_non_null(strstr(p.conn->base.unsafe, "replicas"));
    played_close(&p);
}

/* ---- URLs ----------------------------------------------------------------------------------------------- */

static void test_urls(void **state)
{
    static const struct {
        const char *url;
        const char *says; /* NULL: good */
    } all[] = {
        {"redis://h", NULL},
        {"redis://h:7000,i:7001/2", NULL},
        {"redis://h?db=3", NULL},
        {"redis+unix:/tmp/x.sock?db=3", NULL},
        {"redis://h?sentinel=m&replicas=2", NULL},
        {"redis:", "names no host"},
        {"redis:///1", "names no host"},
        {"redis://h/x", "number"},
        {"redis://h/-1", "number"},
        {"redis://h/1?db=2", "twice"},
        {"redis://h?replicas=many", "number"},
        {"redis+unix:", "redis+unix:/path"},
        {"redis+unix://h/x", "redis+unix:/path"},
        {"redis+unix:/x?sentinel=m", "needs hosts"},
        {"redis+unix:/a234567890123456789012345678901234567890123456789012345678901234567890123456"
         "7890123456789012345678901234567890",
         "longer than 107 bytes"},
        {"redis://h?sentinel=", "?sentinel= is empty"},
        {"rediss://h?ca=", "?ca= is empty"},
        {"rediss://h?cert=&key=x", "?cert= is empty"},
        {"rediss://h?cert=x&key=", "?key= is empty"},
        {"redis://h?ca=/x", "rediss://"},
        {"redis://h?cert=/x", "rediss://"},
        {"redis://h?key=/x", "rediss://"},
        {"rediss://h?ca=/nowhere/at/all", "/nowhere/at/all"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        played_open(&p, all[i].url, SECRET, all[i].says != NULL ? ROTA_INVALID : 0);
        if (all[i].says == NULL) {
            played_close(&p);
            continue;
        }
        if (strstr(p.log, all[i].says) == NULL)
            fail_msg("%s: %s", all[i].url, p.log);
        assert_no_secret();
    }
}

static void test_password_is_wiped(void **state)
{
    (void)state;
    begin("redis://h");
    char *kept = p.conn->link.password;
    assert_string_equal(kept, SECRET);
    /* What was assembled for AUTH is not left in the buffer either. */
    for (size_t i = 0; i + strlen(SECRET) <= p.conn->link.out_room; i++)
        assert_true(memcmp(p.conn->link.out + i, SECRET, strlen(SECRET)) != 0);
    played_close(&p);
}

/* ---- Where ------------------------------------------------------------------------------------------------ */

static void test_next_host(void **state)
{
    (void)state;
    played_open(&p, "redis://h:1,i:2", NULL, 0);
    played_turn(&p);
    assert_int_equal(p.streams[0].port, 1);
    played_accept(&p, 0);
    const char *info = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:slave\r\n";
    const struct refusal replica = {.info = info};
    const char *command;
    while ((command = played_next(&p, 0))[0] != '\0' && p.streams[0].stream != NULL)
        say(strcmp(command, "INFO") == 0        ? replica.info
            : strncmp(command, "ECHO ", 5) == 0 ? command + 5
                                                : "-ERR no\r\n");
    played_pass(&p, 20);
    assert_int_equal(p.opened, 2);
    assert_int_equal(p.streams[1].port, 2);
    played_accept(&p, 1);
    played_greet(&p, 1);
    played_close(&p);
}

/* "-\r\n" is an error, as is one that begins with a zero. */
static void test_errors_without_words(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        played_open(&p, "redis://h", NULL, 0);
        played_submit(&p);
        played_accept(&p, 0);
        if (i < 2) {
            played_greet_first(&p, 0, "");
            (void)played_meta(&p, 0);
            if (i == 0)
                played_say(&p, 0, "-\r\n");
            else
                played_say_bytes(&p, 0, "-\0\r\n", 4);
            char tag[24], echo[64];
            snprintf(tag, sizeof(tag), "%s", played_next(&p, 0) + 5);
            snprintf(echo, sizeof(echo), "$%zu\r\n%s\r\n", strlen(tag), tag);
            played_say(&p, 0, echo);
        } else {
            assert_string_equal(played_next(&p, 0), "INFO");
            played_say(&p, 0, "-\r\n*0\r\n-\r\n");
        }
        played_turn(&p);
        assert_int_equal(p.op_done, 1);
        assert_int_equal(p.op.err, ROTA_PROTOCOL);
        assert_non_null(strstr(p.op_errmsg, "without words"));
        played_close(&p);
    }
}

/* An error without a word where the greeting asks with WORD; the rest is good. */
static void say_nothing_to(const char *word)
{
    char text[64];
    const char *command;
    while (p.streams[0].stream != NULL && (command = played_next(&p, 0))[0] != '\0') {
        unsigned long long tag = strncmp(command, "EVAL", 4) == 0 ? played_tag(command) : 0;
        snprintf(text, sizeof(text), "*4\r\n$%d\r\n%llu\r\n:0\r\n$3\r\n1.0\r\n$1\r\n1\r\n",
                 snprintf(NULL, 0, "%llu", tag), tag);
        if (strncmp(command, word, strlen(word)) == 0)
            played_say(&p, 0, "-\r\n");
        else if (tag != 0)
            played_say(&p, 0, text);
        else if (strncmp(command, "PUBLISH", 7) == 0)
            played_say(&p, 0, ":0\r\n");
        else if (strncmp(command, "CONFIG", 6) == 0)
            played_say(&p, 0, "*0\r\n");
        else
            say(strcmp(command, "INFO") == 0        ? GOOD
                : strncmp(command, "ECHO ", 5) == 0 ? command + 5
                                                    : "+OK\r\n");
    }
}

/* Wherever the greeting gets such an answer, the reason is told, and nothing goes on as if it were good. */
static void test_errors_without_words_anywhere(void **state)
{
    static const struct {
        const char *word;
        int err;
        const char *says;
    } all[] = {
        {"AUTH", ROTA_AUTH, "refused AUTH"},         {"SELECT", ROTA_INVALID, "has no database 3"},
        {"INFO", ROTA_PROTOCOL, "without words"},    {"ECHO", ROTA_PROTOCOL, "without words"},
        {"PUBLISH", ROTA_PROTOCOL, "without words"}, {"EVAL", ROTA_PROTOCOL, "without words"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        begin("redis://h/3");
        say_nothing_to(all[i].word);
        assert_null(p.streams[0].stream);
        if (p.op_done != 1 || p.op.err != all[i].err || strstr(p.op_errmsg, all[i].says) == NULL)
            fail_msg("%s: done %d, err %d, \"%s\"", all[i].word, p.op_done, p.op.err, p.op_errmsg);
        assert_no_secret();
        played_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sentinel_unawares),
        cmocka_unit_test(test_user_without_password),
        cmocka_unit_test(test_push_link_says_who_it_is),
        cmocka_unit_test(test_a_refusal_is_told_once_by_each_link),
        cmocka_unit_test(test_rights_of_the_default_user),
        cmocka_unit_test(test_tls_unawares),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_endless_answers),
        cmocka_unit_test(test_silent_server),
        cmocka_unit_test(test_never_connected),
        cmocka_unit_test(test_trouble_that_passes),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_no_right_to_publish),
        cmocka_unit_test(test_right_of_a_script_is_named),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_password_is_wiped),
        cmocka_unit_test(test_next_host),
        cmocka_unit_test(test_errors_without_words),
        cmocka_unit_test(test_errors_without_words_anywhere),
    };
    scarce_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
