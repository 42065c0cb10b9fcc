/* SPDX-License-Identifier: Apache-2.0 */
/* What a doctor said, kept for a test to look at. */
#ifndef RT_FINDINGS_H
#define RT_FINDINGS_H

#include <rota.h>
#include <stddef.h>

#define RT_FINDINGS_MAX 32

struct rt_findings {
    struct {
        char promise[64], verdict[16], setting[400], remedy[200];
    } at[RT_FINDINGS_MAX];
    size_t count;
};

/* Takes one verdict, as a rota_verdict_fn with the findings as its argument; a promise that is not kept must
 * have a setting and a remedy. */
void rt_findings_take(void *arg, const struct rota_verdict *v);
/* By the beginning of the promise; "" if there is none. */
const char *rt_findings_verdict(const struct rt_findings *f, const char *promise);
const char *rt_findings_setting(const struct rt_findings *f, const char *promise);
const char *rt_findings_remedy(const struct rt_findings *f, const char *promise);

#endif
