/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and certificates by libcrypto: elliptic curves, because they are made in a millisecond. */
#include "certs.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DAY_S (24L * 3600)
#define SERVER_NAMES "DNS:localhost,DNS:lock.example,IP:127.0.0.1"

struct authority {
    EVP_PKEY *key;
    X509 *cert;
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "certs: %s failed\n", what);
        abort();
    }
}

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "we");

    must(f != NULL, path);
    must(fchmod(fileno(f), 0600) == 0, "fchmod");
    return f;
}

static void write_cert(const char *path, X509 *cert)
{
    FILE *f = create(path);

    must(PEM_write_X509(f, cert) == 1, path);
    must(fclose(f) == 0, path);
}

/* PASSPHRASE NULL: in the clear. */
static void write_key(const char *path, EVP_PKEY *key, const char *passphrase)
{
    FILE *f = create(path);
    int size = passphrase != NULL ? (int)strlen(passphrase) : 0;

    must(PEM_write_PKCS8PrivateKey(f, key, size > 0 ? EVP_aes_128_cbc() : NULL, passphrase, size,
                                   NULL, NULL) == 1,
         path);
    must(fclose(f) == 0, path);
}

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    must(ext != NULL && X509_add_ext(cert, ext, -1) == 1, value);
    X509_EXTENSION_free(ext);
}

/* ALT NULL: an authority, which signs itself. Valid for a day around now, or until a day ago. */
static X509 *make_cert(EVP_PKEY *key, const struct authority *by, const char *name, const char *alt,
                       bool expired)
{
    static long serial;
    X509 *cert = X509_new();
    X509_NAME *subject;

    must(cert != NULL, "X509_new");
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3 * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(cert), expired ? -DAY_S : DAY_S);
    X509_set_pubkey(cert, key);
    subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, by->cert != NULL ? X509_get_subject_name(by->cert) : subject);
    add_extension(cert, NID_basic_constraints, alt == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    if (alt != NULL)
        add_extension(cert, NID_subject_alt_name, alt);
    must(X509_sign(cert, by->key != NULL ? by->key : key, EVP_sha256()) > 0, "X509_sign");
    return cert;
}

static struct authority make_authority(const char *name, char *path)
{
    struct authority none = {NULL, NULL}, ca;

    ca.key = EVP_EC_gen("P-256");
    must(ca.key != NULL, "EVP_EC_gen");
    ca.cert = make_cert(ca.key, &none, name, NULL, false);
    write_cert(path, ca.cert);
    return ca;
}

/* LOCKED: a second copy of the key, under a passphrase; NULL: none. */
static void make_pair(const struct authority *by, const char *alt, bool expired,
                      const char *cert_path, const char *key_path, const char *locked)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert;

    must(key != NULL, "EVP_EC_gen");
    cert = make_cert(key, by, "rota test", alt, expired);
    write_cert(cert_path, cert);
    write_key(key_path, key, NULL);
    if (locked != NULL)
        write_key(locked, key, "secret");
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void free_authority(struct authority *ca)
{
    X509_free(ca->cert);
    EVP_PKEY_free(ca->key);
}

static void name_files(struct rt_certs *c, const char *dir)
{
    snprintf(c->folder, sizeof(c->folder), "%s", dir);
    snprintf(c->ca, sizeof(c->ca), "%s/ca.pem", dir);
    snprintf(c->server_cert, sizeof(c->server_cert), "%s/server.pem", dir);
    snprintf(c->server_key, sizeof(c->server_key), "%s/server.key", dir);
    snprintf(c->client_cert, sizeof(c->client_cert), "%s/client.pem", dir);
    snprintf(c->client_key, sizeof(c->client_key), "%s/client.key", dir);
    snprintf(c->other_cert, sizeof(c->other_cert), "%s/other.pem", dir);
    snprintf(c->other_key, sizeof(c->other_key), "%s/other.key", dir);
    snprintf(c->expired_cert, sizeof(c->expired_cert), "%s/expired.pem", dir);
    snprintf(c->expired_key, sizeof(c->expired_key), "%s/expired.key", dir);
    snprintf(c->stranger_ca, sizeof(c->stranger_ca), "%s/stranger.pem", dir);
    snprintf(c->locked_key, sizeof(c->locked_key), "%s/locked.key", dir);
    snprintf(c->nothing, sizeof(c->nothing), "%s/nothing.pem", dir);
}

void rt_certs_make(struct rt_certs *certs, const char *dir)
{
    struct authority ca, stranger;
    FILE *nothing;

    name_files(certs, dir);
    ca = make_authority("Rota test authority", certs->ca);
    stranger = make_authority("A stranger", certs->stranger_ca);
    make_pair(&ca, SERVER_NAMES, false, certs->server_cert, certs->server_key, NULL);
    make_pair(&ca, "DNS:client.example", false, certs->client_cert, certs->client_key,
              certs->locked_key);
    make_pair(&ca, "DNS:other.example", false, certs->other_cert, certs->other_key, NULL);
    make_pair(&ca, SERVER_NAMES, true, certs->expired_cert, certs->expired_key, NULL);
    nothing = create(certs->nothing);
    fputs("not a certificate\n", nothing);
    must(fclose(nothing) == 0, certs->nothing);
    free_authority(&ca);
    free_authority(&stranger);
}
