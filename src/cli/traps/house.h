/* SPDX-License-Identifier: Apache-2.0 */
/* The servers that a trap needs, started in a scratch folder on a unix socket or loopback; they
 * die with us. */
#ifndef RT_HOUSE_H
#define RT_HOUSE_H

#include "cli/traps/seat.h"

#include <stdint.h>

#define RT_HOUSE_REDIS 5  /* that many at once */
#define RT_HOUSE_PATH 108 /* of a unix socket */

struct rt_house_server {
    struct rt_seat seat; /* its process */
    char socket[RT_HOUSE_PATH];
    uint16_t port; /* 0: the socket only */
    int reserved;  /* if there is a port: the socket that keeps it ours */
};

struct rt_house {
    char *folder;
    struct rt_house_server redis[RT_HOUSE_REDIS];
    struct rt_house_server mariadb, postgres;
    bool made; /* MariaDB's tables */
};

/* Whether PROGRAM is installed. */
bool rt_house_has(const char *program);

/* Starts Redis I, empty, unless it runs; with PORT also on a free port of loopback. Likewise MariaDB. Returns an exit
 * code; if it is not RT_EXIT_OK a message was printed. */
int rt_house_redis(struct rt_house *house, unsigned i, bool port);
int rt_house_mariadb(struct rt_house *house);
/* The same for PostgreSQL, at the socket in FOLDER/pg; as the user postgres if we are root, whom it refuses. */
int rt_house_postgres(struct rt_house *house);

/* Kills Redis I: what it had is gone. */
void rt_house_kill_redis(struct rt_house *house, unsigned i);

/* Takes SEAT at Redis I, or at MariaDB. 0 or errno. */
int rt_house_at_redis(struct rt_house *house, unsigned i, struct rt_seat *seat);
int rt_house_at_mariadb(const struct rt_house *house, struct rt_seat *seat);

void rt_house_close(struct rt_house *house);

#endif
