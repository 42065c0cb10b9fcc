/* SPDX-License-Identifier: Apache-2.0 */
/* Reading option values, and complaining about options in one way. */
#include "cli/options.h"

#include "cli/out.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DURATION_MAX_MS (366.0 * 24 * 3600 * 1000) /* a year: more is a slip of the finger */

static const struct unit {
    const char *name;
    double ms;
} units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 86400 * 1000},
};

/* TEXT in milliseconds, however many; negative if it is no time. */
static double read_duration(const char *text)
{
    size_t digits = strspn(text, "0123456789.");
    char *end;

    if (digits == 0) /* strtod would take signs, spaces, "inf" and "nan" */
        return -1;
    double value = strtod(text, &end);
    if (end != text + digits)
        return -1;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) == 0)
            return value * units[i].ms;
    }
    return -1;
}

bool rt_options_duration_ms(const char *text, uint64_t *ms)
{
    double value = read_duration(text);

    if (value < 0 || value > DURATION_MAX_MS)
        return false;
    *ms = (uint64_t)value;
    if ((double)*ms < value)
        ++*ms;
    return true;
}

bool rt_options_too_long(const char *text)
{
    return read_duration(text) > DURATION_MAX_MS;
}

bool rt_options_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || text[digits] != '\0')
        return false;
    errno = 0;
    uint64_t value = strtoull(text, NULL, 10);
    if (errno != 0 || value < min || value > max)
        return false;
    *number = value;
    return true;
}

int rt_options_complain(const char *command, char **argv, int c)
{
    const char *what = c == ':' ? "needs a value" : "is not known, or takes no value";

    /* getopt names a short option in optopt; a long one only by where it stands. */
    if (optopt > 0 && optopt < 128 && strncmp(argv[optind - 1], "--", 2) != 0)
        return rt_out_usage(command, "option '-%c' %s", optopt, what);
    return rt_out_usage(command, "option '%s' %s", argv[optind - 1], what);
}
