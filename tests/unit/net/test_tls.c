/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: whom we trust, whom we do not, and what we say then; against a server in another process. */
#include "lib/certs.h"
#include "lib/proc.h"
#include "lib/scarce.h"
#include "peer.h"
#include "tls_server.h"

#include <openssl/ssl.h>
#include <rota.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct rt_certs certs;

struct party {
    const char *ca, *cert, *key; /* ours */
    const char *name;            /* what the certificate must be for */
    const char *alpn;            /* the protocol we ask for */
    struct tls_server server;
};

static struct party usual(void)
{
    return (struct party){
        .ca = certs.ca,
        .name = "lock.example",
        .server = {.cert = certs.server_cert, .key = certs.server_key, .version = TLS1_3_VERSION},
    };
}

struct talk {
    struct end e;
    struct rt_tls *tls;
    pid_t server;
};

static void begin(struct talk *t, const struct party *p)
{
    char errmsg[256] = "";
    uint16_t port;
    memset(t, 0, sizeof(*t));
    assert_int_equal(rt_tls_new(&t->tls, p->ca, p->cert, p->key, errmsg, sizeof(errmsg)), 0);
    t->server = tls_serve(&p->server, &port);
    struct rt_stream_target to = {
        .host = "127.0.0.1", .port = port, .tls = t->tls, .server_name = p->name, .alpn = p->alpn};
    peer_open_to(&t->e, &to, PEER_PATIENCE_MS);
}

static void finish(struct talk *t)
{
    int status = -1;
    peer_close(&t->e);
    rt_tls_free(t->tls);
    assert_int_equal(waitpid(t->server, &status, 0), t->server);
    assert_int_equal(status, 0);
}

static void say(struct talk *t, const char *words)
{
    size_t had = t->e.got_size, size = strlen(words);
    assert_int_equal(rt_stream_write(&t->e.s, words, size), 0);
    peer_until_got(&t->e, had + size);
    assert_memory_equal(t->e.got + had, words, size);
}

static void good(const struct party *p)
{
    struct talk t;
    begin(&t, p);
    assert_int_equal(rt_stream_write(&t.e.s, "early", 5), 0); /* waits for who it is */
    peer_until_got(&t.e, 5);
    say(&t, "hello");
    say(&t, "again");
    finish(&t);
}

/* Refused, before a byte of ours was sent. */
static void bad(const struct party *p, int err, const char *why)
{
    struct talk t;
    begin(&t, p);
    assert_int_equal(rt_stream_write(&t.e.s, "secret", 6), 0);
    peer_until(&t.e.downs, 1);
    if (t.e.err != err || strstr(t.e.why, why) == NULL)
        fail_msg("%d: %s", t.e.err, t.e.why);
    assert_int_equal(t.e.ups, 0);
    finish(&t);
}

static void verified_by_name_and_by_address(void **state)
{
    (void)state;
    struct party p = usual();
    good(&p);
    p.server.version = TLS1_2_VERSION;
    good(&p);
    p.name = NULL; /* 127.0.0.1 */
    good(&p);
}

static void other_names_are_refused(void **state)
{
    (void)state;
    struct party p = usual();
    p.name = "elsewhere.example";
    bad(&p, ROTA_AUTH, "is for another name than elsewhere.example");
    p.server.version = TLS1_2_VERSION;
    bad(&p, ROTA_AUTH, "is for another name than elsewhere.example");
    p.name = "127.0.0.2";
    bad(&p, ROTA_AUTH, "is for another name than 127.0.0.2");
}

static void other_signers_are_refused(void **state)
{
    (void)state;
    struct party p = usual();
    p.ca = certs.stranger_ca;
    bad(&p, ROTA_AUTH, "not signed by a CA we trust: give ?ca=");
    p.ca = NULL; /* the system's */
    bad(&p, ROTA_AUTH, "not signed by a CA we trust: give ?ca=");
    p.ca = certs.folder; /* a folder without the hashed names */
    bad(&p, ROTA_AUTH, "not signed by a CA we trust: give ?ca=");
}

static void old_certificates_are_refused(void **state)
{
    (void)state;
    struct party p = usual();
    p.server.cert = certs.expired_cert;
    p.server.key = certs.expired_key;
    bad(&p, ROTA_AUTH, "has expired");
}

