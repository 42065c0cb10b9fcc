/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a case: each is this program again, with one client, told what to do line by line.
 *
 *     acquire NAME [mode=M take=K of=N limit=MS hold=MS at_least=MS linger=MS flags=F]
 *     elect NAME VALUE      release NAME          check NAME
 *     once KEY MS           down NAME OF PARTY    wait NAME OF MS     barrier NAME OF MS
 *     load NAME ROUNDS HISTORY [mode= take= of=]
 *     fork                  a child that lives on; NUMBER is its pid
 *     exit
 *
 * Each is answered by "RV NUMBER", where NUMBER is a fence if there is one. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_SIZE 2048
#define WORDS_MAX 16
#define LOCKS_MAX 16 /* held by one agent at a time */

struct conf_agent {
    pid_t pid;
    int to, from;
    struct conf_agent *next;
};

static struct conf_agent *agents;

/* ---- The case's side ---------------------------------------------------- */

static struct conf_agent *agent_start(const char *ttl)
{
    int to[2], from[2];
    struct conf_agent *agent = calloc(1, sizeof *agent);
    assert_non_null(agent);
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    char program[] = "/proc/self/exe", role[] = "--agent", url[LINE_SIZE], ms[16];
    snprintf(url, sizeof url, "%s", conf.url);
    snprintf(ms, sizeof ms, "%s", ttl);
    char strict[] = "--strict";
    char *argv[] = {program, role, url, ms, (conf.flags & ROTA_STRICT) != 0 ? strict : NULL, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&agent->pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    agent->to = to[1];
    agent->from = from[0];
    agent->next = agents;
    agents = agent;
    int rv = conf_agent_reply(agent, NULL);
    if (rv != 0)
        fail_msg("an agent cannot open %s: %s", conf.url, rota_strerror(rv));
    return agent;
}

struct conf_agent *conf_agent_new(void)
{
    return agent_start("0");
}

struct conf_agent *conf_agent_mortal(void)
{
    return agent_start("3000");
}

pid_t conf_agent_pid(const struct conf_agent *agent)
{
    return agent->pid;
}

__attribute__((format(printf, 2, 0))) static void send_line(struct conf_agent *agent,
                                                            const char *format, va_list args)
{
    char line[LINE_SIZE];
    int n = vsnprintf(line, sizeof line - 1, format, args);
    assert_in_range(n, 1, sizeof line - 2);
    line[n] = '\n';
    assert_int_equal(write(agent->to, line, (size_t)n + 1), n + 1);
}

void conf_agent_send(struct conf_agent *agent, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(agent, format, args);
    va_end(args);
}

int conf_agent_reply(struct conf_agent *agent, uint64_t *number)
{
    char line[64];
    size_t n = 0;
    do {
        struct pollfd wait = {.fd = agent->from, .events = POLLIN};
        int ready = poll(&wait, 1, 2 * (int)CONF_PATIENCE_MS);
        if (ready != 1 || read(agent->from, &line[n], 1) != 1)
            fail_msg("process %d %s", (int)agent->pid, ready == 1 ? "ended" : "does not answer");
    } while (line[n++] != '\n' && n < sizeof line - 1);
    line[n] = '\0';
    char *rest = NULL, *after = NULL;
    int rv = (int)strtol(line, &rest, 10);
    uint64_t got = strtoull(rest, &after, 10);
    assert_true(rest > line && after > rest && *after == '\n');
    if (number != NULL)
        *number = got;
    return rv;
}

int conf_agent_ask(struct conf_agent *agent, uint64_t *number, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(agent, format, args);
    va_end(args);
    return conf_agent_reply(agent, number);
}

static int agent_reap(struct conf_agent *agent)
{
    int status = -1;
    for (struct conf_agent **at = &agents; *at != NULL; at = &(*at)->next) {
        if (*at == agent) {
            *at = agent->next;
            break;
        }
    }
    close(agent->to);
    close(agent->from);
    while (waitpid(agent->pid, &status, 0) == -1 && errno == EINTR)
        ;
    free(agent);
    return status;
}

void conf_agent_end(struct conf_agent *agent)
{
    assert_int_equal(conf_agent_ask(agent, NULL, "exit"), 0);
    int status = agent_reap(agent);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void conf_agent_kill(struct conf_agent *agent)
{
    kill(agent->pid, SIGKILL);
    agent_reap(agent);
}

void conf_agents_end(void)
{
    while (agents != NULL)
        conf_agent_kill(agents);
}

/* ---- The agent's side --------------------------------------------------- */

struct held {
    char name[256];
    struct rota_lock *lock;
};

struct agent {
    struct rota *r;
    struct held held[LOCKS_MAX];
    char *words[WORDS_MAX];
    size_t count;
};

static const char *word(const struct agent *a, size_t i)
{
    return i < a->count ? a->words[i] : "";
}

static uint64_t word_number(const struct agent *a, size_t i)
{
    return strtoull(word(a, i), NULL, 10);
}

/* The value of KEY=... among the words, or 0. */
static uint64_t option(const struct agent *a, const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 2; i < a->count; i++) {
        if (strncmp(a->words[i], key, length) == 0 && a->words[i][length] == '=')
            return strtoull(a->words[i] + length + 1, NULL, 10);
    }
    return 0;
}

static struct rota_ask ask_of(const struct agent *a)
{
    return (struct rota_ask){.mode = (uint32_t)option(a, "mode"),
                             .take = (uint32_t)option(a, "take"),
                             .of = (uint32_t)option(a, "of"),
                             .flags = (uint32_t)option(a, "flags"),
                             .limit_ms = option(a, "limit"),
                             .hold_ms = option(a, "hold"),
                             .at_least_ms = option(a, "at_least"),
                             .linger_ms = option(a, "linger")};
}

static struct held *held_find(struct agent *a, const char *name)
{
    for (size_t i = 0; i < LOCKS_MAX; i++) {
        if (strcmp(a->held[i].name, name) == 0)
            return &a->held[i];
    }
    return NULL;
}

static int do_acquire(struct agent *a, uint64_t *number)
{
    struct rota_ask ask = ask_of(a);
    struct held *held = held_find(a, "");
    bool elects = strcmp(word(a, 0), "elect") == 0;
    if (held == NULL)
        return ROTA_INTERNAL;
    int rv = elects ? rota_elect(a->r, word(a, 1), word(a, 2), NULL, &held->lock)
                    : rota_acquire(a->r, word(a, 1), &ask, &held->lock);
    if (rv != 0)
        return rv;
    snprintf(held->name, sizeof held->name, "%s", word(a, 1));
    *number = rota_fence(held->lock);
    return 0;
}

static int do_held(struct agent *a, uint64_t *number)
{
    struct held *held = held_find(a, word(a, 1));
    (void)number;
    if (held == NULL)
        return ROTA_INTERNAL;
    if (strcmp(word(a, 0), "check") == 0)
        return rota_check(held->lock);
    held->name[0] = '\0';
    return rota_release(held->lock);
}

static int do_counted(struct agent *a, uint64_t *number)
{
    const char *what = word(a, 0), *name = word(a, 1);
    uint32_t of = (uint32_t)word_number(a, 2);
    if (strcmp(what, "once") == 0)
        return rota_once(a->r, name, word_number(a, 2), number);
    if (strcmp(what, "down") == 0)
        return rota_latch_down(a->r, name, of, a->count > 3 ? word(a, 3) : NULL);
    if (strcmp(what, "wait") == 0)
        return rota_latch_wait(a->r, name, of, word_number(a, 3));
    return rota_barrier(a->r, name, of, word_number(a, 3));
}

static int do_load(struct agent *a, uint64_t *number)
{
    (void)number;
    struct conf_load load = {
        .r = a->r, .name = word(a, 1), .rounds = (unsigned)word_number(a, 2), .ask = ask_of(a)};
    int rv = conf_history_attach(word(a, 3));
    if (rv != 0)
        return rv;
    conf_load_run(&load);
    return load.rv;
}

static int do_fork(struct agent *a, uint64_t *number)
{
    (void)a;
    pid_t pid = fork();
    if (pid == 0) {
        close(STDOUT_FILENO);
        alarm(60); /* nobody waits for it */
        for (;;)
            pause();
    }
    *number = (uint64_t)pid;
    return pid > 0 ? 0 : ROTA_INTERNAL;
}

static const struct {
    const char *word;
    int (*run)(struct agent *a, uint64_t *number);
} commands[] = {
    {"acquire", do_acquire}, {"elect", do_acquire}, {"release", do_held}, {"check", do_held},
    {"once", do_counted},    {"down", do_counted},  {"wait", do_counted}, {"barrier", do_counted},
    {"load", do_load},       {"fork", do_fork},
};

static int command_run(struct agent *a, char *line, uint64_t *number)
{
    char *save = NULL;
    a->count = 0;
    for (char *w = strtok_r(line, " \n", &save); w != NULL && a->count < WORDS_MAX;
         w = strtok_r(NULL, " \n", &save))
        a->words[a->count++] = w;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(word(a, 0), commands[i].word) == 0)
            return commands[i].run(a, number);
    }
    return ROTA_INTERNAL;
}

static void answer(int rv, uint64_t number)
{
    printf("%d %" PRIu64 "\n", rv, number);
    fflush(stdout);
}

int conf_agent_main(int argc, char **argv)
{
    static struct agent a;
    char line[LINE_SIZE];
    struct rota_options opts = {.call_ms = CONF_CALL_MS};
    if (argc < 4)
        return 64;
    opts.ttl_ms = (uint32_t)strtoul(argv[3], NULL, 10);
    if (argc > 4)
        opts.flags = ROTA_STRICT;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int rv = rota_open(&a.r, argv[2], &opts);
    if (rv != 0)
        fprintf(stderr, "agent: %s\n", rota_errmsg(NULL));
    answer(rv, 0);
    while (rv == 0 && fgets(line, sizeof line, stdin) != NULL) {
        uint64_t number = 0;
        if (strcmp(line, "exit\n") == 0)
            break;
        int err = command_run(&a, line, &number);
        if (err == ROTA_INTERNAL)
            fprintf(stderr, "agent: %s: %s\n", a.words[0], rota_errmsg(a.r));
        answer(err, number);
    }
    rota_close(a.r);
    conf_history_end();
    answer(0, 0);
    return rv == 0 ? 0 : 1;
}
