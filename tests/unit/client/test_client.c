/* SPDX-License-Identifier: Apache-2.0 */
/* The client where engines do not matter: opening, messages, the keeper, threads, memory. */
#include "base/alloc.h"
#include "client/client.h"

#include <dirent.h>
#include <pthread.h>
#include <rota.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static struct rota *must_open(const char *url, uint32_t flags)
{
    struct rota_options opts = {.flags = flags};
    struct rota *r;
    int rv = rota_open(&r, url, &opts);
    if (rv != 0)
        fail_msg("%s: %s", url, rota_errmsg(NULL));
    return r;
}

static struct rota_lock *must_take(struct rota *r, const char *name, const struct rota_ask *ask)
{
    struct rota_lock *lock;
    int rv = rota_acquire(r, name, ask, &lock);
    if (rv != 0)
        fail_msg("%s: %s", name, rota_errmsg(r));
    return lock;
}

/* ---- Opening ------------------------------------------------------------- */

static void refuse(const char *url, const struct rota_options *opts, int err, const char *word)
{
    struct rota *r = NULL;
    int rv = rota_open(&r, url, opts);
    const char *text = rota_errmsg(NULL);
    if (rv != err || strstr(text, word) == NULL)
        fail_msg("%s: %s, '%s' does not say '%s'", url, rota_strerror(rv), text, word);
    assert_null(strchr(text, '\n'));
    assert_null(r);
}

static void bad_ways_to_open_say_what_to_do(void **state)
{
    (void)state;
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    refuse("gopher://host", NULL, ROTA_INVALID, "file:");
    refuse("gopher://host", NULL, ROTA_INVALID, ", mem:"); /* the last: there is room for all */
    refuse("mem:x?tpyo=1", NULL, ROTA_INVALID, "'tpyo'");
    refuse("mem:x?ttl=0", NULL, ROTA_INVALID, "1s to 1h");
    refuse("mem:x?ttl=2h", NULL, ROTA_INVALID, "1s to 1h");
    refuse("mem:x?ttl=soon", NULL, ROTA_INVALID, "1s to 1h");
    refuse("mem:x?names=cooked", NULL, ROTA_INVALID, "names=raw");
    refuse("mem:x?prefix=a%0Ab", NULL, ROTA_INVALID, "prefix");
    refuse("mem:x?dialect=redisson", NULL, ROTA_INVALID, "'line'");
    refuse("mem:x?password_file=/nonexistent/secret", NULL, ROTA_INVALID, "/nonexistent/secret");
    refuse("prod", NULL, ROTA_INVALID, "'prod'");
    struct rota_options strict = {.flags = ROTA_STRICT};
    refuse("mem:x", &strict, ROTA_UNSAFE, "ROTA_STRICT");
    struct rota_options unknown = {.flags = 0x80};
    refuse("mem:x", &unknown, ROTA_INVALID, "0x80");
    struct rota_options slow = {.ttl_ms = 10};
    refuse("mem:x", &slow, ROTA_INVALID, "1s to 1h");
    unsetenv("XDG_CONFIG_HOME");
}

static void structs_may_grow(void **state)
{
    (void)state;
    struct {
        struct rota_options known;
        uint64_t later;
    } opts = {.known = {.flags = ROTA_NO_KEEPER}};
    struct rota *r = NULL;
    assert_int_equal(rota_open_sized(&r, "mem:x", &opts.known, sizeof(opts)), 0);
    struct {
        struct rota_ask known;
        uint64_t later;
    } ask = {.later = 1};
    struct rota_lock *lock = NULL;
    assert_int_equal(rota_acquire_sized(r, "a", &ask.known, sizeof(ask), &lock), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(r), "older"));
    /* An older program's struct ends sooner; what it does not have is the default. */
    struct rota_ask old = {.limit_ms = UINT64_MAX, .owner = UINT64_MAX - 1};
    assert_int_equal(rota_acquire_sized(r, "a", &old, offsetof(struct rota_ask, hold_ms), &lock),
                     0);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
    opts.later = 1;
    assert_int_equal(rota_open_sized(&r, "mem:x", &opts.known, sizeof(opts)), ROTA_INVALID);
}

