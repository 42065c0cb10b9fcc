/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of a model Redis: Lua 5.1, redis.call and its friends, and Redis' conversions.
 *
 * One interpreter serves all machines, so that a script is compiled once for thousands of
 * schedules; what a machine knows by hash is the machine's own list. */
#include "sim/redis/machine.h"

#include <assert.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ARGS_MAX 1024

static lua_State *lua;
static struct rs_machine *running;

void rs_sha1(struct rs_text text, char out[RS_SHA_SIZE])
{
    unsigned char hash[SHA_DIGEST_LENGTH];
    SHA1((const unsigned char *)text.at, text.n, hash);
    for (size_t i = 0; i < sizeof(hash); i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* ---- From replies to Lua ------------------------------------------------ */

static const char *line_end(const char *at)
{
    while (at[0] != '\r')
        at++; /* replies are our own: whole and well-formed */
    return at;
}

static void push_tagged(const char *field, const char *at, size_t n)
{
    lua_newtable(lua);
    lua_pushlstring(lua, at, n);
    lua_setfield(lua, -2, field);
}

/* Pushes the value at AT; returns what follows it. */
static const char *push_reply(const char *at)
{
    const char *end = line_end(at), *text = at + 1;
    long long number = strtoll(text, NULL, 10);
    luaL_checkstack(lua, 8, "replies nest too deep");
    switch (at[0]) {
    case ':':
        lua_pushnumber(lua, (lua_Number)number);
        return end + 2;
    case '+':
        push_tagged("ok", text, (size_t)(end - text));
        return end + 2;
    case '-':
        push_tagged("err", text, (size_t)(end - text));
        return end + 2;
    case '$':
        if (number < 0) {
            lua_pushboolean(lua, 0);
            return end + 2;
        }
        lua_pushlstring(lua, end + 2, (size_t)number);
        return end + 2 + number + 2;
    default:
        assert(at[0] == '*');
        lua_newtable(lua);
        at = end + 2;
        for (int i = 1; i <= (int)number; i++) {
            at = push_reply(at);
            lua_rawseti(lua, -2, i);
        }
        return at;
    }
}

/* ---- From Lua to replies ------------------------------------------------ */

/* A field of the table on top: its text if it is one, else NULL. Leaves it on the stack. */
static const char *field_text(const char *field)
{
    lua_pushstring(lua, field);
    lua_rawget(lua, -2);
    return lua_isstring(lua, -1) ? lua_tostring(lua, -1) : NULL;
}

static void reply_value(struct rs_buffer *reply);

static void reply_table(struct rs_buffer *reply)
{
    const char *text = field_text("err");
    if (text != NULL)
        rs_reply_error(reply, text[0] == '-' ? text + 1 : text);
    lua_pop(lua, 1);
    if (text != NULL)
        return;
    text = field_text("ok");
    if (text != NULL)
        rs_reply_status(reply, text);
    lua_pop(lua, 1);
    if (text != NULL)
        return;
    struct rs_buffer inner = {0};
    size_t n = 0;
    for (;; n++) {
        lua_rawgeti(lua, -1, (int)n + 1);
        bool over = lua_isnil(lua, -1);
        if (!over)
            reply_value(&inner);
        lua_pop(lua, 1);
        if (over)
            break;
    }
    rs_reply_array(reply, n);
    if (n > 0)
        rs_buffer_add(reply, inner.at, inner.n);
    rs_buffer_free(&inner);
}

/* The value on top, which stays. */
static void reply_value(struct rs_buffer *reply)
{
    struct rs_text text;
    luaL_checkstack(lua, 8, "replies nest too deep");
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text.at = lua_tolstring(lua, -1, &text.n);
        rs_reply_bulk(reply, text);
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            rs_reply_integer(reply, 1);
        else
            rs_reply_null(reply);
        break;
    case LUA_TNUMBER:
        rs_reply_integer(reply, (int64_t)lua_tonumber(lua, -1));
        break;
    case LUA_TTABLE:
        reply_table(reply);
        break;
    default:
        rs_reply_null(reply);
    }
}

/* ---- What scripts may call ---------------------------------------------- */

static int raise_text(const char *text)
{
    push_tagged("err", text, strlen(text));
    return lua_error(lua);
}

/* The arguments on the stack, numbers written as Redis does. */
static size_t take_args(struct rs_text *args, char numbers[][32])
{
    int n = lua_gettop(lua);
    if (n == 0)
        raise_text("ERR Please specify at least one argument for this redis.call()");
    for (int i = 0; i < n && i < ARGS_MAX; i++) {
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            snprintf(numbers[i], 32, "%.17g", lua_tonumber(lua, i + 1));
            args[i] = (struct rs_text){numbers[i], strlen(numbers[i])};
        } else if (lua_type(lua, i + 1) == LUA_TSTRING) {
            args[i].at = lua_tolstring(lua, i + 1, &args[i].n);
        } else {
            raise_text("ERR Lua redis lib command arguments must be strings or integers");
        }
    }
    return (size_t)n;
}

