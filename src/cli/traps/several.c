/* SPDX-License-Identifier: Apache-2.0 */
/* Traps on several Redis. */
#include "cli/traps/traps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A failover that forgets -------------------------------------------- */

/* Redis 0 and 1 start afresh, on loopback too; A sits at the first, B at the second, which has everything that the
 * first has. */
static void begin_pair(struct rt_story *story)
{
    struct rt_seat *seats[] = {&story->a, &story->b};

    for (unsigned i = 0; i < 2; i++) {
        rt_seat_close(seats[i]);
        rt_house_kill_redis(story->house, i);
        if (rt_house_redis(story->house, i, true) != RT_EXIT_OK ||
            rt_house_at_redis(story->house, i, seats[i]) != 0) {
            story->over = true;
            return;
        }
    }
    rt_story_ask(story, "2", &story->b, "REPLICAOF 127.0.0.1 %u",
                 (unsigned)story->house->redis[0].port);
    rt_story_until(
        story, &story->b,
        "EVAL 'return redis.call(\"INFO\", \"replication\"):match(\"link_status:up\")' 0",
        "\"link_status:up\"");
}

static void cut_link(struct rt_story *story)
{
    rt_story_say(story, "the link between them fails for a moment");
    (void)rt_story_peek(story, &story->b, "REPLICAOF 127.0.0.1 1");
}

void rt_trap_failover(struct rt_story *story)
{
    char url[128];

    rt_story_act(story, "broken", "the primary answers before its replica has the lock");
    begin_pair(story);
    cut_link(story);
    bool held = rt_story_is(rt_story_ask(story, "A", &story->a, "SET lock A NX PX 60000"), "OK");
    rt_house_kill_redis(story->house, 0);
    rt_story_say(story, "1  dies; 2 is promoted");
    rt_story_ask(story, "2", &story->b, "REPLICAOF NO ONE");
    bool twice = rt_story_is(rt_story_ask(story, "B", &story->b, "SET lock B NX PX 60000"), "OK");
    rt_story_say(story, "A and B hold it at once");
    story->broken = held && twice;

    rt_story_act(story, "mended", "a grant counts when a replica has it");
    begin_pair(story);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u?replicas=1",
             (unsigned)story->house->redis[0].port);
    rt_story_on(story, url);
    bool granted = rt_story_rota(story, "A", "run -w 20s job -- echo holds") == 0;
    cut_link(story);
    int code = rt_story_rota(story, "A", "run -w 1s job -- echo holds");
    rt_story_say(
        story,
        "A  does not hold what a failover would forget; what a failover still forgets a fence catches");
    story->mended = granted && code != 0 && code != -1;
    rt_house_kill_redis(story->house, 0);
    rt_house_kill_redis(story->house, 1);
}

/* ---- Redlock: a majority that forgot ------------------------------------ */

#define NODES 5
#define RESTED_MS 30000 /* the longest ttl in use */

static const char *const names[NODES] = {"a", "b", "c", "d", "e"};

/* WHO asks node I through a client of its own. */
static bool take_at(struct rt_story *story, const char *who, unsigned i)
{
    struct rt_seat seat = {0};
    char prompt[8];

    if (story->over || rt_house_at_redis(story->house, i, &seat) != 0)
        return false;
    snprintf(prompt, sizeof(prompt), "%s %s", who, names[i]);
    bool taken = rt_story_is(
        rt_story_ask(story, prompt, &seat, "SET lock %s NX PX %d", who, RESTED_MS), "OK");
    rt_seat_close(&seat);
    return taken;
}

/* How long node I has been up, in seconds; what it answers is told. */
static long uptime(struct rt_story *story, const char *who, unsigned i)
{
    struct rt_seat seat = {0};
    char prompt[8];

    if (story->over || rt_house_at_redis(story->house, i, &seat) != 0)
        return -1;
    snprintf(prompt, sizeof(prompt), "%s %s", who, names[i]);
    const char *reply = rt_story_ask(
        story, prompt, &seat,
        "EVAL 'return redis.call(\"INFO\", \"server\"):match(\"uptime_in_seconds:(%%d+)\")' 0");
    long up = reply[0] == '"' ? strtol(reply + 1, NULL, 10) : -1;
    rt_seat_close(&seat);
    return up;
}

static void restart_empty(struct rt_story *story, unsigned i)
{
    rt_house_kill_redis(story->house, i);
    if (rt_house_redis(story->house, i, false) != RT_EXIT_OK)
        story->over = true;
    rt_story_say(story, "%s  crashes and is back, empty", names[i]);
}

static void all_anew(struct rt_story *story)
{
    for (unsigned i = 0; i < NODES; i++) {
        rt_house_kill_redis(story->house, i);
        if (!story->over && rt_house_redis(story->house, i, false) != RT_EXIT_OK)
            story->over = true;
    }
}

void rt_trap_redlock(struct rt_story *story)
{
    int a = 0, b = 0;

    all_anew(story);
    rt_story_act(story, "broken", "a node of the majority forgets, and makes another majority");
    for (unsigned i = 0; i < 3; i++)
        a += take_at(story, "A", i);
    rt_story_say(story, "A  has 3 of 5 (it did not reach d and e): it holds");
    restart_empty(story, 2);
    for (unsigned i = 2; i < NODES; i++)
        b += take_at(story, "B", i);
    rt_story_say(story, "B  has %d of 5: A and B hold it at once", b);
    story->broken = a == 3 && b == 3;

    all_anew(story);
    a = b = 0;
    rt_story_act(story, "mended",
                 "a node that came up less than the longest ttl ago does not count");
    for (unsigned i = 0; i < 3; i++)
        a += take_at(story, "A", i);
    restart_empty(story, 2);
    for (unsigned i = 2; i < NODES; i++)
        b += take_at(story, "B", i);
    long up = uptime(story, "B", 2);
    rt_story_say(
        story, "c  is up for %ld s, the ttl is %d s: B has 2 of 5 that count, and does not hold it",
        up, RESTED_MS / 1000);
    b -= up >= 0 && up < RESTED_MS / 1000;
    story->mended = a == 3 && b == 2;
    for (unsigned i = 1; i < NODES; i++)
        rt_house_kill_redis(story->house, i);
}