static void engines_have_names(void **state)
{
    (void)state;
    char folder[] = "/tmp/rota-config-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/rota", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/rota/config", folder);
    FILE *file = fopen(path, "we");
    fputs(
        "# engines\n\n  test = mem:named?prefix=p:  \nbroken\nother=gopher://x\nempty =\nloop = loop\n",
        file);
    fclose(file);
    setenv("XDG_CONFIG_HOME", folder, 1);
    struct rota *r = must_open("test", 0);
    struct rota *same = must_open("mem:named", 0);
    struct rota_lock *lock = must_take(r, "x", NULL), *none = NULL;
    struct rota_ask try = {.flags = ROTA_TRY};
    assert_int_equal(rota_acquire(same, "p:x", &try, &none), ROTA_BUSY);
    assert_int_equal(rota_release(lock), 0);
    refuse("other", NULL, ROTA_INVALID, "gopher");
    refuse("third", NULL, ROTA_INVALID, "'third'");
    refuse("empty", NULL, ROTA_INVALID, "/rota/config:6: 'empty' is given no URL");
    refuse("loop", NULL, ROTA_INVALID, "/rota/config:7: 'loop' is given no URL");
    setenv("ROTA_URL", "test", 1);
    struct rota *third = must_open(NULL, 0);
    unsetenv("ROTA_URL");
    rota_close(third);
    rota_close(same);
    rota_close(r);
    unsetenv("XDG_CONFIG_HOME");
    unlink(path);
    snprintf(path, sizeof(path), "%s/rota", folder);
    rmdir(path);
    rmdir(folder);
}

/* ---- Messages and the log ------------------------------------------------ */

static void *fail_elsewhere(void *arg)
{
    struct rota_lock *lock;
    assert_int_equal(rota_acquire(arg, "", NULL, &lock), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(arg), "empty"));
    return NULL;
}

static void messages_belong_to_threads_and_clients(void **state)
{
    (void)state;
    struct rota *a = must_open("mem:m", 0), *b = must_open("mem:m", 0);
    struct rota_lock *lock = NULL;
    pthread_t thread;
    assert_string_equal(rota_errmsg(a), "");
    assert_int_equal(rota_acquire(a, "bad\n", NULL, &lock), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(a), "control"));
    assert_string_equal(rota_errmsg(b), "");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, a), 0);
    pthread_join(thread, NULL);
    assert_non_null(strstr(rota_errmsg(a), "control"));
    assert_int_equal(rota_break(b, "x", 0), ROTA_INVALID);
    assert_non_null(strstr(rota_errmsg(a), "control"));
    assert_non_null(strstr(rota_errmsg(b), "fence"));
    rota_close(a);
    rota_close(b);
    for (int err = -20; err <= 1; err++)
        assert_true(strlen(rota_strerror(err)) > 0);
}

static char traced[4096];

static void trace(void *arg, int level, const char *line)
{
    (void)arg;
    if (level == ROTA_LOG_TRACE && strlen(traced) + strlen(line) + 2 < sizeof(traced)) {
        strcat(traced, line);
        strcat(traced, "\n");
    }
}

static void every_step_can_be_traced(void **state)
{
    (void)state;
    struct rota_options opts = {.log = trace};
    struct rota *r;
    setenv("ROTA_TRACE", "1", 1);
    traced[0] = '\0';
    assert_int_equal(rota_open(&r, "mem:trace", &opts), 0);
    unsetenv("ROTA_TRACE");
    assert_int_equal(rota_release(must_take(r, "stock", NULL)), 0);
    rota_close(r);
    const char *join = strstr(traced, "> JOIN stock"), *leave = strstr(traced, "> LEAVE stock");
    assert_non_null(strstr(traced, "> BEAT open"));
    assert_non_null(join);
    assert_non_null(leave);
    assert_true(join < leave);
}

