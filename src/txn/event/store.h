/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay, `rota txn events` and clean-up ask of the database that has the events.
 *
 *   open ─▶ turn (claims) ─▶ ... publish ... ─▶ turn (marks, commits, claims the next) ─▶ ... ─▶ turn (marks, limit 0) ─▶ wait
 *
 * A claim is the lock on the row: MariaDB and PostgreSQL use FOR UPDATE SKIP LOCKED in a transaction that stays open
 * from turn to turn, READ COMMITTED, so writers never wait for it. A store that crashes frees its rows at once; the
 * server throws out one that stands still for longer than the lease. SQLite has no row locks: there one store at a time
 * has the lease of the whole table (rota_relay), each turn is a short transaction, and others claim nothing.
 *
 * One connection, blocking calls of at most call_ms each, one thread at a time. Errors are ROTA_*:
 *   ROTA_UNREACHABLE  the connection has ended, or did not answer in time. Nobody knows whether it was done. Rows that were
 *                     claimed come again, to anyone. The next call connects again by itself, once.
 *   ROTA_BUSY         a deadlock, too long a wait for a lock, SQLite's other writer: nothing was done, the claim
 *                     is let go
 *   ROTA_AUTH, ROTA_UNSUPPORTED, ROTA_INVALID  rights, tables, columns: asking again does not help
 * rt_store_errmsg has one line about the last one, without a secret in it. */
#ifndef RT_STORE_H
#define RT_STORE_H

#include "txn/event/event.h"

struct rt_store; /* a connection to the database of the events, and the map */

struct rt_store_options { /* zero means the default for each field */
    uint32_t
        lease_ms; /* 10000: a transaction that stands still for this long is thrown out; MariaDB counts seconds */
    uint32_t call_ms; /* 5000: the most that a call may take */
    uint32_t lock_ms; /* half of call_ms, SQLite: all of it: how long to wait for another's lock */
    uint32_t republish_ms; /* 60000: published for longer and not processed: it is claimed again */
    bool
        until_published; /* nobody reports `processed`: nothing is claimed again, and clean-up takes published rows */
    bool strict_order; /* a predecessor counts until it is processed */
    bool dead_blocks;  /* a dead one holds up the rows of its key that follow */
    bool reads_only;   /* only reads: makes no table, listens to nothing, takes no lease */
    bool inbox; /* no events are here: only rota_inbox is looked at, and made if it is missing */
};

struct rt_store_row {
    int64_t id;
    int64_t
        prev; /* the row of the same key that must have gone before; 0: none. It may go if PREV is in the same claim and
                   * went before it; with strict_order it may not go at all while there is one */
    uint32_t attempts; /* times that it was refused */
    bool troubled;     /* rota_event_trouble has it */
    bool again;        /* it was published before */
    bool cut; /* EVENT_ID or KEY is only its beginning: it has a zero byte, or the id is too long */
    const char *event_id, *topic, *key /* NULL: none */, *type /* NULL: none */;
    const void *payload;
    size_t size;
};

enum rt_store_what {
    RT_MARK_PUBLISHED,
    RT_MARK_TROUBLE, /* refused: an attempt */
    RT_MARK_ASIDE,   /* it waits, and that is no attempt */
    RT_MARK_DEAD
};

struct rt_store_mark {
    int64_t id;
    enum rt_store_what what;
    int64_t next_in_ms; /* TROUBLE, ASIDE: not before */
    const char *reason; /* TROUBLE, ASIDE, DEAD: one line, cut to 500 bytes */
};

/* Connects to URL (mysql:, mariadb:, postgres:, as engines read them; sqlite:PATH), checks that the table is as MAP
 * (NULL: rota_event) says, and makes rota_event_trouble, and rota_event if MAP is that one, if they are missing. O may
 * be NULL. */
int rt_store_open(struct rt_store **out, const char *url, const struct rt_event_map *map,
                  const struct rt_store_options *o, char *errmsg, size_t size);
void rt_store_close(struct rt_store *s); /* what is claimed is let go; NULL is legal */
const char *rt_store_errmsg(const struct rt_store *s);
const char *rt_store_place(const struct rt_store *s); /* the URL without a secret, for people */

/* Marks what the last claim gave (rows not named are let go), commits, and claims up to LIMIT rows (0: none) by id, the
 * smallest first: one round trip. ROWS (may be NULL with LIMIT 0) live until the next call. A row that was processed
 * meanwhile stays so. A mark for a row that was not claimed is legal. PUBLISHED makes a row's trouble forgotten;
 * TROUBLE counts an attempt, ASIDE does not. */
