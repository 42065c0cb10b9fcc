/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there whole or not at all. */
#ifndef RT_SAVE_H
#define RT_SAVE_H

#include <limits.h>
#include <stdio.h>

struct rt_save {
    const char *path; /* the caller's */
    char target[PATH_MAX];
    /* where it is written; "": directly to TARGET, which is a device or pipe */
    char beside[PATH_MAX];
    FILE *file;
};

/* Begins to write PATH: save->file is open. Returns an exit code: RT_EXIT_OK, or RT_EXIT_IOERR and
 * a message was printed. */
int rt_save_begin(struct rt_save *save, const char *path);

/* Closes the file and puts it in its place, in one step. RT_EXIT_OK, or RT_EXIT_IOERR, a message
 * was printed, nothing is left behind, and what was at PATH before still is. */
int rt_save_end(struct rt_save *save);

/* Whether PATH can be written, as far as one can tell without doing it: exit codes as above. */
int rt_save_check(const char *path);

#endif