/* ---- The keeper ---------------------------------------------------------- */

/* Reads KEY of the thread called rota-keeper from /proc; false if there is none. */
static bool keeper_status(const char *key, char *out, size_t size)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    bool found = false;
    while (!found && (entry = readdir(tasks)) != NULL) {
        char path[512], line[256];
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        bool keeper = false;
        while (fgets(line, sizeof(line), file) != NULL) {
            keeper = keeper || strcmp(line, "Name:\trota-keeper\n") == 0;
            if (keeper && strncmp(line, key, strlen(key)) == 0) {
                snprintf(out, size, "%s", line + strlen(key));
                found = true;
            }
        }
        fclose(file);
    }
    closedir(tasks);
    return found;
}

static long keeper_switches(void)
{
    char text[64];
    assert_true(keeper_status("voluntary_ctxt_switches:", text, sizeof(text)));
    return strtol(text, NULL, 10);
}

/* How often the calling thread was taken off its processor. */
static long own_switches(void)
{
    struct rusage used;
    assert_int_equal(getrusage(RUSAGE_THREAD, &used), 0);
    return used.ru_nvcsw + used.ru_nivcsw;
}

static void the_keeper_sleeps_through_synchronous_calls(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:keeper?ttl=1h", 0);
    struct rota_ask limited = {.limit_ms = 1000};
    assert_int_equal(rota_release(must_take(r, "x", NULL)), 0);
    long before = keeper_switches(), own = own_switches();
    for (int i = 0; i < 10000; i++)
        assert_int_equal(rota_release(must_take(r, "x", i % 2 == 0 ? NULL : &limited)), 0);
    /* It looks only when the caller was off its processor for a millisecond: on a quiet machine hardly ever. */
    assert_in_range(keeper_switches() - before, 0, 20 + 2 * (own_switches() - own));
    rota_close(r);
}

static void the_keeper_leaves_signals_alone(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:keeper", 0);
    char text[64];
    assert_true(keeper_status("SigBlk:\t", text, sizeof(text)));
    uint64_t blocked = strtoull(text, NULL, 16);
    for (int sig = 1; sig < 32; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            assert_true((blocked >> (sig - 1) & 1) != 0);
    sigset_t mine;
    pthread_sigmask(SIG_BLOCK, NULL, &mine);
    assert_false(sigismember(&mine, SIGTERM));
    rota_close(r);
    struct rota *none = must_open("mem:keeper", ROTA_NO_KEEPER);
    assert_false(keeper_status("SigBlk:\t", text, sizeof(text)));
    rota_close(none);
}

static _Atomic int in_callback, callback_may_end;

static void on_slow(void *arg, int err, struct rota_lock *lock)
{
    (void)arg;
    assert_int_equal(err, 0);
    atomic_store(&in_callback, 1);
    while (!atomic_load(&callback_may_end))
        usleep(500);
    rota_release_async(lock, NULL, NULL);
}

/* The session is renewed while a user's function keeps the keeper: what is left grows again. */
static void a_slow_callback_does_not_stop_the_heart(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:slow?ttl=4s", 0);
    struct rota_lock *lock = must_take(r, "x", NULL);
    assert_int_equal(rota_acquire_async(r, "y", NULL, on_slow, NULL, NULL), 0);
    while (!atomic_load(&in_callback))
        usleep(500);
    int renewals = 0;
    for (int64_t last = rota_remaining_ms(lock); renewals < 4;) {
        int64_t now = rota_remaining_ms(lock);
        assert_true(now > 0);
        renewals += now > last;
        last = now;
        usleep(500);
    }
    atomic_store(&callback_may_end, 1);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

/* A long ttl wherever threads wait: no heartbeat makes up for a lost wake-up. */

/* ---- Waiting ------------------------------------------------------------- */

struct waiting {
    struct rota *r;
    const char *name;
    struct rota_ask ask;
    int rv;
    struct rota_lock *lock;
    pthread_t thread;
};

static void *wait_in_line(void *arg)
{
    struct waiting *w = arg;
    w->rv = rota_acquire(w->r, w->name, &w->ask, &w->lock);
    return NULL;
}

static void start_waiting(struct waiting *w, struct rota *r, const char *name)
{
    w->r = r;
    w->name = name;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_in_line, w), 0);
}

