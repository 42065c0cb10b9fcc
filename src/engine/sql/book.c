/* SPDX-License-Identifier: Apache-2.0 */
/* What a flight says and hears: its steps before, its rows after. */
#include "engine/sql/sql.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

#define BOOK_MOST (64u << 20) /* bytes that a server's rows may cost us */

/* NULL: no memory, and the book says so. */
static void *take(struct rt_sql_book *b, size_t size)
{
    b->arena.most = BOOK_MOST;
    void *at = rt_arena_get(&b->arena, size);
    b->failed = b->failed || at == NULL;
    return at;
}

/* Copies COUNT cells and their texts, each NUL-terminated. NULL: no memory, or there are none. */
static const struct rt_sql_cell *copy(struct rt_sql_book *b, const struct rt_sql_cell *cells,
                                      size_t count)
{
    struct rt_sql_cell *out = count > 0 ? take(b, count * sizeof(*out)) : NULL;
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = cells[i];
        if (cells[i].text == NULL)
            continue;
        char *text = take(b, cells[i].size + 1);
        if (text == NULL)
            return NULL;
        memcpy(text, cells[i].text, cells[i].size);
        text[cells[i].size] = '\0';
        out[i].text = text;
    }
    return out;
}

/* ---- Saying ------------------------------------------------------------------------------------------------ */

struct rt_sql_cell rt_sql_text(const char *text)
{
    return (struct rt_sql_cell){
        .text = text, .size = text != NULL ? strlen(text) : 0, .null = text == NULL};
}

void rt_sql_say_cells(struct rt_sql_book *b, enum rt_sql_step_kind kind,
                      const struct rt_sql_cell *args, size_t count)
{
    size_t need = b->step_count + 1;
    assert(count <= RT_SQL_ARGS);
    if (!rt_grow(&b->changed, &b->changed_room, need, sizeof(*b->changed)) ||
        !rt_grow(&b->steps, &b->step_room, need, sizeof(*b->steps))) {
        b->failed = true;
        return;
    }
    b->changed[b->step_count] = 0;
    b->steps[b->step_count++] = (struct rt_sql_step){kind, (uint32_t)count, copy(b, args, count),
                                                     NULL};
}

void rt_sql_say_own_cells(struct rt_sql_book *b, const struct rt_sql_saying *saying,
                          const struct rt_sql_cell *args, size_t count)
{
    size_t before = b->step_count;
    assert(count == strlen(saying->types));
    rt_sql_say_cells(b, RT_SQL_SAYING, args, count);
    if (b->step_count > before)
        b->steps[before].saying = saying;
}

/* ---- Hearing ----------------------------------------------------------------------------------------------- */

void rt_sql_book_hear(struct rt_sql_book *b, size_t step, const struct rt_sql_cell *cells,
                      size_t count)
{
    if (!rt_grow(&b->rows, &b->row_room, b->row_count + 1, sizeof(*b->rows))) {
        b->failed = true;
        return;
    }
    b->rows[b->row_count++] = (struct rt_sql_row){copy(b, cells, count), step, count};
}

const char *rt_sql_str(const struct rt_sql_row *row, size_t i)
{
    return i < row->count && row->cells[i].text != NULL ? row->cells[i].text : "";
}

/* ---- Life -------------------------------------------------------------------------------------------------- */

void rt_sql_book_clear(struct rt_sql_book *b)
{
    rt_arena_reset(&b->arena);
    b->step_count = b->row_count = 0;
    b->failed = false;
}

void rt_sql_book_free(struct rt_sql_book *b)
{
    rt_arena_fini(&b->arena);
    rt_free(b->steps);
    rt_free(b->changed);
    rt_free(b->rows);
    *b = (struct rt_sql_book){0};
}