int rt_store_turn(struct rt_store *s, const struct rt_store_mark *marks, size_t n, uint32_t limit,
                  const struct rt_store_row **rows, size_t *count);

/* The next claims pass over new rows up to the id AFTER; 0: none, as at the beginning. */
void rt_store_skip(struct rt_store *s, int64_t after);

/* Waits for a NOTIFY, until WAKE_FD (-1: none) is readable, or for MS. Only after a turn that gave no rows, or that
 * marked all of them with a LIMIT of 0. 1: woken; 0: the time is up; or an error. */
int rt_store_wait(struct rt_store *s, int64_t ms, int wake_fd);
bool rt_store_notifies(const struct rt_store *s); /* a writer's COMMIT wakes it */

/* new, published → processed. In a transaction of its own: with nothing claimed, or on another store. Ids that are not
 * this table's are passed over. CHANGED may be NULL. */
int rt_store_processed(struct rt_store *s, const char *const *event_ids, size_t n,
                       uint64_t *changed);

/* The inbox: whether CONSUMER has taken the event; and recording that it has, which is legal twice. */
int rt_store_taken(struct rt_store *s, const char *consumer, const char *event_id, bool *taken);
int rt_store_take(struct rt_store *s, const char *consumer, const char *event_id);

/* Deletes at most PAGE rows that were processed (with until_published: published) longer ago: one short statement.
 * *GONE < PAGE: there are no more. With nothing claimed, or on another store. */
int rt_store_clean(struct rt_store *s, int64_t older_than_ms, uint32_t page, uint64_t *gone);

/* ---- For the command and metrics: in short transactions, with nothing claimed ----------------------- */

struct rt_store_item {
    int64_t id;
    enum rt_event_state state; /* a dead row is DEAD even if the map has no `dead` */
    const char *event_id, *topic, *key /* NULL: none */, *type /* NULL: none */;
    size_t size;         /* bytes of the payload */
    const void *payload; /* show only, else NULL */
    int64_t age_ms;      /* since it was written; -1: not known */
    int64_t changed_ms;  /* since its state changed; -1: not known */
    uint32_t attempts;
    int64_t next_in_ms; /* in trouble: not before; 0: at once */
    const char *reason; /* of the last trouble; NULL: none */
};

struct rt_store_filter { /* all zero: the first page of all, by id */
    uint32_t states;     /* bits 1 << RT_EVENT_*; 0: all */
    int64_t after;       /* ids greater than */
    uint32_t limit;      /* 0: 100 */
    const char *topic,
        *key; /* only these; NULL: all. Not indexed, except for new and published rows by key */
};

/* ITEMS live until the next call. The next page begins after the last item's id. */
int rt_store_list(struct rt_store *s, const struct rt_store_filter *filter,
                  const struct rt_store_item **items, size_t *count);
/* EVENT_ID: the id in messages, or the number of the row. *ITEM NULL: there is none. */
int rt_store_show(struct rt_store *s, const char *event_id, const struct rt_store_item **item);
/* dead, published, processed → new, and its trouble is forgotten: it will be published again, with the same id.
 * EVENT_ID NULL: all that are dead, at most 1000 in one call: repeat until *CHANGED is 0. */
int rt_store_replay(struct rt_store *s, const char *event_id, uint64_t *changed);
/* The same for those of the rows IDS in state FROM (as list and show report it; NEW: only their trouble is forgotten);
 * rows no longer in it are passed over. At most 1000. */
int rt_store_replay_rows(struct rt_store *s, const int64_t *ids, size_t n, enum rt_event_state from,
                         uint64_t *changed);

#define RT_STORE_COUNTED \
    100000 /* counting a state stops here: it stays cheap, however long the table */

struct rt_store_stats {
    uint64_t counts[RT_EVENT_STATES]; /* RT_STORE_COUNTED: that many, or more */
    uint64_t troubled;                /* refused, or moved aside, and not dead */
    int64_t
        oldest_new_ms; /* how long the oldest new one has waited; -1: there is none, or it is unknown */
};
int rt_store_stats(struct rt_store *s, struct rt_store_stats *out);

struct rt_store_rates {          /* -1: the map has no column for it */
    int64_t written;             /* in the last MS */
    bool written_more;           /* that many, or more */
    int64_t published;           /* then, and not processed yet; at most RT_STORE_COUNTED */
    int64_t processed;           /* then; at most RT_STORE_COUNTED */
    int64_t oldest_published_ms; /* how long the oldest one has waited for its consumer; -1: none */
};
int rt_store_rates(struct rt_store *s, int64_t ms, struct rt_store_rates *out);

#endif
