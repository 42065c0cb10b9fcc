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

void test_long_label_is_cut(void **state);
void test_register(void **state);
void test_commit_counts(void **state);
void test_too_late_to_register(void **state);
void test_register_races_commit(void **state);
void test_begin_record(void **state);

#endif
