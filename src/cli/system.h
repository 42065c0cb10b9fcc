/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of --system: made for its group, and whoever is kept out is told why. */
#ifndef RT_SYSTEM_H
#define RT_SYSTEM_H

#include <stddef.h>

/* If root is the first to use the folder and there is a group rota: makes it for that group. Otherwise
 * nothing is done: the engine makes it, or says why not. */
void rt_system_make(void);

/* What keeps this user out of the folder, in OUT, to be printed before the engine's message; "" if the user's rights
 * are not the problem. */
void rt_system_explain(char *out, size_t size);

#endif
