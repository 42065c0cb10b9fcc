/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of the Redis engine, as made from lua/ by scripts/lua2c.py. lua/README.md says what each
 * takes and answers. */
#ifndef RT_REDIS_SCRIPT_H
#define RT_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* In the order of lua/meson.build. */
enum rt_redis_script {
    RT_REDIS_SCRIPT_OPEN,
    RT_REDIS_SCRIPT_BEAT,
    RT_REDIS_SCRIPT_SWEEP,
    RT_REDIS_SCRIPT_JOIN,
    RT_REDIS_SCRIPT_LEAVE,
    RT_REDIS_SCRIPT_CHANGE,
    RT_REDIS_SCRIPT_BREAK,
    RT_REDIS_SCRIPT_HELD,
    RT_REDIS_SCRIPT_LOOK,
    RT_REDIS_SCRIPT_INSPECT,
    RT_REDIS_SCRIPT_INSPECT_SESSION,
    RT_REDIS_SCRIPT_LIST,
    RT_REDIS_SCRIPT_END,
    RT_REDIS_SCRIPT_META,
    RT_REDIS_SCRIPT_RIGHTS,
    RT_REDIS_SCRIPTS, /* how many */
};

/* The second element of every reply. */
enum rt_redis_status {
    RT_REDIS_OK = 0,
    RT_REDIS_LOST = 1,
    RT_REDIS_BUSY = 2,
    RT_REDIS_KIND = 3,
    RT_REDIS_PARTIAL = 4,
    RT_REDIS_TAKEN = 5,
    RT_REDIS_TWICE = 6,
    RT_REDIS_MORE = 7,
};

struct rt_redis_text {
    const char *name;
    const char *text; /* ends with 0; all ASCII */
    size_t length;    /* of the text */
    char sha1[41];    /* what EVALSHA calls it by */
};

/* SHARDED: for a cluster, whose pushes go by SPUBLISH. */
const struct rt_redis_text *rt_redis_script_text(enum rt_redis_script script, bool sharded);

/* By script and sharded; rt_redis_script_text reads it. */
extern const struct rt_redis_text rt_redis_texts[RT_REDIS_SCRIPTS][2];

#endif
