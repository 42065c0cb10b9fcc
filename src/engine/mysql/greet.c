/* SPDX-License-Identifier: Apache-2.0 */
/* The server's greeting, TLS, authentication, and the settings of the session.
 *
 *   ◀── its version, its capabilities, a salt
 *   ──▶ (TLS, please; from here on encrypted, and the server known by its certificate)
 *   ──▶ user, database, the salted password
 *   ◀── another way, please ──▶ that            ◀── not in my cache ──▶ the password: in TLS, in a unix socket, or
 *   ◀── OK                                                              encrypted by the server's public key
 *   ──▶ settings ◀── OK: up */
#include "engine/mysql/mysql.h"

#include "base/alloc.h"

#include <string.h>

enum {
    LONG_PASSWORD = 1 << 0, /* MariaDB leaves it out: a server that has it is MySQL */
    LONG_FLAG = 1 << 2,
    WITH_DATABASE = 1 << 3,
    PROTOCOL_41 = 1 << 9,
    TLS = 1 << 11,
    TRANSACTIONS = 1 << 13,
    SALTED = 1 << 15,
    MULTI_STATEMENTS = 1 << 16,
    MULTI_RESULTS = 1 << 17,
    PLUGINS = 1 << 19,
    NO_EOF = 1 << 24,
};
#define NEEDED (PROTOCOL_41 | TRANSACTIONS | SALTED | MULTI_STATEMENTS | MULTI_RESULTS | PLUGINS)
#define UTF8MB4 45

/* One second is the shortest lock timeout that all versions accept: whoever holds a line for longer has stopped, not
 * slowed down. Nothing of ours is idle in the server's sense before a year is over. */
static const char settings[] =
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;"
    "SET NAMES utf8mb4, autocommit=1, completion_type=0, time_zone='+00:00', "
    "sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    "innodb_lock_wait_timeout=1, lock_wait_timeout=1, wait_timeout=31536000, sql_safe_updates=0, "
    "sql_select_limit=18446744073709551615, sql_big_selects=1";
#define SETTINGS 2 /* statements */

/* ---- Who we are ------------------------------------------------------------------------------------------------ */

static void put_head(struct rt_mysql_link *l)
{
    static const uint8_t zeros[23];
    rt_mysql_begin(l);
    rt_mysql_add_int(&l->out, l->caps, 4);
    rt_mysql_add_int(&l->out, RT_MYSQL_PACKET_MAX, 4);
    rt_mysql_add_int(&l->out, UTF8MB4, 1);
    rt_mysql_add(&l->out, zeros, sizeof(zeros));
}

static void send_or_fail(struct rt_mysql_link *l)
{
    if (rt_mysql_send(l) != 0)
        rt_mysql_fail_memory(l);
}

/* False: it failed, and that was told. */
static bool put_scramble(struct rt_mysql_link *l, bool counted)
{
    uint8_t answer[32];
    int n = rt_mysql_scramble(l->plugin, rt_mysql_self(l)->password, l->salt, answer);
    if (n < 0) {
        rt_mysql_fail(l, ROTA_UNSUPPORTED, "%s: OpenSSL does not do what %s needs", l->at,
                      rt_mysql_plugin_name(l->plugin));
        return false;
    }
    if (counted)
        rt_mysql_add_int(&l->out, (uint64_t)n, 1);
    rt_mysql_add(&l->out, answer, (size_t)n);
    return true;
}

static void introduce(struct rt_mysql_link *l)
{
    const struct rt_mysql *self = rt_mysql_self(l);
    const char *plugin = rt_mysql_plugin_name(l->plugin);
    put_head(l);
    rt_mysql_add(&l->out, self->user, strlen(self->user) + 1);
    if (!put_scramble(l, true))
        return;
    rt_mysql_add(&l->out, self->database, strlen(self->database) + 1);
    rt_mysql_add(&l->out, plugin, strlen(plugin) + 1);
    l->state = RT_MYSQL_AUTH;
    send_or_fail(l);
}

void rt_mysql_secured(struct rt_mysql_link *l)
{
    l->secured = true;
    introduce(l);
}

/* ---- Who it is --------------------------------------------------------------------------------------------------- */

static bool take_salt(struct rt_mysql_link *l, const uint8_t *first, const uint8_t *rest)
{
    if (first == NULL || rest == NULL)
        return false;
    memcpy(l->salt, first, 8);
    memcpy(l->salt + 8, rest, RT_MYSQL_SALT - 8);
    return true;
}

static void secure(struct rt_mysql_link *l)
{
    put_head(l);
    if (rt_mysql_send(l) != 0 || rt_stream_secure(&l->stream, rt_mysql_self(l)->tls, NULL) != 0) {
        rt_mysql_fail_memory(l);
        return;
    }
    l->state = RT_MYSQL_SECURING;
}

