/* SPDX-License-Identifier: Apache-2.0 */
/* Traps on one Redis. A, B and C are redis-cli; what is shown is what was sent. */
#include "cli/traps/traps.h"

#include <rota_guard.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define OWN_ONLY \
    "EVAL 'return redis.call(\"GET\", KEYS[1]) == ARGV[1] and redis.call(\"DEL\", KEYS[1]) or 0' 1 lock"

/* Rota's engine from here on: the same Redis. */
static void on_redis(struct rt_story *story)
{
    char url[256];

    snprintf(url, sizeof(url), "redis+unix:%s", story->house->redis[0].socket);
    rt_story_on(story, url);
}

/* A's lock runs out while A works; B takes it. */
static void let_it_expire(struct rt_story *story)
{
    rt_story_ask(story, "A", &story->a, "SET lock A NX PX 50");
    rt_story_say(story, "A  works longer than that");
    rt_story_until(story, &story->b, "EXISTS lock", "(integer) 0");
    rt_story_ask(story, "B", &story->b, "SET lock B NX PX 60000");
}

void rt_trap_setnx(struct rt_story *story)
{
    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "the lock is one command, its end another");
    rt_story_ask(story, "A", &story->a, "SETNX lock A");
    rt_seat_close(&story->a);
    rt_story_say(story, "A  is killed before its EXPIRE");
    bool refused = rt_story_is(rt_story_ask(story, "B", &story->b, "SETNX lock B"), "(integer) 0");
    bool endless = rt_story_is(rt_story_ask(story, "B", &story->b, "PTTL lock"), "(integer) -1");
    rt_story_say(story, "nothing will ever free it");
    story->broken = refused && endless;

    rt_story_act(story, "mended", "the lock comes with its end, and its holder renews it");
    on_redis(story);
    if (!rt_story_rota_start(story, "A", &story->a,
                             "run --ttl 1s job -- sh -c 'echo holds; exec sleep 60'"))
        return;
    rt_seat_close(&story->a);
    rt_story_say(story, "A  is killed");
    story->mended = rt_story_rota(story, "B", "run -w 20s job -- echo holds") == 0;
}

void rt_trap_foreign_del(struct rt_story *story)
{
    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "whoever is done deletes the lock, whoever has it");
    let_it_expire(story);
    bool freed = rt_story_is(rt_story_ask(story, "A", &story->a, "DEL lock"), "(integer) 1");
    bool taken = rt_story_is(rt_story_ask(story, "C", &story->c, "SET lock C NX PX 60000"), "OK");
    rt_story_say(story, "B and C hold it at once");
    story->broken = freed && taken;

    (void)rt_story_peek(story, &story->a, "DEL lock");
    rt_story_act(story, "mended", "only what is still one's own is deleted, in one step");
    let_it_expire(story);
    bool kept = rt_story_is(rt_story_ask(story, "A", &story->a, OWN_ONLY " A"), "(integer) 0");
    bool refused = rt_story_is(rt_story_ask(story, "C", &story->c, "SET lock C NX PX 60000"),
                               "(nil)");
    bool released = rt_story_is(rt_story_ask(story, "B", &story->b, OWN_ONLY " B"), "(integer) 1");
    story->mended = kept && refused && released;
}

void rt_trap_two_steps(struct rt_story *story)
{
    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "it is compared, and then deleted");
    rt_story_ask(story, "A", &story->a, "SET lock A NX PX 200");
    bool mine = rt_story_is(rt_story_ask(story, "A", &story->a, "GET lock"), "\"A\"");
    rt_story_say(story, "A  sees that it is its own, and is paused here");
    rt_story_until(story, &story->b, "EXISTS lock", "(integer) 0");
    rt_story_ask(story, "B", &story->b, "SET lock B NX PX 60000");
    bool freed = rt_story_is(rt_story_ask(story, "A", &story->a, "DEL lock"), "(integer) 1");
    bool taken = rt_story_is(rt_story_ask(story, "C", &story->c, "SET lock C NX PX 60000"), "OK");
    rt_story_say(story, "B and C hold it at once");
    story->broken = mine && freed && taken;

    (void)rt_story_peek(story, &story->a, "DEL lock");
    rt_story_act(story, "mended", "compared and deleted by the server, with nothing in between");
    let_it_expire(story);
    bool kept = rt_story_is(rt_story_ask(story, "A", &story->a, OWN_ONLY " A"), "(integer) 0");
    bool refused = rt_story_is(rt_story_ask(story, "C", &story->c, "SET lock C NX PX 60000"),
                               "(nil)");
    story->mended = kept && refused;
}

