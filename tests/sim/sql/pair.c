/* SPDX-License-Identifier: Apache-2.0 */
/* The model's steps and a real server's, side by side.
 *
 * Numbers of tickets are compared by their rank, not by their size: the clocks differ. Times end long after the test,
 * or have ended before it. */
#include "sim/sql/pair.h"

#include "core/grant.h"
#include "lib/patience.h"
#include "lib/random.h"
#include "sim/sql/store.h"
#include "unit/sql/rider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LONG_US INT64_C(600000000) /* ten minutes */
#define WHOLE (INT64_C(1) << 62)
#define NAMES 4
#define SESSIONS 5
#define NUMBERS_MAX 4000
#define FLIGHT_MAX 60
#define FLIGHTS 400

static const char *const names[NAMES] = {"a", "b", "c", "d"};
static const uint32_t kinds[NAMES] = {RT_EXCLUSIVE, RT_EXCLUSIVE, RT_PERMITS, RT_GATHER};

static struct rt_random chance;
static struct rider real;
static const struct pair_real *server;
static struct ss_store model;
static struct ss_flight flight;

/* ---- Numbers ------------------------------------------------------------------------------------------------------ */

/* The Ith number of a line, as each of the two has it. */
static struct {
    char name;
    int64_t model, real;
} numbers[NUMBERS_MAX];
static size_t number_count;

/* Which of NAME's numbers this is; one that is not known yet is the next. */
static size_t which(char name, int64_t number, bool of_model)
{
    for (size_t i = 0; i < number_count; i++) {
        int64_t *at = of_model ? &numbers[i].model : &numbers[i].real;
        if (numbers[i].name == name && *at == 0)
            *at = number;
        if (numbers[i].name == name && *at == number)
            return i;
    }
    assert_true(number_count < NUMBERS_MAX);
    numbers[number_count].name = name;
    numbers[number_count].model = of_model ? number : 0;
    numbers[number_count].real = of_model ? 0 : number;
    return number_count++;
}

/* ---- Rows as text ------------------------------------------------------------------------------------------------- */

#define ROW_TEXT 400

struct heard {
    char rows[RIDER_ROWS][ROW_TEXT];
    size_t count;
    int64_t changed[RIDER_STEPS];
};
static struct heard by_model, by_real;

enum column { SAME, NUMBER, LEFT, AGO, NAME };

/* What the columns of a step's rows are, if they are not the same in both. */
static enum column column_of(enum rt_sql_step_kind kind, size_t i)
{
    static const struct {
        enum rt_sql_step_kind kind;
        size_t number, left, ago, name;
    } table[] = {
        {RT_SQL_TAKE, 0, 99, 99, 99},    {RT_SQL_FOLDED, 0, 99, 99, 99},
        {RT_SQL_MINE, 1, 99, 99, 0},     {RT_SQL_ANSWER, 1, 7, 99, 99},
        {RT_SQL_LOOK, 99, 1, 99, 99},    {RT_SQL_FRONT, 0, 7, 99, 99},
        {RT_SQL_INSPECT, 1, 11, 10, 0},  {RT_SQL_OPEN, 99, 0, 99, 99},
        {RT_SQL_RENEW, 99, 0, 99, 99},   {RT_SQL_LOOK_AHEAD, 99, 1, 99, 99},
        {RT_SQL_SWEEPER, 99, 0, 99, 99},
    };
    for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
        if (table[k].kind != kind)
            continue;
        return i == table[k].number ? NUMBER
               : i == table[k].left ? LEFT
               : i == table[k].ago  ? AGO
               : i == table[k].name ? NAME
                                    : SAME;
    }
    return SAME;
}

/* CELL as both would say it. */
static void put(char *out, size_t size, enum column column, const char *cell, char *name,
                bool of_model)
{
    int64_t value = strtoll(cell, NULL, 10);
    if (column == NAME)
        *name = cell[0];
    if (strcmp(cell, "-") == 0 || column == SAME || column == NAME)
        snprintf(out, size, "%s", cell[0] != '\0' ? cell : "-"); /* no text is an empty one */
    else if (column == NUMBER)
        snprintf(out, size, "#%zu", which(*name, value, of_model));
    else if (column == LEFT)
        snprintf(out, size, "%s", value > 0 ? "later" : "over");
    else
        snprintf(out, size, "ago");
}

