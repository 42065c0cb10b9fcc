/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that runs out at a chosen allocation, for tests that make each of them fail once. */
#include "scarce.h"

#include "base/alloc.h"

#include <stdlib.h>

struct scarce scarce;

static bool runs_out(void)
{
    long n = ++scarce.asked;
    return scarce.fail_at != 0 && (scarce.after ? n >= scarce.fail_at : n == scarce.fail_at);
}

static void *scarce_calloc(size_t n, size_t size)
{
    void *p = runs_out() ? NULL : calloc(n, size);
    scarce.live += p != NULL;
    return p;
}

static void *scarce_realloc(void *old, size_t size)
{
    if (runs_out())
        return NULL;
    void *p = realloc(old, size);
    scarce.live += p != NULL && old == NULL;
    return p;
}

static void scarce_free(void *p)
{
    scarce.live -= p != NULL;
    free(p);
}

void scarce_begin(void)
{
    static const struct rt_allocator allocator = {scarce_calloc, scarce_realloc, scarce_free};
    scarce = (struct scarce){0};
    rt_alloc_set(&allocator);
}

void scarce_end(void)
{
    rt_alloc_set(NULL);
}
