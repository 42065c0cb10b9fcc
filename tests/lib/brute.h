/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's oracle: tries all orders. For histories of a handful of operations. */
#ifndef RT_BRUTE_H
#define RT_BRUTE_H

#include "checker.h"

#define RT_BRUTE_MAX 12

/* Whether there is an order of effects that the model of checker.h allows. All records are of one lock;
 * at most RT_BRUTE_MAX. Written from the model alone, sharing nothing with the checker. */
bool rt_brute_legal(const struct rt_record *records, size_t n, const struct rt_check_options *opts);

#endif
