/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of TLS: certificates made at run time, and a server in a process of its own. */
#include "certs.h"

#include "peer.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY_S (24 * 3600L)

/* ---- Certificates ----------------------------------------------------------- */

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* ISSUER NULL: a CA, signed by itself. */
static X509 *make(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, long from_s,
                  long to_s)
{
    static long serial;
    X509 *cert = X509_new();
    assert_non_null(cert);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), to_s);
    X509_set_pubkey(cert, key);
    X509_NAME *subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, issuer != NULL ? X509_get_subject_name(issuer) : subject);
    if (issuer == NULL)
        extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
    else
        extend(cert, issuer, NID_subject_alt_name, "DNS:lock.example,IP:127.0.0.1");
    assert_true(X509_sign(cert, issuer != NULL ? issuer_key : key, EVP_sha256()) > 0);
    return cert;
}

static FILE *create(char *path, const struct certs *c, const char *name)
{
    assert_true(snprintf(path, CERTS_PATH, "%.80s/%s", c->folder, name) < CERTS_PATH);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    return file;
}

static void save_cert(char *path, const struct certs *c, const char *name, X509 *cert)
{
    FILE *file = create(path, c, name);
    assert_int_equal(PEM_write_X509(file, cert), 1);
    fclose(file);
    X509_free(cert);
}

static void save_key(char *path, const struct certs *c, const char *name, EVP_PKEY *key,
                     const char *passphrase)
{
    FILE *file = create(path, c, name);
    const EVP_CIPHER *cipher = passphrase != NULL ? EVP_aes_128_cbc() : NULL;
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, key, cipher, passphrase,
                                               passphrase != NULL ? (int)strlen(passphrase) : 0,
                                               NULL, NULL),
                     1);
    fclose(file);
}

void certs_make(struct certs *c)
{
    memset(c, 0, sizeof(*c));
    strcpy(c->folder, "/tmp/rota-certs-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
    EVP_PKEY *client_key = EVP_EC_gen("P-256");
    assert_true(ca_key != NULL && key != NULL && client_key != NULL);
    X509 *ca = make("Test CA", ca_key, NULL, NULL, -2 * DAY_S, DAY_S);
    save_cert(c->other_ca, c, "other-ca.pem", make("Other CA", key, NULL, NULL, -DAY_S, DAY_S));
    save_cert(c->server, c, "server.pem", make("server", key, ca, ca_key, -DAY_S, DAY_S));
    save_cert(c->expired, c, "expired.pem", make("server", key, ca, ca_key, -2 * DAY_S, -DAY_S));
    save_cert(c->client, c, "client.pem", make("client", client_key, ca, ca_key, -DAY_S, DAY_S));
    save_key(c->server_key, c, "server.key", key, NULL);
    save_key(c->client_key, c, "client.key", client_key, NULL);
    save_key(c->locked_key, c, "locked.key", client_key, "secret");
    save_cert(c->ca, c, "ca.pem", ca);
    FILE *file = create(c->nothing, c, "nothing.pem");
    fputs("not a certificate\n", file);
    fclose(file);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
    EVP_PKEY_free(client_key);
}

void certs_remove(const struct certs *c)
{
    const char *const paths[] = {c->ca,     c->other_ca,   c->server,     c->server_key, c->expired,
                                 c->client, c->client_key, c->locked_key, c->nothing};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        unlink(paths[i]);
    rmdir(c->folder);
}

/* ---- The server ------------------------------------------------------------- */

static void echo(SSL *ssl, const struct certs_server *how)
{
    static char bytes[40000];
    int got;

    while ((got = SSL_read(ssl, bytes, sizeof(bytes))) > 0) {
        if (how->new_keys)
            SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
        if (SSL_write(ssl, bytes, got) != got)
            return;
    }
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *size,
                  const unsigned char *offered, unsigned offered_size, void *arg)
{
    const char *name = arg;
    (void)ssl;
    for (unsigned i = 0; i < offered_size; i += 1u + offered[i])
        if (offered[i] == strlen(name) && memcmp(offered + i + 1, name, offered[i]) == 0) {
            *out = offered + i + 1;
            *size = offered[i];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool as_agreed(const SSL *ssl, const struct certs_server *how)
{
    const unsigned char *name;
    unsigned size;
    SSL_get0_alpn_selected(ssl, &name, &size);
    return how->alpn == NULL || size == strlen(how->alpn);
}

static int serve(int listener, const struct certs_server *how)
{
    signal(SIGPIPE, SIG_IGN); /* of the server */
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx == NULL || SSL_CTX_use_certificate_chain_file(ctx, how->cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(ctx, how->key, SSL_FILETYPE_PEM) != 1)
        return 1;
    SSL_CTX_set_min_proto_version(ctx, how->version);
    SSL_CTX_set_max_proto_version(ctx, how->version);
    if (how->client_ca != NULL) {
        SSL_CTX_load_verify_file(ctx, how->client_ca);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    if (how->alpn != NULL)
        SSL_CTX_set_alpn_select_cb(ctx, choose, (void *)(uintptr_t)how->alpn);
    int fd = accept(listener, NULL, NULL);
    SSL *ssl = SSL_new(ctx);
    if (fd < 0 || ssl == NULL)
        return 2;
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1 && as_agreed(ssl, how))
        echo(ssl, how);
    return 0;
}

pid_t certs_serve(const struct certs_server *how, uint16_t *port)
{
    int listener = peer_listen(port, 8);
    pid_t pid = fork();

    if (pid == 0)
        _exit(serve(listener, how));
    assert_true(pid > 0);
    close(listener);
    return pid;
}
