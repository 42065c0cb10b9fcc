/* SPDX-License-Identifier: Apache-2.0 */
/* Ops into steps, rows into answers. */
#include "txn/journal/rows/rows.h"

#include "engine/kit/words.h"
#include "txn/journal/record.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DECIDE_INSERT, DECIDE_LOOK, DECIDE_SETTLE };
enum { FORGET_LOOK, FORGET_SWEEP };

#define FEW 3 /* fewer ids than this are done one by one */

/* ---- Saying ------------------------------------------------------------------------------------------ */

#define SAY(v, step, ...)                                                                    \
    rt_rows_say_cells((v)->b, (v)->words, (step), (const struct rt_sql_cell[]){__VA_ARGS__}, \
                      sizeof((const struct rt_sql_cell[]){__VA_ARGS__}) /                    \
                          sizeof(struct rt_sql_cell))
#define SAY_BARE(v, step) rt_rows_say_cells((v)->b, (v)->words, (step), NULL, 0)

struct voice { /* who says it, and into what */
    struct rt_sql_book *b;
    const struct rt_sql_saying *words;
};

void rt_rows_say_cells(struct rt_sql_book *b, const struct rt_sql_saying *words,
                       enum rt_rows_step step, const struct rt_sql_cell *args, size_t count)
{
    assert(step < RT_ROWS_END && words[step].slot == step);
    if (words[step].sql != NULL)
        rt_sql_say_own_cells(b, &words[step], args, count);
}

static struct rt_sql_cell bytes(const void *at, size_t size)
{
    return (struct rt_sql_cell){.text = size > 0 ? at : "", .size = size};
}

static struct rt_sql_cell id_cell(const struct rt_txn_id *id)
{
    return bytes(id->at, RT_TXN_ID_SIZE);
}

static struct rt_sql_cell number_cell(int64_t n)
{
    return (struct rt_sql_cell){.number = n};
}

static void say_decide(struct rt_journal_ask *a, const struct voice *v)
{
    struct rt_sql_cell id = id_cell(&a->in.decide.id), stands = number_cell(a->in.decide.decision);
    struct rt_sql_cell known = number_cell(a->in.decide.registered);
    struct rt_sql_cell branches = bytes(a->bytes, a->size);

    if (a->round == DECIDE_INSERT)
        SAY(v, RT_ROWS_INSERT, id, stands, number_cell(a->in.decide.deadline_ms),
            rt_sql_text(a->in.decide.label), branches, known,
            number_cell(rt_txn_id_birth(&a->in.decide.id)));
    if (a->round == DECIDE_SETTLE)
        SAY(v, RT_ROWS_SETTLE, id, stands, branches, known);
    if (a->round != DECIDE_INSERT)
        SAY(v, RT_ROWS_STANDS, id);
}

static void say_register(struct rt_journal_ask *a, const struct voice *v)
{
    struct rt_sql_cell id = id_cell(&a->in.reg.id);
    struct rt_journal_branch branch;
    size_t at = 0, from = 0;

    SAY(v, RT_ROWS_ROW, id, number_cell(a->in.reg.deadline_ms), rt_sql_text(a->in.reg.label),
        number_cell(rt_txn_id_birth(&a->in.reg.id)));
    SAY(v, RT_ROWS_LOCK, id);
    for (; rt_record_read(a->bytes, a->size, &at, &branch); from = at)
        SAY(v, RT_ROWS_BRANCH, id, number_cell(branch.number), bytes(a->bytes + from, at - from));
    if (a->in.reg.count > 0)
        SAY(v, RT_ROWS_COUNT, id);
    SAY(v, RT_ROWS_STANDS, id);
}

