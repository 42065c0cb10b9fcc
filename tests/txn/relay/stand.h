/* SPDX-License-Identifier: Apache-2.0 */
/* Tools for cases of rota relay consume: the command, run or started, and the files that commands write. */
#ifndef TEST_STAND_H
#define TEST_STAND_H

#include "../event/office.h"
#include "post.h"

#include <sys/types.h>

#define STAND_FILE 4096

extern struct rt_server *stand_server; /* the broker; main.c's */
extern const struct CMUnitTest cases_consume[], cases_receipts[];
extern const size_t cases_consume_count, cases_receipts_count;

/* Sets up what starts the command; before any thread or server. SELF: this program, which is also the clerk. */
void stand_open(const char *self);
void stand_close(void);
/* argv[1] is "clerk": takes the event $ROTA_EVENT_ID in the database argv[2], with its effect, in one transaction. With
 * "kill" it then kills the process that started it, if this was the first time. */
int stand_clerk(char **argv);
const char *stand_self(void);

/* The broker's URL, and where TOPIC is taken from; TOPIC leads there. Static, valid until the next call. */
const char *stand_url(void);
const char *stand_source(const char *topic);
void stand_route(const char *topic);

/* Starts rota-relay with ARGS, up to a NULL. Its output goes to the files "out" and "err" of INDEX (0 or 1). */
pid_t stand_start(int index, ...);
/* The same for another program, with index 0. */
pid_t stand_start_program(const char *program, ...);
int stand_end(pid_t pid); /* waits: its exit code, RT_PROC_SIGNALED + signal */
void stand_kill(pid_t pid, int signo);
/* Runs rota-relay with ARGS (index 0), waits, and returns its exit code. */
int stand_run(const char *first, ...);

/* A file of the case's own: its path; its contents ("": not there); a line of stdout or stderr of INDEX. */
const char *stand_path(const char *name);
const char *stand_text(const char *name);
const char *stand_out(int index);
const char *stand_err(int index);
void stand_clear(void); /* removes all these files */
/* Waits until the file NAME has N lines, or contains TEXT. */
void stand_await_lines(const char *name, size_t n);
void stand_await_text(const char *name, const char *text);
size_t stand_lines(const char *name);

/* One message, confirmed. */
void stand_publish(const char *topic, const char *id, const void *body, size_t size);

#endif
