/* SPDX-License-Identifier: Apache-2.0 */
/* Children, signals, shared words, temporary folders. */
#include "proc.h"

#include "patience.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "proc: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- Folders and time --------------------------------------------------- */

#define MEMORY "/dev/shm"
#define MEMORY_PLENTY (UINT64_C(3) << 30) /* an etcd takes 128 MB at once; tests run side by side */

static char tmpdir[PATH_MAX], memdir[PATH_MAX];
static pid_t tmpdir_owner;

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void tmpdir_remove(void)
{
    if (getpid() != tmpdir_owner)
        return;
    nftw(tmpdir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (memdir[0] != '\0')
        nftw(memdir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_dir(char *out, size_t size, const char *pattern)
{
    snprintf(out, size, "%s", pattern);
    if (mkdtemp(out) == NULL)
        die(out);
}

const char *rt_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char pattern[PATH_MAX];

    if (tmpdir[0] != '\0')
        return tmpdir;
    snprintf(pattern, sizeof(pattern), "%s/rota-test-XXXXXX",
             base != NULL && base[0] != '\0' ? base : "/tmp");
    make_dir(tmpdir, sizeof(tmpdir), pattern);
    tmpdir_owner = getpid();
    atexit(tmpdir_remove);
    return tmpdir;
}

/* Sweeps what tests left in memory when they could not clean up: a watchdog's, those killed by a time-out. */
static void memdir_sweep(void)
{
    DIR *dir = opendir(MEMORY);
    struct dirent *entry;
    char path[PATH_MAX];
    int pid;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (sscanf(entry->d_name, "rota-test-%d-", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 ||
            errno != ESRCH)
            continue;
        snprintf(path, sizeof(path), MEMORY "/%s", entry->d_name);
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    if (dir != NULL)
        closedir(dir);
}

const char *rt_memdir(void)
{
    const char *base = getenv("TMPDIR");
    struct statvfs fs;
    char owned[64];

    (void)rt_tmpdir(); /* they go together */
    if (memdir[0] != '\0')
        return memdir;
    if ((base != NULL && base[0] != '\0') || access(MEMORY, W_OK) != 0)
        return tmpdir;
    memdir_sweep();
    if (statvfs(MEMORY, &fs) != 0 || (uint64_t)fs.f_bavail * fs.f_frsize < MEMORY_PLENTY)
        return tmpdir;
    snprintf(owned, sizeof(owned), MEMORY "/rota-test-%d-XXXXXX", (int)getpid());
    make_dir(memdir, sizeof(memdir), owned);
    return memdir;
}

static const char *volatile watchdog_message;

/* Children die with us (PR_SET_PDEATHSIG), so that a hang leaves nothing running. */
static void watchdog_bark(int sig)
{
    const char *message = watchdog_message;
    ssize_t ignored;

    (void)sig;
    ignored = write(STDERR_FILENO, "watchdog: ", 10);
    ignored = write(STDERR_FILENO, message, strlen(message));
    ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
    _exit(124);
}

void rt_watchdog(unsigned seconds, const char *message)
{
    struct sigaction sa = {.sa_handler = watchdog_bark};

    watchdog_message = message;
    if (sigaction(SIGALRM, &sa, NULL) != 0)
        die("sigaction");
    alarm(rt_patient_ms(seconds));
}

/* ---- Children ----------------------------------------------------------- */

pid_t rt_proc_start(rt_proc_fn *fn, int index, void *arg)
{
    pid_t parent = getpid();
    pid_t pid;
    int code;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    code = fn(index, arg);
    fflush(NULL);
    _exit(code);
}

static int status_code(int status)
{
    return WIFSIGNALED(status) ? RT_PROC_SIGNALED + WTERMSIG(status) : WEXITSTATUS(status);
}

int rt_proc_wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            die("waitpid");
    }
    return status_code(status);
}

size_t rt_proc_run_all(size_t n, rt_proc_fn *fn, void *arg)
{
    pid_t *pids = calloc(n, sizeof(*pids));
    size_t failed = 0;

    if (pids == NULL)
        die("calloc");
    for (size_t i = 0; i < n; i++)
        pids[i] = rt_proc_start(fn, (int)i, arg);
    for (size_t i = 0; i < n; i++) {
        int code = rt_proc_wait(pids[i]);

        if (code != 0)
            fprintf(stderr, "child %zu of %zu ended with %d\n", i, n, code);
        failed += code != 0;
    }
    free(pids);
    return failed;
}

void rt_proc_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    rt_proc_wait(pid);
}

