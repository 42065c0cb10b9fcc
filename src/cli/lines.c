/* SPDX-License-Identifier: Apache-2.0 */
/* All lines of an engine with their tickets. */
#include "cli/lines.h"

#include <stdlib.h>

static int inspect_all(struct rt_lines *lines, struct rota *r, const struct rota_line *found,
                       size_t count)
{
    lines->lines = calloc(count + 1, sizeof(struct rota_line *));
    if (lines->lines == NULL)
        return ROTA_NOMEM;
    for (size_t i = 0; i < count; i++) {
        struct rota_line *line;
        int err = rota_inspect(r, found[i].name, &line);
        if (err != 0)
            return err;
        if (line->count > 0)
            lines->lines[lines->count++] = line;
        else
            rota_line_free(line);
    }
    return 0;
}

int rt_lines_read(struct rt_lines *lines, struct rota *r, const char *prefix)
{
    struct rota_line *found;
    size_t count;

    *lines = (struct rt_lines){NULL, 0};
    int err = rota_list(r, prefix, &found, &count);
    if (err != 0)
        return err;
    err = inspect_all(lines, r, found, count);
    rota_list_free(found, count);
    return err;
}

void rt_lines_free(struct rt_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        rota_line_free(lines->lines[i]);
    free(lines->lines);
    *lines = (struct rt_lines){NULL, 0};
}
