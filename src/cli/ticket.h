/* SPDX-License-Identifier: Apache-2.0 */
/* A ticket of a line, in words and in JSON. */
#ifndef RT_TICKET_OUT_H
#define RT_TICKET_OUT_H

#include <jansson.h>
#include <rota.h>
#include <stdbool.h>
#include <stddef.h>

#define RT_TICKET_TEXT 1100 /* room for a label, a value or a sentence part */

/* A label of the usual form host/process/program. */
struct rt_ticket_who {
    int host_bytes; /* how many bytes of the label are the host */
    long process;
    const char *program; /* in the label */
};

/* False: LABEL has another form. */
bool rt_ticket_who(const char *label, struct rt_ticket_who *who);

/* All below write at most SIZE bytes into OUT, without control characters, and return OUT. */

/* "exclusive", "shared", "2 of 3", "latch of 3", "barrier of 3" */
const char *rt_ticket_mode(const struct rota_place *place, char *out, size_t size);

/* "thread 2", "owner 7", or "" for nobody. */
const char *rt_ticket_owner(const struct rota_place *place, char *out, size_t size);

/* The object docs/json.md calls a ticket; INDEX counts from 0. NULL: out of memory. */
json_t *rt_ticket_json(const struct rota_place *place, size_t index);

#endif
