/* SPDX-License-Identifier: Apache-2.0 */
/* At every crash point somebody dies: the process that reaches it, a database, the journal's server. */
#include "scenes.h"

#include "bank.h"

#include "lib/proc.h"
#include "lib/proxy.h"
#include "txn/point.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SOON_MS \
    3000 /* the deadline of what is left undecided: enough to get there on a busy machine */
#define CREW_MOST 80
#define KEEP_MS 2000

/* What a process is made to do so that it reaches a point. */
static const struct way {
    const char *begins; /* the point's name, or a prefix ending in '-' */
    const char *shape;  /* a teller's transfer; NULL: none reaches it */
    bool joins;         /* ... and the joiner reaches it */
    /* What a recovery that reaches it finds: an undecided transaction, a decided one; false, false: none does. */
    bool aborts, commits;
    bool sweeps;     /* forgetting reaches it */
    bool asks_again; /* when an answer was lost */
} ways[] = {
    {.begins = "branch-begun", .shape = "two"},
    {.begins = "prepare-", .shape = "two"},
    {.begins = "one-phase-", .shape = "one"},
    {.begins = "commit-", .shape = "three"},
    {.begins = "rollback-", .shape = "refuse"},
    {.begins = "decide-", .shape = "two"},
    {.begins = "abort-", .shape = "refuse", .aborts = true},
    {.begins = "done-", .shape = "two", .aborts = true, .commits = true},
    {.begins = "register-", .shape = "join", .joins = true},
    {.begins = "gate-", .aborts = true, .commits = true},
    {.begins = "takeover-commit-", .commits = true},
    {.begins = "takeover-rollback-", .aborts = true},
    {.begins = "marks-", .sweeps = true},
    {.begins = "forget-", .sweeps = true},
    {.begins = "told", .shape = "two"},
    {.begins = "recover-", .aborts = true, .commits = true},
    {.begins = "fence-", .shape = "one", .asks_again = true},
};

static const struct way *way_of(const char *name)
{
    const struct way *best = NULL;

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        size_t size = strlen(ways[i].begins);
        if (strncmp(name, ways[i].begins, size) == 0 &&
            (best == NULL || size > strlen(best->begins)))
            best = &ways[i];
    }
    if (best == NULL)
        fail_msg("no way leads to the crash point %s: a line in tests/txn/bank/points.c", name);
    return best;
}

/* The next point after *I that this journal has. */
static const char *next_point(unsigned *i)
{
    const struct rt_point_name *p;

    while ((p = rt_point_name((*i)++)) != NULL)
        if (p->journal == NULL || strcmp(p->journal, world_journal()) == 0)
            return p->name;
    return NULL;
}

/* ---- Whoever is at a point --------------------------------------------------------------- */

struct crew {
    struct hand hand[CREW_MOST];
    size_t count;
};

static void take_on(struct crew *c, struct hand h)
{
    assert_true(c->count < CREW_MOST);
    c->hand[c->count++] = h;
}

static const char *plan(char out[128], const char *name, const char *how)
{
    snprintf(out, 128, "%s:%s", name, how);
    return out;
}

/* The same for a process that begins: at the first branch in one round, at the second in the next. */
static const char *caller_plan(char out[128], const char *name, const char *how, int round)
{
    bool per_branch = strncmp(name, "prepare-", 8) == 0 || strncmp(name, "commit-", 7) == 0 ||
                      strcmp(name, "branch-begun") == 0;

    snprintf(out, 128, "%s:%d:%s", name, per_branch ? 1 + round % 2 : 1, how);
    return out;
}

/* A process that begins, and reaches NAME; HOW is what becomes of it there. If two work together, the other one is in
 * OTHERS. */
static struct hand caller(struct crew *others, int house, const char *name, const char *how,
                          int round)
{
    const struct way *way = way_of(name);
    char at[128];
    struct hand teller, joiner;

    if (!way->joins)
        return teller_start(house, way->shape, tid_new(), 1, caller_plan(at, name, how, round));
    joined_start(house, tid_new(), NULL, caller_plan(at, name, how, round), &teller, &joiner);
    take_on(others, teller);
    return joiner;
}

/* On a busy machine the deadline of what is to be left undecided may come first; then a later one is tried. */
static const uint32_t deadlines[] = {SOON_MS, 5 * SOON_MS, 20 * SOON_MS};
#define DEADLINES (sizeof(deadlines) / sizeof(deadlines[0]))

static void caller_dies(struct crew *others, int house, const char *name, int round)
{
    for (size_t i = 0; i < DEADLINES; i++) {
        world_timeout(deadlines[i]);
        struct hand h = caller(others, house, name, "kill", round);
        if (hand_wait(&h) == 0 && i + 1 < DEADLINES)
            continue;
        hand_wait_killed(&h);
        break;
    }
}

