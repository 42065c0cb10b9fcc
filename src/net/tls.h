/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net/: the shared settings of TLS, as its sessions see them. */
#ifndef RT_TLS_H
#define RT_TLS_H

#include "net/openssl.h"
#include "net/stream.h"

struct rt_tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio; /* of bytes that the stream has received, and is to send */
};

BIO_METHOD *rt_tls_bio_method(void); /* NULL: no memory */

/* Empties this thread's queue of OpenSSL's errors: the first (the cause) and the last of them, and
 * whether any of them is due to lack of memory. */
struct rt_tls_errors {
    unsigned long first, last; /* 0: none */
    bool nomem;
};
struct rt_tls_errors rt_tls_errors(void);

#endif
