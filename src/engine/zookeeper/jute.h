/* SPDX-License-Identifier: Apache-2.0 */
/* jute, as ZooKeeper speaks it: numbers of 4 and 8 bytes, big endian; texts and vectors preceded by their size, which
 * is -1 for none. Pure. */
#ifndef RT_JUTE_H
#define RT_JUTE_H

#include "engine/kit/shown.h" /* struct rt_text */

#include <stdbool.h>
#include <stdint.h>

struct rt_jute_out { /* zeroed before the first use */
    uint8_t *at;
    size_t size, room;
    bool failed; /* no memory: it must not be sent */
};

void rt_jute_int(struct rt_jute_out *o, int32_t value);
void rt_jute_long(struct rt_jute_out *o, int64_t value);
void rt_jute_bool(struct rt_jute_out *o, bool value);
void rt_jute_raw(struct rt_jute_out *o, const void *bytes, size_t n); /* without its size */
void rt_jute_bytes(struct rt_jute_out *o, const void *bytes, size_t n);
void rt_jute_text(struct rt_jute_out *o, const char *text);
void rt_jute_set_int(struct rt_jute_out *o, size_t at, int32_t value); /* written before */
void rt_jute_free(struct rt_jute_out *o); /* wiped: it may have been a password */

struct rt_jute_in {
    const uint8_t *at;
    size_t left;
    bool bad; /* it ended too soon, or made no sense; what was read since is 0 */
};

int32_t rt_jute_get_int(struct rt_jute_in *in);
int64_t rt_jute_get_long(struct rt_jute_in *in);
bool rt_jute_get_bool(struct rt_jute_in *in);
struct rt_text rt_jute_get_bytes(struct rt_jute_in *in); /* points into IN; of none: size 0 */
/* How many follow, each of at least LEAST bytes, so that no number from a hostile server makes us count for long. */
size_t rt_jute_get_count(struct rt_jute_in *in, size_t least);

struct rt_zk_stat {
    int64_t czxid, mzxid, ctime, mtime, owner;
    int32_t version;
};
void rt_jute_get_stat(struct rt_jute_in *in, struct rt_zk_stat *stat);

#endif
