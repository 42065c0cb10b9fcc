/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one finished line to the user's function, nothing otherwise. */
#include "client/client.h"

#include <stdarg.h>
#include <stdio.h>

void rt_log_line(struct rota *r, int level, const char *line)
{
    if (r->log != NULL)
        r->log(r->log_arg, level, line);
}

void rt_log(struct rota *r, int level, const char *format, ...)
{
    char line[512];
    va_list args;

    if (r->log == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    rt_log_line(r, level, line);
}

void rt_log_stderr(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    fprintf(stderr, "rota: %s\n", line);
}
