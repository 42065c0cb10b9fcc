/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of ops against a played server: the user, the server's words, the ops. */
#include "ops_played.h"
#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define URL "redis://redis.example"

extern const struct rt_engine rt_engine_redis;

struct played p;
size_t work_stream, push_stream;

struct ops_user user;

/* ---- The user --------------------------------------------------------------------------- */

static void told(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void told(const char *format, ...)
{
    va_list args;
    assert_true(user.count < MOST);
    va_start(args, format);
    vsnprintf(user.text[user.count++], sizeof(user.text[0]), format, args);
    va_end(args);
}

static const char *err_name(int err)
{
#define ROTA_NAME(name, number, text) [-(number)] = #name,
    static const char *const names[] = {[0] = "ok", ROTA_ERRORS(ROTA_NAME)};
    return names[-err];
}

static void on_done(struct rt_up *up, struct rt_op *op)
{
    (void)up;
    told("%s %s", (const char *)op->user, err_name(op->err));
}

static void on_event(struct rt_up *up, const struct rt_event *e)
{
    (void)up;
    if (e->kind == RT_GRANTED)
        told("granted %s %llu", e->name, (unsigned long long)e->number);
    else if (e->kind == RT_WANTED)
        told("wanted %s %llu", e->name, (unsigned long long)e->number);
    else if (e->kind == RT_TICKET_LOST)
        told("lost %s %llu", e->name, (unsigned long long)e->number);
    else if (e->kind == RT_SESSION_LOST)
        told("session lost");
    else if (e->kind == RT_CHANGED)
        told("changed %s %zu %llu %s", e->name, e->count, (unsigned long long)e->front.fence,
             e->front.value);
    else
        p.ups += e->up;
}

static void on_held(struct rt_up *up,
                    void (*each)(void *arg, const char *name, uint64_t number, bool granted),
                    void *arg)
{
    (void)up;
    for (size_t i = 0; i < user.held_count; i++)
        each(arg, user.held[i].name, user.held[i].number, user.held[i].granted);
}

void believe(const char *name, uint64_t number, bool granted)
{
    assert_true(user.held_count < MOST);
    user.held[user.held_count].name = name;
    user.held[user.held_count].number = number;
    user.held[user.held_count++].granted = granted;
}

/* The next thing that was told must be TEXT; "" nothing. */
void expect_told(const char *text)
{
    const char *next = user.read < user.count ? user.text[user.read] : "";
    assert_string_equal(next, text);
    user.read += next[0] != '\0';
}

/* ---- The server ------------------------------------------------------------------------- */

/* Whether COMMAND calls SCRIPT, by its hash or with its text. */
bool calls(const char *command, enum rt_redis_script script)
{
    const struct rt_redis_text *text = rt_redis_script_text(script, p.conn->room_count > 1);
    if (strncmp(command, "EVALSHA ", 8) == 0)
        return strncmp(command + 8, text->sha1, 40) == 0;
    return strncmp(command, "EVAL ", 5) == 0 && strncmp(command + 5, text->text, text->length) == 0;
}

/* The next command must be a call of SCRIPT. Returns its tag; *ARGS has the arguments after it. */
uint64_t expect_call(enum rt_redis_script script, const char **args)
{
    return expect_call_in(0, script, args);
}

uint64_t expect_call_in(uint32_t room, enum rt_redis_script script, const char **args)
{
    const char *command = played_next(&p, WORK);
    char key[32];
    snprintf(key, sizeof(key), " 1 rota:{%u} ", room);
    if (!calls(command, script))
        fail_msg("%s was expected, not: %.120s", rt_redis_script_text(script, false)->name,
                 command);
    uint64_t tag = played_tag(command);
    const char *at = strstr(command, key);
    assert_non_null(at);
    at = strchr(at + strlen(key), ' ');
    if (args != NULL)
        *args = at != NULL ? at + 1 : "";
    return tag;
}

void expect_no_call(void)
{
    assert_string_equal(played_next(&p, WORK), "");
}

/* Answers {TAG, STATUS, ...}; the rest is given in words: "i5" an integer, "sabc" a string. */
void answer(uint64_t tag, int status, const char *words)
{
    char text[1024], copy[512], *save = NULL;
    size_t n = 2, used = 0;
    snprintf(copy, sizeof(copy), "%s", words);
    for (const char *w = words; *w != '\0'; w++)
        n += *w != ' ' && (w == words || w[-1] == ' ');
    char number[24];
    int digits = snprintf(number, sizeof(number), "%llu", (unsigned long long)tag);
    used += (size_t)snprintf(text, sizeof(text), "*%zu\r\n$%d\r\n%s\r\n:%d\r\n", n, digits, number,
                             status);
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        if (w[0] == 'i')
            used += (size_t)snprintf(text + used, sizeof(text) - used, ":%s\r\n", w + 1);
        else
            used += (size_t)snprintf(text + used, sizeof(text) - used, "$%zu\r\n%s\r\n",
                                     strlen(w + 1), w + 1);
    }
    played_say(&p, WORK, text);
}

void push_text(const char *channel, const char *text)
{
    char message[512];
    const char *kind = p.conn->room_count > 1 ? "$8\r\nsmessage" : "$7\r\nmessage";
    snprintf(message, sizeof(message), "*3\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", kind,
             strlen(channel), channel, strlen(text), text);
    played_say(&p, PUSH, message);
}

void push(uint64_t count, const char *what)
{
    push_in(0, count, what);
}

