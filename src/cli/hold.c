/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command while a hold lasts: what run, elect and once have in common.
 *
 * One thread and one loop: the client has no keeper, and signals come by a descriptor. So
 * a signal cannot slip in between two looks, and fork() is safe. */
#include "cli/hold.h"

#include "cli/connect.h"
#include "cli/out.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define GUARDIANS_MAX 8 /* how many to start for one command, should they be killed */
#define NOTICE_MS 1000  /* a wait that is longer is told on a terminal */

/* As the library counts: deadlines go on while the machine sleeps. */
static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t remaining_ms(const struct rt_hold *hold)
{
    return hold->lock != NULL ? rota_remaining_ms(hold->lock) : RT_HOLD_NEVER;
}

/* ---- Signals and the loop ----------------------------------------------- */

static const int caught[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

/* A signal that was ignored when we began stays so, for us and for the child: nohup. */
static bool is_ignored(int signo)
{
    struct sigaction action;

    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int catch_signals(struct rt_hold *hold)
{
    sigset_t caught_set, blocked;

    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would hide the child's end */
    sigemptyset(&caught_set);
    sigaddset(&caught_set, SIGCHLD);
    for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
        if (!is_ignored(caught[i]))
            sigaddset(&caught_set, caught[i]);
    }
    blocked = caught_set;
    sigaddset(&blocked, SIGTTOU); /* so that tcsetpgrp works from the background */
    sigprocmask(SIG_BLOCK, &blocked, &hold->inherited_mask);
    hold->signal_fd = signalfd(-1, &caught_set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (hold->signal_fd >= 0)
        return RT_EXIT_OK;
    rt_out_error("cannot watch for signals: %s", strerror(errno));
    return RT_EXIT_INTERNAL;
}

static void on_child(struct rt_hold *hold)
{
    enum rt_child_state state = rt_child_look(&hold->child);

    if (state == RT_CHILD_ENDED)
        hold->ended = true;
    if (state != RT_CHILD_STOPPED || hold->lost)
        return;
    if (rota_ttl_ms(hold->client) == 0) {
        rt_child_suspend(&hold->child);
    } else if (hold->child.foreground) {
        /* Stopped ourselves, we would not renew the session. */
        rt_child_reclaim(&hold->child);
        rt_out_error("the command is stopped, the %s '%s' stays held; to go on: kill -CONT %ld",
                     hold->noun, hold->name, (long)getpid());
    }
}

/* SIGCONT: we may have slept past the deadline, so look before the child runs again. */
static void on_continued(struct rt_hold *hold)
{
    rota_process(hold->client);
    if (!hold->told_lost && remaining_ms(hold) > 0)
        rt_child_resume(&hold->child);
}

static void on_signal(struct rt_hold *hold, int signo)
{
    bool running = hold->child.pid > 0 && !hold->ended;

    if (signo == SIGCHLD) {
        if (running)
            on_child(hold);
    } else if (signo == SIGCONT) {
        if (running)
            on_continued(hold);
    } else if (hold->child.pid > 0) {
        rt_child_signal(&hold->child, signo);
    } else if (signo == SIGTSTP) {
        rt_child_stop(getpid());
    } else if (signo != SIGWINCH) {
        hold->interrupted = signo;
    }
}

static void on_signals(struct rt_hold *hold)
{
    struct signalfd_siginfo info;

    while (read(hold->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        on_signal(hold, (int)info.ssi_signo);
}

/* One turn: waits for the client, a signal, or UNTIL. */
static void turn(struct rt_hold *hold, int64_t until)
{
    struct pollfd fds[2] = {
        {.fd = rota_fd(hold->client), .events = POLLIN},
        {.fd = hold->signal_fd, .events = POLLIN},
    };
    int timeout = rota_timeout_ms(hold->client);

    if (until != RT_HOLD_NEVER) {
        int64_t left = until - now_ms();
        left = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : left;
        if (timeout < 0 || left < timeout)
            timeout = (int)left;
    }
    if (poll(fds, 2, timeout) >= 0 && fds[1].revents != 0)
        on_signals(hold);
    rota_process(hold->client);
}

/* ---- Waiting ------------------------------------------------------------ */

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct rt_hold *hold = arg;

    (void)lock, (void)reason;
    hold->told_lost = true;
}

static void on_answer(void *arg, int err, struct rota_lock *lock)
{
    struct rt_hold *hold = arg;

    hold->answered = true;
    hold->answer = err;
    hold->lock = lock;
}

/* Who holds it, for somebody who wonders why nothing happens: WHAT, "waiting for". */
static void tell_holder(struct rt_hold *hold, const char *what)
{
    struct rota_line *line;

    if (rota_inspect(hold->client, hold->name, &line) != 0) {
        rt_out_error("%s '%s'", what, hold->name);
        return;
    }
    if (line->granted > 0)
        rt_out_error("%s '%s', held by %s for %" PRId64 " s; %zu in line", what, hold->name,
                     line->places[0].label, line->places[0].since_ms / 1000, line->count);
    else
        rt_out_error("%s '%s'", what, hold->name);
    rota_line_free(line);
}

/* One ask to its end. A signal cancels it; the grant may still have been first. */
static int wait_once(struct rt_hold *hold)
{
    uint64_t id = 0;
    bool canceled = false;

    hold->answered = false;
    int err = rota_acquire_async(hold->client, hold->name, &hold->ask, on_answer, hold, &id);
    if (err != 0)
        return err;
    while (!hold->answered) {
        if (hold->interrupted != 0 && !canceled) {
            canceled = true;
            rota_cancel(hold->client, id);
        }
        turn(hold, hold->notice_at);
        if (!hold->answered && now_ms() >= hold->notice_at) {
            hold->notice_at = RT_HOLD_NEVER;
            if (hold->verbose || isatty(STDERR_FILENO))
                tell_holder(hold, "waiting for");
        }
    }
    return hold->answer;
}

/* Asks until granted, refused, or interrupted: a session that ended while we waited costs
 * the place in line, not the wish. */
static int wait_granted(struct rt_hold *hold)
{
    int64_t begin = now_ms();
    uint64_t limit_ms = hold->ask.limit_ms;

    for (;;) {
        int err = wait_once(hold);
        if (err != ROTA_LOST || hold->interrupted != 0)
            return err;
        hold->told_lost = false;
        uint64_t waited = (uint64_t)(now_ms() - begin);
        if (limit_ms != 0 && waited >= limit_ms)
            return ROTA_TIMEOUT;
        if (limit_ms != 0)
            hold->ask.limit_ms = limit_ms - waited;
    }
}

static int refuse(struct rt_hold *hold, int err)
{
    if (err != ROTA_BUSY && err != ROTA_TIMEOUT && err != ROTA_DEADLOCK)
        return rt_connect_report(hold->client, err, "");
    if (hold->trouble[0] != '\0') /* it was not only somebody else's turn */
        rt_out_error("%s", hold->trouble);
    else if (hold->verbose)
        tell_holder(hold, "not granted:");
    return hold->busy_exit; /* silent, as flock(1): a script asks by the exit code */
}

/* ---- Running ------------------------------------------------------------ */

/* Ends the child because the hold is in danger or, GONE, over: by SIGTERM if there is time. */
static void begin_end(struct rt_hold *hold, int64_t now, bool gone)
{
    const char *what = hold->on_lost == RT_ON_LOST_IGNORE ? "the command goes on"
                                                          : "ending the command";

    hold->lost = true;
    rt_out_error("the %s '%s' is lost: %s", hold->noun, hold->name, what);
    /* Taken away with time left (somebody broke it): a short while to clean up. */
    hold->kill_at = hold->deadline;
    if (gone && hold->kill_at > now + RT_GRACE_MS)
        hold->kill_at = now + RT_GRACE_MS;
    if (hold->on_lost == RT_ON_LOST_KILL)
        hold->kill_at = now;
    if (hold->on_lost == RT_ON_LOST_TERM && hold->kill_at > now) {
        rt_child_signal(&hold->child, SIGTERM);
        rt_child_signal(&hold->child, SIGCONT); /* a stopped one must hear it too */
    }
}

/* Ends the child in time when the hold is in danger or gone: SIGTERM a quarter of the ttl
 * before the deadline, SIGKILL at the deadline. Returns when to look again. */
static int64_t guard(struct rt_hold *hold)
{
    int64_t now = now_ms();
    int64_t remaining = remaining_ms(hold);
    int64_t margin = rota_ttl_ms(hold->client) / 4;

    if (remaining > 0)
        hold->deadline = remaining == INT64_MAX ? RT_HOLD_NEVER : now + remaining;
    bool gone = hold->told_lost || remaining <= 0;
    if (!gone && !hold->lost && remaining > margin)
        return hold->deadline == RT_HOLD_NEVER ? RT_HOLD_NEVER : hold->deadline - margin;
    if (!hold->lost)
        begin_end(hold, now, gone);
    if (hold->on_lost == RT_ON_LOST_IGNORE)
        return RT_HOLD_NEVER;
    if (now < hold->kill_at)
        return hold->kill_at;
    rt_child_signal(&hold->child, SIGKILL);
    return RT_HOLD_NEVER;
}

/* Sees to it that there is a guardian, and that it knows the deadline. */
static int keep_guardian(struct rt_hold *hold)
{
    int keep_fd = -1;

    if (rt_guardian_look(&hold->guardian)) {
        /* The same deadline comes out a millisecond earlier or later with each look. */
        if (llabs(hold->deadline - hold->told_deadline) < 100)
            return 0;
    } else if (hold->guardians++ < GUARDIANS_MAX) {
        if (hold->lock != NULL)
            rota_keep_fd(hold->client, &keep_fd); /* where it cannot, there is a deadline */
        int err = rt_guardian_start(&hold->guardian, keep_fd, hold->on_lost);
        if (keep_fd >= 0)
            close(keep_fd);
        if (err != 0)
            return err;
    }
    if (hold->child.pid > 0)
        rt_guardian_tell(&hold->guardian, hold->child.pid, hold->deadline);
    hold->told_deadline = hold->deadline;
    return 0;
}

/* The guardian, the waiting child, the guardian told, the child let go: see guardian.h. */
static int launch(struct rt_hold *hold)
{
    static const int death_signals[] = {
        [RT_ON_LOST_TERM] = SIGTERM, [RT_ON_LOST_KILL] = SIGKILL, [RT_ON_LOST_IGNORE] = 0};
    int err = keep_guardian(hold);

    if (err != 0)
        return err;
    err = rt_child_fork(&hold->child, hold->command, &hold->inherited_mask,
                        death_signals[hold->on_lost]);
    if (err == 0) {
        rt_guardian_tell(&hold->guardian, hold->child.pid, hold->deadline);
        /* We may have slept past the deadline since the grant. */
        hold->lost = remaining_ms(hold) <= 0;
        if (!hold->lost)
            err = rt_child_go(&hold->child);
        else
            rt_child_drop(&hold->child);
    }
    if (hold->child.pid == 0)
        rt_guardian_dismiss(&hold->guardian);
    return err;
}

static int start_child(struct rt_hold *hold, uint64_t fence)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, fence);
    if (setenv("ROTA_NAME", hold->name, 1) != 0 || setenv("ROTA_FENCE", text, 1) != 0) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    fflush(NULL);
    int err = launch(hold);
    if (hold->lost) {
        rt_out_error("the %s '%s' was lost before the command ran", hold->noun, hold->name);
        return RT_EXIT_LOST;
    }
    if (err == 0)
        return RT_EXIT_OK;
    const char *advice = err == ENOENT || err == EACCES ? "; check its spelling, PATH and mode"
                                                        : "";
    rt_out_error("cannot run '%s': %s%s", hold->command[0], strerror(err), advice);
    return err == ENOENT ? RT_EXIT_NOT_FOUND : RT_EXIT_CANNOT_RUN;
}

/* The leader ended. Of a lost hold nothing may stay; else what the command left behind is its. */
static int end_child(struct rt_hold *hold)
{
    if (hold->lost && hold->on_lost != RT_ON_LOST_IGNORE)
        rt_child_signal(&hold->child, SIGKILL);
    rt_guardian_dismiss(&hold->guardian);
    return rt_child_finish(&hold->child);
}

int rt_hold_command(struct rt_hold *hold, uint64_t fence)
{
    int code = start_child(hold, fence);

    if (code != RT_EXIT_OK)
        return code;
    while (!hold->ended) {
        int64_t until = guard(hold);
        keep_guardian(hold);
        turn(hold, until);
    }
    code = end_child(hold);
    return hold->lost ? RT_EXIT_LOST : code;
}

/* ---- From the beginning to the end -------------------------------------- */

void rt_hold_init(struct rt_hold *hold)
{
    *hold = (struct rt_hold){
        .noun = "lock",
        .options.flags = ROTA_NO_KEEPER,
        .busy_exit = RT_EXIT_BUSY,
        .signal_fd = -1,
        .deadline = RT_HOLD_NEVER,
        .child.tty = -1,
    };
}

/* Who holds it, for others: the command, not rota. */
static void set_label(struct rt_hold *hold)
{
    const char *slash = strrchr(hold->command[0], '/');
    char host[64] = "localhost";

    gethostname(host, sizeof(host) - 1);
    snprintf(hold->label, sizeof(hold->label), "%s/%ld/%s", host, (long)getpid(),
             slash != NULL ? slash + 1 : hold->command[0]);
    hold->options.label = hold->label;
}

static void on_log(void *arg, int level, const char *line)
{
    struct rt_hold *hold = arg;

    if (level <= ROTA_LOG_WARN)
        snprintf(hold->trouble, sizeof(hold->trouble), "%s", line);
}

int rt_hold_open(struct rt_hold *hold, const struct rt_cli *cli)
{
    const char *trace = getenv("ROTA_TRACE");

    if (trace == NULL || strcmp(trace, "1") != 0) { /* else the library prints it all */
        hold->options.log = on_log;
        hold->options.log_arg = hold;
    }
    set_label(hold);
    /* Signals keep their default until here: a slow open can be ended by Ctrl-C. */
    int code = rt_connect_open(&hold->client, cli, &hold->options);

    return code == RT_EXIT_OK ? catch_signals(hold) : code;
}

void rt_hold_close(struct rt_hold *hold)
{
    if (hold->signal_fd >= 0)
        close(hold->signal_fd);
    rota_close(hold->client);
    rt_guardian_reap(&hold->guardian); /* last: it ends while we do all that */
}

/* Tells observers, then runs the command. */
static int lead(struct rt_hold *hold)
{
    int err = hold->value != NULL ? rota_proclaim(hold->lock, hold->value) : 0;

    if (err != 0)
        return rt_connect_report(hold->client, err, "");
    return rt_hold_command(hold, rota_fence(hold->lock));
}

/* With the name held: runs the command and gives the name back. */
static int use(struct rt_hold *hold)
{
    int code;

    if (hold->interrupted != 0) /* the grant was a moment faster than the signal */
        code = RT_EXIT_SIGNAL + hold->interrupted;
    else
        code = lead(hold);
    int err = rota_release(hold->lock);
    hold->lock = NULL;
    if (err == ROTA_LOST && !hold->lost && hold->child.pid > 0) {
        rt_out_error("the %s '%s' was lost while the command ran", hold->noun, hold->name);
        return RT_EXIT_LOST;
    }
    if (err != 0 && err != ROTA_LOST)
        rt_connect_report(hold->client, err, "it was not given back: ");
    return code;
}

int rt_hold_run(struct rt_hold *hold)
{
    hold->ask.on_lost = on_lost;
    hold->ask.arg = hold;
    int64_t begin = now_ms();
    hold->notice_at = begin + NOTICE_MS;
    int err = wait_granted(hold);
    if (err == 0 && hold->verbose)
        rt_out_error("'%s' was granted after %.3f s", hold->name,
                     (double)(now_ms() - begin) / 1000);
    if (err == 0)
        return use(hold);
    if (hold->interrupted != 0)
        return RT_EXIT_SIGNAL + hold->interrupted;
    return refuse(hold, err);
}
