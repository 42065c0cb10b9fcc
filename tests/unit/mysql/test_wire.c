/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol with a server that the test plays: cut at every byte, in the wrong order, too long, no protocol at all;
 * the ways to send a password; and how a flight ends when the answer is an error, or there is none. */
#include "played.h"

#include "lib/scarce.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define URL "mysql://rota@h/locks"

static struct played p;
static struct said s;

static void open_plain(void)
{
    assert_true(played_open(&p, URL, PLAYED_PASSWORD));
}

static void say(void)
{
    played_bytes(&p, s.at, s.size);
}

static void open_ready(uint32_t caps)
{
    open_plain();
    played_greet(&p, caps);
    assert_int_equal(p.ups, 1);
}

static void ended(int err, const char *why)
{
    assert_int_equal(p.downs, 1);
    if (p.err != err || strstr(p.why, why) == NULL)
        fail_msg("%d, not %d: %s", p.err, err, p.why);
    played_close(&p);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------------ */

static struct rt_sql_cell args[RT_SQL_ARGS];

static struct rt_sql_step step(enum rt_sql_step_kind kind, uint32_t count)
{
    for (size_t i = 0; i < RT_SQL_ARGS; i++)
        args[i] = (struct rt_sql_cell){.number = (int64_t)i};
    args[0] = (struct rt_sql_cell){.text = "it's", .size = 4};
    args[1] = (struct rt_sql_cell){.number = -1};
    args[13] = args[14] = (struct rt_sql_cell){.null = true};
    return (struct rt_sql_step){.kind = kind, .count = count, .args = args};
}

static void send_one(enum rt_sql_step_kind kind, uint32_t count)
{
    struct rt_sql_step one = step(kind, count);
    assert_int_equal(played_send(&p, &one, 1), 0);
}

static void send_slow(void)
{
    struct rt_sql_step all[] = {step(RT_SQL_LOCK, 1), step(RT_SQL_JOIN, 17), step(RT_SQL_ANSWER, 3),
                                step(RT_SQL_BELL_RING, 1)};
    assert_int_equal(played_send(&p, all, 4), 0);
}

static void answer(void)
{
    assert_true(said_answer(&s, &p));
    say();
}

/* ---- Greeting -------------------------------------------------------------------------------------------------------- */

static void byte_by_byte(void **state)
{
    (void)state;
    for (int no_eof = 0; no_eof < 2; no_eof++) {
        open_plain();
        said_begin(&s, 0);
        said_greeting(&s, PLAYED_CAPS | (no_eof ? PLAYED_NO_EOF : 0), "mysql_native_password");
        do
            for (size_t i = 0; i < s.size; i++)
                played_bytes(&p, s.at + i, 1);
        while (p.ups == 0 && said_answer(&s, &p));
        assert_int_equal(p.ups, 1);
        send_one(RT_SQL_VERIFY, 3);
        while (p.lands == 0 && said_answer(&s, &p))
            for (size_t i = 0; i < s.size; i++)
                played_bytes(&p, s.at + i, 1);
        assert_int_equal(p.end, RT_SQL_LANDED);
        assert_string_equal(p.row, "|1|-|2");
        send_slow();
        assert_true(said_answer(&s, &p));
        for (size_t i = 0; i < s.size; i++)
            played_bytes(&p, s.at + i, 1);
        assert_int_equal(p.lands, 1);
        assert_string_equal(p.row, "|42|42|42");
        assert_int_equal(p.downs, 0);
        played_close(&p);
    }
}

static void cut_at_every_byte(void **state)
{
    size_t most = 1;
    (void)state;
    for (size_t at = 0; at < most; at++) {
        size_t before = 0;
        open_plain();
        while (p.ups == 0 && said_answer(&s, &p)) {
            size_t n = before + s.size > at ? at - before : s.size;
            played_bytes(&p, s.at, n);
            before += n;
            if (before == at)
                break;
        }
        if (p.ups == 0)
            most = at + 2;
        played_hang_up(&p);
        ended(ROTA_UNREACHABLE, "closed the connection");
    }
    assert_true(most > 100);
}

static void drips(void **state)
{
    (void)state;
    open_plain();
    played_pass(&p, 4999);
    played_bytes(&p, "x", 1);
    assert_int_equal(p.downs, 0);
    played_pass(&p, 2);
    ended(ROTA_UNREACHABLE, "h:3306");
}

static void no_server_of_ours(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
    } others[] = {{"HTTP/1.1 400 Bad Request\r\n\r\n", 28},
                  {"SSH-2.0-OpenSSH_9.2\r\n", 21},
                  {"\xff\xff\xff\0too long", 12},
                  {"\0\0\0\0", 4},
                  {"\1\0\0\0\x9", 5},
                  {"\x5\0\0\1\xa"
                   "5.5",
                   9},
                  {"-ERR unknown command\r\n", 22}};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        open_plain();
        played_bytes(&p, others[i].bytes, others[i].size);
        if (p.downs == 0)
            played_hang_up(&p); /* what looks like the beginning of a long packet */
        played_close(&p);
        assert_int_equal(p.ups, 0);
        assert_true(p.err == ROTA_PROTOCOL || p.err == ROTA_UNREACHABLE);
    }
}