static void old_versions_are_refused(void **state)
{
    (void)state;
    struct party p = usual();
    p.server.version = TLS1_1_VERSION;
    bad(&p, ROTA_PROTOCOL, "TLS with 127.0.0.1");
}

static void certificates_of_ours(void **state)
{
    (void)state;
    struct party p = usual();
    p.server.client_ca = certs.ca;
    p.cert = certs.client_cert;
    p.key = certs.client_key;
    good(&p);
    p.server.version = TLS1_2_VERSION;
    good(&p);
    p.cert = p.key = NULL;
    bad(&p, ROTA_AUTH, "certificate (?cert=, ?key=)");
    p.server.version = TLS1_3_VERSION; /* there we are up before the server looks */
    struct talk t;
    begin(&t, &p);
    peer_until(&t.e.downs, 1);
    assert_int_equal(t.e.err, ROTA_AUTH);
    assert_non_null(strstr(t.e.why, "wants a certificate of us: give ?cert= and ?key="));
    finish(&t);
    p.server.client_ca = certs.stranger_ca;
    p.cert = certs.client_cert;
    p.key = certs.client_key;
    begin(&t, &p);
    peer_until(&t.e.downs, 1);
    assert_int_equal(t.e.err, ROTA_AUTH);
    assert_non_null(strstr(t.e.why, "does not accept our certificate"));
    finish(&t);
}

static void protocols_are_agreed_on(void **state)
{
    (void)state;
    struct party p = usual();
    for (int i = 0; i < 2; i++) {
        p.server.version = i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
        p.server.alpn = "h2";
        p.alpn = "h2";
        good(&p);
        p.server.alpn = NULL; /* it does not care */
        good(&p);
        p.server.alpn = "h3";
        bad(&p, ROTA_PROTOCOL, "protocol");
    }
}

static void new_keys_on_the_way(void **state)
{
    (void)state;
    struct party p = usual();
    struct talk t;
    p.server.new_keys = true;
    begin(&t, &p);
    for (int i = 0; i < 20; i++)
        say(&t, "with new keys each time");
    finish(&t);
}

#define LARGE ((size_t)4 << 20)

static void large_transfers(void **state)
{
    (void)state;
    struct party p = usual();
    struct talk t;
    char *sent = malloc(LARGE);
    assert_non_null(sent);
    for (size_t i = 0; i < LARGE; i++)
        sent[i] = (char)(i * 7 + i / 4099);
    begin(&t, &p);
    for (size_t at = 0; at < LARGE; at += LARGE / 64) { /* the server answers before it reads on */
        assert_int_equal(rt_stream_write(&t.e.s, sent + at, LARGE / 64), 0);
        peer_turns(1);
    }
    peer_until_got(&t.e, LARGE);
    assert_memory_equal(t.e.got, sent, LARGE);
    free(sent);
    finish(&t);
}

/* ---- Streams that begin in plain ------------------------------------------------- */

static struct rt_tls *later;
static const char *later_name;
static int secured; /* what rt_stream_secure said */

static void secure_when_told(struct end *e, char what)
{
    if (what == 'd' && secured < 0 && e->got_size == 1)
        secured = rt_stream_secure(&e->s, later, later_name);
}

/* Plain, to a server of P that hears "please" first. */
static void begin_plain(struct talk *t, const struct party *p)
{
    char errmsg[256] = "";
    uint16_t port;
    memset(t, 0, sizeof(*t));
    assert_int_equal(rt_tls_new(&t->tls, p->ca, p->cert, p->key, errmsg, sizeof(errmsg)), 0);
    t->server = tls_serve(&p->server, &port);
    later = t->tls;
    later_name = p->name;
    secured = -1;
    struct rt_stream_target to = {.host = "127.0.0.1", .port = port};
    peer_open_to(&t->e, &to, PEER_PATIENCE_MS);
    assert_int_equal(rt_stream_secure(&t->e.s, t->tls, NULL), ROTA_INVALID); /* not up yet */
    peer_until(&t->e.ups, 1);
    assert_int_equal(rt_stream_write(&t->e.s, "please", 6), 0);
}

static struct party usual_later(const char *answers)
{
    struct party p = usual();
    p.server.begins = "please";
    p.server.answers = answers;
    return p;
}