static void hello(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    bool tls = rt_mysql_self(l)->tls != NULL;
    uint64_t protocol = rt_mysql_int(&c, 1);
    const char *version = rt_mysql_string(&c);
    (void)rt_mysql_int(&c, 4); /* the connection's id: FACTS asks for it */
    const uint8_t *first = rt_mysql_take(&c, 8);
    (void)rt_mysql_int(&c, 1);
    uint32_t caps = (uint32_t)rt_mysql_int(&c, 2);
    (void)rt_mysql_int(&c, 3); /* character set, status */
    caps |= (uint32_t)rt_mysql_int(&c, 2) << 16;
    (void)rt_mysql_take(&c, 1 + 10);
    if (!take_salt(l, first, rt_mysql_take(&c, 13)) || protocol != 10) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    l->mariadb = strstr(version, "MariaDB") != NULL;
    l->plugin = caps & PLUGINS && c.at < c.end ? rt_mysql_plugin(rt_mysql_string(&c))
                                               : RT_MYSQL_NATIVE;
    if (l->plugin ==
        RT_MYSQL_UNKNOWN) /* the account's may differ from the server's default: it will say so */
        l->plugin = RT_MYSQL_NATIVE;
    l->no_eof = caps & NO_EOF;
    l->may_tls = caps & TLS;
    l->caps = NEEDED | LONG_PASSWORD | LONG_FLAG | WITH_DATABASE | (caps & NO_EOF) |
              (tls ? TLS : 0);
    if ((caps & NEEDED) != NEEDED)
        rt_mysql_fail(l, ROTA_UNSUPPORTED, "%s is too old: MariaDB 10.6, MySQL 8.0 or later",
                      l->at);
    else if (tls && !(caps & TLS))
        rt_mysql_fail(l, ROTA_PROTOCOL,
                      "%s does not speak TLS: turn it on there, or write mysql://", l->at);
    else if (tls)
        secure(l);
    else
        introduce(l);
}

/* ---- Another way, please ----------------------------------------------------------------------------------------- */

static void switch_plugin(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    const char *name = c.at < c.end ? rt_mysql_string(&c) : "mysql_old_password";
    enum rt_mysql_plugin plugin = rt_mysql_plugin(name);
    const uint8_t *salt = rt_mysql_take(&c, RT_MYSQL_SALT);
    if (plugin == RT_MYSQL_UNKNOWN) {
        rt_mysql_fail(l, ROTA_UNSUPPORTED, "%s: the account %.40s uses %.40s: %s", l->at,
                      rt_mysql_self(l)->user, name, rt_mysql_plugin_advice(name));
        return;
    }
    if (salt == NULL) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    memcpy(l->salt, salt, RT_MYSQL_SALT);
    l->plugin = plugin;
    rt_mysql_begin(l);
    if (put_scramble(l, false))
        send_or_fail(l);
}

/* The server asks for the whole password. */
static void whole_password(struct rt_mysql_link *l)
{
    const struct rt_mysql *self = rt_mysql_self(l);
    rt_mysql_begin(l);
    if (l->secured || self->socket != NULL) {
        rt_mysql_add(&l->out, self->password, strlen(self->password) + 1);
    } else {
        rt_mysql_add_int(&l->out, 2, 1); /* your public key, please */
        l->asked_key = true;
    }
    send_or_fail(l);
}

static void sealed_password(struct rt_mysql_link *l, struct rt_mysql_cursor pem)
{
    rt_mysql_begin(l);
    if (rt_mysql_encrypt(pem, rt_mysql_self(l)->password, l->salt, &l->out))
        send_or_fail(l);
    else
        rt_mysql_fail(l, ROTA_PROTOCOL,
                      "%s: its public key is none, or the password is too long for it", l->at);
}

static void more(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    bool short_one = c.end - c.at == 1;
    if (l->plugin != RT_MYSQL_SHA2 || c.at == c.end || rt_mysql_self(l)->password[0] == '\0')
        rt_mysql_fail_nonsense(l);
    else if (l->asked_key && !short_one)
        sealed_password(l, c);
    else if (short_one && c.at[0] == 4 && !l->asked_key)
        whole_password(l);
    else if (!short_one || c.at[0] != 3) /* 3: it was in its cache, OK follows */
        rt_mysql_fail_nonsense(l);
}

/* ---- Settings ------------------------------------------------------------------------------------------------------ */

static void set(struct rt_mysql_link *l)
{
    rt_mysql_command(l, RT_MYSQL_QUERY);
    rt_mysql_add_text(&l->out, settings);
    l->state = RT_MYSQL_SETTING;
    l->part = 0;
    send_or_fail(l);
}

static void setting_done(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    struct rt_mysql_ok ok;
    if (!rt_mysql_ok(c, &ok) || ((ok.status & RT_MYSQL_MORE) != 0) != (++l->part < SETTINGS)) {
        rt_mysql_fail_nonsense(l);
        return;
    }
    if (l->part < SETTINGS)
        return;
    rt_stream_expect(&l->stream, 0);
    l->state = RT_MYSQL_READY;
    l->base.user->up(&l->base);
}

static void refused(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    struct rt_mysql_error e;
    const char *hint = "";
    rt_mysql_error(c, &e);
    if (e.code == 1049)
        hint = ": create it, or name another";
    else if (l->may_tls && !l->secured && rt_mysql_refusal(e.code) == ROTA_AUTH)
        hint = ": if the account wants TLS, write mysqls://";
    rt_mysql_fail(l, rt_mysql_refusal(e.code), "%s: %s%s", l->at, e.text, hint);
}

void rt_mysql_greet(struct rt_mysql_link *l, struct rt_mysql_cursor c)
{
    uint8_t first = c.at < c.end ? c.at[0] : 0xfb;
    struct rt_mysql_cursor body = c;
    (void)rt_mysql_int(&body, 1);
    if (first == 0xff)
        refused(l, c);
    else if (l->state == RT_MYSQL_HELLO)
        hello(l, c);
    else if (first == 0 && l->state == RT_MYSQL_AUTH)
        set(l);
    else if (first == 0 && l->state == RT_MYSQL_SETTING)
        setting_done(l, c);
    else if (first == 0xfe && l->state == RT_MYSQL_AUTH)
        switch_plugin(l, body);
    else if (first == 1 && l->state == RT_MYSQL_AUTH)
        more(l, body);
    else
        rt_mysql_fail_nonsense(l);
}
