/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine when any statement fails once: what was refused had no effect, what is retried is done once,
 * and no waiter is forgotten. */
#include "place.h"

#include "engine/file/file.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What goes wrong, once: a write finds no space; a transaction cannot begin now; the end of one is not reported. */
enum fault { FULL, BUSY, LOST_BEFORE, LOST_BEHIND };

static enum fault fault;
static long steps_left = -1; /* until a statement of that kind fails; below 0: none does */
static int failed_with;      /* for the next sqlite3_errcode */

static void *next_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    assert_non_null(symbol);
    return symbol;
}

static bool is(const char *sql, const char *word)
{
    return sql != NULL && strncmp(sql, word, strlen(word)) == 0;
}

static bool may_fail(sqlite3_stmt *s)
{
    const char *sql = sqlite3_sql(s);
    if (fault == FULL)
        return !sqlite3_stmt_readonly(s) || is(sql, "COMMIT");
    return is(sql, fault == BUSY ? "BEGIN" : "COMMIT");
}

/* In place of SQLite's, for the engine. */
int sqlite3_step(sqlite3_stmt *s)
{
    static int (*real)(sqlite3_stmt * s);
    if (real == NULL)
        memcpy(&real, &(void *){next_symbol("sqlite3_step")}, sizeof(real));
    if (steps_left < 0 || !may_fail(s) || steps_left-- > 0)
        return real(s);
    if (fault == LOST_BEHIND)
        (void)real(s);
    failed_with = fault == FULL ? SQLITE_FULL : fault == BUSY ? SQLITE_BUSY : SQLITE_IOERR_FSYNC;
    return failed_with;
}

int sqlite3_errcode(sqlite3 *db)
{
    static int (*real)(sqlite3 * db);
    int rc = failed_with;
    if (real == NULL)
        memcpy(&real, &(void *){next_symbol("sqlite3_errcode")}, sizeof(real));
    failed_with = 0;
    return rc != 0 ? rc : real(db);
}

static int asked_again; /* ops that failed */

/* Until it is neither refused for lack of space nor left open. If a retry no longer finds what an earlier try may have
 * taken out, that try did it. */
static int insist(struct user *u, struct rt_op *op)
{
    for (bool open = false;; asked_again++) {
        op->deadline = RT_NEVER;
        int rv = user_do(u, op);
        if (rv == ROTA_LOST && open && (op->kind == RT_OP_LEAVE || op->kind == RT_OP_BREAK))
            return 0;
        if (rv != ROTA_UNREACHABLE && rv != ROTA_UNKNOWN)
            return rv;
        open = open || rv == ROTA_UNKNOWN;
        if (fault == FULL)
            assert_non_null(strstr(u->errmsg, "no space left"));
        assert_int_equal(rv, fault == FULL ? ROTA_UNREACHABLE : ROTA_UNKNOWN);
    }
}

static int join(struct user *u, const char *name, uint64_t nonce, struct rt_join *j)
{
    struct rt_op op = {.kind = RT_OP_JOIN};
    j->name = name;
    if (j->session == 0)
        j->session = u->session;
    j->nonce = nonce;
    op.join.joins = j;
    op.join.n = 1;
    return insist(u, &op);
}

static int leave(struct user *u, const char *name, uint64_t number)
{
    struct rt_op op = {.kind = RT_OP_LEAVE};
    op.leave.name = name;
    op.leave.session = u->session;
    op.leave.number = number;
    return insist(u, &op);
}

static int change(struct user *u, const char *name, uint64_t number, uint32_t what, bool *wanted)
{
    struct rt_op op = {.kind = RT_OP_CHANGE};
    op.change.name = name;
    op.change.session = u->session;
    op.change.number = number;
    op.change.what = what;
    op.change.value = "changed";
    int rv = insist(u, &op);
    *wanted = op.change.wanted;
    return rv;
}

/* ---- What stands in a line, e.g. "3X* 4S " ------------------------------- */

static void see(void *arg, const char *name, const struct rota_place *place)
{
    char *text = arg;
    (void)name;
    snprintf(text + strlen(text), 200 - strlen(text), "%c%s%s ", "XSPCG"[place->mode],
             place -> flags &ROTA_PLACE_GRANTED ? "*" : "", place->value);
}

static void stands(struct user *u, const char *name, const char *expected)
{
    char text[200];
    struct rt_op op = {.kind = RT_OP_INSPECT};
    op.inspect.name = name;
    op.inspect.each = see;
    op.inspect.arg = text;
    long left = steps_left;
    steps_left = -1; /* looks are tried elsewhere */
    text[0] = '\0';
    assert_int_equal(insist(u, &op), 0);
    assert_string_equal(text, expected);
    steps_left = left;
}

/* ---- Scenes: each may fail at one statement ------------------------------ */

static void a_hand_over(struct user *a, struct user *b)
{
    struct rt_join x = {.flags = RT_JOIN_ARM}, y = {0}, t = {.flags = RT_JOIN_TRY};
    size_t told_a = a->told_count, told_b = b->told_count;
    bool wanted;
    assert_int_equal(join(a, "l", 1, &x), 0);
    assert_true(x.granted);
    stands(a, "l", "X* ");
    assert_int_equal(join(b, "l", 2, &t), ROTA_BUSY);
    stands(a, "l", "X* "); /* a try leaves nothing */
    assert_int_equal(join(b, "l", 3, &y), 0);
    assert_false(y.granted);
    user_hear(a, RT_WANTED, x.number, told_a);
    assert_int_equal(change(a, "l", x.number, RT_CHANGE_VALUE | RT_CHANGE_ARM, &wanted), 0);
    assert_true(wanted);
    stands(a, "l", "X*changed X ");
    assert_int_equal(leave(a, "l", x.number), 0);
    user_hear(b, RT_GRANTED, y.number, told_b);
    stands(a, "l", "X* ");
    assert_int_equal(leave(b, "l", y.number), 0);
    stands(a, "l", "");
}

