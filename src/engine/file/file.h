/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine, inside: one SQLite database per folder, one locked file and one
 * datagram socket per session.
 *
 * The database alone says who holds what. A session lives as long as the OFD lock on its
 * file. A datagram ("ring") decides nothing: it makes its receiver look at the rows.
 *
 * Functions that return int answer 0, a ROTA_* error, or RT_FILE_AGAIN: somebody else has the
 * database, nothing was done, try again from the loop. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include "engine/kit/check.h"
#include "engine/kit/view.h"
#include "engine/kit/words.h"
#include "net/loop.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

extern const struct rt_engine rt_engine_file;

#define RT_FILE_AGAIN 1

#define RT_FILE_LAYOUT_MAJOR 1
#define RT_FILE_LAYOUT_MINOR 0
#define RT_FILE_NAME_MAX 1023 /* bytes: a public name of 255 with every byte escaped fits */

#define RT_FILE_POLL_MS 50     /* a session that no pidfd can watch is probed this often */
#define RT_FILE_LOOK_MS 1000   /* safety net: a granter may die between commit and ring */
#define RT_FILE_SWEEP_STEP 256 /* tickets of a dead session taken out per transaction */

/* Flags of a ticket's row. */
#define RT_FILE_GRANTED 0x1u
#define RT_FILE_DURABLE 0x2u
#define RT_FILE_ARMED 0x4u
#define RT_FILE_DETECT 0x8u

struct rt_file_row { /* a ticket as it stands in the table */
    uint64_t number, session, nonce, owner;
    uint64_t bell; /* durable tickets: the session whose socket hears of them; 0: none */
    int64_t since, until, at_least; /* ms of CLOCK_REALTIME, ms, 0: none; length in ms */
    uint32_t flags, mode, take, of;
};

enum rt_file_stmt {
    RT_FILE_BEGIN,
    RT_FILE_COMMIT,
    RT_FILE_ROLLBACK,
    RT_FILE_META,
    RT_FILE_META_NEXT,
    RT_FILE_META_RESERVED,
    RT_FILE_META_BOOT,
    RT_FILE_META_OBSERVERS,
    RT_FILE_SESSION_ADD,
    RT_FILE_SESSION_GET,
    RT_FILE_SESSION_DROP,
    RT_FILE_SESSION_SOME,
    RT_FILE_TICKET_ADD,
    RT_FILE_TICKET_GET,
    RT_FILE_TICKET_BY_NONCE,
    RT_FILE_TICKET_SET,
    RT_FILE_TICKET_KEEP,
    RT_FILE_TICKET_VALUE,
    RT_FILE_TICKET_DROP,
    RT_FILE_LINE_LAST,
    RT_FILE_LINE_WALK,
    RT_FILE_LINE_WAITING,
    RT_FILE_LINE_BEFORE,
    RT_FILE_LINE_BEHIND,
    RT_FILE_LINE_EXPIRED,
    RT_FILE_LINE_UNTIL,
    RT_FILE_LINE_DURABLE,
    RT_FILE_LINE_FRONT,
    RT_FILE_LINE_PAGE,
    RT_FILE_EXPIRED_SOME,
    RT_FILE_SESSION_TICKETS,
    RT_FILE_LINE_OF_SESSION,
    RT_FILE_OBSERVER_ADD,
    RT_FILE_OBSERVER_DROP,
    RT_FILE_OBSERVER_DROP_SESSION,
    RT_FILE_OBSERVER_LINE,
    RT_FILE_INSPECT_LINE,
    RT_FILE_INSPECT_SESSION,
    RT_FILE_LIST,
    RT_FILE_STMTS,
};

enum rt_file_ring_kind {
    RT_FILE_RING_GRANTED = 1, /* your waiting ticket may be granted now */
    RT_FILE_RING_WANTED,      /* somebody waits behind your armed ticket */
    RT_FILE_RING_LOOK,        /* the ticket ahead of yours is another one now */
    RT_FILE_RING_CHANGED,     /* a line you observe */
    RT_FILE_RING_LOST,        /* your ticket was broken */
    RT_FILE_RING_FILES,       /* files of the database may be gone */
};

struct rt_file_ring {
    uint64_t to, session, number; /* who hears it; whose ticket it is about */
    uint32_t kind;
    uint32_t name; /* where in the text */
};