void rt_trap_too_long(struct rt_story *story)
{
    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "the work takes longer than the lock lives");
    let_it_expire(story);
    rt_story_say(story, "A  still works: A and B hold it at once");
    story->broken = rt_story_is(rt_story_ask(story, "B", &story->b, "GET lock"), "\"B\"");

    rt_story_act(story, "mended",
                 "the lock is renewed while its holder lives, however long it works");
    on_redis(story);
    if (!rt_story_rota_start(story, "A", &story->a,
                             "run --ttl 1s job -- sh -c 'echo holds; exec sleep 60'"))
        return;
    story->mended = rt_story_rota(story, "B", "run -w 3s job -- echo holds") == RT_EXIT_BUSY;
    rt_story_say(story, "three times its ttl are over, and A holds it still");
}

void rt_trap_clock(struct rt_story *story)
{
    long long now = (long long)time(NULL);

    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "the end of the lock is a time by its holder's clock");
    rt_story_say(story, "A's clock: %lld", now);
    rt_story_ask(story, "A", &story->a, "SETNX lock %lld", now + 60);
    rt_story_say(story, "B's clock: %lld, two minutes ahead", now + 120);
    rt_story_ask(story, "B", &story->b, "SETNX lock %lld", now + 180);
    long long end = strtoll(rt_story_ask(story, "B", &story->b, "GET lock") + 1, NULL, 10);
    rt_story_say(story, "B  finds it expired");
    long long old = strtoll(rt_story_ask(story, "B", &story->b, "GETSET lock %lld", now + 180) + 1,
                            NULL, 10);
    rt_story_say(story, "A and B hold it at once");
    story->broken = end == now + 60 && old == end && end < now + 120;

    (void)rt_story_peek(story, &story->a, "DEL lock");
    rt_story_act(story, "mended", "the server ends it by its own clock; nobody else's is asked");
    bool held = rt_story_is(rt_story_ask(story, "A", &story->a, "SET lock A NX PX 60000"), "OK");
    bool refused = rt_story_is(rt_story_ask(story, "B", &story->b, "SET lock B NX PX 60000"),
                               "(nil)");
    story->mended = held && refused;
}

/* WHO holds Rota's lock for a moment; returns its fence. */
static unsigned long long draw_fence(struct rt_story *story, const char *who)
{
    if (rt_story_rota(story, who, "run job -- sh -c 'echo $ROTA_FENCE'") != 0)
        return 0;
    return strtoull(story->said, NULL, 10);
}

/* WHO sets the price, with its fence; returns the reply, which is told. */
static const char *write_guarded(struct rt_story *story, const char *who, struct rt_seat *seat,
                                 unsigned long long fence, int price)
{
    char ask[1024];

    snprintf(ask, sizeof(ask), "EVAL '%s' 1 price.fence %llu SET price %d", ROTA_GUARD_REDIS_SCRIPT,
             fence, price);
    const char *reply = rt_story_peek(story, seat, ask);
    rt_story_say(story, "%s> EVAL GUARD 1 price.fence %llu SET price %d    %s", who, fence, price,
                 reply);
    return reply;
}

void rt_trap_stale_writer(struct rt_story *story)
{
    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "a holder that was paused writes after its lock has ended");
    let_it_expire(story);
    rt_story_ask(story, "B", &story->b, "SET price 20");
    rt_story_say(story, "A  wakes up in the middle of its work");
    rt_story_ask(story, "A", &story->a, "SET price 10");
    story->broken = rt_story_is(rt_story_ask(story, "B", &story->b, "GET price"), "\"10\"");
    rt_story_say(story, "B's write is lost, though each held the lock");

    rt_story_act(story, "mended",
                 "each grant has a number that grows, and the resource refuses an older one");
    on_redis(story);
    unsigned long long a = draw_fence(story, "A"), b = draw_fence(story, "B");
    rt_story_say(
        story,
        "GUARD is the script that 'rota guard redis --key price' prints; its own key would be {price}:fence");
    write_guarded(story, "B", &story->b, b, 20);
    const char *reply = write_guarded(story, "A", &story->a, a, 10);
    bool refused = strstr(reply, "LOST") != NULL;
    story->mended = rt_story_is(rt_story_ask(story, "B", &story->b, "GET price"), "\"20\"") &&
                    refused;
}

