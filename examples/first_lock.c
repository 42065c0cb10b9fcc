#include <rota.h>
#include <stdio.h>

int main(void)
{
    struct rota *r;
    struct rota_lock *lock;

    if (rota_open(&r, NULL, NULL) != 0) { /* $ROTA_URL, else the embedded engine */
        fprintf(stderr, "%s\n", rota_errmsg(NULL));
        return 1;
    }
    int err = rota_acquire(r, "nightly", NULL, &lock); /* waits for its turn */
    if (err == 0) {
        printf("our turn, fence %llu\n", (unsigned long long)rota_fence(lock));
        err = rota_release(lock); /* tells if the lock was lost meanwhile */
    }
    if (err != 0)
        fprintf(stderr, "%s\n", rota_errmsg(r));
    rota_close(r);
    return err != 0;
}
