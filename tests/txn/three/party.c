/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "party.h"

#include "lib/proc.h"
#include "lib/servers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Processes of rota-txn ---------------------------------------------------------- */

struct party first, second, chair, tool_party = {.name = "tool"};
const char *program, *with_points, *token, *waits, *within;
char journal[400], resources[400];

static int exec_party(int index, void *arg)
{
    const struct party *p = arg;
    (void)index;
    int fd = open(p->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    if (p->terminal != NULL)
        dup2(open(p->terminal, O_RDWR | O_NOCTTY | O_CLOEXEC), 2);
    if (p->point != NULL)
        setenv("ROTA_POINT", p->point, 1);
    execv(p->words[0], (char *const *)(const void *)p->words);
    return 125;
}

static char log_text[65536]; /* as it was read last */

bool log_has(const struct party *p, const char *text)
{
    FILE *file = fopen(p->log, "re");
    size_t n = file != NULL ? fread(log_text, 1, sizeof(log_text) - 1, file) : 0;
    log_text[n] = '\0';
    if (file != NULL)
        fclose(file);
    return strstr(log_text, text) != NULL;
}

void wait_for_log(const struct party *p, const char *text)
{
    rt_watchdog(LIMIT_S, text);
    while (!log_has(p, text))
        poll(NULL, 0, 10);
}

void wait_for_screen(int fd, const char *text)
{
    static char screen[4096];
    static size_t size;
    rt_watchdog(LIMIT_S, text);
    while (strstr(screen, text) == NULL) {
        ssize_t n = read(fd, screen + size, sizeof(screen) - 1 - size);
        if (n <= 0)
            fail_msg("no '%s' in %s", text, screen);
        size += (size_t)n;
    }
}

void start(struct party *p)
{
    unlink(p->log);
    p->pid = rt_proc_start(exec_party, 0, p);
    wait_for_log(p, "port ");
}

void take_address(struct party *p, const char *name)
{
    p->port = rt_port_reserve(&p->anchor);
    p->name = name;
    snprintf(p->listen, sizeof(p->listen), "127.0.0.1:%u", p->port);
    snprintf(p->url, sizeof(p->url), "%s=http://127.0.0.1:%u", name, p->port);
    snprintf(p->log, sizeof(p->log), "%s/%s.log", rt_tmpdir(), name);
}

void start_participant(struct party *p)
{
    static char *urls[2];
    int i = p == &second;
    free(urls[i]);
    urls[i] = p->site->url(0);
    const char *words[] = {program, "participant", "--listen", p->listen,
                           urls[i], NULL,          NULL,       NULL};
    if (token != NULL) {
        words[5] = "--token-file";
        words[6] = token;
    }
    memcpy(p->words, words, sizeof(words));
    start(p);
}

static void coordinate(const char *on_timeout, char sql[2][200], const char *t1, const char *t2)
{
    const char *words[] = {chair.point != NULL ? with_points : program,
                           "--journal",
                           journal,
                           "--resources",
                           resources,
                           "three",
                           "--listen",
                           chair.listen,
                           "--part",
                           first.url,
                           "--part",
                           second.url,
                           "--sql",
                           sql[0],
                           "--sql",
                           sql[1],
                           "--on-timeout",
                           on_timeout,
                           "--promise",
                           t1,
                           "--patience",
                           "60s",
                           "--ready",
                           t2,
                           waits != NULL    ? "--wait"
                           : within != NULL ? "--for"
                           : token != NULL  ? "--token-file"
                                            : NULL,
                           waits != NULL    ? waits
                           : within != NULL ? within
                                            : token,
                           NULL};
    memcpy(chair.words, words, sizeof(words));
    start(&chair);
}

void start_coordinator(const char *on_timeout, long long row, const char *t1, const char *t2)
{
    static char sql[2][200];
    snprintf(sql[0], sizeof(sql[0]), "%s=INSERT INTO work VALUES (%lld)", first.name, row);
    snprintf(sql[1], sizeof(sql[1]), "%s=INSERT INTO work VALUES (%lld)", second.name, row);
    coordinate(on_timeout, sql, t1, t2);
}

void start_coordinator_of(const char *at_first, const char *at_second)
{
    static char sql[2][200];
    snprintf(sql[0], sizeof(sql[0]), "%s=%s", first.name, at_first);
    snprintf(sql[1], sizeof(sql[1]), "%s=%s", second.name, at_second);
    coordinate("block", sql, "60s", "120s");
}

void start_server(void)
{
    chair.point = NULL;
    const char *words[] = {program, "--journal", journal,      "--resources", resources,
                           "three", "--listen",  chair.listen, "--serve",     NULL};
    memcpy(chair.words, words, sizeof(words));
    start(&chair);
}

void end(struct party *p)
{
    kill(p->pid, SIGTERM);
    assert_int_equal(rt_proc_wait(p->pid), 0);
}

void tool_says(int code, const char *text, const char *one, const char *two, const char *three,
               const char *four)
{
    struct party *t = &tool_party;
    snprintf(t->log, sizeof(t->log), "%s/tool.log", rt_tmpdir());
    unlink(t->log);
    const char *words[] = {program, "--journal", journal, "--resources", resources,
                           one,     two,         three,   four,          NULL};
    memcpy(t->words, words, sizeof(words));
    int ended = rt_proc_wait(rt_proc_start(exec_party, 0, t));
    bool says = log_has(t, text);
    if (ended != code || !says)
        fail_msg("%s %s: ended with %d, not with %d and \"%s\": %s", one, two, ended, code, text,
                 log_text);
}

void tool(const char *one, const char *two)
{
    tool_says(0, "", one, two, NULL, NULL);
}

void id_of_chair(char id[33])
{
    char line[200];
    FILE *log = fopen(chair.log, "re");
    assert_non_null(log);
    id[0] = '\0';
    while (fgets(line, sizeof(line), log) != NULL)
        if (strstr(line, " begun") != NULL)
            snprintf(id, 33, "%.32s", line);
    fclose(log);
    assert_int_equal(strlen(id), 32);
}

/* ---- What the databases say ----------------------------------------------------------- */

long long promise(const struct party *p, const char *what)
{
    char sql[200];
    snprintf(
        sql, sizeof(sql),
        "SELECT COALESCE(MAX(%s), -1) FROM rota_promise WHERE until_ms = (SELECT MAX(until_ms) "
        "FROM rota_promise WHERE stance > 0) AND stance > 0",
        what);
    return p->site->number(sql);
}

void wait_for(const struct party *p, const char *what, long long value)
{
    char why[100];
    snprintf(why, sizeof(why), "%s at %s is not %lld", what, p->name, value);
    rt_watchdog(LIMIT_S, why);
    while (promise(p, what) != value)
        poll(NULL, 0, 10);
}

void forget_promises(void)
{
    first.site->admin("DELETE FROM rota_promise WHERE stance > 0");
    second.site->admin("DELETE FROM rota_promise WHERE stance > 0");
}

void answers(const struct party *p, const char *words, const char *line)
{
    char command[200], text[2048] = "";
    snprintf(command, sizeof(command), "curl -s %s http://127.0.0.1:%u/metrics", words, p->port);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t n = fread(text, 1, sizeof(text) - 1, pipe);
    pclose(pipe);
    text[n] = '\0';
    if (strstr(text, line) == NULL)
        fail_msg("no %s in %s", line, text);
}

void metric_is(const struct party *p, const char *line)
{
    answers(p, "", line);
}