/* Until that many tickets stand in the line of NAME. */
static void await_count(struct rota *r, const char *name, size_t count)
{
    for (;;) {
        struct rota_line *line;
        assert_int_equal(rota_inspect(r, name, &line), 0);
        size_t now = line->count;
        rota_line_free(line);
        if (now == count)
            return;
        usleep(500);
    }
}

static struct rota *interrupted;

static void on_alarm(int sig)
{
    (void)sig;
    rota_interrupt(interrupted);
}

static void a_signal_ends_the_waiting(void **state)
{
    (void)state;
    static const uint32_t flags[] = {0, ROTA_NO_KEEPER};
    for (size_t i = 0; i < 2; i++) {
        struct rota *holder = must_open("mem:signal?ttl=1h", 0),
                    *r = must_open("mem:signal?ttl=1h", flags[i]);
        struct rota_lock *held = must_take(holder, "x", NULL), *lock = NULL;
        struct sigaction action = {.sa_handler = on_alarm}, old;
        struct itimerval every = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
        interrupted = r;
        sigaction(SIGALRM, &action, &old);
        setitimer(ITIMER_REAL, &every, NULL);
        assert_int_equal(rota_acquire(r, "x", NULL, &lock), ROTA_CANCELED);
        assert_int_equal(rota_latch_wait(r, "latch", 1, 0), ROTA_CANCELED);
        setitimer(ITIMER_REAL, &never, NULL);
        sigaction(SIGALRM, &old, NULL);
        await_count(holder, "x", 1);
        assert_int_equal(rota_release(held), 0);
        assert_int_equal(rota_release(must_take(r, "x", NULL)), 0);
        rota_close(r);
        rota_close(holder);
    }
}

static void whoever_waits_goes_on_driving(void **state)
{
    (void)state;
    struct rota *holder = must_open("mem:drive?ttl=1h", 0),
                *r = must_open("mem:drive?ttl=1h", ROTA_NO_KEEPER);
    struct rota_lock *a = must_take(holder, "a", NULL), *b = must_take(holder, "b", NULL);
    struct waiting first = {.rv = 1}, second = {.rv = 1};
    start_waiting(&first, r, "a");
    await_count(holder, "a", 2);
    start_waiting(&second, r, "b");
    await_count(holder, "b", 2);
    assert_int_equal(rota_release(a), 0);
    pthread_join(first.thread, NULL); /* it drove; the second has to take that over */
    assert_int_equal(first.rv, 0);
    assert_int_equal(rota_release(b), 0);
    pthread_join(second.thread, NULL);
    assert_int_equal(second.rv, 0);
    assert_int_equal(rota_release(first.lock), 0);
    assert_int_equal(rota_release(second.lock), 0);
    rota_close(r);
    rota_close(holder);
}

static void *wait_for_latch(void *arg)
{
    struct waiting *w = arg;
    w->rv = rota_latch_wait(w->r, w->name, 2, 0);
    return NULL;
}

static _Atomic int observing, queueing;

/* The trace shows what nobody else can see: that a call has got as far as waiting. */
static void watch_trace(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    if (strstr(line, "< OBSERVE latch") != NULL)
        atomic_store(&observing, 1);
    if (strstr(line, "< CHANGE mine") != NULL)
        atomic_store(&queueing, 1);
}

