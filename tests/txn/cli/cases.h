/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "desk.h"

extern const struct CMUnitTest cases_words[], cases_doubt[], cases_service[], cases_hook[],
    cases_reserved[];
extern const size_t cases_words_count, cases_doubt_count, cases_service_count, cases_hook_count,
    cases_reserved_count;

#endif
