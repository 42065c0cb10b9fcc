/* SPDX-License-Identifier: Apache-2.0 */
/* Servers for tests: child processes that never outlive the test, on ports and folders of their own.
 *
 * Each is in a process group of its own and dies (SIGKILL) with the thread that started it: start
 * servers from the main thread. If something is unavailable, the test aborts with the end of the
 * server's log. Not for use from several threads at once. */
#ifndef RT_SERVERS_H
#define RT_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A free port of 127.0.0.1 that stays ours: *ANCHOR is bound to it without listening, so that nobody
 * else is given it, but a server that sets SO_REUSEADDR can listen there. */
uint16_t rt_port_reserve(int *anchor);

#define RT_SERVER_ARGS_MAX 96

struct rt_server {
    char name[32];
    char dir[256]; /* its folder; its log is dir/log */
    char *argv[RT_SERVER_ARGS_MAX + 1];
    size_t argc;
    uint16_t port;
    int anchor;
    pid_t pid; /* 0: does not run */
    struct rt_server *next;
};

/* Makes the folder and reserves the port; starts nothing. PROGRAM is looked for in the path. */
void rt_server_init(struct rt_server *s, const char *name, const char *program);
/* The same with its folder under BASE: rt_tmpdir() or rt_memdir(). */
void rt_server_init_in(struct rt_server *s, const char *base, const char *name,
                       const char *program);
/* One argument, formatted; legal while it does not run. */
void rt_server_arg(struct rt_server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Kills it if it runs, removes the folder, frees. A zeroed struct is legal. */
void rt_server_fini(struct rt_server *s);

void rt_server_start(struct rt_server *s); /* returns at once: see rt_server_await */
void rt_server_kill(
    struct rt_server *s); /* kill -9 of its group, and waits; legal if it does not run */
void rt_server_term(struct rt_server *s); /* SIGTERM, waits for its orderly end */
void rt_server_stop(struct rt_server *s); /* SIGSTOP, and waits until it stands still */
void rt_server_cont(struct rt_server *s);

/* Asks READY again and again until it says true. Ends the test if the server ends first,
 * or after LIMIT_MS, times $ROTA_PATIENCE. */
typedef bool rt_server_ready_fn(struct rt_server *s, void *arg);
void rt_server_await(struct rt_server *s, rt_server_ready_fn *ready, void *arg, unsigned limit_ms);
/* For READY: its port accepts connections. */
bool rt_server_accepts(struct rt_server *s, void *unused);

/* Asks UNTIL every few milliseconds; false: not within LIMIT_MS, times $ROTA_PATIENCE. */
bool rt_await(bool (*until)(void *arg), void *arg, unsigned limit_ms);

#endif
