/* SPDX-License-Identifier: Apache-2.0 */
/* Every op given up at every request along its way: it ends once, CANCELED only if it had no effect, UNKNOWN where that
 * is not known (I5), and what the server still has then is what was told, or ends with the session (I6). */
#include "transcript.h"

#include "lib/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STEPS 8

static int cookie;
static char said[16384];

static void ignore_place(void *arg, const char *name, const struct rota_place *place)
{
    (void)arg;
    (void)name;
    (void)place;
}

static void ignore_line(void *arg, const char *name, size_t count, size_t granted)
{
    (void)arg;
    (void)name;
    (void)count;
    (void)granted;
}

static void ignore_verdict(void *arg, const struct rota_verdict *v)
{
    (void)arg;
    (void)v;
}

static struct rt_op other;

static void run_other(enum rt_op_kind kind)
{
    struct town *town = person('a');
    other = (struct rt_op){.kind = kind, .user = (void *)(uintptr_t) "look"};
    if (kind == RT_OP_INSPECT) {
        other.inspect.name = "held";
        other.inspect.each = ignore_place;
    } else if (kind == RT_OP_LIST) {
        other.list.prefix = "";
        other.list.each = ignore_line;
    } else {
        other.check.each = ignore_verdict;
    }
    transcript_give_up('a', &other);
    town_submit(town, &other);
    transcript_run();
}

/* What the op is; "held" is ours, number 4, "busy" is the other's. */
static void do_open(void)
{
    beat('a', true);
}

static void do_beat(void)
{
    beat('a', false);
}

static void do_join(void)
{
    join('a', (struct rt_join){.name = "new", .nonce = 5});
}

static void do_wait(void)
{
    join('a', (struct rt_join){.name = "busy", .nonce = 5});
}

static void do_try(void)
{
    join('a', (struct rt_join){.name = "new", .nonce = 5, .flags = RT_JOIN_TRY});
}

static void do_durable(void)
{
    join('a',
         (struct rt_join){
             .name = "new", .nonce = 5, .session = 42, .flags = RT_JOIN_DURABLE, .until_ms = 5000});
}

static void do_at_least(void)
{
    transcript_hasty = true;
    join('a', (struct rt_join){.name = "new", .nonce = 5, .at_least_ms = 60000});
}

static void do_leave(void)
{
    leave('a', "held", 4, 0);
}

static void do_leave_by_nonce(void)
{
    leave('a', "held", 0, 1);
}

static void do_change(void)
{
    change('a', "held", 4, RT_CHANGE_VALUE, "new");
}

static void do_break(void)
{
    break_it('a', "busy", 5, 0);
}

static void do_observe(void)
{
    observe('a', "busy", &cookie, false);
}

static void do_inspect(void)
{
    run_other(RT_OP_INSPECT);
}

static void do_list(void)
{
    run_other(RT_OP_LIST);
}

static void do_check(void)
{
    run_other(RT_OP_CHECK);
}

/* What was told, without what was asked; repeated lines count as one. */
static void note(const char *name, int steps)
{
    static char last[512];
    char now[512] = "";
    const char *line = transcript_text();
    while (*line != '\0') {
        size_t size = strcspn(line, "\n") + 1;
        if (*line != '>')
            snprintf(now + strlen(now), sizeof(now) - strlen(now), "%.*s", (int)size, line);
        line += size;
    }
    size_t used = strlen(now);
    snprintf(now + used, sizeof(now) - used, "  %zu keys, %zu leases\n", transcript_store.count,
             transcript_store.lease_count);
    if (steps > 1 && strcmp(now, last) == 0)
        return;
    snprintf(last, sizeof(last), "%s", now);
    used = strlen(said);
    snprintf(said + used, sizeof(said) - used, "%s at %d: %s", name, steps, now);
}

static void cancel_at_each_step(const char *name, void (*fn)(void))
{
    for (int steps = 1; steps <= STEPS; steps++) {
        scarce_begin();
        transcript_begin(NULL);
        person_open('a');
        person_open('b');
        beat('a', true);
        beat('b', true);
        join('a', (struct rt_join){.name = "held", .nonce = 1});
        join('b', (struct rt_join){.name = "busy", .nonce = 2});
        transcript_forget();
        transcript_cancel_at = steps;
        fn();
        transcript_cancel_at = 0;
        note(name, steps);
        transcript_end(NULL);
        assert_int_equal(scarce.live, 0);
        scarce_end();
    }
}

