/* SPDX-License-Identifier: Apache-2.0 */
/* The bank of the demo: half of its accounts are in MariaDB, half in PostgreSQL; tellers, which are processes that are
 * killed again and again, carry coins from one to the other. */
#ifndef RT_BANK_H
#define RT_BANK_H

#include <stdbool.h>
#include <stdint.h>

#define RT_BANK_ACCOUNTS 20 /* in each database */
#define RT_BANK_COINS 100   /* in each account, at first */

enum { RT_BANK_SHOP, RT_BANK_LEDGER, RT_BANK_SITES };

struct rt_bank {
    const char *url[RT_BANK_SITES]; /* MariaDB's, PostgreSQL's */
    const char *journal;            /* NULL: tellers work without transactions */
    uint32_t tellers, kills;
    /* Answered. */
    uint64_t carried; /* transfers reported as committed */
    uint64_t killed;
    uint64_t in_doubt;       /* the most branches prepared at once after a kill */
    long long before, after; /* coins in all accounts */
    char errmsg[320];
};

/* What the databases are called, in the journal and on the screen. */
extern const char *const rt_bank_names[RT_BANK_SITES];

/* Opens the accounts, lets the tellers work until KILLS of them were killed, waits until nothing is in doubt, and counts.
 * 0 or ROTA_*, and errmsg says why. */
int rt_bank_run(struct rt_bank *bank);

/* Recovers until nothing of the journal's is in doubt at the databases that have a URL. 0 or ROTA_*, as above. */
int rt_bank_mend(struct rt_bank *bank);

/* A teller prepares its half and is killed: one branch is in doubt, and PROGRESS hears each step until recovery has
 * mended it. Needs a journal. */
int rt_bank_scene(struct rt_bank *bank, void (*progress)(const char *line));

#endif
