/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there whole or not at all. */
#include "cli/save.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int complain(const struct rt_save *save, int error)
{
    rt_out_error("cannot write '%.200s': %s", save->path, strerror(error));
    return RT_EXIT_IOERR;
}

static int open_beside(struct rt_save *save)
{
    int length = snprintf(save->beside, sizeof(save->beside), "%s.XXXXXX", save->target);

    if (length < 0 || (size_t)length >= sizeof(save->beside)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(save->beside, O_CLOEXEC);
    mode_t mask = umask(0); /* it can only be read by setting it */
    umask(mask);
    if (fd >= 0)
        (void)fchmod(fd, 0666 & ~mask); /* like any file that is simply opened */
    return fd;
}

int rt_save_begin(struct rt_save *save, const char *path)
{
    struct stat st;

    *save = (struct rt_save){.path = path};
    /* A limit on file size is an error, not our end. */
    signal(SIGXFSZ, SIG_IGN);
    /* Follows links, so that their target is replaced and not the links. */
    if (realpath(path, save->target) == NULL)
        snprintf(save->target, sizeof(save->target), "%s", path);
    int fd;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        fd = open(path, O_WRONLY | O_CLOEXEC);
    else
        fd = open_beside(save);
    if (fd < 0)
        return complain(save, errno);
    save->file = fdopen(fd, "w");
    if (save->file == NULL) {
        int error = errno;
        close(fd);
        if (save->beside[0] != '\0')
            unlink(save->beside);
        return complain(save, error);
    }
    return RT_EXIT_OK;
}

int rt_save_end(struct rt_save *save)
{
    bool beside = save->beside[0] != '\0';
    int error = 0;

    errno = 0;
    if (fflush(save->file) != 0 || ferror(save->file) || (beside && fsync(fileno(save->file)) != 0))
        error = errno != 0 ? errno : EIO;
    if (fclose(save->file) != 0 && error == 0)
        error = errno;
    save->file = NULL;
    if (error == 0 && beside && rename(save->beside, save->target) != 0)
        error = errno;
    if (error == 0)
        return RT_EXIT_OK;
    if (beside)
        unlink(save->beside);
    return complain(save, error);
}

int rt_save_check(const char *path)
{
    struct rt_save save;
    int code = rt_save_begin(&save, path);

    if (code != RT_EXIT_OK)
        return code;
    fclose(save.file);
    if (save.beside[0] != '\0')
        unlink(save.beside);
    return RT_EXIT_OK;
}
