/* SPDX-License-Identifier: Apache-2.0 */
/* What rota guard prints: lines for psql, mariadb, redis-cli and etcdctl, quoted for a shell. */
#ifndef RT_GUARD_LINES_H
#define RT_GUARD_LINES_H

struct rt_guard_lines {
    const char *table;  /* SQL: the user's; NULL: rota_guard */
    const char *key;    /* SQL: the column of the row's key; else the key itself */
    const char *column; /* SQL: of the fence */
    const char *set; /* SQL: what to change, as in UPDATE ... SET; NULL: that is up to the user */
};

typedef void rt_guard_lines_fn(const struct rt_guard_lines *lines);

/* On stdout. Names have no control characters. */
rt_guard_lines_fn rt_guard_lines_postgres;
rt_guard_lines_fn rt_guard_lines_mysql;
rt_guard_lines_fn rt_guard_lines_redis;
rt_guard_lines_fn rt_guard_lines_etcd;

#endif