static int call(bool raises)
{
    static struct rs_text args[ARGS_MAX];
    static char numbers[ARGS_MAX][32];
    size_t n = take_args(args, numbers);
    struct rs_buffer reply = {0};
    running->calls++;
    if (!rs_command_run(running, n, args, &reply))
        rs_reply_error(&reply, "ERR Unknown Redis command called from script");
    bool failed = reply.at[0] == '-';
    push_reply(reply.at);
    rs_buffer_free(&reply);
    return failed && raises ? lua_error(lua) : 1;
}

static int lua_redis_call(lua_State *state)
{
    (void)state;
    return call(true);
}

static int lua_redis_pcall(lua_State *state)
{
    (void)state;
    return call(false);
}

static int lua_redis_error(lua_State *state)
{
    size_t n;
    const char *text = luaL_checklstring(state, 1, &n);
    push_tagged("err", text, n);
    return 1;
}

static int lua_redis_status(lua_State *state)
{
    size_t n;
    const char *text = luaL_checklstring(state, 1, &n);
    push_tagged("ok", text, n);
    return 1;
}

static int lua_redis_sha1(lua_State *state)
{
    struct rs_text text;
    char sha[RS_SHA_SIZE];
    text.at = luaL_checklstring(state, 1, &text.n);
    rs_sha1(text, sha);
    lua_pushstring(state, sha);
    return 1;
}

/* Scripts have no globals of their own, as in Redis. */
static int lua_no_global(lua_State *state)
{
    return luaL_error(state, "Script attempted to access nonexistent global variable '%s'",
                      luaL_checkstring(state, 2));
}

static void set_up(void)
{
    static const luaL_Reg redis[] = {
        {"call", lua_redis_call},         {"pcall", lua_redis_pcall},
        {"error_reply", lua_redis_error}, {"status_reply", lua_redis_status},
        {"sha1hex", lua_redis_sha1},      {NULL, NULL},
    };
    static const luaL_Reg libraries[] = {
        {"", luaopen_base},
        {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string},
        {LUA_MATHLIBNAME, luaopen_math},
        {NULL, NULL},
    };
    lua = luaL_newstate();
    assert(lua != NULL);
    for (const luaL_Reg *l = libraries; l->func != NULL; l++) {
        lua_pushcfunction(lua, l->func);
        lua_pushstring(lua, l->name);
        lua_call(lua, 1, 0);
    }
    luaL_register(lua, "redis", redis);
    lua_newtable(lua);
    lua_pushcfunction(lua, lua_no_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, lua_no_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);
    lua_settop(lua, 0);
}

void rs_script_forget_all(void)
{
    if (lua != NULL)
        lua_close(lua);
    lua = NULL;
}

/* ---- Scripts ------------------------------------------------------------ */

static bool knows(const struct rs_machine *m, const char *sha)
{
    for (size_t i = 0; i < m->script_count; i++)
        if (strcasecmp(m->scripts[i], sha) == 0)
            return true;
    return false;
}

/* Pushes the function of SHA, if anybody has compiled it before; else nil. */
static bool push_compiled(const char *sha)
{
    if (lua == NULL)
        set_up();
    lua_getfield(lua, LUA_REGISTRYINDEX, sha);
    return !lua_isnil(lua, -1);
}

/* There are few scripts, and each comes in full after every restart: their hashes are remembered. */
static void sha_of(struct rs_text text, char sha[RS_SHA_SIZE])
{
    lua_pushlstring(lua, text.at, text.n);
    lua_rawget(lua, LUA_REGISTRYINDEX);
    if (lua_type(lua, -1) == LUA_TSTRING) {
        memcpy(sha, lua_tostring(lua, -1), RS_SHA_SIZE);
    } else {
        rs_sha1(text, sha);
        lua_pushlstring(lua, text.at, text.n);
        lua_pushstring(lua, sha);
        lua_rawset(lua, LUA_REGISTRYINDEX);
    }
    lua_pop(lua, 1);
}

