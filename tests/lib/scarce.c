/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that counts, and runs out at a chosen allocation: for tests that make each of them fail once. */
#include "lib/scarce.h"

#include "base/alloc.h"

#include <malloc.h>
#include <stdlib.h>

struct scarce scarce;

static bool runs_out(void)
{
    long n = ++scarce.asked;
    return scarce.fail_at != 0 && (scarce.after ? n >= scarce.fail_at : n == scarce.fail_at);
}

/* Its own blocks may be freed after its end, and earlier ones during it: so blocks have no header of ours. */
static void *counted(void *p, bool fresh, size_t before)
{
    scarce.live += p != NULL && fresh;
    if (p != NULL)
        scarce.bytes += malloc_usable_size(p) - before;
    return p;
}

static void *scarce_calloc(size_t n, size_t size)
{
    return runs_out() ? NULL : counted(calloc(n, size), true, 0);
}

static void *scarce_realloc(void *old, size_t size)
{
    size_t before = malloc_usable_size(old);
    bool fresh = old == NULL;
    return runs_out() ? NULL : counted(realloc(old, size), fresh, before);
}

static void scarce_free(void *p)
{
    scarce.live -= p != NULL;
    scarce.bytes -= malloc_usable_size(p);
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

size_t scarce_held(void)
{
    return scarce.bytes + (size_t)scarce.live * sizeof(size_t);
}

void scarce_leave(long n)
{
    scarce.fail_at = n < 0 ? 0 : scarce.asked + n + 1;
    scarce.after = n >= 0;
}

bool scarce_is_out(void)
{
    return scarce.fail_at != 0 && scarce.asked + 1 >= scarce.fail_at;
}
