/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder for commands that try something out, and the engine they try it on. */
#ifndef RT_SCRATCH_H
#define RT_SCRATCH_H

#include "cli/cli.h"

#include <limits.h>

#define RT_SCRATCH_URL 4096 /* as much as the library takes */

struct rt_scratch {
    char folder[PATH_MAX];      /* "": none */
    char url[RT_SCRATCH_URL];   /* where the locks are */
    char shown[RT_SCRATCH_URL]; /* the same, to be printed */
};

/* Makes "rota-WORD.XXXXXX" where temporary folders are made. Returns an exit code: RT_EXIT_OK, or a
 * message was printed. */
int rt_scratch_make(struct rt_scratch *scratch, const char *word);
void rt_scratch_remove(struct rt_scratch *scratch); /* with all that is in it */

/* Chooses the engine: that of --on or $ROTA_URL, else an embedded one in the folder. Returns an
 * exit code as above. */
int rt_scratch_engine(struct rt_scratch *scratch, const struct rt_cli *cli);

/* "file:" and PATH, its unusual bytes as %XX. False: too long. */
bool rt_scratch_file_url(char *url, size_t size, const char *path);

#endif