/* As PostgreSQL: it is asked, and says yes. */
static void tls_on_a_stream_that_is_up(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct party p = usual_later("S");
        struct talk t;
        p.name = i == 0 ? "lock.example" : NULL; /* 127.0.0.1 */
        p.server.version = i == 0 ? TLS1_3_VERSION : TLS1_2_VERSION;
        begin_plain(&t, &p);
        t.e.on = secure_when_told;
        peer_until_got(&t.e, 1);
        assert_int_equal(secured, 0);
        assert_int_equal(t.e.s.state, RT_STREAM_GREETING);
        assert_int_equal(rt_stream_write(&t.e.s, "secret", 6), 0); /* waits for who it is */
        assert_int_equal(rt_stream_secure(&t.e.s, t.tls, NULL), ROTA_INVALID);
        peer_until(&t.e.ups, 2);
        peer_until_got(&t.e, 7);
        assert_memory_equal(t.e.got, "Ssecret", 7);
        say(&t, "hello");
        finish(&t);
    }
}

/* As MySQL: the request and the greeting leave together, the request in plain. */
static void tls_right_behind_what_was_written(void **state)
{
    (void)state;
    struct party p = usual_later(NULL);
    struct talk t;
    begin_plain(&t, &p);
    assert_int_equal(rt_stream_secure(&t.e.s, t.tls, p.name), 0);
    peer_until(&t.e.ups, 2);
    say(&t, "hello");
    assert_int_equal(t.e.downs, 0);
    finish(&t);
}

/* Nothing of ours that belongs inside TLS is sent to somebody else. */
static void later_too_others_are_refused(void **state)
{
    (void)state;
    struct party p = usual_later("S");
    struct talk t;
    p.name = "elsewhere.example";
    begin_plain(&t, &p);
    t.e.on = secure_when_told;
    peer_until_got(&t.e, 1);
    assert_int_equal(rt_stream_write(&t.e.s, "secret", 6), 0);
    peer_until(&t.e.downs, 1);
    assert_int_equal(t.e.err, ROTA_AUTH);
    assert_non_null(strstr(t.e.why, "is for another name than elsewhere.example"));
    assert_int_equal(t.e.ups, 1);
    assert_int_equal(rt_stream_secure(&t.e.s, t.tls, NULL), ROTA_INVALID);
    finish(&t);
}

/* ---- Peers that do not speak it ------------------------------------------------- */

static const char resets[] = ""; /* it does not read what it is sent, and closes: TCP resets */

/* What a stream says of a peer that answers its first bytes with WORDS and closes; NULL: never. */
static void odd_peer(const char *words, uint32_t connect_ms, int err, const char *why)
{
    char errmsg[256], got[512];
    uint16_t port;
    int listener = peer_listen(&port, 8);
    struct rt_tls *tls = NULL;
    struct end e = {0};
    assert_int_equal(rt_tls_new(&tls, certs.ca, "", "", errmsg, sizeof(errmsg)), 0);
    struct rt_stream_target to = {.host = "127.0.0.1", .port = port, .tls = tls};
    peer_open_to(&e, &to, connect_ms);
    while (e.s.state < RT_STREAM_GREETING)
        assert_true(peer_turn());
    int peer = peer_accept(listener);
    if (words != NULL) {
        peer_turns(1);
        assert_true(recv(peer, got, sizeof(got), words == resets ? MSG_PEEK : 0) > 0);
        assert_int_equal(write(peer, words, strlen(words)), strlen(words));
        close(peer);
    }
    peer_until(&e.downs, 1);
    if (e.err != err || strstr(e.why, why) == NULL)
        fail_msg("%d: %s", e.err, e.why);
    peer_close(&e);
    rt_tls_free(tls);
    if (words == NULL)
        close(peer);
    close(listener);
}

static void peers_that_speak_no_tls(void **state)
{
    (void)state;
    odd_peer("-ERR unknown command\r\n", PEER_PATIENCE_MS, ROTA_PROTOCOL, "does not speak TLS");
    odd_peer("HTTP/1.1 400 Bad Request\r\n\r\n", PEER_PATIENCE_MS, ROTA_PROTOCOL,
             "does not speak TLS");
    odd_peer("", PEER_PATIENCE_MS, ROTA_UNREACHABLE, "in the middle of the TLS handshake");
    odd_peer(resets, PEER_PATIENCE_MS, ROTA_UNREACHABLE, "in the middle of the TLS handshake");
    odd_peer(NULL, 30, ROTA_UNREACHABLE, "did not finish the TLS handshake");
}