static void say_forget(struct rt_journal_ask *a, const struct voice *v, uint32_t number)
{
    struct rt_txn_id named = rt_txn_id_first_named(number);

    if (a->round == FORGET_LOOK) {
        SAY_BARE(v, RT_ROWS_WHO);
        SAY(v, RT_ROWS_NEWEST, id_cell(&named));
        return;
    }
    struct rt_txn_id below = rt_txn_id_make(number, a->in.forget.floor_ms, 0);
    struct rt_sql_cell before = number_cell(a->in.forget.before_ms);

    SAY_BARE(v, RT_ROWS_GUARD_ALONE);
    SAY(v, RT_ROWS_RAISE, number_cell(a->in.forget.floor_ms));
    SAY(v, RT_ROWS_SWEEP, id_cell(&below), number_cell(RT_JOURNAL_PAGE_MAX));
    SAY(v, RT_ROWS_STRAYS, id_cell(&below));
    SAY(v, RT_ROWS_NAMED_BRANCHES, id_cell(&named), before, number_cell(RT_JOURNAL_PAGE_MAX));
    SAY(v, RT_ROWS_NAMED, id_cell(&named), before, number_cell(RT_JOURNAL_PAGE_MAX));
    SAY_BARE(v, RT_ROWS_WHO);
}

static void say_claim(struct rt_journal_ask *a, const struct voice *v)
{
    struct rt_sql_cell id = id_cell(&a->in.claim.id);

    SAY(v, RT_ROWS_CLAIM, id, number_cell((int64_t)a->in.claim.who),
        number_cell(a->in.claim.for_ms));
    SAY(v, RT_ROWS_STANDS, id);
}

/* Many at a time, as long as that is less work: the last id fills the places left. */
static void say_done(struct rt_journal_ask *a, const struct voice *v)
{
    struct rt_sql_cell cells[RT_ROWS_MANY];
    size_t count = a->in.finish.count, n;

    for (size_t from = 0; from < count; from += n) {
        n = count - from < RT_ROWS_MANY ? count - from : RT_ROWS_MANY;
        if (n < FEW) {
            SAY(v, RT_ROWS_DONE, id_cell(&a->in.finish.ids[from]));
            n = 1;
            continue;
        }
        for (size_t i = 0; i < RT_ROWS_MANY; i++)
            cells[i] = id_cell(&a->in.finish.ids[from + (i < n ? i : n - 1)]);
        rt_rows_say_cells(v->b, v->words, RT_ROWS_DONE_MANY, cells, RT_ROWS_MANY);
    }
}

static void say_op(struct rt_journal_ask *a, const struct voice *v, uint32_t number)
{
    switch (a->in.kind) {
    case RT_JOURNAL_IDENTIFY:
        SAY_BARE(v, RT_ROWS_WHO);
        return;
    case RT_JOURNAL_REGISTER:
        say_register(a, v);
        return;
    case RT_JOURNAL_DECIDE:
        say_decide(a, v);
        return;
    case RT_JOURNAL_READ:
        SAY(v, RT_ROWS_STANDS, id_cell(&a->in.read.id));
        SAY(v, RT_ROWS_BRANCHES, id_cell(&a->in.read.id));
        return;
    case RT_JOURNAL_DONE:
        say_done(a, v);
        return;
    case RT_JOURNAL_FORGET:
        say_forget(a, v, number);
        return;
    case RT_JOURNAL_SCAN:
        if (a->in.scan.all)
            SAY(v, RT_ROWS_ALL, id_cell(&a->in.scan.after), number_cell(a->in.scan.limit));
        else
            SAY(v, RT_ROWS_SCAN, number_cell(a->in.scan.before_ms),
                number_cell(a->in.scan.after_deadline_ms), id_cell(&a->in.scan.after),
                number_cell(a->in.scan.limit));
        return;
    case RT_JOURNAL_CLAIM:
        say_claim(a, v);
        return;
    case RT_JOURNAL_RESOURCE:
        SAY(v, RT_ROWS_RESOURCE, rt_sql_text(a->in.resource.name), rt_sql_text(a->in.resource.url));
        return;
    case RT_JOURNAL_RESOURCES:
        SAY_BARE(v, RT_ROWS_RESOURCES);
        return;
    case RT_JOURNAL_OPS:
        break;
    }
    assert(false); /* checked before */
}

