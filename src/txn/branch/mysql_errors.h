/* SPDX-License-Identifier: Apache-2.0 */
/* What MariaDB's errors mean to a branch: for xa_mysql.c. */
#ifndef RT_MYSQL_ERRORS_H
#define RT_MYSQL_ERRORS_H

#include "txn/branch/talk.h"

#include <rota.h>

enum {
    NO_DATABASE_RIGHT = 1044,
    NO_ACCESS = 1045,
    NO_SYNTAX = 1064,
    NO_TABLE_RIGHT = 1142,
    NO_COLUMN_RIGHT = 1143,
    NO_TABLE = 1146,
    NO_VARIABLE = 1193,
    NOT_ROLLED_BACK = 1196, /* a warning: a table without transactions was changed */
    LOCK_WAIT = 1205,
    DEADLOCK = 1213,
    NO_PRIVILEGE = 1227,
    XA_NOTA = 1397,
    XA_RMFAIL = 1399,
    XA_OUTSIDE = 1400,
    XA_ROLLED_BACK = 1402,
    XA_DUPLICATE = 1440,
    XA_TIMED_OUT = 1613,
    XA_DEADLOCK = 1614,
    SIGNALLED = 1644,
};

static inline int error_of(const struct rt_said *said)
{
    switch (said->code) {
    case NO_DATABASE_RIGHT:
    case NO_ACCESS:
    case NO_TABLE_RIGHT:
    case NO_COLUMN_RIGHT:
    case NO_PRIVILEGE:
        return ROTA_AUTH;
    case LOCK_WAIT:
    case DEADLOCK:
    case XA_DEADLOCK:
    case XA_TIMED_OUT:
    case XA_ROLLED_BACK:
        return ROTA_BUSY;
    default:
        return ROTA_INVALID;
    }
}

static inline bool is_rolled_back(unsigned code)
{
    return code == XA_ROLLED_BACK || code == XA_TIMED_OUT || code == XA_DEADLOCK;
}

#endif
