/* SPDX-License-Identifier: Apache-2.0 */
/* A link of a SQL driver (engine/sql/driver.h) without the lock engine: the test sends steps and reads rows.
 *
 * Rows are kept as text, their columns joined by '|', null as "-". */
#ifndef SQL_RIDER_H
#define SQL_RIDER_H

#include "engine/sql/driver.h"
#include "engine/url.h"

#define RIDER_ROWS 600
#define RIDER_TEXT 512
#define RIDER_STEPS 64

struct rider {
    struct rt_up up;
    struct rt_conn base;
    struct rt_url url;
    const struct rt_sql_driver *driver;
    void *self;
    struct rt_sql_link *link;
    struct rt_dial_ring ring;

    int ups, downs, lands, closed, notices;
    int err;              /* of `down` */
    char why[RIDER_TEXT]; /* of `down`, `landed` or open */
    enum rt_sql_end end;
    size_t failed; /* the step that did */

    struct {
        size_t step;
        char text[RIDER_TEXT];
    } rows[RIDER_ROWS];
    size_t row_count;
    int64_t changed[RIDER_STEPS];         /* -1: not told */
    char channel[80], notice[RIDER_TEXT]; /* the last */
};

extern struct rt_loop rider_loop;

int rider_setup(void **state);    /* of a test: makes the loop */
int rider_teardown(void **state); /* ends it */

/* Returns what `open` said. TTL_MS 0: 10 s. PASSWORD is used if it is not NULL. */
int rider_open(struct rider *r, const struct rt_sql_driver *driver, const char *url,
               const char *password, uint32_t ttl_ms);
void rider_close(struct rider *r); /* drops the link, too */

/* Dials the END-th server that the URL names on a new link; returns what `dial` said. Not 0: there is no link. */
int rider_begin(struct rider *r, size_t end);
/* Dials one after the other and waits; true: one is up. */
bool rider_dial(struct rider *r);
/* Opens and brings it up, or the test fails. */
void rider_start(struct rider *r, const struct rt_sql_driver *driver, const char *url);
void rider_drop(struct rider *r); /* waits until it is closed, then it is gone */

void rider_turn(void); /* one; fails the test if nothing comes for long */
void rider_until(const int *count, int n);

/* ---- Flights ----------------------------------------------------------------------------------- */

#define N(x)                   \
    (struct rt_sql_cell)       \
    {                          \
        .number = (int64_t)(x) \
    }
#define T(x) rider_text(x)
#define FAR INT64_C(4000000000000000) /* a time that never comes, for a session's end */
#define NOTHING          \
    (struct rt_sql_cell) \
    {                    \
        .null = true     \
    }
struct rt_sql_cell rider_text(const char *text);

#define STEP(k, ...)                                                                       \
    (struct rt_sql_step)                                                                   \
    {                                                                                      \
        .kind = RT_SQL_##k,                                                                \
        .count = sizeof((struct rt_sql_cell[]){__VA_ARGS__}) / sizeof(struct rt_sql_cell), \
        .args = (struct rt_sql_cell[]){__VA_ARGS__},                                       \
    }
#define STEP0(k) /* without arguments */ \
    (struct rt_sql_step)                 \
    {                                    \
        .kind = RT_SQL_##k               \
    }

/* Sends them as one flight. The second waits for its end, which it returns. */
#define SEND(r, ...)                                   \
    rider_send(r, (struct rt_sql_step[]){__VA_ARGS__}, \
               sizeof((struct rt_sql_step[]){__VA_ARGS__}) / sizeof(struct rt_sql_step))
#define FLY(r, ...) (SEND(r, __VA_ARGS__), rider_land(r))
/* The same; it must have landed. */
#define DO(r, ...) rider_must(r, FLY(r, __VA_ARGS__))
void rider_send(struct rider *r, const struct rt_sql_step *steps, size_t count);
enum rt_sql_end rider_land(struct rider *r);
void rider_must(const struct rider *r, enum rt_sql_end end);

/* The I-th row of STEP, "" if there is none; how many there are. */
const char *rider_row(const struct rider *r, size_t step, size_t i);
size_t rider_rows(const struct rider *r, size_t step);
/* Its COLUMNth column as a number; null and what is not there: -1. */
int64_t rider_cell(const struct rider *r, size_t step, size_t i, size_t column);

#endif
