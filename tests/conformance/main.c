/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance suite on one engine: conformance [--ttl=TTL] [--strict] [--alone] URL [WORD]
 *
 * "@TMP@" in the URL stands for a new folder that is removed at the end. With WORD, only cases
 * with that word in their name. --ttl puts ttl=TTL into the URL if it has none: most of the time of a run on a
 * server is waiting for the ends of sessions. --strict opens every client with ROTA_STRICT. --alone leaves out what
 * needs other processes, whose deaths take most of the time, and tries what is random a tenth as often. The program
 * is its own helper process, too: see agent.c. */
#include "suite.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CASES_MAX 300

static const struct conf_case *const topics[] = {
    conf_caps,     conf_input,    conf_exclusion, conf_waiting,  conf_racing,  conf_order,
    conf_reentry,  conf_modes,    conf_sets,      conf_deadlock, conf_looking, conf_timed,
    conf_durable,  conf_election, conf_counting,  conf_death,    conf_names,   conf_fork,
    conf_leftover, conf_async,    conf_scale,
};

static char scratch[256], folder[300], url[1024];
static const char *running; /* for the watchdog */

/* Runs a case, or asserts the refusal of what it needs and the engine lacks. */
static void run_case(void **state)
{
    const struct conf_case *c = *state;
    uint32_t lacks = c->needs & ~conf.caps;
    if ((c->flags & CONF_PROCESSES) != 0 && (conf.alone || !conf_shared_truth()))
        skip();
    if ((c->flags & CONF_ONLY_FILE) != 0 && conf.folder == NULL)
        skip();
    running = c->name;
    if (lacks == 0) {
        c->run();
        return;
    }
    for (uint32_t cap = 1; cap <= lacks; cap <<= 1) {
        if ((lacks & cap) != 0)
            conf_assert_refused(cap);
    }
}

static void on_alarm(int number)
{
    static const char text[] = ": hangs, the watchdog ends the run\n";
    (void)number;
    ssize_t ignored = write(STDERR_FILENO, running, strlen(running));
    ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    abort();
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void put_ttl(const char *ttl)
{
    size_t length = strlen(url);
    if (ttl != NULL && strstr(url, "ttl=") == NULL)
        snprintf(url + length, sizeof url - length, "%cttl=%s",
                 strchr(url, '?') != NULL ? '&' : '?', ttl);
}

/* Fills conf from TEXT, and makes the folders. */
static int prepare(const char *text, const char *ttl)
{
    const char *mark = strstr(text, "@TMP@"), *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/rota-conf.XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(scratch) == NULL)
        return -1;
    snprintf(folder, sizeof folder, "%s/engine", scratch);
    if (mark != NULL)
        snprintf(url, sizeof url, "%.*s%s%s", (int)(mark - text), text, folder, mark + 5);
    else
        snprintf(url, sizeof url, "%s", text);
    put_ttl(ttl);
    conf.url = url;
    conf.scratch = scratch;
    conf.folder = mark != NULL ? folder : NULL;
    struct rota_options opts = {.flags = conf.flags};
    struct rota *r = NULL;
    int rv = rota_open(&r, url, &opts);
    if (rv != 0) {
        fprintf(stderr, "conformance: %s: %s\n", rota_strerror(rv), rota_errmsg(NULL));
        return -1;
    }
    conf.caps = rota_caps(r);
    rota_close(r);
    return 0;
}

static size_t collect(struct CMUnitTest *tests, const char *only)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        for (const struct conf_case *c = topics[i]; c->name != NULL; c++) {
            if (only != NULL && strstr(c->name, only) == NULL)
                continue;
            if (n == CASES_MAX)
                abort();
            tests[n++] = (struct CMUnitTest){.name = c->name,
                                             .test_func = run_case,
                                             .setup_func = conf_case_begin,
                                             .teardown_func = conf_case_end};
            /* cmocka's state is not const, the tables are; nobody writes through it */
            memcpy(&tests[n - 1].initial_state, &c, sizeof c);
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[CASES_MAX];
    if (argc > 1 && strcmp(argv[1], "--agent") == 0)
        return conf_agent_main(argc, argv);
    const char *ttl = NULL;
    if (argc > 1 && strncmp(argv[1], "--ttl=", 6) == 0) {
        ttl = argv[1] + 6;
        argv++;
        argc--;
    }
    if (argc > 1 && strcmp(argv[1], "--strict") == 0) {
        conf.flags = ROTA_STRICT;
        argv++;
        argc--;
    }
    if (argc > 1 && strcmp(argv[1], "--alone") == 0) {
        conf.alone = true;
        argv++;
        argc--;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: conformance [--ttl=TTL] [--strict] [--alone] URL [WORD]\n");
        return 64;
    }
    signal(SIGALRM, on_alarm);
    int failed = 1;
    if (prepare(argv[1], ttl) == 0) {
        size_t n = collect(tests, argc > 2 ? argv[2] : NULL);
        failed = _cmocka_run_group_tests(argv[1], tests, n, NULL, NULL);
    }
    nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return failed != 0;
}