static void hear(struct heard *h, const struct rt_sql_step *steps, size_t step, const char *row,
                 bool of_model)
{
    char *out = h->rows[h->count++], cell[RIDER_TEXT];
    char name = steps[step].count > 0 && steps[step].args[0].text != NULL
                    ? steps[step].args[0].text[0]
                    : '?';
    size_t used = (size_t)snprintf(out, ROW_TEXT, "%zu:", step);
    bool holds = false;
    assert_true(h->count <= RIDER_ROWS);
    for (size_t i = 0; row != NULL; i++) {
        const char *bar = strchr(row, '|');
        size_t n = bar != NULL ? (size_t)(bar - row) : strlen(row);
        snprintf(cell, sizeof(cell), "%.*s", (int)n, row);
        out[used++] = ' ';
        put(out + used, ROW_TEXT - used, column_of(steps[step].kind, i), cell, &name, of_model);
        used += strlen(out + used);
        row = bar != NULL ? bar + 1 : NULL;
        /* What a ticket waits for means nothing for one that holds, and `wanted` means nothing for one that
         * is not there. */
        if (steps[step].kind == RT_SQL_ANSWER && i == 1 && strcmp(cell, "-") == 0)
            break;
        if (steps[step].kind == RT_SQL_ANSWER && i == 6 && holds)
            break;
        if (steps[step].kind == RT_SQL_ANSWER && i == 2)
            holds = cell[0] == '1';
        if ((steps[step].kind == RT_SQL_LOOK || steps[step].kind == RT_SQL_LOOK_AHEAD) && i == 0 &&
            cell[0] == '1')
            break;
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* ---- Both sides --------------------------------------------------------------------------------------------------- */

static const struct rt_sql_step *flying;
static struct rider side; /* the model's rows, in the rider's text */

static int64_t model_now(struct ss_flight *f)
{
    struct timespec ts;
    (void)f;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void model_row(struct ss_flight *f, size_t step, const struct rt_sql_cell *cells,
                      size_t count)
{
    char *out = side.rows[side.row_count].text;
    size_t used = 0;
    (void)f;
    side.rows[side.row_count++].step = step;
    for (size_t i = 0; i < count; i++) {
        const char *bar = i > 0 ? "|" : "";
        if (cells[i].null)
            used += (size_t)snprintf(out + used, RIDER_TEXT - used, "%s-", bar);
        else if (cells[i].text != NULL)
            used += (size_t)snprintf(out + used, RIDER_TEXT - used, "%s%.*s", bar,
                                     (int)cells[i].size, cells[i].text);
        else
            used += (size_t)snprintf(out + used, RIDER_TEXT - used, "%s%lld", bar,
                                     (long long)cells[i].number);
    }
}

static void model_changed(struct ss_flight *f, size_t step, uint64_t count)
{
    (void)f;
    by_model.changed[step] = (int64_t)count;
}

static void model_notify(struct ss_flight *f, const char *channel, const char *text)
{
    (void)f, (void)channel, (void)text;
}

/* Which counts the contract defines. */
static bool counts(enum rt_sql_step_kind kind)
{
    return kind == RT_SQL_GIVE || kind == RT_SQL_BREAK || kind == RT_SQL_PASS ||
           kind == RT_SQL_SWEPT;
}

static bool is_in(const struct heard *h, const char *row)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcmp(h->rows[i], row) == 0)
            return true;
    return false;
}

static void show(const char *who, const struct heard *h, const struct heard *other)
{
    for (size_t i = 0; i < h->count; i++)
        if (!is_in(other, h->rows[i]))
            fprintf(stderr, "only %s: %s\n", who, h->rows[i]);
}

static void compare(size_t count)
{
    bool same = by_model.count == by_real.count;
    qsort(by_model.rows, by_model.count, ROW_TEXT, by_text);
    qsort(by_real.rows, by_real.count, ROW_TEXT, by_text);
    for (size_t i = 0; same && i < by_model.count; i++)
        same = strcmp(by_model.rows[i], by_real.rows[i]) == 0;
    for (size_t i = 0; i < count; i++)
        if (counts(flying[i].kind) && by_model.changed[i] != by_real.changed[i]) {
            fprintf(stderr, "step %zu changed %lld, and %lld\n", i, (long long)by_model.changed[i],
                    (long long)by_real.changed[i]);
            same = false;
        }
    if (same)
        return;
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "step %zu is %d, of %c\n", i, (int)flying[i].kind,
                flying[i].count > 0 && flying[i].args[0].text != NULL ? flying[i].args[0].text[0]
                                                                      : ' ');
    show("the model", &by_model, &by_real);
    show("the server", &by_real, &by_model);
    fail();
}