/* ---- The herd ----------------------------------------------------------- */

#define HERD 1000

struct herd {
    int fds[HERD];
    size_t count;
};

/* A waiter that listens: a connection that subscribed. */
static bool listen_in(struct herd *herd, const char *path)
{
    static const char subscribe[] = "SUBSCRIBE released\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[64];

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    herd->fds[herd->count++] = fd;
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           write(fd, subscribe, sizeof(subscribe) - 1) > 0 && read(fd, answer, sizeof(answer)) > 0;
}

static bool gather(struct herd *herd, const char *path)
{
    struct rlimit most;

    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
    while (herd->count < HERD)
        if (!listen_in(herd, path))
            return false;
    return true;
}

static void scatter(struct herd *herd)
{
    while (herd->count > 0)
        close(herd->fds[--herd->count]);
}

/* A granted lock is kept until its client is closed: a release would send the next message. */
static void keep(void *arg, int err, struct rota_lock *lock)
{
    (void)arg, (void)err, (void)lock;
}

static long publishes(struct rt_story *story)
{
    const char *stats = rt_story_peek(story, &story->c, "INFO commandstats");
    const char *at = strstr(stats, "cmdstat_publish:calls=");

    return at == NULL ? 0 : strtol(at + strlen("cmdstat_publish:calls="), NULL, 10);
}

/* HERD tickets wait in Rota's line behind a holder that leaves. Returns how many messages its departure sent; -1: it
 * failed. */
static long wake_in_line(struct rt_story *story, const char *url)
{
    struct rota_ask ask = {.owner = ROTA_OWNER_NONE, .flags = ROTA_DETECT};
    struct rota_line *line = NULL;
    struct rota_lock *held = NULL;
    struct rota *holder = NULL, *waiters = NULL;
    long sent = -1;

    if (rota_open(&holder, url, NULL) == 0 && rota_open(&waiters, url, NULL) == 0 &&
        rota_acquire(holder, "job", NULL, &held) == 0) {
        bool asked = true;
        for (int i = 0; i < HERD && asked; i++)
            asked = rota_acquire_async(waiters, "job", &ask, keep, NULL, NULL) == 0;
        while (asked && rota_inspect(holder, "job", &line) == 0 && line->count < HERD + 1) {
            rota_line_free(line);
            line = NULL;
        }
        rota_line_free(line);
        long before = publishes(story);
        if (asked && rota_release(held) == 0)
            sent = publishes(story) - before;
    }
    rota_close(waiters);
    rota_close(holder);
    return sent;
}

void rt_trap_herd(struct rt_story *story)
{
    struct herd herd = {.count = 0};
    char url[256];

    rt_story_at_redis(story, 0);
    rt_story_act(story, "broken", "all who wait listen for the release");
    bool gathered = gather(&herd, story->house->redis[0].socket);
    rt_story_say(story, "%zu clients> SUBSCRIBE released", herd.count);
    rt_story_ask(story, "A", &story->a, "DEL lock");
    const char *reply = rt_story_ask(story, "A", &story->a, "PUBLISH released 1");
    story->broken = gathered && rt_story_is(reply, "(integer) 1000");
    rt_story_say(story, "one will get it; all %zu are woken, and all %zu ask", herd.count,
                 herd.count);
    scatter(&herd);

    rt_story_act(story, "mended", "those who wait stand in a line, and the first of them is told");
    snprintf(url, sizeof(url), "redis+unix:%s", story->house->redis[0].socket);
    long sent = story->over ? -1 : wake_in_line(story, url);
    rt_story_say(story, "%d tickets wait in Rota's line; its holder releases: messages sent: %ld",
                 HERD, sent);
    story->mended = sent == 1;
}
