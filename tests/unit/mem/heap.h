/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that counts what is out and can refuse, for unit tests. */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>

extern size_t heap_bytes, heap_blocks; /* out now */
extern long heap_fail_at; /* so many allocations succeed before all fail; -1: none fails */

void heap_count(void); /* from now on, until heap_stop */
void heap_stop(void);

#endif
