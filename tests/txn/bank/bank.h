/* SPDX-License-Identifier: Apache-2.0 */
/* The bank: accounts at two MariaDB databases and at PostgreSQL, and tellers who transfer between them. Whoever dies,
 * and whenever, the sum of all balances stays, and each transfer is at all of its databases or at none.
 *
 *   the driver (main.c, points.c, scenes.c)  starts servers and everybody else, kills them, and checks
 *   a teller, a joiner (teller.c)            transfers, and writes into the book what it was told
 *   a recoverer (teller.c)                   finishes what others left, until it is sent away
 *
 * All of them are this program; its first word selects the role. A house is a journal: those who work for different
 * houses at the same databases must not touch each other's transactions. */
#ifndef BANK_H
#define BANK_H

#include "hits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LIMIT_MS 120000 /* nothing takes this long unless it hangs */
#define ACCOUNTS 400
#define BALANCE 100000
#define TIDS_MOST 100000

enum place {        /* where accounts are: a resource each */
             TILL,  /* MariaDB */
             VAULT, /* PostgreSQL */
             SAFE,  /* MariaDB, another database of the same server */
             PLACES,
};
extern const char *const place_names[PLACES];

/* ---- Transfers (teller.c) --------------------------------------------------- */

struct shape {
    const char *name;
    unsigned writes; /* places with a row of it, if it commits: bits 1 << place */
    unsigned reads;  /* places where it only looks */
    bool fails;      /* it never commits */
    bool joined;     /* the vault's branch is another process's */
    bool alone;      /* nobody gets its id: it may go in one phase */
};
const struct shape *shape_find(const char *name); /* NULL: none */
const struct shape *shape_at(size_t i);           /* NULL past the last */

/* Roles; their exit code. The environment says where everything is: env_* of world.c. */
int bank_teller(int argc, char **argv);    /* teller SHAPE TID COUNT */
int bank_joiner(int argc, char **argv);    /* joiner TID */
int bank_recoverer(int argc, char **argv); /* recover */

/* ---- The book: what was planned, and what was told (book.c) ------------------ */

enum told { TOLD_NOTHING, TOLD_COMMITTED, TOLD_ABORTED, TOLD_UNKNOWN, TOLD_ERROR };
struct entry {
    const struct shape *shape; /* NULL: no such transfer */
    enum told told, joiner;
    int err;     /* TOLD_ERROR */
    char id[64]; /* "": not known */
    int house;
};

void book_write(const char *format, ...) __attribute__((format(printf, 1, 2))); /* by roles */
/* The whole book, by number; the driver's, valid until the next call. *COUNT: one more than the last number. */
const struct entry *book_read(size_t *count);

/* ---- Servers, houses, hands (world.c) ------------------------------------------ */

enum victim { MARIADB, POSTGRES, JOURNAL };

void world_start(const char *journal); /* file, postgres, mysql or etcd */
void world_end(void);
const char *world_journal(void);
bool world_has(enum victim v); /* a file has no server */
void world_kill(enum victim v);
void world_run(enum victim v);
uint16_t world_port(enum victim v); /* PostgreSQL's, or MariaDB's */

/* A journal, new or clean; its number. */
int house_new(void);
int house_new_at(const char *url); /* the same, at URL */
int houses(void);                  /* in use */
void houses_reuse(void);           /* all are clean, and checked */
const char *house_url(int house);
/* Nothing of it is prepared anywhere, and nothing in its journal is unfinished. WHY (may be NULL) says what is. */
bool house_clean(int house, char *why, size_t size);
/* Somebody else can write to its journal. False: who is stopped has the file locked. */
bool house_is_free(int house);
/* How a transaction stands in its journal: enum rt_journal_stand. */
int house_stands(int house, const char *id);
long house_marks(int house); /* at all places */
void house_ages(
    int house); /* something is born in its journal and aborted: by that a file knows that time goes on */
unsigned house_prepared(int house,
                        enum place place); /* branches, TILL and SAFE: of the whole server */

/* Where roles of the next hands connect, and how long their transactions may take. */
void world_through(enum victim v, uint16_t port); /* a proxy; 0: directly */
void world_timeout(uint32_t ms);                  /* of transactions; 0: 60 s */
void world_call(uint32_t ms);                     /* of one request; 0: 5 s */
void world_keep(uint32_t ms);                     /* outcomes; 0: 7 days */

struct hand {
    pid_t pid; /* 0: it has ended */
    int code;  /* then: as rt_proc_wait */
    char what[100];
};
/* POINT: for ROTA_POINT, or NULL. */
struct hand teller_start(int house, const char *shape, long tid, long count, const char *point);
/* Two that work together: the teller and the joiner. */
void joined_start(int house, long tid, const char *teller_point, const char *joiner_point,
                  struct hand *teller, struct hand *joiner);
struct hand recoverer_start(int house, const char *point);
int hand_wait(struct hand *h);         /* until it ends; its code */
void hand_wait_killed(struct hand *h); /* ... by its crash point; else the test fails */
void hand_wait_stopped(struct hand *h);
bool hand_has_ended(struct hand *h);             /* by now */
bool hand_wait_stopped_or_ended(struct hand *h); /* true: it is stopped */
void hand_cont(struct hand *h);
void hand_kill(struct hand *h);
void hands_end(void); /* kill -9 to all that a failed scene left */
void hand_send_away(struct hand *h);
void hand_leave(struct hand *h); /* SIGTERM to a recoverer, which must end cleanly */

/* Waits until UNTIL returns true; else the test fails with WHAT. */
void must_become(bool (*until)(void *arg), void *arg, const char *what);

/* ---- Checks (check.c) ------------------------------------------------------------ */

long tid_new(void);
/* A recovery heals the house: waits until it is clean. The milliseconds it took. */
long house_heal(int house);
void houses_heal(int from); /* all from FROM on, some at a time */
#define RECOVERIES_AT_ONCE 1
/* Checks the sum, the outcomes and what was told; with ALL also that nothing is prepared anywhere. */
void bank_check(bool all);
int rounds(int least); /* of a scene: LEAST, more in torture */

#endif
