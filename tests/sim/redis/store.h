/* SPDX-License-Identifier: Apache-2.0 */
/* What a model Redis keeps: hashes and sorted sets by key, and strings, in memory of its own.
 *
 * Small on purpose: everything is an array that is searched; a hash is in the order in which its fields
 * came, a sorted set in that of scores and then members, the keys in that of their bytes. Memory is
 * taken from malloc and never runs out: only the library starves. */
#ifndef SIM_REDIS_STORE_H
#define SIM_REDIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_text { /* bytes, any; not terminated */
    const char *at;
    size_t n;
};

#define RS_TEXT(literal) ((struct rs_text){(literal), sizeof(literal) - 1})

bool rs_text_equals(struct rs_text a, struct rs_text b);
int rs_text_compare(struct rs_text a, struct rs_text b);

enum rs_type { RS_STRING, RS_HASH, RS_ZSET };

struct rs_entry {
    double score;        /* ZSET */
    struct rs_text name; /* a field or a member; its own block */
    struct rs_text value;
};

struct rs_key {
    struct rs_text name;
    enum rs_type type;
    int64_t ends_us;          /* by the server's clock; 0: never */
    struct rs_entry *entries; /* STRING: one, its value */
    size_t count, room;
};

struct rs_store { /* all zero: empty */
    struct rs_key *keys;
    size_t count, room;
};

void rs_store_clear(struct rs_store *s);
void rs_store_copy(struct rs_store *to, const struct rs_store *from); /* TO is cleared before */
/* The same keys with the same contents, in whatever order a hash has them. */
bool rs_store_equals(const struct rs_store *a, const struct rs_store *b);

struct rs_key *rs_store_find(const struct rs_store *s, struct rs_text name);
struct rs_key *rs_store_get(struct rs_store *s, struct rs_text name, enum rs_type type); /* made */
bool rs_store_delete(struct rs_store *s, struct rs_text name);
/* A key without entries goes. */
void rs_store_trim(struct rs_store *s, struct rs_key *key);

struct rs_entry *rs_key_find(const struct rs_key *key, struct rs_text name);
/* True: it is new. */
bool rs_hash_set(struct rs_key *key, struct rs_text field, struct rs_text value);
bool rs_zset_set(struct rs_key *key, struct rs_text member, double score);
void rs_key_remove(struct rs_key *key, struct rs_entry *entry);

#endif
