/* SPDX-License-Identifier: Apache-2.0 */
/* Flights and their answers as bytes. */
#include "sim/sql/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { IS_NULL, IS_NUMBER, IS_TEXT };

/* ---- Writing ------------------------------------------------------------------------------------------------------ */

void ss_put(struct ss_bytes *b, const void *bytes, size_t n)
{
    if (b->n + n > b->room && !b->failed) {
        size_t room = 2 * (b->n + n) + 200;
        char *at = b->realloc != NULL ? b->realloc(b->at, room) : realloc(b->at, room);
        b->failed = at == NULL;
        if (at != NULL) {
            b->at = at;
            b->room = room;
        }
    }
    if (b->failed || n == 0)
        return;
    memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

void ss_put_number(struct ss_bytes *b, int64_t number)
{
    ss_put(b, &number, sizeof(number));
}

void ss_put_text(struct ss_bytes *b, const char *text, size_t n)
{
    ss_put_number(b, (int64_t)n);
    ss_put(b, text, n);
}

void ss_put_cells(struct ss_bytes *b, const struct rt_sql_cell *cells, size_t count)
{
    ss_put_number(b, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        const struct rt_sql_cell *c = &cells[i];
        ss_put_number(b, c->null ? IS_NULL : c->text != NULL ? IS_TEXT : IS_NUMBER);
        if (!c->null && c->text != NULL)
            ss_put_text(b, c->text, c->size);
        else if (!c->null)
            ss_put_number(b, c->number);
    }
}

void ss_put_flight(struct ss_bytes *b, const struct rt_sql_flight *f)
{
    assert(f->count > 0);
    ss_put_number(b, (int64_t)f->count);
    for (size_t i = 0; i < f->count; i++) {
        ss_put_number(b, f->steps[i].kind);
        ss_put_cells(b, f->steps[i].args, f->steps[i].count);
    }
}

/* ---- Reading ------------------------------------------------------------------------------------------------------ */

int64_t ss_get_number(struct ss_reader *r)
{
    int64_t number;
    assert((size_t)(r->end - r->at) >= sizeof(number));
    memcpy(&number, r->at, sizeof(number));
    r->at += sizeof(number);
    return number;
}

const char *ss_get_text(struct ss_reader *r, size_t *n)
{
    *n = (size_t)ss_get_number(r);
    const char *text = r->at;
    assert((size_t)(r->end - r->at) >= *n);
    r->at += *n;
    return text;
}

size_t ss_get_cells(struct ss_reader *r, struct rt_sql_cell *cells, size_t most)
{
    size_t count = (size_t)ss_get_number(r);
    assert(count <= most);
    for (size_t i = 0; i < count; i++) {
        int64_t kind = ss_get_number(r);
        cells[i] = (struct rt_sql_cell){.null = kind == IS_NULL};
        if (kind == IS_TEXT)
            cells[i].text = ss_get_text(r, &cells[i].size);
        else if (kind == IS_NUMBER)
            cells[i].number = ss_get_number(r);
    }
    return count;
}
