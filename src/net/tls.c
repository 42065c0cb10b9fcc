/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of TLS: whom we trust, and who we are. */
#include "net/tls.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <rota.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool given(const char *s)
{
    return s != NULL && *s != '\0';
}

/* Whether PATH can be opened; OpenSSL's own words for that are no help. */
static int check_readable(const char *param, const char *path, char *errmsg, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    snprintf(errmsg, size, "?%s=%s cannot be read: %s", param, path, strerror(errno));
    return ROTA_INVALID;
}

struct rt_tls_errors rt_tls_errors(void)
{
    struct rt_tls_errors errors = {0};
    unsigned long err;

    while ((err = ERR_get_error()) != 0) {
        if (errors.first == 0)
            errors.first = err;
        errors.last = err;
        errors.nomem = errors.nomem || ERR_GET_REASON(err) == ERR_R_MALLOC_FAILURE;
    }
    return errors;
}

/* Tells lack of memory apart from whatever else is wrong. */
static int refuse(const char *param, const char *path, const char *what, char *errmsg, size_t size)
{
    if (rt_tls_errors().nomem) {
        snprintf(errmsg, size, "out of memory");
        return ROTA_NOMEM;
    }
    snprintf(errmsg, size, "?%s=%s %s", param, path, what);
    return ROTA_INVALID;
}

static int trust(SSL_CTX *ctx, const char *ca, char *errmsg, size_t size)
{
    struct stat st;

    if (!given(ca)) {
        (void)SSL_CTX_set_default_verify_paths(ctx); /* without any, no certificate is accepted */
        return 0;
    }
    int rv = check_readable("ca", ca, errmsg, size);
    if (rv != 0)
        return rv;
    bool folder = stat(ca, &st) == 0 && S_ISDIR(st.st_mode);
    int ok = folder ? SSL_CTX_load_verify_dir(ctx, ca) : SSL_CTX_load_verify_file(ctx, ca);
    return ok == 1 ? 0 : refuse("ca", ca, "has no certificates in PEM form", errmsg, size);
}

/* Without it OpenSSL would ask the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

static int load_key(SSL_CTX *ctx, const char *param, const char *path, char *errmsg, size_t size)
{
    bool asked = false;

    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    int ok = SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    if (ok == 1 && SSL_CTX_check_private_key(ctx) == 1)
        return 0;
    int reason = ERR_GET_REASON(ERR_peek_last_error());
    bool other = ok == 1 || reason == X509_R_KEY_VALUES_MISMATCH ||
                 reason == X509_R_KEY_TYPE_MISMATCH;
    const char *what = asked   ? "is protected by a passphrase: give one that is not"
                       : other ? "does not belong to the certificate of ?cert="
                       : strcmp(param, "cert") == 0
                           ? "has no private key in PEM form: add it there, or give ?key="
                           : "has no private key in PEM form";
    return refuse(param, path, what, errmsg, size);
}

static int identify(SSL_CTX *ctx, const char *cert, const char *key, char *errmsg, size_t size)
{
    if (!given(cert)) {
        if (!given(key))
            return 0;
        snprintf(errmsg, size, "?key= without ?cert=: give the certificate that it belongs to");
        return ROTA_INVALID;
    }
    int rv = check_readable("cert", cert, errmsg, size);
    if (rv == 0 && given(key))
        rv = check_readable("key", key, errmsg, size);
    if (rv != 0)
        return rv;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return refuse("cert", cert, "has no certificate in PEM form", errmsg, size);
    return load_key(ctx, given(key) ? "key" : "cert", given(key) ? key : cert, errmsg, size);
}

static SSL_CTX *new_ctx(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL)
        return NULL;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

int rt_tls_new(struct rt_tls **out, const char *ca, const char *cert, const char *key, char *errmsg,
               size_t size)
{
    int rv = rt_openssl_load(errmsg, size);
    if (rv != 0)
        return rv;
    rv = ROTA_NOMEM;
    ERR_clear_error();
    struct rt_tls *tls = rt_alloc(sizeof(*tls));
    if (tls == NULL)
        goto no_memory;
    tls->bio = rt_tls_bio_method();
    tls->ctx = new_ctx();
    if (tls->bio == NULL || tls->ctx == NULL)
        goto no_memory;
    rv = trust(tls->ctx, ca, errmsg, size);
    if (rv == 0)
        rv = identify(tls->ctx, cert, key, errmsg, size);
    ERR_clear_error();
    if (rv == 0)
        *out = tls;
    else
        rt_tls_free(tls);
    return rv;

no_memory:
    ERR_clear_error();
    snprintf(errmsg, size, "out of memory");
    rt_tls_free(tls);
    return rv;
}

void rt_tls_free(struct rt_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->bio);
    rt_free(tls);
}
