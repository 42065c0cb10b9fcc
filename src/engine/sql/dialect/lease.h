/* SPDX-License-Identifier: Apache-2.0 */
/* The dialects on SQL databases whose locks are rows with an end: `row`, `version`, `shedlock` (?dialect=).
 *
 *   table.c   the table of SQL's dialects: where these are found
 *   lease.c   what each is made of, opening and closing
 *   speech.c  which statement is said in which words; the texts are in sql/
 *   try.c     JOIN, JOIN_ALL; whoever waits asks again
 *   leave.c   LEAVE, CHANGE, BREAK
 *   beat.c    the session, which only the client knows; renewal, the sweeper
 *   look.c    INSPECT, LIST, OBSERVE, CHECK
 *
 * They use the lanes, flights and asks of sql.h, and kit/spin: the server knows who holds, and nobody knows who waits.
 *
 *   row       name is a unique key: a row is the lock, its insert the grant, its delete the release. Numbers are in a
 *             second table, because they must outlive the row
 *   version   a row per name; whoever sees nobody in it changes it if its version is still the one that was seen. The
 *             version is the fence. So a grant takes two flights, and a look that was overtaken is repeated, up to
 *             three times
 *   shedlock  ShedLock's table and rules, with the server's time: held while lock_until is ahead; never deleted
 *
 * What an op says (LOOK reads the row, whoever's it is), and what if its reply is lost, late or doubled:
 *
 *   JOIN   TAKE, LOOK       a row tells whose it is (session and nonce): asked again, it finds its own, gives it
 *                           its full time anew, and keeps its number. LOOK decides, not how many rows were changed. One
 *                           that arrives after it was given up is not renewed, and ends by its ttl
 *   JOIN_ALL  TAKE, GUARD of each, then LOOKs: a GUARD fails where another holds, and the whole flight with it. Then a
 *                           flight of LOOKs says who
 *   LEAVE  LEAVE            only what is ours, and has not ended. Lost: UNKNOWN; asked again, it finds nothing, which
 *                           says only that it is gone
 *   BEAT   RENEW of each, a hundred in a flight; an end is never moved back, so a late or repeated one does no
 *                           harm. Not found: the lock is lost, if it was held when this was sent
 *   BREAK  BREAK            by number, as LEAVE
 *
 * All flights of a name go by one lane, in order. The row's lock makes them wait for what an old connection still does.
 *
 * Whoever waits asks again after 25 to 50 ms, and when the holder's time is over. Nothing is written
 * while another holds. */
#ifndef RT_LEASE_H
#define RT_LEASE_H

#include "engine/kit/spin.h"
#include "engine/sql/sql.h"

enum rt_lease_say {
    RT_LEASE_TAKE, /* what it needs to take a lock, ... */
    RT_LEASE_TAKE_2,
    RT_LEASE_TAKE_3,
    RT_LEASE_RENEW, /* answers a row if it is still ours; if there is a HAVE, that does */
    RT_LEASE_HAVE,
    RT_LEASE_LEAVE, /* changes one row */
    RT_LEASE_GUARD, /* fails where the lock is not ours */
    RT_LEASE_LOOK, /* (name) -> name, number, session, nonce, left_us (at most 0: nobody holds), since_us (ago), thread,
                       host, process, label; of shedlock the label is locked_by */
    RT_LEASE_LIST, /* (prefix) -> name: of those that are held, by name */
    RT_LEASE_BREAK, /* (name, number): changes one row */
    RT_LEASE_SWEEP, /* (limit): deletes what has ended ... */
    RT_LEASE_TIDY,  /* (limit): ... and what nobody has needed for a day */
    RT_LEASE_SLOTS,
    /* Said once, when a connection is greeted. */
    RT_LEASE_ZONE = RT_LEASE_SLOTS,
    RT_LEASE_COLUMNS, /* ABSENT, unless all are there */
    RT_LEASE_SHAPE,   /* -> why it must not be used (""), how long a name may be (0: any) */
    RT_LEASE_MAKE,
    RT_LEASE_MAKE_2,
    RT_LEASE_MAKE_3,
    RT_LEASE_MAKE_4,
    RT_LEASE_SAYS,
};
_Static_assert(RT_LEASE_SLOTS <= RT_SQL_SLOTS, "a slot for each");

struct rt_lease_dialect {
    const char *name;
    const char *table; /* what it is called unless ?table= says otherwise */
    uint32_t caps;
    const char *unsafe; /* why strict refuses it; NULL: as for the line */
    const char *keeps;  /* for the doctor: whose locks these are */
    const char *const
        *words[2];    /* by RT_LEASE_*, of PostgreSQL and of MariaDB; [RT_LEASE_SAYS] is the DDL */
    bool reads_first; /* it takes what it has first seen to be free */
    bool by_text;     /* locked_by says whose it is */
};

