/* SPDX-License-Identifier: Apache-2.0 */
/* A connection through MariaDB's own client library. */
#ifndef RT_MYSQL_CLIENT_H
#define RT_MYSQL_CLIENT_H

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mysql_server.h"

/* As the user rota, over the unix socket. Ends the test if it cannot connect. FLAGS: CLIENT_FOUND_ROWS
 * and the like. */
static inline MYSQL *rt_mysql_client_with(const struct rt_mariadb *m, unsigned long flags)
{
    FILE *file = fopen(m->password_file, "re");
    char password[64] = "";
    MYSQL *db = mysql_init(NULL);

    if (file == NULL || fgets(password, sizeof(password), file) == NULL || db == NULL)
        abort();
    fclose(file);
    password[strcspn(password, "\n")] = '\0';
    if (mysql_real_connect(db, "localhost", "rota", password, RT_MARIADB_DATABASE, 0, m->socket,
                           flags) == NULL) {
        fprintf(stderr, "mysql_real_connect: %s\n", mysql_error(db));
        abort();
    }
    return db;
}

static inline MYSQL *rt_mysql_client(const struct rt_mariadb *m)
{
    return rt_mysql_client_with(m, 0);
}

#endif
