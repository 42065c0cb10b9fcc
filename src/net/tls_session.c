/* SPDX-License-Identifier: Apache-2.0 */
/* TLS sessions: OpenSSL between the bytes of a stream and its user's. It never sees the socket, so
 * whatever it wants to read or write (handshakes, new keys) is one recv and one send of the stream. */
#include "base/alloc.h"
#include "net/dial.h"
#include "net/tls.h"
#include "net/wire.h"

#include <arpa/inet.h>
#include <rota.h>
#include <string.h>

struct rt_tls_session {
    SSL *ssl;
    const char *in; /* received, not yet taken by OpenSSL */
    size_t in_size;
    struct rt_bytes *out;
    bool nomem; /* OUT could not grow */
    bool over;  /* failed, or ended by the peer */
};

/* ---- OpenSSL's view of the stream ------------------------------------------- */

static int bio_read(BIO *bio, char *to, size_t room, size_t *got)
{
    struct rt_tls_session *session = BIO_get_data(bio);
    size_t n = session->in_size < room ? session->in_size : room;

    BIO_clear_retry_flags(bio);
    *got = n;
    if (n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(to, session->in, n);
    session->in += n;
    session->in_size -= n;
    return 1;
}

static int bio_write(BIO *bio, const char *bytes, size_t n, size_t *taken)
{
    struct rt_tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *taken = 0;
    if (rt_bytes_add(session->out, bytes, n) != 0) {
        session->nomem = true;
        return 0;
    }
    *taken = n;
    return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *p)
{
    (void)bio;
    (void)number;
    (void)p;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *rt_tls_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "rota stream");

    if (method == NULL)
        return NULL;
    if (BIO_meth_set_read_ex(method, bio_read) == 1 &&
        BIO_meth_set_write_ex(method, bio_write) == 1 && BIO_meth_set_ctrl(method, bio_ctrl) == 1 &&
        BIO_meth_set_create(method, bio_create) == 1)
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- What went wrong -------------------------------------------------------- */

static void fail_verify(struct rt_stream *s, long verdict)
{
    const struct rt_dial *d = s->dial;

    switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        rt_stream_fail(s, ROTA_AUTH, "the certificate of %s is for another name than %s", d->peer,
                       d->server_name);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        rt_stream_fail(s, ROTA_AUTH, "the certificate of %s has expired", d->peer);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        rt_stream_fail(s, ROTA_AUTH, "the certificate of %s is not valid yet: compare the clocks",
                       d->peer);
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
        rt_stream_fail(s, ROTA_AUTH,
                       "the certificate of %s is not signed by a CA we trust: give ?ca=", d->peer);
        break;
    default:
        rt_stream_fail(s, verdict == X509_V_ERR_OUT_OF_MEM ? ROTA_NOMEM : ROTA_AUTH,
                       "the certificate of %s is not accepted: %s", d->peer,
                       X509_verify_cert_error_string(verdict));
        break;
    }
}

/* Alerts that speak of our certificate (RFC 8446 6.2). */
static bool is_about_us(int alert)
{
    return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_ACCESS_DENIED) ||
           alert == SSL_AD_CERTIFICATE_REQUIRED;
}

static bool is_not_tls(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
           reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
           reason == SSL_R_BAD_RECORD_TYPE || reason == SSL_R_RECORD_LENGTH_MISMATCH;
}

/* Notes what OpenSSL has against it. */
static void fail(struct rt_stream *s)
{
    const char *peer = s->dial->peer;
    struct rt_tls_errors errors = rt_tls_errors();
    int reason = ERR_GET_REASON(errors.first);
    int alert = reason >= SSL_AD_REASON_OFFSET ? reason - SSL_AD_REASON_OFFSET : -1;
    long verdict = SSL_get_verify_result(s->tls->ssl);
    const char *words = ERR_reason_error_string(errors.first);

    if (s->tls->nomem || errors.nomem)
        rt_stream_fail(s, ROTA_NOMEM, "out of memory for TLS with %s", peer);
    else if (verdict != X509_V_OK)
        fail_verify(s, verdict);
    else if (is_about_us(alert) && SSL_get_certificate(s->tls->ssl) == NULL)
        rt_stream_fail(s, ROTA_AUTH, "%s wants a certificate of us: give ?cert= and ?key=", peer);
    else if (is_about_us(alert))
        rt_stream_fail(s, ROTA_AUTH, "%s does not accept our certificate (?cert=): %s", peer,
                       words);
    else if (alert == SSL_AD_HANDSHAKE_FAILURE) /* TLS 1.2 has no better word for a missing one */
        rt_stream_fail(s, ROTA_AUTH,
                       "%s refuses TLS with us: it may want a certificate (?cert=, ?key=)", peer);
    else if (s->state == RT_STREAM_GREETING && is_not_tls(reason))
        rt_stream_fail(s, ROTA_PROTOCOL, "%s does not speak TLS", peer);
    else
        rt_stream_fail(s, ROTA_PROTOCOL, "TLS with %s failed: %s", peer,
                       words != NULL ? words : "no reason was given");
}