static void teller_dies(int house, const char *shape, const char *point)
{
    for (size_t i = 0; i < DEADLINES; i++) {
        world_timeout(deadlines[i]);
        struct hand h = teller_start(house, shape, tid_new(), 1, point);
        if (hand_wait(&h) == 0 && i + 1 < DEADLINES)
            continue;
        hand_wait_killed(&h);
        break;
    }
}

static void all_end(struct crew *c)
{
    for (size_t i = 0; i < c->count; i++)
        (void)hand_wait(&c->hand[i]);
}

/* A house of its own for each point that a recovery reaches, with two transactions that dead processes left behind: one
 * decided, one not, both prepared everywhere. */
struct left {
    const char *point[CREW_MOST];
    int house[CREW_MOST];
    size_t count;
};

static void leave_behind(struct left *l)
{
    const char *name;

    l->count = 0;
    for (unsigned i = 0; (name = next_point(&i)) != NULL;) {
        const struct way *way = way_of(name);
        if (!way->aborts && !way->commits)
            continue;
        assert_true(l->count < CREW_MOST);
        int house = l->house[l->count] = house_new();
        l->point[l->count++] = name;
        teller_dies(house, "three", "decide-answered:kill");
        teller_dies(house, "two", "prepare-answered:2:kill");
    }
}

/* ---- The process itself dies ------------------------------------------------------------- */

static void callers_die(int round)
{
    struct crew others = {.count = 0};
    int house = house_new();
    unsigned points = 0;
    const char *name;

    for (unsigned i = 0; (name = next_point(&i)) != NULL;) {
        const struct way *way = way_of(name);
        if (way->shape == NULL || way->asks_again)
            continue;
        caller_dies(&others, house, name, round);
        points++;
    }
    struct hand first = recoverer_start(house, "takeover-commit-sent:kill");
    hand_wait_killed(&first);
    struct hand second = recoverer_start(house, "takeover-rollback-sent:kill");
    hand_wait_killed(&second);
    (void)house_heal(house);
    all_end(&others);
    (void)house_heal(house);
    print_message("callers killed at %u points\n", points);
    bank_check(false);
}

static void callers_die_at_every_point(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(1); round++, houses_reuse())
        callers_die(round);
}

/* Recoveries reach each of their points, each in a house of its own, some at a time; HOW is what becomes of them. */
static void recoverers_at_points(struct crew *c, const struct left *left, const char *how)
{
    char at[128];

    for (size_t done = 0; done < left->count;) {
        for (size_t i = done; i < left->count && i < done + RECOVERIES_AT_ONCE; i++)
            take_on(c, recoverer_start(left->house[i], plan(at, left->point[i], how)));
        for (; done < c->count; done++)
            if (strcmp(how, "stop") == 0)
                hand_wait_stopped(&c->hand[done]);
            else
                hand_wait_killed(&c->hand[done]);
    }
}

/* NEXT has nothing more to do and leaves, unless it reaches its point meanwhile: some points come after the last step
 * that can be seen from outside. True: it died there. */
static bool leaves_or_dies(struct hand *next)
{
    const int killed = RT_PROC_SIGNALED + SIGKILL;

    if (!hand_has_ended(next)) {
        hand_send_away(next);
        (void)hand_wait(next);
    }
    if (next->code != 0 && next->code != killed)
        fail_msg("did not end in order (code %d): %s", next->code, next->what);
    return next->code == killed;
}

/* ... and the next one dies there too, if there is anything left to do. */
static void recoveries_die_at_every_point(void **state)
{
    struct crew first = {.count = 0};
    static struct left left;
    unsigned again = 0;
    char at[128];

    (void)state;
    leave_behind(&left);
    recoverers_at_points(&first, &left, "kill");
    for (size_t i = 0; i < left.count; i++) {
        struct hand next = recoverer_start(left.house[i], plan(at, left.point[i], "kill"));
        while (!hand_has_ended(&next) && !house_clean(left.house[i], NULL, 0))
            poll(NULL, 0, 10);
        again += leaves_or_dies(&next);
    }
    houses_heal(left.house[0]);
    print_message("recoveries killed at %zu points, and at %u once more\n", left.count, again);
    bank_check(false);
}

/* An answer is lost, and the process dies at what it asks then. */
static void callers_die_where_they_ask_again(void **state)
{
    struct rt_proxy_options opts = {.port = world_port(MARIADB), .framing = &rt_proxy_mysql};
    const struct rt_fault fault = {
        .on = RT_FAULT_REPLY, .what = RT_FAULT_CUT, .match = "XA COMMIT", .times = RT_FAULT_ALWAYS};
    struct rt_proxy *proxy = rt_proxy_start(&opts);
    int house = house_new();
    const char *name;
    char at[128];

    (void)state;
    (void)rt_proxy_fault(proxy, &fault);
    world_through(MARIADB, rt_proxy_port(proxy));
    for (unsigned i = 0; (name = next_point(&i)) != NULL;) {
        const struct way *way = way_of(name);
        if (!way->asks_again)
            continue;
        struct hand h = teller_start(house, way->shape, tid_new(), 1, plan(at, name, "kill"));
        hand_wait_killed(&h);
    }
    world_through(MARIADB, 0);
    rt_proxy_stop(proxy);
    (void)house_heal(house);
    bank_check(false);
}

