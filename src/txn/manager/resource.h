/* SPDX-License-Identifier: Apache-2.0 */
/* Named resources, and a keeper's connection to each: what other connections left is finished through it.
 *
 * A **resource** is a name and a URL: mysql://, mariadb://, postgres:// with all that the engines' URLs know of hosts,
 * parameters, passwords and TLS. An **errand** is one op of branch.h that is asked of a resource. Its **place** is
 * where its branch wrote its marker: the table, and the identity of the database.
 *
 *               first errand           connected, attached          errand by errand
 *   no worker ───────────────▶ DOWN ───────────────────────▶ UP ──▶ each done() once
 *       ▲                      │ ▲ ◀── lost: all that waits is answered when the next try fails
 *       │ 60 s without         │ └── in vain: a pause of 0.1 to 2 s, then another try, as long as anybody asked in
 *       └── an errand ◀────────┘     the last 60 s. Refused (a password): 1 to 30 s, and only for errands
 *
 * - Each resource has a thread of its own while it is in use: one that hangs keeps nobody else waiting.
 * - Every errand that was taken is answered exactly once, by done() on the worker's thread, or on the thread of
 *   rt_resources_close. done() may ask again, and may free the errand; it must not wait for the worker.
 * - Order: COMMIT, ROLLBACK and ASK go before GATE (if that is due), that before LIST, FORGET and LOOK; within these as
 *   they came.
 * - GATEs that wait are one op, and on a database with a gate not sooner than 120 ms after the last: InnoDB shows
 *   anything new only to who waits so long.
 * - Time: connecting, waiting and the op count against op.deadline (0: 5 s from when it was asked). What is late
 *   before it was said is LOST and `unsent`.
 * - The connection is a keeper's own, by the client library of the application (branch.h), found when the first worker
 *   needs it.
 * - Secrets are in no message, and in nothing that is told or kept but by the client library. */
#ifndef RT_RESOURCE_H
#define RT_RESOURCE_H

#include "txn/branch/branch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_resources; /* a table of them; any thread may use it */
struct rt_http_site; /* a service, see txn/http/site.h */
struct rt_resource;  /* stays where it is until rt_resources_close */

/* ---- Where a branch wrote its marker ---------------------------------------- */

/* The payload of a branch of mode xa, in the journal's decision and when it is registered. All zero: not known; then it
 * is looked for where the resource's URL leads. */
struct rt_place {
    uint64_t identity; /* rt_party.identity; 0: not known */
    char marks[RT_PARTY_MARKS_MAX];
};
#define RT_PLACE_BYTES (8 + RT_PARTY_MARKS_MAX)

/* Of an attached party: what to keep of a branch that it begins. */
void rt_place_of(const struct rt_party *party, struct rt_place *out);
/* As bytes; how many, at most RT_PLACE_BYTES. Nothing is known: 0. */
size_t rt_place_write(const struct rt_place *place, uint8_t out[RT_PLACE_BYTES]);
/* False: these are not such bytes, and OUT says that nothing is known. */
bool rt_place_read(const void *bytes, size_t size, struct rt_place *out);

/* ---- The table ------------------------------------------------------------- */

struct rt_resources_hooks { /* each may be NULL. From any thread; none may wait for a worker */
    void *arg;
    /* R answers, for the first time or after `down`. What waits for it may be asked at once (rt_txn_back). */
    void (*back)(void *arg, struct rt_resource *r);
    /* R cannot be reached or does not let us in: ROTA_* and one line. Once, until `back`, or another line. */
    void (*down)(void *arg, struct rt_resource *r, int err, const char *line);
    /* One line for the log: a file with a password that others can read. */
    void (*warn)(void *arg, const char *line);
};

/* *OUT is an empty table, or as before: ROTA_NOMEM. HOOKS (NULL: none) is copied. */
int rt_resources_open(struct rt_resources **out, const struct rt_resources_hooks *hooks);

/* Ends all workers: what they are at is cut and answered LOST; what waits is answered LOST and `unsent`, with
 * ROTA_CANCELED, here or there. Then no done() and no hook is running or will be. Quick, whatever the servers do: a
 * worker whose system call cannot be cut (looking up a name) is left to end by itself, after it was answered for. No
 * other call may be under way or follow. NULL is legal. Not in a child of fork(): there the table is left alone. */
void rt_resources_close(struct rt_resources *t);

