/* SPDX-License-Identifier: Apache-2.0 */
/* Named resources, and a keeper's connection to each: it finishes what other connections left.
 *
 * A **resource** is a name and a URL: mysql://, mariadb://, postgres:// with everything that the engines' URLs support:
 * hosts, parameters, passwords and TLS. An **errand** is one op of branch.h, asked of a resource. Its **place** is
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
 * - Order: COMMIT, ROLLBACK and ASK go before GATE (if one is due), and that before LIST, FORGET and LOOK; within each
 *   group as they came.
 * - Waiting GATEs become one op, and on a database with a gate no sooner than 120 ms after the last: InnoDB shows
 *   nothing new to anyone who does not wait that long.
 * - Time: connecting, waiting and the op count against op.deadline (0: 5 s from when it was asked). An errand that is
 *   late before anything was said is LOST and `unsent`.
 * - The connection is the keeper's own, made by the application's client library (branch.h), which is found when the
 *   first worker needs it.
 * - No message contains a secret, and nothing else that is told or kept does, except inside the client library. */
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

/* The payload of a branch of mode xa, in the journal's decision and when it is registered. All zero: not known; then we
 * look where the resource's URL leads. */
struct rt_place {
    uint64_t identity; /* rt_party.identity; 0: not known */
    char marks[RT_PARTY_MARKS_MAX];
};
#define RT_PLACE_BYTES (8 + RT_PARTY_MARKS_MAX)

/* What to keep about a branch that this attached party begins. */
void rt_place_of(const struct rt_party *party, struct rt_place *out);
/* Writes it as bytes; returns how many, at most RT_PLACE_BYTES. 0: nothing is known. */
size_t rt_place_write(const struct rt_place *place, uint8_t out[RT_PLACE_BYTES]);
/* False: these are not such bytes, and OUT is set to not known. */
bool rt_place_read(const void *bytes, size_t size, struct rt_place *out);

/* ---- The table ------------------------------------------------------------- */

struct rt_resources_hooks { /* each may be NULL. From any thread; none may wait for a worker */
    void *arg;
    /* R answers, for the first time or after `down`. Whatever waits for it may be asked at once (rt_txn_back). */
    void (*back)(void *arg, struct rt_resource *r);
    /* R cannot be reached or does not let us in: ROTA_* and one line. Once, until `back` or a different line. */
    void (*down)(void *arg, struct rt_resource *r, int err, const char *line);
    /* One line for the log: a file with a password that others can read. */
    void (*warn)(void *arg, const char *line);
};

/* *OUT is an empty table, or unchanged: ROTA_NOMEM. HOOKS (NULL: none) is copied. */
int rt_resources_open(struct rt_resources **out, const struct rt_resources_hooks *hooks);

/* Ends all workers: what they are doing is cut and answered LOST; what waits is answered LOST and `unsent`, with
 * ROTA_CANCELED, on this thread or theirs. After that no done() and no hook is running or will be. Quick, whatever the
 * servers do: a worker whose system call cannot be cut (looking up a name) is left to end by itself, after its errands
 * were answered. No other call may be under way or follow. NULL is legal. Not in a child of fork(): there the table is
 * left alone. */
void rt_resources_close(struct rt_resources *t);

/* Why NAME cannot be the name of a resource, in one line; NULL: it can. One rule for files, rota_txns_resource and
 * branches: 1 to 255 bytes of UTF-8 that a line NAME = URL can say, not beginning with `rota:`. */
const char *rt_resource_name_fault(const char *name);
#define RT_RESOURCE_HOOK "on_attention" /* a word of the file, and not the name of a resource */

/* Names a resource, or gives the existing one another URL, which counts from its next connection on (its current one is
 * closed when idle). No I/O. ROTA_INVALID: the name or the URL is bad, and ERRMSG says why; ROTA_UNSUPPORTED: no such database in this build;
 * ROTA_NOMEM. */
int rt_resources_add(struct rt_resources *t, const char *name, const char *url, char *errmsg,
                     size_t size);

/* Adds the lines `name = url` of PATH, which must exist; empty lines and those that begin with # are ignored. NULL: of
 * ~/.config/rota/txn ($XDG_CONFIG_HOME), then of /etc/rota/txn, each if it exists. A name that is already in the table
 * stays as it is: a user's own come first. On failure ERRMSG is one line with file and line ("FILE:3: ..."), without a
 * secret; what was read before it stays. A name whose URL is of no known kind of database is such a failure, too: a
 * resource that nobody can reach is found early. */
int rt_resources_load(struct rt_resources *t, const char *path, char *errmsg, size_t size);

