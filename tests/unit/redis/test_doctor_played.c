/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's whole report, for each setting of a server that the test plays: users decide by it what to trust, so
 * every verdict, every reason and every remedy is written down here. */
#include "lib/scarce.h"
#include "played.h"

#include "engine/redis/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

extern const struct rt_engine rt_engine_redis;

#define LISTED \
    "\x7f"     \
    "doctor"
#define NO_ACL "-NOPERM this user has no permissions to run the 'acl|getuser' command\r\n"

/* What the server says of itself; NULL: what is best. */
static struct says {
    const char *url, *version, *info, *appendfsync, *rewrite, *acl;
    bool config_refused;
    const char *lacks, *join_error; /* what `rights` finds, and what JOIN is refused with */
    bool mute_pushes;
    int64_t clock_us; /* ahead of ours by */
} says;

static struct played p;
static size_t work; /* the stream to the server */
static char report[8192], clock_text[128];
static int steps[RT_REDIS_SCRIPTS]; /* calls of each script */

static int setup(void **state)
{
    (void)state;
    says = (struct says){0};
    memset(steps, 0, sizeof(steps));
    scarce_begin();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scarce_end();
    return 0;
}

/* ---- The server ------------------------------------------------------------------------- */

static void say_text(size_t stream, const char *text)
{
    played_sayf(&p, stream, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void say_config(size_t stream)
{
    const char *sync = says.appendfsync != NULL ? says.appendfsync : "always";
    const char *rewrite = says.rewrite != NULL ? says.rewrite : "no";
    if (says.config_refused)
        played_sayf(&p, stream,
                    "-NOPERM this user has no permissions to run the 'config|get' command\r\n");
    else if (sync[0] == '\0')
        played_sayf(&p, stream, "*0\r\n");
    else
        played_sayf(
            &p, stream,
            "*4\r\n$25\r\nno-appendfsync-on-rewrite\r\n$%zu\r\n%s\r\n$11\r\nappendfsync\r\n$%zu\r\n%s\r\n",
            strlen(rewrite), rewrite, strlen(sync), sync);
}

static void say_info(size_t stream)
{
    char text[512];
    snprintf(
        text, sizeof(text),
        "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nrole:master\r\nrun_id:5\r\n%s",
        says.version != NULL ? says.version : "7.0.15",
        says.info != NULL ? says.info
                          : "maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n");
    say_text(stream, text);
}

static void greet(size_t stream)
{
    const char *command;
    while (strncmp(command = played_next(&p, stream), "ECHO", 4) != 0) {
        assert_true(command[0] != '\0');
        if (strcmp(command, "INFO") == 0)
            say_info(stream);
        else if (strncmp(command, "CONFIG", 6) == 0)
            say_config(stream);
        else if (strcmp(command, "ACL GETUSER default") == 0)
            played_sayf(&p, stream, "%s", says.acl);
        else if (strncmp(command, "WAIT", 4) == 0)
            played_sayf(&p, stream, ":0\r\n");
        else
            played_sayf(&p, stream, "+OK\r\n");
    }
    played_say_tag(&p, stream, command);
}

static void ask_sentinel(void)
{
    played_accept(&p, 0);
    assert_true(strncmp(played_next(&p, 0), "SENTINEL get-master-addr-by-name", 32) == 0);
    (void)played_next(&p, 0);
    played_sayf(
        &p, 0,
        "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7001\r\n*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
}

static void open_server(void)
{
    const char *url = says.url != NULL ? says.url : "redis://redis.example";
    played_open(&p, url, "secret", 0);
    played_turn(&p);
    work = strstr(url, "sentinel=") != NULL;
    if (work != 0)
        ask_sentinel();
    played_accept(&p, work);
    greet(work);
    const char *meta = played_meta(&p, work);
    char tag[24];
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(meta));
    played_sayf(&p, work, "*4\r\n$%zu\r\n%s\r\n:0\r\n$3\r\n1.0\r\n$1\r\n1\r\n", strlen(tag), tag);
    assert_int_equal(p.ups, 1);
}

/* The link for pushes, whichever stream that is: it subscribes, and hears nothing else. */
static void confirm_pushes(void)
{
    for (size_t s = work + 1; s < p.opened; s++) {
        const char *command;
        if (p.streams[s].stream == NULL)
            continue;
        played_accept(&p, s);
        while ((command = played_next(&p, s))[0] != '\0')
            if (strncmp(command, "SUBSCRIBE ", 10) == 0)
                played_sayf(&p, s, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                            strlen(command + 10), command + 10);
    }
}

static int64_t wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Which script COMMAND calls. */
static int script_of(const char *command)
{
    for (int i = 0; i < RT_REDIS_SCRIPTS; i++) {
        const struct rt_redis_text *t = rt_redis_script_text((enum rt_redis_script)i, false);
        if (strncmp(command, "EVALSHA ", 8) == 0 ? strncmp(command + 8, t->sha1, 40) == 0
                                                 : strncmp(command + 5, t->text, t->length) == 0)
            return i;
    }
    fail_msg("no script: %.80s", command);
    return -1;
}

static void answer_step(const char *command)
{
    int script = script_of(command);
    char tag[24];
    snprintf(tag, sizeof(tag), "%llu", (unsigned long long)played_tag(command));
    const char *lacks = says.lacks != NULL ? says.lacks : "";
    steps[script]++;
    if (script == RT_REDIS_SCRIPT_RIGHTS) {
        assert_true(strncmp(command, "EVAL ", 5) == 0); /* may it? */
        played_sayf(&p, work, "*3\r\n$%zu\r\n%s\r\n:0\r\n$%zu\r\n%s\r\n", strlen(tag), tag,
                    strlen(lacks), lacks);
    } else if (script == RT_REDIS_SCRIPT_JOIN && says.join_error != NULL) {
        played_sayf(&p, work, "%s", says.join_error);
    } else if (script == RT_REDIS_SCRIPT_JOIN) {
        assert_non_null(strstr(command, " rota doctor " LISTED " 1 " LISTED
                                        " d")); /* no name that anybody could ask for */
        assert_non_null(strstr(command, " 1 1 0 0 10000 tried")); /* ends by itself */
        played_sayf(&p, work, "*6\r\n$%zu\r\n%s\r\n:0\r\n:1000\r\n:0\r\n:4711\r\n:1\r\n",
                    strlen(tag), tag);
    } else if (script == RT_REDIS_SCRIPT_CHANGE) {
        assert_non_null(
            strstr(command, says.join_error == NULL ? " 4711 V changed" : " 0 V changed"));
        played_sayf(&p, work, "*3\r\n$%zu\r\n%s\r\n:0\r\n:0\r\n", strlen(tag), tag);
    } else if (script == RT_REDIS_SCRIPT_LEAVE) {
        assert_non_null(strstr(command, says.join_error == NULL ? " 4711 1" : " 0 1"));
        played_sayf(&p, work, "*3\r\n$%zu\r\n%s\r\n:0\r\n:1\r\n", strlen(tag), tag);
    } else if (script == RT_REDIS_SCRIPT_LIST) {
        played_sayf(&p, work, "*3\r\n$%zu\r\n%s\r\n:0\r\n$1\r\n0\r\n", strlen(tag), tag);
    } else {
        assert_int_equal(script, RT_REDIS_SCRIPT_INSPECT);
        played_sayf(&p, work, "*3\r\n$%zu\r\n%s\r\n:0\r\n:%lld\r\n", strlen(tag), tag,
                    (long long)(wall_us() + says.clock_us));
    }
}

/* ---- The report ------------------------------------------------------------------------- */

static void take(void *arg, const struct rota_verdict *v)
{
    size_t used = strlen(report);
    (void)arg;
    if (strcmp(v->promise, "clock") == 0) { /* ours is the machine's: not to be written down */
        snprintf(clock_text, sizeof(clock_text), "%s: %s: %s", v->verdict, v->setting, v->remedy);
        return;
    }
    snprintf(report + used, sizeof(report) - used, "%s: %s: %s%s%s\n", v->promise, v->verdict,
             v->setting, v->remedy[0] != '\0' ? " -> " : "", v->remedy);
}

/* Runs the doctor; its error. */
static int examine(void)
{
    const char *command;
    open_server();
    p.op = (struct rt_op){.kind = RT_OP_CHECK, .deadline = rt_loop_now(&p.loop) + 5000 * RT_MS};
    p.op.check.each = take;
    report[0] = clock_text[0] = '\0';
    p.op_done = 0;
    rt_engine_redis.submit(&p.conn->base, &p.op);
    played_turn(&p);
    if (!says.mute_pushes)
        confirm_pushes();
    for (int i = 0; p.op_done == 0; i++) {
        assert_true(i < 1000);
        while (p.op_done == 0 && (command = played_next(&p, work))[0] != '\0') {
            if (strncmp(command, "ECHO", 4) == 0)
                played_say_tag(&p, work, command);
            else
                answer_step(command);
        }
        if (p.op_done == 0)
            played_pass(&p, 10);
    }
    int err = p.op.err;
    played_close(&p);
    return err;
}

/* The lines of the report that begin as those of TEXT do; the rest does not matter to the case. */
static void expect_lines(const char *text)
{
    for (const char *line = text; *line != '\0';) {
        size_t size = strcspn(line, "\n") + 1;
        char one[512];
        snprintf(one, sizeof(one), "%.*s", (int)size, line);
        if (strstr(report, one) == NULL)
            fail_msg("no line %sin the report:\n%s", one, report);
        line += size;
    }
}

#define ORDER "order of arrival (I7): kept: one script at a time numbers all tickets\n"
#define COUNTER_LOST                                                                                    \
    "fences only grow (I2): limited: a counter that was lost goes on from the server's clock: larger, " \
    "unless that went back -> keep the clocks slewed, not stepped\n"
#define EVICTION_KEPT "eviction: kept: noeviction, maxmemory 0\n"
#define ALONE "server: kept: Redis 7.0.15, primary, 0 replicas\n"
#define RIGHTS_KEPT "rights: kept: the user default may do all that is needed\n"
#define HEARD "pushes: kept: subscribed\n"
#define SCRIPTS "scripts: kept: by their hash, sent anew when the server forgot them\n"

static void test_all_is_kept(void **state)
{
    (void)state;
    assert_int_equal(examine(), 0);
    assert_string_equal(report, "one holder at a time (I1): kept: one server, appendfsync always\n"
                                "fences only grow (I2): kept: the counter is on the disk\n" ORDER
                                "durable tickets: kept: appendfsync always\n" EVICTION_KEPT ALONE
                                    RIGHTS_KEPT HEARD SCRIPTS);
    assert_int_equal(strncmp(clock_text, "kept: the server's is 0.", 24), 0);
    assert_int_equal(steps[RT_REDIS_SCRIPT_RIGHTS], 1);
    assert_int_equal(steps[RT_REDIS_SCRIPT_JOIN], 1);
    assert_int_equal(steps[RT_REDIS_SCRIPT_CHANGE], 1);
    assert_int_equal(steps[RT_REDIS_SCRIPT_LEAVE], 1);
    assert_int_equal(steps[RT_REDIS_SCRIPT_LIST], 1);
    assert_int_equal(steps[RT_REDIS_SCRIPT_INSPECT], 1);
}

/* A server that forgets: how, and what to set. Holders and durable tickets are told the same. */
static void expect_forgetting(const char *verdict, const char *why, const char *remedy)
{
    char text[1024];
    assert_int_equal(examine(), 0);
    snprintf(text, sizeof(text),
             "one holder at a time (I1): %s: %s -> %s\n" COUNTER_LOST ORDER
             "durable tickets: %s: %s -> %s\n"
             "eviction: kept: noeviction, maxmemory 0\n" ALONE,
             verdict, why, remedy, verdict, why, remedy);
    assert_int_equal(
        strncmp(report, text, strlen(text)) == 0 ? 0 : (print_message("%s", report), 1), 0);
}

static void test_what_a_crash_forgets(void **state)
{
    (void)state;
    says.info = "maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";
    expect_forgetting(
        "limited",
        "appendonly no: a crash of the server forgets what it did since the last snapshot",
        "set appendonly yes and appendfsync always, or guard the resource by the fence");
    says.info = NULL;
    says.appendfsync = "everysec";
    expect_forgetting("limited",
                      "appendfsync is not always: a crash of its machine forgets the last second",
                      "set appendfsync always, or guard the resource by the fence");
    says.appendfsync = "no";
    expect_forgetting(
        "limited",
        "appendfsync no: a crash of its machine forgets what the kernel had not written yet, often 30 s",
        "set appendfsync always, or guard the resource by the fence");
    says.appendfsync = "";
    expect_forgetting("limited", "appendfsync is not known: CONFIG GET is refused to this user",
                      "set appendfsync always, or guard the resource by the fence");
    says.appendfsync = NULL;
    says.config_refused = true;
    expect_forgetting("limited", "appendfsync is not known: CONFIG GET is refused to this user",
                      "grant +config|get, or guard the resource by the fence");
    says.config_refused = false;
    says.rewrite = "yes";
    expect_forgetting(
        "limited",
        "no-appendfsync-on-rewrite yes: a crash while the server saves forgets what it did meanwhile",
        "set no-appendfsync-on-rewrite no, or guard the resource by the fence");
}

static void test_eviction(void **state)
{
    (void)state;
    says.info = "maxmemory:0\r\nmaxmemory_policy:allkeys-lfu\r\naof_enabled:1\r\n";
    assert_int_equal(examine(), 0);
    expect_lines(
        "one holder at a time (I1): kept: one server, appendfsync always\n" /* nothing is evicted, yet */
        COUNTER_LOST "durable tickets: limited: allkeys-lfu -> set maxmemory-policy noeviction\n"
        "eviction: limited: allkeys-lfu, maxmemory 0 -> set maxmemory-policy noeviction: our keys have no ttl\n");
    says.info = "maxmemory:1\r\nmaxmemory_policy:allkeys-lfu\r\naof_enabled:1\r\n";
    assert_int_equal(examine(), 0);
    expect_lines(
        "one holder at a time (I1): broken: maxmemory-policy allkeys-lfu: a held lock may be thrown away -> "
        "set maxmemory-policy noeviction\n" COUNTER_LOST
        "durable tickets: broken: allkeys-lfu -> set maxmemory-policy noeviction\n"
        "eviction: broken: allkeys-lfu, maxmemory 1 -> set maxmemory-policy noeviction: our keys have no ttl\n");
    says.info =
        "maxmemory:1\r\nmaxmemory_policy:volatile-lru\r\naof_enabled:1\r\n"; /* our keys have no ttl */
    assert_int_equal(examine(), 0);
    expect_lines(
        "one holder at a time (I1): kept: one server, appendfsync always\n"
        "durable tickets: kept: appendfsync always\neviction: kept: volatile-lru, maxmemory 1\n");
}

#define FOLLOW \
    "one holder at a time (I1): limited: replicas follow asynchronously: one that is promoted may lack the last grants"
#define MAY_LACK \
    "durable tickets: limited: a promoted replica may lack the last ones -> replicas=1 makes it rarer\n"

static void test_replicas(void **state)
{
    (void)state;
    says.info =
        "maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:1\r\n";
    assert_int_equal(examine(), 0);
    expect_lines(
        FOLLOW
        " -> guard the resource by the fence; replicas=1 makes it rarer\n" COUNTER_LOST MAY_LACK
        "server: kept: Redis 7.0.15, primary, 1 replicas\n");
    assert_null(strstr(report, "\nreplicas: "));
    says.url = "redis://redis.example?replicas=1";
    assert_int_equal(examine(), 0);
    expect_lines(FOLLOW "; replicas= makes it rarer -> guard the resource by the fence\n");
    assert_null(strstr(report, "\nreplicas: ")); /* as many as are asked for */
    says.url = "redis://redis.example?replicas=2";
    assert_int_equal(examine(), 0);
    expect_lines(
        "replicas: broken: replicas=2, but 1 are connected -> start them, or ask for fewer: nothing is granted\n");
}

static void test_several_addresses(void **state)
{
    (void)state;
    says.url = "redis://redis.example,other.example";
    assert_int_equal(examine(), 0);
    expect_lines(
        "one holder at a time (I1): limited: the URL names several servers: if two of them are primaries, each "
        "grants for itself -> name one, or let Sentinel say which it is\n" COUNTER_LOST MAY_LACK);
}

static void test_sentinel(void **state)
{
    (void)state;
    says.url =
        "redis://a:1001,b:1002?sentinel=m"; /* several of them are no danger: they agree on one primary */
    assert_int_equal(examine(), 0);
    expect_lines(
        FOLLOW
        " -> guard the resource by the fence; replicas=1 makes it rarer\n" COUNTER_LOST MAY_LACK
        "server: kept: Redis 7.0.15, primary told by Sentinel, 0 replicas\n");
}

/* Versions are compared as numbers, not digits; and need not have all parts. */
static void test_versions(void **state)
{
    static const char *const versions[] = {"6.2.0", "6.10.1", "6.9", "7", "10.0.1"};
    (void)state;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        char line[64];
        says.version = versions[i];
        assert_int_equal(examine(), 0);
        snprintf(line, sizeof(line), "server: kept: Redis %s, primary, 0 replicas\n", versions[i]);
        expect_lines(line);
    }
}

/* ---- Rights ----------------------------------------------------------------------------- */

static const char *rules(const char *commands, const char *keys)
{
    static char text[512];
    snprintf(
        text, sizeof(text),
        "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\ncommands\r\n$%zu\r\n%s\r\n$4\r\nkeys\r\n$%zu\r\n%s\r\n",
        strlen(commands), commands, strlen(keys), keys);
    return text;
}

/* What a restart does with what scripts wrote depends on the user default; we are another. */
static void test_the_default_user(void **state)
{
    static const struct {
        const char *commands, *keys;
        bool kept;
    } cases[] = {
        {"+@all", "~*", true},
        {"-@all +@all", "~rota:*", true},
        {"+@all", "%RW~*", true},
        {"+@all", "~other:* ~rota:*", true},
        {"+@all", "", false},
        {"+@all", "~rota", false},
        {"+@all", "~other:*", false},
        {"+@all -@all", "~*", false},
        {"", "~*", false},
        {"-@all +@write", "~*", true},
        {"+@all -@write", "~*", false},
        {"-@all +@hash +@sortedset +@keyspace", "~*", true},
        {"-@all +@hash +@sortedset +del", "~*", true},
        {"-@all +@fast +@slow", "~*", true},
        {"-@all +@hash +@sortedset", "~*", false},
        {"-@all +@fast", "~*", false},
        {"-@all +@hash +@keyspace", "~*", false},
        {"-@all +hset +hsetnx +hdel +hincrby +zadd +zrem +zpopmin +del", "~*", true},
        {"-@all +hset +hsetnx +hdel +hincrby +zadd +zrem +del", "~*", false},
        {"+@all -hsetnx", "~*", false},
        {"+@all -hset", "~*", false},
        {"+@all -del", "~*", false},
        {"+@all -del +del", "~*", true},
        {"+@all -get -@dangerous", "~*", true},
        {"+@all -hs", "~*", true}, /* no command of ours */
    };
    (void)state;
    says.url = "redis://ada@redis.example";
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        says.acl = rules(cases[i].commands, cases[i].keys);
        assert_int_equal(examine(), 0);
        bool kept = strstr(report, "one holder at a time (I1): kept: ") != NULL;
        if (kept != cases[i].kept)
            fail_msg("'%s' '%s': %s", cases[i].commands, cases[i].keys, report);
    }
}