bool rt_rows_alone(const struct rt_journal_ask *a)
{
    return a->in.kind == RT_JOURNAL_FORGET;
}

/* Before any row is locked, whatever the flight carries: so nobody who holds a row waits for the one that may change
 * the floor. */
static bool must_guard(const struct rt_journal_ask *a, const struct rt_sql_book *b)
{
    if (rt_journal_ask_reads(a) || rt_rows_alone(a))
        return false;
    for (size_t i = 0; i < b->step_count; i++)
        if (b->steps[i].saying != NULL && b->steps[i].saying->slot == RT_ROWS_GUARD)
            return false;
    return true;
}

void rt_rows_say(struct rt_journal_ask *a, struct rt_sql_book *b, const struct rt_sql_saying *words,
                 uint32_t number)
{
    struct voice v = {b, words};
    if (must_guard(a, b))
        SAY_BARE(&v, RT_ROWS_GUARD);
    a->first = b->step_count;
    say_op(a, &v, number);
    a->steps = b->step_count - a->first;
}

/* ---- Hearing ----------------------------------------------------------------------------------------- */

static bool is_step(const struct rt_sql_step *s, enum rt_rows_step step)
{
    return s->saying != NULL && s->saying->slot == step;
}

static bool is_of(const struct rt_journal_ask *a, const struct rt_sql_book *b,
                  const struct rt_sql_row *row, enum rt_rows_step step)
{
    return row->step >= a->first && row->step < a->first + a->steps && row->cells != NULL &&
           is_step(&b->steps[row->step], step);
}

/* The next row of A's STEP after AFTER (NULL: the first); NULL: there is none. */
static const struct rt_sql_row *next_row(const struct rt_journal_ask *a,
                                         const struct rt_sql_book *b, enum rt_rows_step step,
                                         const struct rt_sql_row *after)
{
    size_t i = after != NULL ? (size_t)(after - b->rows) + 1 : 0;
    for (; i < b->row_count; i++)
        if (is_of(a, b, &b->rows[i], step))
            return &b->rows[i];
    return NULL;
}

static uint64_t changed(const struct rt_journal_ask *a, const struct rt_sql_book *b,
                        enum rt_rows_step step)
{
    for (size_t i = a->first; i < a->first + a->steps; i++)
        if (is_step(&b->steps[i], step))
            return b->changed[i];
    return 0;
}

struct standing { /* a row of STANDS */
    enum rt_journal_stand stands;
    bool there, done;
    int64_t floor, deadline, decided, claimed;
    uint32_t registered;
    uint64_t claimer;
};

static int damaged(struct rt_conn *conn)
{
    return rt_words_fail(conn, ROTA_PROTOCOL,
                         "the journal's tables are damaged, or not Rota's: restore them");
}

static int stands_of(const struct rt_journal_ask *a, const struct rt_sql_book *b,
                     struct rt_conn *conn, const struct rt_txn_id *id, struct standing *s)
{
    const struct rt_sql_row *row = next_row(a, b, RT_ROWS_STANDS, NULL);
    if (row == NULL || row->count != 11)
        return damaged(conn);
    *s = (struct standing){.floor = rt_sql_int(row, 0), .there = !rt_sql_null(row, 1)};
    s->stands = rt_txn_id_birth(id) < s->floor ? RT_JOURNAL_EXPIRED : RT_JOURNAL_ABSENT;
    if (!s->there)
        return 0;
    int64_t stands = rt_sql_int(row, 1);
    if (stands < RT_JOURNAL_OPEN || stands > RT_JOURNAL_ABORT)
        return damaged(conn);
    s->stands = (enum rt_journal_stand)stands;
    s->done = rt_sql_int(row, 2) != 0;
    s->deadline = rt_sql_int(row, 3);
    s->decided = rt_sql_int(row, 4);
    s->registered = (uint32_t)rt_sql_int(row, 5);
    s->claimer = (uint64_t)rt_sql_int(row, 6);
    s->claimed = rt_sql_int(row, 7);
    return 0;
}

