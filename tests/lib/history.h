/* SPDX-License-Identifier: Apache-2.0 */
/* The history of a run: who asked for what and when, in files that survive kill -9.
 *
 * Every process writes one mapped file of fixed-size records into a common folder;
 * afterwards all files are merged and given to the checker. A record is begun before
 * the call it stands for and ended after it, with plain stores: what a killed process
 * stored is in the page cache and stays. A call without an end is `info`: it may have
 * taken effect or not, then or later.
 *
 * Times are CLOCK_MONOTONIC in ns, one clock for all processes of the host. */
#ifndef RT_HISTORY_H
#define RT_HISTORY_H

#include <stddef.h>
#include <stdint.h>

enum rt_record_kind {
    RT_ACQUIRE = 1,
    RT_RELEASE = 2,
    RT_RENEW = 3,
    RT_BELIEF = 4,  /* a look at rota_remaining_ms; ok: it said > 0 */
    RT_WRITE = 5,   /* guarded write; ok: accepted, fail: refused for its fence */
    RT_ENQUEUE = 6, /* a ticket was taken; begin and end enclose the moment */
    RT_CANCEL = 7,  /* a waiter gave its ticket back; it is excluded from the order */
    /* From t_inv on, holds may end unasked: those of `process` (it was killed or exited), or, with a
     * fence, that one (it was broken). Written by whoever caused it, begun before, ended when the
     * process was reaped. Not for engines with a ttl: there the deadline says it. */
    RT_END = 8,
};

enum rt_record_result {
    RT_INFO = 0, /* no answer: zero, so that a call cut short counts as one */
    RT_OK = 1,
    RT_FAIL = 2, /* definite: nothing happened */
};

struct rt_record {
    int64_t t_inv, t_ret; /* t_ret INT64_MAX for info, once loaded */
    uint64_t client;      /* an actor that does one thing at a time; for a hold: who acquired */
    uint64_t lock;        /* rt_history_name() */
    uint64_t owner;       /* who re-enters, unique in the run; 0: nobody */
    uint64_t fence;
    int64_t deadline;      /* acquire, renew: until when it was promised; 0: for ever */
    uint64_t ticket;       /* acquire, enqueue, cancel: the place in line */
    uint64_t resource_seq; /* write: its place in the resource's own order */
    uint32_t process;      /* pid */
    uint32_t take, of;     /* permits */
    uint8_t mode;          /* enum rota_mode; also in the releases and renewals of the hold */
    uint8_t kind, result;
    uint8_t answered; /* the call came back, even if with info */
    uint8_t look;     /* renew: only what the client itself knows was looked at, without a call */
};

struct rt_history;

/* Creates this process's file in FOLDER, with room for CAPACITY records (the file is
 * sparse; a full one ends the program). Returns 0 or -errno. A forked child opens its own. */
int rt_history_open(struct rt_history **out, const char *folder, size_t capacity);
void rt_history_close(struct rt_history *h);

/* An id that nobody in this folder had before, in any process. Take a new one after
 * every call that ended `info`. */
uint64_t rt_history_client(struct rt_history *h);

/* The number by which records name a lock. */
uint64_t rt_history_name(const char *name);

int64_t rt_history_now(void);

/* Begins a record like WHAT, before the call. From any thread; the returned record is the
 * caller's to fill (fence, deadline, ...) until rt_history_end, after the call. */
struct rt_record *rt_history_begin(struct rt_history *h, const struct rt_record *what);
void rt_history_end(struct rt_record *record, enum rt_record_result result);

/* All records of all files of FOLDER, by t_inv. *OUT is the caller's to free(). */
int rt_history_load(const char *folder, struct rt_record **out, size_t *count);

#endif
