/* SPDX-License-Identifier: Apache-2.0 */
/* A seat at a server: the server's own client, in a separate process, driven line by line. */
#ifndef RT_SEAT_H
#define RT_SEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RT_SEAT_REPLY 16384

struct rt_seat {
    pid_t pid;              /* 0: nobody sits there */
    int to, from;           /* pipes: what it reads, what it writes */
    const char *echo, *end; /* a line of ECHO, "rota-said-N", END makes the client print the word */
    unsigned said;
    size_t got;
    char text[RT_SEAT_REPLY]; /* what came and was not yet taken */
    char reply[RT_SEAT_REPLY];
};

/* Runs ARGV with its input, output and errors in our hands; it dies with us. ECHO and END are for rt_seat_reply; NULL:
 * replies are not marked. 0, or the errno of what failed: then nobody sits there. */
int rt_seat_open(struct rt_seat *seat, char *const *argv, const char *echo, const char *end);

/* Sends LINE. False: the client has gone. */
bool rt_seat_send(struct rt_seat *seat, const char *line);

/* Everything that the client printed in reply to the last line sent, its lines joined by "; ", without the last
 * newline. NULL: it has gone, or said nothing for too long, or a signal came. Valid until the next call. */
const char *rt_seat_reply(struct rt_seat *seat);

/* The next line that it prints by itself, for a seat without an echo. NULL: as above. */
const char *rt_seat_line(struct rt_seat *seat);

/* Waits for its end: the exit code, 128 + n if signal n ended it. Frees the seat. */
int rt_seat_wait(struct rt_seat *seat);

/* Ends it at once, if somebody sits there. Frees the seat. */
void rt_seat_close(struct rt_seat *seat);

#endif
