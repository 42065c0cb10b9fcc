/* SPDX-License-Identifier: Apache-2.0 */
/* Inside resource.h: the table, a resource with its queue, its worker, how a connection is made.
 *
 *   resource.c           the table; errands taken
 *   resource_config.c    files of names
 *   resource_site.c      those that are services over HTTP
 *   resource_worker.c    the thread: connected or not, errand by errand
 *   resource_contact.c      a connection and which tables of markers it is attached to
 *   resource_mysql.c, resource_postgres.c   connecting
 *   resource_dial.c      the same for callers that are not keepers */
#ifndef RT_RESOURCE_INSIDE_H
#define RT_RESOURCE_INSIDE_H

#include "engine/url.h"
#include "txn/manager/resource.h"

#include <pthread.h>
#include <stdatomic.h>

#define RT_RESOURCE_LINE 256 /* bytes of a message, with the NUL */
#define RT_RESOURCE_MS INT64_C(1000000)

struct rt_effort;

/* ---- Kinds of databases -------------------------------------------------------- */

struct rt_reach {
    const char *const *schemes, *const *params; /* NULL-terminated */
    const struct rt_party_kind *kind;
    /* Connects to the Ith place that URL (with the password that counts) names. *COUNT: how many there are, once that
     * is known. 0; or ROTA_* and one line in ERRMSG: after ROTA_UNREACHABLE, _CANCELED, _NOMEM it may work another
     * time; any other: it refuses us. MARKS (RT_PARTY_MARKS_MAX bytes): the table of markers that the URL asks for, "":
     * none. */
    int (*connect)(const struct rt_url *url, size_t i, size_t *count, struct rt_effort *effort,
                   void **conn, char *marks, char *errmsg, size_t size);
    int (*fd)(void *conn);
    void (*hang_up)(void *conn);
};
extern const struct rt_reach rt_reach_mysql, rt_reach_postgres;
const struct rt_reach *rt_reach_of(const char *scheme); /* NULL: there is none */

/* Connects to one of the places that URL names, for callers that are not keepers: within NS nanoseconds, all places
 * together. Its parameters and its password are read like a resource's. SEVERAL: it takes several statements in one
 * packet. */
int rt_reach_dial(const struct rt_reach *reach, const struct rt_url *url, int64_t ns, bool several,
                  void **conn, char *errmsg, size_t size);

/* What a URL says; shared by all who look at it. */
struct rt_spot {
    uint32_t refs; /* under the resource's mutex */
    const struct rt_reach *reach;
    struct rt_url url;
};

/* ---- A connection (resource_contact.c) --------------------------------------------- */

#define RT_CONTACT_KNOWN 8

struct rt_contact { /* all zero: there is none */
    const struct rt_reach *reach;
    struct rt_spot *spot;
    void *conn;
    struct rt_party *party;
    char at[300]; /* where, for messages */
    char marks[RT_PARTY_MARKS_MAX];
    struct {
        char asked[RT_PARTY_MARKS_MAX]; /* "": what the URL leads to */
        struct rt_place is;
    } known[RT_CONTACT_KNOWN]; /* attached to; the next replaces the oldest */
    size_t known_count;
};

/* Connects to one of the places of SPOT and checks who is there. Errors as for connect. */
int rt_contact_open(struct rt_contact *contact, struct rt_spot *spot, struct rt_effort *effort,
                    char *errmsg, size_t size);
void rt_contact_close(struct rt_contact *contact); /* twice is legal. SPOT is let go by its owner */
bool rt_contact_has_ended(const struct rt_contact *contact); /* seen without asking */

/* Attaches the party to where E's op is to be asked. True: now it can be. False: E has its reply, and any but LOST
 * concerns E alone. */
bool rt_contact_place(struct rt_contact *contact, struct rt_effort *effort, const char *name,
                      struct rt_errand *e);

/* ---- A resource ------------------------------------------------------------------ */

enum { RT_FIRST, RT_GATES, RT_LAST, RT_QUEUES }; /* by what goes first */

struct rt_queue {
    struct rt_errand *first, **last;
};

