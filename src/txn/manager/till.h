/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of our own to one database: opened from a URL, with the client library found at run time; one statement
 * at a time. */
#ifndef RT_TILL_H
#define RT_TILL_H

#include "txn/branch/talk.h"

struct rt_reach;

struct rt_till {
    const struct rt_reach *reach;
    void *conn; /* MYSQL *, PGconn * */
    bool mysql;
    struct rt_talk talk;
    char errmsg[256];
};

/* 0 or ROTA_*, and errmsg says why. Close it with rt_till_close, even after a failure. */
int rt_till_open(struct rt_till *till, const char *url);
void rt_till_close(struct rt_till *till);

/* SQL as it stands, however long. False: it failed, or was not answered within WITHIN ns (the connection is lost then), and
 * errmsg says why. */
bool rt_till_tell(struct rt_till *till, const char *sql, int64_t within);
/* The same for a short statement, however long it takes. */
__attribute__((format(printf, 2, 3))) bool rt_till_say(struct rt_till *till, const char *format,
                                                       ...);
/* The single number that a statement returns; -1: it failed. */
long long rt_till_number(struct rt_till *till, const char *sql);

#endif
