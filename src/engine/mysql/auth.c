/* SPDX-License-Identifier: Apache-2.0 */
/* What a password is turned into before it is sent: never sent as it is, except to a server that is known by
 * its certificate, or over a unix socket (greet.c). */
#include "engine/mysql/mysql.h"

#include "net/openssl.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {"mysql_native_password", "caching_sha2_password"};

enum rt_mysql_plugin rt_mysql_plugin(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum rt_mysql_plugin)i;
    return RT_MYSQL_UNKNOWN;
}

const char *rt_mysql_plugin_name(enum rt_mysql_plugin plugin)
{
    assert(plugin < RT_MYSQL_UNKNOWN);
    return names[plugin];
}

const char *rt_mysql_plugin_advice(const char *name)
{
    if (strcmp(name, "unix_socket") == 0 || strcmp(name, "auth_socket") == 0)
        return "it lets in the system's user of that name, by a unix socket only: give Rota an account with a password";
    if (strcmp(name, "client_ed25519") == 0 || strcmp(name, "ed25519") == 0)
        return "Rota does not speak it: ALTER USER ... IDENTIFIED VIA mysql_native_password USING PASSWORD('...')";
    return "Rota speaks mysql_native_password and caching_sha2_password: ALTER USER ... IDENTIFIED WITH one of them";
}

struct piece {
    const void *at;
    size_t size;
};

static bool digest(const EVP_MD *kind, struct piece a, struct piece b, uint8_t *out)
{
    uint8_t both[64 + RT_MYSQL_SALT];
    struct piece whole = a;
    if (b.size > 0) {
        assert(a.size + b.size <= sizeof(both));
        memcpy(both, a.at, a.size);
        memcpy(both + a.size, b.at, b.size);
        whole = (struct piece){both, a.size + b.size};
    }
    return EVP_Digest(whole.at, whole.size, out, NULL, kind, NULL) == 1;
}

/* The server has H(H(password)) and so can check that we know H(password), without either being sent. */
int rt_mysql_scramble(enum rt_mysql_plugin plugin, const char *password, const uint8_t *salt,
                      uint8_t *out)
{
    bool sha2 = plugin == RT_MYSQL_SHA2;
    size_t size = sha2 ? 32 : 20;
    uint8_t once[32], twice[32], mask[32];
    struct piece none = {NULL, 0}, salted = {salt, RT_MYSQL_SALT}, hashed = {twice, size};
    if (password[0] == '\0')
        return 0;
    const EVP_MD *kind = sha2 ? EVP_sha256() : EVP_sha1();
    bool good = digest(kind, (struct piece){password, strlen(password)}, none, once) &&
                digest(kind, (struct piece){once, size}, none, twice) &&
                digest(kind, sha2 ? hashed : salted, sha2 ? salted : hashed, mask);
    for (size_t i = 0; i < size; i++)
        out[i] = once[i] ^ mask[i];
    explicit_bzero(once, sizeof(once));
    explicit_bzero(twice, sizeof(twice));
    return good ? (int)size : -1;
}

static bool encrypt_with(EVP_PKEY *key, const uint8_t *plain, size_t size,
                         struct rt_mysql_bytes *out)
{
    uint8_t cipher[1024]; /* a key of 8192 bits */
    size_t n = sizeof(cipher);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    bool good = ctx != NULL && EVP_PKEY_encrypt_init(ctx) > 0 &&
                EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) > 0 &&
                EVP_PKEY_encrypt(ctx, cipher, &n, plain, size) > 0;
    EVP_PKEY_CTX_free(ctx);
    if (good)
        rt_mysql_add(out, cipher, n);
    return good;
}

bool rt_mysql_encrypt(struct rt_mysql_cursor pem, const char *password, const uint8_t *salt,
                      struct rt_mysql_bytes *out)
{
    uint8_t plain[256];
    size_t size = strlen(password) + 1; /* its NUL is sent, too */
    if (size > sizeof(plain))
        return false;
    BIO *bio = BIO_new_mem_buf(pem.at, (int)(pem.end - pem.at));
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    for (size_t i = 0; i < size; i++)
        plain[i] = (uint8_t)password[i] ^ salt[i % RT_MYSQL_SALT];
    bool good = key != NULL && encrypt_with(key, plain, size, out);
    explicit_bzero(plain, sizeof(plain));
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    return good;
}