static void refused_at_the_door(void **state)
{
    (void)state;
    open_plain();
    played_bytes(&p, "\x17\0\0\0\xff\x10\4Too many connections", 27);
    ended(ROTA_UNREACHABLE, "h:3306: Too many connections");
    open_plain();
    said_begin(&s, 0);
    said_greeting(&s, PLAYED_CAPS & ~(1u << 16), "mysql_native_password");
    say();
    ended(ROTA_UNSUPPORTED, "is too old");
    open_plain();
    said_begin(&s, 1); /* out of order */
    said_greeting(&s, PLAYED_CAPS, "mysql_native_password");
    say();
    ended(ROTA_PROTOCOL, "is that one?");
    assert_true(played_open(&p, "mysqls://rota@h/locks", PLAYED_PASSWORD));
    said_begin(&s, 0);
    said_greeting(&s, PLAYED_CAPS & ~(1u << 11), "mysql_native_password");
    say();
    assert_null(memmem(p.got, p.size, "rota", 4));
    ended(ROTA_PROTOCOL, "does not speak TLS");
}

/* ---- Passwords --------------------------------------------------------------------------------------------------------- */

static void digest(const EVP_MD *kind, const void *a, size_t n, const void *b, size_t m,
                   uint8_t *out)
{
    uint8_t both[128];
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    assert_int_equal(EVP_Digest(both, n + m, out, NULL, kind, NULL), 1);
}

/* As the server checks it. */
static void proves(const uint8_t *said, bool sha2)
{
    const EVP_MD *kind = sha2 ? EVP_sha256() : EVP_sha1();
    size_t size = sha2 ? 32 : 20;
    uint8_t once[32], twice[32], mask[32], again[32];
    digest(kind, PLAYED_PASSWORD, strlen(PLAYED_PASSWORD), "", 0, once);
    digest(kind, once, size, "", 0, twice);
    digest(kind, sha2 ? twice : (const void *)PLAYED_SALT, sha2 ? size : 20,
           sha2 ? (const void *)PLAYED_SALT : twice, sha2 ? 20 : size, mask);
    for (size_t i = 0; i < size; i++)
        mask[i] ^= said[i];
    digest(kind, mask, size, "", 0, again);
    assert_memory_equal(again, twice, size);
}

