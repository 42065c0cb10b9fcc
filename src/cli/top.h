/* SPDX-License-Identifier: Apache-2.0 */
/* A look at all lines, for rota top: what it found, and its forms. */
#ifndef RT_TOP_H
#define RT_TOP_H

#include "cli/lines.h"
#include "cli/rates.h"

struct rt_top_row {
    const struct rota_line *line;
    size_t holders, waiters;
    double rate;          /* -1: not known */
    int64_t held, waited; /* ms; -1: nobody does, or not known */
};

struct rt_top {
    struct rota *r;
    char engine[512];
    uint64_t delay_ms;
    bool once, json;
    bool shown; /* help was asked for */
    bool live;  /* more than one look: there are rates */
    struct rt_rates rates;
    struct rt_lines lines;
    struct rt_top_row *rows; /* [lines.count] */
    size_t holders, waiters;
    double rate;
    int err; /* of the last look */
};

/* Looks again: sets rows and sums, or err with the client's message. False: rota_interrupt broke it off, and all is as
 * it was. */
bool rt_top_look(struct rt_top *top);

/* Prints one JSON object per look on stdout, until a signal comes or nobody reads it, or just one with top->once.
 * Returns the exit code. */
int rt_top_json(struct rt_top *top);

/* A clock that only goes forward. */
int64_t rt_top_now_ms(void);

#endif
