/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody at a terminal: runs a command on a pty and plays a script from stdin.
 *
 *   pty COMMAND [ARG]...
 *
 *   send TEXT      types TEXT; \r \n \t \\ and \ooo as in C
 *   expect TEXT    waits until TEXT was printed, after what was expected before
 *   size ROWS COLS changes the window
 *   run COMMAND    something elsewhere, by sh, that must end with 0
 *   end            waits for the end of the command
 *
 * Exits with the command's code, or with 99 and all that was printed if something expected
 * did not come. Also what the tests run there, where every byte matters:
 *
 *   pty --interrupts   counts SIGINT; prints the count when a line was read
 *   pty --window       prints the window's size whenever it is told that it changed */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 30000

static int terminal;
static char printed[1 << 16];
static size_t length, matched; /* of printed; what expect has gone over */

static void give_up(const char *what, const char *text)
{
    fprintf(stderr, "pty: %s '%s'. Printed:\n%s\n", what, text, printed);
    exit(99);
}

/* ---- What the tests run ------------------------------------------------- */

static volatile sig_atomic_t count;

static void on_signal(int signo)
{
    (void)signo;
    count = count + 1;
    if (write(STDOUT_FILENO, "told\n", 5) != 5)
        _exit(1);
}

static int count_interrupts(void)
{
    char byte;

    signal(SIGINT, on_signal); /* restarts the read */
    printf("counting\n");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
        ;
    printf("interrupts=%d\n", (int)count);
    return 0;
}

static int show_window(void)
{
    struct winsize size;
    sigset_t set;
    int signo;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("looking\n");
    fflush(stdout);
    sigwait(&set, &signo);
    ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    printf("window=%dx%d\n", size.ws_row, size.ws_col);
    return 0;
}

/* ---- The script --------------------------------------------------------- */

/* Reads what is printed; false at its end. */
static int take(void)
{
    struct pollfd p = {.fd = terminal, .events = POLLIN};

    if (poll(&p, 1, PATIENCE_MS) <= 0)
        give_up("nothing more was", "printed");
    if (length + 1 >= sizeof(printed))
        give_up("too much was", "printed");
    ssize_t n = read(terminal, printed + length, sizeof(printed) - 1 - length);
    if (n <= 0)
        return 0; /* EIO: nobody has the terminal open any more */
    length += (size_t)n;
    printed[length] = '\0';
    return 1;
}

static void expect(const char *text)
{
    char *found;

    while ((found = strstr(printed + matched, text)) == NULL) {
        if (!take())
            give_up("not printed before the end:", text);
    }
    matched = (size_t)(found - printed) + strlen(text);
}

static void type(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        char c = *p, *end;
        if (c == '\\' && p[1] >= '0' && p[1] <= '7') {
            char digits[4] = {p[1], p[2], p[3], '\0'};
            c = (char)strtol(digits, &end, 8);
            p += end - digits;
        } else if (c == '\\' && p[1] != '\0') {
            p++;
            c = *p == 'r' ? '\r' : *p == 'n' ? '\n' : *p == 't' ? '\t' : *p;
        }
        if (write(terminal, &c, 1) != 1)
            give_up("cannot type", text);
    }
}

static void resize(const char *text)
{
    int rows, columns;

    if (sscanf(text, "%d %d", &rows, &columns) != 2)
        give_up("no size:", text);
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    ioctl(terminal, TIOCSWINSZ, &size);
}

static void play(char *line)
{
    char *text = strchr(line, ' ');

    line[strcspn(line, "\n")] = '\0';
    text = text != NULL ? text + 1 : line + strlen(line);
    if (strncmp(line, "send ", 5) == 0)
        type(text);
    else if (strncmp(line, "expect ", 7) == 0)
        expect(text);
    else if (strncmp(line, "size ", 5) == 0)
        resize(text);
    else if (strncmp(line, "run ", 4) == 0) {
        if (system(text) != 0)
            give_up("failed:", text);
    } else if (strcmp(line, "end") == 0) {
        while (take())
            ;
    } else if (line[0] != '\0')
        give_up("what is", line);
}

int main(int argc, char **argv)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char line[1024];
    int status;

    if (argc == 2 && strcmp(argv[1], "--interrupts") == 0)
        return count_interrupts();
    if (argc == 2 && strcmp(argv[1], "--window") == 0)
        return show_window();
    pid_t pid = argc > 1 ? forkpty(&terminal, NULL, NULL, &size) : -1;
    if (pid == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (pid < 0)
        give_up("cannot run", argc > 1 ? argv[1] : "nothing");
    fcntl(terminal, F_SETFD, FD_CLOEXEC);
    while (fgets(line, sizeof(line), stdin) != NULL)
        play(line);
    if (waitpid(pid, &status, 0) != pid)
        give_up("lost", argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
