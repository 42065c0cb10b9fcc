/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of --system: made for its group, and whoever is kept out is told why. */
#include "cli/system.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/var/lib/rota" /* of RT_CLI_SYSTEM */
#define GROUP "rota"

void rt_system_make(void)
{
    char path[] = FOLDER ".XXXXXX";
    struct stat st;

    if (geteuid() != 0 || lstat(FOLDER, &st) == 0)
        return;
    const struct group *group = getgrnam(GROUP);
    if (group == NULL || mkdtemp(path) == NULL)
        return;
    /* It gets its name last: anything that another process put into it earlier would not be the group's. */
    if (chown(path, (uid_t)-1, group->gr_gid) != 0 || chmod(path, 02770) != 0 ||
        renameat2(AT_FDCWD, path, AT_FDCWD, FOLDER, RENAME_NOREPLACE) != 0)
        (void)rmdir(path);
}

static bool is_closed(const char *path, int rights)
{
    return euidaccess(path, rights) != 0 && errno == EACCES;
}

void rt_system_explain(char *out, size_t size)
{
    struct stat st;

    assert(size > 0);
    out[0] = '\0';
    if (geteuid() == 0)
        return;
    if (stat(FOLDER, &st) != 0) {
        snprintf(out, size, "--system needs %s, which root makes: see rota(1): ", FOLDER);
        return;
    }
    const struct group *group = getgrgid(st.st_gid);
    const char *name = group != NULL ? group->gr_name : GROUP;
    if (!is_closed(FOLDER, R_OK | W_OK | X_OK)) {
        if (is_closed(FOLDER "/s", R_OK | W_OK | X_OK) || is_closed(FOLDER "/rota.db", R_OK | W_OK))
            snprintf(out, size, "not all in %s is its group's (as root: chgrp -R %s %s): ", FOLDER,
                     name, FOLDER);
    } else if (st.st_gid == 0) { /* made before there was a group for it */
        snprintf(out, size, "--system is for root alone until root does chgrp -R %s %s: ", GROUP,
                 FOLDER);
    } else {
        snprintf(out, size, "--system is for root and the group %s: ", name);
    }
}
