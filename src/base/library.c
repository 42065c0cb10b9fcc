/* SPDX-License-Identifier: Apache-2.0 */
/* Finds shared libraries and their functions. */
#include "base/library.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as objects");

bool rt_library_have(struct rt_library *l, bool (*load)(void *arg), void *arg)
{
    assert(load != NULL);
    pthread_mutex_lock(&l->mu);
    l->loaded = l->loaded || load(arg);
    bool have = l->loaded;
    pthread_mutex_unlock(&l->mu);
    return have;
}

void *rt_library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

bool rt_library_find(void *handle, const char *name, void *to)
{
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;

    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}
