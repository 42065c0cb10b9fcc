/* SPDX-License-Identifier: Apache-2.0 */
/* One flash sale: many processes sell one stock at once, with or without a lock. */
#ifndef RT_SALE_H
#define RT_SALE_H

#include <stdbool.h>
#include <stdint.h>

#define RT_SALE_BUYERS_MAX 64 /* processes; more show nothing new and start more slowly */
#define RT_SALE_STOCK_MAX 10000

struct rt_sale {
    const char *path;  /* the stock's file, which is made */
    const char *url;   /* the engine; NULL: no lock at all */
    const char *name;  /* of the lock */
    const char *title; /* for the progress line */
    uint32_t buyers, stock;
    /* answered */
    uint64_t sold;
    uint64_t least, most; /* by one buyer */
    uint32_t left;        /* what the file says at the end */
    double seconds;       /* without the buyers' start */
    double longest_ms;    /* that a buyer waited for its turn */
    uint64_t retries;     /* of all: repeated asks while another held */
};

/* Holds the sale. On a terminal, stderr shows its progress after a second. Returns an exit code; if that is not
 * RT_EXIT_OK a message was printed, or a signal ended it. No client may be open in the calling process: it forks. */
int rt_sale_hold(struct rt_sale *sale);

/* Makes SIGINT, SIGTERM and SIGHUP end a sale in an orderly way: rt_sale_hold returns 128 + n. */
void rt_sale_catch_signals(void);

#endif
