/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of TLS: certificates made at run time, and a server in a process of its own. */
#ifndef CERTS_H
#define CERTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CERTS_PATH 128

/* A folder with files that are named by what is in them. */
struct certs {
    char folder[CERTS_PATH];
    char ca[CERTS_PATH], other_ca[CERTS_PATH];
    char server[CERTS_PATH], server_key[CERTS_PATH]; /* for lock.example and 127.0.0.1 */
    char expired[CERTS_PATH];                        /* the same key, over since yesterday */
    char client[CERTS_PATH], client_key[CERTS_PATH];
    char locked_key[CERTS_PATH]; /* the client's, under a passphrase */
    char nothing[CERTS_PATH];    /* no PEM at all */
};
void certs_make(struct certs *c);
void certs_remove(const struct certs *c);

struct certs_server {
    const char *cert, *key;
    const char *client_ca; /* not NULL: clients must show a certificate */
    int version;           /* TLS1_2_VERSION, TLS1_3_VERSION */
    const char *alpn;      /* not NULL: serves only those who ask for this protocol */
    bool new_keys;         /* asks for new keys with each echo (TLS 1.3) */
};
/* Echoes to one client, until it goes; the process to wait for. */
pid_t certs_serve(const struct certs_server *how, uint16_t *port);

#endif