static void close_with_waiters(uint32_t flags)
{
    struct rota_options opts = {.flags = flags, .log = watch_trace};
    struct rota *holder = must_open("mem:close?ttl=1h", 0), *r;
    struct waiting engine = {.rv = 1}, local = {.rv = 1}, latch = {.rv = 1, .name = "latch"};
    atomic_store(&observing, 0);
    atomic_store(&queueing, 0);
    setenv("ROTA_TRACE", "1", 1);
    assert_int_equal(rota_open(&r, "mem:close?ttl=1h", &opts), 0);
    unsetenv("ROTA_TRACE");
    struct rota_lock *mine = must_take(r, "mine", NULL), *held = must_take(holder, "x", NULL);
    (void)mine; /* goes with its client */
    start_waiting(&engine, r, "x");
    start_waiting(&local, r, "mine");
    latch.r = r;
    assert_int_equal(pthread_create(&latch.thread, NULL, wait_for_latch, &latch), 0);
    await_count(holder, "x", 2);
    while (!atomic_load(&observing) || !atomic_load(&queueing))
        usleep(500);
    rota_close(r);
    pthread_join(engine.thread, NULL);
    pthread_join(local.thread, NULL);
    pthread_join(latch.thread, NULL);
    assert_int_equal(engine.rv, ROTA_CLOSED);
    assert_int_equal(local.rv, ROTA_CLOSED);
    assert_int_equal(latch.rv, ROTA_CLOSED);
    await_count(holder, "x", 1);
    await_count(holder, "mine", 0);
    assert_int_equal(rota_release(held), 0);
    rota_close(holder);
}

static void closing_ends_all_kinds_of_waiting(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        close_with_waiters(i % 2 == 0 ? 0 : ROTA_NO_KEEPER);
}

/* ---- Many threads -------------------------------------------------------- */

#define THREADS 8
#define ROUNDS 150

struct crowd {
    struct rota *clients[2];
    _Atomic int inside[3];
    long counters[3]; /* each guarded by a lock */
    _Atomic long granted[3];
    _Atomic int async_open;
};

static void on_async(void *arg, int err, struct rota_lock *lock)
{
    struct crowd *c = arg;
    assert_true(err == 0 || err == ROTA_CANCELED || err == ROTA_TIMEOUT);
    if (err == 0)
        rota_release_async(lock, NULL, NULL);
    atomic_fetch_sub(&c->async_open, 1);
}

static void one_round(struct crowd *c, unsigned *seed)
{
    static const char *const names[] = {"a", "b", "c"};
    unsigned pick = (unsigned)rand_r(seed);
    unsigned which = pick % 3;
    struct rota *r = c->clients[pick / 3 % 2];
    struct rota_ask ask = {0};
    switch (pick / 6 % 6) {
    case 0:
        ask.flags = ROTA_TRY;
        break;
    case 1:
        ask.limit_ms = 1;
        break;
    case 2:
        ask.linger_ms = 5;
        break;
    case 3:
        ask.flags = ROTA_DETECT;
        break;
    case 4: {
        uint64_t id;
        atomic_fetch_add(&c->async_open, 1);
        assert_int_equal(rota_acquire_async(r, names[which], &ask, on_async, c, &id), 0);
        if (pick % 7 == 0)
            (void)rota_cancel(r, id);
        return;
    }
    default:
        break;
    }
    struct rota_lock *lock;
    int rv = rota_acquire(r, names[which], &ask, &lock);
    if (rv == ROTA_BUSY || rv == ROTA_TIMEOUT || rv == ROTA_CANCELED)
        return;
    assert_int_equal(rv, 0);
    assert_int_equal(atomic_fetch_add(&c->inside[which], 1), 0);
    c->counters[which]++; /* the thread sanitizer watches this one */
    atomic_fetch_add(&c->granted[which], 1);
    assert_true(rota_remaining_ms(lock) > 0);
    assert_int_equal(atomic_fetch_sub(&c->inside[which], 1), 1);
    assert_int_equal(rota_release(lock), 0);
}