/* ---- Settings -------------------------------------------------------------------- */

static void refuse(const char *ca, const char *cert, const char *key, const char *why)
{
    char errmsg[256] = "";
    struct rt_tls *tls = NULL;
    assert_int_equal(rt_tls_new(&tls, ca, cert, key, errmsg, sizeof(errmsg)), ROTA_INVALID);
    assert_null(tls);
    if (strstr(errmsg, why) == NULL)
        fail_msg("%s", errmsg);
    assert_null(strchr(errmsg, '\n'));
}

static void settings_that_cannot_work(void **state)
{
    (void)state;
    refuse("/no/such/file", NULL, NULL, "?ca=/no/such/file cannot be read: No such file");
    refuse(certs.nothing, NULL, NULL, "no certificates in PEM form");
    refuse(NULL, "/no/such/file", NULL, "?cert=/no/such/file cannot be read");
    refuse(NULL, certs.nothing, NULL, "no certificate in PEM form");
    refuse(NULL, certs.client_cert, "/no/such/file", "?key=/no/such/file cannot be read");
    refuse(NULL, certs.client_cert, certs.nothing, "no private key in PEM form");
    refuse(NULL, certs.client_cert, NULL,
           "no private key in PEM form: add it there, or give ?key=");
    refuse(NULL, certs.client_cert, certs.server_key, "does not belong to the certificate");
    refuse(NULL, certs.client_cert, certs.locked_key, "protected by a passphrase");
    refuse(NULL, NULL, certs.client_key, "?key= without ?cert=");
    rt_tls_free(NULL);
}

/* ---- Memory runs out --------------------------------------------------------------- */

static bool life(void)
{
    struct party p = usual();
    struct end e = {0};
    struct rt_tls *tls = NULL;
    char errmsg[256];
    uint16_t port;
    bool whole = false;
    pid_t server = tls_serve(&p.server, &port);
    assert_int_equal(rt_loop_init(&peer_loop), 0);
    int rv = rt_tls_new(&tls, p.ca, NULL, NULL, errmsg, sizeof(errmsg));
    struct rt_stream_target to = {
        .host = "127.0.0.1", .port = port, .tls = tls, .server_name = p.name};
    if (rv == 0)
        rv = rt_stream_open(&e.s, &peer_loop, &to, &peer_user, PEER_PATIENCE_MS);
    if (rv == 0) {
        while (e.ups + e.downs == 0)
            assert_true(peer_turn());
        if (e.ups > 0)
            rv = rt_stream_write(&e.s, "word", 4);
        while (rv == 0 && e.got_size == 0 && e.downs == 0)
            assert_true(peer_turn());
        whole = e.got_size == 4;
        peer_close(&e);
    }
    assert_true(rv == 0 || rv == ROTA_NOMEM);
    assert_true(e.err == 0 || e.err == ROTA_NOMEM);
    rt_tls_free(tls);
    rt_loop_fini(&peer_loop);
    kill(server, SIGTERM); /* it may still wait for us */
    assert_int_equal(waitpid(server, NULL, 0), server);
    return whole;
}

static void memory_runs_out(void **state)
{
    (void)state;
    bool whole = false;
    scarce_begin();
    for (scarce.fail_at = 1; !whole; scarce.fail_at++) {
        scarce.asked = scarce.live = 0;
        whole = life();
        assert_int_equal(scarce.live, 0);
        assert_true(scarce.fail_at < 20);
    }
    assert_true(scarce.fail_at > 6);
    scarce_end();
}

static int make(void **state)
{
    (void)state;
    rt_certs_make(&certs, rt_tmpdir());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, peer_setup, peer_teardown)
        TEST(verified_by_name_and_by_address),
        TEST(other_names_are_refused),
        TEST(other_signers_are_refused),
        TEST(old_certificates_are_refused),
        TEST(old_versions_are_refused),
        TEST(certificates_of_ours),
        TEST(protocols_are_agreed_on),
        TEST(new_keys_on_the_way),
        TEST(large_transfers),
        TEST(tls_on_a_stream_that_is_up),
        TEST(tls_right_behind_what_was_written),
        TEST(later_too_others_are_refused),
        TEST(peers_that_speak_no_tls),
        cmocka_unit_test(settings_that_cannot_work),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, make, NULL);
}
