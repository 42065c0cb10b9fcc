/* SPDX-License-Identifier: Apache-2.0 */
/* Branches as bytes, the same in every journal.
 *
 * One is: number u32, mode u16, size of the name with its end u16, size of the payload u32, the name, the payload;
 * each number with its highest byte first. Several are one behind the other. */
#ifndef RT_RECORD_H
#define RT_RECORD_H

#include "engine/kit/arena.h"
#include "txn/journal/journal.h"

#define RT_RECORD_HEAD 12 /* bytes before the name */

/* How many bytes BRANCH takes. */
size_t rt_record_size(const struct rt_journal_branch *branch);
/* Writes so many at OUT. */
void rt_record_write(const struct rt_journal_branch *branch, uint8_t *out);

/* The next branch of BYTES, *AT is moved behind it; its name and payload point into BYTES. False: *AT is SIZE, or
 * what follows is no branch: *AT is then left where it is. */
bool rt_record_read(const uint8_t *bytes, size_t size, size_t *at, struct rt_journal_branch *out);

/* All of BYTES, behind the *COUNT branches that are in *LIST, which comes from ARENA by this. 0, ROTA_NOMEM, or
 * ROTA_PROTOCOL: they are damaged. */
int rt_record_gather(struct rt_arena *arena, const uint8_t *bytes, size_t size, bool registered,
                     const struct rt_journal_branch **list, size_t *count);

#endif
