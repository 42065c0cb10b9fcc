/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing stays behind (I6): tickets, lines, files. */
#include "suite.h"

#include <stdio.h>

/* Uses R in many ways and leaves some of it open. */
static void use(struct rota *r, struct rota *other)
{
    struct rota_ask shared = {.mode = ROTA_SHARED}, soon = {.limit_ms = 5};
    struct rota_ask linger = {.linger_ms = 60000};
    struct rota_lock *out = NULL, *taken = conf_take(other, conf_name("taken"), NULL);
    conf_give(conf_take(r, conf_name("given"), NULL));
    conf_take(r, conf_name("held"), NULL);
    assert_int_equal(rota_acquire(r, conf_name("taken"), &soon, &out), ROTA_TIMEOUT);
    assert_int_equal(conf_try(r, conf_name("taken"), NULL, NULL), ROTA_BUSY);
    conf_wish_start(r, conf_name("taken"), NULL); /* waits until the end */
    conf_wait_line(other, conf_name("taken"), 2, 1);
    if ((conf.caps & ROTA_CAP_SHARED) != 0)
        conf_take(r, conf_name("shared"), &shared);
    if ((conf.caps & ROTA_CAP_WANTED) != 0)
        conf_give(conf_take(r, conf_name("lingers"), &linger));
    conf_close(r);
    conf_assert_line(other, conf_name("taken"), 1, 1);
    conf_give(taken);
}

static void closed_clients_leave_nothing(void)
{
    struct rota *a = conf_open();
    conf_give(conf_take(a, conf_name("first"), NULL)); /* has all the files it needs by now */
    size_t files = conf_count_files();
    for (int i = 0; i < 3; i++) {
        use(conf_open(), a);
        assert_int_equal(conf_count_lines(a, conf.prefix), 0);
    }
    assert_int_equal(conf_count_files(), files);
}

/* The locks of a closing client are free when rota_close has returned. */
static void close_gives_back_at_once(void)
{
    struct rota *b = conf_open();
    const char *name = conf_name("x");
    for (int i = 0; i < 20; i++) {
        struct rota *a = conf_open();
        conf_take(a, name, NULL);
        conf_close(a);
        assert_int_equal(conf_try(b, name, NULL, NULL), 0);
    }
}

static void names_leave_nothing(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    conf_give(conf_take(a, conf_name("first"), NULL));
    size_t files = conf_count_files();
    for (int i = 0; i < conf_rounds(500); i++) {
        char tail[32];
        snprintf(tail, sizeof tail, "%d", i);
        conf_give(conf_take(a, conf_name(tail), NULL));
    }
    assert_int_equal(conf_count_lines(b, conf.prefix), 0);
    assert_int_equal(conf_count_files(), files);
}

/* The dead are swept by whoever works there next; their files too. */
static void the_dead_leave_nothing(void)
{
    struct rota *a = conf_open();
    const char *x = conf_name("x"), *y = conf_name("y");
    conf_give(conf_take(a, x, NULL)); /* has all the files it needs by now */
    size_t files = conf_count_files();
    for (int i = 0; i < 2; i++) {
        struct conf_agent *holder = conf_agent_mortal(), *waiter = conf_agent_mortal();
        assert_int_equal(conf_agent_ask(holder, NULL, "acquire %s", x), 0);
        assert_int_equal(conf_agent_ask(holder, NULL, "acquire %s", y), 0);
        conf_agent_send(waiter, "acquire %s", x);
        conf_wait_line(a, x, 2, 1);
        conf_agent_kill(waiter);
        conf_agent_kill(holder);
    }
    struct rota *b = conf_open(); /* the next client that works there */
    conf_give(conf_take(b, x, NULL));
    conf_give(conf_take(b, y, NULL));
    assert_int_equal(conf_count_lines(a, conf.prefix), 0);
    conf_close(b);
    CONF_UNTIL((conf_give(conf_take(a, x, NULL)), conf_count_files() == files));
}

/* Nothing but the dead knew of these lines: nobody asks for them again. */
static void lines_of_the_dead_vanish(void)
{
    const char *x = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    assert_int_equal(conf_agent_ask(agent, NULL, "acquire %s", x), 0);
    conf_agent_kill(agent);
    struct rota *a = conf_open();
    CONF_UNTIL(
        (conf_give(conf_take(a, conf_name("other"), NULL)), conf_count_lines(a, conf.prefix) == 0));
}

const struct conf_case conf_leftover[] = {
    CONF_CASE(closed_clients_leave_nothing, 0, 0),
    CONF_CASE(close_gives_back_at_once, 0, 0),
    CONF_CASE(names_leave_nothing, 0, 0),
    CONF_CASE(the_dead_leave_nothing, 0, CONF_PROCESSES),
    CONF_CASE(lines_of_the_dead_vanish, 0, CONF_PROCESSES),
    CONF_END,
};
