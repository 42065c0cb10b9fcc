/* SPDX-License-Identifier: Apache-2.0 */
/* The command rota-txn, also 'rota txn': options for all, and the table of commands. */
#include "cli/out.h"
#include "txn/cli/args.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

const struct rt_job rt_jobs[] = {
    {"ls", "list transactions that are open or not finished", rt_job_help_ls, rt_job_ls},
    {"show", "show one: its branches, and what each database has", rt_job_help_show, rt_job_show},
    {"outcome", "say how one ended", rt_job_help_outcome, rt_job_outcome},
    {"settle", "the same, but abort it now if it is open", rt_job_help_settle, rt_job_settle},
    {"indoubt", "show what is prepared in the databases, and who waits", rt_job_help_indoubt,
     rt_job_indoubt},
    {"resolve", "finish one by hand when recovery cannot", rt_job_help_resolve, rt_job_resolve},
    {"recover", "finish what dead processes left; a daemon", rt_job_help_recover, rt_job_recover},
    {"serve", "serve programs that use DTM's clients: tcc, saga, msg", rt_job_help_serve,
     rt_job_serve},
    {"three", "run a three-phase commit over participants", rt_job_help_three, rt_job_three},
    {"participant", "take part in it for a database; a daemon", rt_job_help_participant,
     rt_job_participant},
    {"events", "the outbox: ls, show, replay, dead, stats", rt_job_help_events, rt_job_events},
    {"gc", "forget transactions that are over", rt_job_help_gc, rt_job_gc},
    {"doctor", "check what the journal and databases promise", rt_job_help_doctor, rt_job_doctor},
    {"demo", "a bank whose tellers are killed; an order over three services", rt_job_help_demo,
     rt_job_demo},
    {NULL, NULL, NULL, NULL},
};

static const char help_head[] =
    "Usage: rota txn [OPTION]... COMMAND ...\n"
    "Transactions across several databases: all of it happens, or nothing does.\n";

static const char help_tail[] =
    "\n"
    "      --journal URL     where decisions are kept: file:, postgres://, mysql://,\n"
    "                        etcd://; default: $ROTA_JOURNAL, else this user's file\n"
    "      --resources FILE  the databases and how to reach them, one NAME = URL per\n"
    "                        line; default: ~/.config/rota/txn and /etc/rota/txn\n"
    "      --json            JSON instead of text\n"
    "  -h, --help            'rota txn COMMAND --help' for a command; -V, --version\n"
    "Exit: 1 something needs a person, 64 wrong usage, 69 journal or database not\n"
    "reachable, 75 not in time or a decision stands against it.\n";

const struct rt_job *rt_job_find(const char *name)
{
    for (const struct rt_job *j = rt_jobs; j->name != NULL; j++)
        if (strcmp(j->name, name) == 0)
            return j;
    return NULL;
}

int rt_job_help(const struct rt_job *job)
{
    if (job != NULL) {
        fputs(job->help, stdout);
        return rt_out_flush();
    }
    fputs(help_head, stdout);
    for (const struct rt_job *j = rt_jobs; j->name != NULL; j++)
        printf("  %-11s  %s\n", j->name, j->summary);
    fputs(help_tail, stdout);
    return rt_out_flush();
}

static int help(int argc, char **argv)
{
    const struct rt_job *job = argc > 1 ? rt_job_find(argv[1]) : NULL;

    if (argc > 1 && job == NULL)
        return rt_args_usage(NULL, "unknown command '%s'", argv[1]);
    return rt_job_help(job);
}

/* Nothing we open may land on a standard descriptor that was closed when we began. */
static void occupy_standard(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Passwords that the client libraries keep would be in a core dump, and open to whatever else this user runs. */
static void keep_to_ourselves(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    struct rt_args args = {0};
    int c;

    occupy_standard();
    keep_to_ourselves();
    signal(SIGPIPE, SIG_IGN);
    rt_args_rewind();
    while ((c = rt_args_next(&args, argc, argv, "+:hV", options)) != -1) {
        if (c != 'V')
            return rt_args_other(NULL, argv, c);
        printf("rota-txn %s\n", ROTA_VERSION);
        return rt_out_flush();
    }
    if (optind >= argc)
        return rt_args_usage(NULL, "no command given");
    if (strcmp(argv[optind], "help") == 0)
        return help(argc - optind, argv + optind);
    const struct rt_job *job = rt_job_find(argv[optind]);
    if (job == NULL)
        return rt_args_usage(NULL, "unknown command '%s'", argv[optind]);
    argc -= optind;
    argv += optind;
    rt_args_rewind();
    return job->main(&args, argc, argv);
}