/* Keys of tickets and rings of one transaction, and rings whose receiver was full. */
struct rt_file_rings {
    struct rt_file_ring *list;
    size_t count, room;
    char *text;
    size_t text_size, text_room;
};

struct rt_file_conn;

/* Another session that a ticket of ours waits for. */
struct rt_file_peer {
    struct rt_watch watch; /* of the pidfd; first, so that closed() finds the peer */
    struct rt_file_conn *conn;
    struct rt_file_peer *next;
    uint64_t session;
    uint32_t refs;
    int pidfd;  /* -1: probed by the timer */
    bool ended; /* the process; the session may live on in a child */
};

/* How far the sessions of a line were probed. */
struct rt_file_cursor {
    uint64_t from;  /* the number of the last ticket; 0: begin anew */
    uint64_t alive; /* the session probed last: neighbours often share one */
    bool all;       /* also those behind one that lives and excludes them */
    bool swept;     /* there was a dead one */
    bool ended;     /* the line was gone through */
};

/* A waiting ticket of ours. */
struct rt_file_wait {
    struct rt_file_wait *next; /* in its bucket */
    struct rt_file_peer *peer; /* whom it waits for, where that is another's session */
    uint64_t number, session;
    uint64_t ahead;   /* only before it is adopted: the session ahead, if that is all to watch */
    int64_t until_ms; /* the line may move by itself then; 0: no */
    uint64_t probed;  /* so far in this round of probe_line */
    bool probe_line;  /* permits: first waiter, any holder's end may let it in */
    bool first;       /* only granted tickets are ahead of it */
    bool stale;       /* the database was taken when we wanted to look */
    char name[];
};

struct rt_file_observation {
    struct rt_view view; /* first */
    bool dirty;
};

struct rt_file_bell { /* on the heap: libuv wants it until closed() */
    struct rt_watch watch;
    struct rt_file_conn *conn;
    int fd;
};

enum { RT_FILE_PART_DB, RT_FILE_PART_WAL, RT_FILE_PART_SHM, RT_FILE_PARTS };

struct rt_file_part { /* a file under the database */
    dev_t dev;
    ino_t ino;
    off_t size;
    bool there;
};

struct rt_file_count { /* for the trace log */
    uint64_t rings, rings_late, rings_heard, looks, sweeps, again;
};

struct rt_file_conn {
    struct rt_conn base;
    struct rt_file_conn *list_next;           /* of the process: fork.c */
    pthread_mutex_t mutex;                    /* held while at work, only to keep fork() away */
    uint32_t depth;                           /* how often it is held */
    char *folder;                             /* resolved */
    char shown[104];                          /* its end, for messages */
    atomic_bool strict;                       /* base.unsafe is "": caps are read by any thread */
    mode_t mode;                              /* of files; 0600 unless shared */
    mode_t mode_asked;                        /* 0: none */
    int dir, sdir;                            /* the folder and its s/ */
    struct rt_file_part parts[RT_FILE_PARTS]; /* that are open */
    int shm_fd;                               /* only to look at it */
    off_t shm_size;                           /* the most that was seen */
    /* files are gone, but sessions that have them open still live: the folder waits for them */
    bool torn;
    sqlite3 *db; /* NULL: left because its files are gone; the next op opens it anew */
    sqlite3_stmt *stmts[RT_FILE_STMTS];
    bool in_tx;
    int wal_frames;        /* after our last commit */
    bool wal_lost;         /* it was not there when we opened */
    bool numbers_ok;       /* there are reserved ones, of this boot */
    int64_t busy_limit_ns; /* for the busy handler */
    int64_t busy_since;

    uint64_t session; /* 0: none */
    int session_fd;
    size_t held;        /* granted tickets of the session, roughly: whether to look at it */
    bool session_gone;  /* seen in an op: told after its done */
    bool session_spare; /* opened to observe: no BEAT has answered it yet */
    struct rt_file_bell *bell;
    int send_fd;

    struct rt_op *queue, **queue_tail; /* ops that found the database taken */
    int64_t stuck_since;               /* since when; 0: it is not taken */
    bool stuck_told;
    struct rt_file_wait **buckets;
    size_t bucket_count, wait_count;
    struct rt_file_peer *peers;
    uint64_t try_from;   /* where a try that found more tickets than it may probe goes on */
    uint64_t unfinished; /* a dead session whose sweep goes on from the timer; 0: none */
    struct rt_view *observations;
    struct rt_file_rings rings; /* of the transaction under way, then to be sent */
    struct rt_file_rings late;  /* the receiver was full: again soon */
    uint32_t late_tries;
    struct rt_file_wait *born; /* waits made in the transaction under way */

