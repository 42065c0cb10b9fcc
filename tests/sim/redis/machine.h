/* SPDX-License-Identifier: Apache-2.0 */
/* What a model Redis does: the commands that the engine and its scripts use, and the scripts
 * themselves, in the Lua that Redis has. It knows no connections: server.h has those.
 *
 * tests/unit/redis holds it against a real redis-server: the same replies, the same store. */
#ifndef SIM_REDIS_MACHINE_H
#define SIM_REDIS_MACHINE_H

#include "sim/redis/reply.h"
#include "sim/redis/store.h"

#define RS_SCRIPTS_MAX 64
#define RS_SHA_SIZE 41 /* hex digits, terminated */

struct rs_machine { /* all zero except the two functions: as new */
    struct rs_store store;
    char scripts[RS_SCRIPTS_MAX][RS_SHA_SIZE]; /* those it knows by their hash */
    size_t script_count;
    /* The wall clock, in us since 1970. */
    int64_t (*clock_us)(struct rs_machine *m);
    /* Returns how many heard it. */
    int64_t (*publish)(struct rs_machine *m, struct rs_text channel, struct rs_text message);
    void *user;
    uint64_t calls;   /* of redis.call, by all scripts so far */
    bool wrote;       /* the last command changed something or would have */
    uint64_t version; /* of the store: another after every change, and on every machine */
    bool full;        /* maxmemory is reached: what writes is refused */
};

void rs_machine_clear(struct rs_machine *m);
void rs_machine_expire(struct rs_machine *m);  /* keys whose time is over go */
void rs_machine_changed(struct rs_machine *m); /* the store, not by commands */

/* Runs one command; false: there is no such command here. */
bool rs_machine_run(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                    struct rs_buffer *reply);

/* command.c: everything but scripts. script.c: EVAL, EVALSHA, SCRIPT. */
bool rs_command_run(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                    struct rs_buffer *reply);
bool rs_script_run(struct rs_machine *m, size_t argc, const struct rs_text *argv,
                   struct rs_buffer *reply);
bool rs_word_is(struct rs_text text, const char *word); /* in whatever case */
void rs_sha1(struct rs_text text, char out[RS_SHA_SIZE]);
void rs_script_forget_all(void); /* what was compiled, at the end of the program */

#endif
