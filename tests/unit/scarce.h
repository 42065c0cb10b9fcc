/* SPDX-License-Identifier: Apache-2.0 */
/* A heap that runs out at a chosen allocation, for tests that make each of them fail once. */
#ifndef SCARCE_H
#define SCARCE_H

#include <stdbool.h>

struct scarce {
    long asked, live; /* allocations asked for, blocks not freed: the test resets them */
    long fail_at;     /* the so many-th fails; 0: none */
    bool after;       /* and all that follow it */
};

extern struct scarce scarce;

void scarce_begin(void); /* all zero; from now on the library's heap is this one */
void scarce_end(void);

#endif
