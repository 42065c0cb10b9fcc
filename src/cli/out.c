/* SPDX-License-Identifier: Apache-2.0 */
/* What the command prints: one-line errors on stderr, colour on terminals only. */
#include "cli/out.h"

#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
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

const char *rt_out_color(FILE *stream, enum rt_out_color color)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[31m", "\033[32m", "\033[33m"};

    return rt_out_colored(stream) ? codes[color] : "";
}

const char *rt_out_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;

    for (const char *p = text; *p != '\0' && used + 1 < size; p++) {
        unsigned char c = (unsigned char)*p;
        bool high = c == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0;
        out[used++] = c < 0x20 || c == 0x7f || high ? '?' : *p;
        p += high;
    }
    out[used] = '\0';
    return out;
}

size_t rt_out_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80; /* not the rest of a character */
    return width;
}

void rt_out_padded(const char *text, size_t width)
{
    size_t used = rt_out_width(text);

    printf("%s%*s", text, used < width ? (int)(width - used) : 0, "");
}

const char *rt_out_time(int64_t ms, char *out, size_t size)
{
    int64_t s = ms / 1000;

    if (ms < 1000)
        snprintf(out, size, "%" PRId64 " ms", ms);
    else if (s < 60)
        snprintf(out, size, "%" PRId64 " s", s);
    else if (s < 3600)
        snprintf(out, size, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, size, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(out, size, "%" PRId64 " d %" PRId64 " h", s / 86400, s / 3600 % 24);
    return out;
}

int rt_out_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return RT_EXIT_OK;
    rt_out_error("cannot write the output: %s", strerror(errno));
    return RT_EXIT_FAILED;
}