    struct rt_timer_call retry, poll, look, expire, late_timer;
    struct rt_file_count counted;
};

#define RT_FILE_CONTAINER(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

static inline struct rt_file_conn *rt_file_conn(struct rt_conn *conn)
{
    return (struct rt_file_conn *)(void *)conn;
}

/* ---- path.c: the folder ------------------------------------------------- */

/* Resolves, makes and checks the folder of URL; fills folder, mode, dir, sdir. */
int rt_file_path_open(struct rt_file_conn *c, const char *path, const char *mode);
/* The same without s/ in it: a folder for something other than locks (txn/journal/file). */
int rt_file_path_folder(struct rt_file_conn *c, const char *path, const char *mode);
void rt_file_path_close(struct rt_file_conn *c);

/* The name of a network or unknown shared file system, or NULL if FD is on a local one. */
const char *rt_file_path_remote(int fd);

/* What the file system of FD forgets in a crash, and what to do about it; NULL: nothing. */
struct rt_file_forgets {
    const char *what, *remedy;
};
const struct rt_file_forgets *rt_file_path_forgets(int fd);

/* ---- fork.c -------------------------------------------------------------- */

void rt_file_fork_clean(void); /* before a database is opened */
void rt_file_fork_add(struct rt_file_conn *c);
void rt_file_fork_remove(struct rt_file_conn *c);
/* Around all work that may reach SQLite: a fork waits for its end. */
void rt_file_enter(struct rt_file_conn *c);
void rt_file_exit(struct rt_file_conn *c);
/* Connections of this process leave their database if it is no longer the folder's, they are not at work and they
 * have no session. */
void rt_file_fork_leave(const struct rt_file_conn *c);

/* ---- db.c: the database ------------------------------------------------- */

/* WAIT: until it is free, for call_ms at most; without it RT_FILE_AGAIN. */
int rt_file_db_open(struct rt_file_conn *c, bool wait);
void rt_file_db_close(struct rt_file_conn *c);
/* Another database took the place of ours, or will: goes on with that one (file.c). If that
 * fails there is none, until somebody asks again. */
int rt_file_reopen(struct rt_file_conn *c);

/* The prepared statement, reset; NULL with errmsg set if it cannot be prepared. */
sqlite3_stmt *rt_file_stmt(struct rt_file_conn *c, enum rt_file_stmt which);

/* Steps a statement that answers nothing, with COUNT integers bound from ?1 on. */
int rt_file_run(struct rt_file_conn *c, enum rt_file_stmt which, int count, const int64_t *args);

/* Maps SQLite's code to ours and sets errmsg. */
int rt_file_db_error(struct rt_file_conn *c, int rc);

int rt_file_begin(struct rt_file_conn *c);     /* for writing */
int rt_file_commit(struct rt_file_conn *c);    /* rolls back if it fails */
void rt_file_rollback(struct rt_file_conn *c); /* also without a transaction; forgets rings, born */

/* The next number of the counter that orders all lines, never behind the clock; OBSERVED: whether there are observers
 * of any line. RT_FILE_AGAIN: new ones must be reserved; begin anew. */
int rt_file_number(struct rt_file_conn *c, uint64_t *number, bool *observed);
int rt_file_observed(struct rt_file_conn *c, bool *observed);

/* Reserves numbers on the disk, if there are few left or the machine was started anew. */
int rt_file_reserve(struct rt_file_conn *c);

int64_t rt_file_wall_ms(void);
int64_t rt_file_mono_ns(void);

/* The pid that has the write lock of the database; 0: nobody, or it cannot be seen. */
pid_t rt_file_lock_owner(const struct rt_file_conn *c);
void rt_file_say_busy(struct rt_file_conn *c); /* errmsg for a database that stays taken */

/* Tests only: another boot id; NULL: the real one. */
void rt_file_fake_boot(const char *id);

/* ---- torn.c: files that somebody deleted or truncated --------------------- */