static void test_the_default_user_may_not(void **state)
{
    (void)state;
    says.url = "redis://ada@redis.example";
    says.acl = rules("-@all", "");
    assert_int_equal(examine(), 0);
    expect_lines(
        "one holder at a time (I1): broken: the user default may not write: on loading its file the server asks "
        "that, and drops what scripts wrote: any restart loses locks -> ACL SETUSER default ~* &* +@all (it may "
        "stay off), and keep that in its ACL file\n" COUNTER_LOST
        "rights: kept: the user ada may do all that is needed\n");
    assert_non_null(strstr(report, "durable tickets: broken: the user default may not write"));
    /* ... whatever else there is to say: replicas and other addresses are the smaller trouble. */
    says.info =
        "maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:1\r\n";
    says.url = "redis://ada@redis.example,other.example";
    assert_int_equal(examine(), 0);
    assert_non_null(
        strstr(report, "one holder at a time (I1): broken: the user default may not write"));
    /* Without a file there is nothing to load. */
    says.info = "maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\n";
    says.url = "redis://ada@redis.example";
    assert_int_equal(examine(), 0);
    assert_non_null(strstr(report, "one holder at a time (I1): limited: appendonly no"));
}

static void test_the_default_user_is_not_to_be_asked(void **state)
{
    static const char *const answers[] = {NO_ACL, "*-1\r\n", "*0\r\n", "*2\r\n:1\r\n:2\r\n",
                                          "+OK\r\n"};
    (void)state;
    says.url = "redis://ada@redis.example";
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        says.acl = answers[i];
        assert_int_equal(examine(), 0);
        expect_lines(
            "one holder at a time (I1): limited: whether a restart keeps what scripts wrote cannot be told: ACL "
            "GETUSER is refused to this user -> grant +acl|getuser, or look at the user default: "
            "docs/engines/redis.md, Traps\n");
    }
    says.url = "redis://default@redis.example"; /* that user itself asks nothing */
    says.acl = "-ERR it was asked\r\n";
    assert_int_equal(examine(), 0);
    expect_lines("one holder at a time (I1): kept: one server, appendfsync always\n");
}