static void readers_and_a_break(struct user *a, struct user *b)
{
    struct rt_join x = {0}, r = {.mode = RT_SHARED}, w = {0};
    struct rt_op brk = {.kind = RT_OP_BREAK};
    size_t told_a = a->told_count, told_b = b->told_count;
    bool wanted;
    assert_int_equal(join(a, "l", 1, &x), 0);
    assert_int_equal(join(b, "l", 2, &r), 0);
    assert_int_equal(join(b, "l", 3, &w), 0);
    assert_int_equal(change(a, "l", x.number, RT_CHANGE_DOWNGRADE, &wanted), 0);
    user_hear(b, RT_GRANTED, r.number, told_b);
    stands(a, "l", "S* S* X ");
    assert_int_equal(leave(b, "l", r.number), 0);
    brk.brk.name = "l";
    brk.brk.number = x.number;
    long left = steps_left;
    if (fault == LOST_BEHIND)
        steps_left =
            -1; /* a breaker that cannot ring leaves a holder that learns of it only by its next call */
    assert_int_equal(insist(b, &brk), 0);
    steps_left = left;
    user_hear(a, RT_TICKET_LOST, x.number, told_a);
    user_hear(b, RT_GRANTED, w.number, told_b);
    assert_int_equal(leave(b, "l", w.number), 0);
    stands(a, "l", "");
}

static void a_set_and_a_durable_one(struct user *a, struct user *b)
{
    struct rt_join set[2] = {{.name = "l", .session = a->session, .nonce = 1},
                             {.name = "m", .session = a->session, .nonce = 2}};
    struct rt_join d = {.session = 42, .flags = RT_JOIN_DURABLE, .value = "v"}, y = {0};
    struct rt_op op = {.kind = RT_OP_JOIN_ALL}, brk = {.kind = RT_OP_BREAK};
    size_t told = b->told_count;
    op.join.joins = set;
    op.join.n = 2;
    assert_int_equal(insist(a, &op), 0);
    assert_true(set[0].granted && set[1].granted);
    stands(b, "l", "X* ");
    stands(b, "m", "X* ");
    assert_int_equal(leave(a, "l", set[0].number), 0);
    assert_int_equal(leave(a, "m", set[1].number), 0);
    assert_int_equal(join(a, "l", 3, &d), 0);
    assert_int_equal(join(b, "l", 4, &y), 0);
    stands(b, "l", "X*v X ");
    brk.brk.name = "l";
    brk.brk.mode = RT_EXCLUSIVE;
    assert_int_equal(insist(a, &brk), 0);
    user_hear(b, RT_GRANTED, y.number, told);
    assert_int_equal(leave(b, "l", y.number), 0);
    stands(b, "l", "");
}

static void an_observer(struct user *a, struct user *b)
{
    struct rt_join x = {.value = "me"};
    struct rt_op op = {.kind = RT_OP_OBSERVE};
    size_t told = b->told_count;
    int cookie;
    op.observe.name = "l";
    op.observe.cookie = &cookie;
    assert_int_equal(insist(b, &op), 0);
    size_t i = user_hear(b, RT_CHANGED, 0, told);
    assert_int_equal(join(a, "l", 1, &x), 0);
    i = user_hear(b, RT_CHANGED, 0, i + 1);
    while (b->told[i].fence != x.number) /* a first look may have come late */
        i = user_hear(b, RT_CHANGED, 0, i + 1);
    assert_string_equal(b->told[i].value, "me");
    op.observe.stop = true;
    assert_int_equal(insist(b, &op), 0);
    assert_int_equal(leave(a, "l", x.number), 0);
    stands(b, "l", "");
}

/* SCENE once for each statement in it that may fail that way. */
static void try_all(enum fault what, void (*scene)(struct user *a, struct user *b))
{
    struct user a, b;
    long n = 0;
    asked_again = 0;
    user_start(&a, place_url, 0);
    user_start(&b, place_url, 0);
    fault = what;
    for (bool reached = true; reached; n++) {
        a.told_count = b.told_count = 0;
        steps_left = n;
        scene(&a, &b);
        reached = steps_left < 0;
        steps_left = -1;
        failed_with = 0;
    }
    print_message("%ld statements, %d ops asked again\n", n - 1, asked_again);
    assert_true(n > 4 && (what == BUSY ? asked_again == 0 : asked_again > 3));
    user_close(&a);
    user_close(&b);
    assert_int_equal(place_sessions(), 0);
}

static void try_scenes(enum fault what)
{
    try_all(what, a_hand_over);
    try_all(what, readers_and_a_break);
    try_all(what, a_set_and_a_durable_one);
    try_all(what, an_observer);
}

static void test_a_full_disk_refuses_and_has_done_nothing(void **state)
{
    (void)state;
    try_scenes(FULL);
}

/* It waits for whoever else is in the database: nobody is told. */
static void test_a_busy_database_is_waited_for(void **state)
{
    (void)state;
    try_scenes(BUSY);
}

/* I5: the disk failed at the end of a transaction, which is there afterwards or is not. */
static void test_what_is_left_open_is_asked_again(void **state)
{
    (void)state;
    try_scenes(LOST_BEFORE);
    try_scenes(LOST_BEHIND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_full_disk_refuses_and_has_done_nothing),
        CASE(test_a_busy_database_is_waited_for),
        CASE(test_what_is_left_open_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
