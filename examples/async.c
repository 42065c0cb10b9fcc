/* SPDX-License-Identifier: Apache-2.0 */
/* A program with its own event loop: no library thread, no call that blocks.
 *
 * Two asks for one name stand in line; the second is granted when the first lets go. */
#include <poll.h>
#include <rota.h>
#include <stdio.h>

struct job {
    const char *title;
    int *left; /* jobs not yet done */
    int err;
};

static void on_released(void *arg, int err)
{
    struct job *job = arg;

    printf("%s: released\n", job->title);
    job->err = err;
    --*job->left;
}

static void on_granted(void *arg, int err, struct rota_lock *lock)
{
    struct job *job = arg;

    if (err == 0) {
        printf("%s: granted\n", job->title);
        err = rota_release_async(lock, on_released, job);
    }
    if (err != 0) { /* not granted, or the release could not begin */
        job->err = err;
        --*job->left;
    }
}

int main(void)
{
    const struct rota_options options = {.flags = ROTA_NO_KEEPER};
    int left = 0;
    struct job jobs[2] = {{"first", &left, 0}, {"second", &left, 0}};
    struct rota *r;

    if (rota_open(&r, NULL, &options) != 0) {
        fprintf(stderr, "%s\n", rota_errmsg(NULL));
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        jobs[i].err = rota_acquire_async(r, "async-example", NULL, on_granted, &jobs[i], NULL);
        left += jobs[i].err == 0;
    }
    while (left > 0) {
        struct pollfd fd = {.fd = rota_fd(r), .events = POLLIN};
        poll(&fd, 1, rota_timeout_ms(r));
        rota_process(r); /* never blocks; callbacks run in here */
    }
    rota_close(r);
    return jobs[0].err != 0 || jobs[1].err != 0;
}
