/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL, loaded when the first TLS settings are made: to have it in every process would double the
 * time that `rota run` takes to start, and most never speak TLS.
 *
 * Include this and none of OpenSSL's headers; its functions are then called as always. A function
 * that is missing below does not link. */
#ifndef RT_OPENSSL_H
#define RT_OPENSSL_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <openssl/x509v3.h>
#include <stddef.h>

#define RT_OPENSSL_SSL(X)                     \
    X(SSL_CTX_check_private_key)              \
    X(SSL_CTX_ctrl)                           \
    X(SSL_CTX_free)                           \
    X(SSL_CTX_load_verify_dir)                \
    X(SSL_CTX_load_verify_file)               \
    X(SSL_CTX_new)                            \
    X(SSL_CTX_set_default_passwd_cb)          \
    X(SSL_CTX_set_default_passwd_cb_userdata) \
    X(SSL_CTX_set_default_verify_paths)       \
    X(SSL_CTX_set_options)                    \
    X(SSL_CTX_set_verify)                     \
    X(SSL_CTX_use_PrivateKey_file)            \
    X(SSL_CTX_use_certificate_chain_file)     \
    X(SSL_ctrl)                               \
    X(SSL_do_handshake)                       \
    X(SSL_free)                               \
    X(SSL_get0_param)                         \
    X(SSL_get0_peer_certificate)              \
    X(SSL_get_certificate)                    \
    X(SSL_get_error)                          \
    X(SSL_get_verify_result)                  \
    X(SSL_new)                                \
    X(SSL_read_ex)                            \
    X(SSL_set_alpn_protos)                    \
    X(SSL_set_bio)                            \
    X(SSL_set_connect_state)                  \
    X(SSL_write_ex)                           \
    X(TLS_client_method)

#define RT_OPENSSL_CRYPTO(X)           \
    X(BIO_clear_flags)                 \
    X(BIO_free)                        \
    X(BIO_get_data)                    \
    X(BIO_meth_free)                   \
    X(BIO_meth_new)                    \
    X(BIO_meth_set_create)             \
    X(BIO_meth_set_ctrl)               \
    X(BIO_meth_set_read_ex)            \
    X(BIO_meth_set_write_ex)           \
    X(BIO_new)                         \
    X(BIO_new_mem_buf)                 \
    X(BIO_set_data)                    \
    X(BIO_set_flags)                   \
    X(BIO_set_init)                    \
    X(ERR_clear_error)                 \
    X(ERR_get_error)                   \
    X(ERR_peek_last_error)             \
    X(ERR_reason_error_string)         \
    X(EVP_Digest)                      \
    X(EVP_PKEY_CTX_free)               \
    X(EVP_PKEY_CTX_new)                \
    X(EVP_PKEY_CTX_set_rsa_padding)    \
    X(EVP_PKEY_encrypt)                \
    X(EVP_PKEY_encrypt_init)           \
    X(EVP_PKEY_free)                   \
    X(EVP_sha1)                        \
    X(EVP_sha256)                      \
    X(PEM_read_bio_PUBKEY)             \
    X(X509_VERIFY_PARAM_set1_host)     \
    X(X509_VERIFY_PARAM_set1_ip_asc)   \
    X(X509_VERIFY_PARAM_set_hostflags) \
    X(X509_verify_cert_error_string)

