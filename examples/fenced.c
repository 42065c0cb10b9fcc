/* SPDX-License-Identifier: Apache-2.0 */
/* What a lock cannot do alone: stop a holder that slept too long. The resource can, with the fence: it refuses a write
 * from an earlier holder than one it has already seen. */
#include <rota.h>
#include <stdio.h>

/* A resource remembers the highest fence that wrote to it. */
struct account {
    long balance;
    uint64_t fence;
};

static int account_add(struct account *account, const struct rota_lock *lock, long amount)
{
    int err = rota_guard(lock, &account->fence);

    if (err != 0)
        return err;
    account->balance += amount;
    return 0;
}

/* A sleeps while it holds the lock; B, in real life another machine, comes next; then A wakes up. */
static int play(struct rota *a, struct rota *b, struct account *account)
{
    struct rota_lock *slow, *quick;

    int err = rota_acquire(a, "account", NULL, &slow);
    if (err != 0)
        return err;
    err = rota_break(b, "account", rota_fence(slow)); /* as a ttl or an administrator would */
    if (err == 0)
        err = rota_acquire(b, "account", NULL, &quick);
    if (err == 0) {
        err = account_add(account, quick, 100);
        rota_release(quick);
    }
    int late = account_add(account, slow, 1);
    printf("the late writer is told: %s\n", rota_strerror(late));
    rota_release(slow);
    if (err == 0 && late != ROTA_LOST)
        err = ROTA_INTERNAL;
    return err;
}

int main(void)
{
    struct account account = {0, 0};
    struct rota *a = NULL, *b = NULL;

    int err = rota_open(&a, NULL, NULL);
    if (err == 0)
        err = rota_open(&b, NULL, NULL);
    if (err == 0)
        err = play(a, b, &account);
    if (err != 0)
        fprintf(stderr, "%s\n", rota_strerror(err));
    else
        printf("balance %ld\n", account.balance);
    rota_close(b);
    rota_close(a);
    return err != 0 || account.balance != 100;
}
