/* SPDX-License-Identifier: Apache-2.0 */
/* Options that every command of rota-txn has, and how it complains. */
#include "txn/cli/args.h"

#include "cli/out.h"
#include "txn/core/name.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MOST 24
enum { OPT_JOURNAL = 1024, OPT_RESOURCES, OPT_JSON };

static const struct option everywhere[] = {
    {"journal", required_argument, NULL, OPT_JOURNAL},
    {"resources", required_argument, NULL, OPT_RESOURCES},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};
static struct option table[OPTIONS_MOST];

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

void rt_args_rewind(void)
{
    optind = 0; /* glibc: begin anew, with another argv */
    opterr = 0;
}

int rt_args_next(struct rt_args *args, int argc, char **argv, const char *letters,
                 const struct option *options)
{
    int c;

    fill_table(options);
    while ((c = getopt_long(argc, argv, letters, table, NULL)) >= OPT_JOURNAL) {
        if (c == OPT_JSON)
            args->json = true;
        else if (optarg[0] == '\0')
            return ':';
        else
            *(c == OPT_JOURNAL ? &args->journal : &args->resources) = optarg;
    }
    return c;
}

int rt_args_usage(const char *command, const char *format, ...)
{
    char line[512], full[32] = "txn";
    va_list list;

    if (command != NULL)
        snprintf(full, sizeof(full), "txn %s", command);
    va_start(list, format);
    vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    return rt_out_usage(full, "%s", line);
}

int rt_args_other(const char *command, char **argv, int c)
{
    const char *word = argv[optind - 1];

    if (c == 'h')
        return rt_job_help(command != NULL ? rt_job_find(command) : NULL);
    if (c == ':')
        return rt_args_usage(command, "option '%s' needs a value", word);
    if (optopt > 0 && optopt < 128 && strncmp(word, "--", 2) != 0)
        return rt_args_usage(command, "option '-%c' is not known", optopt);
    return rt_args_usage(command, "option '%s' is not known, or takes no value", word);
}

/* ---- Ids -------------------------------------------------------------------- */

bool rt_args_read_id(const char *text, struct rt_txn_id *id, int64_t *deadline_ms)
{
    struct rt_name name = {.deadline_ms = -1};

    if (!rt_name_ticket_parse(text, &name) && !rt_txn_id_read(text, &name.id))
        return false;
    *id = name.id;
    *deadline_ms = name.deadline_ms;
    return true;
}

int rt_args_id(const char *command, int argc, char **argv, struct rt_txn_id *id)
{
    int64_t deadline;

    if (argc == 0)
        return rt_args_usage(command, "the transaction id is missing");
    if (argc > 1)
        return rt_args_usage(command, "unexpected argument '%s'", argv[1]);
    if (!rt_args_read_id(argv[0], id, &deadline))
        return rt_args_usage(
            command,
            "'%.80s' is not an id: give 32 hexadecimal digits, as 'rota txn ls' shows them",
            argv[0]);
    return RT_EXIT_OK;
}