/* speech.c */
extern const char *const rt_lease_words[3][2][RT_LEASE_SAYS + 1];

#define RT_LEASE_ID 256 /* with its end: locked_by */
#define RT_LEASE_PAUSE_MS 50

struct rt_lease_conn {
    struct rt_sql_conn sql; /* first */
    const struct rt_lease_dialect *dialect;
    struct rt_sql_rider rider;
    struct rt_spin spin;
    struct rt_sql_saying says[RT_LEASE_SAYS]; /* .sql NULL: it is not said */
    char *texts;                              /* theirs ... */
    char *ddl;                                /* ... and for people */
    char table[160];                          /* as it is shown */
    char host[256];
    int64_t process;
    int64_t name_most; /* 0: any */
    struct rt_view *views;
    struct rt_timer_call look_timer;
    uint32_t beats;
    int64_t tidy_at;
};

static inline struct rt_lease_conn *rt_lease_of(struct rt_conn *conn)
{
    return (struct rt_lease_conn *)(void *)conn;
}
static inline struct rt_lease_conn *rt_lease_of_sql(struct rt_sql_conn *c)
{
    return (struct rt_lease_conn *)(void *)c;
}
static inline struct rt_lease_conn *rt_lease_of_spin(struct rt_spin *s)
{
    return (struct rt_lease_conn *)(void *)((char *)s - offsetof(struct rt_lease_conn, spin));
}
#define rt_lease_fail(c, ...) rt_words_fail(&(c)->sql.base, __VA_ARGS__)

extern const struct rt_engine rt_engine_lease;
int rt_lease_open_row(struct rt_conn *conn, const struct rt_url *url,
                      const struct rt_sql_driver *driver);
int rt_lease_open_version(struct rt_conn *conn, const struct rt_url *url,
                          const struct rt_sql_driver *driver);
int rt_lease_open_shedlock(struct rt_conn *conn, const struct rt_url *url,
                           const struct rt_sql_driver *driver);

/* ---- speech.c ----------------------------------------------------------------------------------- */

/* Makes the statements of C's dialect about TABLE ("": its default), in c->says and c->ddl. 0; ROTA_INVALID: that is no
 * name for a table; ROTA_NOMEM. */
int rt_lease_speech(struct rt_lease_conn *c, const char *table, enum rt_sql_tongue tongue);

/* What the statements need to know of a ticket. */
struct rt_lease_ticket {
    const char *name;
    uint64_t session, nonce, owner;
    int64_t seen; /* the version; -1: there was none */
};
/* Says KIND about a ticket, if the dialect says it at all. */
void rt_lease_say(struct rt_lease_conn *c, struct rt_sql_book *b, enum rt_lease_say kind,
                  const struct rt_lease_ticket *t);
static inline bool rt_lease_says(const struct rt_lease_conn *c, enum rt_lease_say kind)
{
    return c->says[kind].sql != NULL;
}

/* Whose a row is. */
struct rt_lease_row {
    bool held; /* somebody holds it */
    bool ours; /* SESSION and NONCE are known: a client of Rota's */
    uint64_t number, session, nonce;
    int64_t left_us, since_us;
    uint64_t owner;
    char label[RT_LABEL_MAX + 1];
};
/* What LOOK answered; ROW may be NULL. */
void rt_lease_read(const struct rt_lease_conn *c, const struct rt_sql_row *row,
                   struct rt_lease_row *out);
/* How many ms are left, at least 0. */
static inline int64_t rt_lease_left(const struct rt_lease_row *r)
{
    return r->left_us > 0 ? r->left_us / 1000 : 0;
}

/* ---- Ops ---------------------------------------------------------------------------------------- */

void rt_lease_begin_join(struct rt_lease_conn *c, struct rt_op *op);
void rt_lease_begin_leave(struct rt_lease_conn *c, struct rt_op *op);
void rt_lease_begin_change(struct rt_lease_conn *c, struct rt_op *op);
void rt_lease_begin_break(struct rt_lease_conn *c, struct rt_op *op);
void rt_lease_begin_beat(struct rt_lease_conn *c, struct rt_op *op);
void rt_lease_begin_look(struct rt_lease_conn *c, struct rt_op *op); /* INSPECT, LIST, CHECK */
void rt_lease_begin_observe(struct rt_lease_conn *c, struct rt_op *op);

extern const struct rt_spin_user rt_lease_spin_user; /* try.c */
/* leave.c: quietly gives back what nobody here asked for. */
void rt_lease_give_back(struct rt_lease_conn *c, const char *name, uint64_t session,
                        uint64_t nonce);
/* beat.c: after a new link, asks whether the server still has what is held. */
void rt_lease_verify(struct rt_lease_conn *c);
/* look.c */
void rt_lease_look_fire(struct rt_timer_call *call, int64_t now);

#endif
