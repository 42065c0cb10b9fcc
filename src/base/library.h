/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library, loaded when somebody first needs it: the build needs its headers, the library may be absent.
 *
 *     static struct rt_library library = RT_LIBRARY_INIT;
 *     if (!rt_library_have(&library, load, NULL))
 *         ... one line: what needs it, which package has it
 */
#ifndef RT_LIBRARY_H
#define RT_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>

struct rt_library {
    pthread_mutex_t mu;
    bool loaded;
};
#define RT_LIBRARY_INIT                 \
    {                                   \
        .mu = PTHREAD_MUTEX_INITIALIZER \
    }

/* Whether LOAD has succeeded, now or before. Any thread may call this; LOAD runs in one at a time. If it failed, the
 * next call runs it again: perhaps there was only no descriptor left. Nothing is ever unloaded. */
bool rt_library_have(struct rt_library *l, bool (*load)(void *arg), void *arg);

/* dlopen, for us alone; NAME NULL: what the program was linked with. NULL: it is not there. */
void *rt_library_open(const char *name);

/* Sets *TO, a pointer to a function, to NAME of HANDLE (dlopen's; NULL has nothing). False: none there, *TO is NULL. */
bool rt_library_find(void *handle, const char *name, void *to);

#endif
