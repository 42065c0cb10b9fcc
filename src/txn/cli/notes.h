/* SPDX-License-Identifier: Apache-2.0 */
/* Who resolved what: a durable note in the journal, written before anything is done.
 *
 * It is a row among the journal's resources, which every journal keeps on stable storage and never forgets. Its name
 * cannot be a resource's: those that begin with "rota:" are refused. So a note needs no table of its own, and older
 * programs leave it alone. */
#ifndef RT_NOTES_H
#define RT_NOTES_H

#include "txn/cli/visit.h"

/* "user@host: WHAT" for ID, with the time. 0 or a ROTA_* of the journal: then nothing may be done. */
int rt_notes_write(const struct rt_visit *v, const struct rt_txn_id *id, const char *what);

/* Calls each() for those of ID, the oldest first. */
int rt_notes_read(const struct rt_visit *v, const struct rt_txn_id *id,
                  void (*each)(void *arg, int64_t at_ms, const char *text), void *arg);

#endif
