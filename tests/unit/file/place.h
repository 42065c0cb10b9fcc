/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for one case of a test, and other processes that use it. */
#ifndef TEST_FILE_PLACE_H
#define TEST_FILE_PLACE_H

#include "lib/user.h"

#include <sys/types.h>
#include <time.h>

extern char place_folder[64], place_url[96]; /* of the case that runs */

/* How far CLOCK_REALTIME is off, for the whole case. Before 1970 it does not affect numbers: they only count. */
extern time_t place_shift_s;
#define PLACE_YEAR_S ((time_t)365 * 24 * 3600)
#define PLACE_NO_CLOCK_S (-100 * PLACE_YEAR_S)

int place_setup(void **state);
int place_teardown(void **state);
#define CASE(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

size_t place_sessions(void);      /* names in s/ */
void place_sql(const char *text); /* by a connection of its own */
void place_write(const char *name, const char *text);

/* Call first in a forked child: it ends with its parent, and at its first failed check. */
void place_child(void);
/* A process that joins NAME, and sleeps until it is ended; SIGKILL. */
pid_t place_holder(const char *name, struct rt_join j);
void place_end(pid_t pid);

/* Opening URL must fail with ERR, in one line that has SAYS in it. */
void place_refused(const char *url, int err, const char *says);

#endif
