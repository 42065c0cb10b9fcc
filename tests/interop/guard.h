/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of an interop test guard with the lock, in a file they map; guard.go and Guard.java are its mirrors,
 * Python loads it.
 *
 * The folder has "guard" (this page) and "log" (one line per event, appended whole):
 *
 *   E SIDE GROUP FENCE NS COUNT [VALUE]   entered, COUNT read
 *   R SIDE GROUP FENCE NS COUNT           entered as a reader
 *   L SIDE GROUP FENCE NS                 left, COUNT + 1 written unless it read
 *   G SIDE GROUP WORDS                    gave up waiting
 *   V SIDE GROUP FENCE OTHER              somebody else was inside
 *   S SIDE GROUP WORDS                    the session ended
 *   O SIDE FENCE VALUE                    an observer saw a leader
 *   M SIDE GROUP FENCE MARK A B           an observer did not within 10 s
 *   W; P FENCE KEY; D REVISION KEY        the server's own word: watched from here; came; went
 *   X SIDE GROUP NS NS                    killed by the driver, begin and end
 *
 * A worker is named by its process group, which is what the driver kills. */
#ifndef RT_INTEROP_GUARD_H
#define RT_INTEROP_GUARD_H

#include <stdatomic.h>
#include <stdint.h>

struct guard_page {
    _Atomic uint64_t owner, counter, stop, grants;
    _Atomic uint64_t seen[2]; /* by Go's observer and Rota's: 2 * fence, + 1 once proclaimed anew */
};

/* Opens both files in FOLDER, for the side WHO; ends the program if that fails. */
void guard_open(const char *who, const char *folder);
int guard_stopped(void);
/* As soon as the lock is held: the count read, for guard_leave, which comes before the release. */
uint64_t guard_enter(uint64_t fence, const char *value);
void guard_leave(uint64_t fence, uint64_t count);
/* The same for readers: nobody else may write meanwhile. */
uint64_t guard_enter_shared(uint64_t fence);
void guard_leave_shared(uint64_t fence, uint64_t count);
void guard_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t guard_me(void);
/* For leaders: waits until both observers have seen MARK; else says so. */
void guard_await_seen(uint64_t fence, uint64_t mark);
void guard_saw(uint64_t mark); /* by Rota's observer */

#endif
