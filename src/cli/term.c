/* SPDX-License-Identifier: Apache-2.0 */
/* Takes over the terminal for a while. */
#include "cli/term.h"

#include "cli/cli.h"
#include "cli/out.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"

static struct {
    struct termios before;
    sigset_t mask;
    int signal_fd;
    bool open;
} term = {.signal_fd = -1};

static void enter(void)
{
    struct termios raw = term.before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C and Ctrl-Z are signals */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    (void)rt_term_write(ENTER, strlen(ENTER));
}

static void leave(void)
{
    (void)rt_term_write(LEAVE, strlen(LEAVE));
    tcsetattr(STDIN_FILENO, TCSADRAIN, &term.before);
}

void rt_term_close(void)
{
    if (!term.open)
        return;
    term.open = false;
    leave();
    close(term.signal_fd);
    sigprocmask(SIG_SETMASK, &term.mask, NULL);
}

int rt_term_open(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&set, signals[i]);
    if (tcgetattr(STDIN_FILENO, &term.before) != 0) {
        rt_out_error("cannot use the terminal: %s", strerror(errno));
        return RT_EXIT_FAILED;
    }
    sigprocmask(SIG_BLOCK, &set, &term.mask);
    term.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (term.signal_fd < 0) {
        rt_out_error("cannot watch for signals: %s", strerror(errno));
        sigprocmask(SIG_SETMASK, &term.mask, NULL);
        return RT_EXIT_INTERNAL;
    }
    signal(SIGPIPE, SIG_IGN);
    term.open = true;
    atexit(rt_term_close); /* also if the program ends in the middle */
    enter();
    return RT_EXIT_OK;
}

struct rt_term_size rt_term_size(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct rt_term_size){24, 80};
    return (struct rt_term_size){size.ws_row, size.ws_col};
}

bool rt_term_write(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        size -= (size_t)n;
    }
    return true;
}

/* Ctrl-Z: gives the shell its terminal back, and takes it again when we continue. */
static void stop(void)
{
    sigset_t stop_only, blocked;

    leave();
    sigemptyset(&stop_only);
    sigaddset(&stop_only, SIGTSTP);
    signal(SIGTSTP, SIG_DFL);
    kill(getpid(), SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop_only, &blocked); /* stops here */
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    enter();
}

int rt_term_signal_fd(void)
{
    return term.signal_fd;
}

static enum rt_term_event take_signal(int *key)
{
    struct signalfd_siginfo info;

    if (read(term.signal_fd, &info, sizeof(info)) != sizeof(info))
        return RT_TERM_TIME;
    switch (info.ssi_signo) {
    case SIGTSTP:
        stop();
        return RT_TERM_RESIZED;
    case SIGCONT:
        enter();
        return RT_TERM_RESIZED;
    case SIGWINCH:
        return RT_TERM_RESIZED;
    default:
        *key = (int)info.ssi_signo;
        return RT_TERM_END;
    }
}

enum rt_term_event rt_term_wait(int timeout_ms, int fd, int *key)
{
    struct pollfd pfds[3] = {
        {.fd = term.signal_fd, .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = fd, .events = POLLIN},
    };
    unsigned char byte;

    if (poll(pfds, 3, timeout_ms) <= 0)
        return RT_TERM_TIME;
    if (pfds[0].revents != 0)
        return take_signal(key);
    if (pfds[1].revents == 0)
        return RT_TERM_READY;
    *key = 0;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return RT_TERM_END;
    *key = byte;
    return RT_TERM_KEY;
}
