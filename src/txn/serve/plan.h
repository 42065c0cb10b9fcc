/* SPDX-License-Identifier: Apache-2.0 */
/* What a program with DTM's client asks for, in JSON: read, checked, and kept in the journal as it was read.
 *
 *   tcc    its branches come one by one (registerBranch): each has a confirm and a cancel
 *   saga   steps with an action and a compensation: in order, or concurrent with an order among some of them
 *   msg    steps with an action; query_prepared says whether the thing that the message reports has happened
 *
 * No I/O, no clock. Texts point into the JSON, which the plan owns. */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include "txn/id.h"

#include <jansson.h>

#define RT_PLAN_STEPS_MAX 999 /* of a saga, a message */
#define RT_PLAN_LINE 256
#define RT_PLAN_BRANCH_MAX 64 /* bytes of a branch_id */

enum rt_plan_kind { RT_PLAN_TCC = 1, RT_PLAN_SAGA, RT_PLAN_MSG };

struct rt_plan_step {
    const char *forward;             /* action, confirm; "": no call, it is done */
    const char *back;                /* compensate, cancel; likewise. A message has none */
    const char *data;                /* what is sent; "": a GET */
    char id[RT_PLAN_BRANCH_MAX + 1]; /* branch_id */
    uint32_t number;                 /* of its branch in the journal */
    int64_t at;                      /* tcc: when it was registered, us */
    json_t *json;                    /* tcc: what the texts point into; NULL: the plan's */
};

struct rt_plan {
    enum rt_plan_kind kind;
    const char *gid, *query; /* query: query_prepared, "": none */
    struct rt_plan_step *steps;
    size_t count, room;
    struct { /* STEP comes after PRE */
        uint32_t step, pre;
    } * orders;
    size_t order_count;
    char *headers; /* "Name: value\n"..., for every call; NULL: none */
    int64_t created_ms;
    int64_t timeout_s; /* 0: not given */
    int64_t request_s, retry_s, retry_limit, delay_s;
    bool concurrent, wait;
    json_t *json;
};

/* "tcc"; NULL: no such kind. */
const char *rt_plan_word(enum rt_plan_kind kind);

/* Reads TEXT, a request or what the journal keeps of one. NOW_MS: its created_ms, if it has none. False: ERRMSG says in
 * one line (RT_PLAN_LINE bytes) what is wrong, and PLAN needs no free. */
bool rt_plan_read(struct rt_plan *plan, const char *text, size_t size, int64_t now_ms,
                  char *errmsg);
/* The plan as bytes for the journal, which rt_plan_read reads; free() it. NULL: no memory. */
char *rt_plan_write(const struct rt_plan *plan, size_t *size);
void rt_plan_free(struct rt_plan *plan);

/* Adds a branch of a tcc: from a request, whose gid *GID then is, or from the journal. Branches are kept in the order
 * in which they were registered. */
bool rt_plan_add(struct rt_plan *plan, const char *text, size_t size, int64_t now_us,
                 const char **gid, char *errmsg);
/* A branch as bytes for the journal; free() it. */
char *rt_plan_write_branch(const struct rt_plan_step *step, size_t *size);

/* Whether TEXT is a gid; else ERRMSG. */
bool rt_plan_gid(const char *text, char *errmsg);

#endif
