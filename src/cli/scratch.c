/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder for commands that try something out, and the engine they try it on. */
#include "cli/scratch.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

bool rt_scratch_file_url(char *url, size_t size, const char *path)
{
    size_t n = (size_t)snprintf(url, size, "file:");

    for (const char *p = path; *p != '\0'; p++) {
        bool plain = strchr("?#%", *p) == NULL && (unsigned char)*p > ' ';
        if (n + 4 > size)
            return false;
        n += (size_t)snprintf(url + n, size - n, plain ? "%c" : "%%%02X", (unsigned char)*p);
    }
    return true;
}

int rt_scratch_make(struct rt_scratch *scratch, const char *word)
{
    const char *tmp = getenv("TMPDIR");

    if (tmp == NULL || tmp[0] != '/')
        tmp = "/tmp";
    int n = snprintf(scratch->folder, sizeof(scratch->folder), "%s/rota-%s.XXXXXX", tmp, word);
    if (n >= (int)sizeof(scratch->folder) - 16) {
        rt_out_error("TMPDIR is too long");
        scratch->folder[0] = '\0';
        return RT_EXIT_USAGE;
    }
    if (mkdtemp(scratch->folder) == NULL) {
        rt_out_error("cannot make a folder in %s: %s; set TMPDIR to another place", tmp,
                     strerror(errno));
        scratch->folder[0] = '\0';
        return RT_EXIT_UNREACHABLE;
    }
    return RT_EXIT_OK;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void rt_scratch_remove(struct rt_scratch *scratch)
{
    if (scratch->folder[0] != '\0')
        nftw(scratch->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    scratch->folder[0] = '\0';
}

int rt_scratch_engine(struct rt_scratch *scratch, const struct rt_cli *cli)
{
    const char *url = rt_connect_url(cli);
    char locks[PATH_MAX + 8];
    bool fits;

    if (url != NULL) {
        struct rota *r; /* to see whether processes can share it, before there are any */
        int code = rt_connect_open(&r, cli, &(struct rota_options){.flags = ROTA_NO_KEEPER});
        if (code != RT_EXIT_OK)
            return code;
        rota_close(r);
        fits = strlen(url) < sizeof(scratch->url);
        snprintf(scratch->url, sizeof(scratch->url), "%s", url);
        rt_connect_redact(url, scratch->shown, sizeof(scratch->shown));
    } else {
        snprintf(locks, sizeof(locks), "%s/locks", scratch->folder);
        fits = rt_scratch_file_url(scratch->url, sizeof(scratch->url), locks);
        snprintf(scratch->shown, sizeof(scratch->shown), "file:");
    }
    if (fits)
        return RT_EXIT_OK;
    rt_out_error("the engine's URL is too long: %d bytes at most", RT_SCRATCH_URL - 1);
    return RT_EXIT_USAGE;
}
