/* SPDX-License-Identifier: Apache-2.0 */
/* A semaphore: six workers, at most two at once, counting every other process that asks for permits of the same
 * name. */
#include <pthread.h>
#include <rota.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define WORKERS 6
#define AT_ONCE 2

static struct rota *client; /* one for all threads */
static atomic_int working, most, failed;

static void work(void)
{
    int now = atomic_fetch_add(&working, 1) + 1;
    int seen = atomic_load(&most);

    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_fetch_sub(&working, 1);
}

static void *worker(void *arg)
{
    const struct rota_ask ask = {.mode = ROTA_PERMITS, .take = 1, .of = AT_ONCE};

    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct rota_lock *permit;
        if (rota_acquire(client, "semaphore-example", &ask, &permit) != 0) {
            fprintf(stderr, "%s\n", rota_errmsg(client));
            atomic_fetch_add(&failed, 1);
            return NULL;
        }
        work();
        rota_release(permit);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[WORKERS];
    int started = 0;

    if (rota_open(&client, NULL, NULL) != 0) {
        fprintf(stderr, "%s\n", rota_errmsg(NULL));
        return 1;
    }
    while (started < WORKERS && pthread_create(&threads[started], NULL, worker, NULL) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    rota_close(client);
    printf("%d workers, never more than %d at once\n", started, atomic_load(&most));
    return started != WORKERS || failed != 0 || most > AT_ONCE;
}
