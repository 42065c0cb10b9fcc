/* SPDX-License-Identifier: Apache-2.0 */
/* What a model Redis keeps: arrays of keys and of entries. */
#include "sim/redis/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts -------------------------------------------------------------- */

bool rs_text_equals(struct rs_text a, struct rs_text b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

int rs_text_compare(struct rs_text a, struct rs_text b)
{
    int order = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static struct rs_text text_copy(struct rs_text t)
{
    char *at = malloc(t.n + 1);
    assert(at != NULL);
    memcpy(at, t.at, t.n);
    at[t.n] = '\0';
    return (struct rs_text){at, t.n};
}

static void text_free(struct rs_text t)
{
    free((void *)(size_t)t.at);
}

/* ---- Keys --------------------------------------------------------------- */

static void key_clear(struct rs_key *key)
{
    for (size_t i = 0; i < key->count; i++) {
        text_free(key->entries[i].name);
        text_free(key->entries[i].value);
    }
    free(key->entries);
    text_free(key->name);
}

void rs_store_clear(struct rs_store *s)
{
    for (size_t i = 0; i < s->count; i++)
        key_clear(&s->keys[i]);
    free(s->keys);
    *s = (struct rs_store){0};
}

static struct rs_key key_copy(const struct rs_key *from)
{
    struct rs_key to = {
        .name = text_copy(from->name), .type = from->type, .ends_us = from->ends_us};
    to.entries = malloc((from->count + 1) * sizeof(to.entries[0]));
    assert(to.entries != NULL);
    to.room = from->count + 1;
    for (size_t i = 0; i < from->count; i++) {
        to.entries[i].score = from->entries[i].score;
        to.entries[i].name = text_copy(from->entries[i].name);
        to.entries[i].value = text_copy(from->entries[i].value);
    }
    to.count = from->count;
    return to;
}

void rs_store_copy(struct rs_store *to, const struct rs_store *from)
{
    rs_store_clear(to);
    to->keys = malloc((from->count + 1) * sizeof(to->keys[0]));
    assert(to->keys != NULL);
    to->room = from->count + 1;
    for (size_t i = 0; i < from->count; i++)
        to->keys[i] = key_copy(&from->keys[i]);
    to->count = from->count;
}

static bool key_equals(const struct rs_key *a, const struct rs_key *b)
{
    if (a->type != b->type || a->count != b->count || !rs_text_equals(a->name, b->name))
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct rs_entry *e = &a->entries[i], *o = rs_key_find(b, e->name);
        if (o == NULL || o->score != e->score || !rs_text_equals(o->value, e->value))
            return false;
    }
    return true;
}

bool rs_store_equals(const struct rs_store *a, const struct rs_store *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!key_equals(&a->keys[i], &b->keys[i]))
            return false;
    return true;
}

/* Where NAME is or would be. */
static size_t place_of(const struct rs_store *s, struct rs_text name)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rs_text_compare(s->keys[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct rs_key *rs_store_find(const struct rs_store *s, struct rs_text name)
{
    size_t at = place_of(s, name);
    return at < s->count && rs_text_equals(s->keys[at].name, name) ? &s->keys[at] : NULL;
}

struct rs_key *rs_store_get(struct rs_store *s, struct rs_text name, enum rs_type type)
{
    struct rs_key *key = rs_store_find(s, name);
    if (key != NULL)
        return key;
    if (s->count == s->room) {
        s->room = 2 * s->room + 8;
        s->keys = realloc(s->keys, s->room * sizeof(s->keys[0]));
        assert(s->keys != NULL);
    }
    size_t at = place_of(s, name);
    memmove(&s->keys[at + 1], &s->keys[at], (s->count - at) * sizeof(s->keys[0]));
    s->count++;
    s->keys[at] = (struct rs_key){.name = text_copy(name), .type = type};
    return &s->keys[at];
}

static void drop(struct rs_store *s, struct rs_key *key)
{
    size_t at = (size_t)(key - s->keys);
    key_clear(key);
    s->count--;
    memmove(key, key + 1, (s->count - at) * sizeof(*key));
}

bool rs_store_delete(struct rs_store *s, struct rs_text name)
{
    struct rs_key *key = rs_store_find(s, name);
    if (key != NULL)
        drop(s, key);
    return key != NULL;
}

void rs_store_trim(struct rs_store *s, struct rs_key *key)
{
    if (key->count == 0)
        drop(s, key);
}

/* ---- Entries ------------------------------------------------------------ */

struct rs_entry *rs_key_find(const struct rs_key *key, struct rs_text name)
{
    for (size_t i = 0; i < key->count; i++)
        if (rs_text_equals(key->entries[i].name, name))
            return &key->entries[i];
    return NULL;
}

static struct rs_entry *insert(struct rs_key *key, size_t at, struct rs_text name)
{
    if (key->count == key->room) {
        key->room = 2 * key->room + 4;
        key->entries = realloc(key->entries, key->room * sizeof(key->entries[0]));
        assert(key->entries != NULL);
    }
    struct rs_entry *e = &key->entries[at];
    memmove(e + 1, e, (key->count - at) * sizeof(*e));
    key->count++;
    *e = (struct rs_entry){.name = text_copy(name), .value = text_copy(RS_TEXT(""))};
    return e;
}

bool rs_hash_set(struct rs_key *key, struct rs_text field, struct rs_text value)
{
    struct rs_entry *e = rs_key_find(key, field);
    bool is_new = e == NULL;
    struct rs_text copy = text_copy(value);
    if (is_new)
        e = insert(key, key->count, field);
    text_free(e->value);
    e->value = copy;
    return is_new;
}

bool rs_zset_set(struct rs_key *key, struct rs_text member, double score)
{
    struct rs_entry *e = rs_key_find(key, member);
    bool is_new = e == NULL;
    if (!is_new && e->score == score)
        return false;
    if (!is_new)
        rs_key_remove(key, e);
    size_t at = 0;
    while (at < key->count &&
           (key->entries[at].score < score || (key->entries[at].score == score &&
                                               rs_text_compare(key->entries[at].name, member) < 0)))
        at++;
    insert(key, at, member)->score = score;
    return is_new;
}

void rs_key_remove(struct rs_key *key, struct rs_entry *entry)
{
    size_t at = (size_t)(entry - key->entries);
    text_free(entry->name);
    text_free(entry->value);
    key->count--;
    memmove(entry, entry + 1, (key->count - at) * sizeof(*entry));
}