const char *rt_tls_cut(const struct rt_stream *s)
{
    (void)s;
    return " in the middle of the TLS handshake: does it speak TLS?";
}

/* ---- Sessions --------------------------------------------------------------- */

/* Whose certificate it must be. */
static bool set_name(SSL *ssl, char *name) /* not const: OpenSSL 3.0 casts it away */
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    unsigned char address[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, name) == 1;
}

static struct rt_tls_session *new_session(struct rt_stream *s)
{
    struct rt_tls *tls = s->dial->tls;
    struct rt_tls_session *session = rt_alloc(sizeof(*session));
    if (session == NULL)
        return NULL;
    session->out = &s->out;
    session->ssl = SSL_new(tls->ctx);
    BIO *bio = session->ssl != NULL ? BIO_new(tls->bio) : NULL;
    if (bio == NULL) {
        rt_tls_end(session);
        return NULL;
    }
    BIO_set_data(bio, session);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_connect_state(session->ssl);
    return session;
}

void rt_tls_end(struct rt_tls_session *session)
{
    if (session == NULL)
        return;
    SSL_free(session->ssl);
    rt_free(session);
}

/* Whether it goes on: OpenSSL returned RV, which was no success. */
static bool goes_on(struct rt_stream *s, int rv)
{
    int err = SSL_get_error(s->tls->ssl, rv);

    if (s->tls->nomem || (err != SSL_ERROR_WANT_READ && err != SSL_ERROR_ZERO_RETURN))
        fail(s);
    else if (err == SSL_ERROR_ZERO_RETURN)
        rt_stream_fail(s, ROTA_UNREACHABLE, "%s closed the connection", s->dial->peer);
    else
        return true;
    s->tls->over = true;
    return false;
}

static void shake_hands(struct rt_stream *s)
{
    ERR_clear_error();
    int rv = SSL_do_handshake(s->tls->ssl);
    if (rv != 1)
        (void)goes_on(s, rv);
    else if (SSL_get_verify_result(s->tls->ssl) != X509_V_OK ||
             SSL_get0_peer_certificate(s->tls->ssl) == NULL)
        rt_stream_fail(s, ROTA_AUTH, "%s has shown no certificate", s->dial->peer);
    else
        rt_stream_go_up(s);
}

/* Go's servers speak HTTP/2 over TLS only to clients that ask for it this way. */
static bool set_alpn(SSL *ssl, const char *name)
{
    unsigned char list[256];
    size_t n = name != NULL ? strlen(name) : 0;
    if (n == 0)
        return true;
    if (n > 255)
        return false;
    list[0] = (unsigned char)n;
    memcpy(list + 1, name, n);
    return SSL_set_alpn_protos(ssl, list, (unsigned)n + 1) == 0; /* this one says 0 for good */
}

void rt_tls_greet(struct rt_stream *s)
{
    ERR_clear_error();
    s->tls = new_session(s);
    if (s->tls == NULL || !set_alpn(s->tls->ssl, s->dial->alpn))
        rt_stream_fail(s, ROTA_NOMEM, "out of memory for TLS with %s", s->dial->peer);
    else if (!set_name(s->tls->ssl, s->dial->server_name))
        rt_stream_fail(s, ROTA_AUTH, "no certificate can be for the name %s", s->dial->server_name);
    else
        shake_hands(s);
    ERR_clear_error();
}

/* As much as there is, up to a half of the scratch; 0: no more. */
static size_t decrypt(struct rt_stream *s, char *to)
{
    size_t have = 0, got = 0;
    int rv;

    ERR_clear_error();
    while (have < RT_SCRATCH) {
        rv = SSL_read_ex(s->tls->ssl, to + have, RT_SCRATCH - have, &got);
        if (rv != 1) {
            (void)goes_on(s, rv);
            break;
        }
        have += got;
    }
    return have;
}

void rt_tls_feed(struct rt_stream *s, const char *bytes, size_t n)
{
    char *plain = s->loop->scratch + RT_SCRATCH;

    s->tls->in = bytes;
    s->tls->in_size = n;
    if (s->state == RT_STREAM_GREETING)
        shake_hands(s);
    /* What came before a failure is told too, even when it was sending that failed. */
    for (size_t got = 1; got > 0 && s->state == RT_STREAM_UP && !s->tls->over;) {
        got = decrypt(s, plain);
        if (got > 0)
            rt_stream_deliver(s, plain, got);
    }
    if (rt_stream_lives(s) && rt_bytes_waiting(&s->out) + rt_bytes_waiting(&s->plain) > 0)
        rt_loop_defer(s->loop, &s->flush);
}

void rt_tls_encrypt(struct rt_stream *s)
{
    size_t waiting = rt_bytes_waiting(&s->plain), taken = 0;

    ERR_clear_error();
    int rv = SSL_write_ex(s->tls->ssl, s->plain.at + s->plain.begin, waiting, &taken);
    if (rv == 1)
        rt_bytes_sent(&s->plain, taken);
    else
        (void)goes_on(s, rv); /* to read first: tried again when something came */
}