void push_in(uint32_t room, uint64_t count, const char *what)
{
    char channel[64], text[128];
    snprintf(channel, sizeof(channel), "rota:{%u}:p:%s", room, p.conn->cid);
    snprintf(text, sizeof(text), "%s %llu %s", p.conn->sid, (unsigned long long)count, what);
    push_text(channel, text);
}

void confirm(const char *channel)
{
    char text[256];
    const char *kind = p.conn->room_count > 1 ? "$10\r\nssubscribe" : "$9\r\nsubscribe";
    snprintf(text, sizeof(text), "*3\r\n%s\r\n$%zu\r\n%s\r\n:1\r\n", kind, strlen(channel),
             channel);
    played_say(&p, PUSH, text);
}

/* The push connection is established and our own channel is confirmed. */
void subscribe(void)
{
    char channel[64];
    snprintf(channel, sizeof(channel), "rota:{0}:p:%s", p.conn->cid);
    assert_true(p.opened > PUSH);
    played_accept(&p, PUSH);
    const char *verb = p.conn->room_count > 1 ? "SSUBSCRIBE" : "SUBSCRIBE";
    while (strncmp(played_next(&p, PUSH), verb, strlen(verb)) != 0)
        ;
    confirm(channel);
    assert_true(p.conn->rooms[0].subscribed);
}

/* ---- Ops -------------------------------------------------------------------------------- */

char beat_name[] = "beat", join_name[] = "join", leave_name[] = "leave", other_name[] = "op";

struct rt_op *submit(struct rt_op *op)
{
    if (op->deadline == 0)
        op->deadline = rt_loop_now(&p.loop) + 5000 * RT_MS;
    rt_engine_redis.submit(&p.conn->base, op);
    played_turn(&p);
    return op;
}

struct rt_op *beat(struct rt_op *op, bool open)
{
    *op = (struct rt_op){.kind = RT_OP_BEAT, .user = beat_name};
    op->beat.open = open;
    op->beat.session = p.conn->session;
    return submit(op);
}

void open_session(void)
{
    struct rt_op op;
    beat(&op, true);
    answer(expect_call(RT_REDIS_SCRIPT_OPEN, NULL), 0, "i1000000000");
    expect_told("beat ok");
    assert_true(op.beat.session != 0 && op.beat.session <= INT64_MAX);
    assert_int_equal(op.beat.ttl_ms, 10000);
}

void join(struct joining *j, const char *name, uint64_t nonce)
{
    *j = (struct joining){.op = {.kind = RT_OP_JOIN, .user = join_name}};
    j->join = (struct rt_join){.name = name, .session = p.conn->session, .nonce = nonce};
    j->op.join.joins = &j->join;
    j->op.join.n = 1;
    submit(&j->op);
}

void leave(struct rt_op *op, const char *name, uint64_t number)
{
    *op = (struct rt_op){.kind = RT_OP_LEAVE, .user = leave_name};
    op->leave.name = name;
    op->leave.session = p.conn->session;
    op->leave.number = number;
    submit(op);
}

static void say_echo(const char *command)
{
    char text[64];
    unsigned long long tag = played_tag(command);
    snprintf(text, sizeof(text), "$%d\r\n%llu\r\n", snprintf(NULL, 0, "%llu", tag), tag);
    played_say(&p, WORK, text);
}

/* As a cluster of one node, which has all the rooms. */
static void greet_cluster(void)
{
    static const char info[] =
        "redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:master\r\nrun_id:1\r\n";
    char text[256];
    const char *command;
    while (strncmp(command = played_next(&p, WORK), "ECHO ", 5) != 0) {
        snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(info), info);
        played_say(&p, WORK, strcmp(command, "INFO") == 0 ? text : "-ERR no\r\n");
    }
    say_echo(command);
    assert_string_equal(played_next(&p, WORK), "CLUSTER SLOTS");
    played_say(&p, WORK,
               "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$13\r\nredis.example\r\n:6379\r\n$2\r\nid\r\n");
    say_echo(played_next(&p, WORK));
    assert_true(strncmp(played_next(&p, WORK), "SPUBLISH rota:{0}", 17) == 0);
    played_say(&p, WORK, ":0\r\n");
    answer(played_tag(played_next(&p, WORK)), 0, "s1.0 s256");
    assert_true(p.conn->link.checked && p.conn->room_count == 256);
}

static void open_url(const char *url, void (*greet)(void))
{
    memset(&user, 0, sizeof(user));
    work_stream = 0;
    push_stream = 1;
    scarce_begin();
    played_open(&p, url, NULL, 0);
    p.up.done = on_done;
    p.up.held = on_held;
    played_turn(&p);
    played_accept(&p, WORK);
    greet();
    p.up.event = on_event;
}

static void greet_one(void)
{
    played_greet(&p, WORK);
}

int setup(void **state)
{
    (void)state;
    open_url(URL, greet_one);
    return 0;
}

int setup_session(void **state)
{
    (void)setup(state);
    open_session();
    subscribe();
    expect_no_call();
    return 0;
}

int setup_replicated(void **state)
{
    (void)state;
    open_url(URL "/?replicas=1", greet_one);
    played_accept(&p, 1);
    played_greet_first(&p, 1, "");
    push_stream = 2;
    open_session();
    subscribe();
    expect_no_call();
    return 0;
}

int setup_cluster(void **state)
{
    (void)state;
    open_url(URL, greet_cluster);
    open_session();
    subscribe();
    expect_no_call();
    return 0;
}

int teardown(void **state)
{
    (void)state;
    expect_told("");
    played_close(&p);
    scarce_end();
    return 0;
}
