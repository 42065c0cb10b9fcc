/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords and tokens that are kept for as long as something is open: in memory that no core dump has (MADV_DONTDUMP),
 * wiped when they go back. A copy for a moment belongs on the stack, and its owner wipes it (explicit_bzero).
 *
 * What a client library keeps of them is its own. */
#ifndef RT_SECRET_H
#define RT_SECRET_H

#include <stdio.h>

/* A copy of TEXT; NULL: no memory. Takes some pages: not for what there are thousands of. */
char *rt_secret_dup(const char *text);
void rt_secret_free(char *secret); /* NULL is legal */

/* A file that may have secrets in it, to be read; NULL and errno. stdio's buffer for it is the caller's BUFFER, which is to
 * be wiped after fclose. */
#define RT_SECRET_BUFFER 4096
FILE *rt_secret_open(const char *path, char buffer[RT_SECRET_BUFFER]);

#endif
