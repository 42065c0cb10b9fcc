/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that counts, and runs out at a chosen allocation: for tests that make each of them fail once. */
#ifndef SCARCE_H
#define SCARCE_H

#include <stdbool.h>
#include <stddef.h>

struct scarce {
    _Atomic long asked, live; /* allocations asked for, blocks not freed: the test resets them */
    _Atomic size_t bytes;     /* in those blocks, as the system rounds them */
    _Atomic long fail_at;     /* the one that fails; 0: none */
    _Atomic bool after;       /* and all that follow it */
};

extern struct scarce scarce;

void scarce_begin(void); /* all zero; from now on the library's heap is this one */
void scarce_end(void);
/* Bytes that the library holds now, with what malloc itself needs for each block. */
size_t scarce_held(void);

/* Only N more succeed; negative: all do. */
void scarce_leave(long n);
bool scarce_is_out(void); /* the next one fails */

#endif