/* A script that lacks a right would end in its middle: so it is not begun. */
static void test_a_right_is_missing(void **state)
{
    (void)state;
    says.lacks = " +zpopmin";
    assert_int_equal(examine(), 0);
    expect_lines(
        "rights: broken: the user lacks +zpopmin -> grant what docs/engines/redis.md lists\n" HEARD);
    assert_int_equal(steps[RT_REDIS_SCRIPT_JOIN], 0);
    assert_int_equal(steps[RT_REDIS_SCRIPT_CHANGE], 0);
    assert_int_equal(steps[RT_REDIS_SCRIPT_LEAVE], 0);
    assert_int_equal(steps[RT_REDIS_SCRIPT_LIST], 0);
    assert_int_equal(steps[RT_REDIS_SCRIPT_INSPECT], 1);
    assert_int_equal(strncmp(clock_text, "kept: ", 6), 0);
}

static void test_keys_are_not_allowed(void **state)
{
    (void)state;
    says.join_error =
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
    assert_int_equal(examine(), 0);
    expect_lines(
        "rights: broken: redis redis.example:6379: the user lacks the right to keys of Rota's: grant it "
        "~rota:* (see the ACL line in docs/engines/redis.md) -> grant what docs/engines/redis.md lists\n");
    assert_null(strstr(report, "memory: "));
    assert_int_equal(steps[RT_REDIS_SCRIPT_CHANGE], 0);
}

