/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox, seen from the database: a table of events, the states of a row, and a map of columns for a table that was
 * there before.
 *
 *          the writer's COMMIT        the broker has it            the consumer's work is committed
 *   (none) ───────────────────▶ new ────────────────────▶ published ─────────────────────────▶ processed ──▶ cleaned
 *                                │ ▲                        │   ▲
 *               refused n times  │ │ replay (a person)      └───┘ stale: published again, with the same id
 *                                ▼ │
 *                               dead
 *
 * Whoever relays a row has its lock, and no column says so: a relay that crashes frees its rows at once. `processed`
 * may come before `published` is written, and wins. Nobody asks for "ids greater than the last": transactions do not
 * commit in the order of their ids, so rows are found by their state. */
#ifndef RT_EVENT_H
#define RT_EVENT_H

#include <rota_txn.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_EVENT_TABLE "rota_event"
#define RT_EVENT_INBOX "rota_inbox"           /* on the consumer's side: what was taken */
#define RT_EVENT_TROUBLE "rota_event_trouble" /* about rows that were refused, or are dead */
#define RT_EVENT_RELAY "rota_relay"           /* SQLite: the one lease */
#define RT_EVENT_CHANNEL "rota_event"         /* PostgreSQL: NOTIFY */

#define RT_EVENT_WORD 256     /* bytes of a column's name, a constant or a state, with the end */
#define RT_EVENT_ID 192       /* bytes of an id in messages, with the end */
#define RT_EVENT_CONSUMER 128 /* bytes of a consumer's name */
#define RT_EVENT_TAKEN 64     /* bytes of an id that can be taken */

enum rt_event_state {
    RT_EVENT_NEW = 0,
    RT_EVENT_PUBLISHED,
    RT_EVENT_PROCESSED,
    RT_EVENT_DEAD,
    RT_EVENT_STATES,
};
extern const char *const rt_event_state_names[RT_EVENT_STATES]; /* "new", ... */

enum rt_event_column {
    RT_COLUMN_ID = 0,
    RT_COLUMN_EVENT_ID, /* none: messages are named TABLE:ID */
    RT_COLUMN_TOPIC,
    RT_COLUMN_KEY,  /* none: there is no order */
    RT_COLUMN_TYPE, /* may be none */
    RT_COLUMN_PAYLOAD,
    RT_COLUMN_STATE,
    RT_COLUMN_CREATED, /* none: no age is known */
    RT_COLUMN_UPDATED, /* none: nothing is published again, and nothing is cleaned up */
    RT_COLUMNS,
};

struct rt_event_word {
    char text[RT_EVENT_WORD]; /* "": none */
    bool constant;            /* it was in single quotes: not a column */
};

struct rt_event_map {
    char table[RT_EVENT_WORD]; /* or schema.table */
    struct rt_event_word columns[RT_COLUMNS];
    char states[RT_EVENT_STATES][RT_EVENT_WORD]; /* the column's values; dead may be "" */
    bool own;                                    /* it is the table that rota_event_make_* makes */
};

/* The table rota_event. */
void rt_event_map_default(struct rt_event_map *map);

/* Reads TEXT: `name=value`, separated by commas or lines ('#' begins a comment), or by '&' after a '?'. A value in
 * single quotes is a constant (topic, type, key); '' in it is a quote. Names: table; id, event_id, topic, key, type,
 * payload, state, created, updated; new, published, processed, dead. Without `table` it is rota_event, and any name
 * left out is as in that table. With another table, a name left out means that it has no such column; id, topic,
 * payload and state must be named. ROTA_INVALID and one line in ERRMSG; then MAP is untouched. */
int rt_event_map_read(struct rt_event_map *map, const char *text, char *errmsg, size_t size);

/* The same, from the text if it contains a '=', else from the file of that name. */
int rt_event_map_load(struct rt_event_map *map, const char *text_or_file, char *errmsg,
                      size_t size);

/* The map as rt_event_map_read reads it, in one line. False: OUT is too small. */
bool rt_event_map_print(const struct rt_event_map *map, char *out, size_t size);

/* The id of a message: OUT gets the 32 digits of a UUID, or EVENT_ID as it is; if EVENT_ID is NULL, TABLE:ID. */
void rt_event_id_of(const struct rt_event_map *map, const char *event_id, int64_t id,
                    char out[RT_EVENT_ID]);
/* The reverse, for a map without event_id. False: the id is not this table's. */
bool rt_event_id_row(const struct rt_event_map *map, const char *event_id, int64_t *id);
/* How a column keeps ids: as they are, but for a UUID in any spelling; as a UUID; as bytes, whose digits are the id. */
enum rt_event_form { RT_FORM_TEXT, RT_FORM_UUID, RT_FORM_BYTES };
/* By the column's type, as its server writes it. */
enum rt_event_form rt_event_form_of(const char *type);
/* Whether it is a UUID, with or without hyphens; OUT (may be NULL, 33 bytes): its 32 digits. */
bool rt_event_id_is_uuid(const char *event_id, char *out);

#endif
