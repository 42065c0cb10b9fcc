/* SPDX-License-Identifier: Apache-2.0 */
/* The options of rota run, modelled on flock(1). */
#include "cli/run_options.h"

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/out.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A lost SYN is sent again after a second, and a busy machine may need one to start: not wanting to wait is no reason
 * to fail. */
#define CALL_LEAST_MS 3000
#define CALL_MOST_MS 5000 /* the library's default */

enum { OPT_TAKE = 256, OPT_OF, OPT_TTL, OPT_AT_LEAST, OPT_ON_LOST, OPT_METRICS, OPT_VERBOSE };

static int parse_number(const char *text, const char *option, uint64_t max, uint32_t *out)
{
    uint64_t number;

    if (!rt_options_number(text, 1, max, &number))
        return rt_out_usage("run", "%s '%s' is not a number from 1 to %" PRIu64, option, text, max);
    *out = (uint32_t)number;
    return RT_EXIT_OK;
}

static int parse_duration(const char *text, const char *option, uint64_t *ms)
{
    if (rt_options_duration_ms(text, ms))
        return RT_EXIT_OK;
    if (rt_options_too_long(text))
        return rt_out_usage("run", "%s '%s' is too long: 366d at most", option, text);
    return rt_out_usage("run", "%s '%s' is not a time such as 0.5, 30s, 5m or 1h", option, text);
}

static int parse_ttl(struct rt_hold *hold, const char *text)
{
    uint64_t ms = UINT64_MAX;
    int code = rt_options_too_long(text) ? RT_EXIT_OK : parse_duration(text, "--ttl", &ms);

    if (code != RT_EXIT_OK)
        return code;
    if (ms < 1000 || ms > 3600 * 1000)
        return rt_out_usage("run", "--ttl '%s' is too %s: 1s to 1h", text,
                            ms < 1000 ? "short" : "long");
    hold->options.ttl_ms = (uint32_t)ms;
    return RT_EXIT_OK;
}

static int parse_wait(struct rt_hold *hold, const char *text)
{
    uint64_t ms;
    int code = parse_duration(text, "-w", &ms);

    if (code != RT_EXIT_OK)
        return code;
    hold->ask.limit_ms = ms;
    if (ms == 0) /* for the library no limit; for flock(1) no wait */
        hold->ask.flags |= ROTA_TRY;
    return RT_EXIT_OK;
}

static int parse_busy_exit(struct rt_hold *hold, const char *text)
{
    uint64_t code;

    if (!rt_options_number(text, 0, 255, &code))
        return rt_out_usage("run", "-E '%s' is not an exit code from 0 to 255", text);
    hold->busy_exit = (int)code;
    return RT_EXIT_OK;
}

static int parse_on_lost(struct rt_hold *hold, const char *text)
{
    static const char *const words[] = {
        [RT_ON_LOST_TERM] = "term", [RT_ON_LOST_KILL] = "kill", [RT_ON_LOST_IGNORE] = "ignore"};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            hold->on_lost = (enum rt_on_lost)i;
            return RT_EXIT_OK;
        }
    }
    return rt_out_usage("run", "--on-lost '%s' is not term, kill or ignore", text);
}

static int parse_option(struct rt_hold *hold, int c, char **argv)
{
    switch (c) {
    case 'n':
        hold->ask.flags |= ROTA_TRY;
        return RT_EXIT_OK;
    case 'w':
        return parse_wait(hold, optarg);
    case 'E':
        return parse_busy_exit(hold, optarg);
    case 's':
        hold->ask.mode = ROTA_SHARED;
        return RT_EXIT_OK;
    case 'e':
    case 'x':
        hold->ask.mode = ROTA_EXCLUSIVE;
        return RT_EXIT_OK;
    case 'o': /* the command never gets a descriptor of ours */
        return RT_EXIT_OK;
    case 'F':
        return rt_out_usage("run", "-F cannot be: rota stays to keep the lock; leave it out");
    case 'u':
        return rt_out_usage("run", "-u cannot be: the lock ends with the command");
    case OPT_VERBOSE:
        hold->verbose = true;
        return RT_EXIT_OK;
    case OPT_TAKE:
        return parse_number(optarg, "--take", INT32_MAX, &hold->ask.take);
    case OPT_OF:
        return parse_number(optarg, "--of", INT32_MAX, &hold->ask.of);
    case OPT_TTL:
        return parse_ttl(hold, optarg);
    case OPT_METRICS:
        if (strcmp(optarg, "-") == 0)
            return rt_out_usage("run", "--metrics wants a file: stdout is the command's (one "
                                       "named - is ./-)");
        hold->metrics = optarg;
        hold->options.flags |= ROTA_METRICS;
        return RT_EXIT_OK;
    case OPT_ON_LOST:
        return parse_on_lost(hold, optarg);
    case OPT_AT_LEAST:
        return parse_duration(optarg, "--at-least", &hold->ask.at_least_ms);
    default:
        return rt_options_complain("run", argv, c);
    }
}