/* Names a resource, or gives the one of that name another URL, which counts from its next connection on (the one it
 * has is closed when it is idle). No I/O. ROTA_INVALID: the name (1 to 255 bytes, no control characters, no blank at
 * its ends, not `rota:` at its beginning) or the URL, and ERRMSG says what about it; ROTA_UNSUPPORTED: no such database in this build; ROTA_NOMEM. */
int rt_resources_add(struct rt_resources *t, const char *name, const char *url, char *errmsg,
                     size_t size);

/* Adds the lines `name = url` of PATH, which must be there; empty lines and those that begin with # say nothing. NULL:
 * of ~/.config/rota/txn ($XDG_CONFIG_HOME), then of /etc/rota/txn, each if it is there. A name that is in the table
 * already stays as it is: a user's own come first. On failure ERRMSG is one line with file and line ("FILE:3: ..."),
 * without a secret; what was read before it stays. A line that has nothing but a name and a URL of no kind of database
 * that is known is such a failure, too: a resource that nobody can reach is found out early. */
int rt_resources_load(struct rt_resources *t, const char *path, char *errmsg, size_t size);
/* The line `on_attention = COMMAND` of these files: what rota-txn runs when a person is called; the first file's
 * counts. NULL: there is none. Stays until rt_resources_close. */
const char *rt_resources_on_attention(const struct rt_resources *t);
extern const char *rt_resources_system; /* "/etc/rota/txn"; tests set it */

/* A URL that begins with http:// or https:// names a service, which takes part by try, confirm and cancel: no worker and no
 * errand is for it, and rt_resources_find and _each know nothing of it. Held for who asked; NULL: there is none of that name. */
struct rt_http_site *rt_resources_site(struct rt_resources *t, const char *name);
/* Either of both is known by that name. */
bool rt_resources_knows(struct rt_resources *t, const char *name);

/* NULL: there is none of that name. */
struct rt_resource *rt_resources_find(struct rt_resources *t, const char *name);
/* In the order they were added. EACH must not add. */
void rt_resources_each(struct rt_resources *t, void (*each)(void *arg, struct rt_resource *r),
                       void *arg);

/* ---- A resource ------------------------------------------------------------ */

const char *rt_resource_name(const struct rt_resource *r);
uint32_t rt_resource_index(const struct rt_resource *r); /* 0, 1, ... as they were added */
/* "xa-mysql", "xa-postgres": as the journal has the mode; title and gated are of use, too. */
const struct rt_party_kind *rt_resource_kind(struct rt_resource *r);
/* Its URL without a password, for the journal and for people; at most SIZE bytes with the end. */
void rt_resource_url(struct rt_resource *r, char *out, size_t size);
/* Whether the last that was heard of it was good; true before the first. Cheap. */
bool rt_resource_is_up(struct rt_resource *r);
void *rt_resource_user(const struct rt_resource *r); /* its owner's; NULL at first */
void rt_resource_set_user(struct rt_resource *r, void *user);

/* ---- Errands ---------------------------------------------------------------- */

/* Zeroed, then filled by who asks: op (what, flags, deadline, list, forget), part, place, done, user. Lent until
 * done(): nobody looks at it meanwhile.
 *
 * What is answered: op.reply, op.err, op.list, op.forget and PART, as branch.h says of a keeper's op; of a GATE as if
 * it had been asked of PART alone. And beyond that
 *   LOST       `unsent`: nobody was there, or it was too late: nothing was said of it (ROTA_UNREACHABLE, ROTA_CANCELED,
 *              ROTA_NOMEM). Else it may have been done
 *   REFUSED    also: the resource does not let us in (ROTA_AUTH), has no two-phase commit (ROTA_UNSUPPORTED); another
 *              database answers at its URL than the one that the branch is in (ROTA_INVALID). Then `unsent` too
 * errmsg is one line with the way out, "" with a good reply. */
struct rt_errand {
    struct rt_errand *next; /* the queue's while it is lent; else the asker's */
    struct rt_party_op op; /* op.part is set by rt_resource_ask: PART, or NULL of what is of none */
    struct rt_part part;
    struct rt_place place; /* identity not 0: no other database will do */
    void (*done)(struct rt_errand *e);
    void *user;
    bool unsent;
    /* Answered, if a connection was there: what the database at the URL calls itself (0: not known), and its table. */
    struct rt_place seen;
    char errmsg[256];
};

/* From any thread; never waits. 0: it is taken, and will be answered. Else (ROTA_NOMEM; ROTA_CANCELED: closing) it was
 * not, done() will not be called, and it is the caller's again. A worker is started where there is none. */
int rt_resource_ask(struct rt_resource *r, struct rt_errand *e);

#endif
