/* SPDX-License-Identifier: Apache-2.0 */
/* Several steps that say the same become one statement whose arguments are arrays: what a statement costs the server
 * besides its row is paid once. */
#include "engine/postgres/postgres.h"

#include "base/alloc.h"
#include "base/bug.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define BYTEA_OID 17
#define INT8_OID 20
#define TEXT_OID 25
#define BYTEA_ARRAY_OID 1001
#define TEXT_ARRAY_OID 1009
#define INT8_ARRAY_OID 1016

size_t rt_postgres_run(const struct rt_sql_flight *f, size_t from)
{
    const struct rt_sql_saying *saying = f->steps[from].saying;
    size_t end = from + 1;

    while (saying != NULL && saying->many != NULL && end < f->count &&
           f->steps[end].saying == saying)
        end++;
    return end - from;
}

/* ---- Arrays, as the server reads them: dimensions, whether there are nulls, the type; length and first number of the
 * only dimension; then the size and bytes of each element ---- */

#define HEAD (5 * sizeof(uint32_t))

static size_t size_of(char type, const struct rt_sql_cell *c)
{
    return type == 'i' ? sizeof(int64_t) : c->text != NULL ? c->size : 0;
}

static char *put_word(char *at, size_t word)
{
    uint32_t v = htobe32((uint32_t)word);

    memcpy(at, &v, sizeof(v));
    return at + sizeof(v);
}

static char *put_element(char *at, char type, const struct rt_sql_cell *c)
{
    size_t size = size_of(type, c);
    uint64_t number = htobe64((uint64_t)c->number);

    assert(!c->null);
    at = put_word(at, size);
    if (size > 0)
        memcpy(at, type == 'i' ? (const char *)&number : c->text, size);
    return at + size;
}

/* Writes the Kth argument of all steps, at AT. */
static char *put_array(char *at, const struct rt_sql_step *steps, size_t count, size_t k)
{
    char type = steps->saying->types[k];

    at = put_word(at, 1);
    at = put_word(at, 0);
    at = put_word(at, type == 'i' ? INT8_OID : type == 'b' ? BYTEA_OID : TEXT_OID);
    at = put_word(at, count);
    at = put_word(at, 1);
    for (size_t i = 0; i < count; i++)
        at = put_element(at, type, &steps[i].args[k]);
    return at;
}

static size_t room_for(const struct rt_sql_step *steps, size_t count)
{
    const char *types = steps->saying->types;
    size_t room = 0;

    for (size_t k = 0; types[k] != '\0'; k++) {
        room += HEAD;
        for (size_t i = 0; i < count; i++)
            room += sizeof(uint32_t) + size_of(types[k], &steps[i].args[k]);
    }
    return room;
}

bool rt_postgres_put_many(struct rt_postgres_link *l, const struct rt_sql_step *steps, size_t count,
                          struct rt_postgres_args *a)
{
    const char *types = steps->saying->types;

    if (!rt_grow(&l->arrays, &l->arrays_room, room_for(steps, count), 1))
        return false;
    char *at = l->arrays;
    for (a->count = 0; types[a->count] != '\0'; a->count++) {
        char *from = at;
        at = put_array(from, steps, count, (size_t)a->count);
        a->types[a->count] = types[a->count] == 'i'   ? INT8_ARRAY_OID
                             : types[a->count] == 'b' ? BYTEA_ARRAY_OID
                                                      : TEXT_ARRAY_OID;
        a->values[a->count] = from;
        a->lengths[a->count] = (int)(at - from);
        a->formats[a->count] = 1; /* binary */
    }
    return true;
}

/* ---- Their answer ---- */

/* Which step of D has KEY as its first argument, searching from FROM on, since answers come in
 * order; D->many: none. */
static size_t find(const struct rt_postgres_link *l, const struct rt_postgres_due *d, size_t from,
                   const char *key, size_t size)
{
    for (size_t i = 0; i < d->many; i++) {
        size_t at = (from + i) % d->many;
        const struct rt_sql_cell *c = &l->steps[d->step + at].args[0];
        if (c->size == size && memcmp(c->text, key, size) == 0)
            return at;
    }
    return d->many;
}

void rt_postgres_tell_many(struct rt_postgres_link *l, const struct rt_postgres_due *d,
                           const PGresult *r)
{
    uint32_t life = l->life;
    int rows = rt_pq.PQntuples(r);

    for (size_t i = 0; RT_BUG(RT_BUG_MANY_ALL_CHANGED) && i < d->many; i++)
        l->base.user->changed(&l->base, d->step + i, 1);
    for (size_t row = 0, next = 0; (int)row < rows && l->life == life; row++, next++) {
        next = find(l, d, next, rt_pq.PQgetvalue(r, (int)row, 0),
                    (size_t)rt_pq.PQgetlength(r, (int)row, 0));
        if (next == d->many) {
            rt_postgres_fail(l, ROTA_PROTOCOL, "an answer to what nobody said");
            return;
        }
        l->base.user->changed(&l->base, d->step + next, 1);
    }
}
