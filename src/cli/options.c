/* SPDX-License-Identifier: Apache-2.0 */
/* Reads option values, and complains about options in one way. */
#include "cli/options.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
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

/* ---- Options that every command has -------------------------------------- */

#define OPTIONS_MOST 32

enum { OPT_ENGINE = 1024, OPT_SYSTEM };

static const struct option everywhere[] = {
    {"on", required_argument, NULL, OPT_ENGINE},
    {"system", no_argument, NULL, OPT_SYSTEM},
    {NULL, 0, NULL, 0},
};
static struct rt_cli *engine;
static struct option table[OPTIONS_MOST]; /* what rt_options_next uses */
static const char *fault;                 /* in a value */

void rt_options_begin(struct rt_cli *cli)
{
    engine = cli;
}

static void fill_table(const struct option *options)
{
    size_t n = 0;

    for (const struct option *o = everywhere; o->name != NULL; o++)
        table[n++] = *o;
    for (const struct option *o = options; o->name != NULL; o++) {
        assert(n + 1 < OPTIONS_MOST);
        table[n++] = *o;
    }
    table[n] = (struct option){NULL, 0, NULL, 0};
}

int rt_options_next(int argc, char **argv, const char *letters, const struct option *options)
{
    int c;

    fill_table(options);
    fault = NULL;
    while ((c = getopt_long(argc, argv, letters, table, NULL)) == OPT_ENGINE || c == OPT_SYSTEM) {
        engine->on = c == OPT_SYSTEM ? RT_CLI_SYSTEM : optarg;
        if (engine->on[0] == '\0') {
            fault = "--on needs a URL or a name";
            return '?';
        }
    }
    return c;
}

/* What WORD may be short for, if that is more than one option: "--of, --on-lost". False: it is not. */
static bool list_meant(const char *word, char *text, size_t size)
{
    size_t length = strcspn(word, "="), used = 0, count = 0;

    for (const struct option *o = table; o->name != NULL && length > 2; o++) {
        if (strncmp(o->name, word + 2, length - 2) != 0)
            continue;
        int n = snprintf(text + used, size - used, "%s--%s", count++ == 0 ? "" : ", ", o->name);
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
    return count > 1;
}

int rt_options_complain(const char *command, char **argv, int c)
{
    const char *what = c == ':' ? "needs a value" : "is not known, or takes no value";
    const char *word = argv[optind - 1];
    char meant[256];

    if (fault != NULL)
        return rt_out_usage(command, "%s", fault);
    if (c == '?' && strncmp(word, "--", 2) == 0 && list_meant(word, meant, sizeof(meant)))
        return rt_out_usage(command, "option '%s' is short for more than one: %s", word, meant);

    /* getopt names a short option in optopt; a long one only by its position. */
    if (optopt > 0 && optopt < 128 && strncmp(argv[optind - 1], "--", 2) != 0)
        return rt_out_usage(command, "option '-%c' %s", optopt, what);
    return rt_out_usage(command, "option '%s' %s", argv[optind - 1], what);
}