static bool hear_decide(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn,
                        int *err)
{
    struct standing s;
    if (a->round == DECIDE_INSERT && changed(a, b, RT_ROWS_INSERT) > 0) {
        a->in.decide.stands = a->in.decide.decision;
        return true;
    }
    if (a->round == DECIDE_INSERT) {
        a->round = DECIDE_LOOK;
        return false;
    }
    *err = stands_of(a, b, conn, &a->in.decide.id, &s);
    if (*err != 0)
        return true;
    bool may = a->in.decide.decision == RT_JOURNAL_ABORT || s.registered <= a->in.decide.registered;
    if (s.stands == RT_JOURNAL_ABSENT || (s.stands == RT_JOURNAL_OPEN && may)) {
        a->round = s.stands == RT_JOURNAL_OPEN ? DECIDE_SETTLE : DECIDE_INSERT;
        return false;
    }
    a->in.decide.stands = s.stands;
    a->in.decide.floor_ms = s.floor;
    a->in.decide.registered = s.registered;
    return true;
}

static int hear_register(struct rt_journal_ask *a, const struct rt_sql_book *b,
                         struct rt_conn *conn)
{
    struct standing s;
    int rv = stands_of(a, b, conn, &a->in.reg.id, &s);
    if (rv == 0 && s.stands == RT_JOURNAL_ABSENT)
        rv = damaged(conn);
    a->in.reg.stands = rv == 0 ? s.stands : RT_JOURNAL_ABSENT;
    a->in.reg.floor_ms = rv == 0 ? s.floor : 0;
    return rv;
}

static int hear_claim(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn)
{
    struct standing s;
    int rv = stands_of(a, b, conn, &a->in.claim.id, &s);
    if (rv != 0)
        return rv;
    if (!s.there || s.done)
        return rt_words_fail(conn, ROTA_LOST,
                             "there is no such transaction to claim, or it is done");
    bool back = a->in.claim.for_ms == 0;
    bool ours = s.claimer == (back ? 0 : a->in.claim.who);
    a->in.claim.until_ms = s.claimed;
    if (ours || (back && s.claimer != a->in.claim.who))
        return 0;
    a->in.claim.who = s.claimer;
    return rt_words_fail(conn, ROTA_BUSY, "recovery %016llx has claimed it",
                         (unsigned long long)s.claimer);
}

/* What WHO answered in A's flight. */
static int hear_who(const struct rt_journal_ask *a, const struct rt_sql_book *b,
                    struct rt_conn *conn, const struct rt_sql_row **row)
{
    *row = next_row(a, b, RT_ROWS_WHO, NULL);
    return *row != NULL && (*row)->count == 4 && !rt_sql_null(*row, 0) ? 0 : damaged(conn);
}

static int hear_identify(struct rt_journal_ask *a, const struct rt_sql_book *b,
                         struct rt_conn *conn)
{
    const struct rt_sql_row *row;
    int rv = hear_who(a, b, conn, &row);
    if (rv != 0)
        return rv;
    a->in.identify.number = (uint32_t)rt_sql_int(row, 0);
    a->in.identify.floor_ms = rt_sql_int(row, 1);
    a->in.identify.now_ms = rt_sql_int(row, 2);
    snprintf(a->in.identify.layout, sizeof(a->in.identify.layout), "%s", rt_sql_str(row, 3));
    return 0;
}

static bool was_said(const struct rt_journal_ask *a, const struct rt_sql_book *b,
                     enum rt_rows_step step)
{
    for (size_t i = a->first; i < a->first + a->steps; i++)
        if (is_step(&b->steps[i], step))
            return true;
    return false;
}

