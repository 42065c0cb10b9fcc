/* SPDX-License-Identifier: Apache-2.0 */
/* All lines of an engine with their tickets. */
#ifndef RT_LINES_H
#define RT_LINES_H

#include <rota.h>

struct rt_lines {
    struct rota_line **lines; /* [count], by name; none of them is empty */
    size_t count;
};

/* Reads the lines whose name begins with PREFIX (NULL: all), one after the other: the result is not one moment's
 * snapshot. Lines that ended meanwhile are left out. 0 or a library error; free it either way. */
int rt_lines_read(struct rt_lines *lines, struct rota *r, const char *prefix);
void rt_lines_free(struct rt_lines *lines);

#endif
