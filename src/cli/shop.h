/* SPDX-License-Identifier: Apache-2.0 */
/* The shop of the demo: a stock in a file, sold the way that needs a lock. */
#ifndef RT_SHOP_H
#define RT_SHOP_H

#include <rota.h>
#include <stdbool.h>
#include <stdint.h>

#define RT_SHOP_THINK_US 1000 /* between read and write: long enough for others to come in */

/* The file is one line of text: items left, and the highest fence seen. */
struct rt_shop {
    int fd;
};

/* 0 or errno. open makes the file, with STOCK items in it. */
int rt_shop_open(struct rt_shop *shop, const char *path, uint32_t stock);
void rt_shop_close(struct rt_shop *shop);
int rt_shop_left(const struct rt_shop *shop, uint32_t *left);

/* Sells one item: reads the stock, thinks, writes it back. *SOLD false: none was left. With LOCK (may be NULL) its
 * fence guards the write: ESTALE if a later holder was already there. */
int rt_shop_sell(const struct rt_shop *shop, const struct rota_lock *lock, bool *sold);

#endif
