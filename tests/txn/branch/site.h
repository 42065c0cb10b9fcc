/* SPDX-License-Identifier: Apache-2.0 */
/* A participant under test: a real server, connections to it as an application makes them, and what is in it. And
 * branches: begun, worked on, settled as recovery would. */
#ifndef TEST_SITE_H
#define TEST_SITE_H

#include "lib/proxy.h"
#include "txn/branch/branch.h"

#include <stdbool.h>
#include <stdint.h>

#define SITE_JOURNAL 0x51ab0001u
#define SITE_LIMIT_MS 60000 /* nothing takes this long unless it hangs */

struct site {
    const char *name;
    const struct rt_party_kind *kind;
    const struct rt_proxy_framing *framing;
    const char *hex, *hex_end; /* around the digits of an id */
    void (*start)(void); /* with the table work(id) and the right to see what the gate needs */
    void (*fini)(void);
    void (*kill)(void); /* -9 */
    void (*run)(void);  /* again */
    uint16_t (*port)(void);
    char *(*url)(uint16_t port);     /* what a keeper opens, at PORT; to be freed */
    void *(*connect)(uint16_t port); /* 0: its own. Ends the test on failure */
    void (*close)(void *conn);
    int (*fd)(void *conn);
    bool (*sql)(void *conn, const char *sql); /* as an application; true: it succeeded */
    long long (*number)(const char *sql);     /* one number, by its administrator */
    void (*admin)(const char *sql);
    long (*prepared)(void);              /* how many it has */
    void (*kill_connection)(void *conn); /* by the server */
};

extern const struct site site_mysql, site_postgres, site_sqlite;
extern bool site_mysql_log; /* before start: with a binary log */

/* An application's or keeper's connection with its party, attached. */
struct seat {
    const struct site *site;
    void *conn;
    struct rt_party *party;
};
void seat_open(struct seat *s, const struct site *site, uint16_t port, bool keeper);
/* The same without attaching. */
void seat_bare(struct seat *s, const struct site *site, uint16_t port, bool keeper);
void seat_close(struct seat *s); /* also the connection */

struct rt_part part_new(uint32_t branch); /* of a new transaction */

/* The op by the synchronous twin; by the asynchronous one every second time. */
enum rt_reply seat_op(struct seat *s, struct rt_party_op *op);
enum rt_reply seat_do(struct seat *s, enum rt_party_what what, struct rt_part *part);
enum rt_reply seat_do_with(struct seat *s, enum rt_party_what what, struct rt_part *part,
                           uint32_t flags);
int seat_err(void); /* of the last */

/* Begins PART and inserts row ROW into work. */
void seat_work(struct seat *s, struct rt_part *part, long long row);

/* Finishes PART through keeper K as recovery does, with COMMIT or not: the gate, the order, and a fenced ASK if the
 * branch is absent. Returns the result: COMMITTED or ABSENT. */
enum rt_reply settle(struct seat *k, struct rt_part *part, bool commit);

bool has_row(const struct site *site, long long row);
bool has_mark(const struct site *site, const struct rt_part *part); /* of a commit */

#endif