void rt_proc_stop(pid_t pid)
{
    int status;

    if (kill(pid, SIGSTOP) != 0)
        die("SIGSTOP");
    while (waitpid(pid, &status, WUNTRACED) < 0) {
        if (errno != EINTR)
            die("waitpid");
    }
    if (!WIFSTOPPED(status)) {
        fprintf(stderr, "proc: child %d ended with %d instead of stopping\n", (int)pid,
                status_code(status));
        abort();
    }
}

void rt_proc_cont(pid_t pid)
{
    if (kill(pid, SIGCONT) != 0)
        die("SIGCONT");
}

/* ---- A fork server ------------------------------------------------------ */

struct rt_forkserver {
    pid_t pid;
    int to, from; /* pipes: requests down, answers up */
};

#define RUNS_STILL (-1)

struct request {
    enum { SPAWN, WAIT, LOOK } what;
    int number; /* SPAWN: the child's index; else its pid */
};

/* Its code; RUNS_STILL: it has none yet. */
static int look(pid_t pid)
{
    int status = 0;
    pid_t ended;

    do
        ended = waitpid(pid, &status, WNOHANG);
    while (ended < 0 && errno == EINTR);
    if (ended < 0)
        die("waitpid");
    return ended == 0 ? RUNS_STILL : status_code(status);
}

static void read_all(int fd, void *buf, size_t size)
{
    ssize_t n;

    do
        n = read(fd, buf, size);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        _exit(0); /* only the server sees this: its test is gone, and its children go with it */
    if (n != (ssize_t)size) /* whole requests are smaller than PIPE_BUF */
        die("fork server");
}

static int serve(int in, int out, rt_proc_fn *fn, void *arg)
{
    struct request req;
    int answer;

    for (;;) {
        read_all(in, &req, sizeof(req));
        answer = req.what == SPAWN  ? (int)rt_proc_start(fn, req.number, arg)
                 : req.what == WAIT ? rt_proc_wait((pid_t)req.number)
                                    : look((pid_t)req.number);
        if (write(out, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
            return 1;
    }
}

struct rt_forkserver *rt_forkserver_start(rt_proc_fn *fn, void *arg)
{
    struct rt_forkserver *fs = calloc(1, sizeof(*fs));
    int down[2], up[2];

    /* A server that the test starts later must not keep them open: their end is the end of this one. */
    if (fs == NULL || pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0)
        die("fork server");
    fflush(NULL);
    fs->pid = fork();
    if (fs->pid < 0)
        die("fork");
    if (fs->pid == 0) {
        close(down[1]);
        close(up[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve(down[0], up[1], fn, arg));
    }
    close(down[0]);
    close(up[1]);
    fs->to = down[1];
    fs->from = up[0];
    return fs;
}

static int forkserver_ask(struct rt_forkserver *fs, struct request req)
{
    int answer = -1;

    if (write(fs->to, &req, sizeof(req)) != (ssize_t)sizeof(req))
        die("fork server");
    read_all(fs->from, &answer, sizeof(answer));
    return answer;
}

pid_t rt_forkserver_spawn(struct rt_forkserver *fs, int index)
{
    return (pid_t)forkserver_ask(fs, (struct request){SPAWN, index});
}

int rt_forkserver_wait(struct rt_forkserver *fs, pid_t pid)
{
    return forkserver_ask(fs, (struct request){WAIT, (int)pid});
}

bool rt_forkserver_ended(struct rt_forkserver *fs, pid_t pid, int *code)
{
    int answer = forkserver_ask(fs, (struct request){LOOK, (int)pid});

    if (answer != RUNS_STILL)
        *code = answer;
    return answer != RUNS_STILL;
}

void rt_forkserver_stop(struct rt_forkserver *fs)
{
    if (fs == NULL)
        return;
    close(fs->to);
    close(fs->from);
    rt_proc_wait(fs->pid);
    free(fs);
}

/* ---- Shared memory ------------------------------------------------------ */

void *rt_shared_new(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        die("mmap");
    return p;
}

void rt_shared_free(void *p, size_t size)
{
    if (p != NULL)
        munmap(p, size);
}

void rt_shared_wait(uint32_t *word, uint32_t value)
{
    for (;;) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

        if (seen >= value)
            return;
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
    }
}

uint32_t rt_shared_add(uint32_t *word, uint32_t n)
{
    uint32_t now = __atomic_add_fetch(word, n, __ATOMIC_ACQ_REL);

    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return now;
}

struct rt_barrier *rt_barrier_new(uint32_t parties)
{
    struct rt_barrier *b = rt_shared_new(sizeof(*b));

    b->parties = parties;
    return b;
}

void rt_barrier_free(struct rt_barrier *b)
{
    rt_shared_free(b, sizeof(*b));
}

void rt_barrier_wait(struct rt_barrier *b)
{
    rt_shared_add(&b->arrived, 1);
    rt_shared_wait(&b->arrived, b->parties);
}