/* The same flight for both; where it names a number, each gets its own. */
static void fly(const struct rt_sql_step *of_model, const struct rt_sql_step *of_real, size_t count)
{
    size_t at;
    by_model.count = by_real.count = side.row_count = 0;
    memset(by_model.changed, 0, sizeof(by_model.changed));
    flying = of_model;
    assert_int_equal(ss_run(&flight, of_model, count, &at), RT_SQL_LANDED);
    rider_send(&real, of_real, count);
    enum rt_sql_end end = rider_land(&real);
    if (of_real[0].kind != RT_SQL_PASS || end != RT_SQL_REFUSED) /* it was not so */
        rider_must(&real, end);
    for (size_t i = 0; i < side.row_count; i++)
        hear(&by_model, of_model, side.rows[i].step, side.rows[i].text, true);
    for (size_t i = 0; i < real.row_count; i++)
        hear(&by_real, of_real, real.rows[i].step, real.rows[i].text, false);
    for (size_t i = 0; i < count; i++)
        by_real.changed[i] = real.changed[i] > 0 ? real.changed[i] : 0;
    compare(count);
}

/* ---- Flights ------------------------------------------------------------------------------------------------------ */

static struct {
    struct rt_sql_step model[FLIGHT_MAX], real[FLIGHT_MAX];
    struct rt_sql_cell cells[2][FLIGHT_MAX][RT_SQL_ARGS];
    size_t count;
} book;

#define SAY(k, ...)                                            \
    say(RT_SQL_##k, (const struct rt_sql_cell[]){__VA_ARGS__}, \
        sizeof((const struct rt_sql_cell[]){__VA_ARGS__}) / sizeof(struct rt_sql_cell))

static void say(enum rt_sql_step_kind kind, const struct rt_sql_cell *args, size_t count)
{
    size_t at = book.count++;
    assert_true(at < FLIGHT_MAX && count <= RT_SQL_ARGS);
    for (size_t i = 0; i < 2; i++) {
        memcpy(book.cells[i][at], args, count * sizeof(*args));
        (i == 0 ? book.model : book.real)[at] = (struct rt_sql_step){
            .kind = kind, .count = (uint32_t)count, .args = book.cells[i][at]};
    }
}

/* The last step's argument I is a ticket's number. */
static void own_number(size_t i, size_t index)
{
    bool known = index < number_count;
    book.cells[0][book.count - 1][i] = N(known ? numbers[index].model : 1);
    book.cells[1][book.count - 1][i] = N(known ? numbers[index].real : 1);
}

static void leave_book(void)
{
    if (book.count > 0)
        fly(book.model, book.real, book.count);
    book.count = 0;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)rt_random_below(&chance, n);
}

static int64_t some_session(void)
{
    return 1 + below(SESSIONS);
}

/* One of the last tickets of the line; now and then none. */
static size_t some_number(size_t name)
{
    size_t left = 1 + below(6), found = number_count;
    for (size_t i = number_count; i-- > 0 && left > 0;)
        if (numbers[i].name == names[name][0]) {
            found = i;
            left--;
        }
    return below(10) == 0 ? NUMBERS_MAX : found;
}

/* Its owner, mostly: as the model has it. */
static int64_t session_of(size_t name, size_t index)
{
    const struct ss_line *l = ss_line(&model, names[name], 1);
    int64_t number = index < number_count ? numbers[index].model : 0;
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].number == number && l->tickets[i].session != 0 && below(10) > 0)
            return l->tickets[i].session;
    if (l != NULL && l->folded && l->fence == number && below(10) > 0)
        return l->session;
    return some_session();
}

