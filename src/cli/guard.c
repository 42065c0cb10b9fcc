/* SPDX-License-Identifier: Apache-2.0 */
/* rota guard: checks the fence where the data is. Replaces a file; prints the lines for databases. */
#include "cli/cli.h"
#include "cli/guard_lines.h"
#include "cli/options.h"
#include "cli/out.h"

#include <rota_guard.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char rt_help_guard[] =
    "Usage: rota guard file [--look] [--fence N] PATH\n"
    "  or:  rota guard postgres|mysql [--table T] [--key COLUMN] [--set SQL]\n"
    "  or:  rota guard redis|etcd --key KEY\n"
    "The check that a lock cannot do: what is written to refuses an older fence.\n"
    "\n"
    "  file      replaces PATH by standard input, whole or not at all, unless a later\n"
    "            fence was there: exit 76, nothing changed\n"
    "  postgres  prints lines for psql, ready for a shell; the other three too:\n"
    "  mysql     for mariadb or mysql\n"
    "  redis     for redis-cli\n"
    "  etcd      for etcdctl\n"
    "\n"
    "      --look        claim PATH and print it: do so before you change it\n"
    "      --fence N     the fence; without it $ROTA_FENCE, which rota run sets\n"
    "      --table T     your table; without it a table rota_guard for all\n"
    "      --key K       the column of the row's key (id); the key in Redis or etcd\n"
    "      --column C    the column for the fence (fence)\n"
    "      --set SQL     what to change: 'balance = balance - 10'\n"
    "\n"
    "Exit: 0; 76 a later fence was there; 64 wrong usage; 74 the file cannot be\n"
    "read or written.\n"
    "\n"
    "  rota run deploy -- sh -c './render | rota guard file /etc/app.conf'\n";

#define KEY_MOST 1024
#define INPUT_STEP ((size_t)1 << 16)

struct guard {
    const char *what;
    const char *fence, *path;
    struct rt_guard_lines lines;
    bool look, help;
};

enum { OPT_LOOK = 256, OPT_FENCE, OPT_TABLE, OPT_KEY, OPT_COLUMN, OPT_SET };

static const struct {
    const char *name;
    rt_guard_lines_fn *print; /* NULL: the file */
    bool sql;
} kinds[] = {
    {"file", NULL, false},
    {"postgres", rt_guard_lines_postgres, true},
    {"mysql", rt_guard_lines_mysql, true},
    {"redis", rt_guard_lines_redis, false},
    {"etcd", rt_guard_lines_etcd, false},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- Options ------------------------------------------------------------- */

static int parse_option(struct guard *g, int c, char **argv)
{
    switch (c) {
    case OPT_LOOK:
        g->look = true;
        return RT_EXIT_OK;
    case OPT_FENCE:
        g->fence = optarg;
        return RT_EXIT_OK;
    case OPT_TABLE:
        g->lines.table = optarg;
        return RT_EXIT_OK;
    case OPT_KEY:
        g->lines.key = optarg;
        return RT_EXIT_OK;
    case OPT_COLUMN:
        g->lines.column = optarg;
        return RT_EXIT_OK;
    case OPT_SET:
        g->lines.set = optarg;
        return RT_EXIT_OK;
    case 'h':
        g->help = true;
        return rt_help_print(rt_command_find("guard"));
    default:
        return rt_options_complain("guard", argv, c);
    }
}

static int parse_options(struct guard *g, int argc, char **argv)
{
    static const struct option options[] = {
        {"look", no_argument, NULL, OPT_LOOK},
        {"fence", required_argument, NULL, OPT_FENCE},
        {"table", required_argument, NULL, OPT_TABLE},
        {"key", required_argument, NULL, OPT_KEY},
        {"column", required_argument, NULL, OPT_COLUMN},
        {"set", required_argument, NULL, OPT_SET},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = rt_options_next(argc, argv, "+:h", options)) != -1) {
        int code = parse_option(g, c, argv);
        if (code != RT_EXIT_OK || g->help)
            return code;
    }
    return RT_EXIT_OK;
}

/* Options may stand anywhere. */
static int parse(struct guard *g, int argc, char **argv)
{
    optind = 0; /* glibc: begin anew, with another argv */
    for (;;) {
        int code = parse_options(g, argc, argv);
        if (code != RT_EXIT_OK || g->help)
            return code;
        if (optind >= argc)
            return g->what != NULL
                       ? RT_EXIT_OK
                       : rt_out_usage("guard", "say what: file, postgres, mysql, redis or etcd");
        const char *word = argv[optind++];
        if (g->what == NULL)
            g->what = word;
        else if (g->path == NULL)
            g->path = word;
        else
            return rt_out_usage("guard", "'%s' is one word too many", word);
    }
}