static void native_password(void **state)
{
    (void)state;
    open_plain();
    said_begin(&s, 0);
    said_greeting(&s, PLAYED_CAPS, "mysql_native_password");
    say();
    assert_string_equal(p.got + 4 + 32, "rota");
    assert_int_equal(p.got[4 + 32 + 5], 20);
    proves((const uint8_t *)p.got + 4 + 32 + 6, false);
    assert_string_equal(p.got + 4 + 32 + 6 + 20, "locks");
    said_begin(&s, 2);
    said_error(&s, 1045, "Access denied\nfor you");
    say();
    ended(ROTA_AUTH, "Access denied for you");
    assert_true(played_open(&p, URL, "")); /* nothing is said where there is nothing */
    said_begin(&s, 0);
    said_greeting(&s, PLAYED_CAPS, "mysql_native_password");
    say();
    assert_int_equal(p.got[4 + 32 + 5], 0);
    said_begin(&s, 2);
    said_packet(&s, "\1\4", 2);
    say();
    ended(ROTA_PROTOCOL, "");
}

static void switch_to(const char *plugin)
{
    char body[100];
    body[0] = (char)0xfe;
    size_t n = strlen(plugin) + 1;
    memcpy(body + 1, plugin, n);
    memcpy(body + 1 + n, PLAYED_SALT, 21);
    said_begin(&s, 0);
    said_greeting(&s, PLAYED_CAPS, "auth_gssapi_client"); /* the server's usual one */
    say();
    said_begin(&s, 2);
    said_packet(&s, body, 1 + n + 21);
    say();
}

static void other_plugins(void **state)
{
    static const struct {
        const char *plugin, *why;
    } known[] = {
        {"client_ed25519", "Rota does not speak it: ALTER USER"},
        {"unix_socket", "give Rota an account with a password"},
        {"auth_socket", "give Rota an account with a password"},
        {"mysql_clear_password", "Rota speaks mysql_native_password and caching_sha2_password"}};
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        open_plain();
        switch_to(known[i].plugin);
        assert_int_equal(p.size, 0); /* nothing more was said */
        ended(ROTA_UNSUPPORTED, known[i].why);
    }
    open_plain();
    said_begin(&s, 0);
    said_greeting(&s, PLAYED_CAPS, "mysql_native_password");
    say();
    said_begin(&s, 2);
    said_packet(&s, "\xfe", 1);
    say();
    ended(ROTA_UNSUPPORTED, "mysql_old_password");
}

static void begin_sha2(const char *url)
{
    assert_true(played_open(&p, url, PLAYED_PASSWORD));
    switch_to("caching_sha2_password");
    assert_int_equal(p.size, 4 + 32);
    proves((const uint8_t *)p.got + 4, true);
    said_begin(&s, 4);
}

static void sha2_password(void **state)
{
    (void)state;
    begin_sha2(URL); /* it has it in its cache */
    said_packet(&s, "\1\3", 2);
    said_ok(&s, 0, 0, false);
    say();
    answer();
    assert_int_equal(p.ups, 1);
    played_close(&p);
    begin_sha2("mysql+unix:/run/s?database=locks&user=rota"); /* nobody else hears it */
    said_packet(&s, "\1\4", 2);
    say();
    assert_int_equal(p.size, 4 + sizeof(PLAYED_PASSWORD));
    assert_memory_equal(p.got + 4, PLAYED_PASSWORD, sizeof(PLAYED_PASSWORD));
    played_close(&p);
}

static void opens(EVP_PKEY *key, const uint8_t *cipher, size_t size)
{
    uint8_t plain[512];
    size_t n = sizeof(plain);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    assert_true(EVP_PKEY_decrypt_init(ctx) > 0 &&
                EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) > 0 &&
                EVP_PKEY_decrypt(ctx, plain, &n, cipher, size) > 0);
    EVP_PKEY_CTX_free(ctx);
    assert_int_equal(n, sizeof(PLAYED_PASSWORD));
    for (size_t i = 0; i < n; i++)
        plain[i] ^= (uint8_t)PLAYED_SALT[i % 20];
    assert_memory_equal(plain, PLAYED_PASSWORD, n);
}