/* That of the ticket, or 0 for any, mostly: as the model has it. */
static int64_t nonce_of(size_t name, size_t index)
{
    const struct ss_line *l = ss_line(&model, names[name], 1);
    int64_t number = index < number_count ? numbers[index].model : 0;
    if (below(3) == 0)
        return 0;
    for (size_t i = 0; l != NULL && i < l->count; i++)
        if (l->tickets[i].number == number && l->tickets[i].session != 0 && below(6) > 0)
            return l->tickets[i].nonce;
    if (l != NULL && l->folded && l->fence == number && below(6) > 0)
        return l->nonce;
    return 1 + below(6);
}

static void say_lock(size_t name)
{
    SAY(LOCK, T(names[name]));
    SAY(UNFOLD, T(names[name]));
}

static void say_settle(size_t name)
{
    SAY(PURGE, T(names[name]));
    SAY(SETTLE, T(names[name]));
    SAY(TELL, T(names[name]));
}

struct wish {
    int64_t session, nonce, mode, take, of, weight;
    bool durable, try;
};

static struct wish draw_wish(size_t name)
{
    struct wish w = {.session = some_session(), .nonce = 1 + below(6), .mode = kinds[name]};
    if (below(20) == 0)
        w.mode = below(5); /* another kind, most likely */
    else if (w.mode == RT_EXCLUSIVE)
        w.mode = below(2);
    w.of = w.mode >= RT_PERMITS ? 3 : 0;
    w.take = w.mode == RT_PERMITS ? 1 + below(3) : 0;
    w.weight = w.mode == RT_EXCLUSIVE ? WHOLE : w.mode == RT_SHARED ? 1 : w.take;
    w.durable = below(8) == 0;
    w.try = below(4) == 0;
    if (w.durable)
        w.session += 100;
    return w;
}

static void say_join(size_t name, const struct wish *w, int64_t gate)
{
    SAY(JOIN, T(names[name]), N(w->session), N(w->nonce), N(7), N(w->mode), N(w->take), N(w->of),
        N(w->weight), N(below(2)), N(below(4) == 0 ? LONG_US : 0),
        N(w->durable && below(2) == 0 ? LONG_US : 0), N(w->durable), N(w->try),
        below(2) == 0 ? T("value") : NOTHING, w->durable ? T("label") : NOTHING, N(1 + below(9)),
        N(gate));
}

static void say_answer(size_t name, const struct wish *w)
{
    if (w->mode == RT_GATHER)
        SAY(SETTLE, T(names[name]));
    SAY(WANT, T(names[name]));
    SAY(TELL, T(names[name]));
    SAY(ANSWER, T(names[name]), N(w->session), N(w->nonce));
}

static void draw_join(size_t name)
{
    struct wish w = draw_wish(name);
    say_lock(name);
    SAY(PURGE, T(names[name]));
    SAY(SETTLE, T(names[name]));
    say_join(name, &w, 0);
    say_answer(name, &w);
}

static void draw_leave(size_t name)
{
    size_t index = some_number(name);
    bool by_nonce = below(4) == 0;
    say_lock(name);
    SAY(LEAVE, T(names[name]), N(session_of(name, index)), N(0),
        N(by_nonce ? 1 + below(6) : nonce_of(name, index)), N(below(2)));
    if (!by_nonce)
        own_number(2, index);
    say_settle(name);
}

/* Drawn by itself: others would be refused with it. */
static void draw_pass(void)
{
    size_t name = below(NAMES), index = some_number(name);
    SAY(PASS, T(names[name]), N(session_of(name, index)), N(0), N(nonce_of(name, index)));
    own_number(2, index);
    SAY(TELL, T(names[name]));
}

static void draw_change(size_t name)
{
    size_t index = some_number(name);
    int64_t session = session_of(name, index);
    say_lock(name);
    SAY(CHANGE, T(names[name]), N(session), N(0), N(below(2)), N(below(2)), T("changed"),
        N(below(2)));
    own_number(2, index);
    say_settle(name);
    SAY(STATE, T(names[name]), N(session), N(0));
    own_number(2, index);
}

