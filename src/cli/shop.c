/* SPDX-License-Identifier: Apache-2.0 */
/* The shop of the demo: a stock in a file, sold the way that needs a lock. */
#include "cli/shop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 32 /* always the same, so that one write replaces the whole */

static int read_line(const struct rt_shop *shop, uint32_t *left, uint64_t *fence)
{
    char line[LINE_BYTES + 1] = "";

    if (pread(shop->fd, line, LINE_BYTES, 0) < 0)
        return errno;
    /* NOLINTNEXTLINE(cert-err34-c): we wrote it ourselves, in this form */
    if (sscanf(line, "%" SCNu32 " %" SCNu64, left, fence) != 2)
        return EIO;
    return 0;
}

static int write_line(const struct rt_shop *shop, uint32_t left, uint64_t fence)
{
    char line[LINE_BYTES + 1];

    snprintf(line, sizeof(line), "%10" PRIu32 " %20" PRIu64 "\n", left, fence);
    ssize_t n = pwrite(shop->fd, line, LINE_BYTES, 0);
    if (n < 0)
        return errno;
    return n == LINE_BYTES ? 0 : EIO;
}

int rt_shop_open(struct rt_shop *shop, const char *path, uint32_t stock)
{
    shop->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (shop->fd < 0)
        return errno;
    int err = write_line(shop, stock, 0);
    if (err != 0)
        rt_shop_close(shop);
    return err;
}

void rt_shop_close(struct rt_shop *shop)
{
    close(shop->fd);
    shop->fd = -1;
}

int rt_shop_left(const struct rt_shop *shop, uint32_t *left)
{
    uint64_t fence;

    return read_line(shop, left, &fence);
}

int rt_shop_sell(const struct rt_shop *shop, const struct rota_lock *lock, bool *sold)
{
    const struct timespec think = {.tv_nsec = RT_SHOP_THINK_US * 1000L};
    uint32_t left;
    uint64_t fence;

    *sold = false;
    int err = read_line(shop, &left, &fence);
    if (err != 0 || left == 0)
        return err;
    nanosleep(&think, NULL);
    /* The shop itself checks the fence, which a lock alone cannot do. */
    if (lock != NULL && rota_fence(lock) != 0 && rota_guard(lock, &fence) != 0)
        return ESTALE;
    err = write_line(shop, left - 1, fence);
    *sold = err == 0;
    return err;
}
