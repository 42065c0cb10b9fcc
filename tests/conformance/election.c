/* SPDX-License-Identifier: Apache-2.0 */
/* Elections: a lock with a value, and observers of its front. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

#define VALUE_MAX 1023

struct observer {
    pthread_mutex_t mutex;
    uint64_t fence, highest;
    char value[VALUE_MAX + 1], label[256];
    unsigned calls;
    bool went_back;
    uint64_t id;
};

static void on_front(void *arg, const struct rota_front *front)
{
    struct observer *o = arg;
    pthread_mutex_lock(&o->mutex);
    o->calls++;
    o->fence = front->fence;
    if (front->fence != 0 && front->fence < o->highest)
        o->went_back = true;
    if (front->fence > o->highest)
        o->highest = front->fence;
    snprintf(o->value, sizeof o->value, "%s", front->value != NULL ? front->value : "(null)");
    snprintf(o->label, sizeof o->label, "%s", front->label != NULL ? front->label : "");
    pthread_mutex_unlock(&o->mutex);
}

static struct observer *observe(struct rota *r, const char *name)
{
    struct observer *o = conf_alloc(sizeof *o);
    pthread_mutex_init(&o->mutex, NULL);
    assert_int_equal(rota_observe(r, name, on_front, o, &o->id), 0);
    return o;
}

static bool sees(struct observer *o, uint64_t fence, const char *value)
{
    pthread_mutex_lock(&o->mutex);
    bool same = o->calls > 0 && o->fence == fence && strcmp(o->value, value) == 0;
    pthread_mutex_unlock(&o->mutex);
    return same;
}

static void observe_end(struct rota *r, struct observer *o)
{
    assert_int_equal(rota_unobserve(r, o->id), 0);
    assert_false(o->went_back);
    pthread_mutex_destroy(&o->mutex);
}

static void leader_is_observed(void)
{
    struct rota_options labelled = {.label = "leader one"};
    struct rota *a = conf_open_with(&labelled), *b = conf_open(), *c = conf_open();
    const char *name = conf_name("x");
    struct observer *o = observe(c, name);
    CONF_UNTIL(sees(o, 0, "")); /* the present state comes first: nobody */
    struct rota_lock *leader = NULL;
    assert_int_equal(rota_elect(a, name, "host-a:80", NULL, &leader), 0);
    CONF_UNTIL(sees(o, rota_fence(leader), "host-a:80"));
    pthread_mutex_lock(&o->mutex);
    bool labelled_so = strcmp(o->label, "leader one") == 0;
    pthread_mutex_unlock(&o->mutex);
    assert_true(labelled_so);
    assert_int_equal(rota_proclaim(leader, "host-a:81"), 0);
    CONF_UNTIL(sees(o, rota_fence(leader), "host-a:81"));
    struct observer *late = observe(b, name);
    CONF_UNTIL(sees(late, rota_fence(leader), "host-a:81"));
    conf_give(leader);
    CONF_UNTIL(sees(o, 0, "") && sees(late, 0, ""));
    assert_int_equal(rota_elect(b, name, "", NULL, &leader), 0);
    CONF_UNTIL(sees(o, rota_fence(leader), ""));
    observe_end(c, o);
    observe_end(b, late);
    conf_give(leader);
}

/* The next leader stands in line with its own value. */
static void leadership_goes_on(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_line *line = NULL;
    struct rota_lock *first = NULL, *second = NULL;
    struct observer *o = observe(b, name);
    struct rota_ask soon = {.limit_ms = 20};
    assert_int_equal(rota_elect(a, name, "first", NULL, &first), 0);
    assert_int_equal(rota_elect(b, name, "second", &soon, &second), ROTA_TIMEOUT);
    conf_left_line(b, name, 1, 1);
    assert_int_equal(rota_inspect(b, name, &line), 0);
    assert_int_equal(line->count, 1);
    assert_string_equal(line->places[0].value, "first");
    rota_line_free(line);
    uint64_t fence = rota_fence(first);
    conf_give(first);
    assert_int_equal(rota_elect(b, name, "second", NULL, &second), 0);
    assert_true(rota_fence(second) > fence);
    CONF_UNTIL(sees(o, rota_fence(second), "second"));
    observe_end(b, o);
    conf_give(second);
}