/* ---- Lines --------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static int check_lines(const struct guard *g, bool sql)
{
    const char *const texts[] = {g->lines.table, g->lines.key, g->lines.column, g->lines.set};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i] != NULL &&
            (texts[i][0] == '\0' || strlen(texts[i]) > KEY_MOST || !is_plain(texts[i])))
            return rt_out_usage(
                "guard", "a name has 1 to %d characters, none of them a control one", KEY_MOST);
    if (g->path != NULL || g->look || g->fence != NULL)
        return rt_out_usage("guard", "PATH, --look and --fence go with 'file' only");
    if (!sql && (g->lines.table != NULL || g->lines.column != NULL || g->lines.set != NULL))
        return rt_out_usage("guard", "%s has no tables: --key only", g->what);
    if (!sql && g->lines.key == NULL)
        return rt_out_usage("guard", "--key is missing");
    if (sql && g->lines.table == NULL &&
        (g->lines.key != NULL || g->lines.column != NULL || g->lines.set != NULL))
        return rt_out_usage("guard", "--key, --column and --set go with --table");
    return RT_EXIT_OK;
}

static int print_lines(struct guard *g, rt_guard_lines_fn *print, bool sql)
{
    int code = check_lines(g, sql);
    if (code != RT_EXIT_OK)
        return code;
    if (sql && g->lines.key == NULL)
        g->lines.key = "id";
    if (g->lines.column == NULL)
        g->lines.column = "fence";
    print(&g->lines);
    return rt_out_flush();
}

/* ---- The file ------------------------------------------------------------ */

static int report(int err)
{
    rt_out_error("%s", rota_errmsg(NULL));
    switch (err) {
    case ROTA_LOST:
        return RT_EXIT_LOST;
    case ROTA_NOMEM:
        return RT_EXIT_INTERNAL;
    default:
        return RT_EXIT_IOERR;
    }
}

/* Reads all of FD into *OUT, which the caller frees. */
static int read_all(int fd, char **out, size_t *size)
{
    size_t room = 0;

    *out = NULL;
    *size = 0;
    for (;;) {
        if (*size == room) {
            room = room * 2 + INPUT_STEP;
            char *larger = realloc(*out, room);
            if (larger == NULL) {
                rt_out_error("out of memory");
                return RT_EXIT_INTERNAL;
            }
            *out = larger;
        }
        ssize_t n = read(fd, *out + *size, room - *size);
        if (n == 0)
            return RT_EXIT_OK;
        if (n > 0)
            *size += (size_t)n;
        else if (errno != EINTR) {
            rt_out_error("cannot read: %s", strerror(errno));
            return RT_EXIT_IOERR;
        }
    }
}

static int replace(const char *path, uint64_t fence)
{
    char *bytes;
    size_t size;

    int code = read_all(STDIN_FILENO, &bytes, &size);
    if (code == RT_EXIT_OK) {
        int err = rota_guard_file(path, fence, bytes, size);
        if (err != 0)
            code = report(err);
    }
    free(bytes);
    return code;
}

static int look_at(const char *path, uint64_t fence)
{
    char *bytes = NULL;
    size_t size;

    int err = rota_guard_file(path, fence, NULL, 0);
    if (err != 0)
        return report(err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        rt_out_error("cannot read '%.200s': %s", path, strerror(errno));
        return RT_EXIT_IOERR;
    }
    int code = read_all(fd, &bytes, &size);
    close(fd);
    if (code == RT_EXIT_OK) {
        fwrite(bytes, 1, size, stdout);
        code = rt_out_flush();
    }
    free(bytes);
    return code;
}

static int guard_file(const struct guard *g)
{
    const char *text = g->fence != NULL ? g->fence : getenv("ROTA_FENCE");
    uint64_t fence;

    if (g->path == NULL)
        return rt_out_usage("guard", "the path of the file is missing");
    if (g->lines.table != NULL || g->lines.key != NULL || g->lines.column != NULL ||
        g->lines.set != NULL)
        return rt_out_usage("guard", "a file has no tables and keys");
    if (text == NULL)
        return rt_out_usage("guard",
                            "there is no $ROTA_FENCE: run it under 'rota run', or say --fence");
    if (!rt_options_number(text, 1, INT64_MAX, &fence))
        return rt_out_usage("guard", "'%s' is no fence", text);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file size is an error, not our end */
    return g->look ? look_at(g->path, fence) : replace(g->path, fence);
}

int rt_guard_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct guard g = {.what = NULL};

    (void)cli; /* the lock may be on any engine: only the fence counts */
    int code = parse(&g, argc, argv);
    if (code != RT_EXIT_OK || g.help)
        return code;
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(g.what, kinds[i].name) != 0)
            continue;
        return kinds[i].print != NULL ? print_lines(&g, kinds[i].print, kinds[i].sql)
                                      : guard_file(&g);
    }
    return rt_out_usage("guard", "there is no guard for '%s': file, postgres, mysql, redis, etcd",
                        g.what);
}