static bool learn(struct rs_machine *m, struct rs_text text, char sha[RS_SHA_SIZE],
                  struct rs_buffer *reply)
{
    if (lua == NULL)
        set_up();
    sha_of(text, sha);
    if (!push_compiled(sha)) {
        lua_pop(lua, 1);
        if (luaL_loadbuffer(lua, text.at, text.n, "@user_script") != 0) {
            char why[512];
            snprintf(why, sizeof(why), "ERR Error compiling script (new function): %s",
                     lua_tostring(lua, -1));
            rs_reply_error(reply, why);
            lua_settop(lua, 0);
            return false;
        }
        lua_setfield(lua, LUA_REGISTRYINDEX, sha);
    }
    lua_settop(lua, 0);
    if (!knows(m, sha)) {
        assert(m->script_count < RS_SCRIPTS_MAX);
        memcpy(m->scripts[m->script_count++], sha, RS_SHA_SIZE);
    }
    return true;
}

static void set_list(const char *name, const struct rs_text *items, size_t n)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushlstring(lua, items[i].at, items[i].n);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

static void reply_failure(struct rs_buffer *reply, const char *sha)
{
    char why[768];
    const char *text = lua_istable(lua, -1) ? field_text("err") : NULL;
    if (text != NULL)
        snprintf(why, sizeof(why), "%s script: %s, on @user_script:1.", text, sha);
    else
        snprintf(why, sizeof(why), "ERR %s script: %s, on @user_script:1.",
                 lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "unknown", sha);
    rs_reply_error(reply, why);
}

static void run(struct rs_machine *m, const char *sha, size_t argc, const struct rs_text *argv,
                struct rs_buffer *reply)
{
    char *end;
    size_t keys = (size_t)strtoul(argv[2].at, &end, 10);
    if (keys > argc - 3) {
        rs_reply_error(reply, "ERR Number of keys can't be greater than number of args");
        return;
    }
    bool there = push_compiled(sha);
    assert(there);
    (void)there;
    set_list("KEYS", argv + 3, keys);
    set_list("ARGV", argv + 3 + keys, argc - 3 - keys);
    running = m;
    if (lua_pcall(lua, 0, 1, 0) != 0)
        reply_failure(reply, sha);
    else
        reply_value(reply);
    running = NULL;
    lua_settop(lua, 0);
}

static void do_script(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                      struct rs_buffer *reply)
{
    char sha[RS_SHA_SIZE];
    if (argc >= 2 && rs_word_is(argv[1], "FLUSH")) {
        m->script_count = 0;
        rs_reply_status(reply, "OK");
    } else if (argc == 3 && rs_word_is(argv[1], "LOAD")) {
        if (learn(m, argv[2], sha, reply))
            rs_reply_string(reply, sha);
    } else if (argc >= 3 && rs_word_is(argv[1], "EXISTS")) {
        rs_reply_array(reply, argc - 2);
        for (size_t i = 2; i < argc; i++) {
            snprintf(sha, sizeof(sha), "%.*s", (int)argv[i].n, argv[i].at);
            rs_reply_integer(reply, knows(m, sha));
        }
    } else {
        rs_reply_error(reply, "ERR unknown subcommand");
    }
}

bool rs_script_run(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                   struct rs_buffer *reply)
{
    char sha[RS_SHA_SIZE];
    bool by_text = rs_word_is(argv[0], "EVAL");
    if (rs_word_is(argv[0], "SCRIPT")) {
        do_script(m, argc, argv, reply);
        return true;
    }
    if (!by_text && !rs_word_is(argv[0], "EVALSHA"))
        return false;
    if (argc < 3) {
        rs_reply_error(reply, "ERR wrong number of arguments for 'eval' command");
        return true;
    }
    snprintf(sha, sizeof(sha), "%.*s", (int)argv[1].n, argv[1].at);
    if (by_text && !learn(m, argv[1], sha, reply))
        return true;
    if (!knows(m, sha))
        rs_reply_error(reply, "NOSCRIPT No matching script. Please use EVAL.");
    else
        run(m, sha, argc, argv, reply);
    return true;
}
