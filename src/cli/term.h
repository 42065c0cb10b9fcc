/* SPDX-License-Identifier: Apache-2.0 */
/* Takes over the terminal for a while: another screen, keys as they are pressed; afterwards all is as before, however
 * it ends, except by kill -9. */
#ifndef RT_TERM_H
#define RT_TERM_H

#include <stdbool.h>
#include <stddef.h>

struct rt_term_size {
    int rows, columns;
};

/* Takes over stdin and stdout, which are terminals. RT_EXIT_OK, or a message was printed. */
int rt_term_open(void);
void rt_term_close(void);

struct rt_term_size rt_term_size(void);

enum rt_term_event {
    RT_TERM_TIME,    /* the time is up */
    RT_TERM_READY,   /* the other descriptor is readable */
    RT_TERM_KEY,     /* *KEY was pressed */
    RT_TERM_RESIZED, /* or shown again after Ctrl-Z: draw it all */
    RT_TERM_END,     /* a signal, *KEY its number, or nobody is there any more (0) */
};

/* Readable when rt_term_wait has a signal to report. */
int rt_term_signal_fd(void);

/* Waits for TIMEOUT_MS at most, and for FD to become readable. */
enum rt_term_event rt_term_wait(int timeout_ms, int fd, int *key);

/* Writes TEXT whole; false: nobody reads any more. */
bool rt_term_write(const char *text, size_t size);

#endif