static void draw_break(size_t name)
{
    say_lock(name);
    SAY(BREAK, T(names[name]), N(0), N(below(5)));
    if (below(3) > 0)
        own_number(1, some_number(name));
    say_settle(name);
}

static void draw_short(size_t name)
{
    size_t index = some_number(name);
    int64_t session = session_of(name, index);
    if (below(2) == 0) {
        session = some_session();
        if (ss_alive(&model, session, model_now(NULL))) /* else the flight may be refused */
            SAY(TAKE, T(names[name]), N(session), N(1 + below(6)), N(7), N(below(2)),
                N(1 + below(9)), N(FAR));
        return;
    }
    SAY(VERIFY, T(names[name]), N(session), N(0));
    own_number(2, index);
    SAY(GIVE, T(names[name]), N(session), N(0), N(nonce_of(name, index)));
    own_number(2, index);
}

/* One's own ticket that has ended: the two may say different things about it. */
static bool is_over(size_t name, size_t index)
{
    const struct ss_line *l = ss_line(&model, names[name], 1);
    for (size_t i = 0; l != NULL && index < number_count && i < l->count; i++)
        if (l->tickets[i].number == numbers[index].model)
            return ss_over(&model, &l->tickets[i], model_now(NULL));
    return false;
}

static bool takes_permits(size_t name, size_t index)
{
    const struct ss_line *l = ss_line(&model, names[name], 1);
    for (size_t i = 0; l != NULL && index < number_count && i < l->count; i++)
        if (l->tickets[i].number == numbers[index].model)
            return l->tickets[i].mode == RT_PERMITS;
    return false;
}

static void draw_look(size_t name)
{
    size_t index = some_number(name);
    int64_t session = session_of(name, index);
    if (!is_over(name, index)) {
        SAY(LOOK, T(names[name]), N(session), N(0));
        own_number(2, index);
    }
    if (server->driver->bells && !is_over(name, index) && !takes_permits(name, index)) {
        SAY(LOOK_AHEAD, T(names[name]), N(session), N(0));
        own_number(2, index);
    }
    SAY(FRONT, T(names[name]));
    SAY(FOLDED, T(names[name]), N(some_session()));
}

static void draw_watch(size_t name)
{
    char sql[80];
    struct ss_line *l = ss_line(&model, names[name], 1);
    if (below(3) == 0) {
        SAY(WATCH, T(names[name]), N(LONG_US));
        return;
    }
    snprintf(sql, sizeof(sql), "update rota_line set watched = 0 where name = '%s'", names[name]);
    server->run(sql);
    if (l != NULL)
        l->watched = 0;
}

static void draw_line(size_t name)
{
    static void (*const draws[])(size_t name) = {
        draw_join,  draw_join,  draw_join,   draw_join,  draw_leave,
        draw_leave, draw_leave, draw_short,  draw_short, draw_short,
        draw_short, draw_look,  draw_change, draw_break, draw_watch,
    };
    draws[below(sizeof(draws) / sizeof(draws[0]))](name);
}

/* All of some lines, or none. */
static void draw_set(void)
{
    size_t from = below(2), n = 2 + below(2);
    struct wish w[3];
    bool try = below(3) == 0;
    int64_t session = some_session(), nonce = 1 + below(6);
    for (size_t i = 0; i < n; i++) {
        w[i] = draw_wish(from + i);
        w[i].session = session;
        w[i].nonce = nonce;
        w[i].try = try;
        w[i].durable = false;
        say_lock(from + i);
        SAY(PURGE, T(names[from + i]));
        SAY(SETTLE, T(names[from + i]));
    }
    for (size_t i = 0; i < n; i++)
        SAY(GATE, T(names[from + i]), N(session), N(nonce), N(w[i].mode), N(w[i].of),
            N(w[i].weight), N(try), N(false));
    for (size_t i = 0; i < n; i++)
        say_join(from + i, &w[i], (int64_t)n);
    for (size_t i = 0; i < n; i++)
        say_answer(from + i, &w[i]);
}

