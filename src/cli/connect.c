/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the engine the user chose, and turning errors into exit codes. */
#include "cli/connect.h"

#include "cli/out.h"
#include "cli/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *rt_connect_url(const struct rt_cli *cli)
{
    if (cli->on != NULL)
        return cli->on;
    const char *url = getenv("ROTA_URL");
    return url != NULL && url[0] != '\0' ? url : NULL;
}

/* A lock that excludes nobody is worse than an error. An engine that other machines do not share and that the kernel
 * does not watch over (a ttl) is inside this process, whatever name led to it. */
static bool is_shared(const struct rota *r)
{
    return (rota_caps(r) & (ROTA_CAP_SHARED_HOSTS | ROTA_CAP_TTL)) != ROTA_CAP_TTL;
}

int rt_connect_exit(int err)
{
    switch (err) {
    case 0:
        return RT_EXIT_OK;
    case ROTA_INVALID:
    case ROTA_UNSUPPORTED:
        return RT_EXIT_USAGE;
    case ROTA_BUSY:
    case ROTA_TIMEOUT:
    case ROTA_DEADLOCK:
        return RT_EXIT_BUSY;
    case ROTA_LOST:
        return RT_EXIT_LOST;
    case ROTA_UNREACHABLE:
    case ROTA_UNKNOWN:
    case ROTA_PROTOCOL:
    case ROTA_AUTH:
    case ROTA_UNSAFE:
        return RT_EXIT_UNREACHABLE;
    default:
        return RT_EXIT_INTERNAL;
    }
}

int rt_connect_report(const struct rota *r, int err, const char *prefix)
{
    const char *message = rota_errmsg(r);

    if (message == NULL || message[0] == '\0')
        message = rota_strerror(err);
    rt_out_error("%s%s", prefix, message);
    return rt_connect_exit(err);
}

/* Opening may take seconds of retrying: on a terminal the reason is printed at once. */
static struct {
    rota_log_fn *next; /* the caller's own; NULL: none */
    void *next_arg;
    bool quiet;
} opening;

static void on_log(void *arg, int level, const char *line)
{
    (void)arg;
    if (strncmp(line, "dialect ", 8) == 0) { /* its layout is no trouble that will pass */
        rt_out_error("%s", line);
        return;
    }
    if (!opening.quiet && level <= ROTA_LOG_WARN) {
        opening.quiet = true;
        rt_out_error("%s; trying again", line);
    }
    if (opening.next != NULL)
        opening.next(opening.next_arg, level, line);
}

static int open_engine(struct rota **out, const char *url, const struct rota_options *opts)
{
    struct rota_options own = *opts;
    const char *trace = getenv("ROTA_TRACE");

    opening.next = opts->log;
    opening.next_arg = opts->log_arg;
    opening.quiet = isatty(STDERR_FILENO) != 1;
    if (trace == NULL || strcmp(trace, "1") != 0) /* else the library prints it all */
        own.log = on_log;
    int err = rota_open(out, url, &own);
    opening.quiet = true;
    return err;
}

int rt_connect_open(struct rota **out, const struct rt_cli *cli, const struct rota_options *opts)
{
    bool system = cli->on != NULL && strcmp(cli->on, RT_CLI_SYSTEM) == 0;
    char prefix[256] = "";
    struct rota *r;

    if (system)
        rt_system_make();
    int err = open_engine(&r, rt_connect_url(cli), opts);
    if (err == ROTA_AUTH && system)
        rt_system_explain(prefix, sizeof(prefix));
    if (err != 0)
        return rt_connect_report(NULL, err, prefix);
    if (!is_shared(r)) {
        rota_close(r);
        rt_out_error("mem: lives inside one process, so commands cannot share its locks; "
                     "use file:");
        return RT_EXIT_USAGE;
    }
    *out = r;
    return RT_EXIT_OK;
}

void rt_connect_redact(const char *url, char *out, size_t size)
{
    const char *start = strstr(url, "://");
    const char *host = start == NULL ? NULL : start + 3;
    const char *at = host == NULL ? NULL : strrchr(host, '@'); /* a password may contain others */
    const char *colon = at == NULL ? NULL : memchr(host, ':', (size_t)(at - host));

    if (colon == NULL)
        snprintf(out, size, "%s", url);
    else
        snprintf(out, size, "%.*s:***%s", (int)(colon - url), url, at);
}
