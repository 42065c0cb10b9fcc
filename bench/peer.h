/* SPDX-License-Identifier: Apache-2.0 */
/* Another client of an engine, in its own language: a child process that is told what to measure, line by line
 * (peers/). */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct peer { /* all zero: there is none */
    pid_t pid;
    FILE *to, *from;
};

/* Starts the program NAME that ninja has put beside us; false: it is not there, or ends at once. It ends with us. */
bool peer_start(struct peer *p, const char *name, const char *endpoint);
void peer_stop(struct peer *p); /* a zeroed struct is legal */
/* Sends it one command. */
__attribute__((format(printf, 2, 3))) void peer_tell(struct peer *p, const char *format, ...);
/* Reads its N numbers; ends the program if they do not come. */
void peer_hear(struct peer *p, double *numbers, size_t n);
/* Both, for one number. */
__attribute__((format(printf, 2, 3))) double peer_ask(struct peer *p, const char *format, ...);

#endif
