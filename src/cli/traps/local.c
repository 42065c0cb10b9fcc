/* SPDX-License-Identifier: Apache-2.0 */
/* Traps of files and processes: no server is needed. */
#include "cli/traps/traps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

/* Rota's engine from here on: the embedded one, in the scratch folder. */
static void on_file(struct rt_story *story)
{
    char url[PATH_MAX];

    snprintf(url, sizeof(url), "file:%s/locks", story->house->folder);
    rt_story_on(story, url);
}

/* ---- The lost update ---------------------------------------------------- */

static int read_stock(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[16] = "-1";

    if (file == NULL)
        return -1;
    (void)!fgets(line, sizeof(line), file);
    fclose(file);
    return (int)strtol(line, NULL, 10);
}

static void write_stock(struct rt_story *story, const char *path, int stock)
{
    FILE *file = fopen(path, "we");

    if (file == NULL || fprintf(file, "%d\n", stock) < 0)
        story->over = true;
    if (file != NULL && fclose(file) != 0)
        story->over = true;
}

void rt_trap_lost_update(struct rt_story *story)
{
    char path[PATH_MAX], words[PATH_MAX + 128];

    snprintf(path, sizeof(path), "%s/stock", story->house->folder);
    rt_story_act(story, "broken", "two look, and both write what they computed");
    write_stock(story, path, 10);
    rt_story_say(story, "the stock is 10");
    int a = read_stock(path), b = read_stock(path);
    rt_story_say(story, "A  reads %d", a);
    rt_story_say(story, "B  reads %d", b);
    write_stock(story, path, a - 1);
    rt_story_say(story, "A  sells one and writes %d", a - 1);
    write_stock(story, path, b - 1);
    rt_story_say(story, "B  sells one and writes %d", b - 1);
    rt_story_say(story, "two were sold, and the stock is %d", read_stock(path));
    story->broken = a == 10 && read_stock(path) == 9;

    rt_story_act(story, "mended", "look and write under one lock");
    on_file(story);
    write_stock(story, path, 10);
    snprintf(words, sizeof(words),
             "run stock -- sh -c 'read -r n <%s/stock; echo $((n - 1)) >%s/stock'",
             story->house->folder, story->house->folder);
    bool sold = rt_story_rota(story, "A", words) == 0 && rt_story_rota(story, "B", words) == 0;
    rt_story_say(story, "two were sold, and the stock is %d", read_stock(path));
    story->mended = sold && read_stock(path) == 8;
}

/* ---- flock and its heirs ------------------------------------------------ */

#define DAEMON_S 60 /* then it ends, even if nobody is left to end it */

/* What cron might start: takes the lock, leaves a daemon behind, and ends. Reports when it has both: *DAEMON. */
static pid_t start_job(const char *path, pid_t *daemon)
{
    int tell[2];

    if (pipe2(tell, O_CLOEXEC) != 0)
        return -1;
    pid_t job = fork();
    if (job == 0) {
        int fd = open(path, O_RDWR | O_CREAT, 0600); /* without O_CLOEXEC, as shells do */
        pid_t left = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? fork() : -1;
        if (left == 0) {
            signal(SIGALRM, SIG_DFL);
            alarm(DAEMON_S);
            close(tell[1]);
            for (;;)
                pause();
        }
        (void)!write(tell[1], &left, sizeof(left));
        _exit(left > 0 ? 0 : 1);
    }
    close(tell[1]);
    if (job < 0 || read(tell[0], daemon, sizeof(*daemon)) != (ssize_t)sizeof(*daemon))
        *daemon = -1;
    close(tell[0]);
    return job;
}

static bool flock_is_free(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool taken = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd >= 0)
        close(fd);
    return taken;
}

void rt_trap_flock(struct rt_story *story)
{
    char path[PATH_MAX];
    pid_t daemon = -1;

    snprintf(path, sizeof(path), "%s/job.lock", story->house->folder);
    rt_story_act(story, "broken",
                 "a lock that belongs to a descriptor, and a daemon that inherits it");
    rt_story_say(story, "A$ exec 9>job.lock; flock -n 9; daemon &");
    pid_t job = start_job(path, &daemon);
    while (job > 0 && waitpid(job, NULL, 0) < 0 && errno == EINTR)
        ;
    rt_story_say(story, "A  has ended; its daemon runs on");
    story->broken = daemon > 0 && !flock_is_free(path);
    rt_story_say(story, "B  tries flock(job.lock): %s",
                 story->broken ? "held; the daemon has the descriptor, and the lock with it"
                               : "free");
    if (daemon > 0)
        kill(daemon, SIGKILL);

    rt_story_act(story, "mended", "the lock belongs to the command that was run, and ends with it");
    on_file(story);
    bool left = rt_story_rota(story, "A",
                              "run job -- sh -c 'sleep 5 </dev/null >/dev/null 2>&1 &'") == 0;
    rt_story_say(story, "A  has ended; its daemon runs on");
    story->mended = left && rt_story_rota(story, "B", "run -n job -- echo holds") == 0;
}
