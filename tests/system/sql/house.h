/* SPDX-License-Identifier: Apache-2.0 */
/* The server of a test on SQL: a PostgreSQL or a MariaDB, as the program's first argument says. */
#ifndef RT_HOUSE_H
#define RT_HOUSE_H

#include "engine/sql/driver.h"
#include "lib/proxy.h"
#include "stage.h"

#define HOUSE_LIMIT_MS 60000 /* for what must happen, on a slow machine too */

struct house_kind {
    const char *name; /* "postgres", "mysql" */
    const struct rt_sql_driver *driver;
    const struct rt_proxy_framing *framing;
    uint64_t links; /* of a client that waits for nothing and has used many names */
    void (*start)(void);
    void (*start_logged)(void); /* so that it may have a replica */
    void (*fini)(void);
    void (*kill)(void); /* kill -9 */
    void (*run)(void);  /* again, with its data; waits until it answers */
    uint16_t (*port)(void);
    char *(*url)(uint16_t port);      /* 0: its own; the caller's to free */
    const char *(*ask)(const char *); /* the first value; "": none. Until the next */
    /* Starts a replica that follows by itself; cuts it off; promotes it: it takes writes, and is the server from now
     * on. The old one stays until fini. */
    void (*follow)(void);
    void (*detach)(void);
    void (*promote)(void);
    char *(*replica_url)(void);
    /* SQL that ends any connection of a client, or what it is doing; answers with something if there is one. */
    const char *cut_one, *stop_one;
    const char *time; /* SQL for the seconds since 1970 by its clock */
    /* The words by which the proxy knows flights with this step, alone or with others. */
    void (*words)(enum rt_sql_step_kind kind, char *alone, char *among, size_t size);
};

/* A number that a library preloaded into servers reads: the servers started between its begin and its end, which keep
 * the file for good. NAME is the variable by which they know it, NAME_SO says where the library is. */
struct house_knob {
    int file;
    char path[300];
};
#define HOUSE_CLOCK "ROTA_CLOCK_SHIFT" /* us by which their clock is ahead */
#define HOUSE_DISK "ROTA_FULL_DISK"    /* not 0: it is full */
void house_knob_begin(struct house_knob *k, const char *name);
void house_knob_end(const char *name);
void house_knob_set(const struct house_knob *k, int64_t value); /* from now on; 0 at first */

extern const struct house_kind house_postgres, house_mysql;

/* This program's. */
extern const struct house_kind *house;
/* Chooses it by the argument; 0: there is no such server here. $ROTA_ONLY chooses cases. */
bool house_choose(int argc, char **argv);
int house_setup(void **state); /* for cmocka's group */
int house_teardown(void **state);

const char *house_ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
long long house_number(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct rt_proxy *house_proxy(uint64_t seed); /* to it, with its framing */

/* Six processes of THREADS each on it, not started yet; the title names the server, too. MORE: flags. */
struct stage *house_stage(const char *title, uint32_t threads, uint32_t ttl_ms, uint32_t more);
/* Finishes and frees the stage: no findings, and nothing is left that one client does not sweep; unless MAY_LOSE, all
 * that was held is still held. */
void house_finish(struct stage *st, bool may_lose);
/* Waits until a client that only beats has swept what the dead left, and asserts that nothing stays when it goes. */
void house_swept(void);

#endif