void rt_file_torn_see(const struct rt_file_conn *c, struct rt_file_part parts[RT_FILE_PARTS]);
/* Before the database is opened, PARTS seen: RT_FILE_AGAIN if others have files open that are gone. */
int rt_file_torn_check(struct rt_file_conn *c, const struct rt_file_part parts[RT_FILE_PARTS]);
/* It is open, after BEFORE was seen: notes what is. RT_FILE_AGAIN if it was changed meanwhile. */
int rt_file_torn_note(struct rt_file_conn *c, const struct rt_file_part before[RT_FILE_PARTS]);
/* Whether the files of the folder are those that are open. */
bool rt_file_db_linked(const struct rt_file_conn *c);
void rt_file_torn_mend(
    struct rt_file_conn *c); /* before SQLite looks at a shm that was truncated */

/* ---- line.c: tickets, inside a transaction ------------------------------ */

void rt_file_row_read(sqlite3_stmt *s, struct rt_file_row *row); /* columns of ROW_COLUMNS */
/* One row of WHICH with ?1 = NAME and ?2.. = the integers; FOUND false: none. */
int rt_file_row_get(struct rt_file_conn *c, enum rt_file_stmt which, const char *name, int count,
                    const int64_t *args, struct rt_file_row *row, bool *found);
int rt_file_line_run(struct rt_file_conn *c, enum rt_file_stmt which, const char *name, int count,
                     const int64_t *args);
int rt_file_line_int(struct rt_file_conn *c, enum rt_file_stmt which, const char *name, int count,
                     const int64_t *args, int64_t *value);
int rt_file_line_set(struct rt_file_conn *c, const char *name, const struct rt_file_row *row);
int rt_file_line_last(struct rt_file_conn *c, const char *name, struct rt_file_row *row,
                      bool *found);
int rt_file_line_want(struct rt_file_conn *c, const char *name); /* rings armed holders */
/* A new ticket (join.c); answers in J. TRY_ONLY: ROTA_BUSY unless it is granted at once. */
int rt_file_line_join(struct rt_file_conn *c, struct rt_join *j, bool try_only);
/* Takes the ticket out, or keeps it for its at_least_ms unless BROKEN; grants the next. */
int rt_file_line_remove(struct rt_file_conn *c, const char *name, const struct rt_file_row *row,
                        bool broken);
/* Grants those there is room for; GONE (0: none) is the number of the ticket that left. */
int rt_file_line_settle(struct rt_file_conn *c, const char *name, uint64_t gone);
int rt_file_line_expire(struct rt_file_conn *c, const char *name, bool *some);
int rt_file_line_changed(struct rt_file_conn *c, const char *name); /* rings observers */

/* ---- ops.c: operations as transactions ---------------------------------- */

int rt_file_op_run(struct rt_file_conn *c, struct rt_op *op);

/* ---- session.c, wait.c: who lives, and who waits for whom ---------------- */

/* A new file of s/, locked, with the rights of all our files: whoever sweeps stray ones locks them before it unlinks
 * them. */
int rt_file_session_make(struct rt_file_conn *c, uint64_t *session, int *out);
/* Gives such a file the name NAME in the folder, unless that exists, and takes its own name away. -1 and errno. */
int rt_file_session_publish(const struct rt_file_conn *c, uint64_t session, const char *name);
int rt_file_session_open(struct rt_file_conn *c);
int rt_file_session_check(struct rt_file_conn *c, bool *there);
void rt_file_session_end(struct rt_file_conn *c); /* gives up our own, with its tickets */
void rt_file_session_lost(struct rt_file_conn *c);
bool rt_file_session_dead(struct rt_file_conn *c, uint64_t session);
/* Whether any session lives; all that do look at their files. */
bool rt_file_session_alarm(struct rt_file_conn *c);
void rt_file_session_verify(struct rt_file_conn *c); /* ours: lost, if files of it are gone */
/* Whether others still see our session's file and our database. */
bool rt_file_session_linked(const struct rt_file_conn *c);
void rt_file_session_unlink(const struct rt_file_conn *c, uint64_t session);
/* A pidfd of the session's process if it can be seen and is still the same, else -1. */
int rt_file_session_pidfd(struct rt_file_conn *c, uint64_t session);

/* A ticket that waits, behind AHEAD (NULL: find out who that is). */
int rt_file_wait_new(struct rt_file_conn *c, const struct rt_join *j, uint64_t number,
                     const struct rt_file_row *ahead);
