/* SPDX-License-Identifier: Apache-2.0 */
/* What the errors of MariaDB and MySQL mean to us. */
#include "engine/mysql/mysql.h"

#include <ctype.h>
#include <string.h>

struct meaning {
    unsigned code;
    enum rt_sql_end end;
};

static const struct meaning meanings[] = {
    {3, RT_SQL_FULL},       /* error writing a file */
    {1020, RT_SQL_AGAIN},   /* the record has changed since it was read */
    {1021, RT_SQL_FULL},    /* disk full */
    {1026, RT_SQL_FULL},    /* error writing a file */
    {1030, RT_SQL_FULL},    /* from the storage engine: 28, no space, in practice */
    {1037, RT_SQL_FULL},    /* out of memory */
    {1038, RT_SQL_FULL},    /* out of sort memory */
    {1040, RT_SQL_AGAIN},   /* too many connections */
    {1041, RT_SQL_FULL},    /* out of memory */
    {1044, RT_SQL_DENIED},  /* this database */
    {1045, RT_SQL_DENIED},  /* this user */
    {1049, RT_SQL_ABSENT},  /* the database */
    {1053, RT_SQL_AGAIN},   /* shutting down */
    {1054, RT_SQL_ABSENT},  /* a column */
    {1114, RT_SQL_FULL},    /* the table is full */
    {1142, RT_SQL_DENIED},  /* a command on a table */
    {1143, RT_SQL_DENIED},  /* ... on a column */
    {1146, RT_SQL_ABSENT},  /* a table */
    {1152, RT_SQL_AGAIN},   /* connection aborted */
    {1203, RT_SQL_AGAIN},   /* too many connections of this user */
    {1205, RT_SQL_AGAIN},   /* lock wait */
    {1206, RT_SQL_FULL},    /* too many locks */
    {1213, RT_SQL_AGAIN},   /* deadlock */
    {1226, RT_SQL_AGAIN},   /* a limit of this user */
    {1227, RT_SQL_DENIED},  /* needs a privilege */
    {1290, RT_SQL_REPLICA}, /* --read-only */
    {1317, RT_SQL_AGAIN},   /* interrupted */
    {1370, RT_SQL_DENIED},  /* a routine */
    {1412, RT_SQL_AGAIN},   /* the table has just been altered */
    {1461, RT_SQL_FULL},    /* max_prepared_stmt_count */
    {1615, RT_SQL_AGAIN},   /* must be prepared anew */
    {1637, RT_SQL_AGAIN},   /* too many transactions */
    {1792, RT_SQL_REPLICA}, /* a read-only transaction */
    {1836, RT_SQL_REPLICA}, /* read-only mode */
    {1927, RT_SQL_AGAIN},   /* the connection was killed */
    {1969, RT_SQL_AGAIN},   /* max_statement_time */
    {3024, RT_SQL_AGAIN},   /* max_execution_time */
    {4031, RT_SQL_AGAIN},   /* idle for too long */
};

enum rt_sql_end rt_mysql_end(unsigned code)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].code == code)
            return meanings[i].end;
    return RT_SQL_REFUSED;
}

bool rt_mysql_killed(unsigned code)
{
    return code == 1317 || code == 1969 || code == 3024 || rt_mysql_parting(code);
}

bool rt_mysql_parting(unsigned code)
{
    return code == 1053 || code == 1152 || code == 1927 || code == 4031;
}

int rt_mysql_refusal(unsigned code)
{
    switch (code) {
    case 1044: /* this database, */
    case 1045: /* this user, */
    case 1129: /* this host: too many errors, */
    case 1130: /* not among the allowed ones */
    case 1698:
    case 1820: /* the password must be changed */
    case 1862:
    case 3118: /* the account is locked */
    case 4151:
        return ROTA_AUTH;
    case 1049: /* there is no such database */
        return ROTA_INVALID;
    case 1251: /* how we log in */
    case 3159: /* TLS only */
        return ROTA_UNSUPPORTED;
    default:
        return rt_mysql_end(code) == RT_SQL_REFUSED ? ROTA_PROTOCOL : ROTA_UNREACHABLE;
    }
}

void rt_mysql_error(struct rt_mysql_cursor c, struct rt_mysql_error *e)
{
    (void)rt_mysql_int(&c, 1);
    e->code = (unsigned)rt_mysql_int(&c, 2);
    if (c.end - c.at >= 6 && c.at[0] == '#') /* SQLSTATE */
        c.at += 6;
    size_t n = 0;
    for (; c.at < c.end && n + 1 < sizeof(e->text); c.at++)
        e->text[n++] = isprint(*c.at) || *c.at >= 0x80 ? (char)*c.at : ' ';
    e->text[n] = '\0';
}