static void test_memory_is_used_up(void **state)
{
    (void)state;
    says.join_error = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_int_equal(examine(), 0);
    expect_lines(
        "memory: broken: it is used up: no new ask is granted, those that hold go on -> raise maxmemory, or make "
        "room\n" RIGHTS_KEPT);
    says.join_error = NULL;
    assert_int_equal(examine(), 0);
    assert_null(strstr(report, "\nmemory: "));
}

static void test_nothing_is_heard(void **state)
{
    (void)state;
    says.mute_pushes = true;
    assert_int_equal(examine(), 0);
    expect_lines(
        "pushes: broken: the channel of this client could not be subscribed to -> grant +subscribe +ssubscribe and "
        "&rota:*; who waits learns it only by beats\n");
    assert_in_range(steps[RT_REDIS_SCRIPT_INSPECT], 100,
                    300); /* it looks again and again, but not for ever */
}

/* ---- Clocks ----------------------------------------------------------------------------- */

/* The verdict begins with TEXT and goes on with REST after the seconds. */
static void expect_clock(int64_t ahead_us, const char *text, const char *rest)
{
    says.clock_us = ahead_us;
    assert_int_equal(examine(), 0);
    assert_int_equal(strncmp(clock_text, text, strlen(text)), 0);
    const char *at = strstr(clock_text, " s ");
    assert_non_null(at);
    assert_string_equal(at, rest);
}

#define NTP "run NTP on the servers, slewing: fences after a crash follow their clocks"

static void test_clocks(void **state)
{
    (void)state;
    expect_clock(1000500000, "limited: the server's is 1000.", " s ahead of ours: " NTP);
    expect_clock(-1000500000, "limited: the server's is 1000.", " s behind ours: " NTP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_a_crash_forgets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_eviction, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replicas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sentinel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_default_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_default_user_may_not, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_default_user_is_not_to_be_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_right_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys_are_not_allowed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_used_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clocks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
