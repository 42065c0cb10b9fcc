/* SPDX-License-Identifier: Apache-2.0 */
/* How cost grows, on servers of ours: the tables of docs/scale.md, that of rota bench and what it cannot know. */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include "bench.h"

struct scale_place { /* functions end the program on any error */
    const char *name;
    const char *url;
    pid_t server;       /* 0: there is none */
    void (*down)(void); /* kill -9; NULL: what has no server cannot fail like one */
    void (*up)(void);   /* again, with its data; returns when it serves */
    long (*kept)(void); /* keys, rows or nodes that there are; NULL: not counted */
    /* The same by hand, on the bare server; both may be NULL. */
    double (*locks_s)(
        int n); /* N rows or keys made, all in flight at once; and removed, not timed */
    double (*contended)(int n, double seconds); /* pairs per second of N connections on one row */
};

void scale_run(const struct bench *b, const struct scale_place *at);

#endif
