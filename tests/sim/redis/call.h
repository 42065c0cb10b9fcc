/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of commands share: one call with its arguments and its reply. */
#ifndef SIM_REDIS_CALL_H
#define SIM_REDIS_CALL_H

#include "sim/redis/machine.h"

#define RS_SYNTAX "ERR syntax error"
#define RS_NOT_FLOAT "ERR value is not a valid float"
#define RS_NOT_INTEGER "ERR value is not an integer or out of range"

struct rs_call {
    struct rs_machine *m;
    const struct rs_text *argv;
    size_t argc;
    struct rs_buffer *reply;
};

struct rs_command {
    const char *name; /* NULL: the end of the table */
    void (*run)(struct rs_call *c);
    size_t least, most; /* arguments, including the command's name; 0: any number */
    bool writes, grows; /* grows: refused when memory is full */
};

extern const struct rs_command rs_hash_commands[], rs_zset_commands[];

bool rs_to_double(struct rs_text text, double *out);
bool rs_to_integer(struct rs_text text, int64_t *out);

/* The key at argv[1]; false: it is of another type, and the reply says so. *KEY may be NULL. */
bool rs_call_key(struct rs_call *c, enum rs_type type, struct rs_key **key);
/* The same, made if it is missing. */
struct rs_key *rs_call_made(struct rs_call *c, enum rs_type type);
/* KEY may be NULL. */
const struct rs_entry *rs_call_entry(const struct rs_key *key, struct rs_text name);

/* HDEL and ZREM, HLEN and ZCARD, HSCAN and ZSCAN. */
void rs_call_remove(struct rs_call *c, enum rs_type type);
void rs_call_count(struct rs_call *c, enum rs_type type);
void rs_call_scan(struct rs_call *c, enum rs_type type);

#endif
