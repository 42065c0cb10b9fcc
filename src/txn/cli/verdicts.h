/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor judges by: the settings of a database, a verdict per promise. */
#ifndef RT_VERDICTS_H
#define RT_VERDICTS_H

#include "txn/cli/visit.h"

struct rt_finding {
    const char *of; /* "journal", or the resource */
    const char *promise;
    const char *verdict; /* "kept", "limited", "broken", as rota doctor's */
    const char *setting, *remedy;
};
typedef void rt_finding_fn(void *arg, const struct rt_finding *finding);

/* Checks all promises of the resource NAME, on the spot; that it cannot be asked is a verdict, too. */
void rt_verdicts_of(const struct rt_visit *v, const char *name, rt_finding_fn *fn, void *arg);

#endif
