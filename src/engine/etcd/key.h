/* SPDX-License-Identifier: Apache-2.0 */
/* The layout in etcd: keys of tickets, and what their values say.
 *
 *   NAME/LEASE-sSPOT        a ticket; it ends with LEASE, its session (hexadecimal, not padded)
 *   NAME/LEASE-NONCE        one whose key is never reused: at_least, a leader's, the ninth in a line
 *   NAME/pSESSION-NONCE     a durable one: no lease, or one of its own that ends it
 *   NAME/LEASE              one of Go's concurrency.Mutex and Election, etcdctl lock, the lock service
 *   +rota/LEASE             a session; its value is the label. No spelled name has a '+'
 *
 * Spots are small numbers that a client reuses: to read a line, etcd walks over every key that was ever
 * there, until somebody compacts its history. The NONCE in the value tells the tickets apart.
 *
 * A value is "rota1 MODE TAKE OF FLAGS OWNER BOUND SINCE NONCE SIZE LABEL VALUE"; SIZE is that of the label.
 * Any other value belongs to an exclusive ticket and is its value: a foreign ticket's, or that of a leader
 * of ours, which foreign observers can then read. */
#ifndef RT_ETCD_KEY_H
#define RT_ETCD_KEY_H

#include "engine/engine.h"
#include "engine/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_ETCD_ID_MAX 40 /* "pSESSION-NONCE" */
#define RT_ETCD_KEY_MAX (RT_NAME_ROOM + RT_ETCD_ID_MAX)
#define RT_ETCD_SESSIONS "+rota/"
#define RT_ETCD_CARD_MAX (192 + RT_LABEL_MAX + ROTA_VALUE_MAX)

struct rt_etcd_id { /* what the last part of a key says */
    uint64_t session;
    uint64_t nonce, spot; /* one of them is not 0 */
    bool durable;
    bool ours; /* else foreign: `session` is its lease if it looks like one, or 0 */
};

/* Each writes into OUT (RT_ETCD_KEY_MAX bytes) and returns the size; 0: NAME is too long. */
size_t rt_etcd_key(char *out, const char *name, uint64_t session, bool durable, uint64_t nonce);
size_t rt_etcd_key_spot(char *out, const char *name, uint64_t session, uint64_t spot);
size_t rt_etcd_line_begin(char *out, const char *name);
size_t rt_etcd_line_end(char *out, const char *name); /* the first key behind the line */

/* Takes a key of a line apart; *NAME_SIZE: bytes of the line's name. False: it is not one (no '/'). */
bool rt_etcd_key_read(const uint8_t *key, size_t n, size_t *name_size, struct rt_etcd_id *id);

#define RT_ETCD_CARD_DETECT 0x1u /* ROTA_PLACE_DETECT */
#define RT_ETCD_CARD_LEFT \
    0x2u /* its owner has left; it keeps the line taken until its lease ends */

struct rt_etcd_card { /* a value, taken apart */
    uint32_t mode, take, of, flags;
    uint64_t owner;
    uint64_t bound;   /* RT_GATHER: all tickets up to this number are granted; 0: not yet */
    int64_t since_ms; /* when it was taken, by its client's wall clock: for people only */
    uint64_t nonce;   /* of its JOIN */
    const uint8_t *label, *value;
    size_t label_size, value_size;
    bool plain; /* no words of ours: all of it is the value */
    bool newer; /* of a later layout: nothing else is known */
};

/* Never fails: what is not ours, or cannot be read, is plain. Points into BYTES. */
void rt_etcd_card_read(struct rt_etcd_card *card, const uint8_t *bytes, size_t n);

/* Writes into OUT (RT_ETCD_CARD_MAX bytes) and returns the size. A plain card is written as its value alone. */
size_t rt_etcd_card_write(const struct rt_etcd_card *card, char *out);

/* Whether VALUE alone may stand for a ticket: nobody would read it as something else. */
bool rt_etcd_plain_fits(const char *value);

#endif
