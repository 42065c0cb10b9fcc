/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS server that echoes, in a process of its own. */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tls_server {
    const char *cert, *key;
    const char *client_ca; /* not NULL: clients must show a certificate */
    int version;           /* TLS1_2_VERSION, TLS1_3_VERSION */
    const char *alpn;      /* not NULL: serves only clients that ask for this protocol */
    const char *begins;    /* not NULL: it expects this in plain text before TLS, and says ... */
    const char *answers;   /* ... this, if that is not NULL */
    bool new_keys;         /* asks for new keys with each echo (TLS 1.3) */
};
/* Echoes to one client until it goes; returns the process to wait for. */
pid_t tls_serve(const struct tls_server *how, uint16_t *port);

#endif
