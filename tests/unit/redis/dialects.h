/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of dialects on a real Redis: their users, what the server has, what INSPECT shows. */
#ifndef DIALECTS_H
#define DIALECTS_H

#include "lib/user.h"
#include "one_redis.h"

#define TTL_MS 10000
#define LONG_MS 600000
#define JAVA "0b4f3c2e-9a1d-4c55-8f0e-2d6c1a7b9e10:1" /* a holder of Redisson's */

const char *url_of(const char *dialect); /* until the next */
void start(struct user *u, const char *dialect, uint32_t ttl_ms);

/* What the server says to a question, as text; "" for nil. Until the next. */
const char *ask(const char *format, const char *a, const char *b);

/* The last place that `look` saw, and its label. */
extern struct rota_place seen;
extern char seen_label[256];
size_t look(struct user *u, const char *name); /* how many there are */

/* Tries, and leaves again. */
int try_join(struct user *u, const char *name, uint32_t mode);

#endif
