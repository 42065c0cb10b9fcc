/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords and tokens that are kept for as long as something is open: in memory that core dumps leave out
 * (MADV_DONTDUMP), wiped before it is freed. A short-lived copy belongs on the stack; its owner wipes it
 * (explicit_bzero).
 *
 * What a client library keeps of them is its own. */
#ifndef RT_SECRET_H
#define RT_SECRET_H

#include <stdio.h>

/* A copy of TEXT; NULL: no memory. Takes whole pages: not for things that come in thousands. */
char *rt_secret_dup(const char *text);
void rt_secret_free(char *secret); /* NULL is legal */

/* Opens a file that may contain secrets, for reading; NULL and errno. stdio buffers it in the caller's BUFFER, which
 * the caller wipes after fclose. */
#define RT_SECRET_BUFFER 4096
FILE *rt_secret_open(const char *path, char buffer[RT_SECRET_BUFFER]);

#endif
