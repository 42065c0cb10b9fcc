/* SPDX-License-Identifier: Apache-2.0 */
/* Branches as bytes, the same in every journal.
 *
 * One is: number u32, mode u16, size of the name with its NUL u16, size of the payload u32, the name, the payload; all
 * numbers big-endian. Several follow one another. */
#ifndef RT_RECORD_H
#define RT_RECORD_H

#include "engine/kit/arena.h"
#include "txn/journal/journal.h"

#define RT_RECORD_HEAD 12 /* bytes before the name */

/* How many bytes BRANCH takes. */
size_t rt_record_size(const struct rt_journal_branch *branch);
/* Writes that many bytes at OUT. */
void rt_record_write(const struct rt_journal_branch *branch, uint8_t *out);

/* Reads the next branch of BYTES and moves *AT past it; its name and payload point into BYTES. False: *AT is SIZE, or
 * what follows is not a branch; *AT is then left where it is. */
bool rt_record_read(const uint8_t *bytes, size_t size, size_t *at, struct rt_journal_branch *out);

/* Appends all branches in BYTES to the *COUNT that are in *LIST, which this allocates from ARENA. 0, ROTA_NOMEM, or
 * ROTA_PROTOCOL: they are damaged. */
int rt_record_gather(struct rt_arena *arena, const uint8_t *bytes, size_t size, bool registered,
                     const struct rt_journal_branch **list, size_t *count);

#endif
