/* SPDX-License-Identifier: Apache-2.0 */
/* What the command prints: one-line errors on stderr, colour on terminals only. */
#include "cli/out.h"

#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048 /* a URL, a name and a sentence; longer ones are cut */

static void format_line(char *line, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void format_line(char *line, const char *format, va_list args)
{
    vsnprintf(line, LINE_MAX_BYTES, format, args);
    for (char *p = line; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
}

void rt_out_error(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    fprintf(stderr, "rota: %s\n", line);
}

int rt_out_usage(const char *command, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    if (command != NULL)
        fprintf(stderr, "rota %s: %s; see 'rota %s --help'\n", command, line, command);
    else
        fprintf(stderr, "rota: %s; see 'rota --help'\n", line);
    return RT_EXIT_USAGE;
}

bool rt_out_colored(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (no_color != NULL && no_color[0] != '\0')
        return false;
    if (term == NULL || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fileno(stream)) == 1;
}

int rt_out_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return RT_EXIT_OK;
    rt_out_error("cannot write the output: %s", strerror(errno));
    return RT_EXIT_FAILED;
}