static void given_up(void **state)
{
    (void)state;
    cancel_at_each_step("open", do_open);
    cancel_at_each_step("beat", do_beat);
    cancel_at_each_step("join", do_join);
    cancel_at_each_step("wait", do_wait);
    cancel_at_each_step("try", do_try);
    cancel_at_each_step("durable", do_durable);
    cancel_at_each_step("at least", do_at_least);
    cancel_at_each_step("leave", do_leave);
    cancel_at_each_step("leave by nonce", do_leave_by_nonce);
    cancel_at_each_step("change", do_change);
    cancel_at_each_step("break", do_break);
    cancel_at_each_step("observe", do_observe);
    cancel_at_each_step("inspect", do_inspect);
    cancel_at_each_step("list", do_list);
    cancel_at_each_step("check", do_check);
    static const char want[] = "open at 1: a open UNKNOWN: given up under way\n"
                               "  4 keys, 3 leases\n"
                               "open at 2: a open UNKNOWN: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "open at 3: a open ok 7303 10000 ms\n"
                               "  5 keys, 3 leases\n"
                               "beat at 1: a beat UNKNOWN: canceled\n"
                               "  4 keys, 2 leases\n"
                               "beat at 2: a beat ok 7101 10000 ms\n"
                               "  4 keys, 2 leases\n"
                               "join at 1: a join UNKNOWN: given up under way\n"
                               "  5 keys, 2 leases\n"
                               "join at 2: a join ok #6 granted\n"
                               "  5 keys, 2 leases\n"
                               "wait at 1: a join UNKNOWN: given up under way\n"
                               "  5 keys, 2 leases\n"
                               "wait at 2: a join ok #6\n"
                               "  5 keys, 2 leases\n"
                               "try at 1: a join UNKNOWN: given up under way\n"
                               "  5 keys, 2 leases\n"
                               "try at 2: a join ok #6 granted\n"
                               "  5 keys, 2 leases\n"
                               "durable at 1: a join CANCELED: given up under way\n"
                               "  4 keys, 3 leases\n"
                               "durable at 2: a join UNKNOWN: given up under way\n"
                               "  5 keys, 3 leases\n"
                               "durable at 3: a join ok #6 granted\n"
                               "  5 keys, 3 leases\n"
                               "at least at 1: a join UNKNOWN: given up under way\n"
                               "  5 keys, 2 leases\n"
                               "at least at 2: a join UNKNOWN: given up under way\n"
                               "  5 keys, 3 leases\n"
                               "at least at 5: a join ok #6 granted\n"
                               "  5 keys, 3 leases\n"
                               "leave at 1: a leave UNKNOWN: given up under way\n"
                               "  3 keys, 2 leases\n"
                               "leave at 2: a leave ok granted\n"
                               "  3 keys, 2 leases\n"
                               "leave by nonce at 1: a leave UNKNOWN: given up under way\n"
                               "  3 keys, 2 leases\n"
                               "leave by nonce at 2: a leave ok granted\n"
                               "  3 keys, 2 leases\n"
                               "change at 1: a change CANCELED: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "change at 2: a change UNKNOWN: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "change at 3: a change ok\n"
                               "  4 keys, 2 leases\n"
                               "break at 1: a break CANCELED: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "break at 2: a break UNKNOWN: given up under way\n"
                               "b lost busy #5\n"
                               "  3 keys, 2 leases\n"
                               "break at 3: a break ok\n"
                               "b lost busy #5\n"
                               "  3 keys, 2 leases\n"
                               "observe at 1: a look CANCELED: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "observe at 2: a look ok\n"
                               "a changed busy: 1 of mode 0/0, #5 '' of 'bob'\n"
                               "  4 keys, 2 leases\n"
                               "inspect at 1: a look CANCELED: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "inspect at 2: a look ok\n"
                               "  4 keys, 2 leases\n"
                               "list at 1: a look CANCELED: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "list at 3: a look ok\n"
                               "  4 keys, 2 leases\n"
                               "check at 1: a look UNKNOWN: given up under way\n"
                               "  4 keys, 3 leases\n"
                               "check at 2: a look UNKNOWN: given up under way\n"
                               "  4 keys, 2 leases\n"
                               "check at 3: a look ok\n"
                               "  4 keys, 2 leases\n";
    if (strcmp(said, want) != 0) {
        (void)fputs(said, stderr);
        fail();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
