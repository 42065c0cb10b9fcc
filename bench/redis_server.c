/* SPDX-License-Identifier: Apache-2.0 */
/* A redis-server for the benches, on loopback and a unix socket, gone when they end. */
#include "redis.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_WITHIN_MS 10000

__attribute__((noreturn)) static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "rota-bench: %s: %s\n", what, why);
    exit(1);
}

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        give_up("no port", strerror(errno));
    close(fd);
    return ntohs(at.sin_port);
}

static void become_server(const struct redis *s, const char *folder)
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket",
           s->socket, "--dir", folder, "--logfile", "redis.log", "--save", "", "--appendonly", "no",
           "--daemonize", "no", (char *)NULL);
    fprintf(stderr, "rota-bench: redis-server: %s\n", strerror(errno));
    _exit(127);
}

/* Waits until it answers a PING; false: not in time. */
static bool answers(struct redis *s)
{
    for (int ms = 0; ms < START_WITHIN_MS; ms += 10) {
        redisContext *c = redisConnect("127.0.0.1", s->port);
        redisReply *reply = c != NULL && c->err == 0 ? redisCommand(c, "PING") : NULL;
        bool pong = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        s->control = c;
        if (pong)
            return true;
        if (c != NULL)
            redisFree(c);
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
            return false; /* it said why */
        poll(NULL, 0, 10);
    }
    return false;
}

void redis_start(struct redis *s, const struct bench *b)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/redis", b->folder);
    if (mkdir(folder, 0700) != 0)
        give_up(folder, strerror(errno));
    snprintf(s->socket, sizeof s->socket, "%s/redis/socket", b->folder);
    s->port = free_port();
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d", s->port);
    snprintf(s->unix_url, sizeof s->unix_url, "redis+unix:%s", s->socket);
    s->pid = fork();
    if (s->pid == 0)
        become_server(s, folder);
    if (s->pid < 0 || !answers(s))
        give_up("redis-server", "cannot be started");
}

void redis_stop(struct redis *s)
{
    redisFree(s->control);
    kill(s->pid, SIGTERM);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

redisContext *redis_dial(const struct redis *s, bool by_unix)
{
    redisContext *c = by_unix ? redisConnectUnix(s->socket) : redisConnect("127.0.0.1", s->port);
    if (c == NULL || c->err != 0)
        give_up("redis", c == NULL ? "no memory" : c->errstr);
    return c;
}

redisReply *redis_must(redisContext *c, redisReply *reply)
{
    if (reply == NULL)
        give_up("redis", c->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        give_up("redis", reply->str);
    return reply;
}

redisReply *redis_do(redisContext *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(c, format, args);
    va_end(args);
    return redis_must(c, reply);
}

/* ---- What it says about itself ------------------------------------------ */

/* The number after WHAT, at the beginning of a line of INFO SECTION, and after BEHIND in that line. */
static double number_of(const struct redis *s, const char *section, const char *what,
                        const char *behind)
{
    char line[128];
    double value = 0;
    redisReply *reply = redis_do(s->control, "INFO %s", section);
    snprintf(line, sizeof line, "\n%s", what);
    const char *at = strstr(reply->str, line);
    const char *end = at != NULL ? strchr(at + 1, '\n') : NULL;
    if (at != NULL)
        at = strstr(at, behind);
    if (at != NULL && end != NULL && at < end)
        value = strtod(at + strlen(behind), NULL);
    freeReplyObject(reply);
    return value;
}

double redis_info(const struct redis *s, const char *section, const char *field)
{
    char what[64];
    snprintf(what, sizeof what, "%s:", field);
    return number_of(s, section, what, ":");
}

void redis_forget(const struct redis *s)
{
    freeReplyObject(redis_do(s->control, "CONFIG RESETSTAT"));
}

static double stat_of(const struct redis *s, const char *command, const char *behind)
{
    char what[64];
    snprintf(what, sizeof what, "cmdstat_%s:", command);
    return number_of(s, "commandstats", what, behind);
}

double redis_calls(const struct redis *s, const char *command)
{
    return stat_of(s, command, ":calls=");
}

double redis_usec(const struct redis *s, const char *command)
{
    return stat_of(s, command, ",usec=");
}
