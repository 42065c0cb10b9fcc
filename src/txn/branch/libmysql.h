/* SPDX-License-Identifier: Apache-2.0 */
/* MariaDB's client library: the one that made the application's connection, found at the first connection.
 *
 * Its header is not needed: what we use is declared here. Connections of Oracle's library look different inside, and
 * have different nonblocking calls: they are refused. */
#ifndef RT_LIBMYSQL_H
#define RT_LIBMYSQL_H

#include <stddef.h>

struct st_mysql;
struct st_mysql_res;

/* enum mysql_option */
#define RT_MYSQL_OPT_CONNECT_TIMEOUT 0
#define RT_MYSQL_SET_CHARSET_NAME 7
#define RT_MYSQL_OPT_LOCAL_INFILE 8
#define RT_MYSQL_OPT_PROTOCOL 9
#define RT_MYSQL_OPT_READ_TIMEOUT 11
#define RT_MYSQL_OPT_WRITE_TIMEOUT 12
#define RT_MYSQL_OPT_SSL_VERIFY_SERVER_CERT 21
#define RT_MYSQL_OPT_SSL_KEY 25
#define RT_MYSQL_OPT_SSL_CERT 26
#define RT_MYSQL_OPT_SSL_CA 27
#define RT_MYSQL_OPT_SSL_CAPATH 28
#define RT_MYSQL_OPT_SSL_ENFORCE 38
#define RT_MYSQL_OPT_NONBLOCK 6000
/* enum mariadb_value, and a bit of this value */
#define RT_MARIADB_CLIENT_CAPABILITIES 33
#define RT_MYSQL_MULTI_STATEMENTS (1UL << 16)
#define RT_MYSQL_PROTOCOL_TCP 1
#define RT_MYSQL_PROTOCOL_SOCKET 2
#define RT_MYSQL_WAIT_READ 1
#define RT_MYSQL_WAIT_WRITE 2
#define RT_MYSQL_WAIT_EXCEPT 4
#define RT_MYSQL_WAIT_TIMEOUT 8

/* X(result, name, arguments) */
#define RT_LIBMYSQL(X)                                                                      \
    X(int, mysql_options, (struct st_mysql *, int, const void *))                           \
    X(struct st_mysql *, mysql_init, (struct st_mysql *))                                   \
    X(void, mysql_close, (struct st_mysql *))                                               \
    X(int, mysql_real_connect_start,                                                        \
      (struct st_mysql **, struct st_mysql *, const char *, const char *, const char *,     \
       const char *, unsigned, const char *, unsigned long))                                \
    X(int, mysql_real_connect_cont, (struct st_mysql **, struct st_mysql *, int))           \
    X(int, mysql_real_query_start, (int *, struct st_mysql *, const char *, unsigned long)) \
    X(int, mysql_real_query_cont, (int *, struct st_mysql *, int))                          \
    X(int, mysql_store_result_start, (struct st_mysql_res **, struct st_mysql *))           \
    X(int, mysql_store_result_cont, (struct st_mysql_res **, struct st_mysql *, int))       \
    X(int, mysql_next_result_start, (int *, struct st_mysql *))                             \
    X(int, mysql_next_result_cont, (int *, struct st_mysql *, int))                         \
    X(void, mysql_free_result, (struct st_mysql_res *))                                     \
    X(char **, mysql_fetch_row, (struct st_mysql_res *))                                    \
    X(unsigned long *, mysql_fetch_lengths, (struct st_mysql_res *))                        \
    X(unsigned long long, mysql_num_rows, (struct st_mysql_res *))                          \
    X(unsigned, mysql_num_fields, (struct st_mysql_res *))                                  \
    X(unsigned, mysql_field_count, (struct st_mysql *))                                     \
    X(char, mysql_more_results, (struct st_mysql *))                                        \
    X(unsigned long long, mysql_affected_rows, (struct st_mysql *))                         \
    X(unsigned, mysql_warning_count, (struct st_mysql *))                                   \
    X(char, mariadb_get_info, (struct st_mysql *, int, void *))                             \
    X(unsigned, mysql_errno, (struct st_mysql *))                                           \
    X(const char *, mysql_error, (struct st_mysql *))                                       \
    X(const char *, mysql_sqlstate, (struct st_mysql *))                                    \
    X(unsigned long, mysql_thread_id, (struct st_mysql *))                                  \
    X(int, mysql_get_socket, (struct st_mysql *))                                           \
    X(unsigned, mysql_get_timeout_value_ms, (const struct st_mysql *))

struct rt_libmysql {
#define RT_LIBMYSQL_FIELD(result, name, arguments) result(*name) arguments;
    RT_LIBMYSQL(RT_LIBMYSQL_FIELD)
#undef RT_LIBMYSQL_FIELD
};
extern struct rt_libmysql rt_my; /* written once, by rt_libmysql_load */

/* 0, or ROTA_UNSUPPORTED with one line in ERRMSG. From any thread. It is never unloaded. */
int rt_libmysql_load(char *errmsg, size_t size);

#endif