/* Many changes: the last state arrives, fences never go back, and after unobserve nothing comes. */
static void observers_see_the_last_state(void)
{
    struct rota *clients[] = {conf_open(), conf_open()}, *c = conf_open();
    const char *name = conf_name("x");
    struct observer *o = observe(c, name);
    struct rota_lock *lock = NULL;
    char value[32];
    for (size_t i = 0; i < 60; i++) {
        snprintf(value, sizeof value, "round %zu", i);
        assert_int_equal(rota_elect(clients[i % 2], name, value, NULL, &lock), 0);
        if (i % 3 == 0)
            assert_int_equal(rota_proclaim(lock, "again"), 0);
        conf_give(lock);
    }
    assert_int_equal(rota_elect(clients[0], name, "last", NULL, &lock), 0);
    CONF_UNTIL(sees(o, rota_fence(lock), "last"));
    assert_int_equal(rota_unobserve(c, o->id), 0);
    unsigned calls = o->calls;
    assert_int_equal(rota_unobserve(c, o->id), ROTA_INVALID);
    assert_int_equal(rota_proclaim(lock, "unseen"), 0);
    conf_give(lock);
    conf_give(conf_take(c, name, NULL)); /* c worked meanwhile, and told nobody */
    assert_int_equal(o->calls, calls);
    assert_false(o->went_back);
    pthread_mutex_destroy(&o->mutex);
}

static void leader_of_another_process_dies(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    struct conf_agent *agent = conf_agent_mortal();
    struct observer *o = observe(a, name);
    struct rota_lock *lock = NULL;
    uint64_t fence = 0;
    assert_int_equal(conf_agent_ask(agent, &fence, "elect %s from-agent", name), 0);
    CONF_UNTIL(sees(o, fence, "from-agent"));
    conf_agent_kill(agent);
    assert_int_equal(rota_elect(a, name, "heir", NULL, &lock), 0);
    CONF_UNTIL(sees(o, rota_fence(lock), "heir"));
    observe_end(a, o);
    conf_give(lock);
}

static void values_have_a_limit(void)
{
    struct rota *a = conf_open();
    const char *name = conf_name("x");
    static char value[VALUE_MAX + 2];
    struct rota_lock *lock = NULL;
    memset(value, 'v', VALUE_MAX + 1);
    assert_int_equal(rota_elect(a, name, value, NULL, &lock), ROTA_INVALID);
    value[VALUE_MAX] = '\0';
    assert_int_equal(rota_elect(a, name, value, NULL, &lock), 0);
    struct rota_line *line = NULL;
    assert_int_equal(rota_inspect(a, name, &line), 0);
    assert_string_equal(line->places[0].value, value);
    rota_line_free(line);
    assert_int_equal(rota_proclaim(lock, "it's \"quoted\"; drop %s\n"), 0);
    assert_int_equal(rota_inspect(a, name, &line), 0);
    assert_string_equal(line->places[0].value, "it's \"quoted\"; drop %s\n");
    rota_line_free(line);
    value[VALUE_MAX] = 'v';
    assert_int_equal(rota_proclaim(lock, value), ROTA_INVALID);
    conf_give(lock);
}

static void lost_leader_cannot_proclaim(void)
{
    struct rota *a = conf_open(), *b = conf_open();
    const char *name = conf_name("x");
    struct rota_lock *lock = NULL;
    assert_int_equal(rota_elect(a, name, "a", NULL, &lock), 0);
    assert_int_equal(rota_break(b, name, rota_fence(lock)), 0);
    assert_int_equal(rota_proclaim(lock, "still a"), ROTA_LOST);
    assert_int_equal(rota_release(lock), ROTA_LOST);
}

const struct conf_case conf_election[] = {
    CONF_CASE(leader_is_observed, ROTA_CAP_ORDER, 0),
    CONF_CASE(leadership_goes_on, ROTA_CAP_ORDER, 0),
    CONF_CASE(observers_see_the_last_state, ROTA_CAP_ORDER, 0),
    CONF_CASE(leader_of_another_process_dies, ROTA_CAP_ORDER, CONF_PROCESSES),
    CONF_CASE(values_have_a_limit, ROTA_CAP_ORDER, 0),
    CONF_CASE(lost_leader_cannot_proclaim, ROTA_CAP_FENCE | ROTA_CAP_ORDER, 0),
    CONF_END,
};
