/* SPDX-License-Identifier: Apache-2.0 */
/* Names of branches at MariaDB. */
#include "txn/branch/xid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_ID 1383036001 /* "Rota" */

const char *rt_xid_text(const struct rt_part *part, char out[RT_XID_TEXT])
{
    char name[RT_NAME_TEXT];

    rt_name_text(&part->name, name);
    snprintf(out, RT_XID_TEXT, "'%s','%016llx',%d", name, (unsigned long long)part->connection,
             FORMAT_ID);
    return out;
}

bool rt_xid_read(const char *data, struct rt_name *name, uint64_t *connection)
{
    char text[RT_NAME_TEXT], *end = NULL;
    size_t size = RT_NAME_TEXT - 1;

    if (strlen(data) != size + 32 || data[0] != '\'' || strncmp(data + 1 + size, "','", 3) != 0)
        return false;
    memcpy(text, data + 1, size);
    text[size] = '\0';
    *connection = strtoull(data + size + 4, &end, 16);
    return end == data + size + 20 && strcmp(end, "',1383036001") == 0 && rt_name_parse(text, name);
}