enum rt_resource_news { RT_RESOURCE_NEW, RT_RESOURCE_CHANGED, RT_RESOURCE_GONE };

/* Reads these files once more, for a table in use. A new name is added; another URL counts from the resource's next
 * connection on, or the service's next call; a name that is gone stays, and so does what rota_txns_resource named. EACH
 * is told of the names that are new or changed, or gone; it must not use the table. On failure nothing was changed; ERRMSG is as for
 * rt_resources_load, or says which name was a database and is a service now, or the reverse. */
int rt_resources_reload(struct rt_resources *t, const char *path,
                        void (*each)(void *arg, const char *name, enum rt_resource_news news),
                        void *arg, char *errmsg, size_t size);

/* What the files looked like at one moment; bytes that differ when one of them was changed. */
struct rt_resources_stamp {
    int64_t of[2][5];
};
void rt_resources_stamp(const char *path, struct rt_resources_stamp *out);

/* The line `on_attention = COMMAND` of these files: what rota-txn runs to call a person; the first file's counts. NULL:
 * there is none. Stays until rt_resources_close or rt_resources_reload. */
const char *rt_resources_on_attention(const struct rt_resources *t);
extern const char *rt_resources_system; /* "/etc/rota/txn"; tests set it */

/* A URL that begins with http:// or https:// names a service, which takes part by try, confirm and cancel: it has no
 * worker and no errands, and rt_resources_find and _each do not know it. Held for the caller; NULL: there is none of
 * that name. */
struct rt_http_site *rt_resources_site(struct rt_resources *t, const char *name);
/* A resource or a service of that name is known. */
bool rt_resources_knows(struct rt_resources *t, const char *name);

/* NULL: there is none of that name. */
struct rt_resource *rt_resources_find(struct rt_resources *t, const char *name);
/* In the order they were added. EACH must not add. */
void rt_resources_each(struct rt_resources *t, void (*each)(void *arg, struct rt_resource *r),
                       void *arg);

/* ---- A resource ------------------------------------------------------------ */

const char *rt_resource_name(const struct rt_resource *r);
uint32_t rt_resource_index(const struct rt_resource *r); /* 0, 1, ... as they were added */
/* "xa-mysql", "xa-postgres": the mode in the journal; its title and gated are useful, too. */
const struct rt_party_kind *rt_resource_kind(struct rt_resource *r);
/* Its URL without a password, for the journal and for people; at most SIZE bytes with the NUL. */
void rt_resource_url(struct rt_resource *r, char *out, size_t size);
/* Whether the last news of it was good; true before the first. Cheap. */
bool rt_resource_is_up(struct rt_resource *r);
void *rt_resource_user(const struct rt_resource *r); /* its owner's; NULL at first */
void rt_resource_set_user(struct rt_resource *r, void *user);

/* ---- Errands ---------------------------------------------------------------- */

/* Zeroed, then filled by the asker: op (what, flags, deadline, list, forget), part, place, done, user. Lent until
 * done(): nobody else looks at it meanwhile.
 *
 * The answer: op.reply, op.err, op.list, op.forget and PART, as branch.h says for a keeper's op; a GATE is answered as
 * if it had been asked about PART alone. In addition:
 *   LOST       `unsent`: nobody was there, or it was too late: nothing was said of it (ROTA_UNREACHABLE, ROTA_CANCELED,
 *              ROTA_NOMEM). Else it may have been done
 *   REFUSED    also: the resource does not let us in (ROTA_AUTH), has no two-phase commit (ROTA_UNSUPPORTED); another
 *              database answers at its URL than the one that the branch is in (ROTA_INVALID). Then `unsent` too
 * errmsg is one line with the way out, "" with a good reply. */
struct rt_errand {
    struct rt_errand *next; /* the queue's while it is lent; else the asker's */
    struct rt_party_op op; /* op.part is set by rt_resource_ask: PART, or NULL if the op has none */
    struct rt_part part;
    struct rt_place place; /* identity not 0: no other database will do */
    void (*done)(struct rt_errand *e);
    void *user;
    bool unsent;
    /* Answered, if there was a connection: the identity of the database at the URL (0: not known), and its table. */
    struct rt_place seen;
    char errmsg[256];
};

/* From any thread; never waits. 0: it is taken, and will be answered. Else (ROTA_NOMEM; ROTA_CANCELED: closing) it was
 * not, done() will not be called, and it is the caller's again. Starts a worker if there is none. */
int rt_resource_ask(struct rt_resource *r, struct rt_errand *e);

#endif