static void sha2_by_public_key(void **state)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem, body[2000] = {1};
    (void)state;
    assert_true(key != NULL && bio != NULL && PEM_write_bio_PUBKEY(bio, key) == 1);
    long size = BIO_get_mem_data(bio, &pem);
    memcpy(body + 1, pem, (size_t)size);
    begin_sha2(URL);
    said_packet(&s, "\1\4", 2);
    say();
    assert_memory_equal(p.got, "\1\0\0\5\2", 5);
    said_begin(&s, 6);
    said_packet(&s, body, 1 + (size_t)size);
    say();
    assert_int_equal(p.size, 4 + 256);
    opens(key, (const uint8_t *)p.got + 4, 256);
    said_begin(&s, 8);
    said_ok(&s, 0, 0, false);
    say();
    answer();
    assert_int_equal(p.ups, 1);
    played_close(&p);
    begin_sha2(URL); /* no key at all */
    said_packet(&s, "\1\4", 2);
    say();
    said_begin(&s, 6);
    said_packet(&s, "\1-----BEGIN PUBLIC KEY-----\n", 28);
    say();
    ended(ROTA_PROTOCOL, "its public key is none");
    BIO_free(bio);
    EVP_PKEY_free(key);
}

/* ---- Answers ------------------------------------------------------------------------------------------------------------- */

static void wrong_answers(void **state)
{
    (void)state;
    for (int how = 0; how < 9; how++) {
        open_ready(PLAYED_CAPS);
        send_one(RT_SQL_LAYOUT, 0);
        said_begin(&s, how == 0 ? 2 : 1);
        if (how == 0)
            said_ok(&s, 0, 0, false); /* out of order */
        else if (how == 1)
            said_ok(&s, 0, 0, true); /* more, but nothing more was asked */
        else if (how == 2)
            said_packet(&s, "\xfb/etc/passwd", 12); /* a file of ours */
        else if (how == 3)
            said_packet(&s, "\x20", 1); /* more columns than we have room for */
        else if (how == 4)
            said_packet(&s, "", 0);
        else
            said_columns(&s, how == 8 ? 0 : 1, how == 5 ? 5 : 8, false);
        if (how == 6)
            said_row(&s, 2, "1");
        if (how == 7)
            said_row(&s, 1, "x");
        say();
        assert_int_equal(p.lands, 1);
        assert_int_equal(p.end, RT_SQL_CUT);
        ended(ROTA_PROTOCOL, "answered something else than it was asked");
    }
}

static void unasked(void **state)
{
    (void)state;
    open_ready(PLAYED_CAPS);
    said_begin(&s, 0);
    said_error(&s, 4031, "The client was disconnected by the server because of inactivity.");
    say();
    ended(ROTA_UNREACHABLE, "inactivity");
    open_ready(PLAYED_CAPS);
    said_begin(&s, 1);
    said_ok(&s, 0, 0, false);
    say();
    ended(ROTA_PROTOCOL, "answered something else");
    open_ready(PLAYED_CAPS);
    send_one(RT_SQL_LAYOUT, 0);
    assert_true(said_answer(&s, &p));
    said_ok(&s, 0, 0, false); /* behind a good answer */
    say();
    assert_int_equal(p.lands, 1);
    assert_int_equal(p.end, RT_SQL_LANDED);
    ended(ROTA_PROTOCOL, "answered something else");
}

/* An error at the Nth statement of the slow flight, then the answer to ROLLBACK. */
static void fail_at(size_t part, unsigned code)
{
    const struct rt_mysql_link *l = rt_mysql_of(p.link);
    open_ready(PLAYED_CAPS);
    send_slow();
    assert_true(said_answer(&s, &p));
    said_begin(&s, 1);
    l = rt_mysql_of(p.link);
    for (size_t i = 0; i < part; i++) {
        bool rows = l->parts[i].step != RT_MYSQL_NOBODY &&
                    l->steps[l->parts[i].step].kind == RT_SQL_ANSWER;
        if (rows) {
            said_columns(&s, 1, 8, false);
            said_row(&s, 1, "7");
            said_end(&s, false, true);
        } else {
            said_ok(&s, 1, 0, true);
        }
    }
    said_error(&s, code, "no");
    say();
}