static void *crowd_member(void *arg)
{
    struct crowd *c = arg;
    static _Atomic unsigned seeds = 1;
    unsigned seed = atomic_fetch_add(&seeds, 1);
    for (int i = 0; i < ROUNDS; i++) {
        one_round(c, &seed);
        if (i % 50 == 49)
            rota_interrupt(c->clients[i % 2]);
    }
    return NULL;
}

static void crowd_of_threads(uint32_t pass_limit)
{
    struct rota_options opts = {.pass_limit = pass_limit};
    struct crowd c = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < 2; i++)
        assert_int_equal(rota_open(&c.clients[i], "mem:crowd?ttl=1h", &opts), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_member, &c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while (atomic_load(&c.async_open) > 0)
        usleep(500);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c.counters[i], atomic_load(&c.granted[i]));
        assert_true(c.counters[i] > 0);
    }
    for (int i = 0; i < 2; i++)
        rota_close(c.clients[i]);
}

static void a_crowd_passing_locks_on(void **state)
{
    (void)state;
    crowd_of_threads(0);
}

static void a_crowd_in_strict_order(void **state)
{
    (void)state;
    crowd_of_threads(ROTA_NEVER);
}

/* ---- Fences that go back --------------------------------------------------- */

static _Atomic int unsafe_told;

static void on_unsafe(void *arg, int err, struct rota_lock *lock)
{
    (void)arg;
    assert_int_equal(err, ROTA_UNSAFE);
    assert_null(lock);
    atomic_fetch_add(&unsafe_told, 1);
}

/* As if the engine had forgotten: the client remembers a larger fence than it will ever get. */
static void remember(struct rota *r, const char *name, uint64_t fence)
{
    pthread_mutex_lock(&r->mu);
    uint64_t hash = rt_names_hash(&r->d.names, name);
    r->fences[hash % RT_FENCES] = (struct rt_fence_seen){hash, fence};
    pthread_mutex_unlock(&r->mu);
}

/* Names that share a slot push each other out of the memory. */
static bool share_a_slot(struct rota *r, const char *a, const char *b)
{
    pthread_mutex_lock(&r->mu);
    uint64_t x = rt_names_hash(&r->d.names, a), y = rt_names_hash(&r->d.names, b);
    pthread_mutex_unlock(&r->mu);
    return x % RT_FENCES == y % RT_FENCES;
}

static void a_fence_that_goes_back_is_told(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:back?ttl=1h", 0);
    struct rota_lock *lock = NULL, *both[2] = {NULL, NULL};
    char other[] = "a";
    while (share_a_slot(r, other, "x"))
        other[0]++;
    const char *const names[] = {other, "x"};
    struct rota_ask shared = {.mode = ROTA_SHARED};
    remember(r, "x", UINT64_MAX);
    assert_int_equal(rota_acquire(r, "x", NULL, &lock), ROTA_UNSAFE);
    assert_non_null(strstr(rota_errmsg(r), "went back"));
    assert_null(lock);
    assert_int_equal(rota_acquire_all(r, names, 2, NULL, both), ROTA_UNSAFE);
    assert_null(both[0]);
    assert_int_equal(rota_acquire_async(r, "x", NULL, on_unsafe, NULL, NULL), 0);
    while (atomic_load(&unsafe_told) == 0)
        usleep(500);
    await_count(r, "x", 0); /* and nothing stays behind */
    await_count(r, other, 0);
    assert_int_equal(rota_release(must_take(r, "x", &shared)), 0);
    assert_int_equal(rota_release(must_take(r, "y", NULL)), 0);
    rota_close(r);
}

/* ---- Memory -------------------------------------------------------------- */

static _Atomic long allocations, bytes;

static void *counting_calloc(size_t n, size_t size)
{
    size_t *p = calloc(1, n * size + 16);
    p[0] = n * size;
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&bytes, (long)(n * size));
    return p + 2;
}