static bool is_forgotten(void *arg)
{
    house_ages(*(int *)arg);
    return house_marks(*(int *)arg) == 0;
}

/* The process that forgets dies at each of its points: in the end what is over is forgotten, and what was not over is
 * finished first. */
static void sweepers_die_at_every_point(void **state)
{
    int house = house_new();
    unsigned points = 0;
    const char *name;
    char at[128];

    (void)state;
    struct hand h = teller_start(house, "three", tid_new(), 1, NULL);
    assert_int_equal(hand_wait(&h), 0);
    teller_dies(house, "three", "decide-answered:kill");
    world_timeout(KEEP_MS / 2); /* outcomes are kept for twice as long at least */
    world_keep(KEEP_MS);
    for (unsigned i = 0; (name = next_point(&i)) != NULL;) {
        if (!way_of(name)->sweeps)
            continue;
        h = recoverer_start(house, plan(at, name, "kill"));
        hand_wait_killed(&h);
        points++;
    }
    h = recoverer_start(house, NULL);
    must_become(is_forgotten, &house, "all markers are taken away");
    hand_leave(&h);
    (void)house_heal(house);
    print_message("who forgets was killed at %u points\n", points);
    bank_check(false);
    world_keep(0);
    world_timeout(0);
}

/* ---- Somebody else dies ------------------------------------------------------------------ */

/* A stopped process may have the file locked, and others of its house would wait in vain: its writer is at work, for
 * the transaction or to record which resources are used, wherever the rest of the process stands. */
static int house_to_stop_in(int house)
{
    return strcmp(world_journal(), "file") == 0 ? house_new() : house;
}

/* At every point somebody stands; then VICTIM dies, comes back, and all go on. */
static void dies_while_all_stand(enum victim victim, int round)
{
    struct crew crew = {.count = 0}, others = {.count = 0}, recoverers = {.count = 0};
    static struct left left;
    int house = house_new();
    const char *name;

    leave_behind(&left);
    world_timeout(0);
    for (unsigned i = 0; (name = next_point(&i)) != NULL;) {
        const struct way *way = way_of(name);
        if (way->shape == NULL || way->asks_again)
            continue;
        take_on(&crew, caller(&others, house_to_stop_in(house), name, "stop", round));
        hand_wait_stopped(&crew.hand[crew.count - 1]);
    }
    recoverers_at_points(&recoverers, &left, "stop");
    world_kill(victim);
    for (size_t i = 0; i < crew.count; i++)
        hand_cont(&crew.hand[i]);
    world_run(victim);
    all_end(&crew);
    for (size_t i = 0; i < recoverers.count; i++)
        hand_cont(&recoverers.hand[i]);
    for (size_t i = 0; i < recoverers.count; i++)
        hand_send_away(&recoverers.hand[i]);
    all_end(&recoverers);
    houses_heal(house);
    all_end(&others);
    houses_heal(house);
    print_message("killed while %zu callers and %zu recoveries stood at points\n", crew.count,
                  recoverers.count);
    bank_check(true);
}

static void dies_at_every_point(enum victim victim)
{
    for (int round = 0; round < rounds(1); round++, houses_reuse())
        dies_while_all_stand(victim, round);
}

static void mariadb_dies_at_every_point(void **state)
{
    (void)state;
    dies_at_every_point(MARIADB);
}

static void postgres_dies_at_every_point(void **state)
{
    (void)state;
    dies_at_every_point(POSTGRES);
}

static void the_journal_dies_at_every_point(void **state)
{
    (void)state;
    if (!world_has(JOURNAL))
        skip();
    dies_at_every_point(JOURNAL);
}

static void every_point_was_hit(void **state)
{
    unsigned count = 0;
    const char *name;

    (void)state;
    for (unsigned i = 0; (name = next_point(&i)) != NULL; count++)
        if (point_hits(name) == 0)
            fail_msg("nobody came by the crash point %s", name);
    print_message("%u crash points, all hit\n", count);
}

const struct CMUnitTest point_scenes[] = {
    SCENE(callers_die_at_every_point),       SCENE(recoveries_die_at_every_point),
    SCENE(callers_die_where_they_ask_again), SCENE(sweepers_die_at_every_point),
    SCENE(mariadb_dies_at_every_point),      SCENE(postgres_dies_at_every_point),
    SCENE(the_journal_dies_at_every_point),  SCENE(every_point_was_hit),
};
const size_t point_scene_count = sizeof(point_scenes) / sizeof(point_scenes[0]);
