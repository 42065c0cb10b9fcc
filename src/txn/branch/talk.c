/* SPDX-License-Identifier: Apache-2.0 */
/* What both client libraries have in common: the statement to come, what was answered. */
#include "txn/branch/talk.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool rt_talk_add(struct rt_talk *t, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(need >= 0);
    bool ok = rt_grow(&t->sql, &t->room, t->size + (size_t)need + 1, 1);
    if (ok)
        vsnprintf(t->sql + t->size, (size_t)need + 1, format, again);
    va_end(again);
    t->size += ok ? (size_t)need : 0;
    return ok;
}

void rt_talk_row(struct rt_talk *t, int cells, char *const *values)
{
    struct rt_said *said = &t->said;

    assert(cells >= 0);
    for (int i = 0; said->rows == 0 && i < cells && i < RT_SAID_CELLS; i++) {
        said->null[i] = values[i] == NULL;
        snprintf(said->cell[i], RT_SAID_CELL, "%s", values[i] != NULL ? values[i] : "");
    }
    said->rows++;
    if (t->row != NULL)
        t->row(t->row_arg, cells, values);
}

void rt_talk_line(char *out, size_t size, const char *text)
{
    assert(size > 0);
    snprintf(out, size, "%.*s", (int)strcspn(text, "\r\n"), text);
}