static void draw_beat(void)
{
    int64_t session = some_session();
    SAY(RENEW, N(session), N(LONG_US));
    SAY(MINE, N(session));
    for (size_t i = 0; i < NAMES; i++)
        SAY(FOLDED, T(names[i]), N(session));
    SAY(DEAD, N(100));
    SAY(BURY, N(100));
}

/* Whatever its age; the lines may be looked at from anywhere. */
static void draw_sweep(void)
{
    int64_t who = 1 + below(3);
    say(RT_SQL_SWEEPER, NULL, 0);
    SAY(SWEEP, N(who), N(below(2) == 0 ? LONG_US : -LONG_US));
    SAY(IDLE, T(below(2) == 0 ? "" : names[below(NAMES)]), N(-2 * LONG_US), N(1 + below(NAMES)));
    SAY(STRAYS, N(100));
    SAY(SWEPT, N(1 + below(3)), N(below(4)), N(below(2) == 0 ? LONG_US : -LONG_US),
        T(names[below(NAMES)]));
}

static void draw_session(void)
{
    char sql[80];
    int64_t id = some_session();
    struct ss_session *s = ss_session(&model, id);
    if (below(3) > 0) {
        SAY(OPEN, N(id), N(LONG_US), T("somebody"));
    } else if (below(2) == 0) {
        SAY(END, N(id));
    } else {
        snprintf(sql, sizeof(sql), "update rota_session set expires = 1 where id = %d", (int)id);
        server->run(sql);
        if (s != NULL)
            s->expires = 1;
    }
}

/* Ends what lasts until some time. */
static void end_durables(void)
{
    server->run("update rota_ticket set until = 1 where until > 0");
    for (size_t i = 0; i < model.line_count; i++)
        for (size_t k = 0; k < model.lines[i].count; k++)
            if (model.lines[i].tickets[k].until > 0)
                model.lines[i].tickets[k].until = 1;
}

static void look_at_all(void)
{
    for (size_t i = 0; i < NAMES; i++)
        SAY(INSPECT, T(names[i]), N(0));
    int64_t session = some_session();
    if (ss_alive(&model, session, model_now(NULL)))
        SAY(INSPECT, NOTHING, N(session));
    SAY(LIST, T(""));
    leave_book();
}

static void draw_flight(void)
{
    switch (below(11)) {
    case 0:
        draw_set();
        break;
    case 1:
        draw_beat();
        break;
    case 2:
        draw_session();
        break;
    case 3:
        if (below(4) == 0)
            end_durables();
        break;
    case 4:
        draw_pass();
        break;
    case 5:
        draw_sweep();
        break;
    default:
        for (size_t i = 0; i < NAMES; i++)
            if (below(2) == 0)
                draw_line(i);
    }
    leave_book();
}

static void pair_fly(const struct pair_real *with, uint64_t seed, uint32_t flights)
{
    server = with;
    chance = (struct rt_random){.state = seed};
    flight = (struct ss_flight){.store = &model,
                                .writable = true,
                                .now = model_now,
                                .row = model_row,
                                .changed = model_changed,
                                .notify = model_notify};
    rider_start(&real, with->driver, with->url);
    DO(&real, STEP0(MAKE));
    with->run("delete from rota_ticket");
    with->run("delete from rota_line");
    with->run("delete from rota_session");
    with->run("delete from rota_meta where k = 'sweeper'");
    model.made = true;
    for (int64_t i = 1; i < SESSIONS; i++)
        SAY(OPEN, N(i), N(LONG_US), T("somebody"));
    leave_book();
    for (uint32_t i = 0; i < flights; i++) {
        draw_flight();
        look_at_all();
    }
    rider_close(&real);
    ss_store_clear(&model);
    number_count = 0;
}

static void flights_in_chance(void **state)
{
    const struct pair_real *with = *state;
    uint64_t drawn = rt_seed();
    (void)rider_setup(NULL);
    printf("ROTA_SEED=%llu\n", (unsigned long long)drawn);
    pair_fly(with, 7, FLIGHTS);
    pair_fly(with, drawn, FLIGHTS);
    (void)rider_teardown(NULL);
}

int pair_run(const struct pair_real *with)
{
    struct pair_real copy = *with;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(flights_in_chance, &copy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
