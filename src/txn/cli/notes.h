/* SPDX-License-Identifier: Apache-2.0 */
/* Who resolved what: a durable note in the journal, written before anything is done.
 *
 * It is a row among the journal's resources, which every journal keeps on stable storage and never forgets. No resource
 * can have its name: names that begin with "rota:" are refused. So a note needs no table of its own, and older programs
 * leave it alone. */
#ifndef RT_NOTES_H
#define RT_NOTES_H

#include "txn/cli/visit.h"

/* Writes "user@host: WHAT" for ID, with the time. 0, or a ROTA_* of the journal: then nothing may be done. */
int rt_notes_write(const struct rt_visit *v, const struct rt_txn_id *id, const char *what);

/* Notes that a person is called because of RESOURCE in ID: one row per pair, the last LINE counts. 0 or a ROTA_* of the
 * journal. */
int rt_notes_call(const struct rt_visit *v, const struct rt_txn_id *id, const char *resource,
                  const char *line);

/* Calls each() for such calls: those of ID (NULL: all), by resource. ID in each(): digits, not a string. */
typedef void rt_notes_call_fn(void *arg, const char *id, const char *resource, const char *line,
                              int64_t at_ms);
int rt_notes_calls(const struct rt_visit *v, const struct rt_txn_id *id, rt_notes_call_fn *each,
                   void *arg);

/* Calls each() for the notes of ID, the oldest first. */
int rt_notes_read(const struct rt_visit *v, const struct rt_txn_id *id,
                  void (*each)(void *arg, int64_t at_ms, const char *text), void *arg);

#endif
