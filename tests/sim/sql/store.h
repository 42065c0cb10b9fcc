/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a model SQL server, in the tables of engine/sql/driver.h, and what each numbered step does to them. It knows no
 * connections: server.h has those. */
#ifndef SIM_SQL_STORE_H
#define SIM_SQL_STORE_H

#include "engine/sql/driver.h"

#define SS_TEXT_MAX 256 /* of a label; values are cut, nobody reads them here */

struct ss_session {
    int64_t id, expires;
    char label[SS_TEXT_MAX];
};

struct ss_ticket {
    int64_t number, session, nonce, owner, weight, flags, since, at_least, until, bell;
    uint32_t mode, take, of;
    bool granted, durable;
    char value[SS_TEXT_MAX], label[SS_TEXT_MAX];
};

struct ss_line {
    char name[SS_TEXT_MAX];
    int64_t fence, session, nonce, owner, flags, since, bell, watched;
    bool folded; /* `session` is not null */
    struct ss_ticket *tickets;
    size_t count, room; /* of rows, by number */
    uint32_t waiting;
};

struct ss_store { /* all zero: no tables */
    bool made;
    char server[SS_TEXT_MAX]; /* where it was last used */
    struct {
        bool known; /* somebody has swept before */
        int64_t who, until;
        char after[SS_TEXT_MAX];
    } sweeper;
    struct ss_session *sessions;
    struct ss_line *lines; /* by name */
    size_t session_count, session_room, line_count, line_room;
};

void ss_store_clear(struct ss_store *s);
void ss_store_copy(struct ss_store *to, const struct ss_store *from); /* TO is cleared before */

struct ss_session *ss_session(const struct ss_store *s, int64_t id); /* or NULL */
struct ss_line *ss_line(const struct ss_store *s, const char *name, size_t size);
struct ss_line *ss_line_get(struct ss_store *s, const char *name, size_t size, int64_t now);
struct ss_session *ss_session_add(struct ss_store *s, int64_t id);
struct ss_ticket *ss_ticket_add(struct ss_line *l); /* the last; zeroed, counted */
void ss_session_drop(struct ss_store *s, struct ss_session *row);
void ss_line_drop(struct ss_store *s, struct ss_line *l);
void ss_ticket_drop(struct ss_line *l, struct ss_ticket *t);
bool ss_alive(const struct ss_store *s, int64_t session, int64_t now);
/* Whether T is one of the dead, or has ended. */
bool ss_over(const struct ss_store *s, const struct ss_ticket *t, int64_t now);
/* Whether tickets among the rows are SESSION's. */
bool ss_has_rows(const struct ss_store *s, int64_t session);

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

struct ss_flight { /* one transaction that runs */
    struct ss_store *store;
    bool writable;
    int64_t backend; /* the server's end of the connection */
    const char *who; /* which server */
    int64_t most;    /* the latest any clock has said: that of the asking client */
    /* TAKE and GIVE may fail by themselves, and are answered with "no". May be NULL: they do not. */
    bool (*fails)(struct ss_flight *f);
    size_t first; /* the first step that is run: rows are told with its number */
    int64_t gate; /* GATE has counted so many */
    void *arg;
    int64_t (*now)(struct ss_flight *f); /* us since 1970, at the beginning of the next statement */
    void (*row)(struct ss_flight *f, size_t step, const struct rt_sql_cell *cells, size_t count);
    void (*changed)(struct ss_flight *f, size_t step, uint64_t count);
    void (*notify)(struct ss_flight *f, const char *channel, const char *text);
    void (*listen)(struct ss_flight *f, const char *channel, bool on);
    void (*bell)(struct ss_flight *f, int64_t bell, bool on); /* taken, or let go */
};

/* Does all of STEPS; LANDED, or ABSENT at *AT: there are no tables (and then nothing was changed). */
enum rt_sql_end ss_run(struct ss_flight *f, const struct rt_sql_step *steps, size_t count,
                       size_t *at);

/* Whether STEP, a PASS, would do anything. */
bool ss_may_pass(const struct ss_store *s, const struct rt_sql_step *step, int64_t now);

#define SS_CHANNEL 48
void ss_channel_of_bell(char out[SS_CHANNEL], int64_t bell);
void ss_channel_of_line(char out[SS_CHANNEL], const char *name, size_t size);

#endif
