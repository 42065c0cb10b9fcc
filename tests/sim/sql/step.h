/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of the model server share: the one that runs, its arguments and rows, and lines as they are. */
#ifndef SIM_SQL_STEP_H
#define SIM_SQL_STEP_H

#include "sim/sql/store.h"

#include <assert.h>
#include <string.h>

struct ss_at { /* the step that runs */
    struct ss_flight *f;
    struct ss_store *s;
    const struct rt_sql_step *step;
    size_t index;
    int64_t now;
    struct ss_line *l; /* of the first argument, if it names one that is there */
};

/* ---- Arguments and rows ------------------------------------------------------------------------------------------- */

static inline int64_t ss_num(const struct ss_at *a, size_t i)
{
    assert(i < a->step->count && a->step->args[i].text == NULL && !a->step->args[i].null);
    return a->step->args[i].number;
}

static inline void ss_text(const struct ss_at *a, size_t i, char out[SS_TEXT_MAX])
{
    const struct rt_sql_cell *c = &a->step->args[i];
    size_t n = c->null ? 0 : c->size < SS_TEXT_MAX - 1 ? c->size : SS_TEXT_MAX - 1;
    assert(i < a->step->count && (c->null || c->text != NULL));
    if (n > 0)
        memcpy(out, c->text, n);
    out[n] = '\0';
}

static inline struct rt_sql_cell ss_number(int64_t n)
{
    return (struct rt_sql_cell){.number = n};
}

static inline struct rt_sql_cell ss_words(const char *t)
{
    return (struct rt_sql_cell){.text = t, .size = strlen(t)};
}

#define SS_NOTHING ((struct rt_sql_cell){.null = true})

static inline struct rt_sql_cell ss_left(int64_t us)
{
    return us == INT64_MAX ? SS_NOTHING : ss_number(us > 0 ? us : 0);
}

#define SS_ROW_OF(a, ...)                                                      \
    (a)->f->row((a)->f, (a)->index, (const struct rt_sql_cell[]){__VA_ARGS__}, \
                sizeof((const struct rt_sql_cell[]){__VA_ARGS__}) / sizeof(struct rt_sql_cell))

static inline void ss_changed(const struct ss_at *a, uint64_t count)
{
    a->f->changed(a->f, a->index, count);
}

/* ---- Lines as they are -------------------------------------------------------------------------------------------- */

struct ss_ticket *ss_by_number(struct ss_line *l, int64_t session, int64_t number); /* or NULL */
struct ss_ticket *ss_by_nonce(struct ss_line *l, int64_t session, int64_t nonce);
const char *ss_label_of(const struct ss_at *a, const struct ss_ticket *t);
bool ss_is_wanted(const struct ss_line *l, const struct ss_ticket *t);
/* When T may end by time, counted from now; INT64_MAX: never. */
int64_t ss_end_of(const struct ss_at *a, const struct ss_ticket *t);
/* When what T waits for may end: all granted ones if nobody waits ahead of it, else the one ahead. */
int64_t ss_left_of(const struct ss_at *a, const struct ss_line *l, const struct ss_ticket *t);
/* Any of several that hold permits may let T in: there is no one bell for that. */
struct rt_sql_cell ss_bell_ahead(const struct ss_line *l, const struct ss_ticket *t);
/* Changes T so that it keeps its line taken, as nobody's. False: it owes nothing. */
bool ss_keeps(const struct ss_at *a, struct ss_ticket *t);

void ss_do_look(struct ss_at *a);
void ss_do_front(struct ss_at *a);
void ss_do_inspect(struct ss_at *a);
void ss_do_list(struct ss_at *a);

#endif