static void *counting_realloc(void *old, size_t size)
{
    size_t *p = old != NULL ? (size_t *)old - 2 : NULL;
    long before = p != NULL ? (long)p[0] : 0;
    p = realloc(p, size + 16);
    p[0] = size;
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&bytes, (long)size - before);
    return p + 2;
}

static void counting_free(void *old)
{
    if (old == NULL)
        return;
    size_t *p = (size_t *)old - 2;
    atomic_fetch_sub(&bytes, (long)p[0]);
    free(p);
}

static const struct rt_allocator counting = {counting_calloc, counting_realloc, counting_free};

static void a_held_lock_is_small(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    static struct rota_lock *locks[MANY];
    rt_alloc_set(&counting);
    struct rota *r = must_open("mem:many?ttl=1h", 0);
    assert_int_equal(rota_release(must_take(r, "first", NULL)), 0);
    long before = atomic_load(&bytes);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof(name), "lock-%d", i);
        locks[i] = must_take(r, name, NULL);
    }
    /* The engine's own part is in it: it keeps the lines in this process too. */
    assert_in_range((atomic_load(&bytes) - before) / MANY, 1, 400);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(rota_release(locks[i]), 0);
    rota_close(r);
    assert_int_equal(atomic_load(&bytes), 0);
    rt_alloc_set(NULL);
}

static void lingering_pairs_allocate_nothing(void **state)
{
    (void)state;
    rt_alloc_set(&counting);
    struct rota *r = must_open("mem:linger?ttl=1h", 0);
    struct rota_ask ask = {.linger_ms = 100000};
    assert_int_equal(rota_release(must_take(r, "x", &ask)), 0);
    long before = atomic_load(&allocations);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rota_release(must_take(r, "x", &ask)), 0);
    assert_int_equal(atomic_load(&allocations), before);
    rota_close(r);
    rt_alloc_set(NULL);
}

/* Between the moment a loss is told and the deadline, an answer of the engine no longer proves anything: the holder has
 * been, or is being, told. */
static void a_check_is_good_while_the_hold_is_usable(void **state)
{
    (void)state;
    struct rota *r = must_open("mem:usable", ROTA_NO_KEEPER);
    struct rota_lock *lock = must_take(r, "x", NULL);
    struct rt_op op = {.kind = RT_OP_CHANGE};
    uint64_t number = lock->ask.ticket->id;
    int64_t now = r->loop.now, until = r->d.desk.session.usable_until;
    rt_client_lock(r);
    r->loop.now = until - 1;
    assert_int_equal(rt_lock_changed(r, lock, number, &op), 0);
    r->loop.now = until;
    assert_int_equal(rt_lock_changed(r, lock, number, &op), ROTA_LOST);
    r->loop.now = now;
    rt_client_unlock(r);
    assert_int_equal(rota_release(lock), 0);
    rota_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_ways_to_open_say_what_to_do),
        cmocka_unit_test(structs_may_grow),
        cmocka_unit_test(engines_have_names),
        cmocka_unit_test(messages_belong_to_threads_and_clients),
        cmocka_unit_test(every_step_can_be_traced),
        cmocka_unit_test(the_keeper_sleeps_through_synchronous_calls),
        cmocka_unit_test(the_keeper_leaves_signals_alone),
        cmocka_unit_test(a_slow_callback_does_not_stop_the_heart),
        cmocka_unit_test(a_signal_ends_the_waiting),
        cmocka_unit_test(whoever_waits_goes_on_driving),
        cmocka_unit_test(closing_ends_all_kinds_of_waiting),
        cmocka_unit_test(a_crowd_passing_locks_on),
        cmocka_unit_test(a_crowd_in_strict_order),
        cmocka_unit_test(a_fence_that_goes_back_is_told),
        cmocka_unit_test(a_held_lock_is_small),
        cmocka_unit_test(lingering_pairs_allocate_nothing),
        cmocka_unit_test(a_check_is_good_while_the_hold_is_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
