/* SPDX-License-Identifier: Apache-2.0 */
/* What the command prints: one-line errors on stderr, colour on terminals only. */
#include "cli/out.h"

#include "base/utf8.h"
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
    rt_out_clean(line, line, LINE_MAX_BYTES);
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

/* ---- Others' words ------------------------------------------------------ */

struct range {
    uint32_t first, last;
};

static bool within(uint32_t code, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    }
    return false;
}

/* Characters that control a terminal, or reverse the text after them. */
static bool commands(uint32_t code)
{
    static const struct range ranges[] = {
        {0, 0x1f},
        {0x7f, 0x9f},
        {0x202a, 0x202e},
        {0x2066, 0x2069},
    };

    return within(code, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

const char *rt_out_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;
    uint32_t code;

    while (*text != '\0') {
        size_t bytes = rt_utf8_next(text, &code);
        bool good = bytes > 0 && !commands(code);
        size_t room = good ? bytes : 1;
        if (used + room >= size)
            break;
        if (good)
            memmove(out + used, text, bytes);
        else
            out[used] = '?';
        used += room;
        text += bytes > 0 ? bytes : 1;
    }
    out[used] = '\0';
    return out;
}

static size_t columns_of(uint32_t code)
{
    static const struct range none[] = {
        {0x300, 0x36f},   /* combining marks */
        {0x200b, 0x200f}, /* joiners and marks of direction */
        {0xfe00, 0xfe0f}, /* variation selectors */
    };
    static const struct range two[] = {
        {0x1100, 0x115f},   /* Hangul, the first letters of syllables */
        {0x2e80, 0x303e},   /* radicals, CJK punctuation */
        {0x3041, 0x4dbf},   /* kana, letters and signs, ideographs */
        {0x4e00, 0xa4cf},   /* ideographs, Yi */
        {0xa960, 0xa97f},   /* Hangul, more first letters */
        {0xac00, 0xd7a3},   /* Hangul syllables */
        {0xf900, 0xfaff},   /* compatibility ideographs */
        {0xfe30, 0xfe6f},   /* vertical and small forms */
        {0xff00, 0xff60},   /* fullwidth forms */
        {0xffe0, 0xffe6},   /* fullwidth signs */
        {0x1f300, 0x1faff}, /* emoji */
        {0x20000, 0x3fffd}, /* ideographs */
    };

    if (within(code, none, sizeof(none) / sizeof(none[0])))
        return 0;
    return within(code, two, sizeof(two) / sizeof(two[0])) ? 2 : 1;
}

size_t rt_out_fit(const char *text, size_t columns, size_t *used)
{
    const char *p = text;
    uint32_t code;

    *used = 0;
    while (*p != '\0') {
        size_t bytes = rt_utf8_next(p, &code);
        size_t width = bytes > 0 ? columns_of(code) : 1;
        if (width > columns - *used)
            break;
        *used += width;
        p += bytes > 0 ? bytes : 1;
    }
    return (size_t)(p - text);
}

size_t rt_out_width(const char *text)
{
    size_t width;

    rt_out_fit(text, SIZE_MAX, &width);
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

    if (ms < 0)
        snprintf(out, size, "-");
    else if (ms < 1000)
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
