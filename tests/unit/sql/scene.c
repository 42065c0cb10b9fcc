/* SPDX-License-Identifier: Apache-2.0 */
/* What the stories of the steps have in common. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct steps steps;

void scene_begin(struct rider *r)
{
    rider_start(r, steps.driver, steps.url);
    DO(r, STEP0(MAKE));
    steps.run("delete from rota_ticket");
    steps.run("delete from rota_line");
    steps.run("delete from rota_session");
    steps.run("delete from rota_meta where k = 'sweeper'");
    DO(r, STEP(OPEN, N(1), N(LONG), T("one")), STEP(OPEN, N(2), N(LONG), T("two")),
       STEP(OPEN, N(3), N(LONG), T("three")), STEP(OPEN, N(4), N(LONG), T("four")));
}

void scene_check(void)
{
    assert_int_equal(
        steps.number(
            "select count(*) from rota_line l where l.count <> (select count(*) from rota_ticket t"
            " where t.name = l.name) or l.waiting <> (select count(*) from rota_ticket t"
            " where t.name = l.name and not t.granted)"),
        0);
}

void scene_end(struct rider *r)
{
    scene_check();
    rider_close(r);
}

void scene_kill(int id)
{
    char sql[80];
    snprintf(sql, sizeof(sql), "update rota_session set expires = 1 where id = %d", id);
    steps.run(sql);
}

int64_t scene_weight(const struct scene_ask *a)
{
    return a->mode == RT_EXCLUSIVE ? ALL
           : a->mode == RT_SHARED  ? 1
           : a->mode == RT_PERMITS ? a->take
                                   : 0;
}

const char *scene_join(struct rider *r, struct scene_ask a)
{
    DO(r, STEP(LOCK, T(a.name)), STEP(UNFOLD, T(a.name)), STEP(PURGE, T(a.name)),
       STEP(SETTLE, T(a.name)), JOIN(a), STEP(SETTLE, T(a.name)), STEP(WANT, T(a.name)),
       STEP(ANSWER, T(a.name), N(a.session), N(a.nonce)));
    return rider_row(r, ANSWERED, 0);
}

int64_t scene_answered(const struct rider *r, size_t column)
{
    return rider_cell(r, ANSWERED, 0, column);
}

const char *scene_leave(struct rider *r, const char *name, int64_t session, int64_t number)
{
    DO(r, STEP(LOCK, T(name)), STEP(UNFOLD, T(name)),
       STEP(LEAVE, T(name), N(session), N(number), N(0), N(1)), STEP(PURGE, T(name)),
       STEP(SETTLE, T(name)), STEP(TELL, T(name)));
    return rider_row(r, 2, 0);
}

int64_t scene_state(struct rider *r, const char *name, int64_t session, int64_t number,
                    size_t column)
{
    DO(r, STEP(STATE, T(name), N(session), N(number)));
    return rider_cell(r, 0, 0, column);
}
