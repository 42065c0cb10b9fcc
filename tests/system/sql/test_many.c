/* SPDX-License-Identifier: Apache-2.0 */
/* A hundred locks that one client holds and another waits for, all at once, on few connections (MariaDB: eight that
 * wait), while connections are ended: each is granted once it was given back, and not before. The history is
 * checked. */
#include "house.h"
#include "lib/checker.h"
#include "lib/players.h"
#include "lib/proc.h"
#include "lib/random.h"
#include "lib/recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MANY 100
#define WAITS 8           /* a waiting client's connections, where waiting takes some */
#define TTL_MS 10000      /* so long that nobody loses anything on a slow machine either */
#define CUT_EACH 5        /* locks given back before a connection is ended */
#define RECORDS_MAX 10000 /* of one round */

struct place { /* one of the hundred */
    char name[16];
    struct rt_actor giver, taker;
    struct rt_held given, taken;
    struct rt_record *asked;
    atomic_int answers, err;
};

struct crowd {
    struct rt_history *history;
    struct rota *gives, *takes;
    struct rt_random random;
    char folder[300];
    struct place places[MANY];
    size_t order[MANY]; /* in which they are given back */
};

static struct rt_actor actor_of(const struct crowd *c, struct rota *r)
{
    uint64_t client = rt_history_client(c->history);
    return (struct rt_actor){.history = c->history, .rota = r, .client = client, .owner = client};
}

static void crowd_begin(struct crowd *c)
{
    static int count;
    char *url = house->url(0), fewer[1000];
    snprintf(fewer, sizeof(fewer), "%s%swaits=%d", url, strchr(url, '?') != NULL ? "&" : "?",
             WAITS);
    memset(c, 0, sizeof(*c));
    snprintf(c->folder, sizeof(c->folder), "%s/many%d", rt_tmpdir(), ++count);
    assert_int_equal(mkdir(c->folder, 0700), 0);
    assert_int_equal(rt_history_open(&c->history, c->folder, RECORDS_MAX), 0);
    c->random.state = stage_seed();
    c->gives = player(url, TTL_MS, HOUSE_LIMIT_MS);
    c->takes = player(house->driver->bells ? fewer : url, TTL_MS, HOUSE_LIMIT_MS);
    for (size_t i = 0; i < MANY; i++) {
        struct place *p = &c->places[i];
        size_t other = rt_random_below(&c->random, (uint32_t)i + 1);
        snprintf(p->name, sizeof(p->name), "many %zu", i);
        p->giver = actor_of(c, c->gives);
        p->taker = actor_of(c, c->takes);
        c->order[i] = c->order[other];
        c->order[other] = i;
    }
    free(url);
}

static void on_answer(void *arg, int err, struct rota_lock *lock)
{
    struct place *p = arg;
    rt_recorded_granted(p->asked, err, lock, &p->taken);
    atomic_store(&p->err, err);
    atomic_fetch_add(&p->answers, 1);
}

static void all_wait(struct crowd *c)
{
    for (size_t i = 0; i < MANY; i++) {
        struct place *p = &c->places[i];
        struct rota_ask ask = {.owner = p->giver.owner, .limit_ms = HOUSE_LIMIT_MS};
        assert_int_equal(rt_recorded_acquire(&p->giver, p->name, &ask, &p->given), 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        struct place *p = &c->places[i];
        struct rota_ask ask = {.owner = p->taker.owner};
        p->asked = rt_recorded_begin(&p->taker, p->name, &ask);
        assert_int_equal(rota_acquire_async(c->takes, p->name, &ask, on_answer, p, NULL), 0);
    }
    for (size_t i = 0; i < MANY; i++)
        player_counts(c->gives, c->places[i].name, 2);
}

/* It was promised until now: nobody else may have been granted it. */
static void look(const struct place *p)
{
    struct rt_record what = p->given.like;
    what.kind = RT_RENEW;
    what.look = 1;
    struct rt_record *record = rt_history_begin(p->giver.history, &what);
    int64_t now = rt_history_now(), left = rota_remaining_ms(p->given.lock);
    record->deadline = now + left * 1000000;
    rt_history_end(record, left > 0 ? RT_OK : RT_FAIL);
    assert_true(left > 0);
    assert_int_equal(atomic_load(&p->answers), 0);
}

static void give_back(struct crowd *c)
{
    uint32_t cut = 0;
    for (size_t i = 0; i < MANY; i++) {
        struct place *p = &c->places[c->order[i]];
        if (i % CUT_EACH == 0)
            cut += house_ask("%s", house->cut_one)[0] != '\0';
        look(p);
        int err = rt_recorded_release(&p->giver, &p->given);
        assert_true(err == 0 || err == ROTA_UNKNOWN);
    }
    print_message("%u connections ended\n", cut);
    assert_true(cut > 0);
}

static void all_are_granted(struct crowd *c)
{
    int64_t end = players_now_ms() + HOUSE_LIMIT_MS;
    for (size_t i = 0; i < MANY; i++) {
        struct place *p = &c->places[i];
        while (atomic_load(&p->answers) == 0)
            players_pause(end, "one of those who wait was not granted");
        assert_int_equal(atomic_load(&p->err), 0);
        int err = rt_recorded_release(&p->taker, &p->taken);
        assert_true(err == 0 || err == ROTA_UNKNOWN);
    }
}

static void crowd_end(struct crowd *c)
{
    struct rt_report report = {0};
    struct rt_record *records = NULL;
    size_t n = 0;
    rota_close(c->gives);
    rota_close(c->takes);
    rt_history_close(c->history);
    assert_int_equal(rt_history_load(c->folder, &records, &n), 0);
    rt_check_locks(records, n, NULL, &report);
    rt_check_clients(records, n, &report);
    print_message("%zu records, %zu holds: %zu findings\n%s", n, report.holds, report.total,
                  report.text);
    free(records);
    assert_int_equal(report.holds, 2 * MANY);
    assert_int_equal(report.total, 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(atomic_load(&c->places[i].answers), 1);
    house_swept();
}

/* Those of both clients, and no others. */
static long long connections(void)
{
    return house->driver->notifies
               ? house_number(
                     "select count(*) from pg_stat_activity where application_name = 'rota'")
               : house_number(
                     "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER='rota'");
}

static void a_hundred_wait_while_connections_end(void **state)
{
    static struct crowd c;
    (void)state;
    for (uint32_t i = 0; i < stage_factor(); i++) {
        crowd_begin(&c);
        all_wait(&c);
        long long most = 2 * (long long)house->links + (house->driver->bells ? WAITS : 0);
        assert_in_range(connections(), 1, most);
        give_back(&c);
        all_are_granted(&c);
        crowd_end(&c);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_wait_while_connections_end),
    };
    if (!house_choose(argc, argv))
        return 64;
    return cmocka_run_group_tests(tests, house_setup, house_teardown);
}
