/* SPDX-License-Identifier: Apache-2.0 */
/* A record of the journal in etcd, as bytes:
 *
 *   1, stands, done, size of the label (4 bytes); registered u32, size of the branches u32; deadline, decided,
 *   claimer, claimed u64; the label; the branches of the decision; the registered ones (record.h). Numbers are
 *   big-endian. */
#ifndef RT_JOURNAL_ENTRY_H
#define RT_JOURNAL_ENTRY_H

#include "txn/journal/journal.h"

#define RT_ENTRY_HEAD 44
#define RT_ENTRY_REGISTERED_MAX (512 * 1024) /* bytes: etcd takes requests of 1.5 MiB */

struct rt_entry_record {          /* texts and bytes belong to their owner */
    enum rt_journal_stand stands; /* ABSENT: there is none */
    bool done;
    uint32_t registered;
    int64_t deadline_ms, decided_ms, claimed_ms;
    uint64_t claimer;
    const char *label; /* not NUL-terminated */
    size_t label_size; /* at most RT_JOURNAL_LABEL_MAX */
    const uint8_t *branches, *registered_bytes;
    size_t branches_size, registered_size;
    int64_t revision; /* at which it was read; 0: it was not */
};

size_t rt_entry_size(const struct rt_entry_record *r);
/* Writes it at OUT, WHOLE or without the registered branches; OUT NULL: only returns how many bytes that takes. */
size_t rt_entry_write(const struct rt_entry_record *r, bool whole, uint8_t *out);
/* False: these bytes are not a record. R points into them. */
bool rt_entry_read(const uint8_t *bytes, size_t size, struct rt_entry_record *r);
/* Whether there is a branch NUMBER in BYTES. */
bool rt_entry_has(const uint8_t *bytes, size_t size, uint32_t number);

#endif
