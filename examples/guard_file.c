/* SPDX-License-Identifier: Apache-2.0 */
/* A counter in a file shared by several machines, or by processes that may be stopped: claim, read, replace. The file's
 * own guard (visits.fence) refuses whoever comes late. */
#include <inttypes.h>
#include <rota_guard.h>

static int count_visit(const char *path, uint64_t fence)
{
    char text[32] = "";

    int err = rota_guard_file(path, fence, NULL,
                              0); /* claim: from here on earlier fences are refused */
    if (err != 0)
        return err;
    FILE *file = fopen(path, "r"); /* look */
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) == NULL)
            text[0] = '\0';
        fclose(file);
    }
    int length = snprintf(text, sizeof(text), "%ld\n", strtol(text, NULL, 10) + 1);
    return rota_guard_file(path, fence, text, (size_t)length); /* replace */
}

/* A tenure in which nothing is done: imagine that its holder sleeps and wakes up too late. */
static uint64_t sleeping_fence(struct rota *r)
{
    struct rota_lock *lock;
    uint64_t fence = 0;

    if (rota_acquire(r, "visits", NULL, &lock) == 0) {
        fence = rota_fence(lock);
        rota_release(lock);
    }
    return fence;
}

int main(void)
{
    struct rota *r;
    struct rota_lock *lock;
    uint64_t fence = 0, before;

    if (rota_open(&r, NULL, NULL) != 0) {
        fprintf(stderr, "%s\n", rota_errmsg(NULL));
        return 1;
    }
    before = sleeping_fence(r);
    int err = rota_acquire(r, "visits", NULL, &lock);
    if (err == 0) {
        fence = rota_fence(lock);
        err = count_visit("visits", fence);
        if (err != 0)
            fprintf(stderr, "%s\n", rota_errmsg(NULL));
        rota_release(lock);
    }
    rota_close(r);
    if (err != 0)
        return 1;
    err = count_visit("visits", before);
    printf("fence %" PRIu64 " counted; the one before is told: %s\n", fence, rota_strerror(err));
    return err != ROTA_LOST;
}
