/* SPDX-License-Identifier: Apache-2.0 */
/* Flights and their answers as bytes, between the model's driver and its server. What is sent together arrives together
 * (net.h), so nothing has to be reassembled.
 *
 *   up      a flight: its steps
 *   down    rows, counts and the end of a flight; notices */
#ifndef SIM_SQL_WIRE_H
#define SIM_SQL_WIRE_H

#include "engine/sql/driver.h"

enum ss_word { SS_ROW = 'R', SS_CHANGED = 'C', SS_END = 'E', SS_NOTICE = 'N' };

struct ss_bytes { /* zeroed before the first use */
    char *at;
    size_t n, room;
    bool failed;                            /* no memory */
    void *(*realloc)(void *p, size_t size); /* NULL: libc's, which does not fail here */
};

void ss_put(struct ss_bytes *b, const void *bytes, size_t n);
void ss_put_number(struct ss_bytes *b, int64_t number);
void ss_put_text(struct ss_bytes *b, const char *text, size_t n);
void ss_put_cells(struct ss_bytes *b, const struct rt_sql_cell *cells, size_t count);
void ss_put_flight(struct ss_bytes *b, const struct rt_sql_flight *f);

struct ss_reader {
    const char *at, *end;
};

int64_t ss_get_number(struct ss_reader *r);
/* Valid as long as the bytes; not NUL-terminated. */
const char *ss_get_text(struct ss_reader *r, size_t *n);
/* Reads at most MOST cells; returns how many there were. */
size_t ss_get_cells(struct ss_reader *r, struct rt_sql_cell *cells, size_t most);

#endif
