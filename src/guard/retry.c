/* SPDX-License-Identifier: Apache-2.0 */
/* Retries what others got in the way of: a few times, with a growing, random pause in between. */
#include <rota_guard.h>

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#define FIRST_US 1000
#define MOST_US 128000 /* enough for hundreds that want one row, short for a single waiter */

/* A time below LIMIT_US: callers that collided once do not collide again. Without randomness the clock's last digits
 * have to do. */
static uint64_t draw(uint64_t limit_us)
{
    struct timespec now;
    uint64_t number;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        number = (uint64_t)now.tv_nsec;
    }
    return number % limit_us;
}

static void pause_us(uint64_t us)
{
    struct timespec left = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};

    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
}

int rota_retry(uint32_t tries, rota_retry_fn *fn, void *arg)
{
    uint64_t limit_us = FIRST_US;

    if (tries == 0 || fn == NULL)
        return rota_guard_say(ROTA_INVALID, NULL);
    for (;;) {
        int err = fn(arg);
        if (err != ROTA_BUSY || --tries == 0)
            return err;
        pause_us(draw(limit_us));
        limit_us = limit_us < MOST_US ? limit_us * 2 : MOST_US;
    }
}
