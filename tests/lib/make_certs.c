/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for tests that are not in C: make-certs FOLDER. The files are certs.h's. */
#include "lib/certs.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct rt_certs certs;

    if (argc != 2) {
        fputs("usage: make-certs FOLDER\n", stderr);
        return 64;
    }
    rt_certs_make(&certs, argv[1]);
    return 0;
}
