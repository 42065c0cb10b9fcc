/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates made at run time for tests over TLS: good ones, and those that must be refused. */
#ifndef RT_CERTS_H
#define RT_CERTS_H

struct rt_certs { /* paths of PEM files */
    char folder[256];
    char ca[300];
    char server_cert[300], server_key[300];   /* localhost, lock.example, 127.0.0.1 */
    char client_cert[300], client_key[300];   /* from the same authority */
    char other_cert[300], other_key[300];     /* for other.example only */
    char expired_cert[300], expired_key[300]; /* localhost, ended yesterday */
    char stranger_ca[300];                    /* an authority that has signed none of them */
    char locked_key[300];                     /* the client's, under a passphrase */
    char nothing[300];                        /* no PEM at all */
};

/* Writes them into DIR. */
void rt_certs_make(struct rt_certs *certs, const char *dir);

#endif
