/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS server that echoes, in a process of its own. */
#include "tls_server.h"

#include "peer.h"

#include <openssl/ssl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void echo(SSL *ssl, const struct tls_server *how)
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

static bool as_agreed(const SSL *ssl, const struct tls_server *how)
{
    const unsigned char *name;
    unsigned size;
    SSL_get0_alpn_selected(ssl, &name, &size);
    return how->alpn == NULL || size == strlen(how->alpn);
}

/* The words before TLS, byte by byte: what comes after them is OpenSSL's. */
static bool hears(int fd, const struct tls_server *how)
{
    char byte;
    for (const char *at = how->begins; at != NULL && *at != '\0'; at++)
        if (recv(fd, &byte, 1, 0) != 1 || byte != *at)
            return false;
    size_t n = how->answers != NULL ? strlen(how->answers) : 0;
    return n == 0 || write(fd, how->answers, n) == (ssize_t)n;
}

static int serve(int listener, const struct tls_server *how)
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
    if (!hears(fd, how))
        return 3;
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1 && as_agreed(ssl, how))
        echo(ssl, how);
    return 0;
}

pid_t tls_serve(const struct tls_server *how, uint16_t *port)
{
    int listener = peer_listen(port, 8);
    pid_t pid = fork();

    if (pid == 0)
        _exit(serve(listener, how));
    assert_true(pid > 0);
    close(listener);
    return pid;
}
