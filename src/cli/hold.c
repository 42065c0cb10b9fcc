/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command while a hold lasts: what run, elect and once have in common.
 *
 * One thread and one loop: the client has no keeper, and signals come through a descriptor. So a signal cannot slip in
 * between two looks, and fork() is safe. */
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

#define NOTICE_MS 1000 /* a terminal is told about a longer wait */

int64_t rt_hold_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t rt_hold_remaining_ms(const struct rt_hold *hold)
{
    return hold->lock != NULL ? rota_remaining_ms(hold->lock) : RT_HOLD_NEVER;
}

/* ---- Signals and the loop ----------------------------------------------- */

static const int caught[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

/* A signal that was ignored when we began stays ignored, for us and for the child: nohup. */
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
    sigaddset(&blocked, SIGPIPE); /* that nobody reads our output is no reason to end */
    sigprocmask(SIG_BLOCK, &blocked, &hold->inherited_mask);
    hold->signal_fd = signalfd(-1, &caught_set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (hold->signal_fd >= 0)
        return RT_EXIT_OK;
    rt_out_error("cannot watch for signals: %s", strerror(errno));
    return RT_EXIT_INTERNAL;
}

/* It is our doing that no prompt comes, so we say how to go on. */
static void tell_stopped(struct rt_hold *hold)
{
    if (rt_child_waits(&hold->child))
        rt_out_error("the command waits for the terminal, the %s '%s' stays held; to go on: fg",
                     hold->noun, hold->name);
    else if (hold->child.stays)
        rt_out_error("the command is stopped, the %s '%s' stays held; Ctrl-C ends it, to go on: "
                     "kill -CONT %ld",
                     hold->noun, hold->name, (long)getpid());
}

static void on_child(struct rt_hold *hold)
{
    enum rt_child_state state = rt_child_look(&hold->child);

    if (state == RT_CHILD_ENDED)
        hold->ended = true;
    if (state != RT_CHILD_STOPPED || hold->lost)
        return;
    if (rota_ttl_ms(hold->client) == 0)
        rt_child_suspend(&hold->child);
    else if (rt_child_stay(&hold->child)) /* if we stopped too, we would not renew the session */
        tell_stopped(hold);
}

/* SIGCONT: we may have slept past the deadline, so look before the child runs again. */
static void on_continued(struct rt_hold *hold)
{
    rota_process(hold->client);
    if (!hold->told_lost && rt_hold_remaining_ms(hold) > 0)
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
        if (hold->child.stays && signo != SIGTSTP && signo != SIGWINCH)
            rt_child_signal(&hold->child, SIGCONT); /* a stopped one must hear it too */
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

void rt_hold_turn(struct rt_hold *hold, int64_t until)
{
    struct pollfd fds[2] = {
        {.fd = rota_fd(hold->client), .events = POLLIN},
        {.fd = hold->signal_fd, .events = POLLIN},
    };
    int timeout = rota_timeout_ms(hold->client);

    if (until != RT_HOLD_NEVER) {
        int64_t left = until - rt_hold_now_ms();
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
    if (err == 0)
        hold->trouble[0] = '\0';
}

/* Says who holds it, for somebody who wonders why nothing happens: WHAT, "waiting for". */
static void tell_holder(struct rt_hold *hold, const char *what)
{
    struct rota_line *line;

    if (rota_inspect(hold->client, hold->name, &line) != 0) {
        rt_out_error("%s '%s'", what, hold->name);
        return;
    }
    size_t waiting = line->count - line->granted;
    if (!hold->answered && waiting > 0)
        waiting--; /* that is us */
    if (line->granted > 0 && line->places[0].since_ms >= 0)
        rt_out_error("%s '%s', held by %s for %" PRId64 " s; others waiting: %zu", what, hold->name,
                     line->places[0].label, line->places[0].since_ms / 1000, waiting);
    else if (line->granted > 0)
        rt_out_error("%s '%s', held by %s; others waiting: %zu", what, hold->name,
                     line->places[0].label, waiting);
    else
        rt_out_error("%s '%s'", what, hold->name);
    rota_line_free(line);
}

/* The engine was away for longer than the ttl, or we stood still: says so once, and once when it is over. */
static void on_wait(void *arg, int err)
{
    struct rt_hold *hold = arg;

    if (err != 0) {
        rt_out_error("the place in line for '%s' is lost (%s); waiting on", hold->name,
                     rota_errmsg(hold->client));
        return;
    }
    hold->trouble[0] = '\0'; /* that is over, and explains nothing that follows */
    rt_out_error("in line for '%s' again, at its end", hold->name);
}

/* Waits for one ask to end. A signal cancels it; the grant may still have been first. */
static int wait_once(struct rt_hold *hold)
{
    uint64_t id = 0;
    bool canceled = false;

    hold->answered = false;
    int err = hold->value != NULL
                  ? rota_elect_async(hold->client, hold->name, hold->value, &hold->ask, on_answer,
                                     hold, &id)
                  : rota_acquire_async(hold->client, hold->name, &hold->ask, on_answer, hold, &id);
    if (err != 0)
        return err;
    while (!hold->answered) {
        if (hold->interrupted != 0 && !canceled) {
            canceled = true;
            rota_cancel(hold->client, id);
        }
        rt_hold_turn(hold, hold->notice_at);
        if (!hold->answered && rt_hold_now_ms() >= hold->notice_at) {
            hold->notice_at = RT_HOLD_NEVER;
            if (hold->verbose || isatty(STDERR_FILENO))
                tell_holder(hold, "waiting for");
        }
    }
    return hold->answer;
}

/* Waits until granted, refused, or interrupted: a grant that was over before we heard of it, because we stood still,
 * costs our place in line, and we ask again. */
static int wait_granted(struct rt_hold *hold)
{
    int64_t begin = rt_hold_now_ms();
    uint64_t limit_ms = hold->ask.limit_ms;

    for (;;) {
        int err = wait_once(hold);
        if (err != ROTA_LOST || hold->interrupted != 0)
            return err;
        hold->told_lost = false;
        uint64_t waited = (uint64_t)(rt_hold_now_ms() - begin);
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
    return hold->busy_exit; /* silent, like flock(1): scripts check the exit code */
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

/* Says who holds it, for others: the command, not rota. */
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
    /* Signals keep their default action until here: Ctrl-C can end a slow open. */
    int code = rt_connect_open(&hold->client, cli, &hold->options);

    return code == RT_EXIT_OK ? catch_signals(hold) : code;
}

/* A shell ends its loop on Ctrl-C only if it sees that we died of it, too: exit code 130 alone means that a program has
 * dealt with it. */
static void die_of_interrupt(void)
{
    sigset_t set;

    fflush(NULL);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT); /* blocked until here */
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void rt_hold_close(struct rt_hold *hold)
{
    int signo = hold->child.pid > 0 ? hold->child.died_of : hold->interrupted;

    if (hold->signal_fd >= 0)
        close(hold->signal_fd);
    rt_guardian_reap(&hold->guardian); /* first: until it dies it keeps the session that we close */
    rota_close(hold->client);
    if (signo == SIGINT && !hold->lost)
        die_of_interrupt();
}

static void tell_not_given_back(const struct rt_hold *hold, int err)
{
    const char *why = rota_errmsg(hold->client);
    uint32_t ttl_ms = rota_ttl_ms(hold->client);

    if (why[0] == '\0')
        why = rota_strerror(err);
    if (ttl_ms == 0)
        rt_out_error("the %s '%s' was not given back: %s", hold->noun, hold->name, why);
    else
        rt_out_error("the %s '%s' was not given back (%s): it is free after at most %.1f s",
                     hold->noun, hold->name, why, ttl_ms / 1000.0);
}

/* With the name held: runs the command and gives the name back. */
static int use(struct rt_hold *hold)
{
    int code;

    if (hold->interrupted != 0) /* the grant was a moment faster than the signal */
        code = RT_EXIT_SIGNAL + hold->interrupted;
    else
        code = rt_hold_command(hold, rota_fence(hold->lock));
    int err = rota_release(hold->lock);
    hold->lock = NULL;
    if (err == ROTA_LOST && !hold->lost && hold->child.pid > 0) {
        rt_out_error("the %s '%s' was lost while the command ran", hold->noun, hold->name);
        return RT_EXIT_LOST;
    }
    if (err != 0 && err != ROTA_LOST && !hold->lost)
        tell_not_given_back(hold, err);
    return code;
}

int rt_hold_run(struct rt_hold *hold)
{
    hold->ask.on_lost = on_lost;
    hold->ask.arg = hold;
    if ((hold->ask.flags & ROTA_TRY) == 0) {
        hold->ask.flags |= ROTA_REJOIN;
        hold->ask.on_wait = on_wait;
    }
    int64_t begin = rt_hold_now_ms();
    hold->notice_at = begin + NOTICE_MS;
    int err = wait_granted(hold);
    if (err == 0 && hold->verbose)
        rt_out_error("'%s' was granted after %.3f s", hold->name,
                     (double)(rt_hold_now_ms() - begin) / 1000);
    if (err == 0)
        return use(hold);
    if (hold->interrupted != 0)
        return RT_EXIT_SIGNAL + hold->interrupted;
    return refuse(hold, err);
}
