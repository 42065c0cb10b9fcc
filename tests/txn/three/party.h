/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of three-phase commit: two participants, a coordinator, and rota-txn for one question. */
#ifndef ROTA_TEST_THREE_PARTY_H
#define ROTA_TEST_THREE_PARTY_H

#include "txn/branch/site.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LIMIT_S 60 /* of one condition */

struct party {
    const struct site *site; /* NULL: a coordinator */
    const char *name;
    char listen[40], url[60], log[400];
    int anchor;
    uint16_t port;
    pid_t pid;
    const char *point; /* where it dies */
    char *terminal;    /* whose stderr is that; NULL: its log */
    const char *words[28];
};

extern struct party first, second, chair, tool_party;
extern const char *program, *with_points; /* rota-txn; ... with crash points */
extern const char *token;                 /* all participants' file; NULL: none */
extern const char *waits;                 /* --wait; NULL: not told */
extern const char *within;                /* --for; the same */
extern char journal[400], resources[400];

/* An address that stays its own until its anchor is closed. */
void take_address(struct party *p, const char *name);
void start(struct party *p); /* waits until it listens */
void start_participant(struct party *p);
/* A coordinator of a transaction that inserts ROW at both. T1, T2: how long promises, and those ready, wait. */
void start_coordinator(const char *on_timeout, long long row, const char *t1, const char *t2);
/* ... that runs SQL at each, for a long time. */
void start_coordinator_of(const char *at_first, const char *at_second);
/* Somebody who answers the participants, at the same address. */
void start_server(void);
void end(struct party *p);

bool log_has(const struct party *p, const char *text);
void wait_for_log(const struct party *p, const char *text);
/* Waits until somebody who looks at the terminal FD has read TEXT. */
void wait_for_screen(int fd, const char *text);
void id_of_chair(char id[33]);

/* Runs rota-txn with these words after the journal and the resources; it must end with CODE, and say TEXT. */
void tool_says(int code, const char *text, const char *one, const char *two, const char *three,
               const char *four);
void tool(const char *one, const char *two);

/* ---- What the databases and addresses say */

#define STANCE_WAIT 1 /* as rota_promise keeps them: txn/three/three.h */
#define STANCE_PRECOMMITTED 2
#define STANCE_COMMITTED 3
#define STANCE_ABORTED 4
#define HOW_TOLD 1
#define HOW_TIMEOUT 3
#define HOW_ELSEWHERE 6

/* WHAT of the promise that ends last; -1: none. */
long long promise(const struct party *p, const char *what);
void wait_for(const struct party *p, const char *what, long long value);
void forget_promises(void);
/* ... to /metrics, with WORDS of curl's. */
void answers(const struct party *p, const char *words, const char *line);
void metric_is(const struct party *p, const char *line);

#endif
