/* SPDX-License-Identifier: Apache-2.0 */
/* The message of each thread's last failed call, and the log. */
#include "txn/manager/inside.h"

#include <stdarg.h>
#include <stdio.h>

/* How many managers a thread may alternate between before their messages push each other out. */
#define REMEMBERED 4
#define MESSAGE 640 /* bytes of one: a line, and for some a CREATE TABLE in it */

static _Thread_local struct {
    uint64_t serial; /* of the manager; 0: rota_txns_open */
    char text[MESSAGE];
} messages[REMEMBERED];
static _Thread_local unsigned last;

static char *find(uint64_t serial)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (messages[i].text[0] != '\0' && messages[i].serial == serial)
            return messages[i].text;
    return NULL;
}

const char *rota_txn_errmsg(const struct rota_txns *m)
{
    const char *text = find(m != NULL ? m->serial : 0);
    return text != NULL ? text : "";
}

static char *place(uint64_t serial)
{
    char *text = find(serial);

    if (text == NULL) {
        last = (last + 1) % REMEMBERED;
        messages[last].serial = serial;
        text = messages[last].text;
    }
    return text;
}

int rt_txns_fail(const struct rota_txns *m, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(place(m != NULL ? m->serial : 0), MESSAGE, format, args);
    va_end(args);
    return err;
}

int rt_txns_fail_late(uint64_t serial, int err, const char *line)
{
    snprintf(place(serial), MESSAGE, "%s", line);
    return err;
}

void rt_txns_log(struct rota_txns *m, int level, const char *format, ...)
{
    char line[2 * RT_TXN_LINE];
    va_list args;

    if (m->opts.log == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    m->opts.log(m->opts.log_arg, level, line);
}
