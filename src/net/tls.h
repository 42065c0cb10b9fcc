/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net/: the shared settings of TLS, as its sessions see them. */
#ifndef RT_TLS_H
#define RT_TLS_H

#include "net/stream.h"

#include <openssl/ssl.h>

struct rt_tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio; /* of bytes that the stream has received, and is to send */
};

BIO_METHOD *rt_tls_bio_method(void); /* NULL: no memory */

#endif
