/* SPDX-License-Identifier: Apache-2.0 */
/* The machine under the engine file: one real folder with one real SQLite database, on which all clients of
 * a schedule work, each with its own connection, as a separate process would have it.
 *
 *   client -> engine file -> SQLite -> the folder, in memory if possible
 *                 |  rings, clocks, pids, pidfds: simulated by machine.c, which overrides libc's functions
 *
 * Locks on session files, sockets' names and the database are real. What is simulated: CLOCK_REALTIME
 * (which may be set), CLOCK_MONOTONIC, who one is, who lives, and datagrams, which are late, lost or find
 * no room. A process dies before a commit, or between it and the rings that it owes; and at any statement
 * another process may run first, as far as it gets. */
#ifndef SIM_FILE_MACHINE_H
#define SIM_FILE_MACHINE_H

#include "engine/file/file.h"
#include "sim/process.h"
#include "sim/sim.h"
#include "sim/world.h"

#define SF_RINGS_MAX 128
#define SF_RING_SIZE 64 /* names are short here */
#define SF_ROWS_MAX 4096
#define SF_SESSIONS_MAX 64

struct sf_ring { /* on its way */
    int64_t at;
    uint64_t to;
    size_t size;
    char bytes[SF_RING_SIZE];
};

struct sf_player { /* beside a sim_client, by its index */
    struct sf_ring rings[SF_RINGS_MAX];
    size_t ring_count;
    /* how many tickets it may still ring: those that it granted, and one more for each
     * that went (I8) */
    int64_t owed;
    bool acts; /* in the middle of something */
};

struct sf_row {
    char name[16];
    struct sim_place place;
};

struct sf_world {
    struct sim *sim;
    struct sim_random random;
    char folder[64], url[80];
    sqlite3 *eye, *taker; /* the truth; another program that takes the database */
    sqlite3_stmt *version, *tickets, *sessions;
    ino_t inode;  /* of the database that the eye sees */
    int64_t seen; /* the version of what is below */
    struct sf_row rows[SF_ROWS_MAX];
    size_t row_count;
    uint64_t ids[SF_SESSIONS_MAX];
    size_t id_count;
    struct sf_player players[SIM_CLIENTS_MAX];
    pid_t pids[SIM_PROCESSES_MAX];
    pid_t last_pid;
    int64_t wall_ms;        /* CLOCK_REALTIME at the beginning, as it was set since */
    int64_t mono_ns;        /* CLOCK_MONOTONIC: it advances when looked at */
    int64_t taken_until;    /* the database; 0: it is not */
    int64_t wanted_lost_at; /* the last ring that told a holder of a waiter */
    /* since when only the dead keep a line, and a waiter could sweep them; 0: they do not */
    int64_t kept_since[SIM_NAMES_MAX];
    bool deleted; /* the database, and there is no other yet */
    bool visited; /* by somebody who is not simulated */
    /* how many more acts threads may do while others are held up: else each leads to some more */
    uint32_t acts;
};

/* C has just opened DB. */
void sf_opened(struct sim_client *c, sqlite3 *db);
void sf_give(struct sf_world *w); /* what was taken */
/* From now on the database is another one: numbers begin with the clock. */
void sf_replaced(struct sf_world *w);

/* One at a time. Leaves nothing behind, even if the program ends in between (sf_world_clear). */
void sf_world_open(struct sf_world *w, struct sim *sim, uint64_t seed);
void sf_world_close(struct sf_world *w);
void sf_world_clear(void);

struct rt_file_conn *sf_conn(const struct sim_client *c);

/* C is in the middle of something, and could be stopped here for as long as another process wants. */
void sf_preempt(struct sf_world *w, struct sim_client *c);
/* It dies here: nothing that it does from now on has any effect. */
bool sf_dies(struct sf_world *w, struct sim_client *c);

/* ---- machine.c ---------------------------------------------------------- */

void sf_machine_on(struct sf_world *w); /* NULL: libc's own from now on */
/* The process with that pid was killed, or never existed. */
bool sf_machine_gone(const struct sf_world *w, pid_t pid);
/* The pid of a descriptor that the machine gave as a pidfd. */
pid_t sf_machine_pid(int fd);

/* ---- truth.c ------------------------------------------------------------ */

void sf_truth_close(struct sf_world *w);
void sf_truth_read(struct sf_world *w); /* if it has changed, or is another one */
/* C has just committed: looks at that, and at how many may be rung for it. */
void sf_truth_committed(struct sf_world *w, struct sim_client *c);
size_t sf_truth_files(const struct sf_world *w); /* in s/ */

#endif
