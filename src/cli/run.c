/* SPDX-License-Identifier: Apache-2.0 */
/* rota run: waits for a lock, runs a command while holding it, gives it back.
 *
 * One thread and one loop: the client has no keeper, and signals come by a descriptor. So
 * a signal cannot slip in between two looks, and fork() is safe. */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/out.h"
#include "cli/run_options.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define NEVER INT64_MAX
/* From SIGTERM to SIGKILL where no deadline is nearer: as long as a service needs to notice, as
 * short as a new holder can bear. */
#define GRACE_MS 2000
#define NOTICE_MS 1000 /* a wait that is longer is told on a terminal */

struct run {
    struct rt_run_asked asked;
    char label[128];

    struct rota *client;
    struct rota_lock *lock;
    struct rt_child child;
    int signal_fd;
    sigset_t inherited_mask;
    int64_t notice_at;

    bool answered; /* the ask ended, with: */
    int answer;
    int interrupted; /* the signal that ended the waiting; 0: none */

    bool told_lost;   /* by the library */
    bool lost;        /* the child was told to end because of it */
    int64_t deadline; /* of the hold, as last seen ahead */
    int64_t kill_at;
    bool ended; /* the child */
};

/* As the library counts: deadlines go on while the machine sleeps. */
static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- Signals and the loop ----------------------------------------------- */

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};

/* A signal that was ignored when we began stays so, for us and for the child: nohup. */
static bool is_ignored(int signo)
{
    struct sigaction action;

    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int catch_signals(struct run *run)
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
    sigprocmask(SIG_BLOCK, &blocked, &run->inherited_mask);
    run->signal_fd = signalfd(-1, &caught_set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signal_fd >= 0)
        return RT_EXIT_OK;
    rt_out_error("cannot watch for signals: %s", strerror(errno));
    return RT_EXIT_INTERNAL;
}

static void on_child(struct run *run)
{
    switch (rt_child_look(&run->child)) {
    case RT_CHILD_RUNNING:
        break;
    case RT_CHILD_ENDED:
        run->ended = true;
        break;
    case RT_CHILD_STOPPED:
        if (run->lost || !rt_child_suspend(&run->child))
            break;
        /* We may have slept past the deadline: look before the child runs again. */
        rota_process(run->client);
        if (!run->told_lost && rota_remaining_ms(run->lock) > 0)
            rt_child_resume(&run->child);
        break;
    }
}

static void on_signals(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signo = (int)info.ssi_signo;
        if (signo == SIGCHLD) {
            if (run->child.pid > 0 && !run->ended)
                on_child(run);
        } else if (run->child.pid > 0) {
            rt_child_signal(&run->child, signo);
        } else if (signo == SIGTSTP) {
            rt_child_stop(getpid());
        } else {
            run->interrupted = signo;
        }
    }
}

/* One turn: waits for the client, a signal, or UNTIL. */
static void turn(struct run *run, int64_t until)
{
    struct pollfd fds[2] = {
        {.fd = rota_fd(run->client), .events = POLLIN},
        {.fd = run->signal_fd, .events = POLLIN},
    };
    int timeout = rota_timeout_ms(run->client);

    if (until != NEVER) {
        int64_t left = until - now_ms();
        left = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : left;
        if (timeout < 0 || left < timeout)
            timeout = (int)left;
    }
    if (poll(fds, 2, timeout) >= 0 && fds[1].revents != 0)
        on_signals(run);
    rota_process(run->client);
}

/* ---- Waiting ------------------------------------------------------------ */

static void on_lost(struct rota_lock *lock, int reason, void *arg)
{
    struct run *run = arg;

    (void)lock, (void)reason;
    run->told_lost = true;
}

static void on_answer(void *arg, int err, struct rota_lock *lock)
{
    struct run *run = arg;

    run->answered = true;
    run->answer = err;
    run->lock = lock;
}

/* Who holds it, for somebody at a terminal who wonders why nothing happens. */
static void tell_waiting(struct run *run)
{
    struct rota_line *line;

    if (!isatty(STDERR_FILENO))
        return;
    if (rota_inspect(run->client, run->asked.name, &line) != 0) {
        rt_out_error("waiting for '%s' ...", run->asked.name);
        return;
    }
    if (line->granted > 0)
        rt_out_error("waiting for '%s', held by %s for %" PRId64 " s; %zu in line ...",
                     run->asked.name, line->places[0].label, line->places[0].since_ms / 1000,
                     line->count);
    rota_line_free(line);
}

/* One ask to its end. A signal cancels it; the grant may still have been first. */
static int wait_once(struct run *run)
{
    uint64_t id = 0;
    bool canceled = false;

    run->answered = false;
    int err = rota_acquire_async(run->client, run->asked.name, &run->asked.ask, on_answer, run,
                                 &id);
    if (err != 0)
        return err;
    while (!run->answered) {
        if (run->interrupted != 0 && !canceled) {
            canceled = true;
            rota_cancel(run->client, id);
        }
        turn(run, run->notice_at);
        if (!run->answered && now_ms() >= run->notice_at) {
            run->notice_at = NEVER;
            tell_waiting(run);
        }
    }
    return run->answer;
}

/* Asks until granted, refused, or interrupted: a session that ended while we waited costs
 * the place in line, not the wish. */