/* The parts: PREPARE of four statements and the recount, BEGIN, LOCK, JOIN, ANSWER, the recount, COMMIT, the bell. */
enum { AT_PREPARE, AT_BEGIN = 5, AT_LOCK, AT_JOIN, AT_ANSWER, AT_RECOUNT, AT_COMMIT, AT_BELL };

static void undone(size_t part, unsigned code, enum rt_sql_end end, size_t failed)
{
    fail_at(part, code);
    assert_int_equal(p.lands, 0);
    assert_memory_equal(p.got, "\x9\0\0\0\3ROLLBACK", 13);
    answer();
    assert_int_equal(p.lands, 1);
    assert_int_equal(p.end, end);
    assert_int_equal(p.failed, failed);
    assert_int_equal(p.downs, 0);
    send_one(RT_SQL_LAYOUT, 0); /* and it goes on */
    answer();
    assert_int_equal(p.end, RT_SQL_LANDED);
    played_close(&p);
}

static void failures(void **state)
{
    (void)state;
    undone(AT_PREPARE, 1146, RT_SQL_ABSENT, 0);
    undone(AT_LOCK, 1205, RT_SQL_AGAIN, 0);
    undone(AT_JOIN, 1213, RT_SQL_AGAIN, 1);
    undone(AT_JOIN, 1114, RT_SQL_FULL, 1);
    undone(AT_JOIN, 1317, RT_SQL_AGAIN, 1);
    undone(AT_ANSWER, 1064, RT_SQL_REFUSED, 2);
    undone(AT_RECOUNT, 1290, RT_SQL_REPLICA, 0);
    undone(AT_COMMIT, 1213, RT_SQL_AGAIN, 0);
}

static void what_a_commit_that_failed_means(void **state)
{
    (void)state;
    fail_at(AT_COMMIT, 1317); /* it may have been done */
    assert_int_equal(p.end, RT_SQL_CUT);
    ended(ROTA_UNREACHABLE, "no");
    fail_at(AT_COMMIT, 1180);
    assert_int_equal(p.end, RT_SQL_CUT);
    ended(ROTA_UNREACHABLE, "no");
    fail_at(AT_JOIN, 1927); /* before it: certain, but the connection ends */
    assert_int_equal(p.end, RT_SQL_AGAIN);
    ended(ROTA_UNREACHABLE, "no");
    fail_at(AT_BELL, 1317); /* after it: done */
    assert_int_equal(p.end, RT_SQL_LANDED);
    assert_int_equal(p.downs, 0);
    played_close(&p);
    fail_at(AT_BELL, 1927);
    assert_int_equal(p.end, RT_SQL_LANDED);
    ended(ROTA_UNREACHABLE, "no");
    fail_at(AT_JOIN, 1205); /* the connection's end undoes it, too */
    played_hang_up(&p);
    assert_int_equal(p.end, RT_SQL_AGAIN);
    ended(ROTA_UNREACHABLE, "closed");
}

/* Three TAKEs; ERROR is the second's answer, COMMIT that of the COMMIT (0: OK); INSIDE: whether the transaction lasts. */
static void three_takes(unsigned error, bool inside, unsigned commit)
{
    struct rt_sql_step all[] = {step(RT_SQL_TAKE, 7), step(RT_SQL_TAKE, 7), step(RT_SQL_TAKE, 7)};
    open_ready(PLAYED_CAPS);
    assert_int_equal(played_send(&p, all, 3), 0);
    answer(); /* to PREPARE */
    for (int i = 0; i < 6; i++) {
        said_begin(&s, 1);
        if (i == 2 && error != 0)
            said_error(&s, error, "no");
        else if (i == 5 && commit != 0)
            said_error(&s, commit, "no");
        else
            said_ok(&s, 1, 100 + (uint64_t)i, false);
        if (i > 2 && !inside && i < 5)
            s.at[s.size - 4] = 2;
        assert_int_equal(p.rows + p.lands, 0); /* nothing is told before the end is known */
        say();
    }
}