static int parse_permits(struct rt_hold *hold)
{
    struct rota_ask *ask = &hold->ask;

    if (ask->take == 0 && ask->of == 0)
        return RT_EXIT_OK;
    if (ask->take == 0 || ask->of == 0)
        return rt_out_usage("run", "--take and --of go together: --take 1 --of 3");
    if (ask->take > ask->of)
        return rt_out_usage("run", "--take %" PRIu32 " is more than --of %" PRIu32, ask->take,
                            ask->of);
    if (ask->mode == ROTA_SHARED)
        return rt_out_usage("run", "-s and --take exclude each other");
    ask->mode = ROTA_PERMITS;
    return RT_EXIT_OK;
}

static bool is_shell_option(const char *word)
{
    return strcmp(word, "-c") == 0 || strcmp(word, "--command") == 0;
}

/* NAME -c WORDS: a shell command, as in flock(1). */
static int parse_shell(struct rt_hold *hold, int argc, char **argv)
{
    if (argc != 2)
        return rt_out_usage("run", "-c takes one word: rota run %s -c 'a && b'", hold->name);
    static char bourne[] = "/bin/sh", option[] = "-c";
    char *shell = getenv("SHELL");
    hold->shell[0] = shell != NULL && shell[0] != '\0' ? shell : bourne;
    hold->shell[1] = option;
    hold->shell[2] = argv[1];
    hold->command = hold->shell;
    return RT_EXIT_OK;
}

static int parse_operands(struct rt_hold *hold, int argc, char **argv)
{
    if (argc == 0)
        return rt_out_usage("run", "the name of the lock is missing");
    hold->name = argv[0];
    argc--, argv++;
    if (argc > 0 && is_shell_option(argv[0]))
        return parse_shell(hold, argc, argv);
    if (argc > 0 && strcmp(argv[0], "--") == 0)
        argc--, argv++;
    else if (argc > 0 && argv[0][0] == '-')
        return rt_out_usage("run", "option '%s' comes too late: options stand before the name",
                            argv[0]);
    if (argc == 0)
        return rt_out_usage("run", "the command is missing: rota run %s -- COMMAND", hold->name);
    hold->command = argv;
    return RT_EXIT_OK;
}

uint32_t rt_run_options_call_ms(const struct rota_ask *ask, const char *url)
{
    bool here = url == NULL || strncmp(url, "file:", 5) == 0;
    bool bound = ask->limit_ms != 0 || (ask->flags & ROTA_TRY) != 0;
    uint64_t ms = (ask->flags & ROTA_TRY) != 0 ? 0 : ask->limit_ms;

    if (here || !bound || ms >= CALL_MOST_MS)
        return 0;
    return ms < CALL_LEAST_MS ? CALL_LEAST_MS : (uint32_t)ms;
}

int rt_run_options_parse(struct rt_hold *hold, int argc, char **argv, bool *done)
{
    static const struct option options[] = {
        {"nonblock", no_argument, NULL, 'n'},
        {"nb", no_argument, NULL, 'n'},
        {"wait", required_argument, NULL, 'w'},
        {"timeout", required_argument, NULL, 'w'},
        {"conflict-exit-code", required_argument, NULL, 'E'},
        {"shared", no_argument, NULL, 's'},
        {"exclusive", no_argument, NULL, 'x'},
        {"close", no_argument, NULL, 'o'},
        {"no-fork", no_argument, NULL, 'F'},
        {"unlock", no_argument, NULL, 'u'},
        {"verbose", no_argument, NULL, OPT_VERBOSE},
        {"take", required_argument, NULL, OPT_TAKE},
        {"of", required_argument, NULL, OPT_OF},
        {"ttl", required_argument, NULL, OPT_TTL},
        {"at-least", required_argument, NULL, OPT_AT_LEAST},
        {"on-lost", required_argument, NULL, OPT_ON_LOST},
        {"metrics", required_argument, NULL, OPT_METRICS},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c, code;

    optind = 0; /* glibc: begin anew, with another argv */
    while ((c = rt_options_next(argc, argv, "+:nw:E:sxeoFuh", options)) != -1) {
        if (c == 'h') {
            *done = true;
            return rt_help_print(rt_command_find("run"));
        }
        code = parse_option(hold, c, argv);
        if (code != RT_EXIT_OK)
            return code;
    }
    code = parse_permits(hold);
    if (code != RT_EXIT_OK)
        return code;
    return parse_operands(hold, argc - optind, argv + optind);
}