void rt_file_wait_adopt(struct rt_file_conn *c); /* after commit: those born wait now */
void rt_file_wait_drop_born(struct rt_file_conn *c);
struct rt_file_wait *rt_file_wait_find(struct rt_file_conn *c, uint64_t number);
void rt_file_wait_end(struct rt_file_conn *c, uint64_t number);  /* if it is there */
void rt_file_wait_look(struct rt_file_conn *c, uint64_t number); /* at its row; tells what is new */
void rt_file_wait_peer_dead(struct rt_file_conn *c, uint64_t session);
void rt_file_wait_poll_soon(struct rt_file_conn *c); /* in RT_FILE_POLL_MS at the latest */
void rt_file_wait_look_soon(struct rt_file_conn *c);
void rt_file_wait_held(struct rt_file_conn *c, int more); /* tickets of our session: 1 or -1 */
void rt_file_wait_remind(struct rt_file_conn *c);
void rt_file_wait_forget(struct rt_file_conn *c, uint64_t session); /* 0: all; tells nobody */
void rt_file_wait_init(struct rt_file_conn *c);

/* ---- peer.c: other sessions, counted by the tickets that wait for them ---- */

struct rt_file_peer *rt_file_peer_get(struct rt_file_conn *c,
                                      uint64_t session);               /* NULL: no memory */
void rt_file_peer_put(struct rt_file_conn *c, struct rt_file_peer *p); /* NULL is legal */
void rt_file_peer_poll(struct rt_file_conn *c);
void rt_file_peer_close(struct rt_file_conn *c); /* nobody waits any more */

/* ---- sweep.c ------------------------------------------------------------- */

/* One bounded step: takes the tickets of the dead SESSION out, those of line NAME (may be NULL) first;
 * the row and the files last. MORE: not finished. */
int rt_file_sweep_session(struct rt_file_conn *c, uint64_t session, const char *name, bool *more);
/* Ends dead sessions of the next PAGES of 64 tickets of line NAME, from AT on. */
int rt_file_sweep_line(struct rt_file_conn *c, const char *name, int pages,
                       struct rt_file_cursor *at);
void rt_file_sweep_some(struct rt_file_conn *c); /* dead sessions, ended tickets, stray files */

/* ---- bell.c -------------------------------------------------------------- */

int rt_file_bell_open(struct rt_file_conn *c, uint64_t session);
void rt_file_bell_alarm(struct rt_file_conn *c, uint64_t session); /* rings at once */
void rt_file_bell_close(struct rt_file_conn *c);
int rt_file_ring_add(struct rt_file_conn *c, enum rt_file_ring_kind kind,
                     const struct rt_file_row *row, const char *name);
int rt_file_rings_add(struct rt_file_rings *rings, struct rt_file_ring ring, const char *name);
void rt_file_rings_clear(struct rt_file_rings *rings);
void rt_file_rings_free(struct rt_file_rings *rings);
void rt_file_rings_send(struct rt_file_conn *c); /* after commit; own ones are heard at once */
void rt_file_rings_late(struct rt_timer_call *t, int64_t now);

/* ---- inspect.c, observe.c, doctor.c ---------------------------------------- */

int rt_file_inspect(struct rt_file_conn *c, struct rt_op *op);
int rt_file_list(struct rt_file_conn *c, struct rt_op *op);
int rt_file_check_name(struct rt_file_conn *c, const char *name); /* ops.c */
int rt_file_observe(struct rt_file_conn *c, struct rt_op *op);
int rt_file_observe_again(struct rt_file_conn *c); /* in a transaction: under a new session */
void rt_file_observe_dirty(struct rt_file_conn *c, const char *name);
void rt_file_observe_tell(struct rt_file_conn *c, bool all); /* those dirty, or all that changed */
int rt_file_check(struct rt_file_conn *c, struct rt_op *op);

/* Whether ERR means that there are no descriptors left; errmsg then says so: ROTA_UNREACHABLE. */
bool rt_file_say_files(struct rt_file_conn *c, int err);
#define rt_file_say(c, ...) ((void)rt_words_fail(&(c)->base, 0, __VA_ARGS__))
#define rt_file_log(c, ...) rt_words_log(&(c)->base, __VA_ARGS__)

#endif
