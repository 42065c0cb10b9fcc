/* SPDX-License-Identifier: Apache-2.0 */
/* What the environment tells a test program: how patient it is, and from which seed it draws. scripts/test.py sets both. */
#ifndef RT_PATIENCE_H
#define RT_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t rt_told_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

/* How long to wait for what takes MS at most on a quiet machine: $ROTA_PATIENCE times as long. */
static inline uint32_t rt_patient_ms(uint32_t ms)
{
    return ms * (uint32_t)rt_told_number("ROTA_PATIENCE", 1);
}

/* What the program draws from: $ROTA_SEED, else the clock. Print it. */
static inline uint64_t rt_seed(void)
{
    return rt_told_number("ROTA_SEED", (uint64_t)time(NULL));
}

#endif