struct rt_openssl {
#define RT_OPENSSL_FIELD(name) __typeof__(name) *name##_;
    RT_OPENSSL_SSL(RT_OPENSSL_FIELD)
    RT_OPENSSL_CRYPTO(RT_OPENSSL_FIELD)
#undef RT_OPENSSL_FIELD
};
extern struct rt_openssl rt_openssl; /* written once, by rt_openssl_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_openssl_load(char *errmsg, size_t size);

#define SSL_CTX_check_private_key rt_openssl.SSL_CTX_check_private_key_
#define SSL_CTX_ctrl rt_openssl.SSL_CTX_ctrl_
#define SSL_CTX_free rt_openssl.SSL_CTX_free_
#define SSL_CTX_load_verify_dir rt_openssl.SSL_CTX_load_verify_dir_
#define SSL_CTX_load_verify_file rt_openssl.SSL_CTX_load_verify_file_
#define SSL_CTX_new rt_openssl.SSL_CTX_new_
#define SSL_CTX_set_default_passwd_cb rt_openssl.SSL_CTX_set_default_passwd_cb_
#define SSL_CTX_set_default_passwd_cb_userdata rt_openssl.SSL_CTX_set_default_passwd_cb_userdata_
#define SSL_CTX_set_default_verify_paths rt_openssl.SSL_CTX_set_default_verify_paths_
#define SSL_CTX_set_options rt_openssl.SSL_CTX_set_options_
#define SSL_CTX_set_verify rt_openssl.SSL_CTX_set_verify_
#define SSL_CTX_use_PrivateKey_file rt_openssl.SSL_CTX_use_PrivateKey_file_
#define SSL_CTX_use_certificate_chain_file rt_openssl.SSL_CTX_use_certificate_chain_file_
#define SSL_ctrl rt_openssl.SSL_ctrl_
#define SSL_do_handshake rt_openssl.SSL_do_handshake_
#define SSL_free rt_openssl.SSL_free_
#define SSL_get0_param rt_openssl.SSL_get0_param_
#define SSL_get0_peer_certificate rt_openssl.SSL_get0_peer_certificate_
#define SSL_get_certificate rt_openssl.SSL_get_certificate_
#define SSL_get_error rt_openssl.SSL_get_error_
#define SSL_get_verify_result rt_openssl.SSL_get_verify_result_
#define SSL_new rt_openssl.SSL_new_
#define SSL_read_ex rt_openssl.SSL_read_ex_
#define SSL_set_alpn_protos rt_openssl.SSL_set_alpn_protos_
#define SSL_set_bio rt_openssl.SSL_set_bio_
#define SSL_set_connect_state rt_openssl.SSL_set_connect_state_
#define SSL_write_ex rt_openssl.SSL_write_ex_
#define TLS_client_method rt_openssl.TLS_client_method_
#define BIO_clear_flags rt_openssl.BIO_clear_flags_
#define BIO_free rt_openssl.BIO_free_
#define BIO_get_data rt_openssl.BIO_get_data_
#define BIO_meth_free rt_openssl.BIO_meth_free_
#define BIO_meth_new rt_openssl.BIO_meth_new_
#define BIO_meth_set_create rt_openssl.BIO_meth_set_create_
#define BIO_meth_set_ctrl rt_openssl.BIO_meth_set_ctrl_
#define BIO_meth_set_read_ex rt_openssl.BIO_meth_set_read_ex_
#define BIO_meth_set_write_ex rt_openssl.BIO_meth_set_write_ex_
#define BIO_new rt_openssl.BIO_new_
#define BIO_new_mem_buf rt_openssl.BIO_new_mem_buf_
#define BIO_set_data rt_openssl.BIO_set_data_
#define BIO_set_flags rt_openssl.BIO_set_flags_
#define BIO_set_init rt_openssl.BIO_set_init_
#define ERR_clear_error rt_openssl.ERR_clear_error_
#define ERR_get_error rt_openssl.ERR_get_error_
#define ERR_peek_last_error rt_openssl.ERR_peek_last_error_
#define ERR_reason_error_string rt_openssl.ERR_reason_error_string_
#define EVP_Digest rt_openssl.EVP_Digest_
#define EVP_PKEY_CTX_free rt_openssl.EVP_PKEY_CTX_free_
#define EVP_PKEY_CTX_new rt_openssl.EVP_PKEY_CTX_new_
#define EVP_PKEY_CTX_set_rsa_padding rt_openssl.EVP_PKEY_CTX_set_rsa_padding_
#define EVP_PKEY_encrypt rt_openssl.EVP_PKEY_encrypt_
#define EVP_PKEY_encrypt_init rt_openssl.EVP_PKEY_encrypt_init_
#define EVP_PKEY_free rt_openssl.EVP_PKEY_free_
#define EVP_sha1 rt_openssl.EVP_sha1_
#define EVP_sha256 rt_openssl.EVP_sha256_
#define PEM_read_bio_PUBKEY rt_openssl.PEM_read_bio_PUBKEY_
#define X509_VERIFY_PARAM_set1_host rt_openssl.X509_VERIFY_PARAM_set1_host_
#define X509_VERIFY_PARAM_set1_ip_asc rt_openssl.X509_VERIFY_PARAM_set1_ip_asc_
#define X509_VERIFY_PARAM_set_hostflags rt_openssl.X509_VERIFY_PARAM_set_hostflags_
#define X509_verify_cert_error_string rt_openssl.X509_verify_cert_error_string_

#endif