/* Up to when the floor may be raised, if it is NOW. */
static int64_t newest_of(const struct rt_journal_ask *a, const struct rt_sql_book *b, int64_t now)
{
    const struct rt_sql_row *row = next_row(a, b, RT_ROWS_NEWEST, NULL);
    struct rt_txn_id id;
    if (!was_said(a, b, RT_ROWS_NEWEST))
        return now;
    if (row == NULL || row->cells[0].size != RT_TXN_ID_SIZE)
        return 0;
    memcpy(id.at, row->cells[0].text, RT_TXN_ID_SIZE);
    return rt_txn_id_birth(&id);
}

static bool hear_forget(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn,
                        int *err)
{
    const struct rt_sql_row *row;
    *err = hear_who(a, b, conn, &row);
    if (*err != 0)
        return true;
    if (a->round == FORGET_LOOK) {
        int64_t now = rt_sql_int(row, 2);
        rt_journal_ask_clamp(a, now, newest_of(a, b, now));
        a->round = FORGET_SWEEP;
        return false;
    }
    a->in.forget.floor_ms = rt_sql_int(row, 1);
    uint64_t swept = changed(a, b, RT_ROWS_SWEEP), named = changed(a, b, RT_ROWS_NAMED);
    a->in.forget.count = (uint32_t)(swept + named);
    a->in.forget.more = swept >= RT_JOURNAL_PAGE_MAX || named >= RT_JOURNAL_PAGE_MAX;
    return true;
}

static enum rt_rows_step scan_step(const struct rt_journal_ask *a)
{
    return a->in.scan.all ? RT_ROWS_ALL : RT_ROWS_SCAN;
}

static int hear_scan(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn)
{
    const struct rt_sql_row *row = NULL, *last = NULL;
    uint32_t count = 0, cells = a->in.scan.all ? 10 : 9;
    for (; (row = next_row(a, b, scan_step(a), row)) != NULL; last = row, count++)
        if (row->count != cells || row->cells[0].size != RT_TXN_ID_SIZE)
            return damaged(conn);
    a->in.scan.more = count >= a->in.scan.limit;
    if (last == NULL)
        return 0;
    a->in.scan.after_deadline_ms = rt_sql_int(last, 2);
    memcpy(a->in.scan.after.at, last->cells[0].text, RT_TXN_ID_SIZE);
    return 0;
}

bool rt_rows_hear(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn,
                  int *err)
{
    *err = 0;
    switch (a->in.kind) {
    case RT_JOURNAL_IDENTIFY:
        *err = hear_identify(a, b, conn);
        return true;
    case RT_JOURNAL_REGISTER:
        *err = hear_register(a, b, conn);
        return true;
    case RT_JOURNAL_DECIDE:
        return hear_decide(a, b, conn, err);
    case RT_JOURNAL_FORGET:
        return hear_forget(a, b, conn, err);
    case RT_JOURNAL_SCAN:
        *err = hear_scan(a, b, conn);
        return true;
    case RT_JOURNAL_CLAIM:
        *err = hear_claim(a, b, conn);
        return true;
    default:
        return true;
    }
}

int rt_rows_who(const struct rt_sql_book *b, struct rt_conn *conn, const char *at, uint32_t *number)
{
    for (size_t i = 0; i < b->row_count; i++) {
        const struct rt_sql_row *row = &b->rows[i];
        int64_t n = rt_sql_int(row, 0);
        if (b->steps[row->step].saying == NULL || row->cells == NULL || row->count != 4)
            continue;
        if (strtol(rt_sql_str(row, 3), NULL, 10) != RT_ROWS_LAYOUT_MAJOR)
            return rt_words_fail(
                conn, ROTA_UNSUPPORTED,
                "%.100s has a journal of layout '%.20s', but this library knows %d: use a matching one",
                at, rt_sql_str(row, 3), RT_ROWS_LAYOUT_MAJOR);
        if (n < 1 || n > UINT32_MAX)
            return damaged(conn);
        *number = (uint32_t)n;
        return 0;
    }
    return damaged(conn);
}