static int wait_granted(struct run *run)
{
    int64_t begin = now_ms();
    uint64_t limit_ms = run->asked.ask.limit_ms;

    for (;;) {
        int err = wait_once(run);
        if (err != ROTA_LOST || run->interrupted != 0)
            return err;
        run->told_lost = false;
        uint64_t waited = (uint64_t)(now_ms() - begin);
        if (limit_ms != 0 && waited >= limit_ms)
            return ROTA_TIMEOUT;
        if (limit_ms != 0)
            run->asked.ask.limit_ms = limit_ms - waited;
    }
}

static int refuse(struct run *run, int err)
{
    if (err != ROTA_BUSY && err != ROTA_TIMEOUT && err != ROTA_DEADLOCK)
        return rt_connect_report(run->client, err, "");
    return run->asked.busy_exit; /* silent, as flock(1): a script asks by the exit code */
}

/* ---- Running ------------------------------------------------------------ */

/* Ends the child in time when the hold is in danger or gone: SIGTERM a quarter of the ttl
 * before the deadline, SIGKILL at the deadline. Returns when to look again. */
static int64_t guard(struct run *run)
{
    int64_t now = now_ms();
    int64_t remaining = rota_remaining_ms(run->lock);
    int64_t margin = rota_ttl_ms(run->client) / 4;

    if (remaining > 0)
        run->deadline = remaining == INT64_MAX ? NEVER : now + remaining;
    bool gone = run->told_lost || remaining <= 0;
    if (!gone && !run->lost && remaining > margin)
        return run->deadline == NEVER ? NEVER : run->deadline - margin;
    if (!run->lost) {
        run->lost = true;
        rt_out_error("the lock '%s' is lost: ending the command", run->asked.name);
        /* Taken away with time left (somebody broke it): a short while to clean up. */
        run->kill_at = run->deadline;
        if (gone && run->kill_at > now + GRACE_MS)
            run->kill_at = now + GRACE_MS;
        if (run->kill_at > now) {
            rt_child_signal(&run->child, SIGTERM);
            rt_child_signal(&run->child, SIGCONT); /* a stopped one must hear it too */
        }
    }
    if (now < run->kill_at)
        return run->kill_at;
    rt_child_signal(&run->child, SIGKILL);
    return NEVER;
}

static int start_child(struct run *run)
{
    char fence[24];

    snprintf(fence, sizeof(fence), "%" PRIu64, rota_fence(run->lock));
    if (setenv("ROTA_NAME", run->asked.name, 1) != 0 || setenv("ROTA_FENCE", fence, 1) != 0) {
        rt_out_error("out of memory");
        return RT_EXIT_INTERNAL;
    }
    fflush(NULL);
    int err = rt_child_start(&run->child, run->asked.command, &run->inherited_mask);
    if (err == 0)
        return RT_EXIT_OK;
    rt_out_error("cannot run '%s': %s; check its spelling, PATH and mode", run->asked.command[0],
                 strerror(err));
    return err == ENOENT ? RT_EXIT_NOT_FOUND : RT_EXIT_CANNOT_RUN;
}

static int run_child(struct run *run)
{
    int code = start_child(run);

    if (code != RT_EXIT_OK)
        return code;
    while (!run->ended) {
        int64_t until = guard(run);
        turn(run, until);
    }
    code = rt_child_finish(&run->child);
    return run->lost ? RT_EXIT_LOST : code;
}

/* With the lock held: runs the command and gives the lock back. */
static int hold(struct run *run)
{
    int code;

    if (run->interrupted != 0) /* the grant was a moment faster than the signal */
        code = RT_EXIT_SIGNAL + run->interrupted;
    else
        code = run_child(run);
    int err = rota_release(run->lock);
    if (err == ROTA_LOST && !run->lost && run->child.pid > 0) {
        rt_out_error("the lock '%s' was lost while the command ran", run->asked.name);
        return RT_EXIT_LOST;
    }
    if (err != 0 && err != ROTA_LOST)
        rt_connect_report(run->client, err, "the lock was not given back: ");
    return code;
}

/* Who holds it, for others: the command, not rota. */
static void set_label(struct run *run)
{
    const char *slash = strrchr(run->asked.command[0], '/');
    char host[64] = "localhost";

    gethostname(host, sizeof(host) - 1);
    snprintf(run->label, sizeof(run->label), "%s/%ld/%s", host, (long)getpid(),
             slash != NULL ? slash + 1 : run->asked.command[0]);
    run->asked.options.label = run->label;
}

int rt_run_main(const struct rt_cli *cli, int argc, char **argv)
{
    struct run run = {
        .asked = {.busy_exit = RT_EXIT_BUSY, .options.flags = ROTA_NO_KEEPER},
        .signal_fd = -1,
        .deadline = NEVER,
        .child.tty = -1,
    };
    bool done = false;

    int code = rt_run_options_parse(&run.asked, argc, argv, &done);
    if (code != RT_EXIT_OK || done)
        return code;
    set_label(&run);
    /* Signals keep their default until here: a slow open can be ended by Ctrl-C. */
    code = rt_connect_open(&run.client, cli, &run.asked.options);
    if (code != RT_EXIT_OK)
        return code;
    code = catch_signals(&run);
    if (code == RT_EXIT_OK) {
        run.asked.ask.on_lost = on_lost;
        run.asked.ask.arg = &run;
        run.notice_at = now_ms() + NOTICE_MS;
        int err = wait_granted(&run);
        if (err == 0)
            code = hold(&run);
        else if (run.interrupted != 0)
            code = RT_EXIT_SIGNAL + run.interrupted;
        else
            code = refuse(&run, err);
        close(run.signal_fd);
    }
    rota_close(run.client);
    return code;
}
