/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the conformance suite share. */
#ifndef TEST_JOURNAL_TOGETHER_H
#define TEST_JOURNAL_TOGETHER_H

#include "clerk.h"

#define RACED 60
#define MANY 300

extern char url[1024]; /* of the journal under test */

void test_raced(void **state);
void test_many_at_once(void **state);
void test_decided_together(void **state);

#endif
