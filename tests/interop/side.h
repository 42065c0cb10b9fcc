/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of rota-side share. */
#ifndef RT_INTEROP_SIDE_H
#define RT_INTEROP_SIDE_H

#include <rota.h>
#include <stdbool.h>

/* Says why, and ends the program. */
_Noreturn void side_die(const char *what, int err);

/* Does what its input says until that ends (rota_told.c). */
void side_told(struct rota *client, const char *name);

#endif