struct rt_resource {
    struct rt_resources *table; /* not for one left to its worker */
    struct rt_resource *_Atomic next;
    char *name;
    uint32_t index;
    unsigned load; /* by which file it was named; 0: by none */
    void *_Atomic user;
    _Atomic bool up;
    int wake; /* eventfd: an errand, another URL, the end; -1 before the first worker */

    pthread_mutex_t mu;  /* for what follows */
    pthread_cond_t seen; /* `blind` or `left` has changed */
    struct rt_spot *spot;
    uint32_t version; /* the spot's */
    struct rt_queue queues[RT_QUEUES];
    int64_t nearest; /* no errand in a queue is late before this */
    int64_t asked_at;
    pthread_t thread;
    bool has_thread; /* to be joined */
    bool left;       /* ... and only its end is still to run */
    bool closing;
    bool blind;     /* in a call that cannot be cut */
    bool abandoned; /* so left to itself: it frees the resource */

    /* The worker's own. */
    struct rt_contact contact;
    uint32_t version_tried;
    uint32_t failures; /* in a row, of connecting */
    int64_t next_try;  /* not before */
    int64_t gate_at;   /* the same for GATE */
    int refused;       /* ROTA_*: it refuses us; else 0 */
    bool told_up;
    char why[RT_RESOURCE_LINE]; /* of the last failure; "": none */
};

struct rt_resources {
    struct rt_resources_hooks hooks;
    pthread_mutex_t mu; /* for adding */
    struct rt_resource *_Atomic first;
    struct rt_resource *_Atomic *last;
    uint32_t count;
    unsigned loads;
    struct rt_service_name *services; /* under the mutex */
    char *on_attention;               /* the command; NULL: none */
    unsigned on_attention_load;
};

void rt_spot_let_go(struct rt_spot *spot); /* under the mutex, or by its last user */
void rt_resource_free(struct rt_resource *r);
/* As rt_resources_add; LOAD: see struct rt_resource; if set, an existing one stays. HAS_PASSWORD may be NULL. */
int rt_resources_put(struct rt_resources *t, const char *name, const char *url, unsigned load,
                     bool *has_password, char *errmsg, size_t size);

/* The same for a service; its name was checked. */
int rt_resources_put_site(struct rt_resources *t, const char *name, const char *url, unsigned load,
                          char *errmsg, size_t size);
/* Under the mutex; *LOAD: which file named it. */
bool rt_resources_has_site(const struct rt_resources *t, const char *name, unsigned *load);
void rt_resources_free_sites(struct rt_resources *t);

struct rt_renewal {                 /* rt_resources_reload */
    struct rt_resources *t, *fresh; /* what is in use, and what the files say now */
    void (*each)(void *arg, const char *name, enum rt_resource_news news);
    void *arg;
    char *errmsg;
    size_t size;
    int err;
};
/* Each of them for the databases, and for the services. With the mutex of T. */
void rt_renewal_check(struct rt_renewal *n); /* sets err if a name is of another kind now */
void rt_renewal_check_sites(struct rt_renewal *n);
void rt_renewal_take(struct rt_renewal *n); /* takes over from FRESH; err: NOMEM */
void rt_renewal_take_sites(struct rt_renewal *n);

/* ---- The worker (resource_worker.c) ------------------------------------------------ */

void *rt_worker_main(void *arg); /* a struct rt_resource */

/* Answers E, without a lock: with the reply that is set, else LOST. */
__attribute__((format(printf, 3, 4))) void rt_worker_drop(struct rt_errand *e, int err,
                                                          const char *format, ...);

/* What to watch while the worker waits: the end, and errands that become late. */
struct rt_effort {
    struct rt_resource *r;
    int64_t until; /* CLOCK_BOOTTIME, ns */
    bool several;  /* MariaDB: the connection takes several statements in one packet */
};
/* Waits for EVENTS of FD (-1: none), and at most until min(UNTIL, effort->until). Returns what poll says; 0: the time
 * is over; -1: it is to end. */
int rt_effort_wait(struct rt_effort *effort, int fd, short events, int64_t until);
/* Around a call that cannot be cut. False: the worker was left to itself meanwhile: release what it has, and return. */
void rt_effort_blind(struct rt_effort *effort);
bool rt_effort_seeing(struct rt_effort *effort);
bool rt_effort_is_over(struct rt_effort *effort); /* it is to end */

#endif