/* ---- Showing ------------------------------------------------------------------------------------------ */

#define SHOW_MOST (16u << 20) /* bytes of lists that a page may take */

static int gather(struct rt_arena *arena, const struct rt_sql_cell *cell, bool registered,
                  struct rt_journal_record *record)
{
    if (cell->text == NULL)
        return 0;
    return rt_record_gather(arena, (const uint8_t *)cell->text, cell->size, registered,
                            &record->branches, &record->branch_count);
}

static int show_read(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn,
                     struct rt_arena *arena)
{
    const struct rt_sql_row *row = next_row(a, b, RT_ROWS_STANDS, NULL), *more = NULL;
    struct standing s;
    int rv = stands_of(a, b, conn, &a->in.read.id, &s);
    if (rv != 0)
        return rv;
    struct rt_journal_record record = {.id = a->in.read.id,
                                       .stands = s.stands,
                                       .done = s.done,
                                       .deadline_ms = s.deadline,
                                       .decided_ms = s.decided,
                                       .registered = s.registered,
                                       .claimer = s.claimer,
                                       .claimed_ms = s.claimed,
                                       .label = rt_sql_str(row, 8)};
    rv = gather(arena, &row->cells[9], false, &record);
    while (rv == 0 && s.there && (more = next_row(a, b, RT_ROWS_BRANCHES, more)) != NULL)
        rv = more->count == 1 ? gather(arena, &more->cells[0], true, &record) : ROTA_PROTOCOL;
    if (rv == 0 && a->in.read.each != NULL)
        a->in.read.each(a->in.read.arg, &record);
    return rv;
}

static int show_scanned(struct rt_journal_ask *a, const struct rt_sql_row *row,
                        struct rt_arena *arena)
{
    struct rt_journal_record record = {.stands = (enum rt_journal_stand)rt_sql_int(row, 1),
                                       .done = a->in.scan.all && rt_sql_int(row, 9) != 0,
                                       .deadline_ms = rt_sql_int(row, 2),
                                       .decided_ms = rt_sql_int(row, 3),
                                       .registered = (uint32_t)rt_sql_int(row, 4),
                                       .claimer = (uint64_t)rt_sql_int(row, 5),
                                       .claimed_ms = rt_sql_int(row, 6),
                                       .label = rt_sql_str(row, 7)};
    memcpy(record.id.at, row->cells[0].text, RT_TXN_ID_SIZE);
    int rv = gather(arena, &row->cells[8], false, &record);
    if (rv == 0 && a->in.scan.each != NULL)
        a->in.scan.each(a->in.scan.arg, &record);
    return rv;
}

static int show(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn,
                struct rt_arena *arena)
{
    const struct rt_sql_row *row = NULL;
    int rv = 0;
    if (a->in.kind == RT_JOURNAL_READ)
        return show_read(a, b, conn, arena);
    while (a->in.kind == RT_JOURNAL_SCAN && rv == 0 &&
           (row = next_row(a, b, scan_step(a), row)) != NULL)
        rv = show_scanned(a, row, arena);
    while (a->in.kind == RT_JOURNAL_RESOURCES && a->in.resources.each != NULL &&
           (row = next_row(a, b, RT_ROWS_RESOURCES, row)) != NULL)
        a->in.resources.each(a->in.resources.arg, rt_sql_str(row, 0), rt_sql_str(row, 1),
                             rt_sql_int(row, 2));
    return rv;
}

int rt_rows_show(struct rt_journal_ask *a, const struct rt_sql_book *b, struct rt_conn *conn)
{
    struct rt_arena arena = {.most = SHOW_MOST};
    int rv = show(a, b, conn, &arena);
    rt_arena_fini(&arena);
    if (rv == ROTA_NOMEM)
        return rt_words_nomem(conn);
    return rv == ROTA_PROTOCOL ? damaged(conn) : rv;
}
