/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite of the branch contract: every case on every participant; SITE is this program's one. */
#ifndef TEST_BRANCH_CASES_H
#define TEST_BRANCH_CASES_H

#include <setjmp.h> // IWYU pragma: keep
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site.h"

#include <rota.h>

#include <stdio.h>
#include <string.h>

#define HERE (&SITE)

#ifdef SITE_IS_MYSQL
#define SITE site_mysql
#define IS_MYSQL true
#else
#define SITE site_postgres
#define IS_MYSQL false
#endif

extern struct seat keeper; /* one for all, directly connected */
extern long long row;      /* the next row of work */

#define ASSERT_SAYS(seat, words)                  \
    (strstr((seat)->party->errmsg, words) != NULL \
         ? (void)0                                \
         : assert_string_equal((seat)->party->errmsg, words))

extern const struct CMUnitTest cases_plain[], cases_losses[], cases_peers[], cases_bad[],
    cases_last[];
extern const size_t cases_plain_count, cases_losses_count, cases_peers_count, cases_bad_count,
    cases_last_count;

#endif