static void each_by_itself(void **state)
{
    static const struct {
        unsigned error;
        bool inside;
        int rows;
    } cases[] = {
        {0, true, 3}, {1205, true, 2}, {1205, false, 1}, {1213, false, 1}, {1146, true, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        three_takes(cases[i].error, cases[i].inside, 0);
        assert_int_equal(p.end, RT_SQL_LANDED);
        assert_int_equal(p.rows, cases[i].rows);
        assert_string_equal(p.row, "|103");
        played_close(&p);
    }
    three_takes(0, true, 1213);
    assert_int_equal(p.end, RT_SQL_CUT);
    assert_int_equal(p.rows, 0);
    ended(ROTA_UNREACHABLE, "no");
}

/* Cut anywhere in the answers: the flight ends as CUT, once, and then the link. */
static void flights_cut_at_every_byte(void **state)
{
    size_t most = 1;
    (void)state;
    for (size_t at = 0; at < most; at++) {
        open_ready(PLAYED_CAPS);
        send_slow();
        assert_true(said_answer(&s, &p));
        most = s.size;
        played_bytes(&p, s.at, at);
        assert_int_equal(p.lands, 0);
        played_hang_up(&p);
        assert_int_equal(p.lands, 1);
        assert_int_equal(p.end, RT_SQL_CUT);
        ended(ROTA_UNREACHABLE, "closed");
    }
}

/* Inside an up-call everything is legal. */
static void dropped_in_up_calls(void **state)
{
    (void)state;
    for (int when = 0; when < 3; when++) {
        open_ready(PLAYED_CAPS);
        if (when == 0)
            send_one(RT_SQL_TAKE, 7);
        else
            send_slow();
        if (when == 0)
            answer();
        p.drops = true;
        if (when == 2)
            played_hang_up(&p);
        else
            answer();
        for (int i = 0; i < 4; i++)
            played_turn(&p);
        assert_int_equal(p.closed, 1);
        assert_int_equal(p.downs, 0);
        played_close(&p);
    }
}

/* ---- The heap ------------------------------------------------------------------------------------------------------------ */

static void heap_runs_out(void **state)
{
    bool enough = false;
    (void)state;
    for (long n = 1; !enough; n++) {
        scarce_begin();
        scarce.fail_at = n;
        if (played_open(&p, URL, PLAYED_PASSWORD)) {
            played_greet(&p, PLAYED_CAPS);
            if (p.ups > 0) {
                struct rt_sql_step all[] = {step(RT_SQL_LOCK, 1), step(RT_SQL_JOIN, 17),
                                            step(RT_SQL_ANSWER, 3)};
                int rv = played_send(&p, all, 3);
                if (rv == 0 && p.downs == 0)
                    answer();
                assert_true(rv == ROTA_NOMEM || p.lands == 1);
            }
            enough = scarce.asked < n;
            played_close(&p);
        }
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
    assert_int_equal(p.end, RT_SQL_LANDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(drips),
        cmocka_unit_test(no_server_of_ours),
        cmocka_unit_test(refused_at_the_door),
        cmocka_unit_test(native_password),
        cmocka_unit_test(other_plugins),
        cmocka_unit_test(sha2_password),
        cmocka_unit_test(sha2_by_public_key),
        cmocka_unit_test(wrong_answers),
        cmocka_unit_test(unasked),
        cmocka_unit_test(failures),
        cmocka_unit_test(what_a_commit_that_failed_means),
        cmocka_unit_test(each_by_itself),
        cmocka_unit_test(flights_cut_at_every_byte),
        cmocka_unit_test(dropped_in_up_calls),
        cmocka_unit_test(heap_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
