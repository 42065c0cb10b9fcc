/* SPDX-License-Identifier: Apache-2.0 */
#include "stand.h"

#include "engine/url.h"
#include "lib/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS 40
#define LIMIT_MS 60000
#define SECOND INT64_C(1000000000)

struct order { /* in shared memory: what is started next */
    char program[512];
    char args[ARGS][512];
    size_t count;
    char out[2][256];
};

static struct order *order;
static struct rt_forkserver *forks;
static char self[512];

/* ---- The command ------------------------------------------------------------------------ */

static int become(int index, void *arg)
{
    struct order *o = arg;
    char *argv[ARGS + 2] = {(char[]){"rota-relay"}};

    (void)index;
    for (size_t i = 0; i < o->count; i++)
        argv[i + 1] = o->args[i];
    for (int i = 0; i < 2; i++) {
        int fd = open(o->out[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, i + 1) < 0)
            return 125;
        close(fd);
    }
    execv(o->program, argv);
    return 127;
}

void stand_open(const char *path)
{
    snprintf(self, sizeof(self), "%s", path);
    order = rt_shared_new(sizeof(*order));
    (void)rt_tmpdir();
    setenv("BROKER_USER", "guest", 1); /* of the example */
    setenv("BROKER_PASSWORD", "guest", 1);
    forks = rt_forkserver_start(become, order);
}

void stand_close(void)
{
    rt_forkserver_stop(forks);
    rt_shared_free(order, sizeof(*order));
}

const char *stand_self(void)
{
    return self;
}

static pid_t launch(const char *program, int index, const char *first, va_list args)
{
    static const char *const names[] = {"out", "err"};

    snprintf(order->program, sizeof(order->program), "%s", program);
    order->count = 0;
    for (const char *a = first; a != NULL; a = va_arg(args, const char *)) {
        assert_true(order->count < ARGS && strlen(a) < sizeof(order->args[0]));
        strcpy(order->args[order->count++], a);
    }
    for (int i = 0; i < 2; i++)
        snprintf(order->out[i], sizeof(order->out[i]), "%s/%s%d", rt_tmpdir(), names[i], index);
    return rt_forkserver_spawn(forks, index);
}

pid_t stand_start(int index, ...)
{
    va_list args;

    va_start(args, index);
    pid_t pid = launch(ROTA_RELAY, index, va_arg(args, const char *), args);
    va_end(args);
    return pid;
}

pid_t stand_start_program(const char *program, ...)
{
    va_list args;

    va_start(args, program);
    pid_t pid = launch(program, 0, va_arg(args, const char *), args);
    va_end(args);
    return pid;
}

int stand_end(pid_t pid)
{
    return rt_forkserver_wait(forks, pid);
}

void stand_kill(pid_t pid, int signo)
{
    assert_int_equal(kill(pid, signo), 0);
}

int stand_run(const char *first, ...)
{
    va_list args;

    va_start(args, first);
    pid_t pid = launch(ROTA_RELAY, 0, first, args);
    va_end(args);
    return stand_end(pid);
}

/* ---- Files --------------------------------------------------------------------------------- */

const char *stand_path(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", rt_tmpdir(), name);
    return path;
}

const char *stand_text(const char *name)
{
    static char texts[4][STAND_FILE];
    static unsigned next;
    char *text = texts[next++ % 4];
    int fd = open(stand_path(name), O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, STAND_FILE - 1) : 0;

    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

const char *stand_out(int index)
{
    return stand_text(index == 0 ? "out0" : "out1");
}

const char *stand_err(int index)
{
    return stand_text(index == 0 ? "err0" : "err1");
}

void stand_clear(void)
{
    DIR *dir = opendir(rt_tmpdir());

    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.' && e->d_type == DT_REG)
            unlink(stand_path(e->d_name));
    if (dir != NULL)
        closedir(dir);
}

size_t stand_lines(const char *name)
{
    size_t n = 0;

    for (const char *p = stand_text(name); *p != '\0'; p++)
        n += *p == '\n';
    return n;
}

struct awaited {
    const char *name, *text;
    size_t n;
};

static bool has_come(void *arg)
{
    const struct awaited *a = arg;

    return a->text != NULL ? strstr(stand_text(a->name), a->text) != NULL
                           : stand_lines(a->name) >= a->n;
}

void stand_await_lines(const char *name, size_t n)
{
    struct awaited a = {.name = name, .n = n};

    if (!rt_await(has_come, &a, LIMIT_MS))
        fail_msg("%s has not %zu lines but: %s; said: %s", name, n, stand_text(name), stand_err(0));
}

void stand_await_text(const char *name, const char *text)
{
    struct awaited a = {.name = name, .text = text};

    if (!rt_await(has_come, &a, LIMIT_MS))
        fail_msg("%s has no '%s' but: %s", name, text, stand_text(name));
}

/* ---- The broker --------------------------------------------------------------------------------- */

const char *stand_url(void)
{
    static char url[300];

    POST.url(url, sizeof(url), "", "");
    return url;
}

const char *stand_source(const char *topic)
{
    static char source[128];

    POST.source(source, sizeof(source), topic);
    return source;
}

void stand_route(const char *topic)
{
    POST.route(topic);
}

void stand_publish(const char *topic, const char *id, const void *body, size_t size)
{
    const struct rt_message m = {
        .id = id, .topic = topic, .key = "k 1", .type = "made", .body = body, .size = size};
    const struct rt_broker_options opts = {0};
    struct rt_broker *b = NULL;
    struct rt_url url;
    enum rt_sent sent = RT_SENT_LOST;
    const char *why = NULL;
    char line[RT_BROKER_LINE];

    assert_int_equal(rt_url_parse(&url, stand_url(), line, sizeof(line)), 0);
    if (POST.kind->open(&b, &url, &opts, rt_relay_now() + 60 * SECOND, line, sizeof(line)) != 0)
        fail_msg("%s", line);
    assert_int_equal(POST.kind->publish(b, &m, 1, rt_relay_now() + 60 * SECOND, &sent, &why), 0);
    assert_int_equal(sent, RT_SENT_CONFIRMED);
    POST.kind->close(b);
    rt_url_fini(&url);
}

/* ---- The clerk ------------------------------------------------------------------------------------- */

int stand_clerk(char **argv)
{
    const char *id = getenv("ROTA_EVENT_ID");
    sqlite3 *db = NULL;
    char body[64] = "", sql[200];
    ssize_t n = read(0, body, sizeof(body) - 1);

    if (n < 0 || id == NULL || sqlite3_open(argv[2], &db) != SQLITE_OK)
        return 2;
    sqlite3_busy_timeout(db, LIMIT_MS);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return 3;
    int err = rota_event_take_sqlite(db, "clerk", id);
    snprintf(sql, sizeof(sql), "INSERT INTO effect (what) VALUES ('%.60s')", body);
    if (err == 0 && sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return 4;
    if ((err != 0 && err != ROTA_BUSY) || sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return 5;
    sqlite3_close(db);
    if (err == 0 && argv[3] != NULL && strcmp(argv[3], "kill") == 0)
        kill(getppid(), SIGKILL);
    return 0;
}
